mod overrides;

use super::super::testing::Memory;
use super::*;

fn choose(configs: &[&str]) -> Result<ModelChoice, String> {
    let config = Memory::new().resolve(configs).unwrap();
    resolve_model_in(&config, &Memory::new()).map_err(|error| error.to_string())
}

#[test]
fn names_lead_to_providers() {
    let openai = Some("https://api.openai.com/v1");
    let key = Some("OPENAI_API_KEY");
    let url = Some("http://h/v1");
    let base = "model.base_url=http://h/v1";
    let mine = "providers.mine={\"base_url\": \"http://m\", \"api_key_env\": \"MINE\"}";
    for (configs, prefix, model, adapter, base_url, api_key_env) in [
        (
            &["model.model_name=openai/gpt-5"][..],
            "openai",
            "gpt-5",
            "openai",
            openai,
            key,
        ),
        (
            &["model.model_name=openai/a/b"],
            "openai",
            "a/b",
            "openai",
            openai,
            key,
        ),
        (
            &["model.model_name=openai/x", base],
            "openai",
            "x",
            "openai",
            url,
            key,
        ),
        (
            &["model.model_name=openai/x", "model.api_key_env=K"],
            "openai",
            "x",
            "openai",
            openai,
            Some("K"),
        ),
        (
            &["model.model_name=local/qwen", base],
            "local",
            "qwen",
            "openai",
            url,
            None,
        ),
        (
            &["model.model_name=Qwen/Qwen3", base],
            "local",
            "Qwen/Qwen3",
            "openai",
            url,
            None,
        ),
        (
            &["model.model_name=gpt-5", base, "model.api_key_env=K"],
            "local",
            "gpt-5",
            "openai",
            url,
            Some("K"),
        ),
        (
            &["model.model_name=replay/a.json"],
            "replay",
            "a.json",
            "replay",
            None,
            None,
        ),
        (
            &["model.model_name=replay"],
            "replay",
            "replay",
            "replay",
            None,
            None,
        ),
        (
            &["model.model_name=mine/m", mine],
            "mine",
            "m",
            "openai",
            Some("http://m"),
            Some("MINE"),
        ),
        (
            &[
                "model.model_name=openai/m",
                "providers.openai.base_url=http://m",
            ],
            "openai",
            "m",
            "openai",
            Some("http://m"),
            key,
        ),
        (
            &["model.model_name=x/y", "pipeline.adapter=a.wasm"],
            "local",
            "x/y",
            "a.wasm",
            None,
            None,
        ),
        (
            &["model.model_name=openai/y", "pipeline.adapter=a.wasm"],
            "openai",
            "y",
            "a.wasm",
            openai,
            key,
        ),
    ] {
        let choice = choose(configs).unwrap();
        let expected = ModelChoice {
            prefix: prefix.into(),
            model: model.into(),
            adapter: adapter.into(),
            base_url: base_url.map(str::to_owned),
            api_key_env: api_key_env.map(str::to_owned),
            ..choice.clone()
        };
        assert_eq!(choice, expected, "{configs:?}");
    }
}

#[test]
fn a_name_that_leads_nowhere_is_explained() {
    for (configs, parts) in [
        (
            &[][..],
            &[
                "no model: pass `-m",
                "`-m openai/gpt-5`",
                "MSWEA_MODEL_NAME",
            ][..],
        ),
        (&["model.model_name= "], &["no model"]),
        (
            &["model.model_name=opnai/gpt-5"],
            &[
                "unknown prefix `opnai`",
                "`openai`, `anthropic`, `gemini`",
                "did you mean `openai/gpt-5`?",
            ],
        ),
        (
            &[
                "model.model_name=zzzzzz/m",
                "providers.mine.base_url=http://m",
            ],
            &["`replay`, `mine`", "--base-url", "[providers]"],
        ),
        (
            &["model.model_name=qwen3"],
            &["`qwen3` has no prefix", "`openai/qwen3`"],
        ),
        (
            &["model.model_name=antropic/claude-x"],
            &["did you mean `anthropic/claude-x`?"],
        ),
        (
            &["model.model_name=bedrock/claude"],
            &["unknown prefix `bedrock`", "have to be signed"],
        ),
        (
            &["model.model_name=hosted_vllm/qwen"],
            &["needs a base URL", "or `HOSTED_VLLM_API_BASE`"],
        ),
        (
            &["model.model_name=openai/"],
            &["has no name after its prefix `openai/`"],
        ),
        (
            &["model.model_name=openai"],
            &["has no name after its prefix `openai/`"],
        ),
        (
            &["model.model_name=local/qwen"],
            &["needs a base URL", "--base-url http://127.0.0.1:8000/v1"],
        ),
    ] {
        let text = choose(configs).unwrap_err();
        for part in parts {
            assert!(text.contains(part), "{configs:?}: {text}");
        }
    }
}

