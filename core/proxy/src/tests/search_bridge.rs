//! `search` and `call` in place of the tools of the server of a bridge.

use core::time::Duration;

use mcp_proto::client::Event;
use mcp_proto::{CallKey, Change, RpcError, Version};
use serde_json::{Value, json};

use super::gateway::{names, tools};
use super::harness::BridgeHarness;
use crate::{LIST_TIMEOUT, SearchSize};

const LEGACY: Version = Version::V2025_11_25;
const MODERN: Version = Version::V2026_07_28;

/// Connects a client to a bridge with search, which is about to read the tools.
fn chain(down: Version, up: Version) -> BridgeHarness {
    let mut chain = BridgeHarness::new(down, up);
    chain.relay = chain.relay.with_search();
    chain.settle();
    chain
}

#[track_caller]
fn answer_list(chain: &mut BridgeHarness, names: &[&str]) {
    let call = chain.take_server_call();
    assert_eq!(call.method(), "tools/list");
    chain.complete(&call, &tools(names));
}

fn call(chain: &mut BridgeHarness, tool: &str, arguments: &Value) -> CallKey {
    chain.call("tools/call", &json!({"name": tool, "arguments": arguments}))
}

#[track_caller]
fn found(chain: &mut BridgeHarness, key: CallKey) -> Vec<String> {
    let result = chain.result(key);
    names(&result["structuredContent"], "tools", "name").into_iter().map(str::to_owned).collect()
}

#[test]
fn bridge_shows_two_tools_and_calls_the_others() {
    for (down, up) in [(LEGACY, MODERN), (MODERN, LEGACY)] {
        let mut chain = chain(down, up);
        // Both wait until the tools are known.
        let early = call(&mut chain, "search", &json!({"query": "berths"}));
        let wrong = call(&mut chain, "call", &json!({"name": "book_bert"}));
        assert!(!chain.has_ended(early) && !chain.has_ended(wrong));
        answer_list(&mut chain, &["book_berth", "search", "pay"]);
        assert_eq!(found(&mut chain, early), ["book_berth"]);
        let text = chain.result(wrong)["content"][0]["text"].as_str().expect("a text").to_owned();
        assert!(text.contains("did you mean `book_berth`"), "{text}");
        assert!(matches!(chain.relay.search_size(), Some(SearchSize { tools: 3, .. })));

        let key = chain.call("tools/list", &json!({}));
        let listed = chain.result(key);
        assert_eq!(names(&listed, "tools", "name"), ["search", "call"]);
        // A tool of the server that has the name of one of the two.
        let direct = call(&mut chain, "pay", &json!({}));
        let inner = call(&mut chain, "call", &json!({"name": "search", "arguments": {"berth": 7}}));
        for (key, name) in [(direct, "pay"), (inner, "search")] {
            let given = chain.take_server_call();
            assert_eq!(given.tool_call().expect("a tool").name, name);
            chain.complete(&given, &json!({"content": []}));
            assert_eq!(chain.result(key)["content"], json!([]));
        }
        chain.publish(&Change::Tools);
        answer_list(&mut chain, &["leave"]);
        let key = call(&mut chain, "search", &json!({"query": "leaving"}));
        assert_eq!(found(&mut chain, key), ["leave"]);
        let is_told = |event: &Event| matches!(event, Event::Changed { change: Change::Tools, .. });
        assert!(!chain.take_client_events().iter().any(is_told));
    }
}

#[test]
fn list_that_changes_at_each_read_is_read_once_a_minute_in_the_end() {
    for (down, up) in [(MODERN, LEGACY), (LEGACY, MODERN)] {
        let mut chain = chain(down, up);
        let mut minutes = [0; 3];
        for minute in &mut minutes {
            for _ in 0..600 {
                while chain.has_server_call() {
                    *minute += 1;
                    assert!(*minute <= 10, "{down} {up}");
                    answer_list(&mut chain, &["book"]);
                    chain.publish(&Change::Tools);
                }
                chain.wait(Duration::from_millis(100));
            }
        }
        assert_eq!(minutes, [7, 1, 1], "{down} {up}");
        // A server that ends meanwhile wakes nobody, and its successor is read at once.
        chain.publish(&Change::Tools);
        chain.kill_server();
        assert!(chain.relay.poll_timeout().is_none_or(|at| at > chain.now));
        chain.wait(Duration::from_secs(1));
        chain.start_server(up);
        answer_list(&mut chain, &["moor"]);
        let key = call(&mut chain, "search", &json!({"query": "moor"}));
        assert_eq!(found(&mut chain, key), ["moor"]);
    }
}

#[test]
fn bridge_reads_the_tools_of_the_next_server() {
    let mut chain = chain(MODERN, LEGACY);
    answer_list(&mut chain, &["book"]);
    chain.kill_server();
    chain.wait(Duration::from_secs(1));
    chain.start_server(LEGACY);
    chain.settle();
    answer_list(&mut chain, &["moor"]);
    let key = call(&mut chain, "search", &json!({"query": "moor book"}));
    assert_eq!(found(&mut chain, key), ["moor"]);
}

#[test]
fn failed_list_is_told_and_read_again() {
    let mut chain = chain(MODERN, LEGACY);
    let given = chain.take_server_call();
    chain.fail(&given, &RpcError::internal("no list today"));
    let key = call(&mut chain, "search", &json!({"query": "book"}));
    let given = chain.take_server_call();
    chain.fail(&given, &RpcError::internal("no list today"));
    let result = chain.result(key);
    assert_eq!((&result["isError"], &result["content"][0]["text"]), (&json!(true), &json!("no list today")));
    // A tool of a server whose list is not known may be called.
    call(&mut chain, "call", &json!({"name": "book"}));
    assert_eq!(chain.take_server_call().tool_call().expect("a tool").name, "book");
    // A search has its time, and can be cancelled.
    let late = call(&mut chain, "search", &json!({"query": "book"}));
    let cancelled = call(&mut chain, "search", &json!({"query": "book"}));
    let now = chain.now;
    chain.client.engine().cancel(now, cancelled, None).expect("it is open");
    chain.wait(LIST_TIMEOUT);
    assert!(found(&mut chain, late).is_empty());
    assert_eq!(chain.relay.listing, 0);
}
