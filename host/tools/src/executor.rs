//! The executor whose environment has the tools.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use crate::bundle::Bundle;
use crate::edited;
use crate::first_party;
use crate::flag::is_flag;
use crate::install;
use crate::place::{ToolsPlace, quoted};
use crate::plain::is_plain;
use crate::sessions::ToolSessions;
use crate::state;
use crate::toolset::Toolset;
use mswea_core::{
    BAD_SYNTAX, Command, Context, EDITED_FILES, EnvironmentReady, Executor, ExecutorError, Front,
    InteractivePrograms, Object, Output, PROGRAM_ANSWER, Progress, SUBMISSION, Stop, TOOL_STATE,
};

/// The line that the tool `submit` prints after it has written the submission into its file.
const SUBMITS: &str = "<<SWE_AGENT_SUBMISSION>>";

/// The output for the model after a submission that is not the flag.
const WRONG_FLAG: &str = "This is not the flag. Go on looking for it.\n";

/// The key of the state with the name of the open program.
const SESSION: &str = "interactive_session";

/// The longest command whose syntax is checked, which is passed as an argument.
const LONGEST_CHECKED: usize = 60_000;

/// The number of characters of an output that a message quotes.
const QUOTED: usize = 600;

/// Wraps an executor that has one shell for all actions, and adds the tools to its environment.
pub struct ToolsExecutor {
    inner: Box<dyn Executor>,
    bundles: Vec<Bundle>,
    /// The state commands, each with its place in a manifest.
    state_commands: Vec<(String, String)>,
    place: ToolsPlace,
    front: Option<Arc<dyn Front>>,
    /// The last state that was read.
    state: Option<Object>,
    /// Whether an output has contained the state: the first one does, also with the state of the
    /// installation.
    has_told_state: bool,
    /// Whether the shell of an earlier process of the run has ended, so that this one is new.
    is_new_shell: bool,
    /// The programs that stay open between the bundles' commands.
    sessions: ToolSessions,
    /// The submission of the tool `submit`.
    submitted: Option<String>,
}

impl ToolsExecutor {
    /// Adds the tools to the environment of `inner`.
    pub fn new(inner: Box<dyn Executor>, tools: &Toolset, place: ToolsPlace) -> Self {
        let state_commands = tools.bundles.iter().filter_map(|bundle| {
            let (command, mark) = bundle.manifest.state_command.as_ref()?;
            let file = bundle.manifest.file.display();
            let written = format!("{file}:{}:{}", mark.line + 1, mark.column + 1);
            Some((command.clone(), written))
        });
        let sessions = tools.bundles.iter();
        let sessions = sessions.flat_map(|bundle| bundle.manifest.sessions.clone());
        let prologue = install::revive(&place);
        Self {
            inner,
            sessions: ToolSessions::new(sessions.collect(), prologue, place.command_timeout),
            state_commands: state_commands.collect(),
            bundles: tools.bundles.clone(),
            place,
            front: None,
            state: None,
            has_told_state: false,
            is_new_shell: false,
            submitted: None,
        }
    }

    async fn install(&mut self, context: &Context) -> Result<(), ExecutorError> {
        let stop = &context.stop;
        if let (None, false) = (self.inner.programs(), self.sessions.is_empty()) {
            return fail(install::no_programs(&self.bundles));
        }
        show(context, &format!("installing tools: {}", self.names()));
        let room = install::room(&self.place, &self.bundles);
        let made = self.run(&room, true, stop).await;
        self.need(
            &made,
            "the folder of the tools can't be made; set `tools.root`",
        )?;
        for bundle in self.bundles.clone() {
            if !bundle.is_first_party {
                let to = self.place.bundle(&bundle.name);
                first_party::upload_one(&mut *self.inner, &bundle.folder, &to, stop).await?;
            }
        }
        first_party::upload(&mut *self.inner, &self.bundles, &self.place, stop).await?;
        let registry = Value::Object(self.place.registry.clone()).to_string();
        let begin = install::begin(&self.place, &registry);
        let begun = self.run(&begin, false, stop).await;
        self.need(
            &begun,
            "the files of the tools can't be made; set `tools.root`",
        )?;
        if let Some(script) = self.inner.submission_command() {
            // What submits has to count from the start.
            let file = format!("{}.changes", self.place.registry_file());
            let text = format!("printf '%s' {} > {}", quoted(&script), quoted(&file));
            self.run(&text, true, stop).await;
        }
        for index in 0..self.bundles.len() {
            self.install_one(index, context).await?;
        }
        if !self.place.registry.is_empty() && self.bundles.iter().any(|it| it.has_install) {
            self.complete_registry(stop).await?;
        }
        let finish = install::finish(&self.place, &self.bundles);
        let finished = self.run(&finish, false, stop).await;
        if let Some(complaint) = install::complaint(&finished.output, &self.bundles) {
            return fail(complaint);
        }
        self.need(
            &finished,
            "the installation of the tools can't be completed",
        )?;
        match self.read_state(stop).await {
            Ok(mut state) => {
                if !self.sessions.is_empty() {
                    state.insert(SESSION.to_owned(), self.sessions.title().into());
                }
                self.state = Some(state);
                Ok(())
            }
            Err(message) => fail(message),
        }
    }

