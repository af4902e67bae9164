//! Files of odd kinds, and two tools at once.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};

use serde_json::Value;

use crate::desk::{Desk, exists};

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

#[test]
fn a_file_without_permission_is_named() {
    let desk = Desk::bare();
    let file = desk.write("f", "a\n");
    desk.good(&["open", "f"]);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o000)).unwrap();
    if fs::File::open(&file).is_ok() {
        eprintln!("SKIPPED: root may read everything");
        return;
    }
    for words in [&["open", "f"][..], &["edit", "1:1", "x"]] {
        let run = desk.run(words);
        assert_eq!(
            (run.code, run.text.contains("no permission")),
            (1, true),
            "{}",
            run.text
        );
    }
    fs::set_permissions(&file, fs::Permissions::from_mode(0o444)).unwrap();
    assert_eq!(desk.run(&["edit", "1:1", "x"]).code, 1);
    assert_eq!(desk.read("f"), "a\n");
    assert!(exists(&file));
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
