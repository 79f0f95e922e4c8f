//! Skills of a router: `skills/list`, `skills/get` and `resources/directory/read` (SEP-2640).
//!
//! A skill is an entry over resources that are registered already. What a client may not read, it does not see here.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::fmt;

use serde::ser::{Serialize, SerializeMap, Serializer};

use super::access_rules::{FolderRules, FolderScopes, folder_key};
use super::entries::Entries;
use super::hooks::{Hook, ROOT_SCOPE, Subject};
use super::page::CacheHint;
use super::params::text_param;
use super::pending::Listed;
use super::registration::{ChangedLists, RegisterError};
use super::registry::{Router, refuse_duplicate, unknown_item};
use super::route::{invalid_uri, read_cursor};
use super::template::{MAX_URI, comparison_key, lower_host, normalize};
use super::visibility::{Listing, Rule};
use crate::methods::{self, Capability, EntryKind};
use crate::model::{Resource, encode_for};
use crate::raw::RawJson;
use crate::rpc::{RpcError, clip};
use crate::server::{Call, Caller};
use crate::uri::file_name;

/// An entry of a list that stands for a folder of resources: a skill.
///
/// An extension implements it for its type of entry; [`Router::skill`] lists one. The router decides who sees the entry and
/// what is in its folder, serves its list and its directories, and knows nothing else of it.
pub trait FolderEntry: Serialize {
    /// Checks what the entry says about itself.
    ///
    /// # Errors
    ///
    /// The rule that it breaks.
    fn check_entry(&self) -> Result<(), String>;

    /// Returns the URI by which the entry is known: that of a file in the folder, which the resource serves whose readers see the
    /// entry.
    fn uri(&self) -> &str;

    /// Returns the URIs of its files, as far as they are known.
    fn file_uris(&self) -> impl Iterator<Item = &str>;
}

impl<H, M: Hook> Router<H, M> {
    /// Lists a new skill, whose files are registered as resources (SKILL-002).
    ///
    /// The first skill declares the extension `io.modelcontextprotocol/skills` with the setting `directoryRead`, in every
    /// revision and to every client. A router that declared the extension before keeps its settings: without
    /// `directoryRead`, the method `resources/directory/read` is unknown.
    ///
    /// A client sees the skill, and gets its entry, if it may read the `SKILL.md`: the resource is not hidden
    /// ([`enable`](Self::enable)), and the token has its scopes ([`require_scope`](Self::require_scope)). A directory is
    /// every URI below which resources are registered, with those that the client may read. Resources of templates are in no
    /// directory, so a server with a skill behind a template declares the extension with `{}`.
    ///
    /// The digests are those of the entry: a router calls no handler to check them. If the content of a file changes, use
    /// [`replace_skill`](Self::replace_skill).
    ///
    /// # Errors
    ///
    /// - [`RegisterError::Skill`]: the entry is not valid ([`FolderEntry::check_entry`]).
    /// - [`RegisterError::Duplicate`]: a skill with this URI is registered already.
    /// - [`RegisterError::Unknown`]: no resource or template serves a file of the skill.
    pub fn skill(&mut self, skill: &impl FolderEntry) -> Result<ChangedLists, RegisterError> {
        let (key, entry) = self.check_skill(skill)?;
        let taken = self.skills.as_ref().is_some_and(|skills| skills.contains(&key));
        refuse_duplicate(EntryKind::Skill, skill.uri(), taken)?;
        Ok(self.put_skill(key, entry))
    }

    /// Lists a skill, and replaces the one with the same URI.
    ///
    /// # Errors
    ///
    /// As [`skill`](Self::skill), except for `Duplicate`.
    pub fn replace_skill(&mut self, skill: &impl FolderEntry) -> Result<ChangedLists, RegisterError> {
        let (key, entry) = self.check_skill(skill)?;
        Ok(self.put_skill(key, entry))
    }

    /// Adds a scope to everything in the folder of the skill with this comparison key; returns whether there is one.
    pub(super) fn require_scope_of_skill(&mut self, key: &str, scope: Box<str>) -> bool {
        let Some(skills) = &mut self.skills else { return false };
        let Some(skill) = skills.entries.item(key) else { return false };
        skills.folder_scopes.push(&skill.folder, scope);
        // Clients see other lists now, and the scopes of subscriptions are published with this change.
        skills.entries.catalog.mark_changed();
        self.resources.catalog.mark_changed();
        true
    }

