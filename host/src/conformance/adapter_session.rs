//! The host's side of a model adapter: holds conversations, and writes down what comes.

use std::time::Instant;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::answer;
use super::exam::Crash;
use super::histories::Step;
use super::options::Response;
use super::requests::{self, Allowed};
use crate::roles::{
    Adapter, AdapterNext, Change, ErrorClass, Made, Maker, Manner, Message, ModelError, Refused,
    RoleKind, Tool,
};

/// How many requests one query may take.
const ROUND_TRIPS: usize = 8;

/// One query: how the history changes, and what the provider answers to every request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Query {
    #[serde(flatten)]
    pub step: Step,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Tool>,
    /// Attempts before the real one: errors, and responses that break off at their last cut.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub broken: Vec<Response>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Response>,
}

/// What a query came to.
#[derive(Clone, Debug, Default)]
pub(super) struct Trace {
    /// The requests.
    pub sent: Vec<Value>,
    /// What was shown live.
    pub deltas: Vec<Value>,
    /// The reply or the error; null without an answer to feed.
    pub end: Value,
    /// The reply's message.
    pub reply: Option<Message>,
    pub crash: Option<Crash>,
    /// What is wrong with a request: what was expected, and what came.
    pub breach: Option<(String, String)>,
    /// An attempt that was to break off was taken for an answer: no host goes on from there.
    pub void: bool,
}

impl Trace {
    pub fn whole(&self) -> Value {
        json!({"requests": self.sent, "deltas": self.deltas, "end": self.end})
    }
}

/// An adapter, and the history that it has been told.
pub(super) struct Session<'k> {
    adapter: Box<dyn Adapter>,
    pub history: Vec<Message>,
    /// Whether the last query got a reply: else the next one brings everything.
    in_step: bool,
    allowed: &'k Allowed,
}

impl<'k> Session<'k> {
    pub async fn start(
        maker: &dyn Maker,
        config: &Value,
        fresh: bool,
        allowed: &'k Allowed,
    ) -> Result<Self, Refused> {
        match maker.make(RoleKind::ModelAdapter, config, fresh).await? {
            Made::Adapter(adapter) => Ok(Self {
                adapter,
                history: Vec::new(),
                in_step: false,
                allowed,
            }),
            _ => Err(Refused::Failed(
                "another role was made than asked for".into(),
            )),
        }
    }

    pub async fn query(&mut self, query: &Query) -> Trace {
        let mut trace = Trace::default();
        query.step.change().apply(&mut self.history);
        let change = if self.in_step {
            query.step.change()
        } else {
            Change::all(self.history.clone())
        };
        let since = Instant::now();
        let next = self.adapter.query(&change, &query.tools).await;
        self.in_step = false;
        let end = match next {
            Ok(next) => self.converse(next, query, &mut trace).await,
            Err(error) => Err(error),
        };
        match end {
            Ok(end) => trace.end = end,
            Err(error) if error.class == ErrorClass::Plugin => {
                self.adapter.discard();
                trace.crash = Some(Crash {
                    manner: Manner::Crashed,
                    message: error.message,
                    took: since.elapsed(),
                });
            }
            Err(error) => {
                trace.end = json!({"error": {
                    "class": error.class.as_str(),
                    "message": error.message,
                    "retry_after_ms": error.retry_after.map(|wait| wait.as_millis() as u64),
                    "usage": error.usage,
                }});
            }
        }
        trace
    }

    /// An attempt that brings no answer: an error that is read to its end, or a response that
    /// breaks off. Answers whether the adapter took it for an answer all the same.
    async fn break_off(&mut self, broken: &Response) -> Result<bool, ModelError> {
        self.adapter.head(broken.status, &broken.headers).await?;
        let is_whole = broken.status >= 400;
        let mut pieces = broken.pieces();
        if !is_whole {
            pieces.pop();
        }
        for piece in pieces {
            self.adapter.feed(piece).await?;
        }
        if !is_whole {
            return Ok(false);
        }
        match self.adapter.finish().await {
            Err(error) if error.class == ErrorClass::Plugin => Err(error),
            finished => Ok(finished.is_ok()),
        }
    }

    async fn converse(
        &mut self,
        mut next: AdapterNext,
        query: &Query,
        trace: &mut Trace,
    ) -> Result<Value, ModelError> {
        loop {
            let request = match next {
                AdapterNext::Reply(reply) => {
                    self.in_step = true;
                    let end = json!({ "reply": answer::reply(&reply) });
                    trace.reply = Some(reply.message);
                    return Ok(end);
                }
                AdapterNext::Send(request) => request,
            };
            if trace.breach.is_none() {
                trace.breach = requests::breach(&request, self.allowed);
            }
            trace.sent.push(answer::request(&request));
            if trace.sent.len() > ROUND_TRIPS {
                return Ok(json!("no reply after 8 requests"));
            }
            let Some(response) = &query.answer else {
                return Ok(Value::Null);
            };
            for broken in &query.broken {
                trace.void |= self.break_off(broken).await?;
            }
            self.adapter
                .head(response.status, &response.headers)
                .await?;
            for piece in response.pieces() {
                for delta in self.adapter.feed(piece).await? {
                    trace.deltas.push(json!([delta.kind, delta.text]));
                }
            }
            next = self.adapter.finish().await?;
        }
    }
}
