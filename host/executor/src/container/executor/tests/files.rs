//! Files and folders are copied into the container and out of it.

use std::fs;

use super::*;

#[tokio::test]
async fn files_go_in_and_out() {
    if !docker("files_go_in_and_out") {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let at = |path: &str| root.path().join(path);
    fs::create_dir_all(at("a/b/empty")).unwrap();
    fs::write(at("a/b/x"), "1\n").unwrap();
    std::os::unix::fs::symlink("b/x", at("a/link")).unwrap();
    for transport in [Transport::Api, Transport::Cli] {
        for user in [None, Some("1000:1000".to_owned())] {
            let mut executor = started(ContainerSettings {
                transport,
                cwd: "/tmp".into(),
                user: user.clone(),
                ..settings()
            })
            .await;
            let name = format!("{transport:?} {user:?}");
            executor.upload(&at("a"), "new/place").await.unwrap();
            let seen = run(
                &mut executor,
                "cat new/place/b/x; readlink new/place/link; ls -d new/place/b/empty; stat -c %u new/place/b/x new/place new; stat -c %a /tmp",
            )
            .await;
            let id = if user.is_some() { 1000 } else { 0 };
            assert_eq!(
                seen.output,
                format!("1\nb/x\nnew/place/b/empty\n{id}\n{id}\n{id}\n1777\n"),
                "{name}"
            );
            // A folder is merged into an existing one; a file goes into a folder; a link to a
            // folder stays one.
            run(
                &mut executor,
                "echo 2 >new/place/b/y; echo old >new/place/b/x; ln -s new/place link",
            )
            .await;
            executor.upload(&at("a"), "link").await.unwrap();
            executor.upload(&at("a/b/x"), "link").await.unwrap();
            executor.upload(&at("a/b/x"), "deep/er/name").await.unwrap();
            let seen = run(
                &mut executor,
                "cat new/place/b/x new/place/b/y new/place/x deep/er/name; readlink link",
            )
            .await;
            assert_eq!(seen.output, "1\n2\n1\n1\nnew/place\n", "{name}");

            let out = tempfile::tempdir().unwrap();
            executor
                .download("new/place", &out.path().join("p/q"))
                .await
                .unwrap();
            assert_eq!(
                fs::read_to_string(out.path().join("p/q/b/y")).unwrap(),
                "2\n"
            );
            assert_eq!(
                fs::read_link(out.path().join("p/q/link")).unwrap(),
                Path::new("b/x")
            );
            assert!(out.path().join("p/q/b/empty").is_dir());
            // Links at the top are followed, as on this machine.
            executor
                .download("link", &out.path().join("followed"))
                .await
                .unwrap();
            assert!(out.path().join("followed/b/x").is_file());
            executor
                .download("new/place/link", out.path())
                .await
                .unwrap();
            assert_eq!(fs::read_to_string(out.path().join("link")).unwrap(), "1\n");

            for (result, part) in [
                (executor.download("none", out.path()).await, "`/tmp/none`"),
                (executor.upload(&at("none"), "x").await, "none"),
                (
                    executor.upload(&at("a/b/x"), "/dev/null/x").await,
                    "`/dev/null/x`",
                ),
            ] {
                let error = result.unwrap_err().to_string();
                assert!(error.contains(part), "{name}: {error}");
            }
            executor.cleanup().await;
        }
    }
}

#[tokio::test]
async fn files_go_in_and_out_without_a_shell() {
    if !docker("files_go_in_and_out_without_a_shell") {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("x"), "1\n").unwrap();
    let mut executor = started(ContainerSettings {
        image: NOSH.into(),
        interpreter: vec!["bash".into(), "-c".into()],
        ..settings()
    })
    .await;
    executor.upload(root.path(), "/made/here").await.unwrap();
    assert_eq!(
        run(&mut executor, "read -r x </made/here/x; echo $x")
            .await
            .output,
        "1\n"
    );
    executor
        .download("/made/here/x", &root.path().join("y"))
        .await
        .unwrap();
    assert_eq!(fs::read_to_string(root.path().join("y")).unwrap(), "1\n");
    executor.cleanup().await;
}

/// The peak memory of this process, in bytes.
fn most_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let number = line.unwrap().split_whitespace().nth(1).unwrap();
    number.parse::<u64>().unwrap() * 1024
}

#[tokio::test]
async fn large_files_are_never_in_memory() {
    if !docker("large_files_are_never_in_memory") {
        return;
    }
    const SIZE: u64 = 200 * 1024 * 1024;
    let root = tempfile::tempdir().unwrap();
    let at = |path: &str| root.path().join(path);
    fs::create_dir(at("a")).unwrap();
    let file = fs::File::create(at("a/large")).unwrap();
    file.set_len(SIZE).unwrap();
    std::os::unix::fs::FileExt::write_at(&file, b"end", SIZE - 3).unwrap();
    for transport in [Transport::Api, Transport::Cli] {
        let mut executor = started(ContainerSettings {
            transport,
            cwd: "/tmp".into(),
            ..settings()
        })
        .await;
        let before = most_memory();
        executor.upload(&at("a"), "b").await.unwrap();
        let seen = run(
            &mut executor,
            "stat -c %s b/large; tail -c 4 b/large | od -An -c",
        )
        .await;
        assert_eq!(
            seen.output.split_whitespace().collect::<Vec<_>>(),
            [SIZE.to_string().as_str(), "\\0", "e", "n", "d"],
            "{transport:?}"
        );
        let back = at("back");
        executor.download("b/large", &back).await.unwrap();
        let same = |path: &Path| {
            let run = Program::new("cmp").arg(path).arg(at("a/large")).status();
            run.unwrap().success()
        };
        assert!(same(&back), "{transport:?}");
        fs::remove_file(&back).unwrap();
        let more = most_memory().saturating_sub(before);
        assert!(more < SIZE / 4, "{transport:?}: {more} bytes of memory");
        executor.cleanup().await;
    }
}
