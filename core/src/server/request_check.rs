//! Checks of a request before it is delivered: era and revision, `_meta`, header fields, method, capability.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

use bytes::Bytes;

use super::channel::{LegacySession, ServerEndpoint, caller, session};
use super::config::Config;
use super::log;
use crate::calls::endpoint::IdlessErrors;
use crate::calls::inbound::BatchKey;
use crate::draft::Deviation;
use crate::identity::Capabilities;
use crate::json::string;
use crate::limits::Limits;
use crate::methods::{self, MethodRule};
use crate::raw::RawJson;
use crate::rpc::RpcError;
use crate::rpc::envelope::{MetaSpans, ParamsSpans};
use crate::slab::Key;
use crate::version::Version;
use crate::{meta, shape};

/// A request that passed all checks.
pub(super) struct AcceptedRequest {
    pub(super) version: Version,
    pub(super) method: Cow<'static, str>,
    pub(super) cacheable: bool,
    /// False if header fields do not fit a tool that the caller does not see.
    pub(super) fits_headers: bool,
    /// The call stays open until the application answers it, as a subscription does.
    pub(super) is_long_lived: bool,
}

/// The origin of a message.
#[derive(Clone, Copy)]
pub(super) struct MessageSource<'a> {
    /// Channel that receives the answer.
    pub(super) channel: Key,
    /// Channel that owns the request id.
    pub(super) root: Key,
    /// Batch that the message belongs to.
    pub(super) batch: Option<BatchKey>,
    /// The request was queued before.
    pub(super) waited: bool,
    /// Header fields to check the message against.
    pub(super) header_check: Option<&'a dyn HeaderCheck>,
}

/// Result of checking the modern metadata of a request.
enum ModernCheck {
    /// The request has no modern metadata.
    NotModern,
    Version(Version),
}

/// A request as received.
pub(crate) struct ReceivedRequest<'a> {
    pub(super) source: MessageSource<'a>,
    pub(crate) frame: &'a Bytes,
    pub(crate) method: &'a str,
    pub(crate) params: &'a ParamsSpans,
    /// Its `_meta` is the text that [`RequestCheck::known_meta`] returned.
    pub(super) has_known_meta: bool,
}

/// Checks requests, and remembers the last valid `_meta` and the last capabilities.
#[derive(Debug, Default)]
pub(super) struct RequestCheck {
    /// Boxed, because a legacy server never has one.
    last_meta: Option<Box<MetaCache>>,
    /// The text of the capabilities that were read last, and what they declare.
    last_capabilities: Option<(RawJson, Capabilities)>,
}

/// The last valid `_meta` text, with the offsets of its parts.
///
/// A client repeats its `_meta` in every request. An equal text is recognized and not parsed again.
#[derive(Debug)]
struct MetaCache {
    text: Box<[u8]>,
    parts: MetaSpans,
    version: Version,
}

impl RequestCheck {
    /// Returns the last valid `_meta` text and its parts.
    pub(super) fn known_meta(&self) -> Option<(&[u8], &MetaSpans)> {
        self.last_meta.as_deref().map(|known| (&*known.text, &known.parts))
    }

    /// Forgets the last `_meta` and the last capabilities.
    pub(super) fn trim(&mut self) {
        (self.last_meta, self.last_capabilities) = (None, None);
    }

    /// Reads the capabilities of a client. A client repeats them: an equal text is not read again.
    pub(super) fn read_capabilities(&mut self, text: &RawJson, limits: &Limits) -> Capabilities {
        match &self.last_capabilities {
            Some((last, declared)) if last == text => declared.clone(),
            _ => {
                let declared = Capabilities::read(text.as_bytes());
                if text.as_bytes().len() <= limits.max_meta_cache {
                    self.last_capabilities = Some((text.compact(), declared.clone()));
                }
                declared
            }
        }
    }

    /// Returns the text of the capabilities that are remembered.
    #[cfg(all(test, feature = "http"))]
    pub(super) fn last_capabilities(&self) -> Option<&str> {
        self.last_capabilities.as_ref().map(|(text, _)| text.as_str())
    }

