//! Schemas of tools: the part of JSON Schema that Gemini accepts.

use serde_json::{Map, Value, json};

/// The keys that a schema may have.
const KNOWN: [&str; 22] = [
    "type",
    "format",
    "title",
    "description",
    "nullable",
    "enum",
    "properties",
    "required",
    "propertyOrdering",
    "items",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "pattern",
    "anyOf",
    "default",
    "example",
];

/// The formats that a string may have; all formats of numbers are accepted.
const STRING_FORMATS: [&str; 2] = ["enum", "date-time"];

/// Reduces a schema; the names of dropped keys are added to `dropped`.
pub fn fit(schema: &Value, dropped: &mut Vec<String>) -> Value {
    let Value::Object(keys) = schema else {
        return schema.clone();
    };
    let mut out = Map::new();
    for (key, value) in keys {
        match (key.as_str(), value) {
            ("properties", Value::Object(properties)) => {
                let fitted = properties.iter();
                let fitted = fitted.map(|(name, schema)| (name.clone(), fit(schema, dropped)));
                out.insert(key.clone(), Value::Object(fitted.collect()));
            }
            ("items", schema) => {
                out.insert(key.clone(), fit(schema, dropped));
            }
            ("anyOf" | "oneOf", Value::Array(choices)) => {
                let fitted = choices.iter().map(|schema| fit(schema, dropped));
                out.insert("anyOf".to_owned(), fitted.collect());
            }
            ("type", Value::Array(types)) => fit_types(types, &mut out),
            ("const", value) => {
                out.insert("enum".to_owned(), json!([value]));
            }
            ("format", Value::String(format))
                if keys.get("type").is_some_and(|kind| kind == "string")
                    && !STRING_FORMATS.contains(&format.as_str()) =>
            {
                note(dropped, &format!("format: {format}"));
            }
            (name, value) if KNOWN.contains(&name) => {
                out.insert(key.clone(), value.clone());
            }
            (name, _) => note(dropped, name),
        }
    }
    Value::Object(out)
}

/// Several types become one that may be null, or a choice.
fn fit_types(types: &[Value], out: &mut Map<String, Value>) {
    let (null, others): (Vec<&Value>, Vec<&Value>) = types.iter().partition(|kind| *kind == "null");
    if !null.is_empty() {
        out.insert("nullable".to_owned(), json!(true));
    }
    match &others[..] {
        [] => {}
        [one] => {
            out.insert("type".to_owned(), (*one).clone());
        }
        several => {
            let choices = several.iter().map(|kind| json!({ "type": kind }));
            out.insert("anyOf".to_owned(), choices.collect());
        }
    }
}

fn note(dropped: &mut Vec<String>, what: &str) {
    if !dropped.iter().any(|known| known == what) {
        dropped.push(what.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_keep_what_gemini_takes_and_say_what_they_lose() {
        // schema, expected result, expected dropped keys
        let vectors = [
            (
                json!({"type": "object", "properties": {"command": {"type": "string", "description": "d"}}, "required": ["command"]}),
                json!({"type": "object", "properties": {"command": {"type": "string", "description": "d"}}, "required": ["command"]}),
                vec![],
            ),
            (
                json!({"$schema": "x", "type": "object", "additionalProperties": false, "properties": {
                    "$schema": {"type": ["string", "null"], "format": "uri", "const": "a"},
                    "list": {"type": "array", "items": {"type": "integer", "format": "int32", "exclusiveMinimum": 0}},
                    "time": {"type": "string", "format": "date-time"},
                    "any": {"type": ["string", "integer"]},
                    "one": {"oneOf": [{"type": "string", "$comment": "c"}, {"type": "null", "additionalProperties": {}}]}}}),
                json!({"type": "object", "properties": {
                    "$schema": {"type": "string", "nullable": true, "enum": ["a"], "format": "uri"},
                    "list": {"type": "array", "items": {"type": "integer", "format": "int32"}},
                    "time": {"type": "string", "format": "date-time"},
                    "any": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
                    "one": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}),
                vec![
                    "$schema",
                    "additionalProperties",
                    "exclusiveMinimum",
                    "$comment",
                ],
            ),
            (
                json!({"type": "string", "format": "uri"}),
                json!({"type": "string"}),
                vec!["format: uri"],
            ),
            (json!(true), json!(true), vec![]),
        ];
        for (schema, expected, names) in vectors {
            let mut dropped = Vec::new();
            assert_eq!(fit(&schema, &mut dropped), expected);
            assert_eq!(dropped, names);
        }
    }
}
