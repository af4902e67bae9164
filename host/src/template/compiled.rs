//! A template in the engine's code, with bounds in it.

use std::collections::{BTreeMap, HashSet};

use minijinja::machinery::{CodeGenerator, Instructions, eval, make_string_output, parse};
use minijinja::syntax::SyntaxConfig;
use minijinja::{AutoEscape, Environment, Error, ErrorKind, Value};

use super::meter::{self, Bound};
use super::{MAX_OUTPUT, TemplateError, guard, scan};

/// The name that the engine knows a template by; callers give their own to errors.
const NAME: &str = "template";

/// A compiled template.
pub(super) struct Compiled {
    /// Borrows from `source`: declared before it, so that it is dropped first.
    code: Code<'static>,
    /// Every word of the source: a superset of the variables that it can refer to, so that
    /// only those need be converted for the engine.
    pub(super) words: HashSet<Box<str>>,
    source: Source,
}

struct Code<'s> {
    main: Instructions<'s>,
    blocks: BTreeMap<&'s str, Instructions<'s>>,
}

/// Text that others borrow from: it is never changed nor moved, and freed at the end. Not a
/// `Box`, which must not be moved while its content is borrowed.
struct Source(*mut str);

// SAFETY: it is the only owner of a text that nobody changes.
unsafe impl Send for Source {}
// SAFETY: as above; all that can be done through a reference is to read.
unsafe impl Sync for Source {}

impl Source {
    fn new(text: String) -> Self {
        Self(Box::into_raw(text.into_boxed_str()))
    }

    fn text(&self) -> &str {
        // SAFETY: made by `Box::into_raw`, and freed only when `self` is dropped.
        unsafe { &*self.0 }
    }

    /// The text for as long as the caller sees to it that `self` lives.
    ///
    /// # Safety
    /// What is returned, and all that borrows from it, must be dropped before `self` is.
    unsafe fn borrowed(&self) -> &'static str {
        // SAFETY: the text neither moves nor changes until `self` is dropped.
        unsafe { &*self.0 }
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        // SAFETY: made by `Box::into_raw`; nobody uses it any more.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

/// Why there is no text.
pub(super) struct Failed {
    /// What the engine says of it.
    pub(super) error: Option<Error>,
    /// What was exceeded.
    pub(super) bound: Option<Bound>,
}

/// Every word of a template.
pub(super) fn words(source: &str) -> HashSet<Box<str>> {
    source
        .split(|char: char| !char.is_ascii_alphanumeric() && char != '_')
        .filter(|word| !word.is_empty())
        .map(Box::from)
        .collect()
}

impl Compiled {
    /// Compiles a template; the environment knows the filters and tests that there are.
    pub(super) fn new(
        template: &str,
        environment: &Environment<'_>,
    ) -> Result<Self, TemplateError> {
        // Jinja2 reads every kind of line end as `\n`
        let source = Source::new(template.replace("\r\n", "\n").replace('\r', "\n"));
        // SAFETY: `code` is the only thing that keeps what is borrowed, and is a field of the same
        // struct that is dropped before `source`.
        let text = unsafe { source.borrowed() };
        let code = compile(text)
            .map_err(|error| TemplateError::new(Some(&error), None, source.text(), None))?;
        check_names(environment, source.text())?;
        Ok(Self {
            code,
            words: words(source.text()),
            source,
        })
    }

    /// The source, with `\n` as its line ends.
    pub(super) fn source(&self) -> &str {
        self.source.text()
    }

    /// Renders it; the meter is the caller's.
    pub(super) fn eval(
        &self,
        environment: &Environment<'_>,
        context: Value,
    ) -> Result<String, Error> {
        let mut text = String::with_capacity(self.source().len());
        let mut out = make_string_output(&mut text);
        let Code { main, blocks } = self.code();
        let none = AutoEscape::None;
        eval(environment, main, context, blocks, &mut out, none)?;
        if text.len() > MAX_OUTPUT {
            return Err(meter::exceed(Bound::Output));
        }
        Ok(text)
    }

    /// With the life that it has for others.
    fn code(&self) -> &Code<'_> {
        &self.code
    }
}

fn compile(source: &str) -> Result<Code<'_>, Error> {
    let parsed = parse(source, NAME, SyntaxConfig::default())?;
    let bounded = guard::guarded(&parsed)
        .ok_or_else(|| Error::new(ErrorKind::SyntaxError, "the template is nested too deeply"))?;
    let mut generator = CodeGenerator::new(NAME, source);
    generator.compile_stmt(&bounded);
    let (main, blocks) = generator.finish();
    Ok(Code { main, blocks })
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
