//! From nodes to values: merge keys, repeated keys, and the values of typed texts.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::parse::{Child, Document, Id, YamlNode, YamlShape};
use super::resolve::{self, Tag};
use super::{Fault, Located, Mark, Pair, Yaml, problem};

/// How much aliases and `<<` may add to a document, in nodes and in units of 16 bytes of text.
const MAX_COPIES: usize = 200_000;

/// How long a chain of maps may be in which each merges the next.
const MAX_DEPTH: usize = 100;

/// The longest integer, as in Python: its time grows with the square of the length.
const LONGEST_INT: usize = 4300;

/// How much of a text a message shows.
const SHOWN: usize = 60;

/// Makes the value of a document.
pub(super) fn construct(document: Document) -> Result<Located, Fault> {
    if let Some(mark) = document.recursive {
        let message = "an anchor holds an alias of itself, which would never end";
        return Err(Fault::new(mark, message).hint("write the value out in place of the alias"));
    }
    let mut builder = YamlBuilder {
        nodes: &document.nodes,
        budget: document.nodes.iter().map(cost).sum::<usize>() + MAX_COPIES,
    };
    builder.build(document.root, None)
}

fn cost(node: &YamlNode) -> usize {
    match &node.shape {
        YamlShape::Scalar(text) => 1 + text.len() / 16,
        _ => 1,
    }
}

struct YamlBuilder<'d> {
    nodes: &'d [YamlNode],
    budget: usize,
}

impl<'d> YamlBuilder<'d> {
    fn spend(&mut self, cost: usize, mark: Mark) -> Result<(), Fault> {
        self.budget = self.budget.checked_sub(cost).ok_or_else(|| {
            Fault::new(
                mark,
                "the document is too large, perhaps because aliases multiply it",
            )
            .hint(
                "an alias (`*name`) stands for a copy of everything under its anchor (`&name`), \
                 also of the aliases there: write the values out",
            )
        })?;
        Ok(())
    }

    /// `used_at`: the position of the alias through which the node was reached.
    fn build(&mut self, child: Child, used_at: Option<Mark>) -> Result<Located, Fault> {
        let used_at = used_at.or(child.alias.then_some(child.mark));
        let node = &self.nodes[child.id];
        let mark = used_at.unwrap_or(node.mark);
        self.spend(cost(node), mark)?;
        let value = match (&node.tag, &node.shape) {
            (Tag::Seq, YamlShape::List(items)) => Yaml::List(
                items
                    .iter()
                    .map(|item| self.build(*item, used_at))
                    .collect::<Result<_, _>>()?,
            ),
            (Tag::Map, YamlShape::Map(_)) => Yaml::Map(self.map(child.id, used_at)?),
            _ => self.scalar(node)?,
        };
        Ok(Located { mark, value })
    }

