//! The run's Jinja environment: prompts, observations, error feedback, and whatever plugins
//! render through the host.
//!
//! It is minijinja, made to print what Jinja2 prints (`vectors.json` holds what the real one
//! gave) and strict about undefined variables. Templates are bounded in what they can do to
//! the host: they reach nothing but their variables, and steps, memory, time, nesting and
//! output are limited (`guard.rs`, `meter.rs`). Not here: where templates come from, and which variables there are.

mod args;
mod braces;
mod checks;
mod compiled;
mod error;
mod filters;
mod format;
mod group;
mod guard;
mod memory;
mod meter;
mod methods;
mod objects;
mod operators;
mod percent;
mod printf;
pub(crate) mod python;
mod rendering;
mod scan;
mod sequences;
mod slices;
mod text_filters;
mod tojson;
mod wrap;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use minijinja::{AutoEscape, Environment, UndefinedBehavior, Value};
use serde_json::Value as Json;

use crate::roles::Object;
use compiled::Compiled;
use meter::Limits;
use rendering::Heavy;

pub use error::TemplateError;
pub use python::splitlines;
pub(crate) use rendering::Started;

/// How deeply blocks, macros and includes may nest.
const MAX_RECURSION: usize = 150;

/// Bytes that one rendering may print.
const MAX_OUTPUT: usize = 64 << 20;

/// Bytes of one template's source.
const MAX_SOURCE: usize = 256 << 10;

/// Compiled templates that are kept.
const CACHED: usize = 128;

/// Longer templates are compiled where they can be left: that takes seconds at the worst.
const LONG_SOURCE: usize = 8 << 10;

/// Compiling recurses, for `----1` without a limit, so it is done on a stack of its own, with
/// 1 KiB for each byte that a template may have; only what is used is ever backed by memory.
const BIG_STACK: usize = 256 << 20;

/// Renders templates; compiled ones are kept. Share it by `Arc`.
pub struct Templates {
    engine: Arc<Engine>,
}

/// What threads that render share.
struct Engine {
    /// With the steps of [`Limits::LIGHT`].
    light: Environment<'static>,
    /// With those of [`Limits::FULL`].
    full: Environment<'static>,
    cache: Mutex<Cache>,
}

#[derive(Default)]
struct Cache {
    clock: u64,
    entries: HashMap<Box<str>, (u64, Arc<Compiled>)>,
}

/// Variables in layers; the later one wins.
#[derive(Clone, Copy)]
pub(crate) struct Vars<'v> {
    base: &'v Object,
    /// Names of `base` that are not there.
    without: Option<&'v BTreeSet<String>>,
    between: Option<&'v Object>,
    over: &'v Object,
}

impl Default for Templates {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Templates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Templates").finish_non_exhaustive()
    }
}

impl Templates {
    /// An environment with nothing compiled yet.
    pub fn new() -> Self {
        let mut full = environment();
        full.set_fuel(Some(Limits::FULL.fuel));
        let mut light = full.clone();
        light.set_fuel(Some(Limits::LIGHT.fuel));
        let cache = Mutex::default();
        Self {
            engine: Arc::new(Engine { light, full, cache }),
        }
    }

    /// Compiles a template without rendering it; `name` is what an error calls it.
    ///
    /// # Errors
    /// When it has a syntax error, or uses a filter or test that does not exist.
    pub fn check(&self, name: &str, template: &str) -> Result<(), TemplateError> {
        match self.engine.compiled(template) {
            Ok(_) => Ok(()),
            Err(error) => Err(error.named(name)),
        }
    }

    /// Renders a template, however long it takes.
    ///
    /// # Errors
    /// When it does not compile, uses something undefined, or exceeds a limit.
    pub fn render(&self, template: &str, vars: &Object) -> Result<String, TemplateError> {
        let none = Object::new();
        let vars = Vars::new(vars, &none);
        match self.start(template, vars) {
            Started::Done(done) => done,
            Started::Heavy(heavy) => heavy.wait().map_err(|failed| failed.describe(vars)),
        }
    }

