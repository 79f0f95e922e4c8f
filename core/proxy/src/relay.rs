//! The bridge without I/O: relays calls between the engine that faces the client (*downstream*) and the one that faces
//! the server (*upstream*).
//!
//! It performs no I/O and reads no clock. The driver polls both engines, passes their events in, and calls
//! [`process_pending()`](Relay::process_pending) after each batch of events.

use mcp_proto::client::{self, InputId};
use mcp_proto::server::{self, Call};
use mcp_proto::{
    CallError, CallId, CallKey, Capabilities, Capability, Change, ChannelId, Diagnostic, Era, Fault, Instant,
    Limits, RawJson, RpcError, Version, VersionSet,
};

use alloc::borrow::Cow;
use alloc::collections::{BTreeMap, VecDeque};
use core::time::Duration;

use super::logs::UpstreamLogLevel;
use super::search::{Catalogue, ToolSearch};
use super::server_life::ServerLife;
use super::subscriptions::{Notice, UpstreamSubscriptions};
use super::tasks::{ServerTasks, is_continued};
use super::{convert, relayed_call};
use relayed_call::{Delivery, DownstreamCall, Others, RelayOutcome, RelayedCall, RelayedCalls, RelayedInput};

/// Both engines and the current time on the clock of each.
pub struct Engines<'a> {
    /// Current time on the downstream clock, which is also the clock of the bridge.
    pub now: Instant,
    /// Engine that faces the client.
    pub downstream: &'a mut server::Engine,
    /// Current time on the upstream clock.
    pub upstream_now: Instant,
    /// Engine that faces the server.
    pub upstream: &'a mut client::Engine,
}

/// Number of clients that may be connected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClientCount {
    /// One client on a byte stream. Every message of the server belongs to it.
    One,
    /// Any number of clients over HTTP. A message without an owner goes to the only possible client, or is dropped.
    ///
    /// Modern clients have no sessions: a call whose client is being asked does not count, because that client may be the next
    /// one that calls, or never come back.
    Many,
    /// Any number of clients, each on a byte stream of its own. As [`Many`](Self::Many), but all calls of clients that are there count.
    Streams,
}

/// The parties that have used a server since its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum User {
    None,
    Session(ChannelId),
    /// Several, or one that has no session.
    Any,
}

/// State of all relayed calls, sessions and subscriptions.
#[derive(Debug)]
pub struct Relay {
    pub(super) clients: ClientCount,
    /// Revision that the server speaks.
    pub(super) version: Version,
    pub(super) life: ServerLife,
    /// Calls that wait until the server has been started.
    pub(super) held_calls: Vec<Delivery>,
    /// Largest number of calls that the server has at a time.
    pub(super) max_calls: Option<usize>,
    /// Number of lists that the gateway has asked the server for, or is about to.
    pub(super) listing: usize,
    /// Calls for resources that the server does not know, with the upstreams that may.
    pub(super) unfound: Vec<(Call, Others)>,
    /// Who has used the server since its start.
    user: User,
    /// Whether a policy decides what each principal sees: what belongs to no call is shown to no client.
    pub(super) has_policy: bool,
    /// Calls of `search` and `call`, if the bridge has these. A gateway has its own.
    pub(super) search: Option<ToolSearch>,
    /// The tools of the server, if clients see none of them and are not told when they change.
    pub(super) catalogue: Option<Catalogue>,
    /// Whether a search waits for them.
    pub(super) is_searched: bool,
    /// Changes of which the gateway tells those who may know of them, because there is a policy.
    pub(super) notices: Vec<Notice>,
    /// Name of the server in a gateway.
    pub(super) name: Option<Box<str>>,
    /// What precedes the names of its tools and prompts.
    pub(super) prefix: Option<Box<str>>,
    pub(super) calls: RelayedCalls,
    pub(super) tasks: ServerTasks,
    pub(super) sessions: Vec<ChannelId>,
    /// Input requests of a legacy server that arrived while no call could carry them.
    pub(super) unassigned_inputs: Vec<RelayedInput>,
    /// Time at which gathered input requests are sent.
    pub(super) gather_deadline: Option<Instant>,
    pub(super) subscriptions: UpstreamSubscriptions,
    pub(super) log_level: UpstreamLogLevel,
    /// Requests of the server, by the calls to the client that they led to.
    pub(super) upstream_requests: BTreeMap<CallKey, CallId>,
    /// Reason why the connection to the last server has ended.
    pub(super) fault: Option<Fault>,
    /// Tools whose header arguments have changed, with their schemas.
    changed_header_tools: VecDeque<(String, RawJson)>,
    /// All tools with header arguments that are known, with their schemas. Bounded by [`MAX_HEADER_TOOLS`].
    known_header_tools: BTreeMap<String, RawJson>,
    /// Faults of the server that cost less than a call.
    diagnostics: Vec<Diagnostic>,
    /// Instructions of the server, at most [`MAX_INSTRUCTIONS`] characters.
    pub(super) instructions: Option<String>,
    /// What helps if the server refuses access: for clients, and for whoever runs the proxy.
    access_help: Option<[Box<str>; 2]>,
    /// The last refusal of access, for whoever runs the proxy.
    access_refusal: Option<String>,
}

