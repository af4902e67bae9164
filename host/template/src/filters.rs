//! Filters of Jinja2 that minijinja lacks or implements differently. `random` and `lipsum` are left
//! out, because a replayed run must render the same text.

use std::sync::Arc;

use minijinja::value::{Kwargs, Rest, ValueKind};
use minijinja::{Environment, Error, ErrorKind, Value};

use super::args::{
    attribute, bind, defined, fits, int as whole_number, invalid, items, printed, text,
};
use super::meter;
use super::python::{is_space, to_str};
use super::tojson::tojson;

/// Adds the filters to the environment.
pub(super) fn add_to(environment: &mut Environment<'static>) {
    environment.add_filter("tojson", tojson);
    environment.add_filter("int", int);
    environment.add_filter("float", float);
    environment.add_filter("replace", replace);
    environment.add_filter("string", string);
    environment.add_filter("join", join);
    environment.add_filter("wordcount", wordcount);
    environment.add_filter("abs", abs);
    environment.add_filter("round", round);
    environment.add_filter("safe", |value: &Value| {
        printed(value).map(Value::from_safe_string)
    });
    environment.add_filter(
        "split",
        |value: &Value, separator: Option<Arc<str>>, limit: Option<i64>| {
            meter::build(value.as_str().map_or(0, str::len))?;
            minijinja::filters::split(value, separator, limit)
        },
    );
    environment.add_filter("lines", |value: &Value| {
        meter::build(value.as_str().map_or(0, str::len))?;
        minijinja::filters::lines(value)
    });
    environment.add_filter("escape", escape);
    environment.add_filter("e", escape);
}

/// `int(default=0, base=10)`: a text that is not a number gives the default.
fn int(
    value: &Value,
    default: Option<Value>,
    base: Option<u32>,
    kwargs: Kwargs,
) -> Result<Value, Error> {
    defined(value)?;
    let default = match default {
        Some(default) => Some(default),
        None => kwargs.get("default")?,
    };
    let base = match base {
        Some(base) => base,
        None => kwargs.get::<Option<u32>>("base")?.unwrap_or(10),
    };
    kwargs.assert_all_used()?;
    let default = default.unwrap_or_else(|| Value::from(0));
    if let Some(text) = value.as_str() {
        if let Some(number) = parse_int(text, base) {
            return Ok(Value::from(number));
        }
        return Ok(match parse_float(text) {
            Some(number) if number.is_finite() => whole_part(number)?,
            _ => default,
        });
    }
    match value.kind() {
        ValueKind::Bool => Ok(Value::from(i64::from(value.is_true()))),
        ValueKind::Number if value.is_integer() => Ok(value.clone()),
        ValueKind::Number => match f64::try_from(value.clone()) {
            Ok(number) if number.is_nan() => Ok(default),
            Ok(number) => whole_part(number),
            Err(_) => Ok(default),
        },
        _ => Ok(default),
    }
}

fn whole_part(number: f64) -> Result<Value, Error> {
    // beyond 2^127 the cast would saturate to a wrong number without an error
    if number.abs() >= 1.7e38 {
        return Err(Error::new(
            ErrorKind::InvalidOperation,
            "number is too large for `int`",
        ));
    }
    #[expect(clippy::cast_possible_truncation, reason = "truncation is the purpose")]
    let whole = number as i128;
    Ok(Value::from(whole))
}

/// `float(default=0.0)`.
fn float(value: &Value, default: Option<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    defined(value)?;
    let default = match default {
        Some(default) => Some(default),
        None => kwargs.get("default")?,
    };
    kwargs.assert_all_used()?;
    let number = match (value.as_str(), value.kind()) {
        (Some(text), _) => parse_float(text),
        (None, ValueKind::Bool) => Some(if value.is_true() { 1.0 } else { 0.0 }),
        (None, ValueKind::Number) => value.to_string().parse().ok(),
        _ => None,
    };
    Ok(number.map_or_else(|| default.unwrap_or_else(|| Value::from(0.0)), Value::from))
}

