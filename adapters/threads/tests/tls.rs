//! HTTP over TLS: clients that several threads use, and servers of one shard and of several
#![cfg(unix)]

use core::time::Duration;
use std::sync::mpsc;
use std::thread;

use mcp_proto::http::server::Config as Http;
use mcp_proto::model::CallToolResult;
use mcp_proto::server::Config;
use mcp_proto::{Capabilities, Capability, Era, VersionSet, client};
use mcp_threads::tls::{ClientTls, ServerTls};
use mcp_threads::{Call, Cx, HttpServer, Options};
use serde_json::json;

const ROOT: &[u8] = include_bytes!("../../std/tests/certificates/root.pem");
const CHAIN: &[u8] = include_bytes!("../../std/tests/certificates/server.pem");
const KEY: &[u8] = include_bytes!("../../std/tests/certificates/key.pem");

/// Generous, as test machines are slow and shared; nothing waits this long unless it hangs
const DEADLINE: Duration = Duration::from_secs(60);

#[derive(serde::Deserialize)]
struct Said {
    text: String,
}

fn all(shards: u8) {
    let config = Config::new("test", "1").capabilities(Capabilities::new().with(Capability::Tools));
    let handler = |cx: &mut Cx<'_>, call: &Call| {
        let said: Said = call.tool()?.parse()?;
        cx.complete(&CallToolResult::text(said.text))
    };
    let server = HttpServer::bind("127.0.0.1:0", config, Http::new(), handler).unwrap();
    let mut server = server.shards(shards).tls(ServerTls::from_pem(CHAIN, KEY).unwrap());
    let url = format!("https://localhost:{}/mcp", server.address().unwrap().port());
    let handle = server.handle().unwrap();
    let server = thread::spawn(move || server.run());
    let tls = ClientTls::without_system_roots().root_pem(ROOT).unwrap();
    // Sessions have a shard, which connections have to find; the modern era has none.
    for era in [Era::Legacy, Era::Modern] {
        let config = client::Config::new("test", "1").versions(VersionSet::ALL.era(era));
        let client = Options::new(config).tls(tls.clone()).connect_url(&url).unwrap();
        thread::scope(|scope| {
            for caller in 0..8 {
                let client = client.clone();
                scope.spawn(move || {
                    for said in [format!("{caller}"), format!("{caller}-").repeat(50_000)] {
                        let answer = client.call_tool("echo", &json!({"text": said})).unwrap();
                        assert!(answer.content[0].as_text() == Some(&*said));
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
fn threads_call_at_once_over_it() {
    for shards in [1, 3] {
        let (tell, told) = mpsc::channel();
        let thread = thread::spawn(move || {
            all(shards);
            tell.send(()).unwrap();
        });
        match told.recv_timeout(DEADLINE) {
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("hangs"),
            _ => thread.join().unwrap(),
        }
    }
}
