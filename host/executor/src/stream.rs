//! Runs actions at a place that is reached by a stream of bytes with a helper at its other end. A
//! [`HelperPlace`] decides the place, and how the stream is opened. Each program that stays open
//! has a helper and a stream of its own.

mod place;
mod programs;
mod settings;

use std::mem;
use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use mswea_core::{
    Command, Context, EnvironmentReady, Executor, ExecutorError, InteractivePrograms, Object,
    Output, Stop,
};
use mswea_helper::processes::ACTION_VARIABLE;
use serde_json::Value;
use tokio::time::timeout;

use crate::capture::Capture;
use crate::failure::ActionFailure;
use crate::helper::{ANSWERING, HelperError, HelperSession};
use crate::interactive::{HelperGuard as _, OpenPrograms, ProgramsOf};
use crate::local::fresh_id;
use crate::placed::{
    GRACE, PlacedAction, PlacedEnd, check, limit_of, not_begun, output_of, usable,
};
use crate::shell::{BEGUN, is_open};
pub(super) use place::{HelperLink, HelperPlace, HelperStream};
pub use settings::StreamSettings;
pub(super) use settings::handle;

/// Prints the machine's properties, one per line, and the working directory; its success shows also
/// that the interpreter works.
pub(super) const LOOK: &str = "uname -s; uname -n; uname -r; uname -v; uname -m; pwd";

/// How long a place that did not answer recently may take to answer.
pub(super) const SUSPECT: Duration = Duration::from_secs(2);

/// How many bytes of the output of one of the host's own programs are kept.
const KEPT: usize = 4096;

/// The executor of a place.
pub(super) struct StreamExecutor<P: HelperPlace> {
    place: P,
    settings: StreamSettings,
    /// The variables that all commands get, or the reason why one of them can't be passed to a
    /// process.
    env: Result<Vec<(String, String)>, String>,
    /// The helper of the actions, and the connection to it.
    session: Option<(HelperSession, P::Link)>,
    /// Whether there was a session before.
    is_again: bool,
    programs: OpenPrograms,
    /// A message about the shell for the model, which is added to the output of the next action in
    /// it.
    notice: Option<&'static str>,
    actions: u64,
    /// Whether the end of an action that has begun was not seen.
    is_unfinished: bool,
    /// Whether the place did not answer when a command was to be interrupted. Until it has
    /// answered, the executor waits for it for only [`SUSPECT`].
    is_suspect: bool,
    /// Why the place can't be reached any more.
    gone: Option<String>,
    /// The output of [`LOOK`].
    found: Vec<String>,
}

impl<P: HelperPlace> StreamExecutor<P> {
    /// An executor; nothing is started or checked yet.
    pub(super) fn new(mut settings: StreamSettings, place: P) -> Self {
        if settings.run_id.is_empty() {
            settings.run_id = fresh_id();
        }
        Self {
            place,
            env: settings.variables(),
            settings,
            session: None,
            is_again: false,
            programs: OpenPrograms::default(),
            notice: None,
            actions: 0,
            is_unfinished: false,
            is_suspect: false,
            gone: None,
            found: Vec::new(),
        }
    }

    /// Whether the stream has ended between two commands; it is then replaced.
    async fn has_ended(&mut self) -> bool {
        match &mut self.session {
            Some((session, _)) => session.has_ended().await,
            None => false,
        }
    }

    /// Opens the stream, if there is none.
    ///
    /// # Errors
    /// A message if the stream can't be opened, or `stop` fires.
    async fn open(&mut self, stop: &Stop) -> Result<(), String> {
        if self.session.is_some() {
            return Ok(());
        }
        let id = &self.settings.run_id;
        // A helper may have been started even if opening its stream fails.
        let is_again = mem::replace(&mut self.is_again, true);
        self.session = Some(Self::connect(&self.place, id, is_again, stop).await?);
        Ok(())
    }

