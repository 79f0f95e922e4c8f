//! Checks of lists: pages, cursors and order.

use alloc::collections::BTreeMap;

use mcp_proto::{EntryKind, RawJson};
use serde_json::{Value, json};

use super::conversation::{CheckAnswer, CheckConversation};
use super::handshake::describe_missing;
use super::method_location;
use super::modern::CACHE_SCOPE;
use super::rules::rules_of;

rules_of! {
    CAPABILITIES
    DECLARED_NOT_SERVED "declared-not-served" Error [Spec Hosted] ["TOOL-002" "RES-002" "PROMPT-002" "ERR-002"]
        "declared capabilities are served"
        "serve it, or do not declare it"
    SERVED_NOT_DECLARED "served-not-declared" Error [Spec Hosted] ["TOOL-001" "RES-001" "PROMPT-001" "COMP-001" "LIFE-023"]
        "served features are declared as capabilities"
        "declare it, or refuse it with -32601"
    UNDECLARED_CODE "undeclared-code" Warning [Spec Hosted] ["ERR-002"]
        "undeclared features are refused with -32601"
        "refuse it with that code"
    TEMPLATES_NOT_SERVED "templates-not-served" Note [Spec] ["RES-004"]
        "a server with resources answers `resources/templates/list`"
        "answer with an empty list"
}

rules_of! {
    RULES
    LIST_SHAPE "list-shape" Error [Spec Hosted] ["PAGE-003" "SCHEMA-011"]
        "a list is an array of objects, and `nextCursor` a string"
        "leave `nextCursor` out on the last page"
    CURSOR_LOOP "cursor-loop" Error [Spec Hosted] ["PAGE-003" "PAGE-012"]
        "each cursor leads to another page"
        "leave `nextCursor` out on the last page, and let each cursor name another page"
    LIST_ENDLESS "list-endless" Warning [Spec Hosted] ["PAGE-012"]
        "lists end"
        "make pages larger, or the list shorter"
    DUPLICATE "duplicate" Warning [Spec Hosted] Mcp03 ["TOOL-028" "RES-008" "RES-009" "PROMPT-005"]
        "nothing is listed twice"
        "give each entry a unique name"
    DUPLICATE_PAGES "duplicate-pages" Warning [Spec Hosted] Mcp03 ["PAGE-010"]
        "pages do not overlap"
        "start each page after the last entry of the previous one"
    ORDER "order" Warning [Spec Hosted] ["TOOL-004"]
        "an unchanged list has the same order each time"
        "sort it, or keep it in the order of registration"
    ORDER_OTHER "order-other" Note [Spec] ["PAGE-010"]
        "unchanged lists have the same order each time, even where the revision does not require it"
        "sort it, or keep it in the order of registration"
    INVALID_CURSOR "invalid-cursor" Warning [Spec Hosted] ["PAGE-011" "ERR-018"]
        "a cursor that the server did not issue is refused with -32602"
        "refuse it with that code, even if there is only one page"
}

/// The lists that are checked.
pub(super) const LISTS: [EntryKind; 4] =
    [EntryKind::Tool, EntryKind::Resource, EntryKind::ResourceTemplate, EntryKind::Prompt];

/// Returns the member that identifies an entry.
pub(super) const fn key_member(kind: EntryKind) -> &'static str {
    match kind {
        EntryKind::Resource => "uri",
        EntryKind::ResourceTemplate => "uriTemplate",
        _ => "name",
    }
}

/// All lists of a server.
pub(super) struct ServerLists {
    lists: Vec<(EntryKind, Vec<RawJson>)>,
}

impl ServerLists {
    /// Returns the entries of a list. It is empty if the server does not have the list.
    pub(super) fn entries(&self, kind: EntryKind) -> &[RawJson] {
        self.lists.iter().find(|(this, _)| *this == kind).map_or(&[], |(_, entries)| entries.as_slice())
    }

    /// Returns whether the server has this list.
    pub(super) fn has(&self, kind: EntryKind) -> bool {
        self.lists.iter().any(|(this, _)| *this == kind)
    }
}

/// All pages of one list.
struct ListWalk {
    pages: Vec<Vec<RawJson>>,
    /// Whether the last page was reached.
    is_complete: bool,
}

/// Fetches all lists and checks pages, duplicates, order and cursors.
pub(super) fn check_lists(conversation: &mut CheckConversation<'_>) -> ServerLists {
    let mut lists = Vec::new();
    for kind in LISTS {
        if conversation.capabilities[kind.capability().to_string()].is_null() {
            if kind != EntryKind::ResourceTemplate {
                check_undeclared(conversation, kind);
            }
            continue;
        }
        let Some(walk) = walk_pages(conversation, kind, true) else { continue };
        let keys = entry_keys(kind, &walk);
        check_duplicates(conversation, kind, &walk);
        if walk.is_complete {
            check_order(conversation, kind, &keys);
        }
        check_invalid_cursor(conversation, kind);
        lists.push((kind, walk.pages.into_iter().flatten().collect()));
    }
    ServerLists { lists }
}

fn check_undeclared(conversation: &mut CheckConversation<'_>, kind: EntryKind) {
    let what = match conversation.request(kind.list_method(), Value::Null) {
        CheckAnswer::Error(failed) if failed.code == -32601 => return,
        CheckAnswer::Error(failed) => {
            let what =
                format!("`{}` is not declared, and gets the error {}", kind.capability(), failed.summary());
            conversation.report.add(UNDECLARED_CODE, &method_location(kind.list_method()), what);
            return;
        }
        CheckAnswer::Result(_) => format!("there is an answer, and `{}` is not declared", kind.capability()),
        CheckAnswer::None => return,
    };
    conversation.report.add(SERVED_NOT_DECLARED, &method_location(kind.list_method()), what);
}

