//! Repeats a recorded run without a model and without commands.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use mswea_core::{Context, Front, HttpRequest, Message, Nobody, Stop, Tool};
use mswea_record::journal::MemoryJournal;
use mswea_run::fold;
use mswea_run::{Contradiction, ReplayEnd, ReplayPlan};
use serde_json::{Value, json};

use super::{Earlier, Job, Runtime, SetupError};

/// The result of a replay.
#[derive(Debug)]
pub struct Replay {
    /// The history.
    pub messages: Vec<Arc<Message>>,
    /// The view that the last query sent.
    pub view: Vec<Arc<Message>>,
    /// The tools that were offered.
    pub tools: Vec<Tool>,
    /// The request of the last query, if it was asked for and there is one, or the reason why it
    /// can't be made.
    pub request: Option<Result<HttpRequest, String>>,
    /// Why the replay stopped before the end of the recorded run.
    pub stopped: Option<String>,
    /// What of the record could not be compared, and why.
    pub remarks: Vec<String>,
    contradiction: Option<Contradiction>,
}

/// Where a replay differs from its record.
#[derive(Clone, Debug, PartialEq)]
pub enum DifferencePlace {
    /// The message with this index.
    Message(usize),
    /// The event with this number, and how it differs.
    Event(u64, String),
    /// The message with this index of the trajectory, which the journal does not give.
    TrajectoryMessage(usize),
    /// A value of the trajectory, by its JSON pointer, which the journal does not give.
    TrajectoryValue(&'static str),
}

impl fmt::Display for DifferencePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Message(index) => write!(f, "message {index} differs (counted from 0)"),
            Self::Event(seq, how) => write!(f, "line {seq} of the journal differs: {how}"),
            Self::TrajectoryMessage(index) => write!(
                f,
                "message {index} of the trajectory is not the one of its journal (counted from 0)"
            ),
            Self::TrajectoryValue(pointer) => {
                write!(
                    f,
                    "`{pointer}` of the trajectory is not the one of its journal"
                )
            }
        }
    }
}

/// The first part in which a replay differs from its record.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Which part.
    pub place: DifferencePlace,
    /// As it is recorded; `None` if the record does not have it.
    pub recorded: Option<Value>,
    /// As it is replayed; `None` if the replay does not have it.
    pub replayed: Option<Value>,
}

/// Replays the run of `job.from` ([`Earlier::to_replay`]): what came from outside is taken from the
/// journal, and what the plugins make of it is made anew. Nothing is sent, run or written. The first messages of
/// a journal are made anew only if it is to be verified.
///
/// # Errors
/// [`SetupError`](crate::SetupError) if a part of the config can't be used.
pub async fn replay(
    runtime: &Runtime,
    mut job: Job<'_>,
    front: Arc<dyn Front>,
    stop: Stop,
    purpose: ReplayUse,
) -> Result<Replay, SetupError> {
    let is_journal = job.from.as_ref().is_some_and(|it| !it.is_foreign());
    let records = job.from.as_mut().map(Earlier::take_records);
    let context = Context::new(front, Arc::new(MemoryJournal::new()), stop);
    let agent = runtime.prepare(job, context, Arc::new(Nobody), &[]).await?;
    let plan = ReplayPlan {
        drafts: purpose == ReplayUse::Draft,
        is_whole: purpose == ReplayUse::Verify && is_journal,
    };
    let ReplayEnd {
        messages,
        view,
        tools,
        request,
        stopped,
        contradiction,
        remarks,
    } = agent.replay(&records.unwrap_or_default(), plan).await;
    Ok(Replay {
        messages,
        view,
        tools,
        request,
        stopped,
        remarks,
        contradiction,
    })
}

