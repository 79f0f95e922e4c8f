//! Whom a client trusts

use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::sync::Arc;
use core::fmt;
use std::io;
use std::path::Path;
use std::sync::OnceLock;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use super::stream::Tls;
use super::{PROTOCOL, invalid};
use crate::socket::Socket;
use crate::transport::Transport;

/// Which servers a client trusts
///
/// By default those whose certificates lead to a root of the system: on Linux the files that OpenSSL would read there
/// (`SSL_CERT_FILE` and `SSL_CERT_DIR` name others), on macOS and Windows the system's own store. They are read when the
/// first connection is made. Clones share what was read, and the sessions that are taken up again.
///
/// ```no_run
/// use mcp_std::tls::ClientTls;
///
/// let inside = ClientTls::new().root_file("/etc/company/ca.pem")?;
/// let only = ClientTls::without_system_roots().root_file("ca.pem")?;
/// # std::io::Result::Ok(())
/// ```
#[derive(Clone)]
pub struct ClientTls {
    trust: Trust,
    made: Arc<OnceLock<Arc<ClientConfig>>>,
}

#[derive(Clone)]
enum Trust {
    Roots { system: bool, own: RootCertStore },
    Given(Arc<ClientConfig>),
}

impl ClientTls {
    /// The roots of the system
    #[must_use]
    pub fn new() -> Self {
        Trust::Roots { system: true, own: RootCertStore::empty() }.into()
    }

    /// No roots but those that are given
    #[must_use]
    pub fn without_system_roots() -> Self {
        Trust::Roots { system: false, own: RootCertStore::empty() }.into()
    }

    /// Trusts the certificates in `pem` as roots, too
    ///
    /// # Errors
    ///
    /// `InvalidInput` when there is no certificate in it, one of them cannot be used, or the roots are those of a
    /// configuration that was given.
    pub fn root_pem(self, pem: &[u8]) -> io::Result<Self> {
        let Trust::Roots { system, mut own } = self.trust else {
            return Err(invalid("roots are part of the TLS configuration that was given"));
        };
        let before = own.len();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|why| invalid(format!("a root certificate: {why}")))?;
            own.add(certificate).map_err(|why| invalid(format!("a root certificate: {why}")))?;
        }
        if own.len() == before {
            return Err(invalid("there is no certificate (PEM) among the roots that were given"));
        }
        Ok(Trust::Roots { system, own }.into())
    }

    /// Trusts the certificates in a PEM file as roots, too
    ///
    /// # Errors
    ///
    /// When it cannot be read; as [`root_pem`](Self::root_pem).
    pub fn root_file(self, path: impl AsRef<Path>) -> io::Result<Self> {
        self.root_pem(&super::read(path.as_ref())?)
    }

    /// Begins to speak TLS to `host`, a name or an address, on a socket that is connected or about to be
    ///
    /// # Errors
    ///
    /// `InvalidInput` when `host` is neither; `NotFound` when there are no roots at all.
    pub fn connect(&self, socket: Socket, host: &str) -> io::Result<Transport> {
        let tls = Tls::new(socket, self.connection(host)?.into(), Some(host.into()));
        Ok(Transport::tls(tls))
    }

    /// A connection that nothing was said on
    pub(super) fn connection(&self, host: &str) -> io::Result<ClientConnection> {
        let name = ServerName::try_from(host.to_string())
            .map_err(|_| invalid(format!("{host:?} is no name that a certificate could be for")))?;
        ClientConnection::new(self.config()?, name).map_err(io::Error::other)
    }

    fn config(&self) -> io::Result<Arc<ClientConfig>> {
        if let Some(config) = self.made.get() {
            return Ok(Arc::clone(config));
        }
        let mut config = match &self.trust {
            Trust::Given(config) if !config.alpn_protocols.is_empty() => return Ok(Arc::clone(config)),
            Trust::Given(config) => (**config).clone(),
            Trust::Roots { system, own } => {
                let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
                let builder = builder.with_safe_default_protocol_versions().map_err(io::Error::other)?;
                builder.with_root_certificates(roots(*system, own)?).with_no_client_auth()
            }
        };
        config.alpn_protocols = [PROTOCOL.to_vec()].into();
        Ok(Arc::clone(self.made.get_or_init(|| Arc::new(config))))
    }
}

/// All roots; the system's include some on many machines that nobody can use
fn roots(system: bool, own: &RootCertStore) -> io::Result<RootCertStore> {
    let mut roots = own.clone();
    let mut why = String::from("none were given");
    if system {
        let found = rustls_native_certs::load_native_certs();
        let _ = roots.add_parsable_certificates(found.certs);
        why = found.errors.first().map_or_else(|| "the system has none".into(), ToString::to_string);
    }
    if roots.is_empty() {
        let why = format!("there are no root certificates to check a server's certificate against: {why}");
        return Err(io::Error::new(io::ErrorKind::NotFound, why));
    }
    Ok(roots)
}

impl Default for ClientTls {
    fn default() -> Self {
        Self::new()
    }
}

/// A configuration of one's own; without ALPN in it, `http/1.1` is offered
impl From<Arc<ClientConfig>> for ClientTls {
    fn from(config: Arc<ClientConfig>) -> Self {
        Trust::Given(config).into()
    }
}

impl From<Trust> for ClientTls {
    fn from(trust: Trust) -> Self {
        Self { trust, made: Arc::default() }
    }
}

impl fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.trust {
            Trust::Roots { system, own } => {
                f.debug_struct("ClientTls").field("system", system).field("roots", &own.len()).finish()
            }
            Trust::Given(_) => f.debug_struct("ClientTls").finish_non_exhaustive(),
        }
    }
}
