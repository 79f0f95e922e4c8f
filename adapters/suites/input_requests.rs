//! Suite: a handler that sends input requests, in both eras.
//!
//! `crate::adapter` names the adapter under test.

#![allow(elided_lifetimes_in_paths, reason = "the context has a lifetime in some adapters only")]

use alloc::sync::Arc;
use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::Mutex;

use mcp_proto::model::{
    CreateMessageParams, ElicitAction, ElicitSchema, LoggingLevel, SamplingMessage, StringSchema, Tool,
};
use mcp_proto::router::{Hook, HookContext, HookOutcome};
use mcp_proto::server::Config;
use mcp_proto::{Capabilities, Capability, RawJson, RpcError};
use mcp_std::io::{Duplex, Interest};
use serde_json::{Value, json};

use crate::adapter::{Cx, Router, handler, serve_stream};
use crate::support::{DEADLINE, with_timeout};

/// Elicits a name, then samples a line about it.
#[expect(deprecated, reason = "tested until its removal")]
fn ask_twice(cx: &mut Cx, _: Value) -> Result<String, RpcError> {
    let form =
        ElicitSchema::new([("name", StringSchema::new().min_length(2u64).into())]).required(["name".into()]);
    let name = cx.elicit("name", "For whom?", form)?;
    cx.log(&LoggingLevel::Info, None, "asked").ok();
    if name.action != ElicitAction::Accept {
        return Ok("never mind".into());
    }
    let name = name.content.unwrap_or_default().get("name").map(|n| format!("{n:?}")).unwrap_or_default();
    let line = cx.sample("line", CreateMessageParams::new([SamplingMessage::user(name.clone())], 50u64))?;
    Ok(format!("{name} {}", line.model))
}

/// Takes a ticket, which must happen once, and asks for a name.
fn take_ticket(cx: &mut Cx, tickets: &AtomicU32) -> Result<String, RpcError> {
    let ticket = cx.once("ticket", || tickets.fetch_add(1, Ordering::Relaxed) + 1)?;
    let same = cx.once("ticket", || 1_000)?;
    let form = ElicitSchema::new([("name", StringSchema::new().into())]);
    let name = cx.elicit("name", "For whom?", form)?;
    Ok(format!("{ticket} {same} {:?} {}", name.action, tickets.load(Ordering::Relaxed)))
}

/// Requests the roots and ignores an error.
#[expect(deprecated, reason = "tested until its removal")]
fn ask_unsupported(cx: &mut Cx, _: Value) -> &'static str {
    match cx.list_roots("roots") {
        Ok(_) => "seen",
        Err(_) => "not seen",
    }
}

