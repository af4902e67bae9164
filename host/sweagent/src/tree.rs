//! A configuration as it was given: a tree of values, each with its place.

use std::collections::HashMap;
use std::path::Path;

use serde_json::{Map, Value};

use mswea_config::yaml::{self, Located, Yaml};

use crate::fault::{SweAgentError, SweAgentProblem};
use crate::given_at::GivenAt;

/// A value with its place.
#[derive(Clone, Debug, PartialEq)]
pub struct GivenTree {
    /// The place where it was given.
    pub at: GivenAt,
    /// The content.
    pub content: GivenContent,
}

/// The content of a value.
#[derive(Clone, Debug, PartialEq)]
pub enum GivenContent {
    /// A text, a number, a truth value or nothing.
    Leaf(Value),
    /// A list.
    List(Vec<GivenTree>),
    /// A map, in its order.
    Map(Vec<(String, GivenTree)>),
}

impl GivenTree {
    /// A map without entries.
    pub fn empty(at: GivenAt) -> Self {
        Self {
            at,
            content: GivenContent::Map(Vec::new()),
        }
    }

    /// A JSON value, all of it from one place.
    pub fn of_value(value: Value, at: &GivenAt) -> Self {
        let content = match value {
            Value::Object(map) => GivenContent::Map(
                map.into_iter()
                    .map(|(key, value)| (key, Self::of_value(value, at)))
                    .collect(),
            ),
            Value::Array(items) => GivenContent::List(
                items
                    .into_iter()
                    .map(|item| Self::of_value(item, at))
                    .collect(),
            ),
            leaf => GivenContent::Leaf(leaf),
        };
        Self {
            at: at.clone(),
            content,
        }
    }

    /// Puts this value below the keys of a path.
    #[must_use]
    pub fn below(self, path: &[&str]) -> Self {
        path.iter().rev().fold(self, |tree, key| Self {
            at: tree.at.clone(),
            content: GivenContent::Map(vec![((*key).to_owned(), tree)]),
        })
    }

    /// The value at a path, if one was given there.
    pub fn get(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |tree, key| {
            let (_, value) = tree.entries().iter().find(|(name, _)| name == key)?;
            Some(value)
        })
    }

    /// The value at a path, to be changed.
    pub(crate) fn get_mut(&mut self, path: &[&str]) -> Option<&mut Self> {
        path.iter().try_fold(self, |tree, key| {
            let GivenContent::Map(entries) = &mut tree.content else {
                return None;
            };
            let (_, value) = entries.iter_mut().find(|(name, _)| name == key)?;
            Some(value)
        })
    }

    /// Changes each item of a list.
    pub(crate) fn each_item(&mut self, change: impl FnMut(&mut Self)) {
        if let GivenContent::List(items) = &mut self.content {
            items.iter_mut().for_each(change);
        }
    }

    /// The value at a dotted path; none if there is none or if it is null.
    pub fn given(&self, dotted: &str) -> Option<&Self> {
        let path: Vec<&str> = dotted.split('.').collect();
        self.get(&path).filter(|tree| !tree.is_null())
    }

    /// The entries of a map; none for other values.
    pub fn entries(&self) -> &[(String, Self)] {
        match &self.content {
            GivenContent::Map(entries) => entries,
            _ => &[],
        }
    }

    /// The items of a list; none for other values.
    pub fn items(&self) -> &[Self] {
        match &self.content {
            GivenContent::List(items) => items,
            _ => &[],
        }
    }

    /// The text, if it is one.
    pub fn text(&self) -> Option<&str> {
        match &self.content {
            GivenContent::Leaf(Value::String(text)) => Some(text),
            _ => None,
        }
    }

    /// Whether it is null.
    pub fn is_null(&self) -> bool {
        self.content == GivenContent::Leaf(Value::Null)
    }

    /// The plain value.
    pub fn value(&self) -> Value {
        match &self.content {
            GivenContent::Leaf(value) => value.clone(),
            GivenContent::List(items) => items.iter().map(Self::value).collect(),
            GivenContent::Map(entries) => {
                let entries = entries
                    .iter()
                    .map(|(key, tree)| (key.clone(), tree.value()));
                Value::Object(entries.collect::<Map<_, _>>())
            }
        }
    }

    /// Removes the value at a path, if there is one.
    pub fn remove(&mut self, path: &[&str]) {
        let GivenContent::Map(entries) = &mut self.content else {
            return;
        };
        match path {
            [] => {}
            [key] => entries.retain(|(name, _)| name != key),
            [key, rest @ ..] => {
                if let Some((_, inner)) = entries.iter_mut().find(|(name, _)| name == key) {
                    inner.remove(rest);
                }
            }
        }
    }

    /// Lays another tree over this one: maps are joined key by key, all other values are replaced.
    pub fn merge(&mut self, over: Self) {
        match (&mut self.content, over.content) {
            (GivenContent::Map(entries), GivenContent::Map(more)) => {
                // By name, because a file from elsewhere may have any number of keys.
                let names = entries.iter().enumerate();
                let mut places: HashMap<String, usize> = names
                    .map(|(place, (name, _))| (name.clone(), place))
                    .collect();
                for (key, value) in more {
                    let place = places.entry(key.clone()).or_insert(entries.len());
                    match entries.get_mut(*place) {
                        Some((_, below)) => below.merge(value),
                        None => entries.push((key, value)),
                    }
                }
            }
            (content, over_content) => {
                *content = over_content;
                self.at = over.at;
            }
        }
    }
}

