//! Puts the commands of a local environment into the Landlock sandbox.

use std::path::PathBuf;

use super::LocalExecutor;
use crate::landlock::{self, Trial};
use crate::sandbox::Sandbox;
use crate::wrap::Wrap;
use mswea_core::{ExecutorError, Stop};

impl LocalExecutor {
    /// Tries the sandbox of the settings, and returns its wrapper.
    ///
    /// # Errors
    /// [`ExecutorError`] if this machine can't enforce all of it.
    pub(super) async fn confined(&mut self, stop: &Stop) -> Result<Wrap, ExecutorError> {
        let interpreter = match self.interpreter() {
            Ok(interpreter) => interpreter,
            Err(failure) => return landlock::refuse(&failure.text()),
        };
        let settings = &self.settings;
        let sandbox = settings.sandbox.clone();
        let guard = settings.guard_program.clone();
        let wrap = landlock::wrap(&sandbox, guard, settings.cwd.as_deref(), interpreter)?;
        self.try_landlock(wrap.program.clone(), &sandbox, stop)
            .await?;
        Ok(wrap)
    }

    /// Tries a sandbox that `program`, the host's own binary, applies, and describes it.
    ///
    /// # Errors
    /// [`ExecutorError`] with the reason if it can't be used.
    pub(crate) async fn try_landlock(
        &mut self,
        program: PathBuf,
        sandbox: &Sandbox,
        stop: &Stop,
    ) -> Result<String, ExecutorError> {
        let trial = Trial::new(self.run_id(), program, sandbox)?;
        let output = self.run_program(trial.args(), Trial::TIMEOUT, stop).await;
        trial.report(&output).await
    }
}
