use serde_json::json;

use super::*;

fn row(columns: &[f64]) -> Row {
    let mut all = [None; COLUMNS.len()];
    for (slot, rate) in all.iter_mut().zip(columns) {
        // -1 stands for none
        *slot = Some(*rate).filter(|rate| *rate >= 0.0);
    }
    Row::of_columns(all)
}

fn read(entry: Value) -> Tariff {
    tariff(&entry).unwrap().unwrap()
}

#[test]
fn a_plain_entry_is_one_row() {
    for (entry, expected) in [
        (
            json!({INPUT: 1e-6, OUTPUT: 2e-6, "max_tokens": 5, "mode": "chat"}),
            row(&[1e-6, 2e-6]),
        ),
        (
            json!({INPUT: "1e-06", OUTPUT: 2, "cache_read_input_token_cost": 0}),
            row(&[1e-6, 2.0, 0.0]),
        ),
        (json!({INPUT: 1, OUTPUT: null}), row(&[1.0])),
        (json!({INPUT: 0.0, OUTPUT: 0.0}), row(&[0.0, 0.0])),
        (
            json!({INPUT: 1, OUTPUT: 2, "cache_creation_input_token_cost_above_1hr": 3,
                "cache_creation_input_token_cost_above_12hr": 4, REASONING: 5}),
            row(&[1.0, 2.0, -1.0, -1.0, 3.0, 4.0, 5.0]),
        ),
    ] {
        assert_eq!(read(entry.clone()), Tariff::flat(expected), "{entry}");
    }
}

#[test]
fn without_a_price_per_token_there_is_none() {
    for entry in [
        json!({}),
        json!({"litellm_provider": "github_copilot", "mode": "chat"}),
        json!({"output_cost_per_second": 0.1}),
        json!({INPUT: 0, OUTPUT: 0.0, "input_cost_per_second": 0.1}),
        json!({"tiered_pricing": [{"input_cost_per_query": 1, "max_results_range": [0, 9]}]}),
    ] {
        assert_eq!(tariff(&entry), Ok(None), "{entry}");
    }
}

#[test]
fn tiers_inherit_from_below() {
    let tariff = read(json!({
        INPUT: 1, OUTPUT: 2, "cache_read_input_token_cost": 0.5,
        "cache_creation_input_token_cost_above_1hr": 7,
        "input_cost_per_token_above_200k_tokens": 10,
        "output_cost_per_token_above_1000k_tokens": 200,
        "cache_creation_input_token_cost_above_1hr_above_200k_tokens": 70,
        "input_cost_per_token_above_500k_tokens_batches": 0.1,
        "input_cost_per_token_above_many_tokens": 0.1,
    }));
    let tier = |from, columns: &[f64]| Tier {
        from,
        row: row(columns),
    };
    assert_eq!(
        tariff.standard.tiers(),
        [
            tier(0, &[1.0, 2.0, 0.5, -1.0, 7.0]),
            tier(200_001, &[10.0, 2.0, 0.5, -1.0, 70.0]),
            tier(1_000_001, &[10.0, 200.0, 0.5, -1.0, 70.0]),
        ]
    );
}

#[test]
fn service_tiers_inherit_from_the_standard() {
    let tariff = read(json!({
        INPUT: 1, OUTPUT: 2, REASONING: 3, "cache_read_input_token_cost": 0.5,
        "input_cost_per_token_above_272k_tokens": 10,
        "input_cost_per_token_flex": 0.1,
        "output_cost_per_token_priority": 20,
        "cache_read_input_token_cost_above_272k_tokens_priority": 5,
        "input_cost_per_token_batches": 0.01,
    }));
    let names: Vec<_> = tariff
        .services
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(names, ["flex", "priority"]);
    let rows = |index: usize| -> Vec<Row> {
        tariff.services[index]
            .1
            .tiers()
            .iter()
            .map(|tier| tier.row)
            .collect()
    };
    assert_eq!(
        rows(0),
        [
            row(&[0.1, 2.0, 0.5, -1.0, -1.0, -1.0, 3.0]),
            row(&[10.0, 2.0, 0.5, -1.0, -1.0, -1.0, 3.0])
        ]
    );
    assert_eq!(rows(1), [row(&[1.0, 20.0, 0.5]), row(&[10.0, 20.0, 5.0])]);
}

