//! Two servers behind the gateway, and clients of both eras in front.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use mcp_blocking::mcp_proto::client::Config as ClientConfig;
use mcp_blocking::mcp_proto::http::server::Config;
use mcp_blocking::mcp_proto::{Era, VersionSet};
use mcp_blocking::{Client, Cx, HttpServer, Router, schemars};
use mcp_proto_proxy::host::Stop;
use serde_json::json;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Numbers {
    a: i64,
    b: i64,
}

/// Starts a server with one tool, and returns its URL.
fn server(tool: &'static str, result: fn(i64, i64) -> i64) -> String {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        let mut router = Router::new(tool, "1");
        router.tool(tool, move |_: &mut Cx<'_>, Numbers { a, b }: Numbers| result(a, b).to_string());
        let config = router.config().expect("a configuration");
        let server = HttpServer::bind("127.0.0.1:0", config, Config::new(), router).expect("a server");
        tell.send(server.address().expect("an address")).expect("the test waits");
        server.run()
    });
    format!("http://{}/mcp", told.recv().expect("a server"))
}

fn health(gateway: SocketAddr) -> String {
    let mut stream = TcpStream::connect(gateway).expect("a connection");
    let request = format!("GET /health HTTP/1.1\r\nHost: {gateway}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer.split("\r\n\r\n").nth(1).unwrap_or_default().to_owned()
}

#[test]
fn servers_are_one_for_clients_of_both_eras() {
    let (tell, told) = mpsc::channel();
    let (sum, product) = (server("add", |a, b| a + b), server("multiply", |a, b| a * b));
    let stop = Stop::new().expect("descriptors");
    let gateway = mcp_own_gateway::serve(&[("sum", &sum), ("product", &product)], tell, stop.clone())
        .expect("a gateway");
    let url = format!("http://{gateway}/mcp");
    for era in [Era::Legacy, Era::Modern] {
        let config = ClientConfig::new("visitor", "1").versions(VersionSet::ALL.era(era));
        let client = Client::options(config).connect_url(&url).expect("a connection");
        let mut names: Vec<_> =
            client.list_tools().expect("tools").iter().map(|tool| tool.name.clone()).collect();
        names.sort_unstable();
        assert_eq!(names, ["product_multiply", "sum_add"], "{era}");
        for (tool, result) in [("sum_add", "5"), ("product_multiply", "6")] {
            let answer = client.call_tool(tool, &json!({"a": 2, "b": 3})).expect("an answer");
            assert_eq!(answer.content[0].as_text(), Some(result), "{era} {tool}");
        }
        client.close().expect("the end");
    }
    let ready =
        r#"{"status":"ok","servers":[{"name":"sum","state":"ready"},{"name":"product","state":"ready"}]}"#;
    assert_eq!(health(gateway), ready);
    stop.shutdown(Duration::from_secs(1));
    let told: Vec<_> = told.iter().collect();
    for server in ["`sum` is ready: add 1, ", "`product` is ready: multiply 1, "] {
        assert!(told.iter().any(|notice| notice.starts_with(server)), "{told:?}");
    }
    assert!(told.iter().any(|notice| notice == "no client is served any more"), "{told:?}");
}
