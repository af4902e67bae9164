//! `str_replace_editor`.

use std::fs;

use crate::desk::{Desk, Run, numbers};

fn call(desk: &Desk, command: &str, name: &str, options: &[&str]) -> Run {
    let path = desk.path(name).display().to_string();
    desk.run(&[&["str_replace_editor", command, &path], options].concat())
}

/// The numbered lines of an answer, in one line.
fn lines(text: &str) -> String {
    let lines = text.lines().filter_map(|line| line.split_once('\t'));
    let lines: Vec<String> = lines
        .map(|(number, line)| format!("{}|{line}", number.trim()))
        .collect();
    lines.join(" ")
}

#[test]
fn each_refusal_has_its_code() {
    let desk = Desk::bare();
    desk.write("f", "a\nb\na\n");
    desk.write("binary", b"a\0b");
    for (command, name, options, code) in [
        ("create", "new", &[][..], 1),
        ("str_replace", "f", &[], 2),
        ("str_replace", "f", &["--no_option", "x"], 2),
        ("str_replace", "f", &["--old_str"], 2),
        ("insert", "f", &["--new_str", "x"], 3),
        ("insert", "f", &["--insert_line", "1"], 4),
        ("remove", "f", &[], 5),
        ("view", "missing", &[], 7),
        ("create", "f", &["--file_text", "x"], 8),
        ("str_replace", ".", &["--old_str", "x"], 9),
        ("view", ".", &["--view_range", "1", "2"], 10),
        ("view", "f", &["--view_range", "1"], 11),
        ("view", "f", &["--view_range", "1", "x"], 11),
        ("view", "f", &["--view_range", "0", "2"], 12),
        ("view", "f", &["--view_range", "5", "5"], 12),
        ("view", "f", &["--view_range", "1", "5"], 13),
        ("view", "f", &["--view_range", "3", "2"], 14),
        (
            "str_replace",
            "f",
            &["--old_str", "A", "--new_str", "x"],
            15,
        ),
        ("str_replace", "f", &["--old_str", "", "--new_str", "x"], 15),
        (
            "str_replace",
            "f",
            &["--old_str", "a", "--new_str", "x"],
            16,
        ),
        (
            "str_replace",
            "f",
            &["--old_str", "b", "--new_str", "b"],
            161,
        ),
        ("insert", "f", &["--insert_line", "5", "--new_str", "x"], 17),
        (
            "insert",
            "f",
            &["--insert_line", "-1", "--new_str", "x"],
            17,
        ),
        ("insert", "f", &["--insert_line", "x", "--new_str", "x"], 17),
        ("undo_edit", "f", &[], 18),
        ("view", "binary", &[], 19),
        ("create", "no/folder", &["--file_text", "x"], 21),
    ] {
        let run = call(&desk, command, name, options);
        assert_eq!(run.code, code, "{command} {name} {options:?}: {}", run.text);
        assert!(!run.text.is_empty());
        assert_eq!(desk.read("f"), "a\nb\na\n");
    }
    let run = desk.run(&["str_replace_editor", "view", "f"]);
    assert_eq!(run.code, 6);
    assert!(
        run.text
            .contains(&format!("Perhaps {} is meant", desk.path("f").display()))
    );
    assert_eq!(desk.run(&["str_replace_editor", "view"]).code, 2);
    let run = call(
        &desk,
        "str_replace",
        "f",
        &["--old_str", "a", "--new_str", "x"],
    );
    assert!(run.text.contains("[1, 3]"), "{}", run.text);
    assert!(!desk.path("new").exists());
}

#[test]
fn files_are_shown() {
    let desk = Desk::bare();
    desk.write("f", "a\n\tb\r\nc\n");
    let shown = call(&desk, "view", "f", &[]).text;
    assert!(
        shown.ends_with("\n     1\ta\n     2\t\tb\n     3\tc\n     4\t\n"),
        "{shown:?}"
    );
    for (range, result) in [
        (["2", "3"], "2|\tb 3|c"),
        (["3", "-1"], "3|c 4|"),
        (["1", "1"], "1|a"),
    ] {
        let run = call(&desk, "view", "f", &["--view_range", range[0], range[1]]);
        assert_eq!(lines(&run.text), result, "{range:?}");
    }
    desk.write("long", "x".repeat(15_990) + "\n" + &"\u{e9}".repeat(20));
    let shown = call(&desk, "view", "long", &[]).text;
    assert!(
        shown.contains(&format!("     2\t{}<response clipped>", "\u{e9}".repeat(9))),
        "{}",
        shown.len()
    );
}

#[test]
fn folders_are_shown_two_levels_deep() {
    let desk = Desk::bare();
    for name in ["d/a/b/c", "d/a/x", "d/.h/x", "d/z", "d/a/.y"] {
        desk.write(name, "");
    }
    let text = call(&desk, "view", "d", &[]).text;
    let text = text.replace(&desk.path("").display().to_string(), "");
    let list: Vec<&str> = text
        .lines()
        .skip(1)
        .filter(|line| !line.is_empty())
        .collect();
    assert_eq!(list, ["d", "d/a", "d/a/b", "d/a/x", "d/z"]);
}