impl Relay {
    /// Creates a bridge to a server that has just become ready. It is ended after `idle_timeout` without use.
    pub fn new(
        clients: ClientCount,
        peer: &client::Peer,
        now: Instant,
        idle_timeout: Option<Duration>,
    ) -> Self {
        let mut relay = Self::waiting(clients, ServerLife::new(now, idle_timeout));
        relay.set_peer(peer);
        relay
    }

    /// Sets the number that tells this relay from others whose engines have the same seal keys, for example a random one.
    ///
    /// Without it, keys must not be shared: a client that is asked by one process could answer for a call of another one.
    #[must_use]
    pub const fn instance(mut self, number: u64) -> Self {
        self.calls.instance = number;
        self
    }

    /// Creates a relay to a server that is not connected.
    fn waiting(clients: ClientCount, life: ServerLife) -> Self {
        Self {
            clients,
            version: Version::V2026_07_28,
            life,
            held_calls: Vec::new(),
            max_calls: None,
            listing: 0,
            unfound: Vec::new(),
            user: User::None,
            has_policy: false,
            search: None,
            catalogue: None,
            is_searched: false,
            notices: Vec::new(),
            name: None,
            prefix: None,
            calls: RelayedCalls::default(),
            tasks: ServerTasks::default(),
            sessions: Vec::new(),
            unassigned_inputs: Vec::new(),
            gather_deadline: None,
            subscriptions: UpstreamSubscriptions::default(),
            log_level: UpstreamLogLevel::default(),
            upstream_requests: BTreeMap::new(),
            fault: None,
            changed_header_tools: VecDeque::new(),
            known_header_tools: BTreeMap::new(),
            diagnostics: Vec::new(),
            instructions: None,
            access_help: None,
            access_refusal: None,
        }
    }

    /// Creates a relay to an upstream of a gateway, which is to be started.
    pub(super) fn of_gateway(
        clients: ClientCount,
        (upstream, name): (u16, &str),
        sessions: &[ChannelId],
        now: Instant,
        idle_timeout: Option<Duration>,
    ) -> Self {
        Self {
            name: Some(name.into()),
            prefix: Some(format!("{name}_").into()),
            calls: RelayedCalls::of_upstream(upstream),
            sessions: sessions.to_vec(),
            ..Self::waiting(clients, ServerLife::due(now, idle_timeout))
        }
    }

    /// Sets what is known of a server that has just become ready.
    pub(super) fn set_peer(&mut self, peer: &client::Peer) {
        self.version = peer.version;
        self.tasks = ServerTasks::new(peer);
        self.user = User::None;
        let instructions = peer.instructions.as_deref();
        self.instructions = instructions.map(|text| text.chars().take(MAX_INSTRUCTIONS).collect());
        self.subscriptions.restart(peer, self.name.is_some());
        self.log_level = UpstreamLogLevel::new(peer);
    }

    /// Names the server in an error that is not its own.
    pub(super) fn named(&self, mut error: RpcError) -> RpcError {
        if let Some(name) = &self.name {
            error.message = format!("`{name}`: {}", error.message).into();
        }
        error
    }

    /// Returns the next tool to register with a server over HTTP, with its schema.
    pub fn poll_header_tool(&mut self) -> Option<(String, RawJson)> {
        self.changed_header_tools.pop_front()
    }

    /// Returns the tools to register anew without header fields, because their server is removed.
    pub(crate) fn into_header_tools(self) -> impl Iterator<Item = (String, RawJson)> {
        self.known_header_tools.into_keys().map(|name| (name, RawJson::empty_object()))
    }

