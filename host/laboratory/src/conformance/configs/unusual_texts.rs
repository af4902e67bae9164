//! Configs with unusual texts in every place that takes a text.

use serde_json::{Map, Value, json};

use std::collections::BTreeSet;

use super::{ConfigSchema, Invalid, Property, escaped, with};
use crate::conformance::texts;

impl<'s> ConfigSchema<'s> {
    /// `base` with unusual texts in place of its texts; the plugin may accept or refuse them.
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
        // Texts at greater depth: in lists, in tables of lists, in tables without fixed keys.
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
                // The members of a list are equivalent.
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

    /// A value with one member in every list and every table, so that all texts are present.
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
                places(value, &format!("{at}/{}", escaped(key)), found);
            }
        }
        _ => {}
    }
}
