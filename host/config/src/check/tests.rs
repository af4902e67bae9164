use serde_json::json;

use super::*;

fn check(value: Value, mini: bool) -> (Vec<String>, Vec<String>, Value) {
    let mut node = Node::uniform(value, &Origin::Flag { name: "-f".into() });
    let (problems, warnings) = layer(&mut node, mini, &Files::default());
    let problems = problems
        .iter()
        .map(|p| match p.remedy() {
            Some(hint) => format!("{} / {hint}", p.message()),
            None => p.message().to_owned(),
        })
        .collect();
    (problems, warnings, node.to_value())
}

#[test]
fn of_many_unknown_keys_the_first_ones_are_named() {
    let keys = (0..30_000).map(|key| (format!("agnet{key}"), json!({"step_limt": 1})));
    let many = Value::Object(keys.collect());
    let long = json!({"a".repeat(1 << 20): 1});
    let begin = std::time::Instant::now();
    for mini in [false, true] {
        let (problems, warnings, left) = check(many.clone(), mini);
        let named = if mini { &warnings } else { &problems };
        assert_eq!(named.len(), NAMED + 1);
        assert!(named[0].contains("`agnet0`"), "{}", named[0]);
        assert_eq!(named[NAMED], "and 29900 more unknown keys");
        assert_eq!(left, json!({}));
        check(long.clone(), mini);
    }
    assert!(
        begin.elapsed() < std::time::Duration::from_secs(60),
        "{:?}",
        begin.elapsed()
    );
}

#[test]
fn right_values_pass() {
    for value in [
        json!({}),
        json!({"agent": {"step_limit": -1, "cost_limit": 3, "mode": null}}),
        json!({"agent": {"mode": "yolo", "whitelist_actions": ["ls"], "confirm_exit": false}}),
        json!({"model": {"price": null}}),
        json!({"model": {"price": {"input": 1, "output": 2.5}}}),
        json!({"model": {"model_kwargs": {"a": [1, {"b": null}]}, "stream": false}}),
        json!({"environment": {"env": {"A": "b", "C": null}, "timeout": 1}}),
        json!({"plugins": {"any name": {"config": {"x": 1}, "deadline_ms": 2000}}}),
        json!({"providers": {"p": {"base_url": "http://x"}}}),
    ] {
        let (problems, warnings, after) = check(value.clone(), false);
        assert_eq!(problems, Vec::<String>::new(), "{value}");
        assert_eq!(warnings, Vec::<String>::new(), "{value}");
        assert_eq!(after, value);
    }
}

#[test]
fn wrong_values_are_named_with_what_to_write() {
    for (value, expected) in [
        (
            json!({"agent": {"step_limit": "10"}}),
            "`agent.step_limit` must be an integer, not the text `\"10\"` / write it without quotes: 10",
        ),
        (
            json!({"agent": {"step_limit": 1.5}}),
            "`agent.step_limit` must be an integer, not `1.5` / write it without a decimal point",
        ),
        (
            json!({"agent": {"step_limit": null}}),
            "`agent.step_limit` must be an integer, not null / leave the key out for its default",
        ),
        (
            json!({"agent": {"cost_limit": "x"}}),
            "`agent.cost_limit` must be a number, not the text `\"x\"`",
        ),
        (
            json!({"agent": {"step_limit": {"a": 1}}}),
            "`agent.step_limit` must be an integer, not a map",
        ),
        (
            json!({"agent": 5}),
            "`agent` must be a map of keys, not `5` / write its keys one by one, for example `-c agent.KEY=VALUE`",
        ),
        (
            json!({"agent": {"mode": "yollo"}}),
            "`agent.mode` must be one of `human`, `confirm`, `yolo`, not the text `\"yollo\"` / did you mean `yolo`?",
        ),
        (
            json!({"model": {"model_name": 5}}),
            "`model.model_name` must be text, not `5` / put it in quotes: \"5\"",
        ),
        (
            json!({"model": {"stream": "yes"}}),
            "`model.stream` must be true or false, not the text `\"yes\"`",
        ),
        (
            json!({"model": {"price": {"input": -1}}}),
            "`model.price.input` must be a number of at least 0, not `-1`",
        ),
        (
            json!({"model": {"model_kwargs": [1]}}),
            "`model.model_kwargs` must be a map, not a list",
        ),
        (
            json!({"model": {"rate_limit_retries": -1}}),
            "`model.rate_limit_retries` must be an integer from 0 to 4294967295, not `-1`",
        ),
        (
            json!({"environment": {"timeout": 0}}),
            "`environment.timeout` must be a number of seconds above 0 and up to 1000000000, not `0` / a time limit can't be switched off: give a time that is long enough",
        ),
        (
            json!({"environment": {"env": {"A": 1}}}),
            "`environment.env.A` must be text, not `1` / put it in quotes: \"1\"",
        ),
        (
            json!({"environment": {"interpreter": "bash"}}),
            "`environment.interpreter` must be a list of texts, not the text `\"bash\"` / write it as a list: [\"bash\"]",
        ),
        (
            json!({"environment": {"interpreter": ["bash", 1]}}),
            "`environment.interpreter.1` must be text, not `1` / put it in quotes: \"1\"",
        ),
        (
            json!({"environment": {"environment_class": "my.Class"}}),
            "`environment.environment_class` must be one of `local`, `docker`, `podman`, `singularity`, `apptainer`, `bubblewrap`, `remote`, `command`, `swerex`, `swerex_docker`, `swerex_modal`, `contree`, not the text `\"my.Class\"` / this host does not run environments written in Python: write one of these, for example `docker`",
        ),
        (
            json!({"plugins": {"p": {"memory_mb": 0}}}),
            "`plugins.p.memory_mb` must be an integer of at least 1, not `0`",
        ),
        (
            json!({"plugins": {"p": {"pth": "x"}}}),
            "unknown key `plugins.p.pth` / did you mean `plugins.p.path`?",
        ),
        (
            json!({"environment": {"image_tag": "x"}}),
            "unknown key `environment.image_tag` / mini-swe-agent has this key, this version does not: leave it out",
        ),
        (
            json!([1]),
            "the top level must be a map of keys, not a list / start with a section, for example `[agent]` (TOML) or `agent:` (YAML)",
        ),
    ] {
        let (problems, _, _) = check(value.clone(), false);
        assert_eq!(problems, [expected], "{value}");
    }
}

