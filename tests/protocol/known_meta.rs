//! A server recognises `_meta` that it has seen: whatever stands around it, the outcome is that of reading it anew.

use mcp_proto::server::Call;
use mcp_proto::{Limits, Version, VersionSet};
use mcp_tests::harness::build::{legacy, modern, modern_meta, value};
use mcp_tests::harness::{Chunker, LoneServer, each_cut};
use serde_json::{Value, json};

use crate::common::{limits, secs, server};

fn lone(limits: Limits, cut: Chunker) -> LoneServer {
    LoneServer::server(server(VersionSet::ALL).limits(limits), cut)
}

/// What a call says about its caller
fn told(lone: &mut LoneServer, call: &Call) -> (Value, Value, Value, bool) {
    let peer = lone.pipe.engine().peer(call);
    let meta = call.meta().map_or(Value::Null, |m| value(&m));
    (meta, value(&peer.capabilities), peer.info.map_or(Value::Null, |i| value(&i)), call.wants_progress())
}

/// Feeds each line to a server that remembers and to one that does not
fn same_either_way(lines: &[String]) {
    each_cut(|cut| {
        let run = |limits: Limits| {
            let mut lone = lone(limits, cut);
            let mut seen = Vec::new();
            for line in lines {
                lone.feed(line);
                let sent = lone.sent();
                if !sent.is_empty() {
                    seen.push(format!("{sent:?} {:?}", lone.said()));
                } else {
                    let call = lone.call();
                    seen.push(format!("{:?} {:?} {:?}", call.params(), call.tool(), told(&mut lone, &call)));
                    lone.complete(call.id(), &json!({"content": []}));
                }
            }
            (seen, lone.transcript)
        };
        let remembers = run(Limits::default());
        assert_eq!(remembers, run(limits(|l| l.max_meta_cache = 0)));
        remembers
    });
}

/// A call whose parameters are this text
fn line(id: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#)
}

