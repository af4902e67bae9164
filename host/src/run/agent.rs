//! The loop.
//!
//! A step: limits → processors → query → charge → parse → accept → policy and execution of
//! each action → observations. Whatever cuts a step short is an [`Interrupt`]; all but a
//! format error end the run. Every event is recorded before it takes effect.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use serde_json::json;

use super::account::{Account, Limits, Pricing};
use super::{Interrupt, Prompts, plain, submission};
use crate::history::Chain;
use crate::journal::{Event, accepted_message};
use crate::roles::{
    Action, Asker, Context, Executor, Formatter, Message, Model, ModelError, Object, Outcome,
    Output, Parser, Policy, Problem, Progress, Reply, Stop, Verdict,
};

/// What a run is made of.
pub struct Parts {
    /// Answers queries.
    pub model: Box<dyn Model>,
    /// Finds actions.
    pub parser: Box<dyn Parser>,
    /// Formats observations.
    pub formatter: Box<dyn Formatter>,
    /// Changes the view.
    pub history: Chain,
    /// Judge actions, in order.
    pub policies: Vec<Box<dyn Policy>>,
    /// Runs actions.
    pub executor: Box<dyn Executor>,
    /// Puts prices on replies.
    pub pricing: Arc<dyn Pricing>,
    /// Makes the first messages and the feedback.
    pub prompts: Prompts,
}

/// What the loop is told.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// When to end.
    pub limits: Limits,
    /// Time for one action; less when the run's time ends before.
    pub action_timeout: Duration,
    /// Run on every ending, while the environment lives.
    pub salvage_command: Option<String>,
    /// Time for it.
    pub salvage_timeout: Duration,
    /// Say once that the cost limit can't be kept when a price is unknown.
    pub warn_unknown_cost: bool,
}

/// How a run ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Why.
    pub interrupt: Interrupt,
    /// What it used.
    pub account: Account,
    /// Output of the salvage command, if it ran.
    pub salvage: Option<Output>,
    /// The whole history, exit message included.
    pub messages: Vec<Message>,
}

/// One run of one task.
pub struct Agent {
    parts: Parts,
    settings: Settings,
    context: Context,
    account: Account,
    messages: Vec<Message>,
    /// How much of `messages` the processors have seen.
    seen: usize,
}

impl Agent {
    /// An agent; the clock starts now.
    pub fn new(parts: Parts, settings: Settings, context: Context) -> Self {
        Self {
            parts,
            settings,
            context,
            account: Account::open(),
            messages: Vec::new(),
            seen: 0,
        }
    }

    /// Runs until the task is submitted, a limit is hit, or something fails. The journal has
    /// everything when this returns, and nothing that was started is left.
    pub async fn run(mut self) -> Ended {
        let interrupt = match self.begin().await {
            Ok(()) => self.steps().await,
            Err(interrupt) => interrupt,
        };
        self.end(interrupt).await
    }

    async fn begin(&mut self) -> Result<(), Interrupt> {
        self.parts
            .executor
            .start()
            .await
            .map_err(|error| Interrupt::failed("EnvironmentError", error.to_string()))?;
        let variables = &self.parts.prompts.variables;
        variables.add(self.parts.executor.template_vars());
        variables.update(&self.account);
        for message in self.parts.prompts.opening()? {
            self.append(message)?;
        }
        Ok(())
    }

    async fn steps(&mut self) -> Interrupt {
        loop {
            match self.step().await {
                Ok(()) => self.account.format_errors = 0,
                Err(Interrupt::FormatError { message }) => {
                    if let Err(interrupt) = self.append(message) {
                        return interrupt;
                    }
                    self.account.format_errors += 1;
                    let limit = self.settings.limits.consecutive_format_errors;
                    if limit > 0 && limit <= i64::from(self.account.format_errors) {
                        return Interrupt::RepeatedFormatError;
                    }
                }
                Err(interrupt) => return interrupt,
            }
        }
    }

