//! The requests and their answers.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderValue, IF_NONE_MATCH, LOCATION, SET_COOKIE};
use hyper::{Method, Request, StatusCode};
use mswea_export::SecretValues;
use mswea_serve::ConnectionPlace;
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::answers::{self, PageAnswer, jsoned, plain, refused, tagged};
use crate::blanked::SecretsFiles;
use crate::compare;
use crate::door::{DoorAnswer, ViewDoor};
use crate::notes::{self, RunNote, RunNotes};
use crate::opened::{OpenedRun, OpenedRuns};
use crate::page;
use crate::search::SearchFor;
use crate::sent;
use crate::settings::{SentOf, ViewSettings};
use crate::steps;
use crate::table::{ListedRun, RunTable};
use crate::waiting::waiting;

/// The approximate number of bytes of steps in an answer, after which the page sends another
/// request.
const ANSWER: usize = 3 << 20;
/// The same of the first answer, which is waited for.
const FIRST: usize = 512 << 10;
/// The largest submission that is sent.
const SUBMISSION: usize = 4 << 20;
/// The largest body of a request, and the time limit for receiving it.
const NOTE: usize = 256 << 10;
const BODY_TIME: Duration = Duration::from_secs(15);
/// The largest number of model requests that are reconstructed at once.
const MAKING: usize = 2;
/// The largest file that is shown as text.
const FILE: u64 = 64 << 20;

/// The data that all requests share.
pub(crate) struct ViewRoutes {
    pub(crate) door: ViewDoor,
    shared: Arc<ViewedRuns>,
    /// The permits for reconstructing model requests.
    making: Arc<Semaphore>,
}

/// The data that requests read.
pub(crate) struct ViewedRuns {
    pub(crate) table: RunTable,
    pub(crate) opened: OpenedRuns,
    pub(crate) secrets: SecretValues,
    pub(crate) files: SecretsFiles,
    pub(crate) notes: RunNotes,
    sent: SentOf,
}

impl ViewRoutes {
    pub(crate) fn new(door: ViewDoor, settings: ViewSettings) -> Self {
        let files = SecretsFiles::new(settings.secrets.clone(), settings.in_file);
        Self {
            door,
            making: Arc::new(Semaphore::new(MAKING)),
            shared: Arc::new(ViewedRuns {
                notes: RunNotes::beside(&settings.roots),
                table: RunTable::new(settings.roots, settings.secrets.clone(), files.clone()),
                files,
                opened: OpenedRuns::default(),
                secrets: settings.secrets,
                sent: settings.sent,
            }),
        }
    }
}

/// The values of a query.
pub(crate) struct AskedFor(BTreeMap<String, String>);

impl AskedFor {
    fn of(query: Option<&str>) -> Self {
        let decoded = |text: &str| {
            let text = text.replace('+', " ");
            percent_decode_str(&text).decode_utf8_lossy().into_owned()
        };
        let pairs = query.unwrap_or_default().split('&');
        let pairs = pairs.filter_map(|pair| pair.split_once('='));
        Self(
            pairs
                .map(|(key, value)| (decoded(key), decoded(value)))
                .collect(),
        )
    }

    /// A value; empty if the query lacks it.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    /// A number; 0 if the query lacks it.
    pub(crate) fn number(&self, name: &str) -> u64 {
        self.text(name).parse().unwrap_or_default()
    }
}

/// Answers a request.
pub(crate) async fn answer(
    routes: &ViewRoutes,
    place: &ConnectionPlace,
    request: Request<Incoming>,
) -> PageAnswer {
    let asked = AskedFor::of(request.uri().query());
    let token = asked.0.get("token").map(String::as_str);
    match routes.door.check(request.headers(), token) {
        DoorAnswer::Refused(why) => {
            let mut answer = refused(StatusCode::FORBIDDEN, why);
            let close = HeaderValue::from_static("close");
            answer.headers_mut().insert(CONNECTION, close);
            answer
        }
        _ if !place.keep() => refused(
            StatusCode::SERVICE_UNAVAILABLE,
            "there are too many connections: close other windows of this page",
        ),
        DoorAnswer::Keeps(cookie) => kept(&request, &cookie),
        DoorAnswer::Allowed => route(routes, request, asked).await,
    }
}

