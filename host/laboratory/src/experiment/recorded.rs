//! Recorded runs in the form that experiments need: each query with its results, and the history
//! before it.

mod files;
mod journal;
mod trajectory;

use std::collections::HashSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::text::one_line;
use mswea_core::{Action, Message, Object, Output, Reply};

/// The runs of an experiment.
#[derive(Debug, Default)]
pub struct RecordedRuns {
    /// The runs, by name.
    pub runs: Vec<Run>,
    /// The files that were left out, with the reason.
    pub warnings: Vec<String>,
}

/// The kind of file that a run was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RunFileFormat {
    /// `events.jsonl`.
    Journal,
    /// `*.traj.json`.
    Trajectory,
}

/// One run.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The run's file, relative to the folder that was named.
    pub name: String,
    /// Journal or trajectory.
    pub form: RunFileFormat,
    /// Empty if unknown.
    pub run_id: String,
    /// The history, without the parts that no plugin gets.
    pub history: Vec<Message>,
    /// The queries, in order.
    pub steps: Vec<Step>,
    /// The questions of processors, with their answers.
    pub questions: Vec<RecordedQuestion>,
}

/// One query and its results.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Step {
    /// The query's number, from 1.
    pub number: u32,
    /// The history before the query is `history[..seen]`.
    pub seen: usize,
    /// The model's reply, if there was one; without the provider's response, which no plugin gets.
    pub reply: Option<Reply>,
    /// The result of the run's parser.
    pub outcome: Option<RecordedOutcome>,
    /// The verdicts on actions that a policy changed or denied, by the action's index.
    pub verdicts: Vec<(usize, RecordedVerdict)>,
    /// The input of the formatter, action by action; empty if that was not recorded.
    pub outputs: Vec<(Action, Output)>,
    /// The formatter's messages: `history[observed]`.
    pub observed: Range<usize>,
}

/// The recorded result of parsing a reply.
#[derive(Clone, Debug, PartialEq)]
pub enum RecordedOutcome {
    /// These actions.
    Actions(Vec<Action>),
    /// It was rejected; with the problem's code, if that is recorded.
    Malformed(Option<String>),
}

/// The result of an action in the recorded run.
#[derive(Clone, Debug, PartialEq)]
pub enum RecordedVerdict {
    /// This action was run.
    Ran(Action),
    /// It was denied.
    Denied {
        /// By this policy.
        policy: String,
        /// The feedback.
        reason: String,
    },
}

/// A question that a processor asked the model.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedQuestion {
    /// Its purpose.
    pub purpose: String,
    /// The conversation.
    pub messages: Vec<Message>,
    /// The answer.
    pub reply: Reply,
}

impl Step {
    /// The actions that the parser found.
    pub fn actions(&self) -> &[Action] {
        match &self.outcome {
            Some(RecordedOutcome::Actions(actions)) => actions,
            _ => &[],
        }
    }
}

/// Why there is nothing to experiment on.
#[derive(Debug, thiserror::Error)]
pub enum RecordedError {
    /// A file or folder can't be read.
    #[error("can't read `{path}`: {source}; name a folder with recorded runs, or their files")]
    Io {
        /// Its path.
        path: String,
        /// The reason.
        source: std::io::Error,
    },
    /// The places contain no run.
    #[error(
        "no recorded run in {places}: looked for journals (`*.events.jsonl`) and trajectories (`*.traj.json`, format `mini-swe-agent-1.1`), {seen}; a run makes both with `-o FILE`"
    )]
    Nothing {
        /// The places.
        places: String,
        /// The content of the records.
        seen: String,
    },
    /// The runs contain no shadow.
    #[error(
        "no shadow in {places}: looked for what one records in journals (`*.events.jsonl`), {seen}; a run has one with `--shadow FILE`, and a journal with `-o FILE`"
    )]
    NoShadow {
        /// The places.
        places: String,
        /// The content of the records.
        seen: String,
    },
}

/// The journals in the places, as [`RecordedRuns::load`] finds them, with warnings about what could not
/// be read.
pub(super) fn journals(places: &[PathBuf]) -> Result<files::FoundFiles, RecordedError> {
    let mut found = files::find(places)?;
    found
        .files
        .retain(|file| file.form == RunFileFormat::Journal);
    Ok(found)
}

/// Why a file is left out: it can't be used, or its run was read from another file.
enum Left {
    Damaged(String),
    Known,
}

