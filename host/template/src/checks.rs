//! The tests after `is` that minijinja lacks, or that return a value where Jinja2 fails.

use std::cmp::Ordering;

use minijinja::value::{ObjectRepr, ValueKind};
use minijinja::{Environment, Error, Value};

use super::args::{compare, defined, invalid, printed};
use super::operators::contains;
use super::weight::same;

/// Adds the tests to the environment.
pub(super) fn add_to(environment: &mut Environment<'static>) {
    environment.add_test("odd", |value: &Value| {
        Ok::<_, Error>(remainder(value)? == 1.0)
    });
    environment.add_test("even", |value: &Value| {
        Ok::<_, Error>(remainder(value)? == 0.0)
    });
    environment.add_test("divisibleby", divisible_by);
    environment.add_test("callable", callable);
    environment.add_test("iterable", |value: &Value| {
        Ok::<_, Error>(!defined(value)?.is_none() && value.try_iter().is_ok())
    });
    environment.add_test("sequence", |value: &Value| {
        let kind = value.kind();
        matches!(kind, ValueKind::Seq | ValueKind::Map | ValueKind::String)
    });
    environment.add_test("lower", |value: &Value| {
        Ok::<_, Error>(is_cased(&printed(value)?, false))
    });
    environment.add_test("upper", |value: &Value| {
        Ok::<_, Error>(is_cased(&printed(value)?, true))
    });
    environment.add_test("in", |left: &Value, right: &Value| contains(right, left));
    for (names, wanted) in [
        (["gt", "greaterthan", ">"], [Ordering::Greater; 2]),
        (["ge", ">=", ">="], [Ordering::Greater, Ordering::Equal]),
        (["lt", "lessthan", "<"], [Ordering::Less; 2]),
        (["le", "<=", "<="], [Ordering::Less, Ordering::Equal]),
    ] {
        for name in names {
            environment.add_test(name, move |left: &Value, right: &Value| {
                Ok::<_, Error>(wanted.contains(&compare(left, right)?))
            });
        }
    }
    for (names, equal) in [(["eq", "equalto", "=="], true), (["ne", "!=", "!="], false)] {
        for name in names {
            environment.add_test(name, move |left: &Value, right: &Value| {
                Ok::<_, Error>(same(defined(left)?, defined(right)?)? == equal)
            });
        }
    }
}

/// The remainder of a division by 2.
fn remainder(value: &Value) -> Result<f64, Error> {
    defined(value)?;
    match value.kind() {
        ValueKind::Bool => Ok(f64::from(u8::from(value.is_true()))),
        ValueKind::Number if value.is_integer() => {
            let number = i128::try_from(value.clone())?;
            Ok(if number.rem_euclid(2) == 0 { 0.0 } else { 1.0 })
        }
        ValueKind::Number => Ok(f64::try_from(value.clone())?.rem_euclid(2.0)),
        kind => Err(invalid(format!("a {kind} is neither odd nor even"))),
    }
}

fn divisible_by(value: &Value, by: &Value) -> Result<bool, Error> {
    let number = |value: &Value| {
        defined(value)?;
        match value.kind() {
            ValueKind::Bool => Ok(f64::from(u8::from(value.is_true()))),
            ValueKind::Number => f64::try_from(value.clone()),
            kind => Err(invalid(format!("a {kind} can't be divided"))),
        }
    };
    if let (true, true) = (value.is_integer(), by.is_integer()) {
        let (value, by) = (i128::try_from(value.clone())?, i128::try_from(by.clone())?);
        return match value.checked_rem(by) {
            Some(rest) => Ok(rest == 0),
            None => Err(invalid("nothing is divisible by 0")),
        };
    }
    let (value, by) = (number(value)?, number(by)?);
    if by == 0.0 {
        return Err(invalid("nothing is divisible by 0"));
    }
    Ok(value % by == 0.0)
}

/// Functions and macros. Whether a value has a method is known only by calling it.
fn callable(value: &Value) -> bool {
    let plain = value
        .as_object()
        .is_some_and(|object| object.repr() == ObjectRepr::Plain);
    // an undefined value counts as callable, and calling it fails
    plain || value.is_undefined()
}

/// `str.islower` and `str.isupper`.
pub(super) fn is_cased(text: &str, upper: bool) -> bool {
    let mut cased = false;
    for char in text.chars() {
        let (is_upper, is_lower) = (char.is_uppercase(), char.is_lowercase());
        if if upper { is_lower } else { is_upper } {
            return false;
        }
        cased |= is_upper || is_lower;
    }
    cased
}
