//! A configured instance of a plugin, and how it is kept, thrown away and made anew.
//!
//! After a trap a component's whole store is dead, and a call that was dropped half-way leaves
//! it in an unknown state. So the live instance is *taken out* for each call and put back only
//! when the call has returned; everything else ends it.

use std::sync::Arc;
use std::time::Duration;

use wasmtime::Store;
use wasmtime::component::Instance as WasmInstance;

use super::bindings::{adapter, base, formatter, parser, policy, processor};
use super::error::{Failure, LoadError};
use super::kind::Kind;
use super::limits::Limits;
use super::load::{Descriptor, Plugin, descriptor};
use super::shortage::shortage;
use super::store::{self, Guest, Renderer};
use crate::roles::PluginFault;

/// The generated bindings of one kind.
pub trait Bindings: Sized + Send {
    /// The kind.
    const KIND: Kind;
    /// Finds the kind's exports in an instance.
    ///
    /// # Errors
    /// When an export is missing or of another type.
    fn find(store: &mut Store<Guest>, instance: &WasmInstance) -> wasmtime::Result<Self>;
}

macro_rules! bindings {
    ($($kind:ident => $type:ty),* $(,)?) => {
        $(impl Bindings for $type {
            const KIND: Kind = Kind::$kind;
            fn find(store: &mut Store<Guest>, instance: &WasmInstance) -> wasmtime::Result<Self> {
                Self::new(store, instance)
            }
        })*

        /// Checks that an instance has the exports of a kind, with the contract's types.
        pub fn check_kind(
            kind: Kind,
            store: &mut Store<Guest>,
            instance: &WasmInstance,
        ) -> wasmtime::Result<()> {
            match kind {
                $(Kind::$kind => <$type as Bindings>::find(store, instance).map(drop),)*
            }
        }
    };
}

bindings! {
    ModelAdapter => adapter::AdapterKind,
    ActionParser => parser::ParserKind,
    ObservationFormatter => formatter::FormatterKind,
    HistoryProcessor => processor::ProcessorKind,
    ActionPolicy => policy::PolicyKind,
}

/// Everything that an instance is made from.
#[derive(Clone)]
pub struct Recipe {
    /// What the config calls it; the name in every message.
    pub name: Arc<str>,
    /// The plugin.
    pub plugin: Arc<Plugin>,
    /// Its config, checked, as JSON text.
    pub config: String,
    /// What it may use.
    pub limits: Limits,
    /// Seed of what it sees as randomness.
    pub seed: u64,
    /// Renders templates for it.
    pub renderer: Option<Arc<dyn Renderer>>,
    /// Throw the instance away after every call.
    pub fresh: bool,
}

/// A live instance.
pub struct Live<K> {
    /// Its store.
    pub store: Store<Guest>,
    /// Its kind's functions.
    pub kind: K,
}

/// A configured instance of one kind; made when it is first needed.
pub struct Instance<K> {
    recipe: Recipe,
    live: Option<Box<Live<K>>>,
    /// Whether a template did not render in the last call.
    render_failed: bool,
}

impl<K: Bindings> Instance<K> {
    /// An instance to be.
    pub fn new(recipe: Recipe) -> Self {
        Self {
            recipe,
            live: None,
            render_failed: false,
        }
    }

    /// The plugin's name.
    pub fn name(&self) -> &str {
        &self.recipe.name
    }

    /// Whether there is an instance that has state.
    pub fn is_live(&self) -> bool {
        self.live.is_some()
    }

    /// Throws the instance away.
    pub fn discard(&mut self) {
        self.live = None;
    }

    /// Takes the live instance out for a call, making one if there is none.
    ///
    /// # Errors
    /// When it can't be made or configured.
    pub async fn take(&mut self) -> Result<Box<Live<K>>, PluginFault> {
        let mut live = match self.live.take() {
            Some(live) => live,
            None => make(&self.recipe)
                .await
                .map_err(|error| PluginFault::new(error.to_string()))?,
        };
        let guest = live.store.data_mut();
        guest.console.begin();
        // It was refused memory earlier and lived with it: no reason of what comes now.
        guest.meter.refused_memory = false;
        guest.render_failed = false;
        Ok(live)
    }

    /// Makes the instance now, so that a bad config is known at the start.
    ///
    /// # Errors
    /// When it can't be made or configured.
    pub async fn warm_up(&mut self) -> Result<(), LoadError> {
        if self.live.is_none() {
            self.live = Some(make(&self.recipe).await?);
        }
        Ok(())
    }

