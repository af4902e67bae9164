//! `export`: runs of this program and of mini-swe-agent, also killed ones, in every format.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use scripted_server::{Fault, Turn};
use serde_json::Value;

use crate::host::{Host, Signal};
use crate::needs::{HARBOR, Need};
use crate::run::Run;
use crate::story::{commands, turns};

#[test]
fn a_run_is_exported_without_secrets() {
    let server = commands(&["echo the key is hunter2-hunter2 '<script>'"]);
    let run = Host::new().server(&server).task("x").run().expect(0);
    let export = |args: &[&str]| {
        let host = Host::after(&run).env("OTHER_API_KEY", "hunter2-hunter2");
        host.args(["export", "traj.json"]).args(args).run()
    };
    for format in ["html", "md", "atif", "jsonl", "swe-agent", "asciinema"] {
        let told = export(&["--to", format]).expect(0);
        assert!(!told.stdout.contains("hunter2"), "{told}");
        assert!(told.stdout.contains("[secret removed]"), "{told}");
        let name = format!("run.{format}");
        export(&["--to", format, "-o", &name]).expect(0);
        let written = fs::read_to_string(run.dir.join(name)).unwrap();
        assert_eq!(written, told.stdout);
        assert_eq!(written.contains("<script>"), format != "html");
    }
    let told = export(&["--to", "swebench"]).expect(2);
    assert!(told.stderr.contains("swe-agent"), "{told}");

    // SWE-agent's own tools and ours read what is written for them.
    fs::rename(run.dir.join("run.swe-agent"), run.dir.join("run.traj")).unwrap();
    let again = Host::after(&run).args(["export", "run.traj", "--to", "md"]);
    let told = again.run().expect(0);
    assert!(told.stdout.contains("program: SWE-agent"), "{told}");
    assert!(told.stdout.contains("echo the key is"), "{told}");
    let recorded = fs::read_to_string(run.dir.join("run.asciinema")).unwrap();
    let mut lines = recorded
        .lines()
        .map(|it| serde_json::from_str::<Value>(it).unwrap());
    assert_eq!(lines.next().unwrap()["version"], 2);
    let events: Vec<Value> = lines.collect();
    let times: Vec<f64> = events.iter().map(|it| it[0].as_f64().unwrap()).collect();
    assert!(times.is_sorted() && times[0] == 0.0, "{times:?}");
    let shown: String = events.iter().map(|it| it[2].as_str().unwrap()).collect();
    assert!(shown.contains("$ echo the key is"), "{shown}");
    assert!(shown.contains("Submitted\r\n\u{1b}[0m"), "{shown}");

    // A trajectory of ATIF is read, too.
    fs::rename(run.dir.join("run.atif"), run.dir.join("atif.json")).unwrap();
    let again = Host::after(&run).args(["export", "atif.json", "--to", "jsonl"]);
    let steps = again.run().expect(0).stdout.clone();
    assert_eq!(steps.lines().count(), 4, "{steps}");
    fs::write(
        run.dir.join("bad.json"),
        r#"{"schema_version":"ATIF-v1.2","steps":[{"source":"tool"}]}"#,
    )
    .unwrap();
    let bad = Host::after(&run).args(["export", "bad.json", "--to", "md"]);
    bad.run().expect(2).says(&["bad.json", "step 1", "source"]);
}

#[test]
fn what_a_secrets_file_holds_is_blanked() {
    let server = commands(&["echo the key is hunter2-hunter2"]);
    let secrets = "# mine\nOTHER_API_KEY='hunter2-hunter2'\n";
    let host = Host::new().server(&server).task("x").file("keys", secrets);
    let file = host.dir().join("keys");
    let mode = |mode| fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
    mode(0o600);
    let setting = format!("model.secrets_file={}", file.display());
    let host = host.args(["-c", &setting, "--atif", "run.json"]);
    let run = host.run().expect(0);
    let written = fs::read_to_string(run.dir.join("run.json")).unwrap();
    let export = || {
        Host::after(&run)
            .args(["export", "traj.json", "--to", "md"])
            .run()
    };
    let told = export().expect(0);
    for text in [&told.stdout, &written] {
        assert!(text.contains("[OTHER_API_KEY]"), "{text}");
        assert!(!text.contains("hunter2"), "{text}");
    }
    // A file that may not be used is named.
    mode(0o644);
    export()
        .expect(0)
        .says(&["can be read by others", "not blanked"]);
}

