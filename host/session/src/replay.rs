//! Repeats a recorded run without a model and without commands.

use std::sync::Arc;

use mswea_core::{Context, Front, HttpRequest, Message, Nobody, Stop, Tool};
use mswea_run::ReplayEnd;
use mswea_run::journal::MemoryJournal;
use serde_json::{Value, json};

use super::{Earlier, Job, Runtime, SetupError};

/// The result of a replay.
#[derive(Debug)]
pub struct Replay {
    /// The history, without the message about the end.
    pub messages: Vec<Arc<Message>>,
    /// The view that the last query sent.
    pub view: Vec<Message>,
    /// The tools that were offered.
    pub tools: Vec<Tool>,
    /// The request of the last query, if it was asked for and there is one, or the reason why it
    /// can't be made.
    pub request: Option<Result<HttpRequest, String>>,
    /// Why the replay stopped before the end of the recorded run.
    pub stopped: Option<String>,
}

/// The first message in which a replay differs from its record.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The index of the message.
    pub index: usize,
    /// The recorded message; `None` if the recorded run has no message with this index.
    pub recorded: Option<Value>,
    /// The replayed message; `None` if the replay has no message with this index.
    pub replayed: Option<Value>,
}

/// Replays the run of `job.from` ([`Earlier::to_replay`]): data from outside is taken from the
/// journal, and the results of the plugins are computed anew. No request is sent, no command runs,
/// and no file is written. With `drafts`, the adapter makes the request of the last query.
///
/// # Errors
/// [`SetupError`](crate::SetupError) if a part of the config can't be used.
pub async fn replay(
    runtime: &Runtime,
    mut job: Job<'_>,
    front: Arc<dyn Front>,
    stop: Stop,
    drafts: bool,
) -> Result<Replay, SetupError> {
    let records = job.from.as_mut().map(Earlier::take_records);
    let context = Context::new(front, Arc::new(MemoryJournal::new()), stop);
    let agent = runtime.prepare(job, context, Arc::new(Nobody), &[]).await?;
    let ReplayEnd {
        mut messages,
        view,
        tools,
        request,
        stopped,
    } = agent.replay(&records.unwrap_or_default(), drafts).await;
    messages.retain(|message| message.role != "exit");
    Ok(Replay {
        messages,
        view,
        tools,
        request,
        stopped,
    })
}

impl Replay {
    /// The first difference from the recorded run, except in times and costs.
    pub fn difference(&self, recorded: &Earlier) -> Option<Difference> {
        let mut recorded = recorded.state().messages.clone();
        recorded.retain(|message| message.role != "exit");
        let longest = recorded.len().max(self.messages.len());
        (0..longest).find_map(|index| {
            let before = recorded.get(index).map(|it| comparable(it));
            let now = self.messages.get(index).map(|it| comparable(it));
            (before != now).then_some(Difference {
                index,
                recorded: before,
                replayed: now,
            })
        })
    }
}

/// A message without values that depend on the time of the run.
fn comparable(message: &Message) -> Value {
    let mut value = json!(message);
    if let Some(extra) = value.get_mut("extra").and_then(Value::as_object_mut) {
        extra.remove("timestamp");
        extra.remove("cost");
    }
    value
}
