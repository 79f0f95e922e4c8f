//! Functions that decide which entries a caller sees.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::{self, Write as _};
use core::mem;

use super::access_rules::{FolderRules, folder_key};
use super::entries::{EntryAccess, EntryRef};
use super::hooks::{Hook, ROOT_SCOPE, Subject};
use super::page::CacheHint;
use super::pending::Listed;
use super::registration::{ChangedLists, RegisterError};
use super::registry::{Router, entry_key, unknown_item};
use super::skills::{ListedSkill, SkillCatalog, SkillEntries};
use crate::change::Change;
use crate::methods::EntryKind;
use crate::model::Resource;
use crate::server::{Announcement, Audience, Call, Caller};
use crate::sync::{Arc, share};

/// Decides which entries of a router a caller sees ([`Router::visibility`](super::Router::visibility)).
///
/// An entry that a caller does not see is, for this caller, as if it were not registered: it is in no list, a call gets the
/// error of an unknown name, and its changes are not announced. Hide what a caller has no *right* to know. For what a
/// caller may know and use with a broader token, require a scope instead
/// ([`require_scope`](super::Router::require_scope)): such an entry is listed, and a call is challenged.
///
/// Closures of a caller and a subject implement it. A function runs for every entry of each list that is requested, and
/// once per call of an entry, so it must be quick. It may change its mind at any time: each page is right on its own, and
/// a call that was begun goes on. The run of a task and a call that waited for input are not checked again; a read is. Since
/// 2026-07-28 the state at the client proves that the call goes on, for
/// [`Limits::input_timeout`](crate::Limits::input_timeout) after each question.
///
/// # Views
///
/// With a [`view`](Self::view) a [`PageCache`](super::PageCache) remembers the pages of lists, so that the functions do
/// not run for callers whose view is known. A view names all callers that see the same entries: a principal, a tenant, a
/// role. Callers with equal views get the same pages until entries change, the view gets another name, or
/// [`Router::visibility_changed`](super::Router::visibility_changed) is called. A view also speaks for the
/// functions of single entries of the same router ([`Router::visible_to`](super::Router::visible_to)). A nested router
/// with functions needs views of its own: if one is missing, nothing is remembered.
///
/// ```
/// use std::borrow::Cow;
/// use mcp_proto::RawJson;
/// use mcp_proto::model::Tool;
/// use mcp_proto::router::{Router, Subject, Visibility};
/// use mcp_proto::server::Caller;
///
/// /// Principals are `tenant/user`; a tenant sees the tools whose names begin with its own.
/// struct ByTenant;
///
/// impl ByTenant {
///     fn tenant(caller: &Caller) -> Option<&str> {
///         caller.principal()?.split('/').next()
///     }
/// }
///
/// impl Visibility for ByTenant {
///     fn is_visible(&self, caller: &Caller, entry: Subject<'_>) -> bool {
///         let (Some(tenant), Subject::Tool(name)) = (Self::tenant(caller), entry) else { return false };
///         name.split('.').next() == Some(tenant)
///     }
///
///     fn view<'c>(&self, caller: &'c Caller) -> Option<Cow<'c, str>> {
///         Some(Self::tenant(caller).unwrap_or_default().into())
///     }
/// }
///
/// let mut router = Router::<fn() -> String>::new("reports", "1.0.0");
/// let schema = RawJson::new(r#"{"type":"object"}"#)?;
/// router.visibility(ByTenant);
/// router.tool(Tool::new("acme.sales", schema.clone()), || "12".into())?;
/// router.tool(Tool::new("globex.sales", schema), || "7".into())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Visibility: Send + Sync {
    /// Returns whether a caller sees an entry: a tool, a resource, a template, a prompt or a skill.
    ///
    /// Names are those with which entries were registered at this router: one that is nested in another decides as if it
    /// were alone. A caller who does not see a skill sees nothing in its folder.
    fn is_visible(&self, caller: &Caller, entry: Subject<'_>) -> bool;

    /// Returns the name of the group of callers that see the same entries; `None` if pages must not be remembered.
    fn view<'c>(&self, caller: &'c Caller) -> Option<Cow<'c, str>> {
        let _ = caller;
        None
    }
}

