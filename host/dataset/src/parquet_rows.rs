//! Reads the rows of a parquet file.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};

use mswea_core::Object;
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use serde_json::Value;

/// The approximate number of bytes that a value takes beside its text.
const VALUE: u64 = 64;

/// The rows of `file`, each as its fields; null where a field has no value. `most`: the approximate
/// limit of the memory that they take, because a small file can repeat the same value any number of
/// times.
pub(crate) fn of_parquet(file: File, most: u64) -> Result<Vec<Object>, String> {
    // The crate checks some values of a file with assertions, which panic.
    catch_unwind(AssertUnwindSafe(|| read(file, most))).unwrap_or_else(|_| {
        Err(
            "it is no parquet file that can be read: it is damaged, and the reader failed"
                .to_owned(),
        )
    })
}

fn read(file: File, most: u64) -> Result<Vec<Object>, String> {
    let reader = SerializedFileReader::new(file).map_err(|error| said(&error))?;
    let rows = reader.get_row_iter(None).map_err(|error| said(&error))?;
    let mut bytes: u64 = 0;
    rows.map(|row| {
        let row = row.map_err(|error| said(&error))?.to_json_value();
        bytes = bytes.saturating_add(size(&row));
        if bytes > most {
            return Err(format!("its rows take more than {} MiB", most >> 20));
        }
        match row {
            Value::Object(fields) => Ok(fields),
            other => Err(format!("a row is no object but `{other}`")),
        }
    })
    .collect()
}

fn size(value: &Value) -> u64 {
    VALUE
        + match value {
            Value::String(text) => text.len() as u64,
            Value::Array(items) => items.iter().map(size).sum(),
            Value::Object(fields) => fields
                .iter()
                .map(|(name, it)| name.len() as u64 + size(it))
                .sum(),
            _ => 0,
        }
}

fn said(error: &ParquetError) -> String {
    let text = error.to_string();
    match text.split_once("Disabled feature at compile time: ") {
        Some((_, codec)) => format!(
            "it is compressed with {}, and this version reads parquet that is uncompressed or compressed with snappy: write it again, for example with Python's `pandas.read_parquet(FILE).to_parquet(FILE, compression='snappy')`",
            codec.replace("flate2", "gzip")
        ),
        None => format!("it is no parquet file that can be read: {text}"),
    }
}

/// The file of a test.
#[cfg(test)]
pub(crate) fn example() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/two_rows.parquet")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_the_types_of_their_columns() {
        let rows = of_parquet(File::open(example()).unwrap(), 1 << 30).unwrap();
        let rows: Vec<Value> = rows.into_iter().map(Value::Object).collect();
        assert_eq!(
            serde_json::to_value(rows).unwrap(),
            serde_json::json!([
                {"instance_id": "a__b-1", "problem_statement": "Ä\n", "n": 1, "image_name": null, "tests": ["t1", "t2"], "nested": {"x": 1.5}},
                {"instance_id": "a__b-2", "problem_statement": "two", "n": -2, "image_name": "img", "tests": [], "nested": {"x": null}},
            ])
        );
    }

    #[test]
    fn what_is_cut_off_is_an_error() {
        let whole = std::fs::read(example()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        for len in [0, 4, whole.len() / 2, whole.len() - 1] {
            let path = folder.path().join("cut.parquet");
            std::fs::write(&path, &whole[..len]).unwrap();
            let error = of_parquet(File::open(&path).unwrap(), 1 << 30).unwrap_err();
            assert!(error.contains("no parquet file"), "{len}: {error}");
        }
    }

    #[test]
    fn rows_that_take_too_much_are_refused() {
        let open = || File::open(example()).unwrap();
        assert_eq!(read(open(), 4096).unwrap().len(), 2);
        let error = read(open(), 600).unwrap_err();
        assert!(error.contains("its rows take more than"), "{error}");
    }

    #[test]
    fn what_is_damaged_is_an_error_or_other_rows() {
        let whole = std::fs::read(example()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("damaged.parquet");
        for at in (2..whole.len()).step_by(5) {
            for value in [0, 0xff] {
                let mut damaged = whole.clone();
                damaged[at] = value;
                std::fs::write(&path, &damaged).unwrap();
                let file = File::open(&path).unwrap();
                let read = catch_unwind(|| of_parquet(file, 1 << 30).map(|it| it.len()));
                assert!(read.is_ok(), "byte {at} as {value}");
            }
        }
    }
}
