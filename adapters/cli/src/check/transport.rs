//! What is wrong with how a server speaks HTTP, besides what its answers show

use mcp_proto::Version;
use mcp_proto::head::Fields;
use mcp_proto::http::fields::{ACCEPT, METHOD, NAME, ORIGIN, PROTOCOL_VERSION, SESSION_ID};
use serde_json::{Value, json};

use super::exchange::Reply;
use super::remote::EVENT_STREAM;
use super::rules::{self, Rule};
use super::talk::Talk;

/// Whom nobody lets in
const STRANGER: &str = "https://mcp-probe.invalid";
/// A session that there never was
const UNKNOWN_SESSION: &str = "mcp-probe-unknown";
/// A revision that there never was
const UNKNOWN_VERSION: &str = "1999-12-31";

/// All of it; `alone` says that the server is known to speak no other era
pub(super) fn check(talk: &mut Talk<'_>, alone: bool) {
    origin(talk);
    get(talk, alone);
    if talk.is_modern() {
        mirror(talk);
    } else {
        version(talk);
        session(talk);
    }
}

/// A request that is answered for sure
fn sure(talk: &mut Talk<'_>) -> Value {
    let (id, method, params) = (talk.new_id(), talk.sure(), talk.with_meta(json!({})));
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// What a request with other fields is answered with; silence is a finding
fn post(talk: &Talk<'_>, place: &str, message: &Value, change: impl Fn(Fields) -> Fields) -> Option<Reply> {
    let remote = talk.remote()?;
    let body = message.to_string();
    answered(
        talk,
        place,
        remote.perform("POST", change(remote.fields(message)), Some(body.as_bytes()), talk.setup().timeout),
    )
}

fn answered(talk: &Talk<'_>, place: &str, reply: Result<Reply, String>) -> Option<Reply> {
    reply.map_err(|why| talk.report.add(rules::HTTP_UNANSWERED, place, why)).ok()
}

/// Adds a finding when the status is another one
fn expect(talk: &Talk<'_>, rule: &'static Rule, place: &str, reply: Option<Reply>, wanted: &[u16]) {
    let Some(Reply { head, .. }) = reply else { return };
    if !wanted.contains(&head.status) {
        talk.report.add(rule, place, format!("the response has {}", head.text()));
    }
}

fn with(name: &'static str, value: &'static str) -> impl Fn(Fields) -> Fields {
    move |fields| {
        let mut changed = without(name)(fields);
        changed.push(name, value.as_bytes());
        changed
    }
}

fn without(name: &'static str) -> impl Fn(Fields) -> Fields {
    move |fields| {
        let mut changed = Fields::new();
        for (other, value) in fields.iter().filter(|(other, _)| *other != name) {
            changed.push(other, value);
        }
        changed
    }
}

fn origin(talk: &mut Talk<'_>) {
    let message = sure(talk);
    let place = format!("a request with `{ORIGIN}: {STRANGER}`");
    let reply = post(talk, &place, &message, with(ORIGIN, STRANGER));
    expect(talk, rules::HTTP_ORIGIN, &place, reply, &[403]);
}

fn get(talk: &Talk<'_>, alone: bool) {
    let (Some(remote), modern) = (talk.remote(), talk.is_modern()) else { return };
    if modern && !alone {
        // It may be the stream of a legacy session.
        return;
    }
    let mut fields = remote.own_fields();
    fields.push(ACCEPT, EVENT_STREAM.as_bytes());
    if modern {
        fields.push(PROTOCOL_VERSION, talk.version().as_str().as_bytes());
    }
    let reply = remote.perform("GET", fields, None, talk.setup().timeout);
    let Some(reply) = answered(talk, "GET", reply) else { return };
    if modern {
        expect(talk, rules::HTTP_GET_MODERN, "GET", Some(reply), &[405]);
    } else if !(reply.head.status == 200 && reply.head.is_of(EVENT_STREAM)) {
        expect(talk, rules::HTTP_GET, "GET", Some(reply), &[405]);
    }
}

/// Headers that say something else than the body
fn mirror(talk: &mut Talk<'_>) {
    let other = with(METHOD, "tools/list");
    let cases: [(&str, &dyn Fn(Fields) -> Fields); 3] = [
        ("a request with `Mcp-Method` of another one", &other),
        ("a request without `Mcp-Method`", &without(METHOD)),
        ("a request with another revision in `MCP-Protocol-Version`", &with(PROTOCOL_VERSION, "2025-11-25")),
    ];
    for (place, change) in cases {
        let message = sure(talk);
        mirrored(talk, place, &message, change);
    }
    if talk.capabilities["tools"].is_object() {
        // There is no such tool, so nothing is called.
        let params = talk.with_meta(json!({"name": "mcp-probe-unknown", "arguments": {}}));
        let id = talk.new_id();
        let message = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        mirrored(
            talk,
            "a call of a tool with the `Mcp-Name` of another one",
            &message,
            &with(NAME, "mcp-probe-other"),
        );
        mirrored(talk, "a call of a tool without `Mcp-Name`", &message, &without(NAME));
    }
}

fn mirrored(talk: &Talk<'_>, place: &str, message: &Value, change: &dyn Fn(Fields) -> Fields) {
    let Some(Reply { head, body }) = post(talk, place, message, change) else { return };
    let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
    let code = &answer["error"]["code"];
    if head.status != 400 || *code != -32020 {
        let what = format!("the response has {}, and {code} for the code of an error", head.text());
        talk.report.add(rules::HTTP_MIRROR, place, what);
    }
}

fn version(talk: &mut Talk<'_>) {
    if talk.version() >= Version::V2025_06_18 {
        let message = sure(talk);
        let place = format!("a request with `{PROTOCOL_VERSION}: {UNKNOWN_VERSION}`");
        let reply = post(talk, &place, &message, with(PROTOCOL_VERSION, UNKNOWN_VERSION));
        expect(talk, rules::HTTP_VERSION, &place, reply, &[400]);
    }
}

/// Sessions that are none, and the end of the one at hand
fn session(talk: &mut Talk<'_>) {
    if talk.remote().is_none_or(|remote| remote.session.is_none()) {
        return;
    }
    let message = sure(talk);
    let place = format!("a request with `{SESSION_ID}: {UNKNOWN_SESSION}`");
    let reply = post(talk, &place, &message, with(SESSION_ID, UNKNOWN_SESSION));
    expect(talk, rules::HTTP_SESSION_UNKNOWN, &place, reply, &[404]);
    let message = sure(talk);
    let place = format!("a request without `{SESSION_ID}`");
    let reply = post(talk, &place, &message, without(SESSION_ID));
    expect(talk, rules::HTTP_SESSION_MISSING, &place, reply, &[400]);

    let Some(remote) = talk.remote() else { return };
    let reply = remote.perform("DELETE", remote.own_fields(), None, talk.setup().timeout);
    let Some(reply) = answered(talk, "DELETE", reply) else { return };
    if !reply.head.is_success() {
        return expect(talk, rules::HTTP_DELETE, "DELETE", Some(reply), &[405]);
    }
    let message = sure(talk);
    let place = "a request after DELETE";
    let reply = post(talk, place, &message, |fields| fields);
    expect(talk, rules::HTTP_DELETE, place, reply, &[404]);
}
