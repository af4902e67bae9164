//! A run that has submitted and recorded its end, and whose host was killed before it wrote the
//! trajectory.

use std::path::{Path, PathBuf};

use serde_json::Value;

use mswea_core::End;
use mswea_files as regular_file;
use mswea_record::journal::Reopened;
use mswea_record::trajectory::{self, TrajectoryError};
use mswea_run::AgentRules;
use mswea_run::fold;

use super::{Earlier, EarlierError, foreign, of_journal};
use mswea_record::{is_device, runs_folder};

impl Earlier {
    /// The locked journal of a run that has submitted and ended ([`EarlierError::Submitted`]), if
    /// the run has no complete trajectory; else `None`.
    ///
    /// # Errors
    /// [`EarlierError`] if it is not a journal, is damaged, is of a later version, or if its run
    /// continues in another process.
    pub fn to_finish(journal: &Path) -> Result<Option<Self>, EarlierError> {
        if foreign::read(journal).is_some() {
            return Ok(None);
        }
        let opened = Reopened::open(journal);
        let (held, log) = opened.map_err(|error| of_journal(journal, error))?;
        let earlier = Self::of(journal, log, Some(held))?;
        let is_whole = !earlier.has_submitted() || earlier.has_trajectory();
        Ok((!is_whole).then_some(earlier))
    }

    /// Whether the run has submitted, and its end is recorded.
    pub(super) fn has_submitted(&self) -> bool {
        let state = &self.state;
        let ended = state.ended.as_ref();
        ended.is_some_and(|it| state.end == Some(End::Submitted) || is_submitted(&it.exit_status))
    }

    fn has_trajectory(&self) -> bool {
        let configured = self.state.config.pointer("/agent/output_path");
        if configured
            .and_then(Value::as_str)
            .is_some_and(|output| is_device(Path::new(output)))
        {
            // The content of a device or a pipe can't be read again.
            return true;
        }
        let refuge = runs_folder().join(format!("{}.traj.json", self.state.run_id));
        self.is_whole_in(&self.files().trajectory) || self.is_whole_in(&refuge)
    }

    /// Whether a file is the trajectory of this run up to its last end. A run submits only once, so
    /// its exit status distinguishes this end from an earlier one.
    fn is_whole_in(&self, path: &Path) -> bool {
        let text = regular_file::read(path, regular_file::RECORDS);
        let value = text
            .ok()
            .and_then(|text| serde_json::from_slice(&text).ok());
        let value: Value = value.unwrap_or_default();
        let ended = self.state.ended.as_ref();
        let is = |pointer: &str, expected: Value| value.pointer(pointer) == Some(&expected);
        is("/info/mswea/run_id", self.state.run_id.as_str().into())
            && is("/info/mswea/complete", true.into())
            && ended.is_some_and(|it| is("/info/exit_status", it.exit_status.as_str().into()))
    }

    /// Writes the trajectory of a run that has ended. Returns its path and how the run ended.
    ///
    /// # Errors
    /// [`TrajectoryError`] if it can't be written.
    pub fn finish(&self) -> Result<(PathBuf, End), TrajectoryError> {
        let files = self.files();
        files.remove_temporary();
        let mut value = fold(&self.records).into_trajectory();
        trajectory::set_journal(&mut value, files.journal_seen_from_trajectory());
        trajectory::write(&files.trajectory, &value)?;
        Ok((files.trajectory, self.recorded_end()))
    }

    /// The end of a run that has submitted. After the submission, a bug of the host may have ended
    /// it.
    fn recorded_end(&self) -> End {
        match &self.state.ended {
            Some(ended) if !is_submitted(&ended.exit_status) => {
                let message = ended.extra.get("message").and_then(Value::as_str);
                End::Crashed {
                    message: message.unwrap_or_default().to_owned(),
                }
            }
            _ => End::Submitted,
        }
    }
}

/// Whether an exit status is that of a submission, under the rules of either agent.
fn is_submitted(exit_status: &str) -> bool {
    let rules = [AgentRules::Mini, AgentRules::SweAgent];
    let mut names = rules
        .iter()
        .map(|it| it.exit_status(&End::Submitted, false));
    names.any(|name| name == exit_status)
}
