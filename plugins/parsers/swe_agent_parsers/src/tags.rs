//! Finds a call that is written in tags: `<function=NAME>`, parameters, `</function>`.

use std::ops::Range;

use crate::python::{Finder, strip};

const FUNCTION: &str = "<function=";
const END: &str = "</function>";
const PARAMETER: &str = "<parameter=";
const PARAMETER_END: &str = "</parameter>";

/// A call in a text.
#[derive(Debug, PartialEq)]
pub struct Call<'t> {
    /// Its range.
    pub whole: Range<usize>,
    /// The function's name.
    pub name: &'t str,
    /// Names and values, trimmed, in order.
    pub parameters: Vec<(&'t str, &'t str)>,
}

/// The first complete call in a text.
///
/// With `compat` a line break has to follow the opening tag, the call ends at the first closing
/// tag, and up to two line breaks are trimmed behind a value. Otherwise the line break is optional,
/// a closing tag in a parameter is text, and one line break is trimmed.
pub fn find_call(text: &str, compat: bool) -> Option<Call<'_>> {
    let mut opens = Finder::new(text, FUNCTION);
    let mut angles = Finder::new(text, ">");
    let mut from = 0;
    loop {
        let start = opens.next(from)?;
        let begin = start + FUNCTION.len();
        let angle = angles.next(begin)?;
        let body = angle + 1;
        if angle == begin || compat && !text[body..].starts_with('\n') {
            from = begin;
            continue;
        }
        let name = strip(&text[begin..angle]);
        let body = body + usize::from(compat);
        let (parameters, end) = match compat {
            true => {
                let end = body + text[body..].find(END)?;
                (parameters(text, body, end, compat).0, end)
            }
            false => {
                let (parameters, behind) = parameters(text, body, text.len(), compat);
                (parameters, behind + text[behind..].find(END)?)
            }
        };
        return Some(Call {
            whole: start..end + END.len(),
            name,
            parameters,
        });
    }
}

/// The parameters from `from` on, up to `until` or the end of the call, and where they end.
fn parameters(text: &str, from: usize, until: usize, compat: bool) -> (Vec<(&str, &str)>, usize) {
    let text = &text[..until];
    let mut opens = Finder::new(text, PARAMETER);
    let mut angles = Finder::new(text, ">");
    let mut closes = Finder::new(text, PARAMETER_END);
    let mut ends = Finder::new(text, END);
    let mut found = Vec::new();
    let mut behind = from;
    let mut at = from;
    while let Some(open) = opens.next(at) {
        if !compat && ends.next(behind).is_none_or(|end| end < open) {
            break;
        }
        let begin = open + PARAMETER.len();
        at = begin;
        let Some(angle) = angles.next(begin) else {
            break;
        };
        if angle == begin {
            continue;
        }
        let Some(close) = closes.next(angle + 1) else {
            break;
        };
        let (name, value) = (&text[begin..angle], &text[angle + 1..close]);
        found.push(match compat {
            true => (name, trim_as_they_do(value)),
            false => (strip(name), trim(value)),
        });
        behind = close + PARAMETER_END.len();
        at = behind;
    }
    (found, behind)
}

/// Removes the line break after the opening tag and the one before the closing tag.
fn trim(value: &str) -> &str {
    let value = value
        .strip_prefix("\r\n")
        .or_else(|| value.strip_prefix('\n'))
        .unwrap_or(value);
    value
        .strip_suffix("\r\n")
        .or_else(|| value.strip_suffix('\n'))
        .unwrap_or(value)
}

/// Python's `$` also matches before the last line break, so two of them are removed.
fn trim_as_they_do(value: &str) -> &str {
    let value = value.strip_prefix('\n').unwrap_or(value);
    let value = value.strip_suffix('\n').unwrap_or(value);
    value.strip_suffix('\n').unwrap_or(value)
}
