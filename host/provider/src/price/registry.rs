//! The user's own price file, in litellm's JSON format: an object with an entry per model.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;
use serde_json::value::RawValue;

use super::entry::{self, EntryError};
use super::names::PriceQuery;
use super::tariff::Tariff;
use mswea_files as regular_file;
use mswea_text::MendedJson;

/// Why a registry can't be used.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// It exists and can't be read.
    #[error(
        "can't read the price registry `{}`: {source}: check what `model.litellm_model_registry` \
         (or `LITELLM_MODEL_REGISTRY_PATH`) names",
        path.display()
    )]
    Unreadable {
        /// Its file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is not a JSON object.
    #[error(
        "the price registry `{}` is not a JSON object: {source}: write it as `{{\"MODEL\": \
         {{\"input_cost_per_token\": 1e-06, \"output_cost_per_token\": 2e-06, \"litellm_provider\": \
         \"PREFIX\"}}}}`",
        path.display()
    )]
    NoJson {
        /// Its file.
        path: PathBuf,
        /// The mistake, and its place.
        source: serde_json::Error,
    },
    /// The model's entry is wrong.
    #[error("the price of `{model}` in the registry `{}` can't be used: {source}", path.display())]
    Entry {
        /// Its file.
        path: PathBuf,
        /// The model.
        model: String,
        /// The mistake.
        source: EntryError,
    },
}

/// The model's name in the registry and its tariff, if it has one. As in mini-swe-agent, a missing
/// file is not an error, but leads to a warning.
pub(super) fn find(
    path: &Path,
    wanted: &PriceQuery,
    warnings: &mut Vec<String>,
) -> Result<Option<(String, Tariff)>, RegistryError> {
    let bytes = match regular_file::read(path, regular_file::RECORDS) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            warnings.push(format!(
                "the price registry `{}` does not exist, so no prices are registered: check the path in \
                 `model.litellm_model_registry` (or `LITELLM_MODEL_REGISTRY_PATH`)",
                path.display()
            ));
            return Ok(None);
        }
        Err(source) => {
            let path = path.to_owned();
            return Err(RegistryError::Unreadable { path, source });
        }
    };
    let mended;
    let read = match entries(&bytes) {
        Ok(entries) => Ok(entries),
        Err(error) => {
            mended = MendedJson::of(&bytes);
            mended.as_ref().map_or(Err(error), |it| entries(&it.text))
        }
    };
    let entries = read.map_err(|source| RegistryError::NoJson {
        path: path.to_owned(),
        source,
    })?;
    let wrong = |model: &str, source| RegistryError::Entry {
        path: path.to_owned(),
        model: model.to_owned(),
        source,
    };
    for name in wanted.names() {
        let exact = entries.get_key_value(name);
        let same = |(key, _): &(&String, &&RawValue)| key.to_lowercase() == name.to_lowercase();
        let Some((name, raw)) = exact.or_else(|| entries.iter().find(same)) else {
            continue;
        };
        let Ok(entry) = serde_json::from_str::<Value>(raw.get()) else {
            continue;
        };
        let provider = entry.as_object().and_then(entry::provider);
        if !wanted.is_of(provider.unwrap_or_default()) {
            continue;
        }
        if let Some(tariff) = entry::tariff(&entry).map_err(|source| wrong(name, source))? {
            return Ok(Some((name.clone(), tariff)));
        }
    }
    Ok(None)
}

/// The entries, each as its text: a registry may be as long as litellm's own file, and only one
/// entry is needed.
fn entries(bytes: &[u8]) -> Result<BTreeMap<String, &RawValue>, serde_json::Error> {
    serde_json::from_slice(bytes)
}
