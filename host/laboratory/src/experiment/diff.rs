//! Two plugins of one kind on the same recorded runs.
//!
//! For plugins without state the work is cut into pieces of some steps, for those that follow a
//! history into whole runs. The pieces are spread over as many threads as there are cores. Each
//! thread has instances of its own, and the results are merged in the order of runs and steps, so
//! that they do not depend on the threads' speed.

mod pieces;
mod roles;
mod view;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use serde_json::Value;

use super::comparison::{Comparison, Side};
use super::recorded::RecordedRuns;
use super::text::missed;
use mswea_core::{Maker, Refused, RoleKind, Tool};
use pieces::{Merged, Piece};
use roles::InstancePair;
pub(super) use roles::{other_tools, shown_history, shown_outputs, shown_reply};

/// The options of a comparison.
#[derive(Clone, Debug)]
pub struct DiffOptions {
    /// How many disagreements are kept; the others are only counted.
    pub keep: usize,
    /// How many bytes of a text are kept in a disagreement.
    pub text: usize,
    /// How many threads; 0: one for each core.
    pub threads: usize,
    /// The tools that adapters offer to the model: records do not contain them.
    pub tools: Vec<Tool>,
}

impl Default for DiffOptions {
    fn default() -> Self {
        Self {
            keep: 2_000,
            text: 8 << 10,
            threads: 0,
            tools: Vec::new(),
        }
    }
}

/// Why nothing was compared.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DiffError {
    /// One of the plugins can't take the role with this config.
    #[error(
        "the {label} plugin `{plugin}` can't be compared: {refused}{}",
        remedy(refused)
    )]
    Refused {
        /// `old` or `new`.
        label: &'static str,
        /// Its name.
        plugin: String,
        /// The reason.
        refused: Refused,
    },
    /// The runs contain nothing for this kind.
    #[error(
        "nothing to compare for the kind `{kind}` in {steps} steps of {runs} runs: looked for {wanted}{found}"
    )]
    Nothing {
        /// The kind.
        kind: RoleKind,
        /// The number of steps.
        steps: usize,
        /// The number of runs.
        runs: usize,
        /// The input of this kind.
        wanted: &'static str,
        /// The inputs that the runs contain instead.
        found: String,
    },
    /// No thread or runtime could be started.
    #[error("can't start a worker: {0}; free some memory or processes, and try again")]
    Worker(String),
}

/// The remedy for a refusal, if there is a known one.
fn remedy(refused: &Refused) -> &'static str {
    match refused {
        Refused::Config { .. } => "; give the config with `-c`, `--old-config` or `--new-config`",
        Refused::Failed(_) => "",
    }
}

/// Compares both plugins on the recorded runs. It blocks, and uses threads of its own.
///
/// # Errors
/// [`DiffError`] if a plugin can't take the role, the runs contain nothing for it, or no thread can
/// be started.
pub fn diff(
    old: Arc<dyn Maker>,
    new: Arc<dyn Maker>,
    old_config: &Value,
    new_config: &Value,
    kind: RoleKind,
    runs: &RecordedRuns,
    options: &DiffOptions,
) -> Result<Comparison, DiffError> {
    let started = Instant::now();
    let threads = match options.threads {
        0 => super::threads(),
        threads => threads,
    };
    let pieces = pieces::cut(&runs.runs, kind, threads);
    let threads = threads.min(pieces.len()).max(1);
    let total = Comparison {
        kind: kind.to_string(),
        old: Side::of("old", old.identity(), old_config),
        new: Side::of("new", new.identity(), new_config),
        runs: runs.runs.len() as u64,
        steps: runs.steps() as u64,
        warnings: runs.warnings.clone(),
        threads,
        ..Comparison::default()
    };
    let work = Work {
        makers: [&*old, &*new],
        configs: [old_config, new_config],
        kind,
        options,
        next: AtomicUsize::new(0),
        failed: AtomicBool::new(false),
        error: Mutex::new(None),
        warning: Mutex::new(None),
        merged: Merged::new(total, options.keep),
        pieces,
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| work.run());
        }
    });
    if let Some(error) = work
        .error
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner)
    {
        return Err(error);
    }
    let mut found = work.merged.finish();
    if found.counts.compared() == 0 {
        return Err(nothing(kind, runs, &found));
    }
    let warning = work.warning.into_inner();
    found
        .warnings
        .extend(warning.unwrap_or_else(PoisonError::into_inner));
    found.elapsed = started.elapsed();
    Ok(found)
}

