use serde_json::json;

use super::*;
use crate::flags::read_command_line;
use crate::keys::SweCommand;

fn variable(name: &str) -> Option<String> {
    match name {
        "HERE" => Some("/data".to_owned()),
        "MY_KEY" => Some("first:::second".to_owned()),
        _ => None,
    }
}

/// The translation of a config file with these flags.
fn translated(yaml: &str, flags: &[&str]) -> Result<Translated, String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("c.yaml");
    std::fs::write(&file, yaml).unwrap();
    let mut words = vec![format!("--config={}", file.display())];
    words.extend(flags.iter().map(|flag| (*flag).to_owned()));
    let text = |error: SweAgentError| {
        let folder = format!("{}/", folder.path().display());
        error.to_string().replace(&folder, "")
    };
    let request = read_command_line(SweCommand::Run, &words, &variable).map_err(text)?;
    let mut extra_fields = Map::new();
    extra_fields.insert("points".to_owned(), json!(7));
    let problem = SweProblem {
        challenge: None,
        id: "id".to_owned(),
        images: Vec::new(),
        text: "do it".to_owned(),
        extra_fields,
        repo: "o__r".to_owned(),
    };
    let input = TranslationInput {
        tree: &request.tree,
        problem: &problem,
        folder: "/out/id",
        place: 0,
        variable: &variable,
    };
    translate(input).map_err(text)
}

/// A piece of YAML, flags, and the settings that they become.
type Vector<'a> = (&'a str, &'a [&'a str], &'a [(&'a str, Value)]);

