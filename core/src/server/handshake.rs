//! Requests that the engine answers: `initialize`, `server/discover`, `ping`, subscriptions, log level.

use alloc::format;
use alloc::vec::Vec;

use bytes::Bytes;

use super::channel::{LegacySession, OUT_OF_MEMORY, ServerEndpoint, session};
use super::config::Config;
use super::engine::Engine;
use super::log;
use super::notifications::report_deprecated;
use super::request_check::MessageSource;
use super::tasks::{TaskContext, TaskRequestFrame};
use crate::built::{Legacy, Modern, Part, Subscribing, Tasking};
use crate::calls::observing::end_direct_answer;
use crate::deprecation::DeprecatedFeature;
use crate::json::{escaped_len, object_members, string, write_str};
use crate::model::TaskId;
use crate::raw::RawJson;
use crate::rpc::envelope::ParamsSpans;
use crate::rpc::{self, RequestId, RpcError, clip, code};
use crate::slab::Key;
use crate::version::Version;
use crate::{memory, methods};

/// Room for the members of the result of a handshake, without instructions and identity.
const HANDSHAKE_ROOM: usize = 256;

impl Engine {
    pub(super) fn answer_in_engine(
        &mut self,
        source: MessageSource<'_>,
        frame: &Bytes,
        id: &RequestId,
        method: &str,
        params: &ParamsSpans,
    ) {
        let (channel, root) = (source.channel, source.root);
        let text = params.whole.slice(frame).unwrap_or(b"{}");
        let mut body = Vec::new();
        let depends_on_config = matches!(method, methods::INITIALIZE | methods::DISCOVER);
        if depends_on_config && !make_room(self, &mut body) {
            let error = RpcError::internal(OUT_OF_MEMORY);
            return self.endpoint.send_error(channel, source.batch, Some(id), &error);
        }
        let outcome = match method {
            methods::INITIALIZE if Legacy::IS_BUILT => {
                initialize(&mut self.endpoint, &self.config, source, text)
                    .map(|version| self.config.write_initialize_result(&mut body, version))
            }
            methods::DISCOVER if Modern::IS_BUILT => {
                self.config.write_discover_result(&mut body);
                Ok(())
            }
            methods::SUBSCRIPTIONS_LISTEN if Modern::IS_BUILT && Subscribing::IS_BUILT => {
                let request = TaskRequestFrame { source, id, method, frame, params };
                let mut tasks = Vec::new();
                let mut host = self.tasks.as_mut();
                let mut cx = TaskContext {
                    endpoint: &mut self.endpoint,
                    config: &self.config,
                    events: &mut self.events,
                    ended: Vec::new(),
                };
                let accept = |cx: &mut TaskContext<'_>, ids: &[TaskId]| match &mut host {
                    Some(host) => host.accept_listener(cx, &request, ids).map(|accepted| {
                        tasks.clone_from(&accepted);
                        Some(accepted)
                    }),
                    None => Ok(None),
                };
                match self.changes.listen(&mut cx, channel, id, text, accept) {
                    // Answered when the subscription ends.
                    Ok(subscribed) => {
                        self.events.extend(subscribed);
                        // What tasks send now is no part of the acknowledgement.
                        end_direct_answer(&mut self.endpoint);
                        if !tasks.is_empty() {
                            self.with_tasks(|host, cx| host.listen(cx, channel, id, &tasks));
                        }
                        return;
                    }
                    Err(error) => Err(error),
                }
            }
            methods::TASKS_GET
            | methods::TASKS_RESULT
            | methods::TASKS_LIST
            | methods::TASKS_UPDATE
            | methods::TASKS_CANCEL
                if Tasking::IS_BUILT =>
            {
                let request = TaskRequestFrame { source, id, method, frame, params };
                match self.with_tasks(|tasks, cx| tasks.answer(cx, &request)) {
                    Some(()) => return,
                    None => Err(RpcError::method_not_found(method)),
                }
            }
            methods::RESOURCES_SUBSCRIBE | methods::RESOURCES_UNSUBSCRIBE
                if session(&self.endpoint, root).is_some_and(|s| s.is_stateless) =>
            {
                // A stateless session can neither keep the subscription nor send notifications.
                Err(RpcError::new(code::METHOD_NOT_FOUND, format!("`{method}` needs a session")))
            }
            methods::RESOURCES_SUBSCRIBE | methods::RESOURCES_UNSUBSCRIBE
                if Legacy::IS_BUILT && Subscribing::IS_BUILT =>
            {
                let subscribe = method == methods::RESOURCES_SUBSCRIBE;
                let changed = self.changes.update_resource(
                    &mut self.endpoint,
                    &self.config,
                    (channel, root),
                    text,
                    subscribe,
                );
                changed.map(|changed| self.events.extend(changed))
            }
            methods::SET_LEVEL if Legacy::IS_BUILT => {
                report_deprecated(self, source.channel, DeprecatedFeature::Logging);
                set_level(&mut self.endpoint, root, text)
            }
            methods::PING => Ok(()), // PING-002
            // The part of the engine that answers it is not built.
            _ => Err(RpcError::method_not_found(method)),
        };
        if let Err(error) = outcome {
            if let (Some(scopes), None) = (&error.required_scopes, source.batch) {
                if let Some(c) = self.endpoint.channels.get_mut(channel) {
                    c.role.stream.set_required_scopes(scopes);
                }
            }
            return self.endpoint.send_error(channel, source.batch, Some(id), &error);
        }
        if body.is_empty() {
            body.extend_from_slice(b"{}");
        }
        let write = |out: &mut Vec<u8>| {
            rpc::result_head(out, id);
            out.extend_from_slice(&body);
            rpc::end(out);
        };
        self.endpoint.send_or_batch(source.channel, source.batch, id, body.len(), write);
    }
}

