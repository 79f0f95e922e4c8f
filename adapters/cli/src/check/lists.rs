//! Lists: their pages, cursors and order

use alloc::collections::BTreeMap;

use mcp_proto::RawJson;
use serde_json::{Value, json};

use super::handshake::absent;
use super::rules;
use super::talk::{Answer, Talk};
use super::{is, place};

/// What servers list
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Tools,
    Resources,
    Templates,
    Prompts,
}

impl Kind {
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

    /// The capability that has to be declared
    pub(super) const fn capability(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Resources | Self::Templates => "resources",
            Self::Prompts => "prompts",
        }
    }

    /// What names an entry
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

/// All that a server lists
pub(super) struct Lists {
    lists: Vec<(Kind, Vec<RawJson>)>,
}

impl Lists {
    /// The entries of one list; empty when there is none
    pub(super) fn of(&self, kind: Kind) -> &[RawJson] {
        self.lists.iter().find(|(this, _)| *this == kind).map_or(&[], |(_, entries)| entries.as_slice())
    }

    /// Whether the server answers with this list
    pub(super) fn has(&self, kind: Kind) -> bool {
        self.lists.iter().any(|(this, _)| *this == kind)
    }
}

/// One walk over all pages
struct Walk {
    pages: Vec<Vec<RawJson>>,
    /// It came to its end
    whole: bool,
}

/// Lists all that there is, and looks at how it is listed
pub(super) fn all(talk: &mut Talk<'_>) -> Lists {
    let mut lists = Vec::new();
    for kind in Kind::ALL {
        if talk.capabilities[kind.capability()].is_null() {
            if kind != Kind::Templates {
                undeclared(talk, kind);
            }
            continue;
        }
        let Some(walk) = walk(talk, kind, true) else { continue };
        let keys = keys(kind, &walk);
        duplicates(talk, kind, &walk);
        if walk.whole {
            order(talk, kind, &keys);
        }
        invalid_cursor(talk, kind);
        lists.push((kind, walk.pages.into_iter().flatten().collect()));
    }
    Lists { lists }
}

fn undeclared(talk: &mut Talk<'_>, kind: Kind) {
    let what = match talk.request(kind.method(), Value::Null) {
        Answer::Error(failed) if is(&failed, -32601) => return,
        Answer::Error(failed) => {
            let what =
                format!("`{}` is not declared, and gets the error {}", kind.capability(), failed.text());
            talk.report.add(rules::UNDECLARED_CODE, &place(kind.method()), what);
            return;
        }
        Answer::Result(_) => format!("there is an answer, and `{}` is not declared", kind.capability()),
        Answer::None => return,
    };
    talk.report.add(rules::SERVED_NOT_DECLARED, &place(kind.method()), what);
}

