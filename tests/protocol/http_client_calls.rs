//! Calls over HTTP to a modern server: both forms of response, invalid responses, broken streams, retries.

use mcp_oauth::{Error, Step};
use mcp_proto::client::Event;
use mcp_proto::model::SubscriptionFilter;
use mcp_proto::{CallError, CallOptions, Change, Diagnostic, HttpError, VersionSet};
use mcp_tests::harness::build::{error_response, notification, result_response};
use mcp_tests::harness::{Chunker, HttpClientHarness, for_each_chunker};
use serde_json::{Value, json};

use crate::protocol::common::{client, limits, ms, secs};
use crate::protocol::http_client_shared::{V, legacy_harness, tool_capabilities};

const JSON: &str = "application/json";

fn modern_harness(cut: Chunker) -> HttpClientHarness {
    let mut harness =
        HttpClientHarness::new(client(VersionSet::MODERN), HttpClientHarness::default_http_config(), cut);
    harness.become_modern(
        json!({"tools": {}, "resources": {"subscribe": true}, "prompts": {}, "completions": {}}),
    );
    harness
}

fn non_retryable() -> CallOptions {
    CallOptions::new()
}

fn tool_result() -> Value {
    json!({"resultType": "complete", "content": []})
}

fn expect_http_error(outcome: Result<Value, CallError>) -> HttpError {
    match outcome {
        Err(CallError::Http(error)) => HttpError::clone(&error),
        other => panic!("{other:?}"),
    }
}

// covers: HTTP-022, SSE-001, SSE-002, SSE-003, SSE-005
#[test]
fn call_completes_by_json_or_event_stream() {
    for_each_chunker(|cut| {
        let mut harness = modern_harness(cut);
        let (key, request) = harness.start_wave_call(&non_retryable());
        harness.respond_with_json(request.id, 200, &result_response(&request.body, tool_result()));
        assert_eq!(harness.expect_done(key), Ok(tool_result()));
        harness.assert_idle();

        let (key, request) = harness.start_wave_call(&non_retryable().with_progress());
        harness.start_event_stream(request.id);
        harness.receive_body(request.id, ": keep-alive\n\n");
        let params = json!({"progressToken": request.body["id"], "progress": 1});
        harness.receive_event(request.id, "", &notification("notifications/progress", params));
        assert!(matches!(harness.expect_event(), Event::Progress { .. }));
        harness.receive_body(request.id, "event: other\ndata: {\"jsonrpc\":\"2.0\",\"id\":1}\n\n");
        harness.assert_idle();
        harness.receive_event(request.id, "", &result_response(&request.body, tool_result()));
        assert_eq!(harness.expect_done(key), Ok(tool_result()));
        // Later messages are ignored (SSE-011).
        harness
            .receive_body(request.id, format!("data: {}\n\n", result_response(&request.body, tool_result())));
        harness.receive_end(request.id);
        harness.assert_idle();
        harness.transcript
    });
}

#[test]
fn rpc_error_in_the_body_is_the_outcome_for_any_status() {
    for status in [200, 400, 404, 413, 500] {
        for_each_chunker(|cut| {
            let mut harness = modern_harness(cut);
            let (key, request) = harness.start_wave_call(&non_retryable());
            harness.respond_with_json(
                request.id,
                status,
                &error_response(&request.body, -32601, "no such thing", Value::Null),
            );
            assert!(matches!(harness.expect_done(key), Err(CallError::Rpc(e)) if e.code == -32601));
            harness.assert_idle();
            harness.transcript
        });
    }
}

/// Ids that no request of the client has; `None` for a message without one.
fn unusable_ids() -> Vec<Option<Value>> {
    let ids =
        [json!(null), json!(""), json!("server-error"), json!(999_999), json!(-1), json!(1.5), json!({})];
    [None].into_iter().chain(ids.map(Some)).collect()
}

