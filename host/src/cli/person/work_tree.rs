//! The work tree of the agent's environment, for the user: its changes, and its files before the
//! last actions.
//!
//! All of this is done by shell scripts in the environment, like the agent's own commands. The
//! files are stored in a repository of this host's own, so that the user's repository is unchanged,
//! and its config is not used: it can name programs that git starts. Files that git ignored when
//! the files were remembered are never changed.

use std::sync::{Mutex, PoisonError};

use mswea_core::{FileMemory, Output};
use mswea_executor::TempFolder;
use mswea_session as session;

/// The beginning of the lines with a script's answers.
const SIGN: &str = "@mswea ";
/// How many files a message names.
const NAMED: usize = 20;

/// Remembers the files, and undoes changes.
#[derive(Debug)]
pub(super) struct RememberedFiles {
    /// The folder of the remembered files, as a word of a shell.
    folder: String,
    /// The folder if it is on this machine; it is removed also if this program is killed.
    own: Mutex<Option<TempFolder>>,
}

/// The changes that can be undone.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TakenBack {
    before: String,
    now: String,
    /// The files, each with a letter: `M README.md`.
    pub files: Vec<String>,
    /// The changed repositories inside the work tree, which are not restored.
    pub nested: Vec<String>,
    /// Whether the current commit has changed since.
    pub has_moved: bool,
}

