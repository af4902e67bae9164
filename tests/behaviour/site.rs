//! Every command in a block of a page of the site (`docs/SUMMARY.md`) is run: here, by `docs.rs`, by `.ci/run`, or
//! by the file that [`ELSEWHERE`] names.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::docs;
use crate::host::Host;
use crate::needs::Need;
use crate::site_elsewhere::ELSEWHERE;
use crate::slurm::Cluster;
use crate::story::model;

/// What a page's commands need around them.
struct SitePage {
    path: &'static str,
    needs: &'static [Need],
    /// What is done first, in a repository with a commit and the files `task.md` and `problem.txt`.
    set_up: &'static str,
    /// What stands for something that is elsewhere: in each command, the first text is replaced by the second.
    instead: &'static [(&'static str, &'static str)],
}

const IMAGE: &str = "mswea-test/bash";
const PROJECT: &str = "echo 'model.model_name = \"openai/gpt-5\"' > project.toml";
const YAML: &str = "echo 'agent: {system_template: work, instance_template: \"{{task}}\", cost_limit: 0}' > my.yaml";
const TASKS: &str =
    r#"for id in one two three; do echo '{"id": "'$id'", "task": "t"}'; done > tasks.jsonl"#;

const PAGES: &[SitePage] = &[
    SitePage {
        path: "README.md",
        needs: &[Need::Docker],
        set_up: "PROJECT; YAML; cp $FORMATTER my_formatter.wasm",
        // The release build, which takes ten minutes.
        instead: &[
            ("python:3.12", IMAGE),
            ("cargo run --release -- ship", "mswea-host ship"),
        ],
    },
    SitePage {
        path: "host/config/mini-swe-agent.md",
        needs: &[Need::Docker, Need::Python],
        set_up: "YAML; echo \"model: {model_name: hosted_vllm/q, model_kwargs: {api_base: $OPENAI_BASE_URL}}\" > vllm.yaml; mini=$SCRATCH/mini-swe-agent-2.4.6; \
                 if [ ! -f $mini/installed ]; then rm -rf $mini; python3 -m venv $mini; $mini/bin/pip install -q mini-swe-agent==2.4.6; touch $mini/installed; fi; \
                 PATH=$mini/bin:$PATH; export MSWEA_CONFIGURED=1 LITELLM_LOCAL_MODEL_COST_MAP=True",
        instead: &[
            (
                "docker.io/swebench/sweb.eval.x86_64.astropy_1776_astropy-12907:latest",
                IMAGE,
            ),
            ("IMAGE", IMAGE),
        ],
    },
    SitePage {
        path: "host/sweagent/README.md",
        needs: &[Need::Docker],
        set_up: r#"printf 'agent: {tools: {bundles: [{path: tools/submit}]}, model: {name: gpt-4o}}' | tee mine.yaml > ctf.yaml
            for id in one two; do
              echo '{"instance_id": "'$id'", "problem_statement": "p", "image_name": "IMAGE"}'
            done > tasks.jsonl
            mkdir -p tasks/warmup
            echo '{"name": "n", "category": "misc", "description": "d", "flag": "done"}' > tasks/warmup/challenge.json
            # In the place of images of SWE-bench: one with git and a repository.
            for it in $(command -v git) $(ldd $(command -v git) | grep -o '/[^ )]*'); do
              mkdir -p with-git$(dirname $it); cp -L $it with-git$it
            done
            git init -q with-git/testbed; git -C with-git/testbed commit -q --allow-empty -m first
            container=$(docker create mswea-test/bash true)
            docker cp -q with-git/. $container:/; docker commit $container mswea-test-site/git; docker rm $container
            trap 'docker rmi -f mswea-test-site/git' EXIT
            echo '{"instance_id": "one", "problem_statement": "p", "image_name": "mswea-test-site/git", "base_commit": "HEAD"}' > dev.jsonl
            echo '{"trajectory": [], "info": {}, "history": [{"role": "assistant", "content": "", "tool_calls": [{"id": "c", "function": {"name": "submit", "arguments": "{}"}}]}], "replay_config": "{\"agent\": {\"tools\": {\"bundles\": [{\"path\": \"tools/submit\"}], \"parse_function\": {\"type\": \"function_calling\"}}, \"model\": {\"name\": \"m\"}}, \"problem_statement\": {\"text\": \"x\", \"id\": \"x\"}}"}' > x.traj
            export SWE_AGENT_TRAJECTORY_DIR=$HOME/trajectories"#,
        instead: &[
            ("python:3.11", IMAGE),
            (
                "--env.repo.path=.",
                "--env.repo.path=. --env.deployment.type=local",
            ),
            (
                "--instances.type=swe_bench",
                "--instances.type=swe_bench --agent.model.name=gpt-4o",
            ),
            (
                "--config ctf.yaml",
                "--config ctf.yaml --env.deployment.type=local",
            ),
        ],
    },
    SitePage {
        path: "host/provider/README.md",
        needs: &[],
        set_up: r#"mswea-host -m openai/gpt-5 -t x -o fix.traj.json
            echo '{"gpt-5": {"input_cost_per_token": 1e-6, "output_cost_per_token": 1e-5}}' > model_prices_and_context_window.json"#,
        instead: &[],
    },
    SitePage {
        path: "host/executor/README.md",
        needs: &[Need::Docker, Need::Bubblewrap, Need::Openssl],
        set_up: "openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 1 -subj /CN=localhost",
        instead: &[
            ("python:3.12", IMAGE),
            ("0.0.0.0:8443", "127.0.0.1:0"),
            ("127.0.0.1:8000", "127.0.0.1:0"),
        ],
    },
    SitePage {
        path: "host/config/README.md",
        needs: &[],
        set_up: "PROJECT",
        instead: &[],
    },
    SitePage {
        path: "host/batch/README.md",
        needs: &[],
        set_up: "TASKS",
        instead: &[],
    },
    SitePage {
        path: "host/batch/CLUSTER.md",
        needs: &[Need::Docker, Need::Slurm],
        set_up: "TASKS",
        instead: &[
            ("--partition cpu", "--partition test"),
            (
                "out --instances tasks.jsonl -m openai/gpt-5 --environment-class apptainer",
                "out2 --instances tasks.jsonl -m openai/gpt-5 --environment-class apptainer",
            ),
            (
                "out --instances tasks.jsonl -m openai/gpt-5 --environment-class bubblewrap",
                "out3 --instances tasks.jsonl -m openai/gpt-5 --environment-class bubblewrap",
            ),
            ("my/image:1", IMAGE),
            ("/shared/", "./shared/"),
        ],
    },
    SitePage {
        path: "host/src/cli/README.md",
        needs: &[Need::Jq],
        set_up: "echo two >> a.txt; mswea-host -m openai/gpt-5 -c agent.salvage_command='git diff' -t x -o TRAJECTORY; git checkout a.txt; jq .result.trajectory $ROOT/tests/side-by-side/recorded/toolcall_several.json > mini.traj.json",
        instead: &[("PATH", "TRAJECTORY")],
    },
    SitePage {
        path: "host/view/README.md",
        needs: &[],
        set_up: "mkdir results; mswea-host -m openai/gpt-5 -t x -o results/out.traj.json; cp results/out.traj.json .",
        instead: &[],
    },
    SitePage {
        path: "plugins/README.md",
        needs: &[],
        set_up: "cp $FORMATTER my_formatter.wasm",
        instead: &[],
    },
    SitePage {
        path: "examples/README.md",
        needs: &[],
        set_up: "cp -r $ROOT/examples .; cd $ROOT/examples/parser-xml; cargo build -q --release --target wasm32-wasip2; cd $OLDPWD; ln -s $ROOT/sdk sdk; ln -s $ROOT/wit wit",
        instead: &[
            ("/tmp/slugify", "slugify"),
            ("cd examples/parser-xml", "cd $ROOT/examples/parser-xml"),
            ("cp -r examples/demo", "cd $OLDPWD; cp -r examples/demo"),
            ("target/wasm32", "$CARGO_TARGET_DIR/wasm32"),
        ],
    },
    SitePage {
        path: "examples/parser-xml/README.md",
        needs: &[],
        set_up: "cd $ROOT/examples/parser-xml; cargo build -q --release --target wasm32-wasip2",
        instead: &[("target/wasm32", "$CARGO_TARGET_DIR/wasm32")],
    },
    SitePage {
        path: "examples/formatter-js/README.md",
        needs: &[Need::Npm],
        set_up: "mkdir examples; cp -r $ROOT/examples/formatter-js examples; ln -s $ROOT/sdk sdk; ln -s $ROOT/wit wit; cd examples/formatter-js; ./sdk.sh",
        instead: &[],
    },
    SitePage {
        path: "examples/history-python/README.md",
        needs: &[Need::Python],
        set_up: "mkdir examples; cp -r $ROOT/examples/history-python examples; ln -s $ROOT/sdk sdk; ln -s $ROOT/wit wit; cd examples/history-python; ./sdk.sh",
        instead: &[],
    },
    SitePage {
        path: "sdk/js/BUILD.md",
        needs: &[Need::Npm],
        set_up: "mswea-host plugin new parser --lang js mine; cd mine",
        instead: &[("WORLD", "parser"), ("NAME", "mine")],
    },
    SitePage {
        path: "sdk/python/BUILD.md",
        needs: &[Need::Python],
        set_up: "mswea-host plugin new parser --lang python mine; cd mine",
        instead: &[("WORLD", "parser"), ("NAME", "mine")],
    },
    SitePage {
        path: "examples/policy-c/README.md",
        needs: &[Need::Clang],
        set_up: "mkdir examples; cp -r $ROOT/examples/policy-c examples; ln -s $ROOT/sdk sdk; ln -s $ROOT/wit wit; make -s -C examples/policy-c",
        instead: &[],
    },
    SitePage {
        path: "examples/harbor/README.md",
        needs: &[],
        set_up: "",
        instead: &[],
    },
    SitePage {
        path: "examples/rl/README.md",
        needs: &[],
        set_up: "",
        instead: &[],
    },
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .canonicalize()
        .unwrap()
}

fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

/// A command of a page.
#[derive(Debug)]
struct PageCommand {
    tag: String,
    text: String,
}

/// The commands in the blocks of `sh` and `console`. If a block has prompts, the rest of it is output.
fn commands(page: &str) -> Vec<PageCommand> {
    let page = page.replace("\\\n", " ");
    let blocks = page.split("```").skip(1).step_by(2);
    let commands = blocks.flat_map(|block| {
        let (tag, block) = block.split_once('\n').unwrap_or_default();
        let has_prompts = block.lines().any(|it| it.trim_start().starts_with("$ "));
        let lines = block.lines().filter_map(move |line| {
            // Without a comment.
            let line = line.split(" #").next().unwrap_or_default().trim();
            match line.strip_prefix("$ ") {
                None if has_prompts => None,
                command => Some(command.unwrap_or(line)),
            }
        });
        let is_run = ["sh", "console"].contains(&tag);
        let lines = lines.filter(move |it| is_run && !it.is_empty() && !it.starts_with('#'));
        lines.map(|text| PageCommand {
            tag: tag.to_owned(),
            text: text.split_whitespace().collect::<Vec<_>>().join(" "),
        })
    });
    commands.collect()
}

/// What `.ci/run` runs.
fn commands_of_ci() -> BTreeSet<String> {
    let ci = text(".ci/run");
    let parts = ci.split(['\n', '\'', '(', ')', ';']);
    let parts = parts.flat_map(|it| it.split("&&")).chain(ci.lines());
    let parts = parts.map(|it| it.trim_end_matches('\\').trim().to_owned());
    parts.filter(|it| !it.starts_with("cd ")).collect()
}

