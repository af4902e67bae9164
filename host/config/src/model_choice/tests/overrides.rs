//! The effects of a model class, an entry of the user and `custom_llm_provider`.

use super::*;

#[test]
fn a_model_class_chooses_provider_and_api() {
    for (class, model, prefix, adapter, name, api) in [
        ("litellm", "openai/m", "openai", "openai", "m", None),
        (
            "litellm_response",
            "openai/m",
            "openai",
            "openai_responses",
            "m",
            None,
        ),
        (
            "litellm_response",
            "anthropic/m",
            "anthropic",
            "anthropic",
            "m",
            None,
        ),
        (
            "litellm_response",
            "openrouter/a/m",
            "openrouter",
            "openrouter",
            "a/m",
            Some("responses"),
        ),
        (
            "openrouter",
            "minimax/minimax-m2",
            "openrouter",
            "openrouter",
            "minimax/minimax-m2",
            None,
        ),
        (
            "openrouter_response",
            "a/m",
            "openrouter",
            "openrouter",
            "a/m",
            Some("responses"),
        ),
        (
            "portkey",
            "@openai/gpt-5",
            "portkey",
            "openai",
            "@openai/gpt-5",
            None,
        ),
        (
            "portkey_response",
            "m",
            "portkey",
            "openai_responses",
            "m",
            None,
        ),
        (
            "requesty", "openai/m", "requesty", "openai", "openai/m", None,
        ),
        ("deterministic", "any", "replay", "replay", "replay", None),
    ] {
        let class = format!("model.model_class={class}");
        let choice = choose(&[&class, &format!("model.model_name={model}")]).unwrap();
        assert_eq!(choice.prefix, prefix, "{class}");
        assert_eq!(choice.adapter, adapter, "{class}");
        assert_eq!(choice.model, name, "{class}");
        assert_eq!(choice.api, api, "{class}");
    }
}

#[test]
fn an_entry_of_the_user_is_laid_over_a_row() {
    let own = "providers.anthropic.base_url=http://proxy";
    let choice = choose(&["model.model_name=anthropic/c", own]).unwrap();
    assert_eq!(choice.adapter, "anthropic");
    assert_eq!(choice.base_url.as_deref(), Some("http://proxy"));
    assert_eq!(choice.api_key_env.as_deref(), Some("ANTHROPIC_API_KEY"));
    let other = "providers.anthropic.adapter=mine.wasm";
    let choice = choose(&["model.model_name=anthropic/c", other]).unwrap();
    assert_eq!(choice.adapter, "mine.wasm");
}

#[test]
fn custom_llm_provider_decides_format_key_and_address() {
    let kwargs = |custom: &str, base: &str| {
        format!(
            "model.model_kwargs={{\"custom_llm_provider\": \"{custom}\", \"api_base\": \"{base}\"}}"
        )
    };
    let gateway = "https://gw.example";
    for (model, custom, base, prefix, name, adapter, url, key) in [
        // litellm: the provider is put in front, the rest is the model's name
        (
            "qwen3",
            "openai",
            gateway,
            "openai",
            "qwen3",
            "openai",
            gateway,
            "OPENAI_API_KEY",
        ),
        (
            "Qwen/Q3",
            "hosted_vllm",
            gateway,
            "hosted_vllm",
            "Qwen/Q3",
            "openai",
            gateway,
            "",
        ),
        (
            "anthropic/claude-x",
            "openai",
            gateway,
            "openai",
            "anthropic/claude-x",
            "openai",
            gateway,
            "OPENAI_API_KEY",
        ),
        (
            "claude-x",
            "anthropic",
            gateway,
            "anthropic",
            "claude-x",
            "anthropic",
            gateway,
            "ANTHROPIC_API_KEY",
        ),
        (
            "gemini/g-3",
            "openai",
            gateway,
            "openai",
            "gemini/g-3",
            "openai",
            gateway,
            "OPENAI_API_KEY",
        ),
        (
            "g-3",
            "gemini",
            gateway,
            "gemini",
            "g-3",
            "gemini",
            gateway,
            "GEMINI_API_KEY",
        ),
        // the provider is in front already
        (
            "openai/gpt-5",
            "openai",
            gateway,
            "openai",
            "gpt-5",
            "openai",
            gateway,
            "OPENAI_API_KEY",
        ),
        // the provider's own address
        (
            "llama-3",
            "groq",
            "",
            "groq",
            "llama-3",
            "openai",
            "https://api.groq.com/openai/v1",
            "GROQ_API_KEY",
        ),
        // none
        (
            "openai/x",
            "",
            gateway,
            "openai",
            "x",
            "openai",
            gateway,
            "OPENAI_API_KEY",
        ),
    ] {
        let configs = [format!("model.model_name={model}"), kwargs(custom, base)];
        let choice = choose(&[&configs[0], &configs[1]]).unwrap();
        assert_eq!(choice.prefix, prefix, "{configs:?}");
        assert_eq!(choice.model, name, "{configs:?}");
        assert_eq!(choice.adapter, adapter, "{configs:?}");
        assert_eq!(choice.base_url.as_deref(), Some(url), "{configs:?}");
        assert_eq!(choice.api_key_env.unwrap_or_default(), key, "{configs:?}");
    }
    for (custom, part) in [
        ("bedrock", "have to be signed"),
        ("opnai", "did you mean `openai`?"),
        ("zzzzzz", "write `openai` for a server"),
    ] {
        let text = choose(&["model.model_name=m", &kwargs(custom, gateway)]).unwrap_err();
        for part in [part, "custom_llm_provider"] {
            assert!(text.contains(part), "{text}");
        }
    }
}
