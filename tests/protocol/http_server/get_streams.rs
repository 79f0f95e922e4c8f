//! Several GET streams of one session: each message arrives on one of them.

use mcp_proto::SendStatus;
use mcp_proto::h1::HttpLimits;
use mcp_proto::http::server::{Config, Connection, ExchangeId};
use mcp_proto::model::{ElicitParams, ElicitSchema, InputRequest, LoggingLevel};
use mcp_proto::server::{Call, InputRequired};
use mcp_tests::harness::{HttpServerHarness, Rng, rounds};

use super::{ECHO_PARAMS, answer_call, harness, legacy_request, open_session};
use crate::protocol::common::{ms, secs};

/// A session that logs numbered messages outside of calls.
struct LoggingSession {
    web: HttpServerHarness,
    id: String,
    call: Call,
    logged: usize,
}

impl LoggingSession {
    fn new(http: Config) -> Self {
        let mut web = harness(http);
        let id = open_session(&mut web, "2025-11-25");
        web.post(&[("Mcp-Session-Id", &id)], &legacy_request(2, "tools/call", ECHO_PARAMS));
        let call = web.expect_call();
        Self { web, id, call, logged: 0 }
    }

    /// Opens a GET stream, or resumes one after an event.
    fn get(&mut self, last_event_id: &str) -> ExchangeId {
        let fields = [("Mcp-Session-Id", &*self.id), ("Last-Event-ID", last_event_id)];
        self.web.send_request("GET", "/mcp", &fields, "")
    }

    /// Logs the next number, followed by `padding` bytes.
    #[expect(deprecated, reason = "tested until its removal")]
    fn log(&mut self, padding: usize) {
        self.logged += 1;
        let data = format!("{}{}", self.logged, " ".repeat(padding));
        let (now, channel) = (self.web.now, self.call.channel());
        let sent = self.web.server.engine().log_session(now, channel, &LoggingLevel::Info, None, &data);
        match sent {
            Ok(SendStatus::Queued) => {}
            // Without a GET stream few messages are kept.
            Ok(SendStatus::Dropped) => self.logged -= 1,
            other => panic!("{other:?}"),
        }
        self.web.transmit_all();
    }

    /// Returns the numbers in the messages that arrived on a stream.
    fn numbers(&self, x: ExchangeId) -> Vec<usize> {
        let messages = self.web.response(x).messages();
        let number = |data: &str| data.trim().parse().expect("a number");
        messages.iter().map(|m| number(m["params"]["data"].as_str().expect("a log message"))).collect()
    }

    fn last_event_id(&self, x: ExchangeId) -> String {
        self.web.response(x).events().pop().expect("an event").id
    }
}

// covers: HTTP-047, HTTP-053, HTTP-054, HTTP-055, HTTP-056
#[test]
fn messages_go_to_the_newest_of_several_get_streams() {
    let mut run = LoggingSession::new(Config::new());
    let [a, b, c] = [0; 3].map(|_| run.get(""));
    run.log(0);
    assert!([a, b, c].iter().all(|x| !run.web.response(*x).is_complete));
    assert_eq!([a, b, c].map(|x| run.numbers(x)), [vec![], vec![], vec![1]]);
    run.web.close_exchange(c);
    run.log(0);
    run.web.close_exchange(a);
    run.log(0);
    assert_eq!([a, b].map(|x| run.numbers(x)), [vec![], vec![2, 3]]);
    run.web.close_exchange(b);
    run.log(0);
    let d = run.get("");
    assert_eq!(run.numbers(d), [4], "it waited for a stream");
    // Idle streams stay open, all of them.
    let e = run.get("");
    let before = [d, e].map(|x| run.web.response(x).body.len());
    run.web.advance(secs(60));
    assert!([d, e].iter().zip(before).all(|(x, before)| run.web.response(*x).body.len() > before));
    // The end of the session ends all of them.
    run.web.send_request("DELETE", "/mcp", &[("Mcp-Session-Id", &run.id)], "");
    assert!([d, e].iter().all(|x| run.web.response(*x).is_complete));
}

// covers: HTTP-055, HTTP-056
#[test]
fn message_for_a_slow_reader_goes_to_the_next_stream() {
    let mut run = LoggingSession::new(Config::new());
    let [old, new] = [0; 2].map(|_| run.get(""));
    run.web.auto_transmits = false;
    (0..4).for_each(|_| run.log(9_000));
    while run.web.server.poll_ready(run.web.now).is_some() {}
    run.log(0);
    [new, old].into_iter().for_each(|x| run.web.transmit_exchange(x));
    assert_eq!((run.numbers(new), run.numbers(old)), (vec![1, 2, 5], vec![3, 4]));
}

