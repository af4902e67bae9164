//! The component that renders templates. It is no plugin: the host asks it by an interface of its own, and every
//! instance has the limits that a plugin has. Its code comes from where a built-in plugin's code comes from.

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use mswea_plugins::TEMPLATE_ENGINE;
use mswea_template::{EngineFailure, TemplateEngine, TemplateFault, Templates};
use wasmtime::component::{Component, ComponentType, InstancePre, Lift, TypedFunc};
use wasmtime::{Engine, Store};

use super::builtin;
use super::cache::Cache;
use super::call::{failure, returned};
use super::engine::{self, Shared};
use super::error::CallFailure;
use super::limits::PluginLimits;
use super::store::{self, Guest};

/// An instance that has more memory than this after a call is not used again.
const KEPT_MEMORY: usize = 32 << 20;

/// Instances that are kept. A rendering seldom takes long enough that another one begins meanwhile.
const KEPT: usize = 4;

/// Enough for a loop over 50,000 lines of output; the time is that of all guests.
const LIMITS: PluginLimits = PluginLimits {
    output: 64 << 20,
    log: 4 << 10,
    ..PluginLimits::STANDARD
};

/// The record `fault` of `engine.wit`.
#[derive(ComponentType, Lift)]
#[component(record)]
struct FaultRecord {
    message: String,
    undefined: Option<String>,
    hint: Option<String>,
    line: Option<u32>,
    range: Option<(u32, u32)>,
    #[component(name = "is-syntax")]
    is_syntax: bool,
}

impl From<FaultRecord> for TemplateFault {
    fn from(fault: FaultRecord) -> Self {
        Self {
            message: fault.message,
            undefined: fault.undefined,
            hint: fault.hint,
            line: fault.line,
            range: fault.range,
            is_syntax: fault.is_syntax,
        }
    }
}

type Render = TypedFunc<(String, Option<Vec<u8>>), (Result<String, FaultRecord>,)>;

/// The component, ready to be instantiated.
pub(super) struct TemplateCode {
    shared: Arc<Shared>,
    pre: InstancePre<Guest>,
}

/// An instance of the component, with the templates that it has compiled.
struct TemplateInstance {
    store: Store<Guest>,
    render: Render,
}

/// Renders templates with instances of the component.
struct WasmTemplates {
    cache: Option<Cache>,
    limits: PluginLimits,
    idle: Mutex<Vec<TemplateInstance>>,
}

/// Templates that are rendered by the component, whose code is kept in `cache` if this binary does not carry it.
pub fn templates(cache: Option<Cache>) -> Templates {
    bounded_templates(cache, LIMITS)
}

/// The same, with these limits of a rendering.
pub fn bounded_templates(cache: Option<Cache>, limits: PluginLimits) -> Templates {
    Templates::new(Arc::new(WasmTemplates {
        cache,
        limits,
        idle: Mutex::default(),
    }))
}

#[async_trait::async_trait]
impl TemplateEngine for WasmTemplates {
    async fn render(
        &self,
        template: String,
        vars: Option<Vec<u8>>,
    ) -> Result<String, EngineFailure> {
        let known = self.idle().pop();
        let mut instance = match known {
            Some(instance) => instance,
            None => template_code(self.cache.as_ref())
                .map_err(|error| EngineFailure::NoEngine(format!("{error:#}")))?
                .instantiate(&self.limits)
                .await
                .map_err(|failure| EngineFailure::NoEngine(reason(&failure)))?,
        };
        let rendered = instance.render(&self.limits, template, vars).await?;
        let mut idle = self.idle();
        if idle.len() < KEPT && instance.store.data().meter.used() <= KEPT_MEMORY {
            idle.push(instance);
        }
        rendered.map_err(|fault| EngineFailure::Fault(fault.into()))
    }
}

