//! `batch watch`: shows the progress of a batch on any terminal, redrawn at intervals, from the
//! files of its directory.

use std::fmt::Write as _;
use std::fs::File;
use std::io::IsTerminal as _;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mswea_batch::{BatchReport, FolderState};
use mswea_record::journal::glance;

use super::look::{cost_of, state};
use crate::cli::args::BatchWatchArgs;
use crate::cli::exit::ExitCode;
use crate::cli::front::{ResultRate, clock, progress_line};
use crate::cli::output::{self, Failure};

/// The interval between readings of the directory.
const PAUSE: Duration = Duration::from_secs(2);
/// The interval between lines without a terminal.
const LINE: Duration = Duration::from_secs(30);

/// Shows a batch until all its instances have results, or until it is interrupted.
pub fn watch(args: &BatchWatchArgs) -> Result<ExitCode, Failure> {
    let is_terminal = std::io::stdout().is_terminal();
    let can_redraw = is_terminal && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
    let mut seen = ResultRate::default();
    let (mut drawn, mut said) = (0, None::<Instant>);
    loop {
        let now = state(&args.dir)?;
        seen.see(now.results.len());
        let is_over = now.results.len() == now.instances.len();
        let (rows, columns) = size();
        let lines = lines(&args.dir, &now, seen.per_second(), rows.saturating_sub(1));
        if can_redraw {
            let mut frame = String::from("\x1b[?2026h");
            if drawn > 0 {
                let _ = write!(frame, "\x1b[{drawn}A");
            }
            frame.push_str("\r\x1b[J");
            for line in &lines {
                let line: String = line.chars().take(columns.saturating_sub(1)).collect();
                frame.push_str(&line);
                frame.push('\n');
            }
            frame.push_str("\x1b[?2026l");
            drawn = lines.len();
            output::data(|out| out.write_all(frame.as_bytes()))?;
        } else if is_over || said.is_none_or(|time| time.elapsed() >= LINE) {
            said = Some(Instant::now());
            output::text(&format!("{}\n", lines[0]))?;
        }
        if is_over {
            return Ok(ExitCode::Submitted);
        }
        sleep(PAUSE);
    }
}

fn size() -> (usize, usize) {
    let size = rustix::termios::tcgetwinsize(std::io::stdout());
    size.map_or((24, 80), |it| {
        (it.ws_row.max(8).into(), it.ws_col.max(20).into())
    })
}

/// At most `rows` lines about the progress.
fn lines(dir: &Path, state: &FolderState, rate: Option<f64>, rows: usize) -> Vec<String> {
    let report = BatchReport::of(state);
    let line = progress_line(
        report.done,
        report.instances,
        &cost_of(&report.total),
        report.total.cost,
        rate,
    );
    let mut lines = vec![line];
    let statuses = report.by_status.iter();
    let statuses: Vec<String> = statuses
        .map(|it| format!("{} {}", it.count, mswea_text::one_line(&it.exit_status)))
        .collect();
    if !statuses.is_empty() {
        lines.push(statuses.join(" · "));
    }
    if !state.claimed.is_empty() {
        let machines = state.claimed.iter();
        let machines: Vec<String> = machines
            .map(|(machine, count)| format!("{} {count}", mswea_text::one_line(machine)))
            .collect();
        lines.push(format!("claimed by workers: {}", machines.join(", ")));
    }
    let left = rows.saturating_sub(lines.len() + 1);
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.unwrap_or_default().as_secs_f64();
    for id in state.begun.iter().take(left) {
        lines.push(running(dir, id, now));
    }
    let more = state.begun.len().saturating_sub(left);
    if more > 0 {
        lines.push(format!("and {more} more that were begun"));
    }
    lines.truncate(rows.max(1));
    lines
}

/// An instance that was begun: the time since its beginning, and since its last event.
fn running(dir: &Path, id: &str, now: f64) -> String {
    let text = mswea_text::one_line(id);
    let journal = FolderState::journal(dir, id);
    let Some(glance) = journal.and_then(|path| glance(&File::open(path).ok()?).ok()) else {
        return format!("  {text}  begins");
    };
    let since =
        |time: f64| clock(Duration::try_from_secs_f64((now - time).max(0.0)).unwrap_or_default());
    format!(
        "  {text}  for {}, last event {} ago",
        since(glance.head.t),
        since(glance.last)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use mswea_batch::{BatchInstance, BatchResult};

    #[test]
    fn there_are_never_more_lines_than_rows() {
        let instance = |number: usize| BatchInstance {
            id: format!("i{number}\u{1b}[2J"),
            ..BatchInstance::default()
        };
        let result = |number: usize| BatchResult {
            instance_id: format!("i{number}"),
            exit_status: "Submitted".to_owned(),
            cost: Some(0.5),
            ..BatchResult::default()
        };
        let state = FolderState {
            instances: (0..40).map(instance).collect(),
            results: (0..10).map(result).collect(),
            begun: (10..40).map(|it| instance(it).id).collect(),
            ..FolderState::default()
        };
        for rows in [1, 2, 5, 12, 60] {
            let lines = lines(Path::new("/nonexistent"), &state, Some(0.5), rows);
            assert!(lines.len() <= rows, "{rows}: {lines:?}");
            assert!(
                lines.iter().all(|line| !line.contains('\u{1b}')),
                "{lines:?}"
            );
        }
        let lines = lines(Path::new("/nonexistent"), &state, Some(0.5), 12);
        assert!(
            lines[0].contains("10/40") && lines[0].contains("30.0 a minute"),
            "{lines:?}"
        );
        assert!(lines[0].contains("about 1 min 0 s left"), "{lines:?}");
        assert_eq!(lines[1], "10 Submitted");
        assert!(lines[11].starts_with("and "), "{lines:?}");
    }
}
