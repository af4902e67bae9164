//! Checks that a new container can run actions, and chooses the way in which they run.

use std::sync::Arc;
use std::time::Duration;

use mswea_core::{ExecutorError, Stop};
use mswea_helper::protocol::ActionInput;

use super::{ReadyContainer, StartedContainer, error};
use crate::capture::Capture;
use crate::container::attend::{ProgramAnswer, ask};
use crate::container::engine::{Engine, EngineError, EngineErrorKind, ExecSpec, Image};
use crate::container::running::{Container, Way, joined};
use crate::container::{ContainerSettings, fast};
use crate::helper::{HelperAction, HelperEnd, HelperSession};
use crate::placed::names_folder;

/// Checks what actions need, and finds the fastest way to run them.
///
/// # Errors
/// [`ExecutorError`] if the interpreter can't run a command in the configured folder, or the
/// container has ended.
pub(super) async fn make_ready(
    engine: &Arc<dyn Engine>,
    started: &StartedContainer,
    settings: &ContainerSettings,
    image: &Image,
) -> Result<ReadyContainer, ExecutorError> {
    let StartedContainer {
        id,
        name,
        record,
        began,
    } = started.clone();
    let in_way = |way, no_helper| Container {
        engine: engine.clone(),
        id: id.clone(),
        name,
        record,
        began,
        way,
        no_helper,
    };
    let (engine, id) = (engine.as_ref(), started.id.as_str());
    let mut session = match settings.fast_path {
        true => fast::install(engine, id, image, settings.user.is_none()).await,
        false => Err("`environment.fast_path` is false".to_owned()),
    };
    // A command of the helper costs much less than an exec. The exec is only needed to find the
    // reason of a failure.
    let is_ready = match &mut session {
        Ok((helper, _)) => runs(helper, settings).await,
        Err(_) => false,
    };
    if !is_ready {
        probe(engine, id, settings).await?;
    }
    let mut why = match session {
        Ok(session) => return Ok((in_way(Way::Helper, String::new()), Some(session))),
        Err(why) => why,
    };
    let shell = answer(engine, id, settings, joined(vec!["true".to_owned()])).await;
    let shell = shell.is_ok_and(|answer| answer.is_ok());
    if !shell {
        why.push_str("; and the image has no `sh`");
    }
    tracing::info!(
        why,
        "the helper can't be used in this image: actions are plain execs"
    );
    Ok((in_way(Way::Plain { shell }, why), None))
}

/// Whether the helper can run the interpreter in the configured folder.
async fn runs(helper: &mut HelperSession, settings: &ContainerSettings) -> bool {
    let mut argv = settings.interpreter.clone();
    argv.push("true".to_owned());
    let action = HelperAction {
        argv: &argv,
        env: &settings.environment().unwrap_or_default(),
        cwd: Some(&settings.cwd),
        grace: Duration::ZERO,
        input: ActionInput::Empty,
    };
    let (mut capture, never) = (Capture::new(0), Stop::never());
    let limit = settings.start_timeout;
    let ended = helper.run(&action, &mut capture, limit, &never).await;
    matches!(ended, Ok(HelperEnd::Exited(0)))
}

async fn answer(
    engine: &dyn Engine,
    id: &str,
    settings: &ContainerSettings,
    argv: Vec<String>,
) -> Result<ProgramAnswer, EngineError> {
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
    // In a container that has ended every exec fails, with any message.
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

/// How a container ended; none if it is running.
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
        ": its entry point must run the command that it is given, `sleep {}`; set `environment.run_args` to `[\"--rm\", \"--entrypoint\", \"\"]` to leave out the entry point, and check that the image has `sleep`",
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

impl Why {
    /// Decided by the messages of the runtimes (runc, crun), which have no codes for the reasons.
    fn of(text: &str, status: i32) -> Self {
        let lower = text.to_ascii_lowercase();
        let missing = ["no such file", "not found", "does not exist"]
            .iter()
            .any(|words| lower.contains(words));
        if names_folder(&lower) {
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
}
