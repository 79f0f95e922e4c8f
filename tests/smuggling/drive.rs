//! Driver that passes an input to a connection, cut in every way, and records the outcome.

use core::time::Duration;

use mcp_proto::Instant;
use mcp_proto::h1::{ConnectionFault, HttpLimits, client, server};
use mcp_proto::head::{BodySize, Fields};
use mcp_tests::harness::rounds;

pub(crate) const NOW: Instant = Instant::from_micros(1_000_000);

pub(crate) fn after_millis(millis: u64) -> Instant {
    NOW + Duration::from_millis(millis)
}

/// Outcome of an input.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct ReadOutcome {
    /// Complete messages, as `POST /target [body]` or `200 [body]`.
    pub(crate) messages: Vec<String>,
    /// A message without its end.
    pub(crate) partial_message: Option<String>,
    pub(crate) fault: Option<ConnectionFault>,
    /// Whether the peer is gone, or closed before the response.
    pub(crate) is_peer_gone: bool,
    /// Written bytes.
    pub(crate) sent: Vec<u8>,
    pub(crate) is_over: bool,
}

/// Returns the cuts of an input: whole, byte by byte, and in two at every position, or at a tenth of them.
pub(crate) fn chunkings(input: &[u8]) -> Vec<Vec<&[u8]>> {
    let mut cuts: Vec<Vec<&[u8]>> = vec![vec![input], input.chunks(1).collect()];
    // The middle of a long input is repetitive, so fewer positions are tried there.
    let positions: Vec<usize> = match input.len() {
        0..=3_000 => (1..input.len()).collect(),
        n => (1..400).chain((400..n - 400).step_by(257)).chain(n - 400..n).collect(),
    };
    let step = positions.len() / (rounds(positions.len() as u64) as usize).max(1);
    cuts.extend(positions.into_iter().step_by(step.max(1)).map(|at| vec![&input[..at], &input[at..]]));
    cuts
}

/// One end of a connection.
pub(crate) trait ParserEnd {
    fn input(&mut self, bytes: &[u8]);
    fn eof(&mut self);
    /// Polls all events, answers requests, and takes the written bytes.
    fn run_turn(&mut self, seen: &mut ReadOutcome);
}

/// Returns the outcome of an input in pieces, and of its end if `hang_up` is set.
pub(crate) fn read<E: ParserEnd>(mut end: E, pieces: &[&[u8]], hang_up: bool) -> ReadOutcome {
    let mut seen = ReadOutcome::default();
    end.run_turn(&mut seen);
    for piece in pieces {
        end.input(piece);
        end.run_turn(&mut seen);
    }
    if hang_up {
        end.eof();
        end.run_turn(&mut seen);
    }
    seen
}

/// Server end, which answers every request with 200 and no body.
pub(crate) struct ServerEnd(pub(crate) server::Connection);

pub(crate) fn server(limits: HttpLimits) -> ServerEnd {
    ServerEnd(server::Connection::new(NOW, limits))
}

impl ParserEnd for ServerEnd {
    fn input(&mut self, bytes: &[u8]) {
        self.0.handle_input(NOW, bytes);
    }

    fn eof(&mut self) {
        self.0.handle_eof(NOW);
    }

    fn run_turn(&mut self, seen: &mut ReadOutcome) {
        while let Some(event) =
            self.0.poll_event(NOW, |r, _| format!("{} {} [", r.method, r.target.escape_debug()))
        {
            assert!(seen.fault.is_none() && !seen.is_peer_gone, "no event may follow a fault");
            match event {
                server::Event::Head(head) => {
                    assert!(seen.partial_message.replace(head).is_none(), "a head within a message");
                }
                server::Event::Body(data) => {
                    assert!(!data.is_empty());
                    seen.partial_message.as_mut().expect("a head").push_str(&data.escape_ascii().to_string());
                }
                server::Event::End => {
                    seen.messages.push(seen.partial_message.take().expect("a head") + "]");
                    self.0.respond(NOW, 200, &Fields::new(), BodySize::None).expect("the response");
                    self.0.end(NOW).expect("its end");
                }
                server::Event::ClientGone => seen.is_peer_gone = true,
                server::Event::Fault(fault) => seen.fault = Some(fault),
            }
        }
        while !self.0.transmit().is_empty() {
            seen.sent.extend_from_slice(self.0.transmit());
            self.0.consume(self.0.transmit().len());
        }
        seen.is_over = self.0.wants_write_shutdown();
        if seen.partial_message.is_none() || seen.is_over {
            let refused = self.0.respond(NOW, 200, &Fields::new(), BodySize::None);
            assert!(refused.is_err(), "a response without a request was accepted");
        }
    }
}

/// Client end, which has requested `/`.
pub(crate) struct ClientEnd(pub(crate) client::Connection);

pub(crate) fn client(limits: HttpLimits, method: &str) -> ClientEnd {
    let mut client = client::Connection::new(NOW, limits);
    client.request(NOW, method, "/", "h", &Fields::new(), BodySize::None).expect("the request");
    client.end(NOW).expect("its end");
    client.consume(client.unsent_len());
    ClientEnd(client)
}

impl ParserEnd for ClientEnd {
    fn input(&mut self, bytes: &[u8]) {
        self.0.handle_input(NOW, bytes);
    }

    fn eof(&mut self) {
        self.0.handle_eof(NOW);
    }

    fn run_turn(&mut self, seen: &mut ReadOutcome) {
        while let Some(event) = self.0.poll_event(NOW, |r| format!("{} [", r.status)) {
            assert!(seen.fault.is_none() && !seen.is_peer_gone, "no event may follow a fault");
            match event {
                client::Event::Head(head) => {
                    assert!(seen.partial_message.replace(head).is_none(), "a head within a message");
                }
                client::Event::Body(data) => {
                    assert!(!data.is_empty());
                    seen.partial_message.as_mut().expect("a head").push_str(&data.escape_ascii().to_string());
                }
                client::Event::End => seen.messages.push(seen.partial_message.take().expect("a head") + "]"),
                client::Event::Closed => seen.is_peer_gone = true,
                client::Event::Fault(fault) => seen.fault = Some(fault),
            }
        }
        seen.is_over = self.0.wants_close();
    }
}
