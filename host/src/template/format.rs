//! Python's two ways to format: `'%s' % x` and `'{}'.format(x)`.

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, Value};

use super::args::{defined, invalid, printed};
use super::python::{ascii_repr, float_repr, repr};

/// Wider fields are refused: they multiply.
const MAX_WIDTH: usize = 1 << 20;

/// What stands right of `%`.
pub(super) enum Arguments {
    Tuple(Vec<Value>),
    One(Value),
}

/// How a field is to look.
struct Spec {
    fill: char,
    /// `<`, `>`, `^` or `=`; what it is by itself depends on the type.
    align: Option<char>,
    /// `+`, `-` or a blank.
    sign: char,
    alternate: bool,
    zero: bool,
    width: usize,
    group: Option<char>,
    precision: Option<usize>,
    kind: Option<char>,
}

impl Default for Spec {
    fn default() -> Self {
        Self {
            fill: ' ',
            align: None,
            sign: '-',
            alternate: false,
            zero: false,
            width: 0,
            group: None,
            precision: None,
            kind: None,
        }
    }
}

/// A number without its sign, and what its sign is.
struct Digits {
    minus: bool,
    /// `0x` and the like.
    prefix: &'static str,
    digits: String,
}

fn whole(value: &Value) -> Option<i128> {
    match value.kind() {
        ValueKind::Bool => Some(i128::from(value.is_true())),
        ValueKind::Number if value.is_integer() => i128::try_from(value.clone()).ok(),
        _ => None,
    }
}

fn real(value: &Value) -> Option<f64> {
    match value.kind() {
        ValueKind::Number if !value.is_integer() => f64::try_from(value.clone()).ok(),
        // as Python, to the nearest
        #[expect(clippy::cast_precision_loss, reason = "that is what `float` does")]
        _ => whole(value).map(|number| number as f64),
    }
}

fn is_float(value: &Value) -> bool {
    value.kind() == ValueKind::Number && !value.is_integer()
}

impl Spec {
    fn int(&self, number: i128, kind: char) -> Digits {
        let size = number.unsigned_abs();
        let (digits, prefix) = match kind {
            'x' => (format!("{size:x}"), "0x"),
            'X' => (format!("{size:X}"), "0X"),
            'o' => (format!("{size:o}"), "0o"),
            'b' => (format!("{size:b}"), "0b"),
            _ => (size.to_string(), ""),
        };
        Digits {
            minus: number < 0,
            prefix: if self.alternate { prefix } else { "" },
            digits,
        }
    }

    fn float(&self, number: f64, kind: char) -> Digits {
        let size = number.abs();
        let minus = number.is_sign_negative() && !number.is_nan();
        let precision = self.precision.unwrap_or(6);
        let mut digits = if !size.is_finite() {
            if size.is_nan() { "nan" } else { "inf" }.to_owned()
        } else {
            match kind.to_ascii_lowercase() {
                'e' => exponent(size, precision),
                'g' => general(size, precision, self.alternate, false),
                'r' => match self.precision {
                    Some(precision) => general(size, precision, self.alternate, true),
                    None => float_repr(size),
                },
                '%' => format!("{:.precision$}%", size * 100.0),
                _ => format!("{size:.precision$}"),
            }
        };
        if kind.is_ascii_uppercase() {
            digits = digits.to_uppercase();
        }
        Digits {
            minus,
            prefix: "",
            digits,
        }
    }

    fn number(&self, number: Digits) -> String {
        let sign = match (number.minus, self.sign) {
            (true, _) => "-",
            (false, '+') => "+",
            (false, ' ') => " ",
            (false, _) => "",
        };
        let (fill, align) = if self.zero && self.align.is_none() {
            ('0', '=')
        } else {
            (self.fill, self.align.unwrap_or('>'))
        };
        let mut digits = number.digits;
        let head = sign.len() + number.prefix.len();
        if let Some(separator) = self.group {
            let every = if matches!(self.kind, Some('x' | 'X' | 'o' | 'b')) {
                4
            } else {
                3
            };
            let least = if align == '=' && fill == '0' {
                self.width.saturating_sub(head)
            } else {
                0
            };
            digits = grouped(&digits, separator, every, least);
        }
        let missing = self.width.saturating_sub(head + digits.chars().count());
        let pad: String = std::iter::repeat_n(fill, missing).collect();
        let prefix = number.prefix;
        match align {
            '=' => format!("{sign}{prefix}{pad}{digits}"),
            _ => self.padded(&format!("{sign}{prefix}{digits}"), '>'),
        }
    }

