//! What a client is: identity, capabilities, revisions, limits, and what it remembers of a server.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::identity::{Capabilities, Implementation};
use crate::json::write_str;
use crate::limits::Limits;
use crate::meta;
use crate::version::{Era, Verdict, Version, VersionSet};
use crate::vocab;

/// The configuration of a client
///
/// Immutable and shared: engines keep an `Arc` of it.
///
/// ```
/// use mcp_proto::{VersionSet, client::Config};
/// let config = Config::new("my-app", "1.0.0").versions(VersionSet::ALL);
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    pub(crate) info: Arc<Implementation>,
    pub(crate) capabilities: Arc<Capabilities>,
    pub(crate) versions: VersionSet,
    pub(crate) verdict: Option<Verdict>,
    pub(crate) send_info: bool,
    pub(crate) limits: Arc<Limits>,
    pub(crate) custom: Vec<String>,
    pub(crate) any_custom: bool,
    pub(crate) hidden: Vec<String>,
    /// The `_meta` members that every modern request carries (META-009, META-010, META-011)
    pub(crate) stamp: Vec<u8>,
}

impl Config {
    /// A client that is called `name`, in `version`, and speaks every revision of both eras
    #[must_use]
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self::of(Implementation::new(name, version))
    }

    fn of(info: Implementation) -> Self {
        Self {
            info: Arc::new(info),
            capabilities: Arc::default(),
            versions: VersionSet::ALL,
            verdict: None,
            send_info: true,
            limits: Arc::new(Limits::default()),
            custom: Vec::new(),
            any_custom: false,
            hidden: Vec::new(),
            stamp: Vec::new(),
        }
        .stamped()
    }

    /// Replaces the identity
    #[must_use]
    pub fn info(mut self, info: Implementation) -> Self {
        self.info = Arc::new(info.checked());
        self.stamped()
    }

    /// Whether modern requests carry the client's identity (default yes; META-011)
    #[must_use]
    pub fn send_client_info(mut self, send: bool) -> Self {
        self.send_info = send;
        self.stamped()
    }

    /// Declares what the client can do for servers; requests for anything else are refused before the application
    /// sees them (LIFE-012, ERR-021)
    #[must_use]
    pub fn capabilities(mut self, capabilities: Capabilities) -> Self {
        self.capabilities = Arc::new(capabilities);
        self.stamped()
    }

    /// Pins the revisions that are spoken; an empty set counts as all
    #[must_use]
    pub fn versions(mut self, versions: VersionSet) -> Self {
        self.versions = if versions.is_empty() { VersionSet::ALL } else { versions };
        self
    }

    /// Starts from what an earlier connection found out ([`Engine::verdict`](super::Engine::verdict))
    #[must_use]
    pub fn verdict(mut self, verdict: impl Into<Option<Verdict>>) -> Self {
        self.verdict = verdict.into();
        self
    }

    /// Sets the bounds
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = Arc::new(limits);
        self
    }

    /// Accepts requests of legacy servers with a method of your own; other unknown ones are refused with -32601
    #[must_use]
    pub fn custom_method(mut self, method: impl Into<String>) -> Self {
        self.custom.push(method.into());
        self
    }

    /// Accepts requests of legacy servers with any method that the protocol does not have: for bridges
    #[must_use]
    pub const fn any_custom_method(mut self) -> Self {
        self.any_custom = true;
        self
    }

    /// Whether a method that no revision has is accepted
    pub(crate) fn accepts_custom(&self, method: &str) -> bool {
        self.custom.iter().any(|m| m == method) || (self.any_custom && vocab::request(method).is_none())
    }

    /// Members whose values the [tap](crate::tap) replaces, at any depth
    #[must_use]
    pub fn hide_in_tap(mut self, member: impl Into<String>) -> Self {
        self.hidden.push(member.into());
        self
    }

    /// The bounds in force
    #[must_use]
    pub fn get_limits(&self) -> &Limits {
        &self.limits
    }

    /// The revisions in use
    #[must_use]
    pub const fn get_versions(&self) -> VersionSet {
        self.versions
    }

    pub(crate) const fn modern(&self) -> VersionSet {
        self.versions.era(Era::Modern)
    }

    pub(crate) const fn legacy(&self) -> VersionSet {
        self.versions.era(Era::Legacy)
    }

    /// The `_meta` members of requests in `version`
    pub(crate) fn stamp(&self, version: Version) -> &[u8] {
        // One text serves as long as there is one modern revision.
        debug_assert_eq!(version, Version::V2026_07_28);
        &self.stamp
    }

    /// Writes the stamp anew; there is one modern revision, so one will do
    fn stamped(mut self) -> Self {
        let version = Version::V2026_07_28;
        let mut out = Vec::new();
        let key = |out: &mut Vec<u8>, name: &str| {
            if !out.is_empty() {
                out.push(b',');
            }
            write_str(out, name);
            out.push(b':');
        };
        key(&mut out, meta::PROTOCOL_VERSION);
        write_str(&mut out, version.as_str());
        if self.send_info {
            key(&mut out, meta::CLIENT_INFO);
            self.info.write(&mut out, version);
        }
        key(&mut out, meta::CLIENT_CAPABILITIES);
        self.capabilities.write(&mut out, version);
        self.stamp = out;
        self
    }
}
