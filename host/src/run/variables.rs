//! The variables that every template of a run sees, kept up to date by the loop.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use serde_json::Value;

use super::account::Account;
use crate::roles::Object;
use crate::template::{TemplateError, Templates};

/// Templates with the run's variables underneath.
pub struct Variables {
    templates: Arc<Templates>,
    known: RwLock<Known>,
}

struct Known {
    base: Object,
    /// Those of `base` that anything else of the same name takes the place of.
    weak: BTreeSet<String>,
}

impl Known {
    fn set(&mut self, name: &str, value: Value) {
        self.weak.remove(name);
        self.base.insert(name.to_owned(), value);
    }
}

impl Variables {
    /// Starts with `base`: config values, then what the environment contributes.
    pub fn new(templates: Arc<Templates>, base: Object) -> Self {
        let weak = BTreeSet::new();
        Self {
            templates,
            known: RwLock::new(Known { base, weak }),
        }
    }

    /// Adds variables that never hide others, now or later: those of the process, of which
    /// nobody knows beforehand how they are called.
    #[must_use]
    pub fn over(self, weak: Object) -> Self {
        {
            let mut known = self.write();
            for (name, value) in weak {
                if !known.base.contains_key(&name) {
                    known.base.insert(name.clone(), value);
                    known.weak.insert(name);
                }
            }
        }
        self
    }

    /// Sets a variable for good.
    pub fn set(&self, name: &str, value: impl Into<Value>) {
        self.write().set(name, value.into());
    }

    /// Adds variables that are not there yet.
    pub fn add(&self, more: Object) {
        let mut known = self.write();
        for (name, value) in more {
            if !known.base.contains_key(&name) || known.weak.contains(&name) {
                known.set(&name, value);
            }
        }
    }

    /// Brings the counters up to date.
    pub fn update(&self, account: &Account) {
        let mut known = self.write();
        known.set("n_model_calls", account.queries.into());
        known.set("model_cost", account.cost.into());
        known.set("elapsed_seconds", account.elapsed_seconds().into());
    }

    /// [`Variables::render`] for a plugin from outside, which may name any variable and must not
    /// get to know the process by that.
    ///
    /// # Errors
    /// With line and column.
    pub fn render_for_guest(&self, template: &str, over: &Object) -> Result<String, TemplateError> {
        let known = self.read();
        if known.weak.is_empty() {
            return self.templates.render_with(template, &known.base, over);
        }
        let strong = known
            .base
            .iter()
            .filter(|(name, _)| !known.weak.contains(*name));
        let strong = strong.map(|(name, value)| (name.clone(), value.clone()));
        self.templates
            .render_with(template, &strong.collect(), over)
    }

    /// Renders with `over` laid over the run's variables.
    ///
    /// # Errors
    /// With line and column.
    pub fn render(&self, template: &str, over: &Object) -> Result<String, TemplateError> {
        self.templates
            .render_with(template, &self.read().base, over)
    }

    fn read(&self) -> RwLockReadGuard<'_, Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Known> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn variables_of_the_process_hide_nothing_and_are_not_for_guests() {
        let object = |value: Value| value.as_object().cloned().unwrap();
        let variables =
            Variables::new(Arc::new(Templates::new()), object(json!({"task": "run's"})))
                .over(object(json!({"task": "x", "system": "x", "MINE": "mine"})));
        variables.add(object(json!({"system": "Linux", "task": "y"})));
        let none = Object::new();
        let template = "{{ task }} {{ system }}";
        for render in [Variables::render, Variables::render_for_guest] {
            assert_eq!(render(&variables, template, &none).unwrap(), "run's Linux");
        }
        assert_eq!(variables.render("{{ MINE }}", &none).unwrap(), "mine");
        variables.render_for_guest("{{ MINE }}", &none).unwrap_err();
    }
}
