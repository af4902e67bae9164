//! Keys: where they are read, where they are sent, and that they are neither printed nor written.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use scripted_server::{Scenario, Server, Turn};
use serde_json::{Value, json};

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

/// The key as others may write it: in base64 after 0 to 2 bytes and in an `Authorization` line, in a URL, in JSON, in digits.
fn spelled() -> Vec<String> {
    use base64::Engine as _;
    let base64 = |text: String| base64::prelude::BASE64_STANDARD.encode(text);
    let mut all: Vec<String> = ["", "a", "ab", "Bearer "]
        .iter()
        .map(|before| base64(format!("{before}{KEY}")))
        .collect();
    all.push(KEY.to_owned());
    all.push(KEY.replace('-', "%2D"));
    all.push(KEY.replace('-', "\\u002d"));
    all.push(KEY.bytes().map(|byte| format!("{byte:02x}")).collect());
    all
}

/// Fails if a spelling of the key, or what it has in base64 whatever is before it, is in this text.
#[track_caller]
fn unspelled(text: &str, place: &str) {
    for spelling in spelled() {
        // The first and the last letters may depend on the neighbours.
        let middle = &spelling[4..spelling.len() - 4];
        assert!(!text.contains(middle), "`{middle}` is in {place}");
    }
}

#[test]
fn a_key_that_a_server_sends_back_is_masked_whatever_field_it_is_in() {
    for spelling in spelled() {
        let message = json!({
            "role": "assistant",
            "content": format!("it is {spelling}"),
            "reasoning_content": spelling,
            "tool_calls": [{"id": spelling, "type": "function", "function": {
                "name": "bash", "arguments": json!({"command": format!("echo {spelling}")}).to_string(),
            }}],
            "odd": {(spelling.as_str()): [spelling]},
        });
        let body = json!({"id": spelling, "model": spelling, "object": "chat.completion", "system_fingerprint": spelling,
            "choices": [{"index": 0, "finish_reason": spelling, "message": message}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, (spelling.as_str()): 1}});
        let server = turns([
            Turn::status(200).with_body(body),
            Turn::error(500, &spelling, &format!("you sent {spelling}!")),
            Turn::error(400, &spelling, &format!("you sent {spelling}!")),
        ]);
        let run = openai(&server)
            .env("OPENAI_API_KEY", KEY)
            .args([
                "-o",
                "traj.json",
                "--atif",
                "a.json",
                "-c",
                "model.stream=false",
            ])
            .args(["-c", "model.retry_wait=0.01"])
            .run();
        for (text, place) in [(&run.stdout, "stdout"), (&run.stderr, "stderr")] {
            unspelled(text, place);
        }
        for name in ["traj.json", "traj.events.jsonl", "a.json"] {
            let text = fs::read_to_string(run.dir.join(name)).unwrap();
            unspelled(&text, name);
        }
        assert!(
            run.events("reply")[0]
                .to_string()
                .contains("[OPENAI_API_KEY]"),
            "{run}"
        );
    }
}

