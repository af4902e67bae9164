//! Command lines and their meaning.

use clap::Parser;
use clap::error::ErrorKind;

use super::*;

fn parse(line: &[&str]) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(std::iter::once(&PROGRAM).chain(line))
}

#[test]
fn the_definitions_are_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn overrides() {
    // Command line, then `key = value (flag)` for each override.
    let vectors: [(&[&str], &[&str]); 12] = [
        (&[], &[]),
        (
            &["-m", "openai/gpt-5"],
            &["model.model_name = \"openai/gpt-5\" (--model)"],
        ),
        (
            &["--base-url", "http://127.0.0.1:8000/v1"],
            &["model.base_url = \"http://127.0.0.1:8000/v1\" (--base-url)"],
        ),
        (&["--no-stream"], &["model.stream = false (--no-stream)"]),
        (
            &["--session-header", "X-Session-ID=a=b"],
            &["model.session_header = {\"X-Session-ID\":\"a=b\"} (--session-header)"],
        ),
        (
            &["--price", "in=1,out=2,cache_read=0.5"],
            &[
                "model.price.input = 1.0 (--price)",
                "model.price.output = 2.0 (--price)",
                "model.price.cache_read = 0.5 (--price)",
                "model.price.cache_write = null (--price)",
            ],
        ),
        (
            &["-l", "0", "--step-limit", "7", "--time-limit=60"],
            &[
                "agent.step_limit = 7 (--step-limit)",
                "agent.cost_limit = 0.0 (--cost-limit)",
                "agent.wall_time_limit_seconds = 60 (--time-limit)",
            ],
        ),
        (
            &["-o", "a.traj.json"],
            &["agent.output_path = \"a.traj.json\" (--output)"],
        ),
        (&["-y"], &["agent.mode = \"yolo\" (--yolo)"]),
        (
            &["--exit-immediately"],
            &["agent.confirm_exit = false (--exit-immediately)"],
        ),
        (&["--cwd", "/tmp"], &["environment.cwd = \"/tmp\" (--cwd)"]),
        (
            &["-m", "a/b", "-yl", "2.5", "-t", "x"],
            &[
                "model.model_name = \"a/b\" (--model)",
                "agent.cost_limit = 2.5 (--cost-limit)",
                "agent.mode = \"yolo\" (--yolo)",
            ],
        ),
    ];
    for (line, expected) in vectors {
        let cli = parse(line).unwrap_or_else(|error| panic!("{line:?}: {error}"));
        assert!(cli.command.is_none());
        let got: Vec<_> = cli
            .run
            .overrides()
            .iter()
            .map(|o| format!("{} = {} ({})", o.key, o.value, o.flag))
            .collect();
        assert_eq!(got, expected, "{line:?}");
    }
}

#[test]
fn what_is_no_override() {
    let line = "-c text -c agent.x=1 --no-default-config -vv -t - --plugin text_regex \
                --plugin ./p.wasm --allow-host A.example:8443 --fresh-instances --fsync --no-cache";
    let line: Vec<&str> = line.split_whitespace().collect();
    let run = parse(&line).unwrap().run;
    assert_eq!(run.configs, ["text", "agent.x=1"]);
    assert_eq!(run.plugins, ["text_regex", "./p.wasm"]);
    assert_eq!(run.allow_hosts, ["a.example:8443"]);
    assert!(run.no_default_config && run.fresh_instances && run.fsync && run.no_cache);
    assert_eq!(run.display.verbose, 2);
    assert_eq!(run.task.as_deref(), Some("-"));
    assert!(run.overrides().is_empty());
}

