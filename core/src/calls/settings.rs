//! Settings that the configurations of both roles have.

use alloc::string::String;
use alloc::vec::Vec;

use super::keep_alive::KeepAlivePing;
use super::observing::ObserverSetting;
use crate::draft::Draft;
use crate::identity::{Capabilities, Implementation};
use crate::limits::Limits;
use crate::methods;
use crate::sync::Arc;
use crate::version::{Era, Version, VersionSet};

/// The part of a configuration that client and server share.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    info: Arc<Implementation>,
    /// Writes `info`. A program that sets no more than name and version has no serializer for the rest.
    write_info: fn(&Implementation, &mut Vec<u8>, Version),
    pub(crate) capabilities: Arc<Capabilities>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) keep_alive: Option<KeepAlivePing>,
    /// Names of members whose values the tap hides.
    pub(crate) redacted_members: Vec<String>,
    pub(crate) accepts_any_custom_method: bool,
    pub(crate) observer: Option<ObserverSetting>,
    pub(crate) draft: Draft,
    versions: VersionSet,
}

impl Settings {
    /// All revisions of both eras, no capabilities.
    pub(crate) fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            info: Arc::new(Implementation::new(name, version)),
            write_info: |info, out, _| info.write_name_and_version(out),
            capabilities: Arc::default(),
            limits: Arc::new(Limits::default()),
            keep_alive: None,
            redacted_members: Vec::new(),
            accepts_any_custom_method: false,
            observer: None,
            draft: Draft::default(),
            versions: VersionSet::ALL,
        }
    }

    /// Sets the identity, without icons that must not be sent.
    pub(crate) fn set_info(&mut self, info: Implementation) {
        self.info = Arc::new(info.without_forbidden_icons());
        self.write_info = Implementation::write;
    }

    /// Appends the identity in the form of a revision.
    pub(crate) fn write_info(&self, out: &mut Vec<u8>, version: Version) {
        (self.write_info)(&self.info, out, version);
    }

    /// Restricts the revisions. An empty set means all.
    pub(crate) const fn set_versions(&mut self, versions: VersionSet) {
        self.versions = if versions.is_empty() { VersionSet::ALL } else { versions };
    }

    pub(crate) const fn versions(&self) -> VersionSet {
        self.versions
    }

    pub(crate) const fn modern_versions(&self) -> VersionSet {
        self.versions.era(Era::Modern)
    }

    pub(crate) const fn legacy_versions(&self) -> VersionSet {
        self.versions.era(Era::Legacy)
    }

    /// Returns whether a method is accepted because all custom methods are.
    pub(crate) fn accepts_as_custom_method(&self, method: &str) -> bool {
        self.accepts_any_custom_method && methods::request_rule(method).is_none()
    }
}
