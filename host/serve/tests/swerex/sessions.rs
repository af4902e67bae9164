//! Sessions: commands, interactive programs, interruptions, ends.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{Rex, line};

/// A command of a session, its output and its exit code. Behaviour of SWE-ReX 1.4.0 with `TERM=dumb`, but
/// for those that say `ours`.
const VECTORS: &[(&str, &str, i32)] = &[
    ("echo hi", "hi\n", 0),
    ("echo -n hi", "hi", 0),
    ("false", "", 1),
    ("true", "", 0),
    ("echo a\nfalse", "a\n", 1),
    ("false\necho a", "a\n", 0),
    ("(exit 3)", "", 3),
    ("# only a comment", "", 0),
    ("", "", 0),
    ("\n\n", "", 0),
    ("cat <<'X'\na $b\n\nc\nX", "a $b\n\nc\n", 0),
    ("for i in 1 2; do echo $i; done", "1\n2\n", 0),
    ("if false; then echo a; else echo b; fi", "b\n", 0),
    ("case x in x) echo in;; esac", "in\n", 0),
    ("a=(1 2 3); echo ${a[1]}", "2\n", 0),
    ("[[ a == a ]] && echo same", "same\n", 0),
    ("echo a \\\n  b", "a b\n", 0),
    ("printf '\\n\\nx\\n\\n\\n'", "\n\nx\n\n\n", 0),
    ("printf '  two'", "  two", 0),
    ("echo err >&2", "err\n", 0),
    ("printf 'a\\xffb'", "a\\xffb", 0),
    ("printf 'a\\rb\\n'", "a\rb\n", 0),
    ("printf 'a\\r\\nb\\r\\n'", "a\nb\n", 0),
    ("printf '\\033[31mred\\033[0m\\n'", "red\n", 0),
    ("test -t 1 && stty size", "24 80\n", 0),
    ("echo \"$TERM\"", "dumb\n", 0),
    // Ours: there are no marks in the output.
    ("echo SHELLPS1PREFIX", "SHELLPS1PREFIX\n", 0),
    ("echo UNIQUESTRING29234", "UNIQUESTRING29234\n", 0),
    (
        "echo EXITCODESTART7EXITCODEEND",
        "EXITCODESTART7EXITCODEEND\n",
        0,
    ),
    ("cat <<X\nSOUNIQUEEOF\nX", "SOUNIQUEEOF\n", 0),
    // Ours: no notices of jobs.
    ("(sleep 30) & echo begun", "begun\n", 0),
    ("cd /; x=1; export Y=2; f() { echo f$x; }", "", 0),
    ("pwd; echo $Y; f", "/\n2\nf1\n", 0),
    ("echo $?", "0\n", 0),
];

#[test]
fn commands_in_a_session() {
    let rex = Rex::start();
    rex.open("default");
    for (command, output, exit_code) in VECTORS {
        let found = rex.ok("/run_in_session", &line(command, json!({})));
        let wanted = json!({
            "output": output,
            "exit_code": exit_code,
            "failure_reason": "",
            "expect_string": "SHELLPS1PREFIX",
            "session_type": "bash",
        });
        assert_eq!(found, wanted, "{command}");
    }
    let found = rex.ok("/run_in_session", &line("nonesuch", json!({})));
    assert_eq!(found["exit_code"], 127);
    assert!(
        found["output"]
            .as_str()
            .unwrap()
            .contains("command not found")
    );
    // Sizes.
    let long = "x".repeat(5000);
    let found = rex.ok("/run_in_session", &line(&format!("echo {long}"), json!({})));
    assert_eq!(found["output"], format!("{long}\n"));
    let found = rex.ok(
        "/run_in_session",
        &line("head -c 2000000 /dev/zero | tr '\\0' x", json!({})),
    );
    assert_eq!(found["output"].as_str().unwrap().len(), 2_000_000);
    let command = format!(": {}; echo end", "y".repeat(200_000));
    let found = rex.ok("/run_in_session", &line(&command, json!({})));
    assert_eq!(found["output"], "end\n");
    let found = rex.ok(
        "/run_in_session",
        &line(
            "head -c 50000000 /dev/zero | tr '\\0' x; echo end",
            json!({}),
        ),
    );
    let output = found["output"].as_str().unwrap();
    assert!(
        output.starts_with("[... ") && output.ends_with("xend\n"),
        "{}",
        &output[..60]
    );
    assert!(output.len() < 34_000_000);
}

