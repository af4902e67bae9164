//! The cost of a reply, and the source of its price.
//!
//! The sources, in order of precedence: what the provider reports, the user's own rates
//! (`model.price`), the user's registry in litellm's JSON format, the table that `prices update`
//! wrote, the table in this binary ([`BUILT_IN`]). A source is read when it is first needed: a run
//! with rates of its own never unpacks a table.

mod entry;
mod names;
mod packed;
mod place;
mod rates;
mod registry;
mod shared_tables;
mod table;
mod tariff;

#[cfg(test)]
mod vectors;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

pub use entry::EntryError;
pub use names::PriceQuery;
pub use place::{PlaceError, Updated, reset, update, updated_table};
pub use rates::Rates;
pub use registry::RegistryError;
pub use table::{Listed, PackedTable, Table, TableError, pack};
pub use tariff::{
    CACHE_WRITE_1H, CACHE_WRITE_12H, COLUMNS, OffPeak, Plan, Row, SERVICE_TIER, Tariff, Tier,
    Window,
};

use mswea_core::{Pricing, Usage};

/// The table in this binary; `host/data/README.md` has its source and licence.
pub const BUILT_IN: &[u8] = include_bytes!("../../../data/prices.table");

/// Sources of prices, other than the provider.
#[derive(Clone, Debug, Default)]
pub struct PriceSources {
    /// The rates that the user set.
    pub rates: Option<Rates>,
    /// A file in litellm's JSON format.
    pub registry: Option<PathBuf>,
    /// A table that replaces the one in this binary; see [`updated_table`].
    pub table: Option<PathBuf>,
}

/// A price and its source.
#[derive(Clone, Debug, PartialEq)]
pub struct Quote {
    /// The name under which it was found; empty for the user's own rates.
    pub name: String,
    /// The source.
    pub origin: PriceSource,
    /// The rates.
    pub tariff: Tariff,
    /// How many tokens a request may have, as far as the table knows it.
    pub window: Option<u64>,
}

/// The source of a price.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PriceSource {
    /// `model.price` or `--price`.
    Config,
    /// The user's registry.
    Registry(PathBuf),
    /// A table: its own source, and its file if it is not the one in this binary.
    Table {
        /// The source of the table, such as `litellm 1.109.1`.
        of: String,
        /// Its file.
        file: Option<PathBuf>,
    },
}

impl fmt::Display for PriceSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config => write!(f, "the configuration"),
            Self::Registry(path) => write!(f, "the registry `{}`", path.display()),
            Self::Table { of, file: None } => write!(f, "the built-in table ({of})"),
            Self::Table {
                of,
                file: Some(path),
            } => write!(f, "the table `{}` ({of})", path.display()),
        }
    }
}

/// Why prices can't be read.
#[derive(Debug, thiserror::Error)]
pub enum PriceError {
    /// The user's registry can't be used.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The updated table can't be read.
    #[error(
        "can't read the price table `{}`: {source}: make it readable, or remove it with \
         `mswea-host prices reset`",
        path.display()
    )]
    Unreadable {
        /// Its file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The updated table is damaged, or of another format.
    #[error(
        "can't use the price table `{}`: {source}: write it again with `mswea-host prices update \
         FILE`, or go back to the built-in one with `mswea-host prices reset`",
        path.display()
    )]
    Table {
        /// Its file.
        path: PathBuf,
        /// Why.
        source: TableError,
    },
    /// The table in this binary is damaged.
    #[error(
        "can't use the built-in price table: {0}: this is a bug of mswea-host, please report it"
    )]
    BuiltIn(TableError),
}

/// The result of a search for a price.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FoundPrice {
    /// The price, if a source has it.
    pub quote: Option<Quote>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

