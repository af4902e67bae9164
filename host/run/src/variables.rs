//! The variables of all templates of a run, which the loop updates.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use serde_json::Value;

use mswea_core::Object;
use mswea_record::Account;
use mswea_template::{TemplateError, Templates, Vars};

/// Makes a copy without values that look like secrets, by their names or their form.
pub type Redact = fn(&Value) -> Value;

/// Templates with the run's variables.
pub struct Variables {
    templates: Arc<Templates>,
    redact: Redact,
    known: RwLock<Known>,
}

struct Known {
    base: Object,
    /// Names of variables in `base` that any other variable of the same name replaces.
    weak: BTreeSet<String>,
    /// Names of variables in `base` that are the state of tools.
    of_tools: BTreeSet<String>,
    /// The values without secrets that plugins from outside get in place of those in `base`.
    hidden: Object,
}

impl Known {
    fn set(&mut self, name: &str, value: Value, redact: Redact) {
        self.weak.remove(name);
        self.hidden.remove(name);
        if value.is_number() {
            // The counters change in every step; their names are not copied again.
            if let Some(known) = self.base.get_mut(name) {
                *known = value;
                return;
            }
        } else {
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
    /// Begins with `clean`: config values without secrets. Of variables that are added, plugins from
    /// outside get the values without the secrets that `redact` removes.
    pub fn new(templates: Arc<Templates>, clean: Object, redact: Redact) -> Self {
        let known = Known {
            base: clean,
            weak: BTreeSet::new(),
            of_tools: BTreeSet::new(),
            hidden: Object::new(),
        };
        Self {
            templates,
            redact,
            known: RwLock::new(known),
        }
    }

    /// Adds variables that never replace others, now or later: the variables of the process, which
    /// may have any name.
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

    /// Updates the variables that are the state of tools. They never replace other variables.
    pub fn learn(&self, state: &Object) {
        let mut known = self.write();
        for (name, value) in state {
            let is_free = !known.base.contains_key(name) || known.weak.contains(name);
            if is_free || known.of_tools.contains(name) {
                known.of_tools.insert(name.clone());
                if known.base.get(name) != Some(value) {
                    known.set(name, value.clone(), self.redact);
                }
            }
        }
    }

    /// The variables that come from the process and from tools, which no config has.
    pub(crate) fn unrecorded(&self) -> Object {
        let known = self.read();
        let names = known.weak.iter().chain(&known.of_tools);
        let found = names.filter_map(|name| Some((name.clone(), known.base.get(name)?.clone())));
        found.collect()
    }

    /// Updates the counters; `now` is in Unix seconds.
    pub fn update(&self, account: &Account, now: f64) {
        let mut known = self.write();
        for (name, value) in [
            ("n_model_calls", account.queries.into()),
            ("model_cost", account.cost.into()),
            ("elapsed_seconds", (account.elapsed(now) as u64).into()),
        ] {
            known.set(name, value, self.redact);
        }
    }

    /// [`Variables::render`] for a plugin from outside. Its template may name any variable, but it
    /// must not get the variables of the process or values that `config show` hides.
    ///
    /// # Errors
    /// A message with line and column, if the template is invalid or can't be rendered.
    pub async fn render_for_guest(
        &self,
        template: &str,
        over: &Object,
    ) -> Result<String, TemplateError> {
        self.rendered(template, over, true).await
    }

    /// Renders with the run's variables; those in `over` replace variables with the same name.
    ///
    /// # Errors
    /// A message with line and column, if the template is invalid or can't be rendered.
    pub async fn render(&self, template: &str, over: &Object) -> Result<String, TemplateError> {
        self.rendered(template, over, false).await
    }

    async fn rendered(
        &self,
        template: &str,
        over: &Object,
        is_guest: bool,
    ) -> Result<String, TemplateError> {
        // the lock is not held during the rendering
        let rendering = self
            .templates
            .start(template, self.read().vars(over, is_guest))?;
        let rendered = rendering.run().await;
        rendered.map_err(|failed| failed.describe(self.read().vars(over, is_guest)))
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
        let variables = Variables::new(
            Arc::new(mswea_plugin_host::templates(None)),
            base,
            Value::clone,
        )
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
        let templates = Arc::new(mswea_plugin_host::templates(None));
        let variables = Variables::new(templates, Object::new(), redact);
        variables.add(base);
        let none = Object::new();
        let template = "{{ task }} {{ env.TOKEN }} {{ env.PAGER }}";
        for (token, shown) in [("1", "[redacted]"), ("2", "[redacted]")] {
            let text = variables.render(template, &none).await.unwrap();
            assert_eq!(text, format!("t {token} cat"));
            let text = variables.render_for_guest(template, &none).await.unwrap();
            assert_eq!(text, format!("t {shown} cat"));
            variables.set("env", json!({"TOKEN": "2", "PAGER": "cat"}));
        }
        // Variables that the plugin passes are not redacted.
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
