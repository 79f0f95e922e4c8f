//! Server configuration: identity, capabilities, revisions, limits.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use super::audience::Audience;
use super::authorization::Caller;
use super::custom_method::CustomMethod;
use crate::built::Subscribing;
use crate::calls::endpoint::Settings;
use crate::calls::pings::KeepAlivePing;
use crate::change::{Change, CustomList, CustomListError};
use crate::identity::{Capabilities, Implementation};
use crate::json::write_str;
use crate::limits::Limits;
use crate::listen_filter::CustomLists;
use crate::memory::MemoryAccount;
use crate::meta;
use crate::methods::Capability;
use crate::observe::Observer;
use crate::raw::RawJson;
use crate::rpc::RpcError;
use crate::sync::{Arc, share};
use crate::version::{Version, VersionSet};

/// Returns the scopes that the token of a subscription to a resource needs.
type FindScopes = dyn Fn(&Caller, &str) -> Vec<Box<str>> + Send + Sync;
/// Returns the callers who see a resource or a tool.
type FindAudience = dyn Fn(&str) -> Audience + Send + Sync;

/// Finds the scopes that the token of a subscription to a resource needs.
#[derive(Clone)]
pub(super) struct SubscriptionScopes(Arc<FindScopes>);

impl fmt::Debug for SubscriptionScopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SubscriptionScopes").finish_non_exhaustive()
    }
}

/// Finds the callers who see a resource or a tool.
#[derive(Clone)]
struct EntryAudience(Arc<FindAudience>);

impl fmt::Debug for EntryAudience {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EntryAudience").finish_non_exhaustive()
    }
}

/// The configuration of a server.
///
/// It is immutable; engines share it in an `Arc`.
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
    pub(crate) settings: Settings,
    pub(crate) instructions: Option<String>,
    pub(crate) advertise_legacy: bool,
    pub(super) custom_methods: Vec<CustomMethod>,
    pub(super) custom_lists: CustomLists,
    pub(super) subscription_scopes: Option<SubscriptionScopes>,
    resource_audience: Option<EntryAudience>,
    tool_audience: Option<EntryAudience>,
    /// Seals the state of calls that need input.
    pub(super) sealer: Option<Arc<dyn super::sealer::StateSealer>>,
    /// Seed of the sealing keys, which are derived when they are first needed.
    pub(super) seed: Option<super::sealer::KeySeed>,
    /// Maps instants to Unix time, for the expiry of sealed state.
    pub(crate) anchor: crate::time::Anchor,
    /// `"resultType":"complete","_meta":{…}`, the end of every modern result.
    pub(crate) result_suffix: Vec<u8>,
    /// The members of that `_meta`.
    pub(crate) result_meta: Vec<u8>,
}

