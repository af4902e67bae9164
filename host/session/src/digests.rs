//! Digests of what the hosts of this user have recorded: for each run a file `RUN_ID.digests` below
//! the state folder, where commands in a sandbox or a container can't write.
//!
//! A journal may lie in the work tree, and may come from elsewhere. Before a run goes on from one, those
//! of its parts that the host itself acts on are looked up here (`Earlier::check_authority`): the config and
//! the plugins, the environment, replies and actions that are still to be taken in or run, a submission and
//! the end. The messages that the model is shown are not among them.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::OFlags;
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use mswea_core::{Action, Event, Reply};
use mswea_files::{home_state_folder, make_private};
use mswea_record::index;
use mswea_run::submission;
use mswea_text::hex;

/// The beginning of a line for a file that was made of the run. Such a line is of no event.
const MADE: &str = "made ";

/// Notes the bytes of a file that this host has made of a run, such as a trajectory of SWE-agent, for
/// [`has_made`].
pub fn note_made(run_id: &str, bytes: &[u8]) {
    DigestFile::of(run_id).note_lines(&[of_made(bytes)]);
}

/// Whether a host of this user has made a file with these bytes of the run.
pub fn has_made(run_id: &str, bytes: &[u8]) -> bool {
    let line = of_made(bytes);
    DigestFile::of(run_id)
        .text()
        .is_some_and(|text| text.lines().any(|it| it == line))
}

fn of_made(bytes: &[u8]) -> String {
    format!("{MADE}{}", hex(&Sha256::digest(bytes)))
}

/// Writes the digests of a run.
pub(crate) struct DigestFile {
    /// None if there is no folder for the file.
    path: Option<PathBuf>,
    /// None until the first digest was written.
    file: Mutex<Option<File>>,
}

impl DigestFile {
    /// The file of a run.
    pub(crate) fn of(run_id: &str) -> Self {
        let folder = home_state_folder("runs");
        Self {
            path: folder.and_then(|folder| index::digests_of(&folder, run_id)),
            file: Mutex::default(),
        }
    }

    /// Adds an event that is about to be recorded. An error is ignored: without the digest, a later
    /// `resume` only asks for the user's consent.
    pub(crate) fn note(&self, event: &Event) {
        self.note_lines(&lines(event));
    }

    fn note_lines(&self, lines: &[String]) {
        if lines.is_empty() {
            return;
        }
        let written = match &self.path {
            Some(path) => self.append(path, lines),
            None => Err(io::Error::other("there is no state folder")),
        };
        if let Err(error) = written {
            tracing::debug!(%error, "going on with this run will need `--trust-record`");
        }
    }

    /// The newline is written first, because the line before may be incomplete.
    fn append(&self, path: &Path, lines: &[String]) -> io::Result<()> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let file = match &mut *file {
            Some(file) => file,
            none => none.insert(open(path)?),
        };
        let mut text = String::new();
        for line in lines {
            text.push('\n');
            text.push_str(line);
        }
        file.write_all(text.as_bytes())
    }

    fn text(&self) -> Option<String> {
        let path = self.path.as_ref()?;
        let is_plain = fs::symlink_metadata(path).is_ok_and(|it| it.is_file());
        is_plain.then(|| mswea_files::read_text(path, mswea_files::RECORDS).ok())?
    }

    /// The digests in the file.
    pub(crate) fn read(&self) -> Digests {
        let text = self.text();
        let lines = text.iter().flat_map(|it| it.lines());
        let lines = lines.filter(|it| !it.is_empty() && !it.starts_with(MADE));
        let lines = lines.map(str::to_owned);
        let in_order: Vec<String> = lines.collect();
        Digests {
            all: in_order.iter().cloned().collect(),
            in_order,
        }
    }
}

/// The digests of a run, as they were read.
#[derive(Default)]
pub(crate) struct Digests {
    all: HashSet<String>,
    in_order: Vec<String>,
}

/// How a journal differs from the digests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DigestDifference {
    /// The event with this number was not recorded so.
    Unknown(u64),
    /// What was recorded before the event with this number is missing.
    Missing(u64),
    /// What was recorded after the last event is missing.
    Cut,
}

impl Digests {
    /// Whether a host of this user has recorded an event of the run.
    pub(crate) fn is_known(&self) -> bool {
        !self.all.is_empty()
    }

