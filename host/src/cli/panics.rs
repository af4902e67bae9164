//! What happens when the host itself has a bug: the run is lost, what it recorded is not.
//!
//! The shipped program does not unwind (a seventh of its size was for that), so nothing
//! can be left to destructors. What the run started is ended by its guardian, which notices
//! that the host is gone.

use super::exit::ExitCode;
use super::{front, output};

/// Makes a panic end the program: after `last_words` have saved what is there and said where.
pub fn on_panic(last_words: impl Fn() -> String + Send + Sync + 'static) {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        usual(info);
        output::error(&format!(
            "this is a bug in mswea-host, please report it; {}",
            last_words()
        ));
        front::settle();
        std::process::exit(i32::from(ExitCode::Failed.code()));
    }));
}
