//! Makes instances from the rows of a file: the usual fields, or templates, give the id, the task,
//! the image and the repository.

use std::collections::{BTreeSet, HashMap};

use mswea_core::Object;
use mswea_template::Templates;
use serde_json::Value;

use crate::error::BatchError;
use crate::manifest::{BatchInstance, check_id};
use crate::select::Picked;
use crate::swebench::image_name;

/// The fields for the id if no template is given; the first one that the row has is used.
const ID: &[&str] = &["instance_id", "id"];
/// The same for the task.
const TASK: &[&str] = &["problem_statement", "task"];
/// The same for the image; SWE-bench's data sets have no `image`.
const IMAGE: &[&str] = &["image_name", "docker_image", "image"];

/// Jinja templates with the fields of a row as variables; unset: the usual fields.
#[derive(Clone, Debug, Default)]
pub struct FieldTemplates {
    /// For the id.
    pub id: Option<String>,
    /// For the task.
    pub task: Option<String>,
    /// For the image; an empty result means no image.
    pub image: Option<String>,
    /// For the repository; unset: none.
    pub repo: Option<String>,
    /// For the commit; unset: none.
    pub base_commit: Option<String>,
    /// `run.env_startup_command`.
    pub startup: Option<String>,
    /// Whether a row without an image gets that of SWE-bench.
    pub swebench: bool,
    /// Whether the rows are of a data set and not of a file of the user's.
    pub foreign: bool,
    /// The columns of the data set. In a row without one of them, the template's variable is
    /// undefined.
    pub columns: BTreeSet<String>,
}

/// A row whose id is known.
#[derive(Clone, Debug)]
pub struct NamedRow {
    id: String,
    /// The row's number in the file, from 1.
    number: usize,
    fields: Object,
}

impl Picked for NamedRow {
    fn id(&self) -> &str {
        &self.id
    }
}

impl FieldTemplates {
    /// Gives the rows their ids.
    ///
    /// # Errors
    /// [`BatchError::Refused`] if a row has no id, an invalid id, or the id of another row.
    pub fn named(
        &self,
        rows: Vec<Object>,
        engine: &Templates,
    ) -> Result<Vec<NamedRow>, BatchError> {
        let mut seen = HashMap::new();
        let mut named = Vec::with_capacity(rows.len());
        for (index, fields) in rows.into_iter().enumerate() {
            let number = index + 1;
            let id = match &self.id {
                Some(template) => render("--id-template", template, &fields, number, engine)?,
                None => first(&fields, ID)
                    .ok_or_else(|| missing(number, "id", ID, "--id-template", &fields))?,
            };
            check_id(&id).map_err(|error| {
                BatchError::Refused(format!("row {number} of the instances: {error}"))
            })?;
            if let Some(other) = seen.insert(id.clone(), number) {
                return Err(BatchError::Refused(format!(
                    "rows {other} and {number} of the instances have the same id `{id}`: an id names one instance, because its result and its folder have this name"
                )));
            }
            named.push(NamedRow { id, number, fields });
        }
        Ok(named)
    }

