//! The run's Jinja environment: prompts, observations, error feedback, and whatever plugins
//! render through the host.
//!
//! It is minijinja, made to print what Jinja2 prints (`vectors.json` holds what the real one
//! gave) and strict about undefined variables. Templates are bounded in what they can do to
//! the host: they reach nothing but their variables, and steps, nesting and output are
//! limited. Not here: where templates come from, and which variables there are.

mod args;
mod braces;
mod checks;
mod error;
mod filters;
mod format;
mod group;
mod methods;
mod objects;
mod percent;
mod printf;
pub(crate) mod python;
mod scan;
mod sequences;
mod text_filters;
mod tojson;
mod wrap;

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use minijinja::{AutoEscape, Environment, ErrorKind, UndefinedBehavior, Value};
use serde_json::Value as Json;

use crate::roles::Object;

pub use error::TemplateError;
pub use python::splitlines;

/// Steps of the engine that one rendering may take: a loop over 50,000 lines of output, with
/// ten steps a line, is half of it.
const MAX_FUEL: u64 = 1_000_000;

/// How deeply blocks, macros and includes may nest.
const MAX_RECURSION: usize = 150;

/// Bytes that one rendering may print.
const MAX_OUTPUT: usize = 64 << 20;

/// Bytes of one template's source.
const MAX_SOURCE: usize = 256 << 10;

/// Compiled templates that are kept.
const CACHED: usize = 128;

/// Templates that could nest values a few thousand levels deep are rendered on a stack of
/// their own: freeing such a value recurses. The rest is not worth a thread. Compiling
/// recurses too, for `----1` without a limit, but is done once a template. The stack has
/// 1 KiB for each byte that a template may have; only what is used is ever backed by memory.
const BIG_SOURCE: usize = 32 << 10;
const BIG_STACK: usize = 256 << 20;

/// The name that the engine knows a template by; callers give their own to errors.
const NAME: &str = "template";

/// Renders templates; compiled ones are kept. Share it by `Arc`.
pub struct Templates {
    environment: Environment<'static>,
    cache: Mutex<Cache>,
}

#[derive(Default)]
struct Cache {
    clock: u64,
    entries: HashMap<Box<str>, (u64, Arc<Compiled>)>,
}

struct Compiled {
    /// An environment with this one template in it. Cloning one is a few reference counts,
    /// and it makes the compiled form own its source.
    environment: Environment<'static>,
    source: String,
    /// How what was compiled differs from the source.
    edits: percent::Edits,
    /// Every word of the source: a superset of the variables that it can refer to, so that
    /// only those need be converted for the engine.
    words: HashSet<Box<str>>,
}

