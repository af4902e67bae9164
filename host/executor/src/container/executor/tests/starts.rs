//! How a start fails, and that nothing is left of it.

use super::*;
use mswea_core::StopSource;

#[tokio::test]
async fn refusals_say_what_to_do() {
    if !docker("refusals_say_what_to_do") {
        return;
    }
    let list = |args: &[&str]| args.iter().map(|&arg| arg.to_owned()).collect::<Vec<_>>();
    for transport in [Transport::Api, Transport::Cli] {
        let base = ContainerSettings {
            transport,
            ..settings()
        };
        let vectors = [
            (
                ContainerSettings {
                    image: String::new(),
                    ..base.clone()
                },
                "set `environment.image`",
            ),
            (
                ContainerSettings {
                    image: NOBASH.into(),
                    ..base.clone()
                },
                "image `mswea-test/nobash` has no `bash`: set `environment.interpreter` to `[\"sh\", \"-c\"]`",
            ),
            (
                ContainerSettings {
                    image: NOSHELL.into(),
                    ..base.clone()
                },
                "image `mswea-test/noshell` has neither `bash` nor `sh`",
            ),
            (
                ContainerSettings {
                    interpreter: Vec::new(),
                    ..base.clone()
                },
                "`environment.interpreter` is empty",
            ),
            (
                ContainerSettings {
                    interpreter: list(&["false"]),
                    ..base.clone()
                },
                "interpreter `false` can't run `true` in folder `/` of image `mswea-test/bash`: it ended with exit code 1",
            ),
            (
                ContainerSettings {
                    cwd: "/etc/passwd".into(),
                    ..base.clone()
                },
                "/etc/passwd",
            ),
            (
                ContainerSettings {
                    run_args: list(&["--rm", "--entrypoint", "true"]),
                    ..base.clone()
                },
                "ended at once",
            ),
            (
                ContainerSettings {
                    run_args: list(&["--entrypoint", "sh"]),
                    ..base.clone()
                },
                "ended at once, with exit code ",
            ),
            (
                ContainerSettings {
                    mounts: list(&["/no/such/folder:/x"]),
                    ..base.clone()
                },
                "`/no/such/folder:/x` in `environment.mounts` can't be mounted: there is no `/no/such/folder`",
            ),
            (
                ContainerSettings {
                    container_timeout: "soon".into(),
                    ..base.clone()
                },
                "`environment.container_timeout` is `soon`",
            ),
            (
                ContainerSettings {
                    memory: Some("1k".into()),
                    ..base.clone()
                },
                "set `environment.memory`",
            ),
            (
                ContainerSettings {
                    memory: Some("much".into()),
                    ..base.clone()
                },
                "`environment.memory`",
            ),
            (
                ContainerSettings {
                    cpus: Some("100000".into()),
                    ..base.clone()
                },
                "set `environment.cpus`",
            ),
            (
                ContainerSettings {
                    cpus: Some("many".into()),
                    ..base.clone()
                },
                "`environment.cpus`",
            ),
            (
                ContainerSettings {
                    user: Some("nonesuch".into()),
                    ..base.clone()
                },
                "set `environment.user`",
            ),
            (
                ContainerSettings {
                    network: Some("nonesuch".into()),
                    ..base.clone()
                },
                "`docker network ls`, and `environment.network`",
            ),
            (
                ContainerSettings {
                    mounts: list(&["relative/../path:/x"]),
                    ..base.clone()
                },
                "relative/../path",
            ),
            (
                ContainerSettings {
                    network: Some("no-such-network".into()),
                    ..base.clone()
                },
                "no-such-network",
            ),
            (
                ContainerSettings {
                    executable: "no-such-engine".into(),
                    transport: Transport::Cli,
                    ..base.clone()
                },
                "no-such-engine",
            ),
            (
                ContainerSettings {
                    env: [("A=B".to_owned(), "x".to_owned())].into(),
                    ..base.clone()
                },
                "`A=B`",
            ),
        ];
        for (settings, wanted) in vectors {
            let error = refused(settings).await;
            assert!(error.contains(wanted), "{transport:?}: {wanted}: {error}");
        }
        // There is no registry at that address: the message names the image, at once.
        let error = refused(ContainerSettings {
            image: "127.0.0.1:9/mswea/none:1".into(),
            ..base.clone()
        })
        .await;
        assert!(error.contains("`127.0.0.1:9/mswea/none:1`"), "{error}");
    }
}

