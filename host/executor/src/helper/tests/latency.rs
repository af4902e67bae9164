//! How long an action takes, by each way of starting it.

use super::*;

#[tokio::test]
#[ignore = "a measurement"]
async fn latency() {
    const RUNS: usize = 300;
    let median = |mut times: Vec<Duration>| {
        times.sort_unstable();
        times[times.len() / 2]
    };
    let container = Container::new("latency", "bash");
    let mut ways = vec![("here", session(here()).await)];
    if let Some(container) = &container {
        ways.push(("docker exec -i", session(container.exec(&[])).await));
    }
    for (way, (_child, result)) in &mut ways {
        let session = result.as_mut().unwrap();
        for argv in [
            &["true"][..],
            &["sh", "-c", "true"],
            &["bash", "-lc", "true"],
        ] {
            let mut times = Vec::new();
            for _ in 0..RUNS {
                let started = Instant::now();
                let (_, end) = run_argv(session, argv, 20.0, &Stop::never()).await;
                times.push(started.elapsed());
                assert_eq!(end.unwrap(), HelperEnd::Exited(0));
            }
            eprintln!("{way}: {argv:?} {:?}", median(times));
        }
    }
    if let Some(container) = &container {
        let mut times = Vec::new();
        for _ in 0..20 {
            let started = Instant::now();
            docker(&["exec", &container.0, "true"]);
            times.push(started.elapsed());
        }
        eprintln!("a `docker exec` each: {:?}", median(times));
    }
}
