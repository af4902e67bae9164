//! The configs of mini-swe-agent 1, in which the agent has the keys that the model has since version 2,
//! and commands are in fenced blocks of `bash`.

use serde_json::Value;

use super::node::{Content, Node};
use super::origin::Origin;

/// How version 1 finds the command.
pub(super) const REGEX: &str = "```bash\\s*\\n(.*?)\\n```";

/// The keys of the agent in version 1, and where they are now. The template of time-outs is now a part of
/// that of observations.
const MOVED: [(&str, Option<&str>); 4] = [
    ("action_observation_template", Some("observation_template")),
    ("format_error_template", Some("format_error_template")),
    ("action_regex", Some("action_regex")),
    ("timeout_template", None),
];

/// Keys of the model by which a file is of version 2, whatever its agent has.
const OF_VERSION_2: [&str; 3] = [
    "observation_template",
    "format_error_template",
    "action_regex",
];

/// The defaults of version 1 for an observation, and for a command that was stopped at its time limit.
pub(super) const OBSERVATION: &str = "Observation: {{output}}";
pub(super) const TIMEOUT: &str = "The last command <command>{{action['action']}}</command> timed out and has been killed.\n\
    The output of the command was:\n<output>\n{{output}}\n</output>\n\
    Please try another command and make sure to avoid those requiring interactive input.";

/// The line of a submission in the first releases. Only the present one is recognised here, so prompts name
/// that.
const OLD_MARK: &str = "MINI_SWE_AGENT_FINAL_OUTPUT";
const MARK: &str = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT";

/// One observation template with the meaning of both of version 1. There, `output` was a text after a
/// time-out.
pub(super) fn observation(template: &str, timeout: &str) -> String {
    // Jinja removes one line break at the end of a template.
    let [template, timeout] = [template, timeout].map(|it| it.strip_suffix('\n').unwrap_or(it));
    format!(
        "{{% if output.exception_info and output.extra is defined and output.extra.exception_type == 'TimeoutExpired' %}}\
         {{% with action = {{'action': action.command}}, output = output.output %}}{timeout}{{% endwith %}}\
         {{% else %}}{{% if output.exception_info %}}<exception>{{{{output.exception_info}}}}</exception>\n{{% endif %}}\
         {template}{{% endif %}}"
    )
}

/// The two templates of version 1 that are one now, as far as configs have given them.
#[derive(Debug, Default)]
pub(super) struct OldTemplates {
    observation: Option<String>,
    timeout: Option<String>,
}

/// The keys of a config of version 1 that have other places now; none if it is of another version.
pub(super) fn moved_keys(node: &Node) -> Option<Vec<&'static str>> {
    let has = |section: &str, key: &str| node.get(&[section, key]).is_some();
    if OF_VERSION_2.iter().any(|key| has("model", key)) || is_textbased(node) {
        return None;
    }
    let keys = MOVED.iter().map(|(key, _)| *key);
    let named: Vec<&str> = keys.filter(|key| has("agent", key)).collect();
    (!named.is_empty() || has_fences(node)).then_some(named)
}

/// Gives the keys of a config of version 1 their places of version 2; `texts` has the templates of the configs
/// before it. Returns the keys that were moved, or none if it is of another version.
pub(super) fn translate(node: &mut Node, texts: &mut OldTemplates) -> Option<Vec<&'static str>> {
    let named = moved_keys(node)?;
    let mut origin = node.origin.clone();
    let mut gives_one = false;
    for (key, target) in MOVED {
        let Some(moved) = node.get(&["agent", key]).cloned() else {
            continue;
        };
        node.remove(&["agent"], key);
        let text = match &moved.content {
            Content::Scalar(Value::String(text)) => Some(text.clone()),
            _ => None,
        };
        match (key, target, text) {
            ("action_observation_template", _, Some(text)) => {
                origin = moved.origin;
                texts.observation = Some(text);
                gives_one = true;
            }
            ("timeout_template", _, Some(text)) => {
                texts.timeout = Some(text);
                gives_one = true;
            }
            // A value of a wrong type is reported under its present name.
            (_, Some(target), _) => node.merge(below("model", target, moved)),
            (_, None, _) => {}
        }
    }
    if gives_one {
        let template = observation(
            texts.observation.as_deref().unwrap_or(OBSERVATION),
            texts.timeout.as_deref().unwrap_or(TIMEOUT),
        );
        let path = ["model", "observation_template"];
        node.merge(Node::nested(&path, template.into(), &origin));
    }
    if let Some(class) = node.get_mut(&["model", "model_class"])
        && let Content::Scalar(Value::String(name)) = &mut class.content
        && ["anthropic", "minisweagent.models.anthropic.AnthropicModel"].contains(&name.as_str())
    {
        "litellm".clone_into(name);
    }
    rename_mark(node);
    Some(named)
}