    async fn step(&mut self) -> Result<(), Interrupt> {
        if self.context.stop.is_stopped() {
            return Err(Interrupt::UserInterruption);
        }
        self.account.check(&self.settings.limits)?;
        self.show(&Progress::StepStarted {
            step: self.account.queries + 1,
            cost: self.account.known_cost(),
        });
        let (reply, cost, timestamp) = self.query().await?;
        let actions = self.parse(&reply, cost).await?;
        self.record(&Event::Accepted {
            actions: actions.clone(),
        })?;
        self.push(accepted_message(&reply, &actions, cost, timestamp));
        let (outputs, interrupt) = self.execute(&actions).await?;
        self.observe(&actions, outputs).await?;
        interrupt.map_or(Ok(()), Err)
    }

    /// Asks the model; what it answers is recorded and charged before anything else.
    async fn query(&mut self) -> Result<(Reply, Option<f64>, f64), Interrupt> {
        let time_left = self.account.time_left(&self.settings.limits);
        let change = {
            let mut asker = LoopAsker {
                model: &mut *self.parts.model,
                account: &mut self.account,
                pricing: &*self.parts.pricing,
                context: &self.context,
            };
            let view = self
                .parts
                .history
                .apply(&self.messages, self.seen, &mut asker);
            let (change, faults) = within(time_left, view)
                .await
                .ok_or(Interrupt::TimeExceeded)?;
            for fault in faults {
                self.fault(&fault.processor, &fault.message)?;
            }
            change
        };
        self.seen = self.messages.len();
        self.account.queries += 1;
        self.record(&Event::QueryStarted {
            query: self.account.queries,
        })?;
        let tools = self.parts.parser.tools();
        let answer = self.parts.model.query(&change, tools, &self.context);
        let time_left = self.account.time_left(&self.settings.limits);
        let reply = match within(time_left, answer).await {
            Some(Ok(reply)) => reply,
            Some(Err(error)) => return Err(self.query_failed(&error)),
            None => return Err(Interrupt::TimeExceeded),
        };
        let was_known = !self.account.cost_unknown;
        let cost = self
            .account
            .charge(reply.usage.as_ref(), &*self.parts.pricing);
        if cost.is_none() && was_known && self.settings.warn_unknown_cost {
            self.show(&Progress::Warning(
                "the price of this model is unknown, so the cost limit can't be kept: give it with `--price in=..,out=..`, or drop the limit with `-l 0`",
            ));
        }
        let timestamp = now();
        let event = Event::Reply {
            reply,
            cost,
            timestamp,
        };
        self.record(&event)?;
        let Event::Reply { reply, .. } = event else {
            unreachable!("it was made three lines above")
        };
        self.show(&Progress::Replied {
            reply: &reply,
            cost,
        });
        self.parts.prompts.variables.update(&self.account);
        Ok((reply, cost, timestamp))
    }

    fn query_failed(&mut self, error: &ModelError) -> Interrupt {
        let cost = error
            .usage
            .as_ref()
            .and_then(|usage| self.account.charge(Some(usage), &*self.parts.pricing));
        let recorded = self.record(&Event::QueryFailed {
            class: error.class.clone(),
            message: error.message.clone(),
            usage: error.usage.clone(),
            cost,
        });
        match recorded {
            Ok(()) => Interrupt::from_model(error),
            Err(interrupt) => interrupt,
        }
    }

