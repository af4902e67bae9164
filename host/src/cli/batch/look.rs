//! `batch status`, `batch report` and `batch preds`: print the state and the results of a batch.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use crate::cli::args::{BatchLookArgs, BatchPredsArgs, BatchReportArgs};
use crate::cli::exit::ExitCode;
use crate::cli::front::{CostSum, clock, dollars_text};
use crate::cli::output::{self, Failure};
use mswea_batch::{
    BatchError, BatchReport, FolderState, LostAttempts, Predictions, QueueLine, StatusLine,
    report_page, resolved_ids, slurm_queue,
};
use serde::Serialize;
use serde_json::{Map, Value};

use super::run::failure;

/// How many ids are printed.
const IDS: usize = 20;

/// Reads a batch. Warns about results that can't be read, and returns the others.
pub(super) fn state(dir: &Path) -> Result<FolderState, Failure> {
    let state = FolderState::read(dir).map_err(failure)?;
    for reason in &state.broken {
        output::warning(reason);
    }
    Ok(state)
}

pub(super) fn cost_of(line: &StatusLine) -> CostSum {
    CostSum {
        dollars: line.cost,
        count: line.count,
        unknown: line.cost_unknown,
    }
}

/// Prints the progress of a batch.
pub fn status(args: &BatchLookArgs) -> Result<ExitCode, Failure> {
    let state = state(&args.dir)?;
    let report = BatchReport::of(&state);
    let queue = slurm_queue(&args.dir);
    if args.json {
        let mut value = json_of(&report)?;
        value["claimed"] = json_of(&state.claimed)?;
        if let Some(queue) = &queue {
            let known = queue.as_ref();
            value["queue"] = json_of(&known.ok())?;
            if let Err(error) = known {
                value["queue_error"] = error.to_string().into();
            }
        }
        return output::json(&value);
    }
    let mut text = format!(
        "{} of {} instances have a result",
        report.done, report.instances
    );
    for line in &report.by_status {
        let status = mswea_text::one_line(&line.exit_status);
        let _ = write!(text, "\n  {:6} {status}", line.count);
    }
    let cost = match cost_of(&report.total) {
        cost if cost.known().is_none() => cost.text(),
        cost => format!("cost {}", cost.text()),
    };
    let _ = write!(text, "\n{cost}");
    let begun = match &report.worker {
        Some(worker) => {
            let _ = write!(text, "\n{worker} works on it");
            "running or waiting for another attempt"
        }
        None if !state.claimed.is_empty() => {
            let machines = state.claimed.iter();
            let machines = machines.map(|(machine, count)| format!("{machine} {count}"));
            let machines: Vec<String> = machines.collect();
            let _ = write!(text, "\nclaimed by workers: {}", machines.join(", "));
            "begun"
        }
        None => {
            let _ = write!(text, "\nnobody works on it");
            "begun and cut off"
        }
    };
    if let Some(queue) = &queue {
        text.push_str(&queue_text(queue));
    }
    if report.begun > 0 {
        let shown: Vec<&str> = state.begun.iter().take(IDS).map(String::as_str).collect();
        let more = match report.begun.saturating_sub(IDS) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let _ = write!(
            text,
            "\n{} {begun}: {}{more}",
            report.begun,
            shown.join(", ")
        );
    }
    text.push('\n');
    output::text(&text)
}

/// Prints the figures of a batch.
pub fn report(args: &BatchReportArgs) -> Result<ExitCode, Failure> {
    let state = state(&args.look.dir)?;
    let mut report = BatchReport::of(&state);
    let mut evaluated = None;
    if let Some(file) = &args.resolved {
        let resolved = resolved_ids(file).map_err(failure)?;
        let mut ids = state.instances.iter().map(|it| &it.id);
        if !resolved.is_empty() && !ids.clone().any(|id| resolved.contains(id)) {
            return Err(Failure::usage(format!(
                "no instance of `{}` is among the {} ids in `{}`: it is the report of another batch",
                args.look.dir.display(),
                resolved.len(),
                file.display()
            )));
        }
        report.resolved = Some(ids.by_ref().filter(|id| resolved.contains(*id)).count());
        evaluated = Some(resolved);
    }
    report.lost = Some(LostAttempts::of(&args.look.dir, &state));
    if args.html {
        let name = args.look.dir.display().to_string();
        let page = report_page(&name, &state, &report, evaluated.as_ref());
        return output::data(|out| out.write_all(page.as_bytes()));
    }
    if args.look.json {
        return output::json(&json_of(&report)?);
    }
    let mut text = format!(
        "{:<28} {:>7} {:>7} {:>12} {:>10} {:>14} {:>14} {:>12}\n",
        "EXIT STATUS", "COUNT", "%", "COST", "STEPS", "TOKENS IN", "TOKENS OUT", "TIME EACH"
    );
    let total = StatusLine {
        exit_status: "all".to_owned(),
        ..report.total.clone()
    };
    for line in report.by_status.iter().chain([&total]) {
        row(&mut text, line, report.done);
    }
    let _ = writeln!(
        text,
        "\n{} of {} instances have a result, {} of them a submission that is not empty, {} were ended by an error",
        report.done, report.instances, report.with_submission, report.failed
    );
    if let Some(resolved) = report.resolved {
        #[allow(clippy::cast_precision_loss, reason = "a figure for people")]
        let part = 100.0 * resolved as f64 / report.instances.max(1) as f64;
        let _ = writeln!(
            text,
            "{resolved} of {} instances are resolved ({part:.1} %)",
            report.instances
        );
    }
    if let Some(lost) = report.lost.filter(|lost| lost.queries > 0) {
        let cost = CostSum {
            dollars: lost.cost,
            count: lost.attempts,
            unknown: lost.cost_unknown,
        };
        let _ = writeln!(
            text,
            "lost, and not in the sums: {} queries ({}) of {} attempts that ended without a result",
            lost.queries,
            cost.text(),
            lost.attempts
        );
    }
    if report.total.cost_unknown > 0 {
        let _ = writeln!(
            text,
            "{} results have no known cost and are not in the sums",
            report.total.cost_unknown
        );
    }
    output::text(&text)
}