impl<F: Fn(&Caller, Subject<'_>) -> bool + Send + Sync> Visibility for F {
    fn is_visible(&self, caller: &Caller, entry: Subject<'_>) -> bool {
        self(caller, entry)
    }
}

/// A function of one entry.
struct OfEntry<F>(F);

impl<F: Fn(&Caller) -> bool + Send + Sync> Visibility for OfEntry<F> {
    fn is_visible(&self, caller: &Caller, _: Subject<'_>) -> bool {
        self.0(caller)
    }
}

/// Runs a visibility function; see [`Router::guard_visibility`](super::Router::guard_visibility).
pub type VisibilityGuard = fn(&mut dyn FnMut() -> bool) -> bool;

/// A visibility function.
pub(super) type Rule = Arc<dyn Visibility>;

pub(super) fn rule_of_entry(function: impl Fn(&Caller) -> bool + Send + Sync + 'static) -> Rule {
    share!(OfEntry(function), dyn Visibility)
}

/// The place of an entry in its list, and who sees it.
#[derive(Clone)]
pub(super) struct Listing {
    pub(super) is_enabled: bool,
    /// Scope of the visibility functions that apply to the entry.
    pub(super) scope: usize,
    /// The functions of the entry itself; all have to agree.
    pub(super) visible_to: Vec<Rule>,
}

impl Default for Listing {
    fn default() -> Self {
        Self { is_enabled: true, scope: ROOT_SCOPE, visible_to: Vec::new() }
    }
}

impl fmt::Debug for Listing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Listing").field(&self.is_enabled).field(&self.visible_to.len()).finish()
    }
}

/// The name of an entry, owned.
#[derive(Clone, Debug)]
pub(super) struct OwnedSubject(EntryKind, Box<str>);

impl OwnedSubject {
    /// Copies the subject of an entry; `None` for all others.
    pub(super) fn new(subject: Subject<'_>) -> Option<Self> {
        let (kind, name) = match subject {
            Subject::Tool(name) => (EntryKind::Tool, name),
            Subject::Resource(uri) => (EntryKind::Resource, uri),
            Subject::ResourceTemplate(template) => (EntryKind::ResourceTemplate, template),
            Subject::Prompt(name) => (EntryKind::Prompt, name),
            Subject::Skill(uri) => (EntryKind::Skill, uri),
            _ => return None,
        };
        Some(Self(kind, name.into()))
    }

    pub(super) fn as_subject(&self) -> Subject<'_> {
        let name = &*self.1;
        match self.0 {
            EntryKind::Tool => Subject::Tool(name),
            EntryKind::Resource => Subject::Resource(name),
            EntryKind::ResourceTemplate => Subject::ResourceTemplate(name),
            EntryKind::Prompt => Subject::Prompt(name),
            EntryKind::Skill => Subject::Skill(name),
        }
    }
}

/// Returns a subject as its router named it before it was nested.
fn without_prefix(subject: Subject<'_>, len: usize) -> Subject<'_> {
    match subject {
        Subject::Tool(name) => Subject::Tool(name.get(len..).unwrap_or(name)),
        Subject::Prompt(name) => Subject::Prompt(name.get(len..).unwrap_or(name)),
        other => other,
    }
}

/// The answer of visibility functions about an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Visible {
    Yes,
    No,
    /// No, because a function did not return: the next request asks again.
    Failed,
}

impl Visible {
    /// Returns the answer of several functions, which all have to agree. They are asked in order, up to the first no.
    pub(super) fn all(mut answers: impl Iterator<Item = Self>) -> Self {
        answers.find(|answer| *answer != Self::Yes).unwrap_or(Self::Yes)
    }
}

/// The visibility functions of a router and of its nested routers.
#[derive(Clone)]
pub(super) struct VisibilityScopes {
    /// The scopes of the router and of its nested routers; unlike those of hooks, none is of a single entry.
    scopes: Vec<ScopeRules>,
    pub(super) guard: VisibilityGuard,
}

#[derive(Clone)]
struct ScopeRules {
    /// The enclosing scopes from the outermost to this one.
    path: Vec<usize>,
    /// Length of what nesting has put before the names of tools and prompts.
    prefix_len: usize,
    rules: Vec<Rule>,
    /// Whether this router has given functions to single entries.
    has_entry_rules: bool,
}

