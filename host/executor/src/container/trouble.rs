//! Finds out what happened to a container in which an exec or a session ended too early.

use std::time::{Duration, Instant};

use super::ContainerSettings;
use super::engine::{ContainerState, EngineErrorKind, ExecSpec};
use super::running::Container;

/// How long a daemon that does not answer may take to come back, as it may be restarting.
const COMING_BACK: Duration = Duration::from_secs(20);
/// The pause between two questions to it.
const PAUSE: Duration = Duration::from_millis(500);
/// The time limit of reading the count of out-of-memory kills.
const COUNTING: Duration = Duration::from_secs(5);
/// How long the engine may take to notice a container's end.
const NOTICING: Duration = Duration::from_secs(3);

/// The state of the container.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The container runs.
    Passing,
    /// It is gone for good: the reason.
    Gone(String),
    /// The container is paused: what to do.
    Paused(String),
    /// The engine can't be asked: the reason.
    Silent(String),
}

/// Inspects the container; waits up to [`COMING_BACK`] for an engine that does not answer.
pub(super) async fn find_out(container: &Container, settings: &ContainerSettings) -> Trouble {
    find_out_within(container, settings, COMING_BACK, PAUSE).await
}

/// The same with another limit and another pause between two attempts.
pub(super) async fn find_out_within(
    container: &Container,
    settings: &ContainerSettings,
    limit: Duration,
    pause: Duration,
) -> Trouble {
    let began = Instant::now();
    loop {
        match container.engine.state(&container.id).await {
            // The pause may last only a moment.
            Ok(state) if state.paused => {
                if began.elapsed() > limit {
                    let name = &container.name;
                    return Trouble::Paused(format!(
                        "the container `{name}` is paused: `{} unpause {name}` continues it",
                        settings.executable
                    ));
                }
                tokio::time::sleep(pause).await;
            }
            Ok(state) if state.running => return Trouble::Passing,
            Ok(state) => return Trouble::Gone(gone(container, settings, Some(&state))),
            Err(error) if error.kind == EngineErrorKind::ContainerGone => {
                return Trouble::Gone(gone(container, settings, None));
            }
            Err(error) if began.elapsed() > limit => {
                return Trouble::Silent(format!(
                    "the container engine does not answer: {}",
                    error.message
                ));
            }
            Err(_) => tokio::time::sleep(pause).await,
        }
    }
}

/// The message about a container that has ended or was removed.
pub(super) fn gone(
    container: &Container,
    settings: &ContainerSettings,
    state: Option<&ContainerState>,
) -> String {
    let lifetime = settings.lifetime();
    // The container's `sleep` began at about the same time.
    let age = container.began.elapsed() + Duration::from_secs(1);
    let is_over = lifetime.is_some_and(|lifetime| age >= lifetime);
    let why = match state {
        Some(state) if state.oom_killed => "its memory ran out".to_owned(),
        _ if is_over => format!(
            "its time has passed (`environment.container_timeout` is `{}`)",
            settings.container_timeout
        ),
        Some(state) if !state.error.is_empty() => format!(
            "it ended with exit code {} ({})",
            state.exit_code, state.error
        ),
        Some(state) => format!(
            "it was stopped from outside, with exit code {}",
            state.exit_code
        ),
        None => "it was stopped or removed from outside".to_owned(),
    };
    format!("container `{}` is gone: {why}", container.name)
}

/// The kernel's counts of processes killed for lack of memory (cgroup 2, and 1).
const COUNT: &str = r#"
for file in /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control; do
    [ -r "$file" ] || continue
    while read -r name value; do
        [ "$name" = oom_kill ] && echo "$value" && exit 0
    done <"$file"
done
exit 1
"#;

/// How many processes were killed for lack of memory in the container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Count {
    Known(u64),
    /// The count can't be read; but the container runs.
    Unknown,
    /// Nothing could be started there.
    Failed,
}

pub(super) async fn oom_kills(container: &Container) -> Count {
    let spec = ExecSpec::of(&["sh", "-c", COUNT]);
    match container.ask(&spec, COUNTING).await {
        Ok(answer) if matches!(answer.status, 0 | 1) => answer
            .text
            .trim()
            .parse()
            .map_or(Count::Unknown, Count::Known),
        // Also in an image without a shell: the engine's message is the same as for a container
        // that is just ending.
        _ => Count::Failed,
    }
}

/// As [`find_out`], for a container in which nothing can be started after a kill: waits for the
/// engine to notice its end.
pub(super) async fn wait_for_end(container: &Container, settings: &ContainerSettings) -> Trouble {
    let began = Instant::now();
    loop {
        let found = find_out(container, settings).await;
        if !matches!(found, Trouble::Passing) || began.elapsed() > NOTICING {
            return found;
        }
        tokio::time::sleep(PAUSE / 10).await;
    }
}