// covers: BASE-032, META-015, VER-018
#[test]
fn the_same_metadata_is_known_wherever_it_stands() {
    let meta = modern_meta().to_string();
    same_either_way(&[
        line("1", &format!(r#"{{"name":"a","_meta":{meta}}}"#)),
        line("2", &format!(r#"{{"name":"a","_meta":{meta}}}"#)),
        line(
            "\"long id, so that all else moves\"",
            &format!(r#"{{"name":"b","_meta":{meta},"arguments":{{"x":1}}}}"#),
        ),
        line("4", &format!(r#"{{"_meta":{meta},"arguments":{{}},"name":"c"}}"#)),
        line("5", &format!("{{ \"_meta\" :\t {meta} , \"name\":\"d\"}}")),
        format!(r#"{{"params":{{"name":"e","_meta":{meta}}},"method":"tools/call","id":6,"jsonrpc":"2.0"}}"#),
        // The name of the member spelled in another way, and metadata that is not where it belongs.
        line("7", &format!(r#"{{"name":"f","\u005fmeta":{meta}}}"#)),
        line("8", &format!(r#"{{"name":"g","arguments":{{"_meta":{meta}}}}}"#)),
        line("9", &format!(r#"{{"name":"h","_meta":[{meta}]}}"#)),
    ]);
}

// covers: BASE-032, META-015, META-014
#[test]
fn metadata_that_only_begins_alike_is_read_anew() {
    let meta = modern_meta().to_string();
    let open = meta.strip_suffix('}').expect("an object");
    same_either_way(&[
        line("1", &format!(r#"{{"name":"a","_meta":{meta}}}"#)),
        line("2", &format!(r#"{{"name":"a","_meta":{open},"progressToken":"p"}}}}"#)),
        line("3", &format!(r#"{{"name":"a","_meta":{open},"com.example/x":1}}}}"#)),
        line("4", &format!(r#"{{"name":"a","_meta":{open} }}}}"#)),
        // Followed by what makes the message faulty.
        line("5", &format!(r#"{{"name":"a","_meta":{meta}1}}"#)),
        line("6", &format!(r#"{{"name":"a","_meta":{meta}}}}}"#)),
        line("7", &format!(r#"{{"name":"a","_meta":{meta},"_meta":{meta}}}"#)),
        line("8", &format!(r#"{{"name":"a","_meta":{open},"progressToken":1,"progressToken":2}}}}"#)),
        line("9", &format!(r#"{{"name":"a","_meta":{meta}}}"#)),
    ]);
}

// covers: BASE-032, META-015, META-016, VER-009
#[test]
fn metadata_may_change_from_one_request_to_the_next() {
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
        .map(|(i, meta)| line(&i.to_string(), &format!(r#"{{"name":"a","_meta":{meta}}}"#)))
        .collect();
    same_either_way(&lines);
}

// covers: BASE-032, VER-018
#[test]
fn known_metadata_does_not_leak_into_a_session() {
    each_cut(|cut| {
        let mut lone = lone(Limits::default(), cut);
        lone.works();
        lone.open(Version::V2025_11_25);
        let call = lone.take(&legacy(1, "tools/call", json!({"name": "a", "_meta": {}})));
        assert_eq!(call.version(), Version::V2025_11_25);
        lone.complete(call.id(), &json!({"content": []}));
        // And is forgotten when the connection rests.
        lone.pass(secs(2));
        lone.works();
        lone.transcript
    });
}

// covers: META-001, META-008, META-021, META-022, PROG-003
#[test]
fn metadata_comes_through_as_it_is() {
    let own = json!({
        "traceparent": "00-11111111111111111111111111111111-2222222222222222-01",
        "tracestate": "v=1,w=2", "baggage": "k=v", "com.example/a": {"b": [null, 1.5, "\u{e9}"]},
        "progressToken": "t", "": 1, "mcp.dev/reserved": true,
    });
    each_cut(|cut| {
        let mut lone = lone(Limits::default(), cut);
        lone.open(Version::V2024_11_05);
        let call = lone.take(&legacy(1, "tools/call", json!({"name": "a", "_meta": own})));
        assert_eq!(value(&call.meta().expect("metadata")), own);
        lone.complete(call.id(), &json!({"content": []}));
        let mut both = modern_meta();
        both.as_object_mut().expect("an object").extend(own.as_object().expect("an object").clone());
        let call = lone.take(&modern(2, "tools/call", json!({"name": "a", "_meta": both})));
        assert_eq!(value(&call.meta().expect("metadata")), both);
        lone.complete(call.id(), &json!({"content": []}));
        // Something else in its place is not metadata, and harms nothing in the legacy era.
        let call = lone.take(&legacy(3, "tools/call", json!({"name": "a", "_meta": [1]})));
        assert!(!call.wants_progress());
        lone.transcript
    });
}

// covers: META-001, META-018, CACHE-001
#[test]
fn metadata_of_results_is_the_applications_with_ours_added() {
    each_cut(|cut| {
        let mut lone = lone(Limits::default(), cut);
        let info = json!({"name": "tide-server", "version": "2.1.0"});
        let key = "io.modelcontextprotocol/serverInfo";
        for (own, want) in [
            (json!({}), json!({key: info})),
            (json!({"com.example/x": 1}), json!({key: info, "com.example/x": 1})),
        ] {
            let call = lone.take(&modern(1, "tools/list", json!({})));
            let answer = lone.complete(call.id(), &json!({"tools": [], "_meta": own}));
            assert_eq!(answer["result"]["_meta"], want);
        }
        // What the application stamps itself is not stamped again.
        let call = lone.take(&modern(1, "tools/list", json!({})));
        let own = json!({"tools": [], "ttlMs": 5, "cacheScope": "public", "resultType": "complete"});
        let answer = lone.complete(call.id(), &own);
        assert_eq!(
            (&answer["result"]["ttlMs"], &answer["result"]["cacheScope"]),
            (&json!(5), &json!("public"))
        );
        lone.transcript
    });
}
