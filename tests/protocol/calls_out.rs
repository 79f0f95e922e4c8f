//! Calls that a client makes: what may be called, what goes out, and what comes back.

use mcp_proto::{CallError, CallOptions, Capability, Diagnostic, Malformed, UseError, Version, VersionSet};
use mcp_tests::harness::build::{LEGACY, discovery, error, initialized, raw, result};
use mcp_tests::harness::{Chunker, LoneClient, each_cut};
use serde_json::{Value, json};

use crate::common::{client, limits, secs};

fn modern(cut: Chunker) -> LoneClient {
    let mut lone = LoneClient::client(client(VersionSet::ALL), cut);
    lone.with_modern(json!({"tools": {}}));
    lone
}

fn legacy(version: Version, capabilities: Value, cut: Chunker) -> LoneClient {
    let mut lone = LoneClient::client(client(VersionSet::only(version)), cut);
    lone.with_legacy(version, capabilities);
    lone
}

fn plain() -> CallOptions {
    CallOptions::new()
}

// covers: BASE-003, BASE-005, BASE-006, PROG-004, STDIO-010
#[test]
fn ids_and_tokens_are_never_used_twice() {
    for modern_era in [true, false] {
        let mut lone = match modern_era {
            true => modern(Chunker::Whole),
            false => legacy(Version::V2025_11_25, json!({"tools": {}}), Chunker::Whole),
        };
        let mut ids: Vec<Value> =
            lone.watch.messages.iter().filter_map(|m| m.value.get("id").cloned()).collect();
        ids.dedup();
        for round in 0..50 {
            let calls: Vec<_> = (0..3)
                .map(|_| lone.calls("tools/call", &json!({"name": "a"}), &plain().with_progress()))
                .collect();
            for (key, request) in calls {
                assert_eq!(request["params"]["_meta"]["progressToken"], request["id"]);
                assert!(request["id"].is_i64() && !ids.contains(&request["id"]), "{request}");
                ids.push(request["id"].clone());
                lone.tell(&result(&request, json!({"content": []})));
                assert!(lone.done(key).is_ok());
            }
            // A pause, in which tables are given back, revives none.
            lone.pass(secs(round % 3));
        }
    }
}

// covers: BASE-007, BASE-015, META-013
#[test]
fn parameters_that_say_nothing_are_left_out_where_that_is_allowed() {
    let mut lone = legacy(Version::V2025_06_18, json!({"tools": {}}), Chunker::Whole);
    assert!(lone.calls("tools/list", &json!({}), &plain()).1.get("params").is_none());
    let (_, request) = lone.calls("tools/list", &json!({"cursor": "c"}), &plain());
    assert_eq!(request["params"], json!({"cursor": "c"}));
    let (_, request) = lone.calls("tools/list", &json!({}), &plain().with_progress());
    assert_eq!(request["params"], json!({"_meta": {"progressToken": request["id"]}}));
    let mut lone = modern(Chunker::Whole);
    assert!(lone.calls("tools/list", &json!({}), &plain()).1["params"]["_meta"].is_object());
}

// covers: META-002, META-003, META-004, META-006, META-007, META-021
#[test]
fn metadata_keys_of_the_protocol_are_not_for_the_application() {
    let mut lone = modern(Chunker::Whole);
    for key in [
        "progressToken",
        "io.modelcontextprotocol/protocolVersion",
        "io.modelcontextprotocol/anything",
        "mcp.dev/x",
        "tools.mcp.com/x",
        "com.mcp.tools/x",
        "bad key",
        "-x",
        "a/b/c",
    ] {
        let options = plain().with_meta(raw(&json!({key: 1})));
        assert_eq!(lone.cannot_call("tools/list", &json!({}), &options), UseError::ReservedKey(key.into()));
    }
    for options in [plain().with_meta(raw(&json!([]))), plain().with_meta(raw(&json!("x")))] {
        assert!(matches!(lone.cannot_call("tools/list", &json!({}), &options), UseError::Encode(_)));
    }
    for member in ["_meta", "inputResponses", "requestState"] {
        let refused = lone.cannot_call("tools/call", &json!({"name": "a", member: {}}), &plain());
        assert_eq!(refused, UseError::ReservedKey(member.into()));
    }
    for params in [json!([1]), json!(null), json!(1)] {
        assert!(matches!(lone.cannot_call("tools/list", &params, &plain()), UseError::Encode(_)));
    }
    let own = json!({"traceparent": "x", "tracestate": "y", "baggage": "z", "com.example/": 1, "com.example.mcp/y": 2});
    let (_, request) = lone.calls("tools/list", &json!({}), &plain().with_meta(raw(&own)));
    for (key, value) in own.as_object().expect("an object") {
        assert_eq!(request["params"]["_meta"][key], *value);
    }
}

