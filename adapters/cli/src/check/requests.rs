//! Requests that are wrong, and a few that are not

use mcp_proto::router::template::{Screen, Template};
use mcp_proto::{RawJson, Version};
use serde_json::{Value, json};

use super::lists::{Kind, Lists};
use super::rules::{self, Rule};
use super::talk::{Answer, Provoked, Talk};
use super::{is, place};

/// Sends all of them
pub(super) fn all(talk: &mut Talk<'_>, lists: &Lists) {
    ping(talk);
    ids(talk);
    burst(talk);
    unknown_method(talk);
    missing_params(talk, lists);
    unknown_names(talk, lists);
    prompt_arguments(talk, lists);
    capabilities(talk);
    notification(talk);
    broken_lines(talk);
    envelopes(talk);
    batch(talk);
}

fn ping(talk: &mut Talk<'_>) {
    let answer = talk.request("ping", Value::Null);
    let place = "`ping`";
    if talk.is_modern() {
        let what = match answer {
            Answer::Error(failed) if is(&failed, -32601) => return,
            Answer::Error(failed) => format!("it got the error {}", failed.text()),
            Answer::Result(_) => "it was answered with a result".into(),
            Answer::None => return,
        };
        return talk.report.add(rules::REMOVED_METHOD, place, what);
    }
    let what = match answer {
        Answer::Error(failed) => format!("it got the error {}", failed.text()),
        Answer::Result(raw) => {
            let value: Value = raw.parse().unwrap_or_default();
            let more = value.as_object().into_iter().flatten().find(|(name, _)| *name != "_meta");
            let Some((name, _)) = more else { return };
            format!("the result has a member `{name}`")
        }
        Answer::None => return,
    };
    talk.report.add(rules::PING, place, what);
}

/// Ids that look like other ones
fn ids(talk: &mut Talk<'_>) {
    for id in [json!("007"), json!(0), json!("mcp-probe \u{e9}\"\\/")] {
        let method = talk.sure();
        talk.request_with_id(&id, method);
    }
}

fn burst(talk: &mut Talk<'_>) {
    let method = talk.sure();
    if let Some(answered) = talk.burst(method, BURST).filter(|answered| *answered < BURST) {
        let what = format!("of {BURST} requests sent at once, {answered} were answered");
        talk.report.add(rules::PARALLEL, &place(method), what);
    }
}

fn unknown_method(talk: &mut Talk<'_>) {
    let what = match talk.request("mcp-probe/unknown", Value::Null) {
        Answer::Error(failed) if is(&failed, -32601) => return,
        Answer::Error(failed) => format!("it got the error {}", failed.text()),
        Answer::Result(_) => "it was answered with a result".into(),
        Answer::None => return,
    };
    talk.report.add(rules::UNKNOWN_METHOD, "an unknown method", what);
}

fn missing_params(talk: &mut Talk<'_>, lists: &Lists) {
    let rows =
        [(Kind::Tools, "tools/call"), (Kind::Resources, "resources/read"), (Kind::Prompts, "prompts/get")];
    for (kind, method) in rows {
        if !lists.has(kind) {
            continue;
        }
        let place = format!("`{method}` without params");
        let answer = talk.request(method, Value::Null);
        match &answer {
            Answer::Error(failed) if talk.is_refusal(failed, -32602) => {}
            Answer::Error(failed) => {
                talk.report.add(rules::PARAMS_CODE, &place, format!("it got the error {}", failed.text()));
            }
            Answer::Result(_) if says_error(&answer) => {
                talk.report.add(rules::PARAMS_CODE, &place, "it got a result that says `isError`");
            }
            Answer::Result(_) => {
                talk.report.add(rules::PARAMS_ACCEPTED, &place, "it was answered with a result");
            }
            Answer::None => {}
        }
    }
}

/// Whether it is the result of a tool that failed
fn says_error(answer: &Answer) -> bool {
    answer.result().is_some_and(|result| result["isError"] == true)
}

