//! Repositories that git clones in the environment.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};

use super::*;

#[tokio::test]
async fn clones_stand_at_their_commit() {
    let place = Place::new();
    let url = place.origin("or'igin \"x\"");
    let origin = "or'igin \"x\"";
    let hash = |name: &str| place.sh(origin, &format!("git rev-parse '{name}^{{commit}}'"));
    let (first, second, last) = (hash("v1"), hash("main~1"), hash("main"));
    // base_commit; expected HEAD, branch, number of commits
    for (commit, head, branch, count) in [
        ("", &last, "main", 1),
        (second.as_str(), &second, "HEAD", 1),
        ("main", &last, "HEAD", 1),
        ("side/way", &hash("side/way"), "HEAD", 1),
        ("v1", &first, "HEAD", 1),
        // A commit that a server does not serve by that name needs a full fetch.
        (&second[..9], &second, "HEAD", 2),
        ("main~1", &second, "HEAD", 2),
        ("v1^{commit}", &first, "HEAD", 1),
    ] {
        let settings = WorkspaceSettings {
            base_commit: Some(commit.to_owned()).filter(|commit| !commit.is_empty()),
            ..place.settings(&url)
        };
        let mut executor = place.started(settings).await.unwrap();
        for (question, wanted) in [
            ("git rev-parse HEAD", head.as_str()),
            ("git rev-parse --abbrev-ref HEAD", branch),
            ("git rev-list --count HEAD", &count.to_string()),
            ("git status --porcelain", ""),
            ("git remote get-url origin", &url),
            ("pwd", &place.text("work")),
            ("ls .git | grep mswea", ""),
        ] {
            let got = run(&mut executor, &format!("{question} || :")).await;
            assert_eq!(got, wanted, "{commit}: {question}");
        }
        executor.cleanup().await;
        std::fs::remove_dir_all(place.at("work")).unwrap();
    }
    // A server that serves only what its branches and tags name.
    place.sh("home", "git config --global protocol.version 0");
    let settings = WorkspaceSettings {
        base_commit: Some(second.clone()),
        ..place.settings(&url)
    };
    let mut executor = place.started(settings).await.unwrap();
    assert_eq!(run(&mut executor, "git rev-parse HEAD").await, second);
    executor.cleanup().await;
    let shown = place.shown();
    assert!(
        shown.starts_with(&format!("cloning `{url}` into")),
        "{shown}"
    );
}

#[tokio::test]
async fn files_keep_their_modes_and_links() {
    let place = Place::new();
    let url = place.origin("origin");
    let executor = place.started(place.settings(&url)).await.unwrap();
    assert_eq!(tree(&place.at("work")), tree(&place.at("origin")));
    drop(executor);
}

/// Login shells print other lines, and not every shell is bash.
#[tokio::test]
async fn scripts_run_in_other_shells() {
    let mut place = Place::new();
    let url = place.origin("origin");
    std::fs::write(
        place.at("home/.bash_profile"),
        "echo welcome; echo hello >&2\n",
    )
    .unwrap();
    for interpreter in [
        &["bash", "-lc"][..],
        &["bash", "-euc"],
        &["bash", "--posix", "-c"],
        &["busybox", "sh", "-c"],
        &["zsh", "-c"],
    ] {
        if Program::new(interpreter[0]).arg("--help").output().is_err() {
            // bash is always installed; the others are optional.
            let name = interpreter[0];
            writeln!(
                io::stderr(),
                "SKIPPED (no {name}): scripts_run_in_other_shells"
            )
            .unwrap();
            continue;
        }
        place.interpreter = interpreter.iter().map(|&word| word.to_owned()).collect();
        for (repo, commit) in [
            (url.as_str(), Some("main~1")),
            (&url, None),
            (&place.text("origin"), Some("v1")),
        ] {
            let settings = WorkspaceSettings {
                base_commit: commit.map(str::to_owned),
                reset: true,
                startup_commands: vec![startup("echo built >built")],
                ..place.settings(repo)
            };
            let mut executor = place.started(settings).await.unwrap();
            run(&mut executor, "echo new >new").await;
            let salvage = executor.salvage_command().unwrap();
            let patch = run(&mut executor, &salvage).await;
            assert!(patch.contains("+new"), "{interpreter:?}: {patch}");
            assert_eq!(
                patch.matches("diff --git").count(),
                1,
                "{interpreter:?}: {patch}"
            );
            executor.cleanup().await;
            std::fs::remove_dir_all(place.at("work")).unwrap();
        }
    }
}

