//! What a person is told around a run: how it begins, what is warned of, where the record is.

use crate::host::Host;
use crate::story::turns;

/// A file of mini-swe-agent's with a key that is not spelt right.
const MISSPELT: &str = "\
agent:
  system_template: You work.
  instance_template: '{{ task }}'
  step_limt: 3
  cost_limit: 0
";

#[test]
fn a_run_begins_with_two_lines() {
    let server = turns([]);
    let run = Host::new()
        .server(&server)
        .task("x")
        .args(["-c", "agent.step_limit=7"])
        .run()
        .expect(0);
    let mut lines = run.stderr.lines();
    let (first, second) = (lines.next().unwrap(), lines.next().unwrap());
    let url = server.url();
    assert_eq!(
        first,
        format!("model: local/test at {url} · config: preset default < -c agent.step_limit=7")
    );
    let dir = run.dir.canonicalize().unwrap();
    let dir = dir.display();
    assert_eq!(second, format!("in: {dir} · trajectory: {dir}/traj.json"));

    for flag in ["-q", "--json"] {
        let run = Host::new().server(&turns([])).task("x").arg(flag).run();
        assert!(!run.stderr.contains("model:"), "{flag}: {run}");
    }
}

#[test]
fn the_quiet_are_told_of_misspelt_keys_and_where_the_trajectory_is() {
    let run = Host::new()
        .server(&turns([]))
        .task("x")
        .file("mine.yaml", MISSPELT)
        .args(["-q", "-c", "mine.yaml"])
        .run()
        .expect(0)
        .says(&["warning: ", "`agent.step_limt`", "Submitted: 1 step"]);
    let last = run.stderr.lines().last().unwrap();
    assert_eq!(last, "trajectory: traj.json", "{run}");
    assert!(!run.stderr.contains("step 1"), "{run}");
}

#[test]
fn names_of_mini_swe_agent_say_that_the_words_differ() {
    let run = Host::new()
        .server(&turns([]))
        .task("x")
        .args([
            "-c",
            "swebench",
            "-c",
            "environment.environment_class=local",
        ])
        // The `.bashrc` of this machine is not that of the images.
        .args([
            "-c",
            "environment.cwd=",
            "-c",
            "environment.env.BASH_ENV=null",
        ])
        .run()
        .expect(0);
    let notes: Vec<&str> = run
        .stderr
        .lines()
        .filter(|line| line.starts_with("note: "))
        .collect();
    assert_eq!(notes.len(), 1, "{run}");
    assert!(notes[0].contains("`-c swebench` is a preset of the same meaning"));
    assert!(notes[0].contains("config/benchmarks/swebench.yaml' -exec cp"));
}
