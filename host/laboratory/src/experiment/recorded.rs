//! Recorded runs in the form that experiments need: each query with its results, and the history
//! before it. A journal and a trajectory are read as the same events.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use super::excerpt::{number, one_line};
use mswea_core::{Action, Event, Message, Outcome, Output, Problem, Reply};
use mswea_record::journal::{self, Record};
use mswea_record::trajectory;
use mswea_run::{Phase, State};
use mswea_text::MendedJson;

/// The runs of an experiment.
#[derive(Debug, Default)]
pub struct RecordedRuns {
    /// The runs, by name.
    pub runs: Vec<Run>,
    /// The files that were left out, with the reason.
    pub warnings: Vec<String>,
}

/// One run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    /// The run's file, relative to the folder that was named.
    pub name: String,
    /// Empty if unknown.
    pub run_id: String,
    /// The history, without the parts that no plugin gets.
    pub history: Vec<Arc<Message>>,
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
    /// The result of the run's parser. Of a problem there is only the code, if it is recorded.
    pub outcome: Option<Outcome>,
    /// The verdicts on actions that a policy changed or denied, by the action's index.
    pub verdicts: Vec<(usize, RecordedVerdict)>,
    /// The input of the formatter, action by action; empty if that was not recorded.
    pub outputs: Vec<(Action, Output)>,
    /// The formatter's messages: `history[observed]`.
    pub observed: Range<usize>,
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
            Some(Outcome::Actions(actions)) => actions,
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
    /// The places do not contain it.
    #[error("no {what} in {places}: looked for {wanted}, {seen}; {remedy}")]
    Nothing {
        /// Recorded runs, or a shadow.
        what: &'static str,
        /// The places.
        places: String,
        /// The files in which it would be.
        wanted: &'static str,
        /// The content of the files.
        seen: String,
        /// How it comes to be.
        remedy: &'static str,
    },
}

/// A file that may hold a run.
pub(super) struct FoundFile {
    pub path: PathBuf,
    /// Its path, relative to the place.
    pub name: String,
    pub is_journal: bool,
}

