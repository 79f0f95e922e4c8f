//! TLS by [`rustls`], with the cryptography of `ring`: who is trusted, and what a server shows
//!
//! A client checks the server's certificate against the roots of the system and those that it is [given](ClientTls); a
//! server has a chain of certificates and a [key](ServerTls). Both take a configuration of [`rustls`] instead, for what
//! is not here: certificates of clients, other roots, certificates that are renewed while a server runs. There is no
//! switch that turns checking off.
//!
//! TLS 1.2 and 1.3 are spoken, and by ALPN `http/1.1`. An idle connection holds about 8 KiB, one that moves data up to
//! 32 KiB that were written and 36 KiB that were read besides.

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
pub(crate) use stream::Tls;

/// What is spoken under TLS, as ALPN calls it (RFC 7301, 6)
const PROTOCOL: &[u8] = b"http/1.1";

fn invalid(why: impl Into<String>) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, why.into())
}

/// A file, or an error that names it
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    std::fs::read(path).map_err(named)
}
