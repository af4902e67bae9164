//! Attempts with reviewers, models and agents that do what they should not, and with hosts that are killed.

use std::fs;
use std::time::Duration;

use serde_json::json;

use crate::host::{Host, Signal};
use crate::swe_attempts::{CHOOSER, FLAGS, REVIEWER, Say, config, files, host, server};
use crate::sweagent::read;

#[test]
fn scores_that_are_no_numbers_do_not_win() {
    let endless = "9".repeat(400);
    for (one, two) in [(&*endless, "NaN"), ("inf", &endless), ("", "\u{0}\u{1b}[m")] {
        let server = server(&[
            Say::Submit,
            Say::Judge(one),
            Say::Judge(two),
            Say::Submit,
            Say::Judge("-3 of -1"),
            Say::Judge("-1"),
        ]);
        let judge = REVIEWER.replace("score_range: [0, 10]", "score_range: [null, null]");
        let run = host(&config(&server, &judge, ""))
            .args(FLAGS)
            .run()
            .expect(0);
        let made = read(&files(&run).join("one.traj"));
        let attempts = made["attempts"].as_array().unwrap();
        assert_eq!(attempts[0]["info"]["review"]["accept"], -100.0, "{one:?}");
        assert_eq!(attempts[1]["info"]["review"]["accept"], -1.0, "{one:?}");
        assert_eq!(made["info"]["best_attempt_idx"], 1, "{one:?}");
        assert!(!run.stderr.contains('\u{1b}'), "{}", run.stderr);
    }
}

#[test]
fn attempts_that_cost_nothing_are_not_made_for_ever() {
    for judge in [REVIEWER, CHOOSER] {
        let judge = judge.replace("max_attempts: 2", "max_attempts: 0");
        let judge = judge.replace("max_attempts: 3", "max_attempts: 0");
        let judge = judge.replace("cost_limit: 0", "cost_limit: 5");
        // The model fails, and so does the reviewer.
        let server = server(&[Say::Fail, Say::Fail, Say::Fail]);
        let run = host(&config(&server, &judge, "")).args(FLAGS).run();
        assert_ne!(run.status, 0);
        assert!(run.stderr.contains("has cost nothing"), "{}", run.stderr);
        let made = read(&files(&run).join("one.traj"));
        assert_eq!(made["attempts"].as_array().unwrap().len(), 1);
    }
}

#[test]
fn an_attempt_that_can_not_be_made_leaves_the_others() {
    let server = server(&[
        Say::Run("echo a >>a.txt; echo in the way >../../attempt_1"),
        Say::Submit,
        Say::Judge("1"),
        Say::Judge("1"),
    ]);
    let run = host(&config(&server, REVIEWER, ""))
        .args(FLAGS)
        .run()
        .expect(0);
    assert!(
        run.stderr.contains("attempt 1 can't be made"),
        "{}",
        run.stderr
    );
    let made = read(&files(&run).join("one.traj"));
    assert_eq!(made["attempts"].as_array().unwrap().len(), 1);
    assert_eq!(made["info"]["best_attempt_idx"], 0);
    let patch = fs::read_to_string(files(&run).join("one.patch")).unwrap();
    assert!(patch.contains("+a"), "{patch}");
}

#[test]
fn a_run_with_fewer_attempts_leaves_none_of_the_earlier_ones() {
    let server = server(&[
        Say::Submit,
        Say::Judge("1"),
        Say::Judge("1"),
        Say::Submit,
        Say::Judge("1"),
        Say::Judge("1"),
        Say::Submit,
        Say::Judge("9"),
        Say::Judge("9"),
    ]);
    let first = host(&config(&server, REVIEWER, ""))
        .args(FLAGS)
        .run()
        .expect(0);
    assert!(files(&first).join("attempt_1/one.traj").exists());
    let again = Host::after(&first).env("USER", "me").args(FLAGS);
    let again = again.run().expect(0);
    let made = read(&files(&again).join("one.traj"));
    assert_eq!(made["attempts"].as_array().unwrap().len(), 1);
    assert!(!files(&again).join("attempt_1/one.traj").exists());
    assert!(files(&again).join("attempt_1/one.events.jsonl").exists());
}

#[test]
fn a_killed_batch_of_attempts_goes_on() {
    let server = server(&[
        Say::Run("echo a >>a.txt"),
        Say::Submit,
        Say::Judge("7"),
        Say::Judge("7"),
        Say::Run("echo b >>a.txt"),
        Say::Submit,
        Say::Late,
        // Again: the attempt of the second instance had ended, and is judged.
        Say::Judge("8"),
        Say::Judge("8"),
    ]);
    let lines = ["one", "two"].map(|id| {
        json!({"instance_id": id, "problem_statement": "p", "repo_name": "./repo", "extra_fields": {"points": 1}})
            .to_string()
    });
    let words = [
        "sweagent",
        "run-batch",
        "--config=mine.yaml",
        "--instances.path=tasks.jsonl",
        "--instances.deployment.type=local",
        "--output_dir=out",
    ];
    let call = host(&config(&server, REVIEWER, "")).file("tasks.jsonl", lines.join("\n"));
    let started = call.args(words).spawn();
    assert!(server.wait_for(7, Duration::from_secs(60)));
    started.signal(Signal::KILL);
    let killed = started.wait();
    let out = killed.dir.join("out");
    assert_eq!(
        read(&out.join("one/one.traj"))["info"]["exit_status"],
        "submitted"
    );
    let again = Host::after(&killed)
        .env("USER", "me")
        .args(words)
        .run()
        .expect(0);
    assert_eq!(server.served(), 9, "{}", again.stderr);
    let two = read(&out.join("two/two.traj"));
    assert_eq!(two["info"]["review"]["accept"], 8.0);
    let preds = read(&out.join("preds.json"));
    assert!(preds["one"]["model_patch"].as_str().unwrap().contains("+a"));
    let patch = preds["two"]["model_patch"].as_str().unwrap();
    assert!(patch.contains("+b"), "{patch}");
    let journal = fs::read_to_string(out.join("two/attempt_0/two.events.jsonl")).unwrap();
    assert_eq!(journal.matches("\"event\":\"run_started\"").count(), 1);
    assert!(!out.join("two/attempt_0/two.events.jsonl.1").exists());
}
