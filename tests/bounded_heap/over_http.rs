//! Requests and results over HTTP.

use alloc::sync::Arc;

use mcp_proto::h1::HttpLimits;
use mcp_proto::http;
use mcp_proto::model::CallToolResult;
use mcp_proto::server::{Call, Config, Event};
use mcp_proto::{Capabilities, Capability, EncodeError, Entropy, RpcError, UseError};

use crate::{NOW, call, small, within};

/// Makes a call on a connection of its own, within `budget` bytes once its head has arrived. Returns the status and the body
/// of the response.
fn post(
    server: &mut http::server::Server,
    budget: isize,
    length: usize,
    answer: fn(&mut http::server::Server, &Call),
) -> (u16, String) {
    let mut connection = http::server::Connection::new(NOW, HttpLimits::small());
    let body = call(1, "echo", length);
    let fields = "Host: localhost\r\nAccept: application/json, text/event-stream\r\nContent-Type: application/json\r\n\
                  MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: echo\r\n";
    let head = format!("POST /mcp HTTP/1.1\r\n{fields}Content-Length: {}\r\n\r\n", body.len());
    connection.handle_input(NOW, head.as_bytes());
    connection.drive(NOW, server);
    let ((), _) = within(budget, || {
        // The turns after the last piece send what was owed.
        for piece in body.chunks(512).chain([&[][..]; 3]) {
            connection.handle_input(NOW, piece);
            connection.drive(NOW, server);
            while let Some(event) = server.poll_event(NOW) {
                if let http::server::Event::Server(Event::Call(call)) = event {
                    answer(server, &call);
                }
            }
            while server.poll_ready(NOW).is_some() {}
            connection.drive(NOW, server);
        }
    });
    let mut response = Vec::new();
    connection.segments().for_each(|segment| response.extend_from_slice(segment));
    let response = String::from_utf8(response).expect("text");
    connection.abandon(NOW, server);
    let status = response
        .get(9..12)
        .and_then(|status| status.parse().ok())
        .unwrap_or_else(|| panic!("{budget}: {response}"));
    (status, response)
}

fn confirm_over_http(server: &mut http::server::Server, call: &Call) {
    answer_over_http(server, call, "ok");
}

/// Answers with a text, or with an error if there is no memory for it.
fn answer_over_http(server: &mut http::server::Server, call: &Call, text: &str) {
    match server.engine().complete(NOW, call.id(), &CallToolResult::text(text)) {
        Ok(()) => {}
        Err(UseError::Encode(EncodeError::OutOfMemory)) => {
            server.engine().fail(NOW, call.id(), &RpcError::internal("no memory")).expect("an open call");
        }
        Err(other) => panic!("{other}"),
    }
}

fn answer_at_length(server: &mut http::server::Server, call: &Call) {
    static TEXT: [u8; 3_000] = [b'z'; 3_000];
    answer_over_http(server, call, core::str::from_utf8(&TEXT).expect("text"));
}

#[test]
fn http_result_without_memory_becomes_an_error_and_later_ones_are_sent() {
    let capabilities = Capabilities::new().with(Capability::Tools);
    let config = Arc::new(Config::new("device", "1").capabilities(capabilities).limits(small()));
    let (mut refused, mut failed, mut answered) = (0, 0, 0);
    for budget in (4_000..16_000).step_by(50) {
        let http = Arc::new(http::server::Config::new());
        let mut server = http::server::Server::new(Arc::clone(&config), http, Entropy::new([7; 32], 0));
        let (status, response) = post(&mut server, budget, 100, answer_at_length);
        match status {
            200 if response.contains("zzz") => answered += 1,
            200 => {
                assert!(response.contains("memory"), "{budget}: {response}");
                failed += 1;
            }
            503 => refused += 1,
            other => panic!("{other} with {budget} bytes: {response}"),
        }
        let (status, response) = post(&mut server, isize::MAX / 2, 100, answer_at_length);
        assert!(status == 200 && response.contains("zzz"), "after {budget} bytes: {response}");
    }
    assert!(failed > 3 && answered > 3, "{refused} refused, {failed} without a result, {answered} answered");
}

#[test]
fn http_request_without_memory_gets_503_and_later_ones_are_served() {
    let capabilities = Capabilities::new().with(Capability::Tools);
    let config = Arc::new(Config::new("device", "1").capabilities(capabilities).limits(small()));
    let new = || {
        let http = Arc::new(http::server::Config::new());
        http::server::Server::new(Arc::clone(&config), http, Entropy::new([7; 32], 0))
    };
    // A body of one piece is asked for before its call is taken, and one of several before they are joined.
    for (length, least) in [(100, 1_600), (3_000, 3_000)] {
        let (mut unavailable, mut refused, mut answered) = (0, 0, 0);
        for budget in (least..20_000).step_by(100) {
            let mut server = new();
            let (status, response) = post(&mut server, budget, length, confirm_over_http);
            match status {
                // What the tables of the exchange took may be missing afterwards.
                200 if response.contains("memory") => refused += 1,
                200 => {
                    assert!(response.contains("ok"), "{budget}: {response}");
                    answered += 1;
                }
                503 => {
                    unavailable += 1;
                    assert!(response.contains("not enough memory for the request"), "{response}");
                    assert!(response.to_ascii_lowercase().contains("\r\nretry-after: "), "{response}");
                }
                other => panic!("{other} with {budget} bytes"),
            }
            assert_eq!(
                post(&mut server, isize::MAX / 2, length, confirm_over_http).0,
                200,
                "after {status} with {budget} bytes"
            );
        }
        let counts = (unavailable, refused, answered);
        assert!(unavailable > 3 && answered > 3 && unavailable > refused, "{length}: {counts:?}");
    }
}
