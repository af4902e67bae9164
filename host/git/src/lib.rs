//! The calls of git: what has changed in a work tree, as a patch that `git apply` brings back byte for byte. All patches of
//! this host are made here: at the end of a run, for `/diff`, for the submissions of tools, and for SWE-agent's commands.
//!
//! Repositories are not obeyed: their settings, hooks, filters and monitors are programs of somebody else, and a setting of
//! the user changes what a patch looks like. The scripts make a repository folder of their own, which borrows the objects,
//! the index and the ignored names of the real one, and run git with that folder and without settings. So the owner of the
//! repository does not matter, either. What can't be in the patch is named.
//!
//! Not for: commands that change a repository's history or talk to a server.

#[cfg(test)]
mod tests;

use std::path::Path;
use std::process::{Command, Stdio};

/// The functions of all scripts.
const OWN: &str = include_str!("own.sh");
/// The function that says what is there at the start.
const START: &str = include_str!("start.sh");
/// The functions that make a patch.
const CHANGES: &str = include_str!("changes.sh");

/// Begins the lines with a script's answers.
const SIGN: &str = "@mswea ";

/// A scratch folder that is removed at the end. The file beside it names the script as its owner, as those of the host's own
/// temporary folders do, so that the next start or `gc` on this machine removes what a killed script has left. Where no host
/// runs, the next script does so after an hour.
const SCRATCH: &str = r#"s=$(mktemp -d "${TMPDIR:-/tmp}/mswea-patch.XXXXXX") || { printf '@mswea note no folder can be made in `%s`, so nothing is saved\n@mswea patch\n' "${TMPDIR:-/tmp}"; exit 0; }
find "${TMPDIR:-/tmp}/" -maxdepth 1 -name 'mswea-patch.??????*' -user "$(id -u)" -mmin +60 -exec rm -rf {} + 2>/dev/null
trap 'rm -rf "$s" "$s.owner"' EXIT
(set -C; printf %s "$(uname -n)/$(cat /etc/machine-id)/$(cat /proc/sys/kernel/random/boot_id)/$(readlink /proc/self/ns/pid | tr -dc 0-9)/$$/$(sed 's/.*) //' /proc/$$/stat | cut -d ' ' -f 20)" >"$s.owner") 2>/dev/null
: >"$s/notes"; : >"$s/patch"; : >"$s/bases"; : >"$s/seen"; : >"$s/files"
"#;

/// A work tree at the start of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartOfTree {
    /// Its place below the outermost work tree, which is `.`.
    pub place: String,
    /// The commit that was checked out, if there was one.
    pub commit: Option<String>,
    /// The tree of the files.
    pub tree: Option<String>,
}

/// What is there at the start of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StartState {
    /// The outermost work tree and those inside; none: there is no repository.
    pub trees: Vec<StartOfTree>,
    /// Seconds since 1970 by the clock of the environment.
    pub time: Option<u64>,
    /// Files that had changes against the commits, as far as they were asked for with [`Keep::Names`].
    pub changed: Option<Vec<String>>,
    /// Whether there is a repository, but no git.
    pub lacks_git: bool,
}

/// What is kept of the files at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// The names of those that differ from the commit: nothing is written, and the patch counts from the commit.
    Names,
    /// Their contents, in the repository.
    Contents,
    /// The same, unless the repository is another user's.
    OwnContents,
}

/// What a patch is counted from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// The files at the start: the patch applies to them.
    Files,
    /// The commit at the start, without the other changes of the set-up: the patch applies to the commit.
    Commit,
}

/// A text as one word of the shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Goes to the folder, if one is given.
fn to_folder(folder: &str) -> String {
    match folder {
        "" => String::new(),
        folder => format!("cd {} || exit 0\n", quoted(folder)),
    }
}

