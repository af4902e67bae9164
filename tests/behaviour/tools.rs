//! Bundles of tools (`[tools]`): written here, in SWE-agent's layout.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use scripted_server::{Scenario, Server, Turn};
use serde_json::{Value, json};

use crate::host::Host;
use crate::needs::Need;
use crate::run::Run;

const MANIFEST: &str = r#"
tools:
  note:
    signature: |
      note <text> [<place>]
    docstring: keeps a note of {WIDTH} characters
    arguments:
      - name: text
        type: string
        description: what to keep
        required: true
      - name: place
        type: string
        description: where
        required: false
        argument_format: "--place {{value}}"
  submit:
    signature: submit
    docstring: ends
state_command: _state
"#;

const NOTE: &str = "#!/bin/sh\necho \"$# $WIDTH $FROM_INSTALL $PROBLEM_STATEMENT\"\nprintf '%s\\n' \"$@\" >>\"$TOOLS_ROOT/notes\"\n";

const STATE: &str = "#!/bin/sh\nprintf '{\"notes\": \"%s\", \"working_dir\": \"%s\"}' \
                     \"$(wc -l <\"$TOOLS_ROOT/notes\" 2>/dev/null || echo 0)\" \"$PWD\" >\"$TOOLS_ROOT/state.json\"\n";

const SUBMIT: &str = "#!/bin/sh\ncat \"$TOOLS_ROOT/notes\" >\"$TOOLS_ROOT/model.patch\"\necho '<<SWE_AGENT_SUBMISSION>>'\n";

/// A host with the bundle, whose files are below `root`.
fn with_bundle(server: &Server, root: Option<&str>) -> Host {
    let host = Host::new()
        .server(server)
        .task("the 'task'")
        .file("b/mine/config.yaml", MANIFEST)
        .file("b/mine/bin/note", NOTE)
        .file("b/mine/bin/_state", STATE)
        .file("b/mine/bin/submit", SUBMIT)
        .file(
            "b/mine/install.sh",
            "export FROM_INSTALL=yes\nhelp_me() { echo helped; }\n",
        );
    let root = root.map_or_else(
        || host.dir().join("tools-root").display().to_string(),
        str::to_owned,
    );
    let template = "{{ observation }}|{{ notes }}|{{ working_dir }}|{{ WIDTH }}";
    host.file(
        "tools.toml",
        format!(
            "[agent]\nsystem_template = \"{{{{ command_docs }}}}\"\n[environment]\nsession = true\n[pipeline]\n\
             parser = \"function_calling\"\nformatter = \"swe_agent\"\n[plugins.swe_agent.config]\n\
             next_step_template = \"{template}\"\n[tools]\nbundles = [\"b/mine\"]\nroot = \"{root}\"\n\
             env_variables = {{ WIDTH = \"7\", TOOLS_ROOT = \"{root}\" }}\n"
        ),
    )
    .args(["-c", "tools.toml"])
}

fn server(calls: &[(&str, Value)]) -> Server {
    let turns = calls
        .iter()
        .map(|(name, arguments)| Turn::tool_call(name, arguments.clone()));
    Server::start(Scenario::new(turns.collect::<Vec<_>>()).by_history())
}

/// The results of the tool calls, as the model got them.
fn results(run: &Run) -> Vec<String> {
    let messages = run.trajectory()["messages"].as_array().cloned().unwrap();
    let tools = messages.iter().filter(|message| message["role"] == "tool");
    tools
        .map(|message| message["content"].as_str().unwrap().to_owned())
        .collect()
}

fn calls() -> Vec<(&'static str, Value)> {
    vec![
        ("note", json!({"text": "a 'b'\nc"})),
        ("bash", json!({"command": "cd /tmp; help_me; echo $ROOT"})),
        ("note", json!({"text": "x", "place": "y z"})),
        ("bash", json!({"command": "exit 3"})),
        ("note", json!({"text": "w"})),
        ("submit", json!({})),
    ]
}

const SUBMITTED: &str = "a 'b'\nc\nx\n--place\ny z\nw\n";