#[test]
fn checks_of_the_exit_code() {
    let rex = Rex::start();
    rex.open("default");
    let run = |more: Value| line("echo out; (exit 4)", more);
    let (class, message) = rex.raised(
        "/run_in_session",
        &run(json!({ "check": "raise", "error_msg": "mine" })),
    );
    assert_eq!(class, "NonZeroExitCodeError");
    assert!(
        message.starts_with("mine: ") && message.contains("out") && message.contains('4'),
        "{message}"
    );
    let mut unset = run(json!({}));
    unset.as_object_mut().unwrap().remove("check");
    assert_eq!(
        rex.raised("/run_in_session", &unset).0,
        "NonZeroExitCodeError"
    );
    let found = rex.ok("/run_in_session", &run(json!({ "check": "ignore" })));
    assert_eq!(
        (&found["output"], &found["exit_code"]),
        (&json!("out\n"), &Value::Null)
    );
    for command in ["echo (", "echo 'a", "if true; then"] {
        let (status, value) = rex.post(
            "/run_in_session",
            &line(&format!("touch made\n{command}"), json!({})),
        );
        assert_eq!(status, 511);
        let exception = &value["swerexception"];
        assert_eq!(
            exception["class_path"],
            "swerex.exceptions.BashIncorrectSyntaxError"
        );
        let said = exception["extra_info"]["bash_stderr"].as_str().unwrap();
        assert!(said.contains("unexpected"), "{said}");
        assert!(!rex.dir().join("made").exists());
    }
    assert_eq!(
        rex.ok("/run_in_session", &line("echo on", json!({})))["output"],
        "on\n"
    );
}

#[test]
fn programs_are_typed_into() {
    let rex = Rex::start();
    rex.open("default");
    let program = |command: &str, expect: &[&str]| {
        let more = json!({ "is_interactive_command": true, "expect": expect });
        rex.ok("/run_in_session", &line(command, more))
    };
    let script =
        "while printf '(db) ' && read -r x && [ \"$x\" != quit ]; do echo \"<$x>\"; done; exit 5";
    let first = program(
        &format!("bash -c '{}'", script.replace('\'', "'\\''")),
        &[r"\(db\) "],
    );
    assert_eq!(first["expect_string"], r"\(db\) ");
    assert_eq!(
        (&first["output"], &first["exit_code"]),
        (&json!(""), &json!(0))
    );
    assert_eq!(program("one", &[r"\(db\) "])["output"], "<one>");
    // Echoed by programs that edit their lines.
    assert_eq!(program("<two", &[r"\(db\) "])["output"], "<<two>");
    let quit = json!({ "is_interactive_quit": true });
    let quit = rex.ok("/run_in_session", &line("quit", quit));
    assert_eq!(
        (&quit["output"], &quit["exit_code"]),
        (&json!(""), &json!(0))
    );
    // A plain line for an open program has its exit code.
    program(
        &format!("bash -c '{}'", script.replace('\'', "'\\''")),
        &[r"\(db\) "],
    );
    assert_eq!(
        rex.ok("/run_in_session", &line("quit", json!({})))["exit_code"],
        5
    );
    // A plain command whose output is matched goes on.
    let expect = json!({ "expect": ["b+"], "check": "ignore" });
    let found = rex.ok(
        "/run_in_session",
        &line("echo abbc; read x; echo [$x]", expect.clone()),
    );
    assert_eq!(
        (&found["output"], &found["expect_string"]),
        (&json!("a"), &json!("b+"))
    );
    assert_eq!(program("answer", &[])["output"], "c\n[answer]");
    let (class, _) = rex.raised(
        "/run_in_session",
        &line(
            "echo b; sleep 30",
            json!({ "expect": ["b"], "check": "raise" }),
        ),
    );
    assert_eq!(class, "NoExitCodeError");
    let (class, message) = rex.raised(
        "/run_in_session",
        &line(
            "x",
            json!({ "expect": ["("], "is_interactive_command": true }),
        ),
    );
    assert_eq!(class, "ValueError", "{message}");
}

