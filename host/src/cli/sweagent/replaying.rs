//! `sweagent run-replay`: runs the actions of a recorded run in a new environment.
//!
//! The record may come from somebody else. So where its actions are run and what of this machine they get
//! is given by flags, or was recorded by this user's hosts, or the user consents to it (`--trust-record`).
//! Nothing is done with the result: the recorded run may have pushed it already.

use std::fmt::Write as _;
use std::path::Path;

use super::single::{SingleRun, help, read_variables, run_of};
use crate::cli::exit::ExitCode;
use crate::cli::output::{self, Failure};
use mswea_secrecy as secrecy;
use mswea_session::has_made;
use mswea_sweagent::{
    AskedByRecord, GivenTree, SweAgentProblem, SweCommand, asked_by_record, check_tree, expand,
    read_command_line, recorded, replay_folder,
};
use mswea_text::harmless;

/// How many characters of a value a message shows.
const SHOWN: usize = 100;
/// What a replay leaves out of a recorded configuration.
const LEFT_OUT: [&str; 3] = [
    "actions.open_pr",
    "actions.apply_patch_locally",
    "env.post_startup_commands",
];

/// Replays the trajectory that these flags name.
pub(super) fn run(words: &[String]) -> Result<ExitCode, Failure> {
    read_variables(words)?;
    let variable = |name: &str| secrecy::var(name);
    let request = read_command_line(SweCommand::RunReplay, &spelled_out(words), &variable)?;
    if request.help {
        return help("run-replay", SweCommand::RunReplay);
    }
    let Some(path) = request.tree.given("traj_path").and_then(GivenTree::text) else {
        let problem = SweAgentProblem::new("no trajectory was given");
        return Err(problem.hint("write `--traj_path=FILE`").into());
    };
    let path = expand(path, &variable)?;
    let updates = request.tree.given("update_config").map(GivenTree::items);
    let updates = updates
        .unwrap_or_default()
        .iter()
        .filter_map(GivenTree::text);
    let updates: Vec<String> = updates.map(str::to_owned).collect();
    let run = recorded(Path::new(&path), &updates)?;
    let mut tree = run.tree;
    // A given deployment replaces the recorded one.
    if let Some(deployment) = request.tree.given("deployment") {
        tree.remove(&["env", "deployment"]);
        tree.merge(deployment.clone().below(&["env", "deployment"]));
    }
    for key in ["output_dir", "env_var_path"] {
        tree.remove(&[key]);
    }
    let trusts = request.tree.given("trust_record");
    if trusts.is_none_or(|it| it.value() != true) && !is_own(Path::new(&path)) {
        check_authority(&path, asked_by_record(&tree, &run.at))?;
    }
    let asks = |key: &&&str| {
        let given = tree.given(key).map(GivenTree::value);
        given.is_some_and(|it| it != false && it != serde_json::json!([]))
    };
    let left_out: Vec<&str> = LEFT_OUT.iter().filter(asks).copied().collect();
    if !left_out.is_empty() {
        output::note(&format!("a replay leaves out `{}`", left_out.join("`, `")));
    }
    for key in ["actions", "env.post_startup_commands"] {
        tree.remove(&key.split('.').collect::<Vec<_>>());
    }
    if let Some(output) = request.tree.given("output_dir") {
        tree.merge(output.clone().below(&["output_dir"]));
    }
    check_tree(SweCommand::Run, &tree)?;
    let stem = Path::new(&path)
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy();
    let folder = |_: &str| replay_folder(&stem, &variable);
    let by = || "--traj_path".to_owned();
    let single = SingleRun {
        tree: &tree,
        folder: &folder,
        over: vec![
            ("model.model_name".to_owned(), "replay/".into(), by()),
            (
                "plugins.replay.config.replies".to_owned(),
                run.replies,
                by(),
            ),
            ("model.model_kwargs".to_owned(), serde_json::json!({}), by()),
            ("agent.cost_limit".to_owned(), 0.0.into(), by()),
        ],
        has_person: false,
    };
    single.make()
}

/// The words with `--trust-record`, the flag of `resume`, in SWE-agent's format.
fn spelled_out(words: &[String]) -> Vec<String> {
    let mut words = words.iter().peekable();
    let mut spelled = Vec::new();
    while let Some(word) = words.next() {
        let has_value = words.peek().is_some_and(|next| !next.starts_with("--"));
        spelled.push(match word.as_str() {
            "--trust-record" | "--trust_record" if !has_value => "--trust_record=true".to_owned(),
            _ => word.replacen("--trust-record", "--trust_record", 1),
        });
    }
    spelled
}

/// Whether a host of this user has written this trajectory, beside the files of its run.
fn is_own(path: &Path) -> bool {
    let run = run_of(&path.with_extension("traj.json"));
    let bytes = mswea_files::read(path, mswea_files::RECORDS).ok();
    run.zip(bytes)
        .is_some_and(|(run, bytes)| has_made(&run, &bytes))
}

/// Refuses a record that asks for what only the user may decide.
fn check_authority(path: &str, asked: Vec<AskedByRecord>) -> Result<(), Failure> {
    let is_left_out = |key: &str| LEFT_OUT.contains(&key);
    if asked.iter().all(|it| is_left_out(&it.key)) {
        return Ok(());
    }
    let mut text = format!(
        "mswea-host has not recorded `{}` on this machine for this user, and it sets what only you should set:",
        harmless(path)
    );
    for AskedByRecord { key, value } in asked {
        let shown = harmless(&value.to_string()).to_string();
        let shown = match shown.char_indices().nth(SHOWN) {
            Some((at, _)) => format!("{}...", &shown[..at]),
            None => shown,
        };
        let _ = write!(text, "\n  {} = {shown}", harmless(&key));
        if is_left_out(&key) {
            text.push_str(" (a replay leaves it out)");
        }
    }
    text.push_str(
        "\nnothing was sent, run or changed; look at the record, and if you want it all, add `--trust-record`; or give the \
         place anew, as `--deployment.type=docker --deployment.image=IMAGE`, and whole sections (`agent`, `env`, \
         `problem_statement`) in a file with `--update_config`",
    );
    Err(Failure::usage(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_of_resume_is_spelled_out() {
        for (words, spelled) in [
            (&["--trust-record"][..], &["--trust_record=true"][..]),
            (
                &["--trust_record", "--traj_path", "a"],
                &["--trust_record=true", "--traj_path", "a"],
            ),
            (&["--trust-record=false"], &["--trust_record=false"]),
            (&["--trust-record", "false"], &["--trust_record", "false"]),
        ] {
            let words: Vec<String> = words.iter().map(|it| (*it).to_owned()).collect();
            assert_eq!(spelled_out(&words), spelled);
        }
    }
}
