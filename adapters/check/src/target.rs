//! The server that is checked or diagnosed.

use core::fmt;

use mcp_proto::http::client::Url;
use mcp_std::io::StreamAddress;
use mcp_std::process::Program;

/// A server to start or to connect to.
pub enum Target {
    /// A server on stdio. It is started several times.
    Program(Box<Program>),
    /// A server on a socket or a serial line. A check opens several connections, which a serial line does not have.
    Stream(StreamAddress),
    /// A server over HTTP.
    Http {
        /// The URL.
        url: Url,
        /// Header fields that each request carries: name and value.
        fields: Vec<(String, String)>,
    },
}

impl From<Program> for Target {
    fn from(program: Program) -> Self {
        Self::Program(Box::new(program))
    }
}

impl From<StreamAddress> for Target {
    fn from(address: StreamAddress) -> Self {
        Self::Stream(address)
    }
}

impl From<Url> for Target {
    fn from(url: Url) -> Self {
        Self::Http { url, fields: Vec::new() }
    }
}

/// Shows no arguments, query or field, which may hold secrets.
impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program(program) => f.debug_tuple("Program").field(&program.program()).finish(),
            Self::Stream(address) => f.debug_tuple("Stream").field(&address.to_string()).finish(),
            Self::Http { url, .. } => f.debug_tuple("Http").field(&url.origin().to_string()).finish(),
        }
    }
}
