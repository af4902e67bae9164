//! The executor at a server of SWE-ReX.

use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use mswea_core::{
    Command, Context, EnvironmentReady, Executor, ExecutorError, Object, Output, Progress, Stop,
};
use serde_json::{Map, Value};

use super::client::{RexClient, RexError, program};
use super::shell::{RexSession, SessionEnd};
use super::{LIMITS, copies};
use crate::capture::Capture;
use crate::failure::ActionFailure;
use crate::local::fresh_id;
use crate::placed::{limit_of, not_begun, output_of};
use crate::shell::{BEGUN, bash_of};
use crate::stream::{LOOK, SUSPECT, StreamSettings, handle, some};

/// The time limit of small requests, and of an answer after the time limit of its command.
const ANSWERING: Duration = Duration::from_secs(30);
/// How long an interruption of a stopped run may take.
const STOPPING: Duration = Duration::from_secs(2);

/// The message for a command that was interrupted.
const KEPT: &str = "the command was interrupted; the shell lives on";
/// The message for a shell that did not answer.
const CLOSED: &str = "the shell did not answer to an interruption and was closed: the next command runs in a new one, in the first directory";

/// An executor at a server of SWE-ReX.
pub struct SwerexExecutor {
    client: RexClient,
    settings: StreamSettings,
    /// The configured variables, or the reason why one of them can't be passed to a process.
    env: Result<Vec<(String, String)>, String>,
    /// All variables of a command, if some are configured: SWE-ReX's API takes all variables or
    /// none.
    whole_env: Option<Value>,
    shell: RexSession,
    /// A message about the shell for the model, added to the output of the next command.
    notice: Option<&'static str>,
    /// Whether the server ends a command whose client no longer waits.
    is_ours: bool,
    /// Whether a command was interrupted, and the server has not answered since.
    is_suspect: bool,
    /// Why the server can't be used any more.
    gone: Option<String>,
    /// The output of [`LOOK`].
    found: Vec<String>,
}

impl SwerexExecutor {
    /// An executor; no request is sent yet. Its shell always has a terminal.
    pub fn new(client: RexClient, mut settings: StreamSettings) -> Self {
        if settings.run_id.is_empty() {
            settings.run_id = fresh_id();
        }
        Self {
            client,
            env: settings.variables(),
            whole_env: None,
            shell: RexSession::new(&settings.run_id),
            notice: None,
            is_ours: false,
            is_suspect: false,
            gone: None,
            found: Vec::new(),
            settings,
        }
    }

