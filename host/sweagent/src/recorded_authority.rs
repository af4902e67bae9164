//! What a recorded configuration asks for that only the user may decide: where actions are run, what
//! of this machine they get, and what is done with their result.
//!
//! As in `config/authority.rs`, the list has the keys that need no consent, so that a new key does.

use serde_json::{Value, json};

use crate::given_at::GivenAt;
use crate::tree::{GivenContent, GivenTree};

/// Keys (with all keys below them) whose recorded values do not decide where something is run or sent,
/// and what of this machine is read. What an environment of the user does with them is what the
/// recorded actions could do there, too.
const HARMLESS: &[&str] = &[
    "agent.type",
    "agent.name",
    "agent.max_requeries",
    "agent.action_sampler",
    "agent.history_processors",
    "agent.summarizer_config",
    // The adapter `replay` takes the place of a recorded model.
    "agent.model",
    "agent.templates.system_template",
    "agent.templates.instance_template",
    "agent.templates.next_step_template",
    "agent.templates.next_step_truncated_observation_template",
    "agent.templates.next_step_no_output_template",
    "agent.templates.max_observation_length",
    "agent.templates.strategy_template",
    "agent.templates.demonstration_template",
    "agent.templates.put_demos_in_history",
    "agent.templates.disable_image_processing",
    "agent.templates.shell_check_error_template",
    "agent.templates.command_cancelled_timeout_template",
    "agent.tools.filter",
    "agent.tools.env_variables",
    "agent.tools.registry_variables",
    "agent.tools.submit_command",
    "agent.tools.parse_function",
    "agent.tools.enable_bash_tool",
    "agent.tools.format_error_template",
    "agent.tools.reset_commands",
    "agent.tools.execution_timeout",
    "agent.tools.install_timeout",
    "agent.tools.total_execution_timeout",
    "agent.tools.max_consecutive_execution_timeouts",
    "env.name",
    "env.post_startup_command_timeout",
    "env.deployment.startup_timeout",
    "env.deployment.timeout",
    "env.deployment.pull",
    "env.deployment.remove_images",
    "env.deployment.remove_container",
    "env.deployment.platform",
    "env.deployment.container_runtime",
    "env.deployment.python_standalone_dir",
    "env.deployment.docker_internal_host",
    "env.repo.type",
    "env.repo.repo_name",
    "env.repo.base_commit",
    "env.repo.clone_timeout",
    "env.repo.reset",
    "problem_statement.type",
    "problem_statement.text",
    "problem_statement.github_url",
    "problem_statement.extra_fields",
    "problem_statement.id",
    "problem_statement.disable_image_processing",
    "actions.pr_config",
];

/// A recorded value that needs the user's consent.
#[derive(Clone, Debug, PartialEq)]
pub struct AskedByRecord {
    /// The dotted key.
    pub key: String,
    /// As it was recorded.
    pub value: Value,
}

/// The values of `tree` that were given at `record` and need the user's consent.
pub fn asked_by_record(tree: &GivenTree, record: &GivenAt) -> Vec<AskedByRecord> {
    let mut found = Vec::new();
    walk(tree, record, &mut String::new(), &mut found);
    // A deployment without a type and an image is this machine.
    let deployment = tree.given("env.deployment");
    let is_local = |it: &GivenTree| {
        let is_there = |key: &str| it.get(&[key]).is_some_and(|it| !it.is_null());
        it.at == *record && !is_there("type") && !is_there("image")
    };
    if deployment.is_some_and(is_local) {
        found.push(AskedByRecord {
            key: "env.deployment.type".to_owned(),
            value: "local".into(),
        });
    }
    found
}

fn walk(tree: &GivenTree, record: &GivenAt, path: &mut String, found: &mut Vec<AskedByRecord>) {
    if HARMLESS.contains(&path.as_str()) {
        return;
    }
    if let GivenContent::Map(entries) = &tree.content {
        for (key, inner) in entries {
            let length = path.len();
            if !path.is_empty() {
                path.push('.');
            }
            path.push_str(key);
            walk(inner, record, path, found);
            path.truncate(length);
        }
        return;
    }
    let value = tree.value();
    if tree.at == *record && !is_harmless(path, &value) {
        found.push(AskedByRecord {
            key: path.clone(),
            value,
        });
    }
}

fn is_harmless(path: &str, value: &Value) -> bool {
    let is_nothing = [json!(null), json!([]), json!(false), json!("")].contains(value);
    is_nothing
        || match (path, value) {
            ("env.deployment.type", kind) => kind == "docker",
            ("env.deployment.image", image) => image == crate::translate::IMAGE,
            ("env.repo.github_url", Value::String(url)) => is_public(url),
            ("agent.tools.bundles", Value::Array(bundles)) => bundles.iter().all(names_tools),
            _ => false,
        }
}

