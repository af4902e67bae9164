//! `-m replay/PATH`: the model's replies come from a trajectory or a journal, and commands run again.

use std::fs;

use scripted_server::Turn;
use serde_json::{Value, json};

use crate::host::Host;
use crate::run::Run;
use crate::story::{submit, turns};

/// Plays a file in a new folder.
fn replayed(name: &str, content: impl AsRef<[u8]>) -> Run {
    Host::new()
        .file(name, content)
        .args(["-m", &format!("replay/{name}")])
        .task("x")
        .run()
}

/// The bytes of a run's journal.
fn journal(run: &Run) -> Vec<u8> {
    let trajectory = run.trajectory();
    let journal = trajectory["info"]["mswea"]["journal"].as_str().unwrap();
    fs::read(run.dir.join(journal)).unwrap()
}

/// The trajectory and the journal of a run with the text preset.
fn text_run() -> (Value, Vec<u8>) {
    let server = scripted_server::Server::start(scripted_server::Scenario::new([
        Turn::text("no command at all"),
        Turn::fenced("echo one > a.txt"),
        Turn::fenced(&submit("done")),
    ]));
    let run = Host::new()
        .server(&server)
        .args(["-c", "text"])
        .task("x")
        .run()
        .expect(0);
    (run.trajectory(), journal(&run))
}

#[test]
fn journals_are_played() {
    let server = turns([
        Turn::text("no call at all"),
        Turn::commands(&["echo one > a.txt"]),
    ]);
    let first = Host::new().server(&server).task("x").run().expect(0);
    let mut journal = journal(&first);
    let again = replayed("old.events.jsonl", &journal).expect(0);
    assert_eq!(again.stdout, first.stdout);
    assert!(again.dir.join("a.txt").is_file());
    assert_eq!(again.events("rejected").len(), 1);
    // A killed host leaves a cut last line.
    journal.extend_from_slice(b"{\"seq\":");
    let again = replayed("torn", &journal).expect(0);
    assert_eq!(again.stdout, first.stdout);
}

#[test]
fn runs_in_text_are_played_with_the_parser_that_read_them() {
    let (trajectory, journal) = text_run();
    let mut foreign = trajectory.clone();
    // A trajectory of mini-swe-agent has no `mswea` key, and its commands may be in other fences.
    foreign["info"].as_object_mut().unwrap().remove("mswea");
    let fences = foreign.to_string().replace("mswea_bash_command", "run");
    let mut own: Value = serde_json::from_str(&fences).unwrap();
    own["info"]["config"]["model"]["action_regex"] = json!("```run\n(.*?)\n```");
    for (name, content) in [
        ("ours.json", trajectory.to_string().into_bytes()),
        ("journal", journal),
        ("theirs.json", foreign.to_string().into_bytes()),
        ("fences.json", own.to_string().into_bytes()),
    ] {
        let run = replayed(name, content).expect(0);
        assert_eq!(run.stdout, "done\n", "{name}: {run}");
        assert!(run.dir.join("a.txt").is_file(), "{name}");
        assert!(!run.stderr.contains("prompts"), "{name}: {run}");
    }
    // A parser that is named is used.
    Host::new()
        .file("old.json", trajectory.to_string())
        .args(["-m", "replay/old.json", "-c", "pipeline.parser=toolcall"])
        .task("x")
        .run()
        .expect(4);
}

#[test]
fn halves_of_surrogate_pairs_are_played() {
    let call = json!({"id": "c1", "type": "function", "function":
        {"name": "bash", "arguments": json!({"command": submit("done")}).to_string()}});
    let text = json!({"messages": [
        {"role": "user", "content": "x HALF"},
        {"role": "assistant", "content": "y HALF", "tool_calls": [call]},
    ]});
    let text = text.to_string().replace("HALF", "\\ud800");
    let run = replayed("old.traj.json", text).expect(0);
    assert_eq!(run.trajectory()["messages"][2]["content"], "y \u{fffd}");
}

#[test]
fn replay_without_a_path_or_replies_is_refused() {
    for model in ["replay", "replay/"] {
        Host::new()
            .args(["-m", model])
            .task("x")
            .run()
            .expect(2)
            .says(&[
                "no replies to play",
                "`-m replay/PATH`",
                "[plugins.replay.config]",
            ]);
    }
    let replies = format!(
        r#"plugins.replay.config.replies=[{{"tool_calls": [{{"command": "{}"}}]}}]"#,
        submit("done")
    );
    Host::new()
        .args(["-m", "replay", "-c", &replies])
        .task("x")
        .run()
        .expect(0);
}
