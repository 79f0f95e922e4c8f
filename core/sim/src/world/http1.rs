//! An exchange as bytes of HTTP/1.1: both ends of a connection of its own, and the two directions between them.
//!
//! What the server has written is read at once by a third end, for the log. Its client reads it when it arrives.

use core::time::Duration;

use bytes::Bytes;
use mcp_proto::Instant;
use mcp_proto::h1::{ConnectionFault, HttpLimits, Reason, client};
use mcp_proto::head::{BodySize, Fields};
use mcp_proto::http::client::{self as http_client, PoolLimits};
use mcp_proto::http::server::{Connection, Server};

use super::http::{Delivery, Request, line_pairs};
use crate::stream::{ByteStream, Chunker};

/// Longer than any world.
const FOREVER: Duration = Duration::from_secs(1 << 32);

/// The connection of one exchange.
#[derive(Debug)]
pub(super) struct Http1 {
    client: client::Connection,
    server: Connection,
    observer: client::Connection,
    to_server: ByteStream,
    to_client: ByteStream,
    is_end_delivered: bool,
    /// The fault of the end that cannot read what the other one has written.
    fault: Option<ConnectionFault>,
}

/// A part of a response that a server has written.
#[derive(Debug)]
pub(super) enum Written {
    Head { status: u16, fields: Vec<(String, Vec<u8>)> },
    Body(Bytes),
    End,
}

impl Http1 {
    /// Begins a request on a connection.
    pub(super) fn new(now: Instant, request: &Request, is_tight: bool) -> Self {
        let Request { method, target, fields, body, .. } = request;
        let (limits, of_client, capacity) = match is_tight {
            true => (HttpLimits::small(), PoolLimits::small().h1, 2_048),
            false => (HttpLimits::default(), PoolLimits::default().h1, usize::MAX),
        };
        let mut patient = of_client.clone();
        (patient.head_timeout, patient.body_idle_timeout, patient.body_timeout) = (FOREVER, FOREVER, FOREVER);
        let mut lines = Fields::new();
        for (name, value) in fields {
            lines.push(name, value);
        }
        let size = if *method == "POST" { BodySize::Exact(body.len() as u64) } else { BodySize::None };
        let [client, mut observer] = [of_client, patient].map(|limits| {
            let mut end = client::Connection::new(now, limits);
            let begun = end.request(now, method, target, "sim.example", &lines, size);
            begun.and_then(|()| end.write_body(body)).and_then(|()| end.end(now)).expect("a sound request");
            end
        });
        while !observer.transmit().is_empty() {
            observer.consume(observer.transmit().len());
        }
        let link = || ByteStream::new(Chunker::Whole, Duration::ZERO, capacity);
        let server = Connection::new(now, limits);
        Self {
            client,
            server,
            observer,
            to_server: link(),
            to_client: link(),
            is_end_delivered: false,
            fault: None,
        }
    }

    /// Brings more of the request to the server; returns whether something moved.
    pub(super) fn move_request(
        &mut self,
        now: Instant,
        server: &mut Server,
        (limit, delay): (usize, Duration),
        reads: bool,
    ) -> bool {
        let mut remaining = limit;
        loop {
            let bytes = self.client.transmit();
            let n = self.to_server.write(now + delay, &bytes[..bytes.len().min(remaining)]);
            if n == 0 {
                break;
            }
            self.client.consume(n);
            remaining -= n;
        }
        let mut moved = remaining < limit;
        if reads && self.server.wants_input() {
            if let Some(piece) = self.to_server.read(now) {
                self.server.handle_input(now, &piece);
                moved = true;
            }
        }
        self.server.drive(now, server);
        if let Some(fault) = self.server.take_fault() {
            self.record_fault(fault);
        }
        moved
    }

    /// Returns whether the server has the whole request.
    pub(super) fn is_received(&self) -> bool {
        self.client.transmit().is_empty() && self.to_server.next_arrival().is_none()
    }

