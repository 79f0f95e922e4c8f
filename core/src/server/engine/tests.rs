//! The engine by its messages: memory that is held, bounds of what is taken and sent, and ends of channels.

use alloc::string::{String, ToString as _};
use alloc::vec::Vec;

use serde_json::{Value, json};

use super::*;
use crate::entropy::Entropy;
use crate::identity::Capabilities;
use crate::limits::Limits;
use crate::methods::Capability;
use crate::model::{ElicitParams, ElicitSchema, EmptyParams, InputRequest, InputRequests};
use crate::server::channel::OUT_OF_MEMORY;
use crate::server::exchanges::{EarlyEnd, ExchangeToken};
use crate::server::parked::SESSION_SHARE;
use crate::server::tasks::requests::TaskOptions;
use crate::server::tasks::table::TaskTable;
use crate::server::{BufferedResult, CustomMethod, InputError, InputRequired, PreparedResult};
use crate::time::Anchor;

/// An engine with one channel, and a client that is written down as JSON.
struct Server {
    engine: Engine,
    channel: ChannelId,
    now: Instant,
}

impl Server {
    /// Opens a channel without a session.
    fn new(configure: impl FnOnce(Config) -> Config, limits: Limits) -> Self {
        let capabilities = Capabilities::new()
            .with(Capability::Tools)
            .with(Capability::Resources)
            .with(Capability::ResourceSubscriptions);
        let config = configure(Config::new("s", "1").capabilities(capabilities).limits(limits));
        let mut engine = Engine::new(Arc::new(config));
        let channel = engine.open_channel(Instant::ZERO);
        Self { engine, channel, now: Instant::ZERO }
    }

    /// Opens a channel with a session of 2025-11-25.
    fn legacy(limits: Limits) -> Self {
        let mut server = Self::new(|config| config, limits);
        server.handshake();
        server
    }

    fn handshake(&mut self) {
        self.feed(&initialize());
        self.feed(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        self.sent();
    }

    fn feed(&mut self, message: &Value) {
        self.engine.handle_message(self.now, self.channel, message.to_string().into());
    }

    /// Opens a session of exchanges, whose client has these capabilities.
    fn open_session(&mut self, capabilities: Value) -> ChannelId {
        let session = self.engine.exchanges().open_session(self.now, None);
        let mut initialize = initialize();
        initialize["params"]["capabilities"] = capabilities;
        for message in [initialize, json!({"jsonrpc": "2.0", "method": "notifications/initialized"})] {
            self.open_exchange(session, &message);
        }
        self.events();
        session
    }

    fn open_exchange(&mut self, session: ChannelId, message: &Value) -> ChannelId {
        let message = message.to_string().into();
        self.engine.exchanges().open(self.now, Some(session), ExchangeToken(1), message)
    }

    fn events(&mut self) -> Vec<Event> {
        core::iter::from_fn(|| self.engine.poll_event(self.now)).collect()
    }

    /// Feeds a `tools/call` and returns it as the application gets it.
    fn call(&mut self, id: usize, params: Value) -> Call {
        self.feed(&request(id, "tools/call", params));
        self.expect_call()
    }

    fn expect_call(&mut self) -> Call {
        let mut calls = self.events().into_iter().filter_map(|event| match event {
            Event::Call(call) => Some(call),
            _ => None,
        });
        calls.next().expect("a call")
    }

    /// Takes what was sent.
    fn sent(&mut self) -> Vec<Value> {
        self.sent_on(self.channel)
    }

    fn sent_on(&mut self, channel: ChannelId) -> Vec<Value> {
        let mut sent = Vec::new();
        while let Some(message) = self.engine.outbox(channel).and_then(|outbox| outbox.pop_message()) {
            sent.push(serde_json::from_slice(&message).expect("JSON"));
        }
        sent
    }

    fn set_limits(&mut self, change: impl FnOnce(&mut Limits)) {
        let mut limits = (*self.engine.endpoint.limits).clone();
        change(&mut limits);
        self.engine.endpoint.limits = Arc::new(limits);
    }

    fn ping(&mut self) -> Result<CallKey, UseError> {
        self.engine.request(self.now, self.channel, "ping", &json!({}), &CallOptions::new())
    }

    fn unsent(&mut self) -> usize {
        self.engine.outbox(self.channel).map_or(0, |outbox| outbox.len())
    }
}

#[allow(clippy::needless_pass_by_value, reason = "each caller makes the parameters for this alone")]
fn request(id: usize, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn initialize() -> Value {
    let capabilities = json!({"elicitation": {"form": {}}, "roots": {}});
    let client = json!({"name": "c", "version": "1"});
    request(
        0,
        "initialize",
        json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": client}),
    )
}

/// Adds the metadata of a modern request.
fn modern(mut params: Value) -> Value {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({"elicitation": {}});
    params
}

fn form(message: &str) -> InputRequest<'static> {
    InputRequest::Elicit(ElicitParams::form(message, ElicitSchema::default()))
}

fn forms(names: &[&'static str]) -> InputRequests<'static> {
    let mut requests = InputRequests::new();
    for name in names {
        requests.insert(*name, form("?"));
    }
    requests
}

fn message_of(error: &Value) -> &str {
    error["error"]["message"].as_str().unwrap_or_default()
}

// ---- memory ----

#[test]
fn memory_in_use_follows_the_entries_of_each_table() {
    const COUNT: usize = 200;
    /// Bytes beside the tables: outboxes, and the rounding of the account.
    const SLACK: usize = 24 << 10;
    type Load = fn(&mut Server, usize);
    let loads: [(&str, usize, usize, Load); 7] = [
        ("channels", CHANNEL_COST, CHANNEL_COST, |server, _| _ = server.engine.open_channel(server.now)),
        ("calls", CALL_COST, CALL_COST, |server, id| _ = server.call(id, json!({"name": "t"}))),
        ("requests", CALL_COST, CALL_COST, |server, _| {
            server.ping().expect("room");
            server.sent();
        }),
        ("events", size_of::<Event>(), size_of::<Event>(), |server, _| {
            server.feed(&json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}));
        }),
        ("waiting requests", 192, 512, |server, id| {
            server.set_limits(|limits| limits.max_live_calls = 0);
            server.feed(&request(id, "tools/call", json!({"name": "t"})));
        }),
        // The URI, its entry, and that of the subscription.
        ("resources", 1_000 + 64, 1_000 + 256, |server, id| {
            let uri = alloc::format!("x:{id:0>998}");
            server.feed(&request(id, "resources/subscribe", json!({"uri": uri})));
            server.sent();
            server.events();
        }),
        // The call, its request for input, and what is kept.
        ("parked calls", 2 * CALL_COST + 1_000, 2 * CALL_COST + 1_256, |server, id| {
            let call = server.call(id, json!({"name": "t"}));
            server.engine.need_input(server.now, &call, &forms(&["a"]), &[7; 1_000]).expect("room");
            server.sent();
        }),
    ];
    for (name, least, most, load) in loads {
        let mut server = Server::legacy(Limits::default());
        server.engine.handle_timeout(server.now);
        let before = server.engine.config().memory_in_use();
        assert!(before < SLACK, "{name}: {before} bytes at first");
        for id in 1..=COUNT {
            load(&mut server, id);
        }
        server.engine.handle_timeout(server.now);
        let held = server.engine.config().memory_in_use();
        let range = COUNT * least - SLACK.min(COUNT * least / 2)..COUNT * most + SLACK;
        assert!(range.contains(&(held - before)), "{name}: {} of {range:?}", held - before);
    }
}

#[test]
fn request_is_refused_by_its_length_when_memory_is_short() {
    for (free, length, is_taken) in [
        // A short request leaves the last sixteenth, a long one the last eighth.
        (2 * 16 + 1, 4_096, true),
        (2 * 16 - 1, 4_095, true),
        (2 * 16 - 1, 4_096, false),
        (16 + 1, 4_095, true),
        (16 - 1, 300, false),
    ] {
        let max = 16 << 20;
        let limits = Limits { max_memory: Some(max), ..Limits::default() };
        let mut server = Server::new(|config| config, limits);
        let message =
            |pad: usize| request(1, "tools/call", modern(json!({"name": "t".repeat(pad)}))).to_string();
        let message = message(length - message(0).len());
        assert_eq!(message.len(), length);
        let mut charge = server.engine.endpoint.memory.open();
        charge.set(max - free * (max >> 8) - server.engine.config().memory_in_use() - 8 * STEP);
        server.engine.handle_message(server.now, server.channel, message.into());
        assert_eq!(server.events().len(), usize::from(is_taken), "{free}/256 are free of {length} bytes");
        assert_eq!(server.sent().len(), usize::from(!is_taken));
    }
}

#[test]
fn idle_engine_has_freed_its_buffers_and_tables() {
    let mut server = Server::legacy(Limits { max_live_calls: 1, ..Limits::default() });
    let call = server.call(1, json!({"name": "t"}));
    let age = server.engine.endpoint.limits.max_call_age;
    assert_eq!(server.engine.poll_timeout_without_trim(), Some(server.now + age));
    server.engine.need_input(server.now, &call, &forms(&["a"]), b"state").expect("room");
    let asked = server.sent().remove(0);
    server.feed(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "decline"}}));
    let call = server.expect_call();
    server.engine.complete(server.now, call.id(), &json!({})).expect("open");
    server.sent();
    assert!(!server.engine.is_idle() && server.engine.parked.is_some());
    server.now = server.engine.poll_timeout().expect("the deadline for freeing buffers");
    server.engine.handle_timeout(server.now);
    assert!(server.engine.is_idle() && server.engine.parked.is_none());
}

