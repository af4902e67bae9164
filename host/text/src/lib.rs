//! Text that is shown to people: other programs' text made safe for terminals, logs and reports
//! ([`harmless`]), suggestions for misspelt names ([`nearest`]), and digests as text ([`hex`]).

mod hex;
mod safe;
mod similar;

pub use hex::hex;
pub use safe::{SafePieces, as_html, harmless, one_line, visible};
pub use similar::{near, nearest};
