//! Prepares a container: image, container, interpreter, helper. A container that can't be prepared
//! is removed again.

mod again;
mod readiness;
mod unfinished;

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::oneshot;

use super::connect::{connect, sees_this_machine};
use super::engine::KEY;
use super::engine::{ContainerSpec, Engine, EngineError, EngineErrorKind, Image};
use super::record::{ContainerEntry, ContainerRecord};
use super::running::Container;
use super::turn::turn;
use super::{ContainerSettings, fast, leftovers, pulls, run_args};
use crate::owner::Owner;
use mswea_core::{Context, ExecutorError, Progress, Stop};
use readiness::make_ready;

/// The time limit of removing a container that could not be prepared.
const REMOVING: Duration = Duration::from_secs(60);
/// How long a container may take to appear after its start was cancelled, so that it can be
/// removed.
const UNWANTED: Duration = Duration::from_secs(20);
/// How many names are tried if one is taken.
const NAMES: usize = 5;

pub(super) use again::{Handle, find};

fn error(message: impl Into<String>) -> ExecutorError {
    message.into().into()
}

fn stopped() -> ExecutorError {
    error("the run was stopped while its container was being made ready")
}

/// Makes a container that is ready for actions.
pub(super) async fn start(
    settings: &ContainerSettings,
    context: &Context,
) -> Result<ReadyContainer, ExecutorError> {
    let stop = &context.stop;
    let image_name = settings.image.as_str();
    if image_name.is_empty() {
        return Err(error("no image: set `environment.image`"));
    }
    if settings.interpreter.is_empty() {
        return Err(error(
            "`environment.interpreter` is empty: set it to a program that takes a command, like `[\"bash\", \"-lc\"]`",
        ));
    }
    for name in settings.forwarded_secrets() {
        let text = format!(
            "`{name}` is a key of the model, and `environment.forward_env` hands it to every command: take it out if that is not meant"
        );
        context.front.show(&Progress::Warning(&text));
    }
    let local = sees_this_machine(&settings.executable);
    settings.check(local).map_err(error)?;
    let connecting = connect(&settings.executable, settings.transport);
    let engine = unless(stop, connecting).await??;
    unless(stop, leftovers::once(settings, &engine)).await?;
    let image = unless(stop, image(&engine, settings, context)).await??;
    let foreign = foreign(settings, &image);
    if let Some(text) = &foreign
        && settings.platform.is_none()
    {
        context.front.show(&Progress::Warning(text));
    }
    // An image of another architecture may be the cause of any later failure.
    let explain = |failed: ExecutorError| match &foreign {
        Some(text) if !stop.is_stopped() => error(format!("{}; {text}", failed.message)),
        _ => failed,
    };
    unless(stop, unfinished::clear(&engine, settings, context)).await??;
    let turn = unless(stop, turn()).await?;
    let started = run(&engine, settings, stop).await.map_err(explain)?;
    // The rest is little work, and mostly waiting.
    drop(turn);
    let ready = unless(stop, make_ready(&engine, &started, settings, &image)).await;
    let StartedContainer {
        id, name, record, ..
    } = started;
    match ready.and_then(|ready| ready) {
        Ok((container, session)) => {
            let how = match session {
                Some(_) => "fast path",
                None => "one exec each",
            };
            context.front.show(&Progress::Preparing(&format!(
                "container `{name}` of image `{image_name}`, commands start in `{}` ({how})",
                settings.cwd
            )));
            Ok((container, session))
        }
        Err(failed) => {
            give_up(&*engine, &id, record.as_ref()).await;
            Err(explain(failed))
        }
    }
}

/// The result of `work`, or an error as soon as the run is asked to stop.
async fn unless<T>(stop: &Stop, work: impl Future<Output = T>) -> Result<T, ExecutorError> {
    tokio::select! {
        biased;
        () = stop.stopped() => Err(stopped()),
        done = work => Ok(done),
    }
}

/// The image, pulled if it is missing.
async fn image(
    engine: &Arc<dyn Engine>,
    settings: &ContainerSettings,
    context: &Context,
) -> Result<Image, ExecutorError> {
    let name = settings.image.as_str();
    if let Some(image) = engine.image(name).await? {
        return Ok(image);
    }
    let wanted = pulls::PullKey {
        engine: format!("{} {:?}", settings.executable, settings.transport),
        image: name.to_owned(),
        platform: settings.platform.clone(),
    };
    let front = context.front.clone();
    let tell = move |text: &str| front.show(&Progress::Preparing(text));
    pulls::pull(engine, &wanted, settings.pull_timeout, &tell).await?;
    engine.image(name).await?.ok_or_else(|| {
        error(format!(
            "image `{name}` was pulled and does not exist: another process may have removed it"
        ))
    })
}

/// A note about an image for other machines than this one; none if it is for this one.
fn foreign(settings: &ContainerSettings, image: &Image) -> Option<String> {
    let machine = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        "powerpc64" => "ppc64le",
        other => other,
    };
    let runs = match image.architecture.as_str() {
        "" => true,
        same if same == machine => true,
        // A 64-bit kernel also runs 32-bit programs.
        "386" => machine == "amd64",
        _ => false,
    };
    let (name, architecture) = (&settings.image, &image.architecture);
    (!runs).then(|| {
        format!(
            "image `{name}` is of another architecture, `{architecture}`, and this machine is `{machine}`: it is emulated, or does not start at all; use an image for `{machine}`, or install emulation (binfmt and qemu) and set `environment.platform` to `linux/{architecture}`"
        )
    })
}

/// A container that is ready for actions, and the helper's session if it can run the helper.
pub(super) type ReadyContainer = (Container, Option<fast::ContainerSession>);

