//! Action samplers: what their questions cost, and that none is asked twice.

use std::fs;

use scripted_server::{Fault, Scenario, Server, Turn};

use crate::host::{Host, Signal};

const COLLEAGUES: &str = r#"agent.action_sampler={"type":"ask_colleagues","n_samples":3}"#;
const COMPARISON: &str = r#"agent.action_sampler={"type":"binary_trajectory_comparison","min_n_samples":2,"max_n_samples":2}"#;

fn sampling(server: &Server, sampler: &str) -> Host {
    let host = Host::new().server(server).task("x");
    host.args(["-c", sampler])
}

fn always(command: &str) -> Server {
    Server::start(Scenario::always(Turn::commands(&[command])))
}

#[test]
fn an_interrupted_step_does_not_pay_its_samples_again() {
    let submit = || Turn::commands(&["echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"]);
    let turns = [
        submit(),
        submit(),
        submit(),
        Turn::fault(Fault::Silence),
        submit(),
    ];
    let server = Server::start(Scenario::new(turns));
    let mut running = sampling(&server, COLLEAGUES).spawn();
    running.until("the discussion", |_| server.served() == 4);
    running.signal(Signal::INT);
    let run = running.wait().expect(130);
    let run = Host::after(&run)
        .args(["resume", "traj.json"])
        .run()
        .expect(0);
    assert_eq!(server.served(), 5, "{run}");
}

#[test]
fn samples_count_once_in_every_limit() {
    // Each step has four requests.
    for (arguments, variables, served) in [
        (&["--step-limit", "4"][..], &[][..], 4),
        (&["--step-limit", "5"], &[], 5),
        (
            &["--step-limit", "0"],
            &[("MSWEA_GLOBAL_CALL_LIMIT", "8")],
            8,
        ),
    ] {
        let server = always("true");
        let host = sampling(&server, COLLEAGUES).args(arguments);
        let host = variables
            .iter()
            .fold(host, |host, (name, value)| host.env(name, value));
        let run = host.run();
        assert_eq!(server.served(), served, "{arguments:?} {variables:?} {run}");
    }
    // The reply that wins was paid when it was proposed: two proposals that are the same, and no comparison.
    let server = always("true");
    let host = sampling(&server, COMPARISON).env("MSWEA_GLOBAL_CALL_LIMIT", "6");
    let run = host.args(["--step-limit", "0"]).run();
    assert_eq!(server.served(), 6, "{run}");
}

#[test]
fn a_comparison_does_not_record_the_steps_again() {
    let long = "head -c 9000 /dev/zero | tr '\\0' x";
    let turns = (0..60).map(|number| Turn::commands(&[format!("{long}; : {number}")]));
    let server = Server::start(Scenario::new(turns));
    let run = sampling(&server, COMPARISON)
        .args(["--step-limit", "30"])
        .run()
        .expect(3);
    let journal = fs::read_to_string(run.dir.join("traj.events.jsonl")).unwrap();
    let asked: Vec<&str> = journal
        .lines()
        .filter(|it| it.contains("\"asked\""))
        .collect();
    let comparisons = asked.iter().filter(|it| it.contains("compare two actions"));
    let sizes: Vec<usize> = comparisons.map(|it| it.len()).collect();
    assert!(sizes.len() > 5, "{sizes:?}");
    assert!(sizes.iter().all(|size| *size < 4000), "{sizes:?}");
}