    /// Checks an entry, and that its files are registered; returns the comparison key of its URI, and what is listed.
    fn check_skill(&self, skill: &impl FolderEntry) -> Result<(Box<str>, ListedSkill), RegisterError> {
        let uri = skill.uri();
        let refused = |reason| RegisterError::Skill { uri: uri.into(), reason };
        skill.check_entry().map_err(refused)?;
        for file in skill.file_uris().chain([uri]) {
            if !self.serves(file) {
                return Err(unknown_item(EntryKind::Resource, file));
            }
        }
        let key = comparison_key(uri, MAX_URI);
        let key = key.map_err(|reason| RegisterError::Uri { uri: uri.into(), reason })?;
        let entry = RawJson::encode(skill).map_err(|error| refused(error.to_string()))?;
        let folder = folder_key(key.rfind('/').and_then(|slash| key.get(..=slash)).unwrap_or(&key)).into();
        Ok((key.into(), ListedSkill { uri: uri.into(), folder, entry }))
    }

    fn put_skill(&mut self, key: Box<str>, listed: ListedSkill) -> ChangedLists {
        let new = || Box::new(SkillCatalog::new(resolve::<H, M>));
        let skills = self.skills.get_or_insert_with(new);
        skills.entries.put(key, listed, (), |_| ());
        self.mark_files_changed();
        self.declare_skills();
        ChangedLists::from_kind(EntryKind::Skill)
    }

    /// Removes the skill with this comparison key; returns who saw it. The functions that hid its files go on to hide them.
    pub(super) fn remove_skill(&mut self, key: &str) -> Option<Listing> {
        let skills = self.skills.as_mut()?;
        let removed = skills.entries.remove(key)?;
        for rule in self.visibility.rules_of(&removed.listing) {
            skills.folder_rules.push(&removed.item.folder, &removed.item.uri, rule.clone());
        }
        self.mark_files_changed();
        Some(removed.listing)
    }

    /// Adds a visibility function to everything in the folder of the skill with this comparison key; `None` if there is none.
    pub(super) fn restrict_skill(&mut self, key: &str, rule: Rule) -> Option<()> {
        let skills = self.skills.as_mut()?;
        let skill = skills.entries.item(key)?;
        skills.folder_rules.push(&skill.folder, &skill.uri, rule);
        skills.entries.catalog.mark_changed();
        self.resources.catalog.mark_changed();
        self.templates.catalog.mark_changed();
        Some(())
    }

    /// Counts a change of the list of resources, if functions may show and hide the files of skills.
    pub(super) fn mark_files_changed(&mut self) {
        if self.visibility.has_rules() {
            self.resources.catalog.mark_changed();
            self.templates.catalog.mark_changed();
        }
    }

    /// Declares the extension unless it is declared.
    fn declare_skills(&mut self) {
        if !self.declared.has(Capability::Skills) {
            self.declare(Capability::DirectoryRead);
        }
        self.declare(Capability::Resources); // SKILL-004
    }

    /// Moves the skills of a nested router behind those of this one.
    pub(super) fn adopt_skills(&mut self, inner: SkillCatalog<Self>, base: usize) {
        let resolve = inner.resolve;
        let skills = self.skills.get_or_insert_with(|| Box::new(SkillCatalog::new(resolve)));
        skills.folder_scopes.append(inner.folder_scopes);
        skills.folder_rules.append(inner.folder_rules);
        skills.entries.adopt(inner.entries, (0, base), |key, _, _, _| key);
        self.mark_files_changed();
    }

    /// Returns whether a resource or a template with this URI is registered, hidden or not.
    fn serves(&self, uri: &str) -> bool {
        let Ok(normal) = normalize(uri, MAX_URI) else { return false };
        self.resources.contains(&lower_host(Cow::Borrowed(&*normal)))
            || self.scopes_to_read(uri, None).is_some()
    }