    fn padded(&self, text: &str, default: char) -> String {
        let missing = self.width.saturating_sub(text.chars().count());
        let left = match self.align.unwrap_or(default) {
            '<' => 0,
            '^' => missing / 2,
            _ => missing,
        };
        let pad = |count| std::iter::repeat_n(self.fill, count).collect::<String>();
        format!("{}{text}{}", pad(left), pad(missing - left))
    }
}

/// `1.5e-07`
fn exponent(size: f64, precision: usize) -> String {
    let text = format!("{size:.precision$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, digits) = match exponent.strip_prefix('-') {
        Some(digits) => ('-', digits),
        None => ('+', exponent),
    };
    format!("{mantissa}e{sign}{digits:0>2}")
}

/// As many digits as `precision` says; `dot` keeps one behind the dot, as `repr` does.
fn general(size: f64, precision: usize, alternate: bool, dot: bool) -> String {
    let precision = precision.max(1);
    let text = exponent(size, precision - 1);
    let power: i64 = text
        .split_once('e')
        .and_then(|(_, power)| power.parse().ok())
        .unwrap_or_default();
    let limit = i64::try_from(precision).unwrap_or(i64::MAX) - i64::from(dot);
    let bare = |text: &str| match text.contains('.') && !alternate {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if power < -4 || power >= limit {
        let (mantissa, power) = text.split_once('e').unwrap_or((&text, "+00"));
        return format!("{}e{power}", bare(mantissa));
    }
    let places = usize::try_from(i64::try_from(precision).unwrap_or(i64::MAX) - 1 - power);
    let places = places.unwrap_or_default();
    let text = bare(&format!("{size:.places$}"));
    if dot && !text.contains('.') {
        text + ".0"
    } else {
        text
    }
}

/// With a separator between groups of digits, and zeros before them up to `least` characters.
fn grouped(digits: &str, separator: char, every: usize, least: usize) -> String {
    let end = digits
        .find(|char: char| !char.is_ascii_hexdigit() || char == 'e')
        .unwrap_or(digits.len());
    let (whole, rest) = digits.split_at(end);
    let mut whole = whole.to_owned();
    loop {
        let mut out = String::new();
        for (index, char) in whole.chars().enumerate() {
            if index > 0 && (whole.len() - index).is_multiple_of(every) {
                out.push(separator);
            }
            out.push(char);
        }
        if out.len() + rest.len() >= least {
            return out + rest;
        }
        whole.insert(0, '0');
    }
}

fn width(text: &str) -> Result<usize, Error> {
    match text.parse() {
        Ok(width) if width <= MAX_WIDTH => Ok(width),
        _ => Err(invalid(format!(
            "a width of {text} is too much; the limit is {MAX_WIDTH}"
        ))),
    }
}

fn take_digits<'t>(rest: &mut &'t str) -> &'t str {
    let end = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, after) = rest.split_at(end);
    *rest = after;
    digits
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
        let mut spec = Spec::default();
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
    }
    out.push_str(rest);
    let unused = match arguments {
        Arguments::Tuple(values) => next < values.len(),
        // a map or a list may have more than is asked for
        Arguments::One(value) => {
            next == 0 && !named && !matches!(value.kind(), ValueKind::Map | ValueKind::Seq)
        }
    };
    if unused {
        return Err(invalid("more arguments than the format takes"));
    }
    Ok(out)
}

fn percent_field(spec: &Spec, kind: char, value: &Value) -> Result<String, Error> {
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
    // beyond 2^127 the cast would saturate to a wrong number without a word
    if number.is_nan() || number.abs() >= 1.7e38 {
        return Err(invalid("number is too large, or none"));
    }
    #[expect(clippy::cast_possible_truncation, reason = "truncation is the purpose")]
    let whole = number as i128;
    Ok(whole)
}

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
    /// The next unnumbered field; `None` once one had a number.
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
            rest = &rest[end + 1..];
        }
        out.push_str(rest);
        Ok(out)
    }

    fn field(&mut self, field: &str, depth: usize) -> Result<String, Error> {
        // brackets may hold anything
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

fn parse_spec(text: &str) -> Result<Spec, Error> {
    let bad = || invalid(format!("`{text}` is no format of a field"));
    let mut spec = Spec::default();
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
        } else if !is_align(second).is_some() {
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
    let bad = || invalid(format!("`{text}` is no format of a {}", value.kind()));
    if let Some(source) = value.as_str() {
        let numeric = spec.sign != '-' || spec.alternate || spec.group.is_some();
        if numeric || spec.align == Some('=') || !matches!(spec.kind, None | Some('s')) {
            return Err(bad());
        }
        let kept: String = match spec.precision {
            Some(most) => source.chars().take(most).collect(),
            None => source.to_owned(),
        };
        let zero = Spec {
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