fn nothing(kind: RoleKind, runs: &RecordedRuns, found: &Comparison) -> DiffError {
    let reasons = missed(found);
    DiffError::Nothing {
        kind,
        steps: runs.steps(),
        runs: runs.runs.len(),
        wanted: match kind {
            RoleKind::ActionParser => "replies of the model",
            RoleKind::ObservationFormatter => {
                "outputs of actions (in a trajectory: `raw_output` in the `extra` of each observation)"
            }
            RoleKind::ActionPolicy => "actions",
            RoleKind::HistoryProcessor | RoleKind::ModelAdapter => "queries",
        },
        found: match reasons.is_empty() {
            true => String::new(),
            false => format!("; found {}", reasons.join("; ")),
        },
    }
}

struct Work<'a> {
    makers: [&'a dyn Maker; 2],
    configs: [&'a Value; 2],
    kind: RoleKind,
    options: &'a DiffOptions,
    pieces: Vec<Piece<'a>>,
    next: AtomicUsize,
    failed: AtomicBool,
    error: Mutex<Option<DiffError>>,
    /// The same for every pair of instances.
    warning: Mutex<Option<String>>,
    merged: Merged,
}

impl Work<'_> {
    fn run(&self) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let result = match runtime {
            Ok(runtime) => runtime.block_on(self.pieces()),
            Err(error) => Err(DiffError::Worker(error.to_string())),
        };
        if let Err(error) = result {
            self.failed.store(true, Ordering::Relaxed);
            let mut first = self.error.lock().unwrap_or_else(PoisonError::into_inner);
            first.get_or_insert(error);
        }
    }

    async fn pieces(&self) -> Result<(), DiffError> {
        let mut instances: Option<InstancePair> = None;
        while !self.failed.load(Ordering::Relaxed) {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(piece) = self.pieces.get(index) else {
                break;
            };
            // A run's history is followed from its beginning, by instances that have seen no other.
            let mut pair = match instances.take() {
                Some(pair) if !pieces::follows_history(self.kind) => pair,
                _ => self.make().await?,
            };
            let mut found = Comparison::default();
            let most = match self.merged.is_full() {
                true => 0,
                false => self.options.text,
            };
            pair.compare(piece, self.options, most, &mut found).await;
            self.merged.put(piece.place, found);
            instances = Some(pair);
        }
        Ok(())
    }

    async fn make(&self) -> Result<InstancePair, DiffError> {
        let mut made = Vec::with_capacity(2);
        for (index, label) in ["old", "new"].into_iter().enumerate() {
            let maker = self.makers[index];
            let one = maker.make(self.kind, self.configs[index], false).await;
            made.push(one.map_err(|refused| DiffError::Refused {
                label,
                plugin: maker.identity().name.clone(),
                refused,
            })?);
        }
        let new = made.pop();
        let old = made.pop();
        let pair = old
            .zip(new)
            .and_then(|(old, new)| InstancePair::of(old, new))
            .ok_or_else(|| DiffError::Worker("a plugin was made as another kind".to_owned()))?;
        let mut warning = self.warning.lock().unwrap_or_else(PoisonError::into_inner);
        *warning = pair.warning();
        Ok(pair)
    }
}

#[cfg(test)]
mod figures;
#[cfg(test)]
mod tests;
