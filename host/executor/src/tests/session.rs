//! Actions that share a shell: what commands print and return, and what stays between them.

use super::*;

/// An executor whose actions share a shell.
pub(super) fn sharing() -> LocalExecutor {
    sharing_as(false)
}

/// The same; `pty`: with a terminal.
pub(super) fn sharing_as(pty: bool) -> LocalExecutor {
    LocalExecutor::new(LocalSettings {
        session: true,
        pty,
        cwd: Some("/tmp".into()),
        ..settings()
    })
}

/// One line for the model about the shell.
pub(super) fn is_told(output: &Output, words: &str) -> bool {
    let last = output.output.lines().last().unwrap_or_default();
    last.starts_with('[') && last.ends_with(']') && last.contains(words)
}

#[tokio::test]
async fn what_commands_print_and_return() {
    let mut executor = sharing();
    prints_and_returns(&mut executor).await;
    executor.cleanup().await;
}

/// SWE-ReX's vectors (reference 5.2), and further ones.
pub(crate) async fn prints_and_returns(executor: &mut impl Executor) {
    let long = "x".repeat(5000);
    let echo_long = format!("echo {long}");
    let long_line = format!("{long}\n");
    let vectors: &[(&str, &str, i32)] = &[
        ("echo hi", "hi\n", 0),
        ("echo -n hi", "hi", 0),
        ("echo '  leading'", "  leading\n", 0),
        ("printf '\\n\\nx\\n\\n\\n'", "\n\nx\n\n\n", 0),
        ("false", "", 1),
        ("echo a\nfalse", "a\n", 1),
        ("echo a\n\n\necho b\n", "a\nb\n", 0),
        ("echo a \\\n  b", "a b\n", 0),
        ("(exit 3)", "", 3),
        ("# a comment", "", 0),
        ("", "", 0),
        ("a=(1 2 3); echo ${a[1]} ${#a[@]}", "2 3\n", 0),
        ("case x in x) echo one;; *) echo two;; esac", "one\n", 0),
        ("for i in 1 2; do echo $i; done", "1\n2\n", 0),
        ("if [[ a == b ]]; then echo x; else echo y; fi", "y\n", 0),
        ("cat <<E\na\n\n  b\n\nE", "a\n\n  b\n\n", 0),
        (
            "cat <<'E' | tr a-z A-Z\n$x `y`\nE\necho z",
            "$X `Y`\nz\n",
            0,
        ),
        (
            "nosuchcommand",
            "bash: nosuchcommand: command not found\n",
            127,
        ),
        ("echo err >&2; echo out", "err\nout\n", 0),
        ("return 4; echo never", "", 4),
        (
            "break; echo on",
            "bash: break: only meaningful in a `for', `while', or `until' loop\non\n",
            0,
        ),
        ("read x; echo \"$?-$x\"", "1-\n", 0),
        ("cat", "", 0),
        ("printf 'a\\xffb'", "a\u{fffd}b", 0),
        ("echo ! 'a !! b'", "! a !! b\n", 0),
        ("f() { echo in; return 5; }; f", "in\n", 5),
        ("sh -c 'kill -9 $$'", "", 137),
        ("true & wait; echo w", "w\n", 0),
        ("echo $LINENO\necho $LINENO", "1\n2\n", 0),
        ("[ -t 0 ] || [ -t 1 ] || echo none", "none\n", 0),
        (
            "echo out | tee >(cat >&2) >/dev/null; wait; sleep 0.02",
            "out\n",
            0,
        ),
        (&echo_long, &long_line, 0),
    ];
    for (command, printed, code) in vectors {
        let output = run(executor, command).await;
        let found = (output.output.as_str(), output.returncode);
        assert_eq!(found, (*printed, *code), "{command}");
        assert_eq!(output.exception_info, "");
    }
    // A command that can't be parsed is an error, and nothing waits for its rest.
    for (command, part, code) in [
        ("echo (", "syntax error near unexpected token", 2),
        ("echo 'abc", "unexpected EOF while looking for matching", 2),
        ("echo \"abc\necho x", "unexpected EOF", 2),
        ("if true; then", "unexpected end of file", 2),
        ("cat <<E\nfoo", "foo\n", 0),
        ("stty -echo", "stty", 1),
    ] {
        let output = run(executor, command).await;
        assert!(output.output.contains(part), "{command}: {output:?}");
        assert_eq!(output.returncode, code, "{command}");
    }
    let output = run(executor, "head -c 2000000 /dev/zero | tr '\\0' x; echo").await;
    assert_eq!(output.returncode, 0);
    let (head, tail) = output.output.split_once("\n[... ").unwrap();
    assert_eq!(head.len(), crate::CAPTURE_BYTES / 2);
    assert!(tail.ends_with("x\n"));
    assert_eq!(
        output.extra["elided_bytes"],
        2_000_001 - crate::CAPTURE_BYTES
    );
    let two_megabytes = format!("x='{}'; echo ${{#x}}", "a".repeat(2_000_000));
    assert_eq!(run(executor, &two_megabytes).await.output, "2000000\n");
    let output = run(executor, "echo a\0b").await;
    assert_eq!(extra(&output, "exception"), "embedded null byte");
    let output = run(executor, "echo $$; echo still").await;
    assert_eq!(output.returncode, 0);
}

