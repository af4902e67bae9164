//! `sweagent run`: one problem.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::attempts::{AttemptSeries, AttemptsPlan};
use super::pull_request::PlannedPullRequest;
use super::tidying::{write, write_json};
use super::words::{TheirWords, in_their_words};
use crate::cli::args::{DisplayArgs, RunArgs};
use crate::cli::exit::ExitCode;
use crate::cli::front;
use crate::cli::output::{self, Failure};
use crate::cli::person::Attendant;
use crate::cli::{configs, dotenv, run};
use mswea_config::{Layers, ProcessEnvironment, Sources};
use mswea_core::Front;
use mswea_executor::TempFolder;
use mswea_record::trajectory as run_trajectory;
use mswea_secrecy as secrecy;
use mswea_session::{self as session, Job};
use mswea_sweagent::{
    GivenAt, GivenTree, SweAgentProblem, SweCommand, SweFiles, TranslationInput, expand, keys,
    read_command_line, read_problem, standard_folder, trajectory, translate, with_located_bundles,
};

/// A run to be made.
pub(super) struct SingleRun<'a> {
    /// Its configuration.
    pub(super) tree: &'a GivenTree,
    /// Returns the folder of its files for a problem's id, if the configuration names none.
    pub(super) folder: &'a dyn Fn(&str) -> PathBuf,
    /// Settings of this host that replace translated ones.
    pub(super) over: Vec<(String, Value, String)>,
    /// Whether a user at the terminal can take part.
    pub(super) has_person: bool,
}

/// Runs the agent with these flags of SWE-agent.
pub(super) fn run(words: &[String]) -> Result<ExitCode, Failure> {
    read_variables(words)?;
    let variable = |name: &str| secrecy::var(name);
    let request = read_command_line(SweCommand::Run, words, &variable)?;
    if request.help {
        return help("run", SweCommand::Run);
    }
    for warning in &request.warnings {
        output::warning(warning);
    }
    let tree = &request.tree;
    if request.print_config {
        return output::json(&without_secrets(tree));
    }
    let folder = |id: &str| standard_folder(tree, &request.configs, id, &variable);
    let single = SingleRun {
        tree,
        folder: &folder,
        over: Vec::new(),
        has_person: false,
    };
    single.make()
}

