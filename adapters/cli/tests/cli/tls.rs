//! HTTP over TLS.

use core::time::Duration;
use std::sync::mpsc;
use std::thread;

use mcp_blocking::tls::ServerTls;
use mcp_blocking::{Call, Cx, HttpServer};
use mcp_proto::model::CallToolResult;
use mcp_proto::{Capabilities, Capability, RawJson, RpcError, http, server};

use crate::http::{ServingProcess, stderr_of_server};
use crate::support::{ClosedAddress, PROBE, run};

const CERTIFICATES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../std/tests/certificates");

/// Starts a server that runs until the returned sender is dropped. Returns its URL.
fn serve_tls() -> (String, mpsc::Sender<()>) {
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
fn call_and_check_work_over_tls() {
    let (url, _ends) = serve_tls();
    // This variable replaces the root certificates of the system.
    let root = format!("{CERTIFICATES}/root.pem");
    let trusts = [("SSL_CERT_FILE", &*root)];
    assert!(run(&["call", "wave", &url], &trusts).assert_code(0).stdout.contains("waved"));
    run(&["ping", &url], &trusts).assert_code(0);
    let checked = run(&["check", &url], &trusts);
    assert!(checked.stdout.contains("2026-07-28") && !checked.stderr.contains("connection"), "{checked}");

    let other = format!("{CERTIFICATES}/unknown.pem");
    let distrusts = [("SSL_CERT_FILE", &*other)];
    for command in ["ping", "check"] {
        run(&[command, &url], &distrusts)
            .assert_code(3)
            .assert_stderr(&["the certificate of localhost is not accepted"]);
    }
}

#[test]
fn certificate_of_openssl_is_explained_and_accepted_once_it_is_trusted_itself() {
    let [root, own, again, other, expired, key] =
        ["root", "own", "own_again", "own_other", "own_expired", "key"]
            .map(|name| format!("{CERTIFICATES}/{name}.pem"));
    let serving = ServingProcess::new(&["--tls-cert", &own, "--tls-key", &key]);
    let url = serving.url.replace("127.0.0.1", "localhost");
    // The root of others, and another certificate with the same key and names.
    for file in [&root, &again] {
        for command in
            [&["ping"][..], &["call", "echo"], &["check"], &["doctor"], &["inspect", "--runtime", "tokio"]]
        {
            let done = run(&[command, &[&url]].concat(), &[("SSL_CERT_FILE", file)]).assert_code(3);
            let all = format!("{}{}", done.stdout, done.stderr);
            for words in ["openssl req -x509", "name its file in SSL_CERT_FILE"] {
                assert!(all.contains(words), "{command:?} {all}");
            }
            assert!(!all.contains("CaUsed") && !all.contains("firewall"), "{all}");
        }
    }
    for command in ["ping", "doctor"] {
        run(&[command, &url], &[("SSL_CERT_FILE", &own)]).assert_code(0);
    }
    // It is trusted for its names and its time.
    for (file, words) in
        [(&other, &["not for localhost", "use a name"][..]), (&expired, &["it has expired", "renew"])]
    {
        let serving = ServingProcess::new(&["--tls-cert", file, "--tls-key", &key]);
        let url = serving.url.replace("127.0.0.1", "localhost");
        run(&["ping", &url], &[("SSL_CERT_FILE", file)]).assert_code(3).assert_stderr(words);
    }
}

#[test]
fn all_runtimes_and_the_bridge_serve_over_tls() {
    let [chain, key, root] = ["server", "key", "root"].map(|name| format!("{CERTIFICATES}/{name}.pem"));
    let trusts = [("SSL_CERT_FILE", &*root)];
    let tls = ["--tls-cert", &chain, "--tls-key", &key];
    for runtime in ["blocking", "threads", "smol"] {
        let serving = ServingProcess::new(&[&tls[..], &["--runtime", runtime]].concat());
        let url = serving.url.replace("127.0.0.1", "localhost");
        assert!(url.starts_with("https://"), "{url}");
        for asks in ["blocking", "threads", "smol"] {
            let echo = ["call", "echo", "--args", r#"{"text":"sealed"}"#, "--runtime", asks, &url];
            run(&echo, &trusts).assert_code(0).assert_stdout(&["sealed"]);
        }
        // A client without TLS is refused.
        run(&["ping", "-n", "1", &url.replace("https", "http")], &trusts).assert_code(3);
    }
    let bridge = ServingProcess::bridge(&[&tls[..], &["--", PROBE, "serve"]].concat());
    run(&["ping", &bridge.url.replace("127.0.0.1", "localhost")], &trusts).assert_code(0);
}

#[test]
fn server_with_tls_at_routable_address_says_that_it_encrypts() {
    let [chain, key] = ["server", "key"].map(|name| format!("{CERTIFICATES}/{name}.pem"));
    let stderr = stderr_of_server(&["serve", "--http", "0.0.0.0:0", "--tls-cert", &chain, "--tls-key", &key]);
    assert!(stderr.contains("TLS encrypts the connections") && !stderr.contains("no TLS"), "{stderr}");
}

#[test]
fn refused_connection_is_not_reported_as_a_tls_failure() {
    for host in ["127.0.0.1", "localhost"] {
        let free = ClosedAddress::new();
        let url = format!("https://{host}:{}/mcp", free.address.port());
        for command in [
            &["inspect"][..],
            &["inspect", "--runtime", "threads"],
            &["inspect", "--runtime", "smol"],
            &["check"],
        ] {
            let done = run(&[command, &[&url]].concat(), &[]).assert_code(3);
            assert!(!done.stderr.contains("TLS"), "{done}");
            done.assert_stderr(&[&url, "refused", "is the server running, and is this its host and port?"]);
        }
    }
}

#[test]
fn missing_certificate_or_key_is_named() {
    let [chain, key] = ["server", "key"].map(|name| format!("{CERTIFICATES}/{name}.pem"));
    let at = ["serve", "--http", "127.0.0.1:0"];
    run(&[&at[..], &["--tls-cert", &chain]].concat(), &[]).assert_code(2).assert_stderr(&["--tls-key"]);
    run(&[&at[..], &["--tls-key", &key]].concat(), &[]).assert_code(2).assert_stderr(&["--tls-cert"]);
    run(&["serve", "--tls-cert", &chain, "--tls-key", &key], &[]).assert_code(2).assert_stderr(&["--http"]);
    let swapped = [&at[..], &["--tls-cert", &key, "--tls-key", &chain]].concat();
    run(&swapped, &[]).assert_code(2).assert_stderr(&["no PEM certificate found for the server"]);
    let lost = [&at[..], &["--tls-cert", "no-such-file", "--tls-key", &key]].concat();
    run(&lost, &[]).assert_code(2).assert_stderr(&["no-such-file"]);
}
