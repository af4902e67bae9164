//! mini-swe-agent's model classes: what their short names choose here.

/// A model class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelClass {
    /// Its short name.
    pub name: &'static str,
    /// The provider that it always uses; the whole model name is then the provider's.
    pub provider: Option<&'static str>,
    /// It uses OpenAI's Responses API if the provider has it.
    pub responses: bool,
    /// The model writes commands as text, not as tool calls.
    pub text: bool,
}

const fn class(
    name: &'static str,
    provider: Option<&'static str>,
    responses: bool,
    text: bool,
) -> ModelClass {
    ModelClass {
        name,
        provider,
        responses,
        text,
    }
}

const CLASSES: [ModelClass; NAMES.len()] = [
    class(NAMES[0], None, false, false),
    class(NAMES[1], None, false, true),
    class(NAMES[2], None, true, false),
    class(NAMES[3], Some("openrouter"), false, false),
    class(NAMES[4], Some("openrouter"), false, true),
    class(NAMES[5], Some("openrouter"), true, false),
    class(NAMES[6], Some("portkey"), false, false),
    class(NAMES[7], Some("portkey"), true, false),
    class(NAMES[8], Some("requesty"), false, false),
    class(NAMES[9], Some("replay"), false, true),
];

/// The short names.
pub const NAMES: &[&str] = &[
    "litellm",
    "litellm_textbased",
    "litellm_response",
    "openrouter",
    "openrouter_textbased",
    "openrouter_response",
    "portkey",
    "portkey_response",
    "requesty",
    "deterministic",
];

/// The class of a short name.
pub fn find(name: &str) -> Option<&'static ModelClass> {
    CLASSES.iter().find(|class| class.name == name)
}

/// The remedy for an unknown class.
pub(super) fn hint(name: &str) -> String {
    if name.contains('.') {
        return "this host does not run Python: a plugin of the kind `model-adapter` replaces a model class: name one (or its `.wasm` file) in `pipeline.adapter`, and drop \
                `model.model_class`"
            .to_owned();
    }
    match mswea_text::nearest(name, NAMES.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None if name.starts_with("roulette") || name.starts_with("interleaving") => {
            "several models in one run are not supported: name one in `model.model_name`".to_owned()
        }
        None => "leave it out: the provider follows from the model's prefix, the parser from \
                 `pipeline.parser`"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_a_class_and_every_provider_a_row() {
        for name in NAMES {
            let class = find(name).unwrap();
            assert_eq!(class.name, *name);
            assert_eq!(
                class.text,
                name.contains("text") || *name == "deterministic"
            );
            assert_eq!(class.responses, name.ends_with("_response"));
            if let Some(provider) = class.provider {
                assert!(
                    super::super::providers::find(provider).is_some(),
                    "{provider}"
                );
            }
        }
        assert_eq!(find("gpt"), None);
    }

    #[test]
    fn hints() {
        for (name, part) in [
            ("my_package.models.MyModel", "kind `model-adapter`"),
            ("litelm", "did you mean `litellm`?"),
            ("roulette", "several models"),
            ("xyzzy", "leave it out"),
        ] {
            assert!(hint(name).contains(part), "{name}: {}", hint(name));
        }
    }
}
