//! A configured instance of a plugin, and how it is kept, discarded and made again.
//!
//! After a trap a component's whole store is unusable, and a call that was dropped half-way leaves
//! it in an unknown state. So the live instance is *taken out* for each call and put back only when
//! the call has returned; otherwise it is dropped.

use std::sync::Arc;
use std::time::Duration;

use wasmtime::Store;
use wasmtime::component::Instance as WasmInstance;

use super::bindings::{formatter, parser, policy, processor};
use super::body_pieces::AdapterExports;
use super::call::{bounded, returned};
use super::descriptor::Descriptor;
use super::error::{CallFailure, LoadError};
use super::kind::RoleKind;
use super::limits::PluginLimits;
use super::plugin::Plugin;
use super::quoted::bound;
use super::started::{InstanceParts, StartFailure, Started};
use super::store::{self, Guest, Renderer};
use mswea_core::PluginFault;

/// The generated bindings of one kind.
pub trait Bindings: Sized + Send {
    /// The kind.
    const KIND: RoleKind;
    /// Finds the kind's exports in an instance.
    ///
    /// # Errors
    /// If an export is missing or has another type.
    fn find(store: &mut Store<Guest>, instance: &WasmInstance) -> wasmtime::Result<Self>;
}

macro_rules! bindings {
    ($($kind:ident => $type:ty),* $(,)?) => {
        $(impl Bindings for $type {
            const KIND: RoleKind = RoleKind::$kind;
            fn find(store: &mut Store<Guest>, instance: &WasmInstance) -> wasmtime::Result<Self> {
                Self::new(store, instance)
            }
        })*

        /// Checks that an instance has the exports of a kind, with the contract's types.
        pub fn check_kind(
            kind: RoleKind,
            store: &mut Store<Guest>,
            instance: &WasmInstance,
        ) -> wasmtime::Result<()> {
            match kind {
                $(RoleKind::$kind => <$type as Bindings>::find(store, instance).map(drop),)*
            }
        }
    };
}

bindings! {
    ModelAdapter => AdapterExports,
    ActionParser => parser::ParserKind,
    ObservationFormatter => formatter::FormatterKind,
    HistoryProcessor => processor::ProcessorKind,
    ActionPolicy => policy::PolicyKind,
}

/// The parts from which an instance is made.
#[derive(Clone)]
pub struct Recipe {
    /// The plugin's name in the config, used in every message.
    pub name: Arc<str>,
    /// The plugin.
    pub plugin: Arc<Plugin>,
    /// The checked config, as JSON text.
    pub config: String,
    /// The limits of the instance.
    pub limits: PluginLimits,
    /// Seed of its random numbers.
    pub seed: u64,
    /// Renders templates for it.
    pub renderer: Option<Arc<dyn Renderer>>,
    /// Whether to discard the instance after every call.
    pub fresh: bool,
}

/// A live instance.
pub struct Live<K> {
    /// The store of the instance.
    pub store: Store<Guest>,
    /// The functions of the plugin's kind.
    pub kind: K,
}

/// A configured instance of one kind, made when it is first needed.
pub struct PluginInstance<K> {
    recipe: Recipe,
    live: Option<Box<Live<K>>>,
    /// Whether a template failed to render during the last call.
    render_failed: bool,
}

impl<K: Bindings> PluginInstance<K> {
    /// A description of an instance, which is made later.
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

    /// Whether an instance exists and may have state.
    pub fn is_live(&self) -> bool {
        self.live.is_some()
    }

    /// The exports of the live instance.
    pub fn exports(&mut self) -> Option<&mut K> {
        self.live.as_mut().map(|live| &mut live.kind)
    }

    /// Discards the instance.
    pub fn discard(&mut self) {
        self.live = None;
    }

    /// Takes the live instance out for a call; makes one if none is live.
    ///
    /// # Errors
    /// [`PluginFault`] if the instance can't be made or configured.
    pub async fn take(&mut self) -> Result<Box<Live<K>>, PluginFault> {
        let mut live = match self.live.take() {
            Some(live) => live,
            None => make(&self.recipe)
                .await
                .map_err(|error| PluginFault::new(error.to_string()))?,
        };
        // Otherwise the first call after a pause would yield at once, for a deadline that has passed
        // meanwhile.
        live.store.set_epoch_deadline(store::TICKS);
        let guest = live.store.data_mut();
        guest.console.begin();
        // The flag concerns one call: a refusal in an earlier call must not explain a failure of
        // this one.
        guest.meter.refused_memory = false;
        guest.render_failed = false;
        Ok(live)
    }

    /// Makes the instance now, so that a wrong config is reported at the start.
    ///
    /// # Errors
    /// [`LoadError`] if it can't be instantiated or configured.
    pub async fn warm_up(&mut self) -> Result<(), LoadError> {
        if self.live.is_none() {
            self.live = Some(make(&self.recipe).await?);
        }
        Ok(())
    }

