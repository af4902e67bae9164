//! `filemap`, the registry, submissions, images.

use std::fs;

use serde_json::{Value, json};

use crate::desk::Desk;

#[test]
fn long_bodies_are_left_out() {
    let desk = Desk::bare();
    let five = "    a\n    b\n    c\n    d\n    e\n";
    desk.write("f.py", format!("def short():\n{five}\n@d\nasync def long(\n    a,\n):\n    '''Text.'''\n{five}\nclass A:\n    def m(self):\n        def inner():\n            1\n            2\n            3\n            4\n            5\n            6\n        return inner\n"));
    assert_eq!(
        desk.good(&["filemap", "f.py"]),
        "     1 def short():\n     2     a\n     3     b\n     4     c\n     5     d\n     6     e\n     7 \n     8 @d\n     9 async def long(\n    10     a,\n    11 ):\n    12 ... eliding lines 12-17 ...\n    18 \n    19 class A:\n    20     def m(self):\n    21 ... eliding lines 21-28 ...\n    22 ... eliding lines 22-27 ..."
    );
    desk.write("broken.py", "def f(:\n  x\n((((\n");
    assert!(
        desk.good(&["filemap", "broken.py"])
            .contains("     1 def f(:")
    );
    desk.write("empty.py", "");
    assert_eq!(desk.good(&["filemap", "empty.py"]), "");
    assert_eq!(desk.run(&["filemap"]).code, 2);
    assert_eq!(desk.run(&["filemap", "nothing.py"]).code, 1);
}

#[test]
fn values_are_kept() {
    let mut desk = Desk::bare();
    assert_eq!(desk.good(&["_read_env", "A"]), "");
    assert_eq!(desk.good(&["_read_env", "A", "default"]), "default");
    desk.set("A", "of the environment");
    assert_eq!(
        desk.good(&["_read_env", "A", "default"]),
        "of the environment"
    );
    assert_eq!(desk.good(&["_write_env", "A", "of the file"]), "");
    assert_eq!(desk.good(&["_read_env", "A"]), "of the file");
    desk.good(&["_write_env", "B"]);
    let file = desk.home(".swe-agent-env");
    let read = || -> Value { serde_json::from_slice(&fs::read(&file).unwrap()).unwrap() };
    assert_eq!(read(), json!({"A": "of the file", "B": ""}));
    fs::write(&file, "{\"L\": [1, \"a\"], \"T\": true, \"N\": null}").unwrap();
    assert_eq!(desk.good(&["_read_env", "L"]), "[1,\"a\"]");
    assert_eq!(desk.good(&["_read_env", "T"]), "true");
    assert_eq!(desk.good(&["_read_env", "N"]), "");
    fs::write(&file, "nonsense").unwrap();
    for words in [
        &["_read_env", "A"][..],
        &["_write_env", "A", "1"],
        &["open"],
    ] {
        let run = desk.run(words);
        assert_eq!(run.code, 1);
        assert!(run.text.contains("is not a JSON object"), "{}", run.text);
    }
    assert_eq!(fs::read(&file).unwrap(), b"nonsense");
    let other = desk.home("other/registry").display().to_string();
    desk.set("SWE_AGENT_ENV_FILE", &other);
    desk.good(&["_write_env", "A", "1"]);
    assert_eq!(fs::read_to_string(other).unwrap(), "{\"A\":\"1\"}");
}

const MARK: &str = "<<SWE_AGENT_SUBMISSION>>";

fn repository() -> Desk {
    let mut desk = Desk::bare();
    desk.shell("git init -q .; printf 'a\\n' >f; git add f; git commit -qm x");
    let root = desk.path("").display().to_string();
    desk.set("ROOT", &root);
    desk
}

fn patch(desk: &Desk) -> String {
    fs::read_to_string(desk.home("model.patch")).unwrap()
}

#[test]
fn a_submission_is_the_staged_changes() {
    let desk = repository();
    assert_eq!(desk.good(&["submit"]), MARK);
    assert_eq!(patch(&desk), "");
    desk.write("f", "b\n");
    desk.write("sub/new", "n\n");
    assert_eq!(desk.good(&["submit"]), MARK);
    assert!(patch(&desk).contains("-a\n+b\n") && patch(&desk).contains("+++ b/sub/new"));
    assert_eq!(patch(&desk), desk.shell("git diff --cached"));
    // The changes of the tests are reverted first.
    desk.shell("git commit -qm y; printf 'a\\n' >f");
    desk.write("g", "mine\n");
    let changes = desk.shell("git diff f");
    fs::write(desk.home("test.patch"), changes).unwrap();
    assert_eq!(desk.good(&["submit"]), MARK);
    assert!(
        patch(&desk).contains("mine") && !patch(&desk).contains("b/f"),
        "{}",
        patch(&desk)
    );
    // The changes can't be reverted twice, and nothing is submitted.
    let run = desk.run(&["submit"]);
    assert_eq!(
        (run.code, run.text.contains(MARK)),
        (1, false),
        "{}",
        run.text
    );
    assert!(run.text.contains("`git apply -R` failed"));
    fs::write(desk.home("test.patch"), "").unwrap();
    // An index that can't be written and a setting that breaks patches lose nothing.
    desk.write(".git/index.lock", "");
    desk.shell("git config diff.noprefix true; git config diff.external /no/such");
    assert_eq!(desk.good(&["submit"]), MARK);
    assert!(patch(&desk).contains("+++ b/g"), "{}", patch(&desk));
}

