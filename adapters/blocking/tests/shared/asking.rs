//! Handlers that ask: one handler, both eras, an application that knows neither; `crate::adapter` says who serves it

use alloc::sync::Arc;
use std::sync::Mutex;
use std::thread;

use mcp_blocking::Error;
use mcp_proto::model::{
    CreateMessageParams, ElicitAction, ElicitSchema, LoggingLevel, SamplingMessage, StringSchema, Tool,
};
use mcp_proto::router::{Asked, Hook, Outcome};
use mcp_proto::server::Config;
use mcp_proto::{Capabilities, Capability, RawJson, RpcError};
use mcp_std::{Duplex, Interest, MemoryEnd, memory_pair};
use serde_json::{Value, json};

use crate::adapter::{Cx, Router, serve};
use crate::support::{DEADLINE, in_time};

/// Asks for a name, then for a line about it
fn verse(cx: &mut Cx<'_>, _: Value) -> Result<String, RpcError> {
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

/// Swallows the error, and says something else
fn stubborn(cx: &mut Cx<'_>, _: Value) -> &'static str {
    match cx.roots("roots") {
        Ok(_) => "seen",
        Err(_) => "not seen",
    }
}

fn router() -> Router {
    let mut router = Router::new("poet", "1.0");
    let tool = |name| Tool::new(name, RawJson::new(r#"{"type":"object"}"#).unwrap());
    router.tool_with(tool("verse"), verse).tool_with(tool("stubborn"), stubborn);
    router
}

/// A client that is written by hand
struct Raw(MemoryEnd, Vec<u8>);

impl Raw {
    fn say(&mut self, message: &Value) {
        let mut line = message.to_string().into_bytes();
        line.push(b'\n');
        while !line.is_empty() {
            match self.0.write(&line) {
                Ok(n) => drop(line.drain(..n)),
                Err(_) => drop(self.0.wait(Interest { read: false, write: true }, Some(DEADLINE))),
            }
        }
    }

    fn hear(&mut self) -> Value {
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

    fn ask(&mut self, message: &Value) -> Value {
        self.say(message);
        self.hear()
    }
}

/// What a client does with a server; the server has to end well
fn with(config: Option<Config>, client: impl FnOnce(&mut Raw) + Send + 'static) {
    in_time(move || {
        let (near, far) = memory_pair(4096);
        let server = thread::spawn(move || -> Result<(), Error> {
            match config {
                Some(config) => serve(config, near, router()),
                None => router().serve(near),
            }
        });
        let mut raw = Raw(far, Vec::new());
        client(&mut raw);
        drop(raw);
        server.join().unwrap().unwrap();
    });
}

fn modern(id: u32, tool: &str, capabilities: &Value, more: Value) -> Value {
    let mut params = json!({"name": tool, "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities}});
    let Value::Object(more) = more else { panic!("an object") };
    params.as_object_mut().unwrap().extend(more);
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
}

fn named(name: &str) -> Value {
    json!({"action": "accept", "content": {"name": name}})
}

fn line() -> Value {
    json!({"role": "assistant", "content": {"type": "text", "text": "x"}, "model": "muse"})
}

fn all() -> Value {
    json!({"elicitation": {}, "sampling": {}, "roots": {}})
}

// covers: MRTR-001, MRTR-026, MRTR-027, MRTR-029, ELIC-020
#[test]
fn a_handler_that_asks_twice_reads_as_if_it_was_answered_at_once_in_the_modern_era() {
    with(None, |raw| {
        let first = raw.ask(&modern(1, "verse", &all(), json!({})));
        assert_eq!(first["result"]["inputRequests"]["name"]["method"], "elicitation/create");
        let retry = |answers: Value, last: &Value| json!({"inputResponses": answers, "requestState": last["result"]["requestState"]});
        // What does not fit the form is asked again.
        let again = raw.ask(&modern(2, "verse", &all(), retry(json!({"name": named("x")}), &first)));
        assert_eq!(again["result"]["inputRequests"]["name"]["method"], "elicitation/create");
        let second = raw.ask(&modern(3, "verse", &all(), retry(json!({"name": named("Alice")}), &again)));
        let asked = &second["result"]["inputRequests"];
        assert_eq!(
            (asked.as_object().unwrap().len(), &asked["line"]["method"]),
            (1, &json!("sampling/createMessage"))
        );
        let last = raw.ask(&modern(4, "verse", &all(), retry(json!({"line": line()}), &second)));
        assert!(last["result"]["content"][0]["text"].as_str().unwrap().ends_with(" muse"), "{last}");
        // A client that cannot be asked is told what it lacks.
        let poor = raw.ask(&modern(5, "verse", &json!({}), json!({})));
        assert_eq!(poor["error"]["code"], -32021);
        assert_eq!(poor["error"]["data"]["requiredCapabilities"], json!({"elicitation": {"form": {}}}));
        // What was asked is asked, whatever the handler made of it.
        let stubborn = raw.ask(&modern(6, "stubborn", &all(), json!({})));
        assert_eq!(stubborn["result"]["inputRequests"]["roots"]["method"], "roots/list");
    });
}

// covers: ELIC-006, SAMP-003, ELIC-018
#[test]
fn the_same_handler_asks_a_legacy_client_on_the_stream_of_its_call() {
    with(None, |raw| {
        let opening = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-11-25",
            "capabilities": all(), "clientInfo": {"name": "x", "version": "1"}}});
        raw.ask(&opening);
        raw.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        let call = |id: u32| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "verse"}});
        let answer = |to: &Value, result: Value| json!({"jsonrpc": "2.0", "id": to["id"], "result": result});
        let first = raw.ask(&call(1));
        assert_eq!(first["method"], "elicitation/create");
        let second = raw.ask(&answer(&first, named("Alice")));
        assert_eq!(second["method"], "sampling/createMessage");
        let last = raw.ask(&answer(&second, line()));
        assert_eq!(last["id"], 1);
        assert!(last["result"]["content"][0]["text"].as_str().unwrap().ends_with(" muse"), "{last}");
        let first = raw.ask(&call(2));
        let declined = raw.ask(&answer(&first, json!({"action": "decline"})));
        assert_eq!(declined["result"]["content"][0]["text"], "never mind");
        // A refused sampling reaches the handler, whose `?` makes it the answer.
        let first = raw.ask(&call(3));
        let second = raw.ask(&answer(&first, named("Bob")));
        let refusal = json!({"jsonrpc": "2.0", "id": second["id"], "error": {"code": -1, "message": "rejected by the user"}});
        assert_eq!(raw.ask(&refusal)["error"]["code"], -32603);
    });
}

// covers: LOG-008
#[test]
fn a_handler_logs_when_it_is_asked_to() {
    let capabilities = Capabilities::new().with(Capability::Tools).with(Capability::Logging);
    with(Some(Config::new("poet", "1.0").capabilities(capabilities)), |raw| {
        let mut call = modern(1, "verse", &all(), json!({"inputResponses": {"name": named("Alice")}}));
        call["params"]["_meta"]["io.modelcontextprotocol/logLevel"] = json!("debug");
        let logged = raw.ask(&call);
        assert_eq!(
            (&logged["method"], &logged["params"]["data"]),
            (&json!("notifications/message"), &json!("asked"))
        );
        assert_eq!(raw.hear()["result"]["resultType"], "input_required");
    });
}

/// Sees how calls end
struct Ends(Arc<Mutex<Vec<String>>>);

impl Hook for Ends {
    fn after(&self, _: &Asked<'_>, outcome: Outcome<'_>) {
        self.0.lock().unwrap().push(format!("{outcome:?}"));
    }
}

#[test]
fn a_hook_does_not_take_a_question_for_a_failure() {
    in_time(|| {
        let ends = Arc::new(Mutex::new(Vec::new()));
        let (near, far) = memory_pair(4096);
        let seen = Ends(Arc::clone(&ends));
        let server = thread::spawn(move || {
            let mut router = router();
            router.hook(seen);
            router.serve(near)
        });
        let mut raw = Raw(far, Vec::new());
        let roots = json!({"roots": {}});
        let asked = raw.ask(&modern(1, "stubborn", &roots, json!({})));
        assert_eq!(asked["result"]["resultType"], "input_required");
        let state = &asked["result"]["requestState"];
        let answers = json!({"inputResponses": {"roots": {"roots": []}}, "requestState": state});
        assert_eq!(raw.ask(&modern(2, "stubborn", &roots, answers))["result"]["content"][0]["text"], "seen");
        drop(raw);
        server.join().unwrap().unwrap();
        assert_eq!(*ends.lock().unwrap(), ["Asking", "Completed"]);
    });
}
