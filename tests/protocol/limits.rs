//! Each field of `Limits`, with the documented outcome when it is reached.
//!
//! Timeouts are tested in `timeouts` and `slow_start`, progress in `progress`, and the tap in `tap`.

use mcp_proto::client::Event as ClientEvent;
use mcp_proto::pipe::Pipe as _;
use mcp_proto::{
    CallError, CallOptions, Diagnostic, Fault, Limit, Limits, MalformedMessage, UseError, Version, VersionSet,
};
use mcp_tests::harness::build::{
    discover_result, legacy_request, modern_meta, modern_request, modern_request_with, notification,
    result_response,
};
use mcp_tests::harness::{Chunker, ClientHarness, ServerHarness, Transcript, for_each_chunker};
use serde_json::{Value, json};

use crate::protocol::common::{client, limits, ms, secs, server};

fn harness_with_limits(limits: &Limits, cut: Chunker) -> ServerHarness {
    ServerHarness::server(server(VersionSet::ALL).limits(limits.clone()), cut)
}

fn call_request(id: impl Into<Value>) -> Value {
    modern_request(id, "tools/call", json!({"name": "a"}))
}

fn empty_result() -> Value {
    json!({"content": []})
}

// covers: STDIO-012, BASE-013
#[test]
fn message_beyond_max_frame_is_refused_with_its_id() {
    let limits = limits(|l| l.max_frame = 600);
    for_each_chunker(|cut| {
        let mut harness = harness_with_limits(&limits, cut);
        let mut longest = modern_request(1, "tools/call", json!({"name": "a", "arguments": {"x": ""}}));
        let room = 600 - longest.to_string().len();
        longest["params"]["arguments"]["x"] = "y".repeat(room).into();
        let call = harness.expect_call_for(&longest);
        harness.complete(call.id(), &empty_result());
        longest["params"]["arguments"]["x"] = "y".repeat(room + 1).into();
        harness.feed_message(&longest);
        assert!(matches!(
            harness.expect_diagnostic(),
            Diagnostic::Malformed { reason: MalformedMessage::TooLong { limit: 600 }, answered: true, .. }
        ));
        let answer = harness.expect_reply();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(1), &json!(-32600)));
        harness.assert_works();
        harness.transcript
    });
}

/// Returns a request of this depth; `params` is the second level, `arguments` the third.
fn nested_request(levels: usize) -> String {
    let request = modern_request(1, "tools/call", json!({"name": "a", "arguments": {"x": "nested"}}));
    let levels = levels.saturating_sub(3);
    // As text, because `serde_json` recurses.
    request.to_string().replace("\"nested\"", &format!("{}1{}", "[".repeat(levels), "]".repeat(levels)))
}

// covers: ERR-023, STDIO-011
#[test]
fn message_beyond_max_depth_is_refused_with_its_id() {
    for (set, depth) in [(20, 20), (128, 128), (129, 129), (255, 255), (5_000, 5_000)] {
        let limits = limits(|l| l.max_depth = set);
        for_each_chunker(|cut| {
            let mut harness = harness_with_limits(&limits, cut);
            harness.feed(nested_request(depth));
            let call = harness.expect_call();
            // Typed decoding has the bound of `serde_json`, and raw text has none.
            let arguments = call.tool_call().expect("a tool").arguments;
            assert_eq!(arguments.len(), 7 + 2 * (depth - 3), "{depth}");
            let typed = call.tool_call().expect("a tool").parse::<Value>();
            assert_eq!(typed.is_ok(), depth <= 129, "{depth}");
            harness.complete(call.id(), &empty_result());
            harness.feed(nested_request(depth + 1));
            assert!(matches!(
                harness.expect_diagnostic(),
                Diagnostic::Malformed { reason: MalformedMessage::Depth { .. }, answered: true, .. }
            ));
            let answer = harness.expect_reply();
            assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(1), &json!(-32700)));
            harness.assert_works();
            harness.transcript
        });
    }
}

