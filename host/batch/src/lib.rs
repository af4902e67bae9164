//! Many runs: a batch is a directory with a manifest (one line per instance), a frozen config, a
//! folder per instance with its journal and trajectory, and results that are made from these.
//!
//! A batch can be killed at any point. The next worker continues it: an instance with a result is
//! not run again, and every instance gets exactly one result.
//!
//! [`BatchFolder`] is the directory, [`work`] gives each instance its result.

mod attempt;
mod claims;
mod compare;
mod engine;
mod error;
mod fields;
mod floor;
mod folder;
mod frozen;
mod hold;
mod holding;
mod job;
mod lost;
mod manifest;
mod merge;
mod outcome;
mod page;
mod predictions;
mod report;
mod result_files;
mod scan;
mod select;
mod settings;
mod shuffle;
mod slurm;
mod swebench;
mod training;
mod whole_file;
mod work;
mod worker;

pub use attempt::write_trajectory;
pub use claims::WorkerName;
pub use compare::BatchComparison;
pub use engine::BatchEngine;
pub use error::BatchError;
pub use fields::{FieldTemplates, NamedRow};
pub use floor::MachineFloor;
pub use folder::{BatchFolder, FolderState, Redo};
pub use frozen::{FrozenBatch, preflight};
pub use job::{BatchJob, BatchLimits, InstanceCourse, TaskCompletion};
pub use lost::LostAttempts;
pub use manifest::{BatchInstance, check_id};
pub use merge::merge;
pub use outcome::{BatchResult, Severity, severity};
pub use page::report_page;
pub use predictions::{ExitStatuses, Predictions};
pub use report::{BatchReport, StatusLine, resolved_ids};
pub use result_files::ResultFiles;
pub use scan::WorkerPlan;
pub use select::{Picked, Selection};
pub use settings::BatchConfig;
pub use slurm::{
    QueueLine, SlurmArray, check_slurm, check_slurm_ids, shell_line, slurm_cancel, slurm_jobs,
    slurm_queue,
};
pub use swebench::image_name;
pub use training::{TrainingExport, export_training};
pub use work::{BatchEnd, BatchWatcher, BatchWhy, work};
pub use worker::work_claims;
