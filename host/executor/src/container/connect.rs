//! Chooses how an engine is reached: by its daemon's API, or by its command line client.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::api::Api;
use super::client::Client;
use super::daemon::{Address, Daemon, DaemonFault};
use super::engine::{Engine, EngineError, EngineErrorKind};
use super::errors::{self, Doing};
use super::registry;
use mswea_files as regular_file;

/// The time limit of a daemon's first answer.
const FIRST_ANSWER: Duration = Duration::from_secs(15);

/// How an engine is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// By the API if there is one, else by the command line.
    #[default]
    Auto,
    /// By the API.
    Api,
    /// By the command line.
    Cli,
}

/// Connects to the engine that `executable` names.
///
/// # Errors
/// [`EngineError`] if neither its daemon nor its client can be used.
pub(super) async fn connect(
    executable: &str,
    transport: Transport,
) -> Result<Arc<dyn Engine>, EngineError> {
    let client = Client::find(executable);
    let product = match executable {
        "docker" | "podman" => executable,
        // A wrapper may use either engine, so only the wrapper itself is used.
        _ if transport == Transport::Auto => return by_client(executable, client).await,
        other if other.contains("podman") => "podman",
        _ => "docker",
    };
    if transport == Transport::Cli {
        return by_client(executable, client).await;
    }
    let addresses = match addresses(product) {
        Ok(addresses) => addresses,
        // The configured daemon can be reached only by the client, for example by `ssh://`.
        Err(_) if transport == Transport::Auto && client.is_some() => {
            return by_client(executable, client).await;
        }
        Err(error) => return Err(error),
    };
    let failure = match by_api(product, addresses, client.clone()).await {
        Ok(engine) => return Ok(engine),
        Err(failure) => failure,
    };
    if transport == Transport::Api {
        return Err(failure);
    }
    tracing::debug!(%failure, "no API: the command line client is used");
    // Of two failures, the daemon's is more specific: a client does not work without it.
    match (by_client(executable, client.clone()).await, client) {
        (Ok(engine), _) => Ok(engine),
        (Err(_), Some(_)) if product == "docker" => Err(failure),
        (Err(error), Some(_)) => Err(error),
        (Err(_), None) => Err(EngineError {
            kind: EngineErrorKind::Unavailable,
            message: format!(
                "{}, and there is no program `{executable}` either; {}",
                failure.message.split("; ").next().unwrap_or_default(),
                how_to_install(executable)
            ),
        }),
    }
}

/// Whether the engine's daemon is on this machine, so that it sees the same folders. For a wrapper
/// this is not known.
pub(super) fn sees_this_machine(executable: &str) -> bool {
    let is_local = |address: &Address| matches!(address, Address::Unix(_));
    match executable.rsplit('/').next() {
        Some(product @ ("docker" | "podman")) => {
            addresses(product)
            .is_ok_and(|addresses| !addresses.is_empty() && addresses.iter().all(is_local))
            // Podman's client needs no daemon.
            || product == "podman" && std::env::var_os("CONTAINER_HOST").is_none()
        }
        _ => false,
    }
}

/// Whether this engine has a program or a socket here, so that it may have been used.
pub fn is_here(executable: &str) -> bool {
    let socket = |address: &Address| match address {
        Address::Unix(path) => path.exists(),
        Address::Tcp(_) => true,
    };
    Client::find(executable).is_some()
        || addresses(executable).is_ok_and(|addresses| addresses.iter().any(socket))
}

async fn by_client(
    executable: &str,
    client: Option<Client>,
) -> Result<Arc<dyn Engine>, EngineError> {
    let Some(client) = client else {
        return Err(EngineError {
            kind: EngineErrorKind::Unavailable,
            message: format!(
                "there is no program `{executable}`; {}",
                how_to_install(executable)
            ),
        });
    };
    client.describe().await?;
    Ok(Arc::new(client))
}

fn how_to_install(executable: &str) -> String {
    match executable {
        "docker" => "install Docker (`sudo apt-get install docker.io`, or see https://docs.docker.com/engine/install/), or set `environment.executable` to `podman`".to_owned(),
        "podman" => "install Podman (`sudo apt-get install podman`); its service for other programs is `podman.socket` (`systemctl --user start podman.socket`)".to_owned(),
        _ => "set `environment.executable` to `docker`, `podman`, or the path of a program that takes their arguments".to_owned(),
    }
}

