//! Response bodies that a server or a proxy has compressed. The host never asks for compression,
//! but some servers compress all the same.

use bytes::Bytes;
use crc32fast::Hasher;
use miniz_oxide::inflate::stream::{InflateState, inflate};
use miniz_oxide::{DataFormat, MZError, MZFlush, MZStatus};
use reqwest::header::{CONTENT_ENCODING, HeaderMap};

/// How many bytes are unpacked at once.
const PIECE: usize = 64 * 1024;

/// The longest gzip header, with name and comment, that is accepted.
const LONGEST_HEADER: usize = 64 * 1024;

/// The length of gzip's trailer: checksum and length.
const TRAILER: usize = 8;

/// Unpacks a body piece by piece.
#[derive(Default)]
pub(super) struct Decoder {
    /// None for a body that is not compressed.
    packed: Option<CompressedBody>,
}

struct CompressedBody {
    form: CompressionFormat,
    stage: DecodingStage,
    /// The part of a header or trailer that has arrived so far.
    kept: Vec<u8>,
    state: Box<InflateState>,
    /// Checksum of the data unpacked since the last header.
    sum: Hasher,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum CompressionFormat {
    Gzip,
    Deflate,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum DecodingStage {
    /// Nothing of the body has arrived.
    Empty,
    Header,
    Data,
    Trailer,
    /// A gzip member has ended. Another member may follow; other data after it is ignored.
    Done,
}

impl Decoder {
    /// The decoder for a body with these headers.
    ///
    /// # Errors
    /// The name of a content coding that is not supported.
    pub fn of(headers: &HeaderMap) -> Result<Self, String> {
        let mut packed = None;
        let codings = headers.get_all(CONTENT_ENCODING).iter();
        let codings: Vec<String> = codings
            .map(|value| String::from_utf8_lossy(value.as_bytes()).to_ascii_lowercase())
            .collect();
        for coding in codings
            .iter()
            .flat_map(|list| list.split(','))
            .map(str::trim)
        {
            let form = match coding {
                "" | "identity" => continue,
                "gzip" | "x-gzip" if packed.is_none() => CompressionFormat::Gzip,
                "deflate" if packed.is_none() => CompressionFormat::Deflate,
                _ => return Err(codings.join(", ")),
            };
            packed = Some(CompressedBody::new(form));
        }
        Ok(Self { packed })
    }

    /// Whether the body is compressed.
    pub fn unpacks(&self) -> bool {
        self.packed.is_some()
    }

    /// Unpacks a piece of the body; stops a little above `room` bytes.
    ///
    /// # Errors
    /// The name of the coding, if the data is not in that coding.
    pub fn decode(&mut self, piece: Bytes, room: u64) -> Result<Bytes, &'static str> {
        let Some(packed) = &mut self.packed else {
            return Ok(piece);
        };
        let mut out = Vec::new();
        match packed.take(&piece, &mut out, room) {
            Some(()) => Ok(out.into()),
            None => Err(match packed.form {
                CompressionFormat::Gzip => "gzip",
                CompressionFormat::Deflate => "deflate",
            }),
        }
    }

    /// Whether the body ended before the compressed data did.
    pub fn is_torn(&self) -> bool {
        let stage = self.packed.as_ref().map(|packed| packed.stage);
        !matches!(
            stage,
            None | Some(DecodingStage::Empty | DecodingStage::Done)
        )
    }
}

impl CompressedBody {
    fn new(form: CompressionFormat) -> Self {
        Self {
            form,
            stage: DecodingStage::Empty,
            kept: Vec::new(),
            state: InflateState::new_boxed(DataFormat::Raw),
            sum: Hasher::new(),
        }
    }

