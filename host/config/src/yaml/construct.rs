//! From nodes to values: merge keys, repeated keys, and the values of typed texts.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};

use super::parse::{Child, Document, Id, YamlShape};
use super::resolve::{self, Tag, Time};
use super::{Fault, Located, Mark, Pair, Yaml};

/// How much aliases may add to a document, in nodes and in units of 16 bytes of text.
const MAX_COPIES: usize = 200_000;

/// How long a chain of maps may be in which each merges the next.
const MAX_DEPTH: usize = 100;

/// The longest integer, as in Python: its time grows with the square of the length.
const LONGEST_INT: usize = 4300;

/// How much of a text a message shows.
const SHOWN: usize = 60;

/// Makes the value of a document.
pub(super) fn construct(mut document: Document) -> Result<Located, Fault> {
    if let Some(mark) = document.recursive {
        let message = "an anchor holds an alias of itself, which would never end";
        return Err(Fault::new(mark, message).hint("write the value out in place of the alias"));
    }
    let mut checker = YamlChecker {
        seen: vec![false; document.nodes.len()],
        queue: VecDeque::new(),
        scalars: vec![None; document.nodes.len()],
        merged: vec![Vec::new(); document.nodes.len()],
        copied: 0,
    };
    checker.visit(&document, document.root)?;
    while let Some(id) = checker.queue.pop_front() {
        checker.fill(&mut document, id)?;
    }
    let cost = |text: &str| 1 + text.len() / 16;
    let budget = document
        .nodes
        .iter()
        .map(|node| match &node.shape {
            YamlShape::Scalar(text) => cost(text),
            _ => 1,
        })
        .sum::<usize>();
    let mut builder = YamlBuilder {
        document: &document,
        scalars: &checker.scalars,
        merged: &checker.merged,
        budget: budget + MAX_COPIES,
    };
    let root = Child {
        id: document.root,
        mark: document.nodes[document.root].mark,
        alias: false,
    };
    builder.build(root, None)
}

/// Finds nodes that can't be values, in the order in which PyYAML finds them: level by level.
struct YamlChecker {
    seen: Vec<bool>,
    queue: VecDeque<Id>,
    scalars: Vec<Option<Yaml>>,
    /// For each map, which of its pairs were merged in.
    merged: Vec<Vec<bool>>,
    /// How many pairs were merged in.
    copied: usize,
}

impl YamlChecker {
    fn visit(&mut self, document: &Document, id: Id) -> Result<(), Fault> {
        if std::mem::replace(&mut self.seen[id], true) {
            return Ok(());
        }
        let node = &document.nodes[id];
        match &node.tag {
            Tag::Seq | Tag::Map => self.queue.push_back(id),
            Tag::Refused(tag) => {
                return Err(
                    Fault::new(node.mark, format!("a `{tag}` is not a value of a config"))
                        .hint("write it as a list, a map or a text"),
                );
            }
            Tag::Merge => {
                return Err(Fault::new(node.mark, "`<<` can only be a key")
                    .hint("put it in quotes to have it as a text"));
            }
            Tag::Value => {
                return Err(Fault::new(node.mark, "`=` alone is no value")
                    .hint("put it in quotes to have it as a text"));
            }
            Tag::Unknown(tag) => {
                return Err(
                    Fault::new(node.mark, format!("the tag `{tag}` has no meaning"))
                        .hint("leave it out, or put a text that begins with `!` in quotes"),
                );
            }
            tag => {
                let text = text_of(document, id)?;
                if *tag == Tag::Int && text.len() > LONGEST_INT {
                    let message = format!("an integer has at most {LONGEST_INT} digits");
                    return Err(
                        Fault::new(node.mark, message).hint("put it in quotes if it is a text")
                    );
                }
                let value = scalar(tag, text).ok_or_else(|| {
                    let shown: String = text.chars().take(SHOWN).collect();
                    let cut = if shown.len() < text.len() { "..." } else { "" };
                    let message = format!("`{shown}{cut}` is no {}", noun(tag));
                    Fault::new(node.mark, message).hint("put it in quotes if it is a text")
                })?;
                self.scalars[id] = Some(value);
            }
        }
        Ok(())
    }

