//! Action samplers, as SWE-agent has them: for each step, the model is asked several times, and one
//! reply is used. This module has their settings and computations; `needs/sampling.rs` sends the
//! questions.

use serde_json::Value;

use mswea_core::{CONTENT_LIST, Message, Object};

/// The key of a reply's `extra` with the data of the sampling.
pub const SAMPLED: &str = "action_sampler";

/// The most samples of a step, because each is paid.
const MOST: u64 = 100;

/// How the reply of a step is found.
#[derive(Clone, Debug, PartialEq)]
pub enum ActionSampler {
    /// The model proposes actions, sees all of them, and then replies.
    Colleagues {
        /// The number of proposals.
        samples: u32,
    },
    /// The model proposes actions, and compares two at a time; the last one that it prefers is the
    /// reply.
    Comparison(Box<ComparedSamples>),
}

/// Settings of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparedSamples {
    /// The number of proposals.
    pub least: u32,
    /// The number of proposals if one of the first ones changes a file.
    pub most: u32,
    /// The first message of a comparison.
    pub system: String,
    /// The template of its second message, with the steps so far in `traj`.
    pub instance: String,
    /// The template of its third message, with `thought1`, `action1`, `thought2` and `action2`.
    pub comparison: String,
}

/// An action that the model has proposed.
#[derive(Clone, Debug, PartialEq)]
pub struct Proposal {
    /// The text of the reply.
    pub thought: String,
    /// The commands.
    pub action: String,
}

const SYSTEM: &str = "Two programmers have each suggested a next step for the same task. \
    You decide which of the two is taken.";
const INSTANCE: &str = "The task:\n{{ task }}\n\nThe steps so far:\n{{ traj }}";
const COMPARISON: &str = "The first suggestion:\n{{ thought1 }}\n\nIts command:\n{{ action1 }}\n\n\
    The second suggestion:\n{{ thought2 }}\n\nIts command:\n{{ action2 }}\n\n\
    Compare the two. The last line of your answer is one word: `first` or `second`.";

/// The beginnings of actions that change a file.
const EDITS: &[&str] = &[
    "edit",
    "str_replace_editor insert",
    "str_replace_editor str_replace",
];

impl ActionSampler {
    /// Reads the map `agent.action_sampler`; none if it is empty.
    ///
    /// # Errors
    /// A text with the mistake in the map.
    pub fn of(map: &Object) -> Result<Option<Self>, String> {
        let Some(kind) = map.get("type") else {
            return match map.keys().next() {
                None => Ok(None),
                Some(_) => Err(
                    "`type` is missing: `ask_colleagues` or `binary_trajectory_comparison`"
                        .to_owned(),
                ),
            };
        };
        let (keys, sampler): (&[&str], _) = match kind.as_str() {
            Some("ask_colleagues") => {
                let samples = count(map, "n_samples", 2)?;
                (&["n_samples"], Self::Colleagues { samples })
            }
            Some("binary_trajectory_comparison") => {
                let compared = ComparedSamples {
                    least: count(map, "min_n_samples", 4)?,
                    most: count(map, "max_n_samples", 10)?,
                    system: text(map, "system_template", SYSTEM)?,
                    instance: text(map, "instance_template", INSTANCE)?,
                    comparison: text(map, "comparison_template", COMPARISON)?,
                };
                let keys = &[
                    "min_n_samples",
                    "max_n_samples",
                    "system_template",
                    "instance_template",
                    "comparison_template",
                ];
                (keys, Self::Comparison(Box::new(compared)))
            }
            _ => {
                return Err(format!(
                    "`type` is `ask_colleagues` or `binary_trajectory_comparison`, not `{kind}`"
                ));
            }
        };
        match map
            .keys()
            .find(|key| *key != "type" && !keys.contains(&key.as_str()))
        {
            Some(key) => Err(format!(
                "there is no `{key}`: the keys are `{}`",
                keys.join("`, `")
            )),
            None => Ok(Some(sampler)),
        }
    }

    /// The keys and the texts of its templates.
    pub fn templates(&self) -> Vec<(&'static str, &str)> {
        match self {
            Self::Colleagues { .. } => Vec::new(),
            Self::Comparison(it) => vec![
                ("agent.action_sampler.instance_template", &it.instance),
                ("agent.action_sampler.comparison_template", &it.comparison),
            ],
        }
    }
}

impl ComparedSamples {
    /// How many more actions are to be proposed after these.
    pub(crate) fn further(&self, proposals: &[Proposal]) -> u32 {
        let edits = |it: &Proposal| EDITS.iter().any(|edit| it.action.starts_with(edit));
        match proposals.iter().any(edits) {
            true => self.most.saturating_sub(self.least),
            false => 0,
        }
    }