    /// Bounds a call's time. [`PluginInstance::settle`] takes the result.
    pub async fn bounded<T>(
        deadline: Duration,
        call: impl Future<Output = wasmtime::Result<T>>,
    ) -> Option<wasmtime::Result<T>> {
        bounded(deadline, call).await
    }

    /// The time limit of one call.
    pub fn deadline(&self) -> Duration {
        self.recipe.limits.deadline
    }

    /// The most that one call may return, in bytes.
    pub fn most_output(&self) -> usize {
        self.recipe.limits.output
    }

    /// Ends a call: puts the instance back if the call returned, and discards it otherwise. `keep`
    /// keeps it even under `--fresh-instances`, while a query or question is in progress.
    ///
    /// # Errors
    /// If the call did not return.
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
        let value =
            returned(result, &live.store, limits).map_err(|failure| self.fault(&failure, call))?;
        if keep || !self.recipe.fresh {
            self.live = Some(live);
        }
        Ok(value)
    }

    /// A fault of this plugin.
    pub fn fault(&self, failure: &CallFailure, call: &str) -> PluginFault {
        PluginFault::new(failure.describe(self.name(), call)).in_manner(failure.manner())
    }

    /// The fault of an answer that breaks the contract; the instance is discarded.
    pub fn broken(&mut self, broken: String, call: &str) -> PluginFault {
        self.refused(&CallFailure::Broken(broken), call)
    }

    /// The fault of an answer that the host does not accept; the instance is discarded.
    pub fn refused(&mut self, failure: &CallFailure, call: &str) -> PluginFault {
        self.discard();
        self.fault(failure, call)
    }

    /// The fault that a plugin itself returned. Its text is bounded, because the plugin wrote it.
    pub fn reported(&self, error: &super::bindings::types::PluginError, call: &str) -> PluginFault {
        let mut fault = self.fault(
            &CallFailure::Reported {
                code: bound(&error.code),
                message: bound(&error.message),
            },
            call,
        );
        // A fault with the code `template` ends the run. So the plugin's code counts only if the
        // host itself failed to render a template during this call.
        let is_template = self.render_failed && error.code == "template";
        fault.template = is_template.then(|| bound(&error.message));
        fault
    }
}

impl Recipe {
    fn parts(&self) -> InstanceParts<'_> {
        InstanceParts {
            shared: &self.plugin.shared,
            pre: &self.plugin.pre,
            name: &self.name,
            limits: &self.limits,
            seed: self.seed,
            renderer: self.renderer.clone(),
            lent: self.plugin.lent.as_deref(),
        }
    }

    /// Makes an instance that is not configured.
    pub(super) async fn start(&self) -> Result<Started, StartFailure> {
        Started::new(self.parts()).await
    }

    /// The descriptor that the plugin returns on a new instance, which is configured first if
    /// `configured`.
    ///
    /// # Errors
    /// If it can't be instantiated or configured, or fails.
    pub(super) async fn describe(&self, configured: bool) -> Result<Descriptor, PluginFault> {
        let described = async {
            let mut started = self.start().await?;
            if configured {
                started.configure(&self.config).await?;
            }
            started.describe().await
        };
        described.await.map_err(|failure: StartFailure| {
            let (failure, call) = failure.into_call();
            PluginFault::new(failure.describe(&self.plugin.name, call)).in_manner(failure.manner())
        })
    }
}

/// Makes and configures an instance. Not a method: a future that borrows the instance would not be
/// `Send`, because a store is not `Sync`.
async fn make<K: Bindings>(recipe: &Recipe) -> Result<Box<Live<K>>, LoadError> {
    recipe.plugin.require(K::KIND)?;
    let unusable = |failure: StartFailure| match failure {
        // What a plugin in Python or JavaScript throws by mistake is `internal`, and not the config's fault.
        StartFailure::Refused(error) if error.code != "internal" => {
            let extra: Option<serde_json::Value> = error
                .extra
                .as_deref()
                .and_then(|extra| serde_json::from_str(extra).ok());
            let pointer = extra
                .as_ref()
                .and_then(|extra| extra.get("pointer")?.as_str())
                .unwrap_or_default();
            LoadError::Config {
                plugin: recipe.name.to_string(),
                pointer: bound(pointer),
                detail: bound(&error.message),
            }
        }
        other => {
            let (failure, call) = other.into_call();
            LoadError::Failed {
                plugin: recipe.name.to_string(),
                detail: failure.describe(&recipe.name, call),
            }
        }
    };
    let mut started = recipe.start().await.map_err(unusable)?;
    let kind = K::find(&mut started.store, &started.instance)
        .map_err(|error| unusable(StartFailure::Mismatch(error)))?;
    started.configure(&recipe.config).await.map_err(unusable)?;
    Ok(Box::new(Live {
        store: started.store,
        kind,
    }))
}
