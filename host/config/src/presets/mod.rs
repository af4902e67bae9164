//! The built-in presets.
//!
//! They are TOML like any config file. Those of benchmarks have the names and the meaning of
//! mini-swe-agent's files, with text of this project's own. Parts that several presets share are in
//! one file: the long observation template is that of the formatter plugin, whose tests cover it,
//! and the three presets for SWE-bench differ in how a reply holds a command.

use serde_json::Value;

use super::node::{Content, Node};
use super::origin::Origin;
use super::{toml_file, version_1};

/// The presets' names, as `-c` takes them.
pub const NAMES: &[&str] = &[
    DEFAULT,
    TEXT,
    SWEBENCH,
    SWEBENCH_BACKTICKS,
    SWEBENCH_XML,
    PROGRAMBENCH,
];

/// The preset below all layers: tool calls.
pub(super) const DEFAULT: &str = "default";

/// The preset for models without tool calls; like all others it holds only what differs from
/// `default`.
pub(super) const TEXT: &str = "text";

/// An instance of SWE-bench, with tool calls.
pub(super) const SWEBENCH: &str = "swebench";

/// The same with commands in fenced blocks.
pub(super) const SWEBENCH_BACKTICKS: &str = "swebench_backticks";

/// The same with commands between tags.
pub(super) const SWEBENCH_XML: &str = "swebench_xml";

/// An instance of ProgramBench.
pub(super) const PROGRAMBENCH: &str = "programbench";

/// What mini-swe-agent's `default.yaml` means: `text` without a limit of dollars. It is used only
/// under its full file name.
pub(super) const DEFAULT_YAML: &str = "default.yaml";

/// The layer below files of mini-swe-agent in place of `default`; `-c` can't name it.
pub(super) const MINI: &str = "mini-swe-agent";

/// The layer above that one if a file is of version 1.
pub(super) const MINI_1: &str = "mini-swe-agent 1";

const MINI_TOML: &str = include_str!("mini.toml");
const DEFAULT_TOML: &str = include_str!("default.toml");
const TEXT_TOML: &str = include_str!("text.toml");
const SWEBENCH_TOML: &str = include_str!("swebench.toml");
const SWEBENCH_XML_TOML: &str = include_str!("swebench_xml.toml");
const PROGRAMBENCH_TOML: &str = include_str!("programbench.toml");
const XML_TEMPLATE: &str = include_str!("../../../../plugins/formatters/jinja/templates/xml.jinja");
/// The addition to an observation when little of the run's limits is left.
const BUDGET_TEMPLATE: &str = include_str!("budget.jinja");

/// How a reply holds a command, for the prompt of SWE-bench.
struct CommandForm {
    reply: &'static str,
    before: &'static str,
    after: &'static str,
}

const TOOL: CommandForm = CommandForm {
    reply: "Every reply of yours says in a sentence or two what you want to find out or change, and \
            then\ncalls the tool `bash` at least once; commands that do not depend on each other may \
            be called\ntogether. You are shown what they printed and their exit codes, and go on from \
            there.",
    before: "```bash\n",
    after: "\n```",
};

const FENCES: CommandForm = CommandForm {
    reply: "Every reply of yours says in a sentence or two what you want to find out or change, and \
            then\nholds exactly one fenced block with a command. You are shown what it printed and \
            its exit code,\nand go on from there. Join steps that belong together with `&&`.",
    before: "```mswea_bash_command\n",
    after: "\n```",
};

const TAGS: CommandForm = CommandForm {
    reply: "Every reply of yours says in a sentence or two what you want to find out or change, and \
            then\nholds exactly one command between its tags. You are shown what it printed and its \
            exit code,\nand go on from there. Join steps that belong together with `&&`.",
    before: "<mswea_bash_command>",
    after: "</mswea_bash_command>",
};

/// The tree of a preset; that of `default` for an unknown name.
pub(super) fn tree(name: &str) -> Node {
    let origin = Origin::Preset {
        name: name.to_owned(),
    };
    let set = |path: &[&str], value: Value| Node::nested(path, value, &origin);
    let swebench = |form: &CommandForm| {
        parse(
            name,
            &SWEBENCH_TOML
                .replace("%REPLY%", form.reply)
                .replace("%(", form.before)
                .replace("%)", form.after),
        )
    };
    let template = ["model", "observation_template"];
    let xml = set(&template, XML_TEMPLATE.into());
    let layers = match name {
        TEXT => vec![parse(name, TEXT_TOML), xml],
        DEFAULT_YAML => vec![
            parse(name, TEXT_TOML),
            xml,
            set(&["agent", "cost_limit"], 0.0.into()),
        ],
        SWEBENCH => vec![
            swebench(&TOOL),
            xml,
            set(
                &["model", "model_kwargs", "parallel_tool_calls"],
                true.into(),
            ),
        ],
        SWEBENCH_BACKTICKS => vec![parse(name, TEXT_TOML), xml, swebench(&FENCES)],
        SWEBENCH_XML => vec![
            parse(name, TEXT_TOML),
            xml,
            swebench(&TAGS),
            parse(name, SWEBENCH_XML_TOML),
        ],
        PROGRAMBENCH => {
            let template_text = format!("{XML_TEMPLATE}{BUDGET_TEMPLATE}");
            vec![
                parse(name, PROGRAMBENCH_TOML),
                set(&template, template_text.into()),
            ]
        }
        MINI => vec![parse(name, MINI_TOML)],
        MINI_1 => vec![version_1::defaults(&origin)],
        _ => vec![parse(name, DEFAULT_TOML)],
    };
    let mut tree = Node::empty(origin);
    for layer in layers {
        tree.merge(layer);
    }
    tree
}

fn parse(name: &str, source: &str) -> Node {
    let mut node = toml_file::parse(name, source).expect("invariant: a test parses every preset");
    set_origin(
        &mut node,
        &Origin::Preset {
            name: name.to_owned(),
        },
    );
    node
}

fn set_origin(node: &mut Node, origin: &Origin) {
    node.origin = origin.clone();
    match &mut node.content {
        Content::Map(entries) => {
            for entry in entries {
                entry.at = origin.clone();
                set_origin(&mut entry.node, origin);
            }
        }
        Content::List(items) => items.iter_mut().for_each(|item| set_origin(item, origin)),
        Content::Scalar(_) => {}
    }
}

#[cfg(test)]
mod tests;
