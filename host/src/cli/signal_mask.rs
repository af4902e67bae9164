//! Which threads handle the signals that end a run.

use std::mem::MaybeUninit;

/// Leaves the signals that end a run to the thread that watches for them. The kernel prefers the first thread of
/// a process, also while this one can't handle them. Threads inherit this; new processes do not.
pub fn block() {
    change_mask(libc::SIG_BLOCK);
}

/// Lets this thread handle them.
pub fn unblock() {
    change_mask(libc::SIG_UNBLOCK);
}

fn change_mask(how: libc::c_int) {
    let numbers = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGUSR1];
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the first call initialises the set; the last one changes the mask of this thread.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for number in numbers {
            libc::sigaddset(set.as_mut_ptr(), number);
        }
        libc::pthread_sigmask(how, set.as_ptr(), std::ptr::null_mut());
    }
}
