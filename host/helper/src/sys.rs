//! System calls that std lacks, each as a safe function.

use std::io::{self, Seek as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::fs::{MemfdFlags, OFlags};
use rustix::pipe::PipeFlags;
use rustix::time::{ClockId, clock_gettime};

/// Input is available.
pub const POLLIN: i16 = libc::POLLIN;
/// There is room for output.
pub const POLLOUT: i16 = libc::POLLOUT;
/// The events of a descriptor without a reader.
pub const BROKEN: i16 = libc::POLLERR | libc::POLLHUP | libc::POLLNVAL;

/// More than the kernel buffers of a terminal's output.
const TERMINAL: usize = 32 * 1024;

/// Standard input.
pub const STDIN: RawFd = 0;
/// Standard output.
pub const STDOUT: RawFd = 1;

/// A descriptor, the events to wait for, and the events that came.
pub type DescriptorWatch = libc::pollfd;

/// A watch for `events` of a descriptor.
pub fn watch(fd: RawFd, events: i16) -> DescriptorWatch {
    DescriptorWatch {
        fd,
        events,
        revents: 0,
    }
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// Waits until an event has come, at most for `limit`, which is rounded up so that it has passed
/// afterwards.
pub fn poll(watches: &mut [DescriptorWatch], limit: Option<Duration>) -> io::Result<()> {
    let limit = limit.map_or(-1, |limit| {
        i32::try_from(limit.as_micros().div_ceil(1000)).unwrap_or(i32::MAX)
    });
    // SAFETY: the pointer and the number are those of one slice.
    let result = check(unsafe { libc::poll(watches.as_mut_ptr(), watches.len() as _, limit) });
    match result {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {
            watches.iter_mut().for_each(|watch| watch.revents = 0);
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// Reads once, at most `limit` bytes, and appends them to `buffer`. None: nothing can be read now.
pub fn read(fd: RawFd, buffer: &mut Vec<u8>, limit: usize) -> io::Result<Option<usize>> {
    buffer.reserve(limit);
    let spare = &mut buffer.spare_capacity_mut()[..limit];
    // SAFETY: `spare` is writable for `limit` bytes.
    let count = unsafe { libc::read(fd, spare.as_mut_ptr().cast(), limit) };
    let Ok(count) = usize::try_from(count) else {
        return later(io::Error::last_os_error());
    };
    // SAFETY: the call has written `count` bytes, which were within the spare capacity.
    unsafe { buffer.set_len(buffer.len() + count) };
    Ok(Some(count))
}

/// Writes once. None: nothing can be written now.
pub fn write(fd: RawFd, bytes: &[u8]) -> io::Result<Option<usize>> {
    // SAFETY: `bytes` is readable for its length.
    let count = unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) };
    match usize::try_from(count) {
        Ok(count) => Ok(Some(count)),
        Err(_) => later(io::Error::last_os_error()),
    }
}

fn later(error: io::Error) -> io::Result<Option<usize>> {
    match error.kind() {
        io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock => Ok(None),
        _ => Err(error),
    }
}

/// A pipe that child processes do not inherit: the end for reading, the end for writing.
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?)
}

/// A file without a name that holds `content`, positioned at its beginning.
pub fn file(content: &[u8]) -> io::Result<OwnedFd> {
    let fd = rustix::fs::memfd_create("mswea-command", MemfdFlags::CLOEXEC)?;
    let mut file = std::fs::File::from(fd);
    file.write_all(content)?;
    file.rewind()?;
    Ok(file.into())
}

/// Makes reads and writes of this end of a pipe non-blocking; the other end has flags of its own.
pub fn set_nonblocking(fd: &OwnedFd) -> io::Result<()> {
    Ok(rustix::io::ioctl_fionbio(fd, true)?)
}

/// A copy of a descriptor.
pub fn copy(fd: impl AsFd) -> io::Result<OwnedFd> {
    Ok(rustix::io::fcntl_dupfd_cloexec(fd, 3)?)
}

/// How many bytes can be read now. For a terminal, the kernel counts only a part of them, so this
/// returns the most that it can buffer.
pub fn pending(fd: BorrowedFd<'_>) -> usize {
    // The kernel passes on a terminal's output with a delay, but at the latest at this call.
    let _ = poll(&mut [watch(fd.as_raw_fd(), POLLIN)], Some(Duration::ZERO));
    let count = rustix::io::ioctl_fionread(fd).unwrap_or(0);
    let mut number: libc::c_uint = 0;
    match count {
        0 => 0,
        // SAFETY: this request writes one int, and fails for all but this side of a terminal.
        _ if unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCGPTN as _, &mut number) } == 0 => {
            TERMINAL
        }
        _ => count as usize,
    }
}

/// Makes writes to standard output non-blocking while this value exists; other processes may share the
/// open file.
pub struct Nonblocking(OFlags);

impl Nonblocking {
    /// Makes standard output non-blocking until this value is dropped.
    ///
    /// # Errors
    /// The system's error if standard output is closed.
    pub fn new() -> io::Result<Self> {
        let flags = rustix::fs::fcntl_getfl(io::stdout())?;
        rustix::fs::fcntl_setfl(io::stdout(), flags | OFlags::NONBLOCK)?;
        Ok(Self(flags))
    }
}

impl Drop for Nonblocking {
    fn drop(&mut self) {
        let _ = rustix::fs::fcntl_setfl(io::stdout(), self.0);
    }
}

fn empty_set() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: initialises the set.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        set.assume_init()
    }
}

