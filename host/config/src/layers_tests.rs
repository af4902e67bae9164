//! The rules of layering.

use serde_json::json;

use super::super::testing::{Memory, sources};
use super::*;

/// A file like mini-swe-agent's own, with most of the keys that these use.
const MINI: &str = r#"
agent:
  system_template: |
    You can run commands.
  instance_template: |
    Task: {{task}}
    {{system}} {{release}} {{version}} {{machine}}
  step_limit: 0
  cost_limit: 3.
  mode: confirm
environment:
  env:
    PAGER: cat
    PIP_PROGRESS_BAR: 'off'
    TQDM_DISABLE: '1'
  timeout: 60
  cwd: "/testbed"
  interpreter: ["bash", "-c"]
model:
  model_name: "openai/some-model"
  model_kwargs:
    drop_params: true
    parallel_tool_calls: true
    temperature: 0.0
  observation_template: |
    {%- if output.output | length < 10000 -%}
    {{ output.output }}
    {%- endif -%}
  format_error_template: |
    {{error}}"#;

fn names(env: &Memory, configs: &[&str]) -> Vec<String> {
    env.load(configs).unwrap().names().to_vec()
}

#[test]
fn layers_are_laid_in_order() {
    let env = Memory::new()
        .file("/work/a.toml", "[agent]\nstep_limit = 1\n")
        .file("/work/m.yaml", MINI);
    let model = env.clone().var("MSWEA_MODEL_NAME", "openai/x");
    for (env, configs, expected) in [
        (&env, &[][..], &["preset default"][..]),
        (&env, &["default"], &["preset default"]),
        (&env, &["default", "a.toml"], &["preset default", "a.toml"]),
        (
            &env,
            &["a.toml", "default"],
            &["preset default", "a.toml", "preset default"],
        ),
        (&env, &["text"], &["preset default", "preset text"]),
        (
            &env,
            &["a.toml", "text", "agent.step_limit=2"],
            &[
                "preset default",
                "a.toml",
                "preset text",
                "-c agent.step_limit=2",
            ],
        ),
        (&env, &["m.yaml"], &["preset mini-swe-agent", "m.yaml"]),
        (
            &env,
            &["agent.step_limit=2", "m.yaml"],
            &["preset mini-swe-agent", "-c agent.step_limit=2", "m.yaml"],
        ),
        (
            &env,
            &["default", "m.yaml"],
            &["preset mini-swe-agent", "preset default", "m.yaml"],
        ),
        (
            &env,
            &["m.yaml", "text"],
            &[
                "preset mini-swe-agent",
                "m.yaml",
                "preset default",
                "preset text",
            ],
        ),
        (
            &model,
            &["a.toml"],
            &["preset default", "environment (MSWEA_MODEL_NAME)", "a.toml"],
        ),
        (
            &model,
            &["m.yaml"],
            &[
                "preset mini-swe-agent",
                "environment (MSWEA_MODEL_NAME)",
                "m.yaml",
            ],
        ),
        (
            &env,
            &["model.model_kwargs.api_key=sk"],
            &["preset default", "-c model.model_kwargs.api_key=[redacted]"],
        ),
    ] {
        assert_eq!(names(env, configs), expected, "{configs:?}");
    }
    let mut bare = sources(&["text"]);
    bare.no_default_config = true;
    // The preset `text` holds only differences from `default`.
    let layers = Layers::load(&bare, &env).unwrap();
    assert_eq!(layers.names(), ["preset default", "preset text"]);
    bare.flags = vec![
        ("model.price.input".into(), json!(1), "--price".into()),
        ("model.price.output".into(), json!(2), "--price".into()),
    ];
    let layers = Layers::load(&bare, &env).unwrap();
    assert_eq!(layers.names()[2..], ["flag --price"]);
    bare.flags.clear();
    bare.configs.clear();
    assert_eq!(
        Layers::load(&bare, &env).unwrap().names(),
        Vec::<String>::new()
    );
}

