//! The server of a trace, played by the server engine.

use alloc::sync::Arc;

use mcp_proto::model::{Implementation, InputRequest, InputRequests, LoggingLevel};
use mcp_proto::pipe::Server;
use mcp_proto::seal::{Binding, Keys, RequestState, digest};
use mcp_proto::server::{Call, Config, Event};
use mcp_proto::{Anchor, Capabilities, Change, Instant, Limits, RawJson, RpcError, Version, VersionSet};

use super::player::{self, Refusal, Role, without};
use crate::compare::Replayed;
use crate::compare::comparison::NO_TASKS;
use crate::compare::relation::is_input_request;
use crate::message::Message;
use crate::record::{Content, Side};
use crate::trace::Trace;

/// Replays a trace into the server engine.
pub(super) fn replay(trace: &Trace) -> Replayed {
    let config = config(trace);
    let server = Server::new(Arc::new(config), Instant::ZERO);
    player::play(
        trace,
        Side::Server,
        ServerRole {
            server,
            calls: Vec::new(),
            waiting: Vec::new(),
            cancelled: Vec::new(),
            seed: trace.header.seed(),
        },
    )
}

/// Returns the configuration of the server, from what it said of itself.
pub(crate) fn config(trace: &Trace) -> Config {
    let mut config = Config::new("server", "0").any_custom_method().limits(limits());
    let mut versions = VersionSet::NONE;
    let (mut sends_info, mut is_described) = (false, false);
    // Another seed seals other bytes, which are translated.
    let seed = trace.header.seed().unwrap_or_default();
    let anchor = Anchor::new(Instant::ZERO, trace.header.unix_millis / 1_000);
    config = config.seal_lazily(|| Some((seed, anchor)));
    for message in said(trace, Side::Server) {
        let Some(result) = &message.result else { continue };
        let meta_info =
            result.member("_meta").and_then(|meta| meta.member("io.modelcontextprotocol/serverInfo"));
        sends_info |= meta_info.is_some();
        if let Some(info) =
            result.member("serverInfo").or(meta_info).and_then(|info| info.parse::<Implementation>().ok())
        {
            config = config.info(info);
        }
        let names = |result: &RawJson| result.member("supportedVersions").and_then(|names| names.elements());
        let spoken: Vec<Version> = match (result.member("protocolVersion"), names(result)) {
            (Some(version), _) => vec![version],
            (None, Some(versions)) => versions,
            (None, None) => continue,
        }
        .iter()
        .filter_map(|name| Version::from_name(&name.string()?))
        .collect();
        let Some(capabilities) = result.member("capabilities") else { continue };
        versions = spoken.iter().fold(versions, |versions, version| versions.with(*version));
        let since = spoken.iter().min().copied().unwrap_or(Version::V2024_11_05);
        config = config.capabilities(declared(&capabilities, since));
        is_described = true;
        if let Some(text) = result.member("instructions").and_then(|text| text.string()) {
            config = config.instructions(text);
        }
    }
    if !is_described {
        // It was never asked. What clients used, it had.
        let all = r#"{"completions":{},"logging":{},"prompts":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true},"tools":{"listChanged":true}}"#;
        let all = RawJson::new(all).map(|all| Capabilities::from_json(&all));
        config = config.capabilities(all.unwrap_or_default());
    }
    config.versions(versions).send_server_info(sends_info)
}

/// Limits under which a replay is not slower than what was recorded.
pub(super) fn limits() -> Limits {
    let mut limits = Limits::default();
    (limits.progress_burst, limits.progress_rate) = (u16::MAX, u16::MAX);
    limits
}

/// Reads capabilities with the members that the engine does not know.
pub(super) fn declared(object: &RawJson, since: Version) -> Capabilities {
    const KNOWN: [&str; 10] = [
        "completions",
        "elicitation",
        "extensions",
        "logging",
        "prompts",
        "resources",
        "roots",
        "sampling",
        "tasks",
        "tools",
    ];
    let mut capabilities = Capabilities::from_json(object);
    let _ = object.retain_members(|name| {
        if let (false, Some(value)) = (KNOWN.contains(&name), object.member(name)) {
            capabilities = core::mem::take(&mut capabilities).with_member(name, value, since);
        }
        true
    });
    capabilities
}

