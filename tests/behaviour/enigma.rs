//! Programs that stay open between the commands of tools (EnIGMA's): gdb, network connections, any other.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::thread;

use scripted_server::{Scenario, Server, Turn};
use serde_json::{Value, json};

use crate::host::Host;
use crate::needs::Need;
use crate::remote;
use crate::run::Run;

pub(crate) const DONE: &str = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo done";

pub(crate) fn server(calls: &[(&str, Value)]) -> Server {
    let turns = calls
        .iter()
        .map(|(name, arguments)| Turn::tool_call(name, arguments.clone()));
    Server::start(Scenario::new(turns.collect::<Vec<_>>()).by_history())
}

/// A host whose model calls these tools.
pub(crate) fn with_tools(server: &Server, bundles: &[&str], root: Option<&str>) -> Host {
    let host = Host::new().server(server).task("look into it");
    let root = root.map_or_else(
        || host.dir().join("tools-root").display().to_string(),
        str::to_owned,
    );
    let bundles = Value::from(bundles.to_vec());
    host.file(
        "tools.toml",
        format!(
            "[environment]\nsession = true\n[pipeline]\nparser = \"function_calling\"\nformatter = \"swe_agent\"\n\
             [plugins.swe_agent.config]\nnext_step_template = \"{{{{ observation }}}}|{{{{ interactive_session | default('none') }}}}\"\n\
             [tools]\nroot = \"{root}\"\nbundles = {bundles}\n"
        ),
    )
    .args(["-c", "tools.toml"])
}

/// What the model saw of each call but the last.
pub(crate) fn seen(run: &Run) -> Vec<String> {
    let messages = run.trajectory()["messages"].as_array().cloned().unwrap();
    let tools = messages.iter().filter(|message| message["role"] == "tool");
    tools
        .map(|message| message["content"].as_str().unwrap().to_owned())
        .collect()
}

/// Each text has all of its parts.
pub(crate) fn assert_parts(seen: &[String], expected: &[&[&str]]) {
    assert!(seen.len() >= expected.len(), "{seen:#?}");
    for (index, (text, parts)) in seen.iter().zip(expected).enumerate() {
        for part in *parts {
            assert!(text.contains(part), "{index}: no {part:?} in {text}");
        }
    }
}

const PROGRAM: &str = "#include <stdio.h>\n#include <unistd.h>\nint twice(int x) { return 2 * x; }\n\
    int main(int argc, char **argv) {\n  char line[9] = \"\";\n  if (argc > 1) for (;;) sleep(1);\n  \
    fgets(line, sizeof line, stdin);\n  printf(\"got %s and %d\\n\", line, twice(argc + 20));\n  return 7;\n}\n";

fn compiled(folder: &Path) {
    std::fs::write(folder.join("p.c"), PROGRAM).unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-g", "-O0", "-o", "a program", "p.c"]);
    assert!(cc.current_dir(folder).status().unwrap().success());
}

#[test]
fn a_program_is_debugged_step_by_step() {
    if !Need::Gdb.is_met() {
        return;
    }
    let marks = "printf '<<INTERACTIVE||SESSION=gdb||INTERACTIVE>>\\n<<INTERACTIVE||print 1||INTERACTIVE>>\\n'";
    let server = server(&[
        ("debug_step", json!({})),
        ("debug_start", json!({"binary": "./none"})),
        ("debug_start", json!({"binary": "p.c"})),
        (
            "debug_start",
            json!({"binary": "./a program", "args": "< in.txt"}),
        ),
        ("debug_add_breakpoint", json!({"breakpoint": "twice"})),
        ("debug_continue", json!({})),
        ("debug_exec", json!({"command": "print x + 1"})),
        ("debug_step", json!({"number": 2})),
        ("debug_step", json!({"number": 0})),
        (
            "connect_start",
            json!({"server_address": "127.0.0.1", "port": 1}),
        ),
        ("debug_start", json!({"binary": "./a program"})),
        ("bash", json!({ "command": marks })),
        (
            "bash",
            json!({"command": "(cd / && debug_exec 'info line')"}),
        ),
        ("debug_continue", json!({})),
        ("debug_exec", json!({"command": "nonsense"})),
        ("debug_stop", json!({})),
        ("debug_stop", json!({})),
        ("debug_start", json!({"binary": "./a program"})),
        ("debug_exec", json!({"command": "quit"})),
        ("bash", json!({ "command": DONE })),
    ]);
    let host = with_tools(&server, &["debug", "server_connection"], None).file("in.txt", "hello\n");
    compiled(&host.dir());
    let run = host.run().expect(0);
    let open = "|gdb ./a program < in.txt";
    assert_parts(
        &seen(&run),
        &[
            &["`gdb` is not running", "`debug_start`", "|n/a"],
            &["./none does not exist", "|n/a"],
            &["p.c is not an executable file", "|n/a"],
            &["Program stopped.", "_start", open],
            &["Breakpoint 1 at", open],
            &["Breakpoint 1, twice (x=21)", open],
            &["$1 = 22", open],
            &["int twice(int x)", open],
            &["Usage: debug_step", open],
            &["`gdb` is open", "`debug_stop`", open],
            &["`gdb` is open", "`debug_stop`", open],
            // Texts that a command of another kind prints do not reach the debugger.
            &["<<INTERACTIVE||print 1||INTERACTIVE>>", open],
            &["Line ", open],
            &["got hello", " and 42", "exited with code 07", open],
            &["Undefined command", open],
            &["`gdb` is closed.", "|n/a"],
            &["`gdb` is not running", "|n/a"],
            &["Program stopped.", "|gdb ./a program"],
            &["|n/a"],
        ],
    );
    for text in seen(&run) {
        assert!(!text.contains("(gdb)"), "{text}");
    }
}