fn unknown_names(talk: &mut Talk<'_>, lists: &Lists) {
    if lists.has(Kind::Tools) {
        // There is no such tool, so nothing is called.
        let answer = talk.request("tools/call", json!({"name": UNKNOWN, "arguments": {}}));
        let place = "`tools/call` with an unknown tool";
        match &answer {
            Answer::Error(failed) if is(failed, -32602) => {}
            Answer::Error(failed) => {
                talk.report.add(
                    rules::UNKNOWN_TOOL_CODE,
                    place,
                    format!("it got the error {}", failed.text()),
                );
            }
            Answer::Result(_) if says_error(&answer) => {
                talk.report.add(rules::UNKNOWN_TOOL_RESULT, place, "it got a result that says `isError`");
            }
            Answer::Result(_) => {
                talk.report.add(rules::UNKNOWN_TOOL_ACCEPTED, place, "it was answered with a result");
            }
            Answer::None => {}
        }
    }
    if lists.has(Kind::Prompts) {
        let answer = talk.request("prompts/get", json!({"name": UNKNOWN}));
        refused(talk, &answer, rules::UNKNOWN_PROMPT, "`prompts/get` with an unknown prompt");
    }
    if lists.has(Kind::Resources) {
        unknown_resource(talk, lists);
    }
}

/// An answer has to be an error with -32602
fn refused(talk: &Talk<'_>, answer: &Answer, rule: &'static Rule, place: &str) {
    let what = match answer {
        Answer::Error(failed) if is(failed, -32602) => return,
        Answer::Error(failed) => format!("it got the error {}", failed.text()),
        Answer::Result(_) => "it was answered with a result".into(),
        Answer::None => return,
    };
    talk.report.add(rule, place, what);
}

fn unknown_resource(talk: &mut Talk<'_>, lists: &Lists) {
    // Where any URI means something there is no unknown one.
    let taken = |template: &RawJson| {
        let template = template.member("uriTemplate").and_then(|text| Template::new(&text.string()?).ok());
        template.is_some_and(|template| template.matches(UNKNOWN_URI, Screen::dangerously_off()).is_ok())
    };
    if lists.of(Kind::Templates).iter().any(taken) {
        return;
    }
    let place = "`resources/read` with an unknown resource";
    let (rule, code) = if talk.is_modern() {
        (rules::UNKNOWN_RESOURCE_MODERN, -32602)
    } else {
        (rules::UNKNOWN_RESOURCE, -32002)
    };
    let what = match talk.request("resources/read", json!({"uri": UNKNOWN_URI})) {
        Answer::Error(failed) => {
            if failed.data["uri"] != UNKNOWN_URI {
                let what = format!("`data.uri` is {}", failed.data["uri"]);
                talk.report.add(rules::RESOURCE_DATA, place, what);
            }
            if is(&failed, code) {
                return;
            }
            format!("it got the error {}", failed.text())
        }
        Answer::Result(_) => "it was answered with a result".into(),
        Answer::None => return,
    };
    talk.report.add(rule, place, what);
}

/// Prompts that require something, without it
fn prompt_arguments(talk: &mut Talk<'_>, lists: &Lists) {
    let requires = |prompt: &Value| {
        let arguments = prompt["arguments"].as_array();
        arguments.is_some_and(|arguments| arguments.iter().any(|argument| argument["required"] == true))
    };
    let prompts = lists.of(Kind::Prompts).iter().filter_map(|prompt| prompt.parse::<Value>().ok());
    for prompt in prompts.filter(requires).take(PROMPTS) {
        let Some(name) = prompt["name"].as_str() else { continue };
        let answer = talk.request("prompts/get", json!({"name": name}));
        refused(talk, &answer, rules::PROMPT_ARGUMENT, &format!("prompt `{name}` without arguments"));
    }
}

