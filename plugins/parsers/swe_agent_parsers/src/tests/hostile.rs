//! Hostile replies: the parsers do not panic, do not take long, and return the same result twice.

use std::time::{Duration, Instant};

use super::*;
use mswea_sdk::testing::reply_calls;

const KINDS: [&str; 11] = [
    "function_calling",
    "thought_action",
    "edit_format",
    "xml_thought_action",
    "xml_function_calling",
    "json",
    "action",
    "action_only",
    "identity",
    "all_bash_code_blocks",
    "single_bash_code_block",
];

fn every_parser() -> Vec<SweAgentParser> {
    let commands = json!([
        { "name": "edit", "end_name": "E", "signature": "edit <a>\n<b>\nE", "arguments": [
            { "name": "a", "type": "string", "required": true },
            { "name": "b", "type": "array", "required": true },
        ] },
        { "name": "put", "end_name": "P" },
    ]);
    let mut parsers = Vec::new();
    for kind in KINDS {
        for compat in [false, true] {
            parsers.push(parser(&json!({
                "type": kind, "compat": compat, "commands": commands,
            })));
        }
    }
    parsers
}

struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }
}

#[test]
fn random_texts() {
    let pieces = [
        "```",
        "```bash\n",
        "\n",
        "\r\n",
        " ",
        "\t",
        "ls",
        "````",
        "<command>",
        "</command>",
        "<function=",
        "edit",
        ">",
        "</function>",
        "<parameter=a>",
        "<parameter=",
        "</parameter>",
        "<<",
        "<<-",
        "'",
        "\"",
        "\\",
        "E",
        "P",
        "\nE\n",
        "put",
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "\"thought\"",
        "\"command\"",
        "\"name\"",
        "\"arguments\"",
        "1",
        "null",
        "é",
        "\u{1c}",
        "\u{feff}",
        "\0",
        "😀",
        "#",
        "\\ud800",
    ];
    let mut random = Random(1);
    let mut parsers = every_parser();
    let mut good = 0;
    for _ in 0..6_000 {
        let mut text = String::new();
        for _ in 0..=random.below(24) {
            text.push_str(pieces[random.below(pieces.len())]);
        }
        for parser in &mut parsers {
            let mut reply = reply_calls(&[("1", "edit", &text)]);
            reply.message.content = reply_text(&text).message.content;
            let first = parser.parse(reply.clone());
            assert_eq!(first, parser.parse(reply), "{text:?}");
            if let Ok(Outcome::Actions(_)) = first {
                good += 1;
            }
        }
    }
    assert!(
        good > 20_000,
        "only {good} actions: the generator is no good"
    );
}

#[test]
fn random_bytes() {
    let mut random = Random(2);
    let mut parsers = every_parser();
    for _ in 0..2_000 {
        let bytes: Vec<u8> = (0..random.below(40))
            .map(|_| random.below(256) as u8)
            .collect();
        let text = String::from_utf8_lossy(&bytes);
        for parser in &mut parsers {
            let mut reply = reply_calls(&[("1", "bash", &text)]);
            reply.message.content = reply_text(&text).message.content;
            assert!(parser.parse(reply).is_ok(), "{text:?}");
        }
    }
}

#[test]
fn deep_json() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let deep = format!("{}1{}", open.repeat(100_000), close.repeat(100_000));
        let reply = reply_calls(&[("1", "bash", &format!("{{\"command\":{deep}}}"))]);
        let calls = found(&mut parser(&json!({})), reply);
        assert_eq!(calls, wrong("invalid_json"));
        let text = format!(r#"{{"thought":{deep},"command":{{"name":"ls"}}}}"#);
        assert_eq!(text_in("json", false, &text), wrong("invalid_json"));
    }
}

/// A mebibyte (in an optimised build) of text that makes a search begin again at each piece takes
/// no longer than a mebibyte of other text.
#[test]
fn huge_texts() {
    // Unoptimised code is slower, and other tests run at the same time. A search that is not linear
    // would take a hundred times as long.
    let (size, limit) = match cfg!(debug_assertions) {
        true => (1 << 16, Duration::from_secs(3)),
        false => (1 << 20, Duration::from_millis(300)),
    };
    let mut parsers = every_parser();
    for piece in [
        "`",
        "```",
        "```\n",
        "```a\n",
        "````\n",
        "``` \n\n",
        "```bash\n",
        "```bash\n\n```",
        "```bash\ncat <<E\n",
        "cat <<E\n",
        "cat <<E; a <<P; b <<E\n",
        "```\ncat <<E\n```\nE\n",
        "<command>",
        "</command>",
        "<function=",
        "<function=>",
        "<function=a>",
        "<function=edit>\n",
        "<function=edit>\n<parameter=",
        "<function=edit>\n<parameter=a>",
        "<function=edit>\n<parameter=>",
        "</function>",
        "edit\n",
        "edit\nput\nE\n",
        "edit\nE\n",
        "put\nedit\nE\n",
        "\n",
        " \n",
        " ",
        "{\"a\":",
        "\"",
        "\\",
        "é",
        "😀\r\n",
    ] {
        let limit = match piece.starts_with('`') {
            true => limit / 3,
            false => limit,
        };
        let mut text = piece.repeat(size / piece.len());
        for end in ["", "\nE", "\nP"] {
            text.push_str(end);
            for (number, parser) in parsers.iter_mut().enumerate() {
                let mut reply = reply_calls(&[("1", "bash", &text)]);
                reply.message.content = reply_text(&text).message.content;
                let mut took = limit;
                // Other processes use the machine, so the fastest of a few runs counts.
                for _ in 0..5 {
                    let reply = reply.clone();
                    let start = Instant::now();
                    assert!(parser.parse(reply).is_ok());
                    took = start.elapsed();
                    if took < limit {
                        break;
                    }
                }
                let kind = KINDS[number / 2];
                assert!(
                    took < limit,
                    "{kind} took {took:?} for {piece:?} and {end:?}"
                );
            }
        }
    }
}
