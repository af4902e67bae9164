//! Text that is shown to people: other programs' text made safe for terminals, logs and reports
//! ([`harmless`]), and suggestions for misspelt names ([`nearest`]).

mod safe;
mod similar;

pub use safe::{SafePieces, as_html, harmless, one_line, visible};
pub use similar::{near, nearest};
