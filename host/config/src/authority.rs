//! Which values of a recorded config are of use to an attacker who can edit the record.
//!
//! A config of the user says where keys are sent, which programs run on this machine, what is mounted
//! and what is thrown away. A record may come from somebody else. Here is the list of the keys whose
//! recorded values need no consent. Every key that is not in it needs consent, so a new key does, too.

use serde_json::Value;

use super::environment_class;
use super::keys::{self, Found};
use super::layers::Layers;
use super::node::{Content, Node};
use super::origin::Origin;
use super::presets;

/// A value of a recorded config that needs the user's consent.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedValue {
    /// The dotted key.
    pub key: String,
    /// As it was recorded.
    pub value: Value,
}

/// Keys whose values decide neither where something is sent or runs, nor what is read, written or thrown
/// away.
const HARMLESS: &[&str] = &[
    "agent.system_template",
    "agent.instance_template",
    "agent.step_limit",
    "agent.cost_limit",
    "agent.wall_time_limit_seconds",
    "agent.max_consecutive_format_errors",
    "agent.max_consecutive_timeouts",
    "agent.total_execution_timeout",
    "agent.rules",
    "agent.strategy_template",
    "agent.syntax_error_template",
    "agent.demonstrations",
    "agent.action_sampler",
    "agent.salvage_timeout",
    // Of a resumed run only the file's name is used, in the folder of its journal, and a file there must
    // be of this run; a fork has its own.
    "agent.output_path",
    "agent.mode",
    "agent.agent_class",
    "agent.whitelist_actions",
    "agent.confirm_exit",
    "model.stream",
    "model.merge_user_messages",
    "model.observation_template",
    "model.format_error_template",
    "model.action_regex",
    "model.set_cache_control",
    "model.multimodal_regex",
    "model.cost_tracking",
    "model.litellm_model_name_override",
    "model.price.input",
    "model.price.output",
    "model.price.cache_read",
    "model.price.cache_write",
    "model.connect_timeout",
    "model.first_byte_timeout",
    "model.idle_timeout",
    "model.total_timeout",
    "model.rate_limit_retries",
    "model.network_retries",
    "model.retry_wait",
    "model.max_response_bytes",
    // A run on this machine without a sandbox is in the list by itself, whatever sets it.
    "environment.environment_class",
    "environment.sandbox",
    "environment.timeout",
    "environment.capture_bytes",
    "environment.sandbox_network",
    "environment.pull_timeout",
    "environment.start_timeout",
    "environment.transport",
    "environment.fast_path",
    "environment.keep_container",
    "environment.memory",
    "environment.cpus",
    "environment.platform",
    "environment.sandbox_build_retries",
    "environment.build_timeout",
    "environment.reconnect_seconds",
    "environment.connect_timeout",
    "workspace.startup_timeout",
    "run.task",
    "run.on_end_timeout",
    "plugins.*.sha256",
    "plugins.*.deadline_ms",
    "plugins.*.memory_mb",
    "plugins.*.max_output_mb",
    "plugins.*.log_kb",
];

/// Parameters of `model.model_kwargs` that say nothing of addresses, keys, headers or files.
const HARMLESS_KWARGS: &[&str] = &[
    "drop_params",
    "frequency_penalty",
    "input_cost_per_token",
    "logprobs",
    "max_completion_tokens",
    "max_output_tokens",
    "max_retries",
    "max_tokens",
    "n",
    "num_retries",
    "output_cost_per_token",
    "parallel_tool_calls",
    "presence_penalty",
    "reasoning",
    "reasoning_effort",
    "request_timeout",
    "response_format",
    "seed",
    "service_tier",
    "stop",
    "stream_timeout",
    "temperature",
    "thinking",
    "timeout",
    "tool_choice",
    "top_k",
    "top_logprobs",
    "top_p",
    "verbosity",
];

/// The built-in plugin that answers from a file, in the place of a model.
const REPLAY: &str = "replay";

