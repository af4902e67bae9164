//! Actions that share a shell in a container.

use super::*;
use crate::tests::{interactive, session, session_ends, terminal};

fn sharing(transport: Transport) -> ContainerSettings {
    ContainerSettings {
        session: true,
        interpreter: vec!["bash".to_owned(), "-c".to_owned()],
        transport,
        ..settings()
    }
}

#[tokio::test]
async fn a_shell_in_a_container_is_like_one_on_this_machine() {
    if !docker("a_shell_in_a_container_is_like_one_on_this_machine") {
        return;
    }
    let mut executor = started(sharing(Transport::Api)).await;
    session::prints_and_returns(&mut executor).await;
    session::stays(&mut executor).await;
    session_ends::exits(&mut executor).await;
    executor.cleanup().await;
    let mut executor = started(sharing(Transport::Cli)).await;
    session_ends::lives_on(&mut executor).await;
    executor.cleanup().await;
}

#[tokio::test]
async fn podman_has_shells_too() {
    if !podman("podman_has_shells_too") {
        return;
    }
    let limits = [
        "--rm",
        "--ulimit=nofile=1024:1024",
        "--ulimit=nproc=1024:1024",
    ];
    let mut executor = started(ContainerSettings {
        executable: "podman".to_owned(),
        image: "localhost/mswea-test/bash".to_owned(),
        network: Some("none".to_owned()),
        run_args: limits.map(str::to_owned).to_vec(),
        ..sharing(Transport::Auto)
    })
    .await;
    session_ends::exits(&mut executor).await;
    executor.cleanup().await;
}

#[tokio::test]
async fn what_ends_the_helper_ends_the_shell_and_not_the_session() {
    if !docker("what_ends_the_helper_ends_the_shell_and_not_the_session") {
        return;
    }
    let mut executor = started(sharing(Transport::Auto)).await;
    run(&mut executor, "cd /tmp; x=1").await;
    // All that it can reach, also the helper.
    let output = run(&mut executor, "kill -9 -1").await;
    assert_eq!(
        extra(&output, "exception_type"),
        "HelperKilled",
        "{output:?}"
    );
    let output = run(&mut executor, "pwd; echo -$x-").await;
    assert!(
        output.output.starts_with("/\n--\n[a new shell was begun"),
        "{output:?}"
    );
    // A command that nobody waits for any more.
    let waited = run(&mut executor, "x=2; sleep 60");
    let waited = tokio::time::timeout(Duration::from_millis(500), waited).await;
    assert!(waited.is_err());
    let output = run(&mut executor, "echo -$x-").await;
    assert!(
        output.output.starts_with("--\n[a new shell was begun"),
        "{output:?}"
    );
    assert_eq!(
        run(&mut executor, "ps | grep -c '[s]leep 60'").await.output,
        "0\n"
    );
    // Set-up commands and the like have shells of their own.
    let command = Command {
        apart: true,
        ..Command::new("echo -$x-; exit 4")
    };
    run(&mut executor, "x=3").await;
    let output = executor.execute(&command, &Stop::never()).await;
    assert_eq!((output.output.as_str(), output.returncode), ("--\n", 4));
    assert_eq!(run(&mut executor, "echo $x").await.output, "3\n");
    executor.cleanup().await;
}

/// As `bash -lc` for each command does.
#[tokio::test]
async fn a_login_shell_reads_its_files() {
    if !docker("a_login_shell_reads_its_files") {
        return;
    }
    let mut executor = started(sharing(Transport::Auto)).await;
    let write =
        "echo 'export A=1; cat; echo noise' >/etc/profile; echo 'b() { echo 2; }' >~/.profile";
    assert_eq!(run(&mut executor, write).await.returncode, 0);
    let output = run(&mut executor, "exit").await;
    assert_eq!(output.returncode, 0);
    assert_eq!(run(&mut executor, "echo -$A-").await.output, "--\n");
    executor.settings.interpreter = vec!["bash".to_owned(), "-lc".to_owned()];
    run(&mut executor, "exit").await;
    assert_eq!(run(&mut executor, "echo $A; b").await.output, "1\n2\n");
    executor.cleanup().await;
}

