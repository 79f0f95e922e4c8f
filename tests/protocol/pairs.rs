//! Every client with every compatible server: the applications see the same.

use mcp_proto::pipe::Pipe;
use mcp_proto::{CallOptions, Capabilities, Capability, Era, Fault, RawJson, Version, VersionSet};
use mcp_tests::harness::build::{LEGACY_VERSIONS, raw};
use mcp_tests::harness::{Chunker, LinkConfig, Pair, for_each_chunker};
use mcp_tests::schema::MessageDirection;
use serde_json::{Value, json};

use crate::protocol::common::{client, ms, secs, server};

/// Returns the version sets under test: each revision alone, all legacy revisions, and all.
fn version_sets() -> Vec<VersionSet> {
    let mut sets: Vec<_> = Version::ALL.into_iter().map(VersionSet::only).collect();
    sets.extend([VersionSet::LEGACY, VersionSet::ALL]);
    sets
}

/// Returns the revision that a pair must agree on, by the rules alone.
fn common_version(client_versions: VersionSet, server_versions: VersionSet) -> Option<Version> {
    if client_versions.contains(Version::V2026_07_28) && server_versions.contains(Version::V2026_07_28) {
        return Some(Version::V2026_07_28);
    }
    let requested = client_versions.era(Era::Legacy).newest()?;
    let offered = if server_versions.contains(requested) {
        Some(requested)
    } else {
        server_versions.era(Era::Legacy).newest()
    };
    offered.filter(|v| client_versions.contains(*v))
}

fn call(
    pair: &mut Pair,
    name: &str,
    method: &str,
    params: &Value,
    options: &CallOptions,
) -> mcp_proto::CallKey {
    let key = pair.app.call(pair.now, &mut pair.client, name, method, params, options).expect(name);
    pair.settle();
    key
}

fn tool_params(name: &str, arguments: Value) -> Value {
    let mut params = json!({"name": name});
    params["arguments"] = arguments;
    params
}

/// Runs everything that an application does with a connection.
#[expect(deprecated, reason = "tested until its removal")]
fn run_session(client_versions: VersionSet, server_versions: VersionSet, link: LinkConfig) -> Pair {
    let client_config = client(client_versions).capabilities(Capabilities::new().with(Capability::Roots));
    let server_config = server(server_versions).instructions("Ask for one harbour at a time.");
    let mut pair = Pair::new(client_config, server_config, link);
    let options = CallOptions::new;
    // Made before the server is known.
    call(&mut pair, "list", "tools/list", &json!({}), &options());
    call(
        &mut pair,
        "echo",
        "tools/call",
        &tool_params("echo", json!({"text": "ahoy \u{1f30a}"})),
        &options(),
    );
    let trace = json!({
        "traceparent": "00-11111111111111111111111111111111-2222222222222222-01",
        "tracestate": "a=1", "baggage": "b=2", "com.example/own": {"deep": [1, null]},
    });
    call(&mut pair, "meta", "tools/call", &tool_params("meta", json!({})), &options().with_meta(raw(&trace)));
    call(
        &mut pair,
        "count",
        "tools/call",
        &tool_params("count", json!({"to": 3})),
        &options().with_progress(),
    );
    call(&mut pair, "fail", "tools/call", &tool_params("fail", json!({})), &options());
    call(&mut pair, "no tool", "tools/call", &tool_params("unknown", json!({})), &options());
    call(&mut pair, "no method", "harbor/unknown", &json!({}), &options());
    call(&mut pair, "custom", "harbor/tide", &json!({"harbour": "Brest"}), &options());
    let slow = call(&mut pair, "slow", "tools/call", &tool_params("slow", json!({})), &options());
    pair.client.engine().cancel(pair.now, slow, Some("no longer needed")).expect("open");
    pair.settle();
    let ping = pair.client.engine().ping(pair.now, &options()).expect("ready");
    pair.app.name(ping, "ping");
    pair.settle();
    let params = json!({"wind": "W 7"});
    pair.client.engine().notify(pair.now, "notifications/harbor/wind", Some(&params)).expect("ready");
    pair.settle();
    let channel = pair.app.channel.expect("known by now");
    pair.server.engine().notify(pair.now, channel, "notifications/harbor/wave", Some(&params)).expect("open");
    pair.settle();
    // One call stays open and is completed after the end of the input.
    call(&mut pair, "last", "tools/call", &tool_params("slow", json!({})), &options());
    pair.hang_up();
    pair.settle();
    pair.app.finish_slow(pair.now, &mut pair.server);
    pair.settle();
    pair
}

