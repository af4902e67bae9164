//! Configs made from a schema: valid ones, and ones that must be refused.

#[cfg(test)]
mod tests;
mod unusual_texts;

use jsonschema::Validator;
use serde_json::{Map, Value, json};

/// How certain it is that a plugin has to accept a config.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// Certain: the author gives it, in the options or in the schema.
    Known,
    /// The schema allows the value at this pointer.
    Varied(String),
    /// Some values had to be guessed.
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
    /// The key that the refusal must name; empty for any.
    pub key: String,
}

/// A schema and the parts that are needed to interpret it.
pub(super) struct ConfigSchema<'s> {
    root: &'s Value,
    validator: &'s Validator,
}

/// A property at any depth: its pointer and its schema.
struct Property<'s> {
    pointer: String,
    schema: &'s Value,
}

impl<'s> ConfigSchema<'s> {
    pub fn new(root: &'s Value, validator: &'s Validator) -> Self {
        Self { root, validator }
    }

    /// Follows references, and takes the first alternative other than null.
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

    /// The config with defaults, as the host passes it to the plugin.
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

    /// All properties, also those of nested tables.
    fn properties(&self) -> Vec<Property<'s>> {
        let mut all = Vec::new();
        self.collect(self.root, "", 0, &mut all);
        all
    }

    fn collect(&self, schema: &'s Value, at: &str, depth: usize, all: &mut Vec<Property<'s>>) {
        for (key, property) in self.properties_of(schema) {
            let pointer = format!("{at}/{}", escaped(key));
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

    /// A value that the schema probably accepts.
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

    /// Configs that should be accepted, the most certain first. `given` are the author's.
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
        // Guessed values come last: a plugin may demand more of them than a schema can express.
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

    /// `base` with one property set to another value that its schema accepts, in random order;
    /// values that choose a behaviour (words, booleans) come before numbers.
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
                // It is unusual, but the schema allows it.
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
}

/// A key as a segment of a JSON pointer.
fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// A copy with the value at a pointer replaced; missing tables are made.
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
