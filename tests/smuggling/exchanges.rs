//! One exchange after the other: who answers when, what is written, and what the connection is good for afterwards.

use bytes::Bytes;
use mcp_proto::h1::{Limits, Reason, Refused, client, server};
use mcp_proto::head::{BodySize, Fields};

use crate::drive::{self, NOW, later};

const GET: &str = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";

fn server(input: &str) -> server::Connection {
    let mut server = server::Connection::new(NOW, Limits::default());
    server.handle_input(NOW, input.as_bytes());
    server
}

/// The next event, in short
fn next(server: &mut server::Connection) -> String {
    match server.poll_event(NOW, |r, _| format!("{} {}", r.method, r.target)) {
        None => String::new(),
        Some(server::Event::Head(head)) => head,
        Some(server::Event::Body(data)) => format!("[{}]", data.escape_ascii()),
        Some(server::Event::End) => "end".into(),
        Some(server::Event::Gone) => "gone".into(),
        Some(server::Event::Fault(fault)) => format!("{:?}", fault.reason()),
    }
}

fn said(client: &mut client::Connection) -> String {
    match client.poll_event(NOW, |r| r.status.to_string()) {
        None => String::new(),
        Some(client::Event::Head(status)) => status,
        Some(client::Event::Body(data)) => format!("[{}]", data.escape_ascii()),
        Some(client::Event::End) => "end".into(),
        Some(client::Event::Closed) => "closed".into(),
        Some(client::Event::Fault(fault)) => format!("{:?}", fault.reason()),
    }
}

fn answer(server: &mut server::Connection, status: u16, size: BodySize, body: &[&str]) {
    server.respond(NOW, status, &Fields::new(), size).expect("the response");
    for part in body {
        server.body(part.as_bytes()).expect("its body");
    }
    server.end(NOW).expect("its end");
}

fn sent(server: &mut server::Connection) -> String {
    let sent = server.segments().flatten().copied().collect();
    server.consume(usize::MAX);
    String::from_utf8(sent).expect("text")
}

#[test]
fn what_is_written_depends_on_size_status_method_and_version() {
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
    for (line, status, size, want) in table {
        let mut server = server(&format!("{line}\r\nHost: h\r\n\r\n"));
        assert!(!next(&mut server).is_empty());
        assert_eq!(next(&mut server), "end");
        answer(&mut server, *status, *size, &["hello"]);
        let sent = sent(&mut server);
        let (start, rest) = sent.split_once("\r\n").expect("a line");
        assert!(start.starts_with(&format!("HTTP/1.1 {status} ")));
        assert_eq!(rest, *want, "{line} {status} {size:?}");
        assert_eq!(server.is_over(), line.ends_with("1.0"), "{line}");
    }
    for (status, want) in [(202, "Content-Length: 0\r\n\r\n"), (204, "\r\n")] {
        let mut server = server(GET);
        assert_eq!(next(&mut server), "GET /");
        answer(&mut server, status, BodySize::None, &[]);
        assert!(sent(&mut server).ends_with(want));
    }
}

#[test]
fn head_and_small_body_leave_in_one_piece_and_a_large_one_is_not_copied() {
    let mut server = server(GET);
    assert_eq!(next(&mut server), "GET /");
    let mut fields = Fields::new();
    assert!(fields.push("Content-Type", b"text/event-stream"));
    server.respond(NOW, 200, &fields, BodySize::Stream).expect("the response");
    server.body(b"one").expect("a part");
    let large = Bytes::from(vec![b'x'; 100_000]);
    server.body_owned(&Bytes::from_static(b"two")).expect("a part");
    server.body_owned(&large).expect("a part");
    assert!(
        server.body(b"").is_ok() && server.body_owned(&Bytes::new()).is_ok(),
        "an empty chunk would be the last"
    );
    let pieces: Vec<&[u8]> = server.segments().collect();
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(pieces[0], format!("{head}3\r\none\r\n3\r\ntwo\r\n186a0\r\n").as_bytes());
    assert_eq!(pieces[1].as_ptr(), large.as_ptr());
    assert_eq!(pieces[2], b"\r\n");
    assert_eq!(server.unsent(), pieces.iter().map(|p| p.len()).sum::<usize>());
}