    /// Returns the faults of the server since the last call of this function.
    pub fn take_diagnostics(&mut self) -> Vec<Diagnostic> {
        core::mem::take(&mut self.diagnostics)
    }

    /// Sets what helps if the server refuses access, for example a command: `client` is told to clients that make a call then, `own` to
    /// whoever runs the proxy.
    pub fn set_access_help(&mut self, client: &str, own: &str) {
        self.access_help = Some([client.into(), own.into()]);
    }

    /// Returns the error for a call that failed, with what helps if access was refused.
    pub(super) fn call_failure(&mut self, error: &CallError) -> RpcError {
        let mut failed = convert::failed_call_error(error);
        if let Some([help, own]) = self.access_help.as_ref().filter(|_| error.is_access_refused()) {
            self.access_refusal = Some(format!("{}: {own}", self.named(failed.clone()).message));
            failed.message = format!("{}: {help}", failed.message).into();
        }
        failed
    }

    /// Returns sentences for whoever runs the proxy, since the last call of this function: that the server refuses access. They repeat.
    pub fn take_notes(&mut self) -> Vec<String> {
        self.access_refusal.take().into_iter().collect()
    }

    /// Returns the number of resources that clients follow and the server is not asked for, because there are too many or their URIs
    /// are too long. Their changes are not announced. When there is room again, they are asked for.
    #[must_use]
    pub const fn unfollowed_resources(&self) -> usize {
        self.subscriptions.left_out()
    }

    /// Returns the number of unanswered calls.
    #[cfg(test)]
    pub(crate) fn pending_calls(&self) -> usize {
        self.calls.len()
    }

    /// Notes that a party uses the server: what it says later on its own may be about that one.
    pub(super) fn note_user(&mut self, call: &Call) {
        let user = match call.version().era() {
            Era::Legacy => User::Session(call.channel()),
            Era::Modern => User::Any,
        };
        self.user = if self.user == User::None || self.user == user { user } else { User::Any };
    }

    /// Returns the only session that a message without an owner can belong to.
    ///
    /// With several clients it is one that is there alone, and has been the only one to use this server.
    pub(super) fn only_session(&self, now: Instant) -> Option<ChannelId> {
        let [only] = *self.sessions else { return None };
        let is_owner = self.has_single_client()
            || (!self.has_policy
                && (self.user == User::None || self.user == User::Session(only))
                && self.calls.is_only_owner(self.clients, only, now));
        is_owner.then_some(only)
    }

    pub(super) const fn is_legacy(&self) -> bool {
        matches!(self.version.era(), Era::Legacy)
    }

    pub(super) const fn has_single_client(&self) -> bool {
        matches!(self.clients, ClientCount::One) && !self.has_policy
    }

    /// Returns whether what names no call is kept back from all clients: with a policy the one whose calls run may not be meant.
    pub(super) const fn keeps_back_unowned(&self) -> bool {
        self.has_policy && !matches!(self.clients, ClientCount::One)
    }

    // ---- downstream ------------------------------------------------------------------------------------------

    /// Handles an event of the engine that faces the client.
    pub fn handle_server_event(&mut self, engines: &mut Engines<'_>, event: server::Event) {
        match event {
            server::Event::Call(call) if is_continued(&call) => self.resume_call(engines, call),
            server::Event::Call(call) => self.handle_new_call(engines, call),
            server::Event::Cancelled { call, reason } => self.cancel(engines, call, &reason),
            server::Event::ParkedCallDropped { state } => {
                if let Some(token) = relayed_call::RetryToken::decode(&state) {
                    self.drop_parked_call(engines, token);
                }
            }
            server::Event::SessionOpened { channel, .. } => self.sessions.push(channel),
            server::Event::Closed { channel, .. } => self.close_session(engines, channel),
            server::Event::Done { call, outcome } => {
                let Some(request) = self.upstream_requests.remove(&call) else { return };
                let (now, upstream) = (engines.upstream_now, &mut *engines.upstream);
                // Fails if the server has withdrawn the request meanwhile.
                let _ = match outcome {
                    Ok(result) => upstream.respond(now, request, &result),
                    Err(error) => upstream.refuse(now, request, &convert::failed_call_error(&error)),
                };
            }
            server::Event::ResourceInterest { uri, is_subscribed: wanted } => {
                self.subscriptions.set_followed(uri, wanted)
            }
            server::Event::Notification(notification) => self.forward_notification(engines, &notification),
            _ => {}
        }
    }

