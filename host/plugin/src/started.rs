//! A new instance of a component, before any role's function is called: instantiated, described
//! and configured. Every use of a plugin begins with it.

use std::path::Path;
use std::sync::Arc;

use wasmtime::Store;
use wasmtime::component::{Instance, InstancePre};

use super::bindings::{base, types::PluginError};
use super::call::{bounded, failure, returned};
use super::descriptor::Descriptor;
use super::engine::Shared;
use super::error::CallFailure;
use super::limits::PluginLimits;
use super::quoted::bound;
use super::store::{self, Guest, Renderer};

/// The parts of which an instance is made.
pub(super) struct InstanceParts<'a> {
    pub(super) shared: &'a Shared,
    pub(super) pre: &'a InstancePre<Guest>,
    /// The plugin's name in messages.
    pub(super) name: &'a Arc<str>,
    pub(super) limits: &'a PluginLimits,
    /// Seed of its random numbers.
    pub(super) seed: u64,
    pub(super) renderer: Option<Arc<dyn Renderer>>,
    /// A folder that it may read.
    pub(super) lent: Option<&'a Path>,
}

/// Why a new instance can't be used.
pub(super) enum StartFailure {
    /// The types of the component do not match the contract.
    Mismatch(wasmtime::Error),
    /// The plugin refused its config.
    Refused(PluginError),
    /// Instantiation or a function failed; the text is the function's name.
    Call(CallFailure, &'static str),
}

impl StartFailure {
    /// The failure and the name of the call, for callers that treat all failures alike.
    pub(super) fn into_call(self) -> (CallFailure, &'static str) {
        match self {
            Self::Mismatch(error) => (CallFailure::Broken(format!("{error:#}")), INSTANTIATION),
            Self::Refused(error) => {
                let (code, message) = (bound(&error.code), bound(&error.message));
                (CallFailure::Reported { code, message }, "configure")
            }
            Self::Call(failure, call) => (failure, call),
        }
    }
}

/// The name of the instantiation in messages.
const INSTANTIATION: &str = "instantiation";

/// A new instance.
pub(super) struct Started {
    pub(super) store: Store<Guest>,
    pub(super) instance: Instance,
    base: base::Base,
    limits: PluginLimits,
}

impl Started {
    /// Instantiates a component.
    ///
    /// # Errors
    /// [`StartFailure`] if it can't be instantiated within its limits, or does not fit the contract.
    pub(super) async fn new(parts: InstanceParts<'_>) -> Result<Self, StartFailure> {
        let limits = parts.limits;
        let mut store = store::new(
            &parts.shared.engine,
            parts.name,
            limits,
            parts.seed,
            parts.renderer,
            parts.lent,
        );
        let made = bounded(limits.deadline, parts.pre.instantiate_async(&mut store)).await;
        let instance = match made {
            Some(Ok(instance)) => instance,
            Some(Err(error)) => {
                return Err(match failure(&error, &store, limits) {
                    CallFailure::Broken(_) => StartFailure::Mismatch(error),
                    failure => StartFailure::Call(failure, INSTANTIATION),
                });
            }
            None => {
                let failure = CallFailure::Deadline(limits.deadline);
                return Err(StartFailure::Call(failure, INSTANTIATION));
            }
        };
        let base = base::Base::new(&mut store, &instance).map_err(StartFailure::Mismatch)?;
        Ok(Self {
            store,
            instance,
            base,
            limits: limits.clone(),
        })
    }

    /// Passes a config, as JSON text, to the plugin.
    ///
    /// # Errors
    /// [`StartFailure`] if the plugin refuses the config or fails.
    pub(super) async fn configure(&mut self, config: &String) -> Result<(), StartFailure> {
        let plugin = self.base.mswea_plugin_plugin();
        let call = plugin.call_configure(&mut self.store, config);
        let answer = bounded(self.limits.deadline, call).await;
        returned(answer, &self.store, &self.limits)
            .map_err(|failure| StartFailure::Call(failure, "configure"))?
            .map_err(StartFailure::Refused)
    }

    /// The plugin's descriptor.
    ///
    /// # Errors
    /// [`StartFailure`] if the plugin fails, or its descriptor breaks the contract.
    pub(super) async fn describe(&mut self) -> Result<Descriptor, StartFailure> {
        let plugin = self.base.mswea_plugin_plugin();
        let call = plugin.call_describe(&mut self.store);
        let answer = bounded(self.limits.deadline, call).await;
        returned(answer, &self.store, &self.limits)
            .and_then(|descriptor| Descriptor::new(descriptor).map_err(CallFailure::Broken))
            .map_err(|failure| StartFailure::Call(failure, "describe"))
    }
}
