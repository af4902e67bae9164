//! Records without a journal, read by `export`, `continue` and `view`: our own, mini-swe-agent's, SWE-agent's, ATIF.

use std::fs;
use std::path::Path;

use scripted_server::{Scenario, Server, Turn};
use serde_json::{Value, json};

use crate::host::Host;
use crate::run::Run;
use crate::story::{commands, submit, turns};
use crate::views::View;

const PRICE: [&str; 2] = ["--price", "in=10,out=20"];

/// Two commands, a reply that is refused, and the end.
fn recorded() -> Run {
    let server = turns([
        Turn::commands(&["echo one"]),
        Turn::text("no command"),
        Turn::commands(&["echo two; exit 3"]),
    ]);
    let host = Host::new().server(&server).task("the task").args(PRICE);
    host.run().expect(0)
}

fn export(run: &Run, from: &str, to: &str) -> Value {
    let host = Host::after(run).args(["export", from, "--to", to]);
    serde_json::from_str(&host.run().expect(0).stdout).unwrap()
}

fn lose_journal(run: &Run) {
    fs::rename(run.dir.join("traj.events.jsonl"), run.dir.join("kept")).unwrap();
}

/// Takes away the keys with this name, wherever they are.
fn without(value: &mut Value, name: &str) {
    match value {
        Value::Object(keys) => {
            keys.shift_remove(name);
            keys.values_mut().for_each(|it| without(it, name));
        }
        Value::Array(items) => items.iter_mut().for_each(|it| without(it, name)),
        _ => {}
    }
}

#[test]
fn our_trajectory_is_exported_without_its_journal() {
    let run = recorded();
    let mut with_journal = export(&run, "traj.json", "atif");
    assert_eq!(with_journal["extra"]["exit_status"], "Submitted");
    lose_journal(&run);
    let mut alone = export(&run, "traj.json", "atif");
    assert_eq!(
        alone["agent"]["extra"]["original_format"],
        "mini-swe-agent-1.1"
    );
    // What only a journal has: how long commands took, when prompts were made, how replies were refused.
    for value in [&mut with_journal, &mut alone] {
        for name in ["duration_sec", "original_format", "rejected"] {
            without(value, name);
        }
        let steps = value["steps"].as_array_mut().unwrap();
        for step in steps.iter_mut().filter(|it| it["llm_call_count"] != 1) {
            without(step, "timestamp");
        }
        // The time of a refused reply.
        without(&mut steps[3], "timestamp");
    }
    assert_eq!(alone, with_journal);
    for format in ["md", "html", "swe-agent", "asciinema", "jsonl"] {
        let host = Host::after(&run).args(["export", "traj.json", "--to", format]);
        let told = host.run().expect(0).stdout.clone();
        assert!(told.contains("echo two"), "{format}: {told}");
    }
}

#[test]
fn our_trajectory_goes_on_without_its_journal() {
    let run = recorded();
    let before = run.trajectory();
    lose_journal(&run);
    let other = Server::start(Scenario::always(Turn::commands(&[submit("more")])));
    let next = ["continue", "traj.json", "-t", "and now?", "-o", "next.json"];
    let with = |trust: &[&str]| {
        let host = Host::after(&run).args(next).args(trust);
        host.args(["--base-url", &other.url()]).run()
    };
    // Nobody knows who has written it.
    with(&[]).expect(2).says(&["`--trust-record`"]);
    let done = with(&["--trust-record"]).expect(0);
    assert_eq!(done.stdout, "more\n");
    let done = done.says(&["a trajectory without its journal", "the 4 steps of run"]);
    let sent = other.requests()[0].json()["messages"].clone();
    let sent = sent.as_array().unwrap();
    assert_eq!(sent.last().unwrap()["content"], "and now?");
    let messages = before["messages"].as_array().unwrap().iter();
    let messages: Vec<&Value> = messages.filter(|it| it["role"] != "exit").collect();
    assert!(
        sent.len() > messages.len() && messages.len() > 7,
        "{sent:?}"
    );
    for (sent, before) in sent.iter().zip(messages) {
        assert_eq!(sent["role"], before["role"]);
        if before["role"] != "assistant" {
            assert_eq!(sent["content"], before["content"]);
        }
    }
    let after = fs::read(done.dir.join("next.json")).unwrap();
    let after: Value = serde_json::from_slice(&after).unwrap();
    let number = |value: &Value, pointer: &str| value.pointer(pointer).unwrap().as_f64().unwrap();
    let calls = "/info/model_stats/api_calls";
    assert_eq!(number(&after, calls), number(&before, calls) + 1.0);
    for pointer in [
        "/info/model_stats/instance_cost",
        "/info/mswea/usage/input_tokens",
        "/info/mswea/usage/output_tokens",
    ] {
        let (was, is) = (number(&before, pointer), number(&after, pointer));
        // All replies of the scripted model are about equal.
        assert!(
            was > 0.0 && is > was * 1.2 && is < was * 2.0,
            "{pointer}: {was} {is}"
        );
    }
    assert_eq!(after["info"]["mswea"]["task"], "the task");
    assert_eq!(
        after["info"]["config"]["model"]["model_name"],
        before["info"]["config"]["model"]["model_name"]
    );
    // It does not hold what these need.
    let refused = Host::after(&run)
        .args(["resume", "traj.json"])
        .run()
        .expect(2);
    refused.says(&["has no journal beside it", "mswea-host fork"]);
    let same = Host::after(&run).args(["replay", "traj.json", "--verify"]);
    same.run().expect(0);
}

