//! Files of a place: the same table wherever the helper is.

use mswea_helper::files::FileKind;

use super::*;
use crate::helper::files::FileFault;

/// Makes what the table needs in the folder `$0`.
const GROUND: &str = r#"mkdir -p "$0/sub" && cd "$0" && printf 'a\0\377\r\n' >sub/file && ln -s sub/file also &&
ln -s sub fine && ln -s nowhere dangling && ln -s loop loop && mkfifo pipe && truncate -s 1000000000000 vast"#;

fn errno<T: std::fmt::Debug>(done: Result<T, FileFault>) -> Option<i32> {
    match done {
        Err(FileFault::Failed { errno, .. }) => errno,
        other => panic!("{other:?}"),
    }
}

async fn read(session: &mut HelperSession, path: &str, most: usize) -> Result<Vec<u8>, FileFault> {
    session
        .read_file(path, None, most, LONG, &Stop::never())
        .await
}

async fn write(
    session: &mut HelperSession,
    path: &str,
    name: &str,
    content: &[u8],
) -> Result<(), FileFault> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(content).unwrap();
    std::io::Seek::rewind(&mut file).unwrap();
    session.write_file(path, name, file.into()).await
}

/// The output of the helper's `stat` or `list`.
async fn told(session: &mut HelperSession, what: &str, path: &str) -> Result<String, FileFault> {
    let args = [what, path];
    let stop = Stop::never();
    let told = session.file_program(&args, None, 100_000, LONG, &stop);
    Ok(String::from_utf8(told.await?).unwrap())
}

async fn table(session: &mut HelperSession, place: &str) {
    let folder = format!(
        "/tmp/mswea-files-{}-{}",
        std::process::id(),
        fastrand::u64(..)
    );
    let at = |path: &str| format!("{folder}/{path}");
    let made = run_argv(
        session,
        &["sh", "-c", GROUND, &folder],
        20.0,
        &Stop::never(),
    )
    .await;
    assert_eq!(made.1.unwrap(), HelperEnd::Exited(0), "{place}: {}", made.0);

    for path in ["sub/file", "also", "fine/file", "fine/../sub/file"] {
        let content = read(session, &at(path), 100).await.unwrap();
        assert_eq!(content, b"a\0\xff\r\n", "{place}: {path}");
    }
    for (path, wanted) in [
        ("none", Some(libc::ENOENT)),
        ("none/x", Some(libc::ENOENT)),
        ("dangling", Some(libc::ENOENT)),
        ("loop", Some(libc::ELOOP)),
        ("sub", Some(libc::EISDIR)),
        ("sub/file/x", Some(libc::ENOTDIR)),
        // The helper waits for neither of them.
        ("pipe", None),
        ("../../dev/zero", None),
    ] {
        assert_eq!(
            errno(read(session, &at(path), 100).await),
            wanted,
            "{place}: {path}"
        );
    }
    // Of a file of a terabyte no more is read than is needed to know that it is too large.
    for (path, most) in [("also", 4), ("vast", 1_000_000)] {
        assert_eq!(
            errno(read(session, &at(path), most).await),
            Some(libc::EFBIG),
            "{place}: {path}"
        );
    }

    // 10 MB of all bytes, into folders that are missing.
    let large: Vec<u8> = (0..10_000_019_u32).map(|n| (n % 251) as u8).collect();
    write(session, &at("new/deep/large"), "", &large)
        .await
        .unwrap();
    let stat = told(session, "stat", &at("new/deep/large")).await.unwrap();
    assert!(stat.starts_with("f 10000019 6"), "{place}: {stat}");
    let found = read(session, &at("new/deep/large"), 20_000_000)
        .await
        .unwrap();
    assert!(found == large, "{place}: {}", found.len());
    for (path, name, content, made) in [
        ("new/deep/large", "", "shorter", "new/deep/large"),
        ("also", "", "through a link", "sub/file"),
        ("sub", "named", "in a folder", "sub/named"),
        ("fine", "-n", "", "sub/-n"),
        ("plain", "not a folder", "x", "plain"),
        ("dangling", "", "y", "nowhere"),
    ] {
        write(session, &at(path), name, content.as_bytes())
            .await
            .unwrap();
        let found = read(session, &at(made), 100).await.unwrap();
        assert_eq!(found, content.as_bytes(), "{place}: {path}");
    }
    for (path, wanted) in [
        ("sub", Some(libc::EISDIR)),
        ("sub/file/x", Some(libc::ENOTDIR)),
        ("loop/x", Some(libc::ELOOP)),
        ("pipe", Some(libc::ENXIO)),
    ] {
        assert_eq!(
            errno(write(session, &at(path), "", b"x").await),
            wanted,
            "{place}: {path}"
        );
    }

    for path in ["m/n/o", "m/n/o", "fine/p", "m/../q"] {
        session
            .make_folder(&at(path), &Stop::never())
            .await
            .unwrap();
        let stat = told(session, "stat", &at(path)).await.unwrap();
        assert!(stat.starts_with("d "), "{place}: {path}: {stat}");
    }
    for (path, wanted) in [
        ("plain", libc::ENOTDIR),
        ("plain/x", libc::ENOTDIR),
        ("loop/x", libc::ELOOP),
    ] {
        let made = session.make_folder(&at(path), &Stop::never()).await;
        assert_eq!(errno(made), Some(wanted), "{place}: {path}");
    }
    let listed = told(session, "list", &folder).await.unwrap();
    let names: Vec<_> = listed.split_terminator('\0').collect();
    let wanted = [
        "l also",
        "l dangling",
        "l fine",
        "l loop",
        "d m",
        "d new",
        "f nowhere",
        "o pipe",
        "f plain",
        "d q",
        "d sub",
        "f vast",
    ];
    assert_eq!(names, wanted, "{place}");
    let letter = listed.split(' ').next().unwrap();
    assert_eq!(FileKind::of_letter(letter), Some(FileKind::Link));
    assert_eq!(
        errno(told(session, "list", &at("plain")).await),
        Some(libc::ENOTDIR)
    );
    assert_eq!(
        errno(told(session, "stat", &at("none")).await),
        Some(libc::ENOENT)
    );
    let wanted = ("on\n".to_owned(), HelperEnd::Exited(0));
    assert_eq!(
        ok(session, &format!("rm -rf {folder}; echo on")).await,
        wanted,
        "{place}"
    );
}

