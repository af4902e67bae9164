use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{ArgumentProblem, Choices, PullPolicy, choices, translate, variables};
use crate::container::engine::ContainerSpec;

fn spec(args: &[&str]) -> ContainerSpec {
    ContainerSpec {
        name: "n".to_owned(),
        image: "i".to_owned(),
        command: vec!["sleep".to_owned(), "2h".to_owned()],
        cwd: "/".to_owned(),
        labels: BTreeMap::from([("ours".to_owned(), "1".to_owned())]),
        run_args: args.iter().map(|&arg| arg.to_owned()).collect(),
        platform: None,
        typed: Vec::new(),
    }
}

fn variable(name: &str) -> Option<String> {
    (name == "SET").then(|| "value".to_owned())
}

/// The body for these arguments, without the parts that it always has.
fn body(args: &[&str]) -> Value {
    let mut body = translate(&spec(args), &variable).unwrap().body;
    let map = body.as_object_mut().unwrap();
    assert_eq!(map.remove("Image"), Some(json!("i")));
    assert_eq!(map.remove("Cmd"), Some(json!(["sleep", "2h"])));
    if map["WorkingDir"] == "/" {
        map.remove("WorkingDir");
    }
    if map["Labels"] == json!({"ours": "1"}) {
        map.remove("Labels");
    }
    let host = map.remove("HostConfig").unwrap();
    map.extend(host.as_object().unwrap().clone());
    body
}

