//! Converts a zip archive to a tar archive, which a helper unpacks. Unlike SWE-ReX, it keeps the
//! permissions in the zip archive; a link becomes a file with the link's target as its content.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write as _};

use miniz_oxide::inflate::stream::{InflateState, inflate};
use miniz_oxide::{DataFormat, MZFlush, MZStatus};

/// The longest record at the end, with its comment.
const END: u64 = 22 + 65_535;
/// The largest directory, in bytes.
const DIRECTORY: u64 = 256 * 1024 * 1024;
/// The most bytes that an archive may unpack to.
const LARGEST: u64 = 16 * 1024 * 1024 * 1024;

/// A file of an archive.
struct ZipEntry {
    name: String,
    mode: u32,
    method: u16,
    crc: u32,
    packed: u64,
    size: u64,
    /// The position of its own head.
    at: u64,
}

fn bad(why: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("the zip archive is unusable: {why}"),
    )
}

/// Converts the archive; the result is positioned at its beginning.
///
/// # Errors
/// `InvalidData` if it is not a valid zip archive; the system's errors of reading and writing.
pub(super) fn as_tar(zip: impl Read + Seek) -> io::Result<File> {
    let mut zip = BufReader::new(zip);
    let entries = entries(&mut zip)?;
    let sizes = entries
        .iter()
        .fold(0_u64, |sum, it| sum.saturating_add(it.size));
    if sizes > LARGEST {
        return Err(bad("it unpacks to more than 16 GiB"));
    }
    let mut archive = tar::Builder::new(BufWriter::new(tempfile::tempfile()?));
    for entry in entries {
        let mut header = tar::Header::new_gnu();
        header.set_mode(entry.mode);
        header.set_mtime(0);
        if entry.name.ends_with('/') {
            header.set_entry_type(tar::EntryType::Directory);
            header.set_size(0);
            archive.append_data(&mut header, &entry.name, io::empty())?;
            continue;
        }
        header.set_size(entry.size);
        let mut append = || {
            let mut content = entry.content(&mut zip)?;
            archive.append_data(&mut header, &entry.name, &mut content)?;
            content.check(&entry)
        };
        append()
            .map_err(|error| io::Error::new(error.kind(), format!("`{}`: {error}", entry.name)))?;
    }
    let mut writer = archive.into_inner()?;
    writer.flush()?;
    let mut file = writer
        .into_inner()
        .map_err(io::IntoInnerError::into_error)?;
    file.seek(SeekFrom::Start(0))?;
    Ok(file)
}

fn number<const COUNT: usize>(bytes: &[u8], at: usize) -> io::Result<[u8; COUNT]> {
    let found = bytes.get(at..).and_then(<[u8]>::first_chunk);
    found.copied().ok_or_else(|| bad("it is cut off"))
}

