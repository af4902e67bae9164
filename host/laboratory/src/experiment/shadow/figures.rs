//! Measures what a shadow costs a run whose steps take about a millisecond.

use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};

use super::super::testing::{self, maker};
use super::tests::{LONG, Model, PARSER, Run, history, parser_of, processor_of};
use super::*;
use mswea_core::{Change, ConfiguredRole, Reply};
use mswea_run::history::Chain;

/// Processor time of this thread, which other programs do not affect.
fn own_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::from_secs(seconds) + Duration::from_nanos(time.tv_nsec.try_into().unwrap_or_default())
}

fn spin(micros: u64) {
    let until = own_time() + Duration::from_micros(micros);
    while own_time() < until {}
}

/// Stands for the rest of a step.
fn rest() {
    std::thread::sleep(Duration::from_millis(1));
}

struct Clocks(Instant, Duration);

impl Clocks {
    fn start() -> Self {
        Self(Instant::now(), own_time())
    }

    fn stop(self) -> (Duration, Duration) {
        (self.0.elapsed(), own_time() - self.1)
    }
}

fn tell(what: &str, steps: u32, times: &[(Duration, Duration)]) {
    let [(wall, cpu), (shadowed_wall, shadowed_cpu)] = times else {
        unreachable!("with and without")
    };
    let each = shadowed_cpu.saturating_sub(*cpu) / steps;
    let more = shadowed_wall.as_secs_f64() / wall.as_secs_f64() - 1.0;
    println!(
        "{what}: {each:?} more of the run's own time a step, {:.1} % of 1 ms; wall {wall:?}, shadowed {shadowed_wall:?}, {:.1} % more",
        each.as_secs_f64() * 1e5,
        more * 100.0
    );
}

/// `cargo test --release -- --ignored --nocapture figures_of_shadows`
#[tokio::test]
#[ignore = "prints measurements and checks nothing"]
async fn figures_of_shadows() {
    let replies: Vec<Reply> = (0..2_000)
        .map(|step| testing::reply(&step.to_string(), &"c".repeat(2_000)))
        .collect();
    let busy = || {
        testing::parser(|reply| {
            spin(20);
            Ok(testing::plain_parse(&reply))
        })
    };
    for _ in 0..3 {
        let run = Run::new();
        let settings = ShadowSettings::default();
        let shadow = run.shadow(maker("busy", busy), PARSER, settings).await;
        let mut times = Vec::new();
        for shadowed in [false, true] {
            let mut parser = parser_of(busy());
            if shadowed {
                parser = shadow.parser(parser);
            }
            let clocks = Clocks::start();
            for reply in &replies {
                parser.parse(reply).await.unwrap();
                rest();
            }
            times.push(clocks.stop());
        }
        tell("parser", 2_000, &times);
        println!("{}", shadow.finish(LONG).await.brief());
    }
    // It returns the whole view each time, as a plain function does.
    let whole = || -> ConfiguredRole { testing::processor(Ok) };
    for steps in [100, 400] {
        let run = Run::new();
        let kind = RoleKind::HistoryProcessor;
        let shadow = run
            .shadow(maker("whole", whole), kind, ShadowSettings::default())
            .await;
        let all = Change::all(history(steps)).messages;
        let mut times = Vec::new();
        for shadowed in [false, true] {
            let mut real = processor_of(whole());
            if shadowed {
                real = shadow.processor(real);
            }
            let mut chain = Chain::new(vec![real]);
            let clocks = Clocks::start();
            for step in 0..=steps {
                chain
                    .apply(&all[..2 * step + 2], 2 * step, &mut Model(0))
                    .await;
                rest();
            }
            times.push(clocks.stop());
        }
        tell(
            &format!("processor, {steps} steps"),
            steps as u32 + 1,
            &times,
        );
        println!("{}", shadow.finish(LONG).await.brief());
    }
}
