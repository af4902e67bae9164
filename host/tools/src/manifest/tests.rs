//! Tests of the manifest.

use serde_json::json;

use super::*;

fn read(source: &str) -> Result<Manifest, String> {
    let file = Path::new("b/config.yaml");
    Reader { file }
        .manifest(source)
        .map_err(|fault| fault.to_string())
}

#[test]
fn commands_as_the_parsers_take_them() {
    let source = "tools:\n  goto:\n    signature: |\n      goto <n>\n    docstring: \"moves\"\n    \
                  arguments:\n      - name: n\n        type: integer\n        required: true\n        \
                  description: where\n  empty:\nstate_command: \"_state\"\nenv_variables: {}\n";
    let manifest = read(source).unwrap();
    let [goto, empty] = &manifest.commands[..] else {
        panic!("{manifest:?}")
    };
    assert_eq!(
        Value::Object(goto.entry.clone()),
        json!({
            "name": "goto", "signature": "goto <n>", "docstring": "moves",
            "arguments": [{
                "name": "n", "type": "integer", "required": true, "description": "where",
            }],
        })
    );
    assert_eq!(Value::Object(empty.entry.clone()), json!({"name": "empty"}));
    assert_eq!(
        manifest.state_command.as_ref().map(|at| at.0.as_str()),
        Some("_state")
    );
    assert_eq!(manifest.ignored, ["env_variables"]);
    for (pointer, line) in [
        ("", 2),
        ("/signature", 3),
        ("/arguments/0", 7),
        ("/arguments/0/type", 8),
        ("/arguments/0/enum/1", 7),
        ("/arguments/7", 7),
        ("/end_name", 2),
    ] {
        assert_eq!(goto.place(pointer).line + 1, line, "{pointer}");
    }
    assert_eq!(read("tools: {}").unwrap().commands, []);
    assert_eq!(read("tools:\n").unwrap().commands, []);
}

#[test]
fn mistakes_have_a_place_and_a_remedy() {
    for (source, place, parts) in [
        ("", ":1:1:", &["key `tools`", "`tools: {}`"][..]),
        ("[a]\n", ":1:1:", &["key `tools`"]),
        ("state_command: x\n", ":1:1:", &["key `tools`"]),
        ("tools: {a: {}\n", ":2:1:", &["invalid YAML"]),
        ("tools: [a]\n", ":1:8:", &["`tools` is no map"]),
        (
            "tools:\n  a: {}\n  a: {}\n",
            ":3:3:",
            &["`a` is there twice", "rename"],
        ),
        ("tools:\n  a b: {}\n", ":2:3:", &["`a b` is not a name"]),
        ("tools:\n  1: {}\n", ":2:3:", &["no text", "quotes"]),
        ("tools:\n  a: x\n", ":2:6:", &["the command `a` is no map"]),
        (
            "tools:\n  a:\n    signature: 5\n",
            ":3:16:",
            &["`signature` of `a` is no text"],
        ),
        (
            "tools:\n  a:\n    arguments: x\n",
            ":3:16:",
            &["is no list"],
        ),
        (
            "tools:\n  a:\n    arguments:\n      - name: x\n        type: string\n",
            ":4:9:",
            &["argument 1 of `a` has no `required`"],
        ),
        (
            "tools:\n  a:\n    arguments:\n      - name: x\n        required: maybe\n",
            ":5:19:",
            &["`required` of argument 1 of `a`", "`true` or `false`"],
        ),
        (
            "tools: {}\nstate_command: [x]\n",
            ":2:16:",
            &["`state_command`", "no text"],
        ),
    ] {
        let text = match read(source) {
            Err(text) => text,
            Ok(manifest) => panic!("{source}: {manifest:?}"),
        };
        assert!(
            text.starts_with(&format!("b/config.yaml{place}")),
            "{source}: {text}"
        );
        for part in parts {
            assert!(text.contains(part), "{source}: {text}");
        }
    }
}

#[test]
fn keys_that_swe_agent_ignores_have_no_effect() {
    let source = "tools:\n  ask:\n    signature: ask <what> [<how>]\n    colour: red\n    arguments:\n      - {name: what, type: string, required: true}\n      - {name: how, type: string, required: false, default: gently}\n";
    let manifest = Manifest::parse(Path::new("b/config.yaml"), source).unwrap();
    let entry = &manifest.commands[0].entry;
    assert!(!entry.contains_key("colour"));
    let arguments = entry["arguments"].as_array().unwrap();
    assert!(arguments[1].get("default").is_none());
    assert_eq!(arguments[1]["name"], "how");
}
