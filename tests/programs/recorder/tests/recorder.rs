//! A session through the proxy, and each view of its trace.

use std::fs::File;
use std::io::BufReader;
use std::sync::mpsc;
use std::thread;

use mcp_blocking::{Client, Cx, HttpServer, Router, schemars};
use mcp_proto::http::Url;
use mcp_proto::http::server::Config;
use mcp_proto_trace::views::{Change, Producer, diff, har, html, otlp};
use mcp_proto_trace::{Calls, Outcome, Trace};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Sum {
    a: i64,
    b: i64,
}

/// Returns the trace of one call of `add` with these arguments.
fn session(name: &str, a: i64, b: i64) -> Trace {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        let mut router = Router::new("calculator", "1");
        router.tool("add", |_: &mut Cx<'_>, Sum { a, b }: Sum| (a + b).to_string());
        let config = router.config().expect("a configuration");
        let server = HttpServer::bind("127.0.0.1:0", config, Config::new(), router).expect("a server");
        tell.send(server.address().expect("an address")).expect("the test waits");
        server.run()
    });
    let url = format!("http://{}/mcp", told.recv().expect("a server"));

    let path = std::env::temp_dir().join(format!("mcp-recorder-{name}-{}", std::process::id()));
    let address = mcp_recorder::record(&Url::parse(&url).expect("a URL"), &path).expect("a recording");
    let client = Client::connect_url(&format!("http://{address}/mcp")).expect("a connection");
    client.call_tool("add", &serde_json::json!({"a": a, "b": b})).expect("a sum");
    client.close().expect("the end");
    let trace = Trace::read(BufReader::new(File::open(&path).expect("a trace")), 1 << 20).expect("a trace");
    std::fs::remove_file(&path).expect("a trace");
    trace
}

#[test]
fn session_is_recorded_and_seen_in_each_view() {
    let (one, other) = (session("one", 1, 2), session("other", 1, 5));
    let calls = Calls::new(&one);
    let call = calls.calls.iter().find(|call| call.method == "tools/call").expect("the call");
    assert_eq!((call.target.as_deref(), &call.outcome), (Some("add"), &Outcome::Succeeded));

    let by = Producer { name: "mcp-recorder", version: "1" };
    let archive: serde_json::Value =
        serde_json::from_str(&har(&one, by).expect("exchanges").text).expect("JSON");
    assert_eq!(archive["log"]["creator"]["name"], "mcp-recorder");
    assert!(html(&one).text.contains("tools/call") && otlp(&one, by).text.contains("execute_tool"));
    let differences = diff(&one, &other);
    let at = |pointer: &str| {
        differences.iter().any(|it| matches!(&it.change, Change::Value { pointer: at, .. } if at == pointer))
    };
    assert!(at("/params/arguments/b") && !at("/params/arguments/a"), "{differences:?}");
}
