//! The client that the official conformance suite starts once per scenario, with the URL of its server.
//!
//! The environment names the scenario and the revision.
//!
//!     conformance-client [--runtime RUNTIME] URL

mod authorization;

use std::env;
use std::process::ExitCode;

use mcp_blocking::{ClientHandler, Error};
use mcp_extensions::skills::Skill;
use mcp_proto::EntryKind;
use mcp_proto::client::Config;
use mcp_proto::model::{ElicitParams, ElicitResult, ElicitValue, Map};
use mcp_proto::{Capabilities, Capability, RpcError, UseError, Version, VersionSet};
use mcp_system_tests::adapters::{self, AdapterClient, AdapterKind, ServerLocation};
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

#[expect(deprecated, reason = "tested until its removal")]
fn connect(runtime: AdapterKind, server: &ServerLocation) -> Result<Box<dyn AdapterClient>, Error> {
    let version = env::var("MCP_CONFORMANCE_PROTOCOL_VERSION").ok().and_then(|v| Version::from_name(&v));
    let versions = version.map_or(VersionSet::ALL, |v| VersionSet::NONE.with(v));
    let capabilities =
        Capabilities::new().with(Capability::Elicitation).with(Capability::Sampling).with(Capability::Roots);
    let config = Config::new("mcp-proto-conformance", "0.1.0").versions(versions).capabilities(capabilities);
    adapters::connect(runtime, config, AcceptingHandler, server)
}

fn run(runtime: AdapterKind, scenario: &str, url: &str) -> ScenarioResult {
    if let Some(flow) = scenario.strip_prefix("auth/") {
        return authorization::run(runtime, flow, url);
    }
    let mut client = connect(runtime, &ServerLocation::Url(url.to_owned()))?;
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
        // No file may be read.
        "sep-2640-client-no-prefetch" => {
            client.list(EntryKind::Skill)?;
        }
        // The SKILL.md is not what the entry promises, so nothing else of the skill may be read.
        "sep-2640-client-verify-digest"
        | "sep-2640-client-verify-size"
        | "sep-2640-client-verify-frontmatter" => {
            load_skills(&mut *client)?;
        }
        other => return Err(format!("unknown scenario: {other}").into()),
    }
    client.close()?;
    Ok(())
}

/// Loads each skill: its `SKILL.md`, and then its other files.
fn load_skills(client: &mut dyn AdapterClient) -> ScenarioResult {
    for entry in client.list(EntryKind::Skill)? {
        let skill: Skill = serde_json::from_str(&entry.to_string())?;
        match client.read_skill_file(&skill, &skill.uri) {
            Err(Error::Skill(error)) => {
                eprintln!("not loaded: {error}");
                continue;
            }
            read => read?,
        };
        for file in skill.files().unwrap_or_default() {
            client.read_skill_file(&skill, &file.uri)?;
        }
    }
    Ok(())
}

fn name(entry: &Value) -> Result<&str, &'static str> {
    entry["name"].as_str().ok_or("no name")
}
