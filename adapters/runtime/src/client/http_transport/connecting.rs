//! Connecting: name lookup, attempts on several addresses, and the TLS handshake.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;
use std::io::{self, ErrorKind};
use std::net::ToSocketAddrs;
use std::sync::{Mutex, mpsc};

use mcp_proto::Instant;
use mcp_proto::client::{Config, KnownEra};
use mcp_proto::http::client::{ConnectionId, Origin};
use mcp_std::NetStream;
use mcp_std::io::{Socket, interleave_families, known_addresses};
use mcp_std::poll::Interest;
use mcp_std::sync::lock;

use super::{HttpSocket, HttpTransport};
use crate::client::transport::ClientTransport as _;

/// A pending name lookup.
#[derive(Debug)]
pub(super) struct AddressLookup {
    pub(super) id: ConnectionId,
    pub(super) origin: Origin,
    pub(super) addresses: mpsc::Receiver<io::Result<VecDeque<SocketAddr>>>,
    pub(super) deadline: Instant,
}

/// A pending attempt to connect to one of the addresses of an origin.
#[derive(Debug)]
pub(super) struct ConnectAttempt {
    pub(super) origin: Origin,
    /// Addresses that have not been tried.
    pub(super) remaining: VecDeque<SocketAddr>,
    /// Time for each address but the last.
    pub(super) address_timeout: Duration,
    /// Time at which the next address is tried.
    pub(super) deadline: Option<Instant>,
    /// The current address.
    pub(super) address: Option<SocketAddr>,
    /// The addresses that have failed, with their errors.
    pub(super) tried: String,
    /// Whether TCP is connected, so that only the TLS handshake is pending.
    pub(super) is_tcp_connected: bool,
}

impl ConnectAttempt {
    /// Notes that the current address has failed.
    fn note_failure(&mut self, error: &io::Error) {
        let Some(address) = self.address.take() else { return };
        if self.tried.len() < MAX_TRIED_TEXT {
            let separator = if self.tried.is_empty() { "" } else { "; " };
            self.tried = format!("{}{separator}{address}: {error}", self.tried);
        }
    }
}

impl HttpSocket {
    /// Returns whether the time for the current address has passed.
    pub(super) fn is_timed_out(&self, now: Instant) -> bool {
        self.connecting.as_ref().and_then(|connecting| connecting.deadline).is_some_and(|at| at <= now)
    }
}

impl HttpTransport {
    /// Returns the addresses of an origin if its host is an IP address or this machine by its name, so that a token
    /// over http stays here. Otherwise starts a lookup on another thread, because the system's resolver blocks.
    pub(super) fn look_up(
        &mut self,
        id: ConnectionId,
        origin: &Origin,
    ) -> Result<Option<VecDeque<SocketAddr>>, String> {
        if origin.secure && cfg!(not(feature = "tls")) {
            return Err("`https` needs the feature `tls`, which is not enabled".into());
        }
        let (host, port) = (origin.host.clone(), origin.port);
        if let Some(known) = known_addresses(&host, port) {
            return Ok(Some(known.into()));
        }
        let deadline = self.tick() + self.connect_timeout;
        let (sender, addresses) = mpsc::channel();
        let waker = self.selector.waker();
        let waker = waker.map_err(|error| format!("no address of {}: {error}", origin.host))?;
        (self.run_blocking)(Box::new(move || {
            // The lookup may have timed out, and its receiver is gone then.
            let _ = sender.send((&*host, port).to_socket_addrs().map(interleave_families));
            waker.wake();
        }));
        self.lookups.push(AddressLookup { id, origin: origin.clone(), addresses, deadline });
        Ok(None)
    }

    /// Starts to connect to one of the addresses of a name. Returns `false` if every attempt failed immediately.
    pub(super) fn connect_any(
        &mut self,
        id: ConnectionId,
        origin: Origin,
        found: Result<VecDeque<SocketAddr>, String>,
    ) -> bool {
        let remaining = match found {
            Ok(addresses) => addresses,
            Err(why) => {
                self.connect_failed(id, &why);
                return false;
            }
        };
        self.tick();
        let attempts = u32::try_from(remaining.len()).unwrap_or(u32::MAX).max(1);
        // All addresses together get no more time than one connection.
        let address_timeout = ADDRESS_TIMEOUT.min(self.connect_timeout / attempts);
        self.connect(
            id,
            ConnectAttempt {
                origin,
                remaining,
                address_timeout,
                deadline: None,
                address: None,
                tried: String::new(),
                is_tcp_connected: false,
            },
        )
    }

