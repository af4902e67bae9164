//! What `export` writes, read by the programs and parsers of others. `exports.rs` has Harbor's validator.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use scripted_server::{Fault, Turn};
use serde_json::Value;

use crate::host::{Host, Signal};
use crate::needs::{Need, tooling};
use crate::run::Run;
use crate::story::turns;

/// Where they are installed.
const READERS: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/export-readers-1");

/// A program of theirs, in the folder of a run.
fn reader(run: &Run, program: &str, args: &[&str]) -> Output {
    let program = Path::new(READERS).join("bin").join(program);
    let mut command = Command::new(program);
    command.args(args).current_dir(&run.dir);
    command.env("LC_ALL", "C.UTF-8").output().unwrap()
}

fn check(run: &Run, files: &[&str]) -> Output {
    let script = tooling().join("export_check.py");
    let args = [&[script.to_str().unwrap()], files].concat();
    reader(run, "python", &args)
}

#[track_caller]
fn fine(said: &Output) {
    assert!(said.status.success(), "{said:?}");
}

fn hostile() -> Vec<Turn> {
    vec![
        Turn::text("# No command\n\n<b>raw</b> <script>x</script> ![i](http://h/i)\n```html\n<i>"),
        Turn::commands(&["echo '</pre><script>alert(1)</script>'; printf '```\\n~~~\\n'"]),
        Turn::commands(&["printf 'a\\377\\033[1mbold\\r\\nnext'; exit 3"]),
    ]
}

/// Of a run that has ended, and of one that was killed.
#[test]
fn parsers_of_others_read_exports() {
    if !Need::Python.is_met() {
        return;
    }
    let script = tooling().join("validators.sh");
    fine(
        &Command::new("sh")
            .arg(script)
            .arg(READERS)
            .output()
            .unwrap(),
    );
    let submits = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo '<i>done</i>'";
    let ends = [Turn::commands(&[submits])];
    let server = turns(hostile().into_iter().chain(ends));
    let task = "fix <script>alert(1)</script> ![i](http://h/i)";
    let ended = Host::new().server(&server).task(task).run().expect(0);
    let breaks = [Turn::fault(Fault::Silence)];
    let server = turns(hostile().into_iter().chain(breaks));
    let mut running = Host::new().server(&server).task(task).spawn();
    running.until("the last query", |_| server.served() == 4);
    running.signal(Signal::KILL);
    let killed = running.wait();
    for (run, from) in [(&ended, "traj.json"), (&killed, "traj.events.jsonl")] {
        for focused in [&[][..], &["--focused"]] {
            let mut all = Vec::new();
            for format in ["html", "md", "jsonl"] {
                let name = format!("run{}.{format}", focused.len());
                let args = ["export", from, "--to", format, "-o", &name];
                Host::after(run).args(args).args(focused).run().expect(0);
                all.push(name);
            }
            let all: Vec<&str> = all.iter().map(String::as_str).collect();
            fine(&check(run, &all));
        }
        let args = ["export", from, "--to", "asciinema", "-o", "run.cast"];
        Host::after(run).args(args).run().expect(0);
        let cast = fs::read_to_string(run.dir.join("run.cast")).unwrap();
        let events = cast.lines().skip(1);
        let events = events.map(|it| serde_json::from_str::<Value>(it).unwrap());
        let shown: String = events
            .map(|it| it[2].as_str().unwrap().to_owned())
            .collect();
        assert!(
            shown.contains("exit 3") && shown.contains("next"),
            "{shown}"
        );
        for args in [&["cat"][..], &["play", "-s", "100000", "-i", "0.001"]] {
            let said = reader(run, "asciinema", &[args, &["run.cast"]].concat());
            fine(&said);
            let said = String::from_utf8(said.stdout).unwrap();
            assert!(said.contains(&shown), "{args:?}: {said}");
        }
    }
    // They do find what is wrong.
    for (name, text) in [
        ("bad.html", "<!doctype html><title>t</title><p></b>"),
        (
            "bad2.html",
            "<!doctype html><title>t</title><img src=http://h/i>",
        ),
        ("bad.md", "a <b>b</b>"),
        ("bad2.md", "```\n## x\n"),
        ("bad.jsonl", "{}\n{"),
    ] {
        fs::write(ended.dir.join(name), text).unwrap();
        assert!(!check(&ended, &[name]).status.success(), "{name}");
    }
    fs::write(ended.dir.join("bad.cast"), "{\"version\": 9}\n").unwrap();
    let said = reader(&ended, "asciinema", &["cat", "bad.cast"]);
    assert!(!said.status.success(), "{said:?}");
}
