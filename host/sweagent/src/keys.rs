//! The keys of SWE-agent 1.1's configuration, and their types.

use serde_json::Value;

use mswea_text::nearest;

use crate::fault::{SweAgentError, SweAgentProblem};
use crate::given_at::GivenAt;
use crate::tree::{GivenContent, GivenTree};

/// The type of a key's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SweType {
    /// A text.
    Text,
    /// True or false.
    Truth,
    /// An integer.
    Whole,
    /// A number.
    Number,
    /// A list.
    List,
    /// A map with keys of the user.
    Map,
}

use SweType::{List, Map, Number, Text, Truth, Whole};

/// The commands that have a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SweCommand {
    /// `run`.
    Run,
    /// `run-batch`.
    RunBatch,
    /// `run-replay`.
    RunReplay,
}

const AGENT: &[(&str, SweType)] = &[
    ("agent.type", Text),
    ("agent.name", Text),
    ("agent.max_requeries", Whole),
    ("agent.action_sampler", Map),
    ("agent.agent_configs", List),
    ("agent.retry_loop", Map),
    ("agent.history_processors", List),
    ("agent.summarizer_config.function", Text),
    ("agent.summarizer_config.window_length", Whole),
    ("agent.summarizer_config.system_template", Text),
    ("agent.summarizer_config.instance_template", Text),
    ("agent.templates.system_template", Text),
    ("agent.templates.instance_template", Text),
    ("agent.templates.next_step_template", Text),
    (
        "agent.templates.next_step_truncated_observation_template",
        Text,
    ),
    ("agent.templates.next_step_no_output_template", Text),
    ("agent.templates.max_observation_length", Whole),
    ("agent.templates.strategy_template", Text),
    ("agent.templates.demonstration_template", Text),
    ("agent.templates.demonstrations", List),
    ("agent.templates.put_demos_in_history", Truth),
    ("agent.templates.disable_image_processing", Truth),
    ("agent.templates.shell_check_error_template", Text),
    ("agent.templates.command_cancelled_timeout_template", Text),
    ("agent.tools.filter.blocklist", List),
    ("agent.tools.filter.blocklist_standalone", List),
    ("agent.tools.filter.block_unless_regex", Map),
    ("agent.tools.filter.blocklist_error_template", Text),
    ("agent.tools.bundles", List),
    ("agent.tools.propagate_env_variables", List),
    ("agent.tools.env_variables", Map),
    ("agent.tools.registry_variables", Map),
    ("agent.tools.submit_command", Text),
    ("agent.tools.parse_function.type", Text),
    ("agent.tools.parse_function.error_message", Text),
    ("agent.tools.enable_bash_tool", Truth),
    ("agent.tools.format_error_template", Text),
    ("agent.tools.command_docs", Text),
    ("agent.tools.multi_line_command_endings", Map),
    ("agent.tools.submit_command_end_name", Text),
    ("agent.tools.reset_commands", List),
    ("agent.tools.execution_timeout", Number),
    ("agent.tools.install_timeout", Number),
    ("agent.tools.total_execution_timeout", Number),
    ("agent.tools.max_consecutive_execution_timeouts", Whole),
    ("agent.model.name", Text),
    ("agent.model.per_instance_cost_limit", Number),
    ("agent.model.total_cost_limit", Number),
    ("agent.model.per_instance_call_limit", Whole),
    ("agent.model.temperature", Number),
    ("agent.model.top_p", Number),
    ("agent.model.api_base", Text),
    ("agent.model.api_version", Text),
    ("agent.model.api_key", Text),
    ("agent.model.stop", List),
    ("agent.model.completion_kwargs", Map),
    ("agent.model.convert_system_to_user", Truth),
    ("agent.model.retry.retries", Whole),
    ("agent.model.retry.min_wait", Number),
    ("agent.model.retry.max_wait", Number),
    ("agent.model.delay", Number),
    ("agent.model.fallbacks", List),
    ("agent.model.choose_api_key_by_thread", Truth),
    ("agent.model.max_input_tokens", Whole),
    ("agent.model.max_output_tokens", Whole),
    ("agent.model.litellm_model_registry", Text),
    ("agent.model.custom_tokenizer", Map),
];

