mod processors;

use std::sync::mpsc;
use std::time::Instant;

use serde_json::json;

use super::super::answer::Degree;
use super::super::testing::{self, maker};
use super::*;
use mswea_core::{
    Action, Asker, Change, ConfiguredRole, Manner, Message, ModelError, Outcome, Output,
    PluginFault, Reply, Verdict,
};
use mswea_record::journal::MemoryJournal;
use mswea_run::history::Chain;

struct Run {
    journal: Arc<MemoryJournal>,
    steps: Arc<Steps>,
}

impl Run {
    fn new() -> Self {
        let journal = Arc::new(MemoryJournal::new());
        Self {
            steps: Steps::over(journal.clone()),
            journal,
        }
    }

    async fn shadow(
        &self,
        maker: Arc<dyn Maker>,
        kind: RoleKind,
        settings: ShadowSettings,
    ) -> Shadow {
        Shadow::start(maker, json!({}), kind, self.steps.clone(), settings)
            .await
            .unwrap()
    }

    fn query(&self, query: u32) {
        self.steps
            .record(&Event::QueryStarted { query, view: None })
            .unwrap();
    }

    /// The recorded divergences.
    fn diverged(&self) -> Vec<(u32, String)> {
        let records = self.journal.records();
        let events = records.iter().filter_map(|record| match &record.event {
            Event::ShadowDiverged { step, degree, .. } => Some((*step, degree.clone())),
            _ => None,
        });
        events.collect()
    }
}

fn parser_of(made: ConfiguredRole) -> Box<dyn Parser> {
    match made {
        ConfiguredRole::Parser(parser) => parser,
        _ => unreachable!("it is made as one"),
    }
}

fn processor_of(made: ConfiguredRole) -> Box<dyn Processor> {
    match made {
        ConfiguredRole::Processor(processor) => processor,
        _ => unreachable!("it is made as one"),
    }
}

const PARSER: RoleKind = RoleKind::ActionParser;
const LONG: Duration = Duration::from_secs(20);

/// A candidate whose answer is chosen by the command; it sees the commands `0`, `1`, ...
fn moody() -> Arc<dyn Maker> {
    maker("moody", || {
        testing::parser(|reply| {
            let command = reply.message.tool_calls[0].arguments.clone();
            match command.as_str() {
                "panics" => panic!("a candidate may"),
                "errors" => Err(PluginFault::new("it errs")),
                "traps" => Err(PluginFault::new("it trapped").in_manner(Manner::Crashed)),
                "differs" => Ok(Outcome::Actions(Vec::new())),
                "sleeps" => {
                    std::thread::sleep(Duration::from_millis(300));
                    Ok(testing::plain_parse(&reply))
                }
                _ => Ok(testing::plain_parse(&reply)),
            }
        })
    })
}

/// Calls the real parser with these commands, with the candidate beside it.
async fn parse(run: &Run, shadow: &Shadow, commands: &[&str]) -> Duration {
    let mut parser = shadow.over(cast()).parser;
    assert_eq!((parser.name(), parser.tools().len()), ("fake", 0));
    let started = Instant::now();
    for (step, command) in commands.iter().enumerate() {
        run.query(step as u32 + 1);
        let reply = testing::reply("1", command);
        let outcome = parser.parse(&reply).await;
        assert_eq!(
            outcome.unwrap(),
            testing::plain_parse(&reply),
            "the run's own answer"
        );
    }
    started.elapsed()
}

#[tokio::test]
async fn whatever_the_candidate_does_the_run_goes_on() {
    let run = Run::new();
    let shadow = run.shadow(moody(), PARSER, ShadowSettings::default()).await;
    parse(
        &run,
        &shadow,
        &["ok", "panics", "errors", "ok", "differs", "traps", "ok"],
    )
    .await;
    let found = shadow.finish(LONG).await;
    assert_eq!(
        Degree::ALL.map(|degree| found.counts.of(degree)),
        [3, 0, 1, 3, 0]
    );
    assert_eq!((found.steps, found.not_compared.len()), (7, 0));
    let one_failed = |step: u32| (step, "one_failed".to_owned());
    assert_eq!(
        run.diverged(),
        [
            one_failed(2),
            one_failed(3),
            (5, "different".to_owned()),
            one_failed(6)
        ]
    );
    assert!(found.cases[0].new.to_string().contains("a candidate may"));
    assert_eq!(found.old.latency.calls, 7);
    // The journal leads to the same report.
    let again = Comparison::from_journal(&run.journal.records(), "this run");
    assert_eq!(again, std::slice::from_ref(&found));
    let brief = found.brief();
    for part in [
        "`moody` beside `fake` (action-parser)",
        "3 of 7 answers agree (42.9 %); p50 ",
    ] {
        assert!(brief.contains(part), "{brief}");
    }
    assert!(Comparison::page(&again).contains("candidate"));
}

