//! `sweagent run-batch`: many problems, as a batch of this host with SWE-agent's additional files.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::attempts::{AttemptsCourse, AttemptsPlan, completed};
use super::many_files::{SweBatchFiles, status_there};
use super::single::{StagedCopy, help, local_repo, read_variables, staged_copy, without_secrets};
use crate::cli::args::{RunArgs, SelectArgs, WorkArgs};
use crate::cli::batch::{BatchPlan, BatchSources, batch_failure, split_rows, work_on};
use crate::cli::exit::ExitCode;
use crate::cli::output::{self, Failure};
use mswea_batch::{
    BatchError, BatchFolder, BatchInstance, FolderState, InstanceCourse, Picked, Redo, Selection,
    TaskCompletion, image_name,
};
use mswea_config::Sources;
use mswea_core::Stop;
use mswea_secrecy as secrecy;
use mswea_sweagent::{
    GivenAt, GivenTree, InstanceSource, SweBatchSettings, SweCommand, SweFiles, SweInstance,
    SweProblem, SweRequest, TranslationInput, expand, instances_of, read_command_line, read_items,
    read_problem, standard_folder, translate, with_located_bundles,
};

/// The folder with the files of challenges, below that of the batch.
const CHALLENGES: &str = ".challenges";

/// An instance that can be selected by its id.
struct ListedInstance(SweInstance);

impl Picked for ListedInstance {
    fn id(&self) -> &str {
        &self.0.id
    }
}

/// Runs the agent on the problems of a file.
pub(super) fn run(words: &[String]) -> Result<ExitCode, Failure> {
    read_variables(words)?;
    let variable = |name: &str| secrecy::var(name);
    let request = read_command_line(SweCommand::RunBatch, words, &variable)?;
    if request.help {
        return help("run-batch", SweCommand::RunBatch);
    }
    for warning in &request.warnings {
        output::warning(warning);
    }
    let shown = without_secrets(&request.tree);
    if request.print_config {
        return output::json(&shown);
    }
    let settings = SweBatchSettings::of(&request.tree, &variable)?;
    for warning in &settings.warnings {
        output::warning(warning);
    }
    let mut chosen = chosen(&settings)?;
    let folder = folder(&request, &settings)?;
    let mut skipped = Vec::new();
    if !settings.redo {
        let state = FolderState::read(&folder).unwrap_or_default();
        let ours: HashSet<&str> = state.instances.iter().map(|it| it.id.as_str()).collect();
        chosen.retain(|instance| {
            let is_ours = ours.contains(instance.id.as_str());
            let status = (!is_ours).then(|| status_there(&folder, &instance.id));
            let status = status.flatten();
            let is_left = status.is_none();
            skipped.extend(status.map(|status| (instance.id.clone(), status)));
            is_left
        });
    }
    if !skipped.is_empty() {
        output::note(&format!(
            "skipped, because `{}` has trajectories of SWE-agent of them: {} instance{}",
            folder.display(),
            skipped.len(),
            if skipped.len() == 1 { "" } else { "s" }
        ));
    }
    let mut made = MadeInstances::default();
    if chosen.is_empty() {
        if !skipped.is_empty() {
            SweBatchFiles::new(folder, shown, made.configs, skipped).write_skipped()?;
        }
        return Ok(ExitCode::Submitted);
    }
    for (place, instance) in chosen.iter().enumerate() {
        made.add(&request.tree, instance, &folder, place)?;
    }
    for warning in &made.warnings {
        output::warning(warning);
    }
    let course: Option<Arc<dyn InstanceCourse>> = match made.plans.is_empty() {
        true => None,
        false => Some(Arc::new(AttemptsCourse(made.plans))),
    };
    let completion: Option<Arc<dyn TaskCompletion>> = match made.images.is_empty() {
        true => None,
        false => Some(Arc::new(ImagesOfTasks(made.images))),
    };
    let files = SweBatchFiles::new(folder.clone(), shown, made.configs, skipped);
    work_on(BatchPlan {
        dir: &folder,
        opened: made.opened,
        instances: Some(made.instances),
        select: &SelectArgs::default(),
        redo: Redo {
            existing: settings.redo,
            // SWE-agent has no trajectory of these instances, and runs them again.
            not_begun: true,
            ids: files.unended(),
            ..Redo::default()
        },
        // SWE-agent continues with any config.
        config_changed: true,
        work: &WorkArgs {
            workers: settings.workers,
            instance_timeout: 0,
            retries: 0,
            retry_wait: 0,
            max_failures: u32::from(settings.raises),
            total_cost_limit: settings.total_cost,
            total_call_limit: 0,
            pulls: 4,
            min_memory: 256,
            min_disk: 100,
        },
        run: &RunArgs::default(),
        sources: BatchSources::Own(made.sources),
        swebench: false,
        files: Some(&files),
        course,
        completion,
    })
}

