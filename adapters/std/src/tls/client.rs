//! Roots that a client trusts.

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

use super::{ALPN_PROTOCOL, invalid_input};

/// Trusted roots of a client.
///
/// By default these are the roots of the system. On Linux they are the files that OpenSSL would read (`SSL_CERT_FILE`
/// and `SSL_CERT_DIR` name others); on macOS and Windows they are the system's store. They are read at the first
/// connection. Clones share the loaded roots and the cache of resumable sessions.
///
/// ```no_run
/// use mcp_std::tls::ClientTls;
///
/// let with_company_root = ClientTls::new().root_file("/etc/company/ca.pem")?;
/// let own_root_only = ClientTls::without_system_roots().root_file("ca.pem")?;
/// # std::io::Result::Ok(())
/// ```
#[derive(Clone)]
pub struct ClientTls {
    trust: TlsTrust,
    config: Arc<OnceLock<Arc<ClientConfig>>>,
}

#[derive(Clone)]
enum TlsTrust {
    Roots { system: bool, own: RootCertStore },
    Custom(Arc<ClientConfig>),
}

impl ClientTls {
    /// Trusts the roots of the system.
    #[must_use]
    pub fn new() -> Self {
        TlsTrust::Roots { system: true, own: RootCertStore::empty() }.into()
    }

    /// Trusts no roots except those added later.
    #[must_use]
    pub fn without_system_roots() -> Self {
        TlsTrust::Roots { system: false, own: RootCertStore::empty() }.into()
    }

    /// Adds the certificates in `pem` to the roots.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if `pem` contains no certificate or an unusable one, or if this value was created from a
    /// `rustls` configuration, which has its own roots.
    pub fn root_pem(self, pem: &[u8]) -> io::Result<Self> {
        let TlsTrust::Roots { system, mut own } = self.trust else {
            return Err(invalid_input(
                "cannot add a root: the given rustls configuration already defines the roots",
            ));
        };
        let before = own.len();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate
                .map_err(|reason| invalid_input(format!("cannot use a root certificate: {reason}")))?;
            own.add(certificate)
                .map_err(|reason| invalid_input(format!("cannot use a root certificate: {reason}")))?;
        }
        if own.len() == before {
            return Err(invalid_input("no PEM certificate found among the given roots"));
        }
        Ok(TlsTrust::Roots { system, own }.into())
    }

    /// Adds the certificates of a PEM file to the roots.
    ///
    /// # Errors
    ///
    /// The error of reading the file; otherwise the same as [`root_pem`](Self::root_pem).
    pub fn root_file(self, path: impl AsRef<Path>) -> io::Result<Self> {
        self.root_pem(&super::read_file(path.as_ref())?)
    }

    /// Creates a TLS connection before its handshake.
    pub(crate) fn connection(&self, host: &str) -> io::Result<ClientConnection> {
        let name = ServerName::try_from(host.to_string())
            .map_err(|_| invalid_input(format!("{host:?} is not a DNS name or an IP address")))?;
        ClientConnection::new(self.config()?, name).map_err(io::Error::other)
    }

    fn config(&self) -> io::Result<Arc<ClientConfig>> {
        if let Some(config) = self.config.get() {
            return Ok(Arc::clone(config));
        }
        let mut config = match &self.trust {
            TlsTrust::Custom(config) if !config.alpn_protocols.is_empty() => return Ok(Arc::clone(config)),
            TlsTrust::Custom(config) => (**config).clone(),
            TlsTrust::Roots { system, own } => {
                let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
                let builder = builder.with_safe_default_protocol_versions().map_err(io::Error::other)?;
                builder.with_root_certificates(load_roots(*system, own)?).with_no_client_auth()
            }
        };
        config.alpn_protocols = [ALPN_PROTOCOL.to_vec()].into();
        Ok(Arc::clone(self.config.get_or_init(|| Arc::new(config))))
    }
}

/// Loads all roots. Unusable roots of the system are skipped, as many machines have some.
fn load_roots(system: bool, own: &RootCertStore) -> io::Result<RootCertStore> {
    let mut roots = own.clone();
    let mut reason = String::from("none were given");
    if system {
        let found = rustls_native_certs::load_native_certs();
        let _ = roots.add_parsable_certificates(found.certs);
        reason = found.errors.first().map_or_else(|| "the system has none".into(), ToString::to_string);
    }
    if roots.is_empty() {
        let reason = format!("there are no root certificates to verify the server with: {reason}");
        return Err(io::Error::new(io::ErrorKind::NotFound, reason));
    }
    Ok(roots)
}

impl Default for ClientTls {
    fn default() -> Self {
        Self::new()
    }
}

/// Conversion of a configuration of rustls. If it has no ALPN protocol, `http/1.1` is offered.
impl From<Arc<ClientConfig>> for ClientTls {
    fn from(config: Arc<ClientConfig>) -> Self {
        TlsTrust::Custom(config).into()
    }
}

impl From<TlsTrust> for ClientTls {
    fn from(trust: TlsTrust) -> Self {
        Self { trust, config: Arc::default() }
    }
}

impl fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.trust {
            TlsTrust::Roots { system, own } => {
                f.debug_struct("ClientTls").field("system", system).field("roots", &own.len()).finish()
            }
            TlsTrust::Custom(_) => f.debug_struct("ClientTls").finish_non_exhaustive(),
        }
    }
}