    /// Cancels the relayed call of a call that has ended, if it is one of this relay.
    pub(super) fn cancel(&mut self, engines: &mut Engines<'_>, call: CallId, reason: &server::CancelReason) {
        let why = match reason {
            server::CancelReason::Client(Some(why)) => why,
            server::CancelReason::Client(None) => "the client cancelled it",
            server::CancelReason::Disconnected => "the client is gone",
            _ => "it was given up",
        };
        self.unfound.retain(|(unfound, _)| unfound.id() != call);
        self.search.iter_mut().for_each(|search| search.cancel(call));
        if self.drop_held_call(call) {
            return;
        }
        if let Some((_, relayed)) = self.calls.take_downstream(call) {
            self.cancel_upstream(engines, &relayed, why);
        }
    }

    /// Cancels a suspended call whose client does not retry it.
    pub(super) fn drop_parked_call(&mut self, engines: &mut Engines<'_>, token: relayed_call::RetryToken) {
        if token.instance != self.calls.instance {
            return;
        }
        if let Some(relayed) = self.calls.take(token.number) {
            self.cancel_upstream(engines, &relayed, "the client cancelled it, or is gone");
        }
    }

    /// Forgets a session, and cancels its suspended calls.
    pub(super) fn close_session(&mut self, engines: &mut Engines<'_>, channel: ChannelId) {
        self.sessions.retain(|other| *other != channel);
        for (_, relayed) in self.calls.take_channel(channel) {
            self.cancel_upstream(engines, &relayed, "the client is gone");
        }
    }

    /// Forwards a notification of a client.
    #[expect(deprecated, reason = "supported until its removal")]
    pub(super) fn forward_notification(
        &self,
        engines: &mut Engines<'_>,
        notification: &server::Notification,
    ) {
        // Fails if a client may not send it, or if the server cannot receive it. A notification has no answer
        // either way.
        let _ = match &*notification.method {
            "notifications/roots/list_changed" => engines.upstream.notify_roots_changed(engines.upstream_now),
            method => engines.upstream.notify(engines.upstream_now, method, notification.params.as_ref()),
        };
    }

    /// Sends a call to the server, or keeps it until that has been started.
    pub(super) fn handle_call(&mut self, engines: &mut Engines<'_>, delivery: Delivery) {
        let call = &delivery.call;
        if !self.life.is_running() {
            return self.hold_call(engines, delivery);
        }
        self.note_user(call);
        self.log_level.prepare_call(engines, call, &self.sessions);
        self.send(engines, delivery, None, None);
    }

    /// Answers a call with an error, unless other upstreams may know the resource.
    pub(super) fn fail_delivery(
        &mut self,
        engines: &mut Engines<'_>,
        call: Call,
        others: Option<Others>,
        error: RpcError,
    ) {
        let error = convert::convert_error(error, call.method(), self.version, call.version());
        match others {
            Some(mut others) => {
                if !convert::is_unknown(&error) {
                    others.error.get_or_insert(error);
                }
                self.unfound.push((call, others));
            }
            None => fail(engines, call.id(), &error),
        }
    }

    // ---- upstream --------------------------------------------------------------------------------------------

