//! Programs that stay open between actions, by name. Each has a helper of its own, at the place of
//! the actions and under the same rules.
//!
//! [`ProgramsOf`] gives an executor that can start helpers ([`OpensPrograms`]) the role
//! [`InteractivePrograms`].

mod connection;
mod pattern;
mod transcript;

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use mswea_core::{
    ExpectEnd, Expectation, InteractivePrograms, ProgramEnd, ProgramError, ProgramOutput,
    ProgramStart, Stop,
};
use mswea_helper::protocol::{ActionInput, HelperRequest, TerminalSize};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::helper::{HelperAction, HelperSession};
pub(crate) use connection::ProgramConnection;
use connection::{HELPER_GONE, ID};
pub use transcript::decoded;

/// The most programs that are open at once.
const MOST: usize = 16;
/// The least number of bytes of a program's output that are kept.
const KEPT: usize = 1 << 20;
/// The most bytes of input that a program has not taken yet.
const WAITING: u64 = 1 << 20;
/// How long a program whose input was closed may take to end by itself.
const ENDING: Duration = Duration::from_millis(300);
/// How often in that time the program's input is ended: a program that was just setting its
/// terminal has missed the first end.
const TOLD: u32 = 3;
/// How long killing may take.
const KILLING: Duration = Duration::from_secs(5);
/// How long background processes of a program that has ended may add to its output.
const GRACE: Duration = Duration::from_millis(100);

/// The variable that tells programs what the terminal can do.
pub(crate) const TERMINAL_VARIABLE: &str = "TERM";

/// The variables of programs. With a terminal, `TERM` is added: `dumb`, with which few control
/// sequences come into the output, unless it is configured.
pub(crate) fn with_terminal(
    mut env: Vec<(String, String)>,
    has_terminal: bool,
) -> Vec<(String, String)> {
    if has_terminal && !env.iter().any(|(name, _)| name == TERMINAL_VARIABLE) {
        env.push((TERMINAL_VARIABLE.to_owned(), "dumb".to_owned()));
    }
    env
}

/// Ends the processes that a helper leaves outside of its stream. Dropping it does so at once.
#[async_trait]
pub(crate) trait HelperGuard: Send {
    /// Waits until a helper whose stream was closed has ended, with all processes that it started.
    async fn dismiss(&mut self);
    /// Why the stream has ended, and what happened to the running program, if that is known; none
    /// if the helper itself has ended.
    async fn lost(&mut self) -> Option<String> {
        None
    }
}

/// A helper that was started for a program, and how it starts the program.
pub(crate) struct ProgramHelper {
    pub(crate) session: HelperSession,
    pub(crate) guard: Box<dyn HelperGuard>,
    /// The mark of the helper's processes.
    pub(crate) mark: String,
    /// The interpreter of commands.
    pub(crate) interpreter: Vec<String>,
    /// Variables laid over those of the helper.
    pub(crate) env: Vec<(String, String)>,
    /// The working directory; none: the helper's.
    pub(crate) cwd: Option<String>,
}

/// An executor that can start helpers for programs.
#[async_trait]
pub(crate) trait OpensPrograms: Send {
    /// The programs of this executor.
    fn open_programs(&mut self) -> &mut OpenPrograms;
    /// Starts a helper.
    ///
    /// # Errors
    /// The reason why it can't be started.
    async fn start_helper(&mut self, stop: &Stop) -> Result<ProgramHelper, String>;
    /// An output without the secrets of the place where the programs run.
    fn masked(&self, output: String) -> String {
        output
    }
    /// Kills all processes with this mark, whose helper is gone.
    async fn kill_marked(&mut self, mark: &str);
}

/// The role [`InteractivePrograms`] for an executor.
pub(crate) struct ProgramsOf<'a, T>(pub(crate) &'a mut T);

/// The programs of an executor. Dropping this kills them.
#[derive(Default)]
pub(crate) struct OpenPrograms(BTreeMap<String, OpenProgram>);

impl std::fmt::Debug for OpenPrograms {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl OpenPrograms {
    /// The marks of programs whose helpers are gone, and whose processes were not ended yet.
    pub(crate) fn lost_marks(&self) -> Vec<String> {
        let is_lost =
            |it: &&OpenProgram| it.lost.is_none() && matches!(it.end(), Some(ProgramEnd::Lost(_)));
        let lost = self.0.values().filter(is_lost);
        lost.map(|it| it.mark.clone()).collect()
    }