    /// Finds the actions. A malformed reply stays out of the history; only the feedback on it
    /// goes in, with the reply in its `extra`.
    async fn parse(&mut self, reply: &Reply, cost: Option<f64>) -> Result<Vec<Action>, Interrupt> {
        let problem = match self.parts.parser.parse(reply).await {
            Ok(Outcome::Actions(actions)) => return Ok(actions),
            Ok(Outcome::Malformed(problem)) => problem,
            Err(fault) => {
                let name = self.parts.parser.name().to_owned();
                self.fault(&name, &fault.message)?;
                Problem {
                    code: "parser-failed".into(),
                    message: fault.message,
                    details: Object::new(),
                }
            }
        };
        self.record(&Event::Rejected {
            code: problem.code.clone(),
            message: problem.message.clone(),
        })?;
        let mut message = Message::new("user", self.parts.prompts.feedback(&problem, reply)?);
        let extra = &mut message.extra;
        extra.insert("interrupt_type".into(), "FormatError".into());
        if let Some(count) = problem.details.get("n_actions") {
            extra.insert("n_actions".into(), count.clone());
            extra.insert("model_response".into(), reply.message.text().into());
        }
        extra.insert("cost".into(), cost.unwrap_or(0.0).into());
        extra.insert("response".into(), json!(reply.response));
        Err(Interrupt::FormatError { message })
    }

    /// Runs the actions in order. The outputs are kept whatever happens; the interrupt that
    /// one of them brought about comes with them.
    async fn execute(
        &mut self,
        actions: &[Action],
    ) -> Result<(Vec<(Output, f64)>, Option<Interrupt>), Interrupt> {
        let mut outputs = Vec::with_capacity(actions.len());
        for (index, action) in actions.iter().enumerate() {
            if self.context.stop.is_stopped() {
                return Ok((outputs, Some(Interrupt::UserInterruption)));
            }
            let output = match self.judge(index, action).await? {
                Ok(action) => self.run_action(index, actions.len(), &action).await?,
                Err(feedback) => Output::not_executed(&feedback),
            };
            let timestamp = now();
            let event = Event::Output {
                index,
                output,
                timestamp,
            };
            self.record(&event)?;
            let Event::Output { output, .. } = event else {
                unreachable!("it was made three lines above")
            };
            self.show(&Progress::ActionEnded {
                output: &output,
                index,
            });
            if let Some(submission) = submission(&output) {
                return Ok((outputs, Some(Interrupt::Submitted { submission })));
            }
            outputs.push((output, timestamp));
            if self.context.stop.is_stopped() {
                return Ok((outputs, Some(Interrupt::UserInterruption)));
            }
        }
        Ok((outputs, None))
    }

    async fn run_action(
        &mut self,
        index: usize,
        of: usize,
        action: &Action,
    ) -> Result<Output, Interrupt> {
        self.record(&Event::Action {
            index,
            action: action.clone(),
        })?;
        self.show(&Progress::ActionStarted { action, index, of });
        let timeout = self
            .account
            .time_left(&self.settings.limits)
            .map_or(self.settings.action_timeout, |left| {
                left.min(self.settings.action_timeout)
            });
        Ok(self
            .parts
            .executor
            .execute(&action.command, Some(timeout), &self.context.stop)
            .await)
    }

    /// The action as the policies let it pass, or the feedback for the model.
    async fn judge(
        &mut self,
        index: usize,
        action: &Action,
    ) -> Result<Result<Action, String>, Interrupt> {
        let mut action = action.clone();
        for position in 0..self.parts.policies.len() {
            let policy = &mut self.parts.policies[position];
            let name = policy.name().to_owned();
            let reason = match policy.judge(&action).await {
                Ok(Verdict::Allow) => continue,
                Ok(Verdict::Rewrite(rewritten)) => {
                    action = rewritten;
                    continue;
                }
                Ok(Verdict::Deny(feedback)) => feedback,
                Ok(Verdict::Ask(reason)) => {
                    match self.context.front.confirm(&action, &reason).await {
                        Some(true) => continue,
                        Some(false) => format!("the user did not allow it: {reason}"),
                        None => format!(
                            "it needs a confirmation and nobody is there to give it: {reason}"
                        ),
                    }
                }
                Err(fault) => {
                    self.fault(&name, &fault.message)?;
                    format!("the policy `{name}` failed, so nothing is allowed")
                }
            };
            self.record(&Event::Denied {
                index,
                policy: name.clone(),
                reason: reason.clone(),
            })?;
            self.show(&Progress::Denied {
                policy: &name,
                action: &action,
                reason: &reason,
            });
            return Ok(Err(format!("action was not executed: {reason}")));
        }
        Ok(Ok(action))
    }