/// Whether what has no list is there exactly when it is declared
fn capabilities(talk: &mut Talk<'_>) {
    if talk.version() >= Version::V2025_03_26 {
        let reference = json!({"type": "ref/prompt", "name": UNKNOWN});
        let params = json!({"ref": reference, "argument": {"name": "x", "value": ""}});
        if let Some(answer) = served(talk, "completions", "completion/complete", params) {
            refused(talk, &answer, rules::COMPLETION_REF, "`completion/complete` with an unknown prompt");
        }
    }
    if talk.is_modern() {
        return;
    }
    // A valid level, as some look at the params before the method; and one that makes it quiet.
    if served(talk, "logging", "logging/setLevel", json!({"level": "emergency"})).is_some() {
        let answer = talk.request("logging/setLevel", json!({"level": "mcp-probe"}));
        refused(talk, &answer, rules::LOG_LEVEL, "`logging/setLevel` with an unknown level");
    }
    if talk.capabilities["resources"]["subscribe"] == true {
        if let Answer::Error(failed) = talk.request("resources/subscribe", json!({"uri": UNKNOWN_URI})) {
            if is(&failed, -32601) {
                let what = "`resources.subscribe` is declared, and it is refused with -32601";
                talk.report.add(rules::DECLARED_NOT_SERVED, "`resources/subscribe`", what);
            }
        } else {
            talk.request("resources/unsubscribe", json!({"uri": UNKNOWN_URI}));
        }
    }
}

/// Sends a request that needs a capability; the answer when it is declared and there
fn served(talk: &mut Talk<'_>, capability: &str, method: &str, params: Value) -> Option<Answer> {
    let declared = !talk.capabilities[capability].is_null();
    let answer = talk.request(method, params);
    let missing = matches!(&answer, Answer::Error(failed) if is(failed, -32601));
    let (rule, what) = match (declared, &answer) {
        (_, Answer::None) => return None,
        (true, _) if missing => {
            (rules::DECLARED_NOT_SERVED, format!("`{capability}` is declared, and it is refused with -32601"))
        }
        (true, _) => return Some(answer),
        (false, _) if missing => return None,
        (false, Answer::Error(failed)) => (
            rules::UNDECLARED_CODE,
            format!("`{capability}` is not declared, and it gets the error {}", failed.text()),
        ),
        (false, _) => {
            (rules::SERVED_NOT_DECLARED, format!("there is an answer, and `{capability}` is not declared"))
        }
    };
    talk.report.add(rule, &place(method), what);
    None
}

fn notification(talk: &mut Talk<'_>) {
    let params = talk.with_meta(json!({}));
    let line = json!({"jsonrpc": "2.0", "method": "notifications/mcp-probe/unknown", "params": params});
    let place = "an unknown notification";
    let provoked = talk.provoke(line.to_string().as_bytes(), None, place);
    if let Some(failed) = provoked.loose.first() {
        let what = format!("it got the error {}", failed.text());
        talk.report.add(rules::NOTIFICATION_ANSWERED, place, what);
    } else if provoked.loose_result {
        talk.report.add(rules::NOTIFICATION_ANSWERED, place, "it was answered with a result");
    }
}

/// Lines that hold no message
fn broken_lines(talk: &mut Talk<'_>) {
    let half = talk.new_id();
    let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":{half},\"method\":");
    let place = "a line with half a message";
    let provoked = talk.provoke(line.as_bytes(), Some(half), place);
    parse_error(talk, &provoked, place);
    let cases: [(&[u8], &str); 3] = [
        (b"mcp-probe: this is no JSON", "a line that is no JSON"),
        (b"", "an empty line"),
        (b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/\xff\"}", "a line that is no UTF-8"),
    ];
    for (line, place) in cases {
        let provoked = talk.provoke(line, None, place);
        parse_error(talk, &provoked, place);
    }
}