// covers: STDIO-011, ERR-001
#[test]
fn message_beyond_max_members_is_refused() {
    let limits = limits(|l| l.max_members = 16);
    for_each_chunker(|cut| {
        let mut harness = harness_with_limits(&limits, cut);
        let many: Value =
            (0..17).map(|i| (format!("k{i}"), json!(i))).collect::<serde_json::Map<_, _>>().into();
        let mut envelope = call_request(1);
        envelope.as_object_mut().expect("an object").extend(many.as_object().expect("an object").clone());
        for request in [
            modern_request(1, "tools/call", json!({"name": "a", "arguments": many})),
            modern_request_with(1, "tools/call", json!({"name": "a"}), &many),
            envelope,
        ] {
            harness.feed_message(&request);
            assert!(matches!(
                harness.expect_diagnostic(),
                Diagnostic::Malformed { reason: MalformedMessage::Members { .. }, .. }
            ));
            assert_eq!(harness.expect_reply()["error"]["code"], -32600);
        }
        harness.assert_works();
        harness.transcript
    });
}

// covers: BASE-003, PROG-003, STDIO-011
#[test]
fn id_or_token_beyond_max_id_is_refused() {
    let limits = limits(|l| l.max_id = 20);
    for_each_chunker(|cut| {
        let mut harness = harness_with_limits(&limits, cut);
        let longest = "x".repeat(18);
        let call = harness.expect_call_for(&modern_request_with(
            longest.clone(),
            "tools/list",
            json!({}),
            &json!({"progressToken": longest}),
        ));
        harness.complete(call.id(), &json!({"tools": []}));
        let longer = "x".repeat(19);
        harness.feed_message(&call_request(longer.clone()));
        assert!(matches!(
            harness.expect_diagnostic(),
            Diagnostic::Malformed { reason: MalformedMessage::Id, id: None, .. }
        ));
        assert_eq!(harness.expect_reply()["error"]["code"], -32600);
        let token = harness.expect_error(&modern_request_with(
            1,
            "tools/list",
            json!({}),
            &json!({"progressToken": longer}),
        ));
        assert_eq!(token["code"], -32602);
        harness.feed_message(&notification("notifications/cancelled", json!({"requestId": longer})));
        assert!(matches!(harness.expect_diagnostic(), Diagnostic::InvalidNotification(_)));
        harness.assert_works();
        harness.transcript
    });
}

// covers: STDIO-011
#[test]
fn connection_closes_after_max_faulty_messages_in_a_row() {
    let bounded = limits(|l| l.max_faulty_messages = Some(5));
    for_each_chunker(|cut| {
        let mut harness = harness_with_limits(&bounded, cut);
        for _ in 0..3 {
            for _ in 0..4 {
                harness.feed("garbage");
                harness.expect_diagnostic();
            }
            harness.take_sent();
            // A valid message resets the count; only malformed messages in a row count.
            harness.assert_works();
        }
        let call = harness.expect_call_for(&call_request(1));
        for _ in 0..5 {
            harness.feed("garbage");
            harness.expect_diagnostic();
        }
        harness.feed("garbage");
        harness.advance(ms(0));
        harness.expect_cancelled(&call);
        assert_eq!(harness.expect_closed(), Fault::TooManyFaultyMessages { count: 5 });
        assert!(!harness.pipe.wants_input());
        harness.transcript
    });
    for_each_chunker(|cut| {
        let mut harness = ClientHarness::client(client(VersionSet::ALL).limits(bounded.clone()), cut);
        for _ in 0..4 {
            harness.feed("banner");
        }
        assert_eq!(harness.take_event_texts().len(), 4);
        harness.become_modern(json!({}));
        for _ in 0..5 {
            harness.feed("banner");
        }
        let events = harness.take_event_texts();
        assert_eq!(
            (events.len(), events.last().map(String::as_str)),
            (6, Some("closed: TooManyFaultyMessages { count: 5 }"))
        );
        harness.transcript
    });
    // Without the limit malformed messages never end a connection.
    for_each_chunker(|cut| {
        let mut harness = harness_with_limits(&Limits::default(), cut);
        for _ in 0..300 {
            harness.feed("garbage");
            harness.expect_diagnostic();
        }
        harness.assert_works();
        harness.transcript
    });
}

