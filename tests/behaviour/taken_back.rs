//! A user at a terminal who goes back: changes of files are taken back, and the run goes on as another one.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::time::Duration;

use scripted_server::{Scenario, Server, Turn};

use crate::host::Host;
use crate::needs::Need;
use crate::person::{host, play, told};
use crate::story::{commands, git, repository, submit, turns};
use crate::terminal::Terminal;

#[test]
fn changes_of_files_are_taken_back_step_by_step() {
    for mode in ["confirm", "yolo"] {
        let server = commands(&[
            "echo one >new; echo ignored >ignored; echo ignored >.gitignore",
            "rm kept.txt; echo two >new",
            "sleep 60",
        ]);
        let host = host(&server).args(["--mode", mode]);
        repository(&host.dir());
        let Some(terminal) = Terminal::start(host, 100, 50) else {
            return;
        };
        let work = terminal.root().path().join("work");
        let read = |name: &str| fs::read_to_string(work.join(name)).ok();
        let kept = read("kept.txt");
        let journal = || fs::read_to_string(work.join("traj.events.jsonl")).unwrap();
        if mode == "confirm" {
            let script = [
                ("Enter: run this", "/undo"),
                ("no earlier state of the files is remembered", ""),
                ("$ rm kept", ""),
                ("$ sleep 60", "/undo"),
            ];
            play(&terminal, &script);
        } else {
            terminal.until("$ sleep 60");
            terminal.line("/undo");
            terminal.until("/undo works at a question");
            terminal.keys(&["C-c"]);
            play(&terminal, &[("interrupted · Enter", "/undo")]);
        }
        terminal.until("D kept.txt\nM new\ntake back these changes?");
        terminal.line("no");
        terminal.until("nothing was taken back");
        let before = journal();
        play(&terminal, &[("· text: ", "/undo"), ("take back", "")]);
        terminal.until("taken back; the model is told");
        assert_eq!(read("kept.txt"), kept);
        assert_eq!(read("new").as_deref(), Some("one\n"));
        play(&terminal, &[("· text: ", "/undo")]);
        terminal.until("A .gitignore\nA new\ntake back these changes?");
        play(&terminal, &[("take back", "")]);
        terminal.until_so("two", |screen| {
            screen.matches("taken back; the").count() == 2
        });
        assert_eq!((read("new"), read(".gitignore")), (None, None));
        // What git ignores stays, and the host's own files are no part of it.
        assert_eq!(read("ignored").as_deref(), Some("ignored\n"));
        assert!(journal().starts_with(&before));
        play(
            &terminal,
            &[("· text: ", "/diff"), ("new file: ignored", "not now")],
        );
        terminal.until("told to the model (UserMessage)");
        terminal.until("$ echo COMPLETE");
        terminal.keys(&["C-c"]);
        terminal.until("interrupted");
        terminal.keys(&["C-c"]);
        terminal.ends(130);
        let told = told(&terminal).join("\n");
        assert!(
            told.contains("The user has taken back changes of files"),
            "{told}"
        );
        assert!(told.contains("D kept.txt\nM new"), "{told}");
    }
}

