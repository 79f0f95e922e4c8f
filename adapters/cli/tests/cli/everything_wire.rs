//! Messages of `serve --everything` to modern clients, as raw JSON.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::support::PROBE;

/// A modern client that writes raw messages.
struct RawModernClient {
    child: Child,
    lines: BufReader<ChildStdout>,
    last_id: u32,
}

impl RawModernClient {
    fn start() -> Self {
        let mut child = Command::new(PROBE)
            .args(["serve", "--everything"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program under test starts");
        let lines = BufReader::new(child.stdout.take().expect("piped"));
        Self { child, lines, last_id: 0 }
    }

    fn ask(&mut self, method: &str, mut params: Value, capabilities: &Value) -> Value {
        self.last_id += 1;
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": capabilities,
        });
        let message = json!({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params});
        let stdin = self.child.stdin.as_mut().expect("piped");
        stdin.write_all(format!("{message}\n").as_bytes()).expect("it listens");
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("an answer");
        serde_json::from_str(&line).expect("JSON")
    }

    fn call(&mut self, suffix: &str, more: &Value) -> Value {
        let mut params = json!({"name": format!("test_input_required_result_{suffix}"), "arguments": {}});
        for (name, value) in more.as_object().expect("an object") {
            params[name] = value.clone();
        }
        self.ask("tools/call", params, &json!({"sampling": {}, "elicitation": {}, "roots": {}}))
    }
}

impl Drop for RawModernClient {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

fn requested_methods(answer: &Value) -> Vec<&str> {
    assert_eq!(answer["result"]["resultType"], "input_required", "{answer}");
    answer["result"]["inputRequests"].as_object().expect("questions").keys().map(String::as_str).collect()
}

// covers: MRTR-002, MRTR-004, MRTR-009, MRTR-020, MRTR-027, MRTR-028, MRTR-029
#[test]
fn input_required_results_match_the_conformance_suite() {
    let mut raw = RawModernClient::start();
    let alice = json!({"action": "accept", "content": {"name": "Alice"}});
    // Answers that arrive before any input request, and answers that were not requested.
    assert_eq!(
        requested_methods(&raw.call("elicitation", &json!({"inputResponses": {"wrong_key": alice}}))),
        ["user_name"]
    );
    let extra = json!({"inputResponses": {"user_name": alice, "extra": alice, "more": {}}});
    assert_eq!(raw.call("elicitation", &extra)["result"]["content"][0]["text"], "Hello, Alice!");
    let wrong = raw.call("elicitation", &json!({"inputResponses": {"user_name": 12345}}));
    assert_eq!(wrong["error"]["code"], -32602, "{wrong}");
    let null = raw.call("elicitation", &json!({"inputResponses": null}));
    assert!(null["error"].is_object() || requested_methods(&null) == ["user_name"], "{null}");
    let mismatch = json!({"inputResponses": {"user_name": {"action": "accept", "content": {"name": 7}}}});
    assert_eq!(requested_methods(&raw.call("elicitation", &mismatch)), ["user_name"]);

    let state = |answer: &Value| answer["result"]["requestState"].as_str().expect("a state").to_owned();
    let ok = json!({"confirm": {"action": "accept", "content": {"ok": true}}});
    let first = raw.call("request_state", &json!({}));
    assert_eq!(requested_methods(&first), ["confirm"]);
    let last = raw.call("request_state", &json!({"inputResponses": ok, "requestState": state(&first)}));
    assert!(last["result"]["content"][0]["text"].as_str().expect("a text").contains("state-ok"), "{last}");

    let first = raw.call("tampered_state", &json!({}));
    let tampered = format!("{}-TAMPERED", state(&first));
    let last = raw.call("tampered_state", &json!({"inputResponses": ok, "requestState": tampered}));
    assert!(last["error"].is_object(), "{last}");

    let first = raw.call("multiple_inputs", &json!({}));
    assert_eq!(requested_methods(&first).len(), 3);
    assert!(!state(&first).is_empty());

    let first = raw.call("multi_round", &json!({}));
    let second = json!({"inputResponses": {"step1": alice}, "requestState": state(&first)});
    let second = raw.call("multi_round", &second);
    assert_eq!(requested_methods(&second), ["step2"]);
    assert_ne!(state(&first), state(&second));

    let able = json!({"name": "test_input_required_result_capabilities", "arguments": {}});
    let able = raw.ask("tools/call", able, &json!({"sampling": {}}));
    assert_eq!(requested_methods(&able), ["capital_question"]);
    assert_eq!(able["result"]["inputRequests"]["capital_question"]["method"], "sampling/createMessage");

    let prompt = json!({"name": "test_input_required_result_prompt"});
    let prompt = raw.ask("prompts/get", prompt, &json!({"elicitation": {}}));
    assert_eq!(requested_methods(&prompt), ["user_context"]);
    for list in ["tools/list", "prompts/list"] {
        assert_eq!(raw.ask(list, json!({}), &json!({}))["result"]["resultType"], "complete");
    }
}