/// The functions for the other scripts of the work tree around `folder` (empty: the current one): `g` is git with an own
/// repository folder for it, `$d` and `$head` are the real folder and its commit. The script ends with `$1` of `fail` if
/// there is no repository, or no git.
pub fn entered(folder: &str) -> String {
    format!(
        "{OWN}{SCRATCH}{}has_git && find_top && enter \"$root\" && cd \"$root\" || exit 3\n",
        to_folder(folder)
    )
}

/// Says what is there: [`StartState::of`] reads the answer.
pub fn start(folder: &str, keep: Keep) -> String {
    let how = match keep {
        Keep::Names => "names",
        Keep::Contents => "any",
        Keep::OwnContents => "own",
    };
    let named = if keep == Keep::Names {
        "echo '@mswea names'\n"
    } else {
        ""
    };
    format!(
        "{OWN}{START}{}find_top && ! has_git && echo '{SIGN}time -\n{SIGN}no-git' && exit 0\n{SCRATCH}{named}echo \"{SIGN}time $(date +%s)\"\nfind_top || exit 0\neach start {how}\nexit 0\n",
        to_folder(folder)
    )
}

impl StartState {
    /// None if the script has not answered.
    pub fn of(output: &str) -> Option<Self> {
        let known = |id: &str| Some(id.to_owned()).filter(|id| id != "-");
        let mut state = Self::default();
        let mut has_answered = false;
        for answer in answers(output) {
            let (name, rest) = answer.split_once(' ').unwrap_or((answer, ""));
            match (name, rest.splitn(3, ' ').collect::<Vec<_>>().as_slice()) {
                ("time", _) => {
                    has_answered = true;
                    state.time = rest.trim().parse().ok();
                }
                ("no-git", _) => state.lacks_git = true,
                ("names", _) => state.changed = Some(Vec::new()),
                ("changed", _) => {
                    if let Some(changed) = &mut state.changed {
                        changed.push(rest.to_owned());
                    }
                }
                ("start", [commit, tree, place]) => state.trees.push(StartOfTree {
                    place: (*place).to_owned(),
                    commit: known(commit),
                    tree: known(tree),
                }),
                _ => {}
            }
        }
        has_answered.then_some(state)
    }
}

fn answers(output: &str) -> impl Iterator<Item = &str> {
    output
        .lines()
        .filter_map(|line| Some(&line[line.find(SIGN)? + SIGN.len()..]))
}

/// Prints the changes: [`SavedChanges`] reads the answer. The arguments of the script are pathspecs of files that the host
/// itself may have written.
///
/// `start`: what was there at the start; none if that is not known: the changes count from the current commit.
pub fn changes(folder: &str, start: Option<&StartState>, since: Since) -> String {
    let nothing = StartOfTree {
        place: ".".to_owned(),
        commit: None,
        tree: None,
    };
    let mut known = String::new();
    if let Some(start) = start {
        if let Some(time) = start.time {
            known.push_str(&format!("touch -d @{time} \"$s/then\" 2>/dev/null\n"));
        }
        if let Some(changed) = &start.changed {
            known.push_str("named=1\n");
            for name in changed {
                known.push_str(&format!(
                    "printf '%s\\n' {} >>\"$s/changed\"\n",
                    quoted(name)
                ));
            }
        }
        let trees = match start.trees.as_slice() {
            [] => std::slice::from_ref(&nothing),
            trees => trees,
        };
        for tree in trees {
            let id = |id: &Option<String>| id.clone().unwrap_or_else(|| "-".to_owned());
            let line = format!("{} {} {}", id(&tree.commit), id(&tree.tree), tree.place);
            known.push_str(&format!(
                "printf '%s\\n' {} >>\"$s/bases\"\n",
                quoted(&line)
            ));
        }
    }
    let how = match since {
        Since::Files => "tree",
        Since::Commit => "commit",
    };
    format!(
        "{OWN}{CHANGES}{SCRATCH}{known}{}find_top || {{ lost; saved; exit 0; }}\nhas_git || {{ note '`git` is not in the environment, so the changes are not saved'; saved; exit 0; }}\neach changes {how} \"$@\"\nsaved\nexit 0\n",
        to_folder(folder)
    )
}

