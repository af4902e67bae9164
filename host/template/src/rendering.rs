//! One rendering: in place with small limits, or with larger ones on a thread for which the caller
//! can stop waiting.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use minijinja::{Environment, ErrorKind, Value};

use super::compiled::{Compiled, Failed};
use super::meter::{Bound, RenderLimits, metered};
use super::{BIG_STACK, LONG_SOURCE, TemplateEngine, TemplateError, Vars, threads};

/// The stack of a rendering: macros recurse, and so does freeing nested values.
const STACK: usize = 8 << 20;

/// The result of starting a rendering.
pub enum StartedRendering {
    /// It has ended.
    Done(Result<String, TemplateError>),
    /// It needs the larger limits.
    Heavy(Heavy),
}

/// A rendering with the larger limits, which is done on a thread.
pub struct Heavy {
    engine: Arc<TemplateEngine>,
    template: String,
    context: Value,
}

/// The failure of a rendering, with the template's source, which the message shows.
pub struct Unrendered {
    failed: Result<Failed, TemplateError>,
    source: String,
}

/// Tells the thread, when dropped, that the caller no longer waits.
struct Waiting(Arc<AtomicBool>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Renders with these limits; `environment` has the steps of the same limits.
pub(super) fn render(
    environment: &Environment<'_>,
    compiled: &Compiled,
    context: Value,
    limits: RenderLimits,
    abandoned: Option<Arc<AtomicBool>>,
) -> Result<String, Failed> {
    let (rendered, bound) = metered(limits, abandoned, || compiled.eval(environment, context));
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
    /// Whether the rendering may succeed with larger limits.
    pub(super) fn is_for_more(&self) -> bool {
        self.bound.is_some_and(Bound::depends_on_limits)
    }

    pub(super) fn describe(&self, source: &str, vars: Vars<'_>) -> TemplateError {
        TemplateError::new(self.error.as_ref(), self.bound, source, Some(vars))
    }
}

impl Unrendered {
    /// The error for the template's author; `vars` are its variables.
    pub fn describe(self, vars: Vars<'_>) -> TemplateError {
        match self.failed {
            Ok(failed) => failed.describe(&self.source, vars),
            Err(error) => error,
        }
    }
}

impl Heavy {
    pub(super) fn new(engine: Arc<TemplateEngine>, template: &str, context: Value) -> Self {
        Self {
            engine,
            template: template.to_owned(),
            context,
        }
    }

    /// Renders on a thread. If the future is dropped, the thread ends by itself soon after.
    ///
    /// # Errors
    /// [`Unrendered`] in the cases in which [`super::Templates::render`] fails.
    pub async fn run(self) -> Result<String, Unrendered> {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let waiting = Waiting(Arc::default());
        self.spawn(waiting.0.clone(), move |done| {
            // If the caller no longer waits, the result is dropped.
            let _ = sender.send(done);
        })?;
        receiver.await.unwrap_or_else(|_| Err(Unrendered::lost()))
    }

    /// Renders on a thread, and waits for it.
    ///
    /// # Errors
    /// [`Unrendered`] in the cases in which [`super::Templates::render`] fails.
    pub fn wait(self) -> Result<String, Unrendered> {
        let (sender, receiver) = std::sync::mpsc::channel();
        self.spawn(Arc::default(), move |done| {
            let _ = sender.send(done);
        })?;
        receiver.recv().unwrap_or_else(|_| Err(Unrendered::lost()))
    }

    fn spawn(
        self,
        abandoned: Arc<AtomicBool>,
        tell: impl FnOnce(Result<String, Unrendered>) + Send + 'static,
    ) -> Result<(), Unrendered> {
        let stack = match self.template.len() > LONG_SOURCE {
            true => BIG_STACK,
            false => STACK,
        };
        let work = Arc::new(threads::KeptWork::new(move || tell(self.work(abandoned))));
        let start = |thread: std::thread::Builder| {
            let work = work.clone();
            thread.spawn(move || work.take()())
        };
        threads::patiently(stack, start)
            .map(drop)
            .map_err(|error| Unrendered {
                failed: Err(TemplateError::no_thread(&error)),
                source: String::new(),
            })
    }

    fn work(self, abandoned: Arc<AtomicBool>) -> Result<String, Unrendered> {
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
            RenderLimits::FULL,
            Some(abandoned),
        )
        .map_err(|failed| unrendered(Ok(failed), compiled.source()))
    }
}

impl Unrendered {
    fn lost() -> Self {
        Self {
            failed: Ok(Failed {
                error: None,
                bound: Some(Bound::Abandoned),
            }),
            source: String::new(),
        }
    }
}
