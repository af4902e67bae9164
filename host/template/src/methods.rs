//! Methods of Python's `str` that minijinja's own compatibility layer lacks, or has with other
//! rules for white space and line ends.

use minijinja::value::{DynObject, Kwargs, Tuple, ValueKind, from_args};
use minijinja::{Error, ErrorKind, State, Value};

use super::args::{fits, items};
use super::braces::format_braces;
use super::filters::replaced;
use super::meter;
use super::objects::MapView;
use super::python::{is_printable, is_space, splitlines};
use super::text_filters::{capitalize, centered, titled};
use super::weight::same;

/// Padding to more characters than this is refused.
const MAX_WIDTH: usize = 1 << 20;

/// Called for every method that a value itself does not have.
pub(super) fn unknown_method(
    state: &mut State,
    value: &Value,
    method: &str,
    args: &[Value],
) -> Result<Value, Error> {
    match value.as_str() {
        Some(text) => meter::build(text.len() / 4)?,
        None => meter::spend(value.len().unwrap_or(0))?,
    }
    if let Some(text) = value.as_str()
        && let Some(result) = str_method(text, method, args)
    {
        return result;
    }
    if let Some(result) = collection_method(value, method, args) {
        return result;
    }
    minijinja_contrib::pycompat::unknown_method_callback(state, value, method, args)
}

