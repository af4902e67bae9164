//! Starts a program in a session of its own, through `posix_spawn`.
//!
//! std uses it only for options that it has itself; a new session needs a `pre_exec` hook there,
//! which means `fork`, and that copies the page tables of a host that contains Cranelift and
//! wasmtime. `posix_spawn` shares the address space until the exec, so that a step costs the same
//! in a host of 5 MB and in one of 500 MB.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;
use std::sync::{Mutex, Once, PoisonError, RwLock};

use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions};

/// The parameters of a new process.
pub(super) struct ProcessSpec<'a> {
    /// Path of the program.
    pub(super) program: &'a CStr,
    /// Its arguments, the first of them its own name.
    pub(super) args: &'a [&'a CStr],
    /// Its whole environment, as `NAME=value`.
    pub(super) env: &'a [CString],
    /// Its working directory; none: the host's.
    pub(super) cwd: Option<&'a CStr>,
    /// Its standard input; none: `/dev/null`.
    pub(super) stdin: Option<BorrowedFd<'a>>,
    /// Its standard output and error; none: `/dev/null`.
    pub(super) output: Option<BorrowedFd<'a>>,
    /// Its standard error, if that differs.
    pub(super) errors: Option<BorrowedFd<'a>>,
    /// Its descriptor 3, if it gets one.
    pub(super) third: Option<BorrowedFd<'a>>,
    /// Its descriptor 4, if it gets one; in the host this must not be descriptor 3.
    pub(super) fourth: Option<BorrowedFd<'a>>,
    /// Whether SIGINT, SIGTERM, SIGHUP and the like are blocked, which people and terminals send.
    pub(super) deaf: bool,
}

/// A child that has not been waited for: while this exists, its pid can't be reused.
#[derive(Debug)]
pub(super) struct ChildProcess {
    pid: Pid,
    returncode: Option<i32>,
}

/// The children for which code in this process waits.
static AWAITED: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

/// Held shared from before a child exists until it is in [`AWAITED`], so that a holder of the
/// exclusive lock sees all children there.
static STARTING: RwLock<()> = RwLock::new(());

impl ChildProcess {
    /// Its process id, which is also that of its session and its process group.
    pub(super) fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// A descriptor that becomes readable when the child has exited; none if the kernel (or a
    /// sandbox around it) lacks the call.
    pub(super) fn pidfd(&self) -> Option<OwnedFd> {
        rustix::process::pidfd_open(self.pid, PidfdFlags::NONBLOCK)
            .or_else(|_| rustix::process::pidfd_open(self.pid, PidfdFlags::empty()))
            .ok()
    }

    /// The exit code, or minus the number of the signal that ended it; none while it runs.
    pub(super) fn try_wait(&mut self) -> io::Result<Option<i32>> {
        if self.returncode.is_none() {
            let status = match rustix::process::waitpid(Some(self.pid), WaitOptions::NOHANG) {
                Ok(None) | Err(rustix::io::Errno::INTR) => return Ok(None),
                Ok(Some((_, status))) => status,
                Err(error) => {
                    // Other code has waited for it, so its number can be reused.
                    forget(self.pid());
                    self.returncode = Some(-1);
                    return Err(error.into());
                }
            };
            forget(self.pid());
            self.returncode = status
                .exit_status()
                .or_else(|| status.terminating_signal().map(|signal| -signal));
        }
        Ok(self.returncode)
    }

    /// Kills its process group, unless its number may have been reused.
    pub(super) fn kill_group(&self) {
        if self.returncode.is_none() {
            let _ = rustix::process::kill_process_group(self.pid, Signal::KILL);
        }
    }

    /// Whether it has been waited for, so that its pid may be reused.
    pub(super) fn is_reaped(&self) -> bool {
        self.returncode.is_some()
    }
}

impl Drop for ChildProcess {
    /// A child that is no longer waited for is left to [`reap_adopted`].
    fn drop(&mut self) {
        if self.returncode.is_none() {
            forget(self.pid());
        }
    }
}

