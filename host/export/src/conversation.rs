//! A run as the steps of a conversation, whichever file it was read from.

use std::borrow::Cow;

use mswea_core::{Usage, View};
use serde_json::Value;

/// A run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conversation {
    /// The run's id.
    pub run_id: String,
    /// The program that made the run, and its version.
    pub program: (String, String),
    /// The name of the model.
    pub model: Option<String>,
    /// The format of the file that it was read from.
    pub format: String,
    /// Name, kind, version and digest of the plugins.
    pub plugins: Vec<Value>,
    /// The steps, in order.
    pub steps: Vec<ConversationStep>,
    /// The tokens of all queries.
    pub usage: Usage,
    /// Dollars; none if any price is unknown.
    pub cost: Option<f64>,
    /// How it ended; none if no end is recorded.
    pub exit_status: Option<String>,
    /// The submission.
    pub submission: String,
    /// Why it failed, if it did.
    pub failure: Option<String>,
    /// The task; empty if it is not recorded apart from the messages.
    pub task: String,
    /// When it began, in Unix seconds.
    pub started: Option<f64>,
    /// How long it ran, without the time between an end and a `resume`.
    pub seconds: Option<f64>,
    /// The queries to the model, also those that failed; none if they are not counted.
    pub queries: Option<u64>,
    /// The definitions of the tools that the model was offered. A journal does not have them.
    pub tools: Vec<Value>,
}

impl Conversation {
    /// The steps; of a run that ended before its first message, the task as one.
    pub(crate) fn told(&self) -> Cow<'_, [ConversationStep]> {
        match self.steps.is_empty() {
            false => Cow::Borrowed(&self.steps),
            true => Cow::Owned(vec![ConversationStep {
                time: self.started,
                text: self.task.clone(),
                ..ConversationStep::default()
            }]),
        }
    }
}

/// The author of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StepSource {
    /// The system prompt.
    System,
    /// The task, a person, or the host.
    #[default]
    User,
    /// The model.
    Agent,
}

impl StepSource {
    /// The word for it in ATIF.
    pub fn word(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Agent => "agent",
        }
    }
}

/// A step: a message, and the actions that followed from it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConversationStep {
    /// The author.
    pub source: StepSource,
    /// The time in Unix seconds; none if unknown.
    pub time: Option<f64>,
    /// When the model was asked, in Unix seconds; none if unknown.
    pub asked: Option<f64>,
    /// The pauses after failed requests: the Unix seconds of each failure, and the seconds until the next request.
    pub pauses: Vec<(f64, f64)>,
    /// The view of the history that was sent; none if unknown.
    pub view: Option<View>,
    /// Its text.
    pub text: String,
    /// The addresses of its images.
    pub images: Vec<String>,
    /// The model's reasoning, as far as the provider sends it.
    pub reasoning: String,
    /// The model that answered.
    pub model: Option<String>,
    /// The calls of tools.
    pub calls: Vec<RecordedCall>,
    /// The results of the calls.
    pub shown: Vec<ShownResult>,
    /// The tokens of the query.
    pub usage: Option<Usage>,
    /// The token ids of the query, if the server reports them.
    pub tokens: TokenIds,
    /// Dollars.
    pub cost: Option<f64>,
    /// Whether a model was queried for it.
    pub is_reply: bool,
    /// Why the reply ended.
    pub finish_reason: String,
    /// The code with which the parser refused the reply.
    pub rejected: Option<String>,
}

/// The token ids of a query as a server of models reports them, for training; all empty if it does
/// not.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TokenIds {
    /// The ids of the request's tokens.
    pub prompt: Vec<u32>,
    /// The ids of the reply's tokens.
    pub reply: Vec<u32>,
    /// The logarithms of the probabilities of the reply's tokens.
    pub logprobs: Vec<f64>,
}

impl TokenIds {
    /// Reads a response of an API like vLLM's for chat completions.
    pub fn of(response: &Value) -> Self {
        let choice = &response["choices"][0];
        let list = choice["logprobs"]["content"].as_array();
        let logprobs = list.into_iter().flatten();
        Self {
            prompt: Self::ids(&response["prompt_token_ids"]),
            reply: Self::ids(&choice["token_ids"]),
            // All or none: without a missing one, the following ones would belong to the wrong ids.
            logprobs: logprobs
                .map(|it| it["logprob"].as_f64())
                .collect::<Option<_>>()
                .unwrap_or_default(),
        }
    }

    /// The ids in a list; empty if a member is not an id.
    pub fn ids(list: &Value) -> Vec<u32> {
        let list = list.as_array().into_iter().flatten();
        let ids = list.map(|it| u32::try_from(it.as_u64()?).ok());
        ids.collect::<Option<_>>().unwrap_or_default()
    }
}

/// A call of a tool.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordedCall {
    /// Its id.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments, an object.
    pub arguments: Value,
    /// Whether a parser found the call in the text of the reply.
    pub is_of_text: bool,
}

/// The result of a call, or feedback.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ShownResult {
    /// The call that it belongs to.
    pub call: Option<String>,
    /// The text that the model got.
    pub text: String,
    /// The addresses of its images.
    pub images: Vec<String>,
    /// The exit code.
    pub returncode: Option<i64>,
    /// Why the command did not run to its end.
    pub exception: Option<String>,
    /// How long the command took.
    pub seconds: Option<f64>,
    /// Whether the run ended before the model got the result: the text is then the output itself.
    pub is_unseen: bool,
}
