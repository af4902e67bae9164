//! The built-in presets.
//!
//! They are TOML like any config file. Only the long observation template of the preset
//! `text` is put in here: it belongs to the formatter plugin, whose tests cover it, and two
//! copies would drift apart.

use std::sync::LazyLock;

use super::node::{Content, Node};
use super::origin::Origin;
use super::toml_file;

/// The presets' names.
pub const NAMES: &[&str] = &[DEFAULT, TEXT];

/// The preset that lies below everything: tool calls.
pub(super) const DEFAULT: &str = "default";

/// The preset for models without tool calls; only what differs from `default`.
pub(super) const TEXT: &str = "text";

/// What lies below files of mini-swe-agent instead of `default`; not to be named with `-c`.
pub(super) const MINI: &str = "mini-swe-agent";

const MINI_TOML: &str = include_str!("mini.toml");
const DEFAULT_TOML: &str = include_str!("default.toml");
const TEXT_TOML: &str = include_str!("text.toml");
const XML_TEMPLATE: &str = include_str!("../../../../plugins/formatters/jinja/templates/xml.jinja");

/// The tree of a preset.
pub(super) fn tree(name: &str) -> Node {
    static DEFAULT_TREE: LazyLock<Node> = LazyLock::new(|| parse(DEFAULT, DEFAULT_TOML));
    static TEXT_TREE: LazyLock<Node> = LazyLock::new(|| {
        let mut node = parse(TEXT, TEXT_TOML);
        let origin = Origin::Preset {
            name: TEXT.to_owned(),
        };
        let path = ["model", "observation_template"];
        node.merge(Node::nested(&path, XML_TEMPLATE.into(), &origin));
        node
    });
    static MINI_TREE: LazyLock<Node> = LazyLock::new(|| parse(MINI, MINI_TOML));
    match name {
        TEXT => TEXT_TREE.clone(),
        MINI => MINI_TREE.clone(),
        _ => DEFAULT_TREE.clone(),
    }
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
