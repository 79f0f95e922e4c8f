//! The two applications of a [`Pair`](super::Pair): a server with a few tools, and a client that logs its events.
//!
//! The logs name neither era nor revision, so that they can be compared over all of them.

use core::fmt::Write as _;

use mcp_proto::model::InputRequest;
use mcp_proto::pipe::{Client, Server};
use mcp_proto::server::Call;
use mcp_proto::{
    CallError, CallId, CallKey, CallOptions, Diagnostic, Instant, Progress, RawJson, RpcError, UseError,
    client, server,
};
use serde_json::{Value, json};

use super::build::to_value;
use super::pair::Applications;

/// Both applications.
#[derive(Debug, Default)]
pub struct App {
    /// Events of the client.
    pub client_log: Vec<String>,
    /// Events of the server.
    pub server_log: Vec<String>,
    /// Server, once the client knows it.
    pub peer: Option<client::Peer>,
    /// Calls that the server has not answered, oldest first, with the names of their tools.
    pub open_calls: Vec<(CallId, String)>,
    /// Requests of the server that the client has not answered.
    pub pending_requests: Vec<client::ServerRequest>,
    /// Whether server requests are left in [`pending_requests`](Self::pending_requests) for the test to answer.
    pub defers_client_answers: bool,
    /// Channel of the server's stream, known from its first event.
    pub channel: Option<mcp_proto::tap::ChannelId>,
    /// Fault that ended the client's side.
    pub client_fault: Option<mcp_proto::Fault>,
    /// Fault that ended the server's side.
    pub server_fault: Option<mcp_proto::Fault>,
    call_names: Vec<(CallKey, String)>,
}

impl App {
    // ---- the client ------------------------------------------------------------------------------------------

    /// Makes a call and gives it a name for the log.
    ///
    /// # Errors
    ///
    /// Those of the engine's `call`.
    pub fn call(
        &mut self,
        now: Instant,
        client: &mut Client,
        name: &str,
        method: &str,
        params: &Value,
        options: &CallOptions,
    ) -> Result<CallKey, UseError> {
        let key = client.engine().call(now, method, params, options)?;
        self.name(key, name);
        Ok(key)
    }

    /// Gives a name to a call that the test made itself.
    pub fn name(&mut self, key: CallKey, name: &str) {
        self.call_names.push((key, name.to_owned()));
    }

    /// Returns the outcome of the call `name`, as logged.
    #[must_use]
    pub fn outcome(&self, name: &str) -> Option<&str> {
        self.client_log.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix(" ended: "))
    }

    /// Returns the number of calls without an outcome.
    #[must_use]
    pub fn pending_count(&self) -> usize {
        self.call_names.len()
    }

    /// Returns the call `n` modulo their number, of those without an outcome.
    #[must_use]
    pub fn nth_pending(&self, n: usize) -> Option<CallKey> {
        self.call_names.get(n.checked_rem(self.call_names.len())?).map(|(key, _)| *key)
    }

    fn name_of(&self, key: CallKey) -> &str {
        let found = self.call_names.iter().find(|(k, _)| *k == key);
        &found.unwrap_or_else(|| panic!("{key:?} names no open call")).1
    }

    #[expect(deprecated, reason = "tested until its removal")]
    fn record_client_event(&mut self, now: Instant, client: &mut Client, event: client::Event) {
        use client::Event;
        assert!(self.client_fault.is_none(), "event after the end: {event:?}");
        let line = match event {
            Event::Ready(peer) => {
                let info = peer.info.as_ref().map(to_value);
                let line = format!("ready: {info:?} {} {:?}", peer.capabilities, peer.instructions);
                self.peer = Some(peer);
                line
            }
            Event::Done { call, outcome, .. } => {
                let line = format!("{} ended: {}", self.name_of(call), describe_outcome(&outcome));
                // A second outcome of the same call panics in `name_of`.
                self.call_names.retain(|(key, _)| *key != call);
                line
            }
            Event::Progress { call, progress } => format!("{} progress {progress:?}", self.name_of(call)),
            Event::Request(request) => {
                let line = format!("asked {} {:?}", request.method, request.params);
                if self.defers_client_answers {
                    self.pending_requests.push(request);
                } else {
                    client.engine().respond(now, request.id, &json!({"said": "yes"})).expect("open");
                }
                line
            }
            Event::RequestCancelled(id) => {
                self.pending_requests.retain(|r| r.id != id);
                "no longer asked".to_owned()
            }
            Event::Input(input) => {
                let line = format!("needs {:?}", input.request);
                let answer = match &*input.request {
                    InputRequest::ListRoots(_) => json!({"roots": [{"uri": "file:///harbour"}]}),
                    InputRequest::CreateMessage(_) => {
                        json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": "aye"}})
                    }
                    _ => json!({"action": "decline"}),
                };
                client.engine().answer(now, input.id, &answer).expect("open");
                line
            }
            Event::InputWithdrawn(_) => "no longer needs it".to_owned(),
            Event::Notification(n) => format!("heard {} {:?}", n.method, n.params),
            // The scripts use every feature.
            Event::Diagnostic(Diagnostic::DeprecatedFeature { .. }) => return,
            Event::Diagnostic(diagnostic) => format!("odd: {}", describe_diagnostic(&diagnostic)),
            Event::Closed(fault) => {
                let line = format!("closed: {fault}");
                self.client_fault = Some(fault);
                line
            }
            other => format!("{other:?}"),
        };
        self.client_log.push(line);
    }

    // ---- the server ------------------------------------------------------------------------------------------

    fn record_server_event(&mut self, now: Instant, server: &mut Server, event: server::Event) {
        use server::Event;
        assert!(self.server_fault.is_none(), "event after the end: {event:?}");
        let line = match event {
            Event::Call(call) => {
                self.channel = Some(call.channel());
                let line = describe_call(server, &call);
                self.run_tool(now, server, &call);
                line
            }
            Event::Cancelled { call, reason } => {
                let at = self.open_calls.iter().position(|(id, _)| *id == call);
                self.open_calls.remove(at.expect("a call that is open"));
                format!("cancelled: {reason:?}")
            }
            // Only legacy clients open a session.
            Event::SessionOpened { channel, .. } => {
                self.channel = Some(channel);
                return;
            }
            Event::Notification(n) => format!("heard {} {:?}", n.method, n.params),
            Event::Done { outcome, .. } => format!("client answered: {}", describe_outcome(&outcome)),
            Event::Diagnostic { diagnostic: Diagnostic::DeprecatedFeature { .. }, .. } => return,
            Event::Diagnostic { diagnostic, .. } => format!("odd: {}", describe_diagnostic(&diagnostic)),
            Event::Closed { fault, .. } => {
                let line = format!("closed: {fault}");
                self.server_fault = Some(fault);
                line
            }
            other => format!("{other:?}"),
        };
        self.server_log.push(line);
    }

    /// Runs one of the tools `echo`, `count`, `meta`, `fail` and `slow`; `slow` is left unanswered.
    fn run_tool(&mut self, now: Instant, server: &mut Server, call: &Call) {
        let id = call.id();
        let engine = server.engine();
        if call.method() == "tools/list" {
            let tools = ["echo", "count", "meta", "fail", "slow"].map(tool_definition);
            return engine.complete(now, id, &json!({"tools": tools})).expect("open");
        }
        if call.method() != "tools/call" {
            let params: Value = call.parse().expect("an object");
            return engine.complete(now, id, &json!({"tide": params["harbour"]})).expect("open");
        }
        let tool = match call.tool_call() {
            Ok(tool) => tool,
            Err(error) => return engine.fail(now, id, &error).expect("open"),
        };
        let arguments: Value = tool.parse().expect("an object");
        let text = match &*tool.name {
            "echo" => arguments["text"].as_str().unwrap_or_default().to_owned(),
            "meta" => own_meta(call).to_string(),
            "count" => {
                let to = arguments["to"].as_u64().unwrap_or(0);
                for i in 1..=u32::try_from(to).unwrap_or(0) {
                    let progress =
                        Progress::new(f64::from(i)).with_total(f64::from(u32::try_from(to).unwrap_or(0)));
                    engine.progress(now, id, progress).expect("open");
                }
                format!("counted to {to}")
            }
            "fail" => {
                let data = RawJson::new(r#"{"why":"you asked for it"}"#).expect("JSON");
                let error = RpcError::new(7, "no luck").with_data(data);
                return engine.fail(now, id, &error).expect("open");
            }
            "slow" => return self.open_calls.push((id, "slow".to_owned())),
            other => {
                let error = RpcError::invalid_params(format!("no such tool: {other}"));
                return engine.fail(now, id, &error).expect("open");
            }
        };
        engine.complete(now, id, &json!({"content": [{"type": "text", "text": text}]})).expect("open");
    }

    /// Completes the oldest call of `slow`.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn finish_slow(&mut self, now: Instant, server: &mut Server) {
        let (id, _) = self.open_calls.remove(0);
        let result = json!({"content": [{"type": "text", "text": "at last"}]});
        server.engine().complete(now, id, &result).expect("open");
    }
}

