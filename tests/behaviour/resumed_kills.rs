//! A run that is killed at random moments and resumed after each kill, until it ends: no action runs
//! twice, and no reply that was paid for is lost.
//!
//! `MSWEA_RESUME_KILLS` is the number of kills, `MSWEA_SEED` makes their moments those of an earlier test.

use std::fs;
use std::time::Duration;

use scripted_server::{Scenario, Server, Turn};
use serde_json::json;

use crate::host::{Host, Signal};

/// Kills a run of many steps at random moments, and goes on after each, until it ends.
#[test]
fn each_action_has_run_once() {
    let number = |name: &str, or: u64| {
        let text = std::env::var(name).ok();
        text.and_then(|text| text.parse().ok()).unwrap_or(or)
    };
    let kills = number("MSWEA_RESUME_KILLS", 15);
    let seed = number("MSWEA_SEED", u64::from(std::process::id()));
    eprintln!("MSWEA_RESUME_KILLS={kills} MSWEA_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut done = 0;
    while done < kills {
        done += killed_until_its_end(&mut random, kills - done);
    }
}

const STEPS: usize = 40;

/// Returns how often it was killed.
fn killed_until_its_end(random: &mut fastrand::Rng, most: u64) -> u64 {
    let turns: Vec<Turn> = (0..STEPS)
        .map(|step| Turn::commands(&[format!("echo {step} >>log; sleep 0.0{}", step % 4)]))
        // The command that submits may be killed, too: then the model is asked again.
        .chain((0..20).map(|_| Turn::commands(&["echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"])))
        .collect();
    let server = Server::start(Scenario::new(turns).by_history());
    let first = Host::new().server(&server).task("count");
    let mut running = first.args(["--step-limit", "0"]).spawn();
    let mut kills = 0;
    let run = loop {
        let moment = Duration::from_millis(random.u64(150..900));
        if kills < most {
            std::thread::sleep(moment);
            running.signal(Signal::KILL);
        }
        let run = running.wait();
        if run.status != -9 {
            break run.expect(0);
        }
        kills += 1;
        if !run.events("run_ended").is_empty() {
            // Killed after its last event: only the trajectory is not up to date.
            let repair = Host::after(&run).args(["runs", "repair", "traj.json"]);
            repair.run().expect(0);
            break run;
        }
        running = match run.journal().is_empty() {
            true => Host::after(&run).server(&server).task("count").spawn(),
            false => Host::after(&run).args(["resume", "traj.json"]).spawn(),
        };
    };
    // Each action has run once, unless it is reported as interrupted: then at most once.
    let mut interrupted = 0;
    let ran = fs::read_to_string(run.dir.join("log")).unwrap_or_default();
    let outputs = run.events("output");
    for (step, output) in outputs.iter().take(STEPS).enumerate() {
        let lines = ran.lines().filter(|line| *line == step.to_string()).count();
        let told = output["output"]["exception_info"]
            .as_str()
            .unwrap_or_default();
        match told.is_empty() {
            true => assert_eq!(lines, 1, "step {step}"),
            false => {
                interrupted += 1;
                assert!(
                    lines <= 1 && told.contains("was not run again"),
                    "step {step}: {told}"
                );
            }
        }
    }
    assert!(interrupted <= kills, "{interrupted} of {kills}");
    // Every reply that was paid for was used, and none was asked for twice.
    let replies = run.events("reply").len();
    assert_eq!(run.events("accepted").len(), replies);
    assert_eq!(outputs.len(), replies);
    let queries = &run.trajectory()["info"]["model_stats"]["api_calls"];
    assert_eq!(*queries, json!(replies));
    // A kill may come between a request and the record of its reply; nothing else makes a request
    // without a reply.
    let started = run.events("query_started").len();
    let requests = server.requests().len();
    assert!(
        (replies..=started).contains(&requests) && requests - replies <= kills as usize,
        "{requests} requests, {replies} replies, {started} queries, {kills} kills"
    );
    run.nothing_left();
    kills
}

/// Under SWE-agent's rules: replies that are asked for again, and the submission of what was saved at the end.
#[test]
fn no_reply_is_lost_when_it_is_asked_for_again() {
    let seed = std::env::var("MSWEA_SEED")
        .ok()
        .and_then(|it| it.parse().ok());
    let seed = seed.unwrap_or_else(|| u64::from(std::process::id()));
    eprintln!("MSWEA_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    const RETRY: &str = "echo '###SWE-AGENT-RETRY-WITH-OUTPUT###'";
    let turns: Vec<Turn> = (0..60)
        .map(|step| match step % 5 {
            0 => Turn::commands(&[format!("echo {step} >>log; sleep 0.1; {RETRY}")]),
            1 => Turn::commands(&[format!("echo {step} >>log; (")]),
            2 => Turn::text("no command"),
            _ => Turn::commands(&[format!("echo {step} >>log; sleep 0.1")]),
        })
        .chain((0..20).map(|_| Turn::commands(&["echo '###SWE-AGENT-EXIT-FORFEIT###'"])))
        .collect();
    let server = Server::start(Scenario::new(turns));
    let settings = [
        "agent.rules=swe-agent",
        "environment.session=true",
        "agent.salvage_command=echo saved >>saves; sleep 0.3; cat log",
        "agent.syntax_error_template=unreadable",
    ];
    let settings = settings.iter().flat_map(|it| ["-c", it]);
    let first = Host::new().server(&server).task("count");
    let first = first.args(["--step-limit", "0"]).args(settings.clone());
    let mut running = first.spawn();
    let mut kills = 0;
    let run = loop {
        if kills < 12 {
            std::thread::sleep(Duration::from_millis(random.u64(150..900)));
            running.signal(Signal::KILL);
        }
        let run = running.wait();
        if run.status != -9 {
            break run;
        }
        kills += 1;
        if !run.events("run_ended").is_empty() {
            let repair = Host::after(&run).args(["runs", "repair", "traj.json"]);
            repair.run().expect(0);
            break run;
        }
        running = match run.journal().is_empty() {
            true => Host::after(&run)
                .server(&server)
                .task("count")
                .args(["--step-limit", "0"])
                .args(settings.clone())
                .spawn(),
            false => Host::after(&run).args(["resume", "traj.json"]).spawn(),
        };
    };
    eprintln!("{kills} kills");
    let ran = fs::read_to_string(run.dir.join("log")).unwrap_or_default();
    for step in 0..60 {
        let lines = ran.lines().filter(|line| *line == step.to_string()).count();
        assert!(lines <= 1, "step {step} ran {lines} times\n{ran}");
    }
    let (replies, started) = (run.events("reply").len(), run.events("query_started").len());
    let used = run.events("accepted").len() + run.events("rejected").len();
    let requests = server.requests().len();
    let taken_back = run.events("output").len();
    assert!(
        used >= replies,
        "{used} used, {replies} replies, {taken_back} outputs"
    );
    assert!(
        (replies..=started).contains(&requests) && requests - replies <= kills,
        "{requests} requests, {replies} replies, {started} queries, {kills} kills"
    );
    let info = &run.trajectory()["info"];
    assert_eq!(info["model_stats"]["api_calls"], json!(replies));
    assert_eq!(info["exit_status"], "submitted (exit_forfeit)", "{run}");
    assert_eq!(info["submission"], json!(ran));
    run.nothing_left();
}
