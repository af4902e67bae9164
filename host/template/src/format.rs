//! Fields of a width, and Python's formats of numbers.

use minijinja::value::ValueKind;
use minijinja::{Error, Value};

use super::args::invalid;
use super::python::float_repr;

/// Wider fields are refused: they multiply, and Rust's formatting takes no precision of more than
/// 16 bits.
const MAX_WIDTH: usize = 1 << 15;

/// The specification of a field.
pub(super) struct FormatSpecification {
    pub(super) fill: char,
    /// `<`, `>`, `^` or `=`; the default depends on the type.
    pub(super) align: Option<char>,
    /// `+`, `-` or a blank.
    pub(super) sign: char,
    pub(super) alternate: bool,
    pub(super) zero: bool,
    pub(super) width: usize,
    pub(super) group: Option<char>,
    pub(super) precision: Option<usize>,
    pub(super) kind: Option<char>,
}

impl Default for FormatSpecification {
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

/// A number's digits and its sign.
pub(super) struct Digits {
    pub(super) minus: bool,
    /// `0x` and similar.
    pub(super) prefix: &'static str,
    pub(super) digits: String,
}

/// A whole number; a boolean counts as one, as in Python.
pub(super) fn whole(value: &Value) -> Option<i128> {
    match value.kind() {
        ValueKind::Bool => Some(i128::from(value.is_true())),
        ValueKind::Number if value.is_integer() => i128::try_from(value.clone()).ok(),
        _ => None,
    }
}

/// Any number.
pub(super) fn real(value: &Value) -> Option<f64> {
    match value.kind() {
        ValueKind::Number if !value.is_integer() => f64::try_from(value.clone()).ok(),
        // rounded to the nearest float, as in Python
        #[expect(clippy::cast_precision_loss, reason = "that is what `float` does")]
        _ => whole(value).map(|number| number as f64),
    }
}

/// Whether Python writes the value with a decimal point.
pub(super) fn is_float(value: &Value) -> bool {
    value.kind() == ValueKind::Number && !value.is_integer()
}

impl FormatSpecification {
    /// In the base of the type `kind`.
    pub(super) fn int(&self, number: i128, kind: char) -> Digits {
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

    /// In the form of the type `kind`; `r` is that of `repr`.
    pub(super) fn float(&self, number: f64, kind: char) -> Digits {
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

    /// With sign, separators and padding.
    pub(super) fn number(&self, number: Digits) -> String {
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

    /// With padding; `default` is the alignment if none is specified.
    pub(super) fn padded(&self, text: &str, default: char) -> String {
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

/// With `precision` digits; `dot` keeps one after the dot, as `repr` does.
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

/// A width or a precision.
pub(super) fn width(text: &str) -> Result<usize, Error> {
    match text.parse() {
        Ok(width) if width <= MAX_WIDTH => Ok(width),
        _ => Err(invalid(format!(
            "a width of {text} is too much; the limit is {MAX_WIDTH}"
        ))),
    }
}

/// Consumes digits.
pub(super) fn take_digits<'t>(rest: &mut &'t str) -> &'t str {
    let end = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, after) = rest.split_at(end);
    *rest = after;
    digits
}