// covers: LIFE-001, LIFE-009, CANC-008, CANC-003, PROG-010
#[test]
fn what_the_engine_sends_itself_is_not_for_the_application() {
    let mut lone = modern(Chunker::Whole);
    for method in ["initialize", "notifications/cancelled", "notifications/progress", "subscriptions/listen"]
    {
        assert_eq!(lone.cannot_call(method, &json!({}), &plain()), UseError::NotYours(method.into()));
    }
    assert_eq!(lone.cannot_call("roots/list", &json!({}), &plain()), UseError::NotYours("roots/list".into()));
    for method in
        ["notifications/cancelled", "notifications/initialized", "notifications/progress", "tools/list"]
    {
        let refused = lone.pipe.engine().notify(lone.now, method, Some(&json!({})));
        assert_eq!(refused, Err(UseError::NotYours(method.into())));
    }
    lone.still();
}

// covers: LIFE-010, LIFE-011, LIFE-012, LIFE-014
#[test]
fn a_server_is_asked_only_for_what_it_declared() {
    let gated = [
        ("tools/list", Capability::Tools, json!({"tools": {}})),
        ("resources/read", Capability::Resources, json!({"resources": {}})),
        ("prompts/get", Capability::Prompts, json!({"prompts": {}})),
        ("completion/complete", Capability::Completions, json!({"completions": {}})),
    ];
    // What a valid request of each needs.
    let params = json!({
        "uri": "tide://brest", "name": "a", "level": "info",
        "ref": {"type": "ref/prompt", "name": "a"}, "argument": {"name": "a", "value": "b"},
    });
    for version in LEGACY {
        for (method, gate, declared) in &gated {
            let free = *gate == Capability::Completions && version == Version::V2024_11_05;
            let mut lone = legacy(version, json!({"resources": {"subscribe": "yes"}}), Chunker::Whole);
            if free {
                lone.calls(method, &params, &plain());
            } else if *gate != Capability::Resources {
                assert_eq!(
                    lone.cannot_call(method, &params, &plain()),
                    UseError::PeerLacks(*gate),
                    "{version}"
                );
            }
            let mut lone = legacy(version, declared.clone(), Chunker::Whole);
            lone.calls(method, &params, &plain());
        }
        // What the engine keeps books of is asked by it alone.
        let mut lone =
            legacy(version, json!({"resources": {"subscribe": true}, "logging": {}}), Chunker::Whole);
        for method in ["resources/subscribe", "resources/unsubscribe", "logging/setLevel"] {
            let refused = lone.cannot_call(method, &params, &plain());
            assert_eq!(refused, UseError::NotYours(method.into()));
        }
    }
}

// covers: LIFE-024, PING-006, LIFE-010, LIFE-011
#[test]
fn a_revision_is_asked_only_for_what_it_has() {
    let mut lone = LoneClient::client(client(VersionSet::ALL), Chunker::Whole);
    lone.with_modern(json!({"resources": {"subscribe": true}, "logging": {}}));
    for method in ["ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"] {
        let refused = lone.cannot_call(method, &json!({}), &plain());
        assert_eq!(refused, UseError::NotInVersion { what: method.into(), version: Version::V2026_07_28 });
    }
    let mut lone = legacy(Version::V2025_11_25, json!({}), Chunker::Whole);
    let refused = lone.cannot_call("server/discover", &json!({}), &plain());
    assert_eq!(
        refused,
        UseError::NotInVersion { what: "server/discover".into(), version: Version::V2025_11_25 }
    );
}