    /// Bounds a call in time. Give the result to [`Instance::settle`].
    pub async fn bounded<T>(
        deadline: Duration,
        call: impl Future<Output = wasmtime::Result<T>>,
    ) -> Option<wasmtime::Result<T>> {
        bounded(deadline, call).await
    }

    /// The limit of one call.
    pub fn deadline(&self) -> Duration {
        self.recipe.limits.deadline
    }

    /// Ends a call: puts the instance back if it returned, throws it away if not. `keep`
    /// holds it even under `--fresh-instances`: the query or question that it is in the
    /// middle of has not ended.
    ///
    /// # Errors
    /// When the call did not return.
    pub fn settle<T>(
        &mut self,
        live: Box<Live<K>>,
        call: &str,
        keep: bool,
        result: Option<wasmtime::Result<T>>,
    ) -> Result<T, PluginFault> {
        let limits = &self.recipe.limits;
        live.store.data().console.end();
        self.render_failed = live.store.data().render_failed;
        let failure = match result {
            Some(Ok(value)) => {
                if keep || !self.recipe.fresh {
                    self.live = Some(live);
                }
                return Ok(value);
            }
            Some(Err(error)) => failure(&error, &live.store, limits),
            None => Failure::Deadline(limits.deadline),
        };
        Err(self.fault(&failure, call))
    }

    /// A fault of this plugin.
    pub fn fault(&self, failure: &Failure, call: &str) -> PluginFault {
        PluginFault::new(failure.describe(self.name(), call)).in_manner(failure.manner())
    }

    /// The fault of an answer against the contract. Whoever gives one is not asked again.
    pub fn broken(&mut self, broken: String, call: &str) -> PluginFault {
        self.discard();
        self.fault(&Failure::Broken(broken), call)
    }

    /// The fault that a plugin reported itself; its text is bounded, it is not ours.
    pub fn reported(&self, error: &super::bindings::types::PluginError, call: &str) -> PluginFault {
        let mut fault = self.fault(
            &Failure::Reported {
                code: bound(&error.code),
                message: bound(&error.message),
            },
            call,
        );
        // It ends the run, so the plugin's word is not enough: the host must have found a template
        // that does not render in this call.
        let is_template = self.render_failed && error.code == "template";
        fault.template = is_template.then(|| bound(&error.message));
        fault
    }
}

/// Makes and configures an instance. Not a method: a future that borrows the instance would
/// not be `Send`, a store is not `Sync`.
async fn make<K: Bindings>(recipe: &Recipe) -> Result<Box<Live<K>>, LoadError> {
    let (plugin, limits) = (&recipe.plugin, &recipe.limits);
    plugin.require(K::KIND)?;
    let mut store = store::new(
        &plugin.shared,
        &recipe.name,
        limits,
        recipe.seed,
        recipe.renderer.clone(),
        plugin.lent.as_deref(),
    );
    let failed = |failure: Failure, call: &str| LoadError::Failed {
        plugin: recipe.name.to_string(),
        detail: failure.describe(&recipe.name, call),
    };
    let made = bounded(limits.deadline, plugin.pre.instantiate_async(&mut store)).await;
    let instance = match made {
        Some(Ok(instance)) => instance,
        Some(Err(error)) => {
            return Err(failed(failure(&error, &store, limits), "instantiation"));
        }
        None => return Err(failed(Failure::Deadline(limits.deadline), "instantiation")),
    };
    let broken =
        |error: wasmtime::Error| failed(Failure::Broken(format!("{error:#}")), "instantiation");
    let base = base::Base::new(&mut store, &instance).map_err(broken)?;
    let kind = K::find(&mut store, &instance).map_err(broken)?;
    let configured = bounded(
        limits.deadline,
        base.mswea_plugin_plugin()
            .call_configure(&mut store, &recipe.config),
    )
    .await;
    match configured {
        Some(Ok(Ok(()))) => Ok(Box::new(Live { store, kind })),
        Some(Ok(Err(error))) => {
            let extra: Option<serde_json::Value> = error
                .extra
                .as_deref()
                .and_then(|extra| serde_json::from_str(extra).ok());
            let pointer = extra
                .as_ref()
                .and_then(|extra| extra.get("pointer")?.as_str())
                .unwrap_or_default()
                .to_owned();
            Err(LoadError::Config {
                plugin: recipe.name.to_string(),
                pointer: bound(&pointer),
                detail: bound(&error.message),
            })
        }
        Some(Err(error)) => Err(failed(failure(&error, &store, limits), "configure")),
        None => Err(failed(Failure::Deadline(limits.deadline), "configure")),
    }
}

