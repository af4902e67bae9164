//! Starts a program in a session of its own.
//!
//! The child shares the memory of its parent, which waits, until it executes the program
//! (`CLONE_VM` and `CLONE_VFORK`): so a start costs the same in a program of 1 MB and in one of
//! 500 MB, and needs no memory map of its own, whose removal would interrupt all other threads.
//! `posix_spawn` works the same way, but maps a stack for each child, and does not tell whether the
//! directory or the program was refused.

use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::ptr;
use std::sync::atomic::AtomicI32;

/// The most descriptors that a child can get.
pub const MOST_DESCRIPTORS: usize = 8;

/// The child's stack, which lies within that of the thread that starts it: it makes only system
/// calls.
const STACK: usize = 16 * 1024;

/// Above the numbers that children give to their descriptors.
const CLEAR: libc::c_int = 210;

/// The exit code of a child that could not execute its program; nobody sees it.
const NOT_EXECUTED: libc::c_int = 127;

/// The parameters of a new process.
#[derive(Clone, Copy)]
pub struct ProcessSpec<'a> {
    /// Path of the program.
    pub program: &'a CStr,
    /// Its arguments, the first of them its own name.
    pub args: &'a [&'a CStr],
    /// Its whole environment, as `NAME=value`.
    pub env: &'a [&'a CStr],
    /// Its working directory; none: that of its parent.
    pub cwd: Option<&'a CStr>,
    /// Its descriptors, each with the number that it has in the process, at most
    /// [`MOST_DESCRIPTORS`]. Others are inherited unless they are marked as closed on exec.
    pub descriptors: &'a [(BorrowedFd<'a>, i32)],
    /// Its terminal, if it has one.
    pub terminal: Option<BorrowedFd<'a>>,
    /// The signals that its parent ignores and the process does not. Those that its parent handles
    /// have their default in any case.
    pub restored: &'a libc::sigset_t,
    /// The signals that are blocked in the process.
    pub blocked: &'a libc::sigset_t,
    /// Where the kernel writes its pid before it does anything, also if it does not execute the program in
    /// the end.
    pub pid: &'a AtomicI32,
}

/// What a process that was not started failed at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum StartStage {
    /// Making it, or giving it its descriptors.
    Process,
    /// Its working directory.
    Folder,
    /// Its program.
    Program,
}

/// Why a process was not started.
#[derive(Debug)]
pub struct StartError {
    /// What failed.
    pub stage: StartStage,
    /// The system's error.
    pub error: io::Error,
}

impl From<StartError> for io::Error {
    fn from(failed: StartError) -> Self {
        failed.error
    }
}

/// What the child needs, all of it in its parent's memory.
struct Inside<'a> {
    spec: &'a ProcessSpec<'a>,
    args: *const *const libc::c_char,
    env: *const *const libc::c_char,
    /// What failed, and the error's number; 0: nothing did.
    failed: (StartStage, libc::c_int),
}

/// The system's message without the number that Rust appends.
pub fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    match text.rfind(" (os error ") {
        Some(at) => text[..at].to_owned(),
        None => text,
    }
}

/// Starts a process and returns its pid when it runs the program. It leads a session.
///
/// # Errors
/// [`StartError`] if the process can't be made, or a descriptor, the directory or the program can't
/// be used. Then there is no process.
pub fn start(spec: &ProcessSpec<'_>) -> Result<i32, StartError> {
    let process = |error| StartError {
        stage: StartStage::Process,
        error,
    };
    if spec.descriptors.len() > MOST_DESCRIPTORS {
        return Err(process(io::Error::from_raw_os_error(libc::E2BIG)));
    }
    let args = pointers(spec.args.iter().copied());
    let env = pointers(spec.env.iter().copied());
    let mut inside = Inside {
        spec,
        args: args.as_ptr(),
        env: env.as_ptr(),
        failed: (StartStage::Process, 0),
    };
    let mut stack = MaybeUninit::<[u128; STACK / 16]>::uninit();
    let mut before = MaybeUninit::uninit();
    // SAFETY: the sets are initialised or written by the calls. No handler of the parent may run in
    // the child, so all signals are blocked until the child has none. The child uses the upper end of
    // `stack` (it grows downwards, and 16 bytes are its alignment) and `inside`; both live until the
    // call returns, and the parent's thread does nothing meanwhile.
    let (pid, errno) = unsafe {
        let all = crate::sys::signals(1..=64);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, before.as_mut_ptr());
        let pid = libc::clone(
            become_program,
            stack.as_mut_ptr().add(1).cast(),
            libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PARENT_SETTID | libc::SIGCHLD,
            ptr::from_mut(&mut inside).cast(),
            spec.pid.as_ptr(),
        );
        let errno = io::Error::last_os_error();
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut());
        (pid, errno)
    };
    if pid < 0 {
        return Err(process(errno));
    }
    // SAFETY: a valid pointer; the child has written through another one.
    let (stage, number) = unsafe { ptr::read_volatile(&raw const inside.failed) };
    if number == 0 {
        return Ok(pid);
    }
    // SAFETY: takes nothing by pointer. The child has ended or is about to.
    while unsafe { libc::waitpid(pid, ptr::null_mut(), 0) } < 0
        && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
    {}
    Err(StartError {
        stage,
        error: io::Error::from_raw_os_error(number),
    })
}

