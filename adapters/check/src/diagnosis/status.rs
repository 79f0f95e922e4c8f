//! What the status and the fields of the first response tell.

use core::time::Duration;

use mcp_proto::http::client::Url;
use mcp_proto::http::fields::{LOCATION, WWW_AUTHENTICATE, X_ACCEL_BUFFERING};
use mcp_proto::rpc::code;
use mcp_proto_trace::escape::shell_word;
use serde::de::IgnoredAny;

use super::http::{self, Reply};
use super::output::is_answer;
use super::quote::clip;
use super::{Fault, FaultKind, Passed};
use crate::exchange::{EVENT_STREAM, HttpTarget, JSON};
use crate::text::seconds;

/// Checks that the server itself has answered, and is able to.
pub(super) fn check_gateway(reply: &Reply) -> Result<Passed, Fault> {
    let status = reply.head.status;
    let (why, fix) = match status {
        // What nginx and Go say.
        400 if names_tls(&reply.body) => {
            ("the port speaks TLS, and the URL is http", "write https:// in the URL")
        }
        _ if reply.message.is_some() => {
            return Ok(Passed::Ok(format!("the response has the status {status}")));
        }
        // A server that knows no POST is told by its path.
        _ if is_missing(reply) => return Ok(Passed::Ok(format!("the response has the status {status}"))),
        502 => (
            "a proxy answers, and the MCP server behind it is not running, or answers what the proxy does not understand",
            "start the server, and compare the address in the configuration of the proxy",
        ),
        503 => (
            "the server is overloaded or being started, or a proxy has no server to pass the request to",
            "wait and try again; look at the health of the server behind the proxy",
        ),
        504 => (
            "a proxy answers, and the MCP server behind it did not answer in time",
            "raise the read timeout of the proxy, and look at what the server waits for",
        ),
        429 => ("there were too many requests", "wait, or raise the rate limit of the server"),
        500.. => ("the server failed while it handled the request", "read the log of the server"),
        _ => return Ok(Passed::Ok(format!("the response has the status {status}"))),
    };
    Err(Fault::new(format!("the response has the status {status}{}", excerpt(reply)), why, fix))
}

/// Returns whether a body says that a request in the clear came to a port with TLS.
fn names_tls(body: &[u8]) -> bool {
    let text = String::from_utf8_lossy(body).to_lowercase();
    text.contains("https port") || text.contains("http request to an https server")
}

/// Checks that the response does not lead elsewhere.
pub(super) fn check_redirect(target: &HttpTarget, reply: &Reply) -> Result<Passed, Fault> {
    if !matches!(reply.head.status, 301 | 302 | 303 | 307 | 308) {
        return Ok(Passed::Ok("none".into()));
    }
    let (from, status) = (target.url(), reply.head.status);
    let Some(to) = reply.head.field(LOCATION).and_then(|to| from.resolve(to).ok()) else {
        return Err(Fault::new(
            format!("the status {status} redirects to nowhere"),
            "the response has no valid `Location`",
            "correct the redirect at the server, or give the URL that it should lead to",
        ));
    };
    let shown = shown(&to);
    let what = format!("the URL redirects to {shown} (status {status})");
    let path = to.target().to_ascii_lowercase();
    if path.split(['/', '.', '?']).any(|segment| LOGIN_SEGMENTS.contains(&segment)) {
        return Err(Fault::new(
            what,
            "it leads to a page where a person logs in, which an MCP client cannot do there",
            "exempt the path from the login of the proxy, and let the MCP server answer 401 with a Bearer challenge",
        )
        .with_kind(FaultKind::Unauthorized));
    }
    let is_upgrade = !from.origin().secure && to.origin().secure && from.origin().host == to.origin().host;
    let why = if is_upgrade {
        "the server wants https"
    } else if from.origin() == to.origin()
        && from.target().trim_end_matches('/') == to.target().trim_end_matches('/')
    {
        "the paths differ in the slash at the end"
    } else {
        "the server has moved, or the URL is not quite that of the MCP server"
    };
    Err(Fault::new(
        what,
        format!("{why}, and a redirect loses the body of a POST in many clients"),
        format!("give the URL {}", shell_word(&shown)),
    ))
}

