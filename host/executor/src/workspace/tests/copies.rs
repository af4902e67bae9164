//! Folders of the host that are copied unchanged.

use super::*;

#[tokio::test]
async fn a_dirty_work_tree_is_copied_as_it_is() {
    let place = Place::new();
    place.origin("so\"urce");
    place.sh(
        "so\"urce",
        "echo staged >>a; git add a; echo more >>a; rm 'sub dir/run'; echo new >new; chmod +x new
         mkdir -p deep/er; echo x >deep/er/x; echo i >x.ign; git stash list",
    );
    let before = (
        tree(&place.at("so\"urce")),
        place.sh("so\"urce", "git status --porcelain=v2"),
    );
    let mut executor = place
        .started(place.settings(&place.text("so\"urce")))
        .await
        .unwrap();
    assert_eq!(tree(&place.at("work")), before.0);
    assert_eq!(place.sh("work", "git status --porcelain=v2"), before.1);
    run(&mut executor, "rm -rf .git *").await;
    executor.cleanup().await;
    let after = (
        tree(&place.at("so\"urce")),
        place.sh("so\"urce", "git status --porcelain=v2"),
    );
    assert_eq!(after, before, "the source was changed");
    let shown = place.shown();
    assert!(shown.starts_with("copying `"), "{shown}");
}

#[tokio::test]
async fn a_copy_is_brought_to_a_commit() {
    let place = Place::new();
    place.origin("source");
    place.sh("source", "echo new >new; echo x >>a");
    let settings = WorkspaceSettings {
        base_commit: Some("v1".to_owned()),
        ..place.settings(&place.text("source"))
    };
    let message = place.refused(settings.clone()).await;
    assert!(message.contains("`workspace.reset`"), "{message}");
    assert!(!place.at("work").exists());
    let reset = WorkspaceSettings {
        reset: true,
        ..settings
    };
    let executor = place.started(reset).await.unwrap();
    assert_eq!(
        tree(&place.at("work")),
        [("a".to_owned(), 0, b"one\n".to_vec())]
    );
    drop(executor);
}

#[tokio::test]
async fn a_plain_folder_is_copied_too() {
    let place = Place::new();
    std::fs::create_dir(place.at("plain")).unwrap();
    std::fs::write(place.at("plain/x"), "x").unwrap();
    let mut executor = place
        .started(place.settings(&place.text("plain")))
        .await
        .unwrap();
    assert_eq!(std::fs::read_to_string(place.at("work/x")).unwrap(), "x");
    assert_eq!(salvaged(&mut executor).await, "");
    assert!(!place.shown().contains("warning"), "{}", place.shown());
    drop(executor);
    let message = place.refused(place.settings(&place.text("plain"))).await;
    assert!(
        message.contains("not empty") && message.contains("leave out `workspace.repo`"),
        "{message}"
    );
    assert_eq!(std::fs::read_to_string(place.at("work/x")).unwrap(), "x");
}

#[tokio::test]
async fn copying_can_be_stopped() {
    let place = Place::new();
    std::fs::create_dir_all(place.at("many")).unwrap();
    place.sh("many", "seq 1 20000 | xargs touch");
    let (source, stop) = StopSource::new();
    let settings = WorkspaceSettings {
        repo_path: place.text("new/work"),
        ..place.settings(&place.text("many"))
    };
    let mut executor = place.made(settings, "").unwrap();
    let context = place.context(stop);
    let work = place.at("new/work");
    let stopping = async {
        while !work.is_dir() || work.read_dir().unwrap().next().is_none() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        source.stop();
    };
    let (done, ()) = tokio::join!(begin(&mut executor, &context), stopping);
    let message = done.unwrap_err().message;
    assert!(message.contains("stopped while copying"), "{message}");
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!place.at("new").exists());
}
