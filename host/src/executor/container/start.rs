//! Makes a container ready: image, container, interpreter, helper. Nothing is left of one that
//! does not become ready.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::oneshot;

use super::attend::{Answer, ask};
use super::connect::{connect, sees_this_machine};
use super::engine::{ContainerSpec, Engine, EngineError, EngineErrorKind, ExecSpec, Image};
use super::executor::{Container, Way};
use super::record::{Entry, KEY, Record};
use super::{ContainerSettings, fast, leftovers, pulls, run_args};
use crate::executor::owner::Owner;
use crate::roles::{Context, ExecutorError, Progress, Stop};

/// How long the removal of one that did not become ready may take.
const REMOVING: Duration = Duration::from_secs(60);
/// How long a container that nobody wants any more may take to come into being, so that it can
/// be removed.
const UNWANTED: Duration = Duration::from_secs(20);
/// How often a name may be taken.
const NAMES: usize = 5;

/// The words of an image's shell that stdout and stderr are one.
pub(super) const MERGE: &str = r#"exec "$@" 2>&1"#;

fn error(message: impl Into<String>) -> ExecutorError {
    ExecutorError {
        message: message.into(),
    }
}

fn stopped() -> ExecutorError {
    error("the run was stopped while its container was being made ready")
}

/// Makes a container that is ready for actions.
pub(super) async fn start(
    settings: &ContainerSettings,
    context: &Context,
) -> Result<(Container, Option<fast::Session>), ExecutorError> {
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
    let engine = unless(stop, connecting)
        .await?
        .map_err(|e| error(e.message))?;
    unless(stop, leftovers::once(settings, &engine)).await?;
    let image = unless(stop, image(&engine, settings, context)).await??;
    let foreign = foreign(settings, &image);
    if let Some(text) = &foreign
        && settings.platform.is_none()
    {
        context.front.show(&Progress::Warning(text));
    }
    // Whatever goes wrong from here on may be because of that.
    let explain = |failed: ExecutorError| match &foreign {
        Some(text) if !stop.is_stopped() => error(format!("{}; {text}", failed.message)),
        _ => failed,
    };
    let began = Instant::now();
    let Made { id, name, record } = run(&engine, settings, stop).await.map_err(explain)?;
    let ready = unless(stop, make_ready(&engine, &id, settings, &image)).await;
    match ready.and_then(|ready| ready) {
        Ok((way, session)) => {
            let how = match session {
                Some(_) => "fast path",
                None => "one exec each",
            };
            context.front.show(&Progress::Preparing(&format!(
                "container `{name}` of image `{image_name}`, commands start in `{}` ({how})",
                settings.cwd
            )));
            let container = Container {
                engine,
                id,
                name,
                record,
                began,
                way,
            };
            Ok((container, session))
        }
        Err(failed) => {
            give_up(&*engine, &id, record.as_ref()).await;
            Err(explain(failed))
        }
    }
}

/// Works until the run has to stop.
async fn unless<T>(stop: &Stop, work: impl Future<Output = T>) -> Result<T, ExecutorError> {
    tokio::select! {
        biased;
        () = stop.stopped() => Err(stopped()),
        done = work => Ok(done),
    }
}

/// The image, pulled if it is not there.
async fn image(
    engine: &Arc<dyn Engine>,
    settings: &ContainerSettings,
    context: &Context,
) -> Result<Image, ExecutorError> {
    let name = settings.image.as_str();
    let look = || async { engine.image(name).await.map_err(|e| error(e.message)) };
    if let Some(image) = look().await? {
        return Ok(image);
    }
    let wanted = pulls::Wanted {
        engine: format!("{} {:?}", settings.executable, settings.transport),
        image: name.to_owned(),
        platform: settings.platform.clone(),
    };
    let front = context.front.clone();
    let tell = move |text: &str| front.show(&Progress::Preparing(text));
    pulls::pull(engine, &wanted, settings.pull_timeout, &tell)
        .await
        .map_err(|e| error(e.message))?;
    look().await?.ok_or_else(|| {
        error(format!(
            "image `{name}` was pulled and is not there: somebody else may be removing images"
        ))
    })
}

/// What to know about an image for other machines than this one; none if it is for this one.
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
        // The kernel runs the smaller ones too.
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

/// A container that runs.
struct Made {
    id: String,
    name: String,
    record: Option<Record>,
}

