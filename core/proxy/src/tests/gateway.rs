//! Several upstreams as one server: lists, calls, failures, names.

use core::time::Duration;

use mcp_proto::client::Event;
use mcp_proto::model::{
    ElicitParams, ElicitSchema, InputRequest, InputRequests, LoggingLevel, SubscriptionFilter,
};
use mcp_proto::rpc::code;
use mcp_proto::{Change, Era, Progress, RpcError, Version, server};
use serde_json::{Value, json};

use super::gateway_harness::GatewayHarness;
use super::harness::{ALL_CAPABILITIES, connect_upstream};
use crate::{AddError, ClientCount, Decision, Gateway, LIST_TIMEOUT, UNAVAILABLE, upstream_name};

const LEGACY: Version = Version::V2025_11_25;
const MODERN: Version = Version::V2026_07_28;

/// A legacy and a modern upstream.
pub(super) const BOTH: [(&str, Version); 2] = [("tide", LEGACY), ("dock", MODERN)];

pub(super) fn tools(names: &[&str]) -> Value {
    let tools = names.iter().map(|name| json!({"name": name, "inputSchema": {"type": "object"}}));
    json!({"tools": tools.collect::<Vec<_>>()})
}

/// Returns the names of the entries of a list.
pub(super) fn names<'a>(result: &'a Value, list: &str, member: &str) -> Vec<&'a str> {
    let entries = result[list].as_array().expect("a list");
    entries.iter().map(|entry| entry[member].as_str().expect("a name")).collect()
}