/// Returns what a side has said, message by message.
pub(super) fn said(trace: &Trace, side: Side) -> impl Iterator<Item = Message> {
    let lines = trace.records.iter().filter(move |record| record.from == side);
    lines.filter_map(|record| match &record.content {
        Content::Line(line) => Message::parse(&line.text.to_bytes()?),
        _ => None,
    })
}

/// The server and the calls that it has not answered.
struct ServerRole {
    server: Server,
    /// In the order in which they came, by the text of their ids.
    calls: Vec<(String, Call)>,
    /// Legacy calls that wait for input.
    waiting: Vec<WaitingCall>,
    /// Ids of calls that ended without an answer.
    cancelled: Vec<String>,
    /// What the keys of recorded states are made of.
    seed: Option<[u8; 32]>,
}

/// A legacy call that waits for the responses to a round of input requests.
struct WaitingCall {
    /// The text of its id.
    id: String,
    /// The texts of the ids of its input requests, as they were recorded. The first one is its state in the engine.
    requests: Vec<String>,
}

impl ServerRole {
    fn position(&self, id: &str) -> Result<usize, Refusal> {
        if let Some(position) = self.calls.iter().position(|(known, _)| known == id) {
            return Ok(position);
        }
        let bare = |id: &str| id.trim_matches('"').to_owned();
        let reason = match self.calls.iter().find(|(known, _)| bare(known) == bare(id)) {
            Some((known, call)) => {
                format!("the open call of `{}` has the id {known}, which is not {id}", call.method())
            }
            None => format!("the engine has no open call with the id {id}"),
        };
        Err(Refusal::Refused(reason))
    }

