//! The front of a batch: without a terminal for each instance, so calm: a line for what matters, a line
//! now and then, and with `--json` every event with the id of its instance.

use std::collections::BTreeMap;
use std::io;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use mswea_batch::{BatchResult, BatchWatcher};
use mswea_core::Progress;
use mswea_text::one_line;
use serde_json::{Value, json};

use super::batch_lines::{CostSum, ResultRate, clock, progress_line};
use super::below;
use super::outlet::{self, say};
use super::sink::Sink;
use super::words::{dollars_text, plural};
use super::{Look, json, lock};
use crate::cli::args::DisplayArgs;
use crate::cli::exit::ExitCode;

/// A batch of so few instances has a line for each.
const FEW: usize = 100;
/// How much of an error is shown in a line.
const ERROR: usize = 200;

/// Shows a batch.
pub struct BatchFront {
    /// Whether there is a table on the terminal, which is drawn anew.
    has_table: bool,
    json: Option<Mutex<Sink>>,
    display: DisplayArgs,
    view: Mutex<BatchView>,
}

/// What is shown of it.
struct BatchView {
    /// Instances of this call.
    all: usize,
    done: usize,
    /// By exit status.
    ends: BTreeMap<String, usize>,
    /// The instances that run.
    running: BTreeMap<String, RunningView>,
    /// Of all replies.
    cost: CostSum,
    /// Dollars of those that are done.
    of_done: f64,
    rate: ResultRate,
    begun: Instant,
    /// What the last line now and then said.
    told: String,
}

/// What is shown of an instance that runs.
struct RunningView {
    since: Instant,
    step: u32,
    cost: CostSum,
    /// What it does: the last command, or a preparation.
    what: String,
}

impl BatchFront {
    /// The front that the flags ask for, for so many instances.
    pub fn new(display: DisplayArgs, all: usize) -> Self {
        let look = Look::detect(display.verbose);
        let lost = if display.json {
            json::lost
        } else {
            outlet::lost_words
        };
        let outlets = outlet::start(look, lost);
        let sink = || match outlets {
            Some(outlets) => Sink::new(outlets.out.clone()),
            None => Sink::new(io::stdout()),
        };
        let is_plain = display.json || display.quiet || !look.redraw;
        Self {
            has_table: !is_plain,
            json: display.json.then(|| Mutex::new(sink())),
            display,
            view: Mutex::new(BatchView {
                all,
                done: 0,
                ends: BTreeMap::new(),
                running: BTreeMap::new(),
                cost: CostSum::default(),
                of_done: 0.0,
                rate: ResultRate::default(),
                begun: Instant::now(),
                told: String::new(),
            }),
        }
    }

    /// Says how many instances of how many have a result already, and if that is all, how they have ended and
    /// `place`, where the results are.
    pub fn already(&self, (count, of): (usize, usize), results: &[BatchResult], place: &str) {
        let text = format!("{count} of {of} instances have a result already");
        if self.has_instances() {
            if count > 0 {
                self.line(&text);
            }
            return;
        }
        let (mut ends, mut cost) = (BTreeMap::new(), CostSum::default());
        for result in results {
            *ends.entry(result.exit_status.clone()).or_default() += 1;
            cost.add(result.cost);
        }
        let mut parts = vec![text];
        // None are those of another program in `preds.json`.
        if !results.is_empty() {
            parts.extend([statuses(&ends).join(", "), cost.text()]);
        }
        parts.push(place.to_owned());
        self.warn(&parts.join(" · "));
    }

    /// Whether this call has anything to run.
    pub fn has_instances(&self) -> bool {
        lock(&self.view).all > 0
    }

    /// Why data is missing on stdout, if it is.
    pub fn take_output_error(&self) -> Option<io::Error> {
        lock(self.json.as_ref()?).take_error()
    }

    fn event(&self, event: &Value) {
        if let Some(sink) = &self.json {
            lock(sink).put_data(&format!("{event}\n"));
        }
    }

