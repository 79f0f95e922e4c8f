//! Parts of a server that all adapters share: handlers, their context, routers, the HTTP server and its connections.
//!
//! An adapter adds the loop that drives them. Everything between the loop and the engine is here.

mod async_handler;
mod change_set;
#[cfg(feature = "http")]
mod connection;
#[cfg(feature = "http")]
mod connections;
mod cores;
mod cx;
mod dispatcher;
mod handle;
mod handler;
#[cfg(feature = "http")]
mod http;
pub mod layers;
mod observed;
#[cfg(feature = "http")]
mod permits;
mod remote;
pub mod router;
mod server_loop;
mod stream;
#[cfg(unix)]
mod stream_server;
mod tasks;

#[cfg(feature = "http")]
pub use async_handler::SharedHandler;
pub use async_handler::{AsyncHandler, Placement, dispatch_async_event, run_call};
pub use change_set::ChangeSet;
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
pub use handle::Handle;
pub use handler::{Handler, HandlerFailure};
#[cfg(feature = "http")]
pub use http::{HttpServer, Shard, TokenOutcome, TokenReply, TokenWorkers};
pub use remote::{
    ActiveCall, BeginTask, EncodedResult, HandlerOutcome, LoopCommand, LoopMessage, RemoteCall,
};
pub use server_loop::{Backlog, ServerLoop, apply_outcome, dispatch_event, subscribed_resource_changes};
pub use stream::{CallRunner, Server};
#[cfg(unix)]
pub use stream_server::{StreamConnection, StreamServer, StreamServerHandle};
#[cfg(feature = "crypto")]
pub use tasks::ServerTasks;
pub use tasks::{DriveTasks, StorePlace, TaskSource};
