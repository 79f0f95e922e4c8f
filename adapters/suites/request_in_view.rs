//! Suite: the HTTP request and the values of the application that handlers see, on real sockets.
//!
//! `crate::adapter` names the adapter under test.

#![allow(elided_lifetimes_in_paths, reason = "the context has a lifetime in some adapters only")]
#![allow(unused_mut, reason = "each adapter uses a part of it")]

use std::io::{Read, Write};

use mcp_proto::RpcError;
use mcp_proto::http::server::Config as Http;
use mcp_proto::model::{CallToolResult, Resource, ResourceContents};
use mcp_proto::router::{Hook, HookContext, ResourceTarget};

use super::http::{HttpTestServer, call};
use crate::adapter::{Answered, Call, Cx, Router, handler, impl_handler};
use crate::support::{ERAS, NoteLog, with_timeout};

/// The port of the client, as the callback of the server attached it.
struct Port(u16);

/// Tells what it sees of its request.
struct ViewHandler;

impl_handler! {
    ViewHandler {
        fn call(&self, cx: &mut Cx, _: &Call) -> Result<Answered, RpcError> {
            let http = cx.http().ok_or_else(|| RpcError::internal("no request"))?;
            let peer = http.peer_addr().ok_or_else(|| RpcError::internal("no peer"))?;
            let port = cx.extension().is_some_and(|Port(port)| *port == peer.port());
            let agent = http.field_text("user-agent").unwrap_or_default();
            let text = format!("{} {} {port} {agent}", http.path(), peer.ip());
            cx.complete(&CallToolResult::text(text))
        }
    }
}

fn ask(served: &HttpTestServer) -> String {
    let mut stream = served.connect();
    let fields = "User-Agent: demo/1\r\nConnection: close\r\n";
    stream.write_all(&call("any", "{}", fields)).expect("the server reads");
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    answer
}

#[test]
fn handlers_see_request_and_connection() {
    with_timeout(|| {
        let http = Http::new().visible_fields(["User-Agent"]).expect("no secret");
        let served = HttpTestServer::with_options(
            http,
            || ViewHandler,
            |server| {
                server.on_connect(|info| {
                    let port = info.peer().map_or(0, |peer| peer.port());
                    info.extension(Port(port))
                })
            },
        );
        let answer = ask(&served);
        assert!(answer.contains("/mcp 127.0.0.1 true demo/1"), "{answer}");
        served.stop();
        // A connection whose description fails is none, and the server goes on.
        let served = HttpTestServer::with_options(
            Http::new(),
            || ViewHandler,
            |server| {
                let is_first = core::sync::atomic::AtomicBool::new(true);
                server.on_connect(move |info| {
                    assert!(!is_first.swap(false, core::sync::atomic::Ordering::SeqCst), "not described");
                    info
                })
            },
        );
        assert_eq!(ask(&served), "");
        let answer = ask(&served);
        assert!(answer.contains("/mcp 127.0.0.1 false "), "{answer}");
        served.stop();
    });
}

/// Notes the request of each call.
struct RequestNote(NoteLog);

impl Hook for RequestNote {
    fn before_call(&self, context: &HookContext<'_>) -> Result<(), RpcError> {
        let http = context.call().http().ok_or_else(|| RpcError::internal("no request"))?;
        self.0.record(format!("{} {}", http.method(), http.path()));
        Ok(())
    }
}

#[test]
fn hooks_and_resource_readers_see_the_request() {
    with_timeout(|| {
        let notes = NoteLog::default();
        let hook = RequestNote(notes.clone());
        let served = HttpTestServer::new(|| {
            let mut router = Router::new("view", "1");
            router.hook(hook);
            router.resource(
                Resource::new("view:path", "path"),
                handler!(|cx: &mut Cx, _: &ResourceTarget<'_>| {
                    cx.http().map_or_else(String::new, |http| http.path().to_owned())
                }),
            );
            router
        });
        for era in ERAS {
            let client = served.client(era);
            let result = client.read_resource("view:path").unwrap();
            assert!(matches!(&result.contents[0], ResourceContents::Text(text) if text.text == "/mcp"));
            assert_eq!(notes.take(), ["POST /mcp"]);
            client.close().unwrap();
        }
        served.stop();
    });
}
