//! The table of providers: prefix, wire format, address, key, and how the key is sent.
//!
//! The prefixes are litellm's. `[providers.PREFIX]` can replace every field of a row. A server
//! elsewhere that uses one of these protocols needs no row, only `--base-url`.

/// How the configured address becomes the one that adapters take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressShape {
    /// As it is.
    Plain,
    /// Ollama's: a bare server gets `/v1`, except for its own API.
    Ollama,
    /// Azure's: the model is a deployment, and its name is part of the address.
    Azure,
}

/// One provider.
#[derive(Clone, Copy, Debug)]
pub struct Provider {
    /// The prefix of its models' names, before the `/`; also litellm's name of the provider.
    pub prefix: &'static str,
    /// Other prefixes for it.
    pub aliases: &'static [&'static str],
    /// The first characters of the model names that are recognised without a prefix.
    pub bare: &'static [&'static str],
    /// The adapter that speaks its protocol.
    pub adapter: &'static str,
    /// Its address; none: every user has a different one.
    pub base_url: Option<&'static str>,
    /// Variables that may hold another address; the first one that is set counts.
    pub base_url_vars: &'static [&'static str],
    /// How the address is completed.
    pub shape: AddressShape,
    /// Secrets that may hold the key: the first that is set counts. Empty: no key is sent.
    pub keys: &'static [&'static str],
    /// The header that the key is sent in; none: the adapter's default, usually a bearer token.
    pub auth_header: Option<&'static str>,
    /// Further headers.
    pub headers: &'static [(&'static str, &'static str)],
    /// Further headers with secrets; each is sent if its secret is set.
    pub secret_headers: &'static [(&'static str, &'static str)],
    /// The prefix that is put in front of a model's name, unless the name has such a prefix.
    pub name_prefix: Option<&'static str>,
    /// Its replies contain their cost.
    pub reports_cost: bool,
    /// It runs on the user's own machines, so tokens have no price.
    pub self_hosted: bool,
    /// Many of its servers need no key: one is sent only if it is set.
    pub key_is_optional: bool,
    /// Marks for the prompt cache are left out of its requests, as in litellm.
    pub no_cache_marks: bool,
}

/// A provider of the OpenAI-compatible kind.
const fn openai(
    prefix: &'static str,
    base_url: &'static str,
    base_url_vars: &'static [&'static str],
    keys: &'static [&'static str],
) -> Provider {
    Provider {
        prefix,
        aliases: &[],
        bare: &[],
        adapter: "openai",
        base_url: Some(base_url),
        base_url_vars,
        shape: AddressShape::Plain,
        keys,
        auth_header: None,
        headers: &[],
        secret_headers: &[],
        name_prefix: None,
        reports_cost: false,
        self_hosted: false,
        key_is_optional: false,
        no_cache_marks: false,
    }
}

/// A server of the user's own.
const fn own(
    prefix: &'static str,
    base_url: &'static str,
    base_url_vars: &'static [&'static str],
    keys: &'static [&'static str],
) -> Provider {
    let mut provider = openai(prefix, base_url, base_url_vars, keys);
    provider.self_hosted = true;
    provider.key_is_optional = true;
    provider
}

impl Provider {
    const fn adapter(mut self, adapter: &'static str, auth_header: Option<&'static str>) -> Self {
        self.adapter = adapter;
        self.auth_header = auth_header;
        self
    }

    const fn aliases(mut self, aliases: &'static [&'static str]) -> Self {
        self.aliases = aliases;
        self
    }

    const fn bare(mut self, bare: &'static [&'static str]) -> Self {
        self.bare = bare;
        self
    }

    const fn shape(mut self, shape: AddressShape) -> Self {
        self.shape = shape;
        self
    }

    const fn auth_header(mut self, header: &'static str) -> Self {
        self.auth_header = Some(header);
        self
    }

    const fn headers(mut self, headers: &'static [(&'static str, &'static str)]) -> Self {
        self.headers = headers;
        self
    }

    const fn secret_headers(mut self, headers: &'static [(&'static str, &'static str)]) -> Self {
        self.secret_headers = headers;
        self
    }

    const fn name_prefix(mut self, prefix: &'static str) -> Self {
        self.name_prefix = Some(prefix);
        self
    }

    const fn reports_cost(mut self) -> Self {
        self.reports_cost = true;
        self
    }

    const fn key_is_optional(mut self) -> Self {
        self.key_is_optional = true;
        self
    }

    const fn no_cache_marks(mut self) -> Self {
        self.no_cache_marks = true;
        self
    }

    const fn without_url(mut self) -> Self {
        self.base_url = None;
        self
    }

    /// All prefixes, its main one first.
    pub fn prefixes(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.prefix).chain(self.aliases.iter().copied())
    }
}

