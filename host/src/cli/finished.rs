//! `resume` of a run that has submitted and recorded its end, and whose host was killed before it
//! wrote the trajectory, printed the submission and ran `run.on_end`.

use super::args::ChangeArgs;
use super::front::CliFront;
use super::output::{self, Failure};
use super::{atif, on_end, run, signals};
use mswea_config::Config;
use mswea_core::Progress;
use mswea_session::Earlier;

use super::exit::ExitCode;

/// Does what is missing. No request is sent, and no command but `run.on_end` runs.
pub(super) fn finish(
    earlier: &Earlier,
    change: &ChangeArgs,
    config: &Config,
    front: &dyn CliFront,
) -> Result<ExitCode, Failure> {
    let state = earlier.state();
    let (trajectory, end) = earlier
        .finish()
        .map_err(|error| Failure::new(ExitCode::Failed, error.to_string()))?;
    let ended = state.ended.clone().unwrap_or_default();
    output::remark(
        change.display,
        &format!(
            "run {} had ended with `{}`, but its host was killed before its trajectory was written: \
             `{}` is written now, {}; nothing was sent or run",
            state.run_id,
            ended.exit_status,
            trajectory.display(),
            match config.run.on_end.is_some() {
                true => "the submission printed, and `run.on_end` started",
                false => "and the submission printed",
            }
        ),
    );
    front.show(&Progress::Ended {
        end: &end,
        exit_status: end.exit_status(),
        submission: &ended.submission,
        cost: state.account.known_cost(),
        steps: state.account.queries,
        usage: &state.account.usage,
    });
    let mut code = change.exit_codes.of_run(&end);
    front.conclude(code, end.error());
    let tokio = output::runtime()?;
    let place = trajectory.display().to_string();
    let is_delivered = tokio.block_on(async {
        let stop = signals::stop()?;
        Ok::<_, anyhow::Error>(run::delivered(front, &stop, &place).await)
    })?;
    if !is_delivered && code == ExitCode::Submitted {
        code = ExitCode::Failed;
    }
    let atif = atif::before_the_run(&config.run, &earlier.files())?;
    atif::at_the_end(&config.run, atif.as_ref(), Some(earlier.journal()));
    on_end::run(
        &config.run,
        &on_end::EndedRun {
            exit_status: &ended.exit_status,
            code,
            trajectory: Some(&trajectory),
            journal: Some(earlier.journal()),
        },
    );
    Ok(code)
}
