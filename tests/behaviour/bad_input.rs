//! Mistakes of users: one message with cause and remedy, the documented exit code, and no files of a
//! run that did not begin.

use scripted_server::{Scenario, Server};

use crate::host::Host;
use crate::story::{commands, submit};

/// Arguments, the exit code, and parts of the message. No request is sent.
type Mistake = (&'static [&'static str], i32, &'static [&'static str]);

/// Arguments of a complete run; `URL` is replaced.
const WHOLE: [&str; 8] = [
    "-m",
    "local/test",
    "--base-url",
    "URL",
    "-t",
    "x",
    "-o",
    "traj.json",
];

#[track_caller]
fn mistakes(before: &[&str], table: &[Mistake]) {
    let server = Server::start(Scenario::commands(&[submit("never")]));
    let url = server.url();
    for (arguments, code, parts) in table {
        let arguments = before.iter().chain(*arguments);
        let run = Host::new()
            .file("folder/file", "")
            .file("bad.json", "{")
            .file("list.json", "[1]")
            .file("bad.yaml", "agent:\n  step_limit: [1\n")
            .file("bad.toml", "[agent]\nstep_limit = = 3\n")
            .file("key.yaml", "agent:\n  step_limt: 3\n")
            .file("key.toml", "[agent]\nstep_limit = 3\n\n[modle]\nx = 1\n")
            .file("type.toml", "[agent]\nstep_limit = \"3\"\n")
            .file(
                "template.toml",
                "[agent]\ninstance_template = '''a\n{{ task'''\n",
            )
            .file("binary.toml", [0xff, 0xfe, 0])
            .args(arguments.map(|argument| if *argument == "URL" { &url } else { *argument }))
            .stdin("")
            .run()
            .expect(*code)
            .says(parts);
        assert!(run.stdout.is_empty(), "{run}");
        let errors = run
            .stderr
            .lines()
            .filter(|line| line.starts_with("error: "));
        assert_eq!(errors.count(), 1, "{run}");
        // A run that did not begin leaves no files behind.
        assert!(!run.dir.join("traj.json").exists(), "{run}");
        assert!(!run.dir.join("traj.events.jsonl").exists(), "{run}");
    }
    assert_eq!(server.served(), 0);
}

#[test]
fn models_and_tasks() {
    let rest = ["-t", "x", "-o", "traj.json"];
    mistakes(
        &rest,
        &[
            (
                &["-m", "opneai/gpt-5"],
                2,
                &["unknown prefix `opneai`", "did you mean `openai/gpt-5`?"],
            ),
            (
                &["-m", "mystery-5"],
                2,
                &["no prefix", "`openai/mystery-5`", "`--base-url`"],
            ),
            (
                &["-m", "local/x"],
                2,
                &["needs a base URL", "`--base-url http://127.0.0.1:8000/v1`"],
            ),
            (
                &["-m", "local/x", "--base-url", "127.0.0.1:8000"],
                2,
                &["--base-url", "give a whole URL"],
            ),
            (&[], 2, &["no model", "`-m PREFIX/NAME`"]),
            (
                &["-m", "replay/gone.json"],
                2,
                &["can't replay `gone.json`", "give `-m replay/PATH`"],
            ),
            (
                &["-m", "replay/bad.json"],
                2,
                &["not JSON", "line 1 column 1", "give `-m replay/PATH`"],
            ),
            (
                &["-m", "replay/list.json"],
                2,
                &["neither a trajectory", "give `-m replay/PATH`"],
            ),
        ],
    );
    mistakes(
        &["-m", "local/test", "--base-url", "URL", "-o", "traj.json"],
        &[
            (&[], 2, &["no task given", "`-t TEXT`", "`-t -`"]),
            (&["-t", " \n"], 2, &["the task given by `--task` is empty"]),
            (&["-t", "-"], 2, &["the task given by stdin is empty"]),
        ],
    );
}

#[test]
fn plugins_and_templates() {
    mistakes(
        &WHOLE,
        &[
            (
                &["--plugin", "tex_regex"],
                7,
                &[
                    "there is no plugin `tex_regex`",
                    "did you mean `text_regex`?",
                ],
            ),
            (
                &["--plugin", "gone.wasm"],
                7,
                &["can't read plugin `gone.wasm`"],
            ),
            (
                &["-c", "pipeline.parser=openai"],
                7,
                &[
                    "`openai` can't be used as action-parser",
                    "set by -c pipeline.parser=openai",
                ],
            ),
            (
                &["-c", "pipeline.processors=[\"toolcall\"]"],
                7,
                &[
                    "`toolcall` can't be used as history-processor",
                    "set by -c pipeline.processors",
                ],
            ),
            (
                &["--plugin", "last_n_observations"],
                2,
                &[
                    "the config of plugin `last_n_observations` is invalid",
                    "\"n\" is a required property",
                ],
            ),
            (
                &["-c", "plugins.jinja.config.foo=1"],
                2,
                &[
                    "`jinja`",
                    "unknown key `foo`",
                    "set by -c plugins.jinja.config.foo=1",
                ],
            ),
            (
                &["-c", "text", "-c", "model.action_regex=(["],
                2,
                &["`text_regex`", "unterminated character set"],
            ),
            (
                &["-c", "template.toml"],
                2,
                &[
                    "`agent.instance_template`, line 2, column 4",
                    "{{ task",
                    "set by template.toml:2",
                ],
            ),
            (
                &["-c", "model.observation_template={% if %}"],
                2,
                &[
                    "`model.observation_template`, line 1, column 7",
                    "set by -c model.observation",
                ],
            ),
            (
                &["-c", "model.format_error_template=\n\n{% endfor %}"],
                2,
                &["`model.format_error_template`, line 3, column 4"],
            ),
        ],
    );
}

