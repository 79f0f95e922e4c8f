//! Negotiation of the era and the revision: a state machine with one request at a time.
//!
//! ```text
//!   Idle ─▶ Probing ──discover result, -32022──────────────▶ Ready (modern)
//!             │  other error, silence
//!             ▼
//!         Initializing ──result──────────────────────────────▶ Ready (legacy)
//!             │  error, and the probe was answered meanwhile ─▶ Ready (modern)
//!             ▼
//!           Closed
//! ```
//! After the timeout of the probe `initialize` is sent, and from then on its outcome decides (VER-019 to VER-028,
//! DESIGN-28).

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use super::common::CommonState;
use super::config::Config;
use super::event::Peer;
use crate::calls::outbound::{CallOptions, CallPurpose, OutboundCall, OutboundCalls};
use crate::diagnostic::Diagnostic;
use crate::error::Fault;
use crate::identity::Capabilities;
use crate::json::{Scanner, object_members, string, write_str};
use crate::raw::RawJson;
use crate::rpc::{self, RpcError, code};
use crate::slab::Key;
use crate::time::Instant;
use crate::version::{Era, KnownEra, Version, VersionSet};
use crate::{meta, methods};

/// The negotiation of the era and the revision; see the [module](self).
///
/// Its deadline is in the shared heap, where a generation tells whether it still holds.
#[derive(Debug)]
pub(super) struct Negotiation {
    stage: NegotiationStage,
    known_era: Option<KnownEra>,
}

/// Next step after an input of the negotiation.
#[derive(Debug)]
pub(super) enum NegotiationStep {
    /// Nothing yet: an answer or a deadline will follow.
    Wait,
    /// The connection is ready.
    Ready(Peer),
    Close(Fault),
}

/// The stage of the negotiation.
#[derive(Debug)]
enum NegotiationStage {
    /// There is no channel yet.
    Idle,
    /// `server/discover` was sent.
    Probing {
        /// The probe was repeated with a revision that the first answer named.
        is_retry: bool,
        /// Error of an earlier `initialize`.
        initialize_error: Option<RpcError>,
    },
    /// `initialize` was sent.
    Initializing {
        probe: ProbeState,
        /// Error of `initialize`, while the probe may still be answered.
        initialize_error: Option<RpcError>,
        /// Whether the server refused another revision before.
        is_retry: bool,
    },
    Ready,
    Closed,
}

/// State of the probe after `initialize` was sent.
#[derive(Debug)]
enum ProbeState {
    /// There was no probe.
    None,
    /// The probe was not answered yet.
    Unanswered,
    /// The probe was answered by a server without modern revisions.
    Legacy,
    /// The probe was answered late by a modern server.
    Modern(LateProbeAnswer),
}

#[derive(Debug)]
enum LateProbeAnswer {
    Discovered(RawJson),
    /// An unsupported-version error that names a revision of this client.
    Supports(Version),
}

/// Members of a result of the negotiation, whose text is kept.
#[derive(Default)]
struct ServerMembers<'a> {
    capabilities: Option<&'a [u8]>,
    /// Position of the identity in `initialize`, and in a draft of `server/discover`.
    server_info: Option<&'a [u8]>,
    instructions: Option<Cow<'a, str>>,
}

/// The result of `server/discover` (VER-013).
struct DiscoverResponse<'a> {
    supported_versions: Vec<String>,
    server: ServerMembers<'a>,
}

/// The result of `initialize` (LIFE-003).
struct InitializeResponse<'a> {
    protocol_version: Cow<'a, str>,
    server: ServerMembers<'a>,
}

/// Reads the members of a result by the scanner, because the reader of serde is 20 KB of a small program.
///
/// `own` reads a member of this result and returns false if its value is of another type. Returns `None` for an object
/// that is not valid.
fn read_members<'a>(
    result: &'a [u8],
    own: &mut dyn FnMut(&[u8], &'a [u8]) -> bool,
) -> Option<ServerMembers<'a>> {
    let (mut members, mut is_valid) = (ServerMembers::default(), true);
    let is_object = object_members(result, |name, value| match name {
        b"capabilities" => members.capabilities = Some(value),
        b"serverInfo" => members.server_info = Some(value),
        b"instructions" => {
            members.instructions = string(value);
            is_valid &= members.instructions.is_some() || value == b"null";
        }
        name => is_valid &= own(name, value),
    });
    (is_object && is_valid).then_some(members)
}

