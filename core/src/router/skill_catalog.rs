//! The skills of a router as data, and the results about them.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use serde::ser::{Serialize, SerializeMap, Serializer};

use super::entries::Entries;
use super::folder_rules::FolderRules;
use super::folder_scopes::FolderScopes;
use super::hooks::Subject;
use super::pending::Listed;
use super::template::{MAX_URI, comparison_key};
use crate::raw::RawJson;
use crate::rpc::RpcError;
use crate::server::Call;

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
    /// Its folder, as a [`folder_key`](super::folder_key::folder_key) with a slash at its end.
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

    /// Shows or hides a skill; returns whether this changed it, or `None` if there is no such skill.
    pub(super) fn enable(&mut self, uri: &str, enabled: bool) -> Option<bool> {
        let key = comparison_key(uri, MAX_URI).unwrap_or_default();
        self.entries.enable(&key, enabled)
    }
}