#[test]
fn keys_of_ours() {
    let vectors: &[Vector<'_>] = &[
        (
            "",
            &[],
            &[
                ("environment.environment_class", json!("docker")),
                ("environment.image", json!("python:3.11")),
                ("environment.session", json!(true)),
                ("environment.timeout", json!(30.0)),
                ("agent.rules", json!("swe-agent")),
                ("agent.cost_limit", json!(3.0)),
                ("agent.max_consecutive_format_errors", json!(3)),
                ("agent.max_consecutive_timeouts", json!(3)),
                ("agent.total_execution_timeout", json!(1800.0)),
                ("pipeline.parser", json!("function_calling")),
                ("pipeline.policies", json!(["blocklist"])),
                (
                    "plugins.blocklist.config",
                    json!({"blocklist": ["vim", "vi", "emacs", "nano", "nohup", "gdb", "less", "tail -f", "python -m venv", "make"]}),
                ),
                ("pipeline.processors", json!([])),
                (
                    "model.model_kwargs",
                    json!({"temperature": 0.0, "top_p": 1.0}),
                ),
                ("model.rate_limit_retries", json!(19)),
            ],
        ),
        (
            "agent:\n  tools:\n    parse_function: {type: json}\n    execution_timeout: 60\n    bundles:\n    - path: tools/registry\n    - path: tools/windowed\n      hidden_tools: [goto]\n    env_variables: {WINDOW: 100, DEBUG: true}\n    registry_variables: {A: [1]}\n",
            &["--env.deployment.type=local"],
            &[
                ("pipeline.parser", json!("swe_json")),
                ("environment.timeout", json!(60.0)),
                ("tools.bundles", json!(["registry", "windowed"])),
                ("tools.hidden", json!(["goto"])),
                (
                    "tools.env_variables",
                    json!({"WINDOW": "100", "DEBUG": "True"}),
                ),
                ("tools.registry_variables", json!({"A": [1]})),
                ("tools.root", json!("/out/id/tools-root")),
                ("environment.environment_class", json!("local")),
                ("environment.cwd", json!("/out/id/work")),
            ],
        ),
        (
            "agent:\n  model: {per_instance_cost_limit: 2, total_cost_limit: 1.5, per_instance_call_limit: 9, top_p: null, stop: [x], api_key: $MY_KEY, api_base: http://h/v1, completion_kwargs: {seed: 1}, retry: {retries: 6, min_wait: 1}}\n  max_requeries: 5\n  history_processors:\n  - type: cache_control\n    last_n_messages: 2\n  - {type: last_n_observations, n: 5}\n",
            &["--agent.model.max_output_tokens=100"],
            &[
                ("agent.cost_limit", json!(1.5)),
                ("agent.step_limit", json!(9)),
                ("agent.max_consecutive_format_errors", json!(5)),
                ("model.base_url", json!("http://h/v1")),
                ("model.api_key_env", json!("SWE_AGENT_MODEL_API_KEY")),
                (
                    "model.model_kwargs",
                    json!({"temperature": 0.0, "stop": ["x"], "max_tokens": 100, "seed": 1}),
                ),
                ("model.network_retries", json!(5)),
                ("model.retry_wait", json!(1.0)),
                (
                    "pipeline.processors",
                    json!(["cache_control", "last_n_observations"]),
                ),
                (
                    "plugins.cache_control.config",
                    json!({"last_n_messages": 2, "mode": "last_n"}),
                ),
                ("plugins.last_n_observations.config", json!({"n": 5})),
            ],
        ),
        (
            "env:\n  deployment: {type: docker, image: i, container_runtime: podman, docker_args: [--network=none], platform: linux/amd64}\n  repo: {github_url: o/r, base_commit: abc}\n  post_startup_commands: ['echo {{x}}', b]\n",
            &[],
            &[
                ("environment.environment_class", json!("podman")),
                ("environment.run_args", json!(["--rm", "--network=none"])),
                ("environment.platform", json!("linux/amd64")),
                ("workspace.repo", json!("https://github.com/o/r")),
                ("workspace.path", json!("/o__r")),
                ("workspace.base_commit", json!("abc")),
                (
                    "workspace.startup_commands",
                    json!(["{{ \"echo {{x}}\" }}", "b"]),
                ),
            ],
        ),
        (
            "env:\n  deployment: {type: remote, host: http://h, port: 8000, auth_token: t}\n  repo: {type: preexisting, repo_name: testbed}\n",
            &[],
            &[
                ("environment.environment_class", json!("swerex")),
                ("environment.url", json!("http://h:8000")),
                ("environment.token_env", json!("SWE_REX_AUTH_TOKEN")),
                ("workspace.path", json!("/testbed")),
                ("workspace.reset", json!(true)),
            ],
        ),
        (
            "agent:\n  templates: {system_template: 's {{points}}', instance_template: 'i {{problem_statement}} {{repo}}', strategy_template: think, shell_check_error_template: bad, next_step_template: 'o {{observation}}', max_observation_length: 10_000}\n",
            &[],
            &[
                (
                    "agent.system_template",
                    json!("{% set points = 7 %}s {{points}}"),
                ),
                (
                    "agent.instance_template",
                    json!(
                        "{% set problem_statement = task %}{% set repo = \"o__r\" %}i {{problem_statement}} {{repo}}"
                    ),
                ),
                ("agent.strategy_template", json!("think")),
                ("agent.syntax_error_template", json!("bad")),
            ],
        ),
        (
            "agent:\n  tools:\n    filter: {blocklist: [x], blocklist_standalone: [], block_unless_regex: {curl: ' -s '}, blocklist_error_template: no x}\n",
            &[],
            &[(
                "plugins.blocklist.config",
                json!({"blocklist": ["x"], "blocklist_standalone": [], "block_unless_regex": {"curl": " -s "}, "error_message": "no x"}),
            )],
        ),
    ];
    for (yaml, flags, expected) in vectors {
        let mut flags = flags.to_vec();
        flags.push("--agent.model.name=gpt-4o");
        let done = translated(yaml, &flags).unwrap_or_else(|error| panic!("{yaml}: {error}"));
        for (key, value) in *expected {
            assert_eq!(done.value(key), Some(value), "{key} of {yaml}");
        }
    }
}

#[test]
fn every_key_of_ours_is_one() {
    for name in crate::shipped_configs() {
        let words = [
            format!("--config=config/{name}.yaml"),
            "--agent.model.name=x".to_owned(),
        ];
        let request = read_command_line(SweCommand::Run, &words, &variable).unwrap();
        let problem = SweProblem::default();
        let done = translate(TranslationInput {
            tree: &request.tree,
            problem: &problem,
            folder: "/out",
            place: 0,
            variable: &variable,
        })
        .unwrap();
        let sources = mswea_config::Sources {
            translated: done.settings,
            ..mswea_config::Sources::default()
        };
        let layers = mswea_config::Layers::load(&sources, &mswea_config::ProcessEnvironment);
        layers.unwrap().resolve().unwrap();
    }
}

