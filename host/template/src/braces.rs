//! `'{}'.format(x)`: fields in braces, and the format specification after their colon.

use minijinja::value::Kwargs;
use minijinja::{Error, Value};

use super::args::{defined, fits, invalid, printed};
use super::format::{FormatSpecification, is_float, real, take_digits, whole, width};
use super::python::{ascii_repr, repr};

/// `format.format(*args, **kwargs)`
pub(super) fn format_braces(
    format: &str,
    args: &[Value],
    kwargs: &Kwargs,
) -> Result<String, Error> {
    let mut fields = Fields {
        args,
        kwargs,
        next: Some(0),
    };
    fields.render(format, 0)
}

struct Fields<'a> {
    args: &'a [Value],
    kwargs: &'a Kwargs,
    /// The number of the next field without one; `None` once a field had a number.
    next: Option<usize>,
}

impl Fields<'_> {
    fn render(&mut self, format: &str, depth: usize) -> Result<String, Error> {
        if depth > 1 {
            return Err(invalid("fields in a format are nested too deeply"));
        }
        let mut out = String::with_capacity(format.len());
        let mut rest = format;
        while let Some(at) = rest.find(['{', '}']) {
            out.push_str(&rest[..at]);
            let brace = &rest[at..=at];
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix(brace) {
                out.push_str(brace);
                rest = after;
                continue;
            }
            if brace == "}" {
                return Err(invalid("a single `}` in a format; write `}}`"));
            }
            let end =
                field_end(rest).ok_or_else(|| invalid("a `{` in a format is never closed"))?;
            out.push_str(&self.field(&rest[..end], depth)?);
            fits(out.len())?;
            rest = &rest[end + 1..];
        }
        out.push_str(rest);
        Ok(out)
    }

    fn field(&mut self, field: &str, depth: usize) -> Result<String, Error> {
        // inside brackets, every character belongs to the key
        let mut in_brackets = false;
        let name_end = field.find(|char| {
            match char {
                '[' => in_brackets = true,
                ']' => in_brackets = false,
                _ => {}
            }
            !in_brackets && matches!(char, '!' | ':')
        });
        let (name, mut rest) = field.split_at(name_end.unwrap_or(field.len()));
        let mut value = self.value(name)?;
        defined(&value)?;
        if let Some(after) = rest.strip_prefix('!') {
            let mut chars = after.chars();
            value = Value::from(match chars.next() {
                Some('r') => repr(&value),
                Some('s') => printed(&value)?,
                Some('a') => ascii_repr(&value),
                _ => return Err(invalid("after `!` a format takes `r`, `s` or `a`")),
            });
            rest = chars.as_str();
        }
        let spec = match rest.strip_prefix(':') {
            Some(spec) if spec.contains('{') => self.render(spec, depth + 1)?,
            Some(spec) => spec.to_owned(),
            None if rest.is_empty() => String::new(),
            None => return Err(invalid("a format takes `:` after `!r`")),
        };
        format_value(&value, &spec)
    }

    fn value(&mut self, name: &str) -> Result<Value, Error> {
        let end = name.find(['.', '[']).unwrap_or(name.len());
        let (first, mut rest) = name.split_at(end);
        let mixed = || invalid("a format numbers all of its fields, or none");
        let mut value = if first.is_empty() {
            let index = self.next.ok_or_else(mixed)?;
            self.next = Some(index + 1);
            self.args.get(index).cloned()
        } else if let Ok(index) = first.parse::<usize>() {
            if self.next.is_some_and(|next| next > 0) {
                return Err(mixed());
            }
            self.next = None;
            self.args.get(index).cloned()
        } else {
            self.kwargs.get::<Option<Value>>(first)?
        }
        .ok_or_else(|| invalid(format!("there is no argument `{first}` for the format")))?;
        while !rest.is_empty() {
            let Some((key, after)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']'))
            else {
                return Err(invalid("formats reach into values with `[...]` only"));
            };
            let key = match key.parse::<usize>() {
                Ok(index) => Value::from(index),
                Err(_) => Value::from(key),
            };
            value = value.get_item(&key)?;
            rest = after;
        }
        Ok(value)
    }
}