impl Default for VisibilityScopes {
    fn default() -> Self {
        let root =
            ScopeRules { path: vec![ROOT_SCOPE], prefix_len: 0, rules: Vec::new(), has_entry_rules: false };
        Self { scopes: vec![root], guard: |function| function() }
    }
}

impl fmt::Debug for VisibilityScopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.scopes.iter().map(|scope| scope.rules.len())).finish()
    }
}

impl VisibilityScopes {
    /// Adds a function for all entries.
    pub(super) fn add(&mut self, rule: Rule) {
        if let Some(root) = self.scopes.get_mut(ROOT_SCOPE) {
            root.rules.push(rule);
        }
    }

    /// Records that an entry gets a function of its own.
    pub(super) fn mark_entry_rule(&mut self) {
        if let Some(root) = self.scopes.get_mut(ROOT_SCOPE) {
            root.has_entry_rules = true;
        }
    }

    /// Adds the scopes of a nested router, whose names get a prefix; returns the offset for its scope numbers.
    pub(super) fn nest(&mut self, prefix: &str, inner: Self) -> usize {
        let base = self.scopes.len();
        for mut scope in inner.scopes {
            scope.prefix_len += prefix.len() + 1; // and the dot
            scope.path.iter_mut().for_each(|outer| *outer += base);
            scope.path.insert(0, ROOT_SCOPE);
            self.scopes.push(scope);
        }
        base
    }

    /// Returns whether there are functions for all entries of a router.
    pub(super) fn has_rules(&self) -> bool {
        self.scopes.iter().any(|scope| !scope.rules.is_empty())
    }

    /// Returns the functions that apply to an entry, each with the length of the prefix that it does not know.
    fn of_listing<'a>(&'a self, listing: &'a Listing) -> impl Iterator<Item = (&'a Rule, usize)> {
        let path = self.scopes.get(listing.scope).map_or(&[][..], |scope| &scope.path);
        let scopes = path.iter().filter_map(|scope| self.scopes.get(*scope));
        let of_scopes = scopes.flat_map(|scope| scope.rules.iter().map(|rule| (rule, scope.prefix_len)));
        of_scopes.chain(listing.visible_to.iter().map(|rule| (rule, 0)))
    }

    /// Returns the functions that apply to an entry.
    pub(super) fn rules_of<'a>(&'a self, listing: &'a Listing) -> impl Iterator<Item = &'a Rule> {
        self.of_listing(listing).map(|(rule, _)| rule)
    }

    /// Returns whether functions apply to an entry.
    pub(super) fn restrict(&self, listing: &Listing) -> bool {
        self.of_listing(listing).next().is_some()
    }

    pub(super) fn allow(&self, caller: &Caller, listing: &Listing, subject: Subject<'_>) -> bool {
        self.ask_all(caller, listing, subject) == Visible::Yes
    }

    /// Returns the functions that apply to an entry, each with the subject that it knows.
    fn for_entry<'a>(
        &'a self,
        listing: &'a Listing,
        subject: Subject<'a>,
    ) -> impl Iterator<Item = (&'a Rule, Subject<'a>)> {
        self.of_listing(listing).map(move |(rule, prefix)| (rule, without_prefix(subject, prefix)))
    }

    /// Asks the functions that apply to an entry.
    fn ask_all(&self, caller: &Caller, listing: &Listing, subject: Subject<'_>) -> Visible {
        Visible::all(self.for_entry(listing, subject).map(|(rule, subject)| self.ask(rule, caller, subject)))
    }

    fn ask(&self, rule: &Rule, caller: &Caller, subject: Subject<'_>) -> Visible {
        let mut has_returned = false;
        let is_visible = (self.guard)(&mut || {
            let is_visible = rule.is_visible(caller, subject);
            has_returned = true;
            is_visible
        });
        match (has_returned, is_visible) {
            (true, true) => Visible::Yes,
            (true, false) => Visible::No,
            (false, _) => Visible::Failed,
        }
    }

    /// Returns the name of the view of a caller, or `None` if a function has none.
    pub(super) fn view(&self, caller: &Caller) -> Option<Box<str>> {
        let mut name = String::new();
        for scope in &self.scopes {
            // Only functions of a whole router name views, and no name covers the functions of single entries.
            if scope.has_entry_rules && scope.rules.is_empty() {
                return None;
            }
            for rule in &scope.rules {
                let view = rule.view(caller)?;
                // With its length, so that no two sequences of views have the same name.
                let _ = write!(name, "{}:{view}", view.len());
            }
        }
        Some(name.into())
    }
}