fn below(section: &str, key: &str, node: Node) -> Node {
    let mut made = Node::nested(&[section, key], Value::Null, &node.origin);
    if let Some(place) = made.get_mut(&[section, key]) {
        *place = node;
    }
    made
}

/// Whether the model's class is one of version 2 that reads commands from texts.
fn is_textbased(node: &Node) -> bool {
    let class = node.get(&["model", "model_class"]).map(Node::to_value);
    let class = class.as_ref().and_then(Value::as_str).unwrap_or_default();
    class.contains("textbased") || class.contains("Textbased")
}

/// Whether the prompts ask for one command in a block of `bash`, as those of version 1 do. The prompts of
/// version 2 have such blocks as examples, and ask for tool calls or another block.
fn has_fences(node: &Node) -> bool {
    let texts = ["system_template", "instance_template"].map(|key| {
        let text = node.get(&["agent", key]).map(Node::to_value);
        text.as_ref()
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_lowercase()
    });
    let all = texts.concat();
    let asks = ["triple backticks", "bash code block", "one bash block"];
    all.contains("```bash")
        && asks.iter().any(|it| all.contains(it))
        && !all.contains("mswea_bash_command")
        && !all.contains("tool call")
}

fn rename_mark(node: &mut Node) {
    match &mut node.content {
        Content::Scalar(Value::String(text)) if text.contains(OLD_MARK) => {
            *text = text.replace(OLD_MARK, MARK);
        }
        Content::Scalar(_) => {}
        Content::List(items) => items.iter_mut().for_each(rename_mark),
        Content::Map(entries) => {
            for entry in entries {
                rename_mark(&mut entry.node);
            }
        }
    }
}

/// The remark about a file that was translated.
pub(super) fn notice(path: &str, moved: &[&str]) -> String {
    let moved: Vec<String> = moved.iter().map(|key| format!("`agent.{key}`")).collect();
    let by = match moved.as_slice() {
        [] => "by the blocks that its prompts ask for".to_owned(),
        keys => format!("by {}", keys.join(", ")),
    };
    format!(
        "`{path}` is a config of mini-swe-agent 1 ({by}): its templates and expressions are used as those of `model`, \
         and commands are taken from blocks of `bash` unless `agent.action_regex` says otherwise"
    )
}

/// The defaults of the code of version 1.
pub(super) fn defaults(origin: &Origin) -> Node {
    let mut node = Node::empty(origin.clone());
    let mut set = |path: &[&str], text: &str| node.merge(Node::nested(path, text.into(), origin));
    set(
        &["agent", "system_template"],
        "You are a helpful assistant that can do anything.",
    );
    set(
        &["agent", "instance_template"],
        "Your task: {{task}}. Please reply with a single shell command in triple backticks. To finish, the first line \
         of the output of the shell command must be 'COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT'.",
    );
    set(
        &["model", "format_error_template"],
        "Please always provide EXACTLY ONE action in triple backticks.",
    );
    set(&["model", "action_regex"], REGEX);
    set(
        &["model", "observation_template"],
        &observation(OBSERVATION, TIMEOUT),
    );
    set(&["pipeline", "parser"], "text_regex");
    node
}

