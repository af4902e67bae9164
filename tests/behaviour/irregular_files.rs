//! A cloned repository may contain pipes, links to devices and huge files. They are refused at once, by
//! name.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant};

use scripted_server::{Scenario, Server};

use crate::host::Host;

const SUBMIT: &str = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo done";

/// Makes a file at this path that must be refused.
type Make = fn(&Path);

fn pipe(path: &Path) {
    let made = std::process::Command::new("mkfifo").arg(path).status();
    assert!(made.unwrap().success());
}

fn endless(path: &Path) {
    symlink("/dev/zero", path).unwrap();
}

fn large(path: &Path) {
    std::fs::File::create(path)
        .unwrap()
        .set_len(1 << 32)
        .unwrap();
}

const SORTS: [(Make, &str); 3] = [
    (pipe, "it is a pipe, not a regular file"),
    (endless, "it is a device, not a regular file"),
    (large, "it is larger than"),
];

#[test]
fn an_irregular_lock_file_is_refused() {
    for (make, says) in SORTS {
        let server = Server::start(Scenario::commands(&[SUBMIT]));
        let host = Host::new().server(&server).task("t");
        make(&host.dir().join("mswea-plugins.lock"));
        let begun = Instant::now();
        let run = host.run().expect(7);
        run.says(&["mswea-plugins.lock", says]);
        // Reading the file would have taken the test's time limit, or all memory.
        assert!(begun.elapsed() < Duration::from_secs(30));
        assert_eq!(server.served(), 0);
    }
}

#[test]
fn irregular_files_that_flags_name_are_refused() {
    let uses: [(&str, &[&str], i32); 6] = [
        ("p.wasm", &["--plugin", "./p.wasm"], 7),
        ("c.toml", &["-c", "./c.toml"], 2),
        ("c.yaml", &["-c", "./c.yaml"], 2),
        (
            "keys",
            &[
                "-c",
                "model.secrets_file=./keys",
                "-c",
                "model.api_key_env=SOME_KEY",
            ],
            5,
        ),
        ("old.traj.json", &["-m", "replay/old.traj.json"], 2),
        (
            "prices.json",
            &["-c", "model.litellm_model_registry=./prices.json"],
            2,
        ),
    ];
    for (name, args, code) in uses {
        for (make, says) in SORTS {
            let server = Server::start(Scenario::commands(&[SUBMIT]));
            let host = Host::new().server(&server).task("t").args(args);
            make(&host.dir().join(name));
            let run = host.run();
            assert_eq!(server.served(), 0, "{name}\n{run}");
            let run = run.expect(code);
            run.says(&[says]);
        }
    }
    // Files that only some commands read.
    for (name, args) in [
        (
            "c.json",
            [
                "plugin",
                "call",
                "text_regex",
                "describe",
                "--config",
                "./c.json",
            ],
        ),
        (
            "s.json",
            [
                "plugin",
                "check",
                "text_regex",
                "--quick",
                "--samples",
                "./s.json",
            ],
        ),
    ] {
        for (make, says) in SORTS {
            let host = Host::new().args(args);
            make(&host.dir().join(name));
            host.run().expect(2).says(&[says]);
        }
    }
}

#[test]
fn runs_repair_refuses_irregular_files_and_foreign_journals() {
    for (make, _) in SORTS {
        let host = Host::new();
        make(&host.dir().join("old.traj.json"));
        let run = host.args(["runs", "repair", "old.traj.json"]).run();
        run.expect(1).says(&["`old.traj.json` is not a journal"]);
    }
    // A journal in another folder that the trajectory names is not read.
    let elsewhere = tempfile::tempdir().unwrap();
    let journal = elsewhere.path().join("other.events.jsonl");
    std::fs::write(&journal, "").unwrap();
    let host = Host::new();
    let text = serde_json::json!({"info": {"mswea": {"journal": journal}}}).to_string();
    std::fs::write(host.dir().join("old.traj.json"), text).unwrap();
    let run = host.args(["runs", "repair", "old.traj.json"]).run();
    run.expect(1).says(&["`old.events.jsonl` does not exist"]);
}