/// A running container.
#[derive(Clone)]
struct StartedContainer {
    id: String,
    name: String,
    record: Option<ContainerRecord>,
    /// When the container was requested.
    began: Instant,
}

/// Creates and starts the container.
async fn run(
    engine: &Arc<dyn Engine>,
    settings: &ContainerSettings,
    stop: &Stop,
) -> Result<StartedContainer, ExecutorError> {
    let refused = |refusal| match refusal {
        Refusal::Engine(e) => e.into(),
        Refusal::Own(e) => e,
    };
    // A name that the user chose is the only one to try.
    if let Some(name) = run_args::name(&settings.run_args) {
        let made = run_as(engine, settings, name, stop).await;
        return made.map_err(refused);
    }
    let plain = settings.container_name();
    let mut name = plain.clone();
    for number in 2..=NAMES {
        match run_as(engine, settings, &name, stop).await {
            // For example, a kept container of a run with the same id has the name.
            Err(Refusal::Engine(e)) if e.message.contains("already in use") => {
                name = format!("{plain}-{number}");
            }
            made => return made.map_err(refused),
        }
    }
    Err(error(format!(
        "containers named `{plain}` to `{name}` are there already: remove them with `{} rm -f {plain} ...`",
        settings.executable
    )))
}

enum Refusal {
    Engine(EngineError),
    Own(ExecutorError),
}

async fn run_as(
    engine: &Arc<dyn Engine>,
    settings: &ContainerSettings,
    name: &str,
    stop: &Stop,
) -> Result<StartedContainer, Refusal> {
    let began = Instant::now();
    let entry = ContainerEntry::new(settings, name);
    let key = entry.key.clone();
    let mut record = match entry.write() {
        Ok(record) => Some(record),
        Err(error) => {
            tracing::warn!(
                %error,
                "the container can't be put on record: if this host is killed, it stays; set `XDG_STATE_HOME` to a folder that can be written to"
            );
            None
        }
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let mut labels = vec![
        (leftovers::RUN, settings.label().to_owned()),
        (leftovers::OWNER, Owner::current().to_string()),
        (
            leftovers::CREATED,
            now.unwrap_or_default().as_secs().to_string(),
        ),
        (KEY, key),
    ];
    if settings.keep {
        labels.push((leftovers::KEEP, "true".to_owned()));
    }
    let spec = ContainerSpec {
        name: name.to_owned(),
        image: settings.image.clone(),
        command: vec!["sleep".to_owned(), settings.container_timeout.clone()],
        cwd: settings.cwd.clone(),
        labels: labels
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
        platform: settings.platform.clone(),
        typed: settings.typed(),
        run_args: settings.kept_run_args(),
    };
    // In a task of its own: a requested container must be waited for, so that it can be removed.
    let (sender, mut receiver) = oneshot::channel();
    let running = engine.clone();
    let written = record.clone();
    let mut task = tokio::spawn(async move {
        let result = running.run(&spec).await;
        if let Err(failed) = &result {
            // No container was made, unless the engine has not answered.
            if !matches!(
                failed.kind,
                EngineErrorKind::TimedOut | EngineErrorKind::Unavailable
            ) {
                written.iter().for_each(ContainerRecord::forget);
            }
        }
        if let Err(Ok(id)) = sender.send(result) {
            give_up(&*running, &id, written.as_ref()).await;
        }
    });
    let limit = settings.start_timeout;
    let refusal = tokio::select! {
        biased;
        result = &mut receiver => return match result {
            Ok(Ok(id)) => {
                record.iter_mut().for_each(|record| record.found(&id));
                Ok(StartedContainer { id, name: name.to_owned(), record, began })
            }
            Ok(Err(refused)) => Err(Refusal::Engine(refused)),
            Err(_) => Err(Refusal::Own(error("the start of the container was broken off"))),
        },
        () = stop.stopped() => stopped(),
        () = tokio::time::sleep(limit) => error(format!(
            "no container of image `{}` within {} s: raise `environment.start_timeout`, or see what the engine is busy with",
            settings.image,
            limit.as_secs_f64()
        )),
    };
    receiver.close();
    if let Ok(Ok(id)) = receiver.try_recv() {
        give_up(&**engine, &id, record.as_ref()).await;
    }
    let ended = tokio::select! {
        _ = &mut task => true,
        () = stop.stopped_twice() => false,
        () = tokio::time::sleep(UNWANTED) => false,
    };
    if !ended {
        tracing::warn!(
            container = name,
            "the engine is still starting a container that is not needed any more: it is removed in the background, by the next run, or by `mswea-host gc`"
        );
    }
    Err(Refusal::Own(refusal))
}

/// Removes a container after its start was cancelled.
async fn give_up(engine: &dyn Engine, id: &str, record: Option<&ContainerRecord>) {
    match engine.remove(id, REMOVING).await {
        Ok(()) => record.into_iter().for_each(ContainerRecord::forget),
        Err(left) => tracing::warn!(container = id, error = %left, "a container is left behind"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_of_other_architectures_are_told() {
        let settings = ContainerSettings {
            image: "i".into(),
            ..ContainerSettings::default()
        };
        let image = |architecture: &str| Image {
            id: String::new(),
            architecture: architecture.into(),
            user: String::new(),
            os: "linux".into(),
        };
        let (own, other) = match std::env::consts::ARCH {
            "x86_64" => ("amd64", "arm64"),
            "aarch64" => ("arm64", "amd64"),
            _ => return,
        };
        assert_eq!(foreign(&settings, &image(own)), None);
        assert_eq!(foreign(&settings, &image("")), None);
        let text = foreign(&settings, &image(other)).unwrap();
        assert!(text.contains(&format!("`linux/{other}`")), "{text}");
    }
}
