//! Scopes that all resources in a folder need, for skills.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use super::folder_key::folder_key;

/// Folders with the scopes that everything in them needs: resources and what templates serve, registered now or later.
///
/// A folder is that of a [`ListedSkill`](super::skill_catalog::ListedSkill).
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