/// Prints the changes since the last commit for a person.
pub fn shown_changes() -> String {
    let none = "echo 'the commands run outside of a git work tree'; exit 0;";
    format!(
        "{OWN}{CHANGES}{SCRATCH}find_top && has_git && enter \"$root\" && cd \"$root\" || {{ {none} }}\nshow\nexit 0\n"
    )
}

/// What the script of [`changes`] has printed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SavedChanges {
    /// The patch.
    pub patch: String,
    /// What is not in the patch, for the user.
    pub notes: Vec<String>,
    /// A `.tar.gz` in base64 with changed files of which git could make no diff.
    pub archive: Option<String>,
}

impl SavedChanges {
    /// None if the script has not run to its end.
    pub fn of(output: &str) -> Option<Self> {
        const PATCH: &str = "@mswea patch\n";
        let at = match output.find(&format!("\n{PATCH}")) {
            _ if output.starts_with(PATCH) => 0,
            at => at? + 1,
        };
        let (head, patch) = (&output[..at], &output[at + PATCH.len()..]);
        let (head, archive) = match head.split_once("@mswea archive\n") {
            Some((head, archive)) => (head, Some(archive.to_owned())),
            None => (head, None),
        };
        let notes = answers(head).filter_map(|answer| answer.strip_prefix("note "));
        Some(Self {
            patch: patch.to_owned(),
            notes: notes.map(str::to_owned).collect(),
            archive,
        })
    }
}

/// git in a folder that this host has made itself, without the hooks of anyone.
pub fn command() -> Command {
    let mut command = Command::new("git");
    // git sets these for its hooks: they would make it use another repository.
    for name in [
        "GIT_DIR",
        "GIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_OBJECT_DIRECTORY",
        "GIT_COMMON_DIR",
    ] {
        command.env_remove(name);
    }
    command.args([
        "-c",
        "core.hooksPath=/dev/null",
        "-c",
        "core.fsmonitor=false",
    ]);
    command
}

/// Applies a patch to the work tree around a folder of this machine.
///
/// # Errors
/// Why it can't be applied.
pub fn apply(folder: &Path, patch: &Path) -> Result<(), String> {
    let script = format!("{}g apply --whitespace=nowarn -- \"$1\"", entered(""));
    let mut command = shell(&script);
    command.arg("sh").arg(patch).current_dir(folder);
    ended(command).map(drop)
}

/// The commit of a name in a repository of this machine.
pub fn commit_of(folder: &Path, name: &str) -> Option<String> {
    let script = format!("{}commit_of \"$1\"", entered(""));
    let mut command = shell(&script);
    command.args(["sh", name]).current_dir(folder);
    ended(command).ok().filter(|commit| !commit.is_empty())
}

/// The address of the remote `origin` of a repository of this machine.
pub fn origin_of(folder: &Path) -> Option<String> {
    let script = format!("{}set_in remote.origin.url", entered(""));
    let mut command = shell(&script);
    command.current_dir(folder);
    ended(command).ok().filter(|url| !url.is_empty())
}

fn ended(mut command: Command) -> Result<String, String> {
    let output = command.output().map_err(|error| error.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    match output.status.code() {
        Some(0) => Ok(text(&output.stdout)),
        Some(3) => Err("it is no git repository, or git is not installed".to_owned()),
        _ => Err(text(&output.stderr)),
    }
}

/// A shell of this machine that runs a script of this crate.
pub fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]).stdin(Stdio::null());
    command
}

/// The changed files that git tracks, one a line, of the work tree around a folder of this machine.
///
/// # Errors
/// Why the folder can't be read.
pub fn tracked_changes(folder: &Path) -> Result<String, String> {
    let script = format!(
        "{}prepare\n{{ g ls-files --modified; [ -z \"$head\" ] || g diff --cached --name-only --ignore-submodules=all \"$head\"; }} 2>/dev/null | sort -u\nexit 0\n",
        entered("")
    );
    let mut command = shell(&script);
    command.current_dir(folder);
    ended(command)
}
