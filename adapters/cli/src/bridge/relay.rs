//! The bridge without its bytes: what a client asks of the engine that faces it is asked of the server by the engine that
//! faces that, and back
//!
//! No I/O and no clock: whoever drives it polls both engines, hands their events in, and says when
//! [everything is told](Relay::settle).

use mcp_proto::client::{self, InputId};
use mcp_proto::model::Implementation;
use mcp_proto::server::{self, Call};
use mcp_proto::{
    CallError, CallId, CallKey, Capabilities, ChannelId, Era, Fault, Instant, Limits, RawJson, RpcError,
    Version, VersionSet,
};

use alloc::collections::BTreeMap;

use super::logs::Logs;
use super::news::News;
use super::{passage, shape};
use passage::{Asked, At, Outcome, Passage, Passages};

/// Both engines, at one moment, which each of them counts from a beginning of its own
pub(crate) struct Ends<'a> {
    /// On the clock of who faces the client, which is that of the bridge
    pub(crate) now: Instant,
    /// Faces the client
    pub(crate) down: &'a mut server::Engine,
    /// On the clock of who faces the server
    pub(crate) up_now: Instant,
    /// Faces the server
    pub(crate) up: &'a mut client::Engine,
}

/// Who may be there on the client's side
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Clients {
    /// One, on a byte stream: whatever the server says belongs to it
    One,
    /// Any number, over HTTP: what does not say whose it is goes to the only one that it can belong to, or to nobody
    Many,
}

/// What is under way between a client and a server
#[derive(Debug)]
pub(crate) struct Relay {
    clients: Clients,
    /// What the server speaks
    version: Version,
    pub(super) passages: Passages,
    pub(super) sessions: Vec<ChannelId>,
    /// What a legacy server asks of a client that has no call under way
    pub(super) strays: Vec<Asked>,
    /// When clients are asked what is known by then
    pub(super) gathers_until: Option<Instant>,
    pub(super) news: News,
    pub(super) logs: Logs,
    /// Requests of the server's own, by those that they led to
    requests: BTreeMap<CallKey, CallId>,
    /// Why the server is gone
    fault: Option<Fault>,
    /// Tools of which arguments are repeated in header fields, or no longer are
    mirrored: Vec<(String, RawJson)>,
    /// Those of which that is known, with their schemas
    known: BTreeMap<String, RawJson>,
}

impl Relay {
    /// A bridge to a server that has just become ready
    pub(crate) fn new(clients: Clients, peer: &client::Peer) -> Self {
        Self {
            clients,
            version: peer.version,
            passages: Passages::default(),
            sessions: Vec::new(),
            strays: Vec::new(),
            gathers_until: None,
            news: News::new(peer),
            logs: Logs::new(peer),
            requests: BTreeMap::new(),
            fault: None,
            mirrored: Vec::new(),
            known: BTreeMap::new(),
        }
    }

    /// Why the server is gone, if it is; calls are refused from then on
    pub(crate) const fn fault(&self) -> Option<&Fault> {
        self.fault.as_ref()
    }

    /// The next tool that has to be made known to a server over HTTP, with its schema
    pub(crate) fn poll_tool(&mut self) -> Option<(String, RawJson)> {
        self.mirrored.pop()
    }

    /// Calls that have not been answered
    #[cfg(test)]
    pub(crate) fn pending(&self) -> usize {
        self.passages.len()
    }

    /// The only client that something can be for which does not say whose it is
    pub(super) fn only_session(&self) -> Option<ChannelId> {
        match *self.sessions {
            [only] if self.is_alone() || !self.passages.any_modern() => Some(only),
            _ => None,
        }
    }

    pub(super) const fn is_legacy(&self) -> bool {
        matches!(self.version.era(), Era::Legacy)
    }

    pub(super) const fn is_alone(&self) -> bool {
        matches!(self.clients, Clients::One)
    }

    // ---- the client's side -----------------------------------------------------------------------------------

