//! The reply: its actions, or the feedback on a malformed one. A malformed reply stays out of the
//! history; only the feedback on it joins, with the reply in its `extra`.

use std::sync::Arc;

use serde_json::json;

use super::patience::unless_over;
use super::requery::RequeryReason;
use crate::agent::Agent;
use crate::calls::{MOST_ACTIONS, invented_call, too_many};
use crate::rules::AgentRules;
use crate::state::PaidReply;
use mswea_core::{Action, End, Event, Message, Object, Outcome, Problem, Reply};

/// The result of parsing a reply.
enum Parsed {
    Actions(Vec<Action>),
    /// The reply is malformed.
    Malformed(Problem),
    /// The parser failed; the model gets the same feedback as for a malformed reply.
    Fault(Problem),
}

impl Agent {
    pub(crate) async fn parse(&mut self, paid: Arc<PaidReply>) -> Result<(), End> {
        let parsed = self.parsed(&paid.reply).await?;
        let before = self.recorder.state().messages.len();
        let (problem, is_fault) = match parsed {
            Parsed::Actions(actions) => {
                // The state can take the reply out of the `Arc` only if no other reference exists.
                drop(paid);
                self.record(Event::Accepted { actions })?;
                self.show_messages(before);
                return Ok(());
            }
            Parsed::Malformed(problem) => (problem, false),
            Parsed::Fault(problem) => (problem, true),
        };
        let feedback = self.parts.prompts.feedback(&problem, &paid.reply);
        let text = unless_over(&self.context, self.time_left(), feedback).await??;
        let feedback = feedback_message(text, &problem, &paid);
        if self.settings.rules == AgentRules::SweAgent {
            let why = RequeryReason {
                code: problem.code,
                message: problem.message,
                is_fault,
                is_counted: true,
            };
            return self.ask_again(why, &paid.reply.message.text(), Some(feedback));
        }
        self.record(Event::Rejected {
            feedback: Some(feedback),
            code: problem.code,
            message: problem.message,
            is_fault,
            requery: None,
        })?;
        self.show_messages(before);
        Ok(())
    }

    async fn parsed(&mut self, reply: &Reply) -> Result<Parsed, End> {
        let time_left = self.time_left();
        let parsed = self.parts.parser.parse(reply);
        let fault = match unless_over(&self.context, time_left, parsed).await? {
            Ok(Outcome::Actions(actions)) if actions.len() > MOST_ACTIONS => {
                return Ok(Parsed::Malformed(too_many(actions.len())));
            }
            Ok(Outcome::Actions(actions)) => match invented_call(reply, &actions) {
                None => return Ok(Parsed::Actions(actions)),
                Some(id) => format!(
                    "plugin `{}` broke the contract: an action answers tool call `{id}`, which the reply does not make",
                    self.parts.parser.name()
                ),
            },
            Ok(Outcome::Malformed(problem)) => return Ok(Parsed::Malformed(problem)),
            Err(fault) => fault.message,
        };
        self.fault(self.parts.parser.name(), &fault)?;
        // If it fails twice in a row, the cause is the parser and not the reply, so further replies
        // would be useless.
        if self.recorder.state().parser_faults > 0 {
            let message = format!("the parser failed twice in a row: {fault}");
            return Err(End::Plugin { message });
        }
        Ok(Parsed::Fault(Problem {
            code: "parser-failed".into(),
            message: fault,
            details: Object::new(),
        }))
    }
}

fn feedback_message(text: String, problem: &Problem, paid: &PaidReply) -> Message {
    let reply = &paid.reply;
    let mut message = Message::new("user", text);
    let extra = &mut message.extra;
    extra.insert("interrupt_type".into(), "FormatError".into());
    if let Some(count) = problem.details.get("n_actions") {
        extra.insert("n_actions".into(), count.clone());
        extra.insert("model_response".into(), reply.message.text().into());
    }
    extra.insert("cost".into(), paid.cost.unwrap_or(0.0).into());
    extra.insert(
        "response".into(),
        reply.response.clone().unwrap_or_default(),
    );
    if let Some(usage) = &reply.usage {
        extra.insert("mswea".into(), json!({ "usage": usage }));
    }
    message
}
