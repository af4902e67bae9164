//! The host's side of a fake: calls its functions, and keeps or discards its state.

use async_trait::async_trait;
use mswea_core::{
    Action, Adapter, AdapterNext, Asker, Change, Delta, Formatter, Manner, Message, ModelError,
    Outcome, Output, Parser, PluginFault, Policy, Processor, Reply, Tool, Verdict, ViewChange,
};
use serde_json::Value;

use super::{Fake, ProcessorAnswer, State};

/// The host's side of a fake.
pub(super) struct FakeInstance {
    pub(super) fake: Fake,
    pub(super) tools: Vec<Tool>,
    pub(super) state: Option<State>,
    pub(super) config: Value,
    pub(super) fresh: bool,
    /// The history; only for an adapter whose instances are discarded.
    pub(super) told: Vec<Message>,
}

impl FakeInstance {
    fn take(&mut self) -> State {
        let mut state = self.state.take().unwrap_or_else(|| State {
            config: self.config.clone(),
            ..State::default()
        });
        state.calls += 1;
        state
    }

    fn settle(&mut self, state: State, keep: bool) {
        if keep || !self.fresh {
            self.state = Some(state);
        }
    }

    fn settled<T>(
        &mut self,
        state: State,
        result: Result<T, PluginFault>,
    ) -> Result<T, PluginFault> {
        if result.as_ref().is_ok() || result.as_ref().is_err_and(|f| f.manner == Manner::Reported) {
            self.settle(state, false);
        }
        result
    }
}

#[async_trait]
impl Parser for FakeInstance {
    fn name(&self) -> &str {
        "fake"
    }
    fn tools(&self) -> &[Tool] {
        &self.tools
    }
    async fn parse(&mut self, reply: &Reply) -> Result<Outcome, PluginFault> {
        let mut state = self.take();
        let result = (self.fake.parse)(&mut state, reply);
        self.settled(state, result)
    }
}

#[async_trait]
impl Formatter for FakeInstance {
    fn name(&self) -> &str {
        "fake"
    }
    async fn format(
        &mut self,
        actions: &[Action],
        outputs: &[Output],
    ) -> Result<Vec<Message>, PluginFault> {
        let mut state = self.take();
        let result = (self.fake.format)(&mut state, actions, outputs);
        self.settled(state, result)
    }
}

#[async_trait]
impl Policy for FakeInstance {
    fn name(&self) -> &str {
        "fake"
    }
    async fn judge(&mut self, action: &Action) -> Result<Verdict, PluginFault> {
        let mut state = self.take();
        let result = (self.fake.judge)(&mut state, action);
        self.settled(state, result)
    }
}

#[async_trait]
impl Processor for FakeInstance {
    fn name(&self) -> &str {
        "fake"
    }
    fn needs_all(&self) -> bool {
        self.state.is_none()
    }
    fn discard(&mut self) {
        self.state = None;
    }
    async fn apply(
        &mut self,
        change: Change,
        asker: &mut dyn Asker,
    ) -> Result<ViewChange, PluginFault> {
        let mut state = self.take();
        let mut next = (self.fake.apply)(&mut state, change)?;
        let (mut asked, mut repeated) = (0, 0);
        loop {
            let messages = match next {
                ProcessorAnswer::Done(change) => {
                    self.settle(state, false);
                    return Ok(change);
                }
                ProcessorAnswer::Ask(messages)
                    if asked == 8 && !asker.remembers("fake", &messages) || repeated == 1_000 =>
                {
                    return Err(PluginFault::new("it asked more than 8 queries in one step")
                        .in_manner(Manner::Broke));
                }
                ProcessorAnswer::Ask(messages) => messages,
            };
            match asker.remembers("fake", &messages) {
                true => repeated += 1,
                false => asked += 1,
            }
            let reply = asker.ask("fake", "summary", messages).await;
            let reply = reply.map_err(|error| PluginFault::new(error.message))?;
            next = (self.fake.resume)(&mut state, reply)?;
        }
    }
}

#[async_trait]
impl Adapter for FakeInstance {
    async fn query(&mut self, change: &Change, _: &[Tool]) -> Result<AdapterNext, ModelError> {
        let mut change = change.clone();
        if self.fresh {
            change.apply(&mut self.told);
            change = Change::all(self.told.clone());
        }
        let mut state = self.take();
        let next = (self.fake.query)(&mut state, change);
        self.settle(state, matches!(next, Ok(AdapterNext::Send(_))));
        next
    }
    async fn head(&mut self, status: u16, _: &[(String, String)]) -> Result<(), ModelError> {
        let mut state = self.take();
        (self.fake.head)(&mut state, status);
        self.settle(state, true);
        Ok(())
    }
    async fn feed(&mut self, bytes: &[u8]) -> Result<Vec<Delta>, ModelError> {
        let mut state = self.take();
        let deltas = (self.fake.feed)(&mut state, bytes.to_vec());
        self.settle(state, true);
        Ok(deltas)
    }
    async fn finish(&mut self) -> Result<AdapterNext, ModelError> {
        let mut state = self.take();
        let next = (self.fake.finish)(&mut state, ());
        self.settle(state, !matches!(next, Ok(AdapterNext::Reply(_))));
        next
    }
    fn discard(&mut self) {
        self.state = None;
    }
}
