//! Runs for a program that displays them itself: the list of runs, and a run page by page. A page
//! is a reply of the model with its results; the first page has the prompts.

use std::borrow::Cow;
use std::ops::Range;

use mswea_core::{Event, View};
use mswea_export::{ConversationStep, SecretValues};
use mswea_text::harmless;
use serde_json::Value;

use crate::blanked::SecretsFiles;
use crate::card::{FileStamp, RunCard};
use crate::indexed::IndexedTrajectory;
use crate::opened::OpenedRun;
use crate::places;
use crate::settings::{SecretsIn, ViewRoots};
use crate::steps::{call_text, cleaned, readable};
use crate::table::{ListedRun, RunTable};

/// The list of runs.
pub struct RunList {
    roots: ViewRoots,
    table: RunTable,
    secrets: SecretValues,
    files: SecretsFiles,
}

/// A run in the list, as texts.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs, reason = "named after what they hold")]
pub struct RunLine {
    pub name: String,
    pub status: String,
    pub is_running: bool,
    pub task: String,
    pub model: String,
    pub steps: u32,
    pub cost: Option<f64>,
    pub tokens: u64,
    /// Seconds; none if no times are recorded.
    pub took: Option<f64>,
}

impl RunList {
    /// The runs in these places. Secrets are blanked, also those in the files that the runs name.
    pub fn new(roots: ViewRoots, secrets: SecretValues, in_file: SecretsIn) -> Self {
        let files = SecretsFiles::new(secrets.clone(), in_file);
        let table = RunTable::new(roots.clone(), secrets.clone(), files.clone());
        Self {
            table,
            roots,
            secrets,
            files,
        }
    }

    /// All runs, the newest first. If there is a single file, only its beginning is read, because
    /// it is opened next.
    pub fn all(&self) -> Vec<(RunLine, RunReader)> {
        let all = match &self.roots {
            ViewRoots::Paths(paths) if paths.len() == 1 && paths[0].is_file() => {
                let places = places::all(&self.roots).into_iter();
                let runs = places.map(|place| ListedRun {
                    id: String::new(),
                    card: RunCard::default(),
                    place,
                });
                runs.collect()
            }
            _ => self.table.all(),
        };
        let all = all.into_iter();
        all.map(|run| {
            let clean = |text: &str| mswea_text::one_line(&cleaned(text.to_owned(), &self.secrets));
            let card = &run.card;
            let line = RunLine {
                name: clean(&run.place.name),
                status: clean(&card.status),
                is_running: card.is_running,
                task: clean(&card.task),
                model: clean(&card.model),
                steps: card.steps,
                cost: card.cost.filter(|it| it.is_finite()),
                tokens: card.input.saturating_add(card.output),
                took: card
                    .last
                    .zip(card.started)
                    .map(|(last, first)| last - first),
            };
            (
                line,
                RunReader::new(run, self.secrets.clone(), self.files.clone()),
            )
        })
        .collect()
    }
}

/// A run.
pub struct RunReader {
    run: ListedRun,
    secrets: SecretValues,
    files: SecretsFiles,
    source: PageSource,
}

enum PageSource {
    Unread,
    /// The first step of each page.
    Journal(Box<OpenedRun>, Vec<PageBegin>),
    /// An indexed trajectory, with the stamp of its file when it was read.
    Trajectory(Box<IndexedTrajectory>, Option<FileStamp>),
}

struct PageBegin {
    step: usize,
    /// The number of messages in the history before the page.
    history: usize,
}

/// The figures of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs, reason = "named after what they hold")]
pub struct PageFigures {
    /// The time of the model in seconds; none if unknown.
    pub model_seconds: Option<f64>,
    /// The time of the commands in seconds.
    pub command_seconds: f64,
    pub input: u64,
    pub output: u64,
    pub cost: Option<f64>,
    /// Whether a command failed, or the reply was refused.
    pub has_error: bool,
    /// The messages that were sent, if recorded, and the number of messages in the history.
    pub view: Option<(View, usize)>,
}