    /// Ends all programs at the same time, because each may wait for a place that does not answer.
    pub(crate) async fn end_all(&mut self) {
        let programs = std::mem::take(&mut self.0).into_values();
        let ending: JoinSet<()> = programs.map(OpenProgram::dismiss).collect();
        ending.join_all().await;
    }

    fn get(&mut self, name: &str) -> Result<&mut OpenProgram, ProgramError> {
        let open = || self.0.keys().cloned().collect();
        if !self.0.contains_key(name) {
            return Err(ProgramError::Unknown {
                name: name.to_owned(),
                open: open(),
            });
        }
        self.0.get_mut(name).ok_or(ProgramError::InputClosed)
    }
}

struct OpenProgram {
    connection: ProgramConnection,
    guard: Box<dyn HelperGuard>,
    mark: String,
    /// How many bytes were sent.
    sent: u64,
    /// Why the helper is gone, once that is known.
    lost: Option<String>,
}

impl OpenProgram {
    fn end(&self) -> Option<ProgramEnd> {
        self.connection.end()
    }

    async fn dismiss(mut self) {
        self.connection.cut_off().await;
        self.guard.dismiss().await;
    }

    async fn send(
        &mut self,
        bytes: &[u8],
        limit: Duration,
        stop: &Stop,
    ) -> Result<(), ProgramError> {
        let mut state = self.connection.state.subscribe();
        {
            let state = state.borrow();
            if state.end.is_some() || !state.takes_input {
                return Err(ProgramError::InputClosed);
            }
            let waiting = self.sent - state.taken.min(self.sent);
            if waiting + bytes.len() as u64 > WAITING {
                return Err(ProgramError::InputFull {
                    waiting,
                    most: WAITING,
                });
            }
        }
        self.connection.was_too_long();
        let before = self.sent;
        self.sent += bytes.len() as u64;
        let wanted = self.sent;
        let bytes_of = bytes.len();
        self.connection.request(HelperRequest::Input {
            id: ID,
            bytes: bytes.to_vec(),
        });
        let is_done = state
            .wait_for(|state| state.taken >= wanted || state.end.is_some() || !state.takes_input);
        let is_timely = tokio::select! {
            biased;
            _ = is_done => true,
            () = stop.stopped() => return Err(ProgramError::Stopped),
            () = sleep(limit) => false,
        };
        if self.connection.was_too_long() {
            return Err(ProgramError::LineTooLong);
        }
        let taken = self.connection.state.borrow().taken;
        match taken >= wanted {
            true => Ok(()),
            false if is_timely => Err(ProgramError::InputClosed),
            false => Err(ProgramError::NotTaken {
                taken: taken.saturating_sub(before) as usize,
                of: bytes_of,
            }),
        }
    }

    /// Waits for the program's end.
    async fn ended(&mut self, limit: Duration) -> Option<ProgramEnd> {
        let mut state = self.connection.state.subscribe();
        let _ = timeout(limit, state.wait_for(|state| state.end.is_some())).await;
        self.end()
    }

    /// Waits for the program to end by itself, else kills it.
    async fn close(&mut self) -> ProgramEnd {
        for _ in 0..TOLD {
            self.connection.request(HelperRequest::Close { id: ID });
            if let Some(end) = self.ended(ENDING / TOLD).await {
                return end;
            }
        }
        self.connection.request(HelperRequest::Kill { id: ID });
        let end = self.ended(KILLING).await;
        end.unwrap_or_else(|| ProgramEnd::Lost("its helper does not answer".to_owned()))
    }
}

impl<T: OpensPrograms> ProgramsOf<'_, T> {
    /// Replaces `why` by a better reason for the end of a program's helper, if one is known, and
    /// ends the processes that the helper left.
    async fn explain(&mut self, name: &str, why: &mut String) -> Result<(), ProgramError> {
        let program = self.0.open_programs().get(name)?;
        if let Some(known) = &program.lost {
            known.clone_into(why);
            return Ok(());
        }
        // Otherwise the helper itself has reported the reason.
        if why == HELPER_GONE
            && let Some(known) = program.guard.lost().await
        {
            *why = known;
        }
        program.lost = Some(why.clone());
        let mark = program.mark.clone();
        self.0.kill_marked(&mark).await;
        Ok(())
    }
}