    /// Formats the outputs and appends them. Tool calls that were not executed are answered
    /// all the same: providers refuse a call without a result.
    async fn observe(
        &mut self,
        actions: &[Action],
        outputs: Vec<(Output, f64)>,
    ) -> Result<(), Interrupt> {
        let (mut outputs, mut times): (Vec<Output>, Vec<f64>) = outputs.into_iter().unzip();
        for action in &actions[outputs.len()..] {
            if action.tool_call_id.is_none() {
                break;
            }
            outputs.push(Output::not_executed("action was not executed"));
            times.push(now());
        }
        if outputs.is_empty() {
            return Ok(());
        }
        self.parts.prompts.variables.update(&self.account);
        let messages = match self.parts.formatter.format(actions, &outputs).await {
            Ok(messages) => match answers(actions, &outputs, &messages) {
                Ok(()) => messages,
                Err(reason) => {
                    let name = self.parts.formatter.name().to_owned();
                    let message = format!("plugin `{name}` broke the contract: {reason}");
                    self.fault(&name, &message)?;
                    plain::format(actions, &outputs)
                }
            },
            Err(fault) => {
                let name = self.parts.formatter.name().to_owned();
                self.fault(&name, &fault.message)?;
                plain::format(actions, &outputs)
            }
        };
        let one_each = messages.len() == outputs.len();
        for (position, mut message) in messages.into_iter().enumerate() {
            let belongs = match &message.tool_call_id {
                Some(id) => actions
                    .iter()
                    .position(|action| action.tool_call_id.as_ref() == Some(id)),
                None => one_each.then_some(position),
            };
            if let Some(index) = belongs.filter(|index| *index < outputs.len()) {
                add_raw(&mut message.extra, &outputs[index], times[index]);
            }
            self.append(message)?;
        }
        Ok(())
    }

    async fn end(mut self, mut interrupt: Interrupt) -> Ended {
        let salvage = self.salvage().await;
        self.parts.executor.cleanup().await;
        if let Some(output) = &salvage
            && let Err(failed) = self.record(&Event::Salvaged {
                output: output.clone(),
            })
        {
            interrupt = failed;
        }
        if let Err(failed) = self.append(interrupt.exit_message()) {
            interrupt = failed;
        }
        let mut extra = Object::new();
        if let Interrupt::Failed { message, .. } = &interrupt {
            extra.insert("message".into(), message.as_str().into());
        }
        let ended = Event::RunEnded {
            exit_status: interrupt.exit_status().to_owned(),
            submission: interrupt.submission().to_owned(),
            cost: self.account.known_cost(),
            queries: self.account.queries,
            usage: self.account.usage.clone(),
            extra,
        };
        if let Err(failed) = self.record(&ended) {
            interrupt = failed;
        }
        self.show(&Progress::Ended {
            exit_status: interrupt.exit_status(),
            submission: interrupt.submission(),
            cost: self.account.known_cost(),
            steps: self.account.queries,
            usage: &self.account.usage,
        });
        Ended {
            interrupt,
            account: self.account,
            salvage,
            messages: self.messages,
        }
    }

    /// Saves the work, whatever the ending: only a second Ctrl-C skips it. Before the first
    /// reply there is no work.
    async fn salvage(&mut self) -> Option<Output> {
        let command = self.settings.salvage_command.clone()?;
        if self.account.queries == 0 {
            return None;
        }
        let stop = self.context.stop.clone();
        let never = Stop::never();
        let timeout = Some(self.settings.salvage_timeout);
        tokio::select! {
            biased;
            () = stop.stopped_twice() => None,
            output = self.parts.executor.execute(&command, timeout, &never) => Some(output),
        }
    }