impl SingleRun<'_> {
    /// Makes the run, and writes its files.
    pub(super) fn make(self) -> Result<ExitCode, Failure> {
        let variable = |name: &str| secrecy::var(name);
        let located = with_located_bundles(self.tree, &variable);
        let tree = &located;
        let shown = without_secrets(tree);
        let tokio = output::runtime()?;
        let mut problem = tokio.block_on(read_problem(tree, &variable))?;
        let (folder, is_chosen) = match tree.given("output_dir").and_then(GivenTree::text) {
            Some("DEFAULT") | None => ((self.folder)(&problem.id), false),
            Some(given) => (expand(given, &variable)?.into(), true),
        };
        let mut files = SweFiles {
            run: std::path::absolute(&folder).context("the current folder can't be found")?,
            id: problem.id.clone(),
        };
        if !is_chosen && works_on_this_machine(tree) {
            files.run = unused(files.run, &files.id);
        }
        let repo = match &mut problem.challenge {
            Some(challenge) => {
                challenge.place(&files.challenge());
                challenge.stage()?;
                None
            }
            None => local_repo(tree, &variable)?,
        };
        let staged = match &repo {
            Some(repo) => staged_copy(repo, &files)?,
            None => None,
        };
        let mut with_copy = located.clone();
        if let Some(copy) = &staged {
            copy.put_into(&mut with_copy);
        }
        let pull = PlannedPullRequest::of(tree, repo.as_deref())?;
        let after = AfterRun {
            repo: repo.filter(|_| applies_patch(tree)),
            pull,
        };
        let tree = &with_copy;
        let instance = files.folder();
        if let Some(plan) = AttemptsPlan::of(tree, &problem, 0, shown.clone())? {
            return self.attempts(&plan, &files, &shown, &after);
        }
        tokio.block_on(problem.take_images(&variable, &output::warning));
        let translated = translate(TranslationInput {
            tree,
            problem: &problem,
            folder: &instance.to_string_lossy(),
            place: 0,
            variable: &variable,
        })?;
        for (name, secret) in &translated.secrets {
            secrecy::supply(name, secret);
        }
        let output = files.named("traj.json").to_string_lossy().into_owned();
        let mut flags = self.over;
        let place = (
            "agent.output_path".to_owned(),
            output.into(),
            "--output_dir".to_owned(),
        );
        flags.push(place);
        let sources = Sources {
            translated: translated.settings,
            flags,
            ..Sources::default()
        };
        let usage = |error: mswea_config::ConfigError| Failure::usage(error.to_string());
        let layers = Layers::load(&sources, &ProcessEnvironment).map_err(usage)?;
        let config = configs::resolve(&layers)?;
        let work = Path::new(&config.environment.cwd);
        if work.starts_with(&instance) && config.workspace.repo.is_some() {
            refuse_earlier(&files, work)?;
        }
        if config.environment.environment_class == "local" {
            std::fs::create_dir_all(work)
                .with_context(|| format!("can't make the folder `{}`", work.display()))?;
        }
        write_json(&files.config(), &shown)?;
        let display = DisplayArgs::default();
        let front = TheirWords::over(front::make(&display));
        run::warn(&layers, display, &*front);
        for warning in &translated.warnings {
            output::warning(warning);
        }
        let args = RunArgs::default();
        let options = run::process_options(&args);
        let run_id = session::new_run_id();
        let job = options.job(&layers, Job::new(&problem.text, &config, &run_id));
        let person = match self.has_person {
            true => Attendant::of(&config, &*front, &args.person).map_err(Failure::usage)?,
            false => None,
        };
        let mut done = run::execute(&config, &layers, job, &options, &front, person)?;
        tell(&mut done, display);
        let error = done.error.as_deref().unwrap_or_default();
        // An error of a template begins with the template's key.
        let key = error
            .strip_prefix('`')
            .and_then(|rest| rest.split_once('`'));
        if let Some((key, _)) = key.filter(|(key, _)| key.starts_with("agent."))
            && let Some(origin) = layers.origin_of(key)
        {
            let key = in_their_words(&format!("`{key}`"));
            output::note(&format!("{key} was set by {origin}"));
        }
        if lacks_tools(error) {
            output::note(
                "a model without tools needs a parser that reads commands from texts: \
                 `--config default_backticks`, or `agent.tools.parse_function.type` = `thought_action` with a prompt \
                 that says so",
            );
        }
        let Some(journal) = &done.journal else {
            return Ok(done.code);
        };
        let name = tree
            .given("env.name")
            .and_then(GivenTree::text)
            .unwrap_or("main");
        let made = trajectory::trajectory(journal, &shown, name)
            .context("the trajectory can't be made")?;
        leave(&files, &made, &after)?;
        Ok(done.code)
    }

    /// Makes several attempts, and writes the files of the chosen one.
    fn attempts(
        &self,
        plan: &AttemptsPlan,
        files: &SweFiles,
        shown: &Value,
        after_run: &AfterRun,
    ) -> Result<ExitCode, Failure> {
        let folder = files.folder();
        let layers = Layers::load(
            &Sources {
                translated: plan.first(&folder)?.settings,
                ..Sources::default()
            },
            &ProcessEnvironment,
        );
        let layers = layers.map_err(|error| Failure::usage(error.to_string()))?;
        write_json(&files.config(), shown)?;
        let display = DisplayArgs::default();
        let front = TheirWords::over(front::make(&display));
        run::warn(&layers, display, &*front);
        for warning in plan.warnings(&folder)? {
            output::warning(&warning);
        }
        let args = RunArgs::default();
        let options = run::process_options(&args);
        let trajectory = files.named("traj");
        let before = std::fs::metadata(&trajectory).and_then(|it| it.modified());
        let of_attempts: Arc<dyn Front> = front.clone();
        let mut done = run::drive(&options, &front, None, async |runtime, stop, _| {
            let attempts = AttemptSeries {
                plan,
                problem: plan.problem.clone(),
                folder: folder.clone(),
                runtime: &runtime,
                front: of_attempts,
                stop,
                goes_on: false,
            };
            attempts.run().await
        })?;
        tell(&mut done, display);
        let after = std::fs::metadata(&trajectory).and_then(|it| it.modified());
        let (Ok(after), before) = (after, before.ok()) else {
            return Ok(done.code);
        };
        if Some(after) == before {
            // The file is from an earlier run.
            return Ok(done.code);
        }
        let made = trajectory::read(&trajectory)?;
        let info = &made["info"];
        if let Some(place) = info["best_attempt_idx"].as_u64() {
            let count = made["attempts"].as_array().map_or(0, Vec::len);
            let cost = info["model_stats"]["instance_cost"].as_f64();
            output::note(&format!(
                "attempt {place} counts, of {count}; all together cost ${:.4}",
                cost.unwrap_or_default()
            ));
        }
        leave(files, &made, after_run)?;
        Ok(done.code)
    }
}

