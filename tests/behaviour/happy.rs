//! Successful runs: the requests, the commands' effects, the messages and the records.

use scripted_server::{Recorded, Scenario, Server, Turn};
use serde_json::{Value, json};

use crate::host::Host;
use crate::story::{commands, roles, submit, turns};

#[test]
fn tool_calls_work_streamed_and_whole() {
    for (flags, stream) in [(&[][..], true), (&["--no-stream"][..], false)] {
        let server = turns([
            Turn::commands(&["echo one > a.txt; cat a.txt"]).with_text("I write a file."),
            Turn::commands(&["echo two; exit 3"]),
        ]);
        let run = Host::new()
            .server(&server)
            .task("write {{ a file }} & more")
            .args(flags)
            .args(["-c", "model.model_kwargs.temperature=0"])
            .run()
            .expect(0)
            .says(&["I write a file.", "echo one > a.txt", "one", "Submitted"])
            .nothing_left();
        assert_eq!(run.stdout, "done\n");
        assert_eq!(run.exit_status(), "Submitted");
        assert_eq!(run.trajectory()["info"]["submission"], "done");
        assert_eq!(run.trajectory()["info"]["model_stats"]["api_calls"], 3);
        assert!(run.dir.join("a.txt").is_file());

        let requests = server.requests();
        assert_eq!(requests.len(), 3);
        for request in &requests {
            assert_eq!(
                (&*request.method, &*request.path),
                ("POST", "/v1/chat/completions")
            );
            assert_eq!(request.header("authorization"), None);
            let body = request.json();
            assert_eq!(body["model"], "test");
            assert_eq!(body["temperature"], 0);
            assert_eq!(body["stream"].as_bool().unwrap_or(false), stream);
            assert_eq!(!body["stream_options"].is_null(), stream);
            assert_eq!(body["tools"][0]["type"], "function");
            assert_eq!(body["tools"][0]["function"]["name"], "bash");
        }
        let first = requests[0].json();
        assert_eq!(roles(&first), ["system", "user"]);
        let task = first["messages"][1]["content"].as_str().unwrap();
        assert!(task.contains("write {{ a file }} & more"), "{task}");
        let last = requests[2].json();
        assert_eq!(
            roles(&last),
            ["system", "user", "assistant", "tool", "assistant", "tool"]
        );
        // Earlier messages are sent again unchanged, byte for byte, because providers' caches
        // depend on it.
        assert_eq!(last["messages"][1], first["messages"][1]);
        for (call, result, output) in [(2, 3, "one"), (4, 5, "two")] {
            let (call, result) = (&last["messages"][call], &last["messages"][result]);
            assert_eq!(call["tool_calls"][0]["id"], result["tool_call_id"]);
            let text = result["content"].to_string();
            assert!(text.contains(output), "{text}");
        }
        assert!(last["messages"][5]["content"].to_string().contains('3'));
        assert_eq!(last["messages"][2]["content"], "I write a file.");
    }
}

#[test]
fn several_actions_of_one_reply_are_run_in_order() {
    let server = turns([Turn::commands(&[
        "echo a >> log",
        "echo b >> log; false",
        "cat log",
    ])]);
    let run = Host::new().server(&server).task("x").run().expect(0);
    assert_eq!(
        std::fs::read_to_string(run.dir.join("log")).unwrap(),
        "a\nb\n"
    );
    let body = server.requests()[1].json();
    assert_eq!(
        roles(&body),
        ["system", "user", "assistant", "tool", "tool", "tool"]
    );
    let calls = body["messages"][2]["tool_calls"].as_array().unwrap();
    for (index, call) in calls.iter().enumerate() {
        assert_eq!(call["id"], body["messages"][3 + index]["tool_call_id"]);
    }
    let shown: Value =
        serde_json::from_str(body["messages"][5]["content"].as_str().unwrap()).unwrap();
    assert_eq!(shown, json!({"returncode": 0, "output": "a\nb\n"}));
}

#[test]
fn commands_are_read_from_the_text() {
    let story = ["echo one > a.txt; cat a.txt", &submit("done")];
    for arguments in [
        &["-c", "text"][..],
        &["-c", "text", "--no-stream"],
        &["-c", "text", "--plugin", "text_regex"],
        &["-c", "text", "--plugin", "parsers/text_regex.wasm"],
    ] {
        let server = Server::start(Scenario::text_turns(&story));
        let run = Host::new()
            .server(&server)
            .task("x")
            .args(arguments)
            .run()
            .expect(0);
        assert_eq!(run.stdout, "done\n");
        let body = server.requests()[1].json();
        assert!(body.get("tools").is_none(), "{body}");
        assert_eq!(roles(&body), ["system", "user", "assistant", "user"]);
        assert!(body["messages"][3]["content"].to_string().contains("one"));
    }
    // With another expression; and a warning if the prompts do not fit the parser.
    let server = Server::start(Scenario::new([Turn::text(format!(
        "do: <<{}>>",
        submit("done")
    ))]));
    let regex = r#"model.action_regex="<<([\\s\\S]*?)>>""#;
    Host::new()
        .server(&server)
        .task("x")
        .args(["--plugin", "text_regex", "-c", regex])
        .run()
        .expect(0)
        .says(&["`text_regex`", "`-c text`"]);
}

