//! Tests of read interest, where connection and loop may each pause reading, and of admission at the limit.

use alloc::sync::Arc;
use core::time::Duration;
use std::io::{Read, Write};
use std::net::TcpStream;

use mcp_proto::http::server::{Config as Http, Event};
use mcp_proto::server::{Config, Event as Served};
use mcp_proto::{CallId, Capabilities, Capability, Entropy, RawJson};

use super::*;

/// A request with a call. It is in a file because adapters contain no protocol words (DESIGN-24).
const CALL: &[u8] = include_bytes!("../../../tests/call.http");
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

fn new_server() -> Server {
    let config = Config::new("x", "1").capabilities(Capabilities::new().with(Capability::Tools));
    Server::new(Arc::new(config), Arc::new(Http::new()), Entropy::new([7; 32], 0))
}

/// Runs turns until `client` has received `wanted`, or nothing more comes for a second. Returns what it received.
fn receive(
    connections: &mut Connections,
    server: &mut Server,
    client: &mut TcpStream,
    wanted: &str,
) -> String {
    client.set_nonblocking(true).unwrap();
    let (mut all, mut buffer) = (Vec::new(), [0; 64 << 10]);
    for _ in 0..50 {
        turn(connections, server, true);
        loop {
            match client.read(&mut buffer) {
                Ok(0) => return String::from_utf8_lossy(&all).into_owned(),
                Ok(n) => all.extend_from_slice(&buffer[..n]),
                Err(_) => break,
            }
        }
        // Long responses are asked for by their end.
        if String::from_utf8_lossy(&all[all.len().saturating_sub(4096)..]).contains(wanted) {
            break;
        }
    }
    String::from_utf8_lossy(&all).into_owned()
}

/// Runs turns until a call has arrived.
fn expect_call(connections: &mut Connections, server: &mut Server) -> CallId {
    let mut calls = core::iter::repeat_with(|| turn(connections, server, true)).take(500).flatten();
    calls.next().expect("a call")
}

/// A handler on this thread may run for seconds. What arrived meanwhile is not read yet, and is a request all the same.
#[test]
fn connection_with_an_unread_request_is_not_evicted() {
    let mut connections = Connections::new(Listener::bind("127.0.0.1:0").unwrap()).unwrap();
    connections.max_connections = 2;
    let mut server = new_server();
    let connect = |connections: &Connections| TcpStream::connect(connections.address().unwrap()).unwrap();
    // One connection is idle, one never sent a byte.
    let mut idle = connect(&connections);
    idle.write_all(UNKNOWN_PATH.as_bytes()).unwrap();
    receive(&mut connections, &mut server, &mut idle, " 404 ");
    std::thread::sleep(Duration::from_millis(250));
    let mut silent = connect(&connections);
    turn(&mut connections, &mut server, true);
    assert_eq!(connections.count(), 2);
    // A third one waits, while the thread is busy.
    let mut waiting = connect(&connections);
    connections.wait(&mut server, true, None).unwrap();
    waiting.write_all(UNKNOWN_PATH.as_bytes()).unwrap();
    connections.wait(&mut server, true, None).unwrap();
    assert_eq!(connections.waiting.len(), 1);
    std::thread::sleep(Duration::from_millis(400));
    for client in [&mut idle, &mut silent] {
        client.write_all(UNKNOWN_PATH.as_bytes()).unwrap();
    }
    connections.tick();
    while connections.process_next(&mut server, true) {
        connections.write(&mut server);
    }
    for client in [&mut idle, &mut silent, &mut waiting] {
        let response = receive(&mut connections, &mut server, client, " 404 ");
        assert!(response.starts_with("HTTP/1.1 404 "), "{response:?}");
    }
}

