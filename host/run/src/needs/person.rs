//! The questions to the user, and the effects of the answers. The messages to the model are those of
//! mini-swe-agent's interactive agent.

use crate::agent::Agent;
use crate::next::exceeded;
use mswea_core::{Action, Answer, End, Event, Message, Question};
use serde_json::json;

/// Who has interrupted the model, as `extra.interrupt_type` of the message has it.
const INTERRUPTION: &str = "UserInterruption";

impl Agent {
    /// Handles a stop: with a user, only the step ends and the user is asked; otherwise the run
    /// ends.
    pub(crate) fn interrupt(&self) -> Result<(), End> {
        let stop = &self.context.stop;
        if stop.is_run_stopped() || !self.settings.has_person {
            return Err(End::Interrupted);
        }
        self.record(&Event::Interrupted)?;
        stop.go_on();
        Ok(())
    }

    /// Asks the user, unless the run is stopped meanwhile.
    pub(crate) async fn answer_to(&mut self, question: &Question) -> Result<Option<Answer>, End> {
        let stop = self.context.stop.clone();
        tokio::select! {
            biased;
            answer = self.parts.person.answer(question) => Ok(answer),
            () = stop.stopped() => Err(End::Interrupted),
        }
    }

    /// Records what the user has said to the model without being asked; answers whether there was
    /// something.
    pub(crate) fn hear(&self) -> Result<bool, End> {
        if !self.settings.has_person {
            return Ok(false);
        }
        let Some(text) = self.parts.person.said() else {
            return Ok(false);
        };
        let message = told("UserMessage", text.clone());
        self.answered("said", Answer::Say { text }, Some(message))?;
        Ok(true)
    }

    /// Accepts the submission of the last output, unless the user has another task.
    pub(crate) async fn submit(&mut self) -> Result<(), End> {
        if self.settings.has_person {
            let submission = self.recorder.state().submitted().to_owned();
            let question = Question::Submission { submission };
            let message = match self.answer_to(&question).await? {
                Some(Answer::Say { text } | Answer::No { reason: text }) => {
                    let task = format!("The user added a new task: {text}");
                    Some((Answer::Say { text }, told("UserNewTask", task)))
                }
                Some(Answer::TakeOver) => Some((
                    Answer::TakeOver,
                    told(INTERRUPTION, "Switched to human mode.".to_owned()),
                )),
                Some(_) | None => None,
            };
            if let Some((answer, message)) = message {
                return self.answered("submission", answer, Some(message));
            }
        }
        self.record(&Event::Submitted { submission: None })
    }

    pub(crate) async fn ask(&mut self, question: Question) -> Result<(), End> {
        let answer = self.answer_to(&question).await?;
        match (question, answer) {
            // A user who can't answer any more has gone.
            (Question::Actions { .. } | Question::Turn | Question::Interrupted, None) => {
                Err(End::Interrupted)
            }
            (Question::Actions { .. }, Some(answer)) => {
                let message = refusal(&answer);
                self.answered("actions", answer, message)
            }
            (Question::Turn, Some(answer)) => match &answer {
                Answer::Act { command } => {
                    let message = own_command(command);
                    self.answered("turn", answer, Some(message))
                }
                Answer::No { .. } => Err(End::Interrupted),
                _ => self.answered("turn", Answer::Yes, None),
            },
            (Question::Interrupted, Some(Answer::No { .. })) => Err(End::Interrupted),
            (Question::Interrupted, Some(answer)) => {
                let text = match &answer {
                    Answer::Say { text } => text.as_str(),
                    _ => "Temporary interruption caught.",
                };
                let message = told(INTERRUPTION, format!("Interrupted by user: {text}"));
                self.answered("interrupted", answer, Some(message))
            }
            (Question::Limit { .. }, Some(answer @ Answer::Raise { .. })) => {
                self.answered("limit", answer, None)?;
                match exceeded(&self.recorder.state(), &self.settings.limits) {
                    Some(end) => Err(end),
                    None => Ok(()),
                }
            }
            (Question::Limit { .. }, _) => Err(End::LimitsExceeded),
            // These two questions are handled where they are asked.
            (Question::Confirm { .. } | Question::Submission { .. }, _) => Ok(()),
        }
    }

    fn answered(
        &self,
        question: &str,
        answer: Answer,
        message: Option<Message>,
    ) -> Result<(), End> {
        let before = self.recorder.state().messages.len();
        self.record(&Event::Answered {
            question: question.to_owned(),
            answer,
            message,
        })?;
        self.show_messages(before);
        Ok(())
    }
}

/// The message about actions that the user does not allow.
fn refusal(answer: &Answer) -> Option<Message> {
    let text = match answer {
        Answer::TakeOver => "Commands not executed. Switching to human mode".to_owned(),
        Answer::No { reason } | Answer::Say { text: reason } => format!(
            "Commands not executed. The user rejected your commands with the following message: {reason}"
        ),
        Answer::Yes
        | Answer::Edit { .. }
        | Answer::EditAll { .. }
        | Answer::Act { .. }
        | Answer::Raise { .. } => return None,
    };
    Some(told("UserRejection", text))
}

fn told(kind: &str, text: String) -> Message {
    let mut message = Message::new("user", text);
    message.extra.insert("interrupt_type".into(), kind.into());
    message
}

/// The message about a command of the user.
fn own_command(command: &str) -> Message {
    let text = format!("User command: \n```bash\n{command}\n```");
    let mut message = Message::new("user", text);
    let action = Action {
        command: command.to_owned(),
        ..Action::default()
    };
    message.extra.insert("actions".into(), json!([action]));
    message
}
