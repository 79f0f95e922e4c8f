//! How two messages relate, and where they differ.

use core::mem::{self, Discriminant};
use core::ops::ControlFlow;

use mcp_proto::RawJson;
use serde_json::Value;

use crate::message::Message;

/// Returns what kind of message a text is: its method, or what it answers with and the code of an error, whatever its other values.
pub(crate) fn kind(text: &str) -> (Option<String>, [bool; 3], Option<RawJson>) {
    let message = Message::parse(text.as_bytes());
    let has = |part: fn(&Message) -> bool| message.as_ref().is_some_and(part);
    (
        message.as_ref().and_then(|message| message.method.clone()),
        [has(|m| m.id.is_some()), has(|m| m.result.is_some()), has(|m| m.error.is_some())],
        message.as_ref().and_then(|message| message.error.as_ref()?.member("code")),
    )
}

/// Returns the type of the value at a path in a message.
pub(crate) fn type_at(text: &str, path: &str) -> Option<Discriminant<Value>> {
    let message = serde_json::from_str::<Value>(text).ok()?;
    message.pointer(path).map(mem::discriminant)
}

/// How two messages relate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Relation {
    Identical,
    Equal,
    Reworded,
    Different,
}

/// Compares what was recorded with what an engine says.
pub(crate) fn compare(recorded: &Message, replayed: &Message) -> Relation {
    if recorded.json == replayed.json {
        return Relation::Identical;
    }
    if recorded.json.has_value_of(&replayed.json) {
        return Relation::Equal;
    }
    // The words of an error are those of its author; programs act on its code.
    if let (Some(a), Some(b)) = (&recorded.error, &replayed.error) {
        if recorded.is_counterpart(replayed) && a.member("code") == b.member("code") {
            return Relation::Reworded;
        }
    }
    if recorded.is_counterpart(replayed) {
        let essence = |message: &Message| RawJson::new(essence(&message.json).to_string());
        if let (Ok(a), Ok(b)) = (essence(recorded), essence(replayed)) {
            if a.has_value_of(&b) {
                return Relation::Reworded;
            }
        }
    }
    let is_cancellation = recorded.method.as_deref() == Some("notifications/cancelled");
    if is_cancellation && replayed.method == recorded.method {
        let of = |message: &Message| message.param("requestId").map(|id| id.as_str().to_owned());
        if of(recorded) == of(replayed) {
            return Relation::Reworded;
        }
    }
    Relation::Different
}

/// Returns whether a method asks for input, which a call needs.
pub(crate) fn is_input_request(method: Option<&str>) -> bool {
    matches!(method, Some("elicitation/create" | "sampling/createMessage" | "roots/list"))
}

/// Returns a message without what may be left out, or written in two ways, and means the same.
fn essence(json: &RawJson) -> Value {
    let mut message: Value = serde_json::from_str(json.as_str()).unwrap_or_default();
    let remove_if = |object: &mut Value, name: &str, value: Value| {
        if let Some(object) = object.as_object_mut().filter(|object| object.get(name) == Some(&value)) {
            object.remove(name);
        }
    };
    remove_if(&mut message, "params", serde_json::json!({}));
    // Forms are what elicitation means by default (ELIC-003).
    if let Some(elicitation) = message.pointer_mut("/params/capabilities/elicitation") {
        if elicitation.as_object().is_some_and(|modes| modes.len() == 1) {
            remove_if(elicitation, "form", serde_json::json!({}));
        }
    }
    // Nobody reports the progress of a user, so a question need not ask for it.
    if is_input_request(message.get("method").and_then(Value::as_str)) {
        if let Some(params) = message.get_mut("params") {
            if let Some(meta) = params.get_mut("_meta").and_then(Value::as_object_mut) {
                meta.remove("progressToken");
            }
            remove_if(params, "_meta", serde_json::json!({}));
        }
        remove_if(&mut message, "params", serde_json::json!({}));
    }
    // It has no meaning since 2026-07-28: the server asks for roots each time.
    let modern = "/params/_meta/io.modelcontextprotocol~1clientCapabilities/roots";
    if let Some(roots) = message.pointer_mut(modern) {
        remove_if(roots, "listChanged", true.into());
    }
    if let Some(result) = message.get_mut("result") {
        remove_if(result, "resultType", "complete".into());
        // How long a description of the server may be kept is for each server to say, and so is the order of its revisions.
        if let Some(versions) = result.get_mut("supportedVersions").and_then(Value::as_array_mut) {
            versions.sort_by_key(ToString::to_string);
            if let Some(result) = result.as_object_mut() {
                result.remove("ttlMs");
                result.remove("cacheScope");
            }
        }
        // Pages have no id since 2026-07-28.
        let requests = result.get_mut("inputRequests").and_then(Value::as_object_mut);
        for request in requests.into_iter().flat_map(|requests| requests.values_mut()) {
            if let Some(params) = request.get_mut("params").and_then(Value::as_object_mut) {
                params.remove("elicitationId");
            }
        }
        if let Some(meta) = result.get_mut("_meta").and_then(Value::as_object_mut) {
            meta.remove("io.modelcontextprotocol/serverInfo");
        }
        remove_if(result, "_meta", serde_json::json!({}));
    }
    message
}

