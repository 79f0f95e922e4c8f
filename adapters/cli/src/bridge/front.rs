//! The side that faces clients: a byte stream, or connections over HTTP

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::time::Duration;

use mcp_proto::http::server as http;
use mcp_proto::pipe::{self, Pipe};
use mcp_proto::seal::Keys;
use mcp_proto::server::{Config, Engine, Event};
use mcp_proto::{Entropy, Fault, Instant, RawJson};
use mcp_std::drive::Drive;
use mcp_std::serve::Peers;
use mcp_std::{Duplex, Listener, Outlook, entropy};

use crate::failure::Failure;

/// Who faces the clients
pub(super) trait Front {
    fn engine(&mut self) -> &mut Engine;

    /// The time as of the last look at the clock
    fn now(&self) -> Instant;

    /// The next event; what was read is decoded here
    fn poll_event(&mut self) -> Option<Event>;

    /// Writes what there is as far as it goes now; whether anything went
    fn write(&mut self) -> bool;

    /// Reads what is there, without waiting, and lets deadlines pass
    fn look(&mut self, reads: bool);

    /// What is to be waited for
    fn outlook(&mut self, reads: bool) -> Outlook<'_>;

    /// Whether clients leave so much unread that nothing more is to be written
    fn is_congested(&mut self) -> bool;

    /// Ends when calls in work are answered, or after `grace`
    fn shutdown(&mut self, grace: Duration);

    /// Whether everything is over and written
    fn is_over(&self) -> bool;

    /// What broke it, if it was not the client who left
    fn take_error(&mut self) -> Option<std::io::Error>;

    /// Which arguments of a tool clients repeat in header fields
    fn tool(&mut self, name: &str, schema: &RawJson);

    /// Bytes that were not taken when they could have been
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// One client on a byte stream
pub(super) struct OnStream<D> {
    pipe: pipe::Server,
    drive: Drive,
    stream: D,
    gives_up: Option<Instant>,
}

impl<D: Duplex> OnStream<D> {
    /// `bytes` were read before
    pub(super) fn new(config: Config, stream: D, bytes: &[u8]) -> Self {
        let mut drive = Drive::new();
        let now = drive.tick();
        let config = config.seal_by_default(|| Some((Keys::new(entropy::seed().ok()?), drive.anchor())));
        let mut pipe = pipe::Server::new(Arc::new(config), now);
        pipe.handle_input(now, bytes);
        Self { pipe, drive, stream, gives_up: None }
    }
}

impl<D: Duplex> Front for OnStream<D> {
    fn engine(&mut self) -> &mut Engine {
        self.pipe.engine()
    }

    fn now(&self) -> Instant {
        self.drive.now()
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.pipe.poll_event(self.drive.now())
    }

    fn write(&mut self) -> bool {
        let moved = self.drive.write(&mut self.pipe, &mut self.stream);
        if self.drive.is_cut_off() && !self.pipe.is_drained() {
            // Whom should anybody work for?
            self.pipe.abort(self.drive.now(), &Fault::Eof);
        }
        moved
    }

    fn look(&mut self, reads: bool) {
        let now = self.drive.tick();
        self.drive.wait(&mut self.pipe, &mut self.stream, reads, Some(now));
        // Who is not read from could leave unnoticed.
        let gone = self.stream.hung_up().is_ok_and(|hung_up| hung_up.output);
        let late = self.gives_up.is_some_and(|at| at <= self.drive.now());
        if late {
            // Those whose calls are given up are told so, as far as it goes now.
            self.write();
        }
        if (gone || late) && !self.pipe.is_drained() {
            self.pipe.abort(self.drive.now(), &Fault::Eof);
        }
    }

    fn outlook(&mut self, reads: bool) -> Outlook<'_> {
        self.drive.outlook(&mut self.pipe, &self.stream, reads)
    }

    fn is_congested(&mut self) -> bool {
        let mark = self.pipe.engine().config().get_limits().outbox_mark;
        let channel = self.pipe.channel();
        self.pipe.engine().outbox(channel).is_some_and(|outbox| outbox.len() >= mark)
    }

