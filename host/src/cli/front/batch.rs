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
    /// The step and the cost of each instance that runs.
    running: BTreeMap<String, (u32, f64)>,
    cost: f64,
    begun: Instant,
    /// What the last line now and then said.
    told: String,
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
        Self {
            json: display.json.then(|| Mutex::new(sink())),
            display,
            view: Mutex::new(BatchView {
                all,
                done: 0,
                ends: BTreeMap::new(),
                running: BTreeMap::new(),
                cost: 0.0,
                begun: Instant::now(),
                told: String::new(),
            }),
        }
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

    /// The line now and then: nothing if nothing has changed.
    pub fn now_and_then(&self) {
        let mut view = lock(&self.view);
        let line = view.line();
        if line != view.told {
            self.line(&format!("{line} · {}", clock(view.begun.elapsed())));
            view.told = line;
        }
    }

    /// How it has ended, as the last line and the last event.
    pub fn ended(&self, why: &str, left: usize, code: ExitCode) {
        let mut view = lock(&self.view);
        view.running.clear();
        self.event(&json!({
            "type": "batch_ended",
            "why": why,
            "done": view.done,
            "left": left,
            "by_status": view.ends,
            "cost": view.cost,
            "exit_code": code.code(),
        }));
        if self.json.is_none() {
            say(&format!(
                "{} · {}\n",
                view.line(),
                clock(view.begun.elapsed())
            ));
        }
    }
}

impl BatchView {
    fn line(&self) -> String {
        let mut ends: Vec<(&String, &usize)> = self.ends.iter().collect();
        ends.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let ends: Vec<String> = ends
            .iter()
            .map(|(status, count)| format!("{count} {status}"))
            .collect();
        let mut parts = vec![format!("{}/{} done", self.done, self.all)];
        if !ends.is_empty() {
            parts.push(ends.join(", "));
        }
        if !self.running.is_empty() {
            let steps = self.running.values().map(|(step, _)| u64::from(*step));
            parts.push(format!(
                "{} running (step {})",
                self.running.len(),
                steps.max().unwrap_or_default()
            ));
        }
        parts.push(dollars_text(self.cost));
        parts.join(" · ")
    }
}

impl BatchWatcher for BatchFront {
    fn began(&self, id: &str, attempt: u32, goes_on: bool) {
        let mut view = lock(&self.view);
        view.running.insert(id.to_owned(), (0, 0.0));
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
            Progress::StepStarted { step, cost, .. } => {
                if let Some(running) = lock(&self.view).running.get_mut(id) {
                    *running = (*step, cost.unwrap_or_default());
                }
            }
            Progress::Replied { cost, .. } | Progress::Answered { cost, .. } => {
                lock(&self.view).cost += cost.unwrap_or_default();
            }
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
            failed.exit_status,
            clock(wait),
            short(failed.error.as_deref().unwrap_or_default())
        ));
    }

    fn done(&self, result: &BatchResult) {
        let mut view = lock(&self.view);
        view.running.remove(&result.instance_id);
        view.done += 1;
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
            result.exit_status,
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

    fn cut(&self, id: &str) {
        lock(&self.view).running.remove(id);
        self.event(&json!({"type": "instance_stopped", "instance": id}));
    }
}

/// The first words of an error.
fn short(error: &str) -> String {
    let line = one_line(error.lines().next().unwrap_or_default()).to_string();
    match line.char_indices().nth(ERROR) {
        Some((at, _)) => format!("{}...", &line[..at]),
        None => line,
    }
}

/// `12 s`, `3 min 5 s`, `2 h 5 min`.
pub(in crate::cli) fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks() {
        for (seconds, expected) in [
            (0, "0 s"),
            (59, "59 s"),
            (185, "3 min 5 s"),
            (7500, "2 h 5 min"),
        ] {
            assert_eq!(clock(Duration::from_secs(seconds)), expected);
        }
    }
}
