//! Suite: an HTTP server at its connection limit, with quiet, slow or hostile clients.
//!
//! `crate::adapter` names the adapter under test.

#![allow(unused_mut, reason = "not each adapter changes its server")]

use core::time::Duration;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::Instant;

use mcp_proto::http::server::Config as Http;

use super::http::{HttpTestServer, call};
use crate::adapter::HttpServer;
use crate::support::{DEADLINE, Tools, with_timeout};

/// Starts a server with a connection limit.
fn server(max_connections: usize) -> HttpTestServer {
    HttpTestServer::with_options(
        Http::new().retry(Duration::from_millis(100)),
        || Tools::new().0,
        move |server: HttpServer<_>| server.max_connections(max_connections),
    )
}

/// Reads one response with a known length. Returns what came if the connection ends before.
fn read_response(stream: &mut TcpStream) -> String {
    let (mut all, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let text = String::from_utf8_lossy(&all);
        let length = text.split_once("\r\n\r\n").and_then(|(head, body)| {
            let lower = head.to_ascii_lowercase();
            let length = lower.split("content-length: ").nth(1)?.lines().next()?.trim().parse().ok()?;
            (body.len() >= length).then_some(())
        });
        if length.is_some() {
            return text.into_owned();
        }
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return text.into_owned(),
            Ok(n) => all.extend_from_slice(&buffer[..n]),
        }
    }
}

/// Calls the tool `echo` on a new connection. Returns the response.
fn call_echo(served: &HttpTestServer) -> String {
    let mut stream = served.connect();
    stream.write_all(&call("echo", r#"{"text":"here"}"#, "")).unwrap();
    read_response(&mut stream)
}

#[track_caller]
fn assert_served(response: &str) {
    assert!(response.starts_with("HTTP/1.1 200 ") && response.contains("here"), "{response}");
}

#[track_caller]
fn assert_refused(response: &str) {
    let lower = response.to_ascii_lowercase();
    assert!(lower.starts_with("http/1.1 503 ") && lower.contains("\r\nretry-after: "), "{response}");
}

fn post(body: &str, more: &str) -> Vec<u8> {
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\n{more}Content-Length: {}\r\n\r\n",
        body.len()
    );
    [head, body.to_owned()].concat().into_bytes()
}

/// Opens a legacy session with its GET stream.
fn open_quiet_stream(served: &HttpTestServer) -> TcpStream {
    let initialize = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}"#;
    let mut stream = served.connect();
    stream.write_all(&post(initialize, "Connection: close\r\n")).unwrap();
    let response = read_response(&mut stream);
    let lower = response.to_ascii_lowercase();
    let at = lower.find("mcp-session-id: ").unwrap_or_else(|| panic!("no session: {response}"));
    let session = response[at + "mcp-session-id: ".len()..].lines().next().unwrap();
    let mut stream = served.connect();
    let get = format!(
        "GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\
         MCP-Protocol-Version: 2025-11-25\r\nMcp-Session-Id: {session}\r\n\r\n"
    );
    stream.write_all(get.as_bytes()).unwrap();
    let mut head = [0; 12];
    stream.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"HTTP/1.1 200", "{}", String::from_utf8_lossy(&head));
    stream
}

/// Returns whether the body of a stream has ended.
fn has_ended(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let (mut all, mut buffer) = (Vec::new(), [0; 4096]);
    while let Ok(n) = stream.read(&mut buffer) {
        all.extend_from_slice(&buffer[..n]);
        if n == 0 {
            return true;
        }
    }
    all.ends_with(b"0\r\n\r\n")
}

// covers: SEC-018, HTTP-058
#[test]
fn quiet_streams_leave_connections_to_requests() {
    with_timeout(|| {
        let served = server(16);
        // More clients than connections, each with a quiet stream.
        let mut streams: Vec<TcpStream> = (0..24).map(|_| open_quiet_stream(&served)).collect();
        for _ in 0..20 {
            assert_served(&call_echo(&served));
        }
        let open = streams.iter_mut().filter_map(|stream| (!has_ended(stream)).then_some(())).count();
        assert_eq!(open, 12, "three quarters of the connections");
        drop(streams);
        served.stop();
    });
}

/// Behaviour of a hostile client on its connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Hostile {
    Silent,
    HalfHead,
    SlowHead,
    SlowBody,
    NeverReads,
}

impl Hostile {
    fn open(self, served: &HttpTestServer) -> TcpStream {
        let mut stream = served.connect();
        let whole = call("echo", r#"{"text":"here"}"#, "");
        // The server may have closed it already.
        let _ = match self {
            Self::Silent => Ok(()),
            Self::HalfHead => stream.write_all(&whole[..100]),
            Self::SlowHead => stream.write_all(&whole[..1]),
            Self::SlowBody => stream.write_all(&whole[..whole.len() - 40]),
            Self::NeverReads => stream.write_all(&whole),
        };
        stream
    }
}

// covers: SEC-018
#[test]
fn slow_and_silent_clients_are_evicted() {
    with_timeout(|| {
        use Hostile::{HalfHead, NeverReads, Silent, SlowBody, SlowHead};
        for kind in [Silent, HalfHead, SlowHead, SlowBody, NeverReads] {
            let served = server(16);
            let mut crowd: Vec<TcpStream> = (0..64).map(|_| kind.open(&served)).collect();
            for _ in 0..10 {
                // One more byte of each, as long as the server listens.
                if matches!(kind, SlowHead | SlowBody) {
                    crowd.iter_mut().for_each(|stream| _ = stream.write_all(b" "));
                }
                let response = call_echo(&served);
                assert!(response.starts_with("HTTP/1.1 200 "), "{kind:?}: {response}");
            }
            drop(crowd);
            served.stop();
        }
    });
}

// covers: SEC-018, HTTP-081
#[test]
fn refused_connection_that_lingers_is_evicted() {
    with_timeout(|| {
        let served = server(1);
        let mut refused = served.connect();
        refused.write_all(b"no HTTP at all\r\n\r\n").unwrap();
        assert!(read_response(&mut refused).starts_with("HTTP/1.1 400 "));
        // Its client does not close it, and sends on.
        let _ = refused.write_all(b"x");
        assert_served(&call_echo(&served));
        drop(refused);
        served.stop();
    });
}

// covers: SEC-018
#[test]
fn request_without_a_permit_is_refused_in_time() {
    with_timeout(|| {
        let served = server(2);
        // Both permits belong to requests that are being received fast enough.
        let head = post(&" ".repeat(4 << 20), "");
        let busy: Vec<TcpStream> = (0..2)
            .map(|_| {
                let mut stream = served.connect();
                stream.write_all(&head[..1 << 20]).unwrap();
                stream
            })
            .collect();
        thread::sleep(Duration::from_millis(100));
        let begun = Instant::now();
        let mut waiting: Vec<TcpStream> = (0..5).map(|_| served.connect()).collect();
        let request = call("echo", r#"{"text":"here"}"#, "");
        waiting.iter_mut().for_each(|stream| stream.write_all(&request).unwrap());
        for stream in &mut waiting {
            assert_refused(&read_response(stream));
        }
        assert!(begun.elapsed() < DEADLINE / 2);
        // A permit that is released goes to the next one.
        let mut next = served.connect();
        next.write_all(&request).unwrap();
        busy[0].shutdown(Shutdown::Both).unwrap();
        assert_served(&read_response(&mut next));
        drop(busy);
        served.stop();
    });
}
