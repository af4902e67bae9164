//! One rendering, by the component that renders templates.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::error::{EngineFailure, Unrendered};

/// Renders templates within limits. [`crate::Templates`] prepares what it gets, and describes its failures.
#[async_trait::async_trait]
pub trait TemplateEngine: Send + Sync {
    /// Compiles a template, and renders it if there are variables, which are written as the component reads
    /// them. It is only pending when it lets others run, so it can be polled until it is done.
    ///
    /// # Errors
    /// [`EngineFailure`] if the template can't be compiled or rendered within the limits.
    async fn render(
        &self,
        template: String,
        vars: Option<Vec<u8>>,
    ) -> Result<String, EngineFailure>;
}

/// A rendering that has not begun.
pub struct Rendering {
    pub(super) engine: Arc<dyn TemplateEngine>,
    pub(super) template: String,
    /// None: the template is only compiled.
    pub(super) vars: Option<Vec<u8>>,
}

impl Rendering {
    /// Renders. If the future is dropped, the rendering ends.
    ///
    /// # Errors
    /// [`Unrendered`] if the template does not compile, uses an undefined value, or exceeds a limit.
    pub async fn run(self) -> Result<String, Unrendered> {
        let rendered = self.engine.render(self.template.clone(), self.vars).await;
        rendered.map_err(|failure| Unrendered::new(failure, self.template))
    }

    /// Renders, and waits for it.
    ///
    /// # Errors
    /// [`Unrendered`] in the cases in which [`Self::run`] fails.
    pub fn wait(self) -> Result<String, Unrendered> {
        let mut running = pin!(self.run());
        let mut context = Context::from_waker(Waker::noop());
        loop {
            if let Poll::Ready(done) = running.as_mut().poll(&mut context) {
                return done;
            }
        }
    }
}