impl<'a> DiscoverResponse<'a> {
    fn read(result: &'a RawJson) -> Option<Self> {
        let mut versions = None;
        let server = read_members(result.as_bytes(), &mut |name, value| {
            if name == b"supportedVersions" {
                versions = strings(value);
                return versions.is_some();
            }
            true
        })?;
        Some(Self { supported_versions: versions?, server })
    }
}

impl<'a> InitializeResponse<'a> {
    fn read(result: &'a RawJson) -> Option<Self> {
        let mut version = None;
        let server = read_members(result.as_bytes(), &mut |name, value| {
            if name == b"protocolVersion" {
                version = string(value);
                return version.is_some();
            }
            true
        })?;
        Some(Self { protocol_version: version?, server })
    }
}

/// Reads an array of strings.
fn strings(text: &[u8]) -> Option<Vec<String>> {
    let mut strings = Vec::new();
    let mut scanner = Scanner::trusted(text);
    let scanned = scanner.array(|scanner| {
        strings.extend(scanner.string()?.into_str().map(Cow::into_owned));
        Ok(())
    });
    scanned.is_ok().then_some(strings)
}

/// The conclusion from an error about the era (VER-019, VER-020, VER-041).
enum EraEvidence {
    /// The error names the supported revisions; recognized by its shape, with any code (DEC-001).
    Supports(Vec<String>),
    /// A modern server refuses for another reason.
    Modern,
    Legacy,
}

/// Returns the revisions that an error of `initialize` names (ERR-017).
fn supported_versions(error: &RpcError) -> Option<Vec<String>> {
    strings(error.data.as_ref()?.member("supported")?.as_bytes())
}

fn classify_error(error: &RpcError) -> EraEvidence {
    let data = error.data.as_ref();
    // The released code needs the list only: the official TypeScript server sometimes omits `requested`.
    let requested = error.code == code::UNSUPPORTED_PROTOCOL_VERSION
        || data.and_then(|d| d.member("requested")).is_some_and(|r| r.as_bytes().first() == Some(&b'"'));
    let supported = data.filter(|_| requested).and_then(|d| d.member("supported"));
    if let Some(supported) = supported.and_then(|names| strings(names.as_bytes())) {
        return EraEvidence::Supports(supported);
    }
    let required = || data.and_then(|d| d.member("requiredCapabilities")).is_some_and(|c| c.is_object());
    match error.released_code() {
        code::HEADER_MISMATCH => EraEvidence::Modern,
        code::MISSING_CLIENT_CAPABILITY if required() => EraEvidence::Modern,
        _ => EraEvidence::Legacy,
    }
}

/// Returns whether an error of `initialize` decides what to send next: it names revisions, or is one of a modern server.
#[cfg(feature = "http")]
pub(crate) fn decides_handshake(error: &RpcError) -> bool {
    is_modern_error(error) || supported_versions(error).is_some()
}

/// Returns whether only a modern server sends this error (VER-041).
#[cfg(feature = "http")]
pub(crate) fn is_modern_error(error: &RpcError) -> bool {
    !matches!(classify_error(error), EraEvidence::Legacy)
}

fn parse_versions(names: &[String]) -> VersionSet {
    names.iter().filter_map(|n| Version::from_name(n)).fold(VersionSet::NONE, VersionSet::with)
}

fn newest_common(a: VersionSet, b: VersionSet, era: Era) -> Option<Version> {
    a.iter().find(|v| b.contains(*v) && v.era() == era)
}

fn copy_object(text: Option<&[u8]>) -> Option<RawJson> {
    // Copied, because it is kept as long as the connection and must not keep the message alive.
    text.map(|text| RawJson::trusted(bytes::Bytes::copy_from_slice(text))).filter(RawJson::is_object)
}

impl Negotiation {
    pub(super) const fn new() -> Self {
        Self { stage: NegotiationStage::Idle, known_era: None }
    }

    /// Returns the era of the server, once it is known.
    pub(super) const fn known_era(&self) -> Option<KnownEra> {
        self.known_era
    }

    /// Records that the connection is ready.
    pub(super) fn handle_ready(&mut self, era: Era) {
        self.known_era = Some(match era {
            Era::Modern => KnownEra::Modern,
            Era::Legacy => KnownEra::Legacy,
        });
        self.stage = NegotiationStage::Ready;
    }