    fn respond(&mut self, now: Instant, recorded: &Message) -> Result<(), Refusal> {
        // The answer to a message that had no id that could be read is the engine's own.
        let Some(id) = recorded.id_text().filter(|id| id != "null") else {
            return Err(Refusal::NoCommand("it answers a message that the transport has refused".into()));
        };
        let meta = recorded.result.as_ref().and_then(|result| result.member("_meta"));
        if meta.is_some_and(|meta| meta.member("io.modelcontextprotocol/subscriptionId").is_some()) {
            let channel = self.server.channel();
            self.server.engine().end_subscriptions(now, channel);
            return Ok(());
        }
        if let Some(position) = self.cancelled.iter().position(|cancelled| *cancelled == id) {
            self.cancelled.remove(position);
            return Err(Refusal::NoCommand(
                "its call was cancelled, and the engine answers no such call".into(),
            ));
        }
        let position = self.position(&id)?;
        let Some((_, call)) = self.calls.get(position) else { return Ok(()) };
        let engine = self.server.engine();
        if let Some(error) = &recorded.error {
            engine.fail(now, call.id(), &rpc_error(error))?;
        } else if let Some(result) = &recorded.result {
            let kind = result.member("resultType").and_then(|kind| kind.string());
            if kind.as_deref() == Some("input_required") {
                let requests: InputRequests<'static> = match result.member("inputRequests") {
                    Some(requests) => requests
                        .parse::<InputRequests<'_>>()?
                        .into_iter()
                        .map(|(name, request)| (name, request.into_owned()))
                        .collect(),
                    None => InputRequests::default(),
                };
                let sealed = result.member("requestState").and_then(|state| state.string());
                // A state of its own where the recorded server has kept one that cannot be opened.
                let state = sealed.map(|sealed| {
                    self.seed
                        .and_then(|seed| kept_state(seed, call, &sealed))
                        .unwrap_or_else(|| b"state".to_vec())
                });
                engine.need_input(now, call, &requests, &state.unwrap_or_default())?;
            } else {
                let is_own = |name: &str| name == "resultType" && kind.as_deref() == Some("complete");
                engine.complete_raw(now, call.id(), &without(&without_server_info(result), is_own))?;
            }
        }
        self.calls.remove(position);
        Ok(())
    }

    /// Sends a request of the server: by itself, or for the call that needs it.
    fn request(&mut self, now: Instant, recorded: &[Message], method: &str) -> Result<(), Refusal> {
        let Some(first) = recorded.first() else { return Ok(()) };
        if !is_question(first) {
            let params = first.params.clone().unwrap_or_else(RawJson::empty_object);
            let channel = self.server.channel();
            let params = without(&params, |name| name == "_meta");
            self.server.engine().request(now, channel, method, &params, &mcp_proto::CallOptions::new())?;
            return Ok(());
        }
        let asks = |call: &Call| matches!(call.method(), "tools/call" | "prompts/get" | "resources/read");
        // The youngest one that can ask: no revision says which call a request belongs to.
        let Some(position) = self.calls.iter().rposition(|(_, call)| asks(call)) else {
            return Err(Refusal::NoCommand(format!(
                "the engine sends `{method}` only for a call that needs it"
            )));
        };
        let mut requests = InputRequests::default();
        for (number, message) in recorded.iter().enumerate() {
            let method = message.method.as_deref().unwrap_or_default();
            // Its `_meta` is for the engine to write.
            let params = message.params.as_ref().map(|params| without(params, |name| name == "_meta"));
            let request = InputRequest::from_parts(method, params.as_ref())?.into_owned();
            // In their order.
            requests.insert(format!("{number:04}"), request);
        }
        let state = first.id_text().unwrap_or_default();
        if let Some((_, call)) = self.calls.get(position) {
            self.server.engine().need_input(now, call, &requests, state.as_bytes())?;
        }
        let (id, _) = self.calls.remove(position);
        let requests = recorded.iter().map(|message| message.id_text().unwrap_or_default()).collect();
        self.waiting.push(WaitingCall { id, requests });
        Ok(())
    }

    fn notify(&mut self, now: Instant, recorded: &Message, method: &str) -> Result<(), Refusal> {
        let channel = self.server.channel();
        let text = |name: &str| recorded.param(name).and_then(|value| value.string());
        let change = match method {
            "notifications/tools/list_changed" => Some(Change::Tools),
            "notifications/prompts/list_changed" => Some(Change::Prompts),
            "notifications/resources/list_changed" => Some(Change::Resources),
            "notifications/resources/updated" => Some(Change::Resource(text("uri").unwrap_or_default())),
            _ => None,
        };
        let of_task = |meta: RawJson| meta.member("io.modelcontextprotocol/related-task").is_some();
        if method.starts_with("notifications/tasks/") || recorded.param("_meta").is_some_and(of_task) {
            return Err(Refusal::NoCommand(NO_TASKS.into()));
        }
        let engine = self.server.engine();
        if let Some(change) = change {
            return match engine.publish(now, &change) {
                0 => Err(Refusal::Refused("nobody has subscribed to the change".into())),
                _ => Ok(()),
            };
        }
        match method {
            "notifications/progress" => {
                let token = recorded.param("progressToken");
                let has_token = |call: &Call| {
                    let meta = call.meta().and_then(|meta| meta.member("progressToken"));
                    meta.is_some() && meta == token
                };
                let found = self.calls.iter().find(|(_, call)| has_token(call));
                let Some((_, call)) = found else {
                    return Err(Refusal::Refused("no open call has the progress token".into()));
                };
                engine.progress(now, call.id(), recorded.progress())?;
            }
            "notifications/message" => {
                let level = text("level").unwrap_or_default();
                let level = LoggingLevel::from(level.as_str());
                let data = recorded.param("data").unwrap_or_else(RawJson::empty_object);
                let logger = text("logger");
                #[expect(deprecated, reason = "supported until its removal")]
                match self.calls.last() {
                    Some((_, call)) => engine.log(now, call.id(), &level, logger.as_deref(), &data)?,
                    None => engine.log_session(now, channel, &level, logger.as_deref(), &data)?,
                };
            }
            "notifications/elicitation/complete" => {
                engine.notify_elicitation_complete(now, channel, &text("elicitationId").unwrap_or_default());
            }
            "notifications/cancelled" => {
                let id = recorded.param("requestId").map(|id| id.as_str().to_owned()).unwrap_or_default();
                let round = self.waiting.iter().find(|waiting| waiting.requests.contains(&id));
                if let Some(state) = round.and_then(|round| round.requests.first()) {
                    engine.withdraw_input(now, state.as_bytes(), text("reason").as_deref());
                }
            }
            // The engine says it by itself. What it says instead is the difference.
            "notifications/subscriptions/acknowledged" => {}
            _ => engine.notify(now, channel, method, recorded.params.as_ref())?,
        }
        Ok(())
    }
}

