//! Vectors for the common config.

use super::*;
use crate::chat::OPENAI as DEFAULTS;
use mswea_sdk::adapter::HeaderValue;
use serde_json::json;

fn server(config: Value) -> Result<Server, PluginError> {
    let mut table = Table::new(config)?;
    let server = Server::take(&mut table, &DEFAULTS)?;
    table.finish()?;
    Ok(server)
}

#[test]
fn the_schema_is_json_and_its_defaults_are_the_ones_in_force() {
    let schema: Value =
        serde_json::from_str(&schema(&DEFAULTS, r#""own": {"default": 1},"#)).unwrap();
    let properties = schema["properties"].as_object().unwrap();
    assert!(properties.contains_key("own"));
    let mut config = Map::new();
    for (key, property) in properties {
        if let Some(default) = property.get("default").filter(|_| key != "own") {
            config.insert(key.clone(), default.clone());
        }
    }
    config.insert("model".to_owned(), json!("m"));
    let full = server(Value::Object(config)).unwrap();
    let short = server(json!({"model": "m"})).unwrap();
    assert_eq!(format!("{full:?}"), format!("{short:?}"));
    assert_eq!(short.url, "https://api.openai.com/v1/chat/completions");
    assert_eq!(short.api_key.as_deref(), Some("OPENAI_API_KEY"));
}

#[test]
fn base_urls_become_endpoints() {
    let azure = "https://r.openai.azure.com/openai";
    for (base, path, query, url) in [
        ("http://h/v1", "", None, "http://h/v1"),
        ("http://h/v1", "/c/d", None, "http://h/v1/c/d"),
        ("http://h/v1/", "c/d", None, "http://h/v1/c/d"),
        ("http://h/v1/c/d", "/c/d", None, "http://h/v1/c/d"),
        (" https://h ", "/c/d", None, "https://h/c/d"),
        ("https://h/v1/", "/v1/m", None, "https://h/v1/m"),
        ("https://h/v1/m?a=1", "/v1/m", None, "https://h/v1/m?a=1"),
        ("https://h/d", "/v1/m", None, "https://h/d/v1/m"),
        ("https://h/c", "/c/d", None, "https://h/c/c/d"),
        ("https://h/x?a=1", "/c/d", None, "https://h/x/c/d?a=1"),
        (
            "https://h/x?a=1",
            "/c?b=2",
            Some(("c", "é &")),
            "https://h/x/c?b=2&a=1&c=%C3%A9%20%26",
        ),
        (
            azure,
            "/deployments/{model}/chat/completions",
            Some(("api-version", "2024-10-21")),
            "https://r.openai.azure.com/openai/deployments/g%20x/a/chat/completions?api-version=2024-10-21",
        ),
        (
            "http://h/{model}",
            ":generate",
            None,
            "http://h/g%20x/a:generate",
        ),
    ] {
        let query: Vec<_> = query
            .into_iter()
            .map(|(a, b): (&str, &str)| (a.to_owned(), b.to_owned()))
            .collect();
        assert_eq!(endpoint(base, path, &query, "g x/a").unwrap(), url);
    }
    for base in ["", "h/v1", "ftp://h", "http://", "http://a b"] {
        let error = endpoint(base, "/c", &[], "m").unwrap_err();
        assert!(error.message.contains("http://127.0.0.1"), "{base}");
    }
}

#[test]
fn null_and_empty_mean_no_key() {
    for api_key in [json!(null), json!("")] {
        let server = server(json!({"model": "m", "api_key": api_key})).unwrap();
        assert_eq!(server.api_key, None);
        assert!(
            server
                .request(Vec::new())
                .headers
                .iter()
                .all(|header| header.name != "authorization")
        );
    }
}

/// The URLs of requests to less common servers, and the headers with secrets.
#[test]
fn the_long_tail_differs_in_url_and_headers() {
    let secret = |name: &str, prefix: &str, secret: &str| Header::secret(name, prefix, secret);
    let vectors = [
        // Azure by deployment.
        (
            json!({"model": "gpt", "base_url": "https://r.openai.azure.com/openai/deployments/{model}",
                   "query": {"api-version": "2024-10-21"}, "api_key": "AZURE_API_KEY",
                   "auth_header": "api-key"}),
            "https://r.openai.azure.com/openai/deployments/gpt/chat/completions?api-version=2024-10-21",
            vec![secret("api-key", "", "AZURE_API_KEY")],
        ),
        // The same request from a config for litellm.
        (
            json!({"model": "gpt", "base_url": "https://r.openai.azure.com/openai/deployments/{model}",
                   "model_kwargs": {"api_version": "2024-10-21"}, "api_key": "AZURE_API_KEY",
                   "auth_header": "api-key"}),
            "https://r.openai.azure.com/openai/deployments/gpt/chat/completions?api-version=2024-10-21",
            vec![secret("api-key", "", "AZURE_API_KEY")],
        ),
        // Azure's v1, which takes a bearer token too.
        (
            json!({"model": "gpt", "base_url": "https://r.openai.azure.com/openai/v1/",
                   "api_key": "AZURE_API_KEY"}),
            "https://r.openai.azure.com/openai/v1/chat/completions",
            vec![secret("authorization", "Bearer ", "AZURE_API_KEY")],
        ),
        // Portkey, with a virtual key.
        (
            json!({"model": "gpt", "base_url": "https://api.portkey.ai/v1", "api_key": "PORTKEY_API_KEY",
                   "auth_header": "x-portkey-api-key",
                   "secret_headers": {"X-Portkey-Virtual-Key": "PORTKEY_VIRTUAL_KEY"}}),
            "https://api.portkey.ai/v1/chat/completions",
            vec![
                secret("x-portkey-api-key", "", "PORTKEY_API_KEY"),
                secret("x-portkey-virtual-key", "", "PORTKEY_VIRTUAL_KEY"),
            ],
        ),
        // Requesty.
        (
            json!({"model": "openai/gpt", "base_url": "https://router.requesty.ai/v1",
                   "api_key": "REQUESTY_API_KEY", "headers": {"X-Title": "t"}}),
            "https://router.requesty.ai/v1/chat/completions",
            vec![secret("authorization", "Bearer ", "REQUESTY_API_KEY")],
        ),
        // Some servers need another text before the key.
        (
            json!({"model": "m", "base_url": "http://h", "auth_prefix": "Token ", "api_key": "K"}),
            "http://h/chat/completions",
            vec![secret("authorization", "Token ", "K")],
        ),
    ];
    for (config, url, secrets) in vectors {
        let request = server(config.clone()).unwrap().request(Vec::new());
        assert_eq!(request.url, url, "{config}");
        let got: Vec<_> = request
            .headers
            .into_iter()
            .filter(|header| matches!(header.value, HeaderValue::Secret(_)))
            .collect();
        assert_eq!(got, secrets, "{config}");
    }
    let plain = server(
        json!({"model": "m", "headers": {"X-Portkey-Provider": "@openai"},
        "model_kwargs": {"extra_headers": {"X-A": "1", "X-Portkey-Provider": "no"}}}),
    )
    .unwrap()
    .request(Vec::new());
    for (name, value) in [("x-portkey-provider", "@openai"), ("x-a", "1")] {
        let named: Vec<_> = plain.headers.iter().filter(|h| h.name == name).collect();
        assert_eq!(named, [&Header::plain(name, value)]);
    }
}

#[test]
fn the_host_is_what_stands_between_scheme_and_path() {
    for (base, host) in [
        ("http://h:8000/v1", "h:8000"),
        ("https://api.openai.com/v1", "api.openai.com"),
    ] {
        let server = server(json!({"model": "m", "base_url": base})).unwrap();
        assert_eq!(server.host(), host);
    }
}

#[test]
fn bad_configs_name_the_key_and_never_repeat_a_pasted_secret() {
    for (config, pointer, word) in [
        (json!({}), "/model", "model"),
        (json!({"model": " "}), "/model", "model"),
        (json!({"model": "m", "nope": 1}), "/nope", "nope"),
        (json!({"model": "m", "stream": 1}), "/stream", "stream"),
        (json!({"model": "m", "base_url": "x"}), "/base_url", "`x`"),
        (
            json!({"model": "m", "api_key": "sk-secret"}),
            "/api_key",
            "name",
        ),
        (json!({"model": "m", "api_key": "1A"}), "/api_key", "name"),
        (
            json!({"model": "m", "secret_headers": {"X-K": "sk-secret"}}),
            "/secret_headers/x-k",
            "name",
        ),
        (
            json!({"model": "m", "model_kwargs": {"api_base": "x"}}),
            "/model_kwargs/api_base",
            "base_url",
        ),
        (
            json!({"model": "m", "model_kwargs": {"a": 1, "aws_secret_access_key": "sk-secret"}}),
            "/model_kwargs/aws_secret_access_key",
            "gateway",
        ),
        (
            json!({"model": "m", "model_kwargs": {"azure_ad_token": "sk-secret"}}),
            "/model_kwargs/azure_ad_token",
            "api_key_env",
        ),
        (
            json!({"model": "m", "model_kwargs": {"vertex_credentials": "sk-secret"}}),
            "/model_kwargs/vertex_credentials",
            "gateway",
        ),
        (
            json!({"model": "m", "model_kwargs": {"organization": "o"}}),
            "/model_kwargs/organization",
            "header",
        ),
        (
            json!({"model": "m", "model_kwargs": {"extra_body": 1}}),
            "/model_kwargs/extra_body",
            "no table",
        ),
        (
            json!({"model": "m", "headers": {"a/b": 1}}),
            "/headers/a~1b",
            "a/b",
        ),
    ] {
        let error = server(config.clone()).unwrap_err();
        assert_eq!(error.code, "invalid-config");
        assert!(error.message.contains(word), "{config}: {}", error.message);
        assert!(!error.message.contains("sk-secret"));
        let extra: Value = serde_json::from_str(&error.extra.unwrap()).unwrap();
        assert_eq!(extra["pointer"], pointer, "{config}");
    }
}

#[test]
fn kwargs_lose_what_is_never_sent_and_decide_on_streaming() {
    let server = server(json!({
        "model": "m",
        "model_kwargs": {"drop_params": true, "temperature": 0, "stream": false, "aws_x": null},
    }))
    .unwrap();
    assert!(!server.stream);
    assert!(server.drop_params);
    assert!(!server.model_kwargs.contains_key("drop_params"));
    assert_eq!(server.model_kwargs["temperature"], 0);
    assert!(!server.model_kwargs.contains_key("aws_x"));
}
