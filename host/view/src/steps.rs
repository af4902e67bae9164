//! Steps in the form for the page: long texts are cut, secrets blanked, escape sequences removed.

pub(crate) use mswea_export::readable;
use mswea_export::{ConversationStep, SecretValues, ShownResult, embedded};
use mswea_text::harmless;
use serde_json::{Value, json};

/// The longest text that is not cut; the page fetches the whole text on demand.
const LONGEST: usize = 16_000;
/// The length of the beginning and of the end that are sent of a longer text.
const HEAD: usize = 6_000;
const TAIL: usize = 4_000;
/// The limit of the length of a secret: as much is examined beyond a cut, so that no secret is cut
/// in two.
pub(crate) const MARGIN: usize = 8_000;
/// Longer JSON is shown without indentation.
const INDENTED: usize = 256 << 10;
/// The largest image that is sent.
const IMAGE: usize = 8 << 20;

/// A step.
pub(crate) fn step(index: usize, step: &ConversationStep, secrets: &SecretValues) -> Value {
    let calls = step.calls.iter().map(|call| {
        let text = call_text(&call.arguments);
        json!({ "id": call.id, "name": harmless(&call.name), "text": shown(&text, secrets) })
    });
    json!({
        "step": index,
        "source": step.source.word(),
        "reply": step.is_reply,
        "asked": step.asked,
        "pauses": step.pauses,
        "view": step.view,
        "time": step.time,
        "model": step.model,
        "text": shown(&step.text, secrets),
        "reasoning": shown(&step.reasoning, secrets),
        "images": images(&step.images, secrets),
        "calls": calls.collect::<Vec<_>>(),
        "shown": step.shown.iter().map(|it| result(it, secrets)).collect::<Vec<_>>(),
        "usage": step.usage,
        "cost": step.cost,
        "finish": step.finish_reason,
        "rejected": step.rejected,
    })
}

fn result(it: &ShownResult, secrets: &SecretValues) -> Value {
    json!({
        "call": it.call,
        "text": shown(&readable(&it.text), secrets),
        "images": images(&it.images, secrets),
        "returncode": it.returncode,
        "exception": it.exception.as_ref().map(|it| shown(it, secrets)),
        "seconds": it.seconds,
        "unseen": it.is_unseen,
    })
}

/// Images whose bytes are in the record, and the addresses of others, which are never fetched.
pub(crate) fn images(all: &[String], secrets: &SecretValues) -> Value {
    let each = all.iter().map(|address| match embedded(address) {
        Some(_) if address.len() <= IMAGE => json!({ "data": address }),
        Some(kind) => json!({ "named": format!("{kind}, {} bytes", address.len()) }),
        None => json!({ "named": shown(address, secrets) }),
    });
    each.collect()
}

/// The arguments of a call as text: a command unchanged, other arguments as JSON.
pub(crate) fn call_text(arguments: &Value) -> String {
    match arguments {
        Value::Object(keys) => match keys.get("command") {
            Some(Value::String(command)) if keys.len() == 1 => command.clone(),
            _ => indented(arguments),
        },
        Value::String(text) => text.clone(),
        other => indented(other),
    }
}

/// Indented JSON; on one line if it is long, because each line of a deep value has many spaces.
pub(crate) fn indented(value: &Value) -> String {
    let plain = value.to_string();
    match plain.len() <= INDENTED {
        true => format!("{value:#}"),
        false => plain,
    }
}

/// A part of a step by its name: `text`, `reasoning`, `call-0`, `shown-0`.
pub(crate) fn part(step: &ConversationStep, name: &str) -> Option<String> {
    let numbered = |prefix| name.strip_prefix(prefix)?.parse::<usize>().ok();
    if let Some(index) = numbered("call-") {
        return step.calls.get(index).map(|it| call_text(&it.arguments));
    }
    if let Some(index) = numbered("shown-") {
        return step
            .shown
            .get(index)
            .map(|it| readable(&it.text).into_owned());
    }
    match name {
        "text" => Some(step.text.clone()),
        "reasoning" => Some(step.reasoning.clone()),
        _ => None,
    }
}

/// A whole text, without secrets and escape sequences.
pub(crate) fn cleaned(mut text: String, secrets: &SecretValues) -> String {
    secrets.remove_from_text(&mut text);
    harmless(&text)
}

/// A text for the page: a string, or the two ends of a long one.
pub(crate) fn shown(text: &str, secrets: &SecretValues) -> Value {
    if text.len() <= LONGEST {
        return cleaned(text.to_owned(), secrets).into();
    }
    json!({
        "head": beginning(&cleaned(beginning(text, HEAD + MARGIN).to_owned(), secrets), HEAD),
        "tail": end(&cleaned(end(text, TAIL + MARGIN).to_owned(), secrets), TAIL),
        "bytes": text.len(),
    })
}

/// The beginning of a text, of at most this many bytes.
pub(crate) fn beginning(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// The end of a text, of at most this many bytes.
fn end(text: &str, bytes: usize) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(bytes))..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deep_arguments_do_not_become_long() {
        let small = json!({ "a": [1] });
        assert_eq!(call_text(&small), format!("{small:#}"));
        let deep = (0..120).fold(json!(vec![0; 200_000]), |inner, _| json!([inner]));
        assert!(call_text(&deep).len() < 500_000);
    }

    #[test]
    fn a_long_text_is_cut_and_no_secret_with_it() {
        let secrets = SecretValues::new(["hunter2-hunter2".to_owned()]);
        assert_eq!(shown("a\u{1b}[1mb", &secrets), "ab");
        for at in (HEAD - 20)..(HEAD + 5) {
            let mut text = "x".repeat(100_000);
            text.replace_range(at..at + 15, "hunter2-hunter2");
            let place = text.len() - TAIL - 10;
            text.replace_range(place..place + 15, "hunter2-hunter2");
            let value = shown(&text, &secrets);
            assert!(!value.to_string().contains("hunter2"), "{at}");
            assert!(!value.to_string().contains("unter2"), "{at}");
            assert_eq!(value["bytes"], 100_000);
            assert!(value["tail"].as_str().unwrap().len() <= TAIL);
        }
        // Characters of several bytes are not cut.
        let value = shown(&"ä€𝄞".repeat(20_000), &secrets);
        assert!(value["head"].as_str().unwrap().len() <= HEAD);
    }
}
