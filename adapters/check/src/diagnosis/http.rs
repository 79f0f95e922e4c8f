//! The steps of a server over HTTP: from its URL to the first answer that an MCP client can read.

use core::time::Duration;
use std::io::{Read as _, Write as _};
use std::time::Instant;

use mcp_proto::frame::sse::{SseDecoder, SseItem};
use mcp_proto::head::Fields;
use mcp_proto::http::client::Url;
use mcp_proto::http::fields::SESSION_ID;
use mcp_proto_trace::escape::shell_word;
use serde_json::Value;

#[cfg(feature = "auth")]
use super::authorization;
use super::output::{is_answer, question};
use super::quote::clip;
use super::{Diagnosis, Ended, Fault, FaultKind, Passed, Steps, clock, network, status};
use crate::exchange::{
    self, CollectedResponse, EVENT_STREAM, HttpExchange, HttpResponseHead, HttpTarget, NoResponse,
};
use crate::text::seconds;

/// The response to the first message.
pub(super) struct Reply {
    pub(super) head: HttpResponseHead,
    pub(super) body: Vec<u8>,
    /// The JSON-RPC message of the body, or the answer in an event stream.
    pub(super) message: Option<Value>,
    /// Whether the response went on when reading ended.
    pub(super) is_open: bool,
    /// The session that the message began. It ends with this value.
    #[expect(dead_code, reason = "it is only dropped")]
    pub(super) session: Option<OpenedSession>,
}

/// A session that the first message began. It is ended when it is dropped, whatever the outcome: a server may keep only a few.
pub(super) struct OpenedSession {
    /// With the credential that opened it.
    target: HttpTarget,
    id: String,
    timeout: Duration,
}

impl Drop for OpenedSession {
    fn drop(&mut self) {
        let mut fields = Fields::new();
        fields.push(SESSION_ID, self.id.as_bytes());
        let until = Instant::now() + self.timeout.min(Duration::from_secs(2));
        // The response does not matter.
        let _ = exchange::perform(&self.target, "DELETE", fields, None, until);
    }
}

/// Connects, sends the first message, and judges the response.
pub(super) fn diagnose(
    steps: &mut Steps<'_>,
    diagnosis: &mut Diagnosis<'_>,
    url: &Url,
    fields: &[(String, String)],
) -> Result<(), Ended> {
    let (timeout, connect_timeout) = (diagnosis.timeout, diagnosis.connect_timeout);
    let proxy = network::ProxyVariables::read(url.origin());
    steps.check("proxy", Ok(proxy.judge()))?;
    let looked_up = network::look_up(url.origin(), &proxy, connect_timeout);
    let addresses = steps.record("dns", looked_up)?;
    let target = HttpTarget::new(url.clone(), addresses, fields.to_vec());
    let address = steps.record("tcp", network::connect(&target, &proxy, connect_timeout))?;
    let target = HttpTarget::new(url.clone(), vec![address], fields.to_vec());
    steps.check("tls", network::negotiate_tls(&target, connect_timeout))?;
    let reply = match send(&target, timeout) {
        Ok(reply) => status::check_gateway(&reply).map(|passed| (passed, reply)),
        Err(why) => Err(explain_no_reply(&target, why, timeout)),
    };
    let reply = steps.record("http", reply)?;
    steps.check("redirect", status::check_redirect(&target, &reply))?;
    let speaks_http_sse = steps.record("path", status::check_path(&target, &reply, timeout))?;
    steps.check("host", status::check_host(&target, &reply))?;
    let skew = reply.head.field("Date").and_then(clock::skew);
    steps.check("clock", Ok(clock::judge(skew)))?;
    let reply = authorize(steps, diagnosis, &target, reply, skew)?;
    match reply.filter(|_| !speaks_http_sse) {
        Some(reply) => {
            steps.check("content", status::check_content(&reply, timeout))?;
            steps.check("buffering", Ok(status::judge_buffering(&reply)))?;
        }
        None => {
            let why = "the next step shows the responses that matter";
            for step in ["content", "buffering"] {
                steps.check(step, Ok(Passed::Skipped(why.into())))?;
            }
        }
    }
    Ok(())
}

/// Goes through the steps of authorization. Returns the response that a request with a token got, if one could be made.
fn authorize(
    steps: &mut Steps<'_>,
    diagnosis: &mut Diagnosis<'_>,
    target: &HttpTarget,
    reply: Reply,
    skew: Option<i64>,
) -> Result<Option<Reply>, Ended> {
    if !status::asks_for_token(&reply) {
        for step in ["resource", "issuer", "token", "scopes"] {
            steps.check(step, Ok(Passed::Skipped("the server asks for no token here".into())))?;
        }
        return Ok(Some(reply));
    }
    #[cfg(feature = "auth")]
    return authorization::diagnose(steps, diagnosis, target, &reply, skew);
    #[cfg(not(feature = "auth"))]
    {
        let _ = (diagnosis, target, skew);
        let fault = Fault::new(
            "the server asks for a token",
            "none was sent, or it is refused; this mcp-probe was built without the feature `auth`, so it cannot look further",
            crate::hints::BEARER,
        );
        steps.check("token", Err(fault.with_kind(FaultKind::Unauthorized)))?;
        Ok(None)
    }
}

