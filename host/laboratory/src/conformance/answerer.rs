//! Answers the questions of a processor under examination, well or badly.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use async_trait::async_trait;
use serde_json::json;

use super::values::tool_call;
use mswea_core::{
    Asker, ErrorClass, Message, ModelError, QUESTIONS, QUESTIONS_AGAIN, REMEMBERED, Reply,
};
use mswea_run::history::check_pairing;

/// How questions are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manners {
    /// With a short text that depends on the question alone.
    Echo,
    /// With the whole question, so that nothing becomes shorter.
    Parrot,
    /// With a text that is longer than the question.
    Babble,
    /// With no content.
    Silence,
    /// With a tool call, although no tools were offered.
    Calls,
    /// With half a sentence, as if cut off by a limit.
    CutOff,
    /// With an error.
    Failure,
}

impl Manners {
    /// Answers that a processor has to handle.
    pub const BAD: [Self; 6] = [
        Self::Parrot,
        Self::Babble,
        Self::Silence,
        Self::Calls,
        Self::CutOff,
        Self::Failure,
    ];

    /// What they are, in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Echo => "questions that are answered well",
            Self::Parrot => "questions that are answered with the question",
            Self::Babble => "questions that are answered at great length",
            Self::Silence => "questions that are answered with nothing",
            Self::Calls => "questions that are answered with a tool call",
            Self::CutOff => "questions whose answer is cut off",
            Self::Failure => "questions that are not answered",
        }
    }
}

/// Answers a processor's questions, and counts them.
pub(super) struct Answerer {
    manners: Manners,
    /// New questions in this step.
    pub asked: usize,
    /// Questions in this step that were answered before.
    pub repeated: usize,
    /// Questions that were answered before; a run records them too.
    known: HashSet<u64>,
    /// The breach in a question: what was expected, and what came.
    pub breach: Option<(String, String)>,
}

impl Answerer {
    pub fn new(manners: Manners) -> Self {
        Self {
            manners,
            asked: 0,
            repeated: 0,
            known: HashSet::new(),
            breach: None,
        }
    }

    /// Takes over the known questions of another answerer of the same run.
    pub fn joins(&mut self, other: &Self) {
        self.known.clone_from(&other.known);
    }

    /// Whether another question would be one too many.
    pub fn is_full(&self) -> bool {
        self.asked >= QUESTIONS || self.repeated >= QUESTIONS_AGAIN
    }

    /// Begins a step.
    pub fn begin(&mut self) {
        (self.asked, self.repeated) = (0, 0);
    }

    /// Records that too many questions were asked, or that the host refused one.
    pub fn too_many(&mut self) {
        let expected = format!("at most {QUESTIONS} queries in one step, then a view or an error");
        self.breach.get_or_insert((expected, "one more".to_owned()));
    }
}

#[async_trait]
impl Asker for Answerer {
    async fn ask(
        &mut self,
        _processor: &str,
        _purpose: &str,
        messages: Vec<Message>,
    ) -> Result<Reply, ModelError> {
        let question = key(&messages);
        let remembered = self.known.contains(&question);
        self.asked += usize::from(!remembered);
        self.repeated += usize::from(remembered);
        if self.asked > QUESTIONS || self.repeated > QUESTIONS_AGAIN {
            self.too_many();
            return Err(ModelError::new(
                ErrorClass::Other("kit".into()),
                "too many questions",
            ));
        }
        let can_be_sent = match messages.iter().find(|message| message.role == "exit") {
            Some(_) => Err("a message of role `exit`".to_owned()),
            None if messages.is_empty() => Err("no message at all".to_owned()),
            None => check_pairing(&messages, 0),
        };
        if let Err(came) = can_be_sent {
            let expected = "a question that is a conversation which can be sent";
            self.breach.get_or_insert((expected.to_owned(), came));
        }
        let all: String = messages
            .iter()
            .map(|message| message.text() + "\n")
            .collect();
        let mut reply = Reply {
            message: Message::new("assistant", format!("In short: {question:016x}")),
            finish_reason: "stop".to_owned(),
            ..Reply::default()
        };
        match self.manners {
            Manners::Echo => {}
            Manners::Parrot => reply.message = Message::new("assistant", all),
            Manners::Babble => {
                reply.message = Message::new("assistant", all + &"and so on ".repeat(20_000));
            }
            Manners::Silence => reply.message.content.clear(),
            Manners::Calls => {
                reply.message.content.clear();
                reply.message.tool_calls =
                    vec![tool_call("call_kit", "bash", r#"{"command":"ls"}"#)];
                reply.finish_reason = "tool_calls".to_owned();
            }
            Manners::CutOff => reply.finish_reason = "length".to_owned(),
            Manners::Failure => {
                return Err(ModelError::new(
                    ErrorClass::Overloaded,
                    "the model is overloaded",
                ));
            }
        }
        if remembered {
            reply.extra.insert(REMEMBERED.to_owned(), true.into());
        }
        self.known.insert(question);
        Ok(reply)
    }

    fn remembers(&self, _processor: &str, messages: &[Message]) -> bool {
        self.known.contains(&key(messages))
    }
}

/// Identifies a question by its text.
fn key(messages: &[Message]) -> u64 {
    let mut hasher = DefaultHasher::new();
    json!(messages).to_string().hash(&mut hasher);
    hasher.finish()
}