const RUN: &[(&str, SweType)] = &[
    ("env.deployment.type", Text),
    ("env.deployment.image", Text),
    ("env.deployment.port", Whole),
    ("env.deployment.docker_args", List),
    ("env.deployment.startup_timeout", Number),
    ("env.deployment.pull", Text),
    ("env.deployment.remove_images", Truth),
    ("env.deployment.python_standalone_dir", Text),
    ("env.deployment.platform", Text),
    ("env.deployment.remove_container", Truth),
    ("env.deployment.container_runtime", Text),
    ("env.deployment.exec_shell", List),
    ("env.deployment.docker_internal_host", Text),
    ("env.deployment.auth_token", Text),
    ("env.deployment.host", Text),
    ("env.deployment.timeout", Number),
    ("env.repo.type", Text),
    ("env.repo.path", Text),
    ("env.repo.base_commit", Text),
    ("env.repo.github_url", Text),
    ("env.repo.clone_timeout", Number),
    ("env.repo.repo_name", Text),
    ("env.repo.reset", Truth),
    ("env.post_startup_commands", List),
    ("env.post_startup_command_timeout", Number),
    ("env.name", Text),
    ("problem_statement.type", Text),
    ("problem_statement.text", Text),
    ("problem_statement.path", Text),
    ("problem_statement.github_url", Text),
    ("problem_statement.extra_fields", Map),
    ("problem_statement.id", Text),
    ("problem_statement.issue_images", List),
    ("problem_statement.disable_image_processing", Truth),
    ("output_dir", Text),
    ("actions.open_pr", Truth),
    ("actions.apply_patch_locally", Truth),
    ("actions.pr_config.skip_if_commits_reference_issue", Truth),
    ("env_var_path", Text),
];

const BATCH: &[(&str, SweType)] = &[
    ("instances.type", Text),
    ("instances.path", Text),
    ("instances.subset", Text),
    ("instances.split", Text),
    ("instances.path_override", Text),
    ("instances.dataset_name", Text),
    ("instances.evaluate", Truth),
    ("instances.deployment", Map),
    ("instances.filter", Text),
    ("instances.slice", Text),
    ("instances.shuffle", Truth),
    ("output_dir", Text),
    ("suffix", Text),
    ("raise_exceptions", Truth),
    ("redo_existing", Truth),
    ("env_var_path", Text),
    ("num_workers", Whole),
    ("random_delay_multiplier", Number),
    ("progress_bar", Truth),
];

const REPLAY: &[(&str, SweType)] = &[
    ("traj_path", Text),
    ("deployment", Map),
    ("output_dir", Text),
    ("update_config", List),
    ("trust_record", Truth),
    ("env_var_path", Text),
];

/// Groups whose classes take any key in SWE-agent, and ignore those that they do not know.
const OPEN_GROUPS: &[&str] = &[
    "agent.templates",
    "agent.tools",
    "agent.tools.filter",
    "agent.tools.parse_function",
    "agent.model.retry",
    "actions.pr_config",
    "instances",
];

/// Keys of the models in whose place a person or a record speaks. A config of such a model may be used with
/// another one.
const OF_OTHER_MODELS: &[&str] = &[
    "agent.model.cost_per_call",
    "agent.model.catch_eof",
    "agent.model.replay_path",
];

/// Whether SWE-agent ignores a key that is in no table. Of flags it ignores none.
fn is_ignored(path: &str, at: &GivenAt) -> bool {
    let group = path.rsplit_once('.').map_or("", |(group, _)| group);
    matches!(at, GivenAt::File { .. } | GivenAt::Record(_))
        && (OPEN_GROUPS.contains(&group) || OF_OTHER_MODELS.contains(&path))
}

