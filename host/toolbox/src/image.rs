//! `view_image`: an image as Markdown with the data in it, which the host makes a part of a message.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::answer::{ToolRefusal, ToolResult};
use crate::call::ToolInput;
use crate::storage;

/// The largest image. A larger one would not fit into an observation of 10,000,000 characters.
const LARGEST: usize = 7_000_000;

/// `view_image PATH`.
pub fn view_image(input: &ToolInput) -> ToolResult {
    let [path] = input.words() else {
        return Err(ToolRefusal::one("Usage: view_image <image_file>"));
    };
    let path = Path::new(path);
    let content = storage::bytes(path).map_err(|trouble| trouble.about(path))?;
    let shown = path.display();
    let Some(kind) = kind(&content) else {
        return Err(ToolRefusal::one(format!(
            "Error: {shown} is not an image of a known kind: PNG, JPEG and WebP can be shown."
        )));
    };
    if content.len() > LARGEST {
        return Err(ToolRefusal::one(format!(
            "Error: {shown} has {} bytes, and at most {LARGEST} can be shown: make a smaller copy of it.",
            content.len()
        )));
    }
    let data = STANDARD.encode(&content);
    Ok(format!("![{shown}](data:{kind};base64,{data})").into_bytes())
}

/// The type of an image, found from its content: the extension can be wrong, and providers refuse
/// an image with a wrong type.
fn kind(content: &[u8]) -> Option<&'static str> {
    if content.starts_with(b"\x89PNG\r\n\x1a\n") {
        Some("image/png")
    } else if content.starts_with(b"\xff\xd8\xff") {
        Some("image/jpeg")
    } else if content.starts_with(b"RIFF") && content.get(8..12) == Some(b"WEBP") {
        Some("image/webp")
    } else {
        None
    }
}
