//! Checks a plugin's config against the JSON Schema of its descriptor.

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

/// A validator for a plugin's schema.
///
/// # Errors
/// When it is no schema.
pub fn validator(schema: &Value) -> Result<Validator, String> {
    match schema {
        Value::Object(_) | Value::Bool(_) => {}
        _ => return Err("it must be an object".into()),
    }
    jsonschema::validator_for(schema).map_err(|error| error.to_string())
}

/// Checks `config`, and returns it with the defaults of top-level properties filled in.
///
/// # Errors
/// With the first problem.
pub fn check(schema: &Value, validator: &Validator, config: &Value) -> Result<Value, Problem> {
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
        check(schema, &validator(schema).unwrap(), config)
    }

    #[test]
    fn a_schema_that_is_none() {
        assert!(validator(&json!([])).is_err());
        assert!(validator(&json!({"type": "nonsense"})).is_err());
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
