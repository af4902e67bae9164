//! A candidate that runs beside a plugin of a live run, on the same inputs, and influences nothing:
//! it has a thread of its own, its answers are only compared, and the run never waits for it.
//! Inputs for which its queue has no room are not compared.
//!
//! Parsers, formatters, history processors and policies can be shadowed. A model adapter can't: to
//! continue, it would need the responses to requests that are not sent.
//!
//! Divergences go to the journal as they are found ([`Event::ShadowDiverged`]); the counts, the
//! latencies and what was not compared follow at the end ([`Event::ShadowEnded`]), so that
//! [`Comparison::from_journal`] can make the same report again. Keys of its `summary`: `version`,
//! `sha256`, `config` of the candidate; `steps` (inputs in all), `counts` by degree, `by_step`
//! (pairs of a step and its counts in the order of the degrees), `not_compared` (reason to count),
//! `left_out` (divergences that are only counted), `asked`, `latency` of the candidate and
//! `real_latency` of the plugin beside it (as in `plugin diff --json`), `warnings`.

mod queue;
mod roles;
mod worker;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::oneshot;

use super::comparison::{Comparison, Side};
use super::diff::other_tools;
use super::text::{agreement, missed, number, one_line, time};
use mswea_core::Event;
use mswea_core::{Formatter, Journal, Maker, Parser, Policy, Processor, Refused, RoleKind, Tool};
use queue::Queue;
use worker::Worker;

/// Why a candidate that asks the model is not compared.
const ASKED: &str = "the candidate asked the model, and a shadow's questions are not sent";

/// The limits of a shadow.
#[derive(Clone, Copy, Debug)]
pub struct ShadowSettings {
    /// How many inputs may wait for the candidate; further ones are not compared.
    pub queue: usize,
    /// After this many crashes in a row the candidate is not called any more.
    pub crashes: u32,
    /// A call that takes longer counts as a crash.
    pub call_deadline: Duration,
    /// How many divergences are recorded in the journal; further ones are only counted.
    pub divergences: usize,
    /// How many bytes of a text are kept in a divergence.
    pub text: usize,
}

impl Default for ShadowSettings {
    fn default() -> Self {
        Self {
            queue: 64,
            crashes: 3,
            call_deadline: Duration::from_secs(30),
            divergences: 200,
            text: 4 << 10,
        }
    }
}

/// Why a shadow can't be started.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ShadowError {
    /// The candidate is an adapter.
    #[error(
        "`{plugin}` is a model adapter, and those can't be shadowed: the requests of a candidate would have to be sent and paid for; compare their requests on recorded runs with `mswea-host plugin diff OLD NEW --trajectories DIR`"
    )]
    Adapter {
        /// The candidate's name.
        plugin: String,
    },
    /// The candidate can't be made.
    #[error("the candidate `{plugin}` can't be run as a shadow: {refused}")]
    Refused {
        /// The candidate's name.
        plugin: String,
        /// The reason.
        refused: Refused,
    },
    /// No thread or runtime could be started.
    #[error(
        "can't start the shadow `{plugin}`: {reason}; free some memory or processes, or leave it out"
    )]
    Thread {
        /// The candidate's name.
        plugin: String,
        /// The reason.
        reason: String,
    },
}

/// A journal that follows the number of the current step.
pub struct Steps {
    inner: Arc<dyn Journal>,
    step: AtomicU32,
}

impl Steps {
    /// Wraps the journal of a run, which then records through it.
    pub fn over(inner: Arc<dyn Journal>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            step: AtomicU32::new(0),
        })
    }

    /// The number of the last query.
    fn current(&self) -> u32 {
        self.step.load(Ordering::Relaxed)
    }
}

impl Journal for Steps {
    fn record(&self, event: &Event) -> std::io::Result<f64> {
        if let Event::QueryStarted { query, .. } = event {
            self.step.store(*query, Ordering::Relaxed);
        }
        self.inner.record(event)
    }
}

/// The roles of a run, before it starts.
pub struct RunRoles {
    /// Finds actions.
    pub parser: Box<dyn Parser>,
    /// Formats observations.
    pub formatter: Box<dyn Formatter>,
    /// History processors, in order.
    pub processors: Vec<Box<dyn Processor>>,
    /// Action policies, in order.
    pub policies: Vec<Box<dyn Policy>>,
}

/// State that the run and the candidate's thread share.
struct ShadowState {
    queue: Queue,
    steps: Arc<Steps>,
    settings: ShadowSettings,
    found: Mutex<Comparison>,
    /// Whether the candidate is not called any more.
    given_up: AtomicBool,
    /// Whether the comparison has ended, so that nothing more is recorded.
    over: AtomicBool,
    /// The number of inputs in the run.
    inputs: AtomicU64,
    /// How many of them came while the queue was full.
    overflowed: AtomicU64,
    /// How many of them came after the candidate was given up.
    too_late: AtomicU64,
}