#[tokio::test]
async fn what_stays_from_action_to_action() {
    let mut executor = sharing();
    stays(&mut executor).await;
    executor.cleanup().await;
}

/// Each pair: what one action does, and what a later one sees of it.
pub(crate) async fn stays(executor: &mut impl Executor) {
    let make =
        "cd \"$(mktemp -d)\" && pwd; echo \"export VIRTUAL_ENV=/v; PS1='(v) '\" >activate; cd /";
    let pwd = run(executor, make).await.output;
    let cd = format!("cd {}", pwd.trim_end());
    for (first, then, wanted) in [
        (cd.as_str(), "pwd", pwd.as_str()),
        ("x=5; export Y=6", "echo $x $(sh -c 'echo $Y')", "5 6\n"),
        ("hello() { echo \"hello $1\"; }", "hello you", "hello you\n"),
        ("source ./activate", "echo $VIRTUAL_ENV", "/v\n"),
        ("alias two='echo 2'", "two", "2\n"),
        ("declare -A m; m[k]=v", "echo ${m[k]}", "v\n"),
        ("set -- a b", "echo $# $2", "2 b\n"),
        ("umask 027", "umask", "0027\n"),
        ("exec 5>five; echo in >&5", "cat five", "in\n"),
        ("sleep 60 & echo", "jobs -r | wc -l", "1\n"),
        // None of these commands takes the output or the shell away.
        (
            "exec >lost 2>&1; echo x",
            "echo back; cat lost",
            "back\nx\n",
        ),
        ("exec 1>&- 2>&-", "echo back; echo err >&2", "back\nerr\n"),
        ("exec 0<&-", "read -t 1 x; echo ok", "ok\n"),
        ("exec 8>&- 9>&- 3>&- 7>&-", "echo ok", "ok\n"),
        (
            "PS1='P> '; PS0=q; PROMPT_COMMAND='cat; echo p'",
            "echo ok",
            "ok\n",
        ),
        (
            "builtin() { echo B; }; command() { echo C; }; declare() { echo D; }",
            "echo ok",
            "ok\n",
        ),
        (
            "printf() { echo P; }; eval() { echo E; }; set() { :; }; cd() { :; }",
            "echo ok",
            "ok\n",
        ),
        (
            "echo() { builtin; }; test() { false; }; unset -f echo",
            "echo ok",
            "ok\n",
        ),
        ("set -u; echo $nosuch", "set +u; echo ok", "ok\n"),
        ("trap 'true' DEBUG ERR RETURN", "echo ok", "ok\n"),
        ("trap '' INT", "trap - INT; echo ok", "ok\n"),
        (
            "shopt -s extdebug; trap true DEBUG",
            "shopt -u extdebug; trap - DEBUG; echo ok",
            "ok\n",
        ),
        ("set -o posix", "set +o posix; echo ok", "ok\n"),
        ("readonly R=1; R=2", "echo $R", "1\n"),
        ("set -m; set +m", "echo ok", "ok\n"),
        ("exec nosuchprogram || true", "echo ok", "ok\n"),
        ("ulimit -f 1000", "echo ok", "ok\n"),
    ] {
        let done = run(executor, first).await;
        assert!(
            !done.output.contains("new shell") || first.starts_with("exec nosuch"),
            "{first}: {done:?}"
        );
        let output = run(executor, then).await;
        assert_eq!(
            (output.output.as_str(), output.returncode),
            (wanted, 0),
            "{first}"
        );
    }
    run(executor, "rm -r $PWD; cd /").await;
}

