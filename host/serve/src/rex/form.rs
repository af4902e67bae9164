//! The form of an upload (`multipart/form-data`), read piece by piece: a file may be large.

use std::fs::File;
use std::io::{Seek as _, SeekFrom, Write as _};

/// The longest head of a part, and the longest field, in bytes.
const LONGEST: usize = 64 * 1024;

/// The content of an upload's form.
#[derive(Debug)]
pub(super) struct UploadForm {
    pub(super) target: String,
    pub(super) unzip: bool,
    /// The name of the file.
    pub(super) name: String,
    pub(super) content: File,
}

/// Reads a form.
pub(super) struct FormReader {
    /// The delimiter of parts, with the line end before it.
    delimiter: Vec<u8>,
    /// The bytes that were not parsed yet.
    rest: Vec<u8>,
    state: FormState,
    target: Option<String>,
    unzip: bool,
    file: Option<(String, File)>,
}

enum FormState {
    /// Bytes outside of all parts.
    Skipped,
    /// After a delimiter: the end, or a head follows.
    Between,
    Field {
        name: String,
        value: Vec<u8>,
    },
    File,
    Done,
}

impl FormReader {
    /// A reader for a body of this content type.
    ///
    /// # Errors
    /// A message if the content type is not that of a form.
    pub(super) fn new(kind: &str) -> Result<Self, String> {
        let boundary = parameter(kind, "boundary")
            .filter(|boundary| kind.starts_with("multipart/form-data") && !boundary.is_empty());
        let boundary = boundary.ok_or("the body is no `multipart/form-data`")?;
        Ok(Self {
            delimiter: format!("\r\n--{boundary}").into_bytes(),
            // The first delimiter may have no line before it.
            rest: b"\r\n".to_vec(),
            state: FormState::Skipped,
            target: None,
            unzip: false,
            file: None,
        })
    }

    /// Adds a piece of the body.
    ///
    /// # Errors
    /// A message if the form is malformed, or the file can't be stored.
    pub(super) fn push(&mut self, piece: &[u8]) -> Result<(), String> {
        self.rest.extend_from_slice(piece);
        loop {
            match &self.state {
                FormState::Done => {
                    self.rest.clear();
                    return Ok(());
                }
                FormState::Between => {
                    if self.rest.starts_with(b"--") {
                        self.state = FormState::Done;
                        continue;
                    }
                    let Some(end) = find(&self.rest, b"\r\n\r\n") else {
                        return match self.rest.len() > LONGEST {
                            true => Err("the head of a part is too long".to_owned()),
                            false => Ok(()),
                        };
                    };
                    let head = String::from_utf8_lossy(&self.rest[..end]).into_owned();
                    self.rest.drain(..end + 4);
                    self.begin(&head)?;
                }
                _ => {
                    let found = find(&self.rest, &self.delimiter);
                    // The beginning of a delimiter may be at the end of the piece.
                    let held = self.delimiter.len() - 1;
                    let end = found.unwrap_or(self.rest.len().saturating_sub(held));
                    let content: Vec<u8> = self.rest.drain(..end).collect();
                    self.add(&content)?;
                    if found.is_none() {
                        return Ok(());
                    }
                    self.rest.drain(..self.delimiter.len());
                    self.end_part();
                }
            }
        }
    }

    fn begin(&mut self, head: &str) -> Result<(), String> {
        let line = head.lines().find(|line| {
            let name = line.split(':').next().unwrap_or_default();
            name.trim().eq_ignore_ascii_case("content-disposition")
        });
        let line = line.ok_or("a part has no name")?;
        let name = parameter(line, "name").ok_or("a part has no name")?;
        self.state = match name.as_str() {
            "file" => {
                let file = tempfile::tempfile().map_err(|error| error.to_string())?;
                let name = parameter(line, "filename").unwrap_or_default();
                let name = name.rsplit('/').next().unwrap_or_default().to_owned();
                self.file = Some((name, file));
                FormState::File
            }
            _ => FormState::Field {
                name,
                value: Vec::new(),
            },
        };
        Ok(())
    }

