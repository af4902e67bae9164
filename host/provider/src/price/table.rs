//! A price table: the tariffs of many models, in a form in which one is found in microseconds.
//!
//! A file has one line of plain text, with the format's version and the source of the prices, and a
//! block of lz4. The block holds a line with two counts, the distinct tariffs (many models share
//! one), and the models by name, each with its provider, the number of its tariff, and how many tokens a
//! request may have, if that is known.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::entry::{self, EntryError};
use super::packed;
use super::tariff::Tariff;

/// The first characters of a file, before the version.
const MAGIC: &str = "mswea-prices ";
/// The version that this code reads and writes.
const FORMAT: u32 = 1;
/// The largest unpacked size that is allocated, far above that of any table, in case a damaged file
/// states another one.
const MAX_BYTES: usize = 64 << 20;

/// Kinds of models that an agent may use; the others are not billed by token.
const MODES: [&str; 3] = ["chat", "responses", "completion"];

/// Why a table can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// It is another kind of file.
    #[error("it is not a price table of mswea-host")]
    NoTable,
    /// Written by a later version.
    #[error("it has format {found}, and this version of mswea-host reads format {FORMAT}")]
    Future {
        /// Its format.
        found: String,
    },
    /// The first line is correct and the rest is not.
    #[error("it is damaged")]
    Damaged,
}

/// A table in memory.
#[derive(Clone, Debug)]
pub struct Table {
    /// The source of the prices.
    source: String,
    text: String,
    /// The positions of the lines of tariffs, then of models, then of the end.
    lines: Vec<usize>,
    tariffs: usize,
}

/// A model in a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed<'a> {
    /// Its name, in lower case.
    pub name: &'a str,
    /// Its provider, by litellm's name; empty if the table names none.
    pub provider: &'a str,
    /// The index of its tariff.
    tariff: usize,
    /// How many tokens a request may have.
    pub window: Option<u64>,
}

impl Table {
    /// Reads a file.
    ///
    /// # Errors
    /// [`TableError`] if it is another kind of file, of a later version, or damaged.
    pub fn read(bytes: &[u8]) -> Result<Self, TableError> {
        let rest = bytes
            .strip_prefix(MAGIC.as_bytes())
            .ok_or(TableError::NoTable)?;
        let end = rest
            .iter()
            .position(|byte| *byte == b'\n')
            .ok_or(TableError::NoTable)?;
        let head = std::str::from_utf8(&rest[..end]).map_err(|_| TableError::NoTable)?;
        let (format, source) = head.split_once(' ').unwrap_or((head, ""));
        match format.parse::<u32>() {
            Ok(FORMAT) => {}
            Ok(_) => {
                let found = format.to_owned();
                return Err(TableError::Future { found });
            }
            Err(_) => return Err(TableError::NoTable),
        }
        let packed = &rest[end + 1..];
        let size = packed
            .first_chunk()
            .map_or(0, |size| u32::from_le_bytes(*size));
        if usize::try_from(size).is_ok_and(|size| size > MAX_BYTES) {
            return Err(TableError::Damaged);
        }
        let text = lz4_flex::decompress_size_prepended(packed).map_err(|_| TableError::Damaged)?;
        let text = String::from_utf8(text).map_err(|_| TableError::Damaged)?;
        Self::index(source.to_owned(), text).ok_or(TableError::Damaged)
    }

    fn index(source: String, text: String) -> Option<Self> {
        let (counts, _) = text.split_once('\n')?;
        let (tariffs, models) = counts.split_once(' ')?;
        let (tariffs, models) = (
            tariffs.parse::<usize>().ok()?,
            models.parse::<usize>().ok()?,
        );
        let lines: Vec<usize> = text.match_indices('\n').map(|(at, _)| at + 1).collect();
        if lines.len() != tariffs.checked_add(models)?.checked_add(1)?
            || lines.last() != Some(&text.len())
        {
            return None;
        }
        Some(Self {
            source,
            text,
            lines,
            tariffs,
        })
    }

