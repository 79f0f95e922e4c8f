//! Parts of a client that all adapters share: connecting, dispatch of events, callbacks, and shutdown.
//!
//! An adapter adds how its callers wait and how commands reach the connection ([`ClientBackend`]). Everything between
//! these and the engine is here.

mod calls;
mod command_queue;
mod connection;
#[cfg(feature = "http")]
mod exchange_transport;
mod handler;
#[cfg(feature = "http")]
mod http_transport;
mod layers;
mod options;
mod outcome;
mod result_cache;
mod shared_completer;
mod testing;
mod transport;

pub use calls::{
    AsyncCalls, BlockingCalls, BlockingLongLivedCall, CallUpdate, ClientBackend, DetachedCommand,
    EngineCommand, LongLivedCall,
};
pub use command_queue::RateLimit;
pub use command_queue::{ClientJob, CommandQueue, ConnectionHandle};
pub use connection::{AcknowledgedSubscription, CallAnswer, Connection, EXIT_STATUS_TIMEOUT, ProgressWatch};
#[cfg(feature = "http")]
pub(crate) use exchange_transport::ExchangeTransport;
#[cfg(feature = "http")]
pub use exchange_transport::{Exchange, ResponseSink, StartExchange};
pub use handler::ClientHandler;
pub use handler::{Callback, CallbackReply, DeferredHandler, HandlerSlot, RemoteHandler};
pub(crate) use handler::{CallbackKey, no_handler_error};
#[cfg(feature = "http")]
pub use http_transport::HttpTransport;
pub use layers::{
    AsyncLayer, BlockingClientNext, BlockingLayer, ClientNext, ClientRequest, LayerFuture, Layers, Retry,
};
pub use options::BlockingConnector;
#[cfg(feature = "http")]
pub use options::ExchangeConnector;
pub use options::{ClientSetup, ConnectionTarget, Connector, Options, ReadyConnection, StreamConnector};
pub use outcome::{OutcomeReceiver, OutcomeSender, OutcomeUpdate};
pub use result_cache::{CacheOptions, ResultCache};
pub use shared_completer::SharedCompleter;
pub use testing::{Inline, TestConnection, TestPeer, TestRouter, TestServer};
pub use transport::{ClientTransport, CloseAction, ExitInfo};
pub(crate) use transport::{ServerIo, StreamTransport};
