//! Tests of calls that go on after a right has ended, and of visibility functions that fail.

use alloc::borrow::Cow;
use core::panic::AssertUnwindSafe;
use core::sync::atomic::{AtomicBool, Ordering};

use super::tests::*;
use super::*;
use crate::server::Caller;

/// Sees everything, and panics about the tool `shy` while `fails` is set. All callers have one view.
struct Fails(Arc<AtomicBool>);

impl Visibility for Fails {
    fn is_visible(&self, _: &Caller, entry: Subject<'_>) -> bool {
        assert!(entry != Subject::Tool("shy") || !self.0.load(Ordering::Relaxed), "a test of panics");
        true
    }

    fn view<'c>(&self, _: &'c Caller) -> Option<Cow<'c, str>> {
        Some("all".into())
    }
}

#[test]
fn failure_of_a_function_hides_its_entry_for_the_request_and_is_not_remembered() {
    let fails = Arc::new(AtomicBool::new(true));
    let mut router = TestRouter::new("x", "1");
    router.guard_visibility(|function| std::panic::catch_unwind(AssertUnwindSafe(function)).unwrap_or(false));
    router.visibility(Fails(fails.clone()));
    for name in ["shy", "good"] {
        router.tool(tool(name), target_text).expect("a tool");
    }
    let mut harness = RouterHarness::new(&router);
    let mut list = |fails_now| {
        fails.store(fails_now, Ordering::Relaxed);
        names(&harness.ask(&router, "tools/list", json!({})), "tools").join(" ")
    };
    assert_eq!([list(true), list(true)], ["good", "good"]);
    assert_eq!(list(false), "shy good", "the next request asks again");
    assert_eq!(list(true), "shy good", "and its answer is remembered");
}

/// A call that asked its client goes on in both eras, although its caller does not see the tool any more; a new call
/// does not, and neither does one that only pretends to go on.
// covers: MRTR-020, TOOL-021
#[test]
fn call_that_waited_for_input_goes_on_after_its_right_has_ended() {
    use crate::model::{ElicitParams, ElicitSchema, InputRequest};
    use crate::seal::Keys;
    use crate::server::InputRequired;
    use crate::time::Anchor;

    let ask = |harness: &mut RouterHarness, call: &Call| {
        let mut input = InputRequired::new();
        let form = ElicitParams::form("?", ElicitSchema::default());
        let _ = input.request_input(call, "k", InputRequest::Elicit(form));
        harness.server.engine().require_input(NOW, call, &input).expect("the client answers forms");
    };
    for version in [Version::V2026_07_28, Version::V2025_11_25] {
        let right = Arc::new(AtomicBool::new(true));
        let mut router = TestRouter::new("x", "1");
        router.tool(tool("t"), target_text).expect("a tool");
        let has_right = right.clone();
        router.tool_entry("t").visible_to(move |_| has_right.load(Ordering::Relaxed));
        let mut harness = RouterHarness::new(&router);
        let config = router.config().seal(Keys::new([7; 32]), Anchor::default());
        harness.server = Server::new(Arc::new(config), NOW);
        let mut id = 0;
        let mut send = |harness: &mut RouterHarness, mut message: Value| {
            if message["method"].is_string() && version == Version::V2026_07_28 {
                message["params"]["_meta"] = json!({
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
                });
            }
            if message["method"].is_string() && message["method"] != "notifications/initialized" {
                id += 1;
                message["id"] = id.into();
            }
            message["jsonrpc"] = "2.0".into();
            harness.server.handle_input(NOW, format!("{message}\n").as_bytes());
            core::iter::from_fn(|| harness.server.poll_event(NOW))
                .find_map(|event| if let Event::Call(call) = event { Some(call) } else { None })
        };
        let read = |harness: &mut RouterHarness| -> Value {
            let text = String::from_utf8(harness.server.transmit().to_vec()).expect("UTF-8");
            harness.server.consume(text.len());
            serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"))
        };
        let is_handled = |call: &Call| matches!(router.route(call), Route::Handle(_));
        if version == Version::V2025_11_25 {
            let params = json!({"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}},
                "clientInfo": {"name": "n", "version": "1"}});
            send(&mut harness, json!({"method": "initialize", "params": params}));
            read(&mut harness);
            send(&mut harness, json!({"method": "notifications/initialized"}));
        }
        let plain = json!({"method": "tools/call", "params": {"name": "t"}});
        let call = send(&mut harness, plain.clone()).expect("a call");
        assert!(is_handled(&call), "{version}");
        ask(&mut harness, &call);
        let question = read(&mut harness);

        right.store(false, Ordering::Relaxed);
        let answer = json!({"action": "accept", "content": {}});
        let resumed = if version == Version::V2026_07_28 {
            let mut retry = plain.clone();
            retry["params"]["inputResponses"] = json!({"k": answer});
            // Without the state nothing proves that it goes on.
            let invented = send(&mut harness, retry.clone()).expect("a call");
            assert!(!is_handled(&invented));
            retry["params"]["requestState"] = question["result"]["requestState"].clone();
            send(&mut harness, retry)
        } else {
            send(&mut harness, json!({"id": question["id"], "result": answer}))
        };
        assert!(is_handled(&resumed.expect("the call is delivered again")), "{version}");
        let new = send(&mut harness, plain).expect("a call");
        assert!(matches!(router.route(&new), Route::Refuse(error) if error.code == -32602), "{version}");
    }
}
