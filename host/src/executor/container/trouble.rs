//! Finds out what has happened to a container when something in it broke off.

use std::time::{Duration, Instant};

use super::ContainerSettings;
use super::attend::ask;
use super::engine::{ContainerState, EngineErrorKind, ExecSpec};
use super::executor::Container;

/// How long a daemon that does not answer may take to come back: it may be restarting.
const COMING_BACK: Duration = Duration::from_secs(20);
/// Between two questions to it.
const PAUSE: Duration = Duration::from_millis(500);
/// How long the count of out-of-memory kills may take to be read.
const COUNTING: Duration = Duration::from_secs(5);
/// How long the engine may take to notice a container's end.
const NOTICING: Duration = Duration::from_secs(3);

/// What was found.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The container runs.
    Passing,
    /// It is gone for good: why.
    Gone(String),
    /// The engine can't be asked, or the container does not move: why.
    Silent(String),
}

/// Looks at the container, and waits a while for an engine that is away.
pub(super) async fn find_out(container: &Container, settings: &ContainerSettings) -> Trouble {
    find_out_within(container, settings, COMING_BACK, PAUSE).await
}

/// The same with an engine that is away for `limit` at most.
pub(super) async fn find_out_within(
    container: &Container,
    settings: &ContainerSettings,
    limit: Duration,
    pause: Duration,
) -> Trouble {
    let began = Instant::now();
    loop {
        match container.engine.state(&container.id).await {
            // Whoever paused it may have done so for a moment.
            Ok(state) if state.paused => {
                if began.elapsed() > limit {
                    let name = &container.name;
                    return Trouble::Silent(format!(
                        "the container `{name}` is paused: `{} unpause {name}` lets it go on",
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

/// How a container went.
pub(super) fn gone(
    container: &Container,
    settings: &ContainerSettings,
    state: Option<&ContainerState>,
) -> String {
    let lifetime = settings.lifetime();
    // Both clocks began at about the same time.
    let age = container.began.elapsed() + Duration::from_secs(1);
    let is_over = lifetime.is_some_and(|lifetime| age >= lifetime);
    let why = match state {
        Some(state) if state.oom_killed => "its memory ran out".to_owned(),
        _ if is_over => format!(
            "its time is over (`environment.container_timeout` is `{}`)",
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

/// Where the kernel counts the processes that it killed for want of memory (cgroup 2, and 1).
const COUNT: &str = r#"
for file in /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control; do
    [ -r "$file" ] || continue
    while read -r name value; do
        [ "$name" = oom_kill ] && echo "$value" && exit 0
    done <"$file"
done
exit 1
"#;

/// How often memory ran out in the container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Count {
    Known(u64),
    /// That can't be read there; but the container runs.
    Unknown,
    /// Nothing could be started there.
    Failed,
}

pub(super) async fn oom_kills(container: &Container) -> Count {
    let spec = ExecSpec {
        argv: ["sh", "-c", COUNT].map(str::to_owned).to_vec(),
        cwd: Some("/".to_owned()),
        ..ExecSpec::default()
    };
    match ask(container.engine.as_ref(), &container.id, &spec, COUNTING).await {
        Ok(answer) if matches!(answer.status, 0 | 1) => answer
            .text
            .trim()
            .parse()
            .map_or(Count::Unknown, Count::Known),
        // Also where there is no shell: what the engine says of a container that is just ending
        // can't be told from that.
        _ => Count::Failed,
    }
}

/// The same as [`find_out`], where something in the container was killed and nothing else can be
/// started: the engine may not have noticed yet that all of it is gone.
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
