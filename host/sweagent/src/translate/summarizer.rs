//! `agent.summarizer_config`: how long outputs are shortened for the model, as in SWE-agent 0.7
//! (EnIGMA).

use serde_json::{Map, Value};

use super::TranslationWork;
use super::templates::TemplateNames;

const AT: &str = "agent.summarizer_config";

/// SWE-agent's names of the functions, and this host's values of `tools.long_outputs`.
const FUNCTIONS: &[(&str, &str)] = &[
    ("Identity", "keep"),
    ("SimpleSummarizer", "open"),
    ("LMSummarizer", "summary"),
];

/// The history processor that asks for summaries.
const PROCESSOR: &str = "output_summary";

/// Translates the section. Returns the processor that it needs.
pub(super) fn summarizer(work: &mut TranslationWork<'_>) -> Option<&'static str> {
    let given = work.given(&format!("{AT}.function"));
    let function = given.and_then(|it| it.text()).unwrap_or("Identity");
    let Some((_, ours)) = FUNCTIONS.iter().find(|(name, _)| *name == function) else {
        if let Some(tree) = given {
            let names: Vec<&str> = FUNCTIONS.iter().map(|(name, _)| *name).collect();
            let hint = match mswea_text::nearest(function, names.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("the functions are `{}`", names.join("`, `")),
            };
            work.refuse(
                &tree.at,
                format!("there is no summarizer `{function}`"),
                &hint,
            );
        }
        return None;
    };
    if let Some(tree) = given {
        work.put("tools.long_outputs", *ours, &tree.at);
    }
    let window = format!("{AT}.window_length");
    work.copy(&window, "tools.longest_output", 105);
    let mut config = Map::new();
    for key in ["system_template", "instance_template"] {
        if let Some(text) = work.text(&format!("{AT}.{key}")) {
            let text = TemplateNames::of(work).over(text);
            config.insert(key.to_owned(), text.into());
        }
    }
    if *ours != "summary" {
        return None;
    }
    if let Some(length) = work.given(&window) {
        config.insert("window_length".to_owned(), length.value());
    }
    work.put_fixed(
        &format!("plugins.{PROCESSOR}.config"),
        Value::Object(config),
    );
    Some(PROCESSOR)
}
