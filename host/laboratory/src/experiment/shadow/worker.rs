//! The candidate's thread.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use super::super::answer::{self, RoleAnswer};
use super::super::comparison::InputPlace;
use super::super::diff::{shown_history, shown_outputs, shown_reply};
use super::super::watched::{Sight, WatchedProcessor};
use super::queue::{Applied, ShadowJob, ShadowTask};
use super::{ASKED, ShadowState};
use mswea_core::Event;
use mswea_core::{
    Asker, ConfiguredRole, Journal, Maker, Manner, Message, ModelError, ModelFailure, PluginFault,
    Refused, Reply, RoleKind, Tool, ViewChange,
};
use mswea_run::history::{Chain, check_pairing};

/// The run's name in a comparison, which has only one.
const RUN: &str = "this run";

/// How much the candidate's thread lowers its priority, which on Linux applies to the thread alone.
const NICENESS: i32 = 5;

/// Why a candidate could not be started.
pub(super) enum Unready {
    Refused(Refused),
    NoRuntime(String),
}

pub(super) struct Worker {
    shared: Arc<ShadowState>,
    maker: Arc<dyn Maker>,
    config: Value,
    kind: RoleKind,
    candidate: Option<CandidateInstance>,
    /// Crashes in a row.
    crashes: u32,
    /// The history and the run's own view, as far as they were followed.
    input: Vec<Arc<Message>>,
    real: Vec<Message>,
}

/// The instance; a processor is in a chain of its own, which enforces the rules.
enum CandidateInstance {
    Role(ConfiguredRole),
    Processor {
        chain: Chain,
        sight: Sight,
        view: Vec<Message>,
        is_new: bool,
    },
}

/// The fault of a panic or of an exceeded deadline in the candidate.
fn crashed(message: String) -> PluginFault {
    PluginFault::new(message).in_manner(Manner::Crashed)
}

impl Worker {
    pub(super) fn new(
        shared: Arc<ShadowState>,
        maker: Arc<dyn Maker>,
        config: Value,
        kind: RoleKind,
    ) -> Self {
        Self {
            shared,
            maker,
            config,
            kind,
            candidate: None,
            crashes: 0,
            input: Vec::new(),
            real: Vec::new(),
        }
    }

