//! A shell of this machine for a client that types into it (SWE-ReX's API): one bash with a terminal, in
//! a helper of its own. A command ends by the shell's own report; a program that a client has opened in
//! it is the running command, and further lines are its input.

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

/// How much of a command's output is kept at least: the end of it.
const KEPT: usize = 16 * 1024 * 1024;
/// How long background processes may add to the output of a command.
const GRACE: Duration = Duration::from_millis(100);
/// How long a check of the syntax may take.
const CHECKING: Duration = Duration::from_secs(10);
/// How long the processes of a command, and then its shell, may take to end when they are killed.
const KILLING: Duration = Duration::from_secs(5);
/// The shortest time to wait for them.
const DYING: Duration = Duration::from_millis(500);

/// A shell. Dropped, it is killed with all that runs in it.
pub struct ServedShell {
    // In this order: the helper's input ends before it.
    connection: ProgramConnection,
    helper: ServedHelper,
    running: Option<RunningLine>,
    /// Output of the running command that nobody has got.
    piled: String,
    /// How much of it is missing.
    dropped: u64,
    interruption: ShellInterruption,
}

/// What runs in the shell.
struct RunningLine {
    text: String,
    /// Whether a client has opened it to type into it.
    is_program: bool,
}

/// Interrupts what runs in a shell, also while somebody waits for it.
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
    /// The time limit of the wait.
    pub limit: Duration,
}

/// The end of a wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShellAnswer {
    /// The output that nobody had got before, without the match.
    pub output: String,
    /// Why it has ended.
    pub end: ShellAnswerEnd,
}

/// Why a wait has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShellAnswerEnd {
    /// The command has ended with this exit code.
    Exited(i32),
    /// The expression with this index was found; the command goes on.
    Matched(usize),
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShellError {
    /// The time was over; the command goes on, and its output is kept.
    #[error("the time limit is over")]
    TimedOut,
    /// The time was over before a command that was still running had ended.
    #[error(
        "an earlier command still runs in this session: `{0}`; end it with an interrupt action, or close the session"
    )]
    Busy(String),
    /// The shell can't parse the command: what it says. Nothing was run.
    #[error("{0}")]
    Syntax(String),
    /// An expression can't be used.
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

    /// Interrupts what runs, if something does.
    pub fn interrupt(&self) {
        self.signal(libc::SIGINT);
    }

    /// Ends what runs, if something does: it is interrupted, and then killed with the shell.
    pub fn end(&self) {
        let _ = self.requests.send(HelperRequest::Kill { id: self.id() });
    }
}

impl ServedShell {
    /// Starts a helper; the shell begins with the first command.
    ///
    /// # Errors
    /// [`ShellError::NoShell`]
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

    /// What interrupts it.
    pub fn interruption(&self) -> ShellInterruption {
        self.interruption.clone()
    }

    /// Ends it, with all that runs in it.
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

    /// Runs a command, or passes a line to the program that runs.
    ///
    /// # Errors
    /// [`ShellError`]
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

    /// Interrupts what runs: with SIGINT as often as `tries`, each time for `limit`; then what is in the
    /// foreground is killed, and then the shell.
    ///
    /// # Errors
    /// [`ShellError`]
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

    /// Forgets a command that has ended after its client's time limit.
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

    /// Has a bash read the command without running it.
    async fn check(&mut self, text: &str) -> Result<(), ShellError> {
        // An argument can't be longer.
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
