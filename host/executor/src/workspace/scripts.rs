//! The shell scripts of the set-up. They run inside the environment, in its interpreter, and so use
//! only what every POSIX shell has.
//!
//! A script's answers are lines that begin with [`SIGN`], because login shells and git print other
//! lines around them.

use mswea_helper::dialogue::quoted;

/// Begins the lines with a script's answers.
pub(super) const SIGN: &str = "@mswea ";

/// The folder of the credentials during a fetch, below `.git`.
pub(super) const SCRATCH: &str = crate::folders::SETUP;

/// Removes the variables that would make git use another repository.
const UNSET: &str = "unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_OBJECT_DIRECTORY \
                     GIT_ALTERNATE_OBJECT_DIRECTORIES GIT_NAMESPACE GIT_COMMON_DIR";

/// The beginning of all scripts: `tell`, `fail`, and `g`, which is git without hooks, without
/// questions, without submodules, and for any owner of the files.
fn preamble() -> String {
    format!(
        r#"{UNSET}
export GIT_TERMINAL_PROMPT=0 GIT_ASKPASS= SSH_ASKPASS=
tell() {{ echo "{SIGN}$*"; }}
fail() {{ tell fail "$1"; exit 90; }}
g() {{ command git -c core.hooksPath=/dev/null -c core.askPass= -c core.fsmonitor=false -c 'safe.directory=*' -c submodule.recurse=false -c fetch.recurseSubmodules=false -c advice.detachedHead=false -c init.defaultBranch=main -c gc.auto=0 -c maintenance.auto=false "$@"; }}
has_git() {{ command -v git >/dev/null 2>&1; }}
"#
    )
}

/// Makes the folder and checks that it is empty; folders without files do not count, because an
/// engine makes those for a working directory inside.
///
/// In a container, root becomes the owner of the folder: git refuses to work in one of another
/// user.
pub(super) fn make_room(path: &str, on_host: bool) -> String {
    let path = quoted(path);
    let chown = if on_host {
        ""
    } else {
        "[ \"$(id -u)\" != 0 ] || chown 0:0 . 2>/dev/null\n"
    };
    format!(
        r#"{}mkdir -p {path} && cd {path} || fail folder
[ -w . ] || fail folder
[ -z "$(find . ! -type d | head -n 1)" ] || fail occupied
{chown}tell done
"#,
        preamble()
    )
}

/// Makes an empty repository, with a folder for credentials that only its owner can enter.
pub(super) fn init(path: &str, url: &str) -> String {
    format!(
        r#"{}has_git || fail no-git
cd {} || fail folder
g init -q . && g remote add origin {} || fail init
(umask 077 && mkdir -p {SCRATCH}) || fail init
tell done
"#,
        preamble(),
        quoted(path),
        quoted(url),
    )
}

/// Fetches and checks out: one commit if the server allows that, else everything.
///
/// If the URL has credentials, only those are used, and no helper stores them.
pub(super) fn fetch(path: &str, credentials: bool, commit: Option<&str>) -> String {
    let with = if credentials {
        r#"-c credential.helper= -c credential.helper='store --file="$MSWEA_CREDENTIALS"' -c credential.useHttpPath=false"#
    } else {
        ""
    };
    let file = quoted(&format!("{path}/{SCRATCH}/credentials"));
    let begin = format!(
        r#"{}cd {} || fail folder
trap 'rm -rf {SCRATCH}' EXIT
export MSWEA_CREDENTIALS={file}
[ {credentials} = false ] || [ -r "$MSWEA_CREDENTIALS" ] || fail credentials
[ -n "${{GIT_SSH_COMMAND:-}}${{GIT_SSH:-}}$(git config core.sshCommand)" ] || export GIT_SSH_COMMAND='ssh -o BatchMode=yes'
fetch() {{ g {with} fetch -q --no-tags "$@"; }}
all() {{ fetch origin '+refs/heads/*:refs/remotes/origin/*' '+refs/tags/*:refs/tags/*' || fail fetch; }}
"#,
        preamble(),
        quoted(path),
    );
    let rest = match commit {
        Some(commit) => {
            let commit = quoted(commit);
            format!(
                r#"commit={commit}
if fetch --depth 1 origin "$commit" >/dev/null 2>&1; then
  sha=$(g rev-parse -q --verify 'FETCH_HEAD^{{commit}}') || fail no-commit
else
  all
  sha=$(g rev-parse -q --verify "$commit^{{commit}}") || sha=$(g rev-parse -q --verify "origin/$commit^{{commit}}") || fail no-commit
fi
g checkout -q --detach "$sha" || fail checkout
"#
            )
        }
        None => format!(
            r#"branch=$(g {with} ls-remote --symref origin HEAD 2>/dev/null | sed -n 's,^ref: refs/heads/\(.*\)[[:space:]]HEAD$,\1,p')
if [ -n "$branch" ]; then
  fetch --depth 1 origin "+refs/heads/$branch:refs/remotes/origin/$branch" >/dev/null 2>&1 || all
  g checkout -q -B "$branch" --track "origin/$branch" || fail checkout
else
  fetch --depth 1 origin HEAD >/dev/null 2>&1 || fetch origin HEAD || fail fetch
  g checkout -q --detach FETCH_HEAD || fail checkout
fi
"#
        ),
    };
    format!("{begin}{rest}tell done\n")
}

