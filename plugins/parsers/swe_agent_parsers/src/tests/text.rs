//! The parsers of plain text. `F` stands for three backticks.

use super::*;
use mswea_sdk::testing::reply_calls;

fn missing() -> Found {
    wrong("missing")
}

fn fenced_rows() -> Vec<(&'static str, Found, Option<Found>)> {
    vec![
        // The reference's vectors.
        ("a\nF\nls\nF", both("a\n", "ls\n"), None),
        ("F\nls\nF\ntail", both("tail", "ls\n"), None),
        (
            "Fpython\nx\nF\nF\nls\nF",
            both("Fpython\nx\nF\n", "ls\n"),
            None,
        ),
        ("F\na\nF\nF\nb\nF", both("F\na\nF\n", "b\n"), None),
        ("F\nls", missing(), None),
        ("FlsF", missing(), None),
        ("  F\n  ls\n  F", missing(), None),
        ("~~~\nls\n~~~", missing(), None),
        ("F`\nls\nF`", missing(), None),
        ("F`\nls\nF`\n", missing(), None),
        ("Fbash ls\nls\nF", missing(), None),
        ("Fbash ls F", missing(), None),
        ("F  \nls\nF", both("", "ls\n"), None),
        ("F\r\nls\r\nF", both("", "ls\n"), Some(both("", "ls\r\n"))),
        (
            "Fbash\ncat x\nFpython\ny\nF\nF",
            both("", "cat x\nFpython\ny\nF\n"),
            None,
        ),
        (
            "F\ncat > x <<'E'\nF\ncode\nF\nE\nF",
            both("", "cat > x <<'E'\nF\ncode\nF\nE\n"),
            Some(both("F\ncat > x <<'E'\nF\ncode\n", "E\n")),
        ),
        ("F\nF", both("", ""), None),
        // Tests of SWE-agent's repository.
        (
            "Let's look at the files in the current directory.\nF\nls -l\nF",
            both(
                "Let's look at the files in the current directory.\n",
                "ls -l\n",
            ),
            None,
        ),
        ("No code block", missing(), None),
        // Tests of this project.
        ("", missing(), None),
        ("F", missing(), None),
        ("F\n", missing(), None),
        ("F\n\n\n  ls\n\nF\n\n\nb", both("b", "  ls\n\n"), None),
        ("aF\nls\nF", missing(), None),
        ("F\nls\naF", missing(), None),
        ("F\nls\nF x", missing(), None),
        ("Fbash\nls\nF   ", both("", "ls\n"), None),
        ("F\na\nF\nF", both("F", "a\n"), None),
        // A line with both fences does not open a block.
        (
            "FlsF\nF\npwd\nF",
            both("FlsF\n", "pwd\n"),
            Some(both("pwd\nF", "")),
        ),
        // Text between longer fences is not a command.
        (
            "F`md\nFbash\nls\nF\nF`\nF\npwd\nF",
            both("F`md\nFbash\nls\nF\nF`\n", "pwd\n"),
            Some(both("", "Fbash\nls\nF\nF`\nF\npwd\n")),
        ),
        ("F`\nFbash\nls\nF\n", missing(), None),
        // A here-document without an end is not treated as one.
        ("F\ncat <<E\nF\nb", both("b", "cat <<E\n"), None),
    ]
}

#[test]
fn fences() {
    check("thought_action", fenced_rows());
    check("edit_format", fenced_rows());
}

#[test]
fn the_two_of_them_ask_for_other_things() {
    for (kind, part) in [
        ("thought_action", "the command"),
        ("edit_format", "the new text"),
    ] {
        let mut parser = parser(&json!({ "type": kind }));
        let problem = parse(&mut parser, reply_text("x")).expect_err("there is no block");
        assert!(problem.message.contains(part), "{}", problem.message);
    }
}

#[test]
fn tags() {
    check(
        "xml_thought_action",
        vec![
            ("a <command> ls </command> b", both("a  b", "ls"), None),
            (
                "<command>a</command> <command>b</command>",
                both("<command>a</command>", "b"),
                None,
            ),
            (
                "<command>a<command>b</command></command>",
                both("<command>a", "b</command>"),
                None,
            ),
            (
                "</command><command>",
                missing(),
                Some(both("</command><command>", "")),
            ),
            ("<COMMAND>ls</COMMAND>", missing(), None),
            (
                "Let's look.\n<command>\nls -l\n</command>",
                both("Let's look.", "ls -l"),
                None,
            ),
            ("No command tags", missing(), None),
            ("<command>ls", missing(), None),
            ("ls</command>", missing(), None),
            ("", missing(), None),
            ("<command></command>", both("", ""), None),
            ("<command>\u{1f}é\u{a0}</command>", both("", "é"), None),
        ],
    );
}

#[test]
fn first_words() {
    let ls = json!([{ "name": "ls", "docstring": "" }]);
    for (commands, text, ours, theirs) in [
        (&ls, "ls -l", both("ls -l", "ls -l"), None),
        (&ls, "lsx", wrong("invalid_command"), None),
        (&ls, "", missing(), None),
        (&ls, " \n ", missing(), None),
        (&ls, "ls\nfoo", both("ls\nfoo", "ls\nfoo"), None),
        (&ls, "invalid command", wrong("invalid_command"), None),
        (&ls, " ls", both(" ls", " ls"), None),
        (&ls, "bash -c ls", both("bash -c ls", "bash -c ls"), None),
        // Without a table of commands, no command can be missing in it.
        (
            &json!([]),
            "pwd",
            both("pwd", "pwd"),
            Some(wrong("invalid_command")),
        ),
        (&json!([]), "", missing(), None),
    ] {
        for compat in [false, true] {
            let config = json!({ "type": "action", "commands": commands, "compat": compat });
            let expected = theirs.clone().filter(|_| compat).unwrap_or(ours.clone());
            let found = found(&mut parser(&config), reply_text(text));
            assert_eq!(found, expected, "{text:?}, {compat}");
        }
    }
}