impl Role for ServerRole {
    type Engine = Server;

    fn engine(&mut self) -> &mut Server {
        &mut self.server
    }

    fn note_input(&mut self, _: &Message) {}

    fn handle_event(&mut self, _: Instant, event: Event) {
        match event {
            Event::Call(call) => {
                let id = self.server.engine().request_id(call.id()).and_then(|id| RawJson::encode(id).ok());
                if let Some(id) = id {
                    self.waiting.retain(|waiting| waiting.id != id.as_str());
                    self.calls.push((id.as_str().to_owned(), call));
                }
            }
            Event::ParkedCallDropped { state } => {
                let is_dropped = |waiting: &WaitingCall| {
                    waiting.requests.first().is_some_and(|first| first.as_bytes() == &*state)
                };
                if let Some(position) = self.waiting.iter().position(is_dropped) {
                    self.cancelled.push(self.waiting.remove(position).id);
                }
            }
            Event::Cancelled { call, .. } => {
                if let Some(position) = self.calls.iter().position(|(_, known)| known.id() == call) {
                    self.cancelled.push(self.calls.remove(position).0);
                }
            }
            _ => {}
        }
    }

    fn is_joined(&self, recorded: &Message) -> bool {
        is_question(recorded)
    }

    fn act(&mut self, now: Instant, recorded: &[Message]) -> Result<(), Refusal> {
        let Some(first) = recorded.first() else { return Ok(()) };
        match &first.method {
            None => self.respond(now, first),
            Some(method) if first.id.is_some() => self.request(now, recorded, method),
            Some(method) => self.notify(now, first, method),
        }
    }
}

/// Returns the state of the application that a server has sealed for a call by this seed.
fn kept_state(seed: [u8; 32], call: &Call, sealed: &str) -> Option<Vec<u8>> {
    let params = call.params().unwrap_or_else(RawJson::empty_object);
    let target = match call.method() {
        "resources/read" => params.member("uri"),
        _ => params.member("name"),
    };
    let target = target.and_then(|target| target.string()).unwrap_or_default();
    let arguments = params.member("arguments");
    let arguments = digest(arguments.as_ref().map(RawJson::as_bytes)).ok()?;
    let binding = Binding { principal: None, method: call.method(), target: &target, arguments };
    // At the beginning of time nothing has expired.
    let payload = Keys::new(seed).open(&binding, 0, sealed, usize::MAX).ok()?;
    Some(RequestState::decode(&payload).ok()?.state.to_vec())
}

/// Returns whether a request asks for input: several at once are one round of a call.
fn is_question(message: &Message) -> bool {
    message.id.is_some() && is_input_request(message.method.as_deref())
}

/// Returns a result without the identity that the engine adds.
fn without_server_info(result: &RawJson) -> RawJson {
    use mcp_proto::MemberEdit;
    let edited = result.edit_members(|name, value| {
        if name != "_meta" {
            return MemberEdit::Keep;
        }
        let meta = without(&value, |name| name == "io.modelcontextprotocol/serverInfo");
        match meta.as_str() {
            "{}" if value.as_str() != "{}" => MemberEdit::Drop,
            _ => MemberEdit::Replace(meta),
        }
    });
    edited.unwrap_or_else(|| result.clone())
}

/// Reads an error object.
pub(super) fn rpc_error(error: &RawJson) -> RpcError {
    let code = error.member("code").and_then(|code| code.parse().ok()).unwrap_or_default();
    let message = error.member("message").and_then(|message| message.string()).unwrap_or_default();
    let read = RpcError::new(code, message);
    match error.member("data") {
        Some(data) => read.with_data(data),
        None => read,
    }
}
