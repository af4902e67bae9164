//! Configs from a schema: such as should be accepted, and such as should be refused.

use std::collections::BTreeSet;

use jsonschema::Validator;
use serde_json::{Map, Value, json};

use super::texts;

/// How sure it is that a plugin has to accept a config.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// The author says so, in the options or in the schema.
    Known,
    /// The schema says so of the value at this pointer.
    Varied(String),
    /// Values had to be made up.
    Guessed,
}

/// A config that fits the schema.
#[derive(Clone, Debug)]
pub(super) struct Valid {
    pub config: Value,
    pub label: String,
    pub trust: Trust,
}

/// A config that a plugin has to refuse.
#[derive(Clone, Debug)]
pub(super) struct Invalid {
    pub config: Value,
    pub label: String,
    /// The key that has to be named; empty for any.
    pub key: String,
}

/// The schema with what is needed to read it.
pub(super) struct Schema<'s> {
    root: &'s Value,
    validator: &'s Validator,
}

/// A property, wherever it is: its pointer and its schema.
struct Property<'s> {
    pointer: String,
    schema: &'s Value,
}

impl<'s> Schema<'s> {
    pub fn new(root: &'s Value, validator: &'s Validator) -> Self {
        Self { root, validator }
    }

    /// Follows references, and takes the first alternative that is not null.
    fn resolve(&self, schema: &'s Value) -> &'s Value {
        let mut schema = schema;
        for _ in 0..16 {
            let reference = schema.get("$ref").and_then(Value::as_str);
            if let Some(target) = reference.and_then(|r| self.root.pointer(r.strip_prefix('#')?)) {
                schema = target;
                continue;
            }
            let alternatives = ["anyOf", "oneOf"]
                .iter()
                .find_map(|key| schema.get(key)?.as_array());
            let is_null = |schema: &&Value| schema.get("type") != Some(&json!("null"));
            match alternatives.and_then(|list| list.iter().find(is_null)) {
                Some(first) if schema.get("type").is_none() => schema = first,
                _ => break,
            }
        }
        schema
    }

    /// As the host fills it, before the plugin sees it.
    pub fn filled(&self, config: &Value) -> Value {
        let mut filled = config.as_object().cloned().unwrap_or_default();
        for (key, property) in self.properties_of(self.root) {
            if let Some(default) = property.get("default")
                && !filled.contains_key(key)
            {
                filled.insert(key.clone(), default.clone());
            }
        }
        Value::Object(filled)
    }

    /// Whether a config fits.
    pub fn fits(&self, config: &Value) -> bool {
        config.is_object() && self.validator.is_valid(&self.filled(config))
    }

    fn properties_of(&self, schema: &'s Value) -> impl Iterator<Item = (&'s String, &'s Value)> {
        let properties = schema.get("properties").and_then(Value::as_object);
        properties.into_iter().flatten()
    }

    /// All properties, those of tables in tables too.
    fn properties(&self) -> Vec<Property<'s>> {
        let mut all = Vec::new();
        self.collect(self.root, "", 0, &mut all);
        all
    }

    fn collect(&self, schema: &'s Value, at: &str, depth: usize, all: &mut Vec<Property<'s>>) {
        for (key, property) in self.properties_of(schema) {
            let pointer = format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
            let property = self.resolve(property);
            if depth < 3 {
                self.collect(property, &pointer, depth + 1, all);
            }
            all.push(Property {
                pointer,
                schema: property,
            });
        }
    }

