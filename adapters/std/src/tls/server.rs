//! Certificate and key of a server.

use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use std::io;
use std::path::Path;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection};

use super::{ALPN_PROTOCOL, invalid_input};

/// Certificate chain and key of a server.
///
/// Clones share the chain, the key, and the cache of resumable TLS sessions (at most 256 sessions).
///
/// ```no_run
/// let tls = mcp_std::tls::ServerTls::from_files("chain.pem", "key.pem")?;
/// # std::io::Result::Ok(())
/// ```
#[derive(Clone)]
pub struct ServerTls(Arc<ServerConfig>);

impl ServerTls {
    /// Creates the configuration from a certificate chain, the server's own first, and its key, both in PEM.
    ///
    /// The key is unencrypted PKCS #8, PKCS #1 or SEC 1.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if a part is missing or unusable, or if the key does not belong to the certificate.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> io::Result<Self> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain).collect();
        let chain = chain
            .map_err(|reason| invalid_input(format!("cannot use the server's certificate: {reason}")))?;
        if chain.is_empty() {
            return Err(invalid_input("no PEM certificate found for the server"));
        }
        // The reason is omitted, as it could contain a part of the key.
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|_| invalid_input("no unencrypted PEM private key found for the server"))?;
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().map_err(io::Error::other)?;
        let config = builder.with_no_client_auth().with_single_cert(chain, key);
        let config = config.map_err(|reason| {
            invalid_input(format!("cannot use the server's certificate and key: {reason}"))
        })?;
        Ok(Arc::new(config).into())
    }

    /// Reads certificate chain and key from two files, which may be the same one; see [`from_pem`](Self::from_pem).
    ///
    /// # Errors
    ///
    /// The error of reading a file; otherwise the same as [`from_pem`](Self::from_pem).
    pub fn from_files(chain: impl AsRef<Path>, key: impl AsRef<Path>) -> io::Result<Self> {
        Self::from_pem(&super::read_file(chain.as_ref())?, &super::read_file(key.as_ref())?)
    }

    /// Creates a TLS connection before its handshake.
    pub(crate) fn connection(&self) -> io::Result<ServerConnection> {
        ServerConnection::new(Arc::clone(&self.0)).map_err(io::Error::other)
    }
}

/// Conversion of a configuration of rustls. If it has no ALPN protocol, `http/1.1` is added.
impl From<Arc<ServerConfig>> for ServerTls {
    fn from(mut config: Arc<ServerConfig>) -> Self {
        if config.alpn_protocols.is_empty() {
            Arc::make_mut(&mut config).alpn_protocols = [ALPN_PROTOCOL.to_vec()].into();
        }
        Self(config)
    }
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerTls").finish_non_exhaustive()
    }
}
