//! Tests of outputs that are data: submissions and what salvage saves.

use super::*;

const MARK: &str = "THE_MARK";

fn marked(folder: &Path) -> LocalExecutor {
    LocalExecutor::new(LocalSettings {
        capture_bytes: 1000,
        cwd: Some(folder.to_owned()),
        whole_after: Some(MARK.to_owned()),
        ..settings()
    })
}

/// A repository with a change whose diff is long and has lines that end in CR LF and in CR.
const REPOSITORY: &str = "git init -q . && seq 1 3000 | sed 's/$/\\r/' >a && printf 'x\\ry\\n' >>a \
    && git add a && git -c user.name=n -c user.email=e commit -qm m && sed -i 's/^/n/' a";

#[tokio::test]
async fn patches_apply_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut executor = marked(folder.path());
    let made = run(&mut executor, REPOSITORY).await;
    assert_eq!((made.output.as_str(), made.returncode), ("", 0));
    let changed = std::fs::read(folder.path().join("a")).unwrap();

    let diff = "git -c core.autocrlf=false diff --no-ext-diff";
    let salvage = Command {
        whole: true,
        ..Command::new(diff)
    };
    let salvaged = executor.execute(&salvage, &Stop::never()).await;
    let submit = run(&mut executor, &format!("echo {MARK}; {diff}")).await;
    let submitted = submit.output.strip_prefix("THE_MARK\n").unwrap();
    for (patch, extra) in [
        (salvaged.output.as_str(), &salvaged.extra),
        (submitted, &submit.extra),
    ] {
        assert!(patch.len() > 20_000 && extra.is_empty(), "{extra:?}");
        run(&mut executor, "git checkout -q a").await;
        std::fs::write(folder.path().join("patch"), patch).unwrap();
        let applied = run(&mut executor, "git apply patch").await;
        assert_eq!(applied.returncode, 0, "{}", applied.output);
        assert!(std::fs::read(folder.path().join("a")).unwrap() == changed);
    }
    executor.cleanup().await;
}

#[tokio::test]
async fn only_a_success_is_a_submission() {
    let mut executor = marked(Path::new("/"));
    let more = "seq 1 10000 | sed 's/$/\\r/'";
    for (command, whole) in [
        (format!("echo {MARK}; {more}"), true),
        (format!("echo; printf ' {MARK} \\r\\n'; {more}"), true),
        (format!("echo {MARK}; {more}; exit 1"), false),
        (format!("echo x{MARK}; {more}"), false),
        (format!("echo {MARK} x; {more}"), false),
    ] {
        let output = run(&mut executor, &command).await;
        assert_eq!(output.output.contains("\r\n"), whole, "{command}");
        assert_eq!(
            output.extra.contains_key("elided_bytes"),
            !whole,
            "{command}"
        );
    }
    // More than is kept of any output.
    let output = run(
        &mut executor,
        &format!("echo {MARK}; head -c 70000000 /dev/zero"),
    )
    .await;
    assert!(output.output.len() < 1100);
    assert_eq!(output.extra["elided_bytes"], 70_000_000 + 9 - 1000);
    executor.cleanup().await;
}
