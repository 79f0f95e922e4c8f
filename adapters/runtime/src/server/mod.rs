//! Parts of a server that all adapters share: handlers, their context, routers, the HTTP server and its connections.
//!
//! An adapter adds the loop that drives them. Everything between the loop and the engine is here.

mod attachments;
#[cfg(feature = "http")]
mod connection;
#[cfg(feature = "http")]
mod connections;
mod cores;
mod cx;
mod dispatcher;
mod handler;
#[cfg(feature = "http")]
mod http;
pub mod layers;
mod remote;
pub mod router;
mod server_loop;
#[cfg(feature = "http")]
mod session_sharing;
#[cfg(feature = "shared-sessions")]
mod shared_sessions;
mod stream;
pub(crate) mod stream_core;
#[cfg(unix)]
mod stream_server;
mod tasks;

pub use attachments::{Attachments, LoopExtension, ServerExtension};
#[cfg(feature = "http")]
pub use connection::MigratedConnection;
#[cfg(feature = "http")]
pub use connections::Connections;
pub use cores::Cores;
pub use cx::{
    Answered, AsyncCx, Backend, BorrowedCall, CallCx, CallParts, CallState, Cx, OwnedCall, RunningCall,
    SleepFuture, StartTimer,
};
pub use dispatcher::{CommandSender, Dispatcher};
#[cfg(feature = "http")]
pub use handler::SharedHandler;
pub use handler::{AsyncHandler, Placement, dispatch_async_event, run_call};
pub use handler::{Handler, HandlerFailure};
#[cfg(feature = "http")]
pub use http::{HttpServer, Shard, TokenOutcome, TokenQueue, TokenReply, TokenWorkers, register_tools};
pub use remote::{
    ActiveCall, BeginTask, EncodedResult, FinishedCall, HandlerOutcome, LoopCommand, RemoteCall,
};
pub(crate) use server_loop::dispatch_event;
pub use server_loop::{Backlog, ChangeSet, ServerLoop, subscribed_resource_changes};
#[cfg(feature = "http")]
pub use session_sharing::{Driven, ShareSessions};
#[cfg(feature = "shared-sessions")]
pub use shared_sessions::{SessionKeys, SharedSessions};
pub use stream::{CallRunner, Server};
#[cfg(unix)]
pub use stream_server::{StreamConnection, StreamServer, StreamServerHandle, longest_unused};
#[cfg(feature = "tasks")]
pub use tasks::ServerTasks;
pub use tasks::{DriveTasks, StorePlace, TaskSource};

use core::time::Duration;

use mcp_proto::server::{Announcement, Engine};
use mcp_proto::{Instant, Limit, UseError};

use mcp_std::sync::SendError;

// Handles of running servers, for other threads.

/// Sends commands to a running server from any thread. Clones refer to the same server.
///
/// Commands run soon and in order, as long as the server runs.
#[derive(Clone, Debug)]
pub struct Handle(CommandSender);

impl Handle {
    /// Creates a handle from a command sender.
    #[must_use]
    pub const fn new(commands: CommandSender) -> Self {
        Self(commands)
    }

    /// Shuts the server down: it accepts no more requests, and ends when all calls are answered or after `grace`.
    pub fn shutdown(&self, grace: Duration) {
        // Refused if the server has stopped.
        let _ = self.0.send_unbounded(move |server_loop| server_loop.shutdown(grace));
    }

    /// Publishes a change to all subscribers, or an [`Announcement`] to its audience.
    ///
    /// The bound on waiting commands does not apply; several changes of one list or resource are published as one. If
    /// very many resources have changed, all subscribers of resources are notified.
    ///
    /// # Errors
    ///
    /// [`UseError::Closed`] if the server has stopped.
    pub fn publish<'c>(&self, change: impl Into<Announcement<'c>>) -> Result<(), UseError> {
        self.0.publish(change).map_err(refusal)
    }

    /// Runs a command of the engine on the event loop, for example to send a notification.
    ///
    /// # Errors
    ///
    /// [`UseError::Full`] if 1,024 commands wait, [`UseError::Closed`] if the server has stopped.
    pub fn with_engine(
        &self,
        command: impl FnOnce(&mut Engine, Instant) + Send + 'static,
    ) -> Result<(), UseError> {
        let sent = self.0.send(move |server_loop| {
            let now = server_loop.now();
            command(server_loop.engine(), now);
        });
        sent.map_err(refusal)
    }

    /// Returns whether the server has stopped.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.0.is_closed()
    }
}

/// Returns the reason why a command was not sent.
fn refusal(error: SendError<()>) -> UseError {
    match error {
        SendError::Full(()) => UseError::Full(Limit::LoopCommands),
        SendError::Closed(()) => UseError::Closed,
    }
}
