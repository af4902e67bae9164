//! The run's own plugins, which also pass copies of their inputs and answers to the candidate.
//! Their answers are unchanged.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use async_trait::async_trait;

use super::ShadowState;
use super::queue::{Applied, ShadowJob, ShadowTask};
use mswea_core::{
    Action, Asker, Change, Formatter, Message, Outcome, Output, Parser, PluginFault, Policy,
    Processor, Reply, Tool, Verdict, ViewChange,
};

/// How many changes may wait because the queue is full. With more the candidate is given up, so
/// that the history is not held twice.
const CHANGES: usize = 256;

/// A plugin with a shadow.
pub(super) struct Shadowed<R> {
    real: R,
    shared: Arc<ShadowState>,
    /// Changes for which the queue had no room: the next ones depend on them.
    pending: Vec<Applied>,
    /// The step of the last action, and how many actions it had so far.
    action: (u32, u32),
}

impl<R> Shadowed<R> {
    pub(super) fn new(real: R, shared: Arc<ShadowState>) -> Self {
        Self {
            real,
            shared,
            pending: Vec::new(),
            action: (0, 0),
        }
    }

    /// Whether the input is to be copied; counts it otherwise.
    fn wanted(&self) -> bool {
        let shared = &self.shared;
        shared.inputs.fetch_add(1, Ordering::Relaxed);
        let missed = if shared.given_up.load(Ordering::Relaxed) {
            &shared.too_late
        } else if shared.queue.has_room() {
            return true;
        } else {
            &shared.overflowed
        };
        missed.fetch_add(1, Ordering::Relaxed);
        false
    }

    fn put(&self, took: Duration, task: ShadowTask) {
        self.shared.queue.put(ShadowJob {
            step: self.shared.steps.current(),
            took,
            task,
        });
    }
}

#[async_trait]
impl Parser for Shadowed<Box<dyn Parser>> {
    fn name(&self) -> &str {
        self.real.name()
    }

    fn tools(&self) -> &[Tool] {
        self.real.tools()
    }

    async fn parse(&mut self, reply: &Reply) -> Result<Outcome, PluginFault> {
        let started = Instant::now();
        let result = self.real.parse(reply).await;
        let took = started.elapsed();
        if self.wanted() {
            // The parts that no plugin gets can be larger than all others.
            let reply = Reply {
                message: reply.message.light(),
                finish_reason: reply.finish_reason.clone(),
                usage: reply.usage.clone(),
                model: reply.model.clone(),
                response: None,
                extra: reply.extra.clone(),
            };
            self.put(took, ShadowTask::Parse(Box::new(reply), result.clone()));
        }
        result
    }
}

#[async_trait]
impl Formatter for Shadowed<Box<dyn Formatter>> {
    fn name(&self) -> &str {
        self.real.name()
    }

    async fn format(
        &mut self,
        actions: &[Action],
        outputs: &[Output],
    ) -> Result<Vec<Message>, PluginFault> {
        let started = Instant::now();
        let result = self.real.format(actions, outputs).await;
        let took = started.elapsed();
        if self.wanted() {
            let task = ShadowTask::Format(actions.to_vec(), outputs.to_vec(), result.clone());
            self.put(took, task);
        }
        result
    }
}

#[async_trait]
impl Policy for Shadowed<Box<dyn Policy>> {
    fn name(&self) -> &str {
        self.real.name()
    }

    async fn judge(&mut self, action: &Action) -> Result<Verdict, PluginFault> {
        let started = Instant::now();
        let result = self.real.judge(action).await;
        let took = started.elapsed();
        let step = self.shared.steps.current();
        let index = match self.action {
            (same, count) if same == step => count,
            _ => 0,
        };
        self.action = (step, index + 1);
        if self.wanted() {
            self.put(
                took,
                ShadowTask::Judge(index, action.clone(), result.clone()),
            );
        }
        result
    }
}

#[async_trait]
impl Processor for Shadowed<Box<dyn Processor>> {
    fn name(&self) -> &str {
        self.real.name()
    }

    fn needs_all(&self) -> bool {
        self.real.needs_all()
    }

    fn discard(&mut self) {
        self.real.discard();
    }

    async fn apply(
        &mut self,
        change: Change,
        asker: &mut dyn Asker,
    ) -> Result<ViewChange, PluginFault> {
        if self.shared.given_up.load(Ordering::Relaxed) {
            self.pending = Vec::new();
            self.wanted();
            return self.real.apply(change, asker).await;
        }
        let copy = change.clone();
        let started = Instant::now();
        let result = self.real.apply(change, asker).await;
        let took = started.elapsed();
        self.pending.push(Applied {
            change: copy,
            real: result.clone(),
            took,
        });
        if self.wanted() {
            let pending = std::mem::take(&mut self.pending);
            self.put(took, ShadowTask::Process(pending));
        } else if self.pending.len() > CHANGES {
            self.pending = Vec::new();
            self.shared.give_up("it was too slow to follow the history");
        }
        result
    }
}

/// Stands for a missing plugin of the run: it changes and denies nothing.
pub(super) struct Nothing;

const NAME: &str = "nothing";

#[async_trait]
impl Processor for Nothing {
    fn name(&self) -> &str {
        NAME
    }

    fn needs_all(&self) -> bool {
        false
    }

    fn discard(&mut self) {}

    async fn apply(
        &mut self,
        change: Change,
        _: &mut dyn Asker,
    ) -> Result<ViewChange, PluginFault> {
        Ok(change.into())
    }
}

#[async_trait]
impl Policy for Nothing {
    fn name(&self) -> &str {
        NAME
    }

    async fn judge(&mut self, _: &Action) -> Result<Verdict, PluginFault> {
        Ok(Verdict::Allow)
    }
}
