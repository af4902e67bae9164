//! Runs that change repositories of all kinds: the patch brings a copy of the beginning to the same files, or the notes name
//! what differs.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// The result that a case has to have.
enum Outcome {
    /// The patch brings all files back.
    Same,
    /// The same, and a note has these words.
    SameAnd(&'static str),
    /// The files differ, and the notes have these words.
    Named(&'static [&'static str]),
}
use Outcome::{Named, Same, SameAnd};

const SUBMODULE: &str = "git init -q ../s; (cd ../s; echo s >s.txt; git add -A; git commit -qm s); git -c protocol.file.allow=always submodule --quiet add ../s sub; git commit -qm sub";
const INSIDE: &str = "mkdir in; (cd in; git init -q .; echo i >i.txt; git add .; git commit -qm x)";
const HOSTILE: &str = r#"
for key in core.fsmonitor diff.external core.pager core.sshCommand core.editor gpg.program filter.x.clean filter.x.smudge filter.x.process diff.x.textconv diff.x.command merge.x.driver credential.helper; do
  git config $key "touch '$PWD/../ran-$key'; false"
done
printf '[filter "y"]\nclean = touch %s; false\nrequired = true\n' "'$PWD/../ran-included'" >../more
git config include.path "$PWD/../more"
mkdir ../hooks
for hook in post-index-change pre-commit reference-transaction post-checkout pre-auto-gc; do
  printf '#!/bin/sh\ntouch "%s"\n' "$PWD/../ran-$hook" >.git/hooks/$hook; chmod +x .git/hooks/$hook; cp .git/hooks/$hook ../hooks/
done
git config core.hooksPath "$PWD/../hooks"
printf '* filter=x diff=x merge=x\nb* filter=y\n' >.gitattributes
mkdir in; cp -r .git in/.git; echo i >in/i; rm -f ../ran-*
"#;

