//! Observers: each request once, in both directions, with its sizes, its outcome and its trace context.

use alloc::sync::Arc;
use core::sync::atomic::Ordering;

use mcp_proto::client::{self, Event as ClientEvent};
use mcp_proto::observe::{Direction, SessionEnd, TraceContext};
use mcp_proto::server::{self, Event};
use mcp_proto::tap::ChannelId;
use mcp_proto::{CallOptions, Instant, Limits, RawJson, RpcError, Version, VersionSet};
use mcp_tests::harness::build::{modern_request, raw, to_value};
use mcp_tests::harness::{Chunker, ServerHarness};
use serde_json::json;

use crate::protocol::common::{client, limits, ms, secs, server};
use crate::protocol::recorder::Recorder;

/// A client and a server, with a recorder each.
struct Observed {
    client: client::Engine,
    server: server::Engine,
    up: ChannelId,
    down: ChannelId,
    now: Instant,
    at_client: Recorder,
    at_server: Recorder,
}

impl Observed {
    fn new(versions: VersionSet, trace: Option<TraceContext>) -> Self {
        Self::with_limits(versions, trace, Limits::default())
    }

    fn with_limits(versions: VersionSet, trace: Option<TraceContext>, limits: Limits) -> Self {
        let at_client = Recorder { trace, ..Recorder::default() };
        let at_server = Recorder::default();
        let client_config = client(versions).observer(Arc::new(at_client.clone()));
        assert!(client_config.active_observer().is_some() && client(versions).active_observer().is_none());
        let server_config = server(versions).limits(limits).observer(Arc::new(at_server.clone()));
        let mut client = client::Engine::new(Arc::new(client_config));
        let mut server = server::Engine::new(Arc::new(server_config));
        let now = Instant::ZERO;
        let (up, down) = (client.open_channel(now), server.open_channel(now));
        let mut both = Self { client, server, up, down, now, at_client, at_server };
        both.exchange();
        assert!(matches!(both.client.poll_event(now), Some(ClientEvent::Ready(_))));
        if versions == VersionSet::LEGACY {
            assert!(matches!(both.server.poll_event(now), Some(Event::SessionOpened { .. })));
        }
        both
    }

    fn exchange(&mut self) {
        loop {
            let mut moved = false;
            while let Some(message) = self.client.outbox(self.up).and_then(|o| o.pop_message()) {
                self.server.handle_message(self.now, self.down, message);
                moved = true;
            }
            while let Some(message) = self.server.outbox(self.down).and_then(|o| o.pop_message()) {
                self.client.handle_message(self.now, self.up, message);
                moved = true;
            }
            if !moved {
                return;
            }
        }
    }