    /// Renders a template in place if that takes no time; else it is to be done on a thread,
    /// anew: a rendering has no effects. No variable is copied that the template does not name.
    pub(crate) fn start(&self, template: &str, vars: Vars<'_>) -> Started {
        if template.len() > LONG_SOURCE && self.engine.known(template).is_none() {
            let context = vars.context(&compiled::words(template));
            return Started::Heavy(Heavy::new(self.engine.clone(), template, context));
        }
        let compiled = match self.engine.compiled(template) {
            Ok(compiled) => compiled,
            Err(error) => return Started::Done(Err(error)),
        };
        let context = vars.context(&compiled.words);
        match rendering::render(&self.engine.light, &compiled, context, Limits::LIGHT, None) {
            Err(failed) if failed.is_for_more() => {
                let context = vars.context(&compiled.words);
                Started::Heavy(Heavy::new(self.engine.clone(), template, context))
            }
            done => Started::Done(done.map_err(|failed| failed.describe(compiled.source(), vars))),
        }
    }
}

fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_unknown_method_callback(methods::unknown_method);
    environment.set_recursion_limit(MAX_RECURSION);
    // costs nothing until there is an error, and then gives its place in the source
    environment.set_debug(true);
    environment
        .set_formatter(|out, _, value| python::print(out, value).map_err(minijinja::Error::from));
    // would print the variables of a run into a prompt; Jinja2 has no such function
    environment.remove_global("debug");
    filters::add_to(&mut environment);
    text_filters::add_to(&mut environment);
    sequences::add_to(&mut environment);
    checks::add_to(&mut environment);
    objects::add_to(&mut environment);
    operators::add_to(&mut environment);
    environment
}

impl Engine {
    /// The compiled form of a template, if it is kept.
    fn known(&self, template: &str) -> Option<Arc<Compiled>> {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.clock += 1;
        let now = cache.clock;
        let (used, compiled) = cache.entries.get_mut(template)?;
        *used = now;
        Some(Arc::clone(compiled))
    }

    fn compiled(&self, template: &str) -> Result<Arc<Compiled>, TemplateError> {
        if template.len() > MAX_SOURCE {
            return Err(TemplateError::too_long(template.len(), MAX_SOURCE));
        }
        if let Some(known) = self.known(template) {
            return Ok(known);
        }
        // compiled without the lock: a long template must not stop other runs
        let compiled = on_big_stack(|| Compiled::new(template, &self.full))?;
        let compiled = Arc::new(compiled);
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let now = cache.clock;
        if cache.entries.len() >= CACHED {
            let oldest = cache.entries.iter().min_by_key(|(_, (used, _))| *used);
            if let Some(key) = oldest.map(|(key, _)| key.clone()) {
                cache.entries.remove(&key);
            }
        }
        cache
            .entries
            .insert(template.into(), (now, Arc::clone(&compiled)));
        Ok(compiled)
    }
}

fn on_big_stack<T: Send>(
    run: impl FnOnce() -> Result<T, TemplateError> + Send,
) -> Result<T, TemplateError> {
    std::thread::scope(|scope| {
        let spawned = std::thread::Builder::new()
            .name("template".to_owned())
            .stack_size(BIG_STACK)
            .spawn_scoped(scope, run);
        match spawned.map(std::thread::ScopedJoinHandle::join) {
            Ok(Ok(result)) => result,
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            Err(error) => Err(TemplateError::no_thread(&error)),
        }
    })
}

impl<'v> Vars<'v> {
    /// `over` laid over `base`, key by key, not deeper.
    pub(crate) fn new(base: &'v Object, over: &'v Object) -> Self {
        Self {
            base,
            without: None,
            between: None,
            over,
        }
    }

    /// Without some names of `base`, and with other values for others.
    pub(crate) fn hiding(self, without: &'v BTreeSet<String>, between: &'v Object) -> Self {
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

    /// Every name once; those of the upper layers first.
    fn names(&self) -> impl Iterator<Item = &'v str> {
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

    fn context(&self, words: &HashSet<Box<str>>) -> Value {
        let named = self.names().filter(|name| words.contains(*name));
        Value::from_pairs(named.filter_map(|name| Some((name, to_value(self.get(name)?)))))
    }
}

/// JSON as the engine's value; numbers stay what they are.
fn to_value(json: &Json) -> Value {
    match json {
        Json::Null => Value::from(()),
        Json::Bool(flag) => Value::from(*flag),
        Json::Number(number) => {
            if let Some(whole) = number.as_i64() {
                Value::from(whole)
            } else if let Some(whole) = number.as_u64() {
                Value::from(whole)
            } else {
                Value::from(number.as_f64().unwrap_or(f64::NAN))
            }
        }
        Json::String(text) => Value::from(text.as_str()),
        Json::Array(items) => items.iter().map(to_value).collect(),
        Json::Object(map) => Value::from_pairs(
            map.iter()
                .map(|(key, value)| (key.as_str(), to_value(value))),
        ),
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod corpus_tests;
