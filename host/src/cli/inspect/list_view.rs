//! The list of runs on the screen: filtered by an expression, sorted by a column.

use std::time::Duration;

use fancy_regex::Regex;
use mswea_view::{RunLine, RunReader};

use super::run_view::padded;
use super::screen::ScreenRow;
use crate::cli::front::{Colour, clock};

/// The column by which runs are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RunOrder {
    Newest,
    Status,
    Cost,
    Steps,
    Name,
}

impl RunOrder {
    const ALL: [(Self, &'static str); 5] = [
        (Self::Newest, "newest"),
        (Self::Status, "status"),
        (Self::Cost, "cost"),
        (Self::Steps, "steps"),
        (Self::Name, "name"),
    ];
}

/// The list of runs.
pub(super) struct ListView {
    runs: Vec<(RunLine, Option<RunReader>)>,
    /// The indexes of the visible runs, in order.
    visible: Vec<usize>,
    pub at: usize,
    order: usize,
    filter: Option<(String, Regex)>,
    only_failed: bool,
    pub note: String,
}

impl ListView {
    pub fn new(runs: Vec<(RunLine, RunReader)>) -> Self {
        let runs = runs.into_iter().map(|(line, reader)| (line, Some(reader)));
        let mut this = Self {
            runs: runs.collect(),
            visible: Vec::new(),
            at: 0,
            order: 0,
            filter: None,
            only_failed: false,
            note: String::new(),
        };
        this.arrange();
        this
    }

    /// Replaces the runs.
    pub fn renew(&mut self, runs: Vec<(RunLine, RunReader)>) {
        let chosen = self.chosen().map(|line| line.name.clone());
        let runs = runs.into_iter().map(|(line, reader)| (line, Some(reader)));
        self.runs = runs.collect();
        self.arrange();
        self.choose(chosen.as_deref());
    }

    pub fn len(&self) -> usize {
        self.visible.len()
    }

    fn chosen(&self) -> Option<&RunLine> {
        Some(&self.runs[*self.visible.get(self.at)?].0)
    }

    fn choose(&mut self, name: Option<&str>) {
        let found = self
            .visible
            .iter()
            .position(|run| Some(&*self.runs[*run].0.name) == name);
        self.at = found
            .unwrap_or(self.at)
            .min(self.visible.len().saturating_sub(1));
    }

    /// Takes the selected run out of the list, to be opened; it is put back when it is closed.
    pub fn lend(&mut self) -> Option<(RunLine, RunReader)> {
        let run = &mut self.runs[*self.visible.get(self.at)?];
        Some((run.0.clone(), run.1.take()?))
    }

    pub fn put_back(&mut self, name: &str, mut reader: RunReader) {
        reader.close();
        let run = self
            .runs
            .iter_mut()
            .find(|(line, own)| line.name == name && own.is_none());
        if let Some(run) = run {
            run.1 = Some(reader);
        }
    }

    pub fn go(&mut self, down: bool, by: usize) {
        let at = if down {
            self.at.saturating_add(by)
        } else {
            self.at.saturating_sub(by)
        };
        self.at = at.min(self.visible.len().saturating_sub(1));
    }

    pub fn sort(&mut self) {
        self.order = (self.order + 1) % RunOrder::ALL.len();
        self.again();
    }

    pub fn toggle_failed(&mut self) {
        self.only_failed = !self.only_failed;
        self.again();
    }

    pub fn filter(&mut self, regex: Option<(String, Regex)>) {
        self.filter = regex;
        self.again();
    }

    fn again(&mut self) {
        let chosen = self.chosen().map(|line| line.name.clone());
        self.arrange();
        self.choose(chosen.as_deref());
    }

    fn arrange(&mut self) {
        let is_wanted = |line: &RunLine| {
            let has_failed = !line.is_running && !line.status.eq_ignore_ascii_case("submitted");
            let texts = [&line.name, &line.status, &line.model, &line.task];
            let matches = |(_, regex): &(String, Regex)| {
                texts
                    .iter()
                    .any(|text| regex.is_match(text).unwrap_or(false))
            };
            (has_failed || !self.only_failed) && self.filter.as_ref().is_none_or(matches)
        };
        let mut visible: Vec<usize> = (0..self.runs.len())
            .filter(|run| is_wanted(&self.runs[*run].0))
            .collect();
        let line = |run: &usize| &self.runs[*run].0;
        let cost = |run: &usize| line(run).cost.unwrap_or(-1.0);
        match RunOrder::ALL[self.order].0 {
            RunOrder::Newest => {}
            RunOrder::Status => {
                visible.sort_by(|one, other| line(one).status.cmp(&line(other).status));
            }
            RunOrder::Cost => visible.sort_by(|one, other| cost(other).total_cmp(&cost(one))),
            RunOrder::Steps => visible.sort_by_key(|run| std::cmp::Reverse(line(run).steps)),
            RunOrder::Name => visible.sort_by(|one, other| line(one).name.cmp(&line(other).name)),
        }
        self.visible = visible;
        self.at = self.at.min(self.visible.len().saturating_sub(1));
    }

    /// The rows of the screen.
    pub fn rows(&self, width: usize, height: usize) -> Vec<ScreenRow> {
        let room = height.saturating_sub(3).max(1);
        let mut head = format!(
            "{} of {} runs, by {}",
            self.visible.len(),
            self.runs.len(),
            RunOrder::ALL[self.order].1
        );
        if let Some((typed, _)) = &self.filter {
            head.push_str(&format!(", that match `{typed}`"));
        }
        if self.only_failed {
            head.push_str(", that have not submitted");
        }
        let columns = "  status            steps     cost     time  name";
        let mut rows = vec![
            (Some(Colour::Bold), head),
            (Some(Colour::Dim), columns.to_owned()),
        ];
        let first = (self.at + 1).saturating_sub(room - 1);
        for (place, run) in self.visible.iter().enumerate().skip(first).take(room - 1) {
            let (line, _) = &self.runs[*run];
            let is_chosen = place == self.at;
            let cost = line
                .cost
                .map_or_else(|| "-".to_owned(), |cost| format!("${cost:.2}"));
            let took = line.took.map_or_else(
                || "-".to_owned(),
                |took| clock(Duration::try_from_secs_f64(took).unwrap_or_default()),
            );
            let text = format!(
                "{} {} {:>5} {:>8} {:>8}  {}  {}",
                if is_chosen { '>' } else { ' ' },
                padded(&line.status, 17),
                line.steps,
                cost,
                took,
                line.name,
                line.task,
            );
            let colour = match (is_chosen, line.is_running) {
                (true, _) => Some(Colour::Bold),
                (_, true) => Some(Colour::Yellow),
                _ => None,
            };
            rows.push((colour, text));
        }
        rows.resize(room + 1, (None, String::new()));
        let task = self
            .chosen()
            .map(|line| format!("{} {}", line.model, line.task));
        rows.push((Some(Colour::Cyan), task.unwrap_or_default()));
        let help = match &*self.note {
            "" => "Enter: open · /: filter · s: sort · f: only failed · r: look again · q: end",
            note => note,
        };
        rows.push((Some(Colour::Dim), help.to_owned()));
        let _ = width;
        rows
    }
}
