//! `sweagent`: SWE-agent's flags and files.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use scripted_server::{Scenario, Server, Turn};
use serde_json::{Value, json};

use crate::host::Host;

/// A repository with one file, below the host's folder.
fn repository(host: &Host) -> PathBuf {
    let repo = host.dir().join("repo");
    fs::create_dir(&repo).unwrap();
    fs::write(repo.join("a.txt"), "one\n").unwrap();
    for arguments in [
        &["init", "-q"][..],
        &["add", "."],
        &[
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b",
            "commit",
            "-q",
            "-m",
            "first",
        ],
    ] {
        let done = Command::new("git")
            .current_dir(&repo)
            .args(arguments)
            .status();
        assert!(done.unwrap().success());
    }
    repo
}

fn server(calls: &[(&str, Value)]) -> Server {
    let turns = calls
        .iter()
        .map(|(name, arguments)| Turn::tool_call(name, arguments.clone()));
    Server::start(Scenario::new(turns.collect::<Vec<_>>()))
}

fn read(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    serde_json::from_str(&text).unwrap()
}

const CONFIG: &str = "
agent:
  templates:
    system_template: '{{command_docs}}'
    instance_template: 'Do: {{problem_statement}} ({{points}} points) in {{working_dir}}'
    next_step_template: 'saw {{observation}}'
  tools:
    bundles:
      - path: tools/registry
      - path: tools/edit_anthropic
      - path: tools/submit
  history_processors:
    - {type: cache_control, last_n_messages: 2}
";

fn run(server: &Server, more: &[&str]) -> Vec<String> {
    let mut words = vec![
        "sweagent".to_owned(),
        "run".to_owned(),
        "--config=mine.yaml".to_owned(),
        "--agent.model.name=openai/m".to_owned(),
        format!("--agent.model.api_base={}", server.url()),
        "--agent.model.api_key=$SOME_KEY".to_owned(),
        "--agent.model.per_instance_cost_limit=0".to_owned(),
        "--env.deployment.type=local".to_owned(),
        "--problem_statement.text=fix it".to_owned(),
        "--problem_statement.id=o__r-1".to_owned(),
        "--problem_statement.extra_fields.points=7".to_owned(),
    ];
    words.extend(more.iter().map(|word| (*word).to_owned()));
    words
}