/// Checks that the path leads to an MCP server. Returns whether it speaks HTTP+SSE.
pub(super) fn check_path(
    target: &HttpTarget,
    reply: &Reply,
    timeout: Duration,
) -> Result<(Passed, bool), Fault> {
    let (status, path) = (reply.head.status, target.url().target());
    if !is_missing(reply) {
        return Ok((Passed::Ok(Url::redacted(path)), false));
    }
    let timeout = timeout.min(CANDIDATE_TIMEOUT);
    if status != 410 && target.opens_event_stream(timeout) {
        let text = "it speaks HTTP+SSE of 2024-11-05, which is deprecated: new clients may not know it";
        return Ok((Passed::Warning(text.into()), true));
    }
    let what = format!("there is no MCP server at the path {}: the status is {status}", Url::redacted(path));
    let others = CANDIDATES.iter().filter(|candidate| **candidate != path);
    let found = others.filter_map(|candidate| target.url().resolve(candidate).ok()).find(|url| {
        let other = target.at(url.clone());
        answers(&other, timeout) || other.opens_event_stream(timeout)
    });
    Err(match found {
        Some(url) => Fault::new(
            what,
            format!("an MCP server answers at {}", url.target()),
            format!("give the URL {}", shell_word(&shown(&url))),
        ),
        None if matches!(status, 405 | 501) => Fault::new(
            what,
            "something is there that takes no POST, such as a page or a health check",
            "ask for the whole URL of the MCP server, with its path",
        ),
        None => Fault::new(
            what,
            format!("none of {} answers as an MCP server either", CANDIDATES.join(", ")),
            "ask for the whole URL of the MCP server, with its path; a proxy before it may cut a part of the path off",
        ),
    })
}

/// Returns whether there is no MCP server at the path. One may refuse the first message with 404, but then for its method.
fn is_missing(reply: &Reply) -> bool {
    let code = reply.message.as_ref().and_then(|message| message["error"]["code"].as_i64());
    matches!(reply.head.status, 404 | 405 | 410 | 501) && code != Some(code::METHOD_NOT_FOUND)
}

/// Returns whether an MCP server answers at a URL, if only by asking for a token.
fn answers(target: &HttpTarget, timeout: Duration) -> bool {
    http::send(target, timeout).is_ok_and(|reply| {
        (reply.message.is_some() && !is_missing(&reply))
            || (asks_for_token(&reply) && reply.head.bearer_challenge().is_some())
    })
}

/// Checks that the server takes the request for its own host, and from this client.
pub(super) fn check_host(target: &HttpTarget, reply: &Reply) -> Result<Passed, Fault> {
    let authority = target.url().origin().authority();
    let text = String::from_utf8_lossy(&reply.body).to_lowercase();
    // A JSON-RPC error for the request itself is one of the MCP server, which the next steps tell.
    let is_own = reply.message.as_ref().is_some_and(is_answer);
    let (why, fix) = match reply.head.status {
        421 => (
            "it does not take itself for this host (misdirected request)".to_owned(),
            format!("add {authority} to the allowed hosts of the server, or use the name that it knows"),
        ),
        403 if asks_for_token(reply) => return Ok(Passed::Ok(authority)),
        403 if names_any(&text, &ORIGIN_PHRASES) => (
            "it refuses the `Origin` of the request".to_owned(),
            "add the origin of the client to the allowed origins of the server; mcp-probe sends none unless --header does"
                .to_owned(),
        ),
        400 | 403 if names_any(&text, &HOST_PHRASES) => (
            "it refuses the `Host` of the request, to protect itself from pages that rebind a name".to_owned(),
            format!("add {authority} to the allowed hosts of the server, or use the name that it knows"),
        ),
        403 if !is_own => (
            "it, or a firewall before it, does not let this client in, and names no token that would help".to_owned(),
            "look for a list of allowed hosts, origins or addresses, or send the key that it wants with --header".to_owned(),
        ),
        _ => return Ok(Passed::Ok(authority)),
    };
    let what = format!(
        "the server refuses requests for {authority}: the status is {}{}",
        reply.head.status,
        excerpt(reply)
    );
    Err(Fault::new(what, why, fix).with_kind(FaultKind::Unauthorized))
}

/// Returns whether a text in lower case has one of the phrases, as whole words at their beginning.
fn names_any(text: &str, phrases: &[&str]) -> bool {
    let is_word = |at: usize| !text[..at].ends_with(char::is_alphanumeric);
    phrases.iter().any(|phrase| text.match_indices(phrase).any(|(at, _)| is_word(at)))
}

