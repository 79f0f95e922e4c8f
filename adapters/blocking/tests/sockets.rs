//! A server over HTTP and clients that do odd things with their sockets
#![cfg(unix)]

extern crate alloc;

mod support;

use core::net::SocketAddr;
use core::time::Duration;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use mcp_blocking::{Answered, Call, Cx, Handler, HttpServer};
use mcp_proto::h1::Limits;
use mcp_proto::http::server::Config as Http;
use mcp_proto::model::CallToolResult;
use mcp_proto::{Change, RawJson, RpcError};
use support::{DEADLINE, Tools, in_time, server};

/// Runs `client` against a server, which is shut down when it returns
fn against<H: Handler + Send + 'static>(
    http: Http,
    handler: H,
    more: impl FnOnce(HttpServer<H>) -> HttpServer<H> + Send + 'static,
    client: impl FnOnce(SocketAddr) + Send + 'static,
) {
    in_time(move || {
        let (told, address) = mpsc::channel();
        let (ends, ended) = mpsc::channel::<()>();
        let thread = thread::spawn(move || {
            let mut server = more(HttpServer::bind("127.0.0.1:0", server(), http, handler).unwrap());
            told.send(server.address().unwrap()).unwrap();
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

const NOWHERE: &[u8] = b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n";
const LAST: &[u8] = b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/// The head of an answer, and of its body as much as comes with it
fn answer(stream: &mut TcpStream) -> String {
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

fn post(name: &str, arguments: &str) -> Vec<u8> {
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

/// Has a server turn until `client` is done; returns what that returns
fn turned<T: Send + 'static>(
    server: &mut HttpServer<impl Handler>,
    client: impl FnOnce(SocketAddr) -> T + Send + 'static,
) -> T {
    let address = server.address().unwrap();
    let client = thread::spawn(move || client(address));
    while !client.is_finished() {
        server.poll(Duration::from_secs(2)).unwrap();
        // Time to look at what came of it before there is another turn.
        thread::sleep(Duration::from_millis(50));
    }
    client.join().unwrap()
}

// covers: SEC-018
#[test]
fn who_had_his_last_answer_and_does_not_close_holds_no_place() {
    in_time(|| {
        let mut server = HttpServer::bind("127.0.0.1:0", server(), Http::new(), Tools::new().0).unwrap();
        let holder = turned(&mut server, |address| {
            let mut holder = connect(address);
            holder.write_all(LAST).unwrap();
            assert!(answer(&mut holder).starts_with("HTTP/1.1 404 "));
            holder
        });
        assert_eq!(server.connections(), 0);
        drop(holder);
    });
}

#[test]
fn a_server_that_shuts_down_does_not_wait_for_who_is_idle() {
    in_time(|| {
        let mut server = HttpServer::bind("127.0.0.1:0", server(), Http::new(), Tools::new().0).unwrap();
        let idle = turned(&mut server, |address| {
            let mut idle = connect(address);
            idle.write_all(NOWHERE).unwrap();
            assert!(answer(&mut idle).starts_with("HTTP/1.1 404 "));
            idle
        });
        assert_eq!(server.connections(), 1);
        server.shutdown(Duration::from_secs(30));
        assert!(!server.poll(DEADLINE).unwrap(), "there is nobody to wait for");
        drop(idle);
    });
}

#[test]
fn one_newcomer_takes_one_place() {
    let few = |server: HttpServer<_>| server.max_connections(3);
    against(Http::new(), Tools::new().0, few, |address| {
        // Most likely used in the same turn of the loop: their requests are there before they are accepted.
        let mut old: Vec<TcpStream> = (0..3).map(|_| connect(address)).collect();
        old.iter_mut().for_each(|stream| stream.write_all(NOWHERE).unwrap());
        for stream in &mut old {
            assert!(answer(stream).starts_with("HTTP/1.1 404 "));
        }
        thread::sleep(Duration::from_millis(1_200));
        let mut new = connect(address);
        new.write_all(NOWHERE).unwrap();
        assert!(answer(&mut new).starts_with("HTTP/1.1 404 "));
        let is_kept = |stream: &mut TcpStream| {
            stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
            stream.read(&mut [0; 1]).is_err()
        };
        assert_eq!(old.iter_mut().map(is_kept).filter(|kept| *kept).count(), 2);
    });
}

/// Takes its time, in which nothing moves
struct Slow(Duration);

impl Handler for Slow {
    fn call(&mut self, cx: &mut Cx<'_>, call: &Call) -> Result<Answered, RpcError> {
        match &*call.tool()?.name {
            "slow" => {
                thread::sleep(self.0);
                cx.complete(&CallToolResult::text("slow"))
            }
            _ => cx.complete(&CallToolResult::text("x".repeat(24 << 20))),
        }
    }
}

#[test]
fn a_connection_is_spared_for_a_moment_after_its_answer() {
    let few = |server: HttpServer<_>| server.max_connections(1);
    against(Http::new(), Slow(Duration::from_millis(1_500)), few, |address| {
        let mut first = connect(address);
        first.write_all(&post("slow", "{}")).unwrap();
        thread::sleep(Duration::from_millis(300));
        // Waits for the only place from now on.
        let mut second = connect(address);
        second.write_all(NOWHERE).unwrap();
        assert!(answer(&mut first).starts_with("HTTP/1.1 200 "));
        thread::sleep(Duration::from_millis(100));
        first.write_all(NOWHERE).unwrap();
        assert!(answer(&mut first).starts_with("HTTP/1.1 404 "), "closed as soon as it had its answer");
        assert!(answer(&mut second).starts_with("HTTP/1.1 404 "));
    });
}

#[test]
fn a_slow_handler_is_not_held_against_those_who_read() {
    let hasty = |server: HttpServer<_>| {
        let mut limits = Limits::default();
        limits.body_idle = Duration::from_secs(1);
        server.connection_limits(limits)
    };
    against(Http::new(), Slow(Duration::from_millis(2_500)), hasty, |address| {
        let mut reader = connect(address);
        reader.write_all(&post("big", "{}")).unwrap();
        // It has begun to come, and does not fit into the socket's buffers.
        assert!(answer(&mut reader).starts_with("HTTP/1.1 200 "));
        let mut other = connect(address);
        other.write_all(&post("slow", "{}")).unwrap();
        thread::sleep(Duration::from_millis(200));
        let mut rest = Vec::new();
        let mut buffer = vec![0; 64 << 10];
        while rest.len() < (24 << 20) - 8_192 {
            match reader.read(&mut buffer) {
                Ok(n) if n > 0 => rest.extend_from_slice(&buffer[..n]),
                end => panic!("cut off after {}: {end:?}", rest.len()),
            }
        }
        assert!(answer(&mut other).starts_with("HTTP/1.1 200 "));
    });
}

// covers: HTTP-081
#[test]
fn who_sends_too_much_gets_to_read_why_it_was_refused() {
    against(
        Http::new(),
        Tools::new().0,
        |server| server,
        |address| {
            for how in ["Content-Length: 20000000", "Transfer-Encoding: chunked"] {
                let mut stream = connect(address);
                let head = format!(
                    "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                 Accept: application/json, text/event-stream\r\n{how}\r\n\r\n"
                );
                stream.write_all(head.as_bytes()).unwrap();
                let piece = vec![b' '; 1_000_000];
                for _ in 0..20 {
                    if how.starts_with('T') {
                        stream.write_all(b"f4240\r\n").unwrap();
                    }
                    stream.write_all(&piece).expect("it is read to its end");
                    if how.starts_with('T') {
                        stream.write_all(b"\r\n").unwrap();
                    }
                }
                let refusal = answer(&mut stream);
                assert!(refusal.starts_with("HTTP/1.1 413 "), "{how}: {refusal}");
            }
        },
    );
}

/// How often the loop of `server` wakes up in `time`
fn wakes<H: Handler>(server: &mut HttpServer<H>, time: Duration) -> u32 {
    let until = Instant::now() + time;
    let mut wakes = 0;
    while let Some(left) = until.checked_duration_since(Instant::now()) {
        server.poll(left).unwrap();
        wakes += 1;
    }
    wakes
}

#[test]
fn a_server_with_nothing_to_do_sleeps() {
    in_time(|| {
        let mut server = HttpServer::bind("127.0.0.1:0", server(), Http::new(), Tools::new().0).unwrap();
        let address = server.address().unwrap();
        assert!(wakes(&mut server, Duration::from_secs(1)) <= 2, "nobody has come");
        let first = turned(&mut server, |address| {
            let initialize = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}"#;
            let mut first = connect(address);
            let head = "Host: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n";
            let request = format!(
                "POST /mcp HTTP/1.1\r\n{head}Content-Length: {}\r\n\r\n{initialize}",
                initialize.len()
            );
            first.write_all(request.as_bytes()).unwrap();
            assert!(answer(&mut first).to_lowercase().contains("mcp-session-id: "));
            first
        });
        // A request under way that does not come whole, and one whose client has closed its half.
        let mut partial = connect(address);
        partial.write_all(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Le").unwrap();
        let closed = connect(address);
        closed.shutdown(Shutdown::Write).unwrap();
        let mut last = connect(address);
        last.write_all(LAST).unwrap();
        wakes(&mut server, Duration::from_secs(2));
        let count = wakes(&mut server, Duration::from_secs(3));
        assert!(count <= 4, "woke up {count} times with an idle session and connections");
        drop((first, partial, closed, last));
    });
}

/// Panics when it is asked for its tools once more
struct Forgetful(u32);

impl Handler for Forgetful {
    fn call(&mut self, cx: &mut Cx<'_>, _: &Call) -> Result<Answered, RpcError> {
        cx.publish(&Change::Tools);
        cx.complete(&CallToolResult::text("told"))
    }

    fn tools(&mut self, tell: &mut dyn FnMut(&str, &RawJson)) {
        self.0 += 1;
        assert!(self.0 < 2, "on purpose");
        let schema = r#"{"type":"object","properties":{"r":{"type":"string","x-mcp-header":"Region"}}}"#;
        tell("where", &RawJson::new(schema).unwrap());
    }
}

#[test]
fn a_panic_while_tools_are_told_ends_nothing_else() {
    against(
        Http::new(),
        Forgetful(0),
        |server| server,
        |address| {
            for (tool, status) in [("any", "200"), ("any", "200"), ("where", "400")] {
                let mut stream = connect(address);
                stream.write_all(&post(tool, r#"{"r":"eu"}"#)).unwrap();
                assert!(answer(&mut stream).starts_with(&format!("HTTP/1.1 {status} ")), "{tool}");
            }
        },
    );
    in_time(|| {
        let error = HttpServer::bind("127.0.0.1:0", server(), Http::new(), Forgetful(1)).map(drop);
        assert!(error.is_err_and(|error| error.to_string().contains("on purpose")));
    });
}