impl Replay {
    /// The first difference from the recorded run; times and costs of messages don't count.
    pub fn difference(&self, recorded: &Earlier) -> Option<Difference> {
        let messages = &recorded.state().messages;
        let longest = messages.len().max(self.messages.len());
        let of_messages = (0..longest).find_map(|index| {
            let before = messages.get(index).map(|it| comparable(it));
            let now = self.messages.get(index).map(|it| comparable(it));
            (before != now).then_some(Difference {
                place: DifferencePlace::Message(index),
                recorded: before,
                replayed: now,
            })
        });
        of_messages.or_else(|| {
            let found = self.contradiction.as_ref()?;
            let how = format!(
                "`{}` of `{}` does not follow from what is recorded before it",
                found.key, found.event
            );
            Some(Difference {
                place: DifferencePlace::Event(found.seq, how),
                recorded: Some(found.recorded.clone()),
                replayed: Some(found.expected.clone()),
            })
        })
    }
}

impl Earlier {
    /// The first event in which the journal differs from the digests of what this user's hosts have recorded.
    ///
    /// # Errors
    /// A text, if there are no digests of the run on this machine.
    pub fn difference_from_digests(&self) -> Result<Option<Difference>, String> {
        let changed = self.changed_since()?;
        Ok(changed.map(|(seq, how)| Difference {
            place: DifferencePlace::Event(seq, how),
            recorded: None,
            replayed: None,
        }))
    }

    /// The first part in which a trajectory of this run differs from the one that the journal gives. One that was
    /// written before the end of the run is compared as far as it goes.
    ///
    /// # Errors
    /// A text, if the file can't be read.
    pub fn difference_from_trajectory(&self, path: &Path) -> Result<Option<Difference>, String> {
        let parsed = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes);
        let read = mswea_files::read(path, mswea_files::RECORDS);
        let read = read.map_err(|error| error.to_string());
        let written = read.and_then(|bytes| parsed(&bytes).map_err(|error| error.to_string()));
        let written = written
            .map_err(|why| format!("can't read the trajectory `{}`: {why}", path.display()))?;
        // In the form of the file.
        let made = fold(self.records()).into_trajectory().to_string();
        let made = parsed(made.as_bytes()).map_err(|error| error.to_string())?;
        Ok(trajectory_difference(&written, &made))
    }
}

fn trajectory_difference(written: &Value, made: &Value) -> Option<Difference> {
    const ENDED: [&str; 4] = [
        "/info/exit_status",
        "/info/submission",
        "/info/model_stats",
        "/info/mswea/usage",
    ];
    let is_complete = |it: &Value| it.pointer("/info/mswea/complete") == Some(&true.into());
    let is_whole = is_complete(written) && is_complete(made);
    let messages = |it: &Value| it["messages"].as_array().cloned().unwrap_or_default();
    let (mut before, now) = (messages(written), messages(made));
    if !is_whole && before.last().is_some_and(|it| it["role"] == "exit") {
        // The run went on after this end.
        before.pop();
    }
    let longest = match is_whole {
        true => before.len().max(now.len()),
        false => before.len(),
    };
    let index = (0..longest).find(|index| before.get(*index) != now.get(*index));
    let of_message = index.map(|index| Difference {
        place: DifferencePlace::TrajectoryMessage(index),
        recorded: before.get(index).cloned(),
        replayed: now.get(index).cloned(),
    });
    let ended = ENDED.into_iter().filter(|_| is_whole);
    let mut values = std::iter::once("/info/mswea/run_id").chain(ended);
    of_message.or_else(|| {
        values.find_map(|pointer| {
            let (before, now) = (written.pointer(pointer), made.pointer(pointer));
            (before != now).then_some(Difference {
                place: DifferencePlace::TrajectoryValue(pointer),
                recorded: before.cloned(),
                replayed: now.cloned(),
            })
        })
    })
}

/// What a replay is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayUse {
    /// To compare it with its record: the first messages and the end of a journal are made anew, too.
    Verify,
    /// To show the last query: the first messages and the end are copied.
    Show,
    /// As `Show`, with the request of the last query.
    Draft,
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
