//! The values of arguments of `docker run` that have a syntax of their own.

use std::path::Path;

use serde_json::{Value, json};

use super::{Lookup, Wrong};
use mswea_files as regular_file;

fn wrong<T>(why: impl Into<String>) -> Result<T, Wrong> {
    Err(Wrong::Value(why.into()))
}

pub(super) fn boolean(value: &str) -> Result<bool, Wrong> {
    match value {
        "true" | "1" | "t" | "T" | "TRUE" | "True" => Ok(true),
        "false" | "0" | "f" | "F" | "FALSE" | "False" => Ok(false),
        _ => wrong("it is `true` or `false`"),
    }
}

pub(super) fn number(value: &str) -> Result<i64, Wrong> {
    value.parse().or_else(|_| wrong("it is not a whole number"))
}

pub(super) fn decimal(value: &str) -> Result<f64, Wrong> {
    let number: Option<f64> = value.parse().ok();
    match number.filter(|number| number.is_finite() && *number >= 0.0) {
        Some(number) => Ok(number),
        None => wrong("it is not a number, such as `1.5`"),
    }
}

/// `512m`, `1.5 GiB`: always in steps of 1024.
pub(super) fn bytes(value: &str) -> Result<i64, Wrong> {
    let value = value.trim();
    let digits = value
        .find(|char: char| !char.is_ascii_digit() && char != '.')
        .unwrap_or(value.len());
    let (number, unit) = value.split_at(digits);
    let unit = unit.trim().to_ascii_lowercase();
    let power = match unit.trim_end_matches('b').trim_end_matches('i') {
        "" if unit != "i" && unit != "ib" => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        "p" => 5,
        _ => return wrong("it is not a size, such as `512m` or `2g`"),
    };
    match decimal(number) {
        Ok(number) => Ok((number * 1024_f64.powi(power)) as i64),
        Err(_) => wrong("it is not a size, such as `512m` or `2g`"),
    }
}

/// `NAME=VALUE`, or the name of a variable of the host, which is left out if it is not set.
pub(super) fn env(value: &str, variable: Lookup<'_>) -> Option<String> {
    if value.contains('=') {
        return Some(value.to_owned());
    }
    variable(value).map(|found| format!("{value}={found}"))
}

pub(super) fn read_env_file(path: &Path, variable: Lookup<'_>) -> Result<Vec<String>, Wrong> {
    let text = match regular_file::read_text(path, regular_file::SETTINGS) {
        Ok(text) => text,
        Err(error) => return wrong(format!("`{}` can't be read: {error}", path.display())),
    };
    let lines = text.trim_start_matches('\u{feff}').lines();
    Ok(lines
        .map(str::trim_start)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .filter_map(|line| env(line, variable))
        .collect())
}

/// The meaning of `-v`.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Volume {
    /// A folder of the host or a named volume, as `FROM:TO[:OPTIONS]`.
    Bind(String),
    Anonymous(String),
}

pub(super) fn volume(value: &str) -> Result<Volume, Wrong> {
    let Some((from, to)) = value.split_once(':') else {
        return Ok(Volume::Anonymous(value.to_owned()));
    };
    if from.is_empty() || to.is_empty() {
        return wrong("a volume is written `FROM:TO`, with `:ro` after it for reading only");
    }
    // The daemon does not know this process's working directory.
    if from == "." || from == ".." || from.starts_with("./") || from.starts_with("../") {
        return match std::path::absolute(from) {
            Ok(path) => Ok(Volume::Bind(format!("{}:{to}", plain(&path).display()))),
            Err(error) => wrong(format!("`{from}`: {error}")),
        };
    }
    Ok(Volume::Bind(value.to_owned()))
}

/// A path without `..`.
fn plain(path: &Path) -> std::path::PathBuf {
    let mut plain = std::path::PathBuf::new();
    for component in path.components() {
        match component {
            std::path::Component::ParentDir => {
                plain.pop();
            }
            other => plain.push(other),
        }
    }
    plain
}