    /// Takes what the engine that faces the client tells
    pub(crate) fn server_event(&mut self, ends: &mut Ends<'_>, event: server::Event) {
        match event {
            server::Event::Call(call) => self.call(ends, call),
            server::Event::Cancelled { call, reason } => {
                let why = match &reason {
                    server::CancelReason::Client(Some(why)) => why,
                    server::CancelReason::Client(None) => "the client cancelled it",
                    server::CancelReason::Disconnected => "the client is gone",
                    _ => "it was given up",
                };
                if let Some((_, passage)) = self.passages.take_down(call) {
                    give_up(ends, &passage, why);
                }
            }
            server::Event::Dropped { state } => {
                let taken = passage::Token::read(&state).and_then(|token| self.passages.take(token.number));
                if let Some(passage) = taken {
                    give_up(ends, &passage, "the client cancelled it, or is gone");
                }
            }
            server::Event::SessionOpened { channel, .. } => self.sessions.push(channel),
            server::Event::Closed { channel, .. } => {
                self.sessions.retain(|other| *other != channel);
                for passage in self.passages.take_channel(channel) {
                    give_up(ends, &passage, "the client is gone");
                }
            }
            server::Event::Done { call, outcome } => {
                let Some(request) = self.requests.remove(&call) else { return };
                // Stale: the server does not want it any more.
                let _ = match outcome {
                    Ok(result) => ends.up.respond(ends.up_now, request, &result),
                    Err(error) => ends.up.refuse(ends.up_now, request, &shape::failed(&error)),
                };
            }
            server::Event::Interest { uri, wanted } => self.news.interest(uri, wanted),
            server::Event::Notification(news) => {
                // Refused when it is none that a client sends, or nobody can be told: it has no answer either way.
                let _ = match &*news.method {
                    "notifications/roots/list_changed" => ends.up.roots_changed(ends.up_now),
                    method => ends.up.notify(ends.up_now, method, news.params.as_ref()),
                };
            }
            _ => {}
        }
    }

    fn call(&mut self, ends: &mut Ends<'_>, call: Call) {
        if call.attempt() > 0 {
            return self.again(ends, call);
        }
        if let Some(fault) = &self.fault {
            return fail(ends, call.id(), &gone(fault));
        }
        if shape::is_task(call.method()) {
            return fail(ends, call.id(), &shape::no_tasks());
        }
        let asked = shape::params(&call, self.version).and_then(|params| {
            self.logs.before(ends, &call, &self.sessions);
            let mut options = mcp_proto::CallOptions::new();
            options.progress = call.wants_progress();
            options.meta = call.meta().and_then(|meta| shape::free(&meta));
            let key = ends.up.call(ends.up_now, call.method(), &params, &options);
            key.map_err(|refused| shape::refused(&refused, call.method()))
        });
        match asked {
            Ok(key) => self.passages.add(key, call),
            Err(error) => fail(ends, call.id(), &error),
        }
    }

    // ---- the server's side -----------------------------------------------------------------------------------

    /// Takes what the engine that faces the server tells
    pub(crate) fn client_event(&mut self, ends: &mut Ends<'_>, event: client::Event) {
        match event {
            client::Event::Done { call, outcome, .. } => self.done(ends, call, outcome),
            client::Event::Progress { call, progress } => {
                if let Some(call) = self.passages.by_up(call).and_then(Passage::here) {
                    // Refused when the client is gone, which is told by itself.
                    let _ = ends.down.progress(ends.now, call.id(), progress);
                }
            }
            client::Event::Input(input) => self.input(ends, input),
            client::Event::InputGone(input) => {
                self.strays.retain(|asked| asked.input != input);
                let number = self.passages.input_gone(input);
                // As long as anything else is needed, the client goes on with that.
                recall(ends, number.and_then(|number| self.passages.in_vain(number)));
            }
            client::Event::ElicitationComplete(id) => {
                if let Some(session) = self.only_session() {
                    ends.down.elicitation_complete(ends.now, session, &id);
                }
            }
            client::Event::Subscribed { key, .. } => self.news.subscribed(ends, key),
            client::Event::Changed { change, .. } => self.news.changed(ends, &change),
            client::Event::SubscriptionEnded { key, .. } => self.news.ended(ends, key),
            client::Event::Log(log) => self.log(ends, &log),
            client::Event::Request(request) => self.request(ends, &request),
            client::Event::RequestCancelled(request) => {
                let found = self.requests.iter().find(|(_, other)| **other == request);
                if let Some(call) = found.map(|(call, _)| *call) {
                    self.requests.remove(&call);
                    let why = "the server no longer needs it";
                    let _ = ends.down.cancel_request(ends.now, call, Some(why));
                }
            }
            client::Event::Notification(news) => {
                if let Some(session) = self.only_session() {
                    let _ = ends.down.notify(ends.now, session, &news.method, news.params.as_ref());
                }
            }
            client::Event::Closed(fault) => self.fault = Some(fault),
            _ => {}
        }
    }

