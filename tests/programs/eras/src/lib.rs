//! `mcp-proto` built without an era, and without change notifications.
//! Helpers of the tests of builds without some features.

use std::sync::Arc;

use mcp_proto::pipe::{Pipe, Server};
use mcp_proto::server::{Config, Event};
use mcp_proto::{Capabilities, Capability, Instant, RawJson, VersionSet};

/// The time of all tests.
const NOW: Instant = Instant::from_micros(1);

/// `initialize` of a client that declares nothing, in the newest revision with a handshake.
pub const INITIALIZE: &str = concat!(
    r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","#,
    r#""capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#
);

pub const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// Returns a server that declares these capabilities.
pub fn new_server(versions: VersionSet, capabilities: &[Capability]) -> Server {
    let config = Config::new("test", "1").capabilities(declared(capabilities)).versions(versions);
    Server::new(Arc::new(config), Instant::ZERO)
}

fn declared(capabilities: &[Capability]) -> Capabilities {
    capabilities.iter().copied().fold(Capabilities::new(), Capabilities::with)
}

/// Returns a request of the modern era.
pub fn modern(method: &str, params: &str) -> String {
    let version = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28""#;
    let capabilities = r#""io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}"#;
    format!(
        r#"{{"jsonrpc":"2.0","id":2,"method":"{method}","params":{{{params}"_meta":{{{version},{capabilities}}}}}}}"#
    )
}

/// Passes one message to an engine and returns its events.
fn receive<P: Pipe>(pipe: &mut P, message: &str) -> Vec<P::Event> {
    pipe.handle_input(NOW, message.as_bytes());
    pipe.handle_input(NOW, b"\n");
    std::iter::from_fn(|| pipe.poll_event(NOW)).collect()
}

/// Returns what an engine writes.
fn written(pipe: &mut impl Pipe) -> String {
    let written = String::from_utf8(pipe.transmit().to_vec()).expect("UTF-8");
    pipe.consume(written.len());
    written
}

/// Passes one message to a server and returns what it writes. Calls are answered with `{}`.
pub fn answer(server: &mut Server, message: &str) -> String {
    for event in receive(server, message) {
        if let Event::Call(call) = event {
            server.engine().complete_raw(NOW, call.id(), &RawJson::empty_object()).expect("an open call");
        }
    }
    written(server)
}