/// A redirect to the same address without the token, which is then neither in the address line nor
/// in the history.
fn kept(request: &Request<Incoming>, cookie: &str) -> PageAnswer {
    let query = request.uri().query().unwrap_or_default();
    let rest = query.split('&').filter(|pair| !pair.starts_with("token="));
    let rest = rest.collect::<Vec<_>>().join("&");
    let path = request.uri().path();
    // A path that begins with two slashes would name another server.
    let path = format!("/{}", path.trim_start_matches(['/', '\\']));
    let to = match rest.is_empty() {
        true => path,
        false => format!("{path}?{rest}"),
    };
    // After a link from another site, the browser stores the cookie but does not send it with the
    // redirect. So this page makes the next request.
    let site = request.headers().get("sec-fetch-site");
    let is_linked = site.is_some_and(|site| site.as_bytes() != b"none");
    let mut answer = match is_linked {
        true => hand_over(&to),
        false => plain(StatusCode::SEE_OTHER, ""),
    };
    let headers = [(SET_COOKIE, cookie), (LOCATION, &to)];
    for (name, value) in headers.into_iter().take(if is_linked { 1 } else { 2 }) {
        if let Ok(value) = HeaderValue::from_str(value) {
            answer.headers_mut().insert(name, value);
        }
    }
    answer
}

/// A page that leads to another one of this server.
fn hand_over(to: &str) -> PageAnswer {
    let to = mswea_text::as_html(to);
    let page = format!(
        "<!doctype html><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"0;url={to}\"><title>Runs</title>"
    );
    answers::answer(
        StatusCode::OK,
        "text/html; charset=utf-8",
        page.into_bytes(),
    )
}

async fn route(routes: &ViewRoutes, request: Request<Incoming>, asked: AskedFor) -> PageAnswer {
    let path = request.uri().path().to_owned();
    let is_note = path == "/api/note" && request.method() == Method::POST;
    if request.method() != Method::GET && !is_note {
        return refused(
            StatusCode::METHOD_NOT_ALLOWED,
            "there is nothing to be changed here",
        );
    }
    if let Some(file) = page::file(&path) {
        return file;
    }
    let tag = request.headers().get(IF_NONE_MATCH);
    let tag = tag.and_then(|it| it.to_str().ok()).map(str::to_owned);
    let shared = routes.shared.clone();
    if is_note {
        let note = match noted(request).await {
            Ok(note) => note,
            Err(answer) => return answer,
        };
        let kept = tokio::task::spawn_blocking(move || keep_note(&shared, &asked, note));
        return kept.await.unwrap_or_else(|_| failed());
    }
    // Requests that wait for a permit occupy no thread.
    let making = match path.as_str() {
        "/api/sent" => routes.making.clone().acquire_owned().await.ok(),
        _ => None,
    };
    // On a blocking thread, because files are read.
    let answered = tokio::task::spawn_blocking(move || match path.as_str() {
        "/api/runs" => list(&shared, &asked, tag.as_deref()),
        "/api/run" => of_run(&shared, &asked, |run, open| {
            conversation(&shared, &asked, tag.as_deref(), run, open)
        }),
        "/api/note" => note(&shared, &asked),
        "/api/waiting" => jsoned(
            json!(waiting(shared.table.roots(), asked.text("folder"))),
            &shared.secrets,
        ),
        "/api/search" => search(&shared, &asked),
        "/api/compare" => compared(&shared, &asked),
        "/api/file" => file(&shared, &asked),
        "/api/text" => of_run(&shared, &asked, |_, open| text(&shared, &asked, open)),
        "/api/sent" => {
            let _making = making;
            sent(&shared, &asked)
        }
        "/api/record" => of_run(&shared, &asked, |run, open| {
            record(&shared, &asked, run, open)
        }),
        _ => refused(StatusCode::NOT_FOUND, "there is nothing of this name"),
    });
    answered.await.unwrap_or_else(|_| failed())
}

fn failed() -> PageAnswer {
    refused(
        StatusCode::INTERNAL_SERVER_ERROR,
        "this request has failed; the output of `mswea-host view` says more",
    )
}

/// The note in the body of a request.
async fn noted(request: Request<Incoming>) -> Result<RunNote, PageAnswer> {
    let kind = request.headers().get(CONTENT_TYPE);
    if kind.is_none_or(|kind| kind.as_bytes() != b"application/json") {
        let why = "a note is sent as `application/json`";
        return Err(refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, why));
    }
    let body = Limited::new(request.into_body(), NOTE);
    let body = timeout(BODY_TIME, body.collect()).await;
    let Ok(Ok(body)) = body else {
        let why = "the note is too long, or came too slowly";
        return Err(refused(StatusCode::PAYLOAD_TOO_LARGE, why));
    };
    serde_json::from_slice(&body.to_bytes()).map_err(|error| {
        let why = format!("the note has to be an object with `label` and `note`: {error}");
        refused(StatusCode::BAD_REQUEST, &why)
    })
}

