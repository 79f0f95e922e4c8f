//! Visibility of the entries of a router: its functions, and the changes that follow from them.

use super::entries::EntryRef;
use super::gate::{Folders, Gate};
use super::hooks::{Hook, Subject};
use super::page::CacheHint;
use super::pending::Listed;
use super::registration::{ChangedLists, RegisterError};
use super::registry::{Router, unknown_item};
use super::template::{MAX_URI, comparison_key};
use super::visibility::{Listing, OwnedSubject, Visibility, VisibilityGuard, rule_of_entry};
use crate::change::Change;
use crate::methods::EntryKind;
use crate::model::Resource;
use crate::server::{Announcement, Audience, Call, Caller};
use crate::sync::share;

impl<H, M: Hook> Router<H, M> {
    /// Adds a function that decides which entries a caller sees, those that are registered later included.
    ///
    /// Several functions all have to agree. Those of a [nested](Self::nest) router keep deciding about its entries, and
    /// those of the outer router decide about them, too. All lists count as changed.
    pub fn visibility(&mut self, visibility: impl Visibility + 'static) -> &mut Self {
        self.visibility.add(share!(visibility, dyn Visibility));
        self.visibility_changed();
        self
    }

    /// Adds a function that decides which callers see an entry; otherwise as [`ToolEntry::visible_to`].
    ///
    /// The function of a skill decides about everything in its folder, also about what a template serves there, about
    /// files that are registered later, and after the skill was removed.
    ///
    /// # Errors
    ///
    /// [`RegisterError::Unknown`] if no entry has this name, URI or template. Every caller sees what the function was
    /// meant for, so do not ignore it.
    ///
    /// [`ToolEntry::visible_to`]: super::ToolEntry::visible_to
    pub fn visible_to(
        &mut self,
        kind: EntryKind,
        name: &str,
        is_visible: impl Fn(&Caller) -> bool + Send + Sync + 'static,
    ) -> Result<ChangedLists, RegisterError> {
        let rule = rule_of_entry(is_visible);
        let found = match kind {
            EntryKind::Tool => self.tools.entry_mut(name).map(|mut entry| entry.add_rule(rule)),
            EntryKind::Resource => {
                let uri = comparison_key(name, MAX_URI).unwrap_or_default();
                self.resources.entry_mut(&uri).map(|mut entry| entry.add_rule(rule))
            }
            EntryKind::ResourceTemplate => {
                self.templates.entry_mut(name).map(|mut entry| entry.add_rule(rule))
            }
            EntryKind::Prompt => self.prompts.entry_mut(name).map(|mut entry| entry.add_rule(rule)),
            EntryKind::Skill => self.restrict_skill(name, rule),
        };
        found.ok_or_else(|| unknown_item(kind, name))?;
        self.visibility.mark_entry_rule();
        let resources = if kind == EntryKind::Skill { EntryKind::Resource } else { kind };
        Ok(ChangedLists::from_kind(kind) | ChangedLists::from_kind(resources))
    }

    /// Records that visibility functions answer differently from now on, because rights have changed.
    ///
    /// Pages that were remembered for [views](Visibility::view) are not used any more, and the next
    /// [`take_changes`](Self::take_changes) announces all lists to everyone. To announce a change of the rights of some
    /// callers to them alone, publish it with its own audience ([`Announcement::to`]) and give their view another name.
    pub fn visibility_changed(&mut self) -> ChangedLists {
        self.tools.catalog.mark_changed();
        self.resources.catalog.mark_changed();
        self.templates.catalog.mark_changed();
        self.prompts.catalog.mark_changed();
        if let Some(skills) = &mut self.skills {
            skills.entries.catalog.mark_changed();
        }
        EntryKind::ALL.into_iter().fold(ChangedLists::NONE, |all, kind| all | ChangedLists::from_kind(kind))
    }

    /// Sets how visibility functions are run: for adapters, which turn a panic into `false`. A page whose function has not
    /// returned is not remembered.
    ///
    /// By default they are just called, and a panic unwinds through the caller of this crate. Set it before functions are
    /// added; the guard of a nested router is dropped.
    pub fn guard_visibility(&mut self, guard: VisibilityGuard) -> &mut Self {
        self.visibility.guard = guard;
        self
    }

