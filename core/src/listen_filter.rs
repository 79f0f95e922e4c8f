//! The filter of a subscription, as both roles read it: by hand, because its typed form would link the whole of serde_json.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::change::{Change, CustomList, CustomListError};
use crate::identity::Capabilities;
use crate::json::{Scanner, object_members, string, write_str};
use crate::methods::{self, Capability};
use crate::model::TaskId;
use crate::rpc::RpcError;

/// A set of lists: a bit for each one, by its position.
pub(crate) type ListSet = u8;
pub(crate) const TOOLS: ListSet = 1;
pub(crate) const PROMPTS: ListSet = 2;
pub(crate) const RESOURCES: ListSet = 4;
/// The lists of the protocol, which legacy revisions have, too.
const OF_PROTOCOL: ListSet = TOOLS | PROMPTS | RESOURCES;

/// A list of the protocol.
struct ProtocolList {
    /// The set of this list alone.
    bit: ListSet,
    change: Change,
    member: &'static str,
    notification: &'static str,
    capability: Capability,
}

/// The lists of the protocol, by position, in the order of their members.
static LISTS: [ProtocolList; 3] = [
    ProtocolList {
        bit: TOOLS,
        change: Change::Tools,
        member: "toolsListChanged",
        notification: methods::TOOLS_CHANGED,
        capability: Capability::ToolsListChanged,
    },
    ProtocolList {
        bit: PROMPTS,
        change: Change::Prompts,
        member: "promptsListChanged",
        notification: methods::PROMPTS_CHANGED,
        capability: Capability::PromptsListChanged,
    },
    ProtocolList {
        bit: RESOURCES,
        change: Change::Resources,
        member: "resourcesListChanged",
        notification: methods::RESOURCES_CHANGED,
        capability: Capability::ResourcesListChanged,
    },
];
const RESOURCE_URIS: &str = "resourceSubscriptions";
const TASK_IDS: &str = "taskIds";

/// Returns the set of the list at a position alone.
pub(crate) fn bit(list: usize) -> ListSet {
    u32::try_from(list).ok().and_then(|list| 1_u8.checked_shl(list)).unwrap_or(0)
}

/// The custom lists that a configuration registers. Their positions follow those of the lists of the protocol.
#[derive(Clone, Debug, Default)]
pub(crate) struct CustomLists(Vec<CustomList>);

impl CustomLists {
    /// Number of custom lists for which a [`ListSet`] has bits.
    const MAX: usize = ListSet::BITS as usize - LISTS.len();

    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds a list, unless it is there.
    ///
    /// # Errors
    ///
    /// As [`server::Config::custom_list`](crate::server::Config::custom_list).
    pub(crate) fn register(&mut self, list: CustomList) -> Result<(), CustomListError> {
        if self.0.contains(&list) {
            return Ok(());
        }
        let is_of_protocol = [RESOURCE_URIS, TASK_IDS].contains(&list.member())
            || LISTS.iter().any(|other| other.member == list.member())
            || methods::is_spec_notification(list.notification())
            || methods::request_rule(list.notification()).is_some();
        let is_same = |other: &CustomList| {
            other.member() == list.member() || other.notification() == list.notification()
        };
        if is_of_protocol || self.0.iter().any(is_same) {
            return Err(CustomListError::Taken(list));
        }
        if self.0.len() >= Self::MAX {
            return Err(CustomListError::Full(list));
        }
        self.0.push(list);
        Ok(())
    }