    async fn install_one(&mut self, index: usize, context: &Context) -> Result<(), ExecutorError> {
        let bundle = self.bundles[index].clone();
        if bundle.has_install {
            show(
                context,
                &format!("installing the tools of `{}`", bundle.name),
            );
        }
        let text = install::bundle(&self.place, &bundle);
        let output = self.run(&text, false, &context.stop).await;
        if output.returncode == 0 && output.exception_info.is_empty() {
            return Ok(());
        }
        if context.stop.is_stopped() {
            return fail("stopped during the installation of tools".to_owned());
        }
        // The output of an installation about a missing interpreter is rarely helpful.
        let so_far = &self.bundles[..=index];
        let missing = install::missing(so_far);
        let looked = self.run(&missing, false, &context.stop).await;
        if let Some(complaint) = install::complaint(&looked.output, &self.bundles) {
            return fail(complaint);
        }
        let script = bundle.folder.join("install.sh");
        let mut message = match exception(&output) {
            Some("TimeoutExpired") => format!(
                "{}: it did not end within {} seconds (`tools.install_timeout`)",
                script.display(),
                self.place.install_timeout.as_secs_f64()
            ),
            _ => format!(
                "{}: it failed with exit code {}",
                script.display(),
                output.returncode
            ),
        };
        let uses_pip = mswea_files::read_text(&script, mswea_files::SETTINGS).is_ok_and(|text| {
            text.lines()
                .any(|line| line.trim_start().starts_with("pip "))
        });
        message.push_str(match uses_pip {
            true => {
                "; it calls `pip`, which needs the network: install what it wants in the image, or leave out the bundle"
            }
            false => "; correct the script, or leave out the bundle",
        });
        fail(with_tail(message, &output))
    }

    /// Puts the configured values into the registry, over those that the installation has written.
    async fn complete_registry(&mut self, stop: &Stop) -> Result<(), ExecutorError> {
        let file = self.place.registry_file();
        let read = self.read_file(&file, stop).await;
        let Ok(Value::Object(mut registry)) = mswea_text::read_json(read.output.trim().as_bytes())
        else {
            return fail(with_tail(
                format!(
                    "the registry `{file}` is no JSON object after the installation of the tools; correct the \
                     `install.sh` that writes it"
                ),
                &read,
            ));
        };
        registry.extend(self.place.registry.clone());
        let text = install::write_registry(&self.place, &Value::Object(registry).to_string());
        let written = self.run(&text, false, stop).await;
        self.need(&written, "the registry of the tools can't be written")
    }

    async fn run(&mut self, text: &str, apart: bool, stop: &Stop) -> Output {
        let command = Command {
            timeout: Some(self.place.install_timeout),
            apart,
            whole: apart,
            text,
        };
        self.inner.execute(&command, stop).await
    }

    /// The content of a file that commands may have replaced: by a pipe without a writer, or a device without an end.
    async fn read_file(&mut self, file: &str, stop: &Stop) -> Output {
        let file = quoted(file);
        let command = Command {
            timeout: Some(self.place.state_timeout),
            apart: true,
            whole: true,
            text: &format!("[ -f {file} ] && exec cat -- {file}"),
        };
        self.inner.execute(&command, stop).await
    }

    /// The output of a command with a syntax error of bash; none if bash can parse it.
    async fn unreadable(&mut self, text: &str, stop: &Stop) -> Option<Output> {
        if text.len() > LONGEST_CHECKED || stop.is_stopped() {
            return None;
        }
        let checked = self
            .run(&format!("bash -n -c -- {} 2>&1", quoted(text)), true, stop)
            .await;
        // 2: bash has found a syntax error; 127: there is no bash in the environment.
        if !checked.exception_info.is_empty() || !matches!(checked.returncode, 1 | 2) {
            return None;
        }
        let mut refused = Output::not_executed("bash can't read the command");
        for (key, value) in [
            ("exception_type", BAD_SYNTAX),
            ("bash_stdout", ""),
            ("bash_stderr", &checked.output),
        ] {
            refused.extra.insert(key.to_owned(), value.into());
        }
        Some(refused)
    }