impl WasmTemplates {
    fn idle(&self) -> MutexGuard<'_, Vec<TemplateInstance>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The component's code, which is loaded once: from this binary, from the cache, or compiled now.
pub(super) fn template_code(cache: Option<&Cache>) -> anyhow::Result<&'static TemplateCode> {
    static CODE: OnceLock<TemplateCode> = OnceLock::new();
    static TURN: Mutex<()> = Mutex::new(());
    if let Some(code) = CODE.get() {
        return Ok(code);
    }
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(code) = CODE.get() {
        return Ok(code);
    }
    let shared = engine::shared()?;
    let component = component(&shared.engine, cache)
        .context("the component that renders templates can't be compiled")?;
    let pre = shared.linker.instantiate_pre(&component)?;
    Ok(CODE.get_or_init(|| TemplateCode { shared, pre }))
}

fn component(engine: &Engine, cache: Option<&Cache>) -> anyhow::Result<Component> {
    let builtin = &TEMPLATE_ENGINE;
    let there = builtin::ahead_of_time(engine, builtin.sha256, builtin.name)
        .or_else(|| cache?.get(engine, builtin.sha256));
    if let Some(component) = there {
        return Ok(component);
    }
    let code = engine.precompile_component(&builtin.wasm())?;
    // SAFETY: an engine with the same options compiled it, in this process.
    let component = unsafe { Component::deserialize(engine, &code) }?;
    if let Some(cache) = cache {
        cache.put(engine, builtin.name, builtin.sha256, &code);
    }
    Ok(component)
}

impl TemplateCode {
    async fn instantiate(&self, limits: &PluginLimits) -> Result<TemplateInstance, CallFailure> {
        let name: Arc<str> = TEMPLATE_ENGINE.name.into();
        let mut store = store::new(&self.shared.engine, &name, limits, 0, None, None);
        let made = match self.pre.instantiate_async(&mut store).await {
            Ok(instance) => instance.get_typed_func(&mut store, "render"),
            Err(error) => Err(error),
        };
        match made {
            Ok(render) => Ok(TemplateInstance { store, render }),
            Err(error) => Err(failure(&error, &store, limits)),
        }
    }
}

impl TemplateInstance {
    /// Renders. After a failure other than a fault, the instance can't be used again.
    async fn render(
        &mut self,
        limits: &PluginLimits,
        template: String,
        vars: Option<Vec<u8>>,
    ) -> Result<Result<String, FaultRecord>, EngineFailure> {
        self.store.data_mut().meter.refused_memory = false;
        let call = self.render.call_async(&mut self.store, (template, vars));
        let result = within(limits.deadline, call).await;
        match returned(result, &self.store, limits) {
            Ok((rendered,)) => Ok(rendered),
            Err(failure) => Err(EngineFailure::Limit(reason(&failure))),
        }
    }
}

/// The failure of an instance, for the author of a template.
fn reason(failure: &CallFailure) -> String {
    let nested = || "its expressions or values are nested too deeply".to_owned();
    match failure {
        CallFailure::Deadline(limit) => format!("gave up after {} s", limit.as_secs()),
        CallFailure::Memory(limit) => format!(
            "gave up: it needs more than {} MiB, and a rendered text may have {} MiB",
            limit >> 20,
            LIMITS.output >> 20
        ),
        CallFailure::Output(limit) => format!("the rendered text exceeds {} MiB", limit >> 20),
        CallFailure::Stack => nested(),
        CallFailure::Trap(text) if text.contains("stack overflowed") => nested(),
        // Of a panic, the line after its place.
        CallFailure::Trap(text) if text.contains("panicked at") => {
            text.lines().nth(1).unwrap_or(text).to_owned()
        }
        CallFailure::Trap(text)
        | CallFailure::Machine(text)
        | CallFailure::Caps(text)
        | CallFailure::Broken(text)
        | CallFailure::Reported { message: text, .. } => text.clone(),
    }
}

/// The result of a call, unless it takes longer. A running guest yields at every tick of the engine's clock, so no
/// timer is needed, and this works also outside of a runtime.
async fn within<T>(limit: Duration, call: impl Future<Output = T>) -> Option<T> {
    let end = Instant::now() + limit;
    let mut call = pin!(call);
    std::future::poll_fn(|context| match call.as_mut().poll(context) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending if Instant::now() >= end => Poll::Ready(None),
        Poll::Pending => Poll::Pending,
    })
    .await
}
