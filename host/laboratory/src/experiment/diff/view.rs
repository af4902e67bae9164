//! The view that one history processor makes of a recorded run.

use std::sync::Arc;

use async_trait::async_trait;
use mswea_core::{Asker, Change, Manner, Message, ModelError, Processor, Reply};
use mswea_run::history::{Chain, ChainFault};

use super::super::answer::{self, RoleAnswer};
use super::super::latency::Latency;
use super::super::recorded::RecordedQuestion;
use super::super::watched::{Sight, WatchedProcessor};

/// The answer to a processor's question that the record does not contain.
pub(crate) const PLACEHOLDER: &str =
    "(No answer to this question was recorded; this text stands in for it.)";

/// Answers a processor's questions from the record.
pub(super) struct Recall<'a> {
    questions: &'a [RecordedQuestion],
    pub(super) asked: u64,
    pub(super) unanswered: u64,
}

#[async_trait]
impl Asker for Recall<'_> {
    async fn ask(
        &mut self,
        _: &str,
        purpose: &str,
        messages: Vec<Message>,
    ) -> Result<Reply, ModelError> {
        self.asked += 1;
        let messages: Vec<Message> = messages.iter().map(Message::light).collect();
        let same = |question: &&RecordedQuestion| {
            question.purpose == purpose && answer::messages_agree(&question.messages, &messages)
        };
        if let Some(question) = self.questions.iter().find(same) {
            return Ok(question.reply.clone());
        }
        self.unanswered += 1;
        Ok(Reply {
            message: Message::new("assistant", PLACEHOLDER),
            finish_reason: "stop".to_owned(),
            model: "none".to_owned(),
            ..Reply::default()
        })
    }
}

/// The view of one side, updated with the changes that the chain returns.
pub(super) struct SideView<'a> {
    chain: Chain,
    sight: Sight,
    pub(super) view: Vec<Message>,
    pub(super) asker: Recall<'a>,
}

impl<'a> SideView<'a> {
    pub(super) fn new(inner: Box<dyn Processor>, questions: &'a [RecordedQuestion]) -> Self {
        let (processor, sight) = WatchedProcessor::over(inner);
        Self {
            chain: Chain::new(vec![processor]),
            sight,
            view: Vec::new(),
            asker: Recall {
                questions,
                asked: 0,
                unanswered: 0,
            },
        }
    }

    pub(super) async fn follow(
        &mut self,
        history: &[Arc<Message>],
        start: usize,
        latency: &mut Latency,
    ) -> (Change, Vec<ChainFault>) {
        let result = self.chain.apply(history, start, &mut self.asker).await;
        latency.add(self.sight.last().took);
        result
    }

    /// Applies a change to the view, and returns where it begins.
    pub(super) fn lay(&mut self, change: Change) -> usize {
        let start = change.start;
        change.apply(&mut self.view);
        start
    }

    pub(super) fn answer(&self, mut faults: Vec<ChainFault>) -> RoleAnswer<'_> {
        match faults.pop() {
            None => RoleAnswer::View(&self.view),
            Some(fault) => RoleAnswer::Failed {
                // Without a failure, the chain has rejected the answer.
                manner: answer::manner(self.sight.last().failed.unwrap_or(Manner::Broke)),
                message: fault.message,
            },
        }
    }
}
