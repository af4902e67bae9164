//! From the events of libyaml-safer to the nodes of a document, with tags and aliases settled.
//!
//! What it does not read as PyYAML does is mended here, and what makes it panic is kept from it: a
//! text that ends without a line end, and a comma after a tag.

use std::collections::HashMap;

use libyaml_safer::{Encoding, EventData, Parser, ScalarStyle};

use super::resolve::{self, Tag};
use super::{Fault, Mark, problem};

/// Deeper documents are refused: reading them recurses.
const MAX_DEPTH: usize = 100;

/// The index of a node in [`Document::nodes`].
pub(super) type Id = usize;

/// The nodes of a document.
pub(super) struct Document {
    pub(super) nodes: Vec<YamlNode>,
    pub(super) root: Child,
    /// The position of the first alias that is inside of the node that it names.
    pub(super) recursive: Option<Mark>,
}

/// A node, with the position at which it is written.
#[derive(Clone, Debug)]
pub(super) struct YamlNode {
    pub(super) mark: Mark,
    pub(super) tag: Tag,
    pub(super) shape: YamlShape,
}

/// The content of a node.
#[derive(Clone, Debug)]
pub(super) enum YamlShape {
    Scalar(String),
    List(Vec<Child>),
    Map(Vec<(Child, Child)>),
}

/// A use of a node. For an alias, `mark` is the position of the alias and not that of the node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Child {
    pub(super) id: Id,
    pub(super) mark: Mark,
    pub(super) alias: bool,
}

/// Reads a text of at most one document.
pub(super) fn document(source: &str) -> Result<Option<Document>, Fault> {
    let source = source.strip_prefix('\u{feff}').unwrap_or(source);
    problem::check_characters(source)?;
    let mut ended = source.to_owned();
    if !source.ends_with(problem::is_break) {
        ended.push('\n');
    }
    let masked = masked(&ended);
    if masked != ended.as_bytes()
        && let Err(fault) = read(source, &masked)
        && masked.get(fault.mark.index) != ended.as_bytes().get(fault.mark.index)
    {
        return Err(Fault::new(fault.mark, "a tag can't have a comma")
            .hint("put a text that begins with `!` in quotes"));
    }
    read(source, ended.as_bytes())
}

/// The text with an `@`, which begins no value, in place of each `!` that is followed by a comma in
/// the same word: if it begins a tag, it is one that has no meaning.
fn masked(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    for word in bytes.split_mut(u8::is_ascii_whitespace) {
        let Some(comma) = word.iter().rposition(|byte| *byte == b',') else {
            continue;
        };
        let closed = word.windows(2).any(|pair| pair == b">,");
        for at in 0..comma {
            if word[at] == b'!' && (closed || word[at + 1] != b'<') {
                word[at] = b'@';
            }
        }
    }
    bytes
}

fn read(source: &str, text: &[u8]) -> Result<Option<Document>, Fault> {
    let mut parser = Parser::new();
    parser.set_input(text);
    parser.set_encoding(Encoding::Utf8);
    let mut composer = Composer {
        source,
        parser,
        end: problem::mark_after(source),
        blank_end: source.trim_end_matches(' ').ends_with(problem::is_break),
        nodes: Vec::new(),
        anchors: HashMap::new(),
        open: Vec::new(),
        recursive: None,
    };
    // the beginning of the stream, and that of the document
    composer.next()?;
    if composer.next()?.0 == EventData::StreamEnd {
        return Ok(None);
    }
    let (event, mark) = composer.next()?;
    let root = composer.node(event, mark)?;
    composer.next()?;
    let (event, mark) = composer.next()?;
    if event != EventData::StreamEnd {
        return Err(Fault::new(mark, "a second document begins here")
            .hint("keep one document per file: give each its own `-c`"));
    }
    Ok(Some(Document {
        nodes: composer.nodes,
        root,
        recursive: composer.recursive,
    }))
}

