//! Tasks of clients and of servers, in both forms.

use core::time::Duration;

use mcp_proto::client::{Event, TaskRequest};
use mcp_proto::model::{ElicitParams, ElicitSchema, InputRequest, InputRequests};
use mcp_proto::rpc::code;
use mcp_proto::server::{self, Call, TaskOffer, TaskOptions};
use mcp_proto::{CallError, CallKey, CallOptions, Capability, Version};
use serde_json::{Value, json};

use super::gateway_harness::GatewayHarness;
use super::harness::{ALL_CAPABILITIES, BridgeHarness};
use crate::{ClientCount, Gateway};

const LEGACY: Version = Version::V2025_11_25;
const MODERN: Version = Version::V2026_07_28;
const PAIRS: [(Version, Version); 4] =
    [(LEGACY, MODERN), (MODERN, LEGACY), (MODERN, MODERN), (LEGACY, LEGACY)];

/// Connects a client with tasks to a server with tasks.
fn chain(down: Version, up: Version) -> BridgeHarness {
    let able: Vec<_> = ALL_CAPABILITIES.into_iter().chain([Capability::TasksExtension]).collect();
    BridgeHarness::with_capabilities(down, up, &able, &ALL_CAPABILITIES, ClientCount::One)
}

/// Calls a tool as a task.
fn start(chain: &mut BridgeHarness, task: TaskRequest) -> CallKey {
    let (now, options) = (chain.now, CallOptions::new().with_progress());
    let engine = chain.client.engine();
    let key = engine.call_tool_as_task(now, "build", &json!({"keel": 1}), task, &options).expect("tasks");
    chain.settle();
    key
}