fn in_env(env: &Memory, configs: &[&str]) -> ModelChoice {
    resolve_model_in(&env.resolve(configs).unwrap(), env).unwrap()
}

#[test]
fn providers_are_reached_as_their_rows_say() {
    let env = Memory::new()
        .var("TOGETHERAI_API_KEY", "k")
        .var("OPENROUTER_API_BASE", "http://router")
        .var("PORTKEY_VIRTUAL_KEY", "v");
    for (model, adapter, name, url, key) in [
        (
            "claude-x",
            "anthropic",
            "claude-x",
            "https://api.anthropic.com",
            "ANTHROPIC_API_KEY",
        ),
        (
            "gpt-5",
            "openai",
            "gpt-5",
            "https://api.openai.com/v1",
            "OPENAI_API_KEY",
        ),
        (
            "gemini/g",
            "gemini",
            "g",
            "https://generativelanguage.googleapis.com/v1beta",
            "GEMINI_API_KEY",
        ),
        (
            "openrouter/a/b",
            "openrouter",
            "a/b",
            "http://router",
            "OPENROUTER_API_KEY",
        ),
        (
            "together/a/b",
            "openai",
            "a/b",
            "https://api.together.xyz/v1",
            "TOGETHERAI_API_KEY",
        ),
        (
            "fireworks_ai/k2",
            "openai",
            "accounts/fireworks/models/k2",
            "https://api.fireworks.ai/inference/v1",
            "FIREWORKS_API_KEY",
        ),
        (
            "fireworks_ai/accounts/me/k2",
            "openai",
            "accounts/me/k2",
            "https://api.fireworks.ai/inference/v1",
            "FIREWORKS_API_KEY",
        ),
        ("ollama_chat/q", "openai", "q", "http://localhost:11434", ""),
        (
            "portkey/p",
            "openai",
            "p",
            "https://api.portkey.ai/v1",
            "PORTKEY_API_KEY",
        ),
    ] {
        let choice = in_env(&env, &[&format!("model.model_name={model}")]);
        assert_eq!(choice.adapter, adapter, "{model}");
        assert_eq!(choice.model, name, "{model}");
        assert_eq!(choice.base_url.as_deref(), Some(url), "{model}");
        assert_eq!(choice.api_key_env.unwrap_or_default(), key, "{model}");
    }
    let portkey = in_env(&env, &["model.model_name=portkey/p"]);
    assert_eq!(portkey.auth_header.as_deref(), Some("x-portkey-api-key"));
    let virtual_key = (
        "x-portkey-virtual-key".to_owned(),
        "PORTKEY_VIRTUAL_KEY".to_owned(),
    );
    assert_eq!(portkey.secret_headers, [virtual_key]);
    // Sent by Portkey's client, too.
    let compliance = (
        "x-portkey-strict-open-ai-compliance".to_owned(),
        "false".to_owned(),
    );
    assert_eq!(portkey.headers, std::slice::from_ref(&compliance));
    let configs = &["model.model_name=portkey/p", "model.provider=@openai"];
    let named = ("x-portkey-provider".to_owned(), "@openai".to_owned());
    assert_eq!(choose(configs).unwrap().headers, [compliance, named]);
    assert_eq!(portkey.listed_as.as_deref(), Some("portkey"));
    let together = in_env(&env, &["model.model_name=together/m"]);
    assert_eq!(together.listed_as.as_deref(), Some("together_ai"));
}

#[test]
fn ollama_is_asked_in_its_own_api_unless_the_address_is_the_others() {
    let (own, compatible) = (Some("ollama"), None);
    for (address, more, url, api) in [
        ("http://h:1", "", "http://h:1", own),
        ("http://h:1/", "", "http://h:1/", own),
        ("http://h/ollama", "", "http://h/ollama", own),
        ("http://h/api/chat", "", "http://h/api/chat", own),
        ("http://h/api/generate", "", "http://h", own),
        ("http://h:1/v1", "", "http://h:1/v1", compatible),
        ("http://h/v1/", "", "http://h/v1/", compatible),
        (
            "http://h/api/chat/completions",
            "",
            "http://h/api/chat/completions",
            compatible,
        ),
        // These have another format.
        (
            "http://h:1",
            "model.model_class=litellm_response",
            "http://h:1/v1",
            compatible,
        ),
        (
            "http://h:1",
            "pipeline.adapter=mine",
            "http://h:1/v1",
            compatible,
        ),
    ] {
        for model in ["ollama/q", "ollama_chat/q"] {
            let env = Memory::new().var("OLLAMA_API_BASE", address);
            let name = format!("model.model_name={model}");
            let choice = match more {
                "" => in_env(&env, &[&name]),
                more => in_env(&env, &[&name, more]),
            };
            let found = (choice.base_url.as_deref(), choice.api);
            assert_eq!(found, (Some(url), api), "{address} {more}");
        }
    }
}

