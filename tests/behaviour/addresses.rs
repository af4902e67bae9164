//! Which key goes to which address, and over which connection: through the real binary, with
//! configs like those of mini-swe-agent's users.

use std::fs;
use std::path::Path;

use scripted_server::{Scenario, Server, Turn};

use crate::host::Host;
use crate::run::Run;
use crate::story::{submit, turns};

const OPENAI: &str = "sk-openai-0123456789abcdef";
const ANTHROPIC: &str = "sk-ant-0123456789abcdef";
const GIVEN: &str = "sk-given-0123456789abcdef";

/// A call with a config file of mini-swe-agent that has these indented lines under `model`. The file
/// is outside the run's folder.
fn mini(model: &str) -> Host {
    let host = Host::new();
    let path = host.home().join("m.yaml");
    let text = format!(
        "agent:\n  system_template: s\n  instance_template: '{{{{ task }}}}'\n  cost_limit: 0\n\
         model:\n{model}"
    );
    fs::write(&path, text).unwrap();
    host.arg("-c")
        .arg(path)
        .env("OPENAI_API_KEY", OPENAI)
        .env("ANTHROPIC_API_KEY", ANTHROPIC)
        .task("x")
}

/// The path and the two authentication headers of each request.
fn sent(server: &Server) -> Vec<(String, Option<String>, Option<String>)> {
    let requests = server.requests().into_iter();
    requests
        .map(|request| {
            let header = |name: &str| request.header(name).map(str::to_owned);
            (
                request.path.clone(),
                header("authorization"),
                header("x-api-key"),
            )
        })
        .collect()
}

/// Fails if the key is in anything that was printed or that is written below this folder.
#[track_caller]
fn keyless(run: &Run, folder: &Path, key: &str) {
    assert!(
        !run.stdout.contains(key) && !run.stderr.contains(key),
        "{run}"
    );
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let text = fs::read(&path).unwrap();
                let text = String::from_utf8_lossy(&text);
                assert!(!text.contains(key), "the key is in `{}`", path.display());
            }
        }
    }
}

#[test]
fn an_address_gets_no_key_of_another_provider_that_the_model_names() {
    let server = turns([]);
    let custom = format!(
        "  model_kwargs:\n    custom_llm_provider: openai\n    api_base: {}\n",
        server.url()
    );
    mini(&custom)
        .args(["-m", "anthropic/claude-x"])
        .run()
        .expect(0);
    let [(path, authorization, key)] = &sent(&server)[..] else {
        panic!("{:?}", sent(&server))
    };
    assert!(path.ends_with("/chat/completions"), "{path}");
    assert_eq!(authorization.as_deref(), Some(&*format!("Bearer {OPENAI}")));
    assert_eq!(*key, None);
    let body = server.requests()[0].json();
    assert_eq!(body["model"], "anthropic/claude-x");
    assert_eq!(body["custom_llm_provider"], serde_json::Value::Null);
}

#[test]
fn an_address_that_a_file_sets_for_its_own_model_gets_no_other_provider_s_key() {
    let server = Server::start(Scenario::commands(&[submit("never")]));
    let local = format!(
        "  model_name: openai/qwen\n  model_kwargs:\n    api_base: {}\n",
        server.url()
    );
    let typed = || mini(&local).args(["-m", "anthropic/claude-x"]);
    typed().run().expect(2).says(&[
        "the key `ANTHROPIC_API_KEY` is not sent there",
        "m.yaml:8",
        "--base-url",
    ]);
    assert_eq!(server.served(), 0);
    // A key is sent to an address that is set on the command line together with the model.
    typed().args(["--base-url", &server.url()]).run();
    assert_eq!(sent(&server)[0].2.as_deref(), Some(ANTHROPIC));
}

#[test]
fn an_address_in_the_settings_of_an_adapter_gets_the_key_that_is_named_there() {
    let server = turns([]);
    let base = format!("plugins.openai.config.base_url={}", server.url());
    let host = || {
        Host::new()
            .args(["-m", "groq/x", "-l", "0", "-c", &base])
            .env("GROQ_API_KEY", OPENAI)
            .task("x")
    };
    host().run().expect(2).says(&[
        "the key of `groq` is not sent there",
        "`plugins.openai.config.api_key=NAME`",
    ]);
    assert_eq!(server.served(), 0);
    host()
        .args(["-c", "plugins.openai.config.api_key="])
        .run()
        .expect(0);
    assert_eq!(sent(&server)[0].1, None);
}