#[test]
fn a_program_that_does_not_answer_is_interrupted() {
    if !Need::Gdb.is_met() {
        return;
    }
    let server = server(&[
        (
            "debug_start",
            json!({"binary": "./a program", "args": "wait"}),
        ),
        ("debug_continue", json!({})),
        ("debug_exec", json!({"command": "print argc * 0 + 5"})),
        ("debug_exec", json!({"command": "up 20"})),
        ("bash", json!({ "command": DONE })),
    ]);
    let host = with_tools(&server, &["debug"], None).args(["-c", "environment.timeout=3"]);
    compiled(&host.dir());
    let run = host.run().expect(0);
    assert_parts(
        &seen(&run),
        &[
            &["Program stopped."],
            &[
                "received signal SIGINT",
                "within 3 seconds",
                "|gdb ./a program wait",
            ],
            &["|gdb "],
            &["main (argc=2"],
        ],
    );
}

/// A server that greets its only client, and answers each line.
fn greeter() -> (u16, thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let answering = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        drop(listener);
        let mut heard = String::new();
        stream.write_all(b"welcome, name?\n").unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap());
        loop {
            let mut line = Vec::new();
            if lines.read_until(b'\n', &mut line).unwrap() == 0 {
                break;
            }
            heard.push_str(&format!("{}\n", line.escape_ascii()));
            let answer = [b"you said ", &line[..], b"(nc) \xff\n"].concat();
            if stream.write_all(&answer).is_err() || line == b"bye\n" {
                break;
            }
        }
        heard
    });
    (port, answering)
}

#[test]
fn a_server_is_talked_to() {
    let (port, answering) = greeter();
    let server = server(&[
        ("connect_sendline", json!({"line": "x"})),
        (
            "connect_start",
            json!({"server_address": "127.0.0.1", "port": port}),
        ),
        ("connect_sendline", json!({"line": "it's \"me\" $HOME"})),
        ("connect_sendline", json!({"line": "\\x41\\xffz\nmore"})),
        ("connect_sendline", json!({"line": "\\xzz"})),
        ("connect_exec", json!({"command": "nonsense 1"})),
        ("connect_exec", json!({"command": "send bye\\n"})),
        ("connect_sendline", json!({})),
        ("connect_exec", json!({"command": "close"})),
        ("connect_stop", json!({})),
        (
            "connect_start",
            json!({"server_address": "127.0.0.1", "port": port}),
        ),
        ("bash", json!({ "command": DONE })),
    ]);
    let run = with_tools(&server, &["server_connection"], None)
        .run()
        .expect(0);
    let open = format!("|connect 127.0.0.1 {port}");
    let open = open.as_str();
    assert_parts(
        &seen(&run),
        &[
            &["`connect` is not running", "`connect_start`", "|n/a"],
            &["welcome, name?\n", open],
            &["you said it's \"me\" $HOME\n(nc)\\x20\\xff\n", open],
            &["you said A\\xffz\n", open],
            &["two hexadecimal digits", open],
            &["no command nonsense", "sendline TEXT", open],
            &[
                "you said bye\n",
                "the server has closed the connection",
                open,
            ],
            &["There is no connection", open],
            &["There is no connection", open],
            &["`connect` is closed.", "|n/a"],
            &["can't be reached", open],
        ],
    );
    assert_eq!(
        answering.join().unwrap(),
        "it\\'s \\\"me\\\" $HOME\\n\nA\\xffz\\n\nmore\\n\nbye\\n\n"
    );
}

