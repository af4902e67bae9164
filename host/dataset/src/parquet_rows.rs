//! Reads the rows of a parquet file.

use std::fs::File;

use mswea_core::Object;
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use serde_json::Value;

/// The rows of `file`, each as its fields; null where a field has no value.
pub(crate) fn of_parquet(file: File) -> Result<Vec<Object>, String> {
    let reader = SerializedFileReader::new(file).map_err(|error| said(&error))?;
    let rows = reader.get_row_iter(None).map_err(|error| said(&error))?;
    rows.map(
        |row| match row.map_err(|error| said(&error))?.to_json_value() {
            Value::Object(fields) => Ok(fields),
            other => Err(format!("a row is no object but `{other}`")),
        },
    )
    .collect()
}

fn said(error: &ParquetError) -> String {
    let text = error.to_string();
    match text.contains("Disabled feature at compile time") {
        true => format!(
            "this version reads parquet that is uncompressed or compressed with snappy, and not this one ({text}): write it again, for example with Python's `pandas.read_parquet(FILE).to_parquet(FILE, compression='snappy')`"
        ),
        false => format!("it is no parquet file that can be read: {text}"),
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
        let rows = of_parquet(File::open(example()).unwrap()).unwrap();
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
            let error = of_parquet(File::open(&path).unwrap()).unwrap_err();
            assert!(error.contains("no parquet file"), "{len}: {error}");
        }
    }
}