impl RecordedRuns {
    /// Reads runs from folders (with what is below them) and files. Damaged files are left out with
    /// a warning. A run with a journal and a trajectory is read from the journal, which contains
    /// more.
    ///
    /// # Errors
    /// [`RecordedError`] if one of the places can't be read, or they contain no run.
    pub fn load(places: &[PathBuf]) -> Result<Self, RecordedError> {
        let found = files::find(places)?;
        let mut known = HashSet::new();
        let mut runs = Vec::new();
        let mut warnings = found.warnings;
        let seen = found.files.len();
        for form in [RunFileFormat::Journal, RunFileFormat::Trajectory] {
            let files: Vec<&files::FoundFile> =
                found.files.iter().filter(|f| f.form == form).collect();
            for (file, result) in files.iter().zip(read_all(&files, &known)) {
                let left_out = |reason: &str| {
                    format!("left out `{}`: {}", shown(&file.path), one_line(reason))
                };
                match result {
                    Ok((run, note)) => {
                        if let Some(note) = note {
                            warnings.push(format!("`{}`: {note}", shown(&file.path)));
                        }
                        if !run.run_id.is_empty() && !known.insert(run.run_id.clone()) {
                            continue;
                        }
                        if run.steps.is_empty() {
                            warnings.push(left_out("it has no query in it"));
                            continue;
                        }
                        runs.push(run);
                    }
                    Err(Left::Known) => {}
                    Err(Left::Damaged(reason)) => warnings.push(left_out(&reason)),
                }
            }
        }
        if runs.is_empty() {
            return Err(nothing(places, seen, &warnings));
        }
        runs.sort_by(|a, b| (&a.name, a.form).cmp(&(&b.name, b.form)));
        Ok(Self { runs, warnings })
    }

    /// The number of all queries.
    pub fn steps(&self) -> usize {
        self.runs.iter().map(|run| run.steps.len()).sum()
    }
}

/// A path in one line, for messages: a file's name may contain control characters.
pub(super) fn shown(path: &Path) -> String {
    one_line(&path.display().to_string())
}

pub(super) fn named(places: &[PathBuf]) -> String {
    let places: Vec<String> = places
        .iter()
        .map(|place| format!("`{}`", shown(place)))
        .collect();
    match places.len() {
        0 => "nothing, as no place was named".to_owned(),
        _ => places.join(", "),
    }
}

fn nothing(places: &[PathBuf], seen: usize, warnings: &[String]) -> RecordedError {
    RecordedError::Nothing {
        places: named(places),
        seen: match (seen, warnings.first()) {
            (0, _) => "and found none".to_owned(),
            (_, None) => format!("and none of {seen} could be used"),
            (_, Some(first)) => format!(
                "and none of {seen} could be used (the first: {})",
                one_line(first)
            ),
        },
    }
}

type Read = Result<(Run, Option<String>), Left>;

/// Reads files with one thread per core; returns the results in the files' order.
fn read_all(files: &[&files::FoundFile], known: &HashSet<String>) -> Vec<Read> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, Read)>> = Mutex::new(Vec::with_capacity(files.len()));
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(file) = files.get(index) else {
                return;
            };
            let result = read_one(file, known);
            let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
            done.push((index, result));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..super::threads().min(files.len()) {
            scope.spawn(work);
        }
        work();
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

fn read_one(file: &files::FoundFile, known: &HashSet<String>) -> Read {
    match file.form {
        RunFileFormat::Journal => journal::read(&file.path, &file.name),
        RunFileFormat::Trajectory => trajectory::read(&file.path, &file.name, known),
    }
}

/// A message without the parts that stay in the host; see [`Message::light`].
fn lighten(mut message: Message) -> Message {
    message.extra.retain(|key, _| !mswea_core::is_bulky(key));
    message
}

/// The input of a formatter, action by action.
type FormatterInput = Vec<(Action, Output)>;

/// The outputs that the loop makes up for actions that did not run, because a provider refuses a
/// tool call without a result. Which of them the formatter got is found out from the formatter's
/// messages, so that runs of other versions of the loop are read correctly.
fn stand_ins(
    reply: Option<&Reply>,
    actions: &[Action],
    executed: usize,
    answered: &[&str],
) -> (FormatterInput, FormatterInput) {
    let mut used: Vec<&str> = actions
        .iter()
        .filter_map(|action| action.tool_call_id.as_deref())
        .collect();
    let calls = reply.map_or(&[][..], |reply| &reply.message.tool_calls);
    let mut unused = Vec::new();
    for call in calls {
        if let Some(position) = used.iter().position(|id| *id == call.id) {
            used.swap_remove(position);
        } else if answered.contains(&call.id.as_str()) {
            let action = Action {
                tool_call_id: Some(call.id.clone()),
                ..Action::default()
            };
            let reason = "no command was found in this tool call";
            unused.push((action, Output::not_executed(reason)));
        }
    }
    let skipped = actions[executed.min(actions.len())..].iter();
    let skipped = skipped
        .filter(|action| {
            let id = action.tool_call_id.as_deref();
            id.is_some_and(|id| answered.contains(&id))
        })
        .map(|action| {
            let output = Output::not_executed("action was not executed");
            (action.clone(), output)
        });
    (unused, skipped.collect())
}

/// The output that an observation's `extra` holds; none if it holds none.
fn raw_output(extra: &Object) -> Option<Output> {
    let mut rest = extra.clone();
    let text = |value: Option<serde_json::Value>| match value {
        Some(serde_json::Value::String(text)) => Some(text),
        _ => None,
    };
    let output = text(rest.shift_remove("raw_output"))?;
    let returncode = rest.shift_remove("returncode")?.as_i64()?;
    let exception_info = text(rest.shift_remove("exception_info")).unwrap_or_default();
    for key in ["timestamp", mswea_core::CONTENT_LIST] {
        rest.shift_remove(key);
    }
    Some(Output {
        output,
        returncode: i32::try_from(returncode).unwrap_or(-1),
        exception_info,
        extra: rest,
    })
}

#[cfg(test)]
mod tests;