    /// Something that a schema takes, as far as that is simple.
    fn guess(&self, schema: &'s Value, depth: usize) -> Value {
        let schema = self.resolve(schema);
        for key in ["default", "const"] {
            if let Some(value) = schema.get(key) {
                return value.clone();
            }
        }
        for key in ["examples", "enum"] {
            if let Some(value) = schema.get(key).and_then(|list| list.get(0)) {
                return value.clone();
            }
        }
        let kind = match schema.get("type") {
            Some(Value::String(kind)) => kind.as_str(),
            Some(Value::Array(kinds)) => kinds.first().and_then(Value::as_str).unwrap_or_default(),
            _ if schema.get("properties").is_some() => "object",
            _ => "string",
        };
        let number = |key: &str| schema.get(key).cloned();
        match kind {
            "integer" | "number" => number("minimum")
                .or_else(|| number("maximum"))
                .unwrap_or_else(|| {
                    json!(
                        number("exclusiveMinimum")
                            .map_or(1, |min| { min.as_i64().unwrap_or(0) + 1 })
                    )
                }),
            "boolean" => json!(false),
            "null" => Value::Null,
            "array" => {
                let items = schema
                    .get("minItems")
                    .and_then(Value::as_u64)
                    .unwrap_or(0)
                    .min(8);
                let item = schema.get("items").filter(|_| depth < 8);
                let item = item.map_or(Value::Null, |item| self.guess(item, depth + 1));
                (0..items).map(|_| item.clone()).collect()
            }
            "object" => {
                let required = schema.get("required").and_then(Value::as_array);
                let required = required.into_iter().flatten().filter_map(Value::as_str);
                let mut object = Map::new();
                for key in required.filter(|_| depth < 8) {
                    let property = schema.get("properties").and_then(|all| all.get(key));
                    let value = property.map_or(json!("kit"), |p| self.guess(p, depth + 1));
                    object.insert(key.to_owned(), value);
                }
                Value::Object(object)
            }
            _ => {
                let min = schema.get("minLength").and_then(Value::as_u64).unwrap_or(0);
                let format = schema
                    .get("format")
                    .and_then(Value::as_str)
                    .unwrap_or_default();
                let word = if format == "uri" {
                    "https://kit.example"
                } else {
                    "kit"
                };
                json!(word.repeat(1 + min.min(1000) as usize / word.len()))
            }
        }
    }

    /// Configs that should be accepted, the surest first. `given` are the author's.
    pub fn valid(&self, given: &[Value]) -> Vec<Valid> {
        let mut all: Vec<Valid> = Vec::new();
        let mut add = |config: Value, label: String, trust: Trust| {
            if all.iter().all(|known| known.config != config) {
                all.push(Valid {
                    config,
                    label,
                    trust,
                });
            }
        };
        for (index, config) in given.iter().enumerate() {
            add(
                config.clone(),
                format!("config {} of those given", index + 1),
                Trust::Known,
            );
        }
        let examples = self.root.get("examples").and_then(Value::as_array);
        for (index, config) in examples.into_iter().flatten().enumerate() {
            add(
                config.clone(),
                format!("example {} of the schema", index + 1),
                Trust::Known,
            );
        }
        if self.fits(&json!({})) {
            add(json!({}), "the defaults".to_owned(), Trust::Known);
        }
        // Made-up values are the last resort: a plugin may want more of them than a schema can say.
        let guess = self.guess(self.root, 0);
        if all.is_empty() && self.fits(&guess) {
            let label = "the required keys, with values made up".to_owned();
            all.push(Valid {
                config: guess,
                label,
                trust: Trust::Guessed,
            });
        }
        all
    }

    /// `base` with one property set to something that its schema takes, in random order, but what
    /// makes a plugin behave differently (words, switches) before mere numbers.
    pub fn varied(&self, base: &Value, random: &mut fastrand::Rng) -> Vec<Valid> {
        let mut all = Vec::new();
        for Property { pointer, schema } in self.properties() {
            let mut values: Vec<(Value, bool)> = Vec::new();
            for key in ["examples", "enum"] {
                let list = schema.get(key).and_then(Value::as_array);
                values.extend(
                    list.into_iter()
                        .flatten()
                        .map(|value| (value.clone(), true)),
                );
            }
            for key in ["const", "minimum", "maximum"] {
                values.extend(schema.get(key).map(|value| (value.clone(), true)));
            }
            match schema.get("type").and_then(Value::as_str) {
                Some("boolean") => values.extend([(json!(true), true), (json!(false), true)]),
                // Nobody means it, but nothing forbids it.
                Some("integer") if schema.get("maximum").is_none() => {
                    values.push((json!(u32::MAX), false));
                }
                _ => {}
            }
            for (value, sure) in values {
                let Some(config) = with(base, &pointer, value.clone()) else {
                    continue;
                };
                if config == *base
                    || self.filled(base) == self.filled(&config)
                    || !self.fits(&config)
                {
                    continue;
                }
                let trust = if sure {
                    Trust::Varied(pointer.clone())
                } else {
                    Trust::Guessed
                };
                let label = format!("`{pointer}` set to {value}");
                all.push((
                    value.is_number(),
                    Valid {
                        config,
                        label,
                        trust,
                    },
                ));
            }
        }
        random.shuffle(&mut all);
        all.sort_by_key(|(is_number, _)| *is_number);
        all.into_iter().map(|(_, valid)| valid).collect()
    }

