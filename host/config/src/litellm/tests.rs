use serde_json::json;

use super::super::given_key::GivenKey;
use super::super::model_choice::ModelChoice;
use super::super::sections::Config;
use super::super::testing::Memory;
use super::super::wire_kwargs::WireKwargs;
use super::*;

#[test]
fn litellm_s_own_parameters_go_where_they_belong() {
    let env = Memory::new();
    let kwargs = json!({
        "api_base": "http://h/v1", "api_key": "os.environ/K", "drop_params": true,
        "custom_llm_provider": "openai", "top_p": 1, "timeout": 5, "top_k": 3,
        "extra_body": {"top_k": 5, "nested": {"a": 1}}, "extra_headers": {"X-A": 1, "X-B": "b"},
        "additional_drop_params": ["seed"], "seed": 1, "metadata": {}, "organization": "org-1",
    });
    let config = env
        .resolve(&[&format!("model.model_kwargs={kwargs}")])
        .unwrap();
    assert_eq!(Value::Object(config.model.model_kwargs.clone()), kwargs);
    assert_eq!(config.model.base_url.as_deref(), Some("http://h/v1"));
    assert_eq!(config.model.api_key_env.as_deref(), Some("K"));
    let choice = ModelChoice::default();
    let wire = WireKwargs::of(&config, &choice, false);
    assert_eq!(
        Value::Object(wire.parameters),
        json!({"top_p": 1, "top_k": 3, "metadata": {}, "nested": {"a": 1}})
    );
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(wire.headers, [header("X-A", "1"), header("X-B", "b")]);
    assert_eq!(wire.organization.as_deref(), Some("org-1"));
    let native = WireKwargs::of(&config, &choice, true).parameters;
    assert_eq!(native["drop_params"], true);
    assert_eq!(native["extra_body"], json!({"nested": {"a": 1}}));
    assert!(!native.contains_key("custom_llm_provider"));
    assert!(!native.contains_key("organization"));
    assert_eq!(
        config.redacted()["model"]["model_kwargs"]["organization"],
        "[redacted]"
    );
    let mini = Config {
        mini: true,
        ..config
    };
    assert!(
        !WireKwargs::of(&mini, &choice, true)
            .parameters
            .contains_key("metadata")
    );
    let responses = ModelChoice {
        adapter: "openai_responses".to_owned(),
        ..choice
    };
    let sent = WireKwargs::of(&mini, &responses, true).parameters;
    assert!(sent.contains_key("metadata"));
    let explicit = env
        .resolve(&[
            "model.model_kwargs.api_base=http://h/v1",
            "model.base_url=http://own",
        ])
        .unwrap();
    assert_eq!(explicit.model.base_url.as_deref(), Some("http://own"));
}

#[test]
fn a_key_in_the_config_is_refused_and_not_shown() {
    let env = Memory::new().file(
        "/work/k.toml",
        "[model.model_kwargs]\napi_key = \"sk-123\"\n",
    );
    for (configs, place) in [
        (&["k.toml"][..], "k.toml:2"),
        (
            &["model.model_kwargs.api_key=sk-123"],
            "-c model.model_kwargs.api_key=[redacted]",
        ),
    ] {
        let text = env.resolve(configs).unwrap_err().to_string();
        assert!(
            text.contains(place) && text.contains("model.api_key_env"),
            "{text}"
        );
        assert!(!text.contains("sk-123"), "{text}");
    }
}

const MINI: &str = "agent: {system_template: s, instance_template: i}\nmodel:\n  model_name: \
                    openai/m\n  model_kwargs:\n    api_key: ";

/// The key is removed from the layer at once, and is in nothing that is shown or written.
#[test]
fn a_key_in_a_file_of_mini_becomes_a_secret() {
    for (configs, key) in [
        (&["m.yaml"][..], "sk-in-yaml"),
        (
            &["m.yaml", "model.model_kwargs.api_key=sk-typed"],
            "sk-typed",
        ),
    ] {
        let env = Memory::new().file("/work/m.yaml", &format!("{MINI}sk-in-yaml\n"));
        let layers = env.load(configs).unwrap();
        let config = layers.resolve().unwrap();
        let given = config.given_key.clone().unwrap();
        assert_eq!(given.expose(), key);
        assert_eq!(config.model.api_key_env.as_deref(), Some(GIVEN_KEY));
        let warning = given.warning();
        assert!(warning.contains("`model.api_key_env`"), "{warning}");
        let shown = [
            layers.show(true),
            layers.show(false),
            layers.merged().to_string(),
            format!("{config:?}"),
            config.redacted().to_string(),
            format!(
                "{:?}",
                WireKwargs::of(&config, &ModelChoice::default(), true)
            ),
            warning,
            layers.names().join(" "),
        ];
        for text in shown {
            assert!(!text.contains("sk-"), "{text}");
        }
    }
}

