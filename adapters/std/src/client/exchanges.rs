//! A client over HTTP: its exchanges on sockets of its own

mod connecting;

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::task::Waker;
use core::time::Duration;
use std::io::{self, ErrorKind};
use std::sync::mpsc;

#[cfg(unix)]
use crate::Descriptors;
use crate::child::Patience;
#[cfg(feature = "tls")]
use crate::tls::ClientTls;
use crate::{Clock, Duplex, Interest, Outlook, Ready, Selector, Transport};
use mcp_proto::Instant;
use mcp_proto::client::{Config, Engine, Event};
use mcp_proto::http::HeadRecord;
use mcp_proto::http::client::{
    Challenge, Client, Config as Http, ConnectionId, ConnectionLimits, Connections, Credential, ExchangeId,
};

use self::connecting::{Connecting, Lookup};
use super::wire::{Obituary, Parting, Wire};

/// The exchanges of one client, the connections that they go over, and the sockets under those
#[derive(Debug)]
pub struct Exchanges {
    client: Client,
    connections: Connections,
    /// Heads of requests and responses are kept
    heads: bool,
    sockets: Vec<Wired>,
    lookups: Vec<Lookup>,
    /// An event that came up while something was sent
    event: Option<Event>,
    /// Nobody asks for events now
    held: bool,
    url: String,
    selector: Selector,
    /// What the last wait found, for the sake of its memory
    found: Vec<(u64, Ready)>,
    last_token: u64,
    clock: Clock,
    now: Instant,
    scratch: Box<[u8]>,
    /// How long a connection may take to be made
    connect_timeout: Duration,
    /// Whom TLS trusts
    #[cfg(feature = "tls")]
    tls: ClientTls,
    /// Why nothing can be waited for
    error: Option<io::Error>,
}

/// A connection and its socket
#[derive(Debug)]
struct Wired {
    id: ConnectionId,
    transport: Transport,
    /// By which the selector knows the socket; none is given twice
    token: u64,
    /// What the selector waits for
    interest: Interest,
    /// Where to connect if this address does not answer; none once the connection is there, TLS included
    connecting: Option<Connecting>,
}

impl Exchanges {
    /// `heads` says whether those of requests and responses are kept
    ///
    /// # Errors
    ///
    /// When the system has no way to wait for many sockets, or none left.
    pub fn new(config: Config, http: Http, heads: bool) -> io::Result<Self> {
        let selector = Selector::new()?;
        let clock = Clock::start();
        let now = clock.now();
        let limits = ConnectionLimits::default();
        let connect_timeout = limits.connect_timeout;
        let mut connections = Connections::new(limits);
        if heads {
            connections.tap_heads();
        }
        let url = format!("{:?}", http.endpoint());
        Ok(Self {
            client: Client::new(Arc::new(config), Arc::new(http), now),
            connections,
            heads,
            sockets: Vec::new(),
            lookups: Vec::new(),
            event: None,
            held: false,
            url,
            selector,
            found: Vec::new(),
            last_token: 0,
            clock,
            now,
            scratch: vec![0; SCRATCH].into(),
            connect_timeout,
            #[cfg(feature = "tls")]
            tls: ClientTls::new(),
            error: None,
        })
    }

