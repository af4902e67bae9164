//! Why the files of a run can't be written.

use std::io;

use mswea_record::journal::JournalError;
use mswea_record::trajectory::TrajectoryError;

use mswea_record::RunFiles;

/// Why the files of a run can't be written to the given paths.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// No trajectory can be written there.
    #[error(transparent)]
    Trajectory(#[from] TrajectoryError),
    /// Another run writes there.
    #[error("{0}")]
    Taken(io::Error),
    /// Another obstacle.
    #[error("can't write the trajectory `{path}`: {detail}: name another file with `-o PATH`")]
    Other {
        /// The path of the trajectory.
        path: String,
        /// The obstacle.
        detail: String,
    },
}

impl OutputError {
    pub(super) fn of(files: &RunFiles, detail: String) -> Self {
        let path = files.trajectory.display().to_string();
        Self::Other { path, detail }
    }
}

/// Why a run that is over has no trajectory. Its journal has what was recorded.
#[derive(Debug, thiserror::Error)]
pub enum Unwritten {
    /// There is no journal from which a trajectory could be made.
    #[error("nothing was recorded")]
    Nothing,
    /// The journal can't be read.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The file can't be written.
    #[error(transparent)]
    Trajectory(#[from] TrajectoryError),
    /// The run was stopped before the trajectory was written.
    #[error("the trajectory `{0}` is not written: a signal came before it was")]
    Stopped(String),
    /// The trajectory is for a pipe without a reader.
    #[error("the trajectory `{0}` is not written: the pipe has no reader")]
    Unread(String),
    /// The file system did not answer in time.
    #[error("the trajectory `{0}` is not written: its file system does not answer")]
    Slow(String),
    /// A bug of the host has ended the thread that writes it.
    #[error("the thread that writes the trajectory has ended")]
    Lost,
}
