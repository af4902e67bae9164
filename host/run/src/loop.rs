//! The loop: it performs the next need of the state and records the result as events, which change
//! the state. Each kind of need has a file below `needs`.

use std::pin::pin;

use super::agent::{Agent, Ended};
use super::caught::{bug, caught};
use super::next::{Need, Outside, next};
use mswea_core::{End, Event, Output, Question};

impl Agent {
    /// Runs until the task is submitted, a limit is reached, or something fails. When this returns,
    /// the journal has all events, and everything that was started has ended.
    pub async fn run(mut self) -> Ended {
        loop {
            let outside = self.outside();
            let need = next(&self.recorder.state(), &self.settings, &outside);
            if let Need::Close(end) = need {
                return self.close(end).await;
            }
            // An interruption of this question is the user's second one.
            let is_last_question = matches!(need, Need::Ask(Question::Interrupted));
            let mut met = self.attempt(need).await.and(self.synced().await);
            if met == Err(End::Interrupted) && self.context.stop.is_stopped() && !is_last_question {
                met = self.interrupt();
            }
            if let Err(end) = met {
                self.finish(end);
            }
        }
    }

    /// What the next need depends on besides the state.
    pub(crate) fn outside(&self) -> Outside {
        let person = &self.parts.person;
        Outside {
            mode: person.mode(),
            is_stopped: self.context.stop.is_stopped(),
            has_message: self.settings.has_person && person.has_message(),
            has_work: self.recorder.state().end.is_some() && self.has_work(),
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
            Need::Interrupt => self.interrupt(),
            Need::Hear => self.hear(),
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
