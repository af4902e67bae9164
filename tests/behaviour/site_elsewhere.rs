//! Commands of pages that `site.rs` does not run, because something else does.

/// A command that another file runs.
#[derive(Debug)]
pub struct RunElsewhere {
    pub page: &'static str,
    /// Its beginning.
    pub beginning: &'static str,
    /// The test, the script or the page that runs it; or a part of the test that the command is a part of.
    pub file: &'static str,
    /// What this file has of it.
    pub text: &'static str,
}

const fn elsewhere(
    page: &'static str,
    beginning: &'static str,
    file: &'static str,
    text: &'static str,
) -> RunElsewhere {
    RunElsewhere {
        page,
        beginning,
        file,
        text,
    }
}

const CI: &str = ".ci/run";
const TESTS: &str = "cargo test --workspace";
const SKYRL: &str = "skyrl_generator.py";
const VERL: &str = "verl_agent_loop.py";
const NEMO: &str = "nemo_gym_agent.py";
const TRAINERS: &str = "tests/behaviour/trainers.rs";
const RL: &str = "examples/rl/README.md";

/// All of them.
pub const ELSEWHERE: &[RunElsewhere] = &[
    elsewhere(
        "README.md",
        "mini ",
        "host/config/mini-swe-agent.md",
        "mini       -c my.yaml -m anthropic/claude-sonnet-4-5",
    ),
    // It takes minutes.
    elsewhere(
        "host/README.md",
        "TARGET=aarch64-unknown-linux-musl host/ship.sh",
        "tests/tooling/aarch64.sh",
        "TARGET=aarch64-unknown-linux-musl",
    ),
    elsewhere(
        "host/README.md",
        "cargo install --locked --path host",
        "tests/tooling/installed.sh",
        "cargo install --locked --path host",
    ),
    // It needs a person at a terminal.
    elsewhere(
        "host/sweagent/README.md",
        "mswea-host sweagent shell",
        "tests/behaviour/swe_shell.rs",
        "\"sweagent\", \"shell\"",
    ),
    // SWE-agent is in no registry; this is its client.
    elsewhere(
        "host/executor/README.md",
        "sweagent run",
        "tests/tooling/swerex_client.py",
        "RemoteDeploymentConfig(auth_token=key",
    ),
    // With other containers than those of docker compose.
    elsewhere(
        "examples/harbor/README.md",
        "harbor run -p TASK -a mswea_harbor:MsweaHost",
        "tests/behaviour/harbor_trials.rs",
        "mswea_harbor:MsweaHost",
    ),
    elsewhere(
        "examples/harbor/README.md",
        "harbor run -p TASK -a mswea_harbor:MsweaAsMini",
        "tests/behaviour/harbor_trials.rs",
        "mswea_harbor:MsweaAsMini",
    ),
    // With a server that tells ids of tokens.
    elsewhere(
        RL,
        "python3 examples/rl/skyrl_generator.py",
        TRAINERS,
        SKYRL,
    ),
    elsewhere(RL, "python3 examples/rl/verl_agent_loop.py", TRAINERS, VERL),
    elsewhere(RL, "python3 examples/rl/nemo_gym_agent.py", TRAINERS, NEMO),
    elsewhere(
        "examples/embed/README.md",
        "cargo run -p mswea-embed",
        "examples/embed/tests/hundred.rs",
        "CARGO_BIN_EXE_embed",
    ),
    // 385 MB.
    elsewhere(
        "sdk/js/README.md",
        "npm install --save-dev @bytecodealliance/componentize-js@0.23.0",
        "tests/tooling/starlingmonkey.sh",
        "npm install --save-dev @bytecodealliance/componentize-js@0.23.0",
    ),
    elsewhere(
        "sdk/js/README.md",
        "sed -i",
        "tests/tooling/starlingmonkey.sh",
        "sed -i 's/\"quickjs\"/\"starlingmonkey\"/' mswea-plugin.toml",
    ),
    elsewhere(
        "sdk/js/README.md",
        "mswea-host plugin build",
        "tests/tooling/starlingmonkey.sh",
        "mswea-host plugin build",
    ),
    elsewhere("CONTRIBUTING.md", "cargo build", CI, TESTS),
    elsewhere(
        "CONTRIBUTING.md",
        "cargo run -- demo",
        CI,
        "mswea-host demo",
    ),
    elsewhere("CONTRIBUTING.md", "cargo test -p", CI, TESTS),
];
