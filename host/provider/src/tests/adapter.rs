//! A small adapter: one request per query, whose reply is the body; some bodies ask for another
//! request. A body with `<finished>`, `<likely-finished>` or `<end>` says how far it is; pieces with a colon before them
//! are not shown, and those with a question mark are reasoning.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;

use mswea_core::{
    Adapter, AdapterNext, Change, Delta, ErrorClass, HeaderValue, HttpRequest, Message, ModelError,
    ModelFailure, Reply, Tool, Usage,
};

/// The inputs of the instances of one test, and the failures of their calls.
#[derive(Default)]
pub struct Log {
    /// Start of each change, and the texts that the instance knows after it.
    pub queries: Vec<(usize, Vec<String>)>,
    pub heads: Vec<(u16, Vec<(String, String)>)>,
    pub discards: u32,
    /// The next calls of `query` fail with these.
    pub fail_query: Vec<ModelFailure>,
    /// The next calls of `finish` fail with these.
    pub fail_finish: Vec<ModelFailure>,
    /// `feed` never returns.
    pub stuck: bool,
}

pub struct Fake {
    url: String,
    method: &'static str,
    secret: Option<&'static str>,
    log: Arc<Mutex<Log>>,
    view: Vec<Message>,
    status: u16,
    body: String,
}

impl Fake {
    pub fn new(
        url: &str,
        method: &'static str,
        secret: Option<&'static str>,
        log: Arc<Mutex<Log>>,
    ) -> Self {
        Self {
            url: url.to_owned(),
            method,
            secret,
            log,
            view: Vec::new(),
            status: 0,
            body: String::new(),
        }
    }

    fn request(&self) -> AdapterNext {
        let plain = |text: &str| HeaderValue::Plain(text.to_owned());
        let mut headers = vec![("x-fake".to_owned(), plain("1"))];
        if let Some(name) = self.secret {
            let value = HeaderValue::Secret {
                name: name.to_owned(),
                prefix: "Bearer ".to_owned(),
            };
            headers.push(("authorization".to_owned(), value));
        }
        let texts: Vec<String> = self.view.iter().map(Message::text).collect();
        AdapterNext::Send(HttpRequest {
            method: self.method.to_owned(),
            url: self.url.clone(),
            headers,
            body: texts.join("|").into_bytes().into(),
        })
    }
}

pub fn usage(tokens: u64, cost: Option<f64>) -> Usage {
    Usage {
        input_tokens: tokens,
        cost,
        ..Usage::default()
    }
}

fn next_failure(list: &mut Vec<ModelFailure>) -> Result<(), ModelError> {
    if list.is_empty() {
        return Ok(());
    }
    Err(ModelError::new(list.remove(0), "scripted failure"))
}

#[async_trait]
impl Adapter for Fake {
    async fn query(&mut self, change: &Change, _: &[Tool]) -> Result<AdapterNext, ModelError> {
        assert!(
            change.start <= self.view.len(),
            "a change beyond what is known"
        );
        change.clone().apply(&mut self.view);
        let mut log = self.log.lock().unwrap();
        let texts = self.view.iter().map(Message::text).collect();
        log.queries.push((change.start, texts));
        next_failure(&mut log.fail_query)?;
        drop(log);
        Ok(self.request())
    }

    async fn head(&mut self, status: u16, headers: &[(String, String)]) -> Result<(), ModelError> {
        self.status = status;
        self.body.clear();
        let mut log = self.log.lock().unwrap();
        log.heads.push((status, headers.to_vec()));
        Ok(())
    }

    async fn feed(&mut self, bytes: &[u8]) -> Result<Vec<Delta>, ModelError> {
        if self.log.lock().unwrap().stuck {
            std::future::pending::<()>().await;
        }
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        self.body.push_str(&text);
        if self.status != 200 {
            return Ok(Vec::new());
        }
        let mut deltas = Vec::new();
        for kind in [Delta::FINISHED, Delta::LIKELY_FINISHED, Delta::END] {
            if self.body.ends_with(&format!("<{kind}>")) {
                deltas.push((kind, String::new()));
            }
        }
        if !text.starts_with(':') {
            let is_text = !text.starts_with('?');
            deltas.insert(0, (if is_text { "text" } else { "reasoning" }, text));
        }
        let deltas = deltas.into_iter().map(|(kind, text)| Delta {
            kind: kind.to_owned(),
            text,
        });
        Ok(deltas.collect())
    }

    async fn finish(&mut self) -> Result<AdapterNext, ModelError> {
        next_failure(&mut self.log.lock().unwrap().fail_finish)?;
        let body = self.body.as_str();
        let class = match self.status {
            200 if body == "again" => return Ok(self.request()),
            200 if body.trim_start().starts_with('<') || body == "garbled" => {
                ErrorClass::MalformedResponse
            }
            200 => {
                return Ok(AdapterNext::Reply(Reply {
                    message: Message::new("assistant", body),
                    usage: Some(usage(10, Some(0.5))),
                    ..Reply::default()
                }));
            }
            401 => ErrorClass::Authentication,
            429 => ErrorClass::RateLimited,
            500..=599 => ErrorClass::Overloaded,
            600.. => ErrorClass::MalformedResponse,
            _ => ErrorClass::BadRequest,
        };
        // Like a real adapter, it repeats only the beginning of a body.
        let start: String = body.chars().take(40).collect();
        let cut = if start == body { "" } else { "…" };
        let mut error = ModelError::new(class, format!("status {}: {start}{cut}", self.status));
        error.usage = (body == "billed").then(|| usage(100, Some(0.25)));
        Err(error)
    }

    fn discard(&mut self) {
        self.log.lock().unwrap().discards += 1;
        self.view.clear();
        self.body.clear();
    }
}
