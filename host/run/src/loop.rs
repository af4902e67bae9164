//! The loop: it performs the next need of the state and records the result as events, which change
//! the state. Each kind of need has a file below `needs`.

use std::pin::pin;

use super::agent::{Agent, Ended};
use super::caught::{bug, caught};
use super::next::{Need, next};
use mswea_core::{End, Event, Output, Question};

impl Agent {
    /// Runs until the task is submitted, a limit is reached, or something fails. When this returns,
    /// the journal has all events, and everything that was started has ended.
    pub async fn run(mut self) -> Ended {
        loop {
            self.settings.mode = self.parts.person.mode();
            let need = next(&self.recorder.state(), &self.settings);
            // An interruption of this question is the user's second one.
            let is_last_question = matches!(need, Need::Ask(Question::Interrupted));
            if matches!(need, Need::Salvage(_) | Need::Close(_)) {
                self.parts.person.leave();
            }
            let met = match need {
                Need::Close(end) => return self.close(end).await,
                Need::Salvage(end) if !self.has_work() => return self.close(end).await,
                need if need.is_stoppable() && self.context.stop.is_stopped() => self.interrupt(),
                Need::Query => {
                    self.do_errands().await;
                    match self.hear() {
                        Ok(true) => Ok(()),
                        Ok(false) => self.attempt(Need::Query).await,
                        Err(end) => Err(end),
                    }
                }
                need => self.attempt(need).await,
            };
            let met = met.and(self.synced().await);
            // If a role could not write an event, this error takes precedence over the role's own
            // error.
            let met = match (self.recorder.take_failure(), met) {
                (Some(failed), _) => Err(failed.into()),
                (None, Err(End::Interrupted))
                    if self.context.stop.is_stopped() && !is_last_question =>
                {
                    self.interrupt()
                }
                (None, met) => met,
            };
            if let Err(end) = met {
                self.finish(end);
            }
        }
    }

    /// Performs a need. A panic meanwhile is the end of the run, whose work is still saved.
    async fn attempt(&mut self, need: Need) -> Result<(), End> {
        let is_salvage = matches!(need, Need::Salvage(_));
        let met = caught(pin!(self.meet(need))).await;
        met.unwrap_or_else(|words| {
            if is_salvage {
                // It is not tried again.
                let output = Output::not_executed(&bug(&words));
                self.record_or_apply(Event::Salvaged { output })?;
            }
            let message = bug(&words);
            Err(End::Crashed { message })
        })
    }

    pub(crate) async fn meet(&mut self, need: Need) -> Result<(), End> {
        match need {
            Need::Environment => self.make_ready().await,
            Need::SetUp => self.set_up().await,
            Need::Opening => self.open().await,
            Need::Query => self.query().await,
            Need::Parse(paid) => self.parse(paid).await,
            Need::Judge(index) => self.judge(index).await,
            Need::Run(index) => self.run_action(index).await,
            Need::Skip(index, reason) => self.skip_action(index, &reason),
            Need::Requery(index) => self.requery(index).await,
            Need::ReportInterrupted(index) => self.report_interrupted(index),
            Need::Observe => self.observe().await,
            Need::Submit => self.submit().await,
            Need::Ask(question) => self.ask(question).await,
            Need::Salvage(_) => self.salvage().await,
            Need::Finish(end) | Need::Close(end) => Err(end),
        }
    }

    /// Waits for the disk, if the journal promises that, unless the run is stopped meanwhile.
    fn synced(&self) -> impl Future<Output = Result<(), End>> + Send + use<> {
        let recorder = self.recorder.clone();
        let stop = self.context.stop.clone();
        async move {
            tokio::select! {
                biased;
                synced = recorder.synced() => Ok(synced?),
                () = stop.stopped() => Ok(()),
            }
        }
    }

    /// Records that the run is about to end. The run ends also if the journal can't be written.
    fn finish(&self, end: End) {
        let _ = self.record_or_apply(Event::Ending { end });
    }
}
