//! The progress of a pull, from the engine's messages.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::engine::Tell;

/// The pause between two messages.
const PAUSE: Duration = Duration::from_secs(1);

/// A layer of the image that is being pulled.
#[derive(Debug, Default)]
struct Layer {
    bytes: u64,
    /// 0 if it is not known (yet).
    of: u64,
    done: bool,
}

/// Sums up the layers.
pub(super) struct PullProgress<'a> {
    layers: BTreeMap<String, Layer>,
    tell: Tell<'a>,
    told: Option<Instant>,
}

impl<'a> PullProgress<'a> {
    pub(super) fn new(tell: Tell<'a>) -> Self {
        Self {
            layers: BTreeMap::new(),
            tell,
            told: None,
        }
    }

    /// Processes one message of the daemon's stream. Returns its error, if it is one.
    pub(super) fn message(&mut self, message: &Value) -> Option<String> {
        let error = message["errorDetail"]["message"].as_str();
        if let Some(error) = error.or(message["error"].as_str()) {
            return Some(error.to_owned());
        }
        if let (Some(id), Some(status)) = (message["id"].as_str(), message["status"].as_str()) {
            let detail = &message["progressDetail"];
            self.step(
                id,
                status,
                detail["current"].as_u64(),
                detail["total"].as_u64(),
            );
        }
        None
    }

    /// Processes one line of a client: `ID: STATUS` from docker, `Copying blob ID` from podman.
    pub(super) fn line(&mut self, line: &str) {
        let line = line.trim();
        if let Some(blob) = line.strip_prefix("Copying blob ") {
            let id = blob.split_whitespace().next().unwrap_or_default();
            let id = id.trim_start_matches("sha256:").get(..12).unwrap_or(id);
            let status = match blob.contains("done") || blob.contains("skipped") {
                true => "Pull complete",
                false => "Pulling fs layer",
            };
            self.step(id, status, None, None);
        } else if let Some((id, status)) = line.split_once(": ") {
            self.step(id, status, None, None);
        }
    }

    fn step(&mut self, id: &str, status: &str, current: Option<u64>, total: Option<u64>) {
        let known = self.layers.contains_key(id);
        let begins = [
            "Pulling fs layer",
            "Already exists",
            "Waiting",
            "Downloading",
        ];
        if !known && !begins.contains(&status) && status != "Pull complete" {
            return;
        }
        let layer = self.layers.entry(id.to_owned()).or_default();
        match status {
            // Later figures are about the unpacked layer.
            "Downloading" => {
                layer.bytes = current.unwrap_or(layer.bytes);
                layer.of = total.unwrap_or(layer.of).max(layer.bytes);
            }
            "Verifying Checksum" | "Download complete" => layer.bytes = layer.of,
            "Pull complete" | "Already exists" => {
                layer.bytes = layer.of;
                layer.done = true;
            }
            _ => {}
        }
        self.say();
    }

    fn say(&mut self) {
        if self.told.is_none_or(|told| told.elapsed() >= PAUSE) {
            (self.tell)(&self.text());
            self.told = Some(Instant::now());
        }
    }

    fn text(&self) -> String {
        let done = self.layers.values().filter(|layer| layer.done).count();
        let mut text = format!("{done} of {} layers", self.layers.len());
        let of: u64 = self.layers.values().map(|layer| layer.of).sum();
        if of > 0 {
            let bytes: u64 = self.layers.values().map(|layer| layer.bytes).sum();
            let (bytes, of) = (bytes as f64 / 1e6, of as f64 / 1e6);
            let digits = usize::from(of < 10.0);
            text.push_str(&format!(", {bytes:.digits$} of {of:.digits$} MB"));
        }
        text
    }
}

/// An image's name without its tag, and the tag or digest. A name with neither gets the tag
/// `latest`, because the daemon would pull every tag.
pub(super) fn name_and_tag(image: &str) -> (&str, &str) {
    if let Some((name, digest)) = image.split_once('@') {
        return (name, digest);
    }
    let last = image.rfind('/').map_or(0, |at| at + 1);
    match image[last..].rfind(':') {
        Some(at) => (&image[..last + at], &image[last + at + 1..]),
        None => (image, "latest"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn tags_are_told_from_ports() {
        for (image, wanted) in [
            ("debian", ("debian", "latest")),
            ("debian:12", ("debian", "12")),
            ("host:5000/a/b", ("host:5000/a/b", "latest")),
            ("host:5000/a/b:c", ("host:5000/a/b", "c")),
            ("a/b@sha256:1f", ("a/b", "sha256:1f")),
        ] {
            assert_eq!(name_and_tag(image), wanted, "{image}");
        }
    }

    #[test]
    fn layers_are_summed_up() {
        let tell = |_: &str| {};
        let mut progress = PullProgress::new(&tell);
        let vectors = [
            (
                json!({"status": "Pulling from x", "id": "latest"}),
                "0 of 0 layers",
            ),
            (
                json!({"status": "Pulling fs layer", "id": "a"}),
                "0 of 1 layers",
            ),
            (
                json!({"status": "Already exists", "id": "b"}),
                "1 of 2 layers",
            ),
            (
                json!({"status": "Downloading", "id": "a", "progressDetail": {"current": 1_000_000, "total": 4_000_000}}),
                "1 of 2 layers, 1.0 of 4.0 MB",
            ),
            (
                json!({"status": "Download complete", "id": "a"}),
                "1 of 2 layers, 4.0 of 4.0 MB",
            ),
            (
                json!({"status": "Extracting", "id": "a", "progressDetail": {"current": 5, "total": 90_000_000}}),
                "1 of 2 layers, 4.0 of 4.0 MB",
            ),
            (
                json!({"status": "Pull complete", "id": "a"}),
                "2 of 2 layers, 4.0 of 4.0 MB",
            ),
            (
                json!({"status": "Digest: sha256:1"}),
                "2 of 2 layers, 4.0 of 4.0 MB",
            ),
        ];
        for (message, wanted) in vectors {
            assert_eq!(progress.message(&message), None);
            assert_eq!(progress.text(), wanted, "{message}");
        }
        let error = json!({"error": "short", "errorDetail": {"message": "long"}});
        assert_eq!(progress.message(&error).as_deref(), Some("long"));
    }

    #[test]
    fn clients_are_understood() {
        let tell = |_: &str| {};
        let mut progress = PullProgress::new(&tell);
        for (line, wanted) in [
            ("latest: Pulling from a/b", "0 of 0 layers"),
            ("0a1b: Pulling fs layer", "0 of 1 layers"),
            ("0a1b: Pull complete", "1 of 1 layers"),
            ("Digest: sha256:12", "1 of 1 layers"),
            ("Copying blob sha256:0123456789abcdef", "1 of 2 layers"),
            ("Copying blob 0123456789ab done", "2 of 2 layers"),
            ("Writing manifest to image destination", "2 of 2 layers"),
        ] {
            progress.line(line);
            assert_eq!(progress.text(), wanted, "{line}");
        }
    }
}
