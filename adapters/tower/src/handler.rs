//! The application of a service, independent of the type of its router.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::future::Future;
use core::pin::Pin;

use mcp_proto::RawJson;
use mcp_proto::server::{Call, Event};
use mcp_proto::tap::TapRecord;
use mcp_runtime::server::router::{Futures, Router, Shared};
use mcp_runtime::server::{
    AsyncHandler, Attachments, HandlerFailure, RemoteCall, StartTimer, dispatch_async_event, run_call,
};

/// The future of a running handler.
pub(crate) type CallFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The application of a service.
pub(crate) trait Application: Send + Sync {
    /// Starts the handler of a call.
    fn start(self: Arc<Self>, call: RemoteCall, timer: StartTimer) -> CallFuture;

    /// Receives an event other than a call.
    fn event(&self, event: &Event);

    /// Receives a failure of a handler.
    fn failed(&self, call: &Call, failure: &HandlerFailure);

    /// Receives a copy of a message.
    fn tap(&self, record: &TapRecord);

    /// Calls `visit` with the name and the input schema of each tool.
    fn for_each_tool(&self, visit: &mut dyn FnMut(&str, &RawJson));

    /// Returns the tasks and extensions of the server.
    fn attachments(&self) -> Attachments;
}

impl<R: 'static> Application for Router<Futures<R, Shared>>
where
    Self: Send + Sync,
{
    fn start(self: Arc<Self>, call: RemoteCall, timer: StartTimer) -> CallFuture {
        Box::pin(async move {
            if let Some(finished) = run_call(&*self, call, timer).await {
                finished.report();
            }
        })
    }

    fn event(&self, event: &Event) {
        dispatch_async_event(self, event);
    }

    fn failed(&self, call: &Call, failure: &HandlerFailure) {
        AsyncHandler::failed(self, call, failure);
    }

    fn tap(&self, record: &TapRecord) {
        AsyncHandler::tap(self, record);
    }

    fn for_each_tool(&self, visit: &mut dyn FnMut(&str, &RawJson)) {
        AsyncHandler::for_each_tool(self, visit);
    }

    fn attachments(&self) -> Attachments {
        AsyncHandler::attachments(self)
    }
}
