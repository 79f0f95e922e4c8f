//! The client of a trace, played by the client engine.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::time::Duration;

use mcp_proto::client::{Config, Event, Input, InputId, KnownEra, RefuseTarget, SubscriptionKey};
use mcp_proto::model::{Implementation, LoggingLevel, Map, SubscriptionFilter};
use mcp_proto::pipe::{Client, Pipe as _, Server};
use mcp_proto::{CallId, CallKey, CallOptions, Instant, RawJson, Version, VersionSet};

use super::player::{self, Refusal, Role, without};
use super::server::{declared, limits, rpc_error, said};
use crate::compare::Replayed;
use crate::message::Message;
use crate::record::Side;
use crate::trace::Trace;

/// Time that a replayed call has: when one was given up, its cancellation was recorded.
const CALL_TIMEOUT: Duration = Duration::from_secs(1 << 30);

/// Prefix of the members of `_meta` that the engine writes.
const OWN_META: &str = "io.modelcontextprotocol/";

/// Replays a trace into the client engine.
pub(super) fn replay(trace: &Trace) -> Replayed {
    let mut client = Client::new(Arc::new(config(trace)), Instant::ZERO);
    let is_handshake =
        |message: Message| matches!(message.method.as_deref(), Some("initialize" | "server/discover"));
    if !said(trace, Side::Client).any(is_handshake) {
        introduce(&mut client, trace);
    }
    let role = ClientRole {
        client,
        requests: VecDeque::new(),
        open: Vec::new(),
        calls: Vec::new(),
        rounds: Vec::new(),
        subscriptions: Vec::new(),
        level: None,
    };
    player::play(trace, Side::Client, role)
}

/// Introduces the server to a client that has never asked for it: the engine always does.
fn introduce(client: &mut Client, trace: &Trace) {
    let mut server = Server::new(Arc::new(super::server::config(trace)), Instant::ZERO);
    server.handle_input(Instant::ZERO, client.transmit());
    client.consume(client.transmit().len());
    while server.poll_event(Instant::ZERO).is_some() {}
    client.handle_input(Instant::ZERO, server.transmit());
    while client.poll_event(Instant::ZERO).is_some() {}
}

/// Returns the configuration of the client, from what it said of itself.
pub(crate) fn config(trace: &Trace) -> Config {
    let mut config = Config::new("client", "0").any_custom_method().limits(limits());
    let mut versions = VersionSet::NONE;
    let mut first = None;
    for message in said(trace, Side::Client) {
        let Some(method) = message.method.clone() else { continue };
        first.get_or_insert_with(|| method.clone());
        let meta = |name: &str| message.param("_meta")?.member(&format!("{OWN_META}{name}"));
        let (version, info, capabilities) = match method.as_str() {
            "initialize" => {
                (message.param("protocolVersion"), message.param("clientInfo"), message.param("capabilities"))
            }
            _ => (meta("protocolVersion"), meta("clientInfo"), meta("clientCapabilities")),
        };
        let Some(version) = version.and_then(|name| Version::from_name(&name.string()?)) else { continue };
        if versions.contains(version) {
            continue;
        }
        let is_first = versions.is_empty();
        versions = versions.with(version);
        // What it says first has all: the engine leaves out what an older revision lacks.
        if !is_first {
            continue;
        }
        if let Some(info) = info.and_then(|info| info.parse::<Implementation>().ok()) {
            config = config.info(info);
        } else {
            config = config.send_client_info(false);
        }
        if let Some(capabilities) = capabilities {
            config = config.capabilities(declared(&capabilities, version));
        }
    }
    // The server may have chosen another one than was asked for.
    for message in said(trace, Side::Server) {
        let chosen = message.result.as_ref().and_then(|result| result.member("protocolVersion"));
        let chosen = chosen.and_then(|name| Version::from_name(&name.string()?));
        versions = chosen.map_or(versions, |version| versions.with(version));
    }
    // A client that did not ask for the era knew it.
    let known = match first.as_deref() {
        Some("server/discover") | None => None,
        Some("initialize") => Some(KnownEra::Legacy),
        Some(_) => Some(KnownEra::Modern),
    };
    config.versions(versions).known_era(known)
}