#[cfg(test)]
mod tests {
    use super::super::recorded::RecordedConfig;
    use super::super::testing::Memory;
    use super::super::{Layers, Sources};
    use super::*;
    use serde_json::json;

    const TEMPLATES: &str = "agent:\n  system_template: s\n  instance_template: '{{task}}'\n";

    #[test]
    fn files_of_version_1_are_known_by_their_keys_or_their_prompts() {
        for (more, regex) in [
            (
                "  action_observation_template: 'saw {{output.output}}'\n",
                Some(REGEX),
            ),
            ("  timeout_template: 'late {{output}}'\n", Some(REGEX)),
            (
                "  format_error_template: '{{actions|length}}'\n",
                Some(REGEX),
            ),
            ("  action_regex: '<x>(.*?)</x>'\n", Some("<x>(.*?)</x>")),
            ("  step_limit: 3\n", None),
            // Of version 2, with a key that it ignores.
            (
                "  format_error_template: x\nmodel:\n  observation_template: y\n",
                None,
            ),
            (
                "  format_error_template: x\nmodel:\n  model_class: litellm_textbased\n",
                None,
            ),
        ] {
            let env = Memory::new().file("/work/m.yaml", &format!("{TEMPLATES}{more}"));
            let layers = env.load(&["m.yaml"]).unwrap();
            let config = layers.resolve().unwrap();
            let found = (config.pipeline.parser == "text_regex")
                .then_some(config.model.action_regex.as_deref())
                .flatten();
            let is_1 = layers
                .notices()
                .iter()
                .any(|it| it.contains("mini-swe-agent 1"));
            assert_eq!(is_1, regex.is_some(), "{more}");
            if is_1 {
                assert_eq!(found, regex, "{more}");
                assert_eq!(layers.warnings(), Vec::<String>::new(), "{more}");
            }
        }
        for (prompt, is_1) in [
            ("Reply with one ```bash block in triple backticks", true),
            ("Exactly ONE bash code block:\\n```bash\\nls\\n```", true),
            (
                "In triple backticks: ```mswea_bash_command\\nls\\n```, not ```bash",
                false,
            ),
            ("Make a tool call. An example:\\n```bash\\nls\\n```", false),
        ] {
            let yaml = format!(
                "agent:\n  system_template: \"{prompt}\"\n  instance_template: '{{{{task}}}}'\n"
            );
            let env = Memory::new().file("/work/m.yaml", &yaml);
            let config = env.load(&["m.yaml"]).unwrap().resolve().unwrap();
            assert_eq!(
                config.model.action_regex.as_deref() == Some(REGEX),
                is_1,
                "{prompt}"
            );
        }
    }

    #[test]
    fn what_the_user_sets_wins_over_the_defaults_of_version_1() {
        let yaml = format!(
            "{TEMPLATES}  action_observation_template: \"saw\\n\"\nmodel:\n  model_class: anthropic\n  model_name: m\n"
        );
        let env = Memory::new()
            .file("/work/m.yaml", &yaml)
            .file("/work/n.yaml", "agent:\n  action_regex: x\n");
        let config = env.resolve(&["m.yaml", "n.yaml"]).unwrap();
        assert_eq!(config.model.model_class.as_deref(), Some("litellm"));
        assert_eq!(config.model.action_regex.as_deref(), Some("x"));
        let template = config.model.observation_template.unwrap_or_default();
        assert!(template.ends_with("%}saw{% endif %}"), "{template}");
        assert!(template.contains("timed out and has been killed"));
        let config = env
            .resolve(&["m.yaml", "pipeline.parser=toolcall"])
            .unwrap();
        assert_eq!(config.pipeline.parser, "toolcall");
    }

