//! Checks a plugin's config against the JSON Schema of its descriptor.
//!
//! The schema comes from the plugin, so it is used only if a check with it can't take long
//! ([`weight`]).

mod weight;

use std::sync::Arc;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, Validator};
use serde_json::{Map, Value};

/// A value that does not fit the schema.
#[derive(Debug, PartialEq, Eq)]
pub struct SchemaProblem {
    /// JSON pointer into the config.
    pub pointer: String,
    /// The error and its remedy.
    pub detail: String,
}

/// A schema that is ready to check configs.
#[derive(Clone, Debug)]
pub struct Schema {
    value: Arc<Value>,
    validator: Arc<Validator>,
}

impl Schema {
    /// Compiles a plugin's schema.
    ///
    /// # Errors
    /// If it is no schema, or checking with it could take long; the text continues the words "its
    /// config schema".
    pub fn new(schema: &Value) -> Result<Self, String> {
        let no_schema = |why: &str| format!("is no JSON Schema: {why}");
        if !(schema.is_object() || schema.is_boolean()) {
            return Err(no_schema("it must be an object"));
        }
        weight::check(schema)?;
        // Of the two engines, the one with linear time. `format` is not checked, as JSON Schema
        // allows: checking one may compile a regular expression.
        let patterns = PatternOptions::regex()
            .size_limit(weight::PATTERN_BYTES)
            .dfa_size_limit(weight::PATTERN_BYTES);
        let validator = jsonschema::options()
            .with_pattern_options(patterns)
            .should_validate_formats(false)
            .build(schema)
            .map_err(|error| no_schema(&error.to_string()))?;
        Ok(Self {
            value: Arc::new(schema.clone()),
            validator: Arc::new(validator),
        })
    }

    /// Checks `config`, and returns it with the defaults of top-level properties filled in.
    ///
    /// # Errors
    /// The first [`SchemaProblem`].
    pub fn check(&self, config: &Value) -> Result<Value, SchemaProblem> {
        check(&self.value, &self.validator, config)
    }
}

fn check(schema: &Value, validator: &Validator, config: &Value) -> Result<Value, SchemaProblem> {
    let mut filled = match config {
        Value::Object(map) => map.clone(),
        Value::Null => Map::new(),
        other => {
            return Err(SchemaProblem {
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
    // Not `iter_errors`, which finds all errors before it returns the first.
    if let Err(error) = validator.validate(&filled) {
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
            // The error of a schema without properties, which does not name the key.
            ValidationErrorKind::FalseSchema if pointer.is_empty() => filled
                .as_object()
                .and_then(|map| map.keys().find(|key| !is_known(properties, key)))
                .cloned(),
            _ => None,
        };
        if let Some(key) = unknown {
            let none = Map::new();
            let properties = properties.unwrap_or(&none);
            let near = mswea_text::nearest(&key, properties.keys().map(String::as_str));
            detail = match near {
                Some(near) => format!("unknown key `{key}`: did you mean `{near}`?"),
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
            return Err(SchemaProblem {
                pointer: format!("/{key}"),
                detail,
            });
        }
        return Err(SchemaProblem { pointer, detail });
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

    fn check_with(schema: &Value, config: &Value) -> Result<Value, SchemaProblem> {
        Schema::new(schema).unwrap().check(config)
    }

    /// Every accepted schema is checked in a short time, also one that takes as long as possible,
    /// with configs that do not fit.
    #[test]
    fn the_worst_that_is_let_in_ends() {
        let never = json!({"required": ["never"]});
        let nested = |levels: usize, wrap: &dyn Fn(Value) -> Value| {
            (0..levels).fold(never.clone(), |inner, _| wrap(inner))
        };
        let doubling: Map<String, Value> = (0..8)
            .map(|level| {
                let next = json!({"$ref": format!("#/$defs/l{}", level + 1)});
                (format!("l{level}"), json!({"oneOf": [next.clone(), next]}))
            })
            .chain([("l8".to_owned(), never.clone())])
            .collect();
        let begun = std::time::Instant::now();
        for schema in [
            nested(60, &|inner| json!({"anyOf": [inner, {"not": {}}]})),
            nested(60, &|inner| json!({"not": inner})),
            nested(
                3,
                &|inner| json!({"allOf": [inner], "unevaluatedProperties": false}),
            ),
            json!({"$defs": doubling, "$ref": "#/$defs/l0"}),
            json!({"anyOf": vec![never.clone(); 2_000]}),
            json!({"properties": {"a": {
                "default": vec!["aaaaaaaa"; 250],
                "items": {"anyOf": vec![json!({"not": {}}); 250]},
            }}}),
            json!({"properties": {"a": {
                "default": "a".repeat(8_000),
                "anyOf": vec![json!({"pattern": "^(a|a?)+$x"}); 10],
            }}}),
        ] {
            let ready = Schema::new(&schema).unwrap();
            let _ = ready.check(&json!({"a": {"a": {}}}));
            let _ = ready.check(&json!({}));
        }
        // A wide limit, for slow machines.
        assert!(begun.elapsed().as_secs() < 60);
    }

    #[test]
    fn a_schema_beyond_the_bounds_is_not_tried() {
        let refused = Schema::new(&json!({"not": {"$ref": "#"}})).unwrap_err();
        assert!(refused.contains("more than 128 deep"), "{refused}");
        let pattern = json!({"pattern": "\\p{L}{10000}"});
        let refused = Schema::new(&pattern).unwrap_err();
        assert!(refused.starts_with("is no JSON Schema"), "{refused}");
    }

    #[test]
    fn a_schema_that_is_none() {
        assert!(Schema::new(&json!([])).is_err());
        assert!(Schema::new(&json!({"type": "nonsense"})).is_err());
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