    /// Starts a helper.
    ///
    /// # Errors
    /// A message if the helper can't be started, or `stop` fires.
    async fn connect(
        place: &P,
        id: &str,
        is_again: bool,
        stop: &Stop,
    ) -> Result<(HelperSession, P::Link), String> {
        let opening = async {
            let ((output, input), mut link) = place.open(id, is_again).await?;
            match HelperSession::start(output, input, ANSWERING).await {
                Ok(session) => Ok((session, link)),
                Err(error) => {
                    let lost = link.lost().await;
                    link.dismiss().await;
                    Err(lost.unwrap_or_else(|| error.to_string()))
                }
            }
        };
        tokio::select! {
            biased;
            () = stop.stopped() => Err("the run was asked to stop".to_owned()),
            opened = opening => opened,
        }
    }

    /// Ends the helper of the actions, with its shell and all its descendants.
    async fn close(&mut self) {
        if self.settings.session {
            self.notice = Some(BEGUN);
        }
        if let Some((session, mut link)) = self.session.take() {
            drop(session);
            link.dismiss().await;
        }
    }

    async fn run(&mut self, command: &Command<'_>, timeout: Duration, stop: &Stop) -> Output {
        let is_shared = self.settings.session && !command.apart;
        let mut notes = Vec::new();
        if is_shared {
            notes.extend(self.notice.take().map(str::to_owned));
        }
        self.actions += 1;
        let mark = format!("{}.{}", self.settings.run_id, self.actions);
        let mut env = self.env.clone().unwrap_or_default();
        env.push((ACTION_VARIABLE.to_owned(), mark.clone()));
        let marker = self.settings.whole_after.as_deref();
        let mut capture = Capture::of(command, self.settings.capture_bytes, marker);
        self.is_unfinished = true;
        let action = PlacedAction {
            interpreter: &self.settings.interpreter,
            cwd: some(&self.settings.cwd),
            env: &env,
            pty: self.settings.pty,
            grace: GRACE,
            mark: &mark,
            command: command.text,
            timeout,
            stop,
        };
        let (end, is_unsent) = match &mut self.session {
            Some((session, link)) => {
                link.mark();
                let end = match is_shared {
                    true => action.in_shell(session, &mut capture, &mut notes).await,
                    false => action.in_session(session, &mut capture).await,
                };
                let is_broken = matches!(end, PlacedEnd::Broken(_));
                (end, is_broken && link.is_unsent())
            }
            None => (PlacedEnd::Broken(HelperError::Gone), false),
        };
        self.is_unfinished = false;
        if is_unsent {
            self.close().await;
            return match self.open(stop).await {
                Ok(()) => Box::pin(self.run(command, timeout, stop)).await,
                Err(_) if stop.is_stopped() => {
                    ActionFailure::interrupted(command.text).output(String::new())
                }
                Err(why) => self.is_gone(why).output(String::new()),
            };
        }
        let ended = match end {
            PlacedEnd::Exited(returncode) => Ok(returncode),
            PlacedEnd::Failed(failure) => Err(failure),
            PlacedEnd::FolderGone => Err(self.is_gone(format!(
                "the folder `{}`, in which every command starts, is gone: a command has removed it",
                self.settings.cwd
            ))),
            PlacedEnd::Broken(error) => Err(self.after_break(command, &error, stop).await),
        };
        output_of(capture, notes, ended)
    }

    /// The failure of an action whose helper or stream ended before it.
    async fn after_break(
        &mut self,
        command: &Command<'_>,
        error: &HelperError,
        stop: &Stop,
    ) -> ActionFailure {
        let lost = self.lost().await;
        let is_killed = matches!(error, HelperError::Gone) && lost.is_none();
        tokio::select! {
            biased;
            () = self.close() => {}
            // The end continues in the background.
            () = stop.stopped() => {}
        }
        if stop.is_stopped() {
            self.is_suspect = true;
            return ActionFailure::interrupted(command.text);
        }
        let why = match lost {
            Some(why) => why,
            None if is_killed => {
                format!("the command ended the helper that ran it ({error}), and was ended")
            }
            None => format!("{error}; the command is ended with the helper"),
        };
        if let Err(again) = self.open(stop).await {
            return match stop.is_stopped() {
                true => ActionFailure::interrupted(command.text),
                false => self.is_gone(format!("{why}; no further command can be run: {again}")),
            };
        }
        let kind = if is_killed {
            "HelperKilled"
        } else {
            "ConnectionLost"
        };
        ActionFailure::environment(kind, why)
    }

