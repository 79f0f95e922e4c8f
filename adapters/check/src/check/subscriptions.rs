//! Checks of modern subscriptions: declared lists can be listened to, and are acknowledged correctly.

use serde_json::{Map, Value, json};

use super::conversation::{CheckAnswer, CheckConversation, ListenOutcome};
use super::messages::value_kind;
use super::rules::{self, Rule};
use super::{has_code, method_location};

/// Lists with a `listChanged` capability, and their names in a filter.
const LIST_FILTERS: [(&str, &str); 3] =
    [("tools", "toolsListChanged"), ("prompts", "promptsListChanged"), ("resources", "resourcesListChanged")];
const LISTEN: &str = "subscriptions/listen";
const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

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
        Some(CheckAnswer::Error(failed)) if has_code(&failed, -32601) => {
            let what = "`listChanged` is declared, and it is refused with -32601";
            return found(rules::DECLARED_NOT_SERVED, what.into());
        }
        Some(CheckAnswer::Error(failed)) => {
            return found(rules::SUBSCRIPTION, format!("it got the error {}", failed.summary()));
        }
        Some(CheckAnswer::Result(_)) if notifications.is_empty() => {
            return found(
                rules::SUBSCRIPTION,
                "it was answered with a result, and never acknowledged".into(),
            );
        }
        // Ended gracefully, or still open. An unusable answer has already been reported.
        _ => {}
    }
    let Some((method, params)) = notifications.first() else {
        return found(rules::SUBSCRIPTION, format!("no `{ACKNOWLEDGED}` came"));
    };
    if method != ACKNOWLEDGED {
        return found(rules::SUBSCRIPTION, format!("`{method}` came before `{ACKNOWLEDGED}`"));
    }
    if let Some((method, params)) =
        notifications.iter().find(|(_, params)| params["_meta"][SUBSCRIPTION_ID] != id)
    {
        let what = format!(
            "`{SUBSCRIPTION_ID}` of `{method}` is {}, and the id is {id}",
            params["_meta"][SUBSCRIPTION_ID]
        );
        found(rules::SUBSCRIPTION_ID, what);
    }
    let Some(honoured) = params["notifications"].as_object() else {
        let what =
            format!("`notifications` of the acknowledgement is {}", value_kind(&params["notifications"]));
        return found(rules::SUBSCRIPTION, what);
    };
    let is_something = |value: &Value| match value {
        Value::Bool(is) => *is,
        Value::Array(uris) => !uris.is_empty(),
        _ => true,
    };
    for (name, _) in
        honoured.iter().filter(|(name, value)| !filter.contains_key(*name) && is_something(value))
    {
        found(rules::SUBSCRIPTION_FILTER, format!("`{name}` is acknowledged but was not requested"));
    }
    for (list, name) in declared.iter().filter(|(_, name)| honoured.get(*name) != Some(&json!(true))) {
        let what = format!("`{list}.listChanged` is declared, and `{name}` is not acknowledged");
        found(rules::DECLARED_NOT_SERVED, what);
    }
}
