//! Files of odd kinds, and two tools at once.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;

use serde_json::Value;

use crate::desk::Desk;

#[test]
fn bytes_that_are_no_text_stay_as_they_are() {
    let desk = Desk::bare();
    let file = desk.write("latin", b"gr\xfc\xdfe\nx\nlast \xff");
    assert!(
        desk.good(&["open", "latin"])
            .contains("1:gr\u{fffd}\u{fffd}e\n2:x\n3:last \u{fffd}")
    );
    assert_eq!(desk.run_with(&["edit_linting", "2:2"], "y\n").code, 0);
    assert_eq!(fs::read(&file).unwrap(), b"gr\xfc\xdfe\ny\nlast \xff");
    desk.write("binary", b"a\0b\n");
    let run = desk.run(&["open", "binary"]);
    assert_eq!((run.code, run.text.contains("zero bytes")), (1, true));
    desk.shell("mkfifo pipe");
    assert_eq!(desk.run(&["open", "pipe"]).code, 1);
}

#[test]
fn a_file_keeps_its_mode_its_links_and_its_owner() {
    let desk = Desk::bare();
    let file = desk.write("f", "a\n");
    desk.shell("chmod 751 f; ln -s f link; ln f hard; ln -s missing dangling");
    desk.good(&["open", "link"]);
    desk.good(&["edit", "1:1", "b"]);
    let kind = fs::metadata(&file).unwrap();
    assert_eq!((kind.mode() & 0o7777, kind.nlink()), (0o751, 2));
    assert_eq!(
        (desk.read("link"), desk.read("hard")),
        ("b\n".to_owned(), "b\n".to_owned())
    );
    assert!(desk.path("link").is_symlink());
    fs::remove_file(desk.path("hard")).unwrap();
    // As root only.
    let given = chown(&file, Some(1234), Some(4321)).is_ok();
    desk.good(&["edit", "1:1", "c"]);
    let kind = fs::metadata(&file).unwrap();
    assert_eq!(kind.mode() & 0o7777, 0o751);
    if given {
        assert_eq!((kind.uid(), kind.gid()), (1234, 4321));
    } else {
        eprintln!("SKIPPED: only root gives files away");
    }
    assert_eq!(desk.run(&["open", "dangling"]).code, 1);
    assert_eq!(desk.shell("ls -A"), "dangling\nf\nlink\n");
}

/// Runs a tool as a user who is not root: `None` if this one can't become another.
fn as_user(desk: &Desk, words: &[&str]) -> Option<(i32, String)> {
    let mut command = desk.command(words);
    if fs::metadata(desk.home("")).unwrap().uid() == 0 {
        command.uid(1234).gid(1234);
    }
    let output = command.output().ok()?;
    let text = String::from_utf8(output.stdout).unwrap();
    Some((output.status.code().unwrap(), text))
}

#[test]
fn what_a_user_may_not_do_is_named() {
    let desk = Desk::bare();
    let whole = desk.path("");
    let file = desk.write("f", "a\n");
    let folder = whole.parent().unwrap();
    for path in [folder, &desk.home(""), &whole] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    }
    let mode = |path: &std::path::Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(&file, 0o666);
    let Some((0, _)) = as_user(&desk, &["open", "f"]) else {
        eprintln!("SKIPPED: the program can't be run as another user");
        return;
    };
    // The file is root's, or in a folder that is.
    let (code, text) = as_user(&desk, &["edit", "1:1", "b"]).unwrap();
    assert_eq!((code, desk.read("f").as_str()), (0, "b\n"), "{text}");
    mode(&whole, 0o755);
    let (code, text) = as_user(&desk, &["edit", "1:1", "c"]).unwrap();
    assert_eq!((code, desk.read("f").as_str()), (0, "c\n"), "{text}");
    for (words, bits) in [
        (&["edit", "1:1", "x"][..], 0o444),
        (&["create", "new"], 0o444),
        (&["open", "f"], 0o000),
        (&["search_file", "x", "f"], 0o000),
    ] {
        mode(&file, bits);
        let (code, text) = as_user(&desk, words).unwrap();
        assert_eq!(
            (code, text.contains("no permission")),
            (1, true),
            "{words:?}: {text}"
        );
    }
    let (code, text) = as_user(&desk, &["search_dir", "c"]).unwrap();
    assert_eq!(
        (
            code,
            text.contains("(1 files or folders could not be read)")
        ),
        (0, true),
        "{text}"
    );
    mode(&file, 0o644);
    assert_eq!(desk.read("f"), "c\n");
    // The registry.
    mode(&desk.home(".swe-agent-env"), 0o600);
    mode(&desk.home(""), 0o700);
    let (code, text) = as_user(&desk, &["open", "f"]).unwrap();
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("no permission"), "{text}");
}

#[test]
fn large_files_are_shown_and_edited() {
    let desk = Desk::bare();
    let text: String = (1..=300_000)
        .map(|line| format!("{line} {}\n", "x".repeat(40)))
        .collect();
    desk.write("f", &text);
    let shown = desk.good(&["open", "f", "200000"]);
    assert!(
        shown.starts_with(
            "[File: f (300000 lines total)]\n(199982 more lines above)\n199983:199983 x"
        )
    );
    desk.good(&["edit", "200000:200000", "here"]);
    assert_eq!(desk.read("f").lines().nth(199_999), Some("here"));
    desk.write("line", "y".repeat(3_000_000));
    assert!(desk.good(&["open", "line"]).len() < 101_000);
}

#[test]
fn many_tools_at_once_lose_nothing() {
    let desk = Desk::bare();
    let children: Vec<_> = (0..40)
        .map(|number| {
            let name = format!("NAME_{number}");
            desk.command(&["_write_env", &name, "x"]).spawn().unwrap()
        })
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let values: Value =
        serde_json::from_slice(&fs::read(desk.home(".swe-agent-env")).unwrap()).unwrap();
    assert_eq!(values.as_object().unwrap().len(), 40);
}
