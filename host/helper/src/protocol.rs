//! The protocol between the host and `mswea-helper session`, used by both.
//!
//! The helper begins with [`hello`]: fixed bytes that no other program prints, and the version.
//! After that both sides send frames: four bytes of length, one for the kind, four for the action's
//! number, and the fields of that kind. Numbers are little-endian; a text or a list is preceded by
//! its length. The end of the host's stream ends the helper.
//!
//! Both sides come from the same build, so a change needs no compatibility, only another
//! [`VERSION`]: it identifies a helper that an older host left in an image.
//!
//! An action is a process of its own ([`HelperRequest::Run`]), or a command for the one shell of this
//! helper ([`HelperRequest::Ask`]). One action runs at a time: whoever needs several at once, such as a
//! shell and a debugger that stays open, starts a helper for each, with a stream of its own. So a
//! stream needs no multiplexing, a program that floods its output delays no other, and the end of one
//! helper does not end the others.

mod frame;

use frame::{Frame, FrameContent, LENGTH};
pub use frame::{Malformed, frame};

/// Must change with every change of this module that affects the other side.
pub const VERSION: u32 = 4;

/// The most output in one frame.
pub const PIECE: usize = 64 * 1024;

/// The length of the longest request. The kernel accepts far shorter arguments and environments.
pub const LONGEST_REQUEST: usize = 16 * 1024 * 1024;

/// The length of the longest reply.
pub const LONGEST_REPLY: usize = 2 * PIECE;

/// The length of the part before the payload of an output frame.
pub const HEAD: usize = LENGTH + 1 + 4;

/// The length of [`hello`].
pub const HELLO: usize = MAGIC.len() + 4;

const MAGIC: &[u8; 12] = b"mswea-helper";

const RUN: u8 = b'r';
const ASK: u8 = b'a';
const KILL: u8 = b'k';
const INPUT: u8 = b'i';
const CLOSE: u8 = b'c';
const SIGNAL: u8 = b's';
const RESIZE: u8 = b'z';
const TAKEN: u8 = b't';
const OUTPUT: u8 = b'o';
const EXITED: u8 = b'e';
const FAILED: u8 = b'f';

/// The first bytes of the helper.
pub fn hello() -> [u8; HELLO] {
    let mut bytes = [0; HELLO];
    bytes[..MAGIC.len()].copy_from_slice(MAGIC);
    bytes[MAGIC.len()..].copy_from_slice(&VERSION.to_le_bytes());
    bytes
}

/// The version in a hello; none for other bytes.
pub fn version(bytes: &[u8]) -> Option<u32> {
    let version = bytes.strip_prefix(MAGIC)?.first_chunk()?;
    Some(u32::from_le_bytes(*version))
}

/// Whether `bytes` is the beginning of a hello.
pub fn may_be_hello(bytes: &[u8]) -> bool {
    let length = bytes.len().min(MAGIC.len());
    bytes[..length] == MAGIC[..length]
}

/// The size of a terminal in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminalSize {
    /// Its lines.
    pub rows: u16,
    /// The characters of a line.
    pub columns: u16,
}

impl Default for TerminalSize {
    /// As most terminals begin, and as programs assume that can't ask.
    fn default() -> Self {
        Self {
            rows: 24,
            columns: 80,
        }
    }
}

impl TerminalSize {
    fn number(self) -> u32 {
        u32::from(self.rows) << 16 | u32::from(self.columns)
    }

    fn of(number: u32) -> Self {
        Self {
            rows: (number >> 16) as u16,
            columns: number as u16,
        }
    }
}

/// The standard input of an action.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ActionInput {
    /// There is none: every read returns the end.
    #[default]
    Empty,
    /// A pipe, to which [`HelperRequest::Input`] writes.
    Pipe,
    /// The action's controlling terminal, which is also its output. It echoes nothing and leaves line
    /// ends as they are.
    Terminal(TerminalSize),
}

impl ActionInput {
    fn write(self, frame: &mut Frame) {
        match self {
            Self::Empty => frame.number(0),
            Self::Pipe => frame.number(1),
            Self::Terminal(size) => {
                frame.number(2);
                frame.number(size.number());
            }
        }
    }

    fn read(rest: &mut FrameContent<'_>) -> Result<Self, Malformed> {
        Ok(match rest.number()? {
            0 => Self::Empty,
            1 => Self::Pipe,
            2 => Self::Terminal(TerminalSize::of(rest.number()?)),
            _ => return Err(Malformed),
        })
    }
}