/// Repeated flags are accepted, because scripts append flags.
#[test]
fn the_last_of_a_repeated_flag_wins_and_lists_go_on_collecting() {
    let line = "-m a/b --model=c/d -l 1 -l 2 --step-limit 3 --step-limit 4 --time-limit 5 \
                --time-limit 6 -o a -o b --cwd a --cwd b --image a --image b -t a -t b -y -y \
                --base-url http://a --base-url http://b --price in=1,out=1 --price in=2,out=2 \
                --model-class a --model-class b --agent-class a --agent-class b \
                --environment-class a --environment-class b --on-end a --on-end b --atif a --atif b \
                --no-stream --no-stream --exit-immediately --exit-immediately -q -q \
                --fsync --fsync --no-cache --no-cache --fresh-instances --fresh-instances \
                --no-default-config --no-default-config \
                --mode human --mode human --confirm-exit --confirm-exit --notify --notify \
                --session-header a=b --session-header c=d --run-id a --run-id b --plain --plain --exit-codes mini --exit-codes mswea \
                -c a -c b --plugin a --plugin b --shadow a --shadow b \
                --allow-host a --allow-host b";
    let words: Vec<&str> = line.split_whitespace().collect();
    let run = parse(&words).unwrap().run;
    assert_eq!(run.model.as_deref(), Some("c/d"));
    assert_eq!((run.cost_limit, run.step_limit), (Some(2.0), Some(4)));
    assert_eq!(run.time_limit, Some(6));
    for last in [
        &run.output,
        &run.cwd,
        &run.image,
        &run.task,
        &run.model_class,
        &run.agent_class,
        &run.environment_class,
        &run.on_end,
        &run.atif,
        &run.run_id,
    ] {
        assert_eq!(last.as_deref(), Some("b"));
    }
    assert_eq!(run.base_url.as_deref(), Some("http://b"));
    let entries = run.price.unwrap().entries();
    assert!(entries.contains(&("model.price.input", Some(2.0))));
    for all in [&run.configs, &run.plugins, &run.shadow, &run.allow_hosts] {
        assert_eq!(*all, ["a", "b"]);
    }
    // All flags are in the list above.
    for argument in Cli::command().get_arguments() {
        let Some(name) = argument
            .get_long()
            .filter(|name| !matches!(*name, "json" | "verbose"))
        else {
            continue;
        };
        let short = argument.get_short().map(|short| format!("-{short}"));
        let is_it = |word: &&&str| {
            word.split('=').next() == Some(&*format!("--{name}"))
                || Some(**word) == short.as_deref()
        };
        assert_eq!(words.iter().filter(is_it).count(), 2, "--{name}");
    }
    // The same in commands.
    let line = ["prices", "update", "f", "--source", "a", "--source", "b"];
    let command = parse(&line).unwrap().command;
    let updated = format!("{command:?}");
    assert!(updated.contains("source: Some(\"b\")"), "{updated}");
}

#[test]
fn a_task_may_begin_with_a_dash_and_be_empty() {
    for task in ["- fix this\n- and that", "--help is broken", "", "-"] {
        let run = parse(&["-t", task]).unwrap().run;
        assert_eq!(run.task.as_deref(), Some(task));
    }
}

#[test]
fn commands() {
    let vectors: [(&[&str], &str); 23] = [
        (&["demo"], "Demo(DemoArgs { keep: false"),
        (&["demo", "--keep", "--json"], "Demo(DemoArgs { keep: true"),
        (&["plugin", "list"], "Plugin(List { json: false })"),
        (
            &["plugin", "inspect", "a.wasm", "--json"],
            "Plugin(Inspect { plugin: \"a.wasm\", wit: false, json: true })",
        ),
        (&["plugin", "cache", "clear"], "Plugin(Cache(Clear))"),
        (&["config", "show"], "Config(Show { origin: false"),
        (
            &["config", "show", "--origin", "-c", "a=1", "-m", "x/y"],
            "Config(Show { origin: true",
        ),
        (&["config", "schema"], "Config(Schema)"),
        (&["setup"], "Setup(SetupArgs { try_model: None"),
        (
            &["setup", "--try", "openai/m"],
            "Setup(SetupArgs { try_model: Some(",
        ),
        (&["self", "check"], "Installation(Check { json: false })"),
        (
            &["self", "check", "--json"],
            "Installation(Check { json: true })",
        ),
        (&["doctor"], "Doctor(DoctorArgs { json: false, url: None"),
        (
            &["doctor", "--json"],
            "Doctor(DoctorArgs { json: true, url: None",
        ),
        (
            &["gc"],
            "Gc(GcArgs { dry_run: false, json: false, run: None, docker: [] })",
        ),
        (
            &[
                "gc",
                "--dry-run",
                "--json",
                "--run",
                "r",
                "--docker",
                "podman",
                "--docker=x",
            ],
            "Gc(GcArgs { dry_run: true, json: true, run: Some(\"r\"), docker: [\"podman\", \"x\"] })",
        ),
        (&["completions", "bash"], "Completions { shell: Bash }"),
        (&["completions", "zsh"], "Completions { shell: Zsh }"),
        (&["man"], "Man"),
        (
            &["view"],
            "View(ViewArgs { paths: [], listen: \"127.0.0.1:0\" })",
        ),
        (
            &["view", "a", "b", "--listen", "x", "--listen", "y"],
            "View(ViewArgs { paths: [\"a\", \"b\"], listen: \"y\" })",
        ),
        (
            &["ship", "out/bin"],
            "Ship { output: \"out/bin\", plugins: [] }",
        ),
        (&["__guard", "r1"], "Guard { run_id: \"r1\" }"),
    ];
    for (line, expected) in vectors {
        let command = parse(line).unwrap().command.expect("a command");
        let got = format!("{command:?}");
        assert!(got.starts_with(expected), "{line:?}: {got}");
    }
}