    fn shutdown(&mut self, grace: Duration) {
        let now = self.drive.tick();
        self.pipe.shutdown(now, grace);
        self.gives_up = Some(now + grace);
    }

    fn is_over(&self) -> bool {
        self.pipe.is_drained()
    }

    fn take_error(&mut self) -> Option<std::io::Error> {
        self.drive.take_error()
    }

    fn tool(&mut self, _: &str, _: &RawJson) {}

    fn flush(&mut self) -> std::io::Result<()> {
        self.stream.flush(self.pipe.engine().config().get_limits().eof_grace)
    }
}

/// Any number of clients over HTTP
pub(super) struct OnHttp {
    server: http::Server,
    peers: Peers,
    events: VecDeque<Event>,
    error: Option<std::io::Error>,
    gives_up: Option<Instant>,
}

impl OnHttp {
    pub(super) fn new(config: Config, http: http::Config, listener: Listener) -> Result<Self, Failure> {
        let failed = |error: std::io::Error| Failure::failed(format!("HTTP cannot be served: {error}"));
        let peers = Peers::new(listener).map_err(failed)?;
        let anchor = peers.anchor();
        let keys = Keys::new(entropy::seed().map_err(failed)?);
        let config = config.seal_by_default(|| Some((keys, anchor)));
        let entropy = Entropy::new(entropy::seed().map_err(failed)?, entropy::nonce());
        let server = http::Server::new(Arc::new(config), Arc::new(http), entropy);
        Ok(Self { server, peers, events: VecDeque::new(), error: None, gives_up: None })
    }

    /// Has all clients speak TLS
    #[cfg(feature = "tls")]
    pub(super) fn set_tls(&mut self, tls: Option<mcp_std::tls::ServerTls>) {
        self.peers.tls = tls;
    }

    fn gather(&mut self) {
        let now = self.peers.now();
        while let Some(event) = self.server.poll_event(now) {
            if let http::Event::Server(event) = event {
                self.events.push_back(event);
            }
        }
    }
}

impl Front for OnHttp {
    fn engine(&mut self) -> &mut Engine {
        self.server.engine()
    }

    fn now(&self) -> Instant {
        self.peers.now()
    }

    fn poll_event(&mut self) -> Option<Event> {
        if self.events.is_empty() {
            self.gather();
        }
        self.events.pop_front()
    }

    fn write(&mut self) -> bool {
        self.peers.write(&mut self.server)
    }

    fn look(&mut self, reads: bool) {
        let now = self.peers.tick();
        if let Err(error) = self.peers.wait(&mut self.server, reads, Some(now)) {
            self.error.get_or_insert(error);
        }
        while self.peers.next(&mut self.server, reads) {
            self.gather();
        }
        if self.gives_up.is_some_and(|at| at <= self.peers.now()) {
            self.peers.write(&mut self.server);
            self.peers.abandon(&mut self.server);
        }
    }

    fn outlook(&mut self, reads: bool) -> Outlook<'_> {
        let Self { peers, server, error, .. } = self;
        peers.outlook(server, reads).unwrap_or_else(|why| {
            error.get_or_insert(why);
            Outlook::blind(Some(Duration::ZERO))
        })
    }

    fn is_congested(&mut self) -> bool {
        // Each has an outbox of its own, and one who does not read holds up nobody else.
        false
    }

    fn shutdown(&mut self, grace: Duration) {
        let now = self.peers.tick();
        self.server.shutdown(now, grace);
        self.peers.close(&mut self.server);
        self.gives_up = Some(now + grace);
    }

    fn is_over(&self) -> bool {
        self.error.is_some() || self.peers.is_over()
    }

    fn take_error(&mut self) -> Option<std::io::Error> {
        self.error.take()
    }

    fn tool(&mut self, name: &str, schema: &RawJson) {
        // What cannot be used is not checked here; it is at the server.
        let _ = self.server.tool_schema(name, schema);
    }
}