const MANIFEST: &str = r#"
tools:
  dummy_start: {}
  dummy_send:
    signature: dummy_send <line>
    arguments:
      - {name: line, type: string, required: true}
  dummy_stop: {}
interactive_sessions:
  dummy:
    cmdline: "_repl --flag"
    terminal_prompt_pattern: "(d.*y$) "
    start_command: dummy_start
    exit_command: dummy_stop
    quit_commands_in_session: [quit]
    signal_for_interrupt_limit: 2
    timeout_duration_on_interrupt: 2
    no_output_timeout: 1
"#;

/// Prompts, and does what its lines say; variables of the bundle's installation are there.
const REPL: &str = r#"#!/bin/bash
echo "banner (d.*y$)"
trap 'echo interrupted' INT
while printf '(d.*y$) ' && read -r line; do
  case "$line" in
    die) exit 3 ;;
    hang) sleep 60 ;;
    deaf) trap '' INT; sleep 60 ;;
    quit) exit 0 ;;
    *) echo "$1 $FROM_INSTALL $line"; (sleep 0.4; echo late) & ;;
  esac
done
"#;

pub(crate) fn marked(lines: &[&str]) -> String {
    let lines = ["SESSION=dummy"]
        .iter()
        .chain(lines)
        .map(|line| format!("echo \"<<INTERACTIVE||{line}||INTERACTIVE>>\"\n"));
    format!("#!/bin/sh\necho noise\n{}", lines.collect::<String>())
}

/// Calls of a bundle with a program of its own.
fn dummy(root: Option<&str>, options: &[&str]) -> Vec<String> {
    let send = |line: &str| ("dummy_send", json!({ "line": line }));
    let wait = ("bash", json!({"command": "sleep 1"}));
    let start = ("dummy_start", json!({}));
    let server = server(&[
        start.clone(),
        send("a"),
        wait,
        send("b"),
        send("hang"),
        send("deaf"),
        start.clone(),
        send("die"),
        send("c"),
        start.clone(),
        start,
        ("dummy_stop", json!({})),
        ("bash", json!({ "command": DONE })),
    ]);
    seen(&with_dummy(&server, root).args(options).run().expect(0))
}

fn with_dummy(server: &Server, root: Option<&str>) -> Host {
    with_tools(server, &["./b/dummy"], root)
        .file("b/dummy/config.yaml", MANIFEST)
        .file("b/dummy/install.sh", "export FROM_INSTALL=yes\n")
        .file("b/dummy/bin/_repl", REPL)
        .file("b/dummy/bin/dummy_start", marked(&["START"]))
        .file("b/dummy/bin/dummy_send", marked(&["$1"]))
        .file("b/dummy/bin/dummy_stop", marked(&["quit", "STOP"]))
}

const DUMMY: &[&[&str]] = &[
    &["|dummy"],
    &["--flag yes a\n|dummy"],
    &["|dummy"],
    // What came between the calls is not lost.
    &["late\n--flag yes b\n|dummy"],
    &["interrupted", "printed nothing for 1 seconds", "|dummy"],
    &["has not come back to its prompt", "`dummy_start`", "|n/a"],
    &["|dummy"],
    &["has ended (exit code 3)", "`dummy_start`", "|n/a"],
    &["`dummy` is not running", "`dummy_start`", "|n/a"],
    &["|dummy"],
    &["`dummy` is open", "`dummy_stop`", "|dummy"],
    &["`dummy` is closed.\n|n/a"],
];

#[test]
fn any_bundle_may_keep_a_program_open() {
    assert_parts(&dummy(None, &[]), DUMMY);
}

#[test]
fn programs_stay_open_in_containers() {
    if Need::Docker.is_met() {
        let options = ["--image", "mswea-test/bash"];
        assert_parts(&dummy(Some("/root"), &options), DUMMY);
    }
}

