//! Finds fenced blocks: the last one of any language that is not inside another, and those of
//! `bash`.

use std::ops::Range;

use crate::heredoc::{Heredocs, lines};
use crate::python::is_space;

const FENCE: &str = "```";
const BASH: &str = "```bash\n";

/// A block in a text: its range, and the range of its content.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// From the first backtick to the end of the closing fence.
    pub whole: Range<usize>,
    /// Between the fences.
    pub body: Range<usize>,
}

/// A line that begins with a fence.
struct Fence<'t> {
    info: &'t str,
    /// The position after the line break and the blank lines that follow; none if the text ends on
    /// the line.
    next: Option<usize>,
    end: usize,
}

impl<'t> Fence<'t> {
    fn at(text: &'t str, at: usize) -> Self {
        let rest = &text[at + FENCE.len()..];
        let info = &rest[..rest.find(is_space).unwrap_or(rest.len())];
        let blanks = &rest[info.len()..];
        let blanks = &blanks[..blanks.find(|c| !is_space(c)).unwrap_or(blanks.len())];
        let start = at + FENCE.len() + info.len();
        Self {
            info,
            next: blanks.rfind('\n').map(|newline| start + newline + 1),
            end: start + blanks.len(),
        }
    }
}

/// The last block that is not inside another one.
///
/// As in SWE-agent, a fence without a word closes an open block or else opens one, and one with a
/// word always opens. Unless `compat` is set, three cases are handled that SWE-agent ignores:
/// fences in here-documents are text, so are lines like ```` ```ls``` ````, and blocks between
/// fences of four or more backticks are not run.
pub fn last_block(text: &str, compat: bool) -> Option<Block> {
    let mut heredocs = (!compat).then(|| Heredocs::new(text));
    let mut last = None;
    let mut depth = 0_usize;
    let mut open = 0..0;
    let mut quoted = 0;
    let mut resume = 0;
    for (at, line) in lines(text) {
        if at < resume {
            continue;
        }
        if depth > 0
            && let Some(heredocs) = &mut heredocs
            && heredocs.feed(at, line)
        {
            continue;
        }
        if !line.starts_with(FENCE) {
            continue;
        }
        if !compat {
            let ticks = line.len() - line.trim_start_matches('`').len();
            let is_bare = line[ticks..].chars().all(is_space);
            if quoted > 0 {
                if ticks >= quoted && is_bare {
                    quoted = 0;
                }
                continue;
            }
            if ticks > FENCE.len() || line[ticks..].contains('`') {
                if depth == 0 && !line[ticks..].contains('`') {
                    quoted = ticks;
                }
                continue;
            }
        }
        let fence = Fence::at(text, at);
        match fence.next {
            // On its last line a text can only close a block.
            None if depth > 0 && fence.info.is_empty() && fence.end == text.len() => {
                if depth == 1 {
                    last = Some(Block {
                        whole: open.start..fence.end,
                        body: open.end..at,
                    });
                }
                break;
            }
            None => {}
            Some(next) => {
                resume = next;
                if depth > 0 && fence.info.is_empty() {
                    depth -= 1;
                    if depth == 0 {
                        last = Some(Block {
                            whole: open.start..next,
                            body: open.end..at,
                        });
                    }
                } else {
                    if depth == 0 {
                        open = at..next;
                    }
                    depth += 1;
                }
            }
        }
    }
    last
}

/// The blocks that are fenced as `bash`: the opening fence ends its line, the closing one begins a
/// line. Unless `compat` is set, a fence in a here-document closes nothing.
pub fn bash_blocks(text: &str, compat: bool) -> Vec<Block> {
    let mut blocks = Vec::new();
    // Nearly all texts need no index of here-documents.
    let index = (!compat && text.contains(BASH)).then(|| Heredocs::new(text));
    let mut heredocs = index;
    let mut from = 0;
    while let Some(found) = text[from..].find(BASH) {
        let start = from + found;
        let body = start + BASH.len();
        let close = match &mut heredocs {
            None => text[body..].find("\n```").map(|at| body + at + 1),
            Some(heredocs) => lines(&text[body..])
                .map(|(at, line)| (body + at, line))
                .find(|(at, line)| {
                    !heredocs.feed(*at, line) && *at > body && line.starts_with(FENCE)
                })
                .map(|(at, _)| at),
        };
        let Some(close) = close else {
            break;
        };
        from = close + FENCE.len();
        blocks.push(Block {
            whole: start..from,
            body: body..close - 1,
        });
    }
    blocks
}