#[test]
fn azure_has_addresses_of_its_own() {
    let server = "https://me.openai.azure.com";
    for (base, version, url) in [
        (server, None, "https://me.openai.azure.com/openai/v1"),
        (
            server,
            Some("preview"),
            "https://me.openai.azure.com/openai/v1",
        ),
        (
            "https://me.openai.azure.com/",
            Some("2025-03-01"),
            "https://me.openai.azure.com/openai/deployments/d?api-version=2025-03-01",
        ),
        (
            "https://proxy/azure/v1",
            Some("2025-03-01"),
            "https://proxy/azure/v1",
        ),
    ] {
        let mut env = Memory::new().var("AZURE_API_BASE", base);
        if let Some(version) = version {
            env = env.var("AZURE_API_VERSION", version);
        }
        let choice = in_env(&env, &["model.model_name=azure/d"]);
        assert_eq!(choice.base_url.as_deref(), Some(url));
        assert_eq!(choice.auth_header.as_deref(), Some("api-key"));
    }
}

#[test]
fn some_servers_want_a_key_only_where_there_is_one() {
    let base = "model.base_url=https://h/v1";
    for (model, variables, key, optional) in [
        ("litellm_proxy/m", &[][..], "", "LITELLM_PROXY_API_KEY"),
        ("custom_openai/m", &[], "", "OPENAI_LIKE_API_KEY"),
        ("openai_like/m", &[], "", "OPENAI_LIKE_API_KEY"),
        ("hosted_vllm/m", &[], "", "HOSTED_VLLM_API_KEY"),
        (
            "litellm_proxy/m",
            &[("LITELLM_PROXY_API_KEY", "k")],
            "LITELLM_PROXY_API_KEY",
            "",
        ),
        ("openai/m", &[], "OPENAI_API_KEY", ""),
        // set to nothing: the server needs no key
        ("openai/m", &[("OPENAI_API_KEY", "")], "", "OPENAI_API_KEY"),
    ] {
        let mut env = Memory::new();
        for (name, value) in variables {
            env = env.var(name, value);
        }
        let choice = in_env(&env, &[&format!("model.model_name={model}"), base]);
        assert_eq!(
            choice.api_key_env.unwrap_or_default(),
            key,
            "{model} {variables:?}"
        );
        assert_eq!(
            choice.optional_keys.concat(),
            optional,
            "{model} {variables:?}"
        );
    }
    // At the provider's own address a missing key is an error.
    let env = Memory::new().var("OPENAI_API_KEY", "");
    let choice = in_env(&env, &["model.model_name=openai/m"]);
    assert_eq!(choice.api_key_env.as_deref(), Some("OPENAI_API_KEY"));
}

#[test]
fn an_adapter_is_named_as_a_prefix() {
    let entry = "plugins.linewire.path=/work/l.wasm";
    for (configs, adapter, model) in [
        (
            &[entry, "model.model_name=linewire/foo"][..],
            "linewire",
            "foo",
        ),
        (&[entry, "model.model_name=linewire/a/b"], "linewire", "a/b"),
        (
            &["pipeline.adapter=mine", "model.model_name=mine/foo"],
            "mine",
            "foo",
        ),
        (
            &["pipeline.adapter=mine", "model.model_name=other/foo"],
            "mine",
            "other/foo",
        ),
        // a provider's name keeps its meaning
        (
            &["pipeline.adapter=mine", "model.model_name=openai/foo"],
            "mine",
            "foo",
        ),
    ] {
        let choice = choose(configs).unwrap();
        assert_eq!(
            (&*choice.adapter, &*choice.model),
            (adapter, model),
            "{configs:?}"
        );
    }
}

