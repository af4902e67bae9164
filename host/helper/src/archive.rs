//! Copies files and folders as a stream: packs them as a tar archive, and unpacks one.

use std::fs;
use std::io::{self, Read, Write};
use std::path::Path;

/// Appends `from` under `name`, which is empty for what is in a folder without the folder itself.
/// `owner`: the ids of user and group that are stored. Symbolic links stay links; sockets, pipes and
/// devices have no content and are left out.
///
/// # Errors
/// An error of reading or of writing.
pub fn pack(
    archive: &mut tar::Builder<impl Write>,
    from: &Path,
    name: &Path,
    owner: (u64, u64),
) -> io::Result<()> {
    let found = fs::symlink_metadata(from).map_err(|error| about(from, &error))?;
    let mut header = tar::Header::new_gnu();
    header.set_metadata(&found);
    header.set_uid(owner.0);
    header.set_gid(owner.1);
    // Only the numbers are stored; this machine's names have no meaning elsewhere.
    header.set_username("")?;
    header.set_groupname("")?;
    let kind = found.file_type();
    if kind.is_dir() {
        if name != Path::new("") {
            header.set_size(0);
            archive.append_data(&mut header, name, io::empty())?;
        }
        let entries = fs::read_dir(from).and_then(Iterator::collect);
        let mut entries: Vec<_> = entries.map_err(|error| about(from, &error))?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            pack(archive, &entry.path(), &name.join(entry.file_name()), owner)?;
        }
    } else if kind.is_symlink() {
        header.set_size(0);
        archive.append_link(&mut header, name, fs::read_link(from)?)?;
    } else if kind.is_file() {
        // As large as its header says, also if it grows or shrinks meanwhile.
        let content = fs::File::open(from).map_err(|error| about(from, &error))?;
        let content = content.chain(io::repeat(0));
        archive.append_data(&mut header, name, content.take(found.len()))?;
    }
    Ok(())
}

/// The error with the name of what it is about.
fn about(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("`{}`: {error}", path.display()))
}

/// The message of an error with those of its causes: the first one alone is often not specific. That of an
/// archive does not tell that the disk is full.
pub fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let causes = std::iter::successors(error.source(), |error| error.source());
    for more in causes.map(ToString::to_string) {
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
    }
    text
}

/// Unpacks into `to`, which is made if it is missing. If `is_file`, the archive has one file, which
/// becomes `to` unless that is a folder. Nothing is written outside of the folder: no link that leads
/// out of it is followed, whether the archive has brought it or not. A process that puts a link in the
/// place of a folder meanwhile can lead one entry out; it could write there itself.
///
/// # Errors
/// An error of reading or of writing, also if an entry would be outside.
pub fn unpack(from: impl Read, to: &Path, is_file: bool) -> io::Result<()> {
    let mut archive = tar::Archive::new(from);
    if is_file && !to.is_dir() {
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent)?;
        }
        if let Some(entry) = archive.entries()?.next() {
            entry?.unpack(to)?;
        }
    } else {
        fs::create_dir_all(to)?;
        archive.unpack(to)?;
    }
    // What follows the end of the archive: the sender is not stopped in the middle of it.
    io::copy(&mut archive.into_inner(), &mut io::sink())?;
    Ok(())
}
