//! One exchange of a shard: a request and its response.

use alloc::sync::Arc;
use core::sync::atomic::Ordering::SeqCst;
use core::task::Waker;

use bytes::Bytes;
use mcp_proto::head::RequestHead;
use mcp_proto::http::server::{ExchangeId, Response};
use mcp_runtime::server::ServerLoop as _;

use super::handlers::Phase;
use super::{Home, Poller, Shard, Waiter, lock};
use crate::request_view::SeenRequest;

/// An exchange of a shard. Dropping it is a disconnect, or the end after its response.
#[derive(Debug)]
pub(crate) struct Exchange {
    shard: Arc<Shard>,
    id: ExchangeId,
    home: Arc<Home>,
}

/// How far a request is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RequestState {
    /// More of its body is wanted.
    WantsBody,
    /// It waits for a decision about its token, or for its answer.
    Waits,
    /// There is a response, or there will be none.
    Decided,
}

/// The next part of a body.
#[derive(Debug)]
pub(crate) enum Piece {
    Data(Bytes),
    Nothing,
    End,
}

impl Shard {
    /// Opens an exchange. Fails with the shard of its session if that is another one, unless `is_final`.
    pub(crate) fn open(
        self: &Arc<Self>,
        head: &RequestHead<'_>,
        length: Option<u64>,
        is_final: bool,
        seen: &SeenRequest,
    ) -> Result<Exchange, u8> {
        let core = &mut *self.core();
        if let Some(other) = core.host.server.other_shard(head).filter(|_| !is_final) {
            return Err(other);
        }
        let now = core.host.tick();
        let id = match seen.identity() {
            Some(identity) => core.host.server.open_as(now, head, length, identity.clone()),
            None => core.host.server.open(now, head, length),
        };
        let home = Arc::new(Home::new(id.index()));
        if let Some(request) = core.host.server.request_mut(id) {
            seen.attach(request);
            request.extensions_mut().insert(home.clone());
        }
        self.open.fetch_add(1, SeqCst);
        self.has_work.store(true, SeqCst);
        Ok(Exchange { shard: self.clone(), id, home })
    }

    /// Ends an exchange that its caller has dropped.
    fn close(&self, id: ExchangeId) {
        if self.release(id) {
            self.open.fetch_sub(1, SeqCst);
            return self.tell_drivers_if_over();
        }
        lock(&self.inbox).gone.push(id);
        self.open.fetch_sub(1, SeqCst);
        self.settle();
    }

    /// Frees an exchange whose response was taken completely, without a pass: nothing follows from that. Returns `false` if
    /// there is more to do, or if the engine is in use.
    fn release(&self, id: ExchangeId) -> bool {
        // The caller may have been woken for the work that is there, and passes it on.
        let core = if self.has_work.load(SeqCst) { None } else { self.try_core() };
        let Some(mut core) = core.filter(|core| core.host.server.is_finished(id)) else { return false };
        let now = core.host.now();
        core.host.server.release(now, id);
        core.arm(self);
        true
    }
}

impl Exchange {
    pub(crate) const fn shard(&self) -> &Arc<Shard> {
        &self.shard
    }

    pub(crate) const fn index(&self) -> usize {
        self.id.index()
    }

    /// Does the work of the shard. Returns whether there is more.
    pub(crate) fn turn(&self) -> bool {
        self.shard.turn(Poller::Home(&self.home))
    }

    /// Returns how far the request is. If it waits, so does `waker` from then on.
    pub(crate) fn request_state(&self, waker: Option<&Waker>) -> RequestState {
        let core = &mut *self.shard.core();
        let server = &core.host.server;
        if server.response(self.id).is_some() || server.is_finished(self.id) || core.is_aborted {
            return RequestState::Decided;
        }
        // While its body is awaited, the request may be refused.
        if let Some(waker) = waker {
            self.shard.wait(Waiter::Response(self.index()), waker);
        }
        if server.wants_body(self.id) { RequestState::WantsBody } else { RequestState::Waits }
    }

    /// Receives a part of the body of the request, if there is one, and its end.
    pub(crate) fn handle_body(&self, piece: Option<Bytes>, is_end: bool) {
        let core = &mut *self.shard.core();
        let now = core.host.tick();
        if let Some(piece) = piece {
            core.host.server.handle_body(now, self.id, piece);
        }
        if is_end {
            core.host.server.handle_end(now, self.id);
        }
        self.shard.has_work.store(true, SeqCst);
    }

    /// Reads the head of the response. `None`: there will be none, because the service has ended.
    pub(crate) fn with_response<T>(&self, read: impl FnOnce(&Response) -> T) -> Option<T> {
        self.shard.core().host.server.response(self.id).map(read)
    }

    /// Takes the next piece of the body. If there is none, `waker` waits for it.
    ///
    /// A piece of a stream counts as sent once the next one is wanted (`unconsumed`): one that is lost with its connection
    /// goes to another stream of the session.
    pub(crate) fn take_piece(&self, is_stream: bool, unconsumed: &mut usize, waker: Option<&Waker>) -> Piece {
        let core = &mut *self.shard.core();
        // Nothing in a body of known length depends on the time.
        let now = if is_stream { core.host.tick() } else { core.host.now() };
        let server = &mut core.host.server;
        if *unconsumed > 0 {
            server.consume(self.id, core::mem::take(unconsumed));
        }
        if let Some(segment) = server.transmit_owned(now, self.id) {
            return Piece::Data(segment);
        }
        let bytes = server.transmit(now, self.id);
        let bytes = Bytes::copy_from_slice(bytes.get(..MAX_PIECE).unwrap_or(bytes));
        if !bytes.is_empty() {
            if is_stream {
                *unconsumed = bytes.len();
            } else {
                server.consume(self.id, bytes.len());
            }
            return Piece::Data(bytes);
        }
        if server.is_finished(self.id) || core.is_aborted {
            return Piece::End;
        }
        if let Some(waker) = waker {
            self.shard.wait(Waiter::Body(self.index()), waker);
        }
        Piece::Nothing
    }

    /// Returns whether the shard has work that no turn has begun with, or this request a handler to poll.
    pub(crate) fn has_work(&self) -> bool {
        self.shard.has_work_for(Poller::Home(&self.home))
    }

    /// The response is decided: what polls from now on is its body, outside of what surrounds the request.
    pub(crate) fn begin_body(&self) {
        self.shard.advance(&self.home, Phase::Body);
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let waker = lock(&self.shard.waiting).remove_exchange(self.index());
        drop(waker);
        self.shard.close(self.id);
        // After the end of those that a disconnect cancels.
        self.shard.advance(&self.home, Phase::Gone);
    }
}

/// Largest piece of a body that is copied.
const MAX_PIECE: usize = 64 << 10;
