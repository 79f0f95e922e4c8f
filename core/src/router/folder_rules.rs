//! Visibility functions of the folders of skills, which hold for everything in them.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use super::hooks::Subject;
use super::visibility::{OwnedSubject, Rule};
use crate::sync::Arc;

/// Folders with the functions of their skills: for resources and what templates serve, registered now or later.
///
/// A folder is that of a [`ListedSkill`](super::skill_catalog::ListedSkill).
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

    /// Returns the functions of all folders that contain the resource with this [`folder_key`](super::folder_key::folder_key).
    pub(super) fn of_key(&self, key: &str) -> impl Iterator<Item = &FolderRule> {
        self.0.iter().filter(move |rule| key.starts_with(&*rule.folder))
    }
}