    /// Returns the registered lists, each as a set.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ListSet, CustomList)> {
        self.0.iter().enumerate().map(|(at, list)| (bit(LISTS.len() + at), *list))
    }

    /// Returns the position of the list that has changed.
    pub(crate) fn position(&self, change: &Change) -> Option<usize> {
        match change {
            Change::Custom(list) => self.0.iter().position(|other| other == list).map(|at| LISTS.len() + at),
            list => LISTS.iter().position(|other| other.change == *list),
        }
    }

    /// Returns the set of the list that has changed; it is empty if it is none that is registered.
    pub(crate) fn set_of(&self, change: &Change) -> ListSet {
        self.position(change).map_or(0, bit)
    }

    /// Returns the changes of the lists of a set.
    pub(crate) fn changes(&self, lists: ListSet) -> impl Iterator<Item = Change> {
        let of_protocol = LISTS.iter().map(|list| list.change.clone());
        let all = of_protocol.chain(self.0.iter().map(|list| Change::Custom(*list)));
        all.enumerate().filter(move |(at, _)| lists & bit(*at) != 0).map(|(_, change)| change)
    }

    /// Returns the notification of the list at a position.
    pub(crate) fn notification(&self, list: usize) -> Option<&'static str> {
        match LISTS.get(list) {
            Some(list) => Some(list.notification),
            None => self.0.get(list.checked_sub(LISTS.len())?).map(CustomList::notification),
        }
    }

    /// Returns the change that a notification announces, if it is one of a list.
    pub(crate) fn announced_by(&self, notification: &str) -> Option<Change> {
        if let Some(list) = LISTS.iter().find(|list| list.notification == notification) {
            return Some(list.change.clone());
        }
        self.0.iter().find(|list| list.notification() == notification).map(|list| Change::Custom(*list))
    }
}

/// Changes that a subscription covers ([`SubscriptionFilter`](crate::model::SubscriptionFilter)).
#[derive(Default)]
pub(crate) struct ListenFilter {
    pub(crate) lists: ListSet,
    pub(crate) resources: Option<Vec<String>>,
    pub(crate) task_ids: Option<Vec<TaskId>>,
}

/// A member of a filter.
#[derive(Clone, Copy)]
enum FilterMember {
    List(ListSet),
    Resources,
    Tasks,
}

/// Returns a member of a filter with its name, if it is known.
fn find_member(name: &[u8], custom: &CustomLists) -> Option<(&'static str, FilterMember)> {
    let lists = LISTS.iter().map(|list| (list.member, FilterMember::List(list.bit)));
    let known = lists.chain([(RESOURCE_URIS, FilterMember::Resources), (TASK_IDS, FilterMember::Tasks)]);
    let custom = custom.iter().map(|(bit, list)| (list.member(), FilterMember::List(bit)));
    known.chain(custom).find(|(known, _)| known.as_bytes() == name)
}

impl ListenFilter {
    /// Reads the parameters of `subscriptions/listen`, or of its acknowledgment.
    ///
    /// # Errors
    ///
    /// The error response to send. It names the member that is missing, repeated or of the wrong type.
    pub(crate) fn read(params: &[u8], custom: &CustomLists) -> Result<Self, RpcError> {
        let text = member(params, "notifications")?;
        let (mut filter, mut wrong) = (Self::default(), None);
        let is_object = object_members(text, |name, value| {
            let Some((name, member)) = find_member(name, custom) else { return };
            if !filter.read_member(member, value) {
                wrong = Some(name);
            }
        });
        match wrong {
            Some(name) => Err(wrong_member(&format!("notifications.{name}"))),
            None if !is_object => Err(wrong_member("notifications")),
            None => Ok(filter),
        }
    }

    /// Reads a member. Returns false if it has the wrong type.
    fn read_member(&mut self, member: FilterMember, value: &[u8]) -> bool {
        match (member, value) {
            // `null` means absent.
            (_, b"null") => return true,
            (FilterMember::List(list), b"true") => self.lists |= list,
            (FilterMember::List(_), value) => return value == b"false",
            (FilterMember::Resources, value) => {
                let Some(uris) = strings(value) else { return false };
                self.resources = Some(uris);
            }
            (FilterMember::Tasks, value) => {
                let Some(ids) = strings(value) else { return false };
                self.task_ids = Some(ids.into_iter().map(TaskId::new).collect());
            }
        }
        true
    }

    /// Removes what a server with these capabilities does not honour. A custom list is honoured if it is registered.
    pub(crate) fn restrict(&mut self, declared: &Capabilities) {
        self.lists &= declared_lists(|capability| declared.has(capability)) | !OF_PROTOCOL;
        if !declared.has(Capability::ResourceSubscriptions) {
            self.resources = None;
        }
    }

