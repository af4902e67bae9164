//! A container that was prepared for actions: runs the host's own programs in it, and kills the
//! processes that an action started there, by the mark in their environment.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::attend::{ProgramAnswer, ask};
use super::engine::{Engine, EngineError, ExecSpec};
use super::fast::HELPER;
use super::record::ContainerRecord;
use crate::aside::aside;
use mswea_helper::processes::{self, ACTION_VARIABLE, ProcessTarget};

/// The time limit of killing.
const KILLING: Duration = Duration::from_secs(10);

/// Kills without the helper, with programs that common images have. Prints what is left.
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

/// A running container.
pub(super) struct Container {
    pub(super) engine: Arc<dyn Engine>,
    pub(super) id: String,
    pub(super) name: String,
    /// Its record on disk.
    pub(super) record: Option<ContainerRecord>,
    pub(super) began: Instant,
    pub(super) way: Way,
    /// Why the helper can't be used, if it can't.
    pub(super) no_helper: String,
}

/// How actions run in a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// The helper runs them.
    Helper,
    /// One exec each, without the helper.
    Plain {
        /// Whether the image has a shell, which can join stdout and stderr.
        shell: bool,
    },
}

/// The arguments with which the shell of an image runs `argv` with stdout and stderr joined.
pub(super) fn joined(argv: Vec<String>) -> Vec<String> {
    let shell = ["sh", "-c", r#"exec "$@" 2>&1"#, "sh"].map(str::to_owned);
    shell.into_iter().chain(argv).collect()
}

impl Container {
    /// Runs one of the host's own programs to its end.
    ///
    /// # Errors
    /// [`EngineError`] if the engine fails, or the program takes longer than `limit`.
    pub(super) async fn ask(
        &self,
        spec: &ExecSpec,
        limit: Duration,
    ) -> Result<ProgramAnswer, EngineError> {
        ask(self.engine.as_ref(), &self.id, spec, limit).await
    }

    /// Kills all processes with `mark`; returns whether none is left.
    pub(super) async fn kill(&self, mark: &str) -> bool {
        if self.way == Way::Helper {
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
        if self.way == (Way::Plain { shell: false }) {
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

    /// Runs a program first as the user of the actions, because only that user can read their
    /// environments (root can't without a capability that containers lack); then as root, for
    /// processes that have changed their user.
    async fn as_both_users(&self, argv: &[&str]) -> Result<ProgramAnswer, EngineError> {
        let spec = ExecSpec::of(argv);
        let first = self.ask(&spec, KILLING).await?;
        let root = ExecSpec {
            user: Some("0".to_owned()),
            ..spec
        };
        match self.ask(&root, KILLING).await {
            Ok(second) if !second.is_ok() => Ok(second),
            _ => Ok(first),
        }
    }
}

/// Kills by the pids on this machine, if the container runs on it and this user may. Returns
/// whether there were such processes, and none is left.
async fn kill_from_here(mark: &str) -> bool {
    let target = ProcessTarget::marked(ACTION_VARIABLE, [mark.to_owned()]);
    let kill =
        move || processes::exist(&target) && processes::kill_until_gone(&target, KILLING) == 0;
    aside(kill).await.unwrap_or(false)
}
