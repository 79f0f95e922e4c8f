//! A bridge and a gateway whose server cannot be started.

use alloc::sync::Arc;
use std::sync::Mutex;

use mcp_std::io::{Duplex as _, MemoryEnd, memory_pair};
use mcp_std::sync::lock;

use super::*;
use crate::AddError;

struct Broken;

impl Connect for Broken {
    fn connect(&self, _: &ClientIdentity) -> Result<Connection, ConnectError> {
        Err(ConnectError::new("it is out of order", "the disk is full"))
    }
}

/// Returns a client that has sent a ping, and the stream to it.
fn client() -> (MemoryEnd, MemoryEnd) {
    let (mut client, stream) = memory_pair(1 << 12);
    client.write(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n").expect("room");
    (client, stream)
}

fn read(client: &mut MemoryEnd) -> String {
    let mut bytes = [0; 1 << 12];
    let length = client.read(&mut bytes).expect("an answer");
    String::from_utf8_lossy(&bytes[..length]).into_owned()
}

#[test]
fn bridge_without_a_server_answers_the_first_message_and_tells_the_client_no_details() {
    let (mut client, stream) = client();
    let bridge = Bridge::new(Arc::new(Broken), Options::new(|_: &Notice<'_>| {}));
    let error = bridge.serve_stream(stream, &Stop::new().expect("descriptors")).expect_err("no server");
    assert!(matches!(error, Error::Connect(_)) && error.to_string() == "the disk is full", "{error:?}");
    let answer = read(&mut client);
    assert!(answer.contains("cannot be started: it is out of order") && !answer.contains("disk"), "{answer}");
}

#[test]
fn gateway_serves_its_client_without_a_server_and_tells_of_begin_and_end() {
    let (mut client, stream) = client();
    client.shutdown_write().expect("an open stream");
    let told = Arc::new(Mutex::new(Vec::new()));
    let notices = Arc::clone(&told);
    let options = Options::new(move |notice: &Notice<'_>| lock(&notices).push(notice.to_string()));
    let mut gateway = Gateway::new("gateway", "1", options);
    gateway.server("files", Broken).expect("a name");
    assert_eq!(gateway.server("files", Broken), Err(AddError::NameTaken("files".into())));
    assert_eq!(gateway.server("", Broken), Err(AddError::InvalidName(String::new())));
    gateway.serve_stream(stream, &Stop::new().expect("descriptors")).expect("a client");
    assert!(read(&mut client).contains("\"result\":{}"), "a ping is answered");
    let told = lock(&told);
    assert_eq!(told.first().map(String::as_str), Some("clients are served"));
    assert!(told.iter().any(|notice| notice == "no client is served any more"), "{told:?}");
}

#[test]
fn stop_is_requested_once() {
    let stop = Stop::new().expect("descriptors");
    assert!(!stop.is_requested());
    stop.clone().shutdown(Duration::from_secs(2));
    stop.shutdown(Duration::ZERO);
    assert!(stop.is_requested());
    assert_eq!(stop.grace(), Some(Duration::from_secs(2)));
}