impl Layers {
    /// The values that the record `journal` has set, that need the user's consent, and that nothing above
    /// the record sets anew. A run on this machine without a sandbox needs consent also where the record
    /// sets nothing: an editor of the record may have taken the sandbox out.
    pub fn recorded_authority(&self, journal: &str) -> Vec<RecordedValue> {
        let is_record = |origin: &Origin| matches!(origin, Origin::File { path, line: 1, column: 1 } if path == journal);
        let mut found = Vec::new();
        walk(&self.merged, &is_record, &mut Vec::new(), &mut found);
        let set_anew = |key: &str| {
            let node = self.merged.get(&["environment", key]);
            node.is_some_and(|node| {
                !is_record(&node.origin)
                    && !matches!(node.origin, Origin::BuiltIn | Origin::Preset { .. })
            })
        };
        let sandbox = self.merged.get(&["environment", "sandbox"]);
        let is_open = sandbox.is_none_or(|node| node.to_value() == "none");
        let class = environment_class::find(&self.environment_class());
        let is_local =
            class.is_none_or(|class| class.kind == environment_class::EnvironmentKind::Local);
        if is_local && is_open && !set_anew("sandbox") && !set_anew("environment_class") {
            found.push(RecordedValue {
                key: "environment.sandbox".to_owned(),
                value: "none".into(),
            });
        }
        found
    }
}

fn walk(
    node: &Node,
    is_record: &dyn Fn(&Origin) -> bool,
    path: &mut Vec<String>,
    found: &mut Vec<RecordedValue>,
) {
    if let Content::Map(entries) = &node.content {
        for entry in entries {
            path.push(entry.key.clone());
            walk(&entry.node, is_record, path, found);
            path.pop();
        }
        return;
    }
    if !is_record(&node.origin) {
        return;
    }
    let value = node.to_value();
    if !is_harmless(path, &value) {
        found.push(RecordedValue {
            key: path.join("."),
            value,
        });
    }
}

fn is_harmless(path: &[String], value: &Value) -> bool {
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    let (Found::Key(key) | Found::Inside(key)) = keys::find(&path) else {
        return false;
    };
    // Null takes away what lies below, and below are only the presets.
    if value.is_null() || HARMLESS.contains(&key.path) {
        return true;
    }
    match key.path {
        "model.model_kwargs" => path.get(2).is_some_and(|it| HARMLESS_KWARGS.contains(it)),
        // These two can name a file whose replies are run as commands.
        "model.model_name" => texts(value).all(|it| !it.trim().starts_with(REPLAY)),
        "model.model_class" => texts(value).all(|it| it != "deterministic"),
        "pipeline.adapter"
        | "pipeline.parser"
        | "pipeline.formatter"
        | "pipeline.processors"
        | "pipeline.policies" => texts(value).all(names_no_file),
        "environment.network" => value == "none",
        // What the preset sets, and mini-swe-agent's own configs, too.
        "environment.env" => {
            let preset = presets::tree(presets::DEFAULT);
            preset.get(&path).is_some_and(|it| it.to_value() == *value)
        }
        _ => false,
    }
}

/// Whether a plugin's name is neither that of a file nor of the plugin that reads one; an entry
/// `[plugins.NAME]` with a path is in the list by itself.
pub fn names_no_file(plugin: &str) -> bool {
    plugin != REPLAY && !plugin.contains('/') && !plugin.ends_with(".wasm")
}

