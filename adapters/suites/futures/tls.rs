//! Suite: asynchronous HTTP servers over TLS.
//!
//! `crate::adapter` names the adapter under test.

use core::net::SocketAddr;
use core::time::Duration;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc;
use std::thread;

use mcp_proto::h1::HttpLimits;
use mcp_proto::http::server::Config as Http;
use serde_json::json;

use crate::adapter::block_on_reactor as block_on;
use crate::adapter::package::HttpServer;
use crate::adapter::package::tls::{ClientTls, ServerTls};
use crate::support::{DEADLINE, ERAS, Tools, client_config, server_config, text, version_set, with_timeout};

const ROOT: &[u8] = include_bytes!("../../std/tests/certificates/root.pem");
const CHAIN: &[u8] = include_bytes!("../../std/tests/certificates/server.pem");
const KEY: &[u8] = include_bytes!("../../std/tests/certificates/key.pem");

/// Runs `client` against a server, and shuts the server down afterwards.
fn with_tls_server(shards: u8, limits: HttpLimits, client: impl FnOnce(SocketAddr) + Send + 'static) {
    with_timeout(move || {
        let (started, address) = mpsc::channel();
        let thread = thread::spawn(move || {
            let bound = HttpServer::bind("127.0.0.1:0", server_config(), Http::new(), Tools::new().0);
            let server = bound.unwrap().connection_limits(limits);
            let server = server.tls(ServerTls::from_pem(CHAIN, KEY).unwrap()).shards(shards);
            started.send((server.address().unwrap(), server.handle())).unwrap();
            block_on(server.run()).unwrap();
        });
        let (address, handle) = address.recv_timeout(DEADLINE).unwrap();
        client(address);
        handle.shutdown(Duration::from_secs(5));
        thread.join().unwrap();
    });
}

fn connect(address: SocketAddr, era: mcp_proto::Era) -> mcp_blocking::Client {
    let tls = ClientTls::without_system_roots().root_pem(ROOT).unwrap();
    let url = format!("https://localhost:{}/mcp", address.port());
    mcp_blocking::Options::new(client_config(version_set(era))).tls(tls).connect_url(&url).unwrap()
}

#[test]
fn client_operations_work_over_tls() {
    for shards in [1, 3] {
        with_tls_server(shards, HttpLimits::default(), check_all_operations);
    }
}

fn check_all_operations(address: SocketAddr) {
    // There are more connections than shards: the connections of a session must reach its shard.
    for era in ERAS.into_iter().cycle().take(6) {
        let client = connect(address, era);
        // More than any buffer holds, in both directions.
        for text_sent in ["hello".to_owned(), "0123456789abcdef".repeat(3 << 16)] {
            assert!(text(&client.call_tool("echo", &json!({"text": text_sent})).unwrap()) == text_sent);
        }
        let counted = client.call_tool("count", &json!({"steps": 50})).unwrap();
        assert_eq!(text(&counted), "counted");
        client.close().unwrap();
    }
}

// covers: SEC-018
#[test]
fn plain_or_silent_connection_is_closed() {
    let mut limits = HttpLimits::default();
    limits.head_timeout = Duration::from_secs(2);
    with_tls_server(2, limits, |address| {
        let client = connect(address, ERAS[1]);
        for text_sent in ["GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n", ""] {
            let mut plain = TcpStream::connect(address).unwrap();
            plain.set_read_timeout(Some(DEADLINE)).unwrap();
            plain.write_all(text_sent.as_bytes()).unwrap();
            let mut answer = Vec::new();
            // At most an alert arrives, then the end or a reset.
            let _ = plain.read_to_end(&mut answer);
            assert!(answer.len() < 20 && !answer.starts_with(b"HTTP"), "{answer:?}");
        }
        client.call_tool("echo", &json!({"text": "still there"})).unwrap();
    });
}
