//! A client over HTTP: its exchanges on sockets of its own

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use core::task::Waker;
use core::time::Duration;
use std::io::{self, ErrorKind};
use std::net::ToSocketAddrs;
use std::sync::mpsc;
use std::thread;

#[cfg(unix)]
use crate::Descriptors;
use crate::child::Patience;
#[cfg(feature = "tls")]
use crate::tls::ClientTls;
use crate::{Clock, Duplex, Interest, Outlook, Ready, Selector, Socket, Transport};
use mcp_proto::Instant;
use mcp_proto::client::{Config, Engine, Event};
use mcp_proto::http::HeadRecord;
use mcp_proto::http::client::{
    Challenge, Client, Config as Http, ConnectionId, ConnectionLimits, Connections, Credential, ExchangeId,
    Origin,
};

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

/// A name whose addresses are being looked up
#[derive(Debug)]
struct Lookup {
    id: ConnectionId,
    origin: Origin,
    found: mpsc::Receiver<io::Result<VecDeque<SocketAddr>>>,
    gives_up: Instant,
}

#[derive(Debug)]
struct Connecting {
    origin: Origin,
    /// Other addresses of the same name
    rest: VecDeque<SocketAddr>,
    /// How long each but the last may take
    patience: Duration,
    /// When the next one is tried
    gives_up: Option<Instant>,
    /// Which one it is, and what came of it
    why: String,
    /// The address has answered: TLS is being agreed on
    reached: bool,
}

impl Wired {
    /// Whether another address is to be tried
    fn is_late(&self, now: Instant) -> bool {
        self.connecting.as_ref().and_then(|connecting| connecting.gives_up).is_some_and(|at| at <= now)
    }
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