    /// Configs that must be refused, made from a `base` that is accepted.
    pub fn invalid(&self, base: &Value) -> Vec<Invalid> {
        let mut all = Vec::new();
        let mut add = |config: Option<Value>, label: String, key: &str| {
            if let Some(config) = config {
                let key = key.rsplit('/').next().unwrap_or_default().to_owned();
                all.push(Invalid { config, label, key });
            }
        };
        let wrong = [
            json!("kit"),
            json!(["kit"]),
            json!({"kit": 1}),
            json!(2.5),
            json!(true),
        ];
        for Property { pointer, schema } in self.properties() {
            let refused = |value: &Value| {
                with(base, &pointer, value.clone()).filter(|config| !self.fits(config))
            };
            let misfits = wrong
                .iter()
                .filter_map(|value| Some((value, refused(value)?)));
            for (value, config) in misfits.take(2) {
                let label = format!("`{pointer}` set to {value}, of a type that it does not have");
                add(Some(config), label, &pointer);
            }
            let mut beyond = Vec::new();
            if schema.get("enum").is_some() {
                beyond.push(json!("no-such-value"));
            }
            for (key, step) in [("minimum", -1.0), ("maximum", 1.0)] {
                match schema.get(key) {
                    Some(Value::Number(bound)) if bound.is_i64() => {
                        beyond.extend(
                            bound
                                .as_i64()
                                .map(|bound| json!(bound.saturating_add(step as i64))),
                        );
                    }
                    Some(bound) => beyond.extend(bound.as_f64().map(|bound| json!(bound + step))),
                    None => {}
                }
            }
            if schema.get("minLength").is_some() {
                beyond.push(json!(""));
            }
            if schema.get("minItems").is_some() {
                beyond.push(json!([]));
            }
            for value in beyond {
                let label = format!("`{pointer}` set to {value}, which its schema rules out");
                add(refused(&value), label, &pointer);
            }
            let broken = match schema.get("format").and_then(Value::as_str) {
                Some("regex") => Some("(["),
                Some("jinja" | "template" | "jinja-template") => Some("{% if %}{{"),
                _ => None,
            };
            if let Some(broken) = broken {
                let label = format!(
                    "`{pointer}` set to `{broken}`, which is no {}",
                    schema["format"]
                );
                add(with(base, &pointer, json!(broken)), label, &pointer);
            }
        }
        let required = self.root.get("required").and_then(Value::as_array);
        for key in required.into_iter().flatten().filter_map(Value::as_str) {
            let mut config = base.clone();
            if let Some(map) = config.as_object_mut() {
                map.shift_remove(key);
            }
            let left_out = Some(config).filter(|config| !self.fits(config));
            add(left_out, format!("without `{key}`, which is required"), key);
        }
        let tables = self.properties().into_iter().map(|p| (p.pointer, p.schema));
        for (pointer, schema) in tables.chain([(String::new(), self.root)]) {
            if schema.get("additionalProperties") == Some(&json!(false)) {
                let key = "no_such_key_kit";
                let config = with(base, &format!("{pointer}/{key}"), json!(1));
                let config = config.filter(|config| !self.fits(config));
                add(
                    config,
                    format!("with the unknown key `{pointer}/{key}`"),
                    key,
                );
            }
        }
        all
    }