#[test]
fn texts_are_replaced_once() {
    let desk = Desk::bare();
    for (before, old, new, after) in [
        ("a\nb\nc\n", "b", "x\ny", "a\nx\ny\nc\n"),
        ("a\nb\nc\n", "b\n", "", "a\nc\n"),
        ("a\n\tb\n", "\tb", "\tc", "a\n\tc\n"),
        ("x\ty\na\n", "a", "b", "x\ty\nb\n"),
        ("a\r\nb\r\nc\r\n", "a\nb", "x\ny", "x\r\ny\r\nc\r\n"),
        ("a -x b\n", "-x", "--y", "a --y b\n"),
        ("", "", "x\n", "x\n"),
        ("$HOME `a` \\n\n", "`a` \\n", "'b'", "$HOME 'b'\n"),
    ] {
        desk.write("f", before);
        let run = call(
            &desk,
            "str_replace",
            "f",
            &["--old_str", old, "--new_str", new],
        );
        assert_eq!(
            (run.code, desk.read("f").as_str()),
            (0, after),
            "{old:?}: {}",
            run.text
        );
        // And back.
        assert_eq!(call(&desk, "undo_edit", "f", &[]).code, 0);
        assert_eq!(desk.read("f"), before);
    }
    desk.write("f", "a b c\n");
    assert_eq!(call(&desk, "str_replace", "f", &["--old_str=b "]).code, 0);
    assert_eq!(desk.read("f"), "a c\n");
    desk.write("f", numbers(20));
    let run = call(
        &desk,
        "str_replace",
        "f",
        &["--old_str", "line 10", "--new_str", "x\ny"],
    );
    assert_eq!(
        lines(&run.text),
        "5|line 5 6|line 6 7|line 7 8|line 8 9|line 9 10|x 11|y 12|line 11 13|line 12 14|line 13"
    );
    let latin = desk.write("latin", b"gr\xfc\xdfe\nx\n");
    assert_eq!(
        call(
            &desk,
            "str_replace",
            "latin",
            &["--old_str", "x", "--new_str", "y"]
        )
        .code,
        0
    );
    assert_eq!(fs::read(latin).unwrap(), b"gr\xfc\xdfe\ny\n");
}

#[test]
fn latin_1_is_shown_and_edited_as_text() {
    let desk = Desk::bare();
    let file = desk.write("latin", b"gr\xfc\xdfe\nx\n");
    let view = call(&desk, "view", "latin", &[]);
    assert!(view.text.contains("grüße"), "{}", view.text);
    for (command, words, after) in [
        (
            "str_replace",
            &["--old_str", "grüße", "--new_str", "müßte"][..],
            &b"m\xfc\xdfte\nx\n"[..],
        ),
        (
            "str_replace",
            &["--old_str", "x", "--new_str", "é"],
            b"m\xfc\xdfte\n\xe9\n",
        ),
        (
            "insert",
            &["--insert_line", "1", "--new_str", "ä"],
            b"m\xfc\xdfte\n\xe4\n\xe9\n",
        ),
    ] {
        let run = call(&desk, command, "latin", words);
        assert_eq!(run.code, 0, "{}", run.text);
        assert!(run.text.contains("müßte"), "{}", run.text);
        assert_eq!(fs::read(&file).unwrap(), after);
    }
    // UTF-8 beside a byte that is none is found as it is.
    let file = desk.write("mixed", b"gr\xc3\xbcn\n\xff\n");
    let words = ["--old_str", "grün", "--new_str", "blau"];
    assert_eq!(call(&desk, "str_replace", "mixed", &words).code, 0);
    assert_eq!(fs::read(&file).unwrap(), b"blau\n\xff\n");
}

#[test]
fn lines_are_inserted() {
    let desk = Desk::bare();
    for (before, line, new, after) in [
        ("a\nb\n", "0", "x", "x\na\nb\n"),
        ("a\nb\n", "1", "x\ny", "a\nx\ny\nb\n"),
        ("a\nb\n", "2", "x", "a\nb\nx\n"),
        ("a\nb\n", "3", "x", "a\nb\n\nx"),
        ("a\nb", "2", "x", "a\nb\nx"),
        ("", "0", "x", "x\n"),
        ("a\r\n", "1", "x", "a\r\nx\r\n"),
    ] {
        desk.write("f", before);
        let run = call(
            &desk,
            "insert",
            "f",
            &["--insert_line", line, "--new_str", new],
        );
        assert_eq!(
            (run.code, desk.read("f").as_str()),
            (0, after),
            "{line}: {}",
            run.text
        );
    }
    desk.write("f", numbers(20));
    let run = call(
        &desk,
        "insert",
        "f",
        &["--insert_line", "10", "--new_str", "x"],
    );
    assert_eq!(
        lines(&run.text),
        "7|line 7 8|line 8 9|line 9 10|line 10 11|x 12|line 11 13|line 12 14|line 13 15|line 14"
    );
}

