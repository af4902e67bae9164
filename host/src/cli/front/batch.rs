//! The front of a batch. It shows no single steps: it prints a line for important events, a line
//! about the progress at intervals, and with `--json` every event with the id of its instance.

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
use super::words::{dollars_text, faults_line, plural};
use super::{Look, json, lock};
use crate::cli::args::DisplayArgs;
use crate::cli::exit::ExitCode;

/// With at most so many instances, a line is printed for each.
const FEW: usize = 100;
/// How many characters of an error a line shows.
const ERROR: usize = 200;

/// Shows a batch.
pub struct BatchFront {
    /// Whether a table is drawn on the terminal.
    has_table: bool,
    json: Option<Mutex<Sink>>,
    display: DisplayArgs,
    view: Mutex<BatchView>,
}

/// The displayed data of a batch.
struct BatchView {
    /// The number of instances of this call.
    all: usize,
    done: usize,
    /// The number of ended instances by exit status.
    ends: BTreeMap<String, usize>,
    /// The instances that are running.
    running: BTreeMap<String, RunningView>,
    /// The cost of all replies.
    cost: CostSum,
    /// Dollars of the instances that have ended.
    of_done: f64,
    /// How often each plugin has failed.
    faults: BTreeMap<String, u32>,
    rate: ResultRate,
    begun: Instant,
    /// The last line about the progress.
    told: String,
}

/// The displayed data of a running instance.
struct RunningView {
    since: Instant,
    step: u32,
    cost: CostSum,
    /// Its current activity: the last command, or a preparation.
    what: String,
}

impl BatchFront {
    /// The front according to the flags, for so many instances.
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
                faults: BTreeMap::new(),
                rate: ResultRate::default(),
                begun: Instant::now(),
                told: String::new(),
            }),
        }
    }

    /// Prints how many of all instances already have a result. If all have one, prints also their
    /// exit statuses, and `place`, the place of the results.
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
        // None of them: the entries are those of another program in `preds.json`.
        if !results.is_empty() {
            parts.extend([statuses(&ends).join(", "), cost.text()]);
        }
        parts.push(place.to_owned());
        self.warn(&parts.join(" · "));
    }

    /// Whether this call has instances to run.
    pub fn has_instances(&self) -> bool {
        lock(&self.view).all > 0
    }

    /// The error of stdout, if data could not be written to it.
    pub fn take_output_error(&self) -> Option<io::Error> {
        lock(self.json.as_ref()?).take_error()
    }

    fn event(&self, event: &Value) {
        if let Some(sink) = &self.json {
            lock(sink).put_data(&format!("{event}\n"));
        }
    }

    /// Sets the activity of an instance, for the table.
    fn does(&self, id: &str, what: &str) {
        if let Some(running) = lock(&self.view).running.get_mut(id) {
            running.what = short(what);
        }
    }

    /// Prints a line for users.
    fn line(&self, text: &str) {
        if self.json.is_none() && !self.display.quiet {
            say(&format!("{text}\n"));
        }
    }

    /// Prints a line for users about something unusual.
    fn warn(&self, text: &str) {
        if self.json.is_none() {
            say(&format!("{text}\n"));
        }
    }

    /// Whether a table is drawn on the terminal.
    pub fn has_table(&self) -> bool {
        self.has_table
    }

    /// Redraws the table.
    pub fn draw(&self) {
        let mut view = lock(&self.view);
        let done = view.done;
        view.rate.see(done);
        let lines = view.table(below::screen_rows());
        drop(view);
        outlet::show_below(&lines);
    }

    /// Prints a line about the progress, unless nothing has changed, or a table is drawn.
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

    /// Prints how the batch ended, as the last line and the last event.
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
            "plugin_faults": view.faults,
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

    /// How often plugins have failed.
    pub fn faults(&self) -> Option<String> {
        faults_line("this batch", &lock(&self.view).faults)
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
    fn count_faults(&mut self, result: &BatchResult) {
        for (plugin, count) in &result.plugin_faults {
            *self.faults.entry(plugin.clone()).or_default() += count;
        }
    }

    /// The lines of the table, for a terminal of so many rows: at most half of them. It contains
    /// the instances that have been running for the longest time.
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
        lock(&self.view).count_faults(failed);
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
        view.count_faults(result);
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

/// The first words of an error or a command.
fn short(error: &str) -> String {
    let line = one_line(error.lines().next().unwrap_or_default()).to_string();
    match line.char_indices().nth(ERROR) {
        Some((at, _)) => format!("{}...", &line[..at]),
        None => line,
    }
}
