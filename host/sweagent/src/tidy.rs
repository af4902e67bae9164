//! SWE-agent's small commands on its files. None needs a model.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::fault::SweAgentProblem;
use crate::trajectory;

/// All files below a folder with this suffix, sorted.
///
/// # Errors
/// [`SweAgentProblem`] if the folder can't be read.
pub fn files_below(folder: &Path, suffix: &str) -> Result<Vec<PathBuf>, SweAgentProblem> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        let unreadable = |error| {
            SweAgentProblem::new(format!(
                "can't read the folder `{}`: {error}",
                folder.display()
            ))
        };
        for entry in std::fs::read_dir(&folder).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let (path, kind) = (entry.path(), entry.file_type().map_err(unreadable)?);
            if kind.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|it| it == suffix) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// `merge-preds`: the predictions below these folders by instance, and notes for the user.
///
/// # Errors
/// [`SweAgentProblem`] if a file is not a prediction, or if an instance has two.
pub fn merge_predictions(
    folders: &[PathBuf],
) -> Result<(Map<String, Value>, Vec<String>), SweAgentProblem> {
    let mut merged = Map::new();
    let mut from: Map<String, Value> = Map::new();
    let mut notes = Vec::new();
    for folder in folders {
        for file in files_below(folder, "pred")? {
            let name = file.display().to_string();
            let mut prediction = trajectory::read(&file)?;
            let Some(id) = prediction["instance_id"].as_str().map(str::to_owned) else {
                return Err(
                    SweAgentProblem::new(format!("`{name}` has no `instance_id`"))
                        .hint("remove the file, or write it again with `extract-pred`"),
                );
            };
            match prediction.get("model_patch") {
                None => {
                    notes.push(format!("`{name}` has no `model_patch`, so it is left out"));
                    continue;
                }
                Some(Value::String(_)) => {}
                Some(Value::Null) => prediction["model_patch"] = "".into(),
                Some(other) => prediction["model_patch"] = other.to_string().into(),
            }
            if let Some(first) = from.get(&id) {
                return Err(SweAgentProblem::new(format!(
                    "the instance `{id}` has two predictions: `{}` and `{name}`",
                    first.as_str().unwrap_or_default()
                ))
                .hint("remove one of them"));
            }
            from.insert(id.clone(), name.into());
            merged.insert(id, prediction);
        }
    }
    Ok((merged, notes))
}

/// `extract-pred`: the prediction of a trajectory, and the file for it.
///
/// # Errors
/// [`SweAgentProblem`] if the file is not a trajectory.
pub fn extract_prediction(path: &Path) -> Result<(PathBuf, Value), SweAgentProblem> {
    let read = trajectory::read(path)?;
    let Some(patch) = read["info"].get("submission") else {
        return Err(
            SweAgentProblem::new(format!("`{}` has no `info.submission`", path.display()))
                .hint("the run has not ended: run it again"),
        );
    };
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let above = |steps: usize| {
        let folder = whole.ancestors().nth(steps).and_then(Path::file_name);
        folder.unwrap_or_default().to_string_lossy().into_owned()
    };
    let prediction = json!({
        "model_name_or_path": above(2),
        "model_patch": patch,
        "instance_id": above(1),
    });
    Ok((path.with_extension("pred"), prediction))
}

/// The result of `quick-stats`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QuickStats {
    /// The exit statuses, the most frequent first.
    pub statuses: Vec<CountedStatus>,
    /// The queries of the runs on average.
    pub average_calls: Option<f64>,
    /// Files that could not be read.
    pub notes: Vec<String>,
}

/// An exit status in statistics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountedStatus {
    /// The status.
    pub name: String,
    /// The number of trajectories with it.
    pub count: usize,
    /// Their folders, of which several may have the same one.
    pub places: Vec<String>,
}