    /// Records that the connection is closed.
    pub(super) fn handle_close(&mut self) {
        self.stage = NegotiationStage::Closed;
    }

    /// Sends the first request.
    pub(super) fn begin(&mut self, common: &mut CommonState) -> NegotiationStep {
        match (
            common.config.modern_versions().newest(),
            common.config.legacy_versions().newest(),
            common.config.known_era,
        ) {
            // Without modern revisions there is nothing to probe with. A server that is known as legacy is spared the
            // probe.
            (None, _, _) | (Some(_), Some(_), Some(KnownEra::Legacy)) => {
                self.initialize(common, ProbeState::None)
            }
            (Some(version), _, _) => self.probe(common, version, false, None),
        }
    }

    /// Sends `server/discover` (VER-024, VER-028).
    fn probe(
        &mut self,
        common: &mut CommonState,
        version: Version,
        is_retry: bool,
        initialize_error: Option<RpcError>,
    ) -> NegotiationStep {
        let is_last = initialize_error.is_some();
        self.stage = NegotiationStage::Probing { is_retry, initialize_error };
        let config = crate::sync::Arc::clone(&common.config);
        let unsent = send(common, CallPurpose::Probe, methods::DISCOVER, |out| {
            out.extend_from_slice(b"{\"_meta\":{");
            out.extend_from_slice(config.request_meta(version));
            out.extend_from_slice(b"}}");
        });
        let limits = &common.endpoint.limits;
        // The short timeout applies only if `initialize` can follow. Over HTTP silence proves nothing, because a server
        // that does not know a request says so (VER-021).
        let is_only_option = common.uses_exchanges
            || common.config.legacy_versions().is_empty()
            || common.config.known_era == Some(KnownEra::Modern)
            || is_last;
        let wait = if is_only_option { limits.init_timeout } else { limits.probe_timeout };
        common.arm_negotiation_timeout(wait);
        // Otherwise `initialize` follows.
        unsent.filter(|_| is_only_option).unwrap_or(NegotiationStep::Wait)
    }

    /// Sends `initialize` (LIFE-001, LIFE-002, VER-001, VER-002).
    fn initialize(&mut self, common: &mut CommonState, probe: ProbeState) -> NegotiationStep {
        match common.config.legacy_versions().newest() {
            Some(version) => self.initialize_with(common, probe, version, false),
            None => NegotiationStep::Wait,
        }
    }

    fn initialize_with(
        &mut self,
        common: &mut CommonState,
        probe: ProbeState,
        version: Version,
        is_retry: bool,
    ) -> NegotiationStep {
        self.stage = NegotiationStage::Initializing { probe, initialize_error: None, is_retry };
        let config = crate::sync::Arc::clone(&common.config);
        let unsent = send(common, CallPurpose::Handshake, methods::INITIALIZE, |out| {
            out.extend_from_slice(b"{\"protocolVersion\":");
            write_str(out, version.as_str());
            out.extend_from_slice(b",\"capabilities\":");
            config.settings.capabilities.write(out, version);
            out.extend_from_slice(b",\"clientInfo\":");
            config.settings.write_info(out, version);
            out.push(b'}');
        });
        common.arm_negotiation_timeout(common.endpoint.limits.init_timeout);
        unsent.unwrap_or(NegotiationStep::Wait)
    }

    /// Handles the timeout of the current request.
    pub(super) fn handle_timeout(&mut self, common: &mut CommonState) -> NegotiationStep {
        match &mut self.stage {
            NegotiationStage::Probing { initialize_error: None, .. }
                if !common.uses_exchanges && !common.config.legacy_versions().is_empty() =>
            {
                // Silence is weak evidence, so the probe stays open for a late answer (VER-027). It is not cancelled,
                // because that may confuse a legacy server.
                self.initialize(common, ProbeState::Unanswered)
            }
            NegotiationStage::Probing { initialize_error: None, .. } => {
                NegotiationStep::Close(handshake_timeout(common, methods::DISCOVER))
            }
            NegotiationStage::Probing { initialize_error: Some(error), .. }
            | NegotiationStage::Initializing { initialize_error: Some(error), .. } => {
                NegotiationStep::Close(Fault::HandshakeRefused(error.clone()))
            }
            // `initialize` is never cancelled; the connection is closed instead (LIFE-009, TIME-007).
            NegotiationStage::Initializing { .. } => {
                NegotiationStep::Close(handshake_timeout(common, methods::INITIALIZE))
            }
            NegotiationStage::Idle | NegotiationStage::Ready | NegotiationStage::Closed => {
                NegotiationStep::Wait
            }
        }
    }