/// The same of a reader: it did not stall while nothing was written.
#[test]
fn connection_whose_reader_took_its_output_is_not_evicted() {
    let mut connections = Connections::new(Listener::bind("127.0.0.1:0").unwrap()).unwrap();
    connections.max_connections = 1;
    let mut server = new_server();
    let mut client = TcpStream::connect(connections.address().unwrap()).unwrap();
    client.write_all(CALL).unwrap();
    let call = expect_call(&mut connections, &mut server);
    let text = "x".repeat(12 << 20);
    let result = alloc::format!(r#"{{"content":[{{"type":"text","text":"{text}"}}]}}"#);
    let now = connections.tick();
    server.engine().complete_raw(now, call, &RawJson::new(result).unwrap()).unwrap();
    turn(&mut connections, &mut server, true);
    let mut waiting = TcpStream::connect(connections.address().unwrap()).unwrap();
    waiting.write_all(UNKNOWN_PATH.as_bytes()).unwrap();
    // It may arrive later than a turn lasts.
    for _ in 0..500 {
        turn(&mut connections, &mut server, true);
        if !connections.waiting.is_empty() {
            break;
        }
    }
    assert_eq!(connections.waiting.len(), 1);
    std::thread::sleep(Duration::from_millis(2_100));
    let mut buffer = vec![0; 8 << 20];
    client.read_exact(&mut buffer[..2 << 20]).unwrap();
    connections.tick();
    connections.process_next(&mut server, true);
    let mut all = receive(&mut connections, &mut server, &mut client, "]}}");
    for _ in 0..50 {
        if all.len() >= 10 << 20 {
            return;
        }
        all.push_str(&receive(&mut connections, &mut server, &mut client, "]}}"));
    }
    panic!("the response was truncated at {} bytes", all.len());
}

/// A request that waits for a permit gets its refusal before the server ends.
#[test]
fn request_that_waits_is_refused_at_shutdown() {
    let mut connections = Connections::new(Listener::bind("127.0.0.1:0").unwrap()).unwrap();
    connections.max_connections = 1;
    let mut server = new_server();
    let address = connections.address().unwrap();
    let mut busy = TcpStream::connect(address).unwrap();
    busy.write_all(CALL).unwrap();
    let call = expect_call(&mut connections, &mut server);
    let mut waiting = TcpStream::connect(address).unwrap();
    waiting.write_all(UNKNOWN_PATH.as_bytes()).unwrap();
    let silent = TcpStream::connect(address).unwrap();
    for _ in 0..3 {
        turn(&mut connections, &mut server, true);
    }
    assert_eq!(connections.waiting.len(), 2);
    let now = connections.tick();
    server.shutdown(now, Duration::from_secs(9));
    connections.close(&mut server);
    let response = receive(&mut connections, &mut server, &mut waiting, "\r\n\r\n");
    assert!(response.starts_with("HTTP/1.1 503 "), "{response:?}");
    // The call is answered, and then the server ends.
    let empty = RawJson::new(r#"{"content":[]}"#).unwrap();
    let now = connections.tick();
    server.engine().complete_raw(now, call, &empty).unwrap();
    let response = receive(&mut connections, &mut server, &mut busy, "content");
    assert!(response.starts_with("HTTP/1.1 200 "), "{response:?}");
    drop((waiting, silent, busy));
    for _ in 0..50 {
        turn(&mut connections, &mut server, true);
    }
    assert!(connections.is_over());
}

/// The first shard has the connections that wait; the others must make room for them, too.
#[test]
fn crowded_connections_of_other_shards_end_after_their_responses() {
    let mut first = Connections::new(Listener::bind("127.0.0.1:0").unwrap()).unwrap();
    first.max_connections = 2;
    let mut second = first.shard(1, 2).unwrap();
    let mut servers = [new_server(), new_server()];
    let [server, other] = &mut servers;
    let address = first.address().unwrap();
    let mut clients: Vec<TcpStream> = Vec::new();
    for _ in 0..2 {
        let mut client = TcpStream::connect(address).unwrap();
        client.write_all(CALL).unwrap();
        clients.push(client);
        for _ in 0..5 {
            turn(&mut first, server, true);
            while let Some((shard, connection)) = first.poll_migrating() {
                assert_eq!(shard, 1);
                second.adopt(other, connection);
            }
        }
    }
    let call = expect_call(&mut second, other);
    let answer = |second: &mut Connections, other: &mut Server, call| {
        let empty = RawJson::new(r#"{"content":[]}"#).unwrap();
        let now = second.tick();
        other.engine().complete_raw(now, call, &empty).unwrap();
    };
    answer(&mut second, other, call);
    let response = receive(&mut second, other, &mut clients[1], "content");
    assert!(response.starts_with("HTTP/1.1 200 ") && !response.contains("Connection: close"), "{response}");
    // Now one waits.
    let mut waiting = TcpStream::connect(address).unwrap();
    waiting.write_all(UNKNOWN_PATH.as_bytes()).unwrap();
    for _ in 0..3 {
        turn(&mut first, server, true);
    }
    clients[1].write_all(CALL).unwrap();
    let call = expect_call(&mut second, other);
    answer(&mut second, other, call);
    let response = receive(&mut second, other, &mut clients[1], "content");
    assert!(response.contains("Connection: close"), "{response}");
    turn(&mut second, other, true);
    let response = receive(&mut first, server, &mut waiting, " 404 ");
    assert!(response.starts_with("HTTP/1.1 404 "), "{response:?}");
    // The crowd is over.
    turn(&mut first, server, true);
    assert!(!second.is_crowded());
}

/// One waiting request costs one connection, however many shards were asked.
#[test]
fn shards_evict_one_connection_for_one_request() {
    let mut first = Connections::new(Listener::bind("127.0.0.1:0").unwrap()).unwrap();
    first.max_connections = 3;
    let mut others = [first.shard(1, 3).unwrap(), first.shard(2, 3).unwrap()];
    let mut servers = [new_server(), new_server(), new_server()];
    let [server, rest @ ..] = &mut servers;
    let address = first.address().unwrap();
    let mut clients: Vec<TcpStream> = Vec::new();
    for _ in 0..3 {
        let mut client = TcpStream::connect(address).unwrap();
        if clients.is_empty() {
            // The connection of the first shard is owed a response.
            client.write_all(CALL).unwrap();
        }
        clients.push(client);
        for _ in 0..3 {
            turn(&mut first, server, true);
        }
        while let Some((shard, connection)) = first.poll_migrating() {
            let at = usize::from(shard) - 1;
            others[at].adopt(&mut rest[at], connection);
        }
    }
    for (other, server) in others.iter_mut().zip(&mut *rest) {
        turn(other, server, true);
    }
    let mut waiting = TcpStream::connect(address).unwrap();
    waiting.write_all(UNKNOWN_PATH.as_bytes()).unwrap();
    for _ in 0..3 {
        turn(&mut first, server, true);
    }
    assert!(first.take_at_capacity() && first.count() == 3);
    for (other, server) in others.iter_mut().zip(&mut *rest) {
        other.tick();
        other.evict_for_first_shard(server);
    }
    assert_eq!(first.count(), 2);
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
