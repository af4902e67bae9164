//! Tests that the presets' templates render.

use minijinja::{Environment, UndefinedBehavior, context};
use serde_json::json;

use super::*;

/// A preset laid over the preset that it differs from.
fn whole(preset: &str) -> Value {
    let mut whole = tree(DEFAULT);
    whole.merge(tree(preset));
    whole.to_value()
}

fn text(preset: &str, path: &[&str]) -> String {
    let value = path
        .iter()
        .fold(whole(preset), |value, key| value[key].clone());
    value.as_str().unwrap().to_owned()
}

/// Strict about undefined variables, as in a run.
fn render(template: &str, vars: minijinja::Value) -> String {
    let mut env = Environment::new();
    env.set_undefined_behavior(UndefinedBehavior::Strict);
    env.render_str(template, vars).unwrap()
}

#[test]
fn the_prompts_render_with_what_every_environment_gives() {
    for (preset, word) in [(DEFAULT, "tool\n`bash`"), (TEXT, "```mswea_bash_command\n")] {
        for system in ["Linux", "Darwin"] {
            let vars = context! {
                task => "the <task> & {{ more }}", cwd => "/w", system, release => "6.1", machine => "x86_64",
                shell => "dash", timeout => 77,
            };
            let system_message = render(&text(preset, &["agent", "system_template"]), vars.clone());
            assert!(system_message.contains(word), "{system_message}");
            let instance = render(&text(preset, &["agent", "instance_template"]), vars);
            for part in [
                "the <task> & {{ more }}",
                "`/w`",
                "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT",
                "6.1 x86_64",
                "a fresh `dash` that",
                "may take 77 seconds",
                "background is ended when you submit",
            ] {
                assert!(instance.contains(part), "{part}: {instance}");
            }
            assert!(
                instance.contains("\n\n- Exactly one block")
                    || instance.contains("\n\n- Every command")
            );
            assert!(
                instance.contains("`NAME=value command`.\n- A command may"),
                "{instance}"
            );
            assert_eq!(instance.contains("sed -i ''"), system == "Darwin");
            assert_eq!(instance.contains("mswea_bash_command"), preset == TEXT);
        }
    }
}

#[test]
fn the_prompts_say_when_commands_share_a_shell() {
    for preset in [DEFAULT, TEXT] {
        let vars = context! {
            task => "t", cwd => "/w", system => "Linux", release => "6.1", machine => "x86_64",
            shell => "bash", timeout => 77, shared_shell => true,
        };
        let instance = render(&text(preset, &["agent", "instance_template"]), vars);
        assert!(!instance.contains("fresh"), "{instance}");
        let wanted = "\n- All commands run in one `bash` that starts in `/w`: a `cd`, variables,";
        assert!(instance.contains(wanted), "{instance}");
        assert!(
            instance.contains("in a new one.\n- A command may take"),
            "{instance}"
        );
    }
}

#[test]
fn the_feedback_fits_what_went_wrong() {
    for preset in NAMES {
        let template = text(preset, &["model", "format_error_template"]);
        for finish_reason in [Some("length"), Some("stop"), None] {
            let vars = context! {
                error => "WRONG", actions => ["a", "b"], finish_reason, has_tool_calls => false,
            };
            let feedback = render(&template, vars);
            let cut_off = finish_reason == Some("length");
            assert_eq!(feedback.contains("cut off"), cut_off, "{feedback}");
            assert_eq!(feedback.contains("WRONG"), !cut_off, "{feedback}");
            assert!(!feedback.starts_with(char::is_whitespace), "{feedback:?}");
            if [TEXT, SWEBENCH_BACKTICKS].contains(preset) && !cut_off {
                assert!(feedback.contains("(yours held 2)"), "{feedback}");
                assert!(
                    feedback.contains("\n```mswea_bash_command\nyour command\n```\n"),
                    "{feedback}"
                );
            }
        }
    }
}

