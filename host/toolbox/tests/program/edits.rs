//! The windowed edits, without a linter.

use crate::desk::{Desk, numbers, shown};

const RETRY: &str = "###SWE-AGENT-RETRY-WITH-OUTPUT###";

#[test]
fn ranges_of_lines_are_replaced() {
    let desk = Desk::bare();
    for (before, range, text, after) in [
        ("a\nb\nc\n", "2:2", "x\ny\nend_of_edit\n", "a\nx\ny\nc\n"),
        ("a\nb\nc\n", "1:3", "x\nend_of_edit\n", "x\n"),
        ("a\nb\nc\n", "2:3", "end_of_edit\n", "a\n"),
        // The text on stdin after a call of a function with an empty text.
        ("a\nb\nc\n", "2:2", "\nend_of_edit\n", "a\nc\n"),
        ("a\nb\nc\n", "2:2", "\n\nend_of_edit\n", "a\n\n\nc\n"),
        ("a\nb\nc\n", "1:1", "x", "x\nb\nc\n"),
        (
            "a\nb\nc\n",
            "2:2",
            "x\n end_of_edit\nend_of_edit\nz\n",
            "a\nx\n end_of_edit\nc\n",
        ),
        ("a\nb\nc\nd\n", "1:99", "x\n", "x\n"),
        ("a\nb\n", "3:3", "x\n", "a\nb\nx\n"),
        ("a\nb\n", "9:9", "x\n", "a\nb\nx\n"),
        ("a\nb\n", "2:1", "x\n", "a\nx\nb\n"),
        ("a\nb", "2:2", "x\n", "a\nx"),
        ("a\nb", "1:1", "x\n", "x\nb"),
        ("a\r\nb\r\n", "2:2", "x\ny\n", "a\r\nx\r\ny\r\n"),
        ("a\r\nb", "2:2", "x\n", "a\r\nx"),
        ("", "1:1", "x\n", "x\n"),
        (
            "a\n",
            "1:1",
            "$x `y` \\n \"z\" 'q'\n",
            "$x `y` \\n \"z\" 'q'\n",
        ),
    ] {
        desk.write("f", before);
        desk.good(&["open", "f"]);
        let run = desk.run_with(&["edit_linting", range], text);
        assert_eq!(run.code, 0, "{}", run.text);
        assert_eq!(desk.read("f"), after, "{before:?} {range} {text:?}");
    }
    // The text as an argument, as a call of a function may have it.
    desk.write("f", "a\nb\n");
    let text = desk.good(&["edit", "2:2", "x\n"]);
    assert_eq!(desk.read("f"), "a\nx\n");
    let file = desk.path("f").display().to_string();
    assert!(
        text.ends_with(&format!("\n[File: {file} (2 lines total)]\n1:a\n2:x")),
        "{text}"
    );
}

#[test]
fn without_a_text_nothing_is_replaced() {
    let desk = Desk::bare();
    desk.write("f", "a\nb\n");
    desk.good(&["open", "f"]);
    let mut command = desk.command(&["edit_linting", "2:2"]);
    let output = command.stdin(std::process::Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!output.status.success(), "{text}");
    assert!(text.contains("There is no replacement text"), "{text}");
    assert_eq!(desk.read("f"), "a\nb\n");
}

#[test]
fn the_window_follows_an_edit() {
    let mut desk = Desk::bare();
    desk.set("WINDOW", "12");
    desk.write("f", numbers(100));
    desk.good(&["open", "f"]);
    let run = desk.run_with(&["edit_linting", "50:50"], "x\ny\n");
    assert_eq!(shown(&run.text), (48, 59, 47, 42));
    assert!(
        run.text.contains("\n50:x\n51:y\n52:line 51\n"),
        "{}",
        run.text
    );
    assert_eq!(shown(&desk.good(&["scroll_down"])), (58, 69, 57, 32));
}

#[test]
fn ranges_that_are_none_are_refused() {
    let desk = Desk::bare();
    let run = desk.run_with(&["edit_linting", "1:1"], "x\n");
    assert_eq!(
        (run.code, run.text.starts_with("No file is open.")),
        (1, true)
    );
    desk.write("f", "a\n");
    desk.good(&["open", "f"]);
    for (words, part) in [
        (&["edit_linting"][..], "no line range"),
        (&["edit_linting", "1"], "two numbers"),
        (&["edit_linting", "a:b"], "two numbers"),
        (&["edit_linting", "0:1"], "begin at 1"),
        (&["edit_linting", "5:2"], "must not be smaller"),
        (&["edit_linting", "1:1", "x", "y"], "more than two"),
    ] {
        let run = desk.run_with(words, "x\n");
        assert_eq!(run.code, 1);
        assert!(
            run.text
                .starts_with("Usage: edit <start_line>:<end_line>\n"),
            "{}",
            run.text
        );
        assert!(run.text.contains(part), "{words:?}: {}", run.text);
        assert_eq!(desk.read("f"), "a\n");
    }
}

