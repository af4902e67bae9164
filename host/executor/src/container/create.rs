//! The request by which a daemon creates a container, made from keys of the config.

use serde_json::{Value, json};

use super::engine::{ContainerSpec, EngineError, EngineErrorKind, TypedArg};

/// The body of the request. It does not contain `run_args`, except for `--rm`.
///
/// # Errors
/// [`EngineError`] if the value of a key is not usable.
pub(super) fn body(spec: &ContainerSpec) -> Result<Value, EngineError> {
    let mut body = json!({
        "Image": spec.image,
        "Cmd": spec.command,
        "WorkingDir": spec.cwd,
        "Labels": spec.labels,
    });
    let mut host = json!({"AutoRemove": !spec.run_args.is_empty()});
    let mut binds = Vec::new();
    for TypedArg { key, arg, value } in &spec.typed {
        let usable = |number: Option<i64>, form: &str| {
            number.ok_or_else(|| EngineError {
                kind: EngineErrorKind::Other,
                message: format!("`{key}` is not usable: `{value}` is not {form}"),
            })
        };
        match *arg {
            "user" => body["User"] = value.as_str().into(),
            "network" => host["NetworkMode"] = value.as_str().into(),
            "memory" => {
                host["Memory"] = usable(bytes(value), "a size, such as `512m` or `2g`")?.into();
            }
            "cpus" => {
                let nanos = decimal(value).map(|cpus| (cpus * 1e9).round() as i64);
                host["NanoCpus"] = usable(nanos, "a number, such as `1.5`")?.into();
            }
            _ => binds.push(value.as_str()),
        }
    }
    host["Binds"] = binds.into();
    body["HostConfig"] = host;
    Ok(body)
}

fn decimal(text: &str) -> Option<f64> {
    let number: f64 = text.parse().ok()?;
    (number.is_finite() && number >= 0.0).then_some(number)
}

/// `512m`, `1.5 GiB`: always in steps of 1024.
fn bytes(text: &str) -> Option<i64> {
    let text = text.trim().to_ascii_lowercase();
    let is_unit = |char: char| !char.is_ascii_digit() && char != '.';
    let (number, unit) = text.split_at(text.find(is_unit).unwrap_or(text.len()));
    let unit = unit.trim();
    let long = unit.strip_suffix("ib").filter(|rest| !rest.is_empty());
    let unit = long.or(unit.strip_suffix('b')).unwrap_or(unit);
    let power = ["", "k", "m", "g", "t", "p"]
        .iter()
        .position(|known| *known == unit)?;
    Some((decimal(number)? * 1024_f64.powi(power as i32)) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(arg: &'static str, values: &[&str]) -> ContainerSpec {
        let typed = values.iter().map(|&value| TypedArg {
            key: "environment.key",
            arg,
            value: value.to_owned(),
        });
        ContainerSpec {
            typed: typed.collect(),
            ..ContainerSpec::default()
        }
    }

    #[test]
    fn keys_are_in_the_body() {
        for (arg, values, place, wanted) in [
            ("user", &["1000:1000"][..], "/User", json!("1000:1000")),
            (
                "network",
                &["none"],
                "/HostConfig/NetworkMode",
                json!("none"),
            ),
            (
                "memory",
                &["512m"],
                "/HostConfig/Memory",
                json!(536_870_912),
            ),
            (
                "memory",
                &["1.5 GiB"],
                "/HostConfig/Memory",
                json!(1_610_612_736),
            ),
            ("memory", &["2KB"], "/HostConfig/Memory", json!(2048)),
            ("memory", &["64"], "/HostConfig/Memory", json!(64)),
            ("memory", &["64b"], "/HostConfig/Memory", json!(64)),
            (
                "cpus",
                &["1.5"],
                "/HostConfig/NanoCpus",
                json!(1_500_000_000),
            ),
            ("cpus", &[".5"], "/HostConfig/NanoCpus", json!(500_000_000)),
            (
                "volume",
                &["/a:/b", "v:/c:ro"],
                "/HostConfig/Binds",
                json!(["/a:/b", "v:/c:ro"]),
            ),
        ] {
            let body = body(&spec(arg, values)).unwrap();
            assert_eq!(body.pointer(place), Some(&wanted), "{values:?}");
            assert_eq!(body["HostConfig"]["AutoRemove"], false);
        }
        let kept = ContainerSpec {
            run_args: vec!["--rm".to_owned()],
            ..ContainerSpec::default()
        };
        assert_eq!(body(&kept).unwrap()["HostConfig"]["AutoRemove"], true);
    }

    #[test]
    fn unusable_values_are_told_with_their_key() {
        for (arg, value) in [
            ("cpus", "many"),
            ("cpus", "-1"),
            ("cpus", "inf"),
            ("memory", "much"),
            ("memory", "12x"),
            ("memory", ""),
            ("memory", "1ib"),
            ("memory", "-1"),
        ] {
            let error = body(&spec(arg, &[value])).unwrap_err().message;
            let wanted = format!("`environment.key` is not usable: `{value}` is not a ");
            assert!(error.starts_with(&wanted), "{error}");
        }
    }
}
