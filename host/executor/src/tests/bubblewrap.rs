//! Tests with a real bubblewrap.

use std::io::Read;
use std::net::TcpListener;

use super::contract::{self, run, text};
use super::*;
use crate::leftovers::Fate;
use crate::{BubblewrapExecutor, BubblewrapSettings, DEFAULT_WRAPPER_ARGS, adopt_orphans, folders};

pub(crate) fn has_bubblewrap(name: &str) -> bool {
    let found = std::process::Command::new("bwrap")
        .arg("--version")
        .output();
    needs::has(
        "bubblewrap",
        name,
        found.map(drop).map_err(|error| error.to_string()),
    )
}

/// The default sandbox with `args` before its own.
fn sandbox(args: &[&str]) -> BubblewrapSettings {
    let default = BubblewrapSettings::default();
    BubblewrapSettings {
        local: contract::local(),
        wrapper_args: Some(
            args.iter()
                .chain(DEFAULT_WRAPPER_ARGS)
                .map(|&arg| arg.to_owned())
                .collect(),
        ),
        ..default
    }
}

async fn started(settings: BubblewrapSettings) -> BubblewrapExecutor {
    let mut executor = BubblewrapExecutor::new(settings);
    executor.start(&context(), None).await.unwrap();
    executor
}

#[tokio::test]
async fn a_sandbox_has_a_shell_for_all_actions() {
    if !has_bubblewrap("a_sandbox_has_a_shell_for_all_actions") {
        return;
    }
    let mut shared = sandbox(&[]);
    shared.local.session = true;
    let mut executor = started(shared).await;
    session::stays(&mut executor).await;
    session_ends::exits(&mut executor).await;
    session_ends::lives_on(&mut executor).await;
    contract::cleanup_leaves_nothing(&mut executor).await;
}

#[tokio::test]
async fn a_sandbox_has_terminals() {
    if !has_bubblewrap("a_sandbox_has_terminals") {
        return;
    }
    let mut shared = sandbox(&[]);
    (shared.local.session, shared.local.pty) = (true, true);
    let mut executor = started(shared).await;
    terminal::commands(&mut executor).await;
    interactive::shells(&mut executor).await;
    contract::cleanup_leaves_nothing(&mut executor).await;
}

/// Run as root and as an unprivileged user.
pub(super) async fn everything() {
    for args in [
        &[][..],
        &["--unshare-pid", "--unshare-net", "--unshare-ipc"],
    ] {
        let mut executor = started(sandbox(args)).await;
        contract::all(&mut executor).await;
        contract::cleanup_leaves_nothing(&mut executor).await;
    }
    // No variable of the host is passed; the marks are.
    let mut executor = started(sandbox(&["--clearenv"])).await;
    contract::the_environment_is_what_was_allowed(&mut executor).await;
    let home = text(&mut executor, "echo ${HOME-none}").await;
    assert_eq!(home, "none\n");
    contract::cleanup_leaves_nothing(&mut executor).await;
    writes_stay_in().await;
}

#[tokio::test]
async fn it_is_the_local_executor_in_a_sandbox() {
    if has_bubblewrap("it_is_the_local_executor_in_a_sandbox") {
        let output = in_its_own_process(module_path!(), "contract_body")
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stdout)
        );
    }
}

#[tokio::test]
#[ignore = "a role in another test"]
async fn contract_body() {
    if plays("contract_body") {
        // As the program does.
        adopt_orphans();
        everything().await;
    }
}

async fn writes_stay_in() {
    let mut executor = started(sandbox(&[])).await;
    let cwd = text(&mut executor, "pwd").await;
    let cwd = Path::new(cwd.trim()).to_owned();
    assert!(cwd.is_dir(), "{cwd:?}");
    assert_eq!(executor.template_vars()["cwd"], cwd.to_str().unwrap());
    text(&mut executor, "echo kept >file").await;
    assert_eq!(std::fs::read_to_string(cwd.join("file")).unwrap(), "kept\n");
    let outside = tempfile::tempdir().unwrap();
    let shown = outside.path().display();
    for command in [
        "echo x >/usr/x",
        "echo x >/etc/x",
        "rm -f /bin/sh",
        "touch /usr/bin/env",
    ] {
        let output = run(&mut executor, command).await;
        assert_ne!(output.returncode, 0, "{command}");
    }
    // The sandbox's temporary folder hides that of the machine, and is removed after the action.
    text(
        &mut executor,
        &format!("mkdir -p {shown} && echo x >{shown}/x"),
    )
    .await;
    assert!(std::fs::read_dir(outside.path()).unwrap().next().is_none());
    assert_ne!(
        run(&mut executor, &format!("cat {shown}/x"))
            .await
            .returncode,
        0
    );

    // Files outside can't be copied in or out, whatever links the commands made.
    text(&mut executor, "ln -s / root; ln -s /etc/hostname name").await;
    for path in ["root/etc/hostname", "name", "/etc/hostname", "../x"] {
        let from = executor.download(path, &outside.path().join("out")).await;
        let to = executor.upload(&cwd.join("file"), path).await;
        for result in [from, to] {
            let message = result.unwrap_err().message;
            assert!(message.contains("is not below"), "{path}: {message}");
        }
    }
    executor.cleanup().await;
    assert!(!cwd.exists());
    let mut owner = cwd.into_os_string();
    owner.push(".owner");
    assert!(!Path::new(&owner).exists());
}