#[test]
fn config_files_and_flags() {
    mistakes(
        &WHOLE,
        &[
            (
                &["-c", "bad.yaml"],
                2,
                &[
                    "invalid YAML",
                    "bad.yaml:3:1",
                    "begins on line 2",
                    "close the bracket",
                ],
            ),
            (
                &["-c", "bad.toml"],
                2,
                &["invalid TOML", "bad.toml:2:14", "step_limit = = 3"],
            ),
            (
                &["-c", "key.yaml"],
                2,
                &[
                    "warning: unknown key `agent.step_limt` is ignored",
                    "key.yaml:2",
                    "did you mean `agent.step_limit`?",
                    "no value for `agent.system_template`",
                ],
            ),
            (
                &["-c", "key.toml"],
                2,
                &[
                    "unknown key `modle`",
                    "key.toml:4:2",
                    "did you mean `model`?",
                ],
            ),
            (
                &["-c", "type.toml"],
                2,
                &["type.toml:2:14", "must be an integer", "without quotes"],
            ),
            (
                &["-c", "binary.toml"],
                2,
                &["`binary.toml` is not UTF-8", "save the file as UTF-8"],
            ),
            (
                &["-c", "gone.toml"],
                2,
                &[
                    "`-c gone.toml` names neither a file nor a preset",
                    "`default`",
                ],
            ),
            (
                &["-c", "folder"],
                2,
                &["`-c folder` names neither a file nor a preset", "`text`"],
            ),
            (
                &["-c", "agent.step_limt=3"],
                2,
                &["did you mean `agent.step_limit`?"],
            ),
            (
                &["-c", "agent.step_limit=many"],
                2,
                &["must be an integer", "-c agent.step_limit=many"],
            ),
            (
                &["--price", "in=x"],
                2,
                &["--price", "dollars per million tokens"],
            ),
            (&["--frobnicate"], 2, &["--frobnicate", "--help"]),
            (
                &["--allow-host", "a b"],
                2,
                &["--allow-host", "`host` or `host:port`"],
            ),
        ],
    );
    // Not even root can write to these paths.
    let rest = ["-m", "local/test", "--base-url", "URL", "-t", "x"];
    mistakes(
        &rest,
        &[
            (
                &["-o", "/proc/nothing/t.json"],
                2,
                &["`/proc/nothing/t.json`", "with `-o PATH`"],
            ),
            (
                &["-o", "folder"],
                2,
                &["`folder`: it is a folder", "with `-o PATH`"],
            ),
            (
                &["-o", "bad.json/t.json"],
                2,
                &["`bad.json` is no folder", "with `-o PATH`"],
            ),
        ],
    );
}

#[test]
fn mistakes_that_are_found_after_the_start_end_the_run() {
    for (arguments, code, status, parts) in [
        (
            ["--cwd", "gone"],
            6,
            "EnvironmentError",
            &["working directory `gone`", "create it or set `cwd`"][..],
        ),
        (
            ["-c", "environment.interpreter=[\"/bin/nothing\"]"],
            6,
            "EnvironmentError",
            &["interpreter `/bin/nothing`", "set `interpreter`"],
        ),
        (
            ["-c", "agent.instance_template=a\n {{ taks }}"],
            2,
            "TemplateError",
            &[
                "`agent.instance_template`, line 2, column 5",
                "`taks` is undefined",
                "did you mean `task`?",
            ],
        ),
        (
            ["-c", "agent.system_template={{ 1 / 0 }}"],
            2,
            "TemplateError",
            &["`agent.system_template`, line 1"],
        ),
    ] {
        let server = commands(&[]);
        let run = Host::new().server(&server).task("x").args(arguments).run();
        let run = run.expect(code).says(parts).nothing_left();
        assert_eq!(run.exit_status(), status);
        assert_eq!(server.served(), 0);
        let error = &run.trajectory()["info"]["mswea"]["error"]["message"];
        assert!(error.as_str().unwrap().contains(parts[0]), "{error}");
    }
}

#[test]
fn a_feedback_template_that_fails_is_told_before_it_is_needed() {
    let server = commands(&["echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"]);
    let spec = "model.format_error_template=a\n {{ acitons }}";
    let host = Host::new().server(&server).task("x").args(["-c", spec]);
    host.run().expect(0).says(&[
        "when it is needed, this will end the run",
        "`model.format_error_template`, line 2, column 5",
        "did you mean `actions`",
    ]);
}

#[test]
fn an_observation_template_that_fails_is_named_by_its_key() {
    for (spec, key) in [
        (
            "model.observation_template=a\n {{ outptu.output }}",
            "`model.observation_template`, line 2, column 5",
        ),
        (
            "plugins.jinja.config.observation_template=a\n {{ outptu.output }}",
            "`plugins.jinja.config.observation_template`, line 2, column 5",
        ),
        (
            "model.observation_template={% set x = [] %}{{ output.output }}{% if output.returncode %}\n{{ x.append(1) }}{% endif %}",
            "`model.observation_template`, line 2, column",
        ),
    ] {
        let server = commands(&["echo a"]);
        let host = Host::new().server(&server).task("x");
        let run = host.args(["-c", spec]).run().expect(2);
        let hint = match spec.contains("append") {
            true => "namespace(x=[])",
            false => "",
        };
        let run = run.says(&[key, hint]).nothing_left();
        assert_eq!(run.exit_status(), "TemplateError");
        assert_eq!(server.served(), 0, "nothing was paid");
    }
}
