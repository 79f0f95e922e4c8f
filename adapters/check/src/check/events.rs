//! Checks of events (SEP-3415): the declaration, the list of types, first polls, and the error for an unknown type.
//!
//! Nothing is subscribed: a poll without a cursor has no effect.

use alloc::collections::BTreeSet;

use serde_json::{Value, json};

use super::conversation::{CheckAnswer, CheckConversation};
use super::messages::value_kind;
use super::method_location;
use super::rules::{Rule, rules_of};

rules_of! {
    RULES
    EVENTS_DECLARED "events-declared" Error [Spec Hosted] ["EVT-001" "EVT-002"]
        "events are declared as an object among the extensions"
        "write `\"extensions\":{\"io.modelcontextprotocol/events\":{}}`, and `\"events\":{}` for older clients"
    EVENT_LIST "event-list" Error [Spec Hosted] ["EVT-010"]
        "`events/list` answers with `events`, and with a new `nextCursor` while there are more"
        "answer each page, and leave `nextCursor` out of the last one"
    EVENT_TYPE "event-type" Error [Spec Hosted] ["EVT-011" "EVT-012"]
        "an event type has a name of its own, modes of delivery, and two schemas"
        "write `name`, `delivery` of `poll`, `push` and `webhook`, `inputSchema` and `payloadSchema`"
    EVENT_POLL "event-poll" Error [Spec Hosted] ["EVT-040" "EVT-041" "EVT-042" "EVT-140"]
        "a poll without a cursor answers with no events, and with a cursor or null"
        "begin with what happens from now on, and write `events` as an array"
    EVENT_REFUSED "event-refused" Note [Spec] ["EVT-046" "EVT-087" "EVT-088"]
        "event types can be polled by this caller; one that is refused is not checked"
        "check with a caller who may subscribe, when no limit is reached"
    EVENT_POLL_TIME "event-poll-time" Warning [Spec Hosted] ["EVT-045"]
        "a poll tells the time to the next one, up to a day"
        "write `nextPollMs` as a number of milliseconds"
    EVENT_UNKNOWN "event-unknown" Warning [Spec Hosted] ["EVT-046"]
        "an unknown event type is refused with NotFound, which is -32023 (-32011 in the sketch)"
        "answer with that code"
}

const EXTENSION: &str = "io.modelcontextprotocol/events";
const LIST: &str = "events/list";
const POLL: &str = "events/poll";
/// Modes in which events are delivered.
const MODES: [&str; 3] = ["poll", "push", "webhook"];
/// Codes for an unknown type: that of SEP-3415, and that of its sketch.
const NOT_FOUND: [i64; 2] = [-32023, -32011];
/// Codes of polls that are refused to this caller, or for now: those of SEP-3415, and those of its sketch.
const REFUSED: [i64; 4] = [-32024, -32025, -32012, -32013];
/// Maximum number of pages of the list that are read.
const MAX_PAGES: usize = 20;
/// Maximum number of types that are polled.
const MAX_POLLS: usize = 20;

/// Checks the events of a server that declares them.
pub(super) fn check_events(conversation: &mut CheckConversation<'_>) {
    if !check_declaration(conversation) {
        return;
    }
    let types = list_types(conversation);
    let mut names = BTreeSet::new();
    for described in &types {
        check_type(conversation, described, &mut names);
    }
    for described in types.iter().filter(|described| can_poll(described)).take(MAX_POLLS) {
        check_poll(conversation, described["name"].as_str().unwrap_or_default());
    }
    let params = json!({"name": "mcp-probe/unknown", "arguments": {}});
    let words = ["an unknown type got", "an unknown type got a result"];
    let answer = conversation.request(POLL, params);
    if let Some(what) = answer.complaint(|failed| NOT_FOUND.contains(&failed.code), words) {
        conversation.report.add(EVENT_UNKNOWN, &method_location(POLL), what);
    }
}

/// Checks what is declared, in both places. Returns whether something is.
fn check_declaration(conversation: &CheckConversation<'_>) -> bool {
    let capabilities = &conversation.capabilities;
    let places = [
        (format!("extensions[\"{EXTENSION}\"]"), &capabilities["extensions"][EXTENSION]),
        ("events".into(), &capabilities["events"]),
    ];
    if places.iter().all(|(_, settings)| settings.is_null()) {
        return false;
    }
    let found = |what: String| conversation.report.add(EVENTS_DECLARED, "the capabilities", what);
    for (place, settings) in places.iter().filter(|(_, settings)| !settings.is_null()) {
        let announces = &settings["listChanged"];
        if !settings.is_object() {
            found(format!("`{place}` is {}", value_kind(settings)));
        } else if !announces.is_null() && !announces.is_boolean() {
            found(format!("`{place}.listChanged` is {}", value_kind(announces)));
        }
    }
    if conversation.is_modern() && places[0].1.is_null() {
        found(format!("`events` is declared, and `{}` is not", places[0].0));
    }
    true
}