    /// The messages of a comparison, with rendered texts. `is_marked`: the second message is marked
    /// for the cache, because more comparisons follow.
    pub(crate) fn messages(
        &self,
        instance: String,
        comparison: String,
        is_marked: bool,
    ) -> Vec<Message> {
        let mut instance = Message::new("user", instance);
        let mut comparison = Message::new("user", comparison);
        for message in [&mut instance, &mut comparison] {
            message.extra.insert(CONTENT_LIST.to_owned(), true.into());
        }
        if is_marked {
            let mark = serde_json::json!({"type": "ephemeral"});
            instance.extra.insert("cache_control".to_owned(), mark);
        }
        vec![
            Message::new("system", self.system.as_str()),
            instance,
            comparison,
        ]
    }
}

/// Whether the reply to a comparison prefers the second proposal.
pub(crate) fn prefers_second(reply: &str) -> bool {
    let last = reply.trim().lines().next_back().unwrap_or_default();
    let last = last.to_lowercase();
    !last.contains("first") && last.contains("second")
}

/// The proposals, as a message to the model.
pub(crate) fn discussion<'p>(proposals: impl Iterator<Item = (usize, &'p Proposal)>) -> String {
    let mut text = "Colleagues of yours suggest these next steps:\n\n".to_owned();
    for (number, Proposal { thought, action }) in proposals {
        text.push_str(&format!(
            "Thought (colleague {number}): {thought}\nProposed Action (colleague {number}): {action}\n\n"
        ));
    }
    text.push_str(
        "Weigh these suggestions, decide on one action, and say why. Answer in the same form as before: \
         with your thoughts and exactly one action.",
    );
    text
}

/// The steps so far, for a comparison: the commands of each, and their observations.
pub(crate) fn steps<'m>(messages: impl Iterator<Item = &'m Message>) -> String {
    let mut steps: Vec<(String, String)> = Vec::new();
    for message in messages {
        if let Some(Value::Array(actions)) = message.extra.get("actions") {
            let commands = actions.iter().filter_map(|it| it["command"].as_str());
            steps.push((commands.collect::<Vec<_>>().join("\n"), String::new()));
        } else if let (Some((_, shown)), Some(output)) =
            (steps.last_mut(), message.extra.get("raw_output"))
        {
            shown.push_str(output.as_str().unwrap_or_default());
        }
    }
    let lines = steps.iter().enumerate().map(|(number, (action, shown))| {
        format!("Action {number}: {action}\n Observation {number}: {shown}")
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn count(map: &Object, key: &str, default: u32) -> Result<u32, String> {
    let Some(value) = map.get(key) else {
        return Ok(default);
    };
    let number = value.as_u64().filter(|number| (1..=MOST).contains(number));
    let number = number.and_then(|number| u32::try_from(number).ok());
    number.ok_or_else(|| format!("`{key}` is a number from 1 to {MOST}, not `{value}`"))
}

fn text(map: &Object, key: &str, default: &str) -> Result<String, String> {
    match map.get(key) {
        None => Ok(default.to_owned()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(other) => Err(format!("`{key}` is a text, not `{other}`")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(map: Value) -> Result<Option<ActionSampler>, String> {
        ActionSampler::of(map.as_object().unwrap())
    }

    #[test]
    fn mistakes_are_named() {
        assert_eq!(read(json!({})), Ok(None));
        let read_two = read(json!({"type": "ask_colleagues"}));
        assert_eq!(read_two, Ok(Some(ActionSampler::Colleagues { samples: 2 })));
        for (map, part) in [
            (json!({"n_samples": 2}), "`type` is missing"),
            (json!({"type": "x"}), "not `\"x\"`"),
            (
                json!({"type": "ask_colleagues", "n_samples": 0}),
                "from 1 to 100",
            ),
            (
                json!({"type": "ask_colleagues", "n_samples": -1}),
                "from 1 to 100",
            ),
            (
                json!({"type": "ask_colleagues", "min_n_samples": 1}),
                "the keys are `n_samples`",
            ),
            (
                json!({"type": "binary_trajectory_comparison", "system_template": 5}),
                "`system_template` is a text",
            ),
        ] {
            let error = read(map.clone()).unwrap_err();
            assert!(error.contains(part), "{map}: {error}");
        }
    }

    #[test]
    fn the_last_line_of_a_comparison_decides() {
        for (reply, expected) in [
            ("second", true),
            ("The first is bad.\nSECOND!\n\n", true),
            ("second\nfirst", false),
            ("first or second", false),
            ("neither", false),
            ("", false),
        ] {
            assert_eq!(prefers_second(reply), expected, "{reply:?}");
        }
    }

    #[test]
    fn more_is_proposed_after_an_edit() {
        let Ok(Some(ActionSampler::Comparison(compared))) =
            read(json!({"type": "binary_trajectory_comparison"}))
        else {
            panic!();
        };
        for (action, further) in [("edit 1:2", 6), ("str_replace_editor view", 0), ("ls", 0)] {
            let proposal = Proposal {
                thought: String::new(),
                action: action.to_owned(),
            };
            assert_eq!(compared.further(&[proposal]), further, "{action}");
        }
    }
}
