//! The variables that every template of a run sees, kept up to date by the loop.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use serde_json::Value;

use super::account::Account;
use crate::roles::Object;
use crate::template::{Started, TemplateError, Templates, Vars};

/// Makes a copy without what looks like a secret, by names and by looks.
pub type Redact = fn(&Value) -> Value;

/// Templates with the run's variables underneath.
pub struct Variables {
    templates: Arc<Templates>,
    redact: Redact,
    known: RwLock<Known>,
}

struct Known {
    base: Object,
    /// Those of `base` that anything else of the same name takes the place of.
    weak: BTreeSet<String>,
    /// What plugins from outside see in place of those of `base` that hold a secret.
    hidden: Object,
}

impl Known {
    fn set(&mut self, name: &str, value: Value, redact: Redact) {
        self.weak.remove(name);
        self.hidden.remove(name);
        if !value.is_number() {
            let named = Object::from_iter([(name.to_owned(), value.clone())]);
            self.hide(&named, redact);
        }
        self.base.insert(name.to_owned(), value);
    }

    fn vars<'v>(&'v self, over: &'v Object, is_guest: bool) -> Vars<'v> {
        let all = Vars::new(&self.base, over);
        match is_guest {
            true => all.hiding(&self.weak, &self.hidden),
            false => all,
        }
    }

    fn hide(&mut self, variables: &Object, redact: Redact) {
        let Value::Object(clean) = redact(&Value::Object(variables.clone())) else {
            return;
        };
        let secret = clean
            .into_iter()
            .filter(|(name, clean)| variables.get(name) != Some(clean));
        self.hidden.extend(secret);
    }
}

impl Variables {
    /// Starts with `base`: config values, then what the environment contributes. What `redact`
    /// takes out of them is not for plugins from outside.
    pub fn new(templates: Arc<Templates>, base: Object, redact: Redact) -> Self {
        let mut known = Known {
            base: Object::new(),
            weak: BTreeSet::new(),
            hidden: Object::new(),
        };
        known.hide(&base, redact);
        known.base = base;
        Self {
            templates,
            redact,
            known: RwLock::new(known),
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
        self.write().set(name, value.into(), self.redact);
    }

    /// Adds variables that are not there yet.
    pub fn add(&self, more: Object) {
        let mut known = self.write();
        for (name, value) in more {
            if !known.base.contains_key(&name) || known.weak.contains(&name) {
                known.set(&name, value, self.redact);
            }
        }
    }

    /// Brings the counters up to date.
    pub fn update(&self, account: &Account) {
        let mut known = self.write();
        for (name, value) in [
            ("n_model_calls", account.queries.into()),
            ("model_cost", account.cost.into()),
            ("elapsed_seconds", account.elapsed_seconds().into()),
        ] {
            known.set(name, value, self.redact);
        }
    }

    /// [`Variables::render`] for a plugin from outside, which may name any variable: it must not
    /// get to know the process by that, nor what `config show` would not show.
    ///
    /// # Errors
    /// With line and column.
    pub async fn render_for_guest(
        &self,
        template: &str,
        over: &Object,
    ) -> Result<String, TemplateError> {
        self.rendered(template, over, true).await
    }

    /// Renders with `over` laid over the run's variables.
    ///
    /// # Errors
    /// With line and column.
    pub async fn render(&self, template: &str, over: &Object) -> Result<String, TemplateError> {
        self.rendered(template, over, false).await
    }

    async fn rendered(
        &self,
        template: &str,
        over: &Object,
        is_guest: bool,
    ) -> Result<String, TemplateError> {
        // the lock is not held while others work
        let started = self
            .templates
            .start(template, self.read().vars(over, is_guest));
        match started {
            Started::Done(done) => done,
            Started::Heavy(heavy) => heavy
                .run()
                .await
                .map_err(|failed| failed.describe(self.read().vars(over, is_guest))),
        }
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

    fn object(value: &Value) -> Object {
        value.as_object().cloned().unwrap()
    }

    #[tokio::test]
    async fn variables_of_the_process_hide_nothing_and_are_not_for_guests() {
        let base = object(&json!({"task": "run's"}));
        let variables = Variables::new(Arc::new(Templates::new()), base, Value::clone)
            .over(object(&json!({"task": "x", "system": "x", "MINE": "mine"})));
        variables.add(object(&json!({"system": "Linux", "task": "y"})));
        let none = Object::new();
        let template = "{{ task }} {{ system }}";
        assert_eq!(
            variables.render(template, &none).await.unwrap(),
            "run's Linux"
        );
        let guest = variables.render_for_guest(template, &none).await;
        assert_eq!(guest.unwrap(), "run's Linux");
        assert_eq!(variables.render("{{ MINE }}", &none).await.unwrap(), "mine");
        let error = variables.render_for_guest("{{ MINE }}", &none).await;
        error.unwrap_err();
    }

    #[tokio::test]
    async fn guests_see_what_is_shown_of_secrets() {
        fn redact(value: &Value) -> Value {
            let mut value = value.clone();
            if let Some(token) = value.pointer_mut("/env/TOKEN") {
                *token = "[redacted]".into();
            }
            value
        }
        let base = object(&json!({"task": "t", "env": {"TOKEN": "1", "PAGER": "cat"}}));
        let templates = Arc::new(Templates::new());
        let variables = Variables::new(templates, base, redact);
        let none = Object::new();
        let template = "{{ task }} {{ env.TOKEN }} {{ env.PAGER }}";
        for (token, shown) in [("1", "[redacted]"), ("2", "[redacted]")] {
            let text = variables.render(template, &none).await.unwrap();
            assert_eq!(text, format!("t {token} cat"));
            let text = variables.render_for_guest(template, &none).await.unwrap();
            assert_eq!(text, format!("t {shown} cat"));
            variables.set("env", json!({"TOKEN": "2", "PAGER": "cat"}));
        }
        // its own are its own
        let own = object(&json!({"env": {"TOKEN": "3", "PAGER": "p"}}));
        let text = variables.render_for_guest(template, &own).await.unwrap();
        assert_eq!(text, "t 3 p");
        variables.set("env", "none");
        let text = variables
            .render_for_guest("{{ env }}", &none)
            .await
            .unwrap();
        assert_eq!(text, "none");
    }
}
