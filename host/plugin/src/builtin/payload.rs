//! The data after the end of a shipped binary: the machine code of its plugins.
//!
//! ```text
//! program │ code of BASE, as it is │ code of the others, packed by what it shares with BASE │ index │ tail
//! ```
//!
//! The tail is the index's length (eight bytes) and the mark. The loader of ELF files ignores data
//! after the end of the program.

use std::borrow::Cow;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::FileExt as _;
use std::sync::OnceLock;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use super::packing;

const MARK: &[u8; 16] = b"\0mswea-host-aot3";
const TAIL: u64 = 8 + MARK.len() as u64;

/// Bytes that the code of one plugin may have.
const MOST_CODE: usize = 512 << 20;

/// The plugin whose code is stored unpacked. The code of the others is packed as the differences
/// from it. It is the adapter that most runs use.
pub(super) const BASE: &str = "openai";

#[derive(Serialize, Deserialize)]
struct Block {
    /// CRC-32 of the bytes in the file. Damaged machine code would be executed, so it is checked
    /// first. It is not for protection: a process that can change the code can also change the program.
    crc32: u32,
    start: u64,
    len: u64,
}

#[derive(Serialize, Deserialize)]
struct PayloadEntry {
    /// Digest of the plugin that the code belongs to.
    plugin: String,
    #[serde(flatten)]
    block: Block,
}

#[derive(Serialize, Deserialize)]
struct Index {
    /// The code of the plugin that is not packed.
    base: PayloadEntry,
    /// The code of the others.
    packed: Vec<PayloadEntry>,
}

/// The payload of the running program.
pub(super) struct Payload {
    file: File,
    index: Index,
    /// The offset of the index, which follows the code.
    end: u64,
    /// The base's code after it was read once. Most plugins of a run need it.
    base: OnceLock<Vec<u8>>,
}

impl Payload {
    /// The payload of the running program, if it has one. It is read once.
    pub(super) fn own() -> Option<&'static Self> {
        static OWN: OnceLock<Option<Payload>> = OnceLock::new();
        OWN.get_or_init(|| {
            own_file().and_then(Self::read).unwrap_or_else(|error| {
                tracing::debug!(%error, "no ahead-of-time code");
                None
            })
        })
        .as_ref()
    }

    fn read(mut file: File) -> anyhow::Result<Option<Self>> {
        let size = file.seek(SeekFrom::End(0))?;
        let Some(tail_start) = size.checked_sub(TAIL) else {
            return Ok(None);
        };
        let mut tail = [0; TAIL as usize];
        file.read_exact_at(&mut tail, tail_start)?;
        let Some((len, mark)) = tail.split_first_chunk() else {
            return Ok(None);
        };
        if mark != MARK {
            return Ok(None);
        }
        let len = u64::from_le_bytes(*len);
        let end = tail_start
            .checked_sub(len)
            .context("the index is longer than the file")?;
        let mut index = vec![0; usize::try_from(len)?];
        file.read_exact_at(&mut index, end)?;
        let index = serde_json::from_slice(&index)?;
        Ok(Some(Self {
            file,
            index,
            end,
            base: OnceLock::new(),
        }))
    }

    /// The offset at which the program ends and the payload starts.
    fn start(&self) -> u64 {
        self.index.base.block.start
    }

    /// The code of the plugin with this digest, if it is here.
    ///
    /// # Errors
    /// When the file is damaged.
    pub(super) fn code(&self, plugin: &str) -> anyhow::Result<Option<Cow<'_, [u8]>>> {
        if self.index.base.plugin == plugin {
            return Ok(Some(self.base()?.into()));
        }
        let packed = &self.index.packed;
        let Some(entry) = packed.iter().find(|entry| entry.plugin == plugin) else {
            return Ok(None);
        };
        let packed = self.bytes(&entry.block)?;
        let code = packing::unpack(self.base()?, &packed, MOST_CODE)?;
        Ok(Some(code.into()))
    }

    fn base(&self) -> anyhow::Result<&[u8]> {
        if let Some(base) = self.base.get() {
            return Ok(base);
        }
        let base = self.bytes(&self.index.base.block)?;
        Ok(self.base.get_or_init(|| base))
    }

    fn bytes(&self, block: &Block) -> anyhow::Result<Vec<u8>> {
        // Bounded before anything is allocated for it.
        let end = block.start.checked_add(block.len);
        anyhow::ensure!(
            end.is_some_and(|end| end <= self.end),
            "it lies outside the file"
        );
        let mut bytes = vec![0; usize::try_from(block.len)?];
        self.file.read_exact_at(&mut bytes, block.start)?;
        anyhow::ensure!(
            crc32fast::hash(&bytes) == block.crc32,
            "its checksum differs"
        );
        Ok(bytes)
    }
}

