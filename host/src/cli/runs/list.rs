//! `runs list`: lists the runs, the newest first.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::Value;

use super::age;
use super::card::Card;
use super::find;
use crate::cli::args::ListArgs;
use crate::cli::exit::ExitCode;
use crate::cli::front::{cut_to, dollars_text};
use crate::cli::output::{self, Failure};
use mswea_text::one_line;

/// How many characters of a task are shown.
const TASK: usize = 60;

/// Lists runs.
pub fn list(args: &ListArgs) -> Result<ExitCode, Failure> {
    let mut code = ExitCode::Submitted;
    let mut journals = BTreeSet::new();
    if args.folders.is_empty() {
        journals.extend(find::all().into_iter().map(|place| place.journal));
    }
    for folder in &args.folders {
        match find::journals_of(folder) {
            Ok(found) => journals.extend(found),
            Err(error) => {
                output::error(&error);
                code = ExitCode::Failed;
            }
        }
    }
    let mut cards = Vec::new();
    let mut gone = 0;
    for journal in journals {
        match Card::of(&journal) {
            Ok(card) => cards.push(card),
            Err(_) if journal.symlink_metadata().is_err() => gone += 1,
            Err(error) => output::warning(&error),
        }
    }
    cards.sort_by(|one, other| other.started.total_cmp(&one.started));
    let all = cards.len();
    if args.limit > 0 {
        cards.truncate(args.limit);
    }
    match args.json {
        true => output::json(&Value::Array(cards.iter().map(Card::to_json).collect()))?,
        false => output::text(&table(&cards, age::now()))?,
    };
    if !args.json {
        if all > cards.len() {
            output::note(&format!(
                "{} older ones are left out: `--limit 0` shows all",
                all - cards.len()
            ));
        }
        if gone > 0 {
            let gone = match gone {
                1 => "1 further run has no journal any more".to_owned(),
                _ => format!("{gone} further runs have no journal any more"),
            };
            output::note(&format!(
                "{gone}: `mswea-host runs rm --gone` forgets these runs"
            ));
        }
    }
    Ok(code)
}

fn table(cards: &[Card], now: f64) -> String {
    if cards.is_empty() {
        return "no runs\n".to_owned();
    }
    let cost = |card: &Card| card.cost.map_or("?".to_owned(), dollars_text);
    let mut rows = vec![["RUN", "AGE", "STATUS", "STEPS", "COST", "TASK"].map(str::to_owned)];
    rows.extend(cards.iter().map(|card| {
        [
            cut_to(&one_line(&card.run_id), 40),
            age::words(now - card.started),
            cut_to(&one_line(card.standing.word()), 30),
            card.steps.to_string(),
            cost(card),
            cut_to(&one_line(&card.task), TASK),
        ]
    }));
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or_default()
    };
    let widths: [usize; 6] = std::array::from_fn(width);
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths) {
            let _ = write!(line, "{cell:<width$}  ");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::card::Standing;
    use super::*;

    #[test]
    fn a_row_is_a_line_whatever_a_journal_says() {
        let card = |run_id: &str, task: &str, standing| Card {
            run_id: run_id.to_owned(),
            task: task.to_owned(),
            standing,
            cost: Some(0.25),
            steps: 7,
            started: 100.0,
            last: 150.0,
            journal: PathBuf::new(),
            trajectory: PathBuf::new(),
        };
        let cards = [
            card("r-1", "fix\nthe\tbug", Standing::Ended("Submitted".into())),
            Card {
                cost: None,
                ..card("r-\x1b[2J2", &"x".repeat(500), Standing::Killed)
            },
            card("r-3", "\u{202e}txt", Standing::Running),
        ];
        let expected = format!(
            "RUN  AGE    STATUS     STEPS  COST     TASK\n\
             r-1  1 min  Submitted  7      $0.2500  fix the bug\n\
             r-2  1 min  killed     7      ?        {}...\n\
             r-3  1 min  running    7      $0.2500  <U+202E>txt\n",
            "x".repeat(60)
        );
        assert_eq!(table(&cards, 170.0), expected);
        assert_eq!(table(&[], 0.0), "no runs\n");
    }
}
