//! Lists of all upstreams of a gateway, merged page by page.

use alloc::borrow::Cow;
use alloc::collections::{BTreeMap, BTreeSet};
use core::time::Duration;

use mcp_proto::model::{Extra, Map};
use mcp_proto::server::{Call, Caller};
use mcp_proto::{
    CallError, CallId, CallKey, CallOptions, EncodeError, EntryKind, Instant, RawJson, RpcError, UseError,
};

use super::convert;
use super::gateway::{Gateway, GatewayEngines};
use super::policy::{Access, Decision};
use super::relay::Relay;
use super::resources::Page;
use super::routing::refuse;

/// Lists that clients wait for. Their number is bounded by [`mcp_proto::Limits::max_live_calls`].
#[derive(Debug, Default)]
pub(crate) struct MergedLists {
    lists: BTreeMap<CallId, MergedList>,
    /// Calls at upstreams, by index and key, with the lists that they are for.
    sent: BTreeMap<(usize, CallKey), CallId>,
}

/// One page of a list, of which each upstream has a part.
#[derive(Debug)]
struct MergedList {
    call: Call,
    kind: EntryKind,
    deadline: Instant,
    /// Cursors by the names of the upstreams that have this page; `None` for the first page.
    cursors: Option<Map<String>>,
    parts: BTreeMap<usize, Part>,
}

#[derive(Debug)]
enum Part {
    /// The upstream is about to be started, and asked.
    Waiting,
    Sent(CallKey),
    Done(RawJson),
    Failed(String),
    /// The upstream has no such list.
    Absent,
}

impl Part {
    const fn is_open(&self) -> bool {
        matches!(self, Self::Waiting | Self::Sent(_))
    }
}

impl MergedList {
    /// Returns the cursor of the page at an upstream; `None` for the first page.
    fn cursor(&self, upstream: &str) -> Option<&String> {
        let mut cursors = self.cursors.iter().flat_map(|cursors| cursors.iter());
        cursors.find(|(name, _)| **name == *upstream).map(|(_, cursor)| cursor)
    }

    /// Returns the upstreams whose parts have room on one page: the smallest ones, so that no large part shuts out the others.
    fn fitting_parts(&self) -> BTreeSet<usize> {
        let mut sizes: Vec<(usize, usize)> = self.parts.iter().filter_map(part_size).collect();
        sizes.sort_unstable();
        let mut total = 0;
        let fitting = sizes.into_iter().take_while(|(size, _)| {
            total += size;
            total <= MAX_LIST_BYTES
        });
        fitting.map(|(_, upstream)| upstream).collect()
    }
}

/// Returns the bytes of a part that waits to be merged, and its upstream.
fn part_size((upstream, part): (&usize, &Part)) -> Option<(usize, usize)> {
    match part {
        Part::Done(result) => Some((result.as_bytes().len(), *upstream)),
        _ => None,
    }
}

impl MergedLists {
    pub(crate) fn has_part(&self, upstream: usize, call: CallKey) -> bool {
        self.sent.contains_key(&(upstream, call))
    }

    /// Returns the bytes of all answers that wait for those of other upstreams.
    fn held_bytes(&self) -> usize {
        let parts = self.lists.values().flat_map(|list| &list.parts);
        parts.filter_map(part_size).map(|(size, _)| size).sum()
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.lists.values().map(|list| list.deadline).min()
    }

    /// Returns the lists that wait for an upstream.
    fn waiting_for(&self, upstream: usize) -> Vec<CallId> {
        let waits = |list: &&MergedList| list.parts.get(&upstream).is_some_and(Part::is_open);
        self.lists.values().filter(waits).map(|list| list.call.id()).collect()
    }
}

impl Gateway {
    pub(crate) fn start_list(&mut self, engines: &mut GatewayEngines<'_>, call: Call, kind: EntryKind) {
        let cursor = given_cursor(&call);
        let cursors = cursor.as_ref().and_then(|cursor| decode_cursor(kind, cursor));
        if cursor.is_some() && cursors.is_none() {
            return refuse(engines, &call, &unknown_cursor_error());
        }
        let id = call.id();
        let (deadline, is_first) = (engines.now + LIST_TIMEOUT, cursors.is_none());
        let list = MergedList { call, kind, deadline, cursors, parts: BTreeMap::new() };
        let has_part = |relay: &Relay| is_first || list.cursor(relay.name()).is_some();
        let upstreams = self.indices().filter(|index| self.relay(*index).is_some_and(has_part));
        let upstreams: Vec<usize> = upstreams.collect();
        self.lists.lists.insert(id, list);
        for upstream in upstreams {
            let Some(relay) = self.relay(upstream) else { continue };
            let part = match relay.life.absence(engines.now) {
                Some(reason) => Part::Failed(reason.to_owned()),
                None => Part::Waiting,
            };
            self.set_part(id, upstream, part);
            self.send_part(engines, id, upstream);
        }
        self.finish_if_complete(engines, id);
    }