#[test]
fn a_run_leaves_the_files_of_swe_agent_and_can_be_replayed() {
    let server = server(&[
        ("bash", json!({"command": "echo two >>a.txt; cat a.txt"})),
        ("nothing", json!({})),
        ("bash", json!({"command": "vim"})),
        ("submit", json!({})),
    ]);
    let host = Host::new()
        .file("mine.yaml", CONFIG)
        .env("SOME_KEY", "k")
        .env("USER", "me");
    let repo = repository(&host);
    let done = host
        .args(run(
            &server,
            &["--env.repo.path=repo", "--actions.apply_patch_locally=true"],
        ))
        .run()
        .expect(0);
    let name = "mine__openai--m__t-0.00__p-1.00__c-0.00___o__r-1";
    let folder = done.dir.join("trajectories/me").join(name).join("o__r-1");
    let made = read(&folder.join("o__r-1.traj"));
    let patch = made["info"]["submission"].as_str().unwrap();
    assert!(patch.contains("+two\n"), "{patch}");
    assert_eq!(made["info"]["exit_status"], "submitted");
    assert_eq!(made["info"]["model_stats"]["api_calls"], 4);
    let steps: Vec<(&str, &str)> = made["trajectory"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| {
            (
                step["action"].as_str().unwrap(),
                step["observation"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        steps,
        [
            ("echo two >>a.txt; cat a.txt", "one\ntwo\n"),
            ("", ""),
            ("vim", ""),
            ("submit", patch)
        ]
    );
    // The two unusable replies are in the trajectory and not in the history.
    let kinds: Vec<&str> = made["history"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["message_type"].as_str().unwrap())
        .collect();
    assert_eq!(
        kinds,
        [
            "system_prompt",
            "observation",
            "action",
            "observation",
            "action",
            "observation"
        ]
    );
    assert_eq!(made["history"][3]["content"], "saw one\ntwo\n");
    let instance = made["history"][1]["content"].as_str().unwrap();
    assert!(
        instance.starts_with("Do: fix it (7 points) in /"),
        "{instance}"
    );
    assert_eq!(
        read(&folder.join("o__r-1.pred")),
        json!({"model_name_or_path": name, "instance_id": "o__r-1", "model_patch": patch})
    );
    assert_eq!(
        fs::read_to_string(folder.join("o__r-1.patch")).unwrap(),
        patch
    );
    assert_eq!(
        fs::read_to_string(repo.join("a.txt")).unwrap(),
        "one\ntwo\n"
    );
    let config = read(&folder.join("config.yaml"));
    assert_eq!(config["problem_statement"]["id"], "o__r-1");
    let request: Value = serde_json::from_slice(&server.requests()[0].body).unwrap();
    assert_eq!(request["temperature"], 0.0);

    let counted = Host::after(&done)
        .args(["sweagent", "quick-stats"])
        .run()
        .expect(0);
    assert!(
        counted.stdout.contains("## `submitted`"),
        "{}",
        counted.stdout
    );
    let merged = Host::after(&done);
    merged
        .args(["sweagent", "merge-preds", "trajectories"])
        .run()
        .expect(0);
    assert_eq!(
        read(&done.dir.join("trajectories/preds.json"))["o__r-1"]["model_patch"],
        patch
    );

    // Without a server: the actions are done again.
    let clean = Command::new("git")
        .current_dir(&repo)
        .args(["checkout", "-q", "."])
        .status();
    assert!(clean.unwrap().success());
    let traj = folder.join("o__r-1.traj").display().to_string();
    Host::after(&done)
        .env("USER", "me")
        .args([
            "sweagent",
            "run-replay",
            "--traj_path",
            &traj,
            "--deployment.type=local",
        ])
        .run()
        .expect(0);
    let again = done
        .dir
        .join("trajectories/me/replay___o__r-1/o__r-1/o__r-1.traj");
    assert_eq!(read(&again)["info"]["submission"], patch);
}

#[test]
fn what_is_wrong_is_named_before_a_run_begins() {
    let server = server(&[("submit", json!({}))]);
    for (more, parts) in [
        (
            &["--agent.tools.bundels=[]"][..],
            &[
                "`--agent.tools.bundels`",
                "did you mean `agent.tools.bundles`?",
            ][..],
        ),
        (
            &["--env.deployment.type=modal"],
            &["`modal`", "use the deployment `remote`"],
        ),
        (&["--actions.open_pr=true"], &["`actions.open_pr`"]),
        (
            &["--env.repo.path=repo"],
            &["changes that are not committed"],
        ),
        (&["--problem_statement.path=x"], &["`text` and `path`"]),
    ] {
        let host = Host::new().file("mine.yaml", CONFIG).env("SOME_KEY", "k");
        let repo = repository(&host);
        fs::write(repo.join("b.txt"), "new").unwrap();
        let run = host.args(run(&server, more)).run().expect(2);
        for part in parts {
            assert!(run.stderr.contains(part), "{more:?}: {}", run.stderr);
        }
    }
    assert!(server.requests().is_empty());
}

/// Answers one request with this JSON, and returns the address and the head of the request.
fn answering(status: &'static str, body: Value) -> (String, thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answer = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = String::new();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        while !head.ends_with("\r\n\r\n") {
            assert!(reader.read_line(&mut head).unwrap() > 0);
        }
        let body = body.to_string();
        let length = body.len();
        write!(
            stream,
            "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        )
        .unwrap();
        head
    });
    (url, answer)
}

#[test]
fn an_issue_is_read_over_the_api() {
    let server = server(&[("submit", json!({}))]);
    let host = || {
        Host::new()
            .file("mine.yaml", CONFIG)
            .env("SOME_KEY", "k")
            .env("USER", "me")
    };
    let address = "--problem_statement.github_url=https://github.com/o/r/issues/5";
    let words = || {
        let all = run(&server, &[address, "--env.repo.path=repo"]).into_iter();
        all.filter(|word| !word.contains("statement.text") && !word.contains("statement.id"))
    };
    let issue = json!({"title": "It is slow", "body": "Make it fast."});
    let (url, asked) = answering("200 OK", issue);
    let first = host();
    repository(&first);
    let done = first
        .env("GITHUB_API_URL", &url)
        .env("GITHUB_TOKEN", "secret")
        .args(words())
        .run()
        .expect(0);
    let head = asked.join().unwrap().to_lowercase();
    assert!(head.starts_with("get /repos/o/r/issues/5 "), "{head}");
    assert!(head.contains("authorization: bearer secret"), "{head}");
    let name =
        "trajectories/me/mine__openai--m__t-0.00__p-1.00__c-0.00___o__r-i5/o__r-i5/o__r-i5.traj";
    let made = read(&done.dir.join(name));
    let instance = made["history"][1]["content"].as_str().unwrap();
    assert!(
        instance.contains("It is slow\nMake it fast.\n"),
        "{instance}"
    );
    // A submission without changes is one.
    assert_eq!(made["info"]["exit_status"], "submitted");
    assert_eq!(made["info"]["submission"], Value::Null);

    let (url, asked) = answering("404 Not Found", json!({}));
    let second = host();
    repository(&second);
    let refused = second
        .env("GITHUB_API_URL", &url)
        .args(words())
        .run()
        .expect(2);
    asked.join().unwrap();
    for part in ["answers 404 for the issue `o/r#5`", "set `GITHUB_TOKEN`"] {
        assert!(refused.stderr.contains(part), "{}", refused.stderr);
    }
}