#[test]
fn a_command_goes_on_after_its_time_until_it_is_interrupted() {
    let rex = Rex::start();
    rex.open("default");
    let interrupt = json!({ "action_type": "bash_interrupt", "session": "default" });
    let idle = rex.ok("/run_in_session", &interrupt);
    assert_eq!(
        (&idle["output"], &idle["exit_code"]),
        (&json!(""), &json!(0))
    );
    for command in [
        "echo begun; sleep 30",
        "echo begun; read x",
        "echo begun; while :; do sleep 0.01; done",
        // Killed.
        "echo begun; bash -c 'trap \"\" INT; while :; do sleep 1; done'",
    ] {
        let began = Instant::now();
        let (class, message) =
            rex.raised("/run_in_session", &line(command, json!({ "timeout": 0.3 })));
        assert_eq!(class, "CommandTimeoutError");
        assert!(message.contains("interrupt action"), "{message}");
        let (class, message) = rex.raised(
            "/run_in_session",
            &line("echo later", json!({ "timeout": 0.1 })),
        );
        assert_eq!(class, "CommandTimeoutError");
        assert!(
            message.contains("still runs") && message.contains("begun"),
            "{message}"
        );
        let ended = rex.ok("/run_in_session", &interrupt);
        assert!(
            ended["output"].as_str().unwrap().starts_with("begun"),
            "{ended}"
        );
        assert_eq!(ended["exit_code"], 0);
        assert!(
            began.elapsed() < Duration::from_secs(8),
            "{command}: {:?}",
            began.elapsed()
        );
        let found = rex.ok("/run_in_session", &line("x=${x-}; echo on", json!({})));
        assert_eq!(found["output"], "on\n", "{command}");
    }
    // A command that ends by itself is waited for, and its output is not part of the next one's.
    let (class, _) = rex.raised(
        "/run_in_session",
        &line("sleep 0.5; echo slow", json!({ "timeout": 0.1 })),
    );
    assert_eq!(class, "CommandTimeoutError");
    assert_eq!(
        rex.ok("/run_in_session", &line("echo fast", json!({})))["output"],
        "fast\n"
    );
    // While another request waits for it.
    let output = std::thread::scope(|scope| {
        let waiting =
            scope.spawn(|| rex.ok("/run_in_session", &line("echo begun; sleep 30", json!({}))));
        std::thread::sleep(Duration::from_millis(300));
        // The command is interrupted at once, and not after the time of a try.
        let mut interrupt = interrupt.clone();
        interrupt["timeout"] = json!(20);
        let began = Instant::now();
        assert_eq!(rex.ok("/run_in_session", &interrupt)["output"], "");
        assert!(began.elapsed() < Duration::from_secs(5));
        waiting.join().unwrap()
    });
    assert_eq!(
        (&output["output"], &output["exit_code"]),
        (&json!("begun\n"), &json!(130))
    );
}

#[test]
fn a_shell_that_ends_is_replaced_and_that_is_told() {
    let rex = Rex::start();
    rex.open("default");
    rex.ok("/run_in_session", &line("cd /; export Y=2", json!({})));
    for (command, code) in [("echo a; exit 3", 3), ("set -e; echo a; false", 1)] {
        let found = rex.ok("/run_in_session", &line(command, json!({})));
        assert_eq!(found["exit_code"], code);
        let output = found["output"].as_str().unwrap();
        assert!(output.starts_with("a\n[the shell has ended"), "{output}");
        let found = rex.ok("/run_in_session", &line("pwd; echo $Y", json!({})));
        assert_eq!(found["output"], "/\n2\n");
    }
}