/// Removes the folder of the credentials, which a killed fetch may have left.
pub(super) fn forget(path: &str) -> String {
    format!("rm -rf {}", quoted(&format!("{path}/{SCRATCH}")))
}

/// Makes the user of commands the owner of a copied folder, and updates git's recorded file times.
pub(super) fn adopt(path: &str, on_host: bool) -> String {
    let chown = if on_host {
        ""
    } else {
        "[ \"$(id -u)\" != 0 ] || chown -R 0:0 . 2>/dev/null\n"
    };
    format!(
        r#"{}cd {} || fail folder
{chown}[ ! -e .git ] || ! has_git || g update-index -q --refresh >/dev/null 2>&1
tell done
"#,
        preamble(),
        quoted(path),
    )
}

/// Discards changes and checks out a commit, each if requested.
///
/// With `careful`, uncommitted work is never discarded.
pub(super) fn position(path: &str, reset: bool, careful: bool, commit: Option<&str>) -> String {
    let mut script = format!(
        r#"{}cd {} || fail folder
has_git || fail no-git
top=$(g rev-parse --show-toplevel 2>/dev/null) && [ -n "$top" ] && cd "$top" || fail no-repository
"#,
        preamble(),
        quoted(path),
    );
    let clean = "g clean -fdq || fail reset\n";
    if reset && careful {
        script.push_str(
            "dirty=$(g status --porcelain --untracked-files=normal --ignore-submodules=dirty) || fail reset\n\
             [ -z \"$dirty\" ] || { printf '%s\\n' \"$dirty\" | sed -n '1,20s/^/- /p'; fail dirty; }\n",
        );
    }
    if reset {
        script.push_str("g reset -q --hard || fail reset\n");
        script.push_str(clean);
    }
    if let Some(commit) = commit {
        let force = if reset { "--force" } else { "" };
        script.push_str(&format!(
            r#"commit={}
sha=$(g rev-parse -q --verify "$commit^{{commit}}") || sha=$(g rev-parse -q --verify "origin/$commit^{{commit}}") || fail no-commit
g checkout -q {force} --detach "$sha" || fail checkout
"#,
            quoted(commit)
        ));
        if reset {
            script.push_str(clean);
        }
    }
    script.push_str("tell done\n");
    script
}

/// Prints the commit that is checked out; nothing if there is none.
pub(super) fn head(path: &str) -> String {
    format!(
        r#"{}cd {} && has_git && g rev-parse --git-dir >/dev/null 2>&1 && tell repository || exit 0
head=$(g rev-parse -q --verify 'HEAD^{{commit}}') && tell head "$head"
exit 0
"#,
        preamble(),
        quoted(path),
    )
}

/// Prints what [`head`] prints, and the current files as a tree that it adds to the repository; or
/// that there is a repository but no git.
///
/// No name refers to the tree, so git removes it after some weeks.
pub(super) fn state(path: &str) -> String {
    format!(
        r#"{}cd {} || exit 0
has_git || {{ [ ! -e .git ] || tell no-git; exit 0; }}
{LOOK}
tell repository
head=$(g rev-parse -q --verify 'HEAD^{{commit}}') && tell head "$head"
{COPY_INDEX}
{ADD} >/dev/null 2>&1 || :
tree=$(g write-tree 2>/dev/null) && tell tree "$tree"
exit 0
"#,
        preamble(),
        quoted(path),
    )
}

/// Finds the repository.
const LOOK: &str = r#"top=$(g rev-parse --show-toplevel 2>/dev/null) && [ -n "$top" ] || exit 0"#;

/// Goes to the top of the repository, with a copy of its index that is removed at the end.
const COPY_INDEX: &str = r#"scratch=$(mktemp -d) || exit 0
trap 'rm -rf "$scratch"' EXIT
index=$(g rev-parse --git-path index)
[ ! -f "$index" ] || cp "$index" "$scratch/index"
objects=$(cd "$(g rev-parse --git-path objects)" && pwd) || exit 0
cd "$top" || exit 0
export GIT_INDEX_FILE="$scratch/index" GIT_OPTIONAL_LOCKS=0"#;

