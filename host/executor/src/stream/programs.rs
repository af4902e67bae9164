//! Helpers for programs that stay open, each behind a stream of its own.

use async_trait::async_trait;
use mswea_core::Stop;
use mswea_helper::processes::ACTION_VARIABLE;

use super::{HelperPlace, StreamExecutor, some};
use crate::helper::ITSELF;
use crate::interactive::{OpenPrograms, OpensPrograms, ProgramHelper};

#[async_trait]
impl<P: HelperPlace> OpensPrograms for StreamExecutor<P> {
    fn open_programs(&mut self) -> &mut OpenPrograms {
        &mut self.programs
    }

    async fn start_helper(&mut self, stop: &Stop) -> Result<ProgramHelper, String> {
        if let Some(why) = &self.gone {
            return Err(why.clone());
        }
        let mut env = self.env.clone()?;
        self.actions += 1;
        // Also the mark of the helper: what ends the processes of the actions must not end it.
        let mark = format!("{}.{}", self.settings.run_id, self.actions);
        env.push((ACTION_VARIABLE.to_owned(), mark.clone()));
        let (session, link) = Self::connect(&self.place, &mark, false, stop).await?;
        Ok(ProgramHelper {
            session,
            guard: Box::new(link),
            mark,
            interpreter: self.settings.interpreter.clone(),
            env,
            cwd: some(&self.settings.cwd).map(str::to_owned),
        })
    }

    async fn kill_marked(&mut self, mark: &str) {
        let killed = self.prepare(&[ITSELF, "kill"], mark, &Stop::never()).await;
        if let Err(why) = killed {
            tracing::warn!(
                why,
                "the processes of a program that was lost can't be ended"
            );
        }
    }
}
