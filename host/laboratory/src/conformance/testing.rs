//! Fakes of plugins: for each kind one that keeps all laws, in which a test can plant a fault.
//!
//! A fake is a set of functions over a [`State`]. The state is an instance: it is empty when the
//! instance is fresh, and discarded when the host discards an instance.

mod instance;

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use mswea_core::{
    Action, AdapterNext, Change, ConfiguredRole, Delta, ErrorClass, HeaderValue, HttpRequest,
    Identity, Maker, Manner, Message, ModelError, Outcome, Output, PluginFault, Problem, Refused,
    Reply, RoleKind, Tool, ToolCall, Verdict, ViewChange,
};

use instance::FakeInstance;

/// The state of an instance.
#[derive(Clone, Default)]
pub struct State {
    /// The plugin's config, with the defaults.
    pub config: Value,
    /// How many calls it has had.
    pub calls: usize,
    /// The history that it has received.
    pub history: Vec<Message>,
    /// The view that it returned.
    pub view: Vec<Message>,
    /// Questions asked in this step.
    pub asked: usize,
    /// The status of the response.
    pub status: u16,
    /// The body so far.
    pub body: Vec<u8>,
    /// Anything else.
    pub memo: Value,
}

/// The next answer of a processor.
pub enum ProcessorAnswer {
    /// The change by the plugin.
    Done(ViewChange),
    /// A question first.
    Ask(Vec<Message>),
}

type Call<I, O> = Arc<dyn Fn(&mut State, I) -> O + Send + Sync>;
/// The descriptor; the argument is the config, if there was one.
pub type Describe = Arc<dyn Fn(Option<&Value>) -> Value + Send + Sync>;
/// Checks a config that fits the schema.
pub type Configure = Arc<dyn Fn(&Value) -> Result<(), Refused> + Send + Sync>;
/// `parse`.
pub type Parse = Arc<dyn Fn(&mut State, &Reply) -> Result<Outcome, PluginFault> + Send + Sync>;
/// `format`.
pub type Format = Arc<
    dyn Fn(&mut State, &[Action], &[Output]) -> Result<Vec<Message>, PluginFault> + Send + Sync,
>;
/// `judge`.
pub type Judge = Arc<dyn Fn(&mut State, &Action) -> Result<Verdict, PluginFault> + Send + Sync>;

/// A plugin made of functions. A test replaces one to plant a fault.
#[derive(Clone)]
pub struct Fake {
    /// The plugin's identity.
    pub identity: Identity,
    /// The plugin's descriptor; the argument is the config, if there was one.
    pub describe: Describe,
    /// Accepts the config or refuses it.
    pub configure: Configure,
    /// A parser's tools.
    pub tools: Arc<dyn Fn() -> Vec<Tool> + Send + Sync>,
    /// A parser's `parse`.
    pub parse: Parse,
    /// A formatter's `format`.
    pub format: Format,
    /// A policy's `judge`.
    pub judge: Judge,
    /// A processor's `apply`.
    pub apply: Call<Change, Result<ProcessorAnswer, PluginFault>>,
    /// A processor's `resume`.
    pub resume: Call<Reply, Result<ProcessorAnswer, PluginFault>>,
    /// An adapter's `query`.
    pub query: Call<Change, Result<AdapterNext, ModelError>>,
    /// An adapter's `head`.
    pub head: Call<u16, ()>,
    /// An adapter's `feed`.
    pub feed: Call<Vec<u8>, Vec<Delta>>,
    /// An adapter's `finish`.
    pub finish: Call<(), Result<AdapterNext, ModelError>>,
}

/// The fault of a crash, as the host reports it.
pub fn crash(message: &str) -> PluginFault {
    PluginFault::new(format!("plugin `fake` failed: {message}")).in_manner(Manner::Crashed)
}

fn invalid(pointer: &str, detail: &str, by_plugin: bool) -> Refused {
    Refused::Config {
        pointer: pointer.to_owned(),
        detail: detail.to_owned(),
        by_plugin,
    }
}

