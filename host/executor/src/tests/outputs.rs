//! The results of actions: text, exit codes, failures, environment.

use std::time::Duration;

use indexmap::IndexMap;

use super::*;

#[tokio::test]
async fn exit_codes_and_text() {
    let vectors = [
        ("echo hi", 0, "hi\n"),
        ("", 0, ""),
        ("  \n ", 0, ""),
        ("# nothing", 0, ""),
        ("exit 256", 0, ""),
        ("exit 3", 3, ""),
        ("kill -9 $$", -9, ""),
        ("kill -TERM $$", -15, ""),
        (
            "sh -c 'kill -SEGV $$'; exit $?",
            139,
            "Segmentation fault\n",
        ),
        ("echo a; echo b >&2; echo c; echo d >&2", 0, "a\nb\nc\nd\n"),
        (r"printf 'a\377\000b\r\nc\rd'", 0, "a\u{fffd}\0b\nc\nd"),
        (r"printf '\357\273\277x'", 0, "\u{feff}x"),
        (r"printf '\355\240\200'", 0, "\u{fffd}\u{fffd}\u{fffd}"),
        // Standard input is always empty.
        ("cat; echo end", 0, "end\n"),
        // SIGPIPE ends a writer silently.
        ("yes | head -n 1", 0, "y\n"),
        // Quotes and lines pass unchanged.
        ("cat <<'X'\n\"$a\" `b` \\ 'c'\nX", 0, "\"$a\" `b` \\ 'c'\n"),
    ];
    let mut executor = LocalExecutor::new(settings());
    for (command, returncode, text) in vectors {
        let output = run(&mut executor, command).await;
        assert_eq!(
            (output.returncode, output.output.as_str()),
            (returncode, text),
            "{command}"
        );
        assert_eq!(
            (output.exception_info.as_str(), output.extra.len()),
            ("", 0),
            "{command}"
        );
    }
    // A message of the shell, whichever shell it is.
    for (command, returncode, part) in [
        ("no-such-program", 127, "no-such-program: "),
        ("/etc/passwd", 126, "ermission denied\n"),
        ("echo '", 2, "ntax error"),
    ] {
        let output = run(&mut executor, command).await;
        assert_eq!(
            output.returncode, returncode,
            "{command}: {}",
            output.output
        );
        assert!(output.output.contains(part), "{command}: {}", output.output);
    }
    executor.cleanup().await;
}

#[tokio::test]
async fn every_action_has_a_session_of_its_own_and_nothing_else_of_the_host() {
    let mut executor = LocalExecutor::new(settings());
    let command = "cut -d' ' -f1,5,6 /proc/self/stat; echo $$; ls /proc/self/fd";
    for _ in 0..2 {
        let text = run(
            &mut executor,
            &format!("exec sh -c '{}'", command.replace("' '", "\" \"")),
        )
        .await
        .output;
        let lines: Vec<_> = text.lines().collect();
        let ids: Vec<_> = lines[0].split(' ').collect();
        assert_eq!(ids[1..], [lines[1], lines[1]], "{text}");
        // 3 is the folder that `ls` reads.
        assert_eq!(lines[2..], ["0", "1", "2", "3"], "{text}");
    }
    let set = run(&mut executor, "cd /; X=1; export X").await;
    assert_eq!(set.returncode, 0);
    assert_eq!(
        run(&mut executor, "echo $X; pwd")
            .await
            .output
            .lines()
            .next(),
        Some("")
    );
}

#[tokio::test]
async fn failures_to_start() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let not_a_folder = format!("[Errno 20] Not a directory: '{}'", file.path().display());
    let with = |change: fn(&mut LocalSettings)| {
        let mut settings = settings();
        change(&mut settings);
        settings
    };
    let mut in_file = settings();
    in_file.cwd = Some(file.path().to_owned());
    let vectors = [
        (
            with(|s| s.cwd = Some("/no/folder".into())),
            "FileNotFoundError",
            "[Errno 2] No such file or directory: '/no/folder'",
        ),
        (in_file, "NotADirectoryError", not_a_folder.as_str()),
        (
            with(|s| s.interpreter = vec!["/no/shell".into()]),
            "FileNotFoundError",
            "[Errno 2] No such file or directory: '/no/shell'; set `interpreter` to one that is installed",
        ),
        (
            with(|s| s.interpreter = vec!["noshell".into()]),
            "FileNotFoundError",
            "interpreter `noshell` can't be used: it is in no folder of `PATH`; set `interpreter` to one that is installed",
        ),
        (
            with(|s| s.interpreter = Vec::new()),
            "FileNotFoundError",
            "interpreter `` can't be used: it is empty; set `interpreter` to one that is installed",
        ),
        (
            with(|s| s.interpreter = vec!["/etc".into()]),
            "PermissionError",
            "[Errno 13] Permission denied: '/etc'",
        ),
        (
            with(|s| drop(s.env.insert("A=B".into(), "x".into()))),
            "ValueError",
            "environment variable `A=B` is not usable: a name is not empty and has no `=`; correct it in the config's `env`",
        ),
    ];
    for (settings, kind, text) in vectors {
        let mut executor = LocalExecutor::new(settings);
        let output = run(&mut executor, "true").await;
        let info = format!("An error occurred while executing the command: {text}");
        assert_eq!(
            (output.returncode, output.output.as_str()),
            (-1, ""),
            "{text}"
        );
        assert_eq!(output.exception_info, info);
        assert_eq!(
            (
                extra(&output, "exception_type"),
                extra(&output, "exception")
            ),
            (kind, text)
        );
        let refusal = executor
            .start(&context(), None)
            .await
            .unwrap_err()
            .to_string();
        assert!(refusal.contains('`'), "{refusal}");
    }
    let mut executor = LocalExecutor::new(settings());
    executor.start(&context(), None).await.unwrap();
    let output = run(&mut executor, "echo \0").await;
    assert_eq!(
        (
            extra(&output, "exception_type"),
            extra(&output, "exception")
        ),
        ("ValueError", "embedded null byte")
    );
    // A shell can read it, another program can't.
    let long = format!("echo {} | wc -c", "x".repeat(200_000));
    assert_eq!(run(&mut executor, &long).await.output.trim(), "200001");
    let mut echo = LocalExecutor::new(LocalSettings {
        interpreter: vec!["echo".into()],
        ..settings()
    });
    let output = run(&mut echo, &"x".repeat(200_005)).await;
    assert!(
        output
            .exception_info
            .contains("the command has 200005 bytes"),
        "{}",
        output.exception_info
    );
    let output = run(&mut executor, "echo fine").await;
    assert_eq!(output.output, "fine\n");
}

