//! Exports the runs of a batch as training data: the messages of each, with marks on those that the
//! model wrote.

use std::collections::HashSet;
use std::io::Write;
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::error::BatchError;
use crate::folder::{FolderState, trajectory_name};
use crate::outcome::BatchResult;

/// The largest trajectory that is read.
const LIMIT: u64 = 1 << 31;

/// The keys of a message that are kept: those that a provider's API takes.
const KEPT: &[&str] = &["role", "content", "tool_calls", "tool_call_id", "name"];

/// How many runs were written, and how many were left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrainingExport {
    /// Lines.
    pub written: usize,
    /// Results whose trajectory is missing, can't be read, or is that of another run.
    pub without_trajectory: usize,
}

/// Writes a JSON line for each result that `is_wanted`. `clean` removes secrets from it, and gets
/// the config of the run.
///
/// # Errors
/// [`BatchError`] if the lines can't be written.
pub fn export_training(
    dir: &Path,
    state: &FolderState,
    resolved: Option<&HashSet<String>>,
    is_wanted: impl Fn(&BatchResult) -> bool,
    mut clean: impl FnMut(&mut Value, &Value),
    out: &mut dyn Write,
) -> Result<TrainingExport, BatchError> {
    let mut export = TrainingExport::default();
    for result in state.results.iter().filter(|it| is_wanted(it)) {
        let id = &result.instance_id;
        let path = dir.join(id).join(trajectory_name(id));
        let text = mswea_files::read(&path, LIMIT).ok();
        let trajectory: Option<Value> = text.and_then(|text| serde_json::from_slice(&text).ok());
        let is_of_run = |it: &Value| it["info"]["mswea"]["run_id"] == result.run_id.as_str();
        // A trajectory that is incomplete or of another run is not exported.
        let Some(trajectory) = trajectory.filter(is_of_run) else {
            export.without_trajectory += 1;
            continue;
        };
        let mut line = run(result, &state.model, &trajectory);
        if let Some(resolved) = resolved {
            line["resolved"] = resolved.contains(id).into();
        }
        clean(&mut line, &trajectory["info"]["config"]);
        writeln!(out, "{line}").map_err(BatchError::io("write to", Path::new("-")))?;
        export.written += 1;
    }
    Ok(export)
}

fn run(result: &BatchResult, model: &str, trajectory: &Value) -> Value {
    let messages = trajectory["messages"].as_array().into_iter().flatten();
    // The last message says how the run ended, and was never sent.
    let messages = messages.filter(|message| message["role"] != "exit");
    let (mut kept, mut mask, mut usage) = (Vec::new(), Vec::new(), Vec::new());
    for message in messages {
        let is_model = message["role"] == "assistant";
        let fields = KEPT.iter().filter_map(|key| {
            let value = message.get(*key).filter(|it| !it.is_null())?;
            Some(((*key).to_owned(), value.clone()))
        });
        kept.push(Value::Object(fields.collect::<Map<_, _>>()));
        mask.push(u8::from(is_model));
        usage.push(match is_model {
            true => message["extra"]["mswea"]["usage"].clone(),
            false => Value::Null,
        });
    }
    json!({
        "instance_id": result.instance_id,
        "run_id": result.run_id,
        "model": model,
        "exit_status": result.exit_status,
        "submission": result.submission,
        "cost": result.cost,
        "steps": result.steps,
        "seconds": result.seconds,
        "messages": kept,
        "mask": mask,
        "usage": usage,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_model_wrote_is_marked() {
        let trajectory = json!({"messages": [
            {"role": "system", "content": "s"},
            {"role": "user", "content": "t", "extra": {"x": 1}},
            {"role": "assistant", "content": "", "tool_calls": [{"id": "a"}],
             "extra": {"mswea": {"usage": {"input_tokens": 3}}}},
            {"role": "tool", "content": "out", "tool_call_id": "a"},
            {"role": "exit", "content": "diff"},
        ]});
        let result = BatchResult {
            instance_id: "i".to_owned(),
            ..BatchResult::default()
        };
        let line = run(&result, "m", &trajectory);
        assert_eq!(line["mask"], json!([0, 0, 1, 0]));
        assert_eq!(
            line["usage"],
            json!([null, null, {"input_tokens": 3}, null])
        );
        assert_eq!(line["messages"][1], json!({"role": "user", "content": "t"}));
        assert_eq!(
            line["messages"][2],
            json!({"role": "assistant", "content": "", "tool_calls": [{"id": "a"}]})
        );
    }
}
