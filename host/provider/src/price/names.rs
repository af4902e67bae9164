//! Under which names the price of a model may be listed.
//!
//! litellm lists some models by their bare name (`gpt-5`), some with the provider before it
//! (`deepseek/deepseek-chat`), and names the provider of each: the price of `gpt-5` does not apply
//! to another provider's model of that name.

/// A model whose price is searched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PriceQuery {
    provider: Option<String>,
    names: Vec<String>,
}

impl PriceQuery {
    /// The model `model` of a provider, by litellm's name of the provider (`together_ai`); without
    /// a provider, any model of exactly this name.
    #[must_use]
    pub fn new(provider: Option<&str>, model: &str) -> Self {
        let stripped = stripped(provider, model);
        let mut names = Vec::new();
        let mut add = |name: String| {
            if !names.contains(&name) {
                names.push(name);
            }
        };
        for model in [model, stripped] {
            if let Some(provider) = provider {
                add(format!("{provider}/{model}"));
            }
            add(model.to_owned());
        }
        if let Some(provider) = provider {
            // `perplexity/perplexity/sonar`
            add(format!("{provider}/{provider}/{model}"));
        }
        Self {
            provider: provider.map(str::to_owned),
            names,
        }
    }

    /// Adds the name that the user wrote, as one of the first.
    #[must_use]
    pub fn also(mut self, name: &str) -> Self {
        self.names.retain(|known| known != name);
        self.names.insert(0, name.to_owned());
        self
    }

    /// The names, best first.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// Whether an entry with the provider `listed` (empty: none) may be this model's.
    #[must_use]
    pub fn is_of(&self, listed: &str) -> bool {
        let Some(provider) = &self.provider else {
            return true;
        };
        listed.is_empty()
            || listed == provider
            || match provider.as_str() {
                // `vertex_ai-anthropic_models`
                "vertex_ai" | "fireworks_ai" | "bedrock" | "bedrock_converse" => {
                    let family = provider.trim_end_matches("_converse");
                    listed.starts_with(family)
                }
                "azure_ai" => matches!(listed, "azure" | "openai"),
                // These providers serve other providers' models under names of their own.
                "litellm_proxy" | "github" => true,
                _ => false,
            }
    }
}

/// The name without the version that a provider appends.
fn stripped<'a>(provider: Option<&str>, model: &'a str) -> &'a str {
    let digits = |text: &str, count: usize| {
        text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    if matches!(provider, Some("vertex_ai" | "gemini" | "databricks")) {
        return match model.rsplit_once('-') {
            Some((name, version)) if !version.is_empty() && digits(version, version.len()) => name,
            _ => model,
        };
    }
    if model.contains("ft:") {
        // `ft:gpt-4o:organisation:suffix:id`
        let mut parts = model.rsplitn(4, ':');
        return parts.nth(3).unwrap_or(model);
    }
    // `gpt-5-2025-08-07`
    let mut parts = model.rsplitn(4, '-');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(day), Some(month), Some(year), Some(name))
            if digits(day, 2) && digits(month, 2) && digits(year, 4) =>
        {
            name
        }
        _ => model,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_order() {
        for (provider, model, names) in [
            (
                Some("openai"),
                "gpt-5-2025-08-07",
                &[
                    "openai/gpt-5-2025-08-07",
                    "gpt-5-2025-08-07",
                    "openai/gpt-5",
                    "gpt-5",
                    "openai/openai/gpt-5-2025-08-07",
                ][..],
            ),
            (
                Some("gemini"),
                "gemini-3-pro-001",
                &[
                    "gemini/gemini-3-pro-001",
                    "gemini-3-pro-001",
                    "gemini/gemini-3-pro",
                    "gemini-3-pro",
                    "gemini/gemini/gemini-3-pro-001",
                ],
            ),
            (None, "Qwen/Qwen3", &["Qwen/Qwen3"]),
            (
                None,
                "ft:gpt-4o:org::id",
                &["ft:gpt-4o:org::id", "ft:gpt-4o"],
            ),
            (None, "ft:gpt", &["ft:gpt"]),
            (None, "a-2025-8-07", &["a-2025-8-07"]),
            (None, "", &[""]),
        ] {
            let wanted = PriceQuery::new(provider, model);
            assert_eq!(wanted.names().collect::<Vec<_>>(), names, "{model}");
        }
        let also = PriceQuery::new(Some("a"), "b").also("b").also("c");
        assert_eq!(also.names().collect::<Vec<_>>(), ["c", "b", "a/b", "a/a/b"]);
    }

    #[test]
    fn a_namesake_of_another_provider_is_another_model() {
        for (provider, listed, expected) in [
            (None, "openai", true),
            (Some("openai"), "openai", true),
            (Some("openai"), "", true),
            (Some("hosted_vllm"), "openai", false),
            (Some("vertex_ai"), "vertex_ai-anthropic_models", true),
            (Some("bedrock"), "bedrock_converse", true),
            (Some("bedrock_converse"), "bedrock", true),
            (Some("azure_ai"), "openai", true),
            (Some("azure"), "openai", false),
            (Some("github"), "openai", true),
        ] {
            let wanted = PriceQuery::new(provider, "m");
            assert_eq!(wanted.is_of(listed), expected, "{provider:?} {listed}");
        }
    }
}
