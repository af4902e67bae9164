//! Reads instances from a file: JSON lines, a JSON list or object, CSV, or parquet.

use std::path::Path;

use mswea_core::Object;
use serde_json::Value;

use crate::error::DatasetError;
use crate::parquet_rows::of_parquet;

/// The largest file that is read.
pub(crate) const LIMIT: u64 = 4 << 30;

/// The rows of a file, each as its fields.
///
/// # Errors
/// [`DatasetError`] if the file can't be read or is not of one of these formats.
pub fn rows(path: &Path) -> Result<Vec<Object>, DatasetError> {
    let suffix = path.extension().and_then(|it| it.to_str()).unwrap_or("");
    if suffix.eq_ignore_ascii_case("parquet") {
        let file = mswea_files::open(path, LIMIT).map_err(DatasetError::io("read", path))?;
        let rows = of_parquet(file, LIMIT);
        return rows
            .map_err(|reason| DatasetError::Refused(format!("`{}`: {reason}", path.display())));
    }
    let text = mswea_files::read_text(path, LIMIT).map_err(DatasetError::io("read", path))?;
    let text = text.trim_start_matches('\u{feff}');
    let found = match suffix.to_ascii_lowercase().as_str() {
        "csv" => of_csv(text),
        "jsonl" | "ndjson" => of_lines(text),
        "json" => of_json(text).or_else(|error| of_lines(text).map_err(|_| error)),
        _ => match text.trim_start().chars().next() {
            Some('[') => of_json(text),
            Some('{') => of_lines(text).or_else(|error| of_json(text).map_err(|_| error)),
            None => Ok(Vec::new()),
            _ => Err(
                "it is neither JSON nor JSON lines; a file with commas is named `*.csv`".to_owned(),
            ),
        },
    };
    found.map_err(|reason| DatasetError::Refused(format!("`{}`: {reason}", path.display())))
}

fn of_lines(text: &str) -> Result<Vec<Object>, String> {
    let lines = text.lines().enumerate();
    lines
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(index, line)| {
            let value = serde_json::from_str(line)
                .map_err(|error| format!("line {}: it is no JSON: {error}", index + 1))?;
            object(value, || format!("line {}", index + 1))
        })
        .collect()
}

fn of_json(text: &str) -> Result<Vec<Object>, String> {
    let value: Value =
        serde_json::from_str(text).map_err(|error| format!("it is no JSON: {error}"))?;
    match value {
        Value::Array(items) => items
            .into_iter()
            .enumerate()
            .map(|(index, item)| object(item, || format!("item {}", index + 1)))
            .collect(),
        // An object with the instances by their ids.
        Value::Object(items) if items.values().all(Value::is_object) => items
            .into_iter()
            .map(|(id, item)| {
                let mut item = object(item, || format!("`{id}`"))?;
                item.entry("instance_id").or_insert_with(|| id.into());
                Ok(item)
            })
            .collect(),
        _ => Err("it is neither a list of objects nor an object of objects".to_owned()),
    }
}

fn object(value: Value, place: impl Fn() -> String) -> Result<Object, String> {
    match value {
        Value::Object(object) => Ok(object),
        other => Err(format!(
            "{}: an instance is an object, not `{}`",
            place(),
            other.to_string().chars().take(40).collect::<String>()
        )),
    }
}

fn of_csv(text: &str) -> Result<Vec<Object>, String> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let names = reader.headers().map_err(|error| error.to_string())?.clone();
    reader
        .records()
        .map(|record| {
            let record = record.map_err(|error| error.to_string())?;
            let fields = names.iter().zip(record.iter());
            Ok(fields
                .map(|(name, value)| (name.trim().to_owned(), value.into()))
                .collect())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, text: &str) -> Result<Vec<String>, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        let rows = rows(&path).map_err(|error| error.to_string())?;
        let rows = rows.into_iter().map(|row| Value::Object(row).to_string());
        Ok(rows.collect())
    }

    #[test]
    fn formats() {
        let two = Ok(vec![
            r#"{"instance_id":"a","n":"1"}"#.to_owned(),
            r#"{"instance_id":"b","n":"x, \"y\"\nz"}"#.to_owned(),
        ]);
        let lines = "{\"instance_id\":\"a\",\"n\":\"1\"}\n\n{\"instance_id\":\"b\",\"n\":\"x, \\\"y\\\"\\nz\"}\n";
        let list = format!("[{}]", lines.trim().replace("\n\n", ","));
        for (name, text) in [
            ("a.jsonl", lines),
            ("a.json", &list),
            ("a.json", lines),
            ("a", lines),
            ("a.txt", &list),
            ("a.csv", "instance_id,n\r\na,1\r\nb,\"x, \"\"y\"\"\nz\"\r\n"),
        ] {
            assert_eq!(read(name, text), two, "{name}: {text}");
        }
        assert_eq!(
            read("a.json", r#"{"a": {"task": "t"}}"#),
            Ok(vec![r#"{"task":"t","instance_id":"a"}"#.to_owned()])
        );
        assert_eq!(read("a.jsonl", ""), Ok(vec![]));
    }

    #[test]
    fn wrong_files() {
        for (name, text, reason) in [
            ("a.jsonl", "{}\n{\n", "line 2: it is no JSON"),
            ("a.jsonl", "{}\n3\n", "line 2: an instance is an object"),
            ("a.json", "3", "neither a list"),
            ("a.json", "[1]", "item 1: an instance is an object"),
            ("a.csv", "a,b\n1\n", "found record with 1 field"),
            ("a.parquet", "PAR1", "no parquet file"),
            ("a", "words", "neither JSON"),
        ] {
            let error = read(name, text).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
