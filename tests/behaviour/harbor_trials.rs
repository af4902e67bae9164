//! Trials of the real Harbor, in containers: with the agent class of `examples/harbor`, and with Harbor's own adapter of
//! mini-swe-agent and our program in its place.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use scripted_server::{Fault, Server, Turn, Usage};
use serde_json::{Value, json};

use crate::host::Host;
use crate::needs::{HARBOR, Need, tooling};
use crate::run::Run;
use crate::story::turns;
use crate::trainers::told;

const OURS: &str = "mswea_harbor:MsweaHost";
const AS_MINI: &str = "mswea_harbor:MsweaAsMini";
const WORK: &str = "mkdir -p /app; echo 'Hello, world!' > /app/hello.txt";
const VERIFIER: &str =
    "grep -q 'Hello, world' /app/hello.txt; echo $((1 - $?)) > /logs/verifier/reward.txt\n";

/// A trial that has ended.
struct Trial {
    /// Harbor's process, and the folder with its files.
    run: Run,
    folder: PathBuf,
    result: Value,
}

/// Runs Harbor on a task whose agent has so many seconds.
#[track_caller]
fn trial(server: &Server, agent: &str, seconds: u32, arguments: &[&str]) -> Trial {
    let task = format!(
        "schema_version = \"1.4\"\n[agent]\ntimeout_sec = {seconds}.0\n[verifier]\ntimeout_sec = 30.0\n\
         [environment]\ndocker_image = \"mswea-test/bash\"\n"
    );
    let host = Host::new()
        .file("task/task.toml", task)
        .file("task/instruction.md", "Write /app/hello.txt.\n")
        .file("task/tests/test.sh", VERIFIER)
        .file("task/environment/.gitkeep", "");
    let label = format!("mswea-test={}", host.dir().display());
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/harbor");
    let run = host
        .program(&Path::new(HARBOR).join("bin/harbor"))
        .args([
            "run",
            "-y",
            "-q",
            "-p",
            "task",
            "-o",
            "jobs",
            "--job-name",
            "job",
        ])
        .args([
            "--env",
            "plain_docker_env:PlainDocker",
            "-a",
            agent,
            "-m",
            "openai/gpt-5",
        ])
        .args(arguments)
        .env(
            "PYTHONPATH",
            format!("{}:{}", examples.display(), tooling().display()),
        )
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("LITELLM_LOCAL_MODEL_COST_MAP", "True")
        .env("MSWEA_HOST_BINARY", env!("CARGO_BIN_EXE_mswea-host"))
        .env("OPENAI_API_KEY", "key-of-the-test")
        .env("OPENAI_BASE_URL", server.url())
        .env(
            "PLAIN_DOCKER_OPTIONS",
            format!("{} --label '{label}'", libraries()),
        )
        .run()
        .expect(0);
    let left = Command::new("docker")
        .args(["ps", "-aq", "--filter", &format!("label={label}")])
        .output()
        .unwrap();
    assert_eq!(
        String::from_utf8_lossy(&left.stdout),
        "",
        "a container is left"
    );
    let trials = fs::read_dir(run.dir.join("jobs/job")).unwrap().flatten();
    let mut folders = trials.map(|it| it.path()).filter(|it| it.is_dir());
    let folder = folders.next().unwrap();
    let result = fs::read(folder.join("result.json")).unwrap();
    let result = serde_json::from_slice(&result).unwrap();
    Trial {
        run,
        folder,
        result,
    }
}

/// Options of `docker run` with which the tests' binary, which is not static, finds this machine's libraries and the
/// plugins that it has compiled.
fn libraries() -> String {
    let shared = Path::new("/usr/lib/x86_64-linux-gnu");
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache");
    let mut options = format!(
        "-v '{}:/cache' -e XDG_CACHE_HOME=/cache -e MSWEA_PLUGIN_CACHE=trust",
        cache.display()
    );
    if shared.is_dir() {
        options.push_str(&format!(
            " -v {0}:/lib/x86_64-linux-gnu:ro -v /usr/lib64:/lib64:ro",
            shared.display()
        ));
    }
    options
}

impl Trial {
    fn exception(&self) -> &str {
        let exception = &self.result["exception_info"];
        exception["exception_type"].as_str().unwrap_or_default()
    }

    /// Checks it with Harbor's validator.
    #[track_caller]
    fn atif(&self) -> Value {
        let path = self.folder.join("agent/trajectory.json");
        let said = Command::new(Path::new(HARBOR).join("bin/python"))
            .args(["-m", "harbor.utils.trajectory_validator"])
            .arg(&path)
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&said.stderr).into_owned();
        assert!(said.status.success(), "{errors}{}", self.run);
        serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
    }

    /// Input, cached and output tokens, and dollars.
    fn used(&self) -> Value {
        let agent = &self.result["agent_result"];
        let names = [
            "n_input_tokens",
            "n_cache_tokens",
            "n_output_tokens",
            "cost_usd",
        ];
        names.map(|name| agent[name].clone()).into_iter().collect()
    }

    #[track_caller]
    fn reward(&self) -> f64 {
        let reward = &self.result["verifier_result"]["rewards"]["reward"];
        reward
            .as_f64()
            .unwrap_or_else(|| panic!("no reward: {:#}\n{}", self.result, self.run))
    }
}

