use super::*;

/// A folder with these files.
fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    folder
}

#[test]
fn predictions_are_merged_by_instance() {
    let files = [
        (
            "a/x__1/x__1.pred",
            r#"{"instance_id": "x__1", "model_patch": "p", "model_name_or_path": "a"}"#,
        ),
        (
            "a/x__2/x__2.pred",
            r#"{"instance_id": "x__2", "model_patch": null, "model_name_or_path": "a"}"#,
        ),
        ("a/x__3/x__3.pred", r#"{"instance_id": "x__3"}"#),
        (
            "b/x__1.pred",
            r#"{"instance_id": "x__1", "model_patch": "q"}"#,
        ),
        ("c/broken.pred", "{"),
    ];
    let folder = folder(&files);
    let merge = |names: &[&str]| {
        let folders: Vec<PathBuf> = names.iter().map(|name| folder.path().join(name)).collect();
        merge_predictions(&folders)
    };
    let (merged, notes) = merge(&["a"]).unwrap();
    let patches: Vec<_> = merged
        .iter()
        .map(|(id, it)| (id.as_str(), it["model_patch"].as_str().unwrap()))
        .collect();
    assert_eq!(patches, [("x__1", "p"), ("x__2", "")]);
    assert!(notes[0].contains("x__3.pred"), "{notes:?}");
    for (names, part) in [
        (&["a", "b"][..], "two predictions"),
        (&["c"], "no JSON"),
        (&["none"], "can't read the folder"),
    ] {
        let error = merge(names).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn statistics_and_unfinished_runs() {
    let done = r#"{"info": {"exit_status": "submitted", "submission": "p", "model_stats": {"api_calls": 4}}}"#;
    let lost = r#"{"info": {"exit_status": "exit_cost", "submission": null, "model_stats": {"api_calls": 8}}}"#;
    let folder = folder(&[
        ("r/x__1/x__1.traj", done),
        ("r/x__2/x__2.traj", done),
        ("r/x__3/x__3.traj", lost),
        ("r/x__4/x__4.traj", "{"),
        ("r/x__5/notes", ""),
        ("r/other/o.traj", lost),
    ]);
    let root = folder.path().join("r");
    let stats = quick_stats(&root).unwrap();
    let counts: Vec<_> = stats
        .statuses
        .iter()
        .map(|it| (it.name.as_str(), it.count))
        .collect();
    assert_eq!(counts, [("exit_cost", 2), ("submitted", 2)]);
    assert_eq!(stats.average_calls, Some(6.0));
    assert_eq!(stats.notes.len(), 1);
    // Trajectories in one folder are counted one by one.
    let flat = self::folder(&[("a.traj", done), ("b.traj", done), ("c.traj", lost)]);
    let stats = quick_stats(flat.path()).unwrap().statuses;
    let counts: Vec<_> = stats.iter().map(|it| (it.count, it.places.len())).collect();
    assert_eq!(counts, [(2, 1), (1, 1)]);
    // A file that can't be read may have a submission, so its folder is kept.
    std::fs::create_dir_all(root.join("x__6/x__6.traj")).unwrap();
    std::fs::create_dir(root.join("x__7")).unwrap();
    std::os::unix::fs::symlink("/nonexistent/x", root.join("x__7/x__7.traj")).unwrap();
    std::os::unix::fs::symlink(root.join("x__3"), root.join("x__8")).unwrap();
    let (found, notes) = unfinished(&root).unwrap();
    assert_eq!(notes.len(), 2, "{notes:?}");
    let names: Vec<_> = found
        .iter()
        .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
        .collect();
    assert_eq!(names, ["x__3", "x__4"]);
}

#[test]
fn a_prediction_and_a_demonstration_of_a_trajectory() {
    let text = r#"{"info": {"submission": "p"}, "replay_config": "{\"a\": 1}", "history": [
        {"role": "system", "content": "s", "agent": "main"},
        {"role": "assistant", "content": "d", "agent": "main", "is_demo": true},
        {"role": "assistant", "content": "r", "agent": "main", "thought": "t", "message_type": "action"},
        {"role": "user", "content": "o", "agent": "main"},
        {"role": "assistant", "content": "x", "agent": "other"}]}"#;
    let folder = folder(&[("run/x__1/x__1.traj", text)]);
    let path = folder.path().join("run/x__1/x__1.traj");
    let (file, prediction) = extract_prediction(&path).unwrap();
    assert_eq!(file, path.with_extension("pred"));
    assert_eq!(
        prediction,
        json!({"model_name_or_path": "run", "model_patch": "p", "instance_id": "x__1"})
    );
    let (file, demo) = demonstration(&path, Path::new("demos"), "_s", false).unwrap();
    assert_eq!(file, Path::new("demos/x__1_s/x__1.demo.yaml"));
    let reply =
        json!({"role": "assistant", "content": "r", "agent": "main", "message_type": "action"});
    assert_eq!(demo, json!({"history": [reply], "replay_config": {"a": 1}}));
    let (_, demo) = demonstration(&path, Path::new("demos"), "", true).unwrap();
    assert_eq!(demo["history"].as_array().unwrap().len(), 2);
}

#[test]
fn evaluations_are_compared() {
    let run = |name: &str, evaluated: &[&str], resolved: &[&str]| {
        let set = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect();
        EvaluatedRun {
            name: name.to_owned(),
            evaluated: set(evaluated),
            resolved: set(resolved),
        }
    };
    let new = run("new", &["a", "b", "c", "d", "e"], &["a", "b", "e"]);
    let old = run("old", &["a", "b", "c", "d"], &["b", "c"]);
    assert_eq!(
        comparison(std::slice::from_ref(&new), false),
        "Total evaluated: 5\nTotal resolved: 3\n"
    );
    let marks = |show_same| -> Vec<String> {
        let text = comparison(&[new.clone(), old.clone()], show_same);
        text.lines().skip(3).map(str::to_owned).collect()
    };
    assert_eq!(marks(false), ["😀 a", "❌ c", "😀❓ e"]);
    assert_eq!(marks(true), ["😀 a", "✅ b", "❌ c", "👾 d", "😀❓ e"]);
    let table = comparison(&[new.clone(), old, new], false);
    assert!(
        table.contains("\ne                ✅    ❓    ✅  1.00\n"),
        "{table}"
    );
    assert!(
        table.contains("\n1          2          0.50  old\n"),
        "{table}"
    );
}
