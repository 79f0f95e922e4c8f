//! A row of the matrix over HTTP: legacy sessions whose client sends the mirrored header fields, beside the reference.

use alloc::sync::Arc;

use bytes::Bytes;
use mcp_proto::client::Event;
use mcp_proto::head::{FieldLine, RequestHead, ResponseHead};
use mcp_proto::http::{client as http_client, server as http_server};
use mcp_proto::model::CallToolResult;
use mcp_proto::{CallOptions, Capability, Entropy, Instant, RawJson, Version, VersionSet, server};
use serde_json::{Value, json};

use super::{REFERENCE, capabilities};
use crate::protocol::common::client;

/// A client and a server that exchange requests and responses in memory.
struct HttpPair {
    client: http_client::Client,
    server: http_server::Server,
    now: Instant,
    /// Exchanges of both sides, and whether the head of the response was passed on.
    open: Vec<(http_client::ExchangeId, http_server::ExchangeId, bool)>,
    /// The lines that both applications record.
    lines: Vec<String>,
    /// Number of requests that had the field `Mcp-Param-Berth`.
    mirrored: usize,
}

impl HttpPair {
    fn new(versions: VersionSet, mirrors: bool) -> Self {
        let now = Instant::from_micros(1);
        let config = server::Config::new("tide-server", "2.1.0")
            .advertise_legacy(false)
            .versions(versions)
            .capabilities(capabilities(&[Capability::Tools, Capability::Prompts, Capability::Resources]));
        let entropy = Entropy::new([7; 32], 0);
        let mut server =
            http_server::Server::new(Arc::new(config), Arc::new(http_server::Config::new()), entropy);
        let schema = RawJson::new(schema().to_string()).expect("JSON");
        server.set_tool_schema("moor", &schema).expect("a valid annotation");
        let http = http_client::Config::new("http://localhost/mcp").expect("a URL");
        let http = http.mirror_in_legacy_sessions(mirrors);
        let client = http_client::Client::new(Arc::new(client(versions)), Arc::new(http), now);
        Self { client, server, now, open: Vec::new(), lines: Vec::new(), mirrored: 0 }
    }

    /// Exchanges messages until both sides are idle.
    fn settle(&mut self) {
        loop {
            let mut is_idle = true;
            while let Some(action) = self.client.poll_exchange(self.now) {
                is_idle = false;
                self.perform(action);
            }
            while let Some(http_server::Event::Server(event)) = self.server.poll_event(self.now) {
                is_idle = false;
                self.serve(event);
            }
            while self.server.poll_ready(self.now).is_some() {
                is_idle = false;
            }
            self.pass_responses();
            while let Some(event) = self.client.poll_event(self.now) {
                is_idle = false;
                self.record(event);
            }
            if is_idle {
                return;
            }
        }
    }

    fn perform(&mut self, action: http_client::Action) {
        match action {
            http_client::Action::Send(request) => {
                self.mirrored += request.fields.iter().filter(|(name, _)| *name == "Mcp-Param-Berth").count();
                let host: FieldLine<'_> = ("host", b"localhost");
                let fields: Vec<FieldLine<'_>> = request.fields.iter().chain([host]).collect();
                let target = request.url.target();
                let head = RequestHead { method: request.method, target, fields: &fields };
                let x = self.server.open(self.now, &head, Some(request.body.len() as u64));
                if self.server.wants_body(x) {
                    self.server.handle_body(self.now, x, request.body);
                }
                self.server.handle_end(self.now, x);
                self.open.push((request.exchange, x, false));
            }
            http_client::Action::Abort { exchange } => {
                let gone = self.open.iter().position(|(client, ..)| *client == exchange).expect("open");
                let (_, x, _) = self.open.swap_remove(gone);
                self.server.handle_gone(self.now, x);
            }
            other => panic!("{other:?}"),
        }
    }

