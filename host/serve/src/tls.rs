//! TLS of a server, with a file of certificates and a file with their key.

use std::path::Path;
use std::sync::Arc;

use mswea_files as regular_file;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

/// An acceptor with the certificates and the key of these files.
///
/// # Errors
/// A message if a file can't be read, lacks the certificates or the key, or the two do not belong
/// together.
pub(super) fn acceptor(certificates: &Path, key: &Path) -> Result<TlsAcceptor, String> {
    let read = |path: &Path| {
        regular_file::read(path, regular_file::SETTINGS)
            .map_err(|error| format!("`{}`: {error}", path.display()))
    };
    let shown = certificates.display();
    let chain = CertificateDer::pem_slice_iter(&read(certificates)?)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| format!("`{shown}` is no file of certificates (PEM): {error}"))?;
    if chain.is_empty() {
        return Err(format!("`{shown}` has no certificate (PEM)"));
    }
    let private = PrivateKeyDer::from_pem_slice(&read(key)?)
        .map_err(|error| format!("`{}` has no private key (PEM): {error}", key.display()))?;
    // Not installed for the whole process, because an embedding program may use another provider.
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(|error| format!("`{shown}` and `{}`: {error}", key.display()))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
