//! Shared by filters, tests and methods: arguments by position or name, and Python's order of
//! values.

use std::cmp::Ordering;

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, ErrorKind, Value};

use super::meter::{self, SLOT};
use super::python::to_str;
pub(super) use super::refusal::invalid;
use super::weight::{same, weigh};

/// Refuses texts that would be too long, before they are built: filters can multiply a text.
pub(super) fn fits(bytes: usize) -> Result<(), Error> {
    if bytes > super::MAX_OUTPUT {
        return Err(invalid(format!(
            "the text would exceed {} MiB",
            super::MAX_OUTPUT >> 20
        )));
    }
    meter::has_room(bytes)
}

/// Strict undefined: every use of a missing value is an error.
pub(super) fn defined(value: &Value) -> Result<&Value, Error> {
    if value.is_undefined() {
        // the engine's own error contains where the value came from
        Err(value
            .get_item(&Value::from(0))
            .err()
            .unwrap_or_else(|| Error::from(ErrorKind::UndefinedError)))
    } else {
        Ok(value)
    }
}

/// Arguments by their names in Python's signature.
pub(super) fn bind<const N: usize>(
    names: [&str; N],
    args: &[Value],
    kwargs: &Kwargs,
) -> Result<[Option<Value>; N], Error> {
    if args.len() > N {
        return Err(Error::from(ErrorKind::TooManyArguments));
    }
    let mut bound = [const { None }; N];
    for (index, name) in names.into_iter().enumerate() {
        bound[index] = match args.get(index) {
            Some(value) => Some(value.clone()),
            None if kwargs.has(name) => Some(kwargs.get::<Value>(name)?),
            None => None,
        };
    }
    kwargs.assert_all_used()?;
    Ok(bound)
}

/// A whole number; a boolean counts as one, as in Python.
pub(super) fn int(value: Option<Value>, default: i64) -> Result<i64, Error> {
    match value {
        None => Ok(default),
        Some(value) => {
            defined(&value)?;
            match value.kind() {
                ValueKind::Bool => Ok(i64::from(value.is_true())),
                ValueKind::Number if value.is_integer() => i64::try_from(value),
                kind => Err(invalid(format!("expected an integer, not a {kind}"))),
            }
        }
    }
}

/// A length; a negative one counts as 0.
pub(super) fn length(value: Option<Value>, default: usize) -> Result<usize, Error> {
    let default = i64::try_from(default).unwrap_or(i64::MAX);
    Ok(usize::try_from(int(value, default)?).unwrap_or(0))
}

/// A boolean.
pub(super) fn flag(value: Option<Value>, default: bool) -> Result<bool, Error> {
    match value {
        None => Ok(default),
        Some(value) => Ok(defined(&value)?.is_true()),
    }
}

/// A text.
pub(super) fn text(value: Option<Value>, default: &str) -> Result<String, Error> {
    match value {
        None => Ok(default.to_owned()),
        Some(value) => match defined(&value)?.as_str() {
            Some(text) => Ok(text.to_owned()),
            None => Err(invalid(format!("expected a text, not a {}", value.kind()))),
        },
    }
}

/// The items of a value that can be iterated; `none` can't.
pub(super) fn items(value: &Value) -> Result<Vec<Value>, Error> {
    if defined(value)?.is_none() {
        return Err(invalid("none is not iterable"));
    }
    meter::build(value.len().unwrap_or(0).saturating_mul(SLOT))?;
    value.try_iter()?.checked().collect()
}

fn number(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Number | ValueKind::Bool)
}

/// Python's order, which exists only among numbers, among texts and among lists.
pub(super) fn compare(left: &Value, right: &Value) -> Result<Ordering, Error> {
    defined(left)?;
    defined(right)?;
    if let (Some(left), Some(right)) = (left.as_str(), right.as_str()) {
        meter::spend(left.len().min(right.len()) / 8)?;
        return Ok(left.cmp(right));
    }
    if number(left) && number(right) {
        let whole = |value: &Value| match value.kind() {
            ValueKind::Bool => Value::from(i64::from(value.is_true())),
            _ => value.clone(),
        };
        return Ok(whole(left).cmp(&whole(right)));
    }
    let (left_kind, right_kind) = (left.kind(), right.kind());
    if left_kind == ValueKind::Seq
        && right_kind == ValueKind::Seq
        && left.is_tuple() == right.is_tuple()
    {
        let (left, right) = (items(left)?, items(right)?);
        for (left, right) in left.iter().zip(&right) {
            if !same(defined(left)?, defined(right)?)? {
                return compare(left, right);
            }
        }
        return Ok(left.len().cmp(&right.len()));
    }
    Err(invalid(format!(
        "a {left_kind} and a {right_kind} have no order"
    )))
}

/// Sorts by keys, stably; fails as soon as two keys have no order.
pub(super) fn sort_by_key(
    items: Vec<Value>,
    reverse: bool,
    key: impl Fn(&Value) -> Result<Value, Error>,
) -> Result<Vec<Value>, Error> {
    let mut keyed: Vec<(Value, Value)> = items
        .into_iter()
        .map(|item| Ok((key(&item)?, item)))
        .collect::<Result<_, Error>>()?;
    let mut fault = None;
    keyed.sort_by(|(left, _), (right, _)| {
        // equal keys keep their order, also when the order is reversed
        let order = compare(left, right).unwrap_or_else(|error| {
            fault.get_or_insert(error);
            Ordering::Equal
        });
        if reverse { order.reverse() } else { order }
    });
    match fault {
        Some(error) => Err(error),
        None => Ok(keyed.into_iter().map(|(_, item)| item).collect()),
    }
}

/// The value at `a.b.0`.
pub(super) fn attribute(item: &Value, path: &Value) -> Result<Value, Error> {
    let Some(path) = path.as_str() else {
        return defined(item)?.get_item(path);
    };
    let mut value = item.clone();
    for part in path.split('.') {
        let key = match part.parse::<i64>() {
            Ok(index) if part.bytes().all(|byte| byte.is_ascii_digit()) => Value::from(index),
            _ => Value::from(part),
        };
        value = defined(&value)?.get_item(&key)?;
    }
    Ok(value)
}

/// Texts in lower case, for operations that ignore case; other values unchanged.
pub(super) fn fold_case(value: Value, case_sensitive: bool) -> Result<Value, Error> {
    match value.as_str() {
        Some(text) if !case_sensitive => {
            meter::build(text.len())?;
            Ok(Value::from(text.to_lowercase()))
        }
        _ => weigh(&value, 0).map(|()| value),
    }
}

/// `str()` of a value that must be defined.
pub(super) fn printed(value: &Value) -> Result<String, Error> {
    let text = to_str(defined(value)?);
    fits(text.len()).map(|()| text)
}