fn text(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

#[test]
fn lists_are_merged_under_the_names_of_upstreams() {
    for down in [LEGACY, MODERN] {
        let mut chain = GatewayHarness::new(down, &BOTH);
        let result = chain.list("tools/list", &json!({}), &[tools(&["book", "a_b"]), tools(&["book"])]);
        assert_eq!(names(&result, "tools", "name"), ["tide_book", "tide_a_b", "dock_book"]);
        assert!(result.get("nextCursor").is_none() && result["_meta"].get(UNAVAILABLE).is_none());
        let prompts = [json!({"prompts": [{"name": "p"}]}), json!({"prompts": [7, {"name": "q"}]})];
        let result = chain.list("prompts/list", &json!({}), &prompts);
        assert_eq!(names(&result, "prompts", "name"), ["tide_p", "dock_q"]);
    }
}

#[test]
fn pages_hold_the_next_page_of_each_upstream_that_has_one() {
    let mut chain = GatewayHarness::new(MODERN, &BOTH);
    let mut first = tools(&["a"]);
    first["nextCursor"] = json!("of tide \"2\"");
    let page = chain.list("tools/list", &json!({}), &[first, tools(&["b"])]);
    assert_eq!(names(&page, "tools", "name"), ["tide_a", "dock_b"]);
    let next = json!({"cursor": page["nextCursor"]});
    // Another upstream that comes meanwhile has no part in this list.
    chain.add("quay", Some(LEGACY));
    let key = chain.call("tools/list", &next);
    let call = chain.take_call(0);
    let params: Value = call.parse().expect("JSON");
    assert_eq!(params["cursor"], "of tide \"2\"");
    assert!(!chain.has_call(1) && !chain.has_call(2));
    chain.complete(0, &call, &tools(&["c"]));
    let page = chain.result(key);
    assert_eq!(names(&page, "tools", "name"), ["tide_c"]);
    assert!(page.get("nextCursor").is_none());

    for foreign in [next["cursor"].clone(), json!("of tide \"2\""), json!("{}"), json!(7)] {
        let key = chain.call("prompts/list", &json!({"cursor": foreign}));
        let error = chain.error(key);
        assert_eq!(error.code, code::INVALID_PARAMS);
        assert!(error.message.contains("`params.cursor`"), "{error}");
    }
    // One that is too long is not passed on, and said.
    let mut first = tools(&["a"]);
    first["nextCursor"] = json!("x".repeat(4_097));
    let page = chain.list("tools/list", &json!({}), &[first, tools(&[]), tools(&[])]);
    assert!(page.get("nextCursor").is_none());
    assert!(page["_meta"][UNAVAILABLE]["tide"].as_str().expect("a reason").contains("cursor"));
}

#[test]
fn calls_reach_the_upstream_of_their_name_with_progress_and_cancellation() {
    for down in [LEGACY, MODERN] {
        let mut chain = GatewayHarness::new(down, &BOTH);
        for (index, name) in ["tide_book_now", "dock_book_now"].into_iter().enumerate() {
            let key = chain.call_tool(name);
            assert!(!chain.has_call(1 - index));
            let call = chain.take_call(index);
            assert_eq!(call.tool_call().expect("parameters").name, "book_now");
            let now = chain.now;
            let engine = chain.sides[index].server.engine();
            engine.progress(now, call.id(), Progress::new(0.5)).expect("it is open");
            chain.settle();
            let progress = |event: &Event| matches!(event, Event::Progress { call, .. } if *call == key);
            assert!(chain.client_events.iter().any(progress), "{down} {name}");
            chain.complete(index, &call, &text(name));
            assert_eq!(chain.result(key)["content"], text(name)["content"]);

            let key = chain.call_tool(name);
            let call = chain.take_call(index);
            chain.client.engine().cancel(now, key, None).expect("it is open");
            chain.settle();
            let cancelled = |event: &server::Event| matches!(event, server::Event::Cancelled { call: id, .. } if *id == call.id());
            assert!(chain.sides[index].events.iter().any(cancelled), "{down} {name}");
        }
        let key = chain.call("prompts/get", &json!({"name": "dock_p"}));
        let call = chain.take_call(1);
        let params: Value = call.parse().expect("JSON");
        assert_eq!(params["name"], "p");
        chain.complete(1, &call, &json!({"messages": []}));
        assert_eq!(chain.result(key)["messages"], json!([]));
        for (method, name) in [("tools/call", "quay_book"), ("tools/call", "book"), ("prompts/get", "tide_")]
        {
            let key = chain.call(method, &json!({"name": name}));
            let error = chain.error(key);
            assert_eq!(error.code, code::INVALID_PARAMS);
            assert!(error.message.starts_with("unknown ") && error.message.ends_with(name), "{error}");
        }
    }
}

#[test]
fn input_requests_and_answers_belong_to_the_upstream_of_the_call() {
    for down in [LEGACY, MODERN] {
        let mut chain = GatewayHarness::new(down, &BOTH);
        let keys = [chain.call_tool("tide_book"), chain.call_tool("dock_book")];
        for (index, message) in ["of tide", "of dock"].into_iter().enumerate() {
            let call = chain.take_call(index);
            let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}});
            let schema: ElicitSchema = serde_json::from_str(&schema.to_string()).expect("a form");
            let ask = InputRequest::Elicit(ElicitParams::form(message, schema));
            let asks: InputRequests<'_> = [("who".to_owned(), ask)].into_iter().collect();
            let now = chain.now;
            let engine = chain.sides[index].server.engine();
            engine.need_input(now, &call, &asks, message.as_bytes()).expect("it may ask");
        }
        chain.settle();
        chain.wait(Duration::from_millis(100));
        let inputs = chain.take_inputs();
        assert_eq!(inputs.len(), 2, "{down}");
        for input in inputs {
            let InputRequest::Elicit(ElicitParams::Form(form)) = &*input.request else { panic!("a form") };
            let answer = json!({"action": "accept", "content": {"name": form.message}});
            let now = chain.now;
            chain.client.engine().answer(now, input.id, &answer).expect("it is asked for");
        }
        chain.settle();
        for (index, (key, message)) in keys.into_iter().zip(["of tide", "of dock"]).enumerate() {
            let call = chain.take_call(index);
            assert_eq!(call.state(), Some(message.as_bytes()));
            let answer = call.answer("who").expect("asked").expect("answered");
            assert!(answer.as_str().contains(message), "{answer:?}");
            chain.complete(index, &call, &text(message));
            assert_eq!(chain.result(key)["content"], text(message)["content"], "{down}");
        }
    }
}

