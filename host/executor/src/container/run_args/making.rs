//! The container that is built while the arguments of `docker run` are read.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::values::{
    self, bytes, decimal, device, gpus, mount, number, port, read_env_file, ulimit, volume,
};
use super::{Lookup, PullPolicy, Translated, Wrong, pull_policy};
use crate::container::engine::ContainerSpec;

/// Arguments with a text as value, and their key in the host's half of the body.
const TEXTS: &[(&str, &str)] = &[
    ("cgroup-parent", "CgroupParent"),
    ("cgroupns", "CgroupnsMode"),
    ("cpuset-cpus", "CpusetCpus"),
    ("cpuset-mems", "CpusetMems"),
    ("ipc", "IpcMode"),
    ("pid", "PidMode"),
    ("runtime", "Runtime"),
    ("userns", "UsernsMode"),
    ("uts", "UTSMode"),
];

/// Arguments that may be repeated.
const LISTS: &[(&str, &str)] = &[
    ("cap-add", "CapAdd"),
    ("cap-drop", "CapDrop"),
    ("dns", "Dns"),
    ("dns-option", "DnsOptions"),
    ("dns-search", "DnsSearch"),
    ("group-add", "GroupAdd"),
    ("volumes-from", "VolumesFrom"),
];

/// Arguments with a whole number as value.
const NUMBERS: &[(&str, &str)] = &[
    ("cpu-period", "CpuPeriod"),
    ("cpu-quota", "CpuQuota"),
    ("cpu-shares", "CpuShares"),
    ("memory-swappiness", "MemorySwappiness"),
    ("oom-score-adj", "OomScoreAdj"),
    ("pids-limit", "PidsLimit"),
];

/// Arguments with a size as value.
const SIZES: &[(&str, &str)] = &[
    ("memory", "Memory"),
    ("memory-reservation", "MemoryReservation"),
    ("memory-swap", "MemorySwap"),
    ("shm-size", "ShmSize"),
];

/// All other arguments with a value.
const SPECIAL: &[&str] = &[
    "add-host",
    "cpus",
    "device",
    "domainname",
    "entrypoint",
    "env",
    "env-file",
    "gpus",
    "hostname",
    "label",
    "log-driver",
    "log-opt",
    "mount",
    "name",
    "net",
    "network",
    "platform",
    "publish",
    "pull",
    "restart",
    "security-opt",
    "stop-signal",
    "stop-timeout",
    "sysctl",
    "tmpfs",
    "ulimit",
    "user",
    "volume",
    "workdir",
];

fn place(table: &[(&'static str, &'static str)], name: &str) -> Option<&'static str> {
    let found = table.iter().find(|(known, _)| *known == name);
    found.map(|(_, place)| *place)
}

/// The container that is built while its arguments are read.
pub(super) struct Making {
    name: String,
    platform: Option<String>,
    pull: PullPolicy,
    /// The part of the body about the container itself, and the one about the host's side.
    own: Map<String, Value>,
    host: Map<String, Value>,
    /// Variables from files. Those on the command line take precedence, in any order.
    env_of_files: Vec<String>,
    env: Vec<String>,
}

impl Making {
    pub(super) fn new(spec: &ContainerSpec) -> Self {
        let own = json!({
            "Image": spec.image,
            "Cmd": spec.command,
            "WorkingDir": spec.cwd,
            "Labels": spec.labels,
        });
        let Value::Object(own) = own else {
            unreachable!("invariant: it was written as an object")
        };
        Self {
            name: spec.name.clone(),
            platform: spec.platform.clone(),
            pull: PullPolicy::Missing,
            own,
            host: Map::new(),
            env_of_files: Vec::new(),
            env: Vec::new(),
        }
    }

    /// Whether an argument with a value is supported.
    pub(super) fn knows(&self, name: &str) -> bool {
        [TEXTS, LISTS, NUMBERS, SIZES]
            .iter()
            .any(|table| place(table, name).is_some())
            || SPECIAL.contains(&name)
    }

    pub(super) fn switch(&mut self, name: &str, on: bool) -> Result<(), Wrong> {
        let place = match name {
            // The container always runs in the background.
            "detach" | "quiet" | "sig-proxy" => return Ok(()),
            "interactive" => {
                self.own.insert("OpenStdin".to_owned(), on.into());
                return Ok(());
            }
            "tty" => {
                self.own.insert("Tty".to_owned(), on.into());
                return Ok(());
            }
            "no-healthcheck" => {
                if on {
                    let none = json!({"Test": ["NONE"]});
                    self.own.insert("Healthcheck".to_owned(), none);
                }
                return Ok(());
            }
            "init" => "Init",
            "oom-kill-disable" => "OomKillDisable",
            "privileged" => "Privileged",
            "publish-all" => "PublishAllPorts",
            "read-only" => "ReadonlyRootfs",
            "rm" => "AutoRemove",
            _ => return Err(Wrong::Unknown),
        };
        self.host.insert(place.to_owned(), on.into());
        Ok(())
    }