    /// Sets the state of a part, and counts whether its upstream is in use.
    fn set_part(&mut self, id: CallId, upstream: usize, mut part: Part) {
        if let Part::Failed(reason) = &mut part {
            *reason = convert::clip(reason);
        }
        let Some(list) = self.lists.lists.get_mut(&id) else { return };
        let is_open = part.is_open();
        let was_open = list.parts.insert(upstream, part).is_some_and(|part| part.is_open());
        if let Some(relay) = self.upstreams.get_mut(upstream).and_then(Option::as_mut) {
            relay.listing = (relay.listing + usize::from(is_open)).saturating_sub(usize::from(was_open));
        }
    }

    /// Asks an upstream for its part, if it runs.
    fn send_part(&mut self, engines: &mut GatewayEngines<'_>, id: CallId, upstream: usize) {
        if !self.is_running(upstream) {
            return;
        }
        let name = self.relay(upstream).map(Relay::name).unwrap_or_default();
        let Some(list) = self.lists.lists.get(&id) else { return };
        let Some(Part::Waiting) = list.parts.get(&upstream) else { return };
        let mut params = Map::new();
        if let Some(cursor) = list.cursor(name) {
            params.insert("cursor", cursor.clone());
        }
        let method = list.kind.list_method();
        let Some(between) = engines.of(upstream) else { return };
        let options = CallOptions::new();
        match between.upstream.call(between.upstream_now, method, &params, &options) {
            Ok(key) => {
                if let Some(relay) = self.upstreams.get_mut(upstream).and_then(Option::as_mut) {
                    relay.note_user(&list.call);
                    relay.calls.add_list(key, list.call.channel());
                }
                self.lists.sent.insert((upstream, key), id);
                self.set_part(id, upstream, Part::Sent(key));
            }
            Err(UseError::MissingPeerCapability(_) | UseError::NotInVersion { .. }) => {
                self.set_part(id, upstream, Part::Absent);
            }
            Err(refused) => self.set_part(id, upstream, Part::Failed(refused.to_string())),
        }
    }

    /// Handles the outcome of a call that asked for a part.
    pub(crate) fn handle_part(
        &mut self,
        engines: &mut GatewayEngines<'_>,
        upstream: usize,
        call: CallKey,
        outcome: Result<RawJson, CallError>,
    ) {
        let Some(id) = self.lists.sent.remove(&(upstream, call)) else { return };
        let relay = self.upstreams.get_mut(upstream).and_then(Option::as_mut);
        let failure = relay.and_then(|relay| {
            relay.calls.end_list(call);
            outcome.as_ref().err().map(|error| relay.call_failure(error).message.into_owned())
        });
        let part = match outcome {
            Ok(result) if result.as_bytes().len() > MAX_LIST_BYTES => Part::Failed(NO_ROOM.into()),
            Ok(result) if self.lists.held_bytes() + result.as_bytes().len() > MAX_HELD_BYTES => {
                Part::Failed("the gateway has no room for its answer".into())
            }
            Ok(result) => Part::Done(result.compact()),
            Err(_) => Part::Failed(failure.unwrap_or_default()),
        };
        self.set_part(id, upstream, part);
        self.finish_if_complete(engines, id);
    }

    /// Asks an upstream that was started for the parts that waited for it.
    pub(crate) fn send_waiting_parts(&mut self, engines: &mut GatewayEngines<'_>, upstream: usize) {
        for id in self.lists.waiting_for(upstream) {
            self.send_part(engines, id, upstream);
            self.finish_if_complete(engines, id);
        }
    }

    /// Leaves an upstream that cannot be started, or is removed, out of the lists that wait for it.
    pub(crate) fn fail_parts(&mut self, engines: &mut GatewayEngines<'_>, upstream: usize, reason: &str) {
        for id in self.lists.waiting_for(upstream) {
            self.close_part(engines, id, upstream, reason);
            self.finish_if_complete(engines, id);
        }
    }

    /// Ends a list that its client has cancelled, if the call is one.
    pub(crate) fn cancel_list(&mut self, engines: &mut GatewayEngines<'_>, id: CallId) {
        self.close_parts(engines, id, "the client cancelled it, or is gone");
        self.lists.lists.remove(&id);
    }

    /// Answers the lists whose time is over, without the upstreams that have not answered.
    pub(crate) fn finish_late_lists(&mut self, engines: &mut GatewayEngines<'_>) {
        let late = self.lists.lists.values().filter(|list| list.deadline <= engines.now);
        for id in late.map(|list| list.call.id()).collect::<Vec<_>>() {
            self.close_parts(engines, id, "no answer in time");
            self.finish_if_complete(engines, id);
        }
    }

