//! How servers prove who they are.
//!
//! Loading and parsing the system's certificates takes milliseconds, so it happens on the first
//! `https:` request and not before: a run against a local server never pays for it.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};

use super::Environment;

/// A configuration that trusts the system's roots, or those that `SSL_CERT_FILE` and
/// `SSL_CERT_DIR` name, or Mozilla's where there are none at all (a bare container).
///
/// # Errors
/// A message when the variables name nothing usable.
pub(super) fn trusting_roots(environment: &Environment) -> Result<ClientConfig, String> {
    config(roots(environment)?)
}

/// A configuration that trusts nobody, for a client that speaks plain http only.
pub(super) fn trusting_nobody() -> Result<ClientConfig, String> {
    config(RootCertStore::empty())
}

fn config(roots: RootCertStore) -> Result<ClientConfig, String> {
    // The provider is named here, not installed process-wide: an embedding program may have
    // its own.
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS can't be set up: {error}"))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

fn roots(environment: &Environment) -> Result<RootCertStore, String> {
    let get = |name| {
        environment(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let (file, dir) = (get("SSL_CERT_FILE"), get("SSL_CERT_DIR"));
    let named = file.is_some() || dir.is_some();
    let mut store = RootCertStore::empty();
    let mut errors = Vec::new();
    if named {
        let dirs = dir.iter().flat_map(std::env::split_paths).map(Some);
        // One call for the file, one for each folder.
        let folders: Vec<_> = dirs.collect();
        let sources = file
            .iter()
            .map(|file| (Some(file.as_path()), None))
            .chain(folders.iter().map(|folder| (None, folder.as_deref())));
        for (file, folder) in sources {
            let found = rustls_native_certs::load_certs_from_paths(file, folder);
            store.add_parsable_certificates(found.certs);
            errors.extend(found.errors);
        }
    } else {
        let found = rustls_native_certs::load_native_certs();
        store.add_parsable_certificates(found.certs);
        errors.extend(found.errors);
    }
    for error in &errors {
        tracing::debug!(%error, "a root certificate could not be read");
    }
    if !store.is_empty() {
        return Ok(store);
    }
    if named {
        // Falling back to other roots would trust servers that the user did not mean to trust.
        let reason = errors
            .first()
            .map_or_else(String::new, |error| format!(" ({error})"));
        return Err(format!(
            "`SSL_CERT_FILE` and `SSL_CERT_DIR` name no usable certificate{reason}: let them \
             point to PEM certificates, or unset them to use the system's"
        ));
    }
    tracing::debug!("the system has no root certificates; using the built-in ones");
    store.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    Ok(store)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_certificates_are_used_alone() {
        let environment = |file: &str, dir: &str| -> Environment {
            let (file, dir) = (file.to_owned(), dir.to_owned());
            Arc::new(move |name| match name {
                "SSL_CERT_FILE" => Some(file.clone()),
                "SSL_CERT_DIR" => Some(dir.clone()),
                _ => None,
            })
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.pem");
        std::fs::write(&path, include_str!("tests/ca.pem")).unwrap();
        let (path, dir) = (path.to_str().unwrap(), folder.path().to_str().unwrap());
        for (file, dir, expected) in [
            (path, "", Some(1)),
            ("", dir, Some(1)),
            ("", &format!("/nonexistent:{dir}"), Some(1)),
            ("/nonexistent", "", None),
        ] {
            let count = roots(&environment(file, dir)).map(|store| store.len());
            match expected {
                Some(expected) => assert_eq!(count, Ok(expected), "{file} {dir}"),
                None => assert!(count.unwrap_err().contains("SSL_CERT_FILE")),
            }
        }
        // whatever this machine has, some roots are found
        assert!(!roots(&environment("", "")).unwrap().is_empty());
    }
}
