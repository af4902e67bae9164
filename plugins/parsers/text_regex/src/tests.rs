//! The reference's test vectors for text parsers, and invalid configs.

use super::*;
use mswea_sdk::testing::{configure, parse, parse_commands, reply_text};

const OPEN: &str = "```mswea_bash_command";
const FENCE: &str = "```";

fn parser(config: Value) -> TextRegex {
    configure(config).expect("the config is good")
}

fn found(count: usize) -> Result<Vec<String>, String> {
    Err(format!("Expected exactly 1 action, found {count}."))
}

fn one(command: &str) -> Result<Vec<String>, String> {
    Ok(vec![command.to_owned()])
}

/// `O` stands for the opening fence, `F` for three backticks.
fn fences(text: &str) -> String {
    text.replace('O', OPEN).replace('F', FENCE)
}

#[test]
fn fenced_blocks() {
    let mut parser = parser(json!({}));
    for (text, expected) in [
        ("text\nO\nls -la\nF", one("ls -la")),
        ("O   \nls\nF", one("ls")),
        ("O\n\n\n  ls  \n\nF", one("ls")),
        ("text\r\nO\r\nls\r\nF\r\n", one("ls")),
        ("O\nls\npwd\nF", one("ls\npwd")),
        ("O\na\nF\nO\nb\nF", found(2)),
        ("nothing", found(0)),
        ("", found(0)),
        ("Fbash\nls\nF", found(0)),
        ("O\nlsF", found(0)),
        ("O ls\nF", found(0)),
        ("O\nls\n", found(0)),
        ("O\nls\n  F", found(0)),
        ("O\nF", found(0)),
        ("O\n\nF", one("")),
        ("O\ncat <<E\nF\nx\nF\nE\nF", one("cat <<E")),
        ("beforeO\nls\nFafter", one("ls")),
        ("`O\nls\nF`", one("ls")),
        (
            "O\n\u{a0}\u{2003}\u{1f}ls\u{1f}\u{2003}\u{a0}\nF",
            one("ls"),
        ),
        ("O\n\u{1c}é\u{200b}\nF", one("é\u{200b}")),
    ] {
        let reply = reply_text(&fences(text));
        assert_eq!(parse_commands(&mut parser, reply), expected, "{text:?}");
    }
}

#[test]
fn xml_tags() {
    let mut parser = parser(json!({
        "action_regex": "<mswea_bash_command>(.*?)</mswea_bash_command>",
    }));
    for (text, expected) in [
        ("Look:\n[ ls -la ]", one("ls -la")),
        ("[\nls\npwd\n]", one("ls\npwd")),
        ("[]", one("")),
        ("[a][b]", found(2)),
        ("[ls", found(0)),
        ("[a [b]", one("a <mswea_bash_command>b")),
        ("[a &amp;&lt; b]", one("a &amp;&lt; b")),
    ] {
        let text = text
            .replace('[', "<mswea_bash_command>")
            .replace(']', "</mswea_bash_command>");
        assert_eq!(
            parse_commands(&mut parser, reply_text(&text)),
            expected,
            "{text:?}"
        );
    }
}

#[test]
fn groups() {
    for (regex, text, expected) in [
        (r"\$ [^\n]+", "$ ls", one("$ ls")),
        (r"\$ ([^\n]+)", "$ ls", one("ls")),
        (r"(?i)(?:RUN) ([^\n]+)", "run ls", one("ls")),
        (r"run(?: (\w+))?!", "run!", one("")),
    ] {
        let mut parser = parser(json!({ "action_regex": regex }));
        assert_eq!(
            parse_commands(&mut parser, reply_text(text)),
            expected,
            "{regex}"
        );
    }
}

