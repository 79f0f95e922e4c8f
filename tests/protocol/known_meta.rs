//! The cache of `_meta` in a server: a cached value has the same effect as a freshly parsed one.

use mcp_proto::server::Call;
use mcp_proto::{Limits, Version, VersionSet};
use mcp_tests::harness::build::{legacy_request, modern_meta, modern_request, to_value};
use mcp_tests::harness::{Chunker, ServerHarness, for_each_chunker};
use serde_json::{Value, json};

use crate::protocol::common::{limits, secs, server};

fn dual_era_harness(limits: Limits, cut: Chunker) -> ServerHarness {
    ServerHarness::server(server(VersionSet::ALL).limits(limits), cut)
}

/// Returns what a call says about its client: metadata, capabilities, info, and whether it wants progress.
fn peer_seen_by_call(harness: &mut ServerHarness, call: &Call) -> (Value, Value, Value, bool) {
    let peer = harness.pipe.engine().peer(call);
    let meta = call.meta().map_or(Value::Null, |m| to_value(&m));
    (
        meta,
        to_value(&peer.capabilities),
        peer.info.map_or(Value::Null, |i| to_value(&i)),
        call.wants_progress(),
    )
}

/// Feeds each line to a server with the cache and to one without, and compares the outcomes.
fn assert_cache_is_transparent(lines: &[String]) {
    for_each_chunker(|cut| {
        let run = |limits: Limits| {
            let mut harness = dual_era_harness(limits, cut);
            let mut seen = Vec::new();
            for line in lines {
                harness.feed(line);
                let sent = harness.take_sent();
                if !sent.is_empty() {
                    seen.push(format!("{sent:?} {:?}", harness.take_event_texts()));
                } else {
                    let call = harness.expect_call();
                    seen.push(format!(
                        "{:?} {:?} {:?}",
                        call.params(),
                        call.tool_call(),
                        peer_seen_by_call(&mut harness, &call)
                    ));
                    harness.complete(call.id(), &json!({"content": []}));
                }
            }
            (seen, harness.transcript)
        };
        let with_cache = run(Limits::default());
        assert_eq!(with_cache, run(limits(|l| l.max_meta_cache = 0)));
        with_cache
    });
}

/// Returns a tool call with these parameters.
fn request_line(id: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#)
}