    /// The content of a list or a map.
    fn fill(&mut self, document: &mut Document, id: Id) -> Result<(), Fault> {
        if document.nodes[id].tag == Tag::Map {
            self.flatten(document, id, 0)?;
        }
        let node = &document.nodes[id];
        match (&node.tag, &node.shape) {
            (Tag::Seq, YamlShape::List(items)) => {
                for item in items {
                    self.visit(document, item.id)?;
                }
            }
            (Tag::Map, YamlShape::Map(pairs)) => {
                for (key, value) in pairs {
                    self.visit(document, key.id)?;
                    let node = &document.nodes[key.id];
                    if matches!(node.tag, Tag::Seq | Tag::Map) {
                        return Err(Fault::new(node.mark, "a list or a map can't be a key")
                            .hint("a text that begins with a bracket (`{{ a }}`) needs quotes"));
                    }
                    self.visit(document, value.id)?;
                }
            }
            (tag, _) => {
                let message = format!("the value after this tag is not a {}", noun(tag));
                return Err(Fault::new(node.mark, message).hint("leave the tag out"));
            }
        }
        Ok(())
    }

    /// Replaces `<<` by the pairs that it merges; these come first.
    fn flatten(&mut self, document: &mut Document, id: Id, depth: usize) -> Result<(), Fault> {
        if depth > MAX_DEPTH {
            let mark = document.nodes[id].mark;
            return Err(Fault::new(mark, "too many maps merge each other")
                .hint("write the keys out instead of `<<`"));
        }
        let YamlShape::Map(pairs) = &mut document.nodes[id].shape else {
            return Ok(());
        };
        let pairs = std::mem::take(pairs);
        let known = std::mem::take(&mut self.merged[id]);
        let mut merged = Vec::new();
        let mut own = Vec::new();
        for (index, (key, value)) in pairs.into_iter().enumerate() {
            match document.nodes[key.id].tag {
                Tag::Merge => self.sources(document, value, depth, &mut merged)?,
                Tag::Value => {
                    document.nodes[key.id].tag = Tag::Str;
                    own.push(((key, value), false));
                }
                _ => own.push(((key, value), known.get(index).copied().unwrap_or(false))),
            }
        }
        let marks = merged
            .iter()
            .map(|_| true)
            .chain(own.iter().map(|(_, merged)| *merged));
        self.merged[id] = marks.collect();
        merged.extend(own.into_iter().map(|(pair, _)| pair));
        document.nodes[id].shape = YamlShape::Map(merged);
        Ok(())
    }

    fn sources(
        &mut self,
        document: &mut Document,
        value: Child,
        depth: usize,
        merged: &mut Vec<(Child, Child)>,
    ) -> Result<(), Fault> {
        let maps = match &document.nodes[value.id].shape {
            // the first map of a list takes precedence, so it is merged last
            YamlShape::List(items) => items.clone(),
            _ => vec![value],
        };
        let mut found = Vec::new();
        for map in maps {
            self.flatten(document, map.id, depth + 1)?;
            match &document.nodes[map.id].shape {
                YamlShape::Map(pairs) => {
                    self.copied += pairs.len();
                    if self.copied > MAX_COPIES {
                        return Err(too_large(map.mark));
                    }
                    found.push(pairs.clone());
                }
                _ => {
                    let mark = document.nodes[map.id].mark;
                    return Err(Fault::new(mark, "`<<` takes a map or a list of maps")
                        .hint("name one by its anchor: `<<: *name`"));
                }
            }
        }
        merged.extend(found.into_iter().rev().flatten());
        Ok(())
    }
}

fn too_large(mark: Mark) -> Fault {
    Fault::new(
        mark,
        "the document is too large, perhaps because aliases multiply it",
    )
    .hint(
        "an alias (`*name`) stands for a copy of everything under its anchor (`&name`), also of \
         the aliases there: write the values out",
    )
}

