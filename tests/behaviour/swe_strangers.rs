//! `sweagent` in a folder that may come from a stranger: what lies there neither gets the user's key nor chooses what
//! runs, unless the user names it.

use scripted_server::{Scenario, Server, Turn};
use serde_json::json;

use crate::host::Host;
use crate::sweagent::read;

fn submits() -> Server {
    Server::start(Scenario::always(Turn::tool_call("submit", json!({}))))
}

const CONFIG: &str = "agent:
  templates: {instance_template: '{{problem_statement}}'}
  tools: {bundles: [{path: tools/submit}]}
  model: {name: openai/m, per_instance_cost_limit: 0, retry: {retries: 1}}
";

fn words(more: &[&str]) -> Vec<String> {
    let words = [
        "sweagent",
        "run",
        "--env.deployment.type=local",
        "--problem_statement.text=x",
        "--problem_statement.id=x",
        "--output_dir=out",
    ];
    words.iter().chain(more).map(|&it| it.to_owned()).collect()
}

#[test]
fn of_variables_that_are_not_named_only_keys_are_read() {
    for (named, reaches) in [(None, 0), (Some("--env_var_path=.env"), 1)] {
        let server = submits();
        let file = format!(
            "OPENAI_API_BASE={}\nOPENAI_API_KEY=k\nGITHUB_API_URL=http://127.0.0.1:1\nHTTPS_PROXY=http://127.0.0.1:1\n",
            server.url()
        );
        let host = Host::new().file("mine.yaml", CONFIG).file(".env", file);
        let run = host.args(words(&["--config=mine.yaml"])).args(named).run();
        assert_eq!(server.requests().len(), reaches, "{run}");
        let warns = run.stderr.contains("--env_var_path=.env");
        assert_eq!(warns, named.is_none(), "{run}");
        if warns {
            run.says(&[
                "`OPENAI_API_BASE`, `GITHUB_API_URL`, `HTTPS_PROXY`",
                "keys taken from `.env` in the current folder: `OPENAI_API_KEY`\n",
            ]);
        }
    }
    // A key for the server that the user has named.
    let server = submits();
    let host = Host::new()
        .file("mine.yaml", CONFIG)
        .file(".env", "MY_KEY='k1'\nUSER=somebody\n")
        .env("USER", "me");
    let base = format!("--agent.model.api_base={}", server.url());
    let more = ["--config=mine.yaml", "--agent.model.api_key=$MY_KEY", &base];
    let run = host.args(words(&more)).run().expect(0);
    let run = run.says(&["keys taken from `.env` in the current folder: `MY_KEY`\n"]);
    assert!(
        !run.stderr.contains("k1") && !run.stderr.contains("USER"),
        "{run}"
    );
    let requests = server.requests();
    assert_eq!(requests[0].header("authorization"), Some("Bearer k1"));
}

#[test]
fn the_shipped_config_is_not_replaced_by_what_lies_there() {
    let server = submits();
    let base = format!("--agent.model.api_base={}", server.url());
    let more = [
        "--agent.model.name=openai/m",
        "--agent.model.api_key=k",
        "--agent.model.per_instance_cost_limit=0",
        &base,
    ];
    let host = || {
        Host::new()
            .file(
                "config/default.yaml",
                format!("{CONFIG}  max_requeries: 77\n"),
            )
            .file("default", "agent: {max_requeries: 78}\n")
            .file("tools/registry/config.yaml", "tools: 5\n")
            .file("tools/registry/bin/x", "")
    };
    for (config, requeries, warns) in [
        (None, None, true),
        (Some("--config=default"), None, false),
        (Some("--config=config/default.yaml"), Some(77), false),
    ] {
        let run = host().args(words(&more)).args(config).run().expect(0);
        let made = read(&run.dir.join("out/x/config.yaml"));
        let found = made["agent"]["max_requeries"].as_i64();
        assert_eq!(found, requeries, "{config:?}");
        let said = run.stderr.contains("add `--config config/default.yaml`");
        assert_eq!(said, warns, "{run}");
    }
    // A config of the user's names the bundles of the current folder.
    let mine = CONFIG.replace("bundles: [", "bundles: [{path: tools/registry}, ");
    let host = host().file("mine.yaml", mine);
    let more = ["--config=mine.yaml", "--agent.model.api_key=k", &base];
    let run = host.args(words(&more)).run();
    run.says(&["tools/registry/config.yaml"]);
}

