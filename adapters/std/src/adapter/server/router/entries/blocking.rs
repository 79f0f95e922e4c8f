//! Tools whose handlers are functions that may block, on routers of futures.

use alloc::boxed::Box;
use alloc::sync::Arc;

use mcp_proto::router::{CallTarget, IntoToolResult, ToolEntry};
use serde::de::DeserializeOwned;

use super::{ArgumentsOn, Router, WithState};
use crate::adapter::server::cx::{AsyncCx, Cx};
use crate::adapter::server::router::entry_result::{EntryResult, HandlerResult, misrouted_error};
use crate::adapter::server::router::flavor::FutureFlavor;
use crate::adapter::sync::BlockingPool;

impl<F: FutureFlavor<Adapter: BlockingPool>> Router<F> {
    /// Adds a tool whose handler is a function that may block: it runs on a thread of the runtime for such work, and the
    /// server goes on meanwhile.
    ///
    /// Arguments, results and the entry that is returned are those of `tool`. The handler may report progress, ask for
    /// input, and sleep ([`Cx::sleep`]). If the call is cancelled, the handler goes on to its end and its
    /// result is dropped; [`checkpoint`](crate::adapter::server::CallCx::checkpoint) tells it to stop. Until its end the
    /// call counts as one of those that run at a time. A panic is answered with an internal error.
    ///
    /// Other entries move a part of their work there by the function `unblock` of the adapter.
    pub fn tool_blocking<A, T>(
        &mut self,
        name: &str,
        handler: impl Fn(&mut Cx<'_>, A) -> T + Send + Sync + 'static,
    ) -> ToolEntry<'_>
    where
        A: ArgumentsOn<F::Adapter> + Send + 'static,
        T: IntoToolResult + 'static,
    {
        let handler = Arc::new(handler);
        let stored = F::from_future(Arc::new(move |cx, target| {
            Box::pin(run_tool::<F::Adapter, A, T>(handler.clone(), cx, target))
        }));
        self.add_tool(A::tool(name), T::output_schema(), stored)
    }
}

impl<F: FutureFlavor<Adapter: BlockingPool>, S: Send + Sync + 'static> WithState<'_, F, S> {
    /// Adds a tool whose handler is a function that may block; see [`Router::tool_blocking`].
    pub fn tool_blocking<A, T>(
        &mut self,
        name: &str,
        handler: impl Fn(&S, &mut Cx<'_>, A) -> T + Send + Sync + 'static,
    ) -> ToolEntry<'_>
    where
        A: ArgumentsOn<F::Adapter> + Send + 'static,
        T: IntoToolResult + 'static,
    {
        let state = self.state.clone();
        self.router.tool_blocking(name, move |cx: &mut Cx<'_>, arguments: A| handler(&state, cx, arguments))
    }
}

/// Decodes the arguments here, and runs the handler on another thread.
async fn run_tool<P: BlockingPool, A: DeserializeOwned + Send + 'static, T: IntoToolResult + 'static>(
    handler: Arc<impl Fn(&mut Cx<'_>, A) -> T + Send + Sync + 'static>,
    cx: &mut AsyncCx,
    target: &CallTarget<'_>,
) -> HandlerResult {
    let CallTarget::Tool(target) = target else { return Err(misrouted_error().into()) };
    let result = match target.parse::<A>() {
        Ok(arguments) => cx.run_blocking::<P, _>(move |cx| handler(cx, arguments).into_tool_result()).await,
        Err(invalid) => invalid.into_result(),
    };
    result.map(EntryResult::Tool)
}