/// Prints the failure in SWE-agent's words, and the paths of the files.
fn tell(done: &mut run::RunResult, display: DisplayArgs) {
    let told = done.error.take();
    done.error = told.as_deref().map(in_their_words);
    done.tell(display);
    done.error = told;
}

/// Whether a server has refused a request because its model has no tools.
fn lacks_tools(error: &str) -> bool {
    let error = error.to_lowercase();
    let is_of_tools = ["tool", "function call"]
        .iter()
        .any(|it| error.contains(it));
    is_of_tools
        && ["support", "--enable-auto-tool-choice"]
            .iter()
            .any(|it| error.contains(it))
}

/// Refuses a folder in which an earlier run has worked, before a file is written: the repository
/// could not be copied there, and the files of the failed run would replace those of the earlier
/// one.
fn refuse_earlier(files: &SweFiles, work: &Path) -> Result<(), Failure> {
    let is_used = std::fs::read_dir(work).is_ok_and(|mut entries| entries.next().is_some());
    if !is_used {
        return Ok(());
    }
    let problem =
        SweAgentProblem::new(format!("an earlier run has worked in `{}`", work.display()));
    let folder = files.folder();
    let remedy = match files.named("events.jsonl").exists() {
        true => format!(
            "`mswea-host resume {}` goes on with it; for a new run, move the folder `{}` away, or give another `--output_dir`",
            files.named("traj.json").display(),
            folder.display()
        ),
        false => format!(
            "remove the folder `{}`, or give another `--output_dir`",
            folder.display()
        ),
    };
    Err(problem.hint(&remedy).into())
}

/// Writes the trajectory, the prediction and the patch of an instance. Returns the patch.
pub(super) fn write_files<'m>(
    files: &SweFiles,
    made: &'m Value,
) -> Result<Option<&'m str>, Failure> {
    let patch = &made["info"]["submission"];
    let prediction = json!({
        "model_name_or_path": files.run_name(),
        "instance_id": files.id,
        "model_patch": patch,
    });
    write(&files.named("pred"), &prediction.to_string())?;
    if let Some(patch) = patch.as_str() {
        write(&files.named("patch"), patch)?;
    }
    // Written last, so that an instance with this file has all files.
    let text = serde_json::to_string_pretty(made).context("can't write JSON")?;
    if let Some(run) = run_of(&files.named("traj.json")) {
        session::note_made(&run, text.as_bytes());
    }
    write(&files.named("traj"), &text)?;
    Ok(patch.as_str())
}

/// The id of the run with this trajectory of our own format.
pub(super) fn run_of(trajectory: &Path) -> Option<String> {
    run_trajectory::owner(trajectory).ok()?.run_id
}

/// The use of a run's patch.
struct AfterRun {
    /// The local repository to which it is applied.
    repo: Option<String>,
    pull: Option<PlannedPullRequest>,
}

/// Writes the files of a run that has ended.
fn leave(files: &SweFiles, made: &Value, after: &AfterRun) -> Result<(), Failure> {
    let patch = write_files(files, made)?;
    output::note(&format!(
        "SWE-agent's trajectory: {}",
        files.named("traj").display()
    ));
    if let Some(pull) = &after.pull {
        pull.open(made, &files.named("patch"));
    }
    if patch.is_none() {
        return Ok(());
    }
    let file = files.named("patch");
    output::note(&format!("patch: {}", file.display()));
    if let Some(repo) = &after.repo
        && made["info"]["exit_status"] == "submitted"
    {
        match mswea_git::apply(Path::new(repo), &file) {
            Ok(()) => output::note(&format!("the patch is applied to `{repo}`")),
            Err(why) => {
                output::warning(&format!("the patch can't be applied to `{repo}`: {why}"));
            }
        }
    }
    Ok(())
}

fn applies_patch(tree: &GivenTree) -> bool {
    tree.given("actions.apply_patch_locally")
        .is_some_and(|it| it.value() == true)
}

/// Whether the commands run on this machine itself, in a copy of the repository beside the files of the run.
fn works_on_this_machine(tree: &GivenTree) -> bool {
    tree.given("env.deployment.type").and_then(GivenTree::text) == Some("local")
        && tree.given("env.repo.repo_name").is_none()
}

