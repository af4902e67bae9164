//! Where the model's address and its key were set, recorded layer by layer, for
//! [`super::key_rule`].

use super::node::Node;

/// A model as one file names it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedModel {
    /// `model.model_name`.
    pub name: Option<String>,
    /// `model.model_class`.
    pub class: Option<String>,
    /// `custom_llm_provider` in `model.model_kwargs`.
    pub custom: Option<String>,
}

/// The place at which an address or a key was set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The dotted key.
    pub key: String,
    /// Its origin in words, for messages.
    pub place: String,
    /// The file that sets it; none for the command line and variables.
    pub file: Option<String>,
    /// The model that the same file names.
    pub model: Option<NamedModel>,
}

/// The places at which the model's address and its key were set; none: they follow from the
/// provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetBy {
    /// The base URL.
    pub address: Option<Setting>,
    /// The key, or its name.
    pub key: Option<Setting>,
}

/// Keys that set the address; the first one that is set counts.
pub(super) const ADDRESSES: [&[&str]; 3] = [
    &["model", "base_url"],
    &["model", "model_kwargs", "api_base"],
    &["model", "model_kwargs", "base_url"],
];

/// Keys that set the key.
pub(super) const KEYS: [&[&str]; 2] = [
    &["model", "api_key_env"],
    &["model", "model_kwargs", "api_key"],
];

/// The last setting of each key, recorded layer by layer.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger(Vec<(&'static [&'static str], Setting)>);

impl Ledger {
    /// Records what a layer sets; `file` is the layer's name if it is a file.
    pub(super) fn note(&mut self, layer: &Node, file: Option<&str>) {
        let text = |path: &[&str]| {
            let value = layer.get(path)?.to_value();
            value
                .as_str()
                .filter(|text| !text.is_empty())
                .map(str::to_owned)
        };
        let model = NamedModel {
            name: text(&["model", "model_name"]),
            class: text(&["model", "model_class"]),
            custom: text(&["model", "model_kwargs", "custom_llm_provider"]),
        };
        for path in ADDRESSES.into_iter().chain(KEYS) {
            let Some(origin) = layer.get(path).and_then(|_| layer.origin_of(path)) else {
                continue;
            };
            self.0.retain(|(known, _)| *known != path);
            let setting = Setting {
                key: path.join("."),
                place: origin.to_string(),
                file: file.map(str::to_owned),
                model: Some(model.clone())
                    .filter(|model| file.is_some() && *model != NamedModel::default()),
            };
            self.0.push((path, setting));
        }
    }

    /// The setting of the first of `paths` that has a value.
    pub(super) fn first(
        &self,
        paths: &[&'static [&'static str]],
        merged: &Node,
    ) -> Option<Setting> {
        let is_set = |path: &&&'static [&'static str]| {
            let value = merged.get(path).map(Node::to_value);
            value.is_some_and(|value| value.as_str().is_some_and(|text| !text.is_empty()))
        };
        let path = paths.iter().find(is_set)?;
        let (_, setting) = self.0.iter().find(|(known, _)| known == path)?;
        Some(setting.clone())
    }
}
