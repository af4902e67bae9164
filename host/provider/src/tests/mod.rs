//! The provider layer against real sockets: a scripted server, a small adapter, fakes for the
//! rest of the run.

mod adapter;
mod faults;
mod flow;
mod security;
mod server;
mod transport;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use self::adapter::{Fake, Log};
use super::{EnvironmentLookup, Grants, Http, Limit, ProviderModel, RequestSettings, Secrets};
use mswea_core::Event;
use mswea_core::{
    Change, Context, Front, Journal, Message, Model, ModelError, Progress, Reply, Stop, StopSource,
};

/// Waits of milliseconds, always the same.
fn quick() -> RequestSettings {
    RequestSettings {
        retry_wait: Duration::from_millis(4),
        max_wait: Duration::from_millis(20),
        jitter_seed: Some(1),
        ..RequestSettings::standard()
    }
}

fn environment(pairs: &[(&str, &str)]) -> EnvironmentLookup {
    let pairs: Vec<(String, String)> = pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    Arc::new(move |name| {
        let found = pairs.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.clone())
    })
}

/// Records journal and front in one list of lines.
#[derive(Default)]
struct Recorder {
    lines: Mutex<Vec<String>>,
    broken: bool,
}

impl Recorder {
    fn push(&self, line: String) {
        self.lines.lock().unwrap().push(line);
    }
}

impl Journal for Recorder {
    fn record(&self, event: &Event) -> std::io::Result<f64> {
        if self.broken {
            return Err(std::io::Error::other("no space left"));
        }
        self.push(match event {
            Event::Retry { class, attempt, .. } => format!("journal retry {attempt} {class}"),
            Event::PluginFault { plugin, .. } => format!("journal fault {plugin}"),
            other => format!("journal {other:?}"),
        });
        Ok(0.0)
    }
}

impl Front for Recorder {
    fn show(&self, progress: &Progress<'_>) {
        self.push(match progress {
            Progress::Delta(delta) => format!("delta {}", delta.text),
            Progress::DeltaReset => "reset".to_owned(),
            Progress::Retrying {
                class, attempt, of, ..
            } => format!("retrying {attempt}/{of} {class}"),
            Progress::Warning(_) => "warning".to_owned(),
            other => format!("{other:?}"),
        });
    }
}

/// A test's parts, with defaults.
struct Bench {
    settings: RequestSettings,
    grants: Grants,
    environment: EnvironmentLookup,
    secrets_file: Option<std::path::PathBuf>,
    /// Name of the secret that the adapter puts into `authorization`.
    secret: Option<&'static str>,
    method: &'static str,
    log: Arc<Mutex<Log>>,
    recorder: Arc<Recorder>,
    source: StopSource,
    stop: Stop,
}

impl Bench {
    fn new() -> Self {
        let (source, stop) = StopSource::new();
        Self {
            settings: quick(),
            grants: Grants {
                hosts: vec!["127.0.0.1".parse().unwrap(), "localhost".parse().unwrap()],
                secrets: vec!["KEY".to_owned()],
                ..Grants::default()
            },
            environment: environment(&[]),
            secrets_file: None,
            secret: None,
            method: "POST",
            log: Arc::default(),
            recorder: Arc::default(),
            source,
            stop,
        }
    }

    fn context(&self) -> Context {
        Context::new(
            self.recorder.clone(),
            self.recorder.clone(),
            self.stop.clone(),
        )
    }

    fn model(&self, url: &str) -> ProviderModel {
        let fake = Fake::new(url, self.method, self.secret, self.log.clone());
        let (url, method, secret) = (url.to_owned(), self.method, self.secret);
        let log = self.log.clone();
        ProviderModel::new(
            Box::new(fake),
            Box::new(move || Ok(Box::new(Fake::new(&url, method, secret, log.clone())))),
            "fake",
            self.grants.clone(),
            Arc::new(Secrets::new(
                self.environment.clone(),
                self.secrets_file.clone(),
            )),
            Http::new(self.environment.clone()),
            self.settings.clone(),
        )
    }

    /// One query with one message.
    async fn query(&self, url: &str) -> Result<Reply, ModelError> {
        let change = Change::all(vec![Message::new("user", "hi")]);
        self.model(url).query(change, &[], &self.context()).await
    }

    /// One query that must fail.
    async fn fails(&self, url: &str) -> ModelError {
        match self.query(url).await {
            Ok(reply) => panic!("a reply: {reply:?}"),
            Err(error) => error,
        }
    }

    fn lines(&self) -> Vec<String> {
        std::mem::take(&mut *self.recorder.lines.lock().unwrap())
    }
}