/// Makes room for the result of a handshake, if the heap is bounded. Returns whether there is.
fn make_room(engine: &Engine, body: &mut Vec<u8>) -> bool {
    let texts = engine.config.instructions.as_ref().map_or(0, |text| escaped_len(text.as_bytes()));
    let limits = &engine.endpoint.limits;
    let bytes = limits.message_room() + HANDSHAKE_ROOM + engine.config.result_suffix.len() + texts;
    limits.memory_reserve == 0 || limits.hold_reserve().is_some_and(|_reserve| memory::reserve(body, bytes))
}

/// Results and errors that depend on the configuration only.
impl Config {
    fn write_initialize_result(&self, out: &mut Vec<u8>, version: Version) {
        out.extend_from_slice(b"{\"protocolVersion\":");
        write_str(out, version.as_str());
        out.extend_from_slice(b",\"capabilities\":");
        self.settings.capabilities.write(out, version);
        out.extend_from_slice(b",\"serverInfo\":");
        self.settings.write_info(out, version);
        self.write_instructions(out);
        out.push(b'}');
    }

    /// Appends the result of `server/discover` (VER-013). It is equal for all clients and does not change.
    fn write_discover_result(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"supportedVersions\":");
        self.advertised_versions().write(out);
        out.extend_from_slice(b",\"capabilities\":");
        self.settings.capabilities.write(out, Version::V2026_07_28);
        self.write_instructions(out);
        out.extend_from_slice(b",\"ttlMs\":3600000,\"cacheScope\":\"public\",");
        out.extend_from_slice(&self.result_suffix);
        out.push(b'}');
    }

    fn write_instructions(&self, out: &mut Vec<u8>) {
        if let Some(text) = &self.instructions {
            out.extend_from_slice(b",\"instructions\":");
            write_str(out, text);
        }
    }

    /// Returns error -32601 for `initialize` with the revisions that are served (VER-032).
    pub(super) fn unknown_initialize_error(&self) -> RpcError {
        let served = self.advertised_versions();
        let mut data = b"{\"supported\":".to_vec();
        served.write(&mut data);
        data.push(b'}');
        let message = format!("method not found: {}; supported: {served}", methods::INITIALIZE);
        RpcError::new(code::METHOD_NOT_FOUND, message).with_data(RawJson::trusted(data.into()))
    }

    /// Returns error -32022 with the revisions that are served (ERR-008, VER-009).
    pub(super) fn unsupported_version_error(&self, requested: &str) -> RpcError {
        let served = self.advertised_versions();
        let mut data = b"{\"supported\":".to_vec();
        served.write(&mut data);
        data.extend_from_slice(b",\"requested\":");
        write_str(&mut data, &clip(requested));
        data.push(b'}');
        RpcError::new(
            code::UNSUPPORTED_PROTOCOL_VERSION,
            format!("unsupported protocol version; supported: {served}"),
        )
        .with_data(RawJson::trusted(data.into()))
    }
}

