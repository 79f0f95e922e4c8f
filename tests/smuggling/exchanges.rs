//! Sequences of exchanges: order of messages, written bytes, and whether the connection can be reused.

use bytes::Bytes;
use mcp_proto::h1::{HttpLimits, Reason, WriteError, client, server};
use mcp_proto::head::{BodySize, Fields};

use crate::smuggling::drive::{self, NOW, after_millis};

const GET: &str = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";

fn server(input: &str) -> server::Connection {
    let mut server = server::Connection::new(NOW, HttpLimits::default());
    server.handle_input(NOW, input.as_bytes());
    server
}

/// Returns the next event as text.
fn next_event(server: &mut server::Connection) -> String {
    match server.poll_event(NOW, |r, _| format!("{} {}", r.method, r.target)) {
        None => String::new(),
        Some(server::Event::Head(head)) => head,
        Some(server::Event::Body(data)) => format!("[{}]", data.escape_ascii()),
        Some(server::Event::End) => "end".into(),
        Some(server::Event::ClientGone) => "gone".into(),
        Some(server::Event::Fault(fault)) => format!("{:?}", fault.reason()),
    }
}

fn next_event_text(client: &mut client::Connection) -> String {
    match client.poll_event(NOW, |r| r.status.to_string()) {
        None => String::new(),
        Some(client::Event::Head(status)) => status,
        Some(client::Event::Body(data)) => format!("[{}]", data.escape_ascii()),
        Some(client::Event::End) => "end".into(),
        Some(client::Event::Closed) => "closed".into(),
        Some(client::Event::Fault(fault)) => format!("{:?}", fault.reason()),
    }
}

fn respond(server: &mut server::Connection, status: u16, size: BodySize, body: &[&str]) {
    server.respond(NOW, status, &Fields::new(), size).expect("the response");
    for part in body {
        server.write_body(part.as_bytes()).expect("its body");
    }
    server.end(NOW).expect("its end");
}

fn take_sent(server: &mut server::Connection) -> String {
    let sent = server.segments().flatten().copied().collect();
    server.consume(server.unsent_len());
    String::from_utf8(sent).expect("text")
}

