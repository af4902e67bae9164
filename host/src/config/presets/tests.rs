//! The presets' templates render, and the salvage command does what it promises.

use std::path::Path;
use std::process::Command;

use minijinja::{Environment, UndefinedBehavior, context};

use super::*;

fn text(preset: &str, path: &[&str]) -> String {
    let value = tree(preset).get(path).unwrap().to_value();
    value.as_str().unwrap().to_owned()
}

/// Strict about undefined variables, as in a run.
fn render(template: &str, vars: minijinja::Value) -> String {
    let mut env = Environment::new();
    env.set_undefined_behavior(UndefinedBehavior::Strict);
    env.render_str(template, vars).unwrap()
}

#[test]
fn the_prompts_render_with_what_every_environment_gives() {
    for (preset, word) in [(DEFAULT, "tool\n`bash`"), (TEXT, "```mswea_bash_command\n")] {
        for system in ["Linux", "Darwin"] {
            let vars = context! {
                task => "the <task> & {{ more }}", cwd => "/w", system, release => "6.1", machine => "x86_64",
                shell => "dash", timeout => 77,
            };
            let system_message = render(&text(preset, &["agent", "system_template"]), vars.clone());
            assert!(system_message.contains(word), "{system_message}");
            let instance = render(&text(preset, &["agent", "instance_template"]), vars);
            for part in [
                "the <task> & {{ more }}",
                "`/w`",
                "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT",
                "6.1 x86_64",
                "a fresh `dash` that",
                "may take 77 seconds",
                "background is ended when you submit",
            ] {
                assert!(instance.contains(part), "{part}: {instance}");
            }
            assert_eq!(instance.contains("sed -i ''"), system == "Darwin");
            assert_eq!(instance.contains("mswea_bash_command"), preset == TEXT);
        }
    }
}

#[test]
fn the_feedback_fits_what_went_wrong() {
    for preset in NAMES {
        let template = text(preset, &["model", "format_error_template"]);
        for finish_reason in [Some("length"), Some("stop"), None] {
            let vars = context! {
                error => "WRONG", actions => ["a", "b"], finish_reason, has_tool_calls => false,
            };
            let feedback = render(&template, vars);
            let cut_off = finish_reason == Some("length");
            assert_eq!(feedback.contains("cut off"), cut_off, "{feedback}");
            assert_eq!(feedback.contains("WRONG"), !cut_off, "{feedback}");
            assert!(!feedback.starts_with(char::is_whitespace), "{feedback:?}");
            if *preset == TEXT && !cut_off {
                assert!(feedback.contains("(yours held 2)"), "{feedback}");
                assert!(
                    feedback.contains("\n```mswea_bash_command\nyour command\n```\n"),
                    "{feedback}"
                );
            }
        }
    }
}

struct Repository(tempfile::TempDir);

impl Repository {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn sh(&self, folder: &str, script: &str) -> String {
        let output = Command::new("/bin/sh")
            .args(["-c", script])
            .current_dir(self.path().join(folder))
            // Nothing of the machine's own git settings or of a surrounding repository.
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CEILING_DIRECTORIES", self.path().parent().unwrap())
            .env_remove("GIT_DIR")
            .env_remove("GIT_INDEX_FILE")
            .output()
            .unwrap();
        assert!(output.status.success(), "{script}: {output:?}");
        String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
    }

    fn git_with_a_commit() -> Self {
        let repository = Self::new();
        repository.sh(
            "",
            "git init -q . && mkdir sub && echo one > a && echo two > sub/b && echo gone > c \
             && echo 'ignored/' > .gitignore && git add . \
             && git -c user.name=n -c user.email=e commit -qm first",
        );
        repository
    }

    fn salvage(&self, folder: &str) -> String {
        self.sh(folder, &text(DEFAULT, &["agent", "salvage_command"]))
    }

    /// Everything that git keeps, by content.
    fn fingerprint(&self) -> String {
        self.sh(
            "",
            "find .git -type f | sort | xargs cksum; git status --porcelain=v2",
        )
    }
}

#[test]
fn salvage_prints_all_changes_and_leaves_no_trace() {
    let repository = Repository::git_with_a_commit();
    repository.sh(
        "",
        "echo changed >> a && echo new > sub/'new file' && rm c && printf '\\000\\001' > bin \
         && echo staged > s && git add s && mkdir ignored && echo x > ignored/x",
    );
    let before = repository.fingerprint();
    for folder in ["", "sub"] {
        let patch = repository.salvage(folder);
        for part in [
            "a/a b/a",
            "+changed",
            "sub/new file",
            "deleted file",
            "GIT binary patch",
            "+staged",
        ] {
            assert!(patch.contains(part), "{folder}: {part}: {patch}");
        }
        assert!(!patch.contains("ignored"), "{patch}");
    }
    assert_eq!(
        repository.fingerprint(),
        before,
        "the repository was changed"
    );

    // The patch is good: it turns a clean copy into the same tree.
    let patch = repository.salvage("");
    let copy = Repository::git_with_a_commit();
    std::fs::write(copy.path().join("p.patch"), &patch).unwrap();
    copy.sh("", "git apply p.patch && rm p.patch");
    for (name, content) in [
        ("a", "one\nchanged\n"),
        ("sub/new file", "new\n"),
        ("bin", "\0\u{1}"),
    ] {
        assert_eq!(
            std::fs::read_to_string(copy.path().join(name)).unwrap(),
            content
        );
    }
    assert!(!copy.path().join("c").exists());
}

#[test]
fn salvage_is_quiet_where_there_is_nothing_to_say() {
    let plain = Repository::new();
    plain.sh("", "echo x > file");
    assert_eq!(plain.salvage(""), "");
    assert_eq!(Repository::git_with_a_commit().salvage(""), "");
    let fresh = Repository::new();
    fresh.sh("", "git init -q . && echo x > file");
    assert!(
        fresh.salvage("").contains("+x"),
        "a repository without a commit"
    );
}
