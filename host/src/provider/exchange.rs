//! One query from its first request to its reply: round trips, retries, fresh instances.

use std::fmt::Write as _;
use std::future::Future;
use std::sync::Arc;
use std::time::SystemTime;

use super::fault::{Again, Fault};
use super::grants::Grants;
use super::http::Http;
use super::request::{self, Prepared};
use super::retry::{self, Decision, Retries};
use super::secrets::Secrets;
use super::settings::Settings;
use crate::journal::Event;
use crate::roles::{
    Adapter, AdapterNext, Change, Context, ErrorClass, HttpRequest, Message, ModelError, Progress,
    Reply, Stop, Tool, Usage,
};

/// How many requests an adapter may make for one reply.
const MAX_ROUND_TRIPS: u32 = 8;

/// What the exchanges of one model have in common.
pub(super) struct Link {
    pub plugin: String,
    pub grants: Grants,
    pub secrets: Arc<Secrets>,
    pub http: Http,
    pub settings: Settings,
    pub random: fastrand::Rng,
    /// The address has proved right: a reply has come from it in this run.
    pub has_answered: bool,
}

/// What one exchange has come to so far.
struct Progressed<'a> {
    retries: Retries,
    /// Billed by attempts that brought no reply.
    billed: &'a mut Option<Usage>,
    /// Something of an answer is on display.
    shown: bool,
    /// The adapter was already replaced once.
    renewed: bool,
}

/// Why an attempt failed, and whether another may go better.
struct Failure {
    error: ModelError,
    again: Again,
}

impl From<ModelError> for Failure {
    fn from(error: ModelError) -> Self {
        Self {
            error,
            again: Again::Often,
        }
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Self {
            again: fault.again,
            error: fault.into(),
        }
    }
}

impl Link {
    /// Puts `change` to the adapter and does what it asks for until it has a reply. `view` is
    /// the whole history, for a fresh instance; `billed` what attempts without a reply were
    /// billed, which lies with the caller because this future may be dropped.
    pub async fn exchange(
        &mut self,
        adapter: &mut dyn Adapter,
        change: &Change,
        view: &[Message],
        tools: &[Tool],
        context: &Context,
        billed: &mut Option<Usage>,
    ) -> Result<Reply, ModelError> {
        let mut so_far = Progressed {
            retries: Retries::new(self.random.fork()),
            billed,
            shown: false,
            renewed: false,
        };
        let outcome = self
            .converse(adapter, change, view, tools, context, &mut so_far)
            .await;
        match outcome {
            Ok(mut reply) => {
                self.has_answered = true;
                if let Some(billed) = so_far.billed.take() {
                    reply.usage = Some(sum(billed, reply.usage));
                }
                Ok(reply)
            }
            Err(mut error) => {
                if matches!(error.class, ErrorClass::Interrupted | ErrorClass::Plugin) {
                    // Interrupted in the middle of a call, or broken: never to be called again.
                    adapter.discard();
                }
                so_far.bill(&mut error);
                error.usage = so_far.billed.take();
                error.message = self.secrets.redact(&error.message);
                Err(error)
            }
        }
    }

    async fn converse(
        &self,
        adapter: &mut dyn Adapter,
        change: &Change,
        view: &[Message],
        tools: &[Tool],
        context: &Context,
        so_far: &mut Progressed<'_>,
    ) -> Result<Reply, ModelError> {
        let mut trips = 0;
        let mut next = until_stopped(&context.stop, adapter.query(change, tools)).await;
        loop {
            next = match next {
                Ok(AdapterNext::Reply(reply)) => return Ok(reply),
                Ok(AdapterNext::Send(_)) if trips == MAX_ROUND_TRIPS => {
                    return Err(ModelError::new(
                        ErrorClass::MalformedResponse,
                        format!(
                            "the plugin `{}` has no reply after {MAX_ROUND_TRIPS} requests and \
                             wants another one, which is not allowed",
                            self.plugin
                        ),
                    ));
                }
                Ok(AdapterNext::Send(request)) => {
                    trips += 1;
                    self.send(adapter, &request, context, so_far).await
                }
                Err(mut error) if error.class == ErrorClass::Plugin && !so_far.renewed => {
                    so_far.bill(&mut error);
                    so_far.renewed = true;
                    self.report_renewal(&error, context)?;
                    so_far.take_back(context);
                    adapter.discard();
                    trips = 0;
                    let all = Change::all(view.to_vec());
                    until_stopped(&context.stop, adapter.query(&all, tools)).await
                }
                Err(mut error) => {
                    if error.class == ErrorClass::Plugin {
                        error
                            .message
                            .push_str(" (a fresh instance of the plugin failed as well)");
                    }
                    return Err(error);
                }
            };
        }
    }

    fn report_renewal(&self, error: &ModelError, context: &Context) -> Result<(), ModelError> {
        let message = self.secrets.redact(&error.message);
        tracing::warn!(plugin = %self.plugin, %message, "adapter failed; using a fresh instance");
        record(
            context,
            &Event::PluginFault {
                plugin: self.plugin.clone(),
                message: message.clone(),
            },
        )?;
        context.front.show(&Progress::Warning(&format!(
            "the plugin `{}` failed and is started afresh: {message}",
            self.plugin
        )));
        Ok(())
    }

