//! Tests both transports with one table of behaviours and real daemons.

mod cuts;
mod daemons;
mod errors;
mod registry;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{sleep, timeout};

use super::connect::{Transport, connect};
use super::daemon::{Address, Daemon};
use super::engine::KEY;
use super::engine::{ContainerSpec, Engine, EngineErrorKind, ExecSpec};
use super::record::fresh_key;
use daemons::{engines, missing};

/// An image with programs, bash and a user `agent`; made by `tests/tooling/images.sh`.
const IMAGE: &str = "mswea-test/bash";
const LABEL: &str = "mswea-engine-test";
const LIMIT: Duration = Duration::from_secs(30);

/// For podman, which asks for higher limits than the kernel allows where the tests' own limits are
/// low, as in many containers.
const LIMITS: [&str; 2] = ["--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024"];

fn spec(engine: &str, args: &[&str]) -> ContainerSpec {
    // The service of these tests has them as its defaults.
    let by_service = engine == "podman by its API" && args.iter().all(|arg| *arg == "--rm");
    let limits: &[&str] = match engine.starts_with("podman") && !by_service {
        true => &LIMITS,
        false => &[],
    };
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("mswea-engine-{}-{number}", std::process::id());
    ContainerSpec {
        labels: BTreeMap::from([
            (LABEL.to_owned(), name.clone()),
            (KEY.to_owned(), fresh_key()),
        ]),
        name,
        image: IMAGE.to_owned(),
        command: vec!["sleep".to_owned(), "10m".to_owned()],
        cwd: "/".to_owned(),
        platform: None,
        typed: Vec::new(),
        run_args: limits
            .iter()
            .chain(args)
            .map(|&arg| arg.to_owned())
            .collect(),
    }
}

/// The label by which `list` finds only the container of `spec`.
fn own(spec: &ContainerSpec) -> String {
    format!("{LABEL}={}", spec.labels[LABEL])
}

fn bash(script: &str) -> ExecSpec {
    ExecSpec {
        argv: ["bash", "-c", script].map(str::to_owned).to_vec(),
        ..ExecSpec::default()
    }
}

/// A process's whole output and its exit code.
async fn outcome(engine: &dyn Engine, id: &str, spec: &ExecSpec) -> (String, i32) {
    let exec = engine.exec(id, spec).await.unwrap();
    let mut output = exec.output;
    let mut text = Vec::new();
    let (read, status) = tokio::join!(output.read_to_end(&mut text), exec.status);
    read.unwrap();
    (String::from_utf8_lossy(&text).into_owned(), status.unwrap())
}

#[tokio::test]
async fn processes_return_their_output_and_status() {
    for (name, engine) in engines("processes_return_their_output_and_status").await {
        let spec = spec(name, &["--rm", "--network=none", "-e", "FROM_RUN=1"]);
        let id = engine.run(&spec).await.unwrap();
        assert!(engine.state(&id).await.unwrap().running, "{name}");
        let with = |change: &dyn Fn(&mut ExecSpec), script: &str| {
            let mut spec = bash(script);
            change(&mut spec);
            spec
        };
        let vectors = [
            (bash("echo hi"), "hi\n", 0),
            // Two pipes: of simultaneous writes, either may come first.
            (
                bash("echo a; sleep 0.3; echo b >&2; sleep 0.3; echo c; exit 3"),
                "a\nb\nc\n",
                3,
            ),
            (bash("exit 126"), "", 126),
            (
                bash("echo 'Error: no such container'; exit 1"),
                "Error: no such container\n",
                1,
            ),
            (bash("nonesuch 2>/dev/null"), "", 127),
            (bash("kill -9 $$"), "", 137),
            (bash("cat; pwd; echo $FROM_RUN"), "/\n1\n", 0),
            (
                with(&|s| s.cwd = Some("/testbed".into()), "pwd"),
                "/testbed\n",
                0,
            ),
            (
                with(&|s| s.user = Some("agent".into()), "id -u"),
                "1000\n",
                0,
            ),
            (
                with(
                    &|s| {
                        s.env = vec![
                            ("A".into(), "x y'\"".into()),
                            ("A_TOKEN".into(), "z\nz".into()),
                        ];
                    },
                    "echo \"$A\" \"$A_TOKEN\"",
                ),
                "x y'\" z\nz\n",
                0,
            ),
        ];
        for (spec, text, code) in vectors {
            let got = outcome(&*engine, &id, &spec).await;
            assert_eq!((got.0.as_str(), got.1), (text, code), "{name}: {spec:?}");
        }
        // Far more than any buffer holds, and binary.
        let big = bash("head -c 3000000 /dev/zero; echo end");
        let (text, code) = outcome(&*engine, &id, &big).await;
        assert_eq!((text.len(), code), (3_000_004, 0), "{name}");
        engine.remove(&id, LIMIT).await.unwrap();
    }
}

