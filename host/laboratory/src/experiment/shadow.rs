//! A candidate that runs beside a plugin of a live run, on the same inputs, and influences nothing:
//! it has a thread of its own, its answers are only compared, and the run never waits for it.
//! Inputs for which its queue has no room are not compared.
//!
//! Parsers, formatters, history processors and policies can be shadowed. A model adapter can't: to
//! continue, it would need the responses to requests that are not sent.
//!
//! Divergences go to the journal as they are found ([`Event::ShadowDiverged`]). The comparison
//! without them follows at the end ([`Event::ShadowEnded`]), so that [`Comparison::from_journal`]
//! can make the same report again.

mod beside;
mod worker;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use super::comparison::{Comparison, Side};
use super::excerpt::{number, one_line};
use super::instance::{Follower, other_tools};
use super::text::{agreement, missed, time};
use beside::{Nothing, Shadowed, ShadowedProcessor};
use mswea_core::Event;
use mswea_core::{Formatter, Journal, Maker, Parser, Policy, Processor, Refused, RoleKind, Tool};
use worker::{ShadowJob, Worker};

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
    /// The way to the candidate's thread; none when the comparison has ended.
    queue: Mutex<Option<mpsc::Sender<ShadowJob>>>,
    steps: Arc<Steps>,
    settings: ShadowSettings,
    found: Mutex<Comparison>,
    /// Whether the candidate is not called any more.
    given_up: AtomicBool,
    /// Whether the comparison has ended, so that nothing more is recorded.
    over: AtomicBool,
    /// The number of inputs in the run (as `steps`), and those that the candidate did not get. It
    /// is apart from `found`, because the run never waits for the candidate's thread.
    missed: Mutex<Comparison>,
}

/// Why an input was not compared.
const GIVEN_UP: &str = "the candidate was given up";

impl ShadowState {
    fn found(&self) -> MutexGuard<'_, Comparison> {
        super::lock(&self.found)
    }

    /// Stops calling the candidate, with a warning for the reason.
    fn give_up(&self, why: &str) {
        if !self.given_up.swap(true, Ordering::Relaxed) {
            let mut found = self.found();
            let warning = format!("the candidate `{}` was given up: {why}", found.new.name);
            tracing::warn!(plugin = %found.new.name, "{warning}");
            found.warnings.push(warning);
        }
    }
}

/// A candidate in one role.
pub struct Shadow {
    shared: Arc<ShadowState>,
    kind: RoleKind,
    plugin: String,
    /// The candidate's tools, if it is a parser.
    tools: Vec<Tool>,
    done: oneshot::Receiver<()>,
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
        let (queue, jobs) = mpsc::channel(settings.queue.max(1));
        let shared = Arc::new(ShadowState {
            queue: Mutex::new(Some(queue)),
            steps,
            settings,
            found: Mutex::new(Comparison {
                kind: kind.to_string(),
                old: Side::named("real", ""),
                new: Side::of("candidate", maker.identity(), &config),
                runs: 1,
                threads: 1,
                ..Comparison::default()
            }),
            given_up: AtomicBool::new(false),
            over: AtomicBool::new(false),
            missed: Mutex::default(),
        });
        let failed = |reason: String| ShadowError::Thread {
            plugin: plugin.clone(),
            reason,
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime.map_err(|error| failed(error.to_string()))?;
        let (ready, is_ready) = oneshot::channel();
        let (finished, done) = oneshot::channel();
        let worker = Worker {
            shared: shared.clone(),
            maker,
            config,
            kind,
            candidate: None,
            crashes: 0,
        };
        let thread = std::thread::Builder::new().name(format!("shadow {plugin}"));
        thread
            .spawn(move || {
                runtime.block_on(worker.run(ready, jobs));
                // The receiver may be gone.
                let _ = finished.send(());
            })
            .map_err(|error| failed(error.to_string()))?;
        let tools = match is_ready.await {
            Ok(Ok(tools)) => tools,
            Ok(Err(refused)) => return Err(ShadowError::Refused { plugin, refused }),
            Err(_) => return Err(failed("its thread ended".to_owned())),
        };
        Ok(Self {
            shared,
            tools,
            kind,
            plugin,
            done,
        })
    }

