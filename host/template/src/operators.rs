//! Operators that build values, and checks: filters that [`super::guard`] puts into a template in
//! place of the engine's own operators, which have no bounds. Their names can't be written in a
//! template.

use minijinja::value::{ObjectRepr, Tuple, ValueKind};
use minijinja::{Environment, Error, State, Value};

use super::args::{defined, fits, invalid, items};
use super::format::{is_float, real, whole};
use super::meter::{self, SLOT};
use super::python::to_str;
use super::weight::{same, weigh};

/// `a + b`
pub(super) const ADD: &str = "+";
/// `a * b`
pub(super) const MULTIPLY: &str = "*";
/// `a ~ b`
pub(super) const CONCAT: &str = "~";
/// `a in b`
pub(super) const CONTAINS: &str = "(in)";
/// `a % b`
pub(super) const PERCENT: &str = "%";
/// After an operation that may take long; returns the value unchanged.
pub(super) const TICK: &str = "(tick)";
/// After an operation that puts values into others; returns the value unchanged.
pub(super) const BUILT: &str = "(built)";
/// `a[b:c:d]`
pub(super) const SLICE: &str = "[:]";
/// Before a namespace takes a value; returns the value unchanged.
pub(super) const HELD: &str = "(held)";
/// Before an operand that the engine prints; returns the value unchanged, if its text is short.
pub(super) const SMALL: &str = "(small)";

/// The longest text of an operand in a chain with `in`.
const MAX_SMALL: usize = 1 << 20;

/// Adds the operators and checks to the environment, as filters.
pub(super) fn add_to(environment: &mut Environment<'static>) {
    environment.add_filter(ADD, add);
    environment.add_filter(MULTIPLY, multiply);
    environment.add_filter(SLICE, super::slices::slice);
    environment.add_filter(CONCAT, concat);
    environment.add_filter(CONTAINS, |value: &Value, container: &Value| {
        contains(container, value)
    });
    environment.add_filter(PERCENT, super::percent::percent);
    environment.add_filter(TICK, |value: Value| meter::tick().map(|()| value));
    environment.add_filter(BUILT, |value: Value| weigh(&value, 0).map(|()| value));
    environment.add_filter(HELD, |value: Value| weigh(&value, 1).map(|()| value));
    environment.add_filter(SMALL, |value: Value| match value.as_str() {
        None if to_str(&value).len() > MAX_SMALL => {
            Err(invalid("the value is too long for a comparison with `in`"))
        }
        _ => Ok(value),
    });
}

fn is_list(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable)
}

/// The concatenation of two texts. Only an eighth of the length counts as work, because copying is
/// fast: a few GB in a second.
fn joined(left: &str, right: &str) -> Result<Value, Error> {
    let length = left.len().saturating_add(right.len());
    fits(length)?;
    meter::spend(length / 8)?;
    Ok(Value::from([left, right].concat()))
}

fn add(left: &Value, right: &Value) -> Result<Value, Error> {
    if let (Some(left), Some(right)) = (left.as_str(), right.as_str()) {
        return joined(left, right);
    }
    if is_list(left) && is_list(right) && left.is_tuple() == right.is_tuple() {
        let mut all = items(left)?;
        all.append(&mut items(right)?);
        return list_of(all, left.is_tuple());
    }
    calculate("+", left, right, |a, b| a + b, i128::checked_add)
}

fn multiply(left: &Value, right: &Value) -> Result<Value, Error> {
    let times = |count: &Value| {
        count
            .as_usize()
            .ok_or_else(|| invalid("texts and lists are multiplied by whole numbers"))
    };
    if let Some((text, count)) = left
        .as_str()
        .map(|text| (text, right))
        .or_else(|| right.as_str().map(|text| (text, left)))
    {
        let count = times(defined(count)?)?;
        let length = text.len().saturating_mul(count);
        fits(length)?;
        meter::spend(length / 8)?;
        return Ok(Value::from(text.repeat(count)));
    }
    if is_list(left) || is_list(right) {
        let (list, count) = match is_list(left) {
            true => (left, right),
            false => (right, left),
        };
        let count = times(defined(count)?)?;
        let once = items(list)?;
        meter::build(once.len().saturating_mul(count).saturating_mul(SLOT))?;
        let all = std::iter::repeat_n(&once, count).flatten().cloned();
        return list_of(all.collect(), list.is_tuple());
    }
    calculate("*", left, right, |a, b| a * b, i128::checked_mul)
}

fn list_of(items: Vec<Value>, is_tuple: bool) -> Result<Value, Error> {
    let all = match is_tuple {
        true => Value::from(Tuple::from(items)),
        false => Value::from(items),
    };
    weigh(&all, 0).map(|()| all)
}

fn calculate(
    operator: &str,
    left: &Value,
    right: &Value,
    real_result: impl FnOnce(f64, f64) -> f64,
    whole_result: impl FnOnce(i128, i128) -> Option<i128>,
) -> Result<Value, Error> {
    if is_float(left) || is_float(right) {
        if let (Some(left), Some(right)) = (real(left), real(right)) {
            return Ok(Value::from(real_result(left, right)));
        }
    } else if let (Some(a), Some(b)) = (whole(left), whole(right)) {
        let result = whole_result(a, b)
            .ok_or_else(|| invalid(format!("unable to calculate {left} {operator} {right}")))?;
        return Ok(i64::try_from(result).map_or_else(|_| Value::from(result), Value::from));
    }
    defined(left)?;
    defined(right)?;
    Err(invalid(format!(
        "`{operator}` is not for a {} and a {}",
        left.kind(),
        right.kind()
    )))
}

fn concat(state: &mut State, left: &Value, right: &Value) -> Result<Value, Error> {
    if let (Some(left), Some(right)) = (left.as_str(), right.as_str()) {
        return joined(left, right);
    }
    for side in [left, right] {
        if side.is_undefined() {
            // only the engine can tell the value of `a if b` without `else`, which prints as
            // nothing
            state.format(side.clone())?;
        }
    }
    joined(&to_str(left), &to_str(right))
}

/// `value in container`
pub(super) fn contains(container: &Value, value: &Value) -> Result<bool, Error> {
    defined(container)?;
    defined(value)?;
    if let Some(text) = container.as_str() {
        meter::spend(text.len())?;
        return Ok(match value.as_str() {
            Some(part) => text.contains(part),
            None => text.contains(&to_str(value)),
        });
    }
    let Some(object) = container.as_object() else {
        return Err(invalid(format!("a {} contains nothing", container.kind())));
    };
    match object.repr() {
        ObjectRepr::Map => {
            weigh(value, 0)?;
            Ok(object.get_value(value).is_some())
        }
        ObjectRepr::Seq | ObjectRepr::Iterable => {
            for item in container.try_iter()?.checked() {
                if same(&item?, value)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        _ => Ok(false),
    }
}
