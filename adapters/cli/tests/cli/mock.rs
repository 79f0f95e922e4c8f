//! `serve --mock`: servers made of a file and of a trace.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::config_file::TemporaryDirectory;
use crate::http::ServingProcess;
use crate::support::{PROBE, ProbeOutput, probe};
#[cfg(target_os = "linux")]
use crate::terminal::{show_on_terminal, without_colours};

const SHOP: &str = r#"{
  // A shop.
  "server": {"name": "shop", "version": "7", "instructions": "Ask for prices."},
  "tools": [{
    "name": "price", "description": "Returns a price",
    "inputSchema": {"type": "object", "properties": {"of": {"type": "string"}}},
    "answers": [
      {"arguments": {"of": "tea"}, "structured": {"cents": 250}},
      {"arguments": {"of": "tea"}, "structured": {"cents": 300}},
      {"arguments": {"of": "tea", "for": "guests"}, "exact": true, "text": "free"},
      {"arguments": {"of": "air"}, "error": {"code": -32001, "message": "none", "data": {"why": "x"}}},
      {"arguments": {"of": "snow"}, "text": "melted", "isError": true, "after": "50ms"},
    ],
  }, {
    "name": "any", "answers": [{"result": {"content": [{"type": "text", "text": "all"}], "_meta": {"a": 1}}}],
  }],
  "resources": [{"uri": "shop://hours", "name": "hours", "mimeType": "text/plain", "answers": [{"text": "9 to 5"}]}],
  "resourceTemplates": [{"uriTemplate": "shop://{item}", "name": "item", "answers": [{"uri": "shop://tea", "text": "green"}]}],
  "prompts": [{"name": "order", "arguments": [{"name": "of"}], "answers": [
    {"arguments": {"of": "tea"}, "text": "Order tea."}, {"text": "Order."}]}],
}"#;

/// Writes a file into a folder of its own.
fn file(name: &str, content: &str) -> (TemporaryDirectory, String) {
    let folder = TemporaryDirectory::new();
    let path = folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(&path, content).unwrap();
    (folder, path)
}

/// Returns the paths of the traces of official SDKs.
fn traces() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../core/trace/tests/traces");
    let mut paths: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path().to_str().unwrap().to_owned())
        .collect();
    paths.sort();
    paths
}

#[test]
fn a_file_is_served_in_both_eras_and_over_http_by_each_runtime() {
    let (folder, shop) = file("shop.json", SHOP);
    let steps = json!({"steps": [
        {"call": "price", "arguments": {"of": "tea"}, "expect": {"/structuredContent/cents": 250}},
        {"name": "then", "call": "price", "arguments": {"of": "tea", "n": 2}, "expect": {"/structuredContent/cents": 300}},
        {"name": "last", "call": "price", "arguments": {"of": "tea"}, "expect": {"/structuredContent/cents": 300}},
        {"name": "exact", "call": "price", "arguments": {"for": "guests", "of": "tea"}, "expect": {"/content/0/text": "free"}},
        {"name": "error", "call": "price", "arguments": {"of": "air"}, "error": {"code": -32001, "message": "none"},
         "expect": {"/data/why": "x"}},
        {"name": "late", "call": "price", "arguments": {"of": "snow"}, "isError": true, "expect": {"/content/0/text": "melted"}},
        {"name": "nearest", "call": "price", "arguments": {"of": "milk", "for": "guests"},
         "error": {"code": -32602, "message": {"contains": "nearest that have one are {\"for\":\"guests\",\"of\":\"tea\"}"}}},
        {"call": "any", "arguments": {"x": [1]}, "expect": {"/_meta/a": 1, "/content/0/text": "all"}},
        {"read": "shop://hours", "expect": {"/contents/0/text": "9 to 5", "/contents/0/mimeType": "text/plain"}},
        {"read": "shop://tea", "expect": {"/contents/0/text": "green", "/contents/0/uri": "shop://tea"}},
        {"read": "shop://milk", "error": {"message": {"contains": "`shop://{item}` has no answer"}}},
        {"prompt": "order", "arguments": {"of": "tea"}, "expect": {"/messages/0/content/text": "Order tea."}},
        {"name": "any order", "prompt": "order", "expect": {"/messages/0/content/text": "Order."}},
        {"list": "tools", "expect": {"/tools": {"length": 2}, "/tools/0/description": "Returns a price"}},
        {"list": "resourceTemplates", "expect": {"/resourceTemplates/0/uriTemplate": "shop://{item}"}},
        {"list": "prompts", "expect": {"/prompts/0/arguments/0/name": "of"}}
    ]});
    let tests = folder.path().join("tests.json");
    fs::write(&tests, steps.to_string()).unwrap();
    let run = |args: &[&str]| probe(&[&["test", tests.to_str().unwrap()], args].concat()).assert_ok();
    for era in ["legacy", "modern"] {
        for runtime in ["blocking", "threads", "smol", "tokio"] {
            run(&["--", PROBE, "serve", "--mock", &shop, "--runtime", runtime, "--era", era]);
        }
        let serving = ServingProcess::new(&["--mock", &shop, "--era", era]);
        run(&[&serving.url]);
    }
    let shown = probe(&["inspect", "--", PROBE, "serve", "--mock", &shop]).assert_ok();
    shown.assert_stdout(&["shop", "Ask for prices."]);
}

