//! TLS by [`rustls`], with the cryptography of `ring`: roots of a client, certificate of a server.
//!
//! A client verifies the server's certificate against the roots of the system and any [added roots](ClientTls), among
//! which the certificate may be itself: then its names, its time and its purpose are checked, and not the rest of its chain. A
//! server has a certificate chain and a [key](ServerTls). Both also accept a configuration of [`rustls`], for client
//! certificates, other verifiers, or certificates renewed at run time. Verification cannot be switched off.
//!
//! TLS 1.2 and 1.3 are supported; ALPN is `http/1.1`. An idle connection holds about 8 KiB. A busy one holds up to 32
//! KiB of written and 36 KiB of read data in addition.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::OnceLock;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    AlertDescription, CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error,
    InvalidMessage, OtherError, RootCertStore, ServerConfig, ServerConnection, SignatureScheme,
};

mod stream;
#[cfg(test)]
mod tests;

pub use rustls;
pub(crate) use stream::TlsStream;

/// The ALPN protocol (RFC 7301, section 6).
const ALPN_PROTOCOL: &[u8] = b"http/1.1";

fn invalid_input(message: impl Into<String>) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, message.into())
}

/// Reads a file; an error names the file.
fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    std::fs::read(path).map_err(named)
}

// Texts for TLS errors.

/// Describes `error`; `host` is the server, or `None` if this process is the server.
fn describe_error(error: &Error, host: Option<&str>, handshaking: bool) -> String {
    let Some(host) = host else { return format!("TLS with the client failed: {error}") };
    match error {
        Error::InvalidCertificate(error) => {
            format!("the certificate of {host} is not accepted: {}", describe_certificate_error(error, host))
        }
        Error::InvalidMessage(InvalidMessage::InvalidContentType) if handshaking => {
            format!("the server does not speak TLS at {host}: its URL may have to begin with http:")
        }
        Error::AlertReceived(AlertDescription::NoApplicationProtocol) => {
            format!("{host} does not speak HTTP/1.1 over TLS")
        }
        Error::AlertReceived(alert) => format!("{host} aborted TLS with the alert {alert:?}"),
        other => format!("TLS with {host} failed: {other}"),
    }
}

/// Describes an error of a certificate.
fn describe_certificate_error(error: &CertificateError, host: &str) -> String {
    match error {
        CertificateError::NotValidForName => "it is for another name".into(),
        CertificateError::NotValidForNameContext { presented, .. } if presented.is_empty() => {
            format!("it names no host, so it is not for {host}")
        }
        CertificateError::NotValidForNameContext { presented, .. } => {
            let names: Vec<String> = presented.iter().take(MAX_NAMES).map(|name| plain_name(name)).collect();
            let more = if presented.len() > MAX_NAMES { ", and others" } else { "" };
            format!("it is for {}{more}, not for {host}", names.join(", "))
        }
        CertificateError::Expired => format!("it has expired{CLOCK_HINT}"),
        CertificateError::ExpiredContext { time, not_after } => {
            format!("it has expired {} days ago{CLOCK_HINT}", days(*not_after, *time))
        }
        CertificateError::NotValidYet => format!("it is not valid yet{CLOCK_HINT}"),
        CertificateError::NotValidYetContext { time, not_before } => {
            format!("it is not valid before {} days from now{CLOCK_HINT}", days(*time, *not_before))
        }
        CertificateError::UnknownIssuer => {
            "its issuer is not among the root certificates that are trusted here".into()
        }
        CertificateError::BadSignature => {
            "it is not signed by the authority that it names: another key of the same name is trusted here".into()
        }
        error if is_of_issuer(error) => {
            "the algorithm of its signature is not accepted here (SHA-1 is one of these)".into()
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "its extendedKeyUsage lacks serverAuth, so it is for no server".into()
        }
        CertificateError::Other(reason) => match &*reason.0.to_string() {
            AUTHORITY => {
                "it is the certificate of an authority (CA:TRUE, as `openssl req -x509` makes it), and is not itself trusted here".into()
            }
            "UnsupportedCertVersion" => "it is of version 1 of X.509, which names no host".into(),
            // Of the verifier below, or of another one.
            reason => reason.into(),
        },
        other => format!("it cannot be used ({other})"),
    }
}

/// Returns the bare name of a certificate entry: `localhost` for `DnsName("localhost")`.
fn plain_name(name: &str) -> String {
    let inner = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')')).unwrap_or(name);
    inner.trim_matches('"').chars().take(MAX_NAME_CHARS).collect()
}

/// Returns the whole days from one time to another.
fn days(from: UnixTime, to: UnixTime) -> u64 {
    to.as_secs().saturating_sub(from.as_secs()) / (24 * 60 * 60)
}

/// Hint that the local clock may be wrong.
const CLOCK_HINT: &str = ", by the clock of this machine";
/// Names of a certificate that the text lists.
const MAX_NAMES: usize = 8;
/// Characters of a name that the text shows.
const MAX_NAME_CHARS: usize = 100;

// Certificate and key of a server.

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
            let reason = match reason {
                Error::InvalidCertificate(error) => describe_certificate_error(&error, ""),
                other => other.to_string(),
            };
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
        Self::from_pem(&read_file(chain.as_ref())?, &read_file(key.as_ref())?)
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

