//! The query to the model: the reply is recorded and charged before anything else.

use std::time::Duration;

use super::asking::{LoopAsker, failure};
use super::patience::unless_over;
use super::person::{MEMORY, aside};
use super::sampling::SampledReply;
use crate::agent::Agent;
use crate::next::exceeded;
use crate::state::Phase;
use mswea_core::{
    Change, End, Event, ModelError, ModelFailure, PersonMode, Progress, Reply, Usage, View,
};
use mswea_record::plausible_cost;

impl Agent {
    pub(crate) async fn query(&mut self) -> Result<(), End> {
        self.do_errands().await;
        if self.outside().has_message {
            // Written during an errand: the model gets it before this query.
            return Ok(());
        }
        let (step, cost, tokens) = {
            let state = self.recorder.state();
            let account = &state.account;
            // A query whose samples have reached a limit goes on with the same number.
            let is_begun = state.phase == Phase::Querying;
            let usage = &account.usage;
            let tokens = usage.input_tokens.saturating_add(usage.output_tokens);
            (
                account.queries.saturating_add(u32::from(!is_begun)),
                account.known_cost(),
                tokens,
            )
        };
        self.show(&Progress::StepStarted { step, cost, tokens });
        let sampler = self.settings.sampler.clone();
        if sampler.is_some() {
            // Each proposal gets the whole view.
            self.lose_view();
        }
        let change = self.view().await?;
        // The questions of the processors may have reached a limit.
        if let Err(end) = self.check_limits() {
            self.lose_view();
            // With a user, the user is asked about the limit before the next query.
            let is_asked = end == End::LimitsExceeded && self.settings.has_person;
            return if is_asked { Ok(()) } else { Err(end) };
        }
        let messages = self.recorder.state().messages.len();
        self.seen = messages;
        self.record(Event::QueryStarted {
            query: step,
            view: Some(View {
                start: change.start,
                messages: change.start + change.messages.len(),
            }),
        })?;
        let sent = match &sampler {
            None => self.send(change).await.map(SampledReply::from),
            Some(sampler) => self.sample(sampler, &change).await,
        };
        match sent {
            Ok(sampled) => self.take(sampled),
            // The failure is recorded and counted; the same history is sent again.
            Err(End::Query { class, .. }) if self.settings.rules.resamples(&class) => {
                self.lose_view();
                Ok(())
            }
            // With a user, the user is asked about a limit that was reached between samples.
            Err(End::LimitsExceeded) if self.settings.has_person => {
                self.lose_view();
                Ok(())
            }
            Err(end) => Err(end),
        }
    }

    /// The change of the view, computed by the processors.
    pub(crate) async fn view(&mut self) -> Result<Change, End> {
        let history = {
            let state = self.recorder.state();
            self.seen = self.seen.min(state.stable);
            if self.parts.history.is_empty() {
                // The messages that the model has are not touched.
                let messages = state.messages[self.seen..].to_vec();
                return Ok(Change {
                    start: self.seen,
                    messages,
                });
            }
            state.messages.clone()
        };
        let time_left = self.time_left();
        let mut asker = LoopAsker {
            model: &mut *self.parts.model,
            recorder: &self.recorder,
            pricing: &*self.parts.pricing,
            global: &self.parts.global,
            context: &self.context,
            limits: &self.settings.limits,
            cut: None,
        };
        let view = self.parts.history.apply(&history, self.seen, &mut asker);
        let view = unless_over(&self.context, time_left, view).await;
        // A processor whose question was aborted reports this as its own failure.
        let cut = asker.cut.take();
        let (change, faults) = match (view, cut) {
            (_, Some(end @ End::Journal { .. })) | (Ok(_), Some(end)) => {
                self.lose_view();
                return Err(end);
            }
            (Err(end), _) => {
                self.lose_view();
                return Err(self.cut_short(end));
            }
            (Ok(view), None) => view,
        };
        for fault in faults {
            self.fault(&fault.processor, &fault.message)?;
        }
        Ok(change)
    }