#[test]
fn a_file_that_is_not_understood_is_refused_with_its_line() {
    let tool = |members: &str| format!("{{\"tools\": [{{\"name\": \"t\",\n{members}}}]}}");
    let cases = [
        ("".to_owned(), "is not valid JSON"),
        ("[]".into(), "must be an object"),
        ("{\"tool\": []}".into(), "tool: is not known; the members here are server, tools"),
        ("{\"tools\": {}}".into(), "must be an array"),
        ("{\"tools\": [{}]}".into(), "name"),
        ("{\"server\": {\"name\": 5}}".into(), "server: "),
        (tool("\"inputSchema\": 5"), "inputSchema"),
        (tool("\"answer\": []"), "answer: is not known"),
        (tool("\"answers\": [{}]"), "answers[0]: must have exactly one of the members text, structured, result, error (line 2)"),
        (tool("\"answers\": [{\"text\": \"a\", \"error\": {}}]"), "must have exactly one"),
        (tool("\"answers\": [{\"error\": {\"code\": \"x\"}}]"), "must have a whole number as `code`"),
        (tool("\"answers\": [{\"text\": \"a\", \"after\": \"soon\"}]"), "must be a duration"),
        (tool("\"answers\": [{\"text\": \"a\", \"arguments\": 5}]"), "must be an object"),
        (tool("\"answers\": [{\"text\": \"a\", \"uri\": \"a:b\"}]"), "uri: is not known; the members here are"),
        (tool("\"answers\": [{\"result\": {\"content\": []}, \"isError\": true}]"), "`isError` belongs to `text`"),
        (tool("\"answers\": [{\"text\": \"a\", \"exact\": true}]"), "`exact` needs `arguments`"),
        (tool("\"answers\": [{\"text\": \"a\", \"arguments\": {\"n\": 100000000000000000777}}]"), "more than 64 bits"),
        (
            "{\"resources\": [{\"uri\": \"a:b\", \"name\": \"n\", \"answers\": [{\"text\": \"x\", \"arguments\": {}}]}]}".into(),
            "arguments: is not known",
        ),
        (tool("\"answers\": [{\"result\": {\"content\": 5}}]"), "result: "),
        ("{\"prompts\": [{\"name\": \"p\", \"answers\": [{\"structured\": 1}]}]}".into(), "structured: is not known"),
        (
            "{\"resourceTemplates\": [{\"uriTemplate\": \"a:{b}\", \"name\": \"n\", \"answers\": [{\"text\": \"x\"}]}]}".into(),
            "needs the `uri`",
        ),
        ("{\"tools\": [{\"name\": \"t\"}, {\"name\": \"t\"}]}".into(), "`t`"),
    ];
    for (content, why) in cases {
        let (_folder, path) = file("mock.json", &content);
        let done = probe(&["serve", "--mock", &path]);
        assert!(done.stderr.contains(why) && done.stdout.is_empty(), "no {why:?} for {content}: {done}");
    }
    probe(&["serve", "--mock", "/nonexistent"]).assert_code(2).assert_stderr(&["/nonexistent: "]);
    let (_folder, shop) = file("shop.json", SHOP);
    probe(&["serve", "--mock", &shop, "--mock-delays"]).assert_code(2).assert_stderr(&["needs a trace"]);
    probe(&["serve", "--mock", &shop, "--everything"]).assert_code(2);
}

