//! What went wrong with TLS, said so that somebody can do something about it

use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError, Error, InvalidMessage};

/// What `error` means; `host` is the server that we speak to, none where we are the server
pub(super) fn explain(error: &Error, host: Option<&str>, handshaking: bool) -> String {
    let Some(host) = host else { return format!("TLS with the client failed: {error}") };
    match error {
        Error::InvalidCertificate(why) => {
            format!("the certificate of {host} is not accepted: {}", refusal(why, host))
        }
        Error::InvalidMessage(InvalidMessage::InvalidContentType) if handshaking => {
            format!("the server does not speak TLS at {host}: its URL may have to begin with http:")
        }
        Error::AlertReceived(AlertDescription::NoApplicationProtocol) => {
            format!("{host} does not speak HTTP/1.1 over TLS")
        }
        Error::AlertReceived(alert) => format!("{host} broke TLS off: it says {alert:?}"),
        other => format!("TLS with {host} failed: {other}"),
    }
}

/// What is wrong with a certificate
fn refusal(why: &CertificateError, host: &str) -> String {
    match why {
        CertificateError::NotValidForName => "it is for another name".into(),
        CertificateError::NotValidForNameContext { presented, .. } if presented.is_empty() => {
            format!("it names no host, and so not {host}")
        }
        CertificateError::NotValidForNameContext { presented, .. } => {
            let names: Vec<String> = presented.iter().take(NAMES).map(|name| plain(name)).collect();
            let more = if presented.len() > NAMES { ", and others" } else { "" };
            format!("it is for {}{more}, not for {host}", names.join(", "))
        }
        CertificateError::Expired => format!("it has expired{CLOCK}"),
        CertificateError::ExpiredContext { time, not_after } => {
            format!("it has expired {} days ago{CLOCK}", days(*not_after, *time))
        }
        CertificateError::NotValidYet => format!("it is not valid yet{CLOCK}"),
        CertificateError::NotValidYetContext { time, not_before } => {
            format!("it is valid in {} days only{CLOCK}", days(*time, *not_before))
        }
        CertificateError::UnknownIssuer => {
            "its issuer is not among the root certificates that are trusted here".into()
        }
        other => other.to_string(),
    }
}

/// A name as it stands in a certificate: `DnsName("localhost")` without what is around it
fn plain(name: &str) -> String {
    let inner = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')')).unwrap_or(name);
    inner.trim_matches('"').chars().take(LONGEST).collect()
}

/// Whole days from one time to another
fn days(from: UnixTime, to: UnixTime) -> u64 {
    to.as_secs().saturating_sub(from.as_secs()) / (24 * 60 * 60)
}

/// It may be ours that is wrong
const CLOCK: &str = ", by the clock of this machine";
/// Names of a certificate that are told
const NAMES: usize = 8;
/// Characters of a name that are told
const LONGEST: usize = 100;
