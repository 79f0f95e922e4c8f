//! Our protected server, with a tool that needs a scope of its own.

use core::time::Duration;
use std::net::TcpListener;
use std::thread::{self, JoinHandle};

use mcp_auth::client::HttpFetcher;
use mcp_auth::token::{JwtValidator, TokenValidator};
use mcp_proto::http::server::{Config as Http, Dpop, Protected};
use mcp_proto::model::Tool;
use mcp_proto::{Change, EntryKind, RawJson};
use mcp_runtime::server::{Cx, Handle};
use mcp_threads::{Error, HttpServer, Router};
use serde_json::{Value, json};

/// A running server.
///
/// Every request needs `mcp:read`. The tool `whoami` tells what the server knows about the caller, and `write` needs
/// `mcp:write`, too.
pub(crate) struct OwnServer {
    pub(crate) url: String,
    handle: Handle,
    thread: JoinHandle<Result<(), Error>>,
}

/// Returns a tool without arguments.
fn tool(name: &'static str) -> Tool {
    Tool::new(name, RawJson::new(r#"{"type":"object"}"#).expect("a schema"))
}

fn router() -> Router {
    let mut router = Router::new("own-server", "0");
    router.tool_with(tool("whoami"), |cx: &mut Cx<'_>, _: Value| {
        let scopes = cx.scopes().map(|scopes| scopes.iter().map(str::to_owned).collect::<Vec<_>>());
        json!({"subject": cx.principal(), "scopes": scopes}).to_string()
    });
    router.tool_with(tool("write"), |_: &mut Cx<'_>, _: Value| "written");
    assert!(router.core().require_scope(EntryKind::Tool, "write", "mcp:write"));
    router
}

/// Returns an address that is free now: the identifier of a protected server contains its port.
fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("a bound address").to_string()
}

impl OwnServer {
    /// Starts a server that accepts the JWTs of an issuer.
    pub(crate) fn start(issuer: &str) -> Self {
        Self::start_with(issuer, Dpop::Off, |protected| JwtValidator::new(protected, HttpFetcher::new()))
    }

    /// Starts a server with a validator of its tokens, which may or must be bound to a key.
    pub(crate) fn start_with<V: TokenValidator + 'static>(
        issuer: &str,
        dpop: Dpop,
        validator: impl FnOnce(&Protected) -> V,
    ) -> Self {
        let address = free_address();
        let url = format!("http://{address}/mcp");
        let protected = Protected::new(&url, issuer).expect("an issuer").scope("mcp:read").expect("a scope");
        let protected = protected.dpop(dpop);
        let validator = validator(&protected);
        let router = router();
        let config = router.config().expect("valid entries");
        let http = Http::new().protected(protected);
        let mut server =
            HttpServer::bind(&*address, config, http, router).expect("a port").validate_tokens(validator);
        let handle = server.handle().expect("a handle");
        Self { url, handle, thread: thread::spawn(move || server.run()) }
    }

    /// Announces that the list of tools has changed.
    pub(crate) fn announce_tools(&self) {
        self.handle.publish(&Change::Tools).expect("a running server");
    }

    /// Stops the server, which must end without an error.
    pub(crate) fn stop(self) {
        self.handle.shutdown(Duration::ZERO);
        self.thread.join().expect("no panic").expect("a graceful end");
    }
}
