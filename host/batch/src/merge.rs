//! Merges several batches, each of which has worked on a part of the instances, into one.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::BatchError;
use crate::folder::{BatchFolder, result_file};
use crate::frozen::FrozenBatch;
use crate::manifest;
use crate::outcome::BatchResult;
use crate::whole_file;

/// Copies the results, journals and trajectories of `parts` into the directory `into`. Returns how
/// many results were copied. It may be repeated: files that exist are not copied again.
///
/// # Errors
/// [`BatchError`] if a part is no batch, has another config than the first one (unless `accepts`), two parts
/// have different results of one instance, or a file can't be written. Nothing is copied before all is checked.
pub fn merge(into: &Path, parts: &[PathBuf], accepts: bool) -> Result<usize, BatchError> {
    let mut frozen = None::<FrozenBatch>;
    let mut instances = Vec::new();
    let mut from = HashMap::<String, &PathBuf>::new();
    for part in parts {
        let now = FrozenBatch::of_folder(part)?;
        if let Some(first) = &frozen {
            let differences = first.differences(&now);
            if !differences.is_empty() && !accepts {
                return Err(BatchError::Refused(format!(
                    "`{}` has another config than `{}`:\n  {}\nadd `--config-changed` to put them together all the same",
                    part.display(),
                    parts[0].display(),
                    differences.join("\n  ")
                )));
            }
        } else {
            frozen = Some(now);
        }
        let own = manifest::read(&part.join("manifest.jsonl"))?;
        for instance in &own {
            let result = result_file(part, &instance.id);
            let Some(read) = BatchResult::read(&result)? else {
                continue;
            };
            if read.instance_id != instance.id {
                return Err(BatchError::Refused(format!(
                    "`{}` is the result of the instance `{}`: it was changed since it was written",
                    result.display(),
                    mswea_text::harmless(&read.instance_id)
                )));
            }
            if let Some(other) = from.get(&instance.id) {
                let text = |path: &Path| fs::read(path).map_err(BatchError::io("read", path));
                if text(&result)? != text(&result_file(other, &instance.id))? {
                    return Err(BatchError::Refused(format!(
                        "`{}` and `{}` have different results of the instance `{}`: leave one of the directories out",
                        other.display(),
                        part.display(),
                        instance.id
                    )));
                }
                continue;
            }
            from.insert(instance.id.clone(), part);
        }
        instances = manifest::joined(instances, &own)?;
    }
    let Some(frozen) = frozen else {
        return Ok(0);
    };
    let mut folder = BatchFolder::open(into)?;
    folder.freeze(&frozen, accepts)?;
    folder.add(&instances)?;
    let mut copied = 0;
    for instance in &instances {
        if let Some(part) = from.get(&instance.id) {
            copied += usize::from(copy(&part.join(&instance.id), &folder.of(&instance.id))?);
        }
    }
    Ok(copied)
}

/// Copies the files of an instance, its result last.
fn copy(from: &Path, to: &Path) -> Result<bool, BatchError> {
    let result = to.join("result.json");
    if result.exists() {
        return Ok(false);
    }
    fs::create_dir_all(to).map_err(BatchError::io("make", to))?;
    for entry in fs::read_dir(from).map_err(BatchError::io("read", from))? {
        let entry = entry.map_err(BatchError::io("read", from))?;
        let name = entry.file_name();
        let text = name.to_string_lossy();
        let is_file = entry.file_type().is_ok_and(|it| it.is_file());
        let is_wanted = text.ends_with(".json") || text.ends_with(".jsonl");
        if is_file && is_wanted && name != "result.json" {
            let place = entry.path();
            fs::copy(&place, to.join(&name)).map_err(BatchError::io("copy", &place))?;
        }
    }
    let place = from.join("result.json");
    let text = fs::read(&place).map_err(BatchError::io("read", &place))?;
    whole_file::make(&result, &text).map_err(BatchError::io("write", &result))
}
