//! Tests with a working directory on a file system that does not answer.

use super::orphans::daemon;
use super::*;
use crate::adopt_orphans;
use mswea_core::StopSource;
use needs::has;

#[tokio::test]
#[ignore = "a role in another test"]
async fn hanging_body() {
    if !plays("hanging_body") {
        return;
    }
    adopt_orphans();
    let dead = std::env::var_os("MSWEA_TEST_FILE").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pids");
    let mut others: Vec<_> = (0..5).map(|_| LocalExecutor::new(settings())).collect();
    for other in &mut others {
        run(other, "true").await;
    }
    let mut hanging = LocalExecutor::new(LocalSettings {
        cwd: Some(Path::new(&dead).join("folder")),
        timeout: Duration::from_secs(6),
        ..settings()
    });
    let hangs = tokio::spawn(async move {
        let output = run(&mut hanging, "echo").await;
        (hanging, output)
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    // Meanwhile the others run commands, and their orphans are found.
    let begun = Instant::now();
    for other in &mut others {
        run(other, &daemon(&file)).await;
    }
    let took = begun.elapsed();
    assert!(!hangs.is_finished(), "the start does not hang: {took:?}");
    let orphans = pids(&file, others.len());
    let (mut hanging, output) = hangs.await.unwrap();
    assert_eq!(extra(&output, "exception_type"), "TimeoutExpired");

    hanging.cleanup().await;
    for mut other in others {
        other.cleanup().await;
    }
    assert!(!orphans.iter().any(|pid| lives(pid)), "{orphans:?}");
    let me = std::process::id();
    let children = std::fs::read_to_string(format!("/proc/{me}/task/{me}/children")).unwrap();
    assert!(!children.split_whitespace().any(lives), "{children}");
}

/// With few runs, the thread of the loop itself waits for the start.
#[tokio::test]
#[ignore = "a role in another test"]
async fn alone_body() {
    if !plays("alone_body") {
        return;
    }
    let dead = std::env::var_os("MSWEA_TEST_FILE").unwrap();
    let begun = Instant::now();
    let executor = |session| {
        LocalExecutor::new(LocalSettings {
            cwd: Some(Path::new(&dead).join("folder")),
            timeout: Duration::from_millis(700),
            session,
            ..settings()
        })
    };
    for session in [false, true] {
        let mut alone = executor(session);
        let output = run(&mut alone, "echo").await;
        assert_eq!(extra(&output, "exception_type"), "TimeoutExpired");
        let command = Command::new("echo");
        let output = alone.execute(&command, &soon_stopped()).await;
        assert_eq!(extra(&output, "exception_type"), "Interrupted");
        alone.cleanup().await;
    }
    // The processes that did not start are ended and waited for.
    let children = || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let files = tasks.map(|task| task.unwrap().path().join("children"));
        files
            .map(|file| std::fs::read_to_string(file).unwrap_or_default())
            .collect::<String>()
    };
    while !children().is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(15), "{}", children());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let mut alone = executor(false);
    let refused = alone.start(&context(), None).await;
    let why = refused.unwrap_err().to_string();
    assert!(why.contains("has not answered for 5 seconds"), "{why}");
    let stopping = Context::new(Arc::new(Silent), Arc::new(Silent), soon_stopped());
    let refused = alone.start(&stopping, None).await;
    assert_eq!(refused.unwrap_err().to_string(), "interrupted");
    // Nothing can end this process while its file system does not answer. The loop goes on.
    let output = run(&mut alone, "echo").await;
    assert_eq!(extra(&output, "exception_type"), "TimeoutExpired");
    alone.cleanup().await;
    assert!(begun.elapsed() < Duration::from_secs(25), "{begun:?}");
}

/// Stopped by another thread in a moment.
fn soon_stopped() -> Stop {
    let (source, stop) = StopSource::new();
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        source.stop();
        // A source that is gone stops nothing.
        std::thread::sleep(Duration::from_secs(30));
    });
    stop
}

#[test]
fn a_start_that_hangs_delays_no_other_run() {
    beside_a_dead_file_system("hanging_body", "a_start_that_hangs_delays_no_other_run");
}

#[test]
fn a_start_that_hangs_alone_keeps_its_limit_and_can_be_stopped() {
    let name = "a_start_that_hangs_alone_keeps_its_limit_and_can_be_stopped";
    beside_a_dead_file_system("alone_body", name);
}

/// Runs `role` in a process of its own, where a file system that does not answer is mounted.
fn beside_a_dead_file_system(role: &str, test: &str) {
    let folder = tempfile::tempdir().unwrap();
    // Nobody reads what the kernel asks at descriptor 3.
    let script = "exec 3<>/dev/fuse || exit 77; where=$1; shift
        mount -i -t fuse -o fd=3,rootmode=40000,user_id=0,group_id=0 none \"$where\" || exit 77
        exec timeout 30 \"$@\"";
    let inner = in_its_own_process(module_path!(), role);
    let status = std::process::Command::new("unshare")
        .args(["-m", "sh", "-c", script, "sh"])
        .arg(folder.path())
        .arg(inner.get_program())
        .args(inner.get_args())
        .env("MSWEA_TEST_ROLE", role)
        .env("MSWEA_TEST_FILE", folder.path())
        .status()
        .unwrap();
    let found = match status.code() {
        Some(77 | 1) => Err("`unshare -m` or a mount of /dev/fuse is refused".to_owned()),
        _ => Ok(()),
    };
    if has("mounts", test, found) {
        assert!(status.success(), "{status}");
    }
}
