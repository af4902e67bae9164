//! The work tree of the agent's environment, for the user: what has changed in it, and its files as they
//! were before the last actions.
//!
//! Everything is done by shell scripts in the environment, as the agent's own commands are: a repository's
//! config can name programs that git starts, and these get no more than a command of the agent. The index and
//! the objects are copies, so that the repository stays as it is.

use std::sync::{Mutex, PoisonError};

use mswea_core::{FileMemory, Output};
use mswea_executor::TempFolder;
use mswea_session as session;

/// Begins the lines with a script's answers.
const SIGN: &str = "@mswea ";
/// How many files are named.
const NAMED: usize = 20;

/// What is changed since the last commit. The arguments are pathspecs of the host's own files.
pub(super) const DIFF: &str = r#"g() { command git --no-pager -c core.hooksPath=/dev/null -c core.fsmonitor=false "$@"; }
found=$(LC_ALL=C g rev-parse --is-inside-work-tree 2>&1)
case $found in
true) ;;
false | *'not a git repository'*) echo 'the commands run outside of a git work tree'; exit 0 ;;
*) echo "$found"; exit 0 ;;
esac
base=$(g rev-parse -q --verify HEAD) || base=$(g hash-object -t tree /dev/null)
g diff --no-ext-diff --no-textconv --no-color "$base" 2>&1
g ls-files --others --exclude-standard 2>/dev/null | sed 's/^/new file: /'"#;

/// Remembers the files, and takes changes back.
#[derive(Debug)]
pub(super) struct RememberedFiles {
    /// The folder of what is remembered, as a word of a shell.
    folder: String,
    /// It is on this machine, and removed also if this program is killed.
    own: Mutex<Option<TempFolder>>,
}

/// The changes that can be taken back.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TakenBack {
    before: String,
    now: String,
    /// The files, each with a letter: `M README.md`.
    pub files: Vec<String>,
    /// Whether the current commit is another one than then.
    pub has_moved: bool,
}

impl RememberedFiles {
    /// The work tree of commands; `is_here`: they run on this machine, with its temporary files.
    pub fn new(is_here: bool) -> Option<Self> {
        let id = session::new_run_id();
        if !is_here {
            return Some(Self {
                folder: format!("\"${{TMPDIR:-/tmp}}/mswea-undo-{id}\""),
                own: Mutex::default(),
            });
        }
        let own = TempFolder::new(&id, "undo").ok()?;
        let path = own.path().to_str()?.replace('\'', r"'\''");
        Some(Self {
            folder: format!("'{path}'"),
            own: Mutex::new(Some(own)),
        })
    }

    /// Removes the folder, if it is on this machine.
    pub fn end(&self) {
        drop(
            self.own
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        );
    }

    /// How the files are remembered.
    pub fn memory(&self) -> FileMemory {
        let remember = r#"echo "$tree $head" >"$s/last"
tail -n 1 "$s/trees" 2>/dev/null | cmp -s - "$s/last" || cat "$s/last" >>"$s/trees""#;
        FileMemory {
            remember: format!("{}{remember}", self.begin()),
            forget: format!("rm -rf -- {}", self.folder),
        }
    }