fn router() -> Router {
    let mut router = Router::new("poet", "1.0");
    let tool = |name| Tool::new(name, RawJson::new(r#"{"type":"object"}"#).unwrap());
    router
        .tool_with(tool("verse"), handler!(|cx: &mut Cx, arguments: Value| ask_twice(cx, arguments)))
        .tool_with(
            tool("stubborn"),
            handler!(|cx: &mut Cx, arguments: Value| ask_unsupported(cx, arguments)),
        );
    let tickets = AtomicU32::new(6);
    router.tool_with(tool("ticket"), handler!(move |cx: &mut Cx, _: Value| take_ticket(cx, &tickets)));
    router
}

/// The client end of a stream, and the bytes read ahead.
struct RawConnection(Box<dyn Duplex>, Vec<u8>);

impl RawConnection {
    fn send(&mut self, message: &Value) {
        let mut line = message.to_string().into_bytes();
        line.push(b'\n');
        while !line.is_empty() {
            match self.0.write(&line) {
                Ok(n) => drop(line.drain(..n)),
                Err(_) => drop(self.0.wait(Interest { read: false, write: true }, Some(DEADLINE))),
            }
        }
    }

    fn receive(&mut self) -> Value {
        loop {
            if let Some(end) = self.1.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = self.1.drain(..=end).collect();
                return serde_json::from_slice(&line).unwrap();
            }
            let mut some = [0; 512];
            match self.0.read(&mut some) {
                Ok(0) => panic!("the server is gone"),
                Ok(n) => self.1.extend_from_slice(&some[..n]),
                Err(_) => drop(self.0.wait(Interest { read: true, write: false }, Some(DEADLINE))),
            }
        }
    }

    fn request(&mut self, message: &Value) -> Value {
        self.send(message);
        self.receive()
    }
}

/// Runs `client` against a server of the router. The server must end without an error.
fn with_raw_client(config: Option<Config>, client: impl FnOnce(&mut RawConnection) + Send + 'static) {
    with_timeout(move || {
        let (stream, server) = serve_stream(router, config);
        let mut raw = RawConnection(stream, Vec::new());
        client(&mut raw);
        drop(raw);
        server.join().unwrap().unwrap();
    });
}

fn modern_call(id: u32, tool: &str, capabilities: &Value, more: Value) -> Value {
    let mut params = json!({"name": tool, "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities}});
    let Value::Object(more) = more else { panic!("an object") };
    params.as_object_mut().unwrap().extend(more);
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
}

fn name_response(name: &str) -> Value {
    json!({"action": "accept", "content": {"name": name}})
}

fn line_response() -> Value {
    json!({"role": "assistant", "content": {"type": "text", "text": "x"}, "model": "muse"})
}

fn all_capabilities() -> Value {
    json!({"elicitation": {}, "sampling": {}, "roots": {}})
}

// covers: MRTR-001, MRTR-026, MRTR-027, MRTR-029, ELIC-020
#[test]
fn handler_with_two_input_requests_takes_three_modern_rounds() {
    with_raw_client(None, |raw| {
        let first = raw.request(&modern_call(1, "verse", &all_capabilities(), json!({})));
        assert_eq!(first["result"]["inputRequests"]["name"]["method"], "elicitation/create");
        let retry = |answers: Value, last: &Value| json!({"inputResponses": answers, "requestState": last["result"]["requestState"]});
        // A response that does not fit the form repeats the input request.
        let again = raw.request(&modern_call(
            2,
            "verse",
            &all_capabilities(),
            retry(json!({"name": name_response("x")}), &first),
        ));
        assert_eq!(again["result"]["inputRequests"]["name"]["method"], "elicitation/create");
        let second = raw.request(&modern_call(
            3,
            "verse",
            &all_capabilities(),
            retry(json!({"name": name_response("Alice")}), &again),
        ));
        let round = &second["result"]["inputRequests"];
        assert_eq!(
            (round.as_object().unwrap().len(), &round["line"]["method"]),
            (1, &json!("sampling/createMessage"))
        );
        let last = raw.request(&modern_call(
            4,
            "verse",
            &all_capabilities(),
            retry(json!({"line": line_response()}), &second),
        ));
        assert!(last["result"]["content"][0]["text"].as_str().unwrap().ends_with(" muse"), "{last}");
        // A client without the capability gets an error that names it.
        let poor = raw.request(&modern_call(5, "verse", &json!({}), json!({})));
        assert_eq!(poor["error"]["code"], -32021);
        assert_eq!(poor["error"]["data"]["requiredCapabilities"], json!({"elicitation": {"form": {}}}));
        // An input request is sent even if the handler ignores its error.
        let stubborn = raw.request(&modern_call(6, "stubborn", &all_capabilities(), json!({})));
        assert_eq!(stubborn["result"]["inputRequests"]["roots"]["method"], "roots/list");
    });
}

// covers: ELIC-006, SAMP-003, ELIC-018
#[test]
fn handler_with_two_input_requests_sends_legacy_requests() {
    with_raw_client(None, |raw| {
        let opening = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-11-25",
            "capabilities": all_capabilities(), "clientInfo": {"name": "x", "version": "1"}}});
        raw.request(&opening);
        raw.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        let call = |id: u32| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "verse"}});
        let answer = |to: &Value, result: Value| json!({"jsonrpc": "2.0", "id": to["id"], "result": result});
        let first = raw.request(&call(1));
        assert_eq!(first["method"], "elicitation/create");
        let second = raw.request(&answer(&first, name_response("Alice")));
        assert_eq!(second["method"], "sampling/createMessage");
        let last = raw.request(&answer(&second, line_response()));
        assert_eq!(last["id"], 1);
        assert!(last["result"]["content"][0]["text"].as_str().unwrap().ends_with(" muse"), "{last}");
        let first = raw.request(&call(2));
        let declined = raw.request(&answer(&first, json!({"action": "decline"})));
        assert_eq!(declined["result"]["content"][0]["text"], "never mind");
        // Refused sampling is an error in the handler, whose `?` makes it the answer.
        let first = raw.request(&call(3));
        let second = raw.request(&answer(&first, name_response("Bob")));
        let refusal = json!({"jsonrpc": "2.0", "id": second["id"], "error": {"code": -1, "message": "rejected by the user"}});
        assert_eq!(raw.request(&refusal)["error"]["code"], -32603);
    });
}

