//! Over TLS

use core::time::Duration;
use std::sync::mpsc;
use std::thread;

use mcp_blocking::tls::ServerTls;
use mcp_blocking::{Call, Cx, HttpServer};
use mcp_proto::model::CallToolResult;
use mcp_proto::{Capabilities, Capability, RawJson, RpcError, http, server};

use crate::http::Serving;
use crate::support::{PROBE, run};

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

#[test]
fn every_runtime_and_the_bridge_serve_over_tls() {
    let [chain, key, root] = ["server", "key", "root"].map(|name| format!("{CERTIFICATES}/{name}.pem"));
    let trusts = [("SSL_CERT_FILE", &*root)];
    let tls = ["--tls-cert", &chain, "--tls-key", &key];
    for runtime in ["blocking", "threads", "smol"] {
        let serving = Serving::new(&[&tls[..], &["--runtime", runtime]].concat());
        let url = serving.url.replace("127.0.0.1", "localhost");
        assert!(url.starts_with("https://"), "{url}");
        for asks in ["blocking", "threads", "smol"] {
            let echo = ["call", "echo", "--args", r#"{"text":"sealed"}"#, "--runtime", asks, &url];
            run(&echo, &trusts).code(0).says(&["sealed"]);
        }
        // Who does not speak TLS is not let in.
        run(&["ping", "-n", "1", &url.replace("https", "http")], &trusts).code(3);
    }
    let bridge = Serving::bridge(&[&tls[..], &["--", PROBE, "serve"]].concat());
    run(&["ping", &bridge.url.replace("127.0.0.1", "localhost")], &trusts).code(0);
}

#[test]
fn a_certificate_and_a_key_are_needed_and_named() {
    let [chain, key] = ["server", "key"].map(|name| format!("{CERTIFICATES}/{name}.pem"));
    let at = ["serve", "--http", "127.0.0.1:0"];
    run(&[&at[..], &["--tls-cert", &chain]].concat(), &[]).code(2).complains(&["--tls-key"]);
    run(&[&at[..], &["--tls-key", &key]].concat(), &[]).code(2).complains(&["--tls-cert"]);
    run(&["serve", "--tls-cert", &chain, "--tls-key", &key], &[]).code(2).complains(&["--http"]);
    let swapped = [&at[..], &["--tls-cert", &key, "--tls-key", &chain]].concat();
    run(&swapped, &[]).code(2).complains(&["there is no certificate (PEM) for the server"]);
    let lost = [&at[..], &["--tls-cert", "no-such-file", "--tls-key", &key]].concat();
    run(&lost, &[]).code(2).complains(&["no-such-file"]);
}
