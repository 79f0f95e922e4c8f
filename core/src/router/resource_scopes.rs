//! The scopes that resources need, apart from their router: for subscriptions, which the engine answers.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::folder_scopes::FolderScopes;
use super::hooks::Hook;
use super::registry::Router;
use super::template::{
    MAX_URI, PrefixIndex, Template, TemplateMismatch, VariablePolicy, lower_host, normalize,
};

/// The scopes that the resources and resource templates of a [`Router`] need.
///
/// It is a copy: see [`Router::resource_scopes`].
#[derive(Clone, Debug, Default)]
pub struct ResourceScopes {
    resources: BTreeMap<Box<str>, EntryScopes>,
    templates: BTreeMap<u64, (Template, VariablePolicy, EntryScopes)>,
    prefixes: PrefixIndex,
    folders: FolderScopes,
}

#[derive(Clone, Debug)]
struct EntryScopes {
    scopes: Vec<Box<str>>,
    is_enabled: bool,
}

impl ResourceScopes {
    /// Returns the scopes that a token needs to read the resource with this URI, or to subscribe to it.
    ///
    /// They are those of the entry that a read finds, and of disabled entries before it, which it would find if they were
    /// enabled: a subscription outlasts that. Scopes of a skill are those of every URI in its folder.
    #[must_use]
    pub fn required_for(&self, uri: &str) -> Vec<Box<str>> {
        let mut scopes = Vec::new();
        // Without scopes nothing is kept.
        if self.resources.is_empty() && self.templates.is_empty() && self.folders.is_empty() {
            return scopes;
        }
        let Ok(normal) = normalize(uri, MAX_URI) else { return scopes };
        let key = lower_host(Cow::Borrowed(&*normal));
        scopes.extend(self.folders.required_for(&key).cloned());
        let resource = self.resources.get(&*key);
        let templates = self.prefixes.find(&normal).into_iter().filter_map(|number| {
            let (template, policy, entry) = self.templates.get(&number)?;
            let is_other =
                matches!(template.match_normalized(&normal, *policy), Err(TemplateMismatch::Different));
            (!is_other).then_some(entry)
        });
        for entry in resource.into_iter().chain(templates) {
            scopes.extend_from_slice(&entry.scopes);
            if entry.is_enabled {
                break;
            }
        }
        scopes
    }
}

impl<H, M: Hook> Router<H, M> {
    /// Returns the scopes that resources and resource templates need now ([`require_scope`](Self::require_scope)).
    ///
    /// [`config`](Self::config) takes those of the moment. If entries change while a server runs, give the engine a
    /// function that looks them up in a copy which is replaced
    /// ([`Config::subscription_scopes`](crate::server::Config::subscription_scopes)); routers of the adapters do so.
    #[must_use]
    pub fn resource_scopes(&self) -> ResourceScopes {
        let folders = self.skills.as_ref().map(|skills| skills.folder_scopes.clone()).unwrap_or_default();
        let needs_none = |(_, _, scopes, _): (&str, u64, &[Box<str>], bool)| scopes.is_empty();
        if self.resources.required_scopes().all(needs_none)
            && self.templates.required_scopes().all(needs_none)
        {
            return ResourceScopes { folders, ..ResourceScopes::default() };
        }
        let resources = self.resources.required_scopes();
        let entry = |scopes: &[Box<str>], is_enabled| EntryScopes { scopes: scopes.into(), is_enabled };
        let templates = self.templates.required_scopes().filter_map(|(name, number, scopes, enabled)| {
            let family = self.templates.extra(name)?;
            Some((number, (family.template.clone(), family.policy, entry(scopes, enabled))))
        });
        ResourceScopes {
            resources: resources.map(|(key, _, all, enabled)| (key.into(), entry(all, enabled))).collect(),
            templates: templates.collect(),
            prefixes: self.prefixes.clone(),
            folders,
        }
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
