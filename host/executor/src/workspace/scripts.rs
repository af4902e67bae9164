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
{chown}tell done
{}[ ! -f "$own/index" ] || {{ g update-index -q --refresh >/dev/null 2>&1; put_index; }}
exit 0
"#,
        preamble(),
        quoted(path),
        mswea_git::entered(""),
    )
}

/// The beginning of scripts that work in a repository which is already there, perhaps somebody else's: `g` is git without
/// its settings, programs and hooks.
fn in_repository(path: &str) -> String {
    format!(
        r#"{}cd {} || fail folder
has_git || fail no-git
{}"#,
        preamble(),
        quoted(path),
        mswea_git::entered(""),
    )
    .replace("|| exit 3", "|| fail no-repository")
}

/// Discards changes and checks out a commit, each if requested.
///
/// With `careful`, uncommitted work is never discarded.
pub(super) fn position(path: &str, reset: bool, careful: bool, commit: Option<&str>) -> String {
    let mut script = in_repository(path);
    script.push_str("[ -z \"$head\" ] || echo \"$head\" >\"$own/HEAD\"\n");
    script.push_str("g update-index -q --refresh >/dev/null 2>&1\n");
    let clean = "g clean -fdq || fail reset\n";
    if reset && careful {
        script.push_str(
            "dirty=$(g status --porcelain --untracked-files=normal --ignore-submodules=all) || fail reset\n\
             [ -z \"$dirty\" ] || { printf '%s\\n' \"$dirty\" | sed -n '1,20s/^/- /p'; fail dirty; }\n",
        );
    }
    if reset {
        script.push_str("[ -z \"$head\" ] || g read-tree --reset -u \"$head\" || fail reset\n");
        script.push_str("put_index\n");
        script.push_str(clean);
    }
    if let Some(commit) = commit {
        // A plain `checkout` names the files that are in its way.
        let how = if reset {
            "read-tree --reset -u"
        } else {
            "checkout -q --detach"
        };
        script.push_str(&format!(
            r#"commit={}
sha=$(commit_of "$commit") || sha=$(commit_of "origin/$commit") || fail no-commit
g {how} "$sha" && put_index && put_head "$sha" || fail checkout
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
        "{}[ -z \"$head\" ] || tell head \"$head\"\nexit 0\n",
        in_repository(path)
    )
}

/// Applies a patch that [`mswea_git::changes`] has printed.
pub(super) fn apply(path: &str, patch: &str) -> String {
    let mut end = "END-OF-PATCH".to_owned();
    while patch.contains(&end) {
        end.push('X');
    }
    let newline = if patch.ends_with('\n') { "" } else { "\n" };
    format!(
        r#"exec 2>&1
{}g apply --binary --whitespace=nowarn - <<'{end}' || fail apply
{patch}{newline}{end}
tell done
"#,
        in_repository(path),
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