    /// Takes more of the response from the server; returns whether something moved.
    pub(super) fn move_response(
        &mut self,
        now: Instant,
        server: &mut Server,
        (limit, delay): (usize, Duration),
        written: &mut Vec<Written>,
    ) -> bool {
        let mut remaining = limit;
        loop {
            let bytes = self.server.transmit();
            let n = self.to_client.write(now + delay, &bytes[..bytes.len().min(remaining)]);
            if n == 0 {
                break;
            }
            self.observer.handle_input(now, &bytes[..n]);
            self.server.consume(n);
            self.server.drive(now, server);
            remaining -= n;
            self.observe(now, written);
        }
        let is_over = self.server.transmit().is_empty()
            && (self.server.wants_close() || self.server.wants_write_shutdown());
        let closes = is_over && !self.to_client.is_closed();
        if closes {
            match self.server.wants_reset() {
                true => self.to_client.discard(),
                false => self.to_client.close(),
            }
        }
        remaining < limit || closes
    }

    fn observe(&mut self, now: Instant, written: &mut Vec<Written>) {
        while let Some(event) = self.observer.poll_event(now, |head| (head.status, line_pairs(head.fields))) {
            written.push(match event {
                client::Event::Head((status, fields)) => Written::Head { status, fields },
                client::Event::Body(bytes) => Written::Body(bytes),
                client::Event::End => Written::End,
                client::Event::Closed => return,
                client::Event::Fault(fault) => return self.record_fault(fault),
            });
        }
    }

    fn record_fault(&mut self, fault: ConnectionFault) {
        // Sides stall, and servers close the connections of those.
        if !matches!(fault.reason(), Reason::HeadTimeout | Reason::BodyTimeout | Reason::Truncated) {
            self.fault.get_or_insert(fault);
        }
    }

    /// Returns what one end has written and the other one cannot read, once.
    pub(super) const fn take_fault(&mut self) -> Option<ConnectionFault> {
        self.fault.take()
    }

    /// Brings more of the response to its client.
    pub(super) fn deliver(
        &mut self,
        now: Instant,
        client: &mut http_client::Client,
        id: http_client::ExchangeId,
    ) -> Delivery {
        let mut moved = false;
        if self.client.wants_input() {
            if let Some(piece) = self.to_client.read(now) {
                self.client.handle_input(now, &piece);
                moved = true;
            } else if self.to_client.is_finished() && !core::mem::replace(&mut self.is_end_delivered, true) {
                self.client.handle_eof(now);
                moved = true;
            }
        }
        let mut arrived = Vec::new();
        while client.wants_body(id) {
            match self.client.poll_event(now, |head| client.handle_head(now, id, &head)) {
                Some(client::Event::Head(())) => {}
                Some(client::Event::Body(piece)) => {
                    client.handle_body(now, id, &piece);
                    arrived.extend_from_slice(&piece);
                }
                Some(client::Event::End) => {
                    client.handle_end(now, id);
                    return Delivery::End;
                }
                Some(client::Event::Closed) => return Delivery::Failed("connection closed".to_owned()),
                Some(client::Event::Fault(fault)) => {
                    self.record_fault(fault);
                    return Delivery::Failed(fault.to_string());
                }
                None => break,
            }
            moved = true;
        }
        if moved { Delivery::Some(arrived) } else { Delivery::Nothing }
    }

    /// Ends the connection at the server, because its client is gone.
    pub(super) fn abandon(&mut self, now: Instant, server: &mut Server) {
        self.server.abandon(now, server);
    }

    pub(super) fn handle_timeout(&mut self, now: Instant, server: &mut Server) {
        self.server.handle_timeout(now);
        self.server.drive(now, server);
    }

    /// Returns the next deadline of the server.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.server.poll_timeout()
    }

    /// Returns when more arrives at one of its ends.
    pub(super) fn next_arrival(&self) -> Option<Instant> {
        [self.to_server.next_arrival(), self.to_client.next_arrival()].into_iter().flatten().min()
    }
}
