//! `agent`, `agent.tools` and `agent.history_processors`.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::templates::TemplateNames;
use super::{TranslationWork, as_text, as_texts, environment};
use crate::bundles;
use crate::tree::GivenTree;
use mswea_run::ActionSampler;

/// The variables of tools, unless the configuration sets others.
const VARIABLES: &[(&str, &str)] = &[
    ("PAGER", "cat"),
    ("MANPAGER", "cat"),
    ("LESS", "-R"),
    ("PIP_PROGRESS_BAR", "off"),
    ("TQDM_DISABLE", "1"),
    ("GIT_PAGER", "cat"),
];

/// The beginnings of denied commands, unless the configuration sets others.
const BLOCKLIST: [&str; 10] = [
    "vim",
    "vi",
    "emacs",
    "nano",
    "nohup",
    "gdb",
    "less",
    "tail -f",
    "python -m venv",
    "make",
];

/// SWE-agent's names of the parsers, and this host's.
const PARSERS: &[(&str, &str)] = &[
    ("function_calling", "function_calling"),
    ("thought_action", "thought_action"),
    ("edit_format", "edit_format"),
    ("xml_thought_action", "xml_thought_action"),
    ("xml_function_calling", "xml_function_calling"),
    ("json", "swe_json"),
    ("action", "swe_action"),
    ("action_only", "action_only"),
    ("identity", "swe_identity"),
    ("all_bash_code_blocks", "all_bash_code_blocks"),
    ("single_bash_code_block", "single_bash_code_block"),
];

/// SWE-agent's names of the history processors, and this host's, with their keys.
const PROCESSORS: &[(&str, &[&str])] = &[
    ("default", &[]),
    (
        "last_n_observations",
        &[
            "n",
            "polling",
            "always_remove_output_for_tags",
            "always_keep_output_for_tags",
        ],
    ),
    ("tag_tool_call_observations", &["tags", "function_names"]),
    ("closed_window", &[]),
    (
        "cache_control",
        &["last_n_messages", "last_n_messages_offset", "tagged_roles"],
    ),
    ("remove_regex", &["remove", "keep_last"]),
    ("image_parsing", &["allowed_mime_types"]),
];

/// The keys of both action samplers.
const SAMPLER_KEYS: [&str; 7] = [
    "type",
    "n_samples",
    "min_n_samples",
    "max_n_samples",
    "system_template",
    "instance_template",
    "comparison_template",
];

pub(super) fn agent(work: &mut TranslationWork<'_>) {
    work.refuse_unless(
        "agent.type",
        &[json!("default")],
        "the types are `default`, and `retry` for several attempts",
    );
    for key in ["agent.agent_configs", "agent.retry_loop"] {
        work.refuse_unless(key, &[], "they belong to an agent of the type `retry`");
    }
    sampler(work);
    work.put_fixed("agent.rules", "swe-agent");
    work.copy(
        "agent.max_requeries",
        "agent.max_consecutive_format_errors",
        3,
    );
    work.warn_unless(
        "agent.name",
        &[json!("main")],
        "the agent is always called `main`",
    );
}

/// Translates the action sampler, whose keys are the same here.
fn sampler(work: &mut TranslationWork<'_>) {
    let Some(tree) = work.given("agent.action_sampler") else {
        return;
    };
    let temperature = "agent.action_sampler.comparison_temperature";
    let all = "it has none in SWE-agent either; set `agent.model.temperature`";
    work.warn_unless(temperature, &[], all);
    let mut map = Map::new();
    for (key, value) in tree.entries() {
        let value = match (key.as_str(), value.text()) {
            ("comparison_temperature", _) => continue,
            (key, _) if !SAMPLER_KEYS.contains(&key) => {
                work.done.warnings.push(format!(
                    "`agent.action_sampler.{key}` ({}) has no effect, as in SWE-agent",
                    value.at
                ));
                continue;
            }
            ("instance_template" | "comparison_template", Some(text)) => {
                TemplateNames::of(work).over(text).into()
            }
            _ => value.value(),
        };
        map.insert(key.clone(), value);
    }
    // Without a type, the keys decide.
    if !map.contains_key("type") {
        let kind = match map.contains_key("n_samples") {
            true => "ask_colleagues",
            false => "binary_trajectory_comparison",
        };
        map.insert("type".to_owned(), kind.into());
    }
    match ActionSampler::of(&map) {
        Ok(_) => work.put("agent.action_sampler", Value::Object(map), &tree.at),
        Err(message) => {
            let hint = "`ask_colleagues` has `n_samples`; `binary_trajectory_comparison` has `min_n_samples`, `max_n_samples` and its templates";
            work.refuse(&tree.at, format!("`agent.action_sampler`: {message}"), hint);
        }
    }
}