/// Creates and starts the container.
async fn run(
    engine: &Arc<dyn Engine>,
    settings: &ContainerSettings,
    stop: &Stop,
) -> Result<Made, ExecutorError> {
    let refused = |refusal| match refusal {
        Refusal::Engine(e) => error(e.message),
        Refusal::Own(e) => e,
    };
    // The user's own choice of a name is the only one that there is.
    if let Some(name) = run_args::choices(&settings.run_args).name {
        let made = run_as(engine, settings, &name, stop).await;
        return made.map_err(refused);
    }
    let plain = settings.container_name();
    let mut name = plain.clone();
    for number in 2..=NAMES {
        match run_as(engine, settings, &name, stop).await {
            // A container that was kept, of a run with the same id.
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
) -> Result<Made, Refusal> {
    let entry = Entry::new(&settings.run_id, name, settings.keep, &settings.executable);
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
        (leftovers::RUN, settings.run_id.clone()),
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
        run_args: settings.all_run_args(),
        platform: settings.platform.clone(),
        typed: settings.typed_args(),
    };
    // In a task of its own: what has been asked of the engine must be waited for, so that it
    // can be removed.
    let (sender, mut receiver) = oneshot::channel();
    let running = engine.clone();
    let written = record.clone();
    let mut task = tokio::spawn(async move {
        let result = running.run(&spec).await;
        if let Err(failed) = &result {
            // None is there, unless the engine does not know that itself.
            if !matches!(
                failed.kind,
                EngineErrorKind::TimedOut | EngineErrorKind::Unavailable
            ) {
                written.iter().for_each(Record::forget);
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
                Ok(Made { id, name: name.to_owned(), record })
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
            "the engine is still starting a container that is not wanted any more: it is removed in the background, by the next run, or by `mswea-host gc`"
        );
    }
    Err(Refusal::Own(refusal))
}

/// Removes a container that nobody wants any more.
async fn give_up(engine: &dyn Engine, id: &str, record: Option<&Record>) {
    match engine.remove(id, REMOVING).await {
        Ok(()) => record.into_iter().for_each(Record::forget),
        Err(left) => tracing::warn!(container = id, error = %left, "a container is left behind"),
    }
}

/// Checks what actions need, and finds out how they are run best.
async fn make_ready(
    engine: &Arc<dyn Engine>,
    id: &str,
    settings: &ContainerSettings,
    image: &Image,
) -> Result<(Way, Option<fast::Session>), ExecutorError> {
    let engine = engine.as_ref();
    let (probed, put) = tokio::join!(
        probe(engine, id, settings),
        fast::put(engine, id, &image.architecture),
    );
    probed?;
    let mut why = match put {
        Err(why) => why,
        Ok(()) => {
            let session = match settings.fast_path {
                true => fast::session(engine, id).await,
                false => Err("it was switched off".to_owned()),
            };
            let slow = match session {
                Ok(session) => return Ok((Way::Helper, Some(session))),
                Err(why) => why,
            };
            match fast::check(engine, id, &settings.interpreter, &settings.cwd).await {
                Ok(()) => {
                    tracing::info!(why = slow, "no fast path: one exec per action");
                    return Ok((Way::Helper, None));
                }
                Err(why) => why,
            }
        }
    };
    let merge = ["sh", "-c", MERGE, "sh", "true"]
        .map(str::to_owned)
        .to_vec();
    let shell = answer(engine, id, settings, merge).await;
    let shell = shell.is_ok_and(|answer| answer.is_ok());
    if !shell {
        why.push_str("; and the image has no `sh`");
    }
    tracing::info!(why, "the helper can't be used in this image: plain execs");
    Ok((Way::Plain { shell }, None))
}

async fn answer(
    engine: &dyn Engine,
    id: &str,
    settings: &ContainerSettings,
    argv: Vec<String>,
) -> Result<Answer, EngineError> {
    let spec = ExecSpec {
        argv,
        cwd: Some(settings.cwd.clone()),
        env: settings.environment().unwrap_or_default(),
        ..ExecSpec::default()
    };
    ask(engine, id, &spec, settings.start_timeout).await
}

/// Checks that the interpreter can run a command in the configured folder.
async fn probe(
    engine: &dyn Engine,
    id: &str,
    settings: &ContainerSettings,
) -> Result<(), ExecutorError> {
    let mut argv = settings.interpreter.clone();
    argv.push("true".to_owned());
    let answered = answer(engine, id, settings, argv).await;
    let why = match answered {
        Ok(answer) if answer.is_ok() => return Ok(()),
        Ok(answer) => Why::of(&answer.text, answer.status),
        Err(e) => Why::of(&e.message, -1),
    };
    // One that has ended fails every exec, whatever the words.
    if let Some(ended) = ended(engine, id, settings).await {
        return Err(error(ended));
    }
    let (image, cwd) = (&settings.image, &settings.cwd);
    let name = settings.interpreter.first().map_or("", String::as_str);
    Err(error(match why {
        Why::NoProgram => {
            let argv = ["sh", "-c", "true"].map(str::to_owned).to_vec();
            let sh = answer(engine, id, settings, argv).await;
            match sh {
                Ok(answer) if answer.is_ok() => format!(
                    "image `{image}` has no `{name}`: set `environment.interpreter` to `[\"sh\", \"-c\"]`"
                ),
                _ => format!(
                    "image `{image}` has neither `{name}` nor `sh`: set `environment.interpreter` to a program of the image that takes a command as its last argument"
                ),
            }
        }
        Why::NoFolder => format!(
            "there is no folder `{cwd}` in image `{image}`: set `environment.cwd` to one that is there"
        ),
        Why::Other(text) => format!(
            "interpreter `{}` can't run `true` in folder `{cwd}` of image `{image}`: {text}; check `environment.interpreter` and `environment.cwd`",
            settings.interpreter.join(" "),
        ),
    }))
}

/// How a container that has ended did so; none if it runs.
async fn ended(engine: &dyn Engine, id: &str, settings: &ContainerSettings) -> Option<String> {
    let state = match engine.state(id).await {
        Ok(state) if state.running => return None,
        Ok(state) => Some(state),
        Err(e) if e.kind == EngineErrorKind::ContainerGone => None,
        Err(_) => return None,
    };
    let image = &settings.image;
    let mut text = format!("the container of image `{image}` ended at once");
    if let Some(state) = state {
        text.push_str(&format!(", with exit code {}", state.exit_code));
        if state.oom_killed {
            text.push_str(", as its memory ran out");
        }
        if !state.error.is_empty() {
            text.push_str(&format!(" ({})", state.error));
        }
    }
    text.push_str(&format!(
        ": its entry point must run the command that it is given, `sleep {}`; set `environment.run_args` to `[\"--rm\", \"--entrypoint\", \"\"]` to go without the entry point, and check that the image has `sleep`",
        settings.container_timeout
    ));
    Some(text)
}

/// Why an exec was refused.
#[derive(Debug, PartialEq)]
enum Why {
    NoProgram,
    NoFolder,
    Other(String),
}

/// Whether a process was refused because the folder in which it starts is not there.
pub(super) fn is_no_folder(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let missing = lower.contains("no such file") || lower.contains("not a directory");
    missing && Why::of(text, -1) == Why::NoFolder
}

impl Why {
    /// From the words of the runtimes (runc, crun), which have no codes for it.
    fn of(text: &str, status: i32) -> Self {
        let lower = text.to_ascii_lowercase();
        let missing = ["no such file", "not found", "does not exist"]
            .iter()
            .any(|words| lower.contains(words));
        if ["chdir", "workdir", "working directory"]
            .iter()
            .any(|words| lower.contains(words))
        {
            return Self::NoFolder;
        }
        if missing && (lower.contains("exec") || status == 127) {
            return Self::NoProgram;
        }
        let text = text.trim();
        Self::Other(match text.is_empty() {
            true => format!("it ended with exit code {status}"),
            false => text.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_told_by_the_words_of_runtimes() {
        let vectors = [
            (
                "OCI runtime exec failed: exec failed: unable to start container process: exec: \"bash\": executable file not found in $PATH: unknown",
                Why::NoProgram,
            ),
            (
                "OCI runtime exec failed: exec failed: unable to start container process: exec: \"/bin/bash\": stat /bin/bash: no such file or directory: unknown",
                Why::NoProgram,
            ),
            (
                "Error: crun: executable file `bash` not found in $PATH: No such file or directory: OCI runtime attempted to invoke a command that was not found",
                Why::NoProgram,
            ),
            (
                "OCI runtime exec failed: exec failed: unable to start container process: chdir to cwd (\"/nope\") set in config.json failed: no such file or directory: unknown",
                Why::NoFolder,
            ),
            (
                "Error: crun: chdir to `/nope`: No such file or directory: OCI runtime attempted to invoke a command that was not found",
                Why::NoFolder,
            ),
            ("  \n", Why::Other("it ended with exit code 127".into())),
            (" odd \n", Why::Other("odd".into())),
        ];
        for (text, wanted) in vectors {
            assert_eq!(Why::of(text, 127), wanted, "{text}");
        }
    }

    #[test]
    fn images_of_other_architectures_are_told() {
        let settings = ContainerSettings {
            image: "i".into(),
            ..ContainerSettings::default()
        };
        let image = |architecture: &str| Image {
            id: String::new(),
            architecture: architecture.into(),
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