// Roots that a client trusts.

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
    Roots { system: bool, own: Vec<CertificateDer<'static>> },
    Custom(Arc<ClientConfig>),
}

impl ClientTls {
    /// Trusts the roots of the system.
    #[must_use]
    pub fn new() -> Self {
        TlsTrust::Roots { system: true, own: Vec::new() }.into()
    }

    /// Trusts no roots except those added later.
    #[must_use]
    pub fn without_system_roots() -> Self {
        TlsTrust::Roots { system: false, own: Vec::new() }.into()
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
        let unfit = |why: &dyn fmt::Display| invalid_input(format!("cannot use a root certificate: {why}"));
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|why| unfit(&why))?;
            RootCertStore::empty().add(certificate.clone()).map_err(|why| unfit(&why))?;
            own.push(certificate);
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
        self.root_pem(&read_file(path.as_ref())?)
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
                let verifier = Arc::new(Verifier::load(*system, own)?);
                builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth()
            }
        };
        config.alpn_protocols = [ALPN_PROTOCOL.to_vec()].into();
        Ok(Arc::clone(self.config.get_or_init(|| Arc::new(config))))
    }
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

// Verification of a server.

/// Verification by `webpki`. In addition a certificate is accepted that is one of the trusted certificates itself.
///
/// For `webpki` a trusted certificate is an authority, which signs those of servers. What `openssl req -x509` makes is
/// both.
#[derive(Debug)]
struct Verifier {
    chains: Arc<WebPkiServerVerifier>,
    trusted: Vec<CertificateDer<'static>>,
}

impl Verifier {
    /// Loads all roots. Unusable roots of the system are skipped, as many machines have some.
    fn load(system: bool, own: &[CertificateDer<'static>]) -> io::Result<Self> {
        let mut trusted = own.to_vec();
        let mut reason = String::from("none were given");
        if system {
            let found = rustls_native_certs::load_native_certs();
            trusted.extend(found.certs);
            reason = found.errors.first().map_or_else(|| "the system has none".into(), ToString::to_string);
        }
        let mut roots = RootCertStore::empty();
        let _ = roots.add_parsable_certificates(trusted.iter().cloned());
        if roots.is_empty() {
            let reason = format!("there are no root certificates to verify the server with: {reason}");
            return Err(io::Error::new(ErrorKind::NotFound, reason));
        }
        let provider = Arc::new(ring::default_provider());
        let chains = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
        Ok(Self { chains: chains.map_err(io::Error::other)?, trusted })
    }
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
        let outcome =
            self.chains.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        let Err(Error::InvalidCertificate(error)) = &outcome else { return outcome };
        let parsed = ParsedCertificate::try_from(end_entity)?;
        let mut itself = RootCertStore::empty();
        itself.add(end_entity.clone())?;
        let algorithms = ring::default_provider().signature_verification_algorithms.all;
        // The errors that are let pass below come after the check of the certificate's own time, and before that of its names.
        let alone = verify_server_cert_signed_by_trust_anchor(&parsed, &itself, &[], now, algorithms);
        let is_unknown = *error == CertificateError::UnknownIssuer;
        if self.trusted.contains(end_entity) {
            match alone {
                Err(Error::InvalidCertificate(error)) if is_authority(&error) => verify_purpose(end_entity)?,
                Err(Error::InvalidCertificate(error)) if is_of_issuer(&error) => {}
                alone => alone?,
            }
            // What else comes with it does not count.
            verify_server_name(&parsed, server_name)?;
            return Ok(ServerCertVerified::assertion());
        }
        let reason = if is_unknown && alone.is_ok() {
            "it is signed by itself, and is not itself trusted here"
        } else if is_unknown && intermediates.is_empty() {
            "its issuer is not among the root certificates that are trusted here, and no intermediate certificate came with it"
        } else {
            return outcome;
        };
        let reason = Box::<dyn core::error::Error + Send + Sync>::from(reason);
        Err(CertificateError::Other(OtherError(reason.into())).into())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chains.supported_verify_schemes()
    }
}

/// Checks that the certificate of an authority is for servers, if it says what it is for: `webpki` does so for others.
fn verify_purpose(certificate: &[u8]) -> Result<(), CertificateError> {
    // The identifiers of `extendedKeyUsage` and of `serverAuth` in it, as DER has them.
    const PURPOSES: &[u8] = &[6, 3, 0x55, 0x1D, 0x25];
    const SERVER: &[u8] = &[6, 8, 0x2B, 6, 1, 5, 5, 7, 3, 1];
    let has = |what: &[u8]| certificate.windows(what.len()).any(|part| part == what);
    if has(PURPOSES) && !has(SERVER) { Err(CertificateError::InvalidPurpose) } else { Ok(()) }
}

/// Returns whether an error is about who has signed a certificate, and how.
fn is_of_issuer(error: &CertificateError) -> bool {
    matches!(error.clone().into(), AlertDescription::UnknownCA | AlertDescription::DecryptError)
}

/// Returns whether the certificate of a server is that of an authority.
fn is_authority(error: &CertificateError) -> bool {
    matches!(error, CertificateError::Other(reason) if reason.0.to_string() == AUTHORITY)
}

/// Name of the error of `webpki` for the certificate of an authority, which `rustls` passes on.
const AUTHORITY: &str = "CaUsedAsEndEntity";
