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
use crate::calls::endpoint::IdlessErrors;
use crate::calls::observing::end_direct_answer;
use crate::deprecation::DeprecatedFeature;
use crate::json::{escaped_len, member, object_members, string, write_str};
use crate::model::TaskId;
use crate::raw::RawJson;
use crate::rpc::envelope::ParamsSpans;
use crate::rpc::{self, RequestId, RpcError, clip, code};
use crate::slab::Key;
use crate::version::Version;
use crate::{memory, methods};

/// Room for the members of the result of a handshake, without instructions and identity.
const HANDSHAKE_ROOM: usize = 256;

/// When a request to the engine has its answer.
enum Answer {
    /// Now, with the result in the buffer; an empty buffer means `{}`.
    Now,
    /// Later, from what took the request: a subscription when it ends, the tasks when they have the result.
    Later,
}

impl Engine {
    pub(super) fn answer_in_engine(
        &mut self,
        source: MessageSource<'_>,
        frame: &Bytes,
        id: &RequestId,
        method: &str,
        params: &ParamsSpans,
    ) {
        let mut body = Vec::new();
        match answer_method(self, &TaskRequestFrame { source, id, method, frame, params }, &mut body) {
            Ok(Answer::Later) => {}
            Ok(Answer::Now) => {
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
            Err(error) => {
                // A batch has one response, whose status cannot be that of a member.
                if let (Some(scopes), None) = (&error.required_scopes, source.batch) {
                    if let Some(c) = self.endpoint.channels.get_mut(source.channel) {
                        c.role.stream.set_required_scopes(scopes);
                    }
                }
                self.endpoint.send_error(source.channel, source.batch, Some(id), &error);
            }
        }
    }
}

/// Answers a request by its method. The result goes into `body`.
///
/// Of a part that is not built, the compiler drops the code behind its marker.
fn answer_method(
    engine: &mut Engine,
    request: &TaskRequestFrame<'_>,
    body: &mut Vec<u8>,
) -> Result<Answer, RpcError> {
    let &TaskRequestFrame { source, method, frame, params, .. } = request;
    let text = params.whole.slice(frame).unwrap_or(b"{}");
    let not_built = || RpcError::method_not_found(method);
    match method {
        methods::INITIALIZE => {
            Legacy::get().ok_or_else(not_built)?;
            // First: a session must not be negotiated anew whose client gets no answer.
            make_room(engine, body)?;
            let version = initialize(&mut engine.endpoint, &engine.config, source, text)?;
            engine.config.write_initialize_result(body, version);
        }
        methods::DISCOVER => {
            Modern::get().ok_or_else(not_built)?;
            make_room(engine, body)?;
            engine.config.write_discover_result(body);
        }
        methods::SUBSCRIPTIONS_LISTEN => {
            Modern::get().and(Subscribing::get()).ok_or_else(not_built)?;
            return listen(engine, request, text);
        }
        methods::TASKS_GET
        | methods::TASKS_RESULT
        | methods::TASKS_LIST
        | methods::TASKS_UPDATE
        | methods::TASKS_CANCEL => {
            Tasking::get().ok_or_else(not_built)?;
            let answered = engine.with_tasks(|tasks, cx| tasks.answer(cx, request));
            return answered.map(|()| Answer::Later).ok_or_else(not_built);
        }
        methods::RESOURCES_SUBSCRIBE | methods::RESOURCES_UNSUBSCRIBE => {
            Legacy::get().and(Subscribing::get()).ok_or_else(not_built)?;
            subscribe_resource(engine, request, text)?;
        }
        methods::SET_LEVEL => {
            Legacy::get().ok_or_else(not_built)?;
            report_deprecated(engine, source.channel, DeprecatedFeature::Logging);
            set_level(&mut engine.endpoint, source.root, text)?;
        }
        methods::PING => {} // PING-002
        _ => return Err(RpcError::method_not_found(method)),
    }
    Ok(Answer::Now)
}

/// Opens a subscription (`subscriptions/listen`), which is answered when it ends.
fn listen(engine: &mut Engine, request: &TaskRequestFrame<'_>, text: &[u8]) -> Result<Answer, RpcError> {
    let (channel, id) = (request.source.channel, request.id);
    let mut tasks = Vec::new();
    let host = &mut engine.tasks;
    let mut cx = TaskContext {
        endpoint: &mut engine.endpoint,
        config: &engine.config,
        events: &mut engine.events,
        ended: Vec::new(),
    };
    let accept = |cx: &mut TaskContext<'_>, ids: &[TaskId]| {
        let Some(host) = host.as_mut() else { return Ok(None) };
        tasks = host.accept_listener(cx, request, ids)?;
        Ok(Some(tasks.clone()))
    };
    let subscribed = engine.changes.listen(&mut cx, channel, id, text, accept)?;
    engine.events.extend(subscribed);
    // What tasks send now is no part of the acknowledgement.
    end_direct_answer(&mut engine.endpoint);
    // The acknowledgement is the first message of a subscription, so tasks are told of after it (SUB-004).
    if !tasks.is_empty() {
        engine.with_tasks(|host, cx| host.listen(cx, channel, id, &tasks));
    }
    Ok(Answer::Later)
}