/// Encodes the pending messages; nothing is transmitted.
fn encode(run: &mut LoggingSession) {
    while run.web.server.poll_ready(run.web.now).is_some() {}
}

/// Takes `n` bytes of the body of an exchange and returns them.
fn take(run: &mut LoggingSession, x: ExchangeId, n: usize) -> String {
    let mut taken = Vec::new();
    while taken.len() < n {
        let bytes = run.web.server.transmit(run.web.now, x);
        let part = &bytes[..bytes.len().min(n - taken.len())];
        let length = part.len();
        taken.extend_from_slice(part);
        run.web.server.consume(x, length);
    }
    String::from_utf8(taken).expect("text")
}

// covers: HTTP-055, HTTP-056, SSE-014, SSE-022, SSE-023
#[test]
fn stream_that_breaks_inside_a_message_gives_it_to_another_one() {
    let mut whole = 0;
    for (cut, has_other) in (0..).flat_map(|cut| [(cut, true), (cut, false)]) {
        let mut run = LoggingSession::new(Config::new());
        let other = has_other.then(|| run.get(""));
        let broken = run.get("");
        let primed = run.last_event_id(broken);
        run.web.auto_transmits = false;
        run.log(0);
        run.log(0);
        encode(&mut run);
        let length = run.web.server.transmit(run.web.now, broken).len();
        if cut > length {
            whole = length;
            break;
        }
        // Virtual time passes while the connection is stuck, and more messages arrive.
        let read = take(&mut run, broken, cut);
        let received = read.matches("\n\n").count();
        run.web.advance(secs(40));
        run.web.auto_transmits = true;
        run.web.close_exchange(broken);
        run.log(0);
        let all: Vec<usize> = (received + 1..=3).collect();
        let other = other.unwrap_or_else(|| run.get(""));
        assert_eq!(run.numbers(other), all, "cut after {cut} bytes");
        // The broken stream is resumed: it has what it sent, and nothing that went elsewhere.
        let resumed = run.get(&primed);
        assert_eq!(run.numbers(resumed), (1..=received).collect::<Vec<_>>(), "cut after {cut} bytes");
        let ids: Vec<String> = run.web.response(resumed).events().into_iter().map(|e| e.id).collect();
        run.log(0);
        assert_eq!(run.numbers(resumed).last(), Some(&4), "it is the newest one");
        let next = run.last_event_id(resumed);
        assert!(!read.contains(&format!("id: {next}\n")) && !ids.contains(&next), "{next} was used before");
        assert!(!run.web.response(other).is_complete);
    }
    assert!(whole > 100, "{whole}");
}

// covers: HTTP-055, SSE-021, SSE-022
#[test]
fn resuming_one_stream_leaves_the_others_alone() {
    let mut run = LoggingSession::new(Config::new());
    let a = run.get("");
    run.log(0);
    let b = run.get("");
    run.log(0);
    let (last_a, last_b) = (run.last_event_id(a), run.last_event_id(b));
    assert_ne!(last_a.split_once('-').map(|p| p.0), last_b.split_once('-').map(|p| p.0));
    // Its connection still counts as open.
    let a2 = run.get(&last_a);
    assert!(run.web.response(a).is_complete && !run.web.response(b).is_complete);
    run.log(0);
    assert_eq!([a, a2, b].map(|x| run.numbers(x)), [vec![1], vec![3], vec![2]]);
    run.web.close_exchange(b);
    run.log(0);
    let b2 = run.get(&last_b);
    run.log(0);
    assert_eq!([a2, b2].map(|x| run.numbers(x)), [vec![3, 4], vec![5]]);
    answer_call(&mut run.web, &run.call);
}

// covers: HTTP-054, SSE-024, SEC-018
#[test]
fn get_stream_beyond_the_limit_ends_the_oldest() {
    let mut run = LoggingSession::new(Config::new().max_get_streams_per_session(2));
    let mut ids = Vec::new();
    let streams: Vec<ExchangeId> = (0..6)
        .map(|_| {
            let x = run.get("");
            ids.push(run.last_event_id(x));
            x
        })
        .collect();
    let is_open = |run: &LoggingSession| -> Vec<bool> {
        streams.iter().map(|x| !run.web.response(*x).is_complete).collect()
    };
    assert_eq!(is_open(&run), [false, false, false, false, true, true]);
    // Two closed ones are known; each of them takes the place of the oldest.
    let statuses: Vec<u16> = [0, 1, 2, 3]
        .map(|n| {
            let x = run.get(&ids[n]);
            run.web.response(x).status
        })
        .to_vec();
    assert_eq!(statuses, [400, 400, 200, 200]);
    assert_eq!(is_open(&run), [false; 6]);
    assert_eq!(run.web.server.exchange_count(), 3, "two streams and the call");
    // A limit of zero is one.
    let mut run = LoggingSession::new(Config::new().max_get_streams_per_session(0));
    let [a, b] = [0; 2].map(|_| run.get(""));
    assert!(run.web.response(a).is_complete && !run.web.response(b).is_complete);
}