/// A call, read or prompt of a trace with its result or error.
struct RecordedCall {
    method: String,
    params: Value,
    response: Value,
}

/// Returns what a client has asked in a trace, with the final answers.
fn recorded(path: &str) -> Vec<RecordedCall> {
    let (mut open, mut all) = (Vec::<(Value, Value, Value)>::new(), Vec::new());
    for line in fs::read_to_string(path).unwrap().lines().skip(1) {
        let record: Value = serde_json::from_str(line).unwrap();
        let message = record["line"].as_str().and_then(|line| serde_json::from_str::<Value>(line).ok());
        let Some(message) = message else { continue };
        let exchange = record["exchange"].clone();
        if record["from"] == "client" && message["id"] != Value::Null && message["method"] != Value::Null {
            open.push((message["id"].clone(), exchange, message));
        } else if record["from"] == "server" && message["method"] == Value::Null {
            let Some(at) = open.iter().position(|(id, of, _)| *id == message["id"] && *of == exchange) else {
                continue;
            };
            let (_, _, request) = open.remove(at);
            let is_asked =
                matches!(request["method"].as_str(), Some("tools/call" | "prompts/get" | "resources/read"));
            let is_final = message["result"]["resultType"].as_str().is_none_or(|kind| kind == "complete");
            if is_asked && is_final {
                let (method, params) =
                    (request["method"].as_str().unwrap().to_owned(), request["params"].clone());
                all.push(RecordedCall { method, params, response: message });
            }
        }
    }
    all
}

/// Returns the steps of a test file that makes the recorded calls and expects their results.
fn steps_of(calls: &[RecordedCall]) -> Value {
    let steps = calls.iter().enumerate().map(|(index, RecordedCall { method, params, response })| {
        let mut step = match &**method {
            "tools/call" => json!({"call": params["name"], "arguments": params["arguments"]}),
            "prompts/get" => json!({"prompt": params["name"], "arguments": params["arguments"]}),
            _ => json!({"read": params["uri"]}),
        };
        if step["arguments"] == Value::Null {
            step.as_object_mut().unwrap().remove("arguments");
        }
        step["name"] = format!("{index}").into();
        if let Some(error) = response.get("error") {
            step["error"] = json!({"code": error["code"], "message": error["message"]});
            return step;
        }
        // What the protocol adds itself differs between revisions.
        let own = ["_meta", "resultType", "ttlMs", "cacheScope"];
        let members =
            response["result"].as_object().unwrap().iter().filter(|(name, _)| !own.contains(&&***name));
        let expected = members.map(|(name, value)| (format!("/{name}"), json!({ "equals": value })));
        step["expect"] = Value::Object(expected.collect());
        if response["result"]["isError"] == true {
            step["isError"] = true.into();
        }
        step
    });
    json!({ "steps": steps.collect::<Vec<_>>() })
}

#[test]
fn calls_of_the_traces_of_official_sdks_are_answered_as_recorded_in_both_eras() {
    let traces = traces();
    assert_eq!(traces.len(), 7);
    let mut number = 0;
    for trace in &traces {
        let calls = recorded(trace);
        number += calls.len();
        let (_folder, tests) = file("tests.json", &steps_of(&calls).to_string());
        for era in ["legacy", "modern"] {
            let server = ["--", PROBE, "serve", "--mock", trace, "--era", era];
            probe(&[&["test", &tests, "--era", era], &server[..]].concat()).assert_ok();
        }
        let info = probe(&["inspect", "--json", "--", PROBE, "serve", "--mock", trace]).assert_ok();
        assert!(info.stdout.contains("talk-server"), "{info}");
    }
    assert!(number > 90, "{number} calls");
}