    /// Returns the fault for an end of the input at this stage (VER-021).
    pub(super) fn eof_fault(&self, config: &Config) -> Fault {
        match &self.stage {
            // The server gave the reason before it closed.
            NegotiationStage::Probing { initialize_error: Some(error), .. }
            | NegotiationStage::Initializing { initialize_error: Some(error), .. } => {
                Fault::HandshakeRefused(error.clone())
            }
            NegotiationStage::Probing { .. }
            | NegotiationStage::Initializing { probe: ProbeState::Unanswered, .. } => {
                let legacy =
                    !config.legacy_versions().is_empty() && config.known_era != Some(KnownEra::Legacy);
                Fault::ExitedDuringProbe { legacy }
            }
            _ => Fault::Eof,
        }
    }

    /// Handles the answer to a request of the negotiation.
    pub(super) fn handle_answer(
        &mut self,
        common: &mut CommonState,
        key: Key,
        purpose: CallPurpose,
        outcome: Result<RawJson, RpcError>,
    ) -> NegotiationStep {
        common.endpoint.outbound.calls.remove(key);
        match (purpose, &mut self.stage) {
            (CallPurpose::Probe, NegotiationStage::Probing { .. }) => match outcome {
                Ok(result) => self.handle_discover_result(common, &result),
                Err(error) => self.handle_probe_error(common, error),
            },
            (
                CallPurpose::Probe,
                NegotiationStage::Initializing {
                    probe: probe @ ProbeState::Unanswered,
                    initialize_error,
                    ..
                },
            ) => {
                // Both requests are under way: only both answers together tell the era, so the first one is kept.
                let late = classify_late_answer(outcome, common.config.modern_versions());
                let initialize_error = initialize_error.clone();
                *probe = late.map_or(ProbeState::Legacy, ProbeState::Modern);
                match initialize_error {
                    Some(error) => self.handle_initialize_error(common, error),
                    None => NegotiationStep::Wait,
                }
            }
            (CallPurpose::Handshake, NegotiationStage::Initializing { .. }) => match outcome {
                Ok(result) => handle_initialize_result(common, &result),
                Err(error) => self.handle_initialize_error(common, error),
            },
            // A late answer has no effect on a finished negotiation.
            _ => NegotiationStep::Wait,
        }
    }

    /// Handles the result of `server/discover`.
    fn handle_discover_result(&mut self, common: &mut CommonState, result: &RawJson) -> NegotiationStep {
        let Some(answer) = DiscoverResponse::read(result) else {
            // A modern server does not send such a result.
            let error = RpcError::invalid_request("the result of `server/discover` is not valid");
            return self.fall_back(common, Some(error));
        };
        let server_versions = parse_versions(&answer.supported_versions);
        let Some(version) = newest_common(common.config.modern_versions(), server_versions, Era::Modern)
        else {
            return self.handle_no_modern_version(common, server_versions, answer.supported_versions);
        };
        let capabilities = copy_object(answer.server.capabilities).unwrap_or_else(empty_object);
        // A released server names itself in `_meta`, one of a draft in a member of the result.
        let stamped = result.member("_meta").and_then(|m| m.member(meta::SERVER_INFO)).map(|i| i.compact());
        let peer = Peer {
            version,
            info: stamped.or_else(|| copy_object(answer.server.server_info)),
            declared: Capabilities::read(capabilities.as_bytes()),
            capabilities,
            instructions: answer.server.instructions.map(Cow::into_owned),
        };
        NegotiationStep::Ready(peer)
    }

    /// Handles an error of `server/discover`.
    fn handle_probe_error(&mut self, common: &mut CommonState, error: RpcError) -> NegotiationStep {
        let NegotiationStage::Probing { is_retry, .. } = self.stage else { return NegotiationStep::Wait };
        match classify_error(&error) {
            EraEvidence::Supports(names) => {
                let server_versions = parse_versions(&names);
                match newest_common(common.config.modern_versions(), server_versions, Era::Modern) {
                    // The probe is repeated once, with a revision that both sides speak (VER-010).
                    Some(version) if !is_retry => self.probe(common, version, true, None),
                    Some(_) => NegotiationStep::Close(Fault::HandshakeRefused(error)),
                    None => self.handle_no_modern_version(common, server_versions, names),
                }
            }
            EraEvidence::Modern => NegotiationStep::Close(Fault::HandshakeRefused(error)), // VER-019, VER-026
            EraEvidence::Legacy => self.fall_back(common, Some(error)),                    // VER-020, VER-025
        }
    }