/// A connection that has opened a GET stream, and what its client has read.
struct StreamConnection {
    connection: Connection,
    read: Vec<u8>,
}

impl StreamConnection {
    fn open(run: &mut LoggingSession, version: &str) -> Self {
        let mut connection = Connection::new(run.web.now, HttpLimits::default());
        let head = format!(
            "GET /mcp HTTP/{version}\r\nHost: localhost\r\nAccept: text/event-stream\r\nMcp-Session-Id: {}\r\n\r\n",
            run.id
        );
        connection.handle_input(run.web.now, head.as_bytes());
        connection.drive(run.web.now, &mut run.web.server);
        Self { connection, read: Vec::new() }
    }

    /// Writes at most `n` bytes; returns how many.
    fn write(&mut self, run: &mut LoggingSession, n: usize) -> usize {
        let mut written = 0;
        loop {
            let bytes = self.connection.transmit();
            let part = &bytes[..bytes.len().min(n - written)];
            if part.is_empty() {
                return written;
            }
            self.read.extend_from_slice(part);
            let length = part.len();
            written += length;
            self.connection.consume(length);
            self.connection.drive(run.web.now, &mut run.web.server);
        }
    }

    /// Returns the numbers in the events that have arrived completely, also those of an incomplete chunk.
    fn numbers(&self) -> Vec<usize> {
        let text = core::str::from_utf8(&self.read).expect("text");
        let (head, mut chunks) = text.split_once("\r\n\r\n").expect("a head");
        let mut body = String::new();
        if !head.contains("chunked") {
            body.push_str(core::mem::take(&mut chunks));
        }
        while let Some((length, rest)) = chunks.split_once("\r\n") {
            let length = usize::from_str_radix(length, 16).expect("a length");
            body.push_str(rest.get(..length).unwrap_or(rest));
            chunks = rest.get(length + 2..).unwrap_or_default();
        }
        let (x, last_event_id) = (self.connection.exchange(), String::new());
        let x = x.unwrap_or_else(|| panic!("the stream is open: {text}"));
        ReadStream { x, text: body, last_event_id }.read()
    }
}

// covers: HTTP-055, HTTP-056
#[test]
fn connection_that_breaks_inside_a_message_loses_nothing() {
    for version in ["1.1", "1.0"] {
        assert_eq!(break_connection(version), [0, 1, 2], "{version}");
    }
}

/// Breaks a connection with two messages after each byte. Returns how many messages arrive before, each number once.
fn break_connection(version: &str) -> Vec<usize> {
    let mut outcomes = Vec::new();
    for cut in 0.. {
        let mut run = LoggingSession::new(Config::new());
        run.web.auto_transmits = false;
        let mut old = StreamConnection::open(&mut run, "1.1");
        let mut new = StreamConnection::open(&mut run, version);
        old.write(&mut run, usize::MAX);
        new.write(&mut run, usize::MAX);
        run.log(0);
        run.log(0);
        encode(&mut run);
        new.connection.drive(run.web.now, &mut run.web.server);
        let written = new.write(&mut run, cut);
        let arrived = new.numbers();
        if cut % 2 == 0 {
            new.connection.abandon(run.web.now, &mut run.web.server);
        } else {
            new.connection.handle_eof(run.web.now);
            new.connection.drive(run.web.now, &mut run.web.server);
        }
        let rest =
            new.connection.transmit().len() + new.connection.segments().map(<[u8]>::len).sum::<usize>();
        assert!(rest == 0 || arrived.len() == 2, "cut {cut}: {rest} bytes of messages that went elsewhere");
        // A client that has all messages has lost nothing by the end of its connection.
        assert!(
            version == "1.0" || arrived.len() < 2 || !new.connection.wants_reset(),
            "cut {cut}: a reset after all messages"
        );
        old.connection.drive(run.web.now, &mut run.web.server);
        old.write(&mut run, usize::MAX);
        let all: Vec<usize> = arrived.iter().copied().chain(old.numbers()).collect();
        assert_eq!(all, [1, 2], "cut after {cut} bytes");
        outcomes.push(arrived.len());
        if written < cut {
            break;
        }
    }
    outcomes.dedup();
    outcomes
}

