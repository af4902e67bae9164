//! The environment of a run that continues from an earlier one: its files are restored.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;

use mswea_core::{
    Command, Context, EnvironmentReady, Event, Executor, ExecutorError, Object, Output, Progress,
    Stop,
};
use mswea_executor::without_claim;
use mswea_git::SavedChanges;

/// An environment whose files are restored once, from a recorded patch.
pub(crate) struct RestoredPlace {
    pub(crate) inner: Box<dyn Executor>,
    /// The handle of the earlier run's environment, if the new run works in the same one.
    pub(crate) shared: Option<Value>,
    /// The changes at that time.
    pub(crate) patch: Option<String>,
    /// The shell text before the command that prints the current changes.
    pub(crate) prologue: String,
    /// Whether the environment of the earlier run was found.
    pub(crate) is_found: bool,
    /// Whether the same run continues: its files should still be there, and are restored only in a
    /// new environment.
    pub(crate) is_resumed: bool,
    /// Why a new environment has replaced one that is gone, if a host was killed while it set up
    /// the new one.
    pub(crate) unfinished: Option<String>,
    /// Another run has worked in the folder since.
    pub(crate) is_shared: bool,
    /// Whether `patch` is what the environment's own command has printed.
    pub(crate) is_comparable: bool,
    /// The result of the set-up of a new environment, which was done at its start.
    pub(crate) handle: Option<Value>,
}

/// The time limit of printing the current changes.
const LONGEST: Duration = Duration::from_secs(60);

impl RestoredPlace {
    /// Starts the environment of a continued run. The files of a new environment are restored; an
    /// environment that still exists is used as it is.
    async fn start_again(
        &mut self,
        context: &Context,
        known: Option<&Value>,
    ) -> Result<EnvironmentReady, ExecutorError> {
        let unclaimed = known.filter(|_| self.is_shared);
        let unclaimed = unclaimed.map(|known| without_claim(known.clone()));
        let mut ready = self
            .inner
            .start(context, unclaimed.as_ref().or(known))
            .await?;
        ready.replaced = ready.replaced.or(self.unfinished.take());
        let Some(patch) = self.patch.take() else {
            return Ok(ready);
        };
        if ready.replaced.is_none() {
            self.compare(&patch, context).await;
            return Ok(ready);
        }
        // A host that is killed during the set-up leaves an incomplete one, which the next host has
        // to know. The model is told when the set-up has ended.
        let begun = Event::EnvironmentReady {
            handle: ready.handle.clone(),
            replaced: ready.replaced.clone(),
            message: None,
        };
        let recorded = context.journal.record(&begun);
        recorded.map_err(|error| ExecutorError {
            message: error.to_string(),
        })?;
        self.handle = Some(self.inner.set_up(context).await?);
        let restored = self.inner.restore(&patch, &self.prologue, &context.stop);
        match restored.await {
            Ok(()) => ready.is_restored = true,
            // There is nothing to restore.
            Err(_) if patch.is_empty() && self.inner.check_restore().is_err() => {}
            Err(error) => context.front.show(&Progress::Warning(&format!(
                "the files of the earlier environment are not restored: {error}"
            ))),
        }
        Ok(ready)
    }

    /// Warns if the files have changed since the earlier run.
    async fn compare(&mut self, patch: &str, context: &Context) {
        let way = match self.inner.check_restore() {
            Ok(()) => "begin with `mswea-host fork`, which restores them",
            Err(_) => {
                "apply the patch that it has recorded (`info.mswea.salvage` in its trajectory)"
            }
        };
        let print = self.inner.salvage_command();
        let Some(print) = print.filter(|_| self.is_comparable) else {
            return;
        };
        let print = format!("{}{print}", self.prologue);
        let command = Command {
            timeout: Some(LONGEST),
            whole: true,
            apart: true,
            ..Command::new(&print)
        };
        let now = self.inner.execute(&command, &context.stop).await;
        let is_whole = now.returncode == 0 && now.exception_info.is_empty();
        let saved = SavedChanges::of(&now.output).filter(|_| is_whole);
        if let Some(now) = saved.filter(|now| now.patch != patch) {
            let files = changed_files(patch, &now.patch);
            context.front.show(&Progress::Warning(&format!(
                "the files of the workspace have changed since the run ended ({files}), by somebody else or \
                 by another run: they are used as they are, nothing is overwritten, and the model is not \
                 told; if the run needs its own files, stop it (Ctrl-C), put these aside (`git stash -u`), \
                 and {way}"
            )));
        }
    }
}