fn with_id(id: Option<&Value>, mut message: Value) -> Value {
    if let Some(id) = id {
        message["id"] = id.clone();
    }
    message
}

// covers: BASE-013
#[test]
fn error_without_a_usable_id_belongs_to_the_request_that_its_body_answers() {
    for id in unusable_ids() {
        for (status, is_stream) in [(200, false), (200, true), (400, false), (500, false)] {
            for_each_chunker(|cut| {
                let mut harness = modern_harness(cut);
                let (other, waiting) = harness.start_wave_call(&non_retryable());
                let (key, request) = harness.start_wave_call(&non_retryable());
                let error = json!({"jsonrpc": "2.0", "error": {"code": -32700, "message": "what?"}});
                let error = with_id(id.as_ref(), error);
                if is_stream {
                    harness.start_event_stream(request.id);
                    harness.receive_event(request.id, "", &error);
                    // One with an id is skipped, and tells at the end why no answer came.
                    if harness.client.is_open(request.id) {
                        harness.receive_end(request.id);
                    }
                } else {
                    harness.respond_with_json(request.id, status, &error);
                }
                harness.take_diagnostics();
                let done = harness.expect_done(key);
                assert!(matches!(&done, Err(CallError::Rpc(e)) if e.code == -32700), "{error}: {done:?}");
                harness.respond_with_json(waiting.id, 200, &result_response(&waiting.body, tool_result()));
                assert_eq!(harness.expect_done(other), Ok(tool_result()));
                harness.transcript
            });
        }
    }
}

// covers: BASE-005
#[test]
fn foreign_answer_on_an_event_stream_is_noted_and_skipped() {
    for is_legacy in [false, true] {
        for_each_chunker(|cut| {
            let mut harness = if is_legacy { legacy_harness(cut) } else { modern_harness(cut) };
            if is_legacy {
                harness.become_legacy(V, None, tool_capabilities());
            }
            let (key, request) = harness.start_wave_call(&non_retryable());
            harness.start_event_stream(request.id);
            let own = &request.body["id"];
            for id in [json!(own.to_string()), json!(999_999), json!("server-error"), json!(-1)] {
                let foreign = json!({"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": "no"}]}});
                harness.receive_event(request.id, "", &foreign);
                assert!(
                    matches!(harness.expect_diagnostic(), Diagnostic::UnknownResponse { .. }),
                    "{foreign}"
                );
                let error = json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32603, "message": "no"}});
                harness.receive_event(request.id, "", &error);
                assert!(matches!(harness.expect_diagnostic(), Diagnostic::UnknownResponse { .. }), "{error}");
            }
            harness.receive_event(request.id, "", &result_response(&request.body, tool_result()));
            assert_eq!(harness.expect_done(key), Ok(tool_result()));
            // What was skipped is forgotten with its call.
            let (key, request) = harness.start_wave_call(&non_retryable());
            harness.start_event_stream(request.id);
            harness.receive_end(request.id);
            assert!(matches!(expect_http_error(harness.expect_done(key)), HttpError::Lost { .. }));
            harness.transcript
        });
    }
}