    /// Appends the filter as JSON.
    pub(crate) fn write(&self, out: &mut Vec<u8>, custom: &CustomLists) {
        out.push(b'{');
        let start = out.len();
        let begin = |out: &mut Vec<u8>, name: &str| {
            if out.len() > start {
                out.push(b',');
            }
            write_str(out, name);
            out.push(b':');
        };
        let write_list = |out: &mut Vec<u8>, list: ListSet, name: &str| {
            if self.lists & list != 0 {
                begin(out, name);
                out.extend_from_slice(b"true");
            }
        };
        LISTS.iter().for_each(|list| write_list(out, list.bit, list.member));
        if let Some(uris) = &self.resources {
            begin(out, RESOURCE_URIS);
            write_strings(out, &mut uris.iter().map(|uri| &**uri));
        }
        if let Some(ids) = &self.task_ids {
            begin(out, TASK_IDS);
            write_strings(out, &mut ids.iter().map(TaskId::as_str));
        }
        custom.iter().for_each(|(bit, list)| write_list(out, bit, list.member()));
        out.push(b'}');
    }
}

/// Returns the lists of the protocol whose changes a server announces, by its capabilities.
pub(crate) fn declared_lists(has: impl Fn(Capability) -> bool) -> ListSet {
    LISTS.iter().filter(|list| has(list.capability)).fold(0, |all, list| all | list.bit)
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
            let filter = ListenFilter::read(params.as_bytes(), &CustomLists::new()).expect("a filter");
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
            filter.write(&mut written, &CustomLists::new());
            Serializer::any(&mut serialized, &expected).expect("JSON");
            assert_eq!(String::from_utf8(written), String::from_utf8(serialized));
        }
    }

    // covers: SUB-006
    #[test]
    fn registered_lists_are_read_and_written_as_extra_members_are() {
        let mut custom = CustomLists::new();
        for (member, notification) in [("b", "n/b"), ("a\"", "n/a")] {
            custom.register(CustomList::new(member, notification)).expect("room");
        }
        let [b, a] = [CustomList::new("b", "n/b"), CustomList::new("a\"", "n/a")];
        for (text, lists) in [
            (r#"{"b":true,"c":true}"#, [b].as_slice()),
            (r#"{"a\"":true,"b":null,"taskIds":["x"]}"#, &[a]),
            (r#"{"a\u0022":true,"b":true,"toolsListChanged":true,"resourceSubscriptions":["a:b"]}"#, &[b, a]),
            (r#"{"a\"":false,"c":{"b":true}}"#, &[]),
        ] {
            let params = format!(r#"{{"notifications":{text}}}"#);
            let filter = ListenFilter::read(params.as_bytes(), &custom).expect("a filter");
            let mut expected: SubscriptionFilter = serde_json::from_str(text).expect("a filter");
            // Those that are not registered are left out, and the others are in the order of their registration.
            expected.extra = crate::model::Extra::new();
            expected = lists.iter().fold(expected, |filter, list| filter.custom_list(*list));
            let (mut written, mut serialized) = (Vec::new(), Vec::new());
            filter.write(&mut written, &custom);
            Serializer::any(&mut serialized, &expected).expect("JSON");
            assert_eq!(String::from_utf8(written), String::from_utf8(serialized));
            let changes = custom.changes(filter.lists & !OF_PROTOCOL);
            assert!(changes.eq(lists.iter().map(|list| Change::Custom(*list))), "{text}");
        }
    }

    #[test]
    fn each_list_is_found_by_change_and_by_notification() {
        let mut custom = CustomLists::new();
        custom.register(CustomList::new("b", "n/b")).expect("room");
        for (at, change) in custom.changes(ListSet::MAX).enumerate() {
            assert_eq!((custom.position(&change), custom.set_of(&change)), (Some(at), bit(at)));
            let notification = custom.notification(at).expect("a list");
            assert_eq!(custom.announced_by(notification), Some(change));
        }
        assert_eq!(custom.changes(ListSet::MAX).count(), LISTS.len() + 1);
        let others = [Change::Resource("a:b".into()), Change::Custom(CustomList::new("b", "n/c"))];
        assert!(others.iter().all(|change| custom.set_of(change) == 0));
        assert_eq!((custom.announced_by(methods::RESOURCE_UPDATED), custom.notification(4)), (None, None));
        let bits: Vec<ListSet> = LISTS.iter().map(|list| list.bit).collect();
        assert!(bits.into_iter().eq((0..LISTS.len()).map(bit)) && bit(8) == 0);
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
            let error = ListenFilter::read(params.as_bytes(), &CustomLists::new()).err().expect(params);
            assert!(error.message.starts_with("`params.notifications"), "{}", error.message);
        }
    }
}
