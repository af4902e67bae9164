//! Messages of this host with the names that SWE-agent's commands have: a user of these can't give a key or a
//! flag of another command.

use std::io;
use std::sync::Arc;

use crate::cli::exit::ExitCode;
use crate::cli::front::{CliFront, Desk, RunHeader};
use mswea_core::{Front, Progress};

/// Parts of messages, and what they are for the commands of `sweagent`. Longer ones come first.
const WORDS: &[(&str, &str)] = &[
    (
        "give the price with `--price in=..,out=..` (dollars per million tokens) or in a registry that \
         `model.litellm_model_registry` names",
        "give the price in a registry that `--agent.model.litellm_model_registry` names",
    ),
    (
        "continue without a price by setting `model.cost_tracking` or `MSWEA_COST_TRACKING` to `ignore_errors`",
        "continue without a price by setting the variable `MSWEA_COST_TRACKING` to `ignore_errors`",
    ),
    (
        "give it with `--price in=..,out=..`",
        "set the variable `MSWEA_COST_TRACKING` to `ignore_errors`",
    ),
    ("`-l 0`", "`--agent.model.per_instance_cost_limit=0`"),
    (
        "set `workspace.path` to a folder outside, or leave out `workspace.repo` to work in the folder itself",
        "give an `--output_dir` outside of it",
    ),
    (
        "set `workspace.path` to another folder",
        "give another `--output_dir`",
    ),
    (
        "`-c environment.cwd=FOLDER`, for a repository that it clones `-c workspace.path=FOLDER`",
        "`--output_dir=FOLDER`",
    ),
    ("`workspace.path`", "`env.repo`"),
    ("`workspace.repo`", "`env.repo.path`"),
    ("`workspace.reset`", "`env.repo.reset`"),
    ("`workspace.base_commit`", "`env.repo.base_commit`"),
    (
        "`workspace.startup_commands`",
        "`env.post_startup_commands`",
    ),
    (
        "`workspace.startup_timeout`",
        "`env.post_startup_command_timeout`",
    ),
    ("`environment.image`", "`env.deployment.image`"),
    ("`environment.run_args`", "`env.deployment.docker_args`"),
    ("`environment.platform`", "`env.deployment.platform`"),
    (
        "`environment.start_timeout`",
        "`env.deployment.startup_timeout`",
    ),
    ("`environment.timeout`", "`agent.tools.execution_timeout`"),
    ("`environment.url`", "`env.deployment.host`"),
    ("`environment.token_env`", "`env.deployment.auth_token`"),
    ("`environment.token_file`", "`env.deployment.auth_token`"),
    ("`environment.cwd`", "`output_dir`"),
    ("`tools.bundles`", "`agent.tools.bundles`"),
    ("`tools.install_timeout`", "`agent.tools.install_timeout`"),
    ("`tools.env_variables`", "`agent.tools.env_variables`"),
    ("`model.model_name`", "`agent.model.name`"),
    ("`model.base_url`", "`agent.model.api_base`"),
    ("`--base-url`", "`--agent.model.api_base`"),
    ("`--base-url URL`", "`--agent.model.api_base=URL`"),
    ("`model.api_key_env`", "`agent.model.api_key` (`$NAME`)"),
    (
        "`agent.step_limit`",
        "`agent.model.per_instance_call_limit`",
    ),
    ("`--step-limit`", "`--agent.model.per_instance_call_limit`"),
    (
        "`agent.cost_limit`",
        "`agent.model.per_instance_cost_limit`",
    ),
    (
        "`agent.system_template`",
        "`agent.templates.system_template`",
    ),
    (
        "`agent.instance_template`",
        "`agent.templates.instance_template`",
    ),
    (
        "`agent.strategy_template`",
        "`agent.templates.strategy_template`",
    ),
    (
        "`agent.syntax_error_template`",
        "`agent.templates.shell_check_error_template`",
    ),
    (
        "`model.format_error_template`",
        "`agent.tools.format_error_template`",
    ),
];

