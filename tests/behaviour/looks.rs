//! What is printed around a run: the first lines, warnings, and the path of the trajectory.

use crate::host::Host;
use crate::story::turns;

/// A file of mini-swe-agent's with a misspelt key.
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
fn with_q_misspelt_keys_and_the_path_of_the_trajectory_are_printed() {
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
fn a_preset_named_like_a_file_of_mini_swe_agent_has_a_note() {
    let run = Host::new()
        .server(&turns([]))
        .task("x")
        .args([
            "-c",
            "swebench",
            "-c",
            "environment.environment_class=local",
        ])
        // This machine's `.bashrc` differs from that of the images.
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
    assert!(notes[0].contains("`-c swebench` is a preset with the same meaning"));
    assert!(notes[0].contains("config/benchmarks/swebench.yaml' -exec cp"));
}