    /// `base` with odd texts in place of its texts: to be taken or refused.
    pub fn hostile(&self, base: &Value, size: usize) -> Vec<Invalid> {
        let mut all = Vec::new();
        let mut odd = texts::odd();
        odd.extend(texts::huge(size).into_iter().take(5));
        odd.extend(texts::deep(2000));
        for Property { pointer, schema } in self.properties() {
            for (label, text) in &odd {
                let list = schema.get("type") == Some(&json!("array"));
                let value = if list { json!([text]) } else { json!(text) };
                let config = with(base, &pointer, value).filter(|config| self.fits(config));
                all.extend(config.map(|config| Invalid {
                    config,
                    label: format!("`{pointer}` set to {label}"),
                    key: String::new(),
                }));
            }
        }
        // Texts further down: in lists, in tables of lists, in tables without fixed keys.
        let mut bases = vec![self.filled(base)];
        bases.extend(self.properties().into_iter().filter_map(|property| {
            let value = self.furnished(property.schema, 0);
            with(base, &property.pointer, value).filter(|config| self.fits(config))
        }));
        let mut seen: BTreeSet<String> = self
            .properties()
            .into_iter()
            .map(|property| property.pointer)
            .collect();
        for base in bases {
            let mut pointers = Vec::new();
            places(&base, "", &mut pointers);
            for pointer in pointers {
                // One member of a list is as good as the next.
                if !seen.insert(pointer.replace(|c: char| c.is_ascii_digit(), "0")) {
                    continue;
                }
                for (label, text) in &odd {
                    let mut config = base.clone();
                    if let Some(place) = config.pointer_mut(&pointer) {
                        *place = json!(text);
                    }
                    if self.fits(&config) {
                        all.push(Invalid {
                            config,
                            label: format!("`{pointer}` set to {label}"),
                            key: String::new(),
                        });
                    }
                }
            }
        }
        all
    }

    /// A value with a member in every list and every table, so that all texts are there.
    fn furnished(&self, schema: &'s Value, depth: usize) -> Value {
        let schema = self.resolve(schema);
        if depth > 6 {
            return self.guess(schema, depth);
        }
        let inner = |schema| self.furnished(schema, depth + 1);
        let item = schema.get("items").filter(|items| items.is_object());
        if let Some(item) = item {
            return json!([inner(item)]);
        }
        let other = schema.get("additionalProperties");
        let other = other.filter(|other| other.is_object());
        if schema.get("properties").is_none() && other.is_none() {
            return self.guess(schema, depth);
        }
        let own = self.properties_of(schema);
        let mut table: Map<String, Value> =
            own.map(|(key, own)| (key.clone(), inner(own))).collect();
        if let Some(other) = other {
            table.insert("kit".to_owned(), inner(other));
        }
        Value::Object(table)
    }
}

/// The pointers of all texts in a value.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::String(_) => found.push(at.to_owned()),
        Value::Array(list) => {
            for (index, value) in list.iter().enumerate() {
                places(value, &format!("{at}/{index}"), found);
            }
        }
        Value::Object(table) => {
            for (key, value) in table {
                let key = key.replace('~', "~0").replace('/', "~1");
                places(value, &format!("{at}/{key}"), found);
            }
        }
        _ => {}
    }
}