// covers: LIFE-005, LIFE-010, LIFE-020
#[test]
fn a_call_made_early_is_refused_once_the_server_is_known() {
    each_cut(|cut| {
        let mut lone = LoneClient::client(client(VersionSet::ALL), cut);
        let probe = lone.asked("server/discover");
        let mut early =
            |method: &str| lone.pipe.engine().call(lone.now, method, &json!({}), &plain()).expect("queued");
        let keys = ["prompts/list", "ping", "roots/list", "tools/list"].map(&mut early);
        assert!(lone.pipe.engine().ping(lone.now, &plain()).is_err(), "nobody knows yet how");
        assert!(lone.pipe.engine().notify(lone.now, "notifications/x", None::<&()>).is_err());
        lone.still();
        lone.tell(&result(&probe, discovery(&["2026-07-28"], json!({"tools": {}}))));
        lone.ready();
        let refused = [
            UseError::PeerLacks(Capability::Prompts),
            UseError::NotInVersion { what: "ping".into(), version: Version::V2026_07_28 },
            UseError::NotYours("roots/list".into()),
        ];
        for (key, why) in keys.into_iter().zip(refused) {
            assert_eq!(lone.done(key), Err(CallError::Refused(why)));
        }
        lone.asked("tools/list");
        lone.still();
        lone.transcript
    });
    each_cut(|cut| {
        let mut lone = LoneClient::client(client(VersionSet::LEGACY), cut);
        let initialize = lone.asked("initialize");
        let key = lone.pipe.engine().call(lone.now, "tools/list", &json!({}), &plain()).expect("queued");
        lone.still();
        lone.tell(&result(&initialize, initialized("2025-11-25", json!({"tools": {}}))));
        lone.ready();
        let sent = lone.sent();
        let methods: Vec<_> = sent.iter().map(|m| m["method"].clone()).collect();
        assert_eq!(methods, ["notifications/initialized", "tools/list"], "in this order");
        lone.tell(&result(&sent[1], json!({"tools": []})));
        assert!(lone.done(key).is_ok());
        lone.transcript
    });
}

