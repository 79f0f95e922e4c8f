//! A client of a world, whatever binding it has.

use alloc::sync::Arc;

use mcp_proto::http::client as http_client;
use mcp_proto::pipe::{self, Pipe};
use mcp_proto::{Instant, RawJson, client};
use serde_json::Value;

use super::http::token;

/// The parts of a call of a tool.
#[derive(serde::Deserialize)]
pub(super) struct ToolCallParts {
    pub(super) name: String,
    pub(super) arguments: Value,
}

impl ToolCallParts {
    /// Reads the parameters of a call, if it is one of a tool.
    pub(super) fn read(method: &str, params: &RawJson) -> Option<Self> {
        if method == "tools/call" { params.parse().ok() } else { None }
    }
}

/// A client, over its binding.
#[derive(Debug)]
pub(super) enum ClientSide {
    Pipe(Box<pipe::Client>),
    Http(Box<http_client::Client>),
}

impl ClientSide {
    /// Creates a client of the server at a URL, with the token of a lane.
    pub(super) fn http(config: &Arc<client::Config>, url: &str, lane: usize, now: Instant) -> Self {
        let credential = http_client::Credential::bearer(&token(lane)).expect("a token");
        let http = http_client::Config::new(url).expect("a URL").credential(credential);
        Self::Http(Box::new(http_client::Client::new(Arc::clone(config), Arc::new(http), now)))
    }

    pub(super) fn engine(&mut self) -> &mut client::Engine {
        match self {
            Self::Pipe(client) => client.engine(),
            Self::Http(client) => client.engine(),
        }
    }

    pub(super) fn poll_event(&mut self, now: Instant) -> Option<client::Event> {
        match self {
            Self::Pipe(client) => client.poll_event(now),
            Self::Http(client) => client.poll_event(now),
        }
    }

    pub(super) fn poll_timeout(&mut self) -> Option<Instant> {
        match self {
            Self::Pipe(client) => client.poll_timeout(),
            Self::Http(client) => client.poll_timeout(),
        }
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        match self {
            Self::Pipe(client) => client.handle_timeout(now),
            Self::Http(client) => client.handle_timeout(now),
        }
    }

    pub(super) fn is_drained(&self) -> bool {
        match self {
            Self::Pipe(client) => client.is_drained(),
            Self::Http(client) => client.is_drained(),
        }
    }

    /// Returns whether a client on a pipe reads.
    pub(super) fn wants_input(&self) -> bool {
        match self {
            Self::Pipe(client) => client.wants_input(),
            Self::Http(_) => false,
        }
    }
}