/// The files of one run in every format, each in a folder of its own.
fn in_all_formats(run: &Run) {
    let put = |name: &str, value: &Value| {
        let path = run.dir.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, value.to_string()).unwrap();
    };
    put("atif/x.atif.json", &export(run, "traj.json", "atif"));
    put("sweagent/x.traj", &export(run, "traj.json", "swe-agent"));
    let mut own = run.trajectory();
    own["info"]["mswea"]["journal"] = Value::Null;
    put("own/x.traj.json", &own);
    without(&mut own, "mswea");
    own["info"]["mini_version"] = json!("2.4.6");
    put("mini/x.traj.json", &own);
    put("bare/x.traj.json", &own["messages"]);
}

#[test]
fn the_list_and_the_page_agree_in_each_format() {
    let run = recorded();
    in_all_formats(&run);
    let first = run.trajectory();
    let total = |key: &str| first["info"]["mswea"]["usage"][key].clone();
    let replies: Vec<f64> = run
        .events("reply")
        .iter()
        .map(|it| it["timestamp"].as_f64().unwrap())
        .collect();
    let view = View::of(Host::after(&run), &["."]);
    let listed = view.runs();
    let row = |folder: &str| {
        let mut all = listed.iter();
        let name = |it: &&Value| it["name"].as_str().unwrap().starts_with(folder);
        all.find(name)
            .unwrap_or_else(|| panic!("{folder}: {listed:?}"))
    };
    let config = row("traj")["config"].as_str().unwrap();
    assert!(config.contains("parser toolcall"), "{config}");
    for folder in ["traj", "own", "mini", "bare", "atif", "sweagent"] {
        let card = row(folder);
        assert_eq!(card["input"], total("input_tokens"), "{card}");
        assert_eq!(card["output"], total("output_tokens"), "{card}");
        // SWE-agent's word for it is in lower case.
        let status = card["status"].as_str().unwrap();
        assert!(status.eq_ignore_ascii_case("Submitted"), "{card}");
        assert_eq!(card["steps"], 4, "{card}");
        let (cost, wanted) = (
            card["cost"].as_f64(),
            first["info"]["model_stats"]["instance_cost"].as_f64(),
        );
        assert!((cost.unwrap() - wanted.unwrap()).abs() < 1e-9, "{card}");
        let model = if folder == "bare" {
            &json!("")
        } else {
            &first["info"]["config"]["model"]["model_name"]
        };
        assert_eq!(card["model"], *model, "{card}");
        let id = card["id"].as_str().unwrap();
        let page = view.get(&format!("/api/run?id={id}")).json();
        assert_eq!(page["card"], *card, "{folder}");
        assert_eq!(page["usage"]["input_tokens"], card["input"], "{folder}");
        assert_eq!(page["usage"]["output_tokens"], card["output"], "{folder}");
        assert_eq!(page["exit_status"], card["status"], "{folder}");
        // The times are those in the file, and not that of the file.
        let (started, last) = (card["started"].as_f64(), card["last"].as_f64());
        let times = page["steps"].as_array().unwrap().iter();
        let times: Vec<f64> = times.filter_map(|it| it["time"].as_f64()).collect();
        if folder == "sweagent" {
            assert_eq!((started, last, times.len()), (None, None, 0), "{card}");
            continue;
        }
        assert!(started.unwrap() <= replies[0] + 0.001, "{folder}");
        assert!(
            last.unwrap() >= replies[3] - 0.001 && last.unwrap() > started.unwrap(),
            "{folder}"
        );
        let is_near = |it: &&f64| (**it - replies[2]).abs() < 0.002;
        assert!(times.iter().any(|it| is_near(&it)), "{folder}: {times:?}");
    }
    assert_eq!(row("own")["config"], config);
    assert_eq!(row("own")["run"], row("traj")["run"]);
    assert_ne!(row("mini")["config"], "");
    view.end();
}