    pub(super) fn apply(
        &mut self,
        name: &str,
        value: &str,
        variable: Lookup<'_>,
    ) -> Result<(), Wrong> {
        if let Some(place) = place(TEXTS, name) {
            self.host.insert(place.to_owned(), value.into());
            return Ok(());
        }
        if let Some(place) = place(LISTS, name) {
            push(&mut self.host, place, value.into());
            return Ok(());
        }
        if let Some(place) = place(NUMBERS, name) {
            self.host.insert(place.to_owned(), number(value)?.into());
            return Ok(());
        }
        if let Some(place) = place(SIZES, name) {
            let size = match value {
                "-1" if name == "memory-swap" => -1,
                value => bytes(value)?,
            };
            self.host.insert(place.to_owned(), size.into());
            return Ok(());
        }
        match name {
            "env" => self.env.extend(values::env(value, variable)),
            "env-file" => self
                .env_of_files
                .extend(read_env_file(Path::new(value), variable)?),
            "label" => {
                let (key, value) = value.split_once('=').unwrap_or((value, ""));
                entry(&mut self.own, "Labels", key, value.into());
            }
            "name" => self.name = value.to_owned(),
            "platform" => self.platform = Some(value.to_owned()),
            "pull" => self.pull = pull_policy(value).ok_or(Wrong::Unknown)?,
            "workdir" => self.text("WorkingDir", value),
            "user" => self.text("User", value),
            "hostname" => self.text("Hostname", value),
            "domainname" => self.text("Domainname", value),
            "stop-signal" => self.text("StopSignal", value),
            "stop-timeout" => {
                self.own
                    .insert("StopTimeout".to_owned(), number(value)?.into());
            }
            "entrypoint" => {
                self.own.insert("Entrypoint".to_owned(), json!([value]));
            }
            "network" | "net" => {
                // More than one network, or one with options.
                if value.contains('=') || self.host.contains_key("NetworkMode") {
                    return Err(Wrong::Unknown);
                }
                self.host.insert("NetworkMode".to_owned(), value.into());
            }
            "cpus" => {
                let cpus = decimal(value)?;
                let nanos = (cpus * 1e9).round() as i64;
                self.host.insert("NanoCpus".to_owned(), nanos.into());
            }
            "volume" => match volume(value)? {
                values::Volume::Bind(bind) => push(&mut self.host, "Binds", bind.into()),
                values::Volume::Anonymous(at) => entry(&mut self.own, "Volumes", &at, json!({})),
            },
            "mount" => push(&mut self.host, "Mounts", mount(value)?),
            "tmpfs" => {
                let (at, options) = value.split_once(':').unwrap_or((value, ""));
                entry(&mut self.host, "Tmpfs", at, options.into());
            }
            "add-host" => {
                let pair = match value.split_once('=') {
                    Some((host, address)) => format!("{host}:{address}"),
                    None => value.to_owned(),
                };
                push(&mut self.host, "ExtraHosts", pair.into());
            }
            "device" => push(&mut self.host, "Devices", device(value)?),
            "gpus" => push(&mut self.host, "DeviceRequests", gpus(value)?),
            "ulimit" => push(&mut self.host, "Ulimits", ulimit(value)?),
            "sysctl" => {
                let (key, value) = value.split_once('=').unwrap_or((value, ""));
                entry(&mut self.host, "Sysctls", key, value.into());
            }
            "security-opt" => match value.split_once(['=', ':']) {
                // Only the client reads that file.
                Some(("seccomp", file)) if file != "unconfined" && file != "builtin" => {
                    return Err(Wrong::Unknown);
                }
                Some(("systempaths", "unconfined")) => {
                    self.host.insert("MaskedPaths".to_owned(), json!([]));
                    self.host.insert("ReadonlyPaths".to_owned(), json!([]));
                }
                _ => push(&mut self.host, "SecurityOpt", value.into()),
            },
            "publish" => {
                let (inside, outside) = port(value)?;
                entry(&mut self.own, "ExposedPorts", &inside, json!({}));
                let bindings = self.host.entry("PortBindings").or_insert_with(|| json!({}));
                match &mut bindings[&inside] {
                    Value::Array(others) => others.push(outside),
                    none => *none = json!([outside]),
                }
            }
            "restart" => {
                let (policy, count) = value.split_once(':').unwrap_or((value, "0"));
                let count = number(count)?;
                let policy = json!({"Name": policy, "MaximumRetryCount": count});
                self.host.insert("RestartPolicy".to_owned(), policy);
            }
            "log-driver" => entry(&mut self.host, "LogConfig", "Type", value.into()),
            "log-opt" => {
                let (key, value) = value.split_once('=').unwrap_or((value, ""));
                let log = self.host.entry("LogConfig").or_insert_with(|| json!({}));
                log["Config"][key] = value.into();
            }
            _ => return Err(Wrong::Unknown),
        }
        Ok(())
    }

    fn text(&mut self, place: &str, value: &str) {
        self.own.insert(place.to_owned(), value.into());
    }

    pub(super) fn finish(mut self) -> Translated {
        let env: Vec<String> = self.env_of_files.into_iter().chain(self.env).collect();
        if !env.is_empty() {
            self.own.insert("Env".to_owned(), env.into());
        }
        self.own.insert("HostConfig".to_owned(), self.host.into());
        Translated {
            name: self.name,
            platform: self.platform,
            pull: self.pull,
            body: self.own.into(),
        }
    }
}

fn push(map: &mut Map<String, Value>, place: &str, value: Value) {
    match map.entry(place).or_insert_with(|| json!([])) {
        Value::Array(values) => values.push(value),
        other => *other = json!([value]),
    }
}

fn entry(map: &mut Map<String, Value>, place: &str, key: &str, value: Value) {
    map.entry(place).or_insert_with(|| json!({}))[key] = value;
}
