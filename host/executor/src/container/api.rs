//! An engine used through its daemon's API: without a client process for each action.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::Method;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::time::sleep;

use super::clear::{Unfinished, made};
use super::create;
use super::daemon::{Daemon, DaemonFault, Header, QUICK, RequestPayload, encode};
use super::engine::{
    ContainerSpec, ContainerState, Engine, EngineError, EngineErrorKind, Exec, ExecSpec, Image,
    ListedContainer, Tell,
};
use super::errors::{self, Doing, explain};
use super::pull::{PullProgress, name_and_tag};
use super::registry::{self, Credentials};
use super::run_args;
use super::stream::{self, Watched};

/// The time limit for making and starting a container; a busy machine takes many seconds.
const MAKING: Duration = Duration::from_secs(300);
/// The time limit of copying an archive into a container.
const COPYING: Duration = Duration::from_secs(600);
/// How often the daemon is asked whether a process has ended: the first pause and the longest.
const ASK: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));
/// The pauses after the output has ended, when the process probably ends soon.
const ASK_AT_END: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(200));
/// How long the daemon may take to notice the end of a process whose output has ended.
const NOTICING: Duration = Duration::from_secs(5);

/// An engine whose daemon answers.
pub(super) struct Api {
    daemon: Arc<Daemon>,
    /// The command line client, for operations that only it supports.
    client: Option<Arc<dyn Engine>>,
}

impl Api {
    pub(super) fn new(daemon: Arc<Daemon>, client: Option<Arc<dyn Engine>>) -> Self {
        Self { daemon, client }
    }

    fn fault(&self, doing: Doing<'_>, fault: DaemonFault) -> EngineError {
        self.daemon.fault(doing, fault)
    }

    async fn ask(&self, doing: Doing<'_>, path: &str) -> Result<Value, EngineError> {
        let call = self
            .daemon
            .call(Method::GET, path, RequestPayload::None, QUICK);
        call.await.map_err(|fault| self.fault(doing, fault))
    }

    /// Changes the state of a container.
    async fn change(&self, id: &str, verb: &str) -> Result<(), EngineError> {
        let path = format!("/containers/{}/{verb}", encode(id));
        let call = self
            .daemon
            .call(Method::POST, &path, RequestPayload::None, MAKING);
        call.await
            .map(drop)
            .map_err(|fault| self.fault(Doing::Using(id), fault))
    }

    async fn unpack(
        &self,
        id: &str,
        folder: &str,
        payload: RequestPayload,
    ) -> Result<(), EngineError> {
        let path = format!("/containers/{}/archive?path={}", encode(id), encode(folder));
        let put = self.daemon.call(Method::PUT, &path, payload, COPYING);
        put.await
            .map(drop)
            .map_err(|fault| self.fault(Doing::Copying(folder), fault))
    }
}

impl Daemon {
    fn fault(&self, doing: Doing<'_>, fault: DaemonFault) -> EngineError {
        errors::fault(doing, self.product, &self.address, fault)
    }
}

/// Creates and starts a container; removes it again if that fails.
async fn make(
    daemon: Arc<Daemon>,
    body: Value,
    spec: ContainerSpec,
) -> Result<Unfinished, EngineError> {
    let doing = Doing::Making(&spec);
    let mut path = format!("/containers/create?name={}", encode(&spec.name));
    if let Some(platform) = &spec.platform {
        path.push_str(&format!("&platform={}", encode(platform)));
    }
    let itself = Api {
        daemon: daemon.clone(),
        client: None,
    };
    let mut unfinished = Unfinished::new(Arc::new(itself), &spec);
    let create = daemon.call(Method::POST, &path, RequestPayload::Json(body), MAKING);
    let created = match create.await {
        Ok(created) => created,
        Err(fault @ (DaemonFault::Refused { .. } | DaemonFault::Unreachable(_))) => {
            unfinished.forget();
            return Err(daemon.fault(doing, fault));
        }
        // The daemon may have made the container all the same.
        Err(fault) => {
            unfinished.remove_when_it_turns_up().await;
            return Err(daemon.fault(doing, fault));
        }
    };
    let id = text(&created["Id"]);
    unfinished.has_id(&id);
    let path = format!("/containers/{}/start", encode(&id));
    if let Err(fault) = daemon
        .call(Method::POST, &path, RequestPayload::None, MAKING)
        .await
    {
        unfinished.remove(Duration::ZERO).await;
        return Err(daemon.fault(doing, fault));
    }
    Ok(unfinished)
}