/// Returns whether the response refuses the request for want of a token or of a scope.
pub(super) fn asks_for_token(reply: &Reply) -> bool {
    match reply.head.status {
        401 => true,
        403 => reply.head.field(WWW_AUTHENTICATE).is_some(),
        _ => false,
    }
}

/// Checks that the response is an answer in a form that a client can read.
pub(super) fn check_content(reply: &Reply, timeout: Duration) -> Result<Passed, Fault> {
    let head = &reply.head;
    let is_stream = head.has_media_type(EVENT_STREAM);
    let failed = |what: String, why: &str, fix: &str| Err(Fault::new(what, why, fix));
    if let Some(message) = &reply.message {
        if !is_answer(message) && message["id"].is_null() {
            return failed(
                "the response is an error that belongs to no request".into(),
                &format!("it has no id: {}", clip(&message["error"].to_string())),
                "the error says what the server did not understand; it reads the body as one JSON-RPC message in UTF-8",
            );
        }
        if !is_answer(message) && head.is_success() {
            return failed(
                "the response belongs to another request".into(),
                "its id is not that of the request",
                "let the server return the id as it came: a number stays a number",
            );
        }
        return match is_stream || head.has_media_type(JSON) {
            true => Ok(Passed::Ok(if is_stream { EVENT_STREAM } else { JSON }.into())),
            false => failed(
                head.sentence(),
                "the body is a message, but its content type does not say so, and clients go by that",
                "let the server send `Content-Type: application/json`",
            ),
        };
    }
    Err(if is_stream { explain_stream(reply, timeout) } else { explain_body(reply) })
}

/// Explains an event stream without an answer.
fn explain_stream(reply: &Reply, timeout: Duration) -> Fault {
    if !reply.is_open {
        return Fault::new(
            "the event stream ends without an answer",
            "no event in it holds the response, as `data: {…}` and an empty line",
            "let the server write the answer before it ends the stream, and each event with an empty line behind it",
        );
    }
    Fault::new(
        "an event stream begins, and no answer comes in it",
        format!(
            "nothing arrived within {}: a proxy holds the events back until the stream ends (buffering or compression), or the server does not flush them",
            seconds(timeout)
        ),
        "let the server send `X-Accel-Buffering: no`, and switch buffering off in the proxy (nginx: `proxy_buffering off`)",
    )
    .with_kind(FaultKind::TimedOut)
}

/// Explains a response that is neither a message nor an event stream.
fn explain_body(reply: &Reply) -> Fault {
    let head = &reply.head;
    if head.has_media_type("text/html") {
        let text = String::from_utf8_lossy(&reply.body).to_lowercase();
        let is_login = ["password", "log in", "login", "sign in"].iter().any(|words| text.contains(words));
        let why = match is_login {
            true => "a page to log in stands before the server, which only a browser gets past",
            false => "the URL is that of a page, or of a proxy that answers with one",
        };
        return Fault::new(
            format!("the response is a page of HTML{}", title(&reply.body)),
            why,
            "give the URL of the MCP server itself, with its path, or exempt that path from the login",
        );
    }
    match head.status {
        202 | 204 => Fault::new(
            format!("the request was accepted with the status {} and not answered", head.status),
            "the server treats the request as a notification, or answers on another stream",
            "let the server answer a request in the response to its POST (Streamable HTTP)",
        ),
        406 => Fault::new(
            "the server finds no content type that it may send (status 406)",
            "`Accept` names application/json and text/event-stream, which a proxy may have changed",
            "let the server send one of these, and the proxy pass `Accept` on",
        ),
        415 => Fault::new(
            "the server does not take application/json (status 415)",
            "the URL belongs to another kind of service, or the server misreads `Content-Type`",
            "check the URL; an MCP server takes JSON in a POST",
        ),
        200..=299 => Fault::new(
            format!("{} and is no message{}", head.sentence(), excerpt(reply)),
            if serde_json::from_slice::<IgnoredAny>(&reply.body).is_ok() {
                "it is JSON, but not JSON-RPC: another API answers at this URL"
            } else {
                "an MCP server answers with application/json or text/event-stream, so something else answers at this URL"
            },
            "give the URL of the MCP server itself, with its path",
        ),
        _ => Fault::new(
            format!("the server refuses the first message with {}{}", head.summary(), excerpt(reply)),
            "the body of the response is no JSON-RPC error, so something before the MCP server, or another service, refuses it",
            "look at the log of the server and of the proxy before it; check the URL",
        ),
    }
}