    /// The addresses of an origin, if they are known at once; otherwise they are looked up by a thread, as the system
    /// cannot be told to hurry
    fn look_up(&mut self, id: ConnectionId, origin: &Origin) -> Result<Option<VecDeque<SocketAddr>>, String> {
        if origin.secure && cfg!(not(feature = "tls")) {
            return Err("there is no TLS here".into());
        }
        let (host, port) = (origin.host.clone(), origin.port);
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok(Some(VecDeque::from([SocketAddr::new(address, port)])));
        }
        let gives_up = self.tick() + self.connect_timeout;
        let (found, addresses) = mpsc::channel();
        let begun = self.selector.waker().and_then(|waker| {
            thread::Builder::new().name("mcp-lookup".into()).spawn(move || {
                let _ = found.send((&*host, port).to_socket_addrs().map(in_turn));
                waker.wake();
            })
        });
        begun.map_err(|error| format!("no address of {}: {error}", origin.host))?;
        self.lookups.push(Lookup { id, origin: origin.clone(), found: addresses, gives_up });
        Ok(None)
    }

    /// Begins to connect to one of the addresses of a name; false when there is none
    fn connect_any(&mut self, id: ConnectionId, origin: Origin, addresses: VecDeque<SocketAddr>) -> bool {
        self.tick();
        let tries = u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
        let patience = PER_ADDRESS.min(self.connect_timeout / tries);
        let none = format!("{} has no address", origin.host);
        let (rest, gives_up, reached) = (addresses, None, false);
        self.connect(id, Connecting { origin, rest, patience, gives_up, why: none, reached })
    }

    /// Begins to connect to the first address that does not refuse at once; false when there is none
    fn connect(&mut self, id: ConnectionId, mut connecting: Connecting) -> bool {
        while let Some(address) = connecting.rest.pop_front() {
            match Socket::connect(address).and_then(|socket| {
                let transport = self.wrap(socket, &connecting.origin)?;
                self.selector.add(transport.socket(), self.last_token + 1, Interest::WRITE)?;
                Ok(transport)
            }) {
                Ok(transport) => {
                    self.last_token += 1;
                    let more = !connecting.rest.is_empty();
                    connecting.gives_up = more.then(|| self.now + connecting.patience);
                    // For when it does not work out.
                    connecting.why = format!("{address}");
                    let (token, interest) = (self.last_token, Interest::WRITE);
                    self.sockets.push(Wired { id, transport, token, interest, connecting: Some(connecting) });
                    return true;
                }
                Err(error) => connecting.why = format!("{address}: {error}"),
            }
        }
        self.refused(id, &connecting.why);
        false
    }

    /// A socket, under TLS where that is to be
    fn wrap(&self, socket: Socket, origin: &Origin) -> io::Result<Transport> {
        #[cfg(feature = "tls")]
        if origin.secure {
            return self.tls.connect(socket, &origin.host);
        }
        let _ = origin;
        Ok(socket.into())
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

    fn refused(&mut self, id: ConnectionId, why: &str) {
        self.connections.handle_connect_failed(self.now, id, &mut self.client, why);
    }

    /// Finds out what came of connecting
    fn connected(&mut self, at: usize, writable: bool) {
        let Some(wired) = self.sockets.get_mut(at) else { return };
        let late = wired.is_late(self.now);
        let Some(connecting) = &mut wired.connecting else { return };
        if !connecting.reached {
            let outcome = match writable {
                true => wired.transport.socket().connected(),
                false if late => Err(ErrorKind::TimedOut.into()),
                false => return,
            };
            if let Err(error) = outcome {
                let Wired { id, connecting, .. } = self.unwire(at);
                let Some(mut connecting) = connecting else { return };
                connecting.why = format!("{}: {error}", connecting.why);
                let _ = self.connect(id, connecting);
                return;
            }
            (connecting.reached, connecting.gives_up) = (true, None);
        }
        match wired.transport.handshake() {
            Ok(true) => {
                wired.connecting = None;
                self.connections.handle_connected(self.now, wired.id);
            }
            Ok(false) => {}
            // Other addresses of the same name would show no better certificate.
            Err(error) => {
                let wired = self.unwire(at);
                self.refused(wired.id, &error.to_string());
            }
        }
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

/// One family of addresses after the other, beginning with the one that the system prefers: where one of them leads
/// nowhere, the second try does not go there again (RFC 8305, 4)
fn in_turn(addresses: impl Iterator<Item = SocketAddr>) -> VecDeque<SocketAddr> {
    let mut addresses = addresses.peekable();
    let six = addresses.peek().is_some_and(SocketAddr::is_ipv6);
    let (mut own, mut other): (VecDeque<_>, VecDeque<_>) = addresses.partition(|a| a.is_ipv6() == six);
    let mut all = VecDeque::new();
    while all.len() < MAX_ADDRESSES && !(own.is_empty() && other.is_empty()) {
        all.extend(own.pop_front());
        all.extend(other.pop_front());
    }
    all
}

/// Bytes of one read
const SCRATCH: usize = 64 << 10;
/// How long one address of several may take to answer; less where there are so many that time would run out
const PER_ADDRESS: Duration = Duration::from_secs(2);
/// Addresses of one name that are tried
const MAX_ADDRESSES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{Opened, Options};

    #[test]
    fn both_families_of_addresses_get_their_turn() {
        let of = |text: &[&str]| -> Vec<SocketAddr> { text.iter().map(|a| a.parse().unwrap()).collect() };
        let sorted = |text: &[&str]| Vec::from(in_turn(of(text).into_iter()));
        let six = ["[::1]:1", "[::2]:1", "[::3]:1"];
        assert_eq!(sorted(&six), of(&six));
        assert_eq!(
            sorted(&[&six[..], &["1.1.1.1:1", "1.1.1.2:1"]].concat()),
            of(&["[::1]:1", "1.1.1.1:1", "[::2]:1", "1.1.1.2:1", "[::3]:1"])
        );
        assert_eq!(sorted(&["1.1.1.1:1", "[::1]:1"]), of(&["1.1.1.1:1", "[::1]:1"]));
        assert_eq!(sorted(&["1.1.1.1:1"; 100]).len(), MAX_ADDRESSES);
        assert!(sorted(&[]).is_empty());
    }

    #[test]
    fn a_name_without_an_address_is_named() {
        // No resolver asks anybody for this.
        let options = Options::<Opened>::new(Config::new("lost", "1.0"));
        let error = options.connect_url("http://a..b/mcp").unwrap_err().to_string();
        assert!(error.contains("no address of a..b: "), "{error}");
    }
}
