//! One exchange of a shard: a request and its response.

use alloc::sync::Arc;
use core::sync::atomic::Ordering::SeqCst;
use core::task::Waker;

use bytes::Bytes;
use mcp_proto::Instant;
use mcp_proto::head::{BodySize, RequestHead};
use mcp_proto::http::server::{ExchangeId, Response, Server};
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
    /// Whether a waker of the response or the body may wait.
    waits: bool,
    /// Whether its response was taken completely, and the engine has forgotten it.
    is_released: bool,
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

/// The body of a response, when its head is known.
#[derive(Debug)]
pub(crate) enum ResponseBody {
    /// It is there, and was taken.
    Whole(Bytes),
    /// This number of bytes, to be taken in pieces.
    Pieces(u64),
    /// An unknown number of bytes.
    Stream,
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
    ) -> Result<(Exchange, RequestState), u8> {
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
        let state = core.request_state(id);
        Ok((Exchange { shard: self.clone(), id, home, waits: false, is_released: false }, state))
    }

    /// Ends an exchange that its caller has dropped, and perhaps released before.
    fn close(&self, id: ExchangeId, is_released: bool) {
        if is_released || self.release(id) {
            self.open.fetch_sub(1, SeqCst);
            return self.tell_drivers_if_over();
        }
        self.add_input(|inbox| inbox.gone.push(id));
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

    /// Does the work of the shard. Returns whether there is more.
    pub(crate) fn turn(&self) -> bool {
        self.shard.turn(Poller::Home(&self.home))
    }

    /// Returns how far the request is. If it waits, so does `waker` from then on.
    pub(crate) fn request_state(&mut self, waker: Option<&Waker>) -> RequestState {
        let core = self.shard.core();
        let state = core.request_state(self.id);
        // Before the engine is unlocked, which decides. While its body is awaited, the request may be refused.
        if let Some(waker) = waker.filter(|_| state != RequestState::Decided) {
            self.waits = true;
            self.shard.wait(Waiter::Response(self.id.index()), waker);
        }
        state
    }

    /// Receives a part of the body of the request, if there is one, and its end. Without `tick`, at the last time that was read.
    pub(crate) fn handle_body(&self, piece: Option<Bytes>, is_end: bool, tick: bool) {
        let core = &mut *self.shard.core();
        let now = if tick { core.host.tick() } else { core.host.now() };
        if let Some(piece) = piece {
            core.host.server.handle_body(now, self.id, piece);
        }
        if is_end {
            core.host.server.handle_end(now, self.id);
        }
        self.shard.has_work.store(true, SeqCst);
    }

    /// Reads the head of the response, and takes the body along if that is small and there as a whole. `None`: there will be no response,
    /// because the service has ended.
    pub(crate) fn take_response<T>(
        &mut self,
        read: impl FnOnce(&Response) -> T,
    ) -> Option<(T, ResponseBody)> {
        let core = &mut *self.shard.core();
        // Nothing in a body of known length depends on the time.
        let now = core.host.now();
        let server = &mut core.host.server;
        let response = server.response(self.id)?;
        let (read, size) = (read(response), response.size);
        let body = match size {
            BodySize::None => Bytes::new(),
            BodySize::Stream => return Some((read, ResponseBody::Stream)),
            BodySize::Exact(length)
                if is_small(length) && server.transmit(now, self.id).len() as u64 == length =>
            {
                let (bytes, copied) = next_bytes(server, now, self.id).unwrap_or_default();
                server.consume(self.id, copied);
                bytes
            }
            BodySize::Exact(length) => return Some((read, ResponseBody::Pieces(length))),
        };
        // Otherwise the end of the exchange does the work that is there.
        self.is_released = !self.shard.has_work.load(SeqCst) && server.is_finished(self.id);
        if self.is_released {
            server.release(now, self.id);
            core.arm(&self.shard);
        }
        Some((read, ResponseBody::Whole(body)))
    }

    /// Takes the next piece of the body. If there is none, `waker` waits for it.
    ///
    /// A piece of a stream counts as sent once the next one is wanted (`unconsumed`): one that is lost with its connection
    /// goes to another stream of the session.
    pub(crate) fn take_piece(
        &mut self,
        is_stream: bool,
        unconsumed: &mut usize,
        waker: Option<&Waker>,
    ) -> Piece {
        let core = &mut *self.shard.core();
        // Nothing in a body of known length depends on the time.
        let now = if is_stream { core.host.tick() } else { core.host.now() };
        let server = &mut core.host.server;
        if *unconsumed > 0 {
            server.consume(self.id, core::mem::take(unconsumed));
        }
        if let Some((bytes, copied)) = next_bytes(server, now, self.id) {
            if is_stream {
                *unconsumed = copied;
            } else {
                server.consume(self.id, copied);
            }
            return Piece::Data(bytes);
        }
        if server.is_finished(self.id) || core.is_aborted {
            return Piece::End;
        }
        if let Some(waker) = waker {
            self.waits = true;
            self.shard.wait(Waiter::Body(self.id.index()), waker);
        }
        Piece::Nothing
    }

    /// Waits no longer, and passes on what it may have been woken for.
    pub(crate) fn stop_waiting(&mut self) {
        self.remove_waker();
        self.shard.pass_on();
    }

    fn remove_waker(&mut self) {
        if core::mem::take(&mut self.waits) {
            let waker = lock(&self.shard.waiting).remove_exchange(self.id.index());
            drop(waker);
        }
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
        self.remove_waker();
        self.shard.close(self.id, self.is_released);
        // After the end of those that a disconnect cancels.
        self.shard.advance(&self.home, Phase::Gone);
    }
}

/// Returns the next bytes of a body, and how many of them are to be consumed: a segment counts as sent already.
fn next_bytes(server: &mut Server, now: Instant, id: ExchangeId) -> Option<(Bytes, usize)> {
    if let Some(segment) = server.transmit_owned(now, id) {
        return Some((segment, 0));
    }
    let bytes = server.transmit(now, id);
    let bytes = Bytes::copy_from_slice(bytes.get(..MAX_PIECE).unwrap_or(bytes));
    let copied = bytes.len();
    (copied > 0).then_some((bytes, copied))
}

/// Returns whether a body may leave the bounds of its engine before it is polled.
const fn is_small(length: u64) -> bool {
    length <= MAX_PIECE as u64
}

/// Largest piece of a body that is copied, and largest body that is taken with its head.
const MAX_PIECE: usize = 64 << 10;