    /// Ends the parts of a list that are still open, and their calls.
    fn close_parts(&mut self, engines: &mut GatewayEngines<'_>, id: CallId, reason: &str) {
        let Some(list) = self.lists.lists.get(&id) else { return };
        let open = list.parts.iter().filter(|(_, part)| part.is_open()).map(|(upstream, _)| *upstream);
        for upstream in open.collect::<Vec<_>>() {
            self.close_part(engines, id, upstream, reason);
        }
    }

    /// Ends an open part, and its call.
    fn close_part(&mut self, engines: &mut GatewayEngines<'_>, id: CallId, upstream: usize, reason: &str) {
        let list = self.lists.lists.get(&id);
        if let Some(Part::Sent(key)) = list.and_then(|list| list.parts.get(&upstream)) {
            let key = *key;
            self.lists.sent.remove(&(upstream, key));
            self.with(engines, upstream, |relay, engines| {
                let _ = engines.upstream.cancel(engines.upstream_now, key, Some(reason));
                relay.calls.note_cancelled_list(key, engines.now);
            });
        }
        self.set_part(id, upstream, Part::Failed(reason.to_owned()));
    }

    /// Answers a list once no part is open.
    fn finish_if_complete(&mut self, engines: &mut GatewayEngines<'_>, id: CallId) {
        if self.lists.lists.get(&id).is_none_or(|list| list.parts.values().any(Part::is_open)) {
            return;
        }
        let Some(list) = self.lists.lists.remove(&id) else { return };
        let merged = self.merge(&list).map_err(UseError::from);
        let answered = merged.and_then(|result| engines.downstream.complete_raw(engines.now, id, &result));
        if let Err(refused) = answered {
            refuse(engines, &list.call, &convert::unreadable_result_error(&refused));
        }
    }

    fn merge(&mut self, list: &MergedList) -> Result<RawJson, EncodeError> {
        let mut entries = Vec::new();
        let fitting = list.fitting_parts();
        let upstreams = self.indices().count();
        let (mut cursors, mut unavailable) = (Map::<String>::new(), Map::<String>::new());
        for (upstream, part) in &list.parts {
            let Some(relay) = self.relay(*upstream) else { continue };
            let name = relay.name().to_owned();
            let mut unavailable = |reason: &str| {
                if self.is_named(list.call.caller(), list.kind, &name) {
                    unavailable.insert(name.clone(), reason.to_owned());
                }
            };
            match part {
                Part::Done(result) if result.member(list.kind.list_member()).is_none() => {
                    unavailable("its answer has no list");
                }
                Part::Done(_) if !fitting.contains(upstream) => unavailable(NO_ROOM),
                Part::Done(result) => {
                    let cursor = result.member("nextCursor").and_then(|cursor| cursor.string());
                    let is_too_long = cursor.as_ref().is_some_and(|cursor| cursor.len() > MAX_CURSOR);
                    if is_too_long {
                        unavailable("its list has more pages, but its cursor is too long");
                    }
                    let page =
                        Page { cursor: list.cursor(&name).map(String::as_str), next: cursor.as_deref() };
                    self.owners.begin_page(list.kind, *upstream, upstreams, page);
                    self.merge_part(list, *upstream, result, &mut entries);
                    if !is_too_long {
                        self.owners.end_page(list.kind, *upstream, page);
                        cursor.map(|cursor| cursors.insert(name, cursor));
                    }
                }
                Part::Failed(reason) => unavailable(reason),
                Part::Waiting | Part::Sent(_) | Part::Absent => {}
            }
        }
        let mut members = Extra::from([(list.kind.list_member(), RawJson::encode(&entries)?)]);
        if !cursors.is_empty() {
            members.insert("nextCursor", encode_cursor(list.kind, &cursors)?);
        }
        if !unavailable.is_empty() {
            members.insert("_meta", RawJson::encode(&Map::from([(UNAVAILABLE, unavailable)]))?);
        }
        RawJson::encode(&members)
    }

    /// Returns whether the client may learn of an upstream that is left out.
    pub(crate) fn is_named(&self, caller: &Caller, kind: EntryKind, upstream: &str) -> bool {
        self.decide_listed(caller, upstream, (kind, "", &RawJson::empty_object())).is_shown()
    }

    /// Decides about an entry of a list.
    pub(crate) fn decide_listed(
        &self,
        caller: &Caller,
        upstream: &str,
        (kind, name, payload): (EntryKind, &str, &RawJson),
    ) -> Decision {
        self.decide(&Access { caller, upstream, kind, name, payload, is_use: false })
    }

