//! Helpers for programs that stay open, each behind a stream of its own.

use std::time::Duration;

use async_trait::async_trait;
use mswea_core::Stop;
use mswea_helper::processes::ACTION_VARIABLE;
use tokio::time::timeout;

use super::{HelperPlace, StreamExecutor, some};
use crate::helper::ITSELF;
use crate::interactive::{OpenPrograms, OpensPrograms, ProgramHelper};

/// The time limit of ending the remaining processes of a program.
const KILLING: Duration = Duration::from_secs(5);

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
        // The mark of the helper, too: ending the processes of the actions must not end it.
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

    fn masked(&self, output: String) -> String {
        self.place.masked(output)
    }

    async fn kill_marked(&mut self, mark: &str) {
        self.kill_all(&[mark.to_owned()]).await;
    }
}

impl<P: HelperPlace> StreamExecutor<P> {
    /// Kills all processes with one of these marks, whose helpers are gone.
    pub(super) async fn kill_all(&mut self, marks: &[String]) {
        let Some((last, others)) = marks.split_last() else {
            return;
        };
        let others = others.iter().map(String::as_str);
        let program: Vec<&str> = [ITSELF, "kill"].into_iter().chain(others).collect();
        let stop = Stop::never();
        let killed = timeout(KILLING, self.prepare(&program, last, &stop)).await;
        let silent = |_| Err("the place does not answer".to_owned());
        if let Err(why) = killed.unwrap_or_else(silent) {
            tracing::warn!(
                why,
                "the processes of a program that was lost can't be ended"
            );
        }
    }
}