    /// The source of the prices: `litellm 1.109.1`.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// How many models it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lines.len() - 1 - self.tariffs
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The model of that name; case is ignored.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<Listed<'_>> {
        let name = lower(name);
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            let listed = self.model(middle)?;
            match listed.name.cmp(&name) {
                std::cmp::Ordering::Equal => return Some(listed),
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }

    /// The tariff of a model.
    ///
    /// # Errors
    /// [`TableError::Damaged`] if the model's line is malformed.
    pub fn tariff(&self, model: &Listed<'_>) -> Result<Tariff, TableError> {
        (model.tariff < self.tariffs)
            .then(|| packed::read(self.line(model.tariff)?))
            .flatten()
            .ok_or(TableError::Damaged)
    }

    /// All names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).filter_map(|index| Some(self.model(index)?.name))
    }

    fn model(&self, index: usize) -> Option<Listed<'_>> {
        let mut fields = self.line(self.tariffs + index)?.split('\t');
        Some(Listed {
            name: fields.next()?,
            provider: fields.next()?,
            tariff: fields.next()?.parse().ok()?,
            window: fields.next().and_then(|window| window.parse().ok()),
        })
    }

    fn line(&self, index: usize) -> Option<&str> {
        let (from, to) = (*self.lines.get(index)?, *self.lines.get(index + 1)?);
        self.text.get(from..to - 1)
    }
}

fn lower(name: &str) -> Cow<'_, str> {
    if name.chars().any(char::is_uppercase) {
        Cow::Owned(name.to_lowercase())
    } else {
        Cow::Borrowed(name)
    }
}

/// The result of packing a price file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PackedTable {
    /// The table as the bytes of a file.
    pub bytes: Vec<u8>,
    /// How many models it has.
    pub models: usize,
    /// Entries that were left out, with the reason.
    pub refused: Vec<(String, EntryError)>,
}