    /// Handles a modern server that has no modern revision in common with this client.
    fn handle_no_modern_version(
        &mut self,
        common: &mut CommonState,
        server_versions: VersionSet,
        names: Vec<String>,
    ) -> NegotiationStep {
        if newest_common(common.config.legacy_versions(), server_versions, Era::Legacy).is_some() {
            self.initialize(common, ProbeState::Legacy)
        } else {
            NegotiationStep::Close(Fault::NoCommonVersion {
                supported: common.config.effective_versions(),
                offered: names,
            })
        }
    }

    /// Handles a server that does not know `server/discover`.
    fn fall_back(&mut self, common: &mut CommonState, answer: Option<RpcError>) -> NegotiationStep {
        if let NegotiationStage::Probing { initialize_error: Some(error), .. } = &mut self.stage {
            // Both requests failed; the error of the handshake is more useful.
            NegotiationStep::Close(Fault::HandshakeRefused(error.clone()))
        } else if common.config.legacy_versions().is_empty() {
            NegotiationStep::Close(Fault::LegacyServer {
                supported: common.config.effective_versions(),
                error: answer,
            }) // VER-034
        } else {
            self.initialize(common, ProbeState::Legacy)
        }
    }

    /// Handles an error of `initialize`.
    fn handle_initialize_error(&mut self, common: &mut CommonState, error: RpcError) -> NegotiationStep {
        let NegotiationStage::Initializing { probe, initialize_error, is_retry } = &mut self.stage else {
            return NegotiationStep::Wait;
        };
        let is_retry = *is_retry;
        // The answer to the probe counts once. `Unanswered` is put back below.
        match core::mem::replace(probe, ProbeState::Legacy) {
            // The server is modern and was slow.
            ProbeState::Modern(LateProbeAnswer::Discovered(result)) => {
                self.handle_discover_result(common, &result)
            }
            ProbeState::Modern(LateProbeAnswer::Supports(version)) => {
                self.probe(common, version, true, Some(error))
            }
            ProbeState::Unanswered => {
                *probe = ProbeState::Unanswered;
                *initialize_error = Some(error);
                NegotiationStep::Wait
            }
            // The known era proved wrong, so the server is probed once (VER-042).
            ProbeState::None if common.config.known_era.is_some() => {
                match common.config.modern_versions().newest() {
                    Some(version) => self.probe(common, version, false, Some(error)),
                    None => NegotiationStep::Close(Fault::HandshakeRefused(error)),
                }
            }
            ProbeState::None | ProbeState::Legacy => {
                let Some(offered) = supported_versions(&error) else {
                    return NegotiationStep::Close(Fault::HandshakeRefused(error));
                };
                let legacy = common.config.legacy_versions();
                match newest_common(legacy, parse_versions(&offered), Era::Legacy) {
                    // ERR-017: the server should have answered with the one that it prefers.
                    // The newest one was refused just now.
                    Some(version) if !is_retry && Some(version) != legacy.newest() => {
                        self.initialize_with(common, ProbeState::Legacy, version, true)
                    }
                    None if newest_common(
                        common.config.modern_versions(),
                        parse_versions(&offered),
                        Era::Modern,
                    )
                    .is_none() =>
                    {
                        let supported = common.config.effective_versions();
                        NegotiationStep::Close(Fault::NoCommonVersion { supported, offered })
                    }
                    _ => NegotiationStep::Close(Fault::HandshakeRefused(error)),
                }
            }
        }
    }

    /// Handles an error that a server of the negotiated era does not send.
    pub(super) fn check_era(&mut self, common: &mut CommonState, error: &RpcError) {
        let era = common.peer.as_ref().map(|p| p.era());
        if era == Some(Era::Legacy) && matches!(classify_error(error), EraEvidence::Supports(_)) {
            // The next connection probes again.
            self.known_era = None;
            common.diagnose(Diagnostic::EraContradicted);
        }
    }
}

