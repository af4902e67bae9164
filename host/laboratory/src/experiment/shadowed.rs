//! The results of the shadows of finished runs, from their journals.

use std::path::PathBuf;

use super::comparison::Comparison;
use super::excerpt::number;
use super::recorded::{RecordedError, each, find, first, named, shown};
use mswea_core::Event;

impl Comparison {
    /// The comparisons that shadows left in journals: files, and folders with what is below them.
    /// One for each shadow of each run, in the order of the journals. Of a damaged journal the part
    /// before the damage is used, with a warning in each of its comparisons; if nothing of it can
    /// be used, the warning is in the first comparison.
    ///
    /// # Errors
    /// [`RecordedError`] if one of the places can't be read, or they contain no shadow.
    pub fn of_journals(places: &[PathBuf]) -> Result<Vec<Self>, RecordedError> {
        let (mut journals, mut warnings) = find(places)?;
        journals.retain(|file| file.is_journal);
        let mut all = Vec::new();
        for file in &journals {
            // Only the records of shadows are kept in memory, because a journal may be long.
            let mut records = Vec::new();
            let note = each(&file.path, |record| {
                let event = &record.event;
                if matches!(
                    event,
                    Event::ShadowDiverged { .. } | Event::ShadowEnded { .. }
                ) {
                    records.push(record);
                }
            });
            let damaged = |error| Some(format!("only what is before the damage is used: {error}"));
            let note = note.unwrap_or_else(damaged);
            let note = note.map(|note| format!("`{}`: {note}", shown(&file.path)));
            let mut found = Self::from_journal(&records, &file.name);
            match found.is_empty() {
                true => warnings.extend(note),
                false => {
                    let found = found.iter_mut();
                    found.for_each(|own| own.warnings.extend(note.clone()));
                }
            }
            all.append(&mut found);
        }
        match all.first_mut() {
            Some(first) => first.warnings.append(&mut warnings),
            None => {
                return Err(RecordedError::Nothing {
                    what: "shadow",
                    places: named(places),
                    wanted: "what one records in journals (`*.events.jsonl`)",
                    seen: match journals.len() {
                        0 => format!("and found no journal{}", first(&warnings)),
                        count => {
                            let journals = number(count as u64, "journal");
                            format!("and found none in {journals}{}", first(&warnings))
                        }
                    },
                    remedy: "a run has one with `--shadow FILE`, and a journal with `-o FILE`",
                });
            }
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;
    use crate::experiment::testing::record_run;
    use mswea_core::Journal;
    use mswea_record::journal::JournalFile;

    /// A run with a shadow of this name, with one divergence; it ended or was killed.
    fn shadowed(path: &Path, plugins: &[&str], ended: bool) {
        let journal = JournalFile::create(path).unwrap();
        record_run(&journal, "run", 2, 30);
        for plugin in plugins {
            let (kind, beside) = ("action-parser".to_owned(), "real-one".to_owned());
            let diverged = Event::ShadowDiverged {
                plugin: (*plugin).to_owned(),
                kind: kind.clone(),
                beside: beside.clone(),
                step: 2,
                index: None,
                degree: "different".into(),
                input: json!({}),
                real: json!({ "actions": [] }),
                candidate: json!({ "malformed": {} }),
            };
            journal.record(&diverged).unwrap();
            let summary = json!({ "steps": 2, "counts": { "same": 1, "different": 1 } });
            let event = Event::ShadowEnded {
                plugin: (*plugin).to_owned(),
                kind,
                beside,
                summary,
            };
            if ended {
                journal.record(&event).unwrap();
            }
        }
    }

    #[test]
    fn shadows_of_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name);
        shadowed(&place("a.events.jsonl"), &["one", "two"], true);
        shadowed(&place("deep/killed.events.jsonl"), &["one"], false);
        shadowed(&place("none.events.jsonl"), &[], true);
        shadowed(&place("torn.events.jsonl"), &["three"], true);
        let torn = std::fs::read(place("torn.events.jsonl")).unwrap();
        std::fs::write(place("torn.events.jsonl"), &torn[..torn.len() - 9]).unwrap();
        std::fs::write(place("broken.events.jsonl"), "{\n{}\n{}\n").unwrap();
        let all = Comparison::of_journals(&[folder.path().to_path_buf()]).unwrap();
        let found: Vec<_> = all
            .iter()
            .map(|own| {
                let run = own.cases[0].run.as_str();
                (own.new.name.as_str(), run, own.counts.compared())
            })
            .collect();
        assert_eq!(
            found,
            [
                ("one", "a.events.jsonl", 2),
                ("two", "a.events.jsonl", 2),
                ("one", "deep/killed.events.jsonl", 1),
                ("three", "torn.events.jsonl", 1),
            ]
        );
        let warned: Vec<usize> = all.iter().map(|own| own.warnings.len()).collect();
        assert_eq!(warned, [1, 0, 1, 2]);
        assert!(all[2].warnings[0].contains("did not get to its end"));
        assert!(all[0].warnings[0].contains("broken.events.jsonl"));
        assert!(all[3].warnings[1].contains("is torn"));
        let page = Comparison::page(&all);
        assert_eq!(page.matches("<section>").count(), 4);
        // A single file, whatever its name.
        std::fs::rename(place("a.events.jsonl"), place("b.jsonl")).unwrap();
        let two = Comparison::of_journals(&[place("b.jsonl")]).unwrap();
        assert_eq!(two.len(), 2);
    }

    #[test]
    fn no_shadow_is_an_error_that_says_what_was_looked_for() {
        let folder = tempfile::tempdir().unwrap();
        let places = [folder.path().to_path_buf()];
        let error = || Comparison::of_journals(&places).unwrap_err().to_string();
        assert!(error().contains("and found no journal; a run has one with `--shadow FILE`"));
        shadowed(&folder.path().join("a.events.jsonl"), &[], true);
        assert!(error().contains("found none in 1 journal;"), "{}", error());
        std::fs::write(folder.path().join("b.events.jsonl"), "{\n{}\n{}\n").unwrap();
        let said = error();
        assert!(
            said.contains("in 2 journals (the first warning: `"),
            "{said}"
        );
        let gone = Comparison::of_journals(&[folder.path().join("gone")]).unwrap_err();
        assert!(gone.to_string().contains("can't read"), "{gone}");
    }
}