#[test]
fn flags_go_over_files_and_values_have_their_types() {
    let yaml = "agent:\n  model: {name: a, temperature: 0.5, stop: [a, b]}\n";
    for (flags, key, expected) in [
        (
            &["--agent.model.temperature=1"][..],
            "/agent/model/temperature",
            json!(1),
        ),
        (
            &["--agent.model.temperature", "0.25"],
            "/agent/model/temperature",
            json!(0.25),
        ),
        (
            &["--agent.model.top_p=null"],
            "/agent/model/top_p",
            json!(null),
        ),
        (&["--agent.model.name=5"], "/agent/model/name", json!("5")),
        (
            &["--agent.model.stop=[\"x\"]"],
            "/agent/model/stop",
            json!(["x"]),
        ),
        (
            &["--agent.model.stop=x,y"],
            "/agent/model/stop",
            json!(["x", "y"]),
        ),
        (
            &["--agent.model.stop=x", "--agent.model.stop=y"],
            "/agent/model/stop",
            json!(["x", "y"]),
        ),
        (
            &["--agent.tools.enable_bash_tool=False"],
            "/agent/tools/enable_bash_tool",
            json!(false),
        ),
        (
            &["--agent.model.completion_kwargs={\"a\": 1}"],
            "/agent/model/completion_kwargs/a",
            json!(1),
        ),
        (
            &["--problem_statement.extra_fields.n=1"],
            "/problem_statement/extra_fields/n",
            json!(1),
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("c.yaml");
        std::fs::write(&file, yaml).unwrap();
        let mut words = vec!["--config".to_owned(), file.display().to_string()];
        words.extend(flags.iter().map(|flag| (*flag).to_owned()));
        let request = read_command_line(SweCommand::Run, &words, &variable).unwrap();
        assert_eq!(
            request.tree.value().pointer(key),
            Some(&expected),
            "{flags:?}"
        );
        assert_eq!(request.configs, ["c"]);
    }
}

#[test]
fn bad_input_is_named_with_its_place_and_its_remedy() {
    let model = "agent:\n  model:\n    name: gpt-4o\n";
    let vectors: &[(&str, &[&str], &[&str])] = &[
        (
            "agent:\n  model:\n    nam: x\n",
            &[],
            &[
                "c.yaml:3:10",
                "`agent.model.nam`",
                "did you mean `agent.model.name`?",
            ],
        ),
        (
            model,
            &["--model.name=x"],
            &["`--model.name`", "did you mean `agent.model.name`?"],
        ),
        ("agent: 5\n", &[], &["c.yaml:1:8", "`agent` must be a map"]),
        (
            "agent:\n  max_requeries: many\n",
            &[],
            &["c.yaml:2:18", "must be an integer", "\"many\""],
        ),
        (
            model,
            &["--agent.model.temperature=hot"],
            &["must be a number", "`--agent.model.temperature`"],
        ),
        ("agent: [\n", &[], &["c.yaml:2:1"]),
        (
            "agent:\n  tools:\n    parse_function: {type: function_caling}\n",
            &["--agent.model.name=x"],
            &["c.yaml:3:28", "`function_calling`?"],
        ),
        (
            "agent:\n  history_processors:\n  - {type: last_n, n: 1}\n",
            &["--agent.model.name=x"],
            &["c.yaml:3:5", "no history processor `last_n`"],
        ),
        (
            "agent:\n  history_processors:\n  - {type: remove_regex, m: 1}\n",
            &["--agent.model.name=x"],
            &["c.yaml:3:29", "no `m`", "`remove`, `keep_last`"],
        ),
        (
            model,
            &["--env.deployment.type=modal"],
            &["no deployment of the type `modal`", "swerex-remote"],
        ),
        (model, &["--env.deployment.type=dummy"], &["use `local`"]),
        (
            model,
            &["--env.deployment.type=local", "--env.deployment.image=x"],
            &["a deployment of the type `local` has no `image`"],
        ),
        (
            model,
            &["--agent.type=shell"],
            &["`agent.type`", "`retry` for several attempts"],
        ),
        (model, &["--agent.model.name=human"], &["the model `human`"]),
        (
            model,
            &["--agent.model.convert_system_to_user=true"],
            &["`agent.model.convert_system_to_user`"],
        ),
        (
            model,
            &["--agent.model.api_key=$NONE"],
            &["`NONE`", "is not set"],
        ),
        (
            model,
            &["--env.repo.path=a", "--env.repo.repo_name=b"],
            &["`path` and `repo_name`"],
        ),
        (
            model,
            &["--env.repo.path=$NOWHERE/a"],
            &["`NOWHERE`, which is not set"],
        ),
        (
            model,
            &["--config=/nothing.yaml"],
            &["can't read `/nothing.yaml`", "coding_challenge"],
        ),
        (
            "agent:\n  templates:\n    demonstrations: [/no.traj]\n    demonstration_template: x\n",
            &["--agent.model.name=x"],
            &[
                "c.yaml:3:22",
                "no demonstration `/no.traj`",
                "`SWE_AGENT_CONFIG_ROOT`",
            ],
        ),
        (model, &["stray"], &["`stray` is no flag"]),
        (model, &["--agent.model.name"], &["has no value"]),
        ("", &[], &["no model was given", "--agent.model.name"]),
    ];
    for (yaml, flags, parts) in vectors {
        let error = match translated(yaml, flags) {
            Ok(_) => panic!("accepted: {yaml} {flags:?}"),
            Err(error) => error,
        };
        for part in *parts {
            assert!(
                error.contains(part),
                "{part:?} is missing for {yaml:?} {flags:?}: {error}"
            );
        }
    }
}

#[test]
fn demonstrations_are_texts_or_messages() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("d.traj");
    let history = r#"{"history": [{"role": "system", "content": "s"}, {"role": "user", "content": "u {{x}}"},
        {"role": "assistant", "content": "a", "agent": "primary", "tool_calls": [{"id": "c", "function": {"name": "n", "arguments": {"b": 1}}}]},
        {"role": "tool", "content": "o", "tool_call_ids": ["c"]}]}"#;
    std::fs::write(&file, history).unwrap();
    let yaml = format!(
        "agent:\n  model: {{name: x}}\n  templates:\n    instance_template: i\n    demonstrations: [{}]\n    \
         demonstration_template: |\n      D {{{{demonstration}}}}\n",
        file.display()
    );
    let done = translated(&yaml, &[]).unwrap();
    assert_eq!(done.value("agent.instance_template"), Some(&json!("i")));
    let shown = &done.value("agent.demonstrations").unwrap()["messages"];
    let template = shown[0]["template"].as_str().unwrap();
    let rendered = mswea_plugin_host::templates(None)
        .render(template, &Map::new())
        .unwrap();
    assert_eq!(rendered, "D u {{x}}\na\no");
    let done = translated(&yaml, &["--agent.templates.put_demos_in_history=true"]).unwrap();
    let shown = done.value("agent.demonstrations").unwrap();
    let read = mswea_run::Demonstration::of(shown.as_object().unwrap()).unwrap();
    assert_eq!(read.len(), 3);
    let shown = &shown["messages"];
    assert_eq!(shown[0]["content"][0]["text"], "u {{x}}");
    assert_eq!(
        shown[1]["tool_calls"],
        json!([{"id": "c", "name": "n", "arguments": "{\"b\":1}"}])
    );
    assert_eq!(shown[1]["extra"]["recorded"]["agent"], "primary");
    assert_eq!(shown[2]["tool_call_id"], "c");
}