    fn append(&mut self, message: Message) -> Result<(), Interrupt> {
        let event = Event::Message { message };
        self.record(&event)?;
        if let Event::Message { message } = event {
            self.push(message);
        }
        Ok(())
    }

    fn push(&mut self, message: Message) {
        self.show(&Progress::Message(&message));
        self.messages.push(message);
    }

    fn fault(&self, plugin: &str, message: &str) -> Result<(), Interrupt> {
        self.show(&Progress::Warning(message));
        self.record(&Event::PluginFault {
            plugin: plugin.to_owned(),
            message: message.to_owned(),
        })
    }

    fn record(&self, event: &Event) -> Result<(), Interrupt> {
        record(&self.context, event)
    }

    fn show(&self, progress: &Progress<'_>) {
        self.context.front.show(progress);
    }
}

/// Puts a processor's question to the model.
struct LoopAsker<'a> {
    model: &'a mut dyn Model,
    account: &'a mut Account,
    pricing: &'a dyn Pricing,
    context: &'a Context,
}

#[async_trait]
impl Asker for LoopAsker<'_> {
    async fn ask(
        &mut self,
        processor: &str,
        purpose: &str,
        messages: Vec<Message>,
    ) -> Result<Reply, ModelError> {
        let journal = |event: &Event| {
            self.context.journal.record(event).map_err(|error| {
                ModelError::new(
                    crate::roles::ErrorClass::Other("journal".into()),
                    format!("the journal can't be written: {error}"),
                )
            })
        };
        journal(&Event::Asked {
            processor: processor.to_owned(),
            purpose: purpose.to_owned(),
            messages: messages.clone(),
        })?;
        let reply = self.model.ask(messages, self.context).await?;
        let cost = self.account.charge(reply.usage.as_ref(), self.pricing);
        journal(&Event::AskReply {
            processor: processor.to_owned(),
            reply: reply.clone(),
            cost,
        })?;
        Ok(reply)
    }
}

/// Whether every tool call among the actions that have an output is answered, once.
fn answers(actions: &[Action], outputs: &[Output], messages: &[Message]) -> Result<(), String> {
    let calls = actions
        .iter()
        .take(outputs.len())
        .filter_map(|action| action.tool_call_id.as_deref());
    let mut results: Vec<&str> = messages
        .iter()
        .filter(|message| message.role == "tool")
        .filter_map(|message| message.tool_call_id.as_deref())
        .collect();
    for call in calls {
        match results.iter().position(|result| *result == call) {
            Some(position) => results.swap_remove(position),
            None => return Err(format!("tool call `{call}` has no message of role `tool`")),
        };
    }
    match results.first() {
        Some(result) => Err(format!(
            "a message answers tool call `{result}`, which nobody made"
        )),
        None => Ok(()),
    }
}

/// What mini-swe-agent keeps with every observation.
fn add_raw(extra: &mut Object, output: &Output, timestamp: f64) {
    extra.insert("raw_output".into(), output.output.as_str().into());
    extra.insert("returncode".into(), output.returncode.into());
    extra.insert("timestamp".into(), timestamp.into());
    extra.insert(
        "exception_info".into(),
        output.exception_info.as_str().into(),
    );
    extra.extend(output.extra.clone());
}

fn record(context: &Context, event: &Event) -> Result<(), Interrupt> {
    context.journal.record(event).map_err(|error| {
        Interrupt::failed(
            "JournalError",
            format!("the journal can't be written: {error}; nothing more was done"),
        )
    })
}

async fn within<T>(limit: Option<Duration>, future: impl Future<Output = T>) -> Option<T> {
    match limit {
        Some(limit) => tokio::time::timeout(limit, future).await.ok(),
        None => Some(future.await),
    }
}

fn now() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0.0, |since| since.as_secs_f64())
}