/// All keys of a command, with their types.
pub fn keys(command: SweCommand) -> impl Iterator<Item = (&'static str, SweType)> {
    let (shared, own) = match command {
        SweCommand::Run => (AGENT, RUN),
        SweCommand::RunBatch => (AGENT, BATCH),
        SweCommand::RunReplay => (REPLAY, &RUN[..0]),
    };
    shared.iter().chain(own).copied()
}

/// The type of a key.
pub fn type_of(command: SweCommand, path: &str) -> Option<SweType> {
    keys(command)
        .find(|(name, _)| *name == path)
        .map(|(_, kind)| kind)
}

/// Another command that has the key.
fn other_with(command: SweCommand, path: &str) -> Option<&'static str> {
    let has = |other: &&(SweCommand, &str)| {
        keys(other.0).any(|(name, kind)| match path.strip_prefix(name) {
            Some(rest) => rest.is_empty() || kind == Map && rest.starts_with('.'),
            None => false,
        })
    };
    let commands = [
        (SweCommand::Run, "run"),
        (SweCommand::RunBatch, "run-batch"),
        (SweCommand::RunReplay, "run-replay"),
    ];
    let mut others = commands.iter().filter(|(other, _)| *other != command);
    others.find(has).map(|(_, name)| *name)
}

/// The remedy for an unknown key.
pub fn suggestion(command: SweCommand, path: &str) -> String {
    if let Some(other) = other_with(command, path) {
        let here = match (command, path.strip_prefix("env.")) {
            (SweCommand::RunBatch, Some(rest)) if rest.starts_with("deployment.") => {
                format!("; here it is `instances.{rest}`")
            }
            _ => String::new(),
        };
        return format!("`{path}` is a key of `sweagent {other}`{here}");
    }
    let names: Vec<&str> = keys(command).map(|(name, _)| name).collect();
    if let Some(near) = nearest(path, names.iter().copied()) {
        return format!("did you mean `{near}`?");
    }
    let last = path.rsplit('.').next().unwrap_or(path);
    let whole = format!(".{path}");
    let same = names
        .iter()
        .find(|name| name.ends_with(&whole))
        .or_else(|| {
            names
                .iter()
                .find(|name| name.rsplit('.').next() == Some(last))
        });
    if let Some(same) = same {
        return format!("did you mean `{same}`?");
    }
    // The nearest key of the same group, else all keys of the group.
    let parent = path.rsplit_once('.').map_or("", |(parent, _)| parent);
    let prefix = match parent {
        "" => String::new(),
        parent => format!("{parent}."),
    };
    let mut siblings: Vec<&str> = names
        .iter()
        .filter_map(|name| name.strip_prefix(&prefix))
        .map(|rest| rest.split('.').next().unwrap_or(rest))
        .collect();
    siblings.dedup();
    if let Some(near) = nearest(last, siblings.iter().copied()) {
        return format!("did you mean `{prefix}{near}`?");
    }
    match siblings.as_slice() {
        [] => "SWE-agent 1.1 has no such key".to_owned(),
        some => format!("the keys there are `{}`", some.join("`, `")),
    }
}

/// How many mistakes are named: for each the most similar known key is searched.
const NAMED: usize = 100;

/// What is to be said of a tree.
#[derive(Default)]
pub struct CheckedKeys {
    /// Unknown keys, and values of the wrong type.
    pub problems: Vec<SweAgentProblem>,
    /// Warnings about unknown keys that SWE-agent ignores.
    pub ignored: Vec<String>,
}

/// Looks for mistakes in a tree.
pub fn check(command: SweCommand, tree: &GivenTree) -> CheckedKeys {
    let mut found = CheckedKeys::default();
    walk(command, tree, &mut String::new(), &mut found);
    if found.problems.len() > NAMED {
        found.problems.truncate(NAMED);
        found.problems.push(SweAgentProblem::new(
            "there are more mistakes, which are not named",
        ));
    }
    if found.ignored.len() > NAMED {
        found.ignored.truncate(NAMED);
        found
            .ignored
            .push("more keys have no effect, which are not named".to_owned());
    }
    found
}