#[test]
fn a_killed_run_is_exported_from_its_journal() {
    let server = turns([Turn::commands(&["echo one"]), Turn::fault(Fault::Silence)]);
    let mut running = Host::new().server(&server).task("x").spawn();
    running.until("the second query", |_| server.served() == 2);
    running.signal(Signal::KILL);
    let run = running.wait();
    let told = Host::after(&run).args(["export", "traj.events.jsonl", "--to", "atif"]);
    let made: Value = serde_json::from_str(&told.run().expect(0).stdout).unwrap();
    assert_eq!(made["extra"]["exit_status"], "Killed");
    assert_eq!(made["steps"].as_array().unwrap().len(), 3);
    let results = &made["steps"][2]["observation"]["results"];
    assert_eq!(results[0]["extra"]["returncode"], 0);
    assert_eq!(
        results[0]["source_call_id"],
        made["steps"][2]["tool_calls"][0]["tool_call_id"]
    );
}

#[test]
fn a_run_is_written_in_atif_at_every_ending() {
    let status = |run: &Run| {
        let text = fs::read(run.dir.join("run.atif.json")).unwrap();
        let made: Value = serde_json::from_slice(&text).unwrap();
        made["extra"]["exit_status"].as_str().unwrap().to_owned()
    };
    let server = commands(&["echo one"]);
    let host = Host::new().server(&server).task("x");
    let host = host.args(["--atif", "run.atif.json", "--step-limit", "1"]);
    let run = host.run().expect(3);
    assert_eq!(status(&run), "LimitsExceeded", "{run}");
    // A resumed run writes it again.
    let host = Host::after(&run).args(["resume", "traj.json", "--step-limit", "0"]);
    let run = host.run().expect(0);
    assert_eq!(status(&run), "Submitted", "{run}");
    // Its folder is made.
    let server = commands(&["echo one"]);
    let host = Host::new().server(&server).task("x");
    let run = host.args(["--atif", "no/such/run.json"]).run().expect(0);
    assert!(run.dir.join("no/such/run.json").is_file(), "{run}");
    // What fails at the end is only a warning.
    let server = commands(&["rm -r there; echo > there"]);
    let host = Host::new().server(&server).task("x");
    let run = host.args(["--atif", "there/run.json"]).run().expect(0);
    run.says(&["`there/run.json` is not written", "--to atif"]);
}

/// Nothing is asked of the model then.
#[test]
fn a_place_for_atif_is_checked_before_the_run() {
    for (path, why) in [
        ("folder", "it is a folder"),
        ("new/", "is a directory"),
        ("file/run.json", "name another file with `--atif PATH`"),
        ("file/deep/run.json", "name another file with `--atif PATH`"),
        ("/proc/no/run.json", "name another file with `--atif PATH`"),
    ] {
        let server = commands(&["echo one"]);
        let host = Host::new().server(&server).task("x").file("file", "");
        fs::create_dir(host.dir().join("folder")).unwrap();
        let run = host.args(["--atif", path]).run().expect(2);
        run.says(&[path, why]);
        assert_eq!(server.served(), 0, "{path}");
    }
}

/// The run ends before its first message, or at its first query.
#[test]
fn every_format_says_why_a_run_failed() {
    let server = turns([Turn::status(401)]);
    let host = Host::new().server(&server).task("fix it");
    let refused = host.args(["--atif", "run.json"]).run().expect(5);
    let server = commands(&["echo one"]);
    let host = Host::new().server(&server).task("fix it");
    let args = ["--atif", "run.json", "-c", "environment.cwd=/no/such"];
    let homeless = host.args(args).run().expect(6);
    for (run, why, queries) in [(&refused, "401", 1), (&homeless, "/no/such", 0)] {
        let written = fs::read_to_string(run.dir.join("run.json")).unwrap();
        let made: Value = serde_json::from_str(&written).unwrap();
        let error = made["extra"]["error"].as_str().unwrap();
        assert!(error.contains(why), "{error}");
        assert_eq!(made["final_metrics"]["extra"]["total_queries"], queries);
        assert!(!made["steps"].as_array().unwrap().is_empty());
        for format in ["html", "md", "atif", "jsonl", "asciinema"] {
            let host = Host::after(run).args(["export", "traj.json", "--to", format]);
            let told = host.run().expect(0);
            assert!(told.stdout.contains(why), "{format}: {told}");
            assert!(told.stdout.contains("fix it"), "{format}: {told}");
        }
    }
}

