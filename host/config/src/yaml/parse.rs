//! From tokens to the nodes of a document, with tags and aliases settled.

use std::collections::HashMap;

use super::resolve::{self, Tag};
use super::scan::{Lexeme, Scanner, Token};
use super::{Fault, Mark};

/// Deeper documents are refused: reading them recurses.
const MAX_DEPTH: usize = 100;

/// The index of a node in [`Document::nodes`].
pub(super) type Id = usize;

/// The nodes of a document.
pub(super) struct Document {
    pub(super) nodes: Vec<YamlNode>,
    pub(super) root: Id,
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
    let mut parser = YamlParser {
        scanner: Scanner::new(source)?,
        nodes: Vec::new(),
        anchors: HashMap::new(),
        open: Vec::new(),
        recursive: None,
        handles: HashMap::new(),
    };
    let implicit = !matches!(
        parser.peek()?,
        Token::Version(_)
            | Token::TagPrefix(..)
            | Token::Directive
            | Token::DocumentStart
            | Token::StreamEnd
    );
    parser.handles = default_handles();
    let root = if implicit {
        parser.node(true, false, 0)?
    } else {
        if !parser.document_start()? {
            return Ok(None);
        }
        match parser.peek()? {
            Token::Version(_)
            | Token::TagPrefix(..)
            | Token::Directive
            | Token::DocumentStart
            | Token::DocumentEnd
            | Token::StreamEnd => {
                let mark = parser.scanner.peek()?.start;
                parser.empty(mark)
            }
            _ => parser.node(true, false, 0)?,
        }
    };
    if *parser.peek()? == Token::DocumentEnd {
        parser.scanner.next()?;
    }
    let mark = parser.after_document_ends()?;
    if parser.document_start()? {
        return Err(Fault::new(mark, "a second document begins here")
            .hint("keep one document per file: give each its own `-c`"));
    }
    Ok(Some(Document {
        nodes: parser.nodes,
        root: root.id,
        recursive: parser.recursive,
    }))
}

fn default_handles() -> HashMap<String, String> {
    [("!", "!"), ("!!", resolve::PREFIX)]
        .map(|(handle, prefix)| (handle.to_owned(), prefix.to_owned()))
        .into()
}

struct YamlParser {
    scanner: Scanner,
    nodes: Vec<YamlNode>,
    anchors: HashMap<String, Id>,
    /// Nodes that are not closed yet, outermost first.
    open: Vec<Id>,
    recursive: Option<Mark>,
    handles: HashMap<String, String>,
}

impl YamlParser {
    fn peek(&mut self) -> Result<&Token, Fault> {
        Ok(&self.scanner.peek()?.token)
    }

    fn after_document_ends(&mut self) -> Result<Mark, Fault> {
        while *self.peek()? == Token::DocumentEnd {
            self.scanner.next()?;
        }
        Ok(self.scanner.peek()?.start)
    }

    /// Directives and `---`; false at the end of the stream.
    fn document_start(&mut self) -> Result<bool, Fault> {
        self.after_document_ends()?;
        if *self.peek()? == Token::StreamEnd {
            return Ok(false);
        }
        let mut handles = HashMap::new();
        let mut version = false;
        loop {
            let lexeme = self.scanner.peek()?.clone();
            match lexeme.token {
                Token::Version(_) if version => {
                    return Err(Fault::new(lexeme.start, "`%YAML` is given twice"));
                }
                Token::Version(1) => version = true,
                Token::Version(_) => {
                    return Err(Fault::new(lexeme.start, "only YAML 1 can be read")
                        .hint("leave the line `%YAML` out"));
                }
                Token::TagPrefix(handle, prefix) => {
                    if handles.insert(handle, prefix).is_some() {
                        return Err(Fault::new(lexeme.start, "a tag handle is given twice"));
                    }
                }
                Token::Directive => {}
                Token::DocumentStart => break,
                token => {
                    let message = format!("expected `---` or the end, not {}", words(&token));
                    return Err(Fault::new(lexeme.start, message)
                        .hint("keys of one map need one indent; a file has one value"));
                }
            }
            self.scanner.next()?;
        }
        self.scanner.next()?;
        self.handles = default_handles();
        self.handles.extend(handles);
        Ok(true)
    }