/// Leaves `free` bytes for what is new, beyond a message of `length` bytes.
fn leave_for_new(server: &Server, length: usize, free: usize) -> Charge {
    let max = server.engine.config.settings.limits.max_memory.unwrap_or(0);
    let mut charge = server.engine.endpoint.memory.open();
    charge.set(max - max / 8 - server.engine.config().memory_in_use() - length - free);
    charge
}

#[test]
fn subscription_is_refused_without_memory_for_its_filter_and_its_resources() {
    let listen = |params: Value| request(1, "subscriptions/listen", modern(params));
    // Each comma may part two strings of the filter.
    let strings = listen(json!({"notifications": {"toolsListChanged": true}, "x": alloc::vec![1; 2_000]}));
    let text = strings["params"].to_string();
    let of_strings = text.len() + 4 * size_of::<String>() * text.matches(',').count();
    let uris: Vec<String> = (0..100).map(|n| alloc::format!("x:{n:0>4}")).collect();
    let resources = listen(json!({"notifications": {"resourceSubscriptions": uris}}));
    for (message, needed) in [(strings, of_strings), (resources, 100 * (6 + 256))] {
        for (free, is_taken) in [(needed, true), (needed - 1, false)] {
            let limits = Limits { max_memory: Some(8 << 20), ..Limits::default() };
            let mut server = Server::new(|config| config, limits);
            let length = message.to_string().len();
            let _charge = leave_for_new(&server, length, free);
            server.feed(&message);
            let sent = server.sent().remove(0);
            assert_eq!(
                sent["method"] == json!("notifications/subscriptions/acknowledged"),
                is_taken,
                "{sent}"
            );
            assert_eq!(message_of(&sent), if is_taken { "" } else { OUT_OF_MEMORY });
        }
    }
}

#[test]
fn resource_is_subscribed_to_up_to_the_length_of_its_uri_and_the_memory_for_it() {
    let uri = "x:".repeat(30);
    for (max_uri, free, error) in [
        (60, 60 + 256, ""),
        (59, 60 + 256, "`params.uri` is longer than 59 bytes"),
        (60, 60 + 255, OUT_OF_MEMORY),
    ] {
        let mut server = Server::legacy(Limits { max_uri, max_memory: Some(8 << 20), ..Limits::default() });
        server.events();
        let _charge = leave_for_new(&server, 0, free);
        server.feed(&request(1, "resources/subscribe", json!({"uri": uri})));
        assert_eq!(message_of(&server.sent()[0]), error);
        assert_eq!(server.events().len(), usize::from(error.is_empty()));
    }
}

#[test]
fn acknowledgement_of_a_subscription_takes_little_more_than_its_length() {
    let mut server = Server::new(|config| config, Limits { memory_reserve: 1, ..Limits::default() });
    let uris: Vec<String> = (0..100).map(|n| alloc::format!("x:{n:0>98}")).collect();
    server.feed(&request(
        1,
        "subscriptions/listen",
        modern(json!({"notifications": {"resourceSubscriptions": uris}})),
    ));
    let outbox = server.engine.outbox(server.channel).expect("open");
    let (capacity, length, room) =
        (outbox.capacity(), outbox.len(), server.engine.endpoint.limits.message_room());
    assert!(capacity <= 2 * (length + room), "{capacity} for {length}");
}

#[test]
fn resources_of_a_session_are_those_that_the_server_promises() {
    for (is_declared, events) in [(true, 2), (false, 0)] {
        let mut capabilities = Capabilities::new().with(Capability::Resources);
        if is_declared {
            capabilities = capabilities.with(Capability::ResourceSubscriptions);
        }
        let limits = Limits { max_uri: 5, ..Limits::default() };
        let mut server = Server::new(|config| config.capabilities(capabilities), limits);
        server.handshake();
        let resources = ["x:1", "x:234", "x:2345"].map(Arc::from);
        let Server { engine, channel, .. } = &mut server;
        let Engine { changes, endpoint, config, .. } = engine;
        let set = |changes: &mut Changes, endpoint: &mut Endpoint<ServerChannel>, resources: &[Arc<str>]| {
            changes.set_resources(endpoint, config, channel.0, resources, false).len()
        };
        assert_eq!(set(changes, endpoint, &resources), events);
        assert_eq!((set(changes, endpoint, &resources), set(changes, endpoint, &[])), (0, events));
    }
}