    /// A legacy server asks something of its own
    fn request(&mut self, ends: &mut Ends<'_>, request: &client::Request) {
        let asked = match self.only_session() {
            _ if shape::is_task(&request.method) => Err(shape::no_tasks()),
            None => Err(RpcError::internal(
                "no client can be asked this: there is none that is known to be meant and that speaks a revision in which \
                 servers ask anything of their own",
            )),
            Some(session) => {
                let params = shape::theirs(request.params.as_ref());
                let options = mcp_proto::CallOptions::new();
                let asked = ends.down.request(ends.now, session, &request.method, &params, &options);
                asked.map_err(|refused| shape::refused(&refused, &request.method))
            }
        };
        match asked {
            Ok(call) => _ = self.requests.insert(call, request.id),
            Err(error) => _ = ends.up.refuse(ends.up_now, request.id, &error),
        }
    }

    fn done(&mut self, ends: &mut Ends<'_>, call: CallKey, outcome: Result<RawJson, CallError>) {
        let Some(number) = self.passages.done(call) else { return };
        let outcome = outcome.map_err(|error| shape::failed(&error));
        if self.passages.get(number).is_some_and(|passage| passage.here().is_some()) {
            self.finish(ends, number, outcome);
        } else {
            // It is told when the client comes with its answers, or at once where it can be called back.
            self.passages.hold(number, outcome);
            recall(ends, self.passages.away_with(number));
        }
    }

    /// Ends a call of the client's that is here with what came of it
    pub(super) fn finish(&mut self, ends: &mut Ends<'_>, number: u64, outcome: Outcome) {
        let Some(passage) = self.passages.take(number) else { return };
        if let At::Here(call) = passage.at {
            self.answer(ends, &call, outcome);
        }
        // Questions of a legacy server may have stood with the wrong call.
        for asked in passage.asked {
            match self.owner() {
                Some(owner) => self.place(ends, Some(owner), asked),
                None => refuse(ends, asked.input, &RpcError::internal("the call that this was for is over")),
            }
        }
    }

    fn answer(&mut self, ends: &mut Ends<'_>, call: &Call, outcome: Outcome) {
        let result = match outcome {
            Ok(result) => result,
            Err(error) => return fail(ends, call.id(), &error),
        };
        if call.method() == "tools/list" {
            self.look_at_tools(&result);
        }
        let shaped = shape::result(call.method(), &result, self.version, call.version());
        let answered = shaped.and_then(|shaped| {
            let answered = match shaped {
                shape::Shaped::AsItIs(result) => ends.down.complete_raw(ends.now, call.id(), &result),
                shape::Shaped::Anew(result) => ends.down.complete_prepared(ends.now, call.id(), &result),
            };
            answered.map_err(|refused| shape::unreadable(&refused))
        });
        if let Err(error) = answered {
            fail(ends, call.id(), &error);
        }
    }

    /// Notes which tools have arguments that clients over HTTP repeat in header fields
    fn look_at_tools(&mut self, result: &RawJson) {
        for tool in result.member("tools").and_then(|tools| tools.elements()).unwrap_or_default() {
            let Some(name) = tool.member("name").and_then(|name| name.string()) else { continue };
            let schema = tool.member("inputSchema").filter(|schema| schema.as_str().contains("x-mcp-header"));
            let schema = match (schema, self.known.contains_key(&name)) {
                (Some(schema), _) if self.known.len() < MAX_MIRRORED => schema.compact(),
                (None, true) => match RawJson::new("{}") {
                    Ok(nothing) => nothing,
                    Err(_) => continue,
                },
                _ => continue,
            };
            if self.known.get(&name) != Some(&schema) {
                self.known.insert(name.clone(), schema.clone());
                self.mirrored.push((name, schema));
            }
        }
    }

