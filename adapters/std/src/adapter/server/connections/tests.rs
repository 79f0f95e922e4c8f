//! Tests of read interest: connection and loop may each pause reading.

use alloc::sync::Arc;
use core::time::Duration;
use std::io::{Read, Write};
use std::net::TcpStream;

use mcp_proto::http::server::{Config as Http, Event};
use mcp_proto::server::{Config, Event as Served};
use mcp_proto::{CallId, Capabilities, Capability, Entropy, RawJson};

use super::*;

/// A request with a call. It is in a file because adapters contain no protocol words (DESIGN-24).
const CALL: &[u8] = include_bytes!("../../../../tests/call.http");
const UNKNOWN_PATH: &str = "GET /nowhere HTTP/1.1\r\nHost: localhost\r\nX-Padding: 0123456789\r\n\r\n";

/// Runs one turn of a loop that answers nothing. Returns the call that arrived, if any.
fn turn(connections: &mut Connections, server: &mut Server, reads: bool) -> Option<CallId> {
    connections.write(server);
    let until = connections.tick() + Duration::from_millis(20);
    connections.wait(server, reads, Some(until)).unwrap();
    let mut received = None;
    while connections.process_next(server, reads) {
        while let Some(event) = server.poll_event(connections.now()) {
            if let Event::Server(Served::Call(call)) = event {
                received = Some(call.id());
            }
        }
        connections.write(server);
    }
    received
}

/// The connection pauses reading while its buffer is full, the loop while it is busy. Neither state may spin. Input is
/// read as soon as both want it, in whatever order they resume.
#[test]
fn paused_input_is_read_once_connection_and_loop_resume() {
    let mut connections = Connections::new(Listener::bind("127.0.0.1:0").unwrap()).unwrap();
    (connections.limits.max_head, connections.limits.max_buffered) = (1024, 1024);
    let config = Config::new("x", "1").capabilities(Capabilities::new().with(Capability::Tools));
    let mut server = Server::new(Arc::new(config), Arc::new(Http::new()), Entropy::new([7; 32], 0));
    let mut client = TcpStream::connect(connections.address().unwrap()).unwrap();
    client.set_nodelay(true).unwrap();
    client.write_all(&[CALL, UNKNOWN_PATH.repeat(30).as_bytes()].concat()).unwrap();
    // The loop pauses reading.
    for _ in 0..5 {
        assert!(turn(&mut connections, &mut server, false).is_none());
    }
    let read_state = |connections: &mut Connections| {
        let connection = connections.connections.iter_mut().next().unwrap().1;
        (connection.interest.read, connection.connection.wants_input())
    };
    assert_eq!(read_state(&mut connections), (false, true));
    let call =
        core::iter::repeat_with(|| turn(&mut connections, &mut server, true)).take(500).flatten().next();
    let call = call.expect("a call");
    // The buffer of the connection is full.
    client.write_all(UNKNOWN_PATH.as_bytes()).unwrap();
    let is_full = |connections: &mut Connections, server: &mut Server| {
        turn(connections, server, true);
        read_state(connections) == (false, false)
    };
    assert!((0..500).any(|_| is_full(&mut connections, &mut server)));
    // The connection resumes while the loop pauses.
    let now = connections.tick();
    let empty = RawJson::new(r#"{"content":[]}"#).unwrap();
    server.engine().complete_raw(now, call, &empty).unwrap();
    for _ in 0..5 {
        turn(&mut connections, &mut server, false);
    }
    assert_eq!(read_state(&mut connections), (false, true));
    // Both read.
    client.set_nonblocking(true).unwrap();
    let (mut all, mut buffer) = (Vec::new(), [0; 4096]);
    for _ in 0..500 {
        turn(&mut connections, &mut server, true);
        while let Ok(n @ 1..) = client.read(&mut buffer) {
            all.extend_from_slice(&buffer[..n]);
        }
        if String::from_utf8_lossy(&all).matches("HTTP/1.1 404 ").count() == 31 {
            return;
        }
    }
    panic!("not all were answered: {}", String::from_utf8_lossy(&all));
}

#[test]
fn waker_ends_wait() {
    let mut connections = Connections::new(Listener::bind("127.0.0.1:0").unwrap()).unwrap();
    let mut server =
        Server::new(Arc::new(Config::new("x", "1")), Arc::new(Http::new()), Entropy::new([7; 32], 0));
    connections.waker().unwrap().wake();
    connections.wait(&mut server, true, None).unwrap();
    assert!(!connections.process_next(&mut server, true));
}