// ---- back-pressure ----

#[test]
fn reading_pauses_when_the_outbox_has_reached_its_high_water() {
    let mut server = Server::legacy(Limits::default());
    server.ping().expect("room");
    let unsent = server.unsent();
    for (high_water, is_stalled) in [(unsent + 1, false), (unsent, true), (unsent - 1, true)] {
        server.set_limits(|limits| limits.outbox_high_water = high_water);
        assert_eq!(server.engine.is_stalled(server.channel), is_stalled, "{high_water} of {unsent}");
    }
    server.sent();
    assert!(!server.engine.is_stalled(server.channel));
}

#[test]
fn request_does_not_overtake_those_that_wait() {
    let mut server = Server::legacy(Limits { max_live_calls: 1, ..Limits::default() });
    let mut live = server.call(1, json!({"name": "t"}));
    for id in 2..=4 {
        server.feed(&request(id, "tools/call", json!({"name": "t"})));
    }
    server.engine.complete(server.now, live.id(), &json!({})).expect("open");
    server.feed(&request(5, "tools/call", json!({"name": "t"})));
    for id in 2..=5 {
        live = server.expect_call();
        assert_eq!(server.engine.request_id(live.id()), Some(&RequestId::int(id)));
        assert!(server.events().is_empty());
        server.engine.complete(server.now, live.id(), &json!({})).expect("open");
    }
}

// ---- ends of channels ----

#[test]
fn end_of_input_refuses_requests_and_closes_when_calls_are_answered() {
    let mut server = Server::legacy(Limits::default());
    let call = server.call(1, json!({"name": "t"}));
    assert!(!server.engine.has_input_ended(server.channel));
    server.engine.handle_eof(server.now, server.channel);
    assert!(server.engine.has_input_ended(server.channel) && server.events().is_empty());
    assert_eq!(server.ping().err(), Some(UseError::Closed));
    server.engine.complete(server.now, call.id(), &json!({})).expect("open");
    assert!(matches!(&server.events()[..], [Event::Closed { fault: Fault::Eof, .. }]));
    assert_eq!(server.ping().err(), Some(UseError::Closed));
    server.sent();
    server.engine.release_channel(server.channel);
    assert!(server.engine.has_input_ended(server.channel));
    assert_eq!(server.ping().err(), Some(UseError::Stale));
}

#[test]
fn end_of_input_cancels_long_lived_calls_alone() {
    let watch = CustomMethod::new("x/watch").long_lived();
    let mut server = Server::new(|config| config.custom_method(watch), Limits::default());
    let plain = server.call(1, modern(json!({"name": "t"})));
    server.feed(&request(2, "x/watch", modern(json!({}))));
    let long_lived = server.expect_call();
    server.engine.handle_eof(server.now, server.channel);
    let events = server.events();
    assert!(
        matches!(&events[..], [Event::Cancelled { call, reason: CancelReason::Disconnected }] if *call == long_lived.id()),
        "{events:?}"
    );
    assert_eq!(server.engine.complete(server.now, plain.id(), &json!({})), Ok(()));
}

// ---- handshake ----

#[test]
fn identity_and_capabilities_are_taken_up_to_their_limit() {
    let initialize = initialize();
    let length = |name: &str| initialize["params"][name].to_string().len();
    let length = length("capabilities") + length("clientInfo");
    for (max_peer_info, is_taken) in [(length, true), (length - 1, false)] {
        let mut server = Server::new(|config| config, Limits { max_peer_info, ..Limits::default() });
        server.feed(&initialize);
        let answer = server.sent().remove(0);
        assert_eq!(answer["result"].is_object(), is_taken, "{answer}");
    }
}

#[test]
fn session_is_not_negotiated_without_memory_for_its_result() {
    let none = usize::MAX / 4;
    for (limits, is_taken) in [
        (Limits { memory_reserve: 1, max_uri: none, ..Limits::default() }, false),
        (Limits { memory_reserve: 1, ..Limits::default() }, true),
        // The heap is not asked.
        (Limits { max_uri: none, ..Limits::default() }, true),
    ] {
        let mut server = Server::new(|config| config, limits);
        server.feed(&initialize());
        let answer = server.sent().remove(0);
        assert_eq!(answer["result"].is_object(), is_taken, "{answer}");
        let version = session(&server.engine.endpoint, server.channel.0).map(|session| session.version);
        assert_eq!(version.is_some(), is_taken);
    }
}

#[test]
fn exchange_of_a_session_does_not_negotiate_it_anew() {
    let mut server = Server::new(|config| config, Limits::default());
    let session = server.engine.exchanges().open_session(server.now, None);
    for expected in [None, Some("already initialized")] {
        let message = initialize().to_string().into();
        let exchange = server.engine.exchanges().open(server.now, Some(session), ExchangeToken(1), message);
        let answer = server.sent_on(exchange).remove(0);
        assert_eq!(message_of(&answer), expected.unwrap_or_default(), "{answer}");
        server.engine.exchanges().close(server.now, exchange);
    }
}

// ---- exchanges ----

#[test]
fn exchange_is_ready_under_the_whole_number_of_its_token() {
    let mut server = Server::new(|config| config, Limits::default());
    let tokens = [0x0123_4567_89AB_CDEF, u64::MAX, 1, 1 << 32];
    for token in tokens {
        let message = request(1, "server/discover", modern(json!({}))).to_string().into();
        server.engine.exchanges().open(server.now, None, ExchangeToken(token), message);
    }
    let ready: Vec<u64> =
        core::iter::from_fn(|| server.engine.exchanges().poll_ready()).map(|token| token.0).collect();
    assert_eq!(ready, tokens);
}

#[test]
fn batch_in_a_session_that_has_ended_is_refused() {
    let mut server = Server::new(|config| config, Limits::default());
    let session = server.engine.exchanges().open_session(server.now, None);
    server.engine.exchanges().close(server.now, session);
    let batch = json!([request(1, "ping", json!({}))]).to_string().into();
    let exchange = server.engine.exchanges().open(server.now, Some(session), ExchangeToken(1), batch);
    assert_eq!(message_of(&server.sent_on(exchange)[0]), "the session has ended");
    assert_eq!(server.engine.exchange_status(exchange).early_end, Some(EarlyEnd::Refused));
}

