//! Takes the network away from this process: moves it to a namespace with only a loopback device.

use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;

use crate::userns;

/// Leaves the network. The process enters a user namespace as well, also as root, because root
/// could otherwise enter the host's network again; users and groups keep their numbers.
///
/// # Errors
/// A message if the kernel does not allow it.
pub(super) fn leave() -> Result<(), String> {
    // Files in `/proc/self` belong to root if the process is not dumpable.
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::Dumpable);
    let entered = if rustix::process::geteuid().is_root() {
        enter_with_all_users()
    } else {
        enter_as_oneself()
    };
    entered.map_err(|error| {
        format!(
            "a network of its own was refused ({error}); {}, or allow the network",
            userns::advice()
        )
    })?;
    start_loopback().map_err(|error| format!("the loopback device can't be started: {error}"))
}

fn unshare() -> io::Result<()> {
    // SAFETY: changes the process's namespaces and no memory. There is one thread.
    match unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn enter_as_oneself() -> io::Result<()> {
    let user = rustix::process::geteuid().as_raw();
    let group = rustix::process::getegid().as_raw();
    unshare()?;
    // Without privileges outside, the kernel allows only one user and one group.
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))
}

/// For root: enters the namespaces with a map of every user and group to itself. Only a process
/// outside may write such a map.
fn enter_with_all_users() -> io::Result<()> {
    let (users, groups) = (same("/proc/self/uid_map")?, same("/proc/self/gid_map")?);
    let (inner_end, outer_end) = rustix::pipe::pipe()?;
    let (mut inner_end, mut outer_end) = (fs::File::from(inner_end), fs::File::from(outer_end));
    let me = std::process::id();
    // SAFETY: this process has one thread, so that its copy can use everything.
    let helper = unsafe { libc::fork() };
    match helper {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            drop(outer_end);
            // Reading fails if the other process has failed and ended.
            let told = inner_end.read_exact(&mut [0]);
            let done = told
                .and_then(|()| fs::write(format!("/proc/{me}/uid_map"), users))
                .and_then(|()| fs::write(format!("/proc/{me}/gid_map"), groups));
            let code = match done {
                Ok(()) => 0,
                Err(error) => error.raw_os_error().unwrap_or(libc::EINVAL),
            };
            // SAFETY: ends the copy without the original's handlers for its end.
            unsafe { libc::_exit(code) }
        }
        _ => {
            let entered = unshare().and_then(|()| outer_end.write_all(&[1]));
            drop(OwnedFd::from(outer_end));
            let mut status = 0;
            // SAFETY: the status exists during the call; the child is this process's and has not
            // been waited for.
            while unsafe { libc::waitpid(helper, &raw mut status, 0) } == -1 {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
            entered?;
            match libc::WEXITSTATUS(status) {
                0 if libc::WIFEXITED(status) => Ok(()),
                code => Err(io::Error::from_raw_os_error(code)),
            }
        }
    }
}

/// A map that gives every existing number the same number inside.
fn same(file: &str) -> io::Result<String> {
    let text = fs::read_to_string(file)?;
    Ok(text
        .lines()
        .filter_map(|line| {
            let mut fields = line.split_ascii_whitespace();
            let (first, count) = (fields.next()?, fields.nth(1)?);
            Some(format!("{first} {first} {count}\n"))
        })
        .collect())
}

fn start_loopback() -> io::Result<()> {
    let check = |code: libc::c_int| match code {
        0.. => Ok(code),
        _ => Err(io::Error::last_os_error()),
    };
    // SAFETY: all zeroes is a valid `ifreq`; it exists during the calls, which read and write only
    // its name and flags. The socket is closed right after.
    unsafe {
        let mut request: libc::ifreq = std::mem::zeroed();
        for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
            *to = *from as libc::c_char;
        }
        let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC;
        let socket = check(libc::socket(libc::AF_INET, kind, 0))?;
        let mut done = check(libc::ioctl(
            socket,
            libc::SIOCGIFFLAGS as _,
            &raw mut request,
        ));
        if done.is_ok() {
            request.ifr_ifru.ifru_flags |= libc::IFF_UP as libc::c_short;
            done = check(libc::ioctl(
                socket,
                libc::SIOCSIFFLAGS as _,
                &raw const request,
            ));
        }
        libc::close(socket);
        done.map(drop)
    }
}
