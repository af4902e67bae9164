//! What challenges of EnIGMA need besides programs that stay open: flags, long outputs, the analysis of programs, and
//! `challenge.json`.

use std::process::Command;

use scripted_server::{Scenario, Server, Turn};
use serde_json::{Value, json};

use crate::enigma::{DONE, assert_parts, seen, server, with_tools};
use crate::host::Host;

#[test]
fn only_the_flag_is_a_submission() {
    let server = server(&[
        ("submit", json!({"flag": "flag{no}"})),
        ("submit", json!({"flag": "w'a r"})),
    ]);
    let run = with_tools(&server, &["submit_ctf"], None)
        .args(["-c", "tools.flag=\"flag{w'a r}\""])
        .run()
        .expect(0);
    assert_eq!(run.stdout, "w'a r\n");
    assert_parts(&seen(&run), &[&["This is not the flag."]]);
}

/// Answers as radare2 does, for a program with two functions.
const RADARE: &str = r#"#!/bin/sh
printf '%s\n' "$*" >>calls
case "$*" in
  *aflj*) echo '[{"offset":4096,"name":"entry0"},{"offset":4198,"name":"sym.check"}]' ;;
  *pdg*) echo 'You need to install the plugin with r2pm -ci r2ghidra' ;;
  *pdd*) ;;
  *s\ 4198\;pdc*) echo 'void sym.check () { }' ;;
  *s\ 4096\;pdf*) echo 'push rbp' ;;
esac
"#;

#[test]
fn functions_are_shown_by_radare2() {
    let server = server(&[
        (
            "decompile",
            json!({"binary_path": "p", "function_name": "check"}),
        ),
        ("disassemble", json!({"binary_path": "p"})),
        (
            "decompile",
            json!({"binary_path": "p", "function_name": "none"}),
        ),
        ("disassemble", json!({"binary_path": "q"})),
        ("bash", json!({ "command": DONE })),
    ]);
    let host = with_tools(&server, &["static_analysis"], None).file("p", "\x7fELF");
    let path = host.dir().join("programs");
    let host = host.file("programs/r2", RADARE);
    use std::os::unix::fs::PermissionsExt as _;
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(path.join("r2"), mode).unwrap();
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", path.display());
    let run = host.env("PATH", path).run().expect(0);
    assert_parts(
        &seen(&run),
        &[
            &["The function check is sym.check here.\nvoid sym.check () { }"],
            &["The function main is entry0 here.\npush rbp"],
            &["has no function none", "entry0, sym.check"],
            &["q is no file"],
        ],
    );
    let calls = std::fs::read_to_string(run.dir.join("calls")).unwrap();
    assert!(
        calls
            .lines()
            .all(|call| call.starts_with("-N ") && call.ends_with("/p")),
        "{calls}"
    );
    // Without radare2 the bundle is refused by name.
    if works("r2") || works("radare2") {
        return;
    }
    let server = Server::start(Scenario::new([Turn::text("x")]));
    let run = with_tools(&server, &["static_analysis"], None).run();
    assert_eq!(run.status, 6, "{run}");
    run.says(&[
        "`static_analysis` needs the program `r2`",
        "leave out the bundle",
    ]);
}

fn works(program: &str) -> bool {
    let script = format!("command -v {program}");
    let found = Command::new("sh").args(["-c", &script]).output();
    found.is_ok_and(|it| it.status.success())
}

#[test]
fn a_long_output_goes_into_a_file() {
    let server = server(&[
        ("bash", json!({"command": "seq 300 # é/x"})),
        ("bash", json!({"command": "pwd"})),
        ("open", json!({"path": "long.txt"})),
        ("bash", json!({ "command": DONE })),
    ]);
    let lines: String = (1..=200).map(|line| format!("line {line}\n")).collect();
    let run = with_tools(&server, &["windowed"], None)
        .file("long.txt", lines)
        .args(["-c", "tools.long_outputs=open"])
        .run()
        .expect(0);
    let file = run.dir.join("tools-root/output/seq_300___é_x");
    let file = file.canonicalize().unwrap();
    let name = file.display().to_string();
    let seen = seen(&run);
    assert_parts(
        &seen,
        &[
            &[
                "300 lines",
                &name,
                "(300 lines total)]\n1:1\n",
                "\n100:100\n(200 more",
            ],
            &[],
            &["line 100\n(100 more"],
        ],
    );
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(
        text.starts_with("1\n2\n") && text.ends_with("300\n"),
        "{text}"
    );
    let server = Server::start(Scenario::new([Turn::text("x")]));
    let run = with_tools(&server, &["submit_ctf"], None)
        .args(["-c", "tools.long_outputs=open"])
        .run()
        .expect(2);
    run.says(&["`tools.long_outputs`", "`open`", "`windowed`"]);
}

pub(crate) const CTF: &str = "
agent:
  templates:
    system_template: '{{flag_format}} {{command_docs}}'
    instance_template: '{{category_friendly}}: {{name}} ({{points}}), {{description}} {{files}} {{server_description}} {{repo}}'
    next_step_template: '{{observation}}|{{interactive_session}}'
  tools:
    bundles:
      - path: tools/windowed
      - path: tools/server_connection
      - path: tools/submit_ctf
  summarizer_config:
    function: LMSummarizer
    window_length: 50
    system_template: 'at most {{summarizer_window_length}} lines'
    instance_template: 'For {{name}}: `{{command}}` printed {{observation}}'
";

pub(crate) const CHALLENGE: &str = r#"{
  "name": "Warm Up!", "category": "pwn", "description": "Easy one", "flag": "flag{right}", "points": 50,
  "box": "pwn.example", "internal_port": 8000, "files": ["a b.txt", "src"]
}"#;

