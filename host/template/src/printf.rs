//! `'%s' % x`: Python's older formatting of a text with arguments.

use minijinja::value::ValueKind;
use minijinja::{Error, Value};

use super::args::{defined, fits, invalid, printed};
use super::format::{Digits, FormatSpecification, is_float, real, take_digits, whole, width};
use super::python::{ascii_repr, repr};

/// The right operand of `%`.
pub(super) enum Arguments {
    Tuple(Vec<Value>),
    One(Value),
}

/// `format % arguments`
pub(super) fn format_percent(format: &str, arguments: &Arguments) -> Result<String, Error> {
    let mut next = 0;
    let mut named = false;
    let mut take = || -> Result<Value, Error> {
        let value = match arguments {
            Arguments::Tuple(values) => values.get(next).cloned(),
            Arguments::One(value) => (next == 0).then(|| value.clone()),
        };
        next += 1;
        let value = value.ok_or_else(|| invalid("not enough arguments for the format"))?;
        Ok(defined(&value)?.clone())
    };
    let mut out = String::with_capacity(format.len());
    let mut rest = format;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let mut value = None;
        if let Some(after) = rest.strip_prefix('(') {
            let (name, after) = after
                .split_once(')')
                .ok_or_else(|| invalid("the name of a field in the format never ends"))?;
            let map = match arguments {
                Arguments::One(map) if map.kind() == ValueKind::Map => map,
                _ => return Err(invalid("the format has names, so it takes a map")),
            };
            let item = map.get_item(&Value::from(name))?;
            if item.is_undefined() {
                return Err(invalid(format!("there is no `{name}` for the format")));
            }
            value = Some(item);
            named = true;
            rest = after;
        }
        let mut spec = FormatSpecification::default();
        let mut left = false;
        loop {
            match rest.bytes().next() {
                Some(b'#') => spec.alternate = true,
                Some(b'0') => spec.zero = true,
                Some(b'-') => left = true,
                Some(b' ') if spec.sign != '+' => spec.sign = ' ',
                Some(b' ') => {}
                Some(b'+') => spec.sign = '+',
                _ => break,
            }
            rest = &rest[1..];
        }
        let star =
            |value: Value| whole(&value).ok_or_else(|| invalid("`*` in a format takes an integer"));
        if let Some(after) = rest.strip_prefix('*') {
            let given = star(take()?)?;
            left |= given < 0;
            spec.width = width(&given.unsigned_abs().to_string())?;
            rest = after;
        } else {
            let digits = take_digits(&mut rest);
            if !digits.is_empty() {
                spec.width = width(digits)?;
            }
        }
        if let Some(after) = rest.strip_prefix('.') {
            rest = after;
            if let Some(after) = rest.strip_prefix('*') {
                let given = star(take()?)?;
                spec.precision = Some(width(&given.max(0).to_string())?);
                rest = after;
            } else {
                let digits = take_digits(&mut rest);
                spec.precision = Some(if digits.is_empty() { 0 } else { width(digits)? });
            }
        }
        rest = rest.strip_prefix(['l', 'h', 'L']).unwrap_or(rest);
        let mut chars = rest.chars();
        let kind = chars
            .next()
            .ok_or_else(|| invalid("the format ends after `%`; a percent sign is `%%`"))?;
        rest = chars.as_str();
        if kind == '%' {
            out.push('%');
            continue;
        }
        let value = match value {
            Some(value) => value,
            None => take()?,
        };
        if left {
            spec.align = Some('<');
            spec.zero = false;
        }
        out.push_str(&percent_field(&spec, kind, &value)?);
        fits(out.len())?;
    }
    out.push_str(rest);
    let unused = match arguments {
        Arguments::Tuple(values) => next < values.len(),
        // a map or a list may have more items than the text uses
        Arguments::One(value) => {
            next == 0 && !named && !matches!(value.kind(), ValueKind::Map | ValueKind::Seq)
        }
    };
    if unused {
        return Err(invalid("more arguments than the format takes"));
    }
    Ok(out)
}

fn percent_field(spec: &FormatSpecification, kind: char, value: &Value) -> Result<String, Error> {
    let text = |text: String| {
        let text = match spec.precision {
            Some(most) => text.chars().take(most).collect(),
            None => text,
        };
        spec.padded(&text, '>')
    };
    let wrong = || invalid(format!("`%{kind}` takes a number, not a {}", value.kind()));
    Ok(match kind {
        's' => text(printed(value)?),
        'r' => text(repr(value)),
        'a' => text(ascii_repr(value)),
        'c' => {
            let char = match value.as_str() {
                Some(given) if given.chars().count() == 1 => given.to_owned(),
                Some(_) => return Err(invalid("`%c` takes one character")),
                None => whole(value)
                    .and_then(|code| char::from_u32(u32::try_from(code).ok()?))
                    .ok_or_else(|| invalid("`%c` takes a character or its code"))?
                    .to_string(),
            };
            spec.padded(&char, '>')
        }
        'd' | 'i' | 'u' => {
            let number = match real(value) {
                Some(number) if is_float(value) => truncated(number)?,
                _ => whole(value).ok_or_else(wrong)?,
            };
            spec.number(with_zeros(spec.int(number, 'd'), spec.precision))
        }
        'x' | 'X' | 'o' => {
            let number = whole(value).ok_or_else(wrong)?;
            spec.number(with_zeros(spec.int(number, kind), spec.precision))
        }
        'e' | 'E' | 'f' | 'F' | 'g' | 'G' => {
            spec.number(spec.float(real(value).ok_or_else(wrong)?, kind))
        }
        _ => return Err(invalid(format!("there is no `%{kind}` in formats"))),
    })
}

fn with_zeros(mut digits: Digits, least: Option<usize>) -> Digits {
    let missing = least.unwrap_or(0).saturating_sub(digits.digits.len());
    digits.digits.insert_str(0, &"0".repeat(missing));
    digits
}

fn truncated(number: f64) -> Result<i128, Error> {
    // beyond 2^127 the cast would saturate to a wrong number without an error
    if number.is_nan() || number.abs() >= 1.7e38 {
        return Err(invalid("the number is too large, or it is not a number"));
    }
    #[expect(clippy::cast_possible_truncation, reason = "truncation is the purpose")]
    let whole = number as i128;
    Ok(whole)
}
