//! Recorded runs, as experiments want them: each query with what came of it, and the history as
//! it stood before.

mod files;
mod journal;
mod trajectory;

use std::collections::HashSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::text::one_line;
use crate::roles::{Action, Message, Object, Output, Reply};

/// Runs to experiment on.
#[derive(Debug, Default)]
pub struct Recorded {
    /// The runs, by name.
    pub runs: Vec<Run>,
    /// What was left out, file by file, for a person.
    pub warnings: Vec<String>,
}

/// The form that a run was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Form {
    /// `events.jsonl`.
    Journal,
    /// `*.traj.json`.
    Trajectory,
}

/// One run.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Its file, as short as the folder that was named allows.
    pub name: String,
    /// Journal or trajectory.
    pub form: Form,
    /// Empty if unknown.
    pub run_id: String,
    /// The history, without what no plugin is shown.
    pub history: Vec<Message>,
    /// The queries, in order.
    pub steps: Vec<Step>,
    /// What processors asked, and the answers.
    pub questions: Vec<Question>,
}

/// One query and what came of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Step {
    /// The query's number, from 1.
    pub number: u32,
    /// The history was `history[..seen]` then.
    pub seen: usize,
    /// What the model answered, if it did; without the provider's response, which no plugin is
    /// shown either.
    pub reply: Option<Reply>,
    /// What the parser of that time made of it.
    pub outcome: Option<RecordedOutcome>,
    /// What was said of each action that a policy had its say on.
    pub verdicts: Vec<(usize, RecordedVerdict)>,
    /// What the formatter was given, action by action; empty if that was not recorded.
    pub outputs: Vec<(Action, Output)>,
    /// What the formatter made of it: `history[observed]`.
    pub observed: Range<usize>,
}

/// What the recorded run made of a reply.
#[derive(Clone, Debug, PartialEq)]
pub enum RecordedOutcome {
    /// These actions.
    Actions(Vec<Action>),
    /// It was rejected; the word for it, if the record has that.
    Malformed(Option<String>),
}

/// What became of an action in the recorded run.
#[derive(Clone, Debug, PartialEq)]
pub enum RecordedVerdict {
    /// This was run.
    Ran(Action),
    /// It was not allowed.
    Denied {
        /// By this policy.
        policy: String,
        /// The feedback.
        reason: String,
    },
}

/// A question of a processor.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// What for.
    pub purpose: String,
    /// The conversation.
    pub messages: Vec<Message>,
    /// The answer.
    pub reply: Reply,
}

impl Step {
    /// The actions that the run took.
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
    /// Not readable.
    #[error("can't read `{path}`: {source}; name a folder with recorded runs, or their files")]
    Io {
        /// What was named.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// No run in it.
    #[error(
        "no recorded run in {places}: looked for journals (`*.events.jsonl`) and trajectories (`*.traj.json`, format `mini-swe-agent-1.1`), {seen}; a run makes both with `-o FILE`"
    )]
    Nothing {
        /// What was named.
        places: String,
        /// What was there.
        seen: String,
    },
    /// No shadow in any of them.
    #[error(
        "no shadow in {places}: looked for what one records in journals (`*.events.jsonl`), {seen}; a run has one with `--shadow FILE`, and a journal with `-o FILE`"
    )]
    NoShadow {
        /// What was named.
        places: String,
        /// What was there.
        seen: String,
    },
}

/// The journals of the places, as [`Recorded::load`] finds them, and what could not be looked at.
pub(super) fn journals(places: &[PathBuf]) -> Result<files::Files, RecordedError> {
    let mut found = files::find(places)?;
    found.files.retain(|file| file.form == Form::Journal);
    Ok(found)
}

/// A file that can't be used, or is the second one of a run.
enum Left {
    Damaged(String),
    Known,
}

impl Recorded {
    /// Reads runs from folders (with what is below them) and files. What is damaged is left out
    /// with a warning. A run that is there as a journal and as a trajectory is read once, as the
    /// journal, which knows more.
    ///
    /// # Errors
    /// When something named can't be read, or there is no run in all of it.
    pub fn load(places: &[PathBuf]) -> Result<Self, RecordedError> {
        let found = files::find(places)?;
        let mut known = HashSet::new();
        let mut runs = Vec::new();
        let mut warnings = found.warnings;
        let seen = found.files.len();
        for form in [Form::Journal, Form::Trajectory] {
            let files: Vec<&files::Found> = found.files.iter().filter(|f| f.form == form).collect();
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

    /// How many queries there are in all.
    pub fn steps(&self) -> usize {
        self.runs.iter().map(|run| run.steps.len()).sum()
    }
}

/// A path in one line: its name may be anything but `/`, and an error is for a terminal.
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

/// Reads files on all cores; the answers are in the files' order.
fn read_all(files: &[&files::Found], known: &HashSet<String>) -> Vec<Read> {
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

fn read_one(file: &files::Found, known: &HashSet<String>) -> Read {
    match file.form {
        Form::Journal => journal::read(&file.path, &file.name),
        Form::Trajectory => trajectory::read(&file.path, &file.name, known),
    }
}

/// Without what stays with the host; see [`Message::light`].
fn lighten(mut message: Message) -> Message {
    message.extra.retain(|key, _| !crate::roles::is_bulky(key));
    message
}

/// What a formatter is given, action by action.
type Given = Vec<(Action, Output)>;

/// What the loop hands the formatter besides the outputs there were: a provider refuses a call
/// without a result, so every call gets one. Which of them were shown is known from what was
/// answered, so that other loops' runs are read as they were.
fn stand_ins(
    reply: Option<&Reply>,
    actions: &[Action],
    executed: usize,
    answered: &[&str],
) -> (Given, Given) {
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

/// What an observation's `extra` keeps of the output; none if it keeps no output.
fn raw_output(extra: &Object) -> Option<Output> {
    let mut rest = extra.clone();
    let text = |value: Option<serde_json::Value>| match value {
        Some(serde_json::Value::String(text)) => Some(text),
        _ => None,
    };
    let output = text(rest.shift_remove("raw_output"))?;
    let returncode = rest.shift_remove("returncode")?.as_i64()?;
    let exception_info = text(rest.shift_remove("exception_info")).unwrap_or_default();
    for key in ["timestamp", crate::roles::CONTENT_LIST] {
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