/// The folder of a run, or if a run has left a working copy there, the first of `FOLDER-2`, `FOLDER-3` and so on without one.
fn unused(folder: PathBuf, id: &str) -> PathBuf {
    let has_copy = |folder: &Path| {
        let entries = std::fs::read_dir(folder.join(id))
            .into_iter()
            .flatten()
            .flatten();
        entries
            .into_iter()
            .any(|entry| entry.path().join(".git").exists())
    };
    let numbered = |number: u32| {
        let mut name = folder.clone().into_os_string();
        name.push(format!("-{number}"));
        PathBuf::from(name)
    };
    match has_copy(&folder) {
        false => folder,
        true => (2..)
            .map(numbered)
            .find(|folder| !has_copy(folder))
            .unwrap_or(folder),
    }
}

/// A copy of a repository, which is removed when this is dropped.
pub(super) struct StagedCopy {
    path: PathBuf,
    _room: TempFolder,
}

impl StagedCopy {
    /// Makes the copy the repository of a configuration.
    pub(super) fn put_into(&self, tree: &mut GivenTree) {
        let at = GivenAt::Flag("--env.repo.path".to_owned());
        let path = self.path.to_string_lossy().into_owned();
        tree.merge(GivenTree::of_value(path.into(), &at).below(&["env", "repo", "path"]));
    }
}

/// A copy of the repository without the files of runs, if these are in it: else the agent would get them, and a copy on this
/// machine would go into itself.
pub(super) fn staged_copy(repo: &str, files: &SweFiles) -> Result<Option<StagedCopy>, Failure> {
    let Ok(from) = Path::new(repo).canonicalize() else {
        return Ok(None);
    };
    let is_there = files
        .run
        .ancestors()
        .find_map(|it| Some((it, it.canonicalize().ok()?)));
    let Some((there, real)) = is_there else {
        return Ok(None);
    };
    let output = real.join(files.run.strip_prefix(there).unwrap_or(Path::new("")));
    let Ok(inside) = output.strip_prefix(&from) else {
        return Ok(None);
    };
    let inside = match inside.as_os_str().is_empty() {
        true => Path::new(&files.id),
        false => inside,
    };
    let first = inside
        .components()
        .next()
        .map(|it| it.as_os_str().to_owned());
    let is_of_runs = |name: &std::ffi::OsStr| {
        first.as_deref() == Some(name)
            && (name == "trajectories" || inside.components().count() == 1)
    };
    let failed = |why: String| {
        Failure::from(SweAgentProblem::new(format!(
            "`{repo}` can't be copied: {why}"
        )))
    };
    let room = TempFolder::new(&session::new_run_id(), "repository")
        .map_err(|error| failed(error.to_string()))?;
    let copy = room
        .path()
        .join(from.file_name().unwrap_or("repository".as_ref()));
    let made = std::fs::create_dir(&copy).and_then(|()| {
        let entries = std::fs::read_dir(&from)?.collect::<std::io::Result<Vec<_>>>()?;
        let wanted = entries
            .iter()
            .filter(|entry| !is_of_runs(&entry.file_name()));
        let mut copying = std::process::Command::new("cp");
        copying
            .arg("-a")
            .arg("--")
            .args(wanted.map(std::fs::DirEntry::path))
            .arg(&copy);
        copying.output()
    });
    match made {
        Ok(done) if done.status.success() => {}
        Ok(done) => {
            return Err(failed(
                String::from_utf8_lossy(&done.stderr).trim().to_owned(),
            ));
        }
        Err(error) => return Err(failed(error.to_string())),
    }
    // A folder of tracked files can have the output in it.
    let _ = std::fs::remove_dir_all(copy.join(inside));
    Ok(Some(StagedCopy {
        path: copy,
        _room: room,
    }))
}