#[test]
fn what_else_stands_where_a_key_would() {
    for (value, later, given, name) in [
        ("os.environ/K", None, None, Some("K")),
        ("''", None, None, None),
        ("null", None, None, None),
        ("EMPTY", None, Some("EMPTY"), Some(GIVEN_KEY)),
        ("1234", None, Some("1234"), Some(GIVEN_KEY)),
        // a later layer wins
        ("sk-1", Some("null"), None, None),
        ("sk-1", Some("os.environ/K"), None, Some("K")),
    ] {
        let env = Memory::new().file("/work/m.yaml", &format!("{MINI}{value}\n"));
        let later = later.map(|value| format!("model.model_kwargs.api_key={value}"));
        let configs: Vec<&str> = std::iter::once("m.yaml").chain(later.as_deref()).collect();
        let config = env.resolve(&configs).unwrap();
        let found = config.given_key.as_ref().map(GivenKey::expose);
        assert_eq!(found, given, "{configs:?} {value}");
        assert_eq!(
            config.model.api_key_env.as_deref(),
            name,
            "{configs:?} {value}"
        );
    }
    // A variable that the user names ranks above the key that the file holds.
    let env = Memory::new().file("/work/m.yaml", &format!("{MINI}sk-1\n"));
    let config = env.resolve(&["m.yaml", "model.api_key_env=MINE"]).unwrap();
    assert_eq!(config.model.api_key_env.as_deref(), Some("MINE"));
    // A file in this host's format above one of mini-swe-agent's may not hold a key.
    let toml = "[model.model_kwargs]\napi_key = \"sk-2\"\n";
    let text = env
        .file("/work/k.toml", toml)
        .resolve(&["m.yaml", "k.toml"]);
    let text = text.unwrap_err().to_string();
    assert!(text.contains("k.toml:2") && !text.contains("sk-"), "{text}");
}

#[test]
fn a_broken_file_does_not_show_its_key() {
    let env = Memory::new().file("/work/m.yaml", &format!("{MINI}sk-1: x\n"));
    let text = env.resolve(&["m.yaml"]).unwrap_err().to_string();
    assert!(text.contains("m.yaml:5") && !text.contains("sk-"), "{text}");
    let yaml = "model: {model_kwargs: {api_key: sk-1}, stream: [x]}\n";
    let text = Memory::new()
        .file("/work/m.yaml", yaml)
        .resolve(&["m.yaml"]);
    let text = text.unwrap_err().to_string();
    assert!(
        text.contains("`model.stream`") && !text.contains("sk-"),
        "{text}"
    );
}

#[test]
fn settings_of_litellm_s_connection_stay_here() {
    let env = Memory::new();
    for (wish, told, file) in [
        ("true", false, None),
        ("null", false, None),
        ("false", true, None),
        ("\"False\"", true, None),
        ("\"/ca.pem\"", false, Some("/ca.pem")),
    ] {
        let kwargs = format!("{{\"ssl_verify\": {wish}, \"verbose\": true, \"top_k\": 1}}");
        let layers = env
            .load(&[&format!("model.model_kwargs={kwargs}")])
            .unwrap();
        let warned = layers
            .warnings()
            .iter()
            .any(|text| text.contains("`SSL_CERT_FILE`"));
        assert_eq!(warned, told, "{:?}", layers.warnings());
        let config = layers.resolve().unwrap();
        assert_eq!(trusted_certificates(&config.model.model_kwargs), file);
        for native in [true, false] {
            let sent =
                Value::Object(WireKwargs::of(&config, &ModelChoice::default(), native).parameters);
            assert_eq!(sent, json!({"top_k": 1}));
        }
    }
}