async fn by_api(
    product: &str,
    addresses: Vec<Address>,
    client: Option<Client>,
) -> Result<Arc<dyn Engine>, EngineError> {
    let mut failure = None;
    for address in addresses {
        match Daemon::shared(&address, FIRST_ANSWER).await {
            Ok(daemon) => {
                let client = client.map(|client| Arc::new(client) as _);
                return Ok(Arc::new(Api::new(daemon, client)));
            }
            Err(fault) => {
                // An existing daemon that refuses this user is reported, and not a missing one.
                let is_missing = matches!(&fault, DaemonFault::Unreachable(error) if error.kind() == std::io::ErrorKind::NotFound);
                if failure.is_none() || !is_missing {
                    failure = Some(errors::fault(Doing::Asking, product, &address, fault));
                }
            }
        }
    }
    Err(failure.unwrap_or_else(|| EngineError {
        kind: EngineErrorKind::Unavailable,
        message: format!(
            "no address of a {product} daemon is known; set it with `{}`",
            errors::host_variable(product)
        ),
    }))
}

/// The possible addresses of the daemon: where the user sets it, or at the usual places.
fn addresses(product: &str) -> Result<Vec<Address>, EngineError> {
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    if product == "podman" {
        if let Some(host) = set("CONTAINER_HOST") {
            return Ok(vec![address(&host, "`CONTAINER_HOST`")?]);
        }
        let own = set("XDG_RUNTIME_DIR")
            .map(|folder| Address::Unix(PathBuf::from(folder).join("podman/podman.sock")));
        let system = Address::Unix(PathBuf::from("/run/podman/podman.sock"));
        // The containers of root are not those of other users.
        let system = rustix::process::geteuid().is_root().then_some(system);
        return Ok(own.into_iter().chain(system).collect());
    }
    // In the same order as docker's own client.
    if let Some(host) = set("DOCKER_HOST") {
        if set("DOCKER_TLS_VERIFY").is_some() && host.starts_with("tcp:") {
            return Err(not_spoken(&host, "`DOCKER_HOST` with TLS"));
        }
        return Ok(vec![address(&host, "`DOCKER_HOST`")?]);
    }
    let context = set("DOCKER_CONTEXT").or_else(|| {
        let config = registry::config();
        config["currentContext"].as_str().map(str::to_owned)
    });
    if let Some(context) = context.filter(|context| !matches!(context.as_str(), "" | "default")) {
        let origin = format!("docker's context `{context}`");
        let found = context_host(&context).ok_or_else(|| EngineError {
            kind: EngineErrorKind::Unavailable,
            message: format!(
                "{origin} can't be read; see `docker context ls`, and choose another with `docker context use` or `DOCKER_CONTEXT`"
            ),
        })?;
        return Ok(vec![address(&found, &origin)?]);
    }
    Ok(vec![Address::Unix(PathBuf::from("/var/run/docker.sock"))])
}

/// The address of the daemon in a context of docker's client.
fn context_host(name: &str) -> Option<String> {
    let digest = Sha256::digest(name.as_bytes());
    let folder: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let path = registry::config_folder()?
        .join("contexts/meta")
        .join(folder)
        .join("meta.json");
    let meta: Value =
        serde_json::from_slice(&regular_file::read(&path, regular_file::SETTINGS).ok()?).ok()?;
    let host = meta["Endpoints"]["docker"]["Host"].as_str();
    Some(host?.to_owned())
}

fn address(host: &str, origin: &str) -> Result<Address, EngineError> {
    if let Some(path) = host.strip_prefix("unix://") {
        return Ok(Address::Unix(PathBuf::from(path)));
    }
    let tcp = host
        .strip_prefix("tcp://")
        .or_else(|| host.strip_prefix("http://"));
    match tcp.map(|tcp| tcp.trim_end_matches('/')) {
        Some(tcp) if !tcp.is_empty() && !tcp.contains('/') => {
            let has_port = tcp
                .rsplit_once(':')
                .is_some_and(|(_, port)| port.parse::<u16>().is_ok());
            let port = if has_port { "" } else { ":2375" };
            Ok(Address::Tcp(format!("{tcp}{port}")))
        }
        _ => Err(not_spoken(host, origin)),
    }
}

fn not_spoken(host: &str, origin: &str) -> EngineError {
    EngineError {
        kind: EngineErrorKind::Unavailable,
        message: format!(
            "the API of the daemon at `{host}` ({origin}) can't be used: only `unix://`, and `tcp://` without TLS, are supported; leave out the choice of the API, and the command line client is used"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        let unix = |path: &str| Some(Address::Unix(PathBuf::from(path)));
        let tcp = |text: &str| Some(Address::Tcp(text.to_owned()));
        for (host, wanted) in [
            ("unix:///var/run/docker.sock", unix("/var/run/docker.sock")),
            ("tcp://1.2.3.4:2375", tcp("1.2.3.4:2375")),
            ("tcp://box", tcp("box:2375")),
            ("tcp://[::1]:99/", tcp("[::1]:99")),
            ("http://box:1", tcp("box:1")),
            ("tcp://", None),
            ("tcp://a/b", None),
            ("ssh://me@box", None),
            ("https://box", None),
            ("npipe:////./pipe/docker", None),
            ("box", None),
        ] {
            assert_eq!(address(host, "x").ok(), wanted, "{host}");
        }
    }
}
