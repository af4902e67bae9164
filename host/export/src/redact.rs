//! SecretValues are blanked in every text before a run leaves this machine.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, RwLock};

use mswea_secrecy::{SecretFinder, keys_in, replaced};
use serde_json::Value;

use crate::conversation::{Conversation, ConversationStep};

/// The text that replaces a secret.
const BLANK: &str = "[secret removed]";
/// The shortest secret value. Shorter ones would also match ordinary words.
const SHORTEST: usize = 8;
/// The secrets that are removed: values that are known to be secret, and keys of well-known
/// services. Values that are added later are shared with all clones.
#[derive(Clone, Default)]
pub struct SecretValues(Arc<RwLock<KnownValues>>);

#[derive(Default)]
struct KnownValues {
    values: BTreeSet<String>,
    finder: Option<SecretFinder>,
}

impl SecretValues {
    /// With these values; short ones are left out.
    pub fn new(values: impl IntoIterator<Item = String>) -> Self {
        let all = Self::default();
        all.add(values);
        all
    }

    /// Adds values to this one and to its clones.
    pub fn add(&self, values: impl IntoIterator<Item = String>) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let before = known.values.len();
        let values = values.into_iter().filter(|it| it.len() >= SHORTEST);
        known.values.extend(values);
        if known.values.len() > before {
            known.finder = SecretFinder::new(&known.values);
        }
    }

    /// Removes secrets from every text that an export contains.
    pub fn remove_from(&self, run: &mut Conversation) {
        self.clean(&mut run.submission);
        self.clean(&mut run.task);
        let told = [&mut run.exit_status, &mut run.failure];
        told.into_iter().flatten().for_each(|it| self.clean(it));
        run.tools.iter_mut().for_each(|it| self.clean_value(it));
        for step in &mut run.steps {
            self.remove_from_step(step);
        }
    }

    /// Removes secrets from a step.
    pub fn remove_from_step(&self, step: &mut ConversationStep) {
        self.clean(&mut step.text);
        self.clean(&mut step.reasoning);
        step.images.iter_mut().for_each(|it| self.clean_address(it));
        for call in &mut step.calls {
            self.clean_value(&mut call.arguments);
        }
        for shown in &mut step.shown {
            self.clean(&mut shown.text);
            shown
                .images
                .iter_mut()
                .for_each(|it| self.clean_address(it));
            if let Some(exception) = &mut shown.exception {
                self.clean(exception);
            }
        }
    }

    /// Removes secrets from a text.
    pub fn remove_from_text(&self, text: &mut String) {
        self.clean(text);
    }

    /// Removes secrets from all texts of a value. A whole document goes through this last: what no list of
    /// fields names is in it, too.
    pub fn remove_from_value(&self, value: &mut Value) {
        self.clean_value(value);
    }

    /// The same for lines of JSON.
    pub fn remove_from_lines(&self, text: &str) -> String {
        let lines = text
            .lines()
            .map(|line| match serde_json::from_str::<Value>(line) {
                Ok(mut value) => {
                    self.clean_value(&mut value);
                    format!("{value}\n")
                }
                Err(_) => {
                    let mut line = format!("{line}\n");
                    self.clean(&mut line);
                    line
                }
            });
        lines.collect()
    }

    fn clean_address(&self, address: &mut String) {
        if crate::images::embedded(address).is_none() {
            self.clean(address);
        }
    }

    fn clean_value(&self, value: &mut Value) {
        match value {
            Value::String(text) => self.clean(text),
            Value::Array(items) => items.iter_mut().for_each(|it| self.clean_value(it)),
            Value::Object(object) => {
                let keys = std::mem::take(object);
                *object = keys
                    .into_iter()
                    .map(|(mut key, mut value)| {
                        self.clean(&mut key);
                        self.clean_value(&mut value);
                        (key, value)
                    })
                    .collect();
            }
            _ => {}
        }
    }

    fn clean(&self, text: &mut String) {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let finder = known.finder.clone();
        drop(known);
        let places = finder.map(|it| it.find(text)).unwrap_or_default();
        if !places.is_empty() {
            *text = replaced(text, &places, BLANK);
        }
        let keys = keys_in(text);
        if !keys.is_empty() {
            *text = replaced(text, &keys, BLANK);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_blanked() {
        let secrets = SecretValues::new(["hunter2-hunter2".to_owned(), "short".to_owned()]);
        for (before, after) in [
            ("a hunter2-hunter2 b", "a [secret removed] b"),
            ("short", "short"),
            ("KEY=sk-abcdefghij0123456789\n", "KEY=[secret removed]\n"),
            ("\"ghp_abcdefghij0123456789\"", "\"[secret removed]\""),
            ("a\\nsk-abcdefghij0123456789", "a\\n[secret removed]"),
            (
                "\u{1b}[01;31m\u{1b}[Ksk-abcdefghij0123456789",
                "\u{1b}[01;31m\u{1b}[K[secret removed]",
            ),
            ("q=%3Dsk-abcdefghij0123456789", "q=%3D[secret removed]"),
            (
                "{\"k\": \"p\\u0026ss<word\"}",
                "{\"k\": \"p\\u0026ss<word\"}",
            ),
            (
                "a task-oriented sk-learn ä AKIA",
                "a task-oriented sk-learn ä AKIA",
            ),
            (
                "sk-a-css-class-of-some-length",
                "sk-a-css-class-of-some-length",
            ),
        ] {
            let mut text = before.to_owned();
            secrets.clean(&mut text);
            assert_eq!(text, after);
        }
        let secrets = SecretValues::new(["p&ssw<or\"d>".to_owned()]);
        for before in [
            "p&ssw<or\"d>",
            "p&ssw<or\\\"d>",
            "p\\u0026ssw\\u003cor\\\"d\\u003e",
        ] {
            let mut text = before.to_owned();
            secrets.clean(&mut text);
            assert_eq!(text, BLANK, "{before}");
        }
    }
}
