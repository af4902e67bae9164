//! The kit finds a planted fault of every law, and no fault in plugins that keep them.

mod adapters;
mod plugin;
mod processors;
mod stateless;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::testing::{Fake, ProcessorAnswer, State, crash, finish, request, shortened};
use super::*;
use mswea_core::{
    Action, AdapterNext, Change, HeaderValue, Manner, Message, Outcome as Parsed, Part,
    PluginFault, Refused, Verdict, ViewChange,
};

const PARSER: RoleKind = RoleKind::ActionParser;
const FORMATTER: RoleKind = RoleKind::ObservationFormatter;
const POLICY: RoleKind = RoleKind::ActionPolicy;
const PROCESSOR: RoleKind = RoleKind::HistoryProcessor;
const ADAPTER: RoleKind = RoleKind::ModelAdapter;

fn options() -> ExaminationOptions {
    ExaminationOptions {
        configs: vec![json!({"size": 2})],
        effort: Effort::Quick,
        // So long that the examination does not depend on how busy the machine is.
        time: Some(Duration::from_secs(600)),
        ..ExaminationOptions::default()
    }
}

/// Plants a fault, and returns which laws report it: those of the kind, or of `plugin`.
async fn planted(
    kind: RoleKind,
    what: &str,
    laws: &[Law],
    plant: impl Fn(&mut Fake),
) -> ConformanceReport {
    found(Some(kind), kind, what, laws, plant).await
}

async fn found(
    section: Option<RoleKind>,
    kind: RoleKind,
    what: &str,
    laws: &[Law],
    plant: impl Fn(&mut Fake),
) -> ConformanceReport {
    let mut fake = Fake::good(kind);
    plant(&mut fake);
    let mut options = options();
    if laws == [Law::Asking] {
        options.configs.insert(0, json!({"size": 2, "asks": true}));
    }
    let report = examine(&fake, &options).await;
    let failed: Vec<_> = report
        .laws
        .iter()
        .filter(|law| law.outcome == LawOutcome::Failed)
        .collect();
    let failed: Vec<_> = failed.iter().map(|law| (law.kind, law.law)).collect();
    let expected: Vec<_> = laws.iter().map(|law| (section, *law)).collect();
    assert_eq!(failed, expected, "{what}:\n{}", report.text());
    assert!(!report.passed());
    for law in &report.laws {
        assert_eq!(law.outcome == LawOutcome::Failed, !law.findings.is_empty());
        assert!(law.findings.len() <= 3, "{what}");
    }
    report
}

fn refused(pointer: &str, detail: &str) -> Refused {
    Refused::Config {
        pointer: pointer.into(),
        detail: detail.into(),
        by_plugin: true,
    }
}

#[tokio::test]
async fn what_keeps_the_laws_passes() {
    for kind in RoleKind::ALL {
        let report = examine(&Fake::good(kind), &options()).await;
        assert!(report.passed(), "{}", report.text());
        for law in &report.laws {
            assert_eq!(law.outcome, LawOutcome::Passed, "{}", report.text());
        }
        // The same seed leads to the same examination.
        let again = examine(&Fake::good(kind), &options()).await;
        assert_eq!(report.json(), again.json());
    }
}

#[tokio::test]
async fn several_kinds_are_examined_in_one_report() {
    let mut fake = Fake::good(PARSER);
    fake.identity.kinds.push(POLICY);
    let report = examine(&fake, &options()).await;
    assert!(report.passed(), "{}", report.text());
    assert_eq!(report.laws.len(), 3 + 4 + 4);
    let only = ExaminationOptions {
        kinds: vec![POLICY],
        ..options()
    };
    assert_eq!(examine(&fake, &only).await.laws.len(), 3 + 4);
}

#[tokio::test]
async fn samples_reach_the_plugin() {
    let samples: Samples = serde_json::from_value(json!({
        "replies": [{"message": {"role": "assistant", "content": [{"type": "text", "text": "sesame"}]}}],
        "responses": [{"body": "sesame"}, {"status": 500, "body": {"hex": "ff00"}}],
        "invalid_configs": [{"size": 3, "find": "sesame"}],
    }))
    .unwrap();
    assert_eq!(samples.responses[1].body.0, [255, 0]);
    let options = ExaminationOptions {
        samples,
        ..options()
    };
    let mut fake = Fake::good(PARSER);
    let parse = fake.parse.clone();
    fake.parse = Arc::new(move |state, reply| match reply.message.text() == "sesame" {
        true => Err(crash("it opened")),
        false => parse(state, reply),
    });
    let report = examine(&fake, &options).await;
    let total = report.law(Some(PARSER), Law::Total).unwrap();
    assert_eq!(total.findings[0].case, "reply 1 of the samples");
    let schema = report.law(None, Law::Schema).unwrap();
    assert_eq!(
        schema.findings[0].case,
        "a config that was given as invalid"
    );
    let mut fake = Fake::good(ADAPTER);
    fake.finish = Arc::new(|state, ()| match state.body == b"sesame" {
        true => Err(mswea_core::ModelError::new(
            mswea_core::ModelFailure::Plugin,
            "it opened",
        )),
        false => finish(state),
    });
    let report = examine(&fake, &options).await;
    assert_eq!(
        report.law(Some(ADAPTER), Law::Total).unwrap().outcome,
        LawOutcome::Failed
    );
}

