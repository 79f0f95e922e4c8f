//! Checks of modern subscriptions: declared lists can be listened to, and are acknowledged correctly.

use serde_json::{Map, Value, json};

use super::conversation::{CheckAnswer, CheckConversation, ListenOutcome};
use super::lists::DECLARED_NOT_SERVED;
use super::messages::value_kind;
use super::method_location;
use super::rules::{Rule, rules_of};

rules_of! {
    RULES
    SUBSCRIPTION "subscription" Error [Spec Hosted] ["SUB-004" "SUB-006"]
        "a subscription is acknowledged with its honoured parts, before any other message about it"
        "send `notifications/subscriptions/acknowledged` first, with `notifications`"
    SUBSCRIPTION_ID "subscription-id" Error [Spec Hosted] ["SUB-008"]
        "each notification of a subscription has the id of its request in `_meta`"
        "add `io.modelcontextprotocol/subscriptionId`, with the unchanged id"
    SUBSCRIPTION_FILTER "subscription-filter" Error [Spec Hosted] ["SUB-003" "SUB-006"]
        "a subscription covers only what was requested"
        "acknowledge the filter or a part of it"
}

/// Lists with a `listChanged` capability, and their names in a filter.
const LIST_FILTERS: [(&str, &str); 3] =
    [("tools", "toolsListChanged"), ("prompts", "promptsListChanged"), ("resources", "resourcesListChanged")];
const LISTEN: &str = "subscriptions/listen";
const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
const ID_KEY: &str = "io.modelcontextprotocol/subscriptionId";

/// Subscribes to the lists whose changes the server declares to report.
pub(super) fn check_subscriptions(conversation: &mut CheckConversation<'_>) {
    let declared: Vec<_> = LIST_FILTERS
        .into_iter()
        .filter(|(list, _)| conversation.capabilities[*list]["listChanged"] == true)
        .collect();
    if !conversation.is_modern() || declared.is_empty() {
        return;
    }
    let filter: Map<String, Value> =
        declared.iter().map(|(_, name)| ((*name).to_owned(), json!(true))).collect();
    let Some(ListenOutcome { id, answer, notifications }) =
        conversation.listen(LISTEN, ACKNOWLEDGED, &json!({"notifications": filter}))
    else {
        return;
    };
    let location = method_location(LISTEN);
    let found = |rule: &'static Rule, what: String| conversation.report.add(rule, &location, what);
    match answer {
        Some(CheckAnswer::Error(failed)) if failed.code == -32601 => {
            let what = "`listChanged` is declared, and it is refused with -32601";
            return found(DECLARED_NOT_SERVED, what.into());
        }
        Some(CheckAnswer::Error(failed)) => {
            return found(SUBSCRIPTION, format!("it got the error {}", failed.summary()));
        }
        Some(CheckAnswer::Result(_)) if notifications.is_empty() => {
            return found(SUBSCRIPTION, "it was answered with a result, and never acknowledged".into());
        }
        // Ended gracefully, or still open. An unusable answer has already been reported.
        _ => {}
    }
    let Some((method, params)) = notifications.first() else {
        return found(SUBSCRIPTION, format!("no `{ACKNOWLEDGED}` came"));
    };
    if method != ACKNOWLEDGED {
        return found(SUBSCRIPTION, format!("`{method}` came before `{ACKNOWLEDGED}`"));
    }
    if let Some((method, params)) = notifications.iter().find(|(_, params)| params["_meta"][ID_KEY] != id) {
        let what = format!("`{ID_KEY}` of `{method}` is {}, and the id is {id}", params["_meta"][ID_KEY]);
        found(SUBSCRIPTION_ID, what);
    }
    let Some(honoured) = params["notifications"].as_object() else {
        let what =
            format!("`notifications` of the acknowledgement is {}", value_kind(&params["notifications"]));
        return found(SUBSCRIPTION, what);
    };
    let is_something = |value: &Value| match value {
        Value::Bool(is) => *is,
        Value::Array(uris) => !uris.is_empty(),
        _ => true,
    };
    for (name, _) in
        honoured.iter().filter(|(name, value)| !filter.contains_key(*name) && is_something(value))
    {
        found(SUBSCRIPTION_FILTER, format!("`{name}` is acknowledged but was not requested"));
    }
    for (list, name) in declared.iter().filter(|(_, name)| honoured.get(*name) != Some(&json!(true))) {
        let what = format!("`{list}.listChanged` is declared, and `{name}` is not acknowledged");
        found(DECLARED_NOT_SERVED, what);
    }
}
