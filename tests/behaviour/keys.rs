//! Keys: where they are read, where they are sent, and that they are neither printed nor written.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use scripted_server::{Scenario, Server, Turn};

use crate::host::Host;
use crate::run::Run;
use crate::story::{submit, turns};

const KEY: &str = "sk-test-0123456789abcdef";

/// Prints the places where a command could find a key: its environment and its folder.
const LOOK: &str = "env; export; tr '\\0' '\\n' < /proc/self/environ; ls -la; true";

fn openai(server: &Server) -> Host {
    Host::new()
        .args(["-m", "openai/gpt-test", "--base-url", &server.url()])
        .task("x")
}

/// Fails if the key is in anything that the run has printed or written.
#[track_caller]
fn keyless(run: &Run) {
    assert!(
        !run.stdout.contains(KEY) && !run.stderr.contains(KEY),
        "{run}"
    );
    let mut folders = vec![run.dir.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.file_name() != Some("secrets".as_ref()) {
                let text = fs::read(&path).unwrap();
                let text = String::from_utf8_lossy(&text);
                assert!(!text.contains(KEY), "the key is in `{}`", path.display());
            }
        }
    }
}

#[track_caller]
fn sent(server: &Server) -> Vec<Option<String>> {
    let requests = server.requests();
    requests
        .iter()
        .map(|request| request.header("authorization").map(str::to_owned))
        .collect()
}

fn secrets(host: Host, mode: u32) -> Host {
    let host = host.file("secrets", format!("# keys\nOPENAI_API_KEY={KEY}\n"));
    let path = host.dir().join("secrets");
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    let spec = format!("model.secrets_file={}", path.display());
    host.args(["-c", &spec])
}

#[test]
fn a_key_is_sent_and_not_written_down() {
    let bearer = Some(format!("Bearer {KEY}"));
    for arguments in [&[][..], &["--json"], &["-vv"]] {
        let server = turns([Turn::commands(&[LOOK])]);
        let run = openai(&server)
            .env("OPENAI_API_KEY", KEY)
            .args(arguments)
            .run()
            .expect(0);
        assert_eq!(sent(&server), [bearer.clone(), bearer.clone()]);
        keyless(&run);
        let output = run.events("output")[0]["output"]["output"]
            .as_str()
            .unwrap()
            .to_owned();
        assert!(output.contains("MSWEA_RUN_ID="), "{output}");
        assert!(!output.contains("OPENAI_API_KEY"), "{output}");
    }
    let server = turns([Turn::commands(&[LOOK])]);
    let run = secrets(openai(&server), 0o600).run().expect(0);
    assert_eq!(sent(&server), [bearer.clone(), bearer]);
    keyless(&run);
}

#[test]
fn a_local_model_is_sent_no_key() {
    let server = turns([]);
    let run = Host::new()
        .server(&server)
        .task("x")
        .env("OPENAI_API_KEY", KEY)
        .run()
        .expect(0);
    assert_eq!(sent(&server), [None]);
    keyless(&run);
}

#[test]
fn a_missing_empty_or_readable_key_is_not_sent() {
    let server = Server::start(Scenario::commands(&[submit("never")]));
    openai(&server).run().expect(5).says(&[
        "no API key",
        "set the environment variable `OPENAI_API_KEY`",
    ]);
    openai(&server)
        .env("OPENAI_API_KEY", " ")
        .run()
        .expect(5)
        .says(&["`OPENAI_API_KEY`"]);
    let run = secrets(openai(&server), 0o644).run().expect(5);
    keyless(&run);
    let run = run.says(&["can be read by others (mode 0644)", "chmod 600"]);
    // The run had begun, so there is a trajectory.
    assert_eq!(run.trajectory()["messages"].as_array().unwrap().len(), 3);
    assert_eq!(server.served(), 0);
}

#[test]
fn a_key_in_an_error_of_the_server_is_not_printed() {
    let error = Turn::error(401, "invalid_api_key", &format!("wrong API key: {KEY}"));
    let server = Server::start(Scenario::always(error));
    for arguments in [&[][..], &["--json"]] {
        let host = openai(&server).env("OPENAI_API_KEY", KEY).args(arguments);
        let run = host.run().expect(5).says(&["`OPENAI_API_KEY`"]);
        keyless(&run);
        assert_eq!(run.exit_status(), "AuthenticationError");
    }
}

#[test]
fn a_key_goes_to_no_other_host() {
    let elsewhere = Server::start(Scenario::commands(&[submit("stolen")]));
    let target = format!("{}/chat/completions", elsewhere.url()).replace("127.0.0.1", "localhost");
    let server = Server::start(Scenario::always(Turn::redirect(&target).with_status(307)));
    let run = openai(&server)
        .env("OPENAI_API_KEY", KEY)
        .run()
        .expect(5)
        .says(&["localhost"]);
    assert_eq!(elsewhere.served(), 0, "{run}");
    assert!(Path::new(&run.dir).join("traj.json").is_file());
    keyless(&run);
}

#[test]
fn the_env_file_of_mini_swe_agent_is_read() {
    let server = turns([Turn::commands(&[LOOK])]);
    let host = Host::new();
    let folder = host.home().join(".config/mini-swe-agent");
    fs::create_dir_all(&folder).unwrap();
    let text = format!(
        "OPENAI_API_KEY='{KEY}'\nMSWEA_MODEL_NAME='openai/gpt-test'\nnonsense\nMSWEA_COST_TRACKING='ignore_errors'\n"
    );
    fs::write(folder.join(".env"), text).unwrap();
    let run = host
        .args(["--base-url", &server.url()])
        .env("MSWEA_COST_TRACKING", "default")
        .task("x")
        .run()
        .expect(0)
        .says(&["warning: ", ".env:3: no `NAME=value`"]);
    let bearer = Some(format!("Bearer {KEY}"));
    assert_eq!(sent(&server), [bearer.clone(), bearer]);
    keyless(&run);
}

#[test]
fn a_server_of_the_users_needs_no_price() {
    let server = turns([]);
    let entry = format!("providers.mine={{\"base_url\": \"{}\"}}", server.url());
    let own = |arguments: &[&str]| Host::new().args(arguments).task("x");
    own(&["-m", "mine/x", "-c", &entry]).run().expect(0);
    let other = turns([]);
    own(&["-m", "openai/qwen"])
        .env("OPENAI_BASE_URL", other.url())
        .env("OPENAI_API_KEY", KEY)
        .run()
        .expect(0);
    // With a cost limit, the run is refused.
    own(&["-m", "mine/x", "-c", &entry, "-l", "1"])
        .run()
        .expect(2)
        .says(&["the price of the model `mine/x` is unknown"]);
}
