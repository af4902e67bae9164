//! The items of `groupby`: pairs whose halves have names.

use std::sync::Arc;

use minijinja::Value;
use minijinja::value::{Enumerator, Object, ObjectRepr};

/// A key and the items that have it.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) name: Value,
    pub(super) items: Value,
}

impl Object for Group {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        match key.as_str() {
            Some("grouper") => Some(self.name.clone()),
            Some("list") => Some(self.items.clone()),
            Some(_) => None,
            None => match i64::try_from(key.clone()).ok()? {
                0 | -2 => Some(self.name.clone()),
                1 | -1 => Some(self.items.clone()),
                _ => None,
            },
        }
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(2)
    }
}