#[test]
fn exchange_continues_after_its_client_left_if_it_is_an_open_one_of_a_session() {
    for (is_legacy, is_answered, continues) in
        [(true, false, true), (true, true, false), (false, false, false), (false, true, false)]
    {
        let mut server = Server::new(|config| config, Limits::default());
        let session = server.engine.exchanges().open_session(server.now, None);
        let opened = initialize().to_string().into();
        server.engine.exchanges().open(server.now, Some(session), ExchangeToken(1), opened);
        let params = if is_legacy { json!({"name": "t"}) } else { modern(json!({"name": "t"})) };
        let exchange = server.open_exchange(session, &request(1, "tools/call", params));
        let call = server.expect_call();
        if is_answered {
            server.engine.complete(server.now, call.id(), &json!({})).expect("open");
        }
        let what = (is_legacy, is_answered);
        assert_eq!(server.engine.exchanges().handle_disconnect(server.now, exchange), continues, "{what:?}");
        let is_cancelled = server.events().iter().any(|event| matches!(event, Event::Cancelled { .. }));
        assert_eq!(is_cancelled, !is_legacy && !is_answered, "{what:?}");
    }
}

#[test]
fn closed_exchange_cancels_the_calls_that_run_and_no_parked_one() {
    for is_parked in [false, true] {
        let mut server = Server::new(|config| config, Limits::default());
        let session = server.open_session(json!({"elicitation": {"form": {}}}));
        let exchange = server.open_exchange(session, &request(1, "tools/call", json!({"name": "t"})));
        let call = server.expect_call();
        if is_parked {
            server.engine.need_input(server.now, &call, &forms(&["a"]), b"").expect("room");
        }
        server.engine.exchanges().close(server.now, exchange);
        let events = server.events();
        match is_parked {
            false => assert!(matches!(&events[..], [Event::Cancelled { call: id, .. }] if *id == call.id())),
            true => assert!(events.is_empty(), "{events:?}"),
        }
    }
}

#[test]
fn message_of_an_exchange_is_on_the_tap() {
    let mut server = Server::new(|config| config, Limits { tap_records: 9, ..Limits::default() });
    let message: Bytes = request(1, "ping", json!({})).to_string().into();
    server.engine.exchanges().open(server.now, None, ExchangeToken(1), message.clone());
    let record = server.engine.poll_tap().expect("a record");
    assert_eq!((record.direction, &record.bytes[..]), (Direction::In, &message[..]));
}

#[test]
fn batch_changes_its_session_if_any_of_its_messages_does() {
    let mut server = Server::new(|config| config, Limits::default());
    let (opens, pings) = (initialize(), request(1, "ping", json!({})));
    for (batch, changes) in
        [(json!([pings, opens]), true), (json!([opens, pings]), true), (json!([pings]), false)]
    {
        let contents = server.engine.exchanges().inspect_batch(None, &batch.to_string().into());
        assert_eq!(contents.changes_session, changes, "{batch}");
    }
}

#[test]
fn error_of_an_exchange_has_its_code_if_a_transport_knows_it() {
    let low = i64::from(i32::MIN);
    for (code, seen) in [(-32_000, -32_000), (low, i32::MIN), (low - 1, -1), (i64::MAX, -1)] {
        let mut server = Server::new(|config| config, Limits::default());
        let message = request(1, "tools/call", modern(json!({"name": "t"}))).to_string().into();
        let exchange = server.engine.exchanges().open(server.now, None, ExchangeToken(1), message);
        let call = server.expect_call();
        server.engine.fail(server.now, call.id(), &RpcError::new(code, "x")).expect("open");
        assert_eq!(server.engine.exchange_status(exchange).error_code, Some(seen.into()), "{code}");
    }
}

// covers: BATCH-004
#[test]
fn batch_on_a_stream_of_a_modern_client_is_refused() {
    let batch = json!([request(1, "ping", json!({})), request(2, "ping", json!({}))]);
    for is_modern in [false, true] {
        let mut server = Server::new(|config| config, Limits::default());
        if is_modern {
            server.feed(&request(0, "server/discover", modern(json!({}))));
            server.sent();
        }
        server.feed(&batch);
        let sent = server.sent();
        // A refused batch is answered one by one, with the ids that can be read in it (DEC-004).
        let answers = if is_modern { &sent } else { sent[0].as_array().expect("a batch is answered by one") };
        assert_eq!(answers.len(), 2, "{sent:?}");
        for (answer, id) in answers.iter().zip(1..) {
            assert_eq!((&answer["id"], answer["error"].is_object()), (&json!(id), is_modern), "{answer}");
        }
    }
}

// ---- results ----

/// Returns whether a part of what is to be sent lies in `text`.
fn shares(server: &mut Server, text: &[u8]) -> bool {
    let outbox = server.engine.outbox(server.channel).expect("open");
    outbox.segments().any(|part| text.as_ptr_range().contains(&part.as_ptr()))
}

#[test]
fn large_result_is_sent_without_a_copy_where_nothing_is_written_into_it() {
    let text = |length: usize, line: &str| {
        let frame = alloc::format!("{{\"a\":{line}\"\"}}");
        RawJson::new(frame.replace("\"\"", &alloc::format!("\"{}\"", "x".repeat(length - frame.len()))))
            .expect("JSON")
    };
    const LARGE: usize = 20 << 10;
    type Change = fn(&mut Server);
    let cases: [(&str, RawJson, Change, bool); 6] = [
        ("large", text(LARGE, ""), |_| {}, true),
        ("short", text((16 << 10) - 1, ""), |_| {}, false),
        ("a line break", text(LARGE, "\n"), |_| {}, false),
        (
            "bounded heap",
            text(LARGE, ""),
            |server| server.set_limits(|limits| limits.memory_reserve = 1),
            false,
        ),
        (
            "its own `_meta`",
            RawJson::new(alloc::format!("{{\"_meta\":{{}},\"a\":\"{}\"}}", "x".repeat(LARGE))).expect("JSON"),
            |_| {},
            false,
        ),
        ("a short result", text(100, ""), |_| {}, false),
    ];
    for (name, result, change, is_shared) in cases {
        let mut server = Server::new(|config| config, Limits::default());
        let call = server.call(1, modern(json!({"name": "t"})));
        change(&mut server);
        server.engine.complete_raw(server.now, call.id(), &result).expect("open");
        assert_eq!(shares(&mut server, result.as_bytes()), is_shared, "{name}");
        let bytes: Vec<u8> =
            server.engine.outbox(server.channel).expect("open").segments().flatten().copied().collect();
        assert_eq!(bytes.iter().filter(|byte| **byte == b'\n').count(), 1, "{name}: a message is one line");
        let sent = server.sent().remove(0);
        let expected: Value = result.parse().expect("JSON");
        assert_eq!(
            (&sent["result"]["a"], &sent["result"]["resultType"]),
            (&expected["a"], &json!("complete"))
        );
    }
}

