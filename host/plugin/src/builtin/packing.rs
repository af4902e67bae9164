//! Packs machine code as its differences from other machine code.
//!
//! All plugins are built with one SDK, so most functions of one plugin are also in the others, at
//! other addresses. Two copies of a function differ only in the distances of calls: four bytes in
//! every few dozen. So a copy here need not be exact. It has the distance back to similar bytes (in
//! the code itself, or in the base before it) and the difference of each byte, which is zero for
//! most bytes. There are two streams: the copies, and the code with the differences in place of the
//! copied bytes. Each is deflated. The result has a sixth of the size of a plugin's code; deflate
//! alone, which finds repetitions only within 32 KiB, results in two fifths.

use std::error::Error;
use std::fmt;

use miniz_oxide::deflate::compress_to_vec;
use miniz_oxide::inflate::decompress_slice_iter_to_slice;

/// The number of equal bytes at the beginning of a copy.
const SEED: usize = 8;
/// How many places with the same seed are compared for one copy.
const PLACES: usize = 64;
/// The cost of a byte that differs, in bytes that are equal.
const PENALTY: i64 = 2;
/// A copy ends when its score has decreased by this much.
const PATIENCE: i64 = 24;
/// The lowest score for which a copy is made.
const LEAST: i64 = 16;
/// If a copy at the distance of the last copy has this score, no other distance is tried.
const ENOUGH: i64 = 64;
/// The cost of a distance that differs from the last one.
const NEW_DISTANCE: i64 = 4;

/// Packed bytes are not what [`pack`] has made.
#[derive(Debug)]
pub(super) struct Damaged(&'static str);

impl fmt::Display for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl Error for Damaged {}

/// Packs `code` as its differences from `base`.
pub(super) fn pack(base: &[u8], code: &[u8]) -> Vec<u8> {
    let all = [base, code].concat();
    let mut places = Places::new(&all);
    let (mut steps, mut content) = (Vec::new(), code.to_vec());
    let (mut at, mut copied, mut distance) = (base.len(), base.len(), 0);
    while at < all.len() {
        places.add_until(at);
        let Some(copy) = places.best(at, distance) else {
            at += 1;
            continue;
        };
        let start = at - base.len();
        for (offset, byte) in content[start..start + copy.len].iter_mut().enumerate() {
            *byte = byte.wrapping_sub(all[at - copy.distance + offset]);
        }
        // Distances repeat, so the difference to the last one is small.
        let farther = copy.distance.wrapping_sub(distance).cast_signed() as i64;
        for number in [(at - copied) as u64, copy.len as u64, zigzag(farther)] {
            put(&mut steps, number);
        }
        distance = copy.distance;
        at += copy.len;
        copied = at;
    }
    let mut packed = Vec::new();
    for stream in [steps, content] {
        let deflated = compress_to_vec(&stream, 9);
        put(&mut packed, stream.len() as u64);
        put(&mut packed, deflated.len() as u64);
        packed.extend_from_slice(&deflated);
    }
    packed
}

/// Unpacks what [`pack`] has made with the same base.
///
/// # Errors
/// When the bytes are not what `pack` has made, or when more than `limit` bytes come out.
pub(super) fn unpack(base: &[u8], mut packed: &[u8], limit: usize) -> Result<Vec<u8>, Damaged> {
    let mut stream = || {
        let (size, len) = (take(&mut packed)?, take(&mut packed)?);
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        if size > limit {
            return Err(Damaged("a stream is too large"));
        }
        let mut bytes = vec![0; size];
        let deflated = cut(&mut packed, len)?;
        let written =
            decompress_slice_iter_to_slice(&mut bytes, [deflated].into_iter(), false, true);
        match written {
            Ok(written) if written == size => Ok(bytes),
            _ => Err(Damaged("a stream is damaged")),
        }
    };
    let (steps, mut code) = (stream()?, stream()?);
    let mut steps = &*steps;
    let (mut at, mut distance) = (0_usize, 0_i64);
    let outside = || Damaged("a copy refers to bytes outside of the code");
    while !steps.is_empty() {
        let (own, len) = (take(&mut steps)?, take(&mut steps)?);
        distance = distance.wrapping_add(unzigzag(take(&mut steps)?));
        let number = |number: u64| usize::try_from(number).ok();
        let start = number(own).and_then(|own| at.checked_add(own));
        let end = start
            .zip(number(len))
            .and_then(|(start, len)| start.checked_add(len));
        let (Some(start), Some(end)) = (start, end.filter(|end| *end <= code.len())) else {
            return Err(outside());
        };
        let from = usize::try_from(distance)
            .ok()
            .and_then(|distance| (base.len() + start).checked_sub(distance))
            .filter(|from| *from < base.len() + start)
            .ok_or_else(outside)?;
        let (done, copied) = code[..end].split_at_mut(start);
        // The copied bytes may begin in the base and continue in the code.
        let in_base = base.get(from..).unwrap_or_default();
        let in_code = &done[from.saturating_sub(base.len()).min(done.len())..];
        if in_base.len() + in_code.len() < copied.len() {
            return Err(outside());
        }
        let (first, second) = copied.split_at_mut(in_base.len().min(copied.len()));
        add(first, in_base);
        add(second, in_code);
        at = end;
    }
    Ok(code)
}

/// Adds to each byte the byte at the same index of `other`, which may be longer.
fn add(bytes: &mut [u8], other: &[u8]) {
    for (byte, other) in bytes.iter_mut().zip(other) {
        *byte = byte.wrapping_add(*other);
    }
}

struct Copy {
    len: usize,
    /// The distance to the copied bytes.
    distance: usize,
    score: i64,
}

/// The earlier positions of each seed.
struct Places<'a> {
    all: &'a [u8],
    /// The last position of each seed, by the seed's hash.
    last: Vec<u32>,
    /// For each position the last position before it with the same hash.
    before: Vec<u32>,
    /// The end of the positions that have been added.
    added: usize,
}