fn u16_at(bytes: &[u8], at: usize) -> io::Result<u16> {
    number(bytes, at).map(u16::from_le_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> io::Result<u32> {
    number(bytes, at).map(u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> io::Result<u64> {
    number(bytes, at).map(u64::from_le_bytes)
}

fn read_at(zip: &mut (impl Read + Seek), at: u64, length: u64) -> io::Result<Vec<u8>> {
    zip.seek(SeekFrom::Start(at))?;
    let mut bytes = Vec::new();
    zip.take(length).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The files in the directory at the end.
fn entries(zip: &mut (impl Read + Seek)) -> io::Result<Vec<ZipEntry>> {
    let size = zip.seek(SeekFrom::End(0))?;
    let begin = size.saturating_sub(END);
    let last = read_at(zip, begin, END)?;
    let at = last.windows(4).rposition(|bytes| bytes == b"PK\x05\x06");
    let at = at.ok_or_else(|| bad("it has no directory"))?;
    let end = last.get(at..at + 22).ok_or_else(|| bad("it is cut off"))?;
    let mut length = u64::from(u32_at(end, 12)?);
    let mut from = u64::from(u32_at(end, 16)?);
    let locator = at.checked_sub(20).map(|at| &last[at..at + 20]);
    if let Some(locator) = locator.filter(|it| it.starts_with(b"PK\x06\x07")) {
        let record = read_at(zip, u64_at(locator, 8)?, 56)?;
        if !record.starts_with(b"PK\x06\x06") {
            return Err(bad("it has no directory"));
        }
        (length, from) = (u64_at(&record, 40)?, u64_at(&record, 48)?);
    }
    if length > DIRECTORY {
        return Err(bad("its directory is too large"));
    }
    let directory = read_at(zip, from, length)?;
    let mut rest = directory.as_slice();
    let mut entries = Vec::new();
    while rest.starts_with(b"PK\x01\x02") {
        let (entry, length) = ZipEntry::of(rest)?;
        entries.push(entry);
        rest = rest.get(length..).ok_or_else(|| bad("it is cut off"))?;
    }
    match rest {
        [] => Ok(entries),
        _ => Err(bad("its directory is damaged")),
    }
}

impl ZipEntry {
    /// The first entry of a directory, and the entry's length there.
    fn of(bytes: &[u8]) -> io::Result<(Self, usize)> {
        let lengths = [u16_at(bytes, 28)?, u16_at(bytes, 30)?, u16_at(bytes, 32)?];
        let [name, extra, comment] = lengths.map(usize::from);
        let cut = || bad("it is cut off");
        let name_bytes = bytes.get(46..46 + name).ok_or_else(cut)?;
        let extra_bytes = bytes.get(46 + name..46 + name + extra).ok_or_else(cut)?;
        if u16_at(bytes, 8)? & 1 != 0 {
            return Err(bad("it is encrypted"));
        }
        let attributes = u32_at(bytes, 38)? >> 16;
        let mode = match attributes & 0o7777 {
            0 => 0o644,
            mode => mode & 0o777,
        };
        let mut entry = Self {
            name: String::from_utf8_lossy(name_bytes).into_owned(),
            mode,
            method: u16_at(bytes, 10)?,
            crc: u32_at(bytes, 16)?,
            packed: u32_at(bytes, 20)?.into(),
            size: u32_at(bytes, 24)?.into(),
            at: u32_at(bytes, 42)?.into(),
        };
        if entry.name.ends_with('/') && attributes == 0 {
            entry.mode = 0o755;
        }
        entry.widen(extra_bytes)?;
        Ok((entry, 46 + name + extra + comment))
    }

    /// Reads the numbers that do not fit into 32 bits.
    fn widen(&mut self, mut extra: &[u8]) -> io::Result<()> {
        while extra.len() >= 4 {
            let (id, length) = (u16_at(extra, 0)?, usize::from(u16_at(extra, 2)?));
            let content = extra.get(4..4 + length).unwrap_or_default();
            if id == 1 {
                let mut at = 0;
                for wide in [&mut self.size, &mut self.packed, &mut self.at] {
                    if *wide == u64::from(u32::MAX) {
                        *wide = u64_at(content, at)?;
                        at += 8;
                    }
                }
            }
            extra = extra.get(4 + length..).unwrap_or_default();
        }
        Ok(())
    }

    /// The content of the file.
    fn content<R: Read + Seek>(&self, zip: R) -> io::Result<ZipContent<io::Take<R>>> {
        let mut zip = zip;
        let head = read_at(&mut zip, self.at, 30)?;
        if !head.starts_with(b"PK\x03\x04") {
            return Err(bad("its directory is damaged"));
        }
        let skipped = u64::from(u16_at(&head, 26)?) + u64::from(u16_at(&head, 28)?);
        zip.seek(SeekFrom::Start(self.at + 30 + skipped))?;
        let inflating = match self.method {
            0 => None,
            8 => Some(InflateState::new_boxed(DataFormat::Raw)),
            method => return Err(bad(&format!("its method {method} is unknown"))),
        };
        Ok(ZipContent {
            from: zip.take(self.packed),
            inflating,
            waiting: Vec::new(),
            left: self.size,
            sum: crc32fast::Hasher::new(),
        })
    }
}

/// Reads the content of a file of an archive.
struct ZipContent<R> {
    from: R,
    /// None if the file is not compressed.
    inflating: Option<Box<InflateState>>,
    /// The bytes that were read and not unpacked yet.
    waiting: Vec<u8>,
    /// How many bytes are still to come.
    left: u64,
    sum: crc32fast::Hasher,
}

impl<R: Read> Read for ZipContent<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let room = into
            .len()
            .min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let into = &mut into[..room];
        if into.is_empty() {
            return Ok(0);
        }
        let count = match &mut self.inflating {
            None => self.from.read(into)?,
            Some(state) => loop {
                if self.waiting.is_empty() {
                    self.from
                        .by_ref()
                        .take(64 * 1024)
                        .read_to_end(&mut self.waiting)?;
                }
                let done = inflate(state, &self.waiting, into, MZFlush::None);
                self.waiting.drain(..done.bytes_consumed);
                match done.status {
                    _ if done.bytes_written > 0 => break done.bytes_written,
                    Ok(MZStatus::Ok) if done.bytes_consumed > 0 => {}
                    _ => return Err(bad("a file in it is damaged")),
                }
            },
        };
        self.sum.update(&into[..count]);
        self.left -= count as u64;
        match count {
            0 => Err(bad("a file in it is cut off")),
            count => Ok(count),
        }
    }
}

impl<R> ZipContent<R> {
    fn check(self, entry: &ZipEntry) -> io::Result<()> {
        match self.left == 0 && self.sum.finalize() == entry.crc {
            true => Ok(()),
            false => Err(bad("a file in it is damaged")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    /// An archive with these files: name, mode, content, and whether it is packed.
    fn zip(files: &[(&str, u32, &[u8], bool)]) -> Vec<u8> {
        let (mut bytes, mut directory) = (Vec::new(), Vec::new());
        for (name, mode, content, is_packed) in files {
            let packed = match is_packed {
                true => miniz_oxide::deflate::compress_to_vec(content, 6),
                false => content.to_vec(),
            };
            let mut common = vec![20, 0, 0, 0, if *is_packed { 8 } else { 0 }, 0, 0, 0, 0, 0];
            common.extend(crc32fast::hash(content).to_le_bytes());
            common.extend((packed.len() as u32).to_le_bytes());
            common.extend((content.len() as u32).to_le_bytes());
            common.extend((name.len() as u16).to_le_bytes());
            common.extend([0, 0]);
            directory.extend(b"PK\x01\x02\x14\x03");
            directory.extend(&common);
            directory.extend([0; 6]);
            directory.extend((mode << 16).to_le_bytes());
            directory.extend((bytes.len() as u32).to_le_bytes());
            directory.extend(name.bytes());
            bytes.extend(b"PK\x03\x04");
            bytes.extend(&common);
            bytes.extend(name.bytes());
            bytes.extend(&packed);
        }
        let begin = bytes.len() as u32;
        bytes.extend(&directory);
        bytes.extend(b"PK\x05\x06\0\0\0\0");
        bytes.extend([files.len() as u8, 0, files.len() as u8, 0]);
        bytes.extend((directory.len() as u32).to_le_bytes());
        bytes.extend(begin.to_le_bytes());
        bytes.extend([0, 0]);
        bytes
    }

    #[test]
    fn files_keep_their_content_and_their_permissions() {
        let large = b"0123456789".repeat(100_000);
        let bytes = zip(&[
            ("a/", 0o40755, b"", false),
            ("a/run", 0o100_755, b"#!/bin/sh\n", true),
            ("a/plain", 0, b"x", false),
            ("empty", 0o100_600, b"", true),
            ("large", 0o100_644, &large, true),
        ]);
        let mut tar = tar::Archive::new(as_tar(Cursor::new(bytes)).unwrap());
        let found: Vec<_> = tar
            .entries()
            .unwrap()
            .map(|entry| {
                let mut entry = entry.unwrap();
                let path = entry.path().unwrap().display().to_string();
                let mode = entry.header().mode().unwrap();
                let mut content = Vec::new();
                entry.read_to_end(&mut content).unwrap();
                (path, mode, content)
            })
            .collect();
        let wanted = [
            ("a/", 0o755, &b""[..]),
            ("a/run", 0o755, b"#!/bin/sh\n"),
            ("a/plain", 0o644, b"x"),
            ("empty", 0o600, b""),
            ("large", 0o644, &large),
        ];
        let wanted = wanted.map(|(path, mode, content)| (path.to_owned(), mode, content.to_vec()));
        assert_eq!(found, wanted);
    }

    #[test]
    fn damage_is_an_error() {
        let bytes = zip(&[("run", 0o644, b"content of a file", true)]);
        for length in 0..bytes.len() {
            assert!(as_tar(Cursor::new(&bytes[..length])).is_err(), "{length}");
        }
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x55;
            // Reading a damaged archive must end, with any result.
            let _ = as_tar(Cursor::new(damaged));
        }
        let mut damaged = bytes.clone();
        damaged[40] ^= 1;
        let error = as_tar(Cursor::new(damaged)).unwrap_err().to_string();
        assert!(error.starts_with("`run`: "), "{error}");
    }
}