#[test]
fn arguments_become_the_body() {
    let here = std::env::current_dir().unwrap();
    let here = here.display();
    let vectors: &[(&[&str], Value)] = &[
        (&[], json!({})),
        (&["--rm"], json!({"AutoRemove": true})),
        (&["--rm=false"], json!({"AutoRemove": false})),
        (&["--network", "none"], json!({"NetworkMode": "none"})),
        (&["--net=host"], json!({"NetworkMode": "host"})),
        (
            &["-v", "/a:/b", "-v=/c:/d:ro", "-vname:/e", "--volume=/f"],
            json!({"Binds": ["/a:/b", "/c:/d:ro", "name:/e"], "Volumes": {"/f": {}}}),
        ),
        (&["-v", ".:/b"], json!({"Binds": [format!("{here}:/b")]})),
        (
            &["-v", "./x/../y:/b:ro"],
            json!({"Binds": [format!("{here}/y:/b:ro")]}),
        ),
        (
            &["--mount", "type=bind,source=/a,target=/b,readonly"],
            json!({"Mounts": [{"Type": "bind", "Source": "/a", "Target": "/b", "ReadOnly": true}]}),
        ),
        (
            &["--mount=type=tmpfs,dst=/t,tmpfs-size=1m,tmpfs-mode=1777"],
            json!({"Mounts": [{"Type": "tmpfs", "Target": "/t", "TmpfsOptions": {"SizeBytes": 1_048_576, "Mode": 1023}}]}),
        ),
        (
            &[
                "-e", "A=1", "-eB=x y", "--env=C=", "-e", "SET", "-e", "UNSET",
            ],
            json!({"Env": ["A=1", "B=x y", "C=", "SET=value"]}),
        ),
        (&["--cpus", "1.5"], json!({"NanoCpus": 1_500_000_000_i64})),
        (&["--cpus=.5"], json!({"NanoCpus": 500_000_000})),
        (
            &["-m", "512m", "--memory-swap=-1", "--shm-size=1.5GiB"],
            json!({"Memory": 536_870_912, "MemorySwap": -1, "ShmSize": 1_610_612_736}),
        ),
        (
            &["-m64", "--memory-reservation", "2KB"],
            json!({"Memory": 64, "MemoryReservation": 2048}),
        ),
        (&["-u", "1000:1000"], json!({"User": "1000:1000"})),
        (
            &["--privileged", "--init", "--read-only"],
            json!({"Privileged": true, "Init": true, "ReadonlyRootfs": true}),
        ),
        (
            &[
                "--cap-add",
                "SYS_PTRACE",
                "--cap-add=NET_ADMIN",
                "--cap-drop",
                "ALL",
            ],
            json!({"CapAdd": ["SYS_PTRACE", "NET_ADMIN"], "CapDrop": ["ALL"]}),
        ),
        (
            &[
                "--security-opt",
                "no-new-privileges",
                "--security-opt=seccomp=unconfined",
            ],
            json!({"SecurityOpt": ["no-new-privileges", "seccomp=unconfined"]}),
        ),
        (
            &["--security-opt", "systempaths=unconfined"],
            json!({"MaskedPaths": [], "ReadonlyPaths": []}),
        ),
        (
            &["--ulimit", "nofile=1024:2048", "--ulimit=core=unlimited"],
            json!({"Ulimits": [{"Name": "nofile", "Soft": 1024, "Hard": 2048}, {"Name": "core", "Soft": -1, "Hard": -1}]}),
        ),
        (
            &["--add-host", "a:1.2.3.4", "--add-host=b=host-gateway"],
            json!({"ExtraHosts": ["a:1.2.3.4", "b:host-gateway"]}),
        ),
        (
            &["--dns", "1.1.1.1", "--group-add", "video"],
            json!({"Dns": ["1.1.1.1"], "GroupAdd": ["video"]}),
        ),
        (
            &[
                "--device",
                "/dev/kvm",
                "--device=/dev/a:/dev/b:r",
                "--device=/dev/c:rw",
            ],
            json!({"Devices": [
                {"PathOnHost": "/dev/kvm", "PathInContainer": "/dev/kvm", "CgroupPermissions": "rwm"},
                {"PathOnHost": "/dev/a", "PathInContainer": "/dev/b", "CgroupPermissions": "r"},
                {"PathOnHost": "/dev/c", "PathInContainer": "/dev/c", "CgroupPermissions": "rw"},
            ]}),
        ),
        (
            &["--gpus", "all"],
            json!({"DeviceRequests": [{"Count": -1, "Capabilities": [["gpu"]]}]}),
        ),
        (
            &["--gpus=2"],
            json!({"DeviceRequests": [{"Count": 2, "Capabilities": [["gpu"]]}]}),
        ),
        (
            &["--gpus", "\"device=0,1\""],
            json!({"DeviceRequests": [{"DeviceIDs": ["0", "1"], "Capabilities": [["gpu"]]}]}),
        ),
        (&["--pids-limit", "-1"], json!({"PidsLimit": -1})),
        (
            &["--tmpfs", "/t", "--tmpfs=/u:size=1m,exec"],
            json!({"Tmpfs": {"/t": "", "/u": "size=1m,exec"}}),
        ),
        (
            &[
                "--ipc=host",
                "--pid",
                "host",
                "--cgroupns=private",
                "--runtime=runsc",
                "--cpuset-cpus",
                "0-1",
            ],
            json!({"IpcMode": "host", "PidMode": "host", "CgroupnsMode": "private", "Runtime": "runsc", "CpusetCpus": "0-1"}),
        ),
        (
            &["-h", "box", "--stop-timeout=1"],
            json!({"Hostname": "box", "StopTimeout": 1}),
        ),
        (
            &["--entrypoint", "/bin/sh"],
            json!({"Entrypoint": ["/bin/sh"]}),
        ),
        (&["--entrypoint="], json!({"Entrypoint": [""]})),
        (
            &["-l", "a=b", "--label=c"],
            json!({"Labels": {"ours": "1", "a": "b", "c": ""}}),
        ),
        (&["-w", "/x"], json!({"WorkingDir": "/x"})),
        (&["-dit"], json!({"OpenStdin": true, "Tty": true})),
        (
            &["-itv", "/a:/b"],
            json!({"OpenStdin": true, "Tty": true, "Binds": ["/a:/b"]}),
        ),
        (
            &["-p", "8080:80", "-p=127.0.0.1::53/udp"],
            json!({
                "ExposedPorts": {"80/tcp": {}, "53/udp": {}},
                "PortBindings": {
                    "80/tcp": [{"HostIp": "", "HostPort": "8080"}],
                    "53/udp": [{"HostIp": "127.0.0.1", "HostPort": ""}],
                },
            }),
        ),
        (
            &["--restart=on-failure:3"],
            json!({"RestartPolicy": {"Name": "on-failure", "MaximumRetryCount": 3}}),
        ),
        (&["--sysctl", "a.b=1"], json!({"Sysctls": {"a.b": "1"}})),
        (
            &["--log-driver=none", "--log-opt", "a=b"],
            json!({"LogConfig": {"Type": "none", "Config": {"a": "b"}}}),
        ),
    ];
    for (args, wanted) in vectors {
        assert_eq!(body(args), *wanted, "{args:?}");
    }
}

