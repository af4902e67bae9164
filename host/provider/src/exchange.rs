//! One query from its first request to its reply: round trips, retries, fresh instances.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::fault::{Again, RequestFault};
use super::grants::Grants;
use super::http::{Http, StartedResponse};
use super::masking::{KnownSecrets, MaskedText};
use super::request::{self, LastUrl, Prepared};
use super::retry::{self, Decision, Retries};
use super::secrets::Secrets;
use super::settings::RequestSettings;
use mswea_core::Event;
use mswea_core::{
    Adapter, AdapterNext, Change, Context, Delta, ErrorClass, HttpRequest, Message, ModelError,
    ModelFailure, Progress, Reply, Stop, Tool, Usage,
};

/// How many requests an adapter may make for one reply.
const MAX_ROUND_TRIPS: u32 = 8;

/// How long a server may be silent after a finished reply: token counts may follow, but some servers
/// send nothing more and keep the connection open.
const QUIET: Duration = Duration::from_secs(3);

/// As before, after a reply that may be complete: a pause of the model is rarely as long.
const LONG_QUIET: Duration = Duration::from_secs(30);

/// The values that all exchanges of one model share.
pub(super) struct ModelAccess {
    pub plugin: String,
    pub grants: Grants,
    pub secrets: Arc<Secrets>,
    pub http: Http,
    pub settings: RequestSettings,
    pub random: fastrand::Rng,
    /// Whether a reply has come from this address in this run, which shows that the address is
    /// right.
    pub has_answered: bool,
    pub last_url: LastUrl,
}

/// The state of one exchange.
struct Progressed<'a> {
    retries: Retries,
    /// The usage that was billed for attempts without a reply.
    billed: &'a mut Option<Usage>,
    /// Whether the front shows a part of an answer.
    shown: bool,
    /// Whether the adapter's instance has been replaced once.
    renewed: bool,
}

/// Why an attempt failed, and how often it makes sense to try again.
struct FailedAttempt {
    error: ModelError,
    again: Again,
}

impl From<ModelError> for FailedAttempt {
    fn from(error: ModelError) -> Self {
        Self {
            error,
            again: Again::Often,
        }
    }
}

impl From<RequestFault> for FailedAttempt {
    fn from(fault: RequestFault) -> Self {
        Self {
            again: fault.again,
            error: fault.into(),
        }
    }
}

/// A query: the change, and the history from which it begins.
#[derive(Clone, Copy)]
pub struct SentQuery<'a> {
    /// The history before the change; at least as long as the change's start.
    pub before: &'a [Arc<Message>],
    /// The change.
    pub change: &'a Change,
}

impl SentQuery<'_> {
    /// The whole history, for a fresh instance.
    fn whole(&self) -> Change {
        let before = &self.before[..self.change.start];
        Change::all(before.iter().chain(&self.change.messages).cloned())
    }
}