    fn add(&mut self, mark: Mark, tag: Tag, shape: YamlShape) -> Child {
        self.nodes.push(YamlNode { mark, tag, shape });
        Child {
            id: self.nodes.len() - 1,
            mark,
            alias: false,
        }
    }

    fn empty(&mut self, mark: Mark) -> Child {
        self.add(mark, resolve::plain(""), YamlShape::Scalar(String::new()))
    }

    /// A value. With `block` it may be a block collection, with `indentless` also a list whose `- `
    /// is at the parent's indent.
    fn node(&mut self, block: bool, indentless: bool, depth: usize) -> Result<Child, Fault> {
        let first = self.scanner.peek()?.clone();
        if depth > MAX_DEPTH {
            return Err(
                Fault::new(first.start, "lists and maps are nested too deeply")
                    .hint("no key takes a value with so many levels"),
            );
        }
        if let Token::Alias(name) = first.token {
            self.scanner.next()?;
            return self.alias(&name, first.start);
        }
        let (anchor, tag) = self.properties()?;
        let bare = anchor.is_none() && tag.is_none();
        let Lexeme { token, start, .. } = self.scanner.peek()?.clone();
        let list = match token {
            Token::Item => indentless,
            Token::ListStart => true,
            Token::BlockListStart => block,
            _ => false,
        };
        let map = token == Token::MapStart || (block && token == Token::BlockMapStart);
        let mark = if bare { start } else { first.start };
        let scalar = match &token {
            Token::Scalar { text, plain } => Some((text.clone(), *plain)),
            _ if list || map => None,
            _ if bare => {
                let message = format!("expected a value, not {}", words(&token));
                return Err(Fault::new(start, message));
            }
            _ => Some((String::new(), tag.is_none())),
        };
        if let Some(name) = &anchor
            && self.anchors.contains_key(name)
        {
            return Err(
                Fault::new(mark, format!("the anchor `&{name}` is given twice"))
                    .hint("each anchor needs a name of its own"),
            );
        }
        let unspecific = tag.as_deref().is_none_or(|tag| tag == "!");
        let kind = match (&scalar, &tag) {
            (_, Some(tag)) if !unspecific => Tag::named(tag),
            (Some((text, plain)), _) if *plain || tag.is_some() => resolve::plain(text),
            (Some(_), _) => Tag::Str,
            (None, _) if list => Tag::Seq,
            (None, _) => Tag::Map,
        };
        let shape = match &scalar {
            Some((text, _)) => YamlShape::Scalar(text.clone()),
            None if list => YamlShape::List(Vec::new()),
            None => YamlShape::Map(Vec::new()),
        };
        let node = self.add(mark, kind, shape);
        if let Some(name) = anchor {
            self.anchors.insert(name, node.id);
        }
        if scalar.is_some() {
            if matches!(token, Token::Scalar { .. }) {
                self.scanner.next()?;
            }
            return Ok(node);
        }
        self.open.push(node.id);
        self.nodes[node.id].shape = match token {
            Token::Item => YamlShape::List(self.indentless_list(depth)?),
            Token::BlockListStart => YamlShape::List(self.block_list(depth)?),
            Token::ListStart => YamlShape::List(self.flow_list(depth)?),
            Token::MapStart => YamlShape::Map(self.flow_map(depth)?),
            _ => YamlShape::Map(self.block_map(depth)?),
        };
        self.open.pop();
        Ok(node)
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

    /// Anchor and tag, each at most once, in either order.
    fn properties(&mut self) -> Result<(Option<String>, Option<String>), Fault> {
        let (mut anchor, mut tag) = (None, None);
        loop {
            let lexeme = self.scanner.peek()?.clone();
            match lexeme.token {
                Token::Anchor(name) if anchor.is_none() => anchor = Some(name),
                Token::Tag(handle, suffix) if tag.is_none() => {
                    tag = Some(self.tag(handle, suffix, lexeme.start)?);
                }
                _ => return Ok((anchor, tag)),
            }
            self.scanner.next()?;
        }
    }

    fn tag(&self, handle: Option<String>, suffix: String, mark: Mark) -> Result<String, Fault> {
        let Some(handle) = handle else {
            return Ok(suffix);
        };
        match self.handles.get(&handle) {
            Some(prefix) => Ok(format!("{prefix}{suffix}")),
            None => Err(
                Fault::new(mark, format!("there is no tag handle `{handle}`"))
                    .hint("put a text that begins with `!` in quotes"),
            ),
        }
    }

    /// A value, or nothing if one of `ends` follows.
    fn value(
        &mut self,
        ends: fn(&Token) -> bool,
        block: bool,
        indentless: bool,
        depth: usize,
        otherwise: Mark,
    ) -> Result<Child, Fault> {
        if ends(self.peek()?) {
            return Ok(self.empty(otherwise));
        }
        self.node(block, indentless, depth + 1)
    }

    fn block_list(&mut self, depth: usize) -> Result<Vec<Child>, Fault> {
        let start = self.scanner.next()?.start;
        let mut items = Vec::new();
        while *self.peek()? == Token::Item {
            let item = self.scanner.next()?;
            let ends = |token: &Token| matches!(token, Token::Item | Token::BlockEnd);
            items.push(self.value(ends, true, false, depth, item.end)?);
        }
        self.block_end("list", start)?;
        Ok(items)
    }

    fn indentless_list(&mut self, depth: usize) -> Result<Vec<Child>, Fault> {
        let mut items = Vec::new();
        while *self.peek()? == Token::Item {
            let item = self.scanner.next()?;
            let ends = |token: &Token| {
                matches!(
                    token,
                    Token::Item | Token::Key | Token::Value | Token::BlockEnd
                )
            };
            items.push(self.value(ends, true, false, depth, item.end)?);
        }
        Ok(items)
    }

    fn block_map(&mut self, depth: usize) -> Result<Vec<(Child, Child)>, Fault> {
        fn ends(token: &Token) -> bool {
            matches!(token, Token::Key | Token::Value | Token::BlockEnd)
        }
        let start = self.scanner.next()?.start;
        let mut pairs = Vec::new();
        while *self.peek()? == Token::Key {
            let key = self.scanner.next()?;
            let key = self.value(ends, true, true, depth, key.end)?;
            let next = self.scanner.peek()?.clone();
            let value = if next.token == Token::Value {
                self.scanner.next()?;
                self.value(ends, true, true, depth, next.end)?
            } else {
                self.empty(next.start)
            };
            pairs.push((key, value));
        }
        self.block_end("map", start)?;
        Ok(pairs)
    }

    fn block_end(&mut self, what: &str, start: Mark) -> Result<(), Fault> {
        let lexeme = self.scanner.peek()?.clone();
        if lexeme.token != Token::BlockEnd {
            let (found, line) = (words(&lexeme.token), start.line + 1);
            let message = format!(
                "expected the {what} that begins on line {line} to go on or end, not {found}"
            );
            return Err(Fault::new(lexeme.start, message)
                .hint("lines of one list or map need one indent; quote a text with `: ` in it"));
        }
        self.scanner.next()?;
        Ok(())
    }

    fn flow_list(&mut self, depth: usize) -> Result<Vec<Child>, Fault> {
        fn ends_key(token: &Token) -> bool {
            matches!(token, Token::Value | Token::Comma | Token::ListEnd)
        }
        fn ends_value(token: &Token) -> bool {
            matches!(token, Token::Comma | Token::ListEnd)
        }
        let start = self.scanner.next()?.start;
        let mut items = Vec::new();
        while *self.peek()? != Token::ListEnd {
            if !items.is_empty() {
                self.comma("list", ']', start)?;
            }
            let lexeme = self.scanner.peek()?.clone();
            match lexeme.token {
                Token::ListEnd => break,
                // `[a: b]` is a list of a map
                Token::Key => {
                    let map = self.add(lexeme.start, Tag::Map, YamlShape::Map(Vec::new()));
                    self.scanner.next()?;
                    let key = self.value(ends_key, false, false, depth, lexeme.end)?;
                    let value = self.flow_value(ends_value, depth)?;
                    self.nodes[map.id].shape = YamlShape::Map(vec![(key, value)]);
                    items.push(map);
                }
                _ => items.push(self.node(false, false, depth + 1)?),
            }
        }
        self.scanner.next()?;
        Ok(items)
    }

    fn flow_map(&mut self, depth: usize) -> Result<Vec<(Child, Child)>, Fault> {
        fn ends_key(token: &Token) -> bool {
            matches!(token, Token::Value | Token::Comma | Token::MapEnd)
        }
        fn ends_value(token: &Token) -> bool {
            matches!(token, Token::Comma | Token::MapEnd)
        }
        let start = self.scanner.next()?.start;
        let mut pairs = Vec::new();
        while *self.peek()? != Token::MapEnd {
            if !pairs.is_empty() {
                self.comma("map", '}', start)?;
            }
            let lexeme = self.scanner.peek()?.clone();
            let pair = match lexeme.token {
                Token::MapEnd => break,
                Token::Key => {
                    self.scanner.next()?;
                    let key = self.value(ends_key, false, false, depth, lexeme.end)?;
                    (key, self.flow_value(ends_value, depth)?)
                }
                _ => {
                    let key = self.node(false, false, depth + 1)?;
                    let mark = self.scanner.peek()?.start;
                    (key, self.empty(mark))
                }
            };
            pairs.push(pair);
        }
        self.scanner.next()?;
        Ok(pairs)
    }

    fn flow_value(&mut self, ends: fn(&Token) -> bool, depth: usize) -> Result<Child, Fault> {
        let next = self.scanner.peek()?.clone();
        if next.token != Token::Value {
            return Ok(self.empty(next.start));
        }
        self.scanner.next()?;
        self.value(ends, false, false, depth, next.end)
    }

    fn comma(&mut self, what: &str, bracket: char, start: Mark) -> Result<(), Fault> {
        let lexeme = self.scanner.peek()?.clone();
        if lexeme.token != Token::Comma {
            let (found, line) = (words(&lexeme.token), start.line + 1);
            let message = format!(
                "expected `,` or `{bracket}` in the {what} that begins on line {line}, not {found}"
            );
            return Err(Fault::new(lexeme.start, message)
                .hint("close the bracket; a text that begins with one (`{{ a }}`) needs quotes"));
        }
        self.scanner.next()?;
        Ok(())
    }
}

/// A token, for messages.
fn words(token: &Token) -> &'static str {
    match token {
        Token::StreamEnd => "the end of the file",
        Token::Version(_) | Token::TagPrefix(..) | Token::Directive => "a directive",
        Token::DocumentStart => "`---`",
        Token::DocumentEnd => "`...`",
        Token::BlockListStart | Token::Item => "a list item",
        Token::BlockMapStart => "a map",
        Token::BlockEnd => "the end of the block",
        Token::ListStart => "`[`",
        Token::ListEnd => "`]`",
        Token::MapStart => "`{`",
        Token::MapEnd => "`}`",
        Token::Comma => "`,`",
        Token::Key => "a key",
        Token::Value => "`:`",
        Token::Alias(_) => "an alias",
        Token::Anchor(_) => "an anchor",
        Token::Tag(..) => "a tag",
        Token::Scalar { .. } => "a text",
    }
}
