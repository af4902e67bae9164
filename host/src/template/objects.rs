//! Values with a life of their own: ranges, what `items()` and its kind give, `cycler`,
//! `joiner`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use minijinja::value::{Enumerator, Kwargs, Object, ObjectRepr, Rest};
use minijinja::{Environment, Error, ErrorKind, State, Value};

use super::args::{bind, int, invalid};

/// Longer ranges are refused.
const MAX_RANGE: i64 = 100_000;

/// Puts the functions in.
pub(super) fn add_to(environment: &mut Environment<'static>) {
    environment.add_function("range", range);
    environment.add_function("cycler", cycler);
    environment.add_function("joiner", joiner);
}

/// `range(start, stop, step)`
#[derive(Debug)]
pub(super) struct Range {
    pub(super) start: i64,
    pub(super) stop: i64,
    pub(super) step: i64,
    length: usize,
}

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

impl Object for Range {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let index = usize::try_from(key.clone()).ok()?;
        let steps = i64::try_from(index).ok()?;
        (index < self.length).then(|| Value::from(self.start + self.step * steps))
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(self.length)
    }
}

/// What `items()`, `keys()` and `values()` of a map give.
#[derive(Debug)]
pub(super) struct View {
    /// How Python calls it.
    pub(super) name: &'static str,
    pub(super) items: Vec<Value>,
}

impl Object for View {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Iterable
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.items.clone())
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.items.len())
    }
}

#[derive(Debug)]
pub(super) struct Cycler {
    items: Vec<Value>,
    at: AtomicUsize,
}

fn cycler(items: Rest<Value>) -> Result<Value, Error> {
    if items.is_empty() {
        return Err(invalid("`cycler` takes at least one value"));
    }
    Ok(Value::from_object(Cycler {
        items: items.0,
        at: AtomicUsize::new(0),
    }))
}

impl Cycler {
    pub(super) fn items(&self) -> &[Value] {
        &self.items
    }
}

impl Object for Cycler {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        match key.as_str()? {
            "current" => self.items.get(self.at.load(Ordering::Relaxed)).cloned(),
            _ => None,
        }
    }

    fn call_method(
        self: &Arc<Self>,
        _state: &mut State<'_, '_>,
        method: &str,
        _args: &[Value],
    ) -> Result<Value, Error> {
        let at = self.at.load(Ordering::Relaxed);
        match method {
            "next" => {
                self.at
                    .store((at + 1) % self.items.len(), Ordering::Relaxed);
                Ok(self.items[at].clone())
            }
            "reset" => {
                self.at.store(0, Ordering::Relaxed);
                Ok(Value::from(()))
            }
            _ => Err(Error::from(ErrorKind::UnknownMethod)),
        }
    }
}

#[derive(Debug)]
pub(super) struct Joiner {
    separator: Value,
    calls: AtomicUsize,
}

fn joiner(args: Rest<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    let [separator] = bind(["sep"], &args, &kwargs)?;
    Ok(Value::from_object(Joiner {
        separator: separator.unwrap_or_else(|| Value::from(", ")),
        calls: AtomicUsize::new(0),
    }))
}

impl Joiner {
    pub(super) fn separator(&self) -> &Value {
        &self.separator
    }
}

impl Object for Joiner {
    fn call(self: &Arc<Self>, _state: &mut State<'_, '_>, _args: &[Value]) -> Result<Value, Error> {
        Ok(match self.calls.fetch_add(1, Ordering::Relaxed) {
            0 => Value::from(""),
            _ => self.separator.clone(),
        })
    }
}