/// The folder of the local repository, which must be a work tree without changes of tracked files: the environment's
/// copy would not have them as commits.
pub(super) fn local_repo(
    tree: &GivenTree,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<String>, Failure> {
    let kind = tree.given("env.repo.type").and_then(GivenTree::text);
    // Without a challenge, the translation refuses a repository of this type.
    let given = tree.given("env.repo.path").filter(|_| kind != Some("ctf"));
    let Some(given) = given else {
        return Ok(None);
    };
    let path = expand(given.text().unwrap_or_default(), variable)?;
    let problem = |message: String| SweAgentProblem::at(&given.at, message);
    let changed = mswea_git::tracked_changes(Path::new(&path))
        .map_err(|why| problem(format!("`{path}` can't be used: {why}")))?;
    // As in SWE-agent, files that git does not track do not matter.
    if !changed.is_empty() {
        let names: Vec<&str> = changed.lines().take(5).collect();
        let problem = problem(format!(
            "the repository `{path}` has changes that are not committed (`{}`)",
            names.join("`, `")
        ));
        return Err(problem
            .hint("commit or stash them; the agent gets what is committed")
            .into());
    }
    Ok(Some(path))
}

/// Reads the file of variables: that of `--env_var_path`, else the keys in `.env` of the current
/// folder. That folder may come from somebody else, whose addresses and proxies would get the
/// user's key.
pub(super) fn read_variables(words: &[String]) -> Result<(), Failure> {
    let mut named = None;
    for (index, word) in words.iter().enumerate() {
        match word.strip_prefix("--env_var_path") {
            Some("") => named = words.get(index + 1).map(String::as_str),
            Some(rest) => named = rest.strip_prefix('='),
            None => {}
        }
    }
    match named {
        Some(path) => dotenv::read(Path::new(path)).map_err(|error| {
            Failure::usage(format!(
                "can't read the file of variables `{path}`: {error}"
            ))
        }),
        None => {
            let read = dotenv::read_secrets(Path::new(".env")).unwrap_or_default();
            if !read.taken.is_empty() {
                output::note(&format!(
                    "keys taken from `.env` in the current folder: `{}`",
                    read.taken.join("`, `")
                ));
            }
            if !read.left_out.is_empty() {
                output::warning(&format!(
                    "of `.env` in the current folder only keys and tokens are read, and not `{}`, because a \
                     stranger's file could have your key sent elsewhere: if it is yours, add `--env_var_path=.env`",
                    read.left_out.join("`, `")
                ));
            }
            Ok(())
        }
    }
}

/// The configuration without the secrets in it.
pub(super) fn without_secrets(tree: &GivenTree) -> Value {
    let value = tree.value();
    // Other secrets are in variables, in arguments of the model and of Docker, and in URLs.
    let mut clean = mswea_config::redacted(&value);
    redact_keys(&value, &mut clean);
    clean
}

/// Redacts all keys of models and tokens of deployments, including those of attempts and of their
/// judges. The names of variables that contain them are kept.
fn redact_keys(value: &Value, clean: &mut Value) {
    match (value, clean) {
        (Value::Object(map), Value::Object(clean)) => {
            for (name, value) in map {
                let Some(clean) = clean.get_mut(name) else {
                    continue;
                };
                if !["api_key", "auth_token"].contains(&name.as_str()) {
                    redact_keys(value, clean);
                    continue;
                }
                let is_named = value.as_str().is_some_and(|text| text.starts_with('$'));
                *clean = match is_named || value.is_null() {
                    true => value.clone(),
                    false => "REDACTED".into(),
                };
            }
        }
        (Value::Array(items), Value::Array(clean)) => {
            let items = items.iter().zip(clean);
            items.for_each(|(value, clean)| redact_keys(value, clean));
        }
        _ => {}
    }
}

/// Prints the keys of a command.
pub(super) fn help(name: &str, command: SweCommand) -> Result<ExitCode, Failure> {
    let mut text = format!(
        "mswea-host sweagent {name} --KEY=VALUE ... [--config FILE] [--no_config_file] [--print_config]\n\nThe keys:\n"
    );
    for (key, _) in keys(command) {
        text.push_str(&format!("  --{key}\n"));
    }
    output::text(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_is_in_the_files() {
        let given = json!({
            "agent": {
                "model": {
                    "name": "m", "api_key": "$KEY", "max_output_tokens": 5,
                    "completion_kwargs": {"extra_headers": {"X-A": "secret1"}, "api_key": "secret2"},
                    "fallbacks": [{"model": "o", "api_key": "secret3"}],
                },
                "tools": {"env_variables": {"GITHUB_TOKEN": "secret4", "PAGER": "cat"}},
            },
            "env": {
                "deployment": {"auth_token": "secret5", "host": "h"},
                "repo": {"github_url": "https://u:secret6@h/o/r"},
            },
            "instances": {"deployment": {"auth_token": "secret7"}},
            "deployment": {"auth_token": "secret8"},
        });
        let at = GivenAt::Flag("x".to_owned());
        let shown = without_secrets(&GivenTree::of_value(given, &at));
        assert!(!shown.to_string().contains("secret"), "{shown:#}");
        assert_eq!(shown["agent"]["model"]["api_key"], "$KEY");
        assert_eq!(shown["agent"]["model"]["max_output_tokens"], 5);
        assert_eq!(shown["agent"]["tools"]["env_variables"]["PAGER"], "cat");
        assert_eq!(
            shown["env"]["deployment"],
            json!({"auth_token": "REDACTED", "host": "h"})
        );
    }
}
