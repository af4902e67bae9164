//! The additional files of a command that runs a batch.

use std::sync::Arc;

use mswea_batch::{BatchResult, BatchWatcher};

use crate::cli::front::BatchFront;
use crate::cli::output::Failure;

/// The state of a batch at its beginning.
pub(in crate::cli) struct BatchStart<'a> {
    /// The results that already exist.
    pub(in crate::cli) done: &'a [BatchResult],
    /// How many instances will be run.
    pub(in crate::cli) left: usize,
    /// How many entries of `preds.json` are kept.
    pub(in crate::cli) predicted: usize,
}

/// Writes the additional files of a command that runs a batch.
pub(in crate::cli) trait MoreFiles {
    /// The name of the model in the predictions, if it is not that of the config.
    fn model_name(&self) -> Option<String>;
    /// Whether an instance whose agent has not begun has no prediction.
    fn predicts_begun(&self) -> bool {
        false
    }

    /// The batch begins. The returned watcher gets its further events, and passes them to `front`.
    fn begin(
        &self,
        start: &BatchStart<'_>,
        front: Arc<BatchFront>,
    ) -> Result<Arc<dyn BatchWatcher>, Failure>;
    /// The batch has ended: writes the remaining data.
    fn end(&self) -> Result<(), Failure>;
}
