//! One shell for all actions of a container.

use mswea_core::{Command, EnvironmentReady, ExecutorError, Stop};

use super::ContainerExecutor;
use crate::container::fast;

impl ContainerExecutor {
    /// Opens the shell of a container that is ready, if there is to be one. `is_found` tells whether
    /// an earlier process of the run has made the container.
    ///
    /// # Errors
    /// [`ExecutorError`] if the container can't run the helper, or has no bash, or the run is stopped.
    /// A container that this start has made is removed then.
    pub(super) async fn with_shell(
        &mut self,
        ready: EnvironmentReady,
        is_found: bool,
        stop: &Stop,
    ) -> Result<EnvironmentReady, ExecutorError> {
        if !self.settings.session {
            return Ok(ready);
        }
        let notice = self.notice.take();
        let command = Command::new("");
        let opened = self.run(&command, self.settings.start_timeout, stop).await;
        self.notice = notice;
        let why = opened.extra.get("exception").and_then(|why| why.as_str());
        let Some(why) = why else {
            return Ok(ready);
        };
        match is_found {
            // It holds the work of the run.
            true => {
                self.session = None;
                self.container = None;
            }
            false => self.remove().await,
        }
        self.unguard().await;
        Err(ExecutorError {
            message: format!("the shell of all actions can't be opened: {why}"),
        })
    }

    /// Starts the helper anew if an action has ended it.
    ///
    /// # Errors
    /// Why it can't be started.
    pub(super) async fn need_session(&mut self) -> Result<(), String> {
        let (None, Some(container)) = (&self.session, &self.container) else {
            return Ok(());
        };
        match fast::session(container.engine.as_ref(), &container.id).await {
            Ok(session) => {
                self.session = Some(session);
                Ok(())
            }
            Err(why) => Err(format!(
                "`environment.session` needs the helper, which can't be started: {why}; set `environment.session` to false"
            )),
        }
    }
}
