//! The run's own plugins, which also pass copies of their inputs and answers to the candidate.
//! Their answers are unchanged.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use async_trait::async_trait;
use tokio::sync::mpsc;

use super::worker::ShadowJob;
use super::{GIVEN_UP, ShadowState};
use crate::experiment::answer::RoleAnswer;
use crate::experiment::instance::{Follower, RoleInput};
use mswea_core::{
    Action, Asker, Change, Formatter, Message, Outcome, Output, Parser, PluginFault, Policy,
    Processor, Reply, Tool, Verdict, ViewChange,
};

/// A plugin with a shadow.
pub(super) struct Shadowed<R> {
    real: R,
    shared: Arc<ShadowState>,
    /// The step of the last action, and how many actions it had so far.
    action: (u32, u32),
}

impl<R> Shadowed<R> {
    pub(super) fn new(real: R, shared: &Arc<ShadowState>) -> Self {
        Self {
            real,
            shared: shared.clone(),
            action: (0, 0),
        }
    }

    fn step(&self) -> u32 {
        self.shared.steps.step.load(Ordering::Relaxed)
    }

    /// Passes on a copy of an input and its answer, if there is room for it; counts it otherwise.
    fn pass(
        &self,
        since: Instant,
        index: Option<u32>,
        copy: impl FnOnce() -> (RoleInput, RoleAnswer),
    ) {
        let took = since.elapsed();
        let shared = &self.shared;
        let mut missed = crate::experiment::lock(&shared.missed);
        missed.steps += 1;
        if shared.given_up.load(Ordering::Relaxed) {
            missed.skip(GIVEN_UP);
            return;
        }
        let queue = crate::experiment::lock(&shared.queue);
        let Some(Ok(room)) = queue.as_ref().map(mpsc::Sender::try_reserve) else {
            missed.skip("the candidate's queue was full");
            return;
        };
        let (input, real) = copy();
        room.send(ShadowJob {
            place: (self.step(), index),
            input,
            real: (real, took),
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
        self.pass(started, None, || {
            // The parts that no plugin gets can be larger than all others.
            let reply = Reply {
                message: reply.message.light(),
                finish_reason: reply.finish_reason.clone(),
                usage: reply.usage.clone(),
                model: reply.model.clone(),
                response: None,
                extra: reply.extra.clone(),
            };
            (RoleInput::Parse(Box::new(reply)), result.clone().into())
        });
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
        self.pass(started, None, || {
            let input = RoleInput::Format(actions.to_vec(), outputs.to_vec());
            (input, result.clone().into())
        });
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
        let step = self.step();
        let index = match self.action {
            (same, count) if same == step => count,
            _ => 0,
        };
        self.action = (step, index + 1);
        self.pass(started, Some(index), || {
            (RoleInput::Judge(action.clone()), result.clone().into())
        });
        result
    }
}

/// A processor with a shadow. It is in a chain of its own as well, as the candidate is, because the
/// views are compared that the rules of the chain lead to.
pub(super) struct ShadowedProcessor {
    pub name: String,
    pub beside: Shadowed<Follower>,
}

#[async_trait]
impl Processor for ShadowedProcessor {
    fn name(&self) -> &str {
        &self.name
    }

    fn needs_all(&self) -> bool {
        self.beside.real.input.is_empty()
    }

    fn discard(&mut self) {
        self.beside.real.forget();
    }

    async fn apply(
        &mut self,
        change: Change,
        asker: &mut dyn Asker,
    ) -> Result<ViewChange, PluginFault> {
        // As a plugin gets them.
        let messages = change.messages.into_iter().map(Message::lightened);
        let change = Change {
            messages: messages.collect(),
            ..change
        };
        let started = Instant::now();
        let result = self.beside.real.follow(change, asker).await;
        let real = &self.beside.real;
        self.beside.pass(started, None, || {
            let view = result.clone().map(|_| real.view.clone());
            (RoleInput::View(real.input.clone()), view.into())
        });
        result.map(ViewChange::from)
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