    /// Unpacks a piece; none if the data is not in this coding.
    fn take(&mut self, piece: &[u8], out: &mut Vec<u8>, room: u64) -> Option<()> {
        let mut joined = std::mem::take(&mut self.kept);
        let mut input = match joined.is_empty() {
            true => piece,
            false => {
                joined.extend_from_slice(piece);
                &joined
            }
        };
        while !input.is_empty() {
            match self.stage {
                DecodingStage::Empty => self.stage = DecodingStage::Header,
                DecodingStage::Header => {
                    let Some((length, data)) = header(self.form, input)? else {
                        self.kept = input.to_vec();
                        return (input.len() <= LONGEST_HEADER).then_some(());
                    };
                    input = &input[length..];
                    self.state = InflateState::new_boxed(data);
                    self.sum = Hasher::new();
                    self.stage = DecodingStage::Data;
                }
                DecodingStage::Data => {
                    input = self.data(input, out, room)?;
                    if self.stage == DecodingStage::Data {
                        return Some(());
                    }
                }
                DecodingStage::Trailer => {
                    let Some((trailer, rest)) = input.split_at_checked(TRAILER) else {
                        self.kept = input.to_vec();
                        return Some(());
                    };
                    if trailer[..4] != self.sum.clone().finalize().to_le_bytes() {
                        return None;
                    }
                    input = rest;
                    self.stage = DecodingStage::Done;
                }
                DecodingStage::Done
                    if self.form == CompressionFormat::Gzip && input[0] == MAGIC[0] =>
                {
                    self.stage = DecodingStage::Header;
                }
                // Zeros may fill the last block.
                DecodingStage::Done => return Some(()),
            }
        }
        Some(())
    }

    /// Unpacks data; returns the input after its end.
    fn data<'a>(&mut self, mut input: &'a [u8], out: &mut Vec<u8>, room: u64) -> Option<&'a [u8]> {
        let mut buffer = vec![0; PIECE];
        loop {
            let result = inflate(&mut self.state, input, &mut buffer, MZFlush::None);
            let unpacked = &buffer[..result.bytes_written];
            input = &input[result.bytes_consumed..];
            out.extend_from_slice(unpacked);
            if self.form == CompressionFormat::Gzip {
                self.sum.update(unpacked);
            }
            match result.status {
                Ok(MZStatus::StreamEnd) => {
                    self.stage = match self.form {
                        CompressionFormat::Gzip => DecodingStage::Trailer,
                        CompressionFormat::Deflate => DecodingStage::Done,
                    };
                    return Some(input);
                }
                // More input is needed.
                Err(MZError::Buf) => return Some(input),
                Ok(_) if input.is_empty() && unpacked.len() < PIECE => return Some(input),
                Ok(_) if out.len() as u64 > room => return Some(input),
                Ok(_) => {}
                Err(_) => return None,
            }
        }
    }
}

/// The first bytes of gzip: its signature, and the only compression method.
const MAGIC: [u8; 3] = [0x1f, 0x8b, 8];

/// The length of the header at the start of `input`, and the format of the data after it. `None`:
/// `input` does not begin with a header. `Some(None)`: more input is needed.
#[expect(
    clippy::option_option,
    reason = "no header is not the same as a header whose end is missing"
)]
fn header(form: CompressionFormat, input: &[u8]) -> Option<Option<(usize, DataFormat)>> {
    if form == CompressionFormat::Deflate {
        // `deflate` is used for both forms: with zlib's header, as the standard says, and without.
        let [first, second, ..] = *input else {
            return Some(None);
        };
        let has_header = first & 15 == 8 && u16::from_be_bytes([first, second]) % 31 == 0;
        let data = match has_header {
            true => DataFormat::Zlib,
            false => DataFormat::Raw,
        };
        return Some(Some((0, data)));
    }
    let known = input.len().min(MAGIC.len());
    if input[..known] != MAGIC[..known] {
        return None;
    }
    Some(gzip_header(input).map(|length| (length, DataFormat::Raw)))
}

/// The length of gzip's header (RFC 1952, 2.3); none if more input is needed.
fn gzip_header(input: &[u8]) -> Option<usize> {
    let flags = *input.get(3)?;
    let has = |bit: u8| flags & bit != 0;
    let mut length = 10;
    if has(4) {
        let extra = [*input.get(length)?, *input.get(length + 1)?];
        length += 2 + usize::from(u16::from_le_bytes(extra));
    }
    // The name and the comment end with a zero byte.
    for bit in [8, 16] {
        if has(bit) {
            length += input.get(length..)?.iter().position(|byte| *byte == 0)? + 1;
        }
    }
    if has(2) {
        length += 2;
    }
    (input.len() >= length).then_some(length)
}

