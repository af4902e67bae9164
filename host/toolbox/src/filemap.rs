//! `filemap`: a Python file without the bodies of its long functions.

use std::path::Path;

use crate::answer::{TextParts, ToolRefusal, ToolResult, ToolText};
use crate::call::ToolInput;
use crate::python;
use crate::storage;

/// The number of lines from which a body is left out.
const LONG: usize = 6;

/// `filemap PATH`.
pub fn filemap(input: &ToolInput) -> ToolResult {
    let [path] = input.words() else {
        return Err(ToolRefusal::new(2, "Usage: filemap <file_path>"));
    };
    let path = Path::new(path);
    let content = storage::text(path).map_err(|trouble| trouble.about(path))?;
    Ok(overview(&content))
}

/// The lines of a file with their numbers. Each long body is replaced by the numbers of its lines.
pub fn overview(content: &[u8]) -> ToolText {
    let lines: Vec<&[u8]> = content.split_inclusive(|byte| *byte == b'\n').collect();
    let long = |(start, end): &(usize, usize)| end - start + 1 >= LONG;
    let mut bodies: Vec<(usize, usize)> =
        python::bodies(content).into_iter().filter(long).collect();
    bodies.sort_unstable();
    let mut bodies = bodies.into_iter().peekable();
    let mut text = TextParts::default();
    let mut hidden = 0;
    for (index, line) in lines.into_iter().enumerate() {
        while let Some((start, end)) = bodies.next_if(|(start, _)| *start == index) {
            text.line(format!(
                "{:6} ... eliding lines {}-{} ...",
                start + 1,
                start + 1,
                end + 1
            ));
            hidden = hidden.max(end + 1);
        }
        if index < hidden {
            continue;
        }
        let mut numbered = format!("{:6} ", index + 1).into_bytes();
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        numbered.extend_from_slice(line.strip_suffix(b"\r").unwrap_or(line));
        text.line(numbered);
    }
    text.finish()
}
