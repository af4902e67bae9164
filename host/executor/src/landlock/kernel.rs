//! The three system calls of Landlock, of which the C library has only the numbers.
//!
//! The crate `landlock` would replace two of them. It does not tell the kernel's version before a process
//! is confined, on which the rules, the trial and the messages depend, and it would add three crates.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use rustix::io::Errno;

/// Rights to files, by the kernel's numbers.
pub(super) mod right {
    pub(in super::super) const WRITE_FILE: u64 = 1 << 1;
    pub(in super::super) const REMOVE_DIR: u64 = 1 << 4;
    pub(in super::super) const REMOVE_FILE: u64 = 1 << 5;
    pub(in super::super) const MAKE_CHAR: u64 = 1 << 6;
    pub(in super::super) const MAKE_DIR: u64 = 1 << 7;
    pub(in super::super) const MAKE_REG: u64 = 1 << 8;
    pub(in super::super) const MAKE_SOCK: u64 = 1 << 9;
    pub(in super::super) const MAKE_FIFO: u64 = 1 << 10;
    pub(in super::super) const MAKE_BLOCK: u64 = 1 << 11;
    pub(in super::super) const MAKE_SYM: u64 = 1 << 12;
    /// Since version 2.
    pub(in super::super) const REFER: u64 = 1 << 13;
    /// Since version 3.
    pub(in super::super) const TRUNCATE: u64 = 1 << 14;
    /// Since version 5.
    pub(in super::super) const IOCTL_DEV: u64 = 1 << 15;
    /// Since version 9: connecting to a socket that has a path and was made outside.
    pub(in super::super) const RESOLVE_UNIX: u64 = 1 << 16;
}

/// Since version 6.
const SCOPE_ABSTRACT_UNIX_SOCKET: u64 = 1;
/// Since version 6.
const SCOPE_SIGNAL: u64 = 1 << 1;
/// The version since which there are scopes.
pub(super) const SCOPES: i32 = 6;
/// The version since which device calls are covered.
pub(super) const DEVICES: i32 = 5;
/// The version since which sockets with a path are covered.
pub(super) const SOCKETS: i32 = 9;

const CREATE_RULESET_VERSION: libc::c_uint = 1;
const RULE_PATH_BENEATH: libc::c_int = 1;

#[repr(C)]
struct RulesetAttr {
    handled_access_fs: u64,
    handled_access_net: u64,
    scoped: u64,
}

#[repr(C, packed)]
struct PathBeneathAttr {
    allowed_access: u64,
    parent_fd: i32,
}

/// The version of Landlock in this kernel.
pub(super) fn abi() -> Result<i32, Errno> {
    // SAFETY: with this flag the call takes no pointer and only returns a number.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<RulesetAttr>(),
            0_usize,
            CREATE_RULESET_VERSION,
        )
    };
    match i32::try_from(version) {
        Ok(version) if version > 0 => Ok(version),
        _ => Err(last_error()),
    }
}

/// Rules that are being built.
pub(super) struct Ruleset(OwnedFd);

impl Ruleset {
    /// Rules that forbid `handled` everywhere, and access to processes outside if `scoped`.
    pub(super) fn new(handled: u64, scoped: bool) -> Result<Self, Errno> {
        let attr = RulesetAttr {
            handled_access_fs: handled,
            handled_access_net: 0,
            scoped: if scoped {
                SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL
            } else {
                0
            },
        };
        // SAFETY: the attributes exist during the call and have the given size; an older kernel
        // accepts a larger size if the unknown part is zero.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_landlock_create_ruleset,
                &raw const attr,
                size_of::<RulesetAttr>(),
                0,
            )
        };
        match i32::try_from(fd) {
            // SAFETY: the kernel has just opened this descriptor, which is close-on-exec.
            Ok(fd) if fd >= 0 => Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) })),
            _ => Err(last_error()),
        }
    }

    /// Allows `rights` to a file, or to everything below a folder.
    pub(super) fn allow(&self, place: impl AsFd, rights: u64) -> Result<(), Errno> {
        let attr = PathBeneathAttr {
            allowed_access: rights,
            parent_fd: place.as_fd().as_raw_fd(),
        };
        // SAFETY: the attributes and both descriptors exist during the call.
        let code = unsafe {
            libc::syscall(
                libc::SYS_landlock_add_rule,
                self.0.as_raw_fd(),
                RULE_PATH_BENEATH,
                &raw const attr,
                0,
            )
        };
        if code == 0 { Ok(()) } else { Err(last_error()) }
    }

    /// Applies the rules to this thread, and to everything that it starts from now on.
    pub(super) fn enforce(self) -> Result<(), Errno> {
        // SAFETY: takes numbers only. Landlock requires it, so that no set-user-id program is
        // started under rules that it does not expect.
        if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
            return Err(last_error());
        }
        // SAFETY: takes a descriptor that exists during the call, and no pointer.
        let code =
            unsafe { libc::syscall(libc::SYS_landlock_restrict_self, self.0.as_raw_fd(), 0) };
        if code == 0 { Ok(()) } else { Err(last_error()) }
    }
}

fn last_error() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::INVAL)
}