#[allow(clippy::cast_precision_loss, reason = "figures for people")]
fn row(text: &mut String, line: &StatusLine, done: usize) {
    let each = line.seconds / line.count.max(1) as f64;
    let _ = writeln!(
        text,
        "{:<28} {:>7} {:>7.1} {:>12} {:>10} {:>14} {:>14} {:>12}",
        mswea_text::one_line(&line.exit_status),
        line.count,
        100.0 * line.count as f64 / done.max(1) as f64,
        cost_of(line)
            .known()
            .map_or_else(|| "?".to_owned(), dollars_text),
        line.steps,
        line.input_tokens,
        line.output_tokens,
        clock(Duration::try_from_secs_f64(each).unwrap_or_default())
    );
}

/// Prints the predictions in the formats of SWE-bench.
pub fn preds(args: &BatchPredsArgs) -> Result<ExitCode, Failure> {
    let state = state(&args.dir)?;
    let preds = Predictions::open(&args.dir, &state.model).map_err(failure)?;
    let is_of_swe_agent = args.dir.join("run_batch.config.yaml").exists();
    let mut preds = preds.of_begun(is_of_swe_agent);
    // Workers write results only, and no predictions.
    preds.renew(std::iter::empty(), state.results.iter());
    let has_patch = |entry: &Value| {
        entry["model_patch"]
            .as_str()
            .is_some_and(|it| !it.trim().is_empty())
    };
    let entries = preds.entries().iter();
    let entries = entries.filter(|(_, entry)| !args.with_patch || has_patch(entry));
    if args.jsonl {
        let lines: String = entries.map(|(_, entry)| format!("{entry}\n")).collect();
        return output::data(|out| out.write_all(lines.as_bytes()));
    }
    let entries: Map<String, Value> = entries
        .map(|(id, entry)| (id.clone(), entry.clone()))
        .collect();
    output::json(&Value::Object(entries))
}

fn json_of(value: &impl Serialize) -> Result<Value, Failure> {
    serde_json::to_value(value).map_err(|error| Failure::new(ExitCode::Failed, error.to_string()))
}

/// The jobs of a batch, and remedies for those that do not begin by themselves.
fn queue_text(queue: &Result<Vec<QueueLine>, BatchError>) -> String {
    let lines = match queue {
        Ok(lines) => lines,
        Err(error) => return format!("\njobs in the queue: not known, {error}"),
    };
    let one = |line: &QueueLine| {
        let place = match (line.node.as_str(), line.reason.as_str()) {
            ("", "") => String::new(),
            ("", reason) => format!(" ({reason})"),
            (node, _) => format!(" on {node}"),
        };
        format!("{} {}{place}", line.count, line.state)
    };
    let shown: Vec<String> = lines.iter().map(one).collect();
    let shown = match shown.is_empty() {
        true => "none".to_owned(),
        false => shown.join(", "),
    };
    let mut text = format!("\njobs in the queue: {}", mswea_text::harmless(&shown));
    let held = lines.iter().flat_map(|line| &line.held);
    let held: Vec<&str> = held.map(String::as_str).collect();
    if !held.is_empty() {
        let more = match held.len().saturating_sub(IDS) {
            0 => String::new(),
            more => format!(", and so for {more} more"),
        };
        let elements = held.iter().take(IDS).copied().collect::<Vec<_>>().join(",");
        let _ = write!(
            text,
            "\nSlurm holds {} of them, and they do not begin by themselves: `scontrol release {}` lets them{more}; after a failed launch `sinfo -R` names the node that has to be mended",
            held.len(),
            mswea_text::harmless(&elements)
        );
    }
    text
}
