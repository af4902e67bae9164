//! Refuses schemas whose checks could take long or fill the memory.
//!
//! A schema is like a program, and it comes from the plugin: a short one can branch without end. So
//! its weight is computed before it is used: the number of its values after each `$ref` is replaced
//! by its target. Every check of a value visits each of them a bounded number of times, so the work
//! of a check is bounded by the weight times the size of the config.
//!
//! All values count, also those that are no schemas (`default`, `enum`), so that no keyword of any
//! draft is missed.

use std::collections::HashMap;

use serde_json::{Map, Value};

/// The limits of a schema. Those of the first-party plugins have up to 6 KB, a depth of up to 12
/// and a weight of up to 1,300.
const TEXT: usize = 256 << 10;
const DEPTH: usize = 128;
const WEIGHT: u64 = 10_000;
/// Limit of the sum of weights times the values in defaults, which are the part of a config that a
/// plugin chooses.
const WORK: u64 = 300_000;

/// The weight of a regular expression: it is compiled, to at most [`PATTERN_BYTES`].
const PATTERN: u64 = 20;
pub(super) const PATTERN_BYTES: usize = 256 << 10;

/// Checks the size, the depth and the weight of a schema.
///
/// # Errors
/// If the schema exceeds a limit; the text names the limit.
pub(super) fn check(schema: &Value) -> Result<(), String> {
    let text = schema.to_string().len();
    if text > TEXT {
        return Err(format!(
            "is too large: it has {text} bytes, and at most {TEXT} are read"
        ));
    }
    let mut scales = Scales {
        root: schema,
        known: HashMap::new(),
    };
    let (mut others, _) = scales.weigh(schema, 0)?;
    let (mut work, mut defaults) = (0, 0);
    let properties = schema.get("properties").and_then(Value::as_object);
    for property in properties.into_iter().flat_map(Map::values) {
        let (own, _) = scales.weigh(property, 0)?;
        let default = property.get("default");
        let checks = match default {
            Some(default) => own.saturating_sub(scales.weigh(default, 0)?.0),
            None => own,
        };
        let default = default.map_or(0, size);
        // A property's schema checks its own default; the rest of the schema may check all
        // defaults.
        work += checks * (1 + default);
        others = others.saturating_sub(own);
        defaults += default;
    }
    work += others * (1 + defaults);
    if work > WORK {
        return Err(format!(
            "is too large for the {defaults} values of its defaults: to check them takes {work} steps, and {WORK} are allowed"
        ));
    }
    Ok(())
}

/// The number of values in a value; long texts count more.
fn size(value: &Value) -> u64 {
    match value {
        Value::String(text) => 1 + text.len() as u64 / 64,
        Value::Array(items) => 1 + items.iter().map(size).sum::<u64>(),
        Value::Object(map) => 1 + map.values().map(size).sum::<u64>(),
        _ => 1,
    }
}

struct Scales<'a> {
    root: &'a Value,
    /// The weights and heights that are computed.
    known: HashMap<*const Value, (u64, usize)>,
}

impl<'a> Scales<'a> {
    /// Weight and height of a part.
    fn weigh(&mut self, part: &'a Value, depth: usize) -> Result<(u64, usize), String> {
        let at = std::ptr::from_ref(part);
        let known = self.known.get(&at).copied();
        if depth + known.map_or(0, |(_, height)| height) > DEPTH {
            return Err(format!(
                "is too deep: its parts lie more than {DEPTH} deep in each other, references followed; one that refers to itself has no end"
            ));
        }
        if let Some(known) = known {
            return Ok(known);
        }
        let mut inner: Vec<&Value> = Vec::new();
        let mut weight = 1;
        match part {
            Value::String(_) => weight = size(part),
            Value::Array(items) => inner.extend(items),
            Value::Object(map) => {
                inner.extend(map.values());
                weight += PATTERN * patterns(map);
                inner.extend(self.target(part, map)?);
            }
            _ => {}
        }
        let mut height = 0;
        for part in inner {
            let (weighs, high) = self.weigh(part, depth + 1)?;
            weight += weighs;
            height = height.max(high + 1);
        }
        if part.get("unevaluatedProperties").is_some() || part.get("unevaluatedItems").is_some() {
            // The parts below are visited once more, and again for each of their levels.
            weight *= 1 + height as u64;
        }
        if weight > WEIGHT {
            return Err(format!(
                "is too large: with each `$ref` replaced by what it refers to, it has more than {WEIGHT} values (a regular expression counts for {PATTERN}, `unevaluatedProperties` and `unevaluatedItems` multiply what is below them by its depth)"
            ));
        }
        self.known.insert(at, (weight, height));
        Ok((weight, height))
    }

    /// The target of a reference.
    fn target(
        &self,
        part: &Value,
        map: &'a Map<String, Value>,
    ) -> Result<Option<&'a Value>, String> {
        let text = |key: &str| map.get(key).and_then(Value::as_str);
        if let Some(key) = ["$dynamicRef", "$recursiveRef"]
            .into_iter()
            .find(|key| text(key).is_some())
        {
            return Err(format!("uses `{key}`: write a `$ref` instead"));
        }
        // In a schema with an identifier of its own inside, `#/...` would refer to another place.
        let draft_4 = self.root.get("$schema").and_then(Value::as_str);
        let draft_4 = draft_4.is_some_and(|draft| draft.contains("draft-04"));
        let named = text("$id").or_else(|| text("id").filter(|_| draft_4));
        if let Some(name) = named.filter(|_| !std::ptr::eq(part, self.root)) {
            return Err(format!(
                "has a part with an `$id` of its own, `{name}`: leave it out, and refer to the part as `#/...`"
            ));
        }
        let Some(reference) = text("$ref") else {
            return Ok(None);
        };
        let pointer = reference
            .strip_prefix('#')
            .filter(|pointer| pointer.is_empty() || pointer.starts_with('/'))
            .filter(|pointer| !pointer.contains('%'));
        let target = pointer.and_then(|pointer| self.root.pointer(pointer));
        target.map(Some).ok_or_else(|| {
            format!(
                "refers to `{reference}`, which is not a part of it: a `$ref` is written as `#/...`"
            )
        })
    }
}

