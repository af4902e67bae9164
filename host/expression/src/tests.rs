//! What Python finds, and the bounds.

use super::*;
use serde_json::Value;
use std::time::Instant;

fn expression(pattern: &str, dot_all: bool) -> Result<Expression, Mistake> {
    Expression::with(pattern, dot_all)
}

/// What is found, as `vectors/make.py all` shows it.
fn found(expression: &Expression, texts: &[&str]) -> String {
    let mut all = Vec::new();
    for (number, text) in texts.iter().enumerate() {
        let chars = |at: usize| text[..at].chars().count().to_string();
        let matches: Vec<String> = expression
            .find_all(text)
            .map(|found| {
                let found = found.expect("the search is short");
                let groups = (0..=expression.groups()).map(|group| match found.group(group) {
                    Some(range) => format!("{},{}", chars(range.start), chars(range.end)),
                    None => "-1,-1".to_owned(),
                });
                format!("[{}]", groups.collect::<Vec<_>>().join(","))
            })
            .collect();
        if !matches.is_empty() {
            all.push(format!("[{number},[{}]]", matches.join(",")));
        }
    }
    format!("[{}]", all.join(","))
}

fn digest(text: &str) -> String {
    let value = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |value, byte| {
        (value ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{value:016x}")
}

#[test]
fn everything_is_found_that_python_finds() {
    let lines = include_str!("../vectors/vectors.jsonl").lines();
    let lines: Vec<Value> = lines
        .map(|line| serde_json::from_str(line).expect("each line is JSON"))
        .collect();
    let texts = lines[0].as_array().expect("the first line has the texts");
    let texts: Vec<&str> = texts.iter().filter_map(Value::as_str).collect();
    let (mut refused, mut agreed) = (0, 0);
    for case in &lines[1..] {
        let pattern = case[0].as_str().expect("an expression");
        let dot_all = case[1]
            .as_bool()
            .expect("whether a dot matches line breaks");
        let Some(wanted) = case[2].as_str() else {
            refused += 1;
            assert!(
                expression(pattern, dot_all).is_err(),
                "{pattern} is refused"
            );
            continue;
        };
        agreed += 1;
        let compiled = expression(pattern, dot_all);
        let compiled = compiled.unwrap_or_else(|error| panic!("{pattern}: {error}"));
        let ours = found(&compiled, &texts);
        assert_eq!(digest(&ours), wanted, "{pattern} (dot: {dot_all}): {ours}");
    }
    assert!(agreed > 400 && refused > 80, "{agreed}, {refused}");
}

#[test]
fn mistakes_are_named() {
    for (pattern, wanted) in [
        ("a(b", "missing ), unterminated subpattern at position 1"),
        ("a)", "unbalanced parenthesis at position 1"),
        ("é*+*", "multiple repeat at position 3"),
        ("[a", "unterminated character set at position 0"),
        (r"\p{L}", r"bad escape \p at position 0"),
        ("(?<=a+)b", "look-behind requires fixed-width pattern"),
        (
            "a(?i)b",
            "global flags not at the start of the expression at position 1",
        ),
        ("(?(a", "missing ), unterminated name at position 3"),
        ("a\\", "bad escape (end of pattern) at position 1"),
    ] {
        let error = Expression::new(pattern).expect_err(pattern).to_string();
        assert_eq!(error, wanted, "{pattern}");
    }
    let error = Expression::new(r"\N{BULLET}").expect_err("there are no names");
    assert!(
        error.to_string().contains(r"write `\u` and four"),
        "{error}"
    );
    let deep = "(".repeat(10_000);
    assert!(Expression::new(&deep).is_err());
}

#[test]
fn begins_and_removed() {
    let of = |pattern| Expression::new(pattern).expect(pattern);
    for (pattern, text, wanted) in [
        ("b|ab", "ab", true),
        ("b", "ab", false),
        ("", "x", true),
        ("^a", "a", true),
        (r"x\Z", "x\n", false),
        ("x$", "x\n", true),
    ] {
        assert_eq!(of(pattern).begins(text), Ok(wanted), "{pattern}");
    }
    let none: Option<String> = None;
    assert_eq!(of("b").removed("aa"), Ok(none));
    assert_eq!(of("b*").removed("abbcé"), Ok(Some("acé".to_owned())));
    let all: String = (0..128_u8)
        .map(char::from)
        .chain("éß\u{2003}".chars())
        .collect();
    let found = of(&escape(&all)).find(&all).expect("it is short");
    assert_eq!(found.map(|it| it.range()), Some(0..all.len()));
}

/// Python needs years for most of these.
#[test]
fn searches_are_bounded() {
    let began = Instant::now();
    let many = |text: &str, count: usize| text.repeat(count);
    for (pattern, text) in [
        ("(a+)+$", many("a", 30_000) + "b"),
        ("(a|aa)+$", many("a", 3_000) + "b"),
        ("(?:a*)*c|d", many("a", 100_000)),
        ("(x+x+)+y|z", many("x", 5_000)),
        ("(.*)*[c]\n", many("x", 3_000)),
        (r"\s+$", many(" ", 20_000) + "x"),
        (
            &(many("(?:x?)", 30) + &many("[x]", 30) + "y|z"),
            many("x", 30),
        ),
        (".*foo|bar", many("x\n", 50_000)),
    ] {
        let compiled = Expression::new(pattern).expect(pattern);
        assert_eq!(compiled.find(&text), Ok(None), "{pattern}");
    }
    let hard = Expression::new(r"(?=(a+)+)(a+)+\1+[bc]").expect("it is good");
    assert_eq!(hard.find(&many("a", 100_000)), Err(SearchTooHard));
    assert!(began.elapsed().as_secs() < 60, "{:?}", began.elapsed());
}