    /// The beginning of the scripts: `tree` is the tree of the files as they are, `head` the commit.
    fn begin(&self) -> String {
        format!(
            r#"unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES GIT_NAMESPACE GIT_COMMON_DIR
s={folder}
g() {{ command git -c core.hooksPath=/dev/null -c core.fsmonitor=false -c core.safecrlf=false -c core.splitIndex=false -c 'safe.directory=*' -c gc.auto=0 "$@"; }}
tell() {{ echo "{SIGN}$*"; }}
found=$(g rev-parse --show-toplevel --git-path objects --git-path index 2>/dev/null) || {{ tell no-repository; exit 0; }}
{{ IFS= read -r top; IFS= read -r objects; IFS= read -r index; }} <<END
$found
END
case $objects in /*) ;; *) objects=$PWD/$objects ;; esac
(umask 077 && mkdir -p "$s/objects") && [ -O "$s" ] && [ ! -L "$s" ] || {{ tell no-room; exit 0; }}
[ -f "$s/index" ] || [ ! -f "$index" ] || cp "$index" "$s/index"
rm -f "$s/index.lock"
cd "$top" || exit 0
head=$(g rev-parse -q --verify HEAD)
export GIT_INDEX_FILE="$s/index" GIT_OBJECT_DIRECTORY="$s/objects" GIT_ALTERNATE_OBJECT_DIRECTORIES="$objects"
count=$#
while [ "$count" -gt 0 ]; do
  set -- "$@" ":(exclude,${{1#:(}}"
  shift
  count=$((count - 1))
done
g add --all --ignore-errors -- :/ "$@" >/dev/null 2>&1
tree=$(g write-tree 2>/dev/null) || {{ tell no-room; exit 0; }}
"#,
            folder = self.folder
        )
    }

    /// The script that finds what the last actions have changed.
    pub fn look(&self) -> String {
        format!(
            r#"{}before= then=
while read -r old commit; do
  [ "$old" = "$tree" ] || {{ before=$old then=$commit; }}
done <"$s/trees"
[ -n "$before" ] || {{ tell none; exit 0; }}
tell changes "$before" "$tree"
[ "$then" = "$head" ] || tell moved
g diff-tree -r --no-renames --name-status "$before" "$tree""#,
            self.begin()
        )
    }

    /// What [`RememberedFiles::look`] has found.
    ///
    /// # Errors
    /// Why nothing can be taken back.
    pub fn found(output: &Output) -> Result<TakenBack, String> {
        let text = &output.output;
        let answer = |name: &str| {
            let mut answers = text.lines().filter_map(|line| line.strip_prefix(SIGN));
            answers.find_map(|line| line.strip_prefix(name))
        };
        if answer("no-repository").is_some() {
            return Err("the commands run outside of a git work tree: only in one can changes of files be taken back".to_owned());
        }
        if answer("none").is_some() {
            return Err("no command has changed a file that git does not ignore".to_owned());
        }
        let trees = answer("changes").unwrap_or_default();
        let Some((before, now)) = trees.trim().split_once(' ') else {
            let why = match output.exception_info.trim() {
                "" => "the files could not be remembered",
                why => why,
            };
            return Err(format!("no earlier state of the files is known: {why}"));
        };
        let files = text.lines().filter(|line| !line.starts_with(SIGN));
        Ok(TakenBack {
            before: before.to_owned(),
            now: now.to_owned(),
            files: files.map(|line| line.replacen('\t', " ", 1)).collect(),
            has_moved: answer("moved").is_some(),
        })
    }

    /// The script that takes changes back.
    pub fn take_back(&self, changes: &TakenBack) -> String {
        let TakenBack { before, now, .. } = changes;
        format!(
            r#"{}[ "$tree" = {now} ] || {{ tell changed; exit 0; }}
g read-tree -m -u {now} {before} 2>&1 || exit 0
while read -r old commit; do
  echo "$old $commit"
  [ "$old" != {before} ] || break
done <"$s/trees" >"$s/kept" && mv "$s/kept" "$s/trees"
tell done"#,
            self.begin()
        )
    }

    /// Whether [`RememberedFiles::take_back`] has done so.
    ///
    /// # Errors
    /// Why not.
    pub fn is_back(output: &Output) -> Result<(), String> {
        let lines = || output.output.lines();
        let answers = || lines().filter_map(|line| line.strip_prefix(SIGN));
        if answers().any(|answer| answer == "done") {
            return Ok(());
        }
        if answers().any(|answer| answer == "changed") {
            return Err("meanwhile the files have changed again: /undo once more".to_owned());
        }
        let why: Vec<&str> = lines().filter(|line| !line.starts_with(SIGN)).collect();
        Err(format!(
            "nothing was taken back: {}{}",
            why.join("; "),
            output.exception_info.trim()
        ))
    }
}

impl TakenBack {
    /// The files, in a few lines.
    pub fn named(&self) -> String {
        let mut lines: Vec<String> = self.files.iter().take(NAMED).cloned().collect();
        if self.files.len() > NAMED {
            lines.push(format!("and {} more", self.files.len() - NAMED));
        }
        lines.join("\n")
    }
}