fn is_elsewhere(page: &str, command: &str) -> bool {
    let mut all = ELSEWHERE.iter();
    all.any(|it| it.page == page && command.starts_with(it.beginning))
}

/// Runs a page's commands, one after the other, in one shell.
#[track_caller]
fn run(path: &str) {
    let page = PAGES.iter().find(|it| it.path == path).unwrap();
    if !page.needs.iter().all(|it| it.is_met()) {
        return;
    }
    let server = model();
    let cluster = page
        .needs
        .contains(&Need::Slurm)
        .then(|| Cluster::start(true));
    let set_up = [
        ("PROJECT", PROJECT),
        ("YAML", YAML),
        ("TASKS", TASKS),
        ("IMAGE", IMAGE),
    ];
    let set_up = set_up
        .iter()
        .fold(page.set_up.to_owned(), |text, (name, it)| {
            text.replace(name, it)
        });
    let mut script = format!(
        "exec 2>&1 </dev/null; set -ex; IFS=$'\\n'\ngit init -q; echo one > a.txt; git add .; git commit -qm first\n\
         echo '*' > .git/info/exclude; echo 'fix it' | tee task.md > problem.txt\n{set_up}\n"
    );
    let ci = commands_of_ci();
    for command in commands(&text(path)) {
        if is_elsewhere(path, &command.text) || ci.contains(&command.text) {
            continue;
        }
        let mut text = command
            .text
            .replace("http://127.0.0.1:8000/v1", &server.url());
        for (before, after) in page.instead {
            text = text.replace(before, &after.replace("IMAGE", IMAGE));
        }
        // A server is ended when it has said where it is.
        if text.contains("mswea-host view") || text.contains("runtime serve") {
            text_of_server(&mut script, &text);
        } else {
            script.push_str(&text);
            script.push('\n');
        }
    }
    let home = std::env::var("HOME").unwrap_or_default();
    let of_cargo =
        |name: &str, folder: &str| std::env::var(name).unwrap_or(format!("{home}/{folder}"));
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let program = Path::new(env!("CARGO_BIN_EXE_mswea-host"));
    let programs = program.parent().unwrap().display();
    let path = std::env::var("PATH").unwrap_or_default();
    let url = server.url();
    let mut host = Host::new()
        .program(Path::new("bash"))
        .args(["-c", &script])
        .env("PATH", format!("{programs}:{path}"))
        .env("CARGO_HOME", of_cargo("CARGO_HOME", ".cargo"))
        .env("RUSTUP_HOME", of_cargo("RUSTUP_HOME", ".rustup"))
        .env("CARGO_TARGET_DIR", scratch.join("docs"))
        .env("ROOT", root())
        .env("SCRATCH", scratch)
        .env("HOST", program)
        .env(
            "FORMATTER",
            scratch
                .with_file_name("plugins")
                .join("formatters/jinja.wasm"),
        )
        .env("OPENAI_BASE_URL", &url)
        .env("ANTHROPIC_API_BASE", url.trim_end_matches("/v1"))
        .timeout(Duration::from_secs(600));
    for name in ["OPENAI_API_KEY", "ANTHROPIC_API_KEY"] {
        host = host.env(name, "key-of-the-test");
    }
    for role in ["AUTHOR", "COMMITTER"] {
        host = host.env(&format!("GIT_{role}_NAME"), "t");
        host = host.env(&format!("GIT_{role}_EMAIL"), "t@localhost");
    }
    for (name, value) in cluster.iter().flat_map(|it| &it.variables) {
        host = host.env(name, value);
    }
    let done = host.run();
    assert!(done.status == 0, "{path}: {done}");
}

