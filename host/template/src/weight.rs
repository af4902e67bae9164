//! The work of comparing and printing a value, which is reported before it is done.

use minijinja::value::{DynObject, ObjectRepr};
use minijinja::{Error, Value};

use super::meter::{self, Bound, MAX_DEPTH};
use super::objects::{Cycler, Joiner, Range};
use super::refusal::invalid;

/// Whether two values are equal; reports the work of the comparison.
pub(super) fn same(left: &Value, right: &Value) -> Result<bool, Error> {
    match (left.as_str(), right.as_str()) {
        (Some(left), Some(right)) => {
            meter::spend(left.len().min(right.len()) / 8)?;
            Ok(left == right)
        }
        _ if left.as_object().is_some() && right.as_object().is_some() => {
            weigh(left, 0)?;
            Ok(left == right)
        }
        _ => {
            meter::spend(0)?;
            Ok(left == right)
        }
    }
}

/// Counts a value and everything in it as work. A part that occurs several times is counted each
/// time: two lines of a template can make a list that contains the same part a billion times. A
/// value that was counted may be compared and printed.
pub(super) fn weigh(value: &Value, depth: usize) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        return Err(meter::exceed(Bound::Depth));
    }
    if let Some(text) = value.as_str() {
        return meter::spend(text.len() / 16);
    }
    meter::spend(0)?;
    let Some(object) = value.as_object() else {
        return Ok(());
    };
    if depth > 0 && can_change(object) {
        return Err(invalid(
            "a namespace or the loop itself can't be put into another value: use its attributes",
        ));
    }
    if let Some(cycler) = value.downcast_object_ref::<Cycler>() {
        return all(cycler.items(), depth);
    }
    if let Some(joiner) = value.downcast_object_ref::<Joiner>() {
        return weigh(joiner.separator(), depth + 1);
    }
    match object.repr() {
        _ if value.downcast_object_ref::<Range>().is_some() => Ok(()),
        ObjectRepr::Seq | ObjectRepr::Iterable => {
            for item in value.try_iter()?.checked() {
                weigh(&item?, depth + 1)?;
            }
            Ok(())
        }
        ObjectRepr::Map if depth == 0 && is_loop(object) => Ok(()),
        ObjectRepr::Map => {
            for (key, item) in object.try_iter_pairs().into_iter().flatten() {
                weigh(&key, depth + 1)?;
                weigh(&item, depth + 1)?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn all(items: &[Value], depth: usize) -> Result<(), Error> {
    items.iter().try_for_each(|item| weigh(item, depth + 1))
}

/// Whether the object's content can change after it was counted, so that it could even contain
/// itself. The engine does not export these types.
fn can_change(object: &DynObject) -> bool {
    object.type_name().ends_with("::Namespace") || is_loop(object)
}

fn is_loop(object: &DynObject) -> bool {
    object.type_name().ends_with("::Loop")
}