#[test]
fn a_trace_of_our_own_server_is_mocked_with_its_lists_and_times_over_http() {
    let folder = TemporaryDirectory::new();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (trace, tests) = (path("t.ndjson"), path("tests.json"));
    let steps = json!({"steps": [
        {"list": "tools", "snapshot": true}, {"list": "resources", "snapshot": true, "expect": {"/resources": {"length": 21}}},
        {"list": "resourceTemplates", "snapshot": true}, {"list": "prompts", "snapshot": true},
        {"call": "echo", "arguments": {"text": "a"}, "snapshot": true},
        {"call": "count", "arguments": {"to": 3}, "snapshot": true},
        {"read": "atlas://norway/oslo", "snapshot": true}, {"read": "test://static-text", "snapshot": true},
        {"prompt": "travel_plan", "arguments": {"country": "norway", "days": "5"}, "snapshot": true},
        {"call": "fail", "isError": true, "snapshot": true}
    ]});
    let mut steps = steps;
    // Only as many as there are: the length is compared below by the snapshots.
    steps["steps"][1].as_object_mut().unwrap().remove("expect");
    for step in steps["steps"].as_array_mut().unwrap() {
        // The server adds its name and version, which are those of the mock's trace.
        step["ignore"] = json!(["/_meta", "/ttlMs", "/cacheScope"]);
    }
    fs::write(&tests, steps.to_string()).unwrap();
    let tap = ["--", PROBE, "tap", "--out", &trace, "--", PROBE, "serve", "--everything", "--era", "modern"];
    probe(&[&["test", &tests, "--update"], &tap[..]].concat()).assert_ok();
    let serving = ServingProcess::new(&["--mock", &trace, "--era", "modern"]);
    let done = probe(&["test", &tests, "--json", &serving.url]);
    let report = done.json();
    for step in report["steps"].as_array().unwrap() {
        assert_eq!(step["outcome"], "passed", "{step:#}");
    }
    let quick = done.elapsed;
    let serving = ServingProcess::new(&["--mock", &trace, "--mock-delays", "--era", "modern"]);
    let slow = probe(&["call", "count", "to=3", &serving.url]).assert_ok();
    assert!(slow.elapsed.as_millis() >= 200, "{:?} and {quick:?}", slow.elapsed);
    probe(&["call", "echo", "text=b", &serving.url]).assert_code(1).assert_stderr(&[
        "the tool `echo` has no answer for {\"text\":\"b\"}; the nearest that have one are {\"text\":\"a\"}",
    ]);
}

#[cfg(unix)]
#[test]
fn a_pipe_is_read_once() {
    let (folder, shop) = file("shop.json", SHOP);
    let trace = traces().remove(0);
    for (path, words) in [(&shop, "Ask for prices."), (&trace, "talk-server")] {
        let fifo = folder.path().join("fifo");
        let _ = fs::remove_file(&fifo);
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let (from, to) = (path.clone(), fifo.clone());
        let writer = std::thread::spawn(move || fs::write(to, fs::read(from).unwrap()));
        let done = probe(&["inspect", "--", PROBE, "serve", "--mock", fifo.to_str().unwrap()]).assert_ok();
        done.assert_stdout(&[words]);
        writer.join().unwrap().unwrap();
    }
}

fn refused(path: &str) -> ProbeOutput {
    probe(&["serve", "--mock", path]).assert_code(2)
}

