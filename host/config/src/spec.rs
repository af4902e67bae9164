//! The grammar of `-c`: `dotted.key=value`, or the name of a file or a preset.

use serde_json::Value;

use super::error::{ConfigProblem, ProblemKind};
use super::node::Node;
use super::origin::Origin;

/// The meaning of a `-c`.
#[derive(Debug)]
pub(super) enum Spec {
    /// One value.
    Set(Node),
    /// A file or a preset.
    Name(String),
}

/// Reads one `-c`.
pub(super) fn parse(spec: &str) -> Result<Spec, ConfigProblem> {
    let Some((key, value)) = spec.split_once('=') else {
        if spec.trim().is_empty() {
            return Err(ConfigProblem::new(ProblemKind::BadSpec, "`-c` is empty").hint(
                "give a file, a preset or `dotted.key=value`, for example `-c agent.step_limit=50`",
            ));
        }
        return Ok(Spec::Name(spec.to_owned()));
    };
    let segments: Vec<&str> = key.trim().split('.').map(str::trim).collect();
    if segments.iter().any(|segment| segment.is_empty()) {
        let message = format!("`-c {key}=...` has an empty part in its key");
        let problem = ConfigProblem::new(ProblemKind::BadSpec, message);
        return Err(problem.hint("write `dotted.key=value`, for example `-c agent.step_limit=50`"));
    }
    // A text need not be quoted as in JSON: a value that is not JSON is a text.
    let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
    let origin = Origin::Set {
        spec: spec.to_owned(),
    };
    Ok(Spec::Set(Node::nested(&segments, value, &origin)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_json_or_text() {
        for (spec, expected) in [
            ("a.b=1", json!({"a": {"b": 1}})),
            ("a.b=1.0", json!({"a": {"b": 1.0}})),
            ("a=ten", json!({"a": "ten"})),
            ("a=\"10\"", json!({"a": "10"})),
            ("a=null", json!({"a": null})),
            ("a=", json!({"a": ""})),
            ("a=b=c", json!({"a": "b=c"})),
            ("a={\"x\": [1]}", json!({"a": {"x": [1]}})),
            ("a={x: 1}", json!({"a": "{x: 1}"})),
            (" a . b =x", json!({"a": {"b": "x"}})),
        ] {
            match parse(spec).unwrap() {
                Spec::Set(node) => assert_eq!(node.to_value(), expected, "{spec}"),
                other => panic!("{spec}: {other:?}"),
            }
        }
    }

    #[test]
    fn empty_parts_are_refused() {
        for spec in ["=1", "a..b=1", ".a=1", "a.=1", " =x", "", "  "] {
            let problem = parse(spec).unwrap_err();
            assert_eq!(problem.kind(), ProblemKind::BadSpec, "{spec:?}");
            assert!(problem.remedy().is_some());
        }
    }

    #[test]
    fn anything_else_is_a_name() {
        for spec in ["default", "dir/conf.toml", "a.b"] {
            assert!(matches!(parse(spec).unwrap(), Spec::Name(name) if name == spec));
        }
    }
}
