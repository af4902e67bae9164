//! The JSON Schema of a configuration, for editors: `config schema`.

use serde_json::{Map, Value, json};

use super::keys::{self, ConfigKey, Found, KEYS, MAX_SECONDS, Type};

/// The schema of a whole config file. No key is required: a file may set a single key and leave the
/// others to other layers.
pub fn schema() -> Value {
    let mut root = group(&[]);
    for key in KEYS {
        let segments: Vec<&str> = key.segments().collect();
        let Some((last, groups)) = segments.split_last() else {
            continue;
        };
        let mut place = &mut root;
        for (depth, name) in groups.iter().enumerate() {
            place = member(place, name, || group(&groups[..=depth]));
        }
        *member(place, last, || Value::Null) = of_key(key);
    }
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "mswea-host configuration",
    });
    if let (Value::Object(schema), Value::Object(root)) = (&mut schema, root) {
        schema.extend(root);
    }
    schema
}

fn group(path: &[&str]) -> Value {
    let nullable = matches!(keys::find(path), Found::Group { nullable: true });
    let kind = if nullable {
        json!(["object", "null"])
    } else {
        json!("object")
    };
    json!({"type": kind, "properties": {}, "additionalProperties": false})
}

/// The place of a member in a group's schema; a `*` stands for any name.
fn member<'a>(group: &'a mut Value, name: &str, make: impl FnOnce() -> Value) -> &'a mut Value {
    if name == "*" {
        let slot = &mut group["additionalProperties"];
        if slot == &Value::Bool(false) {
            *slot = make();
        }
        return slot;
    }
    let slot = &mut group["properties"][name];
    if slot.is_null() {
        *slot = make();
    }
    slot
}

fn of_key(key: &ConfigKey) -> Value {
    let mut schema = match key.kind {
        Type::Text => json!({"type": "string"}),
        Type::OneOf(words) => json!({"type": "string", "enum": words}),
        Type::Bool => json!({"type": "boolean"}),
        Type::Int(i64::MIN, _) => json!({"type": "integer"}),
        Type::Int(low, i64::MAX) => json!({"type": "integer", "minimum": low}),
        Type::Int(low, high) => json!({"type": "integer", "minimum": low, "maximum": high}),
        Type::Number(low) if low.is_finite() => json!({"type": "number", "minimum": low}),
        Type::Number(_) => json!({"type": "number"}),
        Type::Seconds => json!({"type": "number", "exclusiveMinimum": 0, "maximum": MAX_SECONDS}),
        Type::TextList => json!({"type": "array", "items": {"type": "string"}}),
        Type::TextMap => {
            json!({"type": "object", "additionalProperties": {"type": ["string", "null"]}})
        }
        Type::Object => json!({"type": "object"}),
    };
    if let Value::Object(map) = &mut schema {
        describe(map, key);
    }
    schema
}

fn describe(schema: &mut Map<String, Value>, key: &ConfigKey) {
    schema.insert("description".to_owned(), key.doc.into());
    if key.default.is_some() {
        schema.insert("default".to_owned(), key.default_value());
    }
    if key.nullable {
        if let Some(kind) = schema.get_mut("type") {
            *kind = json!([kind.clone(), "null"]);
        }
        if let Some(Value::Array(words)) = schema.get_mut("enum") {
            words.push(Value::Null);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Memory;
    use super::*;

    #[test]
    fn the_schema_accepts_what_the_checks_accept() {
        let validator = jsonschema::validator_for(&schema()).unwrap();
        let layers = Memory::new()
            .load(&[
                "text",
                "plugins.mine.config={\"x\": [1, null]}",
                "providers.p.base_url=http://x",
                "model.price={\"input\": 1, \"output\": 2}",
                "environment.env.A=null",
            ])
            .unwrap();
        for value in [
            layers.merged(),
            layers.complete(),
            json!({}),
            json!({"model": {"price": null}}),
        ] {
            let errors: Vec<_> = validator
                .iter_errors(&value)
                .map(|e| e.to_string())
                .collect();
            assert_eq!(errors, Vec::<String>::new());
        }
        for value in [
            json!({"agent": {"step_limit": "1"}}),
            json!({"agent": {"nothing": 1}}),
            json!({"nothing": {}}),
            json!({"plugins": {"p": {"nothing": 1}}}),
            json!({"environment": {"timeout": 0}}),
            json!({"agent": {"mode": "x"}}),
        ] {
            assert!(!validator.is_valid(&value), "{value}");
        }
    }
}