#[test]
fn tools_are_offered_run_and_submit_and_their_state_is_in_templates() {
    let server = server(&calls());
    let run = with_bundle(&server, None).run().expect(0);
    assert_eq!(run.stdout, SUBMITTED);
    let work = run.dir.canonicalize().unwrap();
    let work = work.display();
    let results = results(&run);
    let first = format!("1 7 yes the 'task'\n|2|{work}|7");
    assert_eq!(results[0], first);
    assert_eq!(results[1], format!("helped\n{work}\n|2|/tmp|7"));
    assert_eq!(results[2], "3 7 yes the 'task'\n|5|/tmp|7");
    assert!(results[3].contains("|5|/tmp|7"), "{}", results[3]);
    assert_eq!(results[4], "1 7 yes the 'task'\n|6|/tmp|7");
    let body: Value = serde_json::from_slice(&server.requests()[0].body).unwrap();
    let tools = body["tools"].as_array().unwrap().iter();
    let names: Vec<_> = tools
        .map(|tool| tool["function"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["bash", "note", "submit"]);
    let note = &body["tools"][1]["function"];
    assert_eq!(note["description"], "keeps a note of 7 characters");
    assert_eq!(note["parameters"]["required"], json!(["text"]));
    let system = body["messages"][0]["content"].to_string();
    for part in [
        "note <text> [<place>]",
        "- place (string) [optional]: where",
        "submit:",
    ] {
        assert!(system.contains(part), "{system}");
    }
}

#[test]
fn a_container_has_them_too() {
    if !Need::Docker.is_met() {
        return;
    }
    let server = server(&calls());
    let run = with_bundle(&server, Some("/root"))
        .args(["--image", "mswea-test/bash"])
        .run()
        .expect(0);
    assert_eq!(run.stdout, SUBMITTED);
    assert_eq!(results(&run)[4], "1 7 yes the 'task'\n|6|/tmp|7");
}

/// Looks at a file, edits it (the linter refuses one edit), and ends with the call `last`. Returns the
/// submission.
fn first_party(root: Option<&str>, options: &[&str], last: (&str, Value)) -> String {
    let calls = [
        ("open", json!({"path": "a.json"})),
        (
            "edit",
            json!({"start_line": 1, "end_line": 1, "replacement_text": "{\"a\": }"}),
        ),
        (
            "edit",
            json!({"start_line": 1, "end_line": 1, "replacement_text": "{\"a\": 2}"}),
        ),
        ("bash", json!({"command": "cat a.json"})),
        last,
    ];
    let server = server(&calls);
    let host = Host::new().server(&server).task("edit it");
    let root = root.map_or_else(
        || host.dir().join("tools-root").display().to_string(),
        str::to_owned,
    );
    let run = host
        .file(
            "tools.toml",
            format!(
                "[environment]\nsession = true\n[pipeline]\nparser = \"function_calling\"\nformatter = \
                 \"swe_agent\"\n[workspace]\nstartup_commands = [\"echo '{{\\\"a\\\": 1}}' >a.json; git init -q . || true\"]\n\
                 [tools]\nbundles = [\"registry\", \"windowed\", \"search\", \"windowed_edit_linting\", \
                 \"submit\"]\nroot = \"{root}\"\n"
            ),
        )
        .args(["-c", "tools.toml"])
        .args(options)
        .run()
        .expect(0);
    let results = results(&run);
    assert!(
        results[0].contains("(1 lines total)]\n1:{\"a\": 1}"),
        "{}",
        results[0]
    );
    assert!(results[1].contains("1:{\"a\": 1}"), "{}", results[1]);
    assert!(results[2].contains("1:{\"a\": 2}"), "{}", results[2]);
    assert!(results[3].contains("\n{\"a\": 2}\n"), "{}", results[3]);
    run.stdout.clone()
}

#[test]
fn first_party_bundles_are_named_without_a_folder() {
    let submitted = first_party(None, &[], ("submit", json!({})));
    assert!(submitted.contains("+{\"a\": 2}"), "{submitted}");
    let run = Host::new()
        .task("t")
        .args(["-c", "environment.session=true"])
        .args(["-c", "tools.bundles=[\"windowd\"]"])
        .run()
        .expect(2);
    run.says(&["no first-party bundle `windowd`", "windowed", "has a `/`"]);
}

#[test]
fn a_bundle_in_python_imports_the_registry_and_a_module_of_its_own() {
    let server = server(&[
        ("count", json!({})),
        ("count", json!({})),
        ("submit", json!({})),
    ]);
    let count = "#!/usr/bin/env python3\nfrom registry import registry\nfrom of_mine import more\n\
                 registry['COUNT'] = more(registry.get('COUNT', 0))\nprint('count', registry['COUNT'])\n";
    let host = Host::new();
    let root = format!("tools.root={}", host.dir().join("tools-root").display());
    let run = host
        .server(&server)
        .task("t")
        .file(
            "mine/config.yaml",
            "tools:\n  count:\n    signature: count\n    docstring: counts\n",
        )
        .file("mine/bin/count", count)
        .file(
            "mine/lib/of_mine.py",
            "def more(number):\n    return number + 1\n",
        )
        .file(
            "mine/install.sh",
            "export PYTHONPATH=\"$PWD/lib${PYTHONPATH:+:$PYTHONPATH}\"\n",
        )
        .args(["-c", "pipeline.parser=function_calling"])
        .args(["-c", "environment.session=true"])
        .args(["-c", &root])
        .args(["-c", r#"tools.bundles=["registry", "./mine", "submit"]"#])
        .run()
        .expect(0);
    let results = results(&run);
    for (result, number) in results.iter().zip(1..=2) {
        assert!(result.contains(&format!("count {number}")), "{results:?}");
    }
}

#[test]
fn first_party_bundles_need_no_python_in_the_image() {
    if Need::Docker.is_met() {
        let done = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; cat a.json";
        let last = ("bash", json!({ "command": done }));
        let options = ["--image", "mswea-test/bash"];
        let submitted = first_party(Some("/root"), &options, last);
        assert_eq!(submitted.trim(), "{\"a\": 2}");
    }
}

#[test]
fn a_resumed_run_has_the_variables_of_the_installation() {
    let server = server(&calls());
    let first = with_bundle(&server, None)
        .args(["--step-limit", "2"])
        .run()
        .expect(3);
    let done = Host::after(&first)
        .args(["resume", "traj.json", "--step-limit", "9"])
        .run()
        .expect(0);
    assert_eq!(done.stdout, SUBMITTED);
    let results = results(&done);
    assert!(
        results[2].starts_with("3 7 yes the 'task'\n[a new shell was begun with this command")
            && results[2].contains("]\n|5|"),
        "{}",
        results[2]
    );
}

#[test]
fn mistakes_are_told_before_the_model_is_asked() {
    let signature = MANIFEST.replace("note <text> [<place>]", "note <text> [<where>]");
    let cases: &[(&str, &str, i32, &[&str])] = &[
        (
            "b/mine/config.yaml",
            "tools: [x]\n",
            2,
            &[
                "b/mine/config.yaml:1:8",
                "`tools` is no map",
                "set by tools.toml:",
            ],
        ),
        (
            "b/mine/config.yaml",
            &signature,
            2,
            &["b/mine/config.yaml:4:16", "command `note`", "signature"],
        ),
        (
            "b/mine/config.yaml",
            "tools:\n  go: {}\n",
            6,
            &["b/mine/config.yaml:2:3", "`go`", "put it into `bin/`"],
        ),
        (
            "b/mine/bin/note",
            "#!/usr/bin/env python9\n",
            6,
            &["`mine` needs `python9`", "`bin/note`"],
        ),
        (
            "b/mine/bin/note",
            "#!/opt/none/bin/x\n",
            6,
            &["needs `/opt/none/bin/x`"],
        ),
        (
            "b/mine/install.sh",
            "echo some words\nfalse\n",
            6,
            &[
                "b/mine/install.sh: it failed with exit code 1",
                "some words",
            ],
        ),
        (
            "b/mine/install.sh",
            "pip() { return 1; }\npip install x\n",
            6,
            &[
                "b/mine/install.sh: it failed",
                "`pip`, which needs the network",
            ],
        ),
        (
            "b/mine/install.sh",
            "sleep 60\n",
            6,
            &[
                "b/mine/install.sh: it did not end within 1 seconds",
                "`tools.install_timeout`",
            ],
        ),
        (
            "b/mine/install.sh",
            "exit 0\n",
            6,
            &["b/mine/install.sh: it ended the shell"],
        ),
        (
            "b/mine/config.yaml",
            "tools:\n  cd: {}\n",
            6,
            &["b/mine/config.yaml:2:3", "`cd`", "rename the command"],
        ),
        (
            "b/mine/bin/_state",
            "#!/bin/sh\nsleep 60\n",
            6,
            &["`_state` left no state: it did not end within 1 seconds (`tools.state_timeout`)"],
        ),
        (
            "b/mine/bin/_state",
            "#!/bin/sh\necho oops >\"$TOOLS_ROOT/state.json\"\n",
            6,
            &[
                "b/mine/config.yaml:20:16: the state command `_state` left no state",
                "`oops`",
                "state.json",
            ],
        ),
    ];
    for (file, text, code, parts) in cases {
        let server = server(&calls());
        let host = with_bundle(&server, None).file(file, text);
        let run = host
            .args(["-c", "tools.install_timeout=1"])
            .args(["-c", "tools.state_timeout=1"])
            .run()
            .expect(*code);
        run.says(parts);
        assert_eq!(server.requests().len(), 0, "{file}");
    }
    let server = server(&calls());
    let run = with_bundle(&server, None)
        .args(["-c", "environment.session=false"])
        .run()
        .expect(2);
    run.says(&["`tools.bundles` needs `environment.session` = true"]);
    let run = with_bundle(&server, None)
        .args(["-c", "tools.hidden=[\"none\"]"])
        .run()
        .expect(2);
    run.says(&["`tools.hidden`: no bundle has the command `none`"]);
    let run = with_bundle(&server, None)
        .args(["-c", "tools.env_variables={\"A;id\": \"x\"}"])
        .run()
        .expect(2);
    run.says(&["`tools.env_variables`: `A;id` is no name of a variable"]);
}

#[test]
fn the_shell_can_be_left_out_and_commands_hidden() {
    let server = server(&[("submit", json!({}))]);
    let run = with_bundle(&server, None)
        .args([
            "-c",
            "tools.bash_tool=false",
            "-c",
            "tools.hidden=[\"note\"]",
        ])
        .run()
        .expect(0);
    assert_eq!(run.stdout, "");
    let body: Value = serde_json::from_slice(&server.requests()[0].body).unwrap();
    assert_eq!(body["tools"].as_array().unwrap().len(), 1);
    assert!(Path::new(&run.dir.join("tools-root/tools/mine/bin/note")).is_file());
    let patch = fs::read_to_string(run.dir.join("tools-root/model.patch"));
    assert_eq!(patch.unwrap(), "");
}

#[test]
fn files_that_became_pipes_or_devices_hold_no_step() {
    let submit = "echo '<<SWE_AGENT_SUBMISSION>>'";
    let call = |text: &str| ("bash", json!({"command": format!("{text}; {submit}")}));
    let server = server(&[
        call("rm -f $TOOLS_ROOT/model.patch; mkfifo $TOOLS_ROOT/model.patch"),
        call("ln -sf /dev/zero $TOOLS_ROOT/model.patch; ln -sf /dev/zero $TOOLS_ROOT/state.json"),
        call("rm $TOOLS_ROOT/model.patch $TOOLS_ROOT/state.json"),
        ("note", json!({"text": "w"})),
        ("submit", json!({})),
    ]);
    let started = Instant::now();
    let run = with_bundle(&server, None).run().expect(0);
    assert!(started.elapsed() < Duration::from_secs(20), "{run}");
    assert_eq!(run.stdout, "w\n", "{run}");
}

/// The messages of each request after the task: `role: text`.
fn asked(server: &Server) -> Vec<Vec<String>> {
    let requests = server.requests().into_iter();
    let messages = requests.map(|request| request.json()["messages"].as_array().cloned().unwrap());
    let text = |message: &Value| {
        let (role, content) = (&message["role"], &message["content"]);
        format!(
            "{}: {}",
            role.as_str().unwrap(),
            content.as_str().unwrap_or_default()
        )
    };
    messages
        .map(|messages| messages[2..].iter().map(text).collect())
        .collect()
}

#[test]
fn under_swe_agent_s_rules_questions_are_temporary_and_ends_submit() {
    let bash = |command: &str| Turn::tool_call("bash", json!({ "command": command }));
    let server = Server::start(Scenario::new([
        bash("echo 'not closed"),
        bash("echo fine"),
        bash("echo '###SWE-AGENT-RETRY-WITH-OUTPUT###'; echo look"),
        Turn::text("no call"),
        Turn::text("again none"),
        Turn::text("and none"),
    ]));
    let run = with_bundle(&server, None)
        .args(["-c", "agent.rules=swe-agent"])
        .args(["-c", "agent.salvage_command=echo the work"])
        .args([
            "-c",
            "agent.syntax_error_template=unreadable: {{ bash_stderr }}",
        ])
        .args(["-c", "model.format_error_template=call a tool"])
        .run()
        .expect(4);
    assert_eq!(run.stdout, "the work\n");
    let kept = fs::metadata(run.dir.join("tools-root/tools/.mswea-shell")).unwrap();
    assert_eq!(
        kept.permissions().mode() & 0o077,
        0,
        "others read variables"
    );
    let info = &run.trajectory()["info"];
    assert_eq!(info["exit_status"], "submitted (exit_format)");
    assert_eq!(info["submission"], "the work\n");
    let asked = asked(&server);
    assert_eq!(asked[0].len(), 0);
    // The call is not in the question, because it has no result.
    assert_eq!(asked[1].len(), 1, "{:?}", asked[1]);
    assert!(asked[1][0].contains("unexpected EOF"), "{:?}", asked[1]);
    // Nothing of it is left once there is a usable command.
    assert_eq!(asked[2].len(), 2, "{:?}", asked[2]);
    assert!(asked[2][1].starts_with("tool: fine"), "{:?}", asked[2]);
    assert!(asked[3][2].starts_with("user: look"), "{:?}", asked[3]);
    assert_eq!(
        asked[4][2..],
        ["assistant: no call", "user: call a tool"],
        "{:?}",
        asked[4]
    );
    assert_eq!(asked[5].len(), 4, "{:?}", asked[5]);
    assert_eq!(asked.len(), 6);

    // The model gives up.
    let server = Server::start(Scenario::new([
        bash("echo one"),
        bash("echo '###SWE-AGENT-EXIT-FORFEIT###'"),
    ]));
    let run = with_bundle(&server, None)
        .args(["-c", "agent.rules=swe-agent"])
        .run()
        .expect(1);
    assert_eq!(run.trajectory()["info"]["exit_status"], "exit_forfeit");
}
