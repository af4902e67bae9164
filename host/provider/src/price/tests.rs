use std::fs;

use serde_json::json;

use super::*;

fn million(input: u64) -> Usage {
    Usage {
        input_tokens: input * 1_000_000,
        ..Usage::default()
    }
}

/// Dollars for a million input tokens, and the source of the price.
fn dollars(sources: &PriceSources, wanted: &PriceQuery) -> Option<(f64, String)> {
    let quote = sources.find(wanted).unwrap().quote?;
    let origin = match &quote.origin {
        PriceSource::Config => "config",
        PriceSource::Registry(_) => "registry",
        PriceSource::Table { file: Some(_), .. } => "updated",
        PriceSource::Table { file: None, .. } => "built-in",
    };
    let cost = quote.tariff.cost(&million(1), SystemTime::UNIX_EPOCH)?;
    Some(((cost * 1e9).round() / 1e9, origin.to_owned()))
}

#[test]
fn the_nearest_source_wins() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let prices = json!({"gpt-4o": {"litellm_provider": "openai", "mode": "chat",
        "input_cost_per_token": 7e-6, "output_cost_per_token": 8e-6}});
    fs::write(path("new.json"), prices.to_string()).unwrap();
    let updated = update(&path("new.json"), &path("t/prices.table"), "test").unwrap();
    assert_eq!((updated.models, updated.refused), (1, vec![]));
    let registry = json!({
        "GPT-4o": {"litellm_provider": "openai", "input_cost_per_token": 5e-6},
        "my-model": {"litellm_provider": "hosted_vllm", "input_cost_per_token": 4e-6},
        "anyone": {"input_cost_per_token": "3e-06"},
        "broken": {"input_cost_per_token": "x"},
        "unpriced": {"max_tokens": 5},
    });
    fs::write(path("registry.json"), registry.to_string()).unwrap();
    let rates = Some(Rates {
        input: Some(9.0),
        output: Some(9.0),
        ..Rates::default()
    });
    let half = Some(Rates {
        input: Some(9.0),
        ..Rates::default()
    });
    let sources = |rates, registry: bool, table: bool| PriceSources {
        rates,
        registry: registry.then(|| path("registry.json")),
        table: table.then(|| path("t/prices.table")),
    };
    let gpt = PriceQuery::new(Some("openai"), "gpt-4o");
    for (sources, wanted, expected) in [
        (sources(rates, true, true), &gpt, Some((9.0, "config"))),
        (sources(half, true, true), &gpt, Some((5.0, "registry"))),
        (sources(None, false, true), &gpt, Some((7.0, "updated"))),
        (sources(None, false, false), &gpt, Some((2.5, "built-in"))),
        (
            sources(None, true, false),
            &PriceQuery::new(Some("hosted_vllm"), "my-model"),
            Some((4.0, "registry")),
        ),
        (
            sources(None, true, false),
            &PriceQuery::new(Some("vllm"), "my-model"),
            None,
        ),
        (
            sources(None, true, false),
            &PriceQuery::new(Some("x"), "anyone"),
            Some((3.0, "registry")),
        ),
        (
            sources(None, true, false),
            &PriceQuery::new(Some("x"), "unpriced"),
            None,
        ),
        // a model that is missing in the updated table is found in the built-in one
        (
            sources(None, false, true),
            &PriceQuery::new(Some("anthropic"), "claude-sonnet-4-5-20250929"),
            Some((3.0, "built-in")),
        ),
        (
            sources(None, false, true),
            &PriceQuery::new(Some("openai"), "no-such-model"),
            None,
        ),
    ] {
        let expected = expected.map(|(cost, origin)| (cost, origin.to_owned()));
        assert_eq!(dollars(&sources, wanted), expected, "{wanted:?}");
    }
    // An entry is laid over the known rates: GPT-4o's output still has its price.
    let quote = sources(None, true, false)
        .find(&gpt)
        .unwrap()
        .quote
        .unwrap();
    assert_eq!(quote.tariff.standard.tiers()[0].row.output, Some(1e-5));
    assert_eq!(quote.name, "GPT-4o");

    assert!(reset(&path("t/prices.table")).unwrap());
    assert!(!reset(&path("t/prices.table")).unwrap());
    assert_eq!(
        dollars(&sources(None, false, true), &gpt).unwrap().1,
        "built-in"
    );
}

#[test]
fn what_the_provider_reports_wins() {
    let quote = PriceSources::default()
        .find(&PriceQuery::new(Some("openai"), "gpt-4o"))
        .unwrap()
        .quote;
    for (quote, reported, expected) in [
        (quote.clone(), Some(0.5), Some(0.5)),
        (quote.clone(), Some(0.0), Some(0.0)),
        (quote.clone(), Some(-1.0), Some(2.5)),
        (quote.clone(), Some(f64::NAN), Some(2.5)),
        (quote, None, Some(2.5)),
        (None, Some(0.5), Some(0.5)),
        (None, None, None),
    ] {
        let usage = Usage {
            cost: reported,
            ..million(1)
        };
        let cost = Prices { quote }.cost(&usage);
        let cost = cost.map(|cost| (cost * 1e9).round() / 1e9);
        assert_eq!(cost, expected, "{reported:?}");
    }
}

