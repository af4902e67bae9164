//! Checks a plugin's config against the JSON Schema of its descriptor.
//!
//! A schema is a program of sorts: a short one can branch for ever. The plugin wrote it, so it is
//! worked through on a thread of its own, with a stack for deep ones, and is left alone after a
//! while. The thread of one that never ends stays until the program does, which is soon: a plugin
//! with such a schema is not used.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use jsonschema::Validator;
use jsonschema::error::ValidationErrorKind;
use serde_json::{Map, Value};

/// What does not fit.
#[derive(Debug, PartialEq, Eq)]
pub struct Problem {
    /// JSON pointer into the config.
    pub pointer: String,
    /// What is wrong, and what to write instead.
    pub detail: String,
}

/// How long a schema may take. Those of honest plugins take less than a millisecond.
const PATIENCE: Duration = Duration::from_secs(5);

/// Address space for the recursion along a schema, of which only what is used becomes memory.
const STACK: usize = 256 << 20;

/// A schema that is ready to check configs.
#[derive(Clone)]
pub struct Schema {
    value: Arc<Value>,
    validator: Arc<Validator>,
    /// Whether it is one of ours, which needs no thread.
    trusted: bool,
}

impl Schema {
    /// Gets a plugin's schema ready.
    ///
    /// # Errors
    /// When it is no schema.
    pub fn new(schema: &Value, trusted: bool) -> Result<Self, String> {
        match schema {
            Value::Object(_) | Value::Bool(_) => {}
            _ => return Err("it must be an object".into()),
        }
        let value = Arc::new(schema.clone());
        let worked = value.clone();
        let work = move || jsonschema::validator_for(&worked).map_err(|error| error.to_string());
        let validator = within(trusted, work)
            .ok_or_else(|| format!("it takes more than {} s to read", PATIENCE.as_secs()))??;
        Ok(Self {
            value,
            validator: Arc::new(validator),
            trusted,
        })
    }

    /// Checks `config`, and returns it with the defaults of top-level properties filled in.
    ///
    /// # Errors
    /// With the first problem.
    pub fn check(&self, config: &Value) -> Result<Value, Problem> {
        let (own, config) = (self.clone(), config.clone());
        let checked = within(self.trusted, move || {
            check(&own.value, &own.validator, &config)
        });
        checked.unwrap_or_else(|| {
            Err(Problem {
                pointer: String::new(),
                detail: format!(
                    "the plugin's schema takes more than {} s to check it: the schema has too many alternatives (`anyOf`, `oneOf`, `$ref`) within each other",
                    PATIENCE.as_secs()
                ),
            })
        })
    }
}

/// Does the work, and waits for it for so long; `None` if it takes longer.
fn within<T: Send + 'static>(
    trusted: bool,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    if trusted {
        return Some(work());
    }
    let (done, wait) = mpsc::sync_channel(1);
    let spawned = std::thread::Builder::new()
        .name("plugin-schema".into())
        .stack_size(STACK)
        .spawn(move || {
            let _ = done.send(work());
        });
    match spawned {
        Ok(_) => wait.recv_timeout(PATIENCE).ok(),
        Err(error) => {
            tracing::debug!(%error, "no thread for a plugin's schema");
            None
        }
    }
}

fn check(schema: &Value, validator: &Validator, config: &Value) -> Result<Value, Problem> {
    let mut filled = match config {
        Value::Object(map) => map.clone(),
        Value::Null => Map::new(),
        other => {
            return Err(Problem {
                pointer: String::new(),
                detail: format!("it must be a table, not {other}"),
            });
        }
    };
    let properties = schema.get("properties").and_then(Value::as_object);
    for (key, property) in properties.into_iter().flatten() {
        if let Some(default) = property.get("default")
            && !filled.contains_key(key)
        {
            filled.insert(key.clone(), default.clone());
        }
    }
    let filled = Value::Object(filled);
    if let Some(error) = validator.iter_errors(&filled).next() {
        let pointer = error.instance_path().to_string();
        let mut detail = match pointer.as_str() {
            "" => error.to_string(),
            _ => format!(
                "`{}`: {error}",
                pointer.trim_start_matches('/').replace('/', ".")
            ),
        };
        let unknown = match error.kind() {
            ValidationErrorKind::AdditionalProperties { unexpected } if pointer.is_empty() => {
                unexpected.first().cloned()
            }
            // How a schema without properties says it, and it does not say which key.
            ValidationErrorKind::FalseSchema if pointer.is_empty() => filled
                .as_object()
                .and_then(|map| map.keys().find(|key| !is_known(properties, key)))
                .cloned(),
            _ => None,
        };
        if let Some(key) = unknown {
            let none = Map::new();
            let properties = properties.unwrap_or(&none);
            let near = properties
                .keys()
                .map(|known| (strsim::jaro_winkler(known, &key), known))
                .filter(|(score, _)| *score > 0.75)
                .max_by(|a, b| a.0.total_cmp(&b.0));
            detail = match near {
                Some((_, near)) => format!("unknown key `{key}`: did you mean `{near}`?"),
                None => {
                    let known: Vec<String> = properties
                        .keys()
                        .map(|known| format!("`{known}`"))
                        .collect();
                    if known.is_empty() {
                        format!("unknown key `{key}`: this plugin takes no config")
                    } else {
                        format!("unknown key `{key}`: known are {}", known.join(", "))
                    }
                }
            };
            return Err(Problem {
                pointer: format!("/{key}"),
                detail,
            });
        }
        return Err(Problem { pointer, detail });
    }
    Ok(filled)
}