#[test]
fn action_samplers_have_the_keys_of_ours() {
    for (flag, expected) in [
        (
            r#"{"n_samples": 3}"#,
            json!({"n_samples": 3, "type": "ask_colleagues"}),
        ),
        (
            r#"{"min_n_samples": 3}"#,
            json!({"min_n_samples": 3, "type": "binary_trajectory_comparison"}),
        ),
    ] {
        let flag = format!("--agent.action_sampler={flag}");
        let done = translated("agent: {model: {name: x}}\n", &[&flag]).unwrap();
        assert_eq!(done.value("agent.action_sampler"), Some(&expected));
    }
    let flag = r#"--agent.action_sampler={"type": "ask_colleagues", "samples": 3}"#;
    let done = translated("agent: {model: {name: x}}\n", &[flag]).unwrap();
    let warning =
        "`agent.action_sampler.samples` (the flag `--agent.action_sampler`) has no effect";
    assert!(done.warnings[0].contains(warning), "{:?}", done.warnings);
}

#[test]
fn keys_that_swe_agent_ignores_have_no_effect() {
    let yaml = "agent:
  templates: {system_template: s, my_own_text: unused}
  tools:
    str_replace_editor: {arguments: []}
    filter: {blocklists: []}
    parse_function: {type: json, colour: red}
    command_docs: mine
    reset_commands: [a]
    bundles: [{path: tools/submit, version: 2}]
  model: {name: x, delay: 2, cost_per_call: 1, retry: {retries: 2, jitter: 1}}
env: {deployment: {type: docker, pull: always, remove_images: true}}
actions: {pr_config: {draft: true}}
";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("c.yaml");
    std::fs::write(&file, yaml).unwrap();
    let words = ["--config".to_owned(), file.display().to_string()];
    let request = read_command_line(SweCommand::Run, &words, &variable).unwrap();
    let told = request.warnings.join("\n");
    for key in [
        "agent.templates.my_own_text",
        "agent.tools.str_replace_editor",
        "agent.tools.filter.blocklists",
        "agent.tools.parse_function.colour",
        "agent.model.cost_per_call",
        "agent.model.retry.jitter",
        "actions.pr_config.draft",
    ] {
        assert!(told.contains(&format!("`{key}` (")), "{key}: {told}");
    }
    assert!(
        told.contains("did you mean `agent.tools.filter.blocklist`?"),
        "{told}"
    );
    let told = translated(yaml, &[]).unwrap().warnings.join("\n");
    for key in [
        "`agent.tools.command_docs`",
        "`agent.tools.reset_commands`",
        "`version` of a bundle",
        "`agent.model.delay`",
        "`env.deployment.pull`",
        "`env.deployment.remove_images`",
    ] {
        assert!(told.contains(key), "{key}: {told}");
    }
    // The classes that forbid further keys do so here.
    for yaml in [
        "agent: {nam: x}\n",
        "agent: {model: {nam: x}}\n",
        "env: {repo: {pat: x}}\n",
        "problem_statement: {txt: x}\n",
        "actions: {open: true}\n",
        "other: 1\n",
    ] {
        assert!(
            translated(yaml, &["--agent.model.name=x"]).is_err(),
            "{yaml}"
        );
    }
}