/// Adds all files to the index.
const ADD: &str =
    "g -c core.safecrlf=false -c advice.addEmbeddedRepo=false add --all --ignore-errors";

/// Turns `"$@"`, pathspecs of files that the host itself may have written in the repository, into
/// pathspecs that exclude them.
const OWN: &str = r#"if [ $# -gt 0 ]; then
  own=$(g -c core.quotePath=false grep --cached --full-name --no-color -l -a -F -e mswea- -- "$@")
  set --
  while IFS= read -r file; do
    [ -z "$file" ] || set -- "$@" ":(top,exclude,literal)$file"
  done <<END
$own
END
fi"#;

/// The base of a patch.
#[derive(Clone, Copy)]
pub(super) enum Since<'a> {
    /// The changes since this tree, or else since this commit: applies to the files as they were
    /// then.
    Tree(Option<&'a str>, Option<&'a str>),
    /// The files that have changed since the tree, compared with the commit: applies to the commit.
    Commit(&'a str, Option<&'a str>),
}

/// Prints the changes, new and binary files included, as a patch for `git apply`; all files if
/// there is no base.
///
/// Index and objects are copies in a temporary folder, so the repository does not change. The
/// original repository is named in a file, because the variable for it can't hold every path.
pub(super) fn diff(path: &str, since: Since<'_>) -> String {
    let is = |kind: &str, name: &str| format!("g rev-parse -q --verify '{name}^{{{kind}}}' || ");
    let tree = |name: Option<&str>| name.map_or_else(String::new, |name| is("tree", name));
    let commit = |name: &str| format!("{}{}", is("commit", name), is("commit", "HEAD"));
    let (base, only) = match since {
        Since::Tree(from, or) => {
            let or = or.map_or_else(String::new, commit);
            (format!("{}{or}", tree(from)), String::new())
        }
        Since::Commit(from, None) => (commit(from), String::new()),
        Since::Commit(from, Some(since)) => (commit(from), only(since)),
    };
    format!(
        r#"{}exec 3>&1 >/dev/null 2>&1
cd {} && has_git || exit 0
{LOOK}
{COPY_INDEX}
mkdir -p "$scratch/objects/info" && printf '%s\n' "$objects" >"$scratch/objects/info/alternates" || exit 0
export GIT_OBJECT_DIRECTORY="$scratch/objects"
{ADD} || :
base=$({base}g hash-object -t tree /dev/null)
{only}{OWN}
g --no-pager -c diff.noprefix=false -c diff.mnemonicPrefix=false -c diff.context=3 -c diff.interHunkContext=0 diff --cached --binary --find-renames --no-color --no-ext-diff --no-textconv --submodule=short "$base" -- :/ "$@" >&3
"#,
        preamble(),
        quoted(path),
    )
}

/// Applies a patch that [`diff`] has printed.
pub(super) fn apply(path: &str, patch: &str) -> String {
    let mut end = "END-OF-PATCH".to_owned();
    while patch.contains(&end) {
        end.push('X');
    }
    let newline = if patch.ends_with('\n') { "" } else { "\n" };
    format!(
        r#"{}exec 2>&1
cd {} || fail folder
{LOOK}
cd "$top" || fail folder
g apply --binary --whitespace=nowarn - <<'{end}' || fail apply
{patch}{newline}{end}
tell done
"#,
        preamble(),
        quoted(path),
    )
}

/// Makes an index of `$base` with the files that have changed since the tree `since`, without the
/// set-up's other changes. If that can't be done, all files are included.
fn only(since: &str) -> String {
    format!(
        r#"tab=$(printf '\t')
only() {{
  now=$(g write-tree) && g rev-parse -q --verify '{since}^{{tree}}' || return 1
  GIT_INDEX_FILE="$scratch/only"
  g read-tree "$base" && g diff-tree -r --raw --no-abbrev --no-renames '{since}' "$now" >"$scratch/changed" || return 1
  sed "s/^:[0-7]* \([0-7]*\) [0-9a-f]* \([0-9a-f]*\) [A-Z][0-9]*$tab/\1 \2$tab/" "$scratch/changed" | g update-index --index-info
}}
only || GIT_INDEX_FILE="$scratch/index"
"#
    )
}

/// The answers in a script's output: the words after [`SIGN`].
pub(super) fn answers(output: &str) -> impl Iterator<Item = &str> {
    output
        .lines()
        .filter_map(|line| Some(&line[line.find(SIGN)? + SIGN.len()..]))
}

/// A script's output without its answers.
pub(super) fn rest(output: &str) -> String {
    let lines = output.lines().filter(|line| !line.contains(SIGN));
    lines.collect::<Vec<_>>().join("\n").trim().to_owned()
}