/// The values that mini-swe-agent's files of these names set.
#[test]
fn presets_of_benchmarks_mean_what_their_names_say() {
    let swebench = json!({"step_limit": 250, "cost_limit": 3.0});
    let programbench =
        json!({"step_limit": 1000, "cost_limit": 0.0, "wall_time_limit_seconds": 21600});
    let testbed = json!({
        "environment_class": "docker", "cwd": "/testbed", "timeout": 60,
        "interpreter": ["bash", "-c"],
    });
    let workspace = json!({
        "environment_class": "docker", "cwd": "/workspace", "timeout": 180,
        "container_timeout": "7h", "user": "agent", "network": "none", "cpus": 20, "memory": "60g",
    });
    let claude = json!({"model_name": "anthropic/claude-sonnet-4-5-20250929"});
    let minimax =
        json!({"model_name": "minimax/minimax-m2", "model_class": "openrouter_textbased"});
    for (preset, agent, environment, model, parser) in [
        (SWEBENCH, &swebench, &testbed, &claude, Value::Null),
        (
            SWEBENCH_BACKTICKS,
            &swebench,
            &testbed,
            &claude,
            "text_regex".into(),
        ),
        (
            SWEBENCH_XML,
            &swebench,
            &testbed,
            &minimax,
            "text_regex".into(),
        ),
        (
            PROGRAMBENCH,
            &programbench,
            &workspace,
            &json!({}),
            Value::Null,
        ),
        (
            DEFAULT_YAML,
            &json!({"step_limit": 0, "cost_limit": 0.0}),
            &json!({}),
            &json!({}),
            "text_regex".into(),
        ),
    ] {
        let whole = whole(preset);
        let sections = [
            ("agent", agent),
            ("environment", environment),
            ("model", model),
        ];
        for (section, wanted) in sections {
            for (key, value) in wanted.as_object().unwrap() {
                assert_eq!(&whole[section][key], value, "{preset}: {section}.{key}");
            }
        }
        assert_eq!(whole["pipeline"]["parser"], parser, "{preset}");
        assert_eq!(whole["environment"]["env"]["PAGER"], "cat", "{preset}");
    }
    let kwargs = &whole(SWEBENCH)["model"]["model_kwargs"];
    assert_eq!(
        *kwargs,
        json!({"drop_params": true, "parallel_tool_calls": true})
    );
}

#[test]
fn prompts_of_benchmarks_show_commands_as_their_parser_finds_them() {
    for (preset, before, after) in [
        (SWEBENCH, "```bash\n", "\n```"),
        (SWEBENCH_BACKTICKS, "```mswea_bash_command\n", "\n```"),
        (
            SWEBENCH_XML,
            "<mswea_bash_command>",
            "</mswea_bash_command>",
        ),
        (PROGRAMBENCH, "```bash\n", "\n```"),
    ] {
        let vars = context! {
            task => "the <task>", cwd => "/here", system => "Linux", release => "6.1",
            machine => "x86_64", shell => "bash", timeout => 77,
        };
        let instance = render(&text(preset, &["agent", "instance_template"]), vars.clone());
        let submission = match preset {
            PROGRAMBENCH => "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT",
            _ => "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && cat patch.txt",
        };
        for part in [
            &format!("{before}{submission}{after}") as &str,
            "the <task>",
            "`/here`",
            "may take 77 seconds",
        ] {
            assert!(instance.contains(part), "{preset}: {part}: {instance}");
        }
        assert!(!instance.contains('%'), "{preset}: {instance}");
        let other = if before.starts_with('<') {
            "```"
        } else {
            "<mswea_"
        };
        let system = render(&text(preset, &["agent", "system_template"]), vars);
        assert!(!(instance + &system).contains(other), "{preset}");
    }
}

#[test]
fn observations_say_when_little_is_left() {
    let template = text(PROGRAMBENCH, &["model", "observation_template"]);
    for (calls, seconds, parts) in [
        (980, 0, &[][..]),
        (981, 0, &["19 steps are left"]),
        (0, 21000, &[]),
        (0, 21001, &["About 9 minutes are left"]),
        (
            999,
            21500,
            &["1 steps are left", "About 1 minutes are left"],
        ),
    ] {
        let vars = context! {
            output => context! {output => "hi\n", returncode => 0, exception_info => ""},
            step_limit => 1000, n_model_calls => calls,
            wall_time_limit_seconds => 21600, elapsed_seconds => seconds,
        };
        let shown = render(&template, vars);
        assert!(
            shown.starts_with("<returncode>0</returncode>\n<output>\nhi\n</output>"),
            "{shown}"
        );
        assert_eq!(
            shown.contains("<budget>"),
            !parts.is_empty(),
            "{calls}, {seconds}: {shown}"
        );
        for part in parts {
            assert!(shown.contains(part), "{calls}, {seconds}: {shown}");
        }
    }
}
