//! The two applications of a [`Pair`](super::Pair): a server with a few tools and a client that keeps books.
//!
//! What they write down names neither era nor revision, so that it can be compared over all of them.

use core::fmt::Write as _;

use mcp_proto::model::InputRequest;
use mcp_proto::pipe::{Client, Server};
use mcp_proto::server::Call;
use mcp_proto::{
    CallError, CallId, CallKey, CallOptions, Diagnostic, Instant, Progress, RawJson, RpcError, UseError,
    client, server,
};
use serde_json::{Value, json};

use super::build::value;
use super::pair::Applications;

/// Both applications
#[derive(Debug, Default)]
pub struct App {
    /// What the client's application was told
    pub client_log: Vec<String>,
    /// What the server's application was told
    pub server_log: Vec<String>,
    /// The server, once known
    pub peer: Option<client::Peer>,
    /// Calls that the server has not answered, oldest first, with their tools
    pub open: Vec<(CallId, String)>,
    /// Requests of the server that the client has not answered
    pub asked: Vec<client::Request>,
    /// Whether `ask` waits for [`asked`](Self::asked) to be answered by the test
    pub client_waits: bool,
    /// The channel of the server's stream, once something was heard on it
    pub channel: Option<mcp_proto::tap::ChannelId>,
    /// Why the client's side is over
    pub client_end: Option<mcp_proto::Fault>,
    /// Why the server's side is over
    pub server_end: Option<mcp_proto::Fault>,
    names: Vec<(CallKey, String)>,
}

impl App {
    // ---- the client ------------------------------------------------------------------------------------------

    /// Makes a call that is `name`d in the log
    ///
    /// # Errors
    ///
    /// What the client refuses it with.
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

    /// Names a call that was made directly
    pub fn name(&mut self, key: CallKey, name: &str) {
        self.names.push((key, name.to_owned()));
    }

    /// How the call of this name ended, as the log has it
    #[must_use]
    pub fn outcome(&self, name: &str) -> Option<&str> {
        self.client_log.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix(" ended: "))
    }

    /// Calls of the client without an outcome
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.names.len()
    }

    /// One of these
    #[must_use]
    pub fn any_waiting(&self, which: usize) -> Option<CallKey> {
        self.names.get(which.checked_rem(self.names.len())?).map(|(key, _)| *key)
    }

    fn name_of(&self, key: CallKey) -> &str {
        let found = self.names.iter().find(|(k, _)| *k == key);
        &found.unwrap_or_else(|| panic!("{key:?} is no call, or one that has ended")).1
    }

    fn hear(&mut self, now: Instant, client: &mut Client, event: client::Event) {
        use client::Event;
        assert!(self.client_end.is_none(), "after the end: {event:?}");
        let line = match event {
            Event::Ready(peer) => {
                let info = peer.info.as_ref().map(value);
                let line = format!("ready: {info:?} {} {:?}", peer.capabilities, peer.instructions);
                self.peer = Some(peer);
                line
            }
            Event::Done { call, outcome, .. } => {
                let line = format!("{} ended: {}", self.name_of(call), outcome_text(&outcome));
                // Once is enough.
                self.names.retain(|(key, _)| *key != call);
                line
            }
            Event::Progress { call, progress } => format!("{} progress {progress:?}", self.name_of(call)),
            Event::Request(request) => {
                let line = format!("asked {} {:?}", request.method, request.params);
                if self.client_waits {
                    self.asked.push(request);
                } else {
                    client.engine().respond(now, request.id, &json!({"said": "yes"})).expect("open");
                }
                line
            }
            Event::RequestCancelled(id) => {
                self.asked.retain(|r| r.id != id);
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
            Event::InputGone(_) => "no longer needs it".to_owned(),
            Event::Notification(n) => format!("heard {} {:?}", n.method, n.params),
            Event::Diagnostic(diagnostic) => format!("odd: {}", odd(&diagnostic)),
            Event::Closed(fault) => {
                let line = format!("closed: {fault}");
                self.client_end = Some(fault);
                line
            }
            other => format!("{other:?}"),
        };
        self.client_log.push(line);
    }

    // ---- the server ------------------------------------------------------------------------------------------

    fn serve(&mut self, now: Instant, server: &mut Server, event: server::Event) {
        use server::Event;
        assert!(self.server_end.is_none(), "after the end: {event:?}");
        let line = match event {
            Event::Call(call) => {
                self.channel = Some(call.channel());
                let line = call_text(server, &call);
                self.work(now, server, &call);
                line
            }
            Event::Cancelled { call, reason } => {
                let at = self.open.iter().position(|(id, _)| *id == call);
                self.open.remove(at.expect("a call that is open"));
                format!("cancelled: {reason:?}")
            }
            // Only legacy clients open one.
            Event::SessionOpened { channel, .. } => {
                self.channel = Some(channel);
                return;
            }
            Event::Notification(n) => format!("heard {} {:?}", n.method, n.params),
            Event::Done { outcome, .. } => format!("client answered: {}", outcome_text(&outcome)),
            Event::Diagnostic { diagnostic, .. } => format!("odd: {}", odd(&diagnostic)),
            Event::Closed { fault, .. } => {
                let line = format!("closed: {fault}");
                self.server_end = Some(fault);
                line
            }
            other => format!("{other:?}"),
        };
        self.server_log.push(line);
    }

    /// The tools: `echo`, `count`, `meta`, `fail` and `slow`, which is never answered
    fn work(&mut self, now: Instant, server: &mut Server, call: &Call) {
        let id = call.id();
        let engine = server.engine();
        if call.method() == "tools/list" {
            let tools = ["echo", "count", "meta", "fail", "slow"].map(tool);
            return engine.complete(now, id, &json!({"tools": tools})).expect("open");
        }
        if call.method() != "tools/call" {
            let params: Value = call.parse().expect("an object");
            return engine.complete(now, id, &json!({"tide": params["harbour"]})).expect("open");
        }
        let tool = match call.tool() {
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
                    let progress = Progress::new(f64::from(i)).of(f64::from(u32::try_from(to).unwrap_or(0)));
                    engine.progress(now, id, progress).expect("open");
                }
                format!("counted to {to}")
            }
            "fail" => {
                let data = RawJson::new(r#"{"why":"you asked for it"}"#).expect("JSON");
                let error = RpcError::new(7, "no luck").with_data(data);
                return engine.fail(now, id, &error).expect("open");
            }
            "slow" => return self.open.push((id, "slow".to_owned())),
            other => {
                let error = RpcError::invalid_params(format!("no such tool: {other}"));
                return engine.fail(now, id, &error).expect("open");
            }
        };
        engine.complete(now, id, &json!({"content": [{"type": "text", "text": text}]})).expect("open");
    }

    /// Answers the oldest call of `slow`
    ///
    /// # Panics
    ///
    /// When there is none.
    pub fn finish_slow(&mut self, now: Instant, server: &mut Server) {
        let (id, _) = self.open.remove(0);
        let result = json!({"content": [{"type": "text", "text": "at last"}]});
        server.engine().complete(now, id, &result).expect("open");
    }
}