#[test]
fn names_of_mini_swe_agent_say_that_the_words_differ() {
    let env = Memory::new();
    for (configs, notices) in [
        (&[][..], 0),
        (&["default"], 0),
        (&["text"], 0),
        (&["mini.yaml"], 1),
        (&["mini", "swebench"], 2),
        (&["swebench_xml.yaml", "model.model_name=a/b"], 1),
        (&["default.yaml"], 1),
    ] {
        let layers = env.load(configs).unwrap();
        assert_eq!(layers.notices().len(), notices, "{configs:?}");
        assert!(layers.warnings().is_empty(), "{:?}", layers.warnings());
        for notice in layers.notices() {
            assert!(notice.contains("with other prompts"), "{notice}");
        }
    }
    let config = env.resolve(&["swebench", "environment.image=x"]).unwrap();
    assert_eq!(config.environment.cwd, "/testbed");
    assert_eq!(config.agent.step_limit, 250);
    // A file over a preset, and the preset by its place in the package.
    let env = env.file("/work/mine.yaml", "agent: {step_limit: 7}\n");
    let layers = env
        .load(&["benchmarks/swebench.yaml", "mine.yaml"])
        .unwrap();
    assert_eq!(
        layers.names()[1..],
        ["preset default", "preset swebench", "mine.yaml"]
    );
}

#[test]
fn later_layers_win_and_the_environment_only_over_the_preset() {
    let env = Memory::new()
        .file("/work/a.toml", "[agent]\nstep_limit = 1\n[model]\nmodel_name = \"openai/file\"\n[environment.env]\nA = \"file\"\n")
        .file("/work/b.toml", "[agent]\nstep_limit = 2\n[environment.env]\nB = \"b\"\n")
        .var("MSWEA_MODEL_NAME", "openai/variable")
        .var("MSWEA_COST_TRACKING", "")
        .var("MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT", "3");
    let flag = (
        "model.model_name".to_owned(),
        json!("openai/flag"),
        "--model".to_owned(),
    );
    for (configs, flags, steps, model) in [
        (&[][..], &[][..], 0, "openai/variable"),
        (&["a.toml"], &[], 1, "openai/file"),
        (&["a.toml", "b.toml"], &[], 2, "openai/file"),
        (&["b.toml", "a.toml"], &[], 1, "openai/file"),
        (&["agent.step_limit=9", "a.toml"], &[], 1, "openai/file"),
        (
            &["a.toml", "agent.step_limit=9"],
            std::slice::from_ref(&flag),
            9,
            "openai/flag",
        ),
    ] {
        let mut sources = sources(configs);
        sources.flags = flags.to_vec();
        let config = Layers::load(&sources, &env).unwrap().resolve().unwrap();
        assert_eq!(config.agent.step_limit, steps, "{configs:?}");
        assert_eq!(
            config.model.model_name.as_deref(),
            Some(model),
            "{configs:?}"
        );
        assert_eq!(config.model.cost_tracking, "default");
        assert_eq!(
            (
                config.model.rate_limit_retries,
                config.model.network_retries
            ),
            (2, 2)
        );
    }
    let config = env.resolve(&["a.toml", "b.toml"]).unwrap();
    for (name, value) in [("A", "file"), ("B", "b"), ("PAGER", "cat")] {
        assert_eq!(config.environment.env[name], value);
    }
}

/// What mini-swe-agent's classes for commands in the text say about an unusable reply.
#[test]
fn commands_in_the_text_have_feedback_of_their_own() {
    let lines = MINI.lines().filter(|line| !line.contains("error"));
    let file = lines.collect::<Vec<_>>().join("\n");
    let env = Memory::new().file("/work/mini.yaml", &file);
    for (class, own) in [
        ("litellm_textbased", true),
        ("openrouter_textbased", true),
        ("openrouter", false),
        ("litellm", false),
    ] {
        let class = format!("model.model_class={class}");
        let config = env.resolve(&["mini.yaml", &class]).unwrap();
        let feedback = config.model.format_error_template;
        let is_own = feedback.contains("EXACTLY ONE action in triple backticks");
        assert_eq!(is_own, own, "{class}: {feedback}");
        let config = env.resolve(&["mini.yaml", &class, "model.format_error_template=no"]);
        assert_eq!(config.unwrap().model.format_error_template, "no");
    }
}

