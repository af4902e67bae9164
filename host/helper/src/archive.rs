//! Copies files and folders as a stream: packs and unpacks a tar archive.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// How deeply folders may be nested. What unpacks an archive takes the square of a path's depth for each file.
pub const DEEPEST: usize = 500;

/// The longest path that an error shows whole.
const SHOWN: usize = 200;

/// The most files that [`LeftOut`] names.
const NAMED: usize = 5;

/// The files that a copy leaves out: sockets, pipes and devices, which have no content.
#[derive(Debug, Default)]
pub struct LeftOut {
    names: String,
    count: usize,
}

impl LeftOut {
    /// Adds a file, whose path is asked for if the line will name it.
    pub fn add_with(&mut self, path: impl FnOnce() -> PathBuf) {
        self.count += 1;
        if self.count <= NAMED {
            let comma = if self.count > 1 { ", " } else { "" };
            // With escapes: the name may be from anywhere.
            self.names.push_str(&format!("{comma}{:?}", path()));
        }
    }

    /// The line that names them; none: there are none.
    pub fn line(&self) -> Option<String> {
        let more = match self.count.checked_sub(NAMED) {
            Some(more @ 1..) => format!(" and {more} more"),
            _ => String::new(),
        };
        let names = &self.names;
        (self.count > 0).then(|| {
            format!("not copied, because pipes, sockets and devices have no content: {names}{more}")
        })
    }
}

/// Appends `from` to an archive under `name`. With an empty name, the content of a folder is
/// appended without the folder itself. `owner`: the ids of user and group that are stored. Symbolic
/// links stay links; sockets, pipes and devices have no content and are left out, and returned. Folders that
/// are nested deeper than [`DEEPEST`] are an error.
///
/// # Errors
/// An [`io::Error`] if a file can't be read, or the archive can't be written.
pub fn pack(
    archive: &mut tar::Builder<impl Write>,
    from: &Path,
    name: &Path,
    owner: (u64, u64),
) -> io::Result<LeftOut> {
    let mut left_out = LeftOut::default();
    // What is still to be appended, the next one last. No recursion: the folders may be from anywhere,
    // and a deep tree would overflow the stack, which ends the whole program.
    let mut open = vec![(from.to_owned(), name.to_owned(), 0)];
    while let Some((from, name, depth)) = open.pop() {
        if depth > DEEPEST {
            let why =
                format!("its folders are nested too deeply to be copied (more than {DEEPEST})");
            return Err(about(
                &from,
                &io::Error::new(io::ErrorKind::InvalidInput, why),
            ));
        }
        let inner = append(archive, &from, &name, owner, &mut left_out)?;
        open.extend(
            inner
                .into_iter()
                .map(|(from, name)| (from, name, depth + 1)),
        );
    }
    Ok(left_out)
}

/// Appends one file or folder. Returns what is in the folder, with the names there, the first one last.
fn append(
    archive: &mut tar::Builder<impl Write>,
    from: &Path,
    name: &Path,
    owner: (u64, u64),
    left_out: &mut LeftOut,
) -> io::Result<Vec<(PathBuf, PathBuf)>> {
    let mut inside = Vec::new();
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
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.file_name()));
        let inner = entries.iter();
        inside.extend(inner.map(|entry| (entry.path(), name.join(entry.file_name()))));
    } else if kind.is_symlink() {
        header.set_size(0);
        let target = fs::read_link(from)?;
        // The other form makes `a/b` of `a//b/`; a longer target has an entry of its own.
        match header.set_link_name_literal(target.as_os_str().as_bytes()) {
            Ok(()) => archive.append_data(&mut header, name, io::empty())?,
            Err(_) => archive.append_link(&mut header, name, target)?,
        }
    } else if kind.is_file() {
        // The content has exactly the size in the header, even if the file grows or shrinks
        // meanwhile.
        let content = fs::File::open(from).map_err(|error| about(from, &error))?;
        let content = content.chain(io::repeat(0));
        archive.append_data(&mut header, name, content.take(found.len()))?;
    } else {
        left_out.add_with(|| from.to_owned());
    }
    Ok(inside)
}

/// Adds a path to an error's message.
fn about(path: &Path, error: &io::Error) -> io::Error {
    let shown = path.display().to_string();
    let message = match shown.char_indices().nth(SHOWN) {
        None => format!("`{shown}`: {error}"),
        Some((end, _)) => format!("`{}...`: {error}", &shown[..end]),
    };
    io::Error::new(error.kind(), message)
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
