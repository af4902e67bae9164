//! The variables of a rendering, as bytes: what `host/template/engine/src/vars.rs` reads.

use serde_json::Value;

/// Appends a value: a letter for its type, then its content.
pub(super) fn write(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => out.push(b'0'),
        Value::Bool(false) => out.push(b'-'),
        Value::Bool(true) => out.push(b'+'),
        // integers and floats stay what they are
        Value::Number(number) => {
            let (letter, bytes) = if let Some(whole) = number.as_i64() {
                (b'i', whole.to_le_bytes())
            } else if let Some(whole) = number.as_u64() {
                (b'u', whole.to_le_bytes())
            } else {
                (b'f', number.as_f64().unwrap_or(f64::NAN).to_le_bytes())
            };
            out.push(letter);
            out.extend_from_slice(&bytes);
        }
        Value::String(text) => {
            out.push(b't');
            write_text(out, text);
        }
        Value::Array(items) => {
            out.push(b'[');
            write_length(out, items.len());
            items.iter().for_each(|item| write(out, item));
        }
        Value::Object(map) => write_map(
            out,
            map.len(),
            map.iter().map(|(key, value)| (key.as_str(), value)),
        ),
    }
}

/// Appends a map of `count` values.
pub(super) fn write_map<'v>(
    out: &mut Vec<u8>,
    count: usize,
    items: impl Iterator<Item = (&'v str, &'v Value)>,
) {
    out.push(b'{');
    write_length(out, count);
    for (key, value) in items {
        write_text(out, key);
        write(out, value);
    }
}

fn write_text(out: &mut Vec<u8>, text: &str) {
    write_length(out, text.len());
    out.extend_from_slice(text.as_bytes());
}

/// A length that does not fit is more than an instance may hold, so the rendering fails anyway.
fn write_length(out: &mut Vec<u8>, length: usize) {
    let length = u32::try_from(length).unwrap_or(u32::MAX);
    out.extend_from_slice(&length.to_le_bytes());
}