#[test]
fn kept_value_is_made_once_in_modern_rounds() {
    with_raw_client(None, |raw| {
        // A client cannot supply the value: its key is none of an input request.
        let forged = json!({"inputResponses": {"\u{1}ticket": {"n": 1}}});
        let first = raw.request(&modern_call(1, "ticket", &all_capabilities(), forged));
        assert_eq!(first["result"]["resultType"], "input_required");
        let state = &first["result"]["requestState"];
        let retry = json!({"inputResponses": {"name": name_response("Alice"), "\u{1}ticket": {"n": 1}}, "requestState": state});
        let last = raw.request(&modern_call(2, "ticket", &all_capabilities(), retry));
        assert_eq!(last["result"]["content"][0]["text"], "7 7 Accept 7", "{last}");
        // Another call has a value of its own.
        let next = raw.request(&modern_call(3, "ticket", &all_capabilities(), json!({})));
        let retry = json!({"inputResponses": {"name": name_response("Bob")}, "requestState": next["result"]["requestState"]});
        let last = raw.request(&modern_call(4, "ticket", &all_capabilities(), retry));
        assert_eq!(last["result"]["content"][0]["text"], "8 8 Accept 8", "{last}");
    });
}

#[test]
fn kept_value_is_made_once_in_legacy_rounds() {
    with_raw_client(None, |raw| {
        let opening = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-11-25",
            "capabilities": all_capabilities(), "clientInfo": {"name": "x", "version": "1"}}});
        raw.request(&opening);
        raw.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "ticket"}});
        let question = raw.request(&call);
        assert_eq!(question["method"], "elicitation/create");
        let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": name_response("Alice")});
        let last = raw.request(&answer);
        assert_eq!(last["result"]["content"][0]["text"], "7 7 Accept 7", "{last}");
    });
}

// covers: LOG-008
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn handler_logs_at_requested_level() {
    let capabilities = Capabilities::new().with(Capability::Tools).with(Capability::Logging);
    with_raw_client(Some(Config::new("poet", "1.0").capabilities(capabilities)), |raw| {
        let mut call = modern_call(
            1,
            "verse",
            &all_capabilities(),
            json!({"inputResponses": {"name": name_response("Alice")}}),
        );
        call["params"]["_meta"]["io.modelcontextprotocol/logLevel"] = json!("debug");
        let logged = raw.request(&call);
        assert_eq!(
            (&logged["method"], &logged["params"]["data"]),
            (&json!("notifications/message"), &json!("asked"))
        );
        assert_eq!(raw.receive()["result"]["resultType"], "input_required");
    });
}

/// Records the outcomes of calls.
struct OutcomeRecorder(Arc<Mutex<Vec<String>>>);

impl Hook for OutcomeRecorder {
    fn after_call(&self, _: &HookContext<'_>, outcome: HookOutcome<'_>) {
        self.0.lock().unwrap().push(format!("{outcome:?}"));
    }
}

#[test]
fn hook_sees_input_request_as_own_outcome() {
    with_timeout(|| {
        let ends = Arc::new(Mutex::new(Vec::new()));
        let recorder = OutcomeRecorder(Arc::clone(&ends));
        let hooked_router = move || {
            let mut router = router();
            router.hook(recorder);
            router
        };
        let (stream, server) = serve_stream(hooked_router, None);
        let mut raw = RawConnection(stream, Vec::new());
        let roots = json!({"roots": {}});
        let round = raw.request(&modern_call(1, "stubborn", &roots, json!({})));
        assert_eq!(round["result"]["resultType"], "input_required");
        let state = &round["result"]["requestState"];
        let answers = json!({"inputResponses": {"roots": {"roots": []}}, "requestState": state});
        assert_eq!(
            raw.request(&modern_call(2, "stubborn", &roots, answers))["result"]["content"][0]["text"],
            "seen"
        );
        drop(raw);
        server.join().unwrap().unwrap();
        assert_eq!(*ends.lock().unwrap(), ["InputRequired", "Completed"]);
    });
}