    /// Starts to connect to the first address that does not fail immediately. Returns `false` if there is none.
    fn connect(&mut self, id: ConnectionId, mut connecting: ConnectAttempt) -> bool {
        while let Some(address) = connecting.remaining.pop_front() {
            connecting.address = Some(address);
            match Socket::connect(address).and_then(|socket| {
                let transport = self.wrap(socket, &connecting.origin)?;
                self.selector.add(transport.socket(), self.last_token + 1, Interest::WRITE)?;
                Ok(transport)
            }) {
                Ok(transport) => {
                    self.last_token += 1;
                    let more = !connecting.remaining.is_empty();
                    // Nothing is tried after the last address, so it may take the time that is left.
                    connecting.deadline = more.then(|| self.now + connecting.address_timeout);
                    let (token, interest) = (self.last_token, Interest::WRITE);
                    self.sockets.push(HttpSocket {
                        id,
                        transport,
                        token,
                        interest,
                        connecting: Some(connecting),
                    });
                    return true;
                }
                Err(error) => connecting.note_failure(&error),
            }
        }
        if connecting.tried.is_empty() {
            connecting.tried = format!("{} has no address", connecting.origin.host);
        }
        self.connect_failed(id, &connecting.tried);
        false
    }

    /// Wraps a socket in TLS if the origin is secure.
    fn wrap(&self, socket: Socket, origin: &Origin) -> io::Result<NetStream> {
        #[cfg(feature = "tls")]
        if origin.secure {
            return NetStream::connect_tls(&self.tls, socket, &origin.host);
        }
        let _ = origin;
        Ok(socket.into())
    }

    pub(super) fn connect_failed(&mut self, id: ConnectionId, why: &str) {
        self.connections.handle_connect_failed(self.now, id, &mut self.client, why);
    }

    /// Checks the result of a connection attempt and continues with the next step.
    pub(super) fn advance_connect(&mut self, index: usize, writable: bool) {
        let Some(socket) = self.sockets.get_mut(index) else { return };
        let timed_out = socket.is_timed_out(self.now);
        let Some(connecting) = &mut socket.connecting else { return };
        if !connecting.is_tcp_connected {
            let outcome = match writable {
                true => socket.transport.socket().connect_result(),
                false if timed_out => Err(ErrorKind::TimedOut.into()),
                false => return,
            };
            if let Err(error) = outcome {
                let HttpSocket { id, connecting, .. } = self.remove_socket(index);
                let Some(mut connecting) = connecting else { return };
                connecting.note_failure(&error);
                // Without another address `connect` has reported the failure.
                let _ = self.connect(id, connecting);
                return;
            }
            (connecting.is_tcp_connected, connecting.deadline) = (true, None);
        }
        match socket.transport.handshake() {
            Ok(true) => {
                socket.connecting = None;
                self.connections.handle_connected(self.now, socket.id);
            }
            Ok(false) => {}
            // Other addresses of the same name have the same certificate.
            Err(error) => {
                let socket = self.remove_socket(index);
                self.connect_failed(socket.id, &error.to_string());
            }
        }
    }
}

/// Length from which the text about failed addresses does not grow: a name may have thousands.
const MAX_TRIED_TEXT: usize = 1_000;

/// Maximum time for one of several addresses. With many addresses it is shorter.
const ADDRESS_TIMEOUT: Duration = Duration::from_secs(2);

// The eras that clients over HTTP found, for all clients of this process.

/// URLs of servers whose era saves a client the probe, newest last. It finds the other era by itself if the server has
/// changed (VER-042).
static FOUND: Mutex<Vec<(String, KnownEra)>> = Mutex::new(Vec::new());

/// Most URLs that are remembered; one more replaces the oldest.
const MAX_URLS: usize = 256;

/// Returns the configuration of a client for the server at `url`, with its era if that is known and was not set.
pub(super) fn recall_era(url: &str, config: Config) -> Config {
    if !config.effective_versions().is_dual_era() || config.stored_era().is_some() {
        return config;
    }
    let found = lock(&FOUND);
    let era = found.iter().find(|(known, _)| known == url).map(|(_, era)| *era);
    config.known_era(era)
}