#[async_trait]
impl Engine for Api {
    async fn describe(&self) -> Result<String, EngineError> {
        let Daemon {
            product,
            version,
            address,
            ..
        } = &*self.daemon;
        self.ask(Doing::Asking, "/version").await?;
        let api = self.daemon.api_version();
        Ok(format!("{product} {version} (API {api}) at {address}"))
    }

    async fn image(&self, name: &str) -> Result<Option<Image>, EngineError> {
        let path = format!("/images/{}/json", encode(name));
        let call = self
            .daemon
            .call(Method::GET, &path, RequestPayload::None, QUICK);
        match call.await {
            Ok(found) => Ok(Some(Image {
                id: text(&found["Id"]),
                architecture: text(&found["Architecture"]),
                user: text(&found["Config"]["User"]),
                os: text(&found["Os"]),
            })),
            Err(DaemonFault::Refused { status: 404, .. }) => Ok(None),
            Err(fault) => Err(self.fault(Doing::Running(name), fault)),
        }
    }

    async fn pull(
        &self,
        name: &str,
        platform: Option<&str>,
        tell: Tell<'_>,
    ) -> Result<(), EngineError> {
        let doing = Doing::Pulling(name);
        let mut headers: Vec<Header> = Vec::new();
        // Podman's daemon finds its credentials itself.
        if self.daemon.product == "docker" {
            match registry::credentials(&registry::config(), name) {
                Credentials::None => {}
                Credentials::Header(value) => headers.push(("x-registry-auth", value)),
                Credentials::Helper => match &self.client {
                    Some(client) => return client.pull(name, platform, tell).await,
                    None => tracing::warn!(
                        image = name,
                        "the credentials are in a helper program that only `docker` can call, and `docker` is not installed: pulling without credentials"
                    ),
                },
            }
        }
        let (repository, tag) = name_and_tag(name);
        let mut path = format!(
            "/images/create?fromImage={}&tag={}",
            encode(repository),
            encode(tag)
        );
        if let Some(platform) = platform {
            path.push_str(&format!("&platform={}", encode(platform)));
        }
        let mut progress = PullProgress::new(tell);
        let stream = self
            .daemon
            .stream(Method::POST, &path, &headers, RequestPayload::None);
        let mut stream = stream.await.map_err(|fault| self.fault(doing, fault))?;
        let mut pending = Vec::new();
        while let Some(frame) = stream.frame().await {
            let frame = frame.map_err(|error| {
                self.fault(
                    doing,
                    DaemonFault::Broken(format!("while pulling: {error}")),
                )
            })?;
            if let Some(data) = frame.data_ref() {
                pending.extend_from_slice(data);
            }
            while let Some(end) = pending.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = pending.drain(..=end).collect();
                let Ok(message) = serde_json::from_slice(&line) else {
                    continue;
                };
                if let Some(error) = progress.message(&message) {
                    return Err(explain(doing, self.daemon.product, &error));
                }
            }
        }
        if let Ok(message) = serde_json::from_slice(&pending)
            && let Some(error) = progress.message(&message)
        {
            return Err(explain(doing, self.daemon.product, &error));
        }
        Ok(())
    }

    async fn run(&self, spec: &ContainerSpec) -> Result<String, EngineError> {
        if let Some(args) = run_args::for_client(spec) {
            if let Some(client) = &self.client {
                return client.run(spec).await;
            }
            let program = self.daemon.product;
            return Err(EngineError {
                kind: EngineErrorKind::Other,
                message: format!(
                    "only the program `{program}`, which is not installed, can make a container with {args}: install it, or use keys of their own where there are any (such as `environment.network`)"
                ),
            });
        }
        let body = create::body(spec)?;
        made(make(self.daemon.clone(), body, spec.clone())).await
    }

    async fn unpause(&self, id: &str) -> Result<(), EngineError> {
        self.change(id, "unpause").await
    }

    async fn start(&self, id: &str) -> Result<(), EngineError> {
        self.change(id, "start").await
    }

    async fn state(&self, id: &str) -> Result<ContainerState, EngineError> {
        let path = format!("/containers/{}/json", encode(id));
        let found = self.ask(Doing::Using(id), &path).await?;
        Ok(state_of(&found["State"]))
    }

    async fn exec(&self, id: &str, spec: &ExecSpec) -> Result<Exec, EngineError> {
        let env: Vec<String> = spec
            .env
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let mut body = json!({
            "AttachStdin": spec.stdin,
            "AttachStdout": true,
            "AttachStderr": true,
            "Cmd": spec.argv,
            "Env": env,
        });
        if let Some(cwd) = &spec.cwd {
            body["WorkingDir"] = cwd.as_str().into();
        }
        if let Some(user) = &spec.user {
            body["User"] = user.as_str().into();
        }
        let path = format!("/containers/{}/exec", encode(id));
        let create = self
            .daemon
            .call(Method::POST, &path, RequestPayload::Json(body), QUICK);
        let created = create
            .await
            .map_err(|fault| self.fault(Doing::Using(id), fault))?;
        let exec = text(&created["Id"]);
        let start = json!({"Detach": false, "Tty": false});
        let what = errors::described(spec);
        let path = format!("/exec/{exec}/start");
        let wire = self.daemon.hijack(&path, start);
        let wire = wire.await.map_err(|fault| match fault {
            // Podman reports here that the program can't be started; docker reports it by the exit
            // code.
            DaemonFault::Refused { status: 500, .. } => self.fault(Doing::Starting(&what), fault),
            fault => self.fault(Doing::Using(id), fault),
        })?;
        let (output, input, watched) = stream::split(wire, spec.stdin);
        let status = wait(self.daemon.clone(), exec, id.to_owned(), what, watched);
        Ok(Exec {
            output: Box::new(output),
            input: input.map(|input| Box::new(input) as _),
            status: Box::pin(status),
        })
    }

    async fn put(&self, id: &str, folder: &str, tar: Bytes) -> Result<(), EngineError> {
        self.unpack(id, folder, RequestPayload::Tar(tar)).await
    }

    async fn put_file(&self, id: &str, folder: &str, tar: &Path) -> Result<(), EngineError> {
        let open = async {
            let file = tokio::fs::File::open(tar).await?;
            let size = file.metadata().await?.len();
            Ok(RequestPayload::TarFile(file, size))
        };
        let payload = open.await.map_err(|e| errors::packed(folder, tar, &e))?;
        self.unpack(id, folder, payload).await
    }

    async fn get(&self, id: &str, path: &str, to: &Path) -> Result<(), EngineError> {
        let doing = Doing::Copying(path);
        let url = format!("/containers/{}/archive?path={}", encode(id), encode(path));
        let stream = self
            .daemon
            .stream(Method::GET, &url, &[], RequestPayload::None);
        let mut stream = stream.await.map_err(|fault| self.fault(doing, fault))?;
        let local = |error| errors::local(path, to, &error);
        let mut file = tokio::fs::File::create(to).await.map_err(local)?;
        while let Some(frame) = stream.frame().await {
            let frame =
                frame.map_err(|error| self.fault(doing, DaemonFault::Broken(error.to_string())))?;
            if let Some(data) = frame.data_ref() {
                file.write_all(data).await.map_err(local)?;
            }
        }
        file.flush().await.map_err(local)
    }

    async fn list(&self, label: &str) -> Result<Vec<ListedContainer>, EngineError> {
        let filters = json!({"label": [label]}).to_string();
        let path = format!("/containers/json?all=1&filters={}", encode(&filters));
        let found = errors::steadily(|| self.ask(Doing::Asking, &path)).await?;
        let found = found.as_array().map(Vec::as_slice).unwrap_or_default();
        Ok(found
            .iter()
            .map(|found| listed(&found["Id"], &found["Names"][0], &found["Labels"]))
            .collect())
    }

    async fn remove(&self, id: &str, limit: Duration) -> Result<(), EngineError> {
        let doing = Doing::Removing(id);
        let started = Instant::now();
        let path = format!("/containers/{}?force=1&v=1", encode(id));
        loop {
            let left = limit.saturating_sub(started.elapsed());
            if left.is_zero() {
                return Err(errors::timed_out(doing, self.daemon.product, limit));
            }
            let removal = self
                .daemon
                .call(Method::DELETE, &path, RequestPayload::None, left);
            match removal.await {
                Ok(_) | Err(DaemonFault::Refused { status: 404, .. }) => return Ok(()),
                // The container is being removed (`--rm`), or its process does not end at once.
                Err(DaemonFault::Refused {
                    status: 409 | 500, ..
                }) if started.elapsed() < limit => sleep(Duration::from_millis(100)).await,
                Err(DaemonFault::TimedOut(_)) => {}
                Err(fault) => return Err(self.fault(doing, fault)),
            }
        }
    }

    fn suffers_from_haste(&self) -> bool {
        self.daemon.product == "podman"
    }
}

