//! From a file or a built-in plugin to something that can be instantiated: every way in which
//! a file is not a plugin of ours gets its own message here.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use serde_json::Value;
use wasmtime::component::{Component, InstancePre};

use super::bindings::base::{self, exports::mswea::plugin::plugin::Descriptor as WitDescriptor};
use super::cache::{self, Cache};
use super::engine::{self, Shared};
use super::error::{Failure, LoadError};
use super::instance::{bounded, failure};
use super::kind::Kind;
use super::limits::Limits;
use super::recognise::{
    check_bytes, check_imports, exports, kinds, mismatch, one_line, uncompiled,
};
use super::schema::Schema;
use super::store::{self, Guest};
use super::{builtin, compile};
use crate::regular_file;

/// What a plugin says of itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Descriptor {
    /// Short name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// One line on what it does.
    pub summary: String,
    /// JSON Schema of its config.
    pub config_schema: Value,
    /// Names of secrets that its requests refer to.
    pub secrets: Vec<String>,
    /// Hosts that its requests go to by default.
    pub hosts: Vec<String>,
}

/// Where a plugin came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Inside this binary: its folder (`parsers`, ...).
    BuiltIn(&'static str),
    /// A file.
    File(PathBuf),
}

/// A plugin that has been looked at and can be instantiated.
pub struct Plugin {
    /// What it says of itself.
    pub descriptor: Descriptor,
    /// Its name, shared.
    pub name: Arc<str>,
    /// Where it came from.
    pub source: Source,
    /// The name under which the binary offers it, if it is a variant of a component of another.
    variant: Option<&'static str>,
    /// SHA-256 of the component, in hex.
    pub digest: String,
    /// Size of the component in bytes.
    pub size: usize,
    /// The roles that it can take.
    pub kinds: Vec<Kind>,
    /// Version of the contract that it was built for.
    pub contract: String,
    /// Everything that it imports.
    pub imports: Vec<String>,
    /// The digest that its file had when it was last used, by this process or with this cache, if
    /// it was another.
    pub changed_from: Option<String>,
    /// How long compiling it took, if that had to be done now; taken by who tells the user.
    compiled_now: Mutex<Option<std::time::Duration>>,
    schema: Schema,
    /// A folder that it may read.
    pub(super) lent: Option<PathBuf>,
    pub(super) pre: InstancePre<Guest>,
    pub(super) shared: Arc<Shared>,
}

impl std::fmt::Debug for Plugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plugin")
            .field("name", &self.name)
            .field("source", &self.source)
            .field("digest", &self.digest)
            .finish_non_exhaustive()
    }
}

/// A plugin that was found and not yet looked into: nothing of it has been compiled or run. Who
/// has something against its digest says so now.
#[derive(Debug)]
pub struct Found {
    /// What messages call it.
    pub label: String,
    /// Where it is.
    pub source: Source,
    /// SHA-256 of the component, in hex.
    pub digest: String,
    /// The component, or the built-in plugin that has it.
    component: Content,
}

#[derive(Debug)]
enum Content {
    File(Vec<u8>),
    BuiltIn(&'static builtin::Builtin),
}

impl Found {
    fn file(path: &Path) -> Result<Self, LoadError> {
        let unreadable = |source| LoadError::Unreadable {
            path: path.to_owned(),
            source,
        };
        let bytes = regular_file::read(path, LARGEST).map_err(unreadable)?;
        Ok(Self {
            label: path.display().to_string(),
            source: Source::File(path.to_owned()),
            digest: cache::digest(&bytes),
            component: Content::File(bytes),
        })
    }

    fn built_in(builtin: &'static builtin::Builtin) -> Self {
        Self {
            label: builtin.name.to_owned(),
            source: Source::BuiltIn(builtin.folder),
            digest: builtin.sha256.to_owned(),
            component: Content::BuiltIn(builtin),
        }
    }

    /// Checks the digest against a pinned one.
    ///
    /// # Errors
    /// When they differ.
    pub fn pinned(&self, name: &str, wanted: Option<&str>) -> Result<(), LoadError> {
        pinned(name, wanted, &self.digest)
    }

    /// The name under which the binary offers it, if it is a variant of another's component.
    fn variant(&self) -> Option<&'static str> {
        match &self.component {
            Content::BuiltIn(builtin) => builtin.variant.map(|_| builtin.name),
            Content::File(_) => None,
        }
    }
}

