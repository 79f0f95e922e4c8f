//! Every order of what can happen to calls: answers, cancellations, progress and time, in both directions and in batches.

use std::collections::BTreeMap;

use mcp_proto::client::Event as ClientEvent;
use mcp_proto::server::{Call, Event};
use mcp_proto::{CallError, CallOptions, Progress, RpcError, Version, VersionSet};
use mcp_tests::harness::build::{
    error_response, legacy_request, modern_request, notification, result_response,
};
use mcp_tests::harness::{Chunker, ClientHarness, ServerHarness, exhaustive, for_each_sequence};
use serde_json::{Value, json};

use crate::protocol::common::{client, ms, secs, server};

/// Returns a server with an open session, or one that serves modern requests.
fn server_of(is_modern: bool) -> ServerHarness {
    let mut harness = ServerHarness::server(server(VersionSet::ALL), Chunker::Whole);
    if !is_modern {
        harness.open_session(Version::V2025_11_25);
    }
    harness
}

fn request(is_modern: bool, id: usize, meta: &Value) -> Value {
    let params = json!({"name": "a"});
    let mut request = if is_modern {
        modern_request(id, "tools/call", params)
    } else {
        legacy_request(id, "tools/call", params)
    };
    for (name, value) in meta.as_object().into_iter().flatten() {
        request["params"]["_meta"][name] = value.clone();
    }
    request
}

#[test]
fn exhaustive_served_call_is_answered_or_cancelled_once_in_every_order() {
    let property = "A server answers each call once unless it was cancelled first, and says nothing about one that has ended.";
    exhaustive(
        property,
        "requests, cancellations, answers and errors of 2 ids, both eras, up to",
        [3, 4, 5],
        |most| {
            [false, true]
                .map(|is_modern| {
                    for_each_sequence(8, most, |steps| {
                        let mut harness = server_of(is_modern);
                        let mut open: BTreeMap<usize, Call> = BTreeMap::new();
                        let mut ended: Vec<Call> = Vec::new();
                        for step in steps {
                            let id = step % 2 + 1;
                            match step / 2 {
                                // An id that is in use is another rule's matter.
                                0 if open.contains_key(&id) => {}
                                0 => {
                                    let call = harness.expect_call_for(&request(is_modern, id, &json!({})));
                                    open.insert(id, call);
                                    harness.assert_nothing_sent();
                                }
                                1 => {
                                    let params = json!({"requestId": id});
                                    harness.feed_message(&notification("notifications/cancelled", params));
                                    if let Some(call) = open.remove(&id) {
                                        harness.expect_cancelled(&call);
                                        ended.push(call);
                                    }
                                    harness.take_event_texts();
                                    harness.assert_nothing_sent();
                                }
                                kind => {
                                    let Some(call) = open.remove(&id) else { continue };
                                    let answer = if kind == 2 {
                                        harness.complete(call.id(), &json!({"content": []}))
                                    } else {
                                        harness.fail(call.id(), &RpcError::new(-1, "no"))
                                    };
                                    assert_eq!(answer["id"], id);
                                    assert_eq!(answer.get("error").is_some(), kind == 3, "{answer}");
                                    ended.push(call);
                                }
                            }
                            let now = harness.now;
                            for call in &ended {
                                assert!(
                                    harness.pipe.engine().complete(now, call.id(), &json!({})).is_err(),
                                    "{steps:?}"
                                );
                                assert!(
                                    harness
                                        .pipe
                                        .engine()
                                        .progress(now, call.id(), Progress::new(1.0))
                                        .is_err()
                                );
                            }
                            harness.pump();
                            harness.assert_idle();
                        }
                    })
                })
                .into_iter()
                .sum()
        },
    );
}

