//! The terminal's input while the program reads it: keys arrive at once and are not echoed. Signals
//! stay signals, so Ctrl-C works whatever the program does.

use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::stdio::stdin;
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios};
use rustix::termios::{tcgetattr, tcgetpgrp, tcsetattr};

/// How often the lock is tried at the end.
const TRIES: usize = 20;
const PAUSE: Duration = Duration::from_millis(5);

/// What the program has changed.
struct Taken {
    /// How the terminal was before.
    before: Option<Termios>,
    /// Whether it was given back for good.
    is_over: bool,
}

static TAKEN: Mutex<Taken> = Mutex::new(Taken {
    before: None,
    is_over: false,
});

/// Has the terminal pass on each key. Also after the program was stopped, or another program has
/// changed the terminal; no change if it is as it should be.
pub(super) fn take() -> io::Result<()> {
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    let now = tcgetattr(stdin())?;
    let lines = LocalModes::ICANON | LocalModes::ECHO;
    if taken.is_over || !now.local_modes.intersects(lines) {
        return Ok(());
    }
    let mut keys = now.clone();
    taken.before.get_or_insert(now);
    keys.local_modes -= lines | LocalModes::IEXTEN;
    keys.special_codes[SpecialCodeIndex::VMIN] = 1;
    keys.special_codes[SpecialCodeIndex::VTIME] = 0;
    Ok(tcsetattr(stdin(), OptionalActions::Now, &keys)?)
}

/// Makes the terminal as it was, for another program.
pub(super) fn lend() {
    put_back(&mut TAKEN.lock().unwrap_or_else(PoisonError::into_inner));
}

/// Gives the terminal back as it was, for good. Returns whether it was changed.
pub(crate) fn give_back() -> bool {
    for _ in 0..TRIES {
        // A thread that panicked may hold the lock.
        if let Ok(mut taken) = TAKEN.try_lock() {
            taken.is_over = true;
            let was_taken = taken.before.is_some();
            put_back(&mut taken);
            return was_taken;
        }
        std::thread::sleep(PAUSE);
    }
    false
}

fn put_back(taken: &mut Taken) {
    // In the background, a change of the terminal would stop the program.
    if let Some(before) = taken.before.take()
        && is_ours()
    {
        let _ = tcsetattr(stdin(), OptionalActions::Now, &before);
    }
}

/// Whether the program may read: it is in the foreground.
pub(super) fn is_ours() -> bool {
    tcgetpgrp(stdin()).is_ok_and(|group| group == rustix::process::getpgrp())
}
