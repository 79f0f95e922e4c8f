//! Checks of lists: pages, cursors and order.

use alloc::collections::BTreeMap;

use mcp_proto::RawJson;
use serde_json::{Value, json};

use super::conversation::{CheckAnswer, CheckConversation};
use super::handshake::describe_missing;
use super::rules;
use super::{has_code, method_location};

/// Kind of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListKind {
    Tools,
    Resources,
    Templates,
    Prompts,
}

impl ListKind {
    pub(super) const ALL: [Self; 4] = [Self::Tools, Self::Resources, Self::Templates, Self::Prompts];

    const fn method(self) -> &'static str {
        match self {
            Self::Tools => "tools/list",
            Self::Resources => "resources/list",
            Self::Templates => "resources/templates/list",
            Self::Prompts => "prompts/list",
        }
    }

    const fn member(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
            Self::Prompts => "prompts",
        }
    }

    /// Returns the capability that must be declared.
    pub(super) const fn capability(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Resources | Self::Templates => "resources",
            Self::Prompts => "prompts",
        }
    }

    /// Returns the member that identifies an entry.
    pub(super) const fn key(self) -> &'static str {
        match self {
            Self::Tools | Self::Prompts => "name",
            Self::Resources => "uri",
            Self::Templates => "uriTemplate",
        }
    }

    pub(super) const fn singular(self) -> &'static str {
        match self {
            Self::Tools => "tool",
            Self::Resources => "resource",
            Self::Templates => "resource template",
            Self::Prompts => "prompt",
        }
    }
}

/// All lists of a server.
pub(super) struct ServerLists {
    lists: Vec<(ListKind, Vec<RawJson>)>,
}

impl ServerLists {
    /// Returns the entries of a list. It is empty if the server does not have the list.
    pub(super) fn entries(&self, kind: ListKind) -> &[RawJson] {
        self.lists.iter().find(|(this, _)| *this == kind).map_or(&[], |(_, entries)| entries.as_slice())
    }