#[test]
fn commands_out_of_order_are_refused_and_change_nothing() {
    let mut server = server(GET);
    let none = Fields::new();
    assert_eq!(server.respond(NOW, 200, &none, BodySize::None), Err(Refused::OutOfOrder));
    assert_eq!(next(&mut server), "GET /");
    assert_eq!(server.body(b"x"), Err(Refused::OutOfOrder));
    assert_eq!(server.end(NOW), Err(Refused::OutOfOrder));
    for status in [0, 100, 101, 199, 600] {
        assert_eq!(server.respond(NOW, status, &none, BodySize::None), Err(Refused::Invalid));
    }
    for name in ["content-length", "Transfer-Encoding", "CONNECTION"] {
        let mut fields = Fields::new();
        assert!(fields.push("X", b"y") && fields.push(name, b"5") && fields.push("Z", b""));
        assert_eq!(server.respond(NOW, 200, &fields, BodySize::None), Err(Refused::Framing), "{name}");
    }
    assert_eq!(server.unsent(), 0);
    server.respond(NOW, 200, &none, BodySize::Exact(3)).expect("the response");
    assert_eq!(server.respond(NOW, 200, &none, BodySize::None), Err(Refused::OutOfOrder));
    assert_eq!(server.body(b"four"), Err(Refused::Length));
    assert_eq!(server.end(NOW), Err(Refused::Length));
    server.body(b"abc").expect("the body");
    assert_eq!(server.body_owned(&Bytes::from_static(b"d")), Err(Refused::Length));
    server.end(NOW).expect("the end");
    assert_eq!(server.end(NOW), Err(Refused::OutOfOrder));
    assert!(sent(&mut server).ends_with("\r\n\r\nabc"));
    server.close(NOW);
    // The request had no body, which nobody has asked about.
    assert_eq!(next(&mut server), "");
    assert!(server.is_over());
    assert_eq!(server.respond(NOW, 200, &none, BodySize::None), Err(Refused::Closed));
}

#[test]
fn pipelined_requests_wait_for_their_turn_within_bounds() {
    let limits = Limits::default();
    let mut server = server(GET);
    assert_eq!(next(&mut server), "GET /");
    assert_eq!(next(&mut server), "end");
    let mut ahead = 0;
    while server.wants_input() {
        server.handle_input(NOW, GET.as_bytes());
        assert_eq!(next(&mut server), "");
        ahead += 1;
        assert!(ahead * GET.len() < limits.max_buffered + 2 * GET.len());
    }
    for n in 0..=ahead {
        answer(&mut server, 200, BodySize::None, &[]);
        assert_eq!(sent(&mut server), "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        if n < ahead {
            assert_eq!((next(&mut server), next(&mut server)), ("GET /".into(), "end".into()), "{n}");
        }
    }
    assert_eq!(next(&mut server), "");
    assert!(server.is_idle() && server.wants_input());
}

#[test]
fn whoever_reads_though_nothing_is_wanted_loses_the_connection() {
    let mut server = server(GET);
    assert_eq!((next(&mut server), next(&mut server)), ("GET /".into(), "end".into()));
    server.handle_input(NOW, &vec![b'x'; Limits::default().max_buffered]);
    assert!(!server.wants_input());
    server.handle_input(NOW, b"x");
    assert_eq!(next(&mut server), "Overrun");
    assert!(format!("{server:?}").len() < 10_000, "nothing is kept");
}

