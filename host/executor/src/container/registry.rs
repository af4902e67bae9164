//! Credentials for registries, as `docker login` stores them.

use std::path::PathBuf;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::general_purpose::URL_SAFE;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::{Value, json};

use mswea_files as regular_file;

/// The credentials for one registry.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Credentials {
    None,
    /// In the form that the daemon expects in `X-Registry-Auth`.
    Header(String),
    /// A helper program has them, and only the command line client can call it.
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
    // With a store, `auths` only states that the store has an entry.
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
    Credentials::Header(URL_SAFE.encode(header.to_string()))
}

const HUB: &str = "docker.io";
const HUB_KEY: &str = "https://index.docker.io/v1/";

/// The registry that an image's name begins with; Docker's own if the name has none.
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
    let text = String::from_utf8(decode(encoded)?).ok()?;
    let (user, password) = text.trim_end_matches('\0').split_once(':')?;
    Some((user.to_owned(), password.to_owned()))
}

/// Base64 of the URL-safe alphabet, with or without padding; [`decode`] translates the other
/// alphabet. Docker's client and other tools write the file in different forms.
const EITHER: GeneralPurpose = GeneralPurpose::new(
    &alphabet::URL_SAFE,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

fn decode(text: &str) -> Option<Vec<u8>> {
    let text = text.trim().replace('+', "-").replace('/', "_");
    EITHER.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_read_in_either_alphabet_and_with_any_padding() {
        for (encoded, expected) in [
            ("", Some(&b""[..])),
            ("YQ==", Some(b"a")),
            ("YQ", Some(b"a")),
            (" YWJj\n", Some(b"abc")),
            ("-_8=", Some(&[0xfb, 0xff])),
            ("+/8=", Some(&[0xfb, 0xff])),
            ("a b", None),
        ] {
            assert_eq!(decode(encoded).as_deref(), expected, "{encoded}");
        }
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
        let header = |fields: Value| Credentials::Header(URL_SAFE.encode(fields.to_string()));
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