/// Sends the first message and reads its response, of an event stream as far as the answer.
pub(super) fn send(target: &HttpTarget, timeout: Duration) -> Result<Reply, NoResponse> {
    let mut fields = Fields::new();
    exchange::push_message_fields(&mut fields);
    let until = Instant::now() + timeout;
    let begun = HttpExchange::begin(target, "POST", fields, Some(question().as_bytes()), timeout);
    let (mut session, mut events, mut message) = (None, None, None);
    let read = |reply: &mut CollectedResponse, piece: Option<&[u8]>| {
        let Some(piece) = piece else {
            events = reply.head.has_media_type(EVENT_STREAM).then(|| SseDecoder::new(MAX_BODY));
            let id = reply.head.field(SESSION_ID).map(str::to_owned);
            session = id.map(|id| OpenedSession { target: target.clone(), id, timeout });
            return false;
        };
        if reply.body.len() <= MAX_BODY {
            reply.body.extend_from_slice(piece);
        }
        if let Some(events) = &mut events {
            events.push(piece);
            message = message.take().or_else(|| next_answer(events));
        }
        message.is_some()
    };
    let (CollectedResponse { head, body }, is_complete) =
        begun.map_err(NoResponse::Unconnected)?.collect(until, true, read)?;
    if events.is_none() {
        let parsed = serde_json::from_slice(&body).ok();
        message = parsed.filter(|message: &Value| message.get("jsonrpc").is_some());
    }
    Ok(Reply { head, body, message, is_open: !is_complete, session })
}

/// Returns the next answer in an event stream. Other messages may come before it.
fn next_answer(events: &mut SseDecoder) -> Option<Value> {
    while let Some(item) = events.next_event() {
        let SseItem::Event(event) = item else { continue };
        if let Some(message) = serde_json::from_slice(&event.data).ok().filter(is_answer) {
            return Some(message);
        }
    }
    None
}

/// Explains why there is no response.
pub(super) fn explain_no_reply(target: &HttpTarget, why: NoResponse, timeout: Duration) -> Fault {
    let origin = target.url().origin();
    let what = format!("{origin} sends no HTTP response");
    let why = match why {
        NoResponse::TimedOut => {
            return Fault::new(
                what,
                format!("it took the request and sent nothing within {}", seconds(timeout)),
                "is it busy, or waiting for a service behind it? Look at its log; if it is only slow, raise --timeout",
            )
            .with_kind(FaultKind::TimedOut);
        }
        NoResponse::Unconnected(error) => error.to_string(),
        NoResponse::Broken(why) => why,
    };
    let head = if origin.secure { Vec::new() } else { first_bytes(target).unwrap_or_default() };
    match head.as_slice() {
        [0x15 | 0x16, 0x03, ..] => {
            Fault::new(what, "the port speaks TLS, and the URL is http", "write https:// in the URL")
        }
        [] => Fault::new(
            what,
            why,
            "is this the port of the MCP server? It closed the connection; its log may tell why",
        ),
        bytes if !bytes.starts_with(b"HTTP/") => {
            let text = String::from_utf8_lossy(bytes);
            let line = text.lines().next().unwrap_or_default();
            let fix = if line.contains("\"jsonrpc\"") || line.starts_with('{') {
                format!(
                    "a server with one message per line may listen there: `mcp-probe doctor {}`",
                    shell_word(&format!("tcp://{}", origin.authority()))
                )
            } else {
                "give the host and the port of the MCP server".to_owned()
            };
            Fault::new(what, format!("another protocol is spoken there: {:?}", clip(line)), fix)
        }
        _ if why.contains(exchange::CLOSED) => Fault::new(
            what,
            "it answers a GET, and closes the connection when the first message is sent by POST",
            "read the log of the server: it may end, or fail, when it handles the request",
        ),
        _ => Fault::new(
            what,
            format!("its response is not valid HTTP: {why}"),
            "look at the server, or at the proxy before it: the head or the framing of its responses is broken",
        ),
    }
}

/// Returns the first bytes that the port sends to a plain request.
fn first_bytes(target: &HttpTarget) -> std::io::Result<Vec<u8>> {
    let mut stream = target.connect(FIRST_BYTES_TIMEOUT)?;
    stream.set_read_timeout(Some(FIRST_BYTES_TIMEOUT))?;
    let host = target.url().origin().authority();
    let request =
        format!("GET {} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n", target.url().target());
    // In one piece: what comes after an alert of TLS would reset the connection, and the alert with it.
    stream.write_all(request.as_bytes())?;
    let mut head = vec![0; 512];
    let read = stream.read(&mut head)?;
    head.truncate(read);
    Ok(head)
}

/// Maximum number of body bytes that are kept.
const MAX_BODY: usize = 1 << 20;
const FIRST_BYTES_TIMEOUT: Duration = Duration::from_secs(2);