// covers: BASE-032, META-015, VER-018
#[test]
fn cached_metadata_matches_in_any_position() {
    let meta = modern_meta().to_string();
    assert_cache_is_transparent(&[
        request_line("1", &format!(r#"{{"name":"a","_meta":{meta}}}"#)),
        request_line("2", &format!(r#"{{"name":"a","_meta":{meta}}}"#)),
        request_line(
            "\"long id, so that all else moves\"",
            &format!(r#"{{"name":"b","_meta":{meta},"arguments":{{"x":1}}}}"#),
        ),
        request_line("4", &format!(r#"{{"_meta":{meta},"arguments":{{}},"name":"c"}}"#)),
        request_line("5", &format!("{{ \"_meta\" :\t {meta} , \"name\":\"d\"}}")),
        format!(r#"{{"params":{{"name":"e","_meta":{meta}}},"method":"tools/call","id":6,"jsonrpc":"2.0"}}"#),
        // The member name in another spelling, and metadata in the wrong place.
        request_line("7", &format!(r#"{{"name":"f","\u005fmeta":{meta}}}"#)),
        request_line("8", &format!(r#"{{"name":"g","arguments":{{"_meta":{meta}}}}}"#)),
        request_line("9", &format!(r#"{{"name":"h","_meta":[{meta}]}}"#)),
    ]);
}

// covers: BASE-032, META-015, META-014
#[test]
fn metadata_with_a_cached_prefix_is_parsed_again() {
    let meta = modern_meta().to_string();
    let open = meta.strip_suffix('}').expect("an object");
    assert_cache_is_transparent(&[
        request_line("1", &format!(r#"{{"name":"a","_meta":{meta}}}"#)),
        request_line("2", &format!(r#"{{"name":"a","_meta":{open},"progressToken":"p"}}}}"#)),
        request_line("3", &format!(r#"{{"name":"a","_meta":{open},"com.example/x":1}}}}"#)),
        request_line("4", &format!(r#"{{"name":"a","_meta":{open} }}}}"#)),
        // Followed by text that makes the message malformed.
        request_line("5", &format!(r#"{{"name":"a","_meta":{meta}1}}"#)),
        request_line("6", &format!(r#"{{"name":"a","_meta":{meta}}}}}"#)),
        request_line("7", &format!(r#"{{"name":"a","_meta":{meta},"_meta":{meta}}}"#)),
        request_line("8", &format!(r#"{{"name":"a","_meta":{open},"progressToken":1,"progressToken":2}}}}"#)),
        request_line("9", &format!(r#"{{"name":"a","_meta":{meta}}}"#)),
    ]);
}

// covers: BASE-032, META-015, META-016, VER-009
#[test]
fn metadata_can_change_between_requests() {
    let with = |key: &str, new: Value| {
        let mut meta = modern_meta();
        meta[key] = new;
        meta.to_string()
    };
    let capable = with("io.modelcontextprotocol/clientCapabilities", json!({"roots": {}}));
    let other = with("io.modelcontextprotocol/clientInfo", json!({"name": "other", "version": "9"}));
    let future = with("io.modelcontextprotocol/protocolVersion", json!("2030-01-01"));
    let metas =
        [modern_meta().to_string(), capable.clone(), other, modern_meta().to_string(), future, capable];
    let lines: Vec<_> = metas
        .iter()
        .enumerate()
        .map(|(i, meta)| request_line(&i.to_string(), &format!(r#"{{"name":"a","_meta":{meta}}}"#)))
        .collect();
    assert_cache_is_transparent(&lines);
}

// covers: BASE-032, VER-018
#[test]
fn cached_metadata_does_not_leak_into_a_session() {
    for_each_chunker(|cut| {
        let mut harness = dual_era_harness(Limits::default(), cut);
        harness.assert_works();
        harness.open_session(Version::V2025_11_25);
        let call =
            harness.expect_call_for(&legacy_request(1, "tools/call", json!({"name": "a", "_meta": {}})));
        assert_eq!(call.version(), Version::V2025_11_25);
        harness.complete(call.id(), &json!({"content": []}));
        // The cache is dropped when the connection is idle.
        harness.advance(secs(2));
        harness.assert_works();
        harness.transcript
    });
}

// covers: META-001, META-008, META-021, META-022, PROG-003
#[test]
fn request_metadata_reaches_the_application_unchanged() {
    let own = json!({
        "traceparent": "00-11111111111111111111111111111111-2222222222222222-01",
        "tracestate": "v=1,w=2", "baggage": "k=v", "com.example/a": {"b": [null, 1.5, "\u{e9}"]},
        "progressToken": "t", "": 1, "mcp.dev/reserved": true,
    });
    for_each_chunker(|cut| {
        let mut harness = dual_era_harness(Limits::default(), cut);
        harness.open_session(Version::V2024_11_05);
        let call =
            harness.expect_call_for(&legacy_request(1, "tools/call", json!({"name": "a", "_meta": own})));
        assert_eq!(to_value(&call.meta().expect("metadata")), own);
        harness.complete(call.id(), &json!({"content": []}));
        let mut both = modern_meta();
        both.as_object_mut().expect("an object").extend(own.as_object().expect("an object").clone());
        let call =
            harness.expect_call_for(&modern_request(2, "tools/call", json!({"name": "a", "_meta": both})));
        assert_eq!(to_value(&call.meta().expect("metadata")), both);
        harness.complete(call.id(), &json!({"content": []}));
        // A `_meta` that is not an object is ignored in the legacy era.
        let call =
            harness.expect_call_for(&legacy_request(3, "tools/call", json!({"name": "a", "_meta": [1]})));
        assert!(!call.wants_progress());
        harness.transcript
    });
}

// covers: META-001, META-018, CACHE-001
#[test]
fn result_metadata_is_merged_with_server_info() {
    for_each_chunker(|cut| {
        let mut harness = dual_era_harness(Limits::default(), cut);
        let info = json!({"name": "tide-server", "version": "2.1.0"});
        let key = "io.modelcontextprotocol/serverInfo";
        for (own, want) in [
            (json!({}), json!({key: info})),
            (json!({"com.example/x": 1}), json!({key: info, "com.example/x": 1})),
        ] {
            let call = harness.expect_call_for(&modern_request(1, "tools/list", json!({})));
            let answer = harness.complete(call.id(), &json!({"tools": [], "_meta": own}));
            assert_eq!(answer["result"]["_meta"], want);
        }
        // Members that the application sets are not overwritten.
        let call = harness.expect_call_for(&modern_request(1, "tools/list", json!({})));
        let own = json!({"tools": [], "ttlMs": 5, "cacheScope": "public", "resultType": "complete"});
        let answer = harness.complete(call.id(), &own);
        assert_eq!(
            (&answer["result"]["ttlMs"], &answer["result"]["cacheScope"]),
            (&json!(5), &json!("public"))
        );
        harness.transcript
    });
}
