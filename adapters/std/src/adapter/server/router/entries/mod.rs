//! Registration of entries, for each flavour with the closures that it takes.
//!
//! A closure gets its type from the `Fn` bound of the function that takes it, so the methods exist once for each
//! flavour. The macro [`entries!`] holds them, and nothing else.

mod handlers;

use mcp_proto::RawJson;
use mcp_proto::model::{CompletionReference, Prompt, Resource, ResourceTemplate, Tool};
use mcp_proto::router::{
    CompletionTarget, IntoCompletion, IntoPromptResult, IntoReadResult, IntoToolResult, ResourceTarget,
    ToolArguments, ToolEntry, UntypedArguments,
};
use serde::de::DeserializeOwned;

use super::{Flavor, Functions, LocalFutures, Router, SendFutures, SharedFunctions};
use crate::adapter::server::cx::{AsyncCx, Cx};
use handlers::{local_functions, local_futures, send_futures, shared_functions};

/// A closure or function whose future is `Send` when it is called with `Arguments`, a tuple.
///
/// Each call runs a clone, so that the future owns what the closure has captured.
#[diagnostic::on_unimplemented(
    message = "this handler cannot run on a router of `SendFutures`",
    label = "its future is not `Send`, or it cannot be cloned",
    note = "what it holds across an `.await` has to be `Send` (`Arc` instead of `Rc`, no `RefCell` guard)",
    note = "what it captures has to be `Clone + Send + Sync`: put it into an `Arc`, or use `with_state`",
    note = "handlers that stay on one thread run on a router of `LocalFutures`"
)]
pub trait SendCall<Arguments, T>: Clone + Send + Sync + 'static {
    /// The future of a call.
    type Future: Future<Output = T> + Send;

    /// Starts a call.
    fn call(self, arguments: Arguments) -> Self::Future;
}

/// [`ToolArguments`], on the router of an adapter.
#[cfg_attr(
    feature = "schemars",
    diagnostic::on_unimplemented(
        message = "the schema of `{Self}` is not known, so it cannot be the arguments of a tool",
        label = "the arguments are decoded as `{Self}`",
        note = "add `#[derive(serde::Deserialize, schemars::JsonSchema)]` to the type",
        note = "a tool whose schema is known only at run time is added by `tool_with`"
    )
)]
#[cfg_attr(
    not(feature = "schemars"),
    diagnostic::on_unimplemented(
        message = "the schema of `{Self}` is not known, so it cannot be the arguments of a tool",
        label = "the arguments are decoded as `{Self}`",
        note = "enable the feature `schemars` of the package of `{Adapter}`, and add `#[derive(serde::Deserialize, schemars::JsonSchema)]` to the type",
        note = "without the feature, implement `ToolArguments` for the type",
        note = "a tool whose schema is known only at run time is added by `tool_with`"
    )
)]
pub trait ArgumentsOn<Adapter>: ToolArguments {}

#[diagnostic::do_not_recommend]
impl<A: ToolArguments, Adapter> ArgumentsOn<Adapter> for A {}

macro_rules! send_call {
    ($($name:ident: $type:ident),+) => {
        #[diagnostic::do_not_recommend]
        impl<H, $($type,)+ T, Running> SendCall<($($type,)+), T> for H
        where
            H: FnOnce($($type),+) -> Running + Clone + Send + Sync + 'static,
            Running: Future<Output = T> + Send,
        {
            type Future = Running;

            fn call(self, ($($name,)+): ($($type,)+)) -> Running {
                self($($name),+)
            }
        }
    };
}
send_call!(a: A, b: B);
send_call!(a: A, b: B, c: C);