/// The sums of the recorded tokens are larger than a number can be.
#[test]
fn hostile_counts_of_tokens_end_neither_an_export_nor_a_replay() {
    let server = commands(&["echo one"]);
    let run = Host::new().server(&server).task("x").run().expect(0);
    let journal = run.dir.join("traj.events.jsonl");
    let mut changed = String::new();
    for line in fs::read_to_string(&journal).unwrap().lines() {
        let mut event: Value = serde_json::from_str(line).unwrap();
        if let Some(usage) = event.pointer_mut("/reply/usage") {
            usage["input_tokens"] = u64::MAX.into();
            usage["output_tokens"] = u64::MAX.into();
        }
        changed.push_str(&format!("{event}\n"));
    }
    fs::write(&journal, changed).unwrap();
    for format in ["html", "md", "atif", "jsonl", "swe-agent", "asciinema"] {
        let args = ["export", "traj.events.jsonl", "--to", format];
        Host::after(&run).args(args).run().expect(0);
    }
    let replay = Host::after(&run).args(["replay", "traj.events.jsonl"]);
    replay.run().expect(0);
}

#[test]
fn a_list_of_messages_is_exported_and_a_broken_file_is_explained() {
    let list = r#"[{"role": "system", "content": "s"}, {"role": "user", "content": "fix it"},
        {"role": "assistant", "content": "I look"}]"#;
    let deep = "[".repeat(1000);
    let host = Host::new().file("list.json", list);
    let run = host.args(["export", "list.json", "--to", "md"]).run();
    let run = run.expect(0);
    assert!(
        run.stdout.contains("# fix it") && run.stdout.contains("I look"),
        "{run}"
    );
    for (text, why) in [
        (
            "{\"messages\": [\n{",
            "it is cut off: its JSON ends in line 2",
        ),
        (&deep, "nested too deeply"),
        ("x", "it is no JSON"),
    ] {
        fs::write(run.dir.join("bad.json"), text).unwrap();
        for command in [
            &["export", "bad.json", "--to", "md"][..],
            &["continue", "bad.json", "-t", "x"],
        ] {
            let told = Host::after(&run).args(command).run().expect(2);
            told.says(&["bad.json", why]);
        }
    }
}

/// A link stays a link, and what is no file is written to: a rename would put a file in the place of a device.
#[test]
fn an_output_may_be_a_link_or_a_pipe() {
    let server = commands(&["echo one"]);
    let run = Host::new().server(&server).task("x").run().expect(0);
    let export = |output: &str| {
        let host = Host::after(&run).args(["export", "traj.json", "--to", "md", "-o", output]);
        host.run()
    };
    let expected = export("/dev/stdout").expect(0).stdout.clone();
    assert!(expected.contains("echo one"));
    let at = |name: &str| run.dir.join(name);
    fs::write(at("file"), "before").unwrap();
    std::os::unix::fs::symlink("file", at("link")).unwrap();
    export("link").expect(0);
    assert!(at("link").is_symlink());
    assert_eq!(fs::read_to_string(at("file")).unwrap(), expected);
    let pipe = at("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    export("pipe").expect(1).says(&["can't write `pipe`"]);
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || fs::read_to_string(pipe).unwrap()
    });
    // Until the reader has opened it, nobody reads.
    while !export("pipe").stderr.is_empty() {}
    assert_eq!(reader.join().unwrap(), expected);
    assert!(!pipe.is_file());
}