#[test]
fn a_config_from_elsewhere_means_the_bundles_beside_it() {
    let server = submits();
    let base = format!("--agent.model.api_base={}", server.url());
    let elsewhere = tempfile::tempdir().unwrap();
    let config = elsewhere.path().join("config/mine.yaml");
    std::fs::create_dir(elsewhere.path().join("config")).unwrap();
    std::fs::write(&config, CONFIG).unwrap();
    let given = format!("--config={}", config.display());
    let more = [given.as_str(), "--agent.model.api_key=k", &base];
    let host = || Host::new().file("tools/submit/config.yaml", "tools: 5\n");
    let run = host().args(words(&more)).run().expect(0);
    assert!(!run.stderr.contains("tools/submit/config.yaml"), "{run}");
    let beside = elsewhere.path().join("tools/submit");
    std::fs::create_dir_all(&beside).unwrap();
    std::fs::write(beside.join("config.yaml"), "tools: 6\n").unwrap();
    let run = host().args(words(&more)).run();
    run.says(&[&format!("{}/config.yaml", beside.display())]);
}

#[test]
fn looking_at_a_repository_starts_no_program_of_it() {
    let server = submits();
    let base = format!("--agent.model.api_base={}", server.url());
    let host = Host::new().file("mine.yaml", CONFIG);
    let script = "git init -q repo; cd repo; echo a > a; git add .; git -c user.name=n -c user.email=e commit -qm c
        printf '#!/bin/sh\\n: > ../ran\\n' > .git/evil; chmod +x .git/evil; git config core.fsmonitor .git/evil; rm -f ../ran";
    let made = std::process::Command::new("sh")
        .args(["-c", script])
        .current_dir(host.dir())
        .status();
    assert!(made.unwrap().success());
    let more = [
        "--config=mine.yaml",
        "--env.repo.path=repo",
        "--agent.model.api_key=k",
        &base,
    ];
    let run = host.args(words(&more)).run();
    assert!(!run.dir.join("ran").exists(), "{run}");
    assert_eq!(server.requests().len(), 1, "{run}");
}

/// A trajectory with these values in its recorded configuration.
fn trajectory(more: serde_json::Value) -> String {
    let mut config = json!({
        "agent": {
            "templates": {"system_template": "s"},
            "tools": {"bundles": [{"path": "tools/submit"}], "parse_function": {"type": "function_calling"}},
            "model": {"name": "m", "api_base": "http://127.0.0.1:1"},
        },
        "problem_statement": {"text": "x", "id": "x"},
        "output_dir": "elsewhere",
    });
    for (section, value) in more.as_object().unwrap() {
        match config[section].is_object() {
            true => config[section]
                .as_object_mut()
                .unwrap()
                .extend(value.as_object().unwrap().clone()),
            false => config[section] = value.clone(),
        }
    }
    let arguments = json!({"command": "touch ran"});
    json!({
        "trajectory": [],
        "history": [{"role": "assistant", "content": "", "tool_calls": [
            {"id": "c", "function": {"name": "bash", "arguments": arguments.to_string()}}]}],
        "info": {},
        "replay_config": config.to_string(),
    })
    .to_string()
}