impl ShadowState {
    fn found(&self) -> MutexGuard<'_, Comparison> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops calling the candidate; waiting inputs are counted, and a warning gives the reason.
    fn give_up(&self, why: &str) {
        if self.given_up.swap(true, Ordering::Relaxed) {
            return;
        }
        let waiting = self.queue.clear();
        self.too_late.fetch_add(waiting, Ordering::Relaxed);
        let mut found = self.found();
        let warning = format!("the candidate `{}` was given up: {why}", found.new.name);
        tracing::warn!(plugin = %found.new.name, "{warning}");
        found.warnings.push(warning);
    }
}

/// A candidate in one role.
pub struct Shadow {
    shared: Arc<ShadowState>,
    kind: RoleKind,
    plugin: String,
    /// The candidate's tools, if it is a parser.
    tools: Vec<Tool>,
    done: Option<oneshot::Receiver<()>>,
}

impl Shadow {
    /// Starts the candidate's thread, and returns when the candidate has been made there.
    ///
    /// # Errors
    /// [`ShadowError`] if the candidate is an adapter, can't take the role with this config, or no
    /// thread can be started.
    pub async fn start(
        maker: Arc<dyn Maker>,
        config: Value,
        kind: RoleKind,
        steps: Arc<Steps>,
        settings: ShadowSettings,
    ) -> Result<Self, ShadowError> {
        let plugin = maker.identity().name.clone();
        if kind == RoleKind::ModelAdapter {
            return Err(ShadowError::Adapter { plugin });
        }
        let side = |label| Side {
            label,
            ..Side::default()
        };
        let shared = Arc::new(ShadowState {
            queue: Queue::new(settings.queue),
            steps,
            settings,
            found: Mutex::new(Comparison {
                kind: kind.to_string(),
                old: side("real"),
                new: Side::of("candidate", maker.identity(), &config),
                runs: 1,
                threads: 1,
                ..Comparison::default()
            }),
            given_up: AtomicBool::new(false),
            over: AtomicBool::new(false),
            inputs: AtomicU64::new(0),
            overflowed: AtomicU64::new(0),
            too_late: AtomicU64::new(0),
        });
        let (ready, is_ready) = oneshot::channel();
        let (finished, done) = oneshot::channel();
        let worker = Worker::new(shared.clone(), maker, config, kind);
        let thread = std::thread::Builder::new().name(format!("shadow {plugin}"));
        let failed = |reason: String| ShadowError::Thread {
            plugin: plugin.clone(),
            reason,
        };
        thread
            .spawn(move || {
                worker.run(ready);
                // The receiver may be gone.
                let _ = finished.send(());
            })
            .map_err(|error| failed(error.to_string()))?;
        let tools = match is_ready.await {
            Ok(Ok(tools)) => tools,
            Ok(Err(worker::Unready::Refused(refused))) => {
                return Err(ShadowError::Refused { plugin, refused });
            }
            Ok(Err(worker::Unready::NoRuntime(reason))) => return Err(failed(reason)),
            Err(_) => return Err(failed("its thread ended".to_owned())),
        };
        Ok(Self {
            shared,
            tools,
            kind,
            plugin,
            done: Some(done),
        })
    }

    /// Puts this shadow beside the run's plugin of its kind. Of several processors or policies it
    /// is put beside the one with its own name, or else the first, which gets the run's inputs
    /// before the others. Without one, the candidate is compared with a plugin that changes nothing.
    #[must_use]
    pub fn over(&self, mut cast: RunRoles) -> RunRoles {
        match self.kind {
            RoleKind::ActionParser => cast.parser = self.parser(cast.parser),
            RoleKind::ObservationFormatter => cast.formatter = self.formatter(cast.formatter),
            RoleKind::HistoryProcessor => {
                if cast.processors.is_empty() {
                    cast.processors.push(Box::new(roles::Nothing));
                }
                let names = cast.processors.iter().map(|own| own.name());
                let at = self.beside(names);
                let real = cast.processors.remove(at);
                cast.processors.insert(at, self.processor(real));
            }
            RoleKind::ActionPolicy => {
                if cast.policies.is_empty() {
                    cast.policies.push(Box::new(roles::Nothing));
                }
                let names = cast.policies.iter().map(|own| own.name());
                let at = self.beside(names);
                let real = cast.policies.remove(at);
                cast.policies.insert(at, self.policy(real));
            }
            // Refused by [`Self::start`].
            RoleKind::ModelAdapter => {}
        }
        cast
    }