    /// Performs one request, as often as the budgets allow.
    async fn send(
        &self,
        adapter: &mut dyn Adapter,
        request: &HttpRequest,
        context: &Context,
        so_far: &mut Progressed<'_>,
    ) -> Result<AdapterNext, ModelError> {
        let prepared = request::prepare(request, &self.plugin, &self.grants, &self.secrets)?;
        loop {
            so_far.retries.count();
            let attempt = self.attempt(adapter, &prepared, context, so_far).await;
            let Failure { mut error, again } = match attempt {
                Ok(next) => return Ok(next),
                Err(failure) => failure,
            };
            so_far.bill(&mut error);
            error.message = self.secrets.redact(&error.message);
            let tries = again.tries(self.has_answered, self.settings.is_patient);
            let decision =
                so_far
                    .retries
                    .decide(&error.class, tries, error.retry_after, &self.settings);
            match decision {
                Decision::GiveUp(why) => {
                    error.message.push_str(&why);
                    return Err(error);
                }
                Decision::Again { attempt, of, wait } => {
                    tracing::info!(class = %error.class, attempt, of, ?wait, "sending again");
                    record(
                        context,
                        &Event::Retry {
                            class: error.class.clone(),
                            message: error.message.clone(),
                            attempt,
                            wait_seconds: wait.as_secs_f64(),
                        },
                    )?;
                    so_far.take_back(context);
                    context.front.show(&Progress::Retrying {
                        class: &error.class,
                        message: &error.message,
                        attempt,
                        of,
                        wait,
                    });
                    until_stopped(&context.stop, async {
                        tokio::time::sleep(wait).await;
                        Ok::<_, ModelError>(())
                    })
                    .await?;
                }
            }
        }
    }

    /// Performs one request once.
    async fn attempt(
        &self,
        adapter: &mut dyn Adapter,
        prepared: &Prepared,
        context: &Context,
        so_far: &mut Progressed<'_>,
    ) -> Result<AdapterNext, Failure> {
        let stop = &context.stop;
        let settings = &self.settings;
        let may_follow = |url: &url::Url| self.grants.allows(url);
        let sending = self.http.send(prepared, settings, &may_follow);
        let mut answer = until_stopped(stop, sending).await?;
        tracing::debug!(origin = %answer.origin, status = answer.status, "response");
        let headers = answer.plain_headers();
        until_stopped(stop, adapter.head(answer.status, &headers)).await?;
        let mut first = None;
        while let Some(piece) = until_stopped(stop, answer.piece(settings)).await? {
            if piece.is_empty() {
                continue;
            }
            first = first.or_else(|| piece.trim_ascii_start().first().copied());
            for delta in until_stopped(stop, adapter.feed(&piece)).await? {
                so_far.shown = true;
                context.front.show(&Progress::Delta(&delta));
            }
        }
        let finished: Result<AdapterNext, ModelError> = until_stopped(stop, adapter.finish()).await;
        finished.map_err(|mut error| {
            error.status = Some(answer.status);
            if error.retry_after.is_none() {
                error.retry_after = retry::asked(&answer.headers, SystemTime::now());
            }
            if let (ErrorClass::Authentication | ErrorClass::Permission, [name, ..]) =
                (&error.class, prepared.secrets.as_slice())
            {
                let name = format!("`{name}`");
                if !error.message.contains(&name) {
                    // Writing into a string can't fail.
                    let _ = write!(error.message, " (the key is the value of {name})");
                }
            }
            // A web page in place of an answer, a status that no API has, and where a server
            // redirects to: most likely the address is wrong.
            let is_page = (200..300).contains(&answer.status) && first == Some(b'<');
            let is_foreign = !(200..600).contains(&answer.status);
            let mut again = Again::Often;
            if let Some(note) = answer.redirect.take()
                && error.class != ErrorClass::Plugin
            {
                // The adapter can't know why it was not followed.
                error.message = note;
                again = Again::Never;
            } else if (is_page || is_foreign) && error.class == ErrorClass::MalformedResponse {
                again = Again::IfAddressIsRight(0);
            }
            Failure { error, again }
        })
    }
}

impl Progressed<'_> {
    /// Moves what an error was billed to the account.
    fn bill(&mut self, error: &mut ModelError) {
        if let Some(usage) = error.usage.take() {
            *self.billed = Some(sum(usage, self.billed.take()));
        }
    }

    /// Declares void what was shown of an answer.
    fn take_back(&mut self, context: &Context) {
        if std::mem::take(&mut self.shown) {
            context.front.show(&Progress::DeltaReset);
        }
    }
}

/// `usage` with the tokens of `more` added. The sum has the provider's figure in dollars only
/// if every part that has tokens has one: a figure for half of it would pass for the whole.
fn sum(usage: Usage, more: Option<Usage>) -> Usage {
    let Some(mut total) = more else {
        return usage;
    };
    let nothing = |usage: &Usage| usage.input_tokens == 0 && usage.output_tokens == 0;
    total.cost = match (total.cost, usage.cost) {
        (Some(a), Some(b)) => Some(a + b),
        (Some(a), None) if nothing(&usage) => Some(a),
        (None, Some(b)) if nothing(&total) => Some(b),
        _ => None,
    };
    total.add(&usage);
    total
}

fn record(context: &Context, event: &Event) -> Result<(), ModelError> {
    context.journal.record(event).map_err(|error| {
        ModelError::new(
            ErrorClass::Other("journal".to_owned()),
            format!("the journal can't be written ({error}): is the disk full?"),
        )
    })
}

/// Waits for `work`, but no longer than the run may go on.
async fn until_stopped<T, E: From<Fault>>(
    stop: &Stop,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    tokio::select! {
        biased;
        () = stop.stopped() => {
            let message = "interrupted while waiting for the model";
            Err(Fault::new(ErrorClass::Interrupted, message).into())
        }
        outcome = work => outcome,
    }
}
