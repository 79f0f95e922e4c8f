//! Which entries of a server clients see and use: the members `allow`, `hide` and `principals`.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use std::sync::{PoisonError, RwLock};

use mcp_proto_proxy::{Access, Decision};
use serde_json::{Map, Value};

use crate::failure::CommandFailure;
use crate::server::Location;

/// Rules of one server: those of everybody, and those that take their place for a principal.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(super) struct Rules {
    everybody: Patterns,
    principals: BTreeMap<String, Patterns>,
}

/// Patterns of names of tools and prompts, and of URIs.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
struct Patterns {
    /// Entries that are shown; `None` for all.
    allow: Option<Vec<String>>,
    /// Those of them that are not.
    hide: Vec<String>,
}

impl Rules {
    /// Reads the rules in the entry of a server.
    ///
    /// # Errors
    ///
    /// Fails if a member has another form.
    pub(super) fn parse(members: &Map<String, Value>, at: &Location) -> Result<Self, CommandFailure> {
        let everybody = Patterns::parse(members, at)?;
        let at = at.member("principals");
        let mut principals = BTreeMap::new();
        let listed = match members.get("principals") {
            None => &Map::new(),
            Some(listed) => listed.as_object().ok_or_else(|| at.failure("must be an object"))?,
        };
        for (name, patterns) in listed {
            let at = at.member(name);
            let patterns = patterns.as_object().ok_or_else(|| at.failure("must be an object"))?;
            if let Some(other) = patterns.keys().find(|member| !["allow", "hide"].contains(&&***member)) {
                return Err(at.member(other).failure("is no rule: there are `allow` and `hide`"));
            }
            principals.insert(name.clone(), Patterns::parse(patterns, &at)?);
        }
        Ok(Self { everybody, principals })
    }

    /// Returns whether everything is shown to everybody.
    fn is_open(&self) -> bool {
        *self == Self::default()
    }

    fn of(&self, principal: Option<&str>) -> &Patterns {
        principal.and_then(|principal| self.principals.get(principal)).unwrap_or(&self.everybody)
    }
}

impl Patterns {
    fn parse(members: &Map<String, Value>, at: &Location) -> Result<Self, CommandFailure> {
        let list = |member: &str| {
            let Some(list) = members.get(member) else { return Ok(None) };
            let at = at.member(member);
            let list = list.as_array().ok_or_else(|| at.failure("must be an array of strings"))?;
            let patterns = list.iter().enumerate().map(|(index, pattern)| {
                let pattern = pattern.as_str().filter(|pattern| !pattern.is_empty());
                pattern.map(str::to_owned).ok_or_else(|| {
                    at.element(index).failure("must be a name or a URI; * stands for any characters")
                })
            });
            patterns.collect::<Result<Vec<_>, _>>().map(Some)
        };
        Ok(Self { allow: list("allow")?, hide: list("hide")?.unwrap_or_default() })
    }

    fn shows(&self, name: &str) -> bool {
        let any = |patterns: &[String]| patterns.iter().any(|pattern| is_match(pattern, name));
        self.allow.as_deref().is_none_or(any) && !any(&self.hide)
    }
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

/// The rules of all servers by their names, which change with the file.
#[derive(Clone, Default)]
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

    /// Decides about an entry.
    pub(super) fn decide(&self, access: &Access<'_>) -> Decision {
        let rules = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let Some(rules) = rules.get(access.upstream) else { return Decision::Allow };
        let patterns = rules.of(access.caller.principal());
        // Without a name: whether a list may say that the server is missing.
        let is_shown = if access.name.is_empty() {
            patterns.allow.as_ref().is_none_or(|allow| !allow.is_empty())
        } else {
            patterns.shows(access.name)
        };
        if is_shown { Decision::Allow } else { Decision::Hide }
    }
}

#[cfg(test)]
mod tests {
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
}
