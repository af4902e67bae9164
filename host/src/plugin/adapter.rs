//! `model-adapter` plugins as [`roles::Adapter`](crate::roles::Adapter).

use std::time::Duration;

use async_trait::async_trait;

use super::bindings::adapter::AdapterKind;
use super::bindings::adapter::exports::mswea::plugin::model_adapter as wit;
use super::convert;
use super::error::LoadError;
use super::instance::{Instance, Recipe, bound};
use crate::roles::{
    Adapter, AdapterNext, Change, Delta, ErrorClass, HeaderValue, HttpRequest, Message, ModelError,
    PluginFault, Tool,
};

/// An adapter in wasm.
pub struct WasmAdapter {
    instance: Instance<AdapterKind>,
    /// Under `--fresh-instances`: the history, which every query has to bring whole.
    view: Option<Vec<Message>>,
    /// What goes with every query, and the tools that it was made from.
    request: Option<(Vec<Tool>, wit::Request)>,
}

impl WasmAdapter {
    /// Makes and configures it.
    ///
    /// # Errors
    /// When the plugin can't be used as an adapter with this config.
    pub async fn start(recipe: Recipe) -> Result<Self, LoadError> {
        let mut adapter = Self::lazy(recipe);
        adapter.instance.warm_up().await?;
        Ok(adapter)
    }

    /// An adapter that is made when it is first needed.
    pub fn lazy(recipe: Recipe) -> Self {
        let view = recipe.fresh.then(Vec::new);
        let instance = Instance::new(recipe);
        Self {
            instance,
            view,
            request: None,
        }
    }

    fn next_in(
        &mut self,
        next: Result<wit::Next, wit::ModelError>,
        call: &str,
    ) -> Result<AdapterNext, ModelError> {
        match next {
            Ok(wit::Next::Reply(reply)) => convert::reply_in(reply)
                .map(AdapterNext::Reply)
                .map_err(|broken| plugin(self.instance.broken(broken, call))),
            Ok(wit::Next::Send(request)) => request_in(request)
                .map(AdapterNext::Send)
                .map_err(|broken| plugin(self.instance.broken(broken, call))),
            Err(error) => {
                let usage = error
                    .usage
                    .map(convert::usage_in)
                    .transpose()
                    .map_err(|broken| plugin(self.instance.broken(broken, call)))?;
                Err(ModelError {
                    class: ErrorClass::reported(bound(&error.class)),
                    message: bound(&error.message),
                    retry_after: error.retry_after_ms.map(Duration::from_millis),
                    usage,
                    status: None,
                })
            }
        }
    }
}

/// A request from a guest. The names of its secrets stand in advice to people, so they are names.
fn request_in(request: wit::HttpRequest) -> Result<HttpRequest, convert::Broken> {
    let headers = request.headers.into_iter().map(|header| {
        let value = match header.value {
            wit::HeaderValue::Plain(value) => HeaderValue::Plain(value),
            wit::HeaderValue::Secret(secret) => {
                let is_name = (1..=128).contains(&secret.name.len())
                    && secret
                        .name
                        .chars()
                        .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'));
                if !is_name {
                    return Err(format!(
                        "the secret {:?} of header `{}` is not named by 1 to 128 letters, digits, `_`, `-` and `.`",
                        bound(&secret.name),
                        bound(&header.name)
                    ));
                }
                HeaderValue::Secret {
                    name: secret.name,
                    prefix: secret.prefix,
                }
            }
        };
        Ok((header.name, value))
    });
    Ok(HttpRequest {
        method: request.method,
        url: request.url,
        headers: headers.collect::<Result<_, _>>()?,
        body: request.body.into(),
    })
}

fn plugin(fault: PluginFault) -> ModelError {
    ModelError::new(ErrorClass::Plugin, fault.message)
}

#[async_trait]
impl Adapter for WasmAdapter {
    async fn query(&mut self, change: &Change, tools: &[Tool]) -> Result<AdapterNext, ModelError> {
        let deadline = self.instance.deadline();
        let change = match &mut self.view {
            Some(view) => {
                change.clone().apply(view);
                convert::all_out(view)
            }
            None => convert::change_out(change),
        };
        if self
            .request
            .as_ref()
            .is_none_or(|(known, _)| known != tools)
        {
            let request = wit::Request {
                tools: tools.iter().map(convert::tool_out).collect(),
                extra: None,
            };
            self.request = Some((tools.to_vec(), request));
        }
        let Some((_, request)) = &self.request else {
            unreachable!("it was made just above")
        };
        let mut live = self.instance.take().await.map_err(plugin)?;
        let result = Instance::<AdapterKind>::bounded(
            deadline,
            live.kind
                .mswea_plugin_model_adapter()
                .call_query(&mut live.store, &change, request),
        )
        .await;
        let sends = matches!(&result, Some(Ok(Ok(wit::Next::Send(_)))));
        let next = self
            .instance
            .settle(live, "query", sends, result)
            .map_err(plugin)?;
        self.next_in(next, "query")
    }

    async fn head(&mut self, status: u16, headers: &[(String, String)]) -> Result<(), ModelError> {
        let deadline = self.instance.deadline();
        let mut live = self.instance.take().await.map_err(plugin)?;
        let result = Instance::<AdapterKind>::bounded(
            deadline,
            live.kind
                .mswea_plugin_model_adapter()
                .call_head(&mut live.store, status, headers),
        )
        .await;
        self.instance
            .settle(live, "head", true, result)
            .map_err(plugin)
    }

    async fn feed(&mut self, bytes: &[u8]) -> Result<Vec<Delta>, ModelError> {
        let deadline = self.instance.deadline();
        let mut live = self.instance.take().await.map_err(plugin)?;
        let result = Instance::<AdapterKind>::bounded(
            deadline,
            live.kind
                .mswea_plugin_model_adapter()
                .call_feed(&mut live.store, bytes),
        )
        .await;
        let deltas = self
            .instance
            .settle(live, "feed", true, result)
            .map_err(plugin)?;
        Ok(deltas
            .into_iter()
            .map(|delta| Delta {
                kind: delta.kind,
                text: delta.text,
            })
            .collect())
    }

    async fn finish(&mut self) -> Result<AdapterNext, ModelError> {
        let deadline = self.instance.deadline();
        let mut live = self.instance.take().await.map_err(plugin)?;
        let result = Instance::<AdapterKind>::bounded(
            deadline,
            live.kind
                .mswea_plugin_model_adapter()
                .call_finish(&mut live.store),
        )
        .await;
        // An error may be followed by another try of the same request: the query is not over
        // until there is a reply.
        let replied = matches!(&result, Some(Ok(Ok(wit::Next::Reply(_)))));
        let next = self
            .instance
            .settle(live, "finish", !replied, result)
            .map_err(plugin)?;
        self.next_in(next, "finish")
    }

    fn discard(&mut self) {
        self.instance.discard();
    }
}