impl RememberedFiles {
    /// The work tree of the commands in an environment of this class.
    ///
    /// # Errors
    /// The reason why the files can't be remembered.
    pub fn new(class: &str) -> Result<Self, &'static str> {
        let id = session::new_run_id();
        match class {
            // These commands run on this machine, with its temporary files.
            "local" => {}
            "bubblewrap" => {
                return Err(
                    "with the class `bubblewrap` the files are not remembered: each command has a `/tmp` of its own",
                );
            }
            _ => {
                return Ok(Self {
                    folder: format!("\"${{TMPDIR:-/tmp}}/mswea-undo-{id}\""),
                    own: Mutex::default(),
                });
            }
        }
        let own = TempFolder::new(&id, "undo").ok();
        let path = own.as_ref().and_then(|own| own.path().to_str());
        let path = path.ok_or("there is no temporary folder, so the files were not remembered")?;
        Ok(Self {
            folder: format!("'{}'", path.replace('\'', r"'\''")),
            own: Mutex::new(own),
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

    /// The scripts that remember the files.
    pub fn memory(&self) -> FileMemory {
        // Outside of a repository, git is not started: the shell itself searches for `.git`.
        let before = r#"cd -P . && up=$PWD
until [ -e "$up/.git" ]; do
  case $up in */*) up=${up%/*} ;; *) exit 0 ;; esac
done
"#;
        // If it takes too long once, it is not tried again at each step.
        let early = r#"[ ! -e "$s/late" ] || exit 0
command -v timeout >/dev/null && limit='timeout 8'"#;
        // Git replaces the index file whenever a file differs from it in content, mode or times.
        let unchanged = r#"g ls-files -z --others --ignored --exclude-standard --directory >"$s/listed.new"
last= commit=
[ ! -f "$s/last" ] || read -r last commit <"$s/last"
[ ! "$s/git/index" -ef "$s/seen" ] || [ "$commit" != "$head" ] || ! cmp -s "$s/listed" "$s/listed.new" || exit 0
rm -f "$s/seen""#;
        let remember = r#"plain=$(printf %o $((0666 & ~$(umask)))) runs=$(printf %o $((0777 & ~$(umask))))
g check-ignore -z --stdin <"$s/listed.new" >"$s/ignored.$tree"
g ls-files -z | xargs -0 stat -c '%a %n' -- 2>/dev/null | grep -v -e "^$plain " -e "^$runs " >"$s/modes.$tree"
cp "$s/nested" "$s/nested.$tree"
echo "$tree $head" >"$s/last"
tail -n 1 "$s/trees" 2>/dev/null | cmp -s - "$s/last" || cat "$s/last" >>"$s/trees"
mv -f "$s/listed.new" "$s/listed" && ln -f "$s/git/index" "$s/seen""#;
        FileMemory {
            remember: format!("{before}{}{remember}", self.begin(early, unchanged)),
            forget: format!("rm -rf -- {}", self.folder),
        }
    }

    /// The beginning of the scripts: sets `tree`, the tree of the current files, and `head`, the
    /// commit. `early` runs before the work begins, `indexed` when the index is that of the files.
    ///
    /// Of the user's repository, only its paths are read. Everything else is done in a repository
    /// of this host's own with the same work tree: a filter in the config of the user's repository
    /// is a program, and a conversion would restore other bytes.
    fn begin(&self, early: &str, indexed: &str) -> String {
        format!(
            r#"unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES GIT_NAMESPACE GIT_COMMON_DIR
s={folder} limit=
g() {{ command $limit git -c core.hooksPath=/dev/null -c core.fsmonitor=false -c core.safecrlf=false -c core.splitIndex=false -c core.trustctime=true -c core.checkStat=default -c core.compression=0 -c core.looseCompression=0 -c submodule.recurse=false -c gc.auto=0 "$@"; }}
tell() {{ echo "{SIGN}$*"; }}
found=$(g rev-parse --show-toplevel --git-path objects --git-path index --git-path info/exclude --revs-only HEAD 2>/dev/null) || {{
  case $(LC_ALL=C g rev-parse --show-toplevel 2>&1) in
  *'dubious ownership'* | *'unsafe repository'*) tell refused ;;
  *) tell no-repository ;;
  esac
  exit 0
}}
{{ IFS= read -r top; IFS= read -r objects; IFS= read -r index; IFS= read -r exclude; IFS= read -r head; }} <<END
$found
END
case $objects in /*) ;; *) objects=$PWD/$objects ;; esac
{{ [ -d "$s" ] || (umask 077 && mkdir -p "$s"); }} && [ -O "$s" ] && [ ! -L "$s" ] || {{ tell no-room; exit 0; }}
[ -f "$s/git/info/attributes" ] || {{
  format=$(g rev-parse --show-object-format 2>/dev/null)
  GIT_DEFAULT_HASH=${{format:-sha1}} command git init -q --bare --template= "$s/git" && mkdir -p "$s/git/info" && g --git-dir="$s/git" config core.bare false &&
    echo '* -text -filter -ident -eol -working-tree-encoding' >"$s/git/info/attributes" || {{ tell no-room; exit 0; }}
}}
{early}
[ ! -f "$exclude" ] || {{ own=$s/git/info/exclude && [ -f "$own" ] && [ ! "$exclude" -nt "$own" ] && [ ! "$exclude" -ot "$own" ]; }} || cp -pf "$exclude" "$own"
[ -f "$s/git/index" ] || [ ! -f "$index" ] || cp "$index" "$s/index"
[ ! -e "$s/git/index.lock" ] || rm -f "$s/git/index.lock"
cd "$top" || exit 0
export GIT_DIR="$s/git" GIT_WORK_TREE="$top" GIT_ALTERNATE_OBJECT_DIRECTORIES="$objects"
count=$#
while [ "$count" -gt 0 ]; do
  set -- "$@" ":(exclude,${{1#:(}}"
  shift
  count=$((count - 1))
done
# What is tracked and ignored.
[ -f "$s/git/index" ] || [ ! -f "$s/index" ] ||
  GIT_INDEX_FILE="$s/index" command git ls-files -z --cached --ignored --exclude-standard 2>/dev/null | g update-index --add --remove -z --stdin >/dev/null 2>&1
g add --all --ignore-errors -- :/ "$@" >/dev/null 2>&1
[ $? != 124 ] || {{ : >"$s/late"; find "$s/git/objects" -name 'tmp_*' -exec rm -f {{}} +; exit 0; }}
limit=
{indexed}
# A nested repository stays: if it were in the index, git would start another git in it, with its config.
g ls-files --stage | sed -n 's/^160000 /0 /p' >"$s/nested"
g update-index --index-info <"$s/nested"
tree=$(g write-tree 2>/dev/null) || {{ tell no-room; exit 0; }}
keep() {{
  [ ! -s "$s/ignored.$1" ] || GIT_LITERAL_PATHSPECS=1 xargs -0 git rm -r -f -q --cached --ignore-unmatch -- <"$s/ignored.$1" >/dev/null 2>&1 &&
    tree=$(g write-tree 2>/dev/null) || {{ tell no-room; exit 0; }}
}}
"#,
            folder = self.folder
        )
    }

    /// The script that finds the changes of the last actions.
    pub fn look(&self) -> String {
        let early = r#"[ -s "$s/trees" ] || { [ ! -e "$s/late" ] || tell too-large; tell nothing; exit 0; }"#;
        format!(
            r#"{}nested() {{
  {{ grep -vxF -f "$s/nested" "$s/nested.$1"; grep -vxF -f "$s/nested.$1" "$s/nested"; }} |
    sed -n 's/^0 [0-9a-f]* 0[[:space:]]/{SIGN}nested /p' | sort -u
}}
rm -f "$s/late"
before= then=
while read -r old commit; do
  [ "$old" = "$tree" ] || {{ before=$old then=$commit; }}
done <"$s/trees"
[ -n "$before" ] || {{ nested "$tree"; tell none; exit 0; }}
keep "$before"
[ "$tree" != "$before" ] || {{ tell none; exit 0; }}
nested "$before"
tell changes "$before" "$tree"
[ "$then" = "$head" ] || tell moved
g diff-tree -r --no-renames --name-status "$before" "$tree""#,
            self.begin(early, "")
        )
    }

    /// The result of [`RememberedFiles::look`].
    ///
    /// # Errors
    /// The reason why nothing can be undone, for the user.
    pub fn found(output: &Output) -> Result<TakenBack, String> {
        let text = &output.output;
        let answers = |name: &'static str| {
            let answers = text.lines().filter_map(|line| line.strip_prefix(SIGN));
            answers.filter_map(move |line| line.strip_prefix(name))
        };
        let answer = |name| answers(name).next();
        if answer("no-repository").is_some() {
            return Err("the commands run outside of a git work tree: only in one can changes of files be taken back".to_owned());
        }
        if answer("refused").is_some() {
            return Err("the repository belongs to another user, so git refuses it and the files are not remembered: `git config --global --add safe.directory` with its path allows it".to_owned());
        }
        if answer("too-large").is_some() {
            return Err("the files are not remembered, because that took too long: is there a large file that git does not ignore?".to_owned());
        }
        if answer("nothing").is_some() {
            return Err("no earlier state of the files is remembered yet".to_owned());
        }
        if answer("none").is_some() {
            let mut why = "no command has changed a file that git does not ignore".to_owned();
            for path in answers("nested ") {
                why = format!("{why}\n{path} is a repository of its own, which stays as it is");
            }
            return Err(why);
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
            nested: answers("nested ").map(str::to_owned).collect(),
            has_moved: answer("moved").is_some(),
        })
    }

    /// The script that undoes changes.
    pub fn take_back(&self, changes: &TakenBack) -> String {
        let TakenBack { before, now, .. } = changes;
        format!(
            r#"{}keep {before}
[ "$tree" = {now} ] || {{ tell changed; exit 0; }}
g read-tree -m -u {now} {before} 2>&1 || exit 0
g -c core.quotePath=false diff-tree -r --no-renames --diff-filter=AMT --name-only {now} {before} >"$s/put"
awk 'NR == FNR {{ put[$0]; next }} {{ name = $0; sub(/^[0-7]+ /, "", name); if (name in put) print }}' "$s/put" "$s/modes.{before}" |
  while IFS= read -r line; do
    [ -L "./${{line#* }}" ] || chmod "${{line%% *}}" "./${{line#* }}"
  done
while read -r old commit; do
  echo "$old $commit"
  [ "$old" != {before} ] || break
done <"$s/trees" >"$s/kept" && mv "$s/kept" "$s/trees"
tell done"#,
            self.begin("", "")
        )
    }

    /// Checks, by the output of the script of [`RememberedFiles::take_back`], that the changes were
    /// undone.
    ///
    /// # Errors
    /// The reason why they were not, for the user.
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
