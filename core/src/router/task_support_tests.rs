//! Decisions about calls of tools that support tasks.

use alloc::boxed::Box;
use alloc::rc::Rc;
use core::cell::RefCell;
use core::sync::atomic::{AtomicBool, Ordering};

use super::tests::*;
use super::*;
use crate::entropy::Entropy;
use crate::model::TaskSupport;
use crate::server::TaskTable;
use crate::time::Anchor;

fn router() -> TestRouter {
    let mut router = TestRouter::new("yard", "1");
    for name in ["plain", "forbidden", "optional", "required", "deferred"] {
        router.tool(tool(name), target_text).expect("a tool");
    }
    let schema = json!({"type": "object", "required": ["of"]});
    router.tool(Tool::new("other", raw(&schema)), target_text).expect("a tool");
    router.tool_entry("forbidden").task_support(TaskSupport::Forbidden);
    router.tool_entry("optional").task_support(TaskSupport::Optional);
    router.tool_entry("required").task_support(TaskSupport::Required);
    router.tool_entry("deferred").task_support(TaskSupport::Optional).defer_task();
    router
}

fn with_tasks(router: &TestRouter) -> RouterHarness {
    let mut harness = RouterHarness::new(router);
    let table = TaskTable::new(Entropy::new([7; 32], 0), Anchor::new(NOW, 1_785_578_400));
    harness.server.engine().set_tasks(NOW, table);
    harness
}

/// Sends a line; returns how each call was routed, and the messages that were sent.
fn send(harness: &mut RouterHarness, router: &TestRouter, line: &Value) -> (Vec<String>, Vec<Value>) {
    harness.server.handle_input(NOW, format!("{line}\n").as_bytes());
    let mut routes = Vec::new();
    while let Some(event) = harness.server.poll_event(NOW) {
        if let Event::Call(call) = event {
            routes.push(harness.answer(router, &call));
        }
    }
    let text = String::from_utf8(harness.server.transmit().to_vec()).expect("UTF-8");
    harness.server.consume(text.len());
    (routes, text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect())
}

/// Calls a tool in the modern revision.
fn call_modern(router: &TestRouter, name: &str, declares: bool) -> (Vec<String>, Value) {
    let mut harness = with_tasks(router);
    let extensions = if declares { json!({"io.modelcontextprotocol/tasks": {}}) } else { json!({}) };
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"extensions": extensions},
    });
    let params = json!({"name": name, "arguments": {}, "_meta": meta});
    let line = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let (routes, mut answers) = send(&mut harness, router, &line);
    (routes, answers.remove(0))
}

