use std::path::Path;

use serde_json::{Value, json};

use super::*;
use crate::experiment::testing::{self, record_run, record_steps};
use mswea_core::Event;
use mswea_core::{Journal, Object, Part, Usage};
use mswea_record::journal::{self, JournalFile, Record, Reopened};
use mswea_record::trajectory;

/// Writes a finished run as a journal, and returns its records.
fn journal(path: &Path, run_id: &str, steps: u32) -> Vec<Record> {
    let journal = JournalFile::create(path).unwrap();
    record_run(&journal, run_id, steps, 30);
    let ended = Event::RunEnded {
        exit_status: "LimitsExceeded".into(),
        submission: String::new(),
        cost: None,
        queries: steps,
        usage: Usage::default(),
        extra: Object::new(),
        message: None,
    };
    journal.record(&ended).unwrap();
    journal::read(path).unwrap().records
}

#[test]
fn a_resumed_run_has_the_history_of_one_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    journal(&path("one.events.jsonl"), "one", 3);
    // Ended at a limit after two steps, killed in the next query, and ended again.
    journal(&path("two.events.jsonl"), "two", 2);
    let (resumed, _) = Reopened::open(path("two.events.jsonl")).unwrap();
    let journal = resumed.begin().unwrap();
    let resumes = Event::RunResumed {
        host_version: "0".into(),
        config: json!({}),
        plugins: json!([]),
    };
    journal.record(&resumes).unwrap();
    let query = 3;
    let view = None;
    journal
        .record(&Event::QueryStarted { query, view })
        .unwrap();
    journal.record(&resumes).unwrap();
    record_steps(&journal, 3..=3, 30);
    let load = |name: &str| load(&path(name)).unwrap().runs.remove(0);
    let (one, two) = (load("one.events.jsonl"), load("two.events.jsonl"));
    assert_eq!(two.steps, one.steps);
    let before_the_end = &one.history[..two.history.len()];
    assert_eq!(two.history, before_the_end);
}

fn malformed(code: &str) -> Outcome {
    Outcome::Malformed(Problem {
        code: code.into(),
        ..Problem::default()
    })
}

fn load(path: &Path) -> Result<RecordedRuns, RecordedError> {
    RecordedRuns::load(&[path.to_path_buf()])
}

#[test]
fn both_forms_of_a_run_are_read_once_and_say_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let records = journal(&folder.path().join("deep/er/a.events.jsonl"), "run-a", 5);
    let file = folder.path().join("deep/er/a.traj.json");
    trajectory::write(&file, &mswea_run::fold(&records).into_trajectory()).unwrap();
    let both = load(folder.path()).unwrap();
    assert_eq!((both.runs.len(), both.steps()), (1, 5));
    assert_eq!(both.warnings, Vec::<String>::new());
    let from_journal = &both.runs[0];
    assert_eq!(from_journal.name, "deep/er/a.events.jsonl");
    // A copy of the trajectory in another folder is the same run.
    std::fs::copy(&file, folder.path().join("copy.traj.json")).unwrap();
    let journal = folder.path().join("deep/er/a.events.jsonl");
    std::fs::copy(journal, folder.path().join("zcopy.events.jsonl")).unwrap();
    assert_eq!(load(folder.path()).unwrap().runs.len(), 1);

    let alone = load(&file).unwrap();
    let from_trajectory = &alone.runs[0];
    assert_eq!(from_trajectory.history.len(), from_journal.history.len());
    for (a, b) in from_trajectory.steps.iter().zip(&from_journal.steps) {
        assert_eq!(
            (a.number, a.seen, &a.observed),
            (b.number, b.seen, &b.observed)
        );
        assert_eq!((&a.outcome, &a.outputs), (&b.outcome, &b.outputs));
        let (a, b) = (a.reply.as_ref().unwrap(), b.reply.as_ref().unwrap());
        assert_eq!(
            (&a.message, &a.finish_reason),
            (&b.message, &b.finish_reason)
        );
        assert_eq!(a.response, None);
    }
}

