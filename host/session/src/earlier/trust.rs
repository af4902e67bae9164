//! Whether the host may act on a record: a run continues with a config, in an environment and with
//! actions that this user's hosts have recorded, or with the user's consent.

use std::fmt;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use mswea_config::{Layers, RecordedValue, names_no_file};
use mswea_core::Event;
use mswea_run::State;
use mswea_run::journal::{Record, fold};
use mswea_run::{Phase, Stage};
use mswea_text::harmless;

use super::{ASKED, Earlier};
use crate::digests::{DigestFile, Digests};

/// How many characters of a value a message shows.
const SHOWN: usize = 100;

/// A record that differs from what this user's hosts have recorded, and has values that need the
/// user's consent.
#[derive(Debug, thiserror::Error)]
pub struct UntrustedRecord {
    record: PathBuf,
    run_id: String,
    /// Whether a host of this user has recorded another config for this run.
    is_edited: bool,
    /// The values that need consent.
    values: Vec<RecordedValue>,
}

impl fmt::Display for UntrustedRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let record = harmless(&self.record.display().to_string());
        let run_id = harmless(&self.run_id);
        match self.is_edited {
            true => write!(
                f,
                "`{record}` is not what mswea-host has recorded of run `{run_id}`: it was changed since (or the \
                 state folder could not be written then)"
            )?,
            false => write!(
                f,
                "mswea-host has not recorded `{record}` on this machine for this user (or the state folder \
                 could not be written then)"
            )?,
        }
        if !self.values.is_empty() {
            f.write_str(", and it sets what only you should set:")?;
        }
        for RecordedValue { key, value } in &self.values {
            write!(f, "\n  {} = {}", harmless(key), shown(value))?;
        }
        f.write_str(
            "\nnothing was sent, run or changed; look at the record, and if you want it all, add \
             `--trust-record`",
        )?;
        match self.is_edited || self.values.iter().any(|it| it.key.contains(' ')) {
            true => Ok(()),
            false => f.write_str("; or give each of these anew, as `-c KEY=VALUE` or by its flag"),
        }
    }
}

/// A value on one line, shortened.
fn shown(value: &Value) -> String {
    let text = harmless(&value.to_string());
    match text.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text,
    }
}

impl Earlier {
    /// Checks that the parts of the record that the host acts on are from this user: the config and
    /// the plugins with which the run continues, its environment, and the actions of its last step
    /// that will still run. `layers` is the record's config below the user's flags; must be called
    /// after [`Earlier::plugins`]. Without this check, a record is trusted like the user's own
    /// config.
    ///
    /// # Errors
    /// [`UntrustedRecord`] if the record differs from what was recorded, or was not recorded here
    /// and has values that need the user's consent.
    pub fn check_authority(&self, layers: &Layers) -> Result<(), UntrustedRecord> {
        let digests = self.digests();
        let state = &self.state;
        let mut values = Vec::new();
        let mut has_another_config = false;
        if !self.has_known_config(&digests) {
            has_another_config = digests.is_known();
            values.extend(layers.recorded_authority(&self.journal.display().to_string()));
            values.extend(self.named_plugins());
        }
        let handle = &state.environment.handle;
        if !handle.is_null() && !digests.has_environment(handle) {
            values.push(RecordedValue {
                key: "the environment".to_owned(),
                value: handle.clone(),
            });
        }
        values.extend(self.unknown_actions(&digests));
        if values.is_empty() && !has_another_config {
            return Ok(());
        }
        Err(UntrustedRecord {
            record: self.journal.clone(),
            run_id: state.run_id.clone(),
            is_edited: digests.is_known(),
            values,
        })
    }

    /// Whether the config and the plugins are those that this user's hosts have recorded.
    pub fn is_own(&self) -> bool {
        self.has_known_config(&self.digests())
    }

    fn digests(&self) -> Digests {
        match self.is_foreign {
            true => Digests::default(),
            false => DigestFile::of(&self.state.run_id).read(),
        }
    }

    /// Checks the config with which the run continues, and the last recorded one, which differs if
    /// its environment did not become ready.
    fn has_known_config(&self, digests: &Digests) -> bool {
        let (kept, state) = (&self.kept, &self.state);
        digests.has_config(&kept.config, &kept.plugins)
            && digests.has_config(&state.config, &state.plugins)
    }

    /// The plugin files that flags of the recorded run named, and flags of this one do not.
    fn named_plugins(&self) -> impl Iterator<Item = RecordedValue> {
        let recorded = self.kept.plugins.as_array().into_iter().flatten();
        let mut named: Vec<&str> = recorded.filter_map(|it| it.get(ASKED)?.as_str()).collect();
        named.retain(|name| !names_no_file(name) && !self.named_anew.iter().any(|it| it == name));
        named.dedup();
        named.into_iter().map(|name| RecordedValue {
            key: "--plugin".to_owned(),
            value: name.into(),
        })
    }

    /// Replies and actions that the run would process before it asks the model, and that no host
    /// has recorded.
    fn unknown_actions(&self, digests: &Digests) -> Vec<RecordedValue> {
        let forked = self.fork.as_ref().map(|fork| phase_of(&fork.events));
        let phase = forked.as_ref().unwrap_or(&self.state.phase);
        let value = |key: &str, value: &str| RecordedValue {
            key: key.to_owned(),
            value: value.into(),
        };
        match phase {
            Phase::Idle | Phase::Querying => Vec::new(),
            Phase::Replied(paid) | Phase::Rejected { paid, .. } => {
                match digests.has_reply(&paid.reply) {
                    true => Vec::new(),
                    false => vec![value(
                        "a reply that was not taken in",
                        &serde_json::to_string(&paid.reply).unwrap_or_default(),
                    )],
                }
            }
            Phase::Acting(step) => {
                let is_open = |stage: &Stage| matches!(stage, Stage::Proposed | Stage::Allowed);
                let open = step.slots.iter().filter(|slot| is_open(&slot.stage));
                let actions = open.flat_map(|slot| [Some(&slot.action), slot.rewritten.as_ref()]);
                let unknown = actions.flatten().filter(|it| !digests.has_action(it));
                unknown
                    .map(|it| value("an action that has not run", &it.command))
                    .collect()
            }
        }
    }
}

/// Whether the damaged first line of a file was that of a journal.
pub(super) fn begins_as_journal(path: &Path) -> bool {
    const HEAD: &[u8] = b"{\"seq\":1,";
    let mut head = Vec::new();
    let file = mswea_files::open(path, u64::MAX);
    let read = file.and_then(|file| file.take(HEAD.len() as u64).read_to_end(&mut head));
    read.is_ok() && head == HEAD
}

fn phase_of(events: &[Event]) -> Phase {
    let records: Vec<Record> = events
        .iter()
        .map(|event| Record {
            seq: 0,
            t: 0.0,
            event: event.clone(),
        })
        .collect();
    let State { phase, .. } = fold(&records);
    phase
}