impl Applications for App {
    fn client(&mut self, now: Instant, client: &mut Client, event: client::Event) {
        self.hear(now, client, event);
    }

    fn server(&mut self, now: Instant, server: &mut Server, event: server::Event) {
        self.serve(now, server, event);
    }
}

fn tool(name: &str) -> Value {
    json!({"name": name, "inputSchema": {"type": "object"}})
}

/// `_meta` without what the protocol put there
fn own_meta(call: &Call) -> Value {
    let mut meta = call.meta().map_or_else(|| json!({}), |m| value(&m));
    if let Some(meta) = meta.as_object_mut() {
        meta.retain(|key, _| !key.starts_with("io.modelcontextprotocol/") && key != "progressToken");
    }
    meta
}

fn call_text(server: &mut Server, call: &Call) -> String {
    let peer = server.engine().peer(call);
    let mut params = call.params().map_or_else(|| json!({}), |p| value(&p));
    if let Some(params) = params.as_object_mut() {
        params.remove("_meta");
    }
    let info = peer.info.as_ref().map(value);
    let capabilities = value(&peer.capabilities);
    let mut line = format!("{} {params} with {} by {info:?} {capabilities}", call.method(), own_meta(call));
    if call.wants_progress() {
        line.push_str(", wants progress");
    }
    line
}

/// A result without what the modern era adds to every one
fn outcome_text(outcome: &Result<RawJson, CallError>) -> String {
    match outcome {
        Ok(result) => {
            let mut result = value(result);
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

/// A diagnostic without ids
fn odd(diagnostic: &Diagnostic) -> String {
    let mut text = String::new();
    let _ = match diagnostic {
        Diagnostic::LateResponse(_) => write!(text, "late response"),
        Diagnostic::UnknownCancel(_) => write!(text, "unknown cancel"),
        other => write!(text, "{other:?}"),
    };
    text
}