/// `quick-stats`: the exit statuses of the trajectories below a folder.
///
/// # Errors
/// [`SweAgentProblem`] if the folder can't be read.
pub fn quick_stats(folder: &Path) -> Result<QuickStats, SweAgentProblem> {
    let mut stats = QuickStats::default();
    let mut counted: Vec<(String, usize, BTreeSet<String>)> = Vec::new();
    let mut calls = Vec::new();
    for file in files_below(folder, "traj")? {
        let read = match trajectory::read(&file) {
            Ok(read) => read,
            Err(problem) => {
                stats.notes.push(problem.to_string());
                continue;
            }
        };
        calls.extend(read["info"]["model_stats"]["api_calls"].as_f64());
        if let Some(status) = read["info"].get("exit_status") {
            let status = status.as_str().unwrap_or("None").to_owned();
            let place = file.parent().unwrap_or(Path::new("")).display().to_string();
            match counted.iter_mut().find(|(name, _, _)| *name == status) {
                Some((_, count, places)) => {
                    *count += 1;
                    places.insert(place);
                }
                None => counted.push((status, 1, BTreeSet::from([place]))),
            }
        }
    }
    counted.sort_by_key(|(_, count, _)| std::cmp::Reverse(*count));
    stats.statuses = counted
        .into_iter()
        .map(|(name, count, places)| CountedStatus {
            name,
            count,
            places: places.into_iter().collect(),
        })
        .collect();
    let count = calls.len();
    stats.average_calls = (count > 0).then(|| calls.iter().sum::<f64>() / count as f64);
    Ok(stats)
}

/// `remove-unfinished`: the folders below `base` whose only trajectory has no submission, or is not
/// a JSON object, and notes for the user. A folder is kept if its trajectory can't be read at all
/// (not a file, no permission), because it may have a submission.
///
/// # Errors
/// [`SweAgentProblem`] if the folder can't be read.
pub fn unfinished(base: &Path) -> Result<(Vec<PathBuf>, Vec<String>), SweAgentProblem> {
    let unreadable = |error| {
        SweAgentProblem::new(format!(
            "can't read the folder `{}`: {error}",
            base.display()
        ))
    };
    let (mut found, mut notes) = (Vec::new(), Vec::new());
    for entry in std::fs::read_dir(base).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let path = entry.path();
        let is_instance = entry.file_name().to_string_lossy().contains("__");
        if !is_instance || !entry.file_type().map_err(unreadable)?.is_dir() {
            continue;
        }
        let inside = std::fs::read_dir(&path).map_err(unreadable)?.flatten();
        let trajectories: Vec<PathBuf> = inside
            .map(|entry| entry.path())
            .filter(|file| file.extension().is_some_and(|it| it == "traj"))
            .collect();
        if let [one] = trajectories.as_slice() {
            if let Err(problem) = trajectory::text(one) {
                notes.push(format!("{problem}; its folder stays"));
                continue;
            }
            let submission = trajectory::read(one).map(|read| read["info"]["submission"].clone());
            if submission.is_ok_and(|it| !it.is_null()) {
                continue;
            }
            found.push(path);
        }
    }
    found.sort();
    Ok((found, notes))
}

/// `traj-to-demo`: makes a demonstration from the replies of a trajectory; returns also its path
/// below `folder`.
///
/// # Errors
/// [`SweAgentProblem`] if the file is not a trajectory.
pub fn demonstration(
    path: &Path,
    folder: &Path,
    suffix: &str,
    with_user: bool,
) -> Result<(PathBuf, Value), SweAgentProblem> {
    const KEPT: &[&str] = &[
        "content",
        "role",
        "tool_calls",
        "agent",
        "message_type",
        "tool_call_ids",
    ];
    let read = trajectory::read(path)?;
    let Some(history) = read["history"].as_array() else {
        return Err(SweAgentProblem::new(format!(
            "`{}` has no `history`",
            path.display()
        )));
    };
    let is_wanted = |item: &&Value| {
        let role = item["role"].as_str().unwrap_or_default();
        let agent = item["agent"].as_str().unwrap_or("main");
        let wanted = role == "assistant" || with_user && ["user", "tool"].contains(&role);
        wanted && ["main", "primary"].contains(&agent) && item["is_demo"] != true
    };
    let items = history.iter().filter(is_wanted).map(|item| {
        let entries = item.as_object().into_iter().flatten();
        let kept = entries.filter(|(key, _)| KEPT.contains(&key.as_str()));
        Value::Object(
            kept.map(|(key, value)| (key.clone(), value.clone()))
                .collect(),
        )
    });
    let config = match &read["replay_config"] {
        Value::String(text) => mswea_text::read_json(text.as_bytes()).unwrap_or(Value::Null),
        other => other.clone(),
    };
    let demo = json!({"history": items.collect::<Vec<_>>(), "replay_config": config});
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let parent = whole.parent().and_then(Path::file_name).unwrap_or_default();
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let file = folder
        .join(format!("{}{suffix}", parent.to_string_lossy()))
        .join(format!("{stem}.demo.yaml"));
    Ok((file, demo))
}

