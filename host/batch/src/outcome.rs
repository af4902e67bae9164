//! The result of an instance: the data of its run that predictions, reports and later workers use.

use std::collections::BTreeMap;
use std::path::Path;

use mswea_core::{End, ErrorClass, ModelFailure, Usage};
use mswea_run::{AgentRules, State};
use mswea_session::{Done, RunOutcome};
use serde::{Deserialize, Serialize};

use crate::error::BatchError;
use crate::whole_file;

/// The largest result that is read.
const LIMIT: u64 = 1 << 30;

/// How the run of an instance ended, in the file `result.json` of its folder.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BatchResult {
    /// The instance.
    pub instance_id: String,
    /// `Submitted`, `LimitsExceeded`, ...
    pub exit_status: String,
    /// The submission; empty if there is none.
    pub submission: String,
    /// The failure that ended the run, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Dollars; none if a price was unknown.
    pub cost: Option<f64>,
    /// Queries of the model.
    pub steps: u32,
    /// Tokens.
    pub usage: Usage,
    /// The time of the run in seconds.
    pub seconds: f64,
    /// How many runs the process that wrote this has begun or resumed for the instance.
    pub attempts: u32,
    /// The id of the run.
    pub run_id: String,
    /// How often each plugin has failed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub plugin_faults: BTreeMap<String, u32>,
}

/// The meaning of an exit status for the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The agent has ended, well or badly.
    Ended,
    /// An error ended the run, and would end it again.
    Failed,
    /// The machine, the network or the provider ended the run: another attempt may succeed.
    Infrastructure,
    /// The run was stopped: there is no result.
    Cut,
}

/// The meaning of an exit status for the batch.
pub fn severity(exit_status: &str) -> Severity {
    // This includes `submitted (exit_cost)`, after the salvage command.
    let is_submitted =
        exit_status.starts_with(&AgentRules::SweAgent.exit_status(&End::Submitted, false));
    match end_of(exit_status) {
        _ if is_submitted => Severity::Ended,
        Some(end) => severity_of(&end),
        None => Severity::Failed,
    }
}

/// The end with this exit status, under the rules of either agent. None for a run that was refused
/// before it began, and for the exit statuses of other programs.
pub(crate) fn end_of(exit_status: &str) -> Option<End> {
    let rules = [AgentRules::Mini, AgentRules::SweAgent];
    End::each().find(|end| {
        let mut names = rules.iter().map(|rules| rules.exit_status(end, false));
        names.any(|name| name == exit_status)
    })
}

fn severity_of(end: &End) -> Severity {
    match end {
        End::Submitted
        | End::LimitsExceeded
        | End::TimeExceeded
        | End::RepeatedFormatError
        | End::Forfeited
        | End::ExitCommand
        | End::RepeatedTimeouts
        | End::ExecutionTimeExceeded => Severity::Ended,
        // A limit of all runs of the process says nothing about this run.
        End::Interrupted | End::GlobalLimit { .. } => Severity::Cut,
        End::Environment { .. } | End::Journal { .. } => Severity::Infrastructure,
        End::Template { .. } | End::Plugin { .. } | End::Crashed { .. } => Severity::Failed,
        End::Query { class, .. } => match class {
            ModelFailure::Reported(class) => severity_of_class(class),
            ModelFailure::Limit => Severity::Ended,
            ModelFailure::Interrupted => Severity::Cut,
            ModelFailure::Journal => Severity::Infrastructure,
            ModelFailure::Plugin | ModelFailure::Refused => Severity::Failed,
        },
    }
}

fn severity_of_class(class: &ErrorClass) -> Severity {
    match class {
        // The history of this instance was too long or was refused; other instances are not
        // affected.
        ErrorClass::ContextWindowExceeded | ErrorClass::ContentFiltered => Severity::Ended,
        ErrorClass::RateLimited
        | ErrorClass::Overloaded
        | ErrorClass::Timeout
        | ErrorClass::Network => Severity::Infrastructure,
        ErrorClass::Authentication
        | ErrorClass::Permission
        | ErrorClass::NotFound
        | ErrorClass::BadRequest
        | ErrorClass::MalformedResponse
        | ErrorClass::Other(_) => Severity::Failed,
    }
}

impl BatchResult {
    /// The result of a run that has ended in this process.
    pub(crate) fn of_done(id: &str, done: &Done, attempts: u32) -> Self {
        let base = Self {
            instance_id: id.to_owned(),
            exit_status: done.exit_status().to_owned(),
            submission: done.submission().to_owned(),
            error: done.error(),
            attempts,
            run_id: done.run_id.clone(),
            ..Self::default()
        };
        match &done.outcome {
            RunOutcome::Ended(ended) => Self {
                cost: ended.account.known_cost(),
                steps: ended.account.queries,
                usage: ended.account.usage.clone(),
                seconds: ended.account.seconds,
                plugin_faults: ended.state.fault_counts(),
                ..base
            },
            RunOutcome::Refused(_) | RunOutcome::Crashed(_) => Self {
                cost: matches!(done.outcome, RunOutcome::Refused(_)).then_some(0.0),
                ..base
            },
        }
    }

