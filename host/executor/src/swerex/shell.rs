//! The session at a server of SWE-ReX: one bash for all actions.

use std::time::Duration;

use mswea_helper::dialogue::quoted;
use serde_json::{Value, json};

use super::client::{RexClient, RexError, program};

/// The time limit of small requests.
const ANSWERING: Duration = Duration::from_secs(30);
/// How long a command may take to end after an interruption, in seconds.
const INTERRUPTING: f64 = 0.5;

/// The session.
pub(super) struct RexSession {
    /// The session's name at the server.
    name: String,
    is_open: bool,
}

/// The end of a command.
pub(super) enum SessionEnd {
    /// The command has ended: its output, and its exit code if that is known.
    Done(String, Option<i32>),
    /// The command was interrupted at its time limit: its output, and whether the shell still
    /// exists.
    TimedOut(String, bool),
    /// The shell has ended with the command.
    Died(String),
    /// The session did not exist any more, and the command was not run.
    Missing,
}

impl RexSession {
    pub(super) fn new(run_id: &str) -> Self {
        Self {
            name: format!("mswea-{run_id}"),
            is_open: false,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    fn named(&self) -> Value {
        json!({ "session": self.name, "session_type": "bash" })
    }

    /// Opens the session in `cwd`, with these variables.
    ///
    /// # Errors
    /// A message if the server refuses, or a variable can't be set.
    pub(super) async fn open(
        &mut self,
        client: &RexClient,
        cwd: Option<&str>,
        env: &[(String, String)],
    ) -> Result<(), String> {
        let told = |error: RexError| error.to_string();
        let mut body = self.named();
        body["startup_source"] = json!([]);
        body["startup_timeout"] = json!(20.0);
        let mut created = client.post("/create_session", &body, ANSWERING).await;
        if matches!(&created, Err(error) if error.is("SessionExistsError")) {
            self.is_open = true;
            self.close(client).await;
            created = client.post("/create_session", &body, ANSWERING).await;
        }
        created.map_err(told)?;
        self.is_open = true;
        if !env.is_empty() {
            self.set_variables(client, env).await?;
        }
        let Some(cwd) = cwd else {
            return Ok(());
        };
        match self
            .run(client, &format!("cd -- {}", quoted(cwd)), ANSWERING)
            .await
        {
            Ok(SessionEnd::Done(_, Some(0))) => Ok(()),
            Ok(_) => Err(format!("there is no folder `{cwd}` at `{}`", client.url())),
            Err(error) => Err(told(error)),
        }
    }

    /// Sets variables through a file that only this user can read, because other users can see the
    /// arguments of processes.
    async fn set_variables(
        &mut self,
        client: &RexClient,
        env: &[(String, String)],
    ) -> Result<(), String> {
        let told = |error: RexError| error.to_string();
        let path = format!(
            "/tmp/.mswea-{:016x}{:016x}",
            fastrand::u64(..),
            fastrand::u64(..)
        );
        let make = ["sh", "-c", "umask 077; set -C; : >\"$0\"", &path];
        let made = client
            .run(&program(&make, None, ANSWERING), ANSWERING)
            .await;
        if let (text, 1..) = made.map_err(told)? {
            return Err(format!(
                "`{path}` can't be made at `{}`: {}",
                client.url(),
                text.trim()
            ));
        }
        let lines = env
            .iter()
            .map(|(name, value)| format!("export {name}={}\n", quoted(value)));
        let body = json!({ "path": path, "content": lines.collect::<String>() });
        client
            .post("/write_file", &body, ANSWERING)
            .await
            .map_err(told)?;
        let read = format!(". {path}");
        let set = self.run(client, &read, ANSWERING).await;
        let removed = client
            .run(&program(&["rm", "-f", &path], None, ANSWERING), ANSWERING)
            .await;
        match (set.map_err(told)?, removed.map_err(told)?) {
            (SessionEnd::Done(_, Some(0)), (_, 0)) => Ok(()),
            (SessionEnd::Missing, _) => Err(format!(
                "`{}` has lost the session that it has just opened",
                client.url()
            )),
            (_, (_, 1..)) => Err(format!("`{path}` can't be removed at `{}`", client.url())),
            _ => Err(format!(
                "the variables of `environment.env` can't be set at `{}`",
                client.url()
            )),
        }
    }

    /// Closes the session.
    pub(super) async fn close(&mut self, client: &RexClient) {
        if std::mem::take(&mut self.is_open) {
            let closed = client
                .post("/close_session", &self.named(), ANSWERING)
                .await;
            if let Err(error) = closed {
                tracing::debug!(%error, "the session was not closed");
            }
        }
    }

    /// Interrupts the running command; returns its output.
    pub(super) async fn interrupt(&self, client: &RexClient) -> Result<String, RexError> {
        let body = json!({
            "action_type": "bash_interrupt",
            "session": self.name,
            "timeout": INTERRUPTING,
            "n_retry": 3,
            "expect": [],
        });
        let answer = client.post("/run_in_session", &body, ANSWERING).await?;
        Ok(answer["output"].as_str().unwrap_or_default().to_owned())
    }

    /// Runs a command in the session.
    ///
    /// # Errors
    /// [`RexError`] if it is not known what the command has done.
    pub(super) async fn run(
        &mut self,
        client: &RexClient,
        command: &str,
        limit: Duration,
    ) -> Result<SessionEnd, RexError> {
        let body = json!({
            "action_type": "bash",
            "session": self.name,
            "command": command,
            "timeout": limit.as_secs_f64(),
            "is_interactive_command": false,
            "is_interactive_quit": false,
            "check": "silent",
            "error_msg": "",
            "expect": [],
        });
        let asked = client
            .post("/run_in_session", &body, limit + ANSWERING)
            .await;
        let error = match asked {
            Ok(answer) => {
                let code = answer["exit_code"].as_i64();
                let code = code.and_then(|code| i32::try_from(code).ok());
                return match answer["output"].as_str() {
                    Some(output) => Ok(SessionEnd::Done(output.to_owned(), code)),
                    None => Err(client.foreign(answer.to_string())),
                };
            }
            Err(error) => error,
        };
        if error.is("CommandTimeoutError") {
            let interrupted = self.interrupt(client).await;
            let lives = interrupted.is_ok();
            if !lives {
                self.close(client).await;
            }
            return Ok(SessionEnd::TimedOut(interrupted.unwrap_or_default(), lives));
        }
        if error.is("SessionDoesNotExistError") {
            self.is_open = false;
            return Ok(SessionEnd::Missing);
        }
        match error {
            RexError::Raised {
                said: Some(said), ..
            } => Ok(SessionEnd::Done(said, Some(2))),
            RexError::Raised { class, message, .. } => {
                self.close(client).await;
                // The message of some exceptions has a page of state after its first line.
                let first = message.lines().next().unwrap_or_default();
                Ok(SessionEnd::Died(format!("{class}: {first}")))
            }
            error => {
                // The command may still run in the session.
                self.close(client).await;
                Err(error)
            }
        }
    }
}