fn field_end(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (index, char) in text.char_indices() {
        match char {
            '{' => depth += 1,
            '}' if depth == 0 => return Some(index),
            '}' => depth -= 1,
            _ => {}
        }
    }
    None
}

fn parse_spec(text: &str) -> Result<FormatSpecification, Error> {
    let bad = || invalid(format!("`{text}` is not a format of a field"));
    let mut spec = FormatSpecification::default();
    let mut chars = text.chars();
    let is_align = |char: Option<char>| char.filter(|char| matches!(char, '<' | '>' | '^' | '='));
    let (first, second) = (chars.clone().next(), chars.clone().nth(1));
    if let Some(align) = is_align(second) {
        spec.fill = first.unwrap_or(' ');
        spec.align = Some(align);
        chars.nth(1);
    } else if let Some(align) = is_align(first) {
        spec.align = Some(align);
        chars.next();
    }
    let mut rest = chars.as_str();
    if let Some(after) = rest.strip_prefix(['+', '-', ' ']) {
        spec.sign = rest.chars().next().unwrap_or('-');
        rest = after;
    }
    if let Some(after) = rest.strip_prefix('#') {
        spec.alternate = true;
        rest = after;
    }
    if let Some(after) = rest.strip_prefix('0') {
        if spec.align.is_none() {
            spec.zero = true;
        } else if is_align(second).is_none() {
            spec.fill = '0';
        }
        rest = after;
    }
    let digits = take_digits(&mut rest);
    if !digits.is_empty() {
        spec.width = width(digits)?;
    }
    if let Some(after) = rest.strip_prefix([',', '_']) {
        spec.group = rest.chars().next();
        rest = after;
    }
    if let Some(after) = rest.strip_prefix('.') {
        rest = after;
        let digits = take_digits(&mut rest);
        if digits.is_empty() {
            return Err(bad());
        }
        spec.precision = Some(width(digits)?);
    }
    let mut kinds = rest.chars();
    spec.kind = kinds.next();
    if kinds.next().is_some() {
        return Err(bad());
    }
    Ok(spec)
}

/// `format(value, spec)`
fn format_value(value: &Value, text: &str) -> Result<String, Error> {
    if text.is_empty() {
        return printed(value);
    }
    let spec = parse_spec(text)?;
    let bad = || invalid(format!("`{text}` is not a format of a {}", value.kind()));
    if let Some(source) = value.as_str() {
        let numeric = spec.sign != '-' || spec.alternate || spec.group.is_some();
        if numeric || spec.align == Some('=') || !matches!(spec.kind, None | Some('s')) {
            return Err(bad());
        }
        let kept: String = match spec.precision {
            Some(most) => source.chars().take(most).collect(),
            None => source.to_owned(),
        };
        let zero = FormatSpecification {
            fill: if spec.zero { '0' } else { spec.fill },
            ..spec
        };
        return Ok(zero.padded(&kept, '<'));
    }
    if !is_float(value)
        && let Some(number) = whole(value)
    {
        return match spec.kind {
            Some(kind @ ('e' | 'E' | 'f' | 'F' | 'g' | 'G' | '%')) => {
                let number = real(value).ok_or_else(bad)?;
                Ok(spec.number(spec.float(number, kind)))
            }
            None | Some('d' | 'n' | 'b' | 'o' | 'x' | 'X') if spec.precision.is_none() => {
                if spec.group == Some(',') && !matches!(spec.kind, None | Some('d')) {
                    return Err(bad());
                }
                Ok(spec.number(spec.int(number, spec.kind.unwrap_or('d'))))
            }
            Some('c') if spec.precision.is_none() && spec.sign == '-' && spec.group.is_none() => {
                let char = u32::try_from(number)
                    .ok()
                    .and_then(char::from_u32)
                    .ok_or_else(bad)?;
                Ok(spec.padded(&char.to_string(), '<'))
            }
            _ => Err(bad()),
        };
    }
    if let Some(number) = real(value) {
        let kind = match spec.kind {
            None => 'r',
            Some('n') => 'g',
            Some(kind @ ('e' | 'E' | 'f' | 'F' | 'g' | 'G' | '%')) => kind,
            Some(_) => return Err(bad()),
        };
        return Ok(spec.number(spec.float(number, kind)));
    }
    Err(bad())
}