/// Sends a request. Returns the step that ends the negotiation if there is no memory for it.
fn send(
    common: &mut CommonState,
    purpose: CallPurpose,
    method: &'static str,
    params: impl FnOnce(&mut Vec<u8>),
) -> Option<NegotiationStep> {
    let main = common.main_channel?;
    // The stage has a deadline of its own, so those of the call are disabled.
    let never = core::time::Duration::MAX;
    let options = CallOptions::new().timeout(never).total_timeout(never);
    let key = common.endpoint.outbound.calls.insert(OutboundCall::new(
        common.endpoint.now,
        main,
        purpose,
        &options,
        &common.endpoint.limits,
    ));
    let is_sent = common.endpoint.send(main, 0, |out| {
        rpc::request_head(out, OutboundCalls::wire_id(key), method);
        out.extend_from_slice(b",\"params\":");
        params(out);
        rpc::end(out);
    });
    (!is_sent).then_some(NegotiationStep::Close(Fault::OutOfMemory { method }))
}

/// Returns the fault after silence, with what came on this connection and may have been the answer.
fn handshake_timeout(common: &CommonState, method: &'static str) -> Fault {
    Fault::HandshakeTimeout { method, stray: common.stray_since(Instant::ZERO).map(Box::new) }
}

/// Handles the result of `initialize` (VER-003, VER-006).
fn handle_initialize_result(common: &mut CommonState, result: &RawJson) -> NegotiationStep {
    let method = methods::INITIALIZE;
    let Some(answer) = InitializeResponse::read(result) else {
        return NegotiationStep::Close(Fault::BadHandshake { method, reason: "no `protocolVersion`".into() });
    };
    let offered =
        // A pinned client refuses revisions that it knows and did not enable.
        Version::from_name(&answer.protocol_version).filter(|v| common.config.legacy_versions().contains(*v));
    let Some(version) = offered else {
        let server_versions = [answer.protocol_version.into_owned()].into();
        return NegotiationStep::Close(Fault::NoCommonVersion {
            supported: common.config.effective_versions(),
            offered: server_versions,
        });
    };
    let capabilities = copy_object(answer.server.capabilities).unwrap_or_else(empty_object);
    let peer = Peer {
        version,
        info: copy_object(answer.server.server_info),
        declared: Capabilities::read(capabilities.as_bytes()),
        capabilities,
        instructions: answer.server.instructions.map(Cow::into_owned),
    };
    if let Some(main) = common.main_channel {
        // Sent before anything else (LIFE-004).
        let is_sent = common.endpoint.send(main, 0, |out| {
            rpc::notification_head(out, methods::INITIALIZED);
            rpc::end(out);
        });
        if !is_sent {
            return NegotiationStep::Close(Fault::OutOfMemory { method: methods::INITIALIZED });
        }
    }
    NegotiationStep::Ready(peer)
}

/// Returns the conclusion from an answer to the probe that arrived after `initialize` was sent.
fn classify_late_answer(
    outcome: Result<RawJson, RpcError>,
    client_versions: VersionSet,
) -> Option<LateProbeAnswer> {
    match outcome {
        Ok(result) => {
            let server_versions = parse_versions(&DiscoverResponse::read(&result)?.supported_versions);
            newest_common(client_versions, server_versions, Era::Modern)
                // It is kept until `initialize` is answered, so it must not keep the whole message alive.
                .map(|_| LateProbeAnswer::Discovered(result.compact()))
        }
        Err(error) => match classify_error(&error) {
            EraEvidence::Supports(names) => {
                newest_common(client_versions, parse_versions(&names), Era::Modern)
                    .map(LateProbeAnswer::Supports)
            }
            // `initialize` is under way and decides.
            _ => None,
        },
    }
}

