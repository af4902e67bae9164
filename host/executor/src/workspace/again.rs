//! A workspace that an earlier process of the run has set up, and files as they were at an earlier
//! moment.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::failures::exception;
use super::host_folder::{HostFolder, TakenFolder};
use super::{WorkspaceExecutor, fail, scripts};
use crate::handle::folder_of;
use mswea_core::{Command, ExecutorError, Stop};
use mswea_git::{SavedChanges, StartOfTree, StartState};

/// The base of the diff: ids of git objects, as far as the repository has them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Base {
    /// Whether there is a repository, and git.
    pub(super) is_repository: bool,
    /// The commit that was checked out.
    pub(super) commit: Option<String>,
    /// The tree of the files after the set-up, with uncommitted ones.
    pub(super) tree: Option<String>,
    /// Whether the patch has to apply to the commit: in a repository that git has cloned, only the
    /// set-up can have left uncommitted changes. In a folder that existed before, the commit may be
    /// far from the files.
    pub(super) cloned: bool,
    /// The repositories inside: place, commit and tree of each, empty texts for what there is not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) inside: Vec<(String, String, String)>,
    /// The time of the start by the clock of the environment, in Unix seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) time: Option<u64>,
    /// The files that had changes against the commit, if only their names were noted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) changed: Option<Vec<String>>,
}

impl Base {
    pub(super) fn of(state: &StartState) -> Self {
        let text = |id: &Option<String>| id.clone().unwrap_or_default();
        let first = state.trees.first();
        Self {
            is_repository: first.is_some(),
            commit: first.and_then(|tree| tree.commit.clone()),
            tree: first.and_then(|tree| tree.tree.clone()),
            cloned: false,
            inside: state
                .trees
                .iter()
                .skip(1)
                .map(|tree| (tree.place.clone(), text(&tree.commit), text(&tree.tree)))
                .collect(),
            time: state.time,
            changed: state.changed.clone(),
        }
    }

    /// What was there at the start; none if that could not be found out.
    pub(super) fn start(&self) -> Option<StartState> {
        if !self.is_repository && self.time.is_none() {
            return None;
        }
        let id = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
        let inside = self.inside.iter().map(|(place, commit, tree)| StartOfTree {
            place: place.clone(),
            commit: id(commit),
            tree: id(tree),
        });
        let outermost = self.is_repository.then(|| StartOfTree {
            place: ".".to_owned(),
            commit: self.commit.clone(),
            tree: self.tree.clone(),
        });
        Some(StartState {
            trees: outermost.into_iter().chain(inside).collect(),
            time: self.time,
            changed: self.changed.clone(),
            lacks_git: false,
        })
    }
}

/// The member [`WorkspaceHandle::taken`].
const TAKEN: &str = "taken";

/// The handle of an environment with a workspace.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct WorkspaceHandle {
    /// The environment's own handle.
    pub(super) inner: Option<Value>,
    /// The folder of the repository; empty: it is not on the host's own disk.
    path: String,
    /// The files after the set-up; none: the set-up had not ended.
    pub(super) base: Option<Base>,
    /// The folder was empty, and the set-up is about to fill it.
    #[serde(skip_serializing_if = "Option::is_none")]
    taken: Option<TakenFolder>,
}

impl WorkspaceHandle {
    /// A handle that has no part of a workspace is that of the environment itself.
    pub(super) fn of(handle: Option<&Value>) -> Self {
        let Some(handle) = handle else {
            return Self::default();
        };
        match handle.get("inner") {
            Some(_) => Self::deserialize(handle).unwrap_or_default(),
            None => Self {
                inner: Some(handle.clone()),
                ..Self::default()
            },
        }
    }

    /// How the folder `path` was taken for a set-up that did not end.
    pub(super) fn taken(&self, path: &str) -> Option<&TakenFolder> {
        let taken = self.taken.as_ref()?;
        (self.path == path && self.base.is_none()).then_some(taken)
    }

    /// Why the workspace can't be used again, if it was set up on the host's own disk.
    pub(super) fn gone(&self, path: &str, is_empty: bool) -> Option<String> {
        let base = self.base.as_ref()?;
        let before = &self.path;
        match () {
            () if before != path => Some(format!(
                "the workspace is `{path}` now, before it was `{before}`"
            )),
            () if is_empty && (base.is_repository || base.commit.is_some()) => {
                Some(format!("the workspace `{path}` was removed"))
            }
            () => None,
        }
    }
}

/// The folder of this machine in which the commands of an environment with this handle work.
pub fn folder_of_handle(handle: &Value) -> Option<PathBuf> {
    let known = WorkspaceHandle::of(Some(handle));
    let folder = match known.path.as_str() {
        "" => folder_of(known.inner.as_ref().or(Some(handle)))?,
        path => path,
    };
    Some(PathBuf::from(folder)).filter(|folder| folder.is_absolute())
}

/// The handle for an executor that must not empty the folder, although its set-up did not end,
/// because others may have put files there.
pub fn without_claim(mut handle: Value) -> Value {
    if let Some(members) = handle.as_object_mut() {
        members.remove(TAKEN);
    }
    handle
}

impl WorkspaceExecutor {
    /// The handle of the environment as it is now.
    pub(super) fn known(&self) -> Value {
        let settings = &self.settings;
        let room = self.room.as_ref().filter(|_| self.base.is_none());
        json!(WorkspaceHandle {
            taken: room.and_then(HostFolder::taken).cloned(),
            inner: Some(self.handle.clone()),
            path: match settings.on_host {
                true => settings.repo_path.clone(),
                false => String::new(),
            },
            base: self.base.clone(),
        })
    }

    /// See [`Executor::restore`](mswea_core::Executor::restore).
    pub(super) async fn bring_back(
        &mut self,
        patch: &str,
        prologue: &str,
        stop: &Stop,
    ) -> Result<(), ExecutorError> {
        let has_repository = self.base.as_ref().is_some_and(|base| base.is_repository);
        let print = mswea_core::Executor::salvage_command(self).filter(|_| has_repository);
        let Some(print) = print else {
            return fail(
                "there is no git repository in the workspace, and only the files of one can be restored".to_owned(),
            );
        };
        let path = self.settings.repo_path.clone();
        let print = format!("{prologue}{print}");
        let now = self.whole(&print, stop).await?;
        let now = SavedChanges::of(&now).unwrap_or_default().patch;
        if now == patch {
            return Ok(());
        }
        if !now.is_empty() {
            return fail(format!(
                "the files of `{path}` were changed otherwise since: commit these changes elsewhere or put them aside (`git stash -u`), so that the files are what they were before the run"
            ));
        }
        if patch.contains(char::REPLACEMENT_CHARACTER) {
            return fail(
                "the recorded patch has bytes that are no UTF-8, which were not recorded"
                    .to_owned(),
            );
        }
        let printed = self.whole(&scripts::apply(&path, patch), stop).await?;
        if scripts::answers(&printed).any(|answer| answer == "done") {
            return Ok(());
        }
        fail(format!(
            "the recorded patch can't be applied in `{path}`: {}",
            scripts::rest(&printed)
        ))
    }

    /// The complete output of a command.
    async fn whole(&mut self, text: &str, stop: &Stop) -> Result<String, ExecutorError> {
        let command = Command {
            timeout: Some(self.settings.limit()),
            whole: true,
            apart: true,
            ..Command::new(text)
        };
        let output = self.inner.execute(&command, stop).await;
        match exception(&output) {
            None => Ok(output.output),
            Some(_) => fail(format!(
                "the files of `{}` can't be restored: {}",
                self.settings.repo_path, output.exception_info
            )),
        }
    }
}
