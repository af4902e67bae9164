//! The terminal's input while the program reads it: keys arrive at once and are not echoed. Signal
//! keys still send signals, so Ctrl-C works whatever the program does.

use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::stdio::stdin;
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios};
use rustix::termios::{tcgetattr, tcgetpgrp, tcsetattr};

/// How often locking is tried at the end.
const TRIES: usize = 20;
const PAUSE: Duration = Duration::from_millis(5);

/// The changes to the terminal.
struct Taken {
    /// The terminal's settings before.
    before: Option<Termios>,
    /// Whether the terminal was restored for good.
    is_over: bool,
}

static TAKEN: Mutex<Taken> = Mutex::new(Taken {
    before: None,
    is_over: false,
});

/// Makes the terminal pass on each key. Called again after the program was stopped, or another
/// program has changed the terminal; does nothing if the settings are right.
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
    // A read does not wait, because typed text may be gone: Ctrl-C flushes it.
    keys.special_codes[SpecialCodeIndex::VMIN] = 0;
    keys.special_codes[SpecialCodeIndex::VTIME] = 0;
    Ok(tcsetattr(stdin(), OptionalActions::Now, &keys)?)
}

/// Allows taking the terminal again after it was restored at the end of an earlier run.
pub(super) fn begin() {
    TAKEN.lock().unwrap_or_else(PoisonError::into_inner).is_over = false;
}

/// Restores the terminal for another program.
pub(super) fn lend() {
    put_back(&mut TAKEN.lock().unwrap_or_else(PoisonError::into_inner));
}

/// Restores the terminal for good. Returns whether it was changed.
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
    // In the background, changing the terminal would stop the program.
    if let Some(before) = taken.before.take()
        && is_ours()
    {
        let _ = tcsetattr(stdin(), OptionalActions::Now, &before);
    }
}

/// Reads typed bytes; none in the background, or if there are none.
///
/// # Errors
/// The system's error if there is no terminal any more.
pub(super) fn read(bytes: &mut [u8]) -> io::Result<Option<usize>> {
    let is_read = without_stops(|| rustix::io::read(stdin(), bytes));
    match is_read {
        Ok(0) if is_hung_up() => Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(count) => Ok(Some(count)),
        Err(rustix::io::Errno::INTR) => Ok(None),
        Err(_) if is_away() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Calls `read` with the signal blocked by which the terminal stops a background program that
/// reads. A program that was stopped there would continue the read in the foreground, and wait for
/// a key.
fn without_stops<T>(read: impl FnOnce() -> T) -> T {
    let mut stops = MaybeUninit::uninit();
    let mut before = MaybeUninit::uninit();
    // SAFETY: the sets are initialised before they are read, and the mask of this thread is
    // restored.
    unsafe {
        libc::sigemptyset(stops.as_mut_ptr());
        libc::sigaddset(stops.as_mut_ptr(), libc::SIGTTIN);
        libc::pthread_sigmask(libc::SIG_BLOCK, stops.as_ptr(), before.as_mut_ptr());
        let done = read();
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut());
        done
    }
}

/// Whether the other end of the terminal is gone.
fn is_hung_up() -> bool {
    let stdin = stdin();
    let mut polled = [PollFd::new(&stdin, PollFlags::IN)];
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(&mut polled, Some(&at_once)).is_ok()
        && polled[0]
            .revents()
            .intersects(PollFlags::HUP | PollFlags::ERR)
}

/// Whether the program is in the background of its terminal.
pub(super) fn is_away() -> bool {
    tcgetpgrp(stdin()).is_ok_and(|group| group != rustix::process::getpgrp())
}

/// Whether the program may read, because it is in the foreground.
pub(super) fn is_ours() -> bool {
    tcgetpgrp(stdin()).is_ok_and(|group| group == rustix::process::getpgrp())
}
