//! Rights to see and use entries, apart from their router: for what the engine answers, subscriptions and refused headers.

use alloc::borrow::{Cow, ToOwned as _};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use super::entries::EntryAccess;
use super::hooks::{Hook, Subject};
use super::pending::Listed;
use super::registry::Router;
use super::skills::SkillEntries;
use super::template::{
    MAX_URI, PrefixIndex, Template, TemplateMismatch, VariablePolicy, lower_host, normalize,
};
use super::visibility::{Folders, Gate, Listing, OwnedSubject, Rule, VisibilityScopes};
use crate::server::{Audience, Caller, Config};
use crate::sync::Arc;

/// The scopes that the resources and resource templates of a [`Router`] need, and who sees them and its tools.
///
/// It is a copy: see [`Router::access_rules`].
#[derive(Clone, Debug, Default)]
pub struct AccessRules {
    /// Empty if no entry is restricted.
    resources: BTreeMap<Box<str>, Access>,
    templates: BTreeMap<u64, (Template, VariablePolicy, Access)>,
    prefixes: PrefixIndex,
    folder_scopes: FolderScopes,
    visibility: VisibilityScopes,
    folder_rules: FolderRules,
    /// Empty unless functions are asked about them.
    skills: SkillEntries,
    /// Tools with functions, and disabled tools, by name.
    tools: BTreeMap<Box<str>, Access>,
}

#[derive(Clone, Debug)]
struct Access {
    scopes: Vec<Box<str>>,
    listing: Listing,
    subject: OwnedSubject,
}

impl Access {
    fn of<T: Listed>(entry: &EntryAccess<'_, T>) -> Option<Self> {
        let (scopes, listing) = (entry.required_scopes.into(), entry.listing.clone());
        Some(Self { scopes, listing, subject: OwnedSubject::new(entry.item.subject())? })
    }
}

impl AccessRules {
    /// Gives a configuration the rules.
    #[must_use]
    pub fn configure(self, config: Config) -> Config {
        let access = Arc::new(self);
        let (resources, tools) = (Arc::clone(&access), Arc::clone(&access));
        config
            .subscription_scopes(move |caller, uri| access.required_for(caller, uri))
            .resource_audience(move |uri| resources.resource_audience(uri))
            .tool_audience(move |name| tools.tool_audience(name))
    }

    /// Returns the scopes that the token of a caller needs to read the resource with this URI, or to subscribe to it.
    ///
    /// They are those of the entry that a read finds, and of disabled entries before it, which it would find if they were
    /// enabled: a subscription outlasts that. Scopes of a skill are those of every URI in its folder. An entry that the
    /// caller does not see needs none, as an unknown one.
    #[must_use]
    pub fn required_for(&self, caller: &Caller, uri: &str) -> Vec<Box<str>> {
        let Some((key, found)) = self.find(uri) else { return Vec::new() };
        let gate = self.gate();
        // A caller who does not see the folder gets no challenge, which would tell that it is there (DESIGN-54).
        if !gate.shows_folder(caller, &key) {
            return Vec::new();
        }
        let mut scopes: Vec<Box<str>> = self.folder_scopes.required_for(&key).cloned().collect();
        let is_seen =
            |access: &&Access| gate.scopes.allow(caller, &access.listing, access.subject.as_subject());
        for access in found.into_iter().filter(is_seen) {
            scopes.extend_from_slice(&access.scopes);
            if access.listing.is_enabled {
                break;
            }
        }
        scopes
    }

    /// Returns the callers who see a resource with this URI, and get to know of changes of its content.
    ///
    /// They see its folder and one of the entries that could serve it. Everyone sees a URI that no entry serves: the
    /// announcement of its changes decides about it.
    #[must_use]
    pub fn resource_audience(&self, uri: &str) -> Audience {
        let Some((key, found)) = self.find(uri) else { return Audience::EVERYONE };
        let gate = self.gate();
        if found.is_empty() {
            return gate.audience_at(Some(&key), None);
        }
        let mut audience = Audience::NOBODY;
        for access in found {
            audience.merge(&gate.audience_at(Some(&key), Some((&access.listing, &access.subject))));
        }
        audience
    }