#[test]
fn failed_upstream_is_left_out_and_named_and_the_others_go_on() {
    for down in [LEGACY, MODERN] {
        let mut chain = GatewayHarness::new(down, &BOTH);
        let lost = chain.call_tool("dock_book");
        chain.kill(1, None);
        let error = chain.error(lost);
        assert!(error.message.starts_with("`dock`: "), "{error}");
        // A list waits for the next start, which fails.
        let key = chain.call("tools/list", &json!({}));
        let call = chain.take_call(0);
        chain.complete(0, &call, &tools(&["book"]));
        assert!(!chain.has_ended(key));
        chain.wait(Duration::from_secs(1));
        let result = chain.result(key);
        assert_eq!(names(&result, "tools", "name"), ["tide_book"]);
        assert_eq!(result["_meta"][UNAVAILABLE]["dock"], "no such program");
        // It is tried again while clients are there. With growing delays nothing waits any more.
        chain.wait(Duration::from_secs(20));
        let result = chain.list("tools/list", &json!({}), &[tools(&["book"])]);
        let reason = result["_meta"][UNAVAILABLE]["dock"].as_str().expect("a reason");
        assert!(reason.contains("no such program"), "{reason}");
        let now = chain.now;
        assert_eq!(chain.gateway.failure(now, 1), Some(reason));
        let key = chain.call_tool("dock_book");
        let error = chain.error(key);
        assert_eq!(error.code, code::INTERNAL_ERROR);
        assert!(
            error.message.starts_with("`dock`: ") && error.message.contains("no such program"),
            "{error}"
        );
        let key = chain.call_tool("tide_book");
        let call = chain.take_call(0);
        chain.complete(0, &call, &text("aye"));
        assert_eq!(chain.result(key)["content"], text("aye")["content"]);
        // It comes back by itself, and clients learn of it.
        chain.sides[1].supply = Some(LEGACY);
        chain.client_events.clear();
        chain.wait(Duration::from_secs(61));
        assert!(chain.gateway.is_running(1));
        if down.era() == Era::Legacy {
            let changed = |event: &Event| matches!(event, Event::Changed { change: Change::Tools, .. });
            assert!(chain.client_events.iter().any(changed));
        }
        let result = chain.list("tools/list", &json!({}), &[tools(&["book"]), tools(&["book"])]);
        assert_eq!(names(&result, "tools", "name"), ["tide_book", "dock_book"], "{down}");
    }
}

#[test]
fn slow_upstream_is_left_out_after_the_timeout() {
    let mut chain = GatewayHarness::new(MODERN, &BOTH);
    let key = chain.call("tools/list", &json!({}));
    let (fast, slow) = (chain.take_call(0), chain.take_call(1));
    chain.complete(0, &fast, &tools(&["book"]));
    chain.wait(LIST_TIMEOUT - Duration::from_millis(1));
    assert!(!chain.has_ended(key));
    chain.wait(Duration::from_millis(1));
    let result = chain.result(key);
    assert_eq!(names(&result, "tools", "name"), ["tide_book"]);
    assert_eq!(result["_meta"][UNAVAILABLE]["dock"], "no answer in time");
    let cancelled =
        |event: &server::Event| matches!(event, server::Event::Cancelled { call, .. } if *call == slow.id());
    assert!(chain.sides[1].events.iter().any(cancelled));
    // An error of an upstream is a reason, too.
    let key = chain.call("tools/list", &json!({}));
    let (fast, slow) = (chain.take_call(0), chain.take_call(1));
    chain.fail(1, &slow, &RpcError::internal("out of ink"));
    chain.complete(0, &fast, &tools(&["book"]));
    assert_eq!(chain.result(key)["_meta"][UNAVAILABLE]["dock"], "out of ink");
    let result = chain.list("tools/list", &json!({}), &[tools(&["book"]), json!({"other": 1})]);
    assert_eq!(result["_meta"][UNAVAILABLE]["dock"], "its answer has no list");
}

#[test]
fn upstream_that_still_starts_is_named_and_announced_when_it_comes() {
    for down in [LEGACY, MODERN] {
        let mut chain = GatewayHarness::new(down, &BOTH[..1]);
        if down == MODERN {
            let mut filter = SubscriptionFilter::new();
            filter.tools_list_changed = Some(true);
            let now = chain.now;
            chain.client.engine().subscribe(now, &filter).expect("it may subscribe");
            chain.settle();
        }
        chain.is_start_slow = true;
        chain.add("dock", Some(MODERN));
        assert!(chain.gateway.awaits_first_start());
        let key = chain.call("tools/list", &json!({}));
        let call = chain.take_call(0);
        chain.complete(0, &call, &tools(&["book"]));
        chain.wait(LIST_TIMEOUT - Duration::from_millis(1));
        assert!(!chain.has_ended(key), "{down}");
        chain.wait(Duration::from_millis(1));
        let result = chain.result(key);
        assert_eq!(names(&result, "tools", "name"), ["tide_book"]);
        assert_eq!(result["_meta"][UNAVAILABLE]["dock"], "no answer in time");
        chain.wait(Duration::from_secs(50));
        let changed = |event: &Event| matches!(event, Event::Changed { change: Change::Tools, .. });
        chain.client_events.clear();
        chain.finish_start(1);
        assert_eq!(chain.client_events.iter().filter(|event| changed(event)).count(), 1, "{down}");
        let result = chain.list("tools/list", &json!({}), &[tools(&["book"]), tools(&["moor"])]);
        assert_eq!(names(&result, "tools", "name"), ["tide_book", "dock_moor"], "{down}");
        assert!(result["_meta"].get(UNAVAILABLE).is_none(), "{result}");
    }
}

