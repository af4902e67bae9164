//! Commands that take a text up to a line.

use super::*;

fn edited(compat: bool, text: &str) -> String {
    let mut parser = parser(&json!({
        "type": "action_only",
        "compat": compat,
        "commands": [
            { "name": "edit", "end_name": "end_of_edit" },
            { "name": "put", "end_name": "E" },
            { "name": "open" },
        ],
    }));
    match found(&mut parser, reply_text(text)) {
        Found::Both(_, command) => command,
        wrong => panic!("{wrong:?}"),
    }
}

#[test]
fn here_documents() {
    for (text, ours, theirs) in [
        (
            "edit 1:2\nfoo\nend_of_edit",
            "edit 1:2 << 'end_of_edit'\nfoo\nend_of_edit",
            None,
        ),
        (
            "edit 1:2\nfoo\nend_of_edit\nls",
            "edit 1:2 << 'end_of_edit'\nfoo\nend_of_edit\nls",
            Some("edit 1:2 << 'end_of_edit'\nfoo\nend_of_edit\n\nls"),
        ),
        (
            "edit 1:2 << 'end_of_edit'\nfoo\nend_of_edit",
            "edit 1:2 << 'end_of_edit'\nfoo\nend_of_edit",
            None,
        ),
        (
            "cd x && edit 1:2\nfoo\nend_of_edit",
            "cd x && edit 1:2 << 'end_of_edit'\nfoo\nend_of_edit",
            Some("cd x && edit 1:2\nfoo\nend_of_edit"),
        ),
        (
            "echo 'a\nedit 1:2\nb\nend_of_edit'\nend_of_edit",
            "echo 'a\nedit 1:2\nb\nend_of_edit'\nend_of_edit",
            Some("echo 'a\n\n << 'end_of_edit'\nb\nend_of_edit'\nend_of_edit"),
        ),
        (
            "ls\nedit 1:2\nfoo\nend_of_edit",
            "ls\nedit 1:2 << 'end_of_edit'\nfoo\nend_of_edit",
            Some("ls\n\nt 1:2 << 'end_of_edit'\nfoo\nend_of_edit"),
        ),
        (
            "edit 1:2\na\nend_of_edit\nedit 3:4\nb\nend_of_edit",
            "edit 1:2 << 'end_of_edit'\na\nend_of_edit\nedit 3:4 << 'end_of_edit'\nb\nend_of_edit",
            Some(
                "edit 1:2 << 'end_of_edit'\na\nend_of_edit\n << 'end_of_edit'\nedit 3:4\nb\n\
                 end_of_edit",
            ),
        ),
        // Tests of this project.
        ("ls\n", "ls\n", None),
        ("", "", None),
        (
            "edit 1:2 <<'end_of_edit'\na\nend_of_edit",
            "edit 1:2 <<'end_of_edit'\na\nend_of_edit",
            Some("edit 1:2 <<'end_of_edit' << 'end_of_edit'\na\nend_of_edit"),
        ),
        (
            "editor 1\nend_of_edit",
            "editor 1\nend_of_edit",
            Some("editor 1 << 'end_of_edit'\nend_of_edit"),
        ),
        (
            "edit 1:2\na\nend_of_edit  \n",
            "edit 1:2 << 'end_of_edit'\na\nend_of_edit\n",
            Some("edit 1:2 << 'end_of_edit'\na\nend_of_edit  \n"),
        ),
        (
            "cat > x <<'X'\nedit 1:2\na\nend_of_edit\nX",
            "cat > x <<'X'\nedit 1:2\na\nend_of_edit\nX",
            Some("cat > x <<'X'\n\n_of_edit << 'end_of_edit'\n\nX"),
        ),
        (
            "put x\nedit 1\nend_of_edit\nE\nedit 2\nend_of_edit",
            "put x << 'E'\nedit 1\nend_of_edit\nE\nedit 2 << 'end_of_edit'\nend_of_edit",
            Some("put x << 'E'\nedit 1\nend_of_edit\nE\n << 'end_of_edit'\nedit 2\nend_of_edit"),
        ),
    ] {
        assert_eq!(edited(false, text), ours, "{text:?}");
        assert_eq!(
            edited(true, text),
            theirs.unwrap_or(ours),
            "compat: {text:?}"
        );
    }
}

/// With `compat`, a command of this name ends at `None` if it has no end of its own.
#[test]
fn submit_ends_at_none() {
    let text = "submit\nx\nNone";
    for (compat, expected) in [(false, text), (true, "submit << 'None'\nx\nNone")] {
        let mut parser = parser(&json!({
            "type": "action_only",
            "compat": compat,
            "commands": [{ "name": "submit" }],
        }));
        assert_eq!(
            found(&mut parser, reply_text(text)),
            both("", expected),
            "{compat}"
        );
    }
}

#[test]
fn a_text_without_its_end_runs_nothing() {
    let command = |compat: bool| {
        json!({
            "type": "action_only",
            "compat": compat,
            "commands": [{
                "name": "edit", "end_name": "end_of_edit", "signature": "edit <start>:<end>\n<text>\nend_of_edit",
                "arguments": [
                    { "name": "start", "type": "integer", "required": true },
                    { "name": "end", "type": "integer", "required": true },
                    { "name": "text", "type": "string", "required": true },
                ],
            }],
        })
    };
    for (text, is_refused) in [
        ("edit 1:2\nrm -rf x", true),
        ("edit 1:2", true),
        ("ls\nedit 1:2\nfoo\nend_of_edi", true),
        ("edit 1:2\nfoo\nend_of_edit\nedit 3:4\nbar", true),
        ("edit 1:2\nfoo\n  end_of_edit", true),
        ("echo \"it's time\"\nedit 2:2\nrm x", true),
        ("echo it\\'s\nedit 2:2\nrm x", true),
        ("ls # it's\nedit 2:2\nrm x", true),
        ("edit 1:2\nit's\nend_of_edit\nedit 3:4\nbar", true),
        ("cat >x <<'X'\nit's\nX\nedit 3:4\nbar", true),
        ("cd x && edit 2:2\nrm x", true),
        ("cd x && edit 2:2\nfoo\nend_of_edit", false),
        ("echo '\nls; edit 1:2\n'", false),
        ("edit 1:2\nfoo\nend_of_edit", false),
        ("edit 1:2\nfoo\nend_of_edit  ", false),
        ("edit 1:2 'foo'", false),
        ("edit 1:2 <<'X'\nfoo\nX", false),
        ("edit 1:2 < file", false),
        ("cat >x <<'X'\nedit 1:2\nX", false),
        ("git commit -m '\nedit it\n'", false),
        ("echo edit 1:2", false),
    ] {
        let outcome = found(&mut parser(&command(false)), reply_text(text));
        match outcome {
            Found::Both(_, _) => assert!(!is_refused, "{text:?}"),
            other => assert!(is_refused, "{text:?}: {other:?}"),
        }
        // As there, with `compat`.
        let theirs = found(&mut parser(&command(true)), reply_text(text));
        assert!(matches!(theirs, Found::Both(..)), "{text:?}");
    }
}
