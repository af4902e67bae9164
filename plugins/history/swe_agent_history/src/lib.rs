//! SWE-agent's history processors in one component; its config's `type` selects one.
//!
//! `last_n_observations` and `cache_control` are plugins of their own.

mod engine;
mod image;
mod item;
mod remove;
mod tag;
mod window;

use mswea_sdk::processor::Next;
use mswea_sdk::types::{Change, PluginError};
use mswea_sdk::{Descriptor, Plugin, Processor, from_config};
use serde::Deserialize;
use serde_json::{Value, json};

use engine::{Engine, Identity, Rule};
use image::ImageParser;
use remove::Remover;
use tag::Tagger;
use window::ClosedWindow;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    r#type: Type,
    #[serde(default)]
    compat: bool,
    #[serde(default = "keep_output")]
    tags: Vec<String>,
    #[serde(default)]
    function_names: Vec<String>,
    #[serde(default = "diff")]
    remove: Vec<String>,
    #[serde(default)]
    keep_last: usize,
    #[serde(default = "images")]
    allowed_mime_types: Vec<String>,
}

/// The processors.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Type {
    Default,
    TagToolCallObservations,
    ClosedWindow,
    RemoveRegex,
    ImageParsing,
}

fn keep_output() -> Vec<String> {
    vec!["keep_output".to_owned()]
}

fn diff() -> Vec<String> {
    vec!["<diff>.*</diff>".to_owned()]
}

fn images() -> Vec<String> {
    ["image/png", "image/jpeg", "image/webp"]
        .map(str::to_owned)
        .to_vec()
}

/// The plugin: one of the processors.
pub struct SweAgentHistory(Engine);

impl Plugin for SweAgentHistory {
    fn describe() -> Descriptor {
        let strings = |default: Vec<String>, description: &str| {
            json!({
                "type": "array",
                "items": { "type": "string" },
                "default": default,
                "description": description,
            })
        };
        Descriptor::new(
            "swe_agent_history",
            env!("CARGO_PKG_VERSION"),
            "SWE-agent's history processors: tags, closed windows, regular expressions, images",
        )
        .config_schema(&json!({
            "type": "object",
            "properties": {
                "type": {
                    "type": "string",
                    "enum": [
                        "default",
                        "tag_tool_call_observations",
                        "closed_window",
                        "remove_regex",
                        "image_parsing",
                    ],
                    "description": "The processor, by SWE-agent's name.",
                },
                "compat": {
                    "type": "boolean",
                    "default": false,
                    "description": "Whether to copy behaviours of SWE-agent that look like bugs; \
                                    see the README.",
                },
                "tags": strings(
                    keep_output(),
                    "With `tag_tool_call_observations`: the tags that are added.",
                ),
                "function_names": strings(
                    Vec::new(),
                    "With `tag_tool_call_observations`: the tools, or the programs that commands \
                     begin with, whose observations are tagged.",
                ),
                "remove": strings(
                    diff(),
                    "With `remove_regex`: text that matches one of these is removed. A dot matches \
                     line breaks, too.",
                ),
                "keep_last": {
                    "type": "integer",
                    "minimum": 0,
                    "default": 0,
                    "description": "With `remove_regex`: how many messages at the end stay as \
                                    they are.",
                },
                "allowed_mime_types": strings(
                    images(),
                    "With `image_parsing`: the types of images; others stay text.",
                ),
            },
            "required": ["type"],
            "additionalProperties": false,
            "examples": [
                { "type": "default" },
                {
                    "type": "tag_tool_call_observations",
                    "tags": ["keep_output"],
                    "function_names": ["str_replace_editor", "open"],
                },
                { "type": "closed_window" },
                { "type": "closed_window", "compat": true },
                { "type": "remove_regex", "remove": ["<diff>.*?</diff>"], "keep_last": 2 },
                { "type": "image_parsing", "allowed_mime_types": ["image/png"] },
            ],
        }))
    }

    fn configure(config: Value) -> Result<Self, PluginError> {
        let config: Config = from_config(config)?;
        let rule: Box<dyn Rule> = match config.r#type {
            Type::Default => Box::new(Identity),
            Type::TagToolCallObservations => Box::new(Tagger::new(
                config.tags,
                config.function_names,
                config.compat,
            )),
            Type::ClosedWindow => Box::new(ClosedWindow::new(config.compat)),
            Type::RemoveRegex => Box::new(Remover::new(&config.remove, config.keep_last)?),
            Type::ImageParsing => Box::new(ImageParser {
                allowed: config.allowed_mime_types,
            }),
        };
        Ok(Self(Engine::new(rule)))
    }
}

impl Processor for SweAgentHistory {
    fn apply(&mut self, change: Change) -> Result<Next, PluginError> {
        self.0.apply(change).map(Next::Done)
    }
}

mswea_sdk::export!(processor: SweAgentHistory);

#[cfg(test)]
mod tests;