/// A copy with the value at a pointer set; tables on the way are made.
fn with(base: &Value, pointer: &str, value: Value) -> Option<Value> {
    let mut config = base.clone();
    let mut there = &mut config;
    for key in pointer.strip_prefix('/')?.split('/') {
        let key = key.replace("~1", "/").replace("~0", "~");
        if there.is_null() {
            *there = json!({});
        }
        there = there.as_object_mut()?.entry(key).or_insert(Value::Null);
    }
    *there = value;
    Some(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_in_lists_and_tables_get_odd_texts_too() {
        let root = json!({
            "type": "object",
            "properties": {
                "rules": {
                    "type": "array",
                    "default": [],
                    "items": {
                        "type": "object",
                        "properties": {
                            "name": {"type": "string"},
                            "tags": {"type": "array", "items": {"type": "string"}},
                        },
                        "required": ["name"],
                        "additionalProperties": false,
                    },
                },
                "words": {"type": "object", "additionalProperties": {"type": "string"}},
                "n": {"type": "integer", "default": 1},
            },
            "additionalProperties": false,
        });
        let validator = jsonschema::validator_for(&root).unwrap();
        let hostile = Schema::new(&root, &validator).hostile(&json!({}), 64);
        for pointer in ["/rules/0/name", "/rules/0/tags/0", "/words/kit"] {
            let label = format!("`{pointer}` set to");
            let of_it = hostile.iter().filter(|odd| odd.label.starts_with(&label));
            assert!(of_it.count() > 3, "{pointer}");
        }
        assert!(hostile.iter().all(|odd| validator.is_valid(&odd.config)));
    }

    fn schema() -> Value {
        json!({
            "type": "object",
            "additionalProperties": false,
            "required": ["n", "where"],
            "$defs": {"colour": {"enum": ["red", "blue"]}},
            "properties": {
                "n": {"type": "integer", "minimum": 1, "maximum": 9},
                "where": {"type": "object", "required": ["host"], "additionalProperties": false,
                          "properties": {"host": {"type": "string", "minLength": 5}}},
                "colour": {"$ref": "#/$defs/colour"},
                "find": {"type": "string", "format": "regex", "default": "."},
                "loud": {"type": "boolean"},
            },
        })
    }

    #[test]
    fn configs_of_a_schema() {
        let root = schema();
        let validator = jsonschema::validator_for(&root).unwrap();
        let schema = Schema::new(&root, &validator);
        let valid = schema.valid(&[]);
        let base = json!({"n": 1, "where": {"host": "kitkit"}});
        assert_eq!(
            (valid.len(), &valid[0].config, &valid[0].trust),
            (1, &base, &Trust::Guessed)
        );
        let varied = schema.varied(&base, &mut fastrand::Rng::with_seed(1));
        let mut labels: Vec<&str> = varied.iter().map(|v| v.label.as_str()).collect();
        assert_eq!(labels.last(), Some(&"`/n` set to 9"));
        labels.sort_unstable();
        assert_eq!(
            labels,
            [
                "`/colour` set to \"blue\"",
                "`/colour` set to \"red\"",
                "`/loud` set to false",
                "`/loud` set to true",
                "`/n` set to 9",
            ]
        );
        assert!(varied.iter().all(|valid| schema.fits(&valid.config)));
        let invalid = schema.invalid(&base);
        let mut keys: Vec<(&str, &Value)> = invalid
            .iter()
            .map(|i| (i.key.as_str(), &i.config))
            .collect();
        for expected in [
            ("n", json!({"n": 0, "where": {"host": "kitkit"}})),
            ("n", json!({"n": 10, "where": {"host": "kitkit"}})),
            ("n", json!({"where": {"host": "kitkit"}})),
            ("host", json!({"n": 1, "where": {"host": ""}})),
            (
                "colour",
                json!({"n": 1, "where": {"host": "kitkit"}, "colour": "no-such-value"}),
            ),
            (
                "find",
                json!({"n": 1, "where": {"host": "kitkit"}, "find": "(["}),
            ),
            (
                "no_such_key_kit",
                json!({"n": 1, "where": {"host": "kitkit", "no_such_key_kit": 1}}),
            ),
            (
                "no_such_key_kit",
                json!({"n": 1, "where": {"host": "kitkit"}, "no_such_key_kit": 1}),
            ),
        ] {
            let found = keys
                .iter()
                .position(|(key, config)| (*key, *config) == (expected.0, &expected.1));
            keys.remove(found.unwrap_or_else(|| panic!("{expected:?} is not among {keys:?}")));
        }
        // All but the broken expression are for the schema to refuse.
        let fit: Vec<_> = invalid.iter().filter(|i| schema.fits(&i.config)).collect();
        assert_eq!(fit.len(), 1);
        assert_eq!(fit[0].key, "find");
        let hostile = schema.hostile(&base, 1000);
        assert!(hostile.len() > 50 && hostile.iter().all(|h| schema.fits(&h.config)));
    }

    #[test]
    fn what_the_author_says_comes_first() {
        let root = json!({"type": "object", "examples": [{"a": 1}], "properties": {"a": {}}});
        let validator = jsonschema::validator_for(&root).unwrap();
        let valid = Schema::new(&root, &validator).valid(&[json!({"a": 2})]);
        let configs: Vec<_> = valid
            .iter()
            .map(|v| (v.config.clone(), v.trust.clone()))
            .collect();
        assert_eq!(
            configs,
            [
                (json!({"a": 2}), Trust::Known),
                (json!({"a": 1}), Trust::Known),
                (json!({}), Trust::Known)
            ]
        );
    }
}