    /// Returns the scope of hooks and the scopes of tokens of what serves `resources/read` of this URI, or `None` if nothing
    /// does that the caller sees. Without a caller everything is seen.
    fn scopes_to_read(&self, uri: &str, caller: Option<&Caller>) -> Option<(usize, Cow<'_, [Box<str>]>)> {
        let normal = normalize(uri, MAX_URI).ok()?;
        let key = lower_host(Cow::Borrowed(&*normal));
        let gate = self.gate();
        if caller.is_some_and(|caller| !gate.shows_folder(caller, &key)) {
            return None;
        }
        let shows = |listing: &Listing, subject: Subject<'_>| {
            caller.is_none_or(|caller| gate.scopes.allow(caller, listing, subject))
        };
        let resource = self.resources.find(&key).filter(|e| shows(e.listing, e.item.subject()));
        let (scope, required) = match resource {
            Some(entry) => (entry.hook_scope, entry.rules),
            None => {
                let (entry, matched) =
                    self.templates_at(&normal).find(|(e, _)| shows(e.listing, e.item.subject()))?;
                // `resolve_resource` refuses the URI here and tries no later template.
                matched.ok()?;
                (entry.hook_scope, entry.rules)
            }
        };
        Some((scope, self.with_folder_scopes(&key, &required.required_scopes)))
    }

    fn may_read(&self, call: &Call, uri: &str) -> bool {
        self.scopes_to_read(uri, Some(call.caller()))
            .is_some_and(|(_, scopes)| call.require_scopes(&scopes).is_ok())
    }

    /// Returns the hint of a result about skills, which only its user may keep if others could get another one (CACHE-012).
    fn skill_hint(&self, skills: &SkillCatalog<Self>) -> Option<CacheHint> {
        let hint = self.hints.get(EntryKind::Skill as usize).copied().flatten()?;
        let needs_scope = |(_, skill): (u64, &ListedSkill)| {
            self.scopes_to_read(&skill.uri, None).is_some_and(|(_, scopes)| !scopes.is_empty())
        };
        let is_private =
            self.is_restricted(EntryKind::Skill) || skills.entries.catalog.enabled_after(0).any(needs_scope);
        Some(if is_private { hint.to_private() } else { hint })
    }
}

/// Answers a call about skills.
fn resolve<'a, H, M: Hook>(
    router: &'a Router<H, M>,
    call: &'a Call,
) -> Option<Result<SkillResolution<'a>, RpcError>> {
    let skills = router.skills.as_deref()?;
    Some(match call.method() {
        methods::SKILLS_LIST => list(router, skills, call),
        methods::SKILLS_GET => get(router, skills, call),
        methods::DIRECTORY_READ => read_directory(router, call),
        _ => return None,
    })
}

/// Answers `skills/list` with the skills whose `SKILL.md` the client may read (SKILL-020).
fn list<'a, H, M: Hook>(
    router: &'a Router<H, M>,
    skills: &'a SkillCatalog<Router<H, M>>,
    call: &Call,
) -> Result<SkillResolution<'a>, RpcError> {
    let catalog = &skills.entries.catalog;
    let position = router.page_position(call, EntryKind::Skill, catalog.last_number())?;
    let visible = catalog.enabled_after(position.after);
    let mut visible = visible.filter(|(_, skill)| router.may_read(call, &skill.uri));
    let (mut text, mut last) = (Vec::from(*b"["), None);
    for (number, skill) in visible.by_ref().take(position.size) {
        text.extend_from_slice(if last.is_some() { b"," } else { b"" });
        text.extend_from_slice(skill.entry.as_bytes()); // SKILL-022: an entry is in one page
        last = Some(number);
    }
    text.push(b']');
    let mut members = Vec::from([("skills", RawJson::trusted(text.into()))]);
    let next = position.next_cursor(last.filter(|_| visible.next().is_some()));
    push(&mut members, "nextCursor", next.as_ref());
    push_hint(&mut members, router.skill_hint(skills));
    Ok(SkillResolution {
        subject: Subject::List(EntryKind::Skill),
        scope: ROOT_SCOPE,
        required_scopes: Cow::Borrowed(&[]),
        answer: SkillAnswer { form: "$mcp::ListSkillsResult", members },
    })
}