#[test]
fn files_are_as_they_were() {
    let server = commands(&[
        "echo >.gitignore; rm lines.txt; rm .env; echo changed >data/kept; git -C inner reset -q --hard HEAD^",
        "sleep 60",
    ]);
    let host = host(&server);
    let folder = host.dir();
    repository(&folder);
    for (name, text) in [
        (".gitignore", "data/\n"),
        ("data/kept", "ignored\n"),
        ("lines.txt", "one\r\ntwo\r\n"),
        (".gitattributes", "* filter=note\n"),
        (".env", "SECRET=1\n"),
    ] {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let inner = folder.join("inner");
    fs::create_dir(&inner).unwrap();
    repository(&inner);
    git(&inner, &["commit", "--quiet", "--message=second"]);
    fs::set_permissions(folder.join(".env"), Permissions::from_mode(0o600)).unwrap();
    let filter = "sh -c 'touch ../started; sed s/one/other/'";
    for (key, value) in [("core.autocrlf", "input"), ("filter.note.clean", filter)] {
        git(&folder, &["config", key, value]);
    }
    let Some(terminal) = Terminal::start(host, 100, 50) else {
        return;
    };
    let script = [
        ("Enter: run this", ""),
        ("$ sleep 60", "/undo"),
        (
            "D .env\nM .gitignore\nD lines.txt\ninner is a repository of its own, which stays as it is\ntake back",
            "",
        ),
    ];
    play(&terminal, &script);
    terminal.until("taken back; the model is told");
    let work = terminal.root().path().join("work");
    let read = |name: &str| fs::read_to_string(work.join(name)).unwrap();
    assert_eq!(read("lines.txt"), "one\r\ntwo\r\n");
    assert_eq!(read(".env"), "SECRET=1\n");
    let mode = fs::metadata(work.join(".env"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(read(".gitignore"), "data/\n");
    // Git ignored it before, so it is not touched.
    assert_eq!(read("data/kept"), "changed\n");
    // Not even a program that the repository's config names.
    assert!(!work.join("../started").exists());
    terminal.keys(&["C-c"]);
    terminal.until("interrupted");
    terminal.keys(&["C-c"]);
    terminal.ends(130);
}

#[test]
fn what_only_git_ignores_and_modes_are_remembered_without_another_change() {
    let server = commands(&[
        "true",
        "mkdir build; echo made >build/made",
        "true",
        "chmod 600 kept.txt",
        "rm .gitignore kept.txt",
        "sleep 60",
    ]);
    let host = host(&server).args(["--mode", "yolo"]);
    repository(&host.dir());
    fs::write(host.dir().join(".gitignore"), "build/\n").unwrap();
    let Some(terminal) = Terminal::start(host, 100, 50) else {
        return;
    };
    terminal.until("$ sleep 60");
    terminal.keys(&["C-c"]);
    let script = [
        ("interrupted · Enter", "/undo"),
        ("D .gitignore\nD kept.txt\ntake back", ""),
    ];
    play(&terminal, &script);
    terminal.until("taken back; the model is told");
    let work = terminal.root().path().join("work");
    let made = fs::read_to_string(work.join("build/made")).unwrap();
    assert_eq!(made, "made\n");
    let kept = fs::metadata(work.join("kept.txt")).unwrap();
    assert_eq!(kept.permissions().mode() & 0o777, 0o600);
    terminal.keys(&["C-c"]);
    terminal.until("interrupted");
    terminal.keys(&["C-c"]);
    terminal.ends(130);
}

#[test]
fn a_switch_of_the_mode_and_of_the_run() {
    let slow = Turn::commands(&["echo one >new"]).with_delay(Duration::from_secs(4));
    let server = turns([slow, Turn::commands(&["sleep 60"])]);
    let host = host(&server);
    repository(&host.dir());
    let Some(terminal) = Terminal::start(host, 100, 50) else {
        return;
    };
    assert!(server.wait_for(1, Duration::from_secs(60)));
    // The files were not remembered during this query.
    terminal.line("/y");
    terminal.until("yolo mode");
    terminal.until("$ sleep 60");
    terminal.keys(&["C-c"]);
    let script = [
        ("interrupted · Enter", "/undo"),
        ("A new\ntake back these changes?", ""),
        ("taken back; the model is told", "/fork"),
        ("wants to finish", ""),
    ];
    play(&terminal, &script);
    terminal.ends(0);
    let told = server.requests().last().unwrap().json().to_string();
    assert!(
        told.contains("The user has taken back changes of files"),
        "{told}"
    );
}

/// Options that put the git of this machine into a container: the program and its libraries.
fn with_git() -> Vec<String> {
    let sh = |script: &str| {
        let output = Command::new("sh").args(["-c", script]).output().unwrap();
        assert!(output.status.success(), "{script}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let git = sh("readlink -f \"$(command -v git)\"");
    let libraries = sh(&format!("ldd {}", git.trim()));
    let words = libraries.split_whitespace();
    let libraries = words.filter(|word| word.starts_with('/'));
    let mounts = libraries.map(|path| format!("{path}:{path}:ro"));
    let mounts = mounts.chain([format!("{}:/bin/git:ro", git.trim())]);
    mounts.flat_map(|mount| ["-v".to_owned(), mount]).collect()
}

#[test]
fn in_a_container() {
    if !Need::Docker.is_met() || !Need::Tmux.is_met() {
        return;
    }
    for transport in ["", "environment.transport=cli"] {
        let show = "cat new; cat kept.txt; stat -c '%a %n' tool; ls /tmp";
        let server = commands(&[
            "echo one >new; echo '#!/bin/sh' >tool; chmod 750 tool",
            "rm kept.txt tool; echo two >new; git config core.fsmonitor 'touch /tmp/started'",
            show,
        ]);
        let options = serde_json::to_string(&with_git()).unwrap();
        let host = host(&server)
            .args(["--image", "mswea-test/bash", "-c", "workspace.repo=."])
            .args(["-c", &format!("environment.run_args={options}")]);
        let host = match transport {
            "" => host,
            transport => host.args(["-c", transport]),
        };
        repository(&host.dir());
        let terminal = Terminal::start(host, 100, 50).unwrap();
        for (shown, answer) in [
            ("$ echo one", ""),
            ("$ rm kept", ""),
            ("$ cat new", "/diff"),
            ("-first", "/undo"),
            ("D kept.txt\nM new\nD tool", ""),
            ("taken back; the model", ""),
        ] {
            terminal.answer(shown, answer);
        }
        terminal.answer("$ echo COMPLETE", "/y");
        terminal.answer("wants to finish", "");
        terminal.ends(0);
        let journal = terminal.journal();
        let outputs: Vec<&str> = journal
            .iter()
            .filter(|event| event["event"] == "output")
            .map(|event| event["output"]["output"].as_str().unwrap())
            .collect();
        let expected = "one\nfirst\n750 tool\n";
        assert!(
            outputs[2].starts_with(expected),
            "{transport}: {outputs:#?}"
        );
        assert!(!outputs[2].contains("started"), "{transport}: {outputs:#?}");
        let told = told(&terminal).join("\n");
        assert!(told.contains("D kept.txt\nM new\nD tool"), "{told}");
    }
}

#[test]
fn what_can_not_be_taken_back() {
    for (is_repository, arguments, why) in [
        (false, None, "outside of a git work tree"),
        (
            true,
            Some("environment.env.GIT_TEST_ASSUME_DIFFERENT_OWNER=yes"),
            "belongs to another user",
        ),
        (
            true,
            Some("environment.environment_class=bubblewrap"),
            "with the class `bubblewrap` the files are not remembered",
        ),
    ] {
        if arguments.is_some_and(|it| it.ends_with("bubblewrap")) && !Need::Bubblewrap.is_met() {
            continue;
        }
        let server = commands(&["echo one >new"]);
        let mut host = host(&server);
        if let Some(setting) = arguments {
            host = host.args(["-c", setting]);
        }
        if is_repository {
            repository(&host.dir());
        }
        let Some(terminal) = Terminal::start(host, 100, 30) else {
            return;
        };
        play(
            &terminal,
            &[("Enter: run this", ""), ("$ echo COMPLETE", "/undo")],
        );
        if !is_repository {
            let diff = "the commands run outside of a git work tree\n";
            play(
                &terminal,
                &[(why, "/diff"), (diff, "/y"), ("wants to finish", "")],
            );
        } else {
            play(&terminal, &[(why, "/y"), ("wants to finish", "")]);
        }
        terminal.ends(0);
        let left = fs::read_dir(terminal.root().path().join("tmp")).unwrap();
        assert_eq!(left.count(), 0);
    }
}

#[test]
fn a_run_goes_on_in_a_new_one() {
    let server = commands(&["echo one", "echo two", "echo three"]);
    let Some(terminal) = Terminal::start(host(&server), 100, 50) else {
        return;
    };
    let script = [
        ("$ echo one", ""),
        ("$ echo two", "/fork"),
        ("a new run begins with 2 steps", ""),
        ("$ echo three", "/y"),
        ("wants to finish", "/fork"),
        ("a new run needs something to do", ""),
    ];
    play(&terminal, &script);
    let all = terminal.ends(0);
    let old = terminal.journal();
    assert_eq!(
        old.iter().filter(|it| it["event"] == "run_ended").count(),
        1
    );
    // The old run has ended, too, and says where it is.
    let places: Vec<&str> = all
        .lines()
        .filter_map(|line| line.strip_prefix("trajectory: "))
        .collect();
    assert_eq!(places.len(), 2, "{all}");
    let place = places[1].replace('~', terminal.root().path().join("home").to_str().unwrap());
    let new = crate::run::journal(std::path::Path::new(&place));
    assert_eq!(new[0]["parent"]["run_id"], old[0]["run_id"]);
    assert_eq!(new[0]["parent"]["step"], 2);
    assert_ne!(new[0]["run_id"], old[0]["run_id"]);
    // The commands that were not run are not run in the new run either.
    assert!(!all.contains("\n  two"), "{all}");
    assert!(all.contains("\n  three"), "{all}");
}

#[test]
fn approvals_for_all_runs_are_kept_and_denied_words_are_asked_about() {
    let file = "home/.config/mini-swe-agent/approvals";
    let server = commands(&["echo one", "echo two; git push", "echo three"]);
    let Some(terminal) = Terminal::start(host(&server), 100, 40) else {
        return;
    };
    let path = terminal.root().path().join(file);
    terminal.until("Enter: run this");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, "# mine\ngit\nprintf\n! git push").unwrap();
    terminal.line("/p");
    terminal.until("this adds a line to");
    terminal.until("> echo one");
    terminal.keys(&["C-w", "BSpace", "Enter"]);
    terminal.until("`echo` is in");
    terminal.until("$ echo two; git push\nEnter");
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        "# mine\ngit\nprintf\n! git push\necho\n"
    );
    play(&terminal, &[("$ echo two", "/quit")]);
    terminal.ends(130);

    let again = Host::inside(terminal.root()).args(["resume", "traj.json"]);
    let Some(terminal) = Terminal::start(again, 100, 40) else {
        return;
    };
    terminal.until("  three");
    terminal.until("wants to finish");
    terminal.line("");
    terminal.ends(0);
    fs::write(&path, "a | b\n").unwrap();
    let broken = Host::inside(terminal.root())
        .server(&server)
        .args(["-t", "x"]);
    let terminal = Terminal::start(broken, 100, 40).unwrap();
    let all = terminal.ends(2);
    assert!(all.contains("`a | b` in line 1"), "{all}");
}

#[test]
fn the_share_of_the_context_is_shown() {
    let turn = Turn::commands(&[submit("done")]).with_text("# Plan\nuse `ls` **now**");
    let server = Server::start(Scenario::new([turn]));
    let host = Host::new()
        .base_url(&server.url())
        .env("OPENAI_API_KEY", "k")
        .args(["-m", "openai/gpt-4o", "-t", "fix it", "-o", "traj.json"]);
    let Some(terminal) = Terminal::start(host, 100, 30) else {
        return;
    };
    play(&terminal, &[("Enter: run this", "/status")]);
    let screen = terminal.until("of 128,000");
    assert!(screen.contains("context 1 %: "), "{screen}");
    // Nothing of the text is lost for its colours.
    assert!(screen.contains("# Plan\nuse `ls` **now**"), "{screen}");
    terminal.line("/y");
    play(&terminal, &[("wants to finish", "")]);
    terminal.ends(0);
}
