//! Errors: each has one clear message, and nothing is left behind.

use super::*;
use crate::container::api::Api;
use crate::container::engine::TypedArg;
use crate::tests::executables;

#[tokio::test]
async fn containers_that_cannot_be_started_are_not_left() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let not_a_folder = format!("type=bind,source={},target=/etc", file.path().display());
    let mounted = ["--mount", &not_a_folder];
    let folder = tempfile::tempdir().unwrap();
    let nowhere = folder.path().join("such").display().to_string();
    let nowhere = [
        "--rm",
        "--mount",
        &format!("type=bind,source={nowhere},target=/x"),
    ];
    type Change = fn(&mut ContainerSpec);
    type Vector<'a> = (
        &'a [&'a str],
        Change,
        Option<EngineErrorKind>,
        &'a [&'a str],
    );
    let same: Change = |_| {};
    let vectors: Vec<Vector<'_>> = vec![
        (
            &["--rm"],
            |s| s.image = "mswea-test/none:1".into(),
            None,
            &["mswea-test/none:1"],
        ),
        (
            &["--rm"],
            |s| s.image = "Not A Name".into(),
            None,
            &["Not A Name"],
        ),
        (&nowhere, same, None, &["/such", "mount"]),
        (&mounted, same, None, &["mount"]),
        (&["-v", "/a:relative"], same, None, &["relative"]),
        (
            &["--rm", "--network=nonesuch"],
            same,
            None,
            &["nonesuch", "--network"],
        ),
        (
            &["--rm"],
            |s| s.typed = vec![key("network", "nonesuch")],
            None,
            &["nonesuch", "`environment.network`"],
        ),
        (&["--memory=1k"], same, None, &[]),
        (
            &["--rm"],
            |s| s.typed = vec![key("memory", "1k")],
            None,
            &["`environment.memory`"],
        ),
        (
            &["--rm"],
            |s| s.typed = vec![key("cpus", "many")],
            None,
            &["`environment.cpus`"],
        ),
        (
            &["--rm"],
            |s| s.typed = vec![key("volume", "/a:relative")],
            None,
            &["relative", "`environment.mounts`"],
        ),
        (&["--cpus=many"], same, None, &["cpus"]),
        (&["--runtime=nonesuch"], same, None, &["nonesuch"]),
        (&["--frobnicate"], same, None, &["--frobnicate"]),
        (&["--network none"], same, None, &["network none"]),
        (
            &["--rm"],
            |s| s.command = vec!["nonesuch".into()],
            Some(EngineErrorKind::NotStarted),
            &["nonesuch"],
        ),
        (
            &[],
            |s| s.command = vec!["nonesuch".into()],
            Some(EngineErrorKind::NotStarted),
            &["nonesuch"],
        ),
        (
            &["--rm"],
            |s| s.cwd = "relative".into(),
            None,
            &["`environment.cwd`"],
        ),
        (
            &["--rm"],
            |s| s.cwd = "/etc/passwd".into(),
            None,
            &["/etc/passwd"],
        ),
    ];
    for (name, engine) in engines("containers_that_cannot_be_started").await {
        for (args, change, kind, words) in &vectors {
            let mut spec = spec(name, args);
            change(&mut spec);
            let error = match timeout(LIMIT, engine.run(&spec)).await.unwrap() {
                Err(error) => error,
                Ok(id) => {
                    engine.remove(&id, LIMIT).await.unwrap();
                    // Engines differ in what they refuse.
                    let _ = writeln!(std::io::stderr(), "{name}: {args:?} {:?} started", spec.cwd);
                    assert!(name.starts_with("podman"), "{name}: {args:?} started");
                    continue;
                }
            };
            let _ = writeln!(std::io::stderr(), "{name}: {error}");
            for word in *words {
                assert!(error.message.contains(word), "{name}: `{word}` in {error}");
            }
            assert!(!error.message.contains('\n'), "{name}: {error}");
            if let Some(kind) = kind {
                assert_eq!(error.kind, *kind, "{name}: {error}");
            }
            assert_eq!(
                engine.list(&own(&spec)).await.unwrap(),
                [],
                "{name}: {args:?}"
            );
        }
    }
}