/// Variables in two layers; `over` wins.
pub(crate) struct Vars<'v> {
    base: &'v Object,
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
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        environment.set_unknown_method_callback(methods::unknown_method);
        environment.set_fuel(Some(MAX_FUEL));
        environment.set_recursion_limit(MAX_RECURSION);
        // costs nothing until there is an error, and then gives its place in the source
        environment.set_debug(true);
        environment.set_formatter(|out, _, value| {
            python::write_str(out, value).map_err(minijinja::Error::from)
        });
        // would print the variables of a run into a prompt; Jinja2 has no such function
        environment.remove_global("debug");
        filters::add_to(&mut environment);
        text_filters::add_to(&mut environment);
        sequences::add_to(&mut environment);
        checks::add_to(&mut environment);
        objects::add_to(&mut environment);
        Self {
            environment,
            cache: Mutex::default(),
        }
    }

    /// Compiles a template without rendering it; `name` is what an error calls it.
    ///
    /// # Errors
    /// When it has a syntax error, or uses a filter or test that does not exist.
    pub fn check(&self, name: &str, template: &str) -> Result<(), TemplateError> {
        match self.compiled(template) {
            Ok(_) => Ok(()),
            Err(error) => Err(error.named(name)),
        }
    }

    /// Renders a template.
    ///
    /// # Errors
    /// When it does not compile, uses something undefined, or exceeds a limit.
    pub fn render(&self, template: &str, vars: &Object) -> Result<String, TemplateError> {
        self.render_with(template, vars, &Object::new())
    }

    /// Renders a template with `over` laid over `base` (key by key, not deeper); neither is
    /// copied but for the variables that the template names.
    ///
    /// # Errors
    /// As [`Templates::render`].
    pub fn render_with(
        &self,
        template: &str,
        base: &Object,
        over: &Object,
    ) -> Result<String, TemplateError> {
        let compiled = self.compiled(template)?;
        let vars = Vars { base, over };
        let run = || {
            let context = vars.context(&compiled.words);
            // the engine's error holds values, so it must not leave the big stack either
            compiled.render(context).map_err(|error| {
                TemplateError::new(&error, &compiled.source, &compiled.edits, Some(&vars))
            })
        };
        if compiled.needs_big_stack() {
            on_big_stack(run)
        } else {
            run()
        }
    }

    fn compiled(&self, template: &str) -> Result<Arc<Compiled>, TemplateError> {
        if template.len() > MAX_SOURCE {
            return Err(TemplateError::too_long(template.len(), MAX_SOURCE));
        }
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.clock += 1;
        let now = cache.clock;
        if let Some((used, compiled)) = cache.entries.get_mut(template) {
            *used = now;
            return Ok(Arc::clone(compiled));
        }
        drop(cache);
        // compiled without the lock: a long template must not stop other runs
        let compiled = Arc::new(on_big_stack(|| self.compile(template))?);
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
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

    fn compile(&self, template: &str) -> Result<Compiled, TemplateError> {
        // Jinja2 reads every kind of line end as `\n`
        let source = template.replace("\r\n", "\n").replace('\r', "\n");
        let (rewritten, edits) = percent::rewrite(&source);
        let mut environment = self.environment.clone();
        environment
            .add_template_owned(NAME, rewritten)
            .map_err(|error| TemplateError::new(&error, &source, &edits, None))?;
        check_names(&environment, &source)?;
        let words = source
            .split(|char: char| !char.is_ascii_alphanumeric() && char != '_')
            .filter(|word| !word.is_empty())
            .map(Box::from)
            .collect();
        Ok(Compiled {
            environment,
            source,
            edits,
            words,
        })
    }
}

/// Filters and tests that do not exist, as Jinja2 reports them: when compiling.
fn check_names(environment: &Environment<'_>, source: &str) -> Result<(), TemplateError> {
    for (kind, range) in scan::uses(source) {
        let name = &source[range.clone()];
        let mut state = environment.empty_state();
        // without arguments they fail, but only one that is missing fails as missing
        let (result, missing, word) = match kind {
            scan::Use::Filter => (
                state.apply_filter(name, &[]).map(drop),
                ErrorKind::UnknownFilter,
                "filter",
            ),
            scan::Use::Test => (
                state.perform_test(name, &[]).map(drop),
                ErrorKind::UnknownTest,
                "test",
            ),
        };
        if result.is_err_and(|error| error.kind() == missing) {
            return Err(TemplateError::unknown_name(word, source, range));
        }
    }
    Ok(())
}

impl Compiled {
    fn needs_big_stack(&self) -> bool {
        self.source.len() > BIG_SOURCE || self.words.contains("namespace")
    }

    fn render(&self, context: Value) -> Result<String, minijinja::Error> {
        let template = self.environment.get_template(NAME)?;
        let mut out = Bounded(Vec::with_capacity(self.source.len()));
        template.render_captured_to(context, &mut out)?;
        // the engine writes texts only
        Ok(String::from_utf8(out.0)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
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
    fn get(&self, name: &str) -> Option<&'v Json> {
        self.over.get(name).or_else(|| self.base.get(name))
    }

    fn names(&self) -> Vec<&'v str> {
        let over = self.over.keys();
        let base = self.base.keys().filter(|key| !self.over.contains_key(*key));
        over.chain(base).map(String::as_str).collect()
    }

    fn context(&self, words: &HashSet<Box<str>>) -> Value {
        let over = self.over.iter();
        let base = self
            .base
            .iter()
            .filter(|(key, _)| !self.over.contains_key(*key));
        Value::from_pairs(
            over.chain(base)
                .filter(|(key, _)| words.contains(key.as_str()))
                .map(|(key, value)| (key.as_str(), to_value(value))),
        )
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

/// Takes only so many bytes.
struct Bounded(Vec<u8>);

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_OUTPUT {
            return Err(io::Error::other(format!(
                "the rendered text exceeds {} MiB",
                MAX_OUTPUT >> 20
            )));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod corpus_tests;
