//! Client and server of this package, for suites that are run on every adapter

#![allow(dead_code, unused_imports, unused_macros, reason = "each test program uses a part of it")]

use alloc::borrow::Cow;
use core::time::Duration;
use std::os::unix::net::UnixStream;
use std::thread::{self, JoinHandle};

use async_io::Async;
use mcp_proto::client::{self, InputId, Kind, SchemaValidator, SubscriptionKey};
use mcp_proto::model::{
    CallToolResult, CompleteResult, CompletionReference, GetPromptResult, InputResponse, ReadResourceResult,
    Request, Resource, ResourceTemplate, SubscriptionFilter, Tool,
};
use mcp_proto::{CallOptions, Progress, RawJson, RpcError};
pub(crate) use mcp_smol::{Cx, Error, Options, Router};
use mcp_smol::{Pending, block_on};
use mcp_std::{Duplex, Socket};
use serde::Serialize;

/// Whether callbacks run apart from the loop, so that the next one begins before it is known what became of the last
pub(crate) const APART: bool = false;

/// A handler, written as a closure that waits for nothing
macro_rules! handler {
    (move $($closure:tt)*) => { async move $($closure)* };
    ($($closure:tt)*) => { async $($closure)* };
}
pub(crate) use handler;

/// What comes by a channel, waited for in a handler
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

/// A client whose futures are run where they are made
pub(crate) struct Client(mcp_smol::Client);

macro_rules! run_here {
    ($(fn $name:ident(&self $(, $argument:ident: $type:ty)*) -> $result:ty;)*) => {
        impl Client {
            $(pub(crate) fn $name(&self $(, $argument: $type)*) -> Result<$result, Error> {
                block_on(self.0.$name($($argument),*))
            })*
        }
    };
}

run_here! {
    fn ping(&self) -> Duration;
    fn list(&self, kind: Kind) -> Vec<RawJson>;
    fn list_tools(&self) -> Vec<Tool>;
    fn list_resources(&self) -> Vec<Resource>;
    fn list_resource_templates(&self) -> Vec<ResourceTemplate>;
    fn list_prompts(&self) -> Vec<mcp_proto::model::Prompt>;
    fn read_resource(&self, uri: &str) -> ReadResourceResult<'static>;
    fn subscribe(&self, filter: &SubscriptionFilter) -> (SubscriptionKey, SubscriptionFilter);
    fn unsubscribe(&self, subscription: SubscriptionKey) -> ();
    fn answer(&self, input: InputId, response: &InputResponse<'_>) -> ();
    fn refuse(&self, input: InputId, error: &RpcError) -> ();
    fn wait(&self, call: Pending) -> RawJson;
}

impl Client {
    pub(crate) fn options(config: client::Config) -> Options {
        mcp_smol::Client::options(config)
    }

    pub(crate) fn call_tool<T: Serialize>(
        &self,
        name: &str,
        arguments: &T,
    ) -> Result<CallToolResult<'static>, Error> {
        block_on(self.0.call_tool(name, arguments))
    }

    pub(crate) fn get_prompt<T: Serialize>(
        &self,
        name: &str,
        arguments: &T,
    ) -> Result<GetPromptResult<'static>, Error> {
        block_on(self.0.get_prompt(name, arguments))
    }

    pub(crate) fn complete<'a>(
        &self,
        reference: impl Into<CompletionReference<'a>>,
        argument: impl Into<Cow<'a, str>>,
        value: impl Into<Cow<'a, str>>,
    ) -> Result<CompleteResult, Error> {
        block_on(self.0.complete(reference, argument, value))
    }

    pub(crate) fn request<T: Serialize>(
        &self,
        method: &str,
        params: &T,
        options: &CallOptions,
    ) -> Result<RawJson, Error> {
        block_on(self.0.request(method, params, options))
    }

    pub(crate) fn send<R: Request>(&self, params: &R) -> Result<R::Result, Error> {
        block_on(self.0.send(params))
    }

    pub(crate) fn send_with<R: Request>(
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
    ) -> Result<Pending, Error> {
        self.0.start_tool(name, arguments, options)
    }

    pub(crate) fn cancel(&self, call: Pending, reason: Option<&str>) -> Result<(), Error> {
        self.0.cancel(call, reason)
    }

    pub(crate) fn set_validator(&self, validator: impl SchemaValidator + 'static) {
        self.0.set_validator(validator);
    }

    pub(crate) fn forget_kept(&self) {
        self.0.forget_kept();
    }

    pub(crate) fn close(self) -> Result<(), Error> {
        block_on(self.0.close()).map(|_| ())
    }
}

fn streams() -> (UnixStream, Async<UnixStream>) {
    let (near, far) = UnixStream::pair().expect("a pair");
    (near, Async::new(far).expect("a stream"))
}

/// A client, and a thread that plays its server
pub(crate) fn connect<T: Send + 'static>(
    options: Options,
    serve: impl FnOnce(Box<dyn Duplex>) -> T + Send + 'static,
) -> (Client, JoinHandle<T>) {
    let (near, far) = streams();
    let serving = thread::spawn(move || serve(Box::new(Socket::unix(near).expect("a stream"))));
    (Client(block_on(options.connect(far)).expect("a connection")), serving)
}

/// A client, and the server of a router in a thread
pub(crate) fn serve(
    router: impl FnOnce() -> Router + Send + 'static,
    options: Options,
) -> (Client, JoinHandle<Result<(), Error>>) {
    let (near, far) = streams();
    let serving = thread::spawn(move || block_on(router().serve(Async::new(near)?)));
    (Client(block_on(options.connect(far)).expect("a connection")), serving)
}

/// Has what came for the client told, and waits a little if nothing did
pub(crate) fn turn(client: &mut Client) {
    block_on(client.0.poll(Duration::from_millis(1))).expect("a connection");
}
