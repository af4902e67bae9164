//! The files of a command that has some beside those of a batch.

use std::sync::Arc;

use mswea_batch::{BatchResult, BatchWatcher};

use crate::cli::front::BatchFront;
use crate::cli::output::Failure;

/// How a batch begins.
pub(in crate::cli) struct BatchStart<'a> {
    /// The results that there are already.
    pub(in crate::cli) done: &'a [BatchResult],
    /// How many instances are run.
    pub(in crate::cli) left: usize,
    /// How many entries `preds.json` has, if they are not redone.
    pub(in crate::cli) predicted: usize,
}

/// The files of a command that has some beside those of a batch.
pub(in crate::cli) trait MoreFiles {
    /// The name of the model in the predictions, if it is not that of the config.
    fn model_name(&self) -> Option<String>;
    /// Whether an instance whose agent has not begun has no prediction.
    fn predicts_begun(&self) -> bool {
        false
    }

    /// The batch begins. The watcher is told what happens further, and tells `front`.
    fn begin(
        &self,
        start: &BatchStart<'_>,
        front: Arc<BatchFront>,
    ) -> Result<Arc<dyn BatchWatcher>, Failure>;
    /// The batch has ended: what is left is written.
    fn end(&self) -> Result<(), Failure>;
}
