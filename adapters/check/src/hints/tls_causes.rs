//! Causes of a failed TLS handshake, with what helps.

/// Returns the cause of a failed TLS handshake that the text of an error of `mcp-std` names, and what helps.
#[must_use]
pub fn tls_cause(text: &str) -> Option<(&'static str, &'static str)> {
    let found = CAUSES.iter().find(|(words, ..)| words.iter().any(|words| text.contains(words)));
    found.map(|&(_, why, fix)| (why, fix))
}

/// Words of an error, the cause, and what helps. The first row counts.
const CAUSES: &[(&[&str], &str, &str)] = &[
    (
        &["does not speak TLS"],
        "plain HTTP is spoken at this port",
        "write http:// in the URL, or the port that has TLS (often 443)",
    ),
    (
        &["it has expired"],
        "the certificate has expired",
        "renew the certificate at the server; if it is new, correct the clock of this machine",
    ),
    (
        &["it is not valid yet", "it is not valid before"],
        "the certificate is not valid yet",
        "correct the clock of this machine, or wait",
    ),
    (
        &["it names no host", "it is of version 1 of X.509"],
        "the certificate has no subjectAltName, which alone says for which hosts it is (the common name does not count)",
        "make it with one: `openssl req -x509 -addext subjectAltName=DNS:NAME`, with IP:ADDRESS for an address",
    ),
    (
        &["not for ", "another name"],
        "the certificate belongs to another name",
        "use a name that the certificate is for, or get one for this name",
    ),
    (
        &["is not itself trusted here"],
        "the certificate was made by hand, and nobody vouches for it but itself",
        "name its file in SSL_CERT_FILE: then exactly this certificate is accepted, for its names and its time",
    ),
    (
        &["no intermediate certificate came with it"],
        "the server sends its own certificate alone: an intermediate one is missing, or a private authority issued it",
        "let the server send its whole chain (often fullchain.pem); of a private authority, name the root in SSL_CERT_FILE",
    ),
    (
        &["issuer is not among the root certificates", "it is not signed by the authority that it names"],
        "the certificate is of an authority that this machine does not trust",
        "name the root certificate of that authority in SSL_CERT_FILE, or add it to the system",
    ),
    (
        &["is not accepted: "],
        "the certificate breaks a rule that every client checks",
        "get another certificate for the server",
    ),
    (
        &["no root certificates"],
        "this machine has no root certificates",
        "install the package `ca-certificates`, or name a file in SSL_CERT_FILE",
    ),
    (
        &["with the alert", "does not speak HTTP/1.1"],
        "the server ended the handshake: it wants another version of TLS, a certificate of the client, or another host name",
        "read its log, and compare the host name with those that the server is configured for",
    ),
];
