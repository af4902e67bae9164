//! Finds out to which run a trajectory belongs, without reading its messages, which may have many
//! megabytes.

use std::fmt;
use std::io::{self, BufReader};
use std::path::Path;

use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// The run to which a trajectory belongs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrajectoryOwner {
    /// The run's id; none in a trajectory of another program.
    pub run_id: Option<String>,
    /// The file name of the journal that it was made from, or its path.
    pub journal: Option<String>,
}

/// Reads to which run a trajectory belongs. The file is read up to the end of `info`, with which
/// trajectories of this host begin; the rest may be damaged.
///
/// # Errors
/// The system's error if the file can't be read; an [`io::Error`] if it is not a regular file, has
/// more than [`mswea_files::RECORDS`] bytes, or is not a JSON object up to there.
pub fn owner(path: &Path) -> io::Result<TrajectoryOwner> {
    let file = mswea_files::open(path, mswea_files::RECORDS)?;
    let mut input = serde_json::Deserializer::from_reader(BufReader::with_capacity(1 << 16, file));
    let mut found = None;
    match (input.deserialize_map(UpToInfo(&mut found)), found) {
        // The parser reports that the rest of the object was not read.
        (_, Some(owner)) => Ok(owner),
        (Ok(()), None) => Ok(TrajectoryOwner::default()),
        (Err(error), None) => Err(error.into()),
    }
}

/// The keys of `info` that are read.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Info {
    #[serde(deserialize_with = "lenient")]
    mswea: TrajectoryOwner,
}

/// Ignores a value of another type, because another program may use the same key.
fn lenient<'de, D: Deserializer<'de>>(input: D) -> Result<TrajectoryOwner, D::Error> {
    let value = serde_json::Value::deserialize(input)?;
    let text = |name| Some(value.get(name)?.as_str()?.to_owned());
    Ok(TrajectoryOwner {
        run_id: text("run_id"),
        journal: text("journal"),
    })
}

/// Reads the entries of an object up to `info`.
struct UpToInfo<'f>(&'f mut Option<TrajectoryOwner>);

impl<'de> Visitor<'de> for UpToInfo<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a trajectory")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        while let Some(name) = entries.next_key::<String>()? {
            if name == "info" {
                *self.0 = Some(entries.next_value::<Info>()?.mswea);
                return Ok(());
            }
            entries.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner_of(text: &str) -> io::Result<TrajectoryOwner> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("traj.json");
        std::fs::write(&path, text).unwrap();
        owner(&path)
    }

    #[test]
    fn the_messages_are_not_read() {
        let ours = r#"{"info": {"exit_status": "x", "mswea": {"version": "1", "run_id": "r", "journal": "j", "n": {}}}"#;
        let expected = TrajectoryOwner {
            run_id: Some("r".to_owned()),
            journal: Some("j".to_owned()),
        };
        for rest in ["}", r#", "messages": []}"#, r#", "messages": [no JSON"#, ""] {
            assert_eq!(owner_of(&format!("{ours}{rest}")).unwrap(), expected);
        }
        let behind = ours.replacen('{', r#"{"messages": [{"content": "{"}], "#, 1);
        assert_eq!(owner_of(&behind).unwrap(), expected);
    }

    #[test]
    fn other_files_have_no_owner() {
        for text in [
            "{}",
            r#"{"info": {}}"#,
            r#"{"info": {"mswea": 3}}"#,
            r#"{"info": {"mswea": {"run_id": 3}}}"#,
            r#"{"messages": [], "trajectory_format": "mini-swe-agent-1.1"}"#,
        ] {
            assert_eq!(
                owner_of(text).unwrap(),
                TrajectoryOwner::default(),
                "{text}"
            );
        }
        for text in [
            "",
            "[]",
            "no JSON",
            r#"{"info": {"mswea": {"run_id": "r"#,
            "{",
        ] {
            owner_of(text).unwrap_err();
        }
    }
}
