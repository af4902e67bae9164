//! A template compiled by the engine, with the checks of [`super::guard`] in it.

use std::collections::BTreeMap;

use minijinja::machinery::{CodeGenerator, Instructions, eval, make_string_output, parse};
use minijinja::syntax::SyntaxConfig;
use minijinja::{AutoEscape, Environment, Error, ErrorKind, Value};

use super::meter::{self, Bound};
use super::{MAX_OUTPUT, TemplateError, guard, scan};

/// The engine's name for every template; callers put their own names into errors.
const NAME: &str = "template";

/// A compiled template.
pub(super) struct Compiled {
    /// Borrows from `source`; declared before it, so that it is dropped first.
    code: Code<'static>,
    /// Words of the source, among them all variables that the template can refer to, so that only
    /// those need be converted for the engine.
    pub(super) words: Vec<Box<str>>,
    source: SourceText,
}

struct Code<'s> {
    main: Instructions<'s>,
    blocks: BTreeMap<&'s str, Instructions<'s>>,
}

/// A text that others borrow from: it is neither changed nor moved, and is freed when this is
/// dropped. It is no `Box`, which must not be moved while its content is borrowed.
struct SourceText(*mut str);

// SAFETY: it is the only owner of a text that never changes.
unsafe impl Send for SourceText {}
// SAFETY: as above; through a reference the text can only be read.
unsafe impl Sync for SourceText {}

impl SourceText {
    fn new(text: String) -> Self {
        Self(Box::into_raw(text.into_boxed_str()))
    }

    fn text(&self) -> &str {
        // SAFETY: made by `Box::into_raw`, and freed only when `self` is dropped.
        unsafe { &*self.0 }
    }

    /// The text with a lifetime that the caller guarantees.
    ///
    /// # Safety
    /// The returned text, and all that borrows from it, must be dropped before `self` is.
    unsafe fn borrowed(&self) -> &'static str {
        // SAFETY: the text neither moves nor changes until `self` is dropped.
        unsafe { &*self.0 }
    }
}

impl Drop for SourceText {
    fn drop(&mut self) {
        // SAFETY: made by `Box::into_raw`; after this nothing uses it.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

/// Why a rendering failed.
pub(super) struct Failed {
    /// The engine's error.
    pub(super) error: Option<Error>,
    /// The bound that was exceeded.
    pub(super) bound: Option<Bound>,
}

/// Every word of a template that may be a variable: not the names of attributes, which follow a dot.
pub(super) fn words(source: &str) -> Vec<Box<str>> {
    let mut words: Vec<&str> = source
        .split(|char: char| !char.is_ascii_alphanumeric() && char != '_' && char != '.')
        .flat_map(|dotted| dotted.split('.').take(1))
        .filter(|word| !word.is_empty())
        .collect();
    words.sort_unstable();
    words.dedup();
    words.into_iter().map(Box::from).collect()
}

impl Compiled {
    /// Compiles a template for an environment that has the filters and tests.
    pub(super) fn new(
        template: &str,
        environment: &Environment<'_>,
    ) -> Result<Self, TemplateError> {
        // Jinja2 reads every kind of line end as ` `
        let source = SourceText::new(template.replace("\r\n", "\n").replace('\r', "\n"));
        // SAFETY: only `code` keeps what is borrowed, and it is a field of the same struct that is
        // dropped before `source`.
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

    /// The source, with ` ` as line ends.
    pub(super) fn source(&self) -> &str {
        self.source.text()
    }

    /// Renders it; the caller has set the meter.
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

    /// The code with the lifetime of `self`.
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

/// Reports filters and tests that do not exist. Jinja2 does this when it compiles a template, too.
fn check_names(environment: &Environment<'_>, source: &str) -> Result<(), TemplateError> {
    for (kind, range) in scan::uses(source) {
        let name = &source[range.clone()];
        let mut state = environment.empty_state();
        // every filter and test fails without arguments, but only one that does not exist fails
        // with the kind `missing`
        let (result, missing, word) = match kind {
            scan::NameUse::Filter => (
                state.apply_filter(name, &[]).map(drop),
                ErrorKind::UnknownFilter,
                "filter",
            ),
            scan::NameUse::Test => (
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
