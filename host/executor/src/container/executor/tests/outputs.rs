//! The results of actions: text, exit codes, failures, environment.

use super::*;
use indexmap::IndexMap;
use mswea_secrecy as secrecy;

const VECTORS: &[(&str, i32, &str)] = &[
    ("echo hi", 0, "hi\n"),
    ("", 0, ""),
    ("  \n ", 0, ""),
    ("# nothing", 0, ""),
    ("exit 256", 0, ""),
    ("exit 3", 3, ""),
    // The code that shells report, which users of containers know.
    ("kill -9 $$", 137, ""),
    ("kill -TERM $$", 143, ""),
    ("exec 2>/dev/null; sh -c 'kill -SEGV $$'; exit $?", 139, ""),
    ("echo a; echo b >&2; echo c; echo d >&2", 0, "a\nb\nc\nd\n"),
    (r"printf 'a\377\000b\r\nc\rd'", 0, "a\u{fffd}\0b\nc\nd"),
    (r"printf '\357\273\277x'", 0, "\u{feff}x"),
    (r"printf '\355\240\200'", 0, "\u{fffd}\u{fffd}\u{fffd}"),
    ("echo 'é\u{1f600}'", 0, "é\u{1f600}\n"),
    // Standard input is always empty.
    ("cat; echo end", 0, "end\n"),
    ("yes | head -n 1", 0, "y\n"),
    ("cat <<'X'\n\"$a\" `b` \\ 'c'\nX", 0, "\"$a\" `b` \\ 'c'\n"),
    ("pwd; echo $MSWEA_TEST_PROFILE", 0, "/testbed\nread\n"),
    // A shell's jobs end with their action.
    ("cd /tmp; export X=1", 0, ""),
    ("pwd; echo $X", 0, "/testbed\n\n"),
];

#[tokio::test]
async fn exit_codes_and_text() {
    if !docker("exit_codes_and_text") {
        return;
    }
    for (name, settings) in ways() {
        let mut executor = started(ContainerSettings {
            cwd: "/testbed".into(),
            ..settings
        })
        .await;
        assert!(name.ends_with(way(&executor)), "{name} {}", way(&executor));
        for (command, returncode, text) in VECTORS {
            let output = run(&mut executor, command).await;
            assert_eq!(
                (output.returncode, output.output.as_str()),
                (*returncode, *text),
                "{name}: {command}"
            );
            assert_eq!(
                (output.exception_info.as_str(), output.extra.len()),
                ("", 0),
                "{name}: {command}"
            );
        }
        for (command, returncode, part) in [
            (
                "no-such-program",
                127,
                "no-such-program: command not found\n",
            ),
            ("/etc/passwd", 126, "ermission denied\n"),
            ("echo '", 2, "unexpected EOF"),
        ] {
            let output = run(&mut executor, command).await;
            assert_eq!(output.returncode, returncode, "{name}: {}", output.output);
            assert!(output.output.contains(part), "{name}: {}", output.output);
        }
        // Long commands, beyond the limit of an argument, work if the helper runs them; otherwise
        // they fail with a clear message.
        let helped = !name.ends_with("plain");
        for (length, fits) in [
            (70_000, true),
            (131_000, true),
            (140_000, helped),
            (5_000_000, helped),
        ] {
            let command = format!("echo {} | tr -d '\\n' | wc -c", "x".repeat(length));
            let output = run(&mut executor, &command).await;
            if fits {
                assert_eq!(output.output.trim(), length.to_string(), "{name}");
            } else {
                let wanted = format!(
                    "[Errno 7] Argument list too long: 'bash'; the command has {} bytes, and a command may have about 128 KiB: split it",
                    command.len()
                );
                assert_eq!(extra(&output, "exception"), wanted, "{name}");
                assert_eq!(output.returncode, -1);
            }
        }
        let output = run(&mut executor, "echo \0").await;
        assert_eq!(
            (
                extra(&output, "exception_type"),
                extra(&output, "exception")
            ),
            ("ValueError", "embedded null byte")
        );
        assert!(name.ends_with(way(&executor)), "{name}");
        executor.cleanup().await;
    }
}

