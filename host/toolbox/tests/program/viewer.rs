//! The windowed viewer.

use std::fs;

use serde_json::json;

use crate::desk::{Desk, Run, numbers, shown};

#[test]
fn the_window_moves() {
    let desk = Desk::bare();
    desk.write("f", numbers(250));
    // The window, with the lines above and below; those that follow begin where the one before ended.
    for (words, window) in [
        (&["open", "f"][..], (1, 100, 0, 150)),
        (&["scroll_down"], (99, 198, 98, 52)),
        (&["scroll_down"], (151, 250, 150, 0)),
        (&["scroll_down"], (151, 250, 150, 0)),
        (&["scroll_up"], (53, 152, 52, 98)),
        (&["goto", "100"], (83, 182, 82, 68)),
        (&["goto", "250"], (151, 250, 150, 0)),
        (&["goto", "1"], (1, 100, 0, 150)),
        (&["scroll_up"], (1, 100, 0, 150)),
        (&["goto", "-5"], (1, 100, 0, 150)),
        (&["goto", "-9223372036854775808"], (1, 100, 0, 150)),
        (&["open", "f", "100"], (83, 182, 82, 68)),
        (&["open"], (83, 182, 82, 68)),
        (&["open", "f"], (65, 164, 64, 86)),
    ] {
        assert_eq!(shown(&desk.good(words)), window, "{words:?}");
    }
    let text = desk.good(&["open", "f", "999"]);
    let warnings: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("Warning: "))
        .collect();
    assert_eq!(warnings.len(), 2, "{text}");
    assert_eq!(shown(&text), (151, 250, 150, 0));
    // Another file is shown from its beginning on.
    desk.write("g", numbers(300));
    assert_eq!(shown(&desk.good(&["open", "g"])), (1, 100, 0, 200));
}

#[test]
fn the_window_has_its_form() {
    let mut desk = Desk::bare();
    desk.set("WINDOW", "10").set("OVERLAP", "2");
    let lines: String = (0..100).map(|line| format!("{line}\n")).collect();
    desk.write("d/f", lines);
    assert_eq!(
        desk.good(&["open", "d/f", "12"]),
        "[File: d/f (100 lines total)]\n(9 more lines above)\n10:9\n11:10\n12:11\n13:12\n14:13\n15:14\n16:15\n17:16\n18:17\n19:18\n(81 more lines below)"
    );
    let whole = desk.path("d/f").display().to_string();
    let text = desk.good(&["goto", "100"]);
    assert!(text.starts_with(&format!(
        "[File: {whole} (100 lines total)]\n(90 more lines above)\n91:90\n"
    )));
    assert!(text.ends_with("\n100:99"));
    for (content, text) in [
        ("", "[File: f (0 lines total)]"),
        ("\n", "[File: f (1 lines total)]\n1:"),
        ("a\r\nb", "[File: f (2 lines total)]\n1:a\n2:b"),
    ] {
        desk.write("f", content);
        assert_eq!(desk.good(&["open", "f"]), text);
    }
}

#[test]
fn a_file_is_made_once() {
    let desk = Desk::bare();
    assert_eq!(
        desk.good(&["create", "a b/c/f.py"]),
        "[File: a b/c/f.py (0 lines total)]"
    );
    assert_eq!(desk.read("a b/c/f.py"), "");
    let again = desk.run(&["create", "a b/c/f.py"]);
    assert_eq!(
        (again.code, again.text.contains("exists already")),
        (1, true)
    );
    desk.shell("ln -s nowhere link");
    assert_eq!(desk.run(&["create", "link"]).code, 1);
    assert!(!desk.path("nowhere").exists());
    desk.write("file", "");
    assert_eq!(desk.run(&["create", "file/x"]).code, 1);
}

#[test]
fn what_can_not_be_shown_is_named() {
    let mut desk = Desk::bare();
    for words in [
        &["goto", "1"][..],
        &["scroll_up"],
        &["scroll_down"],
        &["open"],
    ] {
        let run = desk.run(words);
        assert_eq!(run.code, 1);
        assert!(
            run.text.starts_with("No file is open."),
            "{words:?}: {}",
            run.text
        );
    }
    desk.write("f", numbers(3));
    desk.good(&["open", "f"]);
    for (words, part) in [
        (&["goto"][..], "Usage: goto"),
        (&["goto", "x"], "must be a number"),
        (&["goto", "1", "2"], "more than one"),
        (&["goto", "4"], "less than or equal to 3"),
        (&["open", "nothing"], "File nothing not found"),
        (&["open", "."], ". is a directory"),
        (&["open", "f", "x"], "must be a number"),
        (&["open", "a", "b", "c"], "Put quotes around"),
        (&["open", "/dev/null"], "not a regular file"),
        (&["create"], "Usage: create"),
    ] {
        let run = desk.run(words);
        assert_eq!(run.code, 1, "{words:?}");
        assert!(run.text.contains(part), "{words:?}: {}", run.text);
        // The open file is still the same one.
        assert!(desk.good(&["open"]).contains("/f (3 lines total)"));
    }
    desk.set("WINDOW", "many");
    assert!(desk.run(&["open", "f"]).text.contains("WINDOW is `many`"));
    fs::remove_file(desk.path("f")).unwrap();
    let gone = desk.run(&["scroll_up"]);
    assert!(gone.text.ends_with("/f not found"), "{}", gone.text);
}

#[test]
fn the_state_is_kept() {
    let desk = Desk::bare();
    let state = || -> serde_json::Value {
        serde_json::from_slice(&fs::read(desk.home("state.json")).unwrap()).unwrap()
    };
    let silent = Run {
        code: 0,
        text: String::new(),
    };
    assert_eq!(desk.run(&["_state"]), silent);
    let folder = desk.path("").display().to_string();
    let folder = folder.trim_end_matches('/');
    assert_eq!(state(), json!({"open_file": "n/a", "working_dir": folder}));
    let file = desk.write("f", "x");
    desk.good(&["open", "f"]);
    fs::write(desk.home("state.json"), "{\"other\": [1]}").unwrap();
    assert_eq!(desk.run(&["_state"]), silent);
    let file = file.display().to_string();
    assert_eq!(
        state(),
        json!({"other": [1], "open_file": file, "working_dir": folder})
    );
    fs::write(desk.home("state.json"), "").unwrap();
    assert_eq!(desk.run(&["_state_anthropic"]), silent);
    assert_eq!(state(), json!({"working_dir": folder}));
    // Beside a registry of the usual name, if no other folder is named.
    fs::create_dir(desk.home("root")).unwrap();
    let mut command = desk.command(&["_state_anthropic"]);
    command.env_remove("MSWEA_TOOLS_HOME");
    command.env("SWE_AGENT_ENV_FILE", desk.home("root/.swe-agent-env"));
    assert!(command.status().unwrap().success());
    assert!(desk.home("root/state.json").exists());
    fs::write(desk.home("state.json"), "[1").unwrap();
    let run = desk.run(&["_state"]);
    assert_eq!(run.code, 1);
    assert!(
        run.text.contains("state.json, is not a JSON object"),
        "{}",
        run.text
    );
}
