//! What a reply costs, and where the price is from.
//!
//! In this order: what the provider reports, the user's own rates (`model.price`), the user's
//! registry in litellm's JSON format, the table that `prices update` wrote, the table in this
//! binary ([`BUILT_IN`]). Nothing is read before a price is asked for, and then no more than
//! is needed: a run with rates of its own never unpacks a table.

mod entry;
mod names;
mod packed;
mod place;
mod rates;
mod registry;
mod table;
mod tariff;

#[cfg(test)]
mod vectors;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

pub use entry::EntryError;
pub use names::Wanted;
pub use place::{PlaceError, Updated, reset, update, updated_table};
pub use rates::Rates;
pub use registry::RegistryError;
pub use table::{Listed, Packed, Table, TableError, pack};
pub use tariff::{
    CACHE_WRITE_1H, CACHE_WRITE_12H, COLUMNS, OffPeak, Plan, Row, SERVICE_TIER, Tariff, Tier,
    Window,
};

use crate::regular_file;
use crate::roles::Usage;

/// The table in this binary; its origin and licence stand in `host/data/README.md`.
pub const BUILT_IN: &[u8] = include_bytes!("../../../data/prices.table");

/// Where prices may be from, besides the provider.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// What the user says that the model costs.
    pub rates: Option<Rates>,
    /// A file in litellm's JSON format.
    pub registry: Option<PathBuf>,
    /// A table that takes the place of the one in this binary; see [`updated_table`].
    pub table: Option<PathBuf>,
}

/// A price, and where it is from.
#[derive(Clone, Debug, PartialEq)]
pub struct Quote {
    /// The name under which it was found; empty for the user's own rates.
    pub name: String,
    /// Where.
    pub origin: Origin,
    /// The rates.
    pub tariff: Tariff,
}

/// Where a price is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// `model.price` or `--price`.
    Config,
    /// The user's registry.
    Registry(PathBuf),
    /// A table: of what, and its file if it is not the one in this binary.
    Table {
        /// `litellm 1.109.1`.
        of: String,
        /// The file.
        file: Option<PathBuf>,
    },
}

impl fmt::Display for Origin {
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
    /// The updated table can't be understood.
    #[error(
        "can't use the price table `{}`: {source}: write it anew with `mswea-host prices update \
         FILE`, or go back to the built-in one with `mswea-host prices reset`",
        path.display()
    )]
    Table {
        /// Its file.
        path: PathBuf,
        /// Why.
        source: TableError,
    },
    /// The table in this binary can't be understood.
    #[error(
        "can't use the built-in price table: {0}: this is a bug of mswea-host, please report it"
    )]
    BuiltIn(TableError),
}

/// What a look for a price has found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// The price, if any source knows it.
    pub quote: Option<Quote>,
    /// What the user should know.
    pub warnings: Vec<String>,
}

impl Sources {
    /// Looks for the price of a model.
    ///
    /// # Errors
    /// When a file that the user named or wrote can't be used.
    pub fn find(&self, wanted: &Wanted) -> Result<Found, PriceError> {
        let mut found = Found::default();
        if let Some(tariff) = self.rates.and_then(|rates| rates.tariff()) {
            found.quote = Some(Quote {
                name: String::new(),
                origin: Origin::Config,
                tariff,
            });
            return Ok(found);
        }
        let registered = match &self.registry {
            Some(path) => registry::find(path, wanted, &mut found.warnings)?,
            None => None,
        };
        found.quote = self.listed(wanted)?;
        if let (Some(path), Some((name, mut tariff))) = (&self.registry, registered) {
            // As in litellm, an entry is laid over what is known of the model.
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
                origin: Origin::Registry(path.clone()),
                tariff,
            });
        }
        Ok(found)
    }

    /// The tables, in the order in which they are asked.
    ///
    /// # Errors
    /// When one can't be used.
    pub fn tables(&self) -> impl Iterator<Item = Result<(Table, Option<&Path>), PriceError>> {
        let updated = self.table.iter().filter_map(|path| {
            let bytes = match regular_file::read(path, regular_file::RECORDS) {
                Ok(bytes) => bytes,
                // Nor is there one where there is no such folder: a home may be anything.
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::NotFound
                            | io::ErrorKind::NotADirectory
                            | io::ErrorKind::PermissionDenied
                    ) =>
                {
                    return None;
                }
                Err(source) => {
                    let path = path.clone();
                    return Some(Err(PriceError::Unreadable { path, source }));
                }
            };
            let table = Table::read(&bytes).map_err(|source| PriceError::Table {
                path: path.clone(),
                source,
            });
            Some(table.map(|table| (table, Some(path.as_path()))))
        });
        let built_in = std::iter::once_with(|| {
            Table::read(BUILT_IN)
                .map(|table| (table, None))
                .map_err(PriceError::BuiltIn)
        });
        updated.chain(built_in)
    }

    fn listed(&self, wanted: &Wanted) -> Result<Option<Quote>, PriceError> {
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
                origin: Origin::Table {
                    of: table.source().to_owned(),
                    file: file.map(Path::to_owned),
                },
                tariff,
            }));
        }
        Ok(None)
    }
}

/// The prices of a run's model.
#[derive(Clone, Debug, Default)]
pub struct Prices {
    /// Its price, if it is known.
    pub quote: Option<Quote>,
}

impl Prices {
    /// Dollars for `usage` now: the provider's own figure where it reports one, else by the
    /// tariff.
    #[must_use]
    pub fn cost(&self, usage: &Usage) -> Option<f64> {
        reported(usage).or_else(|| self.quote.as_ref()?.tariff.cost(usage, SystemTime::now()))
    }
}

/// What the provider says that a reply cost. A negative or non-finite figure would corrupt
/// the run's account for good.
fn reported(usage: &Usage) -> Option<f64> {
    usage.cost.filter(|cost| cost.is_finite() && *cost >= 0.0)
}

/// A cost limit that can't be kept.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error(
    "the price of the model `{model}` is unknown, so the cost limit of ${limit} can't be kept: give \
     the price with `--price in=..,out=..` (dollars per million tokens) or in a registry that \
     `model.litellm_model_registry` names, go on without with `model.cost_tracking` or \
     `MSWEA_COST_TRACKING` set to `ignore_errors`, or drop the limit with `-l 0`"
)]
pub struct UnknownPrice {
    /// As the user wrote it.
    pub model: String,
    /// Dollars.
    pub limit: f64,
}

#[cfg(test)]
mod tests;