/// Reads a YAML text. `path` is its name in messages.
///
/// # Errors
/// [`SweAgentError`] if it is not valid YAML, or not a map.
pub fn read_yaml(path: &str, text: &str) -> Result<GivenTree, SweAgentError> {
    let start = GivenAt::File {
        path: path.to_owned(),
        line: 1,
        column: 1,
    };
    let Some(tree) = read_any_yaml(path, text)? else {
        return Ok(GivenTree::empty(start));
    };
    match tree.content {
        GivenContent::Map(_) => Ok(tree),
        GivenContent::Leaf(Value::Null) => Ok(GivenTree::empty(start)),
        _ => Err(SweAgentProblem::at(&tree.at, "a config file holds a map of keys").into()),
    }
}

/// Reads a YAML text of any kind; none if it is empty.
pub(crate) fn read_any_yaml(path: &str, text: &str) -> Result<Option<GivenTree>, SweAgentError> {
    let place = |mark: yaml::Mark| GivenAt::File {
        path: path.to_owned(),
        line: mark.line + 1,
        column: mark.column + 1,
    };
    let loaded = yaml::load(text).map_err(|fault| {
        let problem = SweAgentProblem::at(&place(fault.mark), fault.message);
        match fault.hint {
            Some(hint) => problem.hint(hint),
            None => problem,
        }
    })?;
    let tree = loaded.map(|located| of_yaml(located, &place)).transpose();
    Ok(tree?)
}

/// Reads a YAML file.
///
/// # Errors
/// [`SweAgentError`] if it can't be read, or is not a map.
pub fn read_yaml_file(path: &Path) -> Result<GivenTree, SweAgentError> {
    let name = path.display().to_string();
    let text = mswea_files::read_text(path, mswea_files::SETTINGS).map_err(|error| {
        SweAgentProblem::new(format!("can't read `{name}`: {error}"))
            .hint("`--config` takes a file, or one of `default`, `default_backticks`, `bash_only`, `coding_challenge`")
    })?;
    read_yaml(&name, &text)
}

fn of_yaml(
    located: Located,
    place: &dyn Fn(yaml::Mark) -> GivenAt,
) -> Result<GivenTree, SweAgentProblem> {
    let at = place(located.mark);
    let content = match located.value {
        Yaml::Null => GivenContent::Leaf(Value::Null),
        Yaml::Bool(is) => GivenContent::Leaf(is.into()),
        Yaml::Int(digits) => GivenContent::Leaf(match digits.parse::<i64>() {
            Ok(number) => number.into(),
            Err(_) => return Err(SweAgentProblem::at(&at, format!("`{digits}` is too large"))),
        }),
        Yaml::Float(number) => GivenContent::Leaf(number.into()),
        Yaml::Text(text) | Yaml::Time(text) => GivenContent::Leaf(text.into()),
        Yaml::List(items) => GivenContent::List(
            items
                .into_iter()
                .map(|item| of_yaml(item, place))
                .collect::<Result<_, _>>()?,
        ),
        Yaml::Map(pairs) => {
            let mut entries = Vec::new();
            for pair in pairs {
                let key = match of_yaml(pair.key, place)?.value() {
                    Value::String(text) => text,
                    other => other.to_string(),
                };
                entries.push((key, of_yaml(pair.value, place)?));
            }
            GivenContent::Map(entries)
        }
    };
    Ok(GivenTree { at, content })
}