#[test]
fn bad_lines() {
    let vectors: [(&[&str], ErrorKind, &str); 15] = [
        (&["--json", "-q"], ErrorKind::ArgumentConflict, "--quiet"),
        (&["--json", "-v"], ErrorKind::ArgumentConflict, "--verbose"),
        (&["-q", "-v"], ErrorKind::ArgumentConflict, "--verbose"),
        (
            &["demo", "--json", "-q"],
            ErrorKind::ArgumentConflict,
            "--quiet",
        ),
        (&["-m", "x", "demo"], ErrorKind::ArgumentConflict, "demo"),
        (
            &["fix the bug"],
            ErrorKind::InvalidSubcommand,
            "fix the bug",
        ),
        (&["dmeo"], ErrorKind::InvalidSubcommand, "demo"),
        (&["--modell", "x"], ErrorKind::UnknownArgument, "--model"),
        (&["-m"], ErrorKind::InvalidValue, "--model"),
        (&["-l", "lots"], ErrorKind::ValueValidation, "give dollars"),
        (&["-l", "-1"], ErrorKind::ValueValidation, "negative"),
        (
            &["--step-limit", "-1"],
            ErrorKind::ValueValidation,
            "whole number",
        ),
        (
            &["fork", "r", "--at", "-1"],
            ErrorKind::ValueValidation,
            "0 is before the first",
        ),
        (
            &["--price", "in=1"],
            ErrorKind::ValueValidation,
            "`out` tokens",
        ),
        (&["ship"], ErrorKind::MissingRequiredArgument, "<OUTPUT>"),
    ];
    for (line, kind, part) in vectors {
        let error = parse(line).expect_err("must be refused");
        assert_eq!(error.kind(), kind, "{line:?}: {error}");
        assert!(error.to_string().contains(part), "{line:?}: {error}");
        assert_eq!(error.exit_code(), 2, "{line:?}");
    }
}

#[test]
fn help_names_every_flag_and_fits_a_terminal() {
    let help = Cli::command().term_width(100).render_help().to_string();
    for argument in Cli::command().get_arguments() {
        let name = argument.get_long().expect("every flag has a long name");
        assert!(help.contains(&format!("--{name}")), "{name}");
        assert!(argument.get_help().is_some(), "`--{name}` has no help");
    }
    assert!(!help.contains("__guard"));
    assert!(help.contains("Exit codes"));
    for line in help.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
}

#[test]
fn completions_and_manual() {
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        let mut script = Vec::new();
        write_completions(shell, &mut script);
        let script = String::from_utf8(script).unwrap();
        assert!(script.contains("base-url"), "{shell}");
    }
    let mut page = Vec::new();
    write_man(&mut page).unwrap();
    let page = String::from_utf8(page).unwrap();
    assert!(
        page.contains(".TH mswea-host") && page.contains("cost\\-limit"),
        "{page}"
    );
}

/// The words of a command line; none behind a pipe, a redirection or a comment.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(end), c) if c == end => quote = None,
            (Some(_), c) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '\\') => word.get_or_insert_default().extend(chars.next()),
            // The number of a redirection is no word.
            (None, '<' | '>') => {
                word = word.filter(|it| it.parse::<u8>().is_err());
                break;
            }
            (None, '&' | ';' | ')') => break,
            // In a word it stands between alternatives.
            (None, '|') if word.is_none() => break,
            (None, '#') if word.is_none() => break,
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (None, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// Each command line of this program in a block of a page is one that it accepts.
#[test]
fn the_command_lines_of_the_pages_are_valid() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let summary = std::fs::read_to_string(root.join("docs/SUMMARY.md")).unwrap();
    let pages = summary.split("](../").skip(1);
    let pages = pages.filter_map(|it| Some(it.split_once(')')?.0));
    let (mut checked, mut refused) = (0, Vec::new());
    for page in pages {
        let text = std::fs::read_to_string(root.join(page)).unwrap();
        let text = text.replace("\\\n", " ");
        for block in text.split("```").skip(1).step_by(2) {
            for line in block.lines() {
                let line = line.trim_start().trim_start_matches("$ ");
                let Some(rest) = line.strip_prefix("mswea-host ") else {
                    continue;
                };
                let words = words(rest);
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                checked += 1;
                if let Err(error) = parse(&words)
                    && error.use_stderr()
                {
                    let why = error.to_string();
                    let why = why.lines().next().unwrap_or_default();
                    refused.push(format!("{page}: {line}: {why}"));
                }
            }
        }
    }
    assert!(checked > 80, "{checked}");
    assert!(refused.is_empty(), "{refused:#?}");
}