/// Of a run that has ended, and of one that was killed.
#[test]
fn harbors_validator_finds_no_fault() {
    if !Need::Harbor.is_met() {
        return;
    }
    let validates = |run: &Run, from: &str| {
        let host = Host::after(run).args(["export", from, "--to", "atif", "-o", "made.json"]);
        let run = host.run().expect(0);
        let validator = std::path::Path::new(HARBOR).join("bin/python");
        let said = std::process::Command::new(validator)
            .args(["-m", "harbor.utils.trajectory_validator", "made.json"])
            .current_dir(&run.dir)
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&said.stderr).into_owned();
        assert!(said.status.success(), "{errors}");
        run
    };
    let server = commands(&[
        "echo one; echo '<script>'",
        "printf 'a\\377\\033[1m'; exit 3",
    ]);
    let run = Host::new().server(&server).task("x").run().expect(0);
    let run = validates(&run, "traj.json");
    validates(&run, "traj.events.jsonl");
    let server = turns([
        Turn::text("no command"),
        Turn::commands(&["sleep 9"]),
        Turn::fault(Fault::Silence),
    ]);
    let host = Host::new().server(&server).task("x");
    let mut running = host.args(["-c", "environment.timeout=0.2"]).spawn();
    running.until("the third query", |_| server.served() == 3);
    running.signal(Signal::KILL);
    let run = running.wait();
    validates(&run, "traj.events.jsonl");
    // It has no message.
    let host = Host::new().server(&server).task("x");
    let host = host.args(["-c", "environment.cwd=/no/such"]);
    validates(&host.run().expect(6), "traj.json");
    // The validator is one that finds faults.
    let bad = run.dir.join("bad.json");
    fs::write(
        &bad,
        r#"{"schema_version":"ATIF-v1.7","steps":[{"step_id":2}]}"#,
    )
    .unwrap();
    let validator = std::path::Path::new(HARBOR).join("bin/python");
    let said = std::process::Command::new(validator)
        .args(["-m", "harbor.utils.trajectory_validator"])
        .arg(&bad)
        .output();
    assert_eq!(said.unwrap().status.code(), Some(1));
}

/// Neither by an export nor by `--atif`.
#[test]
fn the_record_of_a_run_is_never_replaced() {
    let (server, other) = (commands(&["true"]), commands(&["true"]));
    let own = |file: &str| Host::new().server(&server).task("x").args(["--atif", file]);
    for file in [
        "traj.json",
        "traj.events.jsonl",
        "./traj.json",
        "../work/traj.json",
    ] {
        own(file)
            .run()
            .expect(2)
            .says(&["the run's own record is there"]);
    }
    let run = Host::new().server(&server).task("x").run().expect(0);
    let read = |file: &str| fs::read(run.dir.join(file)).unwrap();
    for named in ["traj.json", "traj.events.jsonl"] {
        for output in ["traj.json", "traj.events.jsonl"] {
            let before = read(output);
            let export = ["export", named, "--to", "md", "-o", output];
            let refused = Host::after(&run).args(export).run().expect(2);
            refused.says(&["is a file of the run itself"]);
            assert_eq!(read(output), before);
        }
    }
    // A pair under another name, beside a run that has the old one.
    for (from, to) in [
        ("traj.json", "other/a.traj.json"),
        ("traj.events.jsonl", "other/a.events.jsonl"),
    ] {
        fs::create_dir_all(run.dir.join("other")).unwrap();
        fs::copy(run.dir.join(from), run.dir.join(to)).unwrap();
    }
    let second = Host::after(&run).server(&other).task("zebra");
    second.args(["-o", "other/traj.json"]).run().expect(0);
    let shown = Host::after(&run)
        .args(["export", "other/a.traj.json", "--to", "md"])
        .run()
        .expect(0);
    assert!(!shown.stdout.contains("zebra"), "{shown}");
}

/// A command may be in a sandbox, out of which the host must not be led.
#[test]
fn atif_is_never_written_through_a_link_that_a_command_has_made() {
    let server = commands(&["echo mine >victim; rm -f out.json; ln -s victim out.json"]);
    let run = Host::new().server(&server).task("x");
    let run = run.args(["--atif", "out.json"]).run().expect(0);
    let read = |file: &str| fs::read_to_string(run.dir.join(file)).unwrap();
    assert_eq!(read("victim"), "mine\n");
    assert!(read("out.json").contains("ATIF-v1.7"));
}