/// Describes the first place where two values differ: its path, and both values in short.
pub(crate) fn first_difference(recorded: &RawJson, replayed: &RawJson) -> String {
    let value = |json: &RawJson| serde_json::from_str::<Value>(json.as_str()).unwrap_or_default();
    let (a, b) = (value(recorded), value(replayed));
    let is_told = |a: Option<&Value>, b: Option<&Value>| match (a, b) {
        (Some(Value::Number(a)), Some(Value::Number(b))) => a.as_f64() != b.as_f64(),
        _ => true,
    };
    let first = differences(Some(&a), Some(&b), "", &mut |path, a, b| {
        if !is_told(a, b) {
            return ControlFlow::Continue(());
        }
        let place = if path.is_empty() { "the message".to_owned() } else { format!("`{path}`") };
        ControlFlow::Break(format!("{place}: recorded {}, replayed {}", short(a), short(b)))
    });
    first.break_value().unwrap_or_else(|| "a member occurs twice".into())
}

/// Finds the places at which two values differ, as JSON pointers, with the value of each if it is there, until `found` breaks.
pub(crate) fn differences<B>(
    first: Option<&Value>,
    second: Option<&Value>,
    at: &str,
    found: &mut impl FnMut(&str, Option<&Value>, Option<&Value>) -> ControlFlow<B>,
) -> ControlFlow<B> {
    match (first, second) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            let added = b.keys().filter(|name| !a.contains_key(*name));
            for name in a.keys().chain(added) {
                let escaped = name.replace('~', "~0").replace('/', "~1");
                differences(a.get(name), b.get(name), &format!("{at}/{escaped}"), found)?;
            }
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) => {
            for index in 0..a.len().max(b.len()) {
                differences(a.get(index), b.get(index), &format!("{at}/{index}"), found)?;
            }
        }
        _ if first == second => {}
        _ => return found(at, first, second),
    }
    ControlFlow::Continue(())
}

fn short(value: Option<&Value>) -> String {
    const MAX: usize = 60;
    let Some(value) = value else { return "nothing".into() };
    let text = value.to_string();
    match text.char_indices().nth(MAX) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> Message {
        Message::parse(text.as_bytes()).expect(text)
    }

    #[test]
    fn messages_are_compared_by_value_and_errors_by_code() {
        let cases = [
            (r#"{"id":1,"result":{}}"#, r#"{"id":1,"result":{}}"#, Relation::Identical),
            (r#"{"id":1,"result":{}}"#, r#"{"result":{ },"id":1}"#, Relation::Equal),
            (
                r#"{"id":1,"error":{"code":-1,"message":"a"}}"#,
                r#"{"id":1,"error":{"code":-1,"message":"b"}}"#,
                Relation::Reworded,
            ),
            (r#"{"method":"m","params":{}}"#, r#"{"method":"m"}"#, Relation::Reworded),
            (r#"{"id":1,"result":{"resultType":"complete"}}"#, r#"{"id":1,"result":{}}"#, Relation::Reworded),
            (r#"{"id":1,"result":{"resultType":"x"}}"#, r#"{"id":1,"result":{}}"#, Relation::Different),
            (r#"{"id":1,"error":{"code":-1}}"#, r#"{"id":1,"error":{"code":-2}}"#, Relation::Different),
            (r#"{"id":1,"error":{"code":-1}}"#, r#"{"id":2,"error":{"code":-1}}"#, Relation::Different),
            (r#"{"id":1,"result":{}}"#, r#"{"id":"1","result":{}}"#, Relation::Different),
        ];
        for (a, b, want) in cases {
            assert_eq!(compare(&message(a), &message(b)), want, "{a} {b}");
        }
    }

    #[test]
    fn the_first_difference_is_told_by_its_path() {
        let cases = [
            (r#"{"a":[1,{"b":2}]}"#, r#"{"a":[1,{"b":3}]}"#, "`/a/1/b`: recorded 2, replayed 3"),
            (r#"{"a":1}"#, r#"{}"#, "`/a`: recorded 1, replayed nothing"),
            (r#"{}"#, r#"{"x/y":[]}"#, "`/x~1y`: recorded nothing, replayed []"),
            ("[]", "5", "the message: recorded [], replayed 5"),
        ];
        for (a, b, want) in cases {
            assert_eq!(first_difference(&message(a).json, &message(b).json), want);
        }
    }
}