/// Begins or ends the subscription to a resource (`resources/subscribe`, `resources/unsubscribe`).
fn subscribe_resource(
    engine: &mut Engine,
    request: &TaskRequestFrame<'_>,
    text: &[u8],
) -> Result<(), RpcError> {
    let (method, MessageSource { channel, root, .. }) = (request.method, request.source);
    if session(&engine.endpoint, root).is_some_and(|s| s.is_stateless) {
        // A stateless session can neither keep the subscription nor send notifications.
        return Err(RpcError::new(code::METHOD_NOT_FOUND, format!("`{method}` needs a session")));
    }
    let (place, subscribe) = ((channel, root), method == methods::RESOURCES_SUBSCRIBE);
    let changed =
        engine.changes.update_resource(&mut engine.endpoint, &engine.config, place, text, subscribe)?;
    engine.events.extend(changed);
    Ok(())
}

/// Makes room for the result of a handshake, if the heap is bounded.
fn make_room(engine: &Engine, body: &mut Vec<u8>) -> Result<(), RpcError> {
    let texts = engine.config.instructions.as_ref().map_or(0, |text| escaped_len(text.as_bytes()));
    let limits = &engine.endpoint.limits;
    let bytes = limits.message_room() + HANDSHAKE_ROOM + engine.config.result_suffix.len() + texts;
    let has_room = limits.memory_reserve == 0
        || limits.hold_reserve().is_some_and(|_reserve| memory::reserve(body, bytes));
    if has_room { Ok(()) } else { Err(RpcError::internal(OUT_OF_MEMORY)) }
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
        // The text is that of the peer, and may be as long as a frame.
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
    let Some(severity) = member(params, "level").and_then(log::parse_threshold) else {
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
    // Both are kept as long as the session, so the peer must not choose their size.
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
        c.idless_errors = IdlessErrors::in_session(version, &config.settings);
        let parked_bytes = c.role.session.as_ref().map_or(0, |session| session.parked_bytes);
        let mut session = LegacySession::new(version, info, capabilities, &endpoint.memory);
        // Calls of before the handshake end as they began (LIFE-008).
        session.parked_bytes = parked_bytes;
        c.role.session = Part::new(marker, session);
    }
    Ok(version)
}

#[cfg(feature = "legacy")]
#[cfg(test)]
mod tests {
    use alloc::string::String;

    use super::*;
    use crate::limits::Limits;
    use crate::sync::Arc;

    #[test]
    fn room_for_a_handshake_is_little_more_than_its_result_needs() {
        let texts = [String::new(), "x".repeat(5_000), "\u{1}\"\\".repeat(900)];
        for (text, name) in texts.iter().flat_map(|text| [(text, 1), (text, 3_000)]) {
            let limits = Limits { memory_reserve: 1, ..Limits::small() };
            let message_room = limits.message_room();
            let config = Config::new("s".repeat(name), "1").limits(limits).instructions(text.clone());
            let (engine, mut body, mut result) = (Engine::new(Arc::new(config)), Vec::new(), Vec::new());
            make_room(&engine, &mut body).expect("memory");
            engine.config.write_initialize_result(&mut result, Version::V2025_11_25);
            let least = result.len() + message_room;
            // An escape takes six bytes at most.
            let most = least + HANDSHAKE_ROOM + 4 * text.len();
            assert!((least..=most).contains(&body.capacity()), "{} of {least}..={most}", body.capacity());
        }
    }
}