/// Makes a table of a price file in litellm's format. An entry that can't be read is left out and
/// named in the result, so that one entry of a new form does not make all prices unusable.
#[must_use]
pub fn pack(prices: &Map<String, Value>, source: &str) -> PackedTable {
    let mut models: BTreeMap<String, (String, String, Option<u64>)> = BTreeMap::new();
    let mut refused = Vec::new();
    for (name, entry) in prices {
        let mode = entry.get("mode").and_then(Value::as_str);
        // `sample_spec` documents the file's format.
        if name == "sample_spec" || mode.is_some_and(|mode| !MODES.contains(&mode)) {
            continue;
        }
        let plain = |text: &str| !text.contains(['\t', '\n']);
        match entry::tariff(entry) {
            Ok(Some(tariff)) => {
                let provider = entry
                    .as_object()
                    .and_then(entry::provider)
                    .unwrap_or_default();
                if plain(name) && plain(provider) {
                    let window = entry.get("max_input_tokens").and_then(Value::as_u64);
                    let listed = (provider.to_owned(), packed::write(&tariff), window);
                    models.insert(lower(name).into_owned(), listed);
                }
            }
            Ok(None) => {}
            Err(error) => refused.push((name.clone(), error)),
        }
    }
    let mut lines: Vec<&str> = models.values().map(|listed| listed.1.as_str()).collect();
    lines.sort_unstable();
    lines.dedup();
    let mut text = format!("{} {}\n", lines.len(), models.len());
    for line in &lines {
        text.push_str(line);
        text.push('\n');
    }
    for (name, (provider, tariff, window)) in &models {
        let index = lines.partition_point(|line| line < &tariff.as_str());
        let window = window.map_or_else(String::new, |window| format!("\t{window}"));
        let _ = writeln!(text, "{name}\t{provider}\t{index}{window}");
    }
    let source = source.replace('\n', " ");
    let mut bytes = format!("{MAGIC}{FORMAT} {source}\n").into_bytes();
    bytes.extend(lz4_flex::compress_prepend_size(text.as_bytes()));
    PackedTable {
        bytes,
        models: models.len(),
        refused,
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use serde_json::json;

    use super::*;
    use mswea_core::Usage;

    fn packed() -> PackedTable {
        let prices = json!({
            "sample_spec": {"input_cost_per_token": 1},
            "b/Two": {"litellm_provider": "b", "mode": "chat", "input_cost_per_token": 2, "max_input_tokens": 128_000},
            "one": {"input_cost_per_token": 1, "new_field": {"x": [1]}},
            "c/also-two": {"litellm_provider": "c", "mode": "responses", "input_cost_per_token": 2},
            "unpriced": {"mode": "chat"},
            "picture": {"mode": "image_generation", "input_cost_per_token": 1},
            "odd": {"mode": "chat", "input_cost_per_token": []},
            "new-kind": {"mode": "chat", "tiered_pricing": "2027"},
        });
        let Value::Object(prices) = prices else {
            unreachable!()
        };
        pack(&prices, "a\ntest")
    }

    #[test]
    fn what_is_packed_is_found() {
        let packed = packed();
        assert_eq!(packed.models, 3);
        let refused: Vec<_> = packed
            .refused
            .iter()
            .map(|(name, _)| name.as_str())
            .collect();
        assert_eq!(refused, ["odd", "new-kind"]);
        let table = Table::read(&packed.bytes).unwrap();
        assert_eq!(table.source(), "a test");
        assert_eq!(
            table.names().collect::<Vec<_>>(),
            ["b/two", "c/also-two", "one"]
        );
        for (name, expected) in [
            ("one", Some(("one", "", 10.0))),
            ("ONE", Some(("one", "", 10.0))),
            ("b/Two", Some(("b/two", "b", 20.0))),
            ("c/also-two", Some(("c/also-two", "c", 20.0))),
            ("two", None),
            ("", None),
            ("zzz", None),
            ("odd", None),
            ("picture", None),
            ("sample_spec", None),
        ] {
            let usage = Usage {
                input_tokens: 10,
                ..Usage::default()
            };
            let found = table.find(name).map(|listed| {
                let cost = table.tariff(&listed).unwrap().cost(&usage, UNIX_EPOCH);
                (listed.name, listed.provider, cost.unwrap())
            });
            assert_eq!(found, expected, "{name}");
        }
        let window = |name| table.find(name).unwrap().window;
        assert_eq!((window("b/two"), window("one")), (Some(128_000), None));
    }

    #[test]
    fn other_files_are_told_apart() {
        let good = packed().bytes;
        let split = good.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        let with = |body: &str| {
            let mut bytes = good[..split].to_vec();
            bytes.extend(lz4_flex::compress_prepend_size(body.as_bytes()));
            bytes
        };
        let future = TableError::Future { found: "2".into() };
        for (bytes, expected) in [
            (b"".to_vec(), TableError::NoTable),
            (b"{}".to_vec(), TableError::NoTable),
            (b"mswea-prices 1".to_vec(), TableError::NoTable),
            (b"mswea-prices x\n".to_vec(), TableError::NoTable),
            (b"mswea-prices 2 litellm 9\n????".to_vec(), future),
            (b"mswea-prices 1 x\n".to_vec(), TableError::Damaged),
            (
                b"mswea-prices 1 x\n\xff\xff\xff\xff????".to_vec(),
                TableError::Damaged,
            ),
            (good[..good.len() - 3].to_vec(), TableError::Damaged),
            (with("1 1\n1e0\n"), TableError::Damaged),
            (with("1 1\n1e0\nx\ty\t0"), TableError::Damaged),
            (with("18446744073709551615 9\n"), TableError::Damaged),
        ] {
            assert_eq!(Table::read(&bytes).unwrap_err(), expected);
        }
        for body in ["1 1\nx\na\tb\t0\n", "1 1\n1e0\na\tb\t1\n"] {
            let table = Table::read(&with(body)).unwrap();
            let listed = table.find("a").unwrap();
            assert_eq!(table.tariff(&listed), Err(TableError::Damaged), "{body}");
        }
    }
}