    /// What an instance does, for the table.
    fn does(&self, id: &str, what: &str) {
        if let Some(running) = lock(&self.view).running.get_mut(id) {
            running.what = short(what);
        }
    }

    /// A line for people.
    fn line(&self, text: &str) {
        if self.json.is_none() && !self.display.quiet {
            say(&format!("{text}\n"));
        }
    }

    /// A line for people about something unusual.
    fn warn(&self, text: &str) {
        if self.json.is_none() {
            say(&format!("{text}\n"));
        }
    }

    /// Whether there is a table on the terminal.
    pub fn has_table(&self) -> bool {
        self.has_table
    }

    /// Draws the table anew.
    pub fn draw(&self) {
        let mut view = lock(&self.view);
        let done = view.done;
        view.rate.see(done);
        let lines = view.table(below::screen_rows());
        drop(view);
        outlet::show_below(&lines);
    }

    /// The line now and then: nothing if nothing has changed, or if there is a table.
    pub fn now_and_then(&self) {
        if self.has_table {
            return;
        }
        let mut view = lock(&self.view);
        let line = view.line();
        if line != view.told {
            self.line(&format!("{line} · {}", clock(view.begun.elapsed())));
            view.told = line;
        }
    }

    /// How it has ended, as the last line and the last event.
    pub fn ended(&self, why: &str, left: usize, code: ExitCode) {
        if self.has_table {
            outlet::show_below(&[]);
        }
        let mut view = lock(&self.view);
        view.running.clear();
        self.event(&json!({
            "type": "batch_ended",
            "why": why,
            "done": view.done,
            "left": left,
            "by_status": view.ends,
            "cost": view.cost.known(),
            "exit_code": code.code(),
        }));
        if self.json.is_none() && view.all > 0 {
            say(&format!(
                "{} · {}\n",
                view.line(),
                clock(view.begun.elapsed())
            ));
        }
    }
}

/// The results by status, the most frequent one first.
fn statuses(ends: &BTreeMap<String, usize>) -> Vec<String> {
    let mut ends: Vec<(&String, &usize)> = ends.iter().collect();
    ends.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let ends = ends.iter();
    ends.map(|(status, count)| format!("{count} {}", one_line(status)))
        .collect()
}

impl BatchView {
    /// The lines of the table, on a terminal of so many lines: it takes at most half of them, and those that run
    /// for the longest time are in it.
    fn table(&self, rows: usize) -> Vec<String> {
        let rate = self.rate.per_second();
        let mut lines = vec![progress_line(
            self.done,
            self.all,
            &self.cost,
            self.of_done,
            rate,
        )];
        let statuses = statuses(&self.ends);
        if !statuses.is_empty() {
            lines.push(statuses.join(" · "));
        }
        let room = (rows / 2).clamp(3, 14).saturating_sub(lines.len() + 1);
        let mut running: Vec<_> = self.running.iter().collect();
        running.sort_by_key(|(_, it)| it.since);
        for (id, it) in running.iter().take(room) {
            lines.push(format!(
                "  {} · step {} · {} · {} · {}",
                one_line(id),
                it.step,
                it.cost.text(),
                clock(it.since.elapsed()),
                it.what
            ));
        }
        let more = running.len().saturating_sub(room);
        if more > 0 {
            lines.push(format!("  and {more} more that run"));
        }
        lines
    }

    fn line(&self) -> String {
        let ends = statuses(&self.ends);
        let mut parts = vec![format!("{}/{} done", self.done, self.all)];
        if !ends.is_empty() {
            parts.push(ends.join(", "));
        }
        if !self.running.is_empty() {
            let steps = self.running.values().map(|it| u64::from(it.step));
            parts.push(format!(
                "{} running (step {})",
                self.running.len(),
                steps.max().unwrap_or_default()
            ));
        }
        parts.push(self.cost.text());
        parts.join(" · ")
    }
}

