//! The run's Jinja environment: prompts, observations, error feedback, and the templates that
//! plugins render through the host.
//!
//! It is minijinja, adapted to print what Jinja2 prints (`vectors.json` holds Jinja2's results) and
//! strict about undefined variables. Templates have access to their variables only, and their
//! steps, memory, time, nesting and output are limited (`guard.rs`, `meter.rs`). The callers choose
//! the templates and the variables.

mod args;
mod braces;
mod checks;
mod compiled;
mod error;
mod filters;
mod format;
mod functions;
mod group;
mod guard;
mod memory;
mod meter;
mod methods;
mod objects;
mod operators;
mod percent;
mod printf;
pub mod python;
mod refusal;
mod rendering;
mod scan;
mod sequences;
mod slices;
mod text_filters;
mod threads;
mod tojson;
mod weight;
mod wrap;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use minijinja::{AutoEscape, Environment, UndefinedBehavior, Value};
use serde_json::Value as Json;

use compiled::Compiled;
use meter::RenderLimits;
use mswea_core::Object;
use rendering::Heavy;

pub use error::{NO_THREAD, TemplateError};
pub use python::splitlines;
pub use rendering::StartedRendering;

/// How deeply blocks, macros and includes may nest.
const MAX_RECURSION: usize = 150;

/// Bytes that one rendering may print.
const MAX_OUTPUT: usize = 64 << 20;

/// Bytes of one template's source.
const MAX_SOURCE: usize = 256 << 10;

/// Compiled templates that are kept.
const CACHED: usize = 128;

/// Longer templates may take seconds to compile, so this happens on a thread for which the caller
/// can stop waiting.
const LONG_SOURCE: usize = 8 << 10;

/// Compiling recurses without a limit, for example for `----1`, so it is done on a stack of its
/// own, with 1 KiB for each byte of the longest template; only the part that is used takes memory.
const BIG_STACK: usize = 256 << 20;

/// Renders templates and keeps their compiled forms. It is shared by `Arc`.
pub struct Templates {
    engine: Arc<TemplateEngine>,
}

/// The part that rendering threads share.
struct TemplateEngine {
    /// With the steps of [`RenderLimits::LIGHT`].
    light: Environment<'static>,
    /// With the steps of [`RenderLimits::FULL`].
    full: Environment<'static>,
    cache: Mutex<TemplateCache>,
}

#[derive(Default)]
struct TemplateCache {
    clock: u64,
    entries: HashMap<Box<str>, (u64, Arc<Compiled>)>,
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
    /// An environment without compiled templates.
    pub fn new() -> Self {
        let mut full = environment();
        full.set_fuel(Some(RenderLimits::FULL.fuel));
        let mut light = full.clone();
        light.set_fuel(Some(RenderLimits::LIGHT.fuel));
        let cache = Mutex::default();
        Self {
            engine: Arc::new(TemplateEngine { light, full, cache }),
        }
    }

    /// Compiles a template without rendering it; `name` is its name in errors.
    ///
    /// # Errors
    /// [`TemplateError`] if it has a syntax error, or uses a filter or test that does not exist.
    pub fn check(&self, name: &str, template: &str) -> Result<(), TemplateError> {
        match self.engine.compiled(template) {
            Ok(_) => Ok(()),
            Err(error) => Err(error.named(name)),
        }
    }

    /// Renders a template; waits for one that takes long.
    ///
    /// # Errors
    /// [`TemplateError`] if it does not compile, uses an undefined value, or exceeds a limit.
    pub fn render(&self, template: &str, vars: &Object) -> Result<String, TemplateError> {
        let none = Object::new();
        let vars = Vars::new(vars, &none);
        match self.start(template, vars) {
            StartedRendering::Done(done) => done,
            StartedRendering::Heavy(heavy) => heavy.wait().map_err(|failed| failed.describe(vars)),
        }
    }

    /// Renders a template in place if it stays within small limits. Otherwise it has to be rendered
    /// again on a thread; that is possible because a rendering has no effects. Only variables that
    /// the template names are copied.
    pub fn start(&self, template: &str, vars: Vars<'_>) -> StartedRendering {
        if template.len() > LONG_SOURCE && self.engine.known(template).is_none() {
            let context = vars.context(&compiled::words(template));
            return StartedRendering::Heavy(Heavy::new(self.engine.clone(), template, context));
        }
        let compiled = match self.engine.compiled(template) {
            Ok(compiled) => compiled,
            Err(error) => return StartedRendering::Done(Err(error)),
        };
        let context = vars.context(&compiled.words);
        match rendering::render(
            &self.engine.light,
            &compiled,
            context,
            RenderLimits::LIGHT,
            None,
        ) {
            Err(failed) if failed.is_for_more() => {
                let context = vars.context(&compiled.words);
                StartedRendering::Heavy(Heavy::new(self.engine.clone(), template, context))
            }
            done => StartedRendering::Done(
                done.map_err(|failed| failed.describe(compiled.source(), vars)),
            ),
        }
    }
}

fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_unknown_method_callback(methods::unknown_method);
    environment.set_recursion_limit(MAX_RECURSION);
    // costs nothing without an error, and gives errors a position in the source
    environment.set_debug(true);
    environment
        .set_formatter(|out, _, value| python::print(out, value).map_err(minijinja::Error::from));
    // it would print the variables of a run into a prompt; Jinja2 has no such function
    environment.remove_global("debug");
    filters::add_to(&mut environment);
    text_filters::add_to(&mut environment);
    sequences::add_to(&mut environment);
    checks::add_to(&mut environment);
    functions::add_to(&mut environment);
    operators::add_to(&mut environment);
    environment
}

impl TemplateEngine {
    /// The compiled form of a template, if it is cached.
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
        // compiled without holding the lock, so that a long template does not block other runs
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
    let work = threads::KeptWork::new(run);
    std::thread::scope(|scope| {
        let spawned = threads::patiently(BIG_STACK, |thread| {
            thread.spawn_scoped(scope, || work.take()())
        });
        match spawned.map(std::thread::ScopedJoinHandle::join) {
            Ok(Ok(result)) => result,
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            Err(error) => Err(TemplateError::no_thread(&error)),
        }
    })
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

    /// The variables among these words. Each word is looked up, because there are far more variables
    /// (those of the process) than words.
    fn context(&self, words: &[Box<str>]) -> Value {
        let named = words.iter().map(|word| (word, self.get(word)));
        Value::from_pairs(named.filter_map(|(word, json)| Some((&**word, to_value(json?)))))
    }
}

/// JSON as the engine's value; integers and floats stay what they are.
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