const NOWHERE: u32 = u32::MAX;
const HASH_BITS: u32 = 20;

impl<'a> Places<'a> {
    fn new(all: &'a [u8]) -> Self {
        Self {
            all,
            last: vec![NOWHERE; 1 << HASH_BITS],
            before: vec![NOWHERE; all.len()],
            added: 0,
        }
    }

    /// The hash of the seed at a position, as an index of `last`.
    fn slot(&self, at: usize) -> Option<usize> {
        let seed = self.all.get(at..)?.first_chunk::<SEED>()?;
        let hash = u64::from_le_bytes(*seed).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        usize::try_from(hash >> (64 - HASH_BITS)).ok()
    }

    fn add_until(&mut self, end: usize) {
        for at in self.added..end {
            let (Some(slot), Ok(place)) = (self.slot(at), u32::try_from(at)) else {
                break;
            };
            self.before[at] = std::mem::replace(&mut self.last[slot], place);
        }
        self.added = end;
    }

    /// The copy with the highest score for the bytes at `at`, if the score is at least [`LEAST`].
    fn best(&self, at: usize, last_distance: usize) -> Option<Copy> {
        let mut best = self.compare(at, last_distance);
        if best.score < ENOUGH {
            let mut place = self.slot(at).map_or(NOWHERE, |slot| self.last[slot]);
            for _ in 0..PLACES {
                if place == NOWHERE {
                    break;
                }
                let copy = self.compare(at, at - place as usize);
                if copy.score > best.score + NEW_DISTANCE {
                    best = copy;
                }
                place = self.before[place as usize];
            }
        }
        (best.score >= LEAST).then_some(best)
    }

    /// The number of bytes from `at` on that are similar to those `distance` before.
    fn compare(&self, at: usize, distance: usize) -> Copy {
        let mut copy = Copy {
            len: 0,
            distance,
            score: 0,
        };
        let Some(from) = at.checked_sub(distance) else {
            return copy;
        };
        let mut score = 0;
        for (index, (byte, like)) in self.all[at..].iter().zip(&self.all[from..at]).enumerate() {
            score += if byte == like { 1 } else { -PENALTY };
            if score > copy.score {
                (copy.len, copy.score) = (index + 1, score);
            } else if score < copy.score - PATIENCE {
                break;
            }
        }
        copy
    }
}

