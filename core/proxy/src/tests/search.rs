//! `search` and `call` in place of the tools of all upstreams.

use core::time::Duration;

use mcp_proto::client::Event;
use mcp_proto::model::{ElicitParams, ElicitSchema, InputRequest, InputRequests};
use mcp_proto::rpc::code;
use mcp_proto::{CallKey, Change, EntryKind, Progress, RpcError, Version, server};
use serde_json::{Value, json};

use super::gateway::{BOTH, names, tools};
use super::gateway_harness::GatewayHarness;
use crate::{Access, ClientCount, Decision, Gateway, LIST_TIMEOUT, UNAVAILABLE};

const LEGACY: Version = Version::V2025_11_25;
const MODERN: Version = Version::V2026_07_28;

fn described(tools: &[(&str, &str)]) -> Value {
    let tools = tools.iter().map(|(name, description)| {
        json!({"name": name, "description": description, "inputSchema": {"type": "object", "title": name}})
    });
    json!({"tools": tools.collect::<Vec<_>>()})
}

/// Answers the call that reads the tools of an upstream.
#[track_caller]
fn answer_list(chain: &mut GatewayHarness, index: usize, tools: &Value) {
    let call = chain.take_call(index);
    assert_eq!(call.method(), "tools/list");
    chain.complete(index, &call, tools);
}

/// Connects a client to a gateway with search, whose upstreams have told their tools.
fn chain_of(down: Version, gateway: Gateway) -> GatewayHarness {
    let mut chain = GatewayHarness::with_gateway(down, &BOTH, gateway.with_search());
    assert_eq!(chain.gateway.search_size(chain.now), None);
    answer_list(&mut chain, 0, &described(&[("heights", "Predicts the water"), ("book", "Books a berth")]));
    answer_list(&mut chain, 1, &described(&[("open", "Opens the lock"), ("pay", "Pays a berth")]));
    chain
}

fn chain(down: Version) -> GatewayHarness {
    chain_of(down, Gateway::new(ClientCount::One))
}

fn search(chain: &mut GatewayHarness, query: &str) -> CallKey {
    chain.call("tools/call", &json!({"name": "search", "arguments": {"query": query}}))
}

/// Returns the names that a query finds.
#[track_caller]
fn found(chain: &mut GatewayHarness, query: &str) -> Vec<String> {
    let key = search(chain, query);
    let result = chain.result(key);
    let found: Value =
        serde_json::from_str(result["content"][0]["text"].as_str().expect("a text")).expect("JSON");
    assert_eq!(found, result["structuredContent"]);
    names(&found, "tools", "name").into_iter().map(str::to_owned).collect()
}

fn call(chain: &mut GatewayHarness, name: &str, arguments: &Value) -> CallKey {
    chain.call("tools/call", &json!({"name": "call", "arguments": {"name": name, "arguments": arguments}}))
}

#[track_caller]
fn failure(chain: &mut GatewayHarness, key: CallKey) -> String {
    let result = chain.result(key);
    assert_eq!(result["isError"], true, "{result}");
    result["content"][0]["text"].as_str().expect("a text").to_owned()
}

