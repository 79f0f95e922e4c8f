//! Calls over HTTP: the list of tools comes first, for header fields and for the output schema.

use alloc::sync::Arc;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Mutex;
use std::thread;

use serde_json::{Value, json};

use crate::http::ServingProcess;
use crate::support::{PROBE, ProbeOutput, probe};

/// A modern server over HTTP with one tool, which records its requests.
struct ToolServer {
    url: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl ToolServer {
    /// Starts a server that lists this tool, or answers the list with an error, and gives this result to each call.
    fn new(tool: Option<Value>, result: Value) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/mcp", listener.local_addr().expect("bound"));
        let requests = Arc::<Mutex<Vec<String>>>::default();
        let recorded = Arc::clone(&requests);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.expect("a connection");
                let mut request = vec![0; 65_536];
                let n = stream.read(&mut request).unwrap_or_default();
                let text = String::from_utf8_lossy(&request[..n]).into_owned();
                let body = answer(&text, tool.as_ref(), &result).to_string();
                recorded.lock().expect("no panic").push(text);
                let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n";
                let _ = write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len());
            }
        });
        Self { url, requests }
    }

    fn call(&self, more: &[&str]) -> ProbeOutput {
        probe(&[&["call", "tide"], more, &[&self.url]].concat())
    }

    /// Returns the methods of the requests so far, and their header fields with arguments.
    fn take_requests(&self) -> Vec<(String, Vec<String>)> {
        let requests = core::mem::take(&mut *self.requests.lock().expect("no panic"));
        let fields = |request: &str, name: &str| -> Vec<String> {
            request.lines().filter(|line| line.starts_with(name)).map(str::to_owned).collect()
        };
        let one = |request: &String| {
            let method = fields(request, "Mcp-Method: ").concat().replace("Mcp-Method: ", "");
            (method, fields(request, "Mcp-Param-"))
        };
        requests.iter().map(one).collect()
    }
}

fn answer(request: &str, tool: Option<&Value>, result: &Value) -> Value {
    let body: Value =
        serde_json::from_str(request.split("\r\n\r\n").nth(1).unwrap_or_default()).unwrap_or_default();
    let mut result = match (body["method"].as_str(), tool) {
        (Some("server/discover"), _) => {
            json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}})
        }
        (Some("tools/list"), Some(tool)) => json!({"tools": [tool]}),
        (Some("tools/list"), None) => {
            return json!({"jsonrpc": "2.0", "id": body["id"], "error": {"code": -5, "message": "no list"}});
        }
        _ => result.clone(),
    };
    for (name, value) in
        [("resultType", json!("complete")), ("ttlMs", json!(0)), ("cacheScope", json!("private"))]
    {
        result[name] = value;
    }
    json!({"jsonrpc": "2.0", "id": body["id"], "result": result})
}

// covers: XHDR-014, XHDR-030
#[test]
fn first_call_carries_the_fields_of_the_tool() {
    let schema =
        json!({"type": "object", "properties": {"port": {"type": "string", "x-mcp-header": "Port"}}});
    let tool = json!({"name": "tide", "inputSchema": schema});
    let server = ToolServer::new(Some(tool), json!({"content": []}));
    for arguments in [&["--args", r#"{"port":"Brest"}"#][..], &[r#"port:="Brest""#], &["port=Brest"]] {
        server.call(arguments).assert_ok();
        let requests = server.take_requests();
        let methods: Vec<_> = requests.iter().map(|(method, _)| &**method).collect();
        assert_eq!(methods, ["server/discover", "tools/list", "tools/call"]);
        assert_eq!(requests[2].1, ["Mcp-Param-Port: Brest"]);
    }
    // A list that cannot be read is no reason not to call, unless the types of values come from it.
    let server = ToolServer::new(None, json!({"content": [{"type": "text", "text": "called"}]}));
    server.call(&["--args", "{}"]).assert_ok().assert_stdout(&["called"]);
    server.call(&["port=Brest"]).assert_code(1).assert_stderr(&["no list"]);
}

// covers: TOOL-015, TOOL-016
#[test]
fn result_that_does_not_fit_the_output_schema_is_noted() {
    let output =
        json!({"type": "object", "properties": {"metres": {"type": "number"}}, "required": ["metres"]});
    let tool =
        |output: &Value| json!({"name": "tide", "inputSchema": {"type": "object"}, "outputSchema": output});
    let result = |value: Value| json!({"content": [], "structuredContent": value});
    let good = ToolServer::new(Some(tool(&output)), result(json!({"metres": 5})));
    assert_eq!(good.call(&[]).assert_ok().stderr, "");
    let note = "note: the result does not fit the output schema of the tool `tide`: ";
    for (value, why) in [(json!({"metres": "five"}), "metres"), (json!({}), "metres")] {
        let bad = ToolServer::new(Some(tool(&output)), result(value.clone()));
        bad.call(&[]).assert_ok().assert_stdout(&["structured: "]).assert_stderr(&[note, why]);
        // What the server sent is printed unchanged.
        let done = bad.call(&["--json"]).assert_ok().assert_stderr(&[note]);
        assert_eq!(done.json()["structuredContent"], value, "{done}");
    }
    let missing = ToolServer::new(Some(tool(&output)), json!({"content": []}));
    missing.call(&[]).assert_ok().assert_stderr(&[note]);
    // A failure of the tool has no such result.
    let failed = ToolServer::new(Some(tool(&output)), json!({"content": [], "isError": true}));
    assert!(!failed.call(&[]).assert_code(1).stderr.contains(note));
    let odd = ToolServer::new(Some(tool(&json!({"type": 7}))), result(json!({})));
    odd.call(&[]).assert_ok().assert_stderr(&["the output schema of the tool `tide` cannot be used: "]);
}

// covers: CANC-016, HTTP-062
#[test]
fn trace_shows_a_cancellation_only_where_it_is_sent() {
    let serving = ServingProcess::new(&[]);
    let own = ["--", PROBE, "serve"];
    let cases: [(&str, &[&str], bool); 4] = [
        ("modern", &[&serving.url], false),
        ("legacy", &[&serving.url], true),
        ("modern", &own, true),
        ("legacy", &own, true),
    ];
    for (era, server, is_sent) in cases {
        let call =
            ["call", "count", "to=100", "--timeout", "300ms", "--total", "500ms", "--trace", "--era", era];
        let done = probe(&[&call, server].concat()).assert_code(4);
        assert_eq!(done.stderr.contains("notifications/cancelled"), is_sent, "{era}: {done}");
        // What is sent is shown once.
        assert_eq!(done.stderr.matches("\"method\":\"tools/call\"").count(), 1, "{era}: {done}");
    }
}
