//! Runs under limits of the shell (`ulimit`), and variables that commands do not see.

use std::path::Path;

use scripted_server::Server;

use crate::host::Host;
use crate::run::Run;
use crate::story::commands;

/// A run under a limit that bash sets.
fn limited(limit: &str, server: &Server) -> Run {
    let script = format!("ulimit {limit} && exec \"$0\" \"$@\"");
    Host::new()
        .program(Path::new("/bin/bash"))
        .args(["-c", &script, env!("CARGO_BIN_EXE_mswea-host")])
        .server(server)
        .task("x")
        .run()
}

fn output(run: &Run, index: usize) -> String {
    let outputs = run.events("output");
    outputs[index]["output"]["output"]
        .as_str()
        .unwrap()
        .to_owned()
}

#[test]
fn too_little_address_space_is_reported_as_the_limit_of_the_shell() {
    let server = commands(&["true"]);
    let run = limited("-v 8000000", &server).expect(7);
    let run = run.says(&[
        "`ulimit -v`",
        "7812 MiB of addresses",
        "`ulimit -v unlimited`",
    ]);
    for wrong in ["broke the contract", "build it again"] {
        assert!(!run.stderr.contains(wrong), "{run}");
    }
}

#[test]
fn too_few_open_files_are_reported_as_the_limit_of_the_shell() {
    let server = commands(&["true"]);
    for files in [8, 12, 20] {
        let run = limited(&format!("-n {files}"), &server).expect(1);
        let run = run.says(&[
            &format!("{files} open files (`ulimit -n`)"),
            "`ulimit -n 1024`",
        ]);
        assert!(!run.stderr.contains("bug"), "{run}");
    }
    limited("-n 32", &server).expect(0);
}

#[test]
fn a_small_stack_is_enough() {
    limited("-s 128", &commands(&["true"])).expect(0);
}

#[test]
fn a_limit_of_file_sizes_ends_the_run_and_is_reported() {
    let server = commands(&["echo first", "seq 1 30000", "echo never"]);
    let run = limited("-f 50", &server).expect(1);
    let run = run.says(&["File too large", "`ulimit -f`"]);
    let actions = run.events("action");
    assert_eq!(actions.len(), 2, "{run}");
    assert_eq!(output(&run, 0), "first\n");
}

#[test]
fn variables_that_commands_do_not_see_are_named_once() {
    let attempt = |configs: &[&str], verbose: bool| {
        let server = commands(&["true", "env", "exit 3", "exit 4"]);
        let host = Host::new()
            .server(&server)
            .task("x")
            .env("PIP_INDEX_URL", "https://me:hidden-1@host/simple")
            .env("MAVEN_OPTS", "-Xmx1g -Dhttp.proxyPassword=hidden-2")
            .env(
                "GOPROXY",
                "https://proxy.golang.org,https://me:hidden-3@host",
            )
            .env("CARGO_HTTP_PROXY", "me:hidden-4@proxy:3128")
            .env("BUNDLE_GEMS__EXAMPLE__COM", "me:hidden-5")
            .env("npm_config_registry", "https://me:hidden-6@host")
            .env("UV_INDEX", "mine=https://me:hidden-7@host/simple")
            .env("https_proxy", "http://me:hidden-8@proxy:3128")
            .env("PRIVATE_THING", "hidden-9")
            .env("TF_VAR_db_pw", "hidden-10")
            .env("TF_CPP_MIN_LOG_LEVEL", "3")
            .env("CUDA_VISIBLE_DEVICES", "0")
            .env("SLURM_JOB_ID", "7")
            .env("GIT_AUTHOR_NAME", "Jo Doe")
            .args(verbose.then_some("-v"))
            // Requests to the model server on this machine must not use the proxy.
            .env("no_proxy", "127.0.0.1,localhost");
        let host = configs
            .iter()
            .fold(host, |host, config| host.args(["-c", config]));
        host.run().expect(0)
    };
    let run = attempt(&[], false);
    let seen = output(&run, 1);
    assert!(!seen.contains("hidden"), "{seen}");
    for passed in [
        "CUDA_VISIBLE_DEVICES=0",
        "TF_CPP_MIN_LOG_LEVEL=3",
        "SLURM_JOB_ID=7",
        "GIT_AUTHOR_NAME=Jo Doe",
    ] {
        assert!(seen.contains(passed), "{seen}");
    }
    let line = "commands do not see ";
    let lines: Vec<&str> = run.stderr.lines().filter(|it| it.contains(line)).collect();
    let [told] = lines[..] else {
        panic!("{run}");
    };
    for name in [
        "PIP_INDEX_URL",
        "https_proxy",
        "UV_INDEX",
        "PRIVATE_THING",
        "MAVEN_OPTS",
    ] {
        assert!(told.contains(name), "{told}");
    }
    assert!(
        told.contains("env_allow") && !told.contains("hidden"),
        "{told}"
    );
    // The line is printed after the first command that failed.
    let place = |text: &str| run.stderr.find(text).unwrap();
    assert!(place("exit code 3") < place(line) && place(line) < place("exit code 4"));

    let run = attempt(&[], true);
    assert_eq!(run.stderr.matches(line).count(), 1, "{run}");
    assert!(
        run.stderr.find(line) < run.stderr.find("── step 1"),
        "{run}"
    );

    // `*` allows all variables that do not look like secrets; a secret needs its whole name.
    let run = attempt(&["environment.env_allow=[\"*\", \"PIP_INDEX_URL\"]"], false);
    let seen = output(&run, 1);
    assert!(
        seen.contains("me:hidden-1@host") && seen.contains("hidden-9"),
        "{seen}"
    );
    for number in 2..9 {
        assert!(!seen.contains(&format!("hidden-{number}")), "{seen}");
    }
}

#[test]
fn events_name_what_commands_do_not_see() {
    let server = commands(&["true"]);
    let run = Host::new()
        .server(&server)
        .task("x")
        .env("PRIVATE_THING", "x")
        .arg("--json")
        .run()
        .expect(0);
    let event = run
        .stdout
        .lines()
        .find(|line| line.contains("\"withheld\""));
    assert!(
        event.is_some_and(|event| event.contains("PRIVATE_THING")),
        "{run}"
    );
}
