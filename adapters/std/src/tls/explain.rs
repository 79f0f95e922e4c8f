//! Texts for TLS errors.

use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError, Error, InvalidMessage};

/// Describes `error`; `host` is the server, or `None` if this process is the server.
pub(super) fn describe_error(error: &Error, host: Option<&str>, handshaking: bool) -> String {
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
        other => other.to_string(),
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