impl Config {
    /// Creates the configuration of a server with all revisions of both eras and no capabilities.
    #[must_use]
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        let mut settings = Settings::new(name, version);
        settings.memory = MemoryAccount::new(Limits::DEFAULT_MAX_MEMORY, false);
        Self {
            settings,
            instructions: None,
            advertise_legacy: true,
            custom_methods: Vec::new(),
            custom_lists: CustomLists::new(),
            subscription_scopes: None,
            resource_audience: None,
            tool_audience: None,
            sealer: None,
            seed: None,
            anchor: crate::time::Anchor::default(),
            result_suffix: Vec::new(),
            result_meta: Vec::new(),
        }
        .rebuild_result_suffix(true)
    }

    /// Sets the identity (META-018).
    #[must_use]
    pub fn info(mut self, info: Implementation) -> Self {
        self.settings.set_info(info);
        // As it was set before: `result_meta` has the identity alone.
        let send = !self.result_meta.is_empty();
        self.rebuild_result_suffix(send)
    }

    /// Sets whether modern results carry the server's identity (META-018). The default is yes.
    #[must_use]
    pub fn send_server_info(self, send: bool) -> Self {
        self.rebuild_result_suffix(send)
    }

    /// Declares the capabilities (ERR-002, LIFE-023).
    ///
    /// Requests that need others are refused before the application sees them. Without the feature `subscriptions`, those
    /// of changes are not declared.
    #[must_use]
    pub fn capabilities(mut self, mut capabilities: Capabilities) -> Self {
        if !Subscribing::IS_BUILT {
            capabilities = [
                Capability::ToolsListChanged,
                Capability::PromptsListChanged,
                Capability::ResourcesListChanged,
                Capability::ResourceSubscriptions,
            ]
            .into_iter()
            .fold(capabilities, Capabilities::without);
        }
        self.settings.capabilities = Arc::new(capabilities);
        self
    }

    /// Returns the capabilities that were declared, for what adds its own to them.
    #[must_use]
    pub fn effective_capabilities(&self) -> &Capabilities {
        &self.settings.capabilities
    }

    /// Sets the instructions for clients, in plain language.
    #[must_use]
    pub fn instructions(mut self, instructions: impl Into<String>) -> Self {
        self.instructions = Some(instructions.into());
        self
    }

    /// Restricts the revisions that are served. An empty set means all.
    #[must_use]
    pub fn versions(mut self, versions: VersionSet) -> Self {
        self.settings.set_versions(versions);
        self
    }

    /// Sets whether modern clients see the legacy revisions of a dual-era server (DEC-005). The default is yes.
    #[must_use]
    pub const fn advertise_legacy(mut self, list: bool) -> Self {
        self.advertise_legacy = list;
        self
    }

    /// Sets the limits.
    ///
    /// An account of [`Limits::max_memory`](crate::Limits::max_memory) begins with them: later clones share it, and those that
    /// were made before do not.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        let max = limits.max_memory.unwrap_or(Limits::DEFAULT_MAX_MEMORY);
        self.settings.memory = MemoryAccount::new(max, limits.memory_reserve > 0);
        self.settings.limits = Arc::new(limits);
        self
    }

    /// Sets the bytes of [`Limits::max_memory`](crate::Limits::max_memory), unless the limits name them. For adapters that know the
    /// machine. It holds for all clones of the configuration. [`limits`](Self::limits) is called before, or forgets it.
    #[must_use]
    pub fn max_memory_by_default(self, bytes: usize) -> Self {
        if self.settings.limits.max_memory.is_none() {
            self.settings.memory.set_max(bytes);
        }
        self
    }

    /// Returns the bytes that all engines of this configuration, and of its clones, hold for their peers
    /// ([`Limits::max_memory`](crate::Limits::max_memory)).
    #[must_use]
    pub fn memory_in_use(&self) -> usize {
        self.settings.memory.used()
    }

    /// Sets the keys that seal the state of calls that [need input](super::Engine::need_input) (MRTR-021, MRTR-023).
    ///
    /// `anchor` gives the time of day, because sealed state outlives the process when `keys` do. Without keys, a call
    /// of a modern client can ask for input once and keeps no state.
    #[must_use]
    pub fn seal(mut self, keys: crate::seal::Keys, anchor: crate::time::Anchor) -> Self {
        self.sealer = Some(share!(keys, dyn super::sealer::StateSealer));
        self.anchor = anchor;
        self
    }

    /// Like [`seal`](Self::seal), unless keys are set already. For adapters that create keys for one process.
    #[must_use]
    pub fn seal_by_default(
        self,
        make: impl FnOnce() -> Option<(crate::seal::Keys, crate::time::Anchor)>,
    ) -> Self {
        if self.sealer.is_some() {
            return self;
        }
        match make() {
            Some((keys, anchor)) => self.seal(keys, anchor),
            None => self,
        }
    }

    /// Like [`seal_by_default`](Self::seal_by_default), for a configuration that a single engine uses.
    ///
    /// The keys are derived from 32 bytes of a cryptographic source when state is first sealed. Sealed state that
    /// arrives before is refused. A program that never seals is linked without the code for it.
    #[must_use]
    pub fn seal_lazily(mut self, make: impl FnOnce() -> Option<([u8; 32], crate::time::Anchor)>) -> Self {
        if self.sealer.is_none() {
            if let Some((seed, anchor)) = make() {
                self.seed = Some(super::sealer::KeySeed(seed));
                self.anchor = anchor;
            }
        }
        self
    }

    /// Accepts requests with this custom method. Other unknown methods are refused with -32601.
    ///
    /// A [`CustomMethod`] may belong to an extension, which gates it.
    #[must_use]
    pub fn custom_method(mut self, method: impl Into<CustomMethod>) -> Self {
        self.custom_methods.push(method.into());
        self
    }

    /// Honours a list of an extension in the filter of `subscriptions/listen`, and lets
    /// [`publish`](super::Engine::publish) announce its changes.
    ///
    /// Register it only if the extension is declared and promises changes of the list. A list that is not registered is
    /// absent from the acknowledgment (SUB-006).
    ///
    /// # Errors
    ///
    /// [`CustomListError::Taken`] if the protocol or another registered list has one of its names,
    /// [`CustomListError::Full`] if five others are registered.
    pub fn custom_list(mut self, list: CustomList) -> Result<Self, CustomListError> {
        self.custom_lists.register(list)?;
        Ok(self)
    }

    /// Sets which scopes the token of a subscription to a resource needs: `scopes` returns them for its caller
    /// and URI (AUTH-054).
    ///
    /// A subscription without them is refused as a call is ([`Call::require_scopes`](super::Call::require_scopes)), and
    /// so is one to several resources if one of them needs others. By default it needs none. Without authorization there
    /// is nothing to check.
    #[must_use]
    pub fn subscription_scopes(
        mut self,
        scopes: impl Fn(&Caller, &str) -> Vec<Box<str>> + Send + Sync + 'static,
    ) -> Self {
        self.subscription_scopes = Some(SubscriptionScopes(share!(scopes, FindScopes)));
        self
    }

    /// Sets who gets to know of changes of a resource: `audience` returns it for its URI.
    ///
    /// It is asked once for each [`Change::Resource`] that is published, and applies besides the audience of the
    /// announcement. By default it is everyone who subscribed. A subscription of another caller is accepted, as one to a
    /// resource that does not exist, and gets no notifications while the caller is not in the audience.
    #[must_use]
    pub fn resource_audience(mut self, audience: impl Fn(&str) -> Audience + Send + Sync + 'static) -> Self {
        self.resource_audience = Some(EntryAudience(share!(audience, FindAudience)));
        self
    }

    /// Sets who sees a tool: `audience` returns it for its name.
    ///
    /// It is asked if the header fields of a call do not fit the schema of the tool (HTTP-029). For a caller who is not in the
    /// audience the call is delivered, so that the application answers as for an unknown tool. By default it is everyone.
    #[must_use]
    pub fn tool_audience(mut self, audience: impl Fn(&str) -> Audience + Send + Sync + 'static) -> Self {
        self.tool_audience = Some(EntryAudience(share!(audience, FindAudience)));
        self
    }

    /// Returns whether a caller must not know that there is a tool with this name.
    pub(super) fn hides_tool(&self, name: &str, caller: impl FnOnce() -> Caller) -> bool {
        let Some(audience) = self.tool_audience.as_ref().map(|audience| (audience.0)(name)) else {
            return false;
        };
        !audience.is_everyone() && !audience.includes(&caller())
    }

    /// Returns who gets to know of a change because of its resource.
    pub(super) fn audience_of(&self, change: &Change) -> Audience {
        match (change, &self.resource_audience) {
            (Change::Resource(uri), Some(audience)) => (audience.0)(uri),
            _ => Audience::EVERYONE,
        }
    }

    /// Checks that a caller may subscribe to these resources.
    ///
    /// # Errors
    ///
    /// The error response to send, which names the scopes that all of them need.
    pub(super) fn check_subscription<'u>(
        &self,
        caller: &Caller,
        uris: impl Iterator<Item = &'u str>,
    ) -> Result<(), RpcError> {
        let (Some(party), Some(scopes)) = (caller.authorization(), &self.subscription_scopes) else {
            return Ok(());
        };
        let mut needed = Vec::new();
        for uri in uris {
            needed.extend((scopes.0)(caller, uri));
        }
        party.require(&needed)
    }

    /// Accepts requests with any method that the protocol does not define. For proxies and bridges.
    #[must_use]
    pub const fn any_custom_method(mut self) -> Self {
        self.settings.accepts_any_custom_method = true;
        self
    }

    /// Checks whether a method that no revision defines is accepted in `version`. Returns whether its calls are long-lived.
    ///
    /// `client` returns the capability object of the client.
    ///
    /// # Errors
    ///
    /// The error response to send.
    pub(super) fn check_custom_method(
        &self,
        method: &str,
        version: Version,
        client: impl FnOnce() -> Option<RawJson>,
    ) -> Result<bool, RpcError> {
        match self.custom_methods.iter().find(|custom| custom.name() == method) {
            Some(custom) => {
                custom.check(version, &self.settings.capabilities, client)?;
                Ok(custom.is_long_lived())
            }
            None if self.settings.accepts_as_custom_method(method) => Ok(false),
            None => Err(RpcError::method_not_found(method)),
        }
    }

    /// Returns whether calls of a method stay open for the messages that precede their answer.
    #[cfg(feature = "http")]
    pub(crate) fn is_long_lived_method(&self, method: &str) -> bool {
        let mut custom = self.custom_methods.iter();
        method == crate::methods::SUBSCRIPTIONS_LISTEN
            || custom.any(|m| m.name() == method && m.is_long_lived())
    }

    /// Pings legacy clients that are silent, and ends the session of one that does not answer (PING-004). The default is
    /// no pings.
    ///
    /// A ping is sent after `interval` without input, and has another `interval` for its answer. Any input counts as a
    /// sign of life, a late answer too. After more than `allowed_misses` pings in a row without one, the session ends
    /// with [`Fault::PingTimeout`](crate::Fault): after `allowed_misses + 2` intervals of silence. Each earlier miss is
    /// reported as [`Diagnostic::PingMissed`](crate::Diagnostic). Intervals below one second act as one second. Pings
    /// use at most a quarter of [`Limits::max_pending_calls`]; one that finds no room is sent an interval later.
    /// Over HTTP only a session with an open GET stream is pinged. Modern clients take no requests (PING-006).
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

    /// Follows these rules of drafts instead of the released ones. The default is none.
    #[must_use]
    pub const fn draft(mut self, draft: crate::draft::Draft) -> Self {
        self.settings.draft = draft;
        self
    }

    /// Sets whether a message whose id cannot be read is answered on a byte stream in a session up to 2025-06-18, too: by an error
    /// whose id is `null`, as in JSON-RPC (DEC-004). The default is no.
    ///
    /// The schemas of these revisions have no such error, and a client on the official Go SDK ends its session when it gets one.
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

    /// Returns whether a message belongs to the modern era here (DEC-029).
    pub(crate) fn is_modern_message(&self, envelope: &crate::rpc::envelope::Envelope<'_>) -> bool {
        let meta = &envelope.params.meta;
        // A reserved key without a version counts, too: such a request is modern, and incomplete.
        let is_named = !meta.version.is_empty() || meta.has_reserved;
        self.legacy_versions().is_empty() || is_named && !self.modern_versions().is_empty()
    }

    /// Returns the revisions that are served.
    #[must_use]
    pub const fn effective_versions(&self) -> VersionSet {
        self.settings.versions()
    }

    fn rebuild_result_suffix(mut self, send: bool) -> Self {
        let mut stamp_meta = Vec::new();
        if send {
            write_str(&mut stamp_meta, meta::SERVER_INFO);
            stamp_meta.push(b':');
            self.settings.write_info(&mut stamp_meta, Version::V2026_07_28);
        }
        self.result_suffix = b"\"resultType\":\"complete\"".to_vec();
        if send {
            self.result_suffix.extend_from_slice(b",\"_meta\":{");
            self.result_suffix.extend_from_slice(&stamp_meta);
            self.result_suffix.push(b'}');
        }
        self.result_meta = stamp_meta;
        self
    }

    pub(crate) const fn modern_versions(&self) -> VersionSet {
        self.settings.modern_versions()
    }

    pub(crate) const fn legacy_versions(&self) -> VersionSet {
        self.settings.legacy_versions()
    }

    /// Returns the revisions that modern clients see, the same in every list (DEC-005).
    pub(crate) const fn advertised_versions(&self) -> VersionSet {
        // Without modern revisions there is nothing else to list.
        if self.advertise_legacy || self.modern_versions().is_empty() {
            self.settings.versions()
        } else {
            self.modern_versions()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configuration_is_printed_without_functions_and_secrets() {
        let config = Config::new("s", "1")
            .subscription_scopes(|_, _| Vec::new())
            .resource_audience(|_| Audience::NOBODY)
            .seal_lazily(|| Some(([77; 32], <_>::default())));
        let text = alloc::format!("{config:?}");
        for part in ["SubscriptionScopes { .. }", "EntryAudience { .. }", "seed: Some(Seed)"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("77, 77"));
    }

    // Processes that share their keys open what another one has sealed.
    #[test]
    fn keys_and_bounds_of_the_program_stay_as_they_are() {
        let config = Config::new("s", "1").seal(crate::seal::Keys::new([1; 32]), <_>::default());
        let config = config.seal_by_default(|| panic!("there are keys"));
        let config = config.seal_lazily(|| panic!("there are keys"));
        assert!(config.sealer.is_some() && config.seed.is_none());
        let limits = |max_memory| Limits { max_memory, ..Limits::default() };
        for (named, taken) in [(Some(100 << 20), true), (None, false)] {
            let config = Config::new("s", "1").limits(limits(named)).max_memory_by_default(1 << 20);
            assert_eq!(config.settings.memory.takes_new(2 << 20), taken, "{named:?}");
        }
    }

    #[test]
    fn declared_capabilities_are_returned() {
        let capabilities = Capabilities::new().with(Capability::Tools);
        assert_eq!(
            Config::new("s", "1").capabilities(capabilities.clone()).effective_capabilities(),
            &capabilities
        );
    }

    #[test]
    fn custom_methods_are_those_that_are_named_or_any_that_the_protocol_does_not_have() {
        let check = |config: &Config, method| {
            config.check_custom_method(method, Version::V2026_07_28, || None).is_ok()
        };
        let named = Config::new("s", "1").custom_method("x/a");
        let any = Config::new("s", "1").any_custom_method();
        for (method, is_named, is_any) in
            [("x/a", true, true), ("x/b", false, true), ("tools/list", false, false)]
        {
            assert_eq!((check(&named, method), check(&any, method)), (is_named, is_any), "{method}");
        }
    }
}
