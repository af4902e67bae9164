//! `agent.templates.demonstrations`: recorded runs that are shown to the model. SWE-agent sends each as a
//! message of the user before the task; here they are the beginning of the task's message.

use std::path::Path;

use serde_json::Value;

use super::TranslationWork;
use crate::fault::SweAgentProblem;
use crate::flags::expand;
use crate::trajectory;
use crate::tree::{GivenTree, read_yaml_file};

/// The texts of the demonstrations.
pub(super) fn texts(work: &mut TranslationWork<'_>) -> Vec<String> {
    let paths = work.texts("agent.templates.demonstrations");
    let Some(tree) = work
        .given("agent.templates.demonstrations")
        .filter(|_| !paths.is_empty())
    else {
        return Vec::new();
    };
    let in_history = "agent.templates.put_demos_in_history";
    work.refuse_unless(
        in_history,
        &[false.into()],
        "set it to `false`, and set `agent.templates.demonstration_template`: demonstrations are shown as one text",
    );
    let is_refused = work.given(in_history).is_some_and(|it| it.value() == true);
    if !is_refused
        && work
            .text("agent.templates.demonstration_template")
            .is_none()
    {
        let hint = "set `agent.templates.demonstration_template`, with `{{demonstration}}` in it";
        work.refuse(&tree.at, "the demonstrations have no template", hint);
    }
    let mut texts = Vec::new();
    for (path, item) in paths.iter().zip(tree.items()) {
        match read(path, work.input.variable) {
            Ok(text) => texts.push(text),
            Err(problem) => work.refuse(&item.at, problem, "leave it out, or correct its path"),
        }
    }
    texts
}

fn read(path: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let words = |problem: SweAgentProblem| problem.to_string();
    let path = expand(path, variable).map_err(words)?;
    let root = variable("SWE_AGENT_CONFIG_ROOT").map(|root| format!("{root}/{path}"));
    let path = root.filter(|it| Path::new(it).is_file()).unwrap_or(path);
    let path = Path::new(&path);
    let read = match path.extension().is_some_and(|it| it == "yaml") {
        true => read_yaml_file(path)
            .map(|tree: GivenTree| tree.value())
            .map_err(|error| error.to_string())?,
        false => trajectory::read(path).map_err(words)?,
    };
    let Some(history) = read["history"].as_array() else {
        return Err(format!(
            "the demonstration `{}` has no `history`",
            path.display()
        ));
    };
    let shown = history.iter().filter(|item| item["role"] != "system");
    let shown: Vec<&str> = shown.filter_map(|item| item["content"].as_str()).collect();
    match shown.is_empty() {
        true => Err(format!(
            "the demonstration `{}` has no texts",
            path.display()
        )),
        false => Ok(shown.join("\n")),
    }
}

/// The demonstrations as the beginning of a template.
pub(super) fn before(texts: &[String], template: &str) -> String {
    let mut beginning = String::new();
    for text in texts {
        let literal = Value::from(text.as_str());
        // The line end at the end of a template is dropped where it is rendered alone.
        let template = template.strip_suffix('\n').unwrap_or(template);
        beginning.push_str(&format!(
            "{{% set demonstration = {literal} %}}{template}\n\n"
        ));
    }
    beginning
}
