//! The loop's model: an adapter with the provider layer around it.

use std::sync::Arc;

use async_trait::async_trait;

use super::exchange::{ModelAccess, SentQuery};
use super::grants::Grants;
use super::http::Http;
use super::request::LastUrl;
use super::secrets::Secrets;
use super::settings::RequestSettings;
use mswea_core::{
    Adapter, AdapterNext, Change, Context, ErrorClass, HttpRequest, Message, Model, ModelError,
    ModelFailure, PluginFault, Reply, Tool, Usage,
};

/// Makes another instance of the adapter, with the same config.
pub type AdapterMaker = Box<dyn FnMut() -> Result<Box<dyn Adapter>, PluginFault> + Send>;

/// Answers queries through an adapter and HTTP.
pub struct ProviderModel {
    access: ModelAccess,
    main: AdapterInstance,
    asker: AdapterMaker,
    /// The instance for [`Model::ask`], made when it is first needed: a question must not change
    /// the history that the main instance has encoded.
    second: Option<AdapterInstance>,
    /// The history as it is sent to the model, for a fresh instance; without `last`.
    view: Vec<Arc<Message>>,
    /// The change of the last query: it joins the view at the next query, also if the
    /// future of the last one was dropped.
    last: Option<Change>,
    /// Whether the main instance has `view`. After a failure this is unknown and so false: sending
    /// the whole view again is always correct.
    in_step: bool,
    /// The usage that was billed for attempts of a query that ended with neither a reply nor an
    /// error, for example because its future was dropped.
    unreported: Option<Usage>,
}

/// An adapter's instance, and whether it may be in the middle of a call.
struct AdapterInstance {
    adapter: Box<dyn Adapter>,
    busy: bool,
}

impl AdapterInstance {
    fn new(adapter: Box<dyn Adapter>) -> Self {
        Self {
            adapter,
            busy: false,
        }
    }

    async fn exchange(
        &mut self,
        access: &mut ModelAccess,
        query: SentQuery<'_>,
        tools: &[Tool],
        context: &Context,
        billed: &mut Option<Usage>,
    ) -> Result<Reply, ModelError> {
        // True here if the future of an earlier exchange was dropped halfway, which leaves the
        // instance in an unknown state.
        if std::mem::replace(&mut self.busy, true) {
            self.adapter.discard();
        }
        let outcome = access
            .exchange(&mut *self.adapter, query, tools, context, billed)
            .await;
        self.busy = false;
        outcome
    }
}

impl ProviderModel {
    /// A model that uses `adapter`, an instance of the plugin `plugin_name`, with these `grants`.
    /// `asker` makes a second instance when it is needed.
    #[must_use]
    pub fn new(
        adapter: Box<dyn Adapter>,
        asker: AdapterMaker,
        plugin_name: impl Into<String>,
        grants: Grants,
        secrets: Arc<Secrets>,
        http: Http,
        settings: RequestSettings,
    ) -> Self {
        let random = settings
            .jitter_seed
            .map_or_else(fastrand::Rng::new, fastrand::Rng::with_seed);
        Self {
            access: ModelAccess {
                plugin: plugin_name.into(),
                grants,
                secrets,
                http,
                settings,
                random,
                has_answered: false,
                last_url: LastUrl::default(),
            },
            main: AdapterInstance::new(adapter),
            asker,
            second: None,
            view: Vec::new(),
            last: None,
            in_step: false,
            unreported: None,
        }
    }
}

#[async_trait]
impl Model for ProviderModel {
    async fn query(
        &mut self,
        change: Change,
        tools: &[Tool],
        context: &Context,
    ) -> Result<Reply, ModelError> {
        if let Some(last) = self.last.take() {
            last.apply(&mut self.view);
        }
        if change.start > self.view.len() {
            return Err(ModelError::new(
                ErrorClass::Other("internal".to_owned()),
                format!(
                    "a change begins at message {} of a history of {}: this is a bug of the \
                     host, please report it",
                    change.start,
                    self.view.len()
                ),
            ));
        }
        let change = if self.in_step || change.start == 0 {
            change
        } else {
            change.apply(&mut self.view);
            Change::all(std::mem::take(&mut self.view))
        };
        let query = SentQuery {
            before: &self.view,
            change: self.last.insert(change),
        };
        // Set to false first: this future may be dropped before it ends.
        self.in_step = false;
        let outcome = self
            .main
            .exchange(
                &mut self.access,
                query,
                tools,
                context,
                &mut self.unreported,
            )
            .await;
        self.in_step = outcome.is_ok();
        outcome
    }

    async fn ask(
        &mut self,
        messages: Vec<Message>,
        tools: &[Tool],
        context: &Context,
    ) -> Result<Reply, ModelError> {
        let second = match &mut self.second {
            Some(second) => second,
            empty => {
                let adapter = (self.asker)()
                    .map_err(|fault| ModelError::new(ModelFailure::Plugin, fault.message))?;
                empty.insert(AdapterInstance::new(adapter))
            }
        };
        let query = SentQuery {
            before: &[],
            change: &Change::all(messages),
        };
        second
            .exchange(
                &mut self.access,
                query,
                tools,
                context,
                &mut self.unreported,
            )
            .await
    }

    async fn draft(
        &mut self,
        view: Vec<Arc<Message>>,
        tools: &[Tool],
    ) -> Result<Option<HttpRequest>, ModelError> {
        self.in_step = false;
        let next = self.main.adapter.query(&Change::all(view), tools).await;
        // The adapter expects a response, and will get none.
        self.main.adapter.discard();
        Ok(match next? {
            AdapterNext::Send(request) => Some(request),
            AdapterNext::Reply(_) => None,
        })
    }

    fn take_unreported_usage(&mut self) -> Option<Usage> {
        self.unreported.take()
    }
}
