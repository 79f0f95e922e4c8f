//! Which entries of a server clients see and use.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use std::sync::{PoisonError, RwLock};

use mcp_proto::EntryKind;
use mcp_proto::server::Audience;

use super::uri_forms::UriForms;
use crate::{Access, Decision};

/// Rules of one server behind a gateway: those for all clients, and those that take their place for a principal.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Rules {
    /// What clients see and use.
    pub common: Patterns,
    /// The same for principals, by their names.
    pub principals: BTreeMap<String, Patterns>,
}

/// Names of tools and prompts, and URIs of resources, that are shown or not. By default everything is.
///
/// Where one is about URIs, resources with `.` or `..` as a segment of their URI are refused.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Patterns {
    /// Entries that are shown; `None` for all. URIs are so in every spelling that a server may read in them.
    pub allow: Option<Vec<Pattern>>,
    /// Those of them that are not, URIs in any spelling. A server may know more of them: `allow` is the safe rule.
    pub hide: Vec<Pattern>,
}

/// A name or a URI, in which `*` stands for any characters, also for none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pattern(UriForms);

impl Pattern {
    /// Reads a pattern; `None` if a segment of it is `.` or `..`, or if it has control characters, or white space at an end: it is about
    /// something else than it looks.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        UriForms::of_pattern(text).map(Self)
    }
}

impl Rules {
    /// Returns whether all clients see everything.
    fn is_open(&self) -> bool {
        *self == Self::default()
    }

    fn of(&self, principal: Option<&str>) -> &Patterns {
        principal.and_then(|principal| self.principals.get(principal)).unwrap_or(&self.common)
    }
}

impl Patterns {
    /// Returns whether a tool or a prompt is shown.
    fn shows(&self, name: &str) -> bool {
        let any =
            |patterns: &[Pattern]| patterns.iter().any(|Pattern(pattern)| is_match(&pattern.text, name));
        self.allow.as_deref().is_none_or(any) && !any(&self.hide)
    }

    /// Returns whether a resource is shown, or a template, which is compared as it is written and not by the URIs that it makes.
    /// What is allowed is so in every spelling that a server may read in its URI, and what is hidden, in any.
    fn shows_uri(&self, uri: &str) -> bool {
        let mut all = self.allow.iter().flatten().chain(&self.hide);
        if !all.any(|Pattern(pattern)| is_about_uris(&pattern.text)) {
            return self.shows(uri);
        }
        let Some(uri) = UriForms::of(uri) else { return false };
        let is_allowed = |allow: &[Pattern]| {
            allow.iter().any(|Pattern(pattern)| {
                is_match(&pattern.text, &uri.text)
                    && is_match(&pattern.normal, &uri.normal)
                    && is_match(&pattern.decoded, &uri.decoded)
            })
        };
        let is_hidden = |Pattern(pattern): &Pattern| {
            is_match(&pattern.text, &uri.text)
                || is_match(&pattern.normal, &uri.normal)
                || is_match(&pattern.decoded, &uri.decoded)
                || is_match(&pattern.path, &uri.path)
        };
        self.allow.as_deref().is_none_or(is_allowed) && !self.hide.iter().any(is_hidden)
    }

    /// Returns whether there may be something that is shown. If not, the server itself is hidden.
    fn shows_anything(&self) -> bool {
        // A star of the pattern that is covered is a character like others, which only a star matches.
        let is_shown =
            |allowed: &str| !self.hide.iter().any(|Pattern(hidden)| is_match(&hidden.text, allowed));
        match &self.allow {
            None => is_shown("*"),
            Some(allow) => allow.iter().any(|Pattern(allowed)| is_shown(&allowed.text)),
        }
    }
}

/// Returns whether a pattern matches some URIs, and not all of them.
fn is_about_uris(pattern: &str) -> bool {
    let is_of_scheme = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    let (before, rest) = pattern.split_at(pattern.find([':', '*']).unwrap_or(pattern.len()));
    !rest.is_empty() && before.bytes().all(is_of_scheme) && !is_all(pattern)
}