impl BatchWatcher for BatchFront {
    fn began(&self, id: &str, attempt: u32, goes_on: bool) {
        let mut view = lock(&self.view);
        let begun = RunningView {
            since: Instant::now(),
            step: 0,
            cost: CostSum::default(),
            what: "begins".to_owned(),
        };
        view.running.insert(id.to_owned(), begun);
        self.event(&json!({
            "type": "instance_began",
            "instance": id,
            "attempt": attempt,
            "goes_on": goes_on,
        }));
        if self.display.verbose > 0 {
            self.line(&format!(
                "{}: begins{}",
                one_line(id),
                match goes_on {
                    true => " where it stood",
                    false => "",
                }
            ));
        }
    }

    fn progress(&self, id: &str, progress: &Progress<'_>) {
        match progress {
            Progress::StepStarted { step, .. } => {
                if let Some(running) = lock(&self.view).running.get_mut(id) {
                    running.step = *step;
                }
            }
            Progress::Replied { cost, .. } | Progress::Answered { cost, .. } => {
                let mut view = lock(&self.view);
                view.cost.add(*cost);
                if let Some(running) = view.running.get_mut(id) {
                    running.cost.add(*cost);
                }
            }
            Progress::ActionStarted { action, .. } if self.has_table => {
                self.does(id, &action.command);
            }
            Progress::Preparing(text) if self.has_table => self.does(id, text),
            Progress::Warning(text) if self.display.verbose > 0 => {
                self.line(&format!("{}: warning: {}", one_line(id), one_line(text)));
            }
            _ => {}
        }
        let Some(sink) = &self.json else { return };
        let mut event = json::event(progress);
        event["instance"] = id.into();
        let line = format!("{event}\n");
        match progress {
            Progress::Delta(_) => lock(sink).put_spare(&line),
            _ => lock(sink).put(&line),
        }
    }

    fn again(&self, failed: &BatchResult, wait: Duration) {
        self.event(&json!({
            "type": "instance_again",
            "instance": failed.instance_id,
            "exit_status": failed.exit_status,
            "error": failed.error,
            "wait_seconds": wait.as_secs_f64(),
        }));
        self.warn(&format!(
            "{}: {}, once more in {}: {}",
            one_line(&failed.instance_id),
            one_line(&failed.exit_status),
            clock(wait),
            short(failed.error.as_deref().unwrap_or_default())
        ));
    }

    fn done(&self, result: &BatchResult) {
        let mut view = lock(&self.view);
        view.running.remove(&result.instance_id);
        view.done += 1;
        view.of_done += result.cost.unwrap_or_default();
        *view.ends.entry(result.exit_status.clone()).or_default() += 1;
        self.event(&json!({
            "type": "instance_done",
            "instance": result.instance_id,
            "exit_status": result.exit_status,
            "error": result.error,
            "cost": result.cost,
            "steps": result.steps,
            "seconds": result.seconds,
        }));
        let text = format!(
            "[{}/{}] {}: {}, {}{}",
            view.done,
            view.all,
            one_line(&result.instance_id),
            one_line(&result.exit_status),
            plural(u64::from(result.steps), "step"),
            result
                .cost
                .map_or_else(String::new, |cost| format!(", {}", dollars_text(cost)))
        );
        match &result.error {
            Some(error) => self.warn(&format!("{text}: {}", short(error))),
            None if view.all <= FEW || self.display.verbose > 0 => self.line(&text),
            None => {}
        }
    }

    fn waits(&self, short: &str) {
        self.event(&json!({"type": "batch_waits", "why": short}));
        self.warn(&format!(
            "no further instance begins until more is free: {short}"
        ));
    }

    fn cut(&self, id: &str) {
        lock(&self.view).running.remove(id);
        self.event(&json!({"type": "instance_stopped", "instance": id}));
    }
}

/// The first words of an error, or of a command.
fn short(error: &str) -> String {
    let line = one_line(error.lines().next().unwrap_or_default()).to_string();
    match line.char_indices().nth(ERROR) {
        Some((at, _)) => format!("{}...", &line[..at]),
        None => line,
    }
}
