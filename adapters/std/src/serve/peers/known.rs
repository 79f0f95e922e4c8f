//! What is known of all connections, so that a wait need not look at each

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use mcp_proto::Instant;
use mcp_proto::http::server::ExchangeId;

use crate::serve::peer::Peer;
use crate::serve::places::Places;

/// What is known of all connections without looking at each
///
/// Deadlines and times of last use mostly move on. So an entry may say an earlier time than its connection would, never a
/// later one, and is put right when its time has come.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Those driven since the last wait; what the rest and the selector say of them may be out of date
    pub(super) driven: Vec<u64>,
    /// Who has which exchange, by its index, but for those who have had others since that was looked at
    pub(super) exchanges: Vec<Option<(ExchangeId, u64)>>,
    pub(super) other_exchanges: Vec<u64>,
    /// When who has a deadline
    pub(super) deadlines: BTreeSet<(Instant, u64)>,
    /// When who was used last, of those who may be idle
    pub(super) idle: BTreeSet<(Instant, u64)>,
}

impl Known {
    /// Has what is known of a connection brought up to date before the next wait
    pub(super) fn note(&mut self, token: u64, peer: &mut Peer) {
        if !core::mem::replace(&mut peer.driven, true) {
            self.driven.push(token);
        }
        if peer.exchange != peer.connection.exchange() && !core::mem::replace(&mut peer.other_exchange, true)
        {
            self.other_exchanges.push(token);
        }
    }

    /// Brings up to date who has which exchange
    ///
    /// Most exchanges begin and end without a wait in between, and are not asked for.
    pub(super) fn enter_exchanges(&mut self, peers: &mut Places<Box<Peer>>) {
        let mut others = core::mem::take(&mut self.other_exchanges);
        for token in others.drain(..) {
            let Some(peer) = peers.get_mut(token) else { continue };
            peer.other_exchange = false;
            let exchange = peer.connection.exchange();
            if exchange != peer.exchange {
                if let Some(over) = core::mem::replace(&mut peer.exchange, exchange) {
                    self.forget_exchange(over);
                }
                if let Some(exchange) = exchange {
                    let index = exchange.index();
                    if index >= self.exchanges.len() {
                        self.exchanges.resize(index + 1, None);
                    }
                    if let Some(place) = self.exchanges.get_mut(index) {
                        *place = Some((exchange, token));
                    }
                }
            }
        }
        self.other_exchanges = others;
    }

    pub(super) fn who_has(&self, exchange: ExchangeId) -> Option<u64> {
        let (known, token) = (*self.exchanges.get(exchange.index())?)?;
        (known == exchange).then_some(token)
    }

    fn forget_exchange(&mut self, over: ExchangeId) {
        // Another one may be there by now.
        if let Some(place) = self.exchanges.get_mut(over.index()) {
            *place = place.filter(|(known, _)| *known != over);
        }
    }

    pub(super) fn update(&mut self, token: u64, peer: &mut Peer) {
        let deadline = peer.poll_timeout();
        if deadline.is_some_and(|at| peer.deadline.is_none_or(|known| at < known)) {
            if let Some(later) = core::mem::replace(&mut peer.deadline, deadline) {
                self.deadlines.remove(&(later, token));
            }
            self.deadlines.extend(deadline.map(|at| (at, token)));
        }
        if peer.idle.is_none() && peer.is_idle() {
            peer.idle = Some(peer.used_at);
            self.idle.insert((peer.used_at, token));
        }
    }

    pub(super) fn forget(&mut self, token: u64, peer: &Peer) {
        if let Some(exchange) = peer.exchange {
            self.forget_exchange(exchange);
        }
        if let Some(at) = peer.deadline {
            self.deadlines.remove(&(at, token));
        }
        if let Some(at) = peer.idle {
            self.idle.remove(&(at, token));
        }
    }
}