#[tokio::test]
async fn images_that_can_have_no_shell_are_refused() {
    if !docker("images_that_can_have_no_shell_are_refused") {
        return;
    }
    let with = |image: &str, interpreter: &[&str]| ContainerSettings {
        image: image.to_owned(),
        interpreter: interpreter.iter().map(|&word| word.to_owned()).collect(),
        ..sharing(Transport::Auto)
    };
    let text = refused(with(NOBASH, &["sh", "-c"])).await;
    assert!(
        text.contains("`environment.session` needs bash; install it or use an image that has it"),
        "{text}"
    );
    let text = refused(with(BASH, &["busybox", "sh", "-c"])).await;
    assert!(
        text.contains("`environment.interpreter` names `busybox`"),
        "{text}"
    );
}

/// The container of a resumed run holds its work.
#[tokio::test]
async fn a_container_of_the_run_stays_if_it_can_have_no_shell() {
    if !docker("a_container_of_the_run_stays_if_it_can_have_no_shell") {
        return;
    }
    let first = ContainerSettings {
        session: false,
        keep: true,
        image: NOBASH.to_owned(),
        interpreter: vec!["sh".to_owned(), "-c".to_owned()],
        run_id: format!("stays-{}", crate::local::fresh_id()),
        ..sharing(Transport::Auto)
    };
    let (context, _) = context_with(Stop::never());
    let mut executor = ContainerExecutor::new(first.clone());
    let ready = executor.start(&context, None).await.unwrap();
    let name = executor.container_name().unwrap().to_owned();
    executor.cleanup().await;
    let mut later = ContainerExecutor::new(ContainerSettings {
        session: true,
        keep: false,
        ..first
    });
    let error = later.start(&context, Some(&ready.handle)).await;
    let text = error.unwrap_err().to_string();
    assert!(text.contains("`environment.session` needs bash"), "{text}");
    later.cleanup().await;
    drop(later);
    assert!(is_there(&name));
    client(&["rm", "-f", &name]);
}

#[tokio::test]
async fn a_container_that_is_gone_is_noticed_without_a_helper() {
    if !docker("a_container_that_is_gone_is_noticed_without_a_helper") {
        return;
    }
    let mut executor = started(sharing(Transport::Auto)).await;
    let name = executor.container_name().unwrap().to_owned();
    run(&mut executor, "kill -9 -1").await;
    client(&["rm", "-f", &name]);
    let output = run(&mut executor, "true").await;
    assert_eq!(output.extra["environment_gone"], true, "{output:?}");
    executor.cleanup().await;
}

#[tokio::test]
async fn programs_stay_open_in_a_container() {
    if !docker("programs_stay_open_in_a_container") {
        return;
    }
    for transport in [Transport::Api, Transport::Cli] {
        let mut executor = started(sharing(transport)).await;
        interactive::shells(&mut executor).await;
        interactive::loses_a_helper(&mut executor, false).await;
        executor.cleanup().await;
    }
}

#[tokio::test]
async fn a_container_that_can_t_run_the_helper_keeps_no_programs_open() {
    if !docker("a_container_that_can_t_run_the_helper_keeps_no_programs_open") {
        return;
    }
    let mut executor = started(ContainerSettings {
        fast_path: false,
        ..settings()
    })
    .await;
    executor.container.as_mut().unwrap().way = Way::Plain { shell: true };
    let error = interactive::open(&mut executor, "p", "cat", None)
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("which this container can't run"),
        "{error}"
    );
    executor.cleanup().await;
}

#[tokio::test]
async fn a_shell_in_a_container_has_a_terminal() {
    if !docker("a_shell_in_a_container_has_a_terminal") {
        return;
    }
    let mut executor = started(ContainerSettings {
        pty: true,
        ..sharing(Transport::Api)
    })
    .await;
    terminal::commands(&mut executor).await;
    session::stays(&mut executor).await;
    session_ends::lives_on(&mut executor).await;
    executor.cleanup().await;
}