/// Whether a repository is fetched from GitHub without a login: another address can be a folder of this
/// machine, or one that only the user reaches.
fn is_public(url: &str) -> bool {
    let is_short = !url.contains(':') && !url.starts_with(['/', '.', '~', '-']);
    is_short || url.starts_with("https://github.com/")
}

/// Whether a bundle is one of this host's own, or of the user's folder `SWE_AGENT_CONFIG_ROOT`.
fn names_tools(bundle: &Value) -> bool {
    let name = bundle["path"]
        .as_str()
        .and_then(|it| it.strip_prefix("tools/"));
    name.is_some_and(|name| !name.contains('/') && !["", ".", ".."].contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at() -> GivenAt {
        GivenAt::Record("a.traj".to_owned())
    }

    #[test]
    fn what_decides_over_this_machine_needs_consent() {
        for (config, asked) in [
            (json!({}), &[][..]),
            (json!({"env": {"deployment": null}}), &[]),
            (
                json!({"env": {"deployment": {"type": "docker", "image": "python:3.11", "docker_args": [], "pull": "always"}}}),
                &[],
            ),
            (
                json!({"env": {"deployment": {"type": "docker", "image": "x", "docker_args": ["--privileged"]}}}),
                &["env.deployment.image", "env.deployment.docker_args"],
            ),
            (
                json!({"env": {"deployment": {"type": "local"}}}),
                &["env.deployment.type"],
            ),
            (json!({"env": {"deployment": {}}}), &["env.deployment.type"]),
            (
                json!({"env": {"deployment": {"type": null, "startup_timeout": 5}}}),
                &["env.deployment.type"],
            ),
            (
                json!({"env": {"deployment": {"type": "remote", "host": "h", "port": 80, "auth_token": "$KEY"}}}),
                &[
                    "env.deployment.type",
                    "env.deployment.host",
                    "env.deployment.port",
                    "env.deployment.auth_token",
                ],
            ),
            (
                json!({"env": {"repo": {"repo_name": "testbed", "base_commit": "HEAD"}}}),
                &[],
            ),
            (
                json!({"env": {"repo": {"path": "/etc"}}}),
                &["env.repo.path"],
            ),
            (json!({"env": {"repo": {"github_url": "o/r"}}}), &[]),
            (
                json!({"env": {"repo": {"github_url": "https://github.com/o/r"}}}),
                &[],
            ),
            (
                json!({"env": {"repo": {"github_url": "file:///home/me"}}}),
                &["env.repo.github_url"],
            ),
            (
                json!({"env": {"repo": {"github_url": "git@h:o/r"}}}),
                &["env.repo.github_url"],
            ),
            (
                json!({"env": {"post_startup_commands": ["curl h | sh"]}}),
                &["env.post_startup_commands"],
            ),
            (
                json!({"agent": {"tools": {"bundles": [{"path": "tools/registry"}]}}}),
                &[],
            ),
            (
                json!({"agent": {"tools": {"bundles": [{"path": "tools/.."}]}}}),
                &["agent.tools.bundles"],
            ),
            (
                json!({"agent": {"tools": {"bundles": [{"path": "/home/me"}], "propagate_env_variables": ["KEY"]}}}),
                &["agent.tools.bundles", "agent.tools.propagate_env_variables"],
            ),
            (
                json!({"agent": {"templates": {"demonstrations": ["/etc/shadow"], "system_template": "s"}}}),
                &["agent.templates.demonstrations"],
            ),
            (
                json!({"problem_statement": {"path": "/etc/shadow"}}),
                &["problem_statement.path"],
            ),
            (
                json!({"problem_statement": {"text": "t", "issue_images": ["http://10.0.0.1/"]}}),
                &["problem_statement.issue_images"],
            ),
            (
                json!({"actions": {"open_pr": true, "apply_patch_locally": false}}),
                &["actions.open_pr"],
            ),
            (json!({"new": {"key": 1}}), &["new.key"]),
        ] {
            let tree = GivenTree::of_value(config.clone(), &at());
            let found = asked_by_record(&tree, &at());
            let keys: Vec<&str> = found.iter().map(|it| it.key.as_str()).collect();
            assert_eq!(keys, asked, "{config}");
            // The user gives the same.
            let own = GivenTree::of_value(config, &GivenAt::Flag("x".to_owned()));
            assert_eq!(asked_by_record(&own, &at()), []);
        }
    }

    #[test]
    fn every_harmless_key_is_a_key() {
        use crate::keys::{SweCommand, keys};
        for path in HARMLESS {
            let below = format!("{path}.");
            let is_key = |(key, _): (&str, _)| key == *path || key.starts_with(&below);
            assert!(keys(SweCommand::Run).any(is_key), "{path}");
        }
    }
}