/// Records the era that a client found; `None` if the server has contradicted it.
pub(super) fn record_era(url: &str, config: &Config, era: Option<KnownEra>) {
    // A client of one era finds nothing out.
    if !config.effective_versions().is_dual_era() {
        return;
    }
    let mut found = lock(&FOUND);
    let Some(era) = era.filter(|era| era.saves_probe()) else {
        return found.retain(|(known, _)| known != url);
    };
    // A client that was told the era has not looked.
    if config.stored_era().is_none() {
        found.retain(|(known, _)| known != url);
        if found.len() == MAX_URLS {
            found.remove(0);
        }
        found.push((url.into(), era));
    }
}

#[cfg(test)]
mod eras_tests {
    use alloc::format;

    use mcp_proto::VersionSet;

    use super::*;

    // covers: VER-022, VER-042
    #[test]
    fn era_is_remembered_by_url_until_it_is_contradicted() {
        let config = || Config::new("test", "1");
        let known = |url: &str| recall_era(url, config()).stored_era();
        let url = "http://eras.test/mcp";
        assert_eq!(known(url), None);
        record_era(url, &config().versions(VersionSet::LEGACY), Some(KnownEra::Legacy));
        assert_eq!(known(url), None, "a legacy client has not looked");
        record_era(url, &config(), Some(KnownEra::Legacy));
        assert_eq!((known(url), known("http://eras.test/other")), (Some(KnownEra::Legacy), None));
        record_era("http://eras.test/told", &config().known_era(KnownEra::Legacy), Some(KnownEra::Legacy));
        assert_eq!(known("http://eras.test/told"), None, "a client that was told has not looked");
        let set = config().known_era(KnownEra::Modern);
        assert_eq!(recall_era(url, set).stored_era(), Some(KnownEra::Modern), "what was set counts");
        assert_eq!(recall_era(url, config().versions(VersionSet::MODERN)).stored_era(), None);
        record_era(url, &config(), None);
        assert_eq!(known(url), None);
        for n in 0..=MAX_URLS {
            record_era(&format!("http://eras.test/{n}"), &config(), Some(KnownEra::Legacy));
        }
        assert_eq!(
            (known("http://eras.test/0"), known("http://eras.test/1")),
            (None, Some(KnownEra::Legacy))
        );
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use mcp_proto::client::Config;

    use crate::client::{Options, ReadyConnection};

    #[test]
    fn names_below_localhost_are_this_machine() {
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = server.local_addr().unwrap().port();
        let accepted = thread::spawn(move || server.accept().map(drop));
        // No resolver knows this name; the connection ends without an answer.
        let options = Options::<ReadyConnection>::new(Config::new("near", "1.0"));
        let error = options.connect_url(&format!("http://unknown.mcp.localhost:{port}/mcp")).unwrap_err();
        assert!(!error.to_string().contains("no address of"), "{error}");
        accepted.join().unwrap().unwrap();
    }

    #[test]
    fn error_names_each_address_that_refuses() {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let options = Options::<ReadyConnection>::new(Config::new("refused", "1.0"));
        let error =
            options.connect_url(&format!("http://refused.localhost:{port}/mcp")).unwrap_err().to_string();
        let of = |address: &str| error.find(&format!("{address}:{port}: "));
        let (first, second) = (of("127.0.0.1"), of("[::1]"));
        assert!(first.is_some() && second.is_some() && error.contains("; "), "{error}");
    }

    #[test]
    fn error_names_host_without_address() {
        // No resolver sends a query for this name.
        let options = Options::<ReadyConnection>::new(Config::new("lost", "1.0"));
        let error = options.connect_url("http://a..b/mcp").unwrap_err().to_string();
        assert!(error.contains("no address of a..b: "), "{error}");
    }

    /// A socket whose writes fail, although the server is there.
    #[cfg(unix)]
    fn unwritable() -> NetStream {
        let file = std::fs::File::open("/dev/null").unwrap();
        Socket::unix(std::os::fd::OwnedFd::from(file).into()).unwrap().into()
    }

    #[cfg(unix)]
    #[test]
    fn write_that_fails_here_ends_the_exchange_at_once_with_its_reason() {
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/mcp", server.local_addr().unwrap());
        let http = mcp_proto::http::client::Config::new(&url).unwrap();
        let mut transport = HttpTransport::new(Config::new("cut", "1.0"), http, false).unwrap();
        let begun = transport.tick();
        while transport.sockets.iter().all(|socket| socket.connecting.is_some()) {
            transport.write();
            transport.wait(Some(begun + Duration::from_secs(5)));
        }
        transport.sockets[0].transport = unwritable();
        transport.write();
        let event = format!("{:?}", transport.poll_event());
        assert!(event.contains("os error"), "{event}");
        assert!(transport.sockets.is_empty());
    }
}
