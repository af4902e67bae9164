//! `a[b:c:d]` as in Python: characters of texts, items of lists.

use minijinja::value::{Tuple, ValueKind};
use minijinja::{Error, Value};

use super::args::{defined, invalid, items};
use super::meter;
use super::weight::weigh;

/// The selected items: the first, the one before which it ends, and the step.
struct SliceRange {
    start: i128,
    stop: i128,
    step: i128,
}

fn bound(value: &Value) -> Result<Option<i128>, Error> {
    if defined(value)?.is_none() {
        return Ok(None);
    }
    Ok(Some(i128::from(i64::try_from(value.clone())?)))
}

impl SliceRange {
    fn new(start: Option<i128>, stop: Option<i128>, step: i128, length: usize) -> Self {
        let length = i128::try_from(length).unwrap_or(i128::MAX);
        // the bounds of beginning and end
        let (low, high) = match step > 0 {
            true => (0, length),
            false => (-1, length - 1),
        };
        let place = |at: i128| (if at < 0 { at + length } else { at }).clamp(low, high);
        let (first, last) = match step > 0 {
            true => (low, high),
            false => (high, low),
        };
        Self {
            start: start.map_or(first, place),
            stop: stop.map_or(last, place),
            step,
        }
    }

    fn indexes(&self) -> impl Iterator<Item = usize> {
        let Self { start, stop, step } = *self;
        let ahead = move |at: &i128| if step > 0 { *at < stop } else { *at > stop };
        std::iter::successors(Some(start), move |at| Some(at + step))
            .take_while(ahead)
            .filter_map(|at| usize::try_from(at).ok())
    }
}

/// `value[start:stop:step]`; `none` for a part that is left out.
pub(super) fn slice(
    value: &Value,
    start: &Value,
    stop: &Value,
    step: &Value,
) -> Result<Value, Error> {
    defined(value)?;
    let (start, stop) = (bound(start)?, bound(stop)?);
    let step = bound(step)?.unwrap_or(1);
    if step == 0 {
        return Err(invalid("cannot slice by step size of 0"));
    }
    if let Some(text) = value.as_str() {
        return part(text, start, stop, step).map(Value::from);
    }
    match value.kind() {
        ValueKind::None | ValueKind::Undefined => Ok(Value::from(Vec::<Value>::new())),
        ValueKind::Seq | ValueKind::Iterable => {
            let all = items(value)?;
            let range = SliceRange::new(start, stop, step, all.len());
            let taken: Vec<Value> = range.indexes().map(|index| all[index].clone()).collect();
            let taken = match value.is_tuple() {
                true => Value::from(Tuple::from(taken)),
                false => Value::from(taken),
            };
            weigh(&taken, 0).map(|()| taken)
        }
        kind => Err(invalid(format!("a {kind} cannot be sliced"))),
    }
}

fn part(text: &str, start: Option<i128>, stop: Option<i128>, step: i128) -> Result<String, Error> {
    let byte = |index: i128| {
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        text.char_indices()
            .nth(index)
            .map_or(text.len(), |(byte, _)| byte)
    };
    let from_the_front = |at: Option<i128>| at.is_none_or(|at| at >= 0);
    if step == 1 && from_the_front(start) && from_the_front(stop) {
        // at most to the end of the text
        let begin = byte(start.unwrap_or(0));
        let end = stop.map_or(text.len(), byte).max(begin);
        meter::build(end)?;
        return Ok(text[begin..end].to_owned());
    }
    meter::build(text.len())?;
    let range = SliceRange::new(start, stop, step, text.chars().count());
    if step == 1 {
        let begin = byte(range.start);
        return Ok(text[begin..byte(range.stop).max(begin)].to_owned());
    }
    meter::build(text.len().saturating_mul(size_of::<char>()))?;
    let chars: Vec<char> = text.chars().collect();
    Ok(range.indexes().map(|index| chars[index]).collect())
}