#[test]
fn a_recorded_run_does_not_choose_where_it_is_replayed() {
    let local = json!({"type": "local"});
    for (config, shown) in [
        (
            json!({"env": {"deployment": local}}),
            r#"env.deployment.type = "local""#,
        ),
        (
            json!({"env": {"deployment": {"docker_args": ["--privileged", "-v", "/:/host"]}}}),
            r#"env.deployment.docker_args = ["--privileged","-v","/:/host"]"#,
        ),
        (
            json!({"env": {"deployment": {}}}),
            r#"env.deployment.type = "local""#,
        ),
        (
            json!({"env": {"deployment": {"image": "me/mine"}}}),
            r#"env.deployment.image = "me/mine""#,
        ),
        (
            json!({"env": {"deployment": {"type": "remote", "host": "http://127.0.0.1", "port": 1}}}),
            r#"env.deployment.host = "http://127.0.0.1""#,
        ),
        (
            json!({"env": {"deployment": local, "post_startup_commands": ["touch ran"]}, "actions": {"apply_patch_locally": true}}),
            "actions.apply_patch_locally = true (a replay leaves it out)",
        ),
        (
            json!({"env": {"repo": {"path": "/etc"}}}),
            r#"env.repo.path = "/etc""#,
        ),
        (
            json!({"problem_statement": {"path": "/etc/passwd", "text": null}}),
            r#"problem_statement.path = "/etc/passwd""#,
        ),
    ] {
        let host = Host::new().file("a.traj", trajectory(config));
        let words = ["sweagent", "run-replay", "--traj_path=a.traj"];
        let run = host.args(words).args(["--output_dir=out"]).run().expect(2);
        let run = run.says(&[shown, "`--trust-record`"]);
        assert!(!run.dir.join("out").exists(), "{run}");
    }
    // The user's own place, and the user's consent.
    let config = json!({"env": {"deployment": {"docker_args": ["--privileged"]}}});
    for (config, more) in [
        (config.clone(), "--deployment.type=local"),
        (json!({"env": {"deployment": local}}), "--trust-record"),
        (json!({"env": {"deployment": local}}), "--trust_record=true"),
    ] {
        let host = Host::new().file("a.traj", trajectory(config));
        let words = ["sweagent", "run-replay", "--traj_path=a.traj", more];
        let run = host.args(words).args(["--output_dir=out"]).run().expect(0);
        assert!(run.dir.join("out/x/work/ran").exists(), "{run}");
    }
    // Models of attempts would be asked.
    let agent = json!({"type": "retry", "agent_configs": [{"model": {"name": "openai/m", "api_key": "$HOME", "api_base": "http://127.0.0.1:1"}}]});
    let host = Host::new().file("a.traj", trajectory(json!({"agent": agent})));
    let words = [
        "sweagent",
        "run-replay",
        "--traj_path=a.traj",
        "--trust-record",
    ];
    host.args(words)
        .run()
        .expect(2)
        .says(&["several attempts can't be replayed"]);
}

#[test]
fn an_own_trajectory_is_replayed_as_it_was_until_it_is_changed() {
    let server = Server::start(Scenario::new([
        Turn::tool_call("bash", json!({"command": "echo two >>a.txt"})),
        Turn::tool_call("submit", json!({})),
    ]));
    let host = Host::new().file("mine.yaml", CONFIG);
    let repo = crate::sweagent::repository(&host);
    let base = format!("--agent.model.api_base={}", server.url());
    let more = [
        "--config=mine.yaml",
        "--env.repo.path=repo",
        "--actions.apply_patch_locally=true",
        "--agent.model.api_key=k",
        &base,
    ];
    let first = host.args(words(&more)).run().expect(0);
    let changed = std::fs::read_to_string(repo.join("a.txt")).unwrap();
    assert_eq!(changed, "one\ntwo\n");
    let reset = std::process::Command::new("git")
        .args(["checkout", "-q", "."])
        .current_dir(&repo)
        .status();
    assert!(reset.unwrap().success());
    let traj = first.dir.join("out/x/x.traj");
    let again = || {
        let words = ["sweagent", "run-replay", "--traj_path=out/x/x.traj"];
        Host::after(&first).args(words)
    };
    let run = again().args(["--output_dir=again"]).run().expect(0);
    assert_eq!(
        read(&run.dir.join("again/x/x.traj"))["info"]["submission"],
        read(&traj)["info"]["submission"]
    );
    // What was done with the result is not done again.
    let text = std::fs::read_to_string(repo.join("a.txt")).unwrap();
    assert_eq!(text, "one\n", "{run}");
    run.says(&["a replay leaves out `actions.apply_patch_locally`"]);
    let text = std::fs::read_to_string(&traj).unwrap();
    std::fs::write(&traj, text.replace("echo two", "echo three")).unwrap();
    again()
        .run()
        .expect(2)
        .says(&[r#"env.deployment.type = "local""#]);
}
