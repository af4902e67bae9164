//! Credentials for registries, from where `docker login` leaves them.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::regular_file;

/// What there is for one registry.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Credentials {
    None,
    /// As the daemon wants them in `X-Registry-Auth`.
    Header(String),
    /// A helper program has them, which the command line client knows how to ask.
    Helper,
}

/// The folder of docker's client configuration.
pub(super) fn config_folder() -> Option<PathBuf> {
    match std::env::var_os("DOCKER_CONFIG").filter(|folder| !folder.is_empty()) {
        Some(folder) => Some(PathBuf::from(folder)),
        None => Some(PathBuf::from(std::env::var_os("HOME")?).join(".docker")),
    }
}

/// Docker's client configuration; null if there is none.
pub(super) fn config() -> Value {
    config_folder()
        .and_then(|folder| {
            regular_file::read(&folder.join("config.json"), regular_file::SETTINGS).ok()
        })
        .and_then(|text| serde_json::from_slice(&text).ok())
        .unwrap_or_default()
}

/// The credentials that `config` has for the registry of `image`.
pub(super) fn credentials(config: &Value, image: &str) -> Credentials {
    let registry = registry_of(image);
    let is_ours = |key: &str| {
        let host = key.split_once("://").map_or(key, |(_, host)| host);
        host.split('/').next() == Some(registry) || (registry == HUB && key == HUB_KEY)
    };
    let of = |table: &str| {
        let entries = config[table].as_object();
        entries.and_then(|entries| entries.iter().find(|(key, _)| is_ours(key)))
    };
    if of("credHelpers").is_some_and(|(_, helper)| helper.as_str() != Some("")) {
        return Credentials::Helper;
    }
    // With a store, `auths` says only that there is an entry in it.
    let stored = config["credsStore"]
        .as_str()
        .is_some_and(|store| !store.is_empty());
    let Some((key, entry)) = of("auths") else {
        return if stored {
            Credentials::Helper
        } else {
            Credentials::None
        };
    };
    let text = |name: &str| entry[name].as_str().filter(|value| !value.is_empty());
    let header = if let Some(token) = text("identitytoken") {
        json!({"identitytoken": token, "serveraddress": key})
    } else if let Some((user, password)) = text("auth").and_then(decode_pair) {
        json!({"username": user, "password": password, "serveraddress": key})
    } else if let (Some(user), Some(password)) = (text("username"), text("password")) {
        json!({"username": user, "password": password, "serveraddress": key})
    } else if stored {
        return Credentials::Helper;
    } else {
        return Credentials::None;
    };
    Credentials::Header(base64(header.to_string().as_bytes()))
}

const HUB: &str = "docker.io";
const HUB_KEY: &str = "https://index.docker.io/v1/";

/// The registry that an image's name begins with; Docker's own if with none.
fn registry_of(image: &str) -> &str {
    match image.split_once('/') {
        Some((first, _)) if first.contains(['.', ':']) || first == "localhost" => match first {
            "index.docker.io" => HUB,
            first => first,
        },
        _ => HUB,
    }
}

fn decode_pair(encoded: &str) -> Option<(String, String)> {
    let text = String::from_utf8(unbase64(encoded)?).ok()?;
    let (user, password) = text.trim_end_matches('\0').split_once(':')?;
    Some((user.to_owned(), password.to_owned()))
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Base64 in its form for URLs, padded.
fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let mut three = [0; 3];
        three[..chunk.len()].copy_from_slice(chunk);
        let [a, b, c] = three.map(u32::from);
        let number = a << 16 | b << 8 | c;
        for place in 0..4 {
            let digit = DIGITS[(number >> (18 - 6 * place) & 63) as usize];
            text.push(if place <= chunk.len() {
                digit.into()
            } else {
                '='
            });
        }
    }
    text
}

/// Reads base64 in either form.
fn unbase64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let (mut number, mut bits) = (0_u32, 0);
    for byte in text.trim().trim_end_matches('=').bytes() {
        let byte = match byte {
            b'+' => b'-',
            b'/' => b'_',
            byte => byte,
        };
        let digit = DIGITS.iter().position(|digit| *digit == byte)?;
        number = number << 6 | digit as u32;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push((number >> bits) as u8);
            number &= (1 << bits) - 1;
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_both_ways() {
        for (text, wanted) in [
            ("", ""),
            ("a", "YQ=="),
            ("ab", "YWI="),
            ("abc", "YWJj"),
            ("user:pa~ß?", "dXNlcjpwYX7Dnz8="),
        ] {
            assert_eq!(base64(text.as_bytes()), wanted);
            assert_eq!(unbase64(wanted).unwrap(), text.as_bytes());
        }
        assert_eq!(base64(&[0xfb, 0xff]), "-_8=");
        assert_eq!(unbase64("+/8="), Some(vec![0xfb, 0xff]));
        assert_eq!(unbase64("a b"), None);
    }

    #[test]
    fn the_registry_decides_which_credentials_are_sent() {
        let config = json!({
            "auths": {
                "https://index.docker.io/v1/": {"auth": "aHViOmE6Yg=="},
                "localhost:5000": {"auth": "bWU6cHc="},
                "https://ghcr.io": {"identitytoken": "t"},
                "plain.example": {"username": "u", "password": "p"},
                "empty.example": {},
            },
            "credHelpers": {"gcr.io": "gcloud"},
        });
        let header = |fields: Value| Credentials::Header(base64(fields.to_string().as_bytes()));
        let hub = json!({"username": "hub", "password": "a:b", "serveraddress": HUB_KEY});
        let vectors = [
            ("debian", header(hub.clone())),
            ("user/image:1", header(hub.clone())),
            ("docker.io/library/debian", header(hub)),
            (
                "localhost:5000/x",
                header(
                    json!({"username": "me", "password": "pw", "serveraddress": "localhost:5000"}),
                ),
            ),
            ("localhost:5001/x", Credentials::None),
            (
                "ghcr.io/a/b",
                header(json!({"identitytoken": "t", "serveraddress": "https://ghcr.io"})),
            ),
            (
                "plain.example/a",
                header(json!({"username": "u", "password": "p", "serveraddress": "plain.example"})),
            ),
            ("empty.example/a", Credentials::None),
            ("gcr.io/a", Credentials::Helper),
            ("quay.io/a", Credentials::None),
        ];
        for (image, wanted) in vectors {
            assert_eq!(credentials(&config, image), wanted, "{image}");
        }
        let stored = json!({"auths": {"ghcr.io": {}}, "credsStore": "secretservice"});
        assert_eq!(credentials(&stored, "ghcr.io/x"), Credentials::Helper);
        assert_eq!(credentials(&stored, "quay.io/x"), Credentials::Helper);
        assert_eq!(credentials(&Value::Null, "x"), Credentials::None);
    }
}
