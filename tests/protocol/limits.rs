//! Each field of `Limits`, reached once, with the outcome that it documents. Times are in `timeouts` and `slow_start`,
//! progress in `progress`, the tap in `tap`.

use mcp_proto::client::Event as ClientEvent;
use mcp_proto::pipe::Pipe as _;
use mcp_proto::{
    CallError, CallOptions, Diagnostic, Fault, Limits, Malformed, UseError, Version, VersionSet,
};
use mcp_tests::harness::build::{discovery, legacy, modern, modern_meta, modern_with, note, result};
use mcp_tests::harness::{Chunker, LoneClient, LoneServer, Transcript, each_cut};
use serde_json::{Value, json};

use crate::common::{client, limits, ms, secs, server};

fn served(limits: &Limits, cut: Chunker) -> LoneServer {
    LoneServer::server(server(VersionSet::ALL).limits(limits.clone()), cut)
}

fn ask(id: impl Into<Value>) -> Value {
    modern(id, "tools/call", json!({"name": "a"}))
}

fn nothing() -> Value {
    json!({"content": []})
}

// covers: STDIO-012, BASE-013
#[test]
fn max_frame() {
    let limits = limits(|l| l.max_frame = 600);
    each_cut(|cut| {
        let mut lone = served(&limits, cut);
        let mut longest = modern(1, "tools/call", json!({"name": "a", "arguments": {"x": ""}}));
        let room = 600 - longest.to_string().len();
        longest["params"]["arguments"]["x"] = "y".repeat(room).into();
        let call = lone.take(&longest);
        lone.complete(call.id(), &nothing());
        longest["params"]["arguments"]["x"] = "y".repeat(room + 1).into();
        lone.tell(&longest);
        assert!(matches!(
            lone.diagnostic(),
            Diagnostic::Malformed { why: Malformed::TooLong { limit: 600 }, answered: true, .. }
        ));
        let answer = lone.reply();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(1), &json!(-32600)));
        lone.works();
        lone.transcript
    });
}

fn nested(levels: usize) -> Value {
    // `params` is the second level, `arguments` the third.
    (0..levels.saturating_sub(3)).fold(json!(1), |inner, _| json!([inner]))
}

// covers: ERR-023, STDIO-011
#[test]
fn max_depth() {
    for (set, depth) in [(20, 20), (128, 128), (255, 128)] {
        let limits = limits(|l| l.max_depth = set);
        each_cut(|cut| {
            let mut lone = served(&limits, cut);
            let request =
                |levels| modern(1, "tools/call", json!({"name": "a", "arguments": {"x": nested(levels)}}));
            let call = lone.take(&request(depth));
            lone.complete(call.id(), &nothing());
            lone.tell(&request(depth + 1));
            assert!(matches!(
                lone.diagnostic(),
                Diagnostic::Malformed { why: Malformed::Depth { .. }, answered: true, .. }
            ));
            let answer = lone.reply();
            assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(1), &json!(-32700)));
            lone.works();
            lone.transcript
        });
    }
}

// covers: STDIO-011, ERR-001
#[test]
fn max_members() {
    let limits = limits(|l| l.max_members = 16);
    each_cut(|cut| {
        let mut lone = served(&limits, cut);
        let many: Value =
            (0..17).map(|i| (format!("k{i}"), json!(i))).collect::<serde_json::Map<_, _>>().into();
        let mut envelope = ask(1);
        envelope.as_object_mut().expect("an object").extend(many.as_object().expect("an object").clone());
        for request in [
            modern(1, "tools/call", json!({"name": "a", "arguments": many})),
            modern_with(1, "tools/call", json!({"name": "a"}), &many),
            envelope,
        ] {
            lone.tell(&request);
            assert!(matches!(
                lone.diagnostic(),
                Diagnostic::Malformed { why: Malformed::Members { .. }, .. }
            ));
            assert_eq!(lone.reply()["error"]["code"], -32600);
        }
        lone.works();
        lone.transcript
    });
}