fn keep_note(shared: &ViewedRuns, asked: &AskedFor, note: RunNote) -> PageAnswer {
    let Some(run) = shared.table.find(asked.text("id")) else {
        return no_run();
    };
    let key = notes::key(&run.place, &run.card.run_id);
    match shared.notes.keep(key, note) {
        Ok(()) => {
            shared.table.touch(&run.id);
            jsoned(json!({}), &shared.secrets)
        }
        Err(why) => refused(StatusCode::UNPROCESSABLE_ENTITY, &why),
    }
}

fn no_run() -> PageAnswer {
    refused(StatusCode::NOT_FOUND, "there is no such run")
}

fn note(shared: &ViewedRuns, asked: &AskedFor) -> PageAnswer {
    match shared.table.find(asked.text("id")) {
        Some(run) => {
            let note = shared.notes.of(notes::key(&run.place, &run.card.run_id));
            jsoned(
                json!({ "label": note.label, "note": note.note }),
                &shared.secrets,
            )
        }
        None => no_run(),
    }
}

fn search(shared: &ViewedRuns, asked: &AskedFor) -> PageAnswer {
    let cursor = usize::try_from(asked.number("cursor")).unwrap_or(usize::MAX);
    match SearchFor::new(asked.text("q"), asked.text("regex") == "1") {
        Ok(search) => {
            let found = search.run(&shared.table.all(), cursor, &shared.secrets, &shared.files);
            jsoned(found, &shared.secrets)
        }
        Err(why) => refused(StatusCode::BAD_REQUEST, &mswea_text::harmless(&why)),
    }
}

fn compared(shared: &ViewedRuns, asked: &AskedFor) -> PageAnswer {
    let keys = |name| {
        let run = shared.table.find(asked.text(name)).ok_or_else(no_run)?;
        let keys = |open: &mut OpenedRun| {
            open.read_all();
            compare::keys(open.conversation())
        };
        let keys = shared.opened.with(&run.id, &run.place, &shared.files, keys);
        keys.map_err(|error| unreadable(&error))
    };
    match keys("a").and_then(|one| Ok((one, keys("b")?))) {
        Ok((one, other)) => jsoned(compare::aligned(&one, &other), &shared.secrets),
        Err(answer) => answer,
    }
}

/// The whole file of a run, as text.
fn file(shared: &ViewedRuns, asked: &AskedFor) -> PageAnswer {
    let Some(run) = shared.table.find(asked.text("id")) else {
        return no_run();
    };
    match mswea_files::read(&run.place.path, FILE) {
        Ok(bytes) => {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            plain(StatusCode::OK, steps::cleaned(text, &shared.secrets))
        }
        Err(error) => unreadable(&format!("the file can't be shown: {error}")),
    }
}

fn unreadable(error: &str) -> PageAnswer {
    refused(
        StatusCode::UNPROCESSABLE_ENTITY,
        &mswea_text::harmless(error),
    )
}

fn unchanged(tag: &str) -> PageAnswer {
    let mut answer = plain(StatusCode::NOT_MODIFIED, "");
    if let Ok(tag) = HeaderValue::from_str(tag) {
        answer.headers_mut().insert(hyper::header::ETAG, tag);
    }
    answer
}

fn list(shared: &ViewedRuns, asked: &AskedFor, known: Option<&str>) -> PageAnswer {
    if let Some(known) = known
        && shared.table.tag() == known
    {
        return unchanged(known);
    }
    let (tag, value) = shared.table.changes(asked.number("since"), &shared.notes);
    tagged(&tag, value, &shared.secrets)
}

/// Answers a request about the run that it names.
fn of_run(
    shared: &ViewedRuns,
    asked: &AskedFor,
    answer: impl FnOnce(&ListedRun, &mut OpenedRun) -> PageAnswer,
) -> PageAnswer {
    let Some(run) = shared.table.find(asked.text("id")) else {
        return no_run();
    };
    let opened = shared
        .opened
        .with(&run.id, &run.place, &shared.files, |open| {
            answer(&run, open)
        });
    opened.unwrap_or_else(|error| unreadable(&error))
}