impl Applications for App {
    fn handle_client_event(&mut self, now: Instant, client: &mut Client, event: client::Event) {
        self.record_client_event(now, client, event);
    }

    fn handle_server_event(&mut self, now: Instant, server: &mut Server, event: server::Event) {
        self.record_server_event(now, server, event);
    }
}

fn tool_definition(name: &str) -> Value {
    json!({"name": name, "inputSchema": {"type": "object"}})
}

/// Returns `_meta` without the members of the protocol.
fn own_meta(call: &Call) -> Value {
    let mut meta = call.meta().map_or_else(|| json!({}), |m| to_value(&m));
    if let Some(meta) = meta.as_object_mut() {
        meta.retain(|key, _| !key.starts_with("io.modelcontextprotocol/") && key != "progressToken");
    }
    meta
}

fn describe_call(server: &mut Server, call: &Call) -> String {
    let peer = server.engine().peer(call);
    let mut params = call.params().map_or_else(|| json!({}), |p| to_value(&p));
    if let Some(params) = params.as_object_mut() {
        params.remove("_meta");
    }
    let info = peer.info.as_ref().map(to_value);
    let capabilities = to_value(&peer.capabilities);
    let mut line = format!("{} {params} with {} by {info:?} {capabilities}", call.method(), own_meta(call));
    if call.wants_progress() {
        line.push_str(", wants progress");
    }
    line
}

/// Describes an outcome without the members that the modern era adds to each result.
fn describe_outcome(outcome: &Result<RawJson, CallError>) -> String {
    match outcome {
        Ok(result) => {
            let mut result = to_value(result);
            if let Some(members) = result.as_object_mut() {
                for stamp in ["resultType", "ttlMs", "cacheScope", "_meta"] {
                    members.remove(stamp);
                }
            }
            result.to_string()
        }
        Err(CallError::Rpc(error)) => format!("{error:?}"),
        Err(error) => format!("not answered: {error}"),
    }
}

/// Describes a diagnostic without ids.
fn describe_diagnostic(diagnostic: &Diagnostic) -> String {
    let mut text = String::new();
    let _ = match diagnostic {
        Diagnostic::LateResponse(_) => write!(text, "late response"),
        Diagnostic::UnknownCancellation(_) => write!(text, "unknown cancel"),
        other => write!(text, "{other:?}"),
    };
    text
}