fn work() -> Turn {
    let usage = Usage {
        cached_tokens: 40,
        ..Usage::default()
    };
    Turn::commands(&[WORK])
        .with_reasoning("I think.")
        .with_usage(usage)
}

fn are_met() -> bool {
    Need::Docker.is_met() && Need::HarborRun.is_met()
}

#[test]
fn harbor_gets_the_reward_atif_and_ids_of_tokens() {
    if !are_met() {
        return;
    }
    let server = turns([
        told(&[1, 2, 3], &[4, 5], WORK),
        told(&[1, 2, 3, 4, 5, 6], &[7], "true"),
    ]);
    let arguments = [
        "collect_rollout_details=true",
        "step_limit=2",
        "session_id=router-1",
        r#"llm_kwargs={"extra_body": {"cache_salt": "s"}}"#,
    ];
    let arguments: Vec<_> = arguments.iter().flat_map(|it| ["--ak", *it]).collect();
    let done = trial(&server, OURS, 60, &arguments);
    assert_eq!(
        (done.exception(), done.reward()),
        ("", 1.0),
        "{:#}",
        done.result
    );
    // 3 + 6 and 2 + 1 tokens, at the prices of the model.
    assert_eq!(done.used(), json!([9, 0, 3, 4.125e-5]));
    let agent = &done.result["agent_result"];
    // A limit is a result.
    assert_eq!(
        agent["metadata"],
        json!({"exit_status": "LimitsExceeded", "n_episodes": 2})
    );
    let details = json!([{"prompt_token_ids": [[1, 2, 3], [1, 2, 3, 4, 5, 6]],
        "completion_token_ids": [[4, 5], [7]], "logprobs": [[-0.5, -0.5], [-0.5]]}]);
    assert_eq!(agent["rollout_details"], details);
    assert_eq!(done.atif()["steps"][2]["reasoning_content"], "I think.");
    let request = &server.requests()[1];
    assert_eq!(request.header("x-session-id"), Some("router-1"));
    let body = request.json();
    assert_eq!(
        (&body["return_token_ids"], &body["cache_salt"]),
        (&json!(true), &json!("s"))
    );
    assert_eq!(body["messages"][2]["reasoning_content"], "I think.");
}

#[test]
fn harbor_keeps_what_was_done_before_the_time_was_over() {
    if !are_met() {
        return;
    }
    for agent in [OURS, AS_MINI] {
        let server = turns([work(), Turn::fault(Fault::Silence)]);
        let done = trial(&server, agent, 6, &[]);
        assert_eq!(
            (done.exception(), done.reward()),
            ("AgentTimeoutError", 1.0)
        );
        assert_eq!(done.used(), json!([100, 40, 10, 0.00018]), "{agent}");
        let atif = done.atif();
        let command = &atif["steps"][2]["tool_calls"][0]["arguments"]["command"];
        assert_eq!(command, WORK);
        if agent == OURS {
            assert_eq!(atif["extra"]["exit_status"], "Killed");
        }
    }
}

#[test]
fn harbor_tells_a_full_context_from_a_fault() {
    if !are_met() {
        return;
    }
    let full = Turn::error(
        400,
        "context_length_exceeded",
        "maximum context length is 8192 tokens",
    );
    for (error, expected) in [
        (full, "ContextLengthExceededError"),
        // Harbor finds this one in the last lines of what the program says.
        (Turn::status(401), "AuthenticationError"),
    ] {
        let server = turns([work(), error]);
        let done = trial(&server, OURS, 60, &[]);
        let name = done.folder.file_name().unwrap().to_str().unwrap();
        let request = &server.requests()[1];
        assert_eq!(
            request.header("x-session-id"),
            Some(&*format!("{name}__agent"))
        );
        assert!(done.exception().contains(expected), "{:#}", done.result);
        assert_eq!(
            (done.reward(), done.used()),
            (1.0, json!([100, 40, 10, 0.00018]))
        );
    }
}

#[test]
fn harbors_adapter_of_mini_runs_our_program() {
    if !are_met() {
        return;
    }
    let server = turns([work()]);
    let done = trial(&server, AS_MINI, 60, &[]);
    assert_eq!(
        (done.exception(), done.reward()),
        ("", 1.0),
        "{:#}",
        done.result
    );
    assert_eq!(done.used(), json!([200, 40, 20, 0.000405]));
    assert_eq!(
        done.result["agent_info"]["version"],
        env!("CARGO_PKG_VERSION")
    );
    let atif = done.atif();
    assert_eq!(atif["agent"]["name"], "mini-swe-agent");
    assert_eq!(atif["steps"][2]["tool_calls"][0]["function_name"], "bash");
    let request = &server.requests()[1];
    assert!(request.header("x-session-id").is_some());
    assert_eq!(
        request.json()["messages"][2]["reasoning_content"],
        "I think."
    );

    // A limit is no error, as with mini-swe-agent itself.
    let server = turns([work(), work()]);
    let done = trial(&server, AS_MINI, 60, &["--ak", "cost_limit=0.0001"]);
    assert_eq!(
        (done.exception(), done.reward()),
        ("", 1.0),
        "{:#}",
        done.result
    );
    assert_eq!(server.served(), 1);
}
