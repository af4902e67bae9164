//! The children of this process: the code that starts a child waits for it, and children that the
//! kernel gave to the host (orphans) are distinguished from them.

use std::collections::BTreeSet;
use std::ffi::CStr;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::time::{Duration, Instant};

use crate::low_descriptors::{LOW, LowDescriptors};
use mswea_helper::child::{self, ProcessSpec, StartError, StartNote, StartStage};
use mswea_helper::{processes, sys};
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitOptions};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::sleep;

/// The pause between two checks of a child where the kernel can't signal its end.
const PAUSE: Duration = Duration::from_millis(2);

/// A child that has not been waited for: while this exists, its pid can't be reused.
#[derive(Debug)]
pub(super) struct ChildProcess {
    pid: Pid,
    returncode: Option<i32>,
    /// A descriptor that becomes readable when the child has exited. Made when the end is first
    /// waited for; the inner option is none if the kernel (or a sandbox) lacks the call.
    signal: Option<Option<AsyncFd<OwnedFd>>>,
}

/// The children for which code in this process waits.
struct Awaited {
    pids: BTreeSet<i32>,
    /// The starts under way. A start can take long (a dead network file system), so no code waits
    /// for it with the lock.
    starting: Vec<ProcessStart>,
}

/// A start, which another thread may give up.
#[derive(Clone, Debug, Default)]
pub(super) struct ProcessStart(Arc<StartNote>);

impl ProcessStart {
    /// Whether both values mean the same start.
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Ends the child if it has not executed its program yet, or as soon as it exists. A child that
    /// has executed its program is ended by the code that started it. Returns whether the child was
    /// killed.
    pub(super) fn give_up(&self) -> bool {
        let awaited = Awaited::lock();
        let number = self.0.give_up();
        let is_under_way = awaited.starting.iter().any(|it| it.is(self));
        let me = std::process::id() as i32;
        // A start that has just failed has reaped its child, whose number can be reused.
        let is_child =
            || processes::stat(number, &mut Vec::new()).is_some_and(|it| it.parent == me);
        let Some(pid) = Pid::from_raw(number) else {
            // A child that is made later sees that its start was given up.
            return is_under_way;
        };
        is_under_way && is_child() && rustix::process::kill_process(pid, Signal::KILL).is_ok()
    }
}

static AWAITED: Mutex<Awaited> = Mutex::new(Awaited {
    pids: BTreeSet::new(),
    starting: Vec::new(),
});

impl Awaited {
    fn lock() -> MutexGuard<'static, Self> {
        AWAITED.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answer is certain for a child that has left the host's session.
    fn has(&self, pid: i32) -> bool {
        let is_starting = |it: &ProcessStart| it.0.pid() == pid;
        self.pids.contains(&pid) || self.starting.iter().any(is_starting)
    }

    /// Removes a start that has ended. `child`: its child, if there is one.
    fn end(&mut self, start: &ProcessStart, child: Option<i32>) {
        self.starting.retain(|it| !it.is(start));
        self.pids.extend(child);
    }
}

impl ChildProcess {
    /// The child's process id, which is also that of its session and its process group.
    pub(super) fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Waits for the child's end; returns the same as [`Self::try_wait`]. Can be dropped and called
    /// again.
    pub(super) async fn exited(&mut self) -> io::Result<i32> {
        // Another process may have the number by now.
        if let Some(returncode) = self.returncode {
            return Ok(returncode);
        }
        if self.signal.is_none() {
            let fd = rustix::process::pidfd_open(self.pid, PidfdFlags::NONBLOCK)
                .or_else(|_| rustix::process::pidfd_open(self.pid, PidfdFlags::empty()));
            self.signal = Some(fd.ok().and_then(|fd| watched(fd).ok()));
        }
        let Self {
            pid,
            returncode,
            signal,
        } = self;
        loop {
            let ready = match signal {
                Some(Some(signal)) => Some(signal.readable().await?),
                _ => None,
            };
            if let Some(returncode) = look(*pid, returncode)? {
                return Ok(returncode);
            }
            match ready {
                Some(mut ready) => ready.clear_ready(),
                None => sleep(PAUSE).await,
            }
        }
    }