/// Name, preparation, change, outcome. The repository has a commit with the file `a.txt` of three lines.
type Case = (&'static str, &'static str, &'static str, Outcome);

const CASES: &[Case] = &[
    (
        "plain",
        "",
        "echo t >>a.txt; echo n >new; mkdir -p d/e; echo f >d/e/f",
        Same,
    ),
    (
        "another owner",
        "chown -R 12345 . || :",
        "echo t >>a.txt",
        Same,
    ),
    (
        "commits of the run",
        "",
        "echo t >>a.txt; git commit -qam mine; echo n >n.txt",
        Same,
    ),
    (
        "a commit on another branch",
        "",
        "git checkout -qb other; echo t >>a.txt; git commit -qam mine; git checkout -q main; echo u >>a.txt",
        Same,
    ),
    (
        "packed objects and references",
        "git pack-refs --all; git gc -q",
        "echo t >>a.txt; git commit -qam x; git gc -q; echo n >n",
        Same,
    ),
    (
        "prefixes",
        "git config diff.noprefix true",
        "echo t >>a.txt",
        Same,
    ),
    (
        "other prefixes",
        "git config diff.srcPrefix x/; git config diff.dstPrefix y/; git config diff.mnemonicPrefix true",
        "echo t >>a.txt",
        Same,
    ),
    (
        "context",
        "git config diff.context 0; git config diff.interHunkContext 9",
        "sed -i s/two/TWO/ a.txt",
        Same,
    ),
    (
        "colours and order",
        "git config color.ui always; git config color.diff always; echo '*z' >../o; git config diff.orderFile ../o",
        "echo t >>a.txt; echo z >z",
        Same,
    ),
    (
        "names",
        "git config core.quotePath false",
        "echo x >'a b'; echo y >ü; echo z >'q\"q'; echo w >\"$(printf '\\351')\"; mkdir ':(top)'; echo g >':(top)/g*'; echo b >'back\\slash'; printf 't' >\"$(printf 't\\tb')\"",
        Same,
    ),
    (
        "an external diff and a text conversion",
        "git config diff.external /bin/false; git config diff.x.textconv 'tr a-z A-Z'; git config diff.x.command /bin/false; echo '* diff=x' >.gitattributes; git add .; git commit -qm d",
        "echo t >>a.txt",
        Same,
    ),
    (
        "renames as copies",
        "git config diff.renames copies; seq 100 >big; git add .; git commit -qm b",
        "git mv big small; echo x >>small; cp small copy",
        Same,
    ),
    (
        "submodules ignored",
        "git config diff.ignoreSubmodules all; git config diff.submodule log",
        "echo t >>a.txt",
        Same,
    ),
    (
        "a change in a submodule",
        SUBMODULE,
        "echo changed >>sub/s.txt; echo n >sub/new",
        Same,
    ),
    (
        "a commit in a submodule",
        SUBMODULE,
        "echo changed >>sub/s.txt; git -C sub commit -qam x; git commit -qam y; rm sub/s.txt",
        SameAnd("`sub` is a repository of its own, now at the commit"),
    ),
    (
        "a submodule that is removed",
        SUBMODULE,
        "git rm -qf sub; echo t >>a.txt",
        Named(&["no repositories any more", "`sub`"]),
    ),
    (
        "a submodule without its repository",
        SUBMODULE,
        "echo t >>sub/s.txt; rm sub/.git; echo t >>a.txt",
        Named(&["no repositories any more", "`sub`"]),
    ),
    (
        "a submodule with broken settings",
        SUBMODULE,
        "echo t >>a.txt; echo t >>sub/s.txt; echo '[broken' >>.git/modules/sub/config",
        Same,
    ),
    (
        "a submodule whose repository is missing",
        "SUBMODULE; rm -r .git/modules/sub; sleep 2",
        "echo t >>sub/s.txt; echo n >sub/new",
        Named(&["`sub` is a submodule without a repository", "archive"]),
    ),
    (
        "a submodule that is not checked out",
        "SUBMODULE; git submodule --quiet deinit -f sub",
        "mkdir -p sub; echo n >sub/new",
        Named(&["`sub` is a submodule without a repository", "archive"]),
    ),
    (
        "a submodule without a repository that stays",
        "SUBMODULE; rm -r .git/modules/sub; sleep 2",
        "echo t >>a.txt",
        Same,
    ),
    (
        "a new repository inside",
        "",
        "mkdir in; cd in; git init -q .; echo i >i.txt; mkdir -p deep/er; git init -q deep/er; echo x >deep/er/x",
        SameAnd("`in/deep/er` is a repository that was made during the run"),
    ),
    (
        "a repository inside",
        INSIDE,
        "echo j >>in/i.txt; echo k >in/k; git -C in commit -qam j",
        SameAnd("`in` is a repository of its own"),
    ),
    (
        "a repository inside that is tracked",
        "mkdir in; (cd in; git init -q .; echo i >i.txt; git add .; git commit -qm x); git add in; git commit -qm in",
        "echo j >>in/i.txt; echo k >in/k",
        Same,
    ),
    (
        "bytes that are no UTF-8",
        "printf 'caf\\351\\n' >l.txt; git add -A; git commit -qm l",
        "echo t >>a.txt; printf 'caf\\351 cr\\350me\\n' >l.txt; printf 'ml\\303\\244t\\n' >u.txt; printf '\\351' >one; mv a.txt b.txt; printf '*.d diff\\n' >.gitattributes; printf '\\377\\000\\n' >x.d",
        Same,
    ),
    (
        "odd names, and bytes that are no UTF-8",
        "printf 'caf\\351\\n' >l.txt; git add -A; git commit -qm l",
        "printf 'x\\351' >l.txt; echo w >\"$(printf 'n\\nl')\"; mkdir -p -- '-d/ x'; echo v >'-d/ x/:(top)y'; printf '\\351' >-b; printf '\\351' >\"$(printf 'b\\nl')\"",
        Same,
    ),
    (
        "files that a new rule ignores",
        "echo '*.tmp' >.gitignore; git add .; git commit -qm i; sleep 1",
        "echo '*.log' >>.gitignore; echo l >out.log; mkdir d; echo m >d/m.log; echo t >t.tmp; echo '*.sec' >>.git/info/exclude; echo s >s.sec",
        Named(&[
            "a rule for ignored files is new",
            "`d/m.log`",
            "`out.log`",
            "`s.sec`",
        ]),
    ),
    (
        "one file that is no UTF-8 among many that are",
        "mkdir m; for i in $(seq 60); do echo ü >m/$i; done; printf 'caf\\351\\n' >m/l; printf 'a\\000b' >m/b; git add -A; git commit -qm m",
        "for i in $(seq 60); do echo ö €𝄞 >>m/$i; done; printf 'cr\\350me\\n' >>m/l; printf 'b\\000c' >m/b; printf '\\355\\240\\200\\n' >m/s; rm m/7; mv m/8 m/eight",
        Same,
    ),
    (
        "files whose contents are missing",
        "mkdir x y; echo x >x/f; echo y >y/f; git add .; git commit -qm xy; git config uploadpack.allowFilter true; cd ..; git clone -q --no-local --filter=blob:none --sparse \"file://$PWD/work\" p; rm -rf work; mv p work",
        "echo t >>a.txt; mkdir y; echo mine >y/f; printf 'caf\\351\\n' >l; echo z >z",
        Named(&["git can make no diff of these files (fatal: ", "`y/f`"]),
    ),
    (
        "a change that has the size and the time of the index",
        "git config core.trustctime false",
        "git checkout -q a.txt; touch -d '2020-01-01' a.txt .git/index; git update-index --refresh; printf 'ONE\\ntwo\\nthree\\n' >a.txt; touch -d '2020-01-01' a.txt .git/index",
        Same,
    ),
    (
        "many large files",
        "",
        "mkdir m; head -c 600000 /dev/zero >m/z; for i in $(seq 90); do cp m/z m/$i; done; truncate -s 3M big; truncate -s 45M \"$(printf 'x\\n50000000 l')\"; echo l >l",
        Named(&["larger than the 40 MB", "`big`"]),
    ),
    (
        "odd names, and a conversion",
        "git config core.autocrlf true; rm a.txt; git checkout -q a.txt",
        "echo q >'\"q'; printf 'lf\\n' >z.t; printf 'lf\\n' >\"$(printf 'c\\r')\"",
        Named(&["conversion", "`z.t`"]),
    ),
    (
        "a file that is too large",
        "",
        "truncate -s 45M big; echo t >>a.txt",
        Named(&["larger than the 40 MB", "`big`"]),
    ),
    (
        "a pipe in place of ignored names",
        "",
        "mkdir d; mkfifo d/.gitignore; echo t >>a.txt",
        Named(&[
            "`./d/.gitignore` is no file",
            "all files are kept as an archive",
        ]),
    ),
    (
        "a repository in a folder with an odd name",
        "",
        "in=$(printf \"n\\nl, &\\\\\"); mkdir \"$in\"; git init -q \"$in\"; echo i >\"$in/i\"; echo t >>a.txt",
        SameAnd("is a repository that was made during the run"),
    ),
    (
        "binary files",
        "head -c 5000 /dev/urandom >b; git add .; git commit -qm b",
        "head -c 6000 /dev/urandom >>b; printf '\\000\\001' >c",
        Same,
    ),
    (
        "diff attributes",
        "printf '*.x diff\\n*.y -diff\\n*.z binary\\n' >.gitattributes; git add .; git commit -qm a",
        "printf '\\000\\001\\n' >a.x; echo y >a.y; echo z >a.z",
        Same,
    ),
    (
        "no newline at the end",
        "printf x >nonl; git add .; git commit -qm n",
        "printf y >>nonl; printf '\\r' >cr; printf 'a\\rb\\n' >>a.txt",
        Same,
    ),
    (
        "changes before the run",
        "echo mine >>a.txt; git add a.txt; echo more >>a.txt; echo u >untracked",
        "echo agent >>a.txt; echo v >new",
        Named(&["had changes before the run", "`a.txt`, `untracked`"]),
    ),
    (
        "a sparse checkout",
        "mkdir x y; echo x >x/f; echo y >y/f; git add .; git commit -qm xy; git sparse-checkout set x",
        "mkdir y; echo n >y/new; echo t >>x/f",
        Same,
    ),
    (
        "a file outside of a sparse checkout",
        "mkdir x y; echo x >x/f; echo y >y/f; git add .; git commit -qm xy; git sparse-checkout set x",
        "mkdir y; echo other >y/f",
        Named(&["sparse checkout", "`y/f`"]),
    ),
    (
        "a file that git is told not to look at",
        "git update-index --assume-unchanged a.txt",
        "echo t >>a.txt",
        Same,
    ),
    (
        "a file that git is told to skip",
        "git update-index --skip-worktree a.txt",
        "echo t >>a.txt",
        SameAnd("`a.txt`"),
    ),
    (
        "no index",
        "echo '*.log' >.gitignore; echo l >x.log; git add -f .; git commit -qm l",
        "echo t >>a.txt; echo m >>x.log; rm .git/index",
        Same,
    ),
    (
        "a broken index",
        "",
        "echo t >>a.txt; echo x >.git/index",
        Same,
    ),
    (
        "a split index",
        "git update-index --split-index",
        "echo t >>a.txt; echo n >n; git add n",
        Same,
    ),
    (
        "a locked index",
        "",
        "echo t >>a.txt; touch .git/index.lock .git/HEAD.lock",
        Same,
    ),
    (
        "a conflict",
        "git checkout -qb o; echo o >a.txt; git commit -qam o; git checkout -q main; echo m >a.txt; git commit -qam m",
        "git merge o || :",
        Same,
    ),
    (
        "intended additions",
        "",
        "echo x >x; git add -N x; echo y >y; git add y; rm y",
        Same,
    ),
    (
        "modes and links",
        "git config core.fileMode false",
        "chmod +x a.txt; ln -s a.txt l; ln -s nowhere m",
        Same,
    ),
    (
        "files, links and folders in turn",
        "ln -s a.txt l; mkdir d; echo x >d/x; git add .; git commit -qm t",
        "rm l; mkdir l; echo y >l/y; rm -r d; echo d >d",
        Same,
    ),
    (
        "a filter that is missing",
        "echo '*.bin filter=lfs' >.gitattributes; git add -A; git commit -qm l; git config filter.lfs.required true; git config filter.lfs.clean '/no/such clean -- %f'",
        "echo t >>a.txt; echo b >b.bin",
        Named(&["filter", "`b.bin`"]),
    ),
    (
        "a filter that is missing, of a file that stays",
        "echo '*.bin filter=lfs' >.gitattributes; echo b >b.bin; git add -A; git commit -qm l; git config filter.lfs.required true; git config filter.lfs.clean '/no/such clean -- %f'",
        "echo t >>a.txt",
        Same,
    ),
    (
        "lines that end in CR LF",
        "printf '* text eol=crlf\\n' >.gitattributes; git add .; git commit -qm c; rm a.txt; git checkout -q a.txt",
        "printf 'four\\r\\n' >>a.txt; printf 'x\\r\\ny\\r\\n' >n",
        Same,
    ),
    (
        "a conversion that is not undone",
        "git config core.autocrlf true; rm a.txt; git checkout -q a.txt",
        "printf 'four\\r\\n' >>a.txt; printf 'lf\\n' >n",
        Named(&["conversion", "`n`"]),
    ),
    (
        "an encoding",
        "printf '*.u working-tree-encoding=UTF-16LE\\n' >.gitattributes; printf 'a\\000\\n\\000' >x.u; git add .; git commit -qm u",
        "printf 'a\\000b\\000\\n\\000' >x.u",
        Same,
    ),
    (
        "an encoding that fails",
        "printf '*.u working-tree-encoding=UTF-16\\n' >.gitattributes; git add .; git commit -qm u",
        "printf 'abc' >x.u; echo t >>a.txt",
        Named(&["conversion", "`x.u`"]),
    ),
    (
        "excluded names",
        "echo '*.log' >.git/info/exclude; echo l >x.log; git add -f x.log; git commit -qm l; echo n >n.log; sleep 1",
        "echo m >>x.log; echo t >>a.txt",
        Same,
    ),
    (
        "a file that stays but is tracked no more",
        "",
        "echo a.txt >.gitignore; git rm -q --cached a.txt",
        Named(&["still on the disk", "`a.txt`"]),
    ),
    (
        "folders and pipes",
        "",
        "mkdir e; mkfifo f",
        Named(&["empty folders", "`e`", "`f`"]),
    ),
    (
        "no commit",
        "rm -rf .git; git init -q .; mv a.txt ../; git status -s",
        "mv ../a.txt .; git add .; git commit -qm x; echo t >>a.txt; echo n >n",
        Same,
    ),
    (
        "a repository that the run makes",
        "rm -rf .git a.txt",
        "git init -q .; echo x >x; git add .; git commit -qm x; echo t >n",
        Same,
    ),
    (
        "a repository that the run removes",
        "",
        "echo t >>a.txt; rm -rf .git",
        Named(&[
            "the repository that was there at the start is gone",
            "archive",
        ]),
    ),
    (
        "a repository that the run makes anew",
        "",
        "echo t >>a.txt; rm -rf .git; git init -q .; git add .; git commit -qm y",
        Named(&["not in the repository any more", "archive"]),
    ),
    (
        "history that the run removes",
        "",
        "git checkout -q --orphan o; echo t >>a.txt; git commit -qam o; git branch -qD main; git reflog expire --expire=now --all; git gc -q --prune=now",
        Named(&["not in the repository any more", "archive"]),
    ),
    (
        "objects that the run removes",
        "",
        "echo t >>a.txt; echo n >n; rm -rf .git/objects/*",
        Named(&["not in the repository any more", "all files"]),
    ),
    (
        "a replaced commit",
        "echo 2 >>a.txt; git commit -qam 2",
        "git replace HEAD HEAD~1; echo t >>a.txt",
        Same,
    ),
    (
        "a moved head",
        "git checkout -q --detach",
        "git commit -q --allow-empty -m x; echo t >>a.txt; git stash -q; git stash pop -q",
        Same,
    ),
    (
        "a rewound branch",
        "echo 2 >>a.txt; git commit -qam 2",
        "git reset -q --hard HEAD~1; echo t >>a.txt",
        Same,
    ),
    (
        "SHA-256",
        "rm -rf .git; git init -q --object-format=sha256 .; git add .; git commit -qm x",
        "echo t >>a.txt; git commit -qam x; echo n >n",
        Same,
    ),
    (
        "another storage of references",
        "rm -rf .git; git init -q --ref-format=reftable . || git init -q .; git add .; git commit -qm x",
        "echo t >>a.txt; git commit -qam x; echo n >n",
        Same,
    ),
    (
        "a clone without its blobs",
        "git config uploadpack.allowFilter true; cd ..; git clone -q --no-local --filter=blob:none \"file://$PWD/work\" p; rm -rf work; mv p work",
        "echo t >>a.txt; echo n >n",
        Same,
    ),
    (
        "a shallow clone",
        "echo 2 >>a.txt; git commit -qam 2; cd ..; git clone -q --depth 1 \"file://$PWD/work\" p; rm -rf work; mv p work",
        "echo t >>a.txt; git commit -qam x",
        Same,
    ),
    (
        "broken settings",
        "",
        "echo t >>a.txt; echo '[broken' >>.git/config",
        Same,
    ),
    (
        "an unknown format",
        "",
        "echo t >>a.txt; git config core.repositoryformatversion 99",
        Same,
    ),
    (
        "a work tree elsewhere",
        "",
        "echo t >>a.txt; git config core.worktree /nowhere; git config core.bare true",
        Same,
    ),
    (
        "a hostile repository",
        HOSTILE,
        "echo t >>a.txt; echo b >b; mv .gitattributes x; mv x .gitattributes",
        Named(&["filter", "`a.txt`"]),
    ),
];

/// A folder with a repository, as a user would make it.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(
            tempfile::Builder::new()
                .prefix("it's \"a\" ü ")
                .tempdir()
                .unwrap(),
        );
        std::fs::create_dir_all(place.0.path().join("work")).unwrap();
        std::fs::create_dir_all(place.0.path().join("home")).unwrap();
        place.sh("git init -q -b main .; printf 'one\\ntwo\\nthree\\n' >a.txt; git add -A; git commit -qm base");
        place
    }

    fn command(&self, script: &str) -> Command {
        let mut command = Command::new("sh");
        command
            .args(["-c", script])
            .current_dir(self.0.path().join("work"));
        for (name, value) in [("NAME", "n"), ("EMAIL", "e")] {
            command
                .env(format!("GIT_AUTHOR_{name}"), value)
                .env(format!("GIT_COMMITTER_{name}"), value);
        }
        command
            .env("HOME", self.0.path().join("home"))
            .env_remove("XDG_CONFIG_HOME");
        command
    }

    fn sh(&self, script: &str) -> String {
        let output = self.command(script).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr)
    }

    /// The files of a folder: mode and content, or the target of a link.
    fn files(&self, folder: &str) -> BTreeMap<String, Vec<u8>> {
        let mut found = BTreeMap::new();
        let mut folders = vec![self.0.path().join(folder)];
        while let Some(next) = folders.pop() {
            for entry in next.read_dir().unwrap() {
                let path = entry.unwrap().path();
                let meta = path.symlink_metadata().unwrap();
                let name = path
                    .strip_prefix(self.0.path().join(folder))
                    .unwrap()
                    .to_string_lossy()
                    .into_owned();
                if path.file_name().unwrap() == ".git" {
                    continue;
                }
                if meta.is_dir() {
                    folders.push(path);
                    found.insert(name, Vec::new());
                } else if meta.is_symlink() {
                    found.insert(
                        name,
                        std::fs::read_link(&path)
                            .unwrap()
                            .to_string_lossy()
                            .into_owned()
                            .into_bytes(),
                    );
                } else if meta.is_file() {
                    let mode = if meta.permissions().mode() & 0o100 == 0 {
                        b'-'
                    } else {
                        b'x'
                    };
                    found.insert(name, [&[mode][..], &std::fs::read(&path).unwrap()].concat());
                } else {
                    found.insert(name, b"special".to_vec());
                }
            }
        }
        found
    }
}

