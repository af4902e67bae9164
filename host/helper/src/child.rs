//! Starts a program in a session of its own.
//!
//! The child shares the memory of its parent, which waits until the child executes the program
//! (`CLONE_VM` and `CLONE_VFORK`). So a start costs the same in a program of 1 MB and in one of 500
//! MB, and needs no memory map of its own, whose removal would interrupt all other threads.
//! `posix_spawn` works the same way, but maps a stack for each child, and does not tell whether the
//! directory or the program was refused.

use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// The most descriptors that a child can get.
pub const MOST_DESCRIPTORS: usize = 8;

/// The child's stack, within that of the thread that starts it: it makes only system calls.
const STACK: usize = 16 * 1024;

/// A number above those that children give to their descriptors.
const CLEAR: libc::c_int = 210;

/// The exit code of a child that could not execute its program; no code reads it.
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
    /// If set, the process inherits only descriptors below this number. All of `descriptors` and the terminal must be
    /// below it. Otherwise the kernel copies the whole table of descriptors for each start, and closes nearly all of
    /// the copies again.
    pub own_below: Option<u32>,
    /// Its terminal, if it has one.
    pub terminal: Option<BorrowedFd<'a>>,
    /// The signals that the parent ignores and the process must not ignore. Signals that the parent
    /// handles always get their default action.
    pub restored: &'a libc::sigset_t,
    /// The signals that are blocked in the process.
    pub blocked: &'a libc::sigset_t,
    /// The state of the start that other threads can read and change.
    pub start: &'a StartNote,
}

/// A start that another thread may give up.
#[derive(Debug, Default)]
pub struct StartNote {
    /// Written by the kernel before the child does anything, even if no program is executed.
    pid: AtomicI32,
    is_given_up: AtomicBool,
}

impl StartNote {
    /// The child's pid; 0: there is no child yet.
    pub fn pid(&self) -> i32 {
        self.pid.load(Ordering::SeqCst)
    }

    /// Returns the pid of the child, which the caller may kill. A child that does not exist yet (0) ends
    /// before it does anything.
    pub fn give_up(&self) -> i32 {
        self.is_given_up.store(true, Ordering::SeqCst);
        self.pid()
    }
}

/// The stage at which a start failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum StartStage {
    /// Making the process, or its descriptors.
    Process,
    /// Changing to the working directory.
    Folder,
    /// Executing the program.
    Program,
}

/// Why a process was not started.
#[derive(Debug)]
pub struct StartError {
    /// The stage that failed.
    pub stage: StartStage,
    /// The system's error.
    pub error: io::Error,
}

impl From<StartError> for io::Error {
    fn from(failed: StartError) -> Self {
        failed.error
    }
}

/// The data of the child, all of it in its parent's memory.
struct Inside<'a> {
    spec: &'a ProcessSpec<'a>,
    args: *const *const libc::c_char,
    env: *const *const libc::c_char,
    /// Whether the kernel has set the default action of all signals that the parent handles.
    are_default: bool,
    /// Whether the process began with the parent's own table of descriptors, and could not copy a part of it.
    lacks_table: bool,
    /// The stage that failed, and the error's number; 0: none failed.
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
    start_by(spec, clone_without_handlers)
}

/// Set if the kernel (before 5.9), an emulator, or a filter of system calls can't start a process with a part of the
/// table of descriptors.
static LACKS_TABLE: AtomicBool = AtomicBool::new(false);