/// Calls a tool in a legacy revision.
fn call_legacy(router: &TestRouter, version: &str, name: &str, asks: bool) -> (Vec<String>, Value) {
    let mut harness = with_tasks(router);
    let open =
        json!({"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
    send(&mut harness, router, &json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": open}));
    send(&mut harness, router, &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    let mut params = json!({"name": name, "arguments": {}});
    if asks {
        params["task"] = json!({});
    }
    let line = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let (routes, mut answers) = send(&mut harness, router, &line);
    (routes, answers.remove(0))
}

// covers: TASK-102, TASK-103, TASK-104
#[test]
fn modern_call_becomes_a_task_if_tool_and_client_support_it() {
    let router = router();
    for name in ["plain", "forbidden", "deferred"] {
        for declares in [false, true] {
            let (routes, answer) = call_modern(&router, name, declares);
            assert_eq!((routes, text(&answer)), (["handled".to_string()].into(), &*format!("{name}({{}})")));
        }
    }
    assert_eq!(text(&call_modern(&router, "optional", false).1), "optional({})");
    let (routes, answer) = call_modern(&router, "required", false);
    assert_eq!((routes, code(&answer)), (["refused".to_string()].into(), -32021));
    for name in ["optional", "required"] {
        let (routes, answer) = call_modern(&router, name, true);
        assert_eq!(routes, ["begun", "handled"], "{name}");
        assert_eq!(answer["result"]["resultType"], "task", "{answer}");
    }
}

// covers: TASK-005, TASK-006, TASK-007, TASK-010
#[test]
fn legacy_call_becomes_a_task_if_client_asks_and_tool_supports_it() {
    let router = router();
    for (name, asks, outcome) in [
        ("plain", false, Ok("handled")),
        ("forbidden", false, Ok("handled")),
        ("optional", false, Ok("handled")),
        ("deferred", false, Ok("handled")),
        ("required", false, Err(-32601)),
        ("plain", true, Err(-32601)),
        ("forbidden", true, Err(-32601)),
        ("optional", true, Ok("begun")),
        ("required", true, Ok("begun")),
        // The client expects a task, so the handler asks in the task.
        ("deferred", true, Ok("begun")),
    ] {
        let (routes, answer) = call_legacy(&router, "2025-11-25", name, asks);
        match outcome {
            Ok(route) => assert_eq!(routes[0], route, "{name}"),
            Err(expected) => assert_eq!((&*routes[0], code(&answer)), ("refused", expected), "{name}"),
        }
        assert_eq!(answer["result"]["task"].is_object(), outcome == Ok("begun"), "{answer}");
    }
    // Before, there are no tasks: the member is ignored.
    assert_eq!(call_legacy(&router, "2025-06-18", "optional", true).0, ["handled"]);
    assert_eq!(code(&call_legacy(&router, "2025-06-18", "required", true).1), -32601);
}

#[test]
fn arguments_are_checked_before_a_task_begins() {
    struct Required;
    impl Validate for Required {
        fn validate(&self, value: &[u8]) -> Result<(), Violations> {
            let text = core::str::from_utf8(value).expect("UTF-8");
            if text.contains("\"of\"") { Ok(()) } else { Err(Violations::default()) }
        }
    }
    struct RequiredOf;
    impl SchemaValidator for RequiredOf {
        fn compile(&self, _: &RawJson) -> Result<Box<dyn Validate>, SchemaError> {
            Ok(Box::new(Required))
        }
    }
    let mut router = router();
    router.validator(RequiredOf).expect("schemas");
    let (routes, answer) = call_modern(&router, "optional", true);
    assert_eq!((routes, &answer["result"]["isError"]), (["answered".to_string()].into(), &json!(true)));
}

#[test]
fn hooks_see_a_task_begin_and_its_run() {
    struct Outcomes(Rc<RefCell<Vec<String>>>);
    impl Hook for Outcomes {
        fn after_call(&self, context: &HookContext<'_>, outcome: HookOutcome<'_>) {
            self.0.borrow_mut().push(format!("{outcome:?} {}", context.call().is_task_run()));
        }
    }
    let (mut router, seen) = (router(), Rc::new(RefCell::new(Vec::new())));
    router.hook(Box::new(Outcomes(seen.clone())));
    call_modern(&router, "optional", true);
    assert_eq!(*seen.borrow(), ["TaskBegun false", "Completed true"]);
}

#[test]
fn tools_that_require_tasks_are_named_for_a_server_without_them() {
    let mut errors = RegisterErrors::default();
    router().check_tools_without_tasks(&mut errors);
    assert_eq!(
        format!("{errors}"),
        "the tool `required` requires tasks, and the router has none: call `tasks` on it"
    );
    // A call of it is refused, too.
    let router = router();
    let mut harness = RouterHarness::new(&router);
    assert_eq!(code(&harness.ask(&router, "tools/call", json!({"name": "required"}))), -32021);
}

#[test]
fn tool_that_is_registered_again_defers_tasks_as_before() {
    let mut router = router();
    let mut again = tool("deferred");
    again.execution = Some(Box::new(crate::model::ToolExecution::new().task_support(TaskSupport::Optional)));
    router.replace_tool(again, target_text).expect("replaced");
    assert_eq!(call_modern(&router, "deferred", true).0, ["handled"]);
}

#[test]
fn run_of_a_task_goes_on_after_the_right_has_ended() {
    let (mut router, may) = (router(), AtomicBool::new(true));
    router.tool_entry("required").visible_to(move |_| may.swap(false, Ordering::Relaxed));
    let (routes, answer) = call_modern(&router, "required", true);
    assert_eq!(routes, ["begun", "handled"], "{answer}");
    let (routes, answer) = call_modern(&router, "required", true);
    assert_eq!((&*routes.concat(), code(&answer)), ("refused", -32602), "the next call has no right");
}
