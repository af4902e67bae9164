//! Which key may go to which address: the one place where that is decided.
//!
//! **The rule.** A key belongs to its provider's own hosts, or to an address that the user set
//! together with it. What was set together:
//!
//! - The provider decides address, key and format together; it follows from the model class,
//!   `custom_llm_provider` or the prefix of the model's name.
//! - A provider's own key (`GROQ_API_KEY`, `[providers.groq] api_key_env`) goes to the provider's
//!   own hosts and to what is set for this provider: its variable (`GROQ_API_BASE`),
//!   `[providers.groq] base_url`.
//! - It goes to the model's base URL (`--base-url`, `model.base_url`, `api_base`), too. So does a
//!   key that the config names or holds (`model.api_key_env`, `api_key`); but a file that names a
//!   model sets its address and its key for the provider of *that* model. If the run's model is of
//!   another provider, such an address gets no key but that of the same file or of the command
//!   line, and such a key goes to no address but that of the same file.
//!
//! The rule for `[plugins.NAME.config]` is in `host/session/src/keys.rs`: the key that is named
//! there is sent to the `base_url` that is set there. The further conditions for sending a key, a
//! grant and an encrypted connection, are in `host/provider/src/grants.rs`.

use super::error::{ConfigProblem, ProblemKind};
use super::set_by::{NamedModel, SetBy, Setting};

/// Checks the rule for the model `typed`, whose key is the secret `secret`. `provider` is the
/// canonical prefix of the provider of the run's model; `whose` returns that of a model that a file
/// names.
pub(super) fn check(
    set_by: &SetBy,
    secret: &str,
    typed: &str,
    provider: &str,
    whose: impl Fn(&NamedModel) -> String,
) -> Result<(), ConfigProblem> {
    let SetBy { address, key } = set_by;
    if let (Some(address), Some(key)) = (address, key)
        && address.file.is_some()
        && address.file == key.file
    {
        return Ok(());
    }
    let foreign = |setting: &Option<Setting>| {
        let setting = setting.clone()?;
        let other = whose(setting.model.as_ref()?);
        (other != provider).then_some((setting, other))
    };
    let by_hand = key.as_ref().is_some_and(|key| key.file.is_none());
    if let Some((setting, other)) = foreign(address).filter(|_| !by_hand) {
        let message = format!(
            "the model `{typed}` belongs to `{provider}`, but the base URL was set for a model of `{other}`: \
             the key `{secret}` is not sent there"
        );
        return Err(problem(message, &setting).hint(format!(
            "give the address of this model, `--base-url URL`; or, if its key is meant for that server, \
             `-c model.api_key_env={secret}`"
        )));
    }
    if let Some((setting, other)) = foreign(key) {
        let message = format!(
            "the model `{typed}` belongs to `{provider}`, but the key was set for a model of `{other}`: it is not sent to another provider"
        );
        return Err(problem(message, &setting).hint(
            "name the key of this model, `-c model.api_key_env=NAME`: the name of the variable that \
             holds it",
        ));
    }
    Ok(())
}

fn problem(message: String, setting: &Setting) -> ConfigProblem {
    ConfigProblem::new(
        ProblemKind::Model,
        format!("{message} (`{}`, {})", setting.key, setting.place),
    )
    .key(setting.key.clone())
}

#[cfg(test)]
mod tests {
    use super::super::layers::{Layers, Sources};
    use super::super::model_choice::{ModelChoice, resolve_model_in};
    use super::super::testing::Memory;

    const OWN: &str = "https://own.example/v1";

    /// The address and the key of the request, for a file and flags.
    fn outcome(
        env: &Memory,
        files: &[&str],
        flags: &[(&str, &str)],
    ) -> Result<ModelChoice, String> {
        let flag = |(key, value): &(&str, &str)| {
            let name = format!("--{key}");
            ((*key).to_owned(), (*value).into(), name)
        };
        let sources = Sources {
            configs: files.iter().map(|file| (*file).to_owned()).collect(),
            flags: flags.iter().map(flag).collect(),
            ..Sources::default()
        };
        let layers = Layers::load(&sources, env).map_err(|error| error.to_string())?;
        let config = layers.resolve().map_err(|error| error.to_string())?;
        resolve_model_in(&config, env).map_err(|error| error.to_string())
    }