#[test]
fn a_step_has_all_that_belongs_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.jsonl");
    journal(&path, "r", 3);
    let recorded = load(&path).unwrap();
    let run = &recorded.runs[0];
    let step = &run.steps[1];
    assert_eq!((step.number, step.seen), (2, 4));
    assert_eq!(step.actions()[0].command, "step 2");
    assert_eq!(step.outputs.len(), 1);
    assert_eq!(step.outputs[0].0, step.actions()[0]);
    assert!(step.outputs[0].1.output.starts_with("out 2 ooo"));
    let observed = &run.history[step.observed.clone()];
    assert_eq!(observed.len(), 1);
    assert_eq!(observed[0].tool_call_id.as_deref(), Some("call_2"));
    assert!(!observed[0].extra.contains_key("raw_output"));
    assert_eq!(step.verdicts.len(), 1);
    assert!(
        matches!(&step.verdicts[0], (0, RecordedVerdict::Ran(action)) if action.command == "step 2")
    );
}

#[test]
fn calls_without_a_command_and_the_submission() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.jsonl");
    let journal = JournalFile::create(&path).unwrap();
    let record = |event: Event| journal.record(&event).unwrap();
    let tool = |id: &str| {
        let mut message = Message::new("tool", "shown");
        message.tool_call_id = Some(id.to_owned());
        message
    };
    let observed = |ids: [&str; 2]| {
        record(Event::Observed {
            messages: ids.map(tool).into(),
            shown: Vec::new(),
        });
    };
    let output = |index, text: &str| Event::Output {
        index,
        output: Output {
            output: text.to_owned(),
            ..Output::default()
        },
        timestamp: 0.0,
    };
    let ask = |query: u32, ids: &[&str]| {
        record(Event::QueryStarted { query, view: None });
        let mut reply = testing::reply("", "");
        reply.message.tool_calls = ids
            .iter()
            .map(|id| testing::reply(id, "c").message.tool_calls.remove(0))
            .collect();
        record(Event::Reply {
            reply,
            cost: None,
            timestamp: 0.0,
        });
    };
    let action = |id: &str| Action {
        command: id.to_owned(),
        tool_call_id: Some(id.to_owned()),
        ..Action::default()
    };
    // Two calls, of which the parser makes one action.
    ask(1, &["x", "a"]);
    record(Event::Accepted {
        actions: vec![action("a")],
    });
    record(output(0, "one"));
    observed(["x", "a"]);
    // A failed query, a rejected reply, and a question.
    record(Event::QueryStarted {
        query: 2,
        view: None,
    });
    ask(3, &["b"]);
    record(Event::Rejected {
        code: "no-command".into(),
        message: String::new(),
        feedback: Some(Message::new("user", "feedback")),
        is_fault: false,
        requery: None,
    });
    record(Event::Asked {
        processor: "p".into(),
        purpose: "summary".into(),
        messages: vec![Message::new("user", "?")],
    });
    record(Event::AskReply {
        processor: "p".into(),
        reply: testing::reply("", "answer"),
        cost: None,
    });
    // Two actions, the second of which submits.
    ask(4, &["c", "d"]);
    record(Event::Accepted {
        actions: vec![action("c"), action("d")],
    });
    record(output(0, "two"));
    record(Event::Denied {
        index: 1,
        policy: "guard".into(),
        reason: "no".into(),
        action: Some(action("d")),
    });
    record(output(1, "SUBMITTED"));
    observed(["c", "d"]);
    record(Event::RunEnded {
        exit_status: "Submitted".into(),
        submission: String::new(),
        cost: None,
        queries: 4,
        usage: Usage::default(),
        extra: Object::new(),
        message: None,
    });
    let recorded = load(&path).unwrap();
    let run = &recorded.runs[0];
    let shown = |step: &Step| -> Vec<(String, String, String)> {
        let outputs = step.outputs.iter();
        outputs
            .map(|(action, output)| {
                let id = action.tool_call_id.clone().unwrap_or_default();
                (id, output.output.clone(), output.exception_info.clone())
            })
            .collect()
    };
    let text = |list: &[(&str, &str, &str)]| -> Vec<(String, String, String)> {
        list.iter()
            .map(|(a, b, c)| ((*a).into(), (*b).into(), (*c).into()))
            .collect()
    };
    assert_eq!(
        shown(&run.steps[0]),
        text(&[
            ("x", "", "no command was found in this tool call"),
            ("a", "one", "")
        ])
    );
    assert_eq!(
        (run.steps[1].reply.is_none(), run.steps[1].number),
        (true, 2)
    );
    assert_eq!(run.steps[2].outcome, Some(malformed("no-command")));
    assert_eq!(
        shown(&run.steps[3]),
        text(&[("c", "two", ""), ("d", "", "action was not executed")])
    );
    assert_eq!(run.steps[3].verdicts.len(), 1);
    assert_eq!(run.questions.len(), 1);
    assert_eq!(run.questions[0].purpose, "summary");
}