#[test]
fn a_recorded_run_as_the_model_gives_the_same_replies() {
    let server = turns([
        Turn::text("no call at all"),
        Turn::commands(&["echo one > a.txt", "cat a.txt"]),
    ]);
    let first = Host::new().server(&server).task("x").run().expect(0);
    let recorded = first.trajectory();
    let again = Host::new()
        .file("old.traj.json", recorded.to_string())
        .args(["-m", "replay/old.traj.json"])
        .task("x")
        .run()
        .expect(0);
    assert_eq!(again.stdout, first.stdout);
    assert!(again.dir.join("a.txt").is_file());
    let said = |trajectory: &Value| -> Vec<Value> {
        let messages = trajectory["messages"].as_array().unwrap();
        let said = messages
            .iter()
            .filter(|message| message["role"] == "assistant");
        said.map(|message| json!([message["content"], message["extra"]["actions"]]))
            .collect()
    };
    assert_eq!(said(&again.trajectory()), said(&recorded));
    assert_eq!(said(&recorded).len(), 2);
}

#[test]
fn a_task_is_read_from_a_flag_a_file_or_standard_input() {
    let text = "line one\nzwei: \u{201e}\u{e4}\u{201c} {% raw %} {{ x }} $(rm) `y` </task>";
    let file = format!("[run]\ntask = '''{text}'''\n");
    let windows = format!("\u{feff}{}\r\n\n", text.replace('\n', "\r\n"));
    for (arguments, stdin) in [
        (&["-t", text][..], None),
        (&["-t", "-"], Some(text.to_owned())),
        (&["-t", "-"], Some(windows)),
        (&["-c", "task.toml"], None),
    ] {
        let server = commands(&[]);
        let mut host = Host::new()
            .file("task.toml", &file)
            .server(&server)
            .args(arguments)
            .args(["-o", "traj.json"]);
        if let Some(stdin) = stdin {
            host = host.stdin(stdin);
        }
        let run = host.run().expect(0);
        let body = server.requests()[0].json();
        let sent = body["messages"][1]["content"].as_str().unwrap();
        assert!(sent.contains(&format!("\n{text}\n")), "{sent}");
        assert_eq!(run.trajectory()["info"]["mswea"]["task"], text);
    }
}

#[test]
fn output_follows_the_flags_and_the_colour_variables() {
    let story = || turns([Turn::commands(&["echo visible"]).with_text("My plan.")]);
    let shown = |arguments: &[&str], env: &[(&str, &str)]| {
        let server = story();
        let mut host = Host::new().server(&server).task("x").args(arguments);
        for (name, value) in env {
            host = host.env(name, value);
        }
        host.run().expect(0)
    };
    let calm = shown(&[], &[]).says(&["My plan.", "echo visible", "visible", "Submitted"]);
    assert_eq!(calm.stdout, "done\n");
    assert!(!calm.stderr.contains('\x1b'), "{calm}");

    let coloured = shown(&[], &[("CLICOLOR_FORCE", "1")]);
    assert!(coloured.stderr.contains("\x1b["), "{coloured}");
    let plain = shown(&[], &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]);
    assert!(!plain.stderr.contains('\x1b'), "{plain}");

    let quiet = shown(&["-q"], &[]).says(&["Submitted"]);
    assert_eq!(quiet.stdout, "done\n");
    assert_eq!(quiet.stderr.lines().count(), 2, "{quiet}");
    assert!(
        quiet.stderr.ends_with("\ntrajectory: traj.json\n"),
        "{quiet}"
    );

    let machine = shown(&["--json"], &[]);
    assert!(machine.stderr.is_empty(), "{machine}");
    let events: Vec<Value> = machine
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let kinds: Vec<&str> = events
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .collect();
    for kind in [
        "step_started",
        "delta",
        "replied",
        "message",
        "action_started",
        "action_ended",
    ] {
        assert!(kinds.contains(&kind), "{kind} is missing in {kinds:?}");
    }
    let last = events.last().unwrap();
    assert_eq!(kinds.last(), Some(&"ended"));
    assert_eq!(
        (
            &last["exit_status"],
            &last["exit_code"],
            &last["submission"]
        ),
        (&json!("Submitted"), &json!(0), &json!("done"))
    );
}

