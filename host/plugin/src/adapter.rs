//! `model-adapter` plugins as [`roles::Adapter`](mswea_core::Adapter).

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;

use super::bindings::adapter::exports::mswea::plugin::model_adapter as wit;
use super::body_pieces::{self, AdapterExports};
use super::convert;
use super::error::LoadError;
use super::instance::{PluginInstance, Recipe};
use super::quoted::bound;
use mswea_core::{
    Adapter, AdapterNext, Change, Delta, ErrorClass, HeaderValue, HttpRequest, Message, ModelError,
    ModelFailure, PluginFault, RequestBody, Tool,
};

/// A model adapter in a WebAssembly component.
pub struct WasmAdapter {
    instance: PluginInstance<AdapterExports>,
    /// With `--fresh-instances`: the history. Every query passes all of it, because its instance is
    /// new.
    view: Option<Vec<Arc<Message>>>,
    /// Whether the adapter always passes bodies whole.
    says_whole: bool,
    /// The record that is passed with every query, and the tools from which it was made.
    request: Option<(Vec<Tool>, wit::Request)>,
}

impl WasmAdapter {
    /// Makes and configures an instance.
    ///
    /// # Errors
    /// [`LoadError`] if the plugin is no adapter, can't be instantiated, or refuses the config.
    pub async fn start(recipe: Recipe) -> Result<Self, LoadError> {
        let mut adapter = Self::lazy(recipe);
        adapter.instance.warm_up().await?;
        Ok(adapter)
    }

    /// An adapter whose instance is made at the first query.
    pub fn lazy(recipe: Recipe) -> Self {
        let view = recipe.fresh.then(Vec::new);
        // An instance that is discarded after every query never has a last body.
        let says_whole = recipe.fresh;
        let instance = PluginInstance::new(recipe);
        Self {
            instance,
            view,
            says_whole,
            request: None,
        }
    }

    /// Tells the instance that it may return the next body in pieces. Returns whether it has the
    /// interface `body-pieces`.
    async fn offer(&mut self) -> Result<bool, ModelError> {
        if self.says_whole {
            return Ok(false);
        }
        let deadline = self.instance.deadline();
        let mut live = self.instance.take().await.map_err(plugin)?;
        let held = live.kind.last.len() as u64;
        let result = match &live.kind.pieces {
            None => Some(Ok(false)),
            Some(ability) => {
                let ability = ability.mswea_plugin_body_pieces();
                let call = ability.call_offer(&mut live.store, held);
                let result = PluginInstance::<AdapterExports>::bounded(deadline, call).await;
                result.map(|result| result.map(|()| true))
            }
        };
        self.instance
            .settle(live, "offer", true, result)
            .map_err(plugin)
    }

    /// Gets the pieces of a request's body, and joins them.
    async fn pieces(&mut self) -> Result<RequestBody, ModelError> {
        let deadline = self.instance.deadline();
        let mut live = self.instance.take().await.map_err(plugin)?;
        let last = live.kind.last.clone();
        let result = match &live.kind.pieces {
            None => Some(Ok(Vec::new())),
            Some(ability) => {
                let ability = ability.mswea_plugin_body_pieces();
                let call = ability.call_pieces(&mut live.store);
                PluginInstance::<AdapterExports>::bounded(deadline, call).await
            }
        };
        let pieces = self
            .instance
            .settle(live, "pieces", true, result)
            .map_err(plugin)?;
        body_pieces::join(&last, pieces, self.instance.most_output())
            .map_err(|failure| plugin(self.instance.refused(&failure, "pieces")))
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
                // An error may stand inside a response with another status.
                let extra = error.extra.as_deref().map(serde_json::from_str::<Value>);
                let status = extra.and_then(|extra| extra.ok()?.get("status")?.as_u64());
                Err(ModelError {
                    class: ErrorClass::reported(bound(&error.class)).into(),
                    message: bound(&error.message),
                    retry_after: error.retry_after_ms.map(Duration::from_millis),
                    usage,
                    status: status.and_then(|status| u16::try_from(status).ok()),
                })
            }
        }
    }
}

/// A request from a guest. The names of its secrets are checked, because messages to the user
/// contain them.
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
    ModelError::new(ModelFailure::Plugin, fault.message)
}

#[async_trait]
impl Adapter for WasmAdapter {
    async fn query(&mut self, change: &Change, tools: &[Tool]) -> Result<AdapterNext, ModelError> {
        let in_pieces = self.offer().await?;
        let deadline = self.instance.deadline();
        let change = match &mut self.view {
            Some(view) => {
                change.clone().apply(view);
                convert::all_out(view)
            }
            None => convert::change_out(change),
        };
        self.request.take_if(|(known, _)| known != tools);
        let (_, request) = self.request.get_or_insert_with(|| {
            let request = wit::Request {
                tools: tools.iter().map(convert::tool_out).collect(),
                extra: None,
            };
            (tools.to_vec(), request)
        });
        let mut live = self.instance.take().await.map_err(plugin)?;
        let result = PluginInstance::<AdapterExports>::bounded(
            deadline,
            live.kind.adapter.mswea_plugin_model_adapter().call_query(
                &mut live.store,
                &change,
                request,
            ),
        )
        .await;
        let sends = matches!(&result, Some(Ok(Ok(wit::Next::Send(_)))));
        let next = self
            .instance
            .settle(live, "query", sends, result)
            .map_err(plugin)?;
        let mut next = self.next_in(next, "query")?;
        if let AdapterNext::Send(request) = &mut next
            && in_pieces
        {
            if request.body.is_empty() {
                request.body = self.pieces().await?;
            }
            if let Some(exports) = self.instance.exports() {
                exports.last = request.body.clone();
            }
        }
        Ok(next)
    }

    async fn head(&mut self, status: u16, headers: &[(String, String)]) -> Result<(), ModelError> {
        let deadline = self.instance.deadline();
        let mut live = self.instance.take().await.map_err(plugin)?;
        let result = PluginInstance::<AdapterExports>::bounded(
            deadline,
            live.kind.adapter.mswea_plugin_model_adapter().call_head(
                &mut live.store,
                status,
                headers,
            ),
        )
        .await;
        self.instance
            .settle(live, "head", true, result)
            .map_err(plugin)
    }

    async fn feed(&mut self, bytes: &[u8]) -> Result<Vec<Delta>, ModelError> {
        let deadline = self.instance.deadline();
        let mut live = self.instance.take().await.map_err(plugin)?;
        let result = PluginInstance::<AdapterExports>::bounded(
            deadline,
            live.kind
                .adapter
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
        let result = PluginInstance::<AdapterExports>::bounded(
            deadline,
            live.kind
                .adapter
                .mswea_plugin_model_adapter()
                .call_finish(&mut live.store),
        )
        .await;
        // After an error the host may send the same request again: the query ends with a reply.
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

    fn say_whole(&mut self) -> bool {
        self.says_whole = true;
        let exports = self.instance.exports();
        exports.is_some_and(|exports| exports.pieces.is_some())
    }
}
