//! The meaning of a plain text: the implicit types of YAML 1.1, as in PyYAML's patterns.

/// The prefix of YAML's own tags.
pub(super) const PREFIX: &str = "tag:yaml.org,2002:";

/// The type of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Tag {
    Null,
    Bool,
    Int,
    Float,
    Timestamp,
    Str,
    /// `<<`
    Merge,
    /// `=`
    Value,
    Seq,
    Map,
    /// A known tag that is refused.
    Refused(String),
    Unknown(String),
}

impl Tag {
    /// By its full name.
    pub(super) fn named(name: &str) -> Self {
        match name.strip_prefix(PREFIX) {
            Some("null") => Self::Null,
            Some("bool") => Self::Bool,
            Some("int") => Self::Int,
            Some("float") => Self::Float,
            Some("timestamp") => Self::Timestamp,
            Some("str") => Self::Str,
            Some("merge") => Self::Merge,
            Some("value") => Self::Value,
            Some("seq") => Self::Seq,
            Some("map") => Self::Map,
            Some(known @ ("binary" | "omap" | "pairs" | "set")) => {
                Self::Refused(format!("!!{known}"))
            }
            Some(other) => Self::Unknown(format!("!!{other}")),
            None => Self::Unknown(name.to_owned()),
        }
    }
}

/// The type of a plain text.
pub(super) fn plain(text: &str) -> Tag {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Tag::Null,
        "<<" => return Tag::Merge,
        "=" => return Tag::Value,
        "yes" | "Yes" | "YES" | "no" | "No" | "NO" | "true" | "True" | "TRUE" | "false"
        | "False" | "FALSE" | "on" | "On" | "ON" | "off" | "Off" | "OFF" => return Tag::Bool,
        _ => {}
    }
    let number = text
        .bytes()
        .next()
        .is_some_and(|byte| byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.'));
    if !number {
        Tag::Str
    } else if is_float(text) {
        Tag::Float
    } else if is_int(text) {
        Tag::Int
    } else if is_timestamp(text) {
        Tag::Timestamp
    } else {
        Tag::Str
    }
}

fn unsigned(text: &str) -> &str {
    text.strip_prefix(['+', '-']).unwrap_or(text)
}

fn all(text: &str, wanted: impl Fn(u8) -> bool) -> bool {
    text.bytes().all(|byte| byte == b'_' || wanted(byte))
}

/// A digit, then digits and `_`.
fn is_digits(text: &str) -> bool {
    text.bytes()
        .next()
        .is_some_and(|byte| byte.is_ascii_digit())
        && all(text, |byte| byte.is_ascii_digit())
}

/// One or more times `:` and a number below 60.
fn is_sixties<'t>(parts: impl Iterator<Item = &'t str>) -> bool {
    let mut count = 0;
    for part in parts {
        let good = match part.as_bytes() {
            [digit] => digit.is_ascii_digit(),
            [ten, digit] => (b'0'..=b'5').contains(ten) && digit.is_ascii_digit(),
            _ => false,
        };
        if !good {
            return false;
        }
        count += 1;
    }
    count > 0
}

fn is_float(text: &str) -> bool {
    // these forms have no sign
    if matches!(text, ".nan" | ".NaN" | ".NAN") {
        return true;
    }
    let digits = unsigned(text);
    if matches!(digits, ".inf" | ".Inf" | ".INF") {
        return true;
    }
    if let Some((whole, sixties)) = digits.split_once(':') {
        return sixties.split_once('.').is_some_and(|(sixties, fraction)| {
            is_digits(whole)
                && is_sixties(sixties.split(':'))
                && all(fraction, |byte| byte.is_ascii_digit())
        });
    }
    let (mantissa, exponent) = match digits.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (digits, None),
    };
    // `1e3` is a text: PyYAML's pattern demands a sign in the exponent and a dot in the mantissa
    let exponent_fits = exponent.is_none_or(|exponent| {
        exponent.strip_prefix(['+', '-']).is_some_and(|digits| {
            !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
        })
    });
    let Some((whole, fraction)) = mantissa.split_once('.') else {
        return false;
    };
    exponent_fits
        && if whole.is_empty() {
            digits.len() == text.len() && is_digits(fraction)
        } else {
            is_digits(whole) && all(fraction, |byte| byte.is_ascii_digit())
        }
}