#[test]
fn clients_see_two_tools_and_find_the_others() {
    for down in [LEGACY, MODERN] {
        let mut chain = chain(down);
        let key = chain.call("tools/list", &json!({}));
        let listed = chain.result(key);
        assert_eq!(names(&listed, "tools", "name"), ["search", "call"]);
        assert!(listed.get("nextCursor").is_none() && !chain.has_call(0) && !chain.has_call(1));
        let key = chain.call("tools/list", &json!({"cursor": "2"}));
        assert_eq!(chain.error(key).code, code::INVALID_PARAMS);

        assert_eq!(found(&mut chain, "the water"), ["tide_heights"]);
        assert_eq!(found(&mut chain, "berths"), ["dock_pay", "tide_book"]);
        assert_eq!(found(&mut chain, "dock_pay"), ["dock_pay", "dock_open"]);
        assert!(found(&mut chain, "zebra").is_empty());
        let key = chain.call(
            "tools/call",
            &json!({"name": "search", "arguments": {"query": "books a berth", "limit": 1}}),
        );
        let tool = &chain.result(key)["structuredContent"]["tools"];
        let schema = json!({"type": "object", "title": "book"});
        assert_eq!(
            *tool,
            json!([{"name": "tide_book", "description": "Books a berth", "inputSchema": schema}])
        );
        for wrong in [
            json!({}),
            json!({"query": 7}),
            json!({"query": "a", "limit": 21}),
            json!({"query": "a", "limit": 1.5}),
        ] {
            let key = chain.call("tools/call", &json!({"name": "search", "arguments": wrong}));
            assert!(failure(&mut chain, key).starts_with("`search`: "), "{wrong}");
        }
        let size = chain.gateway.search_size(chain.now).expect("all are read");
        assert_eq!(size.tools, 4);
        assert!(size.tokens > 80 && size.shown_tokens > 150, "{size:?}");
    }
}

#[test]
fn call_is_relayed_as_a_call_of_the_tool() {
    for (down, [index, name]) in [(LEGACY, ["0", "tide_heights"]), (MODERN, ["1", "dock_open"])] {
        let index: usize = index.parse().expect("a number");
        let mut chain = chain(down);
        let key = call(&mut chain, name, &json!({"gate": 3}));
        let given = chain.take_call(index);
        let params: Value = given.parse().expect("JSON");
        assert_eq!(params["name"].as_str(), name.split_once('_').map(|(_, name)| name));
        assert_eq!(params["arguments"], json!({"gate": 3}));
        let now = chain.now;
        let engine = chain.sides[index].server.engine();
        engine.progress(now, given.id(), Progress::new(1.0)).expect("it is open");
        chain.settle();
        let is_progress = |event: &Event| matches!(event, Event::Progress { call, .. } if *call == key);
        assert!(chain.client_events.iter().any(is_progress));
        chain.complete(index, &given, &json!({"content": [{"type": "text", "text": "open"}]}));
        assert_eq!(chain.result(key)["content"][0]["text"], "open");

        // Its own name does as well, and arguments may be missing.
        let direct = chain.call_tool(name);
        let given = chain.take_call(index);
        chain.fail(index, &given, &RpcError::invalid_request("locked"));
        assert_eq!(chain.error(direct).message, "locked");
        let key = chain.call("tools/call", &json!({"name": "call", "arguments": {"name": name}}));
        let given = chain.take_call(index);
        assert_eq!(given.tool_call().expect("a tool").arguments, b"{}");
        let now = chain.now;
        chain.client.engine().cancel(now, key, Some("enough")).expect("it is open");
        chain.settle();
        let is_cancelled = |event: &server::Event| matches!(event, server::Event::Cancelled { call, .. } if *call == given.id());
        assert!(chain.sides[index].events.iter().any(is_cancelled));
    }
}

