//! Which key may go to which address: the one place where that is decided.
//!
//! **The rule.** A key belongs to its provider's own hosts, or to an address that the user set
//! together with it. What was set together:
//!
//! - The provider decides address, key and format at once; who it is follows from the model class,
//!   `custom_llm_provider` or the prefix of the model's name.
//! - A provider's own key (`GROQ_API_KEY`, `[providers.groq] api_key_env`) goes to the provider's own
//!   hosts and to what is set for this provider: its variable (`GROQ_API_BASE`),
//!   `[providers.groq] base_url`.
//! - It goes to the model's base URL (`--base-url`, `model.base_url`, `api_base`), too, and so does a
//!   key that the config names or holds (`model.api_key_env`, `api_key`); but a file that names a
//!   model sets its address and its key for the provider of *that* model. If the run's model is of
//!   another provider, such an address gets no key but that of the same file or of the command
//!   line, and such a key goes to no address but that of the same file.
//!
//! The rule for `[plugins.NAME.config]` is in `session/plugins.rs`: a `base_url` there gets the key
//! that is named there. What else is asked before a key is sent, a grant and a safe way, is in
//! `provider/grants.rs`.

use super::error::{Kind, Problem};
use super::model_choice::ModelChoice;
use super::node::Node;

/// A model as one file names it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedModel {
    /// `model.model_name`.
    pub name: Option<String>,
    /// `model.model_class`.
    pub class: Option<String>,
    /// `custom_llm_provider` in `model.model_kwargs`.
    pub custom: Option<String>,
}

/// Who set an address or a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The dotted key.
    pub key: String,
    /// Where it stands, for messages.
    pub place: String,
    /// The file that it stands in; none: the command line.
    pub file: Option<String>,
    /// The model that the same file names.
    pub model: Option<NamedModel>,
}

/// Who set the model's address and its key; none: they follow from the provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetBy {
    /// The base URL.
    pub address: Option<Setting>,
    /// The key, or its name.
    pub key: Option<Setting>,
}

/// Keys that set the address, the one that counts first.
pub(super) const ADDRESSES: [&[&str]; 3] = [
    &["model", "base_url"],
    &["model", "model_kwargs", "api_base"],
    &["model", "model_kwargs", "base_url"],
];

/// Keys that set the key.
pub(super) const KEYS: [&[&str]; 2] = [
    &["model", "api_key_env"],
    &["model", "model_kwargs", "api_key"],
];

/// Who set what last, by key: filled layer by layer.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger(Vec<(&'static [&'static str], Setting)>);

impl Ledger {
    /// Notes what a layer sets; `file` is its name, if it is a file.
    pub(super) fn note(&mut self, layer: &Node, file: Option<&str>) {
        let text = |path: &[&str]| {
            let value = layer.get(path)?.to_value();
            value
                .as_str()
                .filter(|text| !text.is_empty())
                .map(str::to_owned)
        };
        let model = NamedModel {
            name: text(&["model", "model_name"]),
            class: text(&["model", "model_class"]),
            custom: text(&["model", "model_kwargs", "custom_llm_provider"]),
        };
        for path in ADDRESSES.into_iter().chain(KEYS) {
            let Some(origin) = layer.get(path).and_then(|_| layer.origin_of(path)) else {
                continue;
            };
            self.0.retain(|(known, _)| *known != path);
            let setting = Setting {
                key: path.join("."),
                place: origin.to_string(),
                file: file.map(str::to_owned),
                model: Some(model.clone())
                    .filter(|model| file.is_some() && *model != NamedModel::default()),
            };
            self.0.push((path, setting));
        }
    }

    /// Who set the first of `paths` that holds a value.
    pub(super) fn first(
        &self,
        paths: &[&'static [&'static str]],
        merged: &Node,
    ) -> Option<Setting> {
        let is_set = |path: &&&'static [&'static str]| {
            let value = merged.get(path).map(Node::to_value);
            value.is_some_and(|value| value.as_str().is_some_and(|text| !text.is_empty()))
        };
        let path = paths.iter().find(is_set)?;
        let (_, setting) = self.0.iter().find(|(known, _)| known == path)?;
        Some(setting.clone())
    }
}

/// Holds the rule for `choice`, the model `typed`. `whose` says the provider of a model that a file
/// names, by its canonical prefix; `provider` is that of the run's model.
pub(super) fn check(
    set_by: &SetBy,
    choice: &ModelChoice,
    typed: &str,
    provider: &str,
    whose: impl Fn(&NamedModel) -> String,
) -> Result<(), Problem> {
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
        let secret = choice.secret_names().next().unwrap_or_default();
        let message = format!(
            "the model `{typed}` is of `{provider}`, but the base URL was set for one of `{other}`: \
             the key `{secret}` is not sent there"
        );
        return Err(problem(message, &setting).hint(format!(
            "say where this model is, `--base-url URL`; or, if its key is meant for that server, \
             `-c model.api_key_env={secret}`"
        )));
    }
    if let Some((setting, other)) = foreign(key) {
        let message = format!(
            "the model `{typed}` is of `{provider}`, but the key was set for one of `{other}`: it is \
             not sent to another provider"
        );
        return Err(problem(message, &setting).hint(
            "name the key of this model, `-c model.api_key_env=NAME`: the name of the variable that \
             holds it",
        ));
    }
    Ok(())
}

fn problem(message: String, setting: &Setting) -> Problem {
    Problem::new(
        Kind::Model,
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

    /// What comes of a file and flags: where the request goes, and with which key.
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

    /// The whole rule as a table: what a file says, what the command line says, what the environment
    /// has, and where which key goes; or why not.
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
            // typed together
            ("", &[claude, (base, OWN)], Ok((OWN, "ANTHROPIC_API_KEY"))),
            (
                "",
                &[claude, (base, OWN), ("model.api_key_env", "K")],
                Ok((OWN, "K")),
            ),
            // a file that names no model is meant for the one that is typed beside it
            (bare, &[claude], Ok((file, "ANTHROPIC_API_KEY"))),
            (bare, &[(name, "openai/x")], Ok((file, "OPENAI_API_KEY"))),
            // a file that names one is meant for its provider
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
            // no key, no question
            (qwen, &[(name, "hosted_vllm/x")], Ok((file, ""))),
            // what is typed later says where the model is, or which key is meant
            (qwen, &[claude, (base, OWN)], Ok((OWN, "ANTHROPIC_API_KEY"))),
            (
                qwen,
                &[claude, ("model.api_key_env", "ANTHROPIC_API_KEY")],
                Ok((file, "ANTHROPIC_API_KEY")),
            ),
            // litellm's own way to say whose model it is decides address and key as well
            (custom, &[claude], Ok((file, "OPENAI_API_KEY"))),
            // set together in one file: they go together, whatever speaks there
            (keyed, &[], Ok((file, "FILE_KEY"))),
            (keyed, &[claude], Ok((file, "FILE_KEY"))),
            (
                keyed,
                &[claude, (base, OWN)],
                Err("the key was set for one of `openai`"),
            ),
            // a key of another provider's
            (key_only, &[], Ok((openai, "FILE_KEY"))),
            (
                key_only,
                &[claude],
                Err("the key was set for one of `openai`"),
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
            // another provider's
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
