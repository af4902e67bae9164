//! Frames: a length, and numbers, texts and lists one after the other.

/// The length of a frame's length.
pub(super) const LENGTH: usize = 4;

/// The other side does not follow this protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// The first frame in `bytes`: its content, and its whole length. None if the frame is not complete
/// yet.
///
/// # Errors
/// [`Malformed`] if it is longer than `longest`.
pub fn frame(bytes: &[u8], longest: usize) -> Result<Option<(&[u8], usize)>, Malformed> {
    let Some(length) = bytes.first_chunk::<LENGTH>() else {
        return Ok(None);
    };
    let length = u32::from_le_bytes(*length) as usize;
    if !(5..=longest).contains(&length) {
        return Err(Malformed);
    }
    let end = LENGTH + length;
    Ok(bytes.get(LENGTH..end).map(|content| (content, end)))
}

/// A frame that is being written; its length is filled in last.
pub(super) struct Frame(pub(super) Vec<u8>);

impl Frame {
    pub(super) fn new(kind: u8, id: u32) -> Self {
        let mut frame = Self(vec![0; LENGTH]);
        frame.0.push(kind);
        frame.number(id);
        frame
    }

    pub(super) fn number(&mut self, number: u32) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    pub(super) fn text(&mut self, text: &[u8]) {
        self.number(text.len() as u32);
        self.0.extend_from_slice(text);
    }

    pub(super) fn list(&mut self, list: &[Vec<u8>]) {
        self.number(list.len() as u32);
        for text in list {
            self.text(text);
        }
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        let length = (self.0.len() - LENGTH) as u32;
        self.0[..LENGTH].copy_from_slice(&length.to_le_bytes());
        self.0
    }
}

/// The rest of a frame that is being read.
pub(super) struct FrameContent<'a>(pub(super) &'a [u8]);

impl<'a> FrameContent<'a> {
    pub(super) fn of(content: &'a [u8]) -> Result<(u8, u32, Self), Malformed> {
        let (kind, rest) = content.split_first().ok_or(Malformed)?;
        let mut rest = Self(rest);
        Ok((*kind, rest.number()?, rest))
    }

    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn number(&mut self) -> Result<u32, Malformed> {
        let (number, rest) = self.0.split_first_chunk().ok_or(Malformed)?;
        self.0 = rest;
        Ok(u32::from_le_bytes(*number))
    }

    pub(super) fn text(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.number()? as usize;
        self.take(length)
    }

    pub(super) fn words(&mut self) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.text()?).map_err(|_| Malformed)
    }

    pub(super) fn list(&mut self) -> Result<Vec<Vec<u8>>, Malformed> {
        // No memory is reserved for the stated count, which the other side could make up.
        let count = self.number()?;
        let mut list = Vec::new();
        for _ in 0..count {
            list.push(self.text()?.to_vec());
        }
        Ok(list)
    }

    pub(super) fn end(self) -> Result<(), Malformed> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(Malformed)
        }
    }
}
