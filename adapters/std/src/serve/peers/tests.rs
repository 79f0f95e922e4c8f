//! What the loop and a connection want is not what is there

use alloc::sync::Arc;
use core::time::Duration;
use std::io::{Read, Write};
use std::net::TcpStream;

use mcp_proto::http::server::{Config as Http, Event};
use mcp_proto::server::{Config, Event as Served};
use mcp_proto::{CallId, Capabilities, Capability, Entropy, RawJson};

use super::*;

/// A request with a call in it; a file, as adapters know no words of the protocol
const CALL: &[u8] = include_bytes!("../../../tests/call.http");
const NOWHERE: &str = "GET /nowhere HTTP/1.1\r\nHost: localhost\r\nX-Padding: 0123456789\r\n\r\n";

/// One turn of a loop that answers nothing; the call that came, if one did
fn turn(peers: &mut Peers, server: &mut Server, reads: bool) -> Option<CallId> {
    peers.write(server);
    let until = peers.tick() + Duration::from_millis(20);
    peers.wait(server, reads, Some(until)).unwrap();
    let mut came = None;
    while peers.next(server, reads) {
        while let Some(event) = server.poll_event(peers.now()) {
            if let Event::Server(Served::Call(call)) = event {
                came = Some(call.id());
            }
        }
        peers.write(server);
    }
    came
}

/// What is there may not be wanted: by the connection, which has enough of it, or by the loop. Neither is spun
/// about, and it is read as soon as both want it, in whatever order they came to that
#[test]
fn what_nobody_wanted_is_read_once_somebody_does() {
    let mut peers = Peers::new(Listener::bind("127.0.0.1:0").unwrap()).unwrap();
    (peers.limits.max_head, peers.limits.max_buffered) = (1024, 1024);
    let config = Config::new("x", "1").capabilities(Capabilities::new().with(Capability::Tools));
    let mut server = Server::new(Arc::new(config), Arc::new(Http::new()), Entropy::new([7; 32], 0));
    let mut client = TcpStream::connect(peers.address().unwrap()).unwrap();
    client.set_nodelay(true).unwrap();
    client.write_all(&[CALL, NOWHERE.repeat(30).as_bytes()].concat()).unwrap();
    // The loop does not want it.
    for _ in 0..5 {
        assert!(turn(&mut peers, &mut server, false).is_none());
    }
    let peer = |peers: &mut Peers| {
        let peer = peers.peers.iter_mut().next().unwrap().1;
        (peer.interest.read, peer.connection.wants_input())
    };
    assert_eq!(peer(&mut peers), (false, true));
    let call = core::iter::repeat_with(|| turn(&mut peers, &mut server, true)).take(500).flatten().next();
    let call = call.expect("a call");
    // The connection has enough.
    client.write_all(NOWHERE.as_bytes()).unwrap();
    let enough = |peers: &mut Peers, server: &mut Server| {
        turn(peers, server, true);
        peer(peers) == (false, false)
    };
    assert!((0..500).any(|_| enough(&mut peers, &mut server)));
    // It wants more while the loop does not.
    let now = peers.tick();
    let empty = RawJson::new(r#"{"content":[]}"#).unwrap();
    server.engine().complete_raw(now, call, &empty).unwrap();
    for _ in 0..5 {
        turn(&mut peers, &mut server, false);
    }
    assert_eq!(peer(&mut peers), (false, true));
    // Both do.
    client.set_nonblocking(true).unwrap();
    let (mut all, mut buffer) = (Vec::new(), [0; 4096]);
    for _ in 0..500 {
        turn(&mut peers, &mut server, true);
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
fn a_wake_ends_a_wait() {
    let mut peers = Peers::new(Listener::bind("127.0.0.1:0").unwrap()).unwrap();
    let mut server =
        Server::new(Arc::new(Config::new("x", "1")), Arc::new(Http::new()), Entropy::new([7; 32], 0));
    peers.waker().unwrap().wake();
    peers.wait(&mut server, true, None).unwrap();
    assert!(!peers.next(&mut server, true));
}