/// The text of a scalar; for a map, the text under its key `=`.
fn text_of(document: &Document, id: Id) -> Result<&str, Fault> {
    let node = &document.nodes[id];
    match &node.shape {
        YamlShape::Scalar(text) => return Ok(text),
        YamlShape::Map(pairs) => {
            let is_value = |pair: &&(Child, Child)| document.nodes[pair.0.id].tag == Tag::Value;
            if let Some((_, value)) = pairs.iter().find(is_value) {
                return text_of(document, value.id);
            }
        }
        YamlShape::List(_) => {}
    }
    let message = format!("the value after this tag is not a {}", noun(&node.tag));
    Err(Fault::new(node.mark, message).hint("leave the tag out"))
}

fn noun(tag: &Tag) -> &'static str {
    match tag {
        Tag::Null => "null",
        Tag::Bool => "boolean",
        Tag::Int => "integer",
        Tag::Float => "number",
        Tag::Timestamp => "date or time",
        Tag::Seq => "list",
        Tag::Map => "map",
        _ => "text",
    }
}

struct YamlBuilder<'d> {
    document: &'d Document,
    scalars: &'d [Option<Yaml>],
    merged: &'d [Vec<bool>],
    budget: usize,
}

impl YamlBuilder<'_> {
    /// `used_at`: the position of the alias through which the node was reached.
    fn build(&mut self, child: Child, used_at: Option<Mark>) -> Result<Located, Fault> {
        let used_at = used_at.or(child.alias.then_some(child.mark));
        let node = &self.document.nodes[child.id];
        let cost = match &node.shape {
            YamlShape::Scalar(text) => 1 + text.len() / 16,
            _ => 1,
        };
        let mark = used_at.unwrap_or(node.mark);
        self.budget = self
            .budget
            .checked_sub(cost)
            .ok_or_else(|| too_large(mark))?;
        let value = match (&self.scalars[child.id], &node.shape) {
            (Some(value), _) => value.clone(),
            (None, YamlShape::List(items)) => Yaml::List(
                items
                    .iter()
                    .map(|item| self.build(*item, used_at))
                    .collect::<Result<_, _>>()?,
            ),
            (None, YamlShape::Map(pairs)) => {
                let mut map = Vec::<Pair>::new();
                let mut keys = HashMap::<String, (usize, bool)>::new();
                for (index, (key, value)) in pairs.iter().enumerate() {
                    let key = self.build(*key, used_at)?;
                    let value = self.build(*value, used_at)?;
                    let merged = self.merged[child.id].get(index) == Some(&true);
                    match identity(&key.value).map(|identity| keys.entry(identity)) {
                        Some(Entry::Occupied(entry)) => {
                            let (at, was_merged) = *entry.get();
                            let known: &mut Pair = &mut map[at];
                            known.hides = (!merged && !was_merged).then_some(known.key.mark);
                            known.key.mark = key.mark;
                            known.value = value;
                            *entry.into_mut() = (at, merged);
                        }
                        entry => {
                            if let Some(entry) = entry {
                                entry.or_insert((map.len(), merged));
                            }
                            map.push(Pair {
                                key,
                                value,
                                hides: None,
                            });
                        }
                    }
                }
                Yaml::Map(map)
            }
            // every node that can be reached was visited
            (None, YamlShape::Scalar(text)) => Yaml::Text(text.clone()),
        };
        Ok(Located { mark, value })
    }
}

/// The text by which keys are compared: in Python `1`, `1.0` and `true` are one key. Not-a-number
/// equals nothing.
fn identity(key: &Yaml) -> Option<String> {
    Some(match key {
        Yaml::Null => "null".to_owned(),
        Yaml::Bool(flag) => format!("#{}", u8::from(*flag)),
        Yaml::Int(digits) => format!("#{digits}"),
        Yaml::Float(number) if number.is_nan() => return None,
        // adding zero removes the sign of a negative zero
        Yaml::Float(number) => format!("#{}", number + 0.0),
        Yaml::Text(text) => format!("'{text}"),
        Yaml::Time(time) => format!("@{time}"),
        Yaml::List(_) | Yaml::Map(_) => return None,
    })
}

