//! Wrong input of batches: it is said what is wrong, where, and what to do, and nothing is written over.
//!
//! A partition that does not exist needs a real Slurm: `slurm_starts_the_workers_and_a_lost_node_loses_nothing`. What
//! the Hub refuses, a damaged data set and the full disk of its cache: `datasets.rs`. Mistakes of workers:
//! `workers.rs`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use scripted_server::Server;

use crate::host::Host;
use crate::readers::on_a_small_disk;
use crate::run::Run;
use crate::workers::server;

const ONE: &str = "{\"id\": \"a\", \"task\": \"t\"}\n";

fn batch(host: Host, server: &Server, arguments: &[&str]) -> Host {
    called(host, server, "run", arguments)
}

fn called(host: Host, server: &Server, command: &str, arguments: &[&str]) -> Host {
    host.args(["batch", command, "out", "--instances", "i.jsonl"])
        .server(server)
        .args(["-l", "0"])
        .args(arguments)
}

/// All files below a folder, but for the lock, which names its last holder.
fn tree(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        match path.is_dir() {
            true => found.extend(tree(&path)),
            false if entry.file_name() == ".lock" => {}
            false => drop(found.insert(path.clone(), fs::read(&path).unwrap())),
        }
    }
    found
}

#[test]
fn wrong_input_is_refused_before_anything_is_written() {
    type Case<'a> = (&'a str, &'a [&'a str], &'a [&'a str]);
    let cases: &[Case<'_>] = &[
        // A data set without the wanted columns.
        (
            "{\"x\": 1}\n",
            &[],
            &["row 1", "has no id", "`--id-template`"],
        ),
        ("{\"id\": 1}\n", &[], &["row 1", "has no task", "`id`"]),
        (
            ONE,
            &["--task-template", "{{ y }}"],
            &["--task-template", "y"],
        ),
        // An id that is no name of a folder.
        (
            "{\"id\": \"a/b\", \"task\": \"t\"}\n",
            &[],
            &["row 1", "`a/b`", "slash", "`--id-template`"],
        ),
        (
            "{\"id\": \"..\", \"task\": \"t\"}\n",
            &[],
            &["row 1", "`..`", "`--id-template`"],
        ),
        (
            "{\"id\": \"preds.json\", \"task\": \"t\"}\n",
            &[],
            &["file of the batch"],
        ),
        // Two instances of one id.
        (
            &format!("{ONE}{ONE}"),
            &[],
            &["rows 1 and 2", "same id `a`"],
        ),
        ("{\n", &[], &["i.jsonl", "line 1"]),
        ("", &[], &["has no instances"]),
        // A filter that matches nothing.
        (
            ONE,
            &["--filter", "x"],
            &["no instance is left of 1", "`--filter` (`x`)"],
        ),
        (
            ONE,
            &["--slice", "5:"],
            &["no instance is left of 1", "`5:`"],
        ),
        (ONE, &["--filter", "("], &["`--filter (`"]),
        (ONE, &["--slice", "a"], &["`--slice a`"]),
        (ONE, &["-t", "x"], &["`--task` is for a single run"]),
        (ONE, &["-c", "agent.step_limits=1"], &["step_limits"]),
        (ONE, &["-c", "agent.system_template={{"], &["bad template"]),
        (ONE, &["--plugin", "./none.wasm"], &["none.wasm"]),
        (ONE, &["--workers", "0"], &["--workers"]),
    ];
    let server = server(0);
    for (text, arguments, parts) in cases {
        let host = Host::new().file("i.jsonl", text);
        let run = batch(host, &server, arguments).run();
        assert!(run.status == 2 || run.status == 7, "{}\n{run}", run.status);
        let run = run.says(parts);
        assert!(!run.dir.join("out").exists(), "{run}");
    }
    // `swebench` reads other columns, and has no flags for their names.
    for (row, parts) in [
        (r#"{"problem_statement": "p"}"#, ["row 1", "`instance_id`"]),
        (
            r#"{"instance_id": "a__b-1"}"#,
            ["row 1", "`problem_statement`"],
        ),
    ] {
        let host = Host::new().file("data.jsonl", row);
        let host = host.args(["swebench", "--subset", "data.jsonl", "-o", "out"]);
        let run = host.server(&server).run().expect(2).says(&parts);
        assert!(!run.dir.join("out").exists(), "{run}");
    }
    // A machine without Slurm.
    let host = Host::new().file("i.jsonl", ONE).env("PATH", "/nonexistent");
    let run = called(host, &server, "submit", &[]).run().expect(2);
    let run = run.says(&["there is no `sbatch` here", "`--engine none`"]);
    assert!(!run.dir.join("out").exists(), "{run}");
}