#[test]
fn all_problems_are_told_at_once() {
    let (problems, _, _) = check(json!({"agent": {"a": 1, "step_limit": "x"}, "b": 2}), false);
    assert_eq!(problems.len(), 3, "{problems:?}");
}

#[test]
fn what_mini_has_is_a_warning_in_its_files() {
    let value = json!({"environment": {"image_tag": "x", "timeout": 5}, "model": {"outputs": "y"}});
    let (problems, warnings, after) = check(value, true);
    assert_eq!(problems, Vec::<String>::new());
    assert_eq!(
        warnings,
        [
            "`environment.image_tag` has no effect yet (set at flag -f)",
            "`model.outputs` has no effect yet (set at flag -f)",
        ]
    );
    assert_eq!(after, json!({"environment": {"timeout": 5}, "model": {}}));
    let (problems, warnings, after) = check(
        json!({"environment": {"timeouts": "x", "timeout": "5"}, "anchors": [1]}),
        true,
    );
    assert_eq!(problems, Vec::<String>::new());
    assert_eq!(
        warnings,
        [
            "unknown key `environment.timeouts` is ignored, as mini-swe-agent does (set at flag -f; did you mean `environment.timeout`?)",
            "unknown key `anchors` is ignored, as mini-swe-agent does (set at flag -f)",
        ]
    );
    assert_eq!(after, json!({"environment": {"timeout": 5.0}}));
}

#[test]
fn files_of_mini_may_have_values_of_other_types() {
    for (key, value, expected) in [
        ("agent.step_limit", json!("10"), Some(json!(10))),
        ("agent.step_limit", json!(" 10.0 "), Some(json!(10))),
        ("agent.step_limit", json!(10.0), Some(json!(10))),
        ("agent.step_limit", json!("1.5"), None),
        ("agent.step_limit", json!("ten"), None),
        ("agent.cost_limit", json!("2.5"), Some(json!(2.5))),
        ("agent.cost_limit", json!("nan"), None),
        ("agent.confirm_exit", json!("Yes"), Some(json!(true))),
        ("agent.confirm_exit", json!(0), Some(json!(false))),
        ("agent.confirm_exit", json!(2), None),
        ("model.model_name", json!(5), None),
    ] {
        let path: Vec<&str> = key.split('.').collect();
        let layer = json!({ path[0]: { path[1]: value.clone() } });
        let (problems, _, after) = check(layer.clone(), true);
        assert_eq!(problems.is_empty(), expected.is_some(), "{key} {value}");
        if let Some(expected) = expected {
            assert_eq!(after[path[0]][path[1]], expected, "{key} {value}");
            assert_eq!(check(layer, false).0.is_empty(), value == expected, "{key}");
        }
    }
}
