//! The answers of the model and of the user that a recorded run got while it met a need.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use crate::needs::NOT_ALLOWED;
use mswea_core::{
    Answer, Change, Context, ErrorClass, Event, Message, Model, ModelError, Person, Question,
    Reply, Tool,
};

type Answered = Result<Reply, ModelError>;

#[derive(Debug, Default)]
struct ReplayAnswers {
    /// The answers to questions of processors before the next query.
    before_query: Vec<Answered>,
    /// The answers that the processors may get.
    answers: VecDeque<Answered>,
    /// The recorded event about the action that is being judged.
    verdict: Option<Event>,
    /// Whether a question was asked that the recorded run did not ask.
    has_unknown: bool,
}

/// Returns the recorded answers; clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Recorded(Arc<Mutex<ReplayAnswers>>);

impl Recorded {
    fn known(&self) -> MutexGuard<'_, ReplayAnswers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an answer to a question of a processor, or its failure.
    pub(super) fn keep_answer(&self, answer: Answered) {
        self.known().before_query.push(answer);
    }

    /// Drops the failed questions before the next query, which were asked again after it.
    pub(super) fn drop_failed(&self) {
        self.known().before_query.retain(Result::is_ok);
    }

    /// Called before the processors compute their view: they get these answers.
    pub(super) fn offer_answers(&self) {
        let mut known = self.known();
        let kept = std::mem::take(&mut known.before_query);
        known.answers.extend(kept);
    }

    /// Sets the recorded event about the action that is judged next.
    pub(super) fn set_verdict(&self, verdict: &Event) {
        self.known().verdict = Some(verdict.clone());
    }

    /// A message, if a question was asked that the recorded run did not ask.
    pub(super) fn unknown_question(&self) -> Option<String> {
        let text = "a history processor asks what was not asked in the recorded run";
        self.known().has_unknown.then(|| text.to_owned())
    }
}

fn no_reply() -> ModelError {
    ModelError::new(
        ErrorClass::Other("replay".to_owned()),
        "the recorded run has no further reply",
    )
}

#[async_trait]
impl Model for Recorded {
    async fn query(&mut self, _: Change, _: &[Tool], _: &Context) -> Result<Reply, ModelError> {
        Err(no_reply())
    }

    async fn ask(&mut self, _: Vec<Message>, _: &[Tool], _: &Context) -> Result<Reply, ModelError> {
        let mut known = self.known();
        match known.answers.pop_front() {
            Some(answer) => answer,
            None => {
                known.has_unknown = true;
                Err(no_reply())
            }
        }
    }
}

#[async_trait]
impl Person for Recorded {
    fn is_present(&self) -> bool {
        false
    }

    /// In a journal without events `confirmed`, the answer is concluded from the events about the
    /// action.
    async fn answer(&self, question: &Question) -> Option<Answer> {
        let Question::Confirm { policy, .. } = question else {
            return None;
        };
        match self.known().verdict.as_ref()? {
            Event::Denied {
                policy: denied_by,
                reason,
                ..
            } if denied_by == policy => Some(Answer::No {
                reason: reason.strip_prefix(NOT_ALLOWED)?.to_owned(),
            }),
            // A later policy may have denied the action.
            _ => Some(Answer::Yes),
        }
    }
}
