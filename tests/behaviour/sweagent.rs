//! `sweagent`: SWE-agent's flags and files.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use scripted_server::{Scenario, Server, Turn};
use serde_json::{Value, json};

use crate::host::{Host, nobody};

/// A repository with one file, below the host's folder.
pub(crate) fn repository(host: &Host) -> PathBuf {
    repository_named(host, "repo")
}

pub(crate) fn repository_named(host: &Host, name: &str) -> PathBuf {
    let repo = host.dir().join(name);
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

pub(crate) fn read(path: &Path) -> Value {
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
        (
            &["--actions.open_pr=true"],
            &["`actions.open_pr` needs an issue"],
        ),
        (
            &["--env.repo.path=repo"],
            &["changes that are not committed"],
        ),
        (&["--problem_statement.path=x"], &["`text` and `path`"]),
    ] {
        let host = Host::new().file("mine.yaml", CONFIG).env("SOME_KEY", "k");
        let repo = repository(&host);
        fs::write(repo.join("a.txt"), "changed\n").unwrap();
        let run = host.args(run(&server, more)).run().expect(2);
        for part in parts {
            assert!(run.stderr.contains(part), "{more:?}: {}", run.stderr);
        }
    }
    assert!(server.requests().is_empty());
}

#[test]
fn a_retry_names_a_key_of_this_command() {
    let free = nobody();
    let server = server(&[("submit", json!({}))]);
    let address = format!("--agent.model.api_base=http://{free}/v1");
    let more = [
        &address,
        "--agent.model.retry.retries=2",
        "--agent.model.retry.min_wait=0.01",
    ];
    let host = Host::new().file("mine.yaml", CONFIG).env("SOME_KEY", "k");
    let done = host.args(run(&server, &more)).run();
    assert!(!done.stderr.contains("--base-url"), "{done}");
    let named = done
        .stderr
        .matches("check `--agent.model.api_base`")
        .count();
    assert!(named >= 2, "{done}");
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

#[test]
fn a_batch_leaves_the_files_of_swe_agent_and_goes_on() {
    let server = server(&[
        ("bash", json!({"command": "echo two >>a.txt"})),
        ("submit", json!({})),
        ("bash", json!({"command": "exit"})),
        ("submit", json!({})),
        // Of the later calls.
        ("submit", json!({})),
        ("submit", json!({})),
        ("submit", json!({})),
        ("submit", json!({})),
        ("submit", json!({})),
        ("submit", json!({})),
    ]);
    let ids = ["o__r-1", "two", "o__r-3"];
    let lines = ids.map(|id| {
        let fields = json!({"instance_id": id, "problem_statement": format!("fix {id}"),
            "repo_name": "./repo", "extra_fields": {"points": id.len()}});
        fields.to_string()
    });
    let words = |more: &[&str]| {
        let mut words = vec!["sweagent".to_owned(), "run-batch".to_owned()];
        let of_agent = |word: &String| !word.starts_with("--problem") && !word.starts_with("--env");
        words.extend(run(&server, more).into_iter().skip(2).filter(of_agent));
        words.push("--instances.deployment.type=local".to_owned());
        words.push("--instances.path=tasks.jsonl".to_owned());
        words
    };
    let called = |host: Host, more: &[&str]| {
        let host = host.env("SOME_KEY", "k1:::k2").env("USER", "me");
        host.args(words(more)).run()
    };
    let host = Host::new()
        .file("mine.yaml", CONFIG)
        .file("tasks.jsonl", lines.join("\n"));
    repository(&host);
    let first = called(host, &[]).expect(0);
    let name = "mine__openai--m__t-0.00__p-1.00__c-0.00___tasks";
    let folder = first.dir.join("trajectories/me").join(name);
    let file = |id: &str, suffix: &str| folder.join(id).join(format!("{id}.{suffix}"));
    for (id, status) in ids
        .into_iter()
        .zip(["submitted", "exit_command", "submitted"])
    {
        let made = read(&file(id, "traj"));
        assert_eq!(made["info"]["exit_status"], status, "{id}");
        let asked = made["history"][1]["content"].as_str().unwrap();
        let begins = format!("Do: fix {id} ({} points) in /", id.len());
        assert!(asked.starts_with(&begins), "{asked}");
        assert_eq!(
            read(&file(id, "config.yaml"))["env"]["repo"]["path"],
            "./repo"
        );
        let prediction = read(&file(id, "pred"));
        assert_eq!(prediction["model_name_or_path"], name);
        let patch = prediction["model_patch"].as_str().unwrap_or_default();
        assert_eq!(patch.contains("+two"), id == "o__r-1", "{patch}");
        assert_eq!(read(&folder.join("preds.json"))[id]["model_patch"], patch);
    }
    let config = read(&folder.join("run_batch.config.yaml"));
    assert_eq!(config["instances"]["path"], "tasks.jsonl");
    let keys: Vec<String> = server
        .requests()
        .iter()
        .map(|it| it.header("authorization").unwrap_or_default().to_owned())
        .collect();
    assert_eq!(keys, ["Bearer k1", "Bearer k1", "Bearer k2", "Bearer k1"]);
    let statuses = || fs::read_to_string(folder.join("run_batch_exit_statuses.yaml")).unwrap();
    assert_eq!(
        statuses(),
        "instances_by_exit_status:\n  exit_command:\n  - two\n  submitted:\n  - o__r-1\n  - o__r-3\ntotal_cost: 0.0\n"
    );
    // Again: nothing is run. What a killed process has not written is written.
    let before = fs::read(file("o__r-1", "traj")).unwrap();
    fs::write(file("o__r-1", "traj"), &before[..100]).unwrap();
    called(Host::after(&first), &[]).expect(0);
    assert_eq!(server.served(), 4);
    assert_eq!(fs::read(file("o__r-1", "traj")).unwrap(), before);
    assert_eq!(
        statuses(),
        "instances_by_exit_status:\n  skipped (exit_command):\n  - two\n  skipped (submitted):\n  - o__r-1\n  - o__r-3\ntotal_cost: 0.0\n"
    );
    // So is one whose trajectory says that it has not ended, as in SWE-agent.
    for (instead, status) in [("\"early_exit\"", 5), ("null", 6)] {
        let text = fs::read_to_string(file("o__r-3", "traj")).unwrap();
        let text = text.replace(
            "\"exit_status\": \"submitted\"",
            &format!("\"exit_status\": {instead}"),
        );
        fs::write(file("o__r-3", "traj"), text).unwrap();
        called(Host::after(&first), &[]).expect(0);
        assert_eq!(server.served(), status);
        assert_eq!(
            read(&file("o__r-3", "traj"))["info"]["exit_status"],
            "submitted"
        );
    }
    // One whose folder was removed is run again; of the others only with `--redo_existing`.
    fs::remove_dir_all(folder.join("two")).unwrap();
    let more = ["--num_workers=2", "--agent.model.temperature=0.0"];
    called(Host::after(&first), &more).expect(0);
    assert_eq!(server.served(), 7);
    assert_eq!(
        read(&file("two", "traj"))["info"]["exit_status"],
        "submitted"
    );
    let more = ["--num_workers=2", "--redo_existing=true"];
    called(Host::after(&first), &more).expect(0);
    assert_eq!(server.served(), 10);
    // One whose environment can't be made has no trajectory, and is tried again.
    let mut bad: Value = serde_json::from_str(&lines[0]).unwrap();
    bad["base_commit"] = "0123456".into();
    for _ in 0..2 {
        let host = Host::after(&first).file("tasks.jsonl", bad.to_string());
        let run = called(host, &["--output_dir=other"]).expect(1);
        assert!(run.stderr.contains("0123456"), "{}", run.stderr);
        let other = run.dir.join("other");
        let statuses = fs::read_to_string(other.join("run_batch_exit_statuses.yaml")).unwrap();
        let uncaught = "  Uncaught EnvironmentError:\n  - o__r-1\n";
        assert!(statuses.contains(uncaught), "{statuses}");
        assert!(!other.join("o__r-1/o__r-1.traj").exists());
        let predictions = other.join("preds.json");
        assert!(!predictions.exists() || read(&predictions) == json!({}));
    }
    // Bad input is named before anything is run.
    let broken = lines.join("\n") + "\n{\"instance_id\": \"x\",\n";
    let host = || Host::after(&first).file("tasks.jsonl", &broken);
    let refused = called(host(), &[]).expect(2);
    for part in ["tasks.jsonl:4:", "no JSON", "each line is one instance"] {
        assert!(refused.stderr.contains(part), "{}", refused.stderr);
    }
    let more = ["--instances.filter=nothing"];
    let host = Host::after(&first).file("tasks.jsonl", lines.join("\n"));
    let refused = called(host, &more).expect(2);
    let words = "`--instances.filter` (`nothing`) has to match";
    assert!(refused.stderr.contains(words), "{}", refused.stderr);
    assert_eq!(server.served(), 10);
}

/// SWE-agent writes `preds.json` at the end only.
#[test]
fn what_swe_agent_has_begun_is_gone_on_with() {
    for begun in ["run_batch.config.yaml", "run_batch.log", "notes.txt"] {
        let server = server(&[("submit", json!({}))]);
        let ended = json!({"trajectory": [], "history": [], "info": {"exit_status": "submitted"}});
        let lines = ["done", "open"]
            .map(|id| json!({"instance_id": id, "problem_statement": "fix it"}).to_string());
        let host = Host::new()
            .file("mine.yaml", CONFIG.replace("({{points}} points)", ""))
            .file("tasks.jsonl", lines.join("\n"))
            .file(&format!("out/{begun}"), "{}")
            .file("out/done/done.traj", ended.to_string());
        let of_agent = |word: &String| !word.starts_with("--problem") && !word.starts_with("--env");
        let more = [
            "--instances.path=tasks.jsonl",
            "--instances.deployment.type=local",
            "--output_dir=out",
        ];
        let words = ["sweagent", "run-batch"].map(str::to_owned).into_iter();
        let words = words.chain(run(&server, &more).into_iter().skip(2).filter(of_agent));
        let done = host.env("SOME_KEY", "k").args(words).run();
        if begun == "notes.txt" {
            done.says(&["is not the directory of a batch"]);
            continue;
        }
        let done = done.expect(0);
        assert_eq!(server.served(), 1, "{done}");
        assert!(done.dir.join("out/open/open.traj").exists());
        let kept = read(&done.dir.join("out/done/done.traj"));
        assert_eq!(kept["history"], json!([]));
    }
}

#[test]
fn what_swe_agent_has_run_is_skipped_unless_it_has_not_ended() {
    let server = server(&[("submit", json!({})), ("submit", json!({}))]);
    let ids = ["done", "early", "open"];
    let lines = ids.map(|id| json!({"instance_id": id, "problem_statement": "fix it"}).to_string());
    let mut host = Host::new()
        .file("mine.yaml", CONFIG.replace("({{points}} points)", ""))
        .file("tasks.jsonl", lines.join("\n"))
        .file(
            "out/preds.json",
            json!({"done": {"model_patch": "p"}}).to_string(),
        );
    for (id, info) in ids.into_iter().zip([
        json!({"exit_status": "submitted"}),
        json!({"exit_status": "early_exit"}),
        json!({"exit_status": null}),
    ]) {
        let text = json!({"trajectory": [], "history": [], "info": info}).to_string();
        host = host.file(&format!("out/{id}/{id}.traj"), text);
    }
    for (round, filter) in [".*", ".*", "done"].into_iter().enumerate() {
        let of_agent = |word: &String| !word.starts_with("--problem") && !word.starts_with("--env");
        let filter = format!("--instances.filter={filter}");
        let more = [
            &*filter,
            "--instances.path=tasks.jsonl",
            "--instances.deployment.type=local",
            "--output_dir=out",
        ];
        let words = ["sweagent", "run-batch"].map(str::to_owned).into_iter();
        let words = words.chain(run(&server, &more).into_iter().skip(2).filter(of_agent));
        let done = host.env("SOME_KEY", "k").args(words).run().expect(0);
        assert_eq!(server.served(), 2, "{done}");
        let out = done.dir.join("out");
        assert_eq!(read(&out.join("done/done.traj"))["history"], json!([]));
        assert_eq!(read(&out.join("preds.json"))["done"]["model_patch"], "p");
        for id in ["early", "open"] {
            let made = read(&out.join(id).join(format!("{id}.traj")));
            assert_eq!(made["info"]["exit_status"], "submitted", "round {round}");
        }
        let statuses = out.join("run_batch_exit_statuses.yaml");
        let statuses = (fs::read_to_string(&statuses), fs::remove_file(&statuses))
            .0
            .unwrap();
        assert!(
            statuses.contains("  skipped (submitted):\n  - done\n"),
            "{statuses}"
        );
        host = Host::after(&done);
    }
}

#[test]
fn an_id_that_is_no_name_of_a_folder_is_refused() {
    let server = server(&[("submit", json!({}))]);
    let long = "x".repeat(201);
    for (id, part) in [
        ("", "is empty"),
        ("a/b", "has a slash"),
        ("a\\b", "has a slash"),
        ("..", "begins with a dot"),
        ("a\nb", "`a\\nb` has a control character"),
        ("\u{1b}[31m", "has a control character"),
        (&long, "is longer than 200 bytes"),
    ] {
        let host = Host::new().file("mine.yaml", CONFIG).env("SOME_KEY", "k");
        let id = format!("--problem_statement.id={id}");
        let refused = host.args(run(&server, &[&id])).run().expect(2);
        assert!(refused.stderr.contains(part), "{refused}");
        assert!(!refused.dir.join("trajectories").exists());
    }
}

#[test]
fn a_second_run_leaves_the_files_of_the_first_as_they_are() {
    let server = server(&[("submit", json!({})), ("submit", json!({}))]);
    let host = Host::new().file("mine.yaml", CONFIG).env("SOME_KEY", "k");
    repository(&host);
    let more = ["--env.repo.path=repo", "--output_dir=out"];
    let done = host.args(run(&server, &more)).run().expect(0);
    let traj = done.dir.join("out/o__r-1/o__r-1.traj");
    let before = fs::read(&traj).unwrap();
    let again = Host::after(&done).env("SOME_KEY", "k");
    let again = again.args(run(&server, &more)).run().expect(2);
    let again = again.says(&["an earlier run has worked in", "o__r-1.traj.json` goes on"]);
    assert!(again.stderr.contains("another `--output_dir`"), "{again}");
    assert_eq!(fs::read(&traj).unwrap(), before);
    assert_eq!(server.requests().len(), 1);
}

/// From an ordinary repository, with the config and the trajectories in it, three times in a row.
#[test]
fn runs_in_the_repository_itself_can_be_repeated() {
    let turns = (0..3).flat_map(|_| {
        [
            Turn::tool_call("bash", json!({"command": "ls; echo two >>a.txt"})),
            Turn::tool_call("submit", json!({})),
        ]
    });
    let server = Server::start(Scenario::new(turns.collect::<Vec<_>>()));
    let mut host = Host::new().file("mine.yaml", CONFIG).file("a.txt", "one\n");
    let repo = host.dir();
    for words in [
        &["init", "-q"][..],
        &["add", "a.txt"],
        &["commit", "-qm", "first"],
    ] {
        crate::story::git(&repo, words);
    }
    let script = "printf '#!/bin/sh\\ntouch ../ran\\n' >.git/hooks/post-index-change; chmod +x .git/hooks/post-index-change; \
                  git config core.fsmonitor 'touch ../ran'; git config filter.x.clean 'touch ../ran; cat'; \
                  echo '* filter=x' >.git/info/attributes; touch a.txt";
    let done = Command::new("sh")
        .args(["-c", script])
        .current_dir(&repo)
        .status();
    assert!(done.unwrap().success());
    for round in 1..=3 {
        let done = host
            .env("SOME_KEY", "k")
            .env("USER", "me")
            .args(run(&server, &["--env.repo.path=."]))
            .run()
            .expect(0);
        let folder = repo.join("trajectories/me");
        let made: Vec<PathBuf> = fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().path().join("o__r-1/o__r-1.pred"))
            .collect();
        assert_eq!(made.len(), round);
        for file in made {
            let patch = read(&file)["model_patch"].as_str().unwrap().to_owned();
            assert!(
                patch.contains("+two\n") && patch.matches("diff --git").count() == 1,
                "{patch}"
            );
        }
        host = Host::after(&done);
    }
    assert!(!repo.join("../ran").exists());
}

