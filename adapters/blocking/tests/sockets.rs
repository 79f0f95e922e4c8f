//! An HTTP server and clients with unusual sockets.
use core::net::SocketAddr;
use core::time::Duration;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use crate::support::{DEADLINE, Tools, server_config, with_timeout};
use mcp_blocking::{Answered, Call, Cx, Handler, HttpServer};
use mcp_proto::h1::HttpLimits;
use mcp_proto::http::server::Config as Http;
use mcp_proto::model::CallToolResult;
use mcp_proto::{Change, RawJson, RpcError};

/// Runs `client` against a server, and shuts the server down afterwards.
fn with_http_server<H: Handler + Send + 'static>(
    http: Http,
    handler: H,
    configure: impl FnOnce(HttpServer<H>) -> HttpServer<H> + Send + 'static,
    client: impl FnOnce(SocketAddr) + Send + 'static,
) {
    with_timeout(move || {
        let (started, address) = mpsc::channel();
        let (ends, ended) = mpsc::channel::<()>();
        let thread = thread::spawn(move || {
            let mut server =
                configure(HttpServer::bind("127.0.0.1:0", server_config(), http, handler).unwrap());
            started.send(server.address().unwrap()).unwrap();
            while ended.try_recv() == Err(mpsc::TryRecvError::Empty) {
                assert!(server.poll(Duration::from_millis(20)).unwrap());
            }
            server.shutdown(Duration::from_secs(1));
            while server.poll(DEADLINE).unwrap() {}
        });
        client(address.recv_timeout(DEADLINE).unwrap());
        drop(ends);
        thread.join().unwrap();
    });
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream
}

const NOT_FOUND_REQUEST: &[u8] = b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n";
const CLOSING_REQUEST: &[u8] = b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/// Reads the head of a response, and the part of the body that arrives with it.
fn read_response(stream: &mut TcpStream) -> String {
    let mut all = Vec::new();
    let mut buffer = [0; 4096];
    while !all.windows(4).any(|w| w == b"\r\n\r\n") {
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => break,
            Ok(n) => all.extend_from_slice(&buffer[..n]),
        }
    }
    String::from_utf8_lossy(&all).into_owned()
}

fn post_request(name: &str, arguments: &str) -> Vec<u8> {
    let meta = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{name}","arguments":{arguments},"_meta":{meta}}}}}"#
    );
    format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n\
         Mcp-Method: tools/call\r\nMcp-Name: {name}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// Polls a server until `client` returns, and returns its result.
fn poll_until_done<T: Send + 'static>(
    server: &mut HttpServer<impl Handler>,
    client: impl FnOnce(SocketAddr) -> T + Send + 'static,
) -> T {
    let address = server.address().unwrap();
    let client = thread::spawn(move || client(address));
    while !client.is_finished() {
        server.poll(Duration::from_secs(2)).unwrap();
        // The client sees the effect of one turn before the next one.
        thread::sleep(Duration::from_millis(50));
    }
    client.join().unwrap()
}

// covers: SEC-018
#[test]
fn answered_connection_with_close_frees_its_slot() {
    with_timeout(|| {
        let mut server =
            HttpServer::bind("127.0.0.1:0", server_config(), Http::new(), Tools::new().0).unwrap();
        let holder = poll_until_done(&mut server, |address| {
            let mut holder = connect(address);
            holder.write_all(CLOSING_REQUEST).unwrap();
            assert!(read_response(&mut holder).starts_with("HTTP/1.1 404 "));
            holder
        });
        assert_eq!(server.connections(), 0);
        drop(holder);
    });
}

#[test]
fn shutdown_closes_idle_connections() {
    with_timeout(|| {
        let mut server =
            HttpServer::bind("127.0.0.1:0", server_config(), Http::new(), Tools::new().0).unwrap();
        let idle = poll_until_done(&mut server, |address| {
            let mut idle = connect(address);
            idle.write_all(NOT_FOUND_REQUEST).unwrap();
            assert!(read_response(&mut idle).starts_with("HTTP/1.1 404 "));
            idle
        });
        assert_eq!(server.connections(), 1);
        server.shutdown(Duration::from_secs(30));
        assert!(!server.poll(DEADLINE).unwrap(), "only an idle connection is left");
        drop(idle);
    });
}