    fn need(&self, output: &Output, what: &str) -> Result<(), ExecutorError> {
        if output.returncode == 0 && output.exception_info.is_empty() {
            return Ok(());
        }
        fail(with_tail(what.to_owned(), output))
    }

    fn names(&self) -> String {
        let names: Vec<&str> = self.bundles.iter().map(|it| it.name.as_str()).collect();
        names.join(", ")
    }

    /// Runs the state commands.
    async fn read_state(&mut self, stop: &Stop) -> Result<Object, String> {
        let commands: Vec<String> = self.state_commands.iter().map(|at| at.0.clone()).collect();
        let text = state::command(&self.place, &commands);
        let command = Command {
            timeout: Some(self.place.state_timeout),
            whole: true,
            ..Command::new(&text)
        };
        let output = self.inner.execute(&command, stop).await;
        state::read(&output.output, commands.len()).map_err(|why| {
            let timed_out = exception(&output) == Some("TimeoutExpired");
            let why = match timed_out {
                true => format!(
                    "it did not end within {} seconds (`tools.state_timeout`)",
                    self.place.state_timeout.as_secs_f64()
                ),
                false => why,
            };
            let (command, written) = match self.state_commands.as_slice() {
                [] => return format!("the state of the tools can't be read: {why}"),
                [(command, written)] => (command.clone(), written.clone()),
                [(command, written), more @ ..] => {
                    let more: Vec<&str> = more.iter().map(|at| at.0.as_str()).collect();
                    (format!("{command}` or `{}", more.join("`, `")), written.clone())
                }
            };
            let message = format!(
                "{written}: the state command `{command}` left no state: {why}; it has to write a JSON object into \
                 `{}`",
                self.place.state_file()
            );
            match output.exception_info.as_str() {
                "" => message,
                // The rest only repeats the text of the command.
                _ if timed_out => message,
                exception => format!("{message} ({exception})"),
            }
        })
    }

    /// Adds the files that the submission, else the patch that this output contains, has modified.
    async fn read_edited(&mut self, output: &mut Output, stop: &Stop) {
        let patch = self.submitted.as_ref().unwrap_or(&output.output);
        if !self.place.reads_edited || patch.trim().is_empty() {
            return;
        }
        let files = edited::edited(patch);
        let text = edited::reading(&self.place, &files);
        let printed = self.run(&text, true, stop).await;
        if let Some(texts) = edited::texts(&files, &printed.output) {
            output
                .extra
                .insert(EDITED_FILES.to_owned(), Value::Object(texts));
        }
    }

    /// Processes the output of an action: requests to programs that stay open, a long output, the
    /// state after the action, and its submission.
    async fn attend(&mut self, action: &str, output: &mut Output, stop: &Stop) {
        let mut is_submission = output.output.lines().any(|line| line.trim() == SUBMITS);
        if !self.sessions.is_empty()
            && let Some(mut programs) = self.inner.programs()
        {
            let sessions = &mut self.sessions;
            if sessions.attend(action, output, &mut *programs, stop).await {
                is_submission = false;
                output.extra.insert(PROGRAM_ANSWER.to_owned(), true.into());
            }
        }
        if let Some(rule) = &self.place.long_outputs
            && !is_submission
        {
            rule.shorten(action, output, &mut *self.inner, &self.place, stop)
                .await;
        }
        match self.read_state(stop).await {
            Ok(mut state) => {
                if !self.sessions.is_empty() {
                    state.insert(SESSION.to_owned(), self.sessions.title().into());
                }
                let is_known = self.has_told_state && self.state.as_ref() == Some(&state);
                if !is_known && !state.is_empty() || self.state.as_ref() != Some(&state) {
                    self.has_told_state = true;
                    output
                        .extra
                        .insert(TOOL_STATE.to_owned(), Value::Object(state.clone()));
                    self.state = Some(state);
                }
            }
            Err(_) if stop.is_stopped() => {}
            Err(message) => {
                if let Some(front) = &self.front {
                    front.show(&Progress::Warning(&format!(
                        "{message}; the state from before is used"
                    )));
                }
                output
                    .extra
                    .insert("tool_state_error".to_owned(), message.into());
            }
        }
        if is_submission {
            let patch = self.read_file(&self.place.patch_file(), stop).await;
            let is_whole = !patch.extra.contains_key("elided_bytes");
            // Without the file, the line is only an output of some command.
            if patch.returncode == 0 && patch.exception_info.is_empty() && is_whole {
                self.submitted = Some(patch.output.clone());
                output
                    .extra
                    .insert(SUBMISSION.to_owned(), patch.output.into());
            }
        }
        // This applies to a submission by the mark of mini-swe-agent, too.
        if let Some(flag) = &self.place.flag
            && mswea_run::submission(output).is_some_and(|text| !is_flag(&text, flag))
        {
            output.extra.remove(SUBMISSION);
            output.output = WRONG_FLAG.to_owned();
        }
    }
}

