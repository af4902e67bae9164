//! Arguments of filters and methods: by position or by name, with Python's types.

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, ErrorKind, Value};

use crate::python::to_str;

/// Wider texts are refused with a message of their own; otherwise the instance's memory is the limit.
pub(crate) const MAX_WIDTH: usize = 1 << 20;

pub(crate) fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.into())
}

/// Strict undefined: every use of a missing value is an error.
pub(crate) fn defined(value: &Value) -> Result<&Value, Error> {
    match value.is_undefined() {
        // the engine's own error contains where the value came from
        true => Err(value
            .get_item(&Value::from(0))
            .err()
            .unwrap_or_else(|| Error::from(ErrorKind::UndefinedError))),
        false => Ok(value),
    }
}

/// `str()` of a value that must be defined.
pub(crate) fn printed(value: &Value) -> Result<String, Error> {
    defined(value).map(to_str)
}

/// Arguments by their names in Python's signature.
pub(crate) fn bind<const N: usize>(
    names: [&str; N],
    args: &[Value],
    kwargs: &Kwargs,
) -> Result<[Option<Value>; N], Error> {
    if args.len() > N {
        return Err(Error::from(ErrorKind::TooManyArguments));
    }
    let mut bound = [const { None }; N];
    for (index, name) in names.into_iter().enumerate() {
        let value = match args.get(index) {
            Some(value) => Some(value.clone()),
            None if kwargs.has(name) => Some(kwargs.get::<Value>(name)?),
            None => None,
        };
        bound[index] = match value {
            Some(value) if defined(&value)?.is_none() => None,
            value => value,
        };
    }
    kwargs.assert_all_used()?;
    Ok(bound)
}

/// A whole number; a boolean counts as one, as in Python.
pub(crate) fn int(value: Option<Value>, default: i64) -> Result<i64, Error> {
    match value {
        None => Ok(default),
        Some(value) if value.kind() == ValueKind::Bool => Ok(i64::from(value.is_true())),
        Some(value) if value.is_integer() => i64::try_from(value),
        Some(value) => Err(invalid(format!(
            "expected an integer, not a {}",
            value.kind()
        ))),
    }
}

/// A length; a negative one counts as 0.
pub(crate) fn length(value: Option<Value>, default: i64) -> Result<usize, Error> {
    let length = int(value, default)?.max(0);
    match usize::try_from(length) {
        Ok(length) if length <= MAX_WIDTH => Ok(length),
        _ => Err(invalid(format!(
            "{length} characters are too much; the limit is {MAX_WIDTH}"
        ))),
    }
}

/// A boolean.
pub(crate) fn flag(value: Option<Value>) -> bool {
    value.is_some_and(|value| value.is_true())
}

/// A text.
pub(crate) fn text(value: Option<Value>, default: &str) -> Result<String, Error> {
    match value {
        None => Ok(default.to_owned()),
        Some(value) => Ok(given_text(&value)?.to_owned()),
    }
}

/// A value that must be a text.
pub(crate) fn given_text(value: &Value) -> Result<&str, Error> {
    defined(value)?
        .as_str()
        .ok_or_else(|| invalid(format!("expected a text, not a {}", value.kind())))
}

/// The items of a value that can be iterated; `none` can't.
pub(crate) fn items(value: &Value) -> Result<Vec<Value>, Error> {
    match defined(value)?.is_none() {
        true => Err(invalid("none is not iterable")),
        false => value.try_iter()?.checked().collect(),
    }
}