/// A server that speaks OpenAI's protocol, of which only the address is known.
pub const LOCAL: &str = "local";
/// Answers from a recording: the only adapter that sends no requests and needs no URL.
pub const REPLAY: &str = "replay";

/// The providers, the most used first: of two equally similar names, the suggestion is the first.
#[rustfmt::skip]
pub const PROVIDERS: &[Provider] = &[
    openai("openai", "https://api.openai.com/v1", &["OPENAI_BASE_URL", "OPENAI_API_BASE"], &["OPENAI_API_KEY"])
        .bare(&["gpt-", "chatgpt-", "codex-", "ft:gpt-", "o1", "o3", "o4"]),
    openai("anthropic", "https://api.anthropic.com", &["ANTHROPIC_API_BASE", "ANTHROPIC_BASE_URL"], &["ANTHROPIC_API_KEY"])
        .adapter("anthropic", None).bare(&["claude"]),
    openai("gemini", "https://generativelanguage.googleapis.com/v1beta", &["GEMINI_API_BASE"], &["GEMINI_API_KEY", "GOOGLE_API_KEY"])
        .adapter("gemini", None).bare(&["gemini-"]),
    openai("openrouter", "https://openrouter.ai/api/v1", &["OPENROUTER_API_BASE"], &["OPENROUTER_API_KEY", "OR_API_KEY"])
        .adapter("openrouter", None).reports_cost(),
    openai("azure", "", &["AZURE_API_BASE"], &["AZURE_API_KEY", "AZURE_OPENAI_API_KEY"])
        .without_url().shape(AddressShape::Azure).auth_header("api-key"),
    openai("azure_ai", "", &["AZURE_AI_API_BASE"], &["AZURE_AI_API_KEY"])
        .without_url().auth_header("api-key"),

    own(LOCAL, "", &[], &[]).without_url(),
    own("hosted_vllm", "", &["HOSTED_VLLM_API_BASE"], &["HOSTED_VLLM_API_KEY"]).without_url().aliases(&["vllm"])
        .no_cache_marks(),
    own("sglang", "http://127.0.0.1:30000/v1", &["SGLANG_API_BASE"], &["SGLANG_API_KEY"]),
    own("llama_cpp", "http://127.0.0.1:8080/v1", &["LLAMA_CPP_API_BASE"], &["LLAMA_CPP_API_KEY"]).aliases(&["llamacpp", "llama.cpp"]),
    own("llamafile", "http://127.0.0.1:8080/v1", &["LLAMAFILE_API_BASE"], &["LLAMAFILE_API_KEY"]),
    own("ollama", "http://localhost:11434", &["OLLAMA_API_BASE"], &["OLLAMA_API_KEY"]).shape(AddressShape::Ollama).aliases(&["ollama_chat"]),
    own("lm_studio", "http://127.0.0.1:1234/v1", &["LM_STUDIO_API_BASE"], &["LM_STUDIO_API_KEY"]).aliases(&["lmstudio"]),
    openai("custom_openai", "", &["OPENAI_LIKE_API_BASE"], &["OPENAI_LIKE_API_KEY"]).without_url().aliases(&["openai_like"])
        .key_is_optional(),
    openai("litellm_proxy", "", &["LITELLM_PROXY_API_BASE"], &["LITELLM_PROXY_API_KEY"]).without_url()
        .key_is_optional(),

    openai("groq", "https://api.groq.com/openai/v1", &["GROQ_API_BASE"], &["GROQ_API_KEY"]),
    openai("deepseek", "https://api.deepseek.com/beta", &["DEEPSEEK_API_BASE"], &["DEEPSEEK_API_KEY"]).bare(&["deepseek-"]),
    openai("xai", "https://api.x.ai/v1", &["XAI_API_BASE"], &["XAI_API_KEY"]),
    openai("mistral", "https://api.mistral.ai/v1", &["MISTRAL_API_BASE"], &["MISTRAL_API_KEY"]),
    openai("codestral", "https://codestral.mistral.ai/v1", &["CODESTRAL_API_BASE"], &["CODESTRAL_API_KEY"]),
    openai("together_ai", "https://api.together.xyz/v1", &["TOGETHER_AI_API_BASE"],
        &["TOGETHER_API_KEY", "TOGETHER_AI_API_KEY", "TOGETHERAI_API_KEY", "TOGETHER_AI_TOKEN"]).aliases(&["together"]),
    openai("fireworks_ai", "https://api.fireworks.ai/inference/v1", &["FIREWORKS_API_BASE"],
        &["FIREWORKS_API_KEY", "FIREWORKS_AI_API_KEY", "FIREWORKSAI_API_KEY", "FIREWORKS_AI_TOKEN"])
        .aliases(&["fireworks"]).name_prefix("accounts/fireworks/models/"),
    openai("portkey", "https://api.portkey.ai/v1", &["PORTKEY_API_BASE"], &["PORTKEY_API_KEY"])
        .auth_header("x-portkey-api-key").secret_headers(&[("x-portkey-virtual-key", "PORTKEY_VIRTUAL_KEY")])
        // As Portkey's client: otherwise the thinking of Claude models, which they need back, is left out of answers.
        .headers(&[("x-portkey-strict-open-ai-compliance", "false")]),
    openai("requesty", "https://router.requesty.ai/v1", &["REQUESTY_API_BASE"], &["REQUESTY_API_KEY"])
        .headers(&[("x-title", "mswea-host")]).reports_cost(),
    openai("perplexity", "https://api.perplexity.ai", &["PERPLEXITY_API_BASE"], &["PERPLEXITYAI_API_KEY", "PERPLEXITY_API_KEY"]),
    openai("cerebras", "https://api.cerebras.ai/v1", &["CEREBRAS_API_BASE"], &["CEREBRAS_API_KEY"]),
    openai("moonshot", "https://api.moonshot.ai/v1", &["MOONSHOT_API_BASE"], &["MOONSHOT_API_KEY"]),
    openai("nebius", "https://api.studio.nebius.ai/v1", &["NEBIUS_API_BASE"], &["NEBIUS_API_KEY"]),
    openai("deepinfra", "https://api.deepinfra.com/v1/openai", &["DEEPINFRA_API_BASE"], &["DEEPINFRA_API_KEY"]),
    openai("novita", "https://api.novita.ai/v3/openai", &["NOVITA_API_BASE"], &["NOVITA_API_KEY"]),
    openai("nvidia_nim", "https://integrate.api.nvidia.com/v1", &["NVIDIA_NIM_API_BASE"], &["NVIDIA_NIM_API_KEY"]),
    openai("github", "https://models.inference.ai.azure.com", &["GITHUB_API_BASE"], &["GITHUB_API_KEY"]),
    openai("huggingface", "https://router.huggingface.co/v1", &["HF_API_BASE", "HUGGINGFACE_API_BASE"], &["HF_TOKEN", "HUGGINGFACE_API_KEY"]),
    openai("sambanova", "https://api.sambanova.ai/v1", &["SAMBANOVA_API_BASE"], &["SAMBANOVA_API_KEY"]),
    openai("baseten", "https://inference.baseten.co/v1", &["BASETEN_API_BASE"], &["BASETEN_API_KEY"]),
    openai("hyperbolic", "https://api.hyperbolic.xyz/v1", &["HYPERBOLIC_API_BASE"], &["HYPERBOLIC_API_KEY"]),
    openai("lambda_ai", "https://api.lambda.ai/v1", &["LAMBDA_API_BASE"], &["LAMBDA_API_KEY"]),
    openai("vercel_ai_gateway", "https://ai-gateway.vercel.sh/v1", &["VERCEL_AI_GATEWAY_API_BASE"], &["VERCEL_AI_GATEWAY_API_KEY", "VERCEL_OIDC_TOKEN"]),
    openai("zai", "https://api.z.ai/api/paas/v4", &["ZAI_API_BASE"], &["ZAI_API_KEY"]),
    openai("minimax", "https://api.minimax.io/v1", &["MINIMAX_API_BASE"], &["MINIMAX_API_KEY"]),
    openai("dashscope", "https://dashscope-intl.aliyuncs.com/compatible-mode/v1", &["DASHSCOPE_API_BASE"], &["DASHSCOPE_API_KEY"]),
    openai("volcengine", "https://ark.cn-beijing.volces.com/api/v3", &["VOLCENGINE_API_BASE"], &["VOLCENGINE_API_KEY"]),
    openai("meta_llama", "https://api.llama.com/compat/v1", &["LLAMA_API_BASE"], &["LLAMA_API_KEY"]),
    openai("featherless_ai", "https://api.featherless.ai/v1", &["FEATHERLESS_AI_API_BASE"], &["FEATHERLESS_AI_API_KEY"]),
    openai("databricks", "", &["DATABRICKS_API_BASE"], &["DATABRICKS_API_KEY", "DATABRICKS_TOKEN"]).without_url(),
    openai("inception", "https://api.inceptionlabs.ai/v1", &["INCEPTION_API_BASE"], &["INCEPTION_API_KEY"]),

    own(REPLAY, "", &[], &[]).without_url().adapter(REPLAY, None),
];