/// What a plugin answers to `describe` on a new instance, which is configured before if there is
/// a config.
pub async fn describe(
    plugin: &Plugin,
    limits: &Limits,
    renderer: Option<Arc<dyn Renderer>>,
    config: Option<&String>,
) -> Result<Descriptor, PluginFault> {
    let mut store = store::new(
        &plugin.shared,
        &plugin.name,
        limits,
        0,
        renderer,
        plugin.lent.as_deref(),
    );
    let fault = |failure: Failure, call: &str| {
        PluginFault::new(failure.describe(&plugin.name, call)).in_manner(failure.manner())
    };
    macro_rules! returned {
        ($result:expr, $call:literal) => {
            match $result {
                Some(Ok(value)) => value,
                Some(Err(error)) => return Err(fault(failure(&error, &store, limits), $call)),
                None => return Err(fault(Failure::Deadline(limits.deadline), $call)),
            }
        };
    }
    let made = bounded(limits.deadline, plugin.pre.instantiate_async(&mut store)).await;
    let instance = returned!(made, "instantiation");
    let base = base::Base::new(&mut store, &instance)
        .map_err(|error| fault(Failure::Broken(format!("{error:#}")), "instantiation"))?;
    let base = base.mswea_plugin_plugin();
    if let Some(config) = config {
        let configured = bounded(limits.deadline, base.call_configure(&mut store, config)).await;
        if let Err(error) = returned!(configured, "configure") {
            let (code, message) = (bound(&error.code), bound(&error.message));
            return Err(fault(Failure::Reported { code, message }, "configure"));
        }
    }
    let said = bounded(limits.deadline, base.call_describe(&mut store)).await;
    let said = returned!(said, "describe");
    descriptor(said).map_err(|broken| fault(Failure::Broken(broken), "describe"))
}

/// Runs a call for at most `deadline`; `None` when it was still running.
pub async fn bounded<T>(
    deadline: Duration,
    call: impl Future<Output = wasmtime::Result<T>>,
) -> Option<wasmtime::Result<T>> {
    tokio::time::timeout(deadline, call).await.ok()
}

/// What a failed call means.
pub fn failure(error: &wasmtime::Error, store: &Store<Guest>, limits: &Limits) -> Failure {
    let guest = store.data();
    if guest.meter.refused_memory {
        return Failure::Memory(limits.memory);
    }
    let text = format!("{error:#}");
    // wasmtime has no types for these.
    if text.contains("resource limit exceeded") || text.contains("exceeds table limits") {
        return Failure::Caps(bound(error.root_cause().to_string().as_str()));
    }
    if text.contains("too much data") || text.contains("fuel allocated for hostcalls") {
        return Failure::Output(limits.output);
    }
    match error.downcast_ref::<wasmtime::Trap>() {
        Some(wasmtime::Trap::StackOverflow) => Failure::Stack,
        // Where compilers keep the stack: below address 0 there is nothing.
        Some(wasmtime::Trap::MemoryOutOfBounds) => Failure::Trap(last_words(
            guest,
            "it reached outside its memory: its stack overflowed (endless recursion?), or it has a bug",
        )),
        Some(trap) => Failure::Trap(last_words(guest, &format!("it trapped: {trap}"))),
        None => match error.downcast_ref::<wasmtime_wasi::I32Exit>() {
            Some(exit) => {
                Failure::Trap(last_words(guest, &format!("it called `exit({})`", exit.0)))
            }
            None => match shortage(&text) {
                Some(text) => Failure::Machine(text),
                None => Failure::Broken(bound(error.root_cause().to_string().as_str())),
            },
        },
    }
}

/// What the guest wrote last: a panic's text is nowhere else. Without it, `otherwise`.
fn last_words(guest: &Guest, otherwise: &str) -> String {
    let tail = harmless(&guest.console.tail());
    if tail.is_empty() {
        otherwise.to_owned()
    } else {
        tail
    }
}

/// Text of a guest that goes to terminals, files and the model: no control characters.
pub fn harmless(text: &str) -> String {
    text.chars()
        .filter(|c| !c.is_control() || matches!(c, '\n' | '\t'))
        .collect()
}

/// Bounds text that a guest wrote, and makes it harmless.
pub(super) fn bound(text: &str) -> String {
    const LIMIT: usize = 4 << 10;
    if text.len() <= LIMIT {
        return harmless(text);
    }
    let mut end = LIMIT;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!(
        "{}... ({} bytes more)",
        harmless(&text[..end]),
        text.len() - end
    )
}
