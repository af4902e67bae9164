//! Values with a type of their own: ranges, the views of `items()`, `keys()` and `values()`,
//! `cycler`, `joiner`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use minijinja::value::{Enumerator, Object, ObjectRepr};
use minijinja::{Error, ErrorKind, State, Value};

/// The numbers of `range(start, stop, step)`.
#[derive(Debug)]
pub(super) struct Range {
    pub(super) start: i64,
    pub(super) stop: i64,
    pub(super) step: i64,
    pub(super) length: usize,
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

/// The result of a map's `items()`, `keys()` or `values()`.
#[derive(Debug)]
pub(super) struct MapView {
    /// Python's name of its type.
    pub(super) name: &'static str,
    pub(super) items: Vec<Value>,
}

impl Object for MapView {
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

/// The result of `cycler`: each call of `next` returns the next of its values.
#[derive(Debug)]
pub(super) struct Cycler {
    items: Vec<Value>,
    at: AtomicUsize,
}

impl Cycler {
    pub(super) fn new(items: Vec<Value>) -> Self {
        Self {
            items,
            at: AtomicUsize::new(0),
        }
    }

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

/// The result of `joiner`: the first call returns an empty text, each later one the separator.
#[derive(Debug)]
pub(super) struct Joiner {
    separator: Value,
    calls: AtomicUsize,
}

impl Joiner {
    pub(super) fn new(separator: Value) -> Self {
        Self {
            separator,
            calls: AtomicUsize::new(0),
        }
    }

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