    /// The first difference of a journal from what was recorded of it, in this order. An event may be missing
    /// where a process has ended: its digest was written, and it was not.
    pub(crate) fn difference<'r>(
        &self,
        records: impl IntoIterator<Item = (u64, &'r Event)>,
    ) -> Option<DigestDifference> {
        let mut rest = &self.in_order[..];
        for (seq, event) in records {
            for line in lines(event) {
                if !self.all.contains(&line) {
                    return Some(DigestDifference::Unknown(seq));
                }
                if rest.first() == Some(&line) {
                    rest = &rest[1..];
                    continue;
                }
                let Some(skipped) = rest.iter().position(|it| *it == line) else {
                    return Some(DigestDifference::Missing(seq));
                };
                let begins = matches!(event, Event::RunResumed { .. } | Event::RunEnded { .. });
                if !begins || !is_of_one_event(&rest[..skipped]) {
                    return Some(DigestDifference::Missing(seq));
                }
                rest = &rest[skipped + 1..];
            }
        }
        (!is_of_one_event(rest)).then_some(DigestDifference::Cut)
    }

    /// Whether this is the submission of an output, or was accepted as one.
    pub(crate) fn has_submission(&self, submission: &str) -> bool {
        self.all.contains(&of_submission(submission))
    }

    pub(crate) fn has_end(&self, exit_status: &str, submission: &str) -> bool {
        self.all.contains(&of_end(exit_status, submission))
    }

    pub(crate) fn has_config(&self, config: &Value, plugins: &Value) -> bool {
        self.all.contains(&of_config(config, plugins))
    }

    pub(crate) fn has_environment(&self, handle: &Value) -> bool {
        self.all.contains(&of_environment(handle))
    }

    pub(crate) fn has_reply(&self, reply: &Reply) -> bool {
        self.all.contains(&of_reply(reply))
    }

    pub(crate) fn has_action(&self, action: &Action) -> bool {
        self.all.contains(&of_action(action))
    }
}

fn lines(event: &Event) -> Vec<String> {
    match event {
        Event::RunStarted {
            config, plugins, ..
        }
        | Event::RunResumed {
            config, plugins, ..
        } => vec![of_config(config, plugins)],
        Event::EnvironmentReady { handle, .. } | Event::SetUpDone { handle }
            if !handle.is_null() =>
        {
            vec![of_environment(handle)]
        }
        Event::Reply { reply, .. } => vec![of_reply(reply)],
        Event::Accepted { actions } => actions.iter().map(of_action).collect(),
        Event::Rewritten { action, .. } => vec![of_action(action)],
        Event::Output { output, .. } => {
            let submitted = submission(output);
            submitted.iter().map(|it| of_submission(it)).collect()
        }
        Event::Submitted {
            submission: Some(submission),
        } => vec![of_submission(submission)],
        Event::RunEnded {
            exit_status,
            submission,
            ..
        } => vec![of_end(exit_status, submission)],
        _ => Vec::new(),
    }
}

fn of_config(config: &Value, plugins: &Value) -> String {
    line("config", &(config, plugins))
}

fn of_environment(handle: &Value) -> String {
    line("environment", handle)
}

fn of_reply(reply: &Reply) -> String {
    line("reply", reply)
}

fn of_action(action: &Action) -> String {
    line("action", action)
}

fn of_submission(submission: &str) -> String {
    line("submission", &submission)
}

fn of_end(exit_status: &str, submission: &str) -> String {
    line("end", &(exit_status, submission))
}

/// The actions of a reply are of one event; anything else is one by itself. Several configs are of hosts that
/// were killed one after the other before they had recorded anything.
fn is_of_one_event(lines: &[String]) -> bool {
    let all = |kind: &str| lines.iter().all(|line| line.starts_with(kind));
    lines.len() <= 1 || all("action ") || all("config ")
}

/// The JSON is the one that the journal has: keys keep their order there, and numbers their values.
fn line(kind: &str, value: &impl Serialize) -> String {
    let json = serde_json::to_vec(value).unwrap_or_default();
    format!("{kind} {}", hex(&Sha256::digest(&json)))
}