#[async_trait]
impl<T: OpensPrograms> InteractivePrograms for ProgramsOf<'_, T> {
    async fn open(
        &mut self,
        name: &str,
        program: &ProgramStart<'_>,
        stop: &Stop,
    ) -> Result<(), ProgramError> {
        if stop.is_stopped() {
            return Err(ProgramError::Stopped);
        }
        let not_started = |why: &str| ProgramError::NotStarted(why.to_owned());
        if program.command.contains('\0') {
            return Err(not_started("the command contains a null byte"));
        }
        let open = &mut self.0.open_programs().0;
        if open.get(name).is_some_and(|before| before.end().is_none()) {
            return Err(ProgramError::Open(name.to_owned()));
        }
        if let Some(before) = open.remove(name) {
            before.dismiss().await;
        }
        if open.len() >= MOST {
            return Err(ProgramError::TooMany(MOST));
        }
        let helper = tokio::select! {
            biased;
            helper = self.0.start_helper(stop) => helper.map_err(|why| not_started(&why))?,
            () = stop.stopped() => return Err(ProgramError::Stopped),
        };
        let mut argv = helper.interpreter;
        argv.push(program.command.to_owned());
        let has_terminal = program.terminal.is_some();
        let input = match program.terminal {
            Some((rows, columns)) => ActionInput::Terminal(TerminalSize { rows, columns }),
            None => ActionInput::Pipe,
        };
        let env = with_terminal(helper.env, has_terminal);
        let action = HelperAction {
            argv: &argv,
            env: &env,
            cwd: helper.cwd.as_deref(),
            grace: GRACE,
            input,
        };
        let connection = ProgramConnection::start(helper.session, &action, KEPT)
            .ok_or_else(|| not_started("the command is longer than 16 MiB"))?;
        let program = OpenProgram {
            connection,
            guard: helper.guard,
            mark: helper.mark,
            sent: 0,
            lost: None,
        };
        self.0.open_programs().0.insert(name.to_owned(), program);
        Ok(())
    }

    async fn send(
        &mut self,
        name: &str,
        bytes: &[u8],
        limit: Duration,
        stop: &Stop,
    ) -> Result<(), ProgramError> {
        let program = self.0.open_programs().get(name)?;
        program.send(bytes, limit, stop).await
    }

    async fn expect(
        &mut self,
        name: &str,
        wanted: &Expectation<'_>,
        stop: &Stop,
    ) -> Result<ProgramOutput, ProgramError> {
        let program = self.0.open_programs().get(name)?;
        let (mut output, _) = program.connection.expect(wanted, stop).await?;
        if let ExpectEnd::Ended(ProgramEnd::Lost(why)) = &mut output.end {
            self.explain(name, why).await?;
        }
        output.text = self.0.masked(output.text);
        Ok(output)
    }

    async fn signal(&mut self, name: &str, number: i32) -> Result<(), ProgramError> {
        let connection = &self.0.open_programs().get(name)?.connection;
        connection.request(HelperRequest::Signal { id: ID, number });
        Ok(())
    }

    async fn resize(&mut self, name: &str, rows: u16, columns: u16) -> Result<(), ProgramError> {
        let size = TerminalSize { rows, columns };
        let connection = &self.0.open_programs().get(name)?.connection;
        connection.request(HelperRequest::Resize { id: ID, size });
        Ok(())
    }

    async fn close(&mut self, name: &str) -> Result<ProgramOutput, ProgramError> {
        let program = self.0.open_programs().get(name)?;
        let mut end = program.close().await;
        if let ProgramEnd::Lost(why) = &mut end {
            self.explain(name, why).await?;
        }
        let programs = self.0.open_programs();
        let mut output = programs
            .get(name)?
            .connection
            .take(u64::MAX, ExpectEnd::Ended(end));
        if let Some(program) = programs.0.remove(name) {
            program.dismiss().await;
        }
        output.text = self.0.masked(output.text);
        Ok(output)
    }

    fn names(&mut self) -> Vec<String> {
        self.0.open_programs().0.keys().cloned().collect()
    }
}