#[tokio::test]
async fn a_name_that_is_taken_is_the_one_that_is_told() {
    if !docker("a_name_that_is_taken_is_the_one_that_is_told") {
        return;
    }
    let name = format!("mswea-taken-{}", std::process::id());
    client(&["run", "-d", "--name", &name, BASH, "sleep", "300"]);
    for transport in [Transport::Api, Transport::Cli] {
        let error = refused(ContainerSettings {
            transport,
            run_args: vec!["--name".into(), name.clone()],
            ..settings()
        })
        .await;
        assert!(error.contains(&name), "{error}");
        assert!(error.contains("take `--name` out"), "{error}");
        assert!(!error.contains(&format!("{name}-2")), "{error}");
        assert!(is_there(&name));
    }
    client(&["rm", "-f", &name]);
    let mut executor = started(ContainerSettings {
        run_args: vec!["--rm".into(), format!("--name={name}")],
        ..settings()
    })
    .await;
    assert_eq!(executor.container_name(), Some(name.as_str()));
    executor.cleanup().await;
    assert!(!is_there(&name));
}

#[tokio::test]
async fn another_architecture_is_told() {
    if !docker("another_architecture_is_told") {
        return;
    }
    for transport in [Transport::Api, Transport::Cli] {
        let mut executor = ContainerExecutor::new(ContainerSettings {
            image: ALIEN.into(),
            transport,
            ..settings()
        });
        let (context, shown) = context_with(Stop::never());
        // The image's programs are for this machine, although the image states another one.
        executor.start(&context, None).await.unwrap();
        let shown = shown.all();
        assert!(
            shown
                .iter()
                .any(|text| text.contains("another architecture")),
            "{shown:?}"
        );
        assert_eq!(way(&executor), "plain");
        assert_eq!(run(&mut executor, "echo on").await.output, "on\n");
        executor.cleanup().await;
        let error = refused(ContainerSettings {
            image: ALIEN.into(),
            transport,
            run_args: ["--rm", "--entrypoint", "true"].map(str::to_owned).to_vec(),
            ..settings()
        })
        .await;
        assert!(
            error.contains("ended at once") && error.contains("another architecture"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn each_image_gets_a_way_that_it_supports() {
    if !docker("each_image_gets_a_way_that_it_supports") {
        return;
    }
    let args = |args: &[&str]| args.iter().map(|&arg| arg.to_owned()).collect();
    let vectors: [(&str, Vec<String>, &str); 3] = [
        (BASH, args(&["--rm", "--tmpfs", "/.mswea:noexec"]), "plain"),
        (BASH, args(&["--rm", "--read-only"]), "plain"),
        (NOSH, args(&["--rm"]), "session"),
    ];
    for (image, run_args, wanted) in vectors {
        let mut executor = started(ContainerSettings {
            image: image.into(),
            run_args,
            interpreter: vec!["bash".into(), "-c".into()],
            ..settings()
        })
        .await;
        assert_eq!(way(&executor), wanted);
        assert_eq!(run(&mut executor, "echo on").await.output, "on\n");
        executor.cleanup().await;
    }
    let mut executor = started(ContainerSettings {
        image: NOBASH.into(),
        interpreter: vec!["sh".into(), "-c".into()],
        ..settings()
    })
    .await;
    assert_eq!(run(&mut executor, "echo $0").await.output, "sh\n");
    executor.cleanup().await;
}

#[tokio::test]
async fn a_stop_in_the_middle_of_a_start_leaves_nothing() {
    if !docker("a_stop_in_the_middle_of_a_start_leaves_nothing") {
        return;
    }
    for transport in [Transport::Api, Transport::Cli] {
        for millis in [0, 20, 60, 120, 200, 300, 450, 650] {
            let mut executor = ContainerExecutor::new(ContainerSettings {
                transport,
                ..settings()
            });
            let name = format!("mswea-{}", executor.run_id());
            let (source, stop) = StopSource::new();
            let (context, _) = context_with(stop);
            let (result, ()) = tokio::join!(executor.start(&context, None), async {
                tokio::time::sleep(Duration::from_millis(millis)).await;
                source.stop();
            });
            if let Err(error) = result {
                assert!(error.to_string().contains("was stopped"), "{error}");
                assert!(!is_there(&name), "{transport:?} {millis}");
            }
            executor.cleanup().await;
            assert!(!is_there(&name), "{transport:?} {millis}");
        }
    }
}

#[tokio::test]
async fn a_container_can_be_kept() {
    if !docker("a_container_can_be_kept") {
        return;
    }
    let kept = ContainerSettings {
        keep: true,
        run_id: format!("kept-{}", std::process::id()),
        ..settings()
    };
    let mut executor = ContainerExecutor::new(kept.clone());
    let (context, shown) = context_with(Stop::never());
    executor.start(&context, None).await.unwrap();
    let name = executor.container_name().unwrap().to_owned();
    run(&mut executor, "echo work >/tmp/work").await;
    executor.cleanup().await;
    drop(executor);
    assert_eq!(client(&["exec", &name, "cat", "/tmp/work"]), "work");
    let told = shown.all();
    let id = kept.run_id.as_str();
    let wanted = [
        format!("container `{name}` of image `{BASH}`, commands start in `/` (fast path)"),
        format!(
            "container `{name}` is kept: enter it with `docker exec -it {name} sh`, remove it with `docker rm -f {name}` or `mswea-host gc --run {id}`"
        ),
    ];
    assert_eq!(told, wanted);
    // Another run with the same id gets another name.
    let mut again = started(ContainerSettings {
        keep: false,
        ..kept
    })
    .await;
    assert_eq!(again.container_name(), Some(format!("{name}-2").as_str()));
    again.cleanup().await;
    assert!(is_there(&name) && !is_there(&format!("{name}-2")));
    client(&["rm", "-f", &name]);
}

#[tokio::test]
async fn a_container_is_removed_after_a_panic_or_without_cleanup() {
    if !docker("a_container_is_removed_after_a_panic_or_without_cleanup") {
        return;
    }
    let executor = started(settings()).await;
    let name = executor.container_name().unwrap().to_owned();
    let panicked = tokio::spawn(async move {
        let _executor = executor;
        panic!("as tests do");
    });
    assert!(panicked.await.is_err());
    assert!(!is_there(&name));

    let mut executor = started(settings()).await;
    let name = executor.container_name().unwrap().to_owned();
    executor.cleanup().await;
    executor.cleanup().await;
    assert!(!is_there(&name));
    let output = run(&mut executor, "true").await;
    assert!(output.exception_info.contains("has not been started"));
    // The executor can be started again.
    let (context, _) = context_with(Stop::never());
    executor.start(&context, None).await.unwrap();
    assert_eq!(run(&mut executor, "echo on").await.output, "on\n");
    executor.cleanup().await;
}

#[tokio::test]
async fn the_doctor_is_told_what_works() {
    if !docker("the_doctor_is_told_what_works") {
        return;
    }
    for transport in [Transport::Auto, Transport::Api, Transport::Cli] {
        let text = crate::container::probe("docker", transport).await.unwrap();
        assert!(text.to_lowercase().contains("docker"), "{text}");
    }
    let error = crate::container::probe("no-such-engine", Transport::Auto)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("no-such-engine"), "{error}");
}
