//! `run_batch_exit_statuses.yaml`: the instances of one call of `run-batch`, by exit status.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

/// The instances by exit status, and their cost.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SweBatchStatuses {
    ids: BTreeMap<String, Vec<String>>,
    cost: f64,
}

impl SweBatchStatuses {
    /// Adds an instance.
    pub fn set(&mut self, id: &str, status: &str, cost: f64) {
        self.ids
            .entry(status.to_owned())
            .or_default()
            .push(id.to_owned());
        self.cost += cost;
    }

    /// The text of the file.
    pub fn text(&self) -> String {
        let mut text = "instances_by_exit_status:".to_owned();
        text.push_str(match self.ids.is_empty() {
            true => " {}\n",
            false => "\n",
        });
        for (status, ids) in &self.ids {
            let _ = writeln!(text, "  {}:", scalar(status));
            for id in ids {
                let _ = writeln!(text, "  - {}", scalar(id));
            }
        }
        let _ = writeln!(text, "total_cost: {:?}", self.cost);
        text
    }
}

/// A YAML scalar: plain where a reader certainly takes it for this text, else as JSON.
fn scalar(text: &str) -> String {
    const WORDS: [&str; 9] = ["yes", "no", "true", "false", "on", "off", "null", "y", "n"];
    let own = |c: char| c.is_ascii_alphanumeric() || "_-.() ".contains(c);
    let is_plain = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(own)
        && !text.ends_with(' ')
        && !WORDS.contains(&text.to_ascii_lowercase().as_str());
    match is_plain {
        true => text.to_owned(),
        false => Value::from(text).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::read_yaml;

    #[test]
    fn the_file_is_yaml() {
        let empty = SweBatchStatuses::default().text();
        assert_eq!(empty, "instances_by_exit_status: {}\ntotal_cost: 0.0\n");
        let mut statuses = SweBatchStatuses::default();
        for (id, status) in [
            ("o__r-1", "submitted"),
            ("no", "submitted (exit_cost)"),
            ("1", "submitted"),
            ("a: b", "skipped (exit_format)"),
        ] {
            statuses.set(id, status, 0.25);
        }
        let text = statuses.text();
        assert!(
            text.contains("\n  submitted:\n  - o__r-1\n  - \"1\"\n"),
            "{text}"
        );
        let read = read_yaml("statuses.yaml", &text).unwrap().value();
        let by = &read["instances_by_exit_status"];
        assert_eq!(by["submitted (exit_cost)"][0], "no");
        assert_eq!(by["skipped (exit_format)"][0], "a: b");
        assert_eq!(read["total_cost"], 1.0);
    }
}