/// How many changed files a message names.
const NAMED: usize = 3;

/// The files in which two patches differ, for a message.
fn changed_files(before: &str, now: &str) -> String {
    let (before, now) = (by_file(before), by_file(now));
    let all: BTreeSet<&str> = before.keys().chain(now.keys()).copied().collect();
    let mut names = all
        .iter()
        .filter(|file| before.get(*file) != now.get(*file));
    let named: Vec<String> = names
        .by_ref()
        .take(NAMED)
        .map(|it| format!("`{it}`"))
        .collect();
    match names.count() {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

/// The parts of a patch, by the names of their files.
fn by_file(patch: &str) -> BTreeMap<&str, &str> {
    const HEAD: &str = "diff --git ";
    let mut parts = BTreeMap::new();
    let mut rest = patch;
    while let Some(part) = rest.strip_prefix(HEAD) {
        let end = part
            .find(&format!("\n{HEAD}"))
            .map_or(part.len(), |at| at + 1);
        let line = part.lines().next().unwrap_or_default();
        // `a/NAME b/NAME`
        let name = line.split_once(" b/").map_or(line, |(_, name)| name);
        parts.insert(name, &part[..end]);
        rest = &part[end..];
    }
    parts
}

#[async_trait]
impl Executor for RestoredPlace {
    async fn start(
        &mut self,
        context: &Context,
        known: Option<&Value>,
    ) -> Result<EnvironmentReady, ExecutorError> {
        if self.is_resumed {
            return self.start_again(context, known).await;
        }
        let shared = self.shared.clone();
        let mut ready = self.inner.start(context, known.or(shared.as_ref())).await?;
        if known.is_none() {
            self.is_found = shared.is_some() && ready.replaced.is_none();
            // The model of the new run has not seen another environment.
            ready.replaced = None;
        }
        Ok(ready)
    }

    async fn set_up(&mut self, context: &Context) -> Result<Value, ExecutorError> {
        if let Some(handle) = self.handle.take() {
            return Ok(handle);
        }
        if self.is_resumed {
            return self.inner.set_up(context).await;
        }
        let handle = match self.is_found {
            // The set-up was done for the earlier run.
            true => Value::Null,
            false => self.inner.set_up(context).await?,
        };
        if let Some(patch) = self.patch.take() {
            let restored = self.inner.restore(&patch, &self.prologue, &context.stop);
            restored.await.map_err(|error| ExecutorError {
                message: format!(
                    "the workspace can't be made what it was at that step: {error}; `--no-workspace` uses it as it is"
                ),
            })?;
        }
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
        self.inner.execute(command, stop).await
    }

    async fn upload(&mut self, from: &Path, to: &str) -> Result<(), ExecutorError> {
        self.inner.upload(from, to).await
    }

    async fn download(&mut self, from: &str, to: &Path) -> Result<(), ExecutorError> {
        self.inner.download(from, to).await
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patches_differ_in_files() {
        let part = |name: &str, text: &str| format!("diff --git a/{name} b/{name}\n+{text}\n");
        let before = part("a", "1") + &part("b", "2");
        assert_eq!(changed_files(&before, &part("b", "2")), "`a`");
        assert_eq!(
            changed_files(&before, &(part("a", "1") + &part("b", "3"))),
            "`b`"
        );
        let many: String = (0..5)
            .map(|number| part(&number.to_string(), "x"))
            .collect();
        assert_eq!(changed_files("", &many), "`0`, `1`, `2` and 2 more");
    }
}