    // ---- both ------------------------------------------------------------------------------------------------

    /// Does what is to be done once, after any number of events: asks the client, follows resources, sets the log level
    pub(crate) fn settle(&mut self, ends: &mut Ends<'_>) {
        self.ask_all(ends);
        if self.fault.is_none() {
            self.news.settle(ends);
            self.logs.settle(ends, &self.sessions);
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) is to be called next
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let all = [self.passages.expires(), self.news.retries(), self.gathers_until];
        all.into_iter().flatten().min()
    }

    /// Lets time pass: clients that did not come back are given up
    pub(crate) fn handle_timeout(&mut self, ends: &mut Ends<'_>) {
        for passage in self.passages.expired(ends.now) {
            give_up(ends, &passage, "no answer in time");
        }
        self.news.handle_timeout(ends.now);
    }
}

/// What our server is that stands for one that is connected to
pub(crate) fn server_config(peer: &client::Peer, versions: VersionSet, limits: Limits) -> server::Config {
    let info = peer.info.as_ref().and_then(|info| info.parse::<Implementation>().ok());
    let mut capabilities = Capabilities::declared(&peer.capabilities);
    for (member, since) in [("experimental", Version::V2024_11_05), ("extensions", Version::V2026_07_28)] {
        if let Some(value) = peer.capabilities.member(member).filter(RawJson::is_object) {
            capabilities = capabilities.with_member(member, value.compact(), since);
        }
    }
    let mut config = server::Config::new("unknown", "unknown")
        .capabilities(capabilities)
        .versions(versions)
        .limits(limits)
        .any_custom_method()
        .send_server_info(info.is_some());
    if let Some(info) = info {
        config = config.info(info);
    }
    match &peer.instructions {
        Some(instructions) => config.instructions(instructions),
        None => config,
    }
}

/// The bounds of the side that faces clients
pub(crate) fn server_limits(mut limits: Limits) -> Limits {
    // What comes was held to a rate by who sent it.
    (limits.progress_burst, limits.progress_rate) = (u16::MAX, u16::MAX);
    limits
}

/// The bounds of the side that faces the server
pub(crate) fn client_limits(mut limits: Limits) -> Limits {
    // Calls that wait for their clients' answers are no longer in work there, and they are here.
    limits.max_pending_calls = limits.max_pending_calls.max(4 * limits.max_live_calls);
    limits.max_live_calls = limits.max_live_calls.max(1);
    limits
}

/// Answers a call with an error; one that has ended meanwhile needs none
pub(super) fn fail(ends: &mut Ends<'_>, call: CallId, error: &RpcError) {
    let _ = ends.down.fail(ends.now, call, error);
}

/// Tells the server that nobody waits for a call any more
fn give_up(ends: &mut Ends<'_>, passage: &Passage, why: &str) {
    if let Some(up) = passage.up {
        let _ = ends.up.cancel(ends.up_now, up, Some(why));
    }
    // A legacy server does not know that this was for that call.
    for asked in &passage.asked {
        refuse(ends, asked.input, &RpcError::internal(format!("the client gives no answer: {why}")));
    }
}

/// Takes back what a legacy client is asked in vain; a modern one cannot be told
fn recall(ends: &mut Ends<'_>, token: Option<passage::Token>) {
    if let Some(token) = token {
        ends.down.recall(ends.now, &token.write(), Some("the server no longer needs it"));
    }
}

/// Refuses something that the server asks for; it may have ended meanwhile
pub(super) fn refuse(ends: &mut Ends<'_>, input: InputId, error: &RpcError) {
    let _ = ends.up.refuse(ends.up_now, input, error);
}

/// The answer to calls when there is no server any more
pub(super) fn gone(fault: &Fault) -> RpcError {
    RpcError::internal(format!("the server behind the bridge is gone: {fault}"))
}

/// Tools with header fields that are remembered
const MAX_MIRRORED: usize = 4_096;
