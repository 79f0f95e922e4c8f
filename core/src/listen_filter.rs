//! The filter of a subscription, as both roles read it: by hand, because its typed form would link the whole of serde_json.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::change::Change;
use crate::identity::Capabilities;
use crate::json::{Scanner, object_members, string, write_str};
use crate::methods::Capability;
use crate::model::TaskId;
use crate::rpc::RpcError;

/// A set of lists.
pub(crate) type ListSet = u8;
pub(crate) const TOOLS: ListSet = 1;
pub(crate) const PROMPTS: ListSet = 2;
pub(crate) const RESOURCES: ListSet = 4;

/// Each list with the change that its notification announces.
pub(crate) const LIST_CHANGES: [(ListSet, Change); 3] =
    [(TOOLS, Change::Tools), (PROMPTS, Change::Prompts), (RESOURCES, Change::Resources)];

/// The lists of a filter, in the order of their members.
const LISTS: [(ListSet, &str, Capability); 3] = [
    (TOOLS, "toolsListChanged", Capability::ToolsListChanged),
    (PROMPTS, "promptsListChanged", Capability::PromptsListChanged),
    (RESOURCES, "resourcesListChanged", Capability::ResourcesListChanged),
];
const RESOURCE_URIS: &str = "resourceSubscriptions";
const TASK_IDS: &str = "taskIds";

/// Changes that a subscription covers ([`SubscriptionFilter`](crate::model::SubscriptionFilter)).
#[derive(Default)]
pub(crate) struct ListenFilter {
    pub(crate) lists: ListSet,
    pub(crate) resources: Option<Vec<String>>,
    pub(crate) task_ids: Option<Vec<TaskId>>,
}

impl ListenFilter {
    /// Reads the parameters of `subscriptions/listen`, or of its acknowledgment.
    ///
    /// # Errors
    ///
    /// The error response to send. It names the member that is missing, repeated or of the wrong type.
    pub(crate) fn read(params: &[u8]) -> Result<Self, RpcError> {
        let text = member(params, "notifications")?;
        let (mut filter, mut wrong) = (Self::default(), None);
        let is_object = object_members(text, |name, value| {
            let names = LISTS.iter().map(|(_, list, _)| *list).chain([RESOURCE_URIS, TASK_IDS]);
            let Some((at, name)) = names.enumerate().find(|(_, member)| member.as_bytes() == name) else {
                return;
            };
            if !filter.read_member(at, value) {
                wrong = Some(name);
            }
        });
        match wrong {
            Some(name) => Err(wrong_member(&format!("notifications.{name}"))),
            None if !is_object => Err(wrong_member("notifications")),
            None => Ok(filter),
        }
    }

    /// Reads the member at a position. Returns false if it has the wrong type.
    fn read_member(&mut self, at: usize, value: &[u8]) -> bool {
        match (LISTS.get(at), value) {
            // `null` means absent.
            (_, b"null") => true,
            (Some((list, ..)), b"true") => {
                self.lists |= *list;
                true
            }
            (Some(_), value) => value == b"false",
            (None, value) => match (strings(value), at == LISTS.len()) {
                (Some(uris), true) => {
                    self.resources = Some(uris);
                    true
                }
                (Some(ids), false) => {
                    self.task_ids = Some(ids.into_iter().map(TaskId::new).collect());
                    true
                }
                (None, _) => false,
            },
        }
    }

    /// Removes what a server with these capabilities does not honour.
    pub(crate) fn restrict(&mut self, declared: &Capabilities) {
        self.lists &= declared_lists(|capability| declared.has(capability));
        if !declared.has(Capability::ResourceSubscriptions) {
            self.resources = None;
        }
    }

    /// Appends the filter as JSON.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.push(b'{');
        let start = out.len();
        let begin = |out: &mut Vec<u8>, name: &str| {
            if out.len() > start {
                out.push(b',');
            }
            write_str(out, name);
            out.push(b':');
        };
        for (list, name, _) in &LISTS {
            if self.lists & list != 0 {
                begin(out, name);
                out.extend_from_slice(b"true");
            }
        }
        if let Some(uris) = &self.resources {
            begin(out, RESOURCE_URIS);
            write_strings(out, &mut uris.iter().map(|uri| &**uri));
        }
        if let Some(ids) = &self.task_ids {
            begin(out, TASK_IDS);
            write_strings(out, &mut ids.iter().map(TaskId::as_str));
        }
        out.push(b'}');
    }
}