#[tokio::test]
async fn output_of_any_length_is_bounded() {
    if !docker("output_of_any_length_is_bounded") {
        return;
    }
    for (name, settings) in ways() {
        let mut executor = started(ContainerSettings {
            capture_bytes: 1000,
            whole_after: Some("MARK".into()),
            ..settings
        })
        .await;
        let output = run(&mut executor, "seq 1 200000").await;
        let (head, rest) = output.output.split_once("[... ").unwrap();
        let (note, tail) = rest.split_once('\n').unwrap();
        let elided = output.extra["elided_bytes"].as_u64().unwrap();
        assert_eq!(note, format!("{elided} bytes of output elided ...]"));
        assert!(
            head.starts_with("1\n2\n") && tail.ends_with("\n199999\n200000\n"),
            "{name}: {}",
            output.output
        );
        let added = usize::from(head.len() > 500);
        assert_eq!(
            (head.len() - added + tail.len()) as u64 + elided,
            1_288_895,
            "{name}"
        );
        // A submission, and an output that was asked for whole, are not cut.
        let output = run(&mut executor, "echo MARK; seq 1 2000").await;
        assert!(output.output.len() > 8000, "{name}");
        let command = Command {
            whole: true,
            ..Command::new("seq 1 2000; printf 'a\\r\\n'")
        };
        let output = executor.execute(&command, &Stop::never()).await;
        assert!(output.output.ends_with("2000\na\r\n"), "{name}");
        assert!(output.output.starts_with("1\n2\n") && output.output.len() > 8000);

        let began = Instant::now();
        let flood = run_within(&mut executor, "yes", 1.0).await;
        let took = began.elapsed();
        assert!(took < Duration::from_secs(8), "{name}: {took:?}");
        assert_eq!(extra(&flood, "exception_type"), "TimeoutExpired");
        assert!(flood.output.len() < 1200);
        executor.cleanup().await;
    }
}

#[tokio::test]
async fn the_environment_is_what_was_configured() {
    if !docker("the_environment_is_what_was_configured") {
        return;
    }
    secrecy::supply("MSWEA_TEST_FORWARD", "from the host");
    secrecy::supply("MSWEA_TEST_BOTH", "host");
    secrecy::supply("MSWEA_TEST_OTHER_KEY", "secret");
    for (name, settings) in ways() {
        let mut executor = started(ContainerSettings {
            env: IndexMap::from([
                ("MSWEA_TEST_BOTH".into(), "config = 'é'".into()),
                ("MY_TOKEN".into(), "configured".into()),
            ]),
            forward_env: ["MSWEA_TEST_FORWARD", "MSWEA_TEST_BOTH", "MSWEA_TEST_UNSET"]
                .map(str::to_owned)
                .to_vec(),
            secret_names: vec!["MSWEA_TEST_OTHER_KEY".into()],
            interpreter: vec!["sh".into(), "-c".into()],
            ..settings
        })
        .await;
        let id = executor.run_id().to_owned();
        for action in 1..3 {
            let text = run(&mut executor, "cat /proc/self/environ | tr '\\0' '\\n'")
                .await
                .output;
            let mut lines: Vec<&str> = text.lines().filter(|line| line.starts_with('M')).collect();
            lines.sort_unstable();
            let (mark, run) = (
                format!("MSWEA_ACTION={id}.{action}"),
                format!("MSWEA_RUN_ID={id}"),
            );
            assert_eq!(
                lines,
                [
                    mark.as_str(),
                    run.as_str(),
                    "MSWEA_TEST_BOTH=config = 'é'",
                    "MSWEA_TEST_FORWARD=from the host",
                    "MY_TOKEN=configured"
                ],
                "{name}"
            );
            assert!(text.contains("PATH=/usr/local/sbin"), "{name}: {text}");
            assert!(!text.contains("secret"), "{name}: {text}");
        }
        // No other process in the container has them either.
        let all = run(
            &mut executor,
            "cat /proc/[0-9]*/environ | tr '\\0' '\\n' | grep -c MY_TOKEN; true",
        )
        .await;
        assert!(all.output.trim().parse::<u32>().unwrap() <= 8, "{name}");
        executor.cleanup().await;
    }
}

