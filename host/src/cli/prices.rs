//! `prices`: shows the prices of models, and updates them.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::args::RunArgs;
use super::configs;
use super::exit::ExitCode;
use super::output::{self, Failure};
use mswea_config::{Config, whose_model};
use mswea_provider::price::{self, COLUMNS, PlaceError, Plan, Quote, Row};

/// How many names are suggested for an unknown one.
const NEAR: usize = 5;
/// How many refused entries are named.
const NAMED: usize = 5;

/// Shows the price of a model.
pub fn show(model: &str, json: bool, specs: &[String]) -> Result<ExitCode, Failure> {
    let args = RunArgs {
        model: Some(model.to_owned()),
        configs: specs.to_vec(),
        ..RunArgs::default()
    };
    let config: Config = configs::layers(&args)?
        .resolve()
        .map_err(|error| Failure::usage(error.to_string()))?;
    let choice = whose_model(&config).map_err(|error| Failure::usage(error.to_string()))?;
    let (prices, warnings) = mswea_session::prices(&config, &choice)
        .map_err(|error| Failure::usage(error.to_string()))?;
    for warning in &warnings {
        output::warning(warning);
    }
    let Some(quote) = prices.quote else {
        let near = near(&choice.model);
        let near = match near.as_slice() {
            [] => String::new(),
            near => format!("; the table has {}", near.join(", ")),
        };
        return Err(Failure::new(
            ExitCode::Failed,
            format!(
                "no price is known for `{model}`{near}: give it with `--price in=..,out=..`, or update the table with `mswea-host prices update FILE`"
            ),
        ));
    };
    if json {
        let text = serde_json::to_string_pretty(&as_json(&quote))
            .map_err(|error| Failure::new(ExitCode::Failed, error.to_string()))?;
        return output::data(|out| writeln!(out, "{text}"));
    }
    output::data(|out| describe(&quote, model, out))
}

fn near(model: &str) -> Vec<String> {
    let wanted = model.to_lowercase();
    let sources = price::PriceSources::default();
    let Some(Ok((table, _))) = sources.tables().next() else {
        return Vec::new();
    };
    let last = |name: &'_ str| name.rsplit('/').next().unwrap_or(name).to_owned();
    let lasts: Vec<String> = table.names().map(last).collect();
    let near = mswea_text::near(&wanted, lasts.iter().map(String::as_str), NEAR);
    let named = table.names().zip(&lasts);
    named
        .filter(|(_, last)| near.contains(&last.as_str()))
        .take(NEAR)
        .map(|(name, _)| format!("`{name}`"))
        .collect()
}

/// A row in dollars per million tokens.
fn row(row: &Row) -> Vec<(&'static str, f64)> {
    let columns = COLUMNS.into_iter().zip(row.columns());
    columns
        .filter_map(|(name, rate)| Some((name, (rate? * 1e15).round() / 1e9)))
        .collect()
}

fn describe(quote: &Quote, model: &str, out: &mut dyn Write) -> std::io::Result<()> {
    let listed = match quote.name.as_str() {
        "" => String::new(),
        name => format!(", listed as `{name}`"),
    };
    writeln!(
        out,
        "{model}: dollars per million tokens, from {}{listed}",
        quote.origin
    )?;
    let plan = |plan: &Plan, label: &str, out: &mut dyn Write| -> std::io::Result<()> {
        for tier in plan.tiers() {
            let rates: Vec<String> = row(&tier.row)
                .into_iter()
                .map(|(name, dollars)| format!("{name} {dollars}"))
                .collect();
            let from = match tier.from {
                0 => String::new(),
                from => format!(" from {from} input tokens"),
            };
            writeln!(out, "  {label}{from}: {}", rates.join(", "))?;
        }
        Ok(())
    };
    plan(&quote.tariff.standard, "standard", out)?;
    for (name, service) in &quote.tariff.services {
        plan(service, name, out)?;
    }
    if let Some(off_peak) = &quote.tariff.off_peak {
        plan(&Plan::flat(off_peak.row), "at some hours", out)?;
    }
    Ok(())
}

fn as_json(quote: &Quote) -> Value {
    let rates = |row_of: &Row| -> Map<String, Value> {
        let named = row(row_of).into_iter();
        named
            .map(|(name, dollars)| (name.to_owned(), dollars.into()))
            .collect()
    };
    let plan = |plan: &Plan| -> Value {
        let tiers = plan.tiers().iter().map(|tier| {
            let mut object = rates(&tier.row);
            object.insert("from_input_tokens".to_owned(), tier.from.into());
            Value::Object(object)
        });
        tiers.collect()
    };
    let services: Map<String, Value> = quote
        .tariff
        .services
        .iter()
        .map(|(name, service)| (name.clone(), plan(service)))
        .collect();
    json!({
        "name": quote.name,
        "origin": quote.origin.to_string(),
        "unit": "dollars per million tokens",
        "standard": plan(&quote.tariff.standard),
        "services": services,
        "off_peak": quote.tariff.off_peak.as_ref().map(|off_peak| rates(&off_peak.row)),
    })
}

/// Makes a table of a price file.
pub fn update(
    file: &Path,
    source: Option<&str>,
    output: Option<PathBuf>,
) -> Result<ExitCode, Failure> {
    let table = match output {
        Some(output) => output,
        None => table()?,
    };
    let shown = file.display().to_string();
    let updated = price::update(file, &table, source.unwrap_or(&shown)).map_err(|e| failure(&e))?;
    let refused = updated.refused.len();
    for (name, error) in updated.refused.iter().take(NAMED) {
        output::warning(&format!("`{name}` was left out: {error}"));
    }
    if refused > NAMED {
        let more = refused - NAMED;
        output::warning(&format!("{more} more were left out"));
    }
    let models = match updated.models {
        1 => "1 model has a price".to_owned(),
        models => format!("{models} models have a price"),
    };
    output::note(&format!("{models} in `{}`", table.display()));
    Ok(ExitCode::Submitted)
}

/// Removes the user's table.
pub fn reset() -> Result<ExitCode, Failure> {
    let table = table()?;
    let removed = price::reset(&table).map_err(|error| failure(&error))?;
    output::note(if removed {
        "back to the built-in prices"
    } else {
        "the built-in prices are in use already"
    });
    Ok(ExitCode::Submitted)
}

fn table() -> Result<PathBuf, Failure> {
    price::updated_table(|name| std::env::var_os(name)).ok_or_else(|| {
        Failure::usage(
            "there is no place for the prices: set `HOME` or `XDG_CONFIG_HOME`, or name a file \
             with `--output`",
        )
    })
}

fn failure(error: &PlaceError) -> Failure {
    let code = match error {
        PlaceError::Unreadable { .. } | PlaceError::NoPrices { .. } => ExitCode::Usage,
        PlaceError::Unwritable { .. } => ExitCode::Failed,
    };
    Failure::new(code, error.to_string())
}
