//! The plugins of an earlier run: which ones its flags named, and whether they are unchanged.

use serde_json::Value;

use super::{Earlier, EarlierError};

/// The key in the journal for the text by which a flag named a plugin.
pub(crate) const ASKED: &str = "asked";

impl Earlier {
    /// The plugins that the flags of the run named, in their order, followed by those of `anew`
    /// that are not among them. Plugins that `anew` names may have changed since.
    pub fn plugins(&mut self, anew: &[String]) -> Vec<String> {
        self.named_anew = anew.to_vec();
        let mut names: Vec<String> = Vec::new();
        let recorded = self.kept.plugins.as_array().into_iter().flatten();
        let recorded = recorded.filter_map(|it| text(it, ASKED));
        for name in recorded.chain(anew.iter().map(String::as_str)) {
            if !names.iter().any(|it| it == name) {
                names.push(name.to_owned());
            }
        }
        names
    }

    /// Compares the digests of the plugins with those that the run had.
    ///
    /// # Errors
    /// [`EarlierError::ChangedPlugin`] names the first one that differs and was not named anew.
    pub(crate) fn check_plugins(&self, now: &[Value]) -> Result<(), EarlierError> {
        if self.accepts_changes {
            return Ok(());
        }
        let before = || self.kept.plugins.as_array().into_iter().flatten();
        for plugin in now {
            let is_same = |it: &&Value| {
                text(it, "name") == text(plugin, "name") && text(it, "kind") == text(plugin, "kind")
            };
            let (Some(old), Some(new)) = (
                before().find(is_same).and_then(|it| text(it, "sha256")),
                text(plugin, "sha256"),
            ) else {
                continue;
            };
            let asked = text(plugin, ASKED);
            let is_anew = asked.is_some_and(|asked| self.named_anew.iter().any(|it| it == asked));
            if old == new || is_anew {
                continue;
            }
            let flag = "`--accept-changed-plugins`";
            return Err(EarlierError::ChangedPlugin {
                name: text(plugin, "name").unwrap_or_default().to_owned(),
                kind: text(plugin, "kind").unwrap_or_default().to_owned(),
                before: old.to_owned(),
                now: new.to_owned(),
                how: match asked {
                    Some(asked) => format!("`--plugin {asked}` or {flag}"),
                    None => flag.to_owned(),
                },
            });
        }
        Ok(())
    }
}

fn text<'v>(value: &'v Value, name: &str) -> Option<&'v str> {
    value.get(name)?.as_str()
}
