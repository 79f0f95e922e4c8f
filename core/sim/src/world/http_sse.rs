//! HTTP+SSE of 2024-11-05 in a world: its paths, what the stream of a stranger brings, and what a stranger tries.
//!
//! A client gets all messages on one event stream, which is its connection. Each of its own messages is a request of its own.

use bytes::Bytes;
use mcp_proto::http::server::Config;
use serde_json::Value;

use super::http::{Exchange, Network, PATH, Request, STRANGER, StreamEvent, take_events};
use super::stranger::{
    INITIALIZED, LEGACY_TASK_METHODS, call, cancellation, initialize, legacy_task_request,
};
use super::{Application, Lane, What, World};

/// URL of the event stream.
pub(super) const URL: &str = "https://sim.example/sse";

/// Path of the event stream.
const STREAM: &str = "/sse";

/// Path for messages, with the name of the session behind it.
const MESSAGES: &str = "/messages?sessionId=";

/// A request of a stranger about what is of the client `n` has the id `PRESENTED + n`: its answer comes on another exchange.
const PRESENTED: usize = 1_000;

/// Serves the transport beside the MCP endpoint.
#[expect(deprecated, reason = "supported until its removal")]
pub(super) fn serve(config: Config) -> Config {
    config.http_sse(STREAM, "/messages")
}

/// Returns the session that a target names.
pub(super) fn session_of(target: &str) -> Option<String> {
    target.strip_prefix(MESSAGES).map(str::to_owned)
}

/// Returns whether an exchange is an event stream of this transport, or asks for one.
pub(super) fn is_stream(x: &Exchange) -> bool {
    x.request.target == STREAM
}

/// Takes what has come on the event stream of a stranger, who opens the session with it.
pub(super) fn overhear(x: &mut Exchange, network: &mut Network) -> Vec<What> {
    let is_foreign = x.client.is_none() && is_stream(x);
    let response = x.response.as_mut().filter(|response| is_foreign && response.is_event_stream);
    let Some(response) = response else { return Vec::new() };
    let mut heard = Vec::new();
    for StreamEvent { data, is_endpoint, .. } in take_events(&mut response.unparsed) {
        if is_endpoint {
            // The session ends with this exchange.
            x.request.session = session_of(&data).unwrap_or_default();
            network.foreign_session = Some(x.request.session.clone());
            let request = Request::new("POST", data.clone(), fields(true), Bytes::from(initialize()));
            network.open(None, Lane::World, request);
        }
        heard.push(What::Overheard { granted: granted(&data), text: data });
    }
    heard
}

/// Returns the client whose task an answer to a stranger is about.
fn granted(message: &str) -> Option<usize> {
    let message: Value = serde_json::from_str(message).ok()?;
    let id = usize::try_from(message.get("id")?.as_u64()?).ok()?;
    let result = message.get("result")?;
    let has_none = result["tasks"].as_array().is_some_and(Vec::is_empty);
    id.checked_sub(PRESENTED).filter(|_| !has_none)
}

/// Returns the fields of a request of a stranger.
fn fields(has_token: bool) -> Vec<(String, Vec<u8>)> {
    let token = has_token.then(|| ("Authorization", format!("Bearer {STRANGER}")));
    let kind = ("Content-Type", "application/json".to_owned());
    let fields = [("Accept", "application/json, text/event-stream".to_owned()), kind];
    let fields = fields.into_iter().chain(token);
    fields.map(|(name, value)| (name.to_owned(), value.into_bytes())).collect()
}

impl<A: Application> World<A> {
    /// Sends a request of a stranger, who presents what he knows of client `n`, or has a session of his own.
    pub(super) fn send_as_stranger_over_http_sse(&mut self, n: usize) {
        let secrets = self.secrets_of(n);
        let kind = self.draws.below(14);
        if let Some(kind) = kind.checked_sub(9) {
            return self.send_in_foreign_session(n, kind as usize);
        }
        let Some(session) = secrets.session else { return };
        let request = secrets.request.as_deref().unwrap_or("4");
        let body = match kind {
            // The next one is sent without a token.
            0 | 1 => call(9_999, ""),
            2 => cancellation(request),
            3 => r#"{"jsonrpc":"2.0","id":1,"result":{"action":"accept","content":{"text":"foreign"}}}"#
                .to_owned(),
            4 => "{".to_owned(),
            5 => call(2, ""),
            _ => String::new(),
        };
        let mut fields = fields(kind != 1);
        let (method, target) = match kind {
            0..=4 => ("POST", format!("{MESSAGES}{session}")),
            // Neither transport has the sessions of the other.
            5..=7 => {
                fields.push(("Mcp-Session-Id".to_owned(), session.into_bytes()));
                (["POST", "GET", "DELETE"][kind as usize - 5], PATH.to_owned())
            }
            _ => ("GET", format!("{MESSAGES}{session}")),
        };
        self.send_foreign_request(n, method, target, fields, body, true);
    }

    /// Sends a request in the session of a stranger, about a task of a client if `kind` is not 0. Opens the session if there is none.
    fn send_in_foreign_session(&mut self, n: usize, kind: usize) {
        let Some(session) = self.foreign_session() else {
            return self.send_foreign_request(
                n,
                "GET",
                STREAM.to_owned(),
                fields(true),
                String::new(),
                false,
            );
        };
        let target = format!("{MESSAGES}{session}");
        // Said again, it changes nothing.
        let initialized = INITIALIZED.to_owned();
        self.send_foreign_request(n, "POST", target.clone(), fields(true), initialized, false);
        let (n, body) = match kind.checked_sub(1) {
            None => (n, call(2, "")),
            Some(at) => {
                let (of, method, params) = self.choose_legacy_task(n, LEGACY_TASK_METHODS[at]);
                (of, legacy_task_request(PRESENTED + self.lane_of(of), method, &params))
            }
        };
        // The answer comes on the stream.
        self.send_foreign_request(n, "POST", target, fields(true), body, false);
    }
}
