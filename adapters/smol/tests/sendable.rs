//! Which futures can move between threads is decided by what handlers hold, when they are compiled

extern crate alloc;

use alloc::rc::Rc;
use core::cell::Cell;
use std::os::unix::net::UnixStream;

use async_io::Async;
use mcp_proto::server::Config;
use mcp_proto::{RpcError, model::CallToolResult};
use mcp_smol::{Answered, Call, Cx, Handler, Server, serve};

fn sendable<T: Send>(_: &T) {}

struct Shared;

impl Handler for Shared {
    async fn call(&self, cx: &mut Cx<'_>, call: &Call) -> Result<Answered, RpcError> {
        cx.sleep(core::time::Duration::from_millis(1)).await?;
        let name = call.tool()?.name;
        futures_lite::future::yield_now().await;
        cx.complete(&CallToolResult::text(name))
    }
}

#[test]
fn handlers_that_can_move_make_servers_that_can() {
    let (near, _far) = Async::<UnixStream>::pair().unwrap();
    sendable(&serve(Config::new("a", "1"), near, Shared));
    let (near, _far) = Async::<UnixStream>::pair().unwrap();
    let held = String::from("held");
    let server = serve(Config::new("a", "1"), near, async move |cx: &mut Cx<'_>, call: &Call| {
        cx.sleep(core::time::Duration::from_millis(1)).await?;
        let _ = (&held, call.method());
        cx.complete(&CallToolResult::text("done"))
    });
    sendable(&server);
    let (near, _far) = Async::<UnixStream>::pair().unwrap();
    let server = Server::new(Config::new("a", "1"), near, Shared);
    sendable(&server.handle());
    sendable(&server.run());
}

#[cfg(feature = "http")]
#[test]
fn over_http_too_and_in_one_shard_handlers_need_not_move() {
    use mcp_proto::http::server::Config as Http;
    use mcp_smol::HttpServer;

    let server = HttpServer::bind("127.0.0.1:0", Config::new("a", "1"), Http::new(), Shared).unwrap();
    sendable(&server.run());
    let server = HttpServer::bind("127.0.0.1:0", Config::new("a", "1"), Http::new(), Shared).unwrap();
    sendable(&server.shards(2).run());
    let held = Rc::new(Cell::new(0));
    let handler = async move |cx: &mut Cx<'_>, _: &Call| {
        held.set(held.get() + 1);
        cx.complete(&CallToolResult::text("done"))
    };
    let server = HttpServer::bind("127.0.0.1:0", Config::new("a", "1"), Http::new(), handler).unwrap();
    server.handle().shutdown(core::time::Duration::ZERO);
    async_io::block_on(server.run()).unwrap();
}

#[test]
fn handlers_that_cannot_move_are_served_where_they_are() {
    let (near, far) = Async::<UnixStream>::pair().unwrap();
    drop(far);
    let count = Rc::new(Cell::new(0));
    let server = serve(Config::new("a", "1"), near, async move |cx: &mut Cx<'_>, _: &Call| {
        let mine = count.clone();
        futures_lite::future::yield_now().await;
        mine.set(mine.get() + 1);
        cx.complete(&CallToolResult::text("done"))
    });
    async_io::block_on(server).unwrap();
}

/// Of anything in one way, and in a second way of what can move: which of them is meant is not clear then
trait Stays<Way> {
    fn stays(&self) {}
}

impl<T> Stays<()> for T {}
impl<T: Send> Stays<u8> for T {}

#[test]
fn it_is_the_handler_that_keeps_a_server_where_it_is() {
    let (near, _far) = Async::<UnixStream>::pair().unwrap();
    let held = Rc::new(());
    let server = serve(Config::new("a", "1"), near, async move |cx: &mut Cx<'_>, _: &Call| {
        let _held = held.clone();
        cx.complete(&CallToolResult::text("done"))
    });
    Stays::stays(&server);
}
