//! Converts SWE-agent's configuration to that of this host. A key without a counterpart is refused
//! by name, unless its value has no effect.

mod agent;
mod demonstrations;
mod environment;
mod model;
mod summarizer;
mod templates;

use serde_json::{Map, Value};

pub(crate) use environment::IMAGE;
use mswea_config::Origin;

use crate::fault::{SweAgentError, SweAgentProblem};
use crate::given_at::GivenAt;
use crate::keys::shortened;
use crate::problem::SweProblem;
use crate::tree::GivenTree;

/// The configuration of this host for a run with SWE-agent's configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Translated {
    /// Dotted keys of this host, with their values and the places of the original values.
    pub settings: Vec<(String, Value, Origin)>,
    /// Secrets in the configuration, by the names of variables under which keys of this host name
    /// them.
    pub secrets: Vec<(String, String)>,
    /// Warnings about values without an effect.
    pub warnings: Vec<String>,
}

impl Translated {
    /// The value of a key of this host; the last one takes precedence.
    pub fn value(&self, key: &str) -> Option<&Value> {
        let found = self.settings.iter().rev().find(|(name, _, _)| name == key);
        found.map(|(_, value, _)| value)
    }
}

/// The inputs of a translation.
#[derive(Clone, Copy)]
pub struct TranslationInput<'a> {
    /// The merged configuration, checked against the table of keys.
    pub tree: &'a GivenTree,
    /// The task.
    pub problem: &'a SweProblem,
    /// The folder of the instance's files.
    pub folder: &'a str,
    /// The index of the instance in its batch, from 0: the instances use the keys of the model in
    /// turn.
    pub place: usize,
    /// Looks up a variable of this process.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
}

/// Translates a configuration.
///
/// # Errors
/// [`SweAgentError`] with all values that can't be translated.
pub fn translate(input: TranslationInput<'_>) -> Result<Translated, SweAgentError> {
    let mut work = TranslationWork {
        input,
        done: Translated {
            warnings: Vec::new(),
            ..Translated::default()
        },
        problems: Vec::new(),
    };
    environment::deployment(&mut work);
    environment::repository(&mut work);
    agent::agent(&mut work);
    agent::tools(&mut work);
    agent::history(&mut work);
    templates::templates(&mut work);
    demonstrations::demonstrations(&mut work);
    model::model(&mut work);
    match work.problems.is_empty() {
        true => Ok(work.done),
        false => Err(SweAgentError(work.problems)),
    }
}

/// Translates only the model of a configuration, for a question outside of a run.
///
/// # Errors
/// [`SweAgentError`] with all values that can't be translated.
pub fn translate_model(input: TranslationInput<'_>) -> Result<Translated, SweAgentError> {
    let mut work = TranslationWork {
        input,
        done: Translated::default(),
        problems: Vec::new(),
    };
    model::model(&mut work);
    match work.problems.is_empty() {
        true => Ok(work.done),
        false => Err(SweAgentError(work.problems)),
    }
}

impl Translated {
    /// Gives the secrets names of their own, which end with `tag`, because several configurations
    /// of one process may contain different keys.
    #[must_use]
    pub fn with_own_secrets(mut self, tag: &str) -> Self {
        for (name, _) in &mut self.secrets {
            let own = format!("{name}_{tag}");
            for (_, value, _) in &mut self.settings {
                if value.as_str() == Some(name) {
                    *value = own.as_str().into();
                }
            }
            *name = own;
        }
        self
    }
}

/// The state of a translation.
struct TranslationWork<'a> {
    input: TranslationInput<'a>,
    done: Translated,
    problems: Vec<SweAgentProblem>,
}

impl<'a> TranslationWork<'a> {
    /// The value that was given for a key, unless it is null.
    fn given(&self, key: &str) -> Option<&'a GivenTree> {
        self.input.tree.given(key)
    }

    fn text(&self, key: &str) -> Option<&'a str> {
        self.given(key).and_then(GivenTree::text)
    }

    fn number(&self, key: &str) -> Option<f64> {
        self.given(key)?.value().as_f64()
    }

    fn put(&mut self, key: &str, value: impl Into<Value>, at: &GivenAt) {
        let origin = match at.clone() {
            GivenAt::File { path, line, column } => Origin::File { path, line, column },
            GivenAt::Record(path) => Origin::File {
                path,
                line: 1,
                column: 1,
            },
            GivenAt::Flag(name) => Origin::Flag { name },
            GivenAt::Variable(name) => Origin::Variable { name },
        };
        self.done
            .settings
            .push((key.to_owned(), value.into(), origin));
    }

    /// Adds a value of this host that the user did not give.
    fn put_fixed(&mut self, key: &str, value: impl Into<Value>) {
        let at = GivenAt::Flag("sweagent run".to_owned());
        self.put(key, value, &at);
    }

    /// Adds the given value under another name, else `default`.
    fn copy(&mut self, from: &str, to: &str, default: impl Into<Value>) {
        match self.given(from) {
            Some(tree) => self.put(to, tree.value(), &tree.at),
            None => self.put_fixed(to, default),
        }
    }

    /// Adds a number under another name, as a float.
    fn copy_number(&mut self, from: &str, to: &str, default: f64) {
        match (self.given(from), self.number(from)) {
            (Some(tree), Some(number)) => self.put(to, number, &tree.at),
            _ => self.put_fixed(to, default),
        }
    }

    fn refuse(&mut self, at: &GivenAt, message: impl Into<String>, hint: &str) {
        let problem = SweAgentProblem::at(at, message);
        self.problems.push(problem.hint(hint));
    }

    /// Refuses a key whose value is not among those without an effect.
    fn refuse_unless(&mut self, key: &str, idle: &[Value], hint: &str) {
        if let Some(tree) = self.given(key)
            && !idle.contains(&tree.value())
        {
            let message = format!(
                "`{key}` = `{}` can't be done here",
                shortened(&tree.value())
            );
            self.refuse(&tree.at, message, hint);
        }
    }

    fn warn_unless(&mut self, key: &str, idle: &[Value], why: &str) {
        if let Some(tree) = self.given(key)
            && !idle.contains(&tree.value())
        {
            self.done
                .warnings
                .push(format!("`{key}` ({}) has no effect: {why}", tree.at));
        }
    }

    /// A list of texts.
    fn texts(&mut self, key: &str) -> Vec<String> {
        let mut texts = Vec::new();
        for item in self.given(key).map(GivenTree::items).unwrap_or_default() {
            match item.text() {
                Some(text) => texts.push(text.to_owned()),
                None => {
                    let message = format!(
                        "`{key}` is a list of texts, and `{}` is none",
                        shortened(&item.value())
                    );
                    self.refuse(&item.at, message, "put it into quotes");
                }
            }
        }
        texts
    }
}

/// A map with its values as texts, as Python writes them.
fn as_texts(tree: &GivenTree) -> Map<String, Value> {
    let entries = tree.entries().iter();
    entries
        .map(|(name, tree)| (name.clone(), as_text(&tree.value()).into()))
        .collect()
}

fn as_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Null => "None".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests;