/// As mini-swe-agent writes them.
#[test]
fn trajectories_of_mini_swe_agent() {
    let chat = |message: Value| json!({"choices": [{"message": message, "finish_reason": "tool_calls"}], "model": "m", "usage": {"prompt_tokens": 5, "completion_tokens": 7}});
    let call = |id: &str, arguments: &str| json!({"role": "assistant", "content": null, "tool_calls": [{"id": id, "type": "function", "function": {"name": "bash", "arguments": arguments}}]});
    let mut accepted = call("1", "{\"command\": \"ls\"}");
    accepted["extra"] = json!({"actions": [{"command": "ls", "tool_call_id": "1"}], "response": chat(call("1", "{}")), "cost": 0.0, "timestamp": 1.0});
    let observation = json!({"role": "tool", "tool_call_id": "1", "content": "<out>x</out>", "extra": {"raw_output": "x", "returncode": 2, "timestamp": 1.5, "exception_info": "", "exception_type": "T"}});
    let rejected = json!({"role": "user", "content": "bad", "extra": {"interrupt_type": "FormatError", "cost": 0.0, "response": chat(call("2", "{nonsense"))}});
    let lost = json!({"role": "user", "content": "bad", "extra": {"interrupt_type": "FormatError", "cost": 0.0}});
    let blocks = json!({"role": "user", "content": "bad", "extra": {"interrupt_type": "FormatError", "response": {"type": "message", "stop_reason": "max_tokens", "content": [{"type": "text", "text": "t"}, {"type": "tool_use", "id": "3", "name": "bash", "input": {"command": "c"}}]}}});
    let responses = json!({"object": "response", "output": [{"type": "message", "content": [{"type": "output_text", "text": "hello"}]}, {"type": "function_call", "call_id": "4", "name": "bash", "arguments": "{}"}], "extra": {"actions": [{"command": "pwd", "tool_call_id": "4"}], "cost": 0.0}});
    let answered = json!({"type": "function_call_output", "call_id": "4", "output": "o", "extra": {"raw_output": "/", "returncode": 0, "timestamp": 1.0, "exception_info": ""}});
    let text = json!({"role": "assistant", "content": "```sh\necho\n```", "extra": {"actions": [{"command": "echo"}], "response": {}, "cost": 0.0}});
    let shown = json!({"role": "user", "content": "out", "extra": {"raw_output": "\n", "returncode": 0, "exception_info": ""}});
    // The record of this step has lost the output.
    let last =
        json!({"role": "assistant", "content": "x", "extra": {"actions": [{"command": "y"}]}});
    let bare = json!({"role": "user", "content": "out"});
    let exit = json!({"role": "exit", "content": "", "extra": {"exit_status": "Submitted", "submission": ""}});
    let messages = json!([
        {"role": "system", "content": "s"}, {"role": "user", "content": "u"}, accepted, observation, rejected, lost,
        blocks, responses, answered, text, shown, last, bare, exit
    ]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mini.traj.json");
    let whole =
        json!({"messages": messages, "trajectory_format": "mini-swe-agent-1.1", "info": {}});
    for (name, value) in [("mini.traj.json", &whole), ("bare.traj.json", &messages)] {
        std::fs::write(folder.path().join(name), value.to_string()).unwrap();
    }
    let recorded = load(&path).unwrap();
    let run = &recorded.runs[0];
    let seen: Vec<usize> = run.steps.iter().map(|step| step.seen).collect();
    assert_eq!(seen, [2, 4, 6, 7, 9, 11]);
    let reply = |step: usize| run.steps[step].reply.as_ref().unwrap();
    assert_eq!(reply(0).finish_reason, "tool_calls");
    assert_eq!(
        reply(0)
            .usage
            .as_ref()
            .map(|usage| (usage.input_tokens, usage.output_tokens)),
        Some((5, 7))
    );
    assert_eq!(reply(0).message.extra, Object::new());
    let (action, output) = &run.steps[0].outputs[0];
    assert_eq!(
        (
            action.command.as_str(),
            output.output.as_str(),
            output.returncode
        ),
        ("ls", "x", 2)
    );
    assert_eq!(
        output.extra,
        *json!({"exception_type": "T"}).as_object().unwrap()
    );
    assert_eq!(run.steps[1].outcome, Some(malformed("")));
    assert_eq!(reply(1).message.tool_calls[0].arguments, "{nonsense");
    assert_eq!(reply(2).finish_reason, "length");
    assert_eq!(
        reply(2).message.tool_calls[0].arguments,
        "{\"command\":\"c\"}"
    );
    assert_eq!(reply(3).message.text(), "hello");
    assert_eq!(reply(4).finish_reason, "stop");
    assert_eq!(run.steps[3].outputs[0].1.output, "/");
    assert_eq!(run.steps[4].outputs[0].0.command, "echo");
    assert!(run.steps[5].outputs.is_empty());
    assert!(matches!(&reply(5).message.content[0], Part::Text { text } if text == "x"));
    // A bare list of messages, and the same file in another encoding.
    assert_eq!(
        load(&folder.path().join("bare.traj.json")).unwrap().runs[0].steps,
        run.steps
    );
    assert_eq!(load(folder.path()).unwrap().runs.len(), 2);
}

#[test]
fn what_is_damaged_is_left_out_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    journal(&place("good.events.jsonl"), "good", 2);
    // Incomplete at the end, as `kill -9` leaves it: the complete lines count.
    let records = journal(&place("torn.events.jsonl"), "torn", 3);
    let bytes = std::fs::read(place("torn.events.jsonl")).unwrap();
    std::fs::write(place("torn.events.jsonl"), &bytes[..bytes.len() - 9]).unwrap();
    // Damaged in the middle.
    let mut middle = bytes.clone();
    middle[900] = b'\n';
    std::fs::write(place("middle.events.jsonl"), middle).unwrap();
    // A trajectory that was cut off, and files of other kinds.
    let whole = mswea_run::fold(&records).into_trajectory().to_string();
    let whole = whole.replace("\"torn\"", "\"another\"");
    std::fs::write(place("cut.traj.json"), &whole[..whole.len() / 2]).unwrap();
    std::fs::write(place("other.traj.json"), "{\"messages\": 7}").unwrap();
    std::fs::write(place("none.traj.json"), "{\"a\": []}").unwrap();
    std::fs::write(place("empty.events.jsonl"), "").unwrap();
    std::fs::write(
        place("wrong.traj.json"),
        "{\"messages\": [{\"role\": \"user\", \"content\": 7}]}",
    )
    .unwrap();
    let recorded = load(folder.path()).unwrap();
    let names: Vec<&str> = recorded.runs.iter().map(|run| run.name.as_str()).collect();
    assert_eq!(names, ["good.events.jsonl", "torn.events.jsonl"]);
    assert_eq!(recorded.runs[1].steps.len(), 3);
    for (file, reason) in [
        ("torn.events.jsonl", "is torn"),
        ("middle.events.jsonl", "line"),
        ("cut.traj.json", "damaged"),
        ("other.traj.json", "no list `messages`"),
        ("none.traj.json", "messages"),
        ("empty.events.jsonl", "no query"),
        ("wrong.traj.json", "message 0"),
    ] {
        let told = |warning: &&String| warning.contains(file) && warning.contains(reason);
        assert_eq!(
            recorded.warnings.iter().filter(told).count(),
            1,
            "{file}: {:?}",
            recorded.warnings
        );
    }
    assert_eq!(recorded.warnings.len(), 7);
}