/// `None` for a method that is not implemented here.
fn str_method(text: &str, method: &str, args: &[Value]) -> Option<Result<Value, Error>> {
    Some(match method {
        "split" | "rsplit" => split_args(args).map(|(separator, limit)| {
            let parts = match (separator.as_deref(), method) {
                (None, "split") => split_space(text, limit),
                (None, _) => rsplit_space(text, limit),
                (Some(separator), "split") => {
                    text.splitn(limit.saturating_add(1), separator).collect()
                }
                (Some(separator), _) => {
                    let mut parts: Vec<_> =
                        text.rsplitn(limit.saturating_add(1), separator).collect();
                    parts.reverse();
                    parts
                }
            };
            parts.into_iter().map(Value::from).collect()
        }),
        "splitlines" => from_args::<(Option<bool>, Kwargs)>(args).and_then(|(keep, kwargs)| {
            let keep = match keep {
                Some(keep) => Some(keep),
                None => kwargs.get::<Option<bool>>("keepends")?,
            };
            kwargs.assert_all_used()?;
            let lines = splitlines(text, keep.unwrap_or(false));
            Ok(lines.into_iter().map(Value::from).collect())
        }),
        "strip" | "lstrip" | "rstrip" => from_args::<(Option<&str>,)>(args).map(|(set,)| {
            let matches = |char: char| set.map_or_else(|| is_space(char), |set| set.contains(char));
            Value::from(match method {
                "strip" => text.trim_matches(matches),
                "lstrip" => text.trim_start_matches(matches),
                _ => text.trim_end_matches(matches),
            })
        }),
        "index" | "rindex" | "find" | "rfind" => {
            from_args::<(&str, Option<i64>, Option<i64>)>(args).and_then(|(part, start, end)| {
                let (offset, range) = window(text, start, end);
                let found = range.and_then(|range| {
                    let found = match method {
                        "index" | "find" => range.find(part),
                        _ => range.rfind(part),
                    };
                    found.map(|at| offset + range[..at].chars().count())
                });
                match found {
                    Some(index) => Ok(Value::from(index)),
                    None if method.ends_with("find") => Ok(Value::from(-1)),
                    None => Err(invalid(format!(
                        "`{part}` is not in the text; use `find` to get -1 then"
                    ))),
                }
            })
        }
        "count" => from_args::<(&str, Option<i64>, Option<i64>)>(args).map(|(part, start, end)| {
            let (_, range) = window(text, start, end);
            Value::from(range.map_or(0, |range| range.matches(part).count()))
        }),
        "startswith" | "endswith" => from_args::<(&Value, Option<i64>, Option<i64>)>(args)
            .and_then(|(part, start, end)| {
                let parts = match (part.as_str(), part.is_tuple()) {
                    (Some(_), _) => vec![part.clone()],
                    (None, true) => items(part)?,
                    _ => {
                        return Err(invalid(format!(
                            "`{method}` takes a text or a tuple of texts"
                        )));
                    }
                };
                let (_, range) = window(text, start, end);
                let mut found = false;
                for part in &parts {
                    let part = part
                        .as_str()
                        .ok_or_else(|| invalid("not a text".to_owned()))?;
                    found |= range.is_some_and(|range| match method {
                        "startswith" => range.starts_with(part),
                        _ => range.ends_with(part),
                    });
                }
                Ok(Value::from(found))
            }),
        "replace" => from_args::<(&str, &str, Option<i64>)>(args).and_then(|(old, new, count)| {
            replaced(text, old, new, count.unwrap_or(-1)).map(Value::from)
        }),
        "join" => from_args::<(&Value,)>(args).and_then(|(parts,)| {
            let parts = items(parts)?;
            let parts: Option<Vec<&str>> = parts.iter().map(Value::as_str).collect();
            match parts {
                Some(parts) => {
                    let all = parts.iter().map(|part| part.len() + text.len()).sum();
                    fits(all).map(|()| Value::from(parts.join(text)))
                }
                None => Err(invalid(
                    "`join` takes texts; `|join` takes anything".to_owned(),
                )),
            }
        }),
        "format" => from_args::<(&[Value], Kwargs)>(args)
            .and_then(|(args, kwargs)| format_braces(text, args, &kwargs).map(Value::from)),
        "title" => from_args::<()>(args).map(|()| Value::from(title(text))),
        "capitalize" => from_args::<()>(args).map(|()| Value::from(capitalize(text))),
        "casefold" => from_args::<()>(args).map(|()| {
            let folded = text
                .chars()
                .flat_map(char::to_uppercase)
                .collect::<String>();
            Value::from(folded.to_lowercase())
        }),
        "expandtabs" => from_args::<(Option<i64>, Kwargs)>(args).and_then(|(size, kwargs)| {
            let size = match size {
                Some(size) => size,
                None => kwargs.get::<Option<i64>>("tabsize")?.unwrap_or(8),
            };
            kwargs.assert_all_used()?;
            let tabs = text.matches('\t').count();
            let size = usize::try_from(size).unwrap_or(0);
            fits(text.len().saturating_add(tabs.saturating_mul(size)))?;
            Ok(Value::from(without_tabs(text, size)))
        }),
        "isdecimal" => from_args::<()>(args).map(|()| {
            let decimal =
                |char: char| char.is_ascii_digit() || (char.is_numeric() && is_decimal(char));
            Value::from(!text.is_empty() && text.chars().all(decimal))
        }),
        "isidentifier" => from_args::<()>(args).map(|()| {
            let mut chars = text.chars();
            let starts = chars
                .next()
                .is_some_and(|char| char == '_' || char.is_alphabetic());
            Value::from(starts && chars.all(|char| char == '_' || char.is_alphanumeric()))
        }),
        "isprintable" => {
            from_args::<()>(args).map(|()| Value::from(text.chars().all(is_printable)))
        }
        "istitle" => from_args::<()>(args).map(|()| Value::from(is_title(text))),
        "partition" | "rpartition" => from_args::<(&str,)>(args).and_then(|(separator,)| {
            if separator.is_empty() {
                return Err(invalid("the separator is empty".to_owned()));
            }
            let parts = match method {
                "partition" => text
                    .split_once(separator)
                    .map_or([text, "", ""], |(head, tail)| [head, separator, tail]),
                _ => text
                    .rsplit_once(separator)
                    .map_or(["", "", text], |(head, tail)| [head, separator, tail]),
            };
            Ok(Value::from(Tuple::from(parts.map(Value::from))))
        }),
        "removeprefix" => from_args::<(&str,)>(args)
            .map(|(prefix,)| Value::from(text.strip_prefix(prefix).unwrap_or(text))),
        "removesuffix" => from_args::<(&str,)>(args)
            .map(|(suffix,)| Value::from(text.strip_suffix(suffix).unwrap_or(text))),
        "center" => from_args::<(i64, Option<&str>)>(args).and_then(|(width, fill)| {
            let width = usize::try_from(width).unwrap_or(0);
            centered(text, width, one_char(fill)?).map(Value::from)
        }),
        "ljust" | "rjust" => pad(text, method, args),
        "zfill" => from_args::<(i64,)>(args).and_then(|(width,)| {
            let zeros = "0".repeat(missing(text, width)?);
            let (sign, digits) = match text.as_bytes().first() {
                Some(b'+' | b'-') => text.split_at(1),
                _ => ("", text),
            };
            Ok(Value::from(format!("{sign}{zeros}{digits}")))
        }),
        "swapcase" => from_args::<()>(args).map(|()| {
            let mut out = String::with_capacity(text.len());
            for char in text.chars() {
                if char.is_uppercase() {
                    out.extend(char.to_lowercase());
                } else {
                    out.extend(char.to_uppercase());
                }
            }
            Value::from(out)
        }),
        _ => return None,
    })
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}

