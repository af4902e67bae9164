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
pub(super) struct Frame(Vec<u8>);

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

    pub(super) fn with<'a>(mut self, field: &impl Field<'a>) -> Self {
        field.write(&mut self);
        self
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        let length = (self.0.len() - LENGTH) as u32;
        self.0[..LENGTH].copy_from_slice(&length.to_le_bytes());
        self.0
    }
}

/// The rest of a frame that is being read.
pub(super) struct FrameContent<'a>(&'a [u8]);

impl<'a> FrameContent<'a> {
    pub(super) fn of(content: &'a [u8]) -> Result<(u8, u32, Self), Malformed> {
        let (kind, rest) = content.split_first().ok_or(Malformed)?;
        let mut rest = Self(rest);
        Ok((*kind, rest.number()?, rest))
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn number(&mut self) -> Result<u32, Malformed> {
        let (number, rest) = self.0.split_first_chunk().ok_or(Malformed)?;
        self.0 = rest;
        Ok(u32::from_le_bytes(*number))
    }

    fn text(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.number()? as usize;
        self.take(length)
    }

    pub(super) fn end(self) -> Result<(), Malformed> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(Malformed)
        }
    }
}

/// A field of a message.
pub(super) trait Field<'a>: Sized {
    fn write(&self, frame: &mut Frame);
    fn read(rest: &mut FrameContent<'a>) -> Result<Self, Malformed>;
}

impl Field<'_> for u32 {
    fn write(&self, frame: &mut Frame) {
        frame.number(*self);
    }

    fn read(rest: &mut FrameContent<'_>) -> Result<Self, Malformed> {
        rest.number()
    }
}

impl Field<'_> for i32 {
    fn write(&self, frame: &mut Frame) {
        frame.number(self.cast_unsigned());
    }

    fn read(rest: &mut FrameContent<'_>) -> Result<Self, Malformed> {
        rest.number().map(u32::cast_signed)
    }
}

impl Field<'_> for bool {
    fn write(&self, frame: &mut Frame) {
        frame.number(u32::from(*self));
    }

    fn read(rest: &mut FrameContent<'_>) -> Result<Self, Malformed> {
        rest.number().map(|number| number != 0)
    }
}

impl Field<'_> for Vec<u8> {
    fn write(&self, frame: &mut Frame) {
        frame.number(self.len() as u32);
        frame.0.extend_from_slice(self);
    }

    fn read(rest: &mut FrameContent<'_>) -> Result<Self, Malformed> {
        rest.text().map(<[u8]>::to_vec)
    }
}

impl Field<'_> for Vec<Vec<u8>> {
    fn write(&self, frame: &mut Frame) {
        frame.number(self.len() as u32);
        self.iter().for_each(|text| text.write(frame));
    }

    fn read(rest: &mut FrameContent<'_>) -> Result<Self, Malformed> {
        // No memory is reserved for the stated count, which the other side could make up.
        let mut list = Vec::new();
        for _ in 0..rest.number()? {
            list.push(Vec::read(rest)?);
        }
        Ok(list)
    }
}

impl<'a> Field<'a> for &'a str {
    fn write(&self, frame: &mut Frame) {
        frame.number(self.len() as u32);
        frame.0.extend_from_slice(self.as_bytes());
    }

    fn read(rest: &mut FrameContent<'a>) -> Result<Self, Malformed> {
        std::str::from_utf8(rest.text()?).map_err(|_| Malformed)
    }
}

/// The last field of a message, up to its end.
impl<'a> Field<'a> for &'a [u8] {
    fn write(&self, frame: &mut Frame) {
        frame.0.extend_from_slice(self);
    }

    fn read(rest: &mut FrameContent<'a>) -> Result<Self, Malformed> {
        rest.take(rest.0.len())
    }
}