// covers: BASE-033, CANC-010, PING-002
#[test]
fn calls_beyond_max_live_calls_wait() {
    let limits = limits(|l| l.max_live_calls = 2);
    for_each_chunker(|cut| {
        let mut harness = harness_with_limits(&limits, cut);
        harness.open_session(Version::V2025_11_25);
        let requests: Vec<_> = (1..=5).map(call_request).collect();
        harness.feed_messages(&requests);
        let (first, second) = (harness.expect_call(), harness.expect_call());
        harness.assert_idle();
        // Messages behind waiting requests are processed: pings, notifications, cancellations.
        harness.feed_message(&legacy_request("p", "ping", Value::Null));
        assert_eq!(harness.expect_reply()["id"], "p");
        harness.feed_message(&notification("notifications/harbor/wind", Value::Null));
        assert!(matches!(harness.expect_event(), mcp_proto::server::Event::Notification(_)));
        harness.feed_message(&notification("notifications/cancelled", json!({"requestId": 4})));
        harness.feed_message(&notification("notifications/cancelled", json!({"requestId": 1})));
        harness.expect_cancelled(&first);
        let third = harness.expect_call();
        harness.assert_idle();
        // The id of a waiting request is in flight.
        harness.feed_message(&call_request(5));
        assert!(matches!(harness.expect_diagnostic(), Diagnostic::DuplicateId(_)));
        assert_eq!(harness.complete(second.id(), &empty_result())["id"], 2);
        let fifth = harness.expect_call();
        assert_eq!(harness.complete(fifth.id(), &empty_result())["id"], 5);
        assert_eq!(harness.complete(third.id(), &empty_result())["id"], 3);
        harness.assert_works();
        harness.transcript
    });
}

/// Feeds more requests than can wait while all slots are taken, and answers all; room returns for the last `taken`.
fn fill_to_limit(limits: &Limits, requests: i64, taken: i64, cut: Chunker) -> Transcript {
    let mut harness = harness_with_limits(limits, cut);
    let first = harness.expect_call_for(&call_request(0));
    for id in 1..=requests {
        harness.feed_message(&call_request(id));
    }
    harness.assert_idle();
    assert!(!harness.pipe.wants_input() && harness.pipe.is_stalled(), "reading pauses");
    assert_eq!(harness.pipe.engine().live_calls(), 1);
    // Nothing is lost and nothing refused: the requests are served in order.
    let mut open = first;
    for id in 0..=requests {
        assert_eq!(harness.complete(open.id(), &empty_result())["id"], id);
        if id == requests {
            break;
        }
        open = harness.expect_call();
        assert!(id < requests - taken || harness.pipe.wants_input());
    }
    harness.assert_idle();
    assert!(harness.pipe.wants_input() && !harness.pipe.is_stalled());
    harness.transcript
}

// covers: STDIO-010, BASE-033
#[test]
fn reading_pauses_at_max_waiting_requests() {
    let limits = limits(|l| {
        l.max_live_calls = 1;
        l.max_waiting_requests = 3;
    });
    for_each_chunker(|cut| fill_to_limit(&limits, 8, 3, cut));
}

