//! Questions to the model of a config, outside of any run: for judges of several attempts at one
//! task.

use std::path::Path;
use std::sync::Arc;

use crate::plugins::RoleSetup;
use crate::prepare::{secret_names, started};
use crate::replayed::Replayed;
use crate::wiring::seconds;
use crate::{Job, Runtime, SetupError, keys, locks};
use mswea_core::{Context, Front, Stop};
use mswea_executor::aside;
use mswea_record::journal::{JournalFile, MemoryJournal};
use mswea_run::{Inquiry, RunLimits, bug};
use mswea_secrecy as secrecy;

impl Runtime {
    /// A model that can be asked, whose questions are recorded in the journal `journal`. Only the
    /// model, the limits and the plugins of the job's config are used; no environment is made.
    ///
    /// # Errors
    /// [`SetupError`] if the model can't be made, or if the journal can't be written.
    pub async fn inquiry(
        &self,
        job: Job<'_>,
        journal: &Path,
        front: Arc<dyn Front>,
        stop: Stop,
    ) -> Result<Inquiry, SetupError> {
        let config = job.config;
        let replayed = Replayed::of(config)?;
        let global = self.global.clone()?;
        let secrets = Arc::new(keys::secrets(config));
        let redacted = config.redacted();
        let variables = self.variables(&job, &redacted, &secrets);
        // The file is made only once the model can be asked.
        let context = Context {
            clock: job.clock.clone(),
            ..Context::new(front, Arc::new(MemoryJournal::new()), stop)
        };
        let setup = RoleSetup {
            runtime: self,
            job: &job,
            context: &context,
            variables: &variables,
            tools: None,
            locks: locks(job.layers)?,
            replayed: replayed.as_ref(),
        };
        let roles = setup.make(secrets.clone()).await?;
        secrecy::hide(&secret_names(config, &secrets, roles.secrets));
        let path = journal.to_owned();
        let created = aside(move || JournalFile::create(path)).await;
        let file = created.ok_or_else(|| SetupError::Internal(bug("the journal of questions")))?;
        let file = file.map_err(SetupError::Journal)?;
        let context = Context {
            journal: Arc::new(file.with_clock(job.clock.clone())),
            ..context
        };
        let agent = &config.agent;
        let limits = RunLimits {
            steps: agent.step_limit,
            cost: agent.cost_limit,
            wall_time_seconds: agent.wall_time_limit_seconds,
            consecutive_format_errors: 0,
            consecutive_timeouts: 0,
            execution_seconds: seconds(agent.total_execution_timeout).as_secs_f64(),
        };
        let first = started(&job, redacted, roles.report.into());
        Inquiry::begin(
            roles.model,
            Arc::new(roles.prices),
            global,
            limits,
            context,
            &first,
        )
        .map_err(SetupError::Journal)
    }
}