/// Answers `skills/get` (SKILL-024, SKILL-025, SKILL-026).
fn get<'a, H, M: Hook>(
    router: &'a Router<H, M>,
    skills: &'a SkillCatalog<Router<H, M>>,
    call: &Call,
) -> Result<SkillResolution<'a>, RpcError> {
    let uri = text_param(call, "uri")?;
    let key = comparison_key(&uri, MAX_URI).map_err(|reason| invalid_uri(&uri, reason))?;
    let found = skills.entries.find(&key);
    let found = found
        .and_then(|skill| Some((skill.item, router.scopes_to_read(&skill.item.uri, Some(call.caller()))?)));
    let unknown = || RpcError::invalid_params(format!("no skill is served at {}", clip(&uri)));
    let (skill, (scope, required_scopes)) = found.ok_or_else(unknown)?;
    let mut members = Vec::from([("skill", skill.entry.clone())]);
    push_hint(&mut members, router.skill_hint(skills));
    let answer = SkillAnswer { form: "$mcp::GetSkillResult", members };
    Ok(SkillResolution { subject: Subject::Skill(&skill.uri), scope, required_scopes, answer })
}

/// Answers `resources/directory/read` with the resources that the client may read (SKILL-040, SKILL-042, SKILL-043).
fn read_directory<'a, H, M: Hook>(
    router: &'a Router<H, M>,
    call: &Call,
) -> Result<SkillResolution<'a>, RpcError> {
    let uri = text_param(call, "uri")?;
    let key = comparison_key(&uri, MAX_URI).map_err(|reason| invalid_uri(&uri, reason))?;
    let children = children(router, call, &key);
    if children.is_empty() {
        return Err(RpcError::invalid_params(format!("{} is not a directory resource", clip(&uri))));
    }
    // A cursor of one directory is not valid in another one.
    let cursors = router.cursors.of_subject(&key);
    let after = read_cursor(call, cursors, EntryKind::Resource, children.len() as u64)?;
    let size = router.page_sizes.get(EntryKind::Resource as usize).copied().unwrap_or(usize::MAX);
    let after = usize::try_from(after).unwrap_or(usize::MAX);
    let end = after.saturating_add(size).min(children.len());
    let page = children.get(after..end).unwrap_or_default();
    let page = encode_for(call.version(), page).map_err(RpcError::from)?;
    let mut members = Vec::from([("resources", page)]);
    let next = (end < children.len()).then(|| cursors.encode(EntryKind::Resource, end as u64));
    push(&mut members, "nextCursor", next.as_ref());
    let answer = SkillAnswer { form: "$mcp::ReadDirectoryResult", members };
    let required_scopes = Cow::Borrowed(&[][..]);
    Ok(SkillResolution { subject: Subject::Directory, scope: ROOT_SCOPE, required_scopes, answer })
}

/// Returns the files and directories directly in a directory, in the order of their names; none if there is no such
/// directory.
fn children<'a, H, M: Hook>(router: &'a Router<H, M>, call: &Call, key: &str) -> Vec<Cow<'a, Resource>> {
    let mut children = Vec::new();
    let has_authority = key.split_once("://").is_some_and(|(_, path)| !path.is_empty());
    let is_file = router.find_resource(call.caller(), key).is_some_and(|entry| !entry.item.is_directory());
    if !has_authority || is_file || key.ends_with('/') || key.contains(['?', '#']) {
        return children;
    }
    let (prefix, gate) = (format!("{key}/"), router.gate());
    let mut from = prefix.clone();
    loop {
        let mut rest = router.resources.enabled_from(&from).take_while(|(name, _)| name.starts_with(&prefix));
        let next = rest.find(|(name, entry)| {
            let scopes = router.with_folder_scopes(name, &entry.rules.required_scopes);
            gate.shows(call.caller(), entry.listing, entry.item.subject())
                && call.require_scopes(&scopes).is_ok()
        });
        let Some((name, entry)) = next else { return children };
        match name.get(prefix.len()..).unwrap_or_default().split_once('/') {
            None => {
                children.push(Cow::Borrowed(entry.item));
                // The least text behind this name.
                from = format!("{name}\0");
            }
            Some((segment, _)) => {
                let directory = format!("{prefix}{segment}");
                // One that is registered is among the files.
                if !segment.is_empty() && router.find_resource(call.caller(), &directory).is_none() {
                    let uri = ancestor(&entry.item.uri, &directory);
                    let name = file_name(&uri).into_owned();
                    children.push(Cow::Owned(Resource::new(uri, name).mime_type(Resource::DIRECTORY)));
                }
                // The next name that does not begin with this segment and a slash: `0` follows `/`.
                from = format!("{directory}0");
            }
        }
    }
}

