//! HTTP over TLS with `mcp-threads`: a client that threads share, and servers of one shard and of several.
use core::time::Duration;
use std::thread;

use crate::support::{ERAS, client_config, server_config, version_set, with_timeout};
use mcp_proto::http::server::Config as Http;
use mcp_proto::model::CallToolResult;
use mcp_threads::tls::{ClientTls, ServerTls};
use mcp_threads::{Call, Cx, HttpServer, Options};
use serde_json::json;

const ROOT: &[u8] = include_bytes!("../../std/tests/certificates/root.pem");
const CHAIN: &[u8] = include_bytes!("../../std/tests/certificates/server.pem");
const KEY: &[u8] = include_bytes!("../../std/tests/certificates/key.pem");

#[derive(serde::Deserialize)]
struct EchoArguments {
    text: String,
}

fn check_calls(shards: u8) {
    let handler = |cx: &mut Cx<'_>, call: &Call| {
        let echo: EchoArguments = call.tool_call()?.parse()?;
        cx.complete(&CallToolResult::text(echo.text))
    };
    let server = HttpServer::bind("127.0.0.1:0", server_config(), Http::new(), handler).unwrap();
    let mut server = server.shards(shards).tls(ServerTls::from_pem(CHAIN, KEY).unwrap());
    let url = format!("https://localhost:{}/mcp", server.address().unwrap().port());
    let handle = server.handle().unwrap();
    let server = thread::spawn(move || server.run());
    let tls = ClientTls::without_system_roots().root_pem(ROOT).unwrap();
    // A legacy session belongs to a shard, which its connections must reach. The modern era has no sessions.
    for era in ERAS {
        let client =
            Options::new(client_config(version_set(era))).tls(tls.clone()).connect_url(&url).unwrap();
        thread::scope(|scope| {
            for caller in 0..8 {
                let client = client.clone();
                scope.spawn(move || {
                    for echo in [format!("{caller}"), format!("{caller}-").repeat(50_000)] {
                        let answer = client.call_tool("echo", &json!({"text": echo})).unwrap();
                        assert!(answer.content[0].as_text() == Some(&*echo));
                    }
                });
            }
        });
        client.close().unwrap();
    }
    handle.shutdown(Duration::from_secs(5));
    server.join().unwrap().unwrap();
}

#[test]
fn threads_share_client_over_tls() {
    for shards in [1, 3] {
        with_timeout(move || check_calls(shards));
    }
}