#[test]
fn atif_is_exported_as_it_was_read() {
    let run = recorded();
    in_all_formats(&run);
    let first = fs::read(run.dir.join("atif/x.atif.json")).unwrap();
    let first: Value = serde_json::from_slice(&first).unwrap();
    assert!(first["steps"][2]["timestamp"].is_string(), "{first}");
    assert_eq!(export(&run, "atif/x.atif.json", "atif"), first);
}

#[test]
fn an_unknown_price_is_none() {
    let server = commands(&["echo one"]);
    let host = Host::new().server(&server).task("x");
    let run = host
        .args(["-c", "model.cost_tracking=ignore_errors"])
        .run()
        .expect(0);
    let own = run.trajectory();
    let known = own["info"]["mswea"]["cost_known"] == true;
    in_all_formats(&run);
    let view = View::of(Host::after(&run), &["."]);
    for card in view.runs() {
        // SWE-agent's format has no word for it, nor has a bare list.
        let name = Path::new(card["name"].as_str().unwrap());
        if !name.starts_with("sweagent") && !name.starts_with("bare") {
            assert_eq!(card["cost"].is_null(), !known, "{card}");
            let id = card["id"].as_str().unwrap();
            let page = view.get(&format!("/api/run?id={id}")).json();
            assert_eq!(page["card"]["cost"], card["cost"]);
        }
    }
    assert!(!known, "{own}");
    view.end();
}

#[test]
fn a_run_and_its_copy_in_atif_are_listed_once() {
    let server = commands(&["echo one"]);
    let host = Host::new().server(&server).task("x");
    let run = host.args(["--atif", "run.atif.json"]).run().expect(0);
    fs::create_dir(run.dir.join("copy")).unwrap();
    for name in ["run.atif.json", "traj.events.jsonl"] {
        fs::copy(run.dir.join(name), run.dir.join("copy").join(name)).unwrap();
    }
    let view = View::of(Host::after(&run), &["."]);
    let names = |view: &View| {
        let listed = view.runs();
        let names = listed.iter().map(|it| it["name"].as_str().unwrap());
        let mut names: Vec<String> = names.map(str::to_owned).collect();
        names.sort();
        names
    };
    assert_eq!(
        names(&view),
        ["copy/traj.events.jsonl", "traj.events.jsonl"]
    );
    let found = view.get("/api/search?q=echo+one").json();
    assert_eq!(found["runs"].as_array().unwrap().len(), 2, "{found}");
    view.end();
    // Alone it is a run.
    let view = View::of(Host::after(&run), &["copy/run.atif.json"]);
    assert_eq!(names(&view), ["run.atif.json"]);
    view.end();
}

#[test]
fn a_list_that_is_there_twice_is_refused() {
    let text = |name: &str| {
        let messages = |said: &str| json!([{"role": "user", "content": said}]);
        format!(
            r#"{{"info": {{}}, "messages": {}, "{name}": {}}}"#,
            messages("harmless"),
            messages("harmful")
        )
    };
    let host = Host::new()
        .file("plain.traj.json", text("messages"))
        .file("escaped.traj.json", text("\\u006dessages"));
    let view = View::of(host, &["."]);
    for card in view.runs() {
        assert_eq!(card["status"], "unreadable", "{card}");
        let answer = view.get(&format!("/api/run?id={}", card["id"].as_str().unwrap()));
        let told = "has the key `messages` more than once";
        assert!(answer.status != 200 && answer.body.contains(told), "{card}");
        assert!(card["error"].as_str().unwrap().contains(told), "{card}");
    }
    view.end();
}