#[test]
fn cancelled_list_is_cancelled_at_all_upstreams() {
    let mut chain = GatewayHarness::new(LEGACY, &BOTH);
    let key = chain.call("tools/list", &json!({}));
    let now = chain.now;
    chain.client.engine().cancel(now, key, None).expect("it is open");
    chain.settle();
    for side in &chain.sides {
        assert!(side.events.iter().any(|event| matches!(event, server::Event::Cancelled { .. })));
    }
    assert!(chain.gateway.poll_timeout().is_none(), "nothing is left");
}

#[test]
fn removed_upstream_answers_its_calls_and_leaves_the_names_of_others() {
    let mut chain = GatewayHarness::new(LEGACY, &BOTH);
    let (lost, listing) = (chain.call_tool("tide_book"), chain.call("tools/list", &json!({})));
    chain.take_call(0);
    chain.take_call(0);
    chain.client_events.clear();
    chain.with_gateway_of(|gateway, engines| gateway.remove(engines, 0));
    chain.settle();
    let error = chain.error(lost);
    assert!(error.message.starts_with("`tide`: ") && error.message.contains("removed"), "{error}");
    let call = chain.take_call(1);
    chain.complete(1, &call, &tools(&["book"]));
    assert_eq!(names(&chain.result(listing), "tools", "name"), ["dock_book"]);
    let changed = |event: &Event| matches!(event, Event::Changed { change: Change::Tools, .. });
    assert!(chain.client_events.iter().any(changed));
    let key = chain.call_tool("tide_book");
    assert_eq!(chain.error(key).message, "unknown tool: tide_book");
    // It may come back under its name.
    assert_eq!(chain.add("tide", Some(MODERN)), 2);
    chain.call_tool("tide_book");
    assert!(chain.has_call(2) && !chain.has_call(0));
}

#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn log_level_reaches_all_upstreams_and_loggers_are_named() {
    let mut chain = GatewayHarness::new(LEGACY, &[("tide", LEGACY), ("dock", LEGACY)]);
    let now = chain.now;
    chain.client.engine().set_log_level(now, Some(LoggingLevel::Error)).expect("it has logs");
    chain.settle();
    for index in [0, 1] {
        let channel = chain.sides[index].server.channel();
        let engine = chain.sides[index].server.engine();
        assert_eq!(engine.log_level(channel), Some(LoggingLevel::Error));
        engine.log_session(now, channel, &LoggingLevel::Alert, Some("hull"), "leak").expect("open");
    }
    chain.settle();
    let events = core::mem::take(&mut chain.client_events).into_iter();
    let loggers = events.filter_map(|event| match event {
        Event::Log(log) => log.logger,
        _ => None,
    });
    assert_eq!(loggers.collect::<Vec<_>>(), ["tide/hull", "dock/hull"]);
}

#[test]
fn custom_methods_are_relayed_to_a_single_upstream_only() {
    let mut chain = GatewayHarness::new(MODERN, &[("tide", MODERN)]);
    let key = chain.call("harbour/depth", &json!({"at": "C14"}));
    let call = chain.take_call(0);
    chain.complete(0, &call, &json!({"metres": 4}));
    assert_eq!(chain.result(key)["metres"], 4);
    chain.add("dock", Some(MODERN));
    for (method, code) in [("harbour/depth", code::METHOD_NOT_FOUND), ("tasks/list", code::METHOD_NOT_FOUND)]
    {
        let options = mcp_proto::CallOptions::new();
        let now = chain.now;
        let Ok(key) = chain.client.engine().call(now, method, &json!({}), &options) else { continue };
        chain.settle();
        assert_eq!(chain.error(key).code, code, "{method}");
    }
}

