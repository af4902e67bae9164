//! The sessions of SWE-ReX's clients, by name.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mswea_executor::{
    LocalSettings, ServedShell, ShellAnswer, ShellAnswerEnd, ShellInterruption, ShellLine,
};
use serde_json::{Value, json};
use tokio::sync::Mutex as AsyncMutex;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::bodies::{CreateBody, ExitCheck, InterruptBody, LineBody, limit};
use super::fault::RexFault;
use super::text::without_controls;

/// A session whose client is silent for this long is ended: a client sends nothing while its model
/// thinks, and may never report that it is gone.
const KEEP: Duration = Duration::from_secs(24 * 3600);
/// The prompt by which clients recognise the end of a command.
const PROMPT: &str = "SHELLPS1PREFIX";
/// The shortest pause between two interruptions.
const PAUSE: Duration = Duration::from_millis(50);
/// The most interruptions of one request.
const TRIES: u32 = 100;

/// All sessions.
#[derive(Default)]
pub(super) struct RexShells(Mutex<HashMap<String, Arc<RexShell>>>);

struct RexShell {
    /// None while the shell is being ended.
    shell: AsyncMutex<Option<ServedShell>>,
    interruption: ShellInterruption,
    heard: Mutex<Instant>,
    /// Whether commands that wait for the shell may not begin any more.
    is_closing: AtomicBool,
}

impl RexShell {
    async fn end(&self) {
        self.is_closing.store(true, Ordering::Relaxed);
        // A request that waits for its command then gets an answer.
        self.interruption.end();
        if let Some(shell) = self.shell.lock().await.take() {
            shell.end().await;
        }
    }

    fn heard(&self) -> MutexGuard<'_, Instant> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn gone(name: &str) -> RexFault {
    let message = format!("session '{name}' does not exist");
    RexFault::own("SessionDoesNotExistError", message)
}