/// A null-terminated array for C.
fn pointers<'a>(strings: impl Iterator<Item = &'a CStr>) -> Vec<*const libc::c_char> {
    strings.map(CStr::as_ptr).chain([ptr::null()]).collect()
}

/// The child. Allocates nothing and takes no lock: another thread of its parent may hold it.
extern "C" fn become_program(inside: *mut libc::c_void) -> libc::c_int {
    // SAFETY: `start` passes this pointer and uses nothing of it until the child has gone.
    let inside = unsafe { &mut *inside.cast::<Inside<'_>>() };
    // SAFETY: all pointers are those of `start`'s caller, which waits.
    inside.failed.0 = unsafe { prepare(inside.spec) };
    if inside.failed.0 == StartStage::Program {
        // SAFETY: C strings and null-terminated arrays of them.
        unsafe { libc::execve(inside.spec.program.as_ptr(), inside.args, inside.env) };
    }
    let errno = io::Error::last_os_error().raw_os_error();
    inside.failed.1 = errno.unwrap_or(libc::EIO);
    // SAFETY: ends only this process, without the parent's exit handlers.
    unsafe { libc::_exit(NOT_EXECUTED) }
}

/// Does all but executing the program; returns [`StartStage::Program`], or the stage that failed.
///
/// # Safety
/// Only for the child.
unsafe fn prepare(spec: &ProcessSpec<'_>) -> StartStage {
    // SAFETY: takes nothing by pointer.
    unsafe { libc::setsid() };
    for number in 1..=64 {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: room for one action, for which zeroes are the default; the set is initialised.
        unsafe {
            let known = libc::sigaction(number, ptr::null(), action.as_mut_ptr()) == 0;
            let handler = (*action.as_ptr()).sa_sigaction;
            let ignored = handler == libc::SIG_IGN;
            let changes = match ignored {
                true => libc::sigismember(spec.restored, number) == 1,
                false => handler != libc::SIG_DFL,
            };
            if known && changes {
                let default = MaybeUninit::<libc::sigaction>::zeroed();
                libc::sigaction(number, default.as_ptr(), ptr::null_mut());
            }
        }
    }
    if let Some(terminal) = spec.terminal {
        // SAFETY: takes nothing by pointer.
        if unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSCTTY as _, 0) } < 0 {
            return StartStage::Process;
        }
    }
    let mut sources = [0; MOST_DESCRIPTORS];
    for (at, (fd, _)) in spec.descriptors.iter().enumerate() {
        sources[at] = fd.as_raw_fd();
        let is_overwritten = spec.descriptors[..at]
            .iter()
            .any(|(_, to)| *to == sources[at]);
        if is_overwritten {
            // SAFETY: takes nothing by pointer.
            sources[at] = unsafe { libc::fcntl(sources[at], libc::F_DUPFD_CLOEXEC, CLEAR) };
            if sources[at] < 0 {
                return StartStage::Process;
            }
        }
    }
    for (source, (_, to)) in sources.iter().zip(spec.descriptors) {
        // SAFETY: neither takes anything by pointer.
        let result = unsafe {
            match source == to {
                // `dup2` would leave it marked as closed on exec.
                true => libc::fcntl(*to, libc::F_SETFD, 0),
                false => libc::dup2(*source, *to),
            }
        };
        if result < 0 {
            return StartStage::Process;
        }
    }
    if let Some(cwd) = spec.cwd {
        // SAFETY: a C string.
        if unsafe { libc::chdir(cwd.as_ptr()) } < 0 {
            return StartStage::Folder;
        }
    }
    // SAFETY: the set is initialised.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, spec.blocked, ptr::null_mut()) };
    StartStage::Program
}
