//! The reply of a step with sampled actions: the model proposes actions, and one reply is chosen or
//! made from them. Each proposal is charged, limited and recorded like a question of a history
//! processor; a resumed run does not pay for it again.

use std::ops::Range;
use std::sync::Arc;

use serde_json::{Value, json};

use super::asking::{LoopAsker, LoopQuestion};
use super::patience::unless_over;
use crate::Variables;
use crate::agent::Agent;
use crate::prompts::template_failed;
use crate::sampler::{
    ActionSampler, ComparedSamples, Proposal, SAMPLED, discussion, prefers_second, steps,
};
use mswea_core::{Change, End, Message, Object, Outcome, Reply};

/// The reply of a step.
pub(super) struct SampledReply {
    pub(super) reply: Reply,
    /// Whether it was already paid as a proposal.
    pub(super) is_paid: bool,
}

impl From<Reply> for SampledReply {
    fn from(reply: Reply) -> Self {
        Self {
            reply,
            is_paid: false,
        }
    }
}

/// Proposals of the model.
#[derive(Default)]
struct Proposals {
    /// The proposals with an action, with their replies; each has the number of its question.
    usable: Vec<(usize, Proposal, Reply)>,
}

impl Agent {
    /// Finds the reply to this view, which must be complete.
    pub(super) async fn sample(
        &mut self,
        sampler: &ActionSampler,
        view: &Change,
    ) -> Result<SampledReply, End> {
        match sampler {
            ActionSampler::Colleagues { samples } => self.with_colleagues(*samples, view).await,
            ActionSampler::Comparison(compared) => self.compared(compared, view).await,
        }
    }

    async fn with_colleagues(&mut self, samples: u32, view: &Change) -> Result<SampledReply, End> {
        let mut proposals = Proposals::default();
        self.propose(0..samples, view, &mut proposals).await?;
        if proposals.usable.is_empty() {
            return Ok(unusable());
        }
        let said = proposals.usable.iter().map(|(number, it, _)| (*number, it));
        let said = discussion(said);
        let mut messages = view.messages.clone();
        messages.push(Message::new("user", said.as_str()).into());
        // The proposals may have reached a limit.
        self.check_limits()?;
        let mut reply = self.send(Change::all(messages)).await?;
        // The next view does not have the discussion.
        self.lose_view();
        note(&mut reply, json!({"colleagues": said}));
        Ok(reply.into())
    }

    async fn compared(
        &mut self,
        compared: &ComparedSamples,
        view: &Change,
    ) -> Result<SampledReply, End> {
        let mut proposals = Proposals::default();
        self.propose(0..compared.least, view, &mut proposals)
            .await?;
        proposals.drop_repeated();
        let all: Vec<Proposal> = proposals.usable.iter().map(|it| it.1.clone()).collect();
        let further = compared.further(&all);
        if further > 0 {
            let numbers = compared.least..compared.least.saturating_add(further);
            self.propose(numbers, view, &mut proposals).await?;
            proposals.drop_repeated();
        }
        if proposals.usable.is_empty() {
            return Ok(unusable());
        }
        let traj = {
            let state = self.recorder.state();
            steps(state.messages.iter().map(AsRef::as_ref))
        };
        let (mut best, mut log) = (0, Vec::new());
        for other in 1..proposals.usable.len() {
            let (one, two) = (&proposals.usable[best].1, &proposals.usable[other].1);
            let variables = &self.parts.prompts.variables;
            let texts = comparison(variables.clone(), compared, &traj, one, two).await?;
            let is_marked = proposals.usable.len() >= 3;
            let messages = compared.messages(texts.0, texts.1, is_marked);
            let query = self.recorder.state().account.queries;
            let asker = format!("comparison {other} of query {query}");
            let question = LoopQuestion {
                asker: &asker,
                purpose: "compare two actions",
                // The earlier messages have the previous steps, which are in the journal already.
                recorded: messages.last().cloned().into_iter().collect(),
                messages,
            };
            let text = self.question(question).await?.message.text();
            let is_second = prefers_second(&text);
            log.push(json!({
                "comparison_between": [best, other],
                "response": text,
                "idx": u8::from(is_second),
            }));
            if is_second {
                best = other;
            }
        }
        let (_, _, mut reply) = proposals.usable.swap_remove(best);
        // The question was charged for these tokens.
        reply.usage = None;
        note(&mut reply, json!({"comparison_log": log}));
        Ok(SampledReply {
            reply,
            is_paid: true,
        })
    }