/// The largest component that is read: several times a language's whole runtime.
pub(super) const LARGEST: u64 = 128 << 20;

/// Code that was got ready.
struct Ready {
    component: Component,
    /// How long compiling it took, if that had to be done now.
    took: Option<std::time::Duration>,
    /// The digest that the file had when it was compiled the last time.
    changed_from: Option<String>,
}

/// Loads plugins, each once.
pub struct Loader {
    cache: Option<Cache>,
    lent: Option<PathBuf>,
    loaded: Mutex<Vec<Arc<Plugin>>>,
}

impl Loader {
    /// A loader; without a cache, plugins that the binary carries no code for are compiled
    /// every time.
    pub fn new(cache: Option<Cache>) -> Self {
        Self {
            cache,
            lent: None,
            loaded: Mutex::default(),
        }
    }

    /// The same, but what it loads may read this folder, as `/plugin`: for plugins in development.
    #[must_use]
    pub fn lending(self, folder: &Path) -> Self {
        Self {
            lent: Some(folder.to_owned()),
            ..self
        }
    }

    /// Finds what `--plugin` names: a file, or the name of a built-in plugin.
    ///
    /// # Errors
    /// When there is none, or it can't be read.
    pub fn find(&self, name: &str) -> Result<Found, LoadError> {
        // A bare name is never a file: a repository that holds a file called `toolcall` must
        // not decide what reads the model's replies.
        let path = Path::new(name);
        let is_path = name.contains('/') || path.extension().is_some_and(|ext| ext == "wasm");
        if is_path && path.exists() {
            return Found::file(path);
        }
        if let Some(builtin) = builtin::find(name) {
            return Ok(Found::built_in(builtin));
        }
        if is_path || path.is_dir() {
            return Found::file(path);
        }
        let known: Vec<String> = builtin::all()
            .iter()
            .map(|builtin| format!("`{}`", builtin.name))
            .collect();
        let hint = builtin::all()
            .iter()
            .map(|builtin| (strsim::jaro_winkler(builtin.name, name), builtin.name))
            .filter(|(score, _)| *score > 0.8)
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .map(|(_, near)| format!(" (did you mean `{near}`?)"))
            .or_else(|| {
                path.exists()
                    .then(|| format!(" (the file of that name is `./{name}`)"))
            })
            .unwrap_or_default();
        Err(LoadError::Unknown {
            name: name.to_owned(),
            known: known.join(", "),
            hint,
        })
    }

    /// Finds a component's file.
    ///
    /// # Errors
    /// When it can't be read.
    pub fn find_file(&self, path: &Path) -> Result<Found, LoadError> {
        Found::file(path)
    }

    /// Finds and loads, with nothing between.
    ///
    /// # Errors
    /// With the reason, see [`LoadError`].
    pub async fn load(&self, name: &str) -> Result<Arc<Plugin>, LoadError> {
        self.load_found(self.find(name)?, &Limits::STANDARD).await
    }

    /// Finds a file and loads it, with nothing between.
    ///
    /// # Errors
    /// With the reason.
    pub async fn load_file(&self, path: &Path) -> Result<Arc<Plugin>, LoadError> {
        self.load_found(Found::file(path)?, &Limits::STANDARD).await
    }

    /// Loads a plugin that this binary carries.
    ///
    /// # Errors
    /// With the reason.
    pub async fn load_builtin(
        &self,
        builtin: &'static builtin::Builtin,
    ) -> Result<Arc<Plugin>, LoadError> {
        let found = Found::built_in(builtin);
        self.load_found(found, &Limits::STANDARD).await
    }

