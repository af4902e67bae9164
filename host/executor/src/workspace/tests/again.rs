//! A workspace is used again by a later process of its run, and files are brought back.

use super::*;

#[tokio::test]
async fn a_workspace_is_found_again_with_its_base() {
    let place = Place::new();
    let url = place.origin("origin");
    let context = place.context(Stop::never());
    let mut executor = place.made(place.settings(&url), "").unwrap();
    let ready = executor.start(&context, None).await.unwrap();
    assert_eq!(ready.replaced, None);
    let half = ready.handle;
    let handle = executor.set_up(&context).await.unwrap();
    run(&mut executor, "echo mine >>a").await;
    let patch = salvaged(&mut executor).await;
    executor.cleanup().await;
    // From another folder, by a process that knows the handle only.
    let mut later = place.made(place.settings(&url), "").unwrap();
    let ready = later.start(&context, Some(&handle)).await.unwrap();
    assert_eq!((ready.replaced, ready.handle), (None, handle.clone()));
    assert_eq!(salvaged(&mut later).await, patch);
    assert!(patch.contains("+mine"), "{patch}");
    later.cleanup().await;
    // The set-up had not ended: the files stay, and the run is refused.
    let mut later = place.made(place.settings(&url), "").unwrap();
    later.start(&context, Some(&half)).await.unwrap();
    let error = later.set_up(&context).await.unwrap_err().message;
    assert!(error.contains("is not empty"), "{error}");
    assert!(place.at("work/a").exists());
    std::fs::remove_dir_all(place.at("work")).unwrap();
    let mut later = place.made(place.settings(&url), "").unwrap();
    let ready = later.start(&context, Some(&handle)).await.unwrap();
    let why = ready.replaced.unwrap();
    assert!(why.contains("was removed"), "{why}");
    later.set_up(&context).await.unwrap();
    assert_eq!(salvaged(&mut later).await, "");
    later.cleanup().await;
}

#[tokio::test]
async fn files_are_brought_back_only_from_the_state_of_the_set_up() {
    let place = Place::new();
    let url = place.origin("origin");
    let mut executor = place.started(place.settings(&url)).await.unwrap();
    let work = "echo mine >>a; printf 'new\\nEND-OF-PATCH\\nno newline' >new; rm link; head -c 300 /dev/urandom >bin; printf '\\0' >>bin";
    run(&mut executor, work).await;
    let patch = salvaged(&mut executor).await;
    let never = Stop::never();
    // Restoring files that are already as recorded changes nothing.
    executor.restore(&patch, "", &never).await.unwrap();
    run(&mut executor, "echo other >other").await;
    let before = tree(&place.at("work"));
    let error = executor.restore(&patch, "", &never).await.unwrap_err();
    assert!(error.message.contains("changed otherwise"), "{error}");
    assert_eq!(tree(&place.at("work")), before);
    run(&mut executor, "rm other").await;
    let before = tree(&place.at("work"));
    run(&mut executor, "git reset -q --hard; git clean -fdq").await;
    executor.restore(&patch, "", &never).await.unwrap();
    assert_eq!(tree(&place.at("work")), before);
    run(&mut executor, "git reset -q --hard; git clean -fdq").await;
    let wrong = patch.replace("\n three", "\n four");
    let before = tree(&place.at("work"));
    let error = executor.restore(&wrong, "", &never).await.unwrap_err();
    assert!(error.message.contains("can't be applied"), "{error}");
    assert_eq!(tree(&place.at("work")), before);
    executor.cleanup().await;
}
