//! The law of processors that ask the model: questions are few, and bad answers are survived.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use async_trait::async_trait;
use serde_json::{Value, json};

use super::calls::tool_call;
use super::exam::Exam;
use super::histories::{self, Step, is_lawful};
use super::law::Law;
use super::processor::unmade;
use super::processor_session::{Session, Trouble};
use crate::history::check_pairing;
use crate::roles::{
    Asker, ErrorClass, Maker, Message, ModelError, QUESTIONS, QUESTIONS_AGAIN, REMEMBERED, Refused,
    Reply,
};

/// How questions are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manners {
    /// With a short text that depends on the question alone.
    Echo,
    /// With all of the question: nothing becomes shorter by it.
    Parrot,
    /// With a text that is longer than what was asked.
    Babble,
    /// With no content.
    Silence,
    /// With a tool call, though no tools were offered.
    Calls,
    /// With a half sentence that was cut off.
    CutOff,
    /// Not at all.
    Failure,
}

impl Manners {
    const BAD: [Self; 6] = [
        Self::Parrot,
        Self::Babble,
        Self::Silence,
        Self::Calls,
        Self::CutOff,
        Self::Failure,
    ];

    fn words(self) -> &'static str {
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
pub(super) struct Ear {
    manners: Manners,
    /// New questions in this step.
    pub asked: usize,
    /// Questions in this step that were answered before.
    pub repeated: usize,
    /// What was answered before, as a run has it.
    known: HashSet<u64>,
    /// What was wrong with a question: what was expected, and what came.
    pub breach: Option<(String, String)>,
}

impl Ear {
    pub fn new(manners: Manners) -> Self {
        Self {
            manners,
            asked: 0,
            repeated: 0,
            known: HashSet::new(),
            breach: None,
        }
    }

    /// Knows what another one was asked: both are of one run.
    pub fn joins(&mut self, other: &Self) {
        self.known.clone_from(&other.known);
    }

    /// Whether one question more is one too many.
    pub fn is_full(&self) -> bool {
        self.asked >= QUESTIONS || self.repeated >= QUESTIONS_AGAIN
    }

    /// A step begins.
    pub fn begin(&mut self) {
        (self.asked, self.repeated) = (0, 0);
    }

    /// A question too many was asked, or the host refused to put it.
    pub fn too_many(&mut self) {
        let expected =
            format!("at most {QUESTIONS} questions in one step, then a view or an error");
        self.breach.get_or_insert((expected, "one more".to_owned()));
    }
}

#[async_trait]
impl Asker for Ear {
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

/// Tells questions apart by their words.
fn key(messages: &[Message]) -> u64 {
    let mut hasher = DefaultHasher::new();
    json!(messages).to_string().hash(&mut hasher);
    hasher.finish()
}

/// Examines a processor that is known to ask with a config.
pub(super) async fn examine(exam: &mut Exam<'_>, config: &Value) {
    let law = Law::Asking;
    exam.begin();
    let maker = exam.maker;
    for manners in Manners::BAD {
        let random = exam.random("questions");
        for spliced in [false, true] {
            for course in histories::courses(random.clone(), &exam.scale, spliced, &[]) {
                if exam.enough(&[law]) {
                    return;
                }
                exam.case(law);
                let breach = match breach(maker, config, &course.steps, manners).await {
                    Ok(None) => continue,
                    Ok(Some(breach)) => breach,
                    Err(refused) => return unmade(exam, config, &refused),
                };
                let mut steps = course.steps;
                if !breach.slow {
                    steps = exam
                        .shrink(steps, async |steps: &Vec<Step>| {
                            let lawful = is_lawful(steps);
                            lawful
                                && matches!(
                                    self::breach(maker, config, steps, manners).await,
                                    Ok(Some(_))
                                )
                        })
                        .await;
                }
                let input = json!({ "changes": steps });
                exam.find(
                    law,
                    manners.words(),
                    config,
                    &input,
                    breach.expected,
                    breach.came,
                );
                break;
            }
        }
    }
}

struct Breach {
    expected: String,
    came: String,
    slow: bool,
}

/// What is wrong with how a processor takes answers of this kind; what is wrong with good answers
/// too is told elsewhere.
async fn breach(
    maker: &dyn Maker,
    config: &Value,
    steps: &[Step],
    manners: Manners,
) -> Result<Option<Breach>, Refused> {
    match breach_of(maker, config, steps, Manners::Echo).await? {
        None => breach_of(maker, config, steps, manners).await,
        Some(_) => Ok(None),
    }
}

async fn breach_of(
    maker: &dyn Maker,
    config: &Value,
    steps: &[Step],
    manners: Manners,
) -> Result<Option<Breach>, Refused> {
    let mut session = Session::start(maker, config, false, manners).await?;
    for step in steps {
        let result = session.step(step).await;
        if let Some((expected, came)) = session.ear.breach.take() {
            let slow = false;
            return Ok(Some(Breach {
                expected,
                came,
                slow,
            }));
        }
        let expected = "a view, or an error that the plugin reports itself".to_owned();
        let (came, slow) = match result {
            Err(Trouble::Failed(crash)) => {
                let asked = session.ear.asked;
                let plural = if asked == 1 { "" } else { "s" };
                (
                    format!("after {asked} question{plural}: {}", crash.message),
                    crash.is_slow(),
                )
            }
            Err(Trouble::Broken(_, came)) => (came, false),
            Ok(_) => match check_pairing(&session.view, 0) {
                Ok(()) => continue,
                Err(reason) => (reason, false),
            },
            Err(Trouble::Reported(_)) => continue,
        };
        return Ok(Some(Breach {
            expected,
            came,
            slow,
        }));
    }
    Ok(None)
}