    /// Returns whether a resource belongs to an upstream that was added before, of which the client may see it.
    fn is_shown_before(&self, list: &MergedList, upstream: usize, uri: &str, entry: &RawJson) -> bool {
        let owners = self.owners.of_entry(list.kind, uri).iter().take_while(|owner| **owner < upstream);
        let entry = (list.kind, uri, entry);
        let mut relays = owners.filter_map(|owner| self.relay(*owner));
        relays.any(|relay| self.decide_listed(list.call.caller(), relay.name(), entry).is_shown())
    }

    /// Adds the entries of one upstream that the client may see, by the names that it knows them by.
    fn merge_part(
        &mut self,
        list: &MergedList,
        upstream: usize,
        result: &RawJson,
        entries: &mut Vec<RawJson>,
    ) {
        let Some(Some(relay)) = self.upstreams.get(upstream) else { return };
        let (owner, from, to) = (relay.name().to_owned(), relay.version, list.call.version());
        let result = match list.kind {
            EntryKind::Tool => relay.with_task_support(result, to),
            _ => Cow::Borrowed(result),
        };
        let found = convert::convert_entries(list.kind, &result, from, to, &mut self.diagnostics);
        let member = match list.kind {
            EntryKind::Resource => "uri",
            EntryKind::ResourceTemplate => "uriTemplate",
            _ => "name",
        };
        let has_uri = member != "name";
        for entry in found {
            let Some(name) = entry.member(member).and_then(|name| name.string()) else { continue };
            let known = if has_uri { name.clone() } else { format!("{owner}_{name}") };
            let is_known = self.owners.claim(list.kind, &known, upstream);
            let entry = match self.decide_listed(list.call.caller(), &owner, (list.kind, &name, &entry)) {
                Decision::Allow => entry,
                Decision::Rewrite(entry) => entry,
                Decision::Hide | Decision::Refuse(_) => continue,
            };
            if has_uri && self.is_shown_before(list, upstream, &name, &entry) {
                let shown = convert::clip(&name);
                self.note(format!(
                    "`{owner}`: the {} `{shown}` is left out: another server has listed the same URI before",
                    list.kind
                ));
                continue;
            }
            let shown = if has_uri { Some(name) } else { self.shown_name(known, is_known) };
            let Some(shown) = shown else { continue };
            let entry = convert::with_member(&entry, member, RawJson::encode(&shown).ok());
            let Some(entry) = entry else { continue };
            if list.kind == EntryKind::Tool {
                if let Some(relay) = self.upstreams.get_mut(upstream).and_then(Option::as_mut) {
                    relay.record_header_tool(shown, &entry);
                }
            }
            entries.push(entry);
        }
    }
}

/// Returns the cursor with which a client asks for a list.
pub(crate) fn given_cursor(call: &Call) -> Option<RawJson> {
    call.params()?.member("cursor").filter(|cursor| cursor.as_str() != "null")
}

/// Returns the error for a cursor that the gateway did not write for this list.
pub(crate) fn unknown_cursor_error() -> RpcError {
    RpcError::invalid_params("`params.cursor` is none of this list of the gateway: begin without a cursor")
}

/// Returns the cursor of the next page: the kind of the list, and the cursor of each upstream that has more.
fn encode_cursor(kind: EntryKind, cursors: &Map<String>) -> Result<RawJson, EncodeError> {
    let list = RawJson::encode(kind.list_member())?;
    let object = Map::from([("list", list), ("next", RawJson::encode(cursors)?)]);
    RawJson::encode(RawJson::encode(&object)?.as_str())
}

/// Returns the cursors of the upstreams; `None` if the gateway did not write them for this list.
fn decode_cursor(kind: EntryKind, cursor: &RawJson) -> Option<Map<String>> {
    let object = RawJson::new(cursor.string()?).ok()?;
    let is_of_kind = object.member("list")?.string()? == kind.list_member();
    is_of_kind.then(|| object.member("next")?.parse().ok()).flatten()
}

/// Time after which a list is answered without the upstreams that have not answered.
pub const LIST_TIMEOUT: Duration = Duration::from_secs(10);

/// Key in `_meta` of a list: an object with the reasons why upstreams are left out, by their names.
pub const UNAVAILABLE: &str = "io.github.mcp-proto/unavailable";

/// Maximum number of bytes of answers that wait for those of other upstreams, of all lists.
const MAX_HELD_BYTES: usize = 64 << 20;

/// Maximum number of bytes of a merged page, as upstreams wrote it. If there is more, those with the most are left out and named.
const MAX_LIST_BYTES: usize = 8 << 20;

/// Reason why an upstream with more than this is left out.
const NO_ROOM: &str = "its entries have no room in the list";

/// Longest cursor of an upstream in bytes. A list with a longer one ends with its page, and the upstream is named.
const MAX_CURSOR: usize = 4_096;