/// The client and what it waits for.
struct ClientRole {
    client: Client,
    /// Requests of a legacy server that were read and have no event yet, by the text of their ids.
    requests: VecDeque<(String, String)>,
    /// Requests of a legacy server that were not answered.
    open: Vec<(String, Target)>,
    /// Calls that were made, by the text of their recorded ids.
    calls: Vec<(String, CallKey)>,
    /// Input requests of a modern server that were not answered.
    rounds: Vec<Input>,
    /// Subscriptions, by the text of their recorded ids, or by their URIs.
    subscriptions: Vec<(String, SubscriptionKey)>,
    /// Log level of modern requests.
    level: Option<String>,
}

enum Target {
    Input(InputId),
    Request(CallId),
}

impl ClientRole {
    fn respond(&mut self, now: Instant, recorded: &Message) -> Result<(), Refusal> {
        let id = recorded.id_text().unwrap_or_default();
        let Some(position) = self.open.iter().position(|(known, _)| *known == id) else {
            return Err(Refusal::Refused(format!(
                "the engine has no open request of the server with the id {id}"
            )));
        };
        let (_, target) = self.open.remove(position);
        let engine = self.client.engine();
        match (&recorded.result, &recorded.error, target) {
            (_, Some(error), Target::Input(id)) => {
                engine.refuse(now, RefuseTarget::Input(id), &rpc_error(error))?
            }
            (_, Some(error), Target::Request(id)) => {
                engine.refuse(now, RefuseTarget::Request(id), &rpc_error(error))?;
            }
            (Some(result), None, Target::Input(id)) => engine.answer(now, id, result)?,
            (Some(result), None, Target::Request(id)) => engine.respond(now, id, result)?,
            (None, None, _) => {}
        }
        Ok(())
    }

    fn call(&mut self, now: Instant, recorded: &Message, method: &str) -> Result<(), Refusal> {
        let params = recorded.params.clone().unwrap_or_else(RawJson::empty_object);
        if let Some(responses) = params.member("inputResponses") {
            return self.answer_rounds(now, &responses);
        }
        let id = recorded.id_text().unwrap_or_default();
        let engine = self.client.engine();
        let meta = params.member("_meta");
        let level = match method {
            "logging/setLevel" => params.member("level"),
            _ => meta.as_ref().and_then(|meta| meta.member("io.modelcontextprotocol/logLevel")),
        };
        let level = level.and_then(|level| level.string());
        if level != self.level {
            #[expect(deprecated, reason = "supported until its removal")]
            engine.set_log_level(now, level.as_deref().map(LoggingLevel::from))?;
            self.level = level.filter(|_| method != "logging/setLevel");
        }
        match method {
            "logging/setLevel" => return Ok(()),
            "subscriptions/listen" => {
                let filter = params.member("notifications").unwrap_or_else(RawJson::empty_object);
                let key = engine.subscribe(now, &filter.parse::<SubscriptionFilter>()?)?;
                self.subscriptions.push((id, key));
                return Ok(());
            }
            "resources/subscribe" => {
                let uri = params.member("uri").and_then(|uri| uri.string()).unwrap_or_default();
                let key = engine
                    .subscribe(now, &SubscriptionFilter::new().resource_subscriptions([uri.clone()]))?;
                self.subscriptions.push((uri, key));
                return Ok(());
            }
            "resources/unsubscribe" => {
                let uri = params.member("uri").and_then(|uri| uri.string()).unwrap_or_default();
                return self.unsubscribe(now, &uri);
            }
            _ => {}
        }
        let mut options = CallOptions::new();
        (options.timeout, options.total_timeout) = (Some(CALL_TIMEOUT), Some(CALL_TIMEOUT));
        if let Some(meta) = &meta {
            options.wants_progress = meta.member("progressToken").is_some();
            let own = without(meta, |name| name == "progressToken" || name.starts_with(OWN_META));
            options.meta = Some(own).filter(|own| own.as_str() != "{}");
        }
        let params = without(&params, |name| name == "_meta");
        let key = engine.call(now, method, &params, &options)?;
        self.calls.push((id, key));
        Ok(())
    }

    /// Ends a subscription, by the id of its request or by its URI.
    fn unsubscribe(&mut self, now: Instant, name: &str) -> Result<(), Refusal> {
        let Some(position) = self.subscriptions.iter().position(|(known, _)| known == name) else {
            return Err(Refusal::NoCommand("what it ends was not begun by a command".into()));
        };
        let (_, key) = self.subscriptions.remove(position);
        Ok(self.client.engine().unsubscribe(now, key)?)
    }

