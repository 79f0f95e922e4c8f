//! Finding out what a server speaks: a state machine with one question at a time.
//!
//! ```text
//!   Idle ─▶ Probing ──discover result, -32022──────────────▶ Ready (modern)
//!             │  other error, silence
//!             ▼
//!         Initializing ──result──────────────────────────────▶ Ready (legacy)
//!             │  error, and the probe was answered meanwhile ─▶ Ready (modern)
//!             ▼
//!            Over
//! ```
//! The rules are `spec-map` 3.1, 3.3 and 3.5, and the design page's "Probing tolerates slow starts": after the
//! probe's time-out `initialize` is sent, and from then on *its* outcome decides.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::engine::Engine;
use super::event::Peer;
use crate::calls::link::Timer;
use crate::calls::outbound::{CallOptions, OutCall, Outbound, Purpose};
use crate::diagnostic::Diagnostic;
use crate::error::Fault;
use crate::identity::Capabilities;
use crate::json::write_str;
use crate::meta;
use crate::raw::RawJson;
use crate::rpc::{RpcError, code, encode};
use crate::slab::Key;
use crate::version::{Era, Verdict, Version, VersionSet};
use crate::vocab;

/// How far the negotiation has come
#[derive(Debug)]
pub(super) enum Stage {
    /// No channel yet
    Idle,
    /// `server/discover` is out
    Probing {
        /// A second one, with a revision that the first answer named
        again: bool,
        /// Why an `initialize` was refused before it
        refused: Option<RpcError>,
    },
    /// `initialize` is out
    Initializing {
        probe: Probe,
        /// It was refused, while the probe may still be answered
        refused: Option<RpcError>,
    },
    Ready,
    Over,
}

/// What became of the probe when `initialize` went out
#[derive(Debug)]
pub(super) enum Probe {
    /// There was none
    None,
    /// It has not been answered
    Unanswered,
    /// It was answered: the server is none that knows it
    Legacy,
    /// It was answered, late, by a server that knows it
    Modern(LateAnswer),
}

#[derive(Debug)]
pub(super) enum LateAnswer {
    Discovered(RawJson),
    /// An unsupported-version error that names a revision of ours
    Supports(Version),
}

/// The result of `server/discover` (VER-013)
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Discovery<'a> {
    #[serde(borrow)]
    supported_versions: Vec<Cow<'a, str>>,
    #[serde(borrow)]
    capabilities: Option<&'a RawValue>,
    #[serde(borrow)]
    instructions: Option<Cow<'a, str>>,
    /// Where a draft had it
    #[serde(borrow)]
    server_info: Option<&'a RawValue>,
}

/// The result of `initialize` (LIFE-003)
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Initialized<'a> {
    #[serde(borrow)]
    protocol_version: Cow<'a, str>,
    #[serde(borrow)]
    capabilities: Option<&'a RawValue>,
    #[serde(borrow)]
    server_info: Option<&'a RawValue>,
    #[serde(borrow)]
    instructions: Option<Cow<'a, str>>,
}

/// What an error to the probe says about the era (VER-019, VER-020, VER-041)
enum Evidence {
    /// It names what the server speaks; known by its shape, whatever the code (DEC-001)
    Supports(Vec<String>),
    /// A modern server that refuses for another reason
    Modern,
    Legacy,
}

fn evidence(error: &RpcError) -> Evidence {
    #[derive(Deserialize)]
    struct Unsupported {
        supported: Vec<String>,
    }
    let data = error.data.as_ref();
    // The released code needs only the list: the official TypeScript server omits `requested` at times.
    let requested = error.code == code::UNSUPPORTED_PROTOCOL_VERSION
        || data.and_then(|d| d.member("requested")).is_some_and(|r| r.as_bytes().first() == Some(&b'"'));
    if let Some(Ok(data)) = data.filter(|_| requested).map(|d| d.parse::<Unsupported>()) {
        return Evidence::Supports(data.supported);
    }
    let required = || data.and_then(|d| d.member("requiredCapabilities")).is_some_and(|c| c.is_object());
    match error.code {
        code::HEADER_MISMATCH => Evidence::Modern,
        code::MISSING_CLIENT_CAPABILITY if required() => Evidence::Modern,
        _ => Evidence::Legacy,
    }
}