/// `replace(old, new, count=none)`.
fn replace(
    value: &Value,
    old: &Value,
    new: &Value,
    count: Option<i64>,
    kwargs: Kwargs,
) -> Result<String, Error> {
    for argument in [value, old, new] {
        defined(argument)?;
    }
    let count = match count {
        Some(count) => count,
        None => kwargs.get::<Option<i64>>("count")?.unwrap_or(-1),
    };
    kwargs.assert_all_used()?;
    let (text, old, new) = (to_str(value), to_str(old), to_str(new));
    replaced(&text, &old, &new, count)
}

/// `str.replace`; a count below zero means all.
pub(super) fn replaced(text: &str, old: &str, new: &str, count: i64) -> Result<String, Error> {
    let most = usize::try_from(count).unwrap_or(usize::MAX);
    meter::build(text.len())?;
    // checked only if the text can grow, because counting costs as much as replacing
    if new.len() > old.len() {
        let found = text.matches(old).take(most).count();
        fits(text.len().saturating_add(found.saturating_mul(new.len())))?;
    }
    Ok(text.replacen(old, new, most))
}

/// `string`: as Python's `str()`.
fn string(value: &Value) -> Result<Value, Error> {
    defined(value)?;
    Ok(match value.as_str() {
        Some(_) => value.clone(),
        None => Value::from(to_str(value)),
    })
}

/// `join(d='', attribute=none)`: items print as Python prints them.
fn join(value: &Value, args: Rest<Value>, kwargs: Kwargs) -> Result<String, Error> {
    let [joiner, path] = bind(["d", "attribute"], &args, &kwargs)?;
    let joiner = joiner
        .as_ref()
        .map(printed)
        .transpose()?
        .unwrap_or_default();
    let mut out = String::new();
    for (index, item) in items(value)?.iter().enumerate() {
        if index > 0 {
            out.push_str(&joiner);
        }
        match &path {
            Some(path) if !path.is_none() => out.push_str(&printed(&attribute(item, path)?)?),
            _ => out.push_str(&printed(item)?),
        }
        fits(out.len())?;
    }
    Ok(out)
}

fn abs(value: Value) -> Result<Value, Error> {
    defined(&value)?;
    match value.kind() {
        ValueKind::Bool => Ok(Value::from(i64::from(value.is_true()))),
        _ => minijinja::filters::abs(value),
    }
}

/// `round(precision=0, method='common')`
fn round(value: &Value, args: Rest<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    let [places, method] = bind(["precision", "method"], &args, &kwargs)?;
    let places = whole_number(places, 0)?;
    let method = text(method, "common")?;
    defined(value)?;
    let number = match value.kind() {
        ValueKind::Bool => f64::from(u8::from(value.is_true())),
        ValueKind::Number => f64::try_from(value.clone()).or_else(|_| {
            to_str(value)
                .parse()
                .map_err(|_| invalid("number is too large"))
        })?,
        kind => return Err(invalid(format!("`round` takes a number, not a {kind}"))),
    };
    let whole = value.is_integer() || value.kind() == ValueKind::Bool;
    let exponent = i32::try_from(places).unwrap_or(i32::MAX);
    match method.as_str() {
        // an integer stays an integer
        "common" if whole && places >= 0 => Ok(match value.kind() {
            ValueKind::Bool => Value::from(i64::from(value.is_true())),
            _ => value.clone(),
        }),
        "common" if whole => {
            let wide = i128::try_from(value.clone())?;
            let unit = 10_i128
                .checked_pow(exponent.unsigned_abs())
                .ok_or_else(|| invalid("precision is too low"))?;
            let below = wide.div_euclid(unit) * unit;
            let (rest, half) = (wide - below, unit / 2);
            let up = rest > half || (rest == half && below.div_euclid(unit) % 2 != 0);
            Ok(Value::from(if up { below + unit } else { below }))
        }
        "common" => Ok(Value::from(round_half_even(number, exponent))),
        "ceil" | "floor" => {
            let factor = 10_f64.powi(exponent);
            let scaled = number * factor;
            let scaled = if method == "ceil" {
                scaled.ceil()
            } else {
                scaled.floor()
            };
            Ok(Value::from(scaled / factor))
        }
        _ => Err(invalid(
            "`method` of `round` is 'common', 'ceil' or 'floor'",
        )),
    }
}

