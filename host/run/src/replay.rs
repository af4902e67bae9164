//! The replay of a recorded run. Data from outside (replies, outputs, messages of the host and the
//! user, and when the run was interrupted, ended and resumed) is taken from the record. The results
//! of the parser, the policies, the formatter and the history processors are computed anew.
//!
//! The record decides the order, so the replay is interrupted wherever the run was. A need is met
//! when the record has its result; a recorded event without a counterpart in the replayed run is
//! left out. The limits have no effect: the run ends where the record says.

mod checks;
mod opening;
mod recorded;

use std::sync::Arc;

use serde_json::Value;

use crate::agent::Agent;
use crate::global::GlobalAccount;
use crate::next::{Need, Outside, next};
use crate::settings::{RunLimits, RunSettings};
use crate::state::{Phase, Stage, State};
pub use checks::{Contradiction, ReplayPlan};
use mswea_core::{
    Action, End, Event, HttpRequest, Message, ModelError, Output, Progress, Tool, View,
};
use mswea_record::journal::Record;
use recorded::Recorded;

/// The result of a replay.
#[derive(Debug)]
pub struct ReplayEnd {
    /// The whole history.
    pub messages: Vec<Arc<Message>>,
    /// The view of the history that the last query sent.
    pub view: Vec<Arc<Message>>,
    /// The tools that the parser offers.
    pub tools: Vec<Tool>,
    /// The request of the last query, if it was asked for and there is one, or the reason why it
    /// can't be made.
    pub request: Option<Result<HttpRequest, String>>,
    /// Why the replay stopped before the end of the record.
    pub stopped: Option<String>,
    /// The first value of the record that does not follow from what is recorded before it.
    pub contradiction: Option<Contradiction>,
    /// What was not compared, and why.
    pub remarks: Vec<String>,
}

/// Why a replay can't go on.
type Stopped = String;

struct Replayer {
    agent: Agent,
    recorded: Recorded,
    /// The view that the last query sent.
    view: Vec<Arc<Message>>,
    plan: ReplayPlan,
    /// Why the first messages may have been made with another config.
    doubt: Option<&'static str>,
    /// The fold of the record so far.
    folded: State,
    contradiction: Option<Contradiction>,
    remarks: Vec<String>,
}

impl Agent {
    /// Does a recorded run once more. The agent is a new one, and the record has the whole run; of the
    /// agent's parts, executor and person do nothing, and the model only drafts its last request, if the plan says so.
    pub async fn replay(mut self, records: &[Record], plan: ReplayPlan) -> ReplayEnd {
        let recorded = Recorded::default();
        self.settings = RunSettings {
            limits: RunLimits::default(),
            has_person: false,
            ..self.settings
        };
        self.parts.global = Arc::new(GlobalAccount::default());
        let mut model = std::mem::replace(&mut self.parts.model, Box::new(recorded.clone()));
        self.parts.person = Arc::new(recorded.clone());
        let mut replayer = Replayer {
            agent: self,
            recorded,
            view: Vec::new(),
            plan,
            doubt: opening::doubt(records),
            folded: State::default(),
            contradiction: None,
            remarks: Vec::new(),
        };
        let stopped = replayer.play(records).await.err();
        let mut end = replayer.conclude(stopped);
        if plan.drafts && end.stopped.is_none() {
            let drafted = model.draft(end.view.clone(), &end.tools).await;
            end.request = drafted.map_err(|error| error.message).transpose();
        }
        end
    }
}

impl Replayer {
    async fn play(&mut self, records: &[Record]) -> Result<(), Stopped> {
        for record in records {
            if self.agent.context.stop.is_stopped() {
                return Err("it was interrupted".to_owned());
            }
            self.check(record);
            self.take(&record.event).await?;
            self.folded.apply(record.t, record.event.clone());
        }
        Ok(())
    }

    fn check(&mut self, record: &Record) {
        if self.plan.is_whole && self.contradiction.is_none() {
            let rules = self.agent.settings.rules;
            self.contradiction = checks::contradiction(&self.folded, rules, record);
        }
    }

    async fn open(&mut self, messages: &[Message], event: &Event) -> Result<(), Stopped> {
        if !self.plan.is_whole {
            return self.copy(event);
        }
        let again = opening::open_again(&self.agent, messages, self.doubt).await;
        self.remarks.extend(again.remark);
        self.copy(&Event::Opening {
            messages: again.messages,
        })
    }

