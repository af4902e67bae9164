//! Repositories that are in the environment before the run.

use super::*;

#[tokio::test]
async fn a_repository_that_is_there_is_reset() {
    let place = Place::new();
    place.origin("work");
    let hash = |name: &str| place.sh("work", &format!("git rev-parse '{name}^{{commit}}'"));
    let dirty =
        "echo x >>a; git add a; rm link; echo y >new; mkdir -p d/e; echo z >d/e/f; echo i >k.ign";
    let first = hash("v1");
    for (commit, head) in [
        ("", hash("main")),
        ("v1", first.clone()),
        (first.as_str(), first.clone()),
    ] {
        place.sh("work", &format!("git checkout -qf main; {dirty}"));
        let settings = WorkspaceSettings {
            reset: true,
            base_commit: Some(commit.to_owned()).filter(|commit| !commit.is_empty()),
            ..place.settings("")
        };
        let mut executor = place.started(settings).await.unwrap();
        assert_eq!(run(&mut executor, "git rev-parse HEAD").await, head);
        // The first commit has no list of ignored files.
        let ignored = if commit.is_empty() { "k.ign" } else { "" };
        assert_eq!(
            run(
                &mut executor,
                "git status --porcelain; ls *.ign 2>/dev/null || :"
            )
            .await,
            ignored
        );
        executor.cleanup().await;
    }
    let shown = place.shown();
    assert!(
        shown.contains(&format!(
            "resetting `{}`, then checking out `v1`",
            place.text("work")
        )),
        "{shown}"
    );
}

#[tokio::test]
async fn a_repository_that_is_there_keeps_its_changes_otherwise() {
    let place = Place::new();
    place.origin("work");
    place.sh("work", "echo x >>a");
    std::fs::create_dir(place.at("plain")).unwrap();
    let settings = |commit: &str| WorkspaceSettings {
        base_commit: Some(commit.to_owned()),
        ..place.settings("")
    };
    let message = place.refused(settings("main~1")).await;
    assert!(
        message.contains("`workspace.reset`") && message.contains("would be overwritten"),
        "{message}"
    );
    let message = place.refused(settings("nothing")).await;
    assert!(message.contains("no commit `nothing`"), "{message}");
    let plain = WorkspaceSettings {
        repo_path: place.text("plain"),
        ..settings("main")
    };
    let message = place.refused(plain).await;
    assert!(message.contains("not a git repository"), "{message}");
    let missing = WorkspaceSettings {
        repo_path: place.text("missing"),
        ..settings("main")
    };
    let mut executor = place.made(missing, &place.text("")).unwrap();
    let message = begin(&mut executor, &place.context(Stop::never()))
        .await
        .unwrap_err()
        .message;
    assert!(message.contains("can't be made or written"), "{message}");
    let executor = place.started(settings("main")).await.unwrap();
    assert_eq!(place.sh("work", "git diff --name-only"), "a");
    drop(executor);
}

/// The current folder was not named by the user, so work in it must not be lost.
#[tokio::test]
async fn work_in_the_own_folder_is_not_thrown_away() {
    let place = Place::new();
    place.origin("work");
    for (dirt, told) in [
        ("echo x >>a", "\n-  M a"),
        ("echo x >>a; git add a", "\n- M  a"),
        (
            "git config status.showUntrackedFiles no; echo y >new",
            "\n- ?? new",
        ),
    ] {
        place.sh("work", &format!("git reset -q --hard; {dirt}"));
        let before = tree(&place.at("work"));
        for commit in [None, Some("v1".to_owned())] {
            let settings = WorkspaceSettings {
                reset: true,
                repo_path: String::new(),
                base_commit: commit,
                ..place.settings("")
            };
            let mut executor = place.made(settings, &place.text("work")).unwrap();
            let error = begin(&mut executor, &place.context(Stop::never())).await;
            let message = error.unwrap_err().message;
            for part in ["`workspace.reset` would", "`workspace.path`", told] {
                assert!(message.contains(part), "{part}: {message}");
            }
            assert_eq!(tree(&place.at("work")), before);
        }
    }
    // Ignored files stay anyway, and committed ones come back.
    place.sh("work", "rm new; echo i >k.ign");
    let settings = WorkspaceSettings {
        reset: true,
        repo_path: String::new(),
        ..place.settings("")
    };
    let mut executor = place.made(settings, &place.text("work")).unwrap();
    begin(&mut executor, &place.context(Stop::never()))
        .await
        .unwrap();
    assert!(place.at("work/k.ign").exists());
}

#[tokio::test]
async fn a_folder_is_used_by_one_run_at_a_time() {
    let place = Place::new();
    let url = place.origin("origin");
    for round in 0..8 {
        let settings = |run: &str, path: &str| WorkspaceSettings {
            run_id: run.to_owned(),
            repo_path: place.text(path),
            ..place.settings(&url)
        };
        // A third one shares the folder above with them.
        let (one, other, beside) = tokio::join!(
            place.started(settings("one", "deep/er/work")),
            place.started(settings("other", "deep/er/work")),
            place.started(settings("beside", "deep/beside")),
        );
        let (mut won, name, lost) = match (one, other) {
            (Ok(won), Err(lost)) => (won, "one", lost),
            (Err(lost), Ok(won)) => (won, "other", lost),
            _ => panic!("{round}: both or none"),
        };
        let wanted = format!("the run `{name}` (process {})", std::process::id());
        assert!(lost.contains(&wanted), "{round}: {lost}");
        assert!(lost.contains("`workspace.path`"), "{lost}");
        assert_eq!(
            run(&mut won, "git status --porcelain; cat a | wc -l").await,
            "2"
        );
        // The folder stays locked for the whole run, whatever happens to its files.
        let error = place.refused(settings("late", "deep/er/work")).await;
        assert!(error.contains(&wanted), "{error}");
        won.cleanup().await;
        let error = place.refused(settings("late", "deep/er/work")).await;
        assert!(!error.contains("the run"), "{error}");
        assert!(place.at("deep/er/work/a").exists());
        beside.unwrap().cleanup().await;
        std::fs::remove_dir_all(place.at("deep")).unwrap();
    }
}
