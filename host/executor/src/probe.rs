//! The result of probing one part of this machine: for `doctor`, and for messages that explain why
//! an executor can't be used here.

use std::path::PathBuf;

use serde::Serialize;

use super::local::{LocalExecutor, LocalSettings};
use super::sandbox::Sandbox;
use super::{bubblewrap, landlock, singularity};
use mswea_core::{Context, Executor as _, ExecutorError, Stop};

/// How much of a part works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ProbeState {
    /// All of it.
    Works,
    /// Some of it; the detail says what does not.
    Limited,
    /// Nothing of it.
    Missing,
}

/// The result for one part of this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Probe {
    /// The part, by its name in the config if it has one.
    pub name: &'static str,
    /// How much of it works.
    pub state: ProbeState,
    /// The finding: a version, a path, an error.
    pub detail: String,
    /// The remedy or improvement; empty if there is nothing to do.
    pub remedy: String,
}

impl Probe {
    /// The result for a part that was tried: a part that works has a finding, and the error of one
    /// that does not has the cause and the remedy.
    pub fn of(name: &'static str, tried: Result<String, ExecutorError>) -> Self {
        let (state, detail, remedy) = match tried {
            Ok(found) => (ProbeState::Works, found, String::new()),
            Err(error) => {
                let (cause, remedy) = cause_and_remedy(&error.message);
                (ProbeState::Missing, cause, remedy)
            }
        };
        Self {
            name,
            state,
            detail,
            remedy,
        }
    }
}

/// The two parts of a message. Messages of executors about their requirements are written `CAUSE;
/// REMEDY`; one without a remedy is a cause.
fn cause_and_remedy(message: &str) -> (String, String) {
    let (cause, remedy) = message.split_once("; ").unwrap_or((message, ""));
    (cause.to_owned(), remedy.to_owned())
}

/// Tries each sandbox, as far as that is possible without an image. `guard_program` is the host's
/// own binary.
pub async fn sandboxes(guard_program: Option<PathBuf>, context: &Context) -> Vec<Probe> {
    let mut probes = vec![
        Probe::of("bubblewrap", bubblewrap::probe(context).await),
        Probe::of("singularity", singularity::probe(context).await),
    ];
    if let Some(program) = guard_program {
        let mut landlock = Probe::of("landlock", confinement(program.clone(), true).await);
        if landlock.state == ProbeState::Works {
            match confinement(program, false).await {
                Ok(_) => landlock
                    .detail
                    .push_str("; the network can be switched off"),
                Err(error) => {
                    landlock.state = ProbeState::Limited;
                    let (cause, remedy) = cause_and_remedy(&error.message);
                    let limit = format!("; the network can't be switched off: {cause}");
                    landlock.detail.push_str(&limit);
                    landlock.remedy = remedy;
                }
            }
        }
        probes.push(landlock);
    }
    probes
}

/// Tries the Landlock sandbox, and describes it.
async fn confinement(program: PathBuf, network: bool) -> Result<String, ExecutorError> {
    landlock::check_kernel()?;
    let program = std::path::absolute(&program).unwrap_or(program);
    let sandbox = Sandbox {
        network,
        ..Sandbox::default()
    };
    let mut executor = LocalExecutor::new(LocalSettings::default());
    let tried = executor
        .try_landlock(program, &sandbox, &Stop::never())
        .await;
    executor.cleanup().await;
    tried
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_missing_program_has_a_cause_and_a_remedy() {
        let tried = super::super::container::probe("nonesuch-engine", Default::default()).await;
        let probe = Probe::of("docker", tried);
        assert_eq!(probe.state, ProbeState::Missing);
        assert_eq!(probe.detail, "there is no program `nonesuch-engine`");
        assert!(
            probe.remedy.contains("`environment.executable`"),
            "{probe:?}"
        );
        let works = Probe::of("docker", Ok("1; 2".into()));
        assert_eq!((works.detail.as_str(), works.remedy.as_str()), ("1; 2", ""));
    }
}
