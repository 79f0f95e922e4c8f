//! Answers who sees an entry: by the functions of routers, of entries, and of the folders of skills.

use alloc::format;
use alloc::string::String;

use super::folder_rules::FolderRules;
use super::hooks::Subject;
use super::skill_catalog::SkillEntries;
use super::template::{MAX_URI, comparison_key};
use super::visibility::{BoundRules, Listing, OwnedSubject, VisibilityScopes};
use crate::server::{Audience, Caller};
use crate::skills::SKILL_FILE;

/// The visibility functions of a router, with those of the folders of its skills.
#[derive(Clone, Copy)]
pub(super) struct Gate<'a> {
    pub(super) scopes: &'a VisibilityScopes,
    pub(super) folders: Option<Folders<'a>>,
}

impl Gate<'_> {
    /// Returns whether a caller sees an entry.
    pub(super) fn shows(&self, caller: &Caller, listing: &Listing, subject: Subject<'_>) -> bool {
        let in_folder = match subject {
            Subject::Resource(uri) => {
                self.folders.is_none_or(|folders| folders.show_uri(self.scopes, caller, uri))
            }
            _ => true,
        };
        in_folder && self.scopes.allow(caller, listing, subject)
    }

    /// Returns whether a caller sees the folders that contain the resource with this comparison key.
    pub(super) fn shows_folder(&self, caller: &Caller, key: &str) -> bool {
        self.folders.is_none_or(|folders| folders.show(self.scopes, caller, key))
    }

    /// Returns whether there are functions for the folders that contain the resource with this comparison key.
    pub(super) fn restricts_folder(&self, key: &str) -> bool {
        self.folders.is_some_and(|folders| {
            let mut bound = BoundRules::new(self.scopes.guard);
            folders.bind(self.scopes, key, &mut bound);
            !bound.is_empty()
        })
    }

    /// Returns whether there are functions for an entry.
    pub(super) fn restricts(&self, listing: &Listing) -> bool {
        self.scopes.restrict(listing)
    }

    /// Returns the callers who see an entry.
    pub(super) fn audience(&self, listing: &Listing, subject: &OwnedSubject) -> Audience {
        let mut bound = self.scopes.bind(listing, subject);
        if let (Some(folders), Subject::Resource(uri)) = (self.folders, subject.as_subject()) {
            folders.bind_uri(self.scopes, uri, &mut bound);
        }
        bound.into_audience()
    }
}

/// The skills of a router, and the functions of their folders.
#[derive(Clone, Copy)]
pub(super) struct Folders<'a> {
    pub(super) rules: &'a FolderRules,
    pub(super) skills: &'a SkillEntries,
}

impl Folders<'_> {
    /// Returns whether a caller sees all folders that contain the resource with this comparison key.
    pub(super) fn show(self, scopes: &VisibilityScopes, caller: &Caller, key: &str) -> bool {
        self.rules.of_key(key).all(|rule| scopes.asks(&rule.rule, caller, rule.skill.as_subject()))
            && (!scopes.has_rules()
                || skill_keys(key)
                    .filter_map(|skill| self.skills.find(&skill))
                    .all(|skill| scopes.allow(caller, skill.listing, Subject::Skill(&skill.item.uri))))
    }

    /// As [`show`](Self::show), for a URI in any spelling.
    pub(super) fn show_uri(self, scopes: &VisibilityScopes, caller: &Caller, uri: &str) -> bool {
        if self.rules.is_empty() && !scopes.has_rules() {
            return true;
        }
        comparison_key(uri, MAX_URI).is_ok_and(|key| self.show(scopes, caller, &key))
    }

    /// Adds the functions of all folders that contain the resource with this comparison key.
    pub(super) fn bind(self, scopes: &VisibilityScopes, key: &str, bound: &mut BoundRules) {
        self.rules.of_key(key).for_each(|rule| bound.push(&rule.rule, rule.skill.clone()));
        if !scopes.has_rules() {
            return;
        }
        for skill in skill_keys(key).filter_map(|skill| self.skills.find(&skill)) {
            if let Some(subject) = OwnedSubject::new(Subject::Skill(&skill.item.uri)) {
                bound.append(&scopes.bind(skill.listing, &subject));
            }
        }
    }

    /// As [`bind`](Self::bind), for a URI in any spelling.
    pub(super) fn bind_uri(self, scopes: &VisibilityScopes, uri: &str, bound: &mut BoundRules) {
        if let Ok(key) = comparison_key(uri, MAX_URI) {
            self.bind(scopes, &key, bound);
        }
    }
}

/// Returns the keys that the skills of all folders around a resource would have.
fn skill_keys(key: &str) -> impl Iterator<Item = String> {
    key.match_indices('/').filter_map(|(at, _)| Some(format!("{}{SKILL_FILE}", key.get(..=at)?)))
}