    fn beside<'a>(&self, mut names: impl Iterator<Item = &'a str>) -> usize {
        names.position(|name| name == self.plugin).unwrap_or(0)
    }

    /// The run's parser with this shadow beside it.
    #[must_use]
    pub fn parser(&self, real: Box<dyn Parser>) -> Box<dyn Parser> {
        self.goes_beside(real.name());
        if self.tools != real.tools() {
            let warning = format!(
                "the candidate `{}` would offer {}; the model was offered those of `{}`",
                self.plugin,
                other_tools(&self.tools, real.tools()),
                real.name()
            );
            self.shared.found().warnings.push(warning);
        }
        Box::new(roles::Shadowed::new(real, self.shared.clone()))
    }

    /// The run's formatter with this shadow beside it.
    #[must_use]
    pub fn formatter(&self, real: Box<dyn Formatter>) -> Box<dyn Formatter> {
        self.goes_beside(real.name());
        Box::new(roles::Shadowed::new(real, self.shared.clone()))
    }

    /// The run's processor with this shadow beside it.
    #[must_use]
    pub fn processor(&self, real: Box<dyn Processor>) -> Box<dyn Processor> {
        self.goes_beside(real.name());
        Box::new(roles::Shadowed::new(real, self.shared.clone()))
    }

    /// The run's policy with this shadow beside it.
    #[must_use]
    pub fn policy(&self, real: Box<dyn Policy>) -> Box<dyn Policy> {
        self.goes_beside(real.name());
        Box::new(roles::Shadowed::new(real, self.shared.clone()))
    }

    fn goes_beside(&self, name: &str) {
        self.shared.found().old.name = name.to_owned();
    }

    /// Ends the comparison with the run: waits at most `deadline` for the remaining inputs, records
    /// the summary, and returns the result.
    pub async fn finish(mut self, deadline: Duration) -> Comparison {
        let shared = self.shared.clone();
        shared.queue.close();
        if let Some(done) = self.done.take() {
            let _ = tokio::time::timeout(deadline, done).await;
        }
        let mut found = {
            // Taken under the lock, so that the candidate's thread is not in the middle of
            // recording a divergence.
            let found = shared.found();
            shared.over.store(true, Ordering::Relaxed);
            found.clone()
        };
        shared.queue.clear();
        found.steps = shared.inputs.load(Ordering::Relaxed);
        let overflowed = shared.overflowed.load(Ordering::Relaxed);
        let too_late = shared.too_late.load(Ordering::Relaxed);
        let other: u64 = found.not_compared.values().sum();
        let rest = found
            .steps
            .saturating_sub(found.counts.compared() + other + overflowed + too_late);
        for (why, count) in [
            ("the candidate's queue was full", overflowed),
            ("the candidate was given up", too_late),
            ("the candidate was not done when the run was over", rest),
        ] {
            if count > 0 {
                *found.not_compared.entry(why.to_owned()).or_default() += count;
            }
        }
        let ended = Event::ShadowEnded {
            plugin: found.new.name.clone(),
            kind: found.kind.clone(),
            beside: found.old.name.clone(),
            summary: found.summary(),
        };
        if let Err(error) = shared.steps.record(&ended) {
            tracing::warn!(%error, "the journal does not have what the shadow found");
        }
        found
    }

    /// [`Self::finish`] for all shadows of a run, with one common deadline.
    pub async fn finish_all(shadows: Vec<Self>, deadline: Duration) -> Vec<Comparison> {
        let until = tokio::time::Instant::now() + deadline;
        let mut found = Vec::with_capacity(shadows.len());
        for shadow in &shadows {
            shadow.shared.queue.close();
        }
        for shadow in shadows {
            let left = until.saturating_duration_since(tokio::time::Instant::now());
            found.push(shadow.finish(left).await);
        }
        found
    }
}

impl Drop for Shadow {
    /// A run that ends early must not leave a thread that waits without end.
    fn drop(&mut self) {
        self.shared.queue.close();
    }
}

impl Comparison {
    /// One or two lines for the end of a run.
    pub fn brief(&self) -> String {
        let compared = self.counts.compared();
        let mut out = format!(
            "shadow `{}` beside `{}` ({}): ",
            one_line(&self.new.name),
            one_line(&self.old.name),
            self.kind,
        );
        let skipped: u64 = self.not_compared.values().sum();
        let reasons = missed(self).join("; ");
        match agreement(&self.counts) {
            Some(agreement) => {
                out.push_str(&format!(
                    "{agreement}; p50 {}, p99 {} a call, beside {} and {}",
                    time(self.new.latency.quantile(0.5)),
                    time(self.new.latency.quantile(0.99)),
                    time(self.old.latency.quantile(0.5)),
                    time(self.old.latency.quantile(0.99)),
                ));
                if skipped > 0 {
                    let all = number(compared + skipped, "input");
                    out.push_str(&format!("; {skipped} of {all} not compared: {reasons}"));
                }
            }
            None => {
                out.push_str("nothing was compared: ");
                match self.not_compared.get(ASKED) {
                    Some(asked) if *asked == skipped => out.push_str(&format!(
                        "it asked the model in {}, and a shadow's questions are not sent",
                        all_of(skipped, "step")
                    )),
                    _ if reasons.is_empty() => out.push_str("the run had no input for it"),
                    _ => out.push_str(&reasons),
                }
            }
        }
        for warning in &self.warnings {
            out.push('\n');
            out.push_str(&one_line(warning));
        }
        out
    }
}

/// `the only step`, `both steps`, `all 6 steps`.
fn all_of(count: u64, of: &str) -> String {
    match count {
        1 => format!("the only {of}"),
        2 => format!("both {of}s"),
        count => format!("all {count} {of}s"),
    }
}

#[cfg(test)]
mod figures;
#[cfg(test)]
mod tests;