    /// Finds the era of a request and checks it. Returns `None` if the engine answers it.
    ///
    /// The order of the checks is that of HTTP-029 and DEC-007.
    ///
    /// # Errors
    ///
    /// The error response to send.
    pub(super) fn check(
        &mut self,
        endpoint: &mut ServerEndpoint,
        config: &Config,
        request: &ReceivedRequest<'_>,
    ) -> Result<Option<AcceptedRequest>, RpcError> {
        let &ReceivedRequest { source, frame, method, params, .. } = request;
        let rule = methods::request_rule(method);
        // First, because the era decides which rules hold.
        let modern_check = self.check_modern_meta(endpoint, config, request)?;
        let version = match modern_check {
            ModernCheck::Version(_) if source.batch.is_some() => {
                return Err(RpcError::invalid_request("its revision has no batches")); // BATCH-004
            }
            ModernCheck::Version(version) => version,
            ModernCheck::NotModern => legacy_version(endpoint, config, request, rule)?,
        };
        // Behind the revision, which decides the rules of the fields, and before the method (DEC-007).
        if let Some(check) = source.header_check {
            let checked = check.check_request(version, request);
            checked.map_err(|error| mismatch_in_revision(config, error, version))?;
        }
        let rule = rule.filter(|r| r.exists_in(version) && r.is_sent_by_client());
        match rule {
            Some(rule) => {
                if rule
                    .required_capability_in(version)
                    .is_some_and(|capability| !config.settings.capabilities.has(capability))
                {
                    return Err(RpcError::method_not_found(method)); // ERR-002, LIFE-023
                }
                let fits_headers = fits_headers(endpoint, config, request, version)?;
                if rule.handled_by_engine {
                    return Ok(None);
                }
                let cacheable = rule.cacheable;
                let method = Cow::Borrowed(rule.name);
                Ok(Some(AcceptedRequest { version, method, cacheable, fits_headers, is_long_lived: false }))
            }
            None => {
                let client = || match version.is_modern() {
                    true => {
                        params.meta.capabilities.slice(frame).map(|c| RawJson::trusted(frame.slice_ref(c)))
                    }
                    false => session(endpoint, source.root).map(LegacySession::capabilities),
                };
                let is_long_lived = config.check_custom_method(method, version, client)?;
                let method = Cow::Owned(method.into());
                let (cacheable, fits_headers) = (false, true);
                Ok(Some(AcceptedRequest { version, method, cacheable, fits_headers, is_long_lived }))
            }
        }
    }

    /// Checks the metadata of a modern request (META-009, META-010, META-014, VER-009).
    ///
    /// # Errors
    ///
    /// The error response to send.
    fn check_modern_meta(
        &mut self,
        endpoint: &mut ServerEndpoint,
        config: &Config,
        request: &ReceivedRequest<'_>,
    ) -> Result<ModernCheck, RpcError> {
        let &ReceivedRequest { source, frame, params, has_known_meta: known, .. } = request;
        let served = config.modern_versions();
        if served.is_empty() {
            return Ok(ModernCheck::NotModern);
        }
        let Some(c) = endpoint.channels.get_mut(source.channel) else {
            return Ok(ModernCheck::NotModern);
        };
        // A client repeats its `_meta`: of an equal text nothing has to be checked again.
        if known {
            if let Some(known) = &self.last_meta {
                // A valid modern request tells that its client reads errors without an id (DEC-004).
                c.idless_errors = IdlessErrors::Absent;
                if let Some(check) = source.header_check {
                    check.check_version(Some(known.version.as_str()))?;
                }
                return Ok(ModernCheck::Version(known.version));
            }
        }
        let parts = &params.meta;
        let Some(version) = parts.version.slice(frame) else {
            if let Some(check) = source.header_check {
                check.check_version(None)?;
            }
            // A modern key without the version is a modern request with missing metadata, not a legacy one.
            let modern =
                parts.has_reserved || source.header_check.is_some_and(|check| check.indicates_modern());
            return if modern { Err(missing_meta_error(parts)) } else { Ok(ModernCheck::NotModern) };
        };
        let Some(name) = string(version) else {
            return Err(RpcError::invalid_params(format!(
                "`_meta` member `{}` is not a string",
                meta::PROTOCOL_VERSION
            )));
        };
        if let Some(check) = source.header_check {
            check.check_version(Some(&name))?;
        }
        let Some(version) = Version::from_name(&name).filter(|v| served.contains(*v)) else {
            // VER-009; checked first, because another revision may have other rules.
            return Err(config.unsupported_version_error(&name));
        };
        check_members(parts, frame)?;
        c.idless_errors = IdlessErrors::Absent;
        // A text with a progress token or a span differs in each request.
        let is_constant = parts.token.is_empty() && !parts.has_trace;
        let repeats = |t: &&[u8]| is_constant && t.len() <= endpoint.limits.max_meta_cache;
        if let Some(text) = parts.whole.slice(frame).filter(repeats) {
            // Relative to the beginning of the text; `shifted` wraps.
            let parts = parts.shifted(0u32.wrapping_sub(parts.whole.start));
            self.last_meta = Some(Box::new(MetaCache { text: text.into(), parts, version }));
        }
        Ok(ModernCheck::Version(version))
    }
}

/// Checks the members of modern metadata beside the revision.
///
/// # Errors
///
/// The error response to send.
fn check_members(parts: &MetaSpans, frame: &[u8]) -> Result<(), RpcError> {
    match parts.capabilities.slice(frame) {
        Some([b'{', ..]) => {}
        None => return Err(missing_meta_error(parts)),
        Some(_) => return Err(wrong_type_error(meta::CLIENT_CAPABILITIES, "an object")),
    }
    if parts.info.slice(frame).is_some_and(|i| i.first() != Some(&b'{')) {
        return Err(wrong_type_error(meta::CLIENT_INFO, "an object"));
    }
    match parts.log_level.slice(frame) {
        Some(level) if log::parse_threshold(level).is_none() => {
            Err(RpcError::invalid_params("unknown log level in `_meta`")) // LOG-010
        }
        _ => Ok(()),
    }
}