    fn pass_responses(&mut self) {
        let Self { client, server, now, open, .. } = self;
        open.retain_mut(|(to, from, has_head)| {
            let Some(response) = server.response(*from) else { return true };
            if !core::mem::replace(has_head, true) {
                let fields: Vec<FieldLine<'_>> = response.fields.iter().collect();
                client.handle_head(*now, *to, &ResponseHead { status: response.status, fields: &fields });
            }
            loop {
                let body = Bytes::copy_from_slice(server.transmit(*now, *from));
                if body.is_empty() {
                    break;
                }
                server.consume(*from, body.len());
                client.handle_body(*now, *to, &body);
            }
            if server.is_finished(*from) {
                server.release(*now, *from);
                client.handle_end(*now, *to);
                return false;
            }
            true
        });
    }

    fn serve(&mut self, event: server::Event) {
        let server::Event::Call(call) = event else { return };
        self.lines.push(format!("server: {}", call.method()));
        let result = match call.method() {
            "tools/list" => json!({"tools": [{"name": "moor", "inputSchema": schema()}]}),
            "prompts/get" => json!({"messages": []}),
            "resources/read" => json!({"contents": []}),
            _ => return self.complete_call(&call),
        };
        self.server.engine().complete(self.now, call.id(), &result).expect("open");
    }

    fn complete_call(&mut self, call: &server::Call) {
        let arguments =
            String::from_utf8_lossy(call.tool_call().expect("a tool call").arguments).into_owned();
        self.lines.push(format!("server: arguments {arguments}"));
        self.server.engine().complete(self.now, call.id(), &CallToolResult::text("moored")).expect("open");
    }

    fn record(&mut self, event: Event) {
        let Event::Done { outcome, .. } = event else { return };
        let text = match outcome {
            Ok(result) => {
                let mut result: Value = serde_json::from_str(result.as_str()).expect("JSON");
                let members = result.as_object_mut().expect("an object");
                // Members that only the reference has, and the one that only 2025-03-26 adds.
                let others = ["resultType", "ttlMs", "cacheScope", "_meta", "isError"];
                members.retain(|name, _| !others.contains(&&**name));
                result.to_string()
            }
            Err(error) => error.to_string(),
        };
        self.lines.push(format!("client: {text}"));
    }

    fn call(&mut self, method: &str, params: &Value) {
        self.client.engine().call(self.now, method, params, &CallOptions::new()).expect("a call");
        self.settle();
    }
}

fn schema() -> Value {
    let berth = json!({"type": "string", "x-mcp-header": "Berth"});
    json!({"type": "object", "properties": {"berth": berth}})
}

/// Runs the scenario; returns the lines and the number of mirrored arguments.
fn run(version: Version, mirrors: bool) -> (Vec<String>, usize) {
    let mut pair = HttpPair::new(VersionSet::only(version), mirrors);
    pair.settle();
    pair.call("tools/list", &json!({}));
    for berth in ["C14", "größte", " ", ""] {
        pair.call("tools/call", &json!({"name": "moor", "arguments": {"berth": berth}}));
    }
    pair.call("tools/call", &json!({"name": "moor", "arguments": {}}));
    pair.call("prompts/get", &json!({"name": "größte"}));
    pair.call("resources/read", &json!({"uri": "file:///harbour"}));
    (pair.lines, pair.mirrored)
}

// covers: HTTP-032, HTTP-033, XHDR-015, XHDR-021, XHDR-032
#[test]
fn legacy_sessions_with_mirrored_fields_have_the_record_of_the_reference() {
    let (reference, mirrored) = run(REFERENCE, false);
    assert!(reference.len() == 21 && mirrored == 4, "{mirrored}: {reference:#?}");
    for version in VersionSet::LEGACY.iter().filter(|v| *v != Version::V2024_11_05) {
        assert_eq!(run(version, true), (reference.clone(), 4), "{version}");
        assert_eq!(run(version, false), (reference.clone(), 0), "{version}");
    }
}