#[test]
fn files_are_written_to_the_state_folder_or_the_named_path() {
    // Without `-o`: below the state folder, and the path is printed.
    let server = commands(&[]);
    let host = Host::new().server(&server).args(["-t", "x"]);
    let state = host.home().join(".local/state/mswea-host/runs");
    let run = host.run().expect(0).says(&["trajectory: "]);
    let mut names: Vec<String> = std::fs::read_dir(&state)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let (id, _) = names[0].split_once('.').unwrap();
    let endings = ["digests", "events.jsonl", "traj.json"];
    let expected = endings.map(|ending| format!("{id}.{ending}"));
    assert_eq!(names, expected);
    assert!(run.stderr.contains(&names[2]), "{run}");

    // A second run into the same file keeps the first one's journal.
    let server = Server::start(Scenario::always(Turn::commands(&[submit("done")])));
    let host = Host::new()
        .file("out/traj.events.jsonl", "kept\n")
        .server(&server);
    let run = host
        .args(["-t", "x", "-o", "out/traj.json", "--cwd", "out"])
        .run()
        .expect(0);
    let kept = std::fs::read_to_string(run.dir.join("out/traj.events.jsonl.1")).unwrap();
    assert_eq!(kept, "kept\n");
    assert_eq!(run.events("run_ended").len(), 1);
    let ended = &run.events("output")[0];
    assert_eq!(ended["output"]["returncode"], 0);
}

#[test]
fn processors_and_policies_are_applied() {
    let server = turns([
        Turn::commands(&["seq 40 49"]),
        Turn::commands(&["vim file", "echo two"]),
        Turn::commands(&["true"]),
    ]);
    let run = Host::new()
        .server(&server)
        .task("x")
        .args([
            "--plugin",
            "blocklist",
            "-c",
            "pipeline.processors=[\"last_n_observations\"]",
        ])
        .args(["-c", "plugins.last_n_observations.config.n=2"])
        .run()
        .expect(0)
        .says(&["not run: $ vim file", "`blocklist`"]);
    assert_eq!(run.events("denied").len(), 1);
    assert_eq!(
        run.events("action").len(),
        4,
        "the denied action is not run"
    );
    let text = |body: &Value, index: usize| body["messages"][index]["content"].to_string();
    let requests = server.requests();
    // The next request has the whole observation; later it is whole only in the trajectory.
    assert!(text(&requests[1].json(), 3).contains("49"));
    let last = requests[3].json();
    assert!(!text(&last, 3).contains("49"), "{last}");
    assert!(run.trajectory()["messages"][3].to_string().contains("49"));
    assert!(text(&requests[2].json(), 5).contains("`vim` is blocked"));
}

#[test]
fn fresh_instances_send_the_same_requests() {
    let bodies = |arguments: &[&str]| -> Vec<Value> {
        let server = turns([
            Turn::text("no call"),
            Turn::commands(&["echo one", "echo two >&2; exit 4"]).with_reasoning("hm"),
            Turn::commands(&["seq 1 5000"]),
        ]);
        Host::new()
            .server(&server)
            .task("x")
            .args([
                "--plugin",
                "blocklist",
                "-c",
                "pipeline.processors=[\"last_n_observations\"]",
            ])
            .args(["-c", "plugins.last_n_observations.config.n=1"])
            // The default template names the folder, which differs between runs.
            .args(["-c", "agent.instance_template={{ task }}"])
            .args(arguments)
            .run()
            .expect(0);
        server.requests().iter().map(Recorded::json).collect()
    };
    let usual = bodies(&[]);
    assert_eq!(usual.len(), 4);
    assert_eq!(bodies(&["--fresh-instances"]), usual);
}

#[test]
fn odd_bytes_are_handled() {
    let long = format!("echo {}", "x".repeat(200_000));
    let server = turns([
        Turn::commands(&["printf '\\033]0;evil\\007\\033[31mred\\r\\377\\0 end\\n'"])
            .with_text("\u{1b}[31m\u{e4}\u{1f600}")
            .in_chunks(1, std::time::Duration::ZERO),
        Turn::commands(&[
            &long,
            "echo a\0b",
            "cat; echo at end",
            "yes | head -c 9000000",
        ]),
    ]);
    let run = Host::new()
        .server(&server)
        .task("x")
        .run()
        .expect(0)
        .nothing_left();
    let unsafe_char = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    assert!(!run.stderr.contains(unsafe_char), "{run}");
    assert!(run.stderr.len() < 100_000, "{}", run.stderr.len());
    let outputs = run.events("output");
    let text = |index: usize| outputs[index]["output"]["output"].as_str().unwrap();
    // Line ends are converted as by Python.
    assert_eq!(text(0), "\u{1b}]0;evil\u{7}\u{1b}[31mred\n\u{fffd}\0 end\n");
    // This command is longer than an argument of a process can be.
    assert_eq!(text(1).len(), 200_001);
    assert!(
        outputs[2]["output"].to_string().contains("null byte"),
        "{}",
        outputs[2]
    );
    assert_eq!(text(3), "at end\n");
    assert!(text(4).len() <= 3 << 20, "{}", text(4).len());
    // The model gets head and tail.
    let body = server.requests()[2].json();
    let sent = body["messages"].as_array().unwrap().last().unwrap()["content"].to_string();
    assert!(sent.len() < 30_000, "{}", sent.len());
}