#[test]
fn without_a_repository_the_submission_is_empty() {
    let desk = Desk::bare();
    assert!(desk.good(&["submit"]).ends_with(MARK));
    assert_eq!(patch(&desk), "");
}

#[test]
fn reviews_come_first() {
    let mut desk = repository();
    desk.write("f", "b\n");
    let registry =
        json!({"SUBMIT_REVIEW_MESSAGES": ["First: {{diff}} of {{problem_statement}}", "Second"]});
    fs::write(desk.home(".swe-agent-env"), registry.to_string()).unwrap();
    desk.set("PROBLEM_STATEMENT", "the {{diff}}");
    let text = desk.good(&["submit_with_reviews"]);
    assert_eq!(text, format!("First: {} of the {{{{diff}}}}", patch(&desk)));
    assert_eq!(desk.good(&["submit_with_reviews"]), "Second");
    let text = desk.good(&["submit_with_reviews"]);
    assert_eq!(text, format!("{MARK}\n{}\n{MARK}", patch(&desk)));
    fs::write(desk.home(".swe-agent-env"), registry.to_string()).unwrap();
    assert!(desk.good(&["submit_with_reviews", "-f"]).starts_with(MARK));
    assert_eq!(desk.run(&["submit_with_reviews", "now"]).code, 2);
    fs::write(desk.home(".swe-agent-env"), "{}").unwrap();
    assert!(desk.good(&["submit_with_reviews"]).starts_with(MARK));
}

#[test]
fn changes_are_in_the_state_without_being_staged() {
    let desk = repository();
    let diff = || -> Value {
        assert_eq!(desk.good(&["_state_diff_state"]), "");
        let state = fs::read(desk.home("state.json")).unwrap();
        serde_json::from_slice::<Value>(&state).unwrap()["diff"].clone()
    };
    assert_eq!(diff(), "");
    desk.write("f", "b\n");
    desk.write("new", "n\n");
    let text = diff();
    let text = text.as_str().unwrap();
    assert!(text.contains("+b") && text.ends_with("+n"), "{text}");
    assert_eq!(desk.shell("git status --porcelain"), " M f\n?? new\n");
    assert!(!desk.home("model.patch").exists());
    desk.shell("rm -rf .git");
    assert_eq!(diff(), "");
}

#[test]
fn giving_up_is_a_mark() {
    assert_eq!(
        Desk::bare().good(&["exit_forfeit"]),
        "###SWE-AGENT-EXIT-FORFEIT###"
    );
    // The marks are not in the program, so printing it ends nothing.
    let program = fs::read(env!("CARGO_BIN_EXE_mswea-toolbox")).unwrap();
    for mark in [MARK, "###SWE-AGENT-EXIT-FORFEIT###"] {
        assert!(
            !program
                .windows(mark.len())
                .any(|part| part == mark.as_bytes())
        );
    }
}

#[test]
fn images_are_shown() {
    let desk = Desk::bare();
    desk.write("a b.png", b"\x89PNG\r\n\x1a\nrest");
    assert_eq!(
        desk.good(&["view_image", "a b.png"]),
        "![a b.png](data:image/png;base64,iVBORw0KGgpyZXN0)"
    );
    // By its content, not by its name.
    desk.write("x.png", b"\xff\xd8\xff\xe0");
    assert!(
        desk.good(&["view_image", "x.png"])
            .starts_with("![x.png](data:image/jpeg;base64,")
    );
    desk.write("y", b"RIFF....WEBPVP8 ");
    assert!(desk.good(&["view_image", "y"]).contains("image/webp"));
    desk.write("page.png", "<html>");
    desk.write(
        "large.png",
        [&b"\x89PNG\r\n\x1a\n"[..], &[0; 7_000_000]].concat(),
    );
    for (words, part) in [
        (&["view_image"][..], "Usage"),
        (&["view_image", "none.png"], "not found"),
        (&["view_image", "."], "is a directory"),
        (&["view_image", "page.png"], "not an image"),
        (&["view_image", "large.png"], "make a smaller copy"),
    ] {
        let run = desk.run(words);
        assert_eq!(
            (run.code, run.text.contains(part)),
            (1, true),
            "{words:?}: {}",
            run.text
        );
    }
}

#[test]
fn a_tool_is_named_by_the_program_or_its_first_argument() {
    let desk = Desk::bare();
    let link = desk.path("exit_forfeit");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_mswea-toolbox"), &link).unwrap();
    let output = std::process::Command::new(link).output().unwrap();
    assert_eq!(output.stdout, b"###SWE-AGENT-EXIT-FORFEIT###\n");
    for words in [&[][..], &["no_such_tool"]] {
        let run = desk.run(words);
        assert_eq!(
            (run.code, run.text.contains("The tools are: _connect, ")),
            (127, true)
        );
    }
}