/// Returns whether a pattern matches everything.
fn is_all(pattern: &str) -> bool {
    pattern.bytes().all(|byte| byte == b'*')
}

/// Returns whether a name matches a pattern, in which `*` stands for any characters, also for none.
fn is_match(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut name) = name.strip_prefix(first) else { return false };
    let mut parts = rest.split('*');
    // The last part is at the end; those between are taken where they come first.
    let last = parts.next_back().unwrap_or_default();
    for part in parts {
        let Some((_, after)) = name.split_once(part) else { return false };
        name = after;
    }
    name.ends_with(last)
}

/// The rules of all servers by their names, which change with the servers.
#[derive(Clone, Default, Debug)]
pub(super) struct SharedRules(Arc<RwLock<BTreeMap<String, Rules>>>);

impl SharedRules {
    /// Replaces the rules. Returns whether they are others.
    pub(super) fn replace(&self, rules: impl Iterator<Item = (String, Rules)>) -> bool {
        let new: BTreeMap<_, _> = rules.filter(|(_, rules)| !rules.is_open()).collect();
        let mut current = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let differs = *current != new;
        *current = new;
        differs
    }

    /// Applies a function to the rules of a server; `None` if it has none.
    fn with_rules_of<R>(&self, server: &str, apply: impl FnOnce(&Rules) -> R) -> Option<R> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(server).map(apply)
    }

    /// Returns the audience of a tool, by the name that clients know it by.
    pub(super) fn audience_of_tool(&self, name: &str) -> Audience {
        let Some((server, tool)) = name.split_once('_') else { return Audience::EVERYONE };
        let Some(rules) = self.with_rules_of(server, Rules::clone) else { return Audience::EVERYONE };
        let tool = tool.to_owned();
        Audience::matching(move |caller| rules.of(caller.principal()).shows(&tool))
    }

    /// Returns whether clients without a token may be told of a server.
    pub(super) fn shows_server(&self, server: &str) -> bool {
        self.with_rules_of(server, |rules| rules.of(None).shows_anything()).unwrap_or(true)
    }

    /// Decides about an entry.
    pub(super) fn decide(&self, access: &Access<'_>) -> Decision {
        // Whether a list may say that the server is missing. An entry has members, if only an empty name.
        let is_server = access.name.is_empty() && !access.is_use && access.payload.as_str() == "{}";
        let is_shown = self.with_rules_of(access.upstream, |rules| {
            let patterns = rules.of(access.caller.principal());
            match access.kind {
                _ if is_server => patterns.shows_anything(),
                EntryKind::Resource | EntryKind::ResourceTemplate => patterns.shows_uri(access.name),
                _ => patterns.shows(access.name),
            }
        });
        if is_shown.unwrap_or(true) { Decision::Allow } else { Decision::Hide }
    }
}

#[cfg(test)]
mod tests {
    use mcp_proto::server::{Authorization, Caller, Identity};

    use super::*;

    #[test]
    fn star_stands_for_any_characters() {
        for (pattern, name, matches) in [
            ("read", "read", true),
            ("read", "reads", false),
            ("*", "", true),
            ("*", "read", true),
            ("read_*", "read_file", true),
            ("read_*", "read", false),
            ("*_file", "read_file", true),
            ("*_file", "read_files", false),
            ("a*b*c", "abc", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "acb", false),
            ("a*a", "a", false),
            ("*ab*ab", "ab", false),
            ("**", "x", true),
            ("file:///*", "file:///etc/hosts", true),
        ] {
            assert_eq!(is_match(pattern, name), matches, "{pattern} {name}");
        }
    }