#[tokio::test]
async fn a_plugin_without_a_known_config_is_not_passed_over_in_silence() {
    let mut fake = Fake::good(PARSER);
    fake.configure = Arc::new(|_| Err(refused("/size", "no size is right")));
    let report = examine(
        &fake,
        &ExaminationOptions {
            effort: Effort::Quick,
            ..ExaminationOptions::default()
        },
    )
    .await;
    let law = report.law(Some(PARSER), Law::Total).unwrap();
    assert_eq!(
        law.outcome,
        LawOutcome::NotApplicable("no config is known that the plugin accepts".into())
    );
    let schema = report.law(None, Law::Schema).unwrap();
    assert_eq!(schema.findings.len(), 1);
    assert!(schema.findings[0].expected.contains("`examples`"));
    assert!(schema.findings[0].came.contains("no size is right"));
    assert!(!report.passed());
}

#[tokio::test]
async fn the_report_of_a_failing_plugin() {
    let mut fake = Fake::good(PARSER);
    let parse = fake.parse.clone();
    fake.parse = Arc::new(move |state, reply| {
        if reply.message.text().contains('\0') {
            return Err(crash("it trapped: unreachable; called `Option::unwrap()`"));
        }
        let mut outcome = parse(state, reply)?;
        if let Parsed::Actions(actions) = &mut outcome {
            actions.push(actions[0].clone());
        }
        Ok(outcome)
    });
    let report = examine(&fake, &options()).await;
    let text = report.text();
    assert_eq!(text, include_str!("report.txt"), "{text}");
    let json = report.json();
    assert_eq!(json["passed"], false);
    let laws = json["laws"].as_array().unwrap();
    let is_total = |law: &&Value| law["law"] == "total" && law["kind"] == "action-parser";
    let total = laws.iter().find(is_total).unwrap();
    assert_eq!(total["outcome"], "failed");
    assert!(
        total["findings"][0]["came"]
            .as_str()
            .unwrap()
            .contains("unreachable")
    );
    assert!(total["remedy"].is_string());
}

#[tokio::test]
async fn an_adapter_that_sends_nothing_has_no_responses_to_read() {
    let mut fake = Fake::good(ADAPTER);
    fake.query = Arc::new(|state, change| {
        change.apply(&mut state.history);
        let text = format!("{} messages", state.history.len());
        Ok(AdapterNext::Reply(values::reply(&text, Vec::new())))
    });
    let report = examine(&fake, &options()).await;
    assert!(report.passed(), "{}", report.text());
    for law in [Law::AnyCut, Law::StartsOver, Law::Requests] {
        let outcome = &report.law(Some(ADAPTER), law).unwrap().outcome;
        assert_eq!(
            *outcome,
            LawOutcome::NotApplicable("it sent no request".into())
        );
    }
    let coherent = report.law(Some(ADAPTER), Law::Coherent).unwrap();
    assert_eq!(coherent.outcome, LawOutcome::Passed);
}

#[tokio::test]
async fn what_only_ever_reports_errors_is_not_passed() {
    let fault = || PluginFault::new("not today");
    for kind in RoleKind::ALL {
        let report = planted(kind, "only errors", &[Law::Total], |fake| {
            fake.parse = Arc::new(move |_, _| Err(fault()));
            fake.format = Arc::new(move |_, _, _| Err(fault()));
            fake.judge = Arc::new(move |_, _| Err(fault()));
            fake.apply = Arc::new(move |_, _| Err(fault()));
            fake.query = Arc::new(|_, _| {
                let class = mswea_core::ErrorClass::BadRequest;
                Err(mswea_core::ModelError::new(class, "not today"))
            });
        })
        .await;
        let text = report.text();
        for law in report.laws.iter().filter(|law| law.kind.is_some()) {
            match (&law.outcome, law.law) {
                (LawOutcome::Failed, Law::Total) => {
                    let came = &law.findings[0].came;
                    assert!(came.contains("not today"), "{text}");
                    assert!(came.contains("it reported an error for each of"), "{text}");
                }
                (LawOutcome::NotApplicable(_), _) => {}
                _ => panic!("{text}"),
            }
        }
        assert!(text.trim_end().ends_with("were not examined"), "{text}");
    }
    // Without replies, only requests are compared.
    let report = planted(ADAPTER, "no reply", &[Law::Total], |fake| {
        fake.finish = Arc::new(|_, ()| {
            let class = mswea_core::ErrorClass::MalformedResponse;
            Err(mswea_core::ModelError::new(class, "not today"))
        });
    })
    .await;
    let outcome = |law| &report.law(Some(ADAPTER), law).unwrap().outcome;
    assert_eq!(*outcome(Law::Requests), LawOutcome::Passed);
    assert!(matches!(outcome(Law::AnyCut), LawOutcome::NotApplicable(_)));
}

#[tokio::test]
async fn one_broken_kind_leaves_the_others_to_be_examined() {
    let mut fake = Fake::good(PARSER);
    fake.identity.kinds.push(POLICY);
    fake.parse = Arc::new(|_, _| {
        std::thread::sleep(Duration::from_millis(750));
        Err(crash("it was still running after 750 ms"))
    });
    let report = examine(&fake, &options()).await;
    let text = report.text();
    for law in &report.laws {
        match law.kind {
            Some(PARSER) => assert_ne!(law.outcome, LawOutcome::Passed, "{text}"),
            _ => assert_eq!(law.outcome, LawOutcome::Passed, "{text}"),
        }
    }
    let open = "failed: 1 of 11 laws is broken, 3 were not examined";
    assert!(text.trim_end().ends_with(open), "{text}");
}