/// The texts that a value consists of; another value than a text is not among them, as the checks of a
/// layer refuse it.
fn texts(value: &Value) -> impl Iterator<Item = &str> {
    let one = value.as_str();
    let many = value.as_array().into_iter().flatten();
    one.into_iter().chain(many.filter_map(Value::as_str))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::keys::KEYS;
    use super::super::layers::Sources;
    use super::super::recorded::RecordedConfig;
    use super::super::testing::Memory;
    use super::*;

    /// The keys that need consent if `config` is a record, and `anew` the command line.
    fn needed(config: Value, anew: &[&str]) -> Vec<String> {
        let sources = Sources {
            configs: anew.iter().map(|spec| (*spec).to_owned()).collect(),
            recorded: Some(RecordedConfig {
                config,
                journal: "j.events.jsonl".into(),
                mini: false,
                is_only_read: false,
            }),
            ..Sources::default()
        };
        let layers = Layers::load(&sources, &Memory::new()).unwrap();
        let found = layers.recorded_authority("j.events.jsonl").into_iter();
        found.map(|it| it.key).collect()
    }

    #[test]
    fn every_harmless_key_is_a_key() {
        for path in HARMLESS {
            assert!(KEYS.iter().any(|key| key.path == *path), "{path}");
        }
    }

    #[test]
    fn what_gives_authority_needs_consent() {
        let boxed = json!({ "environment": { "sandbox": "landlock" } });
        assert_eq!(needed(boxed, &[]), Vec::<String>::new());
        for (config, key) in [
            (
                json!({ "model": { "base_url": "http://h" } }),
                "model.base_url",
            ),
            (
                json!({ "model": { "api_key_env": "T" } }),
                "model.api_key_env",
            ),
            (
                json!({ "model": { "secrets_file": "f" } }),
                "model.secrets_file",
            ),
            (
                json!({ "model": { "plain_http_hosts": ["h"] } }),
                "model.plain_http_hosts",
            ),
            (
                json!({ "model": { "model_kwargs": { "api_base": "http://h" } } }),
                "model.model_kwargs.api_base",
            ),
            (
                json!({ "model": { "model_kwargs": { "extra_headers": { "a": "b" } } } }),
                "model.model_kwargs.extra_headers.a",
            ),
            (
                json!({ "model": { "session_header": { "a": "b" } } }),
                "model.session_header.a",
            ),
            (
                json!({ "model": { "model_name": "replay/f" } }),
                "model.model_name",
            ),
            (json!({ "run": { "on_end": "c" } }), "run.on_end"),
            (
                json!({ "agent": { "salvage_command": "c" } }),
                "agent.salvage_command",
            ),
            (
                json!({ "environment": { "env": { "A": "b" } } }),
                "environment.env.A",
            ),
            (
                json!({ "environment": { "sandbox_sockets": true } }),
                "environment.sandbox_sockets",
            ),
            (
                json!({ "environment": { "writable": ["/"] } }),
                "environment.writable",
            ),
            (json!({ "workspace": { "reset": true } }), "workspace.reset"),
            (
                json!({ "plugins": { "p": { "path": "p.wasm" } } }),
                "plugins.p.path",
            ),
            (
                json!({ "plugins": { "p": { "config": { "a": 1 } } } }),
                "plugins.p.config.a",
            ),
            (
                json!({ "providers": { "p": { "base_url": "http://h" } } }),
                "providers.p.base_url",
            ),
            (
                json!({ "pipeline": { "parser": "./p.wasm" } }),
                "pipeline.parser",
            ),
            (
                json!({ "pipeline": { "policies": ["a/b"] } }),
                "pipeline.policies",
            ),
        ] {
            let mut boxed = config.clone();
            boxed["environment"]["sandbox"] = "landlock".into();
            assert_eq!(needed(boxed, &[]), [key], "{config}");
        }
    }

    #[test]
    fn what_is_given_anew_needs_none() {
        let config = json!({
            "model": { "base_url": "http://h", "model_name": "openai/gpt-5", "model_kwargs": { "temperature": 1 } },
            "environment": { "sandbox": "landlock" },
            "pipeline": { "parser": "toolcall", "formatter": "jinja" },
        });
        assert_eq!(needed(config.clone(), &[]), ["model.base_url"]);
        let preset = json!({ "environment": { "sandbox": "landlock", "env": { "PAGER": "cat", "LESS": "x" } } });
        assert_eq!(needed(preset, &[]), ["environment.env.LESS"]);
        let anew = needed(config, &["model.base_url=http://other"]);
        assert_eq!(anew, Vec::<String>::new());
    }

    #[test]
    fn a_run_without_a_sandbox_needs_consent() {
        assert_eq!(needed(json!({}), &[]), ["environment.sandbox"]);
        for anew in [
            "environment.sandbox=landlock",
            "environment.environment_class=local",
            "environment.image=i",
        ] {
            assert_eq!(needed(json!({}), &[anew]), Vec::<String>::new(), "{anew}");
        }
    }
}
