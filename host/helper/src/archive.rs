//! Copies files and folders as a stream: packs and unpacks a tar archive.

use std::fs;
use std::io::{self, Read, Write};
use std::path::Path;

/// Appends `from` to an archive under `name`. With an empty name, the content of a folder is
/// appended without the folder itself. `owner`: the ids of user and group that are stored. Symbolic
/// links stay links; sockets, pipes and devices have no content and are left out.
///
/// # Errors
/// An [`io::Error`] if a file can't be read, or the archive can't be written.
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
        // The content has exactly the size in the header, even if the file grows or shrinks
        // meanwhile.
        let content = fs::File::open(from).map_err(|error| about(from, &error))?;
        let content = content.chain(io::repeat(0));
        archive.append_data(&mut header, name, content.take(found.len()))?;
    }
    Ok(())
}

/// Adds a path to an error's message.
fn about(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("`{}`: {error}", path.display()))
}

/// The messages of an error and its causes: the first one alone is often not specific. That of an
/// archive, for example, does not mention a full disk.
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

/// Unpacks into `to`, which is made if it is missing. With `is_file`, the archive has one file,
/// which becomes `to`, or is put into `to` if that is a folder. Nothing is written outside of the
/// folder: links that lead out of it are not followed, whether they are from the archive or not. A
/// process that replaces a folder by a link meanwhile can redirect one entry; but it could write
/// there itself.
///
/// # Errors
/// An [`io::Error`] if the archive can't be read, a file can't be written, or an entry would be
/// outside.
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
    // Reads the bytes after the end of the archive, so that the sender can write all of them.
    io::copy(&mut archive.into_inner(), &mut io::sink())?;
    Ok(())
}