    /// Says whom TLS trusts: the system's roots, otherwise
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self, tls: ClientTls) -> Self {
        self.tls = tls;
        self
    }

    /// Makes and closes the connections that are asked for; whether one could not even be begun
    fn arrange(&mut self) -> bool {
        let mut failed = false;
        while let Some(id) = self.connections.poll_close() {
            self.lookups.retain(|lookup| lookup.id != id);
            if let Some(at) = self.sockets.iter().position(|wired| wired.id == id) {
                self.unwire(at).transport.close();
            }
        }
        while let Some((id, origin)) = self.connections.poll_connect() {
            match self.look_up(id, &origin) {
                Ok(None) => {}
                Ok(Some(addresses)) => failed |= !self.connect_any(id, origin, addresses),
                Err(why) => {
                    self.refused(id, &why);
                    failed = true;
                }
            }
        }
        let mut at = 0;
        while let Some(lookup) = self.lookups.get(at) {
            let outcome = match lookup.found.try_recv() {
                Ok(outcome) => outcome,
                Err(mpsc::TryRecvError::Empty) if self.now < lookup.gives_up => {
                    at += 1;
                    continue;
                }
                // What the system finds too late is found for nobody.
                Err(_) => Err(ErrorKind::TimedOut.into()),
            };
            let Lookup { id, origin, .. } = self.lookups.swap_remove(at);
            match outcome {
                Ok(addresses) => failed |= !self.connect_any(id, origin, addresses),
                Err(error) => {
                    self.refused(id, &format!("no address of {}: {error}", origin.host));
                    failed = true;
                }
            }
        }
        failed
    }

    /// Tells the selector what to wait for
    fn select(&mut self) -> io::Result<()> {
        for wired in &mut self.sockets {
            let interest = match &wired.connecting {
                Some(connecting) if !connecting.reached => Interest::WRITE,
                Some(_) => wired.transport.interest(Interest::WRITE),
                None => wired.transport.interest(Interest {
                    read: self.connections.wants_input(wired.id),
                    write: !self.connections.transmit(wired.id).is_empty(),
                }),
            };
            if interest != wired.interest {
                self.selector.modify(wired.transport.socket(), wired.token, interest)?;
                wired.interest = interest;
            }
        }
        Ok(())
    }

    /// Takes a socket out of the list and the selector
    fn unwire(&mut self, at: usize) -> Wired {
        let wired = self.sockets.swap_remove(at);
        // Closing it would do, unless a child of ours holds it between its fork and its exec.
        let _ = self.selector.remove(wired.transport.socket(), wired.token);
        wired
    }

    /// Whether reading need not be waited for
    fn is_pending(&self, at: usize) -> bool {
        let pending = |wired: &Wired| wired.connecting.is_none() && wired.transport.is_pending();
        self.sockets.get(at).is_some_and(|wired| pending(wired) && self.connections.wants_input(wired.id))
    }

    /// Whether a request is about to be written to what has carried another one
    fn is_doubtful(&self, at: usize) -> bool {
        self.sockets.get(at).is_some_and(|wired| self.connections.is_doubtful(wired.id))
    }

    /// Reads once; whether anything came of it, be it the end
    fn read(&mut self, at: usize) -> bool {
        let Some(wired) = self.sockets.get_mut(at) else { return false };
        match wired.transport.read(&mut self.scratch) {
            Ok(0) => self.connections.handle_eof(self.now, wired.id),
            Ok(n) => {
                let bytes = self.scratch.get(..n).unwrap_or_default();
                self.connections.handle_input(self.now, wired.id, bytes);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
            Err(error) => self.connections.handle_broken(self.now, wired.id, &error.to_string()),
        }
        true
    }

    /// Writes as far as it goes now: whether anything went, and whether a kept connection proved to be closed
    fn send(&mut self) -> (bool, bool) {
        let (mut moved, mut closed) = (false, false);
        for at in 0..self.sockets.len() {
            // Nobody has looked at what was kept between two calls: the server may have closed it long ago.
            if self.is_doubtful(at) && self.read(at) {
                closed = true;
                continue;
            }
            let Some(wired) = self.sockets.get_mut(at) else { break };
            // Where that fails, reading says why.
            let _ = wired.transport.flush_some();
            while wired.connecting.is_none() && !self.connections.transmit(wired.id).is_empty() {
                match wired.transport.write(self.connections.transmit(wired.id)) {
                    Ok(0) => break,
                    Ok(n) => {
                        self.connections.consume(wired.id, n);
                        moved = true;
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    // What the server said before it left is still there to be read.
                    Err(_) => self.connections.handle_write_failed(wired.id),
                }
            }
        }
        (moved, closed)
    }
}

impl Wire for Exchanges {
    fn engine(&mut self) -> &mut Engine {
        self.client.engine()
    }

    fn now(&self) -> Instant {
        self.now
    }

    fn tick(&mut self) -> Instant {
        self.now = self.clock.now();
        self.now
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.event.take().or_else(|| self.connections.poll_event(self.now, &mut self.client))
    }

    fn hold(&mut self, hold: bool) {
        self.held = hold;
    }

    fn write(&mut self) -> bool {
        let mut any = false;
        loop {
            // Exchanges get their connections here; an event on the way is kept for who asks for events.
            if self.event.is_none() && !self.held {
                self.event = self.connections.poll_event(self.now, &mut self.client);
            }
            let failed = self.arrange();
            let (moved, closed) = self.send();
            any |= moved;
            // What failed at once may be an event, and nothing would end the wait for it.
            if self.event.is_some() || self.held || !(failed || closed) {
                return any;
            }
        }
    }

    fn wait(&mut self, until: Option<Instant>) {
        if self.event.is_some() && !self.held {
            self.tick();
            return;
        }
        let timeout = until.into_iter().chain(self.due()).min().map(|at| self.clock.until(at));
        let mut found = core::mem::take(&mut self.found);
        let waited = self.select().and_then(|()| self.selector.wait(timeout, &mut found));
        if let Err(error) = waited {
            self.error.get_or_insert(error);
            // Or it would be tried again and again.
            self.client.close(self.now);
        }
        self.now = self.clock.now();
        for (token, ready) in found.drain(..) {
            // A socket that moved on to another address stands elsewhere by now.
            let Some(at) = self.sockets.iter().position(|wired| wired.token == token) else { continue };
            let Some(wired) = self.sockets.get(at) else { continue };
            if wired.connecting.is_some() {
                self.connected(at, ready.writable);
            } else if ready.readable && self.connections.wants_input(wired.id) {
                let _ = self.read(at);
            } else if ready.readable {
                // Nobody asked: both directions are over, and what came before is not read any more.
                self.connections.handle_broken(self.now, wired.id, "the connection broke");
            }
        }
        self.found = found;
        for at in 0..self.sockets.len() {
            if self.is_pending(at) {
                let _ = self.read(at);
            }
        }
        while let Some(at) = self.sockets.iter().position(|wired| wired.is_late(self.now)) {
            self.connected(at, false);
        }
        if self.client.poll_timeout().is_some_and(|at| at <= self.now) {
            self.client.handle_timeout(self.now);
        }
        if self.connections.poll_timeout().is_some_and(|at| at <= self.now) {
            self.connections.handle_timeout(self.now);
        }
    }

    fn waker(&mut self) -> io::Result<Waker> {
        self.selector.waker()
    }

    fn outlook(&mut self) -> Outlook<'_> {
        if self.event.is_some() || self.select().is_err() {
            // What is wrong is found by a wait.
            return Outlook::blind(Some(Duration::ZERO));
        }
        let timeout = self.due().map(|at| self.clock.until(at));
        #[cfg(target_os = "linux")]
        return Outlook::of(std::os::fd::AsFd::as_fd(&self.selector), timeout);
        #[cfg(not(target_os = "linux"))]
        Outlook::blind(timeout)
    }

    fn is_tapped(&mut self) -> bool {
        self.heads || self.engine().config().get_limits().tap_records > 0
    }

    fn poll_head(&mut self) -> Option<HeadRecord> {
        self.connections.poll_head()
    }

    fn poll_challenge(&mut self) -> Option<Challenge> {
        self.client.poll_challenge()
    }

    fn authorize(&mut self, exchange: ExchangeId, credential: Option<Credential>) {
        // A person may have taken a while. Stale: the exchange is not waited for any more.
        let now = self.tick();
        let _ = match credential {
            Some(credential) => self.client.authorize(now, exchange, credential),
            None => self.client.refuse(now, exchange),
        };
    }

    fn due(&mut self) -> Option<Instant> {
        if self.event.is_some() && !self.held {
            return Some(self.now);
        }
        let found = self.lookups.iter().map(|lookup| lookup.gives_up).min();
        let next = self.sockets.iter().filter_map(|wired| wired.connecting.as_ref()?.gives_up).min();
        let at_once = (0..self.sockets.len()).any(|at| self.is_pending(at)).then_some(self.now);
        let all = [next, found, at_once, self.client.poll_timeout(), self.connections.poll_timeout()];
        all.into_iter().flatten().min()
    }

    /// What sockets are waited for with, the selector knows
    fn interest(&mut self) -> Interest {
        if let Err(error) = self.select() {
            self.error.get_or_insert(error);
            self.client.close(self.now);
        }
        Interest::READ
    }

    #[cfg(target_os = "linux")]
    fn descriptors(&mut self) -> Descriptors<'_> {
        let read = Some(std::os::fd::AsFd::as_fd(&self.selector));
        Descriptors { read, ..Descriptors::default() }
    }

    #[cfg(all(unix, not(target_os = "linux")))]
    fn descriptors(&mut self) -> Descriptors<'_> {
        Descriptors::default()
    }

    fn close(&mut self) {
        self.client.close(self.now);
    }

    fn wait_closing(&mut self, until: Instant) {
        self.wait(Some(until));
    }

    fn is_drained(&self) -> bool {
        self.client.is_drained()
    }

    fn take_error(&mut self) -> Option<io::Error> {
        self.error.take()
    }

    fn obituary(&mut self, _: Duration) -> Obituary {
        Obituary { url: Some(self.url.clone()), ..Obituary::default() }
    }

    fn part(&mut self, _: Patience, _: Instant) -> Parting {
        self.lookups.clear();
        while !self.sockets.is_empty() {
            self.unwire(0).transport.close();
        }
        Parting::Nothing
    }
}

/// Bytes of one read
const SCRATCH: usize = 64 << 10;
