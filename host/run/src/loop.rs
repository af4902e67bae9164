//! The loop: it performs the next need of the state and records the result as events, which change
//! the state. Each kind of need has a file below `needs`.

use super::agent::{Agent, Ended};
use super::next::{Need, next};
use mswea_core::{End, Event};

impl Agent {
    /// Runs until the task is submitted, a limit is reached, or something fails. When this returns,
    /// the journal has all events, and everything that was started has ended.
    pub async fn run(mut self) -> Ended {
        loop {
            let need = next(&self.recorder.state(), &self.settings);
            let met = match need {
                Need::Close(end) => return self.close(end).await,
                Need::Salvage(end) if !self.has_work() => return self.close(end).await,
                need if need.is_stoppable() && self.context.stop.is_stopped() => self.interrupt(),
                need => self.meet(need).await,
            };
            // If a role could not write an event, this error takes precedence over the role's own
            // error.
            let met = match (self.recorder.take_failure(), met) {
                (Some(failed), _) => Err(failed.into()),
                (None, Err(End::Interrupted)) if self.context.stop.is_stopped() => self.interrupt(),
                (None, met) => met,
            };
            if let Err(end) = met {
                self.finish(end);
            }
        }
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
            Need::ReportInterrupted(index) => self.report_interrupted(index),
            Need::Observe => self.observe().await,
            Need::Submit => self.submit().await,
            Need::Ask(question) => self.ask(question).await,
            Need::Salvage(_) => self.salvage().await,
            Need::Finish(end) | Need::Close(end) => Err(end),
        }
    }

    /// Records that the run is about to end. The run ends also if the journal can't be written.
    fn finish(&self, end: End) {
        let _ = self.record_or_apply(&Event::Ending { end });
    }
}
