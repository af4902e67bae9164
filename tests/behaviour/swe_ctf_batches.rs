//! `sweagent run-batch` with challenges and with programs that stay open, by two workers, killed and called again.

use std::path::Path;
use std::time::{Duration, Instant};

use scripted_server::{Scenario, Server, Turn};
use serde_json::json;

use crate::enigma::marked;
use crate::host::{Host, Signal};
use crate::processes;
use crate::sweagent::read;

const CONFIG: &str = "agent:
  templates:
    instance_template: '{{name}}: {{description}} {{files}}'
    next_step_template: '{{observation}}|{{interactive_session}}'
  tools:
    bundles: [{path: tools/windowed}, {path: ./b/dummy}, {path: tools/submit_ctf}]
    env_variables: {WINDOW: 40, OVERLAP: 2}
  summarizer_config: {function: SimpleSummarizer, window_length: 50}
  model: {name: openai/m, api_key: k, per_instance_cost_limit: 0}
";

const MANIFEST: &str = r#"
tools:
  dummy_start: {}
  dummy_send:
    signature: dummy_send <line>
    arguments:
      - {name: line, type: string, required: true}
interactive_sessions:
  dummy:
    cmdline: "_repl"
    terminal_prompt_pattern: "(d) "
    start_command: dummy_start
    exit_command: dummy_stop
"#;

const REPL: &str = "#!/bin/bash\nwhile printf '(d) ' && read -r line; do n=$((n + 1)); echo \"$n $line in $(ls)\"; done\n";

const IDS: [&str; 3] = ["one", "two", "three"];

fn host() -> Host {
    let mut host = Host::new()
        .file("ctf.yaml", CONFIG)
        .file("b/dummy/config.yaml", MANIFEST)
        .file("b/dummy/bin/_repl", REPL)
        .file("b/dummy/bin/dummy_start", marked(&["START"]))
        .file("b/dummy/bin/dummy_send", marked(&["$1"]));
    let mut items = Vec::new();
    for id in IDS {
        let challenge = json!({"name": format!("C {id}"), "category": "misc", "description": "d",
            "flag": format!("flag{{{id}}}"), "files": [format!("{id}.txt")]});
        host = host
            .file(&format!("tasks/{id}/challenge.json"), challenge.to_string())
            .file(&format!("tasks/{id}/{id}.txt"), format!("{id}\n"));
        items.push(json!({
            "env": {"deployment": {"type": "local"}},
            "problem_statement": {"type": "ctf_json", "path": format!("tasks/{id}/challenge.json"), "id": id},
        }));
    }
    host.file("tasks.json", json!(items).to_string())
}

fn words(server: &Server) -> Vec<String> {
    let words = [
        "sweagent",
        "run-batch",
        "--config=ctf.yaml",
        "--instances.type=expert_file",
        "--instances.path=tasks.json",
        "--num_workers=2",
        "--output_dir=out",
        "--random_delay_multiplier=0",
    ];
    let base = format!("--agent.model.api_base={}", server.url());
    words
        .iter()
        .map(|&it| it.to_owned())
        .chain([base])
        .collect()
}