#[test]
fn input_requests_pass_through_call() {
    for down in [LEGACY, MODERN] {
        let mut chain = chain(down);
        let key = call(&mut chain, "dock_pay", &json!({}));
        let given = chain.take_call(1);
        let schema =
            serde_json::from_str::<ElicitSchema>(r#"{"type":"object","properties":{}}"#).expect("a form");
        let ask = InputRequest::Elicit(ElicitParams::form("who?", schema));
        let asks: InputRequests<'_> = [("who".to_owned(), ask)].into_iter().collect();
        let now = chain.now;
        chain.sides[1].server.engine().need_input(now, &given, &asks, b"asked").expect("it may ask");
        chain.settle();
        let [input] = &chain.take_inputs()[..] else { panic!("one input request") };
        chain
            .client
            .engine()
            .answer(now, input.id, &json!({"action": "accept", "content": {}}))
            .expect("it is asked for");
        chain.settle();
        let retry = chain.take_call(1);
        assert_eq!((retry.attempt(), &*retry.tool_call().expect("a tool").name), (1, "pay"));
        chain.complete(1, &retry, &json!({"content": []}));
        assert_eq!(chain.result(key)["content"], json!([]), "{down}");
    }
}

#[test]
fn call_of_an_unknown_tool_names_the_nearest() {
    let mut chain = chain(MODERN);
    for (name, near) in [
        ("tide_hieghts", "did you mean `tide_heights`"),
        ("pay", "did you mean `dock_pay`"),
        ("dock_book", "`tide_book`"),
        ("search", "find one with `search`"),
        ("zebra", "no tool is named `zebra`: find one with `search`"),
    ] {
        let key = call(&mut chain, name, &json!({}));
        let text = failure(&mut chain, key);
        assert!(text.contains(near), "{text}");
    }
    for wrong in [json!({}), json!({"name": 7}), json!({"name": "dock_pay", "arguments": [1]})] {
        let key = chain.call("tools/call", &json!({"name": "call", "arguments": wrong}));
        assert!(failure(&mut chain, key).starts_with("`call`: "), "{wrong}");
    }
    assert!(!chain.has_call(0) && !chain.has_call(1));
    // A tool that is not shown is called by its own name whatever the gateway knows.
    chain.call_tool("dock_newest");
    assert_eq!(chain.take_call(1).tool_call().expect("a tool").name, "newest");
}

#[test]
fn list_that_changes_at_each_read_is_read_once_a_minute_in_the_end() {
    for up in [LEGACY, MODERN] {
        let gateway = Gateway::new(ClientCount::One).with_search();
        let mut chain = GatewayHarness::with_gateway(MODERN, &[("tide", up)], gateway);
        let mut minutes = [0; 5];
        for minute in &mut minutes {
            for _ in 0..1_200 {
                while chain.has_call(0) {
                    *minute += 1;
                    assert!(*minute <= 10, "{up}");
                    answer_list(&mut chain, 0, &described(&[("heights", "Predicts the water")]));
                    let now = chain.now;
                    chain.sides[0].server.engine().publish(now, &Change::Tools);
                    chain.settle();
                }
                chain.wait(Duration::from_millis(50));
            }
        }
        assert_eq!(minutes, [7, 1, 1, 1, 1], "{up}");
        // It is known meanwhile, and a change after a quiet time is read at once.
        assert_eq!(found(&mut chain, "water"), ["tide_heights"]);
        chain.wait(Duration::from_secs(60));
        answer_list(&mut chain, 0, &described(&[("old", "Old")]));
        chain.wait(Duration::from_secs(180));
        let now = chain.now;
        chain.sides[0].server.engine().publish(now, &Change::Tools);
        chain.settle();
        answer_list(&mut chain, 0, &described(&[("new", "New")]));
        assert_eq!(found(&mut chain, "new"), ["tide_new"], "{up}");
    }
}

#[test]
fn changes_are_read_and_not_told() {
    for down in [LEGACY, MODERN] {
        let mut chain = chain(down);
        chain.client_events.clear();
        for index in [0, 1] {
            let now = chain.now;
            chain.sides[index].server.engine().publish(now, &Change::Tools);
            chain.settle();
            // One that comes while the list is read makes it be read again.
            chain.sides[index].server.engine().publish(now, &Change::Tools);
            chain.wait(Duration::from_secs(1));
            answer_list(&mut chain, index, &described(&[("old", "Old zebra")]));
            answer_list(&mut chain, index, &described(&[("new", "New zebra")]));
            assert!(!chain.has_call(index));
        }
        assert_eq!(found(&mut chain, "zebra"), ["dock_new", "tide_new"], "{down}");
        assert!(found(&mut chain, "berth").is_empty());
        chain.with_gateway_of(|gateway, engines| gateway.remove(engines, 1));
        chain.settle();
        assert_eq!(found(&mut chain, "zebra"), ["tide_new"]);
        let is_told = |event: &Event| matches!(event, Event::Changed { change: Change::Tools, .. });
        assert!(!chain.client_events.iter().any(is_told), "{down}");
    }
}

#[test]
fn search_sees_what_the_policy_shows() {
    let decide = |access: &Access<'_>| match (access.kind, access.name, access.is_use) {
        (EntryKind::Tool, "pay", _) => Decision::Hide,
        (EntryKind::Tool, "open", false) => {
            let tool = r#"{"name":"other","description":"Opens for llamas","inputSchema":{}}"#;
            Decision::Rewrite(mcp_proto::RawJson::new(tool).expect("JSON"))
        }
        (EntryKind::Tool, "open", true) => Decision::Refuse(RpcError::invalid_request("shut")),
        _ => Decision::Allow,
    };
    let mut chain = chain_of(MODERN, Gateway::new(ClientCount::One).policy(decide));
    assert_eq!(found(&mut chain, "berth dock_pay"), ["dock_open", "tide_book"]);
    assert_eq!(found(&mut chain, "llama"), ["dock_open"]);
    assert!(found(&mut chain, "lock").is_empty());
    let [hidden, unknown] = ["dock_pay", "dock_lay"].map(|name| {
        let key = call(&mut chain, name, &json!({}));
        failure(&mut chain, key).replace(name, "")
    });
    assert_eq!(hidden, unknown);
    assert!(!hidden.contains("pay"));
    let key = call(&mut chain, "dock_open", &json!({}));
    assert_eq!(chain.error(key).message, "shut");
    // A rewritten call stays one of the tool that `call` names.
    let decide = |access: &Access<'_>| match access.is_use {
        true => {
            Decision::Rewrite(mcp_proto::RawJson::new(r#"{"name":"pay","arguments":{"x":1}}"#).expect("JSON"))
        }
        false => Decision::Allow,
    };
    let mut chain = chain_of(MODERN, Gateway::new(ClientCount::One).policy(decide));
    call(&mut chain, "dock_open", &json!({}));
    let params: Value = chain.take_call(1).parse().expect("JSON");
    assert_eq!((&params["name"], &params["arguments"]), (&json!("open"), &json!({"x": 1})));
}

#[test]
fn search_waits_for_upstreams_that_are_read() {
    let gateway = Gateway::new(ClientCount::One).with_search();
    let mut chain = GatewayHarness::with_gateway(MODERN, &BOTH, gateway);
    answer_list(&mut chain, 0, &described(&[("book", "Books a berth")]));
    let first = search(&mut chain, "berth");
    assert!(!chain.has_ended(first));
    // So does a call of a tool that is not known yet.
    let (early, wrong) =
        (call(&mut chain, "dock_pay", &json!({})), call(&mut chain, "dock_play", &json!({})));
    answer_list(&mut chain, 1, &described(&[("pay", "Pays a berth")]));
    assert_eq!(names(&chain.result(first)["structuredContent"], "tools", "name").len(), 2);
    let given = chain.take_call(1);
    assert_eq!(given.tool_call().expect("a tool").name, "pay");
    chain.complete(1, &given, &json!({"content": []}));
    assert_eq!(chain.result(early)["content"], json!([]));
    assert!(failure(&mut chain, wrong).contains("did you mean `dock_pay`"));

    // One that does not answer is left out, and named.
    chain.add("quay", Some(LEGACY));
    let late = search(&mut chain, "berth");
    chain.wait(LIST_TIMEOUT - Duration::from_millis(1));
    assert!(!chain.has_ended(late));
    chain.wait(Duration::from_millis(1));
    let result = chain.result(late);
    assert_eq!(names(&result["structuredContent"], "tools", "name").len(), 2);
    assert_eq!(result["_meta"][UNAVAILABLE], json!({"quay": "no answer in time"}));
    // So is one that refuses its list, which the next search asks for again.
    let given = chain.take_call(2);
    chain.fail(2, &given, &RpcError::internal("no list today"));
    assert!(chain.gateway.search_size(chain.now).is_some());
    let again = search(&mut chain, "berth");
    let given = chain.take_call(2);
    chain.fail(2, &given, &RpcError::internal("no list today"));
    assert_eq!(chain.result(again)["_meta"][UNAVAILABLE], json!({"quay": "no list today"}));
    // So is one that dies meanwhile, and one that cannot be started.
    let dying = search(&mut chain, "berth");
    chain.kill(2, None);
    let unavailable = &chain.result(dying)["_meta"][UNAVAILABLE];
    assert!(unavailable["quay"].is_string(), "{unavailable}");
    let cancelled = search(&mut chain, "berth");
    assert!(!chain.has_ended(cancelled), "it is about to be started again");
    let now = chain.now;
    chain.client.engine().cancel(now, cancelled, None).expect("it is open");
    chain.settle();
    assert_eq!(chain.gateway.search.as_ref().and_then(crate::search::ToolSearch::next_deadline), None);
    // A tool of an upstream whose list is not known may be called.
    let held = call(&mut chain, "quay_moor", &json!({}));
    assert!(!chain.has_ended(held));
    chain.sides[2].supply = Some(LEGACY);
    chain.wait(Duration::from_secs(5));
    assert_eq!(chain.take_call(2).tool_call().expect("a tool").name, "moor");
}

#[test]
fn nothing_hidden_is_waited_for_or_told_by_time() {
    // Of the dock nothing is shown: it is as if there was none.
    let decide = |access: &Access<'_>| match access.upstream {
        "dock" => Decision::Hide,
        _ => Decision::Allow,
    };
    let gateway = Gateway::new(ClientCount::One).with_search().policy(decide);
    let mut chain = GatewayHarness::with_gateway(MODERN, &BOTH, gateway);
    answer_list(&mut chain, 0, &described(&[("book", "Books a berth")]));
    let [hidden, unknown] = ["dock_pay", "none_pay"].map(|name| {
        let key = call(&mut chain, name, &json!({}));
        assert!(chain.has_ended(key), "{name}");
        failure(&mut chain, key).replace(name, "")
    });
    assert_eq!(hidden, unknown);
    assert_eq!(found(&mut chain, "berth"), ["tide_book"]);
    // Nor is a list of it asked for that has failed, which a search does otherwise.
    let given = chain.take_call(1);
    chain.fail(1, &given, &RpcError::internal("no list today"));
    assert_eq!(found(&mut chain, "berth"), ["tide_book"]);
    assert!(!chain.has_call(1));
    assert_eq!(chain.gateway.relay(1).expect("an upstream").listing, 0);

    // Of an upstream of which something is shown, a hidden tool is waited for as one that there is not.
    let decide = |access: &Access<'_>| match access.name {
        "pay" => Decision::Hide,
        _ => Decision::Allow,
    };
    let mut chain = chain_of(MODERN, Gateway::new(ClientCount::One).policy(decide));
    let now = chain.now;
    chain.sides[1].server.engine().publish(now, &Change::Tools);
    chain.wait(Duration::from_secs(1));
    let keys = ["dock_pay", "dock_lay", "dock_open"].map(|name| call(&mut chain, name, &json!({})));
    assert_eq!(keys.map(|key| chain.has_ended(key)), [false; 3]);
    // The first call is the list; a tool that is known and shown is called meanwhile.
    answer_list(&mut chain, 1, &described(&[("open", "Opens the lock"), ("pay", "Pays a berth")]));
    let [hidden, unknown] = [(keys[0], "dock_pay"), (keys[1], "dock_lay")].map(|(key, name)| {
        assert!(chain.has_ended(key), "{name}");
        failure(&mut chain, key).replace(name, "")
    });
    assert_eq!(hidden, unknown);
    assert_eq!(chain.take_call(1).tool_call().expect("a tool").name, "open");
}