#[tokio::test]
async fn one_that_crashes_again_and_again_is_given_up() {
    let run = Run::new();
    let settings = ShadowSettings {
        crashes: 2,
        ..ShadowSettings::default()
    };
    let shadow = run.shadow(moody(), PARSER, settings).await;
    // A crash, which an answer after it makes good; then two in a row.
    parse(&run, &shadow, &["traps", "errors", "panics", "traps"]).await;
    while !shadow.shared.given_up.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    parse(&run, &shadow, &["ok"; 5]).await;
    let found = shadow.finish(LONG).await;
    assert_eq!((found.counts.compared(), found.steps), (4, 9));
    assert_eq!(found.not_compared["the candidate was given up"], 5);
    let brief = found.brief();
    let part = "; 5 of 9 inputs not compared: the candidate was given up (5 times)\n";
    assert!(brief.contains(part), "{brief}");
    assert!(
        found.warnings[0].starts_with("the candidate `moody` was given up: it failed 2 times in"),
        "{:?}",
        found.warnings
    );
}

#[tokio::test]
async fn a_slow_one_delays_nobody_and_a_full_queue_is_counted() {
    let run = Run::new();
    let settings = ShadowSettings {
        queue: 4,
        ..ShadowSettings::default()
    };
    let shadow = run.shadow(moody(), PARSER, settings).await;
    let mut commands = vec!["sleeps"];
    commands.extend(["ok"; 30]);
    let took = parse(&run, &shadow, &commands).await;
    assert!(took < Duration::from_millis(200), "{took:?}");
    let found = shadow.finish(LONG).await;
    let missed = found.not_compared["the candidate's queue was full"];
    assert_eq!((found.counts.compared() + missed, found.steps), (31, 31));
    assert!((26..=27).contains(&missed), "{missed}");
    assert!(found.agrees());
    // A call that exceeds its deadline is a failure.
    let settings = ShadowSettings {
        call_deadline: Duration::from_millis(20),
        ..ShadowSettings::default()
    };
    let sleepy = maker("sleepy", || ConfiguredRole::Policy(Box::new(Sleepy)));
    let shadow = run.shadow(sleepy, RoleKind::ActionPolicy, settings).await;
    let mut policies = shadow.over(cast()).policies;
    assert_eq!((policies.len(), policies[0].name()), (1, "nothing"));
    assert_eq!(
        policies[0].judge(&Action::default()).await.unwrap(),
        Verdict::Allow
    );
    let found = shadow.finish(LONG).await;
    assert_eq!(found.counts.of(Degree::OneFailed), 1);
    assert!(
        found.cases[0].new["message"]
            .as_str()
            .unwrap()
            .contains("no answer after"),
        "{:?}",
        found.cases
    );
}

struct Sleepy;

#[async_trait::async_trait]
impl Policy for Sleepy {
    fn name(&self) -> &str {
        "sleepy"
    }
    async fn judge(&mut self, _: &Action) -> Result<Verdict, PluginFault> {
        std::future::pending().await
    }
}

fn cast() -> RunRoles {
    let ConfiguredRole::Formatter(formatter) = testing::formatter(|output| output.output.clone())
    else {
        unreachable!("it is made as one")
    };
    RunRoles {
        parser: parser_of(testing::plain_parser()),
        formatter,
        processors: Vec::new(),
        policies: Vec::new(),
    }
}

#[tokio::test]
async fn the_end_waits_for_nobody_longer_than_it_says() {
    let run = Run::new();
    let (release, held) = mpsc::channel::<()>();
    let held = Mutex::new(Some(held));
    let hangs = maker("hangs", move || {
        let held = held.lock().unwrap().take();
        testing::parser(move |reply| {
            if let Some(held) = &held {
                // The shadow waits until the test ends.
                let _ = held.recv();
            }
            Err(PluginFault::new(reply.model))
        })
    });
    let shadow = run.shadow(hangs, PARSER, ShadowSettings::default()).await;
    let started = Instant::now();
    parse(&run, &shadow, &["a", "b", "c"]).await;
    let found = shadow.finish(Duration::from_millis(80)).await;
    let took = started.elapsed();
    assert!(
        took >= Duration::from_millis(80) && took < Duration::from_secs(5),
        "{took:?}"
    );
    assert_eq!(found.counts.compared(), 0);
    assert_eq!(
        found.not_compared["the candidate was not done when the run was over"],
        3
    );
    // Later answers of the shadow are not recorded.
    let before = run.journal.records().len();
    release.send(()).unwrap();
    drop(release);
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(run.journal.records().len(), before);
}

