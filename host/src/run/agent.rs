//! The loop.
//!
//! A step: limits → processors → query → charge → parse → accept → policy and execution of
//! each action → observations. Whatever cuts a step short is an [`Interrupt`]; all but a
//! format error end the run. Every event is recorded before it takes effect.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::json;

use super::account::{Account, Limits, Pricing};
use super::asking::{Answers, LoopAsker, failure};
use super::calls::{MOST_ACTIONS, add_raw, answers, invented_call, too_many, unused_calls};
use super::global::GlobalAccount;
use super::patience::unless_over;
use super::submission::{self, submission};
use super::{Interrupt, Multimodal, Prompts, plain};
use crate::history::Chain;
use crate::journal::{Event, accepted_message};
use crate::roles::{
    Action, Command, Context, ErrorClass, Executor, Formatter, Message, Model, ModelError, Object,
    Onlooker, Outcome, Output, Parser, PluginFault, Policy, Problem, Progress, Reply, Stop,
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
    /// What this run shares with others of its process.
    pub global: Arc<GlobalAccount>,
    /// Makes the first messages and the feedback.
    pub prompts: Prompts,
    /// Finds images in what templates make.
    pub multimodal: Option<Multimodal>,
    /// Those who look on.
    pub onlookers: Vec<Box<dyn Onlooker>>,
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
    /// Somebody asked for that command: it is taken even if the executor knows a better one.
    pub salvage_is_explicit: bool,
    /// Stands in front of that command unless somebody asked for it: tells it in `"$@"` which
    /// files the host itself writes.
    pub salvage_prologue: String,
    /// Time for it.
    pub salvage_timeout: Duration,
    /// Say once that the cost limit can't be kept when a price is unknown.
    pub warn_unknown_cost: bool,
    /// Leave the tool call that submitted, and those after it, without an answer, as the
    /// agent class `default` of mini-swe-agent does.
    pub bare_submission: bool,
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

/// How long the last cleaning up may take once somebody has asked twice to stop.
const LAST_WAIT: Duration = Duration::from_secs(2);

/// One run of one task.
pub struct Agent {
    pub(super) parts: Parts,
    settings: Settings,
    pub(super) context: Context,
    account: Account,
    messages: Vec<Message>,
    /// How much of `messages` the processors have seen.
    seen: usize,
    /// The environment is gone for good.
    gone: bool,
    /// What processors were told by the model.
    answers: Answers,
    /// How often in a row the parser itself failed.
    parser_faults: u32,
    /// What was submitted before something else ended the run.
    submitted: Option<String>,
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
            gone: false,
            answers: Answers::default(),
            parser_faults: 0,
            submitted: None,
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
        if let Err(error) = self.parts.executor.start(&self.context).await {
            return Err(if self.context.stop.is_stopped() {
                Interrupt::UserInterruption
            } else {
                Interrupt::failed("EnvironmentError", error.to_string())
            });
        }
        let variables = &self.parts.prompts.variables;
        variables.add(self.parts.executor.template_vars());
        variables.update(&self.account);
        let opening = self.parts.prompts.opening();
        for mut message in unless_over(&self.context, self.time_left(), opening).await?? {
            self.find_images(&mut message);
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
        let unused = unused_calls(&reply, &actions);
        self.push(accepted_message(reply, &actions, cost, timestamp));
        let (outputs, interrupt) = self.execute(&actions).await?;
        let submitted = matches!(interrupt, Some(Interrupt::Submitted { .. }));
        let observed = if submitted && self.settings.bare_submission {
            let executed = &actions[..outputs.len()];
            self.observe(Vec::new(), executed, outputs, submitted).await
        } else {
            self.observe(unused, &actions, outputs, submitted).await
        };
        match (interrupt, observed) {
            (None, observed) => observed,
            (Some(interrupt), Ok(())) => Err(interrupt),
            (Some(mut interrupt), Err(failed)) => {
                self.fail(&mut interrupt, failed);
                Err(interrupt)
            }
        }
    }

    /// Something failed after `interrupt` had already ended the run. What was submitted stays
    /// submitted.
    fn fail(&mut self, interrupt: &mut Interrupt, failed: Interrupt) {
        if let Interrupt::Submitted { submission } = std::mem::replace(interrupt, failed) {
            self.submitted = Some(submission);
        }
    }

    /// Asks the model; what it answers is recorded and charged before anything else.
    async fn query(&mut self) -> Result<(Reply, Option<f64>, f64), Interrupt> {
        let time_left = self.time_left();
        let change = {
            let mut asker = LoopAsker {
                model: &mut *self.parts.model,
                account: &mut self.account,
                pricing: &*self.parts.pricing,
                global: &self.parts.global,
                context: &self.context,
                limits: &self.settings.limits,
                answers: &mut self.answers,
                cut: None,
            };
            let view = self
                .parts
                .history
                .apply(&self.messages, self.seen, &mut asker);
            let (change, faults) = match unless_over(&self.context, time_left, view).await {
                Ok(view) => view,
                Err(interrupt) => return Err(self.cut_short(interrupt)),
            };
            // The processor whose question was cut short reports that as its failure.
            if let Some(interrupt) = asker.cut {
                return Err(interrupt);
            }
            for fault in faults {
                self.fault(&fault.processor, &fault.message)?;
            }
            change
        };
        // The processors may have asked for the last of it.
        self.account.check(&self.settings.limits)?;
        self.parts.global.check()?;
        self.seen = self.messages.len();
        self.account.queries += 1;
        self.record(&Event::QueryStarted {
            query: self.account.queries,
        })?;
        let time_left = self.time_left();
        let tools = self.parts.parser.tools();
        let answer = self.parts.model.query(&change, tools, &self.context);
        let reply = match within(time_left, answer).await {
            Some(Ok(reply)) => reply,
            Some(Err(error)) => return Err(self.query_failed(&error)),
            None => return Err(self.cut_short(Interrupt::TimeExceeded)),
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
        self.parts.global.charge(cost)?;
        Ok((reply, cost, timestamp))
    }

    fn query_failed(&mut self, error: &ModelError) -> Interrupt {
        let failed = failure(error, &mut self.account, &*self.parts.pricing);
        self.parts.global.add(&failed);
        match self.record(&failed) {
            Ok(()) => Interrupt::from_model(error),
            Err(interrupt) => interrupt,
        }
    }

    /// The run had to end in the middle of a query or a question; what its attempts were billed
    /// until then is charged.
    fn cut_short(&mut self, interrupt: Interrupt) -> Interrupt {
        let Some(usage) = self.parts.model.take_unreported_usage() else {
            return interrupt;
        };
        let why = match interrupt {
            Interrupt::TimeExceeded => "the run's time was up before the model had answered",
            _ => "interrupted while waiting for the model",
        };
        let error = ModelError {
            usage: Some(usage),
            ..ModelError::new(ErrorClass::Interrupted, why)
        };
        let failed = failure(&error, &mut self.account, &*self.parts.pricing);
        self.parts.global.add(&failed);
        match self.record(&failed) {
            Ok(()) => interrupt,
            Err(interrupt) => interrupt,
        }
    }

    /// Finds the actions. A malformed reply stays out of the history; only the feedback on it
    /// goes in, with the reply in its `extra`.
    async fn parse(&mut self, reply: &Reply, cost: Option<f64>) -> Result<Vec<Action>, Interrupt> {
        let time_left = self.time_left();
        let parsed = self.parts.parser.parse(reply);
        let problem = match unless_over(&self.context, time_left, parsed).await? {
            Ok(Outcome::Actions(actions)) if actions.len() > MOST_ACTIONS => {
                self.parser_faults = 0;
                too_many(actions.len())
            }
            Ok(Outcome::Actions(actions)) => match invented_call(reply, &actions) {
                None => {
                    self.parser_faults = 0;
                    return Ok(actions);
                }
                Some(id) => {
                    let name = self.parts.parser.name().to_owned();
                    self.parser_failed(format!(
                        "plugin `{name}` broke the contract: an action answers tool call `{id}`, which the reply does not make"
                    ))?
                }
            },
            Ok(Outcome::Malformed(problem)) => {
                self.parser_faults = 0;
                problem
            }
            Err(fault) => self.parser_failed(fault.message)?,
        };
        self.record(&Event::Rejected {
            code: problem.code.clone(),
            message: problem.message.clone(),
        })?;
        let feedback = self.parts.prompts.feedback(&problem, reply);
        let feedback = unless_over(&self.context, self.time_left(), feedback).await??;
        let mut message = Message::new("user", feedback);
        let extra = &mut message.extra;
        extra.insert("interrupt_type".into(), "FormatError".into());
        if let Some(count) = problem.details.get("n_actions") {
            extra.insert("n_actions".into(), count.clone());
            extra.insert("model_response".into(), reply.message.text().into());
        }
        extra.insert("cost".into(), cost.unwrap_or(0.0).into());
        extra.insert(
            "response".into(),
            reply.response.clone().unwrap_or_default(),
        );
        if let Some(usage) = &reply.usage {
            extra.insert("mswea".into(), json!({ "usage": usage }));
        }
        Err(Interrupt::FormatError { message })
    }

    /// To the model, a parser that fails is a reply that was not understood. The second time in
    /// a row it is the parser, not the reply, and further replies would be paid for nothing.
    fn parser_failed(&mut self, message: String) -> Result<Problem, Interrupt> {
        self.fault(self.parts.parser.name(), &message)?;
        self.parser_faults += 1;
        if self.parser_faults > 1 {
            return Err(Interrupt::failed(
                "PluginError",
                format!("the parser failed twice in a row: {message}"),
            ));
        }
        Ok(Problem {
            code: "parser-failed".into(),
            message,
            details: Object::new(),
        })
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
            // The first one has had its turn with the query.
            let time_left = self.time_left();
            if index > 0 && time_left.is_some_and(|left| left.is_zero()) {
                return Ok((outputs, Some(Interrupt::TimeExceeded)));
            }
            let judged = match self.judge(index, action).await {
                Ok(judged) => judged,
                // What ran before is kept.
                Err(interrupt @ (Interrupt::UserInterruption | Interrupt::TimeExceeded)) => {
                    return Ok((outputs, Some(interrupt)));
                }
                Err(interrupt) => return Err(interrupt),
            };
            let mut output = match &judged.denied {
                None => {
                    self.run_action(index, actions.len(), &judged.action)
                        .await?
                }
                Some(feedback) => Output::not_executed(feedback),
            };
            if !judged.verdicts.is_empty() {
                output
                    .extra
                    .insert("mswea".into(), json!({ "policies": judged.verdicts }));
            }
            let timestamp = now();
            let event = Event::Output {
                index,
                output,
                timestamp,
            };
            let recorded = self.record(&event);
            let Event::Output { output, .. } = event else {
                unreachable!("it was made three lines above")
            };
            if let Err(failed) = recorded {
                self.submitted = submission(&output);
                return Err(failed);
            }
            self.show(&Progress::ActionEnded {
                output: &output,
                index,
            });
            if let Some(submission) = submission(&output) {
                return Ok((outputs, Some(Interrupt::Submitted { submission })));
            }
            self.gone = output.says_environment_gone();
            let why = output.exception_info.clone();
            outputs.push((output, timestamp));
            if self.gone {
                // Each further query would be paid for nothing.
                return Ok((outputs, Some(Interrupt::failed("EnvironmentError", why))));
            }
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
            .time_left()
            .map_or(self.settings.action_timeout, |left| {
                // Never zero: to an executor that means its own timeout.
                left.min(self.settings.action_timeout)
                    .max(Duration::from_millis(1))
            });
        let command = Command {
            timeout: Some(timeout),
            ..Command::new(&action.command)
        };
        let stop = &self.context.stop;
        let output = self.parts.executor.execute(&command, stop).await;
        Ok(submission::refuse_cut(output))
    }

    /// Formats the outputs and appends them. Tool calls that were not executed are answered
    /// all the same, also those that the parser made nothing of (`unused`, first): providers
    /// refuse a call without a result. After a submission no model will read them, so nothing
    /// about them fails the run.
    async fn observe(
        &mut self,
        unused: Vec<Action>,
        actions: &[Action],
        outputs: Vec<(Output, f64)>,
        submitted: bool,
    ) -> Result<(), Interrupt> {
        let skipped = actions[outputs.len()..]
            .iter()
            .filter(|action| action.tool_call_id.is_some())
            .map(|action| (action.clone(), "action was not executed"));
        let unused = unused
            .into_iter()
            .map(|action| (action, "no command was found in this tool call"));
        let not_executed =
            |(action, reason): (Action, &str)| (action, Output::not_executed(reason), now());
        let executed = actions
            .iter()
            .zip(outputs)
            .map(|(action, (output, time))| (action.clone(), output, time));
        let mut actions = Vec::new();
        let mut outputs = Vec::new();
        let mut times = Vec::new();
        for (action, output, time) in unused
            .map(not_executed)
            .chain(executed)
            .chain(skipped.map(not_executed))
        {
            actions.push(action);
            outputs.push(output);
            times.push(time);
        }
        if outputs.is_empty() {
            return Ok(());
        }
        self.parts.prompts.variables.update(&self.account);
        let time_left = self.time_left();
        let formatted = self.parts.formatter.format(&actions, &outputs);
        let formatted = match unless_over(&self.context, time_left, formatted).await {
            // The run ends for that reason after this step, which is kept.
            Err(_) => Ok(plain::format(&actions, &outputs)),
            Ok(Ok(messages)) => match answers(&actions, &messages) {
                Ok(()) => Ok(messages),
                Err(reason) => Err(format!(
                    "plugin `{}` broke the contract: {reason}",
                    self.parts.formatter.name()
                )),
            },
            Ok(Err(PluginFault {
                template: Some(problem),
                ..
            })) => {
                let message = format!("an observation can't be rendered: {problem}");
                if !submitted {
                    // The outputs are in the journal; the model would never get to see them as
                    // the config wants.
                    return Err(Interrupt::failed("TemplateError", message));
                }
                Err(message)
            }
            Ok(Err(fault)) => Err(fault.message),
        };
        let messages = match formatted {
            Ok(messages) => messages,
            Err(message) => {
                self.fault(self.parts.formatter.name(), &message)?;
                plain::format(&actions, &outputs)
            }
        };
        let multimodal = self.parts.multimodal.as_ref();
        let images_wanted = multimodal.is_some_and(Multimodal::takes_observations);
        let one_each = messages.len() == outputs.len();
        for (position, mut message) in messages.into_iter().enumerate() {
            // By place where there is one message each: servers repeat ids.
            let same = |index: &usize| actions[*index].tool_call_id == message.tool_call_id;
            let belongs = if one_each && same(&position) {
                Some(position)
            } else {
                message
                    .tool_call_id
                    .as_ref()
                    .and_then(|_| (0..actions.len()).find(same))
            };
            if let Some(index) = belongs {
                add_raw(&mut message.extra, &outputs[index], times[index]);
            }
            if images_wanted {
                self.find_images(&mut message);
            }
            self.append(message)?;
        }
        Ok(())
    }

    async fn end(mut self, mut interrupt: Interrupt) -> Ended {
        let submitted = matches!(interrupt, Interrupt::Submitted { .. });
        let salvage = self.salvage(submitted).await;
        // Before the environment goes, which may take seconds: what was saved is on disk by then.
        if let Some(output) = &salvage
            && let Err(failed) = self.record(&Event::Salvaged {
                output: output.clone(),
            })
        {
            self.fail(&mut interrupt, failed);
        }
        // What a second Ctrl-C leaves undone is the guardian's, and the next start's.
        let stop = self.context.stop.clone();
        tokio::select! {
            () = self.parts.executor.cleanup() => {}
            () = async {
                stop.stopped_twice().await;
                tokio::time::sleep(LAST_WAIT).await;
            } => self.show(&Progress::Warning(
                "not everything is cleaned up: what is left is removed in the background, by the next \
                 start, or by `mswea-host gc`",
            )),
        }
        for onlooker in std::mem::take(&mut self.parts.onlookers) {
            let stop = self.context.stop.clone();
            tokio::select! {
                seen = onlooker.finish() => self.show(&Progress::Seen(&seen)),
                () = stop.stopped_twice() => {}
            }
        }
        let mut exit = interrupt.exit_message();
        if matches!(interrupt, Interrupt::Failed { .. }) {
            // As mini-swe-agent does with this one of the endings.
            self.find_images(&mut exit);
        }
        // On a full disk there may be room for the end although there is none for the submission.
        let without = self.submitted.as_ref().map(|_| exit.clone());
        if let Some(submission) = &self.submitted {
            exit.extra
                .insert("submission".into(), submission.as_str().into());
        }
        let mut recorded = self.append(exit);
        if let (Err(_), Some(exit)) = (&recorded, without) {
            recorded = self.append(exit);
        }
        if let Err(failed) = recorded {
            self.fail(&mut interrupt, failed);
        }
        let mut extra = Object::new();
        if let Interrupt::Failed { message, .. } = &interrupt {
            extra.insert("message".into(), message.as_str().into());
        }
        let mut ended = Event::RunEnded {
            exit_status: interrupt.exit_status().to_owned(),
            submission: self.submission_of(&interrupt).to_owned(),
            cost: self.account.known_cost(),
            queries: self.account.queries,
            usage: self.account.usage.clone(),
            extra,
        };
        let mut recorded = self.record(&ended);
        if let (Err(_), Event::RunEnded { submission, .. }) = (&recorded, &mut ended)
            && !submission.is_empty()
        {
            submission.clear();
            recorded = self.record(&ended);
        }
        if let Err(failed) = recorded {
            self.fail(&mut interrupt, failed);
        }
        self.show(&Progress::Ended {
            exit_status: interrupt.exit_status(),
            submission: self.submission_of(&interrupt),
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

    fn submission_of<'a>(&'a self, interrupt: &'a Interrupt) -> &'a str {
        self.submitted
            .as_deref()
            .unwrap_or_else(|| interrupt.submission())
    }

    /// Saves the work, whatever the ending: only a second Ctrl-C skips it; of a run that has
    /// submitted, whose work is safe, the first one does. Before the first reply there is no work.
    async fn salvage(&mut self, submitted: bool) -> Option<Output> {
        let own = self.settings.salvage_command.clone();
        let command = if self.settings.salvage_is_explicit {
            own?
        } else {
            let command = self.parts.executor.salvage_command().or(own)?;
            format!("{}{command}", self.settings.salvage_prologue)
        };
        if self.account.queries == 0 || self.gone {
            return None;
        }
        let stop = self.context.stop.clone();
        let never = Stop::never();
        let command = Command {
            text: &command,
            timeout: Some(self.settings.salvage_timeout),
            whole: true,
        };
        let given_up = async {
            match submitted {
                true => stop.stopped().await,
                false => stop.stopped_twice().await,
            }
        };
        let output = tokio::select! {
            biased;
            () = given_up => None,
            output = self.parts.executor.execute(&command, &never) => Some(output),
        };
        if output.is_none() && submitted {
            self.show(&Progress::Warning(
                "the salvage command was stopped; what was submitted is not touched by that",
            ));
        }
        output
    }

    /// A message that was made from a template. Feedback on malformed replies stays text, as in
    /// mini-swe-agent: it cites what the model wrote.
    fn find_images(&self, message: &mut Message) {
        if let Some(multimodal) = &self.parts.multimodal
            && let Err(error) = multimodal.expand(message)
        {
            self.show(&Progress::Warning(&error.to_string()));
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

    /// Time until the run has to end, if it has to.
    pub(super) fn time_left(&self) -> Option<Duration> {
        self.account.time_left(&self.settings.limits)
    }

    pub(super) fn fault(&self, plugin: &str, message: &str) -> Result<(), Interrupt> {
        self.show(&Progress::Warning(message));
        self.record(&Event::PluginFault {
            plugin: plugin.to_owned(),
            message: message.to_owned(),
        })
    }

    pub(super) fn record(&self, event: &Event) -> Result<(), Interrupt> {
        record(&self.context, event)
    }

    pub(super) fn show(&self, progress: &Progress<'_>) {
        self.context.front.show(progress);
    }
}

pub(super) fn record(context: &Context, event: &Event) -> Result<(), Interrupt> {
    context.journal.record(event).map_err(|error| {
        let what = match event {
            Event::Reply { .. } | Event::AskReply { .. } => {
                "the model's last reply was paid for and is not recorded"
            }
            Event::Output { .. } => "the last command has run and its output is not recorded",
            Event::Salvaged { .. } => "what the salvage command printed is not recorded",
            Event::RunEnded { .. } => "the end of the run is not recorded",
            _ => "nothing more was done",
        };
        Interrupt::failed(
            "JournalError",
            format!("the journal can't be written: {error}; {what}"),
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