fn is_known(properties: Option<&Map<String, Value>>, key: &str) -> bool {
    properties.is_some_and(|properties| properties.contains_key(key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "n": {"type": "integer", "minimum": 1},
                "polling": {"type": "integer", "default": 1},
            },
            "required": ["n"],
            "additionalProperties": false,
        })
    }

    fn check_with(schema: &Value, config: &Value) -> Result<Value, Problem> {
        Schema::new(schema, false).unwrap().check(config)
    }

    /// Doubles with each level: what it says of a config is clear only after 2^levels steps.
    fn doubling(levels: usize) -> Value {
        let mut definitions = Map::new();
        for level in 0..levels {
            let next = json!({"$ref": format!("#/$defs/l{}", level + 1)});
            definitions.insert(format!("l{level}"), json!({"anyOf": [next.clone(), next]}));
        }
        definitions.insert(format!("l{levels}"), json!({"required": ["never"]}));
        json!({"$defs": definitions, "$ref": "#/$defs/l0"})
    }

    /// The same without references.
    fn nested(levels: usize) -> Value {
        (0..levels).fold(
            json!({"required": ["never"]}),
            |inner, _| json!({"anyOf": [inner, {"required": ["never"]}]}),
        )
    }

    #[test]
    fn a_schema_that_never_ends_is_left_alone() {
        for schema in [doubling(41), nested(41)] {
            let begun = std::time::Instant::now();
            let refused = match Schema::new(&schema, false) {
                Ok(schema) => schema.check(&json!({})).is_err(),
                Err(_) => true,
            };
            assert!(refused);
            // Not for ever: with room for a slow machine.
            assert!(begun.elapsed() < 12 * PATIENCE);
        }
    }

    #[test]
    fn deep_and_circular_schemas_do_not_end_the_program() {
        let chain: Map<String, Value> = (0..4000)
            .map(|n| {
                (
                    format!("l{n}"),
                    json!({"$ref": format!("#/$defs/l{}", n + 1)}),
                )
            })
            .chain([("l4000".to_owned(), json!({"type": "object"}))])
            .collect();
        let deep = (0..120).fold(json!({}), |inner, _| json!({"a": inner}));
        for schema in [
            json!({"$defs": chain, "$ref": "#/$defs/l0"}),
            json!({"$ref": "#"}),
            json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}),
            json!({"allOf": [{"$ref": "#"}, {"anyOf": [{"$ref": "#"}]}]}),
            json!({"$dynamicAnchor": "x", "anyOf": [{"$dynamicRef": "#x"}]}),
            json!({"not": {"$ref": "#"}}),
            json!({"if": {"$ref": "#"}, "then": {"$ref": "#"}}),
            json!({"properties": {"a": {"default": deep}}, "additionalProperties": {"$ref": "#"}}),
            json!({"dependentSchemas": {"a": {"$ref": "#"}}, "unevaluatedProperties": {"$ref": "#"}}),
        ] {
            if let Ok(ready) = Schema::new(&schema, false) {
                let _ = ready.check(&json!({"a": {"a": {}}}));
            }
        }
    }

    #[test]
    fn a_schema_that_is_none() {
        assert!(Schema::new(&json!([]), false).is_err());
        assert!(Schema::new(&json!({"type": "nonsense"}), false).is_err());
    }

    #[test]
    fn a_plugin_without_config() {
        for schema in [
            json!({"type": "object", "additionalProperties": false}),
            json!({"type": "object", "properties": {}, "additionalProperties": false}),
        ] {
            let problem = check_with(&schema, &json!({"foo": 1})).unwrap_err();
            assert_eq!(
                (problem.pointer.as_str(), problem.detail.as_str()),
                ("/foo", "unknown key `foo`: this plugin takes no config")
            );
        }
    }

    #[test]
    fn another_fault_is_not_called_an_unknown_key() {
        let schema = json!({"properties": {"n": {}}, "required": ["n"]});
        let problem = check_with(&schema, &json!({"other": 1})).unwrap_err();
        assert_eq!(problem.detail, "\"n\" is a required property");
    }

    #[test]
    fn fills_defaults() {
        assert_eq!(
            check_with(&schema(), &json!({"n": 3})).unwrap(),
            json!({"n": 3, "polling": 1})
        );
    }

    #[test]
    fn problems() {
        let table = [
            (json!({}), "", "\"n\" is a required property"),
            (
                json!({"n": 0}),
                "/n",
                "`n`: 0 is less than the minimum of 1",
            ),
            (
                json!({"n": "x"}),
                "/n",
                "`n`: \"x\" is not of type \"integer\"",
            ),
            (
                json!({"n": 1, "poling": 2}),
                "/poling",
                "unknown key `poling`: did you mean `polling`?",
            ),
            (json!([1]), "", "it must be a table, not [1]"),
        ];
        for (config, pointer, detail) in table {
            let problem = check_with(&schema(), &config).unwrap_err();
            assert_eq!(
                (problem.pointer.as_str(), problem.detail.as_str()),
                (pointer, detail)
            );
        }
    }
}