// covers: STDIO-010, BASE-033
#[test]
fn reading_pauses_at_max_waiting_bytes() {
    let one = call_request(1).to_string().len();
    for bytes in [1, one - 1, one, one * 2, one * 5 / 2] {
        let limits = limits(|l| {
            l.max_live_calls = 1;
            l.max_waiting_bytes = bytes;
        });
        for_each_chunker(|cut| fill_to_limit(&limits, 8, 0, cut));
    }
    // A waiting request that is cancelled frees its bytes.
    let limits = limits(|l| {
        l.max_live_calls = 1;
        l.max_waiting_bytes = one * 2;
    });
    for_each_chunker(|cut| {
        let mut harness = harness_with_limits(&limits, cut);
        let first = harness.expect_call_for(&call_request(0));
        for id in 1..5 {
            harness.feed_messages(&[
                call_request(id),
                notification("notifications/cancelled", json!({"requestId": id})),
            ]);
            assert!(harness.pipe.wants_input());
        }
        harness.assert_idle();
        harness.complete(first.id(), &empty_result());
        harness.assert_works();
        harness.transcript
    });
}

// covers: TIME-001, STDIO-010
#[test]
fn call_beyond_max_pending_calls_is_refused() {
    let limits = limits(|l| l.max_pending_calls = 3);
    for_each_chunker(|cut| {
        let mut harness = ClientHarness::client(client(VersionSet::ALL).limits(limits.clone()), cut);
        harness.become_modern(json!({"tools": {}}));
        let calls: Vec<_> =
            (0..3).map(|_| harness.start_call("tools/list", &json!({}), &CallOptions::new())).collect();
        let refused = harness.expect_call_refused("tools/list", &json!({}), &CallOptions::new());
        assert_eq!(refused, UseError::Full(Limit::PendingCalls));
        harness.feed_message(&result_response(&calls[1].1, json!({"tools": []})));
        assert!(harness.expect_done(calls[1].0).is_ok());
        harness.start_call("tools/list", &json!({}), &CallOptions::new());
        harness.transcript
    });
    for_each_chunker(|cut| {
        let mut harness = harness_with_limits(&limits, cut);
        harness.open_session(Version::V2025_11_25);
        let channel = harness.pipe.channel();
        let ping = |harness: &mut ServerHarness| {
            harness.pipe.engine().request(harness.now, channel, "ping", &json!({}), &CallOptions::new())
        };
        for _ in 0..3 {
            ping(&mut harness).expect("room");
            harness.expect_reply();
        }
        assert_eq!(ping(&mut harness), Err(UseError::Full(Limit::PendingCalls)));
        harness.assert_idle();
        harness.transcript
    });
}

// covers: LIFE-005
#[test]
fn call_beyond_max_queued_bytes_is_refused() {
    let limits = limits(|l| l.max_queued_bytes = 100);
    for_each_chunker(|cut| {
        let mut harness = ClientHarness::client(client(VersionSet::ALL).limits(limits.clone()), cut);
        let probe = harness.expect_request("server/discover");
        // Two calls of 50 bytes: the method and the parameters.
        let params = json!({"x": "y".repeat(34)});
        let call = |harness: &mut ClientHarness| {
            harness.pipe.engine().call(harness.now, "custom/x", &params, &CallOptions::new())
        };
        let first = call(&mut harness).expect("room");
        call(&mut harness).expect("room");
        assert_eq!(call(&mut harness), Err(UseError::Full(Limit::QueuedBytes)));
        harness.pipe.engine().cancel(harness.now, first, None).expect("open");
        assert_eq!(harness.expect_done(first), Err(CallError::Cancelled));
        call(&mut harness).expect("room again");
        harness.assert_idle();
        harness.feed_message(&result_response(&probe, discover_result(&["2026-07-28"], json!({}))));
        harness.expect_ready();
        assert_eq!(harness.take_sent().len(), 2);
        harness.transcript
    });
}

