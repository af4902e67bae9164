//! Programs that stay open between actions (a debugger, an interpreter, a network client): the role,
//! and its values.
//!
//! Each program runs where the actions run: as the same user, in the same sandbox, with the same
//! variables, and in the directory in which actions begin. It has a process of its own, so that it
//! neither waits for an action nor delays one. Its output is read at all times and kept up to a bound.
//! All programs end with the environment.

use std::time::Duration;

use async_trait::async_trait;

use crate::Stop;

/// A program to be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramStart<'a> {
    /// The text for the interpreter of actions, as `python3 -i`.
    pub command: &'a str,
    /// The rows and columns of its terminal; without one, its input and its output are pipes, and many
    /// programs then print no prompt.
    pub terminal: Option<(u16, u16)>,
}

/// The condition to wait for in the output of a program.
#[derive(Clone, Copy, Debug)]
pub struct Expectation<'a> {
    /// Regular expressions; the match that begins first counts, and of several the first one in this
    /// list. A match must begin and end within the last 16 KiB that came before it was looked for.
    pub patterns: &'a [&'a str],
    /// For how long there is no output.
    pub quiet: Option<Duration>,
    /// How long to wait.
    pub limit: Duration,
}

/// Why a wait has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExpectEnd {
    /// The pattern with this index was found.
    Matched(usize),
    /// There was no output for the time that was asked for.
    Quiet,
    /// The program has ended.
    Ended(ProgramEnd),
    /// The time was over.
    TimedOut,
    /// The run or the step was asked to stop.
    Stopped,
}

/// How a program has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgramEnd {
    /// By itself: its exit code, or 128 and the number of the signal that ended it.
    Exited(i32),
    /// It was ended by [`InteractivePrograms::close`].
    Closed,
    /// Its helper is gone, and it with it: the reason.
    Lost(String),
}

/// Output of a program that nobody had got before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramOutput {
    /// The output: up to the end of the match, if there is one, else all. Bytes that are no UTF-8 are
    /// replaced.
    pub text: String,
    /// How many bytes before it were dropped, because nobody had asked for them.
    pub dropped: u64,
    /// Why the wait has ended.
    pub end: ExpectEnd,
}

/// Why a program can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    /// Nothing has this name.
    #[error("no program is open under the name `{name}`{}", others(.open))]
    Unknown {
        /// The name.
        name: String,
        /// The names of the open programs.
        open: Vec<String>,
    },
    /// The name is that of a program that runs.
    #[error("a program is open under the name `{0}`: close it first, or choose another name")]
    Open(String),
    /// Too many programs are open.
    #[error("{0} programs are open already, and no more are allowed: close one first")]
    TooMany(usize),
    /// The program could not be started: the reason.
    #[error("{0}")]
    NotStarted(String),
    /// It takes no input, because it has ended or closed its input.
    #[error("the program takes no more input")]
    InputClosed,
    /// It has not read what was sent before.
    #[error(
        "the program has not read {waiting} bytes of its input yet, and at most {most} may wait: send less, or close it"
    )]
    InputFull {
        /// How many bytes wait.
        waiting: u64,
        /// The most that may wait.
        most: u64,
    },
    /// A line of the input is longer than a terminal takes that collects lines; the input was dropped.
    #[error(
        "a line of the input has more than 4095 bytes, which a terminal cuts off: nothing of it was sent; send shorter lines, write the text to a file for the program, or open the program without a terminal"
    )]
    LineTooLong,
    /// The time was over before it had taken all.
    #[error(
        "the program took {taken} of {of} bytes of its input in time; the rest is written when it reads"
    )]
    NotTaken {
        /// The number of bytes that it took.
        taken: usize,
        /// The number of bytes that were sent.
        of: usize,
    },
    /// A pattern is no regular expression, or takes too long.
    #[error("the pattern `{pattern}` can't be used: {why}")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// The reason.
        why: String,
    },
    /// The run or the step was asked to stop.
    #[error("the run was stopped")]
    Stopped,
}

fn others(open: &[String]) -> String {
    match open {
        [] => String::new(),
        names => format!("; open are `{}`", names.join("`, `")),
    }
}

/// The programs of an environment that stay open, by name.
#[async_trait]
pub trait InteractivePrograms: Send {
    /// Starts a program under `name`. A program of that name that has ended is forgotten.
    ///
    /// # Errors
    /// [`ProgramError`] if the name is taken, too many are open, or the program's place can't be
    /// reached. A command that fails ends the program, which the next wait reports.
    async fn open(
        &mut self,
        name: &str,
        program: &ProgramStart<'_>,
        stop: &Stop,
    ) -> Result<(), ProgramError>;
    /// Writes to its standard input, and waits for at most `limit` until it has taken all.
    ///
    /// # Errors
    /// [`ProgramError`] if there is no such program, or it does not take all.
    async fn send(
        &mut self,
        name: &str,
        bytes: &[u8],
        limit: Duration,
        stop: &Stop,
    ) -> Result<(), ProgramError>;
    /// Waits for its output, which is then no longer kept.
    ///
    /// # Errors
    /// [`ProgramError`] if there is no such program, or a pattern can't be used; the output is still
    /// kept then.
    async fn expect(
        &mut self,
        name: &str,
        wanted: &Expectation<'_>,
        stop: &Stop,
    ) -> Result<ProgramOutput, ProgramError>;
    /// Sends a signal to the processes in the foreground of its terminal, or to its process group. An
    /// interruption (Ctrl-C) is signal 2.
    ///
    /// # Errors
    /// [`ProgramError`] if there is no such program.
    async fn signal(&mut self, name: &str, number: i32) -> Result<(), ProgramError>;
    /// Sets the rows and columns of its terminal; without one, nothing happens.
    ///
    /// # Errors
    /// [`ProgramError`] if there is no such program.
    async fn resize(&mut self, name: &str, rows: u16, columns: u16) -> Result<(), ProgramError>;
    /// Closes its input, gives it a short time to end by itself, then kills it and all that it has
    /// started. Returns the rest of its output.
    ///
    /// # Errors
    /// [`ProgramError`] if there is no such program.
    async fn close(&mut self, name: &str) -> Result<ProgramOutput, ProgramError>;
    /// The names of the programs that were opened and not closed.
    fn names(&mut self) -> Vec<String>;
}
