//! What a probe of one part of this machine found: for `doctor`, and for messages that say why
//! an executor can't be used here.

use std::path::PathBuf;

use serde::Serialize;

use super::{bubblewrap, landlock, singularity};
use crate::roles::{Context, ExecutorError};

/// How much of a part works here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// All of it.
    Works,
    /// Some of it; the detail says what does not.
    Limited,
    /// Nothing of it.
    Missing,
}

/// What is known about one part of this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Probe {
    /// The part, as the config names it where it has a name there.
    pub name: &'static str,
    /// How much of it works.
    pub state: State,
    /// What was found: a version, a path, an error.
    pub detail: String,
    /// What would make it work, or work better; empty if there is nothing to do.
    pub remedy: String,
}

impl Probe {
    /// Of a part that was tried: it works, with what was found, or the error has cause and
    /// remedy.
    pub fn of(name: &'static str, tried: Result<String, ExecutorError>) -> Self {
        let (state, detail, remedy) = match tried {
            Ok(found) => (State::Works, found, String::new()),
            Err(error) => {
                let (cause, remedy) = cause_and_remedy(&error.message);
                (State::Missing, cause, remedy)
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

/// The two parts of a message. All that executors say of what they need is written `CAUSE;
/// REMEDY`; what has no remedy is a cause.
fn cause_and_remedy(message: &str) -> (String, String) {
    let (cause, remedy) = message.split_once("; ").unwrap_or((message, ""));
    (cause.to_owned(), remedy.to_owned())
}

/// Tries each sandbox for real, as far as that goes without an image. `guard_program` is the
/// host's own binary.
pub async fn sandboxes(guard_program: Option<PathBuf>, context: &Context) -> Vec<Probe> {
    let mut probes = vec![
        Probe::of("bubblewrap", bubblewrap::probe(context).await),
        Probe::of("singularity", singularity::probe(context).await),
    ];
    if let Some(program) = guard_program {
        let mut landlock = Probe::of("landlock", landlock::probe(program.clone(), true).await);
        if landlock.state == State::Works {
            match landlock::probe(program, false).await {
                Ok(_) => landlock.detail.push_str("; the network can be taken away"),
                Err(error) => {
                    landlock.state = State::Limited;
                    let (cause, remedy) = cause_and_remedy(&error.message);
                    let limit = format!("; not without the network: {cause}");
                    landlock.detail.push_str(&limit);
                    landlock.remedy = remedy;
                }
            }
        }
        probes.push(landlock);
    }
    probes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_missing_program_has_a_cause_and_a_remedy() {
        let tried = super::super::container::probe("nonesuch-engine", Default::default()).await;
        let probe = Probe::of("docker", tried);
        assert_eq!(probe.state, State::Missing);
        assert_eq!(probe.detail, "there is no program `nonesuch-engine`");
        assert!(
            probe.remedy.contains("`environment.executable`"),
            "{probe:?}"
        );
        let works = Probe::of("docker", Ok("1; 2".into()));
        assert_eq!((works.detail.as_str(), works.remedy.as_str()), ("1; 2", ""));
    }
}