#[test]
fn names_of_upstreams_are_checked() {
    let mut gateway = Gateway::new(ClientCount::Many);
    let now = mcp_proto::Instant::ZERO;
    let long = "x".repeat(33);
    for name in ["", "a_b", "a b", "ä", &long] {
        let refused = gateway.add(now, name, None).expect_err("no name");
        assert_eq!(refused, AddError::InvalidName(name.into()));
        assert!(name.is_empty() || gateway.add(now, &upstream_name(name), None).is_ok() || name == "a b");
    }
    // Two names of a configuration may become one.
    let name = upstream_name("a.b");
    assert_eq!(gateway.add(now, &name, None), Err(AddError::NameTaken("a-b".into())));
}

#[test]
fn entries_that_cannot_be_read_do_not_spoil_the_list() {
    let mut chain = GatewayHarness::new(MODERN, &[("tide", MODERN), ("dock", MODERN)]);
    let broken =
        json!({"tools": [{"name": "x", "inputSchema": 5}, {"name": "y", "inputSchema": {"type": "object"}}]});
    let listed = chain.list("tools/list", &json!({}), &[broken, tools(&["a"])]);
    assert_eq!(names(&listed, "tools", "name"), ["tide_y", "dock_a"]);
    assert!(!chain.gateway.take_diagnostics().is_empty());
}

#[test]
fn upstream_whose_entries_have_no_room_is_named() {
    let mut chain = GatewayHarness::new(MODERN, &[("tide", MODERN), ("dock", MODERN)]);
    let mut large = tools(&["a"]);
    large["tools"][0]["description"] = json!("x".repeat(5 << 20));
    let listed = chain.list("tools/list", &json!({}), &[large.clone(), large]);
    assert_eq!(names(&listed, "tools", "name"), ["tide_a"]);
    assert!(listed["_meta"][UNAVAILABLE]["dock"].as_str().expect("a reason").contains("no room"));
    // A large one shuts out no others.
    let mut large = tools(&["a"]);
    large["tools"][0]["description"] = json!("x".repeat((8 << 20) - 1_000));
    let mut small = tools(&["b"]);
    small["tools"][0]["description"] = json!("x".repeat(2_000));
    let listed = chain.list("tools/list", &json!({}), &[large, small]);
    assert_eq!(names(&listed, "tools", "name"), ["dock_b"]);
    assert!(listed["_meta"][UNAVAILABLE]["tide"].as_str().expect("a reason").contains("no room"));
}

#[test]
fn call_beyond_the_limit_of_its_upstream_is_refused() {
    let mut chain = GatewayHarness::new(MODERN, &BOTH);
    chain.gateway.limit_calls(0, Some(1));
    let first = chain.call_tool("tide_book");
    let call = chain.take_call(0);
    let second = chain.call_tool("tide_book");
    let error = chain.error(second);
    assert_eq!(error.message, "`tide`: 1 calls are in flight, which is the limit of this server");
    assert!(!chain.has_call(0));
    // Lists are no calls, and others have limits of their own.
    let result = chain.list("tools/list", &json!({}), &[tools(&["book"]), tools(&["book"])]);
    assert_eq!(names(&result, "tools", "name"), ["tide_book", "dock_book"]);
    chain.call_tool("dock_book");
    assert!(chain.has_call(1));
    chain.complete(0, &call, &text("done"));
    assert_eq!(chain.result(first)["content"], text("done")["content"]);
    chain.call_tool("tide_book");
    assert!(chain.has_call(0));
    chain.gateway.limit_calls(0, None);
    chain.call_tool("tide_book");
    assert!(chain.has_call(0));
}

/// Asks the client of a call who it is.
fn ask_who(chain: &mut GatewayHarness, index: usize) {
    let call = chain.take_call(index);
    let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}});
    let schema: ElicitSchema = serde_json::from_str(&schema.to_string()).expect("a form");
    let ask = InputRequest::Elicit(ElicitParams::form("who?", schema));
    let asks: InputRequests<'_> = [("who".to_owned(), ask)].into_iter().collect();
    let now = chain.now;
    chain.sides[index].server.engine().need_input(now, &call, &asks, b"asked").expect("it may ask");
    chain.settle();
    chain.wait(Duration::from_millis(100));
    assert_eq!(chain.take_inputs().len(), 1);
}