// covers: STDIO-010
#[test]
fn engine_takes_no_calls_beyond_outbox_high_water() {
    let limits = limits(|l| l.outbox_high_water = 2_000);
    for_each_chunker(|cut| {
        let mut harness = harness_with_limits(&limits, cut);
        harness.is_blocked = true;
        let requests: Vec<_> = (0..100).map(call_request).collect();
        harness.feed_messages(&requests);
        // Every call that is taken is answered, and no more are taken once enough is unsent.
        let text = "x".repeat(150);
        let answer = json!({"content": [{"type": "text", "text": text}]});
        let mut answered = 0;
        while harness.pipe.transmit().len() < 2_000 {
            let call = harness.expect_call();
            harness.pipe.engine().complete(harness.now, call.id(), &answer).expect("open");
            answered += 1;
        }
        assert!(!harness.pipe.wants_input());
        let channel = harness.pipe.channel();
        let refused = harness.pipe.engine().notify(harness.now, channel, "notifications/x", None::<&()>);
        assert_eq!(refused, Err(UseError::Full(Limit::OutboxHighWater)));
        // A result is never dropped, whatever its size.
        harness.is_blocked = false;
        assert!(harness.take_sent().len() >= answered);
        assert!(harness.pipe.wants_input());
        Transcript::default()
    });
}

// covers: LIFE-002, LIFE-012
#[test]
fn initialize_beyond_max_peer_info_is_refused() {
    let limits = limits(|l| l.max_peer_info = 100);
    for_each_chunker(|cut| {
        let mut harness = harness_with_limits(&limits, cut);
        let with = |name: String| {
            let info = json!({"name": name, "version": "1"});
            legacy_request(
                1,
                "initialize",
                json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}),
            )
        };
        let error = harness.expect_error(&with("x".repeat(100)));
        assert_eq!(error["code"], -32602);
        harness.feed_message(&with("x".repeat(50)));
        assert!(harness.expect_reply().get("result").is_some(), "and then it can be opened");
        harness.transcript
    });
}

// covers: BASE-032, META-015
#[test]
fn metadata_beyond_max_meta_cache_is_not_cached() {
    // Longer metadata is not cached, which has no visible effect: see `known_meta`.
    let limits = limits(|l| l.max_meta_cache = modern_meta().to_string().len() - 1);
    for_each_chunker(|cut| {
        let mut harness = harness_with_limits(&limits, cut);
        for _ in 0..3 {
            harness.assert_works();
        }
        harness.transcript
    });
}

// covers: STDIO-028
#[test]
fn calls_end_after_eof_grace_period() {
    for grace in [0, 1, 9_000] {
        let limits = limits(|l| l.eof_grace_period = ms(grace));
        for_each_chunker(|cut| {
            let mut harness = harness_with_limits(&limits, cut);
            let call = harness.expect_call_for(&call_request(1));
            harness.eof();
            if grace > 0 {
                harness.advance(ms(grace - 1));
                harness.assert_idle();
            }
            harness.advance(ms(1));
            harness.expect_cancelled(&call);
            assert_eq!(harness.expect_closed(), Fault::Eof);
            harness.transcript
        });
    }
}

#[test]
fn memory_is_released_after_idle_trim_delay() {
    let limits = limits(|l| l.idle_trim_delay = secs(3));
    let mut harness = harness_with_limits(&limits, Chunker::Whole);
    harness.assert_works();
    let busy = format!("{:?}", harness.pipe).len();
    harness.advance(ms(2_999));
    assert!(harness.pipe.poll_timeout().is_some(), "the deadline is still to come");
    harness.advance(ms(1));
    assert!(harness.pipe.poll_timeout().is_none(), "nothing is left to be done");
    assert!(format!("{:?}", harness.pipe).len() < busy);
    // Trimming has no visible effect.
    harness.assert_works();
}

// covers: BASE-033
#[test]
fn client_refuses_requests_beyond_max_live_calls() {
    let limits = limits(|l| l.max_live_calls = 2);
    for_each_chunker(|cut| {
        let config = client(VersionSet::LEGACY).custom_method("harbor/name").limits(limits.clone());
        let mut harness = ClientHarness::client(config, cut);
        harness.become_legacy(Version::V2025_11_25, json!({}));
        let mut open = Vec::new();
        for id in ["a", "b"] {
            harness.feed_message(&legacy_request(id, "harbor/name", json!({})));
            let ClientEvent::Request(request) = harness.expect_event() else { panic!("a request") };
            open.push(request.id);
        }
        harness.feed_message(&legacy_request("c", "harbor/name", json!({})));
        assert_eq!(harness.expect_reply()["error"]["code"], -32603);
        harness.feed_message(&legacy_request("d", "ping", Value::Null));
        assert_eq!(harness.expect_reply()["id"], "d");
        harness.pipe.engine().respond(harness.now, open[0], &json!({})).expect("open");
        assert_eq!(harness.expect_reply()["id"], "a");
        harness.feed_message(&legacy_request("c", "harbor/name", json!({})));
        assert!(matches!(harness.expect_event(), ClientEvent::Request(_)));
        harness.transcript
    });
}

