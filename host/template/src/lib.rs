//! The run's Jinja templates: prompts, observations, error feedback, and the templates that plugins
//! render through the host.
//!
//! They are rendered by a component (`engine/`), with limits of time, memory and output, because a template
//! may be hostile. The plugin host runs it; nothing here depends on wasm. Templates have access to their variables only. The callers choose the templates and the
//! variables.

mod error;
mod rendering;
mod wire;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use mswea_core::Object;
use serde_json::Value as Json;

pub use error::{EngineFailure, NO_ENGINE, TemplateError, TemplateFault, Unrendered};
pub use rendering::{Rendering, TemplateEngine};

/// Bytes of one template's source.
pub const MAX_SOURCE: usize = 256 << 10;

/// Templates whose words are kept.
const KNOWN: usize = 128;

/// The words of a template, among which are the names of its variables.
type Words = Arc<[Box<str>]>;

/// Renders templates.
pub struct Templates {
    engine: Arc<dyn TemplateEngine>,
    words: Mutex<HashMap<Box<str>, Words>>,
}

/// Variables in two layers; the upper one takes precedence.
#[derive(Clone, Copy)]
pub struct Vars<'v> {
    base: &'v Object,
    /// Names of `base` that are hidden.
    without: Option<&'v BTreeSet<String>>,
    between: Option<&'v Object>,
    over: &'v Object,
}

impl std::fmt::Debug for Templates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Templates").finish_non_exhaustive()
    }
}

impl Templates {
    /// Renders with this engine.
    pub fn new(engine: Arc<dyn TemplateEngine>) -> Self {
        Self {
            engine,
            words: Mutex::default(),
        }
    }

    /// Compiles a template without rendering it; `name` is its name in errors.
    ///
    /// # Errors
    /// [`TemplateError`] if it has a syntax error, or uses a filter or test that does not exist.
    pub fn check(&self, name: &str, template: &str) -> Result<(), TemplateError> {
        let none = Object::new();
        let vars = Vars::new(&none, &none);
        let checked = match self.start(template, vars) {
            Ok(rendering) => Rendering {
                vars: None,
                ..rendering
            }
            .wait()
            .map_err(|failed| failed.describe(vars)),
            Err(error) => Err(error),
        };
        checked.map(drop).map_err(|error| error.named(name))
    }

    /// Renders a template; waits for one that takes long.
    ///
    /// # Errors
    /// [`TemplateError`] if it does not compile, uses an undefined value, or exceeds a limit.
    pub fn render(&self, template: &str, vars: &Object) -> Result<String, TemplateError> {
        let none = Object::new();
        let vars = Vars::new(vars, &none);
        let rendered = self.start(template, vars)?.wait();
        rendered.map_err(|failed| failed.describe(vars))
    }

    /// Prepares a rendering. Only variables that the template names are copied.
    ///
    /// # Errors
    /// [`TemplateError`] if the template is too long.
    pub fn start(&self, template: &str, vars: Vars<'_>) -> Result<Rendering, TemplateError> {
        if template.len() > MAX_SOURCE {
            return Err(TemplateError::too_long(template.len(), MAX_SOURCE));
        }
        Ok(Rendering {
            engine: self.engine.clone(),
            template: template.to_owned(),
            vars: Some(vars.written(&self.words(template))),
        })
    }

    fn words(&self, template: &str) -> Words {
        let mut known = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(words) = known.get(template) {
            return words.clone();
        }
        if known.len() == KNOWN {
            known.clear();
        }
        let words: Words = words(template).into();
        known.insert(template.into(), words.clone());
        words
    }
}

/// Every word of a template that may be a variable: not the names of attributes, which follow a dot.
fn words(source: &str) -> Vec<Box<str>> {
    let mut words: Vec<&str> = source
        .split(|char: char| !char.is_ascii_alphanumeric() && char != '_' && char != '.')
        .flat_map(|dotted| dotted.split('.').take(1))
        .filter(|word| !word.is_empty())
        .collect();
    words.sort_unstable();
    words.dedup();
    words.into_iter().map(Box::from).collect()
}

impl<'v> Vars<'v> {
    /// `over` laid over `base`; values are replaced whole.
    pub fn new(base: &'v Object, over: &'v Object) -> Self {
        Self {
            base,
            without: None,
            between: None,
            over,
        }
    }

    /// Hides some names of `base`, and replaces the values of others.
    pub fn hiding(self, without: &'v BTreeSet<String>, between: &'v Object) -> Self {
        Self {
            without: Some(without),
            between: Some(between),
            ..self
        }
    }

    fn get(&self, name: &str) -> Option<&'v Json> {
        let hidden = || self.without.is_some_and(|without| without.contains(name));
        let between = || self.between.and_then(|between| between.get(name));
        let base = || self.base.get(name).filter(|_| !hidden());
        self.over.get(name).or_else(between).or_else(base)
    }

    /// Every name once; those of the upper layer first.
    pub fn names(&self) -> impl Iterator<Item = &'v str> {
        let Self {
            base,
            without,
            between,
            over,
        } = *self;
        let between_has = move |name: &str| between.is_some_and(|map| map.contains_key(name));
        let hidden = move |name: &str| without.is_some_and(|names| names.contains(name));
        let middle = between.into_iter().flat_map(Object::keys);
        let middle = middle.filter(|name| !over.contains_key(*name));
        let base = base
            .keys()
            .filter(move |name| !over.contains_key(*name) && !between_has(name) && !hidden(name));
        over.keys().chain(middle).chain(base).map(String::as_str)
    }

    /// The variables among these words, for the engine. Each word is looked up, because there are far more
    /// variables (those of the process) than words.
    fn written(&self, words: &[Box<str>]) -> Vec<u8> {
        let named = words.iter().map(|word| (&**word, self.get(word)));
        let named: Vec<(&str, &Json)> = named
            .filter_map(|(word, json)| Some((word, json?)))
            .collect();
        let mut out = Vec::new();
        wire::write_map(&mut out, named.len(), named.into_iter());
        out
    }
}
