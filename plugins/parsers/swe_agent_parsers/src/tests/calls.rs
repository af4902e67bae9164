//! Tool calls, and the feedback for the model.

use super::*;
use mswea_sdk::testing::reply_calls;

/// Commands in the form of SWE-agent's bundles, with descriptions of this project.
pub fn commands() -> Value {
    let argument = |name: &str, kind: &str, required: bool| json!({ "name": name, "type": kind, "description": "x", "required": required });
    let option = |name: &str, kind: &str| {
        let mut option = argument(name, kind, false);
        option["argument_format"] = json!(format!("--{name} {{{{value}}}}"));
        option
    };
    let mut verb = argument("command", "string", true);
    verb["enum"] = json!(["view", "create", "str_replace", "insert", "undo_edit"]);
    let mut range = option("view_range", "array");
    range["items"] = json!({ "type": "integer" });
    range["argument_format"] = json!("--view_range {{value|join(' ')}}");
    json!([
        {
            "name": "str_replace_editor",
            "docstring": "Edits",
            "signature": "str_replace_editor <command> <path> [<file_text>] [<view_range>] \
                          [<old_str>] [<new_str>] [<insert_line>]\n",
            "arguments": [
                verb,
                argument("path", "string", true),
                option("file_text", "string"),
                option("old_str", "string"),
                option("new_str", "string"),
                option("insert_line", "integer"),
                range,
            ],
        },
        {
            "name": "edit",
            "signature": "edit <start>:<end>\n<text>\nend_of_edit",
            "end_name": "end_of_edit",
            "arguments": [
                argument("start", "integer", true),
                argument("end", "integer", true),
                argument("text", "string", true),
            ],
        },
        {
            "name": "open",
            "signature": "open \"<path>\" [<line_number>]",
            "arguments": [
                argument("path", "string", true),
                argument("line_number", "integer", false),
            ],
        },
        {
            "name": "goto_file",
            "signature": "goto_file <path> [<line_number>]",
            "arguments": [
                argument("path", "string", true),
                argument("line_number", "integer", false),
            ],
        },
        {
            "name": "find_file",
            "signature": "find_file <file_name> [<dir>]",
            "arguments": [
                argument("file_name", "string", true),
                argument("dir", "string", false),
            ],
        },
        {
            "name": "odd",
            "arguments": [
                {
                    "name": "upper", "type": "string", "required": false,
                    "argument_format": "{{value|upper}}",
                },
                { "name": "map", "type": "object", "required": false },
                { "name": "files", "type": "array", "required": false },
            ],
        },
        { "name": "submit" },
    ])
}

pub fn with(kind: &str, compat: bool) -> SweAgentParser {
    parser(&json!({ "type": kind, "compat": compat, "commands": commands() }))
}