#[test]
fn large_results_of_a_batch_are_parts_of_one_message() {
    let mut server = Server::new(|config| config, Limits::default());
    let mut initialize = initialize();
    initialize["params"]["protocolVersion"] = json!("2025-03-26");
    server.feed(&initialize);
    server.feed(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    server.sent();
    server.feed(&json!([request(1, "tools/call", json!({"name": "t"})), request(2, "ping", json!({}))]));
    let call = server.expect_call();
    let result = PreparedResult::new(call.version(), &json!({"a": "x".repeat(20 << 10)})).expect("JSON");
    server.engine.complete_prepared(server.now, call.id(), &result).expect("open");
    let sent = server.sent();
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].as_array().map(Vec::len), Some(2));
}

#[test]
fn buffer_of_a_short_result_is_kept_and_a_large_one_is_handed_over() {
    let mut buffered = BufferedResult::default();
    assert_eq!(buffered.capacity(), 0);
    for (length, is_large) in [(10, false), ((16 << 10) - 9, false), ((16 << 10) - 8, true), (20 << 10, true)]
    {
        let mut server = Server::new(|config| config, Limits::default());
        let call = server.call(1, modern(json!({"name": "t"})));
        buffered.encode(call.version(), &json!({"a": "x".repeat(length)})).expect("JSON");
        assert!(buffered.capacity() >= length + 8);
        buffered.complete(&mut server.engine, server.now, call.id()).expect("open");
        assert_eq!(buffered.capacity() == 0, is_large, "{length}");
        assert_eq!(server.sent()[0]["result"]["a"].as_str().map(str::len), Some(length));
    }
}

#[test]
fn short_results_take_one_allocation_of_their_outbox() {
    const ROOM: usize = 256 + 128;
    type Answer = fn(&mut Server, &Call);
    let answers: [(&str, usize, Answer); 3] = [
        ("nothing", 0, |server, call| {
            server.engine.complete(server.now, call.id(), &json!({})).expect("open")
        }),
        ("a result", 0, |server, call| {
            server.engine.complete(server.now, call.id(), &json!({"a": "x".repeat(150)})).expect("open");
        }),
        // Without its state, which is sealed before.
        ("a request for input", ROOM, |server, call| {
            server.engine.need_input(server.now, call, &forms(&["a"]), b"").expect("room");
        }),
    ];
    for (name, more, answer) in answers {
        let info = crate::model::Implementation::new("s".repeat(1_000), "1");
        let mut server = Server::new(|config| config.info(info), Limits::default());
        let suffix = server.engine.config.result_suffix.len();
        let call = server.call(1, modern(json!({"name": "t"})));
        answer(&mut server, &call);
        let outbox = server.engine.outbox(server.channel).expect("open");
        let (capacity, length) = (outbox.capacity(), outbox.len());
        assert!((length..=ROOM + suffix + more).contains(&capacity), "{name}: {capacity} for {length}");
        if more == 0 {
            assert_eq!(capacity, ROOM + suffix, "{name}");
        }
        let sent = server.sent().remove(0);
        let identity = &sent["result"]["_meta"]["io.modelcontextprotocol/serverInfo"];
        assert_eq!(identity["version"], json!("1"), "{name}: {sent}");
    }
}

#[test]
fn prepared_result_needs_memory_for_its_copy() {
    let max = 1 << 20;
    for (length, free, is_sent) in
        [(10 << 10, 4 << 10, false), (10 << 10, 40 << 10, true), (20 << 10, 4 << 10, true)]
    {
        let mut server = Server::new(|config| config, Limits { max_memory: Some(max), ..Limits::default() });
        let call = server.call(1, modern(json!({"name": "t"})));
        let result = PreparedResult::new(call.version(), &json!({"a": "x".repeat(length)})).expect("JSON");
        let mut charge = server.engine.endpoint.memory.open();
        charge.set(max - server.engine.config().memory_in_use() - free);
        let outcome = server.engine.complete_prepared(server.now, call.id(), &result);
        assert_eq!(outcome.is_ok(), is_sent, "{length} of {free}: {outcome:?}");
        assert_eq!(server.sent().len(), usize::from(is_sent));
    }
}

// ---- calls that wait for input ----

#[test]
fn call_that_is_delivered_again_has_what_it_had() {
    let mut server = Server::legacy(Limits::default());
    let meta = json!({"progressToken": "p", "com.example/a": 1});
    let params = json!({"name": "t\"u", "arguments": {"b": 2}, "other": 3, "_meta": meta});
    let seen = |call: &Call| {
        let tool = call.tool_call().expect("a tool");
        let raw = |json: Option<RawJson>| json.map(|json| String::from(json.as_str()));
        (
            (String::from(&*tool.name), tool.arguments.to_vec(), call.params_len()),
            (raw(call.params()), raw(call.meta()), raw(call.application_meta()), raw(call.sole_arguments())),
            (call.wants_progress(), call.describe_target()),
        )
    };
    let call = server.call(1, params.clone());
    let first = seen(&call);
    assert_eq!(first.0, ("t\"u".into(), b"{\"b\":2}".to_vec(), params.to_string().len()));
    assert_eq!(first.1.2.as_deref(), Some(r#"{"com.example/a":1}"#));
    assert_eq!(first.2, (true, "the tool `t\"u`".into()));
    server.engine.need_input(server.now, &call, &forms(&["a"]), b"").expect("room");
    let asked = server.sent().remove(0);
    server.feed(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "decline"}}));
    let call = server.expect_call();
    assert_eq!((call.attempt(), seen(&call)), (1, first));
}

#[test]
fn response_counts_by_its_key_and_text_and_is_kept_up_to_the_limit() {
    let answer = json!({"action": "accept", "content": {"x": "y".repeat(500)}});
    for (less, is_kept) in [(0, true), (1, false)] {
        let mut server = Server::legacy(Limits::default());
        let call = server.call(1, json!({"name": "t"}));
        server.engine.need_input(server.now, &call, &forms(&["first", "second"]), b"state").expect("room");
        let asked = server.sent();
        let held = |server: &Server| server.engine.parked.as_ref().map_or(0, |parked| parked.byte_len());
        let before = held(&server);
        let length = answer.to_string().len();
        server.set_limits(|limits| {
            // A frame beyond what is retained leaves room for one response.
            limits.max_retained_bytes = before;
            limits.max_frame = length - less;
        });
        server.feed(&json!({"jsonrpc": "2.0", "id": asked[0]["id"], "result": answer}));
        let kept = if is_kept { "first".len() + length } else { "first".len() };
        assert_eq!(held(&server) - before, kept);
    }
}

