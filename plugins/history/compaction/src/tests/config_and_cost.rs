//! Tests that wrong configs are refused, and the time of a step.

use std::time::Instant;

use super::*;

#[test]
fn bad_configs() {
    for (config, pointer) in [
        (json!({ "budget_tokens": 7_999 }), Some("/budget_tokens")),
        (json!({ "budget_tokens": -1 }), None),
        (json!({ "trigger": 0 }), Some("/trigger")),
        (json!({ "trigger": 1.01 }), Some("/trigger")),
        (json!({ "keep_last": 0 }), Some("/keep_last")),
        (json!({ "instructions": " " }), Some("/instructions")),
        (
            json!({ "summary_template": "x" }),
            Some("/summary_template"),
        ),
        (json!({ "budget": 5 }), None),
    ] {
        let error = configure::<Compactor>(config.clone())
            .err()
            .expect("it is bad");
        assert_eq!(error.code, "invalid-config");
        let expected = pointer.map(|pointer| json!({ "pointer": pointer }).to_string());
        assert_eq!(error.extra, expected, "{config}");
    }
    let schema: Value =
        serde_json::from_str(&Compactor::describe().config_schema).expect("it is JSON");
    for example in schema["examples"].as_array().expect("there are some") {
        configure::<Compactor>(example.clone()).expect("it is good");
    }
}

#[test]
fn a_step_brings_back_what_is_new() {
    let (mut driver, asked) = driver(json!({}), "notes");
    driver.apply(Change::all(run(&[(5_000, 2_000); 400])));
    for id in 400..500 {
        let new = vec![call(id, 5_000), output(id, 2_000)];
        driver.apply(Change::tail(2 + 2 * id, new));
        assert_eq!((driver.last_start(), driver.last_len()), (2 + 2 * id, 2));
    }
    assert_eq!(asked.borrow().len(), 0);
}

/// Two hundred steps take less time than one pass over the whole history.
#[test]
fn a_step_looks_at_what_is_new() {
    const LEN: usize = 5_000;
    let mut processor = configure::<Compactor>(json!({})).expect("it is good");
    let whole = Change::all(run(&[(5_000, 200); LEN]));
    let begun = Instant::now();
    processor.apply(whole).expect("it applies");
    let first = begun.elapsed();
    let steps: Vec<_> = (LEN..LEN + 200)
        .map(|id| Change::tail(2 + 2 * id, vec![call(id, 5_000), output(id, 200)]))
        .collect();
    let begun = Instant::now();
    for step in steps {
        processor.apply(step).expect("it applies");
    }
    assert!(begun.elapsed() < first, "{:?}, {first:?}", begun.elapsed());
}

/// Run with `cargo test --release -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn speed() {
    for len in [200, 2_000, 20_000] {
        let mut processor = configure::<Compactor>(json!({})).expect("the config is good");
        let begun = Instant::now();
        processor
            .apply(Change::all(run(&vec![(5_000, 2_000); len])))
            .expect("it applies");
        let first = begun.elapsed();
        let changes: Vec<_> = (len..len + 200)
            .map(|id| Change::tail(2 + 2 * id, vec![call(id, 5_000), output(id, 2_000)]))
            .collect();
        let begun = Instant::now();
        for change in changes {
            processor.apply(change).expect("it applies");
        }
        println!(
            "{len} steps: first {first:?}, then {:?} a step",
            begun.elapsed() / 200
        );
    }
}