fn split_args(args: &[Value]) -> Result<(Option<String>, usize), Error> {
    let (separator, limit, kwargs): (Option<String>, Option<i64>, Kwargs) = from_args(args)?;
    let separator = match separator {
        Some(separator) => Some(separator),
        None => kwargs.get("sep")?,
    };
    let limit = match limit {
        Some(limit) => limit,
        None => kwargs.get::<Option<i64>>("maxsplit")?.unwrap_or(-1),
    };
    kwargs.assert_all_used()?;
    if separator.as_deref() == Some("") {
        return Err(invalid(
            "the separator is empty; use `|list` to get the characters".to_owned(),
        ));
    }
    Ok((separator, usize::try_from(limit).unwrap_or(usize::MAX)))
}

fn split_space(text: &str, limit: usize) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text.trim_start_matches(is_space);
    while !rest.is_empty() {
        match rest.find(is_space) {
            Some(end) if parts.len() < limit => {
                parts.push(&rest[..end]);
                rest = rest[end..].trim_start_matches(is_space);
            }
            // without a limit the last part can't end in white space
            _ => {
                parts.push(rest);
                break;
            }
        }
    }
    parts
}

fn rsplit_space(text: &str, limit: usize) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text.trim_end_matches(is_space);
    while !rest.is_empty() {
        match rest.char_indices().rfind(|(_, char)| is_space(*char)) {
            Some((index, char)) if parts.len() < limit => {
                parts.push(&rest[index + char.len_utf8()..]);
                rest = rest[..index].trim_end_matches(is_space);
            }
            _ => {
                parts.push(rest);
                break;
            }
        }
    }
    parts.reverse();
    parts
}

/// How many characters `text` lacks to be `width` long.
fn missing(text: &str, width: i64) -> Result<usize, Error> {
    let width = usize::try_from(width).unwrap_or(0);
    if width > MAX_WIDTH {
        return Err(invalid(format!(
            "a width of {width} is too much; the limit is {MAX_WIDTH}"
        )));
    }
    Ok(width.saturating_sub(text.chars().count()))
}

fn one_char(fill: Option<&str>) -> Result<char, Error> {
    let mut chars = fill.unwrap_or(" ").chars();
    match (chars.next(), chars.next()) {
        (Some(char), None) => Ok(char),
        _ => Err(invalid(
            "the fill character must be exactly one character".to_owned(),
        )),
    }
}

fn pad(text: &str, method: &str, args: &[Value]) -> Result<Value, Error> {
    let (width, fill): (i64, Option<&str>) = from_args(args)?;
    let fill = one_char(fill)?;
    let total = missing(text, width)?;
    let left = if method == "ljust" { 0 } else { total };
    let pad = |count| std::iter::repeat_n(fill, count).collect::<String>();
    Ok(Value::from(format!(
        "{}{text}{}",
        pad(left),
        pad(total - left)
    )))
}