/// The instances that the settings select.
fn chosen(settings: &SweBatchSettings) -> Result<Vec<SweInstance>, Failure> {
    // SWE-agent's flags have other names.
    let renamed = |error: BatchError, names: &[(&str, &str)]| {
        let mut text = error.to_string();
        for (ours, theirs) in names {
            text = text.replacen(ours, theirs, 1);
        }
        Failure::usage(text)
    };
    let mut deployment = settings.deployment.clone();
    let (items, expert) = match &settings.source {
        InstanceSource::File(path, expert) => (read_items(path)?, *expert),
        InstanceSource::SweBench {
            subset,
            split,
            path,
        } => {
            let mut items = split_items(path.as_deref().unwrap_or(subset), split)?;
            items.iter_mut().for_each(of_swe_bench);
            deployment = Some(on_amd64(deployment));
            (items, false)
        }
        InstanceSource::HuggingFace { name, split } => (split_items(name, split)?, false),
    };
    let all = instances_of(items, expert, deployment.as_ref())?;
    let is_local = |it: &&SweInstance| {
        let kind = it.tree.given("env.repo.type");
        kind.and_then(GivenTree::text) == Some("local")
    };
    if !matches!(settings.source, InstanceSource::File(..))
        && let Some(one) = all.iter().find(is_local)
    {
        return Err(Failure::usage(format!(
            "the instance `{}` names a folder of this machine as its repository (`repo_name`), and a data set does not choose folders here: write the instances that you want into a file, and give it as `--instances.type=file --instances.path=FILE`",
            mswea_text::harmless(&one.id)
        )));
    }
    let selection = Selection {
        filter: settings.filter.clone(),
        slice: settings.slice.clone(),
        shuffle: settings.shuffle,
    };
    let names = [
        ("`--filter", "`--instances.filter"),
        ("`--slice", "`--instances.slice"),
    ];
    let listed = selection.of(all.into_iter().map(ListedInstance).collect());
    let listed = listed.map_err(|error| renamed(error, &names))?;
    Ok(listed.into_iter().map(|it| it.0).collect())
}

/// The rows of a data set, each with its number.
fn split_items(name: &str, split: &str) -> Result<Vec<GivenTree>, Failure> {
    let rows = split_rows(name, split)?.into_iter().enumerate();
    let items = rows.map(|(index, row)| {
        let at = GivenAt::File {
            path: format!("{name} ({split})"),
            line: index + 1,
            column: 1,
        };
        GivenTree::of_value(Value::Object(row), &at)
    });
    Ok(items.collect())
}

/// Adds the values that a row of SWE-bench does not contain.
fn of_swe_bench(item: &mut GivenTree) {
    let id = item.given("instance_id").and_then(GivenTree::text);
    let mut more = json!({"repo_name": "testbed"});
    if let Some(id) = id
        && item.given("image_name").is_none()
    {
        more["image_name"] = image_name(id).into();
    }
    // In the multimodal data sets, this is a text with JSON.
    let assets = item.given("image_assets").map(GivenTree::value);
    let assets = match assets {
        Some(Value::String(text)) => serde_json::from_str(&text).unwrap_or_default(),
        assets => assets.unwrap_or_default(),
    };
    if let Some(images) = assets["problem_statement"].as_array()
        && !images.is_empty()
    {
        more["extra_fields"] = json!({"issue_images": images});
    }
    let at = item.at.clone();
    item.merge(GivenTree::of_value(more, &at));
}

/// The deployment with the platform of SWE-bench's images.
fn on_amd64(deployment: Option<GivenTree>) -> GivenTree {
    let at = GivenAt::Flag("--instances.type=swe_bench".to_owned());
    let mut tree = GivenTree::empty(at.clone());
    let kind = deployment.as_ref().and_then(|it| it.given("type"));
    if kind.and_then(GivenTree::text).unwrap_or("docker") == "docker" {
        tree = GivenTree::of_value(json!({"platform": "linux/amd64"}), &at);
    }
    if let Some(deployment) = deployment {
        tree.merge(deployment);
    }
    tree
}

/// The folder of the batch.
fn folder(request: &SweRequest, settings: &SweBatchSettings) -> Result<PathBuf, Failure> {
    let variable = |name: &str| secrecy::var(name);
    let tree = &request.tree;
    let folder = match tree.given("output_dir").and_then(GivenTree::text) {
        Some("DEFAULT") | None => {
            let suffix = tree.given("suffix").and_then(GivenTree::text);
            let suffix = suffix.filter(|it| !it.is_empty());
            let suffix = suffix.map(|it| format!("__{it}")).unwrap_or_default();
            let first = request.configs.get(..1).unwrap_or_default();
            let name = settings.name() + &suffix;
            standard_folder(tree, first, &name, &variable)
        }
        Some(given) => expand(given, &variable)?.into(),
    };
    Ok(std::path::absolute(&folder).context("the current folder can't be found")?)
}

/// The image URLs of tasks, by instance id. They are fetched when their instance begins.
#[derive(Debug)]
struct ImagesOfTasks(HashMap<String, Vec<String>>);