/// All pages; none when the server does not have the list
///
/// What is wrong is told if this is the `first` walk.
fn walk(talk: &mut Talk<'_>, kind: Kind, first: bool) -> Option<Walk> {
    let place = place(kind.method());
    let report = talk.report;
    let complain = |rule, what: String| {
        if first {
            report.add(rule, &place, what);
        }
    };
    let mut walk = Walk { pages: Vec::new(), whole: false };
    let mut cursors: Vec<String> = Vec::new();
    let mut scope = None;
    loop {
        let params = cursors.last().map_or(Value::Null, |cursor| json!({"cursor": cursor}));
        let raw = match talk.request(kind.method(), params) {
            Answer::Result(raw) => raw,
            // It needs something of its client, and says so: there is nothing to be looked at for one that has nothing.
            Answer::Error(failed) if is(&failed, -32021) => return None,
            Answer::Error(failed) => {
                if let Some(cursor) = cursors.last() {
                    let what = format!("its own cursor {cursor:?} gets the error {}", failed.text());
                    complain(rules::CURSOR_LOOP, what);
                    return Some(walk);
                }
                if kind == Kind::Templates && is(&failed, -32601) {
                    complain(rules::TEMPLATES_NOT_SERVED, "it is refused with -32601".into());
                } else {
                    let what =
                        format!("`{}` is declared, and gets the error {}", kind.capability(), failed.text());
                    complain(rules::DECLARED_NOT_SERVED, what);
                }
                return None;
            }
            Answer::None => return Some(walk).filter(|walk| !walk.pages.is_empty()),
        };
        let value: Value = raw.parse().unwrap_or_default();
        let Some(entries) = raw.member(kind.member()).and_then(|list| list.elements()) else {
            let what = absent(value.get(kind.member()));
            complain(rules::LIST_SHAPE, format!("`{}` is {what}, and has to be an array", kind.member()));
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
                walk.whole = true;
                return Some(walk);
            }
            Some(Value::String(next)) => next.clone(),
            Some(other) => {
                complain(rules::LIST_SHAPE, format!("`nextCursor` is {other}, and has to be a string"));
                walk.whole = other.is_null();
                return Some(walk);
            }
        };
        if cursors.contains(&next) {
            complain(rules::CURSOR_LOOP, format!("the cursor {next:?} leads back to where it was before"));
            return Some(walk);
        }
        cursors.push(next);
        if walk.pages.len() >= PAGES {
            complain(rules::LIST_ENDLESS, format!("there are more than {PAGES} pages"));
            return Some(walk);
        }
    }
}

/// The keys of the entries, in order
fn keys(kind: Kind, walk: &Walk) -> Vec<String> {
    let key = |entry: &RawJson| entry.member(kind.key()).and_then(|key| key.string());
    walk.pages.iter().flatten().filter_map(key).collect()
}

fn duplicates(talk: &Talk<'_>, kind: Kind, walk: &Walk) {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for (page, entries) in walk.pages.iter().enumerate() {
        for key in entries.iter().filter_map(|entry| entry.member(kind.key())?.string()) {
            let place = format!("{} `{key}`", kind.singular());
            match seen.get(&key) {
                Some(before) if *before == page => {
                    talk.report.add(rules::DUPLICATE, &place, "it is listed more than once");
                }
                Some(before) => {
                    let what = format!("it is on page {} and again on page {}", before + 1, page + 1);
                    talk.report.add(rules::DUPLICATE_PAGES, &place, what);
                }
                None => _ = seen.insert(key, page),
            }
        }
    }
}

/// Lists again: the same entries are in the same order
fn order(talk: &mut Talk<'_>, kind: Kind, before: &[String]) {
    let Some(again) = walk(talk, kind, false) else { return };
    let after = keys(kind, &again);
    let sorted = |keys: &[String]| {
        let mut keys = keys.to_vec();
        keys.sort_unstable();
        keys
    };
    // Another set is news, and no mistake.
    if before != after && sorted(before) == sorted(&after) {
        let rule = if kind == Kind::Tools && talk.is_modern() { rules::ORDER } else { rules::ORDER_OTHER };
        let at = before.iter().zip(&after).position(|(before, after)| before != after).unwrap_or(0);
        let what = format!("entry {} was `{}`, and then `{}`", at + 1, before[at], after[at]);
        talk.report.add(rule, &place(kind.method()), what);
    }
}

fn invalid_cursor(talk: &mut Talk<'_>, kind: Kind) {
    let place = format!("`{}` with a made-up cursor", kind.method());
    let what = match talk.request(kind.method(), json!({"cursor": "mcp-probe: no such cursor"})) {
        Answer::Error(failed) if is(&failed, -32602) => return,
        Answer::Error(failed) => format!("it was answered with the error {}", failed.text()),
        Answer::Result(_) => "it was answered with a page".into(),
        Answer::None => return,
    };
    talk.report.add(rules::INVALID_CURSOR, &place, what);
}

/// Pages of a list that are read
const PAGES: usize = 100;