    /// Why the stream of the actions has ended, unless the helper has ended it.
    async fn lost(&mut self) -> Option<String> {
        let (_, link) = self.session.as_mut()?;
        link.lost().await
    }

    fn is_gone(&mut self, why: String) -> ActionFailure {
        self.gone = Some(why.clone());
        ActionFailure::gone(why)
    }

    /// The result of a copy, with the reason if the stream was lost meanwhile.
    async fn explained(&mut self, copied: Result<(), ExecutorError>) -> Result<(), ExecutorError> {
        let Err(error) = copied else {
            return Ok(());
        };
        Err(match self.is_unfinished {
            true => match self.lost().await {
                Some(lost) => ExecutorError::from(format!("{}; {lost}", error.message)),
                None => error,
            },
            false => error,
        })
    }

    /// A session for a copy. An action in it is unfinished until the caller has seen its end.
    async fn free_session(&mut self) -> Result<&mut HelperSession, ExecutorError> {
        if mem::replace(&mut self.is_unfinished, true) {
            self.close().await;
        }
        self.open(&Stop::never()).await?;
        let session = self.session.as_mut().map(|(session, _)| session);
        session.ok_or_else(|| HelperError::Unusable.to_string().into())
    }

    /// Makes the working directory, if the settings ask for it.
    async fn make_folder(&mut self, stop: &Stop) -> Result<(), ExecutorError> {
        if !self.settings.make_cwd {
            return Ok(());
        }
        let cwd = self.settings.cwd.clone();
        let session = self.free_session().await?;
        let made = session.make_folder(&cwd, stop).await;
        self.is_unfinished = session.is_busy();
        made.map_err(|why| {
            ExecutorError::from(format!(
                "the folder `{cwd}` can't be made at {}: {why}; set `workspace.path` or `environment.cwd` to another",
                self.place.name()
            ))
        })
    }

    /// Runs one of the host's own programs.
    ///
    /// # Errors
    /// The output of a program that failed, or the reason why it did not run to its end.
    async fn prepare(&mut self, program: &[&str], last: &str, stop: &Stop) -> Result<(), String> {
        let session = self.free_session().await.map_err(|error| error.message)?;
        let action = PlacedAction {
            interpreter: &program
                .iter()
                .map(|&arg| arg.to_owned())
                .collect::<Vec<_>>(),
            cwd: None,
            env: &[],
            pty: false,
            grace: Duration::ZERO,
            mark: "",
            command: last,
            timeout: ANSWERING,
            stop,
        };
        let mut capture = Capture::new(KEPT);
        let end = action.in_session(session, &mut capture).await;
        self.is_unfinished = session.is_busy();
        match end {
            PlacedEnd::Exited(0) => Ok(()),
            PlacedEnd::Failed(failure) => Err(failure.text()),
            PlacedEnd::Broken(error) => Err(error.to_string()),
            PlacedEnd::Exited(_) | PlacedEnd::FolderGone => Err(capture.finish(false).text),
        }
    }