/// A call that makes the child in one way, if this kernel has it.
type CloneCall = unsafe fn(*mut u8, &mut Inside<'_>) -> Option<libc::pid_t>;

fn start_by(spec: &ProcessSpec<'_>, clone: CloneCall) -> Result<i32, StartError> {
    if spec.own_below.is_some() && !LACKS_TABLE.load(Ordering::Relaxed) {
        let (started, lacks_table) = start_once(spec, clone);
        if !lacks_table {
            return started;
        }
        let error = started.as_ref().err();
        let number = error.and_then(|failed| failed.error.raw_os_error());
        let is_missing = [libc::ENOSYS, libc::EINVAL, libc::EPERM].map(Some);
        LACKS_TABLE.fetch_or(is_missing.contains(&number), Ordering::Relaxed);
        // The child of that start has gone.
        spec.start.pid.store(0, Ordering::SeqCst);
    }
    let whole = ProcessSpec {
        own_below: None,
        ..*spec
    };
    start_once(&whole, clone).0
}

/// The result of a start, and whether it failed because a part of the table of descriptors could not be copied.
fn start_once(spec: &ProcessSpec<'_>, clone: CloneCall) -> (Result<i32, StartError>, bool) {
    let process = |error| StartError {
        stage: StartStage::Process,
        error,
    };
    if spec.descriptors.len() > MOST_DESCRIPTORS {
        return (
            Err(process(io::Error::from_raw_os_error(libc::E2BIG))),
            false,
        );
    }
    let args = pointers(spec.args.iter().copied());
    let env = pointers(spec.env.iter().copied());
    let mut inside = Inside {
        spec,
        args: args.as_ptr(),
        env: env.as_ptr(),
        are_default: true,
        lacks_table: false,
        failed: (StartStage::Process, 0),
    };
    let mut stack = MaybeUninit::<[u128; STACK / 16]>::uninit();
    let mut before = MaybeUninit::uninit();
    // SAFETY: the sets are initialised or written by the calls. No handler of the parent may run in
    // the child, so all signals are blocked until the child has no handlers. The child uses the
    // upper end of `stack` (it grows downwards, and 16 bytes are its alignment) and `inside`; both
    // live until the call returns, and the parent's thread does nothing meanwhile.
    let (pid, errno) = unsafe {
        let all = crate::sys::signals(1..=64);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, before.as_mut_ptr());
        let pid = clone(stack.as_mut_ptr().cast(), &mut inside);
        let pid = pid.unwrap_or_else(|| {
            inside.are_default = false;
            libc::clone(
                become_program,
                stack.as_mut_ptr().add(1).cast(),
                flags(spec) | libc::SIGCHLD,
                ptr::from_mut(&mut inside).cast(),
                spec.start.pid.as_ptr(),
            )
        });
        let errno = io::Error::last_os_error();
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut());
        (pid, errno)
    };
    if pid < 0 {
        // Emulators refuse a child that shares the table.
        return (Err(process(errno)), spec.own_below.is_some());
    }
    // SAFETY: valid pointers; the child has written through others.
    let ((stage, number), lacks_table) = unsafe {
        (
            ptr::read_volatile(&raw const inside.failed),
            ptr::read_volatile(&raw const inside.lacks_table),
        )
    };
    if number == 0 {
        return (Ok(pid), false);
    }
    // SAFETY: takes nothing by pointer. The child has ended or is about to.
    while unsafe { libc::waitpid(pid, ptr::null_mut(), 0) } < 0
        && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
    {}
    let failed = StartError {
        stage,
        error: io::Error::from_raw_os_error(number),
    };
    (Err(failed), lacks_table)
}

/// The flags of both calls.
fn flags(spec: &ProcessSpec<'_>) -> libc::c_int {
    let files = match spec.own_below {
        // The child takes a copy of a part of the table before it changes anything in it.
        Some(_) => libc::CLONE_FILES,
        None => 0,
    };
    libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PARENT_SETTID | files
}

/// Like `libc::clone` for [`become_program`], but the kernel sets the default action of all signals
/// that this process handles, which would otherwise take 64 system calls. None if it can't: a
/// kernel before 5.5, or a filter of system calls (docker's answers that there is no such call).
///
/// # Safety
/// As for `libc::clone`: `stack` has [`STACK`] bytes that are aligned to 16, and `inside` and the
/// data that it refers to live until this returns.
#[cfg(target_arch = "x86_64")]
unsafe fn clone_without_handlers(stack: *mut u8, inside: &mut Inside<'_>) -> Option<libc::pid_t> {
    static IS_MISSING: AtomicBool = AtomicBool::new(false);
    const CLONE_CLEAR_SIGHAND: u64 = 1 << 32;
    /// The arguments of `clone3`, as of Linux 5.3.
    #[repr(C)]
    struct CloneArguments {
        flags: u64,
        pidfd: u64,
        child_tid: u64,
        parent_tid: u64,
        exit_signal: u64,
        stack: u64,
        stack_size: u64,
        tls: u64,
    }
    if IS_MISSING.load(Ordering::Relaxed) {
        return None;
    }
    let arguments = CloneArguments {
        flags: flags(inside.spec) as u64 | CLONE_CLEAR_SIGHAND,
        pidfd: 0,
        child_tid: 0,
        parent_tid: inside.spec.start.pid.as_ptr() as u64,
        exit_signal: libc::SIGCHLD as u64,
        stack: stack as u64,
        stack_size: STACK as u64,
        tls: 0,
    };
    let child: extern "C" fn(*mut libc::c_void) -> libc::c_int = become_program;
    let result: isize;
    // SAFETY: the child begins after the system call with these registers and an empty stack, calls
    // `child`, which never returns, and so does not change the stack of the parent's thread. The
    // parent's thread waits, and then sees only the result and the two registers that the call
    // overwrites.
    unsafe {
        std::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r12",
            "call r13",
            "ud2",
            "2:",
            inlateout("rax") libc::SYS_clone3 as isize => result,
            in("rdi") &raw const arguments,
            in("rsi") size_of::<CloneArguments>(),
            in("r12") ptr::from_mut(inside),
            in("r13") child,
            out("rcx") _,
            out("r11") _,
        );
    }
    match libc::pid_t::try_from(result) {
        Ok(pid) if pid > 0 => Some(pid),
        // Other errors (no more processes or memory) will be reported by the other call, too.
        _ => {
            let errno = i32::try_from(-result).unwrap_or(libc::EIO);
            let is_missing = [libc::ENOSYS, libc::EINVAL, libc::EPERM].contains(&errno);
            IS_MISSING.fetch_or(is_missing, Ordering::Relaxed);
            None
        }
    }
}