/// Rounded to `places` decimal places of the exact value, as Python's `round`.
fn round_half_even(number: f64, places: i32) -> f64 {
    if !number.is_finite() || places > 323 {
        return number;
    }
    if let Ok(places) = usize::try_from(places) {
        // formatting rounds the exact value, with ties to even
        return format!("{number:.places$}").parse().unwrap_or(number);
    }
    let unit = 10_f64.powi(-places);
    let scaled = number / unit;
    let rounded = scaled.round_ties_even();
    rounded * unit
}

/// `escape`: the entities of MarkupSafe.
fn escape(value: &Value) -> Result<Value, Error> {
    defined(value)?;
    if value.is_safe() {
        return Ok(value.clone());
    }
    Ok(Value::from_safe_string(escaped(&to_str(value))))
}

/// With entities in place of HTML's special characters.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\'' => out.push_str("&#39;"),
            '"' => out.push_str("&#34;"),
            _ => out.push(char),
        }
    }
    out
}

/// `wordcount`: runs of the characters that a regular expression's `\w` matches.
fn wordcount(value: &Value) -> Result<usize, Error> {
    defined(value)?;
    let text = to_str(value);
    let words = text.split(|char: char| !char.is_alphanumeric() && char != '_');
    Ok(words.filter(|word| !word.is_empty()).count())
}

/// Python's `int(text, base)`.
fn parse_int(text: &str, base: u32) -> Option<i128> {
    if !(base == 0 || (2..=36).contains(&base)) {
        return None;
    }
    let text = text.trim_matches(is_space);
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let prefix = |wanted: u32, letter: char| {
        let rest = digits.strip_prefix('0')?;
        let rest = rest.strip_prefix([letter, letter.to_ascii_uppercase()])?;
        (base == wanted || base == 0).then_some((wanted, rest.strip_prefix('_').unwrap_or(rest)))
    };
    let (base, digits) = prefix(16, 'x')
        .or_else(|| prefix(8, 'o'))
        .or_else(|| prefix(2, 'b'))
        .unwrap_or((if base == 0 { 10 } else { base }, digits));
    let digits = without_underscores(digits)?;
    if !digits.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return None;
    }
    let number = i128::from_str_radix(&digits, base).ok()?;
    Some(if negative { -number } else { number })
}

/// Python's `float(text)`.
fn parse_float(text: &str) -> Option<f64> {
    without_underscores(text.trim_matches(is_space))?
        .parse()
        .ok()
}

/// Python allows single underscores between digits.
fn without_underscores(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let digit = |index: Option<usize>| {
        index
            .and_then(|index| bytes.get(index))
            .is_some_and(u8::is_ascii_alphanumeric)
    };
    for (index, byte) in bytes.iter().enumerate() {
        if *byte == b'_' && !(digit(index.checked_sub(1)) && digit(Some(index + 1))) {
            return None;
        }
    }
    Some(text.replace('_', ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers() {
        for (text, base, number) in [
            ("12", 10, Some(12)),
            (" -12\n", 10, Some(-12)),
            ("+1_000", 10, Some(1000)),
            ("1__0", 10, None),
            ("_1", 10, None),
            ("", 10, None),
            ("-", 10, None),
            ("--1", 10, None),
            ("0x1f", 16, Some(31)),
            ("1F", 16, Some(31)),
            ("0x1f", 10, None),
            ("0b101", 0, Some(5)),
            ("z", 36, Some(35)),
            ("1.5", 10, None),
        ] {
            assert_eq!(parse_int(text, base), number, "{text}");
        }
    }
}
