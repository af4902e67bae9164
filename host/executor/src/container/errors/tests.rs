use super::*;
use crate::container::engine::TypedArg;

/// Errors that can't be produced on every machine, in the engines' words.
#[test]
fn refusals_have_a_kind_and_a_remedy() {
    let (pull, run) = (Doing::Pulling("i"), Doing::Running("i"));
    let copy = Doing::Copying("/x");
    let vectors = [
        (
            pull,
            "pull access denied for i, repository does not exist or may require 'docker login': denied: requested access to the resource is denied",
            Kind::Denied,
            "docker login",
        ),
        (
            pull,
            "unauthorized: authentication required",
            Kind::Denied,
            "docker login",
        ),
        (
            pull,
            "error parsing HTTP 403 response body: Forbidden",
            Kind::Denied,
            "docker login",
        ),
        (
            pull,
            "toomanyrequests: You have reached your pull rate limit.",
            Kind::Denied,
            "limits how much",
        ),
        (
            pull,
            "manifest for i:9 not found: manifest unknown",
            Kind::NoImage,
            "name and tag",
        ),
        (
            pull,
            "no matching manifest for linux/arm64/v8 in the manifest list entries",
            Kind::NoImage,
            "architecture",
        ),
        (
            pull,
            "Get \"https://r/v2/\": tls: failed to verify certificate: x509: unknown authority",
            Kind::Other,
            "does not reach the registry",
        ),
        (
            pull,
            "Get \"https://r/v2/\": dial tcp: lookup r: no such host",
            Kind::Other,
            "does not reach the registry",
        ),
        (
            pull,
            "failed to register layer: write /usr/lib/x: no space left on device",
            Kind::Other,
            "disk is full",
        ),
        (run, "no space left on device", Kind::Other, "disk is full"),
        (
            copy,
            "write /x: no space left on device",
            Kind::Other,
            "disk is full",
        ),
        (
            run,
            "could not select device driver \"\" with capabilities: [[gpu]]",
            Kind::Other,
            "nvidia-container-toolkit",
        ),
        (
            run,
            "image with reference i was found but does not match the specified platform: wanted linux/arm64, actual: linux/amd64",
            Kind::NoImage,
            "environment.platform",
        ),
        (
            Doing::Starting("`ls`"),
            "exec /bin/ls: exec format error",
            Kind::Other,
            "another architecture",
        ),
        (
            Doing::Using("c"),
            "Container c is not running",
            Kind::ContainerGone,
            "removed from outside",
        ),
        (
            Doing::Asking,
            "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?",
            Kind::Unavailable,
            "systemctl start",
        ),
        (
            Doing::Asking,
            "permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock",
            Kind::Unavailable,
            "usermod",
        ),
        (
            run,
            "something nobody has seen",
            Kind::Other,
            "`environment.image`",
        ),
        (run, "", Kind::Other, "gave no reason"),
    ];
    for (doing, text, kind, remedy) in vectors {
        let error = explain(doing, "docker", text);
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.message.contains(remedy), "{error}");
        assert!(
            error.message.contains(text.trim_end_matches('.')),
            "{error}"
        );
    }
}

#[test]
fn only_the_informative_part_of_a_message_is_repeated() {
    for (text, wanted) in [
        (
            "docker: Error response from daemon: no.\nSee 'docker run --help'.",
            "no",
        ),
        ("Error: no\n", "no"),
        ("time=\"1\" level=error msg=\"x\"\nError: no", "no"),
        (
            "unknown flag: --x\n\nUsage:  docker run\n\nRun 'docker run --help' for more",
            "unknown flag: --x",
        ),
        ("time=\"1\" msg=\"x\"", "time=\"1\" msg=\"x\""),
        ("a\nb", "a b"),
    ] {
        assert_eq!(without_prefix(text), wanted);
    }
}

#[test]
fn a_socket_for_others_names_their_group() {
    let socket = tempfile::NamedTempFile::new().unwrap();
    let groups = std::fs::read_to_string("/etc/group").unwrap();
    let other = groups.lines().find(|line| line.starts_with("daemon:"));
    let id: u32 = other.unwrap().split(':').nth(2).unwrap().parse().unwrap();
    let is_root = rustix::process::geteuid().is_root();
    if is_root {
        std::os::unix::fs::chown(socket.path(), None, Some(id)).unwrap();
    }
    let address = Address::Unix(socket.path().to_owned());
    let refused = DaemonFault::Unreachable(std::io::ErrorKind::PermissionDenied.into());
    let error = fault(Doing::Asking, "docker", &address, refused);
    assert_eq!(error.kind, Kind::Unavailable);
    let remedy = if is_root {
        "usermod -aG daemon"
    } else {
        "as root"
    };
    assert!(error.message.contains(remedy), "{error}");
}

#[test]
fn a_process_without_more_files_does_not_blame_the_daemon() {
    let address = Address::Tcp("x:1".into());
    let error = std::io::Error::from_raw_os_error(libc::EMFILE);
    let error = fault(
        Doing::Asking,
        "docker",
        &address,
        DaemonFault::Unreachable(error),
    );
    assert!(error.message.contains("`ulimit -n 4096`"), "{error}");
    assert!(!error.message.contains("down"), "{error}");
}

#[test]
fn remedies_name_the_keys_that_people_set() {
    let list = |args: &[&str]| args.iter().map(|&arg| arg.to_owned()).collect();
    let key = |key, arg, value: &str| TypedArg {
        key,
        arg,
        value: value.to_owned(),
    };
    let typed = ContainerSpec {
        image: "i".into(),
        run_args: list(&["--rm"]),
        typed: vec![
            key("environment.network", "network", "n"),
            key("environment.memory", "memory", "1k"),
        ],
        ..ContainerSpec::default()
    };
    let by_hand = ContainerSpec {
        image: "i".into(),
        run_args: list(&["--network=n", "-m", "1k"]),
        ..ContainerSpec::default()
    };
    let flag = "invalid argument \"1k\" for \"--memory\" flag: no";
    for (spec, said, wanted) in [
        (&typed, "network n not found", "`environment.network`"),
        (
            &by_hand,
            "network n not found",
            "`--network` in `environment.run_args`",
        ),
        (
            &typed,
            "Minimum memory limit allowed is 6MB",
            "set `environment.memory`",
        ),
        (
            &by_hand,
            "Minimum memory limit allowed is 6MB",
            "set `-m` in `environment.run_args`",
        ),
        (
            &typed,
            flag,
            "does not accept this argument of `environment.memory`",
        ),
        (
            &by_hand,
            flag,
            "does not accept this argument of `environment.run_args`",
        ),
        (
            &typed,
            "odd",
            "see `environment.image`, `environment.network`, `environment.memory` and `environment.run_args`",
        ),
        (
            &by_hand,
            "odd",
            "see `environment.image` and `environment.run_args`",
        ),
        (
            &typed,
            "runc: runc create failed: error setting rlimit type 7: operation not permitted: OCI permission denied",
            "`[\"--rm\", \"--ulimit\", \"nofile=1024:1024\", \"--ulimit\", \"nproc=1024:1024\"]`",
        ),
    ] {
        let text = explain(Doing::Making(spec), "docker", said).message;
        assert!(text.contains(wanted), "{text}");
        assert!(!text.contains('{'), "{text}");
    }
    let podman = explain(
        Doing::Asking,
        "podman",
        "unable to connect to Podman socket",
    );
    assert!(podman.message.contains("podman.socket"), "{podman}");
}
