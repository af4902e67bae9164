//! Valid and invalid configs.

use super::*;

fn refused(config: Value) -> PluginError {
    let error = configure::<SweAgentParser>(config).err();
    error.expect("the config is bad")
}

#[test]
fn bad_tables() {
    let argument = |name: &str, required: bool| json!({ "name": name, "type": "string", "required": required });
    for (commands, pointer, part) in [
        (
            json!([{ "name": "a" }, { "name": "a" }]),
            "/commands/1/name",
            "the same name",
        ),
        (
            json!([{ "name": "bash" }]),
            "/commands/0/name",
            "`bash_tool`",
        ),
        (
            json!([{ "name": "a", "arguments": [argument("x", false), argument("y", true)] }]),
            "/commands/0/arguments/1",
            "follows `x`",
        ),
        (
            json!([{ "name": "a", "arguments": [argument("x", true), argument("x", true)] }]),
            "/commands/0/arguments/1",
            "rename",
        ),
        (
            json!([{ "name": "a", "arguments": [argument("123x", true)] }]),
            "/commands/0/arguments/0/name",
            "`123x`",
        ),
        (
            json!([{ "name": "a", "arguments": [argument("", true)] }]),
            "/commands/0/arguments/0/name",
            "not a name",
        ),
        (
            json!([{ "name": "a", "signature": "a <y>", "arguments": [argument("x", true)] }]),
            "/commands/0/signature",
            "`x` is missing",
        ),
        (
            json!([{ "name": "a", "signature": "a <x> <y>", "arguments": [argument("x", true)] }]),
            "/commands/0/signature",
            "`y` stands in it",
        ),
        (
            json!([{ "name": "a", "signature": "a --x", "arguments": [argument("x", true)] }]),
            "/commands/0/signature",
            "`--x <x>`",
        ),
    ] {
        for compat in [false, true] {
            let error = refused(json!({ "commands": commands, "compat": compat }));
            assert_eq!(error.code, "invalid-config");
            assert!(error.message.contains(part), "{}", error.message);
            let extra = json!({ "pointer": pointer }).to_string();
            assert_eq!(error.extra, Some(extra), "{}", error.message);
        }
    }
}

#[test]
fn good_names_of_arguments() {
    for name in ["a", "with-dash", "with123numbers", "_x"] {
        let argument = json!({ "name": name, "type": "string", "required": true });
        let commands = json!([{ "name": "a", "arguments": [argument] }]);
        assert!(configure::<SweAgentParser>(json!({ "commands": commands })).is_ok());
    }
}

/// SWE-agent checks only the beginning of a name.
#[test]
fn a_name_that_only_begins_well() {
    let argument = json!({ "name": "a b", "type": "string", "required": true });
    let commands = json!([{ "name": "a", "arguments": [argument] }]);
    let config = |compat| json!({ "commands": commands, "compat": compat });
    assert!(configure::<SweAgentParser>(config(false)).is_err());
    assert!(configure::<SweAgentParser>(config(true)).is_ok());
}

/// The schema's alternatives have the type, and `compat` if they have this key.
fn may_lack_bash(kind: &str, compat: bool) -> bool {
    let schema: Value = serde_json::from_str(SCHEMA).expect("it is JSON");
    assert_eq!(schema["else"]["properties"]["bash_tool"]["const"], true);
    let alternatives = schema["if"]["anyOf"].as_array().expect("a list");
    alternatives.iter().any(|alternative| {
        let properties = &alternative["properties"];
        let kinds = properties["type"]["enum"].as_array().expect("a list");
        let has_compat = properties["compat"].get("const");
        kinds.contains(&json!(kind)) && has_compat.is_none_or(|wanted| *wanted == compat)
    })
}