#[test]
fn continue_is_sent_to_whoever_polls_for_the_body() {
    let head = "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n";
    for (first, second) in [(head.to_owned(), "hello"), (format!("{head}hello"), "")] {
        let mut server = server(&first);
        assert_eq!(next(&mut server), "POST /");
        assert_eq!(server.unsent(), 0);
        let came = next(&mut server);
        assert_eq!(sent(&mut server), "HTTP/1.1 100 Continue\r\n\r\n");
        server.handle_input(NOW, second.as_bytes());
        let came = if came.is_empty() { next(&mut server) } else { came };
        assert_eq!((&*came, &*next(&mut server)), ("[hello]", "end"));
        assert_eq!(server.unsent(), 0, "once");
        answer(&mut server, 200, BodySize::None, &[]);
        assert!(!sent(&mut server).contains("close"));
    }
    // Refused: whether the body will come nobody knows (RFC 9110, 10.1.1).
    let mut server = server(head);
    assert_eq!(next(&mut server), "POST /");
    answer(&mut server, 401, BodySize::None, &[]);
    assert_eq!(
        sent(&mut server),
        "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    );
    assert!(server.is_write_over() && server.wants_input() && !server.is_over());
    server.handle_input(NOW, b"hello");
    server.handle_eof(NOW);
    assert_eq!(next(&mut server), "");
    assert!(server.is_over());
}

#[test]
fn an_early_response_drops_a_small_rest_and_closes_before_a_large_one() {
    let small = Limits::default().max_drain;
    for (framing, stays) in [
        (format!("Content-Length: {small}"), true),
        (format!("Content-Length: {}", small + 1), false),
        ("Transfer-Encoding: chunked".into(), false),
    ] {
        let mut server = server(&format!("POST / HTTP/1.1\r\nHost: h\r\n{framing}\r\n\r\n"));
        assert_eq!(next(&mut server), "POST /");
        answer(&mut server, 413, BodySize::None, &[]);
        assert_eq!(sent(&mut server).contains("Connection: close"), !stays, "{framing}");
        assert_eq!(server.is_write_over(), !stays);
        if stays {
            for _ in 0..small / 1024 {
                assert_eq!(next(&mut server), "");
                server.handle_input(NOW, &[b'x'; 1024]);
            }
            server.handle_input(NOW, GET.as_bytes());
            assert_eq!((next(&mut server), next(&mut server)), ("GET /".into(), "end".into()));
        } else {
            // It lingers, so that its answer is not lost to a reset, but not for ever.
            assert!(server.wants_input() && !server.is_over());
            let mut slow = server.poll_timeout().expect("an end");
            assert_eq!(slow, later(2_000));
            server.handle_timeout(slow);
            assert!(server.is_over() && !server.wants_input());
            slow = later(2_000);
            server.handle_timeout(slow);
            assert_eq!(server.poll_timeout(), None);
        }
    }
    // Who hangs up over a request that was answered is no news.
    let mut server = server("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n");
    assert_eq!(next(&mut server), "POST /");
    answer(&mut server, 200, BodySize::None, &[]);
    server.handle_eof(NOW);
    assert_eq!(next(&mut server), "");
    assert!(!sent(&mut server).is_empty() && server.is_over());

    let mut server = self::server("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
    assert_eq!(next(&mut server), "POST /");
    answer(&mut server, 413, BodySize::None, &[]);
    _ = sent(&mut server);
    // Whoever is sending a large body reads nothing before its end, which may be far.
    for n in 0..11 {
        server.handle_input(later(n * 1_900), &vec![0; 60_000]);
        assert!(!server.is_over() && server.wants_input() && server.unread() == 0);
    }
    assert_eq!(server.poll_timeout(), Some(later(20_000)), "not for ever");
    server.handle_input(later(20_000), &vec![0; 60_000]);
    assert!(server.is_over() && !server.wants_input());
}

#[test]
fn a_request_is_read_on_while_it_is_answered() {
    let mut server = server("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\n\r\nabc");
    assert_eq!(next(&mut server), "POST /");
    server.respond(NOW, 200, &Fields::new(), BodySize::Stream).expect("the response");
    assert_eq!((next(&mut server), next(&mut server)), ("[abc]".into(), String::new()));
    server.body(b"x").expect("a part");
    server.handle_input(NOW, b"def");
    assert_eq!((next(&mut server), next(&mut server)), ("[def]".into(), "end".into()));
    server.end(NOW).expect("the end");
    assert!(!sent(&mut server).contains("close") && server.is_idle());
}

#[test]
fn a_fault_in_the_body_cuts_a_response_that_has_begun() {
    let mut server = server("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
    assert_eq!(next(&mut server), "POST /");
    server.respond(NOW, 200, &Fields::new(), BodySize::Stream).expect("the response");
    server.body(b"x").expect("a part");
    server.handle_input(NOW, b"zz");
    assert_eq!(next(&mut server), "ChunkSize");
    assert_eq!(server.body(b"y"), Err(Refused::Closed));
    assert!(sent(&mut server).ends_with("\r\n\r\n1\r\nx\r\n"));
    assert!(server.is_over());
}

#[test]
fn the_end_of_input_means_gone_unless_told_otherwise() {
    let mut server = server(GET);
    server.handle_eof(NOW);
    assert_eq!((next(&mut server), next(&mut server)), ("GET /".into(), "end".into()));
    assert_eq!((next(&mut server), next(&mut server)), ("gone".into(), String::new()));
    assert_eq!(server.respond(NOW, 200, &Fields::new(), BodySize::None), Err(Refused::Closed));
    assert!(server.is_over());

    let mut server = self::server(&format!("{GET}{GET}"));
    server.serve_half_closed(true);
    server.handle_eof(NOW);
    for _ in 0..2 {
        assert_eq!((next(&mut server), next(&mut server)), ("GET /".into(), "end".into()));
        assert_eq!(next(&mut server), "");
        answer(&mut server, 200, BodySize::None, &[]);
    }
    assert_eq!(next(&mut server), "");
    assert!(!server.is_over(), "the responses were not sent");
    assert_eq!(sent(&mut server).matches("200 OK").count(), 2);
    assert!(server.is_over());

    // Between requests it is no event.
    let mut server = self::server("");
    server.handle_eof(NOW);
    assert_eq!(next(&mut server), "");
    assert!(server.is_over());
}

#[test]
fn an_aborted_response_is_seen_to_be_incomplete() {
    for (version, size) in [("1.1", BodySize::Stream), ("1.1", BodySize::Exact(9)), ("1.0", BodySize::Stream)]
    {
        let mut server = server(&format!("GET / HTTP/{version}\r\nHost: h\r\n\r\n"));
        assert_eq!((next(&mut server), next(&mut server)), ("GET /".into(), "end".into()));
        server.respond(NOW, 200, &Fields::new(), size).expect("the response");
        server.body(b"part").expect("a part");
        server.abort(NOW);
        assert_eq!(server.body(b"more"), Err(Refused::Closed));
        let sent = sent(&mut server);
        assert!(server.is_over());
        assert_eq!(server.wants_reset(), version == "1.0", "only a reset tells it from an end");
        let mut client = drive::client(Limits::default(), "GET").0;
        client.handle_input(NOW, sent.as_bytes());
        client.handle_eof(NOW);
        assert_eq!((said(&mut client), said(&mut client)), ("200".into(), "[part]".into()));
        assert_eq!(said(&mut client), if version == "1.1" { "Truncated" } else { "end" });
    }
    // Without a head there is nothing to send at all.
    let mut server = server(GET);
    assert_eq!(next(&mut server), "GET /");
    server.abort(NOW);
    assert!(server.is_over() && server.unsent() == 0);
}

#[test]
fn closing_waits_for_the_exchange() {
    let mut server = server(GET);
    assert_eq!((next(&mut server), next(&mut server)), ("GET /".into(), "end".into()));
    server.close(NOW);
    assert!(!server.is_over());
    answer(&mut server, 200, BodySize::None, &[]);
    assert!(sent(&mut server).contains("Connection: close\r\n"));
    assert!(server.is_over());
    let mut idle = self::server("");
    idle.close(NOW);
    assert!(idle.is_over());
}

#[test]
fn a_client_writes_what_a_server_reads() {
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
    let (mut client, mut server) = (client::Connection::new(NOW, Limits::default()), server(""));
    for (method, size, body, want) in table {
        assert!(client.is_idle());
        client.request(NOW, method, "/a?b", "h:80", &fields, *size).expect("the request");
        for part in *body {
            client.body(part.as_bytes()).expect("its body");
        }
        client.end(NOW).expect("its end");
        assert!(!client.is_idle());
        let sent = client.transmit().to_vec();
        client.consume(sent.len());
        let text = String::from_utf8(sent.clone()).expect("text");
        assert_eq!(text, format!("{method} /a?b HTTP/1.1\r\nHost: h:80\r\nAccept: */*\r\n{want}"));
        server.handle_input(NOW, &sent);
        let mut read = String::new();
        assert_eq!(next(&mut server), format!("{method} /a?b"));
        loop {
            match next(&mut server) {
                part if part.starts_with('[') => read.push_str(&part),
                end => break assert_eq!(end, "end"),
            }
        }
        assert_eq!(read.replace("][", ""), if body.is_empty() { "" } else { "[hello]" });
        answer(&mut server, 200, BodySize::Stream, &["yes"]);
        client.handle_input(NOW, self::sent(&mut server).as_bytes());
        assert_eq!((said(&mut client), said(&mut client)), ("200".into(), "[yes]".into()));
        assert!(client.has_received());
        assert_eq!((said(&mut client), said(&mut client)), ("end".into(), String::new()));
    }
}

#[test]
fn a_request_that_could_be_read_otherwise_is_never_written() {
    let mut client = client::Connection::new(NOW, Limits::default());
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
        assert_eq!(refused, Err(Refused::Invalid), "{method} {target} {host}");
    }
    for name in ["Host", "content-length", "transfer-Encoding", "connection"] {
        let mut fields = Fields::new();
        assert!(fields.push(name, b"x"));
        assert_eq!(
            client.request(NOW, "GET", "/", "h", &fields, BodySize::None),
            Err(Refused::Framing),
            "{name}"
        );
    }
    assert!(client.is_idle() && client.unsent() == 0);
    client.request(NOW, "GET", "/", "h", &none, BodySize::None).expect("the request");
    assert_eq!(client.request(NOW, "GET", "/", "h", &none, BodySize::None), Err(Refused::OutOfOrder));
}

#[test]
fn a_client_knows_what_to_make_of_a_close() {
    let asked = || {
        let mut client = client::Connection::new(NOW, Limits::default());
        client.request(NOW, "GET", "/", "h", &Fields::new(), BodySize::None).expect("the request");
        client.end(NOW).expect("its end");
        client.consume(usize::MAX);
        client
    };
    let mut client = asked();
    client.handle_eof(NOW);
    assert!(!client.has_received());
    assert_eq!((said(&mut client), said(&mut client)), ("closed".into(), String::new()));
    assert!(client.is_over());

    let mut client = asked();
    client.handle_input(NOW, b"H");
    client.handle_eof(NOW);
    assert!(client.has_received());
    assert_eq!((said(&mut client), client.is_over()), ("Truncated".into(), true));

    // An answer that ends with the connection is complete.
    let mut client = asked();
    client.handle_input(NOW, b"HTTP/1.1 200 OK\r\n\r\nhello");
    assert_eq!(
        (said(&mut client), said(&mut client), said(&mut client)),
        ("200".into(), "[hello]".into(), String::new())
    );
    client.handle_eof(NOW);
    assert_eq!((said(&mut client), client.is_over(), client.is_idle()), ("end".into(), true, false));

    // One before the whole request was sent ends the connection too, whether the rest was handed over or not.
    for whole in [false, true] {
        let mut client = client::Connection::new(NOW, Limits::default());
        client.request(NOW, "POST", "/", "h", &Fields::new(), BodySize::Exact(9)).expect("the request");
        client.consume(client.unsent());
        if whole {
            client.body(b"012345678").expect("all of it");
            client.end(NOW).expect("its end");
            client.consume(4);
        }
        client.handle_input(NOW, b"HTTP/1.1 413 \r\nContent-Length: 0\r\n\r\n");
        assert_eq!((said(&mut client), said(&mut client)), ("413".into(), "end".into()));
        assert!(client.is_over() && !client.is_idle() && client.unsent() == 0, "{whole}");
        assert_eq!(client.body(b"x"), Err(Refused::Closed));
    }

    // So does one that came when the rest could not be sent any more.
    let mut client = client::Connection::new(NOW, Limits::default());
    client.request(NOW, "POST", "/", "h", &Fields::new(), BodySize::Exact(9)).expect("the request");
    client.consume(1);
    client.handle_write_failed();
    assert_eq!(client.unsent(), 0);
    client.handle_input(NOW, b"HTTP/1.1 413 \r\nContent-Length: 0\r\n\r\n");
    assert_eq!((said(&mut client), said(&mut client)), ("413".into(), "end".into()));
    assert!(client.is_over());

    // What comes before a byte of the request was sent answers something else.
    let mut client = client::Connection::new(NOW, Limits::default());
    client.request(NOW, "GET", "/", "h", &Fields::new(), BodySize::None).expect("the request");
    client.end(NOW).expect("its end");
    client.handle_input(NOW, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    client.consume(usize::MAX);
    assert_eq!((said(&mut client), client.is_over()), ("Unasked".into(), true));

    // While nothing is asked it is over at once.
    let mut client = client::Connection::new(NOW, Limits::default());
    client.handle_eof(NOW);
    assert!(!client.is_idle(), "no request is lost to a connection that is known to have ended");
    assert_eq!((said(&mut client), client.is_over()), (String::new(), true));
}

#[test]
fn bodies_of_responses_have_their_limit_too() {
    for head in ["Content-Length: 9\r\n", "Transfer-Encoding: chunked\r\n", ""] {
        let mut limits = Limits::default();
        limits.max_body = 8;
        let mut client = client::Connection::new(NOW, limits);
        client.request(NOW, "GET", "/", "h", &Fields::new(), BodySize::None).expect("the request");
        client.consume(usize::MAX);
        let body = if head.starts_with('T') { "4\r\nabcd\r\n5\r\nabcde\r\n0\r\n\r\n" } else { "abcdabcde" };
        client.handle_input(NOW, format!("HTTP/1.1 200 OK\r\n{head}\r\n{body}").as_bytes());
        let all: Vec<String> =
            core::iter::from_fn(|| Some(said(&mut client)).filter(|s| !s.is_empty())).collect();
        assert_eq!(all.last().map(|s| &**s), Some(&*format!("{:?}", Reason::BodyTooLong)), "{all:?}");
        assert!(!all.contains(&"end".to_owned()));
    }
}
