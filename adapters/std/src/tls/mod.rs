//! TLS by [`rustls`], with the cryptography of `ring`: roots of a client, certificate of a server.
//!
//! A client verifies the server's certificate against the roots of the system and any [added roots](ClientTls). A
//! server has a certificate chain and a [key](ServerTls). Both also accept a configuration of [`rustls`], for client
//! certificates, other verifiers, or certificates renewed at run time. Verification cannot be switched off.
//!
//! TLS 1.2 and 1.3 are supported; ALPN is `http/1.1`. An idle connection holds about 8 KiB. A busy one holds up to 32
//! KiB of written and 36 KiB of read data in addition.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use std::io::{self, ErrorKind};
use std::path::Path;

mod client;
mod explain;
mod server;
mod stream;
#[cfg(test)]
mod tests;

pub use client::ClientTls;
pub use rustls;
pub use server::ServerTls;
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
