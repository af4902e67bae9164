//! One shell for all actions of a container.

use mswea_core::{Command, EnvironmentReady, ExecutorError, Stop};

use super::{ContainerExecutor, not_started};
use crate::container::fast;
use crate::failure::ActionFailure;
use crate::shell::bash_of;

impl ContainerExecutor {
    /// Opens the shell of a container that is ready, if there is to be one.
    ///
    /// # Errors
    /// [`ExecutorError`] if the container can't run the helper, or has no bash. The container is
    /// removed then.
    pub(super) async fn with_shell(
        &mut self,
        ready: EnvironmentReady,
    ) -> Result<EnvironmentReady, ExecutorError> {
        if !self.settings.session {
            return Ok(ready);
        }
        let notice = self.notice.take();
        let failed = match bash_of(&self.settings.interpreter) {
            Err(failure) => Some(failure.text()),
            Ok(_) => {
                let command = Command::new("");
                let opened = self
                    .run(&command, self.settings.start_timeout, &Stop::never())
                    .await;
                let why = opened.extra.get("exception").and_then(|why| why.as_str());
                why.map(str::to_owned)
            }
        };
        self.notice = notice;
        match failed {
            None => Ok(ready),
            Some(message) => {
                self.remove().await;
                self.unguard().await;
                Err(ExecutorError { message })
            }
        }
    }

    /// Starts the helper anew if an action has ended it.
    pub(super) async fn need_session(&mut self) -> Result<(), ActionFailure> {
        if self.session.is_some() {
            return Ok(());
        }
        let Some(container) = &self.container else {
            return Err(not_started());
        };
        match fast::session(container.engine.as_ref(), &container.id).await {
            Ok(session) => {
                self.session = Some(session);
                Ok(())
            }
            Err(why) => Err(ActionFailure::environment(
                "EnvironmentError",
                format!(
                    "`environment.session` needs the helper, which this container can't run ({why}): set `environment.session` to false"
                ),
            )),
        }
    }
}
