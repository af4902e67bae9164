//! The tasks and messages that the user has typed in earlier runs, one JSON string per line.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

/// How many texts are kept.
const MOST: usize = 500;

fn file() -> Option<PathBuf> {
    mswea_files::home_state_folder("typed.jsonl")
}

/// The earlier texts, the newest last.
pub(super) fn load() -> Vec<String> {
    let text = file().and_then(|file| fs::read_to_string(file).ok());
    let text = text.unwrap_or_default();
    let texts = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    let texts: Vec<String> = texts.collect();
    texts[texts.len().saturating_sub(MOST)..].to_vec()
}

/// Appends a text. An error is ignored, because a run does not depend on the history.
pub(super) fn add(text: &str) {
    let (Some(file), Ok(line)) = (file(), serde_json::to_string(text)) else {
        return;
    };
    if let Some(folder) = file.parent() {
        drop(fs::create_dir_all(folder));
    }
    let file = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(file);
    if let Ok(mut file) = file {
        drop(file.write_all(format!("{line}\n").as_bytes()));
    }
}
