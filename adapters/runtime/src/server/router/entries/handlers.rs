//! Handlers of entries in the form in which a router stores them.
//!
//! Each module takes the closures of one flavour. What they share is in [`handlers!`].

/// Defines the functions that turn a closure into a stored handler.
///
/// - `Fn`: the trait of closures, and `Cx`: the context that they take.
/// - `data`: further bounds of arguments.
/// - `bounds`: further bounds of closures, which may name the type `A` of arguments and the type `T` of results; for the closures
///   of tools and prompts, of resources, of completions, and of the fallback.
/// - `closure`: the macro that makes the stored closure, with the handler by reference as `$handler`.
/// - `invoke`: the macro that runs the handler.
macro_rules! handlers {
    (
        $flavor:ident, $Fn:ident($Cx:ty), data: [$($data:tt)*],
        bounds: [$($arguments:tt)*] [$($resource:tt)*] [$($completion:tt)*] [$($call:tt)*],
        closure: $closure:ident, invoke: $invoke:ident
    ) => {
        /// Returns the handler of a tool.
        pub(in super::super) fn tool<A, T>(
            handler: impl $Fn($Cx, A) -> T + 'static $($arguments)*,
        ) -> <$flavor<()> as Flavor>::Handler
        where
            A: DeserializeOwned + 'static $($data)*,
            T: IntoToolResult + 'static,
        {
            $closure!(handler, |cx, target: &CallTarget<'_>| {
                let CallTarget::Tool(target) = target else { return Err(misrouted_error().into()) };
                let result = match target.parse::<A>() {
                    Ok(arguments) => $invoke!(handler, cx, arguments).into_tool_result(),
                    Err(invalid) => invalid.into_result(),
                };
                result.map(EntryResult::Tool)
            })
        }

        /// Returns the handler of a resource or a template.
        pub(in super::super) fn resource<T: IntoReadResult + 'static>(
            handler: impl $Fn($Cx, &ResourceTarget<'_>) -> T + 'static $($resource)*,
        ) -> <$flavor<()> as Flavor>::Handler {
            $closure!(handler, |cx, target: &CallTarget<'_>| {
                let CallTarget::Resource(target) = target else { return Err(misrouted_error().into()) };
                let read = $invoke!(handler, cx, target);
                read.into_read_result(&target.uri, target.mime_type).map(EntryResult::Resource)
            })
        }

        /// Returns the handler of a prompt.
        pub(in super::super) fn prompt<A, T>(
            handler: impl $Fn($Cx, A) -> T + 'static $($arguments)*,
        ) -> <$flavor<()> as Flavor>::Handler
        where
            A: DeserializeOwned + 'static $($data)*,
            T: IntoPromptResult + 'static,
        {
            $closure!(handler, |cx, target: &CallTarget<'_>| {
                let CallTarget::Prompt(target) = target else { return Err(misrouted_error().into()) };
                let arguments = target.parse::<A>()?;
                $invoke!(handler, cx, arguments).into_prompt_result().map(EntryResult::Prompt)
            })
        }

        /// Returns the handler of a completion.
        pub(in super::super) fn completion<T: IntoCompletion + 'static>(
            handler: impl $Fn($Cx, &CompletionTarget<'_>) -> T + 'static $($completion)*,
        ) -> <$flavor<()> as Flavor>::Handler {
            $closure!(handler, |cx, target: &CallTarget<'_>| {
                let CallTarget::Completion(target) = target else { return Err(misrouted_error().into()) };
                $invoke!(handler, cx, target).into_completion().map(EntryResult::Completion)
            })
        }

        /// Returns the handler of calls that no entry takes.
        pub(in super::super) fn fallback(
            handler: impl $Fn($Cx, &Call) -> Result<Answered, RpcError> + 'static $($call)*,
        ) -> <$flavor<()> as Flavor>::Fallback {
            $closure!(handler, |cx, call: &Call| $invoke!(handler, cx, call))
        }
    };
}

/// Imports of all modules of handlers.
macro_rules! imports {
    () => {
        use mcp_proto::RpcError;
        use mcp_proto::router::{
            CallTarget, CompletionTarget, IntoCompletion, IntoPromptResult, IntoReadResult, IntoToolResult,
            ResourceTarget,
        };
        use mcp_proto::server::Call;
        use serde::de::DeserializeOwned;

        use crate::server::cx::Answered;
        use crate::server::router::answer::{EntryResult, misrouted_error};
        use crate::server::router::flavor::Flavor;
    };
}

/// Functions on the thread of the event loop.
pub(in super::super) mod local_functions {
    use alloc::rc::Rc;
    use core::cell::RefCell;

    use crate::server::cx::Cx;
    use crate::server::router::answer::HandlerResult;
    use crate::server::router::flavor::Functions;
    use crate::server::router::{EntryRequest, Next};
    imports!();

    // The `RefCell` is never borrowed twice: only the router calls the closures, from one loop.
    macro_rules! closure {
        ($handler:ident, |$cx:ident, $target:ident: $type:ty| $body:expr) => {{
            let shared = RefCell::new($handler);
            Rc::new(move |$cx: &mut Cx<'_>, $target: $type| {
                let $handler = &mut *shared.borrow_mut();
                $body
            })
        }};
    }

    macro_rules! invoke {
        ($handler:ident, $cx:ident, $arguments:expr) => {
            $handler($cx, $arguments)
        };
    }

    handlers! {
        Functions, FnMut(&mut Cx<'_>), data: [], bounds: [] [] [] [], closure: closure, invoke: invoke
    }

    /// Returns the stored form of a layer.
    pub(in super::super) fn layer<R: 'static>(
        layer: impl FnMut(&mut Cx<'_>, EntryRequest<'_>, Next<'_, Functions<R>>) -> HandlerResult + 'static,
    ) -> <Functions<R> as Flavor>::Layer {
        let shared = RefCell::new(layer);
        Rc::new(move |cx, request, next| (*shared.borrow_mut())(cx, request, next))
    }
}