/// Each row is one call: tool, arguments, the command or the error, and the result with `compat` if
/// it differs.
#[test]
fn tool_calls() {
    let ran = |command: &str| Ok(command.to_owned());
    let no = |code: &str| Err(code.to_owned());
    let editor = "str_replace_editor";
    for (name, arguments, ours, theirs) in [
        // The reference's vectors.
        (
            "bash",
            r#"{"command":"ls -l | wc; echo 'x'"}"#,
            ran("ls -l | wc; echo 'x'"),
            None,
        ),
        (
            "bash",
            r#"{"command":"echo {command}"}"#,
            ran("echo {command}"),
            None,
        ),
        ("bash", r#"{"command":5}"#, ran("5"), None),
        ("bash", "{}", no("missing_arg"), None),
        (
            "bash",
            r#"{"command":"ls","x":1}"#,
            no("unexpected_arg"),
            None,
        ),
        ("bash", "nojson", no("invalid_json"), None),
        ("bash", "[]", no("invalid_json"), None),
        ("bash", "", no("missing_arg"), Some(no("invalid_json"))),
        ("submit", "{}", ran("submit"), None),
        ("submit", "", ran("submit"), Some(no("invalid_json"))),
        ("nope", "{}", no("invalid_command"), None),
        ("", "{}", no("invalid_command"), None),
        (
            editor,
            r#"{"command":"view","path":"/a b","view_range":[1,10]}"#,
            ran("str_replace_editor view '/a b'  --view_range 1 10"),
            None,
        ),
        (
            editor,
            r#"{"command":"view","path":"/a","view_range":"[1, 50]"}"#,
            ran("str_replace_editor view /a  --view_range 1 50"),
            // Each character, the quotes included.
            Some(ran(
                "str_replace_editor view /a  --view_range ' [ 1 ,   5 0 ] '",
            )),
        ),
        (
            editor,
            r#"{"command":"str_replace","path":"/a","old_str":"it's","new_str":""}"#,
            ran(r#"str_replace_editor str_replace /a   --old_str 'it'"'"'s' --new_str ''"#),
            None,
        ),
        (
            editor,
            r#"{"command":"str_replace","path":"/a","old_str":"x","new_str":null}"#,
            ran("str_replace_editor str_replace /a   --old_str x"),
            Some(ran(
                "str_replace_editor str_replace /a   --old_str x --new_str",
            )),
        ),
        (
            editor,
            r#"{"command":"look","path":"/a"}"#,
            no("invalid_arg"),
            Some(ran("str_replace_editor look /a")),
        ),
        (
            "edit",
            r#"{"start":1,"end":3,"text":"a {x}\n  b"}"#,
            ran("edit 1:3 << 'end_of_edit'\na {x}\n  b\nend_of_edit"),
            None,
        ),
        (
            "edit",
            r#"{"start":1,"end":3,"text":"a","end_of_edit":""}"#,
            ran("edit 1:3 << 'end_of_edit'\na\nend_of_edit"),
            None,
        ),
        (
            "open",
            r#"{"path":"a b.py"}"#,
            ran("open 'a b.py'"),
            Some(ran(r#"open "'a b.py'""#)),
        ),
        (
            "open",
            r#"{"path":"a","line_number":3}"#,
            ran("open a 3"),
            Some(ran("open \"a\" 3")),
        ),
        (
            "find_file",
            r#"{"file_name":"*.py","dir":""}"#,
            ran("find_file '*.py' ''"),
            None,
        ),
        // Tests of this project.
        ("bash", r#"{"command":""}"#, ran(""), None),
        ("bash", r#"{"command":"\ud800"}"#, no("invalid_json"), None),
        ("bash", r#"{"command":"ls"}x"#, no("invalid_json"), None),
        ("bash", r#"{"command":true}"#, ran("True"), None),
        (
            "bash",
            r#"{"command":null}"#,
            no("missing_arg"),
            Some(ran("")),
        ),
        (
            "bash",
            r#"{"command":["ls"]}"#,
            no("invalid_arg"),
            Some(ran("['ls']")),
        ),
        (
            editor,
            r#"{"command":"view","path":"/a","view_range":7}"#,
            no("invalid_arg"),
            None,
        ),
        (
            editor,
            r#"{"command":"view","path":{"x":1}}"#,
            no("invalid_arg"),
            Some(ran(r#"str_replace_editor view {'x': 1}"#)),
        ),
        ("odd", r#"{"upper":"a b"}"#, ran("odd 'A B'"), None),
        (
            "odd",
            r#"{"map":{"a":"b c"}}"#,
            ran(r#"odd  '{"a":"b c"}'"#),
            Some(ran(r#"odd  {'a': 'b c'}"#)),
        ),
        ("odd", r#"{"map":"{}"}"#, ran("odd  '{}'"), None),
        (
            "odd",
            r#"{"map":"x"}"#,
            no("invalid_arg"),
            Some(ran("odd  x")),
        ),
        (
            "odd",
            r#"{"map":[]}"#,
            no("invalid_arg"),
            Some(ran("odd  []")),
        ),
        (
            "odd",
            r#"{"map":1}"#,
            no("invalid_arg"),
            Some(ran("odd  1")),
        ),
        (
            "odd",
            r#"{"files":["a b","$x",1,null]}"#,
            ran("odd   'a b' '$x' 1 null"),
            Some(ran(r#"odd   ['a b', '$x', 1, None]"#)),
        ),
        (
            "odd",
            r#"{"files":[true,[false]]}"#,
            ran("odd   True '[False]'"),
            Some(ran("odd   [True, [False]]")),
        ),
    ] {
        for compat in [false, true] {
            let mut reply = reply_calls(&[("call_1", name, arguments)]);
            reply.message.content = reply_text("I look.").message.content;
            let expected = theirs.clone().filter(|_| compat).unwrap_or(ours.clone());
            let parsed = parse(&mut with("function_calling", compat), reply);
            if let Ok(actions) = &parsed {
                assert_eq!(actions.len(), 1);
                assert_eq!(actions[0].tool_call_id.as_deref(), Some("call_1"));
                assert_eq!(
                    actions[0].extra.as_deref(),
                    Some(r#"{"thought":"I look."}"#)
                );
            }
            let parsed = parsed.map(|mut actions| actions.remove(0).command);
            let parsed = parsed.map_err(|problem| problem.code);
            assert_eq!(parsed, expected, "{name} {arguments}, {compat}");
        }
    }
}

#[test]
fn the_number_of_calls() {
    let ls = ("1", "bash", r#"{"command":"ls"}"#);
    for (calls, code, count) in [(vec![], "missing", 0), (vec![ls, ls], "multiple", 2)] {
        for compat in [false, true] {
            let mut parser = with("function_calling", compat);
            let problem = parse(&mut parser, reply_calls(&calls)).expect_err("not one");
            let details: Value =
                serde_json::from_str(&problem.details.expect("some")).expect("they are JSON");
            assert_eq!(problem.code, code);
            assert_eq!(details["num_tools"], count);
            assert_eq!(details["error_code"], code);
            assert_eq!(details["has_tool_calls"], count > 0);
        }
    }
    let ls = json!([{ "name": "ls", "docstring": "", "arguments": [] }]);
    let mut parser = parser(&json!({ "commands": ls }));
    let reply = reply_calls(&[("1", "ls", "{}")]);
    assert_eq!(found(&mut parser, reply), both("", "ls"));
}

#[test]
fn what_the_model_is_told() {
    let mut parser = with("function_calling", false);
    for (name, arguments, message) in [
        (
            "bash",
            r#"{"x":1,"command":"","y":2}"#,
            "`bash` has no arguments of these names: `x`, `y`.",
        ),
        (
            "edit",
            r#"{"end":1}"#,
            "`edit` lacks arguments: `start`, `text`.",
        ),
        (
            "bash",
            "[]",
            "The arguments of the tool call have to be a JSON object.",
        ),
        (
            "open",
            r#"{"path":[]}"#,
            "The argument `path` has to be of type string.",
        ),
    ] {
        let problem = parse(&mut parser, reply_calls(&[("1", name, arguments)]));
        assert_eq!(problem.expect_err(name).message, message);
    }
}

#[test]
fn tools() {
    let parser = with("function_calling", false);
    let tools = parser.tools();
    let names: Vec<_> = tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "bash",
            "str_replace_editor",
            "edit",
            "open",
            "goto_file",
            "find_file",
            "odd",
            "submit"
        ]
    );
    assert_eq!(
        tools[0].parameters,
        r#"{"type":"object","properties":{"command":{"type":"string","description":"The command to run"}},"required":["command"]}"#
    );
    assert_eq!(tools[7].parameters, r#"{"type":"object"}"#);
    assert_eq!(tools[7].description, "");
    let editor: Value = serde_json::from_str(&tools[1].parameters).expect("it is JSON");
    assert_eq!(editor["required"], json!(["command", "path"]));
    assert_eq!(
        editor["properties"]["command"].to_string(),
        r#"{"type":"string","description":"x","enum":["view","create","str_replace","insert","undo_edit"]}"#
    );
    assert_eq!(
        editor["properties"]["view_range"].to_string(),
        r#"{"type":"array","description":"x","items":{"type":"integer"}}"#
    );
}

/// A template that does not render is the config's fault, not the model's.
#[test]
fn a_bad_format_is_an_error() {
    let mut parser = parser(&json!({ "commands": [{ "name": "x", "arguments": [
        { "name": "a", "type": "string", "required": true, "argument_format": "{{ value | nope }}" },
    ] }] }));
    let error = parser.parse(reply_calls(&[("1", "x", r#"{"a":"b"}"#)]));
    assert_eq!(
        error.err().map(|error| error.code),
        Some("template".to_owned())
    );
}