#[test]
fn edits_are_undone_one_after_the_other() {
    let desk = Desk::bare();
    let path = desk.path("f").display().to_string();
    assert_eq!(call(&desk, "create", "f", &["--file_text", "0\n"]).code, 0);
    assert_eq!(call(&desk, "undo_edit", "f", &[]).code, 18);
    for (old, new) in [("0", "1"), ("1", "2"), ("2", "3")] {
        assert_eq!(
            call(
                &desk,
                "str_replace",
                "f",
                &["--old_str", old, "--new_str", new]
            )
            .code,
            0
        );
    }
    // By another name of the same file.
    desk.shell("ln -s f link");
    assert_eq!(call(&desk, "undo_edit", "link", &[]).code, 0);
    assert_eq!(desk.read("f"), "2\n");
    let run = desk.run(&["str_replace_editor", "undo_edit", &path]);
    assert_eq!((run.code, lines(&run.text).as_str()), (0, "1|1 2|"));
    assert_eq!(call(&desk, "undo_edit", "f", &[]).code, 0);
    assert_eq!(
        (
            desk.read("f").as_str(),
            call(&desk, "undo_edit", "f", &[]).code
        ),
        ("0\n", 18)
    );
    // A refused edit is none.
    assert_eq!(
        call(&desk, "str_replace", "f", &["--old_str", "9"]).code,
        15
    );
    assert_eq!(call(&desk, "undo_edit", "f", &[]).code, 18);
    // The file that is made anew is another one.
    assert_eq!(
        call(
            &desk,
            "insert",
            "f",
            &["--insert_line", "0", "--new_str", "x"]
        )
        .code,
        0
    );
    fs::remove_file(desk.path("f")).unwrap();
    assert_eq!(call(&desk, "create", "f", &["--file_text", "new"]).code, 0);
    assert_eq!(call(&desk, "undo_edit", "f", &[]).code, 18);
    for number in 0..55 {
        let new = format!("new{number}");
        desk.write("f", "new");
        assert_eq!(
            call(
                &desk,
                "str_replace",
                "f",
                &["--old_str", "new", "--new_str", &new]
            )
            .code,
            0
        );
    }
    let undone = (0..60)
        .take_while(|_| call(&desk, "undo_edit", "f", &[]).code == 0)
        .count();
    assert_eq!(undone, 50);
}

#[test]
fn the_registry_changes_what_is_shown() {
    let mut desk = Desk::bare();
    let body = "    x = 1\n".repeat(2000);
    let text = format!("import a\n\n\ndef f():\n{body}\n\ndef g():\n    return 1\n");
    desk.write("f.py", &text);
    assert!(!call(&desk, "view", "f.py", &[]).text.contains("eliding"));
    desk.set("USE_FILEMAP", "true");
    let shown = call(&desk, "view", "f.py", &[]).text;
    assert!(
        shown.contains("\n     4 def f():\n     5 ... eliding lines 5-2004 ...\n  2005 \n"),
        "{shown}"
    );
    assert!(shown.contains("\n  2007 def g():\n  2008     return 1\n"));
    let run = call(&desk, "view", "f.py", &["--view_range", "2006", "2008"]);
    assert_eq!(lines(&run.text), "2006| 2007|def g(): 2008|    return 1");
    desk.set("MAX_WINDOW_EXPANSION_VIEW", "5");
    let run = call(&desk, "view", "f.py", &["--view_range", "2008", "2008"]);
    assert_eq!(lines(&run.text), "2007|def g(): 2008|    return 1 2009|");
    desk.set("MAX_WINDOW_EXPANSION_EDIT_CONFIRM", "5");
    desk.write("g.py", "a = 1\n\n\ndef g():\n    b = 1\n    c = 2\n    d = 3\n    e = 4\n    f = 5\n    h = 6\n\n\ndef i():\n    pass\n");
    let run = call(
        &desk,
        "str_replace",
        "g.py",
        &["--old_str", "h = 6", "--new_str", "h = 7"],
    );
    assert!(
        lines(&run.text).starts_with("4|def g(): 5|"),
        "{}",
        run.text
    );
    desk.set("USE_LINTER", "true");
    let run = call(
        &desk,
        "str_replace",
        "g.py",
        &["--old_str", "h = 7", "--new_str", "h = (7"],
    );
    assert_eq!(
        (run.code, run.text.contains("<ERRORS>\n- line 1")),
        (0, true),
        "{}",
        run.text
    );
    assert!(desk.read("g.py").contains("h = (7"));
}