#[test]
fn a_directory_of_another_kind_is_left_as_it_is() {
    let server = server(0);
    let refused = |host: Host, parts: &[&str]| {
        let out = host.dir().join("out");
        let before = tree(&out);
        let run = host.run().expect(2).says(parts);
        assert_eq!(tree(&out), before, "{run}");
        run
    };
    let host = Host::new().file("i.jsonl", ONE).file("out/mine.txt", "x");
    refused(
        batch(host, &server, &[]),
        &["is not the directory of a batch"],
    );
    let run = batch(Host::new().file("i.jsonl", ONE), &server, &[]);
    let run = run.run().expect(0);
    // Another config, another instance of the same id.
    let steps = ["--step-limit", "7"];
    let words = [
        "agent.step_limit = 7, and was 0",
        "`out`",
        "--config-changed",
    ];
    let run = refused(batch(Host::after(&run), &server, &steps), &words);
    let other = "{\"id\": \"a\", \"task\": \"u\"}\n";
    let host = Host::after(&run).file("i.jsonl", other);
    let run = refused(
        batch(host, &server, &[]),
        &["`a` is another one", "its task differs"],
    );
    let result = fs::read(run.dir.join("out/a/result.json")).unwrap();
    let host = Host::after(&run).file("i.jsonl", format!("{ONE}{}", ONE.replace("\"a\"", "\"b\"")));
    let run = batch(host, &server, &["--config-changed"])
        .args(steps)
        .run()
        .expect(0);
    let kept = fs::read(run.dir.join("out/a/result.json")).unwrap();
    assert_eq!(kept, result, "{run}");
    assert!(run.dir.join("out/b/result.json").exists(), "{run}");
    let run = Host::after(&run)
        .args(["batch", "status", "home"])
        .run()
        .expect(2);
    run.says(&["`home` is not the directory of a batch"]);
}

#[test]
fn a_full_disk_is_said_with_what_to_do() {
    let server = server(0);
    let called = |instances: String, command: &str| {
        let host = Host::new().file("i.jsonl", instances).args([
            "batch",
            command,
            "full/out",
            "--instances",
            "i.jsonl",
            "-l",
            "0",
            "--min-disk",
            "0",
            "--retries",
            "0",
        ]);
        on_a_small_disk(host.server(&server))
    };
    let large = |count: usize| -> String {
        let task = "t".repeat(4000);
        let line = |i| format!("{{\"id\": \"i{i}\", \"task\": \"{task}\"}}\n");
        (0..count).map(line).collect()
    };
    // There is no room for the manifest.
    let words = [
        "No space left on device",
        "free some space",
        "the same command goes on",
    ];
    let Some(host) = called(large(100), "run") else {
        return;
    };
    host.run()
        .expect(1)
        .says(&words)
        .says(&["`full/out/manifest.jsonl`"]);
    // There is room for it, and not for all runs.
    let run = called(large(30), "run").unwrap().run().expect(1);
    run.says(&words);
}

/// A library that makes a call of the system fail for files in `out`, as a file system without it does.
fn without(call: &str, folder: &Path) -> PathBuf {
    let code = match call {
        "link" => {
            "int linkat(int a, const char *from, int b, const char *to, int flags) {
                return fails(to) ? -1 : (int)syscall(SYS_linkat, a, from, b, to, flags); }"
        }
        _ => {
            "int rename(const char *from, const char *to) {
                return fails(to) ? -1 : (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0); }"
        }
    };
    let head = "#define _GNU_SOURCE\n#include <errno.h>\n#include <fcntl.h>\n#include <string.h>\n#include <sys/syscall.h>\n#include <unistd.h>\n\
                static int fails(const char *to) { return strstr(to, \"out/\") ? (errno = EPERM, 1) : 0; }\n";
    let (source, library) = (
        folder.join(format!("{call}.c")),
        folder.join(format!("{call}.so")),
    );
    fs::write(&source, format!("{head}{code}\n")).unwrap();
    let mut command = Command::new("cc");
    command.args(["-shared", "-fPIC", "-o"]).arg(&library);
    assert!(command.arg(&source).status().unwrap().success());
    library
}

#[test]
fn a_file_system_that_lacks_something_is_refused() {
    let server = server(0);
    // The variable separates libraries by spaces.
    let folder = tempfile::tempdir_in("/tmp").unwrap();
    let on = |call: &str, host: Host| host.env("LD_PRELOAD", without(call, folder.path()));
    let new = || Host::new().file("i.jsonl", ONE);
    let nothing_is_made = |run: &Run| {
        let made = tree(&run.dir.join("out"));
        assert!(made.is_empty(), "{made:?} {run}");
    };
    let run = batch(on("rename", new()), &server, &[]).run().expect(2);
    let run = run.says(&["`out`", "renaming", "not permitted", "local disk"]);
    nothing_is_made(&run);
    let words = [
        "`out`",
        "hard links",
        "not permitted",
        "`mswea-host batch run`",
    ];
    let none = ["--engine", "none"];
    let run = called(on("link", new()), &server, "submit", &none).run();
    let run = run.expect(2).says(&words);
    nothing_is_made(&run);
    let run = called(new(), &server, "submit", &none).run().expect(0);
    let before = tree(&run.dir.join("out"));
    let host = on("link", Host::after(&run)).args(["batch", "worker", "out", "-l", "0"]);
    let run = host.server(&server).run().expect(2).says(&words);
    assert_eq!(tree(&run.dir.join("out")), before, "{run}");
    // One process alone needs none.
    let run = batch(on("link", Host::after(&run)), &server, &[]).run();
    let run = run.expect(0);
    assert!(run.dir.join("out/a/result.json").exists(), "{run}");
}
