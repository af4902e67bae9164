//! Calls that are written in the text: in tags, in a JSON object.

use super::calls::with;
use super::*;

#[test]
fn calls_in_tags() {
    let ran = |thought: &str, command: &str| both(thought, command);
    for (text, ours, theirs) in [
        (
            "I look.\n[bash]\n{command}ls -l{/}\n[/]\n",
            ran("I look.", "ls -l"),
            None,
        ),
        ("[execute_bash]\n{command}ls{/}[/]", ran("", "ls"), None),
        ("[finish]\n[/]", ran("", "submit"), None),
        (
            "[bash]\n{command}\nls\n\n{/}[/]",
            ran("", "ls\n".trim_end()),
            None,
        ),
        (
            "[edit]\n{start}1{/}{end}2{/}{text}\n\na\n\n{/}[/]",
            ran("", "edit 1:2 << 'end_of_edit'\n\na\n\nend_of_edit"),
            Some(ran("", "edit 1:2 << 'end_of_edit'\n\na\nend_of_edit")),
        ),
        (
            "[str_replace_editor]\n{command}view{/}\n{path}/a b{/}\n{view_range}[1, 10]{/}\n[/]",
            ran("", "str_replace_editor view '/a b'  --view_range 1 10"),
            None,
        ),
        (
            "[str_replace_editor]\n{command}view{/}{path}/a{/}{view_range}[1, -1]{/}[/]",
            ran("", "str_replace_editor view /a  --view_range 1 -1"),
            Some(wrong("invalid_arg")),
        ),
        (
            "[str_replace_editor]\n{command}view{/}{path}/a{/}{view_range}1 2{/}[/]",
            wrong("invalid_arg"),
            None,
        ),
        (
            "[str_replace_editor]\n{command}view{/}{path}/a{/}{view_range}[01, 2]{/}[/]",
            wrong("invalid_arg"),
            None,
        ),
        ("[submit][/]", ran("", "submit"), Some(wrong("missing"))),
        (
            "[bash]\n{command}a{/}[/]\n[bash]\n{command}b{/}[/]",
            ran(
                "<function=bash>\n<parameter=command>b</parameter></function>",
                "a",
            ),
            None,
        ),
        ("[nope]\n[/]", wrong("invalid_command"), None),
        ("[bash]\n[/]", wrong("missing_arg"), None),
        (
            "[bash]\n{command}a{/}{x}b{/}[/]",
            wrong("unexpected_arg"),
            None,
        ),
        // Tests of this project.
        ("", wrong("missing"), None),
        ("[bash]\n{command}a{/}", wrong("missing"), None),
        ("[bash]\n{command}a[/]", wrong("missing_arg"), None),
        ("<function=>\n[/]", wrong("missing"), None),
        ("<function=", wrong("missing"), None),
        ("[ bash ]\n{command}a{/}[/]", ran("", "a"), None),
        (
            "[bash]\n{ command }a{/}[/]",
            ran("", "a"),
            Some(wrong("missing_arg")),
        ),
        ("[bash]\n{command}a{/}{command}b{/}[/]", ran("", "b"), None),
        (
            "<function=x [bash]\n{command}a{/}[/]",
            wrong("invalid_command"),
            None,
        ),
        (
            "<function= <b>x [bash]\n{command}a{/}[/]",
            wrong("invalid_command"),
            Some(ran("<function= <b>x", "a")),
        ),
        (
            "[bash]\n{command}echo '[/]'{/}[/]",
            ran("", "echo '</function>'"),
            Some(wrong("missing_arg")),
        ),
        (
            "[bash]\r\n{command}\r\nls\r\n{/}\r\n[/]",
            ran("", "ls"),
            Some(wrong("missing")),
        ),
        (
            "[edit]\n{start}1{/}{end}2{/}{text}a{/}{end_of_edit}{/}[/]",
            ran("", "edit 1:2 << 'end_of_edit'\na\nend_of_edit"),
            None,
        ),
    ] {
        let tags = |text: &str| {
            text.replace("[/]", "</function>")
                .replace("{/}", "</parameter>")
        };
        let text = tags(text);
        let text = open_tags(&text);
        for compat in [false, true] {
            let expected = theirs.clone().filter(|_| compat).unwrap_or(ours.clone());
            let found = found(&mut with("xml_function_calling", compat), reply_text(&text));
            assert_eq!(found, expected, "{text:?}, {compat}");
        }
    }
}

