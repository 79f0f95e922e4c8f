//! The exchanges of both engines, by which a binding outside of this library drives them: hostile peers, unlucky schedules, misuse.

use alloc::sync::Arc;
use core::time::Duration;

use mcp_proto::client::{self, InputId, KnownEra, TaskRequest};
use mcp_proto::model::CallToolResult;
use mcp_proto::server::{self, EarlyEnd, Engine, Event, ExchangeToken, InputRequired};
use mcp_proto::{
    CallError, CallOptions, Capabilities, Capability, ChannelId, Era, Fault, Instant, Limits, RequestId,
    UseError, VersionSet,
};
use serde_json::{Value, json};

use crate::protocol::common::limits;

const NOW: Instant = Instant::ZERO;

fn config() -> server::Config {
    let capabilities = Capabilities::new().with(Capability::Tools).with(Capability::ToolsListChanged);
    server::Config::new("server", "1").capabilities(capabilities)
}

fn open(engine: &mut Engine, session: Option<ChannelId>, token: u64, message: &Value) -> ChannelId {
    open_at(engine, NOW, session, token, message)
}

fn open_at(
    engine: &mut Engine,
    now: Instant,
    session: Option<ChannelId>,
    token: u64,
    message: &Value,
) -> ChannelId {
    engine.exchanges().open(now, session, ExchangeToken(token), message.to_string().into())
}

