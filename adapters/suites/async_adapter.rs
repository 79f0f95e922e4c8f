//! Knobs of the shared suites, for adapters whose handlers, clients and servers are futures.
//!
//! `crate::support::adapter` adds those of its runtime.

use alloc::borrow::Cow;
use core::time::Duration;
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use mcp_proto::EntryKind;
use mcp_proto::client::{self, InputId, SchemaValidator, StartedTask, SubscriptionKey, TaskHandle};
use mcp_proto::model::{
    CallToolResult, CompleteResult, CompletionReference, GetPromptResult, InputResponse, InputResponses,
    ReadResourceResult, RequestParams, Resource, ResourceTemplate, SubscriptionFilter, Task, Tool,
};
use mcp_proto::{CallOptions, Progress, RawJson, RpcError, server};
pub(crate) use mcp_runtime::server::router::async_layer_fn as layer_fn;
use mcp_std::io::{Duplex, Socket};
use serde::Serialize;

#[cfg(feature = "http")]
pub(crate) use super::package::HttpServer;
use super::package::PendingCall;
pub(crate) use super::package::{
    Answered, Call, Cx, Error, Handle, Handler, HandlerFailure, Options, Server,
};
use super::{
    AsyncRead, AsyncStream, AsyncWrite, Router, async_stream, block_on, block_on_reactor, enter, package,
};

/// Returns the ends of a new stream.
pub(crate) fn async_pair() -> (AsyncStream, AsyncStream) {
    let (near, far) = UnixStream::pair().expect("a pair");
    (async_stream(near), async_stream(far))
}

/// Whether callbacks run apart from the loop, so that the next one may begin before the last one has ended.
pub(crate) const RUNS_IN_BACKGROUND: bool = false;

/// Whether a handler runs while another one of the same connection waits.
pub(crate) const HANDLERS_OVERLAP: bool = true;

/// Whether a handler that hangs stops all others.
pub(crate) const IS_SINGLE_THREADED: bool = false;

/// Makes a handler of a closure. The closure may use [`wait`].
macro_rules! handler {
    (move $($closure:tt)*) => { async move $($closure)* };
    ($($closure:tt)*) => { async $($closure)* };
}
pub(crate) use handler;