#[test]
fn texts_are_replaced() {
    let mut desk = Desk::bare();
    desk.set("WINDOW", "4").set("OVERLAP", "0");
    let before = "a = 1\nb = 2\nc = 1\nb = 3\nlate = 1\nlate = 2\n";
    for (words, code, after, part) in [
        (
            &["b = 2", "b = 9"][..],
            0,
            "a = 1\nb = 9\nc = 1\nb = 3\nlate = 1\nlate = 2\n",
            "was replaced.",
        ),
        (&["1\nb", "4\nbb"], 4, before, "more than once"),
        (
            &["b = 2\nc", "d\nc"],
            0,
            "a = 1\nd\nc = 1\nb = 3\nlate = 1\nlate = 2\n",
            "was replaced.",
        ),
        (
            &["b = 2\n", ""],
            0,
            "a = 1\nc = 1\nb = 3\nlate = 1\nlate = 2\n",
            "was replaced.",
        ),
        (&["b", "c"], 4, before, "more than once"),
        (&["x", "x"], 2, before, "are the same"),
        (&["", "x"], 4, before, "is empty"),
        (&["zz", "x"], 3, before, "is not in it"),
        (&["late", "x"], 3, before, "- line 5\n- line 6\n"),
        (
            &["late", "x", "True"],
            0,
            "a = 1\nb = 2\nc = 1\nb = 3\nx = 1\nx = 2\n",
            "in 2 places",
        ),
        (
            &["b = 2", "x", "true"],
            0,
            "a = 1\nx\nc = 1\nb = 3\nlate = 1\nlate = 2\n",
            "in 1 place.",
        ),
        (&["late", "x", "False"], 3, before, "elsewhere"),
        (&["zz", "x", "1"], 3, before, "is not in it"),
        (&["b = 2", "x", "maybe"], 2, before, "must be True or False"),
        (&["b = 2"], 2, before, "two or three arguments"),
    ] {
        desk.write("f", before);
        desk.good(&["open", "f", "1"]);
        let run = desk.run(&[&["edit_replace"], words].concat());
        assert_eq!(
            (run.code, desk.read("f").as_str()),
            (code, after),
            "{words:?}"
        );
        assert!(run.text.contains(part), "{words:?}: {}", run.text);
        assert_eq!(run.text.ends_with(RETRY), code != 0, "{words:?}");
        assert_eq!(run.text.contains("[File: "), code == 0, "{words:?}");
    }
    desk.write("f", "a\r\nb\r\nc\r\n");
    desk.good(&["open", "f"]);
    desk.good(&["edit_replace", "a\nb", "x\ny\nz"]);
    assert_eq!(desk.read("f"), "x\r\ny\r\nz\r\nc\r\n");
    desk.good(&["create", "new"]);
    desk.good(&["edit_replace", "", "x\n"]);
    assert_eq!(desk.read("new"), "x\n");
}

#[test]
fn the_window_goes_to_the_replaced_text() {
    let mut desk = Desk::bare();
    desk.set("WINDOW", "12");
    desk.write("f", numbers(100));
    desk.good(&["open", "f", "10"]);
    let text = desk.good(&["edit_replace", "line 11\n", "eleven\n"]);
    assert_eq!(shown(&text).0, 9);
    let text = desk.good(&["edit_replace", "line 70\n", "x\n", "True"]);
    assert_eq!(shown(&text).0, 69);
}

#[test]
fn texts_are_inserted() {
    let desk = Desk::bare();
    for (before, words, code, after) in [
        ("a\nb\n", &["x"][..], 0, "a\nb\nx\n"),
        ("a\nb", &["x"], 0, "a\nb\nx"),
        ("", &["x"], 0, "x\n"),
        ("a\nb\n", &["x\ny\n", "1"], 0, "a\nx\ny\nb\n"),
        ("a\nb\n", &["x", "0"], 0, "x\na\nb\n"),
        ("a\nb\n", &["x", "2"], 0, "a\nb\nx\n"),
        ("a\n", &["\n"], 0, "a\n\n"),
        ("a\nb\n", &["x", "3"], 2, "a\nb\n"),
        ("a\nb\n", &["x", "-1"], 2, "a\nb\n"),
        ("a\nb\n", &["x", "y"], 2, "a\nb\n"),
        ("a\nb\n", &[], 2, "a\nb\n"),
        ("a\r\n", &["x\ny"], 0, "a\r\nx\r\ny\r\n"),
    ] {
        desk.write("f", before);
        desk.good(&["open", "f"]);
        let run = desk.run(&[&["insert"], words].concat());
        assert_eq!(
            (run.code, desk.read("f").as_str()),
            (code, after),
            "{words:?}"
        );
        let end = if code == 0 {
            "[File: "
        } else {
            "Usage: insert"
        };
        assert!(run.text.starts_with(end), "{words:?}: {}", run.text);
    }
}

#[test]
fn the_window_is_rewritten() {
    let mut desk = Desk::bare();
    desk.set("WINDOW", "3").set("OVERLAP", "0");
    for (text, after) in [
        ("x\ny", "line 1\nline 2\nline 3\nx\ny\nline 7\n"),
        ("x\n", "line 1\nline 2\nline 3\nx\nline 7\n"),
        ("", "line 1\nline 2\nline 3\nline 7\n"),
    ] {
        desk.write("f", numbers(7));
        desk.good(&["open", "f", "1"]);
        desk.good(&["scroll_down"]);
        assert_eq!(
            desk.good(&["edit_rewrite", text]),
            "The lines were replaced."
        );
        assert_eq!(desk.read("f"), after);
    }
    assert_eq!(desk.run(&["edit_rewrite"]).code, 2);
}