    /// Returns whether the server has this list.
    pub(super) fn has(&self, kind: ListKind) -> bool {
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
    for kind in ListKind::ALL {
        if conversation.capabilities[kind.capability()].is_null() {
            if kind != ListKind::Templates {
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

fn check_undeclared(conversation: &mut CheckConversation<'_>, kind: ListKind) {
    let what = match conversation.request(kind.method(), Value::Null) {
        CheckAnswer::Error(failed) if has_code(&failed, -32601) => return,
        CheckAnswer::Error(failed) => {
            let what =
                format!("`{}` is not declared, and gets the error {}", kind.capability(), failed.summary());
            conversation.report.add(rules::UNDECLARED_CODE, &method_location(kind.method()), what);
            return;
        }
        CheckAnswer::Result(_) => format!("there is an answer, and `{}` is not declared", kind.capability()),
        CheckAnswer::None => return,
    };
    conversation.report.add(rules::SERVED_NOT_DECLARED, &method_location(kind.method()), what);
}

/// Fetches all pages. Returns `None` if the server does not have the list.
///
/// Findings are reported only for the `first` walk.
fn walk_pages(conversation: &mut CheckConversation<'_>, kind: ListKind, first: bool) -> Option<ListWalk> {
    let location = method_location(kind.method());
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
        let raw = match conversation.request(kind.method(), params) {
            CheckAnswer::Result(raw) => raw,
            // The server requires a client capability, which the checker does not have.
            CheckAnswer::Error(failed) if has_code(&failed, -32021) => return None,
            CheckAnswer::Error(failed) => {
                if let Some(cursor) = cursors.last() {
                    let what = format!("its own cursor {cursor:?} gets the error {}", failed.summary());
                    complain(rules::CURSOR_LOOP, what);
                    return Some(walk);
                }
                if kind == ListKind::Templates && has_code(&failed, -32601) {
                    complain(rules::TEMPLATES_NOT_SERVED, "it is refused with -32601".into());
                } else {
                    let what = format!(
                        "`{}` is declared, and gets the error {}",
                        kind.capability(),
                        failed.summary()
                    );
                    complain(rules::DECLARED_NOT_SERVED, what);
                }
                return None;
            }
            CheckAnswer::None => return Some(walk).filter(|walk| !walk.pages.is_empty()),
        };
        let value: Value = raw.parse().unwrap_or_default();
        let Some(entries) = raw.member(kind.member()).and_then(|list| list.elements()) else {
            let what = describe_missing(value.get(kind.member()));
            complain(rules::LIST_SHAPE, format!("`{}` is {what}, but must be an array", kind.member()));
            return Some(walk);
        };
        if let (Some(before), Some(now)) = (&scope, value.get("cacheScope")) {
            if before != now {
                complain(rules::CACHE_SCOPE, format!("one page says {before}, the next one {now}"));
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
                complain(rules::LIST_SHAPE, format!("`nextCursor` is {other}, but must be a string"));
                walk.is_complete = other.is_null();
                return Some(walk);
            }
        };
        if cursors.contains(&next) {
            complain(rules::CURSOR_LOOP, format!("the cursor {next:?} leads back to an earlier page"));
            return Some(walk);
        }
        cursors.push(next);
        if walk.pages.len() >= MAX_PAGES {
            complain(rules::LIST_ENDLESS, format!("there are more than {MAX_PAGES} pages"));
            return Some(walk);
        }
    }
}

/// Returns the keys of the entries, in order.
fn entry_keys(kind: ListKind, walk: &ListWalk) -> Vec<String> {
    let key = |entry: &RawJson| entry.member(kind.key()).and_then(|key| key.string());
    walk.pages.iter().flatten().filter_map(key).collect()
}

fn check_duplicates(conversation: &CheckConversation<'_>, kind: ListKind, walk: &ListWalk) {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for (page, entries) in walk.pages.iter().enumerate() {
        for key in entries.iter().filter_map(|entry| entry.member(kind.key())?.string()) {
            let location = format!("{} `{key}`", kind.singular());
            match seen.get(&key) {
                Some(before) if *before == page => {
                    conversation.report.add(rules::DUPLICATE, &location, "it is listed more than once");
                }
                Some(before) => {
                    let what = format!("it is on page {} and again on page {}", before + 1, page + 1);
                    conversation.report.add(rules::DUPLICATE_PAGES, &location, what);
                }
                None => _ = seen.insert(key, page),
            }
        }
    }
}

/// Fetches the list again and checks that the same entries come in the same order.
fn check_order(conversation: &mut CheckConversation<'_>, kind: ListKind, before: &[String]) {
    let Some(again) = walk_pages(conversation, kind, false) else { return };
    let after = entry_keys(kind, &again);
    let sorted = |keys: &[String]| {
        let mut keys = keys.to_vec();
        keys.sort_unstable();
        keys
    };
    // A different set of entries is a change, not a violation.
    if before != after && sorted(before) == sorted(&after) {
        let rule = if kind == ListKind::Tools && conversation.is_modern() {
            rules::ORDER
        } else {
            rules::ORDER_OTHER
        };
        let at = before.iter().zip(&after).position(|(before, after)| before != after).unwrap_or(0);
        let what = format!("entry {} was `{}`, and then `{}`", at + 1, before[at], after[at]);
        conversation.report.add(rule, &method_location(kind.method()), what);
    }
}

fn check_invalid_cursor(conversation: &mut CheckConversation<'_>, kind: ListKind) {
    let location = format!("`{}` with a made-up cursor", kind.method());
    let what = match conversation.request(kind.method(), json!({"cursor": "mcp-probe: no such cursor"})) {
        CheckAnswer::Error(failed) if has_code(&failed, -32602) => return,
        CheckAnswer::Error(failed) => format!("it was answered with the error {}", failed.summary()),
        CheckAnswer::Result(_) => "it was answered with a page".into(),
        CheckAnswer::None => return,
    };
    conversation.report.add(rules::INVALID_CURSOR, &location, what);
}

/// Maximum number of pages that are fetched.
const MAX_PAGES: usize = 100;
