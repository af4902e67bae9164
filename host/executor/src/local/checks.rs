//! Checks the place of a local environment before its first command, so that what is wrong with it is
//! told once and at the beginning.

use mswea_core::{ExecutorError, Stop};

use super::LocalExecutor;
use crate::failure::ActionFailure;
use crate::programs::is_program;
use crate::sandbox::SandboxKind;

impl LocalExecutor {
    /// Checks the variables, the working directory and the programs, and tries the sandbox.
    ///
    /// # Errors
    /// [`ExecutorError`] with the first that can't be used.
    pub(super) async fn make_ready(&mut self, stop: &Stop) -> Result<(), ExecutorError> {
        let fail = |message: String| Err(ExecutorError::from(message));
        if let Err(why) = &self.env {
            return fail(why.clone());
        }
        self.pin_folder()?;
        if let Some(cwd) = &self.settings.cwd {
            let shown = cwd.display();
            match std::fs::metadata(cwd) {
                Ok(found) if found.is_dir() => {}
                Ok(_) => {
                    return fail(format!(
                        "working directory `{shown}` is not a directory; set `cwd` to one"
                    ));
                }
                Err(error) => {
                    return fail(format!(
                        "working directory `{shown}` can't be used: {error}; create it or set `cwd` to another"
                    ));
                }
            }
        }
        // Inside a sandbox other programs may exist than outside.
        if self.wrap.is_none() {
            let program = match self.interpreter() {
                Ok(program) => program,
                Err(failure) => return fail(failure.text()),
            };
            // As the kernel sees it after the change of directory.
            let seen = self
                .settings
                .cwd
                .as_deref()
                .map_or_else(|| program.clone(), |cwd| cwd.join(&program));
            if !is_program(&seen) {
                let shown = program.display().to_string();
                return fail(
                    ActionFailure::no_interpreter(&shown, "there is no such program").text(),
                );
            }
        }
        if let Some(guard) = &self.settings.guard_program
            && !is_program(guard)
        {
            return fail(format!(
                "guard program `{}` does not exist or is not executable; set it to the host's own binary",
                guard.display()
            ));
        }
        if self.settings.sandbox.kind == SandboxKind::Landlock && self.wrap.is_none() {
            self.wrap = Some(self.confined(stop).await?);
        }
        Ok(())
    }
}