/// The steps from `from` on, as many as fit an answer.
fn conversation(
    shared: &ViewedRuns,
    asked: &AskedFor,
    known: Option<&str>,
    run: &ListedRun,
    open: &mut OpenedRun,
) -> PageAnswer {
    let from = usize::try_from(asked.number("from")).unwrap_or(usize::MAX);
    let mut hash = DefaultHasher::new();
    (open.tag(), from, &run.card.status).hash(&mut hash);
    let tag = format!("\"{:016x}\"", hash.finish());
    if known == Some(&tag) {
        return unchanged(&tag);
    }
    let mut sent = Vec::new();
    let mut bytes = 0;
    let most = if from == 0 { FIRST } else { ANSWER };
    while bytes <= most {
        let index = from.saturating_add(sent.len());
        let Some(step) = open.step(index) else { break };
        let value = steps::step(index, step, &shared.secrets);
        bytes += value.to_string().len();
        sent.push(value);
    }
    let mut card = run.card.to_json(&run.id, &run.place.name, &shared.secrets);
    if open.unread() == 0 {
        // The list may be older than the run itself.
        card["cost"] = json!(open.cost());
    }
    let all = open.conversation();
    let next = from.min(all.steps.len()) + sent.len();
    let about = open.about(&shared.secrets);
    let submission = match all.submission.len() <= SUBMISSION {
        true => Value::from(steps::cleaned(all.submission.clone(), &shared.secrets)),
        false => steps::shown(&all.submission, &shared.secrets),
    };
    let value = json!({
        "card": card,
        "about": about,
        "exit_status": all.exit_status,
        "submission": submission,
        "usage": all.usage,
        "from": from,
        "steps": sent,
        "next": next,
        "total": all.steps.len() + open.unread(),
        "open": open.first_open(),
    });
    tagged(&tag, value, &shared.secrets)
}

/// The whole text of a part of a step.
fn text(shared: &ViewedRuns, asked: &AskedFor, open: &mut OpenedRun) -> PageAnswer {
    if asked.text("part") == "submission" {
        open.read_all();
        let submission = open.conversation().submission.clone();
        let text = steps::cleaned(submission, &shared.secrets);
        return plain(StatusCode::OK, text);
    }
    let index = usize::try_from(asked.number("step")).unwrap_or(usize::MAX);
    match open
        .step(index)
        .and_then(|step| steps::part(step, asked.text("part")))
    {
        Some(text) => plain(StatusCode::OK, steps::cleaned(text, &shared.secrets)),
        None => refused(StatusCode::NOT_FOUND, "the step has no such part"),
    }
}

/// The model request of a step, compared with the history.
fn sent(shared: &ViewedRuns, asked: &AskedFor) -> PageAnswer {
    let Some(run) = shared.table.find(asked.text("id")) else {
        return no_run();
    };
    let index = usize::try_from(asked.number("step")).unwrap_or(usize::MAX);
    let first = |open: &mut OpenedRun| open.record(&run.place, index)?.ok();
    let text = match shared
        .opened
        .with(&run.id, &run.place, &shared.files, first)
    {
        Ok(text) => text.unwrap_or_default(),
        Err(error) => return unreadable(&error),
    };
    let line = text.lines().next().unwrap_or_default();
    let line: Value = serde_json::from_str(line).unwrap_or_default();
    let seq = line["seq"]
        .as_u64()
        .filter(|_| line["event"] == "query_started");
    let Some(seq) = seq else {
        return refused(StatusCode::NOT_FOUND, "no query of this step is recorded");
    };
    match (shared.sent)(&run.place.path, seq) {
        Ok(made) => {
            let recorded = line["view"]["messages"].as_u64();
            jsoned(
                sent::request(&made, recorded, &shared.secrets),
                &shared.secrets,
            )
        }
        Err(error) => {
            let error = steps::cleaned(error, &shared.secrets);
            unreadable(&format!("the request can't be made anew: {error}"))
        }
    }
}

/// The lines of the journal about a step.
fn record(shared: &ViewedRuns, asked: &AskedFor, run: &ListedRun, open: &OpenedRun) -> PageAnswer {
    let index = usize::try_from(asked.number("step")).unwrap_or(usize::MAX);
    let text = match open.record(&run.place, index) {
        None => return refused(StatusCode::NOT_FOUND, "no journal has this step"),
        Some(Err(error)) => {
            let why = format!("the journal can't be read: {error}");
            return refused(StatusCode::UNPROCESSABLE_ENTITY, &why);
        }
        Some(Ok(text)) => text,
    };
    let mut out = String::new();
    for line in text.lines() {
        match serde_json::from_str::<Value>(line) {
            Ok(value) => out.push_str(&steps::indented(&value)),
            Err(_) => out.push_str(line),
        }
        out.push('\n');
    }
    plain(StatusCode::OK, steps::cleaned(out, &shared.secrets))
}
