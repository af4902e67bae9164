//! The instances of `run-batch`: one configuration of `run` per instance.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use crate::fault::{SweAgentError, SweAgentProblem};
use crate::given_at::GivenAt;
use crate::keys::{SweCommand, check, shortened};
use crate::places::unusable_id;
use crate::tree::{GivenContent, GivenTree};

/// An instance of a batch.
#[derive(Clone, Debug, PartialEq)]
pub struct SweInstance {
    /// Its id.
    pub id: String,
    /// `env` and `problem_statement` of its run.
    pub tree: GivenTree,
}

/// Makes the instances of these items. `expert`: each has a complete `env` and `problem_statement`;
/// otherwise `deployment` is that of the batch, and gets the image of each instance.
///
/// # Errors
/// [`SweAgentError`] with all invalid instances.
pub fn instances_of(
    items: Vec<GivenTree>,
    expert: bool,
    deployment: Option<&GivenTree>,
) -> Result<Vec<SweInstance>, SweAgentError> {
    let mut instances = Vec::with_capacity(items.len());
    let mut problems = Vec::new();
    let mut ids = HashSet::new();
    for item in &items {
        let made = match expert {
            true => expert_instance(item),
            false => simple_instance(item, deployment),
        };
        match made {
            Ok(instance) if !ids.insert(instance.id.clone()) => {
                let message = format!("the id `{}` is there twice", instance.id);
                let hint = "each instance has a folder of this name: change one of them";
                problems.push(SweAgentProblem::at(&item.at, message).hint(hint));
            }
            Ok(instance) => instances.push(instance),
            Err(SweAgentError(more)) => problems.extend(more),
        }
    }
    match problems.is_empty() {
        true => Ok(instances),
        false => Err(SweAgentError(problems)),
    }
}

fn is_map(item: &GivenTree) -> Result<(), SweAgentProblem> {
    match item.content {
        GivenContent::Map(_) => Ok(()),
        _ => {
            let message = format!("an instance is a map, not `{}`", shortened(&item.value()));
            let hint =
                "write `{\"instance_id\": ..., \"problem_statement\": ..., \"image_name\": ...}`";
            Err(SweAgentProblem::at(&item.at, message).hint(hint))
        }
    }
}

/// Checks that an id can be the name of a folder.
fn check_id(id: &GivenTree) -> Result<String, SweAgentProblem> {
    let name = match (&id.content, id.text()) {
        (_, Some(text)) => text.to_owned(),
        (GivenContent::Leaf(Value::Number(number)), _) => number.to_string(),
        _ => {
            let message = format!("the id must be a text, not `{}`", shortened(&id.value()));
            return Err(SweAgentProblem::at(&id.at, message).hint("put it into quotes"));
        }
    };
    let reason = match (unusable_id(&name), name.as_str()) {
        (Some(reason), _) => reason,
        (None, "preds.json" | "batch.json" | "manifest.jsonl") => {
            "is the name of a file of the batch"
        }
        (None, it) if it.starts_with("run_batch") => "begins like the names of the batch's files",
        (None, _) => return Ok(name),
    };
    let message = format!(
        "the id `{}` {reason}",
        mswea_text::harmless(&name).escape_debug()
    );
    Err(SweAgentProblem::at(&id.at, message)
        .hint("it is the name of the instance's folder: use letters, digits, `_`, `-` and dots"))
}

