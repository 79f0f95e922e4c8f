//! `bench-serve RUNTIME PORT [CONNECTIONS] [shared] [silent]`: a server of ours with a high connection limit, or with that one.
//!
//! Its tools are `echo {text}` and `change {}`, which notifies all clients that the list of tools has changed. `shared`: its sessions
//! are in a store in memory. `silent`: no keep-alive comments on its streams.

extern crate alloc;

mod blocking;
mod smol;
mod threads;
mod tokio;

use alloc::borrow::Cow;
use core::time::Duration;
use std::process::ExitCode;

use mcp_proto::model::{CallToolResult, ListToolsResult, Tool};
use mcp_proto::server::Call;
use mcp_proto::{Capabilities, Capability, Limits, RawJson, RpcError, http, server};
use mcp_runtime::server::{SessionKeys, SharedSessions};
use mcp_std::session_store::MemorySessionStore;

type ServeResult = Result<(), Box<dyn core::error::Error>>;

/// Connection limit, above that of every bench.
const MAX_CONNECTIONS: usize = 200_000;

/// Longer than any bench.
const NEVER: Duration = Duration::from_secs(1_000_000);

struct Options {
    port: u16,
    max_connections: usize,
    /// Set if the sessions are in a store.
    sessions: Option<SharedSessions>,
    is_silent: bool,
}

impl Options {
    fn parse(port: &str, more: &[String]) -> Result<Self, Box<dyn core::error::Error>> {
        let port = port.parse()?;
        let mut options = Self { port, max_connections: MAX_CONNECTIONS, sessions: None, is_silent: false };
        for word in more {
            match &**word {
                "shared" => {
                    let keys = SessionKeys::new([7; 32]);
                    options.sessions = Some(SharedSessions::join(MemorySessionStore::new(), &keys)?);
                }
                "silent" => options.is_silent = true,
                connections => options.max_connections = connections.parse()?,
            }
        }
        Ok(options)
    }

    fn paths(&self) -> http::server::Config {
        let paths = http::server::Config::new()
            .max_exchanges(MAX_CONNECTIONS)
            .max_sessions(MAX_CONNECTIONS, MAX_CONNECTIONS);
        if self.is_silent { paths.keep_alive(NEVER) } else { paths }
    }
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match serve(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-serve: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve(args: &[String]) -> ServeResult {
    let [runtime, port, more @ ..] = args else {
        return Err("usage: bench-serve RUNTIME PORT [CONNECTIONS] [shared] [silent]".into());
    };
    let options = Options::parse(port, more)?;
    match &**runtime {
        "blocking" => blocking::serve(&options),
        "threads" => threads::serve(&options, None),
        "threads-inline" => threads::serve(&options, Some(0)),
        "smol" => smol::serve(&options),
        "tokio" => tokio::serve(&options),
        other => Err(format!("unknown runtime: {other}").into()),
    }
}

fn config() -> server::Config {
    let capabilities = Capabilities::new().with(Capability::Tools).with(Capability::ToolsListChanged);
    let mut limits = Limits::default();
    limits.max_live_calls = MAX_CONNECTIONS as u32;
    server::Config::new("echo", "1.0.0").capabilities(capabilities).limits(limits)
}

fn tools() -> ListToolsResult {
    let schema = |text: &'static str| RawJson::new(text).expect("a constant");
    let text = schema(r#"{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}"#);
    let nothing = schema(r#"{"type":"object"}"#);
    ListToolsResult::new(vec![Tool::new("echo", text), Tool::new("change", nothing)])
}

#[derive(serde::Deserialize)]
struct EchoArguments<'a> {
    #[serde(borrow)]
    text: Cow<'a, str>,
}

fn echo(call: &Call) -> Result<CallToolResult<'_>, RpcError> {
    let EchoArguments { text } = call.tool_call()?.parse()?;
    Ok(CallToolResult::text(text))
}