fn open(path: &Path) -> io::Result<File> {
    let open = || {
        OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed())
            .open(path)
    };
    match (open(), path.parent()) {
        (Err(error), Some(folder)) if error.kind() == io::ErrorKind::NotFound => {
            make_private(folder)?;
            open()
        }
        (opened, _) => opened,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_was_noted_is_known_after_a_journal_was_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let file = DigestFile {
            path: index::digests_of(&folder.path().join("runs"), "r-1"),
            file: Mutex::default(),
        };
        assert!(!file.read().is_known());
        let action = Action {
            command: "ls".into(),
            ..Action::default()
        };
        let config = json!({ "b": 0.1, "a": { "c": [1, null, 1e300, 0.3], "é": "\u{1b}" } });
        let plugins = json!([{ "name": "p" }]);
        let events = [
            Event::RunResumed {
                host_version: String::new(),
                config: config.clone(),
                plugins: plugins.clone(),
            },
            Event::SetUpDone {
                handle: json!({ "folder": "/w" }),
            },
            Event::Accepted {
                actions: vec![action.clone(), Action::default()],
            },
            Event::RunEnded {
                exit_status: String::new(),
                submission: String::new(),
                cost: None,
                queries: 0,
                usage: mswea_core::Usage::default(),
                extra: mswea_core::Object::new(),
                message: None,
            },
        ];
        for event in &events {
            file.note(event);
        }
        let back = |value: &Value| -> Value { serde_json::from_str(&value.to_string()).unwrap() };
        let found = file.read();
        assert!(found.has_config(&back(&config), &back(&plugins)));
        assert!(!found.has_config(&back(&config), &json!([])));
        assert!(found.has_environment(&json!({ "folder": "/w" })));
        assert!(!found.has_environment(&json!({ "folder": "/" })));
        assert!(found.has_action(&action));
        assert!(!found.has_action(&Action {
            command: "rm".into(),
            ..action
        }));
        assert_eq!(found.all.len(), 5);
        index::forget(&folder.path().join("runs"), "r-1");
        assert!(!file.read().is_known());
    }

    #[test]
    fn what_was_changed_or_cut_out_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let file = DigestFile {
            path: index::digests_of(folder.path(), "r-1"),
            file: Mutex::default(),
        };
        let reply = |text: &str| Event::Reply {
            reply: Reply {
                finish_reason: text.to_owned(),
                ..Reply::default()
            },
            cost: None,
            timestamp: 0.0,
        };
        let resumed = || Event::RunResumed {
            host_version: String::new(),
            config: json!(1),
            plugins: json!(2),
        };
        let accepted = |count| Event::Accepted {
            actions: vec![Action::default(); count],
        };
        let events = [
            resumed(),
            reply("a"),
            accepted(1),
            reply("b"),
            accepted(2),
            resumed(),
            reply("c"),
        ];
        for event in &events {
            file.note(event);
        }
        let found = file.read();
        let difference = |without: &[usize]| {
            let kept = events.iter().enumerate();
            let kept = kept.filter(|(index, _)| !without.contains(index));
            found.difference(kept.map(|(index, event)| (index as u64, event)))
        };
        assert_eq!(difference(&[]), None);
        // A host was killed before the line was written.
        assert_eq!(difference(&[4]), None);
        assert_eq!(difference(&[6]), None);
        assert_eq!(difference(&[1, 2]), Some(DigestDifference::Missing(3)));
        assert_eq!(difference(&[3, 4]), Some(DigestDifference::Missing(5)));
        assert_eq!(difference(&[5, 6]), Some(DigestDifference::Cut));
        let other = [(1, resumed()), (2, reply("x"))];
        let other = other.iter().map(|(seq, event)| (*seq, event));
        assert_eq!(found.difference(other), Some(DigestDifference::Unknown(2)));
    }

    #[test]
    fn a_link_in_the_place_of_the_file_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let other = folder.path().join("other");
        fs::write(&other, "").unwrap();
        let file = DigestFile {
            path: index::digests_of(folder.path(), "r-1"),
            file: Mutex::default(),
        };
        std::os::unix::fs::symlink(&other, folder.path().join("r-1.digests")).unwrap();
        file.note(&Event::SetUpDone { handle: json!(1) });
        assert_eq!(fs::read_to_string(&other).unwrap(), "");
        assert!(!file.read().is_known());
    }
}
