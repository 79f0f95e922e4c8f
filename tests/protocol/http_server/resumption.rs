//! Streams cut, replaced and resumed at random: no message is lost, and none arrives twice.

use mcp_proto::http::server::{Config, ExchangeId};
use mcp_proto::server::Call;
use mcp_proto::{Change, Progress};
use mcp_tests::harness::{HttpServerHarness, Rng, rounds};

use super::{ECHO_PARAMS, answer_call, harness, legacy_request, open_session};
use crate::protocol::common::ms;

/// The view that a client has of one stream.
#[derive(Debug, Default)]
struct ClientStream {
    /// The exchange that the client reads, and the number of its events read so far.
    reading: Option<(ExchangeId, usize)>,
    /// The last event read: its id, and the number in the id.
    last_event: Option<(String, u32)>,
    response_count: usize,
    /// True for the GET stream: an event that was not written before it broke comes back as a later one.
    may_skip: bool,
    /// True once the client has read the end.
    is_finished: bool,
    /// True once the server has refused to resume the stream.
    is_lost: bool,
}

impl ClientStream {
    /// Reads the events that have arrived.
    fn read(&mut self, web: &HttpServerHarness, context: &str) {
        let Some((x, read)) = &mut self.reading else { return };
        let reply = web.response(*x);
        if reply.status == 0 {
            return;
        }
        assert_eq!(reply.status, 200, "{context}: {reply:?}");
        if !reply.is_event_stream() {
            self.response_count += reply.messages().len();
            self.is_finished = reply.is_complete;
            return;
        }
        for event in reply.events().into_iter().skip(*read) {
            *read += 1;
            if let Some((_, number)) = event.id.split_once('-') {
                let number: u32 = number.parse().expect("a number");
                if let Some((before, last)) = &self.last_event {
                    let follows = number == last + 1
                        || (self.may_skip && number > *last)
                        || (event.data.is_empty() && number == *last);
                    assert!(follows, "{context}: event {} follows {before}", event.id);
                } else {
                    assert!(number <= 1, "{context}: the first event is {}", event.id);
                }
                self.last_event = Some((event.id, number));
            }
            self.response_count += usize::from(event.data.contains("\"result\""));
        }
        self.is_finished |= self.response_count > 0;
    }
}

struct ResumptionRun {
    harness: HttpServerHarness,
    id: String,
    calls: Vec<(Call, u32, bool, ClientStream)>,
    /// The GET stream.
    get_stream: ClientStream,
    /// Exchanges that the client no longer reads, with the number of events at that time.
    abandoned: Vec<(ExchangeId, usize)>,
    /// True if the replay budget of the server is small.
    has_small_replay_buffer: bool,
}

impl ResumptionRun {
    /// Leaves an exchange, silently or by closing it.
    fn leave(&mut self, which: Option<usize>, closes: bool) {
        let stream = match which {
            Some(n) => &mut self.calls[n].3,
            None => &mut self.get_stream,
        };
        let Some((x, read)) = stream.reading.take() else { return };
        if closes {
            self.harness.close_exchange(x);
        }
        self.abandoned.push((x, read));
    }

    /// Resumes a stream after its last event.
    fn resume(&mut self, which: Option<usize>) {
        let stream = match which {
            Some(n) => &mut self.calls[n].3,
            None => &mut self.get_stream,
        };
        let Some((last, _)) = stream.last_event.clone().filter(|_| !stream.is_lost) else { return };
        // When a resumption may fail, the client closes its old exchange first.
        self.leave(which, self.has_small_replay_buffer);
        self.harness.auto_transmits |= self.has_small_replay_buffer;
        let x = self.harness.send_request(
            "GET",
            "/mcp",
            &[("Mcp-Session-Id", &self.id), ("Last-Event-ID", &last)],
            "",
        );
        let stream = match which {
            Some(n) => &mut self.calls[n].3,
            None => &mut self.get_stream,
        };
        if self.has_small_replay_buffer && self.harness.response(x).status == 400 {
            stream.is_lost = true;
        } else {
            stream.reading = Some((x, 0));
        }
    }

    fn read(&mut self, context: &str) {
        for (_, _, _, stream) in &mut self.calls {
            stream.read(&self.harness, context);
        }
        self.get_stream.read(&self.harness, context);
        for (x, read) in &self.abandoned {
            assert_eq!(
                self.harness.response(*x).events().len(),
                *read,
                "{context}: an event arrived on an abandoned stream"
            );
        }
    }
}