impl PageFigures {
    /// All tokens.
    #[expect(clippy::cast_precision_loss, reason = "for a bar")]
    pub fn tokens(&self) -> f64 {
        self.input.saturating_add(self.output) as f64
    }
}

/// The kind of a line of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageLine {
    /// The heading of a message, with its author.
    Title,
    /// Text of the model, of prompts, of messages.
    Text,
    /// Reasoning of the model.
    Thought,
    /// A command or a call.
    Call,
    /// The result of a command or call.
    Output,
    /// A failure.
    Trouble,
    /// A note about an action of the host or a plugin.
    Note,
}

impl RunReader {
    fn new(run: ListedRun, secrets: SecretValues, files: SecretsFiles) -> Self {
        Self {
            run,
            secrets,
            files,
            source: PageSource::Unread,
        }
    }

    /// Reads the changes of the file. Returns whether there are any.
    ///
    /// # Errors
    /// A message if the file can't be read as a run.
    pub fn refresh(&mut self) -> Result<bool, String> {
        let place = &self.run.place;
        if !place.is_journal {
            let stamp = FileStamp::of(&place.path).ok();
            if let PageSource::Trajectory(_, before) = &mut self.source {
                if stamp.is_none() || *before == stamp {
                    return Ok(false);
                }
                // An unreadable file, which may be being written, is read again once it has
                // changed.
                *before = stamp;
            }
            let run = IndexedTrajectory::open(&place.path)?;
            self.source = PageSource::Trajectory(Box::new(run), stamp);
            return Ok(true);
        }
        let mut open = match std::mem::replace(&mut self.source, PageSource::Unread) {
            PageSource::Journal(open, _) => open,
            _ => Box::default(),
        };
        let before = open.tag();
        open.refresh(place, &self.files)?;
        let has_changed = open.tag() != before;
        let mut pages = Vec::new();
        let mut history = 0;
        for (step, it) in open.conversation().steps.iter().enumerate() {
            if step == 0 || it.is_reply {
                pages.push(PageBegin { step, history });
            }
            history += 1 + it.shown.iter().filter(|it| !it.is_unseen).count();
        }
        self.source = PageSource::Journal(open, pages);
        Ok(has_changed)
    }

    /// Frees the data; `refresh` reads it again.
    pub fn close(&mut self) {
        self.source = PageSource::Unread;
    }

    /// The number of pages.
    pub fn len(&self) -> usize {
        match &self.source {
            PageSource::Unread => 0,
            PageSource::Journal(_, pages) => pages.len(),
            PageSource::Trajectory(run, _) => run.len(),
        }
    }

    /// Whether there are no pages.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the run may grow. A trajectory does not record whether it does.
    pub fn may_grow(&self) -> bool {
        matches!(self.source, PageSource::Trajectory(..)) || self.now().0
    }

    /// Whether the run is going on, with its current activity or its end.
    pub fn now(&self) -> (bool, String) {
        let (is_running, word) = self.recorded_now();
        (is_running, cleaned(word, &self.secrets))
    }

    fn recorded_now(&self) -> (bool, String) {
        let open = match &self.source {
            PageSource::Unread => return (false, self.run.card.status.clone()),
            PageSource::Trajectory(run, _) => {
                let status = run.exit_status();
                return (
                    false,
                    status.unwrap_or_else(|| self.run.card.status.clone()),
                );
            }
            PageSource::Journal(open, _) => open,
        };
        let about = open.about(&self.secrets);
        let is_running = about["running"] == true;
        let event = about["now"]["event"].as_str();
        let damage = about["damage"].as_str();
        let ended = open.conversation().exit_status.clone();
        let word = damage.or(event).map(str::to_owned).or(ended);
        (
            is_running,
            word.unwrap_or_else(|| self.run.card.status.clone()),
        )
    }

    /// The data outside of the steps: the config and the plugins.
    pub fn head(&self) -> String {
        let value = match &self.source {
            PageSource::Unread => Value::Null,
            PageSource::Journal(open, _) => open.about(&self.secrets)["head"].clone(),
            PageSource::Trajectory(run, _) => run.head(),
        };
        cleaned(format!("{value:#}"), &self.secrets)
    }