    /// Handles an event of the engine that faces the server.
    #[expect(deprecated, reason = "supported until its removal")]
    pub fn handle_client_event(&mut self, engines: &mut Engines<'_>, event: client::Event) {
        match event {
            client::Event::Done { call, outcome, .. } if self.reads_tools(call) => {
                self.with_catalogue(engines, |catalogue, _, upstream| {
                    catalogue.handle_page(outcome, upstream)
                });
            }
            client::Event::Done { call, outcome, .. } => self.handle_outcome(engines, call, outcome),
            client::Event::Progress { call, progress } => {
                self.calls.number_of(call).into_iter().for_each(|number| self.calls.note_work(number));
                if let Some(call) = self.calls.by_upstream(call).and_then(RelayedCall::delivered_call) {
                    // Fails if the client is gone, which an event reports.
                    let _ = engines.downstream.progress(engines.now, call.id(), progress);
                }
            }
            client::Event::Task { call, task } => self.handle_task(engines, call, &task),
            client::Event::Input(input) => self.handle_input(engines, input),
            client::Event::InputWithdrawn(input) => {
                self.unassigned_inputs.retain(|pending| pending.input != input);
                let number = self.calls.remove_input(input);
                // If other inputs are still needed, the client continues with those.
                recall_inputs(engines, number.and_then(|number| self.calls.obsolete_token(number)));
            }
            client::Event::ElicitationComplete(id) => {
                if let Some(session) = self.only_session(engines.now) {
                    engines.downstream.notify_elicitation_complete(engines.now, session, &id);
                }
            }
            client::Event::Subscribed { key, .. } => {
                let notices = self.subscriptions.handle_subscribed(key);
                self.announce(engines, notices);
            }
            client::Event::Changed { change, .. } => {
                let notices = self.subscriptions.handle_change(change);
                self.announce(engines, notices);
            }
            client::Event::SubscriptionEnded { key, .. } => self.subscriptions.handle_ended(key),
            client::Event::Log(log) => self.forward_log(engines, &log),
            client::Event::Request(request) => self.handle_request(engines, &request),
            client::Event::RequestCancelled(request) => {
                let found = self.upstream_requests.iter().find(|(_, other)| **other == request);
                if let Some(call) = found.map(|(call, _)| *call) {
                    self.upstream_requests.remove(&call);
                    let why = "the server no longer needs it";
                    let _ = engines.downstream.cancel_request(engines.now, call, Some(why));
                }
            }
            client::Event::Notification(notification) => {
                if let Some(session) = self.only_session(engines.now) {
                    let _ = engines.downstream.notify(
                        engines.now,
                        session,
                        &notification.method,
                        notification.params.as_ref(),
                    );
                }
            }
            client::Event::Closed(fault) => self.handle_server_end(engines, &fault),
            _ => {}
        }
    }

    /// Tells the clients of changes, or the gateway if its policy decides who is told.
    pub(super) fn announce(&mut self, engines: &mut Engines<'_>, mut notices: Vec<Notice>) {
        if let Some(catalogue) = &mut self.catalogue {
            catalogue.is_stale |= notices.iter().any(|notice| notice.change == Change::Tools);
            notices.retain(|notice| notice.change != Change::Tools);
        }
        if self.has_policy {
            return self.notices.extend(notices);
        }
        for notice in notices {
            engines.downstream.publish(engines.now, &notice.change);
        }
    }

    /// Handles a request that a legacy server sends on its own.
    fn handle_request(&mut self, engines: &mut Engines<'_>, request: &client::ServerRequest) {
        let sent = match self.only_session(engines.now) {
            None => Err(RpcError::internal(
                "no client can be asked this: there is none that is known to be meant and that speaks a revision in which \
                 servers ask anything of their own",
            )),
            Some(session) => {
                let params = convert::request_params(request.params.as_ref());
                let options = mcp_proto::CallOptions::new();
                let sent =
                    engines.downstream.request(engines.now, session, &request.method, &params, &options);
                sent.map_err(|refused| convert::refused_call_error(&refused, &request.method))
            }
        };
        match sent {
            Ok(call) => _ = self.upstream_requests.insert(call, request.id),
            Err(error) => _ = engines.upstream.refuse(engines.upstream_now, request.id, &error),
        }
    }

    fn handle_outcome(
        &mut self,
        engines: &mut Engines<'_>,
        call: CallKey,
        outcome: Result<RawJson, CallError>,
    ) {
        let Some(number) = self.calls.end_upstream(call) else { return };
        if self.send_in_other_form(engines, number, &outcome) {
            return;
        }
        let outcome = outcome.map_err(|error| match error {
            CallError::Rpc(_) => convert::failed_call_error(&error),
            _ => {
                let failed = self.call_failure(&error);
                self.named(failed)
            }
        });
        if self.calls.get(number).is_some_and(|relayed| relayed.delivered_call().is_some()) {
            self.finish(engines, number, outcome);
        } else {
            // Sent with the client's retry, or immediately if its input requests can be withdrawn.
            self.calls.hold_outcome(number, outcome);
            recall_inputs(engines, self.calls.suspended_token(number));
        }
    }

    /// Answers a delivered call with its outcome and ends it.
    pub(super) fn finish(&mut self, engines: &mut Engines<'_>, number: u64, outcome: RelayOutcome) {
        let Some(relayed) = self.calls.take(number) else { return };
        match (relayed.downstream, relayed.others) {
            (DownstreamCall::Delivered(call), others) => match outcome {
                Ok(result) => self.answer(engines, &call, &result),
                Err(error) => self.fail_delivery(engines, *call, others, error),
            },
            (DownstreamCall::Suspended { .. }, _) => {}
        }
        let over = RpcError::internal("the call that this was for is over");
        // Requests of a legacy server may have been attached to the wrong call, but not to that of another client.
        for pending in relayed.inputs {
            match self.input_owner(engines.now).filter(|_| self.has_single_client()) {
                Some(owner) => self.assign_input(engines, Some(owner), pending),
                None => refuse_input(engines, pending.input, &over),
            }
        }
    }