/// Judges whether events reach the client at once.
pub(super) fn judge_buffering(reply: &Reply) -> Passed {
    let head = &reply.head;
    if !head.has_media_type(EVENT_STREAM) {
        return Passed::Skipped("the response is no event stream".into());
    }
    if head.field("Content-Length").is_some() {
        let text =
            "the event stream has a `Content-Length`: something collects it whole, so progress arrives late";
        return Passed::Warning(text.into());
    }
    if head.field(X_ACCEL_BUFFERING).is_some_and(|value| value.eq_ignore_ascii_case("no")) {
        return Passed::Ok("`X-Accel-Buffering: no`".into());
    }
    let text =
        "the event stream has no `X-Accel-Buffering: no`: a proxy such as nginx would hold events back";
    Passed::Warning(text.into())
}

/// Returns a URL without secrets.
pub(super) fn shown(url: &Url) -> String {
    Url::redacted(&format!("{}{}", url.origin(), url.target()))
}

/// Returns the beginning of a body of text, for the end of a sentence.
pub(super) fn excerpt(reply: &Reply) -> String {
    let text = String::from_utf8_lossy(&reply.body);
    let text = text.trim();
    match text.is_empty() || reply.head.has_media_type("text/html") {
        true => title(&reply.body),
        false => format!(" ({:?})", clip(text)),
    }
}

/// Returns the title of a page, for the end of a sentence.
fn title(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let title = text.split_once("<title>").and_then(|(_, rest)| rest.split_once("</title>"));
    title.map(|(title, _)| format!(" ({:?})", clip(title.trim()))).unwrap_or_default()
}

/// Segments of paths where a person logs in.
const LOGIN_SEGMENTS: [&str; 9] =
    ["login", "log-in", "signin", "sign-in", "sign_in", "sso", "oauth", "oauth2", "authorize"];
/// What servers and frameworks say about a `Host` that they do not take.
const HOST_PHRASES: [&str; 10] = [
    "invalid host",
    "host header",
    "http_host",
    "host not allowed",
    "host is not allowed",
    "disallowed host",
    "disallowedhost",
    "blocked host",
    "unknown host",
    "untrusted host",
];
/// The same about an `Origin`.
const ORIGIN_PHRASES: [&str; 8] = [
    "invalid origin",
    "origin header",
    "origin not allowed",
    "origin is not allowed",
    "disallowed origin",
    "forbidden origin",
    "untrusted origin",
    "unknown origin",
];
/// Paths where MCP servers are found.
const CANDIDATES: [&str; 6] = ["/mcp", "/sse", "/mcp/", "/", "/api/mcp", "/mcp/sse"];
/// Time that one of [`CANDIDATES`] has to answer.
const CANDIDATE_TIMEOUT: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::HttpResponseHead;

    fn reply(status: u16, body: &str) -> Reply {
        let message = serde_json::from_str(body).ok();
        Reply {
            head: HttpResponseHead::new(status),
            body: body.into(),
            message,
            is_open: false,
            session: None,
        }
    }

    fn target() -> HttpTarget {
        HttpTarget::new(Url::parse("http://h.example/mcp").expect("a URL"), Vec::new(), Vec::new())
    }

    #[test]
    fn missing_method_of_http_is_not_told_as_a_failure_of_the_server() {
        assert!(check_gateway(&reply(501, "Unsupported method ('POST')")).is_ok());
        assert!(check_gateway(&reply(505, "")).is_err());
    }

    #[test]
    fn host_is_blamed_only_in_whole_phrases() {
        let is_host = |status, body| {
            let outcome = check_host(&target(), &reply(status, body));
            outcome.err().map(|fault| fault.why.contains("refuses the `Host`"))
        };
        assert_eq!(is_host(403, "Invalid Host header"), Some(true));
        assert_eq!(is_host(400, "Bad Request: host not allowed"), Some(true));
        let error = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Invalid Host: a"}}"#;
        assert_eq!(is_host(403, error), Some(true));
        let error = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"ghost session"}}"#;
        assert_eq!((is_host(400, error), is_host(403, error)), (None, None));
        assert_eq!(is_host(403, "ghost header, original"), Some(false));
        assert_eq!(is_host(400, "the database host is down"), None);
    }
}