/// A message of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HelperRequest {
    /// Starts an action. Only one runs at a time.
    Run {
        /// Chosen by the host; every action has another one.
        id: u32,
        /// The program, by path or by name in `PATH`, and its arguments.
        argv: Vec<Vec<u8>>,
        /// `NAME=value`, laid over the helper's own environment.
        env: Vec<Vec<u8>>,
        /// Its working directory; empty: the helper's.
        cwd: Vec<u8>,
        /// How long after its end other processes may hold its output open before they are treated
        /// as background processes.
        grace_ms: u32,
        /// Its standard input.
        input: ActionInput,
    },
    /// Gives a command to the helper's shell, which is started if there is none. Only one action runs
    /// at a time.
    Ask {
        /// As above.
        id: u32,
        /// Program and arguments of the shell.
        argv: Vec<Vec<u8>>,
        /// `NAME=value`, for a shell that is started, laid over the helper's own environment.
        env: Vec<Vec<u8>>,
        /// The directory of the first shell; empty: the helper's.
        cwd: Vec<u8>,
        /// As above.
        grace_ms: u32,
        /// Whether a shell that is started reads the files of a login shell.
        login: bool,
        /// The mark of the action: its value of `MSWEA_ACTION`.
        mark: Vec<u8>,
        /// The command.
        command: Vec<u8>,
        /// The terminal of a shell that is started, in which its commands run; none: commands have no
        /// input, and a pipe as their output.
        terminal: Option<TerminalSize>,
    },
    /// Kills the action and all processes that it started. It ends as always, with
    /// [`HelperReply::Exited`]. A command of the shell is interrupted first, and the shell kept if it
    /// can be.
    Kill {
        /// The action; nothing happens if it has ended.
        id: u32,
    },
    /// Writes to the action's standard input. What it has taken is reported with
    /// [`HelperReply::Taken`]; the rest is kept without a bound, so the host limits it.
    Input {
        /// The action; nothing happens if it has ended, or has no input.
        id: u32,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Closes the action's standard input after all that was written to it. A terminal gets the
    /// character that stands for the end (Ctrl-D) and stays usable.
    Close {
        /// As above.
        id: u32,
    },
    /// Sends a signal to the processes in the foreground of the action's terminal; without a terminal,
    /// to the process group of the action, or to the processes of the shell's command.
    Signal {
        /// As above.
        id: u32,
        /// The signal's number.
        number: i32,
    },
    /// Sets the size of the action's terminal.
    Resize {
        /// As above.
        id: u32,
        /// The new size.
        size: TerminalSize,
    },
}

/// A message of the helper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HelperReply<'a> {
    /// The next piece of the action's output.
    Output {
        /// The action.
        id: u32,
        /// At most [`PIECE`] bytes.
        bytes: &'a [u8],
    },
    /// The action has taken bytes of its input.
    Taken {
        /// The action.
        id: u32,
        /// How many since the last report.
        count: u32,
        /// Whether more can be written. If not, the rest was dropped: the action has closed its input.
        is_open: bool,
        /// Whether these bytes were dropped: they have a line that the terminal would cut off.
        is_too_long: bool,
    },
    /// The action has ended, and all its output has been sent.
    Exited {
        /// The action.
        id: u32,
        /// Its exit code; 128 and the number of the signal if one ended it.
        status: i32,
        /// Whether it was killed at the host's request. If not, it ended by itself before
        /// [`HelperRequest::Kill`] arrived.
        killed: bool,
        /// How many processes could not be killed.
        left: u32,
        /// What is told of the shell, one text a line; empty: nothing.
        notes: &'a str,
    },
    /// The action could not be started.
    Failed {
        /// The action.
        id: u32,
        /// The system's error number.
        errno: i32,
        /// The message: what failed, and why.
        text: &'a str,
    },
}

/// The payload of an output frame of action `id` that was cut off.
pub fn cut_off(bytes: &[u8], id: u32) -> &[u8] {
    match bytes.get(LENGTH..HEAD) {
        Some([OUTPUT, number @ ..]) if *number == id.to_le_bytes() => &bytes[HEAD..],
        _ => &[],
    }
}

/// The part of an output frame before its `length` bytes of payload.
pub fn output_head(id: u32, length: usize) -> [u8; HEAD] {
    let mut head = [0; HEAD];
    let whole = (HEAD - LENGTH + length) as u32;
    head[..LENGTH].copy_from_slice(&whole.to_le_bytes());
    head[LENGTH] = OUTPUT;
    head[LENGTH + 1..].copy_from_slice(&id.to_le_bytes());
    head
}