    /// Returns whether a list has changed since the last [`take_changes`](Self::take_changes), for any client.
    #[must_use]
    pub fn has_changed(&self, list: EntryKind) -> bool {
        match list {
            EntryKind::Tool => self.tools.catalog.has_changed(),
            EntryKind::Resource => self.resources.catalog.has_changed(),
            EntryKind::ResourceTemplate => self.templates.catalog.has_changed(),
            EntryKind::Prompt => self.prompts.catalog.has_changed(),
            EntryKind::Skill => {
                self.skills.as_ref().is_some_and(|skills| skills.entries.catalog.has_changed())
            }
        }
    }

    /// Returns the changes since the last call, for [`publish`](crate::server::Engine::publish) (TOOL-019, RES-012,
    /// PROMPT-009).
    ///
    /// A change is announced to the callers who saw a changed entry before, or see it now. If more than 32 entries with
    /// visibility functions have changed, it is announced to everyone.
    ///
    /// Call it once before the server runs and discard the result, because there are no subscribers yet. Call it again
    /// after each modification.
    pub fn take_changes(&mut self) -> impl Iterator<Item = Announcement<'static>> + use<H, M> {
        let skills = self.take_skill_audience();
        let folders = self.skills.as_deref().map(Folders::of);
        let gate = Gate { scopes: &self.visibility, folders };
        let audience = |listing: &Listing, subject: &OwnedSubject| gate.audience(listing, subject);
        let (tools, prompts) =
            (self.tools.catalog.take_audience(audience), self.prompts.catalog.take_audience(audience));
        let mut resources = self.resources.catalog.take_audience(audience);
        resources.merge(&self.templates.catalog.take_audience(audience));
        resources.merge(&skills);
        let changes = [(Change::Tools, tools), (Change::Resources, resources), (Change::Prompts, prompts)];
        let changes = changes.into_iter().filter(|(_, audience)| !audience.is_nobody());
        changes.map(|(change, audience)| Announcement::new(change).to(audience))
    }

    /// Returns who gets to know of the changes of skills: who may see their `SKILL.md`.
    fn take_skill_audience(&mut self) -> Audience {
        if !self.has_changed(EntryKind::Skill) {
            return Audience::NOBODY;
        }
        let access = self.access_rules();
        let Some(skills) = &mut self.skills else { return Audience::NOBODY };
        skills.entries.catalog.take_audience(|_, subject| match subject.as_subject() {
            Subject::Skill(uri) => access.resource_audience(uri),
            _ => Audience::EVERYONE,
        })
    }

    /// Returns what decides who sees an entry.
    pub(super) fn gate(&self) -> Gate<'_> {
        Gate { scopes: &self.visibility, folders: self.skills.as_deref().map(Folders::of) }
    }

    /// Returns whether callers may see different lists of this kind.
    pub(super) fn is_restricted(&self, list: EntryKind) -> bool {
        let has_folder_rules = || self.skills.as_ref().is_some_and(|skills| !skills.folder_rules.is_empty());
        self.visibility.has_rules()
            || match list {
                EntryKind::Tool => self.tools.catalog.has_entry_rules(),
                EntryKind::Resource => self.resources.catalog.has_entry_rules() || has_folder_rules(),
                EntryKind::ResourceTemplate => self.templates.catalog.has_entry_rules() || has_folder_rules(),
                EntryKind::Prompt => self.prompts.catalog.has_entry_rules(),
                EntryKind::Skill => {
                    self.resources.catalog.has_entry_rules()
                        || self.templates.catalog.has_entry_rules()
                        || has_folder_rules()
                }
            }
    }

    /// Returns the enabled resource with this comparison key, if a caller sees it.
    pub(super) fn find_resource(
        &self,
        caller: &Caller,
        key: &str,
    ) -> Option<EntryRef<'_, Resource, H, Option<CacheHint>>> {
        let gate = self.gate();
        let found = self.resources.find(key).filter(|_| gate.shows_folder(caller, key));
        found.filter(|entry| gate.scopes.allow(caller, entry.listing, entry.item.subject()))
    }

    /// Returns whether the caller of a call sees an entry. A call that goes on sees it in any case (DESIGN-61).
    pub(super) fn shows(&self, call: &Call, listing: &Listing, subject: Subject<'_>) -> bool {
        call.caller().is_resumed() || self.gate().shows(call.caller(), listing, subject)
    }
}