// covers: HTTP-055, HTTP-056
#[test]
fn message_that_was_sent_with_the_head_is_not_lost() {
    for (version, cut) in
        ["1.1", "1.0"].into_iter().flat_map(|version| (0..600).map(move |cut| (version, cut)))
    {
        let mut run = LoggingSession::new(Config::new());
        run.web.auto_transmits = false;
        run.log(0);
        let mut broken = StreamConnection::open(&mut run, version);
        broken.write(&mut run, cut);
        let has_head = broken.read.windows(4).any(|bytes| bytes == b"\r\n\r\n");
        let arrived = if has_head { broken.numbers() } else { Vec::new() };
        broken.connection.abandon(run.web.now, &mut run.web.server);
        let mut next = StreamConnection::open(&mut run, "1.1");
        next.write(&mut run, usize::MAX);
        let all: Vec<usize> = arrived.into_iter().chain(next.numbers()).collect();
        assert_eq!(all, [1], "HTTP/{version}, cut after {cut} bytes");
    }
}

/// A connection whose messages have all arrived is closed in order.
#[test]
fn connection_that_ends_after_its_messages_is_not_reset() {
    for cut in [0, 1] {
        let mut run = LoggingSession::new(Config::new());
        run.web.auto_transmits = false;
        let mut stream = StreamConnection::open(&mut run, "1.1");
        stream.write(&mut run, usize::MAX);
        run.log(0);
        encode(&mut run);
        stream.connection.drive(run.web.now, &mut run.web.server);
        let unread = stream.connection.transmit().len();
        stream.write(&mut run, if cut == 0 { usize::MAX } else { unread - 10 });
        stream.connection.handle_eof(run.web.now);
        stream.connection.drive(run.web.now, &mut run.web.server);
        assert_eq!((stream.connection.wants_reset(), stream.connection.wants_close()), (cut == 1, true));
        assert!(!stream.connection.wants_input());
    }
}

/// A client's view of one stream.
struct ReadStream {
    x: ExchangeId,
    text: String,
    last_event_id: String,
}

impl ReadStream {
    /// Returns the numbers in the events that are complete, and forgets them.
    fn read(&mut self) -> Vec<usize> {
        let mut numbers = Vec::new();
        while let Some((event, rest)) = self.text.split_once("\n\n") {
            for line in event.lines() {
                match line.split_once(": ") {
                    Some(("id", id)) => id.clone_into(&mut self.last_event_id),
                    Some(("data", data)) if !data.is_empty() => {
                        let message: serde_json::Value = serde_json::from_str(data).expect("JSON");
                        numbers.push(message["params"]["data"].as_str().unwrap().trim().parse().unwrap());
                    }
                    _ => {}
                }
            }
            self.text = rest.to_owned();
        }
        numbers
    }
}

