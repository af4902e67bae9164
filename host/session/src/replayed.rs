//! The recording of `-m replay/PATH`: a trajectory (of this host or of mini-swe-agent), a journal,
//! or a script.
//!
//! Plugins can't read files, so the host reads the recording and passes it to the plugin as its
//! config.

use std::path::Path;

use serde_json::{Value, json};

use super::{Job, SetupError};
use mswea_config::{Config, ModelChoice, resolve_model};
use mswea_files as regular_file;
use mswea_plugin_host::builtin;
use mswea_record::journal;
use mswea_record::trajectory::FENCES_1;
use mswea_run::fold;

/// The name of the plugin.
pub(super) const REPLAY: &str = "replay";

/// A recorded run.
pub(super) struct Replayed {
    /// The plugin's config.
    pub offer: Value,
    /// The parser of the recorded run, if it is a built-in one.
    parser: Option<String>,
    /// The regular expression of that parser.
    action_regex: Option<String>,
}

impl Replayed {
    /// The recorded run that the config's model repeats; none if the model is not `replay`.
    pub fn of(config: &Config) -> Result<Option<Self>, SetupError> {
        match resolve_model(config) {
            Ok(choice) if choice.adapter == REPLAY => Self::read(config, &choice).map(Some),
            // Errors in the model's name are reported when the model is made.
            _ => Ok(None),
        }
    }

    /// Reads the recording that the model's name names.
    pub fn read(config: &Config, choice: &ModelChoice) -> Result<Self, SetupError> {
        let name = config.model.model_name.as_deref().unwrap_or(REPLAY).trim();
        if choice.model == REPLAY && name.trim_end_matches('/') != "replay/replay" {
            let own = config.plugins.get(REPLAY).map(|entry| &entry.config);
            let has = |key| own.is_some_and(|own| own.contains_key(key));
            if has("replies") || has("trajectory") {
                return Ok(Self::playing(Value::Null));
            }
            return Err(SetupError::Replay(
                "the model `replay` has no replies to play: write `-m replay/PATH` with a trajectory \
                 (`out.traj.json`), a journal (`out.events.jsonl`) or a script of replies, or put \
                 `replies` into `[plugins.replay.config]`"
                    .to_owned(),
            ));
        }
        let path = &choice.model;
        Self::load(Path::new(path)).map_err(|detail| {
            SetupError::Replay(format!(
                "can't replay `{path}`: {detail}: give `-m replay/PATH` a trajectory or a journal \
                 of an earlier run, or a script"
            ))
        })
    }

    fn playing(offer: Value) -> Self {
        Self {
            offer,
            parser: None,
            action_regex: None,
        }
    }

    fn load(path: &Path) -> Result<Self, String> {
        let bytes =
            regular_file::read(path, regular_file::RECORDS).map_err(|error| error.to_string())?;
        if is_journal(&bytes) {
            let log = journal::read_bytes(&bytes).map_err(|error| error.to_string())?;
            return Ok(Self::run(fold(&log.records).into_trajectory()));
        }
        let value: Value =
            mswea_text::read_json(&bytes).map_err(|error| format!("it is not JSON: {error}"))?;
        if value.get("replies").is_some() {
            return Ok(Self::playing(value));
        }
        if value.get("messages").is_some() {
            return Ok(Self::run(value));
        }
        Err("it is neither a trajectory (`messages`) nor a journal nor a script (`replies`)".into())
    }

    fn run(trajectory: Value) -> Self {
        let word = |path: &str| trajectory.pointer(path).and_then(Value::as_str);
        let is_text = is_text(&trajectory);
        let action_regex = word("/info/config/model/action_regex")
            .or_else(|| word("/info/config/agent/action_regex"))
            .or_else(|| is_text.then(|| regex_of(&trajectory)).flatten())
            .map(str::to_owned);
        let parser =
            recorded_parser(&trajectory).or_else(|| is_text.then(|| "text_regex".to_owned()));
        Self {
            offer: json!({ "trajectory": trajectory }),
            parser,
            action_regex,
        }
    }

    /// The config with the parser for which the recorded replies were written, and its expression; none if
    /// the user has chosen them, or if the config has them already.
    pub fn fit(&self, job: &Job<'_>) -> Option<Config> {
        let chosen = job.is_set("pipeline.parser") || job.config.model.model_class.is_some();
        let parser = self.parser.as_ref()?;
        let mut config = job.config.clone();
        if !chosen {
            config.pipeline.parser.clone_from(parser);
        }
        if *parser == config.pipeline.parser && !job.is_set("model.action_regex") {
            config.model.action_regex.clone_from(&self.action_regex);
        }
        (config != *job.config).then_some(config)
    }
}

/// Whether the first line is an event of a journal.
fn is_journal(bytes: &[u8]) -> bool {
    let line = bytes
        .split(|byte| *byte == b'\n')
        .next()
        .unwrap_or_default();
    serde_json::from_slice::<Value>(line)
        .is_ok_and(|head| head.get("seq").is_some() && head.get("event").is_some())
}

/// The parser in the recording of a run of this host. The parser is used only if it is built in: a
/// recording must not have a file loaded.
fn recorded_parser(trajectory: &Value) -> Option<String> {
    let plugins = trajectory.pointer("/info/mswea/plugins")?.as_array()?;
    let parser = plugins.iter().find(|plugin| {
        plugin
            .get("kind")
            .is_some_and(|kind| kind == "action-parser")
    })?;
    let is_built_in = parser
        .get("source")
        .is_some_and(|source| source == "built-in");
    let name = parser.get("name")?.as_str()?;
    (is_built_in && builtin::find(name).is_some()).then(|| name.to_owned())
}

/// The expression that finds the commands in the texts of a record that does not name one: that of
/// mini-swe-agent 1, if the replies are written for it. None is the parser's default.
fn regex_of(trajectory: &Value) -> Option<&'static str> {
    let messages = trajectory.get("messages").and_then(Value::as_array);
    let replies = messages.into_iter().flatten();
    let replies = replies.filter(|it| it["role"] == "assistant");
    let texts = || replies.clone().filter_map(|it| it["content"].as_str());
    let has = |mark: &str| texts().any(|text| text.contains(mark));
    (has("```bash") && !has("```mswea_bash_command")).then_some(FENCES_1)
}

/// Whether the model wrote its commands into its text: there are replies, and no tool call in any
/// of them, nor in those that were rejected.
fn is_text(trajectory: &Value) -> bool {
    let messages = trajectory.get("messages").and_then(Value::as_array);
    let messages = || messages.into_iter().flatten();
    let has_calls = |message: &Value| {
        let calls = |path: &str| {
            let calls = message.pointer(path).and_then(Value::as_array);
            calls.is_some_and(|calls| !calls.is_empty())
        };
        calls("/tool_calls")
            || calls("/extra/response/choices/0/message/tool_calls")
            || message
                .get("object")
                .is_some_and(|object| object == "response")
    };
    let is_reply = |message: &Value| message.get("role").is_some_and(|role| role == "assistant");
    messages().any(is_reply) && !messages().any(has_calls)
}