    /// Compiles what was found, if need be, and looks into it.
    ///
    /// # Errors
    /// With the reason.
    pub async fn load_found(
        &self,
        found: Found,
        limits: &Limits,
    ) -> Result<Arc<Plugin>, LoadError> {
        let variant = found.variant();
        if let Some(plugin) = self.known(&found.digest, &found.source, variant) {
            return Ok(plugin);
        }
        let shared = shared()?;
        let (component, changed_from) = match &found.component {
            Content::File(bytes) => {
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
            Content::BuiltIn(builtin) => (self.ready(&shared, &found, builtin.name).await?, None),
        };
        self.finish(shared, component, found, changed_from, limits)
            .await
    }

    /// The compiled code: from this binary, from the cache, or made now.
    async fn ready(
        &self,
        shared: &Shared,
        found: &Found,
        cached_as: &str,
    ) -> Result<Ready, LoadError> {
        let engine = &shared.engine;
        let there = builtin::ahead_of_time(engine, &found.digest, &found.label).or_else(|| {
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
            Content::File(bytes) => compile::compile(engine, &found.label, bytes).await?,
            // Our own: it needs no bounds.
            Content::BuiltIn(builtin) => engine
                .precompile_component(&builtin.wasm())
                .map_err(unusable)?,
        };
        // SAFETY: this very engine has compiled it, here or in a process that runs this program
        // and that nobody else can speak for.
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

    /// What becomes of code that was compiled now, for people.
    pub fn next_time(&self) -> String {
        match (&self.cache, cache::found()) {
            (Some(cache), _) if cache.keeps() => "the next run takes it from the cache".to_owned(),
            (Some(_), cache::Use::None(why)) => format!(
                "every run compiles it again: {why}, so the cache is not safe from the model's commands (`mswea-host doctor` says more)"
            ),
            _ => "every run compiles it again: there is no cache".to_owned(),
        }
    }

    /// Lets go of what a file was before it changed; answers its digest.
    fn forget(&self, source: &Source) -> Option<String> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let index = loaded.iter().position(|plugin| plugin.source == *source)?;
        Some(loaded.remove(index).digest.clone())
    }

    fn known(&self, digest: &str, source: &Source, variant: Option<&str>) -> Option<Arc<Plugin>> {
        self.loaded
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
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
        found: Found,
        changed_from: Option<String>,
        limits: &Limits,
    ) -> Result<Arc<Plugin>, LoadError> {
        let component = ready.component;
        let variant = found.variant();
        let size = match &found.component {
            Content::File(bytes) => bytes.len(),
            Content::BuiltIn(builtin) => builtin.size,
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
        let mut descriptor =
            describe(&shared, &pre, &name, &kinds, limits, self.lent.as_deref()).await?;
        if let Content::BuiltIn(builtin) = found.component {
            become_variant(&mut descriptor, builtin);
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
        self.loaded
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(plugin.clone());
        Ok(plugin)
    }
}

impl Plugin {
    /// Whether it can take this role.
    ///
    /// # Errors
    /// With what it is instead.
    pub fn require(&self, kind: Kind) -> Result<(), LoadError> {
        if self.kinds.contains(&kind) {
            return Ok(());
        }
        let found: Vec<String> = self.kinds.iter().map(|kind| format!("`{kind}`")).collect();
        Err(LoadError::WrongKind {
            plugin: self.descriptor.name.clone(),
            wanted: kind,
            found: found.join(" and "),
        })
    }

    /// Checks the digest against a pinned one.
    ///
    /// # Errors
    /// When they differ.
    pub fn pinned(&self, name: &str, wanted: Option<&str>) -> Result<(), LoadError> {
        pinned(name, wanted, &self.digest)
    }

    /// Checks a config against the plugin's schema and fills in the schema's defaults.
    ///
    /// # Errors
    /// With a JSON pointer to what does not fit.
    pub fn check_config(&self, name: &str, config: &Value) -> Result<Value, LoadError> {
        self.schema
            .check(config)
            .map_err(|problem| LoadError::Config {
                plugin: name.to_owned(),
                pointer: problem.pointer,
                detail: problem.detail,
            })
    }

    /// The component's bytes, read again.
    ///
    /// # Errors
    /// When its file can't be read any more.
    pub fn bytes(&self) -> std::io::Result<Vec<u8>> {
        match &self.source {
            Source::File(path) => regular_file::read(path, LARGEST),
            Source::BuiltIn(_) => Ok(builtin::all()
                .iter()
                .find(|builtin| builtin.sha256 == self.digest)
                .map(builtin::Builtin::wasm)
                .unwrap_or_default()),
        }
    }

    /// Makes a descriptor of the component that of the variant that this is, if it is one.
    pub(super) fn as_variant(&self, descriptor: &mut Descriptor) {
        let found = self
            .variant
            .and_then(|name| builtin::all().iter().find(|builtin| builtin.name == name));
        if let Some(builtin) = found {
            become_variant(descriptor, builtin);
        }
    }

    /// How long compiling took, if it was done now; once.
    pub fn take_compile_time(&self) -> Option<std::time::Duration> {
        self.compiled_now
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }
}

/// A variant is its component with other defaults.
fn become_variant(descriptor: &mut Descriptor, builtin: &builtin::Builtin) {
    let Some(variant) = builtin.variant else {
        return;
    };
    builtin.name.clone_into(&mut descriptor.name);
    variant.summary.clone_into(&mut descriptor.summary);
    let config: serde_json::Map<String, Value> =
        serde_json::from_str(variant.config).expect("invariant: the build script wrote it");
    for (key, value) in config {
        if let Some(property) = descriptor
            .config_schema
            .pointer_mut("/properties")
            .and_then(|properties| properties.get_mut(&key)?.as_object_mut())
        {
            property.insert("default".into(), value);
        }
    }
}

fn pinned(name: &str, wanted: Option<&str>, digest: &str) -> Result<(), LoadError> {
    match wanted {
        Some(wanted) if !wanted.eq_ignore_ascii_case(digest) => Err(LoadError::Digest {
            plugin: name.to_owned(),
            wanted: wanted.to_owned(),
            found: digest.to_owned(),
        }),
        _ => Ok(()),
    }
}

fn shared() -> Result<Arc<Shared>, LoadError> {
    engine::shared().map_err(|error| LoadError::Engine(format!("{error:#}")))
}

/// Instantiates once with everything denied: the only moment at which all types are checked.
async fn describe(
    shared: &Shared,
    pre: &InstancePre<Guest>,
    name: &Arc<str>,
    kinds: &[Kind],
    limits: &Limits,
    lent: Option<&Path>,
) -> Result<Descriptor, LoadError> {
    let mut store = store::new(shared, name, limits, 0, None, lent);
    let failed = |detail: String| LoadError::Failed {
        plugin: name.to_string(),
        detail,
    };
    let instance = match bounded(limits.deadline, pre.instantiate_async(&mut store)).await {
        Some(Ok(instance)) => instance,
        Some(Err(error)) => {
            return Err(match failure(&error, &store, limits) {
                Failure::Broken(_) => mismatch(name, &error),
                failure => failed(failure.describe(name, "instantiation")),
            });
        }
        None => {
            return Err(failed(
                Failure::Deadline(limits.deadline).describe(name, "instantiation"),
            ));
        }
    };
    let base = base::Base::new(&mut store, &instance).map_err(|error| mismatch(name, &error))?;
    for kind in kinds {
        super::instance::check_kind(*kind, &mut store, &instance)
            .map_err(|error| mismatch(name, &error))?;
    }
    let wit = bounded(
        limits.deadline,
        base.mswea_plugin_plugin().call_describe(&mut store),
    )
    .await;
    let wit = match wit {
        Some(Ok(wit)) => wit,
        Some(Err(error)) => {
            return Err(failed(
                failure(&error, &store, limits).describe(name, "describe"),
            ));
        }
        None => {
            return Err(failed(
                Failure::Deadline(limits.deadline).describe(name, "describe"),
            ));
        }
    };
    descriptor(wit).map_err(failed)
}

/// Longest config schema: compiling a huge one would take long, and no deadline covers that.
const SCHEMA: usize = 256 << 10;

/// Reads what a plugin said of itself.
///
/// # Errors
/// With what is against the contract in it.
pub(super) fn descriptor(wit: WitDescriptor) -> Result<Descriptor, String> {
    let well_named = !wit.name.is_empty()
        && wit.name.len() <= 64
        && wit
            .name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    if !well_named {
        return Err(format!(
            "its descriptor's name {:?} is not made of 1 to 64 letters, digits, `_` and `-`",
            one_line(&wit.name)
        ));
    }
    if wit.config_schema.len() > SCHEMA {
        return Err(format!(
            "its descriptor's config schema is {} KiB long, {} KiB are allowed",
            wit.config_schema.len() >> 10,
            SCHEMA >> 10
        ));
    }
    let config_schema = serde_json::from_str(&wit.config_schema)
        .map_err(|error| format!("its descriptor's config schema is not JSON: {error}"))?;
    Ok(Descriptor {
        name: wit.name,
        version: one_line(&wit.version),
        summary: one_line(&wit.summary),
        config_schema,
        secrets: wit.secrets.iter().map(|name| one_line(name)).collect(),
        hosts: wit.hosts.iter().map(|host| one_line(host)).collect(),
    })
}
