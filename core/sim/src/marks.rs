//! An application whose tool returns the mark of its call.

use mcp_proto::server::Call;
use mcp_proto::{Capabilities, Capability, RawJson, RpcError, VersionSet, client, server};
use serde_json::{Value, json};

use crate::decisions::Draws;
use crate::world::Application;

/// A server with one tool, which returns the mark in its arguments, and clients that call it.
#[derive(Clone, Copy, Debug)]
pub struct Marks {
    /// Revisions of the clients.
    pub client_versions: VersionSet,
    /// Revisions of the servers.
    pub server_versions: VersionSet,
}

impl Marks {
    /// Both sides speak all revisions.
    pub const ALL: Self = Self { client_versions: VersionSet::ALL, server_versions: VersionSet::ALL };
}

fn raw(value: &Value) -> RawJson {
    RawJson::new(value.to_string()).expect("a value is JSON")
}

impl Application for Marks {
    fn client(&self) -> client::Config {
        client::Config::new("sim-client", "1.0").versions(self.client_versions)
    }

    fn server(&self) -> server::Config {
        server::Config::new("sim-server", "1.0")
            .versions(self.server_versions)
            .capabilities(Capabilities::new().with(Capability::Tools).with(Capability::ResourceSubscriptions))
    }

    fn request(&mut self, mark: &str, draws: &mut Draws) -> (String, RawJson) {
        let padding = "x".repeat(draws.below(400) as usize);
        let params = json!({"name": "mark", "arguments": {"mark": mark, "padding": padding}});
        ("tools/call".to_owned(), raw(&params))
    }

    fn answer(&mut self, call: &Call) -> Result<RawJson, RpcError> {
        let arguments: Value = call.tool_call()?.parse()?;
        let texts = [&arguments["mark"], &call.caller().principal().into()];
        let content = texts.map(|text| json!({"type": "text", "text": text.as_str().unwrap_or_default()}));
        Ok(raw(&json!({"content": content})))
    }

    fn check(&self, mark: &str, result: &RawJson) -> Result<(), String> {
        let result: Value = result.parse().map_err(|e| format!("{e:?}"))?;
        match result.pointer("/content/0/text").and_then(Value::as_str) {
            Some(text) if text == mark => Ok(()),
            other => Err(format!("the result has {other:?}")),
        }
    }
}
