//! Methods of Python's texts and lists that minijinja's own compatibility layer lacks, or has with
//! other rules for white space and line ends.

use minijinja::value::{Kwargs, Rest, Tuple, ValueKind, from_args};
use minijinja::{Error, State, Value};
use minijinja_contrib::pycompat::unknown_method_callback;
use mswea_python::{is_space, splitlines};

use crate::args::{bind, flag, given_text, int, invalid, items, length, text};
use crate::filters::{capitalize, centered};
use crate::python::is_printable;

/// Called for every method that a value itself does not have.
pub(crate) fn unknown_method(
    state: &mut State,
    value: &Value,
    method: &str,
    args: &[Value],
) -> Result<Value, Error> {
    let own =
        match (value.as_str(), value.kind()) {
            (Some(text), _) => str_method(text, method, args)?,
            (None, ValueKind::Seq) if method == "index" => {
                let (wanted,): (Value,) = from_args(args)?;
                let found = items(value)?.iter().position(|item| *item == wanted);
                Some(found.map(Value::from).ok_or_else(|| {
                    invalid("the list does not have the value that `index` searches")
                })?)
            }
            (None, ValueKind::Seq | ValueKind::Map) if method == "copy" => Some(value.clone()),
            _ => None,
        };
    match own {
        Some(value) => Ok(value),
        None => unknown_method_callback(state, value, method, args),
    }
}

/// `None` for a method that is not implemented here.
fn str_method(source: &str, method: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    let (args, kwargs): (Rest<Value>, Kwargs) = from_args(args)?;
    let one = |name| {
        let [given] = bind([name], &args, &kwargs)?;
        given
            .map(|given| given_text(&given).map(str::to_owned))
            .transpose()
    };
    let needed =
        |given: Option<String>| given.ok_or_else(|| invalid(format!("`{method}` takes a text")));
    Ok(Some(match method {
        "split" | "rsplit" => {
            let [separator, limit] = bind(["sep", "maxsplit"], &args, &kwargs)?;
            let limit = usize::try_from(int(limit, -1)?).unwrap_or(usize::MAX);
            let separator = separator.map(|it| text(Some(it), "")).transpose()?;
            if separator.as_deref() == Some("") {
                return Err(invalid(
                    "the separator is empty; use `|list` to get the characters",
                ));
            }
            split(source, separator.as_deref(), limit, method == "rsplit")
                .into_iter()
                .map(Value::from)
                .collect()
        }
        "splitlines" => {
            let [keep] = bind(["keepends"], &args, &kwargs)?;
            let lines = splitlines(source, flag(keep));
            lines.into_iter().map(Value::from).collect()
        }
        "strip" | "lstrip" | "rstrip" => {
            let set = one("chars")?;
            let matches = |char: char| {
                set.as_ref()
                    .map_or_else(|| is_space(char), |set| set.contains(char))
            };
            Value::from(match method {
                "strip" => source.trim_matches(matches),
                "lstrip" => source.trim_start_matches(matches),
                _ => source.trim_end_matches(matches),
            })
        }
        "index" | "rindex" | "find" | "rfind" | "count" => {
            let [part, start, end] = bind(["sub", "start", "end"], &args, &kwargs)?;
            let part = text(part, "")?;
            let (offset, range) = window(source, int(start, 0)?, int(end, i64::MAX)?);
            let found = match method {
                "count" => return Ok(Some(Value::from(range.matches(&part).count()))),
                "index" | "find" => range.find(&part),
                _ => range.rfind(&part),
            };
            match found {
                Some(at) => Value::from(offset + range[..at].chars().count()),
                None if method.ends_with("find") => Value::from(-1),
                None => {
                    let message = format!("`{part}` is not in the text; use `find` to get -1 then");
                    return Err(invalid(message));
                }
            }
        }
        "startswith" | "endswith" => {
            let [part, start, end] = bind(["prefix", "start", "end"], &args, &kwargs)?;
            let part = part.ok_or_else(|| invalid(format!("`{method}` takes a text")))?;
            let parts = match part.is_tuple() {
                true => items(&part)?,
                false => vec![part],
            };
            let (_, range) = window(source, int(start, 0)?, int(end, i64::MAX)?);
            let mut found = false;
            for part in &parts {
                let part = given_text(part)?;
                found |= match method {
                    "startswith" => range.starts_with(part),
                    _ => range.ends_with(part),
                };
            }
            Value::from(found)
        }
        "join" => {
            let [parts] = bind(["iterable"], &args, &kwargs)?;
            let parts = items(&parts.unwrap_or(Value::UNDEFINED))?;
            let parts: Option<Vec<&str>> = parts.iter().map(Value::as_str).collect();
            let parts =
                parts.ok_or_else(|| invalid("`join` takes texts; `|join` takes anything"))?;
            Value::from(parts.join(source))
        }
        "title" => {
            let mut in_word = false;
            let letters = source.chars().map(|char| {
                let letter = match in_word {
                    true => char.to_lowercase().to_string(),
                    false => char.to_uppercase().to_string(),
                };
                in_word = char.is_uppercase() || char.is_lowercase();
                letter
            });
            Value::from(letters.collect::<String>())
        }
        "capitalize" => Value::from(capitalize(source)),
        "casefold" => {
            let folded: String = source.chars().flat_map(char::to_uppercase).collect();
            Value::from(folded.to_lowercase())
        }
        "swapcase" => {
            let swapped = source.chars().map(|char| match char.is_uppercase() {
                true => char.to_lowercase().to_string(),
                false => char.to_uppercase().to_string(),
            });
            Value::from(swapped.collect::<String>())
        }
        "expandtabs" => {
            let [size] = bind(["tabsize"], &args, &kwargs)?;
            Value::from(without_tabs(source, length(size, 8)?))
        }
        "isdecimal" => {
            Value::from(!source.is_empty() && source.chars().all(|char| char.is_ascii_digit()))
        }
        "isidentifier" => {
            let word = |char: char| char == '_' || char.is_alphanumeric();
            let begins = source.starts_with(|char: char| word(char) && !char.is_numeric());
            Value::from(begins && source.chars().all(word))
        }
        "isprintable" => Value::from(source.chars().all(is_printable)),
        "partition" | "rpartition" => {
            let separator = needed(one("sep")?)?;
            let parts = match method {
                "partition" => source
                    .split_once(&separator)
                    .map_or([source, "", ""], |(head, tail)| [head, &separator, tail]),
                _ => source
                    .rsplit_once(&separator)
                    .map_or(["", "", source], |(head, tail)| [head, &separator, tail]),
            };
            Value::from(Tuple::from(parts.map(Value::from)))
        }
        "removeprefix" => {
            let prefix = needed(one("prefix")?)?;
            Value::from(source.strip_prefix(&*prefix).unwrap_or(source))
        }
        "removesuffix" => {
            let suffix = needed(one("suffix")?)?;
            Value::from(source.strip_suffix(&*suffix).unwrap_or(source))
        }
        "center" | "ljust" | "rjust" | "zfill" => {
            let [width, fill] = bind(["width", "fillchar"], &args, &kwargs)?;
            Value::from(padded(
                source,
                method,
                length(width, 0)?,
                &text(fill, " ")?,
            )?)
        }
        _ => return Ok(None),
    }))
}