#[async_trait]
impl Executor for ToolsExecutor {
    async fn start(
        &mut self,
        context: &Context,
        known: Option<&Value>,
    ) -> Result<EnvironmentReady, ExecutorError> {
        self.front = Some(context.front.clone());
        let ready = self.inner.start(context, known).await?;
        self.is_new_shell = known.is_some() && ready.replaced.is_none();
        Ok(ready)
    }

    async fn set_up(&mut self, context: &Context) -> Result<Value, ExecutorError> {
        let handle = self.inner.set_up(context).await?;
        self.install(context).await?;
        self.is_new_shell = false;
        Ok(handle)
    }

    fn check_restore(&self) -> Result<(), ExecutorError> {
        self.inner.check_restore()
    }

    async fn restore(
        &mut self,
        patch: &str,
        prologue: &str,
        stop: &Stop,
    ) -> Result<(), ExecutorError> {
        self.inner.restore(patch, prologue, stop).await
    }

    async fn execute(&mut self, command: &Command<'_>, stop: &Stop) -> Output {
        if command.apart {
            let mut output = self.inner.execute(command, stop).await;
            let salvage = self.inner.salvage_command();
            if salvage.is_some_and(|it| command.text.ends_with(&it)) {
                self.read_edited(&mut output, stop).await;
            }
            return output;
        }
        let mut told = String::new();
        if std::mem::take(&mut self.is_new_shell) {
            let text = install::revive(&self.place);
            // Tells the model about the new shell.
            told = self.run(&text, false, stop).await.output;
        }
        if self.place.checks_syntax
            && !is_plain(command.text)
            && let Some(refused) = self.unreadable(command.text, stop).await
        {
            return refused;
        }
        let mut output = self.inner.execute(command, stop).await;
        // After the output, whose first line may be the mark of a submission.
        if !told.is_empty() && mswea_run::submission(&output).is_none() {
            if !output.output.is_empty() && !output.output.ends_with('\n') {
                output.output.push('\n');
            }
            output.output.push_str(&told);
        }
        if !output.says_environment_gone() && !stop.is_stopped() {
            self.attend(command.text, &mut output, stop).await;
        }
        output
    }

    async fn upload(&mut self, from: &Path, to: &str) -> Result<(), ExecutorError> {
        self.inner.upload(from, to).await
    }

    async fn download(&mut self, from: &str, to: &Path) -> Result<(), ExecutorError> {
        self.inner.download(from, to).await
    }

    fn programs(&mut self) -> Option<Box<dyn InteractivePrograms + '_>> {
        self.inner.programs()
    }

    async fn cleanup(&mut self) {
        self.inner.cleanup().await;
    }

    fn salvage_command(&self) -> Option<String> {
        self.inner.salvage_command()
    }

    fn template_vars(&self) -> Object {
        self.inner.template_vars()
    }

    fn tool_state(&self) -> Object {
        self.state.clone().unwrap_or_default()
    }
}

fn exception(output: &Output) -> Option<&str> {
    output.extra.get("exception_type").and_then(Value::as_str)
}

fn show(context: &Context, what: &str) {
    context.front.show(&Progress::Preparing(what));
}

fn fail<T>(message: String) -> Result<T, ExecutorError> {
    Err(ExecutorError { message })
}

/// The message, followed by the end of the output.
fn with_tail(message: String, output: &Output) -> String {
    let mut text = output.output.trim().to_owned();
    if !output.exception_info.is_empty() && exception(output) != Some("TimeoutExpired") {
        text = format!("{text}\n{}", output.exception_info);
    }
    let text = text.trim();
    let count = text.chars().count();
    let tail: String = text.chars().skip(count.saturating_sub(QUOTED)).collect();
    match tail.as_str() {
        "" => message,
        tail => format!("{message}\n{}", mswea_text::harmless(tail)),
    }
}
