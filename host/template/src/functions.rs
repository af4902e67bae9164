//! The global functions `range`, `cycler` and `joiner`.

use minijinja::value::{Kwargs, Rest};
use minijinja::{Environment, Error, ErrorKind, Value};

use super::args::{bind, int, invalid};
use super::objects::{Cycler, Joiner, Range};

/// Longer ranges are refused.
const MAX_RANGE: i64 = 100_000;

/// Adds the functions to the environment.
pub(super) fn add_to(environment: &mut Environment<'static>) {
    environment.add_function("range", range);
    environment.add_function("cycler", cycler);
    environment.add_function("joiner", joiner);
}

/// `range(start, stop, step)`
fn range(args: Rest<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    let [first, second, step] = bind(["", "", ""], &args, &kwargs)?;
    if first.is_none() {
        return Err(Error::from(ErrorKind::MissingArgument));
    }
    let (start, stop) = match second {
        Some(second) => (int(first, 0)?, int(Some(second), 0)?),
        None => (0, int(first, 0)?),
    };
    let step = int(step, 1)?;
    if step == 0 {
        return Err(invalid("the step of `range` can't be 0"));
    }
    let span = if step > 0 {
        i128::from(stop) - i128::from(start)
    } else {
        i128::from(start) - i128::from(stop)
    };
    let every = i128::from(step.unsigned_abs());
    let length = if span > 0 {
        (span + every - 1) / every
    } else {
        0
    };
    if length > i128::from(MAX_RANGE) {
        return Err(invalid(format!(
            "a range of {length} numbers is too large; the limit is {MAX_RANGE}"
        )));
    }
    Ok(Value::from_object(Range {
        start,
        stop,
        step,
        length: usize::try_from(length).unwrap_or_default(),
    }))
}

fn cycler(items: Rest<Value>) -> Result<Value, Error> {
    if items.is_empty() {
        return Err(invalid("`cycler` takes at least one value"));
    }
    Ok(Value::from_object(Cycler::new(items.0)))
}

fn joiner(args: Rest<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    let [separator] = bind(["sep"], &args, &kwargs)?;
    Ok(Value::from_object(Joiner::new(
        separator.unwrap_or_else(|| Value::from(", ")),
    )))
}