fn split<'t>(text: &'t str, separator: Option<&str>, limit: usize, last: bool) -> Vec<&'t str> {
    let mut parts = Vec::new();
    let mut rest = Some(match (separator, last) {
        (Some(_), _) => text,
        (None, false) => text.trim_start_matches(is_space),
        (None, true) => text.trim_end_matches(is_space),
    });
    while let Some(text) = rest.filter(|text| separator.is_some() || !text.is_empty()) {
        let found = match (separator, last) {
            _ if parts.len() == limit => None,
            (Some(separator), false) => text.split_once(separator),
            (Some(separator), true) => text.rsplit_once(separator),
            (None, false) => text
                .split_once(is_space)
                .map(|(head, tail)| (head, tail.trim_start_matches(is_space))),
            (None, true) => text
                .rsplit_once(is_space)
                .map(|(head, tail)| (head.trim_end_matches(is_space), tail)),
        };
        let (part, others) = match (found, last) {
            (Some((head, tail)), false) => (head, Some(tail)),
            (Some((head, tail)), true) => (tail, Some(head)),
            (None, _) => (text, None),
        };
        parts.push(part);
        rest = others;
    }
    if last {
        parts.reverse();
    }
    parts
}

fn padded(text: &str, method: &str, width: usize, fill: &str) -> Result<String, Error> {
    let mut chars = fill.chars();
    let (Some(fill), None) = (chars.next(), chars.next()) else {
        return Err(invalid("the fill character must be exactly one character"));
    };
    let missing = width.saturating_sub(text.chars().count());
    let pad = |char| std::iter::repeat_n(char, missing).collect::<String>();
    Ok(match method {
        "center" => centered(text, width, fill),
        "ljust" => format!("{text}{}", pad(fill)),
        "rjust" => format!("{}{text}", pad(fill)),
        _ => {
            let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
            let sign = &text[..text.len() - digits.len()];
            format!("{sign}{}{digits}", pad('0'))
        }
    })
}

/// `text[start:end]`, and the number of characters before it.
fn window(text: &str, start: i64, end: i64) -> (usize, &str) {
    if start == 0 && end == i64::MAX {
        return (0, text);
    }
    let length = text.chars().count();
    let place = |at: i64| {
        let many = usize::try_from(at.unsigned_abs()).unwrap_or(usize::MAX);
        if at < 0 {
            length.saturating_sub(many)
        } else {
            many.min(length)
        }
    };
    let byte = |at: usize| {
        text.char_indices()
            .nth(at)
            .map_or(text.len(), |(byte, _)| byte)
    };
    let (start, end) = (place(start), place(end));
    (start, &text[byte(start)..byte(end.max(start))])
}

fn without_tabs(text: &str, size: usize) -> String {
    let mut out = String::with_capacity(text.len());
    let mut column = 0;
    for char in text.chars() {
        match char {
            '\t' => {
                let width = size.saturating_sub(column % size.max(1));
                out.extend(std::iter::repeat_n(' ', width));
                column += width;
            }
            '\n' | '\r' => {
                out.push(char);
                column = 0;
            }
            _ => {
                out.push(char);
                column += 1;
            }
        }
    }
    out
}