/// Handles `logging/setLevel` (LOG-004, LOG-006).
///
/// # Errors
///
/// The error response to send.
fn set_level(endpoint: &mut ServerEndpoint, channel: Key, params: &[u8]) -> Result<(), RpcError> {
    let mut level = None;
    object_members(params, |name, value| {
        if name == b"level" {
            level = Some(value);
        }
    });
    let Some(severity) = level.and_then(log::parse_threshold) else {
        return Err(RpcError::invalid_params("`params.level` is not a known level"));
    };
    if let Some(session) = endpoint.channels.get_mut(channel).and_then(|c| c.role.session.as_mut()) {
        session.log.set_threshold(severity);
    }
    Ok(())
}

/// Opens a session, or negotiates that of a byte stream anew (LIFE-002, LIFE-008, VER-003, VER-004, VER-005).
///
/// # Errors
///
/// The error response to send.
fn initialize(
    endpoint: &mut ServerEndpoint,
    config: &Config,
    source: MessageSource<'_>,
    params: &[u8],
) -> Result<Version, RpcError> {
    let (mut requested, mut capabilities, mut info) = (None, None, None);
    object_members(params, |name, value| match name {
        b"protocolVersion" => requested = Some(value),
        b"capabilities" => capabilities = Some(value),
        b"clientInfo" => info = Some(value),
        _ => {}
    });
    let invalid = |name, what| RpcError::invalid_params(format!("`initialize`: `{name}` is {what}"));
    for (name, value) in [("capabilities", capabilities), ("clientInfo", info)] {
        match value {
            Some([b'{', ..]) => {}
            Some(_) => return Err(invalid(name, "not an object")),
            None => return Err(invalid(name, "missing")),
        }
    }
    let (capabilities, info) = (capabilities.unwrap_or_default(), info.unwrap_or_default());
    let requested = requested.ok_or_else(|| invalid("protocolVersion", "missing"))?;
    let requested = string(requested).ok_or_else(|| invalid("protocolVersion", "not a string"))?;
    let limit = endpoint.limits.max_peer_info;
    if capabilities.len() + info.len() > limit {
        let what = "`initialize`: identity and capabilities are longer than";
        return Err(RpcError::invalid_params(format!("{what} {limit} bytes")));
    }
    let served = config.legacy_versions();
    // An unknown or modern revision gets the newest legacy one; the client decides (VER-005, DESIGN-31).
    let version = Version::from_name(&requested)
        .filter(|v| served.contains(*v))
        .or_else(|| served.newest())
        .unwrap_or(Version::V2024_11_05);
    if let (Some(c), Some(marker)) = (endpoint.channels.get_mut(source.root), Legacy::get()) {
        c.allows_idless_errors = version >= Version::V2025_11_25; // DEC-004
        let parked_bytes = c.role.session.as_ref().map_or(0, |session| session.parked_bytes);
        let mut session = LegacySession::new(version, info, capabilities);
        // Calls of before the handshake end as they began (LIFE-008).
        session.parked_bytes = parked_bytes;
        c.role.session = Part::new(marker, session);
    }
    Ok(version)
}