#[tokio::test]
async fn standard_input_is_connected_and_ends() {
    for (name, engine) in engines("standard_input_is_connected_and_ends").await {
        let id = engine.run(&spec(name, &["--rm"])).await.unwrap();
        let mut talk = bash("while read line; do echo \"<$line>\"; done; echo over");
        talk.stdin = true;
        let exec = engine.exec(&id, &talk).await.unwrap();
        let (mut input, mut output) = (exec.input.unwrap(), exec.output);
        for line in ["one", "two"] {
            input
                .write_all(format!("{line}\n").as_bytes())
                .await
                .unwrap();
            input.flush().await.unwrap();
            let mut answer = vec![0; line.len() + 3];
            output.read_exact(&mut answer).await.unwrap();
            assert_eq!(answer, format!("<{line}>\n").as_bytes(), "{name}");
        }
        drop(input);
        let mut rest = String::new();
        let (read, status) = tokio::join!(output.read_to_string(&mut rest), exec.status);
        read.unwrap();
        assert_eq!((rest.as_str(), status.unwrap()), ("over\n", 0), "{name}");
        engine.remove(&id, LIMIT).await.unwrap();
    }
}

#[tokio::test]
async fn a_background_process_does_not_delay_the_status() {
    for (name, engine) in engines("a_background_process_does_not_delay_the_status").await {
        let id = engine.run(&spec(name, &["--rm"])).await.unwrap();
        let exec = engine
            .exec(&id, &bash("sleep 20 & echo on; exit 4"))
            .await
            .unwrap();
        let mut output = exec.output;
        let started = Instant::now();
        let mut first = [0; 3];
        output.read_exact(&mut first).await.unwrap();
        assert_eq!(&first, b"on\n");
        assert_eq!(exec.status.await.unwrap(), 4, "{name}");
        let took = started.elapsed();
        assert!(took < Duration::from_secs(5), "{name}: {took:?}");
        engine.remove(&id, LIMIT).await.unwrap();
    }
}

#[tokio::test]
async fn files_go_in_and_come_out() {
    for (name, engine) in engines("files_go_in_and_come_out").await {
        let id = engine.run(&spec(name, &["--rm"])).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let at = |file: &str| folder.path().join(file);
        std::fs::create_dir(at("d")).unwrap();
        std::fs::write(at("d/file"), "content\n").unwrap();
        std::os::unix::fs::symlink("file", at("d/link")).unwrap();
        let tar = |args: &[&str]| {
            let mut command = Command::new("tar");
            let run = command
                .current_dir(folder.path())
                .args(args)
                .output()
                .unwrap();
            assert!(run.status.success(), "{run:?}");
            run.stdout
        };
        let packed = tar(&["--owner=1000", "--group=1000", "--numeric-owner", "-c", "d"]);
        engine.put(&id, "/testbed", packed.into()).await.unwrap();
        let seen = bash("cd /testbed/d; cat link; stat -c %u file; echo more >> file");
        let seen = outcome(&*engine, &id, &seen).await;
        assert_eq!(seen, ("content\n1000\n".to_owned(), 0), "{name}");
        engine.get(&id, "/testbed/d", &at("out.tar")).await.unwrap();
        std::fs::create_dir(at("out")).unwrap();
        tar(&["-x", "-C", "out", "-f", "out.tar"]);
        let text = std::fs::read_to_string(at("out/d/link")).unwrap();
        assert_eq!(text, "content\nmore\n", "{name}");
        // A missing path leads to an error that names it, in either direction.
        let error = engine
            .get(&id, "/no/such", &at("x.tar"))
            .await
            .expect_err(name);
        assert!(error.message.contains("`/no/such`"), "{name}: {error}");
        let packed = tar(&["-c", "d"]);
        match engine.put(&id, "/no/such", packed.into()).await {
            Err(error) => assert!(error.message.contains("`/no/such`"), "{name}: {error}"),
            // This engine makes the folder.
            Ok(()) => assert_eq!(name, "podman by its API"),
        }
        // A disk that is full.
        let full = Path::new("/dev/full");
        let error = engine.get(&id, "/bin/bash", full).await.expect_err(name);
        assert!(error.message.contains("`/dev/full`"), "{name}: {error}");
        assert!(error.message.contains("No space left"), "{name}: {error}");
        engine.remove(&id, LIMIT).await.unwrap();
    }
}