    /// Puts this shadow beside the run's plugin of its kind. Of several processors or policies it
    /// is put beside the one with its own name, or else the first, which gets the run's inputs
    /// before the others. Without one, the candidate is compared with a plugin that changes nothing.
    #[must_use]
    pub fn over(&self, mut roles: RunRoles) -> RunRoles {
        match self.kind {
            RoleKind::ActionParser => {
                let real = roles.parser;
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
                roles.parser = Box::new(Shadowed::new(real, &self.shared));
            }
            RoleKind::ObservationFormatter => {
                self.goes_beside(roles.formatter.name());
                roles.formatter = Box::new(Shadowed::new(roles.formatter, &self.shared));
            }
            RoleKind::HistoryProcessor => {
                let name = |own: &(dyn Processor + 'static)| own.name().to_owned();
                self.one_of(&mut roles.processors, Box::new(Nothing), name, |real| {
                    Box::new(ShadowedProcessor {
                        name: name(&*real),
                        beside: Shadowed::new(Follower::of(real), &self.shared),
                    })
                });
            }
            RoleKind::ActionPolicy => {
                let name = |own: &(dyn Policy + 'static)| own.name().to_owned();
                self.one_of(&mut roles.policies, Box::new(Nothing), name, |real| {
                    Box::new(Shadowed::new(real, &self.shared))
                });
            }
            // Refused by [`Self::start`].
            RoleKind::ModelAdapter => {}
        }
        roles
    }

    fn one_of<T: ?Sized>(
        &self,
        list: &mut Vec<Box<T>>,
        nothing: Box<T>,
        name: impl Fn(&T) -> String,
        shadowed: impl FnOnce(Box<T>) -> Box<T>,
    ) {
        if list.is_empty() {
            list.push(nothing);
        }
        let namesake = list.iter().position(|own| name(own) == self.plugin);
        let real = list.remove(namesake.unwrap_or(0));
        self.goes_beside(&name(&real));
        list.insert(namesake.unwrap_or(0), shadowed(real));
    }

    fn goes_beside(&self, name: &str) {
        self.shared.found().old.name = name.to_owned();
    }

    /// Ends the comparison with the run: waits at most `deadline` for the remaining inputs, records
    /// the summary, and returns the result.
    pub async fn finish(mut self, deadline: Duration) -> Comparison {
        let shared = self.shared.clone();
        super::lock(&shared.queue).take();
        let _ = tokio::time::timeout(deadline, &mut self.done).await;
        let mut found = {
            // Taken under the lock, so that the candidate's thread is not in the middle of
            // recording a divergence.
            let found = shared.found();
            shared.over.store(true, Ordering::Relaxed);
            found.clone()
        };
        found.merge(super::lock(&shared.missed).clone(), usize::MAX);
        found.sum_up();
        let known = found.not_compared.values().sum::<u64>() + found.counts.compared();
        for _ in known..found.steps {
            found.skip("the candidate was not done when the run was over");
        }
        let ended = Event::ShadowEnded {
            plugin: found.new.name.clone(),
            kind: found.kind.clone(),
            beside: found.old.name.clone(),
            summary: json!(found),
        };
        if let Err(error) = shared.steps.record(&ended) {
            tracing::warn!(%error, "the journal does not have what the shadow found");
        }
        found
    }
}

impl Drop for Shadow {
    /// A run that ends early must not leave a thread that waits without end.
    fn drop(&mut self) {
        super::lock(&self.shared.queue).take();
    }
}

impl Comparison {
    /// One or two lines for the end of a run.
    pub fn brief(&self) -> String {
        let mut out = format!(
            "shadow `{}` beside `{}` ({}): ",
            one_line(&self.new.name),
            one_line(&self.old.name),
            self.kind,
        );
        let skipped: u64 = self.not_compared.values().sum();
        let reasons = missed(self).join("; ");
        match agreement(self) {
            Some(agreement) => {
                let (new, old) = (&self.new.latency, &self.old.latency);
                let times = [new.p50, new.p99, old.p50, old.p99].map(time);
                let [p50, p99, old_p50, old_p99] = times;
                out.push_str(&format!(
                    "{agreement}; p50 {p50}, p99 {p99} a call, beside {old_p50} and {old_p99}"
                ));
                if skipped > 0 {
                    let all = number(self.counts.compared() + skipped, "input");
                    out.push_str(&format!("; {skipped} of {all} not compared: {reasons}"));
                }
            }
            None if reasons.is_empty() => {
                out.push_str("nothing was compared: the run had no input for it");
            }
            None => out.push_str(&format!("nothing was compared: {reasons}")),
        }
        for warning in &self.warnings {
            out.push('\n');
            out.push_str(&one_line(warning));
        }
        out
    }
}

#[cfg(test)]
mod tests;
