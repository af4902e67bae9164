//! Loads the plugins of a run, and finds the `[plugins.NAME]` entry of each.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mswea_config::PluginEntry;
use mswea_core::Progress;
use mswea_plugin_host::{LoadError, Plugin, PluginLimits, RoleKind, Source, builtin};

use super::RoleSetup;
use crate::entries::{self, EntryMatch};
use crate::{SetupError, origins};

/// A loaded plugin and its name in this run: the key of the `[plugins.NAME]` entry that identifies it
/// (several entries may identify one plugin, with different configs), else the name in its descriptor.
#[derive(Clone)]
pub(crate) struct NamedPlugin {
    pub(crate) name: Arc<str>,
    pub(crate) plugin: Arc<Plugin>,
    /// The plugin's entry in the config.
    pub(super) entry_match: EntryMatch,
    /// The text by which a flag named it; none: the config names it.
    pub(super) asked: Option<String>,
}

impl NamedPlugin {
    pub(super) fn is_built_in(&self) -> bool {
        matches!(self.plugin.source, Source::BuiltIn(_))
    }
}

impl RoleSetup<'_> {
    /// Loads the plugin that `spec` names: a built-in plugin, an entry of the config, or a file. `key`
    /// is the key of the config that has `spec`, for messages.
    ///
    /// # Errors
    /// [`SetupError::Plugin`] if the plugin can't be found or loaded or differs from the digest in its
    /// entry, [`SetupError::Pin`] if it differs from the digest in a lock file.
    pub(crate) async fn load(
        &self,
        spec: &str,
        key: Option<&str>,
    ) -> Result<NamedPlugin, SetupError> {
        let entries = &self.job.config.plugins;
        let loader = self.runtime.loader();
        let unusable = |mut error| {
            let own = entries.iter().filter(|(_, entry)| entry.path.is_some());
            let own: Vec<&str> = own.map(|(name, _)| name.as_str()).collect();
            if let LoadError::Unknown { name, known, hint } = &mut error
                && !own.is_empty()
            {
                *known += &format!("; entries of the config: `{}`", own.join("`, `"));
                if let Some(near) = mswea_text::nearest(name, own) {
                    *hint = format!(" (did you mean `{near}`?)");
                }
            }
            SetupError::Plugin {
                error,
                origin: key.and_then(|key| self.job.origin(key)),
            }
        };
        let path = entries.get(spec).and_then(|entry| entry.path.as_deref());
        let found = match path {
            Some(path) => loader.find_file(Path::new(path)),
            None => loader.find(spec),
        }
        .map_err(unusable)?;
        // All digests are checked before the component is compiled or run.
        let naming = entries::naming(entries, spec, &found).map_err(|error| self.located(error))?;
        self.locks
            .check(&found.source, &found.label, &found.digest)?;
        let allowed = naming.first().map(|key| limits(&entries[*key]));
        let allowed = allowed.unwrap_or(PluginLimits::STANDARD);
        let plugin = loader.load_found(found, &allowed).await.map_err(unusable)?;
        let entry_match = entries::match_entry(entries, &naming, &plugin.source, &plugin.name);
        let name = match &entry_match {
            EntryMatch::Identified(key) => key.as_str().into(),
            _ => plugin.name.clone(),
        };
        let named = NamedPlugin {
            name,
            plugin,
            entry_match,
            asked: None,
        };
        self.check_entry(&named)?;
        report_change(&named);
        Ok(named)
    }

    /// Checks an entry that only has the plugin's name, and warns if it grants something.
    fn check_entry(&self, named: &NamedPlugin) -> Result<(), SetupError> {
        let EntryMatch::SameName(key) = &named.entry_match else {
            return Ok(());
        };
        let entry = &self.job.config.plugins[key];
        // The entry may have the digest of another plugin.
        named
            .plugin
            .pinned(key, entry.sha256.as_deref())
            .map_err(|error| self.located(error))?;
        if !(entry.allow_hosts.is_empty() && entry.secrets.is_empty()) {
            let text = format!(
                "the entry `plugins.{key}` grants hosts or secrets, but does not say which file gets them: `{}` has the name `{key}` in its descriptor, and gets none of them; if the entry is meant for this file, add `path = \"{}\"` (or its `sha256`) to the entry",
                file(&named.plugin),
                file(&named.plugin),
            );
            self.context.front.show(&Progress::Warning(&text));
        }
        Ok(())
    }

    /// The entry of a plugin; none if it has no entry.
    pub(super) fn entry(&self, named: &NamedPlugin) -> Option<&PluginEntry> {
        self.job.config.plugins.get(named.entry_match.key()?)
    }

    /// Warns about entries of the config that belong to no plugin of this run: their names are most
    /// likely misspelt.
    pub(super) fn warn_about_unused(&self, loaded: &[&NamedPlugin]) {
        for (name, entry) in &self.job.config.plugins {
            let used = loaded
                .iter()
                .any(|named| named.entry_match.key() == Some(name));
            if used || entry.path.is_some() || builtin::find(name).is_some() {
                continue;
            }
            let known = builtin::all().iter().map(|builtin| builtin.name);
            let near =
                mswea_text::nearest(name, known.chain(loaded.iter().map(|named| &*named.name)))
                    .map_or_else(String::new, |near| format!(": did you mean `{near}`?"));
            let text = format!(
                "`plugins.{name}` has no effect: no plugin of this run has that name{near}"
            );
            self.context.front.show(&Progress::Warning(&text));
        }
    }

    /// The error with the place of the config value that caused it, if one did.
    pub(super) fn located(&self, error: LoadError) -> SetupError {
        let origin = match &error {
            LoadError::Config {
                plugin, pointer, ..
            } => {
                let own =
                    |layers| origins::of_plugin_value(layers, self.job.config, plugin, pointer);
                let entry = self.job.config.plugins.get(plugin);
                let is_own = entry.is_some_and(|entry| entry.config.contains_key("commands"));
                let of_tools = self.tools.filter(|_| !is_own);
                of_tools
                    .and_then(|tools| tools.place(pointer))
                    .or_else(|| self.job.layers.and_then(own))
            }
            // A plugin of `--plugin` only gets roles that it has, so the wrong kind was named in the
            // config.
            LoadError::WrongKind { wanted, .. } => self.job.origin(match wanted {
                RoleKind::ModelAdapter => "pipeline.adapter",
                RoleKind::ActionParser => "pipeline.parser",
                RoleKind::ObservationFormatter => "pipeline.formatter",
                RoleKind::HistoryProcessor => "pipeline.processors",
                RoleKind::ActionPolicy => "pipeline.policies",
            }),
            LoadError::Digest { plugin, .. } => {
                self.job.origin(&format!("/plugins/{plugin}/sha256"))
            }
            _ => None,
        };
        SetupError::Plugin { error, origin }
    }
}

/// Reports a changed file.
fn report_change(named: &NamedPlugin) {
    if let Some(before) = &named.plugin.changed_from {
        let short = |digest: &str| digest.get(..12).unwrap_or(digest).to_owned();
        tracing::info!(
            "plugin `{}` has changed since it was last used: sha256 {} is now {}",
            named.name,
            short(before),
            short(&named.plugin.digest)
        );
    }
}

/// The text by which a config names a plugin: the path of its file, or its name if it is built in.
pub(super) fn file(plugin: &Plugin) -> String {
    match &plugin.source {
        Source::File(path) => path.display().to_string(),
        Source::BuiltIn(_) => plugin.name.to_string(),
    }
}

/// The limits that an entry of the config sets.
pub(super) fn limits(entry: &PluginEntry) -> PluginLimits {
    let bytes = |count: u64, unit: u32| {
        usize::try_from(count.saturating_mul(1 << unit)).unwrap_or(usize::MAX)
    };
    PluginLimits {
        deadline: Duration::from_millis(entry.deadline_ms),
        memory: bytes(entry.memory_mb, 20),
        output: bytes(entry.max_output_mb, 20),
        log: bytes(entry.log_kb, 10),
    }
}
