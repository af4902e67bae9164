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
//! helper ([`HelperRequest::Ask`]).

/// Must change with every change of this module that affects the other side.
pub const VERSION: u32 = 2;

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
const LENGTH: usize = 4;

const RUN: u8 = b'r';
const ASK: u8 = b'a';
const KILL: u8 = b'k';
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
    },
    /// Kills the action and all processes that it started. It ends as always, with
    /// [`HelperReply::Exited`]. A command of the shell is interrupted first, and the shell kept if it
    /// can be.
    Kill {
        /// The action; nothing happens if it has ended.
        id: u32,
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

/// The other side does not follow this protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// The first frame in `bytes`: its content, and its whole length. None if the frame is not complete
/// yet.
///
/// # Errors
/// [`Malformed`] if it is longer than `longest`.
pub fn frame(bytes: &[u8], longest: usize) -> Result<Option<(&[u8], usize)>, Malformed> {
    let Some(length) = bytes.first_chunk::<LENGTH>() else {
        return Ok(None);
    };
    let length = u32::from_le_bytes(*length) as usize;
    if !(5..=longest).contains(&length) {
        return Err(Malformed);
    }
    let end = LENGTH + length;
    Ok(bytes.get(LENGTH..end).map(|content| (content, end)))
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
            } => {
                let mut frame = Frame::new(RUN, *id);
                frame.list(argv);
                frame.list(env);
                frame.text(cwd);
                frame.number(*grace_ms);
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
            } => {
                let mut frame = Frame::new(ASK, *id);
                frame.list(argv);
                frame.list(env);
                frame.text(cwd);
                frame.number(*grace_ms);
                frame.number(u32::from(*login));
                frame.text(mark);
                frame.text(command);
                frame
            }
            Self::Kill { id } => Frame::new(KILL, *id),
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
            },
            KILL => Self::Kill { id },
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
            Self::Output { id, .. } | Self::Exited { id, .. } | Self::Failed { id, .. } => *id,
        }
    }
}

/// A frame that is being written; its length is filled in last.
struct Frame(Vec<u8>);

impl Frame {
    fn new(kind: u8, id: u32) -> Self {
        let mut frame = Self(vec![0; LENGTH]);
        frame.0.push(kind);
        frame.number(id);
        frame
    }

    fn number(&mut self, number: u32) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn text(&mut self, text: &[u8]) {
        self.number(text.len() as u32);
        self.0.extend_from_slice(text);
    }

    fn list(&mut self, list: &[Vec<u8>]) {
        self.number(list.len() as u32);
        for text in list {
            self.text(text);
        }
    }

    fn finish(mut self) -> Vec<u8> {
        let length = (self.0.len() - LENGTH) as u32;
        self.0[..LENGTH].copy_from_slice(&length.to_le_bytes());
        self.0
    }
}

/// The rest of a frame that is being read.
struct FrameContent<'a>(&'a [u8]);

impl<'a> FrameContent<'a> {
    fn of(content: &'a [u8]) -> Result<(u8, u32, Self), Malformed> {
        let (kind, rest) = content.split_first().ok_or(Malformed)?;
        let mut rest = Self(rest);
        Ok((*kind, rest.number()?, rest))
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn number(&mut self) -> Result<u32, Malformed> {
        let (number, rest) = self.0.split_first_chunk().ok_or(Malformed)?;
        self.0 = rest;
        Ok(u32::from_le_bytes(*number))
    }

    fn text(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.number()? as usize;
        self.take(length)
    }

    fn words(&mut self) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.text()?).map_err(|_| Malformed)
    }

    fn list(&mut self) -> Result<Vec<Vec<u8>>, Malformed> {
        // No memory is reserved for the stated count, which the other side could make up.
        let count = self.number()?;
        let mut list = Vec::new();
        for _ in 0..count {
            list.push(self.text()?.to_vec());
        }
        Ok(list)
    }

    fn end(self) -> Result<(), Malformed> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(Malformed)
        }
    }
}

#[cfg(test)]
mod tests;