    /// Makes the instance of a row.
    ///
    /// # Errors
    /// [`BatchError::Refused`] if a field is missing or a template can't be rendered.
    pub fn instance(&self, row: NamedRow, engine: &Templates) -> Result<BatchInstance, BatchError> {
        let NamedRow {
            id,
            number,
            mut fields,
        } = row;
        // Only this row gets a value for every column: a data set may have many rows, each with few
        // of the columns.
        let templates = [&self.task, &self.image, &self.repo, &self.base_commit];
        if templates.iter().any(|it| it.is_some()) || self.startup.is_some() {
            for name in &self.columns {
                if !fields.contains_key(name) {
                    fields.insert(name.clone(), Value::Null);
                }
            }
        }
        let rendered = |flag: &str, template: &Option<String>| match template {
            Some(template) => render(flag, template, &fields, number, engine).map(Some),
            None => Ok(None),
        };
        let task = match rendered("--task-template", &self.task)? {
            Some(task) => task,
            None => first(&fields, TASK)
                .ok_or_else(|| missing(number, "task", TASK, "--task-template", &fields))?,
        };
        let image = match rendered("--image-template", &self.image)? {
            Some(image) => Some(image),
            None => first(&fields, IMAGE).filter(|image| !image.is_empty()),
        };
        let image = match image.filter(|image| !image.is_empty()) {
            None if self.swebench => Some(image_name(&id)),
            image => image,
        };
        let full = |text: Option<String>| text.filter(|text| !text.is_empty());
        let repo = full(rendered("--repo-template", &self.repo)?);
        if let (Some(template), Some(repo)) = (&self.repo, &repo)
            && !is_elsewhere(repo)
        {
            check_place("--repo-template", template, repo, number)?;
        }
        if let (Some(template), Some(image)) = (&self.image, &image)
            && is_path(image)
        {
            check_place("--image-template", template, image, number)?;
        }
        if let Some(image) = image.as_ref().filter(|image| is_path(image))
            && self.image.is_none()
            && self.foreign
        {
            return Err(BatchError::Refused(format!(
                "row {number} of the instances names the image `{}`, which is a path of this machine, and a data set does not choose files here: `--image-template` can begin with the folder of the images, for example `--image-template '/images/{{{{ image }}}}'`",
                mswea_text::harmless(image)
            )));
        }
        Ok(BatchInstance {
            task,
            image,
            repo,
            base_commit: full(rendered("--base-commit-template", &self.base_commit)?),
            startup: full(rendered("run.env_startup_command", &self.startup)?),
            id,
        })
    }
}

/// Whether a repository is a URL of another machine, or a place there as ssh writes it (`git@HOST:PATH`). `file://` is a place
/// here, and `NAME::` names a program.
fn is_elsewhere(repo: &str) -> bool {
    let repo = repo.trim();
    let Some((host, rest)) = repo.split_once(':') else {
        return false;
    };
    let is_host = !host.is_empty() && !host.contains('/') && !rest.starts_with(':');
    // Of two readings git takes the path that exists.
    let is_path = || !rest.starts_with("//") && std::path::Path::new(repo).exists();
    is_host && !host.eq_ignore_ascii_case("file") && !is_path()
}

/// Whether an image is a file or a folder of this machine: what singularity and bubblewrap take.
fn is_path(image: &str) -> bool {
    const ARCHIVES: [&str; 6] = [
        "oci:",
        "oci-archive:",
        "docker-archive:",
        "docker-daemon:",
        "dir:",
        "file:",
    ];
    let image = image.trim();
    image.starts_with(['/', '.', '~'])
        || image.ends_with(".sif")
        || ARCHIVES.iter().any(|start| image.starts_with(start))
}

/// Refuses a path of this machine that a row has chosen: a row may be from anybody, and what it names is
/// copied to where the model reads it. Below a folder that the template itself begins with, a row may
/// choose.
fn check_place(flag: &str, template: &str, path: &str, number: usize) -> Result<(), BatchError> {
    let own = template.find("{{").into_iter().chain(template.find("{%"));
    let Some(own) = own.chain(template.find("{#")).min() else {
        return Ok(());
    };
    let own = template[..own].trim_start();
    let has_folder = own.rfind('/').is_some_and(|end| {
        let is_named = |part: &str| !part.is_empty();
        own[..end].split('/').any(is_named)
    });
    let chosen = path.trim_start().strip_prefix(own);
    let is_below = chosen.is_some_and(|rest| {
        let mut parts = rest
            .trim()
            .split('/')
            .filter(|part| !matches!(*part, "" | "."));
        parts.clone().next().is_some() && parts.all(|part| part != "..")
    });
    match has_folder && is_below {
        true => Ok(()),
        false => Err(BatchError::Refused(format!(
            "row {number} of the instances names `{}`, which is a path of this machine, and rows don't choose any file or folder here: let the template itself begin with the folder that they choose from, for example `{flag} '/data/{{{{ NAME }}}}'` or `{flag} './{{{{ NAME }}}}'`",
            mswea_text::harmless(path)
        ))),
    }
}

/// The text of the first of these fields that the row has. A number counts as text.
fn first(fields: &Object, names: &[&str]) -> Option<String> {
    names.iter().find_map(|name| match fields.get(*name)? {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    })
}