    /// Runs a program for the set-up; returns its output.
    async fn prepare(&self, argv: &[&str], cwd: Option<&str>) -> Result<String, String> {
        let command = program(argv, cwd, ANSWERING);
        match self.client.run(&command, ANSWERING).await {
            Ok((output, 0)) => Ok(output),
            Ok((output, status)) => Err(format!("exit code {status}: {}", output.trim())),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Reads the properties of the place, and prepares it.
    async fn look(&mut self) -> Result<(), String> {
        let url = self.client.url().to_owned();
        let cwd = self.settings.cwd.clone();
        if self.settings.make_cwd && !cwd.is_empty() {
            let made = self.prepare(&["mkdir", "-p", "--", &cwd], None).await;
            made.map_err(|why| {
                format!("the folder `{cwd}` can't be made at `{url}`: {why}; set `workspace.path` or `environment.cwd` to another")
            })?;
        }
        if let Some(cwd) = some(&cwd) {
            let asked = program(&["test", "-d", cwd], None, ANSWERING);
            match self.client.run(&asked, ANSWERING).await {
                Ok((_, 0)) => {}
                Ok((_, 1)) => {
                    return Err(format!(
                        "there is no folder `{cwd}` at `{url}`: set `environment.cwd` to one that is there"
                    ));
                }
                Ok((said, status)) => {
                    return Err(format!(
                        "whether there is a folder `{cwd}` at `{url}` is not known: `test -d` ended with exit code {status}: {}",
                        said.trim()
                    ));
                }
                Err(error) => return Err(error.to_string()),
            }
        }
        let interpreter = self.settings.interpreter.clone();
        let mut argv: Vec<&str> = interpreter.iter().map(String::as_str).collect();
        argv.push(LOOK);
        let looked = self.prepare(&argv, some(&cwd)).await;
        let looked = looked.map_err(|why| {
            format!("no command can be run at `{url}`: {why}; check `environment.interpreter`")
        })?;
        self.found = looked.lines().map(str::to_owned).collect();
        let configured = self.env.clone()?;
        if !configured.is_empty() {
            let listed = self.prepare(&["env", "-0"], None).await;
            let listed = listed.map_err(|why| format!("`env` fails at `{url}`: {why}"))?;
            let pairs = listed.split('\0').filter_map(|pair| pair.split_once('='));
            let mut all: Map<String, Value> = pairs
                .map(|(name, value)| (name.to_owned(), value.into()))
                .collect();
            all.extend(
                configured
                    .into_iter()
                    .map(|(name, value)| (name, value.into())),
            );
            self.whole_env = Some(Value::Object(all));
        }
        match self.settings.session {
            true => self.open_shell().await,
            false => Ok(()),
        }
    }

    async fn open_shell(&mut self) -> Result<(), String> {
        let env = self.env.clone()?;
        let opened = self
            .shell
            .open(&self.client, some(&self.settings.cwd), &env);
        opened
            .await
            .map_err(|why| format!("the shell of all actions can't be opened: {why}"))
    }

    fn is_gone(&mut self, why: String) -> Output {
        self.gone = Some(why.clone());
        ActionFailure::gone(why).output(String::new())
    }

    /// The output of a command that failed with `error`.
    fn failed(&mut self, error: RexError, command: &Command<'_>, limit: Duration) -> Output {
        let environment = ActionFailure::environment;
        let failure = match &error {
            RexError::Unusable(_) => {
                return self.is_gone(format!("{error}; no further command can be run"));
            }
            RexError::Lost(_) => environment(
                "ConnectionLost",
                format!(
                    "{error}; the command had been sent, and may still run there: its output is lost"
                ),
            ),
            RexError::Foreign(_) => environment("InvalidAnswer", error.to_string()),
            RexError::Raised { .. } if error.is("CommandTimeoutError") => {
                ActionFailure::timed_out(command.text, limit)
            }
            RexError::Raised { class, message, .. } => {
                let cwd = &self.settings.cwd;
                let is_missing = error.is("FileNotFoundError") || error.is("NotADirectoryError");
                if is_missing && !cwd.is_empty() && message.contains(cwd.as_str()) {
                    return self.is_gone(format!(
                        "the folder `{cwd}`, in which every command starts, is gone: a command has removed it"
                    ));
                }
                environment("OSError", format!("{class}: {message}"))
            }
        };
        failure.output(String::new())
    }

    fn ended(
        &self,
        text: &str,
        ended: Result<i32, ActionFailure>,
        command: &Command<'_>,
        notes: Vec<String>,
    ) -> Output {
        let marker = self.settings.whole_after.as_deref();
        let mut capture = Capture::of(command, self.settings.capture_bytes, marker);
        capture.push(text.as_bytes());
        output_of(capture, notes, ended)
    }

    async fn run(&mut self, command: &Command<'_>, limit: Duration) -> Output {
        let settings = &self.settings;
        let words = settings.interpreter.iter().map(String::as_str);
        let argv: Vec<&str> = words.chain([command.text]).collect();
        let mut body = program(&argv, some(&settings.cwd), limit);
        if let Some(env) = &self.whole_env {
            body["env"] = env.clone();
        }
        match self.client.run(&body, limit + ANSWERING).await {
            Ok((text, returncode)) => self.ended(&text, Ok(returncode), command, Vec::new()),
            Err(error) => self.failed(error, command, limit),
        }
    }

    async fn run_in_shell(&mut self, command: &Command<'_>, limit: Duration) -> Output {
        let mut is_again = false;
        loop {
            if !self.shell.is_open() {
                if let Err(why) = self.open_shell().await {
                    return self.is_gone(why);
                }
                self.notice = self.notice.or(Some(BEGUN));
            }
            let ran = self.shell.run(&self.client, command.text, limit).await;
            let mut notes: Vec<String> =
                self.notice.take().map(str::to_owned).into_iter().collect();
            return match ran {
                // The server has not run the command.
                Ok(SessionEnd::Missing) if !is_again => {
                    is_again = true;
                    continue;
                }
                Ok(SessionEnd::Missing) => {
                    let why = format!(
                        "`{}` has lost its session twice in a row, right after it was opened: if several servers share this address, use the address of one of them",
                        self.client.url()
                    );
                    return self.is_gone(why);
                }
                Ok(SessionEnd::Done(text, code)) => {
                    if code.is_none() {
                        notes.push("the server does not know the exit code".to_owned());
                    }
                    self.ended(&text, Ok(code.unwrap_or(-1)), command, notes)
                }
                Ok(SessionEnd::TimedOut(text, lives)) => {
                    notes.push(if lives { KEPT } else { CLOSED }.to_owned());
                    if !lives {
                        // The message will be in this output.
                        self.notice = Some(BEGUN);
                    }
                    let failure = ActionFailure::timed_out(command.text, limit);
                    self.ended(&text, Err(failure), command, notes)
                }
                Ok(SessionEnd::Died(why)) => {
                    self.notice = Some(BEGUN);
                    let why = format!(
                        "the shell has ended with this command, and its output is lost ({why}): the next command runs in a new shell, in the first directory; variables, functions and background jobs are gone"
                    );
                    ActionFailure::environment("ShellEnded", why).output(String::new())
                }
                Err(error) => {
                    self.notice = Some(BEGUN);
                    self.failed(error, command, limit)
                }
            };
        }
    }

    /// Ends the processes of a stopped run, as far as the server can do that.
    async fn give_up(&mut self) {
        if !self.settings.session {
            return;
        }
        self.notice = Some(BEGUN);
        if self.is_ours {
            let stopping = async {
                let _ = self.shell.interrupt(&self.client).await;
                self.shell.close(&self.client).await;
            };
            let _ = tokio::time::timeout(STOPPING, stopping).await;
        }
        self.shell = RexSession::new(&format!("{}-{}", self.settings.run_id, fresh_id()));
    }
}

#[async_trait]
impl Executor for SwerexExecutor {
    async fn start(
        &mut self,
        context: &Context,
        known: Option<&Value>,
    ) -> Result<EnvironmentReady, ExecutorError> {
        if self.settings.session {
            bash_of(&self.settings.interpreter)?;
        }
        (self.gone, self.is_suspect) = (None, false);
        let starting = async {
            self.is_ours = self.client.check().await?;
            if !self.is_ours {
                context.front.show(&Progress::Warning(LIMITS));
            }
            self.look().await
        };
        tokio::select! {
            biased;
            () = context.stop.stopped() => return Err("the run was asked to stop".to_owned().into()),
            started = starting => started?,
        }
        self.notice = known.filter(|_| self.settings.session).map(|_| BEGUN);
        Ok(handle(self.client.url(), &self.found, known))
    }

    async fn execute(&mut self, command: &Command<'_>, stop: &Stop) -> Output {
        if let Some(output) = not_begun(command, self.gone.as_ref(), stop) {
            return output;
        }
        if command.text.contains('\0') {
            return ActionFailure::null_byte().output(String::new());
        }
        if self.is_suspect {
            // A server that still runs the interrupted command does not answer until its end.
            let alive = tokio::time::timeout(SUSPECT, self.client.check()).await;
            if !matches!(alive, Ok(Ok(_))) {
                let why = format!(
                    "`{}` has not answered within {} s after a command was interrupted",
                    self.client.url(),
                    SUSPECT.as_secs()
                );
                return ActionFailure::environment("ConnectionLost", why).output(String::new());
            }
            self.is_suspect = false;
        }
        let limit = limit_of(command, self.settings.timeout);
        let is_shared = self.settings.session && !command.apart;
        let running = async {
            match is_shared {
                true => self.run_in_shell(command, limit).await,
                false => self.run(command, limit).await,
            }
        };
        tokio::select! {
            biased;
            () = stop.stopped() => {}
            mut output = running => {
                self.client.mask(&mut output);
                return output;
            }
        }
        self.is_suspect = true;
        if is_shared {
            self.give_up().await;
        }
        ActionFailure::interrupted(command.text).output(String::new())
    }

    async fn upload(&mut self, from: &Path, to: &str) -> Result<(), ExecutorError> {
        copies::upload(&self.client, from, to, some(&self.settings.cwd)).await
    }

    async fn download(&mut self, from: &str, to: &Path) -> Result<(), ExecutorError> {
        copies::download(&self.client, from, to, some(&self.settings.cwd)).await
    }

    async fn cleanup(&mut self) {
        let closing = self.shell.close(&self.client);
        match self.is_suspect {
            true => drop(tokio::time::timeout(STOPPING, closing).await),
            false => closing.await,
        }
    }

    fn template_vars(&self) -> Object {
        self.settings.template_vars(&self.found)
    }
}