#[test]
fn call_whose_client_is_asked_does_not_count_for_the_limit() {
    for down in [LEGACY, MODERN] {
        let mut chain = GatewayHarness::new(down, &BOTH);
        chain.gateway.limit_calls(0, Some(1));
        chain.call_tool("tide_book");
        ask_who(&mut chain, 0);
        chain.call_tool("tide_book");
        assert!(chain.has_call(0), "{down}");
    }
}

#[test]
fn call_whose_client_is_asked_ends_with_its_server() {
    let mut chain = GatewayHarness::new(LEGACY, &BOTH);
    let call = chain.call_tool("tide_book");
    ask_who(&mut chain, 0);
    chain.with_gateway_of(|gateway, engines| gateway.remove(engines, 0));
    chain.settle();
    // It is not left until the client has answered.
    assert_eq!(chain.error(call).code, code::INVALID_PARAMS);
}

#[test]
fn instructions_are_those_of_all_upstreams_under_their_names() {
    for down in [Version::V2025_11_25, Version::V2026_07_28] {
        let mut chain = GatewayHarness::new(down, &BOTH);
        let text = "# tide\n\nAsk at high water.\n\n# dock\n\nAsk at high water.";
        let config = |chain: &mut GatewayHarness| chain.downstream.engine().config().clone();
        assert!(format!("{:?}", config(&mut chain)).contains(&format!("{text:?}")), "{down}");
        chain.with_gateway_of(|gateway, engines| gateway.remove(engines, 0));
        let left = format!("{:?}", config(&mut chain));
        assert!(left.contains("# dock") && !left.contains("# tide"), "{left}");
        assert!(!chain.gateway.awaits_first_start());
        // Without a principal nobody may learn of it.
        let gateway = Gateway::new(ClientCount::One).policy(|access| match access.upstream {
            "tide" => Decision::Hide,
            _ => Decision::Allow,
        });
        let mut chain = GatewayHarness::with_gateway(down, &BOTH, gateway);
        assert!(!format!("{:?}", config(&mut chain)).contains("# tide"));
    }
}

#[test]
fn instructions_have_a_bound_for_each_upstream_and_for_all() {
    let upstreams = ["a", "b", "c", "d", "e"].map(|name| (name, MODERN));
    let mut chain = GatewayHarness::new(MODERN, &upstreams);
    let mut say = |index: usize, text: &str| {
        let (_, _, mut peer) = connect_upstream(chain.now, MODERN, &ALL_CAPABILITIES);
        peer.instructions = Some(text.to_owned());
        chain.with_gateway_of(|gateway, engines| gateway.handle_started(engines, index, &peer));
        format!("{:?}", chain.downstream.engine().config())
    };
    // Characters, not bytes.
    assert_eq!(say(0, &"\u{436}".repeat(3_000)).matches('\u{436}').count(), 2_048);
    for index in 0..3 {
        say(index, &"~".repeat(3_000));
    }
    // What is too long for the rest has no part of it; what follows may fit.
    let joined = say(3, &"~".repeat(3_000));
    assert_eq!(joined.matches('~').count(), 3 * 2_048, "{joined}");
    let has = ["# a", "# b", "# c", "# d", "# e"].map(|name| joined.contains(name));
    assert_eq!(has, [true, true, true, false, true]);
}