#[test]
fn the_on_end_command_runs_also_after_an_error() {
    let hook = "echo \"$MSWEA_EXIT_STATUS $MSWEA_EXIT_CODE\" >told; \
                test -z \"$MSWEA_TRAJECTORY\" && echo none >>told; \
                test -n \"$MSWEA_JOURNAL\" && grep -q run_ended \"$MSWEA_JOURNAL\" && echo journal >>told";
    // The trajectory's path is taken by a folder during the run.
    let taken = "rm -f out/traj.json; mkdir -p out/traj.json/x";
    for (arguments, code, told) in [
        (
            ["-c", "agent.step_limit=0"],
            1,
            "Submitted 1\nnone\njournal\n",
        ),
        (
            ["-c", "pipeline.parser=nothing"],
            7,
            "PluginError 7\nnone\n",
        ),
    ] {
        let server = turns([Turn::commands(&[taken])]);
        let run = Host::new()
            .server(&server)
            .args(["-t", "x", "-o", "out/traj.json", "--on-end", hook])
            .args(arguments)
            .run()
            .expect(code);
        assert_eq!(std::fs::read_to_string(run.dir.join("told")).unwrap(), told);
    }
}

#[test]
fn the_on_end_command_runs_after_the_run() {
    let hook = "echo \"$MSWEA_EXIT_STATUS $MSWEA_EXIT_CODE $MINE_KEY\" >told; test -s \"$MSWEA_TRAJECTORY\" \
                && grep -q run_ended \"$MSWEA_JOURNAL\" || echo missing >>told; (setsid sleep 100 &); echo said";
    for (limit, code, told) in [
        ("0", 0, "Submitted 0 sk-mine\n"),
        ("1", 3, "LimitsExceeded 3 sk-mine\n"),
    ] {
        let server = turns([Turn::commands(&["true"])]);
        let run = Host::new()
            .server(&server)
            .env("MINE_KEY", "sk-mine")
            .args(["--step-limit", limit, "--on-end", hook])
            .task("x")
            .run()
            .expect(code)
            .says(&["said"])
            .nothing_left();
        assert_eq!(std::fs::read_to_string(run.dir.join("told")).unwrap(), told);
        assert!(!run.stdout.contains("said"), "{run}");
    }
    // Keys are in no environment, and only those that the command names are there at all.
    let look = "for f in /proc/[0-9]*; do grep -qs \"^MSWEA_EXIT_COD[E]\" -z $f/environ && \
                tr '\\0' '\\n' <$f/environ | grep -e sk-min[e] -e sk-othe[r]; done";
    let hook = format!(
        "({look}; env | grep -e sk-min[e] -e sk-othe[r]; sh -c 'echo \"[$MINE_KEY]\"'; \
         printf '%s\\n' \"$MINE_KEY\"; MINE_KEY=$MINE_KEY sh -c 'printf \"[%s]\\n\" \"$MINE_KEY\"'; \
         set | grep sk-othe[r]) >told; (cat </proc/$$/fd/5) || echo closed >>told"
    );
    let server = turns([]);
    let value = "sk-mine 'a\" b\n$c\\\n";
    let run = Host::new()
        .server(&server)
        .env("MINE_KEY", value)
        .env("OTHER_KEY", "sk-other")
        .args(["--on-end", &hook])
        .task("x")
        .run()
        .expect(0)
        .nothing_left();
    let told = std::fs::read_to_string(run.dir.join("told")).unwrap();
    assert_eq!(told, format!("[]\n{value}\n[{value}]\nclosed\n"), "{run}");
    for (hook, says) in [
        ("exit 7", "`run.on_end` failed: exit code 7"),
        ("sleep 60", "timed out"),
    ] {
        let server = turns([]);
        Host::new()
            .server(&server)
            .args(["--on-end", hook, "-c", "run.on_end_timeout=0.5"])
            .task("x")
            .run()
            .expect(0)
            .says(&[says])
            .nothing_left();
    }
}