impl RexShells {
    fn by_name(&self) -> MutexGuard<'_, HashMap<String, Arc<RexShell>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, name: &str) -> Result<Arc<RexShell>, RexFault> {
        let found = self.by_name().get(name).cloned();
        let found = found.ok_or_else(|| gone(name))?;
        *found.heard() = Instant::now();
        Ok(found)
    }

    pub(super) async fn create(
        &self,
        settings: &LocalSettings,
        most: usize,
        body: &CreateBody,
    ) -> Result<Value, RexFault> {
        let name = &body.session;
        let is_free = |shells: &HashMap<String, Arc<RexShell>>| {
            if shells.contains_key(name) {
                let message = format!("session '{name}' exists already");
                return Err(RexFault::own("SessionExistsError", message));
            }
            if shells.len() >= most {
                let message = format!(
                    "there are {most} sessions, and the server allows no more: close one, or start it with a larger `--max-sessions`"
                );
                return Err(RexFault::own("SwerexException", message));
            }
            Ok(())
        };
        is_free(&self.by_name())?;
        let mut shell = ServedShell::open(settings).await?;
        // The files are often written for a shell with a prompt.
        let files = body.startup_source.iter();
        let sourced: Vec<String> = files.map(|file| format!("source {file}")).collect();
        let command = match sourced.is_empty() {
            true => String::new(),
            false => format!("PS1='$ '\n{}\n:", sourced.join("\n")),
        };
        let line = ShellLine {
            text: &command,
            is_interactive: false,
            expect: &[],
            limit: limit(Some(body.startup_timeout)),
        };
        let opened = match shell.run(&line).await {
            Ok(answer) => is_free(&self.by_name()).map(|()| answer),
            Err(error) => Err(error.into()),
        };
        let answer = match opened {
            Ok(answer) => answer,
            Err(fault) => {
                shell.end().await;
                return Err(fault);
            }
        };
        let shell = Arc::new(RexShell {
            interruption: shell.interruption(),
            shell: AsyncMutex::new(Some(shell)),
            heard: Mutex::new(Instant::now()),
            is_closing: AtomicBool::new(false),
        });
        let before = self.by_name().insert(name.clone(), shell);
        if let Some(before) = before {
            before.end().await;
        }
        Ok(json!({ "output": without_controls(&answer.output), "session_type": "bash" }))
    }

    pub(super) async fn close(&self, name: &str) -> Result<Value, RexFault> {
        let shell = self.by_name().remove(name);
        shell.ok_or_else(|| gone(name))?.end().await;
        Ok(json!({ "session_type": "bash" }))
    }

    pub(super) async fn run(&self, body: &LineBody) -> Result<Value, RexFault> {
        let session = self.find(&body.session)?;
        let is_interactive = body.is_interactive_command || body.is_interactive_quit;
        let began = Instant::now();
        let whole = limit(body.timeout);
        let timed_out = || RexFault::timed_out(&body.command, body.timeout, true);
        let Ok(mut shell) = timeout(whole, session.shell.lock()).await else {
            return Err(RexFault::own(
                "CommandTimeoutError",
                "another command runs in this session, and did not end in time",
            ));
        };
        if session.is_closing.load(Ordering::Relaxed) {
            return Err(gone(&body.session));
        }
        let shell = shell.as_mut().ok_or_else(|| gone(&body.session))?;
        let line = ShellLine {
            text: &body.command,
            is_interactive,
            expect: &body.expect,
            limit: whole.saturating_sub(began.elapsed()),
        };
        let ran = shell.run(&line).await;
        *session.heard() = Instant::now();
        let answer = match ran {
            Err(mswea_executor::ShellError::TimedOut) => return Err(timed_out()),
            ran => ran?,
        };
        let mut output = without_controls(&answer.output);
        let exit_code = match (is_interactive, body.check, answer.end) {
            (true, ..) => Some(0),
            (false, ExitCheck::Ignore, _)
            | (false, ExitCheck::Silent, ShellAnswerEnd::Matched(_)) => None,
            (false, ExitCheck::Raise, ShellAnswerEnd::Matched(_)) => {
                return Err(RexFault::own(
                    "NoExitCodeError",
                    "the command goes on after the match of `expect`, so it has no exit code; pass `check=\"silent\"`",
                ));
            }
            (false, check, ShellAnswerEnd::Exited(status)) => {
                if check == ExitCheck::Raise && status != 0 {
                    let (command, told) = (&body.command, &body.error_msg);
                    return Err(RexFault::failed(command, told, status, &output));
                }
                Some(status)
            }
        };
        if body.is_interactive_command {
            // A program that edits its lines echoes them.
            let rest = output.trim_start();
            let rest = rest.strip_prefix(body.command.as_str()).unwrap_or(rest);
            output = rest.trim().to_owned();
        }
        Ok(observation(&output, exit_code, &answer, &body.expect))
    }

    pub(super) async fn interrupt(&self, body: &InterruptBody) -> Result<Value, RexFault> {
        let session = self.find(&body.session)?;
        let limit = limit(Some(body.timeout));
        let tries = body.n_retry.min(TRIES);
        // Another request may wait for the command, and then gets its output.
        let mut tried = 0;
        let mut pause = Duration::ZERO;
        let mut shell = loop {
            match timeout(pause, session.shell.lock()).await {
                Ok(shell) => break shell,
                Err(_) if tried < tries => session.interruption.interrupt(),
                Err(_) => session.interruption.end(),
            }
            tried += 1;
            pause = limit.max(PAUSE);
        };
        let shell = shell.as_mut().ok_or_else(|| gone(&body.session))?;
        let answer = shell.interrupt(&body.expect, limit, tries).await?;
        let output = without_controls(&answer.output);
        Ok(observation(output.trim(), Some(0), &answer, &body.expect))
    }

    /// Ends the sessions of clients that are gone.
    pub(super) fn end_abandoned(&self) {
        let mut shells = self.by_name();
        for (name, shell) in shells.extract_if(|_, shell| shell.heard().elapsed() > KEEP) {
            tracing::warn!(
                name,
                "a session was ended: nothing was heard of it for a day"
            );
            tokio::spawn(async move { shell.end().await });
        }
    }

    pub(super) async fn end_all(&self) {
        let shells = std::mem::take(&mut *self.by_name());
        let mut ending = JoinSet::new();
        for shell in shells.into_values() {
            ending.spawn(async move { shell.end().await });
        }
        while ending.join_next().await.is_some() {}
    }
}

fn observation(
    output: &str,
    exit_code: Option<i32>,
    answer: &ShellAnswer,
    expect: &[String],
) -> Value {
    let matched = match answer.end {
        ShellAnswerEnd::Matched(which) => expect.get(which).map_or("", String::as_str),
        ShellAnswerEnd::Exited(_) => PROMPT,
    };
    json!({
        "output": output,
        "exit_code": exit_code,
        "failure_reason": "",
        "expect_string": matched,
        "session_type": "bash",
    })
}