/// Each login parameter of litellm is refused by name, with a remedy and without its value.
#[test]
fn logins_are_refused_with_what_to_do_instead() {
    for (name, remedy) in [
        ("azure_ad_token", "`model.api_key_env`"),
        ("azure_ad_token_provider", "`model.api_key_env`"),
        ("azure_username", "az account get-access-token"),
        ("azure_password", "az account get-access-token"),
        ("tenant_id", "az account get-access-token"),
        ("client_id", "az account get-access-token"),
        ("client_secret", "az account get-access-token"),
        ("aws_access_key_id", "have to be signed"),
        ("aws_secret_access_key", "have to be signed"),
        ("aws_session_token", "have to be signed"),
        ("aws_profile_name", "have to be signed"),
        ("aws_region_name", "have to be signed"),
        ("vertex_credentials", "`gemini/NAME`"),
        ("vertex_ai_credentials", "`gemini/NAME`"),
        ("vertex_project", "`gemini/NAME`"),
        ("watsonx_username", "gateway"),
    ] {
        let env = Memory::new().file(
            "/work/m.yaml",
            &format!("model:\n  model_kwargs:\n    {name}: hush-123\n"),
        );
        let dotted = format!("model.model_kwargs.{name}");
        let spec = format!("{dotted}=os.environ/hush-123");
        for (configs, place) in [
            (["m.yaml"], "m.yaml:3"),
            ([&*spec], "-c model.model_kwargs."),
        ] {
            let text = env.resolve(&configs).unwrap_err().to_string();
            for part in [&*format!("`{dotted}`"), remedy, place] {
                assert!(text.contains(part), "{part}: {text}");
            }
            assert!(!text.contains("hush"), "{text}");
        }
        assert!(env.resolve(&[&format!("{dotted}=null")]).is_ok());
    }
    for name in ["user", "top_k", "region", "awsome", "input_cost_per_token"] {
        let spec = format!("model.model_kwargs.{name}=1");
        assert!(Memory::new().resolve(&[&spec]).is_ok(), "{name}");
    }
}

#[test]
fn costs_of_tokens_are_the_price() {
    let env = Memory::new();
    let price = |kwargs: Value, more: &[&str]| {
        let kwargs = format!("model.model_kwargs={kwargs}");
        let all: Vec<&str> = [kwargs.as_str()].iter().chain(more).copied().collect();
        let config = env.resolve(&all).unwrap();
        let sent = WireKwargs::of(&config, &ModelChoice::default(), true).parameters;
        assert!(sent.is_empty(), "{sent:?}");
        let price = config.model.price;
        price.map(|it| (it.input, it.output, it.cache_read, it.cache_write))
    };
    let both = json!({"input_cost_per_token": 1.25e-6, "output_cost_per_token": 1e-5});
    assert_eq!(price(both.clone(), &[]), Some((1.25, 10.0, None, None)));
    let cached = json!({"input_cost_per_token": 0, "cache_read_input_token_cost": 1e-7,
        "cache_creation_input_token_cost": 2e-7});
    assert_eq!(price(cached, &[]), Some((0.0, 0.0, Some(0.1), Some(0.2))));
    let own = ["model.price.input=3", "model.price.output=4"];
    assert_eq!(price(both, &own), Some((3.0, 4.0, None, None)));
    assert_eq!(price(json!({"input_cost_per_token": null}), &[]), None);
}

/// Parameters of litellm's that it keeps for itself, unless they are those of somebody's own adapter.
#[test]
fn what_litellm_does_not_send_is_not_sent() {
    for name in [
        "input_cost_per_second",
        "output_cost_per_second",
        "output_cost_per_reasoning_token",
        "cache_read_input_token_cost_flex",
        "tpm",
        "rpm",
        "merge_reasoning_content_in_choices",
        "ensure_alternating_roles",
        "mock_response",
        "no-log",
        "weight",
        "_litellm_x",
    ] {
        let spec = format!("model.model_kwargs={}", json!({name: 1, "top_k": 3}));
        let mut config = Memory::new().resolve(&[&spec]).unwrap();
        let wire = WireKwargs::of(&config, &ModelChoice::default(), false);
        assert_eq!(Value::Object(wire.parameters), json!({name: 1, "top_k": 3}));
        assert!(wire.notes.is_empty(), "{:?}", wire.notes);
        for (mini, native) in [(false, true), (true, true), (true, false)] {
            config.mini = mini;
            let wire = WireKwargs::of(&config, &ModelChoice::default(), native);
            assert_eq!(Value::Object(wire.parameters), json!({"top_k": 3}));
            let [note] = wire.notes.as_slice() else {
                panic!("{name}: {:?}", wire.notes)
            };
            assert!(note.contains(name), "{note}");
        }
    }
}