    /// Works until the queue is closed and empty.
    pub(super) fn run(mut self, ready: oneshot::Sender<Result<Vec<Tool>, Unready>>) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = match runtime {
            Ok(runtime) => runtime,
            Err(error) => {
                let _ = ready.send(Err(Unready::NoRuntime(error.to_string())));
                return;
            }
        };
        // The run takes precedence. A refusal to lower the priority is ignored.
        let _ = rustix::process::setpriority_process(None, NICENESS);
        let made = self.make(&runtime).map_err(Unready::Refused);
        let tools = made.map(|()| match &self.candidate {
            Some(CandidateInstance::Role(ConfiguredRole::Parser(parser))) => {
                parser.tools().to_vec()
            }
            _ => Vec::new(),
        });
        let is_made = tools.is_ok();
        if ready.send(tools).is_err() || !is_made {
            return;
        }
        while let Some(job) = self.shared.queue.take() {
            if self.shared.over.load(Ordering::Relaxed) {
                return;
            }
            self.work(&runtime, job);
        }
    }

    fn make(&mut self, runtime: &Runtime) -> Result<(), Refused> {
        let make = self.maker.make(self.kind, &self.config, false);
        let made = catch_unwind(AssertUnwindSafe(|| runtime.block_on(make)));
        let made = made.unwrap_or_else(|panic| Err(Refused::Failed(said(&*panic))))?;
        self.candidate = Some(match made {
            ConfiguredRole::Processor(processor) => {
                let (processor, sight) = WatchedProcessor::over(processor);
                CandidateInstance::Processor {
                    chain: Chain::new(vec![processor]),
                    sight,
                    view: Vec::new(),
                    is_new: true,
                }
            }
            made => CandidateInstance::Role(made),
        });
        Ok(())
    }

    fn work(&mut self, runtime: &Runtime, job: ShadowJob) {
        if self.candidate.is_none()
            && let Err(refused) = self.make(runtime)
        {
            self.shared.too_late.fetch_add(1, Ordering::Relaxed);
            self.shared.give_up(&format!(
                "it could not be made again after a crash: {refused}"
            ));
            return;
        }
        let ShadowJob { step, took, task } = job;
        match task {
            ShadowTask::Parse(reply, real) => {
                let (result, own) = self.call(runtime, |made| match made {
                    ConfiguredRole::Parser(parser) => Some(parser.parse(&reply)),
                    _ => None,
                });
                let answers = (RoleAnswer::from(real), RoleAnswer::from(result));
                self.judge((step, None), (took, own), answers, || shown_reply(&reply));
            }
            ShadowTask::Format(actions, outputs, real) => {
                let (result, own) = self.call(runtime, |made| match made {
                    ConfiguredRole::Formatter(formatter) => {
                        Some(formatter.format(&actions, &outputs))
                    }
                    _ => None,
                });
                let answers = (RoleAnswer::from(real), RoleAnswer::from(result));
                let shown = || shown_outputs(&actions, &outputs);
                self.judge((step, None), (took, own), answers, shown);
            }
            ShadowTask::Judge(index, action, real) => {
                let (result, own) = self.call(runtime, |made| match made {
                    ConfiguredRole::Policy(policy) => Some(policy.judge(&action)),
                    _ => None,
                });
                let answers = (RoleAnswer::from(real), RoleAnswer::from(result));
                let shown = || json!({ "command": action.command });
                self.judge((step, Some(index)), (took, own), answers, shown);
            }
            ShadowTask::Process(applied) => self.process(runtime, step, applied),
        }
    }

    /// Calls a role that keeps no state between calls.
    fn call<'a, T, F>(
        &'a mut self,
        runtime: &Runtime,
        call: impl FnOnce(&'a mut ConfiguredRole) -> Option<F>,
    ) -> (Result<T, PluginFault>, Duration)
    where
        F: Future<Output = Result<T, PluginFault>>,
    {
        let started = Instant::now();
        let deadline = self.shared.settings.call_deadline;
        let future = match &mut self.candidate {
            Some(CandidateInstance::Role(made)) => call(made),
            _ => None,
        };
        let result = match future {
            Some(future) => bounded(runtime, deadline, future).unwrap_or_else(Err),
            None => Err(PluginFault::new("it was made as another kind")),
        };
        (result, started.elapsed())
    }

    fn process(&mut self, runtime: &Runtime, step: u32, applied: Vec<Applied>) {
        let mut start = self.input.len();
        let mut took = Duration::ZERO;
        let mut real_fault = None;
        for one in applied {
            start = start.min(feed(&mut self.input, one.change));
            real_fault = lay(&mut self.real, &self.input, one.real).err();
            took = one.took;
        }
        let Some(CandidateInstance::Processor {
            chain,
            sight,
            view,
            is_new,
        }) = &mut self.candidate
        else {
            return;
        };
        if std::mem::take(is_new) {
            start = 0;
        }
        let mut asker = RefusingAsker { asked: 0 };
        let deadline = self.shared.settings.call_deadline;
        let change = chain.apply(&self.input, start, &mut asker);
        let (fault, own) = match bounded(runtime, deadline, change) {
            Ok((change, mut faults)) => {
                change.apply(view);
                let seen = sight.last();
                let fault = faults.pop().map(|fault| {
                    // Without a failure, the chain has rejected the answer.
                    let manner = seen.failed.unwrap_or(Manner::Broke);
                    PluginFault::new(fault.message).in_manner(manner)
                });
                (fault, seen.took)
            }
            Err(fault) => (Some(fault), deadline),
        };
        if asker.asked > 0 {
            let mut found = self.shared.found();
            found.new.asked += asker.asked;
            found.new.unanswered += asker.asked;
            found.skip(ASKED);
            return;
        }
        let view = std::mem::take(view);
        let (input, real) = (
            std::mem::take(&mut self.input),
            std::mem::take(&mut self.real),
        );
        let real_answer = real_fault.map_or(RoleAnswer::View(&real), RoleAnswer::fault);
        let own_answer = fault.map_or(RoleAnswer::View(&view), RoleAnswer::fault);
        let shown = || shown_history(&input);
        self.judge((step, None), (took, own), (real_answer, own_answer), shown);
        (self.input, self.real) = (input, real);
        if let Some(CandidateInstance::Processor { view: own, .. }) = &mut self.candidate {
            *own = view;
        }
    }

    /// Compares and counts, and records a difference.
    fn judge(
        &mut self,
        (step, index): (u32, Option<u32>),
        (real_took, own_took): (Duration, Duration),
        (real, own): (RoleAnswer<'_>, RoleAnswer<'_>),
        input: impl FnOnce() -> Value,
    ) {
        let crash = match &own {
            RoleAnswer::Failed { manner, message }
                if *manner != answer::manner(Manner::Reported) =>
            {
                // After a panic the instance can't be used any more.
                if *manner == answer::manner(Manner::Crashed) {
                    self.candidate = None;
                }
                Some(message.clone())
            }
            _ => None,
        };
        let settings = self.shared.settings;
        {
            let mut found = self.shared.found();
            if self.shared.over.load(Ordering::Relaxed) {
                return;
            }
            found.old.latency.add(real_took);
            found.new.latency.add(own_took);
            let before = found.cases.len();
            let most = if before < settings.divergences {
                settings.text
            } else {
                0
            };
            let place = InputPlace {
                run: RUN,
                step,
                index,
            };
            found.judge(place, &real, &own, most, input);
            if let Some(case) = found.cases.get(before) {
                let event = Event::ShadowDiverged {
                    plugin: found.new.name.clone(),
                    kind: found.kind.clone(),
                    beside: found.old.name.clone(),
                    step,
                    index,
                    degree: case.degree.as_str().to_owned(),
                    input: case.input.clone(),
                    real: case.old.clone(),
                    candidate: case.new.clone(),
                };
                if let Err(error) = self.shared.steps.record(&event) {
                    tracing::warn!(%error, "the journal does not have a divergence");
                }
            }
        }
        match crash {
            None => self.crashes = 0,
            Some(message) => {
                self.crashes += 1;
                if self.crashes >= settings.crashes {
                    let count = self.crashes;
                    self.shared.give_up(&format!(
                        "it failed {count} times in a row; the last failure: {message}"
                    ));
                }
            }
        }
    }
}