    /// Returns the callers who see a tool: none, if it is disabled, and everyone, if it is not registered.
    #[must_use]
    pub fn tool_audience(&self, name: &str) -> Audience {
        match self.tools.get(name) {
            Some(tool) if tool.listing.is_enabled => self.gate().audience(&tool.listing, &tool.subject),
            Some(_) => Audience::NOBODY,
            None => Audience::EVERYONE,
        }
    }

    const fn gate(&self) -> Gate<'_> {
        let folders = Folders { rules: &self.folder_rules, skills: &self.skills };
        Gate { scopes: &self.visibility, folders: Some(folders) }
    }

    /// Returns the comparison key of a URI, and the entries that could serve it, in the order of a read; `None` if nothing is
    /// restricted.
    fn find(&self, uri: &str) -> Option<(Box<str>, Vec<&Access>)> {
        // Without scopes and functions nothing is kept.
        if self.resources.is_empty()
            && self.templates.is_empty()
            && self.folder_scopes.is_empty()
            && self.folder_rules.is_empty()
        {
            return None;
        }
        let normal = normalize(uri, MAX_URI).ok()?;
        let key = lower_host(Cow::Borrowed(&*normal));
        let templates = self.prefixes.find(&normal).into_iter().filter_map(|number| {
            let (template, policy, access) = self.templates.get(&number)?;
            let is_other =
                matches!(template.match_normalized(&normal, *policy), Err(TemplateMismatch::Different));
            (!is_other).then_some(access)
        });
        let found = self.resources.get(&*key).into_iter().chain(templates).collect();
        Some((key.as_ref().into(), found))
    }
}

impl<H, M: Hook> Router<H, M> {
    /// Returns who may see tools, resources and resource templates now, and subscribe to resources
    /// ([`require_scope`](Self::require_scope), [`visible_to`](Self::visible_to)).
    ///
    /// [`config`](Self::config) takes those of the moment. If entries change while a server runs, give the engine
    /// functions that look them up in a copy which is replaced
    /// ([`Config::subscription_scopes`], [`Config::resource_audience`], [`Config::tool_audience`]); routers of the adapters
    /// do so.
    #[must_use]
    pub fn access_rules(&self) -> AccessRules {
        let mut access = AccessRules { visibility: self.visibility.clone(), ..AccessRules::default() };
        let is_kept = |tool: &Listing| !tool.is_enabled || self.visibility.restrict(tool);
        let tools = self.tools.access().filter(|(_, tool)| is_kept(tool.listing));
        access.tools = tools.filter_map(|(name, tool)| Some((name.into(), Access::of(&tool)?))).collect();
        if let Some(skills) = &self.skills {
            access.folder_scopes.clone_from(&skills.folder_scopes);
            access.folder_rules.clone_from(&skills.folder_rules);
            if self.visibility.has_rules() {
                access.skills.clone_from(&skills.entries);
            }
        }
        let is_free = !self.visibility.has_rules()
            && self.resources.access().all(|(_, entry)| is_free(&entry))
            && self.templates.access().all(|(_, entry)| is_free(&entry));
        if is_free {
            return access;
        }
        let resources = self.resources.access();
        access.resources =
            resources.filter_map(|(key, entry)| Some((key.into(), Access::of(&entry)?))).collect();
        let templates = self.templates.access().filter_map(|(name, entry)| {
            let family = self.templates.extra(name)?;
            Some((entry.number, (family.template.clone(), family.policy, Access::of(&entry)?)))
        });
        access.templates = templates.collect();
        access.prefixes = self.prefixes.clone();
        access
    }

    /// Adds the scopes of the folders of skills to the scopes of the entry that serves a resource with this comparison key.
    pub(super) fn with_folder_scopes<'a>(&'a self, key: &str, own: &'a [Box<str>]) -> Cow<'a, [Box<str>]> {
        let folders = self.skills.as_ref().map(|skills| &skills.folder_scopes);
        let mut more = folders.into_iter().flat_map(|folders| folders.required_for(key)).peekable();
        if more.peek().is_none() {
            return Cow::Borrowed(own);
        }
        Cow::Owned(own.iter().chain(more).cloned().collect())
    }
}

fn is_free<T>(entry: &EntryAccess<'_, T>) -> bool {
    entry.required_scopes.is_empty() && entry.listing.visible_to.is_empty()
}

// Visibility functions of the folders of skills, which hold for everything in them.