/// Waits for a process's end by asking the daemon: a background process that holds the output open
/// hides the end from a reader of the output.
async fn wait(
    daemon: Arc<Daemon>,
    exec: String,
    container: String,
    what: String,
    mut watched: Watched,
) -> Result<i32, EngineError> {
    let (mut pause, mut longest) = ASK;
    let mut ended: Option<Instant> = None;
    loop {
        if ended.is_none() {
            tokio::select! {
                () = watched.ended() => {
                    ended = Some(Instant::now());
                    (pause, longest) = ASK_AT_END;
                }
                () = sleep(pause) => {}
            }
        } else {
            sleep(pause).await;
        }
        let path = format!("/exec/{exec}/json");
        let call = daemon.call(Method::GET, &path, RequestPayload::None, QUICK);
        let found = call
            .await
            .map_err(|fault| daemon.fault(Doing::Using(&container), fault))?;
        // A process that is being started has no exit code.
        if found["Running"] == false
            && let Some(code) = found["ExitCode"].as_i64()
        {
            let never_ran = matches!(code, 125..=127) && found["Pid"].as_i64() == Some(0);
            if never_ran && !watched.head().is_empty() {
                let mut error = explain(Doing::Starting(&what), daemon.product, &watched.head());
                if error.kind == EngineErrorKind::Other {
                    error.kind = EngineErrorKind::NotStarted;
                }
                return Err(error);
            }
            return Ok(code as i32);
        }
        if ended.is_some_and(|ended| ended.elapsed() > NOTICING) {
            return Err(stream::cut());
        }
        pause = (pause * 3 / 2).min(longest);
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// A container's state from an inspection.
pub(super) fn state_of(state: &Value) -> ContainerState {
    ContainerState {
        running: state["Running"] == true,
        paused: state["Paused"] == true,
        oom_killed: state["OOMKilled"].as_bool().unwrap_or(false),
        exit_code: state["ExitCode"].as_i64().unwrap_or(0),
        error: text(&state["Error"]),
    }
}

/// A container from a list or an inspection.
pub(super) fn listed(id: &Value, name: &Value, labels: &Value) -> ListedContainer {
    let labels = labels.as_object().into_iter().flatten();
    ListedContainer {
        id: text(id),
        name: text(name).trim_start_matches('/').to_owned(),
        labels: labels
            .map(|(key, value)| (key.clone(), text(value)))
            .collect(),
    }
}
