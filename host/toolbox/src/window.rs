//! The window on the open file: which lines of it are shown, and how.

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

/// How far below the window's top the line is that was asked for, as a part of the window.
const OFFSET: f64 = 1.0 / 6.0;

/// The window on a file.
pub struct FileWindow {
    /// The file.
    pub path: PathBuf,
    /// The line at the top, counted from 0.
    first: usize,
    /// How many lines are shown.
    size: usize,
    /// How many of them are shown again after scrolling.
    overlap: usize,
    /// Where the file's lines are.
    index: LineIndex,
}

impl FileWindow {
    /// The window on the file at `path`, which becomes the open file with [`FileWindow::save`]; without
    /// a path, that on the open file.
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
        // Another file is shown from its beginning on.
        if current
            .as_deref()
            .is_none_or(|current| real(path) == real(current))
        {
            window.place(values.number("FIRST_LINE", 0, 0)? as i64);
        }
        Ok(window)
    }

    /// Makes it the window of the next call, too.
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

    /// How many lines the file has.
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

    /// Moves the window by its own height, less the overlap: down, or up.
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

    /// The shown lines, as they would be if the file had this content. The window is kept within it.
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

/// The path of a file with all links followed; for one that is not there, as whole as it can be.
pub fn real(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| {
        env::current_dir().map_or_else(|_| path.to_owned(), |folder| folder.join(path))
    })
}
