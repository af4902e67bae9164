//! The host's side of a model adapter: holds conversations and records the results.

use std::time::Instant;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::answer;
use super::exam::Crash;
use super::histories::HistoryStep;
use super::options::Response;
use super::requests::{self, AllowedRequests};
use mswea_core::{
    Adapter, AdapterNext, Change, ConfiguredRole, Delta, Maker, Manner, Message, ModelError,
    ModelFailure, Refused, RoleKind, Tool,
};

/// How many requests one query may take.
const ROUND_TRIPS: usize = 8;

/// One query: the change of the history, and the responses of the provider to its requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Query {
    #[serde(flatten)]
    pub step: HistoryStep,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Tool>,
    /// Attempts before the last one: errors, and responses that are broken off at their last cut.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub broken: Vec<Response>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Response>,
}

/// The result of a query.
#[derive(Clone, Debug, Default)]
pub(super) struct Trace {
    /// The requests.
    pub sent: Vec<Value>,
    /// The deltas.
    pub deltas: Vec<Value>,
    /// The reply or the error; null if there was no response to feed.
    pub end: Value,
    /// The reply's message.
    pub reply: Option<Message>,
    pub crash: Option<Crash>,
    /// The breach in a request: what was expected, and what came.
    pub breach: Option<(String, String)>,
    /// A response that was to be broken off was accepted as complete; a host can't continue from
    /// there.
    pub void: bool,
}

impl Trace {
    pub fn whole(&self) -> Value {
        json!({"requests": self.sent, "deltas": self.deltas, "end": self.end})
    }
}

/// An adapter, and the history that it has received.
pub(super) struct AdapterSession<'k> {
    adapter: Box<dyn Adapter>,
    pub history: Vec<Message>,
    /// Whether the last query had a reply; otherwise the next one passes the whole history.
    in_step: bool,
    allowed: &'k AllowedRequests,
}

impl<'k> AdapterSession<'k> {
    pub async fn start(
        maker: &dyn Maker,
        config: &Value,
        fresh: bool,
        allowed: &'k AllowedRequests,
    ) -> Result<Self, Refused> {
        match maker.make(RoleKind::ModelAdapter, config, fresh).await? {
            ConfiguredRole::Adapter(adapter) => Ok(Self {
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

    /// Makes the adapter pass bodies whole. Returns whether it can pass them in pieces.
    pub fn say_whole(&mut self) -> bool {
        self.adapter.say_whole()
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
            Err(error) if error.class == ModelFailure::Plugin => {
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

    /// An attempt without an answer: an error response that is read to its end, or a response that
    /// breaks off. Returns whether the adapter accepted it as an answer.
    async fn break_off(&mut self, broken: &Response) -> Result<bool, ModelError> {
        self.adapter.head(broken.status, &broken.headers).await?;
        let is_whole = broken.status >= 400;
        let mut pieces = broken.pieces();
        if !is_whole {
            pieces.pop();
        }
        self.feed(&pieces).await?;
        if !is_whole {
            return Ok(false);
        }
        match self.adapter.finish().await {
            Err(error) if error.class == ModelFailure::Plugin => Err(error),
            finished => Ok(finished.is_ok()),
        }
    }

    /// Passes pieces of a body, until the adapter says that nothing that follows counts. Returns the
    /// deltas.
    async fn feed(&mut self, pieces: &[&[u8]]) -> Result<Vec<Value>, ModelError> {
        let mut all = Vec::new();
        for piece in pieces {
            let deltas = self.adapter.feed(piece).await?;
            all.extend(deltas.iter().map(|delta| json!([delta.kind, delta.text])));
            if deltas.iter().any(|delta| delta.kind == Delta::END) {
                break;
            }
        }
        Ok(all)
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
            let deltas = self.feed(&response.pieces()).await?;
            trace.deltas.extend(deltas);
            next = self.adapter.finish().await?;
        }
    }
}
