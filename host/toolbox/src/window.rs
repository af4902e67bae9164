//! The window on the open file: the lines that are shown, and their form.

use std::env;
use std::fs;
use std::io::{Cursor, Read, Seek};
use std::path::{Path, PathBuf};

use crate::answer::{TextParts, ToolRefusal, ToolText};
use crate::lines::LineIndex;
use crate::registry::{ObjectFile, Values};
use crate::storage::{self, FileTrouble};

/// The message if no file is open.
pub const NOTHING_OPEN: &str = "No file is open. Use the `open` command first.";

/// The distance of a requested line from the top of the window, as a fraction of the window's
/// height.
const OFFSET: f64 = 1.0 / 6.0;

/// The window on a file.
pub struct FileWindow {
    /// The file.
    pub path: PathBuf,
    /// The line at the top, counted from 0.
    first: usize,
    /// The number of lines that are shown.
    size: usize,
    /// The number of lines that are shown again after scrolling.
    overlap: usize,
    /// The positions of the lines in the file.
    index: LineIndex,
}

impl FileWindow {
    /// The window on the file at `path`, which becomes the open file by [`FileWindow::save`];
    /// without a path, the window on the open file.
    pub fn of(path: Option<&Path>) -> Result<Self, ToolRefusal> {
        let values = Values::read()?;
        let current = values.text("CURRENT_FILE").map(PathBuf::from);
        let Some(path) = path.or(current.as_deref()) else {
            return Err(ToolRefusal::one(NOTHING_OPEN));
        };
        let trouble = |trouble: FileTrouble| trouble.about(path);
        let (mut file, _) = storage::open(path).map_err(trouble)?;
        let mut beginning = Vec::new();
        let read = (&file).take(8000).read_to_end(&mut beginning);
        read.and_then(|_| file.rewind())
            .map_err(|error| trouble(error.into()))?;
        if storage::is_binary(&beginning) {
            return Err(trouble(FileTrouble::Binary));
        }
        let index = LineIndex::of(&mut file).map_err(|error| trouble(error.into()))?;
        let mut window = Self {
            path: path.to_owned(),
            first: 0,
            size: values.number("WINDOW", 1, 100)?,
            overlap: values.number("OVERLAP", 0, 2)?,
            index,
        };
        // Another file is shown from its beginning.
        if current
            .as_deref()
            .is_none_or(|current| real(path) == real(current))
        {
            window.place(values.number("FIRST_LINE", 0, 0)? as i64);
        }
        Ok(window)
    }

    /// Keeps the window for the next call.
    pub fn save(&self) -> Result<(), ToolRefusal> {
        let path = real(&self.path).into_os_string().into_string();
        let path = path.map_err(|path| {
            let path = Path::new(&path).display();
            ToolRefusal::one(format!(
                "Error: The name {path} is not UTF-8, so the file can't be opened: give it another name first."
            ))
        })?;
        ObjectFile::registry().change(|values| {
            values.insert("CURRENT_FILE".to_owned(), path.into());
            values.insert("FIRST_LINE".to_owned(), self.first.into());
        })
    }

    /// The number of lines of the file.
    pub fn total(&self) -> usize {
        self.index.total()
    }

    fn place(&mut self, first: i64) {
        let last = self.total().saturating_sub(self.size) as i64;
        self.first = first.clamp(0, last) as usize;
    }

    /// Moves the window so that it shows a line, counted from 0, near its top.
    pub fn go_to(&mut self, line: i64) {
        self.place((line as f64 - self.size as f64 * OFFSET) as i64);
    }

    /// The line at the top, counted from 0.
    pub fn first(&self) -> usize {
        self.first
    }

    /// The line after the last one that is shown, counted from 0.
    pub fn end(&self) -> usize {
        self.total().min(self.first + self.size)
    }

    /// Moves the window down or up by its height less the overlap.
    pub fn scroll(&mut self, down: bool) {
        let step = self.size as i64 - self.overlap as i64;
        let step = if down { step } else { -step };
        self.place(self.first as i64 + step);
    }

    /// The shown lines of the file.
    pub fn show(&self) -> Result<ToolText, ToolRefusal> {
        let trouble = |trouble: FileTrouble| trouble.about(&self.path);
        let (mut file, _) = storage::open(&self.path).map_err(trouble)?;
        self.shown(&mut file)
    }

    /// The shown lines as if the file had this content. The window is kept within the content.
    pub fn show_content(&mut self, content: &[u8]) -> Result<ToolText, ToolRefusal> {
        let mut source = Cursor::new(content);
        self.index = LineIndex::of(&mut source)
            .map_err(|error| FileTrouble::from(error).about(&self.path))?;
        self.place(self.first as i64);
        self.shown(&mut source)
    }

    fn shown(&self, source: &mut (impl Read + Seek)) -> Result<ToolText, ToolRefusal> {
        let lines = self
            .index
            .read(source, self.first, self.size)
            .map_err(|error| FileTrouble::from(error).about(&self.path))?;
        let total = self.total();
        let mut text = TextParts::default();
        text.line(format!(
            "[File: {} ({total} lines total)]",
            self.path.display()
        ));
        if self.first > 0 {
            text.line(format!("({} more lines above)", self.first));
        }
        let end = self.first + lines.len();
        for (number, line) in (self.first + 1..).zip(lines) {
            let mut numbered = format!("{number}:").into_bytes();
            numbered.extend_from_slice(&line);
            text.line(numbered);
        }
        if end < total {
            text.line(format!("({} more lines below)", total - end));
        }
        Ok(text.finish())
    }
}

/// The path of a file with all links resolved; if the file does not exist, its absolute path.
pub fn real(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| {
        env::current_dir().map_or_else(|_| path.to_owned(), |folder| folder.join(path))
    })
}