// covers: BASE-009, BASE-010, BASE-011, BASE-001, BASE-008, STDIO-011
#[test]
fn an_answer_that_is_none_ends_its_call_and_nothing_else() {
    let answers: [(&str, Malformed); 6] = [
        (r#"{"jsonrpc":"2.0","id":ID,"result":[]}"#, Malformed::Result),
        (r#"{"jsonrpc":"2.0","id":ID,"error":{"code":"x","message":"y"}}"#, Malformed::Error),
        (r#"{"jsonrpc":"2.0","id":ID,"error":{"code":1}}"#, Malformed::Error),
        (
            r#"{"jsonrpc":"2.0","id":ID,"error":{"code":1,"message":"y"},"result":{}}"#,
            Malformed::Contradictory,
        ),
        (r#"{"id":ID,"result":{}}"#, Malformed::Version),
        (r#"{"jsonrpc":"2.0","id":ID,"Result":{},"result":{}}"#, Malformed::MisCased),
    ];
    for (answer, why) in answers {
        for modern_era in [true, false] {
            each_cut(|cut| {
                let mut lone = match modern_era {
                    true => modern(cut),
                    false => legacy(Version::V2025_06_18, json!({"tools": {}}), cut),
                };
                let (key, request) = lone.calls("tools/list", &json!({}), &plain());
                let (other, second) = lone.calls("tools/list", &json!({}), &plain());
                lone.feed(answer.replace("ID", &request["id"].to_string()));
                assert!(
                    matches!(lone.diagnostic(), Diagnostic::Malformed { why: w, answered: false, .. } if w == why)
                );
                assert_eq!(lone.done(key), Err(CallError::Malformed(why)));
                lone.still();
                lone.tell(&result(&second, json!({"tools": []})));
                assert!(lone.done(other).is_ok());
                lone.transcript
            });
        }
    }
}

// covers: BASE-028, BASE-029, BASE-030, BASE-031
#[test]
fn a_result_of_an_unknown_type_is_no_success() {
    each_cut(|cut| {
        let mut lone = modern(cut);
        for (kind, good) in [
            (json!("complete"), true),
            (Value::Null, false),
            (json!("input_required"), false),
            (json!("task"), false),
            (json!(1), false),
        ] {
            let (key, request) = lone.calls("tools/list", &json!({"name": "a"}), &plain());
            lone.tell(&result(&request, json!({"content": [], "resultType": kind})));
            match lone.done(key) {
                Ok(_) => assert!(good, "{kind}"),
                Err(CallError::ResultType(said)) => {
                    assert_eq!((said.to_string(), good), (kind.to_string(), false))
                }
                other => panic!("{other:?}"),
            }
        }
        // Older servers leave it out.
        let (key, request) = lone.calls("tools/call", &json!({"name": "a"}), &plain());
        lone.tell(&result(&request, json!({"content": []})));
        assert!(lone.done(key).is_ok());
        lone.transcript
    });
    // In the legacy era the member is nobody's.
    let mut lone = legacy(Version::V2025_11_25, json!({"tools": {}}), Chunker::Whole);
    let (key, request) = lone.calls("tools/call", &json!({"name": "a"}), &plain());
    lone.tell(&result(&request, json!({"content": [], "resultType": "mine"})));
    assert!(lone.done(key).is_ok());
}

// covers: ERR-004, ERR-010, ERR-011, ERR-015, BASE-011
#[test]
fn errors_of_the_server_come_through_with_code_and_data() {
    for code in [-32002, -32000, -32019, -32042, -32099, 7, i64::MIN] {
        each_cut(|cut| {
            let mut lone = modern(cut);
            let (key, request) = lone.calls("custom/read", &json!({}), &plain());
            lone.tell(&error(&request, code, "no", json!({"uri": "tide://x", "n": [1.5]})));
            match lone.done(key) {
                Err(CallError::Rpc(e)) => {
                    assert_eq!((e.code, &*e.message), (code, "no"));
                    assert_eq!(e.data.map(|d| d.to_string()), Some(r#"{"n":[1.5],"uri":"tide://x"}"#.into()));
                }
                other => panic!("{other:?}"),
            }
            lone.transcript
        });
    }
}

// covers: CANC-012, STDIO-010
#[test]
fn a_second_answer_and_answers_to_nothing_are_told_and_dropped() {
    each_cut(|cut| {
        let mut lone = modern(cut);
        let (key, request) = lone.calls("tools/list", &json!({}), &plain());
        lone.tell(&result(&request, json!({"tools": []})));
        assert!(lone.done(key).is_ok());
        lone.tell(&result(&request, json!({"tools": []})));
        assert!(matches!(lone.diagnostic(), Diagnostic::LateResponse(_)));
        for id in [json!(0), json!(-1), json!("x"), json!(1i64 << 52), json!(request["id"].to_string())] {
            lone.tell(&json!({"jsonrpc": "2.0", "id": id, "result": {}}));
            assert!(matches!(lone.diagnostic(), Diagnostic::UnknownResponse(_)), "{id}");
        }
        // Another spelling of the same number is the same id.
        let (key, request) = lone.calls("tools/list", &json!({}), &plain());
        lone.feed(format!(r#"{{"jsonrpc":"2.0","id":{}.0,"result":{{"tools":[]}}}}"#, request["id"]));
        assert!(lone.done(key).is_ok());
        lone.transcript
    });
}

// covers: STDIO-012
#[test]
fn an_answer_beyond_the_limit_ends_its_call_as_too_large() {
    let config = || client(VersionSet::ALL).limits(limits(|l| l.max_frame = 1_000));
    let long = "x".repeat(1_000);
    for text in [
        format!(r#"{{"jsonrpc":"2.0","id":ID,"result":{{"text":"{long}"}}}}"#),
        format!(r#"{{"result":{{"text":"{long}"}},"jsonrpc":"2.0","id":ID}}"#),
        format!(r#"{{"error":{{"code":1,"message":"{long}"}},"jsonrpc":"2.0","id":ID}}"#),
    ] {
        each_cut(|cut| {
            let mut lone = LoneClient::client(config(), cut);
            lone.with_modern(json!({"tools": {}}));
            let (key, request) = lone.calls("tools/list", &json!({}), &plain());
            lone.feed(text.replace("ID", &request["id"].to_string()));
            assert!(matches!(
                lone.diagnostic(),
                Diagnostic::Malformed { why: Malformed::TooLong { .. }, .. }
            ));
            assert_eq!(lone.done(key), Err(CallError::TooLarge { limit: 1_000 }));
            lone.works();
            lone.transcript
        });
    }
}

#[test]
fn arguments_of_a_tool_are_an_object_or_nothing_is_sent() {
    let mut ready = modern(Chunker::Whole);
    let mut early = LoneClient::client(client(VersionSet::ALL), Chunker::Whole);
    early.pump();
    early.sent();
    for lone in [&mut ready, &mut early] {
        for odd in [json!(7), json!(null), json!(["a"]), json!("{}")] {
            let now = lone.now;
            let refused = lone.pipe.engine().call_tool(now, "book", &odd, &plain());
            assert!(matches!(refused, Err(UseError::Encode(_))), "{odd}: {refused:?}");
        }
        lone.pump();
        lone.silent();
    }
    let now = ready.now;
    ready.pipe.engine().call_tool(now, "book", &json!({}), &plain()).expect("an object");
}