#[test]
fn who_may_do_without_a_shell() {
    for (kind, ours, theirs) in [
        ("function_calling", true, true),
        ("json", true, true),
        ("xml_function_calling", true, false),
        ("action", true, false),
        ("thought_action", false, false),
        ("edit_format", false, false),
        ("xml_thought_action", false, false),
        ("action_only", false, false),
        ("identity", false, false),
        ("all_bash_code_blocks", false, false),
        ("single_bash_code_block", false, false),
    ] {
        for (compat, good) in [(false, ours), (true, theirs)] {
            let config = json!({ "type": kind, "bash_tool": false, "compat": compat });
            match configure::<SweAgentParser>(config) {
                Ok(_) => assert!(good, "{kind}, {compat}"),
                Err(error) => {
                    assert!(!good, "{kind}, {compat}");
                    assert_eq!(error.extra.as_deref(), Some(r#"{"pointer":"/bash_tool"}"#));
                }
            }
            assert_eq!(may_lack_bash(kind, compat), good, "{kind}, {compat}");
        }
    }
}

#[test]
fn a_name_of_ones_own_for_the_shell() {
    let commands = json!([{ "name": "bash", "arguments": [
        { "name": "script", "type": "string", "required": true },
    ] }]);
    let parser = parser(&json!({ "commands": commands, "bash_tool": false }));
    assert_eq!(parser.tools().len(), 1);
}

/// The schema with which the host checks configs describes what the plugin reads.
#[test]
fn the_schema_is_honest() {
    let schema: Value = serde_json::from_str(SCHEMA).expect("it is JSON");
    let properties = schema["properties"].as_object().expect("it has some");
    for (name, property) in properties {
        assert!(property["description"].is_string(), "{name}");
        assert!(property.get("default").is_some(), "{name}");
    }
    let kinds = schema["properties"]["type"]["enum"]
        .as_array()
        .expect("a list");
    assert_eq!(kinds.len(), 11);
    for kind in kinds {
        assert!(
            configure::<SweAgentParser>(json!({ "type": kind })).is_ok(),
            "{kind}"
        );
    }
    for example in schema["examples"].as_array().expect("a list") {
        assert!(
            configure::<SweAgentParser>(example.clone()).is_ok(),
            "{example}"
        );
    }
    let whole = json!([{
        "name": "a", "docstring": null, "signature": null, "end_name": null,
        "arguments": [{
            "name": "x", "type": "string", "description": "", "required": true, "enum": null,
            "items": null, "argument_format": "{{value}}",
        }],
    }]);
    assert!(configure::<SweAgentParser>(json!({ "commands": whole })).is_ok());
    let command = &schema["properties"]["commands"]["items"];
    for (whole, schema) in [
        (&whole[0], command),
        (
            &whole[0]["arguments"][0],
            &command["properties"]["arguments"]["items"],
        ),
    ] {
        let keys = |value: &Value| {
            let map = value.as_object().expect("an object");
            let mut keys: Vec<_> = map.keys().cloned().collect();
            keys.sort();
            keys
        };
        assert_eq!(keys(whole), keys(&schema["properties"]));
    }
}

/// The variants that the host offers, each with a valid config.
#[test]
fn variants() {
    let variants: Value =
        serde_json::from_str(include_str!("../../variants.json")).expect("it is JSON");
    let variants = variants.as_array().expect("it is a list");
    assert_eq!(variants.len(), 11);
    let mut kinds = Vec::new();
    for variant in variants {
        let config = &variant["config"];
        assert!(
            configure::<SweAgentParser>(config.clone()).is_ok(),
            "{variant}"
        );
        let kind = config["type"].as_str().expect("a text");
        let name = variant["name"].as_str().expect("a text");
        assert!(name == kind || name == format!("swe_{kind}"), "{name}");
        assert!(
            variant["summary"]
                .as_str()
                .is_some_and(|text| !text.is_empty())
        );
        kinds.push(kind);
    }
    kinds.sort_unstable();
    kinds.dedup();
    assert_eq!(kinds.len(), 11);
}