fn simple_instance(
    item: &GivenTree,
    deployment: Option<&GivenTree>,
) -> Result<SweInstance, SweAgentError> {
    is_map(item)?;
    let Some(id) = item.given("instance_id").or_else(|| item.given("id")) else {
        let problem = SweAgentProblem::at(&item.at, "the instance has no `instance_id`");
        return Err(problem
            .hint("add `instance_id`, the name of its folder")
            .into());
    };
    let id = check_id(id)?;
    let text = |key: &str| match item.given(key) {
        None => Ok(None),
        Some(tree) => match tree.text() {
            Some(text) => Ok(Some(text)),
            None => {
                let value = shortened(&tree.value());
                let message =
                    format!("`{key}` of the instance `{id}` must be a text, not `{value}`");
                Err(SweAgentProblem::at(&tree.at, message).hint("put it into quotes"))
            }
        },
    };
    let statement = text("problem_statement")?.unwrap_or_default();
    if statement.trim().is_empty() {
        let message = format!("the instance `{id}` has no `problem_statement`");
        let hint = "add `problem_statement`, the text of what is to be done";
        return Err(SweAgentProblem::at(&item.at, message).hint(hint).into());
    }
    let mut problem = Map::new();
    problem.insert("type".to_owned(), "text".into());
    problem.insert("text".to_owned(), statement.into());
    problem.insert("id".to_owned(), id.as_str().into());
    match item.given("extra_fields") {
        None => {}
        Some(fields) if matches!(fields.content, GivenContent::Map(_)) => {
            let mut fields = fields.value();
            // The images are part of the statement.
            let images = fields
                .as_object_mut()
                .and_then(|it| it.remove("issue_images"));
            if let Some(images) = images {
                problem.insert("issue_images".to_owned(), images);
            }
            problem.insert("extra_fields".to_owned(), fields);
        }
        Some(other) => {
            let value = shortened(&other.value());
            let message =
                format!("`extra_fields` of the instance `{id}` must be a map, not `{value}`");
            let hint = "write `{\"name\": value}`; each name becomes a variable of templates";
            return Err(SweAgentProblem::at(&other.at, message).hint(hint).into());
        }
    }
    let at = &item.at;
    let mut tree = GivenTree::of_value(Value::Object(problem), at).below(&["problem_statement"]);
    if let Some(deployment) = deployment {
        tree.merge(deployment.clone().below(&["env", "deployment"]));
    }
    let image = text("image_name")?.filter(|image| !image.is_empty());
    image_of(&mut tree, &id, image, at)?;
    let commit = text("base_commit")?.unwrap_or("HEAD");
    if let Some(repo) = text("repo_name")?.filter(|repo| !repo.is_empty()) {
        let repo = match repo {
            url if is_github(url) => {
                json!({"type": "github", "github_url": url, "base_commit": commit})
            }
            path if path.contains('/') => {
                json!({"type": "local", "path": path, "base_commit": commit})
            }
            name => json!({"type": "preexisting", "repo_name": name, "base_commit": commit}),
        };
        tree.merge(GivenTree::of_value(repo, at).below(&["env", "repo"]));
    }
    Ok(SweInstance { id, tree })
}

/// Whether a repository is one of GitHub. A path of this machine may have its name, too.
fn is_github(url: &str) -> bool {
    let host = match url.split_once("://") {
        Some(("https" | "http" | "ssh" | "git", rest)) => rest,
        _ => url,
    };
    let host = host.split('/').next().unwrap_or_default();
    let host = host.rsplit('@').next().unwrap_or_default();
    matches!(
        host.split(':').next(),
        Some("github.com" | "www.github.com")
    )
}

/// Adds the image of the instance to the deployment, if deployments of this type have one.
fn image_of(
    tree: &mut GivenTree,
    id: &str,
    image: Option<&str>,
    at: &GivenAt,
) -> Result<(), SweAgentProblem> {
    let kind = tree.given("env.deployment.type").and_then(GivenTree::text);
    match (kind.unwrap_or("docker"), image) {
        ("local", Some(image)) => {
            let message = format!(
                "the instance `{id}` has the image `{image}`, and the deployment `local` has none"
            );
            return Err(SweAgentProblem::at(at, message)
                .hint("leave out `image_name`, or the flag `--instances.deployment.type=local`"));
        }
        ("docker", Some(image)) => {
            let value = GivenTree::of_value(json!({"type": "docker", "image": image}), at);
            tree.merge(value.below(&["env", "deployment"]));
        }
        ("docker", None) if tree.given("env.deployment.image").is_none() => {
            let message = format!("the instance `{id}` has no `image_name`");
            let hint = "add `image_name`; or run on this machine itself, with `--instances.deployment.type=local`";
            return Err(SweAgentProblem::at(at, message).hint(hint));
        }
        _ => {}
    }
    Ok(())
}