fn differing(before: &BTreeMap<String, Vec<u8>>, after: &BTreeMap<String, Vec<u8>>) -> Vec<String> {
    let names: std::collections::BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    names
        .into_iter()
        .filter(|name| before.get(*name) != after.get(*name))
        .cloned()
        .collect()
}

#[test]
fn the_patch_brings_the_files_back_or_the_notes_name_what_differs() {
    let next = AtomicUsize::new(0);
    let wrong = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(case) = CASES.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let found = examined(case);
                    wrong.lock().unwrap().extend(found);
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(
        wrong.is_empty(),
        "{} cases:\n{}",
        wrong.len(),
        wrong.join("\n\n")
    );
}

/// What is wrong in a case.
fn examined((name, prepare, change, outcome): &Case) -> Vec<String> {
    let mut wrong = Vec::new();
    let place = Place::new();
    place.sh(&prepare.replace("SUBMODULE", SUBMODULE));
    place.sh("cp -a . ../fresh");
    let text = place.sh(&start("", Keep::Names));
    let begun = StartState::of(&text).unwrap_or_else(|| panic!("{name}: {text}"));
    std::thread::sleep(std::time::Duration::from_millis(
        if change.contains("mkfifo") { 1100 } else { 0 },
    ));
    place.sh(change);
    let fingerprint = "find .git in/.git -type f 2>/dev/null | sort | xargs -d '\\n' cksum";
    let before = place.sh(fingerprint);
    let text = place.sh(&changes("", Some(&begun), Since::Files));
    let saved = SavedChanges::of(&text).unwrap_or_else(|| panic!("{name}: {text}"));
    if place.sh(fingerprint) != before {
        wrong.push(format!("{name}: the repository was changed"));
    }
    let ran = place.sh("ls .. | grep ^ran-");
    if !ran.is_empty() {
        wrong.push(format!("{name}: programs of the repository ran: {ran}"));
    }
    std::fs::write(place.0.path().join("patch"), &saved.patch).unwrap();
    let said = place.sh("chown -R $(id -u) ../fresh .; cd ../fresh; [ ! -s ../patch ] || git apply --whitespace=nowarn ../patch");
    let differ = differing(&place.files("fresh"), &place.files("work"));
    let notes = saved.notes.join("\n");
    assert!(!notes.contains("t.tmp"), "{name}: {notes}");
    let is_right = match outcome {
        Same => differ.is_empty() && notes.is_empty() && saved.archive.is_none(),
        SameAnd(words) => differ.is_empty() && notes.contains(words),
        Named(words) => !differ.is_empty() && words.iter().all(|words| notes.contains(words)),
    };
    if !is_right {
        wrong.push(format!(
            "{name}: {differ:?} differ; notes: {notes}; git: {said}\n{text}"
        ));
    }
    wrong
}