#[test]
fn written_response_follows_size_status_method_and_version() {
    let table: &[(&str, u16, BodySize, &str)] = &[
        ("GET / HTTP/1.1", 200, BodySize::Exact(5), "Content-Length: 5\r\n\r\nhello"),
        (
            "GET / HTTP/1.1",
            200,
            BodySize::Stream,
            "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        ),
        ("GET / HTTP/1.0", 200, BodySize::Exact(5), "Content-Length: 5\r\nConnection: close\r\n\r\nhello"),
        ("GET / HTTP/1.0", 200, BodySize::Stream, "Connection: close\r\n\r\nhello"),
        ("HEAD / HTTP/1.1", 200, BodySize::Exact(5), "Content-Length: 5\r\n\r\n"),
        ("HEAD / HTTP/1.1", 200, BodySize::Stream, "Transfer-Encoding: chunked\r\n\r\n"),
        ("HEAD / HTTP/1.0", 200, BodySize::Stream, "Connection: close\r\n\r\n"),
        ("GET / HTTP/1.1", 204, BodySize::Exact(5), "\r\n"),
        ("GET / HTTP/1.1", 204, BodySize::Stream, "\r\n"),
        ("GET / HTTP/1.1", 304, BodySize::Exact(5), "\r\n"),
    ];
    for (line, status, size, expected) in table {
        let mut server = server(&format!("{line}\r\nHost: h\r\n\r\n"));
        assert!(!next_event(&mut server).is_empty());
        assert_eq!(next_event(&mut server), "end");
        respond(&mut server, *status, *size, &["hello"]);
        let sent = take_sent(&mut server);
        let (start, rest) = sent.split_once("\r\n").expect("a line");
        assert!(start.starts_with(&format!("HTTP/1.1 {status} ")));
        assert_eq!(rest, *expected, "{line} {status} {size:?}");
        assert_eq!(server.wants_close(), line.ends_with("1.0"), "{line}");
    }
    for (status, expected) in [(202, "Content-Length: 0\r\n\r\n"), (204, "\r\n")] {
        let mut server = server(GET);
        assert_eq!(next_event(&mut server), "GET /");
        respond(&mut server, status, BodySize::None, &[]);
        assert!(take_sent(&mut server).ends_with(expected));
    }
}

#[test]
fn head_and_small_body_share_one_segment_and_large_body_is_not_copied() {
    let mut server = server(GET);
    assert_eq!(next_event(&mut server), "GET /");
    let mut fields = Fields::new();
    assert!(fields.push("Content-Type", b"text/event-stream"));
    server.respond(NOW, 200, &fields, BodySize::Stream).expect("the response");
    server.write_body(b"one").expect("a part");
    let large = Bytes::from(vec![b'x'; 100_000]);
    server.write_body_owned(&Bytes::from_static(b"two")).expect("a part");
    server.write_body_owned(&large).expect("a part");
    assert!(
        server.write_body(b"").is_ok() && server.write_body_owned(&Bytes::new()).is_ok(),
        "an empty chunk would be the last"
    );
    let pieces: Vec<&[u8]> = server.segments().collect();
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(pieces[0], format!("{head}3\r\none\r\n3\r\ntwo\r\n186a0\r\n").as_bytes());
    assert_eq!(pieces[1].as_ptr(), large.as_ptr());
    assert_eq!(pieces[2], b"\r\n");
    assert_eq!(server.unsent_len(), pieces.iter().map(|p| p.len()).sum::<usize>());
}

#[test]
fn commands_out_of_order_are_refused_without_effect() {
    let mut server = server(GET);
    let none = Fields::new();
    assert_eq!(server.respond(NOW, 200, &none, BodySize::None), Err(WriteError::OutOfOrder));
    assert_eq!(next_event(&mut server), "GET /");
    assert_eq!(server.write_body(b"x"), Err(WriteError::OutOfOrder));
    assert_eq!(server.end(NOW), Err(WriteError::OutOfOrder));
    for status in [0, 100, 101, 199, 600] {
        assert_eq!(server.respond(NOW, status, &none, BodySize::None), Err(WriteError::Invalid));
    }
    for name in ["content-length", "Transfer-Encoding", "CONNECTION"] {
        let mut fields = Fields::new();
        assert!(fields.push("X", b"y") && fields.push(name, b"5") && fields.push("Z", b""));
        assert_eq!(
            server.respond(NOW, 200, &fields, BodySize::None),
            Err(WriteError::FramingField),
            "{name}"
        );
    }
    assert_eq!(server.unsent_len(), 0);
    server.respond(NOW, 200, &none, BodySize::Exact(3)).expect("the response");
    assert_eq!(server.respond(NOW, 200, &none, BodySize::None), Err(WriteError::OutOfOrder));
    assert_eq!(server.write_body(b"four"), Err(WriteError::Length));
    assert_eq!(server.end(NOW), Err(WriteError::Length));
    server.write_body(b"abc").expect("the body");
    assert_eq!(server.write_body_owned(&Bytes::from_static(b"d")), Err(WriteError::Length));
    server.end(NOW).expect("the end");
    assert_eq!(server.end(NOW), Err(WriteError::OutOfOrder));
    assert!(take_sent(&mut server).ends_with("\r\n\r\nabc"));
    server.close(NOW);
    // The request had no body, and its end was not polled.
    assert_eq!(next_event(&mut server), "");
    assert!(server.wants_close());
    assert_eq!(server.respond(NOW, 200, &none, BodySize::None), Err(WriteError::Closed));
}

#[test]
fn pipelined_requests_wait_within_limits() {
    let limits = HttpLimits::default();
    let mut server = server(GET);
    assert_eq!(next_event(&mut server), "GET /");
    assert_eq!(next_event(&mut server), "end");
    let mut ahead = 0;
    while server.wants_input() {
        server.handle_input(NOW, GET.as_bytes());
        assert_eq!(next_event(&mut server), "");
        ahead += 1;
        assert!(ahead * GET.len() < limits.max_buffered + 2 * GET.len());
    }
    for n in 0..=ahead {
        respond(&mut server, 200, BodySize::None, &[]);
        assert_eq!(take_sent(&mut server), "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        if n < ahead {
            assert_eq!(
                (next_event(&mut server), next_event(&mut server)),
                ("GET /".into(), "end".into()),
                "{n}"
            );
        }
    }
    assert_eq!(next_event(&mut server), "");
    assert!(server.is_idle() && server.wants_input());
}

#[test]
fn input_beyond_back_pressure_is_a_fault() {
    let mut server = server(GET);
    assert_eq!((next_event(&mut server), next_event(&mut server)), ("GET /".into(), "end".into()));
    server.handle_input(NOW, &vec![b'x'; HttpLimits::default().max_buffered]);
    assert!(!server.wants_input());
    server.handle_input(NOW, b"x");
    assert_eq!(next_event(&mut server), "Overrun");
    assert!(format!("{server:?}").len() < 10_000, "input is retained");
}

#[test]
fn polling_for_the_body_sends_continue() {
    let head = "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n";
    for (first, second) in [(head.to_owned(), "hello"), (format!("{head}hello"), "")] {
        let mut server = server(&first);
        assert_eq!(next_event(&mut server), "POST /");
        assert_eq!(server.unsent_len(), 0);
        let event = next_event(&mut server);
        assert_eq!(take_sent(&mut server), "HTTP/1.1 100 Continue\r\n\r\n");
        server.handle_input(NOW, second.as_bytes());
        let event = if event.is_empty() { next_event(&mut server) } else { event };
        assert_eq!((&*event, &*next_event(&mut server)), ("[hello]", "end"));
        assert_eq!(server.unsent_len(), 0, "continue was sent twice");
        respond(&mut server, 200, BodySize::None, &[]);
        assert!(!take_sent(&mut server).contains("close"));
    }
    // Refused: it is unknown whether the body will follow (RFC 9110, section 10.1.1).
    let mut server = server(head);
    assert_eq!(next_event(&mut server), "POST /");
    respond(&mut server, 401, BodySize::None, &[]);
    assert_eq!(
        take_sent(&mut server),
        "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    );
    assert!(server.wants_write_shutdown() && server.wants_input() && !server.wants_close());
    server.handle_input(NOW, b"hello");
    server.handle_eof(NOW);
    assert_eq!(next_event(&mut server), "");
    assert!(server.wants_close());
}

#[test]
fn early_response_drops_small_rest_and_closes_on_large_rest() {
    let small = HttpLimits::default().max_drain;
    for (framing, keeps_connection) in [
        (format!("Content-Length: {small}"), true),
        (format!("Content-Length: {}", small + 1), false),
        ("Transfer-Encoding: chunked".into(), false),
    ] {
        let mut server = server(&format!("POST / HTTP/1.1\r\nHost: h\r\n{framing}\r\n\r\n"));
        assert_eq!(next_event(&mut server), "POST /");
        respond(&mut server, 413, BodySize::None, &[]);
        assert_eq!(take_sent(&mut server).contains("Connection: close"), !keeps_connection, "{framing}");
        assert_eq!(server.wants_write_shutdown(), !keeps_connection);
        if keeps_connection {
            for _ in 0..small / 1024 {
                assert_eq!(next_event(&mut server), "");
                server.handle_input(NOW, &[b'x'; 1024]);
            }
            server.handle_input(NOW, GET.as_bytes());
            assert_eq!((next_event(&mut server), next_event(&mut server)), ("GET /".into(), "end".into()));
        } else {
            // The server lingers for a bounded time, so that a reset does not destroy its response.
            assert!(server.wants_input() && !server.wants_close());
            let mut slow = server.poll_timeout().expect("an end");
            assert_eq!(slow, after_millis(2_000));
            server.handle_timeout(slow);
            assert!(server.wants_close() && !server.wants_input());
            slow = after_millis(2_000);
            server.handle_timeout(slow);
            assert_eq!(server.poll_timeout(), None);
        }
    }
    // A hang-up during a request that was answered is no event.
    let mut server = server("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n");
    assert_eq!(next_event(&mut server), "POST /");
    respond(&mut server, 200, BodySize::None, &[]);
    server.handle_eof(NOW);
    assert_eq!(next_event(&mut server), "");
    assert!(!take_sent(&mut server).is_empty() && server.wants_close());

    let mut server = self::server("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
    assert_eq!(next_event(&mut server), "POST /");
    respond(&mut server, 413, BodySize::None, &[]);
    _ = take_sent(&mut server);
    // A client that is sending a large body may read the response only after its end.
    for n in 0..11 {
        server.handle_input(after_millis(n * 1_900), &vec![0; 60_000]);
        assert!(!server.wants_close() && server.wants_input() && server.unread_len() == 0);
    }
    assert_eq!(server.poll_timeout(), Some(after_millis(20_000)), "lingering is not bounded");
    server.handle_input(after_millis(20_000), &vec![0; 60_000]);
    assert!(server.wants_close() && !server.wants_input());
}

#[test]
fn request_body_is_read_while_response_is_written() {
    let mut server = server("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\n\r\nabc");
    assert_eq!(next_event(&mut server), "POST /");
    server.respond(NOW, 200, &Fields::new(), BodySize::Stream).expect("the response");
    assert_eq!((next_event(&mut server), next_event(&mut server)), ("[abc]".into(), String::new()));
    server.write_body(b"x").expect("a part");
    server.handle_input(NOW, b"def");
    assert_eq!((next_event(&mut server), next_event(&mut server)), ("[def]".into(), "end".into()));
    server.end(NOW).expect("the end");
    assert!(!take_sent(&mut server).contains("close") && server.is_idle());
}

#[test]
fn fault_in_request_body_truncates_open_response() {
    let mut server = server("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
    assert_eq!(next_event(&mut server), "POST /");
    server.respond(NOW, 200, &Fields::new(), BodySize::Stream).expect("the response");
    server.write_body(b"x").expect("a part");
    server.handle_input(NOW, b"zz");
    assert_eq!(next_event(&mut server), "ChunkSize");
    assert_eq!(server.write_body(b"y"), Err(WriteError::Closed));
    assert!(take_sent(&mut server).ends_with("\r\n\r\n1\r\nx\r\n"));
    assert!(server.wants_close());
}

#[test]
fn eof_means_gone_unless_half_close_is_allowed() {
    let mut server = server(GET);
    server.handle_eof(NOW);
    assert_eq!((next_event(&mut server), next_event(&mut server)), ("GET /".into(), "end".into()));
    assert_eq!((next_event(&mut server), next_event(&mut server)), ("gone".into(), String::new()));
    assert_eq!(server.respond(NOW, 200, &Fields::new(), BodySize::None), Err(WriteError::Closed));
    assert!(server.wants_close());

    let mut server = self::server(&format!("{GET}{GET}"));
    server.serve_half_closed(true);
    server.handle_eof(NOW);
    for _ in 0..2 {
        assert_eq!((next_event(&mut server), next_event(&mut server)), ("GET /".into(), "end".into()));
        assert_eq!(next_event(&mut server), "");
        respond(&mut server, 200, BodySize::None, &[]);
    }
    assert_eq!(next_event(&mut server), "");
    assert!(!server.wants_close(), "the responses were not sent");
    assert_eq!(take_sent(&mut server).matches("200 OK").count(), 2);
    assert!(server.wants_close());

    // A hang-up between two requests is no event.
    let mut server = self::server("");
    server.handle_eof(NOW);
    assert_eq!(next_event(&mut server), "");
    assert!(server.wants_close());
}

#[test]
fn aborted_response_is_recognised_as_incomplete() {
    for (version, size) in [("1.1", BodySize::Stream), ("1.1", BodySize::Exact(9)), ("1.0", BodySize::Stream)]
    {
        let mut server = server(&format!("GET / HTTP/{version}\r\nHost: h\r\n\r\n"));
        assert_eq!((next_event(&mut server), next_event(&mut server)), ("GET /".into(), "end".into()));
        server.respond(NOW, 200, &Fields::new(), size).expect("the response");
        server.write_body(b"part").expect("a part");
        server.abort(NOW);
        assert_eq!(server.write_body(b"more"), Err(WriteError::Closed));
        let sent = take_sent(&mut server);
        assert!(server.wants_close());
        assert_eq!(server.wants_reset(), version == "1.0", "only a reset distinguishes it from the end");
        let mut client = drive::client(HttpLimits::default(), "GET").0;
        client.handle_input(NOW, sent.as_bytes());
        client.handle_eof(NOW);
        assert_eq!(
            (next_event_text(&mut client), next_event_text(&mut client)),
            ("200".into(), "[part]".into())
        );
        assert_eq!(next_event_text(&mut client), if version == "1.1" { "Truncated" } else { "end" });
    }
    // Without a head there is nothing to send.
    let mut server = server(GET);
    assert_eq!(next_event(&mut server), "GET /");
    server.abort(NOW);
    assert!(server.wants_close() && server.unsent_len() == 0);
}

#[test]
fn close_waits_for_open_exchange() {
    let mut server = server(GET);
    assert_eq!((next_event(&mut server), next_event(&mut server)), ("GET /".into(), "end".into()));
    server.close(NOW);
    assert!(!server.wants_close());
    respond(&mut server, 200, BodySize::None, &[]);
    assert!(take_sent(&mut server).contains("Connection: close\r\n"));
    assert!(server.wants_close());
    let mut idle = self::server("");
    idle.close(NOW);
    assert!(idle.wants_close());
}

#[test]
fn server_reads_what_client_writes() {
    let mut fields = Fields::new();
    assert!(fields.push("Accept", b"*/*"));
    let table: &[(&str, BodySize, &[&str], &str)] = &[
        ("GET", BodySize::None, &[], "\r\n"),
        ("DELETE", BodySize::None, &[], "\r\n"),
        ("POST", BodySize::None, &[], "Content-Length: 0\r\n\r\n"),
        ("POST", BodySize::Exact(5), &["he", "llo"], "Content-Length: 5\r\n\r\nhello"),
        (
            "POST",
            BodySize::Stream,
            &["he", "", "llo"],
            "Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
        ),
    ];
    let (mut client, mut server) = (client::Connection::new(NOW, HttpLimits::default()), server(""));
    for (method, size, body, expected) in table {
        assert!(client.is_idle());
        client.request(NOW, method, "/a?b", "h:80", &fields, *size).expect("the request");
        for part in *body {
            client.write_body(part.as_bytes()).expect("its body");
        }
        client.end(NOW).expect("its end");
        assert!(!client.is_idle());
        let sent = client.transmit().to_vec();
        client.consume(sent.len());
        let text = String::from_utf8(sent.clone()).expect("text");
        assert_eq!(text, format!("{method} /a?b HTTP/1.1\r\nHost: h:80\r\nAccept: */*\r\n{expected}"));
        server.handle_input(NOW, &sent);
        let mut read = String::new();
        assert_eq!(next_event(&mut server), format!("{method} /a?b"));
        loop {
            match next_event(&mut server) {
                part if part.starts_with('[') => read.push_str(&part),
                end => break assert_eq!(end, "end"),
            }
        }
        assert_eq!(read.replace("][", ""), if body.is_empty() { "" } else { "[hello]" });
        respond(&mut server, 200, BodySize::Stream, &["yes"]);
        client.handle_input(NOW, take_sent(&mut server).as_bytes());
        assert_eq!(
            (next_event_text(&mut client), next_event_text(&mut client)),
            ("200".into(), "[yes]".into())
        );
        assert!(client.has_received());
        assert_eq!(
            (next_event_text(&mut client), next_event_text(&mut client)),
            ("end".into(), String::new())
        );
    }
}

#[test]
fn client_refuses_to_write_ambiguous_request() {
    let mut client = client::Connection::new(NOW, HttpLimits::default());
    let none = Fields::new();
    for (method, target, host) in [
        ("", "/", "h"),
        ("GE T", "/", "h"),
        ("GET\r\nX: y", "/", "h"),
        ("CONNECT", "h:80", "h"),
        ("GET", "", "h"),
        ("GET", "a", "h"),
        ("GET", "*", "h"),
        ("GET", "http://h/", "h"),
        ("GET", "/ HTTP/1.1\r\nX: y", "h"),
        ("GET", "/a b", "h"),
        ("GET", "/#a", "h"),
        ("GET", "/\u{e4}", "h"),
        ("GET", "/", ""),
        ("GET", "/", "h\r\nX: y"),
        ("GET", "/", "h, other"),
        ("GET", "/", "u@h"),
    ] {
        let refused = client.request(NOW, method, target, host, &none, BodySize::None);
        assert_eq!(refused, Err(WriteError::Invalid), "{method} {target} {host}");
    }
    for name in ["Host", "content-length", "transfer-Encoding", "connection"] {
        let mut fields = Fields::new();
        assert!(fields.push(name, b"x"));
        assert_eq!(
            client.request(NOW, "GET", "/", "h", &fields, BodySize::None),
            Err(WriteError::FramingField),
            "{name}"
        );
    }
    assert!(client.is_idle() && client.unsent_len() == 0);
    client.request(NOW, "GET", "/", "h", &none, BodySize::None).expect("the request");
    assert_eq!(client.request(NOW, "GET", "/", "h", &none, BodySize::None), Err(WriteError::OutOfOrder));
}

#[test]
fn client_outcome_at_close_depends_on_exchange() {
    let requesting_client = || {
        let mut client = client::Connection::new(NOW, HttpLimits::default());
        client.request(NOW, "GET", "/", "h", &Fields::new(), BodySize::None).expect("the request");
        client.end(NOW).expect("its end");
        client.consume(client.unsent_len());
        client
    };
    let mut client = requesting_client();
    client.handle_eof(NOW);
    assert!(!client.has_received());
    assert_eq!(
        (next_event_text(&mut client), next_event_text(&mut client)),
        ("closed".into(), String::new())
    );
    assert!(client.wants_close());

    let mut client = requesting_client();
    client.handle_input(NOW, b"H");
    client.handle_eof(NOW);
    assert!(client.has_received());
    assert_eq!((next_event_text(&mut client), client.wants_close()), ("Truncated".into(), true));

    // A response that is delimited by the end of the connection is complete.
    let mut client = requesting_client();
    client.handle_input(NOW, b"HTTP/1.1 200 OK\r\n\r\nhello");
    assert_eq!(
        (next_event_text(&mut client), next_event_text(&mut client), next_event_text(&mut client)),
        ("200".into(), "[hello]".into(), String::new())
    );
    client.handle_eof(NOW);
    assert_eq!(
        (next_event_text(&mut client), client.wants_close(), client.is_idle()),
        ("end".into(), true, false)
    );

    // A response before the end of the request ends the connection, whether or not the rest was passed in.
    for whole in [false, true] {
        let mut client = client::Connection::new(NOW, HttpLimits::default());
        client.request(NOW, "POST", "/", "h", &Fields::new(), BodySize::Exact(9)).expect("the request");
        client.consume(client.unsent_len());
        if whole {
            client.write_body(b"012345678").expect("all of it");
            client.end(NOW).expect("its end");
            client.consume(4);
        }
        client.handle_input(NOW, b"HTTP/1.1 413 \r\nContent-Length: 0\r\n\r\n");
        assert_eq!(
            (next_event_text(&mut client), next_event_text(&mut client)),
            ("413".into(), "end".into())
        );
        assert!(client.wants_close() && !client.is_idle() && client.unsent_len() == 0, "{whole}");
        assert_eq!(client.write_body(b"x"), Err(WriteError::Closed));
    }

    // So does a response that arrived when the rest could not be sent any more.
    let mut client = client::Connection::new(NOW, HttpLimits::default());
    client.request(NOW, "POST", "/", "h", &Fields::new(), BodySize::Exact(9)).expect("the request");
    client.consume(1);
    client.handle_write_failed();
    assert_eq!(client.unsent_len(), 0);
    client.handle_input(NOW, b"HTTP/1.1 413 \r\nContent-Length: 0\r\n\r\n");
    assert_eq!((next_event_text(&mut client), next_event_text(&mut client)), ("413".into(), "end".into()));
    assert!(client.wants_close());

    // A response before the first byte of the request was sent answers another request.
    let mut client = client::Connection::new(NOW, HttpLimits::default());
    client.request(NOW, "GET", "/", "h", &Fields::new(), BodySize::None).expect("the request");
    client.end(NOW).expect("its end");
    client.handle_input(NOW, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    client.consume(client.unsent_len());
    assert_eq!((next_event_text(&mut client), client.wants_close()), ("Unsolicited".into(), true));

    // An idle connection ends immediately.
    let mut client = client::Connection::new(NOW, HttpLimits::default());
    client.handle_eof(NOW);
    assert!(!client.is_idle(), "an ended connection must not accept a request");
    assert_eq!((next_event_text(&mut client), client.wants_close()), (String::new(), true));
}

#[test]
fn client_refuses_response_body_beyond_limit() {
    for head in ["Content-Length: 9\r\n", "Transfer-Encoding: chunked\r\n", ""] {
        let mut limits = HttpLimits::default();
        limits.max_body = 8;
        let mut client = client::Connection::new(NOW, limits);
        client.request(NOW, "GET", "/", "h", &Fields::new(), BodySize::None).expect("the request");
        client.consume(client.unsent_len());
        let body = if head.starts_with('T') { "4\r\nabcd\r\n5\r\nabcde\r\n0\r\n\r\n" } else { "abcdabcde" };
        client.handle_input(NOW, format!("HTTP/1.1 200 OK\r\n{head}\r\n{body}").as_bytes());
        let all: Vec<String> =
            core::iter::from_fn(|| Some(next_event_text(&mut client)).filter(|s| !s.is_empty())).collect();
        assert_eq!(all.last().map(|s| &**s), Some(&*format!("{:?}", Reason::BodyTooLong)), "{all:?}");
        assert!(!all.contains(&"end".to_owned()));
    }
}