#[tokio::test]
async fn submodules_and_hooks_are_left_alone() {
    let place = Place::new();
    let inner = place.origin("inner");
    place.origin("outer");
    place.sh(
        "outer",
        &format!(
            "git -c protocol.file.allow=always submodule add -q \"{}\" module; git commit -qm m",
            inner.replace('"', "\\\"")
        ),
    );
    place.sh("home", "git config --global submodule.recurse true; mkdir -p t/hooks; printf '#!/bin/sh\ntouch \"$HOME/called\"\n' >t/hooks/post-checkout; chmod +x t/hooks/*; git config --global init.templateDir \"$PWD/t\"");
    let url = format!("file://{}", place.text("outer"));
    for commit in [None, Some("main".to_owned())] {
        let settings = WorkspaceSettings {
            base_commit: commit,
            ..place.settings(&url)
        };
        let executor = place.started(settings).await.unwrap();
        assert_eq!(place.at("work/module").read_dir().unwrap().count(), 0);
        assert!(!place.at("home/called").exists());
        drop(executor);
        std::fs::remove_dir_all(place.at("work")).unwrap();
    }
}

#[tokio::test]
async fn a_failed_clone_leaves_nothing() {
    let place = Place::new();
    let url = place.origin("origin");
    std::fs::create_dir(place.at("empty")).unwrap();
    std::fs::create_dir(place.at("full")).unwrap();
    std::fs::write(place.at("full/file"), "mine").unwrap();
    std::fs::create_dir(place.at("bare")).unwrap();
    place.sh("bare", "git init -q --bare .");
    let nowhere = format!("file://{}", place.text("nowhere"));
    let bare = format!("file://{}", place.text("bare"));
    let unknown = "0123456789012345678901234567890123456789";
    for (repo, path, commit, parts) in [
        (
            &url,
            "new/deep",
            unknown,
            &["no commit `0123456", "`workspace.base_commit`"][..],
        ),
        (&url, "empty", "no-such", &["no commit `no-such`"]),
        (
            &nowhere,
            "new",
            "",
            &["can't be cloned", "network", "does not appear to be a git"],
        ),
        (&nowhere, "new", "main", &["can't be cloned", "its output:"]),
        (&bare, "new", "", &["can't be cloned"]),
        (&url, "full", "", &["not empty", "`workspace.path`"]),
        (&url, "full/file/x", "", &["can't be made"]),
    ] {
        let settings = WorkspaceSettings {
            repo_path: place.text(path),
            base_commit: Some(commit.to_owned()).filter(|commit| !commit.is_empty()),
            ..place.settings(repo)
        };
        let message = place.refused(settings).await;
        for part in parts {
            assert!(message.contains(part), "{part}: {message}");
        }
        let twice = message.matches("fatal: Could not read from remote").count() > 1;
        assert!(!twice && !message.contains("printed nothing"), "{message}");
        assert!(!place.at("new").exists(), "{message}");
        assert_eq!(place.at("empty").read_dir().unwrap().count(), 0);
        assert_eq!(
            std::fs::read_to_string(place.at("full/file")).unwrap(),
            "mine"
        );
    }
}

#[tokio::test]
async fn no_git_and_no_shell_are_told() {
    let mut place = Place::new();
    let url = place.origin("origin");
    let bin = place.at("bin");
    std::fs::create_dir(&bin).unwrap();
    for tool in ["mkdir", "find", "head", "rm", "cat", "id"] {
        std::os::unix::fs::symlink(format!("/usr/bin/{tool}"), bin.join(tool)).unwrap();
    }
    place
        .env
        .push(("PATH".into(), bin.to_str().unwrap().into()));
    let message = place.refused(place.settings(&url)).await;
    assert!(message.contains("git is missing"), "{message}");
    // Without a commit, a copy needs no git.
    let mut copied = place
        .started(place.settings(&place.text("origin")))
        .await
        .unwrap();
    assert_eq!(run(&mut copied, "cat a").await, "one\nthree");
    let salvage = copied.salvage_command().unwrap();
    let patch = run(&mut copied, &salvage).await;
    assert!(!patch.contains("diff --git"), "{patch}");
    let shown = place.shown();
    assert!(
        shown.contains("warning: `git` is not in the environment"),
        "{shown}"
    );
    drop(copied);
    std::fs::remove_dir_all(place.at("work")).unwrap();

    place.interpreter = vec!["/bin/cat".into(), "--".into()];
    let message = place.refused(place.settings(&url)).await;
    assert!(message.contains("POSIX shell"), "{message}");
    assert!(!place.at("work").exists());
}