impl Fake {
    /// A fake that keeps all laws.
    pub fn good(kind: RoleKind) -> Self {
        let is_adapter = kind == RoleKind::ModelAdapter;
        let config_schema = json!({
            "type": "object",
            "additionalProperties": false,
            "required": ["size"],
            "properties": {
                "size": {"type": "integer", "minimum": 1, "maximum": 9},
                "mode": {"type": "string", "enum": ["plain", "loud"], "default": "plain"},
                "find": {"type": "string", "format": "regex", "default": "(?m)^\\$ (.*)$"},
                "asks": {"type": "boolean", "default": false},
            },
        });
        let identity = Identity {
            name: "fake".into(),
            version: "0.1.0".into(),
            digest: "0123456789abcdef".repeat(4),
            kinds: vec![kind],
            config_schema: config_schema.clone(),
        };
        let descriptor = json!({
            "name": "fake",
            "version": "0.1.0",
            "summary": "Stands in for a plugin",
            "config_schema": config_schema,
            "secrets": if is_adapter { vec!["FAKE_API_KEY"] } else { vec![] },
            "hosts": if is_adapter { vec!["api.fake.example"] } else { vec![] },
        });
        Self {
            identity,
            describe: Arc::new(move |_| descriptor.clone()),
            configure: Arc::new(|config| {
                let find = config["find"].as_str().unwrap_or_default();
                fancy_regex::Regex::new(find)
                    .map(drop)
                    .map_err(|error| invalid("/find", &format!("`find`: {error}"), true))
            }),
            tools: Arc::new(|| {
                vec![Tool {
                    name: "bash".into(),
                    description: "Runs a command".into(),
                    parameters: json!({"type": "object"}),
                    extra: Default::default(),
                }]
            }),
            parse: Arc::new(|state, reply| Ok(parse(state, reply))),
            format: Arc::new(|_, actions, outputs| Ok(format(actions, outputs))),
            judge: Arc::new(|_, action| Ok(judge(action))),
            apply: Arc::new(|state, change| {
                change.apply(&mut state.history);
                state.asked = 0;
                Ok(think(state, Vec::new()))
            }),
            resume: Arc::new(|state, reply| {
                let says = Message::new("user", format!("Before: {}", reply.message.text()));
                Ok(think(state, vec![says]))
            }),
            query: Arc::new(|state, change| {
                if change.start > state.history.len() {
                    return Err(ModelError::new(
                        ErrorClass::BadRequest,
                        "a hole in the history",
                    ));
                }
                change.apply(&mut state.history);
                Ok(AdapterNext::Send(request(state)))
            }),
            head: Arc::new(|state, status| {
                state.status = status;
                state.body.clear();
            }),
            feed: Arc::new(|state, bytes| {
                state.body.extend_from_slice(&bytes);
                vec![Delta {
                    kind: "text".into(),
                    text: String::from_utf8_lossy(&bytes).into_owned(),
                }]
            }),
            finish: Arc::new(|state, ()| finish(state)),
        }
    }

    fn filled(&self, config: &Value) -> Result<Value, Refused> {
        let mut config = config.clone();
        let Some(map) = config.as_object_mut() else {
            return Err(invalid("", "it must be a table", false));
        };
        let properties = self.identity.config_schema["properties"].as_object();
        for (key, property) in properties.into_iter().flatten() {
            if let Some(default) = property.get("default") {
                map.entry(key.clone()).or_insert_with(|| default.clone());
            }
        }
        let validator = jsonschema::validator_for(&self.identity.config_schema).unwrap();
        if let Some(error) = validator.iter_errors(&config).next() {
            let pointer = error.instance_path().to_string();
            return Err(invalid(&pointer, &error.to_string(), false));
        }
        Ok(config)
    }
}

/// Lines that begin with `$ `, or calls of `bash`.
fn parse(state: &State, reply: &Reply) -> Outcome {
    let mut actions = Vec::new();
    let mut claimed: Vec<&str> = Vec::new();
    for call in &reply.message.tool_calls {
        let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
        if let Some(command) = arguments["command"].as_str()
            && reply.message.tool_calls.len() < 1000
            && !claimed.contains(&call.id.as_str())
        {
            claimed.push(&call.id);
            actions.push(Action {
                command: command.into(),
                tool_call_id: Some(call.id.clone()),
                extra: Default::default(),
            });
        }
    }
    let text = reply.message.text();
    let mut lines: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("$ "))
        .collect();
    lines.truncate(state.config["size"].as_u64().unwrap_or(1) as usize);
    actions.extend(lines.into_iter().map(|command| Action {
        command: command.into(),
        ..Action::default()
    }));
    if actions.is_empty() {
        return Outcome::Malformed(Problem {
            code: "no-command".into(),
            message: "Begin a line with `$ `.".into(),
            ..Problem::default()
        });
    }
    Outcome::Actions(actions)
}

fn format(actions: &[Action], outputs: &[Output]) -> Vec<Message> {
    let pairs = actions.iter().zip(outputs);
    let messages = pairs.map(|(action, output)| {
        let role = if action.tool_call_id.is_some() {
            "tool"
        } else {
            "user"
        };
        Message {
            tool_call_id: action.tool_call_id.clone(),
            ..Message::new(role, format!("{}\n{}", output.returncode, output.output))
        }
    });
    messages.collect()
}