// covers: BASE-005, BASE-010
#[test]
fn unusable_answer_in_the_body_ends_its_request_at_once() {
    type Answer = fn(&Value) -> (Value, &'static str);
    let answers: [Answer; 5] = [
        |_| (json!({"jsonrpc": "2.0", "id": 999_999, "result": {}}), "`id` is not that of the request"),
        |_| (json!({"jsonrpc": "2.0", "id": "x", "result": {}}), "`id` is not that of the request"),
        |id| (json!({"jsonrpc": "2.0", "id": id}), "neither a request, a notification nor a response"),
        |_| (json!({"jsonrpc": "2.0", "id": null, "error": "no"}), "`error` is not an error object"),
        |id| (json!({"jsonrpc": "2.0", "id": id, "result": null, "error": null}), "neither a request"),
    ];
    for answer in answers {
        for is_legacy in [false, true] {
            for_each_chunker(|cut| {
                let mut harness = if is_legacy {
                    let mut harness = legacy_harness(cut);
                    harness.become_legacy(V, None, tool_capabilities());
                    harness
                } else {
                    modern_harness(cut)
                };
                let (key, request) = harness.start_wave_call(&non_retryable());
                let (text, reason) = answer(&request.body["id"]);
                harness.respond_with_json(request.id, 200, &text);
                harness.take_diagnostics();
                let done = harness.expect_done(key);
                let error = done.expect_err("not an answer");
                assert!(matches!(error, CallError::Malformed(_)), "{text}: {error:?}");
                assert!(error.to_string().contains(reason), "{text}: {error}");
                harness.transcript
            });
        }
    }
}

// covers: HTTP-082
#[test]
fn invalid_response_fails_the_call_with_its_details() {
    let page = "<!DOCTYPE html>";
    for (status, content_type, body) in [
        (200, "text/html", page),
        (200, "text/plain", ""),
        (200, JSON, "not json"),
        (200, JSON, ""),
        (200, JSON, "{}"),
        (200, JSON, "[]"),
        (200, "", ""),
        (201, "image/png", "\u{1}"),
        (202, "", ""),
        (204, "", ""),
        (400, "", ""),
        (403, "text/html", page),
        (404, "text/html", page),
        (406, JSON, "{}"),
        (413, "text/html", page),
        (418, "application/jsonp", page),
        (431, "", ""),
        (500, "text/html", page),
        (503, JSON, "{\"error\":\"busy\"}"),
        (599, "", ""),
    ] {
        for_each_chunker(|cut| {
            let mut harness = modern_harness(cut);
            let (key, request) = harness.start_wave_call(&non_retryable());
            if content_type.is_empty() {
                harness.respond_with_status(request.id, status);
            } else {
                harness.respond(request.id, status, content_type, body);
            }
            harness.take_diagnostics();
            let error = expect_http_error(harness.expect_done(key));
            assert!(error.to_string().contains(&status.to_string()), "{error}");
            match &error {
                HttpError::Response(a) => {
                    assert_eq!(
                        (a.status, a.content_type.as_deref().unwrap_or_default()),
                        (status, content_type)
                    );
                    assert!(content_type.is_empty() || error.to_string().contains(content_type), "{error}");
                    assert!(status == 200 || a.body == body || a.error.is_some(), "{error:?}");
                }
                HttpError::Unanswered { .. } => assert!(status < 300, "{error}"),
                other => panic!("{other:?}"),
            }
            harness.assert_idle();
            harness.transcript
        });
    }
}

// covers: BASE-005
#[test]
fn response_to_another_request_is_not_accepted() {
    for_each_chunker(|cut| {
        let mut harness = modern_harness(cut);
        let (first, one) = harness.start_wave_call(&non_retryable());
        let (second, two) = harness.start_wave_call(&non_retryable());
        // Ids are scoped to an exchange: the id of another request is unknown in this one.
        harness.respond_with_json(one.id, 200, &result_response(&two.body, tool_result()));
        assert!(matches!(harness.expect_diagnostic(), Diagnostic::UnknownResponse { .. }));
        assert_eq!(expect_http_error(harness.expect_done(first)), HttpError::Unanswered { status: 200 });
        harness.start_event_stream(two.id);
        harness.receive_event(two.id, "", &result_response(&one.body, tool_result()));
        assert!(matches!(harness.expect_diagnostic(), Diagnostic::UnknownResponse { .. }));
        harness.receive_event(two.id, "", &result_response(&two.body, tool_result()));
        assert_eq!(harness.expect_done(second), Ok(tool_result()));
        harness.transcript
    });
}

// covers: HTTP-044, SSE-012
#[test]
fn event_stream_cut_at_any_byte_loses_the_call() {
    let text = |id: &Value| {
        let message = json!({"jsonrpc": "2.0", "id": id, "result": tool_result()});
        format!("id: 1\nretry: 10\ndata:\n\nid: 2\ndata: {message}\n\n")
    };
    let whole = text(&json!(2)).len();
    for cut in 0..=whole {
        let mut harness = modern_harness(Chunker::Whole);
        let (key, request) = harness.start_wave_call(&non_retryable());
        let body = text(&request.body["id"]);
        assert!(body.len() >= whole);
        harness.start_event_stream(request.id);
        harness.receive_body(request.id, &body[..cut]);
        if cut % 2 == 0 {
            harness.break_connection(request.id);
        } else {
            harness.receive_end(request.id);
        }
        match harness.expect_done(key) {
            Ok(result) => assert!(result == tool_result() && cut >= body.len()),
            Err(CallError::Http(e)) => {
                assert!(matches!(*e, HttpError::Lost { .. }) && cut < body.len(), "{e:?} {cut}");
            }
            other => panic!("{other:?}"),
        }
        harness.advance(secs(60));
        harness.assert_idle();
    }
}

// covers: HTTP-044
#[test]
fn idempotent_call_is_retried_under_a_new_id() {
    for_each_chunker(|cut| {
        let mut harness = modern_harness(cut);
        let (key, request) = harness.start_wave_call(&non_retryable().idempotent());
        let mut ids = vec![request.body["id"].clone()];
        let mut last = request;
        for pause in [1, 2, 4, 8, 16] {
            match pause {
                1 => harness.break_connection(last.id),
                2 => harness.refuse_connection(last.id),
                4 => {
                    harness.start_event_stream(last.id);
                    harness.receive_end(last.id);
                }
                8 => harness.respond(last.id, 503, "text/plain", "busy"),
                _ => harness.respond_with(last.id, 429, &[("Retry-After", "16")], ""),
            }
            harness.advance(secs(pause) - ms(1));
            harness.assert_idle();
            harness.advance(ms(1));
            last = harness.expect_post("tools/call");
            assert!(!ids.contains(&last.body["id"]), "{ids:?}");
            ids.push(last.body["id"].clone());
        }
        harness.break_connection(last.id);
        assert!(matches!(expect_http_error(harness.expect_done(key)), HttpError::Lost { .. }));
        harness.advance(secs(100));
        harness.assert_idle();
        harness.transcript
    });
    // The answer to the retry completes the call; an answer to the first request would be late.
    let mut harness = modern_harness(Chunker::Whole);
    let (key, request) = harness.start_call("resources/list", &json!({}), &non_retryable().idempotent());
    harness.break_connection(request.id);
    harness.advance(secs(1));
    let again = harness.expect_post("resources/list");
    let found = json!({"resultType": "complete", "resources": [], "ttlMs": 0, "cacheScope": "private"});
    harness.respond_with_json(again.id, 200, &result_response(&again.body, found.clone()));
    assert_eq!(harness.expect_done(key), Ok(found));
}

#[test]
fn refused_access_is_told_from_other_failures() {
    for (status, is_refused) in
        [(401, true), (403, true), (407, true), (400, false), (404, false), (429, false), (500, false)]
    {
        let mut harness = modern_harness(Chunker::Whole);
        let (key, request) = harness.start_wave_call(&non_retryable());
        harness.respond_with_status(request.id, status);
        let error = harness.expect_done(key).expect_err("a status");
        assert_eq!((error.is_access_refused(), error.retry_after()), (is_refused, None), "{status}: {error}");
    }
    // An authorization that could not be asked for is no refusal.
    let error = Error::local(Step::Store, "https://login.example", "no disk");
    let error = CallError::from(HttpError::Authorization { error: (&error).into(), refusal: None });
    assert!(!error.is_access_refused(), "{error}");
}

#[test]
fn retry_after_is_reported_in_the_error() {
    for (value, seconds) in [
        ("7", Some(7)),
        ("0", Some(0)),
        ("999999999", Some(999_999_999)),
        ("1000000000", None),
        ("12345678901", None),
        ("", None),
        ("+5", None),
        ("Wed, 21 Oct 2015 07:28:00 GMT", None),
        ("-1", None),
    ] {
        let mut harness = modern_harness(Chunker::Whole);
        let (key, request) = harness.start_wave_call(&non_retryable());
        harness.respond_with(request.id, 503, &[("retry-after", value)], "");
        let outcome = harness.expect_done(key);
        let error = outcome.clone().expect_err("a status");
        assert_eq!((error.retry_after(), error.is_access_refused()), (seconds.map(secs), false));
        let HttpError::Response(answer) = expect_http_error(outcome) else { panic!("a status") };
        assert_eq!(answer.retry_after.map(|d| d.as_secs()), seconds);
        harness.advance(secs(60));
        harness.assert_idle();
    }
}

// covers: CANC-016
#[test]
fn cancelled_call_aborts_its_exchange() {
    for_each_chunker(|cut| {
        let mut harness = modern_harness(cut);
        let (key, request) = harness.start_wave_call(&non_retryable());
        harness.start_event_stream(request.id);
        harness.client.engine().cancel(harness.now, key, Some("enough")).expect("a call");
        assert_eq!(harness.expect_done(key), Err(CallError::Cancelled));
        assert_eq!(harness.expect_aborted(), request.id);
        // Later input is ignored.
        harness
            .receive_body(request.id, format!("data: {}\n\n", result_response(&request.body, tool_result())));
        harness.receive_end(request.id);
        harness.assert_idle();

        let (key, request) = harness.start_wave_call(&non_retryable().timeout(secs(5)));
        harness.advance(secs(5));
        assert_eq!(harness.expect_done(key), Err(CallError::TimedOut));
        assert_eq!(harness.expect_aborted(), request.id);
        harness.assert_idle();

        // Between two attempts there is no exchange to abort.
        let (key, request) = harness.start_wave_call(&non_retryable().idempotent());
        harness.break_connection(request.id);
        harness.client.engine().cancel(harness.now, key, None).expect("a call");
        assert_eq!(harness.expect_done(key), Err(CallError::Cancelled));
        harness.advance(secs(10));
        harness.assert_idle();
        harness.transcript
    });
}

#[test]
fn response_beyond_max_frame_fails_the_call() {
    for_each_chunker(|cut| {
        let limits = limits(|l| l.max_frame = 1_000);
        let mut harness = HttpClientHarness::new(
            client(VersionSet::MODERN).limits(limits),
            HttpClientHarness::default_http_config(),
            cut,
        );
        harness.become_modern(json!({"tools": {}}));
        let long =
            json!({"resultType": "complete", "content": [{"type": "text", "text": "x".repeat(2_000)}]});
        let (key, request) = harness.start_wave_call(&non_retryable());
        harness.receive_head(request.id, 200, &[("Content-Type", JSON)]);
        harness.receive_body(request.id, result_response(&request.body, long.clone()).to_string());
        assert_eq!(harness.expect_done(key), Err(CallError::TooLarge { limit: 1_000 }));
        assert_eq!(harness.expect_aborted(), request.id);

        let (key, request) = harness.start_wave_call(&non_retryable());
        harness.start_event_stream(request.id);
        harness.receive_event(request.id, "", &result_response(&request.body, long));
        assert_eq!(harness.expect_done(key), Err(CallError::TooLarge { limit: 1_000 }));
        assert_eq!(harness.expect_aborted(), request.id);
        harness.assert_idle();
        harness.transcript
    });
}

// ---- redirects -----------------------------------------------------------------------------------------------

#[test]
fn same_origin_redirects_are_followed_three_times() {
    for status in [307, 308] {
        for_each_chunker(|cut| {
            let mut harness = modern_harness(cut);
            let (key, request) = harness.start_wave_call(&non_retryable());
            let mut last = request;
            for to in ["/a", "b?c", "http://tide.example:3000/d"] {
                harness.respond_with(last.id, status, &[("Location", to)], "moved");
                let next = harness.expect_post("tools/call");
                assert_eq!(next.body, last.body);
                assert_eq!(next.field("mcp-name"), Some("wave"));
                last = next;
            }
            assert_eq!(last.url.target(), "/d");
            harness.respond_with(last.id, status, &[("Location", "/e")], "moved");
            assert!(matches!(expect_http_error(harness.expect_done(key)), HttpError::Redirected { .. }));
            harness.assert_idle();
            harness.transcript
        });
    }
}

// covers: SEC-019
#[test]
fn other_redirects_are_not_followed() {
    for (status, to) in [
        (307, "http://evil.example/mcp"),
        (308, "https://tide.example:3000/mcp"),
        (307, "http://tide.example/mcp"),
        (307, "//evil.example:3000/mcp?token=secret"),
        (307, "javascript:alert(1)"),
        (307, ""),
        (301, "/a"),
        (302, "/a"),
        (303, "/a"),
        (304, "/a"),
    ] {
        let config = HttpClientHarness::default_http_config()
            .field("authorization", b"Bearer secret")
            .expect("a field");
        let mut harness = HttpClientHarness::new(client(VersionSet::MODERN), config, Chunker::Whole);
        harness.become_modern(json!({"tools": {}}));
        let (key, request) = harness.start_wave_call(&non_retryable());
        assert_eq!(request.field("Authorization"), Some("Bearer secret"));
        let fields: &[(&str, &str)] = if to.is_empty() && status == 307 { &[] } else { &[("Location", to)] };
        harness.respond_with(request.id, status, fields, "moved");
        let error = expect_http_error(harness.expect_done(key));
        assert!(matches!(error, HttpError::Redirected { status: s, .. } if s == status), "{error:?}");
        assert!(!format!("{error:?} {error}").contains("secret"), "{error:?}");
        harness.assert_idle();
    }
}

#[test]
fn confined_client_is_led_to_no_other_path() {
    for (allowed, to, is_followed) in [
        ("/team/*", "/team/a", true),
        ("/team/*", "/team/a?session=%20x", true),
        ("/team/*", "/admin", false),
        ("/team/*", "/team", false),
        ("/team/*", "/team/%2e%2e/admin", false),
        ("/team/*", "/team/..%2fadmin", false),
        ("/team/*", "/team/../admin", false),
        ("/mcp", "/mcp/", true),
        ("/mcp", "/mcp-admin", false),
        ("/mcp", "/mcp?x=1", false),
        ("/mcp", "/mcp//", false),
        ("/mcp?k=a", "/mcp/?k=a", true),
        ("/mcp?k=a", "/mcp?k=a//", false),
        ("/team*", "/team-two", false),
        ("/", "//admin", false),
        ("/mcp", "/admin", false),
    ] {
        let config = HttpClientHarness::default_http_config().confine_to(allowed);
        let mut harness = HttpClientHarness::new(client(VersionSet::MODERN), config, Chunker::Whole);
        harness.become_modern(json!({"tools": {}}));
        let (key, request) = harness.start_wave_call(&non_retryable());
        harness.respond_with(request.id, 307, &[("Location", to)], "moved");
        if is_followed {
            assert_eq!(harness.expect_post("tools/call").url.target(), to);
        } else {
            let error = expect_http_error(harness.expect_done(key));
            assert!(matches!(error, HttpError::Redirected { .. }), "{allowed} {to}: {error:?}");
        }
    }
}

// ---- subscriptions -------------------------------------------------------------------------------------------

// covers: SUB-015
#[test]
fn broken_subscription_is_requested_again() {
    for_each_chunker(|cut| {
        let mut harness = modern_harness(cut);
        let filter = SubscriptionFilter::new().tools_list_changed(true);
        let key = harness.client.engine().subscribe(harness.now, &filter).expect("a subscription");
        let mut listen = harness.expect_post("subscriptions/listen");
        for round in 0..3 {
            let meta = json!({"io.modelcontextprotocol/subscriptionId": listen.body["id"]});
            harness.start_event_stream(listen.id);
            let message = json!({"notifications": {"toolsListChanged": true}, "_meta": meta});
            harness.receive_event(
                listen.id,
                "",
                &notification("notifications/subscriptions/acknowledged", message),
            );
            assert!(matches!(harness.expect_event(), Event::Subscribed { key: k, .. } if k == key));
            if round > 0 {
                // A change between the streams was not announced.
                let event = harness.expect_event();
                assert!(matches!(event, Event::Changed { key: Some(k), change: Change::Tools } if k == key));
            }
            harness.assert_idle();
            let message = notification("notifications/tools/list_changed", json!({"_meta": meta}));
            harness.receive_event(listen.id, "", &message);
            assert!(matches!(harness.expect_event(), Event::Changed { key: Some(k), .. } if k == key));
            if round % 2 == 0 {
                harness.break_connection(listen.id)
            } else {
                harness.receive_end(listen.id)
            }
            harness.assert_idle();
            harness.advance(secs(1));
            let again = harness.expect_post("subscriptions/listen");
            assert_ne!(again.body["id"], listen.body["id"]);
            assert_eq!(again.body["params"]["notifications"], json!({"toolsListChanged": true}));
            listen = again;
        }
        // Attempts without success come to an end.
        for pause in [2, 4, 8, 16] {
            harness.refuse_connection(listen.id);
            harness.advance(secs(pause));
            listen = harness.expect_post("subscriptions/listen");
        }
        harness.refuse_connection(listen.id);
        match harness.expect_event() {
            Event::SubscriptionEnded { key: k, graceful: false, error: Some(CallError::Http(_)) } => {
                assert_eq!(k, key);
            }
            other => panic!("{other:?}"),
        }
        harness.advance(secs(60));
        harness.assert_idle();
        harness.transcript
    });
}

// covers: SUB-012, SUB-013
#[test]
fn ended_subscription_is_not_requested_again() {
    let mut harness = modern_harness(Chunker::Whole);
    let filter = SubscriptionFilter::new().tools_list_changed(true);
    let key = harness.client.engine().subscribe(harness.now, &filter).expect("a subscription");
    let listen = harness.expect_post("subscriptions/listen");
    harness.start_event_stream(listen.id);
    harness.client.engine().unsubscribe(harness.now, key).expect("an open subscription");
    assert_eq!(harness.expect_aborted(), listen.id);
    harness.assert_idle();

    harness.client.engine().subscribe(harness.now, &filter).expect("a subscription");
    let listen = harness.expect_post("subscriptions/listen");
    harness.break_connection(listen.id);
    harness.client.engine().close(harness.now);
    harness.pump();
    assert!(matches!(harness.expect_event(), Event::SubscriptionEnded { graceful: false, .. }));
    assert!(matches!(harness.expect_event(), Event::Closed(_)));
    harness.advance(secs(60));
    harness.assert_idle();
    assert!(harness.client.is_drained());
}

// covers: BASE-013, TIME-001
#[test]
fn error_that_ended_its_own_request_is_not_told_by_another_that_times_out() {
    let mut harness = modern_harness(Chunker::Whole);
    let (other, _waiting) = harness.start_wave_call(&non_retryable());
    let (key, request) = harness.start_wave_call(&non_retryable());
    let error = json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "what?"}});
    harness.respond_with_json(request.id, 200, &error);
    harness.take_diagnostics();
    assert!(matches!(harness.expect_done(key), Err(CallError::Rpc(_))));
    harness.advance(secs(60));
    assert_eq!(harness.expect_done(other), Err(CallError::TimedOut));
}