/// Fetches all pages. Returns `None` if the server does not have the list.
///
/// Findings are reported only for the `first` walk.
fn walk_pages(conversation: &mut CheckConversation<'_>, kind: EntryKind, first: bool) -> Option<ListWalk> {
    let location = method_location(kind.list_method());
    let report = conversation.report;
    let complain = |rule, what: String| {
        if first {
            report.add(rule, &location, what);
        }
    };
    let mut walk = ListWalk { pages: Vec::new(), is_complete: false };
    let mut cursors: Vec<String> = Vec::new();
    let mut scope = None;
    loop {
        let params = cursors.last().map_or(Value::Null, |cursor| json!({"cursor": cursor}));
        let raw = match conversation.request(kind.list_method(), params) {
            CheckAnswer::Result(raw) => raw,
            // The server requires a client capability, which the checker does not have.
            CheckAnswer::Error(failed) if failed.code == -32021 => return None,
            CheckAnswer::Error(failed) => {
                if let Some(cursor) = cursors.last() {
                    let what = format!("its own cursor {cursor:?} gets the error {}", failed.summary());
                    complain(CURSOR_LOOP, what);
                    return Some(walk);
                }
                if kind == EntryKind::ResourceTemplate && failed.code == -32601 {
                    complain(TEMPLATES_NOT_SERVED, "it is refused with -32601".into());
                } else {
                    let what = format!(
                        "`{}` is declared, and gets the error {}",
                        kind.capability(),
                        failed.summary()
                    );
                    complain(DECLARED_NOT_SERVED, what);
                }
                return None;
            }
            CheckAnswer::None => return Some(walk).filter(|walk| !walk.pages.is_empty()),
        };
        let value: Value = raw.parse().unwrap_or_default();
        let Some(entries) = raw.member(kind.list_member()).and_then(|list| list.elements()) else {
            let what = describe_missing(value.get(kind.list_member()));
            complain(LIST_SHAPE, format!("`{}` is {what}, but must be an array", kind.list_member()));
            return Some(walk);
        };
        if let (Some(before), Some(now)) = (&scope, value.get("cacheScope")) {
            if before != now {
                complain(CACHE_SCOPE, format!("one page says {before}, the next one {now}"));
            }
        }
        scope = value.get("cacheScope").cloned();
        walk.pages.push(entries);
        let next = match value.get("nextCursor") {
            None => {
                walk.is_complete = true;
                return Some(walk);
            }
            Some(Value::String(next)) => next.clone(),
            Some(other) => {
                complain(LIST_SHAPE, format!("`nextCursor` is {other}, but must be a string"));
                walk.is_complete = other.is_null();
                return Some(walk);
            }
        };
        if cursors.contains(&next) {
            complain(CURSOR_LOOP, format!("the cursor {next:?} leads back to an earlier page"));
            return Some(walk);
        }
        cursors.push(next);
        if walk.pages.len() >= MAX_PAGES {
            complain(LIST_ENDLESS, format!("there are more than {MAX_PAGES} pages"));
            return Some(walk);
        }
    }
}

/// Returns the keys of the entries, in order.
fn entry_keys(kind: EntryKind, walk: &ListWalk) -> Vec<String> {
    let key = |entry: &RawJson| entry.member(key_member(kind)).and_then(|key| key.string());
    walk.pages.iter().flatten().filter_map(key).collect()
}

fn check_duplicates(conversation: &CheckConversation<'_>, kind: EntryKind, walk: &ListWalk) {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for (page, entries) in walk.pages.iter().enumerate() {
        for key in entries.iter().filter_map(|entry| entry.member(key_member(kind))?.string()) {
            let location = format!("{} `{key}`", kind);
            match seen.get(&key) {
                Some(before) if *before == page => {
                    conversation.report.add(DUPLICATE, &location, "it is listed more than once");
                }
                Some(before) => {
                    let what = format!("it is on page {} and again on page {}", before + 1, page + 1);
                    conversation.report.add(DUPLICATE_PAGES, &location, what);
                }
                None => _ = seen.insert(key, page),
            }
        }
    }
}

/// Fetches the list again and checks that the same entries come in the same order.
fn check_order(conversation: &mut CheckConversation<'_>, kind: EntryKind, before: &[String]) {
    let Some(again) = walk_pages(conversation, kind, false) else { return };
    let after = entry_keys(kind, &again);
    let sorted = |keys: &[String]| {
        let mut keys = keys.to_vec();
        keys.sort_unstable();
        keys
    };
    // A different set of entries is a change, not a violation.
    if before != after && sorted(before) == sorted(&after) {
        let rule = if kind == EntryKind::Tool && conversation.is_modern() { ORDER } else { ORDER_OTHER };
        let at = before.iter().zip(&after).position(|(before, after)| before != after).unwrap_or(0);
        let what = format!("entry {} was `{}`, and then `{}`", at + 1, before[at], after[at]);
        conversation.report.add(rule, &method_location(kind.list_method()), what);
    }
}

fn check_invalid_cursor(conversation: &mut CheckConversation<'_>, kind: EntryKind) {
    let location = format!("`{}` with a made-up cursor", kind.list_method());
    let answer = conversation.request(kind.list_method(), json!({"cursor": "mcp-probe: no such cursor"}));
    let words = ["it was answered with", "it was answered with a page"];
    if let Some(what) = answer.complaint(|failed| failed.code == -32602, words) {
        conversation.report.add(INVALID_CURSOR, &location, what);
    }
}

/// Maximum number of pages that are fetched.
const MAX_PAGES: usize = 100;
