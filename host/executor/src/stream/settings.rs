//! The settings of an environment behind a stream.

use std::time::Duration;

use indexmap::IndexMap;
use mswea_core::{EnvironmentReady, Object};
use serde_json::{Value, json};

use crate::{environment, machine};

/// The settings of an environment behind a stream.
#[derive(Clone, Debug)]
pub struct StreamSettings {
    /// The working directory of commands; empty: the helper's.
    pub cwd: String,
    /// Whether the working directory is made if it is missing.
    pub make_cwd: bool,
    /// Variables for every command, laid over those of the place.
    pub env: IndexMap<String, String>,
    /// The default time limit of a command.
    pub timeout: Duration,
    /// Program and arguments to which the command is appended.
    pub interpreter: Vec<String>,
    /// Whether all actions run in one bash.
    pub session: bool,
    /// Whether that bash has a terminal.
    pub pty: bool,
    /// The most bytes of a command's output that are kept, half of them from each end.
    pub capture_bytes: usize,
    /// An output whose first line is this is kept whole: the marker of a submission.
    pub whole_after: Option<String>,
    /// Marks the actions of the run. Empty: one is generated.
    pub run_id: String,
}

impl Default for StreamSettings {
    fn default() -> Self {
        Self {
            cwd: String::new(),
            make_cwd: false,
            env: IndexMap::new(),
            timeout: Duration::from_secs(30),
            interpreter: vec!["bash".to_owned(), "-c".to_owned()],
            session: false,
            pty: false,
            capture_bytes: crate::CAPTURE_BYTES,
            whole_after: None,
            run_id: String::new(),
        }
    }
}

impl StreamSettings {
    /// The configured variables, except for the marks of runs and actions, or the reason why one
    /// can't be passed to a process.
    pub(crate) fn variables(&self) -> Result<Vec<(String, String)>, String> {
        environment::elsewhere(&[], &self.env)
    }

    /// The variables of templates; `found` is the output of [`super::LOOK`].
    pub(crate) fn template_vars(&self, found: &[String]) -> Object {
        let cwd = match (self.cwd.as_str(), found.last()) {
            ("", Some(found)) => found.as_str(),
            (cwd, _) => cwd,
        };
        let mut variables = machine::template_vars(cwd, &self.env, self.timeout);
        let names = ["system", "node", "release", "version", "machine"];
        for (name, found) in names.iter().zip(found) {
            variables.insert((*name).to_owned(), Value::from(found.as_str()));
        }
        variables
    }
}

/// The handle of an environment at a place, where [`super::LOOK`] has printed `found`, and the
/// difference to that of the process before.
pub(crate) fn handle(place: &str, found: &[String], known: Option<&Value>) -> EnvironmentReady {
    let folder = found.last().map_or("", String::as_str);
    let handle = json!({ "place": place, "cwd": folder });
    let replaced = known.filter(|known| known.is_object() && **known != handle);
    let replaced = replaced.map(|known| {
        let before = |key: &str| known[key].as_str().unwrap_or("?").to_owned();
        format!(
            "commands run at {place}, in `{folder}` now, before it was at {}, in `{}`",
            before("place"),
            before("cwd")
        )
    });
    EnvironmentReady {
        handle,
        replaced,
        is_restored: false,
    }
}