/// Checks the parameters against header fields. Returns false if they do not fit a tool that the caller does not see.
///
/// # Errors
///
/// The error response to send.
fn fits_headers(
    endpoint: &ServerEndpoint,
    config: &Config,
    request: &ReceivedRequest<'_>,
    version: Version,
) -> Result<bool, RpcError> {
    let &ReceivedRequest { source, frame, params, .. } = request;
    let Some(check) = source.header_check else { return Ok(true) };
    let Err(error) = check.check_params(version, request) else { return Ok(true) };
    let tool = params.name.slice(frame).and_then(string).unwrap_or_default();
    // The error would tell that there is such a tool.
    match config.hides_tool(&tool, || caller(endpoint, source.channel)) {
        true => Ok(false),
        false => Err(mismatch_in_revision(config, error, version)),
    }
}

/// Returns the error for header fields that do not fit. Legacy revisions lack the code for it (ERR-005).
fn mismatch_in_revision(config: &Config, error: RpcError, version: Version) -> RpcError {
    match config.settings.draft.keeps_mismatch_in_sessions() {
        true => error,
        false => shape::error_in_revision(&error, version).into_owned(),
    }
}

/// Returns the revision of a request without modern metadata.
///
/// # Errors
///
/// The error response to send.
fn legacy_version(
    endpoint: &ServerEndpoint,
    config: &Config,
    request: &ReceivedRequest<'_>,
    rule: Option<&MethodRule>,
) -> Result<Version, RpcError> {
    let &ReceivedRequest { source, frame, params, .. } = request;
    let served = config.legacy_versions();
    let name = rule.map_or("", |r| r.name);
    if served.is_empty() {
        if name == methods::INITIALIZE && config.settings.draft.contains(Deviation::InitializeIsUnknown) {
            return Err(config.unknown_initialize_error());
        }
        if let Some(check) = source.header_check {
            check.require_modern()?;
        }
        if name == methods::INITIALIZE {
            // The revisions are the one fact that an older client can show its user (VER-032, VER-033, DEC-006).
            let requested = RawJson::trusted(frame.slice_ref(params.whole.slice(frame).unwrap_or_default()));
            let requested = requested.member("protocolVersion").and_then(|v| v.string());
            return Err(config.unsupported_version_error(requested.as_deref().unwrap_or_default()));
        }
        return Err(missing_meta_error(&params.meta));
    }
    match (name, session(endpoint, source.root)) {
        // The method is of the modern era alone, so it lacks metadata whatever the session is (DEC-006).
        (methods::DISCOVER, _) if !config.modern_versions().is_empty() => {
            Err(missing_meta_error(&params.meta))
        }
        (methods::INITIALIZE, _) if source.batch.is_some() => {
            Err(RpcError::invalid_request("`initialize` must not be part of a batch")) // BATCH-003
        }
        // A request of a session over HTTP names the session; on a byte stream it may be of another client of a gateway, or of
        // one that was reset (LIFE-008).
        (methods::INITIALIZE, Some(_)) if source.channel != source.root => {
            Err(RpcError::invalid_request("already initialized"))
        }
        // `ping` is allowed before the handshake (PING-001).
        (methods::INITIALIZE, _) | (methods::PING, None) => {
            Ok(served.newest().unwrap_or(Version::V2024_11_05))
        }
        (_, Some(session)) => Ok(session.version),
        (_, None) => Err(RpcError::invalid_request("not initialized: `initialize` has to come first")), // LIFE-007
    }
}

/// Returns error -32602 with the names of missing metadata (META-014).
fn missing_meta_error(parts: &MetaSpans) -> RpcError {
    let required = [(parts.version, meta::PROTOCOL_VERSION), (parts.capabilities, meta::CLIENT_CAPABILITIES)];
    let names: Vec<&str> =
        required.iter().filter(|(span, _)| span.is_empty()).map(|(_, name)| *name).collect();
    RpcError::invalid_params(format!("`params._meta` lacks {}", names.join(" and ")))
}

fn wrong_type_error(key: &str, what: &str) -> RpcError {
    RpcError::invalid_params(format!("`_meta` member `{key}` is not {what}"))
}

// Checks of a message against the header fields that a transport received with it.

/// Checks that the engine calls in the order of HTTP-029. Each error is the response to send.
pub(crate) trait HeaderCheck {
    /// Checks the revision in `_meta`; `None` if the message has no modern metadata.
    fn check_version(&self, version: Option<&str>) -> Result<(), RpcError>;

    /// Returns whether the header fields declare a modern message.
    fn indicates_modern(&self) -> bool;

    /// Checks a message without modern metadata at a server without legacy revisions.
    fn require_modern(&self) -> Result<(), RpcError>;

    /// Checks method and name, once the revision is known.
    fn check_request(&self, version: Version, request: &ReceivedRequest<'_>) -> Result<(), RpcError>;

    /// Checks the parameters, once the method is known to exist.
    fn check_params(&self, version: Version, request: &ReceivedRequest<'_>) -> Result<(), RpcError>;
}
