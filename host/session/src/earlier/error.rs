//! Why a run can't be continued, forked or replayed from a file.

use std::path::PathBuf;

use mswea_record::journal::JournalError;

/// Why a run can't be continued, forked or replayed from a file.
#[derive(Debug, thiserror::Error)]
pub enum EarlierError {
    /// The file can't be read or written, or its run continues in another process.
    #[error(transparent)]
    Unreadable(JournalError),
    /// The journal is damaged, or of another version.
    #[error("`{}`: {error}", journal.display())]
    Damaged {
        /// The file.
        journal: PathBuf,
        /// The damage.
        error: JournalError,
    },
    /// The file is not a journal.
    #[error("`{}` is not a journal of mswea-host: it does not begin with `run_started`; name a run by its id, its journal or its trajectory (`mswea-host runs list` shows them)", journal.display())]
    NoJournal {
        /// The file.
        journal: PathBuf,
    },
    /// The journal has no complete line.
    #[error("nothing was recorded in `{}`: its run never began, so start it again", journal.display())]
    Empty {
        /// The file.
        journal: PathBuf,
    },
    /// The run has submitted and ended.
    #[error("run `{run_id}` has submitted and is over; a new run can begin from one of its steps: `mswea-host fork {} --at {before}`", journal.display())]
    Submitted {
        /// The run's id.
        run_id: String,
        /// The run's journal.
        journal: PathBuf,
        /// The number of the last step before the submission.
        before: u32,
    },
    /// The run has fewer steps.
    #[error(
        "the run has {steps} {}, and `--at {step}` is beyond its end: `--at` takes 0 to {steps}",
        if *steps == 1 { "step" } else { "steps" }
    )]
    BeyondEnd {
        /// The step that was asked for.
        step: u32,
        /// The number of steps.
        steps: u32,
    },
    /// The run submits in this step, so a fork has nothing left to do.
    #[error(
        "the run submits in step {step}, so nothing is left to do after it: name an earlier step"
    )]
    SubmitsThere {
        /// The step.
        step: u32,
    },
    /// The files of the workspace at this step were not recorded.
    #[error(
        "what the files of the workspace were after step {step} was not recorded: a run records its changes when it ends; `--no-workspace` uses the workspace as it is, and `--at 0` begins before the first step if the host can make the workspace again"
    )]
    NoPatch {
        /// The step.
        step: u32,
    },
    /// The environment of the new run can't restore files.
    #[error(
        "the workspace can't be made what it was at that step: {reason}; `--no-workspace` uses it as it is"
    )]
    NotRestorable {
        /// The reason.
        reason: String,
    },
    /// The journal has events that this version does not know, so the state of the run is unknown,
    /// too.
    #[error("event {seq} of the journal `{}` is of the kind `{kind}`, which mswea-host {} does not know: use mswea-host {host} or a later one", journal.display(), env!("CARGO_PKG_VERSION"))]
    UnknownEvent {
        /// The file.
        journal: PathBuf,
        /// The number of the first such event.
        seq: u64,
        /// Its kind.
        kind: String,
        /// The version of the host that wrote the journal.
        host: String,
    },
    /// It is a trajectory that can't be read.
    #[error("`{}` is a trajectory that can't be read: {reason}", trajectory.display())]
    Foreign {
        /// The file.
        trajectory: PathBuf,
        /// The mistake in it.
        reason: String,
    },
    /// Only a run with a journal can go on.
    #[error("`{0}` is a trajectory of mini-swe-agent, or one without its journal, which does not hold what `resume` needs; a new run can begin with its steps: `mswea-host fork {0} --at STEP --no-workspace`", trajectory.display())]
    ForeignResume {
        /// The file.
        trajectory: PathBuf,
    },
    /// A trajectory does not have the files of the workspace.
    #[error(
        "a trajectory without a journal does not hold the files of the workspace, so they can't be restored: `--no-workspace` uses the workspace as it is"
    )]
    ForeignWorkspace,
    /// The trajectory lacks the outputs of commands.
    #[error("`{0}` does not hold which actions its replies had and what these printed (`extra.actions`, `extra.raw_output`), so it can't be replayed; a new run can begin with its steps: `mswea-host fork {0} --at STEP --no-workspace`", trajectory.display())]
    NoOutputs {
        /// The file.
        trajectory: PathBuf,
    },
    /// The run goes on, or has gone on, in another copy of its journal.
    #[error("`{}` is a copy of `{}`, in which the run {}: go on from that one, or begin a new run from this one with `mswea-host fork`", journal.display(), original.display(), if *is_living { "goes on at this moment" } else { "has gone on since" })]
    Copied {
        /// The journal that was named.
        journal: PathBuf,
        /// The journal that has more of the run.
        original: PathBuf,
        /// A process goes on with the run there.
        is_living: bool,
    },
    /// Another process is going on with the run, from a copy of its journal.
    #[error("another process goes on with the run of `{}` from a copy of this journal: wait for its end or end it, or begin a new run with `mswea-host fork`", journal.display())]
    CopyInUse {
        /// The journal that was named.
        journal: PathBuf,
    },
    /// Another run works in the same folder now.
    #[error("{other} is working in `{}`, where this run works, too, and each would change the files of the other: wait for its end or end it, or let this run go on in another folder (`-c environment.cwd=FOLDER`, for a repository that it clones `-c workspace.path=FOLDER`)", folder.display())]
    SharedFolder {
        /// The other run, for the message.
        other: String,
        /// The folder.
        folder: PathBuf,
    },
    /// A plugin differs from that of the run.
    #[error(
        "plugin `{name}` ({kind}) has changed since the run: its sha256 was {before}, now it is {now}; bring the earlier one back, or let the run go on with this one: {how}"
    )]
    ChangedPlugin {
        /// The plugin.
        name: String,
        /// Its role.
        kind: String,
        /// The digest that was recorded.
        before: String,
        /// The current digest.
        now: String,
        /// The flags that accept it.
        how: String,
    },
}

impl EarlierError {
    /// Whether the cause is a plugin.
    pub fn is_of_plugin(&self) -> bool {
        matches!(self, Self::ChangedPlugin { .. })
    }
}
