//! Edits that a linter objects to, with what an image may have.

use std::thread;
use std::time::{Duration, Instant};

use crate::desk::{Desk, program};

/// With Python, without, and with one that does not run.
fn desks() -> [(&'static str, Desk); 3] {
    let with = Desk::bare();
    if program("python3").is_some() {
        with.link("python3");
    }
    let broken = Desk::bare();
    broken.script("python3", "#!/bin/no-such-shell\n");
    [
        ("python3", with),
        ("nothing", Desk::bare()),
        ("a broken python3", broken),
    ]
}

#[test]
fn a_broken_edit_is_not_made() {
    for (what, desk) in desks() {
        let before = "def f(a):\n    return a\n\n\nprint(f(1))\n";
        desk.write("f.py", before);
        desk.good(&["open", "f.py"]);
        for (words, input, code, retry) in [
            (&["edit_linting", "2:2"][..], "    return (a\n", 1, false),
            (&["edit_linting", "2:2"], "return a\n", 1, false),
            (&["edit_linting", "1:1"], "def f(a:\n", 1, false),
            (
                &["edit_replace", "    return a", "   return a)"],
                "",
                4,
                true,
            ),
            (&["insert", "  x = = 1", "4"], "", 4, true),
            (&["edit_rewrite", "def f(:\n  pass"], "", 4, false),
        ] {
            let run = desk.run_with(words, input);
            assert_eq!(run.code, code, "{what}: {words:?}: {}", run.text);
            assert_eq!(desk.read("f.py"), before, "{what}: {words:?}");
            assert_eq!(
                run.text.ends_with("###SWE-AGENT-RETRY-WITH-OUTPUT###"),
                retry
            );
            assert!(
                run.text.contains("\nERRORS:\n- E999 "),
                "{what}: {}",
                run.text
            );
            // The window with the edit and without it.
            assert_eq!(
                run.text.matches("[File: ").count(),
                2,
                "{what}: {}",
                run.text
            );
            assert!(
                run.text.contains("\n2:    return a\n"),
                "{what}: {}",
                run.text
            );
        }
        assert_eq!(desk.shell("ls -A"), "f.py\n", "{what}");
        let run = desk.run_with(&["edit_linting", "2:2"], "    return [\n        a\n    ]\n");
        assert_eq!(run.code, 0, "{what}: {}", run.text);
    }
}

#[test]
fn old_problems_do_not_count() {
    for (what, desk) in desks() {
        // Broken in line 5 before anything is edited.
        desk.write("f.py", "a = 1\nb = 2\n\nc = 3\nd = (\n");
        desk.good(&["open", "f.py"]);
        let run = desk.run_with(&["edit_linting", "2:2"], "b = 3\nb = 4\n");
        assert_eq!(run.code, 0, "{what}: {}", run.text);
        let run = desk.run_with(&["edit_linting", "1:1"], "a = )\n");
        assert_eq!(run.code, 1, "{what}: {}", run.text);
        let run = desk.run_with(&["edit_linting", "6:6"], "d = ()\n");
        assert_eq!(run.code, 0, "{what}: {}", run.text);
    }
}

#[test]
fn other_kinds_of_files_are_checked() {
    let desk = Desk::bare();
    desk.link("bash");
    if program("node").is_some() {
        desk.link("node");
    }
    for (name, before, bad, good) in [
        ("f.json", "{\n\"a\": 1\n}\n", "\"a\": 1,\n", "\"a\": [1]\n"),
        (
            "f.sh",
            "#!/bin/sh\ntrue\nfi=1\n",
            "if true; then\n",
            "false\n",
        ),
        ("f.bash", "a=1\nb=2\n", "a=(1\n", "a=(1 2)\n"),
        (
            "script",
            "#!/usr/bin/env bash\ntrue\n",
            "case x in\n",
            "[[ a = b ]]\n",
        ),
        (
            "f.mjs",
            "let a = 1;\nlet b = 2;\n",
            "let = ;\n",
            "let c = 2;\n",
        ),
    ] {
        if name == "f.mjs" && program("node").is_none() {
            eprintln!("SKIPPED: there is no node");
            continue;
        }
        desk.write(name, before);
        desk.good(&["open", name]);
        let run = desk.run_with(&["edit_linting", "2:2"], bad);
        assert_eq!(
            (run.code, desk.read(name).as_str()),
            (1, before),
            "{name}: {}",
            run.text
        );
        assert!(run.text.contains("\nERRORS:\n- "), "{name}: {}", run.text);
        let run = desk.run_with(&["edit_linting", "2:2"], good);
        assert_eq!(run.code, 0, "{name}: {}", run.text);
    }
    // No JSON, as the file stands: nothing can be said about an edit.
    desk.write("c.json", "{ // text\n\"a\": 1\n}\n");
    desk.good(&["open", "c.json"]);
    assert_eq!(
        desk.run_with(&["edit_linting", "2:2"], "\"a\": 2, // x\n")
            .code,
        0
    );
    // No linter is known for this type.
    desk.write("f.txt", "(\n");
    desk.good(&["open", "f.txt"]);
    assert_eq!(desk.run_with(&["edit_linting", "1:1"], "((\n").code, 0);
}

#[test]
fn linters_are_taken_by_what_there_is() {
    // Each reports what it is; the one that is there first is taken.
    let report = |name: &str| {
        format!(
            "#!/bin/sh\nfor file; do :; done\ngrep -q bad \"$file\" && echo \"$file:1:1: F821 {name}\"\n"
        )
    };
    let mut desk = Desk::bare();
    desk.link("grep");
    desk.write("a b.py", "x\n");
    desk.good(&["open", "a b.py"]);
    let check = |desk: &Desk| desk.run_with(&["edit_linting", "1:1"], "bad\n").text;
    assert!(check(&desk).contains("was changed"));
    desk.write("a b.py", "x\n");
    desk.script("pyflakes", &report("pyflakes"));
    assert!(check(&desk).contains("\n- F821 pyflakes\n"));
    desk.script("flake8", &report("flake8"));
    assert!(check(&desk).contains("\n- F821 flake8\n"));
    desk.script("mine", &report("mine"));
    desk.set("LINT_COMMAND", "mine -q {file_path}");
    assert!(check(&desk).contains("\n- F821 mine\n"));
    assert_eq!(desk.read("a b.py"), "x\n");
    // A linter that can't be run finds nothing.
    desk.set("LINT_COMMAND", "no-such-linter {file_path}");
    assert!(check(&desk).contains("was changed"));
}

#[test]
fn what_is_said_of_other_files_does_not_count() {
    let desk = Desk::bare();
    desk.link("grep");
    let warning = "echo '/lib/x.py:2: DeprecationWarning: old' >&2";
    desk.script("flake8", &format!("#!/bin/sh\n{warning}\n"));
    desk.write("f.py", "a\nb\nc\n");
    desk.good(&["open", "f.py"]);
    assert_eq!(desk.run_with(&["edit", "1:1"], "x\ny\n").code, 0);
    // A broken syntax is on stderr with pyflakes.
    desk.script("flake8", &format!("#!/bin/sh\nfor file; do :; done\n{warning}\ngrep -q bad \"$file\" && echo \"$file:1:2: invalid syntax\" >&2\n"));
    let run = desk.run_with(&["edit", "1:1"], "bad\n");
    assert_eq!(
        (run.code, run.text.matches("\n- ").count()),
        (1, 1),
        "{}",
        run.text
    );
    assert!(run.text.contains("\n- invalid syntax\n"), "{}", run.text);
}

#[test]
fn all_places_count_when_all_are_replaced() {
    let desk = Desk::bare();
    desk.link("grep");
    desk.script("flake8", "#!/bin/sh\nfor file; do :; done\ngrep -n bad \"$file\" | while IFS=: read -r n rest; do echo \"$file:$n:1: F821 bad\"; done\n");
    desk.write("f.py", "bad\nx\nx\n");
    desk.good(&["open", "f.py"]);
    assert_eq!(desk.run(&["edit_replace", "x", "y", "True"]).code, 0);
    let run = desk.run(&["edit_replace", "y", "bad", "True"]);
    assert_eq!(
        (run.code, run.text.matches("- F821 bad").count()),
        (4, 2),
        "{}",
        run.text
    );
}

#[test]
fn an_interrupted_edit_leaves_nothing() {
    let desk = Desk::bare();
    desk.link("sleep");
    desk.script("flake8", "#!/bin/sh\n: >\"$HOME/started\"\nexec sleep 15\n");
    desk.write("f.py", "a\n");
    desk.good(&["open", "f.py"]);
    let mut command = desk.command(&["edit", "1:1", "b"]);
    let mut child = command.env("HOME", desk.home("")).spawn().unwrap();
    let end = Instant::now() + Duration::from_secs(8);
    while !desk.home("started").exists() {
        assert!(Instant::now() < end);
        thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(desk.shell("ls -A | wc -l").trim(), "2");
    desk.shell(&format!("kill -INT {}", child.id()));
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(desk.shell("ls -A"), "f.py\n");
    assert_eq!(desk.read("f.py"), "a\n");
}