struct Composer<'a> {
    source: &'a str,
    parser: Parser<&'a [u8]>,
    end: Mark,
    /// Whether the last line has blanks alone.
    blank_end: bool,
    nodes: Vec<YamlNode>,
    anchors: HashMap<String, Id>,
    /// Nodes that are not closed yet, outermost first.
    open: Vec<Id>,
    recursive: Option<Mark>,
}

impl Composer<'_> {
    fn next(&mut self) -> Result<(EventData, Mark), Fault> {
        let mut event = match self.parser.parse() {
            Ok(event) => event,
            Err(error) => return Err(problem::fault(self.source, self.end, &error)),
        };
        if let EventData::Scalar { value, style, .. } = &mut event.data
            && matches!(style, ScalarStyle::Literal | ScalarStyle::Folded)
            && event.end_mark.index > self.source.len() as u64
            && let Some(text) = value.strip_suffix('\n')
            && (!self.blank_end
                || text
                    .rsplit('\n')
                    .next()
                    .is_none_or(|line| line.trim_matches(' ').is_empty()))
        {
            // the line end that `document` has added
            value.pop();
        }
        Ok((event.data, problem::mark(event.start_mark, self.end)))
    }

    fn node(&mut self, event: EventData, mark: Mark) -> Result<Child, Fault> {
        if self.open.len() > MAX_DEPTH {
            return Err(Fault::new(mark, "lists and maps are nested too deeply")
                .hint("no key takes a value with so many levels"));
        }
        let (anchor, name, shape, implicit) = match event {
            EventData::Alias { anchor } => return self.alias(&anchor, mark),
            EventData::Scalar {
                anchor,
                tag,
                value,
                style,
                ..
            } => {
                let plain = style == ScalarStyle::Plain || tag.is_some();
                let implicit = if plain {
                    resolve::plain(&value)
                } else {
                    Tag::Str
                };
                (anchor, tag, YamlShape::Scalar(value), implicit)
            }
            EventData::SequenceStart { anchor, tag, .. } => {
                (anchor, tag, YamlShape::List(Vec::new()), Tag::Seq)
            }
            EventData::MappingStart { anchor, tag, .. } => {
                (anchor, tag, YamlShape::Map(Vec::new()), Tag::Map)
            }
            _ => return Err(Fault::new(mark, "expected a value")),
        };
        let tag = match name.as_deref() {
            None | Some("!") => implicit,
            Some(name) => Tag::named(name),
        };
        let id = self.nodes.len();
        if let Some(name) = anchor {
            if self.anchors.contains_key(&name) {
                return Err(
                    Fault::new(mark, format!("the anchor `&{name}` is given twice"))
                        .hint("each anchor needs a name of its own"),
                );
            }
            self.anchors.insert(name, id);
        }
        self.nodes.push(YamlNode { mark, tag, shape });
        if !matches!(self.nodes[id].shape, YamlShape::Scalar(_)) {
            self.open.push(id);
            let children = self.children()?;
            self.open.pop();
            match &mut self.nodes[id].shape {
                YamlShape::Map(pairs) => {
                    let (both, _) = children.as_chunks();
                    pairs.extend(both.iter().map(|[key, value]| (*key, *value)));
                }
                shape => *shape = YamlShape::List(children),
            }
        }
        Ok(Child {
            id,
            mark,
            alias: false,
        })
    }

    fn children(&mut self) -> Result<Vec<Child>, Fault> {
        let mut children = Vec::new();
        loop {
            match self.next()? {
                (EventData::SequenceEnd | EventData::MappingEnd, _) => return Ok(children),
                (event, mark) => children.push(self.node(event, mark)?),
            }
        }
    }

    fn alias(&mut self, name: &str, mark: Mark) -> Result<Child, Fault> {
        let Some(id) = self.anchors.get(name).copied() else {
            return Err(Fault::new(
                mark,
                format!("unknown anchor: there is no `&{name}` before"),
            )
            .hint("put a text that begins with `*` in quotes"));
        };
        if self.open.contains(&id) {
            self.recursive.get_or_insert(mark);
        }
        Ok(Child {
            id,
            mark,
            alias: true,
        })
    }
}