#[test]
fn parked_calls_are_found_by_their_state_whichever_has_ended_before() {
    const COUNT: usize = 9;
    for first in 0..COUNT {
        let mut server = Server::legacy(Limits::default());
        // Three states, so that some are equal.
        let state = |at: usize| alloc::format!("s{}", at % 3).into_bytes();
        let calls: Vec<Call> = (0..COUNT).map(|id| server.call(id + 1, json!({"name": "t"}))).collect();
        for (at, call) in calls.iter().enumerate() {
            server.engine.need_input(server.now, call, &forms(&["a"]), &state(at)).expect("room");
        }
        for left in (0..COUNT).rev() {
            let at = (first + 4 * left) % COUNT;
            server.feed(&json!({
                "jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": at + 1},
            }));
            server.engine.check_sums();
        }
        for at in 0..3 {
            assert!(!server.engine.withdraw_input(server.now, &state(at), None));
        }
        for (at, call) in (COUNT..).zip(&calls) {
            let call = server.call(at + 1, json!({"name": call.method()}));
            server.engine.need_input(server.now, &call, &forms(&["a"]), &state(at)).expect("room");
        }
        server.feed(&json!({
            "jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": COUNT + 1 + first},
        }));
        let found = |server: &mut Server, at: usize| {
            core::iter::from_fn(|| server.engine.withdraw_input(server.now, &state(at), None).then_some(()))
                .count()
        };
        let found: Vec<usize> = (0..3).map(|at| found(&mut server, at)).collect();
        let expected: Vec<usize> = (0..3).map(|at| 3 - usize::from(at == first % 3)).collect();
        assert_eq!(found, expected, "{first}");
    }
}

#[test]
fn parked_calls_of_one_stream_fail_without_those_of_others() {
    let mut server = Server::new(|config| config, Limits::default());
    let session = server.open_session(json!({"elicitation": {"form": {}}}));
    let mut streams = Vec::new();
    for id in 1..=3 {
        streams.push(server.open_exchange(session, &request(id, "tools/call", json!({"name": "t"}))));
        let call = server.expect_call();
        server.engine.need_input(server.now, &call, &forms(&["a"]), b"").expect("room");
    }
    for stream in &streams {
        assert_eq!(server.sent_on(*stream).len(), 1, "a request for input");
    }
    server.engine.exchanges().set_unreachable(server.now, streams[1].0, true);
    let answered: Vec<usize> = streams
        .iter()
        .map(|stream| server.sent_on(*stream).iter().filter(|m| m["error"].is_object()).count())
        .collect();
    assert_eq!(answered, [0, 1, 0]);
    server.engine.fail_parked(session.0, "over");
    let answered: Vec<usize> = streams
        .iter()
        .map(|stream| server.sent_on(*stream).iter().filter(|m| m["error"].is_object()).count())
        .collect();
    assert_eq!(answered, [1, 0, 1]);
}

#[test]
#[expect(deprecated, reason = "supported until its removal")]
fn request_for_input_with_metadata_is_refused() {
    let mut server = Server::legacy(Limits::default());
    let call = server.call(1, json!({"name": "t"}));
    let meta = RawJson::encode(&json!({"com.example/a": 1})).expect("JSON");
    for (params, outcome) in [
        (Some(EmptyParams::new().meta(meta)), Err(UseError::ReservedKey("_meta".into()))),
        (Some(EmptyParams::new()), Ok(Value::Null)),
    ] {
        let mut requests = InputRequests::new();
        requests.insert("roots", InputRequest::ListRoots(params));
        let asked = server.engine.need_input(server.now, &call, &requests, b"");
        assert_eq!(asked.map(|()| server.sent()[0]["params"].clone()), outcome);
    }
}

#[test]
fn session_of_many_has_its_share_of_requests_and_of_what_is_retained() {
    let open_session = |limits: Limits| {
        let mut server = Server::new(|config| config, limits);
        let session = server.open_session(json!({"elicitation": {"form": {}}}));
        (server, session)
    };
    let ask = |(server, session): &mut (Server, ChannelId), id: usize| {
        server.open_exchange(*session, &request(id, "tools/call", json!({"name": "t"})));
        let call = server.expect_call();
        server.engine.need_input(server.now, &call, &forms(&["a"]), b"state")
    };
    let share = u32::try_from(SESSION_SHARE).expect("small");
    let limits = Limits { max_pending_calls: 10 * share + 1, max_inputs: 1, ..Limits::default() };
    let mut session = open_session(limits);
    let asked = (1..20).take_while(|id| ask(&mut session, *id) == Ok(())).count();
    assert_eq!((asked, ask(&mut session, 20)), (10, Err(UseError::Full(Limit::PendingCalls))));

    let length = request(1, "tools/call", json!({"name": "t"})).to_string().len() + "state".len();
    for (less, outcome) in [(0, Ok(())), (1, Err(UseError::Full(Limit::RetainedBytes)))] {
        let max_retained_bytes = length * SESSION_SHARE - less;
        let mut session = open_session(Limits { max_retained_bytes, ..Limits::default() });
        assert_eq!(ask(&mut session, 1), outcome);
    }
}

#[test]
fn response_beyond_those_that_a_call_may_have_is_not_read() {
    for (max_inputs, is_read) in [(2, [true, true]), (1, [true, false])] {
        let mut server = Server::new(|config| config, Limits { max_inputs, ..Limits::default() });
        let responses = json!({"a": {"action": "decline"}, "b": {"action": "cancel"}});
        let call = server.call(1, modern(json!({"name": "t", "inputResponses": responses})));
        assert_eq!([call.answer("a").is_some(), call.answer("b").is_some()], is_read, "{max_inputs}");
    }
}