    fn steps(&self, page: usize) -> Result<Cow<'_, [ConversationStep]>, String> {
        match &self.source {
            PageSource::Unread => Ok(Cow::default()),
            PageSource::Trajectory(run, _) => run.steps(page).map(Cow::Owned),
            PageSource::Journal(open, _) => {
                Ok(Cow::Borrowed(&open.conversation().steps[self.range(page)]))
            }
        }
    }

    /// The steps of a page of a journal.
    fn range(&self, page: usize) -> Range<usize> {
        let PageSource::Journal(open, pages) = &self.source else {
            return 0..0;
        };
        let all = open.conversation().steps.len();
        let step = |page: usize| pages.get(page).map_or(all, |begin| begin.step);
        step(page)..step(page + 1)
    }

    /// The lines of a journal that belong to a page.
    fn records(&self, page: usize) -> String {
        let PageSource::Journal(open, _) = &self.source else {
            return String::new();
        };
        let records = self
            .range(page)
            .filter_map(|step| open.record(&self.run.place, step)?.ok());
        records.collect()
    }

    /// The record of a page: the lines of the journal, or the messages as they are in the file.
    pub fn raw(&self, page: usize) -> String {
        let text = match &self.source {
            PageSource::Trajectory(run, _) => run.raw(page),
            _ => self.records(page),
        };
        let lines = text
            .lines()
            .map(|line| match serde_json::from_str::<Value>(line) {
                Ok(value) => format!("{value:#}\n"),
                Err(_) => format!("{line}\n"),
            });
        let pretty: String = match &self.source {
            // The elements of an array.
            PageSource::Trajectory(..) => {
                match serde_json::from_str::<Value>(&format!("[{text}]")) {
                    Ok(value) => format!("{value:#}"),
                    Err(_) => text,
                }
            }
            _ => lines.collect(),
        };
        cleaned(pretty, &self.secrets)
    }

    /// The last recorded changes of files up to a page, as a patch, with the page that has the
    /// record. They are recorded at the end of a run, not at each step.
    pub fn patch(&self, page: usize) -> Option<(usize, String)> {
        let (at, patch) = (0..=page).rev().find_map(|page| {
            let records = self.records(page);
            let mut lines = records.lines().rev();
            let patch = lines.find_map(|line| {
                let value = line
                    .contains("\"salvaged\"")
                    .then(|| serde_json::from_str::<Value>(line));
                let value = value?.ok()?;
                let text = value.pointer("/output/output")?.as_str()?.to_owned();
                (value["event"] == "salvaged" && !text.is_empty()).then_some(text)
            });
            Some((page, patch?))
        })?;
        Some((at, cleaned(patch, &self.secrets)))
    }

    /// The figures of a page.
    pub fn figures(&self, page: usize) -> PageFigures {
        let mut figures = PageFigures::default();
        if let PageSource::Journal(_, pages) = &self.source {
            let view = self.steps(page).ok().and_then(|steps| steps.first()?.view);
            figures.view = view.zip(pages.get(page).map(|begin| begin.history));
        }
        for step in self.steps(page).unwrap_or_default().iter() {
            // A trajectory lacks at least one of them.
            if let (Some(asked), Some(time)) = (step.asked, step.time)
                && time > asked
            {
                *figures.model_seconds.get_or_insert_default() += time - asked;
            }
            figures.command_seconds += step.shown.iter().filter_map(|it| it.seconds).sum::<f64>();
            if let Some(usage) = &step.usage {
                figures.input = figures.input.saturating_add(usage.input_tokens);
                figures.output = figures.output.saturating_add(usage.output_tokens);
            }
            if let Some(cost) = step.cost {
                *figures.cost.get_or_insert_default() += cost;
            }
            figures.has_error |= step.rejected.is_some()
                || step.shown.iter().any(|it| {
                    it.exception.is_some() || it.returncode.is_some_and(|code| code != 0)
                });
        }
        figures
    }

    /// The lines of a page, each with its kind.
    pub fn lines(&self, page: usize, thoughts: bool) -> Vec<(PageLine, String)> {
        let mut lines = Vec::new();
        let steps = match self.steps(page) {
            Ok(steps) => steps,
            Err(why) => return vec![(PageLine::Trouble, harmless(&why))],
        };
        let mut add = |kind: PageLine, text: String| {
            let text = cleaned(text, &self.secrets);
            lines.extend(text.trim_end().lines().map(|line| (kind, line.to_owned())));
        };
        for step in steps.iter() {
            let mut title = step.source.word().to_uppercase();
            if let Some(model) = &step.model {
                title = format!("{title} ({model})");
            }
            if !step.finish_reason.is_empty() {
                title = format!("{title} · {}", step.finish_reason);
            }
            add(PageLine::Title, title);
            if thoughts && !step.reasoning.is_empty() {
                add(PageLine::Thought, step.reasoning.clone());
            }
            add(PageLine::Text, step.text.clone());
            for image in &step.images {
                add(PageLine::Note, format!("(image: {} bytes)", image.len()));
            }
            if let Some(code) = &step.rejected {
                add(PageLine::Trouble, format!("refused by the parser: {code}"));
            }
            for call in &step.calls {
                let text = call_text(&call.arguments);
                let text = match call.name.as_str() {
                    "bash" => text,
                    name => format!("{name} {text}"),
                };
                add(PageLine::Call, text);
                let own = |id: &Option<String>| id.as_ref() == Some(&call.id);
                for shown in step.shown.iter().filter(|it| own(&it.call)) {
                    add_shown(shown, &mut add);
                }
            }
            let is_of_call = |id: &Option<String>| {
                let id = id.as_ref();
                id.is_some_and(|id| step.calls.iter().any(|call| call.id == *id))
            };
            for shown in step.shown.iter().filter(|it| !is_of_call(&it.call)) {
                add_shown(shown, &mut add);
            }
        }
        for decision in self.decisions(page) {
            add(PageLine::Note, decision);
        }
        lines
    }

    /// The decisions of plugins and the user in a page.
    fn decisions(&self, page: usize) -> Vec<String> {
        let text = self.records(page);
        let events = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        events.filter_map(|event| decision(&event)).collect()
    }
}