/// `text[start:end]`, and the number of characters before it; none if `start` is after the end.
fn window(text: &str, start: Option<i64>, end: Option<i64>) -> (usize, Option<&str>) {
    if start.is_none() && end.is_none() {
        return (0, Some(text));
    }
    let length = text.chars().count();
    let place = |at: i64| match usize::try_from(at) {
        Ok(at) => at,
        Err(_) => length.saturating_sub(usize::try_from(at.unsigned_abs()).unwrap_or(usize::MAX)),
    };
    let (start, end) = (
        start.map_or(0, place),
        end.map_or(length, place).min(length),
    );
    if start > end {
        return (start, None);
    }
    let byte = |at: usize| {
        text.char_indices()
            .nth(at)
            .map_or(text.len(), |(byte, _)| byte)
    };
    (start, Some(&text[byte(start)..byte(end)]))
}

/// `str.title`: words are runs of letters.
fn title(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut in_word = false;
    for char in text.chars() {
        let cased = char.is_uppercase() || char.is_lowercase();
        if in_word {
            out.extend(char.to_lowercase());
        } else {
            titled(char, &mut out);
        }
        in_word = cased;
    }
    out
}

fn is_title(text: &str) -> bool {
    let (mut in_word, mut found) = (false, false);
    for char in text.chars() {
        let fits = match (char.is_uppercase(), char.is_lowercase()) {
            (true, _) => !in_word,
            (_, true) => in_word,
            _ => {
                in_word = false;
                continue;
            }
        };
        if !fits {
            return false;
        }
        (in_word, found) = (true, true);
    }
    found
}

fn without_tabs(text: &str, size: usize) -> String {
    let mut out = String::with_capacity(text.len());
    let mut column = 0;
    for char in text.chars() {
        match char {
            '\t' if size > 0 => {
                let width = size - column % size;
                out.extend(std::iter::repeat_n(' ', width));
                column += width;
            }
            '\t' => {}
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

/// Digits of all scripts; fractions, circled digits and similar are no decimals.
fn is_decimal(char: char) -> bool {
    matches!(char, '\u{660}'..='\u{669}' | '\u{6f0}'..='\u{6f9}' | '\u{966}'..='\u{96f}'
        | '\u{9e6}'..='\u{9ef}' | '\u{e50}'..='\u{e59}' | '\u{ff10}'..='\u{ff19}')
}

/// Methods of lists, tuples and maps that change nothing.
fn collection_method(value: &Value, method: &str, args: &[Value]) -> Option<Result<Value, Error>> {
    Some(match (value.kind(), method) {
        (ValueKind::Seq, "index") => from_args::<(&Value,)>(args).and_then(|(wanted,)| {
            for (index, item) in items(value)?.iter().enumerate() {
                if same(item, wanted)? {
                    return Ok(Value::from(index));
                }
            }
            Err(invalid(
                "the list does not have the value that `index` searches".to_owned(),
            ))
        }),
        (ValueKind::Seq, "count") => from_args::<(&Value,)>(args).and_then(|(wanted,)| {
            let mut count = 0_usize;
            for item in &items(value)? {
                count += usize::from(same(item, wanted)?);
            }
            Ok(Value::from(count))
        }),
        (ValueKind::Seq, "copy") if !value.is_tuple() => {
            from_args::<()>(args).map(|()| value.clone())
        }
        (ValueKind::Map, "items" | "keys" | "values") => from_args::<()>(args).map(|()| {
            let pairs = value.as_object().and_then(DynObject::try_iter_pairs);
            let pairs = pairs.into_iter().flatten();
            let (name, items) = match method {
                "items" => {
                    let pair = |(key, value)| Value::from(Tuple::from([key, value]));
                    ("dict_items", pairs.map(pair).collect())
                }
                "keys" => ("dict_keys", pairs.map(|(key, _)| key).collect()),
                _ => ("dict_values", pairs.map(|(_, value)| value).collect()),
            };
            Value::from_object(MapView { name, items })
        }),
        (ValueKind::Map, "copy") => from_args::<()>(args).map(|()| value.clone()),
        _ => return None,
    })
}