#[test]
fn new_connection_evicts_one_idle_connection() {
    let few = |server: HttpServer<_>| server.max_connections(3);
    with_http_server(Http::new(), Tools::new().0, few, |address| {
        // Requests arrive before their connections are accepted, so most likely one turn answers all of them.
        let mut old: Vec<TcpStream> = (0..3).map(|_| connect(address)).collect();
        old.iter_mut().for_each(|stream| stream.write_all(NOT_FOUND_REQUEST).unwrap());
        for stream in &mut old {
            assert!(read_response(stream).starts_with("HTTP/1.1 404 "));
        }
        thread::sleep(Duration::from_millis(1_200));
        let mut new = connect(address);
        new.write_all(NOT_FOUND_REQUEST).unwrap();
        assert!(read_response(&mut new).starts_with("HTTP/1.1 404 "));
        let is_kept = |stream: &mut TcpStream| {
            stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
            stream.read(&mut [0; 1]).is_err()
        };
        assert_eq!(old.iter_mut().map(is_kept).filter(|kept| *kept).count(), 2);
    });
}

/// Blocks the thread of the loop for the tool `slow`. Other tools return 24 MiB.
struct SlowHandler(Duration);

impl Handler for SlowHandler {
    fn call(&mut self, cx: &mut Cx<'_>, call: &Call) -> Result<Answered, RpcError> {
        match &*call.tool_call()?.name {
            "slow" => {
                thread::sleep(self.0);
                cx.complete(&CallToolResult::text("slow"))
            }
            _ => cx.complete(&CallToolResult::text("x".repeat(24 << 20))),
        }
    }
}

#[test]
fn answered_connection_is_not_evicted_at_once() {
    let few = |server: HttpServer<_>| server.max_connections(1);
    with_http_server(Http::new(), SlowHandler(Duration::from_millis(1_500)), few, |address| {
        let mut first = connect(address);
        first.write_all(&post_request("slow", "{}")).unwrap();
        thread::sleep(Duration::from_millis(300));
        // The second connection now waits for the only slot.
        let mut second = connect(address);
        second.write_all(NOT_FOUND_REQUEST).unwrap();
        assert!(read_response(&mut first).starts_with("HTTP/1.1 200 "));
        thread::sleep(Duration::from_millis(100));
        first.write_all(NOT_FOUND_REQUEST).unwrap();
        let answer = read_response(&mut first);
        assert!(answer.starts_with("HTTP/1.1 404 "), "closed as soon as it had its answer: {answer}");
        let answer = read_response(&mut second);
        assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
    });
}

#[test]
fn slow_handler_does_not_time_out_readers() {
    let with_short_timeout = |server: HttpServer<_>| {
        let mut limits = HttpLimits::default();
        limits.body_idle_timeout = Duration::from_millis(2_500);
        server.connection_limits(limits)
    };
    with_http_server(Http::new(), SlowHandler(Duration::from_millis(3_200)), with_short_timeout, |address| {
        let mut reader = connect(address);
        reader.write_all(&post_request("big", "{}")).unwrap();
        // The response has begun, and does not fit into the buffers of the socket.
        assert!(read_response(&mut reader).starts_with("HTTP/1.1 200 "));
        let mut other = connect(address);
        other.write_all(&post_request("slow", "{}")).unwrap();
        thread::sleep(Duration::from_millis(200));
        let mut rest = Vec::new();
        let mut buffer = vec![0; 64 << 10];
        while rest.len() < (24 << 20) - 8_192 {
            match reader.read(&mut buffer) {
                Ok(n) if n > 0 => rest.extend_from_slice(&buffer[..n]),
                end => panic!("cut off after {}: {end:?}", rest.len()),
            }
        }
        assert!(read_response(&mut other).starts_with("HTTP/1.1 200 "));
    });
}

