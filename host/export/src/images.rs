//! Images whose bytes are embedded in the record.

/// The media type of an image that is embedded in its URL; none for any other URL.
pub fn embedded(url: &str) -> Option<&str> {
    let (kind, data) = url.strip_prefix("data:")?.split_once(";base64,")?;
    let is_known = matches!(
        kind,
        "image/png" | "image/jpeg" | "image/gif" | "image/webp"
    );
    let is_base64 = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'+' | b'/' | b'=');
    (is_known && data.bytes().all(is_base64)).then_some(kind)
}