/// The code exists for one architecture only.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn clone_without_handlers(_: *mut u8, _: &mut Inside<'_>) -> Option<libc::pid_t> {
    None
}

/// A null-terminated array for C.
fn pointers<'a>(strings: impl Iterator<Item = &'a CStr>) -> Vec<*const libc::c_char> {
    strings.map(CStr::as_ptr).chain([ptr::null()]).collect()
}

/// Runs in the child. Allocates nothing and takes no lock, because another thread of the parent may
/// hold it.
extern "C" fn become_program(inside: *mut libc::c_void) -> libc::c_int {
    // SAFETY: `start` passes this pointer and uses nothing of it until the child has gone.
    let inside = unsafe { &mut *inside.cast::<Inside<'_>>() };
    inside.failed.0 = if inside.spec.start.is_given_up.load(Ordering::SeqCst) {
        // Its pid was published before this, so a thread that gives up the start later kills it.
        refused()
    } else if !has_own_table(inside.spec) {
        inside.lacks_table = true;
        StartStage::Process
    } else {
        // SAFETY: all pointers are those of `start`'s caller, which waits.
        unsafe { prepare(inside.spec, inside.are_default) }
    };
    if inside.failed.0 == StartStage::Program {
        // SAFETY: C strings and null-terminated arrays of them.
        unsafe { libc::execve(inside.spec.program.as_ptr(), inside.args, inside.env) };
    }
    let errno = io::Error::last_os_error().raw_os_error();
    inside.failed.1 = errno.unwrap_or(libc::EIO);
    // SAFETY: ends only this process, without the parent's exit handlers.
    unsafe { libc::_exit(NOT_EXECUTED) }
}

/// Sets the error of a start that was given up; returns its stage.
fn refused() -> StartStage {
    // SAFETY: the address of this thread's number of the last error.
    unsafe { *libc::__errno_location() = libc::ECANCELED };
    StartStage::Process
}

/// Copies the part of the parent's table of descriptors that the process needs. False if the process still has the
/// parent's own table, which it must not change.
fn has_own_table(spec: &ProcessSpec<'_>) -> bool {
    let Some(below) = spec.own_below else {
        return true;
    };
    // SAFETY: takes nothing by pointer. It closes descriptors of the copy only, because the flag makes the copy first.
    let copied = unsafe {
        libc::syscall(
            libc::SYS_close_range,
            below,
            libc::c_uint::MAX,
            libc::CLOSE_RANGE_UNSHARE,
        )
    };
    copied == 0
}

/// Does everything before the program is executed; returns [`StartStage::Program`], or the stage
/// that failed. `are_default`: no signal has a handler.
///
/// # Safety
/// Must be called only in the child.
unsafe fn prepare(spec: &ProcessSpec<'_>, are_default: bool) -> StartStage {
    // SAFETY: takes nothing by pointer.
    unsafe { libc::setsid() };
    let signals = 1..=64;
    if are_default {
        for number in signals {
            // SAFETY: the set is initialised; zeroes are the default action.
            unsafe {
                if libc::sigismember(spec.restored, number) == 1 {
                    let default = MaybeUninit::<libc::sigaction>::zeroed();
                    libc::sigaction(number, default.as_ptr(), ptr::null_mut());
                }
            }
        }
    } else {
        for number in signals {
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

#[cfg(test)]
mod tests;