#[test]
fn some_arguments_are_not_of_the_body() {
    let made = translate(
        &spec(&["--name=other", "--platform", "linux/arm64", "--pull=always"]),
        &variable,
    )
    .unwrap();
    assert_eq!(made.name, "other");
    assert_eq!(made.platform.as_deref(), Some("linux/arm64"));
    assert_eq!(made.pull, PullPolicy::Always);
    let made = translate(&spec(&[]), &variable).unwrap();
    assert_eq!((made.name.as_str(), made.platform), ("n", None));
    assert_eq!(made.pull, PullPolicy::Missing);
}

#[test]
fn files_of_variables_come_before_the_others() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "# no\n\nA=file\n  B=2=3\nSET\nUNSET\n").unwrap();
    let path = file.path().to_str().unwrap();
    assert_eq!(
        body(&["-e", "A=line", "--env-file", path]),
        json!({"Env": ["A=file", "B=2=3", "SET=value", "A=line"]})
    );
}

#[test]
fn unknown_arguments_are_left_to_the_client() {
    for (args, named) in [
        (&["--frobnicate"][..], "--frobnicate"),
        (&["--frobnicate=secret"], "--frobnicate"),
        (&["--rm", "--health-cmd", "x"], "--health-cmd"),
        (&["-Z"], "-Z"),
        (&["-itZ"], "-itZ"),
        (&["--network=name=x,alias=y"], "--network"),
        (&["--network=a", "--network=b"], "--network"),
        (
            &["--security-opt", "seccomp=/profile.json"],
            "--security-opt",
        ),
        (&["--gpus", "capabilities=utility"], "--gpus"),
        (
            &["--mount", "type=volume,target=/x,volume-opt=a=b"],
            "--mount",
        ),
        (&["-p", "80-90:80-90"], "-p"),
        (&["--device", "vendor.com/class=name"], "--device"),
    ] {
        let problem = translate(&spec(args), &variable).unwrap_err();
        let named = format!("`{named}` in `environment.run_args`");
        assert_eq!(problem, ArgumentProblem::Unknown(named), "{args:?}");
    }
}

#[test]
fn what_is_wrong_is_named() {
    for (args, named) in [
        (&["--cpus"][..], "`--cpus`"),
        (&["-e"], "`-e`"),
        (&["--cpus=many"], "`--cpus=many`"),
        (&["--memory", "12x"], "`--memory`"),
        (&["--memory", ""], "`--memory`"),
        (&["-m", "1ib"], "`-m`"),
        (&["--rm=maybe"], "`--rm=maybe`"),
        (&["--ulimit", "nofile"], "`--ulimit`"),
        (&["--pids-limit", "x"], "`--pids-limit`"),
        (&["--env-file", "/nonexistent/file"], "`/nonexistent/file`"),
        (&["-v", ":/x"], "`-v`"),
        (&["--mount", "type=bind,source=/a"], "`target`"),
        (&["-p", "http"], "`-p`"),
        (&["ubuntu"], "`ubuntu`"),
        (&["--network none"], "`--network none`"),
        (&["--"], "`--`"),
        (&["-"], "`-`"),
        (&[""], "``"),
    ] {
        match translate(&spec(args), &variable) {
            Err(ArgumentProblem::Bad(text)) => assert!(text.contains(named), "{args:?}: {text}"),
            other => panic!("{args:?}: {other:?}"),
        }
    }
}

#[test]
fn variables_of_the_host_are_found() {
    let args = [
        "-e", "A", "--env=B", "-eC", "-e", "D=1", "--env", "E", "--rm",
    ]
    .map(str::to_owned);
    assert_eq!(variables(&args), ["A", "B", "C", "E"]);
}

#[test]
fn choices_are_found_among_all_else() {
    let args = [
        "--frobnicate",
        "--name",
        "a",
        "--platform=linux/arm64",
        "--pull",
        "never",
        "--name=b",
    ]
    .map(str::to_owned);
    let wanted = Choices {
        name: Some("b".to_owned()),
        platform: Some("linux/arm64".to_owned()),
        pull: Some(PullPolicy::Never),
    };
    assert_eq!(choices(&args), wanted);
    assert_eq!(choices(&["--name".to_owned()]), Choices::default());
}

#[test]
fn values_of_keys_are_told_by_their_keys() {
    let spec = ContainerSpec {
        typed: vec![("environment.cpus", "--cpus=many".to_owned())],
        ..spec(&["--cpus=many"])
    };
    let ArgumentProblem::Bad(text) = translate(&spec, &variable).unwrap_err() else {
        panic!("it is known")
    };
    assert!(
        text.starts_with("`environment.cpus` is not usable"),
        "{text}"
    );
}