#[test]
fn whose_a_model_is_can_be_asked_without_an_address() {
    let config = Memory::new()
        .resolve(&["model.model_name=hosted_vllm/qwen"])
        .unwrap();
    let choice = whose_model(&config).unwrap();
    assert_eq!(choice.listed_as.as_deref(), Some("hosted_vllm"));
    assert_eq!(choice.model, "qwen");
    assert!(choice.no_cache_marks);
}

/// As litellm chooses it, for models of OpenAI and of Azure.
#[test]
fn some_models_are_asked_over_responses() {
    let effort = "model.model_kwargs={\"reasoning_effort\": \"low\"}";
    let none = "model.model_kwargs={\"reasoning_effort\": \"none\"}";
    let (text, base) = ("pipeline.parser=text_regex", "model.base_url=http://h/v1");
    let class = "model.model_class=litellm";
    for (name, more, model, is_responses) in [
        ("openai/gpt-5-codex", &[][..], "gpt-5-codex", true),
        ("gpt-5.1-codex-max", &[], "gpt-5.1-codex-max", true),
        (
            "openai/gpt-5.1-codex",
            &[base, class],
            "gpt-5.1-codex",
            true,
        ),
        ("openai/gpt-5-pro", &[], "gpt-5-pro", true),
        (
            "openai/gpt-5.2-pro-2025-12-11",
            &[],
            "gpt-5.2-pro-2025-12-11",
            true,
        ),
        ("openai/o1-pro", &[], "o1-pro", true),
        (
            "openai/o4-mini-deep-research",
            &[],
            "o4-mini-deep-research",
            true,
        ),
        (
            "azure/gpt-5-codex",
            &["model.base_url=https://me.openai.azure.com"],
            "gpt-5-codex",
            true,
        ),
        ("openai/responses/gpt-4.1", &[], "gpt-4.1", true),
        ("openai/gpt-5.4", &[effort], "gpt-5.4", true),
        ("openai/gpt-5.4-mini", &[effort, base], "gpt-5.4-mini", true),
        ("openai/gpt-6-sol", &[effort], "gpt-6-sol", true),
        ("openai/gpt-5.4", &[effort, text], "gpt-5.4", false),
        ("openai/gpt-5.4", &[none], "gpt-5.4", false),
        ("openai/gpt-5.4", &[], "gpt-5.4", true),
        ("openai/gpt-5.4", &[base], "gpt-5.4", false),
        ("openai/gpt-5.1", &[effort], "gpt-5.1", false),
        ("openai/gpt-5", &[], "gpt-5", false),
        ("openai/prompt-pro", &[], "prompt-pro", false),
        ("local/gpt-5-codex", &[base], "gpt-5-codex", false),
        ("groq/responses/x", &[], "responses/x", false),
    ] {
        let name = format!("model.model_name={name}");
        let configs: Vec<&str> = [name.as_str()].iter().chain(more).copied().collect();
        let choice = choose(&configs).unwrap();
        assert_eq!(choice.model, model, "{configs:?}");
        let adapter = if is_responses {
            "openai_responses"
        } else {
            OPENAI
        };
        assert_eq!(choice.adapter, adapter, "{configs:?}");
    }
}

#[test]
fn azures_version_may_be_a_parameter() {
    let base = "model.base_url=https://me.openai.azure.com";
    let version = "model.model_kwargs={\"api_version\": \"2025-03-01\"}";
    for (more, expected) in [
        (&[][..], "/openai/deployments/d?api-version=2025-03-01"),
        (
            &["model.model_class=litellm_response"],
            "/openai?api-version=2025-03-01",
        ),
    ] {
        let configs: Vec<&str> = ["model.model_name=azure/d", base, version]
            .iter()
            .chain(more)
            .copied()
            .collect();
        let config = Memory::new().resolve(&configs).unwrap();
        let choice = resolve_model_in(&config, &Memory::new()).unwrap();
        let url = choice.base_url.as_deref();
        assert_eq!(
            url,
            Some(&*format!("https://me.openai.azure.com{expected}"))
        );
        // It is in the address already.
        let sent = super::super::wire_kwargs::WireKwargs::of(&config, &choice, true);
        assert!(sent.parameters.is_empty(), "{:?}", sent.parameters);
    }
}

#[test]
fn databricks_needs_an_address_and_a_key() {
    let error = choose(&["model.model_name=databricks/m"]).unwrap_err();
    assert!(error.contains("`DATABRICKS_API_BASE`"), "{error}");
    let base = "model.base_url=https://me.databricks.com/serving-endpoints";
    let choice = choose(&["model.model_name=databricks/m", base]).unwrap();
    assert_eq!(choice.api_key_env.as_deref(), Some("DATABRICKS_API_KEY"));
}
