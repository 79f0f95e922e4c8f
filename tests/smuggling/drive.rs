//! Drives a connection through an input, cut in every way, and writes down what it said.

use core::time::Duration;

use mcp_proto::Instant;
use mcp_proto::h1::{Fault, Limits, client, server};
use mcp_proto::head::{BodySize, Fields};

pub(crate) const NOW: Instant = Instant::from_micros(1_000_000);

pub(crate) fn later(millis: u64) -> Instant {
    NOW + Duration::from_millis(millis)
}

/// What was said of an input
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Seen {
    /// Complete messages: `POST /target [body]`, `200 [body]`
    pub(crate) messages: Vec<String>,
    /// One whose end did not come
    pub(crate) open: Option<String>,
    pub(crate) fault: Option<Fault>,
    /// The peer is gone, or has closed before it answered
    pub(crate) gone: bool,
    /// What was written
    pub(crate) sent: Vec<u8>,
    pub(crate) over: bool,
}

/// Cuts of an input: whole, byte by byte, in two at every place
pub(crate) fn cuts(input: &[u8]) -> Vec<Vec<&[u8]>> {
    let mut cuts: Vec<Vec<&[u8]>> = vec![vec![input], input.chunks(1).collect()];
    // A long input repeats itself in its middle.
    let places: Vec<usize> = match input.len() {
        0..=3_000 => (1..input.len()).collect(),
        n => (1..400).chain((400..n - 400).step_by(257)).chain(n - 400..n).collect(),
    };
    cuts.extend(places.into_iter().map(|at| vec![&input[..at], &input[at..]]));
    cuts
}

/// An end of a connection
pub(crate) trait End {
    fn input(&mut self, bytes: &[u8]);
    fn eof(&mut self);
    /// Polls until nothing more comes, answers, and takes what is written
    fn turn(&mut self, seen: &mut Seen);
}

/// What a new end says to an input in pieces, and to its end
pub(crate) fn read<E: End>(mut end: E, pieces: &[&[u8]], hang_up: bool) -> Seen {
    let mut seen = Seen::default();
    end.turn(&mut seen);
    for piece in pieces {
        end.input(piece);
        end.turn(&mut seen);
    }
    if hang_up {
        end.eof();
        end.turn(&mut seen);
    }
    seen
}

/// Answers every request with 200 and no body
pub(crate) struct Server(pub(crate) server::Connection);

pub(crate) fn server(limits: Limits) -> Server {
    Server(server::Connection::new(NOW, limits))
}

impl End for Server {
    fn input(&mut self, bytes: &[u8]) {
        self.0.handle_input(NOW, bytes);
    }

    fn eof(&mut self) {
        self.0.handle_eof(NOW);
    }

    fn turn(&mut self, seen: &mut Seen) {
        while let Some(event) =
            self.0.poll_event(NOW, |r, _| format!("{} {} [", r.method, r.target.escape_debug()))
        {
            assert!(seen.fault.is_none() && !seen.gone, "nothing comes after a fault");
            match event {
                server::Event::Head(head) => {
                    assert!(seen.open.replace(head).is_none(), "a head within a message");
                }
                server::Event::Body(data) => {
                    assert!(!data.is_empty());
                    seen.open.as_mut().expect("a head").push_str(&data.escape_ascii().to_string());
                }
                server::Event::End => {
                    seen.messages.push(seen.open.take().expect("a head") + "]");
                    self.0.respond(NOW, 200, &Fields::new(), BodySize::None).expect("the response");
                    self.0.end(NOW).expect("its end");
                }
                server::Event::Gone => seen.gone = true,
                server::Event::Fault(fault) => seen.fault = Some(fault),
            }
        }
        seen.sent.extend_from_slice(self.0.transmit());
        self.0.consume(usize::MAX);
        seen.over = self.0.is_write_over();
        if seen.open.is_none() || seen.over {
            let refused = self.0.respond(NOW, 200, &Fields::new(), BodySize::None);
            assert!(refused.is_err(), "there is nothing to respond to");
        }
    }
}

/// Has asked for `/`
pub(crate) struct Client(pub(crate) client::Connection);

pub(crate) fn client(limits: Limits, method: &str) -> Client {
    let mut client = client::Connection::new(NOW, limits);
    client.request(NOW, method, "/", "h", &Fields::new(), BodySize::None).expect("the request");
    client.end(NOW).expect("its end");
    client.consume(usize::MAX);
    Client(client)
}

impl End for Client {
    fn input(&mut self, bytes: &[u8]) {
        self.0.handle_input(NOW, bytes);
    }

    fn eof(&mut self) {
        self.0.handle_eof(NOW);
    }

    fn turn(&mut self, seen: &mut Seen) {
        while let Some(event) = self.0.poll_event(NOW, |r| format!("{} [", r.status)) {
            assert!(seen.fault.is_none() && !seen.gone, "nothing comes after a fault");
            match event {
                client::Event::Head(head) => {
                    assert!(seen.open.replace(head).is_none(), "a head within a message");
                }
                client::Event::Body(data) => {
                    assert!(!data.is_empty());
                    seen.open.as_mut().expect("a head").push_str(&data.escape_ascii().to_string());
                }
                client::Event::End => seen.messages.push(seen.open.take().expect("a head") + "]"),
                client::Event::Closed => seen.gone = true,
                client::Event::Fault(fault) => seen.fault = Some(fault),
            }
        }
        seen.over = self.0.is_over();
    }
}