    /// Makes the model propose an action for each of these numbers.
    async fn propose(
        &mut self,
        numbers: Range<u32>,
        view: &Change,
        proposals: &mut Proposals,
    ) -> Result<(), End> {
        let query = self.recorder.state().account.queries;
        for number in numbers {
            let asker = format!("sample {number} of query {query}");
            let question = LoopQuestion {
                asker: &asker,
                purpose: "propose an action",
                // The messages are the view of the query, which is not recorded either.
                recorded: Vec::new(),
                messages: view.messages.iter().map(|it| it.light()).collect(),
            };
            let reply = self.question(question).await?;
            if let Some(proposal) = self.proposal(&reply).await? {
                proposals.usable.push((number as usize, proposal, reply));
            }
        }
        Ok(())
    }

    async fn question(&mut self, question: LoopQuestion<'_>) -> Result<Reply, End> {
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
        // SWE-agent offers them with each of these questions.
        let tools = self.parts.parser.tools();
        let asked = unless_over(&self.context, time_left, asker.put(question, tools)).await;
        match (asked, asker.cut.take()) {
            (Ok(Ok(reply)), _) => Ok(reply),
            (_, Some(end)) => Err(end),
            (Ok(Err(error)), None) => Err(End::of_query(&error)),
            (Err(end), None) => Err(self.cut_short(end)),
        }
    }

    /// The action in a proposal; none if there is none.
    async fn proposal(&mut self, reply: &Reply) -> Result<Option<Proposal>, End> {
        let time_left = self.time_left();
        let parsed = self.parts.parser.parse(reply);
        let Ok(Outcome::Actions(actions)) = unless_over(&self.context, time_left, parsed).await?
        else {
            return Ok(None);
        };
        let thought = actions
            .first()
            .and_then(|it| it.extra.get("thought")?.as_str());
        let commands: Vec<&str> = actions.iter().map(|it| it.command.as_str()).collect();
        Ok(Some(Proposal {
            thought: thought.map_or_else(|| reply.message.text(), str::to_owned),
            action: commands.join("\n"),
        }))
    }
}

impl Proposals {
    /// Keeps only the first of several proposals with the same action.
    fn drop_repeated(&mut self) {
        let mut known = Vec::new();
        self.usable.retain(|(_, it, _)| {
            let is_new = !known.contains(&it.action);
            if is_new {
                known.push(it.action.clone());
            }
            is_new
        });
    }
}

/// The two texts of a comparison.
async fn comparison(
    variables: Arc<Variables>,
    compared: &ComparedSamples,
    traj: &str,
    one: &Proposal,
    two: &Proposal,
) -> Result<(String, String), End> {
    let mut over = Object::new();
    for (name, value) in [
        ("traj", traj),
        ("thought1", &one.thought),
        ("action1", &one.action),
        ("thought2", &two.thought),
        ("action2", &two.action),
    ] {
        over.insert(name.to_owned(), value.into());
    }
    let render = async |key: &str, template: &str| {
        let rendered = variables.render(template, &over).await;
        rendered.map_err(|error| template_failed(error.named(key)))
    };
    let at = "agent.action_sampler";
    Ok((
        render(&format!("{at}.instance_template"), &compared.instance).await?,
        render(&format!("{at}.comparison_template"), &compared.comparison).await?,
    ))
}

/// A reply without an action, for the case that no proposal has one.
fn unusable() -> SampledReply {
    let mut reply = Reply {
        message: Message::new("assistant", ""),
        ..Reply::default()
    };
    note(&mut reply, Value::Object(Object::new()));
    SampledReply {
        reply,
        is_paid: true,
    }
}

fn note(reply: &mut Reply, how: Value) {
    reply.message.extra.insert(SAMPLED.to_owned(), how);
}