/// Returns what both applications saw. The result of a ping is cut, because it differs between eras.
fn application_logs(pair: &Pair) -> (Vec<String>, Vec<String>) {
    let client = pair.app.client_log.iter().map(|line| match line.strip_prefix("ping ended: {") {
        Some(_) => "ping ended".to_owned(),
        None => line.clone(),
    });
    (client.collect(), pair.app.server_log.clone())
}

// covers: BASE-008, BASE-018, BASE-021, BASE-022, BASE-024, BASE-026, CANC-002, CANC-010, CANC-016, LIFE-002
// covers: LIFE-003, LIFE-004, META-001, META-008, META-009, META-010, META-011, META-013, META-018, META-021
// covers: META-022, PING-001, PING-002, PROG-001, PROG-002, PROG-005, PROG-006, STDIO-002, STDIO-017, STDIO-028
// covers: VER-008, VER-012
#[test]
fn applications_see_the_same_in_every_revision() {
    let reference = application_logs(&run_session(VersionSet::ALL, VersionSet::ALL, LinkConfig::default()));
    let (seen, served) = &reference;
    for line in [
        r#"list ended: {"tools":["#,
        r#"echo ended: {"content":[{"text":"ahoy "#,
        "count progress Progress { progress: 3.0, total: Some(3.0), message: None }",
        r#"fail ended: RpcError { code: 7, message: "no luck", data: Some({"why":"you asked for it"}) }"#,
        "no method ended: RpcError { code: -32601",
        "no tool ended: RpcError { code: -32602",
        r#"custom ended: {"tide":"Brest"}"#,
        "slow ended: not answered: cancelled",
        "ping ended",
        r#"heard notifications/harbor/wave Some({"wind":"W 7"})"#,
        r#"last ended: {"content":[{"text":"at last"#,
        "closed: the peer closed the connection",
    ] {
        assert!(seen.iter().any(|l| l.starts_with(line)), "{line} in {seen:#?}");
    }
    let own =
        r#"meta ended: {"content":[{"text":"{\"baggage\":\"b=2\",\"com.example/own\":{\"deep\":[1,null]},"#;
    assert!(seen.iter().any(|l| l.starts_with(own)), "{seen:#?}");
    assert!(served.iter().any(|l| l == r#"cancelled: Client(Some("no longer needed"))"#), "{served:#?}");
    assert!(served.iter().any(|l| l.ends_with(", wants progress")), "{served:#?}");
    let caller = "tools/list {} with {} by Some(Object {\"name\": String(\"harbor-client\")";
    assert!(served[0].starts_with(caller), "{served:#?}");
    let mut pairs = 0;
    for client_versions in version_sets() {
        for server_versions in version_sets() {
            let Some(version) = common_version(client_versions, server_versions) else { continue };
            pairs += 1;
            for cut in Chunker::EACH {
                let pair = run_session(client_versions, server_versions, cut.into());
                assert_eq!(
                    pair.app.peer.as_ref().map(|p| p.version),
                    Some(version),
                    "{client_versions:?} {server_versions:?}"
                );
                assert_eq!(
                    application_logs(&pair),
                    reference,
                    "{client_versions:?} and {server_versions:?}, cut {cut:?}"
                );
                assert!(pair.client.is_drained() && pair.server.is_drained());
            }
        }
    }
    assert_eq!(pairs, 27, "pairs with a revision in common");
}

// covers: VER-006, VER-010, VER-034
#[test]
fn pair_without_common_version_fails_and_names_the_versions() {
    for client_versions in version_sets() {
        for server_versions in version_sets()
            .into_iter()
            .filter(|server_versions| common_version(client_versions, *server_versions).is_none())
        {
            let end = for_each_chunker(|cut| {
                let mut pair = Pair::new(client(client_versions), server(server_versions), cut);
                let params = json!({});
                pair.app
                    .call(pair.now, &mut pair.client, "list", "tools/list", &params, &CallOptions::new())
                    .expect("queued");
                pair.settle();
                assert!(pair.app.peer.is_none(), "{client_versions:?} {server_versions:?}");
                assert_eq!(
                    pair.app.client_log.len(),
                    2,
                    "one outcome, then the end: {:?}",
                    pair.app.client_log
                );
                pair.app.client_fault.clone().expect("a fault")
            });
            let text = end.to_string();
            let newest = client_versions.newest().expect("a revision").to_string();
            assert!(text.contains(&newest), "{client_versions:?} and {server_versions:?}: {text}");
            match end {
                Fault::NoCommonVersion { offered: named, .. } => {
                    assert!(
                        named.iter().all(|n| server_versions.iter().any(|v| v.as_str() == n)),
                        "{named:?} of {server_versions:?}"
                    );
                }
                Fault::LegacyServer { .. } => assert!(client_versions.era(Era::Legacy).is_empty()),
                other => panic!("{other:?}"),
            }
        }
    }
}

// covers: BASE-019, BASE-020, BASE-042, BATCH-002, CANC-019, STDIO-013, STDIO-014
#[test]
fn modern_requests_go_only_from_client_to_server() {
    let pair = run_session(VersionSet::MODERN, VersionSet::MODERN, LinkConfig::default());
    assert!(pair.messages_in(MessageDirection::ClientToServer).all(|m| m.get("method").is_some()));
    assert!(
        pair.messages_in(MessageDirection::ServerToClient)
            .all(|m| m.get("method").is_none() || m.get("id").is_none())
    );
    assert!(
        pair.messages_in(MessageDirection::ServerToClient).all(|m| m["method"] != "notifications/cancelled")
    );
    assert!(pair.observer.messages.iter().all(|m| m.value.is_object()), "no batches");
}

// covers: VER-008, META-009, META-010, META-011, META-013, VER-013, META-018, BASE-026, BASE-027
#[test]
fn modern_requests_and_results_carry_all_required_members() {
    let pair = run_session(VersionSet::ALL, VersionSet::ALL, LinkConfig::default());
    for request in pair.messages_in(MessageDirection::ClientToServer).filter(|m| m.get("id").is_some()) {
        let meta = &request["params"]["_meta"];
        assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28", "{request}");
        assert_eq!(meta["io.modelcontextprotocol/clientCapabilities"], json!({"roots": {}}));
        let info = json!({"name": "harbor-client", "version": "0.3.0"});
        assert_eq!(meta["io.modelcontextprotocol/clientInfo"], info);
    }
    for answer in pair.messages_in(MessageDirection::ServerToClient).filter(|m| m.get("result").is_some()) {
        assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
        let info = json!({"name": "tide-server", "version": "2.1.0"});
        assert_eq!(answer["result"]["_meta"]["io.modelcontextprotocol/serverInfo"], info);
    }
}

// covers: META-011, META-018
#[test]
fn client_and_server_info_can_be_withheld() {
    let client_config = client(VersionSet::MODERN).send_client_info(false);
    let server_config = server(VersionSet::MODERN).send_server_info(false);
    let mut pair = Pair::new(client_config, server_config, Chunker::Whole);
    call(&mut pair, "list", "tools/list", &json!({}), &CallOptions::new());
    assert!(pair.app.outcome("list").is_some());
    assert!(pair.observer.messages.iter().all(|m| !m.value.to_string().contains("harbor-client")));
    assert!(pair.observer.messages.iter().all(|m| !m.value.to_string().contains("tide-server")));
    assert!(pair.app.peer.as_ref().is_some_and(|p| p.info.is_none()));
}

// covers: BASE-018, LIFE-006, PING-001, PING-002, CANC-001, CANC-010, PROG-001
#[test]
fn legacy_server_can_send_requests_to_its_client() {
    for version in LEGACY_VERSIONS {
        for_each_chunker(|cut| {
            let config = client(VersionSet::only(version)).custom_method("harbor/name");
            let mut pair = Pair::new(config, server(VersionSet::ALL), cut);
            pair.settle();
            let channel = pair.app.channel.expect("a session");
            let request = |pair: &mut Pair, method: &str, options: &CallOptions| {
                let params = json!({"of": "the ship"});
                let params = if method == "ping" { json!({}) } else { params };
                let key =
                    pair.server.engine().request(pair.now, channel, method, &params, options).expect("open");
                pair.settle();
                key
            };
            request(&mut pair, "ping", &CallOptions::new());
            request(&mut pair, "harbor/name", &CallOptions::new().with_progress());
            request(&mut pair, "harbor/other", &CallOptions::new());
            pair.app.defers_client_answers = true;
            let key = request(&mut pair, "harbor/name", &CallOptions::new());
            assert_eq!(pair.app.pending_requests.len(), 1);
            pair.server.engine().cancel_request(pair.now, key, None).expect("open");
            pair.settle();
            assert!(pair.app.pending_requests.is_empty(), "the cancelled request is dropped");
            let answers: Vec<_> =
                pair.app.server_log.iter().filter(|l| l.starts_with("client answered")).cloned().collect();
            assert_eq!(answers.len(), 4, "{answers:?}");
            assert_eq!(answers[..2], ["client answered: {}", r#"client answered: {"said":"yes"}"#]);
            assert!(answers[2].contains("code: -32601"), "{}", answers[2]);
            assert!(answers[3].contains("cancelled"), "{}", answers[3]);
            (pair.app.client_log.clone(), answers)
        });
    }
}

// covers: BASE-008, BASE-033, STDIO-010
#[test]
fn out_of_order_answers_reach_their_calls() {
    for versions in [VersionSet::MODERN, VersionSet::LEGACY] {
        let mut pair = Pair::new(client(versions), server(versions), Chunker::Seeded(9));
        for i in 0..20 {
            let params = tool_params("slow", json!({"n": i}));
            call(&mut pair, &format!("call {i}"), "tools/call", &params, &CallOptions::new());
        }
        // Every third call first, then the rest in reverse.
        let mut open: Vec<_> = core::mem::take(&mut pair.app.open_calls).into_iter().enumerate().collect();
        open.sort_by_key(|(i, _)| (i % 3, usize::MAX - i));
        for (i, (id, _)) in open {
            let result = json!({"content": [{"type": "text", "text": format!("{i}")}]});
            pair.server.engine().complete(pair.now, id, &result).expect("open");
        }
        pair.settle();
        for i in 0..20 {
            let want = json!({"content": [{"type": "text", "text": format!("{i}")}]}).to_string();
            assert_eq!(pair.app.outcome(&format!("call {i}")), Some(want.as_str()));
        }
    }
}

// covers: BASE-037, BASE-038, BASE-039, STDIO-010
#[test]
fn slow_or_narrow_links_change_only_the_timing() {
    let reference = application_logs(&run_session(VersionSet::ALL, VersionSet::ALL, LinkConfig::default()));
    for (cut, capacity, latency) in [
        (Chunker::Whole, 1, 0),
        (Chunker::Seeded(4), 7, 1),
        (Chunker::Whole, 64, 20),
        (Chunker::Bytewise, 3, 0),
    ] {
        let link = LinkConfig { chunker: cut, capacity, latency: ms(latency) };
        for versions in [VersionSet::MODERN, VersionSet::LEGACY] {
            let pair = run_session(versions, VersionSet::ALL, link);
            assert_eq!(application_logs(&pair), reference, "{versions:?} over {link:?}");
            assert!(latency == 0 || pair.now.as_micros() > 0);
        }
    }
}

// covers: STDIO-025
#[test]
fn calls_on_one_connection_share_no_state() {
    // Two applications share one connection: no call sees metadata of another.
    let mut pair = Pair::new(client(VersionSet::MODERN), server(VersionSet::ALL), Chunker::Whole);
    for name in ["ann", "ben"] {
        let meta = RawJson::new(format!(r#"{{"com.example/who":"{name}"}}"#)).expect("JSON");
        call(
            &mut pair,
            name,
            "tools/call",
            &tool_params("meta", json!({})),
            &CallOptions::new().with_meta(meta),
        );
        let want =
            json!({"content": [{"type": "text", "text": json!({"com.example/who": name}).to_string()}]});
        assert_eq!(pair.app.outcome(name), Some(want.to_string().as_str()));
    }
    call(&mut pair, "none", "tools/call", &tool_params("meta", json!({})), &CallOptions::new());
    assert_eq!(pair.app.outcome("none"), Some(r#"{"content":[{"text":"{}","type":"text"}]}"#));
}

// covers: STDIO-022, LIFE-018, STDIO-028
#[test]
fn dead_server_fails_every_call_of_its_client() {
    for versions in [VersionSet::MODERN, VersionSet::LEGACY] {
        for_each_chunker(|cut| {
            let mut pair = Pair::new(client(versions), server(versions), cut);
            call(&mut pair, "slow", "tools/call", &tool_params("slow", json!({})), &CallOptions::new());
            pair.kill_server();
            pair.settle();
            assert_eq!(
                pair.app.outcome("slow"),
                Some("not answered: the connection ended before the answer: the peer closed the connection")
            );
            assert_eq!(pair.app.client_fault, Some(Fault::Eof));
            pair.drive_bounded(secs(60));
            pair.app.client_log.clone()
        });
    }
}

// covers: STDIO-021
#[test]
fn idle_server_closes_at_once_on_eof() {
    for versions in [VersionSet::MODERN, VersionSet::LEGACY] {
        let mut pair = Pair::new(client(versions), server(versions), Chunker::Whole);
        call(&mut pair, "list", "tools/list", &json!({}), &CallOptions::new());
        let before = pair.now;
        pair.hang_up();
        pair.settle();
        assert_eq!((&pair.app.server_fault, &pair.app.client_fault), (&Some(Fault::Eof), &Some(Fault::Eof)));
        assert!(pair.server.is_drained() && pair.now == before);
    }
}
