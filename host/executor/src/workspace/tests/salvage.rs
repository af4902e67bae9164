//! The printed patch applies to the state at the start.

use super::*;

/// The contents of the git repository, as a fingerprint.
fn fingerprint(place: &Place) -> String {
    place.sh(
        "work",
        "find .git -type f | sort | xargs -d '\\n' cksum; git status --porcelain=v2",
    )
}

/// Changes of all kinds.
const WORK: &str = r#"
echo changed >>a
printf 'no newline' >noend; printf 'a\r\nb\rc\n' >crlf
mkdir -p 'new dir/deep "er"'; echo x >'new dir/deep "er"/it'"'"'s'
head -c 3000 /dev/urandom >bin; printf '\000\001\002' >small.bin; : >empty
git mv 'sub dir/run' 'sub dir/renamed'; echo '# more' >>'sub dir/renamed'
rm dangling; ln -s a newlink; rm link; mkdir link; echo y >link/inside
echo staged >staged; git add staged; echo more >>staged
chmod +x a; echo ignored >k.ign; printf '\303\244\n' >'ümlaut'
"#;

#[tokio::test]
async fn the_patch_brings_the_work_back() {
    let place = Place::new();
    let url = place.origin("origin");
    let commit =
        |message: &str| format!("git -c user.name=n -c user.email=e commit -qam {message}");
    let config = "git config diff.noprefix true; git config diff.context 0; git config diff.external /bin/false; git config core.quotePath false; git config color.ui always";
    for (base, extra) in [
        (None, String::new()),
        (Some("main~1"), String::new()),
        (Some("main"), format!("git add -A; {}", commit("x"))),
        (
            None,
            format!(
                "git checkout -qb other; git add a; {}; echo z >>a",
                commit("y")
            ),
        ),
        (None, config.to_owned()),
    ] {
        let settings = WorkspaceSettings {
            base_commit: base.map(str::to_owned),
            ..place.settings(&url)
        };
        let mut executor = place.started(settings).await.unwrap();
        assert_eq!(salvaged(&mut executor).await, "");
        run(&mut executor, &format!("{WORK}\n{extra}")).await;
        let before = fingerprint(&place);
        let patch = salvaged(&mut executor).await;
        assert_eq!(fingerprint(&place), before, "the repository was changed");
        executor.cleanup().await;

        std::fs::write(place.at("the.patch"), &patch).unwrap();
        let start = base.unwrap_or("main");
        place.sh("", &format!("git clone -q origin fresh; cd fresh; git checkout -q --detach origin/{start}; git apply ../the.patch"));
        std::fs::remove_file(place.at("work/k.ign")).unwrap();
        assert_eq!(
            tree(&place.at("fresh")),
            tree(&place.at("work")),
            "{base:?} {extra}"
        );
        assert_eq!(place.sh("home", "ls -A"), "");
        for folder in ["fresh", "work"] {
            std::fs::remove_dir_all(place.at(folder)).unwrap();
        }
    }
}

#[tokio::test]
async fn odd_repositories() {
    let place = Place::new();
    // Without a commit at the start: new files, also those committed since.
    std::fs::create_dir_all(place.at("young")).unwrap();
    place.sh("young", "git init -q .; echo x >x");
    let mut executor = place
        .started(place.settings(&place.text("young")))
        .await
        .unwrap();
    run(
        &mut executor,
        "git add x; git -c user.name=n -c user.email=e commit -qm 1; echo y >y",
    )
    .await;
    let patch = salvaged(&mut executor).await;
    assert!(!patch.contains("+x") && patch.contains("+y"), "{patch}");
    // A repository inside without a commit does not keep the rest from being saved.
    run(
        &mut executor,
        "git init -q inside; echo z >inside/z; echo w >w",
    )
    .await;
    let patch = salvaged(&mut executor).await;
    assert!(patch.contains("+y") && patch.contains("+w"), "{patch}");
    // A removed repository is not reported any more.
    run(&mut executor, "rm -rf .git").await;
    assert_eq!(salvaged(&mut executor).await, "");
    run(&mut executor, "cd /; rm -rf \"$OLDPWD\"").await;
    executor.cleanup().await;

    // A base that a start-up command has removed.
    place.origin("origin");
    let settings = WorkspaceSettings {
        base_commit: Some("main".into()),
        startup_commands: vec![startup(
            "git checkout -q --orphan o && git -c user.name=n -c user.email=e commit -qm o && git branch -q -D main side/way && git tag -d v1 >&2 && git reflog expire --expire=now --all && git gc -q --prune=now && ! git rev-parse -q --verify 'main^{commit}'",
        )],
        ..place.settings(&place.text("origin"))
    };
    let mut executor = place.started(settings).await.unwrap();
    run(&mut executor, "echo v >v").await;
    let patch = salvaged(&mut executor).await;
    assert!(patch.contains("+v") && !patch.contains("+three"), "{patch}");
    executor.cleanup().await;
}

