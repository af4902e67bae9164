//! The variables that every template of a run sees, kept up to date by the loop.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, RwLock};

use serde_json::Value;

use super::account::Account;
use crate::roles::Object;
use crate::template::{TemplateError, Templates};

/// Templates with the run's variables underneath.
pub struct Variables {
    templates: Arc<Templates>,
    base: RwLock<Object>,
    /// Those that anything else of the same name takes the place of.
    weak: BTreeSet<String>,
}

impl Variables {
    /// Starts with `base`: config values, then what the environment contributes.
    pub fn new(templates: Arc<Templates>, base: Object) -> Self {
        Self {
            templates,
            base: RwLock::new(base),
            weak: BTreeSet::new(),
        }
    }

    /// Adds variables that never hide others, now or later: those of the process, of which
    /// nobody knows beforehand how they are called.
    #[must_use]
    pub fn over(mut self, weak: Object) -> Self {
        let base = self.base.get_mut().unwrap_or_else(PoisonError::into_inner);
        for (name, value) in weak {
            if !base.contains_key(&name) {
                base.insert(name.clone(), value);
                self.weak.insert(name);
            }
        }
        self
    }

    /// Sets a variable for good.
    pub fn set(&self, name: &str, value: impl Into<Value>) {
        self.base
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(name.to_owned(), value.into());
    }

    /// Adds variables that are not there yet.
    pub fn add(&self, more: Object) {
        let mut base = self.base.write().unwrap_or_else(PoisonError::into_inner);
        for (name, value) in more {
            if self.weak.contains(&name) {
                base.insert(name, value);
            } else {
                base.entry(name).or_insert(value);
            }
        }
    }

    /// Brings the counters up to date.
    pub fn update(&self, account: &Account) {
        let mut base = self.base.write().unwrap_or_else(PoisonError::into_inner);
        base.insert("n_model_calls".into(), account.queries.into());
        base.insert("model_cost".into(), account.cost.into());
        base.insert("elapsed_seconds".into(), account.elapsed_seconds().into());
    }

    /// Renders with `over` laid over the run's variables.
    ///
    /// # Errors
    /// With line and column.
    pub fn render(&self, template: &str, over: &Object) -> Result<String, TemplateError> {
        let base = self.base.read().unwrap_or_else(PoisonError::into_inner);
        self.templates.render_with(template, &base, over)
    }
}