/// Reads the list of types.
fn list_types(conversation: &mut CheckConversation<'_>) -> Vec<Value> {
    let (mut types, mut params, mut cursors) = (Vec::new(), json!({}), BTreeSet::new());
    let found = |conversation: &CheckConversation<'_>, what: String| {
        conversation.report.add(EVENT_LIST, &method_location(LIST), what);
    };
    for _ in 0..MAX_PAGES {
        let answer = conversation.request(LIST, params);
        if let CheckAnswer::Error(failed) = &answer {
            found(conversation, format!("events are declared, and it got the error {}", failed.summary()));
        }
        let Some(page) = answer.result() else { break };
        match &page["events"] {
            Value::Array(events) => types.extend(events.iter().cloned()),
            other => found(conversation, format!("`events` is {}", value_kind(other))),
        }
        match &page["nextCursor"] {
            Value::Null => break,
            Value::String(next) if !next.is_empty() && cursors.insert(next.clone()) => {
                params = json!({"cursor": next});
            }
            other => {
                found(conversation, format!("`nextCursor` is {other}, which is no new cursor"));
                break;
            }
        }
    }
    types
}

/// Checks a type of the list.
fn check_type(conversation: &CheckConversation<'_>, described: &Value, names: &mut BTreeSet<String>) {
    let name = described["name"].as_str().unwrap_or_default();
    let location = format!("event type `{name}`");
    let found = |what: String| conversation.report.add(EVENT_TYPE, &location, what);
    if name.is_empty() {
        found(format!("`name` is {}", value_kind(&described["name"])));
    } else if !names.insert(name.to_owned()) {
        found("it is listed twice".into());
    }
    match described["delivery"].as_array() {
        Some(modes) if !modes.is_empty() => {
            for (index, mode) in modes.iter().enumerate() {
                if !mode.as_str().is_some_and(|mode| MODES.contains(&mode)) {
                    found(format!("{mode} is no mode of delivery"));
                } else if modes.iter().take(index).any(|other| other == mode) {
                    found(format!("the mode of delivery {mode} is repeated"));
                }
            }
        }
        _ => found("`delivery` is no array with a mode".into()),
    }
    for member in ["inputSchema", "payloadSchema"] {
        if !described[member].is_object() {
            found(format!("`{member}` is {}", value_kind(&described[member])));
        }
    }
}

/// Returns whether a type can be polled without arguments.
fn can_poll(described: &Value) -> bool {
    let schema = &described["inputSchema"];
    let needs_none = schema["required"].as_array().is_none_or(Vec::is_empty);
    let modes = described["delivery"].as_array();
    needs_none && schema.is_object() && modes.is_some_and(|modes| modes.iter().any(|mode| mode == "poll"))
}

/// Polls a type for the first time.
fn check_poll(conversation: &mut CheckConversation<'_>, name: &str) {
    let answer = conversation.request(POLL, json!({"name": name, "arguments": {}}));
    let location = format!("event type `{name}`");
    let found = |rule: &'static Rule, what: String| conversation.report.add(rule, &location, what);
    if let CheckAnswer::Error(failed) = &answer {
        let rule = if REFUSED.contains(&failed.code) { EVENT_REFUSED } else { EVENT_POLL };
        return found(rule, format!("a poll got the error {}", failed.summary()));
    }
    let Some(polled) = answer.result() else { return };
    match polled["events"].as_array() {
        None => found(EVENT_POLL, format!("`events` is {}", value_kind(&polled["events"]))),
        Some(events) if !events.is_empty() => {
            found(EVENT_POLL, format!("a poll without a cursor has {} events", events.len()));
        }
        Some(_) => {}
    }
    if !(polled["cursor"].is_null() || polled["cursor"].is_string()) {
        found(EVENT_POLL, format!("`cursor` is {}", value_kind(&polled["cursor"])));
    }
    for member in ["hasMore", "truncated"] {
        if !(polled[member].is_null() || polled[member].is_boolean()) {
            found(EVENT_POLL, format!("`{member}` is {}", value_kind(&polled[member])));
        }
    }
    match polled["nextPollMs"].as_f64() {
        Some(0.0..=86_400_000.0) => {}
        Some(millis) => found(EVENT_POLL_TIME, format!("`nextPollMs` is {millis}")),
        None => {
            found(EVENT_POLL_TIME, format!("`nextPollMs` is {}", value_kind(&polled["nextPollMs"])));
        }
    }
}
