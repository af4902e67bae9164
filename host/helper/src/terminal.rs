//! A terminal of an action: a pair of devices, one for this program and one for the action.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use mswea_helper::protocol::TerminalSize;
use rustix::fs::{Mode, OFlags};
use rustix::termios::{
    Action, InputModes, LocalModes, OptionalActions, OutputModes, QueueSelector, Termios, Winsize,
    tcflow, tcflush, tcgetattr, tcgetpgrp, tcsetattr, tcsetwinsize,
};

use crate::sys;

/// The devices that make terminals. An image may have only the second one.
const MAKERS: [&str; 2] = ["/dev/ptmx", "/dev/pts/ptmx"];

/// The character that a terminal takes for the end of the input (Ctrl-D).
pub const END_OF_INPUT: u8 = 4;

/// The two devices of a terminal.
pub struct Terminal {
    /// This program's device: it reads the output from it, and writes the input to it.
    master: OwnedFd,
    /// The action's device. It is kept open, so that the terminal stays when the action closes it.
    slave: OwnedFd,
    /// The initial settings.
    modes: Termios,
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

fn open(path: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

impl Terminal {
    /// Makes a terminal. It does not echo its input, and does not change line ends in the output,
    /// so that the output has exactly the bytes that the program has written.
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
        let slave = open(&format!("/dev/pts/{number}"))?;
        let mut modes = tcgetattr(&slave)?;
        modes.local_modes -= LocalModes::ECHO;
        modes.output_modes -= OutputModes::ONLCR;
        modes.input_modes |= InputModes::IUTF8;
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

    /// Restores the initial settings, drops unread input, and resumes stopped output.
    pub fn reset(&self) {
        let _ = tcsetattr(&self.slave, OptionalActions::Now, &self.modes);
        let _ = tcflush(&self.slave, QueueSelector::IFlush);
        let _ = tcflow(&self.slave, Action::OOn);
    }

    /// Whether the terminal collects lines for its program, as at the beginning; false if the
    /// program reads each key.
    pub fn collects_lines(&self) -> bool {
        let modes = tcgetattr(&self.slave);
        modes.is_ok_and(|modes| modes.local_modes.contains(LocalModes::ICANON))
    }

    /// Sets the terminal's size; the kernel signals this to the foreground processes.
    pub fn resize(&self, size: TerminalSize) {
        let size = Winsize {
            ws_row: size.rows,
            ws_col: size.columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        let _ = tcsetwinsize(&self.master, size);
    }

    /// The process group in the foreground.
    pub fn foreground(&self) -> Option<i32> {
        let group = tcgetpgrp(&self.master).ok()?.as_raw_nonzero().get();
        (group > 1).then_some(group)
    }
}
