//! `agent.templates`: prompts and observations.

use serde_json::{Value, json};

use super::TranslationWork;
use crate::tree::GivenTree;

const NEXT_STEP: &str = "Observation: {{observation}}";
const TRUNCATED: &str = "Observation: {{observation[:max_observation_length]}}<response clipped>\n\
    <NOTE>The output has {{elided_chars}} characters more than the {{max_observation_length}} that are shown. \
    Use a command that prints less.</NOTE>";
const TIMED_OUT: &str = "The command '{{command}}' was ended, because it took more than {{timeout}} seconds. \
    Use another command: one that is faster, or that waits for no input.";

/// What `command_docs` has if there are no bundles: the shell, which the model is offered in any case.
const BASH_DOCS: &str = "bash:\n  docstring: Runs a command in bash\n  signature: <command>\n  \
    arguments:\n    - command (string) [required]: The command to run\n\n";

pub(super) fn templates(work: &mut TranslationWork<'_>) {
    let at = "agent.templates";
    let names = TemplateNames::of(work);
    let prompts = [
        ("agent.system_template", "system_template"),
        ("agent.instance_template", "instance_template"),
    ];
    for (ours, theirs) in prompts {
        let text = work.text(&format!("{at}.{theirs}")).unwrap_or_default();
        let text = names.over(text);
        match work.given(&format!("{at}.{theirs}")) {
            Some(tree) => work.put(ours, text, &tree.at),
            None => work.put_fixed(ours, text),
        }
    }
    for (ours, theirs) in [
        ("agent.strategy_template", "strategy_template"),
        ("agent.syntax_error_template", "shell_check_error_template"),
    ] {
        if let Some(tree) = work.given(&format!("{at}.{theirs}")) {
            work.put(ours, names.over(tree.text().unwrap_or_default()), &tree.at);
        }
    }
    let observation = |theirs: &str, default: &str| {
        let text = work.text(&format!("{at}.{theirs}")).unwrap_or(default);
        Value::from(names.over(text))
    };
    let mut formatter = json!({
        "next_step_template": observation("next_step_template", NEXT_STEP),
        "next_step_truncated_observation_template":
            observation("next_step_truncated_observation_template", TRUNCATED),
        "command_cancelled_timeout_template":
            observation("command_cancelled_timeout_template", TIMED_OUT),
    });
    for key in ["next_step_no_output_template", "max_observation_length"] {
        if let Some(tree) = work.given(&format!("{at}.{key}")) {
            formatter[key] = match tree.text() {
                Some(text) => names.over(text).into(),
                None => tree.value(),
            };
        }
    }
    work.put_fixed("pipeline.formatter", "swe_agent");
    work.put_fixed("plugins.swe_agent.config", formatter);
    let feedback = work
        .text("agent.tools.format_error_template")
        .or_else(|| work.text("agent.tools.parse_function.error_message"));
    let feedback = feedback.unwrap_or("{{ error }}");
    let feedback = names.over(feedback);
    work.put_fixed("model.format_error_template", feedback);
}

/// The variables that SWE-agent's templates have and this host's do not.
pub(super) struct TemplateNames(Vec<(String, String)>);

impl TemplateNames {
    pub(super) fn of(work: &TranslationWork<'_>) -> Self {
        let problem = work.input.problem;
        let mut names = vec![
            ("problem_statement".to_owned(), "task".to_owned()),
            // The folder in a bundle's state, else the one in which commands start.
            (
                "working_dir".to_owned(),
                "working_dir | default(cwd)".to_owned(),
            ),
            (
                "repo".to_owned(),
                Value::from(problem.repo.clone()).to_string(),
            ),
            (
                "interactive_session".to_owned(),
                "interactive_session | default(\"n/a\")".to_owned(),
            ),
        ];
        for (name, value) in &problem.extra_fields {
            names.push((name.clone(), value.to_string()));
        }
        // With bundles, the tools' own variables exist.
        let has_bundles = work
            .given("agent.tools.bundles")
            .is_some_and(|it| !it.items().is_empty());
        if !has_bundles {
            let docs = Value::from(BASH_DOCS);
            names.push(("command_docs".to_owned(), docs.to_string()));
        }
        // The tools' own variables are texts; templates see the values of the configuration.
        let variables = work.given("agent.tools.env_variables");
        for (name, tree) in variables.into_iter().flat_map(GivenTree::entries) {
            if !has_bundles || tree.text().is_none() {
                names.push((name.clone(), expression(&tree.value())));
            }
        }
        Self(names)
    }

    /// The template, preceded by assignments of those variables that it names.
    pub(super) fn over(&self, template: &str) -> String {
        let mut set = String::new();
        for (name, value) in self.0.iter().filter(|(name, _)| has_word(template, name)) {
            set.push_str(&format!("{{% set {name} = {value} %}}"));
        }
        set + template
    }
}

/// A value as an expression of a template.
fn expression(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(expression).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(map) => {
            let entries = map.iter();
            let entries = entries.map(|(key, value)| {
                format!("{}: {}", Value::from(key.as_str()), expression(value))
            });
            format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

fn has_word(text: &str, word: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(place, _)| {
        let before = text[..place].chars().next_back();
        let after = text[place + word.len()..].chars().next();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

/// A template that renders to exactly this text.
pub(super) fn verbatim(text: &str) -> String {
    match text.contains("{%") || text.contains("{{") || text.contains("{#") {
        false => text.to_owned(),
        true => format!("{{{{ {} }}}}", Value::from(text)),
    }
}