pub(super) fn tools(work: &mut TranslationWork<'_>) {
    bundles(work);
    parser(work);
    filter(work);
    work.copy_number("agent.tools.execution_timeout", "environment.timeout", 30.0);
    let total = (
        "agent.tools.total_execution_timeout",
        "agent.total_execution_timeout",
    );
    work.copy_number(total.0, total.1, 1800.0);
    let timeouts = "agent.tools.max_consecutive_execution_timeouts";
    work.copy(timeouts, "agent.max_consecutive_timeouts", 3);
    work.copy_number(
        "agent.tools.install_timeout",
        "tools.install_timeout",
        300.0,
    );
    work.copy(
        "agent.tools.registry_variables",
        "tools.registry_variables",
        json!({}),
    );
    let variables = match work.given("agent.tools.env_variables") {
        Some(tree) => as_texts(tree),
        None => VARIABLES
            .iter()
            .map(|(name, value)| ((*name).to_owned(), Value::from(*value)))
            .collect(),
    };
    let key = match work.given("agent.tools.bundles") {
        Some(tree) if !tree.items().is_empty() => "tools.env_variables",
        _ => "environment.env",
    };
    work.put_fixed(key, Value::Object(variables));
    let propagated = work.texts("agent.tools.propagate_env_variables");
    if !propagated.is_empty() {
        match environment::class(work) {
            "local" => work.put_fixed("environment.env_allow", propagated),
            "swerex" => {
                let tree = work.given("agent.tools.propagate_env_variables");
                if let Some(tree) = tree {
                    let hint = "set the variables where the server runs";
                    work.refuse(
                        &tree.at,
                        "a `remote` deployment gets no variables of this machine",
                        hint,
                    );
                }
            }
            _ => work.put_fixed("environment.forward_env", propagated),
        }
    }
    work.warn_unless(
        "agent.tools.submit_command",
        &[json!("submit")],
        "the model calls the tool `submit`",
    );
    let hint = "it is computed from the bundles, as in SWE-agent";
    for key in [
        "command_docs",
        "multi_line_command_endings",
        "submit_command_end_name",
    ] {
        work.warn_unless(&format!("agent.tools.{key}"), &[json!({})], hint);
    }
    work.warn_unless(
        "agent.tools.reset_commands",
        &[json!([])],
        "SWE-agent never runs them; `env.post_startup_commands` are run",
    );
}

fn bundles(work: &mut TranslationWork<'_>) {
    let mut names = Vec::new();
    let mut hidden = Vec::new();
    let mut needs_root = false;
    for item in work
        .given("agent.tools.bundles")
        .map(GivenTree::items)
        .unwrap_or_default()
    {
        for (key, tree) in item.entries() {
            if !["path", "hidden_tools"].contains(&key.as_str()) {
                work.done.warnings.push(format!(
                    "`{key}` of a bundle ({}) has no effect, as in SWE-agent: a bundle has `path` and `hidden_tools`",
                    tree.at
                ));
            }
        }
        let Some(path) = item.given("path").and_then(GivenTree::text) else {
            work.refuse(
                &item.at,
                "this bundle has no `path`",
                "write `path: tools/NAME`",
            );
            continue;
        };
        match bundles::located(path, &item.at, work.input.variable) {
            Ok(name) => {
                needs_root |= name.contains('/') && names_root(Path::new(&name), DEEPEST);
                names.push(name);
            }
            Err(problem) => work.problems.push(problem),
        }
        for tool in item
            .given("hidden_tools")
            .map(GivenTree::items)
            .unwrap_or_default()
        {
            hidden.push(as_text(&tool.value()));
        }
    }
    match work.given("agent.tools.bundles") {
        Some(tree) => work.put("tools.bundles", names, &tree.at),
        None => work.put_fixed("tools.bundles", names),
    }
    work.put_fixed("tools.hidden", hidden);
    work.copy("agent.tools.enable_bash_tool", "tools.bash_tool", true);
    // SWE-agent's own bundles need `/root`; with other bundles, this machine's `/root` is not used.
    if !needs_root && environment::class(work) == "local" {
        let root = format!("{}/tools-root", work.input.folder);
        work.put_fixed("tools.root", root);
    }
}

/// The limits of the search through a bundle's files: the depth of folders, and the size.
const DEEPEST: usize = 4;
const LARGEST: u64 = 4 << 20;
const ROOT: &[u8] = b"/root/";

