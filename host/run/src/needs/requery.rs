//! Takes back an accepted reply and asks the model again, as SWE-agent does for a command that is
//! blocked, that bash can't read, or whose tool asks for it. The question is temporary: the next
//! accepted reply replaces it.

use mswea_core::{Action, End, Event, Message, Object, Output, Requery};

use super::patience::unless_over;
use crate::agent::Agent;
use crate::plain;
use crate::rules::{Signal, denial, signal, without_mark};

/// Why a reply is not used.
pub(super) struct RequeryReason {
    pub(super) code: String,
    pub(super) message: String,
    /// The parser itself has failed.
    pub(super) is_fault: bool,
    /// Whether it counts as an unusable reply.
    pub(super) is_counted: bool,
}

impl RequeryReason {
    fn of(code: &str, message: &str, is_counted: bool) -> Self {
        Self {
            code: code.to_owned(),
            message: message.to_owned(),
            is_fault: false,
            is_counted,
        }
    }
}

impl Agent {
    pub(crate) async fn requery(&mut self, index: usize) -> Result<(), End> {
        let (action, output, denied, reply) = {
            let state = self.recorder.state();
            let slot = state.step().and_then(|step| step.slots.get(index));
            let reply = state.messages.last().map(|it| it.text());
            (
                slot.map(|slot| slot.judged().clone()).unwrap_or_default(),
                slot.and_then(|slot| slot.output().cloned()),
                slot.map(denial).unwrap_or_default(),
                reply.unwrap_or_default(),
            )
        };
        let Some(output) = output else {
            let why = RequeryReason::of("blocked", &denied, true);
            return self.ask_again(why, &reply, Some(Message::new("user", denied)));
        };
        match signal(&output) {
            Some(Signal::BadSyntax) => {
                let text = self.syntax_feedback(&action, &output).await?;
                let why = RequeryReason::of("bad-syntax", &output.exception_info, true);
                self.ask_again(why, &reply, Some(Message::new("user", text)))
            }
            Some(Signal::RetryWithOutput) => {
                let text = self.shown(action, output).await?;
                let why =
                    RequeryReason::of("retry-with-output", "a tool asks for another reply", false);
                self.ask_again(why, &reply, Some(Message::new("user", text)))
            }
            // `AgentRules::of_step` asks for no other signal here.
            Some(Signal::RetryWithoutOutput | Signal::Forfeit) | None => {
                let why = RequeryReason::of(
                    "retry-without-output",
                    "a tool asks for another reply",
                    false,
                );
                self.ask_again(why, &reply, None)
            }
        }
    }

    /// Records that the reply is not used. `reply` is its text, which is quoted with the feedback.
    pub(super) fn ask_again(
        &self,
        why: RequeryReason,
        reply: &str,
        feedback: Option<Message>,
    ) -> Result<(), End> {
        // Providers refuse an empty message.
        let has_quote = feedback.is_some() && !reply.trim().is_empty();
        let quote = has_quote.then(|| Message::new("assistant", reply));
        let count = usize::from(quote.is_some()) + usize::from(feedback.is_some());
        self.record(Event::Rejected {
            code: why.code,
            message: why.message,
            feedback,
            is_fault: why.is_fault,
            requery: Some(Requery {
                quote,
                is_counted: why.is_counted,
            }),
        })?;
        let all = self.recorder.state().messages.len();
        self.show_messages(all.saturating_sub(count));
        Ok(())
    }

    async fn syntax_feedback(&mut self, action: &Action, output: &Output) -> Result<String, End> {
        let mut vars = Object::new();
        vars.insert("action".into(), action.command.as_str().into());
        for name in ["bash_stdout", "bash_stderr"] {
            let value = output.extra.get(name).cloned();
            vars.insert(name.into(), value.unwrap_or_else(|| "".into()));
        }
        let rendered = self.parts.prompts.syntax_feedback(&vars);
        unless_over(&self.context, self.time_left(), rendered).await?
    }

    /// The output as an observation.
    async fn shown(&mut self, action: Action, output: Output) -> Result<String, End> {
        self.update_variables();
        let action = Action {
            tool_call_id: None,
            ..action
        };
        let output = Output {
            output: without_mark(&output.output),
            ..output
        };
        let (actions, outputs) = ([action], [output]);
        let time_left = self.time_left();
        let formatted = self.parts.formatter.format(&actions, &outputs);
        let messages = match unless_over(&self.context, time_left, formatted).await? {
            Ok(messages) => messages,
            Err(fault) => {
                self.fault(self.parts.formatter.name(), &fault.message)?;
                plain::format(&actions, &outputs)
            }
        };
        Ok(messages.iter().map(Message::text).collect())
    }
}
