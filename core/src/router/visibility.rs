//! Functions that decide which entries a caller sees.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::{self, Write as _};

use super::hooks::{ROOT_SCOPE, Subject};
use crate::methods::EntryKind;
use crate::server::{Audience, Caller};
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

    fn without_prefix(&self, len: usize) -> Self {
        Self::new(without_prefix(self.as_subject(), len)).unwrap_or_else(|| self.clone())
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

/// The functions that all have to agree that a caller sees an entry, each with its subject; apart from the router.
#[derive(Clone)]
pub(super) struct BoundRules {
    rules: Vec<(Rule, OwnedSubject)>,
    guard: VisibilityGuard,
}

impl BoundRules {
    pub(super) const fn new(guard: VisibilityGuard) -> Self {
        Self { rules: Vec::new(), guard }
    }

    pub(super) fn push(&mut self, rule: &Rule, subject: OwnedSubject) {
        self.rules.push((Arc::clone(rule), subject));
    }

    pub(super) fn append(&mut self, other: &Self) {
        self.rules.extend_from_slice(&other.rules);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    pub(super) fn allow(&self, caller: &Caller) -> bool {
        self.rules
            .iter()
            .all(|(rule, subject)| (self.guard)(&mut || rule.is_visible(caller, subject.as_subject())))
    }

    /// Returns the callers who see the entry.
    pub(super) fn into_audience(self) -> Audience {
        if self.is_empty() {
            return Audience::EVERYONE;
        }
        Audience::matching(move |caller| self.allow(caller))
    }
}

impl fmt::Debug for BoundRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BoundRules").field(&self.rules.len()).finish()
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

    /// Asks the functions that apply to an entry.
    pub(super) fn ask_all(&self, caller: &Caller, listing: &Listing, subject: Subject<'_>) -> Visible {
        let rules = self.of_listing(listing);
        Visible::all(rules.map(|(rule, prefix)| self.ask(rule, caller, without_prefix(subject, prefix))))
    }

    pub(super) fn ask(&self, rule: &Rule, caller: &Caller, subject: Subject<'_>) -> Visible {
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

    /// Returns the functions for an entry, apart from the router.
    pub(super) fn bind(&self, listing: &Listing, subject: &OwnedSubject) -> BoundRules {
        let mut bound = BoundRules::new(self.guard);
        for (rule, prefix) in self.of_listing(listing) {
            bound.push(rule, subject.without_prefix(prefix));
        }
        bound
    }

    /// Returns the name of the view of a caller, or `None` if a function has none.
    pub(super) fn view(&self, caller: &Caller) -> Option<Box<str>> {
        let mut name = String::new();
        for scope in &self.scopes {
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