impl TaskCompletion for ImagesOfTasks {
    fn task<'a>(
        &'a self,
        instance: &'a BatchInstance,
        stop: &'a Stop,
    ) -> Pin<Box<dyn Future<Output = String> + Send + 'a>> {
        let mut problem = SweProblem {
            id: instance.id.clone(),
            text: instance.task.clone(),
            images: self.0.get(&instance.id).cloned().unwrap_or_default(),
            ..SweProblem::default()
        };
        Box::pin(async move {
            completed(&mut problem, stop).await;
            problem.text
        })
    }
}

/// The batch's data about its instances.
#[derive(Default)]
struct MadeInstances {
    instances: Vec<BatchInstance>,
    sources: Vec<(String, Sources)>,
    /// The configuration of each instance, as it is written to its files.
    configs: HashMap<String, Value>,
    /// The plans of instances with several attempts.
    plans: HashMap<String, AttemptsPlan>,
    warnings: Vec<String>,
    /// The folder of the batch, once files of challenges are written into it. It stays locked until
    /// the batch ends.
    opened: Option<BatchFolder>,
    /// The image URLs of the tasks.
    images: HashMap<String, Vec<String>>,
    /// The local repositories that were checked, with their copies.
    repositories: HashMap<String, Option<StagedCopy>>,
}

impl MadeInstances {
    fn add(
        &mut self,
        tree: &GivenTree,
        instance: &SweInstance,
        folder: &Path,
        place: usize,
    ) -> Result<(), Failure> {
        let variable = |name: &str| secrecy::var(name);
        let id = &instance.id;
        let mut own = instance.tree.clone();
        if let Some(agent) = tree.given("agent") {
            own.merge(agent.clone().below(&["agent"]));
        }
        let own = with_located_bundles(&own, &variable);
        let mut problem = output::runtime()?.block_on(read_problem(&own, &variable))?;
        let files = SweFiles {
            run: folder.to_owned(),
            id: id.clone(),
        };
        let shown = without_secrets(&own);
        let mut own = own;
        let repo = own.given("env.repo.path").and_then(GivenTree::text);
        let mut is_staged = false;
        if let Some(repo) = repo
            .filter(|_| problem.challenge.is_none())
            .map(str::to_owned)
        {
            if !self.repositories.contains_key(&repo) {
                let copy = match local_repo(&own, &variable)? {
                    Some(path) => staged_copy(&path, &files)?,
                    None => None,
                };
                self.repositories.insert(repo.clone(), copy);
            }
            if let Some(Some(copy)) = self.repositories.get(&repo) {
                copy.put_into(&mut own);
                is_staged = true;
            }
        }
        if let Some(challenge) = &mut problem.challenge {
            // Not in the instance's folder, which is moved away when the instance is run again.
            challenge.place(&folder.join(CHALLENGES).join(id));
            if self.opened.is_none() {
                // The folder is now that of a batch, and no other process works in it.
                self.opened = Some(BatchFolder::open(folder).map_err(batch_failure)?);
            }
            challenge.stage()?;
        }
        let plan = AttemptsPlan::of(&own, &problem, place, shown.clone())?;
        let mut translated = match &plan {
            Some(plan) => plan.first(&files.folder())?,
            None => translate(TranslationInput {
                tree: &own,
                problem: &problem,
                folder: &files.folder().to_string_lossy(),
                place,
                variable: &variable,
            })?,
        };
        if let Some(plan) = plan {
            translated.warnings = plan.warnings(&files.folder())?;
            self.plans.insert(id.clone(), plan);
        }
        for (name, secret) in &translated.secrets {
            secrecy::supply(name, secret);
        }
        for warning in &translated.warnings {
            if !self.warnings.contains(warning) {
                self.warnings.push(warning.clone());
            }
        }
        let text = |key: &str| {
            let value = translated.value(key).and_then(Value::as_str);
            value.map(str::to_owned)
        };
        if !problem.images.is_empty() {
            self.images.insert(id.clone(), problem.images.clone());
        }
        self.instances.push(BatchInstance {
            id: id.clone(),
            task: problem.text.clone(),
            image: text("environment.image"),
            // A copy is another folder in each process.
            repo: text("workspace.repo").filter(|_| !is_staged),
            base_commit: text("workspace.base_commit"),
            startup: None,
        });
        let sources = Sources {
            translated: translated.settings,
            ..Sources::default()
        };
        self.sources.push((id.clone(), sources));
        self.configs.insert(id.clone(), shown);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_images_of_a_multimodal_row() {
        let assets = json!({"problem_statement": ["https://i/1"], "patch": ["https://i/2"]});
        for (assets, images) in [
            (json!(assets.to_string()), json!(["https://i/1"])),
            (assets, json!(["https://i/1"])),
            (json!("{}"), Value::Null),
            (Value::Null, Value::Null),
        ] {
            let row = json!({"instance_id": "a__b-1", "image_assets": assets});
            let at = GivenAt::Flag("--instances".to_owned());
            let mut item = GivenTree::of_value(row, &at);
            of_swe_bench(&mut item);
            assert_eq!(item.value()["extra_fields"]["issue_images"], images);
        }
    }
}
