//! Text that is shown to people: other programs' text made safe for terminals, logs and reports
//! ([`harmless`]), suggestions for misspelt names ([`nearest`]), and digests as text ([`hex`]). Also
//! JSON that other programs wrote ([`read_json`]).

mod hex;
mod json;
mod safe;
mod similar;

pub use hex::hex;
pub use json::{MendedJson, read_json};
pub use safe::{SafePieces, as_html, harmless, one_line, visible};
pub use similar::{near, nearest};