impl HelperRequest {
    /// The request as a frame; none if it would be longer than [`LONGEST_REQUEST`].
    pub fn encode(&self) -> Option<Vec<u8>> {
        let frame = match self {
            Self::Run {
                id,
                argv,
                env,
                cwd,
                grace_ms,
                input,
            } => {
                let mut frame = Frame::new(RUN, *id);
                frame.list(argv);
                frame.list(env);
                frame.text(cwd);
                frame.number(*grace_ms);
                input.write(&mut frame);
                frame
            }
            Self::Ask {
                id,
                argv,
                env,
                cwd,
                grace_ms,
                login,
                mark,
                command,
                terminal,
            } => {
                let mut frame = Frame::new(ASK, *id);
                frame.list(argv);
                frame.list(env);
                frame.text(cwd);
                frame.number(*grace_ms);
                frame.number(u32::from(*login));
                frame.text(mark);
                frame.text(command);
                let input = terminal.map_or(ActionInput::Empty, ActionInput::Terminal);
                input.write(&mut frame);
                frame
            }
            Self::Kill { id } => Frame::new(KILL, *id),
            Self::Input { id, bytes } => {
                let mut frame = Frame::new(INPUT, *id);
                frame.text(bytes);
                frame
            }
            Self::Close { id } => Frame::new(CLOSE, *id),
            Self::Signal { id, number } => {
                let mut frame = Frame::new(SIGNAL, *id);
                frame.number(number.cast_unsigned());
                frame
            }
            Self::Resize { id, size } => {
                let mut frame = Frame::new(RESIZE, *id);
                frame.number(size.number());
                frame
            }
        };
        (frame.0.len() <= LENGTH + LONGEST_REQUEST).then(|| frame.finish())
    }

    /// Reads the content of a frame.
    ///
    /// # Errors
    /// [`Malformed`] if it is no request.
    pub fn decode(content: &[u8]) -> Result<Self, Malformed> {
        let (kind, id, mut rest) = FrameContent::of(content)?;
        let request = match kind {
            RUN => Self::Run {
                id,
                argv: rest.list()?,
                env: rest.list()?,
                cwd: rest.text()?.to_vec(),
                grace_ms: rest.number()?,
                input: ActionInput::read(&mut rest)?,
            },
            ASK => Self::Ask {
                id,
                argv: rest.list()?,
                env: rest.list()?,
                cwd: rest.text()?.to_vec(),
                grace_ms: rest.number()?,
                login: rest.number()? != 0,
                mark: rest.text()?.to_vec(),
                command: rest.text()?.to_vec(),
                terminal: match ActionInput::read(&mut rest)? {
                    ActionInput::Empty => None,
                    ActionInput::Terminal(size) => Some(size),
                    ActionInput::Pipe => return Err(Malformed),
                },
            },
            KILL => Self::Kill { id },
            INPUT => Self::Input {
                id,
                bytes: rest.text()?.to_vec(),
            },
            CLOSE => Self::Close { id },
            SIGNAL => Self::Signal {
                id,
                number: rest.number()?.cast_signed(),
            },
            RESIZE => Self::Resize {
                id,
                size: TerminalSize::of(rest.number()?),
            },
            _ => return Err(Malformed),
        };
        rest.end().map(|()| request)
    }
}

impl<'a> HelperReply<'a> {
    /// The reply as a frame.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Output { id, bytes } => {
                let mut frame = output_head(*id, bytes.len()).to_vec();
                frame.extend_from_slice(bytes);
                frame
            }
            Self::Taken {
                id,
                count,
                is_open,
                is_too_long,
            } => {
                let mut frame = Frame::new(TAKEN, *id);
                frame.number(*count);
                frame.number(u32::from(*is_open));
                frame.number(u32::from(*is_too_long));
                frame.finish()
            }
            Self::Exited {
                id,
                status,
                killed,
                left,
                notes,
            } => {
                let mut frame = Frame::new(EXITED, *id);
                frame.number(status.cast_unsigned());
                frame.number(u32::from(*killed));
                frame.number(*left);
                frame.text(notes.as_bytes());
                frame.finish()
            }
            Self::Failed { id, errno, text } => {
                let mut frame = Frame::new(FAILED, *id);
                frame.number(errno.cast_unsigned());
                frame.text(text.as_bytes());
                frame.finish()
            }
        }
    }

    /// Reads the content of a frame.
    ///
    /// # Errors
    /// [`Malformed`] if it is no reply.
    pub fn decode(content: &'a [u8]) -> Result<Self, Malformed> {
        let (kind, id, mut rest) = FrameContent::of(content)?;
        let reply = match kind {
            OUTPUT => {
                let bytes = rest.take(rest.0.len())?;
                Self::Output { id, bytes }
            }
            TAKEN => Self::Taken {
                id,
                count: rest.number()?,
                is_open: rest.number()? != 0,
                is_too_long: rest.number()? != 0,
            },
            EXITED => Self::Exited {
                id,
                status: rest.number()?.cast_signed(),
                killed: rest.number()? != 0,
                left: rest.number()?,
                notes: rest.words()?,
            },
            FAILED => Self::Failed {
                id,
                errno: rest.number()?.cast_signed(),
                text: rest.words()?,
            },
            _ => return Err(Malformed),
        };
        rest.end().map(|()| reply)
    }

    /// The number of the action.
    pub fn id(&self) -> u32 {
        match self {
            Self::Output { id, .. }
            | Self::Taken { id, .. }
            | Self::Exited { id, .. }
            | Self::Failed { id, .. } => *id,
        }
    }
}

#[cfg(test)]
mod tests;