#[test]
fn a_key_is_sent_over_plain_http_within_the_users_own_network() {
    let server = turns([]);
    // The system connects `0.0.0.0` to this machine, but the host does not treat it as this machine.
    let near = server.url().replace("127.0.0.1", "0.0.0.0");
    let run = Host::new()
        .args(["-m", "openai/qwen", "--base-url", &near])
        .env("OPENAI_API_KEY", OPENAI)
        .task("x")
        .run()
        .expect(0)
        .says(&["`OPENAI_API_KEY` is sent to `0.0.0.0` over plain http"]);
    let bearer = format!("Bearer {OPENAI}");
    assert_eq!(sent(&server)[0].1.as_deref(), Some(&*bearer));
    assert_eq!(run.stderr.matches("over plain http").count(), 1, "{run}");

    let far = || {
        Host::new()
            .args([
                "-m",
                "openai/qwen",
                "--base-url",
                "http://far.invalid:8000/v1",
            ])
            .args(["-c", "model.network_retries=0"])
            .task("x")
    };
    let allow = "-c 'model.plain_http_hosts=[\"far.invalid:8000\"]'";
    far()
        .env("OPENAI_API_KEY", OPENAI)
        .run()
        .expect(5)
        .says(&["is not sent to `far.invalid:8000` over plain http", allow]);
    // Keys are sent to hosts that the user allows, and placeholders are sent to any host.
    let allowed = far()
        .args(["-c", "model.plain_http_hosts=[\"far.invalid:8000\"]"])
        .env("OPENAI_API_KEY", OPENAI)
        .run();
    assert!(!allowed.stderr.contains("is not sent"), "{allowed}");
    assert!(allowed.stderr.contains("far.invalid"), "{allowed}");
    for placeholder in ["EMPTY", "dummy", "none", "sk-no-key-required", ""] {
        let run = far().env("OPENAI_API_KEY", placeholder).run();
        assert!(!run.stderr.contains("over plain http"), "{run}");
        assert!(!run.stderr.contains("no API key"), "{run}");
    }
}

#[test]
fn a_key_in_a_file_of_mini_is_sent_and_not_written_down() {
    let echo = Turn::error(401, "invalid_api_key", &format!("wrong API key: {GIVEN}"));
    for (arguments, turn, status) in [
        (&[][..], None, 0),
        (&["-vv"], None, 0),
        (&["--json"], None, 0),
        (&[], Some(echo), 5),
    ] {
        let server = turns(turn);
        let lines = format!(
            "  model_name: openai/qwen\n  model_kwargs:\n    api_base: {}\n    api_key: {GIVEN}\n",
            server.url()
        );
        let host = mini(&lines).args(arguments);
        let folder = host.dir();
        let run = host.run();
        let run = run.expect(status);
        let bearer = format!("Bearer {GIVEN}");
        assert_eq!(sent(&server)[0].1.as_deref(), Some(&*bearer));
        keyless(&run, &folder, GIVEN);
        if arguments.is_empty() {
            let told = run.stderr.matches("holds a key").count();
            assert_eq!(told, 1, "{run}");
            assert!(run.stderr.contains("`model.api_key_env`"), "{run}");
        }
    }
    let host = mini(&format!("  model_kwargs: {{api_key: {GIVEN}}}\n"));
    let path = host.home().join("m.yaml");
    let run = Host::new()
        .args(["config", "show", "--origin", "-c"])
        .arg(path)
        .run()
        .expect(0);
    assert!(!run.stdout.contains(GIVEN), "{run}");
    assert!(run.stdout.contains("[redacted]"), "{run}");
}

#[test]
fn a_placeholder_in_a_file_of_mini_is_sent_as_it_is() {
    let server = turns([]);
    let lines = format!(
        "  model_name: openai/qwen\n  model_kwargs:\n    api_base: {}\n    api_key: EMPTY\n",
        server.url()
    );
    let run = mini(&lines).run().expect(0);
    assert_eq!(sent(&server)[0].1.as_deref(), Some("Bearer EMPTY"));
    assert!(!run.stderr.contains("holds a key"), "{run}");
}

