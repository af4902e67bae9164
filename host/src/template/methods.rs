//! Methods of Python's `str` that minijinja's own compatibility layer lacks, or has with
//! another idea of white space and line ends.

use minijinja::value::{Kwargs, from_args};
use minijinja::{Error, ErrorKind, State, Value};

use super::python::{is_space, splitlines};

/// Padding to more characters than this is refused.
const MAX_WIDTH: usize = 1 << 20;

/// Called for every method that a value does not have by itself.
pub(super) fn unknown_method(
    state: &mut State,
    value: &Value,
    method: &str,
    args: &[Value],
) -> Result<Value, Error> {
    if let Some(text) = value.as_str()
        && let Some(result) = str_method(text, method, args)
    {
        return result;
    }
    minijinja_contrib::pycompat::unknown_method_callback(state, value, method, args)
}

/// `None` for a method that is not ours.
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
        "index" | "rindex" => from_args::<(&str,)>(args).and_then(|(part,)| {
            let found = if method == "index" {
                text.find(part)
            } else {
                text.rfind(part)
            };
            match found {
                Some(offset) => Ok(Value::from(text[..offset].chars().count())),
                None => Err(invalid(format!(
                    "`{part}` is not in the text; use `find` to get -1 then"
                ))),
            }
        }),
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
            Ok(Value::from(minijinja::value::Tuple::from(
                parts.map(Value::from),
            )))
        }),
        "removeprefix" => from_args::<(&str,)>(args)
            .map(|(prefix,)| Value::from(text.strip_prefix(prefix).unwrap_or(text))),
        "removesuffix" => from_args::<(&str,)>(args)
            .map(|(suffix,)| Value::from(text.strip_suffix(suffix).unwrap_or(text))),
        "ljust" | "rjust" | "center" => pad(text, method, args),
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

fn pad(text: &str, method: &str, args: &[Value]) -> Result<Value, Error> {
    let (width, fill): (i64, Option<&str>) = from_args(args)?;
    let fill = fill.unwrap_or(" ");
    if fill.chars().count() != 1 {
        return Err(invalid(
            "the fill character must be exactly one character".to_owned(),
        ));
    }
    let total = missing(text, width)?;
    let left = match method {
        "ljust" => 0,
        "rjust" => total,
        // where CPython puts the odd one depends on the parity of the width
        _ => total / 2 + (total & 1 & usize::try_from(width).unwrap_or(0)),
    };
    Ok(Value::from(format!(
        "{}{text}{}",
        fill.repeat(left),
        fill.repeat(total - left)
    )))
}