// covers: ERR-017
#[test]
fn refusal_of_initialize_over_http_that_names_revisions_is_retried_once() {
    for status in [200, 400] {
        let mut harness = HttpClientHarness::new(
            client(VersionSet::LEGACY),
            HttpClientHarness::default_http_config(),
            Chunker::Whole,
        );
        let init = harness.expect_post("initialize");
        let data = json!({"supported": ["2025-03-26", "2024-11-05"]});
        harness.respond_with_json(init.id, status, &error_response(&init.body, -32602, "not that one", data));
        let again = harness.expect_post("initialize");
        assert_eq!(again.body["params"]["protocolVersion"], "2025-03-26", "{status}");
    }
}

// ---- requests of the application with a meaning for the client --------------------------------------------------

#[test]
fn refused_discover_of_the_application_ends_itself_alone() {
    let mut harness = modern_harness(Chunker::Whole);
    let (key, request) = harness.start_call("server/discover", &json!({}), &non_retryable());
    harness.respond_with_status(request.id, 404);
    assert!(matches!(expect_http_error(harness.expect_done(key)), HttpError::Response(_)));
    harness.assert_idle();
    let (key, request) = harness.start_wave_call(&non_retryable());
    harness.respond_with_json(request.id, 200, &result_response(&request.body, tool_result()));
    assert_eq!(harness.expect_done(key), Ok(tool_result()));
}