#[tokio::test]
async fn a_configured_folder_is_kept() {
    if !has_bubblewrap("a_configured_folder_is_kept") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let cwd = folder.path().join("a b");
    std::fs::create_dir(&cwd).unwrap();
    let mut settings = sandbox(&[]);
    settings.local.cwd = Some(cwd.clone());
    let mut executor = started(settings.clone()).await;
    assert_eq!(
        text(&mut executor, "echo 1 >x; pwd").await.trim(),
        cwd.to_str().unwrap()
    );
    executor.cleanup().await;
    assert_eq!(std::fs::read_to_string(cwd.join("x")).unwrap(), "1\n");
    // The executor is as usable as before.
    executor.start(&context(), None).await.unwrap();
    assert_eq!(text(&mut executor, "cat x").await, "1\n");
    executor.cleanup().await;
    settings.local.cwd = Some(folder.path().join("none"));
    let mut executor = BubblewrapExecutor::new(settings);
    let error = executor.start(&context(), None).await.unwrap_err().message;
    assert!(
        error.contains("none` can't be used") && error.contains("`cwd`"),
        "{error}"
    );
}

#[tokio::test]
async fn processes_outside_can_not_be_changed_without_a_process_namespace() {
    let name = "processes_outside_can_not_be_changed_without_a_process_namespace";
    if !has_bubblewrap(name) || !landlock::has_scopes(name) {
        return;
    }
    let mut settings = sandbox(&[]);
    let args = ["--unshare-user-try", "--bind", "/", "/", "--dev", "/dev"];
    settings.wrapper_args = Some(args.map(str::to_owned).into());
    settings.local.cwd = Some(std::env::temp_dir());
    let mut executor = started(settings).await;
    for command in landlock::changes_of(std::process::id()) {
        let output = run(&mut executor, &command).await;
        assert_ne!(output.returncode, 0, "{command}: {}", output.output);
    }
    text(&mut executor, "nice -n 1 taskset -c 0 true && ulimit -n 99").await;
    executor.cleanup().await;
}

