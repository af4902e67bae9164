//! `sweagent` with agents of the type `retry`: several attempts, a reviewer or a chooser.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use scripted_server::{Scenario, Server, Turn};
use serde_json::{Value, json};

use crate::host::{Host, Signal};
use crate::run::Run;
use crate::sweagent::{read, repository};

/// What a test does, as the turns of the server in their order.
pub(crate) enum Say<'a> {
    /// A command of an agent.
    Run(&'a str),
    /// The agent submits.
    Submit,
    /// A judge answers.
    Judge(&'a str),
    /// The request fails.
    Fail,
    /// A judge answers after a minute.
    Late,
}

pub(crate) fn server(turns: &[Say<'_>]) -> Server {
    let turns = turns.iter().map(|say| match say {
        Say::Run(command) => Turn::tool_call("bash", json!({"command": command})),
        Say::Submit => Turn::tool_call("submit", json!({})),
        Say::Judge(text) => Turn::text(*text),
        Say::Fail => Turn::error(400, "bad", "no such thing"),
        Say::Late => Turn::text("5").with_delay(Duration::from_secs(60)),
    });
    Server::start(Scenario::new(turns.collect::<Vec<_>>()))
}

pub(crate) const REVIEWER: &str = "
    type: score
    model: MODEL
    accept_score: 5
    max_attempts: 2
    cost_limit: 0
    reviewer_config:
      system_template: 'judge {{it}}'
      instance_template: 'P {{problem_statement}} {{points}} S {{exit_status}} {{model_stats_api_calls}} T {{traj}}'
      n_sample: 2
      reduce_by_std: 1
      failure_score_penalty: 3
      score_range: [0, 10]
      traj_formatter: {filter: [submit], item_template: '{{i_step}}:{{action}}:{{observation}}'}
";

pub(crate) const CHOOSER: &str = "
    type: chooser
    max_attempts: 3
    cost_limit: 0
    chooser:
      model: MODEL
      system_template: choose
      instance_template: 'P {{problem_statement}}{% for s in submissions %} [{{s}}]{% endfor %}'
      submission_template: '{{submission}}'
";

/// A config with one agent whose attempts are judged so.
pub(crate) fn config(server: &Server, judge: &str, agent: &str) -> String {
    let model = |limit: &str| {
        let url = server.url();
        format!(
            "{{name: openai/m, api_base: '{url}', api_key: some-secret-key, litellm_model_registry: prices.json, per_instance_cost_limit: {limit}, retry: {{retries: 1, min_wait: 0.01}}}}"
        )
    };
    let judge = judge.replace("MODEL", &model("0"));
    let own = model("2.0");
    format!(
        "
agent:
  type: retry
  agent_configs:
  - model: {own}
    templates: {{system_template: s, instance_template: 'Do {{{{problem_statement}}}}', next_step_template: 'saw {{{{observation}}}}'}}
    tools:
      bundles: [{{path: tools/registry}}, {{path: tools/submit}}]
{agent}
  retry_loop:{judge}
"
    )
}

/// Each query costs a dollar: it has 100 tokens of input.
const PRICES: &str =
    r#"{"openai/m": {"input_cost_per_token": 0.01, "output_cost_per_token": 0.0}}"#;

pub(crate) fn host(config: &str) -> Host {
    let host = Host::new()
        .file("mine.yaml", config)
        .file("prices.json", PRICES)
        .env("USER", "me");
    repository(&host);
    host
}

pub(crate) const FLAGS: &[&str] = &[
    "sweagent",
    "run",
    "--config=mine.yaml",
    "--env.deployment.type=local",
    "--env.repo.path=repo",
    "--problem_statement.text=fix it",
    "--problem_statement.id=one",
    "--problem_statement.extra_fields.points=7",
    "--output_dir=out",
];

pub(crate) fn files(run: &Run) -> PathBuf {
    run.dir.join("out/one")
}

/// The texts of the last messages of all requests.
fn asked(server: &Server) -> Vec<String> {
    let requests = server.requests();
    let text = |request: &scripted_server::Recorded| {
        let messages = request.json()["messages"].clone();
        let last = messages.as_array().and_then(|it| it.last().cloned());
        let last = last.unwrap_or_default();
        match &last["content"] {
            Value::String(text) => text.clone(),
            other => other[0]["text"].as_str().unwrap_or_default().to_owned(),
        }
    };
    requests.iter().map(text).collect()
}

#[test]
fn attempts_are_scored_until_one_is_accepted() {
    let server = server(&[
        Say::Run("echo first >>a.txt; echo x >new.txt"),
        Say::Submit,
        Say::Judge("bad\nscore 2"),
        Say::Judge("4 of 11\nno 3\n"),
        Say::Run("ls; cat a.txt; echo second >>a.txt"),
        Say::Submit,
        Say::Judge("9"),
        Say::Judge("nothing"),
    ]);
    let run = host(&config(&server, REVIEWER, "")).args(FLAGS).run();
    let run = run.expect(0);
    let made = read(&files(&run).join("one.traj"));
    assert_eq!(made["info"]["best_attempt_idx"], 1);
    assert_eq!(made["info"]["exit_status"], "submitted");
    let attempts = made["attempts"].as_array().unwrap();
    assert_eq!(attempts.len(), 2);
    // 2.5 less the deviation of 0.5; then the one reply that has a score.
    assert_eq!(attempts[0]["info"]["review"]["accept"], 2.0);
    assert_eq!(attempts[1]["info"]["review"]["accept"], 9.0);
    assert_eq!(attempts[1]["info"]["review"]["outputs"], json!(["9"]));
    // The environment is a new one.
    assert_eq!(attempts[1]["trajectory"][0]["observation"], "a.txt\none\n");
    let patch = made["info"]["submission"].as_str().unwrap();
    assert!(
        patch.contains("+second") && !patch.contains("+first"),
        "{patch}"
    );
    assert_eq!(
        fs::read_to_string(files(&run).join("one.patch")).unwrap(),
        patch
    );
    assert_eq!(read(&files(&run).join("one.pred"))["model_patch"], patch);
    // Everything that was paid for is counted.
    assert_eq!(made["info"]["model_stats"]["instance_cost"], 8.0);
    assert_eq!(made["info"]["rloop_model_stats"]["instance_cost"], 4.0);
    assert_eq!(made["info"]["rloop_model_stats"]["api_calls"], 4);
    assert_eq!(attempts[0]["info"]["model_stats"]["instance_cost"], 2.0);
    // Each attempt has its own files, and the questions theirs.
    for name in [
        "attempt_0/one.traj",
        "attempt_0/one.events.jsonl",
        "attempt_1/one.traj",
        "attempt_1/one.events.jsonl",
        "one.reviewer.events.jsonl",
        "one.traj.json",
    ] {
        assert!(files(&run).join(name).exists(), "{name}");
    }
    let asked = asked(&server);
    assert_eq!(
        asked[2],
        "P fix it 7 S submitted 2.0 T 0:echo first >>a.txt; echo x >new.txt:"
    );
    assert_eq!(
        server.requests()[2].json()["messages"][0]["content"],
        "judge {{it}}"
    );
    let shown = fs::read_to_string(files(&run).join("config.yaml")).unwrap();
    assert!(!shown.contains("some-secret-key"), "{shown}");
    let made = fs::read_to_string(files(&run).join("one.traj")).unwrap();
    assert!(!made.contains("some-secret-key"));
}

/// Replies of the server, the loop's keys that differ, the number of requests, the scores of the attempts, the
/// chosen one.
type Vector<'a> = (&'a [Say<'a>], &'a [(&'a str, &'a str)], u64, &'a [f64], u64);

#[test]
fn ends_of_the_attempts() {
    let vectors: &[Vector<'_>] = &[
        // Accepted at once.
        (
            &[Say::Submit, Say::Judge("7"), Say::Judge("7")],
            &[],
            3,
            &[7.0],
            0,
        ),
        // The reviewer answers nothing that could be used, then fails.
        (
            &[
                Say::Submit,
                Say::Judge("?"),
                Say::Judge("99"),
                Say::Submit,
                Say::Fail,
                Say::Judge("1"),
            ],
            &[],
            6,
            &[-100.0, 1.0],
            1,
        ),
        // The first attempt and its reviews have used all of the budget.
        (
            &[Say::Submit, Say::Judge("1"), Say::Judge("1")],
            &[("cost_limit: 0", "cost_limit: 3")],
            3,
            &[1.0],
            0,
        ),
        (
            &[Say::Submit, Say::Judge("1"), Say::Judge("1")],
            &[(
                "cost_limit: 0",
                "cost_limit: 4\n    min_budget_for_new_attempt: 1.5",
            )],
            3,
            &[1.0],
            0,
        ),
        // What is left is the limit of the second attempt, which ends for that reason: 4 - 3 penalty.
        (
            &[
                Say::Submit,
                Say::Judge("1"),
                Say::Judge("1"),
                Say::Run("true"),
                Say::Judge("4"),
                Say::Judge("4"),
            ],
            &[("cost_limit: 0", "cost_limit: 4")],
            6,
            &[1.0, 1.0],
            0,
        ),
    ];
    for (turns, changes, requests, scores, chosen) in vectors {
        let server = server(turns);
        let judge = changes
            .iter()
            .fold(REVIEWER.to_owned(), |judge, (old, new)| {
                judge.replace(old, new)
            });
        let run = host(&config(&server, &judge, ""))
            .args(FLAGS)
            .run()
            .expect(0);
        let made = read(&files(&run).join("one.traj"));
        let of = |made: &Value| made["info"]["review"]["accept"].as_f64().unwrap();
        let found: Vec<f64> = made["attempts"]
            .as_array()
            .unwrap()
            .iter()
            .map(of)
            .collect();
        assert_eq!(found, *scores, "{changes:?}: {}", run.stderr);
        assert_eq!(made["info"]["best_attempt_idx"], *chosen, "{changes:?}");
        assert_eq!(server.served(), *requests, "{changes:?}");
    }
}

#[test]
fn a_chooser_chooses_among_what_was_submitted() {
    let three = ["a", "b", "c"].map(|name| format!("echo {name} >>a.txt"));
    for (last, preselected, expected) in [
        ("not 0 but\n2", None, 2),
        ("zz", None, 0),
        ("9", None, 0),
        // The candidates are 1 and 2 then.
        ("1", Some("1, 2"), 2),
        ("0", Some("none"), 0),
    ] {
        let mut turns = Vec::new();
        for command in &three {
            turns.extend([Say::Run(command), Say::Submit]);
        }
        turns.extend(preselected.map(Say::Judge));
        turns.push(Say::Judge(last));
        let server = server(&turns);
        let mut judge = CHOOSER.to_owned();
        if preselected.is_some() {
            judge += "      preselector: {model: MODEL, system_template: p, instance_template: '{{submissions | length}}', submission_template: x}\n";
        }
        // Without the types, the keys decide.
        let config = config(&server, &judge, "").replace("  type: retry\n", "");
        let run = host(&config.replace("    type: chooser\n", ""))
            .args(FLAGS)
            .run()
            .expect(0);
        let made = read(&files(&run).join("one.traj"));
        assert_eq!(made["info"]["best_attempt_idx"], expected, "{last}");
        assert_eq!(made["info"]["chooser"]["response"], last);
        let added = format!("+{}", ["a", "b", "c"][expected]);
        let patch = fs::read_to_string(files(&run).join("one.patch")).unwrap();
        assert!(patch.contains(&added), "{patch}");
        let asked = asked(&server);
        let question = asked.last().unwrap();
        assert!(question.starts_with("P fix it [diff"), "{question}");
        assert!(question.contains(&added), "{question}");
        if preselected.is_some() {
            assert_eq!(asked[6], "3");
        }
    }
    // Its query fails: the first candidate, and the run is none that has failed.
    let server = server(&[Say::Submit, Say::Submit, Say::Submit, Say::Fail]);
    let run = host(&config(&server, CHOOSER, ""))
        .args(FLAGS)
        .run()
        .expect(0);
    assert!(
        run.stderr.contains("no reply of the chooser"),
        "{}",
        run.stderr
    );
    let made = read(&files(&run).join("one.traj"));
    assert_eq!(made["info"]["best_attempt_idx"], 0);
}

#[test]
fn a_stop_ends_a_review_and_keeps_the_attempts() {
    let server = server(&[Say::Submit, Say::Judge("1"), Say::Late]);
    let started = host(&config(&server, REVIEWER, "")).args(FLAGS).spawn();
    assert!(server.wait_for(3, Duration::from_secs(30)));
    started.signal(Signal::INT);
    let run = started.wait().expect(130);
    let made = read(&files(&run).join("one.traj"));
    assert_eq!(made["attempts"].as_array().unwrap().len(), 1);
    assert_eq!(made["info"].get("exit_status"), None);
    let journal = fs::read_to_string(files(&run).join("one.reviewer.events.jsonl")).unwrap();
    assert!(journal.contains("\"ask_reply\""), "{journal}");
    assert!(journal.contains("\"run_ended\""), "{journal}");
}

#[test]
fn a_killed_host_leaves_what_was_done() {
    let server = server(&[
        Say::Run("echo a >>a.txt"),
        Say::Submit,
        Say::Judge("1"),
        Say::Late,
        Say::Submit,
        Say::Judge("7"),
        Say::Judge("7"),
    ]);
    let started = host(&config(&server, REVIEWER, "")).args(FLAGS).spawn();
    assert!(server.wait_for(4, Duration::from_secs(30)));
    started.signal(Signal::KILL);
    let run = started.wait();
    let made = read(&files(&run).join("one.traj"));
    let attempts = made["attempts"].as_array().unwrap();
    assert_eq!(attempts.len(), 1);
    let patch = attempts[0]["info"]["submission"].as_str().unwrap();
    assert!(patch.contains("+a"), "{patch}");
    let journal = fs::read_to_string(files(&run).join("one.reviewer.events.jsonl")).unwrap();
    assert!(journal.contains("\"ask_reply\""), "{journal}");
    // Again: the first attempt's journals are kept, and its environment is a new one.
    let run = Host::after(&run)
        .env("USER", "me")
        .args(FLAGS)
        .run()
        .expect(0);
    let made = read(&files(&run).join("one.traj"));
    assert_eq!(made["info"]["review"]["accept"], 7.0);
    assert_eq!(made["info"]["submission"], Value::Null);
    for name in [
        "attempt_0/one.events.jsonl.1",
        "one.reviewer.events.jsonl.1",
    ] {
        assert!(files(&run).join(name).exists(), "{name}");
    }
}

#[test]
fn a_batch_makes_attempts_at_each_instance() {
    let server = server(&[
        Say::Run("echo a >>a.txt"),
        Say::Submit,
        Say::Judge("1"),
        Say::Judge("1"),
        Say::Submit,
        Say::Judge("2"),
        Say::Judge("2"),
        Say::Run("echo b >>a.txt"),
        Say::Submit,
        Say::Judge("8"),
        Say::Judge("8"),
    ]);
    let lines = ["one", "two"].map(|id| {
        json!({"instance_id": id, "problem_statement": "p", "repo_name": "./repo", "extra_fields": {"points": 1}})
            .to_string()
    });
    let host = host(&config(&server, REVIEWER, "")).file("tasks.jsonl", lines.join("\n"));
    let words = [
        "sweagent",
        "run-batch",
        "--config=mine.yaml",
        "--instances.path=tasks.jsonl",
        "--instances.deployment.type=local",
        "--output_dir=out",
    ];
    let run = host.args(words).run().expect(0);
    let out = run.dir.join("out");
    let one = read(&out.join("one/one.traj"));
    assert_eq!(one["info"]["best_attempt_idx"], 1, "{}", run.stderr);
    assert_eq!(one["attempts"].as_array().unwrap().len(), 2);
    let two = read(&out.join("two/two.traj"));
    assert_eq!(two["attempts"].as_array().unwrap().len(), 1);
    let predictions = read(&out.join("preds.json"));
    let patch = predictions["two"]["model_patch"].as_str().unwrap();
    assert!(patch.contains("+b"), "{patch}");
    let statuses = fs::read_to_string(out.join("run_batch_exit_statuses.yaml")).unwrap();
    assert_eq!(
        statuses,
        "instances_by_exit_status:\n  submitted:\n  - one\n  - two\ntotal_cost: 11.0\n"
    );
    // The same command again does nothing.
    Host::after(&run).args(words).run().expect(0);
    assert_eq!(server.served(), 11);
}

#[test]
fn what_is_wrong_with_attempts_is_named() {
    let server = server(&[Say::Submit]);
    let good = config(&server, REVIEWER, "");
    for (old, new, parts) in [
        (
            "accept_score: 5",
            "accept_scor: 5",
            &[
                "mine.yaml:",
                "accept_scor",
                "did you mean",
                "`agent.retry_loop.accept_score` is missing",
            ][..],
        ),
        (
            "n_sample: 2",
            "n_sample: x",
            &["n_sample` must be an integer"],
        ),
        (
            "score_range: [0, 10]",
            "score_range: 3",
            &["`score_range`", "[0, 10]"],
        ),
        (
            "type: score",
            "type: best",
            &["neither type", "type: chooser"],
        ),
        ("{{traj}}", "{{trai}}", &["instance_template", "trai"]),
        ("{{i_step}}", "{{i_step", &["item_template"]),
        ("max_attempts: 2", "max_attempts: 0", &["never end"]),
        (
            "  type: retry",
            "  type: retry\n  model: {name: x}",
            &["no `agent.model` of its own", "agent_configs"],
        ),
        ("    tools:", "    tols:", &["tols", "did you mean"]),
        ("name: openai/m, ", "", &["no model was given"]),
    ] {
        assert!(good.contains(old), "{old}");
        let run = host(&good.replacen(old, new, 1))
            .args(FLAGS)
            .run()
            .expect(2);
        for part in parts {
            assert!(run.stderr.contains(part), "{new}: {}", run.stderr);
        }
    }
    assert_eq!(server.served(), 0);
}
