//! Scenarios: lists of turns, and the rule that picks one for a request.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::turn::Turn;

/// What a server answers, in which order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The turns.
    pub turns: Vec<Turn>,
    /// How a turn is picked.
    #[serde(default)]
    pub by: By,
    /// What follows the last turn.
    #[serde(default)]
    pub after: After,
    /// Whether any POST takes a turn, with any path and body: for turns that hold the whole `body` of
    /// another wire format. Such turns have to be picked by order, because only requests of the four APIs
    /// have a history that the server can read.
    #[serde(default, skip_serializing_if = "is_false")]
    pub any_route: bool,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// How a turn is picked for a request. A turn with [`Turn::matching`] is picked by that condition in both
/// cases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// The n-th request gets the n-th turn.
    #[default]
    Order,
    /// A request with n assistant messages gets turn n (from 0), also when it is sent again: so each of
    /// several parallel agents gets all turns.
    History,
}

/// What follows the last turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum After {
    /// Status 500 with the message `scenario exhausted`.
    #[default]
    Status,
    /// The last turn, again and again.
    Repeat,
    /// From the first turn on.
    Loop,
}

/// Why a scenario can't be played.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError(String);

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ScenarioError {}

impl Scenario {
    /// These turns, in order; later requests are answered with an error.
    pub fn new(turns: impl IntoIterator<Item = Turn>) -> Self {
        Self {
            turns: turns.into_iter().collect(),
            ..Self::default()
        }
    }

    /// One turn for each command, which calls the bash tool with it.
    pub fn commands<S: AsRef<str>>(commands: &[S]) -> Self {
        Self::new(
            commands
                .iter()
                .map(|command| Turn::commands(std::slice::from_ref(command))),
        )
    }

    /// One turn for each command, which has it in the fence of the text preset.
    pub fn text_turns<S: AsRef<str>>(commands: &[S]) -> Self {
        Self::new(
            commands
                .iter()
                .map(|command| Turn::fenced(command.as_ref())),
        )
    }

    /// The same turn for every request.
    pub fn always(turn: Turn) -> Self {
        Self::new([turn]).then(After::Repeat)
    }

    /// Picks turns by the number of assistant messages in the request.
    #[must_use]
    pub fn by_history(mut self) -> Self {
        self.by = By::History;
        self
    }

    /// Sets what follows the last turn.
    #[must_use]
    pub fn then(mut self, after: After) -> Self {
        self.after = after;
        self
    }

    /// Lets any POST take a turn, with any path and body.
    #[must_use]
    pub fn on_any_route(mut self) -> Self {
        self.any_route = true;
        self
    }

    /// Reads a scenario file's text.
    ///
    /// # Errors
    /// When the text is not JSON, has an unknown key, or a turn contradicts itself. The message has the
    /// place.
    pub fn from_json(text: &str) -> Result<Self, ScenarioError> {
        let scenario: Self = serde_json::from_str(text)
            .map_err(|error| ScenarioError(format!("the scenario can't be read: {error}")))?;
        scenario.check()?;
        Ok(scenario)
    }

    /// Reads a scenario file.
    ///
    /// # Errors
    /// As [`Scenario::from_json`], and when the file can't be read; the message names it.
    pub fn from_file(path: &Path) -> Result<Self, ScenarioError> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            ScenarioError(format!("`{}` can't be read: {error}", path.display()))
        })?;
        Self::from_json(&text)
            .map_err(|error| ScenarioError(format!("`{}`: {error}", path.display())))
    }

    /// The scenario as the text of a scenario file.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self)
            .expect("invariant: a scenario holds only strings, numbers and JSON values")
    }

    /// Checks whether the scenario can be played.
    ///
    /// # Errors
    /// When a turn contradicts itself, or there is no turn.
    pub fn check(&self) -> Result<(), ScenarioError> {
        if self.turns.is_empty() {
            return Err(ScenarioError("the scenario has no `turns`".to_owned()));
        }
        for (index, turn) in self.turns.iter().enumerate() {
            if let Some(problem) = turn.problem() {
                return Err(ScenarioError(format!("turn {}: {problem}", index + 1)));
            }
        }
        Ok(())
    }
}

/// Picks turns, and counts the turns that were picked.
#[derive(Debug)]
pub(crate) struct Script {
    turns: Vec<Arc<Turn>>,
    by: By,
    after: After,
    /// Turns with a condition, by number of assistant messages, and how often each was met.
    rules: BTreeMap<usize, (Vec<usize>, usize)>,
    /// Turns without a condition, and how many of them were picked.
    sequence: Vec<usize>,
    given: usize,
}

impl Script {
    pub(crate) fn new(scenario: Scenario) -> Self {
        let mut rules: BTreeMap<usize, (Vec<usize>, usize)> = BTreeMap::new();
        let mut sequence = Vec::new();
        for (index, turn) in scenario.turns.iter().enumerate() {
            match (turn.matching, scenario.by) {
                (Some(count), _) => rules.entry(count).or_default().0.push(index),
                (None, By::Order) => sequence.push(index),
                (None, By::History) => {
                    // The turns without a condition are numbered among themselves.
                    let count = sequence.len();
                    sequence.push(index);
                    rules.entry(count).or_default().0.push(index);
                }
            }
        }
        Self {
            turns: scenario.turns.into_iter().map(Arc::new).collect(),
            by: scenario.by,
            after: scenario.after,
            rules,
            sequence,
            given: 0,
        }
    }