    // covers: HTTP-029
    #[test]
    fn hidden_tool_has_no_audience() {
        let shared = SharedRules::default();
        let common = patterns(Some(&["read"]), &[]);
        let principals = BTreeMap::from([("ada".to_owned(), Patterns::default())]);
        shared.replace([("files".to_owned(), Rules { common, principals })].into_iter());
        let (anyone, ada) = (Caller::default(), Caller::from(Authorization::new(Identity::new("ada"))));
        for (tool, shown) in
            [("files_read", [true, true]), ("files_write_all", [false, true]), ("search_find", [true, true])]
        {
            let audience = shared.audience_of_tool(tool);
            assert_eq!([&anyone, &ada].map(|caller| audience.includes(caller)), shown, "{tool}");
        }
    }

    fn patterns(allow: Option<&[&str]>, hide: &[&str]) -> Patterns {
        let forms = |list: &[&str]| {
            let forms = list.iter().map(|pattern| Pattern::new(pattern).expect("no dots"));
            forms.collect::<Vec<_>>()
        };
        Patterns { allow: allow.map(forms), hide: forms(hide) }
    }

    #[test]
    fn allowed_uris_lead_nowhere_else() {
        let public = patterns(Some(&["file:///public/*", "note://a%2Fb", "read"]), &[]);
        for uri in ["file:///public/k", "file:///public/a%2Fb", "file:///public/k%20l?x=1", "note://a%2Fb"] {
            assert!(public.shows_uri(uri), "{uri}");
        }
        for uri in [
            "file:///public/../secret/k",
            "file:///public/%2e%2E/secret/k",
            "file:///public/..%2fsecret/k",
            "file:///public/..\\secret/k",
            "file:///publi%63/../secret/k",
            "file:///secret/public/k",
            "note://a/b",
        ] {
            assert!(!public.shows_uri(uri), "{uri}");
        }
        assert!(public.shows("read") && !public.shows("write"));
    }

    #[test]
    fn hidden_uris_are_hidden_in_every_spelling() {
        let hidden = patterns(None, &["file:///secret/*", "file:///key", "https://a.example/x%41*"]);
        for uri in [
            "file:///secret/k",
            "FILE:///secret/k",
            "file://localhost/secret/k",
            "file:/secret/k",
            "file:///secre%74/k",
            "file:///secret%2Fk",
            "file:///secret\\k",
            "file:////secret//k",
            "file:///public/../secret/k",
            "file:///key",
            "file:///key/",
            "file:///key?x",
            "file:///key#x",
            "https://A.example/xA1",
            "FILE:///secret/{name}",
        ] {
            assert!(!hidden.shows_uri(uri), "{uri}");
        }
        for uri in
            ["file:///secrets", "file:///keys", "file:///a/secret/k", "https://a.example/x", "file:///{path}"]
        {
            assert!(hidden.shows_uri(uri), "{uri}");
        }
    }

    #[test]
    fn dot_segments_are_refused_only_where_rules_are_about_uris() {
        let dots = "file:///a/../b";
        for (allow, hide, shows) in [
            (None, &["delete_*", "add"][..], true),
            (Some(&["*"][..]), &[], true),
            (None, &["file:///c/*"], false),
            (None, &["*secret*"], false),
            (Some(&["f*"]), &[], false),
        ] {
            assert_eq!(patterns(allow, hide).shows_uri(dots), shows, "{allow:?} {hide:?}");
        }
    }

    #[test]
    fn server_of_which_nothing_is_shown_is_hidden_itself() {
        for (allow, hide, shows) in [
            (None, &[][..], true),
            (None, &["a*"][..], true),
            (None, &["*"], false),
            (None, &["a", "**"], false),
            (Some(&[][..]), &[], false),
            (Some(&["a"]), &["b"], true),
            (Some(&["a"]), &["a"], false),
            (Some(&["ab*"]), &["a*"], false),
            (Some(&["a*"]), &["ab*"], true),
            (Some(&["*"]), &["*"], false),
        ] {
            assert_eq!(patterns(allow, hide).shows_anything(), shows, "{allow:?} {hide:?}");
        }
    }
}
