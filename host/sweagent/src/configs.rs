//! The shipped configs: they have the names and the meaning of SWE-agent's configs, with texts of
//! this project.

use crate::given_at::GivenAt;

/// The beginning of the place of a shipped config.
const PLACE: &str = "shipped ";

const CONFIGS: &[(&str, &str)] = &[
    ("default", include_str!("../configs/default.yaml")),
    (
        "default_backticks",
        include_str!("../configs/default_backticks.yaml"),
    ),
    ("bash_only", include_str!("../configs/bash_only.yaml")),
    (
        "coding_challenge",
        include_str!("../configs/coding_challenge.yaml"),
    ),
];

/// The names of the shipped configs.
pub fn names() -> impl Iterator<Item = &'static str> {
    CONFIGS.iter().map(|(name, _)| *name)
}

/// The place of the values in a shipped config.
pub fn place(name: &str) -> String {
    format!("{PLACE}{name}.yaml")
}

/// Whether a value was given in a shipped config.
pub fn is_shipped(at: &GivenAt) -> bool {
    matches!(at, GivenAt::File { path, .. } if path.starts_with(PLACE))
}

/// The name and the text of a shipped config: `default`, `default.yaml` or `config/default.yaml`.
pub fn find(path: &str) -> Option<(&'static str, &'static str)> {
    let name = path.strip_prefix("config/").unwrap_or(path);
    let name = name.strip_suffix(".yaml").unwrap_or(name);
    CONFIGS.iter().find(|(known, _)| *known == name).copied()
}