#[test]
fn member_tools_of_another_result_is_left_as_it_is() {
    let mut harness = modern_harness(Chunker::Whole);
    let schema = json!({"type": "object", "properties": {"a": {"type": "object", "x-mcp-header": "A"}}});
    let result = json!({"resultType": "complete", "tools": [{"name": "bad", "inputSchema": schema}]});
    let (key, request) = harness.start_call("x/tools", &json!({}), &non_retryable());
    harness.respond_with_json(request.id, 200, &result_response(&request.body, result.clone()));
    assert_eq!(harness.expect_done(key), Ok(result));
    harness.assert_idle();
}

#[test]
fn invalid_list_of_tools_is_refused_as_a_whole() {
    let mut harness = modern_harness(Chunker::Whole);
    let schema = json!({"type": "object", "properties": {"a": {"type": "object", "x-mcp-header": "A"}}});
    let (key, request) = harness.start_call("tools/list", &json!({}), &non_retryable());
    let mut list = result_response(&request.body, json!({"tools": [{"name": "bad", "inputSchema": schema}]}));
    list["jsonrpc"] = json!("1.0");
    harness.respond(request.id, 200, JSON, &list.to_string());
    let said = harness.take_diagnostics();
    assert!(matches!(&said[..], [Diagnostic::Malformed { .. }]), "no word about the tool: {said:?}");
    assert!(matches!(harness.expect_done(key), Err(CallError::Malformed(_))));
}

// covers: XHDR-029
#[test]
fn tool_of_a_refused_call_is_searched_on_64_pages() {
    let mut harness = modern_harness(Chunker::Whole);
    let (key, request) = harness.start_wave_call(&non_retryable());
    let refusal = error_response(&request.body, -32020, "a header is missing", Value::Null);
    harness.respond_with_json(request.id, 400, &refusal);
    for page in 1..=64 {
        let list = harness.expect_post("tools/list");
        assert_eq!(list.body["params"].get("cursor").is_some(), page > 1);
        let result = json!({"resultType": "complete", "tools": [], "nextCursor": page.to_string(), "ttlMs": 0, "cacheScope": "private"});
        harness.respond_with_json(list.id, 200, &result_response(&list.body, result));
    }
    assert!(matches!(harness.expect_done(key), Err(CallError::Rpc(error)) if error.code == -32020));
    harness.assert_idle();
}
