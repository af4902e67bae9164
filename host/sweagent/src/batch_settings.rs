//! The settings of `run-batch` in addition to those of the agent: the instances, how many run at a
//! time, and the use of earlier results.

use std::path::{Path, PathBuf};

use crate::fault::{SweAgentError, SweAgentProblem};
use crate::flags::expand;
use crate::given_at::GivenAt;
use crate::keys::{SweCommand, check};
use crate::tree::GivenTree;

/// The most instances at a time.
const MOST_WORKERS: i64 = 1000;
/// All keys of sources of instances.
const KEYS: &[&str] = &["path", "subset", "split", "path_override", "dataset_name"];

/// The source of the instances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InstanceSource {
    /// A file; `true`: each has a whole `env` and `problem_statement`.
    File(PathBuf, bool),
    /// A part of SWE-bench.
    SweBench {
        /// The subset.
        subset: String,
        /// The split.
        split: String,
        /// Another data set, if it is given: a file, a folder or a name.
        path: Option<String>,
    },
    /// A data set of the Hub, whose rows have SWE-agent's own keys.
    HuggingFace {
        /// Its name.
        name: String,
        /// The split.
        split: String,
    },
}

/// The settings of a batch.
#[derive(Clone, Debug, PartialEq)]
pub struct SweBatchSettings {
    /// The source of the instances.
    pub source: InstanceSource,
    /// A regular expression for ids; empty: all.
    pub filter: String,
    /// A slice as Python's; empty: all.
    pub slice: String,
    /// Whether the order of the instances is shuffled.
    pub shuffle: bool,
    /// The deployment of all instances.
    pub deployment: Option<GivenTree>,
    /// How many run at a time.
    pub workers: u32,
    /// Whether instances that have ended are run again.
    pub redo: bool,
    /// Whether an error of an instance ends the batch.
    pub raises: bool,
    /// The dollars of all instances together; 0: no limit.
    pub total_cost: f64,
    /// Keys of files that have no effect.
    pub warnings: Vec<String>,
}

