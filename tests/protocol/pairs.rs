//! Every client with every server that it can talk to: what the applications see is the same everywhere.

use mcp_proto::pipe::Pipe;
use mcp_proto::{CallOptions, Capabilities, Capability, Era, Fault, RawJson, Version, VersionSet};
use mcp_tests::harness::build::{LEGACY, raw};
use mcp_tests::harness::{Chunker, Line, Pair, each_cut};
use mcp_tests::schema::Direction;
use serde_json::{Value, json};

use crate::common::{client, ms, secs, server};

/// Every set that a side is pinned to here: each revision, all with a handshake, all
fn sets() -> Vec<VersionSet> {
    let mut sets: Vec<_> = Version::ALL.into_iter().map(VersionSet::only).collect();
    sets.extend([VersionSet::LEGACY, VersionSet::ALL]);
    sets
}

/// The revision that a pair has to settle on, by the rules alone
fn common(ours: VersionSet, theirs: VersionSet) -> Option<Version> {
    if ours.contains(Version::V2026_07_28) && theirs.contains(Version::V2026_07_28) {
        return Some(Version::V2026_07_28);
    }
    let asked = ours.era(Era::Legacy).newest()?;
    let offered = if theirs.contains(asked) { Some(asked) } else { theirs.era(Era::Legacy).newest() };
    offered.filter(|v| ours.contains(*v))
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

fn tool(name: &str, arguments: Value) -> Value {
    let mut params = json!({"name": name});
    params["arguments"] = arguments;
    params
}

/// All that an application does with a connection
fn session(ours: VersionSet, theirs: VersionSet, line: Line) -> Pair {
    let ours = client(ours).capabilities(Capabilities::new().with(Capability::Roots));
    let mut pair = Pair::new(ours, server(theirs).instructions("Ask for one harbour at a time."), line);
    let options = CallOptions::new;
    // Made before anything is known of the server.
    call(&mut pair, "list", "tools/list", &json!({}), &options());
    call(&mut pair, "echo", "tools/call", &tool("echo", json!({"text": "ahoy \u{1f30a}"})), &options());
    let trace = json!({
        "traceparent": "00-11111111111111111111111111111111-2222222222222222-01",
        "tracestate": "a=1", "baggage": "b=2", "com.example/own": {"deep": [1, null]},
    });
    call(&mut pair, "meta", "tools/call", &tool("meta", json!({})), &options().with_meta(raw(&trace)));
    call(&mut pair, "count", "tools/call", &tool("count", json!({"to": 3})), &options().with_progress());
    call(&mut pair, "fail", "tools/call", &tool("fail", json!({})), &options());
    call(&mut pair, "no tool", "tools/call", &tool("unknown", json!({})), &options());
    call(&mut pair, "no method", "harbor/unknown", &json!({}), &options());
    call(&mut pair, "custom", "harbor/tide", &json!({"harbour": "Brest"}), &options());
    let slow = call(&mut pair, "slow", "tools/call", &tool("slow", json!({})), &options());
    pair.client.engine().cancel(pair.now, slow, Some("nobody waits")).expect("open");
    pair.settle();
    let ping = pair.client.engine().ping(pair.now, &options()).expect("ready");
    pair.app.name(ping, "ping");
    pair.settle();
    let told = json!({"wind": "W 7"});
    pair.client.engine().notify(pair.now, "notifications/harbor/wind", Some(&told)).expect("ready");
    pair.settle();
    let channel = pair.app.channel.expect("known by now");
    pair.server.engine().notify(pair.now, channel, "notifications/harbor/wave", Some(&told)).expect("open");
    pair.settle();
    // One is left open, and finished while the input ends.
    call(&mut pair, "last", "tools/call", &tool("slow", json!({})), &options());
    pair.hang_up();
    pair.settle();
    pair.app.finish_slow(pair.now, &mut pair.server);
    pair.settle();
    pair
}

/// What both applications saw; the ping, whose answer says what an era says, by its presence alone
fn story(pair: &Pair) -> (Vec<String>, Vec<String>) {
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
fn the_application_never_sees_a_revision() {
    let reference = story(&session(VersionSet::ALL, VersionSet::ALL, Line::default()));
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
    assert!(served.iter().any(|l| l == r#"cancelled: Client(Some("nobody waits"))"#), "{served:#?}");
    assert!(served.iter().any(|l| l.ends_with(", wants progress")), "{served:#?}");
    let caller = "tools/list {} with {} by Some(Object {\"name\": String(\"harbor-client\")";
    assert!(served[0].starts_with(caller), "{served:#?}");
    let mut pairs = 0;
    for ours in sets() {
        for theirs in sets() {
            let Some(version) = common(ours, theirs) else { continue };
            pairs += 1;
            for cut in Chunker::EACH {
                let pair = session(ours, theirs, cut.into());
                assert_eq!(pair.app.peer.as_ref().map(|p| p.version), Some(version), "{ours:?} {theirs:?}");
                assert_eq!(story(&pair), reference, "{ours:?} and {theirs:?}, cut {cut:?}");
                assert!(pair.client.is_drained() && pair.server.is_drained());
            }
        }
    }
    assert_eq!(pairs, 27, "pairs with a revision in common");
}

// covers: VER-006, VER-010, VER-034
#[test]
fn pairs_without_a_common_version_end_and_say_what_each_speaks() {
    for ours in sets() {
        for theirs in sets().into_iter().filter(|theirs| common(ours, *theirs).is_none()) {
            let end = each_cut(|cut| {
                let mut pair = Pair::new(client(ours), server(theirs), cut);
                let params = json!({});
                pair.app
                    .call(pair.now, &mut pair.client, "list", "tools/list", &params, &CallOptions::new())
                    .expect("queued");
                pair.settle();
                assert!(pair.app.peer.is_none(), "{ours:?} {theirs:?}");
                assert_eq!(pair.app.client_log.len(), 2, "one outcome, one end: {:?}", pair.app.client_log);
                pair.app.client_end.clone().expect("over")
            });
            let text = end.to_string();
            let newest = ours.newest().expect("some").to_string();
            assert!(text.contains(&newest), "{ours:?} and {theirs:?}: {text}");
            match end {
                Fault::NoCommonVersion { theirs: named, .. } => {
                    assert!(
                        named.iter().all(|n| theirs.iter().any(|v| v.as_str() == n)),
                        "{named:?} of {theirs:?}"
                    );
                }
                Fault::LegacyServer { .. } => assert!(ours.era(Era::Legacy).is_empty()),
                other => panic!("{other:?}"),
            }
        }
    }
}

// covers: BASE-019, BASE-020, BASE-042, BATCH-002, CANC-019, STDIO-013, STDIO-014
#[test]
fn modern_messages_go_in_their_directions_only() {
    let pair = session(VersionSet::MODERN, VersionSet::MODERN, Line::default());
    assert!(pair.went(Direction::ClientToServer).all(|m| m.get("method").is_some()));
    assert!(pair.went(Direction::ServerToClient).all(|m| m.get("method").is_none() || m.get("id").is_none()));
    assert!(pair.went(Direction::ServerToClient).all(|m| m["method"] != "notifications/cancelled"));
    assert!(pair.watch.messages.iter().all(|m| m.value.is_object()), "no batches");
}

// covers: VER-008, META-009, META-010, META-011, META-013, VER-013, META-018, BASE-026, BASE-027
#[test]
fn modern_requests_and_results_say_all_that_is_to_be_said() {
    let pair = session(VersionSet::ALL, VersionSet::ALL, Line::default());
    for request in pair.went(Direction::ClientToServer).filter(|m| m.get("id").is_some()) {
        let meta = &request["params"]["_meta"];
        assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28", "{request}");
        assert_eq!(meta["io.modelcontextprotocol/clientCapabilities"], json!({"roots": {}}));
        let info = json!({"name": "harbor-client", "version": "0.3.0"});
        assert_eq!(meta["io.modelcontextprotocol/clientInfo"], info);
    }
    for answer in pair.went(Direction::ServerToClient).filter(|m| m.get("result").is_some()) {
        assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
        let info = json!({"name": "tide-server", "version": "2.1.0"});
        assert_eq!(answer["result"]["_meta"]["io.modelcontextprotocol/serverInfo"], info);
    }
}

// covers: META-011, META-018
#[test]
fn identities_can_be_kept_back() {
    let ours = client(VersionSet::MODERN).send_client_info(false);
    let theirs = server(VersionSet::MODERN).send_server_info(false);
    let mut pair = Pair::new(ours, theirs, Chunker::Whole);
    call(&mut pair, "list", "tools/list", &json!({}), &CallOptions::new());
    assert!(pair.app.outcome("list").is_some());
    assert!(pair.watch.messages.iter().all(|m| !m.value.to_string().contains("harbor-client")));
    assert!(pair.watch.messages.iter().all(|m| !m.value.to_string().contains("tide-server")));
    assert!(pair.app.peer.as_ref().is_some_and(|p| p.info.is_none()));
}

// covers: BASE-018, LIFE-006, PING-001, PING-002, CANC-001, CANC-010, PROG-001
#[test]
fn legacy_servers_ask_their_clients() {
    for version in LEGACY {
        each_cut(|cut| {
            let ours = client(VersionSet::only(version)).custom_method("harbor/name");
            let mut pair = Pair::new(ours, server(VersionSet::ALL), cut);
            pair.settle();
            let channel = pair.app.channel.expect("a session");
            let ask = |pair: &mut Pair, method: &str, options: &CallOptions| {
                let params = json!({"of": "the ship"});
                let params = if method == "ping" { json!({}) } else { params };
                let key =
                    pair.server.engine().request(pair.now, channel, method, &params, options).expect("open");
                pair.settle();
                key
            };
            ask(&mut pair, "ping", &CallOptions::new());
            ask(&mut pair, "harbor/name", &CallOptions::new().with_progress());
            ask(&mut pair, "harbor/other", &CallOptions::new());
            pair.app.client_waits = true;
            let key = ask(&mut pair, "harbor/name", &CallOptions::new());
            assert_eq!(pair.app.asked.len(), 1);
            pair.server.engine().cancel_request(pair.now, key, None).expect("open");
            pair.settle();
            assert!(pair.app.asked.is_empty(), "no longer asked");
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
fn answers_out_of_order_find_their_calls() {
    for versions in [VersionSet::MODERN, VersionSet::LEGACY] {
        let mut pair = Pair::new(client(versions), server(versions), Chunker::Seeded(9));
        for i in 0..20 {
            let params = tool("slow", json!({"n": i}));
            call(&mut pair, &format!("call {i}"), "tools/call", &params, &CallOptions::new());
        }
        // Every third first, then the rest from behind.
        let mut open: Vec<_> = core::mem::take(&mut pair.app.open).into_iter().enumerate().collect();
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
fn slow_lines_and_narrow_pipes_change_nothing_but_time() {
    let reference = story(&session(VersionSet::ALL, VersionSet::ALL, Line::default()));
    for (cut, room, latency) in [
        (Chunker::Whole, 1, 0),
        (Chunker::Seeded(4), 7, 1),
        (Chunker::Whole, 64, 20),
        (Chunker::Bytewise, 3, 0),
    ] {
        let line = Line { cut, room, latency: ms(latency) };
        for versions in [VersionSet::MODERN, VersionSet::LEGACY] {
            let pair = session(versions, VersionSet::ALL, line);
            assert_eq!(story(&pair), reference, "{versions:?} over {line:?}");
            assert!(latency == 0 || pair.now.as_micros() > 0);
        }
    }
}

// covers: STDIO-025
#[test]
fn a_connection_is_no_conversation() {
    // Two applications share one connection: nothing of one call shows up in another.
    let mut pair = Pair::new(client(VersionSet::MODERN), server(VersionSet::ALL), Chunker::Whole);
    for who in ["ann", "ben"] {
        let meta = RawJson::new(format!(r#"{{"com.example/who":"{who}"}}"#)).expect("JSON");
        call(&mut pair, who, "tools/call", &tool("meta", json!({})), &CallOptions::new().with_meta(meta));
        let want =
            json!({"content": [{"type": "text", "text": json!({"com.example/who": who}).to_string()}]});
        assert_eq!(pair.app.outcome(who), Some(want.to_string().as_str()));
    }
    call(&mut pair, "none", "tools/call", &tool("meta", json!({})), &CallOptions::new());
    assert_eq!(pair.app.outcome("none"), Some(r#"{"content":[{"text":"{}","type":"text"}]}"#));
}

// covers: STDIO-022, LIFE-018, STDIO-028
#[test]
fn a_server_that_dies_ends_every_call_of_its_client() {
    for versions in [VersionSet::MODERN, VersionSet::LEGACY] {
        each_cut(|cut| {
            let mut pair = Pair::new(client(versions), server(versions), cut);
            call(&mut pair, "slow", "tools/call", &tool("slow", json!({})), &CallOptions::new());
            pair.kill_server();
            pair.settle();
            assert_eq!(
                pair.app.outcome("slow"),
                Some("not answered: the connection ended before the answer: the peer closed the connection")
            );
            assert_eq!(pair.app.client_end, Some(Fault::Eof));
            pair.drive_bounded(secs(60));
            pair.app.client_log.clone()
        });
    }
}

// covers: STDIO-021
#[test]
fn a_server_without_calls_ends_at_once_with_its_input() {
    for versions in [VersionSet::MODERN, VersionSet::LEGACY] {
        let mut pair = Pair::new(client(versions), server(versions), Chunker::Whole);
        call(&mut pair, "list", "tools/list", &json!({}), &CallOptions::new());
        let before = pair.now;
        pair.hang_up();
        pair.settle();
        assert_eq!((&pair.app.server_end, &pair.app.client_end), (&Some(Fault::Eof), &Some(Fault::Eof)));
        assert!(pair.server.is_drained() && pair.now == before);
    }
}