#[test]
fn exhaustive_made_call_ends_once_whatever_comes_first() {
    let property = "A client's call ends once: by the first of answer, error, cancellation, time and end; nothing of it follows.";
    exhaustive(property, "6 kinds of events at a call of each era, up to", [3, 4, 5], |most| {
        [false, true]
            .map(|is_modern| {
                for_each_sequence(6, most, |steps| {
                    let mut harness = ClientHarness::client(client(VersionSet::ALL), Chunker::Whole);
                    if is_modern {
                        harness.become_modern(json!({"tools": {}}));
                    } else {
                        harness.become_legacy(Version::V2025_11_25, json!({"tools": {}}));
                    }
                    let options = CallOptions::new().with_progress();
                    let (key, request) = harness.start_call("tools/call", &json!({"name": "a"}), &options);
                    let token = request["params"]["_meta"]["progressToken"].clone();
                    // Each call has sixty seconds, from its last sign of life if it asks for progress.
                    let (mut outcome, mut waited, mut is_over) = (None, 0, false);
                    for (number, step) in steps.iter().enumerate() {
                        if is_over {
                            break;
                        }
                        let result = if is_modern {
                            json!({"resultType": "complete", "content": []})
                        } else {
                            json!({"content": []})
                        };
                        let mut expected = None;
                        match step {
                            0 => {
                                harness.feed_message(&result_response(&request, result));
                                expected = Some("answer");
                            }
                            1 => {
                                harness.feed_message(&error_response(&request, -1, "no", Value::Null));
                                expected = Some("error");
                            }
                            2 => {
                                let params = json!({"progressToken": token, "progress": number + 1});
                                harness.feed_message(&notification("notifications/progress", params));
                                waited = 0;
                            }
                            3 => {
                                let now = harness.now;
                                let _ = harness.pipe.engine().cancel(now, key, None);
                                harness.pump();
                                expected = Some("cancelled");
                            }
                            4 => {
                                harness.advance(secs(31));
                                waited += 31;
                                expected = (waited > 60).then_some("timed out");
                            }
                            _ => {
                                harness.eof();
                                is_over = true;
                                expected = Some("lost");
                            }
                        }
                        let was_open = outcome.is_none();
                        let (mut done, mut progress) = (Vec::new(), 0);
                        while !harness.has_no_events() {
                            match harness.expect_event() {
                                ClientEvent::Done { call, outcome, .. } => {
                                    assert_eq!(call, key);
                                    done.push(match outcome {
                                        Ok(_) => "answer",
                                        Err(CallError::Rpc(_)) => "error",
                                        Err(CallError::Cancelled) => "cancelled",
                                        Err(CallError::TimedOut) => "timed out",
                                        Err(_) => "lost",
                                    });
                                }
                                ClientEvent::Progress { .. } => progress += 1,
                                _ => {}
                            }
                        }
                        let expected = expected.filter(|_| was_open);
                        assert!(done.iter().eq(expected.iter()), "{is_modern} {steps:?}: {done:?}");
                        assert_eq!(progress, usize::from(was_open && *step == 2), "{steps:?}");
                        let cancelled = harness.take_sent();
                        let is_told = matches!(expected, Some("cancelled" | "timed out"));
                        assert_eq!(cancelled.len(), usize::from(is_told), "{steps:?}: {cancelled:?}");
                        assert!(cancelled.iter().all(|m| m["params"]["requestId"] == request["id"]));
                        outcome = outcome.or(expected);
                    }
                })
            })
            .into_iter()
            .sum()
    });
}