impl SweBatchSettings {
    /// Reads the settings of a configuration.
    ///
    /// # Errors
    /// [`SweAgentError`] with the values that are not supported.
    pub fn of(
        tree: &GivenTree,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, SweAgentError> {
        let text = |key: &str| tree.given(key).and_then(GivenTree::text);
        let is = |key: &str| tree.given(key).is_some_and(|it| it.value() == true);
        let mut warnings = Vec::new();
        let source = source(tree, variable, &mut warnings)?;
        if let Some(given) = tree.given("instances.evaluate")
            && given.value() == true
        {
            let problem = SweAgentProblem::at(
                &given.at,
                "`instances.evaluate` can't be done in this version",
            );
            let hint = "give `preds.json` to `sb-cli submit` when the batch has ended";
            return Err(problem.hint(hint).into());
        }
        let deployment = tree.given("instances.deployment");
        if let Some(given) = deployment {
            if matches!(source, InstanceSource::File(_, true)) {
                let message = "an `expert_file` has the deployment in each instance";
                let problem = SweAgentProblem::at(&given.at, message);
                let hint =
                    "leave out `instances.deployment`, and write `env.deployment` in the file";
                return Err(problem.hint(hint).into());
            }
            let problems = check(
                SweCommand::Run,
                &given.clone().below(&["env", "deployment"]),
            )
            .problems;
            if !problems.is_empty() {
                return Err(SweAgentError(problems));
            }
        }
        let workers = match tree.given("num_workers") {
            None => 1,
            Some(given) => {
                let number = given.value().as_i64();
                let number = number.filter(|it| (1..=MOST_WORKERS).contains(it));
                number
                    .and_then(|it| u32::try_from(it).ok())
                    .ok_or_else(|| {
                        let message = format!("`num_workers` can't be {}", given.value());
                        SweAgentProblem::at(&given.at, message)
                            .hint(format!("give a number from 1 to {MOST_WORKERS}"))
                    })?
            }
        };
        Ok(Self {
            source,
            filter: text("instances.filter").unwrap_or_default().to_owned(),
            slice: text("instances.slice").unwrap_or_default().to_owned(),
            shuffle: is("instances.shuffle"),
            deployment: deployment.cloned(),
            workers,
            redo: is("redo_existing"),
            raises: is("raise_exceptions"),
            total_cost: total_cost(tree),
            warnings,
        })
    }

    /// The name of the instances' source, for the output folder.
    pub fn name(&self) -> String {
        match &self.source {
            InstanceSource::File(path, _) => {
                let stem = Path::new(path).file_stem().unwrap_or_default();
                stem.to_string_lossy().into_owned()
            }
            InstanceSource::SweBench { subset, split, .. } => format!("swe_bench_{subset}_{split}"),
            InstanceSource::HuggingFace { name, split } => {
                let plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
                let name = name.replace(|c| !plain(c), "");
                format!("{name}_{split}")
            }
        }
    }
}

/// The limit of dollars for the whole batch; with several agents, the lowest of their limits.
fn total_cost(tree: &GivenTree) -> f64 {
    let limit = |of: &GivenTree, key: &str| of.given(key).and_then(|it| it.value().as_f64());
    let own = limit(tree, "agent.model.total_cost_limit");
    let agents = tree.given("agent.agent_configs");
    let agents = agents.map(GivenTree::items).unwrap_or_default().iter();
    let limits = agents.filter_map(|it| limit(it, "model.total_cost_limit"));
    let limits = own.into_iter().chain(limits).filter(|it| *it > 0.0);
    limits.min_by(f64::total_cmp).unwrap_or_default()
}

fn source(
    tree: &GivenTree,
    variable: &dyn Fn(&str) -> Option<String>,
    warnings: &mut Vec<String>,
) -> Result<InstanceSource, SweAgentError> {
    let Some(given) = tree.given("instances") else {
        let problem = SweAgentProblem::new("no instances were given");
        return Err(problem
            .hint("write `--instances.path=FILE`, or `--instances.type=swe_bench`")
            .into());
    };
    let text = |key: &str| given.given(key).and_then(GivenTree::text);
    let has = |keys: &[&str]| keys.iter().any(|key| given.given(key).is_some());
    let kind = text("type").unwrap_or(match () {
        () if has(&["dataset_name"]) => "huggingface",
        () if has(&["subset", "path_override"]) => "swe_bench",
        () => "file",
    });
    let problem = |message: String| SweAgentProblem::at(&given.at, message);
    let own: &[&str] = match kind {
        "file" | "expert_file" => &["path"],
        "swe_bench" => &["subset", "split", "path_override"],
        "huggingface" => &["dataset_name", "split"],
        "swesmith" => {
            let hint = "write the instances as an `expert_file`, and fetch the commit with `env.post_startup_commands`";
            let message = "instances of the type `swesmith` can't be used".to_owned();
            return Err(problem(message).hint(hint).into());
        }
        other => {
            let message = format!("there are no instances of the type `{other}`");
            let hint = "the types are `file`, `expert_file`, `swe_bench` and `huggingface`";
            return Err(problem(message).hint(hint).into());
        }
    };
    for key in KEYS.iter().filter(|key| !own.contains(*key)) {
        let Some(foreign) = given.given(key) else {
            continue;
        };
        let message = format!("instances of the type `{kind}` have no `{key}`");
        if matches!(foreign.at, GivenAt::File { .. }) {
            // The source of another type may have been given over that of the file.
            warnings.push(format!("{}: {message}: it has no effect", foreign.at));
            continue;
        }
        let hint = format!("they have `{}`", own.join("`, `"));
        return Err(SweAgentProblem::at(&foreign.at, message).hint(hint).into());
    }
    if kind == "swe_bench" {
        let path = text("path_override").map(|path| expand(path, variable));
        return Ok(InstanceSource::SweBench {
            subset: text("subset").unwrap_or("lite").to_owned(),
            split: text("split").unwrap_or("dev").to_owned(),
            path: path.transpose()?,
        });
    }
    if kind == "huggingface" {
        let Some(name) = text("dataset_name") else {
            let message = "instances of the type `huggingface` need a data set".to_owned();
            let hint = "write `--instances.dataset_name=OWNER/NAME`";
            return Err(problem(message).hint(hint).into());
        };
        return Ok(InstanceSource::HuggingFace {
            name: name.to_owned(),
            split: text("split").unwrap_or("dev").to_owned(),
        });
    }
    let Some(path) = text("path") else {
        let message = format!("instances of the type `{kind}` need a file");
        return Err(problem(message)
            .hint("write `--instances.path=FILE`")
            .into());
    };
    let path = PathBuf::from(expand(path, variable)?);
    Ok(InstanceSource::File(path, kind == "expert_file"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::read_command_line;
    use serde_json::json;

    fn read(words: &[&str]) -> Result<SweBatchSettings, String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let none = |_: &str| None;
        let read = read_command_line(SweCommand::RunBatch, &words, &none);
        let settings = read.and_then(|read| SweBatchSettings::of(&read.tree, &none));
        settings.map_err(|error| error.to_string())
    }

    #[test]
    fn settings() {
        let made = read(&[
            "--instances.path=a/b.jsonl",
            "--instances.shuffle=True",
            "--instances.slice=:3",
            "--instances.filter=a.*",
            "--instances.deployment.type=local",
            "--num_workers=3",
            "--redo_existing=true",
            "--progress_bar=False",
            "--random_delay_multiplier=0.5",
        ]);
        let made = made.unwrap();
        assert_eq!(made.source, InstanceSource::File("a/b.jsonl".into(), false));
        assert_eq!((made.name().as_str(), made.workers), ("b", 3));
        assert!(made.shuffle && made.redo && !made.raises);
        assert_eq!((made.filter.as_str(), made.slice.as_str()), ("a.*", ":3"));
        let agents = r#"--agent.agent_configs=[{"model": {"total_cost_limit": 5}}, {"model": {"total_cost_limit": 4}}, {}]"#;
        let made = read(&["--instances.path=b.jsonl", agents]).unwrap();
        assert_eq!(made.total_cost, 4.0);
        let made = read(&["--instances.type=swe_bench", "--instances.split=test"]).unwrap();
        assert_eq!(made.name(), "swe_bench_lite_test");
    }

    #[test]
    fn keys_of_another_source_in_a_file_have_no_effect() {
        let mut tree = crate::tree::read_yaml(
            "a.yaml",
            "instances: {type: swe_bench, subset: lite, split: dev}",
        )
        .unwrap();
        let given = json!({"instances": {"type": "file", "path": "b.jsonl"}});
        tree.merge(GivenTree::of_value(
            given,
            &GivenAt::Flag("--instances".to_owned()),
        ));
        let made = SweBatchSettings::of(&tree, &|_| None).unwrap();
        assert_eq!(made.source, InstanceSource::File("b.jsonl".into(), false));
        assert_eq!(made.warnings.len(), 2, "{:?}", made.warnings);
        assert!(
            made.warnings[0].contains("a.yaml:1:"),
            "{:?}",
            made.warnings
        );
        assert!(
            made.warnings[0].contains("`file` have no `subset`"),
            "{:?}",
            made.warnings
        );
    }

    #[test]
    fn what_can_not_be_done_is_named() {
        for (words, parts) in [
            (&[][..], &["no instances", "--instances.path"][..]),
            (&["--instances.type=file"], &["need a file"]),
            (
                &["--instances.type=fil", "--instances.path=a"],
                &["type `fil`"],
            ),
            (
                &["--instances.type=huggingface"],
                &["need a data set", "--instances.dataset_name=OWNER/NAME"],
            ),
            (&["--instances.type=swesmith"], &["swesmith"]),
            (
                &["--instances.path=a", "--instances.split=b"],
                &["no `split`"],
            ),
            (
                &["--instances.path=a", "--num_workers=0"],
                &["from 1 to 1000"],
            ),
            (
                &["--instances.type=swe_bench", "--instances.evaluate=true"],
                &["`instances.evaluate`", "sb-cli"],
            ),
            (
                &["--instances.path=a", "--instances.deployment.tipe=local"],
                &["did you mean `env.deployment.type`?"],
            ),
            (
                &[
                    "--instances.type=expert_file",
                    "--instances.path=a",
                    "--instances.deployment.type=local",
                ],
                &["in each instance"],
            ),
            (&["--instances.pat=a"], &["did you mean `instances.path`?"]),
        ] {
            let error = read(words).unwrap_err();
            for part in parts {
                assert!(error.contains(part), "{words:?}: {error}");
            }
        }
    }
}