fn empty_object() -> RawJson {
    RawJson::trusted(bytes::Bytes::from_static(b"{}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString as _;
    use alloc::sync::Arc;

    use crate::limits::Limits;

    fn begun(config: Config) -> (Negotiation, CommonState) {
        let mut common = CommonState::new(Arc::new(config));
        common.main_channel =
            Some(common.endpoint.open_channel(crate::calls::endpoint::IdlessErrors::Unsent, ()));
        let mut negotiation = Negotiation::new();
        assert!(matches!(negotiation.begin(&mut common), NegotiationStep::Wait));
        (negotiation, common)
    }

    fn pending(common: &CommonState) -> Vec<(Key, CallPurpose)> {
        common.endpoint.outbound.calls.iter().map(|(key, call)| (key, call.purpose)).collect()
    }

    fn result(text: &'static str) -> Result<RawJson, RpcError> {
        Ok(RawJson::trusted(bytes::Bytes::from_static(text.as_bytes())))
    }

    const DISCOVERED: &str = r#"{"supportedVersions":["2026-07-28"],"capabilities":{}}"#;

    // covers: VER-013
    #[test]
    fn discover_result_makes_the_connection_ready() {
        let (mut negotiation, mut common) = begun(Config::new("test", "1"));
        let (key, purpose) = pending(&common)[0];
        assert_eq!(purpose, CallPurpose::Probe);
        match negotiation.handle_answer(&mut common, key, purpose, result(DISCOVERED)) {
            NegotiationStep::Ready(peer) => assert_eq!(peer.version, Version::V2026_07_28),
            other => panic!("{other:?}"),
        }
        negotiation.handle_ready(Era::Modern);
        assert_eq!(negotiation.known_era(), Some(KnownEra::Modern));
        assert!(matches!(negotiation.handle_timeout(&mut common), NegotiationStep::Wait));
    }

    // covers: VER-027
    #[test]
    fn late_probe_answer_counts_if_initialize_fails() {
        let (mut negotiation, mut common) = begun(Config::new("test", "1"));
        let (probe, _) = pending(&common)[0];
        assert!(matches!(negotiation.handle_timeout(&mut common), NegotiationStep::Wait));
        let (handshake, purpose) = pending(&common)[1];
        assert_eq!(purpose, CallPurpose::Handshake);
        let refused = Err(RpcError::method_not_found("initialize"));
        let step = negotiation.handle_answer(&mut common, handshake, purpose, refused);
        assert!(matches!(step, NegotiationStep::Wait), "the probe may still be answered");
        let step = negotiation.handle_answer(&mut common, probe, CallPurpose::Probe, result(DISCOVERED));
        assert!(matches!(step, NegotiationStep::Ready(_)), "{step:?}");
    }

    /// A handshake that goes on in silence would end with "no answer in time", of a message that was never sent.
    #[test]
    fn message_that_has_no_memory_ends_the_negotiation() {
        let end = |step| match step {
            NegotiationStep::Close(fault) => fault.to_string(),
            other => panic!("{other:?}"),
        };
        for versions in [VersionSet::MODERN, VersionSet::ALL] {
            let mut common = CommonState::new(Arc::new(Config::new("test", "1").versions(versions)));
            common.main_channel =
                Some(common.endpoint.open_channel(crate::calls::endpoint::IdlessErrors::Unsent, ()));
            common.endpoint.limits = Arc::new(Limits::without_memory());
            match (versions, Negotiation::new().begin(&mut common)) {
                (VersionSet::ALL, NegotiationStep::Wait) => {}
                (_, step) => assert_eq!(end(step), "not enough memory to send `server/discover`"),
            }
        }

        let (mut negotiation, mut common) = begun(Config::new("test", "1"));
        common.endpoint.limits = Arc::new(Limits::without_memory());
        let step = negotiation.handle_timeout(&mut common);
        assert_eq!(end(step), "not enough memory to send `initialize`");

        let (mut negotiation, mut common) = begun(Config::new("test", "1").versions(VersionSet::LEGACY));
        let (key, purpose) = pending(&common)[0];
        common.endpoint.limits = Arc::new(Limits::without_memory());
        let initialized = result(
            r#"{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}"#,
        );
        let step = negotiation.handle_answer(&mut common, key, purpose, initialized);
        assert_eq!(end(step), "not enough memory to send `notifications/initialized`");
    }

    // covers: LIFE-009
    #[test]
    fn initialize_without_an_answer_closes_the_connection() {
        let (mut negotiation, mut common) = begun(Config::new("test", "1").versions(VersionSet::LEGACY));
        assert_eq!(pending(&common)[0].1, CallPurpose::Handshake);
        let step = negotiation.handle_timeout(&mut common);
        assert!(matches!(
            step,
            NegotiationStep::Close(Fault::HandshakeTimeout { method: methods::INITIALIZE, stray: None })
        ));
        negotiation.handle_close();
        assert_eq!(negotiation.eof_fault(&common.config), Fault::Eof);
    }
}
