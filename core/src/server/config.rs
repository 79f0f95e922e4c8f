//! What a server is: identity, capabilities, revisions, limits. Shared by every engine of a process.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::identity::{Capabilities, Implementation};
use crate::json::write_str;
use crate::limits::Limits;
use crate::meta;
use crate::version::{Era, Version, VersionSet};
use crate::vocab;

/// The configuration of a server
///
/// Immutable and shared: engines keep an `Arc` of it.
///
/// ```
/// use mcp_proto::{Capabilities, Capability, VersionSet, server::Config};
/// let config = Config::new("clock", "1.0.0")
///     .capabilities(Capabilities::new().with(Capability::Tools))
///     .instructions("All times are UTC.")
///     .versions(VersionSet::ALL);
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    pub(crate) info: Arc<Implementation>,
    pub(crate) capabilities: Arc<Capabilities>,
    pub(crate) instructions: Option<String>,
    pub(crate) versions: VersionSet,
    pub(crate) list_legacy: bool,
    pub(crate) limits: Arc<Limits>,
    pub(crate) custom: Vec<String>,
    pub(crate) any_custom: bool,
    pub(crate) hidden: Vec<String>,
    /// What seals the state of calls that need input
    #[cfg(feature = "crypto")]
    pub(super) keys: Option<Arc<dyn super::sealing::Sealing>>,
    /// What they are made of when they are needed first
    #[cfg(feature = "crypto")]
    pub(super) seed: Option<super::sealing::Seed>,
    /// Which instant is which time of day
    #[cfg(feature = "crypto")]
    pub(crate) anchor: crate::time::Anchor,
    /// `"resultType":"complete","_meta":{…}`: what every modern result ends with
    pub(crate) stamp: Vec<u8>,
    /// The members of that `_meta`
    pub(crate) stamp_meta: Vec<u8>,
}

impl Config {
    /// A server that is called `name`, in `version`, speaks every revision of both eras, and has no tools yet
    #[must_use]
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self::of(Implementation::new(name, version))
    }

    fn of(info: Implementation) -> Self {
        Self {
            info: Arc::new(info),
            capabilities: Arc::default(),
            instructions: None,
            versions: VersionSet::ALL,
            list_legacy: false,
            limits: Arc::new(Limits::default()),
            custom: Vec::new(),
            any_custom: false,
            hidden: Vec::new(),
            #[cfg(feature = "crypto")]
            keys: None,
            #[cfg(feature = "crypto")]
            seed: None,
            #[cfg(feature = "crypto")]
            anchor: crate::time::Anchor::default(),
            stamp: Vec::new(),
            stamp_meta: Vec::new(),
        }
        .stamped(true)
    }

    /// Replaces the identity (META-018)
    #[must_use]
    pub fn info(mut self, info: Implementation) -> Self {
        self.info = Arc::new(info.checked());
        let send = !self.stamp_meta.is_empty();
        self.stamped(send)
    }

    /// Whether modern results carry the server's identity (default yes; META-018)
    #[must_use]
    pub fn send_server_info(self, send: bool) -> Self {
        self.stamped(send)
    }

    /// Declares what the server can do; requests for anything else are refused before the application sees them
    /// (ERR-002, LIFE-023)
    #[must_use]
    pub fn capabilities(mut self, capabilities: Capabilities) -> Self {
        self.capabilities = Arc::new(capabilities);
        self
    }

    /// Tells clients how to use the server, in plain language
    #[must_use]
    pub fn instructions(mut self, instructions: impl Into<String>) -> Self {
        self.instructions = Some(instructions.into());
        self
    }

    /// Pins the revisions that are served; an empty set counts as all
    #[must_use]
    pub fn versions(mut self, versions: VersionSet) -> Self {
        self.versions = if versions.is_empty() { VersionSet::ALL } else { versions };
        self
    }

    /// Whether a dual-era server names its legacy revisions to modern clients too (default no; DEC-005)
    #[must_use]
    pub const fn list_legacy(mut self, list: bool) -> Self {
        self.list_legacy = list;
        self
    }

    /// Sets the bounds
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = Arc::new(limits);
        self
    }

    /// Seals the state of calls that [need input](super::Engine::need_input) (MRTR-021, MRTR-023)
    ///
    /// `anchor` says what time of day it is, since a state outlives the process when `keys` do. Without keys modern
    /// clients can be asked once per call, and nothing can be kept.
    #[cfg(feature = "crypto")]
    #[must_use]
    pub fn seal(mut self, keys: crate::seal::Keys, anchor: crate::time::Anchor) -> Self {
        self.keys = Some(Arc::new(keys));
        self.anchor = anchor;
        self
    }

    /// As [`seal`](Self::seal), unless keys were given before: for adapters that make one up for a process
    #[cfg(feature = "crypto")]
    #[must_use]
    pub fn seal_by_default(
        self,
        make: impl FnOnce() -> Option<(crate::seal::Keys, crate::time::Anchor)>,
    ) -> Self {
        if self.keys.is_some() {
            return self;
        }
        match make() {
            Some((keys, anchor)) => self.seal(keys, anchor),
            None => self,
        }
    }

    /// As [`seal_by_default`](Self::seal_by_default), for a configuration that only one engine uses: the keys are made of
    /// 32 bytes from a cryptographic source, when something is sealed first
    ///
    /// Before that nothing opens. A program that never seals is linked without the code for it.
    #[cfg(feature = "crypto")]
    #[must_use]
    pub fn seal_when_asked(mut self, make: impl FnOnce() -> Option<([u8; 32], crate::time::Anchor)>) -> Self {
        if self.keys.is_none() {
            if let Some((seed, anchor)) = make() {
                self.seed = Some(super::sealing::Seed(seed));
                self.anchor = anchor;
            }
        }
        self
    }

    /// Accepts requests with a method of your own; other unknown methods are refused with -32601
    #[must_use]
    pub fn custom_method(mut self, method: impl Into<String>) -> Self {
        self.custom.push(method.into());
        self
    }

    /// Accepts requests with any method that the protocol does not have: for bridges, and servers that answer for others
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

    fn stamped(mut self, send: bool) -> Self {
        let mut stamp_meta = Vec::new();
        if send {
            write_str(&mut stamp_meta, meta::SERVER_INFO);
            stamp_meta.push(b':');
            self.info.write(&mut stamp_meta, Version::V2026_07_28);
        }
        self.stamp = b"\"resultType\":\"complete\"".to_vec();
        if send {
            self.stamp.extend_from_slice(b",\"_meta\":{");
            self.stamp.extend_from_slice(&stamp_meta);
            self.stamp.push(b'}');
        }
        self.stamp_meta = stamp_meta;
        self
    }

    pub(crate) const fn modern(&self) -> VersionSet {
        self.versions.era(Era::Modern)
    }

    pub(crate) const fn legacy(&self) -> VersionSet {
        self.versions.era(Era::Legacy)
    }

    /// The revisions that are named to modern clients, the same in every list (DEC-005)
    pub(crate) const fn listed(&self) -> VersionSet {
        if self.list_legacy || self.modern().is_empty() { self.versions } else { self.modern() }
    }
}