    /// Checks that the interpreter can run a command in the folder, and reads the machine's
    /// properties.
    async fn look(&mut self, stop: &Stop) -> Result<(), ExecutorError> {
        self.make_folder(stop).await?;
        let command = Command {
            apart: true,
            ..Command::new(LOOK)
        };
        let output = self.run(&command, ANSWERING, stop).await;
        let why = output.extra.get("exception").and_then(Value::as_str);
        if let Some(why) = why {
            return Err(ExecutorError::from(match self.gone.take() {
                Some(_) => format!(
                    "there is no folder `{}` at {}: set `environment.cwd` to one that is there",
                    self.settings.cwd,
                    self.place.name()
                ),
                None => format!(
                    "no command can be run at {}: {why}; check `environment.interpreter`",
                    self.place.name()
                ),
            }));
        }
        // An interpreter that is not a shell prints other text.
        if output.returncode == 0 {
            self.found = output.output.lines().map(str::to_owned).collect();
        }
        if !self.settings.session {
            return Ok(());
        }
        is_open(&self.run(&Command::new(""), ANSWERING, stop).await)
    }
}

/// A text, unless it is empty.
pub(super) fn some(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

#[async_trait]
impl<P: HelperPlace> Executor for StreamExecutor<P> {
    async fn start(
        &mut self,
        context: &Context,
        known: Option<&Value>,
    ) -> Result<EnvironmentReady, ExecutorError> {
        usable(&self.env, self.settings.session, &self.settings.interpreter)?;
        self.cleanup().await;
        (self.gone, self.is_suspect) = (None, false);
        self.open(&context.stop).await?;
        self.notice = None;
        if let Err(error) = self.look(&context.stop).await {
            self.close().await;
            return Err(error);
        }
        self.notice = known.filter(|_| self.settings.session).map(|_| BEGUN);
        let name = self.place.name();
        Ok(handle(name, &self.found, known))
    }

    async fn execute(&mut self, command: &Command<'_>, stop: &Stop) -> Output {
        if let Some(output) = not_begun(command, self.gone.as_ref(), stop) {
            return output;
        }
        if let Err(failure) = check(&self.env, &self.settings.interpreter, command.text, true) {
            return failure.output(String::new());
        }
        if mem::take(&mut self.is_unfinished) || self.has_ended().await {
            self.close().await;
        }
        let is_suspect = self.is_suspect;
        let opened = match is_suspect {
            true => timeout(SUSPECT, self.open(stop)).await.unwrap_or_else(|_| {
                Err(format!(
                    "it has not answered within {} s after a command was interrupted",
                    SUSPECT.as_secs()
                ))
            }),
            false => self.open(stop).await,
        };
        match opened {
            Ok(()) => self.is_suspect = false,
            Err(_) if stop.is_stopped() => {
                return ActionFailure::interrupted(command.text).output(String::new());
            }
            Err(why) if is_suspect => {
                return ActionFailure::environment("ConnectionLost", why).output(String::new());
            }
            Err(why) => return self.is_gone(why).output(String::new()),
        }
        let limit = limit_of(command, self.settings.timeout);
        let mut output = self.run(command, limit, stop).await;
        output.output = self.place.masked(output.output);
        output
    }

    async fn upload(&mut self, from: &Path, to: &str) -> Result<(), ExecutorError> {
        let cwd = self.settings.cwd.clone();
        let session = self.free_session().await?;
        let done = session.upload(from, to, some(&cwd)).await;
        self.is_unfinished = session.is_busy();
        self.explained(done).await
    }

    async fn download(&mut self, from: &str, to: &Path) -> Result<(), ExecutorError> {
        let cwd = self.settings.cwd.clone();
        let session = self.free_session().await?;
        let done = session.download(from, to, some(&cwd)).await;
        self.is_unfinished = session.is_busy();
        self.explained(done).await
    }

    fn programs(&mut self) -> Option<Box<dyn InteractivePrograms + '_>> {
        Some(Box::new(ProgramsOf(self)))
    }

    async fn cleanup(&mut self) {
        let lost = self.programs.lost_marks();
        self.kill_all(&lost).await;
        self.programs.end_all().await;
        self.close().await;
    }

    fn template_vars(&self) -> Object {
        self.settings.template_vars(&self.found)
    }
}
