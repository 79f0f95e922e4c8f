//! Answers who sees an entry: by the functions of routers, of entries, and of the folders of skills.

use super::entries::EntryAccess;
use super::folder_key::folder_key;
use super::folder_rules::FolderRules;
use super::hooks::Subject;
use super::skill_catalog::{ListedSkill, SkillCatalog, SkillEntries};
use super::visibility::{BoundRules, Listing, OwnedSubject, VisibilityScopes, Visible};
use crate::server::{Audience, Caller};

/// The visibility functions of a router, with those of the folders of its skills.
#[derive(Clone, Copy)]
pub(super) struct Gate<'a> {
    pub(super) scopes: &'a VisibilityScopes,
    pub(super) folders: Option<Folders<'a>>,
}

impl Gate<'_> {
    /// Returns whether a caller sees an entry.
    pub(super) fn shows(&self, caller: &Caller, listing: &Listing, subject: Subject<'_>) -> bool {
        self.ask(caller, listing, subject) == Visible::Yes
    }

    /// Asks the functions for an entry.
    pub(super) fn ask(&self, caller: &Caller, listing: &Listing, subject: Subject<'_>) -> Visible {
        let in_folder = match subject {
            Subject::Resource(uri) => self.ask_folder(caller, uri),
            // Its completions tell what the folder holds.
            Subject::ResourceTemplate(template) => self.ask_folder(caller, literal_prefix(template)),
            _ => Visible::Yes,
        };
        if in_folder == Visible::Yes { self.scopes.ask_all(caller, listing, subject) } else { in_folder }
    }

    /// Returns whether a caller sees the folders that contain the resource with this URI.
    pub(super) fn shows_folder(&self, caller: &Caller, uri: &str) -> bool {
        self.ask_folder(caller, uri) == Visible::Yes
    }

    fn ask_folder(&self, caller: &Caller, uri: &str) -> Visible {
        self.folders.map_or(Visible::Yes, |folders| folders.ask(self.scopes, caller, uri))
    }

    /// Returns whether there are functions for the folders that contain the resource with this URI.
    pub(super) fn restricts_folder(&self, uri: &str) -> bool {
        self.folders.is_some_and(|folders| {
            let mut bound = BoundRules::new(self.scopes.guard);
            folders.bind(self.scopes, uri, &mut bound);
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
        let uri = match subject.as_subject() {
            Subject::Resource(uri) => Some(uri),
            Subject::ResourceTemplate(template) => Some(literal_prefix(template)),
            _ => None,
        };
        if let (Some(folders), Some(uri)) = (self.folders, uri) {
            folders.bind(self.scopes, uri, &mut bound);
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

impl<'a> Folders<'a> {
    pub(super) const fn of<R>(skills: &'a SkillCatalog<R>) -> Self {
        Self { rules: &skills.folder_rules, skills: &skills.entries }
    }

    /// Asks the functions for all folders that contain the resource with this URI.
    fn ask(self, scopes: &VisibilityScopes, caller: &Caller, uri: &str) -> Visible {
        if self.rules.is_empty() && !scopes.has_rules() {
            return Visible::Yes;
        }
        let key = folder_key(uri);
        let rules = self.rules.of_key(&key);
        let of_rules = rules.map(|rule| scopes.ask(&rule.rule, caller, rule.skill.as_subject()));
        let skills = self.skills_around(scopes, &key);
        let of_skills =
            skills.map(|skill| scopes.ask_all(caller, skill.listing, Subject::Skill(&skill.item.uri)));
        Visible::all(of_rules.chain(of_skills))
    }

    /// Adds the functions of all folders that contain the resource with this URI.
    pub(super) fn bind(self, scopes: &VisibilityScopes, uri: &str, bound: &mut BoundRules) {
        if self.rules.is_empty() && !scopes.has_rules() {
            return;
        }
        let key = folder_key(uri);
        self.rules.of_key(&key).for_each(|rule| bound.push(&rule.rule, rule.skill.clone()));
        for skill in self.skills_around(scopes, &key) {
            if let Some(subject) = OwnedSubject::new(Subject::Skill(&skill.item.uri)) {
                bound.append(&scopes.bind(skill.listing, &subject));
            }
        }
    }

    /// Returns the skills whose folders contain the resource with this [`folder_key`], enabled or not: the files of one that is
    /// disabled are served. None if there are no functions that could hide them.
    fn skills_around<'k>(
        self,
        scopes: &VisibilityScopes,
        key: &'k str,
    ) -> impl Iterator<Item = EntryAccess<'a, ListedSkill>> + use<'a, 'k> {
        let skills = scopes.has_rules().then(|| self.skills.access().map(|(_, skill)| skill));
        skills.into_iter().flatten().filter(move |skill| key.starts_with(&*skill.item.folder))
    }
}

/// Returns the text of a template before its first expression.
fn literal_prefix(template: &str) -> &str {
    template.split('{').next().unwrap_or_default()
}