/// Returns the URI of the directory with this comparison key, in the spelling of a resource below it.
fn ancestor(uri: &str, directory: &str) -> String {
    let segments = directory.matches('/').count() + 1;
    let end = uri.match_indices('/').nth(segments - 1).map(|(at, _)| at);
    end.and_then(|end| uri.get(..end)).unwrap_or(directory).into()
}

fn push<T: Serialize>(members: &mut Vec<(&'static str, RawJson)>, name: &'static str, value: Option<&T>) {
    members.extend(value.and_then(|value| Some((name, RawJson::encode(value).ok()?))));
}

fn push_hint(members: &mut Vec<(&'static str, RawJson)>, hint: Option<CacheHint>) {
    push(members, "ttlMs", hint.map(CacheHint::ttl_ms).as_ref());
    push(members, "cacheScope", hint.map(CacheHint::scope).as_ref());
}

// The skills of a router as data, and the results about them.

/// A result about skills: a page of `skills/list`, an entry, or a page of a directory.
#[derive(Clone, Debug)]
pub struct SkillAnswer {
    /// Name of the type, for shaping.
    pub(super) form: &'static str,
    pub(super) members: Vec<(&'static str, RawJson)>,
}

impl Serialize for SkillAnswer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        struct Members<'a>(&'a [(&'static str, RawJson)]);
        impl Serialize for Members<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut map = serializer.serialize_map(None)?;
                for (name, value) in self.0 {
                    map.serialize_entry(name, value)?;
                }
                map.end()
            }
        }
        serializer.serialize_newtype_struct(self.form, &Members(&self.members))
    }
}

/// Outcome of a call about skills, before the hooks run.
pub(super) struct SkillResolution<'a> {
    pub(super) subject: Subject<'a>,
    pub(super) scope: usize,
    /// Scopes that the token of the call needs.
    pub(super) required_scopes: Cow<'a, [Box<str>]>,
    pub(super) answer: SkillAnswer,
}

/// The function by which a router `R` answers a call about skills; `None` if the method is another one.
pub(super) type ResolveSkills<R> =
    for<'a> fn(&'a R, &'a Call) -> Option<Result<SkillResolution<'a>, RpcError>>;

/// Skills by the comparison key of their URI.
pub(super) type SkillEntries = Entries<ListedSkill, (), ()>;

/// The skills of a router, by the comparison key of their URI.
pub(super) struct SkillCatalog<R> {
    pub(super) entries: SkillEntries,
    /// Scopes of the folders of skills. They stay when a skill is removed, because its files do.
    pub(super) folder_scopes: FolderScopes,
    /// Visibility functions of these folders, which stay, too.
    pub(super) folder_rules: FolderRules,
    /// A pointer, so that a program without skills contains none of this.
    pub(super) resolve: ResolveSkills<R>,
}

#[derive(Clone)]
pub(super) struct ListedSkill {
    pub(super) uri: Box<str>,
    /// Its folder, as a [`folder_key`](super::access_rules::folder_key) with a slash at its end.
    pub(super) folder: Box<str>,
    pub(super) entry: RawJson,
}

impl Listed for ListedSkill {
    fn subject(&self) -> Subject<'_> {
        Subject::Skill(&self.uri)
    }
}

// Not derived: the handlers need not be `Clone`.
impl<R> Clone for SkillCatalog<R> {
    fn clone(&self) -> Self {
        let (folder_scopes, folder_rules) = (self.folder_scopes.clone(), self.folder_rules.clone());
        Self { entries: self.entries.clone(), folder_scopes, folder_rules, resolve: self.resolve }
    }
}

impl<R> fmt::Debug for SkillCatalog<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.entries.fmt(f)
    }
}

impl<R> SkillCatalog<R> {
    pub(super) fn new(resolve: ResolveSkills<R>) -> Self {
        Self {
            entries: Entries::default(),
            folder_scopes: FolderScopes::default(),
            folder_rules: FolderRules::default(),
            resolve,
        }
    }

    pub(super) fn contains(&self, key: &str) -> bool {
        self.entries.contains(key)
    }

    /// Returns the comparison keys of all skills, in no particular order.
    pub(super) fn uris(&self) -> impl Iterator<Item = &str> {
        self.entries.names()
    }
}
