//! Requests of a stranger over HTTP: a party with a valid token, who knows the secrets of a client, and has a session of his own.

use bytes::Bytes;

use super::http::{PATH, Request, STRANGER};
use super::{Application, Binding, Lane, What, World};

pub(super) const MODERN: &str = "2026-07-28";
/// The legacy revision with tasks.
const LEGACY: &str = "2025-11-25";

/// Requests about tasks of others that a stranger sends in a session of his own.
pub(super) const LEGACY_TASK_METHODS: [&str; 4] = ["tasks/list", "tasks/get", "tasks/result", "tasks/cancel"];

/// The confirmation of a handshake.
pub(super) const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

impl<A: Application> World<A> {
    /// Sends a request of a stranger, who presents what he knows of client `n`.
    pub(super) fn send_as_stranger(&mut self, n: usize) {
        if self.plan.binding == Binding::HttpSse {
            return self.send_as_stranger_over_http_sse(n);
        }
        let secrets = self.secrets_of(n);
        let kind = self.draws.below(17);
        if let Some(method) = (kind as usize).checked_sub(13).map(|at| LEGACY_TASK_METHODS[at]) {
            return self.ask_for_legacy_task(n, method);
        }
        let (method, body) = match kind {
            0 => ("POST", "{".to_owned()),
            1 => ("POST", call(2, "")),
            2 => ("POST", modern_call(secrets.request.as_deref().unwrap_or("3"))),
            3 | 4 => ("POST", call(9_999, "")),
            5 => ("POST", cancellation(secrets.request.as_deref().unwrap_or("4"))),
            6 => ("DELETE", String::new()),
            10.. => {
                let Some(task) = &secrets.task else { return };
                ("POST", task_request(task_method(kind), task))
            }
            _ => ("GET", String::new()),
        };
        let is_presented = match kind {
            0 | 2 => false,
            10.. => true,
            _ => secrets.session.is_some(),
        };
        let mut fields = vec![
            ("Accept", "application/json, text/event-stream".to_owned()),
            ("Content-Type", "application/json".to_owned()),
        ];
        match kind {
            // Nobody at all.
            3 => {}
            _ => fields.push(("Authorization", format!("Bearer {STRANGER}"))),
        }
        match (kind, secrets.session) {
            (2, _) => fields.extend([
                ("MCP-Protocol-Version", MODERN.to_owned()),
                ("Mcp-Method", "tools/call".to_owned()),
                ("Mcp-Name", "mark".to_owned()),
            ]),
            (10.., _) => fields.extend([
                ("MCP-Protocol-Version", MODERN.to_owned()),
                ("Mcp-Method", task_method(kind).to_owned()),
                ("Mcp-Name", secrets.task.unwrap_or_default()),
            ]),
            (1.., Some(session)) => fields.push(("Mcp-Session-Id", session)),
            _ => {}
        }
        if matches!(kind, 8 | 9) {
            fields.extend(secrets.event.map(|event| ("Last-Event-ID", event)));
        }
        self.send_to_endpoint(n, method, fields, body, is_presented);
    }

    /// Asks for a task of client `n`, or of another one, or for all tasks, in a session that the stranger has opened himself.
    fn ask_for_legacy_task(&mut self, n: usize, method: &str) {
        let mut fields = vec![
            ("Accept", "application/json, text/event-stream".to_owned()),
            ("Content-Type", "application/json".to_owned()),
            ("Authorization", format!("Bearer {STRANGER}")),
            ("MCP-Protocol-Version", LEGACY.to_owned()),
        ];
        let Some(session) = self.foreign_session() else {
            return self.send_to_endpoint(n, "POST", fields, initialize(), false);
        };
        fields.push(("Mcp-Session-Id", session));
        // Said again, it changes nothing.
        self.send_to_endpoint(n, "POST", fields.clone(), INITIALIZED.to_owned(), false);
        let (n, method, params) = self.choose_legacy_task(n, method);
        self.send_to_endpoint(n, "POST", fields, legacy_task_request(2, method, &params), true);
    }

    /// Chooses a task of client `n`, or of another one, and returns its owner, the method and the parameters of a request about it.
    /// Without a task the request is about all of them.
    pub(super) fn choose_legacy_task<'m>(&mut self, n: usize, method: &'m str) -> (usize, &'m str, String) {
        let clients = self.connections.len();
        let known = (n..n + clients).find_map(|of| Some((of % clients, self.secrets_of(of % clients).task?)));
        match known {
            Some((of, task)) if method != "tasks/list" => (of, method, format!(r#""taskId":"{task}""#)),
            _ => (n, "tasks/list", String::new()),
        }
    }

    /// Sends a request of a stranger to the MCP endpoint.
    pub(super) fn send_to_endpoint(
        &mut self,
        n: usize,
        method: &'static str,
        fields: Vec<(&'static str, String)>,
        body: String,
        is_presented: bool,
    ) {
        let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value.into_bytes()));
        self.send_foreign_request(n, method, PATH.to_owned(), fields.collect(), body, is_presented);
    }

    pub(super) fn send_foreign_request(
        &mut self,
        n: usize,
        method: &'static str,
        target: String,
        fields: Vec<(String, Vec<u8>)>,
        body: String,
        is_presented: bool,
    ) {
        let text = format!("a stranger, as client {n}: {method} {body}");
        self.record(Lane::World, What::Fault { text });
        let mut request = Request::new(method, target, fields, Bytes::from(body));
        request.presents = Some(self.lane_of(n)).filter(|_| is_presented);
        self.send_foreign(request);
    }
}

pub(super) fn call(id: u32, more: &str) -> String {
    let params = format!(r#"{{"name":"mark","arguments":{{"mark":"foreign"}}{more}}}"#);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#)
}

fn task_method(kind: u32) -> &'static str {
    match kind {
        10 => "tasks/get",
        11 => "tasks/cancel",
        _ => "tasks/update",
    }
}

fn task_request(method: &str, task: &str) -> String {
    let meta = format!(
        r#""_meta":{{"io.modelcontextprotocol/protocolVersion":"{MODERN}","io.modelcontextprotocol/clientCapabilities":{{"extensions":{{"io.modelcontextprotocol/tasks":{{}}}}}}}}"#
    );
    let params = format!(r#"{{"taskId":"{task}","inputResponses":{{}},{meta}}}"#);
    format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#)
}

/// Returns a call with the id of another one.
fn modern_call(id: &str) -> String {
    let meta = format!(
        r#","_meta":{{"io.modelcontextprotocol/protocolVersion":"{MODERN}","io.modelcontextprotocol/clientCapabilities":{{}}}}"#
    );
    call(0, &meta).replacen(r#""id":0"#, &format!(r#""id":{id}"#), 1)
}

pub(super) fn initialize() -> String {
    let client = r#""capabilities":{},"clientInfo":{"name":"stranger","version":"1"}"#;
    let params = format!(r#"{{"protocolVersion":"{LEGACY}",{client}}}"#);
    format!(r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{params}}}"#)
}

/// Returns a request about a task in a session.
pub(super) fn legacy_task_request(id: usize, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{params}}}}}"#)
}

pub(super) fn cancellation(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#)
}