    /// The processors have computed a view that was not sent, so the next query passes the whole
    /// history.
    pub(crate) fn lose_view(&mut self) {
        self.parts.history.forget();
        self.seen = 0;
    }

    pub(super) fn check_limits(&self) -> Result<(), End> {
        if let Some(end) = exceeded(&self.recorder.state(), &self.settings.limits) {
            return Err(end);
        }
        self.parts.global.check()
    }

    pub(super) async fn send(&mut self, change: Change) -> Result<Reply, End> {
        let time_left = self.time_left();
        let tools = self.parts.parser.tools();
        // In the other modes, the files are remembered once the user has allowed the actions.
        let is_yolo = self.parts.person.mode() == PersonMode::Yolo;
        let script = self.to_remember().filter(|_| is_yolo);
        if script.is_some() {
            self.remembered = Some(self.recorder.state().account.queries);
        }
        let answer = self.parts.model.query(change, tools, &self.context);
        let executor = &mut self.parts.executor;
        let stop = &self.context.stop;
        let remembered = async {
            if let Some(script) = script {
                executor.execute(&aside(&script, MEMORY), stop).await;
            }
        };
        match tokio::join!(within(time_left, answer), remembered).0 {
            Some(Ok(reply)) => Ok(reply),
            Some(Err(error)) => {
                self.record_failure(&error)?;
                Err(End::of_query(&error))
            }
            None => Err(self.cut_short(End::TimeExceeded)),
        }
    }

    fn take(&mut self, sampled: SampledReply) -> Result<(), End> {
        let SampledReply { reply, is_paid } = sampled;
        let usage = reply.usage.as_ref();
        let cost = match is_paid {
            true => Some(0.0),
            false => plausible_cost(usage.and_then(|usage| self.parts.pricing.cost(usage))),
        };
        let was_known = !self.recorder.state().account.cost_unknown;
        if cost.is_none() && was_known && self.settings.warn_unknown_cost {
            let has_price = self.parts.pricing.cost(&Usage::default()).is_some();
            self.show(&Progress::Warning(match usage {
                None if has_price => {
                    "the server does not say how many tokens a reply has taken, so the cost limit can't be kept: limit the replies with `-c agent.step_limit=N`, or drop the limit with `-l 0`"
                }
                _ => {
                    "the price of this model is unknown, so the cost limit can't be kept: give it with `--price in=..,out=..`, or drop the limit with `-l 0`"
                }
            }));
        }
        self.record(Event::Reply {
            reply,
            cost,
            timestamp: self.context.clock.now(),
        })?;
        let paid = match &self.recorder.state().phase {
            Phase::Replied(paid) => Some(paid.clone()),
            _ => None,
        };
        if let Some(paid) = paid {
            let reply = &paid.reply;
            self.show(&Progress::Replied { reply, cost });
        }
        self.update_variables();
        match is_paid {
            true => self.parts.global.check(),
            false => self.parts.global.charge(cost),
        }
    }

    fn record_failure(&self, error: &ModelError) -> Result<(), End> {
        let failed = failure(error, &*self.parts.pricing);
        self.parts.global.add(&failed);
        self.record(failed)
    }

    /// Called if the run or the step had to end during a query or a question: charges the usage
    /// that was billed until then.
    pub(super) fn cut_short(&mut self, end: End) -> End {
        let Some(usage) = self.parts.model.take_unreported_usage() else {
            return end;
        };
        let why = match end {
            End::TimeExceeded => "the run's time was up before the model had answered",
            _ => "interrupted while waiting for the model",
        };
        let error = ModelError {
            usage: Some(usage),
            ..ModelError::new(ModelFailure::Interrupted, why)
        };
        match self.record_failure(&error) {
            Ok(()) => end,
            Err(failed) => failed,
        }
    }
}

async fn within<T>(limit: Option<Duration>, future: impl Future<Output = T>) -> Option<T> {
    match limit {
        Some(limit) => tokio::time::timeout(limit, future).await.ok(),
        None => Some(future.await),
    }
}