// covers: BASE-003, PROG-003, STDIO-011
#[test]
fn max_id() {
    let limits = limits(|l| l.max_id = 20);
    each_cut(|cut| {
        let mut lone = served(&limits, cut);
        let longest = "x".repeat(18);
        let call = lone.take(&modern_with(
            longest.clone(),
            "tools/list",
            json!({}),
            &json!({"progressToken": longest}),
        ));
        lone.complete(call.id(), &json!({"tools": []}));
        let longer = "x".repeat(19);
        lone.tell(&ask(longer.clone()));
        assert!(matches!(lone.diagnostic(), Diagnostic::Malformed { why: Malformed::Id, id: None, .. }));
        assert_eq!(lone.reply()["error"]["code"], -32600);
        let token = lone.refused(&modern_with(1, "tools/list", json!({}), &json!({"progressToken": longer})));
        assert_eq!(token["code"], -32602);
        lone.tell(&note("notifications/cancelled", json!({"requestId": longer})));
        assert!(matches!(lone.diagnostic(), Diagnostic::InvalidNotification(_)));
        lone.works();
        lone.transcript
    });
}

// covers: STDIO-011
#[test]
fn max_faulty() {
    let bounded = limits(|l| l.max_faulty = Some(5));
    each_cut(|cut| {
        let mut lone = served(&bounded, cut);
        for _ in 0..3 {
            for _ in 0..4 {
                lone.feed("garbage");
                lone.diagnostic();
            }
            lone.sent();
            // A good message starts the count anew; only those in a row count.
            lone.works();
        }
        let call = lone.take(&ask(1));
        for _ in 0..5 {
            lone.feed("garbage");
            lone.diagnostic();
        }
        lone.feed("garbage");
        lone.pass(ms(0));
        lone.cancelled(&call);
        assert_eq!(lone.closed(), Fault::Garbage { count: 5 });
        assert!(!lone.pipe.wants_input());
        lone.transcript
    });
    each_cut(|cut| {
        let mut lone = LoneClient::client(client(VersionSet::ALL).limits(bounded.clone()), cut);
        for _ in 0..4 {
            lone.feed("banner");
        }
        assert_eq!(lone.said().len(), 4);
        lone.with_modern(json!({}));
        for _ in 0..5 {
            lone.feed("banner");
        }
        let said = lone.said();
        assert_eq!((said.len(), said.last().map(String::as_str)), (6, Some("closed: Garbage { count: 5 }")));
        lone.transcript
    });
    // Without the limit garbage never ends anything.
    each_cut(|cut| {
        let mut lone = served(&Limits::default(), cut);
        for _ in 0..300 {
            lone.feed("garbage");
            lone.diagnostic();
        }
        lone.works();
        lone.transcript
    });
}

// covers: BASE-033, CANC-010, PING-002
#[test]
fn max_live_calls() {
    let limits = limits(|l| l.max_live_calls = 2);
    each_cut(|cut| {
        let mut lone = served(&limits, cut);
        lone.open(Version::V2025_11_25);
        let asks: Vec<_> = (1..=5).map(ask).collect();
        lone.tell_all(&asks);
        let (first, second) = (lone.call(), lone.call());
        lone.still();
        // What stands behind the requests that wait is looked at: pings, news, cancellations.
        lone.tell(&legacy("p", "ping", Value::Null));
        assert_eq!(lone.reply()["id"], "p");
        lone.tell(&note("notifications/harbor/wind", Value::Null));
        assert!(matches!(lone.event(), mcp_proto::server::Event::Notification(_)));
        lone.tell(&note("notifications/cancelled", json!({"requestId": 4})));
        lone.tell(&note("notifications/cancelled", json!({"requestId": 1})));
        lone.cancelled(&first);
        let third = lone.call();
        lone.still();
        // An id that waits is in flight.
        lone.tell(&ask(5));
        assert!(matches!(lone.diagnostic(), Diagnostic::DuplicateId(_)));
        assert_eq!(lone.complete(second.id(), &nothing())["id"], 2);
        let fifth = lone.call();
        assert_eq!(lone.complete(fifth.id(), &nothing())["id"], 5);
        assert_eq!(lone.complete(third.id(), &nothing())["id"], 3);
        lone.works();
        lone.transcript
    });
}

/// With all places taken, feeds more requests than can wait, and answers all; the last `taken` leave room to read
fn fills_up(limits: &Limits, requests: i64, taken: i64, cut: Chunker) -> Transcript {
    let mut lone = served(limits, cut);
    let first = lone.take(&ask(0));
    for id in 1..=requests {
        lone.tell(&ask(id));
    }
    lone.still();
    assert!(!lone.pipe.wants_input() && lone.pipe.is_stalled(), "reading pauses");
    assert_eq!(lone.pipe.engine().live_calls(), 1);
    // Nothing is lost and nothing refused: one comes after the other.
    let mut open = first;
    for id in 0..=requests {
        assert_eq!(lone.complete(open.id(), &nothing())["id"], id);
        if id == requests {
            break;
        }
        open = lone.call();
        assert!(id < requests - taken || lone.pipe.wants_input());
    }
    lone.still();
    assert!(lone.pipe.wants_input() && !lone.pipe.is_stalled());
    lone.transcript
}