pub(crate) fn challenge() -> Host {
    Host::new()
        .file("ctf.yaml", CTF)
        .file("my task/challenge.json", CHALLENGE)
        .file("my task/a b.txt", "inside\n")
        .file("my task/src/x.c", "int x;\n")
        .file("my task/flag.txt", "flag{right}\n")
        .file("my task/docker-compose.yml", "services: {}\n")
}

pub(crate) fn ctf(server: &Server, more: &[&str]) -> Vec<String> {
    let words = [
        "sweagent",
        "run",
        "--config=ctf.yaml",
        "--agent.model.name=openai/m",
        "--agent.model.api_key=k",
        "--agent.model.per_instance_cost_limit=0",
        "--env.deployment.type=local",
        "--output_dir=out",
        &format!("--agent.model.api_base={}", server.url()),
    ];
    let words = words.iter().chain(more);
    words.map(|word| (*word).to_owned()).collect()
}

#[test]
fn a_challenge_ends_with_its_flag() {
    let server = Server::start(Scenario::new([
        Turn::tool_call("bash", json!({"command": "ls; cat 'a b.txt'"})),
        Turn::tool_call("bash", json!({"command": "seq 60"})),
        Turn::text("sixty numbers"),
        Turn::tool_call("submit", json!({"flag": "flag{wrong}"})),
        Turn::tool_call("submit", json!({"flag": "right"})),
    ]));
    let paths = ["--problem_statement.path=my task/challenge.json"];
    let run = challenge().args(ctf(&server, &paths)).run().expect(0);
    let run = run.says(&["docker-compose.yml", "--network,ctfnet"]);
    let folder = run.dir.join("out/pwn_WarmUp");
    let made = crate::sweagent::read(&folder.join("pwn_WarmUp.traj"));
    assert_eq!(made["info"]["exit_status"], "submitted");
    assert_eq!(made["info"]["submission"], "right");
    let steps = made["trajectory"].as_array().unwrap();
    let seen: Vec<&str> = steps
        .iter()
        .map(|step| step["observation"].as_str().unwrap())
        .collect();
    assert_eq!(seen[0], "a b.txt\nsrc\ninside\n");
    assert!(
        seen[1].starts_with("The output has 60 lines"),
        "{}",
        seen[1]
    );
    assert!(seen[2].starts_with("This is not the flag."), "{}", seen[2]);
    let bodies: Vec<Value> = server
        .requests()
        .iter()
        .map(|request| serde_json::from_slice(&request.body).unwrap())
        .collect();
    let text = |request: usize, message: usize| {
        let text = &bodies[request]["messages"][message]["content"];
        text.as_str()
            .map_or_else(|| text.to_string(), str::to_owned)
    };
    assert!(text(0, 0).starts_with("flag{...} "), "{}", text(0, 0));
    let task = text(0, 1);
    for part in [
        "binary exploitation: Warm Up! (50), Easy one",
        "a b.txt",
        "connect_start pwn.example 8000",
        "my-task",
    ] {
        assert!(task.contains(part), "{task}");
    }
    assert_eq!(text(2, 0), "at most 50 lines");
    assert!(
        text(2, 1).starts_with("For Warm Up!: `seq 60` printed 1\n2\n"),
        "{}",
        text(2, 1)
    );
    let summary = text(3, 5);
    assert!(summary.contains("\n\nSUMMARY:\nsixty numbers"), "{summary}");
    assert!(summary.ends_with("|n/a"), "{summary}");
    // The flag is in no file of the run.
    let listed = Command::new("grep")
        .args(["-rl", "flag{right}", "out"])
        .current_dir(&run.dir)
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&listed.stdout), "");
}

#[test]
fn a_challenge_that_is_given_up_submits_nothing() {
    let server = Server::start(Scenario::new([
        Turn::tool_call(
            "bash",
            json!({"command": "echo more >>'a b.txt'; git init -q . || true"}),
        ),
        Turn::tool_call("bash", json!({"command": "exit"})),
    ]));
    let more = [
        "--problem_statement.path=my task/challenge.json",
        "--problem_statement.type=ctf_json",
        "--problem_statement.extra_fields.points=7",
        "--env.repo.type=ctf",
        "--env.repo.path=my task",
        "--agent.model.per_instance_call_limit=1",
    ];
    let run = challenge().args(ctf(&server, &more)).run();
    assert_ne!(run.status, 0);
    let made = run.dir.join("out/pwn_WarmUp/pwn_WarmUp.traj");
    let made = crate::sweagent::read(&made);
    assert_eq!(made["info"]["submission"], Value::Null);
    assert_eq!(made["info"]["exit_status"], "exit_cost");
    for (more, parts) in [
        (
            &[
                "--env.repo.type=ctf",
                "--env.repo.path=x",
                "--problem_statement.text=x",
            ][..],
            &["`ctf`", "`problem_statement.path`"][..],
        ),
        (
            &[
                "--problem_statement.path=my task/challenge.json",
                "--env.repo.github_url=o/r",
            ],
            &["env.repo.github_url", "`challenge.json` lists"],
        ),
        (
            &["--problem_statement.path=none/challenge.json"],
            &["none/challenge.json", "can't be read"],
        ),
        (
            &[
                "--problem_statement.text=x",
                "--agent.summarizer_config.function=Simple",
            ],
            &["`Simple`", "`SimpleSummarizer`"],
        ),
    ] {
        let run = challenge().args(ctf(&server, more)).run().expect(2);
        run.says(parts);
    }
}
