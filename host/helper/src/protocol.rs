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
//! An action is a process of its own ([`HelperRequest::Run`]), or a command for the one shell of
//! this helper ([`HelperRequest::Ask`]). One action runs at a time: a host that needs several at
//! once, such as a shell and a debugger that stays open, starts a helper for each, with a stream of
//! its own. So a stream needs no multiplexing, a program that floods its output delays no other,
//! and the end of one helper does not end the others.

mod frame;

use frame::{Field, Frame, FrameContent, LENGTH};
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

/// The kind of an output frame.
const OUTPUT: u8 = b'o';

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
    /// The size of most terminals, and the one that programs assume if they can't ask.
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

impl Field<'_> for TerminalSize {
    fn write(&self, frame: &mut Frame) {
        frame.number(self.number());
    }

    fn read(rest: &mut FrameContent<'_>) -> Result<Self, Malformed> {
        rest.number().map(Self::of)
    }
}

impl Field<'_> for ActionInput {
    fn write(&self, frame: &mut Frame) {
        match self {
            Self::Empty => frame.number(0),
            Self::Pipe => frame.number(1),
            Self::Terminal(size) => {
                frame.number(2);
                size.write(frame);
            }
        }
    }

    fn read(rest: &mut FrameContent<'_>) -> Result<Self, Malformed> {
        Ok(match rest.number()? {
            0 => Self::Empty,
            1 => Self::Pipe,
            2 => Self::Terminal(Field::read(rest)?),
            _ => return Err(Malformed),
        })
    }
}

impl Field<'_> for Option<TerminalSize> {
    fn write(&self, frame: &mut Frame) {
        let input = self.map_or(ActionInput::Empty, ActionInput::Terminal);
        input.write(frame);
    }

    fn read(rest: &mut FrameContent<'_>) -> Result<Self, Malformed> {
        match ActionInput::read(rest)? {
            ActionInput::Empty => Ok(None),
            ActionInput::Terminal(size) => Ok(Some(size)),
            ActionInput::Pipe => Err(Malformed),
        }
    }
}

/// The messages of one side: each with the first byte of its frame, and its fields in the order in
/// which they follow the number of the action.
macro_rules! messages {
    ($(#[$about:meta])* $name:ident $(<$life:lifetime>)? {
        $($(#[$what:meta])* $kind:literal $variant:ident {
            $($(#[$of:meta])* $field:ident: $type:ty,)*
        })*
    }) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum $name $(<$life>)? {
            $($(#[$what])* $variant {
                /// The number of the action. The host chooses another one for each.
                id: u32,
                $($(#[$of])* $field: $type,)*
            },)*
        }

        impl $(<$life>)? $name $(<$life>)? {
            fn frame(&self) -> Vec<u8> {
                match self {
                    $(Self::$variant { id, $($field,)* } => {
                        Frame::new($kind, *id)$(.with($field))*.finish()
                    })*
                }
            }

            /// Reads the content of a frame.
            ///
            /// # Errors
            /// [`Malformed`] if it is none of these messages.
            pub fn decode(content: &$($life)? [u8]) -> Result<Self, Malformed> {
                let (kind, id, mut rest) = FrameContent::of(content)?;
                let message = match kind {
                    $($kind => Self::$variant {
                        id,
                        $($field: Field::read(&mut rest)?,)*
                    },)*
                    _ => return Err(Malformed),
                };
                rest.end().map(|()| message)
            }

            /// The number of the action.
            pub fn id(&self) -> u32 {
                match self {
                    $(Self::$variant { id, .. } => *id,)*
                }
            }
        }
    };
}

messages! {
    /// A message of the host.
    HelperRequest {
        /// Starts an action. Only one runs at a time.
        b'r' Run {
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
        }
        /// Gives a command to the helper's shell, which is started if there is none. Only one action runs
        /// at a time.
        b'a' Ask {
            /// Program and arguments of the shell.
            argv: Vec<Vec<u8>>,
            /// `NAME=value`, for a shell that is started, laid over the helper's own environment.
            env: Vec<Vec<u8>>,
            /// The directory of the first shell; empty: the helper's.
            cwd: Vec<u8>,
            /// See [`HelperRequest::Run`].
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
        }
        /// Kills the action and all processes that it started. It ends as always, with
        /// [`HelperReply::Exited`]. A command of the shell is interrupted first, and the shell kept if it
        /// can be. Nothing happens if it has ended.
        b'k' Kill {}
        /// Writes to the action's standard input, if it has one and has not ended. What it has taken is
        /// reported with [`HelperReply::Taken`]; the rest is kept without a bound, so the host limits it.
        b'i' Input {
            /// The bytes.
            bytes: Vec<u8>,
        }
        /// Closes the action's standard input after all that was written to it. A terminal gets the
        /// character that stands for the end (Ctrl-D) and stays usable.
        b'c' Close {}
        /// Sends a signal to the processes in the foreground of the action's terminal; without a terminal,
        /// to the process group of the action, or to the processes of the shell's command.
        b's' Signal {
            /// The signal's number.
            number: i32,
        }
        /// Sets the size of the action's terminal.
        b'z' Resize {
            /// The new size.
            size: TerminalSize,
        }
    }
}

messages! {
    /// A message of the helper.
    HelperReply<'a> {
        /// The next piece of the action's output.
        b'o' Output {
            /// At most [`PIECE`] bytes.
            bytes: &'a [u8],
        }
        /// The action has taken bytes of its input.
        b't' Taken {
            /// How many since the last report.
            count: u32,
            /// Whether more can be written. If not, the rest was dropped: the action has closed its input.
            is_open: bool,
            /// Whether these bytes were dropped: they have a line that the terminal would cut off.
            is_too_long: bool,
        }
        /// The action has ended, and all its output has been sent.
        b'e' Exited {
            /// Its exit code; 128 and the number of the signal if one ended it.
            status: i32,
            /// Whether it was killed at the host's request. If not, it ended by itself before
            /// [`HelperRequest::Kill`] arrived.
            killed: bool,
            /// How many processes could not be killed.
            left: u32,
            /// Messages about the shell, one per line; empty: none.
            notes: &'a str,
        }
        /// The action could not be started.
        b'f' Failed {
            /// The system's error number.
            errno: i32,
            /// The message: what failed, and why.
            text: &'a str,
        }
    }
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
        Some(self.frame()).filter(|frame| frame.len() <= LENGTH + LONGEST_REQUEST)
    }
}

impl HelperReply<'_> {
    /// The reply as a frame.
    pub fn encode(&self) -> Vec<u8> {
        self.frame()
    }
}

#[cfg(test)]
mod tests;
