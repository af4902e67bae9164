//! The searches.

use crate::desk::Desk;

fn desk() -> Desk {
    let desk = Desk::bare();
    for (name, text) in [
        ("a/one.py", "import os\nvalue = os.path\nprint(value)\n"),
        ("a/two.py", "import sys\n"),
        ("a/b/one.py", "value = 2\r\nVALUE = 3\r\n"),
        ("a/.hidden/one.py", "value\n"),
        ("a/.one.py", "value\n"),
        ("a/x y.txt", "no\nthe value\nthe end"),
    ] {
        desk.write(name, text);
    }
    desk.write("a/binary", b"value\0value\n");
    desk.write("a/latin", b"gr\xfc\xdfe value\n");
    desk.shell("ln -s one.py a/link.py; ln -s . a/round");
    desk
}

/// With the folder `work` left out of the paths.
fn plain(desk: &Desk, words: &[&str]) -> String {
    let text = desk.good(words);
    text.replace(&desk.path("").display().to_string(), "")
}

#[test]
fn files_are_found() {
    let desk = desk();
    for (words, list) in [
        (
            &["one.py"][..],
            vec!["a/.hidden/one.py", "a/b/one.py", "a/one.py"],
        ),
        (&["one.py", "a/b"], vec!["a/b/one.py"]),
        (&["*.txt", "a"], vec!["a/x y.txt"]),
        (&["[!o]*.py", "."], vec!["a/.one.py", "a/two.py"]),
        (&["b/one.py"], vec!["a/b/one.py"]),
        (&["./a/t?o.py"], vec!["a/two.py"]),
        (&["nothing"], vec![]),
    ] {
        let text = plain(&desk, &[&["find_file"], words].concat());
        let found: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(found, list, "{words:?}: {text}");
    }
    assert!(
        plain(&desk, &["find_file", "one.py", "a"])
            .starts_with("Found 3 files named \"one.py\" in a:\n")
    );
    assert!(
        plain(&desk, &["find_file", "nothing"]).starts_with("No file is named \"nothing\" in ")
    );
    let run = desk.run(&["find_file", "x", "nowhere"]);
    assert_eq!(
        (run.code, run.text.as_str()),
        (1, "Directory nowhere not found")
    );
    assert_eq!(desk.run(&["find_file"]).code, 1);
}

#[test]
fn folders_are_searched() {
    let desk = desk();
    for (words, list) in [
        (
            &["value", "a"][..],
            vec![
                "a/b/one.py (1 matches)",
                "a/latin (1 matches)",
                "a/one.py (2 matches)",
                "a/x y.txt (1 matches)",
            ],
        ),
        (
            &["value$"],
            vec!["a/latin (1 matches)", "a/x y.txt (1 matches)"],
        ),
        (&["^VALUE = [0-9]$"], vec!["a/b/one.py (1 matches)"]),
        (&["print(value)"], vec!["a/one.py (1 matches)"]),
        (
            &["import os\\|import sys"],
            vec!["a/one.py (1 matches)", "a/two.py (1 matches)"],
        ),
    ] {
        let text = plain(&desk, &[&["search_dir"], words].concat());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1..lines.len() - 1], list, "{words:?}");
        assert!(lines[0].starts_with("Found ") && lines[lines.len() - 1].starts_with("End of "));
    }
    assert!(
        plain(&desk, &["search_dir", "value"]).starts_with("Found 5 matches for \"value\" in ")
    );
    assert!(
        plain(&desk, &["search_dir", "nothing", "a"])
            .starts_with("No line matches \"nothing\" in a")
    );
    // No expression: taken as it is.
    desk.write("c/x", "a[0\n");
    assert!(plain(&desk, &["search_dir", "a[0", "c"]).contains("c/x (1 matches)"));
    for number in 0..101 {
        desk.write(&format!("many/{number}"), "needle\n");
    }
    let text = plain(&desk, &["search_dir", "needle", "many"]);
    assert!(text.contains("in 101 files in many, too many"), "{text}");
    desk.shell("rm many/0");
    assert_eq!(
        plain(&desk, &["search_dir", "needle", "many"])
            .lines()
            .count(),
        102
    );
    // Below a folder whose own path is hidden, all the same.
    desk.write(".h/f", "needle\n");
    assert!(plain(&desk, &["search_dir", "needle", ".h"]).contains(".h/f (1 matches)"));
}

#[test]
fn a_file_is_searched() {
    let desk = desk();
    let run = desk.run(&["search_file", "value"]);
    assert_eq!(
        (run.code, run.text.starts_with("No file is open.")),
        (1, true)
    );
    let text = plain(&desk, &["search_file", "value", "a/one.py"]);
    assert_eq!(
        text,
        "Found 2 matches for \"value\" in a/one.py:\nLine 2:value = os.path\nLine 3:print(value)\nEnd of the matches for \"value\" in a/one.py"
    );
    desk.good(&["open", "a/b/one.py"]);
    assert!(plain(&desk, &["search_file", "= 3$"]).contains("\nLine 2:VALUE = 3\n"));
    assert!(plain(&desk, &["search_file", "nothing"]).starts_with("No line matches"));
    let needles = |count: usize| "needle\n".repeat(count);
    desk.write("f", needles(100));
    assert_eq!(
        plain(&desk, &["search_file", "needle", "f"])
            .lines()
            .count(),
        102
    );
    desk.write("f", needles(101));
    assert!(plain(&desk, &["search_file", "needle", "f"]).contains("in 101 lines of f, too many"));
    for words in [
        &["search_file"][..],
        &["search_file", ""],
        &["search_file", "x", "nowhere"],
        &["search_file", "x", "a"],
        &["search_file", "x", "a/binary"],
    ] {
        assert_eq!(desk.run(words).code, 1, "{words:?}");
    }
}