fn request(id: u32, method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn initialize(id: u32, version: &str) -> Value {
    let client = json!({"name": "c", "version": "1"});
    let params = json!({"protocolVersion": version, "capabilities": {"roots": {}}, "clientInfo": client});
    request(id, "initialize", &params)
}

fn tool_call(id: u32) -> Value {
    request(id, "tools/call", &json!({"name": "t"}))
}

fn modern(id: u32, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    request(id, method, &params)
}

/// Opens a session and its handshake.
fn begin_session(engine: &mut Engine, token: Option<ExchangeToken>, version: &str) -> ChannelId {
    let session = engine.exchanges().open_session(NOW, token);
    for message in [initialize(1, version), json!({"jsonrpc": "2.0", "method": "notifications/initialized"})]
    {
        let exchange = open(engine, Some(session), 1_000, &message);
        engine.exchanges().close(NOW, exchange);
    }
    while engine.poll_event(NOW).is_some() {}
    while engine.exchanges().poll_ready().is_some() {}
    session
}

fn output(engine: &mut Engine, exchange: ChannelId) -> Vec<Value> {
    let output = engine.exchanges().output(exchange).expect("the exchange is there");
    core::iter::from_fn(|| output.outbox.pop_message())
        .map(|message| serde_json::from_slice(&message).expect("JSON"))
        .collect()
}

fn events(engine: &mut Engine, now: Instant) -> Vec<Event> {
    core::iter::from_fn(|| engine.poll_event(now)).collect()
}

fn expect_call(engine: &mut Engine) -> server::Call {
    let call =
        events(engine, NOW).into_iter().find_map(|e| if let Event::Call(c) = e { Some(c) } else { None });
    call.expect("a call")
}

fn tokens(engine: &mut Engine) -> Vec<u64> {
    core::iter::from_fn(|| engine.exchanges().poll_ready()).map(|token| token.0).collect()
}

#[test]
fn exchange_of_a_closed_session_is_closed() {
    let mut engine = Engine::new(Arc::new(config()));
    let session = begin_session(&mut engine, None, "2025-11-25");
    let exchange = open(&mut engine, Some(session), 7, &tool_call(2));
    let call = expect_call(&mut engine);
    engine.exchanges().close(NOW, session);
    let events = events(&mut engine, NOW);
    assert!(
        matches!(&events[..], [Event::Cancelled { call: id, .. }, Event::Closed { .. }] if *id == call.id())
    );
    assert_eq!(tokens(&mut engine), [7]);
    let status = engine.exchange_status(exchange);
    assert!(!status.is_open && status.is_closed, "{status:?}");
    assert_eq!(engine.complete(NOW, call.id(), &CallToolResult::text("x")), Err(UseError::Stale));
    for _ in 0..2 {
        engine.exchanges().close(NOW, exchange);
        engine.exchanges().close(NOW, session);
        assert!(!engine.exchanges().handle_disconnect(NOW, exchange));
    }
    assert!(events_are_none(&mut engine));
}

fn events_are_none(engine: &mut Engine) -> bool {
    events(engine, NOW).is_empty()
}

#[test]
fn exchange_of_a_session_that_shut_down_is_closed() {
    let mut engine = Engine::new(Arc::new(config()));
    let session = begin_session(&mut engine, None, "2025-11-25");
    let exchange = open(&mut engine, Some(session), 7, &tool_call(2));
    let call = expect_call(&mut engine);
    engine.shutdown(NOW, Duration::from_secs(1));
    assert!(!engine.exchange_status(exchange).is_closed);
    engine.complete(NOW, call.id(), &CallToolResult::text("x")).expect("open");
    let status = engine.exchange_status(exchange);
    assert!(!status.is_open && status.is_closed, "{status:?}");
    assert_eq!(output(&mut engine, exchange)[0]["result"]["content"][0]["text"], "x");
}

#[test]
fn request_in_a_session_that_has_ended_is_refused() {
    let keep_alive = Duration::from_secs(10);
    let mut engine = Engine::new(Arc::new(config().keep_alive_ping(keep_alive, 0)));
    let session = begin_session(&mut engine, Some(ExchangeToken(0)), "2025-11-25");
    let mut now = NOW;
    for _ in 0..4 {
        now = now + keep_alive;
        engine.handle_timeout(now);
        while engine.exchanges().output(session).is_some_and(|o| o.outbox.pop_message().is_some()) {}
    }
    assert!(
        events(&mut engine, now)
            .iter()
            .any(|e| matches!(e, Event::Closed { channel, .. } if *channel == session))
    );
    assert!(engine.exchange_status(session).is_closed);
    let other = engine.exchanges().open_session(now, None);
    let foreign = open_at(&mut engine, now, Some(other), 5, &tool_call(1));
    engine.exchanges().close(now, other);
    for (n, session) in [session, other, foreign].into_iter().enumerate() {
        for message in
            [tool_call(2), initialize(3, "2025-11-25"), modern(4, "tools/call", json!({"name": "t"}))]
        {
            let exchange = open_at(&mut engine, now, Some(session), 7, &message);
            assert!(output(&mut engine, exchange)[0]["error"].is_object(), "{n}: {message}");
            assert!(engine.exchange_status(exchange).early_end == Some(EarlyEnd::Refused));
            engine.exchanges().close(now, exchange);
        }
        let batch = open_at(&mut engine, now, Some(session), 8, &json!([tool_call(5)]));
        assert_eq!(output(&mut engine, batch).len(), 1);
        let blank = engine.exchanges().open(now, Some(session), ExchangeToken(8), " ".into());
        assert!(output(&mut engine, blank).is_empty());
        let note =
            open_at(&mut engine, now, Some(session), 8, &json!({"jsonrpc": "2.0", "method": "custom/note"}));
        assert!(output(&mut engine, note).is_empty());
        assert!(events(&mut engine, now).iter().all(|e| matches!(e, Event::Diagnostic { .. })), "{n}");
    }
    assert_eq!(engine.live_calls(), 0);
}

#[test]
fn shutdown_reports_the_end_of_sessions_alone() {
    let mut engine = Engine::new(Arc::new(config()));
    let session = engine.exchanges().open_session(NOW, None);
    let call = open(&mut engine, Some(session), 1, &modern(1, "tools/call", json!({"name": "t"})));
    let listen = json!({"notifications": {"toolsListChanged": true}});
    let listen = open(&mut engine, Some(session), 2, &modern(1, "subscriptions/listen", listen));
    let id = expect_call(&mut engine).id();
    tokens(&mut engine);
    assert!(output(&mut engine, call).is_empty());
    assert_eq!(output(&mut engine, listen).len(), 1);
    assert!(engine.exchange_status(listen).is_open && engine.exchange_status(call).is_open);
    engine.shutdown(NOW, Duration::from_secs(1));
    assert_eq!(tokens(&mut engine), [2]);
    assert!(!engine.exchange_status(listen).is_open);
    engine.complete(NOW, id, &CallToolResult::text("x")).expect("open");
    assert_eq!(tokens(&mut engine), [1]);
    assert_eq!(output(&mut engine, call).len(), 1);
    assert_eq!(output(&mut engine, listen).len(), 1);
    let closed: Vec<_> = events(&mut engine, NOW)
        .into_iter()
        .filter_map(|e| if let Event::Closed { channel, .. } = e { Some(channel) } else { None })
        .collect();
    assert_eq!(closed, [session]);
}

#[test]
fn faulty_message_reports_no_end_of_its_exchange() {
    let mut limits = Limits::default();
    limits.max_faulty_messages = Some(1);
    let mut engine = Engine::new(Arc::new(config().limits(limits)));
    let exchange = engine.exchanges().open(NOW, None, ExchangeToken(1), "{".into());
    assert_eq!(output(&mut engine, exchange).len(), 1);
    assert!(matches!(&events(&mut engine, NOW)[..], [Event::Diagnostic { .. }]));
}

#[test]
fn session_without_a_stream_does_not_stall_its_client() {
    let mut engine = Engine::new(Arc::new(config()));
    let session = begin_session(&mut engine, None, "2025-11-25");
    let text = "x".repeat(10_000);
    while engine.notify(NOW, session, "custom/note", Some(&json!({"text": text}))).is_ok() {}
    assert!(!engine.is_stalled(session), "the client could never open a stream");
    engine.exchanges().set_session_token(session, Some(ExchangeToken(9)));
    assert!(engine.is_stalled(session));
    assert_eq!(tokens(&mut engine), [9]);
}

#[test]
fn refused_member_does_not_refuse_the_batch() {
    let mut engine = Engine::new(Arc::new(config()));
    let session = begin_session(&mut engine, None, "2025-03-26");
    let batch = json!([tool_call(2), request(3, "no/such", &json!({}))]);
    let exchange = open(&mut engine, Some(session), 1, &batch);
    let call = expect_call(&mut engine);
    let status = engine.exchange_status(exchange);
    assert!(status.is_open && status.early_end.is_none(), "{status:?}");
    engine.complete(NOW, call.id(), &CallToolResult::text("x")).expect("open");
    let answers = output(&mut engine, exchange);
    assert_eq!(answers[0].as_array().map(Vec::len), Some(2), "{answers:?}");
}

#[test]
fn session_token_of_an_exchange_cannot_be_set() {
    let mut engine = Engine::new(Arc::new(config()));
    let session = begin_session(&mut engine, None, "2025-11-25");
    for session in [None, Some(session)] {
        let message =
            if session.is_some() { tool_call(2) } else { modern(2, "tools/call", json!({"name": "t"})) };
        let exchange = open(&mut engine, session, 7, &message);
        let call = expect_call(&mut engine);
        engine.exchanges().set_session_token(exchange, None);
        engine.complete(NOW, call.id(), &CallToolResult::text("x")).expect("open");
        assert_eq!(tokens(&mut engine), [7]);
    }
}

#[test]
fn end_of_a_session_is_announced_to_a_later_stream() {
    let mut engine = Engine::new(Arc::new(config()));
    let session = begin_session(&mut engine, None, "2025-11-25");
    engine.shutdown(NOW, Duration::ZERO);
    assert!(tokens(&mut engine).is_empty());
    engine.exchanges().set_session_token(session, Some(ExchangeToken(9)));
    assert_eq!(tokens(&mut engine), [9]);
}

#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn call_ends_if_its_request_for_input_cannot_leave() {
    let mut engine = Engine::new(Arc::new(config()));
    let session = begin_session(&mut engine, None, "2025-11-25");
    for is_sent in [true, false] {
        let exchange = open(&mut engine, Some(session), 7, &tool_call(2));
        let call = expect_call(&mut engine);
        let mut input = InputRequired::new();
        input.list_roots(&call, "roots").expect_err("not known yet");
        engine.require_input(NOW, &call, &input).expect("the client can answer");
        if is_sent {
            assert_eq!(output(&mut engine, exchange).len(), 1);
        }
        assert!(engine.exchanges().handle_disconnect(NOW, exchange));
        assert_eq!(engine.exchange_status(exchange).is_open, is_sent, "the call would wait for nothing");
        engine.exchanges().close(NOW, exchange);
    }
}