#[test]
fn nothing_is_an_error_that_says_what_was_looked_for() {
    let folder = tempfile::tempdir().unwrap();
    let error = load(folder.path()).unwrap_err().to_string();
    for part in [
        "no recorded run",
        "`*.events.jsonl`",
        "`*.traj.json`",
        "found none",
        "`-o FILE`",
    ] {
        assert!(error.contains(part), "{error}");
    }
    std::fs::write(folder.path().join("a.traj.json"), "{").unwrap();
    let error = load(folder.path()).unwrap_err().to_string();
    assert!(
        error.contains("none of 1 could be used") && error.contains("a.traj.json"),
        "{error}"
    );
    let error = load(&folder.path().join("gone")).unwrap_err().to_string();
    assert!(
        error.contains("can't read") && error.contains("gone"),
        "{error}"
    );
}

#[test]
fn half_a_character_does_not_cost_a_trajectory() {
    let folder = tempfile::tempdir().unwrap();
    let records = journal(&folder.path().join("a.events.jsonl"), "a", 3);
    let mut value = mswea_run::fold(&records).into_trajectory();
    value["messages"][1]["content"] = "LONE C:\\ud800 😀".into();
    let text = value.to_string().replace("LONE", "\\udcff");
    let file = folder.path().join("b.traj.json");
    std::fs::write(&file, &text).unwrap();
    let recorded = load(&file).unwrap();
    assert_eq!(recorded.runs[0].steps.len(), 3);
    assert_eq!(recorded.runs[0].history[1].text(), "\u{fffd} C:\\ud800 😀");
    assert_eq!(recorded.warnings.len(), 1);
    let warning = &recorded.warnings[0];
    assert!(
        warning.contains("b.traj.json`: it has 1 `\\u` escape of half a character"),
        "{warning}"
    );
    // The journal still identifies the run, and a trajectory that is cut off is still reported as
    // damaged.
    let both = load(folder.path()).unwrap();
    assert_eq!((both.runs.len(), both.warnings.len()), (1, 0));
    std::fs::write(&file, &text[..text.len() - 9]).unwrap();
    let error = load(&file).unwrap_err().to_string();
    assert!(error.contains("damaged"), "{error}");
}