#[test]
fn a_list_of_tiers_takes_the_place_of_all_that() {
    let tariff = read(json!({
        OUTPUT: 9, REASONING: 99, "input_cost_per_token_flex": 1,
        "tiered_pricing": [
            {"range": [256_000.0, 1e6], INPUT: 2},
            {"range": [0, 256_000], INPUT: 1, OUTPUT: 3, "cache_read_input_token_cost": 0.5},
        ],
    }));
    assert_eq!(tariff.services, []);
    let tiers: Vec<_> = tariff
        .standard
        .tiers()
        .iter()
        .map(|t| (t.from, t.row))
        .collect();
    let dear = row(&[2.0, 9.0, -1.0, -1.0, -1.0, -1.0, 99.0]);
    assert_eq!(tiers, [(0, row(&[1.0, 3.0, 0.5])), (256_001, dear)]);
}

#[test]
fn providers_have_rules_of_their_own() {
    let entry = |provider: &str| {
        let tariff = read(json!({
            "litellm_provider": provider, INPUT: 2, OUTPUT: 4, REASONING: 8,
            "input_cost_per_token_above_100k_tokens": 20,
        }));
        let tiers = tariff.standard.tiers().iter();
        tiers.map(|tier| (tier.from, tier.row)).collect::<Vec<_>>()
    };
    let reasoning = |input, read| row(&[input, 4.0, read, -1.0, -1.0, -1.0, 8.0]);
    for (provider, tiers) in [
        (
            "openai",
            vec![(0, reasoning(2.0, -1.0)), (100_001, reasoning(20.0, -1.0))],
        ),
        (
            "fireworks_ai",
            vec![(0, reasoning(2.0, 1.0)), (100_001, reasoning(20.0, 1.0))],
        ),
        (
            "xai",
            vec![(0, row(&[2.0, 4.0])), (100_000, row(&[20.0, 4.0]))],
        ),
        ("perplexity", vec![(0, reasoning(2.0, -1.0))]),
    ] {
        assert_eq!(entry(provider), tiers, "{provider}");
    }
}

#[test]
fn off_peak_hours() {
    let tariff = read(json!({INPUT: 1, OUTPUT: 2, "off_peak_pricing": {
        INPUT: 0.5, "hours_utc": "16:30-00:30",
        "windows": [
            {"hours_utc": ["00:00-01:00"], "weekdays": [1, "tuesday", 7]},
            {"hours_utc": "00:00-00:00"},
        ],
    }}));
    let window = |days, from, to| Window { days, from, to };
    assert_eq!(
        tariff.off_peak,
        Some(OffPeak {
            row: row(&[0.5]),
            windows: vec![
                window(EVERY_DAY, 990, 30),
                window(0b100_0011, 0, 60),
                window(EVERY_DAY, 0, 0),
            ],
        })
    );
}

#[test]
fn what_is_wrong_is_named() {
    for (entry, part) in [
        (json!([]), "it is not an object"),
        (
            json!({INPUT: "cheap"}),
            "`input_cost_per_token` is `\"cheap\"`, which is not a price",
        ),
        (json!({INPUT: -1}), "is `-1`"),
        (json!({INPUT: "inf"}), "is `\"inf\"`"),
        (
            json!({INPUT: 1, OUTPUT: {}}),
            "`output_cost_per_token` is an object",
        ),
        (json!({INPUT: 1, OUTPUT: true}), "is `true`"),
        (
            json!({INPUT: 1, "input_cost_per_token_above_1k_tokens": []}),
            "is a list",
        ),
        (
            json!({INPUT: 1, "tiered_pricing": 1}),
            "`tiered_pricing` has a form",
        ),
        (
            json!({"tiered_pricing": [{"range": [0], OUTPUT: 1}]}),
            "`tiered_pricing` has a form",
        ),
        (
            json!({"tiered_pricing": [{"range": ["a"], INPUT: 1}]}),
            "`tiered_pricing` has a form",
        ),
        (
            json!({INPUT: 1, "off_peak_pricing": []}),
            "`off_peak_pricing` has a form",
        ),
        (
            json!({INPUT: 1, "off_peak_pricing": {"hours_utc": "late"}}),
            "has a form",
        ),
        (
            json!({INPUT: 1, "off_peak_pricing": {"hours_utc": "10:00-24:00"}}),
            "has a form",
        ),
        (
            json!({INPUT: 1, "off_peak_pricing": {"windows": [{"hours_utc": "1:00-2:00", "weekdays": [8]}]}}),
            "has a form",
        ),
    ] {
        let message = tariff(&entry).unwrap_err().to_string();
        assert!(message.contains(part), "{entry}: {message}");
    }
}