fn cut<'a>(stream: &mut &'a [u8], len: u64) -> Result<&'a [u8], Damaged> {
    let (head, rest) = usize::try_from(len)
        .ok()
        .and_then(|len| stream.split_at_checked(len))
        .ok_or(Damaged("it is cut off"))?;
    *stream = rest;
    Ok(head)
}

/// Appends a number, seven bits a byte.
fn put(stream: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        stream.push(number as u8 | 0x80);
        number >>= 7;
    }
    stream.push(number as u8);
}

fn take(stream: &mut &[u8]) -> Result<u64, Damaged> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = cut(stream, 1)?[0];
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(Damaged("a number is too long"))
}

/// Maps small positive and negative numbers to small numbers.
fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)).cast_unsigned()
}

fn unzigzag(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 1 << 20;

    fn noise(random: &mut fastrand::Rng, len: usize) -> Vec<u8> {
        std::iter::repeat_with(|| random.u8(..)).take(len).collect()
    }

    /// Pieces of `base`, with a few bytes of each changed, between random bytes.
    fn like(random: &mut fastrand::Rng, base: &[u8]) -> Vec<u8> {
        let mut code = Vec::new();
        for _ in 0..20 {
            let start = random.usize(..base.len());
            let end = random.usize(start..base.len()).min(start + 400);
            let piece = code.len();
            code.extend_from_slice(&base[start..end]);
            for byte in code[piece..].iter_mut().step_by(37) {
                *byte = byte.wrapping_add(5);
            }
            let own = random.usize(..30);
            code.extend(noise(random, own));
        }
        code
    }

    #[test]
    fn what_is_packed_is_unpacked() {
        let mut random = fastrand::Rng::with_seed(7);
        let base = noise(&mut random, 5000);
        let mut codes = vec![Vec::new(), vec![1], base.clone(), vec![0; 3000]];
        codes.extend((0..30).map(|_| like(&mut random, &base)));
        for base in [&base[..], &[], &[0; 9]] {
            for code in &codes {
                let packed = pack(base, code);
                assert_eq!(unpack(base, &packed, LIMIT).unwrap(), *code);
            }
        }
    }

    #[test]
    fn what_is_like_the_base_is_small() {
        let mut random = fastrand::Rng::with_seed(8);
        let base = noise(&mut random, 20_000);
        // The same code at another address: four bytes in every forty differ.
        let mut code = base[300..].to_vec();
        for call in code.chunks_mut(40) {
            let len = call.len().min(4);
            call[..len].fill(9);
        }
        let packed = pack(&base, &code).len();
        assert!(packed < code.len() / 5, "{packed} of {}", code.len());
    }

    #[test]
    fn damage_is_an_error_or_other_bytes_but_no_panic() {
        let mut random = fastrand::Rng::with_seed(9);
        let base = noise(&mut random, 2000);
        let code = like(&mut random, &base);
        let packed = pack(&base, &code);
        for at in 0..packed.len() {
            let mut damaged = packed.clone();
            damaged[at] ^= 1 << random.u32(..8);
            let _ = unpack(&base, &damaged, LIMIT);
            let _ = unpack(&base, &packed[..at], LIMIT);
            let _ = unpack(&base[..at.min(base.len())], &packed, LIMIT);
        }
        assert!(unpack(&base, &packed, code.len() - 1).is_err());
        // Random steps that `pack` has not made, and that are not deflated, because deflate does
        // not check its content.
        for _ in 0..2_000 {
            let mut packed = Vec::new();
            for len in [9, 40] {
                let stream = noise(&mut random, len);
                let stream: Vec<u8> = stream.iter().map(|byte| byte & 0x0f).collect();
                let deflated = compress_to_vec(&stream, 1);
                put(&mut packed, stream.len() as u64);
                put(&mut packed, deflated.len() as u64);
                packed.extend(deflated);
            }
            let _ = unpack(&base[..20], &packed, LIMIT);
        }
    }
}