#[test]
fn sessions_are_apart_and_end_once() {
    let rex = Rex::start();
    rex.open("default");
    rex.open("b");
    let (class, message) = rex.raised("/create_session", &json!({ "session_type": "bash" }));
    assert_eq!(
        (class.as_str(), message.as_str()),
        ("SessionExistsError", "session 'default' exists already")
    );
    rex.ok("/run_in_session", &line("x=1", json!({})));
    let found = rex.ok(
        "/run_in_session",
        &line("echo [$x]", json!({ "session": "b" })),
    );
    assert_eq!(found["output"], "[]\n");
    // In parallel.
    let began = Instant::now();
    std::thread::scope(|scope| {
        for session in ["default", "b"] {
            let rex = &rex;
            scope.spawn(move || {
                rex.ok(
                    "/run_in_session",
                    &line("sleep 3", json!({ "session": session })),
                )
            });
        }
        assert_eq!(
            rex.ok("/execute", &json!({ "command": ["echo", "a"] }))["stdout"],
            "a\n"
        );
        assert!(began.elapsed() < Duration::from_millis(2900));
    });
    assert!(
        began.elapsed() < Duration::from_millis(5900),
        "{:?}",
        began.elapsed()
    );
    let close = json!({ "session": "b", "session_type": "bash" });
    assert_eq!(
        rex.ok("/close_session", &close),
        json!({ "session_type": "bash" })
    );
    let (class, message) = rex.raised("/close_session", &close);
    assert_eq!(
        (class.as_str(), message.as_str()),
        ("SessionDoesNotExistError", "session 'b' does not exist")
    );
    let (class, _) = rex.raised("/run_in_session", &line("a", json!({ "session": "b" })));
    assert_eq!(class, "SessionDoesNotExistError");
    for number in 0..3 {
        rex.open(&number.to_string());
    }
    let (class, message) = rex.raised(
        "/create_session",
        &json!({ "session": "x", "session_type": "bash" }),
    );
    assert_eq!(class, "SwerexException");
    assert!(message.contains("--max-sessions"), "{message}");
    assert_eq!(rex.ok("/close", &Value::Null), json!({}));
    rex.open("default");
}

#[test]
fn a_command_that_waits_does_not_begin_in_a_session_that_is_closed() {
    let rex = Rex::start();
    rex.open("default");
    let began = Instant::now();
    std::thread::scope(|scope| {
        let run = |command: &'static str| {
            let rex = &rex;
            scope.spawn(move || {
                rex.post("/run_in_session", &line(command, json!({ "timeout": 60 })))
            })
        };
        let first = run("echo x >first; sleep 40");
        while !rex.dir().join("first").exists() {
            assert!(began.elapsed() < Duration::from_secs(20));
            std::thread::sleep(Duration::from_millis(20));
        }
        let second = run("echo x >second; sleep 40");
        std::thread::sleep(Duration::from_millis(500));
        rex.ok("/close_session", &json!({ "session_type": "bash" }));
        assert_eq!(second.join().unwrap().0, 511);
        first.join().unwrap();
    });
    assert!(
        began.elapsed() < Duration::from_secs(30),
        "{:?}",
        began.elapsed()
    );
    assert!(!rex.dir().join("second").exists());
}

#[test]
fn files_are_sourced_at_the_start() {
    let rex = Rex::start();
    let file = rex.dir().join("rc");
    std::fs::write(
        &file,
        "[ -z \"$PS1\" ] && return\nexport A=5\nPS1=mine\necho read\n",
    )
    .unwrap();
    let body = json!({ "session_type": "bash", "startup_source": ["./rc", "/none"], "startup_timeout": 5 });
    let opened = rex.ok("/create_session", &body);
    let output = opened["output"].as_str().unwrap();
    assert!(
        output.starts_with("read\n") && output.contains("/none"),
        "{output}"
    );
    assert_eq!(
        rex.ok("/run_in_session", &line("echo $A", json!({})))["output"],
        "5\n"
    );
    std::fs::write(&file, "sleep 30").unwrap();
    let body = json!({ "session_type": "bash", "session": "s", "startup_source": ["./rc"], "startup_timeout": 0.2 });
    assert_eq!(
        rex.raised("/create_session", &body).0,
        "CommandTimeoutError"
    );
    assert_eq!(
        rex.raised("/run_in_session", &line("a", json!({ "session": "s" })))
            .0,
        "SessionDoesNotExistError"
    );
}