#[test]
fn hostile_traces_are_refused_or_served_as_far_as_they_can_be_read() {
    let header = "{\"mcpTrace\":1,\"by\":\"x\",\"unixMillis\":0,\"masked\":true}";
    let line =
        |from: &str, message: &Value| json!({"t": 1, "from": from, "line": message.to_string()}).to_string();
    let exchange = |id: u32, method: &str, params: Value, result: Value| {
        let request =
            line("client", &json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        let response = line("server", &json!({"jsonrpc": "2.0", "id": id, "result": result}));
        format!("{request}\n{response}\n")
    };
    let (_one, path) = file("t", "{\"mcpTrace\":2,\"x\":1}\n");
    refused(&path).assert_stderr(&["version 2 of the format"]);
    let (_two, path) = file("t", &format!("{header}\nnonsense\n"));
    refused(&path).assert_stderr(&["line 2 of the trace is no record"]);
    let hostile = "\u{1b}[2J\u{202e}";
    let text = |text: &str| json!({"content": [{"type": "text", "text": text}]});
    let mut content = format!("{header}\n");
    content += &exchange(
        1,
        "tools/list",
        json!({}),
        json!({"tools": [{"name": "t", "inputSchema": {"type": "object"}}, 5, {"name": 7}]}),
    );
    content += &exchange(
        2,
        "tools/list",
        json!({"cursor": "x"}),
        json!({"tools": [{"name": "u", "inputSchema": {"type": "object"}}]}),
    );
    content += &exchange(
        20,
        "tools/list",
        json!({"cursor": "y"}),
        json!({"tools": [{"name": "bad name!", "inputSchema": {"type": "object"}}, {"name": "v", "inputSchema": {"type": "array"}}]}),
    );
    let template = |template: &str| json!({"resourceTemplates": [{"uriTemplate": template, "name": "n"}]});
    content += &exchange(21, "resources/templates/list", json!({}), template("a:{"));
    content += &exchange(22, "resources/read", json!({"uri": "no-scheme"}), json!({"contents": []}));
    content += &exchange(3, "tools/call", json!({"name": "t", "arguments": {"a": hostile}}), text(hostile));
    content += &exchange(4, "tools/call", json!({"name": "t", "arguments": {"a": 1}}), json!({"content": 5}));
    content += &exchange(5, "tools/call", json!([]), json!(null));
    content += &exchange(
        6,
        "resources/read",
        json!({"uri": "a:b"}),
        json!({"contents": [{"uri": "a:b", "text": "x"}]}),
    );
    content += &exchange(7, "tools/call", json!({"name": "cut-off"}), text("y"))[..40];
    let (_three, path) = file("t", &content);
    let server = ["--", PROBE, "serve", "--mock", &path];
    let list = probe(&[&["inspect", "--stderr", "inherit"], &server[..]].concat()).assert_ok();
    assert!(list.stdout.contains('u') && !list.stdout.contains("cut-off"), "{list}");
    assert!(
        list.stderr.contains("ends within a line")
            && list.stderr.contains("cannot be read, and are left out"),
        "{list}"
    );
    probe(&[&["read", "a:b"], &server[..]].concat()).assert_ok().assert_stdout(&["x"]);
    let done = probe(&[&["call", "t", "a:=2"], &server[..]].concat()).assert_code(1);
    assert!(
        done.stderr.contains("\\u001b[2J")
            && !done.stderr.contains('\u{1b}')
            && !done.stderr.contains('\u{202e}'),
        "{done}"
    );
    #[cfg(target_os = "linux")]
    for columns in [80, 200] {
        let call = [
            "call",
            "t",
            "--args",
            &json!({ "a": hostile }).to_string(),
            "--",
            PROBE,
            "serve",
            "--mock",
            &path,
        ];
        let (code, shown) = show_on_terminal(&call, columns);
        let plain = without_colours(&shown);
        assert!(code == Some(0) && plain.contains("\\u001b[2J") && !plain.contains('\u{202e}'), "{plain}");
    }
    // Many answers are found at once, and a message about one that is missing stays short.
    let many: String = (0..20_000)
        .map(|n| exchange(n, "tools/call", json!({"name": "t", "arguments": {"n": n}}), text(&n.to_string())))
        .collect();
    let (_four, path) = file("t", &format!("{header}\n{many}"));
    let server = ["--", PROBE, "serve", "--mock", &path];
    probe(&[&["call", "t", "n:=19999"], &server[..]].concat()).assert_ok().assert_stdout(&["19999"]);
    let large = exchange(
        1,
        "tools/call",
        json!({"name": "t", "arguments": {"n": 9_007_199_254_740_993_u64}}),
        text("odd"),
    ) + &exchange(
        2,
        "tools/call",
        json!({"name": "t", "arguments": {"n": 9_007_199_254_740_992_u64}}),
        text("even"),
    );
    let (_five, large) = file("t", &format!("{header}\n{large}"));
    let call = ["call", "t", "n:=9007199254740992", "--", PROBE, "serve", "--mock", &large];
    probe(&call).assert_ok().assert_stdout(&["even"]);
    probe(&[&["call", "t", "n:=-1"], &server[..]].concat()).assert_code(1).assert_stderr(&["{\"n\":0}"]);
}
