//! What a server shows

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

use super::stream::Tls;
use super::{PROTOCOL, invalid};
use crate::socket::Socket;
use crate::transport::Transport;

/// The certificates and the key of a server
///
/// Clones share them, and the sessions that are taken up again (256 at most).
///
/// ```no_run
/// let tls = mcp_std::tls::ServerTls::from_files("chain.pem", "key.pem")?;
/// # std::io::Result::Ok(())
/// ```
#[derive(Clone)]
pub struct ServerTls(Arc<ServerConfig>);

impl ServerTls {
    /// A chain of certificates, the server's own first, and the key of that one, both in PEM
    ///
    /// The key is one of PKCS #8, PKCS #1 or SEC 1, not encrypted.
    ///
    /// # Errors
    ///
    /// `InvalidInput` when one of them is missing or cannot be used, or the key is not that of the certificate.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> io::Result<Self> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain).collect();
        let chain = chain.map_err(|why| invalid(format!("the server's certificate: {why}")))?;
        if chain.is_empty() {
            return Err(invalid("there is no certificate (PEM) for the server"));
        }
        // Why it could not be read is not said: that could be part of the key.
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|_| invalid("there is no private key (PEM, not encrypted) for the server"))?;
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().map_err(io::Error::other)?;
        let config = builder.with_no_client_auth().with_single_cert(chain, key);
        let config = config.map_err(|why| invalid(format!("the server's certificate and key: {why}")))?;
        Ok(Arc::new(config).into())
    }

    /// As [`from_pem`](Self::from_pem), from two files; they may be the same one
    ///
    /// # Errors
    ///
    /// When they cannot be read; as [`from_pem`](Self::from_pem).
    pub fn from_files(chain: impl AsRef<Path>, key: impl AsRef<Path>) -> io::Result<Self> {
        Self::from_pem(&super::read(chain.as_ref())?, &super::read(key.as_ref())?)
    }

    /// Begins to speak TLS to a client that has connected
    ///
    /// # Errors
    ///
    /// When the configuration that was given cannot be used.
    pub fn accept(&self, socket: Socket) -> io::Result<Transport> {
        Ok(Transport::tls(Tls::new(socket, self.connection()?.into(), None)))
    }

    /// A connection that nothing was said on
    pub(super) fn connection(&self) -> io::Result<ServerConnection> {
        ServerConnection::new(Arc::clone(&self.0)).map_err(io::Error::other)
    }
}

/// A configuration of one's own; without ALPN in it, `http/1.1` is spoken
impl From<Arc<ServerConfig>> for ServerTls {
    fn from(mut config: Arc<ServerConfig>) -> Self {
        if config.alpn_protocols.is_empty() {
            Arc::make_mut(&mut config).alpn_protocols = [PROTOCOL.to_vec()].into();
        }
        Self(config)
    }
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerTls").finish_non_exhaustive()
    }
}