#[test]
fn an_unknown_word_is_told_what_is_known() {
    let commands = json!([
        { "name": "ls", "docstring": "Lists", "arguments": [
            { "name": "path", "type": "string", "description": "Where", "required": true },
            { "name": "all", "type": "boolean", "required": false },
        ] },
        { "name": "edit", "end_name": "end" },
    ]);
    let mut parser = parser(&json!({ "type": "action", "commands": commands }));
    let problem = parse(&mut parser, reply_text("pwd")).expect_err("it is unknown");
    assert!(
        problem.message.contains("`bash`, `ls`, `edit`"),
        "{}",
        problem.message
    );
    let details: Value =
        serde_json::from_str(&problem.details.expect("there are some")).expect("they are JSON");
    assert_eq!(
        details["command_docs"],
        "bash:\n  docstring: Runs a command in bash\n  signature: <command>\n  arguments:\n    \
         - command (string) [required]: The command to run\n\nls:\n  docstring: Lists\n  \
         signature: ls <path> [<all>]\n  arguments:\n    - path (string) [required]: Where\n    \
         - all (boolean) [optional]: \n\nedit:\n  signature: edit\nend\n\n"
    );
}

#[test]
fn as_it_is() {
    for text in ["Return as is", "ls\n", "", "FF", "é\0"] {
        check("action_only", vec![(text, both("", text), None)]);
        check("identity", vec![(text, both(text, text), None)]);
    }
}

const TAKEN: &str = "<extracted_code_block>";

fn bash_rows() -> Vec<(&'static str, Found, Option<Found>)> {
    vec![
        (
            "a Fbash\nls\nF b",
            both("a <extracted_code_block> b", "ls"),
            None,
        ),
        ("Fbash\nlsF", missing(), None),
        ("Fsh\nls\nF", missing(), None),
        ("F\nls\nF", missing(), None),
        ("Fbash \nls\nF", missing(), None),
        ("Fbash\n\nF", both(TAKEN, ""), None),
        ("Fbash\nF", missing(), None),
        ("Fbash\nls", missing(), None),
        ("", missing(), None),
        ("Fbash\nls\n\nF", both(TAKEN, "ls\n"), None),
        (
            "Fbash\nls\nFpython",
            both("<extracted_code_block>python", "ls"),
            None,
        ),
        (
            "Fbash\ncat <<E\nF\nE\nls\nF",
            both(TAKEN, "cat <<E\nF\nE\nls"),
            Some(both("<extracted_code_block>\nE\nls\nF", "cat <<E")),
        ),
        ("Fbash\nFbash\nls\nF", both(TAKEN, "Fbash\nls"), None),
    ]
}

#[test]
fn blocks_of_bash() {
    check("all_bash_code_blocks", bash_rows());
    check("single_bash_code_block", bash_rows());
    let two = "1\nFbash\nls\nF\n2\nFbash\npwd\nF\n3";
    check(
        "all_bash_code_blocks",
        vec![(
            two,
            both(
                "1\n<extracted_code_block>\n2\n<extracted_code_block>\n3",
                "ls\npwd",
            ),
            None,
        )],
    );
    check(
        "single_bash_code_block",
        vec![(two, wrong("multiple"), None)],
    );
}

#[test]
fn two_blocks_are_told_apart_from_none() {
    let mut parser = parser(&json!({ "type": "single_bash_code_block" }));
    let text = "```bash\nls\n```\n```bash\npwd\n```";
    let two = parse(&mut parser, reply_text(text)).expect_err("there are two");
    let none = parse(&mut parser, reply_text("")).expect_err("there is none");
    assert_ne!(two.message, none.message);
    let details: Value =
        serde_json::from_str(&two.details.expect("there are some")).expect("they are JSON");
    assert_eq!(details["actions"], json!(["ls", "pwd"]));
    assert_eq!(details["n_actions"], 2);
}

/// SWE-agent's templates know codes of tool calls only.
#[test]
fn codes_for_templates() {
    for (kind, compat, code) in [
        ("thought_action", false, "missing"),
        ("thought_action", true, ""),
        ("xml_function_calling", false, "missing"),
        ("xml_function_calling", true, ""),
        ("function_calling", false, "missing"),
        ("function_calling", true, "missing"),
    ] {
        let mut parser = parser(&json!({ "type": kind, "compat": compat }));
        let problem = parse(&mut parser, reply_text("x")).expect_err("there is nothing");
        let details: Value =
            serde_json::from_str(&problem.details.expect("there are some")).expect("they are JSON");
        assert_eq!(details["error_code"], code, "{kind}, {compat}");
        assert_eq!(details["finish_reason"], "stop");
    }
}

#[test]
fn text_parsers_leave_tool_calls_alone() {
    let mut reply = reply_calls(&[("1", "bash", "{}")]);
    reply.message.content = reply_text("```\nls\n```").message.content;
    let mut parser = parser(&json!({ "type": "thought_action" }));
    assert!(parser.tools().is_empty());
    let actions = parse(&mut parser, reply).expect("there is a block");
    assert_eq!(actions[0].tool_call_id, None);
}