/// Refuses a tree with unknown keys or values of the wrong type.
///
/// # Errors
/// [`SweAgentError`] with all mistakes.
pub fn check_tree(command: SweCommand, tree: &GivenTree) -> Result<(), SweAgentError> {
    let problems = check(command, tree).problems;
    match problems.is_empty() {
        true => Ok(()),
        false => Err(SweAgentError(problems)),
    }
}

fn walk(command: SweCommand, tree: &GivenTree, path: &mut String, found: &mut CheckedKeys) {
    if let Some(kind) = type_of(command, path) {
        if !fits(kind, tree) {
            let message = format!(
                "`{path}` must be {}, not `{}`",
                named(kind),
                shortened(&tree.value())
            );
            found.problems.push(SweAgentProblem::at(&tree.at, message));
        }
        return;
    }
    let prefix = format!("{path}.");
    let is_group = path.is_empty() || keys(command).any(|(name, _)| name.starts_with(&prefix));
    match &tree.content {
        _ if !is_group => {
            if is_ignored(path, &tree.at) {
                let hint = suggestion(command, path);
                let near = match hint.starts_with("did you mean") {
                    true => format!("; {hint}"),
                    false => String::new(),
                };
                found.ignored.push(format!(
                    "`{path}` ({}) has no effect, as in SWE-agent{near}",
                    tree.at
                ));
                return;
            }
            let message = format!("there is no key `{path}`");
            let mut deep = path.clone();
            let mut inner = tree;
            while let Some((key, value)) = inner.entries().first() {
                deep = format!("{deep}.{key}");
                inner = value;
            }
            let hint = suggestion(command, &deep);
            found
                .problems
                .push(SweAgentProblem::at(&tree.at, message).hint(hint));
        }
        GivenContent::Map(entries) => {
            for (key, value) in entries {
                if found.problems.len() > NAMED {
                    return;
                }
                let length = path.len();
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(key);
                walk(command, value, path, found);
                path.truncate(length);
            }
        }
        _ if tree.is_null() => {}
        _ => {
            let message = format!(
                "`{path}` must be a map of keys, not `{}`",
                shortened(&tree.value())
            );
            found.problems.push(SweAgentProblem::at(&tree.at, message));
        }
    }
}

fn fits(kind: SweType, tree: &GivenTree) -> bool {
    match (&tree.content, kind) {
        (GivenContent::Leaf(Value::Null), _)
        | (GivenContent::List(_), List)
        | (GivenContent::Map(_), Map)
        | (GivenContent::Leaf(Value::String(_)), Text)
        | (GivenContent::Leaf(Value::Bool(_)), Truth)
        | (GivenContent::Leaf(Value::Number(_)), Number) => true,
        (GivenContent::Leaf(Value::Number(number)), Whole) => number.is_i64(),
        _ => false,
    }
}

fn named(kind: SweType) -> &'static str {
    match kind {
        Text => "a text",
        Truth => "true or false",
        Whole => "an integer",
        Number => "a number",
        List => "a list",
        Map => "a map",
    }
}

/// At most 40 characters of a value.
pub(crate) fn shortened(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_another_command_is_called_so() {
        for (command, key, part) in [
            (
                SweCommand::Run,
                "instances.path",
                "a key of `sweagent run-batch`",
            ),
            (
                SweCommand::Run,
                "instances.deployment.image",
                "a key of `sweagent run-batch`",
            ),
            (
                SweCommand::Run,
                "traj_path",
                "a key of `sweagent run-replay`",
            ),
            (
                SweCommand::RunBatch,
                "problem_statement.text",
                "a key of `sweagent run`",
            ),
            (
                SweCommand::RunBatch,
                "env.deployment.image",
                "here it is `instances.deployment.image`",
            ),
            (
                SweCommand::RunReplay,
                "agent.model.name",
                "a key of `sweagent run`",
            ),
            (
                SweCommand::Run,
                "env.repo.pth",
                "did you mean `env.repo.path`?",
            ),
        ] {
            let hint = suggestion(command, key);
            assert!(hint.contains(part), "{key}: {hint}");
        }
    }
}