impl RecordedRuns {
    /// Reads runs from folders (with what is below them) and files. Damaged files are left out with
    /// a warning. A run with a journal and a trajectory is read from the journal, which contains
    /// more.
    ///
    /// # Errors
    /// [`RecordedError`] if one of the places can't be read, or they contain no run.
    pub fn load(places: &[PathBuf]) -> Result<Self, RecordedError> {
        let (files, mut warnings) = find(places)?;
        let mut known = HashSet::new();
        let mut runs = Vec::new();
        for is_journal in [true, false] {
            let files = files.iter().filter(|file| file.is_journal == is_journal);
            let files: Vec<&FoundFile> = files.collect();
            let mut read = Vec::new();
            super::spread(&files, 0, |file| fold(file, &known), |one| read.push(one));
            for (file, result) in files.iter().zip(read) {
                let path = shown(&file.path);
                let mut left_out =
                    |why: &str| warnings.push(format!("left out `{path}`: {}", one_line(why)));
                match result {
                    Ok(None) => {}
                    Ok(Some((run, note))) => {
                        if run.run_id.is_empty() || known.insert(run.run_id.clone()) {
                            match run.steps.is_empty() {
                                true => left_out("it has no query in it"),
                                false => runs.push(run),
                            }
                        }
                        warnings.extend(note.map(|note| format!("`{path}`: {note}")));
                    }
                    Err(reason) => left_out(&reason),
                }
            }
        }
        if runs.is_empty() {
            return Err(RecordedError::Nothing {
                what: "recorded run",
                places: named(places),
                wanted: "journals (`*.events.jsonl`) and trajectories (`*.traj.json`, format `mini-swe-agent-1.1`)",
                seen: match files.len() {
                    0 => "and found none".to_owned(),
                    seen => format!("and none of {seen} could be used{}", first(&warnings)),
                },
                remedy: "a run makes both with `-o FILE`",
            });
        }
        runs.sort_by(|a, b| a.name.cmp(&b.name));
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

/// The first warning, for an error.
pub(super) fn first(warnings: &[String]) -> String {
    let first = warnings.first();
    let first = first.map(|first| format!(" (the first warning: {})", one_line(first)));
    first.unwrap_or_default()
}

pub(super) fn named(places: &[PathBuf]) -> String {
    let names = places.iter().map(|place| format!("`{}`", shown(place)));
    match places.is_empty() {
        true => "nothing, as no place was named".to_owned(),
        false => names.collect::<Vec<_>>().join(", "),
    }
}

/// Whether a file is a journal (or else a trajectory), by its name. A journal that was renamed to
/// make room for a later one ends with a number.
fn is_journal(name: &str) -> Option<bool> {
    if name.ends_with(".traj.json") {
        return Some(false);
    }
    let stem = name
        .rsplit_once('.')
        .filter(|(_, end)| end.bytes().all(|b| b.is_ascii_digit()));
    let name = stem.map_or(name, |(stem, _)| stem);
    (name == "events.jsonl" || name.ends_with(".events.jsonl")).then_some(true)
}

/// All files of the places, each once, sorted by path within each place; and warnings about what
/// could not be read.
pub(super) fn find(places: &[PathBuf]) -> Result<(Vec<FoundFile>, Vec<String>), RecordedError> {
    let (mut found, mut warnings, mut seen) = (Vec::new(), Vec::new(), HashSet::new());
    for place in places {
        let is_readable = std::fs::metadata(place).and_then(|it| match it.is_dir() {
            true => std::fs::read_dir(place).map(|_| true),
            false => Ok(false),
        });
        let path = shown(place);
        let is_folder = is_readable.map_err(|source| RecordedError::Io { path, source })?;
        let mut files = Vec::new();
        let mut folders = Vec::new();
        if is_folder {
            folders.push(place.clone());
        } else {
            // A file that is named itself is read, whatever its name.
            let name = place.file_name().unwrap_or_default().to_string_lossy();
            files.push(FoundFile {
                path: place.clone(),
                is_journal: is_journal(&name).unwrap_or(name.ends_with(".jsonl")),
                name: name.into_owned(),
            });
        }
        while let Some(folder) = folders.pop() {
            let entries = match std::fs::read_dir(&folder) {
                Ok(entries) => entries,
                Err(error) => {
                    warnings.push(format!("left out `{}`: {error}", shown(&folder)));
                    continue;
                }
            };
            for entry in entries.flatten() {
                let path = entry.path();
                // Links to folders are not followed, because they may form loops.
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    folders.push(path);
                } else if let Some(is_journal) = is_journal(&entry.file_name().to_string_lossy())
                    && path.is_file()
                {
                    let name = path.strip_prefix(place).unwrap_or(&path).to_string_lossy();
                    files.push(FoundFile {
                        name: name.into_owned(),
                        path,
                        is_journal,
                    });
                }
            }
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        files.retain(|file| {
            let real = file.path.canonicalize();
            seen.insert(real.unwrap_or_else(|_| file.path.clone()))
        });
        found.append(&mut files);
    }
    Ok((found, warnings))
}

/// Passes on the records of a journal, and returns a note about its end, if that is damaged. An
/// incomplete last line is left by a host that was killed: its event had not taken effect, while all
/// earlier ones had.
pub(super) fn each(path: &Path, take: impl FnMut(Record)) -> Result<Option<String>, String> {
    let log = journal::each(path, take).map_err(|error| error.to_string())?;
    Ok(log.torn.map(|torn| {
        format!(
            "its last line ({}) is torn, as a killed run leaves it; what is before it is used",
            torn.line
        )
    }))
}

type Folded = Option<(Run, Option<String>)>;

/// Reads a run, with a note about the file; none if the run is one of the `known` ones.
fn fold(file: &FoundFile, known: &HashSet<String>) -> Result<Folded, String> {
    let mut fold = RunFold::default();
    fold.run.name.clone_from(&file.name);
    let note = match file.is_journal {
        true => each(&file.path, |record| fold.take(record))?,
        false => {
            let owner = trajectory::owner(&file.path)
                .ok()
                .and_then(|owner| owner.run_id);
            if owner.is_some_and(|id| known.contains(&id)) {
                return Ok(None);
            }
            let (value, note) = read_trajectory(&file.path)
                .map_err(|why| format!("it is no trajectory, or a damaged one: {why}"))?;
            let records = trajectory::records_from_trajectory(&value, "")?;
            fold.is_trajectory = true;
            records.into_iter().for_each(|record| fold.take(record));
            note
        }
    };
    fold.close(false);
    Ok(Some((fold.run, note)))
}

fn read_trajectory(path: &Path) -> Result<(Value, Option<String>), String> {
    let bytes = mswea_files::read(path, mswea_files::RECORDS).map_err(|error| error.to_string())?;
    let error = match serde_json::from_slice(&bytes) {
        Ok(value) => return Ok((value, None)),
        Err(error) => error,
    };
    let mended = MendedJson::of(&bytes).ok_or_else(|| error.to_string())?;
    let value = serde_json::from_slice(&mended.text).map_err(|error| error.to_string())?;
    let halves = number(mended.halves, "`\\u` escape");
    let note = format!("it has {halves} of half a character, read as U+FFFD");
    Ok((value, (mended.halves > 0).then_some(note)))
}

/// Folds the events of a run.
#[derive(Default)]
struct RunFold {
    run: Run,
    is_trajectory: bool,
    /// The state after the events so far. Its messages are moved to `run` after each event.
    state: State,
    asked: Option<(String, Vec<Message>)>,
    /// The outputs of the open step, by the action's index.
    outputs: BTreeMap<usize, Output>,
    is_open: bool,
}

impl RunFold {
    fn take(&mut self, Record { t, event, .. }: Record) {
        self.state.apply(t, event.clone());
        let is_accepted = matches!(event, Event::Accepted { .. });
        let is_observed = matches!(event, Event::Observed { .. }) && self.is_open;
        for message in self.state.messages.drain(..) {
            // Then the formatter's input is not known.
            let lacks_output = self.is_trajectory && !message.extra.contains_key("raw_output");
            self.run.history.push(Message::lightened(message));
            if let Some(step) = self.run.steps.last_mut().filter(|_| is_observed) {
                step.observed.end = self.run.history.len();
                if lacks_output {
                    self.is_open = false;
                    self.outputs.clear();
                }
            }
        }
        let Run {
            history,
            steps,
            questions,
            ..
        } = &mut self.run;
        match event {
            Event::RunStarted { run_id, .. } => self.run.run_id = run_id,
            Event::RunResumed { .. } => {
                while history.last().is_some_and(|it| it.role == "exit") {
                    history.pop();
                }
            }
            Event::QueryStarted { query, .. } => {
                self.close(false);
                let Run { history, steps, .. } = &mut self.run;
                // A query without a reply is sent again with the same number when the run is resumed.
                steps.pop_if(|step| step.number == query && step.reply.is_none());
                steps.push(Step {
                    number: query,
                    seen: history.len(),
                    ..Step::default()
                });
            }
            // A sample of the step is no question of a processor.
            Event::Asked { .. } if self.state.phase == Phase::Querying => {}
            Event::Asked {
                purpose, messages, ..
            } => self.asked = Some((purpose, messages)),
            Event::AskReply { reply, .. } => {
                if let Some((purpose, messages)) = self.asked.take() {
                    let messages = messages.iter().map(Message::light).collect();
                    let reply = Reply {
                        response: None,
                        ..reply
                    };
                    questions.push(RecordedQuestion {
                        purpose,
                        messages,
                        reply,
                    });
                }
            }
            Event::Output { index, output, .. } => {
                self.outputs.insert(index, output);
            }
            Event::RunEnded { exit_status, .. } => {
                self.close(exit_status.eq_ignore_ascii_case("submitted"));
            }
            event => {
                let here = history.len();
                if let Some(step) = steps.last_mut() {
                    self.is_open |= is_accepted;
                    step.take(event, here, self.is_trajectory);
                    // Without the reply in the record there is nothing to parse.
                    steps.pop_if(|step| step.outcome.is_some() && step.reply.is_none());
                }
            }
        }
    }

    /// Ends the step, whose events are complete. The output that submitted was not shown to the
    /// model.
    fn close(&mut self, is_submission: bool) {
        let mut outputs = std::mem::take(&mut self.outputs);
        if is_submission {
            outputs.pop_last();
        }
        let is_open = std::mem::take(&mut self.is_open);
        let Some(step) = self.run.steps.last_mut().filter(|_| is_open) else {
            return;
        };
        let observed = self.run.history[step.observed.clone()].iter();
        let answered: Vec<&str> = observed
            .filter_map(|it| it.tool_call_id.as_deref())
            .collect();
        step.outputs = formatted(step, outputs, &answered);
    }
}

impl Step {
    /// Takes an event of the step; `here` is the length of the history after it.
    fn take(&mut self, event: Event, here: usize, is_trajectory: bool) {
        match event {
            Event::Reply { reply, .. } => {
                let mut reply = Reply {
                    message: reply.message.light(),
                    response: None,
                    ..reply
                };
                // A trajectory may lack the provider's response, which has it.
                if is_trajectory && reply.finish_reason.is_empty() {
                    reply.finish_reason = match reply.message.tool_calls.is_empty() {
                        true => "stop".to_owned(),
                        false => "tool_calls".to_owned(),
                    };
                }
                self.reply = Some(reply);
            }
            Event::Accepted { actions } => {
                self.outcome = Some(Outcome::Actions(actions));
                self.observed = here..here;
            }
            Event::Rejected { code, feedback, .. } => {
                let has_reply = |it: Message| {
                    ["response", "model_response"]
                        .iter()
                        .any(|key| it.extra.contains_key(*key))
                };
                // A trajectory has the reply in the feedback, and no code.
                if is_trajectory && !feedback.is_some_and(has_reply) {
                    self.reply = None;
                }
                self.outcome = Some(Outcome::Malformed(Problem {
                    code: if is_trajectory { String::new() } else { code },
                    ..Problem::default()
                }));
            }
            Event::Action { index, action } => {
                self.verdicts.push((index, RecordedVerdict::Ran(action)));
            }
            Event::Denied {
                index,
                policy,
                reason,
                ..
            } => {
                let denied = RecordedVerdict::Denied { policy, reason };
                self.verdicts.push((index, denied));
            }
            _ => {}
        }
    }
}

/// The formatter's input: the outputs of actions that ran, and those that the loop makes up for
/// actions that did not run, because a provider refuses a tool call without a result. Which of them
/// the formatter got is found out from the calls that its messages answer, so that runs of other
/// versions of the loop are read correctly.
fn formatted(
    step: &Step,
    outputs: BTreeMap<usize, Output>,
    answered: &[&str],
) -> Vec<(Action, Output)> {
    let actions = step.actions();
    let ids = actions
        .iter()
        .filter_map(|action| action.tool_call_id.as_deref());
    let mut used: Vec<&str> = ids.collect();
    let calls = step
        .reply
        .iter()
        .flat_map(|reply| &reply.message.tool_calls);
    let mut all = Vec::new();
    for call in calls {
        if let Some(position) = used.iter().position(|id| *id == call.id) {
            used.swap_remove(position);
        } else if answered.contains(&call.id.as_str()) {
            let tool_call_id = Some(call.id.clone());
            let action = Action {
                tool_call_id,
                ..Action::default()
            };
            let why = "no command was found in this tool call";
            all.push((action, Output::not_executed(why)));
        }
    }
    let skipped = actions.iter().skip(outputs.len()).filter(|action| {
        let id = action.tool_call_id.as_deref();
        id.is_some_and(|id| answered.contains(&id))
    });
    let skipped: Vec<_> = skipped
        .map(|action| {
            (
                action.clone(),
                Output::not_executed("action was not executed"),
            )
        })
        .collect();
    let ran = outputs.into_iter();
    all.extend(ran.filter_map(|(index, output)| Some((actions.get(index)?.clone(), output))));
    all.extend(skipped);
    all
}

#[cfg(test)]
mod tests;