// ---- client ----

fn ready_client(era: Era) -> client::Engine {
    ready_client_with(era, Limits::default())
}

#[expect(deprecated, reason = "tested until its removal")]
fn ready_client_with(era: Era, limits: Limits) -> client::Engine {
    let capabilities = Capabilities::new().with(Capability::Roots);
    let known = if era == Era::Modern { KnownEra::Modern } else { KnownEra::Legacy };
    let config = client::Config::new("client", "1")
        .capabilities(capabilities)
        .versions(VersionSet::ALL.era(era))
        .known_era(known)
        .limits(limits)
        .tasks();
    let mut engine = client::Engine::with_exchanges(Arc::new(config));
    engine.open_channel(NOW);
    let request = engine.exchanges().poll_message().and_then(|m| m.request).expect("a request");
    let result = match era {
        Era::Modern => json!({"resultType": "complete", "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {"listChanged": true}}, "ttlMs": 0, "cacheScope": "private"}),
        Era::Legacy => {
            let tasks = json!({"requests": {"tools": {"call": {}}}});
            json!({"protocolVersion": "2025-11-25", "serverInfo": {"name": "s", "version": "1"},
            "capabilities": {"tools": {"listChanged": true}, "tasks": tasks}})
        }
    };
    let answer = json!({"jsonrpc": "2.0", "id": request.as_int(), "result": result});
    engine.exchanges().handle_message(NOW, answer.to_string().into(), Some(&request));
    assert!(matches!(engine.poll_event(NOW), Some(client::Event::Ready(peer)) if peer.era() == era));
    while engine.exchanges().poll_message().is_some() {}
    engine
}

fn call(engine: &mut client::Engine, options: &CallOptions) -> RequestId {
    engine.call_tool(NOW, "t", &json!({}), options).expect("room");
    engine.exchanges().poll_message().and_then(|m| m.request).expect("a request")
}

#[test]
fn malformed_response_of_another_exchange_ends_nothing() {
    for era in [Era::Legacy, Era::Modern] {
        let mut engine = ready_client(era);
        let (mine, other) = (call(&mut engine, &CallOptions::new()), call(&mut engine, &CallOptions::new()));
        for member in
            ["\"error\":7", "\"result\":7", "\"result\":{},\"error\":{}", "\"x\":1", "\"result\":{}"]
        {
            let text =
                format!("{{\"jsonrpc\":\"2.0\",\"id\":{},{member}}}", other.as_int().expect("a number"));
            engine.exchanges().handle_message(NOW, text.into(), Some(&mine));
            assert!(engine.awaits_response(&other), "{era:?}: {member}");
        }
        assert!(engine.awaits_response(&mine));
        let text = format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"error\":7}}", mine.as_int().expect("a number"));
        engine.exchanges().handle_message(NOW, text.into(), Some(&mine));
        assert!(!engine.awaits_response(&mine), "{era:?}");
    }
}

#[test]
fn negotiation_that_is_paused_ends_in_time() {
    for era in [Era::Legacy, Era::Modern] {
        let config = client::Config::new("client", "1").versions(VersionSet::ALL.era(era));
        let limit = config.effective_limits().input_timeout;
        let mut engine = client::Engine::with_exchanges(Arc::new(config));
        engine.open_channel(NOW);
        let request = engine.exchanges().poll_message().and_then(|m| m.request).expect("a request");
        engine.exchanges().pause_request(NOW, &request);
        let before = NOW + limit - Duration::from_secs(1);
        engine.handle_timeout(before);
        assert!(engine.poll_event(before).is_none(), "{era:?}");
        engine.handle_timeout(NOW + limit);
        assert!(
            matches!(
                engine.poll_event(NOW + limit),
                Some(client::Event::Closed(Fault::HandshakeTimeout { .. }))
            ),
            "{era:?}"
        );
    }
}

#[test]
fn operations_on_requests_that_ended_have_no_effect() {
    for era in [Era::Legacy, Era::Modern] {
        let mut engine = ready_client(era);
        let id = call(&mut engine, &CallOptions::new().idempotent());
        let again = engine.exchanges().resend_request(NOW, &id).expect("it is retained");
        assert!(!engine.awaits_response(&id) && engine.awaits_response(&again), "{era:?}");
        assert_eq!(engine.exchanges().resend_request(NOW, &id), None);
        let gone = CallError::Transport { reason: "gone".into() };
        engine.exchanges().fail_request(NOW, &id, gone.clone());
        engine.exchanges().pause_request(NOW, &id);
        engine.exchanges().resume_request(NOW, &id, Duration::ZERO);
        assert!(engine.poll_event(NOW).is_none());
        assert_eq!(engine.exchanges().poll_message().and_then(|m| m.request), Some(again.clone()));
        assert!(engine.awaits_response(&again));
        engine.exchanges().fail_request(NOW, &again, gone.clone());
        assert!(
            matches!(engine.poll_event(NOW), Some(client::Event::Done { outcome: Err(e), .. }) if e == gone)
        );
        engine.exchanges().close(NOW, Fault::Eof);
        engine.exchanges().close(NOW, Fault::Closed);
        assert!(matches!(engine.poll_event(NOW), Some(client::Event::Closed(Fault::Eof))));
        assert!(engine.poll_event(NOW).is_none() && engine.exchanges().poll_message().is_none());
    }
}

#[test]
fn cancelled_request_that_was_never_sent_is_skipped() {
    for era in [Era::Legacy, Era::Modern] {
        let mut engine = ready_client_with(era, limits(|l| l.tap_records = 100));
        while engine.poll_tap().is_some() {}
        let key = engine.call_tool(NOW, "t", &json!({}), &CallOptions::new()).expect("room");
        engine.cancel(NOW, key, None).expect("open");
        assert_eq!(engine.exchanges().poll_message(), None, "{era:?}");
        assert!(engine.poll_tap().is_none(), "{era:?}");
        let key = engine.call_tool(NOW, "t", &json!({}), &CallOptions::new()).expect("room");
        let sent = engine.exchanges().poll_message().and_then(|m| m.request);
        engine.cancel(NOW, key, None).expect("open");
        assert_eq!(engine.exchanges().poll_message().map(|m| m.cancels), Some(sent), "{era:?}");
        // The tap has what is sent: a modern call is cancelled by the end of its exchange.
        let tapped = core::iter::from_fn(|| engine.poll_tap()).map(|record| record.bytes);
        let cancellations =
            tapped.map(|text| text.windows(9).any(|part| part == b"cancelled")).collect::<Vec<_>>();
        let want: &[bool] = if era == Era::Legacy { &[false, true] } else { &[false] };
        assert_eq!(cancellations, want, "{era:?}");
    }
}

fn after(secs: u64) -> Instant {
    NOW + Duration::from_secs(secs)
}

/// Returns the outcome of the next call that ends.
fn outcome(engine: &mut client::Engine, now: Instant) -> Option<Result<(), CallError>> {
    core::iter::from_fn(|| engine.poll_event(now)).find_map(|event| match event {
        client::Event::Done { outcome, .. } => Some(outcome.map(drop)),
        _ => None,
    })
}

/// Takes the events up to the next question of the server.
fn question(engine: &mut client::Engine, now: Instant) -> InputId {
    let mut events = core::iter::from_fn(|| engine.poll_event(now));
    let found =
        events.find_map(|event| if let client::Event::Input(input) = event { Some(input.id) } else { None });
    found.expect("a question")
}

/// Checks that a call ends at this time and not before.
fn check_total_timeout(engine: &mut client::Engine, total: u64) {
    let before = after(total - 1);
    engine.handle_timeout(before);
    assert_eq!(outcome(engine, before), None);
    engine.handle_timeout(after(total));
    assert_eq!(outcome(engine, after(total)), Some(Err(CallError::TotalTimedOut)));
}

// covers: TIME-006
#[test]
fn total_time_of_a_request_goes_on_after_a_pause_where_it_stopped() {
    let total = Limits::default().call_total_timeout.as_secs();
    for era in [Era::Legacy, Era::Modern] {
        let mut engine = ready_client(era);
        let id = call(&mut engine, &CallOptions::new().timeout(Duration::from_secs(100_000)));
        engine.exchanges().pause_request(after(10), &id);
        engine.exchanges().resume_request(after(110), &id, Duration::from_secs(100));
        check_total_timeout(&mut engine, total + 100);
    }
}

/// The server may need the answer for this call, and does not say so.
// covers: TIME-006, TIME-008
#[test]
fn total_time_of_a_call_that_was_sent_again_excludes_that_of_a_question() {
    let total = Limits::default().call_total_timeout.as_secs();
    let mut engine = ready_client(Era::Legacy);
    let options = CallOptions::new().timeout(Duration::from_secs(100_000)).idempotent();
    let id = call(&mut engine, &options);
    engine.exchanges().resend_request(NOW, &id).expect("it is retained");
    let roots = request(7, "roots/list", &json!({}));
    engine.exchanges().handle_message(after(10), roots.to_string().into(), None);
    let input = question(&mut engine, after(10));
    engine.answer(after(110), input, &json!({"roots": []})).expect("open");
    check_total_timeout(&mut engine, total + 100);
}

// covers: MRTR-014
#[test]
fn retry_with_input_responses_is_not_sent_again() {
    let mut engine = ready_client(Era::Modern);
    let id = call(&mut engine, &CallOptions::new().idempotent());
    let result = json!({"resultType": "input_required", "requestState": "s",
        "inputRequests": {"a": {"method": "roots/list"}}});
    let answer = json!({"jsonrpc": "2.0", "id": id.as_int(), "result": result});
    engine.exchanges().handle_message(NOW, answer.to_string().into(), Some(&id));
    let input = question(&mut engine, NOW);
    engine.answer(NOW, input, &json!({"roots": []})).expect("open");
    let retry = engine.exchanges().poll_message().and_then(|m| m.request).expect("a request");
    assert_eq!(engine.exchanges().resend_request(NOW, &retry), None);
    assert!(engine.awaits_response(&retry) && engine.exchanges().poll_message().is_none());
}

// covers: CANC-009
#[test]
fn exchanges_without_a_call_are_given_up_each_once_and_the_last_ones_if_nobody_asks() {
    let mut limits = Limits::default();
    limits.max_pending_calls = 2;
    let mut engine = ready_client_with(Era::Legacy, limits);
    let mut sent = Vec::new();
    for _ in 0..4 {
        let (task, options) = (TaskRequest::followed(), CallOptions::new());
        let key = engine.call_tool_as_task(NOW, "t", &json!({}), task, &options).expect("room");
        sent.extend(engine.exchanges().poll_message().and_then(|m| m.request));
        // Beside the first one, which may still become a task, there is room for calls alone.
        engine.cancel(NOW, key, None).expect("open");
    }
    let expired: Vec<_> = core::iter::from_fn(|| engine.exchanges().poll_expired()).collect();
    assert_eq!(expired, sent[2..]);
    let minute = after(60);
    engine.handle_timeout(minute);
    assert_eq!(engine.exchanges().poll_expired().as_ref(), sent.first());
    assert_eq!(engine.exchanges().poll_expired(), None);
}

#[test]
fn handshake_that_a_binding_fails_tells_why() {
    let config = client::Config::new("client", "1").versions(VersionSet::LEGACY);
    let mut engine = client::Engine::with_exchanges(Arc::new(config));
    engine.open_channel(NOW);
    let request = engine.exchanges().poll_message().and_then(|m| m.request).expect("a request");
    engine.exchanges().fail_request(
        NOW,
        &request,
        CallError::Transport { reason: "the topic is gone".into() },
    );
    match engine.poll_event(NOW) {
        Some(client::Event::Closed(Fault::HandshakeRefused(error))) => {
            assert!(error.message.contains("the topic is gone"), "{error}");
        }
        other => panic!("{other:?}"),
    }
}

/// An exchange may outlive its call, so only an id in the message tells that it is a late one.
#[test]
fn notification_in_the_exchange_of_an_ended_call_is_reported_unless_it_names_the_call() {
    let mut engine = ready_client(Era::Modern);
    let id = call(&mut engine, &CallOptions::new().long_lived());
    let tide = |meta: &Value| {
        json!({"jsonrpc": "2.0", "method": "harbour/tide", "params": {"_meta": meta}}).to_string()
    };
    let (unnamed, named) = (json!({}), json!({"io.modelcontextprotocol/subscriptionId": id.as_int()}));
    engine.exchanges().handle_message(NOW, tide(&unnamed).into(), Some(&id));
    assert!(matches!(engine.poll_event(NOW), Some(client::Event::CallNotification { .. })));
    let answer = json!({"jsonrpc": "2.0", "id": id.as_int(), "result": {"resultType": "complete"}});
    engine.exchanges().handle_message(NOW, answer.to_string().into(), Some(&id));
    assert_eq!(outcome(&mut engine, NOW), Some(Ok(())));
    engine.exchanges().handle_message(NOW, tide(&named).into(), Some(&id));
    assert!(engine.poll_event(NOW).is_none());
    engine.exchanges().handle_message(NOW, tide(&unnamed).into(), Some(&id));
    assert!(matches!(engine.poll_event(NOW), Some(client::Event::Notification(_))));
}