#[cfg(test)]
mod tests {
    use miniz_oxide::deflate::{compress_to_vec, compress_to_vec_zlib};

    use super::*;

    const TEXT: &[u8] = b"{\"choices\": [\"some text, some text, some more text\"]}";

    fn gzip(text: &[u8], flags: u8, header: &[u8]) -> Vec<u8> {
        let mut sum = Hasher::new();
        sum.update(text);
        let mut out = vec![0x1f, 0x8b, 8, flags, 0, 0, 0, 0, 0, 255];
        out.extend_from_slice(header);
        out.extend(compress_to_vec(text, 6));
        out.extend(sum.finalize().to_le_bytes());
        out.extend(u32::try_from(text.len()).unwrap().to_le_bytes());
        out
    }

    fn decoder(coding: &str) -> Result<Decoder, String> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_ENCODING, coding.parse().unwrap());
        Decoder::of(&headers)
    }

    fn read(coding: &str, body: &[u8], cut: usize) -> Result<(Vec<u8>, bool), &'static str> {
        let mut decoder = decoder(coding).unwrap();
        let mut out = Vec::new();
        for piece in [&body[..cut], &body[cut..]] {
            let piece = Bytes::copy_from_slice(piece);
            out.extend(decoder.decode(piece, 1 << 20)?);
        }
        Ok((out, decoder.is_torn()))
    }

    #[test]
    fn every_form_is_read_wherever_it_is_cut() {
        let named = gzip(TEXT, 4 + 8 + 16 + 2, b"\x03\0abcname\0comment\0\x12\x34");
        let mut two = gzip(&TEXT[..20], 0, b"");
        two.extend(gzip(&TEXT[20..], 0, b""));
        let mut filled = gzip(TEXT, 0, b"");
        filled.extend([0; 9]);
        for (coding, body) in [
            ("gzip", gzip(TEXT, 0, b"")),
            ("X-GZip", named),
            ("identity, gzip", two),
            ("gzip", filled),
            ("deflate", compress_to_vec_zlib(TEXT, 6)),
            ("deflate", compress_to_vec(TEXT, 6)),
            ("identity", TEXT.to_vec()),
            ("", TEXT.to_vec()),
        ] {
            for cut in 0..=body.len() {
                let read = read(coding, &body, cut);
                assert_eq!(read, Ok((TEXT.to_vec(), false)), "{coding} at {cut}");
            }
        }
        let long = vec![b'x'; 1 << 19];
        let body = gzip(&long, 0, b"");
        assert_eq!(read("gzip", &body, 30), Ok((long, false)));
    }

    #[test]
    fn what_is_torn_or_something_else_is_told() {
        for (coding, body) in [
            ("gzip", gzip(TEXT, 0, b"")),
            ("deflate", compress_to_vec_zlib(TEXT, 6)),
        ] {
            for end in 1..body.len() {
                let (_, is_torn) = read(coding, &body[..end], end / 2).unwrap();
                assert!(is_torn, "{coding} until {end}");
            }
            // A response without a body, for example to a HEAD.
            assert_eq!(read(coding, b"", 0), Ok((Vec::new(), false)));
        }
        let mut changed = gzip(TEXT, 0, b"");
        let end = changed.len() - 6;
        changed[end] ^= 1;
        assert_eq!(read("gzip", &changed, 5), Err("gzip"));
        assert_eq!(read("gzip", TEXT, 0), Err("gzip"));
        assert_eq!(read("deflate", b"\x78\x9c\xff\xff", 1), Err("deflate"));
        for coding in ["br", "gzip, gzip", "zstd"] {
            assert_eq!(decoder(coding).err().as_deref(), Some(coding));
        }
    }

    #[test]
    fn a_bomb_is_not_unpacked_as_a_whole() {
        let body = gzip(&vec![0; 64 << 20], 0, b"");
        let mut decoder = decoder("gzip").unwrap();
        let out = decoder.decode(body.into(), 1000).unwrap();
        assert!((1001..=1 << 20).contains(&out.len()), "{}", out.len());
    }
}
