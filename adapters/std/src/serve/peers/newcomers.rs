//! Who comes, and who gives way to them

use alloc::boxed::Box;
use core::time::Duration;
use std::io;

use mcp_proto::Instant;
use mcp_proto::http::server::Connection;

use super::Peers;
#[cfg(not(feature = "tls"))]
use crate::Transport;
use crate::serve::peer::{Moved, Peer};
use crate::serve::seats::Seat;
use crate::{Socket, is_exhausted};

impl Peers {
    /// Whether a place is wanted that nobody here can give up: another shard may [make room](Self::make_room); told once
    pub const fn is_crowded(&mut self) -> bool {
        core::mem::replace(&mut self.crowded, false)
    }

    /// Closes the connection that has not been used for longest, if that is long enough
    pub fn make_room(&mut self) {
        if let Some(idle) = self.who_gives_way() {
            self.let_go(idle);
        }
    }

    /// Who has not used his connection for longest, if that is long enough
    fn who_gives_way(&mut self) -> Option<u64> {
        self.longest_idle().filter(|(since, _)| *since + SPARED <= self.now).map(|(_, idle)| idle)
    }

    fn let_go(&mut self, idle: u64) {
        if let Some(transport) = self.forget(idle) {
            transport.close();
        }
    }

    /// When there may be room for another connection; none when there is
    pub(super) fn room_at(&mut self) -> Option<Instant> {
        if !self.is_full() || self.shards > 1 {
            return None;
        }
        if self.now < self.full_until {
            // It is looked for once in that time, however much happens.
            return Some(self.full_until);
        }
        let at = self.longest_idle().map_or(Instant::FAR, |(at, _)| at + SPARED);
        // Who is in use now will have been used later than now.
        self.full_until = at.min(self.now + SPARED);
        Some(at).filter(|at| *at > self.now)
    }

    /// Whether as many connections are open as may be
    fn is_full(&self) -> bool {
        self.count() >= self.max
    }

    /// Who has been idle for longest, and since when
    fn longest_idle(&mut self) -> Option<(Instant, u64)> {
        while let Some((at, token)) = self.known.idle.first().copied() {
            let idle = self.peers.get_mut(token).filter(|peer| peer.idle == Some(at));
            match idle {
                Some(peer) if peer.is_idle() && peer.used_at <= at => return Some((at, token)),
                Some(peer) => {
                    self.known.idle.remove(&(at, token));
                    // In use: it is entered again when it was driven.
                    peer.idle = peer.is_idle().then_some(peer.used_at);
                    self.known.idle.extend(peer.idle.map(|at| (at, token)));
                }
                None => _ = self.known.idle.remove(&(at, token)),
            }
        }
        None
    }

    /// Takes in who has come, here or at the shard whose turn it is
    fn welcome(&mut self, socket: Socket) -> io::Result<()> {
        let shard = self.choose(&socket);
        #[cfg(feature = "tls")]
        let transport = match &self.tls {
            Some(tls) => tls.accept(socket)?,
            None => socket.into(),
        };
        #[cfg(not(feature = "tls"))]
        let transport = Transport::from(socket);
        let mut connection = Connection::new(self.now, self.limits.clone());
        if self.heads {
            connection.tap_heads();
        }
        let mut peer = Box::new(Peer::new(transport, connection, Seat::new(&self.seats, shard), self.now));
        let shakes = peer.transport.is_handshaking();
        peer.until = shakes.then(|| self.now + self.limits.head_timeout);
        if shard == self.shard {
            return self.enter(peer);
        }
        self.leaving.push_back((shard, Moved(peer)));
        Ok(())
    }

    /// The shard for a newcomer: that of the core where its packets come in, or the next in turn
    fn choose(&mut self, socket: &Socket) -> u8 {
        if self.shards == 1 {
            return self.shard;
        }
        let core = self.cores.of(socket).and_then(|core| u8::try_from(core).ok());
        let wanted = core.filter(|shard| *shard < self.shards).unwrap_or_else(|| {
            let next = (self.next_shard + 1) % self.shards;
            core::mem::replace(&mut self.next_shard, next)
        });
        self.seats.place(wanted)
    }

    /// Takes in who waits, in the place of who has not used his connection for long, if need be
    pub(super) fn accept(&mut self) {
        for _ in 0..BATCH {
            let full = self.is_full();
            let gives_way = if full { self.who_gives_way() } else { None };
            if full && gives_way.is_none() {
                if self.shards > 1 {
                    // Others may leave, or make room; those who do neither are asked once more.
                    self.seats.want();
                    if !self.is_full() {
                        continue;
                    }
                    self.crowded = true;
                    self.waits = true;
                    self.accepts_at = Some(self.now + PAUSE);
                }
                return;
            }
            let Some(listener) = &self.listener else { return };
            let entered = match listener.accept() {
                Ok(Some(socket)) => {
                    if let Some(idle) = gives_way {
                        self.let_go(idle);
                    }
                    self.welcome(socket)
                }
                Ok(None) => return,
                Err(error) => Err(error),
            };
            if let Err(error) = entered {
                let exhausted = is_exhausted(&error);
                if exhausted {
                    if let Some(idle) = self.who_gives_way() {
                        self.let_go(idle);
                        continue;
                    }
                    self.crowded = self.shards > 1;
                }
                // It would go on failing, or be told of at once again: others may end in the meantime.
                let wait = if exhausted { PAUSE } else { PAUSE / 10 };
                self.accepts_at = Some(self.now + wait);
                return;
            }
        }
    }
}

/// Connections that are accepted in one go
const BATCH: usize = 16;
/// How long a connection is left alone after it was used, however many want its place
const SPARED: Duration = Duration::from_secs(1);
/// How long nobody is accepted after there was no room in this process or on this machine
const PAUSE: Duration = Duration::from_millis(100);
