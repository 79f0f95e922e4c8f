//! Client configuration: identity, capabilities, revisions, limits, known era.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use super::input_tasks::hosted::InputTasks;
use super::tasks::TaskPolling;
use crate::calls::endpoint::Settings;
use crate::calls::pings::KeepAlivePing;
use crate::change::{CustomList, CustomListError};
use crate::error::CallError;
use crate::identity::{ExtensionError, Implementation};
use crate::json::write_str;
use crate::limits::Limits;
use crate::listen_filter::CustomLists;
use crate::meta;
use crate::model::{ElicitUrlParams, InputRequest};
use crate::observe::Observer;
use crate::raw::RawJson;
use crate::rpc::RpcError;
use crate::sync::Arc;
use crate::version::{KnownEra, Version, VersionSet};

/// Reads an input request of a legacy server.
type ReadInput = fn(&Config, &str, Option<&RawJson>, Version) -> Result<Box<InputRequest<'static>>, RpcError>;
/// Reads the result that begins a round, with at most as many input requests as the number says.
type ReadRoundFn = for<'r> fn(&Config, &'r [u8], usize, Version) -> Result<ReadRound<'r>, CallError>;

/// An input request of a round, by the server's key.
pub(super) type NamedInput = (Box<str>, Box<InputRequest<'static>>);

/// Members of the result that begins a round.
#[derive(Debug, Default, PartialEq)]
pub(super) struct ReadRound<'r> {
    pub(super) inputs: Option<Vec<NamedInput>>,
    /// The text of `requestState`.
    pub(super) state: Option<&'r str>,
}

/// The functions that read input requests, which only a configuration with capabilities holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct InputSupport {
    pub(super) read: ReadInput,
    pub(super) read_round: ReadRoundFn,
    pub(super) read_pages: fn(&RpcError) -> Vec<ElicitUrlParams>,
}

/// The configuration of a client.
///
/// It is immutable; engines share it in an `Arc`.
///
/// ```
/// use mcp_proto::{VersionSet, client::Config};
/// let config = Config::new("my-app", "1.0.0").versions(VersionSet::ALL);
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    pub(crate) settings: Settings,
    pub(crate) known_era: Option<KnownEra>,
    pub(crate) send_info: bool,
    pub(crate) custom_methods: Vec<String>,
    pub(super) custom_lists: CustomLists,
    /// The code that reads input requests, if capabilities were declared.
    pub(super) inputs: Option<InputSupport>,
    /// The support of tasks, if calls may become tasks.
    pub(crate) tasks: Option<TaskPolling>,
    /// The support of tasks that the client hosts, if questions may run as tasks.
    pub(crate) input_tasks: Option<InputTasks>,
    /// Members of `_meta` in every modern request (META-009, META-010, META-011).
    pub(crate) request_meta: Vec<u8>,
}