/// Whether only a modern server answers so (VER-041)
#[cfg(feature = "http")]
pub(crate) fn is_modern_error(error: &RpcError) -> bool {
    !matches!(evidence(error), Evidence::Legacy)
}

fn known(names: &[impl AsRef<str>]) -> VersionSet {
    names.iter().filter_map(|n| Version::from_name(n.as_ref())).fold(VersionSet::NONE, VersionSet::with)
}

fn common(a: VersionSet, b: VersionSet, era: Era) -> Option<Version> {
    a.iter().find(|v| b.contains(*v) && v.era() == era)
}

fn copy(raw: Option<&RawValue>) -> Option<RawJson> {
    // Stored for as long as the connection lives: no part of the message is kept alive for it.
    raw.map(|r| RawJson::trusted(bytes::Bytes::copy_from_slice(r.get().as_bytes())))
        .filter(RawJson::is_object)
}

impl Engine {
    /// Asks the first question
    pub(super) fn begin(&mut self) {
        match (self.config.modern().newest(), self.config.legacy().newest(), self.config.verdict) {
            (None, _, _) | (Some(_), Some(_), Some(Verdict::Legacy)) => self.initialize(Probe::None),
            (Some(version), _, _) => self.probe(version, false, None),
        }
    }

    /// Sends `server/discover` (VER-024, VER-028)
    fn probe(&mut self, version: Version, again: bool, refused: Option<RpcError>) {
        let last_try = refused.is_some();
        self.stage = Stage::Probing { again, refused };
        let config = alloc::sync::Arc::clone(&self.config);
        self.ask(Purpose::Probe, vocab::DISCOVER, |out| {
            out.extend_from_slice(b"{\"_meta\":{");
            out.extend_from_slice(config.stamp(version));
            out.extend_from_slice(b"}}");
        });
        let limits = &self.link.limits;
        // Silence leads on only where there is something else to try.
        // Over HTTP it is no sign at all: there a server that does not know a request says so (VER-021).
        let waits = self.exchanges
            || self.config.legacy().is_empty()
            || self.config.verdict == Some(Verdict::Modern)
            || last_try;
        let wait = if waits { limits.init_timeout } else { limits.probe_timeout };
        self.arm_opening(wait);
    }

    /// Sends `initialize` (LIFE-001, LIFE-002, VER-001, VER-002)
    fn initialize(&mut self, probe: Probe) {
        let Some(version) = self.config.legacy().newest() else { return };
        self.stage = Stage::Initializing { probe, refused: None };
        let config = alloc::sync::Arc::clone(&self.config);
        self.ask(Purpose::Handshake, vocab::INITIALIZE, |out| {
            out.extend_from_slice(b"{\"protocolVersion\":");
            write_str(out, version.as_str());
            out.extend_from_slice(b",\"capabilities\":");
            config.capabilities.write(out, version);
            out.extend_from_slice(b",\"clientInfo\":");
            config.info.write(out, version);
            out.push(b'}');
        });
        self.arm_opening(self.link.limits.init_timeout);
    }

    fn ask(&mut self, purpose: Purpose, method: &str, params: impl FnOnce(&mut Vec<u8>)) {
        let Some(main) = self.main else { return };
        // The stage has a deadline of its own; the table's are never reached.
        let never = core::time::Duration::MAX;
        let options = CallOptions::new().timeout(never).total(never);
        let key = self.link.outbound.calls.insert(OutCall::new(
            self.link.now,
            main,
            purpose,
            &options,
            &self.link.limits,
        ));
        self.link.send(main, |out| {
            encode::request_head(out, Outbound::wire_id(key), method);
            out.extend_from_slice(b",\"params\":");
            params(out);
            encode::end(out);
        });
    }

    pub(super) fn arm_opening(&mut self, wait: core::time::Duration) {
        self.link.opening += 1;
        let timer = Timer::Opening(self.link.opening);
        self.link.deadlines.arm(self.link.now + wait, timer);
    }