/// The provider of a prefix.
pub fn find(prefix: &str) -> Option<&'static Provider> {
    PROVIDERS
        .iter()
        .find(|provider| provider.prefixes().any(|known| known == prefix))
}

/// The main prefix of the provider that `prefix` belongs to.
pub fn canonical(prefix: &str) -> &str {
    find(prefix).map_or(prefix, |provider| provider.prefix)
}

/// The provider of a model that is named without a prefix.
pub fn of_bare_name(model: &str) -> Option<&'static Provider> {
    let model = model.to_ascii_lowercase();
    PROVIDERS
        .iter()
        .find(|provider| provider.bare.iter().any(|bare| model.starts_with(bare)))
}

/// The remedy for providers whose protocol no adapter here speaks.
pub fn without_adapter(prefix: &str) -> Option<&'static str> {
    match prefix {
        "bedrock" | "bedrock_converse" | "sagemaker" | "sagemaker_chat" => Some(
            "requests to AWS have to be signed, which no adapter does: reach the model through \
             a gateway (`litellm_proxy/NAME`, `openrouter/NAME`)",
        ),
        "vertex_ai" | "vertex_ai_beta" => Some(
            "Vertex AI needs Google Cloud's short-lived tokens: use `gemini/NAME` with a key of the \
             Gemini API, or a gateway (`litellm_proxy/NAME`, `openrouter/NAME`)",
        ),
        "cohere" | "cohere_chat" | "replicate" | "watsonx" | "snowflake" | "oci" | "gigachat"
        | "github_copilot" | "chatgpt" => Some(
            "there is no adapter for its protocol or its login: reach the model through a gateway \
             (`litellm_proxy/NAME`, `openrouter/NAME`)",
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sound() {
        let mut seen = Vec::new();
        for provider in PROVIDERS {
            for prefix in provider.prefixes() {
                assert!(!seen.contains(&prefix), "{prefix} is there twice");
                assert!(without_adapter(prefix).is_none(), "{prefix}");
                assert_eq!(find(prefix).unwrap().prefix, provider.prefix);
                seen.push(prefix);
            }
            if let Some(base_url) = provider.base_url {
                let url = url::Url::parse(base_url).unwrap();
                let local = matches!(url.host_str(), Some("127.0.0.1" | "localhost"));
                assert_eq!(local, provider.self_hosted, "{}", provider.prefix);
                assert_eq!(url.scheme() == "http", local, "{base_url}");
                assert!(!base_url.ends_with('/'), "{base_url}");
            }
            let secrets = provider.secret_headers.iter().map(|(_, secret)| secret);
            for name in provider
                .keys
                .iter()
                .chain(provider.base_url_vars)
                .chain(secrets)
            {
                let word =
                    |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
                assert!(name.bytes().all(word), "{name}");
            }
            let headers = provider.headers.iter().chain(provider.secret_headers);
            for name in headers.map(|(name, _)| *name).chain(provider.auth_header) {
                assert_eq!(name, name.to_ascii_lowercase());
            }
        }
    }

    #[test]
    fn bare_names() {
        for (model, prefix) in [
            ("claude-sonnet-4-5-20250929", Some("anthropic")),
            ("Claude-x", Some("anthropic")),
            ("gpt-5", Some("openai")),
            ("o3-mini", Some("openai")),
            ("gemini-3-pro", Some("gemini")),
            ("deepseek-chat", Some("deepseek")),
            ("qwen3", None),
            ("opus", None),
        ] {
            assert_eq!(of_bare_name(model).map(|p| p.prefix), prefix, "{model}");
        }
    }
}