// covers: STDIO-010
#[test]
fn small_limits_still_serve_requests() {
    for_each_chunker(|cut| {
        let mut harness = harness_with_limits(&Limits::small(), cut);
        for _ in 0..100 {
            harness.assert_works();
        }
        let requests: Vec<_> = (0..50).map(call_request).collect();
        harness.feed_messages(&requests);
        for i in 0..50 {
            let call = harness.expect_call();
            assert_eq!(harness.complete(call.id(), &empty_result())["id"], i);
        }
        harness.transcript
    });
}

// covers: TOOL-005, RES-003, RES-004, PROMPT-003, SEC-018
#[test]
fn entry_beyond_the_depth_of_typed_decoding_costs_only_itself() {
    use mcp_proto::client::{Paginator, TypedEntries};
    use mcp_proto::model::{ListItem, Prompt, Resource, ResourceTemplate, Tool};

    fn check<T: ListItem + core::fmt::Debug>(method: &str, good: &Value) {
        let mut deep = good.clone();
        deep["_meta"] = (0..200).fold(json!(1), |value, _| json!([value]));
        let list = json!({(T::KIND.list_member()): [deep, good]});
        let config = client(VersionSet::ALL).limits(limits(|limits| limits.max_depth = 1_000));
        let mut harness = ClientHarness::client(config, Chunker::Whole);
        harness.become_legacy(Version::V2025_11_25, json!({"tools": {}, "resources": {}, "prompts": {}}));
        let (key, request) = harness.start_call(method, &json!({}), &CallOptions::new());
        let line = result_response(&request, list).to_string();
        harness.feed(line);
        let result = harness.expect_done(key).expect("a list");
        let mut pages = Paginator::new(T::KIND, 1 << 20);
        assert_eq!(pages.take(&result), Ok(false));
        let read = TypedEntries::<T>::read(&pages.into_entries());
        assert_eq!(read.entries.len(), 1, "{read:?}");
        let [Diagnostic::UnreadableEntry { list, index: 0, reason }] = &*read.diagnostics else {
            panic!("{read:?}")
        };
        assert!(*list == T::KIND && reason.contains("_meta"), "{reason}");
    }
    check::<Tool>("tools/list", &json!({"name": "a", "inputSchema": {"type": "object"}}));
    check::<Resource>("resources/list", &json!({"name": "a", "uri": "a:b"}));
    check::<ResourceTemplate>("resources/templates/list", &json!({"name": "a", "uriTemplate": "a:{b}"}));
    check::<Prompt>("prompts/list", &json!({"name": "a"}));
}

/// Only what may have to be sent again is kept: on a byte stream that is what may need input.
#[test]
fn calls_that_are_never_repeated_are_not_retained() {
    let limits = limits(|l| l.max_retained_bytes = 1);
    for version in [Version::V2025_11_25, Version::V2026_07_28] {
        let config = client(VersionSet::only(version)).limits(limits.clone());
        let mut harness = ClientHarness::client(config, Chunker::Whole);
        match version {
            Version::V2026_07_28 => harness.become_modern(json!({"tools": {}})),
            _ => harness.become_legacy(version, json!({"tools": {}})),
        }
        for _ in 0..2 {
            harness.start_call("tools/list", &json!({}), &CallOptions::new().idempotent());
        }
    }
}