/// `type=bind,source=/a,target=/b,readonly`.
pub(super) fn mount(value: &str) -> Result<Value, Wrong> {
    let mut mount = json!({"Type": "volume"});
    for field in value.split(',') {
        let (key, value) = field.split_once('=').unwrap_or((field, "true"));
        match key {
            "type" => mount["Type"] = value.into(),
            "source" | "src" => mount["Source"] = value.into(),
            "target" | "dst" | "destination" => mount["Target"] = value.into(),
            "readonly" | "ro" => mount["ReadOnly"] = boolean(value)?.into(),
            "consistency" => mount["Consistency"] = value.into(),
            "bind-propagation" => mount["BindOptions"]["Propagation"] = value.into(),
            "volume-nocopy" => mount["VolumeOptions"]["NoCopy"] = boolean(value)?.into(),
            "tmpfs-size" => mount["TmpfsOptions"]["SizeBytes"] = bytes(value)?.into(),
            "tmpfs-mode" => {
                let mode = i64::from_str_radix(value, 8);
                let mode = mode.or_else(|_| wrong("`tmpfs-mode` is a number like `1777`"))?;
                mount["TmpfsOptions"]["Mode"] = mode.into();
            }
            _ => return Err(Wrong::Unknown),
        }
    }
    if mount["Target"].is_null() {
        return wrong("a mount needs a `target`");
    }
    if mount["Type"] == "bind"
        && let Some(from) = mount["Source"].as_str()
        && from.starts_with('.')
    {
        let path =
            std::path::absolute(from).or_else(|error| wrong(format!("`{from}`: {error}")))?;
        mount["Source"] = plain(&path).to_string_lossy().into_owned().into();
    }
    Ok(mount)
}

/// `/dev/a[:/dev/b[:rwm]]`.
pub(super) fn device(value: &str) -> Result<Value, Wrong> {
    if !value.starts_with('/') {
        return Err(Wrong::Unknown);
    }
    let parts: Vec<&str> = value.split(':').collect();
    let is_mode = |text: &str| !text.is_empty() && text.chars().all(|char| "rwm".contains(char));
    let (inside, mode) = match parts.as_slice() {
        [from] => (*from, "rwm"),
        [from, mode] if is_mode(mode) => (*from, *mode),
        [_, to] => (*to, "rwm"),
        [_, to, mode] if is_mode(mode) => (*to, *mode),
        _ => return wrong("a device is written `/dev/a[:/dev/b[:rwm]]`"),
    };
    Ok(json!({
        "PathOnHost": parts[0],
        "PathInContainer": inside,
        "CgroupPermissions": mode,
    }))
}

/// `all`, a number, or `device=0,1`.
pub(super) fn gpus(value: &str) -> Result<Value, Wrong> {
    let capabilities = json!([["gpu"]]);
    let value = value.trim_matches('"');
    if value == "all" {
        return Ok(json!({"Count": -1, "Capabilities": capabilities}));
    }
    if let Ok(count) = value.parse::<u32>() {
        return Ok(json!({"Count": count, "Capabilities": capabilities}));
    }
    match value.strip_prefix("device=") {
        Some(ids) if !ids.contains('=') => {
            let ids: Vec<&str> = ids.split(',').collect();
            Ok(json!({"DeviceIDs": ids, "Capabilities": capabilities}))
        }
        _ => Err(Wrong::Unknown),
    }
}

/// `nofile=1024[:2048]`.
pub(super) fn ulimit(value: &str) -> Result<Value, Wrong> {
    let Some((name, limits)) = value.split_once('=') else {
        return wrong("a limit is written `NAME=SOFT[:HARD]`");
    };
    let (soft, hard) = limits.split_once(':').unwrap_or((limits, limits));
    let limit = |text: &str| match text {
        "unlimited" => Ok(-1),
        text => number(text),
    };
    Ok(json!({"Name": name, "Soft": limit(soft)?, "Hard": limit(hard)?}))
}

/// `[[IP:]OUTSIDE:]INSIDE[/tcp]`: the inside with its protocol, and the binding.
pub(super) fn port(value: &str) -> Result<(String, Value), Wrong> {
    let (ports, protocol) = value.split_once('/').unwrap_or((value, "tcp"));
    // Ranges, and addresses of IPv6.
    if ports.contains(['-', '[']) {
        return Err(Wrong::Unknown);
    }
    let parts: Vec<&str> = ports.split(':').collect();
    let (ip, outside, inside) = match parts.as_slice() {
        [inside] => ("", "", *inside),
        [outside, inside] => ("", *outside, *inside),
        [ip, outside, inside] => (*ip, *outside, *inside),
        _ => return Err(Wrong::Unknown),
    };
    let is_port = |text: &str| text.parse::<u16>().is_ok();
    if !is_port(inside) || !(outside.is_empty() || is_port(outside)) {
        return wrong("a port is written `[[IP:]OUTSIDE:]INSIDE`");
    }
    let binding = json!({"HostIp": ip, "HostPort": outside});
    Ok((format!("{inside}/{protocol}"), binding))
}