#[test]
fn an_error_is_one_harmless_line() {
    let folder = tempfile::tempdir().unwrap();
    let nasty = folder.path().join("a\nb\u{1b}[2J\u{202e}");
    std::fs::create_dir(&nasty).unwrap();
    let none = load(&nasty).unwrap_err().to_string();
    std::fs::write(nasty.join("x\ny.events.jsonl"), "{\n{").unwrap();
    let damaged = load(&nasty).unwrap_err().to_string();
    let gone = load(&nasty.join("gone")).unwrap_err().to_string();
    for error in [none, damaged, gone] {
        assert!(!error.contains(['\n', '\u{1b}', '\u{202e}']), "{error:?}");
        assert!(error.contains("a b"), "{error:?}");
    }
}

#[test]
fn links_in_circles_and_files_named_twice() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.events.jsonl");
    journal(&path, "a", 1);
    std::os::unix::fs::symlink(folder.path(), folder.path().join("loop")).unwrap();
    let recorded = RecordedRuns::load(&[folder.path().to_path_buf(), path]).unwrap();
    assert_eq!(recorded.runs.len(), 1);
}

#[test]
fn journals_and_trajectories_by_name() {
    for (name, form) in [
        ("events.jsonl", Some(true)),
        ("a.events.jsonl", Some(true)),
        ("a.events.jsonl.12", Some(true)),
        ("a.traj.json", Some(false)),
        ("preds.json", None),
        ("a.jsonl", None),
        ("aevents.jsonl", None),
        ("a.events.jsonl.bak", None),
    ] {
        assert_eq!(is_journal(name), form, "{name}");
    }
}
