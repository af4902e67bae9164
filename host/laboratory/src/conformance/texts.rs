//! Texts that often break programs.

/// A text with its description.
pub(super) type LabelledText = (&'static str, String);

/// Short texts.
pub(super) fn odd() -> Vec<LabelledText> {
    let controls: String = (0u8..32).chain([127]).map(char::from).collect();
    let list: &[(&str, &str)] = &[
        ("the empty text", ""),
        ("a blank", " "),
        ("a line break", "\n"),
        ("NUL", "\0"),
        ("NUL between letters", "echo a\0b"),
        ("a byte order mark", "\u{feff}echo hi"),
        (
            "text from right to left",
            "\u{202e}echo \u{5e9}\u{5dc}\u{5d5}\u{5dd}\u{202c}",
        ),
        (
            "characters beyond the basic plane",
            "echo \u{1f980}\u{1f469}\u{200d}\u{1f4bb} \u{10348}",
        ),
        (
            "U+FFFD and noncharacters",
            "a\u{fffd}b\u{fffe}c\u{ffff}d\u{10ffff}e\u{fdd0}",
        ),
        (
            "Unicode's line ends",
            "a\u{85}b\u{2028}c\u{2029}d\u{b}e\u{c}f",
        ),
        (
            "letters that change length with case",
            "\u{130}\u{df}\u{149}\u{1e9e}\u{fb03} I\u{307}",
        ),
        ("CRLF line ends", "```bash\r\necho a\r\necho b\r\n```\r\n"),
        ("lone carriage returns", "a\rb\r\rc"),
        (
            "ANSI escapes",
            "\u{1b}[31mred\u{1b}[0m\u{1b}]0;title\u{7}\u{9b}1m",
        ),
        ("an unclosed fence", "I do this:\n```bash\necho hi\n"),
        ("a fence that is only opened", "```"),
        (
            "fences within fences",
            "````md\n```bash\nls\n```\n````\n```bash\necho `date`\n```",
        ),
        (
            "fences of odd kinds",
            "~~~sh\nls\n~~~\n   ```\nx\n```mswea_bash_command\nls",
        ),
        (
            "unclosed tags",
            "<tool_call><function=bash><parameter=command>ls <![CDATA[ <!-- &lt; &#0;",
        ),
        (
            "tags in the wrong order",
            "</command>ls<command></think><think>",
        ),
        (
            "template syntax",
            "{{ x }} {% for a in b %} {# c #} ${HOME} %s %n $(( 1/0 ))",
        ),
        (
            "a JSON text with a lone surrogate",
            r#"{"command":"echo \ud800"}"#,
        ),
        (
            "a JSON text with surrogates the wrong way round",
            r#"{"command":"\udc00\ud800 \uDBFF"}"#,
        ),
        ("a JSON text with NUL", r#"{"command":"a\u0000b"}"#),
        (
            "a JSON text with a key twice",
            r#"{"command":"a","command":"b","":null}"#,
        ),
        (
            "a JSON text with numbers out of range",
            r#"{"command":1e999,"n":-0,"m":123456789012345678901234567890}"#,
        ),
        ("JSON's null", "null"),
        ("a JSON list", r#"["command", {"command": ["ls"]}]"#),
        ("a JSON text that is no object", r#""echo hi""#),
        ("broken JSON", r#"{"command": "ls"#),
        ("JSON with a text after it", r#"{"command":"ls"} trailing"#),
        ("NaN", "NaN"),
        ("backslashes and quotes", r#"\\\"'`$(\x \u \n "#),
        (
            "words of markers",
            "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\nDISCUSSION\nTHOUGHT:\n###",
        ),
        (
            "a number that is too large",
            "99999999999999999999999999999999",
        ),
        ("paths upwards", "../../../etc/passwd\n/dev/full"),
    ];
    let mut texts: Vec<LabelledText> = list.iter().map(|(l, t)| (*l, (*t).to_owned())).collect();
    texts.push(("all control characters", controls));
    texts.push((
        "a letter under a thousand accents",
        "e\u{301}".to_owned() + &"\u{316}".repeat(1000),
    ));
    texts
}

/// Long texts of about `size` bytes.
pub(super) fn huge(size: usize) -> Vec<LabelledText> {
    let fill = |unit: &str| unit.repeat(size / unit.len());
    vec![
        ("one very long line", fill("a")),
        ("very many blanks", fill(" ")),
        ("very many line breaks", fill("\n")),
        ("very many backticks", fill("`")),
        ("very many opened fences", fill("```bash\n")),
        ("very many fences", fill("```bash\nls\n```\n")),
        ("very many `<`", fill("<")),
        ("very many opened tags", fill("<a b=\"")),
        ("very many opened brackets", fill("([{")),
        ("very many quotes", fill("\"")),
        ("very many backslashes", fill("\\")),
        ("very many words", fill("word and ")),
        ("very many letters beyond ASCII", fill("\u{e9}\u{1f980}")),
        (
            "very many control characters",
            fill("\u{1}").split_off(size / 2),
        ),
        ("very many lines", fill("$ echo a line like many\r\n")),
    ]
}

/// Nested so deeply that a recursive parser overflows its stack.
pub(super) fn deep(levels: usize) -> Vec<LabelledText> {
    vec![
        (
            "JSON lists in lists, deep",
            format!(
                r#"{{"command":{}{}}}"#,
                "[".repeat(levels),
                "]".repeat(levels)
            ),
        ),
        (
            "JSON objects in objects, deep",
            format!("{}1{}", r#"{"command":"#.repeat(levels), "}".repeat(levels)),
        ),
        ("JSON lists that are never closed", "[".repeat(levels * 4)),
    ]
}