    /// The current question was not answered in time
    pub(super) fn opening_timed_out(&mut self) {
        match &mut self.stage {
            Stage::Probing { refused: None, .. } if !self.exchanges && !self.config.legacy().is_empty() => {
                // Silence is a weak sign: the probe stays open and its answer is remembered (VER-027). It is not
                // cancelled, which an old server might choke on.
                self.initialize(Probe::Unanswered);
            }
            Stage::Probing { refused: None, .. } => {
                self.close_with(Fault::HandshakeTimeout { method: vocab::DISCOVER });
            }
            Stage::Probing { refused: Some(error), .. }
            | Stage::Initializing { refused: Some(error), .. } => {
                let fault = Fault::Refused(error.clone());
                self.close_with(fault);
            }
            // LIFE-009, TIME-007: `initialize` is never cancelled; the connection is given up instead.
            Stage::Initializing { .. } => {
                self.close_with(Fault::HandshakeTimeout { method: vocab::INITIALIZE })
            }
            Stage::Idle | Stage::Ready | Stage::Over => {}
        }
    }

    /// What an end of the input means at this stage (VER-021)
    pub(super) fn eof_fault(&self) -> Fault {
        match &self.stage {
            // The server said why before it left.
            Stage::Probing { refused: Some(error), .. }
            | Stage::Initializing { refused: Some(error), .. } => Fault::Refused(error.clone()),
            Stage::Probing { .. } | Stage::Initializing { probe: Probe::Unanswered, .. } => {
                let legacy = !self.config.legacy().is_empty() && self.config.verdict != Some(Verdict::Legacy);
                Fault::ExitedDuringProbe { legacy }
            }
            _ => Fault::Eof,
        }
    }

    /// An answer to one of our questions
    pub(super) fn opening_answered(
        &mut self,
        key: Key,
        purpose: Purpose,
        outcome: Result<RawJson, RpcError>,
    ) {
        self.link.outbound.calls.remove(key);
        match (purpose, &mut self.stage) {
            (Purpose::Probe, Stage::Probing { .. }) => match outcome {
                Ok(result) => self.discovered(&result),
                Err(error) => self.probe_refused(error),
            },
            (Purpose::Probe, Stage::Initializing { probe: probe @ Probe::Unanswered, refused }) => {
                let late = late_answer(outcome, self.config.modern());
                let refused = refused.clone();
                *probe = late.map_or(Probe::Legacy, Probe::Modern);
                if let Some(error) = refused {
                    self.initialize_refused(error);
                }
            }
            (Purpose::Handshake, Stage::Initializing { .. }) => match outcome {
                Ok(result) => self.initialized(&result),
                Err(error) => self.initialize_refused(error),
            },
            // After the outcome is settled a late answer changes nothing.
            _ => {}
        }
    }