/// Makes a task of the call that reached the server. Returns its run.
fn begin(chain: &mut BridgeHarness) -> Call {
    let (call, now) = (chain.take_server_call(), chain.now);
    assert_ne!(call.task_offer(), TaskOffer::None);
    let options = TaskOptions::new().poll_interval(Duration::from_secs(2));
    chain.server.engine().tasks(now).begin(&call, options).expect("room");
    chain.settle();
    let run = chain.take_server_call();
    assert!(run.is_task_run());
    assert_eq!(run.tool_call().expect("a tool").arguments, br#"{"keel":1}"#);
    run
}

/// Returns the messages of the task that the client was told of.
fn messages(chain: &mut BridgeHarness) -> Vec<String> {
    let events = chain.take_client_events().into_iter();
    let messages = events.filter_map(|event| match event {
        Event::Task { task, .. } => task.status_message,
        _ => None,
    });
    messages.collect()
}

#[test]
fn task_is_followed_through_the_bridge_to_its_result() {
    for (down, up) in PAIRS {
        let mut chain = chain(down, up);
        let key = start(&mut chain, TaskRequest::followed());
        let run = begin(&mut chain);
        let is_task = |event: &Event| matches!(event, Event::Task { call, .. } if *call == key);
        assert!(chain.client_events.iter().any(is_task), "{down} {up}");
        if (down, up) == (LEGACY, LEGACY) {
            chain.progress(&run, 1.0);
            let is_progress = |event: &Event| matches!(event, Event::Progress { call, .. } if *call == key);
            assert!(chain.client_events.iter().any(is_progress));
        }
        let now = chain.now;
        assert!(chain.server.engine().tasks(now).working(run.id(), "laying the keel"));
        chain.wait(Duration::from_secs(30));
        assert_eq!(messages(&mut chain).last().map(String::as_str), Some("laying the keel"), "{down} {up}");
        chain.complete(&run, &json!({"content": [{"type": "text", "text": "a boat"}]}));
        chain.wait(Duration::from_secs(60));
        assert_eq!(chain.result(key)["content"][0]["text"], "a boat", "{down} {up}");
        assert_eq!(chain.relay.pending_calls(), 0);

        // One that fails.
        let key = start(&mut chain, TaskRequest::followed());
        let run = begin(&mut chain);
        chain.fail(&run, &mcp_proto::RpcError::invalid_params("no wood"));
        chain.wait(Duration::from_secs(60));
        assert!(chain.error(key).message.contains("no wood"), "{down} {up}");
    }
}

#[test]
fn task_is_polled_cancelled_and_outlives_a_plain_call() {
    for (down, up) in PAIRS {
        let mut chain = chain(down, up);
        let key = start(&mut chain, TaskRequest::detached());
        let run = begin(&mut chain);
        let created = chain.outcome(key).expect("a task").parse::<Value>().expect("JSON");
        let id = created.pointer("/task/taskId").unwrap_or_else(|| &created["taskId"]).clone();
        let poll = chain.call("tasks/get", &json!({"taskId": id}));
        assert_eq!(chain.result(poll)["status"], "working", "{down} {up}");
        let cancel = chain.call("tasks/cancel", &json!({"taskId": id}));
        chain.outcome(cancel).expect("it is cancelled");
        chain.wait(Duration::from_secs(60));
        assert!(chain.was_cancelled(&run), "{down} {up}");
        assert_eq!(chain.relay.pending_calls(), 0);
        let poll = chain.call("tasks/get", &json!({"taskId": id}));
        assert_eq!(chain.result(poll)["status"], "cancelled", "{down} {up}");
    }
}

#[test]
fn task_asks_the_user_and_can_be_cancelled_meanwhile() {
    for (down, up) in PAIRS {
        for is_cancelled in [false, true] {
            let mut chain = chain(down, up);
            let key = start(&mut chain, TaskRequest::followed());
            let run = begin(&mut chain);
            let schema =
                serde_json::from_str::<ElicitSchema>(r#"{"type":"object","properties":{}}"#).expect("a form");
            let ask = InputRequest::Elicit(ElicitParams::form("which wood?", schema));
            let asks: InputRequests<'_> = [("wood".to_owned(), ask)].into_iter().collect();
            let now = chain.now;
            chain.server.engine().need_input(now, &run, &asks, b"asked").expect("it may ask");
            chain.wait(Duration::from_secs(60));
            let inputs = chain.take_inputs();
            let [input] = &inputs[..] else { panic!("{down} {up}: {inputs:?}") };
            if is_cancelled {
                let now = chain.now;
                chain.client.engine().cancel(now, key, None).expect("it is open");
                chain.wait(Duration::from_secs(30));
                assert_eq!(chain.relay.pending_calls(), 0, "{down} {up}");
                let is_dropped = |event: &server::Event| matches!(event, server::Event::ParkedCallDropped { state } if **state == *b"asked");
                assert!(chain.server_events.iter().any(is_dropped), "{down} {up}");
                continue;
            }
            chain.answer_input(input, &json!({"action": "accept", "content": {}}));
            chain.wait(Duration::from_secs(60));
            let again = chain.take_server_call();
            assert_eq!((again.attempt(), again.is_task_run()), (1, true));
            chain.complete(&again, &json!({"content": []}));
            chain.wait(Duration::from_secs(60));
            assert_eq!(chain.result(key)["content"], json!([]), "{down} {up}");
        }
    }
}

#[test]
fn task_that_waits_for_its_client_ends_with_the_call_of_the_server() {
    for (down, up) in PAIRS {
        for end in ["withdrawn", "server gone", "no answer"] {
            let mut chain = chain(down, up);
            let key = start(&mut chain, TaskRequest::followed());
            let run = begin(&mut chain);
            let ask = InputRequest::Elicit(ElicitParams::form("which wood?", ElicitSchema::default()));
            let asks: InputRequests<'_> = [("wood".to_owned(), ask)].into_iter().collect();
            let now = chain.now;
            chain.server.engine().need_input(now, &run, &asks, b"asked").expect("it may ask");
            chain.wait(Duration::from_secs(60));
            assert_eq!(chain.take_inputs().len(), 1, "{down} {up} {end}");
            match end {
                "withdrawn" => {
                    let now = chain.now;
                    assert!(chain.server.engine().withdraw_input(now, b"asked", None));
                    chain.settle();
                    let again = chain.take_server_call();
                    assert_eq!(again.answer("wood"), Some(Err(&CallError::Cancelled)));
                    chain.complete(&again, &json!({"content": []}));
                }
                "server gone" => chain.kill_server(),
                // The server gives up, too, and then answers.
                _ => {
                    chain.wait(Duration::from_secs(3_600));
                    if chain.has_server_call() {
                        let again = chain.take_server_call();
                        chain.fail(&again, &mcp_proto::RpcError::internal("no answer"));
                    }
                }
            }
            chain.wait(Duration::from_secs(60));
            let is_withdrawn = |event: &Event| matches!(event, Event::InputWithdrawn(_));
            assert!(chain.take_client_events().iter().any(is_withdrawn), "{down} {up} {end}");
            let outcome = chain.outcome(key);
            assert_eq!(outcome.is_ok(), end == "withdrawn", "{down} {up} {end}: {outcome:?}");
            assert_eq!(chain.relay.pending_calls(), 0);
        }
    }
}

#[test]
fn server_that_refuses_one_form_of_a_call_is_called_in_the_other() {
    for down in [LEGACY, MODERN] {
        // A tool that must be called as a task, by a client without tasks.
        let mut plain = BridgeHarness::new(down, LEGACY);
        let key = plain.call_unknown_tool();
        let call = plain.take_server_call();
        assert_eq!(call.task_offer(), TaskOffer::None);
        plain.fail(&call, &call.task_required_error());
        let call = plain.take_server_call();
        assert_eq!(call.task_offer(), TaskOffer::Requested);
        let now = plain.now;
        plain.server.engine().tasks(now).begin(&call, TaskOptions::new()).expect("room");
        plain.settle();
        let run = plain.take_server_call();
        plain.complete(&run, &json!({"content": []}));
        plain.wait(Duration::from_secs(60));
        assert_eq!(plain.result(key)["content"], json!([]), "{down}");
        // One that no server has is refused twice, and no more.
        let key = plain.call_unknown_tool();
        for _ in 0..2 {
            let call = plain.take_server_call();
            plain.fail(&call, &mcp_proto::RpcError::method_not_found("tools/call"));
        }
        assert_eq!(plain.error(key).code, code::METHOD_NOT_FOUND);
        assert!(!plain.has_server_call());
    }
    // A tool that cannot be a task, by a client with tasks. The next call of it is plain at once.
    let mut chain = chain(MODERN, LEGACY);
    let key = start(&mut chain, TaskRequest::followed());
    let call = chain.take_server_call();
    chain.fail(&call, &call.task_forbidden_error());
    for key in [Some(key), None] {
        let key = key.unwrap_or_else(|| start(&mut chain, TaskRequest::followed()));
        let call = chain.take_server_call();
        assert_eq!(call.task_offer(), TaskOffer::None);
        chain.complete(&call, &json!({"content": []}));
        assert_eq!(chain.result(key)["content"], json!([]));
    }
}

/// Begins a task of a client, which a server of 2026-07-28 makes of the call. Returns what is to be answered for it: the call, or the run if
/// the server has room for it.
fn occupy(chain: &mut BridgeHarness, down: Version) -> (CallKey, Option<Call>) {
    let key = start(chain, TaskRequest::detached());
    let call = chain.take_server_call();
    if down == LEGACY {
        return (key, Some(call));
    }
    let now = chain.now;
    let options = TaskOptions::new().poll_interval(Duration::from_secs(20));
    chain.server.engine().tasks(now).begin(&call, options).expect("room");
    chain.settle();
    (key, chain.has_server_call().then(|| chain.take_server_call()))
}

#[test]
fn tasks_of_a_server_have_a_bound_and_plain_calls_go_on_beyond_it() {
    for down in [LEGACY, MODERN] {
        let mut chain = chain(down, MODERN);
        let first = occupy(&mut chain, down).1.expect("it runs");
        for _ in 1..512 {
            let (key, _) = occupy(&mut chain, down);
            assert!(chain.outcome(key).expect("a task").as_str().contains("taskId"), "{down}");
        }
        // The next client that asks for a task is refused, and nothing is done for it; one that takes what comes waits for the result.
        let (now, key) = (chain.now, start(&mut chain, TaskRequest::followed()));
        if down == LEGACY {
            let error = chain.error(key);
            assert!(error.message.starts_with("512 tasks of this server run"), "{}", error.message);
            assert!(!chain.has_server_call());
        } else {
            let call = chain.take_server_call();
            chain.server.engine().tasks(now).begin(&call, TaskOptions::new()).expect("room");
            chain.settle();
            let is_task = |event: &Event| matches!(event, Event::Task { call, .. } if *call == key);
            assert!(!chain.has_ended(key) && !chain.client_events.iter().any(is_task));
        }
        let key = chain.call_unknown_tool();
        let call = chain.take_server_call();
        chain.complete(&call, &json!({"content": []}));
        assert_eq!(chain.result(key)["content"], json!([]));
        // One that ends makes room.
        chain.complete(&first, &json!({"content": []}));
        chain.wait(Duration::from_secs(25));
        // The server runs the next one.
        while chain.has_server_call() {
            chain.take_server_call();
        }
        let (key, _) = occupy(&mut chain, down);
        assert!(chain.outcome(key).expect("a task").as_str().contains("taskId"), "{down}");
    }
}

#[test]
fn client_that_has_to_ask_for_tasks_learns_that_it_can() {
    let mut chain = chain(LEGACY, MODERN);
    let key = chain.call("tools/list", &json!({}));
    let call = chain.take_server_call();
    chain.complete(&call, &json!({"tools": [{"name": "build", "inputSchema": {"type": "object"}}]}));
    assert_eq!(chain.result(key)["tools"][0]["execution"], json!({"taskSupport": "optional"}));
}

#[test]
fn task_of_a_server_behind_a_gateway_is_followed() {
    for down in [LEGACY, MODERN] {
        for up in [LEGACY, MODERN] {
            let (upstreams, gateway) = ([("yard", up), ("dock", up)], Gateway::new(ClientCount::One));
            let mut chain = GatewayHarness::with_client(true, down, &upstreams, gateway);
            let (now, options) = (chain.now, CallOptions::new());
            let task = TaskRequest::followed();
            let call = chain.client.engine().call_tool_as_task(now, "dock_build", &json!({}), task, &options);
            let key = call.expect("tasks");
            chain.settle();
            let call = chain.take_call(1);
            assert_eq!(call.tool_call().expect("a tool").name, "build");
            let now = chain.now;
            chain.sides[1].server.engine().tasks(now).begin(&call, TaskOptions::new()).expect("room");
            chain.settle();
            let run = chain.take_call(1);
            chain.complete(1, &run, &json!({"content": [{"type": "text", "text": "a boat"}]}));
            chain.wait(Duration::from_secs(60));
            assert_eq!(chain.result(key)["content"][0]["text"], "a boat", "{down} {up}");
            // One that is removed ends its tasks.
            let now = chain.now;
            let call = chain.client.engine().call_tool_as_task(now, "dock_build", &json!({}), task, &options);
            let key = call.expect("tasks");
            chain.settle();
            chain.with_gateway_of(|gateway, engines| gateway.remove(engines, 1));
            chain.wait(Duration::from_secs(60));
            assert!(chain.error(key).message.contains("removed"), "{down} {up}");
        }
    }
}
