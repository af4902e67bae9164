//! Problem statements and the names of repositories.

use std::path::Path;

use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use crate::challenge::{self, Challenge};
use crate::fault::{SweAgentError, SweAgentProblem};
use crate::flags::expand;
use crate::github::{self, IssueSource};
use crate::images::with_images;
use crate::places::unusable_id;
use crate::tree::GivenTree;

/// The largest file of a problem statement.
const LIMIT: u64 = 16 << 20;

/// The task of the agent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SweProblem {
    /// Its id, which is part of file names.
    pub id: String,
    /// The text.
    pub text: String,
    /// Further variables of templates.
    pub extra_fields: Map<String, Value>,
    /// The name of the repository; empty if there is none.
    pub repo: String,
    /// The URLs of images that are not in the text yet.
    pub images: Vec<String>,
    /// The challenge, if the problem is one.
    pub challenge: Option<Challenge>,
}

impl SweProblem {
    /// Fetches the images, and appends them to the text. `said` gets the reasons why others are
    /// missing.
    pub async fn take_images(
        &mut self,
        variable: &(dyn Fn(&str) -> Option<String> + Sync),
        said: &(dyn Fn(&str) + Sync),
    ) {
        let urls = std::mem::take(&mut self.images);
        self.text = with_images(&self.text, &urls, variable, said).await;
    }
}