#[test]
fn files_of_mini_load_unchanged() {
    let env = Memory::new().file("/work/mini.yaml", MINI);
    let layers = env.load(&["mini.yaml"]).unwrap();
    assert_eq!(
        layers.warnings(),
        [
            "`environment.interpreter` is ignored in the class `local`, as mini-swe-agent does (set at \
             mini.yaml:18): `-c 'environment.interpreter=[\"bash\", \"-c\"]'` sets one",
        ]
    );
    let config = layers.resolve().unwrap();
    assert_eq!(config.agent.system_template, "You can run commands.\n");
    assert_eq!((config.agent.step_limit, config.agent.cost_limit), (0, 3.0));
    assert_eq!(config.environment.timeout, 60.0);
    assert_eq!(config.environment.interpreter, ["/bin/sh", "-c"]);
    assert_eq!(config.environment.env["PIP_PROGRESS_BAR"], "off");
    assert_eq!(config.environment.env.len(), 3);
    assert_eq!(config.model.format_error_template, "{{error}}");
    assert_eq!(
        Value::Object(config.model.model_kwargs),
        json!({"drop_params": true, "parallel_tool_calls": true, "temperature": 0.0})
    );
    assert_eq!(config.agent.salvage_command.as_deref(), Some("@patch"));
    assert_eq!(config.pipeline.parser, "toolcall");

    let later = MINI.replace(
        "  timeout: 60\n",
        "  timeout: 60\n  image_tag: x\n  run_args: [\"--rm\"]\n",
    );
    let env = env.file("/work/mini.yaml", &later);
    let layers = env.load(&["mini.yaml", "model.cost_per_call=1"]).unwrap();
    assert_eq!(
        layers.warnings()[..2],
        [
            "`environment.image_tag` has no effect yet (set at mini.yaml:17)",
            "`model.cost_per_call` has no effect yet (set at -c model.cost_per_call=1)",
        ]
    );
    assert_eq!(
        layers.warnings()[3..],
        [
            "`environment.run_args` has no effect in the class `local`: it is for `docker`, `podman` \
             (set at mini.yaml:18)"
        ]
    );
    let env = env.file("/work/n.toml", "[environment]\nimage_tag = \"x\"\n");
    let text = env.load(&["mini.yaml", "n.toml"]).unwrap_err().to_string();
    assert!(
        text.contains("unknown key `environment.image_tag`"),
        "{text}"
    );
}

#[test]
fn errors_show_the_line() {
    let env = Memory::new()
        .file(
            "/work/t.toml",
            "[agent]\nstep_limt = 5\ncost_limit = \"3\"\n",
        )
        .file("/work/y.yaml", "agent:\n  step_limit: 'ten'\n  mode: x\n")
        .file("/work/bad.toml", "[agent\n")
        .var("MSWEA_COST_TRACKING", "off");
    let clean = Memory::new();
    for (env, configs, expected) in [
        (
            &env,
            &["t.toml"][..],
            "`model.cost_tracking` must be one of `default`, `ignore_errors`, not the text `\"off\"`\n \
             --> environment variable MSWEA_COST_TRACKING\n\n\
             unknown key `agent.step_limt`\n --> t.toml:2:1\n  |\n2 | step_limt = 5\n  | ^^^^^^^^^\n\
             hint: did you mean `agent.step_limit`?\n\n\
             `agent.cost_limit` must be a number, not the text `\"3\"`\n --> t.toml:3:14\n  |\n\
             3 | cost_limit = \"3\"\n  |              ^^^\nhint: write it without quotes: 3",
        ),
        (
            &clean
                .clone()
                .file("/work/y.yaml", "agent:\n  step_limit: 'ten'\n  mode: x\n"),
            &["y.yaml"],
            "`agent.step_limit` must be an integer, not the text `\"ten\"`\n --> y.yaml:2:15\n  |\n\
             2 |   step_limit: 'ten'\n  |               ^^^^^\n\n\
             `agent.mode` must be one of `human`, `confirm`, `yolo`, not the text `\"x\"`\n \
             --> y.yaml:3:9\n  |\n3 |   mode: x\n  |         ^",
        ),
        (
            &clean,
            &["agent.step_limit=ten"],
            "`agent.step_limit` must be an integer, not the text `\"ten\"`\n --> -c agent.step_limit=ten",
        ),
        (
            &clean,
            &["model.model_name=5"],
            "`model.model_name` must be text, not `5`\n --> -c model.model_name=5\n\
             hint: quote it twice, for the shell and for JSON: `-c 'model.model_name=\"5\"'`",
        ),
    ] {
        assert_eq!(env.load(configs).unwrap_err().to_string(), expected);
    }
    let text = env.load(&["bad.toml"]).unwrap_err().to_string();
    assert!(text.contains("bad.toml:1:7"), "{text}");
}