    #[test]
    fn both_templates_of_an_observation_are_kept_wherever_they_are_given() {
        let saw = format!("{TEMPLATES}  action_observation_template: saw\n");
        let late = "agent:\n  timeout_template: late\n";
        let env = Memory::new()
            .file("/work/m.yaml", &saw)
            .file("/work/n.yaml", late)
            .file("/work/plain.yaml", "agent:\n  step_limit: 3\n");
        for (configs, observed, timeout) in [
            (&["m.yaml", "n.yaml"][..], "saw", "late"),
            (&["n.yaml", "m.yaml"], "saw", "late"),
            (&["m.yaml", "plain.yaml", "n.yaml"], "saw", "late"),
            (&["m.yaml", "agent.timeout_template=late"], "saw", "late"),
            (&["agent.timeout_template=late", "m.yaml"], "saw", "late"),
            (
                &["n.yaml", "m.yaml", "agent.action_observation_template=seen"],
                "seen",
                "late",
            ),
            (
                &["m.yaml", "agent.action_observation_template=seen"],
                "seen",
                TIMEOUT,
            ),
            (
                &["m.yaml", "n.yaml", "model.observation_template=new"],
                "new",
                "",
            ),
        ] {
            let layers = env.load(configs).unwrap();
            assert_eq!(layers.warnings(), Vec::<String>::new(), "{configs:?}");
            let template = layers.resolve().unwrap().model.observation_template;
            let expected = match timeout {
                "" => observed.to_owned(),
                timeout => observation(observed, timeout),
            };
            assert_eq!(template, Some(expected), "{configs:?}");
        }
        let config = env.resolve(&["m.yaml", "agent.action_regex=x"]).unwrap();
        assert_eq!(config.model.action_regex.as_deref(), Some("x"));
    }

    #[test]
    fn the_old_mark_of_a_submission_becomes_the_present_one() {
        let yaml = "agent:\n  system_template: s\n  instance_template: 'end with echo MINI_SWE_AGENT_FINAL_OUTPUT'\n  action_observation_template: o\n";
        let config = Memory::new()
            .file("/work/m.yaml", yaml)
            .resolve(&["m.yaml"])
            .unwrap();
        let prompt = &config.agent.instance_template;
        assert_eq!(
            prompt,
            "end with echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
        );
    }

    #[test]
    fn recorded_configs_are_translated_and_unknown_classes_left_out() {
        let load = |config: Value, is_only_read| {
            let sources = Sources {
                recorded: Some(RecordedConfig {
                    config,
                    journal: "t.traj.json".into(),
                    mini: true,
                    is_only_read,
                }),
                ..Sources::default()
            };
            let layers = Layers::load(&sources, &Memory::new()).unwrap();
            let config = layers.resolve().unwrap();
            (layers.warnings().to_vec(), config)
        };
        let (warnings, config) = load(
            json!({
                "agent": {"system_template": "s", "instance_template": "i", "action_regex": REGEX, "action_observation_template": "o",
                    "agent_class": "minisweagent.run.extra.swebench.ProgressTrackingAgent"},
                "model": {"model_class": "minisweagent.models.litellm_model.LitellmModel", "model_name": "m"},
            }),
            false,
        );
        assert_eq!(warnings, Vec::<String>::new());
        assert_eq!(config.agent.agent_class.as_deref(), Some("default"));
        assert_eq!(config.pipeline.parser, "text_regex");
        assert_eq!(config.model.action_regex.as_deref(), Some(REGEX));
        let (warnings, config) = load(
            json!({
                "agent": {"system_template": "s", "instance_template": "i", "agent_class": "my.Agent"},
                "model": {"model_class": "mine.models.Model"},
                "environment": {"environment_class": "minisweagent.environments.extra.swerex_modal.SwerexModalEnvironment"},
            }),
            true,
        );
        assert_eq!(config.agent.agent_class, None);
        assert_eq!(config.environment.environment_class, "local");
        assert_eq!(warnings.len(), 3, "{warnings:?}");
        assert!(
            warnings[0].contains("`agent.agent_class` = `my.Agent`"),
            "{warnings:?}"
        );
    }
}