fn none_is_left(dir: &Path) {
    let end = Instant::now() + Duration::from_secs(10);
    while !processes::inside(dir).is_empty() {
        assert!(Instant::now() < end, "{:?}", processes::inside(dir));
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn challenges_of_a_batch_are_killed_and_begin_anew() {
    let host = host();
    let go = host.dir().join("go");
    // The second one waits until the file is there.
    let wait = format!(
        "if [ -e two.txt ] && [ ! -e '{0}' ]; then touch ../../../waits; sleep 600; fi; seq 60",
        go.display()
    );
    let bash = |command: &str| Turn::tool_call("bash", json!({ "command": command }));
    let server = Server::start(
        Scenario::new([
            Turn::tool_call("dummy_start", json!({})),
            Turn::tool_call("dummy_send", json!({"line": "hello"})),
            bash(&wait),
            Turn::tool_call("scroll_down", json!({})),
            Turn::tool_call("submit", json!({"flag": "flag{no}"})),
            bash("cat *.txt"),
            Turn::tool_call("dummy_send", json!({"line": "again"})),
            bash("f=$(echo *.txt); submit \"flag{${f%.txt}}\""),
        ])
        .by_history(),
    );
    let mut running = host.args(words(&server)).spawn();
    let dir = running.dir().to_owned();
    running.until_file("waits");
    running.until_file("out/one/one.traj");
    running.until_file("out/three/three.traj");
    let before = std::fs::read(dir.join("out/one/one.traj")).unwrap();
    running.signal(Signal::KILL);
    let killed = running.wait();
    none_is_left(&dir);
    assert!(!dir.join("out/two/two.traj").exists());
    std::fs::write(&go, "").unwrap();
    let again = Host::after(&killed).args(words(&server)).run().expect(0);
    assert_eq!(std::fs::read(dir.join("out/one/one.traj")).unwrap(), before);
    let preds = read(&dir.join("out/preds.json"));
    for id in IDS {
        let made = read(&dir.join(format!("out/{id}/{id}.traj")));
        assert_eq!(made["info"]["exit_status"], "submitted", "{again}");
        assert_eq!(made["info"]["submission"], format!("flag{{{id}}}"));
        assert_eq!(preds[id]["model_patch"], format!("flag{{{id}}}"));
        let steps = made["trajectory"].as_array().unwrap();
        let seen: Vec<&str> = steps
            .iter()
            .map(|step| step["observation"].as_str().unwrap())
            .collect();
        // Each has a program and files of its own.
        assert_eq!(seen[1], format!("1 hello in {id}.txt\n"));
        assert!(
            seen[2].starts_with("The output has 60 lines"),
            "{}",
            seen[2]
        );
        assert!(seen[3].contains("\n60:60\n"), "{}", seen[3]);
        assert!(seen[4].starts_with("This is not the flag."), "{}", seen[4]);
        assert_eq!(seen[5], format!("{id}\n"));
        assert_eq!(seen[6], format!("2 again in {id}.txt\n"));
        let asked = &made["history"][1]["content"];
        assert!(asked.as_str().unwrap().starts_with(&format!("C {id}: d ")));
    }
    let statuses = std::fs::read_to_string(dir.join("out/run_batch_exit_statuses.yaml")).unwrap();
    let (skipped, run) = (
        "  skipped (submitted):\n  - one\n  - three\n",
        "  submitted:\n  - two\n",
    );
    assert!(
        statuses.contains(skipped) && statuses.contains(run),
        "{statuses}"
    );
    none_is_left(&dir);
    // No file of the batch has a flag but those in which it was submitted.
    let journal = std::fs::read_to_string(dir.join("out/two/two.events.jsonl")).unwrap();
    let config = journal.lines().next().unwrap_or_default();
    assert!(!config.contains("flag{two}"), "{config}");
    // All once more.
    let redo = Host::after(&killed).args(words(&server));
    redo.arg("--redo_existing=true").run().expect(0);
    let preds = read(&dir.join("out/preds.json"));
    assert_eq!(preds["one"]["model_patch"], "flag{one}");
    assert!(dir.join("out/.redone").is_dir());
}

/// The directory stays locked between the first challenge that is put there and the work.
#[test]
fn no_other_call_works_in_the_directory_while_the_instances_are_read() {
    let host = host();
    // It accepts connections, and never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let api = format!("http://{}", silent.local_addr().unwrap());
    let tasks = std::fs::read_to_string(host.dir().join("tasks.json")).unwrap();
    let mut tasks: Vec<serde_json::Value> = serde_json::from_str(&tasks).unwrap();
    let both = json!([tasks.remove(0), {
        "env": {"deployment": {"type": "local"}},
        "problem_statement": {"type": "github", "github_url": "https://github.com/o/r/issues/5", "id": "later"},
    }]);
    let server = Server::start(Scenario::always(Turn::tool_call("submit", json!({}))));
    let mut reads = host
        .file("tasks.json", both.to_string())
        .env("GITHUB_API_URL", api)
        .args(words(&server))
        .spawn();
    reads.until_file("out/.challenges/one");
    let (_connection, _) = silent.accept().unwrap();
    let second = json!([tasks.remove(0)]);
    let second = Host::beside(&reads).file("tasks.json", second.to_string());
    let run = second.args(words(&server)).run().expect(2);
    run.says(&["another process works on", "/out`"]);
    assert!(server.requests().is_empty());
}