#[test]
fn a_key_in_a_toml_file_is_refused() {
    Host::new()
        .file(
            "c.toml",
            format!("[model.model_kwargs]\napi_key = \"{GIVEN}\"\n"),
        )
        .args(["-m", "openai/x", "-c", "c.toml"])
        .task("x")
        .run()
        .expect(2)
        .says(&[
            "holds a key: only the name of a key may be set here",
            "c.toml:2",
        ]);
}

#[test]
fn gateways_and_local_servers_need_no_key() {
    for prefix in ["litellm_proxy", "custom_openai", "hosted_vllm"] {
        let server = turns([]);
        Host::new()
            .args(["-l", "0", "-m", &format!("{prefix}/claude-x")])
            .args(["--base-url", &server.url()])
            .env("OPENAI_API_KEY", OPENAI)
            .task("x")
            .run()
            .expect(0);
        assert_eq!(sent(&server)[0].1, None, "{prefix}");
        // litellm leaves the cache marks out for `hosted_vllm` only.
        let body = server.requests()[0].json().to_string();
        let marked = body.contains("cache_control");
        assert_eq!(marked, prefix != "hosted_vllm", "{prefix}: {body}");
    }
}

#[test]
fn an_optional_key_is_read_from_the_secrets_file() {
    let server = turns([]);
    let host = Host::new().file("secrets", format!("LITELLM_PROXY_API_KEY={GIVEN}\n"));
    let path = host.dir().join("secrets");
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    fs::set_permissions(&path, private).unwrap();
    host.args([
        "-l",
        "0",
        "-m",
        "litellm_proxy/m",
        "--base-url",
        &server.url(),
    ])
    .args(["-c", &format!("model.secrets_file={}", path.display())])
    .task("x")
    .run()
    .expect(0);
    let bearer = format!("Bearer {GIVEN}");
    assert_eq!(sent(&server)[0].1.as_deref(), Some(&*bearer));
}

#[test]
fn prices_show_needs_no_address() {
    let run = Host::new()
        .args(["prices", "show", "hosted_vllm/no-such-model"])
        .run();
    assert!(!run.stderr.contains("base URL"), "{run}");
    run.says(&["no price is known for `hosted_vllm/no-such-model`"]);
}

#[test]
fn ssl_verify_names_the_certificates_to_trust() {
    let lines = |file: &str| {
        format!(
            "  model_name: openai/qwen\n  model_kwargs:\n    api_base: https://127.0.0.1:9/v1\n    \
             ssl_verify: {file}\n"
        )
    };
    let impatient = ["-c", "model.network_retries=0"];
    mini(&lines("ca.pem"))
        .args(impatient)
        .run()
        .expect(2)
        .says(&["`model.model_kwargs.ssl_verify` names no file: `ca.pem`"]);
    mini(&lines("ca.pem"))
        .file("ca.pem", "no certificate")
        .args(impatient)
        .run()
        .expect(5)
        .says(&["no usable certificate"]);
    let run = mini(&lines("false")).args(impatient).run();
    assert!(!run.stderr.contains("no usable certificate"), "{run}");
    run.says(&["certificate is always checked"]);
}

#[test]
fn portkey_gets_the_headers_that_its_own_client_sends() {
    let compliance = "x-portkey-strict-open-ai-compliance";
    for (virtual_key, provider) in [(Some("v-0123456789"), None), (None, Some("@openai"))] {
        let server = turns([]);
        let mut host = mini("  model_class: portkey\n  provider: '@openai'\n")
            .args(["-m", "m", "-c", "model.cost_tracking=ignore_errors"])
            .env("PORTKEY_API_BASE", server.url())
            .env("PORTKEY_API_KEY", GIVEN);
        if let Some(key) = virtual_key {
            host = host.env("PORTKEY_VIRTUAL_KEY", key);
        }
        host.run().expect(0);
        let request = &server.requests()[0];
        for (name, value) in [
            ("x-portkey-api-key", Some(GIVEN)),
            ("x-portkey-virtual-key", virtual_key),
            ("x-portkey-provider", provider),
            (compliance, Some("false")),
        ] {
            assert_eq!(request.header(name), value, "{name}");
        }
    }
}