/// Runs a call, and turns a panic or an exceeded deadline into a fault.
fn bounded<T>(
    runtime: &Runtime,
    deadline: Duration,
    future: impl Future<Output = T>,
) -> Result<T, PluginFault> {
    let call = || runtime.block_on(async { tokio::time::timeout(deadline, future).await });
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(result)) => Ok(result),
        Ok(Err(_)) => Err(crashed(format!(
            "the candidate had no answer after {:.1} s",
            deadline.as_secs_f64()
        ))),
        Err(panic) => Err(crashed(said(&*panic))),
    }
}

fn said(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("the candidate panicked: {}", text.unwrap_or_default())
}

/// Applies a change to the history, and returns the index of the first message that differs. That
/// may be after the start of the change, because a fresh instance gets the whole history.
fn feed(input: &mut Vec<Arc<Message>>, mut change: mswea_core::Change) -> usize {
    let known = input.get(change.start..).unwrap_or_default();
    let same = known
        .iter()
        .zip(&change.messages)
        .take_while(|(old, new)| Arc::ptr_eq(old, new) || old == new)
        .count();
    change.messages.drain(..same);
    change.start += same;
    let start = change.start;
    change.apply(input);
    start
}

/// The run's own view after the answer of its plugin, with the chain's rules.
///
/// # Errors
/// Why the chain rejects the answer; then the view is the input.
fn lay(
    view: &mut Vec<Message>,
    input: &[Arc<Message>],
    real: Result<ViewChange, PluginFault>,
) -> Result<(), PluginFault> {
    let laid = real.and_then(|change| {
        let ViewChange {
            start,
            messages,
            places,
        } = change;
        let broke = |reason: String| PluginFault::new(reason).in_manner(Manner::Broke);
        let places = places.unwrap_or_else(|| (start..start + messages.len()).collect());
        let end = places.last().map_or(start, |last| last + 1);
        if start > view.len() {
            return Err(broke(format!("its change starts at message {start}")));
        }
        // As a plugin would return them.
        let messages = messages
            .into_iter()
            .map(Message::lightened)
            .map(Message::from);
        for (place, message) in places.into_iter().zip(messages) {
            let len = view.len();
            match view.get_mut(place) {
                Some(there) => *there = message,
                None if place == len => view.push(message),
                None => return Err(broke(format!("its change leaves out message {place}"))),
            }
        }
        view.truncate(end);
        check_pairing(view, start).map_err(broke)
    });
    if laid.is_err() {
        *view = input.iter().map(|it| it.light()).collect();
    }
    laid
}

/// Refuses a candidate's questions, because they would cost money.
struct RefusingAsker {
    asked: u64,
}

#[async_trait]
impl Asker for RefusingAsker {
    async fn ask(&mut self, _: &str, _: &str, _: Vec<Message>) -> Result<Reply, ModelError> {
        self.asked += 1;
        Err(ModelError::new(
            ModelFailure::Refused,
            "this is a shadow, whose questions are not sent to the model",
        ))
    }
}