fn expert_instance(item: &GivenTree) -> Result<SweInstance, SweAgentError> {
    is_map(item)?;
    let mut tree = GivenTree::empty(item.at.clone());
    let mut problems = Vec::new();
    for (key, value) in item.entries() {
        match key.as_str() {
            "env" | "problem_statement" => tree.merge(value.clone().below(&[key])),
            other => {
                let message = format!("an instance of the type `expert_file` has no `{other}`");
                let problem = SweAgentProblem::at(&value.at, message);
                problems.push(problem.hint("it has `env` and `problem_statement`"));
            }
        }
    }
    problems.extend(check(SweCommand::Run, &tree).problems);
    let id = match tree.given("problem_statement.id") {
        Some(id) => check_id(id),
        None => Err(
            SweAgentProblem::at(&item.at, "the instance has no `problem_statement.id`")
                .hint("add it: the instance's folder has this name"),
        ),
    };
    match (id, problems.is_empty()) {
        (Ok(id), true) => Ok(SweInstance { id, tree }),
        (Ok(_), false) => Err(SweAgentError(problems)),
        (Err(problem), _) => {
            problems.push(problem);
            Err(SweAgentError(problems))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instance_items::items;

    fn read(name: &str, text: &str, deployment: Value) -> Result<Vec<Value>, String> {
        let at = GivenAt::Flag("--instances".to_owned());
        let deployment = GivenTree::of_value(deployment, &at);
        let found = items(name, text).and_then(|items| {
            let given = Some(&deployment).filter(|tree| !tree.is_null());
            instances_of(items, name.starts_with("expert"), given)
        });
        let found = found.map_err(|error| error.to_string())?;
        Ok(found.into_iter().map(|it| it.tree.value()).collect())
    }

    #[test]
    fn formats() {
        let local = json!({"type": "local"});
        let lines = "{\"instance_id\": \"a\", \"problem_statement\": \"x\"}\n\n{\"id\": \"b\", \"problem_statement\": \"y\", \"other\": 1}\n";
        let list = format!("[{}]", lines.trim().replace("\n\n", ",\n"));
        let yaml = "- instance_id: a\n  problem_statement: x\n- id: b\n  problem_statement: y\n";
        for (name, text) in [("i.jsonl", lines), ("i.json", &list), ("i.yaml", yaml)] {
            let found = read(name, text, local.clone()).unwrap();
            let ids: Vec<&Value> = found
                .iter()
                .map(|it| &it["problem_statement"]["id"])
                .collect();
            assert_eq!(ids, ["a", "b"], "{name}");
            assert_eq!(found[1]["problem_statement"]["text"], "y");
            assert_eq!(found[1]["env"], json!({"deployment": {"type": "local"}}));
        }
        let expert = "- env: {deployment: {type: local}, repo: {repo_name: r}}\n  problem_statement: {text: x, id: a}\n";
        let found = read("expert.yaml", expert, Value::Null).unwrap();
        assert_eq!(found[0]["env"]["repo"]["repo_name"], "r");
    }

    #[test]
    fn the_images_of_a_statement() {
        let line = json!({"id": "a", "problem_statement": "x",
            "extra_fields": {"issue_images": ["https://i/1"], "more": 1}});
        let found = read("i.jsonl", &line.to_string(), json!({"type": "local"})).unwrap();
        let problem = &found[0]["problem_statement"];
        assert_eq!(problem["issue_images"], json!(["https://i/1"]));
        assert_eq!(problem["extra_fields"], json!({"more": 1}));
    }

    #[test]
    fn repositories_and_images() {
        let of = |repo: &str| {
            let line = json!({"id": "a", "problem_statement": "x", "image_name": "i:1",
                "repo_name": repo, "base_commit": "abc"});
            read("i.jsonl", &line.to_string(), Value::Null)
                .unwrap()
                .remove(0)["env"]
                .clone()
        };
        for (repo, expected) in [
            (
                "testbed",
                json!({"type": "preexisting", "repo_name": "testbed", "base_commit": "abc"}),
            ),
            (
                "go-github",
                json!({"type": "preexisting", "repo_name": "go-github", "base_commit": "abc"}),
            ),
            (
                "./a/b",
                json!({"type": "local", "path": "./a/b", "base_commit": "abc"}),
            ),
            (
                "https://github.com/o/r",
                json!({"type": "github", "github_url": "https://github.com/o/r", "base_commit": "abc"}),
            ),
            (
                "https://www.github.com/o/r",
                json!({"type": "github", "github_url": "https://www.github.com/o/r", "base_commit": "abc"}),
            ),
            (
                "git@github.com:o/r",
                json!({"type": "github", "github_url": "git@github.com:o/r", "base_commit": "abc"}),
            ),
            (
                "file:///x/github.com/private",
                json!({"type": "local", "path": "file:///x/github.com/private", "base_commit": "abc"}),
            ),
            (
                "/x/github.com/private",
                json!({"type": "local", "path": "/x/github.com/private", "base_commit": "abc"}),
            ),
            ("", Value::Null),
        ] {
            let env = of(repo);
            assert_eq!(env["repo"], expected, "{repo}");
            assert_eq!(env["deployment"], json!({"type": "docker", "image": "i:1"}));
        }
    }

    #[test]
    fn wrong_instances() {
        let good = "{\"id\": \"a\", \"problem_statement\": \"x\"}\n";
        let local = json!({"type": "local"});
        for (name, text, parts) in [
            (
                "i.jsonl",
                format!("{good}{{\"id\": \n"),
                &["i.jsonl:2:", "no JSON", "each line is one"][..],
            ),
            (
                "i.jsonl",
                format!("{good}3\n"),
                &["i.jsonl:2:1: an instance is a map"],
            ),
            (
                "i.jsonl",
                format!("{good}\n{good}"),
                &["i.jsonl:3:1: the id `a` is there twice"],
            ),
            (
                "i.jsonl",
                "{\"problem_statement\": \"x\"}".to_owned(),
                &["no `instance_id`"],
            ),
            (
                "i.jsonl",
                "{\"id\": \"a\"}".to_owned(),
                &["`a` has no `problem_statement`"],
            ),
            (
                "i.jsonl",
                "{\"id\": \"../a\", \"problem_statement\": \"x\"}".to_owned(),
                &["slash"],
            ),
            (
                "i.json",
                "[\n{\"id\": \"a\", \"problem_statement\": \"x [\\\"{\"},\n\n  {\"id\": \"b\"}]"
                    .to_owned(),
                &["i.json:4:1: the instance `b` has no"],
            ),
            ("i.json", "{}".to_owned(), &["i.json:1:1", "holds a list"]),
            (
                "i.json",
                format!("{good}{good}"),
                &["i.json:2:", "named `*.jsonl`"],
            ),
            (
                "i.yaml",
                "- id: a\n  problem_statement: 3\n".to_owned(),
                &["i.yaml:2:22", "must be a text"],
            ),
            ("i.yaml", "a: b\n".to_owned(), &["holds a list"]),
            ("i.txt", String::new(), &["`*.jsonl`"]),
            (
                "i.yaml",
                "- {id: a, problem_statement: x, image_name: y}\n".to_owned(),
                &["i.yaml:1:3", "the deployment `local` has none"],
            ),
            (
                "i.yaml",
                "- {id: a, problem_statement: x, extra_fields: 1}\n".to_owned(),
                &["`extra_fields` of the instance `a` must be a map"],
            ),
            (
                "expert.yaml",
                "- env: {repoo: 1}\n  problem_statement: {text: x}\n  image: y\n".to_owned(),
                &[
                    "expert.yaml:1:16",
                    "`env.repoo`",
                    "no `image`",
                    "no `problem_statement.id`",
                ],
            ),
        ] {
            let error = read(name, &text, local.clone()).unwrap_err();
            for part in parts {
                assert!(error.contains(part), "{text}: {error}");
            }
        }
        let error = read("i.jsonl", good, Value::Null).unwrap_err();
        assert!(error.contains("has no `image_name`"), "{error}");
    }
}
