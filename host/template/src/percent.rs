//! `left % right`: the remainder of numbers, or a text formatted with arguments.

use minijinja::value::ValueKind;
use minijinja::{Error, Value};

use super::args::{defined, invalid, items};
use super::printf::{Arguments, format_percent};

/// The value of `left % right`.
pub(super) fn percent(left: &Value, right: &Value) -> Result<Value, Error> {
    if let Some(format) = left.as_str() {
        let arguments = if right.is_tuple() {
            Arguments::Tuple(items(right)?)
        } else {
            Arguments::One(right.clone())
        };
        return format_percent(format, &arguments).map(Value::from);
    }
    defined(left)?;
    defined(right)?;
    let whole = |value: &Value| match value.kind() {
        ValueKind::Bool => Some(i128::from(value.is_true())),
        ValueKind::Number if value.is_integer() => i128::try_from(value.clone()).ok(),
        _ => None,
    };
    if let (Some(left), Some(right)) = (whole(left), whole(right)) {
        let rest = left
            .checked_rem(right)
            .ok_or_else(|| invalid("nothing can be divided by 0"))?;
        // with the sign of the divisor
        let rest = if rest != 0 && (rest < 0) != (right < 0) {
            rest + right
        } else {
            rest
        };
        return Ok(match i64::try_from(rest) {
            Ok(rest) => Value::from(rest),
            Err(_) => Value::from(rest),
        });
    }
    let real = |value: &Value| match whole(value) {
        #[expect(clippy::cast_precision_loss, reason = "that is what `float` does")]
        Some(number) => Some(number as f64),
        None => f64::try_from(value.clone()).ok(),
    };
    let (Some(dividend), Some(divisor)) = (real(left), real(right)) else {
        return Err(invalid(format!(
            "a {} has no remainder by a {}",
            left.kind(),
            right.kind()
        )));
    };
    if divisor == 0.0 {
        return Err(invalid("nothing can be divided by 0"));
    }
    let rest = dividend % divisor;
    Ok(Value::from(if rest == 0.0 {
        0.0_f64.copysign(divisor)
    } else if (rest < 0.0) != (divisor < 0.0) {
        rest + divisor
    } else {
        rest
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remainders_have_the_sign_of_the_divisor() {
        for (left, right, rest) in [(7, 3, 1), (-7, 3, 2), (7, -3, -2), (-7, -3, -1)] {
            let rest = Value::from(rest);
            assert_eq!(
                percent(&Value::from(left), &Value::from(right)).unwrap(),
                rest
            );
        }
        let pair = minijinja::value::Tuple::from([Value::from(1), Value::from(2)]);
        let text = percent(&Value::from("%s-%s"), &Value::from(pair)).unwrap();
        assert_eq!(text.as_str(), Some("1-2"));
    }
}