#[test]
fn files_that_are_no_prices_are_explained() {
    let folder = tempfile::tempdir().unwrap();
    let wanted = PriceQuery::new(Some("p"), "m");
    for (content, parts) in [
        (
            "{\"a\": 1,}",
            &[
                "registry `",
                "is not a JSON object",
                "line 1",
                "input_cost_per_token",
            ][..],
        ),
        ("[1]", &["is not a JSON object"]),
        ("", &["is not a JSON object"]),
        (
            "{\"m\": 1}",
            &["the price of `m` in the registry", "it is not an object"],
        ),
        (
            "{\"p/m\": {\"input_cost_per_token\": \"much\"}}",
            &[
                "the price of `p/m`",
                "`input_cost_per_token` is `\"much\"`, which is not a price",
            ],
        ),
    ] {
        let path = folder.path().join("r.json");
        fs::write(&path, content).unwrap();
        let sources = PriceSources {
            registry: Some(path),
            ..PriceSources::default()
        };
        let error = sources.find(&wanted).unwrap_err().to_string();
        for part in parts {
            assert!(error.contains(part), "{content}: {error}");
        }
    }
    for (content, parts) in [
        (
            "mswea-prices 9 litellm 3\n",
            &[
                "has format 9",
                "reads format 1",
                "prices update",
                "prices reset",
            ][..],
        ),
        ("{}", &["it is not a price table", "prices reset"]),
    ] {
        let path = folder.path().join("prices.table");
        fs::write(&path, content).unwrap();
        let sources = PriceSources {
            table: Some(path),
            ..PriceSources::default()
        };
        let error = sources.find(&wanted).unwrap_err().to_string();
        for part in parts {
            assert!(error.contains(part), "{content}: {error}");
        }
    }
    let table = folder.path().join("kept.table");
    fs::write(&table, "kept").unwrap();
    for (content, part) in [
        ("{", "it is not JSON: EOF"),
        ("[]", "no object of models"),
        ("{}", "no model in it has a price per token"),
        (
            "{\"m\": {\"input_cost_per_token\": []}}",
            "none of its entries can be used (`m`: ",
        ),
    ] {
        let path = folder.path().join("new.json");
        fs::write(&path, content).unwrap();
        let error = update(&path, &table, "x").unwrap_err().to_string();
        assert!(error.contains(part), "{content}: {error}");
        assert_eq!(fs::read(&table).unwrap(), b"kept");
    }
    let missing = update(&folder.path().join("none"), &table, "x").unwrap_err();
    assert!(missing.to_string().contains("can't read `"), "{missing}");
}

#[test]
fn a_registry_that_is_not_there_is_said() {
    let sources = PriceSources {
        registry: Some("/nonexistent/r.json".into()),
        ..PriceSources::default()
    };
    let found = sources
        .find(&PriceQuery::new(Some("openai"), "gpt-4o"))
        .unwrap();
    assert!(found.quote.is_some());
    assert!(found.warnings[0].contains("`/nonexistent/r.json` does not exist"));
}

#[test]
fn the_built_in_table_is_sound() {
    assert!(BUILT_IN.len() < 200_000);
    let table = Table::read(BUILT_IN).unwrap();
    assert!(table.source().starts_with("litellm "));
    assert!(table.len() > 3000);
    let mut last = String::new();
    for name in table.names() {
        assert!(*last < *name, "{name}");
        last = name.to_owned();
        let listed = table.find(name).unwrap();
        let tariff = table.tariff(&listed).unwrap();
        assert!(
            tariff.cost(&million(1), SystemTime::UNIX_EPOCH).is_some(),
            "{name}"
        );
    }
}

#[test]
fn the_users_table_lies_in_the_config_folder() {
    for (xdg, home, expected) in [
        (Some("/x"), Some("/h"), Some("/x/mswea-host/prices.table")),
        (None, Some("/h"), Some("/h/.config/mswea-host/prices.table")),
        (
            Some("x"),
            Some("/h"),
            Some("/h/.config/mswea-host/prices.table"),
        ),
        (None, None, None),
    ] {
        let var = |name: &str| match name {
            "XDG_CONFIG_HOME" => xdg.map(Into::into),
            "HOME" => home.map(Into::into),
            _ => None,
        };
        assert_eq!(updated_table(var), expected.map(PathBuf::from));
    }
}

#[test]
fn a_table_is_read_again_only_if_its_file_has_changed() {
    let folder = tempfile::tempdir().unwrap();
    let (json, table) = (folder.path().join("new.json"), folder.path().join("table"));
    let write = |input: f64| {
        let prices = json!({"m": {"litellm_provider": "openai", "mode": "chat",
            "input_cost_per_token": input, "output_cost_per_token": 8e-6}});
        fs::write(&json, prices.to_string()).unwrap();
        update(&json, &table, "test").unwrap();
    };
    write(1e-6);
    let sources = PriceSources {
        table: Some(table.clone()),
        ..PriceSources::default()
    };
    let read = || -> Vec<_> { sources.tables().map(|table| table.unwrap().0).collect() };
    let price = || {
        let query = PriceQuery::new(Some("openai"), "m");
        let quote = sources.find(&query).unwrap().quote.unwrap();
        quote.tariff.cost(&million(1), SystemTime::UNIX_EPOCH)
    };
    let (first, again) = (read(), read());
    assert_eq!(first.len(), 2);
    assert!(Arc::ptr_eq(&first[1], &again[1]), "the built-in one");
    assert_eq!(price(), Some(1.0));
    write(2e-6);
    assert_eq!(price(), Some(2.0));
}