#[test]
fn long_names_are_shortened_known_again_and_told() {
    let long = "x".repeat(90);
    for down in [Version::V2025_11_25, Version::V2026_07_28] {
        let mut chain = GatewayHarness::new(down, &BOTH);
        let listed = chain.list("tools/list", &json!({}), &[tools(&[&long, "pay"]), tools(&[])]);
        let shown = names(&listed, "tools", "name");
        let [short, "tide_pay"] = shown[..] else { panic!("{shown:?}") };
        assert_eq!((short.len(), short.starts_with("tide_xxx")), (64, true), "{short}");
        let [note] = &chain.gateway.take_notes()[..] else { panic!("one note") };
        assert!(note.contains(&format!("`tide_{long}` is shown as `{short}`")), "{note}");
        let key = chain.call_tool(short);
        let call = chain.take_call(0);
        assert_eq!(call.tool_call().expect("a tool").name, long);
        assert_eq!(call.tool_call().expect("a tool").arguments, br#"{"berth":"C14"}"#);
        chain.complete(0, &call, &json!({"content": []}));
        chain.result(key);
        // Another one of 64 characters is not of this list.
        chain.call_tool(&format!("tide_{}", "x".repeat(59)));
        assert_eq!(chain.take_call(0).tool_call().expect("a tool").name, "x".repeat(59));
        // So are prompts, also in completions.
        let prompts = [json!({"prompts": [{"name": long}]}), json!({"prompts": []})];
        let listed = chain.list("prompts/list", &json!({}), &prompts);
        let short = names(&listed, "prompts", "name")[0].to_owned();
        let reference = json!({"type": "ref/prompt", "name": short});
        chain.call("completion/complete", &json!({"ref": reference, "argument": {"name": "a", "value": ""}}));
        let call = chain.take_call(0);
        let params: Value = call.parse().expect("JSON");
        assert_eq!(params["ref"]["name"], long.as_str());
    }
}

#[test]
fn long_names_have_a_bound_and_are_forgotten_with_their_list() {
    let mut chain = GatewayHarness::new(MODERN, &BOTH);
    let mut many: Vec<String> = (0..3_000).map(|number| format!("{}{number}", "y".repeat(60))).collect();
    many.push("z".repeat(4_096));
    let many: Vec<&str> = many.iter().map(|name| &**name).collect();
    let long = "x".repeat(90);
    let listed = chain.list("tools/list", &json!({}), &[tools(&many), tools(&[&long])]);
    let shown = names(&listed, "tools", "name");
    // Upstreams have shares of one half of the table; the other half is filled in the order of arrival.
    assert_eq!(shown.len(), 1_024 + 512 + 1);
    assert!(chain.gateway.take_notes().iter().any(|note| note.contains("is left out: it is too long, or")));
    let (of_tide, of_dock) = (shown[700], shown[shown.len() - 1]);
    for (index, short, whole) in [(0, of_tide, many[700]), (1, of_dock, &*long)] {
        chain.call_tool(short);
        assert_eq!(chain.take_call(index).tool_call().expect("a tool").name, whole);
    }
    // What no list has any more is forgotten and makes room, also for another server.
    let many: Vec<String> = (0..1_000).map(|number| format!("{}{number}", "w".repeat(60))).collect();
    let many: Vec<&str> = many.iter().map(|name| &**name).collect();
    let listed = chain.list("tools/list", &json!({}), &[tools(&[]), tools(&many)]);
    assert_eq!(names(&listed, "tools", "name").len(), 1_000);
    for (index, short) in [(0, of_tide), (1, of_dock)] {
        chain.call_tool(short);
        let call = chain.take_call(index);
        assert!(short.ends_with(&*call.tool_call().expect("a tool").name), "it is the name of no other tool");
    }
}

#[test]
fn merged_list_is_as_private_as_the_most_private_part() {
    for scope in ["private", "public"] {
        let mut chain = GatewayHarness::new(MODERN, &[("tide", MODERN), ("dock", MODERN)]);
        let scoped = |name: &str, scope: &str| {
            let mut page = tools(&[name]);
            (page["cacheScope"], page["ttlMs"], page["nextCursor"]) =
                (json!(scope), json!(60_000), json!("2"));
            page
        };
        let parts = [scoped("a", "public"), scoped("b", scope)];
        let mut page = chain.list("tools/list", &json!({}), &parts);
        // What a gateway says is never for the caches of all: its lists are put together for each client.
        assert_eq!((&page["cacheScope"], names(&page, "tools", "name").len()), (&json!("private"), 2));
        page = chain.list("tools/list", &json!({"cursor": page["nextCursor"]}), &parts);
        assert_eq!((&page["cacheScope"], names(&page, "tools", "name").len()), (&json!("private"), 2));
    }
}

#[test]
fn resource_that_another_upstream_has_listed_before_is_told() {
    let mut chain = GatewayHarness::new(Version::V2026_07_28, &BOTH);
    let same = json!({"resources": [{"name": "log", "uri": "file:///log"}]});
    let listed = chain.list("resources/list", &json!({}), &[same.clone(), same]);
    assert_eq!(names(&listed, "resources", "uri"), ["file:///log"]);
    let [note] = &chain.gateway.take_notes()[..] else { panic!("one note") };
    assert!(note.starts_with("`dock`: the resource `file:///log` is left out: another server"), "{note}");
}