#[tokio::test]
async fn files_are_the_same_on_this_machine_and_behind_programs() {
    let helper = HELPER.display().to_string();
    for place in [
        "",
        "env -i",
        "unshare --mount --fork",
        "nsenter --target 1 --mount --",
    ] {
        let words = format!("{place} {helper} session");
        let mut words = words.split_whitespace();
        let mut command = Command::new(words.next().unwrap());
        command.args(words);
        let (_child, result) = session(command).await;
        match result {
            Ok(mut session) => table(&mut session, place).await,
            // Namespaces need privileges.
            Err(error) => assert!(place.contains("--"), "{place}: {error}"),
        }
    }
}

#[tokio::test]
async fn files_are_the_same_in_a_container() {
    let Some(container) = Container::new("files", "bash") else {
        return;
    };
    let (_child, result) = session(container.exec(&[])).await;
    table(&mut result.unwrap(), "docker").await;
    // Another user.
    let (_child, result) = session(container.exec(&["--user", "1234"])).await;
    let mut session = result.unwrap();
    for path in ["/etc/new", "/new"] {
        assert_eq!(
            errno(write(&mut session, path, "", b"x").await),
            Some(libc::EACCES)
        );
        let made = session.make_folder(path, &Stop::never()).await;
        assert_eq!(errno(made), Some(libc::EACCES));
    }
    docker(&[
        "exec",
        &container.0,
        "sh",
        "-c",
        "echo x >/secret && chmod 600 /secret && mkdir -m 700 /locked",
    ]);
    assert_eq!(
        errno(read(&mut session, "/secret", 100).await),
        Some(libc::EACCES)
    );
    assert_eq!(
        errno(told(&mut session, "list", "/locked").await),
        Some(libc::EACCES)
    );
}
