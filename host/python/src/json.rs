//! JSON that serde_json writes as Python's `json.dump` does.

use std::io;

use super::{Escapes, float_repr, push_json_fragment};

/// A serde_json formatter whose output is that of Python's `json.dump(value, indent=2)`.
pub struct PythonJson<'a> {
    pretty: serde_json::ser::PrettyFormatter<'a>,
    buffer: String,
}

impl Default for PythonJson<'_> {
    /// Two spaces of indent, ASCII only.
    fn default() -> Self {
        Self {
            pretty: serde_json::ser::PrettyFormatter::new(),
            buffer: String::new(),
        }
    }
}

macro_rules! delegate {
    ($($name:ident($($arg:ident: $type:ty),*);)*) => {
        $(fn $name<W: ?Sized + io::Write>(&mut self, writer: &mut W $(, $arg: $type)*) -> io::Result<()> {
            self.pretty.$name(writer $(, $arg)*)
        })*
    };
}

impl serde_json::ser::Formatter for PythonJson<'_> {
    delegate! {
        begin_array();
        end_array();
        begin_array_value(first: bool);
        end_array_value();
        begin_object();
        end_object();
        begin_object_key(first: bool);
        begin_object_value();
        end_object_value();
    }

    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        writer.write_all(float_repr(value).as_bytes())
    }

    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        // serde_json passes parts without characters that JSON must escape; nearly all of them are
        // ASCII
        if fragment.bytes().all(|byte| byte < 0x7f) {
            return writer.write_all(fragment.as_bytes());
        }
        self.buffer.clear();
        let escapes = Escapes {
            ascii: true,
            html: false,
        };
        push_json_fragment(&mut self.buffer, fragment, escapes);
        writer.write_all(self.buffer.as_bytes())
    }
}
