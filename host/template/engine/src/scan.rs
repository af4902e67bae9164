//! Finds the filters and tests that a template's expressions name. The engine looks them up only
//! when it executes them, and a misspelt one should be reported before a run starts.

use std::ops::Range;

/// The kind of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameUse {
    /// After `|`, or in `{% filter %}`.
    Filter,
    /// After `is` or `is not`.
    Test,
}

/// The names in the expressions of a template that compiles, in order.
pub(crate) fn uses(source: &str) -> Vec<(NameUse, Range<usize>)> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(open) = find(source, at, "{") {
        let rest = &source[open..];
        at = if rest.starts_with("{#") {
            after(source, open + 2, "#}")
        } else if rest.starts_with("{{") {
            tag(source, open + 2, "}}", &mut found)
        } else if let Some(body) = rest.strip_prefix("{%") {
            let body = body.trim_start_matches(['-', '+']).trim_start();
            if is_raw(body) {
                end_of_raw(source, open + 2)
            } else {
                tag(source, open + 2, "%}", &mut found)
            }
        } else {
            open + 1
        };
    }
    found
}

fn find(source: &str, from: usize, what: &str) -> Option<usize> {
    Some(from + source.get(from..)?.find(what)?)
}

fn after(source: &str, from: usize, what: &str) -> usize {
    find(source, from, what).map_or(source.len(), |at| at + what.len())
}

fn is_raw(body: &str) -> bool {
    body.strip_prefix("raw").is_some_and(|rest| {
        let rest = rest.trim_start().trim_start_matches(['-', '+']);
        rest.starts_with("%}")
    })
}

fn end_of_raw(source: &str, from: usize) -> usize {
    let mut at = from;
    while let Some(tag) = find(source, at, "{%") {
        at = tag + 2;
        let body = source[at..].trim_start_matches(['-', '+']).trim_start();
        if body.starts_with("endraw") {
            return after(source, at, "%}");
        }
    }
    source.len()
}

/// Scans one tag up to `close` and returns where it ends.
fn tag(source: &str, from: usize, close: &str, found: &mut Vec<(NameUse, Range<usize>)>) -> usize {
    let bytes = source.as_bytes();
    let mut at = from;
    // what the next word is
    let mut expected = None;
    let mut first = true;
    // `}}` ends a tag only outside of a map: `{{ {1: {2: 3}} }}`
    let mut braces = 0_usize;
    while at < bytes.len() {
        match bytes[at] {
            _ if braces == 0 && source[at..].starts_with(close) => return at + close.len(),
            quote @ (b'"' | b'\'') => {
                at += 1;
                while at < bytes.len() && bytes[at] != quote {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                expected = None;
            }
            b'{' => braces += 1,
            b'}' => braces = braces.saturating_sub(1),
            b'|' => expected = Some(NameUse::Filter),
            byte if byte.is_ascii_alphabetic() || byte == b'_' => {
                let start = at;
                while at < bytes.len() && (bytes[at].is_ascii_alphanumeric() || bytes[at] == b'_') {
                    at += 1;
                }
                let word = &source[start..at];
                expected = match (expected, word) {
                    (Some(NameUse::Test), "not") => Some(NameUse::Test),
                    (Some(kind), _) => {
                        found.push((kind, start..at));
                        None
                    }
                    (None, "is") => Some(NameUse::Test),
                    (None, "filter") if first && close == "%}" => Some(NameUse::Filter),
                    (None, _) => None,
                };
                first = false;
                continue;
            }
            byte if byte.is_ascii_whitespace() => {}
            b'-' | b'+' if first => {}
            _ => expected = None,
        }
        at += 1;
        // after quotes the position may be inside a character
        while !source.is_char_boundary(at.min(source.len())) {
            at += 1;
        }
    }
    source.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_names() {
        for (source, expected) in [
            ("{{ a|b }}", "b"),
            ("{{ a | b | c(1)|d }} | e {{ '|x' }}", "b c d"),
            ("{%- if a is b and c is not d %}", "?b ?d"),
            ("{% if a is  not  in b %}", "?in"),
            ("{% filter up|low %}{% endfilter %} {{ filter }}", "up low"),
            ("{# a|b #}{% raw %}{{ a|b }}{% endraw %}{{ a|c }}", "c"),
            ("{%- raw -%}{{ a|b }}{%- endraw -%}{{ a|c }}", "c"),
            ("{{ \"}}|x\" ~ 'é\\'|y'|z }}", "z"),
            ("{{ {'a': {'b': 1|f}}|g }}", "f g"),
            ("{ {a|b} } {", ""),
            ("{{ is_a|é }}", ""),
            ("{{ 'unclosed", ""),
            ("{{ 'é\\é", ""),
        ] {
            let found: Vec<String> = uses(source)
                .into_iter()
                .map(|(kind, range)| match kind {
                    NameUse::Filter => source[range].to_owned(),
                    NameUse::Test => format!("?{}", &source[range]),
                })
                .collect();
            assert_eq!(found.join(" "), expected, "{source}");
        }
    }
}