    fn add(&mut self, content: &[u8]) -> Result<(), String> {
        match (&mut self.state, &mut self.file) {
            (FormState::Field { value, name }, _) => {
                value.extend_from_slice(content);
                match value.len() > LONGEST {
                    true => Err(format!("the field `{name}` is too long")),
                    false => Ok(()),
                }
            }
            (FormState::File, Some((_, file))) => {
                file.write_all(content).map_err(|error| error.to_string())
            }
            _ => Ok(()),
        }
    }

    fn end_part(&mut self) {
        let ended = std::mem::replace(&mut self.state, FormState::Between);
        if let FormState::Field { name, value } = ended {
            let value = String::from_utf8_lossy(&value).into_owned();
            match name.as_str() {
                "target_path" => self.target = Some(value),
                "unzip" => self.unzip = matches!(value.as_str(), "true" | "True" | "1" | "on"),
                _ => {}
            }
        }
    }

    /// The content of the form.
    ///
    /// # Errors
    /// A message if the form is incomplete, or a field is missing.
    pub(super) fn finish(self) -> Result<UploadForm, String> {
        if !matches!(self.state, FormState::Done) {
            return Err("the form has no end".to_owned());
        }
        let (name, mut content) = self.file.ok_or("missing field `file`")?;
        let begin = content.seek(SeekFrom::Start(0));
        begin.map_err(|error| error.to_string())?;
        Ok(UploadForm {
            target: self.target.ok_or("missing field `target_path`")?,
            unzip: self.unzip,
            name,
            content,
        })
    }
}

/// The value of a header's parameter.
fn parameter(header: &str, name: &str) -> Option<String> {
    header.split(';').skip(1).find_map(|part| {
        let (key, value) = part.split_once('=')?;
        let value = value.trim().trim_matches('"');
        (key.trim() == name).then(|| value.to_owned())
    })
}

/// The position of `wanted`.
fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    let mut at = 0;
    while let Some(step) = bytes[at..].iter().position(|byte| *byte == wanted[0]) {
        at += step;
        if bytes[at..].starts_with(wanted) {
            return Some(at);
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    const FORM: &str = "--b1\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a/x.zip\"\r\n\
        Content-Type: application/zip\r\n\r\none\r\n--b\r\n--b2\r\ntwo\r\n--b1\r\n\
        Content-Disposition: form-data; name=\"target_path\"\r\n\r\n/t\r\n--b1\r\n\
        content-disposition: form-data; name=\"unzip\"\r\n\r\ntrue\r\n--b1--\r\nrest";

    #[test]
    fn a_form_may_come_in_any_pieces() {
        for size in [1, 2, 3, 7, 1000] {
            let mut form = FormReader::new("multipart/form-data; boundary=b1").unwrap();
            for piece in FORM.as_bytes().chunks(size) {
                form.push(piece).unwrap();
            }
            let mut form = form.finish().unwrap();
            let mut content = String::new();
            form.content.read_to_string(&mut content).unwrap();
            assert_eq!(content, "one\r\n--b\r\n--b2\r\ntwo");
            assert_eq!((form.target.as_str(), form.name.as_str()), ("/t", "x.zip"));
            assert!(form.unzip);
        }
    }

    #[test]
    fn forms_that_lack_something_are_refused() {
        assert!(FormReader::new("application/json").is_err());
        assert!(FormReader::new("multipart/form-data").is_err());
        for (body, told) in [
            ("--b1--", "`file`"),
            (&FORM[..100], "no end"),
            (&FORM.replace("target_path", "other"), "`target_path`"),
            ("--b1\r\nx: y\r\n\r\n\r\n--b1--", "no name"),
        ] {
            let mut form = FormReader::new("multipart/form-data; boundary=\"b1\"").unwrap();
            let pushed = form.push(body.as_bytes());
            let why = pushed.and_then(|()| form.finish()).unwrap_err();
            assert!(why.contains(told), "{why}");
        }
    }
}
