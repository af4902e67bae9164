//! A terminal of an action: a pair of devices, one for this program and one for the action.

use std::ffi::{CStr, CString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use mswea_helper::protocol::TerminalSize;

use crate::sys;

/// Where terminals are made. An image may have only the second one.
const MAKERS: [&CStr; 2] = [c"/dev/ptmx", c"/dev/pts/ptmx"];

/// The character that a terminal takes for the end of the input (Ctrl-D).
pub const END_OF_INPUT: u8 = 4;

/// The two devices.
pub struct Terminal {
    /// This program's: it reads the output from it, and writes the input to it.
    master: OwnedFd,
    /// The action's. It is held, so that the terminal stays when the action closes it.
    slave: OwnedFd,
    /// How it was set at the beginning.
    modes: libc::termios,
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

fn open(path: &CStr) -> io::Result<OwnedFd> {
    let flags = libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC;
    // SAFETY: the path is a C string.
    let fd = check(unsafe { libc::open(path.as_ptr(), flags) })?;
    // SAFETY: the call has just opened it, so nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

impl Terminal {
    /// Makes one. It does not echo its input, and does not change the ends of lines in the output, so
    /// that a program's output is what it has written.
    pub fn open(size: TerminalSize) -> io::Result<Self> {
        let master = MAKERS.iter().find_map(|path| open(path).ok());
        let master = master.map_or_else(|| open(MAKERS[0]), Ok)?;
        let (mut number, mut locked): (libc::c_uint, libc::c_int) = (0, 0);
        // SAFETY: the first request reads one int, and the second one writes one.
        unsafe {
            check(libc::ioctl(
                master.as_raw_fd(),
                libc::TIOCSPTLCK as _,
                &mut locked,
            ))?;
            check(libc::ioctl(
                master.as_raw_fd(),
                libc::TIOCGPTN as _,
                &mut number,
            ))?;
        }
        let path = CString::new(format!("/dev/pts/{number}"))?;
        let slave = open(&path)?;
        let mut modes = MaybeUninit::<libc::termios>::uninit();
        // SAFETY: room for the modes.
        check(unsafe { libc::tcgetattr(slave.as_raw_fd(), modes.as_mut_ptr()) })?;
        // SAFETY: initialised by the successful call above.
        let mut modes = unsafe { modes.assume_init() };
        modes.c_lflag &= !libc::ECHO;
        modes.c_oflag &= !libc::ONLCR;
        modes.c_iflag |= libc::IUTF8;
        sys::set_nonblocking(&master)?;
        let this = Self {
            master,
            slave,
            modes,
        };
        this.reset();
        this.resize(size);
        Ok(this)
    }

    /// The descriptor to read the output from; it stays usable without this value.
    pub fn output(&self) -> io::Result<OwnedFd> {
        sys::copy(&self.master)
    }

    /// This program's device.
    pub fn master(&self) -> BorrowedFd<'_> {
        self.master.as_fd()
    }

    /// The action's device.
    pub fn slave(&self) -> BorrowedFd<'_> {
        self.slave.as_fd()
    }

    /// Sets it as at the beginning, drops input that nobody has read, and lets stopped output go on.
    pub fn reset(&self) {
        let fd = self.slave.as_raw_fd();
        // SAFETY: the modes are initialised; the other calls take nothing by pointer.
        unsafe {
            libc::tcsetattr(fd, libc::TCSANOW, &self.modes);
            libc::tcflush(fd, libc::TCIFLUSH);
            libc::tcflow(fd, libc::TCOON);
        }
    }

    /// Whether it collects lines for its program, as at the beginning; not if the program reads each key.
    pub fn collects_lines(&self) -> bool {
        let mut modes = MaybeUninit::<libc::termios>::uninit();
        // SAFETY: room for the modes, which are initialised if the call succeeds.
        unsafe {
            libc::tcgetattr(self.slave.as_raw_fd(), modes.as_mut_ptr()) == 0
                && modes.assume_init().c_lflag & libc::ICANON != 0
        }
    }

    /// Sets its size, of which the kernel tells the processes in the foreground.
    pub fn resize(&self, size: TerminalSize) {
        let mut size = libc::winsize {
            ws_row: size.rows,
            ws_col: size.columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        // SAFETY: the request reads one size.
        unsafe { libc::ioctl(self.master.as_raw_fd(), libc::TIOCSWINSZ as _, &mut size) };
    }

    /// The process group in the foreground.
    pub fn foreground(&self) -> Option<i32> {
        let mut group: libc::pid_t = 0;
        // SAFETY: the request writes one pid.
        let result =
            unsafe { libc::ioctl(self.master.as_raw_fd(), libc::TIOCGPGRP as _, &mut group) };
        (result == 0 && group > 1).then_some(group)
    }
}