fn render(
    flag: &str,
    template: &str,
    fields: &Object,
    number: usize,
    engine: &Templates,
) -> Result<String, BatchError> {
    engine.render(template, fields).map_err(|error| {
        BatchError::Refused(format!(
            "row {number} of the instances: {}",
            error.named(flag)
        ))
    })
}

fn missing(number: usize, what: &str, names: &[&str], flag: &str, fields: &Object) -> BatchError {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    let there: Vec<String> = fields
        .keys()
        .take(30)
        .map(|name| format!("`{name}`"))
        .collect();
    BatchError::Refused(format!(
        "row {number} of the instances has no {what}: there is no text in {}; it has {}; `{flag}` makes it of other fields, for example `{flag} '{{{{ NAME }}}}'`",
        names.join(" or "),
        match there.is_empty() {
            true => "no fields".to_owned(),
            false => format!("the fields {}", mswea_text::harmless(&there.join(", "))),
        }
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn instance(templates: &FieldTemplates, row: Value) -> Result<BatchInstance, String> {
        let engine = mswea_plugin_host::templates(None);
        let Value::Object(row) = row else {
            panic!("a row is an object")
        };
        let named = templates.named(vec![row], &engine);
        let row = named.map_err(|error| error.to_string())?.remove(0);
        let instance = templates.instance(row, &engine);
        instance.map_err(|error| error.to_string())
    }

    #[test]
    fn the_usual_fields() {
        let plain = FieldTemplates::default();
        let swebench = FieldTemplates {
            swebench: true,
            startup: Some("git checkout {{ base_commit }}".to_owned()),
            ..FieldTemplates::default()
        };
        let row = json!({"instance_id": "A__b-1", "problem_statement": "p", "base_commit": "c", "repo": "a/b"});
        let made = instance(&plain, row.clone()).unwrap();
        assert_eq!((made.id.as_str(), made.task.as_str()), ("A__b-1", "p"));
        assert_eq!(
            (made.image, made.repo, made.base_commit),
            (None, None, None)
        );
        let made = instance(&swebench, row.clone()).unwrap();
        assert_eq!(made.startup.as_deref(), Some("git checkout c"));
        assert_eq!(made.image, Some(image_name("A__b-1")));
        for (name, value, image) in [
            ("image_name", json!("Own:1"), "Own:1"),
            ("docker_image", json!("Own:2"), "Own:2"),
            ("image_name", json!(null), &*image_name("A__b-1")),
        ] {
            let mut row = row.clone();
            row[name] = value;
            assert_eq!(instance(&swebench, row).unwrap().image.unwrap(), image);
        }
        let made = instance(&plain, json!({"id": 7, "task": "t", "image": "i"})).unwrap();
        assert_eq!(made.image.as_deref(), Some("i"));
        assert_eq!((made.id.as_str(), made.task.as_str()), ("7", "t"));
    }

    #[test]
    fn templates() {
        let templates = FieldTemplates {
            id: Some("{{ name }}-{{ n }}".to_owned()),
            task: Some("Do {{ what }}.".to_owned()),
            image: Some("{{ img }}:1".to_owned()),
            repo: Some("https://host/{{ name }}".to_owned()),
            base_commit: Some("{{ c }}".to_owned()),
            ..FieldTemplates::default()
        };
        let row = json!({"name": "a", "n": 3, "what": "it", "img": "i", "c": ""});
        let made = instance(&templates, row).unwrap();
        assert_eq!(made.id, "a-3");
        assert_eq!(made.task, "Do it.");
        assert_eq!(made.image.as_deref(), Some("i:1"));
        assert_eq!(made.repo.as_deref(), Some("https://host/a"));
        assert_eq!(made.base_commit, None);
    }

    #[test]
    fn a_row_chooses_no_path_of_this_machine() {
        let repo = |template: &str, value: &str| {
            let templates = FieldTemplates {
                repo: Some(template.to_owned()),
                ..FieldTemplates::default()
            };
            instance(&templates, json!({"id": "a", "task": "t", "repo": value}))
        };
        for (template, value) in [
            ("{{ repo }}", "https://host/a"),
            ("{{ repo }}", "git@host:a/b"),
            ("{{ repo }}", "ssh://[::1]/a"),
            ("https://host/{{ repo }}", "a/b"),
            ("/data/{{ repo }}", "a/b"),
            ("./{{ repo }}", "a"),
            ("repos/{{ repo }}", "a"),
            ("~/{{ repo }}", "a"),
            ("/etc", "a"),
            ("{{ repo }}", ""),
        ] {
            repo(template, value).unwrap_or_else(|error| panic!("{template} {value}: {error}"));
        }
        for (template, value) in [
            ("{{ repo }}", "file:///etc"),
            ("{{ repo }}", " FILE:///etc"),
            ("{{ repo }}", "ext::sh -c x"),
            ("{{ repo }}", "/etc"),
            ("{{ repo }}", " /etc"),
            ("{{ repo }}", "~/.ssh"),
            ("{{ repo }}", "./x"),
            ("{{ repo }}", "x"),
            ("{{ repo }}", "/a:b"),
            ("{% if repo %}{{ repo }}{% endif %}", "/etc"),
            ("{# #}{{ repo }}", "/etc"),
            ("/{{ repo }}", "etc"),
            ("//{{ repo }}", "etc"),
            ("/data/{{ repo }}", "../etc"),
            ("/data/{{ repo }}", "a/../../etc"),
            ("/data/x{{ repo }}", "/../../etc"),
            ("/data/{{ repo }}", "."),
            ("x{{ repo }}", "/../../etc"),
        ] {
            let error = repo(template, value).unwrap_err();
            assert!(
                error.contains("path of this machine"),
                "{template}: {error}"
            );
        }
        let image = |template: Option<&str>, foreign: bool, value: &str| {
            let templates = FieldTemplates {
                image: template.map(str::to_owned),
                foreign,
                ..FieldTemplates::default()
            };
            instance(&templates, json!({"id": "a", "task": "t", "image": value})).is_ok()
        };
        for (template, foreign, value, good) in [
            (None, false, "/images/a", true),
            (None, true, "/home", false),
            (None, true, "x.sif", false),
            (None, true, "docker://python", true),
            (None, true, "python:3", true),
            (Some("{{ image }}"), false, "/home", false),
            (Some("/images/{{ image }}"), true, "a.sif", true),
            (Some("/images/{{ image }}"), true, "../a.sif", false),
        ] {
            assert_eq!(
                image(template, foreign, value),
                good,
                "{template:?} {value}"
            );
        }
    }

    #[test]
    fn a_row_has_the_columns_of_all() {
        let templates = FieldTemplates {
            task: Some("{{ other is none }}".to_owned()),
            columns: BTreeSet::from(["other".to_owned()]),
            ..FieldTemplates::default()
        };
        let made = instance(&templates, json!({"id": "a"})).unwrap();
        assert_eq!(made.task.to_lowercase(), "true");
    }

    #[test]
    fn wrong_rows() {
        let plain = FieldTemplates::default();
        let odd = FieldTemplates {
            task: Some("{{ nothing }}".to_owned()),
            ..FieldTemplates::default()
        };
        for (templates, row, reason) in [
            (&plain, json!({"x": 1}), "row 1 of the instances has no id"),
            (&plain, json!({"id": "a", "x": 1}), "has no task"),
            (&plain, json!({"id": "a/b", "task": "t"}), "slash"),
            (
                &plain,
                json!({"id": "..", "task": "t"}),
                "no name of a folder",
            ),
            (&odd, json!({"id": "a"}), "--task-template"),
        ] {
            let error = instance(templates, row.clone()).unwrap_err();
            assert!(error.contains(reason), "{row}: {error}");
        }
        let engine = mswea_plugin_host::templates(None);
        let row = |id: &str| [("id".to_owned(), id.into())].into_iter().collect();
        let error = plain.named(vec![row("a"), row("b"), row("a")], &engine);
        let error = error.unwrap_err().to_string();
        assert!(error.contains("rows 1 and 3"), "{error}");
    }
}