#[tokio::test]
async fn the_network_is_as_the_arguments_say() {
    if !has_bubblewrap("the_network_is_as_the_arguments_say") {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let command = format!("echo hello >/dev/tcp/127.0.0.1/{port}");
    let mut executor = started(sandbox(&["--unshare-net"])).await;
    assert_ne!(run(&mut executor, &command).await.returncode, 0);
    if landlock::has_scopes("the_network_is_as_the_arguments_say") {
        // `AF_VSOCK`.
        let further = "perl -MSocket -e 'socket(my $s, 40, SOCK_STREAM, 0) or print $!'";
        let said = text(&mut executor, further).await;
        assert!(said.starts_with("Address family not supp"), "{said}");
    }
    executor.cleanup().await;
    let mut executor = started(sandbox(&[])).await;
    text(&mut executor, &command).await;
    let mut said = String::new();
    listener
        .accept()
        .unwrap()
        .0
        .read_to_string(&mut said)
        .unwrap();
    assert_eq!(said, "hello\n");
}

#[tokio::test]
async fn a_bwrap_that_needs_its_rights_goes_without_landlock() {
    if !has_bubblewrap("a_bwrap_that_needs_its_rights_goes_without_landlock") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("wrapper");
    // Written by another process: see the guardian's tests.
    let script = "#!/bin/sh\nif grep -q '^NoNewPrivs:.*1' /proc/$$/status; then\n\
                  echo 'bwrap: not permitted' >&2; exit 1\nfi\nexec bwrap \"$@\"\n";
    let written = std::process::Command::new("sh")
        .args(["-c", "printf %s \"$1\" >\"$2\" && chmod +x \"$2\"", "sh"])
        .args([script, program.to_str().unwrap()])
        .status();
    assert!(written.unwrap().success());
    let mut executor = started(BubblewrapSettings {
        executable: program.to_str().unwrap().to_owned(),
        ..sandbox(&[])
    })
    .await;
    // The variables have come through the wrapper.
    let seen = text(&mut executor, "echo $MY_TOKEN; echo $$").await;
    assert!(seen.starts_with("a b='c',\"d\"\n"), "{seen}");
    executor.cleanup().await;
}

#[tokio::test]
async fn settings_that_can_not_work_are_refused_at_the_start() {
    if !has_bubblewrap("settings_that_can_not_work_are_refused_at_the_start") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let count = || {
        let run = |entry: &std::fs::DirEntry| {
            entry
                .file_name()
                .to_string_lossy()
                .starts_with("mswea-bad-run")
        };
        std::fs::read_dir(std::env::temp_dir())
            .unwrap()
            .flatten()
            .filter(run)
            .count()
    };
    let with_interpreter = |name: &str| {
        let mut settings = sandbox(&[]);
        settings.local.interpreter = vec![name.into(), "-c".into()];
        settings
    };
    let vectors: [(BubblewrapSettings, &[&str]); 7] = [
        (
            BubblewrapSettings {
                executable: "no-bwrap".into(),
                ..sandbox(&[])
            },
            &["`no-bwrap`", "apt-get install bubblewrap"],
        ),
        (
            BubblewrapSettings {
                executable: "/no/bwrap".into(),
                ..sandbox(&[])
            },
            &["`/no/bwrap`", "`environment.executable`"],
        ),
        (
            sandbox(&["--ro-bind", "/no/path", "/no/path"]),
            &["/no/path", "`wrapper_args`"],
        ),
        (
            sandbox(&["--no-such-option"]),
            &["--no-such-option", "`wrapper_args`"],
        ),
        (
            {
                let mut settings = sandbox(&[]);
                settings.local.env.insert("A=B".into(), String::new());
                settings
            },
            &["`A=B`", "`env`"],
        ),
        (with_interpreter("no-bash"), &["no-bash", "`interpreter`"]),
        (
            {
                let mut settings = sandbox(&[]);
                std::fs::write(folder.path().join("file"), "").unwrap();
                settings.local.cwd = Some(folder.path().join("file"));
                settings
            },
            &["not a directory", "`cwd`"],
        ),
    ];
    for (mut settings, parts) in vectors {
        settings.local.run_id = "bad-run".into();
        let mut executor = BubblewrapExecutor::new(settings);
        let error = executor.start(&context(), None).await.unwrap_err().message;
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        assert_eq!(count(), 0, "{error}");
    }
    // An interpreter that is not a shell works as well.
    let mut executor = started(with_interpreter("perl")).await;
    let output = run(&mut executor, "oops(").await;
    assert!(output.returncode != 0 && output.exception_info.is_empty());
}

#[tokio::test]
async fn the_hosts_keys_stay_out() {
    if !has_bubblewrap("the_hosts_keys_stay_out") {
        return;
    }
    let mut command = in_its_own_process(module_path!(), "keys_body");
    let output = command
        .env("OPENAI_API_KEY", "sk-of-the-host")
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
}

#[tokio::test]
#[ignore = "a role in another test"]
async fn keys_body() {
    if !plays("keys_body") {
        return;
    }
    mswea_secrecy::protect();
    let mut executor = started(sandbox(&[])).await;
    let seen = text(
        &mut executor,
        "env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'; :",
    )
    .await;
    assert!(seen.contains("MY_TOKEN"));
    // Other processes of the machine may have it, this one and its children may not.
    let own = text(
        &mut executor,
        "env; tr '\\0' '\\n' </proc/$PPID/environ 2>/dev/null; :",
    )
    .await;
    assert!(!own.contains("sk-of-the-host"), "{own}");
}

#[tokio::test]
#[ignore = "a role in another test"]
async fn host_body() {
    let Some(nap) = std::env::var_os("MSWEA_TEST_NAP") else {
        return;
    };
    let nap = nap.into_string().unwrap();
    let mut executor = started(sandbox(&["--unshare-pid"])).await;
    text(
        &mut executor,
        &format!("echo x >file; (setsid sleep {nap} &)"),
    )
    .await;
    run(&mut executor, &format!("env -i sleep {nap}")).await;
}

#[tokio::test]
async fn a_killed_host_leaves_a_folder_which_is_found() {
    if !has_bubblewrap("a_killed_host_leaves_a_folder_which_is_found") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let nap = contract::nap();
    let mut host = in_its_own_process(module_path!(), "host_body")
        .env("MSWEA_TEST_NAP", &nap)
        .env("TMPDIR", folder.path())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    wait_for("sleepers", || contract::sleeping(&nap) == 2);
    assert_eq!(
        folders::leftovers(folder.path(), None, false),
        [],
        "it still lives"
    );
    host.kill().unwrap();
    host.wait().unwrap();
    wait_for("end", || contract::sleeping(&nap) == 0);
    for dry_run in [true, false] {
        let left = folders::leftovers(folder.path(), None, dry_run);
        assert_eq!(left.len(), 1, "{left:?}");
        let path = Path::new(&left[0].name);
        assert_eq!(path.join("file").exists(), dry_run);
        let wanted = if dry_run { Fate::Found } else { Fate::Removed };
        assert_eq!(left[0].fate, wanted);
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
