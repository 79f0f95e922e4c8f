//! The addresses of a host, and which of them a policy permits (SEC-011).

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::SocketAddr;
use std::io;
use std::net::ToSocketAddrs as _;
use std::sync::OnceLock;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;

use mcp_proto::auth::{FetchFailure, Network};
use mcp_proto::http::client::Origin;

use super::{Budget, unreachable};
use crate::io::{interleave_families, known_addresses};

/// A function from a host name and a port to addresses.
pub(super) type Resolver = Arc<dyn Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync>;

/// Returns the resolver of the system.
pub(super) fn system() -> Resolver {
    Arc::new(|host, port| Ok((host, port).to_socket_addrs()?.collect()))
}

/// The host of the server of a flow, and the network that its first lookup found.
///
/// Whoever runs the server may run its name server, too: a second answer could open another network (SEC-011).
pub(super) type FirstNetwork = OnceLock<(Box<str>, Network)>;

/// Returns the addresses of `target` that a server at `reachable_from` may refer to, in the order to try them.
pub(super) fn permitted(
    resolver: &Resolver,
    first: &FirstNetwork,
    target: &Origin,
    reachable_from: Option<&Origin>,
    budget: &Budget<'_>,
) -> Result<VecDeque<SocketAddr>, FetchFailure> {
    let mut addresses = look_up(resolver, target, budget)?;
    if let Some(server) = reachable_from {
        let network = match first.get() {
            Some((host, network)) if *host == server.host => *network,
            _ if server.host == target.host => network_of(&addresses),
            _ => network_of(&look_up(resolver, server, budget)?),
        };
        // The requests of a flow are all for one server, one after another.
        let _ = first.set((server.host.clone(), network));
        // SEC-011
        addresses.retain(|address| network.permits(address.ip()));
        if addresses.is_empty() {
            return Err(FetchFailure::Forbidden(target.host.clone()));
        }
    }
    Ok(interleave_families(addresses.into_iter()))
}

/// Returns the network that all addresses are in, or the public one, which permits the fewest targets.
pub(super) fn network_of(addresses: &[SocketAddr]) -> Network {
    let mut networks = addresses.iter().map(|address| Network::of(address.ip()));
    match networks.next() {
        Some(first) if networks.all(|other| other == first) => first,
        _ => Network::Public,
    }
}

/// Returns the addresses of a host, at least one.
fn look_up(
    resolver: &Resolver,
    origin: &Origin,
    budget: &Budget<'_>,
) -> Result<Vec<SocketAddr>, FetchFailure> {
    if let Some(known) = known_addresses(&origin.host, origin.port) {
        return Ok(known);
    }
    let what = format!("no address of {}", origin.host);
    let (sender, answer) = mpsc::channel();
    let (resolver, host, port) = (Arc::clone(resolver), origin.host.clone(), origin.port);
    // The resolver of the system blocks, and only a thread of its own can be left behind.
    let lookup = move || drop(sender.send(resolver(&host, port)));
    thread::Builder::new()
        .name("mcp-lookup".into())
        .spawn(lookup)
        .map_err(|error| unreachable(&what, &error))?;
    let found = loop {
        match answer.recv_timeout(budget.next_wait()?) {
            Ok(found) => break found,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(unreachable(&what, &"the lookup panicked")),
        }
    };
    match found {
        Ok(found) if found.is_empty() => Err(unreachable(&what, &"the name has none")),
        Ok(found) => Ok(found),
        Err(error) => Err(unreachable(&what, &error)),
    }
}
