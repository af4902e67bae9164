//! Ends what an action started inside a container, by the mark in its environment.

use std::time::{Duration, Instant};

use super::attend::{Answer, ask};
use super::engine::{Engine, EngineError, ExecSpec};
use super::fast::HELPER;
use crate::executor::processes::{self, ACTION_VARIABLE, Hunt, Target};

/// How long killing may take.
const KILLING: Duration = Duration::from_secs(10);

/// Kills, as the helper can't be used, with what a common image has. Prints what is left.
pub(super) const SCRIPT: &str = r#"
found() {
    for folder in /proc/[0-9]*; do
        tr '\000' '\n' <"$folder/environ" 2>/dev/null | grep -qxF "$1" && echo "${folder#/proc/}"
    done
}
type tr grep >/dev/null || exit 3
for round in 1 2 3 4 5 6 7 8 9 10; do
    pids=$(found "$1")
    [ -n "$pids" ] || exit 0
    kill -STOP $pids 2>/dev/null
    kill -KILL $pids 2>/dev/null
done
exit 1
"#;

/// Where the processes to be killed are.
pub(super) struct Place<'a> {
    pub(super) engine: &'a dyn Engine,
    pub(super) id: &'a str,
    /// Whether the helper can be run there.
    pub(super) helper: bool,
    /// Whether there is a shell.
    pub(super) shell: bool,
}

impl Place<'_> {
    /// Kills everything that carries `mark`; returns whether nothing of it goes on.
    pub(super) async fn kill(&self, mark: &str) -> bool {
        if self.helper {
            let argv = [HELPER, "kill", mark];
            match self.as_both_users(&argv).await {
                Ok(answer) if answer.is_ok() => return true,
                Ok(answer) => {
                    tracing::debug!(status = answer.status, text = answer.text, "helper kill");
                }
                Err(error) => tracing::debug!(%error, "helper kill"),
            }
        }
        if kill_from_here(mark).await {
            return true;
        }
        if !self.shell {
            return false;
        }
        let entry = format!("{ACTION_VARIABLE}={mark}");
        match self
            .as_both_users(&["sh", "-c", SCRIPT, "sh", &entry])
            .await
        {
            Ok(answer) => answer.is_ok(),
            Err(error) => {
                tracing::debug!(%error, "a command can't be killed");
                false
            }
        }
    }

    /// As the user of the actions, whose environments only they (and not even root, without a
    /// capability that containers lack) can read; then as root, for what changed its user.
    async fn as_both_users(&self, argv: &[&str]) -> Result<Answer, EngineError> {
        let spec = ExecSpec {
            argv: argv.iter().map(|&arg| arg.to_owned()).collect(),
            cwd: Some("/".to_owned()),
            ..ExecSpec::default()
        };
        let first = ask(self.engine, self.id, &spec, KILLING).await?;
        let root = ExecSpec {
            user: Some("0".to_owned()),
            ..spec
        };
        match ask(self.engine, self.id, &root, KILLING).await {
            Ok(second) if !second.is_ok() => Ok(second),
            _ => Ok(first),
        }
    }
}

/// Kills by the pids that this machine sees, if the container runs on it and we may. Returns
/// whether there was something, and nothing of it is left.
async fn kill_from_here(mark: &str) -> bool {
    let target = Target::marked(ACTION_VARIABLE, [mark.to_owned()]);
    if !processes::exist(&target) {
        return false;
    }
    let began = Instant::now();
    let mut hunt = Hunt::default();
    while !hunt.is_over(&target) {
        if began.elapsed() > KILLING {
            return false;
        }
        tokio::time::sleep(Hunt::PAUSE).await;
    }
    true
}
