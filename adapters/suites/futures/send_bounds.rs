//! Suite: which futures are `Send`, which depends on what the handler holds.
//!
//! `crate::adapter` names the adapter under test.

use alloc::rc::Rc;
use core::cell::Cell;

use mcp_proto::server::Config;
use mcp_proto::{RpcError, model::CallToolResult};

use crate::adapter::package::{Answered, Call, Cx, Handler, Server, serve};
use crate::adapter::{SendRouter, async_pair, block_on_reactor as block_on, yield_now};

fn assert_send<T: Send>(_: &T) {}

struct StatelessHandler;

impl Handler for StatelessHandler {
    async fn call(&self, cx: &mut Cx, call: &Call) -> Result<Answered, RpcError> {
        cx.sleep(core::time::Duration::from_millis(1)).await?;
        let name = call.tool_call()?.name;
        yield_now().await;
        cx.complete(&CallToolResult::text(name))
    }
}

#[test]
fn server_future_is_send_if_handler_is() {
    let (near, _far) = async_pair();
    assert_send(&serve(Config::new("a", "1"), near, StatelessHandler));
    let (near, _far) = async_pair();
    let held = String::from("held");
    let server = serve(Config::new("a", "1"), near, async move |cx: &mut Cx, call: &Call| {
        cx.sleep(core::time::Duration::from_millis(1)).await?;
        let _ = (&held, call.method());
        cx.complete(&CallToolResult::text("done"))
    });
    assert_send(&server);
    let (near, _far) = async_pair();
    let server = Server::new(Config::new("a", "1"), near, StatelessHandler);
    assert_send(&server.handle());
    assert_send(&server.run());
}

#[cfg(feature = "http")]
#[test]
fn http_server_future_is_send_if_handler_is() {
    use mcp_proto::http::server::Config as Http;

    use crate::adapter::HttpServer;

    let server =
        HttpServer::bind("127.0.0.1:0", Config::new("a", "1"), Http::new(), StatelessHandler).unwrap();
    assert_send(&server.run());
    let server =
        HttpServer::bind("127.0.0.1:0", Config::new("a", "1"), Http::new(), StatelessHandler).unwrap();
    assert_send(&server.shards(2).run());
    let held = Rc::new(Cell::new(0));
    let handler = async move |cx: &mut Cx, _: &Call| {
        held.set(held.get() + 1);
        cx.complete(&CallToolResult::text("done"))
    };
    let server = HttpServer::bind("127.0.0.1:0", Config::new("a", "1"), Http::new(), handler).unwrap();
    server.handle().shutdown(core::time::Duration::ZERO);
    block_on(server.run()).unwrap();
}

#[test]
fn handler_that_is_not_send_is_served() {
    let (near, far) = async_pair();
    drop(far);
    let count = Rc::new(Cell::new(0));
    let server = serve(Config::new("a", "1"), near, async move |cx: &mut Cx, _: &Call| {
        let counter = count.clone();
        yield_now().await;
        counter.set(counter.get() + 1);
        cx.complete(&CallToolResult::text("done"))
    });
    block_on(server).unwrap();
}

/// Implemented once for all types, and again for `Send` types: the call is ambiguous for a type that is `Send`.
trait AssertNotSend<Way> {
    fn assert_not_send(&self) {}
}

impl<T> AssertNotSend<()> for T {}
impl<T: Send> AssertNotSend<u8> for T {}

#[test]
fn server_future_is_not_send_if_handler_is_not() {
    let (near, _far) = async_pair();
    let held = Rc::new(());
    let server = serve(Config::new("a", "1"), near, async move |cx: &mut Cx, _: &Call| {
        let _held = held.clone();
        cx.complete(&CallToolResult::text("done"))
    });
    AssertNotSend::assert_not_send(&server);
}

#[test]
fn futures_of_routers_are_send() {
    let router = || SendRouter::new("a", "1");
    let (near, _far) = async_pair();
    assert_send(&router().serve(near));
    assert_send(&router().serve_stdio());
    #[cfg(feature = "http")]
    assert_send(&router().serve_http("127.0.0.1:0", mcp_proto::http::server::Config::new()));
}