    /// `server/discover` was answered with a result
    fn discovered(&mut self, result: &RawJson) {
        let Ok(answer) = result.parse::<Discovery<'_>>() else {
            // Something that no modern server says.
            let why = RpcError::invalid_request("the result of `server/discover` is none");
            return self.fall_back(Some(why));
        };
        let theirs = known(&answer.supported_versions);
        let Some(version) = common(self.config.modern(), theirs, Era::Modern) else {
            let names = answer.supported_versions.iter().map(|v| String::from(&**v)).collect();
            return self.without_modern(theirs, names);
        };
        let capabilities = copy(answer.capabilities).unwrap_or_else(empty_object);
        let stamped = result.member("_meta").and_then(|m| m.member(meta::SERVER_INFO)).map(|i| i.compact());
        let peer = Peer {
            version,
            info: stamped.or_else(|| copy(answer.server_info)),
            flags: Capabilities::read(capabilities.as_bytes()),
            capabilities,
            instructions: answer.instructions.map(Cow::into_owned),
        };
        self.ready(peer);
    }

    /// `server/discover` was answered with an error
    fn probe_refused(&mut self, error: RpcError) {
        let Stage::Probing { again, .. } = self.stage else { return };
        match evidence(&error) {
            Evidence::Supports(names) => {
                let theirs = known(&names);
                match common(self.config.modern(), theirs, Era::Modern) {
                    // VER-010: once more, with a revision that both speak.
                    Some(version) if !again => self.probe(version, true, None),
                    Some(_) => self.close_with(Fault::Refused(error)),
                    None => self.without_modern(theirs, names),
                }
            }
            Evidence::Modern => self.close_with(Fault::Refused(error)), // VER-019, VER-026
            Evidence::Legacy => self.fall_back(Some(error)),            // VER-020, VER-025
        }
    }

    /// A modern server that has no modern revision in common with us
    fn without_modern(&mut self, theirs: VersionSet, names: Vec<String>) {
        if common(self.config.legacy(), theirs, Era::Legacy).is_some() {
            self.initialize(Probe::Legacy);
        } else {
            self.close_with(Fault::NoCommonVersion { ours: self.config.versions, theirs: names });
        }
    }

    /// The server does not know `server/discover`
    fn fall_back(&mut self, answer: Option<RpcError>) {
        if let Stage::Probing { refused: Some(error), .. } = &mut self.stage {
            // Both ways are closed; what the handshake was refused for says more.
            let fault = Fault::Refused(error.clone());
            self.close_with(fault);
        } else if self.config.legacy().is_empty() {
            self.close_with(Fault::LegacyServer { ours: self.config.versions, answer }); // VER-034
        } else {
            self.initialize(Probe::Legacy);
        }
    }

    /// `initialize` was answered with a result (VER-003, VER-006)
    fn initialized(&mut self, result: &RawJson) {
        let method = vocab::INITIALIZE;
        let Ok(answer) = result.parse::<Initialized<'_>>() else {
            return self.close_with(Fault::BadHandshake { method, why: "no `protocolVersion`" });
        };
        let offered =
            Version::from_name(&answer.protocol_version).filter(|v| self.config.legacy().contains(*v));
        let Some(version) = offered else {
            let theirs = [answer.protocol_version.into_owned()].into();
            return self.close_with(Fault::NoCommonVersion { ours: self.config.versions, theirs });
        };
        let capabilities = copy(answer.capabilities).unwrap_or_else(empty_object);
        let peer = Peer {
            version,
            info: copy(answer.server_info),
            flags: Capabilities::read(capabilities.as_bytes()),
            capabilities,
            instructions: answer.instructions.map(Cow::into_owned),
        };
        if let Some(main) = self.main {
            // LIFE-004: before anything else.
            self.link.send(main, |out| {
                encode::notification_head(out, vocab::INITIALIZED);
                encode::end(out);
            });
        }
        self.ready(peer);
    }

    /// `initialize` was answered with an error
    fn initialize_refused(&mut self, error: RpcError) {
        let Stage::Initializing { probe, refused } = &mut self.stage else { return };
        match core::mem::replace(probe, Probe::Legacy) {
            // The server was slow, not old.
            Probe::Modern(LateAnswer::Discovered(result)) => self.discovered(&result),
            Probe::Modern(LateAnswer::Supports(version)) => self.probe(version, true, Some(error)),
            Probe::Unanswered => {
                *probe = Probe::Unanswered;
                *refused = Some(error);
            }
            // A remembered verdict that proved wrong: ask once (VER-042).
            Probe::None if self.config.verdict.is_some() => match self.config.modern().newest() {
                Some(version) => self.probe(version, false, Some(error)),
                None => self.close_with(Fault::Refused(error)),
            },
            Probe::None | Probe::Legacy => match evidence(&error) {
                Evidence::Supports(theirs)
                    if common(self.config.legacy(), known(&theirs), Era::Legacy).is_none() =>
                {
                    self.close_with(Fault::NoCommonVersion { ours: self.config.versions, theirs });
                }
                _ => self.close_with(Fault::Refused(error)),
            },
        }
    }

    /// An answer that a server of the era which was settled on does not give
    pub(super) fn check_era(&mut self, error: &RpcError) {
        let era = self.peer.as_ref().map(|p| p.era());
        if era == Some(Era::Legacy) && matches!(evidence(error), Evidence::Supports(_)) {
            self.verdict = None;
            self.diagnose(Diagnostic::EraContradicted);
        }
    }
}

/// What an answer to the probe is worth when `initialize` is out already
fn late_answer(outcome: Result<RawJson, RpcError>, ours: VersionSet) -> Option<LateAnswer> {
    match outcome {
        Ok(result) => {
            let theirs = known(&result.parse::<Discovery<'_>>().ok()?.supported_versions);
            common(ours, theirs, Era::Modern).map(|_| LateAnswer::Discovered(result.compact()))
        }
        Err(error) => match evidence(&error) {
            Evidence::Supports(names) => common(ours, known(&names), Era::Modern).map(LateAnswer::Supports),
            _ => None,
        },
    }
}

fn empty_object() -> RawJson {
    RawJson::trusted(bytes::Bytes::from_static(b"{}"))
}