    fn answer(&mut self, engines: &mut Engines<'_>, call: &Call, result: &RawJson) {
        let mut result = Cow::Borrowed(result);
        if let (Cow::Borrowed(list), "tools/list") = (&result, call.method()) {
            self.record_header_tools(list);
            result = self.with_task_support(list, call.version());
        }
        // What a policy lets one principal see is not for the caches of all.
        let scoped = Some(&*result).filter(|result| self.has_policy && result.member("cacheScope").is_some());
        let scoped = scoped
            .and_then(|result| convert::with_member(result, "cacheScope", RawJson::new("\"private\"").ok()));
        let result = scoped.as_ref().unwrap_or(&result);
        let (from, to) = (self.version, call.version());
        let shaped = convert::convert_result(call.method(), result, from, to, &mut self.diagnostics);
        let answered = shaped.and_then(|shaped| {
            let answered = match shaped {
                convert::ConvertedResult::Unchanged(result) => {
                    engines.downstream.complete_raw(engines.now, call.id(), &result)
                }
                convert::ConvertedResult::Rewritten(result) => {
                    engines.downstream.complete_prepared(engines.now, call.id(), &result)
                }
            };
            answered.map_err(|refused| convert::unreadable_result_error(&refused))
        });
        if let Err(error) = answered {
            fail(engines, call.id(), &error);
        }
    }

    /// Records which tools have arguments that clients over HTTP repeat in header fields.
    fn record_header_tools(&mut self, result: &RawJson) {
        for tool in result.member("tools").and_then(|tools| tools.elements()).unwrap_or_default() {
            let Some(name) = tool.member("name").and_then(|name| name.string()) else { continue };
            self.record_header_tool(name, &tool);
        }
    }

    /// Records a tool if it has arguments that clients over HTTP repeat in header fields, or no longer has them.
    pub(super) fn record_header_tool(&mut self, name: String, tool: &RawJson) {
        let schema = tool.member("inputSchema").filter(|schema| schema.as_str().contains("x-mcp-header"));
        let schema = match (schema, self.known_header_tools.contains_key(&name)) {
            (Some(schema), is_known)
                if (is_known || self.known_header_tools.len() < MAX_HEADER_TOOLS)
                    && schema.as_str().len() <= MAX_HEADER_SCHEMA =>
            {
                schema.compact()
            }
            (_, true) => RawJson::empty_object(),
            _ => return,
        };
        if self.known_header_tools.get(&name) != Some(&schema) {
            self.known_header_tools.insert(name.clone(), schema.clone());
            self.changed_header_tools.push_back((name, schema));
        }
    }

    // ---- both sides ------------------------------------------------------------------------------------------

    /// Does the work due once after a batch of events: sends input requests, subscribes, sets the log level.
    pub fn process_pending(&mut self, engines: &mut Engines<'_>) {
        self.send_due_inputs(engines);
        self.with_catalogue(engines, Catalogue::refresh);
        self.finish_searches(engines);
        self.update_use(engines.now);
        if self.life.is_running() {
            if self.subscriptions.update(engines) {
                let count = self.subscriptions.left_out();
                let news =
                    format!("changes of {count} followed resources are not announced: there are too many");
                self.tell_sessions(engines, &news);
            }
            self.log_level.update_level(engines, &self.sessions);
        }
    }