// Serialized list pages of views, bounded by number and bytes.

/// Maximum number of remembered pages.
pub(super) const MAX_PAGES: usize = 4096;
/// Maximum size of the remembered pages and the names of their views, in bytes.
pub(super) const MAX_BYTES: usize = 8 << 20;

/// Pages `P` by the name of a view and a key `K`.
///
/// Two generations: a page that is used moves to the young one. When that is full, it becomes the old one, and the pages
/// that were not used since the last time are dropped. So at least the pages of half the bounds that were used last are
/// there, and finding one costs no bookkeeping.
pub(super) struct ViewCache<K, P> {
    young: Half<K, P>,
    old: Half<K, P>,
}

/// Invariant: `pages` and `bytes` are the sums over `views`, at most half of the bounds.
struct Half<K, P> {
    views: BTreeMap<Box<str>, Vec<(K, P, usize)>>,
    pages: usize,
    bytes: usize,
}

impl<K, P> Default for Half<K, P> {
    fn default() -> Self {
        Self { views: BTreeMap::new(), pages: 0, bytes: 0 }
    }
}

impl<K, P> Default for ViewCache<K, P> {
    fn default() -> Self {
        Self { young: Half::default(), old: Half::default() }
    }
}

impl<K: PartialEq, P> Half<K, P> {
    fn find(&self, view: &str, key: &K) -> Option<&P> {
        self.views.get(view)?.iter().find(|(k, ..)| k == key).map(|(_, page, _)| page)
    }

    fn take(&mut self, view: &str, key: &K) -> Option<(P, usize)> {
        let pages = self.views.get_mut(view)?;
        let at = pages.iter().position(|(k, ..)| k == key)?;
        let (_, page, bytes) = pages.swap_remove(at);
        if pages.is_empty() {
            self.views.remove(view);
        }
        (self.pages, self.bytes) = (self.pages - 1, self.bytes - bytes);
        Some((page, bytes))
    }

    /// Adds a page, and drops those of its view that are outdated by it.
    fn push(&mut self, view: &str, key: K, page: P, bytes: usize, is_outdated: impl Fn(&K) -> bool) {
        let pages = match self.views.get_mut(view) {
            Some(pages) => pages,
            None => self.views.entry(view.into()).or_default(),
        };
        let (sums, before) = ((&mut self.pages, &mut self.bytes), pages.len());
        pages.retain(|(k, _, bytes)| {
            let keeps = !is_outdated(k);
            *sums.1 -= if keeps { 0 } else { *bytes };
            keeps
        });
        *sums.0 -= before - pages.len();
        pages.push((key, page, bytes));
        (*sums.0, *sums.1) = (*sums.0 + 1, *sums.1 + bytes);
    }
}

impl<K: PartialEq, P> ViewCache<K, P> {
    /// Returns a page.
    pub(super) fn find(&mut self, view: &str, key: K) -> Option<&P> {
        if self.young.find(view, &key).is_none() {
            let (page, bytes) = self.old.take(view, &key)?;
            // Outdated pages of the view are as old as this one.
            self.make_room(bytes);
            self.young.push(view, key, page, bytes, |_| false);
            return self.young.views.get(view)?.last().map(|(_, page, _)| page);
        }
        self.young.find(view, &key)
    }

    /// Adds a page of this size. One that is larger than half of the bound is not kept.
    pub(super) fn insert(
        &mut self,
        view: &str,
        key: K,
        page: P,
        size: usize,
        is_outdated: impl Fn(&K) -> bool,
    ) {
        let bytes = size + view.len() + size_of::<(K, P, usize)>();
        if bytes > MAX_BYTES / 2 {
            return;
        }
        // A page in both halves would be counted twice.
        self.old.take(view, &key);
        self.make_room(bytes);
        self.young.push(view, key, page, bytes, is_outdated);
    }