#[tokio::test]
async fn formatters_and_policies_are_followed() {
    let run = Run::new();
    let other = maker("other", || {
        testing::formatter(|output| format!("{}!", output.output))
    });
    let formats = run
        .shadow(
            other,
            RoleKind::ObservationFormatter,
            ShadowSettings::default(),
        )
        .await;
    let denies = maker("denies", || {
        testing::policy(|action| {
            Ok(match action.command.as_str() {
                "b" => Verdict::Deny("no b".into()),
                _ => Verdict::Allow,
            })
        })
    });
    let judges = run
        .shadow(denies, RoleKind::ActionPolicy, ShadowSettings::default())
        .await;
    let mut cast = judges.over(formats.over(cast()));
    for step in [1, 2] {
        run.query(step);
        let actions = ["a", "b"].map(|command| Action {
            command: command.into(),
            ..Action::default()
        });
        for action in &actions {
            assert_eq!(
                cast.policies[0].judge(action).await.unwrap(),
                Verdict::Allow
            );
        }
        let output = Output {
            output: "x".into(),
            ..Output::default()
        };
        let messages = cast
            .formatter
            .format(&actions[..1], &[output])
            .await
            .unwrap();
        assert_eq!(messages[0].text(), "x");
    }
    let found = [formats.finish(LONG).await, judges.finish(LONG).await];
    assert_eq!(found[0].counts.of(Degree::Different), 2);
    let places: Vec<(u32, Option<u32>)> = found[1]
        .cases
        .iter()
        .map(|case| (case.step, case.index))
        .collect();
    assert_eq!(places, [(1, Some(1)), (2, Some(1))]);
    assert_eq!(found[1].counts.of(Degree::Same), 2);
    let read = Comparison::from_journal(&run.journal.records(), "this run");
    assert_eq!(read.len(), 2);
    assert!(read.iter().all(|one| found.contains(one)));
}

#[tokio::test]
async fn what_is_recorded_is_bounded() {
    let run = Run::new();
    let settings = ShadowSettings {
        divergences: 3,
        text: 500,
        ..ShadowSettings::default()
    };
    let loud = maker("loud", || {
        testing::parser(|_| Err(PluginFault::new("no".repeat(100_000))))
    });
    let shadow = run.shadow(loud, PARSER, settings).await;
    parse(&run, &shadow, &["x"; 20]).await;
    let found = shadow.finish(LONG).await;
    assert_eq!((found.cases.len(), found.cases_left_out), (3, 17));
    let size: usize = run
        .journal
        .records()
        .iter()
        .map(|record| serde_json::to_string(&record.event).unwrap().len())
        .sum();
    assert!(size < 20_000, "{size}");
}

#[tokio::test]
async fn who_can_not_be_a_shadow_is_told() {
    let run = Run::new();
    let start = |maker, kind| {
        Shadow::start(
            maker,
            json!({}),
            kind,
            run.steps.clone(),
            ShadowSettings::default(),
        )
    };
    let error = start(moody(), RoleKind::ModelAdapter).await.err().unwrap();
    assert!(
        error
            .to_string()
            .contains("plugin diff OLD NEW --trajectories"),
        "{error}"
    );
    let refuses = testing::fallible("picky", |_| Err(Refused::Failed("it trapped".into())));
    let error = start(refuses, PARSER).await.err().unwrap();
    assert_eq!(
        error.to_string(),
        "the candidate `picky` can't be run as a shadow: it trapped"
    );
    let panics = testing::fallible("panics", |_| panic!("in the constructor"));
    let error = start(panics, PARSER).await.err().unwrap();
    assert!(error.to_string().contains("in the constructor"), "{error}");
}

#[tokio::test]
async fn it_goes_beside_its_namesake() {
    let run = Run::new();
    let allow = || testing::policy(|_| Ok(Verdict::Allow));
    let shadow = run
        .shadow(
            maker("guard", allow),
            RoleKind::ActionPolicy,
            ShadowSettings::default(),
        )
        .await;
    let ConfiguredRole::Policy(guard) = allow() else {
        unreachable!("it is made as one")
    };
    let mut with = cast();
    with.policies = vec![Box::new(Sleepy), guard];
    let with = shadow.over(with);
    assert_eq!(shadow.shared.found().old.name, "guard");
    let names: Vec<&str> = with.policies.iter().map(|policy| policy.name()).collect();
    assert_eq!(names, ["sleepy", "guard"]);
}

#[tokio::test]
async fn other_tools_are_pointed_out() {
    let run = Run::new();
    let bash = maker("bash", || testing::parser_with_tool("bash"));
    let shadow = run.shadow(bash, PARSER, ShadowSettings::default()).await;
    assert_eq!(shadow.over(cast()).parser.tools(), []);
    let found = shadow.finish(LONG).await;
    assert!(
        found.warnings[0].contains("`bash` would offer other tools (`bash` instead of none)"),
        "{:?}",
        found.warnings
    );
}