    async fn take(&mut self, event: &Event) -> Result<(), Stopped> {
        match event {
            Event::RunStarted { .. } => self.make_ready(),
            Event::RunResumed { .. } | Event::Reopened { .. } => {
                // The processors of another process have not received the history.
                self.agent.lose_view();
                self.cut(event)?;
                self.make_ready()
            }
            Event::Interrupted | Event::Ending { .. } => self.cut(event),
            Event::EnvironmentReady { .. } => {
                self.copy(event)?;
                self.set_up()
            }
            Event::SetUpDone { .. } => self.set_up(),
            Event::Opening { messages } => self.open(messages, event).await,
            Event::Message { .. } | Event::Retry { .. } | Event::Answered { .. } => {
                self.copy(event)
            }
            Event::QueryStarted { query, .. } => self.query(*query).await,
            Event::Reply { .. } | Event::QueryFailed { .. } | Event::AskReply { .. } => {
                self.reply(event)
            }
            Event::Accepted { .. }
            | Event::Rejected { .. }
            | Event::Allowed { .. }
            | Event::Denied { .. }
            | Event::Confirmed { .. }
            | Event::Submitted { .. } => self.if_needed(event).await,
            Event::Action { index, action } => self.action(*index, action, event).await,
            Event::Output { index, output, .. } => self.output(*index, output).await,
            Event::Observed { messages, .. } => {
                self.observe(messages.is_empty().then_some(event)).await
            }
            Event::RunEnded { exit_status, .. } => self.end(exit_status, event),
            // The first three are computed anew with the step that they belong to.
            Event::Asked { .. }
            | Event::Rewritten { .. }
            | Event::PluginFault { .. }
            | Event::SalvageStarted
            | Event::Salvaged { .. }
            | Event::ShadowDiverged { .. }
            | Event::ShadowEnded { .. } => Ok(()),
        }
    }

    /// Takes an event that has no effect unless the state needs it.
    async fn if_needed(&mut self, event: &Event) -> Result<(), Stopped> {
        let need = self.need();
        match (event, &need) {
            (
                Event::Accepted { .. } | Event::Rejected { .. },
                Need::Parse(_) | Need::Requery(_),
            ) => self.meet(need).await,
            (Event::Allowed { index } | Event::Denied { index, .. }, Need::Judge(judged))
                if judged == index =>
            {
                self.recorded.set_verdict(event);
                self.meet(need).await
            }
            (Event::Confirmed { index, .. }, Need::Judge(judged)) if judged == index => {
                self.copy(event)
            }
            (Event::Submitted { .. }, Need::Submit) => self.copy(event),
            _ => Ok(()),
        }
    }

    fn need(&self) -> Need {
        let outside = Outside {
            has_work: true,
            ..Outside::default()
        };
        next(&self.agent.recorder.state(), &self.agent.settings, &outside)
    }

    async fn meet(&mut self, need: Need) -> Result<(), Stopped> {
        let met = match need {
            Need::Submit => self.agent.record(Event::Submitted { submission: None }),
            need => self.agent.meet(need).await,
        };
        met.map_err(stopped)
    }

    fn copy(&self, event: &Event) -> Result<(), Stopped> {
        let before = self.agent.recorder.state().messages.len();
        self.agent.record(event.clone()).map_err(stopped)?;
        self.agent.show_messages(before);
        Ok(())
    }

    /// Records that the environment is ready: the replay needs none. The first steps of a fork have
    /// no events about it.
    fn make_ready(&self) -> Result<(), Stopped> {
        self.copy(&Event::EnvironmentReady {
            handle: Value::Null,
            replaced: None,
            message: None,
        })?;
        self.set_up()
    }

    fn set_up(&self) -> Result<(), Stopped> {
        self.copy(&Event::SetUpDone {
            handle: Value::Null,
        })?;
        self.agent.learn_place();
        Ok(())
    }

    /// Applies an interruption of the run. It may be in the middle of a question, which was asked
    /// again later.
    fn cut(&self, event: &Event) -> Result<(), Stopped> {
        self.recorded.drop_failed();
        self.copy(event)
    }

    /// Meets the needs of the replayed run up to its next query, where it differs from the record.
    async fn finish_step(&mut self) -> Result<(), Stopped> {
        loop {
            match self.need() {
                Need::Run(index) => return Err(self.did_not_run(index, None)),
                need @ (Need::Parse(_) | Need::Judge(_) | Need::Skip(..) | Need::Observe) => {
                    self.meet(need).await?;
                }
                _ => return Ok(()),
            }
        }
    }

    async fn query(&mut self, query: u32) -> Result<(), Stopped> {
        self.finish_step().await?;
        let account = self.agent.recorder.state().account.clone();
        self.agent.show(&Progress::StepStarted {
            step: query,
            cost: account.known_cost(),
            tokens: account
                .usage
                .input_tokens
                .saturating_add(account.usage.output_tokens),
        });
        self.recorded.offer_answers();
        let change = self.agent.view().await.map_err(stopped)?;
        self.agent.seen = self.agent.recorder.state().messages.len();
        let view = Some(View {
            start: change.start,
            messages: change.start + change.messages.len(),
        });
        change.apply(&mut self.view);
        self.copy(&Event::QueryStarted { query, view })
    }

    fn reply(&mut self, event: &Event) -> Result<(), Stopped> {
        let is_querying = self.agent.recorder.state().phase == Phase::Querying;
        match event {
            // The reply to a sample of the step, and not to a processor.
            Event::AskReply { .. } if is_querying => {}
            Event::AskReply { reply, .. } => self.recorded.keep_answer(Ok(reply.clone())),
            Event::QueryFailed {
                class,
                message,
                usage,
                ..
            } if !is_querying => self.recorded.keep_answer(Err(ModelError {
                usage: usage.clone(),
                ..ModelError::new(class.clone(), message.clone())
            })),
            Event::Reply { reply, cost, .. } if is_querying => {
                self.copy(event)?;
                self.agent.show(&Progress::Replied { reply, cost: *cost });
                self.agent.update_variables();
            }
            Event::QueryFailed { .. } => self.copy(event)?,
            _ => {}
        }
        Ok(())
    }

