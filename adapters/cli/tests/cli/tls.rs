//! Over TLS

use core::time::Duration;
use std::sync::mpsc;
use std::thread;

use mcp_blocking::tls::ServerTls;
use mcp_blocking::{Call, Cx, HttpServer};
use mcp_proto::model::CallToolResult;
use mcp_proto::{Capabilities, Capability, RawJson, RpcError, http, server};

use crate::support::run;

const CERTIFICATES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../std/tests/certificates");

/// Where a server is that goes on until the returned end is dropped
fn serve() -> (String, mpsc::Sender<()>) {
    let config = server::Config::new("test", "1").capabilities(Capabilities::new().with(Capability::Tools));
    let list = r#"{"tools":[{"name":"wave","description":"Waves","inputSchema":{"type":"object"}}]}"#;
    let list = RawJson::new(list).expect("JSON");
    let handler = move |cx: &mut Cx<'_>, call: &Call| match call.method() {
        "tools/list" => cx.complete_raw(&list),
        "tools/call" => cx.complete(&CallToolResult::text("waved")),
        other => Err(RpcError::method_not_found(other)),
    };
    let http = http::server::Config::new();
    let server = HttpServer::bind("127.0.0.1:0", config, http, handler).expect("a port");
    let files = ["server", "key"].map(|name| format!("{CERTIFICATES}/{name}.pem"));
    let mut server = server.tls(ServerTls::from_files(&files[0], &files[1]).expect("a certificate"));
    let port = server.address().expect("bound").port();
    let (ends, ended) = mpsc::channel();
    thread::spawn(move || {
        while ended.try_recv() == Err(mpsc::TryRecvError::Empty) {
            server.poll(Duration::from_millis(20)).expect("a turn");
        }
    });
    (format!("https://localhost:{port}/mcp"), ends)
}

#[test]
fn a_server_over_tls_is_called_and_checked() {
    let (url, _ends) = serve();
    // Roots that the system has are replaced by this variable.
    let root = format!("{CERTIFICATES}/root.pem");
    let trusts = [("SSL_CERT_FILE", &*root)];
    assert!(run(&["call", "wave", &url], &trusts).code(0).stdout.contains("waved"));
    run(&["ping", &url], &trusts).code(0);
    let checked = run(&["check", &url], &trusts);
    assert!(checked.stdout.contains("2026-07-28") && !checked.stderr.contains("connection"), "{checked}");

    let other = format!("{CERTIFICATES}/unknown.pem");
    let distrusts = [("SSL_CERT_FILE", &*other)];
    for command in ["ping", "check"] {
        run(&[command, &url], &distrusts)
            .code(3)
            .complains(&["the certificate of localhost is not accepted"]);
    }
}