#[test]
fn variables_that_make_no_sense_are_named() {
    for value in ["x", "0", "-1", "1.5"] {
        let env = Memory::new().var("MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT", value);
        let text = env.load(&[]).unwrap_err().to_string();
        assert!(
            text.contains("`MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT` must be an integer"),
            "{text}"
        );
    }
    // read where runs are counted, not here
    let env = Memory::new().var("MSWEA_GLOBAL_COST_LIMIT", "5");
    assert_eq!(env.load(&[]).unwrap().warnings(), Vec::<String>::new());
}

#[test]
fn a_variable_names_the_file_of_runs_without_one() {
    let env = Memory::new()
        .file("/conf/m.yaml", "agent: {step_limit: 7}\n")
        .file("/work/x.toml", "")
        .var("MSWEA_CONFIG_DIR", "/conf")
        .var("MSWEA_MINI_CONFIG_PATH", "m");
    for (configs, expected) in [
        (&[][..], &["preset mini-swe-agent", "/conf/m.yaml"][..]),
        (
            &["agent.cost_limit=1"],
            &[
                "preset mini-swe-agent",
                "/conf/m.yaml",
                "-c agent.cost_limit=1",
            ],
        ),
        (&["x.toml"], &["preset default", "x.toml"]),
        (&["mini.yaml"], &["preset default"]),
    ] {
        assert_eq!(names(&env, configs), expected, "{configs:?}");
    }
    let bare = Sources {
        no_default_config: true,
        ..Sources::default()
    };
    assert_eq!(
        Layers::load(&bare, &env).unwrap().names(),
        Vec::<String>::new()
    );
    let gone = env.var("MSWEA_MINI_CONFIG_PATH", "gone.yaml");
    let text = gone.load(&[]).unwrap_err().to_string();
    assert!(
        text.contains("`MSWEA_MINI_CONFIG_PATH=gone.yaml` names neither a file nor a preset"),
        "{text}"
    );
}

#[test]
fn origins_are_known_to_the_line() {
    let env = Memory::new()
        .file("/work/a.toml", "[plugins.p.config]\npatterns = [\n  \"a\",\n  \"b\",\n]\n[plugins.p.config.\"a.b\"]\nx = 1\n")
        .file("/work/m.yaml", MINI);
    let layers = env.load(&["a.toml", "agent.step_limit=1"]).unwrap();
    for (path, expected) in [
        ("plugins.p.config.patterns", "a.toml:2"),
        ("plugins.p.config.patterns.1", "a.toml:4"),
        ("/plugins/p/config/patterns/0", "a.toml:3"),
        ("/plugins/p/config/a.b/x", "a.toml:7"),
        ("plugins.p.config.missing", "a.toml:1"),
        ("agent.step_limit", "-c agent.step_limit=1"),
        ("agent.cost_limit", "preset default"),
    ] {
        let origin = layers.origin_of(path).map(|origin| origin.to_string());
        assert_eq!(origin.as_deref(), Some(expected), "{path}");
    }
    assert_eq!(layers.origin_of("nothing.here"), None);
    let layers = env.load(&["m.yaml"]).unwrap();
    let origin = layers.origin_of("environment.env.TQDM_DISABLE").unwrap();
    assert_eq!(
        origin,
        Origin::File {
            path: "m.yaml".into(),
            line: 15,
            column: 5
        }
    );
}