/// Reads the problem statement of `run`.
///
/// # Errors
/// [`SweAgentError`] if there is none, if it is of another type, or if it can't be read.
pub async fn read_problem(
    tree: &GivenTree,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<SweProblem, SweAgentError> {
    let Some(given) = tree.given("problem_statement") else {
        let problem = SweAgentProblem::new("no problem statement was given");
        let hint = "write `--problem_statement.text=TEXT`, `--problem_statement.path=FILE` or \
                    `--problem_statement.github_url=URL`";
        return Err(problem.hint(hint).into());
    };
    let kinds = [
        ("text", "text"),
        ("path", "text_file"),
        ("github_url", "github"),
    ];
    let kind = given.given("type").and_then(GivenTree::text);
    if kind == Some("empty") {
        let problem = SweAgentProblem::at(
            &given.at,
            "an `empty` problem statement gives the model nothing to do",
        );
        return Err(problem.hint("write `--problem_statement.text=TEXT`").into());
    }
    let named: Vec<&(&str, &str)> = kinds
        .iter()
        .filter(|(key, _)| given.given(key).is_some())
        .collect();
    let (key, of_key) = match named.as_slice() {
        [one] => **one,
        [] => {
            let problem = SweAgentProblem::at(&given.at, "the problem statement has no text");
            return Err(problem.hint("give `text`, `path` or `github_url`").into());
        }
        [one, two, ..] => {
            let message = format!("the problem statement has `{}` and `{}`", one.0, two.0);
            return Err(SweAgentProblem::at(&given.at, message)
                .hint("keep one of them")
                .into());
        }
    };
    let images = images(tree, given, key)?;
    // A statement with images is a text, and a challenge is a file.
    let of_challenge = key == "path" && kind == Some(challenge::TYPE);
    let kind = kind.map(|kind| match kind {
        "swe_bench_multimodal" => "text",
        _ if of_challenge => of_key,
        kind => kind,
    });
    if let Some(kind) = kind.filter(|kind| *kind != of_key) {
        let message =
            format!("a problem statement with `{key}` is of the type `{of_key}`, not `{kind}`");
        return Err(SweAgentProblem::at(&given.at, message)
            .hint("leave out `type`")
            .into());
    }
    let value = given
        .given(key)
        .and_then(GivenTree::text)
        .unwrap_or_default();
    let at = given.given(key).map_or(&given.at, |it| &it.at);
    let mut extra_fields = Map::new();
    let mut challenge = None;
    let (text, id) = match key {
        "text" => (value.to_owned(), short_hash(value)),
        "path" => {
            let path = expand(value, variable)?;
            if of_challenge || (kind.is_none() && Path::new(&path).ends_with(challenge::FILE)) {
                let read = challenge::read(Path::new(&path), at)?;
                (challenge, extra_fields) = (Some(read.challenge), read.fields);
                (read.text, read.id)
            } else {
                let text = mswea_files::read_text(Path::new(&path), LIMIT).map_err(|error| {
                    let message = format!("the problem statement `{path}` can't be read: {error}");
                    SweAgentProblem::at(at, message)
                })?;
                let id = short_hash(&text);
                (text, id)
            }
        }
        _ => {
            let issue = IssueSource::of_url(value).ok_or_else(|| {
                SweAgentProblem::at(at, format!("`{value}` is no address of an issue"))
                    .hint("write `https://github.com/OWNER/REPO/issues/NUMBER`")
            })?;
            let text = github::read_issue(&issue, variable)
                .await
                .map_err(|message| SweAgentProblem::at(at, message))?;
            (text, issue.id())
        }
    };
    if text.trim().is_empty() {
        return Err(SweAgentProblem::at(at, "the problem statement is empty").into());
    }
    let id = given
        .given("id")
        .and_then(GivenTree::text)
        .map_or(id, str::to_owned);
    if let Some(reason) = unusable_id(&id) {
        let at = given.given("id").map_or(&given.at, |it| &it.at);
        let message = format!("the id `{}` {reason}", id.escape_debug());
        let hint = "it is the name of a folder: set `problem_statement.id` to letters, digits, `_`, `-` and dots";
        return Err(SweAgentProblem::at(at, message).hint(hint).into());
    }
    let fields = given
        .given("extra_fields")
        .map(GivenTree::entries)
        .unwrap_or_default();
    for (name, value) in fields {
        let is_word = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
        let is_taken =
            ["repo", "problem_statement", "command_docs", "observation"].contains(&name.as_str());
        if !is_word || is_taken {
            let message = format!("`problem_statement.extra_fields` can't have the name `{name}`");
            let hint = "it becomes a variable of templates: use another word";
            return Err(SweAgentProblem::at(&value.at, message).hint(hint).into());
        }
        extra_fields.insert(name.clone(), value.value());
    }
    Ok(SweProblem {
        id,
        text,
        extra_fields,
        repo: match (named_repo(tree), &challenge) {
            (name, Some(challenge)) if name.is_empty() => challenge.folder_name(),
            (name, _) => name,
        },
        images,
        challenge,
    })
}

/// The URLs of the statement's images; none if images are switched off.
fn images(tree: &GivenTree, given: &GivenTree, key: &str) -> Result<Vec<String>, SweAgentProblem> {
    let Some(images) = given.given("issue_images") else {
        return Ok(Vec::new());
    };
    if key != "text" {
        let message = format!("a problem statement with `{key}` has no `issue_images`");
        let problem = SweAgentProblem::at(&images.at, message);
        return Err(problem.hint("give its text as `problem_statement.text`"));
    }
    let is_on = |key: &str| tree.given(key).is_some_and(|it| it.value() == true);
    if is_on("problem_statement.disable_image_processing")
        || is_on("agent.templates.disable_image_processing")
    {
        return Ok(Vec::new());
    }
    let urls = images.items().iter().map(|item| {
        item.text().map(str::to_owned).ok_or_else(|| {
            let problem = SweAgentProblem::at(&item.at, "an image is given by its address");
            problem.hint("write `https://...`, in quotes")
        })
    });
    urls.collect()
}

/// The name of the configured repository; empty if there is none.
fn named_repo(tree: &GivenTree) -> String {
    let keys = ["path", "github_url", "repo_name"];
    let named = keys.iter().find_map(|key| {
        let value = tree.given(&format!("env.repo.{key}"))?.text()?;
        repo_name(key, value).ok()
    });
    named.unwrap_or_default()
}

/// The name of a repository that is given by `path`, `github_url` or `repo_name`.
///
/// # Errors
/// [`SweAgentProblem`] if the value contains no name.
pub(crate) fn repo_name(key: &str, value: &str) -> Result<String, SweAgentProblem> {
    let name = match key {
        "path" => {
            let whole = std::fs::canonicalize(value).unwrap_or_else(|_| value.into());
            let name = whole.file_name().unwrap_or_default().to_string_lossy();
            name.replace(' ', "-").replace('\'', "")
        }
        "github_url" => {
            let end = value.find(['?', '#']).unwrap_or(value.len());
            let plain = value[..end].trim_end_matches('/');
            let plain = plain.strip_suffix(".git").unwrap_or(plain);
            let mut parts = plain.rsplit(['/', ':']);
            match (parts.next(), parts.next()) {
                (Some(repo), Some(owner)) if !repo.is_empty() && !owner.is_empty() => {
                    format!("{owner}__{repo}")
                }
                _ => String::new(),
            }
        }
        _ => value.trim_matches('/').to_owned(),
    };
    match name.is_empty() || name == ".." || (key != "repo_name" && name.contains('/')) {
        false => Ok(name),
        true => Err(SweAgentProblem::new(format!(
            "`env.repo.{key}` = `{value}` names no repository"
        ))
        .hint("give a folder, `OWNER/REPO` or a URL")),
    }
}

/// The first six hexadecimal digits of the SHA-256 digest.
pub fn short_hash(text: &str) -> String {
    mswea_text::hex(&Sha256::digest(text.as_bytes())[..3])
}
