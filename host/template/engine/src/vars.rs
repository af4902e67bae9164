//! Reads the variables of a rendering from the bytes that the host writes (`host/template/src/wire.rs`).

use minijinja::Value;

/// The variables.
pub(crate) fn read(bytes: &[u8]) -> Value {
    VarsReader(bytes).value()
}

struct VarsReader<'a>(&'a [u8]);

impl<'a> VarsReader<'a> {
    fn take(&mut self, length: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(length);
        self.0 = rest;
        taken
    }

    fn eight(&mut self) -> [u8; 8] {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(self.take(8));
        bytes
    }

    fn length(&mut self) -> usize {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(self.take(4));
        u32::from_le_bytes(bytes) as usize
    }

    fn text(&mut self) -> &'a str {
        let length = self.length();
        str::from_utf8(self.take(length)).unwrap_or_default()
    }

    fn value(&mut self) -> Value {
        match self.take(1)[0] {
            b'-' => Value::from(false),
            b'+' => Value::from(true),
            b'i' => Value::from(i64::from_le_bytes(self.eight())),
            b'u' => Value::from(u64::from_le_bytes(self.eight())),
            b'f' => Value::from(f64::from_le_bytes(self.eight())),
            b't' => Value::from(self.text()),
            b'[' => (0..self.length()).map(|_| self.value()).collect(),
            b'{' => Value::from_pairs((0..self.length()).map(|_| (self.text(), self.value()))),
            _ => Value::from(()),
        }
    }
}