    fn make_room(&mut self, bytes: usize) {
        if self.young.pages >= MAX_PAGES / 2 || self.young.bytes + bytes > MAX_BYTES / 2 {
            // Pages without a request since the last change of halves go with the old half.
            self.old = mem::take(&mut self.young);
        }
    }
}

impl<K, P> fmt::Debug for ViewCache<K, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (pages, bytes) = (self.young.pages + self.old.pages, self.young.bytes + self.old.bytes);
        f.debug_struct("ViewCache").field("pages", &pages).field("bytes", &bytes).finish()
    }
}

// Visibility of the entries of a router: its functions, and the changes that follow from them.

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
        let (key, rule) = (&*entry_key(kind, name), rule_of_entry(is_visible));
        let found = match kind {
            EntryKind::Tool => self.tools.entry_mut(key).map(|mut entry| entry.add_rule(rule)),
            EntryKind::Resource => self.resources.entry_mut(key).map(|mut entry| entry.add_rule(rule)),
            EntryKind::ResourceTemplate => {
                self.templates.entry_mut(key).map(|mut entry| entry.add_rule(rule))
            }
            EntryKind::Prompt => self.prompts.entry_mut(key).map(|mut entry| entry.add_rule(rule)),
            EntryKind::Skill => self.restrict_skill(key, rule),
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
        let gate = Gate { scopes: &self.visibility, folders: self.skills.as_deref().map(Folders::of) };
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

// Answers who sees an entry: by the functions of routers, of entries, and of the folders of skills.

/// The visibility functions of a router, with those of the folders of its skills.
#[derive(Clone, Copy)]
pub(super) struct Gate<'a> {
    pub(super) scopes: &'a VisibilityScopes,
    pub(super) folders: Option<Folders<'a>>,
}

impl<'a> Gate<'a> {
    /// Returns whether a caller sees an entry.
    pub(super) fn shows(&self, caller: &Caller, listing: &Listing, subject: Subject<'_>) -> bool {
        self.ask(caller, listing, subject) == Visible::Yes
    }

    /// Asks the functions for an entry.
    pub(super) fn ask(&self, caller: &Caller, listing: &Listing, subject: Subject<'_>) -> Visible {
        let in_folder = folder_uri(subject).map_or(Visible::Yes, |uri| self.ask_folder(caller, uri));
        if in_folder == Visible::Yes { self.scopes.ask_all(caller, listing, subject) } else { in_folder }
    }

    /// Returns whether a caller sees the folders that contain the resource with this URI.
    pub(super) fn shows_folder(&self, caller: &Caller, uri: &str) -> bool {
        self.ask_folder(caller, uri) == Visible::Yes
    }

    fn ask_folder(&self, caller: &Caller, uri: &str) -> Visible {
        let key = self.folder_key(uri);
        Visible::all(self.for_folder(&key).map(|(rule, subject)| self.scopes.ask(rule, caller, subject)))
    }

    /// Returns whether there are functions for the folders that contain the resource with this URI.
    pub(super) fn restricts_folder(&self, uri: &str) -> bool {
        self.for_folder(&self.folder_key(uri)).next().is_some()
    }

    /// Returns whether there are functions for an entry.
    pub(super) fn restricts(&self, listing: &Listing) -> bool {
        self.scopes.restrict(listing)
    }

    /// Returns the callers who see an entry.
    pub(super) fn audience(&self, listing: &Listing, subject: &OwnedSubject) -> Audience {
        self.audience_at(folder_uri(subject.as_subject()), Some((listing, subject)))
    }

    /// Returns the callers who see the folders that contain the resource with a URI, and an entry.
    pub(super) fn audience_at(
        &self,
        uri: Option<&str>,
        entry: Option<(&Listing, &OwnedSubject)>,
    ) -> Audience {
        let key = uri.map(|uri| self.folder_key(uri)).unwrap_or_default();
        let of_entry = entry
            .into_iter()
            .flat_map(|(listing, subject)| self.scopes.for_entry(listing, subject.as_subject()));
        let rules = self.for_folder(&key).chain(of_entry);
        let rules: Vec<(Rule, OwnedSubject)> = rules
            .filter_map(|(rule, subject)| Some((Arc::clone(rule), OwnedSubject::new(subject)?)))
            .collect();
        if rules.is_empty() {
            return Audience::EVERYONE;
        }
        let guard = self.scopes.guard;
        Audience::matching(move |caller| {
            rules.iter().all(|(rule, subject)| guard(&mut || rule.is_visible(caller, subject.as_subject())))
        })
    }