impl ModelAccess {
    /// Passes the query's change to the adapter and performs its requests until it has a reply. `billed`
    /// collects the usage that was billed for attempts without a reply. The caller owns it, because this
    /// future may be dropped.
    pub async fn exchange(
        &mut self,
        adapter: &mut dyn Adapter,
        query: SentQuery<'_>,
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
            .converse(adapter, query, tools, context, &mut so_far)
            .await;
        match outcome {
            Ok(mut reply) => {
                self.has_answered = true;
                self.mask(&mut reply);
                if let Some(billed) = so_far.billed.take() {
                    reply.usage = Some(sum(billed, reply.usage));
                }
                Ok(reply)
            }
            Err(mut error) => {
                if matches!(
                    error.class,
                    ModelFailure::Interrupted | ModelFailure::Plugin
                ) {
                    // The instance was interrupted in the middle of a call, or has failed, so it
                    // must not be called again.
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
        &mut self,
        adapter: &mut dyn Adapter,
        query: SentQuery<'_>,
        tools: &[Tool],
        context: &Context,
        so_far: &mut Progressed<'_>,
    ) -> Result<Reply, ModelError> {
        let mut trips = 0;
        let mut next = until_stopped(&context.stop, adapter.query(query.change, tools)).await;
        loop {
            next = match next {
                Ok(AdapterNext::Reply(reply)) => return Ok(reply),
                Ok(AdapterNext::Send(_)) if trips == MAX_ROUND_TRIPS => {
                    return Err(ModelError::new(
                        ErrorClass::MalformedResponse,
                        format!(
                            "the plugin `{}` has no reply after {MAX_ROUND_TRIPS} requests, and more requests are not allowed",
                            self.plugin
                        ),
                    ));
                }
                Ok(AdapterNext::Send(request)) => {
                    trips += 1;
                    self.send(adapter, &request, context, so_far).await
                }
                Err(mut error) if error.class == ModelFailure::Plugin && !so_far.renewed => {
                    so_far.bill(&mut error);
                    so_far.renewed = true;
                    self.report_renewal(&error, context)?;
                    so_far.take_back(context);
                    adapter.discard();
                    trips = 0;
                    let all = query.whole();
                    until_stopped(&context.stop, adapter.query(&all, tools)).await
                }
                Err(mut error) => {
                    if error.class == ModelFailure::Plugin {
                        error
                            .message
                            .push_str(" (a fresh instance of the plugin failed as well)");
                    }
                    return Err(error);
                }
            };
        }
    }

    /// Masks the secrets in everything that a reply holds, whatever field it is: a server may send back what it
    /// was sent.
    fn mask(&self, reply: &mut Reply) {
        if let Ok(mut value) = serde_json::to_value(&*reply)
            && self.secrets.mask_value(&mut value)
            && let Ok(masked) = serde_json::from_value(value)
        {
            *reply = masked;
        }
    }

    fn report_renewal(&self, error: &ModelError, context: &Context) -> Result<(), ModelError> {
        let message = self.secrets.redact(&error.message);
        tracing::warn!(plugin = %self.plugin, %message, "the adapter failed: using a fresh instance");
        record(
            context,
            &Event::PluginFault {
                plugin: self.plugin.clone(),
                message: message.clone(),
            },
        )?;
        context.front.show(&Progress::Warning(&format!(
            "the plugin `{}` failed, and a fresh instance is used: {message}",
            self.plugin
        )));
        Ok(())
    }

    /// Performs one request, as often as the budgets allow.
    async fn send(
        &mut self,
        adapter: &mut dyn Adapter,
        request: &HttpRequest,
        context: &Context,
        so_far: &mut Progressed<'_>,
    ) -> Result<AdapterNext, ModelError> {
        let prepared = request::prepare(
            request,
            &self.plugin,
            &self.grants,
            &self.secrets,
            &mut self.last_url,
        )?;
        let pace = self.http.pace(&prepared);
        loop {
            so_far.retries.count();
            let held_back = |wait| context.front.show(&Progress::HeldBack { wait });
            let turn = async { Ok::<_, ModelError>(pace.turn(held_back).await) };
            let on_its_way = until_stopped(&context.stop, turn).await?;
            let attempt = self.attempt(adapter, &prepared, context, so_far).await;
            let FailedAttempt { mut error, again } = match attempt {
                Ok(next) => {
                    on_its_way.answered();
                    return Ok(next);
                }
                Err(failure) => failure,
            };
            if error.class == ModelFailure::Reported(ErrorClass::RateLimited) {
                on_its_way.refused(error.retry_after);
            }
            drop(on_its_way);
            so_far.bill(&mut error);
            error.message = self.secrets.redact(&error.message);
            let tries = again.tries(self.has_answered, self.settings.is_patient);
            let decision = match &error.class {
                ModelFailure::Reported(class) => {
                    let asked = error.retry_after;
                    so_far.retries.decide(class, tries, asked, &self.settings)
                }
                _ => Decision::GiveUp(String::new()),
            };
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
    ) -> Result<AdapterNext, FailedAttempt> {
        let stop = &context.stop;
        let settings = &self.settings;
        let may_follow = |url: &url::Url| self.grants.allows(url);
        let sending = self.http.send(prepared, settings, &may_follow);
        let mut answer = until_stopped(stop, sending).await?;
        tracing::debug!(origin = %answer.origin, status = answer.status, "response");
        let headers = answer.plain_headers();
        until_stopped(stop, adapter.head(answer.status, &headers)).await?;
        let (first, has_ended) = self.read(adapter, &mut answer, context, so_far).await?;
        let finished: Result<AdapterNext, ModelError> = until_stopped(stop, adapter.finish()).await;
        let finished = finished.map_err(|mut error| {
            error.status = error.status.or(Some(answer.status));
            if error.retry_after.is_none() {
                error.retry_after = retry::asked(&answer.headers, SystemTime::now());
            }
            let is_refused =
                error.class == ErrorClass::Authentication || error.class == ErrorClass::Permission;
            if let (true, [name, ..]) = (is_refused, prepared.secrets.as_slice()) {
                let name = format!("`{name}`");
                if !error.message.contains(&name) {
                    // Writing into a string does not fail.
                    let _ = write!(error.message, " (the key is the value of {name})");
                }
            }
            // A web page in place of an answer, a status that no API uses, or a redirect: most
            // likely the address is wrong.
            let is_page = (200..300).contains(&answer.status) && first == Some(b'<');
            let is_foreign = !(200..600).contains(&answer.status);
            let mut again = Again::Often;
            if let Some(note) = answer.redirect.take()
                && error.class != ModelFailure::Plugin
            {
                // The adapter does not know why the redirect was not followed.
                error.message = note;
                again = Again::Never;
            } else if (is_page || is_foreign) && error.class == ErrorClass::MalformedResponse {
                again = Again::IfAddressIsRight(0);
            }
            FailedAttempt { error, again }
        });
        if has_ended {
            answer.release();
        }
        finished
    }

    /// Passes the body to the adapter, until it ends or the reply in it is complete. Returns the
    /// first byte that is no blank, and whether the adapter has said that the rest does not count.
    async fn read(
        &self,
        adapter: &mut dyn Adapter,
        answer: &mut StartedResponse,
        context: &Context,
        so_far: &mut Progressed<'_>,
    ) -> Result<(Option<u8>, bool), FailedAttempt> {
        let mut shown = ShownReply {
            known: self.secrets.known(),
            ..ShownReply::default()
        };
        let read = self.read_pieces(adapter, answer, context, so_far, &mut shown);
        let read = read.await;
        for (kind, text) in shown.texts {
            show(context, &kind, text.finish(&shown.known));
        }
        read
    }

    async fn read_pieces(
        &self,
        adapter: &mut dyn Adapter,
        answer: &mut StartedResponse,
        context: &Context,
        so_far: &mut Progressed<'_>,
        shown: &mut ShownReply,
    ) -> Result<(Option<u8>, bool), FailedAttempt> {
        let stop = &context.stop;
        let mut first = None;
        // Until when something may follow the finished reply.
        let mut quiet_until: Option<Instant> = None;
        loop {
            let piece = before(quiet_until, answer.piece(&self.settings));
            let piece = match until_stopped(stop, piece).await {
                Ok(Some(piece)) => piece,
                Ok(None) => return Ok((first, false)),
                // The reply is there and paid for: a connection that breaks after it changes nothing.
                Err(fault) if quiet_until.is_some() && fault.class != ModelFailure::Interrupted => {
                    tracing::debug!(message = %fault.message, "after a finished reply");
                    return Ok((first, false));
                }
                Err(fault) => return Err(fault.into()),
            };
            if piece.is_empty() {
                continue;
            }
            first = first.or_else(|| piece.trim_ascii_start().first().copied());
            let (mut finished, mut has_ended, mut has_text) = (None, false, false);
            for delta in until_stopped(stop, adapter.feed(&piece)).await? {
                match delta.kind.as_str() {
                    Delta::FINISHED => finished = Some(QUIET),
                    Delta::LIKELY_FINISHED => finished = Some(LONG_QUIET),
                    Delta::END => has_ended = true,
                    _ => {
                        has_text = true;
                        shown.show(context, delta);
                    }
                }
            }
            so_far.shown |= has_text;
            if has_ended {
                return Ok((first, true));
            }
            // A server that goes on after the end of a reply may do so again. What only keeps the
            // connection alive does not prolong the wait.
            let goes_on = has_text && quiet_until.is_some();
            if let Some(wait) = finished.or(goes_on.then_some(LONG_QUIET)) {
                let until = Instant::now() + wait;
                quiet_until = Some(match quiet_until {
                    Some(known) if !has_text => known.min(until),
                    _ => until,
                });
            }
        }
    }
}

/// What is shown of a reply while it arrives.
#[derive(Default)]
struct ShownReply {
    known: Arc<KnownSecrets>,
    texts: BTreeMap<String, MaskedText>,
    /// The kind of the last delta.
    last: String,
}

impl ShownReply {
    fn show(&mut self, context: &Context, delta: Delta) {
        if self.last != delta.kind {
            let last = self.texts.get_mut(&self.last);
            let rest = last.map(|last| last.pause(&self.known)).unwrap_or_default();
            show(context, &self.last, rest);
            self.last.clone_from(&delta.kind);
        }
        let text = self.texts.entry(delta.kind).or_default();
        let safe = text.feed(&self.known, &delta.text);
        show(context, &self.last, safe);
    }
}

fn show(context: &Context, kind: &str, text: String) {
    if !text.is_empty() {
        let kind = kind.to_owned();
        context.front.show(&Progress::Delta(&Delta { kind, text }));
    }
}

impl Progressed<'_> {
    /// Adds the usage that was billed for a failed attempt.
    fn bill(&mut self, error: &mut ModelError) {
        if let Some(usage) = error.usage.take() {
            *self.billed = Some(sum(usage, self.billed.take()));
        }
    }

    /// Tells the front to discard the part of an answer that it has shown.
    fn take_back(&mut self, context: &Context) {
        if std::mem::take(&mut self.shown) {
            context.front.show(&Progress::DeltaReset);
        }
    }
}

/// `usage` with the tokens of `more` added. The sum has the provider's figure in dollars only if
/// every part that has tokens has one: otherwise a figure for a part would be taken for the whole.
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
    let recorded = context.journal.record(event).map(drop);
    recorded.map_err(|error| ModelError::new(ModelFailure::Journal, error.to_string()))
}

/// The next piece of a body, or its end, which also comes with the moment `due`.
async fn before<T>(
    due: Option<Instant>,
    piece: impl Future<Output = Result<Option<T>, RequestFault>>,
) -> Result<Option<T>, RequestFault> {
    match due {
        Some(due) => tokio::time::timeout_at(due, piece)
            .await
            .unwrap_or(Ok(None)),
        None => piece.await,
    }
}

/// Waits for `work`, at most until the run is stopped.
async fn until_stopped<T, E: From<RequestFault>>(
    stop: &Stop,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let interrupted = || {
        let message = "interrupted while waiting for the model";
        Err(RequestFault::new(ModelFailure::Interrupted, message).into())
    };
    if stop.is_stopped() {
        return interrupted();
    }
    // Most calls of an adapter end at once, and need not be registered with the stop.
    tokio::select! {
        biased;
        outcome = work => outcome,
        () = stop.stopped() => interrupted(),
    }
}
