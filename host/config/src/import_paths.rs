//! mini-swe-agent's classes by their full import paths, which its files may use instead of the
//! short names.

/// The short name of the class with the import path `value`; none if `value` is not such a path.
pub(super) fn short_name(key: &str, value: &str) -> Option<&'static str> {
    // The agent of `mini-extra swebench`, which has moved several times. It only shows its progress.
    let is_of_batches =
        value.starts_with("minisweagent.run.") && value.ends_with(".ProgressTrackingAgent");
    if key == "agent.agent_class" && is_of_batches {
        return Some("default");
    }
    let (package, classes) = match key {
        "model.model_class" => ("models", MODELS),
        "environment.environment_class" => ("environments", ENVIRONMENTS),
        "agent.agent_class" => ("agents", AGENTS),
        _ => return None,
    };
    let rest = value.strip_prefix("minisweagent.")?.strip_prefix(package)?;
    let path = rest.strip_prefix('.')?;
    let found = classes.iter().find(|(known, _)| *known == path);
    found.map(|(_, name)| *name)
}

const MODELS: &[(&str, &str)] = &[
    ("litellm_model.LitellmModel", "litellm"),
    (
        "litellm_textbased_model.LitellmTextbasedModel",
        "litellm_textbased",
    ),
    (
        "litellm_response_model.LitellmResponseModel",
        "litellm_response",
    ),
    ("openrouter_model.OpenRouterModel", "openrouter"),
    (
        "openrouter_textbased_model.OpenRouterTextbasedModel",
        "openrouter_textbased",
    ),
    (
        "openrouter_response_model.OpenRouterResponseModel",
        "openrouter_response",
    ),
    ("portkey_model.PortkeyModel", "portkey"),
    (
        "portkey_response_model.PortkeyResponseAPIModel",
        "portkey_response",
    ),
    ("requesty_model.RequestyModel", "requesty"),
    ("test_models.DeterministicModel", "deterministic"),
    // Of version 1.
    ("anthropic.AnthropicModel", "litellm"),
    (
        "litellm_response_api_model.LitellmResponseAPIModel",
        "litellm_response",
    ),
];

const ENVIRONMENTS: &[(&str, &str)] = &[
    ("docker.DockerEnvironment", "docker"),
    ("singularity.SingularityEnvironment", "singularity"),
    ("local.LocalEnvironment", "local"),
    (
        "extra.swerex_docker.SwerexDockerEnvironment",
        "swerex_docker",
    ),
    ("extra.swerex_modal.SwerexModalEnvironment", "swerex_modal"),
    ("extra.bubblewrap.BubblewrapEnvironment", "bubblewrap"),
    ("extra.contree.ContreeEnvironment", "contree"),
];

const AGENTS: &[(&str, &str)] = &[
    ("default.DefaultAgent", "default"),
    ("interactive.InteractiveAgent", "interactive"),
    // Of version 1.
    ("interactive_textual.TextualAgent", "interactive"),
];

#[cfg(test)]
mod tests {
    use super::super::keys::{Found, Type, find};
    use super::super::testing::Memory;
    use super::*;

    #[test]
    fn every_short_name_is_one_that_its_key_takes() {
        for (key, classes) in [
            ("model.model_class", MODELS),
            ("environment.environment_class", ENVIRONMENTS),
            ("agent.agent_class", AGENTS),
        ] {
            let segments: Vec<&str> = key.split('.').collect();
            let Found::Key(found) = find(&segments) else {
                panic!("{key}")
            };
            let Type::OneOf(words) = found.kind else {
                panic!("{key}")
            };
            for (path, name) in classes {
                assert!(words.contains(name), "{name}");
                let package = format!("{}s", segments[0]);
                let full = format!("minisweagent.{package}.{path}");
                assert_eq!(short_name(key, &full), Some(*name), "{full}");
                assert_eq!(short_name("run.task", &full), None);
            }
        }
        for path in [
            "minisweagent.run.extra.swebench.ProgressTrackingAgent",
            "minisweagent.run.benchmarks.utils.common.ProgressTrackingAgent",
        ] {
            assert_eq!(short_name("agent.agent_class", path), Some("default"));
        }
        assert_eq!(
            short_name("model.model_class", "minisweagent.models.mine.Model"),
            None
        );
    }

    #[test]
    fn files_and_flags_may_name_either() {
        let yaml = "agent:\n  system_template: s\n  instance_template: i\n  agent_class: \
                    minisweagent.agents.default.DefaultAgent\nmodel:\n  model_class: \
                    minisweagent.models.litellm_textbased_model.LitellmTextbasedModel\n\
                    environment:\n  environment_class: \
                    minisweagent.environments.extra.bubblewrap.BubblewrapEnvironment\n";
        let env = Memory::new().file("/work/m.yaml", yaml);
        let config = env.resolve(&["m.yaml"]).unwrap();
        assert_eq!(config.agent.agent_class.as_deref(), Some("default"));
        assert_eq!(
            config.model.model_class.as_deref(),
            Some("litellm_textbased")
        );
        assert_eq!(config.pipeline.parser, "text_regex");
        assert_eq!(config.environment.environment_class, "bubblewrap");
        let spec = "model.model_class=minisweagent.models.portkey_model.PortkeyModel";
        let config = Memory::new().resolve(&[spec]).unwrap();
        assert_eq!(config.model.model_class.as_deref(), Some("portkey"));
    }
}