#[test]
fn a_key_that_a_server_sends_back_in_pieces_is_not_shown() {
    // Text, reasoning and arguments by turns, each piece as an event of its own.
    let turn = |pieces: &[&str]| {
        let arguments = format!("{{\"command\": \"echo {KEY}\"}}");
        let (head, rest) = arguments.split_once(KEY).unwrap();
        let call = |arguments: &str| json!({"tool_calls": [{"index": 0, "function": {"arguments": arguments}}]});
        let mut deltas = vec![
            json!({"tool_calls": [{"index": 0, "id": "c", "type": "function",
                "function": {"name": "bash", "arguments": head}}]}),
            json!({"content": "it is "}),
        ];
        for piece in pieces {
            deltas.push(json!({ "content": piece }));
            deltas.push(json!({ "reasoning_content": piece }));
            deltas.push(call(piece));
        }
        deltas.push(call(rest));
        let chunk = |delta| json!({"choices": [{"index": 0, "delta": delta}]});
        let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]});
        let chunks = deltas.into_iter().map(chunk).chain([end]);
        let events: String = chunks.map(|chunk| format!("data: {chunk}\n\n")).collect();
        let mut turn = Turn::status(200)
            .with_header("content-type", "text/event-stream")
            .with_body(format!("{events}data: [DONE]\n\n"));
        turn.chunk_delay_ms = 5;
        turn
    };
    let letters: Vec<String> = KEY.chars().map(String::from).collect();
    let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
    let splits = (1..KEY.len()).map(|at| turn(&[&KEY[..at], &KEY[at..]]));
    let server = turns(splits.chain([turn(&letters)]));
    let run = openai(&server).env("OPENAI_API_KEY", KEY);
    let run = run.args(["--json", "-y"]).run().expect(0);
    let lines = run
        .stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut shown = [String::new(), String::new(), String::new()];
    for line in lines {
        if line["type"] == "delta" {
            let kinds = ["text", "reasoning", "tool-call"];
            let kind = kinds.iter().position(|kind| line["kind"] == *kind).unwrap();
            shown[kind].push_str(line["text"].as_str().unwrap());
        }
    }
    for text in &shown {
        assert!(!text.contains("0123456789"), "{shown:?}");
        assert!(
            text.matches("[OPENAI_API_KEY]").count() == KEY.len(),
            "{text}"
        );
    }
    keyless(&run);
}

#[test]
fn exports_mask_keys_in_whole_documents() {
    // A record of an earlier version, which had the key in fields that no list names.
    let server = turns([Turn::commands(&["true"])]);
    let run = openai(&server)
        .env("OPENAI_API_KEY", "sk-other-0123456789")
        .args(["-o", "traj.json", "-c", "model.stream=false"])
        .run()
        .expect(0);
    let journal = run.dir.join("traj.events.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    let reply = &run.events("reply")[0]["reply"];
    let mut told = text;
    let call = reply["message"]["tool_calls"][0]["id"].as_str();
    let model = reply["model"].as_str().filter(|it| !it.is_empty());
    let finish = reply["finish_reason"].as_str().filter(|it| !it.is_empty());
    for value in [call, model, finish].into_iter().flatten() {
        told = told.replace(&format!("\"{value}\""), &format!("\"{KEY}\""));
    }
    assert!(told.contains(KEY), "{run}");
    fs::write(&journal, told).unwrap();
    for format in ["html", "md", "jsonl", "asciinema", "swe-agent", "atif"] {
        let export = Host::after(&run)
            .env("OPENAI_API_KEY", KEY)
            .args(["export", "traj.events.jsonl", "--to", format])
            .run()
            .expect(0);
        unspelled(&export.stdout, format);
    }
}

#[test]
fn without_a_home_the_state_is_in_a_folder_of_the_users() {
    use std::os::unix::fs::{MetadataExt as _, symlink};
    let server = turns([]);
    let homeless = |host: Host| {
        let temporary = host.root.path().join("tmp");
        let host = host.env_remove("HOME").env_remove("XDG_STATE_HOME");
        let host = host.args(["-m", "local/x", "--base-url", &server.url(), "-t", "x"]);
        (
            host,
            temporary.join(format!(
                "mswea-host-{}",
                rustix::process::geteuid().as_raw()
            )),
        )
    };
    let (host, folder) = homeless(Host::new());
    let run = host.run().expect(0);
    assert_eq!(
        fs::metadata(&folder).unwrap().mode() & 0o7777,
        0o700,
        "{run}"
    );
    assert!(
        fs::read_dir(folder.join("runs")).unwrap().count() >= 2,
        "{run}"
    );
    // Another user may have made it first.
    for make in [
        (|path: &Path| {
            fs::create_dir(path).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
        }) as fn(&Path),
        |path| symlink("/var/tmp", path).unwrap(),
        |path| fs::write(path, "").unwrap(),
    ] {
        let (host, folder) = homeless(Host::new());
        make(&folder);
        let run = host
            .run()
            .expect(2)
            .says(&["mswea-host-", "set `HOME` or `XDG_STATE_HOME`"]);
        assert!(!folder.join("runs").exists(), "{run}");
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
