//! A model as the loop knows it: an adapter with the provider layer around it.

use std::sync::Arc;

use async_trait::async_trait;

use super::exchange::Link;
use super::grants::Grants;
use super::http::Http;
use super::secrets::Secrets;
use super::settings::Settings;
use crate::roles::{
    Adapter, Change, Context, ErrorClass, Message, Model, ModelError, PluginFault, Reply, Tool,
    Usage,
};

/// Makes another instance of the adapter, configured like the first.
pub type Asker = Box<dyn FnMut() -> Result<Box<dyn Adapter>, PluginFault> + Send>;

/// Answers queries through an adapter and HTTP.
pub struct ProviderModel {
    link: Link,
    main: Instance,
    asker: Asker,
    /// For [`Model::ask`], made when first needed: questions must not disturb the history that
    /// the main instance has encoded.
    second: Option<Instance>,
    /// The history as the model sees it, to hand to a fresh instance.
    view: Vec<Message>,
    /// Whether the main instance is known to have `view`. After any failure it counts as
    /// unknown: sending everything once more is always right.
    in_step: bool,
    /// What attempts were billed whose query has brought neither reply nor error yet, for
    /// example because its future was dropped.
    unreported: Option<Usage>,
}

/// An adapter, and whether it may be in the middle of a call.
struct Instance {
    adapter: Box<dyn Adapter>,
    busy: bool,
}

impl Instance {
    fn new(adapter: Box<dyn Adapter>) -> Self {
        Self {
            adapter,
            busy: false,
        }
    }

    async fn exchange(
        &mut self,
        link: &mut Link,
        change: &Change,
        view: &[Message],
        tools: &[Tool],
        context: &Context,
        billed: &mut Option<Usage>,
    ) -> Result<Reply, ModelError> {
        // Still set if the future of an earlier exchange was dropped halfway, with the instance
        // in whatever state it was in.
        if std::mem::replace(&mut self.busy, true) {
            self.adapter.discard();
        }
        let outcome = link
            .exchange(&mut *self.adapter, change, view, tools, context, billed)
            .await;
        self.busy = false;
        outcome
    }
}

impl ProviderModel {
    /// A model that speaks through `adapter`, an instance of the plugin `plugin_name`, which
    /// may do what `grants` says. `asker` makes a second instance when it is needed.
    #[must_use]
    pub fn new(
        adapter: Box<dyn Adapter>,
        asker: Asker,
        plugin_name: impl Into<String>,
        grants: Grants,
        secrets: Arc<Secrets>,
        http: Http,
        settings: Settings,
    ) -> Self {
        let random = settings
            .jitter_seed
            .map_or_else(fastrand::Rng::new, fastrand::Rng::with_seed);
        Self {
            link: Link {
                plugin: plugin_name.into(),
                grants,
                secrets,
                http,
                settings,
                random,
                has_answered: false,
            },
            main: Instance::new(adapter),
            asker,
            second: None,
            view: Vec::new(),
            in_step: false,
            unreported: None,
        }
    }
}

#[async_trait]
impl Model for ProviderModel {
    async fn query(
        &mut self,
        change: &Change,
        tools: &[Tool],
        context: &Context,
    ) -> Result<Reply, ModelError> {
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
        change.clone().apply(&mut self.view);
        let all;
        let change = if self.in_step || change.start == 0 {
            change
        } else {
            all = Change::all(self.view.clone());
            &all
        };
        // Cleared first: this future may be dropped before it gets to set it.
        self.in_step = false;
        let outcome = self
            .main
            .exchange(
                &mut self.link,
                change,
                &self.view,
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
        context: &Context,
    ) -> Result<Reply, ModelError> {
        let second = match &mut self.second {
            Some(second) => second,
            empty => {
                let adapter = (self.asker)()
                    .map_err(|fault| ModelError::new(ErrorClass::Plugin, fault.message))?;
                empty.insert(Instance::new(adapter))
            }
        };
        let change = Change::all(messages);
        second
            .exchange(
                &mut self.link,
                &change,
                &change.messages,
                &[],
                context,
                &mut self.unreported,
            )
            .await
    }

    fn take_unreported_usage(&mut self) -> Option<Usage> {
        self.unreported.take()
    }
}
