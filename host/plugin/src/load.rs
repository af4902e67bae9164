//! Makes a component that can be instantiated from a file or a built-in plugin. There is a message
//! of its own for each reason why a file can't be used.

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use wasmtime::Engine;
use wasmtime::component::Component;

use super::builtin::{self, Builtin};
use super::cache::Cache;
use super::compile;
use super::descriptor::Descriptor;
use super::engine::{self, Shared};
use super::error::LoadError;
use super::found::{ComponentContent, FoundPlugin, Source};
use super::instance::check_kind;
use super::kind::RoleKind;
use super::limits::PluginLimits;
use super::plugin::Plugin;
use super::recognise::{check_bytes, check_imports, exports, kinds, mismatch, uncompiled};
use super::schema::Schema;
use super::started::{InstanceParts, StartFailure, Started};
use super::template::template_code;

/// Compiling that takes longer is reported to the user.
const SLOW: Duration = Duration::from_millis(300);

/// Compiled code.
struct Ready {
    component: Component,
    /// How long compiling took, if it was done now.
    took: Option<Duration>,
    /// The digest that the file had when it was last compiled.
    changed_from: Option<String>,
}

/// Code that is being loaded.
type Expected = oneshot::Receiver<Option<Component>>;

/// Loads plugins, each once.
pub struct Loader {
    cache: Option<Cache>,
    lent: Option<PathBuf>,
    loaded: Mutex<Vec<Arc<Plugin>>>,
    /// The code of this binary's plugins that is being loaded, by digest.
    expected: Mutex<BTreeMap<&'static str, Expected>>,
    /// A lock for each digest, so that runs that begin at the same time compile a plugin only once.
    turns: Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

impl Loader {
    /// A loader. Without a cache, plugins without code in the binary are compiled every time.
    pub fn new(cache: Option<Cache>) -> Self {
        Self {
            cache,
            lent: None,
            loaded: Mutex::default(),
            expected: Mutex::default(),
            turns: Mutex::default(),
        }
    }

    /// The same loader, whose plugins may read this folder as `/plugin`: for plugins in
    /// development.
    #[must_use]
    pub fn lending(self, folder: &Path) -> Self {
        Self {
            lent: Some(folder.to_owned()),
            ..self
        }
    }

    /// Begins to load the code of these plugins, and that which renders templates, beside the caller, if this binary has it. What the
    /// names mean is decided later, by [`Self::find`]: other names are ignored here.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn expect<'a>(&self, names: impl IntoIterator<Item = &'a str>) {
        if !builtin::is_shipped() {
            return;
        }
        tokio::task::spawn_blocking(|| template_code(None).map(drop));
        let mut queue = VecDeque::new();
        for builtin in names.into_iter().filter_map(builtin::find) {
            let is_known = |plugin: &Arc<Plugin>| plugin.digest == builtin.sha256;
            if !self.loaded().iter().any(is_known) {
                let mut expected = self.expected();
                expected.entry(builtin.sha256).or_insert_with(|| {
                    let (made, expected) = oneshot::channel();
                    queue.push_back((builtin, made));
                    expected
                });
            }
        }
        // One core is left to the caller, which has other work meanwhile.
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        let workers = queue.len().min((cores - 1).max(1));
        let queue = Arc::new(Mutex::new(queue));
        for _ in 0..workers {
            let queue = queue.clone();
            tokio::task::spawn_blocking(move || {
                let next = || {
                    queue
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .pop_front()
                };
                while let (Some((builtin, made)), Ok(shared)) = (next(), engine::shared()) {
                    let digest = builtin.sha256;
                    let _ = made.send(builtin::ahead_of_time(&shared.engine, digest, builtin.name));
                }
            });
        }
    }

    /// The code of this binary for a plugin with this digest.
    async fn ahead_of_time(&self, engine: &Engine, found: &FoundPlugin) -> Option<Component> {
        let expected = self.expected().remove(&*found.digest);
        match expected {
            Some(expected) => expected.await.ok().flatten(),
            None => builtin::ahead_of_time(engine, &found.digest, &found.label),
        }
    }