/// The value of a typed text.
fn scalar(tag: &Tag, text: &str) -> Option<Yaml> {
    match tag {
        Tag::Null => Some(Yaml::Null),
        Tag::Bool => match text.to_lowercase().as_str() {
            "yes" | "true" | "on" => Some(Yaml::Bool(true)),
            "no" | "false" | "off" => Some(Yaml::Bool(false)),
            _ => None,
        },
        Tag::Int => int(text).map(Yaml::Int),
        Tag::Float => float(text).map(Yaml::Float),
        Tag::Timestamp => resolve::time(text).and_then(iso).map(Yaml::Time),
        _ => Some(Yaml::Text(text.to_owned())),
    }
}

fn signed(text: &str) -> (bool, &str) {
    match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    }
}

fn int(text: &str) -> Option<String> {
    let text = text.replace('_', "");
    let (minus, digits) = signed(&text);
    let (base, digits) = if let Some(digits) = digits.strip_prefix("0b") {
        (2, digits)
    } else if let Some(digits) = digits.strip_prefix("0x") {
        (16, digits)
    } else if digits != "0" && digits.starts_with('0') {
        (8, digits)
    } else {
        (10, digits)
    };
    let number = if base == 10 && digits.contains(':') {
        let mut number = Decimal::default();
        for part in digits.split(':') {
            number.add(60, part.parse().ok()?);
        }
        number
    } else {
        // as Python's `int()`: blanks around it, and a sign
        let digits = digits.trim();
        if digits.is_empty() {
            return None;
        }
        let mut number = Decimal::default();
        for char in digits.chars() {
            number.add(base, char.to_digit(base)?);
        }
        number
    };
    let text = number.to_string();
    Some(if minus && text != "0" {
        format!("-{text}")
    } else {
        text
    })
}

/// A whole number of any size, in groups of nine digits, lowest first.
#[derive(Default)]
struct Decimal(Vec<u32>);

impl Decimal {
    const LIMB: u64 = 1_000_000_000;

    /// Multiplies by `base` and adds `digit`.
    fn add(&mut self, base: u32, digit: u32) {
        let mut carry = u64::from(digit);
        for limb in &mut self.0 {
            let sum = u64::from(*limb) * u64::from(base) + carry;
            *limb = u32::try_from(sum % Self::LIMB).unwrap_or_default();
            carry = sum / Self::LIMB;
        }
        while carry > 0 {
            self.0
                .push(u32::try_from(carry % Self::LIMB).unwrap_or_default());
            carry /= Self::LIMB;
        }
    }
}

impl std::fmt::Display for Decimal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Some((highest, rest)) = self.0.split_last() else {
            return f.write_str("0");
        };
        write!(f, "{highest}")?;
        rest.iter()
            .rev()
            .try_for_each(|limb| write!(f, "{limb:09}"))
    }
}

fn float(text: &str) -> Option<f64> {
    let text = text.replace('_', "").to_lowercase();
    let (minus, digits) = signed(&text);
    let number = match digits {
        ".inf" => f64::INFINITY,
        // without its sign
        ".nan" => return Some(f64::NAN),
        _ if digits.contains(':') => {
            let mut number = 0.0;
            for part in digits.split(':') {
                number = number * 60.0 + python_float(part)?;
            }
            number
        }
        _ => python_float(digits)?,
    };
    Some(if minus { -number } else { number })
}

/// As Python's `float()`, without the rule for underscores.
fn python_float(text: &str) -> Option<f64> {
    text.trim().parse().ok()
}

/// A time as Python's `isoformat()` writes it; none if the date or the time does not exist.
fn iso(time: Time<'_>) -> Option<String> {
    let [year, month, day] = time.date;
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if year == 0 || !(1..=days).contains(&day) {
        return None;
    }
    let mut text = format!("{year:04}-{month:02}-{day:02}");
    let Some(clock) = time.clock else {
        return Some(text);
    };
    let [hour, minute, second] = clock.time;
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    text.push_str(&format!("T{hour:02}:{minute:02}:{second:02}"));
    let micros = format!("{:0<6.6}", clock.fraction);
    if micros != "000000" {
        text.push('.');
        text.push_str(&micros);
    }
    if let Some((west, hours, minutes)) = clock.zone {
        let total = hours * 60 + minutes;
        if total >= 24 * 60 {
            return None;
        }
        let sign = if west && total > 0 { '-' } else { '+' };
        text.push_str(&format!("{sign}{:02}:{:02}", total / 60, total % 60));
    }
    Some(text)
}