// covers: HTTP-054, HTTP-055, HTTP-056, SSE-021, SSE-022, SSE-023
#[test]
fn each_message_arrives_once_however_get_streams_break() {
    for seed in 0..rounds(300) {
        let mut rng = Rng::new(seed);
        let replay = if seed % 3 == 0 { 0 } else { 1 << 20 };
        let limit = 1 + rng.below(3);
        let mut run =
            LoggingSession::new(Config::new().replay_bytes(replay).max_get_streams_per_session(limit));
        run.web.auto_transmits = false;
        let (mut open, mut broken, mut received) =
            (Vec::<ReadStream>::new(), Vec::<String>::new(), Vec::new());
        for _ in 0..80 {
            match rng.below(8) {
                0 | 1 => {
                    run.web.advance(ms(200));
                    run.log(if rng.percent(20) { 20_000 } else { rng.below(300) });
                }
                2 if open.len() < limit => {
                    let x = run.get("");
                    open.push(ReadStream { x, text: String::new(), last_event_id: String::new() });
                }
                3 if !open.is_empty() => {
                    let stream = open.swap_remove(rng.below(open.len()));
                    run.web.server.handle_gone(run.web.now, stream.x);
                    broken.push(stream.last_event_id);
                }
                4 if open.len() < limit && !broken.is_empty() && replay > 0 => {
                    let id = broken.pop().expect("one");
                    let x = run.get(&id);
                    if run.web.server.response(x).is_some_and(|r| r.status == 200) {
                        open.push(ReadStream { x, text: String::new(), last_event_id: id });
                    }
                }
                5 if !open.is_empty() && replay > 0 => {
                    // The client resumes before the server has noticed that the connection broke.
                    let at = rng.below(open.len());
                    if !open[at].last_event_id.is_empty() {
                        open[at].x = run.get(&open[at].last_event_id.clone());
                        open[at].text.clear();
                    }
                }
                _ if !open.is_empty() => {
                    encode(&mut run);
                    let at = rng.below(open.len());
                    let n = run.web.server.transmit(run.web.now, open[at].x).len();
                    let n = if rng.percent(50) { n } else { rng.below(n + 1) };
                    let text = take(&mut run, open[at].x, n);
                    open[at].text.push_str(&text);
                    received.extend(open[at].read());
                }
                _ => {}
            }
        }
        for stream in open {
            run.web.server.handle_gone(run.web.now, stream.x);
        }
        // What is left waits for the next stream.
        let x = run.get("");
        let mut last = ReadStream { x, text: String::new(), last_event_id: String::new() };
        loop {
            let n = run.web.server.transmit(run.web.now, x).len();
            if n == 0 {
                break;
            }
            let text = take(&mut run, x, n);
            last.text.push_str(&text);
        }
        received.extend(last.read());
        received.sort_unstable();
        assert_eq!(received, (1..=run.logged).collect::<Vec<_>>(), "seed {seed}");
        run.web.server.handle_gone(run.web.now, x);
        run.web.send_request("DELETE", "/mcp", &[("Mcp-Session-Id", &run.id)], "");
        assert_eq!((run.web.server.session_count(), run.web.server.engine().live_calls()), (0, 0));
    }
}

/// Makes a call ask its client for something; true if the request could be sent.
fn ask(web: &mut HttpServerHarness, call: &Call) -> bool {
    let mut input = InputRequired::new();
    let form = ElicitParams::form("who?", ElicitSchema::default());
    input.request_input(call, "who", InputRequest::Elicit(form)).expect_err("not yet");
    let now = web.now;
    let asked = web.server.engine().require_input(now, call, &input).is_ok();
    web.transmit_all();
    asked
}

// covers: HTTP-052
#[test]
fn input_requests_never_go_on_a_get_stream() {
    for version in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        for leaves_before in [None, Some(false), Some(true)] {
            let mut web = harness(Config::new());
            let id = open_session(&mut web, version);
            let named = ("Mcp-Session-Id", &*id);
            let get = web.send_request("GET", "/mcp", &[named], "");
            let x = web.post(&[named], &legacy_request(2, "tools/call", ECHO_PARAMS));
            let call = web.expect_call();
            if leaves_before == Some(true) {
                web.close_exchange(x);
            }
            // Before 2025-06-18 there is no elicitation to ask for.
            let asked = ask(&mut web, &call);
            assert!(asked || version == "2025-03-26" || leaves_before == Some(true));
            if leaves_before.is_none() {
                let requests = web.response(x).messages();
                let sent = requests.iter().any(|message| message["method"] == "elicitation/create");
                assert_eq!(sent, asked, "{version}");
            } else {
                web.close_exchange(x);
            }
            web.advance(secs(5));
            assert_eq!(
                web.response(get).messages(),
                Vec::<serde_json::Value>::new(),
                "{version} {leaves_before:?}"
            );
            assert!(!web.response(get).is_complete);
        }
    }
}

// covers: SSE-013
#[test]
fn events_have_no_ids_where_nothing_is_kept() {
    for (replay, has_ids) in [(0, false), (1 << 10, true)] {
        let mut run = LoggingSession::new(Config::new().replay_bytes(replay));
        let stream = run.get("");
        run.log(0);
        let events = run.web.response(stream).events();
        assert!(
            !events.is_empty() && events.iter().all(|event| event.id.is_empty() != has_ids),
            "{events:?}"
        );
    }
}

// covers: HTTP-055
#[test]
fn stream_takes_messages_while_its_body_has_room() {
    let mut run = LoggingSession::new(Config::new());
    let [old, new] = [0; 2].map(|_| run.get(""));
    run.web.auto_transmits = false;
    let pending = |run: &mut LoggingSession, x| {
        encode(run);
        run.web.server.transmit(run.web.now, x).len()
    };
    run.log(0);
    let short = pending(&mut run, new);
    // The body is full, to the byte, and the next message goes to the other stream.
    run.log((16 << 10) - 2 * short);
    assert_eq!(pending(&mut run, new), 16 << 10);
    run.log(0);
    assert_eq!((pending(&mut run, new), pending(&mut run, old)), (16 << 10, short));
}