    /// Answers the input requests of a round, whose call the engine then repeats.
    fn answer_rounds(&mut self, now: Instant, responses: &RawJson) -> Result<(), Refusal> {
        // The youngest call that has asked for exactly these.
        let is_answered =
            |input: &Input| input.key.as_ref().is_some_and(|key| responses.member(key).is_some());
        let count = responses.parse::<Map<RawJson>>().map(|responses| responses.len()).unwrap_or_default();
        let is_whole = |call: Option<CallKey>| {
            let asked: Vec<_> = self.rounds.iter().filter(|input| input.call == call).collect();
            asked.len() == count && asked.into_iter().all(is_answered)
        };
        let Some(call) = self.rounds.iter().rev().map(|input| input.call).find(|call| is_whole(*call)) else {
            return Err(Refusal::Refused("no call of the engine waits for these responses".into()));
        };
        let (asked, rest) =
            core::mem::take(&mut self.rounds).into_iter().partition(|input| input.call == call);
        self.rounds = rest;
        let asked: Vec<Input> = asked;
        for input in asked {
            let response = input.key.as_ref().and_then(|key| responses.member(key));
            if let Some(response) = response {
                self.client.engine().answer(now, input.id, &response)?;
            }
        }
        Ok(())
    }

    fn notify(&mut self, now: Instant, recorded: &Message, method: &str) -> Result<(), Refusal> {
        let text = |name: &str| recorded.param(name).and_then(|value| value.string());
        let engine = self.client.engine();
        match method {
            "notifications/cancelled" => {
                let id = recorded.param("requestId").map(|id| id.as_str().to_owned()).unwrap_or_default();
                let found = self.calls.iter().find(|(known, _)| *known == id);
                let Some((_, key)) = found else { return self.unsubscribe(now, &id) };
                engine.cancel(now, *key, text("reason").as_deref())?;
            }
            "notifications/progress" => {
                let request = self.open.iter().find_map(|(_, target)| match target {
                    Target::Request(id) => Some(*id),
                    Target::Input(_) => None,
                });
                let Some(request) = request else {
                    return Err(Refusal::NoCommand("input requests have no progress".into()));
                };
                engine.progress(now, request, recorded.progress())?;
            }
            #[expect(deprecated, reason = "supported until its removal")]
            "notifications/roots/list_changed" => engine.notify_roots_changed(now)?,
            _ => engine.notify(now, method, recorded.params.as_ref())?,
        }
        Ok(())
    }
}

impl Role for ClientRole {
    type Engine = Client;

    fn engine(&mut self) -> &mut Client {
        &mut self.client
    }

    fn note_input(&mut self, recorded: &Message) {
        if let (Some(id), Some(method)) = (recorded.id_text(), &recorded.method) {
            if method != "ping" {
                self.requests.push_back((id, method.clone()));
            }
        }
    }

    fn handle_event(&mut self, _: Instant, event: Event) {
        match event {
            Event::Input(input) if input.key.is_some() => self.rounds.push(input),
            Event::Input(input) => {
                // Events come in the order of the requests; those that the engine has refused itself have none.
                let method = input.request.method();
                let position = self.requests.iter().position(|(_, known)| Some(known.as_str()) == method);
                if let Some((id, _)) = position.and_then(|position| self.requests.remove(position)) {
                    self.open.push((id, Target::Input(input.id)));
                }
            }
            Event::Request(request) => {
                let position = self.requests.iter().position(|(_, known)| *known == request.method);
                if let Some((id, _)) = position.and_then(|position| self.requests.remove(position)) {
                    self.open.push((id, Target::Request(request.id)));
                }
            }
            Event::Done { call, .. } => {
                self.calls.retain(|(_, known)| *known != call);
                self.rounds.retain(|input| input.call != Some(call));
            }
            _ => {}
        }
    }

    fn is_joined(&self, _: &Message) -> bool {
        false
    }

    fn act(&mut self, now: Instant, recorded: &[Message]) -> Result<(), Refusal> {
        let Some(recorded) = recorded.first() else { return Ok(()) };
        match &recorded.method {
            None => self.respond(now, recorded),
            Some(method) if recorded.id.is_some() => self.call(now, recorded, method),
            Some(method) => self.notify(now, recorded, method),
        }
    }
}