    fn expected(&self) -> MutexGuard<'_, BTreeMap<&'static str, Expected>> {
        self.expected.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn loaded(&self) -> MutexGuard<'_, Vec<Arc<Plugin>>> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds what `--plugin` names: a file, or the name of a built-in plugin.
    ///
    /// # Errors
    /// [`LoadError`] if there is no such plugin, or its file can't be read.
    pub fn find(&self, name: &str) -> Result<FoundPlugin, LoadError> {
        FoundPlugin::find(name)
    }

    /// Finds a component's file.
    ///
    /// # Errors
    /// [`LoadError`] if it can't be read.
    pub fn find_file(&self, path: &Path) -> Result<FoundPlugin, LoadError> {
        FoundPlugin::file(path)
    }

    /// Finds a plugin and loads it.
    ///
    /// # Errors
    /// [`LoadError`] if it can't be found or loaded.
    pub async fn load(&self, name: &str) -> Result<Arc<Plugin>, LoadError> {
        self.load_found(self.find(name)?, &PluginLimits::STANDARD)
            .await
    }

    /// Finds a file and loads it.
    ///
    /// # Errors
    /// [`LoadError`] if it can't be read or loaded.
    pub async fn load_file(&self, path: &Path) -> Result<Arc<Plugin>, LoadError> {
        self.load_found(FoundPlugin::file(path)?, &PluginLimits::STANDARD)
            .await
    }

    /// Loads a built-in plugin.
    ///
    /// # Errors
    /// [`LoadError`] if it can't be loaded.
    pub async fn load_builtin(&self, builtin: &'static Builtin) -> Result<Arc<Plugin>, LoadError> {
        let found = FoundPlugin::built_in(builtin);
        self.load_found(found, &PluginLimits::STANDARD).await
    }

    /// Compiles a plugin that was found, unless its code exists, and inspects it.
    ///
    /// # Errors
    /// [`LoadError`] if it can't be compiled, or is no plugin for this host.
    pub async fn load_found(
        &self,
        found: FoundPlugin,
        limits: &PluginLimits,
    ) -> Result<Arc<Plugin>, LoadError> {
        let variant = found.variant();
        let turn = self.turn(&found.digest);
        let _turn = turn.lock().await;
        if let Some(plugin) = self.known(&found.digest, &found.source, variant) {
            return Ok(plugin);
        }
        let shared = shared()?;
        let (component, changed_from) = match &found.component {
            ComponentContent::File(bytes) => {
                check_bytes(&found.label, bytes)?;
                let absolute = match &found.source {
                    Source::File(path) => {
                        std::fs::canonicalize(path).unwrap_or_else(|_| path.clone())
                    }
                    Source::BuiltIn(_) => PathBuf::new(),
                };
                let cached_as = absolute.display().to_string();
                let mut ready = self.ready(&shared, &found, &cached_as).await?;
                let changed_from = ready.changed_from.take();
                let changed_from = changed_from.or_else(|| self.forget(&found.source));
                (ready, changed_from)
            }
            ComponentContent::BuiltIn(builtin) => {
                (self.ready(&shared, &found, builtin.name).await?, None)
            }
        };
        self.finish(shared, component, found, changed_from, limits)
            .await
    }

    /// The compiled code: from this binary, from the cache, or compiled now.
    async fn ready(
        &self,
        shared: &Shared,
        found: &FoundPlugin,
        cached_as: &str,
    ) -> Result<Ready, LoadError> {
        let engine = &shared.engine;
        let there = self.ahead_of_time(engine, found).await.or_else(|| {
            let cache = self.cache.as_ref()?;
            cache.get(engine, &found.digest)
        });
        if let Some(component) = there {
            return Ok(Ready {
                component,
                took: None,
                changed_from: None,
            });
        }
        let started = Instant::now();
        let unusable = |error: wasmtime::Error| uncompiled(&found.label, &format!("{error:#}"));
        let code = match &found.component {
            ComponentContent::File(bytes) => compile::compile(engine, &found.label, bytes).await?,
            // A built-in plugin is compiled without limits.
            ComponentContent::BuiltIn(builtin) => {
                compile::unbounded(engine, &found.label, builtin.wasm()).await?
            }
        };
        // SAFETY: an engine with the same options compiled it, in this process or in one that runs
        // the same program and whose socket no other process has.
        let component = unsafe { Component::deserialize(engine, &code) }.map_err(unusable)?;
        let took = Some(started.elapsed());
        let changed_from = self
            .cache
            .as_ref()
            .and_then(|cache| cache.put(engine, cached_as, &found.digest, &code));
        Ok(Ready {
            component,
            took,
            changed_from,
        })
    }

    /// Says, for the user, that plugins were compiled since the last call, and whether the next run finds their
    /// code; none if that took no time to speak of.
    pub fn compiled(&self) -> Option<String> {
        let loaded = self.loaded();
        let all = loaded
            .iter()
            .filter_map(|plugin| Some((&plugin.name, plugin.take_compile_time()?)));
        let all: Vec<(&Arc<str>, Duration)> = all.collect();
        let took: Duration = all.iter().map(|(_, took)| *took).sum();
        if took <= SLOW {
            return None;
        }
        let what = match &*all {
            [(name, _)] => format!("plugin `{name}` was"),
            all => format!("{} plugins were", all.len()),
        };
        let then = match &self.cache {
            Some(cache) if cache.keeps() => "; the next start takes the code from the cache",
            Some(_) => ", as at every start: there is no safe cache here (`mswea-host doctor`)",
            None => ", as at every start without a cache",
        };
        let took = took.as_secs_f64();
        Some(format!("{what} compiled in {took:.1} s{then}"))
    }

    fn turn(&self, digest: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        turns.entry(digest.to_owned()).or_default().clone()
    }

    /// Drops the entry of a file's earlier content; returns its digest.
    fn forget(&self, source: &Source) -> Option<String> {
        let mut loaded = self.loaded();
        let index = loaded.iter().position(|plugin| plugin.source == *source)?;
        Some(loaded.remove(index).digest.clone())
    }

    fn known(&self, digest: &str, source: &Source, variant: Option<&str>) -> Option<Arc<Plugin>> {
        self.loaded()
            .iter()
            .find(|plugin| {
                plugin.digest == digest && plugin.source == *source && plugin.variant == variant
            })
            .cloned()
    }

    async fn finish(
        &self,
        shared: Arc<Shared>,
        ready: Ready,
        found: FoundPlugin,
        changed_from: Option<String>,
        limits: &PluginLimits,
    ) -> Result<Arc<Plugin>, LoadError> {
        let component = ready.component;
        let variant = found.variant();
        let size = match &found.component {
            ComponentContent::File(bytes) => bytes.len(),
            ComponentContent::BuiltIn(builtin) => builtin.size,
        };
        let label = found.label;
        let exports = exports(&shared, &component);
        let (kinds, contract) = kinds(&label, &exports)?;
        let imports: Vec<String> = component
            .component_type()
            .imports(&shared.engine)
            .map(|(name, _)| name.to_owned())
            .collect();
        check_imports(&label, &imports)?;
        let pre = shared
            .linker
            .instantiate_pre(&component)
            .map_err(|error| mismatch(&label, &error))?;
        let name: Arc<str> = label.as_str().into();
        let parts = InstanceParts {
            shared: &shared,
            pre: &pre,
            name: &name,
            limits,
            seed: 0,
            renderer: None,
            lent: self.lent.as_deref(),
        };
        let mut descriptor = inspect(parts, &kinds).await?;
        if let ComponentContent::BuiltIn(builtin) = found.component {
            descriptor.become_variant(builtin);
        }
        let schema =
            Schema::new(&descriptor.config_schema).map_err(|reason| LoadError::Failed {
                plugin: label,
                detail: format!("its config schema {reason}"),
            })?;
        let plugin = Arc::new(Plugin {
            name: descriptor.name.as_str().into(),
            descriptor,
            source: found.source,
            variant,
            digest: found.digest,
            size,
            kinds,
            contract,
            imports,
            compiled_now: Mutex::new(ready.took),
            changed_from,
            schema,
            lent: self.lent.clone(),
            pre,
            shared,
        });
        self.loaded().push(plugin.clone());
        Ok(plugin)
    }
}

fn shared() -> Result<Arc<Shared>, LoadError> {
    engine::shared().map_err(|error| LoadError::Engine(format!("{error:#}")))
}

/// Instantiates once with everything denied, since only that checks all types, and reads the
/// descriptor.
async fn inspect(parts: InstanceParts<'_>, kinds: &[RoleKind]) -> Result<Descriptor, LoadError> {
    let name = parts.name;
    let unusable = |failure: StartFailure| match failure {
        StartFailure::Mismatch(error) => mismatch(name, &error),
        other => {
            let (failure, call) = other.into_call();
            LoadError::Failed {
                plugin: name.to_string(),
                detail: failure.describe(name, call),
            }
        }
    };
    let mut started = Started::new(parts).await.map_err(unusable)?;
    for kind in kinds {
        check_kind(*kind, &mut started.store, &started.instance)
            .map_err(|error| mismatch(name, &error))?;
    }
    started.describe().await.map_err(unusable)
}
