//! One rendering: in place with small limits, or on a thread that can be left with larger ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use minijinja::{Environment, ErrorKind, Value};

use super::compiled::{Compiled, Failed};
use super::meter::{Bound, Limits, metered};
use super::{BIG_STACK, Engine, LONG_SOURCE, TemplateError, Vars};

/// The stack of a rendering: macros recurse, and so does freeing what is nested.
const STACK: usize = 8 << 20;

/// What became of a rendering at once.
pub(crate) enum Started {
    /// It is over.
    Done(Result<String, TemplateError>),
    /// It takes longer.
    Heavy(Heavy),
}

/// A rendering that may take its time, and leaves its thread when it is dropped.
pub(crate) struct Heavy {
    engine: Arc<Engine>,
    template: String,
    context: Value,
}

/// Why there is no text, with the template that it is told with.
pub(crate) struct Unrendered {
    failed: Result<Failed, TemplateError>,
    source: String,
}

/// Tells the thread that nobody waits any more.
struct Waiting(Arc<AtomicBool>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Renders with these limits; the environment has the steps of the same.
pub(super) fn render(
    environment: &Environment<'_>,
    compiled: &Compiled,
    context: Value,
    limits: Limits,
    left: Option<Arc<AtomicBool>>,
) -> Result<String, Failed> {
    let (rendered, bound) = metered(limits, left, || compiled.eval(environment, context));
    match (rendered, bound) {
        (Ok(text), None) => Ok(text),
        (Err(error), None) if error.kind() == ErrorKind::OutOfFuel => Err(Failed {
            error: Some(error),
            bound: Some(Bound::Steps),
        }),
        (rendered, bound) => Err(Failed {
            error: rendered.err(),
            bound,
        }),
    }
}

impl Failed {
    /// Whether larger limits may help.
    pub(super) fn is_for_more(&self) -> bool {
        self.bound.is_some_and(Bound::depends_on_limits)
    }

    pub(super) fn describe(&self, source: &str, vars: Vars<'_>) -> TemplateError {
        TemplateError::new(self.error.as_ref(), self.bound, source, Some(vars))
    }
}

impl Unrendered {
    /// What went wrong, for the one who wrote the template; `vars` are what it could see.
    pub(crate) fn describe(self, vars: Vars<'_>) -> TemplateError {
        match self.failed {
            Ok(failed) => failed.describe(&self.source, vars),
            Err(error) => error,
        }
    }
}

impl Heavy {
    pub(super) fn new(engine: Arc<Engine>, template: &str, context: Value) -> Self {
        Self {
            engine,
            template: template.to_owned(),
            context,
        }
    }

    /// Renders; dropping the future leaves the thread, which ends by itself soon after.
    ///
    /// # Errors
    /// As [`super::Templates::render`].
    pub(crate) async fn run(self) -> Result<String, Unrendered> {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let waiting = Waiting(Arc::default());
        self.spawn(waiting.0.clone(), move |done| {
            // Nobody waits: then nobody wants it.
            let _ = sender.send(done);
        })?;
        receiver.await.unwrap_or_else(|_| Err(Unrendered::lost()))
    }

    /// Renders; the caller's thread waits.
    ///
    /// # Errors
    /// As [`super::Templates::render`].
    pub(crate) fn wait(self) -> Result<String, Unrendered> {
        let (sender, receiver) = std::sync::mpsc::channel();
        self.spawn(Arc::default(), move |done| {
            let _ = sender.send(done);
        })?;
        receiver.recv().unwrap_or_else(|_| Err(Unrendered::lost()))
    }

    fn spawn(
        self,
        left: Arc<AtomicBool>,
        tell: impl FnOnce(Result<String, Unrendered>) + Send + 'static,
    ) -> Result<(), Unrendered> {
        let stack = match self.template.len() > LONG_SOURCE {
            true => BIG_STACK,
            false => STACK,
        };
        std::thread::Builder::new()
            .name("template".to_owned())
            .stack_size(stack)
            .spawn(move || tell(self.work(left)))
            .map(drop)
            .map_err(|error| Unrendered {
                failed: Err(TemplateError::no_thread(&error)),
                source: String::new(),
            })
    }

    fn work(self, left: Arc<AtomicBool>) -> Result<String, Unrendered> {
        let unrendered = |failed, source: &str| Unrendered {
            failed,
            source: source.to_owned(),
        };
        let compiled = self
            .engine
            .compiled(&self.template)
            .map_err(|error| unrendered(Err(error), ""))?;
        render(
            &self.engine.full,
            &compiled,
            self.context,
            Limits::FULL,
            Some(left),
        )
        .map_err(|failed| unrendered(Ok(failed), compiled.source()))
    }
}

impl Unrendered {
    fn lost() -> Self {
        Self {
            failed: Ok(Failed {
                error: None,
                bound: Some(Bound::Left),
            }),
            source: String::new(),
        }
    }
}