#[tokio::test]
async fn programs_and_folders_that_are_missing_are_named() {
    let vectors = [
        (vec!["nonesuch"], None, "`nonesuch`"),
        (vec!["/etc"], None, "`/etc`"),
        (vec!["/etc/passwd"], None, "`/etc/passwd`"),
        (vec!["true"], Some("/no/such"), "`/no/such`"),
        (vec!["true"], Some("/etc/passwd"), "`/etc/passwd`"),
        (vec!["true"], None, "nonesuch"),
    ];
    for (name, engine) in engines("programs_and_folders_that_are_missing").await {
        let id = engine.run(&spec(name, &["--rm"])).await.unwrap();
        for (argv, cwd, word) in &vectors {
            let exec = ExecSpec {
                argv: argv.iter().map(|&arg| arg.to_owned()).collect(),
                cwd: cwd.map(str::to_owned),
                user: (*word == "nonesuch").then(|| "nonesuch".to_owned()),
                ..ExecSpec::default()
            };
            let error = match engine.exec(&id, &exec).await {
                Err(error) => error,
                Ok(exec) => {
                    let (mut output, mut text) = (exec.output, Vec::new());
                    let (_, status) = tokio::join!(output.read_to_end(&mut text), exec.status);
                    status
                        .map(|code| panic!("{name}: {argv:?} {cwd:?}: {code} {text:?}"))
                        .unwrap_err()
                }
            };
            let _ = writeln!(std::io::stderr(), "{name}: {error}");
            assert_eq!(error.kind, EngineErrorKind::NotStarted, "{name}: {error}");
            assert!(error.message.contains(word), "{name}: {error}");
        }
        engine.remove(&id, LIMIT).await.unwrap();
    }
}

#[tokio::test]
async fn an_image_of_another_architecture_is_told() {
    for (name, engine) in engines("an_image_of_another_architecture").await {
        let image = engine.image("mswea-test/alien").await.unwrap().unwrap();
        let own = engine.image(IMAGE).await.unwrap().unwrap();
        assert_ne!(image.architecture, own.architecture, "{name}");
        assert_eq!(image.os, "linux", "{name}");
        assert_eq!(
            engine.image("mswea-test/none:1").await.unwrap(),
            None,
            "{name}"
        );
    }
}

#[tokio::test]
async fn names_that_are_taken_are_left_to_their_owners() {
    for (name, engine) in engines("names_that_are_taken").await {
        let first = spec(name, &["--rm"]);
        let id = engine.run(&first).await.unwrap();
        let mut second = spec(name, &["--rm"]);
        second.name = first.name.clone();
        let error = engine.run(&second).await.unwrap_err();
        assert!(error.message.contains(&first.name), "{name}: {error}");
        assert!(error.message.contains("`--name`"), "{name}: {error}");
        assert!(engine.state(&id).await.unwrap().running, "{name}");
        engine.remove(&id, LIMIT).await.unwrap();
    }
}

#[tokio::test]
async fn further_arguments_go_through_the_client() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "from-file=yes\n").unwrap();
    let labels = format!("--label-file={}", file.path().display());
    for (name, engine) in engines("further_arguments_go_through_the_client").await {
        let spec = spec(name, &["--rm", &labels]);
        let id = engine.run(&spec).await.unwrap();
        let listed = engine.list(&own(&spec)).await.unwrap();
        assert_eq!(listed[0].id, id, "{name}");
        assert_eq!(listed[0].labels["from-file"], "yes", "{name}");
        assert_eq!(
            outcome(&*engine, &id, &bash("echo x")).await.0,
            "x\n",
            "{name}"
        );
        engine.remove(&id, LIMIT).await.unwrap();
    }
}

#[tokio::test]
async fn without_a_client_there_are_only_keys() {
    let engines = engines("without_a_client_there_are_only_keys").await;
    if engines.iter().all(|(name, _)| *name != "docker by its API") {
        return;
    }
    let socket = Address::Unix("/var/run/docker.sock".into());
    let api = Api::new(Daemon::open(socket, LIMIT).await.unwrap().into(), None);
    let mut spec = spec("docker", &["--rm"]);
    spec.typed = vec![
        key("user", "agent"),
        key("network", "none"),
        key("memory", "64m"),
        key("cpus", "0.5"),
        key("volume", "/etc/hostname:/seen:ro"),
    ];
    let id = api.run(&spec).await.unwrap();
    let seen = bash("id -un; ls /sys/class/net; cat /seen; (echo >/seen) 2>/dev/null || echo ro");
    let hostname = std::fs::read_to_string("/etc/hostname").unwrap();
    let seen = outcome(&api, &id, &seen).await.0;
    assert_eq!(seen, format!("agent\nlo\n{hostname}ro\n"));
    let limits = "{{.HostConfig.Memory}} {{.HostConfig.NanoCpus}} {{.HostConfig.AutoRemove}}";
    let limits = Command::new("docker")
        .args(["inspect", "-f", limits, &id])
        .output()
        .unwrap();
    assert_eq!(
        String::from_utf8_lossy(&limits.stdout),
        "67108864 500000000 true\n"
    );
    api.remove(&id, LIMIT).await.unwrap();

    spec.run_args
        .extend(["-e", "A_KEY=1", "--shm-size=1g"].map(str::to_owned));
    let error = api.run(&spec).await.unwrap_err();
    let wanted = "only the program `docker`, which is not installed, can make a container with `-e`, `--shm-size` in `environment.run_args`";
    assert!(error.message.starts_with(wanted), "{error}");
    assert_eq!(api.list(&own(&spec)).await.unwrap(), []);
}