    /// The result of a run that had ended when its process was killed; none if its end is not
    /// recorded.
    pub(crate) fn of_state(id: &str, state: &State, attempts: u32) -> Option<Self> {
        let ended = state.ended.as_ref()?;
        let message = ended.extra.get("message").and_then(|it| it.as_str());
        Some(Self {
            instance_id: id.to_owned(),
            exit_status: ended.exit_status.clone(),
            submission: ended.submission.clone(),
            error: message.map(str::to_owned),
            cost: state.account.known_cost(),
            steps: state.account.queries,
            usage: state.account.usage.clone(),
            seconds: state.account.seconds,
            attempts,
            run_id: state.run_id.clone(),
            plugin_faults: state.fault_counts(),
        })
    }

    /// Whether the run ended with an error.
    pub fn has_failed(&self) -> bool {
        severity(&self.exit_status) != Severity::Ended
    }

    /// Whether the agent has begun. If not, its environment could not be made.
    pub fn has_begun(&self) -> bool {
        self.steps > 0
            || match end_of(&self.exit_status) {
                Some(end) => !matches!(end, End::Environment { .. } | End::Crashed { .. }),
                // The exit status of a run that was refused.
                None => self.exit_status != "SetupError",
            }
    }

    /// Writes the result, unless there is one. Returns whether the file is this result.
    pub(crate) fn write(&self, path: &Path) -> Result<bool, BatchError> {
        let io = BatchError::io("write", path);
        match serde_json::to_vec(self) {
            Ok(text) => whole_file::make(path, &text).map_err(io),
            Err(error) => Err(io(error.into())),
        }
    }

    /// Writes the result where several workers may do so at the same time: exactly one result is
    /// kept. `own` is a name that no other worker has. Returns whether this result was kept.
    pub(crate) fn write_among(&self, path: &Path, own: &str) -> Result<bool, BatchError> {
        let io = BatchError::io("write", path);
        match serde_json::to_vec(self) {
            Ok(text) => whole_file::make_among(path, &text, own).map_err(io),
            Err(error) => Err(io(error.into())),
        }
    }

    /// Reads a result; none if there is no file.
    pub(crate) fn read(path: &Path) -> Result<Option<Self>, BatchError> {
        let text = match mswea_files::read(path, LIMIT) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(BatchError::io("read", path)(error)),
        };
        serde_json::from_slice(&text).map(Some).map_err(|error| {
            BatchError::Refused(format!(
                "`{}` is not the result of an instance: {error}; it was changed since it was written: remove it, and the instance is run again",
                path.display()
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_written_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("result.json");
        assert_eq!(BatchResult::read(&path).unwrap(), None);
        let result = BatchResult {
            instance_id: "a".to_owned(),
            exit_status: "Submitted".to_owned(),
            submission: "diff\n".to_owned(),
            ..BatchResult::default()
        };
        assert!(result.write(&path).unwrap());
        let other = BatchResult {
            exit_status: "Timeout".to_owned(),
            ..result.clone()
        };
        assert!(!other.write(&path).unwrap());
        assert_eq!(BatchResult::read(&path).unwrap(), Some(result));
        std::fs::write(&path, "{").unwrap();
        assert!(BatchResult::read(&path).is_err());
    }

    #[test]
    fn severities() {
        for (status, expected) in [
            ("Submitted", Severity::Ended),
            ("LimitsExceeded", Severity::Ended),
            ("ContextWindowExceededError", Severity::Ended),
            ("AuthenticationError", Severity::Failed),
            ("PluginError", Severity::Failed),
            ("InternalError", Severity::Failed),
            ("EnvironmentError", Severity::Infrastructure),
            ("RateLimitError", Severity::Infrastructure),
            ("JournalError", Severity::Infrastructure),
            ("Interrupted", Severity::Cut),
            ("submitted (exit_cost)", Severity::Ended),
            ("exit_format", Severity::Ended),
            ("exit_error", Severity::Failed),
            ("exit_environment_error", Severity::Infrastructure),
            ("Forfeited", Severity::Ended),
            ("InternalServerError", Severity::Infrastructure),
            ("SetupError", Severity::Failed),
            ("a name of another program", Severity::Failed),
        ] {
            assert_eq!(severity(status), expected, "{status}");
        }
    }

    #[test]
    fn each_end_is_found_by_its_exit_status() {
        for end in End::each() {
            for rules in [AgentRules::Mini, AgentRules::SweAgent] {
                let status = rules.exit_status(&end, false);
                let found = end_of(&status).map(|it| rules.exit_status(&it, false));
                assert_eq!(found, Some(status));
            }
            assert_eq!(severity(end.exit_status()), severity_of(&end), "{end:?}");
        }
    }
}