#[tokio::test]
async fn a_clone_can_be_stopped() {
    let mut place = Place::new();
    place.origin("origin");
    let mark = place.text("ssh runs");
    // This server does not answer.
    place.env.push((
        "GIT_SSH_COMMAND".into(),
        "touch \"$MARK\"; exec sleep 100 #".into(),
    ));
    place.env.push(("MARK".into(), mark.clone()));
    for commit in [None, Some("main".to_owned())] {
        let settings = WorkspaceSettings {
            base_commit: commit,
            ..place.settings("ssh://git@host/x")
        };
        let (source, stop) = StopSource::new();
        let mut executor = place.made(settings.clone(), "").unwrap();
        let context = place.context(stop);
        let started = std::time::Instant::now();
        let stopping = async {
            while !Path::new(&mark).exists() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            source.stop();
        };
        let (done, ()) = tokio::join!(begin(&mut executor, &context), stopping);
        let message = done.unwrap_err().message;
        assert!(message.contains("stopped while"), "{message}");
        assert!(started.elapsed() < Duration::from_secs(10));
        assert!(!place.at("work").exists());

        let slow = WorkspaceSettings {
            startup_timeout: Duration::from_millis(300),
            ..settings
        };
        let message = place.refused(slow).await;
        assert!(
            message.contains("within 0.3 seconds: raise `workspace.startup_timeout`"),
            "{message}"
        );
        assert!(!place.at("work").exists());
        std::fs::remove_file(&mark).unwrap();
    }
}

/// Serves the files of `folder` for requests with `authorization`.
fn serve(folder: PathBuf, authorization: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let answer = move |mut stream: TcpStream, folder: &Path| {
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
        let first = lines.next()?.ok()?;
        let path = first.split(' ').nth(1)?.split('?').next()?.to_owned();
        let headers: Vec<String> = lines
            .map_while(Result::ok)
            .take_while(|line| !line.is_empty())
            .collect();
        let known = headers.iter().any(|line| {
            line.to_lowercase() == format!("authorization: basic {authorization}").to_lowercase()
        });
        let (status, body) = match std::fs::read(folder.join(path.trim_start_matches('/'))) {
            _ if !known => ("401 No\r\nWWW-Authenticate: Basic realm=\"x\"", Vec::new()),
            Ok(body) => ("200 OK", body),
            Err(_) => ("404 No", Vec::new()),
        };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).ok()?;
        stream.write_all(&body).ok()
    };
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            answer(stream, &folder);
        }
    });
    port
}

#[tokio::test]
async fn credentials_are_used_and_left_nowhere() {
    let place = Place::new();
    place.origin("origin");
    place.sh(
        "",
        "git clone -q --bare origin served; cd served; git update-server-info",
    );
    // A helper of the user's that would store credentials.
    place.sh("home", "git config --global credential.helper store");
    // `me:se/same-1` and `sesame-2:`
    for (authorization, user_info, secrets) in [
        (
            "bWU6c2Uvc2FtZS0x",
            "me:se%2Fsame-1",
            ["se/same-1", "se%2Fsame-1"],
        ),
        ("c2VzYW1lLTI6", "sesame-2", ["sesame-2", "same-2"]),
    ] {
        let port = serve(place.at("served"), authorization);
        for commit in [None, Some("main~1".to_owned())] {
            let settings = WorkspaceSettings {
                base_commit: commit,
                ..place.settings(&format!("http://{user_info}@127.0.0.1:{port}/"))
            };
            let mut executor = place.started(settings.clone()).await.unwrap();
            let clean = format!("http://127.0.0.1:{port}/");
            assert_eq!(run(&mut executor, "git remote get-url origin").await, clean);
            executor.cleanup().await;
            for secret in secrets {
                let found = place.sh("", &format!("grep -rlF '{secret}' work home || :"));
                assert_eq!(found, "");
                assert!(!place.shown().contains(secret), "{}", place.shown());
                assert!(!format!("{settings:?}").contains(secret));
            }
            assert!(!place.at("home/.git-credentials").exists());
            assert!(!place.at("work/.git/mswea-setup").exists());
            std::fs::remove_dir_all(place.at("work")).unwrap();
        }
        let wrong = format!("http://me:wrong-sesame@127.0.0.1:{port}/");
        let message = place.refused(place.settings(&wrong)).await;
        assert!(message.contains("can't be cloned"), "{message}");
        assert!(!message.contains("wrong-sesame"), "{message}");
        assert!(!place.at("work").exists());
    }
}