/// An argument in a key of the config.
fn key(arg: &'static str, value: &str) -> TypedArg {
    let key = match arg {
        "network" => "environment.network",
        "memory" => "environment.memory",
        "cpus" => "environment.cpus",
        "user" => "environment.user",
        _ => "environment.mounts",
    };
    TypedArg {
        key,
        arg,
        value: value.to_owned(),
    }
}

#[tokio::test]
async fn daemons_that_are_not_there_are_told_with_a_remedy() {
    use crate::container::errors::{Doing, fault};
    let folder = tempfile::tempdir().unwrap();
    let dead = folder.path().join("dead.sock");
    drop(std::os::unix::net::UnixListener::bind(&dead).unwrap());
    let mute = folder.path().join("mute.sock");
    let _mute = std::os::unix::net::UnixListener::bind(&mute).unwrap();
    let strange = folder.path().join("strange.sock");
    let listener = tokio::net::UnixListener::bind(&strange).unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.write_all(b"SSH-2.0-OpenSSH\r\n").await;
        }
    });
    for (address, kind, words) in [
        (
            Address::Unix(folder.path().join("none.sock")),
            EngineErrorKind::Unavailable,
            ["none.sock", "start the daemon"],
        ),
        (
            Address::Unix(dead),
            EngineErrorKind::Unavailable,
            ["dead.sock", "systemctl start docker"],
        ),
        (
            Address::Unix(mute),
            EngineErrorKind::TimedOut,
            ["answered", "overloaded"],
        ),
        (
            Address::Unix(strange),
            EngineErrorKind::Unavailable,
            ["strange.sock", "docker info"],
        ),
        (
            Address::Tcp("127.0.0.1:1".to_owned()),
            EngineErrorKind::Unavailable,
            ["tcp://127.0.0.1:1", "DOCKER_HOST"],
        ),
    ] {
        let failure = Daemon::open(address.clone(), Duration::from_secs(1))
            .await
            .unwrap_err();
        let error = fault(Doing::Asking, "docker", &address, failure);
        assert_eq!(error.kind, kind, "{error}");
        for word in words {
            assert!(error.message.contains(word), "{error}");
        }
    }
}

#[tokio::test]
async fn programs_that_are_not_there_are_told_with_a_remedy() {
    for executable in ["nonesuch-engine", "/no/such/engine", "/etc/passwd"] {
        let error = connect(executable, Transport::Auto).await.err().unwrap();
        assert_eq!(error.kind, EngineErrorKind::Unavailable);
        assert!(error.message.contains(executable), "{error}");
        assert!(
            error.message.contains("`environment.executable`"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_wrapper_is_used_as_it_is() {
    if engines("a_wrapper_is_used_as_it_is")
        .await
        .iter()
        .all(|(name, _)| !name.starts_with("docker"))
    {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mydocker");
    let log = folder.path().join("log");
    let script = format!(
        "#!/bin/sh\necho \"$1\" >> '{}'\nexec docker \"$@\"\n",
        log.display()
    );
    executables::program(&path, script);
    let engine = connect(path.to_str().unwrap(), Transport::Auto)
        .await
        .unwrap();
    let id = engine.run(&spec("docker", &["--rm"])).await.unwrap();
    assert_eq!(outcome(&*engine, &id, &bash("echo x")).await.0, "x\n");
    engine.remove(&id, LIMIT).await.unwrap();
    let log = std::fs::read_to_string(log).unwrap();
    assert_eq!(
        log.split_whitespace().collect::<Vec<_>>(),
        ["version", "run", "exec", "rm"]
    );
}
