//! Renders templates: minijinja, adapted to print what Jinja2 prints, and strict about undefined
//! variables. The host runs it as a component with limits of time, memory and output, so nothing here has
//! bounds of its own. `tests/corpora` has Jinja2's results for thousands of templates.

mod args;
mod filters;
mod methods;
mod python;
mod scan;
mod tojson;
mod vars;

use std::cell::RefCell;
use std::error::Error as _;

use minijinja::{AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior};

/// How deeply blocks, macros and includes may nest.
const MAX_RECURSION: usize = 150;

/// Compiled templates that are kept.
const KEPT: usize = 128;

/// The first character of the name of a kept template, before its source. No template can include it.
const OWN: char = '=';

/// Why a template can't be compiled or rendered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RenderFault {
    /// The mistake.
    pub message: String,
    /// The expression that is undefined.
    pub undefined: Option<String>,
    /// The remedy.
    pub hint: Option<String>,
    /// Line, from 1.
    pub line: Option<u32>,
    /// The bytes of the source.
    pub range: Option<(u32, u32)>,
    /// Whether the template is invalid, whatever its variables are.
    pub is_syntax: bool,
}

thread_local! {
    static ENVIRONMENT: RefCell<Option<(Environment<'static>, usize)>> = const { RefCell::new(None) };
}

/// Compiles a template, unless that is done already, and renders it if there are variables.
///
/// # Errors
/// [`RenderFault`] if it can't be compiled or rendered.
pub fn render(template: &str, vars: Option<&[u8]>) -> Result<String, RenderFault> {
    // Jinja2 reads every kind of line end as `\n`.
    let source = template.replace("\r\n", "\n").replace('\r', "\n");
    let name = format!("{OWN}{source}");
    ENVIRONMENT.with_borrow_mut(|kept| {
        let (environment, count) = kept.get_or_insert_with(|| (environment(), 0));
        if environment.get_template(&name).is_err() {
            if *count == KEPT {
                environment.clear_templates();
                *count = 0;
            }
            check_names(environment, &source)?;
            environment
                .add_template_owned(name.clone(), source)
                .map_err(|error| RenderFault::of(&error))?;
            *count += 1;
        }
        let Some(vars) = vars else {
            return Ok(String::new());
        };
        let rendered = environment.get_template(&name);
        let rendered = rendered.and_then(|template| template.render(vars::read(vars)));
        rendered.map_err(|error| RenderFault::of(&error))
    })
}

fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_unknown_method_callback(methods::unknown_method);
    environment.set_recursion_limit(MAX_RECURSION);
    environment.set_path_join_callback(|_, _| "".into());
    // costs nothing without an error, and gives errors a position in the source
    environment.set_debug(true);
    environment.set_formatter(|out, _, value| python::write_str(out, value).map_err(Error::from));
    // it would print the variables of a run into a prompt; Jinja2 has no such function
    environment.remove_global("debug");
    filters::add_to(&mut environment);
    environment
}

/// Reports filters and tests that do not exist. Jinja2 does this when it compiles a template, too.
fn check_names(environment: &Environment<'_>, source: &str) -> Result<(), RenderFault> {
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
            return Err(RenderFault {
                message: format!("there is no {word} `{name}`"),
                line: Some(1 + source[..range.start].matches('\n').count() as u32),
                range: Some((range.start as u32, range.end as u32)),
                is_syntax: true,
                ..RenderFault::default()
            });
        }
    }
    Ok(())
}

const CHANGED: &str = "lists and maps can't be changed: `{% set x = x + [y] %}` makes a new one; what a loop \
     sets is gone after each turn, so write `{% set all = namespace(x=[]) %}` before a loop, and \
     `{% set all.x = all.x + [y] %}` in it";

const FORMATTED: &str = "`'%s' % x` is written `'%s'|format(x)`";

impl RenderFault {
    fn of(error: &Error) -> Self {
        let detail = error.detail().unwrap_or_default();
        let hint = match error.kind() {
            ErrorKind::UnknownMethod if detail.contains("append") || detail.contains("update") => {
                Some(CHANGED)
            }
            ErrorKind::InvalidOperation
                if detail.contains("% operator on unsupported types string") =>
            {
                Some(FORMATTED)
            }
            _ => None,
        };
        // the engine's detail ends with the expression of the undefined value
        let undefined = detail.rfind("` is undefined").and_then(|end| {
            let start = detail[..end].rfind('`')? + 1;
            Some(detail[start..end].to_owned())
        });
        Self {
            message: message(error),
            undefined,
            hint: hint.map(str::to_owned),
            line: error.line().map(|line| line as u32),
            range: error
                .range()
                .map(|range| (range.start as u32, range.end as u32)),
            is_syntax: matches!(
                error.kind(),
                ErrorKind::SyntaxError
                    | ErrorKind::BadEscape
                    | ErrorKind::UnknownFilter
                    | ErrorKind::UnknownTest
            ),
        }
    }
}

fn message(error: &Error) -> String {
    let mut message = match (error.kind(), error.detail()) {
        (ErrorKind::UndefinedError, Some(detail)) => detail.to_owned(),
        (ErrorKind::UndefinedError, None) => "an undefined value is used".to_owned(),
        (ErrorKind::WriteFailure, _) if error.source().is_some() => String::new(),
        (ErrorKind::InvalidOperation, Some(detail)) => detail.to_owned(),
        (kind, Some(detail)) => format!("{kind}: {detail}"),
        (kind, None) => kind.to_string(),
    };
    let mut source = error.source();
    while let Some(cause) = source {
        if !message.is_empty() {
            message.push_str(": ");
        }
        message.push_str(&cause.to_string());
        source = cause.source();
    }
    message
}

/// The component that the host runs.
#[cfg(target_family = "wasm")]
#[allow(missing_docs, reason = "generated")]
mod component {
    wit_bindgen::generate!({ path: "engine.wit", world: "engine" });

    struct Engine;

    impl Guest for Engine {
        fn render(template: String, vars: Option<Vec<u8>>) -> Result<String, Fault> {
            super::render(&template, vars.as_deref()).map_err(|fault| Fault {
                message: fault.message,
                undefined: fault.undefined,
                hint: fault.hint,
                line: fault.line,
                range: fault.range,
                is_syntax: fault.is_syntax,
            })
        }
    }

    export!(Engine);
}