fn add_shown(shown: &mswea_export::ShownResult, add: &mut impl FnMut(PageLine, String)) {
    add(PageLine::Output, readable(&shown.text).into_owned());
    if let Some(exception) = &shown.exception {
        add(PageLine::Trouble, exception.clone());
    }
    let mut figures = Vec::new();
    if let Some(code) = shown.returncode.filter(|code| *code != 0) {
        figures.push(format!("exit code {code}"));
    }
    if let Some(seconds) = shown.seconds {
        figures.push(format!("{seconds:.1} s"));
    }
    if shown.is_unseen {
        figures.push("the model did not see this".to_owned());
    }
    if !figures.is_empty() {
        let kind = match shown.returncode {
            Some(code) if code != 0 => PageLine::Trouble,
            _ => PageLine::Note,
        };
        add(kind, format!("({})", figures.join(", ")));
    }
}

/// A decision of a plugin or the user, as text.
fn decision(event: &Event) -> Option<String> {
    Some(match event {
        Event::Denied { policy, reason, .. } => format!("`{policy}` denied it: {reason}"),
        Event::Rewritten {
            policy, original, ..
        } => format!("`{policy}` replaced the command: {}", original.command),
        Event::Confirmed { policy, answer, .. } => format!("`{policy}` asked the user: {answer:?}"),
        Event::Answered {
            question, answer, ..
        } => format!("the user, asked about `{question}`: {answer:?}"),
        Event::Interrupted => "the user interrupted the step".to_owned(),
        Event::PluginFault { plugin, message } => format!("`{plugin}` failed: {message}"),
        Event::Asked {
            processor, purpose, ..
        } => format!("`{processor}` asked the model: {purpose}"),
        Event::ShadowDiverged { plugin, degree, .. } => {
            format!("the shadow `{plugin}` differs: {degree}")
        }
        Event::Retry { class, message, .. } => {
            format!("sent again after {}: {message}", class.as_str())
        }
        _ => return None,
    })
}