#[tokio::test]
async fn a_user_and_limits_are_kept() {
    if !docker("a_user_and_limits_are_kept") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("x"), "mounted\n").unwrap();
    for (name, settings) in ways() {
        let mut executor = started(ContainerSettings {
            user: Some("1000:1000".into()),
            network: Some("none".into()),
            memory: Some("64m".into()),
            cpus: Some("0.5".into()),
            mounts: vec![format!("{}:/mounted:ro", folder.path().display())],
            ..settings
        })
        .await;
        let output = run(
            &mut executor,
            "id -u; id -g; cat /mounted/x; ls /sys/class/net; touch /mounted/y 2>/dev/null || echo ro",
        )
        .await;
        assert_eq!(output.output, "1000\n1000\nmounted\nlo\nro\n", "{name}");
        let limits = client(&[
            "inspect",
            "-f",
            "{{.HostConfig.Memory}} {{.HostConfig.NanoCpus}}",
            executor.container_name().unwrap(),
        ]);
        assert_eq!(limits, "67108864 500000000", "{name}");
        // Processes of another user can be killed too.
        let output = run_within(&mut executor, "echo x; sleep 100", 0.5).await;
        assert_eq!(extra(&output, "exception_type"), "TimeoutExpired", "{name}");
        assert!(!processes(&executor).contains("sleep 100"), "{name}");
        executor.cleanup().await;
    }
}

#[test]
fn template_variables() {
    let executor = ContainerExecutor::new(ContainerSettings {
        image: "i".into(),
        env: IndexMap::from([("A".into(), "b".into())]),
        timeout: Duration::from_millis(1500),
        ..ContainerSettings::default()
    });
    let variables = serde_json::Value::Object(executor.template_vars());
    let wanted = serde_json::json!({
        "image": "i", "cwd": "/", "env": {"A": "b"}, "forward_env": [], "timeout": 1.5,
        "executable": "docker", "run_args": ["--rm"], "container_timeout": "2h",
        "pull_timeout": 120, "interpreter": ["bash", "-lc"], "system": "Linux", "processor": "",
    });
    for (name, value) in wanted.as_object().unwrap() {
        assert_eq!(variables[name], *value, "{name}");
    }
    for name in ["node", "release", "version", "machine"] {
        assert!(variables[name].is_string(), "{name}");
    }
}

#[tokio::test]
async fn podman_keeps_the_contract_too() {
    if !podman("podman_keeps_the_contract_too") {
        return;
    }
    // Podman asks for higher limits than the kernel allows where the tests' own limits are low.
    let run_args = [
        "--rm",
        "--ulimit=nofile=1024:1024",
        "--ulimit=nproc=1024:1024",
    ]
    .map(str::to_owned)
    .to_vec();
    for fast_path in [true, false] {
        let mut executor = started(ContainerSettings {
            executable: "podman".into(),
            image: "localhost/mswea-test/bash".into(),
            cwd: "/testbed".into(),
            network: Some("none".into()),
            run_args: run_args.clone(),
            fast_path,
            ..settings()
        })
        .await;
        assert_eq!(way(&executor), if fast_path { "session" } else { "plain" });
        for (command, returncode, text) in VECTORS {
            let output = run(&mut executor, command).await;
            assert_eq!(
                (output.returncode, output.output.as_str()),
                (*returncode, *text),
                "{fast_path}: {command}"
            );
        }
        let output = run_within(&mut executor, "echo x; sleep 100", 1.0).await;
        assert_eq!(output.output, "x\n");
        assert_eq!(extra(&output, "exception_type"), "TimeoutExpired");
        let output = run(&mut executor, "ps -o args | grep -c '^sleep 100'; exit 0").await;
        assert_eq!(output.output, "0\n");
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("x"), "1\n").unwrap();
        executor.upload(folder.path(), "made/here").await.unwrap();
        executor
            .download("made/here/x", &folder.path().join("y"))
            .await
            .unwrap();
        let back = std::fs::read_to_string(folder.path().join("y")).unwrap();
        assert_eq!(back, "1\n");
        let name = executor.container_name().unwrap().to_owned();
        executor.cleanup().await;
        let left = Program::new("podman")
            .args(["ps", "-aq", "--filter", &format!("name={name}")])
            .output();
        assert!(left.unwrap().stdout.is_empty());
    }
}
