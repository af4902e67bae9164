//! The tree of values with origins, and how two of them merge.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::origin::Origin;

/// A value and its origin.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    /// The origin of the value itself.
    pub(super) origin: Origin,
    pub(super) content: Content,
}

/// What a node holds. Lists are nodes too, so that an error in the third element is shown on its
/// own line; they still merge as a whole.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Content {
    /// Null, boolean, number or text.
    Scalar(Value),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// A key of a map with its value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) key: String,
    /// The origin of the key, which is shown as the place of the value.
    pub(super) at: Origin,
    pub(super) node: Node,
}

impl Node {
    /// An empty map.
    pub(super) fn empty(origin: Origin) -> Self {
        Self {
            origin,
            content: Content::Map(Vec::new()),
        }
    }

    /// A tree that has one origin throughout.
    pub(super) fn uniform(value: Value, origin: &Origin) -> Self {
        let content = match value {
            Value::Array(items) => Content::List(
                items
                    .into_iter()
                    .map(|item| Self::uniform(item, origin))
                    .collect(),
            ),
            Value::Object(map) => Content::Map(
                map.into_iter()
                    .map(|(key, value)| Entry {
                        key,
                        at: origin.clone(),
                        node: Self::uniform(value, origin),
                    })
                    .collect(),
            ),
            scalar => Content::Scalar(scalar),
        };
        Self {
            origin: origin.clone(),
            content,
        }
    }

    /// `value` under the keys of `path`.
    pub(super) fn nested(path: &[&str], value: Value, origin: &Origin) -> Self {
        path.iter()
            .rev()
            .fold(Self::uniform(value, origin), |node, key| Self {
                origin: origin.clone(),
                content: Content::Map(vec![Entry {
                    key: (*key).to_owned(),
                    at: origin.clone(),
                    node,
                }]),
            })
    }

    /// Lays `over` on top: maps merge key by key, any other value replaces, null included.
    pub(super) fn merge(&mut self, over: Self) {
        match (&mut self.content, over.content) {
            (Content::Map(below), Content::Map(above)) => {
                // By name, because a file from elsewhere may have any number of keys.
                let names = below.iter().enumerate();
                let mut places: HashMap<String, usize> = names
                    .map(|(place, known)| (known.key.clone(), place))
                    .collect();
                for entry in above {
                    let place = places.entry(entry.key.clone()).or_insert(below.len());
                    match below.get_mut(*place) {
                        Some(known) => {
                            known.at = entry.at;
                            known.node.merge(entry.node);
                        }
                        None => below.push(entry),
                    }
                }
            }
            (content, above) => {
                *content = above;
                self.origin = over.origin;
            }
        }
    }

    /// The plain value.
    pub(super) fn to_value(&self) -> Value {
        match &self.content {
            Content::Scalar(value) => value.clone(),
            Content::List(items) => items.iter().map(Self::to_value).collect(),
            Content::Map(entries) => Value::Object(
                entries
                    .iter()
                    .map(|entry| (entry.key.clone(), entry.node.to_value()))
                    .collect::<Map<_, _>>(),
            ),
        }
    }

    /// The entry of a map.
    pub(super) fn entry(&self, key: &str) -> Option<&Entry> {
        match &self.content {
            Content::Map(entries) => entries.iter().find(|entry| entry.key == key),
            _ => None,
        }
    }

    /// The node at a path of keys and list indexes.
    pub(super) fn get(&self, path: &[&str]) -> Option<&Self> {
        path.iter()
            .try_fold(self, |node, key| node.child(key).map(|(child, _)| child))
    }

    /// The node at a path of keys, to change it.
    pub(super) fn get_mut(&mut self, path: &[&str]) -> Option<&mut Self> {
        path.iter()
            .try_fold(self, |node, key| match &mut node.content {
                Content::Map(entries) => {
                    let entry = entries.iter_mut().find(|entry| entry.key == *key);
                    entry.map(|entry| &mut entry.node)
                }
                _ => None,
            })
    }

    /// Takes a key out of the map at `path`.
    pub(super) fn remove(&mut self, path: &[&str], key: &str) {
        if let Some(Self {
            content: Content::Map(entries),
            ..
        }) = self.get_mut(path)
        {
            entries.retain(|entry| entry.key != key);
        }
    }

    /// The origin of the value at a path, or of the nearest parent that is set.
    pub(super) fn origin_of(&self, path: &[&str]) -> Option<&Origin> {
        let mut found = None;
        let mut node = self;
        for key in path {
            let Some((child, at)) = node.child(key) else {
                break;
            };
            found = Some(at);
            node = child;
        }
        found
    }

    fn child(&self, key: &str) -> Option<(&Self, &Origin)> {
        match &self.content {
            Content::Map(_) => self.entry(key).map(|entry| (&entry.node, &entry.at)),
            Content::List(items) => {
                let item = items.get(key.parse::<usize>().ok()?)?;
                Some((item, &item.origin))
            }
            Content::Scalar(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tree(value: Value, name: &str) -> Node {
        Node::uniform(value, &Origin::Preset { name: name.into() })
    }

    #[test]
    fn maps_merge_and_everything_else_replaces() {
        for (below, above, expected) in [
            (json!({"a": 1}), json!({"b": 2}), json!({"a": 1, "b": 2})),
            (
                json!({"a": {"x": 1}}),
                json!({"a": {"y": 2}}),
                json!({"a": {"x": 1, "y": 2}}),
            ),
            (json!({"a": [1, 2]}), json!({"a": [3]}), json!({"a": [3]})),
            (json!({"a": 1}), json!({"a": null}), json!({"a": null})),
            (
                json!({"a": {"x": 1}}),
                json!({"a": null}),
                json!({"a": null}),
            ),
            (
                json!({"a": null}),
                json!({"a": {"x": 1}}),
                json!({"a": {"x": 1}}),
            ),
            (json!({"a": {"x": 1}}), json!({"a": 5}), json!({"a": 5})),
            (
                json!({"a": 5}),
                json!({"a": {"x": 1}}),
                json!({"a": {"x": 1}}),
            ),
        ] {
            let mut node = tree(below.clone(), "below");
            node.merge(tree(above.clone(), "above"));
            assert_eq!(node.to_value(), expected, "{below} <- {above}");
        }
    }

    #[test]
    fn each_value_keeps_its_origin() {
        let mut node = tree(json!({"a": {"x": 1, "y": [1, 2]}, "b": 1}), "below");
        node.merge(tree(json!({"a": {"x": 2}}), "above"));
        for (path, name) in [
            (&["a", "x"][..], "above"),
            (&["a", "y"], "below"),
            (&["a", "y", "1"], "below"),
            (&["a", "x", "deeper", "still"], "above"),
            (&["b"], "below"),
        ] {
            let origin = node.origin_of(path).unwrap();
            assert_eq!(*origin, Origin::Preset { name: name.into() }, "{path:?}");
        }
        assert_eq!(node.origin_of(&["nothing"]), None);
        assert_eq!(node.get(&["a", "y", "1"]).unwrap().to_value(), json!(2));
    }

    #[test]
    fn a_nested_value_stands_under_its_keys() {
        let node = Node::nested(&["a", "b"], json!({"c": [1]}), &Origin::BuiltIn);
        assert_eq!(node.to_value(), json!({"a": {"b": {"c": [1]}}}));
    }
}