/// The results of one evaluation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EvaluatedRun {
    /// The name of its folder.
    pub name: String,
    /// The evaluated instances.
    pub evaluated: BTreeSet<String>,
    /// The resolved instances.
    pub resolved: BTreeSet<String>,
}

/// Reads a file of results for `compare-runs`; a folder has `results.json`.
///
/// # Errors
/// [`SweAgentProblem`] if the file has no results.
pub fn evaluated(path: &Path) -> Result<EvaluatedRun, SweAgentProblem> {
    let file = match path.is_dir() {
        true => path.join("results.json"),
        false => path.to_owned(),
    };
    let read = trajectory::read(&file)?;
    let ids = |key: &str| -> Option<BTreeSet<String>> {
        let list = read.get(key)?.as_array()?;
        Some(
            list.iter()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect(),
        )
    };
    let lacks = |key: &str| {
        SweAgentProblem::new(format!("`{}` has no list `{key}`", file.display()))
            .hint("give the `results.json` of an evaluation")
    };
    Ok(EvaluatedRun {
        name: file
            .parent()
            .and_then(Path::file_name)
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned(),
        evaluated: ids("submitted_ids").ok_or_else(|| lacks("submitted_ids"))?,
        resolved: ids("resolved")
            .or_else(|| ids("resolved_ids"))
            .ok_or_else(|| lacks("resolved_ids"))?,
    })
}

/// `compare-runs`: the text about these evaluations.
pub fn comparison(runs: &[EvaluatedRun], show_same: bool) -> String {
    match runs {
        [] => String::new(),
        [one] => format!(
            "Total evaluated: {}\nTotal resolved: {}\n",
            one.evaluated.len(),
            one.resolved.len()
        ),
        [new, old] => pair(new, old, show_same),
        many => table(many),
    }
}

fn pair(new: &EvaluatedRun, old: &EvaluatedRun, show_same: bool) -> String {
    let mut text = format!(
        "Total evaluated: new {}, old {}\nTotal resolved: new {}, old {}\n",
        new.evaluated.len(),
        old.evaluated.len(),
        new.resolved.len(),
        old.resolved.len()
    );
    text.push_str("❓ not evaluated before · 😀 resolved only now · ✅ resolved in both · ❌ resolved only before · 👾 in neither\n");
    for id in &new.evaluated {
        let (now, before) = (new.resolved.contains(id), old.resolved.contains(id));
        let mark = match (old.evaluated.contains(id), now, before) {
            (false, true, _) => "😀❓",
            (false, false, _) => "👾❓",
            (true, true, false) => "😀",
            (true, false, true) => "❌",
            (true, true, true) if show_same => "✅",
            (true, false, false) if show_same => "👾",
            _ => continue,
        };
        text.push_str(&format!("{mark} {id}\n"));
    }
    text
}

fn table(runs: &[EvaluatedRun]) -> String {
    let ids = &runs[0].evaluated;
    let width = ids
        .iter()
        .map(|id| id.chars().count())
        .max()
        .unwrap_or(0)
        .max(13);
    let rate = |part: usize, whole: usize| match whole {
        0 => "-".to_owned(),
        whole => format!("{:.2}", part as f64 / whole as f64),
    };
    let mut text = format!("{:width$}", "ID");
    for index in 0..runs.len() {
        text.push_str(&format!("  {index:>4}"));
    }
    text.push_str("  Success rate\n");
    for id in ids {
        text.push_str(&format!("{id:width$}"));
        for run in runs {
            let mark = match (run.evaluated.contains(id), run.resolved.contains(id)) {
                (false, _) => "❓",
                (true, true) => "✅",
                (true, false) => "❌",
            };
            // The marks are two columns wide.
            text.push_str(&format!("    {mark}"));
        }
        let resolved = runs.iter().filter(|run| run.resolved.contains(id)).count();
        let evaluated = runs.iter().filter(|run| run.evaluated.contains(id)).count();
        text.push_str(&format!("  {}\n", rate(resolved, evaluated)));
    }
    let successes: Vec<usize> = runs
        .iter()
        .map(|run| ids.intersection(&run.resolved).count())
        .collect();
    let among: Vec<usize> = runs
        .iter()
        .map(|run| ids.intersection(&run.evaluated).count())
        .collect();
    text.push_str("\n#  Successes  Success rate  ID\n");
    for (index, run) in runs.iter().enumerate() {
        text.push_str(&format!(
            "{index:<2} {:>9}  {:>12}  {}\n",
            successes[index],
            rate(successes[index], among[index]),
            run.name
        ));
    }
    text
}

#[cfg(test)]
mod tests;