/// The options of a run at a server with this flag; the server lives as long as the first value.
fn at_server(class: &str, flags: &[&str]) -> (impl Sized + use<>, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let token = remote::private(folder.path().join("token"), remote::TOKEN);
    let (served, url) = remote::serve(flags);
    let options = [
        format!("environment.environment_class={class}"),
        format!("environment.url={url}"),
        format!("environment.token_file={}", token.display()),
    ];
    let options = options.into_iter().flat_map(|it| ["-c".to_owned(), it]);
    ((folder, served), options.collect())
}

fn texts(options: &[String]) -> Vec<&str> {
    options.iter().map(String::as_str).collect()
}

#[test]
fn programs_stay_open_behind_a_connection() {
    let reached = "environment.connect=[\"env\"]";
    let class = "environment.environment_class=command";
    assert_parts(&dummy(None, &["-c", class, "-c", reached]), DUMMY);
    let (_served, options) = at_server("remote", &[]);
    assert_parts(&dummy(None, &texts(&options)), DUMMY);
}

/// The helper of the commands is opened again, and ends what the one before has left: not the program.
#[test]
fn a_program_outlives_the_helper_of_the_commands() {
    let server = server(&[
        ("dummy_start", json!({})),
        ("bash", json!({"command": "kill -9 $PPID"})),
        ("bash", json!({"command": "echo again"})),
        ("dummy_send", json!({"line": "a"})),
        ("dummy_stop", json!({})),
        ("bash", json!({ "command": DONE })),
    ]);
    let options = [
        "environment.environment_class=command",
        "environment.connect=[\"env\"]",
    ];
    let host = with_dummy(&server, None);
    let host = options
        .iter()
        .fold(host, |host, option| host.args(["-c", option]));
    let seen = seen(&host.run().expect(0));
    assert_parts(
        &seen[2..],
        &[&["again"], &["--flag yes a\n|dummy"], &["is closed.\n|n/a"]],
    );
}

#[test]
fn a_server_of_swe_rex_keeps_no_program_open() {
    let (_served, options) = at_server("swerex", &["--swerex"]);
    let server = server(&[("dummy_start", json!({}))]);
    let host = with_tools(&server, &["./b/dummy"], None).file("b/dummy/config.yaml", MANIFEST);
    let run = host.args(texts(&options)).run().expect(6);
    run.says(&["`dummy`", "a server of SWE-ReX can't", "`remote`"]);
    assert_eq!(server.requests().len(), 0);
}

#[test]
fn wrong_sessions_are_told_at_the_start() {
    let session = |more: &str| {
        format!(
            "tools: {{}}\ninteractive_sessions:\n  s:\n    cmdline: cat\n    terminal_prompt_pattern: '> '\n    \
             start_command: a\n    exit_command: b\n{more}"
        )
    };
    for (manifest, parts) in [
        (
            "tools: {}\ninteractive_sessions:\n  s:\n    cmdline: cat\n".to_owned(),
            &["config.yaml:3:3", "`terminal_prompt_pattern`", "(gdb) "][..],
        ),
        (
            session("    prompt: x\n"),
            &["config.yaml:8:5", "no key `prompt`"],
        ),
        (
            session("    signal_for_interrupt_limit: often\n"),
            &["config.yaml:8:33", "`signal_for_interrupt_limit`", "number"],
        ),
        (
            session("    no_output_timeout: 0\n"),
            &["config.yaml:8:24", "`no_output_timeout`", "above 0"],
        ),
        (
            session("    quit_commands_in_session: quit\n"),
            &["config.yaml:8:31", "`[quit]`"],
        ),
        (
            session("").replace("cmdline: cat", "cmdline: no-such-program -x"),
            &[
                "config.yaml:3:3",
                "`no-such-program`",
                "`workspace.startup_commands`",
            ],
        ),
        (
            "tools: {}\nrequired_programs: [sh, no-such-program]\n".to_owned(),
            &[
                "config.yaml:2:25",
                "`no-such-program`",
                "leave out the bundle",
            ],
        ),
        (
            "tools: {}\nrequired_programs: sh\n".to_owned(),
            &["config.yaml:2:20", "`required_programs` is no list"],
        ),
    ] {
        let server = server(&[("x", json!({}))]);
        let run = with_tools(&server, &["./b/mine"], None)
            .file("b/mine/config.yaml", &manifest)
            .run();
        assert!([2, 6].contains(&run.status), "{run}");
        run.says(parts);
        assert_eq!(server.requests().len(), 0, "{manifest}");
    }
}