#[tokio::test]
async fn containers_are_listed_and_removed() {
    for (name, engine) in engines("containers_are_listed_and_removed").await {
        let spec = spec(name, &["--rm", "-v", "/data"]);
        let id = engine.run(&spec).await.unwrap();
        let listed = engine.list(&own(&spec)).await.unwrap();
        assert_eq!(listed.len(), 1, "{name}");
        assert_eq!(
            (&listed[0].id, &listed[0].name),
            (&id, &spec.name),
            "{name}"
        );
        assert_eq!(listed[0].labels[LABEL], spec.labels[LABEL], "{name}");
        assert!(
            engine.list(LABEL).await.unwrap().contains(&listed[0]),
            "{name}"
        );
        assert_eq!(engine.list(&format!("{LABEL}=nobody")).await.unwrap(), []);
        engine.remove(&id, LIMIT).await.unwrap();
        assert_eq!(engine.list(&own(&spec)).await.unwrap(), [], "{name}");
        // A second removal is no error.
        engine.remove(&id, LIMIT).await.unwrap();
        let error = engine.state(&id).await.unwrap_err();
        assert_eq!(
            error.kind,
            EngineErrorKind::ContainerGone,
            "{name}: {error}"
        );
    }
}

#[tokio::test]
async fn many_may_remove_the_same_container_at_once() {
    for (name, engine) in engines("many_may_remove").await {
        let id = engine.run(&spec(name, &["--rm"])).await.unwrap();
        let (a, b, c) = tokio::join!(
            engine.remove(&id, LIMIT),
            engine.remove(&id, LIMIT),
            engine.remove(&id, LIMIT)
        );
        for result in [a, b, c] {
            result.unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    }
}

#[tokio::test]
async fn a_stopped_container_tells_how_it_ended() {
    for (name, engine) in engines("a_stopped_container").await {
        let mut spec = spec(name, &[]);
        spec.command = ["sh", "-c", "sleep 1; exit 7"].map(str::to_owned).to_vec();
        let id = engine.run(&spec).await.unwrap();
        let state = loop {
            let state = engine.state(&id).await.unwrap();
            if !state.running {
                break state;
            }
            sleep(Duration::from_millis(100)).await;
        };
        assert_eq!((state.exit_code, state.oom_killed), (7, false), "{name}");
        // No process runs in the container any more.
        let error = match engine.exec(&id, &bash("true")).await {
            Err(error) => error,
            Ok(mut exec) => {
                let mut text = Vec::new();
                let _ = exec.output.read_to_end(&mut text).await;
                exec.status.await.unwrap_err()
            }
        };
        assert_eq!(
            error.kind,
            EngineErrorKind::ContainerGone,
            "{name}: {error}"
        );
        engine.remove(&id, LIMIT).await.unwrap();
    }
}

#[tokio::test]
async fn removing_a_container_ends_its_processes() {
    for (name, engine) in engines("a_container_that_goes").await {
        let id = engine.run(&spec(name, &["--rm"])).await.unwrap();
        let mut exec = engine.exec(&id, &bash("echo on; sleep 60")).await.unwrap();
        let mut first = [0; 3];
        exec.output.read_exact(&mut first).await.unwrap();
        engine.remove(&id, LIMIT).await.unwrap();
        let mut rest = Vec::new();
        let (_, status) = timeout(LIMIT, async {
            tokio::join!(exec.output.read_to_end(&mut rest), exec.status)
        })
        .await
        .unwrap_or_else(|_| panic!("{name}: nothing tells that the container is gone"));
        match status {
            Err(error) => assert_eq!(
                error.kind,
                EngineErrorKind::ContainerGone,
                "{name}: {error}"
            ),
            Ok(code) => assert_eq!(code, 137, "{name}"),
        }
    }
}

#[tokio::test]
async fn too_much_memory_is_told() {
    for (name, engine) in engines("too_much_memory_is_told").await {
        let id = engine
            .run(&spec(name, &["--memory=16m", "--memory-swap=16m"]))
            .await;
        let id = match id {
            Ok(id) => id,
            Err(error) => panic!("{name}: {error}"),
        };
        let hungry = bash("x=$(head -c 200000000 /dev/zero | tr '\\0' x); echo ${#x}");
        let (text, code) = outcome(&*engine, &id, &hungry).await;
        assert!(
            code != 0 && !text.contains("200000000"),
            "{name}: {text} {code}"
        );
        let state = engine.state(&id).await.unwrap();
        let _ = writeln!(std::io::stderr(), "{name}: {code} {state:?}");
        engine.remove(&id, LIMIT).await.unwrap();
    }
}

#[tokio::test]
async fn a_failed_start_removes_no_other_container() {
    for (name, engine) in engines("a_failed_start_removes_no_other_container").await {
        let theirs = spec(name, &["--rm"]);
        let id = engine.run(&theirs).await.unwrap();
        let wrong: &[&[&str]] = &[&["--badflag"], &["--rm"], &["--network=no-such-network"]];
        for (args, by_argument) in wrong.iter().flat_map(|args| [(args, false), (args, true)]) {
            let mut ours = spec(name, args);
            ours.name = theirs.name.clone();
            if by_argument {
                ours.run_args.push(format!("--name={}", theirs.name));
            }
            engine.run(&ours).await.unwrap_err();
            let state = engine.state(&id).await;
            assert!(state.is_ok_and(|state| state.running), "{name}: {args:?}");
        }
        engine.remove(&id, LIMIT).await.unwrap();
    }
}

#[tokio::test]
async fn a_cancelled_start_leaves_no_container() {
    for (name, engine) in engines("a_cancelled_start_leaves_no_container").await {
        // From before the request to well after it.
        for pause in [0, 1, 5, 20, 60, 120, 200, 300, 500] {
            let spec = spec(name, &["--rm"]);
            let making = engine.run(&spec);
            if let Ok(made) = timeout(Duration::from_millis(pause), making).await {
                // The container was handed over, so this test removes it.
                engine.remove(&made.unwrap(), LIMIT).await.unwrap();
            }
            let asked = Instant::now();
            loop {
                let left = engine.list(&own(&spec)).await.unwrap();
                if left.is_empty() && asked.elapsed() > Duration::from_millis(1200) {
                    break;
                }
                if asked.elapsed() > Duration::from_secs(8) {
                    panic!("{name}: after {pause} ms {left:?} is left");
                }
                sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

#[test]
fn a_program_that_ends_leaves_no_container() {
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
    };
    let test = "a_program_that_ends";
    let names: Vec<_> = runtime()
        .block_on(engines(test))
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    for (number, name) in names.into_iter().enumerate() {
        // The proxy ends with the runtime, and then the daemon can't be reached.
        if name.ends_with("over TCP") {
            continue;
        }
        for pause in [5, 50, 150, 300] {
            let ending = runtime();
            let (engine, label, made) = ending.block_on(async {
                let (_, engine) = engines(test).await.swap_remove(number);
                let spec = spec(name, &["--rm"]);
                let label = own(&spec);
                let busy = engine.clone();
                let making = tokio::spawn(async move { busy.run(&spec).await });
                sleep(Duration::from_millis(pause)).await;
                let made = match making.is_finished() {
                    true => making.await.ok(),
                    // The runtime ends, and the task with it.
                    false => None,
                };
                (engine, label, made)
            });
            drop((ending, engine));
            runtime().block_on(async {
                let (_, engine) = engines(test).await.swap_remove(number);
                if let Some(made) = made {
                    // The container was handed over, so this test removes it.
                    engine.remove(&made.unwrap(), LIMIT).await.unwrap();
                }
                // The engine may still be busy with it for a while.
                let mut left = Vec::new();
                for _ in 0..20 {
                    sleep(Duration::from_millis(500)).await;
                    left = engine.list(&label).await.unwrap();
                    if left.is_empty() {
                        break;
                    }
                }
                assert_eq!(left, [], "{name}: after {pause} ms");
            });
        }
    }
}
