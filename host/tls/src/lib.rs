//! How servers' certificates are verified.
//!
//! Loading the system's certificates takes milliseconds, so it happens at the first `https:`
//! request: a run with a local server never does it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};
use rustls_native_certs::CertificateResult;

/// The most bytes of a file with certificates; those of a system have less than one MiB.
const MOST_BYTES: u64 = 16 << 20;

/// Gives the value of an environment variable.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// A configuration that trusts the system's roots, or those that `SSL_CERT_FILE` and `SSL_CERT_DIR`
/// name, or Mozilla's if the system has none (a bare container). `protocols` are offered to the
/// server, the preferred one first.
///
/// # Errors
/// A message if the variables name no usable certificate.
pub fn trusting_roots(environment: Lookup<'_>, protocols: &[&str]) -> Result<ClientConfig, String> {
    let provider = provider();
    let Roots { store, named } = roots(environment)?;
    let unusable = |error| format!("the root certificates can't be used: {error}");
    let usual = WebPkiServerVerifier::builder_with_provider(store.into(), provider.clone())
        .build()
        .map_err(unusable)?;
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(no_tls)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Verifier { usual, named }))
        .with_no_client_auth();
    let names = protocols.iter().map(|name| name.as_bytes().to_vec());
    config.alpn_protocols = names.collect();
    Ok(config)
}

/// A configuration that trusts no certificate, for a client of plain http only.
///
/// # Errors
/// A message if TLS can't be set up.
pub fn trusting_nobody() -> Result<ClientConfig, String> {
    Ok(ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(no_tls)?
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth())
}

/// The provider is passed here and not installed for the process: an embedding program may use
/// another one.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn no_tls(error: Error) -> String {
    format!("TLS can't be set up: {error}")
}

/// Verifies servers as usual, and also accepts a certificate that is, byte for byte, one that the
/// user named. Tools make certificates for one machine that are their own authority (`openssl req
/// -x509`). The usual rules refuse a server with such a certificate, because an authority is no
/// server; OpenSSL, which mini-swe-agent uses, accepts it.
#[derive(Debug)]
struct Verifier {
    usual: Arc<WebPkiServerVerifier>,
    named: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self.usual.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        match verified {
            // Returned only for a certificate whose dates are valid.
            Err(Error::InvalidCertificate(CertificateError::Other(other)))
                if is_authority(&other.0) && self.named.iter().any(|known| known == end_entity) =>
            {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.usual.verify_tls12_signature(message, cert, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.usual.verify_tls13_signature(message, cert, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.usual.supported_verify_schemes()
    }
}

/// Whether a certificate was refused because it is an authority's. The cause's type belongs to a
/// crate below rustls, so it is recognised by its printed name.
fn is_authority(cause: &Arc<dyn std::error::Error + Send + Sync>) -> bool {
    format!("{cause:?}") == "CaUsedAsEndEntity"
}

/// The trusted certificates.
struct Roots {
    store: RootCertStore,
    /// The certificates that the user named, or the system's.
    named: Vec<CertificateDer<'static>>,
}

/// The certificates of the file that `SSL_CERT_FILE` names. A pipe or a device may have no end.
fn certificates_of(file: &Path) -> Result<CertificateResult, String> {
    let refused = |why: &str| {
        format!(
            "`{}`, which `SSL_CERT_FILE` or `model.model_kwargs.ssl_verify` names, {why}: write the path of a file with PEM certificates, or nothing to trust those of the system",
            file.display()
        )
    };
    match file.metadata() {
        Err(error) => return Err(refused(&format!("can't be read ({error})"))),
        Ok(meta) if !meta.is_file() => return Err(refused("is no file")),
        Ok(meta) if meta.len() > MOST_BYTES => return Err(refused("is larger than 16 MiB")),
        Ok(_) => {}
    }
    let found = rustls_native_certs::load_certs_from_paths(Some(file), None);
    match found.errors.first() {
        _ if !found.certs.is_empty() => Ok(found),
        Some(error) => Err(refused(&format!("has no usable certificate ({error})"))),
        None => Err(refused("has no usable certificate")),
    }
}

fn roots(environment: Lookup<'_>) -> Result<Roots, String> {
    let get = |name| {
        environment(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let (file, dir) = (get("SSL_CERT_FILE"), get("SSL_CERT_DIR"));
    let named = file.is_some() || dir.is_some();
    let mut certificates = Vec::new();
    let mut errors = Vec::new();
    if named {
        let dirs = dir.iter().flat_map(std::env::split_paths).map(Some);
        // One call for the file, and one for each folder.
        let folders: Vec<_> = dirs.collect();
        let sources = file
            .iter()
            .map(|file| (Some(file.as_path()), None))
            .chain(folders.iter().map(|folder| (None, folder.as_deref())));
        for (file, folder) in sources {
            let found = match file {
                Some(file) => certificates_of(file)?,
                None => rustls_native_certs::load_certs_from_paths(None, folder),
            };
            certificates.extend(found.certs);
            errors.extend(found.errors);
        }
    } else {
        let found = rustls_native_certs::load_native_certs();
        certificates.extend(found.certs);
        errors.extend(found.errors);
    }
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(certificates.iter().cloned());
    for error in &errors {
        tracing::debug!(%error, "a root certificate could not be read");
    }
    if !store.is_empty() {
        return Ok(Roots {
            store,
            named: certificates,
        });
    }
    if named {
        // Other roots in their place would trust servers that the user did not choose to trust.
        let reason = errors
            .first()
            .map_or_else(String::new, |error| format!(" ({error})"));
        return Err(format!(
            "`SSL_CERT_FILE` and `SSL_CERT_DIR` name no usable certificate{reason}: set them to paths of PEM certificates, or unset them to use the system's"
        ));
    }
    tracing::debug!("the system has no root certificates; using the built-in ones");
    store.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    Ok(Roots {
        store,
        named: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_certificates_are_used_alone() {
        let roots = |file: &str, dir: &str| {
            roots(&|name| match name {
                "SSL_CERT_FILE" => Some(file.to_owned()),
                "SSL_CERT_DIR" => Some(dir.to_owned()),
                _ => None,
            })
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.pem");
        std::fs::write(&path, include_str!("../../provider/src/tests/ca.pem")).unwrap();
        let empty = folder.path().join("empty.txt");
        std::fs::write(&empty, "no certificate").unwrap();
        let (path, dir) = (path.to_str().unwrap(), folder.path().to_str().unwrap());
        for (file, dir, expected) in [
            (path, "", Some(1)),
            ("", dir, Some(1)),
            ("", &format!("/nonexistent:{dir}"), Some(1)),
            ("/nonexistent", "", None),
            ("/nonexistent", dir, None),
            (empty.to_str().unwrap(), dir, None),
            (dir, dir, None),
            ("/dev/zero", "", None),
        ] {
            let count = roots(file, dir).map(|roots| roots.store.len());
            match expected {
                Some(expected) => assert_eq!(count, Ok(expected), "{file} {dir}"),
                None => assert!(count.unwrap_err().contains("SSL_CERT_FILE")),
            }
        }
        // every machine has some roots
        assert!(!roots("", "").unwrap().store.is_empty());
    }
}
