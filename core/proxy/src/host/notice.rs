//! What a proxy tells whoever runs it.

use core::fmt;

use mcp_proto::client::Peer;
use mcp_proto::model::Implementation;
use mcp_proto::tap::TapRecord;
use mcp_proto::{Diagnostic, Fault};
use mcp_runtime::Error;
use mcp_runtime::client::ExitInfo;
use mcp_std::process::ShutdownReport;

use super::gateway::Server;
use super::upstream::ConnectError;
use crate::{AddError, SearchSize};

/// Runs a proxy: hears of what happens, and says which servers there are.
///
/// A closure that takes a [`Notice`] is one. Methods are called on the thread of the loop, and on those that end servers. A proxy waits
/// for them.
pub trait Operator: Send + Sync {
    /// Takes a notice.
    fn notice(&self, notice: &Notice<'_>);

    /// Returns the servers that a gateway is to have from now on, if they have changed. It is asked once a second.
    ///
    /// Servers whose name and connector ([`Arc`](alloc::sync::Arc) of [`Server::new`]) are those of before go on undisturbed.
    fn changed_servers(&self) -> Option<Vec<Server>> {
        None
    }
}

impl fmt::Debug for dyn Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Operator")
    }
}

impl<F: Fn(&Notice<'_>) + Send + Sync> Operator for F {
    fn notice(&self, notice: &Notice<'_>) {
        self(notice);
    }
}

/// Something that happens in a proxy. Its text is one sentence without the name of the server's command or URL, but of [`Lost`] and of
/// errors: these are not for clients.
///
/// `server` is the name behind a gateway; `None` for the server of a bridge.
#[derive(Debug)]
#[non_exhaustive]
pub enum Notice<'a> {
    /// The loop begins: from now on [`Stop`](super::Stop) is heeded.
    Begun,
    /// The loop has ended: no client is served any more, and servers are ended next.
    Ended,
    /// A client deviated from the protocol, or was refused.
    Client(&'a Diagnostic),
    /// A message from or to a client, if [`Limits::tap_records`](mcp_proto::Limits) is not zero.
    Message(&'a TapRecord),
    /// All places of a socket are taken, this number, and a client is refused.
    NoPlace(usize),
    /// The client has ended before the server of its bridge was connected.
    ClientLeft,
    /// An entry of a list has no form for clients.
    Omitted(&'a Diagnostic),
    /// A sentence of the [`Relay`](crate::Relay) or [`Gateway`](crate::Gateway), for whoever runs it.
    Note(&'a str),
    /// All tools are known that search stands for, or have changed.
    Search(SearchSize),
    /// A server behind a gateway is connected.
    Ready {
        /// Its name.
        server: &'a str,
        /// What it says of itself.
        peer: &'a Peer,
    },
    /// A server cannot be started. It is tried again when a client needs it.
    StartFailed {
        /// Its name.
        server: Option<&'a str>,
        /// Why.
        error: &'a ConnectError,
    },
    /// A server that clients use has died, and is started again.
    Lost {
        /// Its name.
        server: Option<&'a str>,
        /// How.
        cause: &'a Lost,
    },
    /// A connection was closed.
    Closed {
        /// Its name.
        server: Option<&'a str>,
        /// How its process has ended, if it has one; or why the last messages could not be written.
        outcome: &'a Result<Option<ShutdownReport>, Error>,
    },
    /// A server of [`Operator::changed_servers`] cannot be added.
    NotAdded(&'a AddError),
    /// A server is not among those of [`Operator::changed_servers`], or is another one.
    Removed {
        /// Its name.
        server: &'a str,
    },
    /// Clients follow so many resources that changes of this number are not announced. It is told once, until there is room again.
    Unfollowed {
        /// Its name.
        server: &'a str,
        /// Their number.
        resources: usize,
    },
}

/// How a server was lost.
#[derive(Debug)]
pub struct Lost {
    pub(super) fault: Fault,
    pub(super) exit: ExitInfo,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { fault, exit } = self;
        let name = match (&exit.program, &exit.url) {
            (Some(program), _) => format!("{program:?}"),
            (None, Some(url)) => url.clone(),
            (None, None) => "the server".to_owned(),
        };
        let how = exit.exit_status.map(|status| format!(" ({status})")).unwrap_or_default();
        match fault {
            Fault::Eof | Fault::Truncated { .. } => {
                write!(f, "{name} ended in the middle of the session{how}")
            }
            fault => write!(f, "the connection to {name} is lost{how}: {fault}"),
        }
    }
}

/// Returns the name of a server in sentences.
fn name(server: Option<&str>) -> String {
    server.map_or_else(|| "the server".to_owned(), |name| format!("`{name}`"))
}

impl fmt::Display for Notice<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Begun => f.write_str("clients are served"),
            Self::Ended => f.write_str("no client is served any more"),
            Self::Client(diagnostic) => write!(f, "the client deviated from the protocol: {diagnostic}"),
            Self::Message(record) => f.write_str(&String::from_utf8_lossy(&record.bytes)),
            Self::NoPlace(places) => write!(f, "a client is refused, because all {places} places are taken"),
            Self::ClientLeft => f.write_str("the client ended before the server was connected"),
            Self::Omitted(diagnostic) => diagnostic.fmt(f),
            Self::Note(text) => f.write_str(text),
            Self::Search(SearchSize { tools, tokens, shown_tokens, .. }) => write!(
                f,
                "search: 2 tools of about {shown_tokens} tokens stand for {tools} of about {tokens}"
            ),
            Self::Ready { server, peer } => {
                write!(f, "`{server}` is ready: ")?;
                if let Some(info) = peer.info.as_ref().and_then(|info| info.parse::<Implementation>().ok()) {
                    write!(f, "{} {}, ", info.name, info.version)?;
                }
                write!(f, "{}", peer.version)
            }
            Self::StartFailed { server: None, error } => {
                write!(f, "the server cannot be started again: {error}")
            }
            Self::StartFailed { server, error } => {
                write!(f, "{} cannot be started, and is tried again: {error}", name(*server))
            }
            Self::Lost { server, cause } => write!(f, "{} is started again: {cause}", name(*server)),
            Self::Closed { server, outcome } => {
                write!(f, "{} has ended", name(*server))?;
                outcome.as_ref().map_or_else(|error| write!(f, ": {error}"), |_| Ok(()))
            }
            Self::NotAdded(error) => write!(f, "{error}; start the gateway again"),
            Self::Removed { server } => write!(f, "`{server}` is removed"),
            Self::Unfollowed { server, resources } => write!(
                f,
                "`{server}`: changes of {resources} followed resources are not announced: there are too many"
            ),
        }
    }
}