#[tokio::test]
async fn changes_count_from_the_end_of_the_start() {
    let place = Place::new();
    place.origin("work");
    let settings = WorkspaceSettings {
        startup_commands: vec![startup(
            "echo s >s; git add s; git -c user.name=n -c user.email=e commit -qm s",
        )],
        ..place.settings("")
    };
    let mut executor = place.made(settings, "").unwrap();
    assert_eq!(executor.salvage_command(), None, "before the start");
    begin(&mut executor, &place.context(Stop::never()))
        .await
        .unwrap();
    run(&mut executor, "echo t >t").await;
    let patch = salvaged(&mut executor).await;
    assert!(patch.contains("+t") && !patch.contains("+s"), "{patch}");
    let without = WorkspaceSettings {
        repo_path: String::new(),
        startup_commands: vec![startup("true")],
        ..WorkspaceSettings::default()
    };
    let mut executor = place.made(without, &place.text("home")).unwrap();
    begin(&mut executor, &place.context(Stop::never()))
        .await
        .unwrap();
    assert_eq!(salvaged(&mut executor).await, "", "there is no repository");
}

/// SWE-agent's `submit` counts from the commit.
#[tokio::test]
async fn a_tool_may_submit_what_the_set_up_has_changed() {
    let place = Place::new();
    place.origin("origin");
    for submits_set_up in [false, true] {
        let settings = WorkspaceSettings {
            reset: true,
            submits_set_up,
            startup_commands: vec![startup("echo built >built")],
            ..place.settings(&place.text("origin"))
        };
        let mut executor = place.started(settings).await.unwrap();
        run(&mut executor, "echo mine >mine").await;
        let script = executor.submission_command().unwrap();
        let output = run(&mut executor, &script).await;
        let submitted = mswea_git::SavedChanges::of(&output).unwrap();
        assert!(submitted.patch.contains("+mine"), "{output}");
        assert_eq!(
            submitted.patch.contains("+built"),
            submits_set_up,
            "{output}"
        );
        assert_eq!(submitted.notes, Vec::<String>::new());
        let saved = salvaged(&mut executor).await;
        assert!(!saved.contains("+built"), "{saved}");
        executor.cleanup().await;
        std::fs::remove_dir_all(place.at("work")).unwrap();
    }
}

/// A patch must not contain the changes that existed before the start, since it could not be
/// applied then.
#[tokio::test]
async fn the_patch_of_a_dirty_folder_applies_to_it() {
    let place = Place::new();
    let own =
        "echo mine >>a; git add a; echo more >>a; echo note >note; rm dangling; echo i >x.ign";
    place.origin("own");
    place.sh("own", own);
    let before = place.sh("own", "git status --porcelain=v2");
    for (repo, base) in [(true, None), (true, Some("main")), (false, None)] {
        if !repo {
            place.sh("", "cp -a own work");
        }
        let settings = WorkspaceSettings {
            base_commit: base.map(str::to_owned),
            ..place.settings(&if repo {
                place.text("own")
            } else {
                String::new()
            })
        };
        let mut executor = place.started(settings).await.unwrap();
        assert_eq!(salvaged(&mut executor).await, "");
        run(&mut executor, "echo agent >>a; sed -i s/note/NOTE/ note; echo new >new; chmod +x link; git -c user.name=n -c user.email=e commit -qam x").await;
        let patch = salvaged(&mut executor).await;
        assert!(
            !patch.contains("+mine") && !patch.contains("dangling"),
            "{patch}"
        );
        executor.cleanup().await;
        std::fs::write(place.at("the.patch"), &patch).unwrap();
        assert_eq!(place.sh("own", "git status --porcelain=v2"), before);
        place.sh(
            "",
            "cp -a own fresh; cd fresh; git apply --check ../the.patch && git apply ../the.patch",
        );
        assert_eq!(tree(&place.at("fresh")), tree(&place.at("work")), "{patch}");
        for folder in ["fresh", "work"] {
            std::fs::remove_dir_all(place.at(folder)).unwrap();
        }
    }
}

/// Files made by start-up commands are not part of the work; the patch applies to the commit all
/// the same.
#[tokio::test]
async fn the_patch_of_a_clone_applies_to_its_commit() {
    let place = Place::new();
    let url = place.origin("origin");
    for base in [None, Some("main"), Some("main~1")] {
        let settings = WorkspaceSettings {
            base_commit: base.map(str::to_owned),
            startup_commands: vec![startup(
                "echo built >built; echo two >made; echo '# set up' >>'sub dir/run'; rm dangling",
            )],
            ..place.settings(&url)
        };
        let mut executor = place.started(settings).await.unwrap();
        assert_eq!(salvaged(&mut executor).await, "", "{base:?}");
        run(&mut executor, WORK_ON_A_CLONE).await;
        let patch = salvaged(&mut executor).await;
        executor.cleanup().await;
        assert!(
            !patch.contains("built") && !patch.contains("dangling"),
            "{patch}"
        );
        std::fs::write(place.at("the.patch"), &patch).unwrap();
        let start = base.unwrap_or("main");
        place.sh("", &format!("git clone -q origin fresh; cd fresh; git checkout -q --detach origin/{start}; git apply ../the.patch"));
        place.sh(
            "work",
            "rm built; ln -s nowhere dangling; printf '#!/bin/sh\necho hi\n' >'sub dir/run'",
        );
        assert_eq!(tree(&place.at("fresh")), tree(&place.at("work")), "{patch}");
        for folder in ["fresh", "work"] {
            std::fs::remove_dir_all(place.at(folder)).unwrap();
        }
    }
}

/// The script replaces a link by a folder, and changes a file that the set-up has made.
const WORK_ON_A_CLONE: &str = r#"
echo agent >>a; echo three >>made; rm link; mkdir link; echo y >'link/"in
side"'; printf 'x' >'t	ab ü'
"#;