impl Config {
    /// Creates the configuration of a client with all revisions of both eras and no capabilities.
    #[must_use]
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            settings: Settings::new(name, version),
            known_era: None,
            send_info: true,
            custom_methods: Vec::new(),
            custom_lists: CustomLists::new(),
            inputs: None,
            tasks: None,
            input_tasks: None,
            request_meta: Vec::new(),
        }
        .rebuild_request_meta()
    }

    /// Sets the identity.
    #[must_use]
    pub fn info(mut self, info: Implementation) -> Self {
        self.settings.set_info(info);
        self.rebuild_request_meta()
    }

    /// Sets whether modern requests carry the client's identity (META-011). The default is yes.
    #[must_use]
    pub fn send_client_info(mut self, send: bool) -> Self {
        self.send_info = send;
        self.rebuild_request_meta()
    }

    /// Also declares an extension, beside the [`capabilities`](Self::capabilities).
    ///
    /// # Errors
    ///
    /// [`ExtensionError`] if the name or the settings are not valid.
    pub fn extension(mut self, id: &str, settings: RawJson) -> Result<Self, ExtensionError> {
        let capabilities = Arc::make_mut(&mut self.settings.capabilities);
        *capabilities = core::mem::take(capabilities).extension(id, settings)?;
        Ok(self.rebuild_request_meta())
    }

    /// Restricts the revisions that are used. An empty set means all.
    #[must_use]
    pub fn versions(mut self, versions: VersionSet) -> Self {
        self.settings.set_versions(versions);
        self
    }

    /// Sets the era that an earlier connection found ([`Engine::known_era`](super::Engine::known_era)).
    #[must_use]
    pub fn known_era(mut self, era: impl Into<Option<KnownEra>>) -> Self {
        self.known_era = era.into();
        self
    }

    /// Returns the era that was set by [`known_era`](Self::known_era).
    #[must_use]
    pub const fn stored_era(&self) -> Option<KnownEra> {
        self.known_era
    }

    /// Sets the limits.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.settings.limits = Arc::new(limits);
        self
    }

    /// Accepts requests of legacy servers with this custom method. Other unknown methods are refused with -32601.
    #[must_use]
    pub fn custom_method(mut self, method: impl Into<String>) -> Self {
        self.custom_methods.push(method.into());
        self
    }

    /// Accepts requests of legacy servers with any method that the protocol does not define. For proxies and bridges.
    #[must_use]
    pub const fn any_custom_method(mut self) -> Self {
        self.settings.accepts_any_custom_method = true;
        self
    }

    /// Reads the notifications of a list of an extension as [changes](super::Event::Changed) of the subscriptions that ask for
    /// it ([`SubscriptionFilter::custom_list`](crate::model::SubscriptionFilter::custom_list)).
    ///
    /// # Errors
    ///
    /// [`CustomListError::Taken`] if the protocol or another registered list has one of its names,
    /// [`CustomListError::Full`] if five others are registered.
    pub fn custom_list(mut self, list: CustomList) -> Result<Self, CustomListError> {
        self.custom_lists.register(list)?;
        Ok(self)
    }

    /// Returns whether a method that no revision defines is accepted.
    pub(crate) fn accepts_custom_method(&self, method: &str) -> bool {
        self.custom_methods.iter().any(|m| m == method) || self.settings.accepts_as_custom_method(method)
    }

    /// Pings legacy servers that are silent, and ends the connection of one that does not answer (PING-004). The default is
    /// no pings.
    ///
    /// A ping is sent after `interval` without input, and has another `interval` for its answer. Any input counts as a
    /// sign of life, a late answer too. After more than `allowed_misses` pings in a row without one, the connection ends
    /// with [`Fault::PingTimeout`](crate::Fault): after `allowed_misses + 2` intervals of silence. Each earlier miss is
    /// reported as [`Diagnostic::PingMissed`](crate::Diagnostic). Intervals below one second act as one second. Pings
    /// use at most a quarter of [`Limits::max_pending_calls`]; one that finds no room is sent an interval later.
    /// Modern servers have no `ping` (PING-006).
    #[must_use]
    pub fn keep_alive_ping(mut self, interval: Duration, allowed_misses: u32) -> Self {
        self.settings.keep_alive = Some(KeepAlivePing::new(interval, allowed_misses));
        self
    }

    /// Sets an observer of requests, for traces and metrics. The default is none. Without the feature `observe` it is never
    /// called.
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.settings.observer = Some(observer);
        self
    }

    /// Returns the observer that was set.
    #[must_use]
    pub const fn active_observer(&self) -> Option<&Arc<dyn Observer>> {
        self.settings.observer.as_ref()
    }

    /// Follows these rules of drafts instead of the released ones. The default is none.
    #[must_use]
    pub const fn draft(mut self, draft: crate::draft::Draft) -> Self {
        self.settings.draft = draft;
        self
    }

    /// Sets whether a message whose id cannot be read is answered on a byte stream in a session up to 2025-06-18, too: by an error
    /// whose id is `null`, as in JSON-RPC (DEC-004). The default is no.
    ///
    /// The schemas of these revisions have no such error, and a server on the official Go SDK ends its session when it gets one.
    #[must_use]
    pub const fn null_id_errors(mut self, send: bool) -> Self {
        self.settings.sends_null_ids = send;
        self
    }

    /// Hides the values of this member from the [tap](crate::tap), at any depth.
    #[must_use]
    pub fn redact_in_tap(mut self, member: impl Into<String>) -> Self {
        self.settings.redacted_members.push(member.into());
        self
    }

    /// Returns the limits in force.
    #[must_use]
    pub fn effective_limits(&self) -> &Limits {
        &self.settings.limits
    }

    /// Returns the revisions that are used.
    #[must_use]
    pub const fn effective_versions(&self) -> VersionSet {
        self.settings.versions()
    }

    pub(crate) const fn modern_versions(&self) -> VersionSet {
        self.settings.modern_versions()
    }

    pub(crate) const fn legacy_versions(&self) -> VersionSet {
        self.settings.legacy_versions()
    }

    /// Returns the members of `_meta` for requests in `version`.
    pub(crate) fn request_meta(&self, version: Version) -> &[u8] {
        // One text is enough as long as there is one modern revision.
        debug_assert_eq!(version, Version::V2026_07_28);
        &self.request_meta
    }

    /// Rebuilds `request_meta`.
    pub(super) fn rebuild_request_meta(mut self) -> Self {
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
            self.settings.write_info(&mut out, version);
        }
        key(&mut out, meta::CLIENT_CAPABILITIES);
        self.settings.capabilities.write(&mut out, version);
        self.request_meta = out;
        self
    }
}