impl PriceSources {
    /// Looks for the price of a model.
    ///
    /// # Errors
    /// [`PriceError`] if the registry or a table exists but can't be read, or has another format.
    pub fn find(&self, wanted: &PriceQuery) -> Result<FoundPrice, PriceError> {
        let mut found = FoundPrice::default();
        if let Some(tariff) = self.rates.and_then(|rates| rates.tariff()) {
            found.quote = Some(Quote {
                name: String::new(),
                origin: PriceSource::Config,
                tariff,
                window: None,
            });
            return Ok(found);
        }
        let registered = match &self.registry {
            Some(path) => registry::find(path, wanted, &mut found.warnings)?,
            None => None,
        };
        found.quote = self.listed(wanted)?;
        if let (Some(path), Some((name, mut tariff))) = (&self.registry, registered) {
            // As in litellm, an entry of the registry is laid over the known rates of the model.
            if let Some(first) = found
                .quote
                .iter()
                .find_map(|quote| quote.tariff.standard.0.first())
            {
                for tier in &mut tariff.standard.0 {
                    tier.row = tier.row.or(&first.row);
                }
            }
            found.quote = Some(Quote {
                name,
                origin: PriceSource::Registry(path.clone()),
                tariff,
                window: found.quote.and_then(|quote| quote.window),
            });
        }
        Ok(found)
    }

    /// The tables, in the order in which they are searched.
    ///
    /// # Errors
    /// [`PriceError`] for a table that exists but can't be read, or has another format.
    pub fn tables(&self) -> impl Iterator<Item = Result<(Arc<Table>, Option<&Path>), PriceError>> {
        let updated = self.table.iter().filter_map(|path| {
            let table = shared_tables::updated(path).transpose()?;
            Some(table.map(|table| (table, Some(path.as_path()))))
        });
        let built_in = std::iter::once_with(|| Ok((shared_tables::built_in()?, None)));
        updated.chain(built_in)
    }

    fn listed(&self, wanted: &PriceQuery) -> Result<Option<Quote>, PriceError> {
        for table in self.tables() {
            let (table, file) = table?;
            let Some(listed) = wanted.names().find_map(|name| {
                table
                    .find(name)
                    .filter(|listed| wanted.is_of(listed.provider))
            }) else {
                continue;
            };
            let tariff = table.tariff(&listed).map_err(|source| match file {
                Some(path) => PriceError::Table {
                    path: path.to_owned(),
                    source,
                },
                None => PriceError::BuiltIn(source),
            })?;
            return Ok(Some(Quote {
                name: listed.name.to_owned(),
                origin: PriceSource::Table {
                    of: table.source().to_owned(),
                    file: file.map(Path::to_owned),
                },
                tariff,
                window: listed.window,
            }));
        }
        Ok(None)
    }
}

/// The prices of a run's model.
#[derive(Clone, Debug, Default)]
pub struct Prices {
    /// The price of the model, if it is known.
    pub quote: Option<Quote>,
}

impl Pricing for Prices {
    /// The cost of `usage` in dollars, now: the provider's own figure if it reports one, else by
    /// the tariff.
    fn cost(&self, usage: &Usage) -> Option<f64> {
        reported(usage).or_else(|| self.quote.as_ref()?.tariff.cost(usage, SystemTime::now()))
    }
}

/// The cost that the provider reports for a reply. A negative or non-finite figure is ignored,
/// because it would make the run's sum wrong.
fn reported(usage: &Usage) -> Option<f64> {
    usage.cost.filter(|cost| cost.is_finite() && *cost >= 0.0)
}

/// A cost limit that can't be enforced.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error(
    "the price of the model `{model}` is unknown, so the cost limit of ${limit} can't be enforced: give \
     the price with `--price in=..,out=..` (dollars per million tokens) or in a registry that \
     `model.litellm_model_registry` names, continue without a price by setting `model.cost_tracking` or \
     `MSWEA_COST_TRACKING` to `ignore_errors`, or drop the limit with `-l 0`"
)]
pub struct UnknownPrice {
    /// As the user wrote it.
    pub model: String,
    /// Dollars.
    pub limit: f64,
}

#[cfg(test)]
mod tests;
