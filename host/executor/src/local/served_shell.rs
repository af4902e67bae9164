//! A shell of this machine for a client that types into it (SWE-ReX's API): one bash with a
//! terminal, in a helper of its own. The shell itself reports the end of a command. While a program
//! that a client has opened is running, further lines are its input.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use mswea_core::{ExpectEnd, Expectation, ProgramEnd, ProgramError, Stop};
use mswea_helper::long;
use mswea_helper::processes::ACTION_VARIABLE;
use mswea_helper::protocol::{ActionInput, HelperRequest, TerminalSize};
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;

use super::served_place::{ServedError, open};
use super::settings::nested;
use super::{LocalSettings, ServedHelper};
use crate::capture::gap;
use crate::helper::{HelperAction, ShellAction};
use crate::interactive::{ProgramConnection, with_terminal};
use crate::shell::with_notes;

/// The least number of bytes of a command's output that are kept, from its end.
const KEPT: usize = 16 * 1024 * 1024;
/// How long background processes may add to the output of a command.
const GRACE: Duration = Duration::from_millis(100);
/// The time limit of a check of the syntax.
const CHECKING: Duration = Duration::from_secs(10);
/// How long the killed processes of a command, and then its shell, may take to end.
const KILLING: Duration = Duration::from_secs(5);
/// The minimum of that time.
const DYING: Duration = Duration::from_millis(500);

/// A shell. Dropping it kills the shell and all its descendants.
pub struct ServedShell {
    // The order matters: the helper's input is closed before the helper is dropped.
    connection: ProgramConnection,
    helper: ServedHelper,
    running: Option<RunningLine>,
    /// Output of the running command that no client has received.
    piled: String,
    /// How many bytes of that output were dropped.
    dropped: u64,
    interruption: ShellInterruption,
}

/// The command or program that runs in the shell.
struct RunningLine {
    text: String,
    /// Whether it is a program into which a client types.
    is_program: bool,
}

/// Interrupts the command in a shell, even while another task waits for it.
#[derive(Clone, Debug)]
pub struct ShellInterruption {
    requests: UnboundedSender<HelperRequest>,
    /// The number of the last action.
    last: Arc<AtomicU32>,
}

/// A line for the shell.
#[derive(Clone, Copy, Debug)]
pub struct ShellLine<'a> {
    /// The command, or the input of a program.
    pub text: &'a str,
    /// Whether it opens a program, or is the input of one.
    pub is_interactive: bool,
    /// Regular expressions that end the wait.
    pub expect: &'a [String],
    /// How long to wait for the end or a match.
    pub limit: Duration,
}

/// The end of a wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShellAnswer {
    /// The output that no client had received before, without the match.
    pub output: String,
    /// Why the wait ended.
    pub end: ShellAnswerEnd,
}

/// Why a wait has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShellAnswerEnd {
    /// The command has ended with this exit code.
    Exited(i32),
    /// The expression with this index matched; the command continues.
    Matched(usize),
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShellError {
    /// The time was over; the command continues, and its output is kept.
    #[error("the time limit is over")]
    TimedOut,
    /// The time was over before an earlier command, which was still running, had ended.
    #[error(
        "an earlier command still runs in this session: `{0}`; end it with an interrupt action, or close the session"
    )]
    Busy(String),
    /// The shell can't parse the command: its message. Nothing was run.
    #[error("{0}")]
    Syntax(String),
    /// An expression is invalid or takes too long.
    #[error("{0}")]
    Expression(String),
    /// There is no shell.
    #[error("{0}")]
    NoShell(String),
}

impl From<ServedError> for ShellError {
    fn from(error: ServedError) -> Self {
        Self::NoShell(error.to_string())
    }
}

impl ShellInterruption {
    fn id(&self) -> u32 {
        self.last.load(Ordering::Relaxed)
    }

    /// Sends a signal to the processes in the foreground.
    fn signal(&self, number: i32) {
        let id = self.id();
        let _ = self.requests.send(HelperRequest::Signal { id, number });
    }