/// A set of signals; invalid numbers are left out.
pub fn signals(numbers: impl IntoIterator<Item = libc::c_int>) -> libc::sigset_t {
    let mut set = empty_set();
    for number in numbers {
        // SAFETY: the set is initialised; an impossible number changes nothing.
        unsafe { libc::sigaddset(&mut set, number) };
    }
    set
}

/// The signals that a command must not inherit: those that are ignored here.
pub fn ignored_signals() -> libc::sigset_t {
    signals((1..=64).filter(|number| {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: only reads the current handlers; zeroes are a valid `sigaction` where the call
        // fails.
        unsafe {
            libc::sigaction(*number, std::ptr::null(), action.as_mut_ptr()) == 0
                && action.assume_init().sa_sigaction == libc::SIG_IGN
        }
    }))
}

/// Blocks every signal that can be blocked, and returns a descriptor from which those of `wanted`
/// can be read. So only SIGKILL ends the program, and no call is interrupted.
pub fn hold_signals(wanted: &libc::sigset_t) -> io::Result<OwnedFd> {
    let all = signals(1..=64);
    // SAFETY: both sets are initialised. SIGCHLD is set to its default, because a process that
    // ignores it, which may be inherited, is not told about its children.
    let fd = unsafe {
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        check(libc::sigprocmask(
            libc::SIG_BLOCK,
            &all,
            std::ptr::null_mut(),
        ))?;
        check(libc::signalfd(
            -1,
            wanted,
            libc::SFD_CLOEXEC | libc::SFD_NONBLOCK,
        ))?
    };
    // SAFETY: the call has just opened it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The next signal in the queue; none if there is none.
pub fn next_signal(fd: BorrowedFd<'_>) -> Option<libc::c_int> {
    let mut info = MaybeUninit::<libc::signalfd_siginfo>::zeroed();
    let size = size_of::<libc::signalfd_siginfo>();
    // SAFETY: room for one record, which is plain numbers.
    unsafe {
        let count = libc::read(fd.as_raw_fd(), info.as_mut_ptr().cast(), size);
        (count == size as isize).then(|| info.assume_init().ssi_signo as libc::c_int)
    }
}

/// Reaps the next child that has died: its pid, and how it ended.
pub fn bury() -> Option<(i32, ExitStatus)> {
    bury_child(-1)
}

/// Reaps this child if it has died; with -1, the next child that has died.
pub fn bury_child(pid: i32) -> Option<(i32, ExitStatus)> {
    let mut status = 0;
    // SAFETY: room for one status.
    let pid = unsafe { libc::waitpid(pid, &mut status, libc::WNOHANG) };
    (pid > 0).then(|| (pid, ExitStatus::from_raw(status)))
}

/// The exit code as a shell counts it: 128 and the number of the signal if one ended the process.
pub fn exit_code(status: ExitStatus) -> i32 {
    let signal = status.signal().map(|signal| 128 + signal);
    signal.or(status.code()).unwrap_or_default()
}

/// Makes this process the parent of descendants that lose theirs, and sets inherited descriptors to
/// be closed in children. Where the kernel lacks these calls, fewer processes are found, or more
/// descriptors inherited.
pub fn prepare() {
    // SAFETY: neither takes anything by pointer.
    unsafe {
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
        let done = libc::syscall(
            libc::SYS_close_range,
            3,
            libc::c_uint::MAX,
            1 << 2, // CLOSE_RANGE_CLOEXEC
        );
        if done != 0 {
            for fd in 3..256 {
                libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC);
            }
        }
    }
}

/// Whether the process group of `leader` has members.
pub fn group_exists(leader: i32) -> bool {
    // SAFETY: takes nothing by pointer.
    leader > 1
        && (unsafe { libc::kill(-leader, 0) } == 0
            || io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH))
}

/// Sends a signal to a child that has not been reaped.
pub fn signal_child(pid: i32, number: libc::c_int) {
    if pid > 1 {
        // SAFETY: takes nothing by pointer.
        unsafe { libc::kill(pid, number) };
    }
}

/// Sends a signal to a process group.
pub fn signal_group(leader: i32, number: libc::c_int) {
    if leader > 1 {
        // SAFETY: takes nothing by pointer.
        unsafe { libc::kill(-leader, number) };
    }
}

/// Sends a signal to a process if `is_it` is true, which is tested while the pid can't be reused.
pub fn signal_process(pid: i32, number: libc::c_int, is_it: impl Fn() -> bool) -> bool {
    if pid <= 1 {
        return false;
    }
    // SAFETY: takes nothing by pointer.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    if fd < 0 {
        // This kernel lacks the call; the pid could be reused within microseconds. SAFETY: takes
        // nothing by pointer.
        return is_it() && unsafe { libc::kill(pid, number) } == 0;
    }
    // SAFETY: the call has just opened it.
    let fd = unsafe { OwnedFd::from_raw_fd(fd as RawFd) };
    if !is_it() {
        return false;
    }
    let none = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: without a record the call makes its own.
    let sent =
        unsafe { libc::syscall(libc::SYS_pidfd_send_signal, fd.as_raw_fd(), number, none, 0) };
    sent == 0
}

/// Stops (SIGSTOP) all processes of a group, also those that are just being started.
pub fn stop_group(group: i32) {
    if group > 1 {
        // SAFETY: takes nothing by pointer.
        unsafe { libc::kill(-group, libc::SIGSTOP) };
    }
}

/// Units of a start time in `/proc` in a second: `USER_HZ`, which is the same on every Linux.
pub const TICKS: f64 = 100.0;

/// The time since boot, in that unit.
pub fn ticks() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    // In units of USER_HZ, which is 100 on every Linux.
    now.tv_sec as u64 * 100 + now.tv_nsec as u64 / 10_000_000
}
