//! `edited_files30` and its kin: the files that a submission has modified, with lines around the changes.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::host::Host;
use crate::run::Run;
use crate::swe_attempts::{CHOOSER, FLAGS, Say, config, files, host, server};
use crate::sweagent::read;

const NOTHING: &str = "Empty. No edited files found.";

/// The repository also has a file of 200 lines.
fn with_long_file(host: Host) -> Host {
    let lines: String = (1..=200).map(|line| format!("l{line}\n")).collect();
    let host = host.file("repo/src/a é.txt", lines);
    git(&host.dir().join("repo"), &["add", "."]);
    let user = ["-c", "user.name=a", "-c", "user.email=a@b"];
    let commit = ["commit", "-q", "-m", "second"];
    git(&host.dir().join("repo"), &[&user[..], &commit].concat());
    host
}

fn git(repo: &Path, words: &[&str]) {
    let done = Command::new("git").current_dir(repo).args(words).status();
    assert!(done.unwrap().success());
}

const EDIT: &str =
    "sed -i 's/^l100$/changed/; s/^l180$/last/' src/a*; echo new >new.txt; git rm -q a.txt; cd /";

fn expected(context: usize) -> String {
    let line = |number: usize| {
        let text = match number {
            100 => "changed".to_owned(),
            180 => "last".to_owned(),
            _ => format!("l{number}"),
        };
        format!("{number:6}: {text}\n")
    };
    let lines = |from: usize, to: usize| (from..=to).map(line).collect::<String>();
    // A place of the patch has three lines more on both sides.
    let around = context + 3;
    let above = 100 - around - 1;
    let whole = match 100 + around >= 180 - around - 1 {
        true => lines(100 - around, 200),
        false => {
            let omitted = 180 - around - (100 + around) - 1;
            format!(
                "{}\n[{omitted} lines omitted]\n\n{}",
                lines(100 - around, 100 + around),
                lines(180 - around, 200)
            )
        }
    };
    format!(
        "[File: src/a é.txt]\n[{above} lines above omitted]\n{}",
        whole.trim_end()
    )
}

fn info(run: &Run) -> Value {
    read(&files(run).join("one.traj"))["info"].clone()
}

fn single(agent: &str) -> String {
    format!(
        "agent:\n  model: {{name: openai/m, api_key: k, per_instance_cost_limit: 0}}\n  templates: {{instance_template: x}}\n  \
         tools: {{bundles: [{{path: tools/submit}}]}}\n{agent}"
    )
}

#[test]
fn modified_files_are_in_the_trajectory() {
    for (turns, limit, status) in [
        (&[Say::Run(EDIT), Say::Submit][..], 0, "submitted"),
        // The end submits.
        (&[Say::Run(EDIT)], 1, "submitted (exit_cost)"),
        (&[Say::Run("true"), Say::Submit], 0, "submitted"),
        (&[Say::Run("echo x >new.txt"), Say::Submit], 0, "submitted"),
        (&[Say::Run("exit")], 0, "exit_command"),
    ] {
        let server = server(turns);
        let run = with_long_file(host(&single("")))
            .args(FLAGS)
            .arg(format!("--agent.model.api_base={}", server.url()))
            .arg(format!("--agent.model.per_instance_call_limit={limit}"))
            .run();
        let info = info(&run);
        assert_eq!(info["exit_status"], status, "{run}");
        for context in [30, 50, 70] {
            let text = info[format!("edited_files{context}")].as_str().unwrap();
            let patch = info["submission"].as_str().unwrap_or_default();
            let wanted = match patch {
                "" => NOTHING.to_owned(),
                patch if patch.contains("+changed") => expected(context),
                _ => String::new(),
            };
            assert_eq!(text, wanted, "{status}, {context}: {patch}");
        }
    }
}

#[test]
fn choosers_see_modified_files() {
    let server = server(&[
        Say::Run(EDIT),
        Say::Submit,
        Say::Run("true"),
        Say::Submit,
        Say::Judge("0"),
    ]);
    let judge = CHOOSER
        .replace("{{submission}}", "{{edited_files30}}")
        .replace("max_attempts: 3", "max_attempts: 2");
    let run = with_long_file(host(&config(&server, &judge, "")))
        .args(FLAGS)
        .run()
        .expect(0);
    let asked = server.requests()[4].json()["messages"].to_string();
    let shown = Value::from(expected(30)).to_string();
    assert!(asked.contains(shown.trim_matches('"')), "{asked}\n{run}");
    assert_eq!(info(&run)["best_attempt_idx"], 0);
}