    /// Returns when [`handle_timeout()`](Self::handle_timeout) must be called next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let all = [
            self.calls.next_expiry(),
            self.subscriptions.next_retry(),
            self.gather_deadline,
            self.life.next_deadline(),
            self.search.as_ref().and_then(ToolSearch::next_deadline),
            self.catalogue.as_ref().and_then(Catalogue::next_read),
        ];
        all.into_iter().flatten().min()
    }

    /// Handles deadlines. Calls whose clients did not retry in time are cancelled.
    pub fn handle_timeout(&mut self, engines: &mut Engines<'_>) {
        for (token, relayed) in self.calls.take_expired(engines.now) {
            self.cancel_upstream(engines, &relayed, "no answer in time");
            // A task waits for longer than this.
            recall_inputs(engines, Some(token));
        }
        self.subscriptions.handle_timeout(engines.now);
        // Calls of the last batch may be new.
        self.update_use(engines.now);
        self.life.handle_timeout(engines.now);
    }

    /// Cancels the call at the server, because its client no longer waits for it.
    pub(crate) fn cancel_upstream(&mut self, engines: &mut Engines<'_>, relayed: &RelayedCall, reason: &str) {
        if let Some(call) = relayed.upstream {
            let _ = engines.upstream.cancel(engines.upstream_now, call, Some(reason));
            self.calls.note_cancelled(self.clients, relayed, engines.now);
        }
        // A legacy server does not know that this request belonged to the call.
        for pending in &relayed.inputs {
            let why = RpcError::internal(format!("the client gives no answer: {reason}"));
            refuse_input(engines, pending.input, &why);
        }
    }
}

/// Reads the capabilities of one side for the other one, with its extensions.
///
/// Tasks are left out: those of each side are its own.
#[expect(deprecated, reason = "supported until its removal")]
pub fn relayed_capabilities(object: &RawJson) -> Capabilities {
    let tasks = [
        Capability::Tasks,
        Capability::TaskList,
        Capability::TaskCancellation,
        Capability::ToolTasks,
        Capability::SamplingTasks,
        Capability::ElicitationTasks,
    ];
    let read = Capabilities::from_json(object).without_extension("io.modelcontextprotocol/tasks");
    tasks.into_iter().fold(read, Capabilities::without)
}

/// Returns the configuration of the server that represents the connected one. Its engine is to [have tasks](crate::set_tasks).
pub fn server_config(peer: &client::Peer, versions: VersionSet, limits: Limits) -> server::Config {
    let info = peer.info();
    let mut capabilities = relayed_capabilities(&peer.capabilities);
    if peer.has(Capability::ToolTasks) || peer.has(Capability::TasksExtension) {
        capabilities = capabilities.with(Capability::TasksExtension);
    }
    if let Some(value) = peer.capabilities.member("experimental").filter(RawJson::is_object) {
        capabilities = capabilities.with_member("experimental", value.compact(), Version::V2024_11_05);
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

/// Returns the limits of the downstream side.
pub fn server_limits(mut limits: Limits) -> Limits {
    // The sender has already limited the rate.
    (limits.progress_burst, limits.progress_rate) = (u16::MAX, u16::MAX);
    limits
}

/// Returns the limits of the upstream side.
pub fn client_limits(mut limits: Limits) -> Limits {
    // A call that waits for its client's answers is no longer live downstream, but still pending upstream.
    limits.max_pending_calls = limits.max_pending_calls.max(4 * limits.max_live_calls);
    limits.max_live_calls = limits.max_live_calls.max(1);
    limits
}

/// Answers a call with an error. A call that has ended meanwhile is ignored.
pub(super) fn fail(engines: &mut Engines<'_>, call: CallId, error: &RpcError) {
    let _ = engines.downstream.fail(engines.now, call, error);
}

/// Withdraws obsolete input requests from a legacy client, or from a task. A modern client without a task cannot be notified.
pub(super) fn recall_inputs(engines: &mut Engines<'_>, token: Option<relayed_call::RetryToken>) {
    if let Some(token) = token {
        let why = Some("the server no longer needs it");
        engines.downstream.withdraw_input(engines.now, &token.encode(), why);
    }
}

/// Refuses an input request of the server. A request that has ended meanwhile is ignored.
pub(super) fn refuse_input(engines: &mut Engines<'_>, input: InputId, error: &RpcError) {
    let _ = engines.upstream.refuse(engines.upstream_now, input, error);
}

/// Returns the error that answers calls after the server is gone.
pub(super) fn server_gone_error(fault: &Fault) -> RpcError {
    RpcError::internal(format!("the server behind the bridge is gone: {fault}"))
}

/// Maximum number of characters of the instructions of one server behind a gateway.
const MAX_INSTRUCTIONS: usize = 2_048;
/// Maximum number of remembered tools with header fields.
const MAX_HEADER_TOOLS: usize = 4_096;
/// Maximum length in bytes of the schema of one of them. A tool with a longer one is registered as one without header fields.
const MAX_HEADER_SCHEMA: usize = 16 << 10;