/// Whether one of a bundle's files contains the path `/root/`, or can't be searched.
fn names_root(folder: &Path, deepest: usize) -> bool {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return true;
    };
    entries.flatten().any(|entry| {
        let path = entry.path();
        let Ok(meta) = std::fs::metadata(&path) else {
            return false;
        };
        if meta.is_dir() {
            return deepest == 0 || names_root(&path, deepest - 1);
        }
        let found = |bytes: Vec<u8>| bytes.windows(ROOT.len()).any(|it| it == ROOT);
        mswea_files::read(&path, LARGEST).map_or(true, found)
    })
}

fn parser(work: &mut TranslationWork<'_>) {
    let given = work.given("agent.tools.parse_function.type");
    let theirs = given
        .and_then(GivenTree::text)
        .unwrap_or("function_calling");
    let Some((_, ours)) = PARSERS.iter().find(|(name, _)| *name == theirs) else {
        if let Some(tree) = given {
            let names: Vec<&str> = PARSERS.iter().map(|(name, _)| *name).collect();
            let hint = match mswea_text::nearest(theirs, names.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("the parsers are `{}`", names.join("`, `")),
            };
            work.refuse(&tree.at, format!("there is no parser `{theirs}`"), &hint);
        }
        return;
    };
    match given {
        Some(tree) => work.put("pipeline.parser", *ours, &tree.at),
        None => work.put_fixed("pipeline.parser", *ours),
    }
    if let Some(tree) = work.given("agent.tools.enable_bash_tool")
        && tree.value() == false
        && !["function_calling", "json"].contains(&theirs)
    {
        let message = format!("the parser `{theirs}` needs the bash tool");
        let hint =
            "set `agent.tools.enable_bash_tool` to `true`, or use `function_calling` or `json`";
        work.refuse(&tree.at, message, hint);
    }
}

fn filter(work: &mut TranslationWork<'_>) {
    let mut config = Map::new();
    config.insert("blocklist".to_owned(), json!(BLOCKLIST));
    for key in ["blocklist", "blocklist_standalone"] {
        let from = format!("agent.tools.filter.{key}");
        if work.given(&from).is_some() {
            config.insert(key.to_owned(), work.texts(&from).into());
        }
    }
    if let Some(tree) = work.given("agent.tools.filter.block_unless_regex") {
        config.insert("block_unless_regex".to_owned(), as_texts(tree).into());
    }
    if let Some(text) = work.text("agent.tools.filter.blocklist_error_template") {
        config.insert("error_message".to_owned(), text.into());
    }
    work.put_fixed("pipeline.policies", json!(["blocklist"]));
    work.put_fixed("plugins.blocklist.config", Value::Object(config));
}

pub(super) fn history(work: &mut TranslationWork<'_>) {
    let mut names: Vec<&str> = super::summarizer::summarizer(work).into_iter().collect();
    for item in work
        .given("agent.history_processors")
        .map(GivenTree::items)
        .unwrap_or_default()
    {
        let kind = item
            .given("type")
            .and_then(GivenTree::text)
            .unwrap_or("default");
        let Some((name, keys)) = PROCESSORS.iter().find(|(name, _)| *name == kind) else {
            let known: Vec<&str> = PROCESSORS.iter().map(|(name, _)| *name).collect();
            let hint = match mswea_text::nearest(kind, known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("the processors are `{}`", known.join("`, `")),
            };
            work.refuse(
                &item.at,
                format!("there is no history processor `{kind}`"),
                &hint,
            );
            continue;
        };
        let mut config = Map::new();
        for (key, tree) in item.entries().iter().filter(|(key, _)| key != "type") {
            match keys.contains(&key.as_str()) {
                true => drop(config.insert(key.clone(), tree.value())),
                false => {
                    let hint = match *keys {
                        [] => "it has no keys beside `type`".to_owned(),
                        keys => format!("it has `{}`", keys.join("`, `")),
                    };
                    work.refuse(
                        &tree.at,
                        format!("the history processor `{kind}` has no `{key}`"),
                        &hint,
                    );
                }
            }
        }
        if *name == "default" {
            continue;
        }
        if names.contains(name) {
            let message = format!("the history processor `{name}` is given twice");
            work.refuse(&item.at, message, "join the two into one");
            continue;
        }
        if *name == "cache_control" {
            config.insert("mode".to_owned(), "last_n".into());
        }
        names.push(name);
        if !config.is_empty() {
            work.put(
                &format!("plugins.{name}.config"),
                Value::Object(config),
                &item.at,
            );
        }
    }
    work.put_fixed("pipeline.processors", json!(names));
}