#[tokio::test]
async fn traces_show_the_commands_and_nothing_else() {
    let mut executor = sharing();
    run(&mut executor, "set -x").await;
    let output = run(&mut executor, "echo a").await;
    assert_eq!(output.output, "++ echo a\na\n");
    let output = run(&mut executor, "set +x").await;
    assert_eq!(output.output, "++ set +x\n");
    assert_eq!(run(&mut executor, "echo b").await.output, "b\n");
    executor.cleanup().await;
}

#[tokio::test]
async fn background_jobs_do_not_hold_an_action() {
    let mut executor = sharing();
    let begin = Instant::now();
    let output = run(&mut executor, "(sleep 10) & echo now; echo $! >/dev/null").await;
    assert_eq!(output.output, "now\n");
    // Their late output belongs to no action.
    run(&mut executor, "(sleep 0.3; echo late) &").await;
    assert!(begin.elapsed() < Duration::from_secs(4));
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(run(&mut executor, "echo x").await.output, "x\n");
    // A flood is read while nobody asks.
    let started = run(&mut executor, "yes | head -c 1000000 >&1 & wait; echo done").await;
    assert!(started.output.ends_with("done\n"));
    executor.cleanup().await;
}

#[tokio::test]
async fn the_report_does_not_overtake_the_output() {
    let mut executor = sharing();
    for number in 0..200 {
        let command = format!("seq {} {}; echo end", number * 100, number * 100 + 50);
        let output = run(&mut executor, &command).await;
        assert!(output.output.ends_with("\nend\n"), "{output:?}");
        assert_eq!(output.output.lines().count(), 52);
    }
    executor.cleanup().await;
}

#[tokio::test]
async fn the_hosts_own_commands_have_shells_of_their_own() {
    let mut executor = sharing();
    run(&mut executor, "cd /; x=1").await;
    let command = Command {
        apart: true,
        ..Command::new("pwd; echo $x; exit 0")
    };
    let output = executor.execute(&command, &Stop::never()).await;
    assert_eq!(output.output, "/tmp\n\n");
    assert_eq!(run(&mut executor, "pwd; echo $x").await.output, "/\n1\n");
    executor.cleanup().await;
}

#[tokio::test]
async fn without_bash_the_start_says_what_to_do() {
    for (interpreter, path, part) in [
        (
            &["/bin/sh", "-c"][..],
            "/nowhere",
            "needs bash, which is in no folder of `PATH`: install it",
        ),
        (
            &["zsh", "-c"],
            "/bin:/usr/bin",
            "`environment.interpreter` names `zsh`",
        ),
    ] {
        let mut executor = LocalExecutor::new(LocalSettings {
            session: true,
            interpreter: interpreter.iter().map(|&word| word.to_owned()).collect(),
            env: [("PATH".to_owned(), path.to_owned())].into(),
            ..settings()
        });
        // `sh` itself is there, so that the message is about bash; `zsh` need not be.
        let error = executor.start(&context(), None).await.unwrap_err();
        let told = error.to_string();
        assert!(
            told.contains(part) || interpreter[0] == "zsh" && told.contains("`zsh`"),
            "{told}"
        );
    }
}
