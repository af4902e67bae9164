//! Calls any function of a plugin by its name with JSON, and prints a plugin's interface as WIT,
//! for users who inspect a plugin. The types come from the component, so this code does not depend
//! on the contract's records.

mod json;
mod wit;

use std::sync::Arc;

use serde_json::Value;
use wasmtime::component::types::ComponentItem;
use wasmtime::component::{Func, Instance, Val};

use super::call::{bounded, returned};
use super::plugin::Plugin;
use super::quoted::bound;
use super::started::StartFailure;
use super::store::Guest;
use super::{Recipe, RoleKind};

pub use wit::{Producers, producers};

/// Why a call by hand has no result.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The plugin has no function of that name.
    #[error("plugin `{plugin}` has no function `{function}`: it has {known}")]
    Unknown {
        /// The plugin.
        plugin: String,
        /// The given name.
        function: String,
        /// The functions that it has.
        known: String,
    },
    /// The JSON does not fit the parameters.
    #[error("{at}: {problem}")]
    Input {
        /// The position in the JSON.
        at: String,
        /// The error and its remedy.
        problem: String,
    },
    /// The plugin failed; the text is the message.
    #[error("{0}")]
    Failed(String),
    /// The plugin returned the error case of its result.
    #[error("`{function}` returned an error: {error}")]
    Answered {
        /// The function.
        function: String,
        /// The error, as JSON.
        error: Value,
    },
}

/// A plugin that is called by hand: one instance, which is kept from call to call.
pub struct ByHand {
    plugin: Arc<Plugin>,
    recipe: Recipe,
    store: wasmtime::Store<Guest>,
    instance: Instance,
}

impl ByHand {
    /// Makes an instance; it is configured with the recipe's config unless `bare`.
    ///
    /// # Errors
    /// [`CallError`] if it can't be instantiated or refuses the config.
    pub async fn start(recipe: Recipe, bare: bool) -> Result<Self, CallError> {
        let plugin = recipe.plugin.clone();
        let unusable = |failure: StartFailure| match failure {
            StartFailure::Mismatch(error) => CallError::Failed(format!("{error:#}")),
            StartFailure::Refused(error) => CallError::Failed(format!(
                "plugin `{}` refused its config: {} ({}): give another with `--config JSON`",
                plugin.name,
                bound(&error.message),
                bound(&error.code)
            )),
            StartFailure::Call(failure, call) => {
                CallError::Failed(failure.describe(&plugin.name, call))
            }
        };
        let mut started = recipe.start().await.map_err(unusable)?;
        if !bare {
            started.configure(&recipe.config).await.map_err(unusable)?;
        }
        Ok(Self {
            plugin,
            recipe,
            store: started.store,
            instance: started.instance,
        })
    }

    /// Calls a function. Its parameters are read from `arguments`: the one parameter itself, or an
    /// object of them by name.
    ///
    /// # Errors
    /// [`CallError`] if there is no such function, the arguments do not fit, or the plugin fails or
    /// returns an error.
    pub async fn call(&mut self, function: &str, arguments: &Value) -> Result<Value, CallError> {
        let function = function.replace('_', "-");
        let func = self.find(&function)?;
        let signature = func.ty(&self.store);
        let params: Vec<_> = signature
            .params()
            .map(|(name, ty)| (name.to_owned(), ty))
            .collect();
        let values = json::arguments(&params, arguments)
            .map_err(|(at, problem)| CallError::Input { at, problem })?;
        let mut results = vec![Val::Bool(false); signature.results().len()];
        let limits = self.recipe.limits.clone();
        self.store.data().console.begin();
        let call = func.call_async(&mut self.store, &values, &mut results);
        let done = bounded(limits.deadline, call).await;
        self.store.data().console.end();
        returned(done, &self.store, &limits)
            .map_err(|failure| CallError::Failed(failure.describe(&self.plugin.name, &function)))?;
        match results.first() {
            None => Ok(Value::Null),
            Some(Val::Result(Ok(value))) => {
                Ok(value.as_deref().map_or(Value::Null, json::from_val))
            }
            Some(Val::Result(Err(error))) => Err(CallError::Answered {
                function,
                error: error.as_deref().map_or(Value::Null, json::from_val),
            }),
            Some(value) => Ok(json::from_val(value)),
        }
    }

    /// The plugin's standard output and error in the last call.
    pub fn written(&self) -> String {
        self.store.data().console.tail()
    }

    /// Bytes of linear memory that the instance has.
    pub fn memory(&self) -> usize {
        self.store.data().meter.used()
    }

    fn find(&mut self, function: &str) -> Result<Func, CallError> {
        for interface in interfaces(&self.plugin) {
            let name = format!("mswea:plugin/{interface}@{}", self.plugin.contract);
            let outer = self.instance.get_export_index(&mut self.store, None, &name);
            let found = outer.and_then(|outer| {
                self.instance
                    .get_export_index(&mut self.store, Some(&outer), function)
            });
            if let Some(func) =
                found.and_then(|index| self.instance.get_func(&mut self.store, index))
            {
                return Ok(func);
            }
        }
        Err(CallError::Unknown {
            plugin: self.plugin.name.to_string(),
            function: function.to_owned(),
            known: functions(&self.plugin)
                .iter()
                .map(|name| format!("`{name}`"))
                .collect::<Vec<_>>()
                .join(", "),
        })
    }
}

fn interfaces(plugin: &Plugin) -> Vec<&'static str> {
    let kinds = plugin.kinds.iter().map(|kind: &RoleKind| kind.interface());
    std::iter::once("plugin").chain(kinds).collect()
}

/// The functions of the contract that a plugin exports.
pub fn functions(plugin: &Plugin) -> Vec<String> {
    let engine = &plugin.shared.engine;
    let ty = plugin.pre.component().component_type();
    let mut names = Vec::new();
    for interface in interfaces(plugin) {
        let name = format!("mswea:plugin/{interface}@{}", plugin.contract);
        let Some(ComponentItem::ComponentInstance(instance)) =
            ty.get_export(engine, &name).map(|export| export.ty)
        else {
            continue;
        };
        for (name, export) in instance.exports(engine) {
            if matches!(export.ty, ComponentItem::ComponentFunc(_)) {
                names.push(name.to_owned());
            }
        }
    }
    names
}

/// The plugin's interface as WIT.
pub fn wit(plugin: &Plugin) -> String {
    wit::print(
        &plugin.shared.engine,
        &plugin.pre.component().component_type(),
    )
}