    fn map(&mut self, id: Id, used_at: Option<Mark>) -> Result<Vec<Pair>, Fault> {
        let mut map = Vec::<Pair>::new();
        let mut keys = HashMap::<String, (usize, bool)>::new();
        for (key, value, merged) in self.flatten(id, 0)? {
            let node = &self.nodes[key.id];
            if matches!(node.tag, Tag::Seq | Tag::Map) {
                return Err(Fault::new(node.mark, "a list or a map can't be a key")
                    .hint("a text that begins with a bracket (`{{ a }}`) needs quotes"));
            }
            let key = match (&node.tag, &node.shape) {
                (Tag::Value, YamlShape::Scalar(text)) => Located {
                    mark: used_at.unwrap_or(key.mark),
                    value: Yaml::Text(text.clone()),
                },
                _ => self.build(key, used_at)?,
            };
            let value = self.build(value, used_at)?;
            match identity(&key.value).map(|identity| keys.entry(identity)) {
                Some(Entry::Occupied(mut entry)) => {
                    let (at, was_merged) = entry.insert((entry.get().0, merged));
                    let known = &mut map[at];
                    known.hides = (!merged && !was_merged).then_some(known.key.mark);
                    known.key.mark = key.mark;
                    known.value = value;
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
        Ok(map)
    }

    /// The pairs of a map, and whether each was merged in by a `<<`; these come first.
    fn flatten(&mut self, id: Id, depth: usize) -> Result<Vec<(Child, Child, bool)>, Fault> {
        let node = &self.nodes[id];
        if depth > MAX_DEPTH {
            return Err(Fault::new(node.mark, "too many maps merge each other")
                .hint("write the keys out instead of `<<`"));
        }
        let YamlShape::Map(pairs) = &node.shape else {
            return Err(Fault::new(node.mark, "`<<` takes a map or a list of maps")
                .hint("name one by its anchor: `<<: *name`"));
        };
        let mut merged = Vec::new();
        let mut own = Vec::new();
        for (key, value) in pairs {
            if self.nodes[key.id].tag != Tag::Merge {
                own.push((*key, *value, false));
                continue;
            }
            let sources = match &self.nodes[value.id].shape {
                YamlShape::List(items) => items.as_slice(),
                _ => std::slice::from_ref(value),
            };
            let mut found = Vec::new();
            for source in sources {
                let pairs = self.flatten(source.id, depth + 1)?;
                self.spend(1 + pairs.len(), source.mark)?;
                found.push(pairs);
            }
            // the first map of a list takes precedence, so it is merged last
            let found = found.into_iter().rev().flatten();
            merged.extend(found.map(|(key, value, _)| (key, value, true)));
        }
        merged.extend(own);
        Ok(merged)
    }

    fn scalar(&self, node: &YamlNode) -> Result<Yaml, Fault> {
        let fault = |message: String, hint| Err(Fault::new(node.mark, message).hint(hint));
        match &node.tag {
            Tag::Unknown(tag) => Err(problem::unknown_tag(node.mark, tag)),
            Tag::Merge | Tag::Value => fault(
                "`<<` and `=` can only be keys".to_owned(),
                "put it in quotes to have it as a text",
            ),
            tag => {
                let Some(text) = self.text(node) else {
                    let message = format!("the value after this tag is not a {}", noun(tag));
                    return fault(message, "leave the tag out");
                };
                if *tag == Tag::Int && text.len() > LONGEST_INT {
                    let message = format!("an integer has at most {LONGEST_INT} digits");
                    return fault(message, "put it in quotes if it is a text");
                }
                typed(tag, text).map_or_else(
                    || {
                        let shown: String = text.chars().take(SHOWN).collect();
                        let cut = if shown.len() < text.len() { "..." } else { "" };
                        let message = format!("`{shown}{cut}` is no {}", noun(tag));
                        fault(message, "put it in quotes if it is a text")
                    },
                    Ok,
                )
            }
        }
    }

    /// The text of a scalar; for a map, the text under its key `=`.
    fn text(&self, node: &'d YamlNode) -> Option<&'d str> {
        match &node.shape {
            YamlShape::Scalar(text) if !matches!(node.tag, Tag::Seq | Tag::Map) => Some(text),
            YamlShape::Map(pairs) => {
                let is_value = |pair: &&(Child, Child)| self.nodes[pair.0.id].tag == Tag::Value;
                let (_, value) = pairs.iter().find(is_value)?;
                self.text(&self.nodes[value.id])
            }
            _ => None,
        }
    }
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
fn typed(tag: &Tag, text: &str) -> Option<Yaml> {
    match tag {
        Tag::Null => Some(Yaml::Null),
        Tag::Bool => match text.to_lowercase().as_str() {
            "yes" | "true" | "on" => Some(Yaml::Bool(true)),
            "no" | "false" | "off" => Some(Yaml::Bool(false)),
            _ => None,
        },
        Tag::Int => int(text).map(Yaml::Int),
        Tag::Float => float(text).map(Yaml::Float),
        Tag::Timestamp => resolve::iso(text).map(Yaml::Time),
        _ => Some(Yaml::Text(text.to_owned())),
    }
}

fn signed(text: &str) -> (bool, &str) {
    match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    }
}

/// As PyYAML's constructor with Python's `int()`, which takes blanks around the digits.
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
    let mut number = Decimal::default();
    if base == 10 && digits.contains(':') {
        for part in digits.split(':') {
            number.add(60, part.parse().ok()?);
        }
    } else {
        for char in Some(digits.trim())
            .filter(|digits| !digits.is_empty())?
            .chars()
        {
            number.add(base.into(), char.to_digit(base)?);
        }
    }
    let text = number.to_string();
    let sign = if minus && text != "0" { "-" } else { "" };
    Some(format!("{sign}{text}"))
}

/// A whole number of any size, in groups of nine digits, lowest first.
#[derive(Default)]
struct Decimal(Vec<u64>);

impl Decimal {
    const LIMB: u64 = 1_000_000_000;

    /// Multiplies by `base` and adds `digit`.
    fn add(&mut self, base: u64, digit: u32) {
        let mut carry = u64::from(digit);
        for limb in &mut self.0 {
            let sum = *limb * base + carry;
            *limb = sum % Self::LIMB;
            carry = sum / Self::LIMB;
        }
        while carry > 0 {
            self.0.push(carry % Self::LIMB);
            carry /= Self::LIMB;
        }
    }
}

impl std::fmt::Display for Decimal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (highest, rest) = self.0.split_last().unwrap_or((&0, &[]));
        write!(f, "{highest}")?;
        rest.iter()
            .rev()
            .try_for_each(|limb| write!(f, "{limb:09}"))
    }
}

/// As PyYAML's constructor with Python's `float()`, which takes blanks around the digits.
fn float(text: &str) -> Option<f64> {
    let text = text.replace('_', "").to_lowercase();
    let (minus, digits) = signed(&text);
    let number = match digits {
        ".inf" => f64::INFINITY,
        // without its sign
        ".nan" => return Some(f64::NAN),
        _ => digits.split(':').try_fold(0.0, |number, part| {
            Some(number * 60.0 + part.trim().parse::<f64>().ok()?)
        })?,
    };
    Some(if minus { -number } else { number })
}