#[test]
fn a_folder_of_this_machine_is_used_or_refused() {
    let local = ["--agent.model.name=x", "--env.deployment.type=local"];
    let missing = "env: {repo: {repo_name: no such folder}}\n";
    let error = translated(missing, &local).unwrap_err();
    for part in ["`/no such folder`", "does not exist", "--env.repo.path"] {
        assert!(error.contains(part), "{error}");
    }
    let done = translated("env: {repo: {repo_name: usr}}\n", &local).unwrap();
    assert_eq!(done.value("environment.cwd"), Some(&json!("/usr")));
    assert_eq!(done.value("workspace.path"), Some(&json!("/usr")));
}

#[test]
fn templates_see_the_values_of_variables_with_their_types() {
    let values = "{COUNT: 3, FLAG: true, T: text, L: [1, false], NONE: null}";
    for bundles in ["[]", "[{path: tools/submit}]"] {
        let yaml = format!(
            "agent:\n  model: {{name: x}}\n  templates: {{system_template: '{{% if COUNT > 2 and FLAG is true %}}{{{{ L[0] }}}}{{% endif %}}{{{{NONE}}}} {{{{command_docs}}}}'}}\n  tools: {{bundles: {bundles}, env_variables: {values}}}\n"
        );
        let done = translated(&yaml, &[]).unwrap();
        let template = done.value("agent.system_template").unwrap();
        let names = Map::from_iter([("command_docs".to_owned(), json!("docs"))]);
        let rendered =
            mswea_plugin_host::templates(None).render(template.as_str().unwrap(), &names);
        let rendered = rendered.unwrap();
        assert!(rendered.starts_with("1None "), "{rendered}");
        let has_shell = rendered.contains("bash:\n  docstring:");
        assert_eq!(has_shell, bundles == "[]", "{rendered}");
    }
}

#[test]
fn names_of_repositories_and_of_problems() {
    for (key, value, expected) in [
        ("github_url", "https://github.com/o/r.git", "o__r"),
        ("github_url", "o/r", "o__r"),
        ("github_url", "https://github.com/o/r?x#y", "o__r"),
        ("github_url", "git@github.com:o/r.git", "o__r"),
        ("path", "/nowhere/a b's", "a-bs"),
        ("repo_name", "testbed", "testbed"),
    ] {
        assert_eq!(
            crate::problem::repo_name(key, value).unwrap(),
            expected,
            "{value}"
        );
    }
    assert!(crate::problem::repo_name("github_url", "r").is_err());
    // The same digits as those of `sha256sum`.
    assert_eq!(crate::problem::short_hash("abc"), "ba7816");
}