    /// Interrupts the running command, if there is one.
    pub fn interrupt(&self) {
        self.signal(libc::SIGINT);
    }

    /// Ends the running command, if there is one: it is interrupted, and then killed with the
    /// shell.
    pub fn end(&self) {
        let _ = self.requests.send(HelperRequest::Kill { id: self.id() });
    }
}

impl ServedShell {
    /// Starts a helper; the shell is started with the first command.
    ///
    /// # Errors
    /// [`ShellError::NoShell`] if the helper can't be started.
    pub async fn open(settings: &LocalSettings) -> Result<Self, ShellError> {
        let (helper, session) = open(settings).await?;
        let connection = ProgramConnection::idle(session, KEPT);
        Ok(Self {
            helper,
            running: None,
            piled: String::new(),
            dropped: 0,
            interruption: ShellInterruption {
                requests: connection.requests(),
                last: Arc::default(),
            },
            connection,
        })
    }

    /// A value that can interrupt the shell.
    pub fn interruption(&self) -> ShellInterruption {
        self.interruption.clone()
    }

    /// Ends the shell and all its descendants.
    pub async fn end(self) {
        let Self {
            mut connection,
            helper,
            ..
        } = self;
        connection.cut_off().await;
        drop(connection);
        helper.end().await;
    }

    /// Runs a command, or passes a line to the running program.
    ///
    /// # Errors
    /// [`ShellError`] if the time is over, the command or an expression is invalid, or there is no
    /// shell.
    pub async fn run(&mut self, line: &ShellLine<'_>) -> Result<ShellAnswer, ShellError> {
        let began = Instant::now();
        if line.text.contains('\0') {
            return Err(ShellError::Syntax("embedded null byte".to_owned()));
        }
        self.forget_ended();
        if let Some(running) = &self.running {
            if line.is_interactive || running.is_program {
                self.connection.request(HelperRequest::Input {
                    id: self.interruption.id(),
                    bytes: format!("{}\n", line.text).into_bytes(),
                });
                let answer = self.wait(line.expect, line.limit).await;
                return match self.connection.was_too_long() {
                    true => Err(ShellError::Expression(
                        ProgramError::LineTooLong.to_string(),
                    )),
                    false => answer,
                };
            }
            let text = running.text.clone();
            match self.wait(&[], line.limit).await {
                Err(ShellError::TimedOut) => return Err(ShellError::Busy(text)),
                ended => ended?,
            };
        }
        if !line.is_interactive {
            self.check(line.text).await?;
        }
        self.ask(line)?;
        self.wait(line.expect, line.limit.saturating_sub(began.elapsed()))
            .await
    }

    /// Interrupts the running command: with SIGINT `tries` times, waiting for `limit` after each;
    /// then the foreground processes are killed, and then the shell.
    ///
    /// # Errors
    /// [`ShellError`] if there is no shell, or it does not end.
    pub async fn interrupt(
        &mut self,
        expect: &[String],
        limit: Duration,
        tries: u32,
    ) -> Result<ShellAnswer, ShellError> {
        if self.running.is_none() {
            return Ok(ShellAnswer {
                output: String::new(),
                end: ShellAnswerEnd::Exited(0),
            });
        }
        for _ in 0..tries {
            self.interruption.interrupt();
            match self.wait(expect, limit).await {
                Err(ShellError::TimedOut) => {}
                ended => return ended,
            }
        }
        self.interruption.signal(libc::SIGKILL);
        match self.wait(expect, limit.max(DYING)).await {
            Err(ShellError::TimedOut) => {}
            ended => return ended,
        }
        self.interruption.end();
        self.wait(expect, KILLING).await
    }

    /// Removes a command that has ended after its client's time limit.
    fn forget_ended(&mut self) {
        if self.connection.end().is_some() && self.running.take().is_some() {
            self.piled.clear();
            self.dropped = 0;
        }
    }