// covers: SSE-014, SSE-022, SSE-023, HTTP-055, HTTP-060
#[test]
fn each_message_arrives_once_however_streams_are_cut_and_resumed() {
    let mut lost = 0;
    for seed in 0..rounds(400) {
        let mut rng = Rng::new(seed);
        let has_small_replay_buffer = seed % 4 == 0;
        let mut web =
            harness(Config::new().replay_bytes(if has_small_replay_buffer { 1_000 } else { 1 << 20 }));
        let id = open_session(&mut web, "2025-11-25");
        let get_stream = ClientStream { may_skip: true, ..ClientStream::default() };
        let (calls, abandoned) = (Vec::new(), Vec::new());
        let mut run =
            ResumptionRun { harness: web, id, calls, get_stream, abandoned, has_small_replay_buffer };
        for step in 0..60 {
            let context = format!("seed {seed}, step {step}");
            // Output that was encoded is not always transmitted.
            run.harness.auto_transmits = rng.percent(70);
            let which = match run.calls.len() {
                0 => None,
                n => Some(rng.below(n)).filter(|_| rng.percent(80)),
            };
            match (rng.below(10), which) {
                (0, _) if run.calls.len() < 4 => {
                    run.harness.auto_transmits = true;
                    let n = u32::try_from(run.calls.len()).expect("few") + 2;
                    let message = legacy_request(
                        n,
                        "tools/call",
                        &format!("{ECHO_PARAMS},\"_meta\":{{\"progressToken\":{n}}}"),
                    );
                    let x = run.harness.post(&[("Mcp-Session-Id", &run.id)], &message);
                    let call = run.harness.expect_call();
                    // Progress turns the response into a stream with an event id.
                    run.harness
                        .server
                        .engine()
                        .progress(run.harness.now, call.id(), Progress::new(1.0))
                        .expect("open");
                    run.harness.transmit_all();
                    let stream = ClientStream { reading: Some((x, 0)), ..ClientStream::default() };
                    run.calls.push((call, 1, true, stream));
                }
                (1..=3, Some(n)) if run.calls[n].2 => {
                    run.harness.advance(ms(100));
                    let (call, progress, ..) = &mut run.calls[n];
                    *progress += 1;
                    let progress = Progress::new(f64::from(*progress));
                    run.harness.server.engine().progress(run.harness.now, call.id(), progress).expect("open");
                    run.harness.transmit_all();
                }
                (4, Some(n)) if run.calls[n].2 => {
                    run.calls[n].2 = false;
                    answer_call(&mut run.harness, &run.calls[n].0);
                }
                (5, which) => run.leave(which, true),
                (6 | 7, which) => run.resume(which),
                (8, Some(n)) if run.calls[n].2 => {
                    let call = run.calls[n].0.id();
                    run.harness.server.poll_later(run.harness.now, call, None);
                    run.harness.transmit_all();
                }
                (9, _) if run.get_stream.reading.is_none() && run.get_stream.last_event.is_none() => {
                    run.harness.auto_transmits = true;
                    let x = run.harness.send_request("GET", "/mcp", &[("Mcp-Session-Id", &run.id)], "");
                    run.get_stream.reading = Some((x, 0));
                }
                _ => {
                    run.harness.server.engine().publish(run.harness.now, &Change::Tools);
                    run.harness.transmit_all();
                }
            }
            if rng.percent(30) {
                // Encodes output without transmitting it.
                while run.harness.server.poll_ready(run.harness.now).is_some() {}
            } else if rng.percent(50) {
                run.harness.auto_transmits = true;
                run.harness.transmit_all();
            }
            run.read(&context);
        }
        let context = format!("seed {seed}, at the end");
        run.harness.auto_transmits = true;
        for n in 0..run.calls.len() {
            if run.calls[n].2 {
                answer_call(&mut run.harness, &run.calls[n].0);
            }
            run.read(&context);
            if !run.calls[n].3.is_finished {
                run.resume(Some(n));
                run.read(&context);
            }
            let stream = &run.calls[n].3;
            lost += u32::from(stream.is_lost);
            if !stream.is_lost {
                assert_eq!((stream.response_count, stream.is_finished), (1, true), "{context}: {n}");
            }
        }
        // No state is left.
        (0..run.calls.len()).map(Some).chain([None]).for_each(|which| run.leave(which, true));
        run.abandoned.iter().for_each(|(x, _)| run.harness.server.handle_gone(run.harness.now, *x));
        run.harness.send_request("DELETE", "/mcp", &[("Mcp-Session-Id", &run.id)], "");
        let server = &mut run.harness.server;
        assert_eq!(
            (server.exchange_count(), server.session_count(), server.engine().live_calls()),
            (0, 0, 0),
            "{context}"
        );
        run.harness.advance(ms(10_000));
        assert_eq!(run.harness.server.poll_timeout(), None, "{context}");
    }
    assert!(lost > 10, "too few streams were lost: {lost}");
}