fn text_of_server(script: &mut String, command: &str) {
    script.push_str(&format!(
        "{command} > said & server=$!\nuntil [ -s said ]; do kill -0 $server; sleep 0.1; done\n\
         kill -TERM $server; wait $server; rm said\n"
    ));
}

macro_rules! pages {
    ($($name:ident: $path:literal,)*) => {
        const TESTED: &[&str] = &[$($path),*];
        $(#[test]
        fn $name() {
            run($path);
        })*
    };
}

pages! {
    first_page: "README.md",
    mini_page: "host/config/mini-swe-agent.md",
    sweagent_page: "host/sweagent/README.md",
    models_page: "host/provider/README.md",
    executors_page: "host/executor/README.md",
    config_page: "host/config/README.md",
    batches_page: "host/batch/README.md",
    clusters_page: "host/batch/CLUSTER.md",
    runs_page: "host/src/cli/README.md",
    view_page: "host/view/README.md",
    plugins_page: "plugins/README.md",
    examples_page: "examples/README.md",
    formatter_page: "examples/formatter-js/README.md",
    history_page: "examples/history-python/README.md",
    javascript_build_page: "sdk/js/BUILD.md",
    python_build_page: "sdk/python/BUILD.md",
    parser_page: "examples/parser-xml/README.md",
    policy_page: "examples/policy-c/README.md",
    harbor_page: "examples/harbor/README.md",
    trainers_page: "examples/rl/README.md",
}

#[test]
fn every_command_of_the_site_is_run() {
    let ci = commands_of_ci();
    let summary = text("docs/SUMMARY.md");
    let pages = summary
        .split("](../")
        .skip(1)
        .filter_map(|it| it.split_once(')'));
    let (mut missing, mut named, mut all) = (Vec::new(), BTreeSet::new(), 0);
    for (page, _) in pages {
        let is_tested = TESTED.contains(&page);
        for PageCommand { tag, text } in commands(&text(page)) {
            all += 1;
            let in_docs = docs::PAGES.contains(&page) && tag == "sh";
            let mut is_named = false;
            for (index, it) in ELSEWHERE.iter().enumerate() {
                if it.page == page && text.starts_with(it.beginning) && !in_docs {
                    named.insert(index);
                    is_named = true;
                }
            }
            let is_run = is_tested || in_docs || ci.contains(&text);
            if !is_run && !is_named {
                missing.push(format!("{page}: {text}"));
            }
        }
    }
    let unused = ELSEWHERE
        .iter()
        .enumerate()
        .filter(|(index, _)| !named.contains(index));
    let unused: Vec<_> = unused.map(|(_, row)| row).collect();
    assert!(missing.is_empty(), "run nowhere: {missing:#?}");
    assert!(unused.is_empty(), "not in the pages: {unused:#?}");
    for it in ELSEWHERE {
        // A page runs what no entry takes out of it.
        let is_page = it.file.ends_with(".md");
        let runs = !is_page || TESTED.contains(&it.file) && !is_elsewhere(it.file, it.text);
        assert!(runs && text(it.file).contains(it.text), "{it:?}");
    }
    let untested = PAGES.iter().filter(|it| !TESTED.contains(&it.path)).count();
    assert!(
        all > 90 && untested == 0 && TESTED.len() == PAGES.len(),
        "{all}"
    );
}
