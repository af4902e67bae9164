//! Whether the host may act on a record: a run continues with a config, in an environment and with
//! actions that this user's hosts have recorded, or with the user's consent.

use std::fmt;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use mswea_config::{Layers, RecordedValue, names_no_file};
use mswea_core::Event;
use mswea_record::journal::Record;
use mswea_run::State;
use mswea_run::fold;
use mswea_run::{Phase, Stage};
use mswea_text::harmless;

use super::{ASKED, Earlier};
use crate::digests::{DigestDifference, DigestFile, Digests};

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
    /// Checks that what the host acts on by itself is from this user: the config and the plugins with which
    /// the run goes on, its environment, what of its last step is still to run, and its submission. `layers` is the record's
    /// config under the user's flags; call it after [`Earlier::plugins`]. Without it, a record is trusted
    /// like the user's own config.
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
        values.extend(self.unknown_end(&digests));
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

    /// How the journal differs from what this user's hosts have recorded of the run; as an error, why that is not
    /// known. A run that another process is writing is not compared to its end.
    ///
    /// # Errors
    /// A text, if nothing is known of the run on this machine.
    pub fn changed_since(&self) -> Result<Option<(u64, String)>, String> {
        if self.is_foreign {
            return Ok(None);
        }
        let digests = self.digests();
        if !digests.is_known() {
            return Err(
                "mswea-host has no digests of this run on this machine, so its config, replies and actions are \
                 taken as they are recorded"
                    .to_owned(),
            );
        }
        let records = self.records.iter().map(|it| (it.seq, &it.event));
        Ok(digests.difference(records).map(|found| match found {
            DigestDifference::Unknown(seq) => (
                seq,
                "it is not what mswea-host has recorded here".to_owned(),
            ),
            DigestDifference::Missing(seq) => (
                seq,
                "what mswea-host has recorded before it is missing, or a copy of the journal has gone on"
                    .to_owned(),
            ),
            DigestDifference::Cut => (
                self.records.last().map_or(0, |it| it.seq),
                "what mswea-host has recorded after it is missing, the run still goes on, or a copy of the \
                 journal has gone on"
                    .to_owned(),
            ),
        }))
    }

    /// Looks at what it goes on with, and at the last that is recorded, which is another one if its environment
    /// did not become ready.
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

    /// The submission, or the end with it, that the run would take over without asking the model, and no host has
    /// recorded. After any other end the run goes on with the model.
    fn unknown_end(&self, digests: &Digests) -> Option<RecordedValue> {
        let state = &self.state;
        if self.fork.is_some() {
            return None;
        }
        let submission = state.submitted();
        let (is_known, key, value) = match &state.ended {
            Some(ended) if self.has_submitted() => (
                digests.has_end(&ended.exit_status, &ended.submission),
                "the end of the run",
                format!("{}: {}", ended.exit_status, ended.submission),
            ),
            _ => (
                state.submission.is_none() || digests.has_submission(submission),
                "the submission",
                submission.to_owned(),
            ),
        };
        (!is_known).then(|| RecordedValue {
            key: key.to_owned(),
            value: value.into(),
        })
    }

    /// What the run would take in or run before it asks the model, and no host has recorded.
    fn unknown_actions(&self, digests: &Digests) -> Vec<RecordedValue> {
        let forked = self.fork.as_ref().map(|fork| phase_of(&fork.events));
        let phase = forked.as_ref().unwrap_or(&self.state.phase);
        let value = |key: &str, value: &str| RecordedValue {
            key: key.to_owned(),
            value: value.into(),
        };
        match phase {
            Phase::Idle | Phase::Querying => Vec::new(),
            Phase::Replied(paid) => match digests.has_reply(&paid.reply) {
                true => Vec::new(),
                false => vec![value(
                    "a reply that was not taken in",
                    &serde_json::to_string(&paid.reply).unwrap_or_default(),
                )],
            },
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
