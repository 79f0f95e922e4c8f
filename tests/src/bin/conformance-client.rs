//! The client that the official conformance suite starts once per scenario, with the URL of its server.
//!
//! The environment names the scenario and the revision.
//!
//!     conformance-client [--runtime RUNTIME] URL

extern crate alloc;

use alloc::collections::BTreeMap;
use core::time::Duration;
use std::env;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::ExitCode;

use mcp_blocking::{ClientHandler, Error};
use mcp_proto::EntryKind;
use mcp_proto::client::Config;
use mcp_proto::model::{ElicitParams, ElicitResult, ElicitValue, Map};
use mcp_proto::{
    CallError, Capabilities, Capability, Fault, HttpError, HttpResponse, RpcError, UseError, Version,
    VersionSet,
};
use mcp_tests::adapters::{self, AdapterClient, AdapterKind, ServerLocation};
use serde_json::{Value, json};

type ScenarioResult = Result<(), Box<dyn core::error::Error>>;

/// Handler that accepts forms with their default values.
struct AcceptingHandler;

impl ClientHandler for AcceptingHandler {
    fn elicit(&self, params: &ElicitParams) -> Result<ElicitResult, RpcError> {
        let ElicitParams::Form(form) = params else { return Ok(ElicitResult::decline()) };
        let mut content = form.requested_schema.fill_defaults(Map::new());
        if form.requested_schema.properties.get("confirmed").is_some() {
            content.insert("confirmed", ElicitValue::Boolean(true));
        }
        Ok(ElicitResult::accept(content))
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let arguments = match *words {
        [url] => Some((AdapterKind::Blocking, url)),
        ["--runtime", name, url] => AdapterKind::from_name(name).map(|runtime| (runtime, url)),
        _ => None,
    };
    let Some((runtime, url)) = arguments else {
        eprintln!("usage: conformance-client [--runtime RUNTIME] URL");
        return ExitCode::from(2);
    };
    let scenario = env::var("MCP_CONFORMANCE_SCENARIO").unwrap_or_default();
    match run(runtime, &scenario, url) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{scenario}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn connect(runtime: AdapterKind, url: &str) -> Result<Box<dyn AdapterClient>, Error> {
    let version = env::var("MCP_CONFORMANCE_PROTOCOL_VERSION").ok().and_then(|v| Version::from_name(&v));
    let versions = version.map_or(VersionSet::ALL, |v| VersionSet::NONE.with(v));
    let capabilities =
        Capabilities::new().with(Capability::Elicitation).with(Capability::Sampling).with(Capability::Roots);
    let config = Config::new("mcp-proto-conformance", "0.1.0").versions(versions).capabilities(capabilities);
    adapters::connect(runtime, config, AcceptingHandler, &ServerLocation::Url(url.to_owned()))
}

fn run(runtime: AdapterKind, scenario: &str, url: &str) -> ScenarioResult {
    if let Some(flow) = scenario.strip_prefix("auth/") {
        return connect_and_stop_at_authorization(runtime, flow, url);
    }
    let mut client = connect(runtime, url)?;
    match scenario {
        "tools_call" => {
            client.list(EntryKind::Tool)?;
            client.call_tool("add_numbers", &json!({"a": 1, "b": 2}))?;
        }
        "elicitation-sep1034-client-defaults" => {
            client.list(EntryKind::Tool)?;
            client.call_tool("test_client_elicitation_defaults", &json!({}))?;
        }
        "sse-retry" => {
            client.call_tool("test_reconnection", &json!({}))?;
        }
        "json-schema-2020-12-preservation" => {
            let tools = client.list(EntryKind::Tool)?;
            let tool = tools
                .iter()
                .find(|t| t["name"] == "json_schema_2020_12_tool")
                .ok_or("the tool is missing")?;
            client.call_tool("json_schema_echo", &json!({ "schema": tool["inputSchema"] }))?;
        }
        "sep-2322-client-request-state" => {
            client.list(EntryKind::Tool)?;
            for tool in ["echo_state", "no_state", "unrelated", "no_result_type"] {
                client.call_tool(&format!("test_mrtr_{tool}"), &json!({}))?;
            }
        }
        "http-standard-headers" => {
            for tool in client.list(EntryKind::Tool)? {
                client.call_tool(name(&tool)?, &json!({}))?;
            }
            for resource in client.list(EntryKind::Resource)? {
                client.request("resources/read", &json!({ "uri": resource["uri"] }), &mut |_| {})?;
            }
            for prompt in client.list(EntryKind::Prompt)? {
                client.request("prompts/get", &json!({ "name": prompt["name"] }), &mut |_| {})?;
            }
        }
        "http-custom-headers" => {
            client.list(EntryKind::Tool)?;
            let context: Value = serde_json::from_str(&env::var("MCP_CONFORMANCE_CONTEXT")?)?;
            for call in context["toolCalls"].as_array().ok_or("no calls")? {
                client.call_tool(call["name"].as_str().ok_or("no name")?, &call["arguments"])?;
            }
        }
        "http-invalid-tool-headers" => {
            for tool in client.list(EntryKind::Tool)? {
                client.call_tool(name(&tool)?, &json!({"region": "x"}))?;
            }
        }
        // The suite checks the handshake and the requests of these scenarios.
        "initialize" | "request-metadata" | "json-schema-ref-no-deref" => {
            match client.list(EntryKind::Tool) {
                // Some of these servers have no tools.
                Ok(_) | Err(Error::Use(UseError::MissingPeerCapability(_))) => {}
                Err(error) => return Err(error.into()),
            }
        }
        other => return Err(format!("unknown scenario: {other}").into()),
    }
    client.close()?;
    Ok(())
}

fn name(entry: &Value) -> Result<&str, &'static str> {
    entry["name"].as_str().ok_or("no name")
}

/// Reads the metadata that a server refers to in its challenge, and checks that the flow would stop there.
fn connect_and_stop_at_authorization(runtime: AdapterKind, flow: &str, url: &str) -> ScenarioResult {
    let Err(error) = connect(runtime, url).and_then(|mut client| client.list(EntryKind::Tool)) else {
        return Err("the server did not challenge".into());
    };
    let answer = http_response(&error).ok_or_else(|| format!("no challenge: {error}"))?;
    let challenge = answer.challenges.iter().find(|c| c.is_bearer()).ok_or("no bearer challenge")?;
    let metadata = fetch_json(challenge.param("resource_metadata").ok_or("no metadata")?)?;
    let resource = metadata["resource"].as_str().ok_or("no resource")?;
    let fits = url.starts_with(resource);
    match flow {
        "resource-mismatch" if !fits => Ok(()),
        "metadata-issuer-mismatch" if fits => {
            let issuer = metadata["authorization_servers"][0].as_str().ok_or("no authorization server")?;
            let found = fetch_json(&format!(
                "{}/.well-known/oauth-authorization-server",
                issuer.trim_end_matches('/')
            ))?;
            if found["issuer"] == issuer { Err("the issuer is the expected one".into()) } else { Ok(()) }
        }
        other => Err(format!("{other}: unexpected: {metadata}").into()),
    }
}

/// Returns the HTTP response that caused an error.
fn http_response(error: &Error) -> Option<&HttpResponse> {
    let http = match error {
        Error::Call(CallError::Http(http)) => http,
        Error::Closed(closed) => match &closed.fault {
            Fault::Http(http) => http,
            _ => return None,
        },
        _ => return None,
    };
    match &**http {
        HttpError::Response(answer) => Some(answer),
        _ => None,
    }
}

/// Fetches a document by HTTP/1.0: the body ends with the connection.
fn fetch_json(url: &str) -> Result<Value, Box<dyn core::error::Error>> {
    let rest = url.strip_prefix("http://").ok_or("not http")?;
    let (authority, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
    let mut stream = TcpStream::connect(authority)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {authority}\r\nAccept: application/json\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let (_, body) = text.split_once("\r\n\r\n").ok_or("no response")?;
    let document: BTreeMap<String, Value> = serde_json::from_str(body)?;
    Ok(document.into_iter().collect::<serde_json::Map<_, _>>().into())
}