    /// Makes a call and returns it as the server gets it.
    fn call(&mut self, method: &str, params: &serde_json::Value, options: &CallOptions) -> server::Call {
        self.client.call(self.now, method, params, options).expect("ready");
        self.exchange();
        loop {
            match self.server.poll_event(self.now) {
                Some(Event::Call(call)) => return call,
                Some(Event::Cancelled { .. }) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    fn complete(&mut self, call: &server::Call, result: &serde_json::Value) {
        self.server.complete(self.now, call.id(), result).expect("open");
        self.exchange();
        assert!(matches!(self.client.poll_event(self.now), Some(ClientEvent::Done { .. })));
    }
}

const ERAS: [(VersionSet, &str); 2] =
    [(VersionSet::MODERN, "2026-07-28"), (VersionSet::LEGACY, "2025-11-25")];

#[test]
fn each_request_is_reported_with_its_outcome_on_both_sides() {
    for (versions, version) in ERAS {
        let mut both = Observed::new(versions, None);
        let negotiation = if versions == VersionSet::LEGACY { "initialize" } else { "server/discover" };
        let stated = if versions == VersionSet::LEGACY { "?" } else { version };
        assert_eq!(
            both.at_server.take(),
            [format!("<{negotiation} {stated} -"), format!("<{negotiation} = ok")]
        );
        assert_eq!(both.at_client.take(), [""; 0], "the negotiation is the client's own");
        let options = CallOptions::new();
        let params = json!({"name": "a", "arguments": {}});
        let mut expected = Vec::new();
        for (result, outcome) in [
            (json!({"content": []}), "ok"),
            (json!({"content": [], "isError": true}), "tool error"),
            // Sent as a segment of its own.
            (
                json!({"content": [{"type": "text", "text": "x".repeat(40_000)}], "isError": true}),
                "tool error",
            ),
        ] {
            let call = both.call("tools/call", &params, &options);
            assert!(call.caller().observation().is_some());
            let text = raw(&result);
            both.server.complete_raw(both.now, call.id(), &text).expect("open");
            both.exchange();
            assert!(matches!(both.client.poll_event(both.now), Some(ClientEvent::Done { .. })));
            expected.extend([format!("tools/call a {version} -"), format!("tools/call a = {outcome}")]);
        }
        let call = both.call("tools/call", &json!({"name": "b"}), &options);
        both.server.fail(both.now, call.id(), &RpcError::invalid_params("no such tool")).expect("open");
        both.exchange();
        expected.extend([
            format!("tools/call b {version} -"),
            "tools/call b = no such tool (code -32602)".into(),
        ]);
        let (sent, received) = (both.at_client.take(), both.at_server.take());
        let with = |sign: &str| expected.iter().map(|line| format!("{sign}{line}")).collect::<Vec<_>>();
        assert_eq!(sent, with(">"));
        assert_eq!(received, with("<"));
    }
}

#[test]
fn observer_that_is_disabled_is_told_of_no_beginning_and_of_each_end_that_it_waits_for() {
    for (versions, version) in ERAS {
        let mut both = Observed::new(versions, None);
        let (at_client, at_server) = (both.at_client.clone(), both.at_server.clone());
        let disable = |is_disabled| {
            for recorder in [&at_client, &at_server] {
                recorder.is_disabled.store(is_disabled, Ordering::Relaxed);
            }
        };
        drop((at_client.take(), at_server.take()));
        let (params, options) = (json!({"name": "a", "arguments": {}}), CallOptions::new());
        // Each combination of begin and end.
        for (is_disabled_at_begin, is_disabled_at_end) in [(true, true), (true, false), (false, true)] {
            disable(is_disabled_at_begin);
            let call = both.call("tools/call", &params, &options);
            assert_eq!(call.caller().observation().is_some(), !is_disabled_at_begin);
            disable(is_disabled_at_end);
            both.complete(&call, &json!({"content": []}));
            for (recorder, sign) in [(&at_client, '>'), (&at_server, '<')] {
                let begin = format!("{sign}tools/call a {version} -");
                let seen = if is_disabled_at_begin {
                    vec![]
                } else {
                    vec![begin, format!("{sign}tools/call a = ok")]
                };
                assert_eq!(recorder.take(), seen);
            }
        }
    }
}

#[test]
fn requests_that_wait_have_their_own_sizes_and_those_beyond_the_limit_are_reported() {
    for (versions, _) in ERAS {
        let few = limits(|l| (l.max_live_calls, l.max_waiting_requests) = (1, 2));
        let mut both = Observed::with_limits(versions, None, few);
        let options = CallOptions::new();
        let first = both.call("tools/call", &json!({"name": "a"}), &options);
        drop((both.at_client.take(), both.at_server.take()));
        both.at_server.sizes.lock().expect("no panic").clear();
        let text = "x".repeat(20_000);
        for (name, text) in [("large", &*text), ("small", ""), ("refused", "")] {
            let params = json!({"name": name, "arguments": {"text": text}});
            both.client.call(both.now, "tools/call", &params, &options).expect("ready");
        }
        both.exchange();
        let lines = both.at_server.take();
        assert!(lines.iter().all(|line| line.contains(" refused ")), "{lines:?}");
        assert!(lines[1].contains("too many requests in work"), "{lines:?}");
        let result =
            RawJson::new(format!(r#"{{"content":[{{"type":"text","text":"{text}"}}]}}"#)).expect("JSON");
        both.server.complete_raw(both.now, first.id(), &result).expect("open");
        for _ in 0..2 {
            both.exchange();
            let Some(Event::Call(call)) = both.server.poll_event(both.now) else {
                panic!("a call that waited")
            };
            both.server.complete(both.now, call.id(), &json!({"content": []})).expect("open");
        }
        both.exchange();
        let at_server = both.at_server.sizes.lock().expect("no panic").clone();
        let mut at_client = both.at_client.sizes.lock().expect("no panic").clone();
        // The order of the answers is that of the server; both sides count the same bytes.
        assert_eq!(at_server.len(), 4, "{at_server:?}");
        assert!(
            at_server[1].1 > 20_000 && at_server[2].0 > 20_000 && at_server[3].0 < 1_000,
            "{at_server:?}"
        );
        assert_eq!(at_client.split_off(at_client.len() - 4), at_server);
    }
}

#[test]
fn given_up_requests_end_once() {
    for (versions, version) in ERAS {
        let mut both = Observed::new(versions, None);
        both.at_client.take();
        both.at_server.take();
        // Cancelled by the application of the client.
        let options = CallOptions::new().timeout(secs(5));
        let key = both.client.call(both.now, "tools/call", &json!({"name": "a"}), &options).expect("ready");
        both.exchange();
        assert!(matches!(both.server.poll_event(both.now), Some(Event::Call(_))));
        both.client.cancel(both.now, key, None).expect("open");
        both.exchange();
        let ended = |sign: &str, outcome: &str| {
            [
                format!("{sign}tools/call a {version} -"),
                format!("{sign}tools/call a = {outcome} without answer"),
            ]
        };
        assert_eq!(both.at_client.take(), ended(">", "cancelled"));
        assert_eq!(both.at_server.take(), ended("<", "cancelled"));
        // Timed out at the client, inside of and after the time.
        both.call("tools/call", &json!({"name": "a"}), &options);
        both.now = both.now + secs(5) - ms(1);
        both.client.handle_timeout(both.now);
        assert_eq!(both.at_client.take(), [format!(">tools/call a {version} -")]);
        both.now = both.now + ms(1);
        both.client.handle_timeout(both.now);
        both.exchange();
        assert_eq!(both.at_client.take(), [">tools/call a = no answer in time without answer"]);
        both.at_server.take();
        // Lost with the connection.
        let call = both.call("tools/call", &json!({"name": "a"}), &options);
        both.at_client.take();
        both.client.handle_eof(both.now, both.up);
        both.server.handle_eof(both.now, both.down);
        assert!(
            both.at_client.take()[0].starts_with(">tools/call a = the connection ended before the answer")
        );
        assert_eq!(both.at_server.take()[0], format!("<tools/call a {version} -"));
        // The server ends its side after a time of grace, in which the call may still be answered.
        both.server.handle_timeout(both.now + secs(600));
        while both.server.poll_event(both.now + secs(600)).is_some() {}
        drop(call);
        assert_eq!(both.at_server.take().len(), 1, "it has ended");
    }
}

// covers: META-021, META-022
#[test]
fn trace_context_of_observer_is_sent_with_parent_of_application() {
    for (versions, version) in ERAS {
        let own = TraceContext::new().traceparent("00-ours-1-01").tracestate("a=b");
        let mut both = Observed::new(versions, Some(own));
        both.at_client.take();
        both.at_server.take();
        let meta = raw(&json!({"traceparent": "00-parent-1-01", "baggage": "x=1", "com.example/k": 1}));
        let call = both.call("tools/call", &json!({"name": "a"}), &CallOptions::new().with_meta(meta));
        assert_eq!(both.at_client.take(), [format!(">tools/call a {version} 00-parent-1-01")]);
        assert_eq!(both.at_server.take(), [format!("<tools/call a {version} 00-ours-1-01")]);
        let sent = call.params().as_ref().map(to_value).expect("an object")["_meta"].clone();
        assert_eq!(
            (&sent["traceparent"], &sent["tracestate"], &sent["com.example/k"]),
            (&json!("00-ours-1-01"), &json!("a=b"), &json!(1))
        );
        assert!(sent.get("baggage").is_none(), "the context of the observer replaces all of it");
        both.complete(&call, &json!({"content": []}));
        // Without options of the application.
        let call = both.call("tools/list", &json!({}), &CallOptions::new());
        assert_eq!(both.at_server.take()[1], format!("<tools/list {version} 00-ours-1-01"));
        both.complete(&call, &json!({"tools": []}));
        // Text that is no trace context reaches the observer as it is, and members of other types are left out.
        let odd = RawJson::new(r#"{"traceparent":"\u0000\n","tracestate":7}"#).expect("JSON");
        let mut plain = Observed::new(versions, None);
        plain.at_server.take();
        let call = plain.call("tools/list", &json!({}), &CallOptions::new().with_meta(odd));
        assert_eq!(plain.at_server.take(), [format!("<tools/list {version} \0\n")]);
        plain.complete(&call, &json!({"tools": []}));
    }
}

#[test]
fn refused_requests_and_requests_of_servers_are_reported() {
    let mut both = Observed::new(VersionSet::LEGACY, None);
    both.at_client.take();
    both.at_server.take();
    both.client
        .call(both.now, "no/such", &json!({}), &CallOptions::new())
        .expect("custom methods may be sent");
    both.exchange();
    let lines = both.at_server.take();
    assert_eq!(lines[0], "<no/such 2025-11-25 -");
    assert!(lines[1].starts_with("<no/such = ") && lines[1].contains("-32601"), "{lines:?}");
    both.at_client.take();
    while both.client.poll_event(both.now).is_some() {}
    // An observer may leave requests out.
    both.client.call(both.now, "unobserved", &json!({}), &CallOptions::new()).expect("ready");
    both.exchange();
    assert_eq!((both.at_client.take(), both.at_server.take()), (vec![], vec![]));
    // A request of the server, and one of the engine itself.
    let channel = both.down;
    both.server.request(both.now, channel, "example/ask", &json!({}), &CallOptions::new()).expect("ready");
    both.server.request(both.now, channel, "ping", &json!({}), &CallOptions::new()).expect("ready");
    both.exchange();
    assert_eq!(
        both.at_server.take(),
        [
            ">example/ask 2025-11-25 -",
            ">ping 2025-11-25 -",
            ">example/ask = method not found: example/ask (code -32601)",
            ">ping = ok",
        ]
    );
}

#[test]
fn sessions_are_reported_at_their_end() {
    for (versions, version) in ERAS {
        let mut both = Observed::new(versions, None);
        both.now = both.now + secs(90);
        both.client.handle_timeout(both.now);
        both.server.handle_timeout(both.now);
        let sessions =
            |recorder: &Recorder| core::mem::take(&mut *recorder.sessions.lock().expect("no panic"));
        assert!(sessions(&both.at_client).is_empty() && sessions(&both.at_server).is_empty());
        both.client.handle_eof(both.now, both.up);
        both.server.handle_eof(both.now, both.down);
        let check = |sessions: &[SessionEnd], direction| match sessions {
            [session] => {
                assert_eq!((session.direction, session.version.as_str()), (direction, version));
                assert_eq!((session.began_at, session.ended_at), (Instant::ZERO, Instant::ZERO + secs(90)));
                assert!(!session.is_fault);
            }
            other => panic!("{other:?}"),
        };
        check(&sessions(&both.at_client), Direction::Out);
        let at_server = sessions(&both.at_server);
        if versions == VersionSet::LEGACY {
            check(&at_server, Direction::In);
        } else {
            assert!(at_server.is_empty(), "modern clients have no sessions");
        }
        // Once.
        both.client.handle_eof(both.now, both.up);
        both.server.handle_eof(both.now, both.down);
        assert!(sessions(&both.at_client).is_empty() && sessions(&both.at_server).is_empty());
    }
}

// covers: META-021
#[test]
fn baggage_of_the_application_is_replaced_by_other_baggage_only() {
    let meta = |options: CallOptions| to_value(&options.meta.expect("set"));
    let options = || CallOptions::new().with_meta(raw(&json!({"baggage": "tenant=1", "tracestate": "a=b"})));
    let context = TraceContext::new().traceparent("00-1-1-01");
    let sent = meta(options().with_trace_context(&context));
    assert_eq!(sent, json!({"traceparent": "00-1-1-01", "baggage": "tenant=1"}));
    let sent = meta(options().with_trace_context(&context.baggage("tenant=2")));
    assert_eq!(sent, json!({"traceparent": "00-1-1-01", "baggage": "tenant=2"}));
}

// covers: BATCH-001
#[test]
fn members_of_a_batch_have_their_own_sizes() {
    let recorder = Recorder::default();
    let config = server(VersionSet::LEGACY).observer(Arc::new(recorder.clone()));
    let mut harness = ServerHarness::server(config, Chunker::Whole);
    harness.open_session(Version::V2025_03_26);
    recorder.take();
    recorder.sizes.lock().expect("no panic").clear();
    let members = [
        json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "prompts/list", "params": {"cursor": "a long one"}}),
        json!({"jsonrpc": "2.0", "id": 3, "method": "tools/list"}),
    ];
    harness.feed_message(&json!(members));
    let call = harness.expect_call();
    let now = harness.now;
    harness.pipe.engine().complete(now, call.id(), &json!({"tools": []})).expect("open");
    harness.pump();
    let answers = harness.expect_reply();
    let length = |value: &serde_json::Value| value.to_string().len();
    let expected: Vec<_> =
        members.iter().enumerate().map(|(at, member)| (length(member), length(&answers[at]))).collect();
    assert_eq!(*recorder.sizes.lock().expect("no panic"), expected);
    assert_eq!(recorder.take()[2], "<prompts/list 2025-03-26 -");
}

// covers: BATCH-001
#[test]
fn responses_of_a_batch_have_their_own_sizes() {
    let mut both = Observed::new(VersionSet::only(Version::V2025_03_26), None);
    let mut answers = Vec::new();
    for (method, result) in [("tools/list", json!({"tools": []})), ("ping", json!({}))] {
        both.client.call(both.now, method, &json!({}), &CallOptions::new()).expect("ready");
        let message = both.client.outbox(both.up).and_then(|o| o.pop_message()).expect("a request");
        let request: serde_json::Value = serde_json::from_slice(&message).expect("JSON");
        answers.push(json!({"jsonrpc": "2.0", "id": request["id"], "result": result}));
    }
    both.at_client.sizes.lock().expect("no panic").clear();
    both.client.handle_message(both.now, both.up, json!(answers).to_string().into());
    let sizes = both.at_client.sizes.lock().expect("no panic").clone();
    let received: Vec<_> = sizes.iter().map(|(_, received)| *received).collect();
    assert_eq!(received, answers.iter().map(|answer| answer.to_string().len()).collect::<Vec<_>>());
}

#[test]
fn engine_answers_have_the_revision_of_their_request() {
    let recorder = Recorder::default();
    let config = server(VersionSet::ALL).observer(Arc::new(recorder.clone()));
    let mut harness = ServerHarness::server(config, Chunker::Whole);
    for method in ["server/discover", "prompts/list"] {
        harness.feed_message(&modern_request(1, method, json!({})));
        drop(harness.expect_reply());
        assert_eq!(recorder.take()[0], format!("<{method} 2026-07-28 -"));
    }
    harness.feed_message(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}));
    drop(harness.expect_reply());
    assert_eq!(recorder.take()[0], "<tools/list ? -", "it names no revision and has no session");
}