#[test]
fn a_problem_says_what_was_found() {
    let mut parser = parser(json!({ "action_regex": "<(.*?)>" }));
    let problem = parse(&mut parser, reply_text("< a ><b>")).expect_err("two commands");
    assert_eq!(problem.code, "wrong-count");
    assert_eq!(
        problem.details.as_deref(),
        Some(r#"{"actions":["a","b"],"n_actions":2,"finish_reason":"stop"}"#)
    );
}

#[test]
fn text_parts_are_joined() {
    let mut reply = reply_text("<l");
    reply
        .message
        .content
        .push(mswea_sdk::types::ContentPart::text("s>"));
    let mut parser = parser(json!({ "action_regex": "<(.*?)>" }));
    assert_eq!(parse_commands(&mut parser, reply), one("ls"));
}

/// Each of these was another match, or none, with an engine of another dialect.
#[test]
fn expressions_mean_what_they_mean_to_python() {
    for (regex, text, expected) in [
        ("F(.*?)F$", "FlsF\n", one("ls")),
        (r"\<b\>(.*?)\</b\>", "<b>ls</b>", one("ls")),
        ("F([a&&b]+)F", "Fa&bF", one("a&b")),
        ("F([^[<]+)F", "FlsF", one("ls")),
        (r"F(.*?)F\Z", "FaF FbF", one("aF Fb")),
        (r"F(.*?)F(?!\w)", "FaFb FcF", one("aFb Fc")),
        ("(?<!x)F(.*?)F", "xFaF", found(0)),
        ("{cmd}(.*?){/cmd}", "{cmd}ls{/cmd}", one("ls")),
        ("Fx{,2}(.*?)F", "FxxlsF", one("ls")),
        (r"F(?>\s*)(.*?)F", "F  lsF", one("ls")),
        (r"\106\0?(.*?)\106", "Fls", found(0)),
        (r"F(?-s:.*)F", "Fa\nbF", found(0)),
        (r"F\w+F", "Fé\u{663}F", one("Fé\u{663}F")),
    ] {
        let mut parser = parser(json!({ "action_regex": regex }));
        assert_eq!(
            parse_commands(&mut parser, reply_text(text)),
            expected,
            "{regex}"
        );
    }
}

#[test]
fn a_bad_regex_is_refused() {
    for (regex, part) in [
        ("(", "unterminated subpattern"),
        ("(a)(b)", "2 groups"),
        (r"\p{L}", r"bad escape \p"),
        ("(?<=a+)b", "fixed-width"),
        (r"\N{BULLET}", "not available here"),
    ] {
        let error = configure::<TextRegex>(json!({ "action_regex": regex }))
            .err()
            .expect("the regex is bad");
        assert_eq!(error.code, "invalid-config");
        assert!(error.message.contains(part), "{}", error.message);
        assert_eq!(
            error.extra.as_deref(),
            Some(r#"{"pointer":"/action_regex"}"#)
        );
    }
}

#[test]
fn a_search_that_would_never_end_is_an_error() {
    let mut parser = parser(json!({ "action_regex": r"(?=(?P<n>a+)+)a+(?P=n)+[bc]" }));
    let error = parser
        .parse(reply_text(&"a".repeat(50_000)))
        .expect_err("it would take years");
    assert_eq!(error.code, "too-hard");
}

/// Run with `cargo test --release -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn speed() {
    let mut parser = parser(json!({}));
    let prose = "I will look at the files first, and then decide.\n".repeat(38);
    let body = "echo 'some line of a here-document'\n".repeat(50);
    for (name, text) in [
        ("prose", format!("{prose}O\nls -la\nF")),
        ("body", format!("Go:\nO\n{body}\nF")),
        ("half", format!("{}O\n{}\nF", &prose[..1000], &body[..900])),
    ] {
        let text = fences(&text);
        let replies: Vec<_> = (0..2000).map(|_| reply_text(&text)).collect();
        let start = std::time::Instant::now();
        for reply in replies {
            assert!(parser.parse(reply).is_ok());
        }
        let each = start.elapsed() / 2000;
        println!("{name}: {} bytes, {each:?}", text.len());
    }
}
