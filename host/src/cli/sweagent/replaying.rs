//! `sweagent run-replay`: runs the actions of a recorded run in a new environment.

use std::path::Path;

use super::single::{SingleRun, help, read_variables};
use crate::cli::exit::ExitCode;
use crate::cli::output::Failure;
use mswea_secrecy as secrecy;
use mswea_sweagent::{
    GivenTree, SweAgentProblem, SweCommand, check_tree, expand, read_command_line, recorded,
    replay_folder,
};

/// Replays the trajectory that these flags name.
pub(super) fn run(words: &[String]) -> Result<ExitCode, Failure> {
    read_variables(words)?;
    let variable = |name: &str| secrecy::var(name);
    let request = read_command_line(SweCommand::RunReplay, words, &variable)?;
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
    for key in ["env.deployment", "env.post_startup_commands", "output_dir"] {
        // A given deployment replaces the recorded one; the start-up commands are not run again.
        if key != "env.deployment" || request.tree.given("deployment").is_some() {
            tree.remove(&key.split('.').collect::<Vec<_>>());
        }
    }
    if let Some(deployment) = request.tree.given("deployment") {
        tree.merge(deployment.clone().below(&["env", "deployment"]));
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