fn forget(pid: i32) {
    AWAITED
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .remove(&pid);
}

/// Those of `pids` for which no code in this process waits. Of children in sessions of their own
/// these are orphans, which the kernel gave to the host (see [`super::orphans`]).
pub(super) fn adopted(mut pids: Vec<i32>) -> Vec<i32> {
    if !pids.is_empty() {
        let _alone = STARTING.write().unwrap_or_else(PoisonError::into_inner);
        let awaited = AWAITED.lock().unwrap_or_else(PoisonError::into_inner);
        pids.retain(|pid| !awaited.contains(pid));
    }
    pids
}

/// Waits for those of `zombies` for which no code in this process waits: orphans that became
/// children because the host is process 1 of a container, or a subreaper.
pub(super) fn reap_adopted(zombies: &[i32]) {
    if zombies.is_empty() {
        return;
    }
    let _alone = STARTING.write().unwrap_or_else(PoisonError::into_inner);
    let awaited = AWAITED.lock().unwrap_or_else(PoisonError::into_inner);
    for &zombie in zombies {
        if !awaited.contains(&zombie)
            && let Some(pid) = Pid::from_raw(zombie)
        {
            let _ = rustix::process::waitpid(Some(pid), WaitOptions::NOHANG);
        }
    }
}

/// Keeps children from inheriting descriptors that the host itself inherited (a parent's locks and
/// pipes). Descriptors that Rust opens are closed in children anyway.
fn keep_inherited() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: only marks descriptors to be closed by an exec; takes nothing by pointer. A
        // kernel before 5.11 refuses, and then they are inherited as with std.
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

/// Starts `spec` and returns when the child runs the program.
///
/// # Errors
/// If a descriptor, the directory or the program can't be used.
pub(super) fn spawn(spec: &ProcessSpec<'_>) -> io::Result<ChildProcess> {
    keep_inherited();
    let args = pointers(spec.args.iter().copied());
    let env = pointers(spec.env.iter().map(CString::as_c_str));
    let mut actions = MaybeUninit::uninit();
    let actions = Actions::new(&mut actions)?;
    match spec.stdin {
        Some(fd) => actions.dup(fd, 0)?,
        None => actions.open_null(0, libc::O_RDONLY)?,
    }
    for (target, output) in [(1, spec.output), (2, spec.errors.or(spec.output))] {
        match output {
            Some(fd) => actions.dup(fd, target)?,
            None => actions.open_null(target, libc::O_WRONLY)?,
        }
    }
    if let Some(fd) = spec.third {
        actions.dup(fd, 3)?;
    }
    if let Some(fd) = spec.fourth {
        actions.dup(fd, 4)?;
    }
    if let Some(cwd) = spec.cwd {
        actions.chdir(cwd)?;
    }
    let mut attributes = MaybeUninit::uninit();
    let attributes = Attributes::new(&mut attributes, spec.deaf)?;

    let mut pid: libc::pid_t = 0;
    let _starting = STARTING.read().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: the program is a C string, `args` and `env` are null-terminated arrays of C
    // strings, all of which live until the call returns; actions and attributes are initialised.
    check(unsafe {
        libc::posix_spawn(
            &mut pid,
            spec.program.as_ptr(),
            actions.0,
            attributes.0,
            args.as_ptr(),
            env.as_ptr(),
        )
    })?;
    AWAITED
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .insert(pid);
    let pid = Pid::from_raw(pid).ok_or_else(|| io::Error::other("the kernel gave no pid"))?;
    Ok(ChildProcess {
        pid,
        returncode: None,
    })
}

/// A null-terminated array for C, which does not write to it although the type allows it.
fn pointers<'a>(strings: impl Iterator<Item = &'a CStr>) -> Vec<*mut libc::c_char> {
    strings
        .map(|text| text.as_ptr().cast_mut())
        .chain([ptr::null_mut()])
        .collect()
}

fn check(code: libc::c_int) -> io::Result<()> {
    if code == 0 {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(code))
    }
}