/// Declares a function that handlers call. Its body may use [`wait`].
macro_rules! handler_fn {
    ($(#[$attribute:meta])* $visibility:vis fn $($function:tt)*) => {
        $(#[$attribute])* $visibility async fn $($function)*
    };
}
pub(crate) use handler_fn;

/// Waits for the outcome of an operation of the adapter. Valid in handlers only.
macro_rules! wait {
    ($operation:expr) => {
        $operation.await
    };
}
pub(crate) use wait;

/// As [`wait`], with all code of the operation inside of the function `$inside`.
macro_rules! wait_inside {
    ($inside:expr, $operation:expr) => {{
        let mut operation = core::pin::pin!($operation);
        core::future::poll_fn(|cx| $inside(&mut || operation.as_mut().poll(cx))).await
    }};
}
pub(crate) use wait_inside;

/// Makes a layer of a client, whose body may use [`wait`] and the clonable values that the list names.
macro_rules! client_layer {
    ([$($held:ident),*] |$request:ident, $next:ident| $body:block) => {
        move |$request, $next| {
            $(let $held = $held.clone();)*
            async move $body
        }
    };
}
pub(crate) use client_layer;

/// Runs a server or a client operation to its end. Valid outside of handlers.
macro_rules! run {
    ($operation:expr) => {
        crate::support::adapter::block_on($operation)
    };
}
pub(crate) use run;

/// Runs a server to its end by another executor than [`run`], if the adapter works with several.
macro_rules! run_on_reactor {
    ($operation:expr) => {
        crate::support::adapter::block_on_reactor($operation)
    };
}
pub(crate) use run_on_reactor;

/// Returns the handle of a server.
macro_rules! server_handle {
    ($server:expr) => {
        $server.handle()
    };
}
pub(crate) use server_handle;

/// Receives from a channel, in a handler.
macro_rules! receive {
    ($cx:expr, $channel:expr) => {
        loop {
            match $channel.try_recv() {
                Ok(value) => break value,
                Err(_) => $cx.sleep(core::time::Duration::from_millis(1)).await.unwrap(),
            }
        }
    };
}
pub(crate) use receive;

/// Implements [`Handler`]. The first method must be `call`; its body may use [`wait`].
macro_rules! impl_handler {
    ($type:ty { fn call($($arguments:tt)*) -> $result:ty $body:block $($methods:tt)* }) => {
        impl crate::support::adapter::Handler for $type {
            async fn call($($arguments)*) -> $result $body
            $($methods)*
        }
    };
}
pub(crate) use impl_handler;

/// Record of the sleeping handler of `testing.rs` when its call is cancelled.
pub(crate) const SLEEP_CANCELLED: &str = "dropped";

/// Makes a test server of a handler.
macro_rules! test_server {
    ($config:expr, $handler:expr) => {
        mcp_blocking::testing::Server::from_peer(
            $config,
            crate::support::adapter::package::testing::test_peer($handler),
        )
    };
}
pub(crate) use test_server;

/// Record of the handler of [`super::Tools`] when its call is cancelled by the client.
pub(crate) const CANCELLED_BY_CLIENT: &str = "dropped";
/// Its record when the exchange of its call is closed.
pub(crate) const CANCELLED_BY_CLOSE: &str = "dropped";

/// Never returns.
pub(crate) async fn hang() -> ! {
    core::future::pending().await
}

/// Sleeps until the call is cancelled, which drops the future.
pub(crate) async fn sleep_until_cancelled(_: &mut Cx) -> Result<(), RpcError> {
    core::future::pending().await
}

/// Serves one client on a stream.
pub(crate) fn serve_handler<S: AsyncRead + AsyncWrite + Unpin>(
    config: server::Config,
    stream: S,
    handler: impl Handler,
) -> Result<(), Error> {
    block_on_reactor(package::serve(config, stream, handler))
}

pub(crate) fn make_stdio_server<H: Handler>(config: server::Config, handler: H) -> Server<package::Stdio, H> {
    let _entered = enter();
    Server::stdio(config, handler).unwrap()
}

pub(crate) fn serve_stdio(config: server::Config, handler: impl Handler) -> Result<(), Error> {
    block_on(package::serve_stdio(config, handler))
}

/// Runs a server to its end.
#[cfg(feature = "http")]
pub(crate) fn run_http<H: Handler>(server: HttpServer<H>) -> Result<(), Error> {
    block_on_reactor(server.run())
}

#[cfg(feature = "http")]
pub(crate) fn with_two_shards<H: Handler + Send + Sync + 'static>(server: HttpServer<H>) -> HttpServer<H> {
    server.shards(2)
}

/// A client that runs its futures on the calling thread.
pub(crate) struct Client(pub(crate) package::Client);

/// Returns the client of the package.
macro_rules! inner_client {
    ($client:expr) => {
        &$client.0
    };
}
pub(crate) use inner_client;

/// The events of a client of the package, whose operations need [`run`].
macro_rules! events_client {
    ($client:expr) => {
        mcp_events::client::EventsClient::new($client)
    };
}
pub(crate) use events_client;

/// Waits for the next event of a follower.
macro_rules! next_event {
    ($follower:expr) => {
        crate::support::adapter::block_on($follower.next())
    };
}
pub(crate) use next_event;

macro_rules! forward_blocking {
    ($(fn $name:ident(&self $(, $argument:ident: $type:ty)*) -> $result:ty;)*) => {
        impl Client {
            $(pub(crate) fn $name(&self $(, $argument: $type)*) -> Result<$result, Error> {
                block_on(self.0.$name($($argument),*))
            })*
        }
    };
}

forward_blocking! {
    fn ping(&self) -> Duration;
    fn list(&self, kind: EntryKind) -> Vec<RawJson>;
    fn list_tools(&self) -> Vec<Tool>;
    fn list_model_tools(&self) -> Vec<Tool>;
    fn list_resources(&self) -> Vec<Resource>;
    fn list_resource_templates(&self) -> Vec<ResourceTemplate>;
    fn list_prompts(&self) -> Vec<mcp_proto::model::Prompt>;
    fn read_pins(&self, peer: &client::Peer) -> package::pins::Pins;
    fn list_skills(&self) -> Vec<package::skills::Skill>;
    fn get_skill(&self, uri: &str) -> package::skills::Skill;
    fn read_directory(&self, uri: &str) -> Vec<Resource>;
    fn read_resource(&self, uri: &str) -> ReadResourceResult<'static>;
    fn subscribe(&self, filter: &SubscriptionFilter) -> (SubscriptionKey, SubscriptionFilter);
    fn unsubscribe(&self, subscription: SubscriptionKey) -> ();
    fn answer(&self, input: InputId, response: &InputResponse<'_>) -> ();
    fn refuse(&self, input: InputId, error: &RpcError) -> ();
    fn wait(&self, call: PendingCall) -> RawJson;
    fn wait_task(&self, task: &TaskHandle) -> CallToolResult<'static>;
    fn wait_task_with(&self, task: &TaskHandle, options: &CallOptions) -> CallToolResult<'static>;
    fn get_task(&self, task: &TaskHandle) -> Task<'static>;
    fn update_task(&self, task: &TaskHandle, responses: &InputResponses<'_>) -> ();
    fn cancel_task(&self, task: &TaskHandle) -> ();
}

impl Client {
    pub(crate) fn options(config: client::Config) -> Options {
        package::Client::options(config)
    }

    pub(crate) fn call_tool<T: Serialize>(
        &self,
        name: &str,
        arguments: &T,
    ) -> Result<CallToolResult<'static>, Error> {
        block_on(self.0.call_tool(name, arguments))
    }

    pub(crate) fn peer(&self) -> &client::Peer {
        self.0.peer()
    }

    pub(crate) fn pin(&self, pins: package::pins::Pins) {
        self.0.pin(pins);
    }

    pub(crate) fn call_tool_for_app<T: Serialize>(
        &self,
        name: &str,
        arguments: &T,
    ) -> Result<CallToolResult<'static>, Error> {
        block_on(self.0.call_tool_for_app(name, arguments))
    }

    pub(crate) fn call_tool_with<T: Serialize>(
        &self,
        name: &str,
        arguments: &T,
        options: &CallOptions,
        on_progress: &mut (dyn FnMut(&Progress) + Send),
    ) -> Result<CallToolResult<'static>, Error> {
        block_on(self.0.call_tool_with(name, arguments, options, on_progress))
    }

    pub(crate) fn start_task<T: Serialize>(
        &self,
        name: &str,
        arguments: &T,
        ttl: Option<Duration>,
    ) -> Result<StartedTask, Error> {
        block_on(self.0.start_task(name, arguments, ttl))
    }

    pub(crate) fn resume_task(&self, text: &str) -> Result<TaskHandle, Error> {
        self.0.resume_task(text)
    }

    pub(crate) fn get_prompt<T: Serialize>(
        &self,
        name: &str,
        arguments: &T,
    ) -> Result<GetPromptResult<'static>, Error> {
        block_on(self.0.get_prompt(name, arguments))
    }

    #[cfg(feature = "skills")]
    pub(crate) fn read_skill_file(
        &self,
        skill: &package::skills::Skill,
        file: &str,
    ) -> Result<package::skills::SkillContent, Error> {
        block_on(self.0.read_skill_file(skill, file))
    }

    pub(crate) fn complete<'a>(
        &self,
        reference: impl Into<CompletionReference<'a>>,
        argument: impl Into<Cow<'a, str>>,
        value: impl Into<Cow<'a, str>>,
    ) -> Result<CompleteResult, Error> {
        block_on(self.0.complete(reference, argument, value))
    }

    pub(crate) fn complete_typed(
        &self,
        completer: &mcp_runtime::SharedCompleter,
        params: &mcp_proto::model::CompleteParams<'_>,
    ) -> Result<Option<CompleteResult>, Error> {
        block_on(self.0.complete_typed(completer, params))
    }

    pub(crate) fn request<T: Serialize>(
        &self,
        method: &str,
        params: &T,
        options: &CallOptions,
    ) -> Result<RawJson, Error> {
        block_on(self.0.request(method, params, options))
    }

    pub(crate) fn send<R: RequestParams>(&self, params: &R) -> Result<R::Result, Error> {
        block_on(self.0.send(params))
    }

    pub(crate) fn send_with<R: RequestParams>(
        &self,
        params: &R,
        options: &CallOptions,
        on_progress: &mut (dyn FnMut(&Progress) + Send),
    ) -> Result<R::Result, Error> {
        block_on(self.0.send_with(params, options, on_progress))
    }

    pub(crate) fn start_tool<T: Serialize>(
        &self,
        name: &str,
        arguments: &T,
        options: &CallOptions,
    ) -> Result<PendingCall, Error> {
        self.0.start_tool(name, arguments, options)
    }

    pub(crate) fn cancel(&self, call: PendingCall, reason: Option<&str>) -> Result<(), Error> {
        self.0.cancel(call, reason)
    }

    pub(crate) fn set_validator(&self, validator: impl SchemaValidator + 'static) {
        self.0.set_validator(validator);
    }

    pub(crate) fn clear_cache(&self) {
        self.0.clear_cache();
    }

    pub(crate) fn close(self) -> Result<(), Error> {
        block_on(self.0.close()).map(|_| ())
    }
}

