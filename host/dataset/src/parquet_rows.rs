//! Reads the rows of a parquet file, in a process of its own.
//!
//! The crate that reads parquet recurses with the file's nesting, makes lists as long as the file
//! says, and expands a value each time that the file refers to it: a file of some KB overflows its
//! stack or takes all memory, which ends a program. The process, this program with a hidden subcommand,
//! has limits of memory and time; its rows come as lines of JSON and are counted.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, BufWriter, Read as _, Write};
use std::os::fd::AsFd as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use mswea_core::Object;
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use rustix::process::{Resource, Rlimit, Signal, setrlimit};
use serde_json::Value;

use crate::budget::RowBudget;

/// The hidden subcommand of the program.
pub const PARQUET_SUBCOMMAND: &str = "__parquet";

/// The memory of the process, which holds a row and the parts of its columns at a time.
const MEMORY: u64 = 2 << 30;
/// The processor time of the process, in seconds: reading a file of some GB takes a minute.
const SECONDS: u64 = 600;
/// The longest line that is read: a row is never that long.
const LINE: u64 = 1 << 30;

/// What a line of the process begins with.
const ROW: u8 = b'+';
const FAILED: u8 = b'-';
const DONE: u8 = b'.';

/// Whether the running program has the subcommand.
static KNOWN: AtomicBool = AtomicBool::new(false);

/// Declares that this process's own program has the subcommand. Without this call parquet is read in this
/// process, which only bounds what the rows take.
pub fn parquet_in_processes() {
    KNOWN.store(true, Ordering::Relaxed);
}

/// The rows of `file`, each as its fields; null where a field has no value.
pub(crate) fn of_parquet(file: File, budget: &RowBudget) -> Result<Vec<Object>, String> {
    if !KNOWN.load(Ordering::Relaxed) {
        let mut rows = Vec::new();
        each(file, |row| {
            let row = budget.json(&row).map_err(|error| error.to_string())?;
            rows.push(object(row)?);
            Ok(())
        })?;
        return Ok(rows);
    }
    let mut child = Command::new("/proc/self/exe")
        .arg(PARQUET_SUBCOMMAND)
        .env_clear()
        // The limit of memory counts what is reserved, unless mimalloc commits it only when it is used.
        .env("MIMALLOC_ARENA_EAGER_COMMIT", "0")
        .stdin(file)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| {
            format!("the process that reads parquet can't be started ({error}): mount `/proc`, and allow another process")
        })?;
    let rows = received(&mut child, budget);
    // It may be about to write more, and has nothing to lose.
    let _ = child.kill();
    let _ = child.wait();
    rows
}

/// The rows that the process writes.
fn received(child: &mut Child, budget: &RowBudget) -> Result<Vec<Object>, String> {
    let mut rows = Vec::new();
    let mut lines = BufReader::new(child.stdout.take().ok_or("invariant: it is a pipe")?);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = lines.by_ref().take(LINE).read_until(b'\n', &mut line);
        read.map_err(|error| format!("its reader can't be read: {error}"))?;
        let text = String::from_utf8_lossy(line.get(1..).unwrap_or_default());
        match line.first() {
            Some(&ROW) => {
                let row = budget.json(text.trim_end());
                // The line and column are those of the process's own text.
                let row = row.map_err(|error| match error.is_data() {
                    true => about_data(&error),
                    false => "a row has more than 1 GiB".to_owned(),
                })?;
                rows.push(object(row)?);
            }
            Some(&FAILED) => return Err(text.trim_end().to_owned()),
            Some(&DONE) => return Ok(rows),
            _ => {
                let mut said = String::new();
                if let Some(errors) = &mut child.stderr {
                    let _ = errors.take(4 << 10).read_to_string(&mut said);
                }
                return Err(match said.contains("memory allocation of") {
                    true => format!("reading it takes more than {} MiB of memory", MEMORY >> 20),
                    false => "it is no parquet file that can be read: its reader failed, because it is damaged, or its groups are nested too deeply".to_owned(),
                });
            }
        }
    }
}

fn about_data(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or(&text).to_owned()
}

fn object(row: Value) -> Result<Object, String> {
    match row {
        Value::Object(fields) => Ok(fields),
        other => Err(format!("a row is no object but `{other}`")),
    }
}

/// The body of the subcommand: the file on standard input, the answer on standard output.
pub fn parquet_process() -> ExitCode {
    match answer() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn answer() -> io::Result<()> {
    // When the process that waits for the result has ended, this one ends too.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    for (resource, limit) in [
        (Resource::Core, 0),
        (Resource::Cpu, SECONDS),
        (Resource::Data, MEMORY),
    ] {
        let limit = Rlimit {
            current: Some(limit),
            maximum: Some(limit),
        };
        setrlimit(resource, limit)?;
    }
    std::panic::set_hook(Box::new(|_| {}));
    let file = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut out = BufWriter::new(io::stdout().lock());
    let mut line = |sort: u8, text: &str| {
        out.write_all(&[sort])?;
        out.write_all(text.as_bytes())?;
        out.write_all(b"\n")?;
        match sort {
            ROW => Ok(()),
            _ => out.flush(),
        }
    };
    let read = each(file, |row| line(ROW, &row).map_err(|it| it.to_string()));
    match read {
        Ok(()) => line(DONE, ""),
        Err(text) => line(FAILED, &text.replace('\n', " ")),
    }
}

/// Calls `take` with each row, as JSON.
fn each(file: File, take: impl FnMut(String) -> Result<(), String>) -> Result<(), String> {
    // The crate checks some values of a file with assertions, which panic.
    catch_unwind(AssertUnwindSafe(|| read(file, take))).unwrap_or_else(|_| {
        Err(
            "it is no parquet file that can be read: it is damaged, and the reader failed"
                .to_owned(),
        )
    })
}

fn read(file: File, mut take: impl FnMut(String) -> Result<(), String>) -> Result<(), String> {
    let reader = SerializedFileReader::new(file).map_err(|error| said(&error))?;
    let mut rows = reader.get_row_iter(None).map_err(|error| said(&error))?;
    rows.try_for_each(|row| {
        let row = row.map_err(|error| said(&error))?;
        take(row.to_json_value().to_string())
    })
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

    fn of(path: &std::path::Path) -> Result<Vec<Object>, String> {
        of_parquet(File::open(path).unwrap(), &RowBudget::default())
    }

    #[test]
    fn rows_have_the_types_of_their_columns() {
        let rows = of(&example()).unwrap();
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
            let error = of(&path).unwrap_err();
            assert!(error.contains("no parquet file"), "{len}: {error}");
        }
    }

    #[test]
    fn rows_that_take_too_much_are_refused() {
        let open = || File::open(example()).unwrap();
        let rows = of_parquet(open(), &RowBudget::of(4096)).unwrap();
        assert_eq!(rows.len(), 2);
        let error = of_parquet(open(), &RowBudget::of(600)).unwrap_err();
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
                let read = catch_unwind(|| of(&path).map(|it| it.len()));
                assert!(read.is_ok(), "byte {at} as {value}");
            }
        }
    }
}