fn is_int(text: &str) -> bool {
    let digits = unsigned(text);
    if let Some(digits) = digits.strip_prefix("0b") {
        return !digits.is_empty() && all(digits, |byte| matches!(byte, b'0' | b'1'));
    }
    if let Some(digits) = digits.strip_prefix("0x") {
        return !digits.is_empty() && all(digits, |byte| byte.is_ascii_hexdigit());
    }
    if let Some(rest) = digits.strip_prefix('0') {
        return all(rest, |byte| matches!(byte, b'0'..=b'7'));
    }
    match digits.split_once(':') {
        Some((whole, sixties)) => is_digits(whole) && is_sixties(sixties.split(':')),
        None => is_digits(digits),
    }
}

fn is_timestamp(text: &str) -> bool {
    let bytes = text.as_bytes();
    let short_date = bytes.len() == 10
        && bytes.iter().enumerate().all(|(index, byte)| match index {
            4 | 7 => *byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    short_date || time(text).is_some_and(|time| time.clock.is_some())
}

/// The parts of a timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Time<'t> {
    /// Year, month, day.
    pub(super) date: [u32; 3],
    pub(super) clock: Option<TimeOfDay<'t>>,
}

/// The time of day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimeOfDay<'t> {
    /// Hour, minute, second.
    pub(super) time: [u32; 3],
    pub(super) fraction: &'t str,
    /// The offset: whether it is west of Greenwich, hours, minutes.
    pub(super) zone: Option<(bool, u32, u32)>,
}

/// Splits a timestamp; whether the date exists is not checked here.
pub(super) fn time(text: &str) -> Option<Time<'_>> {
    let mut rest = text;
    let year = digits(&mut rest, 4, 4)?;
    let month = rest.strip_prefix('-').and_then(|after| {
        rest = after;
        digits(&mut rest, 1, 2)
    })?;
    rest = rest.strip_prefix('-')?;
    let day = digits(&mut rest, 1, 2)?;
    let date = [year, month, day];
    if rest.is_empty() {
        return Some(Time { date, clock: None });
    }
    let blanks = rest.trim_start_matches([' ', '\t']);
    rest = match rest.strip_prefix(['T', 't']) {
        Some(after) => after,
        None if blanks.len() < rest.len() => blanks,
        None => return None,
    };
    let hour = digits(&mut rest, 1, 2)?;
    rest = rest.strip_prefix(':')?;
    let minute = digits(&mut rest, 2, 2)?;
    rest = rest.strip_prefix(':')?;
    let second = digits(&mut rest, 2, 2)?;
    let mut fraction = "";
    if let Some(after) = rest.strip_prefix('.') {
        let end = after.bytes().take_while(u8::is_ascii_digit).count();
        (fraction, rest) = after.split_at(end);
    }
    let mut zone = None;
    if !rest.is_empty() {
        rest = rest.trim_start_matches([' ', '\t']);
        let west = rest.starts_with('-');
        if rest == "Z" {
            zone = Some((false, 0, 0));
            rest = "";
        } else {
            rest = rest.strip_prefix(['+', '-'])?;
            let hours = digits(&mut rest, 1, 2)?;
            let minutes = match rest.strip_prefix(':') {
                Some(after) => {
                    rest = after;
                    digits(&mut rest, 2, 2)?
                }
                None => 0,
            };
            zone = Some((west, hours, minutes));
        }
    }
    let clock = Some(TimeOfDay {
        time: [hour, minute, second],
        fraction,
        zone,
    });
    rest.is_empty().then_some(Time { date, clock })
}

fn digits(text: &mut &str, least: usize, most: usize) -> Option<u32> {
    let length = text
        .bytes()
        .take(most)
        .take_while(u8::is_ascii_digit)
        .count();
    if length < least {
        return None;
    }
    let (digits, rest) = text.split_at(length);
    *text = rest;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_texts_have_types() {
        for (text, tag) in [
            ("", Tag::Null),
            ("off", Tag::Bool),
            ("y", Tag::Str),
            ("010", Tag::Int),
            ("08", Tag::Str),
            ("0o10", Tag::Str),
            ("1:30", Tag::Int),
            ("1:60", Tag::Str),
            ("10_000", Tag::Int),
            ("1e3", Tag::Str),
            ("1.0e+3", Tag::Float),
            ("3.", Tag::Float),
            ("-.5", Tag::Str),
            ("2024-01-01", Tag::Timestamp),
            ("2024-1-1", Tag::Str),
            ("2024-1-1 1:02:03", Tag::Timestamp),
            ("<<", Tag::Merge),
        ] {
            assert_eq!(plain(text), tag, "{text}");
        }
    }
}