fn stream_pair() -> (UnixStream, AsyncStream) {
    let (near, far) = UnixStream::pair().expect("a pair");
    (near, async_stream(far))
}

/// Connects a client to a server that `serve` plays on a thread.
pub(crate) fn connect<T: Send + 'static>(
    options: Options,
    serve: impl FnOnce(Box<dyn Duplex>) -> T + Send + 'static,
) -> (Client, JoinHandle<T>) {
    let (near, far) = stream_pair();
    let serving = thread::spawn(move || serve(Box::new(Socket::unix(near).expect("a stream"))));
    (Client(block_on(options.connect(far)).expect("a connection")), serving)
}

/// Connects a client to the server of a router on a thread.
pub(crate) fn serve(
    router: impl FnOnce() -> Router + Send + 'static,
    options: Options,
) -> (Client, JoinHandle<Result<(), Error>>) {
    let (near, far) = stream_pair();
    let serving = thread::spawn(move || block_on(router().serve(async_stream(near))));
    (Client(block_on(options.connect(far)).expect("a connection")), serving)
}

/// Serves a router on a thread, with `config` instead of its own if given. Returns the client end of the stream.
pub(crate) fn serve_stream(
    router: impl FnOnce() -> Router + Send + 'static,
    config: Option<server::Config>,
) -> (Box<dyn Duplex>, JoinHandle<Result<(), Error>>) {
    let (near, far) = UnixStream::pair().expect("a pair");
    let serving = thread::spawn(move || match config {
        Some(config) => serve_handler(config, async_stream(near), router()),
        None => block_on(router().serve(async_stream(near))),
    });
    (Box::new(Socket::unix(far).expect("a stream")), serving)
}

/// Serves a handler on a thread. Returns the client end of the stream and a handle of the server.
pub(crate) fn serve_with_handle<H: Handler>(
    config: server::Config,
    make: impl FnOnce() -> H + Send + 'static,
) -> (Box<dyn Duplex>, Handle, JoinHandle<Result<(), Error>>) {
    let (near, far) = UnixStream::pair().expect("a pair");
    let (sender, receiver) = mpsc::channel();
    let serving = thread::spawn(move || {
        let server = Server::new(config, async_stream(near), make());
        sender.send(server.handle()).expect("a receiver");
        block_on(server.run())
    });
    let stream = Socket::unix(far).expect("a stream");
    (Box::new(stream), receiver.recv().expect("a handle"), serving)
}

/// Dispatches what arrived for the client, and waits up to a millisecond if nothing did.
pub(crate) fn poll_client(client: &mut Client) {
    block_on(client.0.poll(Duration::from_millis(1))).expect("a connection");
}