    /// Waits without a runtime; returns whether the child has ended.
    pub(super) fn ends_within(&mut self, limit: Duration) -> bool {
        let started = Instant::now();
        while matches!(self.try_wait(), Ok(None)) {
            if started.elapsed() > limit {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        true
    }

    /// Behaves as on a kernel that does not signal a child's end.
    #[cfg(test)]
    pub(super) fn has_no_signal(&mut self) {
        self.signal = Some(None);
    }

    /// The exit code, or minus the number of the signal that ended the child; none while it runs.
    pub(super) fn try_wait(&mut self) -> io::Result<Option<i32>> {
        look(self.pid, &mut self.returncode)
    }

    /// Whether the child has ended, and was not killed. It is not reaped.
    pub(super) fn has_ended_by_itself(&self) -> bool {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let found = rustix::process::waitid(WaitId::Pid(self.pid), look);
        let killed = Signal::KILL.as_raw();
        // Another process may have the number of a child that was reaped.
        !self.is_reaped()
            && found.is_ok_and(|it| it.is_some_and(|it| it.terminating_signal() != Some(killed)))
    }

    /// Kills the child's process group, unless its number may have been reused.
    pub(super) fn kill_group(&self) {
        if self.returncode.is_none() {
            let _ = rustix::process::kill_process_group(self.pid, Signal::KILL);
        }
    }

    /// Whether the child was reaped, so that its pid may be reused.
    pub(super) fn is_reaped(&self) -> bool {
        self.returncode.is_some()
    }
}

impl Drop for ChildProcess {
    /// Leaves a child that is no longer waited for to [`reap_adopted`].
    fn drop(&mut self) {
        if self.returncode.is_none() {
            forget(self.pid());
        }
    }
}

/// The exit code of a child, which is kept in `returncode`.
fn look(pid: Pid, returncode: &mut Option<i32>) -> io::Result<Option<i32>> {
    if returncode.is_none() {
        let found = match rustix::process::waitpid(Some(pid), WaitOptions::NOHANG) {
            Ok(None) | Err(rustix::io::Errno::INTR) => return Ok(None),
            found => found,
        };
        // Called also if other code has reaped the child: then its number can be reused.
        forget(pid.as_raw_nonzero().get());
        let status = found.inspect_err(|_| *returncode = Some(-1))?;
        *returncode = status.and_then(|(_, status)| {
            let signal = status.terminating_signal().map(|signal| -signal);
            status.exit_status().or(signal)
        });
    }
    Ok(*returncode)
}

fn forget(pid: i32) {
    Awaited::lock().pids.remove(&pid);
}

/// Registers a descriptor, to wait until it is readable.
pub(super) fn watched(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` stays the same open descriptor while it exists, and the `AsyncFd` owns
    // it.
    let registered = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) };
    registered.map_err(io::Error::from)
}

/// Removes from `children` those for which code in this process waits. Remaining children that were
/// seen in sessions of their own *before* this call are orphans, which the kernel gave to the host
/// (see [`super::orphans`]). Other remaining children can be processes that are just being started.
pub(super) fn retain_adopted<T>(children: &mut Vec<T>, pid: impl Fn(&T) -> i32) {
    if !children.is_empty() {
        let awaited = Awaited::lock();
        children.retain(|child| !awaited.has(pid(child)));
    }
}

/// Reaps those of `zombies` for which no code in this process waits: orphans that became children
/// because the host is process 1 of a container, or a subreaper. All were seen in sessions of their
/// own.
pub(super) fn reap_adopted(zombies: &[i32]) {
    if zombies.is_empty() {
        return;
    }
    let awaited = Awaited::lock();
    for &zombie in zombies {
        if !awaited.has(zombie)
            && let Some(pid) = Pid::from_raw(zombie)
        {
            let _ = rustix::process::waitpid(Some(pid), WaitOptions::NOHANG);
        }
    }
}

/// Keeps children from inheriting descriptors that the host itself inherited (a parent's locks and
/// pipes). Descriptors that Rust opens are closed in children anyway. Children never have those from [`LOW`] on.
fn keep_inherited() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: only marks descriptors to be closed by an exec; takes nothing by pointer. A
        // kernel before 5.11 refuses, and then the low ones are inherited as with std.
        unsafe {
            libc::syscall(
                libc::SYS_close_range,
                3,
                libc::c_uint::MAX,
                libc::CLOSE_RANGE_CLOEXEC,
            )
        };
    });
}

/// Program, arguments, environment and working directory of a new process.
#[derive(Clone, Copy)]
pub(super) struct ProgramCall<'a> {
    pub(super) path: &'a CStr,
    /// The arguments, beginning with the program's own name.
    pub(super) args: &'a [&'a CStr],
    /// The whole environment, as `NAME=value`.
    pub(super) env: &'a [&'a CStr],
    /// None: the host's.
    pub(super) cwd: Option<&'a CStr>,
}

/// Runs `program` in a session of its own with these descriptors, each with the number that it has
/// there; returns when the child runs the program. `start` can be given up by another thread.
/// `deaf`: SIGINT, SIGTERM, SIGHUP and other signals that people and terminals send are blocked in
/// the child.
///
/// # Errors
/// [`StartError`] if a descriptor, the directory or the program can't be used.
pub(super) fn spawn(
    start: &ProcessStart,
    program: ProgramCall<'_>,
    descriptors: &[(BorrowedFd<'_>, i32)],
    deaf: bool,
) -> Result<ChildProcess, StartError> {
    keep_inherited();
    // A blocked signal stays blocked over the exec, so the guardian needs no handlers.
    let blocked: &[libc::c_int] = match deaf {
        true => &[
            libc::SIGINT,
            libc::SIGTERM,
            libc::SIGHUP,
            libc::SIGQUIT,
            libc::SIGTSTP,
        ],
        false => &[],
    };
    // Rust programs ignore SIGPIPE, and commands must not inherit that: `yes | head` would complain
    // instead of ending. The host also ignores SIGXFSZ, which ends programs whose files grow too
    // large.
    let restored = [libc::SIGPIPE, libc::SIGXFSZ];
    let low = LowDescriptors::of(descriptors);
    let low_ones = low.as_ref().map(|low| low.of_process(descriptors));
    Awaited::lock().starting.push(start.clone());
    let started = child::start(&ProcessSpec {
        program: program.path,
        args: program.args,
        env: program.env,
        cwd: program.cwd,
        descriptors: low_ones.as_deref().unwrap_or(descriptors),
        own_below: low.is_some().then_some(LOW),
        terminal: None,
        restored: &sys::signals(restored),
        blocked: &sys::signals(blocked.iter().copied()),
        start: &start.0,
    });
    Awaited::lock().end(start, started.as_ref().ok().copied());
    let pid = started?;
    let pid = Pid::from_raw(pid).ok_or_else(|| StartError {
        stage: StartStage::Process,
        error: io::Error::other("the kernel gave no pid"),
    })?;
    Ok(ChildProcess {
        pid,
        returncode: None,
        signal: None,
    })
}