fn own_file() -> anyhow::Result<File> {
    Ok(File::open("/proc/self/exe").or_else(|_| File::open(std::env::current_exe()?))?)
}

/// The running program without its payload, so that a binary that `ship` writes has exactly one
/// payload, even if the running program is itself a shipped binary.
///
/// # Errors
/// When the file can't be read.
pub(super) fn own_program() -> anyhow::Result<Vec<u8>> {
    let mut program = Vec::new();
    own_file()?.read_to_end(&mut program)?;
    if let Some(payload) = Payload::own() {
        program.truncate(usize::try_from(payload.start())?);
    }
    Ok(program)
}

/// Appends a payload to `program`: the code of the plugin that is the base, and of the others, each with
/// its plugin's digest.
///
/// # Errors
/// When the index can't be written as JSON.
pub(super) fn append(
    program: &mut Vec<u8>,
    base: &(String, Vec<u8>),
    others: &[(String, Vec<u8>)],
) -> anyhow::Result<()> {
    let mut add = |plugin: &str, bytes: &[u8]| {
        let start = program.len() as u64;
        program.extend_from_slice(bytes);
        PayloadEntry {
            plugin: plugin.to_owned(),
            block: Block {
                crc32: crc32fast::hash(bytes),
                start,
                len: bytes.len() as u64,
            },
        }
    };
    let index = Index {
        base: add(&base.0, &base.1),
        packed: others
            .iter()
            .map(|(plugin, code)| add(plugin, &packing::pack(&base.1, code)))
            .collect(),
    };
    let index = serde_json::to_vec(&index)?;
    program.extend_from_slice(&index);
    program.extend_from_slice(&(index.len() as u64).to_le_bytes());
    program.extend_from_slice(MARK);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn file(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    fn payload() -> Vec<u8> {
        let mut program = b"program".to_vec();
        let base = ("b".to_owned(), b"the code of the base ".repeat(40));
        let others = [
            ("x".to_owned(), b"the code of the bass ".repeat(30)),
            ("y".to_owned(), Vec::new()),
        ];
        append(&mut program, &base, &others).unwrap();
        program
    }

    #[test]
    fn what_was_appended_is_found() {
        let payload = Payload::read(file(&payload())).unwrap().unwrap();
        assert_eq!(payload.start(), 7);
        let code = |plugin| payload.code(plugin).unwrap().map(Cow::into_owned);
        assert_eq!(code("x"), Some(b"the code of the bass ".repeat(30)));
        assert_eq!(code("b"), Some(b"the code of the base ".repeat(40)));
        assert_eq!(code("y"), Some(Vec::new()));
        assert_eq!(code("z"), None);
    }

    #[test]
    fn a_program_without_payload_has_none() {
        for bytes in [&b""[..], b"short", &[7; 100]] {
            assert!(Payload::read(file(bytes)).unwrap().is_none());
        }
    }

    #[test]
    fn damaged_code_is_not_handed_out() {
        let whole = payload();
        // One wrong bit in the base's code, and one in the packed code.
        for (at, hurt) in [(10, ["b", "x"]), (7 + 21 * 40 + 3, ["x", "x"])] {
            let mut bytes = whole.clone();
            bytes[at] ^= 4;
            let payload = Payload::read(file(&bytes)).unwrap().unwrap();
            for plugin in hurt {
                let error = payload.code(plugin).unwrap_err().to_string();
                assert_eq!(error, "its checksum differs");
            }
        }
        let mut long = whole.clone();
        let len = long.len() - 24;
        long[len..len + 8].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(Payload::read(file(&long)).is_err());
    }
}