/// Folders with the functions of their skills: for resources and what templates serve, registered now or later.
///
/// A folder is that of a [`ListedSkill`](super::skills::ListedSkill).
#[derive(Clone, Debug, Default)]
pub(super) struct FolderRules(Vec<FolderRule>);

#[derive(Clone)]
pub(super) struct FolderRule {
    folder: Box<str>,
    pub(super) skill: OwnedSubject,
    pub(super) rule: Rule,
}

impl fmt::Debug for FolderRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.folder.fmt(f)
    }
}

impl FolderRules {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a function of the skill with this URI and folder, once.
    pub(super) fn push(&mut self, folder: &str, uri: &str, rule: Rule) {
        let Some(skill) = OwnedSubject::new(Subject::Skill(uri)) else { return };
        if !self.0.iter().any(|known| &*known.folder == folder && Arc::ptr_eq(&known.rule, &rule)) {
            self.0.push(FolderRule { folder: folder.into(), skill, rule });
        }
    }

    pub(super) fn append(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }

    /// Returns the functions of all folders that contain the resource with this [`folder_key`].
    pub(super) fn of_key(&self, key: &str) -> impl Iterator<Item = &FolderRule> {
        self.0.iter().filter(move |rule| key.starts_with(&*rule.folder))
    }
}

// The folder of a resource, whatever the spelling of its URI.

/// Returns a URI as a file system would read its path: triplets are decoded, and there are no empty segments and no dot segments.
///
/// A template serves `x:/a/./b` and `x:/a%2Bb` with what it has at `x:/a/b` and `x:/a+b`, mostly. So what holds for a folder
/// holds for all of them, although they are different URIs. Only keys are compared, so the result need not be a URI.
pub(super) fn folder_key(uri: &str) -> String {
    let (scheme, rest) = uri.split_once(':').unwrap_or(("", uri));
    let decoded = decode(rest);
    let mut segments: Vec<&str> = Vec::new();
    for segment in decoded.split('/') {
        match segment {
            "" | "." => {}
            // Above the root there is nothing, as in a file system.
            ".." => _ = segments.pop(),
            other => segments.push(other),
        }
    }
    let mut key = scheme.to_owned();
    key.push(':');
    key.push_str(&segments.join("/"));
    if decoded.ends_with('/') && !segments.is_empty() {
        key.push('/');
    }
    key
}

/// Decodes all triplets; what is not UTF-8 then is replaced.
fn decode(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let [first, tail @ ..] = rest {
        let digits = tail.get(..2).filter(|_| *first == b'%');
        let value = digits.and_then(|digits| core::str::from_utf8(digits).ok());
        match value.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(value) => {
                bytes.push(value);
                rest = tail.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

// Scopes that all resources in a folder need, for skills.

/// Folders with the scopes that everything in them needs: resources and what templates serve, registered now or later.
///
/// A folder is that of a [`ListedSkill`](super::skills::ListedSkill).
#[derive(Clone, Debug, Default)]
pub(super) struct FolderScopes(Vec<(Box<str>, Box<str>)>);

impl FolderScopes {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn push(&mut self, folder: &str, scope: Box<str>) {
        self.0.push((folder.into(), scope));
    }

    pub(super) fn append(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }

    /// Returns the scopes of all folders that contain the resource with this comparison key.
    pub(super) fn required_for(&self, key: &str) -> impl Iterator<Item = &Box<str>> + use<'_> {
        let key = if self.is_empty() { String::new() } else { folder_key(key) };
        self.0.iter().filter(move |(folder, _)| key.starts_with(&**folder)).map(|(_, scope)| scope)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_file_are_in_one_folder() {
        for uri in [
            "x://a/b+c/d",
            "x://a/./b+c/d",
            "x://./a/b+c/d",
            "x:///a//b+c/d",
            "x://a/b%2Bc/d",
            "x://a/z/../b+c/d",
            "x://a/b%2bc%2Fd",
        ] {
            assert_eq!(folder_key(uri), "x:a/b+c/d", "{uri}");
        }
        assert_eq!((&*folder_key("x://a/"), &*folder_key("x:/"), &*folder_key("x")), ("x:a/", "x:", ":x"));
        assert_eq!(folder_key("x://a/%C3%A9/%zz%"), "x:a/é/%zz%");
    }
}