#[test]
fn a_batch_in_the_repository_itself_can_be_repeated() {
    let turns = (0..4).flat_map(|_| {
        [
            Turn::tool_call("bash", json!({"command": "ls; echo two >>a.txt"})),
            Turn::tool_call("submit", json!({})),
        ]
    });
    let server = Server::start(Scenario::new(turns.collect::<Vec<_>>()));
    let items = ["one", "two"].map(|id| {
        json!({"problem_statement": {"type": "text", "text": "fix it", "id": id},
            "env": {"deployment": {"type": "local"}, "repo": {"type": "local", "path": "."}}})
    });
    let mut host = Host::new()
        .file("mine.yaml", CONFIG.replace("({{points}} points)", ""))
        .file("tasks.json", json!(items).to_string())
        .file("a.txt", "one\n");
    let repo = host.dir();
    for words in [
        &["init", "-q"][..],
        &["add", "a.txt"],
        &["commit", "-qm", "first"],
    ] {
        crate::story::git(&repo, words);
    }
    for more in ["--redo_existing=false", "--redo_existing=true"] {
        let of_agent = |word: &String| !word.starts_with("--problem") && !word.starts_with("--env");
        let words = [
            "sweagent",
            "run-batch",
            "--instances.type=expert_file",
            "--instances.path=tasks.json",
            more,
        ];
        let words = words.map(str::to_owned).into_iter();
        let words = words.chain(run(&server, &[]).into_iter().skip(2).filter(of_agent));
        let done = host
            .env("SOME_KEY", "k")
            .env("USER", "me")
            .args(words)
            .run()
            .expect(0);
        let folder = repo.join("trajectories/me/mine__openai--m__t-0.00__p-1.00__c-0.00___tasks");
        for id in ["one", "two"] {
            let made = read(&folder.join(id).join(format!("{id}.traj")));
            let step = &made["trajectory"][0];
            let seen = step["observation"].as_str().unwrap();
            assert!(!seen.contains("trajectories"), "{seen}");
            let patch = made["info"]["submission"].as_str().unwrap();
            assert_eq!(patch.matches("diff --git").count(), 1, "{patch}");
            let config = read(&folder.join(id).join(format!("{id}.config.yaml")));
            assert_eq!(config["env"]["repo"]["path"], ".");
        }
        host = Host::after(&done);
    }
    assert_eq!(server.served(), 8);
}
