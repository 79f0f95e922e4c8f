//! How connections are made: names looked up, addresses tried in turn, TLS agreed on

use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::{String, ToString as _};
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::io::{self, ErrorKind};
use std::net::ToSocketAddrs;
use std::sync::mpsc;
use std::thread;

use mcp_proto::Instant;
use mcp_proto::http::client::{ConnectionId, Origin};

use super::{Exchanges, Wired};
use crate::client::wire::Wire as _;
use crate::{Interest, Socket, Transport};

/// A name whose addresses are being looked up
#[derive(Debug)]
pub(super) struct Lookup {
    pub(super) id: ConnectionId,
    pub(super) origin: Origin,
    pub(super) found: mpsc::Receiver<io::Result<VecDeque<SocketAddr>>>,
    pub(super) gives_up: Instant,
}

#[derive(Debug)]
pub(super) struct Connecting {
    pub(super) origin: Origin,
    /// Other addresses of the same name
    pub(super) rest: VecDeque<SocketAddr>,
    /// How long each but the last may take
    pub(super) patience: Duration,
    /// When the next one is tried
    pub(super) gives_up: Option<Instant>,
    /// Which one it is, and what came of it
    pub(super) why: String,
    /// The address has answered: TLS is being agreed on
    pub(super) reached: bool,
}

impl Wired {
    /// Whether another address is to be tried
    pub(super) fn is_late(&self, now: Instant) -> bool {
        self.connecting.as_ref().and_then(|connecting| connecting.gives_up).is_some_and(|at| at <= now)
    }
}

impl Exchanges {
    /// The addresses of an origin, if they are known at once; otherwise they are looked up by a thread, as the system
    /// cannot be told to hurry
    pub(super) fn look_up(
        &mut self,
        id: ConnectionId,
        origin: &Origin,
    ) -> Result<Option<VecDeque<SocketAddr>>, String> {
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
    pub(super) fn connect_any(
        &mut self,
        id: ConnectionId,
        origin: Origin,
        addresses: VecDeque<SocketAddr>,
    ) -> bool {
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

    pub(super) fn refused(&mut self, id: ConnectionId, why: &str) {
        self.connections.handle_connect_failed(self.now, id, &mut self.client, why);
    }

    /// Finds out what came of connecting
    pub(super) fn connected(&mut self, at: usize, writable: bool) {
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

/// How long one address of several may take to answer; less where there are so many that time would run out
const PER_ADDRESS: Duration = Duration::from_secs(2);
/// Addresses of one name that are tried
const MAX_ADDRESSES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use mcp_proto::client::Config;

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