    async fn action(
        &mut self,
        index: usize,
        action: &Action,
        event: &Event,
    ) -> Result<(), Stopped> {
        loop {
            match self.need() {
                Need::Run(wanted) => {
                    if wanted != index || self.judged(wanted).command != action.command {
                        return Err(self.did_not_run(wanted, Some(action)));
                    }
                    self.copy(event)?;
                    let of = {
                        let state = self.agent.recorder.state();
                        state.step().map_or(0, |step| step.slots.len())
                    };
                    self.agent
                        .show(&Progress::ActionStarted { action, index, of });
                    return Ok(());
                }
                // The run had no policies, or an earlier action is now denied.
                need @ (Need::Judge(_) | Need::Skip(..)) => {
                    self.recorded.set_verdict(&Event::Allowed { index });
                    self.meet(need).await?;
                }
                _ => return Ok(()),
            }
        }
    }

    async fn output(&mut self, index: usize, output: &Output) -> Result<(), Stopped> {
        let is_running = {
            let state = self.agent.recorder.state();
            let slot = state.step().and_then(|step| step.slots.get(index));
            slot.is_some_and(|slot| slot.stage == Stage::Running)
        };
        match self.need() {
            _ if is_running => {
                let mut output = output.clone();
                // The verdicts of the policies are added anew.
                output.extra.shift_remove("mswea");
                self.agent.put_out(index, output).map_err(stopped)
            }
            need @ Need::Skip(skipped, _) if skipped == index => self.meet(need).await,
            Need::Run(wanted) => Err(self.did_not_run(wanted, None)),
            _ => Ok(()),
        }
    }

    /// `none` is an observation without messages: a trajectory may not hold the outputs before a submission.
    async fn observe(&mut self, none: Option<&Event>) -> Result<(), Stopped> {
        loop {
            let submits = self.agent.recorder.state().submission.is_some();
            match (self.need(), none) {
                (Need::Observe, Some(event)) if submits && !self.plan.is_whole => {
                    return self.copy(event);
                }
                (Need::Observe, _) => return self.meet(Need::Observe).await,
                (Need::Run(index), _) => return Err(self.did_not_run(index, None)),
                (need @ (Need::Judge(_) | Need::Skip(..) | Need::Submit), _) => {
                    self.meet(need).await?;
                }
                _ => return Ok(()),
            }
        }
    }

    fn end(&self, exit_status: &str, event: &Event) -> Result<(), Stopped> {
        // `submitted` under SWE-agent's rules.
        let submits = exit_status.eq_ignore_ascii_case(End::Submitted.exit_status());
        let has_submitted = self.agent.recorder.state().end == Some(End::Submitted);
        match submits && !has_submitted {
            true => Err("the replayed run has not submitted where the recorded run has".to_owned()),
            false if self.plan.is_whole => self.copy(&checks::with_exit(&self.agent, event)),
            false => self.copy(event),
        }
    }

    /// The action with the changes of the policies.
    fn judged(&self, index: usize) -> Action {
        let state = self.agent.recorder.state();
        let slot = state.step().and_then(|step| step.slots.get(index));
        slot.map(|slot| slot.judged().clone()).unwrap_or_default()
    }

    fn did_not_run(&self, index: usize, instead: Option<&Action>) -> Stopped {
        let command = self.judged(index).command;
        match instead {
            Some(action) => format!(
                "the command `{command}` did not run in the recorded run, where `{}` ran at this place",
                action.command
            ),
            None => format!("the command `{command}` did not run in the recorded run"),
        }
    }

    fn conclude(self, stopped: Option<Stopped>) -> ReplayEnd {
        let state = self.agent.recorder.state().clone();
        // Trajectories have only the name of the end.
        let simple = [
            End::LimitsExceeded,
            End::TimeExceeded,
            End::RepeatedFormatError,
        ];
        let status = state.ended.as_ref().map(|ended| ended.exit_status.as_str());
        let named = simple
            .into_iter()
            .find(|end| Some(end.exit_status()) == status);
        let end = state.end.clone().or(named).unwrap_or(End::Interrupted);
        self.agent.show(&Progress::Ended {
            end: &end,
            exit_status: status.unwrap_or(end.exit_status()),
            submission: state.submitted(),
            cost: state.account.known_cost(),
            steps: state.account.queries,
            usage: &state.account.usage,
        });
        ReplayEnd {
            messages: state.messages,
            view: self.view,
            tools: self.agent.parts.parser.tools().to_vec(),
            request: None,
            stopped: stopped.or_else(|| self.recorded.unknown_question()),
            contradiction: self.contradiction,
            remarks: self.remarks,
        }
    }
}

fn stopped(end: End) -> Stopped {
    end.error().unwrap_or(end.exit_status()).to_owned()
}