    /// The turn for a request with this many assistant messages; none after the last turn.
    pub(crate) fn pick(&mut self, assistant_messages: usize) -> Option<Arc<Turn>> {
        let index = self.index(assistant_messages)?;
        self.turns.get(index).cloned()
    }

    fn index(&mut self, count: usize) -> Option<usize> {
        if let Some(index) = self.by_rule(count) {
            return Some(index);
        }
        if self.by == By::History || self.sequence.is_empty() {
            return match self.after {
                After::Status => None,
                After::Repeat => self.turns.len().checked_sub(1),
                After::Loop => {
                    let (last, _) = self.rules.last_key_value()?;
                    let turn = count % (last + 1);
                    self.by_rule(turn)
                }
            };
        }
        let given = self.given;
        self.given += 1;
        let length = self.sequence.len();
        match self.after {
            _ if given < length => Some(self.sequence[given]),
            After::Status => None,
            After::Repeat => self.sequence.last().copied(),
            After::Loop => Some(self.sequence[given % length]),
        }
    }

    /// Several turns with one condition are picked one after the other, and then always the last one.
    fn by_rule(&mut self, count: usize) -> Option<usize> {
        let (turns, met) = self.rules.get_mut(&count)?;
        let index = turns[(*met).min(turns.len() - 1)];
        *met += 1;
        Some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(scenario: Scenario, requests: &[usize]) -> Vec<String> {
        let mut script = Script::new(scenario);
        requests
            .iter()
            .map(|count| {
                script
                    .pick(*count)
                    .map_or("-".to_owned(), |turn| turn.text.clone().unwrap_or_default())
            })
            .collect()
    }

    fn texts(list: &[&str]) -> Scenario {
        Scenario::new(list.iter().map(|text| Turn::text(*text)))
    }

    #[test]
    fn turns_are_picked() {
        let ab = || texts(&["a", "b"]);
        let mixed = || {
            Scenario::new([
                Turn::text("a"),
                Turn::text("rule 1").matching(1),
                Turn::text("rule 2").matching(1),
                Turn::text("b"),
            ])
        };
        let vectors: Vec<(&str, Scenario, &[usize], &[&str])> = vec![
            ("order", ab(), &[0, 0, 5], &["a", "b", "-"]),
            (
                "order, repeat",
                ab().then(After::Repeat),
                &[0; 4],
                &["a", "b", "b", "b"],
            ),
            (
                "order, loop",
                ab().then(After::Loop),
                &[0; 4],
                &["a", "b", "a", "b"],
            ),
            (
                "history",
                ab().by_history(),
                &[1, 0, 0, 1, 2],
                &["b", "a", "a", "b", "-"],
            ),
            (
                "history, repeat",
                ab().by_history().then(After::Repeat),
                &[0, 7],
                &["a", "b"],
            ),
            (
                "history, loop",
                ab().by_history().then(After::Loop),
                &[2, 3, 4],
                &["a", "b", "a"],
            ),
            (
                "rules",
                mixed(),
                &[0, 1, 1, 1, 0],
                &["a", "rule 1", "rule 2", "rule 2", "b"],
            ),
            (
                "history with a rule",
                Scenario::new([
                    Turn::text("fault").matching(1),
                    Turn::text("a"),
                    Turn::text("b"),
                ])
                .by_history(),
                &[0, 1, 1],
                &["a", "fault", "b"],
            ),
            (
                "rules alone, loop",
                Scenario::new([Turn::text("a").matching(0), Turn::text("b").matching(1)])
                    .then(After::Loop),
                &[0, 1, 2, 3],
                &["a", "b", "a", "b"],
            ),
        ];
        for (name, scenario, requests, want) in vectors {
            assert_eq!(told(scenario, requests), want, "{name}");
        }
    }

    #[test]
    fn files_are_read() {
        let text = r#"{"turns": [{"commands": ["ls"]}, {"status": 429, "headers": {"retry-after": 1}}],
                       "by": "history", "after": "repeat"}"#;
        let scenario = Scenario::from_json(text).unwrap();
        assert_eq!(
            scenario,
            Scenario::new([
                Turn::commands(&["ls"]),
                Turn {
                    headers: [("retry-after".to_owned(), 1.into())].into_iter().collect(),
                    ..Turn::status(429)
                }
            ])
            .by_history()
            .then(After::Repeat)
        );
        assert_eq!(Scenario::from_json(&scenario.to_json()).unwrap(), scenario);
    }

    #[test]
    fn bad_files_are_refused() {
        let vectors = [
            ("{", "line 1 column 1"),
            (r#"{"turns": []}"#, "no `turns`"),
            (r#"{"turns": [{"txt": "x"}]}"#, "unknown field `txt`"),
            (
                r#"{"turns": [{"fault": "nope"}]}"#,
                "unknown variant `nope`",
            ),
            (
                r#"{"turns": [{"text": "x"}, {}]}"#,
                "turn 2: nothing to answer",
            ),
            (
                r#"{"turns": [{"text": "x"}], "after": "all"}"#,
                "unknown variant `all`",
            ),
        ];
        for (text, want) in vectors {
            let got = Scenario::from_json(text).unwrap_err().to_string();
            assert!(got.contains(want), "{text}: {got}");
        }
        let missing = Scenario::from_file(Path::new("/nowhere/x.json")).unwrap_err();
        assert!(
            missing
                .to_string()
                .contains("`/nowhere/x.json` can't be read")
        );
    }
}