    /// Returns the [`folder_key`] of a URI; an empty one, which no folder contains, if there are no functions.
    fn folder_key(&self, uri: &str) -> String {
        let has_rules = |folders: Folders<'_>| !folders.rules.is_empty() || self.scopes.has_rules();
        if self.folders.is_some_and(has_rules) { folder_key(uri) } else { String::new() }
    }

    /// Returns the functions for all folders that contain the resource with this key, each with its skill.
    ///
    /// Skills have them enabled or not: the files of one that is disabled are served.
    fn for_folder<'k>(&self, key: &'k str) -> impl Iterator<Item = (&'a Rule, Subject<'a>)> + use<'a, 'k> {
        let scopes = self.scopes;
        self.folders.into_iter().flat_map(move |Folders { rules, skills }| {
            let of_rules = rules.of_key(key).map(|rule| (&rule.rule, rule.skill.as_subject()));
            // Without such functions nothing could hide them.
            let skills = scopes.has_rules().then(|| skills.access().map(|(_, skill)| skill));
            let around = skills.into_iter().flatten().filter(|skill| key.starts_with(&*skill.item.folder));
            let of_skill = |skill: EntryAccess<'a, ListedSkill>| {
                scopes.for_entry(skill.listing, Subject::Skill(&skill.item.uri))
            };
            of_rules.chain(around.flat_map(of_skill))
        })
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
}

/// Returns the URI that tells in which folders an entry is.
fn folder_uri(subject: Subject<'_>) -> Option<&str> {
    match subject {
        Subject::Resource(uri) => Some(uri),
        // Its completions tell what the folder holds.
        Subject::ResourceTemplate(template) => Some(literal_prefix(template)),
        _ => None,
    }
}

/// Returns the text of a template before its first expression.
fn literal_prefix(template: &str) -> &str {
    template.split('{').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rng;
    use alloc::format;
    use alloc::string::String;

    impl<K, P> ViewCache<K, P> {
        fn check_sums(&self) {
            for half in [&self.young, &self.old] {
                let pages = || half.views.values().flatten();
                assert_eq!((half.pages, half.bytes), (pages().count(), pages().map(|(.., n)| n).sum()));
                assert!(half.pages <= MAX_PAGES / 2 && half.bytes <= MAX_BYTES / 2);
                assert!(half.views.values().all(|pages| !pages.is_empty()));
            }
        }
    }

    #[test]
    fn pages_that_are_used_stay_within_the_bounds() {
        let (mut cache, mut rng) = (ViewCache::<u64, String>::default(), Rng::new(11));
        let name = |view: usize| format!("view {view}");
        for step in 0..10_000_u64 {
            let view = name(rng.below(3_000));
            let size = if rng.below(50) == 0 { 100_000 } else { rng.below(4_000) };
            if cache.find(&view, step % 3).is_none_or(|page| *page != format!("{view} {}", step % 3)) {
                cache.insert(&view, step % 3, format!("{view} {}", step % 3), size, |_| false);
            }
            // A page that is used every time is never dropped.
            if step > 0 {
                assert_eq!(cache.find("always", 7).map(|page| &**page), Some("kept"), "step {step}");
            } else {
                cache.insert("always", 7, "kept".into(), 10, |_| false);
            }
            if step % 200 == 0 {
                cache.check_sums();
            }
        }
        assert!(cache.old.pages > 0, "the bounds were not reached");
        cache.insert("large", 1, String::new(), MAX_BYTES, |_| false);
        assert!(cache.find("large", 1).is_none());
        cache.insert("always", 8, "next".into(), 10, |key| *key == 7);
        assert!(cache.find("always", 7).is_none() && cache.find("always", 8).is_some());
        cache.check_sums();
    }
}