#[test]
fn exhaustive_progress_increases_within_its_rate_and_ends_with_the_largest() {
    let property = "Progress on the wire increases strictly, within the rate, and its last value is the largest that was reported.";
    exhaustive(property, "reports of 4 values and two lengths of time, up to", [4, 5, 6], |most| {
        for_each_sequence(6, most, |steps| {
            let limits = crate::protocol::common::limits(|l| (l.progress_burst, l.progress_rate) = (1, 1));
            let mut harness = ServerHarness::server(server(VersionSet::ALL).limits(limits), Chunker::Whole);
            let call = harness.expect_call_for(&request(true, 1, &json!({"progressToken": "t"})));
            let (mut largest, mut sent, mut waited) = (None::<f64>, Vec::new(), 0);
            for step in steps {
                match step {
                    0..=3 => {
                        let value = [1.0, 2.0, 3.0, f64::NAN][*step];
                        let now = harness.now;
                        harness.pipe.engine().progress(now, call.id(), Progress::new(value)).ok();
                        harness.pump();
                        if !value.is_nan() {
                            largest = Some(largest.unwrap_or(value).max(value));
                        }
                    }
                    _ => {
                        let span = [400, 1_000][step - 4];
                        waited += span;
                        harness.advance(ms(span));
                    }
                }
                sent.extend(harness.take_sent());
                assert!(sent.len() as u64 <= 1 + waited / 1_000, "{steps:?}");
            }
            harness.advance(secs(2));
            sent.extend(harness.take_sent());
            let values: Vec<f64> = sent.iter().filter_map(|m| m["params"]["progress"].as_f64()).collect();
            assert!(values.windows(2).all(|two| two[0] < two[1]), "{steps:?}: {values:?}");
            assert_eq!(values.last().copied(), largest, "{steps:?}");
        })
    });
}

#[test]
fn exhaustive_batch_is_answered_by_one_array_of_all_that_have_an_answer() {
    let property = "A batch is answered once, when its last call has ended, by one response for each request that was not cancelled.";
    exhaustive(property, "members of 6 kinds, ended in both orders, up to", [3, 4, 5], |most| {
        for_each_sequence(6, most, |members| {
            for is_reversed in [false, true] {
                if members.is_empty() {
                    continue;
                }
                let mut harness = ServerHarness::server(server(VersionSet::ALL), Chunker::Whole);
                harness.open_session(Version::V2025_03_26);
                let batch: Vec<Value> = (100..)
                    .zip(members)
                    .map(|(id, kind)| match kind {
                        0 => legacy_request(id, "ping", Value::Null),
                        1..=3 => legacy_request(id, "tools/call", json!({"name": "a"})),
                        4 => notification("notifications/custom", Value::Null),
                        _ => json!({"jsonrpc": "2.0", "id": id, "method": 5}),
                    })
                    .collect();
                harness.feed_message(&json!(batch));
                let mut calls = Vec::new();
                while !harness.has_no_events() {
                    if let Event::Call(call) = harness.expect_event() {
                        calls.push(call);
                    }
                }
                let mut kinds: Vec<(usize, usize)> = (100..)
                    .zip(members)
                    .filter(|(_, kind)| (1..=3).contains(*kind))
                    .map(|(id, kind)| (id, *kind))
                    .collect();
                assert_eq!(calls.len(), kinds.len(), "{members:?}");
                if is_reversed {
                    calls.reverse();
                    kinds.reverse();
                }
                let mut answers = harness.take_sent();
                for (call, (id, kind)) in calls.iter().zip(&kinds) {
                    assert!(answers.is_empty(), "answered before its end: {members:?}");
                    let now = harness.now;
                    match kind {
                        1 => harness
                            .pipe
                            .engine()
                            .complete(now, call.id(), &json!({"content": []}))
                            .expect("open"),
                        2 => harness
                            .pipe
                            .engine()
                            .fail(now, call.id(), &RpcError::new(-1, "no"))
                            .expect("open"),
                        _ => {
                            let params = json!({"requestId": id});
                            harness.feed_message(&notification("notifications/cancelled", params));
                        }
                    }
                    harness.pump();
                    answers = harness.take_sent();
                }
                let mut found: Vec<u64> = match &*answers {
                    [] => Vec::new(),
                    [array] => {
                        array.as_array().expect("an array").iter().filter_map(|m| m["id"].as_u64()).collect()
                    }
                    more => panic!("{members:?}: {more:?}"),
                };
                found.sort_unstable();
                let expected =
                    (100..).zip(members).filter(|(_, kind)| ![3, 4].contains(*kind)).map(|(id, _)| id);
                assert!(found.iter().copied().eq(expected), "{members:?}: {answers:?}");
            }
        })
    });
}
