//! What a recorded run got from the model and the person in the middle of a need.

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
    /// Those that the processors may get.
    answers: VecDeque<Answered>,
    /// What came of the action that is judged.
    verdict: Option<Event>,
    /// A question was put that the recorded run did not put.
    has_unknown: bool,
}

/// Answers as in the recorded run; clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Recorded(Arc<Mutex<ReplayAnswers>>);

impl Recorded {
    fn known(&self) -> MutexGuard<'_, ReplayAnswers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A question of a processor was answered, or failed.
    pub(super) fn keep_answer(&self, answer: Answered) {
        self.known().before_query.push(answer);
    }

    /// The questions that failed before the next query were put again after it.
    pub(super) fn drop_failed(&self) {
        self.known().before_query.retain(Result::is_ok);
    }

    /// The processors are asked for their view, and get these answers.
    pub(super) fn offer_answers(&self) {
        let mut known = self.known();
        let kept = std::mem::take(&mut known.before_query);
        known.answers.extend(kept);
    }

    /// What came of the action that is judged next.
    pub(super) fn set_verdict(&self, verdict: &Event) {
        self.known().verdict = Some(verdict.clone());
    }

    /// Says so if a question was put that the recorded run did not put.
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

    /// In a journal without events `confirmed`, the answer is concluded from what came of the action.
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
            // A later policy may have denied it.
            _ => Some(Answer::Yes),
        }
    }
}