#[test]
fn what_is_kept_of_the_start_makes_the_patch_apply_to_changed_files() {
    let place = Place::new();
    place.sh("echo mine >>a.txt; git add a.txt; echo more >>a.txt; echo u >untracked; mkdir in; git init -q in; echo i >in/i; cp -a . ../fresh");
    let begun = StartState::of(&place.sh(&start("", Keep::OwnContents))).unwrap();
    assert!(
        begun.trees.iter().all(|tree| tree.tree.is_some()),
        "{begun:?}"
    );
    place.sh(
        "echo agent >>a.txt; echo v >>untracked; echo j >>in/i; git add -A; git commit -qm all",
    );
    let saved = SavedChanges::of(&place.sh(&changes("", Some(&begun), Since::Files))).unwrap();
    assert!(!saved.patch.contains("+mine"), "{}", saved.patch);
    std::fs::write(place.0.path().join("patch"), &saved.patch).unwrap();
    place.sh("cd ../fresh; git apply ../patch");
    assert_eq!(place.files("fresh"), place.files("work"), "{saved:?}");
}

#[test]
fn files_of_the_host_are_left_out() {
    let place = Place::new();
    let begun = StartState::of(&place.sh(&start("", Keep::Names))).unwrap();
    place.sh("mkdir out; echo '{\"by\": \"mswea-host\"}' >out/traj.json; echo mine >traj.json; echo n >n");
    let script = changes("", Some(&begun), Since::Files);
    let text = place.sh(&format!("set -- ':(top,glob)**/traj.json'\n{script}"));
    let saved = SavedChanges::of(&text).unwrap();
    assert!(
        !saved.patch.contains("out/traj.json") && saved.patch.contains("+mine"),
        "{text}"
    );
}

#[test]
fn outside_of_a_repository_nothing_is_said() {
    let place = Place::new();
    place.sh("rm -rf .git");
    let begun = StartState::of(&place.sh(&start("", Keep::Names))).unwrap();
    assert_eq!(begun.trees, []);
    for begun in [Some(&begun), None] {
        let saved = SavedChanges::of(&place.sh(&changes("", begun, Since::Files))).unwrap();
        assert_eq!(saved, SavedChanges::default());
    }
    assert_eq!(SavedChanges::of("bash: no such thing"), None);
}