/// The child's actions before the exec; borrowed, because C does not allow it to be moved.
struct Actions<'a>(&'a mut libc::posix_spawn_file_actions_t);

impl<'a> Actions<'a> {
    fn new(place: &'a mut MaybeUninit<libc::posix_spawn_file_actions_t>) -> io::Result<Self> {
        // SAFETY: the memory belongs to this call and may be written.
        check(unsafe { libc::posix_spawn_file_actions_init(place.as_mut_ptr()) })?;
        // SAFETY: initialised by the successful call above.
        Ok(Self(unsafe { place.assume_init_mut() }))
    }

    fn dup(&self, from: BorrowedFd<'_>, to: i32) -> io::Result<()> {
        let this = ptr::from_ref(&*self.0).cast_mut();
        // SAFETY: `this` is initialised and nothing else uses it during the call.
        check(unsafe { libc::posix_spawn_file_actions_adddup2(this, from.as_raw_fd(), to) })
    }

    fn open_null(&self, to: i32, flags: libc::c_int) -> io::Result<()> {
        let this = ptr::from_ref(&*self.0).cast_mut();
        let path = c"/dev/null".as_ptr();
        // SAFETY: as above; the path is a C string, which the call copies.
        check(unsafe { libc::posix_spawn_file_actions_addopen(this, to, path, flags, 0) })
    }

    fn chdir(&self, path: &CStr) -> io::Result<()> {
        let this = ptr::from_ref(&*self.0).cast_mut();
        // SAFETY: as above; the path is a C string, which the call copies.
        check(unsafe { libc::posix_spawn_file_actions_addchdir_np(this, path.as_ptr()) })
    }
}

impl Drop for Actions<'_> {
    fn drop(&mut self) {
        // SAFETY: initialised, and not used after this.
        let _ = unsafe { libc::posix_spawn_file_actions_destroy(self.0) };
    }
}

/// Session and signals of the child.
struct Attributes<'a>(&'a mut libc::posix_spawnattr_t);

impl<'a> Attributes<'a> {
    fn new(place: &'a mut MaybeUninit<libc::posix_spawnattr_t>, deaf: bool) -> io::Result<Self> {
        // SAFETY: the memory belongs to this call and may be written.
        check(unsafe { libc::posix_spawnattr_init(place.as_mut_ptr()) })?;
        // SAFETY: initialised by the successful call above.
        let this = Self(unsafe { place.assume_init_mut() });
        let flags = libc::POSIX_SPAWN_SETSID as i32
            | libc::POSIX_SPAWN_SETSIGMASK
            | libc::POSIX_SPAWN_SETSIGDEF;
        // A blocked signal stays blocked over the exec, so the guardian needs no handlers.
        let blocked: &[libc::c_int] = if deaf {
            &[
                libc::SIGINT,
                libc::SIGTERM,
                libc::SIGHUP,
                libc::SIGQUIT,
                libc::SIGTSTP,
            ]
        } else {
            &[]
        };
        // Rust programs ignore SIGPIPE, and commands must not inherit that: `yes | head` would
        // complain instead of ending. The host also ignores SIGXFSZ, which ends programs whose
        // files grow too large.
        let restored = [libc::SIGPIPE, libc::SIGXFSZ];
        // SAFETY: `this.0` is initialised; the sets are initialised by `set`.
        unsafe {
            check(libc::posix_spawnattr_setflags(
                this.0,
                flags as libc::c_short,
            ))?;
            check(libc::posix_spawnattr_setsigmask(this.0, &set(blocked)))?;
            check(libc::posix_spawnattr_setsigdefault(this.0, &set(&restored)))?;
        }
        Ok(this)
    }
}

impl Drop for Attributes<'_> {
    fn drop(&mut self) {
        // SAFETY: initialised, and not used after this.
        let _ = unsafe { libc::posix_spawnattr_destroy(self.0) };
    }
}

fn set(signals: &[libc::c_int]) -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: `sigemptyset` initialises the set; adding known signals to it can't fail.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for &signal in signals {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        set.assume_init()
    }
}
