//! Reads instances from a file: JSON lines, a JSON list or object, CSV, or parquet.

use std::path::Path;

use mswea_core::Object;
use serde_json::Value;

use crate::budget::RowBudget;
use crate::error::DatasetError;
use crate::parquet_rows::of_parquet;

/// The largest file that is fetched, or read as parquet.
pub(crate) const LIMIT: u64 = 4 << 30;
/// The largest file of text, which is held in memory beside its rows.
const TEXT: u64 = 2 << 30;

/// The rows of a file, each as its fields.
///
/// # Errors
/// [`DatasetError`] if the file can't be read, is not of one of these formats, or its rows exceed the
/// budget.
pub fn rows(path: &Path, budget: &RowBudget) -> Result<Vec<Object>, DatasetError> {
    let suffix = path.extension().and_then(|it| it.to_str()).unwrap_or("");
    if suffix.eq_ignore_ascii_case("parquet") {
        let file = mswea_files::open(path, LIMIT).map_err(DatasetError::io("read", path))?;
        let rows = of_parquet(file, budget);
        return rows
            .map_err(|reason| DatasetError::Refused(format!("`{}`: {reason}", path.display())));
    }
    let text = mswea_files::read_text(path, TEXT).map_err(DatasetError::io("read", path))?;
    let text = text.trim_start_matches('\u{feff}');
    let found = match suffix.to_ascii_lowercase().as_str() {
        "csv" => of_csv(text, budget),
        "jsonl" | "ndjson" => of_lines(text, budget),
        "json" => of_json(text, budget).or_else(|error| of_lines(text, budget).map_err(|_| error)),
        _ => match text.trim_start().chars().next() {
            Some('[') => of_json(text, budget),
            Some('{') => {
                of_lines(text, budget).or_else(|error| of_json(text, budget).map_err(|_| error))
            }
            None => Ok(Vec::new()),
            _ => Err(
                "it is neither JSON nor JSON lines; a file with commas is named `*.csv`".to_owned(),
            ),
        },
    };
    found.map_err(|reason| DatasetError::Refused(format!("`{}`: {reason}", path.display())))
}

fn of_lines(text: &str, budget: &RowBudget) -> Result<Vec<Object>, String> {
    let lines = text.lines().enumerate();
    lines
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(index, line)| {
            let value = budget
                .json(line)
                .map_err(|error| format!("line {}: it is no JSON: {error}", index + 1))?;
            object(value, || format!("line {}", index + 1))
        })
        .collect()
}

fn of_json(text: &str, budget: &RowBudget) -> Result<Vec<Object>, String> {
    let value = budget
        .json(text)
        .map_err(|error| format!("it is no JSON: {error}"))?;
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

fn of_csv(text: &str, budget: &RowBudget) -> Result<Vec<Object>, String> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let names = reader.headers().map_err(|error| error.to_string())?.clone();
    reader
        .records()
        .map(|record| {
            let record = record.map_err(|error| error.to_string())?;
            let fields = names.iter().zip(record.iter());
            fields
                .map(|(name, value)| {
                    budget.name(name.len())?;
                    budget.value(value.len())?;
                    Ok((name.trim().to_owned(), value.into()))
                })
                .collect()
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
        let rows = rows(&path, &RowBudget::default()).map_err(|error| error.to_string())?;
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
        // As Python writes it.
        for (name, text) in [
            ("a.jsonl", "\u{feff}{\"a\": NaN}\n{\"a\": -Infinity}\n"),
            ("a.json", "\u{feff}[{\"a\": NaN}, {\"a\": Infinity}]"),
            ("a", "{\"a\": NaN}\n{\"a\": Infinity}"),
        ] {
            let expected = vec![r#"{"a":null}"#.to_owned(); 2];
            assert_eq!(read(name, text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_nested_deeply_is_an_error_and_what_is_large_is_counted() {
        let deep = 100_000;
        let lists = "[".repeat(deep) + &"]".repeat(deep);
        let maps = "{\"a\":".repeat(deep) + "1" + &"}".repeat(deep);
        for text in [&lists, &maps, &lists[..deep]] {
            for name in ["a.json", "a.jsonl", "a"] {
                let error = read(name, text).unwrap_err();
                assert!(error.contains("no JSON"), "{name}: {error}");
            }
            let inside = format!("{{\"id\":{text}}}");
            let error = read("a.jsonl", &inside).unwrap_err();
            assert!(error.contains("recursion limit"), "{error}");
        }
        // Empty fields take more memory than their text.
        let few = RowBudget::of(1 << 20);
        for row in ["a,b,c,d\n", "a,b,c,d\n,,,\n"] {
            of_csv(row, &few).unwrap();
        }
        let error = of_csv(&format!("a,b,c,d\n{}", ",,,\n".repeat(10_000)), &few).unwrap_err();
        assert!(error.contains("more than 1 MiB of memory"), "{error}");
        for text in [
            format!("[{}]", "{},".repeat(50_000)),
            "{\"a\":[[],[]]}\n".repeat(9_000),
        ] {
            let error = of_json(&text, &few).or_else(|_| of_lines(&text, &few));
            assert!(error.unwrap_err().contains("memory"));
        }
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