/// The number of regular expressions directly in a part.
fn patterns(map: &Map<String, Value>) -> u64 {
    let of_names = map.get("patternProperties").and_then(Value::as_object);
    let of_texts = map.get("pattern").is_some_and(Value::is_string);
    u64::from(of_texts) + of_names.map_or(0, |names| names.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A schema whose check takes 2^levels steps.
    fn doubling(levels: usize) -> Value {
        let mut definitions = Map::new();
        for level in 0..levels {
            let next = json!({"$ref": format!("#/$defs/l{}", level + 1)});
            definitions.insert(format!("l{level}"), json!({"anyOf": [next.clone(), next]}));
        }
        definitions.insert(format!("l{levels}"), json!({"required": ["never"]}));
        json!({"$defs": definitions, "$ref": "#/$defs/l0"})
    }

    /// Nested by `wrap` on each level.
    fn nested(levels: usize, wrap: impl Fn(Value) -> Value) -> Value {
        (0..levels).fold(json!({"required": ["never"]}), |inner, _| wrap(inner))
    }

    #[test]
    fn what_could_explode_is_refused_and_says_why() {
        let deep = |levels| nested(levels, |inner| json!({"a": inner}));
        let chain: Map<String, Value> = (0..4000)
            .map(|n| {
                let next = format!("#/$defs/l{}", n + 1);
                (format!("l{n}"), json!({"$ref": next}))
            })
            .chain([("l4000".to_owned(), json!({"type": "object"}))])
            .collect();
        let patterns: Vec<Value> = (0..600)
            .map(|n| json!({"pattern": format!("\\p{{L}}{{{}}}", 100 + n)}))
            .collect();
        let table = [
            (doubling(41), "more than 10000 values"),
            (
                nested(
                    16,
                    |inner| json!({"allOf": [inner], "unevaluatedProperties": false}),
                ),
                "more than 10000 values",
            ),
            (
                json!({"anyOf": patterns}),
                "a regular expression counts for 20",
            ),
            (json!({"enum": vec![0; 20_000]}), "more than 10000 values"),
            (
                json!({"title": "x".repeat(300_000)}),
                "at most 262144 are read",
            ),
            (
                json!({
                    "properties": {"a": {"default": vec![0; 600], "items": {"allOf": vec![json!(true); 600]}}}
                }),
                "and 300000 are allowed",
            ),
            (
                json!({"$defs": chain, "$ref": "#/$defs/l0"}),
                "more than 128 deep",
            ),
            (deep(200), "more than 128 deep"),
            (json!({"$ref": "#"}), "one that refers to itself has no end"),
            (
                json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}),
                "more than 128 deep",
            ),
            // Branches with the depth of the config, which its defaults make deep.
            (
                json!({
                    "anyOf": [{"properties": {"a": {"$ref": "#"}}}, {"additionalProperties": {"$ref": "#"}}],
                    "properties": {"a": {"default": deep(60)}}
                }),
                "more than 128 deep",
            ),
            (json!({"not": {"$ref": "#"}}), "more than 128 deep"),
            (
                json!({"$dynamicAnchor": "x", "anyOf": [{"$dynamicRef": "#x"}]}),
                "uses `$dynamicRef`",
            ),
            (json!({"$recursiveRef": "#"}), "uses `$recursiveRef`"),
            (
                json!({"$defs": {"a": {"$anchor": "a"}}, "$ref": "#a"}),
                "refers to `#a`",
            ),
            (json!({"$ref": "https://example.com/x"}), "not a part of it"),
            (
                json!({"$ref": "#/$defs/%61", "$defs": {"a": true}}),
                "not a part of it",
            ),
            (
                json!({"properties": {"a": {"$id": "urn:b", "$ref": "#/x", "x": {}}}, "x": {}}),
                "an `$id` of its own, `urn:b`",
            ),
            (
                json!({"$schema": "http://json-schema.org/draft-04/schema#", "allOf": [{"id": "urn:b"}]}),
                "an `$id` of its own, `urn:b`",
            ),
        ];
        for (schema, why) in table {
            let Err(refused) = check(&schema) else {
                panic!("{why}: {schema}");
            };
            assert!(refused.contains(why), "{why}: {refused}");
        }
    }

    #[test]
    fn what_people_write_is_taken() {
        let names: Map<String, Value> = (0..200)
            .map(|n| {
                let one = json!({"$ref": "#/$defs/choice", "description": "x".repeat(200), "default": "a"});
                (format!("n{n}"), one)
            })
            .collect();
        for schema in [
            json!({"$id": "https://example.com/config", "type": "object"}),
            json!({"properties": {"rules": {"default": vec![json!({"pattern": "x", "do": "ask"}); 200]}}}),
            json!({"$defs": {"choice": {"enum": ["a", "b", "c"]}}, "properties": names}),
            json!({"properties": {"$ref": {"type": "string"}, "default": {"default": {"id": "x"}}}}),
            json!({"examples": [{"id": "call_1"}], "properties": {"a": {"pattern": "^a$"}}}),
            nested(
                20,
                |inner| json!({"type": "object", "properties": {"a": inner}}),
            ),
            nested(
                3,
                |inner| json!({"allOf": [inner], "unevaluatedProperties": false}),
            ),
        ] {
            assert_eq!(check(&schema), Ok(()), "{schema}");
        }
    }
}
