//! Reads the file of instances of `run-batch`: JSON lines, or a list in JSON or YAML. Each item
//! gets its place in the file.

use std::path::Path;

use serde_json::Value;

use crate::fault::{SweAgentError, SweAgentProblem};
use crate::given_at::GivenAt;
use crate::keys::shortened;
use crate::tree::{GivenContent, GivenTree, read_any_yaml};

/// The largest file that is read.
const LIMIT: u64 = 1 << 30;

/// The items of a file of instances, each with its place.
///
/// # Errors
/// [`SweAgentError`] if the file can't be read, or with all of its invalid lines.
pub fn read_items(path: &Path) -> Result<Vec<GivenTree>, SweAgentError> {
    let name = path.display().to_string();
    let text = mswea_files::read_text(path, LIMIT).map_err(|error| {
        SweAgentProblem::new(format!("can't read the instances `{name}`: {error}"))
            .hint("`instances.path` names a file: `*.json`, `*.jsonl` or `*.yaml`")
    })?;
    items(&name, &text)
}

/// The items of a file, each with its place.
pub(crate) fn items(name: &str, text: &str) -> Result<Vec<GivenTree>, SweAgentError> {
    let text = text.trim_start_matches('\u{feff}');
    let place = |line: usize, column: usize| GivenAt::File {
        path: name.to_owned(),
        line,
        column,
    };
    let suffix = Path::new(name).extension().and_then(|it| it.to_str());
    match suffix {
        Some("jsonl") => {
            let mut items = Vec::new();
            let mut problems = Vec::new();
            for (index, line) in text.lines().enumerate() {
                if line.trim().is_empty() {
                    continue;
                }
                match mswea_text::read_json(line.as_bytes()) {
                    Ok(value) => items.push(GivenTree::of_value(value, &place(index + 1, 1))),
                    Err(error) => {
                        let at = place(index + 1, error.column().max(1));
                        let message = format!("this line is no JSON: {}", said(&error));
                        let hint = "each line is one instance, a whole JSON object";
                        problems.push(SweAgentProblem::at(&at, message).hint(hint));
                    }
                }
            }
            match problems.is_empty() {
                true => Ok(items),
                false => Err(SweAgentError(problems)),
            }
        }
        Some("json") => {
            let value: Value = mswea_text::read_json(text.as_bytes()).map_err(|error| {
                let at = place(error.line().max(1), error.column().max(1));
                let message = format!("the file is no JSON: {}", said(&error));
                let hint = "it is a list of instances; a file with one instance per line is named `*.jsonl`";
                SweAgentProblem::at(&at, message).hint(hint)
            })?;
            let Value::Array(values) = value else {
                return Err(no_list(&place(1, 1), &value));
            };
            let lines = lines_of_items(text).into_iter().chain(std::iter::repeat(1));
            let items = values.into_iter().zip(lines);
            Ok(items
                .map(|(value, line)| GivenTree::of_value(value, &place(line, 1)))
                .collect())
        }
        Some("yaml" | "yml") => match read_any_yaml(name, text)? {
            None => Ok(Vec::new()),
            Some(GivenTree {
                content: GivenContent::List(items),
                ..
            }) => Ok(items),
            Some(other) => Err(no_list(&other.at, &other.value())),
        },
        _ => {
            let problem = SweAgentProblem::new(format!(
                "the name of the file of instances `{name}` does not say what it is"
            ));
            Err(problem
                .hint("name it `*.json`, `*.jsonl` or `*.yaml`")
                .into())
        }
    }
}

/// The message of a JSON error, without the line number, which counts from the item's beginning.
fn said(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let end = text.rfind(" at line ").unwrap_or(text.len());
    text[..end].to_owned()
}

fn no_list(at: &GivenAt, value: &Value) -> SweAgentError {
    let message = format!(
        "a file of instances holds a list, not `{}`",
        shortened(value)
    );
    let hint = "put each instance into the list, as a map with `instance_id`, `problem_statement` and others";
    SweAgentProblem::at(at, message).hint(hint).into()
}

/// The line of each item of a JSON list. The text is JSON.
fn lines_of_items(text: &str) -> Vec<usize> {
    let mut lines = Vec::new();
    let (mut line, mut depth) = (1, 0usize);
    let (mut in_text, mut is_escaped, mut begins) = (false, false, false);
    for byte in text.bytes() {
        if byte == b'\n' {
            line += 1;
        }
        if in_text {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' => is_escaped = true,
                b'"' => in_text = false,
                _ => {}
            }
            continue;
        }
        if begins && depth == 1 && !byte.is_ascii_whitespace() && byte != b']' {
            lines.push(line);
            begins = false;
        }
        match byte {
            b'"' => in_text = true,
            b'[' | b'{' => {
                depth += 1;
                begins |= depth == 1;
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            b',' if depth == 1 => begins = true,
            _ => {}
        }
    }
    lines
}