fn judge(action: &Action) -> Verdict {
    match action.command.split_whitespace().next() {
        Some("vim") => Verdict::Deny("no editors".into()),
        Some("rm") => Verdict::Ask("it deletes".into()),
        Some("less") => Verdict::Rewrite(Action {
            command: action.command.replacen("less", "cat", 1),
            ..action.clone()
        }),
        _ => Verdict::Allow,
    }
}

/// The view: old observations are shortened; with `asks`, the model's summary of the beginning
/// comes first.
fn think(state: &mut State, answer: Vec<Message>) -> ProcessorAnswer {
    if state.config["asks"] == json!(true) && answer.is_empty() && state.history.len() > 6 {
        state.asked += 1;
        let text: String = state.history[..2].iter().map(Message::text).collect();
        return ProcessorAnswer::Ask(vec![Message::new("user", format!("Sum up: {text}"))]);
    }
    let mut view = answer;
    view.extend(shortened(
        &state.history,
        state.config["size"].as_u64().unwrap_or(1) as usize,
    ));
    let same = view
        .iter()
        .zip(&state.view)
        .take_while(|(a, b)| a == b)
        .count();
    state.view = view;
    // With `places`, the indexes of the messages that differ.
    let places: Vec<usize> = (same..state.view.len()).collect();
    ProcessorAnswer::Done(ViewChange {
        start: same,
        messages: Change::all(state.view[same..].to_vec()).messages,
        places: (!places.is_empty()).then_some(places),
    })
}

/// All observations but the last `keep` ones, shortened to a line.
pub fn shortened(history: &[Message], keep: usize) -> Vec<Message> {
    let observed = |message: &Message| message.role == "tool";
    let all = history.iter().filter(|message| observed(message)).count();
    let mut seen = 0;
    let mut view = history.to_vec();
    for message in &mut view {
        if observed(message) {
            seen += 1;
            if seen + keep <= all {
                let first = message.text().lines().next().unwrap_or_default().to_owned();
                message.content = vec![mswea_core::Part::text(first)];
            }
        }
    }
    view
}

/// The request of an adapter for the history that it knows.
pub fn request(state: &State) -> HttpRequest {
    HttpRequest {
        method: "POST".into(),
        url: "https://api.fake.example/v1/chat".into(),
        headers: vec![
            (
                "content-type".into(),
                HeaderValue::Plain("application/json".into()),
            ),
            (
                "authorization".into(),
                HeaderValue::Secret {
                    name: "FAKE_API_KEY".into(),
                    prefix: "Bearer ".into(),
                },
            ),
        ],
        body: json!({ "messages": state.history })
            .to_string()
            .into_bytes()
            .into(),
    }
}

/// The reply in a complete chat completion.
pub fn finish(state: &mut State) -> Result<AdapterNext, ModelError> {
    let body = String::from_utf8_lossy(&state.body);
    let broken = |what: &str| ModelError::new(ErrorClass::MalformedResponse, what.to_owned());
    if state.status != 200 {
        return Err(broken(&format!("status {}", state.status)));
    }
    let value: Value = serde_json::from_str(&body).map_err(|_| broken("no JSON"))?;
    let message = &value["choices"][0]["message"];
    let text = message["content"]
        .as_str()
        .ok_or_else(|| broken("no content"))?;
    let calls = message["tool_calls"].as_array();
    let calls = calls.into_iter().flatten().map(|call| ToolCall {
        id: call["id"].as_str().unwrap_or_default().to_owned(),
        name: call["function"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned(),
        arguments: call["function"]["arguments"]
            .as_str()
            .unwrap_or_default()
            .to_owned(),
        extra: Default::default(),
    });
    Ok(AdapterNext::Reply(Reply {
        message: Message {
            tool_calls: calls.collect(),
            ..Message::new("assistant", text)
        },
        finish_reason: "stop".into(),
        ..Reply::default()
    }))
}

#[async_trait]
impl Maker for Fake {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    async fn describe(&self, config: Option<&Value>) -> Result<Value, PluginFault> {
        Ok((self.describe)(config))
    }

    async fn make(
        &self,
        kind: RoleKind,
        config: &Value,
        fresh: bool,
    ) -> Result<ConfiguredRole, Refused> {
        let config = self.filled(config)?;
        (self.configure)(&config)?;
        let instance = FakeInstance {
            fake: self.clone(),
            tools: (self.tools)(),
            state: None,
            config,
            fresh,
            told: Vec::new(),
        };
        let instance = Box::new(instance);
        Ok(match kind {
            RoleKind::ModelAdapter => ConfiguredRole::Adapter(instance),
            RoleKind::ActionParser => ConfiguredRole::Parser(instance),
            RoleKind::ObservationFormatter => ConfiguredRole::Formatter(instance),
            RoleKind::HistoryProcessor => ConfiguredRole::Processor(instance),
            RoleKind::ActionPolicy => ConfiguredRole::Policy(instance),
        })
    }
}
