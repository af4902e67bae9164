//! The questions to the user, and the effects of the answers.

use crate::agent::Agent;
use mswea_core::{Answer, End, Event, Question};

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

    /// Accepts the submission of the last output, unless the user answers with a text for the
    /// model.
    pub(crate) async fn submit(&mut self) -> Result<(), End> {
        if self.settings.has_person {
            let submission = self.recorder.state().submitted().to_owned();
            let question = Question::Submission { submission };
            let said = match self.answer_to(&question).await? {
                Some(Answer::Say { text }) | Some(Answer::No { reason: text }) => Some(text),
                Some(Answer::Yes | Answer::Edit { .. } | Answer::Raise { .. }) | None => None,
            };
            if let Some(text) = said {
                return self.answered("submission", Answer::Say { text });
            }
        }
        self.record(&Event::Submitted { submission: None })
    }

    pub(crate) async fn ask(&mut self, question: Question) -> Result<(), End> {
        let answer = self.answer_to(&question).await?;
        match (question, answer) {
            (Question::Interrupted, Some(Answer::No { .. }) | None) => Err(End::Interrupted),
            (Question::Interrupted, Some(answer)) => self.answered("interrupted", answer),
            (Question::Limit, Some(answer @ Answer::Raise { .. })) => {
                self.answered("limit", answer)
            }
            (Question::Limit, _) => Err(End::LimitsExceeded),
            // These two questions are handled where they are asked.
            (Question::Confirm { .. } | Question::Submission { .. }, _) => Ok(()),
        }
    }

    fn answered(&self, question: &str, answer: Answer) -> Result<(), End> {
        let before = self.recorder.state().messages.len();
        self.record(&Event::Answered {
            question: question.to_owned(),
            answer,
        })?;
        self.show_messages(before);
        Ok(())
    }
}