/// Returns the lists whose changes a server announces, by its capabilities.
pub(crate) fn declared_lists(has: impl Fn(Capability) -> bool) -> ListSet {
    LISTS.iter().filter(|(.., capability)| has(*capability)).fold(0, |all, (list, ..)| all | list)
}

/// Reads the URI of `resources/subscribe` and `resources/unsubscribe`.
///
/// # Errors
///
/// The error response to send.
pub(crate) fn read_uri(params: &[u8]) -> Result<Cow<'_, str>, RpcError> {
    string(member(params, "uri")?).ok_or_else(|| wrong_member("uri"))
}

/// Returns the value of a member of the parameters.
///
/// # Errors
///
/// The error response to send, if it is missing, or if a name occurs twice.
fn member<'a>(params: &'a [u8], name: &str) -> Result<&'a [u8], RpcError> {
    let mut found = None;
    let all_differ = object_members(params, |other, value| {
        if other == name.as_bytes() {
            found = Some(value);
        }
    });
    // Of a member that is named twice it is unknown which value the peer means.
    found.filter(|_| all_differ).ok_or_else(|| wrong_member(name))
}

/// Returns the elements of an array of strings.
fn strings(array: &[u8]) -> Option<Vec<String>> {
    let (mut all, mut are_strings) = (Vec::new(), true);
    let scanned = Scanner::trusted(array).array(|s| {
        let element = s.value()?.slice(array).and_then(string);
        are_strings &= element.is_some();
        all.extend(element.map(Cow::into_owned));
        Ok(())
    });
    (scanned.is_ok() && are_strings).then_some(all)
}

fn write_strings(out: &mut Vec<u8>, texts: &mut dyn Iterator<Item = &str>) {
    let mut separator = b'[';
    for text in texts {
        out.push(separator);
        write_str(out, text);
        separator = b',';
    }
    if separator == b'[' {
        out.push(b'[');
    }
    out.push(b']');
}

#[cold]
fn wrong_member(name: &str) -> RpcError {
    RpcError::invalid_params(format!("`params.{name}` is missing, repeated or of the wrong type"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Serializer;
    use crate::model::{SubscriptionFilter, SubscriptionsListenParams};

    #[test]
    fn filter_is_read_and_written_as_its_typed_form() {
        for text in [
            "{}",
            r#"{"toolsListChanged":true,"promptsListChanged":false,"other":1}"#,
            r#"{"resourcesListChanged":true,"toolsListChanged":null,"resourceSubscriptions":[]}"#,
            r#"{"promptsListChanged":true,"resourceSubscriptions":["a:\"1","b:2"],"taskIds":["x"]}"#,
        ] {
            let params = format!(r#"{{"_meta":{{}},"notifications":{text}}}"#);
            let filter = ListenFilter::read(params.as_bytes()).expect("a filter");
            let typed: SubscriptionsListenParams = serde_json::from_str(&params).expect("a filter");
            // Lists that are not wanted are left out.
            let wanted = |list: Option<bool>| list.filter(|wanted| *wanted);
            let mut expected = SubscriptionFilter::new();
            expected.tools_list_changed = wanted(typed.notifications.tools_list_changed);
            expected.prompts_list_changed = wanted(typed.notifications.prompts_list_changed);
            expected.resources_list_changed = wanted(typed.notifications.resources_list_changed);
            expected.resource_subscriptions = typed.notifications.resource_subscriptions;
            expected.task_ids = typed.notifications.task_ids;
            let (mut written, mut serialized) = (Vec::new(), Vec::new());
            filter.write(&mut written);
            Serializer::any(&mut serialized, &expected).expect("JSON");
            assert_eq!(String::from_utf8(written), String::from_utf8(serialized));
        }
    }

    #[test]
    fn filter_of_the_wrong_form_is_refused_as_its_typed_form_is() {
        for params in [
            "{}",
            r#"{"notifications":[]}"#,
            r#"{"notifications":{},"notifications":{}}"#,
            r#"{"notifications":{"toolsListChanged":1}}"#,
            r#"{"notifications":{"toolsListChanged":true,"toolsListChanged":true}}"#,
            r#"{"notifications":{"resourceSubscriptions":"a:1"}}"#,
            r#"{"notifications":{"resourceSubscriptions":[1]}}"#,
            r#"{"notifications":{"taskIds":{}}}"#,
        ] {
            assert!(serde_json::from_str::<SubscriptionsListenParams>(params).is_err(), "{params}");
            let error = ListenFilter::read(params.as_bytes()).err().expect(params);
            assert!(error.message.starts_with("`params.notifications"), "{}", error.message);
        }
    }
}
