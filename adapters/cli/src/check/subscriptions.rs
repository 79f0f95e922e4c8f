//! Subscriptions of the modern era: whether what is declared can be listened to, and how that is acknowledged

use serde_json::{Map, Value, json};

use super::rules::{self, Rule};
use super::stream::kind;
use super::talk::{Answer, Listened, Talk};
use super::{is, place};

/// What can be declared, with its name in a filter
const LISTS: [(&str, &str); 3] =
    [("tools", "toolsListChanged"), ("prompts", "promptsListChanged"), ("resources", "resourcesListChanged")];
const LISTEN: &str = "subscriptions/listen";
const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
const ID: &str = "io.modelcontextprotocol/subscriptionId";

/// Listens to the lists of which the server says that it tells changes
pub(super) fn check(talk: &mut Talk<'_>) {
    let declared: Vec<_> =
        LISTS.into_iter().filter(|(list, _)| talk.capabilities[*list]["listChanged"] == true).collect();
    if !talk.is_modern() || declared.is_empty() {
        return;
    }
    let filter: Map<String, Value> =
        declared.iter().map(|(_, name)| ((*name).to_owned(), json!(true))).collect();
    let Some(Listened { id, answer, news }) =
        talk.listen(LISTEN, ACKNOWLEDGED, &json!({"notifications": filter}))
    else {
        return;
    };
    let place = place(LISTEN);
    let found = |rule: &'static Rule, what: String| talk.report.add(rule, &place, what);
    match answer {
        Some(Answer::Error(failed)) if is(&failed, -32601) => {
            let what = "`listChanged` is declared, and it is refused with -32601";
            return found(rules::DECLARED_NOT_SERVED, what.into());
        }
        Some(Answer::Error(failed)) => {
            return found(rules::SUBSCRIPTION, format!("it got the error {}", failed.text()));
        }
        Some(Answer::Result(_)) if news.is_empty() => {
            return found(
                rules::SUBSCRIPTION,
                "it was answered with a result, and never acknowledged".into(),
            );
        }
        // Ended in good order, or still open; of an answer that cannot be used the report speaks already.
        _ => {}
    }
    let Some((method, params)) = news.first() else {
        return found(rules::SUBSCRIPTION, format!("no `{ACKNOWLEDGED}` came"));
    };
    if method != ACKNOWLEDGED {
        return found(rules::SUBSCRIPTION, format!("`{method}` came before `{ACKNOWLEDGED}`"));
    }
    if let Some((method, params)) = news.iter().find(|(_, params)| params["_meta"][ID] != id) {
        let what = format!("`{ID}` of `{method}` is {}, and the id is {id}", params["_meta"][ID]);
        found(rules::SUBSCRIPTION_ID, what);
    }
    let Some(honoured) = params["notifications"].as_object() else {
        let what = format!("`notifications` of the acknowledgement is {}", kind(&params["notifications"]));
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
        found(rules::SUBSCRIPTION_FILTER, format!("`{name}` is acknowledged, which was not asked for"));
    }
    for (list, name) in declared.iter().filter(|(_, name)| honoured.get(*name) != Some(&json!(true))) {
        let what = format!("`{list}.listChanged` is declared, and `{name}` is not acknowledged");
        found(rules::DECLARED_NOT_SERVED, what);
    }
}
