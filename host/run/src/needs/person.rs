//! The questions to the user, and the effects of the answers. The messages to the model are those of
//! mini-swe-agent's interactive agent.

use std::time::Duration;

use crate::agent::Agent;
use crate::next::exceeded;
use mswea_core::{Action, Answer, Command, End, Errand, Event, Message, Output, Question, Stop};
use serde_json::json;

/// The value of `extra.interrupt_type` in the message about an interruption.
const INTERRUPTION: &str = "UserInterruption";
/// The time limit of an errand.
const ERRAND: Duration = Duration::from_secs(60);
/// The time limit of remembering the files.
pub(super) const MEMORY: Duration = Duration::from_secs(10);
/// The time limit of forgetting them.
const FAREWELL: Duration = Duration::from_secs(5);

impl Agent {
    /// Handles a stop: with a user, only the step ends and the user is asked; otherwise the run
    /// ends.
    pub(crate) fn interrupt(&self) -> Result<(), End> {
        let stop = &self.context.stop;
        if stop.is_run_stopped() || !self.settings.has_person {
            return Err(End::Interrupted);
        }
        self.record(Event::Interrupted)?;
        stop.go_on();
        Ok(())
    }

    /// Asks the user, unless the run is stopped meanwhile.
    pub(crate) async fn answer_to(&mut self, question: &Question) -> Result<Option<Answer>, End> {
        let stop = self.context.stop.clone();
        let person = self.parts.person.clone();
        let mut answer = person.answer(question);
        loop {
            let errand = tokio::select! {
                biased;
                answer = &mut answer => return Ok(answer),
                () = stop.stopped() => return Err(End::Interrupted),
                errand = person.errand() => errand,
            };
            self.do_errand(errand).await;
        }
    }

    /// Does what the user has asked for while no question was open.
    pub(super) async fn do_errands(&mut self) {
        if !self.settings.has_person {
            return;
        }
        let person = self.parts.person.clone();
        loop {
            let errand = tokio::select! {
                biased;
                errand = person.errand() => errand,
                () = std::future::ready(()) => return,
            };
            self.do_errand(errand).await;
        }
    }

    async fn do_errand(&mut self, errand: Errand) {
        (errand.done)(self.aside(&errand.script, ERRAND).await);
    }

    /// Runs a script that is no action of the agent.
    async fn aside(&mut self, script: &str, timeout: Duration) -> Output {
        let is_usable = {
            let environment = &self.recorder.state().environment;
            environment.is_ready && environment.is_set_up && !environment.is_gone
        };
        if !is_usable {
            return Output::not_executed("the environment is not ready");
        }
        let script = self.with_own_files(script);
        let command = aside(&script, timeout);
        let stop = &self.context.stop;
        self.parts.executor.execute(&command, stop).await
    }

    /// A script whose arguments are pathspecs of the files that the host itself writes.
    fn with_own_files(&self, script: &str) -> String {
        format!("{}{script}", self.settings.salvage_prologue)
    }

    /// The script that remembers the files; none if they are not remembered.
    pub(crate) fn to_remember(&self) -> Option<String> {
        let memory = self.parts.person.memory()?;
        Some(self.with_own_files(&memory.remember))
    }

    /// Remembers the files before the actions of a step.
    pub(super) async fn remember(&mut self) {
        self.remembered = Some(self.recorder.state().account.queries);
        if let Some(memory) = self.parts.person.memory() {
            self.aside(&memory.remember, MEMORY).await;
        }
    }

    /// Removes what was remembered of the files.
    pub(crate) async fn forget(&mut self) {
        let is_ready = self.recorder.state().environment.is_ready;
        if let Some(memory) = self.parts.person.memory().filter(|_| is_ready) {
            let command = aside(&memory.forget, FAREWELL);
            // This also runs after the run was stopped.
            self.parts.executor.execute(&command, &Stop::never()).await;
        }
    }

    /// Records the messages of the user to the model that came without a question.
    pub(crate) fn hear(&self) -> Result<(), End> {
        let Some(text) = self.parts.person.said() else {
            return Ok(());
        };
        let message = told("UserMessage", text.clone());
        self.answered("said", Answer::Say { text }, Some(message))
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
        self.record(Event::Submitted { submission: None })
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
                if message.is_none() {
                    self.remember().await;
                }
                self.answered("actions", answer, message)
            }
            (Question::Turn, Some(answer)) => match &answer {
                Answer::Act { command } => {
                    self.remember().await;
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
        self.record(Event::Answered {
            question: question.to_owned(),
            answer,
            message,
        })?;
        self.show_messages(before);
        Ok(())
    }
}

/// A script that is no action of the agent, as a command.
pub(super) fn aside(script: &str, timeout: Duration) -> Command<'_> {
    Command {
        timeout: Some(timeout),
        whole: true,
        apart: true,
        ..Command::new(script)
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
