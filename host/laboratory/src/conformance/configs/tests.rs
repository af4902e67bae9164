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
    let hostile = ConfigSchema::new(&root, &validator).hostile(&json!({}), 64);
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
    let schema = ConfigSchema::new(&root, &validator);
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
    // The schema refuses all of them, except the broken expression.
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
    let valid = ConfigSchema::new(&root, &validator).valid(&[json!({"a": 2})]);
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