// covers: HTTP-081
#[test]
fn oversized_request_receives_413() {
    with_http_server(
        Http::new(),
        Tools::new().0,
        |server| server,
        |address| {
            for framing in ["Content-Length: 20000000", "Transfer-Encoding: chunked"] {
                let mut stream = connect(address);
                let head = format!(
                    "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                 Accept: application/json, text/event-stream\r\n{framing}\r\n\r\n"
                );
                stream.write_all(head.as_bytes()).unwrap();
                let piece = vec![b' '; 1_000_000];
                for _ in 0..20 {
                    if framing.starts_with('T') {
                        stream.write_all(b"f4240\r\n").unwrap();
                    }
                    stream.write_all(&piece).expect("it is read to its end");
                    if framing.starts_with('T') {
                        stream.write_all(b"\r\n").unwrap();
                    }
                }
                let refusal = read_response(&mut stream);
                assert!(refusal.starts_with("HTTP/1.1 413 "), "{framing}: {refusal}");
            }
        },
    );
}

/// Returns how often the loop of `server` wakes up within `time`.
fn count_wakeups<H: Handler>(server: &mut HttpServer<H>, time: Duration) -> u32 {
    let until = Instant::now() + time;
    let mut wakes = 0;
    while let Some(left) = until.checked_duration_since(Instant::now()) {
        server.poll(left).unwrap();
        wakes += 1;
    }
    wakes
}

#[test]
fn idle_server_sleeps() {
    with_timeout(|| {
        let mut server =
            HttpServer::bind("127.0.0.1:0", server_config(), Http::new(), Tools::new().0).unwrap();
        let address = server.address().unwrap();
        assert!(count_wakeups(&mut server, Duration::from_millis(500)) <= 1, "there is no connection");
        let first = poll_until_done(&mut server, |address| {
            let initialize = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}"#;
            let mut first = connect(address);
            let head = "Host: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n";
            let request = format!(
                "POST /mcp HTTP/1.1\r\n{head}Content-Length: {}\r\n\r\n{initialize}",
                initialize.len()
            );
            first.write_all(request.as_bytes()).unwrap();
            assert!(read_response(&mut first).to_lowercase().contains("mcp-session-id: "));
            first
        });
        // A partial request, and a connection whose client has closed its write direction.
        let mut partial = connect(address);
        partial.write_all(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Le").unwrap();
        let closed = connect(address);
        closed.shutdown(Shutdown::Write).unwrap();
        let mut last = connect(address);
        last.write_all(CLOSING_REQUEST).unwrap();
        count_wakeups(&mut server, Duration::from_secs(1));
        let count = count_wakeups(&mut server, Duration::from_secs(1));
        assert!(count <= 3, "woke up {count} times with an idle session and connections");
        drop((first, partial, closed, last));
    });
}

/// Panics when its tools are listed again.
struct PanickingTools(u32);

impl Handler for PanickingTools {
    fn call(&mut self, cx: &mut Cx<'_>, _: &Call) -> Result<Answered, RpcError> {
        cx.publish(&Change::Tools);
        cx.complete(&CallToolResult::text("told"))
    }

    fn for_each_tool(&mut self, visit: &mut dyn FnMut(&str, &RawJson)) {
        self.0 += 1;
        assert!(self.0 < 2, "on purpose");
        let schema = r#"{"type":"object","properties":{"r":{"type":"string","x-mcp-header":"Region"}}}"#;
        visit("where", &RawJson::new(schema).unwrap());
    }
}

#[test]
fn panic_while_listing_tools_is_contained() {
    with_http_server(
        Http::new(),
        PanickingTools(0),
        |server| server,
        |address| {
            for (tool, status) in [("any", "200"), ("any", "200"), ("where", "400")] {
                let mut stream = connect(address);
                stream.write_all(&post_request(tool, r#"{"r":"eu"}"#)).unwrap();
                assert!(read_response(&mut stream).starts_with(&format!("HTTP/1.1 {status} ")), "{tool}");
            }
        },
    );
    with_timeout(|| {
        let error =
            HttpServer::bind("127.0.0.1:0", server_config(), Http::new(), PanickingTools(1)).map(drop);
        assert!(error.is_err_and(|error| error.to_string().contains("on purpose")));
    });
}
