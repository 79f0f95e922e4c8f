//! Servers and clients of `mcp-blocking` over HTTP.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;

use crate::support::{DEADLINE, client_config, version_set, with_timeout};
use mcp_blocking::{Client, Error, HttpServer, Options, Router};
use mcp_proto::http::server::{Config as Http, Denial, Protected, TokenRequest};
use mcp_proto::model::Resource;
use mcp_proto::server::Identity;
use mcp_proto::{Capability, EntryKind, Era};
use serde_json::{Value, json};

#[test]
fn connect_reports_reason_of_failure() {
    with_timeout(|| {
        let without_tls = if cfg!(feature = "tls") { None } else { Some("https://h/?key=s3cret") };
        if without_tls.is_some() {
            let error = Client::connect_url("https://localhost/mcp").expect_err("no TLS");
            let names_feature = error.to_string().contains("feature `tls`");
            assert!(matches!(error, Error::Url { .. }) && names_feature, "{error}");
        }
        for url in ["localhost:80", "ftp://localhost/", "http://", ""] {
            assert!(matches!(Client::connect_url(url), Err(Error::Url { .. })), "{url}");
        }
        // Errors do not reveal the secrets of a URL.
        for url in ["http://me:s3cret@h/", "http://h:x/?key=s3cret"].into_iter().chain(without_tls) {
            let error = Client::connect_url(url).expect_err("refused");
            assert!(matches!(error, Error::Url { .. }));
            assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
        }
        // Nobody can listen at a port that a connection has.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let _near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (_far, free) = listener.accept().unwrap();
        let url = format!("http://{free}/mcp");
        let error = Client::connect_url(&url).expect_err("no listener");
        assert!(matches!(&error, Error::Closed(closed) if closed.url.as_deref() == Some(&*url)), "{error:?}");
        assert!(error.to_string().contains(&format!("{free}: ")), "{error}");
        assert!(error.to_string().contains("refused"), "{error}");
        // A name without an address fails immediately.
        let error = Client::connect_url("http://a..b/mcp").expect_err("no such name");
        assert!(error.is_closed() && error.to_string().contains("no address of a..b: "), "{error}");
        // A server of another protocol.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let foreign_server = thread::spawn(move || {
            for stream in listener.incoming().take(2) {
                let mut stream = stream.unwrap();
                let _ = stream.read(&mut [0; 4096]);
                let _ = stream.write_all(b"220 mail.example.com ESMTP\r\n");
            }
        });
        let error = Client::connect_url(&url).expect_err("no HTTP");
        assert!(error.is_closed(), "{error}");
        drop(TcpStream::connect(url.trim_start_matches("http://").trim_end_matches("/mcp")));
        foreign_server.join().unwrap();
    });
}

/// Reads a request. Returns its head and its body.
fn read_request(stream: &mut TcpStream) -> (String, Value) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("a head");
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    stream.read_exact(&mut body).expect("a body");
    (head, serde_json::from_slice(&body).unwrap())
}

/// Answers a modern request.
fn write_response(stream: &mut TcpStream, request: &Value) {
    let result = match request["method"].as_str() {
        Some("server/discover") => json!({"resultType": "complete", "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "private"}),
        _ => json!({"resultType": "complete", "content": []}),
    };
    let body = json!({"jsonrpc": "2.0", "id": request["id"], "result": result}).to_string();
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ";
    stream.write_all(format!("{head}{}\r\n\r\n{body}", body.len()).as_bytes()).unwrap();
}

#[test]
fn closed_idle_connection_is_not_reused() {
    with_timeout(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let (closed, closes) = mpsc::channel();
        let server = thread::spawn(move || {
            let mut calls = 0;
            for stream in listener.incoming().take(4) {
                let mut stream = stream.unwrap();
                let (_, body) = read_request(&mut stream);
                calls += usize::from(body["method"] == "tools/call");
                write_response(&mut stream, &body);
                // The server closes without notice, as after its idle timeout. A child that another test has just forked shares the
                // open socket for a moment, so dropping it does not suffice.
                stream.shutdown(Shutdown::Both).unwrap();
                closed.send(()).unwrap();
            }
            calls
        });
        let client =
            Options::new(client_config(version_set(Era::Modern))).connect_url(&url).expect("a server");
        for _ in 0..3 {
            closes.recv_timeout(DEADLINE).unwrap();
            client.call_tool("wave", &json!({})).expect("made once, on a connection of its own");
        }
        client.close().unwrap();
        assert_eq!(server.join().unwrap(), 3);
    });
}

// covers: AUTH-054
#[test]
fn router_that_changes_while_it_serves_protects_subscriptions() {
    with_timeout(|| {
        let (started, starts) = mpsc::channel();
        let server = thread::spawn(move || {
            let mut router = Router::new("x", "1");
            router.core().declare(Capability::ResourceSubscriptions);
            let updates = router.updates();
            router.resource(Resource::new("x://lock", "lock"), move |_, _| {
                updates.schedule(|router| {
                    assert!(router.core().require_scope(EntryKind::Resource, "x://lock", "key"));
                });
                "locked"
            });
            let resource = Protected::new("http://localhost/mcp", "http://localhost:9/as").expect("valid");
            let http = Http::new().protected(resource);
            let config = router.config().expect("valid entries");
            let mut server = HttpServer::bind("127.0.0.1:0", config, http, router)?;
            started.send((server.address()?, server.handle()?)).expect("the test waits");
            let validate =
                |request: &TokenRequest| Ok::<_, Denial>(Identity::new("a").scopes(request.token.reveal()));
            server.validate_tokens(validate).run()
        });
        let (address, handle) = starts.recv().expect("the server listens");
        let send = |method: &str, name: &str, params: &str, token: &str| {
            let body = format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{{params},"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{{}}}}}}}}"#
            );
            let mut stream = TcpStream::connect(address).expect("a connection");
            write!(
                stream,
                "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\
                 Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
                 MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n{name}Content-Length: {}\r\n\r\n{body}",
                body.len()
            )
            .expect("sent");
            let mut status = [0; 12];
            stream.read_exact(&mut status).expect("a response");
            String::from_utf8_lossy(&status[9..]).into_owned()
        };
        let params = r#""notifications":{"resourceSubscriptions":["x://lock"]}"#;
        let listen = |token| send("subscriptions/listen", "", params, token);
        assert_eq!(listen("base"), "200");
        assert_eq!(send("resources/read", "Mcp-Name: x://lock\r\n", r#""uri":"x://lock""#, "base"), "200");
        assert_eq!(listen("base"), "403");
        assert_eq!(listen("key"), "200");
        handle.shutdown(DEADLINE);
        server.join().expect("no panic").expect("no error");
    });
}