/// A trajectory of mini-swe-agent with these replies, whose agent is of a batch.
fn of_a_batch(version: u32) -> String {
    let (format, agent) = match version {
        1 => ("mini-swe-agent-1", "minisweagent.run.extra.swebench"),
        _ => (
            "mini-swe-agent-1.1",
            "minisweagent.run.benchmarks.utils.common",
        ),
    };
    let reply = |command: &str| match version {
        1 => {
            json!({"role": "assistant", "content": format!("THOUGHT: so\n\n```bash\n{command}\n```")})
        }
        _ => {
            json!({"role": "assistant", "content": "", "extra": {"actions": [{"command": command, "tool_call_id": "c"}]},
            "tool_calls": [{"id": "c", "type": "function", "function": {"name": "bash", "arguments": json!({"command": command}).to_string()}}]})
        }
    };
    let shown = match version {
        1 => json!({"role": "user", "content": "saw one"}),
        _ => {
            json!({"role": "tool", "tool_call_id": "c", "content": "saw one", "extra": {"raw_output": "one\n", "returncode": 0}})
        }
    };
    json!({
        "info": {
            "exit_status": "Submitted", "submission": "", "mini_version": format!("{version}.0.0"),
            "config": {
                "agent": {"system_template": "s", "instance_template": "{{task}}", "step_limit": 0, "cost_limit": 0.0},
                "agent_type": format!("{agent}.ProgressTrackingAgent"),
                "model": {"model_name": "openai/m", "model_kwargs": {}},
                "model_type": "minisweagent.models.litellm_model.LitellmModel",
                "environment": {"cwd": "", "env": {}, "timeout": 30},
                "environment_type": "somebody.environments.Cluster",
            },
        },
        "messages": [
            {"role": "system", "content": "s"},
            {"role": "user", "content": "x"},
            reply("echo one >a.txt; cat a.txt"),
            shown,
            reply(&submit("done")),
        ],
        "trajectory_format": format,
    })
    .to_string()
}

#[test]
fn trajectories_of_batches_are_gone_on_from() {
    for version in [1, 2] {
        let server = match version {
            1 => Server::start(Scenario::always(Turn::text(format!(
                "```bash\n{}\n```",
                submit("more")
            )))),
            _ => Server::start(Scenario::always(Turn::commands(&[submit("more")]))),
        };
        let host = || {
            let host = Host::new().file("b.json", of_a_batch(version));
            host.env("OPENAI_API_KEY", "k")
        };
        let place = ["-c", "environment.environment_class=local"];
        let words = ["continue", "b.json", "-t", "and now?", "-o", "next.json"];
        let host_of = host().args(words).args(place);
        let run = host_of.args(["--base-url", &server.url()]).run().expect(0);
        assert_eq!(run.stdout, "more\n", "{run}");
        let words = ["fork", "b.json", "--at", "1", "--no-workspace"];
        let host_of = host().args(words).args(["-o", "next.json"]).args(place);
        let run = host_of.args(["--base-url", &server.url()]).run().expect(0);
        assert_eq!(run.stdout, "more\n", "{run}");
        let run = run.says(&["`somebody.environments.Cluster`"]);
        assert!(!run.stderr.contains("ProgressTrackingAgent"), "{run}");
        if version == 2 {
            let replayed = host().args(["replay", "b.json"]).run();
            assert_eq!(replayed.status, 0, "{replayed}");
        }
        // The replies again, with commands that run.
        let played = host().args(["-m", "replay/b.json"]).task("x").run();
        assert_eq!(played.stdout, "done\n", "{played}");
        assert!(played.dir.join("a.txt").is_file());
    }
}

#[test]
fn configs_of_mini_swe_agent_1_run_as_there() {
    let yaml = "agent:
  system_template: 'Exactly ONE bash code block.'
  instance_template: 'Do {{task}} as ```bash'
  action_observation_template: |
    <rc>{{output.returncode}}</rc>
    <o>{{ output.output -}}</o>
  timeout_template: 'Too late: {{action[\"action\"]}} said {{output}}'
  format_error_template: 'Found {{actions|length}} actions.'
  step_limit: 9.
environment:
  timeout: 1
model:
  model_name: openai/m
  cost_tracking: ignore_errors
";
    let server = Server::start(Scenario::new([
        Turn::text("no block"),
        Turn::text("```bash\necho one\n```"),
        Turn::text("```bash\necho begun; sleep 60\n```"),
        Turn::text(format!("THOUGHT\n```bash\n{}\n```", submit("done"))),
    ]));
    let host = Host::new().file("m.yaml", yaml).env("OPENAI_API_KEY", "k");
    let host = host.args(["-c", "m.yaml"]);
    let host = host.args(["--base-url", &server.url()]).task("it");
    let run = host.run().expect(0);
    assert_eq!(run.stdout, "done\n", "{run}");
    let sent = server.requests()[3].json();
    assert!(sent.get("tools").is_none(), "{sent}");
    let told: Vec<&str> = sent["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|it| it["role"] == "user")
        .map(|it| it["content"].as_str().unwrap())
        .collect();
    assert_eq!(
        told,
        [
            "Do it as ```bash",
            "Found 0 actions.",
            "<rc>0</rc>\n<o>one\n</o>",
            "Too late: echo begun; sleep 60 said begun\n",
        ]
    );
    run.says(&["`m.yaml` is a config of mini-swe-agent 1 (by `agent.action_observation_template`"]);
}