// covers: STDIO-010, BASE-033
#[test]
fn max_waiting() {
    let limits = limits(|l| {
        l.max_live_calls = 1;
        l.max_waiting = 3;
    });
    each_cut(|cut| fills_up(&limits, 8, 3, cut));
}

// covers: STDIO-010, BASE-033
#[test]
fn max_waiting_bytes() {
    let one = ask(1).to_string().len();
    for bytes in [1, one - 1, one, one * 2, one * 5 / 2] {
        let limits = limits(|l| {
            l.max_live_calls = 1;
            l.max_waiting_bytes = bytes;
        });
        each_cut(|cut| fills_up(&limits, 8, 0, cut));
    }
    // One that is cancelled while it waits gives its bytes back.
    let limits = limits(|l| {
        l.max_live_calls = 1;
        l.max_waiting_bytes = one * 2;
    });
    each_cut(|cut| {
        let mut lone = served(&limits, cut);
        let first = lone.take(&ask(0));
        for id in 1..5 {
            lone.tell_all(&[ask(id), note("notifications/cancelled", json!({"requestId": id}))]);
            assert!(lone.pipe.wants_input());
        }
        lone.still();
        lone.complete(first.id(), &nothing());
        lone.works();
        lone.transcript
    });
}

// covers: TIME-001, STDIO-010
#[test]
fn max_pending_calls() {
    let limits = limits(|l| l.max_pending_calls = 3);
    each_cut(|cut| {
        let mut lone = LoneClient::client(client(VersionSet::ALL).limits(limits.clone()), cut);
        lone.with_modern(json!({"tools": {}}));
        let calls: Vec<_> =
            (0..3).map(|_| lone.calls("tools/list", &json!({}), &CallOptions::new())).collect();
        let refused = lone.cannot_call("tools/list", &json!({}), &CallOptions::new());
        assert_eq!(refused, UseError::Full("max_pending_calls"));
        lone.tell(&result(&calls[1].1, json!({"tools": []})));
        assert!(lone.done(calls[1].0).is_ok());
        lone.calls("tools/list", &json!({}), &CallOptions::new());
        lone.transcript
    });
    each_cut(|cut| {
        let mut lone = served(&limits, cut);
        lone.open(Version::V2025_11_25);
        let channel = lone.pipe.channel();
        let ping = |lone: &mut LoneServer| {
            lone.pipe.engine().request(lone.now, channel, "ping", &json!({}), &CallOptions::new())
        };
        for _ in 0..3 {
            ping(&mut lone).expect("room");
            lone.reply();
        }
        assert_eq!(ping(&mut lone), Err(UseError::Full("max_pending_calls")));
        lone.still();
        lone.transcript
    });
}

// covers: LIFE-005
#[test]
fn max_queued_bytes() {
    let limits = limits(|l| l.max_queued_bytes = 100);
    each_cut(|cut| {
        let mut lone = LoneClient::client(client(VersionSet::ALL).limits(limits.clone()), cut);
        let probe = lone.asked("server/discover");
        let params = json!({"x": "y".repeat(30)});
        let call = |lone: &mut LoneClient| {
            lone.pipe.engine().call(lone.now, "custom/x", &params, &CallOptions::new())
        };
        let first = call(&mut lone).expect("room");
        call(&mut lone).expect("room");
        assert_eq!(call(&mut lone), Err(UseError::Full("max_queued_bytes")));
        lone.pipe.engine().cancel(lone.now, first, None).expect("open");
        assert_eq!(lone.done(first), Err(CallError::Cancelled));
        call(&mut lone).expect("room again");
        lone.still();
        lone.tell(&result(&probe, discovery(&["2026-07-28"], json!({}))));
        lone.ready();
        assert_eq!(lone.sent().len(), 2);
        lone.transcript
    });
}