/// `[name]` and `{name}` as opening tags; a range in brackets stays.
fn open_tags(text: &str) -> String {
    let mut tags = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['[', '{']) {
        tags.push_str(&rest[..at]);
        let close = if rest[at..].starts_with('[') {
            ']'
        } else {
            '}'
        };
        let end = at + rest[at..].find(close).expect("it is closed");
        let inner = &rest[at + 1..end];
        match (close, inner.contains(',')) {
            (']', true) => tags.push_str(&format!("[{inner}]")),
            (']', false) => tags.push_str(&format!("<function={inner}>")),
            _ => tags.push_str(&format!("<parameter={inner}>")),
        }
        rest = &rest[end + 1..];
    }
    tags + rest
}

/// The parser has no tools for the model.
#[test]
fn only_one_parser_has_tools() {
    for kind in ["xml_function_calling", "json", "action"] {
        assert!(with(kind, false).tools().is_empty());
    }
}

#[test]
fn json_objects() {
    for (text, ours, theirs) in [
        // The reference's vectors.
        (
            r#"{"thought":"t","command":{"name":"ls","arguments":{"a":"x","b":"y","c":"z"}}}"#,
            both("t", "ls x y z"),
            None,
        ),
        (
            r#"{"thought":"t","command":{"name":"ls"}}"#,
            both("t", "ls"),
            None,
        ),
        (
            r#"{"thought":"t","command":{"name":"head","arguments":{"n":3}}}"#,
            both("t", "head 3"),
            None,
        ),
        (
            r#"{"thought":"t","command":{"name":"goto_file","arguments":{"path":"a b.py","line_number":3}}}"#,
            both("t", "goto_file 'a b.py' 3"),
            None,
        ),
        (
            r#"{"thought":"t","command":{"name":"goto_file","arguments":{"path":"a"}}}"#,
            both("t", "goto_file a"),
            None,
        ),
        ("[]", wrong("invalid_json"), None),
        (r#"{"command":{"name":"ls"}}"#, wrong("missing_key"), None),
        (
            r#"{"thought":"t","command":"ls"}"#,
            wrong("missing_key"),
            None,
        ),
        (
            r#"{"thought":"t","command":{}}"#,
            wrong("missing_key"),
            None,
        ),
        ("```json\n{}\n```", wrong("invalid_json"), None),
        (
            r#"{"thought":"t","command":{"name":"goto_file","arguments":{"path":"a","x":1}}}"#,
            both("t", "goto_file a"),
            None,
        ),
        // Tests of SWE-agent's repository.
        (
            r#"{"thought": "List files", "command": {"name": "ls", "arguments": {"path": "."}}}"#,
            both("List files", "ls ."),
            None,
        ),
        ("Not a JSON", wrong("invalid_json"), None),
        (
            r#"{"thought": "Missing command key"}"#,
            wrong("missing_key"),
            None,
        ),
        // Tests of this project.
        ("", wrong("invalid_json"), None),
        (
            r#"{"thought":"t","command":{"name":"bash","arguments":{"command":"ls | wc"}}}"#,
            both("t", "ls | wc"),
            None,
        ),
        (
            r#"{"thought":["t"],"command":{"name":"ls"}}"#,
            both(r#"["t"]"#, "ls"),
            None,
        ),
        (
            r#"{"thought":"t","command":{"name":5}}"#,
            wrong("missing_key"),
            None,
        ),
        (
            r#"{"thought":"t","command":{"name":"ls","arguments":null}}"#,
            both("t", "ls"),
            None,
        ),
        (
            r#"{"thought":"t","command":{"name":"ls","arguments":[]}}"#,
            wrong("invalid_arg"),
            None,
        ),
        (
            r#"{"thought":"t","command":{"name":"ls","arguments":{"a":{}}}}"#,
            wrong("invalid_arg"),
            None,
        ),
        (
            r#"{"thought":"t","command":{"name":"ls","arguments":{"a":null,"b":true}}}"#,
            both("t", "ls True"),
            None,
        ),
        (
            r#"{"thought":"t","command":{"name":"goto_file","arguments":{}}}"#,
            wrong("missing_arg"),
            None,
        ),
        (
            r#"{"thought":"t","command":{"name":"goto_file","arguments":{"path":"a","line_number":null}}}"#,
            both("t", "goto_file a"),
            Some(both("t", "goto_file a None")),
        ),
    ] {
        for compat in [false, true] {
            let expected = theirs.clone().filter(|_| compat).unwrap_or(ours.clone());
            let found = found(&mut with("json", compat), reply_text(text));
            assert_eq!(found, expected, "{text}, {compat}");
        }
    }
}

#[test]
fn without_a_shell_json_runs_what_the_table_has() {
    let text = r#"{"thought":"t","command":{"name":"rm"}}"#;
    for (compat, expected) in [(false, wrong("invalid_command")), (true, both("t", "rm"))] {
        let config = json!({ "type": "json", "bash_tool": false, "compat": compat });
        assert_eq!(found(&mut parser(&config), reply_text(text)), expected);
    }
}