/// Functions on several threads.
pub(in super::super) mod shared_functions {
    use alloc::sync::Arc;

    use crate::server::cx::Cx;
    use crate::server::router::answer::HandlerResult;
    use crate::server::router::flavor::SharedFunctions;
    use crate::server::router::{EntryRequest, Next};
    imports!();

    macro_rules! closure {
        ($handler:ident, |$cx:ident, $target:ident: $type:ty| $body:expr) => {
            Arc::new(move |$cx: &mut Cx<'_>, $target: $type| $body)
        };
    }

    macro_rules! invoke {
        ($handler:ident, $cx:ident, $arguments:expr) => {
            $handler($cx, $arguments)
        };
    }

    handlers! {
        SharedFunctions, Fn(&mut Cx<'_>), data: [],
        bounds: [+ Send + Sync] [+ Send + Sync] [+ Send + Sync] [+ Send + Sync],
        closure: closure, invoke: invoke
    }

    /// Returns the stored form of a layer.
    pub(in super::super) fn layer<R: 'static>(
        layer: impl Fn(&mut Cx<'_>, EntryRequest<'_>, Next<'_, SharedFunctions<R>>) -> HandlerResult
        + Send
        + Sync
        + 'static,
    ) -> <SharedFunctions<R> as Flavor>::Layer {
        Arc::new(layer)
    }
}

/// Futures that stay on their thread.
pub(in super::super) mod local_futures {
    use alloc::boxed::Box;
    use alloc::rc::Rc;

    use crate::server::cx::AsyncCx;
    use crate::server::router::answer::HandlerResult;
    use crate::server::router::flavor::LocalFutures;
    use crate::server::router::{EntryRequest, Next};
    imports!();

    // Each call shares ownership of the closure, which may be removed from the router while the call runs.
    macro_rules! closure {
        ($handler:ident, |$cx:ident, $target:ident: $type:ty| $body:expr) => {{
            let shared = Rc::new($handler);
            Rc::new(move |$cx, $target| {
                let shared = shared.clone();
                Box::pin(async move {
                    let $handler = &*shared;
                    $body
                })
            })
        }};
    }

    macro_rules! invoke {
        ($handler:ident, $cx:ident, $arguments:expr) => {
            $handler($cx, $arguments).await
        };
    }

    handlers! {
        LocalFutures, AsyncFn(&mut AsyncCx), data: [], bounds: [] [] [] [], closure: closure, invoke: invoke
    }

    /// Returns the stored form of a layer.
    pub(in super::super) fn layer<R: 'static>(
        layer: impl AsyncFn(&mut AsyncCx, EntryRequest<'_>, Next<'_, LocalFutures<R>>) -> HandlerResult + 'static,
    ) -> <LocalFutures<R> as Flavor>::Layer {
        let shared = Rc::new(layer);
        Rc::new(move |cx, request, next| {
            let shared = shared.clone();
            Box::pin(async move { shared(cx, request, next).await })
        })
    }
}

/// Futures that any thread may poll.
pub(in super::super) mod send_futures {
    use alloc::boxed::Box;
    use alloc::sync::Arc;

    use super::super::SendCall;
    use crate::server::cx::AsyncCx;
    use crate::server::router::answer::HandlerResult;
    use crate::server::router::flavor::SendFutures;
    use crate::server::router::{EntryRequest, Next};
    imports!();

    macro_rules! closure {
        ($handler:ident, |$cx:ident, $target:ident: $type:ty| $body:expr) => {
            Arc::new(move |$cx, $target| {
                let $handler = $handler.clone();
                Box::pin(async move { $body })
            })
        };
    }

    macro_rules! invoke {
        ($handler:ident, $cx:ident, $arguments:expr) => {
            $handler.call(($cx, $arguments)).await
        };
    }

    handlers! {
        SendFutures, AsyncFnOnce(&mut AsyncCx), data: [+ Send],
        bounds:
            [+ for<'a> SendCall<(&'a mut AsyncCx, A), T>]
            [+ for<'a> SendCall<(&'a mut AsyncCx, &'a ResourceTarget<'a>), T>]
            [+ for<'a> SendCall<(&'a mut AsyncCx, &'a CompletionTarget<'a>), T>]
            [+ for<'a> SendCall<(&'a mut AsyncCx, &'a Call), Result<Answered, RpcError>>],
        closure: closure, invoke: invoke
    }

    /// Returns the stored form of a layer.
    pub(in super::super) fn layer<R: 'static>(
        layer: impl for<'a> SendCall<(&'a mut AsyncCx, EntryRequest<'a>, Next<'a, SendFutures<R>>), HandlerResult>,
    ) -> <SendFutures<R> as Flavor>::Layer {
        Arc::new(move |cx, request, next| {
            let layer = layer.clone();
            Box::pin(async move { layer.call((cx, request, next)).await })
        })
    }
}