/// What is no JSON may be ignored; an id that could be read in it may be repeated
fn parse_error(talk: &Talk<'_>, provoked: &Provoked, place: &str) {
    null_ids(talk, provoked, place);
    let answer = match &provoked.answer {
        Some(Answer::Error(failed)) => Some(failed),
        Some(Answer::Result(_)) => {
            return talk.report.add(rules::PARSE_ERROR, place, "it was answered with a result");
        }
        _ => None,
    };
    let odd = provoked
        .loose
        .iter()
        .chain(answer)
        .find(|failed| !talk.is_refusal(failed, -32700) && !is(failed, -32600));
    if let Some(failed) = odd {
        talk.report.add(rules::PARSE_ERROR, place, format!("it got the error {}", failed.text()));
    }
}

fn null_ids(talk: &Talk<'_>, provoked: &Provoked, place: &str) {
    if talk.version() >= Version::V2025_11_25 && provoked.loose.iter().any(|failed| failed.has_id) {
        talk.report.add(rules::NULL_ID, place, "the error has null for an `id`");
    }
}

/// Requests that are none by the rules of JSON-RPC
fn envelopes(talk: &mut Talk<'_>) {
    let method = talk.sure();
    let params = talk.with_meta(json!({}));
    let id = talk.new_id();
    let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
    let with = |member: &str, value: Option<Value>| {
        let mut request = request.clone();
        if let Some(members) = request.as_object_mut() {
            members.remove(member);
            members.extend(value.map(|value| (member.to_owned(), value)));
        }
        request
    };
    let cases = [
        ("a request with `\"jsonrpc\":\"1.0\"`", with("jsonrpc", Some(json!("1.0"))), -32600),
        ("a request without `jsonrpc`", with("jsonrpc", None), -32600),
        ("a request with a number for a method", with("method", Some(json!(7))), -32600),
        ("a request with null for an id", with("id", Some(Value::Null)), -32600),
        ("a request with an array for params", with("params", Some(json!([1]))), -32602),
    ];
    for (place, mut line, code) in cases {
        let null = line["id"].is_null();
        let id = (!null).then(|| talk.new_id());
        if let Some(id) = &id {
            line["id"] = id.clone();
        }
        let provoked = talk.provoke(line.to_string().as_bytes(), id, place);
        null_ids(talk, &provoked, place);
        let failed = match &provoked.answer {
            Some(Answer::Error(failed)) => Some(failed),
            _ => provoked.loose.first(),
        };
        if matches!(&provoked.answer, Some(Answer::Result(_))) || provoked.loose_result {
            talk.report.add(rules::ENVELOPE_ACCEPTED, place, "it was answered with a result");
        } else if let Some(failed) = failed {
            if !talk.is_refusal(failed, code) && !is(failed, -32600) {
                talk.report.add(rules::ENVELOPE_CODE, place, format!("it got the error {}", failed.text()));
            }
        } else if !null && provoked.answer.is_none() && talk.is_up() {
            talk.report.add(rules::ENVELOPE_SILENT, place, "it was not answered");
        }
    }
}

fn batch(talk: &mut Talk<'_>) {
    let version = talk.version();
    // Nothing is said about them there.
    if version == Version::V2024_11_05 {
        return;
    }
    let (method, id, params) = (talk.sure(), talk.new_id(), talk.with_meta(json!({})));
    let line = json!([{"jsonrpc": "2.0", "id": id, "method": method, "params": params}]);
    let provoked = talk.provoke(line.to_string().as_bytes(), Some(id), "a batch");
    let answered = matches!(&provoked.answer, Some(Answer::Result(_)));
    if version == Version::V2025_03_26 {
        if !answered && talk.is_up() {
            talk.report.add(rules::BATCH_REFUSED, "a batch", "the request in it got no result");
        }
    } else if answered {
        talk.report.add(rules::BATCH_ACCEPTED, "a batch", "the request in it was answered");
    }
}

/// What nothing is called
const UNKNOWN: &str = "mcp-probe-unknown";
const UNKNOWN_URI: &str = "mcp-probe-unknown://unknown/unknown";
/// Requests that are sent at once
const BURST: usize = 10;
/// Prompts that are asked for without their arguments
const PROMPTS: usize = 3;