#[test]
fn lists_are_read_in_pages_and_bounded() {
    let gateway = Gateway::new(ClientCount::One).with_search();
    let mut chain = GatewayHarness::with_gateway(MODERN, &BOTH, gateway);
    answer_list(&mut chain, 1, &tools(&[]));
    let mut page =
        described(&[("first", "A zebra"), ("big", &"zebra ".repeat(60_000)), ("", "\u{0}\u{1b}[2J zebra")]);
    page["nextCursor"] = json!("2");
    answer_list(&mut chain, 0, &page);
    let given = chain.take_call(0);
    assert_eq!(given.parse::<Value>().expect("JSON")["cursor"], "2");
    let many: Vec<String> = (0..5_000).map(|number| format!("tool{number}")).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|name| (&**name, "-")).collect();
    let mut page = described(&many);
    page["tools"]
        .as_array_mut()
        .expect("a list")
        .insert(0, described(&[("second", "A zebra")])["tools"][0].clone());
    page["nextCursor"] = json!("3");
    chain.complete(0, &given, &page);
    assert!(!chain.has_call(0), "there is no room for another page");
    let size = chain.gateway.search_size(chain.now).expect("all are read");
    assert_eq!(size.tools, 4_096);
    let found = found(&mut chain, "zebra");
    assert_eq!(found, ["tide_first", "tide_second", "tide_"]);
    // One that was left out can be called.
    call(&mut chain, "tide_big", &json!({}));
    assert_eq!(chain.take_call(0).tool_call().expect("a tool").name, "big");
}