#[tokio::test]
async fn the_environment_is_what_was_allowed() {
    let mut executor = LocalExecutor::new(LocalSettings {
        env: IndexMap::from([
            ("HOME".into(), "/h".into()),
            ("MY_TOKEN".into(), "configured".into()),
        ]),
        run_id: "run-7".into(),
        ..settings()
    });
    let text = run(&mut executor, "tr '\\0' '\\n' </proc/$$/environ")
        .await
        .output;
    let ours = ["HOME=", "MSWEA_", "MY_TOKEN="];
    let mut entries: Vec<_> = text
        .lines()
        .filter(|line| ours.iter().any(|name| line.starts_with(name)))
        .collect();
    entries.sort_unstable();
    assert_eq!(
        entries,
        [
            "HOME=/h",
            "MSWEA_ACTION=run-7.1",
            "MSWEA_RUN_ID=run-7",
            "MY_TOKEN=configured",
        ]
    );
    assert!(text.lines().any(|line| line.starts_with("PATH=")), "{text}");
    assert_eq!(
        run(&mut executor, "echo $MSWEA_ACTION").await.output,
        "run-7.2\n"
    );
}

#[tokio::test]
async fn output_of_any_length_is_bounded() {
    let mut executor = LocalExecutor::new(LocalSettings {
        capture_bytes: 1000,
        ..settings()
    });
    let output = run(&mut executor, "seq 1 200000").await;
    let (head, rest) = output.output.split_once("[... ").unwrap();
    let (note, tail) = rest.split_once('\n').unwrap();
    let elided = output.extra["elided_bytes"].as_u64().unwrap();
    assert_eq!(note, format!("{elided} bytes of output elided ...]"));
    assert!(head.starts_with("1\n2\n") && tail.ends_with("\n199999\n200000\n"));
    let added = usize::from(head.len() > 500);
    assert_eq!((head.len() - added + tail.len()) as u64 + elided, 1_288_895);
    let whole = run(&mut executor, "seq 1 200").await;
    assert!(!whole.extra.contains_key("elided_bytes"));

    // Much output: memory stays bounded, and neither the timeout nor other tasks are delayed.
    let ticks = std::rc::Rc::new(std::cell::Cell::new(0));
    let counter = ticks.clone();
    let (flood, took) = tokio::select! {
        result = once("yes", 1.0) => result,
        () = async move {
            loop {
                tokio::time::sleep(Duration::from_millis(5)).await;
                counter.set(counter.get() + 1);
            }
        } => unreachable!(),
    };
    assert!(took < Duration::from_secs(3), "{took:?}");
    assert_eq!(extra(&flood, "exception_type"), "TimeoutExpired");
    assert!(flood.output.len() < 2 * 1024 * 1024 + 100);
    assert!(flood.extra["elided_bytes"].as_u64().unwrap() > 10_000_000);
    assert!(ticks.get() > 20, "{}", ticks.get());
}

#[tokio::test]
async fn template_variables() {
    let variables = LocalExecutor::new(LocalSettings {
        cwd: Some("/usr".into()),
        env: IndexMap::from([("Z".into(), "x".into()), ("A".into(), "b".into())]),
        timeout: Duration::from_millis(1500),
        ..settings()
    })
    .template_vars();
    assert_eq!(variables["cwd"], "/usr");
    // In the order of the config.
    assert_eq!(variables["env"].to_string(), r#"{"Z":"x","A":"b"}"#);
    assert_eq!(variables["timeout"], 1.5);
    let variables = LocalExecutor::new(settings()).template_vars();
    assert_eq!(variables["timeout"], 20);
    assert_eq!(variables["system"], "Linux");
    for name in ["cwd", "node", "release", "version", "machine", "processor"] {
        assert!(variables[name].is_string(), "{name}");
    }
}

#[tokio::test]
async fn files_go_in_and_out() {
    let root = tempfile::tempdir().unwrap();
    let mut executor = LocalExecutor::new(LocalSettings {
        cwd: Some(root.path().to_owned()),
        ..settings()
    });
    run(&mut executor, "mkdir a; echo 1 >a/x").await;
    executor
        .upload(&root.path().join("a"), "b/c")
        .await
        .unwrap();
    assert_eq!(run(&mut executor, "cat b/c/x").await.output, "1\n");
    executor
        .download("b", &root.path().join("d"))
        .await
        .unwrap();
    assert_eq!(run(&mut executor, "cat d/c/x").await.output, "1\n");
    let error = executor
        .download("none", root.path())
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("none"), "{error}");
}