/// Defines the methods that add entries.
///
/// - `Fn`: the trait of closures, with the parameters before the arguments.
/// - `data`: further bounds of arguments.
/// - `bounds`: further bounds of closures, as for the macro `handlers!`: of tools and prompts, of resources, of completions.
/// - `adapter`: the adapter of the router.
/// - `router`: tokens after `self` that lead to the router.
/// - `handlers`: the expression of the stored handler, in which `$handler` is the closure.
///
/// The compiler shows the line of a handler, with its comment, to whoever writes an `async fn` with a result that borrows.
macro_rules! entries {
    (
        $vis:vis $Fn:ident($($before:ty),+), data: [$($data:tt)*],
        bounds: [$($arguments:tt)*] [$($resource:tt)*] [$($completion:tt)*],
        adapter: $adapter:ty, router: [$($router:tt)*], store: $store:ident
    ) => {
        /// Adds a tool. Its schemas are those of the types of its arguments and of its result.
        ///
        /// Arguments have a type with `#[derive(serde::Deserialize, schemars::JsonSchema)]` (feature `schemars`), or one
        /// that implements [`ToolArguments`](mcp_proto::router::ToolArguments); `()` stands for none. The documentation comment of the type is the
        /// description, unless [`description`](ToolEntry::description) sets another one. The entry that is returned also
        /// sets title, annotations, icons and metadata.
        ///
        /// A result owns its data: an `async fn` returns `CallToolResult<'static>` or `Content<'static>`, because without the
        /// lifetime its result would borrow from the arguments.
        $vis fn tool<A, T>(
            &mut self,
            name: &str,
            handler: impl $Fn($($before,)+ A) -> T + 'static $($arguments)*, // `CallToolResult<'static>`, not `CallToolResult`
        ) -> ToolEntry<'_>
        where
            A: ArgumentsOn<$adapter> + 'static $($data)*,
            T: IntoToolResult + 'static,
        {
            let handler = $store!(self, tool, handler, A);
            self $($router)* .add_tool(A::tool(name), T::output_schema(), handler)
        }

        /// Adds a tool whose schema is known only at run time.
        ///
        /// The handler gets the arguments as JSON, since their type could contradict the schema: as `serde_json::Value`,
        /// `serde_json::Map` or [`RawJson`](mcp_proto::RawJson), or not at all (`()`).
        $vis fn tool_with<A, T>(
            &mut self,
            tool: Tool,
            handler: impl $Fn($($before,)+ A) -> T + 'static $($arguments)*, // `CallToolResult<'static>`, not `CallToolResult`
        ) -> &mut Self
        where
            A: UntypedArguments + 'static $($data)*,
            T: IntoToolResult + 'static,
        {
            let handler = $store!(self, tool, handler, A);
            self $($router)* .add_tool(tool, T::output_schema(), handler);
            self
        }

        /// Adds a resource, read by its URI. An `async fn` returns `ReadResourceResult<'static>`, with the lifetime.
        $vis fn resource<T: IntoReadResult + 'static>(
            &mut self,
            resource: Resource,
            handler: impl $Fn($($before,)+ &ResourceTarget<'_>) -> T + 'static $($resource)*, // `ReadResourceResult<'static>`, not `ReadResourceResult`
        ) -> &mut Self {
            let handler = $store!(self, resource, handler, &ResourceTarget<'_>);
            self $($router)* .add_resource(resource, handler);
            self
        }

        /// Adds a resource template. Its resources are read by URIs that match the template.
        ///
        /// The handler gets the values of the variables. `None` answers with "resource not found".
        $vis fn resource_template<T: IntoReadResult + 'static>(
            &mut self,
            template: ResourceTemplate,
            handler: impl $Fn($($before,)+ &ResourceTarget<'_>) -> T + 'static $($resource)*, // `ReadResourceResult<'static>`, not `ReadResourceResult`
        ) -> &mut Self {
            let handler = $store!(self, resource, handler, &ResourceTarget<'_>);
            self $($router)* .add_resource_template(template, handler);
            self
        }

        /// Adds a prompt. Its arguments may have any type whose members can be parsed from strings, or `()`. An `async fn`
        /// returns `Vec<PromptMessage<'static>>`, with the lifetime.
        $vis fn prompt<A, T>(
            &mut self,
            prompt: Prompt,
            handler: impl $Fn($($before,)+ A) -> T + 'static $($arguments)*, // `PromptMessage<'static>`, not `PromptMessage`
        ) -> &mut Self
        where
            A: DeserializeOwned + 'static $($data)*,
            T: IntoPromptResult + 'static,
        {
            let handler = $store!(self, prompt, handler, A);
            self $($router)* .add_prompt(prompt, handler);
            self
        }

        /// Adds the completion of an argument of a prompt, or of a variable of a template. That must be registered
        /// already.
        $vis fn completion<'r, T: IntoCompletion + 'static>(
            &mut self,
            reference: impl Into<CompletionReference<'r>>,
            argument: &str,
            handler: impl $Fn($($before,)+ &CompletionTarget<'_>) -> T + 'static $($completion)*,
        ) -> &mut Self {
            let handler = $store!(self, completion, handler, &CompletionTarget<'_>);
            self $($router)* .add_completion(reference.into(), argument, handler);
            self
        }
    };
}

macro_rules! store_local_function {
    ($self:ident, $kind:ident, $handler:ident, $arguments:ty) => {
        local_functions::$kind($handler)
    };
}

macro_rules! store_shared_function {
    ($self:ident, $kind:ident, $handler:ident, $arguments:ty) => {
        shared_functions::$kind($handler)
    };
}

macro_rules! store_local_future {
    ($self:ident, $kind:ident, $handler:ident, $arguments:ty) => {
        local_futures::$kind($handler)
    };
}

macro_rules! store_send_future {
    ($self:ident, $kind:ident, $handler:ident, $arguments:ty) => {
        send_futures::$kind($handler)
    };
}

impl<R: 'static> Router<Functions<R>> {
    entries! {
        pub FnMut(&mut Cx<'_>), data: [], bounds: [] [] [], adapter: R, router: [], store: store_local_function
    }
}

impl<R: 'static> Router<SharedFunctions<R>> {
    entries! {
        pub Fn(&mut Cx<'_>), data: [],
        bounds: [+ Send + Sync] [+ Send + Sync] [+ Send + Sync],
        adapter: R, router: [], store: store_shared_function
    }
}

impl<R: 'static> Router<LocalFutures<R>> {
    entries! {
        pub AsyncFn(&mut AsyncCx), data: [], bounds: [] [] [], adapter: R, router: [], store: store_local_future
    }
}

impl<R: 'static> Router<SendFutures<R>> {
    entries! {
        pub AsyncFnOnce(&mut AsyncCx), data: [+ Send],
        bounds:
            [+ for<'a> SendCall<(&'a mut AsyncCx, A), T>]
            [+ for<'a> SendCall<(&'a mut AsyncCx, &'a ResourceTarget<'a>), T>]
            [+ for<'a> SendCall<(&'a mut AsyncCx, &'a CompletionTarget<'a>), T>],
        adapter: R, router: [], store: store_send_future
    }
}

/// Stores handlers of entries.
impl<F: Flavor> Router<F> {
    fn add_tool(&mut self, mut tool: Tool, output: Option<RawJson>, handler: F::Handler) -> ToolEntry<'_> {
        tool.output_schema = tool.output_schema.or(output);
        let name = tool.name.clone();
        let added = self.state_mut().core.tool(tool, handler).map(drop);
        match added {
            Ok(()) => self.state_mut().core.tool_entry(&name),
            Err(error) => {
                self.record(Err(error));
                ToolEntry::none()
            }
        }
    }

    fn add_resource(&mut self, resource: Resource, handler: F::Handler) {
        let added = self.state_mut().core.resource(resource, handler).map(drop);
        self.record(added);
    }

    fn add_resource_template(&mut self, template: ResourceTemplate, handler: F::Handler) {
        let added = self.state_mut().core.resource_template(template, handler).map(drop);
        self.record(added);
    }

    fn add_prompt(&mut self, prompt: Prompt, handler: F::Handler) {
        let added = self.state_mut().core.prompt(prompt, handler).map(drop);
        self.record(added);
    }

    fn add_completion(&mut self, reference: CompletionReference<'_>, argument: &str, handler: F::Handler) {
        let added = self.state_mut().core.completion(reference, argument, handler);
        self.record(added);
    }
}

mod any;
mod blocking;
mod callbacks;
mod state;

pub use any::{FunctionsWithState, RegisterFunctions, RegisterFutures};
pub use state::WithState;
