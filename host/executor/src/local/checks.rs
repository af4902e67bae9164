//! Checks a local environment before its first command, so that an error in its settings is
//! reported once, at the beginning.

use std::path::{Path, PathBuf};
use std::time::Duration;

use mswea_core::{ExecutorError, Stop};

use super::LocalExecutor;
use super::folder::own_folder;
use crate::aside::look;
use crate::failure::ActionFailure;
use crate::hanging;
use crate::programs::is_program;
use crate::sandbox::SandboxKind;

/// The minimum time limit for an answer of the working directory's file system, also if the limit
/// of a command is shorter.
const LEAST: Duration = Duration::from_secs(5);

impl LocalExecutor {
    /// Checks the variables, the working directory and the programs, and tries the sandbox.
    ///
    /// # Errors
    /// [`ExecutorError`] for the first variable, folder, program or sandbox that can't be used.
    pub(super) async fn make_ready(&mut self, stop: &Stop) -> Result<(), ExecutorError> {
        if let Err(why) = &self.env {
            return Err(ExecutorError::from(why.clone()));
        }
        let cwd = self.settings.cwd.clone();
        let shown = cwd.as_deref().unwrap_or(Path::new(".")).display();
        let shown = shown.to_string();
        // Inside a sandbox other programs may exist than outside.
        let program = match self.wrap {
            None => Some(self.interpreter().map_err(ActionFailure::text)?),
            Some(_) => None,
        };
        let guard = self.settings.guard_program.clone();
        let limit = self.settings.timeout.max(LEAST);
        let checked = look(limit, stop, move || check(cwd, program.as_deref(), guard)).await;
        self.settings.cwd = checked.unwrap_or_else(|| {
            Err(ExecutorError::from(match stop.is_stopped() {
                true => "interrupted".to_owned(),
                false => format!(
                    "working directory `{shown}` has not answered for {} seconds: its file system hangs (a network file system whose server is gone?); set `cwd` to another",
                    limit.as_secs_f64()
                ),
            }))
        })?;
        if self.settings.sandbox.kind == SandboxKind::Landlock && self.wrap.is_none() {
            self.wrap = Some(self.confined(stop).await?);
        }
        Ok(())
    }
}

/// Checks the folder and the programs; returns the folder in which commands start.
fn check(
    cwd: Option<PathBuf>,
    program: Option<&Path>,
    guard: Option<PathBuf>,
) -> Result<Option<PathBuf>, ExecutorError> {
    let fail = |message: String| Err(ExecutorError::from(message));
    let cwd = match cwd {
        Some(cwd) => Some(cwd),
        None => own_folder()?,
    };
    if let Some(cwd) = &cwd {
        let shown = cwd.display();
        match std::fs::metadata(cwd) {
            Ok(found) if found.is_dir() => {
                if hanging::depends_on_another(cwd) {
                    hanging::note_can_hang();
                }
            }
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
    if let Some(program) = program {
        // The path as the kernel has it after the change of directory.
        let seen = cwd
            .as_deref()
            .map_or_else(|| program.to_owned(), |cwd| cwd.join(program));
        if !is_program(&seen) {
            let shown = program.display().to_string();
            return fail(ActionFailure::no_interpreter(&shown, "there is no such program").text());
        }
    }
    match guard {
        Some(guard) if !is_program(&guard) => fail(format!(
            "guard program `{}` does not exist or is not executable; set it to the host's own binary",
            guard.display()
        )),
        _ => Ok(cwd),
    }
}