#[test]
fn long_name_that_is_found_can_be_called() {
    let long = "zebra_".repeat(15);
    let mut chain = GatewayHarness::with_gateway(MODERN, &BOTH, Gateway::new(ClientCount::One).with_search());
    answer_list(&mut chain, 0, &described(&[(&long, "Counts the stripes")]));
    answer_list(&mut chain, 1, &described(&[]));
    let names = found(&mut chain, "stripes");
    let [short] = &names[..] else { panic!("{names:?}") };
    assert_eq!(short.chars().count(), 64);
    call(&mut chain, short, &json!({}));
    assert_eq!(chain.take_call(0).tool_call().expect("a tool").name, long);
}

#[test]
fn policy_decides_about_the_whole_name_of_a_tool() {
    let long = "zebra_".repeat(15);
    for is_hidden in [false, true] {
        let whole = long.clone();
        let policy = move |access: &Access<'_>| match (access.name.is_empty(), access.name == whole) {
            (false, is_whole) if is_whole == is_hidden => Decision::Hide,
            _ => {
                let is_given = access.is_use && access.payload.as_str().contains("zebra_zebra");
                assert!(!is_given || access.payload.as_str().contains(&whole), "{:?}", access.payload);
                Decision::Allow
            }
        };
        let mut chain = chain_of(MODERN, Gateway::new(ClientCount::One).policy(policy));
        let now = chain.now;
        chain.sides[0].server.engine().publish(now, &Change::Tools);
        chain.settle();
        chain.wait(Duration::from_secs(10));
        answer_list(&mut chain, 0, &described(&[(&long, "Counts the stripes"), ("heights", "Counts too")]));
        let shown = format!("tide_{long}");
        let shown = crate::names::shortened(&shown).expect("it is long");
        let expected = if is_hidden { "tide_heights" } else { &*shown };
        assert_eq!(found(&mut chain, "counts"), [expected]);
        let key = call(&mut chain, &shown, &json!({}));
        if is_hidden {
            // As one that is not there.
            let text = failure(&mut chain, key);
            assert!(text.contains(&format!("no tool is named `{shown}`")), "{text}");
            assert!(!chain.has_call(0));
        } else {
            assert_eq!(chain.take_call(0).tool_call().expect("a tool").name, long);
        }
    }
}
