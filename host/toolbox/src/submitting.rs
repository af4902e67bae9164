//! The tools with which the model ends a run: `submit`, in three forms, and `exit_forfeit`; and the
//! state command that writes the changes so far.

use serde_json::Value;

use crate::answer::{TextParts, ToolRefusal, ToolResult};
use crate::call::ToolInput;
use crate::git::WorkTree;
use crate::places;
use crate::registry::{ObjectFile, Values, plain};
use crate::storage;

/// A mark that the host looks for in the output of a tool. It is put together from its two ends, so
/// that printing the source of this program does not end a run.
pub fn mark(end: &str, begin: &str) -> String {
    [begin, end].concat()
}

/// The mark on which the host takes the submission.
fn submitted() -> String {
    mark("_SUBMISSION>>", "<<SWE_AGENT")
}

/// Writes the patch; returns it and a note if there is no repository.
fn write_patch(values: &Values, take_back: bool) -> Result<(Vec<u8>, Option<String>), ToolRefusal> {
    let (patch, note) = match WorkTree::of(values) {
        Some(tree) => {
            if take_back {
                tree.take_back(&places::test_patch())?;
            }
            (tree.stage()?, None)
        }
        None => {
            let note = "(There is no git repository here, so the submission is empty.)";
            (Vec::new(), Some(note.to_owned()))
        }
    };
    let path = places::model_patch();
    storage::replace(&path, &patch).map_err(|trouble| trouble.about(&path))?;
    Ok((patch, note))
}

/// `submit`: writes the patch and ends the run.
pub fn submit(_: &ToolInput) -> ToolResult {
    let (_, note) = write_patch(&Values::read()?, true)?;
    let mut text = TextParts::default();
    if let Some(note) = note {
        text.line(note);
    }
    text.line(submitted());
    Ok(text.finish())
}

/// `submit [-f]` with reviews: each call shows the next message of `SUBMIT_REVIEW_MESSAGES`; the call after
/// the last one submits, and so does one with `-f`.
pub fn submit_with_reviews(input: &ToolInput) -> ToolResult {
    let force = match input.bytes()[..] {
        [] => false,
        [b"-f" | b"--force"] => true,
        _ => return Err(ToolRefusal::new(2, "Usage: submit")),
    };
    let values = Values::read()?;
    let messages = messages(values.get("SUBMIT_REVIEW_MESSAGES"))?;
    let (patch, note) = write_patch(&values, false)?;
    let mut stage = 0;
    ObjectFile::registry().change(|registry| {
        let before = registry.get("SUBMIT_STAGE").map(plain).unwrap_or_default();
        stage = before.trim().parse().unwrap_or(0);
        if !force && stage < messages.len() {
            registry.insert("SUBMIT_STAGE".to_owned(), (stage + 1).into());
        }
    })?;
    if let Some(message) = messages.get(stage).filter(|_| !force) {
        let task = values.text("PROBLEM_STATEMENT").unwrap_or_default();
        return Ok(filled(message, &patch, task.as_bytes()));
    }
    let mut text = TextParts::default();
    if let Some(note) = note {
        text.line(note);
    }
    text.line(submitted()).line(patch).line(submitted());
    Ok(text.finish())
}

/// The messages: a list of texts, or JSON of one (as a variable of the environment), or one text.
fn messages(value: Option<Value>) -> Result<Vec<String>, ToolRefusal> {
    let list = match value {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::String(text)) if text.is_empty() => return Ok(Vec::new()),
        Some(Value::String(text)) => match serde_json::from_str(&text) {
            Ok(Value::Array(list)) => list,
            _ => vec![Value::String(text)],
        },
        Some(Value::Array(list)) => list,
        Some(_) => {
            return Err(ToolRefusal::one(
                "Error: SUBMIT_REVIEW_MESSAGES in the registry must be a list of texts",
            ));
        }
    };
    Ok(list.iter().map(plain).collect())
}

/// A message with its two placeholders replaced, in a single pass.
fn filled(message: &str, patch: &[u8], task: &[u8]) -> Vec<u8> {
    const PLACES: [&str; 2] = ["{{diff}}", "{{problem_statement}}"];
    let mut made = Vec::with_capacity(message.len() + patch.len());
    let mut rest = message;
    while let Some((at, which)) = PLACES
        .iter()
        .enumerate()
        .filter_map(|(which, place)| Some((rest.find(place)?, which)))
        .min()
    {
        made.extend_from_slice(&rest.as_bytes()[..at]);
        made.extend_from_slice([patch, task][which]);
        rest = &rest[at + PLACES[which].len()..];
    }
    made.extend_from_slice(rest.as_bytes());
    made
}

/// `submit FLAG`: the submission is the flag of a challenge.
pub fn submit_flag(input: &ToolInput) -> ToolResult {
    let flag = input.bytes().join(&b' ');
    if flag.is_empty() {
        return Err(ToolRefusal::new(2, "Usage: submit '<flag>'"));
    }
    let path = places::model_patch();
    storage::replace(&path, &flag).map_err(|trouble| trouble.about(&path))?;
    Ok(submitted().into_bytes())
}

/// `exit_forfeit`: ends the run without a submission.
pub fn forfeit(_: &ToolInput) -> ToolResult {
    Ok(mark("-EXIT-FORFEIT###", "###SWE-AGENT").into_bytes())
}

/// `_state_diff_state`: writes the changes so far into the state. It stages nothing; after an error
/// the text is empty.
pub fn state_of_changes(_: &ToolInput) -> ToolResult {
    let tree = WorkTree::of(&Values::read()?);
    let patch = tree
        .and_then(|tree| tree.changes().ok())
        .unwrap_or_default();
    let patch = String::from_utf8_lossy(&patch).trim().to_owned();
    ObjectFile::state().change(|state| {
        state.insert("diff".to_owned(), patch.into());
    })?;
    Ok(Vec::new())
}

#[cfg(test)]
mod tests {
    use super::{filled, messages};
    use serde_json::json;

    #[test]
    fn messages_are_filled_once() {
        let made = filled(
            "a {{diff}} b {{problem_statement}} {{diff}}",
            b"{{problem_statement}}",
            b"T",
        );
        assert_eq!(made, b"a {{problem_statement}} b T {{problem_statement}}");
        assert_eq!(messages(Some(json!("[\"a\", \"b\"]"))).unwrap(), ["a", "b"]);
        assert_eq!(messages(Some(json!("a"))).unwrap(), ["a"]);
        assert!(messages(Some(json!({}))).is_err());
        assert_eq!(messages(None).unwrap().len(), 0);
    }
}