#[test]
fn first_response_with_a_key_is_read() {
    let mut server = Server::new(|config| config, Limits::default());
    let text = modern(json!({"name": "t", "inputResponses": "RESPONSES"})).to_string();
    let text = text.replace("\"RESPONSES\"", r#"{"a":{"action":"decline"},"a":{"action":"cancel"}}"#);
    let message = alloc::format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{text}}}"#);
    server.engine.handle_message(server.now, server.channel, message.into());
    let call = server.expect_call();
    let answer = call.answer("a").and_then(Result::ok).map(|answer| String::from(answer.as_str()));
    assert_eq!(answer.as_deref(), Some(r#"{"action":"decline"}"#));
}

#[test]
fn legacy_call_brings_no_responses_along() {
    let mut server = Server::legacy(Limits::default());
    let call = server.call(1, json!({"name": "t", "inputResponses": {"a": {"action": "decline"}}}));
    assert!(call.answer("a").is_none());
}

#[test]
fn state_is_sealed_with_keys_that_are_made_when_they_are_needed() {
    let seed = || Some(([1; 32], <_>::default()));
    let mut server = Server::new(|config| config.seal_lazily(seed), Limits::default());
    let call = server.call(1, modern(json!({"name": "t"})));
    server.engine.need_input(server.now, &call, &forms(&["a"]), b"kept").expect("keys");
    let state = server.sent()[0]["result"]["requestState"].clone();
    let call = server.call(2, modern(json!({"name": "t", "requestState": state})));
    assert_eq!((call.state(), call.attempt()), (Some(&b"kept"[..]), 1));
}

#[test]
fn nothing_is_asked_after_an_answer_that_cannot_be_used() {
    let mut server = Server::legacy(Limits::default());
    let mut call = server.call(1, json!({"name": "t"}));
    for attempt in 0..3 {
        let mut input = InputRequired::new();
        let new = alloc::format!("new {attempt}");
        assert_eq!(input.elicit(&call, &new, "?", ElicitSchema::default()), Err(InputError::Pending));
        let again = input.elicit(&call, "again", "?", ElicitSchema::default());
        assert_eq!(matches!(again, Err(InputError::Unusable(_))), attempt == 2, "{again:?}");
        // The other question was collected before the answer to this one was read.
        assert_eq!(input.is_empty(), attempt == 2);
        if attempt < 2 {
            server.engine.require_input(server.now, &call, &input).expect("room");
            for asked in server.sent() {
                server.feed(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": 1}}));
            }
            call = server.expect_call();
        }
    }
    let mut input = InputRequired::new();
    assert!(input.is_empty());
    assert!(input.elicit(&server.call(2, json!({"name": "t"})), "a", "?", ElicitSchema::default()).is_err());
    assert!(!input.is_empty());
    input.discard_requests();
    assert!(input.is_empty());
}

// ---- what a call says ----

#[test]
fn parameters_of_a_call_are_read_as_they_were_written() {
    use crate::server::event::Peer;
    let mut server = Server::new(|config| config, Limits::default());
    let call = |server: &mut Server, method: &str, params: Value| {
        server.feed(&request(1, method, modern(params)));
        let call = server.expect_call();
        server.engine.complete(server.now, call.id(), &json!({})).expect("open");
        call
    };
    let text = |json: Option<RawJson>| json.map(|json| String::from(json.as_str()));

    let add = call(&mut server, "tools/call", json!({"name": "add", "arguments": {"a": 1, "b": [2]}}));
    assert_eq!(add.params_len(), add.params().map_or(0, |params| params.as_bytes().len()));
    assert_eq!((add.describe_target(), add.application_meta()), ("the tool `add`".into(), None));
    assert_eq!(text(add.sole_arguments()).as_deref(), Some(r#"{"a":1,"b":[2]}"#));
    let tool = add.tool_call().expect("a tool");
    assert!(matches!(tool.name, alloc::borrow::Cow::Borrowed("add")), "a name without escapes is not copied");
    assert_eq!(
        (tool.member("b"), tool.member("a"), tool.member("c")),
        (Some(&b"[2]"[..]), Some(&b"1"[..]), None)
    );
    let peer: Peer = server.engine.peer(&add);
    assert!(peer.has(Capability::Elicitation) && !peer.has(Capability::ElicitationUrl));

    let meta = json!({"com.example/x": true});
    let other =
        call(&mut server, "tools/call", json!({"name": "a\nb", "arguments": {}, "x": 1, "_meta": meta}));
    assert_eq!(other.tool_call().expect("a tool").name, "a\nb");
    assert_eq!((text(other.application_meta()), other.sole_arguments()), (Some(meta.to_string()), None));

    let read = call(&mut server, "resources/read", json!({"uri": "x:1", "arguments": {}}));
    assert_eq!((read.describe_target(), read.sole_arguments()), ("the resource `x:1`".into(), None));
    let list = call(&mut server, "tools/list", json!({}));
    assert_eq!((list.describe_target(), list.sole_arguments()), ("`tools/list`".into(), None));

    // A call without parameters is one of a session.
    let mut server = Server::legacy(Limits::default());
    server.feed(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}));
    let list = server.expect_call();
    assert_eq!((list.params(), list.params_len(), list.sole_arguments()), (None, 0, None));
    let call = server.call(2, json!({"name": "t", "arguments": [1]}));
    assert!(call.sole_arguments().is_none() && call.tool_call().is_err());
}

// ---- what is remembered of a client ----

#[test]
fn metadata_is_remembered_if_it_repeats_and_is_short() {
    let long = modern(json!({"_meta": {"com.example/a": "x".repeat(2_000)}}));
    let length = modern(json!({}))["_meta"].to_string().len();
    for (name, params, max_meta_cache, is_kept) in [
        ("plain", modern(json!({})), length, true),
        ("beyond the limit", modern(json!({})), length - 1, false),
        ("long", long, 1 << 10, false),
        ("a progress token", modern(json!({"_meta": {"progressToken": 1}})), 1 << 10, false),
        ("a span", modern(json!({"_meta": {"traceparent": "00-1-1-01"}})), 1 << 10, false),
    ] {
        let mut server = Server::new(|config| config, Limits { max_meta_cache, ..Limits::default() });
        let meta = params["_meta"].to_string();
        server.feed(&request(1, "tools/list", params));
        let known = |server: &Server| {
            server
                .engine
                .request_check
                .known_meta()
                .map(|(text, _)| String::from_utf8_lossy(text).into_owned())
        };
        assert_eq!(known(&server), is_kept.then_some(meta), "{name}");
        let call = server.expect_call();
        server.engine.complete(server.now, call.id(), &json!({})).expect("open");
        server.now = server.now + Duration::from_secs(60);
        server.engine.handle_timeout(server.now);
        assert_eq!(known(&server), None, "an idle engine forgets it");
    }
}

#[test]
#[expect(deprecated, reason = "supported until its removal")]
fn capabilities_of_clients_that_take_turns_are_told_apart() {
    let mut check = RequestCheck::default();
    let raw = |text: &str| RawJson::new(text.to_string()).expect("JSON");
    let (sampling, roots) = (raw(r#"{"sampling":{}}"#), raw(r#"{"roots":{}}"#));
    for max_meta_cache in [0, 12, 1 << 10] {
        let limits = Limits { max_meta_cache, ..Limits::default() };
        for _ in 0..2 {
            for (text, has_sampling) in [(&sampling, true), (&roots, false), (&roots, false)] {
                let declared = check.read_capabilities(text, &limits);
                assert_eq!(declared.has(Capability::Sampling), has_sampling);
                assert_eq!(declared.has(Capability::Roots), !has_sampling);
            }
        }
        let kept = if max_meta_cache < 12 { None } else { Some(r#"{"roots":{}}"#) };
        assert_eq!(check.last_capabilities(), kept, "{max_meta_cache}");
        check.trim();
        assert_eq!(check.last_capabilities(), None);
    }
}

// ---- tasks ----

impl Server {
    /// Opens a session that can begin tasks.
    fn with_tasks() -> Self {
        let mut server = Self::new(|config| config, Limits::default());
        server.engine.set_tasks(server.now, TaskTable::new(Entropy::new([5; 32], 0), Anchor::default()));
        server.handshake();
        server.events();
        server
    }

    fn advance(&mut self, time: Duration) {
        let until = self.now + time;
        while let Some(at) = self.engine.poll_timeout().filter(|at| *at <= until) {
            self.now = at.max(self.now);
            self.engine.handle_timeout(self.now);
        }
        self.now = until;
    }
}

#[test]
fn end_of_a_channel_is_reported_and_that_of_the_tasks_is_not() {
    let mut server = Server::with_tasks();
    server.engine.shutdown(server.now, Duration::ZERO);
    server.advance(Duration::from_secs(1));
    let closed: Vec<ChannelId> = server
        .events()
        .into_iter()
        .filter_map(|event| if let Event::Closed { channel, .. } = event { Some(channel) } else { None })
        .collect();
    assert_eq!(closed, [server.channel]);
}

#[test]
fn run_of_a_task_has_the_state_and_the_values_of_its_handler() {
    let mut server = Server::with_tasks();
    let call = server.call(1, json!({"name": "t", "task": {}}));
    let mut input = InputRequired::new();
    input.keep("k", &5).expect("JSON");
    input.set_state("s");
    input.begin_task(&mut server.engine, server.now, &call, TaskOptions::new()).expect("room");
    let run = server.expect_call();
    assert_eq!(run.state(), Some(&b"s"[..]));
    assert_eq!(InputRequired::new().kept::<u8>(&run, "k"), Ok(Some(5)));
    // An empty state leaves that of an earlier delivery.
    server.sent();
    let call = server.call(2, json!({"name": "t", "task": {}}));
    InputRequired::new().begin_task(&mut server.engine, server.now, &call, TaskOptions::new()).expect("room");
    assert_eq!(server.expect_call().state(), None);
}

#[test]
fn empty_result_of_a_modern_task_gets_its_type() {
    let mut server = Server::with_tasks();
    let mut params = modern(json!({"name": "t"}));
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
        json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let meta = params["_meta"].clone();
    let call = server.call(1, params);
    server.engine.tasks(server.now).begin(&call, TaskOptions::new()).expect("room");
    let run = server.expect_call();
    server.engine.complete(server.now, run.id(), &json!({})).expect("open");
    let id = server.sent()[0]["result"]["taskId"].clone();
    server.feed(&request(2, "tasks/get", json!({"taskId": id, "_meta": meta})));
    let task = server.sent().remove(0)["result"].clone();
    assert_eq!((&task["status"], &task["result"]), (&json!("completed"), &json!({"resultType": "complete"})));
}

#[test]
fn requests_that_wait_for_tasks_are_no_calls_in_work() {
    let mut server = Server::with_tasks();
    let call = server.call(1, json!({"name": "t", "task": {}}));
    server.engine.tasks(server.now).begin(&call, TaskOptions::new()).expect("room");
    let run = server.expect_call();
    let id = server.sent()[0]["result"]["task"]["taskId"].clone();
    for request_id in [2, 3] {
        server.feed(&request(request_id, "tasks/result", json!({"taskId": id})));
        assert_eq!(server.engine.live_calls(), 0);
    }
    server.call(4, json!({"name": "t"}));
    assert_eq!(server.engine.live_calls(), 1);
    server.engine.complete(server.now, run.id(), &json!({"content": []})).expect("open");
    let answers: Vec<Value> = server
        .sent()
        .into_iter()
        .filter(|sent| sent.get("result").is_some())
        .map(|sent| sent["id"].clone())
        .collect();
    assert_eq!((answers, server.engine.live_calls()), ([json!(2), json!(3)].into(), 1));
}

// covers: TASK-023, TIME-002
#[test]
fn question_of_a_task_without_an_answer_in_time_is_cancelled() {
    let mut server = Server::with_tasks();
    let call = server.call(1, json!({"name": "t", "task": {}}));
    server.engine.tasks(server.now).begin(&call, TaskOptions::new()).expect("room");
    let run = server.expect_call();
    let id = server.sent()[0]["result"]["task"]["taskId"].clone();
    let mut input = InputRequired::new();
    assert!(input.elicit(&run, "q", "?", ElicitSchema::default()).is_err());
    server.engine.require_input(server.now, &run, &input).expect("the client answers forms");
    server.feed(&request(2, "tasks/result", json!({"taskId": id})));
    let asked = server.sent().into_iter().find(|sent| sent["method"] == json!("elicitation/create"));
    server.advance(Limits::default().input_timeout + Duration::from_secs(1));
    let cancelled = server.sent().into_iter().find(|sent| sent["method"] == json!("notifications/cancelled"));
    let cancelled = cancelled.expect("a cancellation")["params"].clone();
    assert_eq!(cancelled["requestId"], asked.expect("a question")["id"]);
    assert_eq!(cancelled["_meta"]["io.modelcontextprotocol/related-task"], json!({"taskId": id}));
    assert!(server.engine.endpoint.outbound.calls.is_empty());
}

#[test]
fn poll_without_an_answer_is_cancelled_on_the_stream_of_its_question() {
    let mut server = Server::new(|config| config, Limits::default());
    let hosts = json!({"requests": {"elicitation": {"create": {}}}});
    let session = server.open_session(json!({"elicitation": {}, "tasks": hosts}));
    let stream = server.open_exchange(session, &request(1, "tools/call", json!({"name": "t"})));
    let call = server.expect_call();
    let mut input = InputRequired::new();
    input.ask_as_tasks(None);
    assert!(input.elicit(&call, "q", "?", ElicitSchema::default()).is_err());
    server.engine.require_input(server.now, &call, &input).expect("the client answers forms");
    let asked = server.sent_on(stream).remove(0);
    let task = json!({
        "taskId": "q-1", "status": "working", "createdAt": "2025-11-26T09:00:00Z",
        "lastUpdatedAt": "2025-11-26T09:00:05Z", "ttl": 3_600_000, "pollInterval": 500,
    });
    let created = json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"task": task}});
    server.open_exchange(session, &created);
    server.advance(Duration::from_secs(1));
    let polled = server.sent_on(stream).remove(0);
    assert_eq!(polled["method"], json!("tasks/get"));
    server.advance(Limits::default().call_timeout);
    let cancelled = server.sent_on(stream).remove(0);
    assert_eq!(
        (&cancelled["method"], &cancelled["params"]["requestId"]),
        (&json!("notifications/cancelled"), &polled["id"])
    );
    assert!(server.sent_on(session).is_empty());
}