// covers: STDIO-010
#[test]
fn outbox_mark() {
    let limits = limits(|l| l.outbox_mark = 2_000);
    each_cut(|cut| {
        let mut lone = served(&limits, cut);
        lone.blocked = true;
        let asks: Vec<_> = (0..100).map(ask).collect();
        lone.tell_all(&asks);
        // Every call that is taken is answered, and no more is taken once enough is owed.
        let text = "x".repeat(150);
        let answer = json!({"content": [{"type": "text", "text": text}]});
        let mut answered = 0;
        while lone.pipe.transmit().len() < 2_000 {
            let call = lone.call();
            lone.pipe.engine().complete(lone.now, call.id(), &answer).expect("open");
            answered += 1;
        }
        assert!(!lone.pipe.wants_input());
        let channel = lone.pipe.channel();
        let refused = lone.pipe.engine().notify(lone.now, channel, "notifications/x", None::<&()>);
        assert_eq!(refused, Err(UseError::Full("outbox_mark")));
        // A result is never dropped, whatever its size.
        lone.blocked = false;
        assert!(lone.sent().len() >= answered);
        assert!(lone.pipe.wants_input());
        Transcript::default()
    });
}

// covers: LIFE-002, LIFE-012
#[test]
fn max_peer_info() {
    let limits = limits(|l| l.max_peer_info = 100);
    each_cut(|cut| {
        let mut lone = served(&limits, cut);
        let with = |name: String| {
            let info = json!({"name": name, "version": "1"});
            legacy(
                1,
                "initialize",
                json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}),
            )
        };
        let error = lone.refused(&with("x".repeat(100)));
        assert_eq!(error["code"], -32602);
        lone.tell(&with("x".repeat(50)));
        assert!(lone.reply().get("result").is_some(), "and then it can be opened");
        lone.transcript
    });
}

// covers: BASE-032, META-015
#[test]
fn max_meta_cache() {
    // Longer metadata is not remembered, which nobody can tell: see `known_meta`.
    let limits = limits(|l| l.max_meta_cache = modern_meta().to_string().len() - 1);
    each_cut(|cut| {
        let mut lone = served(&limits, cut);
        for _ in 0..3 {
            lone.works();
        }
        lone.transcript
    });
}

// covers: STDIO-028
#[test]
fn eof_grace() {
    for grace in [0, 1, 9_000] {
        let limits = limits(|l| l.eof_grace = ms(grace));
        each_cut(|cut| {
            let mut lone = served(&limits, cut);
            let call = lone.take(&ask(1));
            lone.eof();
            if grace > 0 {
                lone.pass(ms(grace - 1));
                lone.still();
            }
            lone.pass(ms(1));
            lone.cancelled(&call);
            assert_eq!(lone.closed(), Fault::Eof);
            lone.transcript
        });
    }
}

#[test]
fn idle_trim() {
    let limits = limits(|l| l.idle_trim = secs(3));
    let mut lone = served(&limits, Chunker::Whole);
    lone.works();
    let busy = format!("{:?}", lone.pipe).len();
    lone.pass(ms(2_999));
    assert!(lone.pipe.poll_timeout().is_some(), "the deadline is still to come");
    lone.pass(ms(1));
    assert!(lone.pipe.poll_timeout().is_none(), "nothing is left to be done");
    assert!(format!("{:?}", lone.pipe).len() < busy);
    // Nothing of it can be noticed.
    lone.works();
}

// covers: BASE-033
#[test]
fn max_live_calls_of_a_client() {
    let limits = limits(|l| l.max_live_calls = 2);
    each_cut(|cut| {
        let config = client(VersionSet::LEGACY).custom_method("harbor/name").limits(limits.clone());
        let mut lone = LoneClient::client(config, cut);
        lone.with_legacy(Version::V2025_11_25, json!({}));
        let mut open = Vec::new();
        for id in ["a", "b"] {
            lone.tell(&legacy(id, "harbor/name", json!({})));
            let ClientEvent::Request(request) = lone.event() else { panic!("a request") };
            open.push(request.id);
        }
        lone.tell(&legacy("c", "harbor/name", json!({})));
        assert_eq!(lone.reply()["error"]["code"], -32603);
        lone.tell(&legacy("d", "ping", Value::Null));
        assert_eq!(lone.reply()["id"], "d");
        lone.pipe.engine().respond(lone.now, open[0], &json!({})).expect("open");
        assert_eq!(lone.reply()["id"], "a");
        lone.tell(&legacy("c", "harbor/name", json!({})));
        assert!(matches!(lone.event(), ClientEvent::Request(_)));
        lone.transcript
    });
}

// covers: STDIO-010
#[test]
fn small_limits_are_enough_for_a_device() {
    each_cut(|cut| {
        let mut lone = served(&Limits::small(), cut);
        for _ in 0..100 {
            lone.works();
        }
        let asks: Vec<_> = (0..50).map(ask).collect();
        lone.tell_all(&asks);
        for i in 0..50 {
            let call = lone.call();
            assert_eq!(lone.complete(call.id(), &nothing())["id"], i);
        }
        lone.transcript
    });
}
