//! `bench-serve RUNTIME PORT [CONNECTIONS]`: a server of ours with a high connection limit, or with that one. Its tools are `echo {text}` and `change
//! {}`, which notifies all clients that the list of tools has changed.

extern crate alloc;

mod blocking;
mod smol;
mod threads;
mod tokio;

use alloc::borrow::Cow;
use std::process::ExitCode;

use mcp_proto::model::{CallToolResult, ListToolsResult, Tool};
use mcp_proto::server::Call;
use mcp_proto::{Capabilities, Capability, Limits, RawJson, RpcError, http, server};

type ServeResult = Result<(), Box<dyn core::error::Error>>;

/// Connection limit, above that of every bench.
const MAX_CONNECTIONS: usize = 100_000;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let served = match &args[..] {
        [runtime, port, limit @ ..] if limit.len() < 2 => {
            let limit = limit.first().map_or(Ok(MAX_CONNECTIONS), |limit| limit.parse());
            match (&**runtime, port.parse(), limit) {
                ("blocking", Ok(port), Ok(limit)) => blocking::serve(port, limit),
                ("threads", Ok(port), Ok(limit)) => threads::serve(port, limit, None),
                ("threads-inline", Ok(port), Ok(limit)) => threads::serve(port, limit, Some(0)),
                ("smol", Ok(port), Ok(limit)) => smol::serve(port, limit),
                ("tokio", Ok(port), Ok(limit)) => tokio::serve(port, limit),
                _ => Err("expected a runtime, a port and a connection limit".into()),
            }
        }
        _ => Err("usage: bench-serve RUNTIME PORT [CONNECTIONS]".into()),
    };
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-serve: {error}");
            ExitCode::FAILURE
        }
    }
}

fn config() -> server::Config {
    let capabilities = Capabilities::new().with(Capability::Tools).with(Capability::ToolsListChanged);
    let mut limits = Limits::default();
    limits.max_live_calls = MAX_CONNECTIONS as u32;
    server::Config::new("echo", "1.0.0").capabilities(capabilities).limits(limits)
}

fn paths() -> http::server::Config {
    http::server::Config::new().max_exchanges(MAX_CONNECTIONS).max_sessions(MAX_CONNECTIONS, MAX_CONNECTIONS)
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
