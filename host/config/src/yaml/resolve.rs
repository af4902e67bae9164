//! The meaning of a plain text: the implicit types of YAML 1.1, as in PyYAML's patterns.

use std::sync::LazyLock;

use mswea_expression::Expression;

/// The prefix of YAML's own tags.
const PREFIX: &str = "tag:yaml.org,2002:";

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
    /// A tag whose values a config can't hold, too.
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
            Some(other) => Self::Unknown(format!("!!{other}")),
            None => Self::Unknown(name.to_owned()),
        }
    }
}

/// PyYAML's patterns of floats, of integers and of times.
static PATTERNS: LazyLock<[Expression; 3]> = LazyLock::new(|| {
    [
        r"(?:[-+]?(?:[0-9][0-9_]*)\.[0-9_]*(?:[eE][-+][0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+][0-9]+)?|[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$",
        r"(?:[-+]?0b[0-1_]+|[-+]?0[0-7_]+|[-+]?(?:0|[1-9][0-9_]*)|[-+]?0x[0-9a-fA-F_]+|[-+]?[1-9][0-9_]*(?::[0-5]?[0-9])+)$",
        r"([0-9]{4})-([0-9][0-9]?)-([0-9][0-9]?)(?:(?:[Tt]|[ \t]+)([0-9][0-9]?):([0-9][0-9]):([0-9][0-9])(?:\.([0-9]*))?(?:[ \t]*(?:Z|([-+])([0-9][0-9]?)(?::([0-9][0-9]))?))?)?$",
    ]
    .map(|pattern| Expression::new(pattern).expect("invariant: PyYAML's patterns are right"))
});

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
    if !text.starts_with(|char: char| char.is_ascii_digit() || "+-.".contains(char)) {
        return Tag::Str;
    }
    let [float, int, time] = &*PATTERNS;
    let is = |pattern: &Expression| pattern.begins(text) == Ok(true);
    if is(float) {
        Tag::Float
    // one that is too long to search is refused by its length
    } else if int.begins(text) != Ok(false) {
        Tag::Int
    // a date alone has all its digits
    } else if is(time) && (text.len() == 10 || text.contains(':')) {
        Tag::Timestamp
    } else {
        Tag::Str
    }
}

/// A time as Python's `isoformat()` writes it; none if the date or the time does not exist.
pub(super) fn iso(text: &str) -> Option<String> {
    let [_, _, pattern] = &*PATTERNS;
    let found = pattern.find(text).ok()??;
    if found.range().start != 0 {
        return None;
    }
    let part = |number| found.group(number).map(|range| &text[range]);
    let number = |group| part(group).map_or(Some(0), |digits| digits.parse::<u32>().ok());
    let (year, month, day) = (number(1)?, number(2)?, number(3)?);
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        2 => 28 + u32::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if year == 0 || !(1..=days).contains(&day) {
        return None;
    }
    let mut iso = format!("{year:04}-{month:02}-{day:02}");
    if part(4).is_none() {
        return Some(iso);
    }
    let (hour, minute, second) = (number(4)?, number(5)?, number(6)?);
    let offset = number(9)? * 60 + number(10)?;
    if hour > 23 || minute > 59 || second > 59 || offset >= 24 * 60 {
        return None;
    }
    iso += &format!("T{hour:02}:{minute:02}:{second:02}");
    let micros = format!("{:0<6.6}", part(7).unwrap_or_default());
    if micros != "000000" {
        iso += &format!(".{micros}");
    }
    if part(8).is_some() || text.ends_with('Z') {
        let sign = if part(8) == Some("-") && offset > 0 {
            '-'
        } else {
            '+'
        };
        iso += &format!("{sign}{:02}:{:02}", offset / 60, offset % 60);
    }
    Some(iso)
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
