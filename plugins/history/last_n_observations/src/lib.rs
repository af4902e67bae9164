//! The processor that shortens all but the last observations.
//!
//! It implements the protocol of changes itself: the cost of a step depends on what changed in the
//! view, not on the length of the history.

mod observation;

use mswea_sdk::processor::{Next, check_start};
use mswea_sdk::types::{Change, Message, PluginError};
use mswea_sdk::{Descriptor, Plugin, Processor, from_config};
use observation::{Fate, Tags};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    n: usize,
    #[serde(default = "one")]
    polling: usize,
    #[serde(default = "remove_output")]
    always_remove_output_for_tags: Vec<String>,
    #[serde(default = "keep_output")]
    always_keep_output_for_tags: Vec<String>,
}

fn one() -> usize {
    1
}

fn remove_output() -> Vec<String> {
    vec!["remove_output".to_owned()]
}

fn keep_output() -> Vec<String> {
    vec!["keep_output".to_owned()]
}

/// The index of an observation in the history. The first entry is the task itself.
struct Observation {
    index: usize,
    fate: Fate,
}

/// The plugin: its config, and the history as the host sent it.
pub struct LastNObservations {
    n: usize,
    polling: usize,
    tags: Tags,
    // The whole history: when its end is removed, old observations are shown again.
    history: Vec<Message>,
    observations: Vec<Observation>,
    /// Index of the first message of role `user` that is no demonstration: the task.
    task: Option<usize>,
    /// Observations before this number are old.
    last: usize,
}

impl Plugin for LastNObservations {
    fn describe() -> Descriptor {
        let tags = |default: Vec<String>, description: &str| {
            json!({
                "type": "array",
                "items": { "type": "string" },
                "default": default,
                "description": description,
            })
        };
        Descriptor::new(
            "last_n_observations",
            env!("CARGO_PKG_VERSION"),
            "Shortens all but the last observations",
        )
        .config_schema(&json!({
            "type": "object",
            "properties": {
                "n": {
                    "type": "integer",
                    "minimum": 1,
                    "description": "How many observations stay whole.",
                },
                "polling": {
                    "type": "integer",
                    "minimum": 1,
                    "default": one(),
                    "description": "The limit moves only when this many observations have been \
                                    added. Until then the provider's prompt cache stays valid.",
                },
                "always_remove_output_for_tags": tags(
                    remove_output(),
                    "Observations with one of these tags are always shortened.",
                ),
                "always_keep_output_for_tags": tags(
                    keep_output(),
                    "Observations with one of these tags are never shortened.",
                ),
            },
            "required": ["n"],
            "additionalProperties": false,
            "examples": [
                { "n": 5 },
                { "n": 5, "polling": 10, "always_keep_output_for_tags": ["keep_output", "plan"] },
            ],
        }))
    }

    fn configure(config: Value) -> Result<Self, PluginError> {
        let config: Config = from_config(config)?;
        for (key, value) in [("n", config.n), ("polling", config.polling)] {
            if value == 0 {
                let message = format!("`{key}` must not be 0; write a number from 1 on");
                return Err(PluginError::invalid_config(message).at(&format!("/{key}")));
            }
        }
        Ok(Self {
            n: config.n,
            polling: config.polling,
            tags: Tags {
                keep: config.always_keep_output_for_tags,
                remove: config.always_remove_output_for_tags,
            },
            history: Vec::new(),
            observations: Vec::new(),
            task: None,
            last: 0,
        })
    }
}

impl LastNObservations {
    /// Applies a change to the history and the list of observations.
    fn take(&mut self, change: Change) {
        let start = change.start as usize;
        self.history.truncate(start);
        let known = self
            .observations
            .partition_point(|observation| observation.index < start);
        self.observations.truncate(known);
        self.task = self.task.filter(|task| *task < start);
        for message in change.messages {
            let index = self.history.len();
            let mut fate = observation::fate(&message, &self.tags);
            if message.role == "user" && self.task.is_none() && !observation::is_demo(&message) {
                self.task = Some(index);
                fate = Some(Fate::Keep);
            }
            if let Some(fate) = fate {
                self.observations.push(Observation { index, fate });
            }
            self.history.push(message);
        }
    }

    /// The number of the first observation that is not old.
    fn limit(&self) -> usize {
        let polled = self.observations.len() / self.polling * self.polling;
        polled.saturating_sub(self.n)
    }

    fn is_elided(&self, number: usize) -> bool {
        // Number 0 is the task, or the message in its place.
        number > 0
            && match self.observations[number].fate {
                Fate::ByAge => number < self.last,
                Fate::Keep => false,
                Fate::Remove => true,
            }
    }

    /// A message of the view; `number` is that of the first observation at or after it.
    fn seen(&self, index: usize, number: usize) -> Message {
        let message = &self.history[index];
        let observation = self.observations.get(number);
        match observation.is_some_and(|found| found.index == index && self.is_elided(number)) {
            true => observation::elided(message),
            false => message.clone(),
        }
    }

    /// The view from a message on.
    fn tail(&self, start: usize) -> impl Iterator<Item = (usize, Message)> {
        let is_before = |observation: &Observation| observation.index < start;
        let mut number = self.observations.partition_point(is_before);
        (start..self.history.len()).map(move |index| {
            let message = self.seen(index, number);
            let observation = self.observations.get(number);
            number += usize::from(observation.is_some_and(|found| found.index == index));
            (index, message)
        })
    }
}

impl Processor for LastNObservations {
    fn apply(&mut self, change: Change) -> Result<Next, PluginError> {
        check_start(&change, self.history.len())?;
        let start = change.start as usize;
        self.take(change);
        let before = self.last;
        self.last = self.limit();
        // If age decides, messages between the old limit and the new one look different now; the
        // limit moves back when the history loses its end.
        let moved =
            before.min(self.last).max(1)..before.max(self.last).min(self.observations.len());
        let turned = moved.filter_map(|number| {
            let Observation { index, fate } = self.observations[number];
            let is_turned = fate == Fate::ByAge && index < start;
            is_turned.then(|| (index, self.seen(index, number)))
        });
        let mut differing: Vec<(usize, Message)> = turned.collect();
        // The last message that is sent ends the view.
        let len = self.history.len();
        let ends = differing.last().is_none_or(|(index, _)| index + 1 == len);
        let start = match start == len && !ends {
            true => len - 1,
            false => start,
        };
        differing.extend(self.tail(start));
        Ok(Next::Done(match differing.is_empty() {
            true => Change::tail(start, Vec::new()),
            false => Change::spread(differing),
        }))
    }
}

mswea_sdk::export!(processor: LastNObservations);

#[cfg(test)]
mod tests;