    fn begin(&mut self, request: impl FnOnce(u32) -> HelperRequest, line: RunningLine) {
        let id = self.interruption.last.fetch_add(1, Ordering::Relaxed) + 1;
        self.running = Some(line);
        (self.piled, self.dropped) = (String::new(), 0);
        self.connection.next(request(id), KEPT);
    }

    /// Makes bash parse the command without running it.
    async fn check(&mut self, text: &str) -> Result<(), ShellError> {
        // An argument of a process can't be longer.
        if text.trim().is_empty() || long::is_long(text.as_bytes()) {
            return Ok(());
        }
        let argv = ["bash", "-n", "-c", "--", text].map(str::to_owned);
        let action = HelperAction {
            argv: &argv,
            env: &[],
            cwd: None,
            grace: Duration::ZERO,
            input: ActionInput::Empty,
        };
        let line = RunningLine {
            text: "bash -n".to_owned(),
            is_program: false,
        };
        self.begin(|id| action.request(id), line);
        let answer = self.wait(&[], CHECKING).await?;
        match answer.end {
            ShellAnswerEnd::Exited(0) | ShellAnswerEnd::Matched(_) => Ok(()),
            ShellAnswerEnd::Exited(_) => Err(ShellError::Syntax(answer.output)),
        }
    }

    fn ask(&mut self, line: &ShellLine<'_>) -> Result<(), ShellError> {
        if self.connection.is_gone() {
            let why = "the helper of this session has ended: close the session and create another";
            return Err(ShellError::NoShell(why.to_owned()));
        }
        let number = self.interruption.id() + 1;
        let mark = format!("{}.{number}", self.helper.run_id());
        let action = ShellAction {
            bash: "bash",
            login: false,
            env: &with_terminal(Vec::new(), true),
            cwd: None,
            grace: GRACE,
            mark: &nested(ACTION_VARIABLE, &mark),
            command: line.text,
            terminal: Some(TerminalSize::default()),
        };
        let running = RunningLine {
            text: line.text.to_owned(),
            is_program: line.is_interactive,
        };
        self.begin(|id| action.request(id), running);
        Ok(())
    }

    async fn wait(
        &mut self,
        expect: &[String],
        limit: Duration,
    ) -> Result<ShellAnswer, ShellError> {
        let patterns: Vec<&str> = expect.iter().map(String::as_str).collect();
        let wanted = Expectation {
            patterns: &patterns,
            quiet: None,
            limit,
        };
        let found = self.connection.expect(&wanted, &Stop::never()).await;
        let (found, matched) = found.map_err(|why| ShellError::Expression(why.to_string()))?;
        self.dropped += found.dropped;
        self.piled.push_str(&found.text);
        let excess = self.piled.len().saturating_sub(2 * KEPT);
        if excess > 0 {
            let at = self.piled.ceil_char_boundary(excess);
            self.piled.drain(..at);
            self.dropped += at as u64;
        }
        let end = match found.end {
            ExpectEnd::Matched(which) => {
                self.piled
                    .truncate(self.piled.len().saturating_sub(matched));
                ShellAnswerEnd::Matched(which)
            }
            ExpectEnd::Ended(ended) => {
                self.running = None;
                match ended {
                    ProgramEnd::Exited(status) => ShellAnswerEnd::Exited(status),
                    ProgramEnd::Closed => ShellAnswerEnd::Exited(128 + libc::SIGKILL),
                    ProgramEnd::Lost(why) => return Err(ShellError::NoShell(why)),
                }
            }
            ExpectEnd::Quiet | ExpectEnd::TimedOut | ExpectEnd::Stopped => {
                return Err(ShellError::TimedOut);
            }
        };
        let mut output = std::mem::take(&mut self.piled);
        let dropped = std::mem::take(&mut self.dropped);
        if dropped > 0 {
            output.insert_str(0, &gap(dropped));
        }
        let notes = match end {
            ShellAnswerEnd::Exited(_) => self.connection.notes(),
            ShellAnswerEnd::Matched(_) => Vec::new(),
        };
        let output = with_notes(output, notes);
        Ok(ShellAnswer { output, end })
    }
}