    /// The whole rule as a table: the file, the command line, the environment, and the address and
    /// key that follow, or the error.
    #[test]
    fn a_key_goes_to_its_own_provider_or_to_the_address_that_was_set_with_it() {
        let head = "agent: {system_template: s, instance_template: i}\nmodel:\n";
        let name = "model.model_name";
        let base = "model.base_url";
        let anthropic = "https://api.anthropic.com";
        let openai = "https://api.openai.com/v1";
        let bare = "  model_kwargs: {api_base: https://file.example/v1}\n";
        let qwen =
            "  model_name: openai/qwen\n  model_kwargs: {api_base: https://file.example/v1}\n";
        let vllm =
            "  model_name: hosted_vllm/q\n  model_kwargs: {api_base: https://file.example/v1}\n";
        let file = "https://file.example/v1";
        let custom =
            "  model_kwargs: {api_base: https://file.example/v1, custom_llm_provider: openai}\n";
        let keyed = "  model_name: openai/qwen\n  model_kwargs: {api_base: https://file.example/v1, \
                     api_key: os.environ/FILE_KEY}\n";
        let key_only =
            "  model_name: openai/gpt-5\n  model_kwargs: {api_key: os.environ/FILE_KEY}\n";
        let claude = (name, "anthropic/claude-x");
        let refused = "the key `ANTHROPIC_API_KEY` is not sent there";
        for (yaml, flags, expected) in [
            // the provider's own address
            ("", &[claude][..], Ok((anthropic, "ANTHROPIC_API_KEY"))),
            // address and model on the command line
            ("", &[claude, (base, OWN)], Ok((OWN, "ANTHROPIC_API_KEY"))),
            (
                "",
                &[claude, (base, OWN), ("model.api_key_env", "K")],
                Ok((OWN, "K")),
            ),
            // a file that names no model applies to the model of the command line
            (bare, &[claude], Ok((file, "ANTHROPIC_API_KEY"))),
            (bare, &[(name, "openai/x")], Ok((file, "OPENAI_API_KEY"))),
            // a file that names a model applies to that model's provider
            (qwen, &[], Ok((file, "OPENAI_API_KEY"))),
            (
                qwen,
                &[(name, "openai/other")],
                Ok((file, "OPENAI_API_KEY")),
            ),
            (qwen, &[claude], Err(refused)),
            (vllm, &[claude], Err(refused)),
            (
                vllm,
                &[(name, "openai/x")],
                Err("the key `OPENAI_API_KEY` is not sent there"),
            ),
            (
                vllm,
                &[(name, "portkey/x")],
                Err("the key `PORTKEY_API_KEY` is not sent there"),
            ),
            // nothing is sent
            (key_only, &[(name, "replay/a.json")], Ok(("", "FILE_KEY"))),
            // without a key the rule does not apply
            (qwen, &[(name, "hosted_vllm/x")], Ok((file, ""))),
            // a later flag sets the address or the key
            (qwen, &[claude, (base, OWN)], Ok((OWN, "ANTHROPIC_API_KEY"))),
            (
                qwen,
                &[claude, ("model.api_key_env", "ANTHROPIC_API_KEY")],
                Ok((file, "ANTHROPIC_API_KEY")),
            ),
            // litellm's parameter for the provider decides address and key as well
            (custom, &[claude], Ok((file, "OPENAI_API_KEY"))),
            // address and key of one file go together, whatever the protocol
            (keyed, &[], Ok((file, "FILE_KEY"))),
            (keyed, &[claude], Ok((file, "FILE_KEY"))),
            (
                keyed,
                &[claude, (base, OWN)],
                Err("the key was set for a model of `openai`"),
            ),
            // the key of another provider
            (key_only, &[], Ok((openai, "FILE_KEY"))),
            (
                key_only,
                &[claude],
                Err("the key was set for a model of `openai`"),
            ),
        ] {
            let env = Memory::new().file("/work/m.yaml", &format!("{head}{yaml}"));
            let files: &[&str] = if yaml.is_empty() { &[] } else { &["m.yaml"] };
            let found = outcome(&env, files, flags);
            match (found, expected) {
                (Ok(choice), Ok((url, key))) => {
                    let address = choice.base_url.unwrap_or_default();
                    assert_eq!(address, url, "{yaml} {flags:?}");
                    let named = choice.api_key_env.unwrap_or_default();
                    assert_eq!(named, key, "{yaml} {flags:?}");
                }
                (Err(text), Err(part)) => {
                    for part in [part, "m.yaml:", "hint: "] {
                        assert!(text.contains(part), "{part}: {text}");
                    }
                }
                (found, _) => panic!("{yaml} {flags:?}: {found:?}"),
            }
        }
    }

    #[test]
    fn places_that_name_the_provider() {
        let groq = &[("model.model_name", "groq/x")][..];
        let claude = &[("model.model_name", "anthropic/x")][..];
        let entry = "[providers.groq]\nbase_url = \"https://mine.example/v1\"\n";
        for (var, toml, flags, url, key) in [
            (
                "",
                "",
                groq,
                "https://api.groq.com/openai/v1",
                "GROQ_API_KEY",
            ),
            ("GROQ_API_BASE", "", groq, OWN, "GROQ_API_KEY"),
            // another provider
            (
                "GROQ_API_BASE",
                "",
                claude,
                "https://api.anthropic.com",
                "ANTHROPIC_API_KEY",
            ),
            (
                "OPENAI_BASE_URL",
                "",
                groq,
                "https://api.groq.com/openai/v1",
                "GROQ_API_KEY",
            ),
            ("", entry, groq, "https://mine.example/v1", "GROQ_API_KEY"),
            (
                "",
                entry,
                claude,
                "https://api.anthropic.com",
                "ANTHROPIC_API_KEY",
            ),
        ] {
            let env = Memory::new().var(var, OWN).file("/work/c.toml", toml);
            let choice = outcome(&env, &["c.toml"], flags).unwrap();
            assert_eq!(choice.base_url.as_deref(), Some(url), "{var} {toml}");
            assert_eq!(choice.api_key_env.as_deref(), Some(key), "{var} {toml}");
        }
    }
}