/// The message with SWE-agent's names.
pub(super) fn in_their_words(text: &str) -> String {
    let mut text = text.to_owned();
    for (ours, theirs) in WORDS {
        if text.contains(ours) {
            text = text.replace(ours, theirs);
        }
    }
    text
}

/// Shows a piece of progress with SWE-agent's names.
pub(super) fn show(progress: &Progress<'_>, show: impl FnOnce(&Progress<'_>)) {
    match progress {
        Progress::Retrying {
            class,
            message,
            attempt,
            of,
            wait,
        } => show(&Progress::Retrying {
            class,
            message: &in_their_words(message),
            attempt: *attempt,
            of: *of,
            wait: *wait,
        }),
        Progress::Warning(text) => show(&Progress::Warning(&in_their_words(text))),
        other => show(other),
    }
}

/// A front whose messages have SWE-agent's names.
pub(super) struct TheirWords(Arc<dyn CliFront>);

impl TheirWords {
    pub(super) fn over(front: Arc<dyn CliFront>) -> Arc<dyn CliFront> {
        Arc::new(Self(front))
    }
}

impl Front for TheirWords {
    fn show(&self, progress: &Progress<'_>) {
        show(progress, |progress| self.0.show(progress));
    }
}

impl CliFront for TheirWords {
    fn begin(&self, header: RunHeader) {
        self.0.begin(header);
    }

    fn desk(&self) -> Option<Desk> {
        self.0.desk()
    }

    fn take_output_error(&self) -> Option<io::Error> {
        self.0.take_output_error()
    }

    fn conclude(&self, code: ExitCode, error: Option<&str>) {
        self.0.conclude(code, error.map(in_their_words).as_deref());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use mswea_core::ModelFailure;
    use mswea_sweagent::{SweCommand, keys};

    #[test]
    fn every_word_is_a_key_of_the_command() {
        for (_, theirs) in WORDS {
            for name in theirs.split('`').skip(1).step_by(2) {
                let name = name.trim_start_matches("--");
                let name = name.split('=').next().unwrap_or_default();
                if name.contains('.') && !name.starts_with('$') {
                    let group = format!("{name}.");
                    let is_key = |(key, _): (&str, _)| key == name || key.starts_with(&group);
                    assert!(keys(SweCommand::Run).any(is_key), "{name}");
                }
            }
        }
    }

    #[test]
    fn progress_has_their_words() {
        let class = ModelFailure::Limit;
        let message = "nothing listens: check `--base-url`";
        let retry = Progress::Retrying {
            class: &class,
            message,
            attempt: 1,
            of: 2,
            wait: Duration::ZERO,
        };
        for (progress, named) in [
            (retry, "check `--agent.model.api_base`"),
            (
                Progress::Warning("`environment.image` is"),
                "`env.deployment.image`",
            ),
        ] {
            let mut shown = String::new();
            show(&progress, |it| shown = format!("{it:?}"));
            assert!(shown.contains(named), "{shown}");
        }
    }

    #[test]
    fn a_copy_into_itself_has_a_remedy() {
        let ours = "the copy of `a` would go into itself, to `b`: set `workspace.path` to a folder outside, or leave \
                    out `workspace.repo` to work in the folder itself";
        let theirs =
            "the copy of `a` would go into itself, to `b`: give an `--output_dir` outside of it";
        assert_eq!(in_their_words(ours), theirs);
    }

    #[test]
    fn no_hint_names_what_the_command_lacks() {
        let price = mswea_provider::price::UnknownPrice {
            model: "m".to_owned(),
            limit: 3.0,
        };
        let text = in_their_words(&price.to_string());
        assert!(
            !text.contains("--price") && !text.contains("-l 0"),
            "{text}"
        );
        assert!(
            text.contains("`MSWEA_COST_TRACKING` to `ignore_errors`"),
            "{text}"
        );
        assert!(
            text.contains("`--agent.model.per_instance_cost_limit=0`"),
            "{text}"
        );
    }
}
