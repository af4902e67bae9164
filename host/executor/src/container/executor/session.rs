//! One shell for all actions of a container, and helpers for programs that stay open in it.

use async_trait::async_trait;
use mswea_core::{Command, EnvironmentReady, ExecutorError, Stop};
use mswea_helper::processes::ACTION_VARIABLE;

use super::{ContainerExecutor, not_started};
use crate::container::fast;
use crate::container::running::Way;
use crate::interactive::{OpenPrograms, OpensPrograms, ProgramHelper};
use crate::shell::{BEGUN, is_open};

#[async_trait]
impl OpensPrograms for ContainerExecutor {
    fn open_programs(&mut self) -> &mut OpenPrograms {
        &mut self.programs
    }

    async fn start_helper(&mut self, _: &Stop) -> Result<ProgramHelper, String> {
        if let Some(why) = &self.gone {
            return Err(why.clone());
        }
        let Some(container) = &self.container else {
            return Err(not_started().text());
        };
        if container.way != Way::Helper {
            return Err(format!(
                "programs that stay open need the host's helper, which this container can't run: {}",
                container.no_helper
            ));
        }
        let mut env = self.env.clone()?;
        let (session, client) = fast::session(container.engine.as_ref(), &container.id).await?;
        self.actions += 1;
        let mark = format!("{}.{}", self.settings.run_id, self.actions);
        env.push((ACTION_VARIABLE.to_owned(), mark.clone()));
        Ok(ProgramHelper {
            session,
            guard: Box::new(client),
            mark,
            interpreter: self.settings.interpreter.clone(),
            env,
            cwd: Some(self.settings.cwd.clone()),
        })
    }

    async fn kill_marked(&mut self, mark: &str) {
        if let Some(container) = &self.container {
            container.kill(mark).await;
        }
    }
}

impl ContainerExecutor {
    /// Opens the shell of a container that is ready, if the settings ask for one. `is_found` tells
    /// whether an earlier process of the run made the container.
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
        let Err(error) = is_open(&opened) else {
            return Ok(ready);
        };
        match is_found {
            // The container holds the work of the run, so it is not removed.
            true => {
                self.session = None;
                self.container = None;
            }
            false => self.remove().await,
        }
        self.unguard().await;
        Err(error)
    }

    /// Starts the helper anew if an action has ended it.
    ///
    /// # Errors
    /// A message with the reason why there is no helper.
    pub(super) async fn need_session(&mut self) -> Result<(), String> {
        if let Some((helper, _)) = &mut self.session
            && helper.has_ended().await
        {
            // A background process has ended the helper between two actions.
            self.session = None;
            if self.settings.session {
                self.notice = Some(BEGUN);
            }
        }
        let (None, Some(container)) = (&self.session, &self.container) else {
            return Ok(());
        };
        if container.way != Way::Helper {
            return Err(container.no_helper.clone());
        }
        let (engine, id) = (container.engine.as_ref(), &container.id);
        let mut session = fast::session(engine, id).await;
        if session.is_err() {
            // A command may have removed the helper's file.
            fast::put(engine, id).await?;
            session = fast::session(engine, id).await;
        }
        self.session = Some(session?);
        Ok(())
    }
}
