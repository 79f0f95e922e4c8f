//! Steps of a loop over HTTP for sessions that other processes serve, too.

use alloc::boxed::Box;
use core::fmt;
use core::task::Waker;
use std::io;

use mcp_proto::Instant;
use mcp_proto::http::server::{Server, SharedSessionEvent};

use super::server_loop::ChangeSet;

/// Takes what a server says about its sessions to a store and to other processes, and back.
///
/// A trait object, so that a server without a store is linked without the code.
pub trait ShareSessions: fmt::Debug + Send {
    /// Registers the waker that is woken when [`drive`](Self::drive) has something to do.
    fn register(&self, waker: &Waker);

    /// Takes an event of the server.
    fn handle_event(&mut self, now: Instant, server: &mut Server, event: SharedSessionEvent);

    /// Tells the subscribers in other processes of changes.
    fn publish(&mut self, changes: &ChangeSet);

    /// Does all that the store and other processes have brought, and returns what it was.
    ///
    /// Responses that have waited are ready then ([`Server::poll_ready`]).
    fn drive(&mut self, now: Instant, server: &mut Server) -> Driven;

    /// Does the same for the server of another shard, which has had no request.
    ///
    /// # Errors
    ///
    /// The error of the operating system if no thread can be started.
    fn for_shard(&self, server: &mut Server) -> io::Result<Box<dyn ShareSessions>>;

    /// Waits for what is on its way to the store and to other processes, up to a few seconds, when the server has ended.
    fn finish(self: Box<Self>);
}

/// The outcome of a step of [`ShareSessions`].
#[derive(Debug, Default)]
pub struct Driven {
    /// There was something to do.
    pub any: bool,
    /// Changes in other processes, to be published to the subscribers here.
    pub changes: Option<ChangeSet>,
}
