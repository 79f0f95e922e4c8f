//! Suite: a protected HTTP server: principals and scopes of calls, and validators on and off the loop.
//!
//! `crate::adapter` names the adapter under test.

#![allow(elided_lifetimes_in_paths, reason = "the context has a lifetime in some adapters only")]
#![allow(unused_mut, reason = "each adapter uses a part of it")]

use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::time::Duration;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::Instant;

use mcp_auth::token::off_loop;
use mcp_proto::RpcError;
use mcp_proto::http::server::{Config as Http, Denial, Protected, TokenRequest};
use mcp_proto::model::CallToolResult;
use mcp_proto::server::Identity;

use super::http::{HttpTestServer, call};
use crate::adapter::{Answered, Call, Cx, Handler, HttpServer, impl_handler};
use crate::support::with_timeout;

/// Tells who calls, and asks for scopes.
struct ScopedHandler;

impl_handler! {
    ScopedHandler {
        fn call(&self, cx: &mut Cx, call: &Call) -> Result<Answered, RpcError> {
            if call.tool_call()?.name == "mail" {
                cx.require_scopes(&["files:write", "mail"])?;
            }
            let scopes = cx.scopes().map(|scopes| scopes.as_str().to_owned());
            let text = format!("{:?} {scopes:?} {}", cx.principal(), cx.has_scope("files:write"));
            cx.complete(&CallToolResult::text(text))
        }
    }
}

fn protected() -> Http {
    let protected = Protected::new("http://localhost/mcp", "http://localhost:9/as").expect("valid");
    Http::new().protected(protected.implies(|broad, narrow| broad == "files" && narrow.starts_with("files:")))
}

/// The identity of a token `name/scope/scope`.
fn identity(request: &TokenRequest) -> Result<Identity, Denial> {
    let (name, scopes) = request.token.reveal().split_once('/').ok_or(Denial::invalid_token())?;
    Ok(Identity::new(name).scopes(&scopes.replace('/', " ")))
}

/// Sends a call and returns the whole response.
fn respond(served: &HttpTestServer, tool: &str, token: &str, more: &str) -> String {
    let mut stream: TcpStream = served.connect();
    let authorization =
        if token.is_empty() { String::new() } else { format!("Authorization: Bearer {token}\r\n") };
    let fields = format!("{authorization}{more}Connection: close\r\n");
    stream.write_all(&call(tool, "{}", &fields)).expect("the server reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("a response");
    answer
}

fn serve<H: Handler>(
    http: Http,
    handler: impl FnOnce() -> H + Send + 'static,
    configure: impl FnOnce(HttpServer<H>) -> HttpServer<H> + Send + 'static,
) -> HttpTestServer {
    HttpTestServer::with_options(http, handler, configure)
}

// covers: AUTH-004, AUTH-054, AUTH-055, AUTH-056
#[test]
fn handler_sees_its_caller_and_may_ask_for_scopes() {
    with_timeout(|| {
        let served = serve(protected(), || ScopedHandler, |server| server.validate_tokens(identity));
        let plain = respond(&served, "who", "alice/files", "");
        assert!(plain.contains(r#"Some(\"alice\") Some(\"files\") true"#), "{plain}");
        let plain = respond(&served, "who", "bob/mail", "");
        assert!(plain.contains(r#"Some(\"bob\") Some(\"mail\") false"#), "{plain}");
        let refused = respond(&served, "mail", "alice/files", "");
        assert!(refused.starts_with("HTTP/1.1 403 "), "{refused}");
        let challenge = "WWW-Authenticate: Bearer error=\"insufficient_scope\", scope=\"files:write mail\", \
                         resource_metadata=\"http://localhost/.well-known/oauth-protected-resource/mcp\"";
        assert!(refused.contains(challenge), "{refused}");
        assert!(refused.contains(r#""requiredScopes":["files:write","mail"]"#), "{refused}");
        assert!(respond(&served, "mail", "alice/files/mail", "").starts_with("HTTP/1.1 200 "));
        for token in ["", "nonsense"] {
            let refused = respond(&served, "who", token, "");
            assert!(refused.starts_with("HTTP/1.1 401 ") && !refused.contains("alice"), "{refused}");
            assert_eq!(refused.contains("error=\"invalid_token\""), !token.is_empty());
        }
        served.stop();
    });
}

// covers: AUTH-009, HTTP-007
#[test]
fn no_token_is_accepted_without_a_validator() {
    with_timeout(|| {
        let served = serve(protected(), || ScopedHandler, |server| server);
        assert!(respond(&served, "who", "alice/files", "").starts_with("HTTP/1.1 401 "));
        served.stop();
        // An open server knows nobody, and asks for no scopes.
        let served = serve(Http::new(), || ScopedHandler, |server| server);
        let answer = respond(&served, "mail", "alice/files", "");
        assert!(answer.contains("None None false"), "{answer}");
        served.stop();
    });
}

// covers: SEC-018
#[test]
fn tokens_that_wait_are_bounded_and_forgotten_with_their_clients() {
    with_timeout(|| {
        let (gate, begun) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (open, count) = (gate.clone(), begun.clone());
        let slow = off_loop(move |request: &TokenRequest| {
            count.fetch_add(1, Ordering::SeqCst);
            while !open.load(Ordering::SeqCst) {
                thread::sleep(Duration::from_millis(1));
            }
            identity(request)
        });
        let served = serve(protected(), || ScopedHandler, |server| server.validate_tokens(slow));
        let send = |token: &str| {
            let mut stream = served.connect();
            let fields = format!("Authorization: Bearer {token}\r\n");
            stream.write_all(&call("who", "{}", &fields)).expect("the server reads");
            stream
        };
        // 8 are validated at a time, and 256 wait.
        let running: Vec<_> = (0..8).map(|n| send(&format!("running{n}/files"))).collect();
        while begun.load(Ordering::SeqCst) < 8 {
            thread::sleep(Duration::from_millis(1));
        }
        let waiting: Vec<_> = (0..256).map(|n| send(&format!("waiting{n}/files"))).collect();
        let refused = loop {
            // The server may not have read all of them yet.
            let refused = respond(&served, "who", "one-more/files", "");
            if refused.starts_with("HTTP/1.1 503 ") {
                break refused;
            }
        };
        assert!(refused.to_ascii_lowercase().contains("retry-after: 1\r\n"), "{refused}");
        // Whoever leaves makes room, and is not validated.
        for stream in &waiting {
            stream.shutdown(Shutdown::Write).expect("open");
        }
        for mut stream in waiting {
            // The server has noticed it.
            assert_eq!(stream.read_to_end(&mut Vec::new()).expect("an end"), 0);
        }
        // And has forgotten the last one when it answers another client.
        assert!(respond(&served, "who", "", "").starts_with("HTTP/1.1 401 "));
        let answer = thread::scope(|scope| {
            let late = scope.spawn(|| respond(&served, "who", "late/files", ""));
            gate.store(true, Ordering::SeqCst);
            late.join().expect("no panic")
        });
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("late"), "{answer}");
        assert_eq!(begun.load(Ordering::SeqCst), 9, "tokens of clients that had left were validated");
        drop(running);
        served.stop();
    });
}

#[test]
fn validator_is_dropped_with_its_server() {
    with_timeout(|| {
        let held = Arc::new(());
        let (validator, left) = (held.clone(), Arc::downgrade(&held));
        let slow = off_loop(move |request: &TokenRequest| {
            let _held = &validator;
            identity(request)
        });
        drop(held);
        let served = serve(protected(), || ScopedHandler, |server| server.validate_tokens(slow));
        assert!(respond(&served, "who", "alice/files", "").contains("alice"));
        served.stop();
        // Its thread ends at once, and not when it has been idle for long.
        let stopped = Instant::now();
        while left.upgrade().is_some() {
            assert!(stopped.elapsed() < Duration::from_secs(5), "the validator is still there");
            thread::sleep(Duration::from_millis(1));
        }
    });
}

// covers: SEC-018
#[test]
fn validator_that_blocks_delays_no_other_connection() {
    with_timeout(|| {
        let (gate, begun) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (open, count) = (gate.clone(), begun.clone());
        let slow = off_loop(move |request: &TokenRequest| {
            count.fetch_add(1, Ordering::SeqCst);
            while request.token.reveal().starts_with("slow") && !open.load(Ordering::SeqCst) {
                thread::sleep(Duration::from_millis(1));
            }
            if request.token.reveal().starts_with("panic") {
                panic!("on purpose")
            }
            identity(request)
        });
        let served = serve(protected(), || ScopedHandler, |server| server.validate_tokens(slow));
        let served = Arc::new(served);
        let waiting = (0..3).map(|n| {
            let served = served.clone();
            thread::spawn(move || respond(&served, "who", &format!("slow{n}/files"), ""))
        });
        let waiting: Vec<_> = waiting.collect();
        while begun.load(Ordering::SeqCst) < 3 {
            thread::sleep(Duration::from_millis(1));
        }
        assert!(respond(&served, "who", "quick/files", "").contains("quick"));
        assert!(respond(&served, "who", "", "").starts_with("HTTP/1.1 401 "));
        assert!(respond(&served, "who", "panic/files", "").starts_with("HTTP/1.1 401 "));
        // A client that leaves meanwhile changes nothing.
        let mut gone = served.connect();
        gone.write_all(&call("who", "{}", "Authorization: Bearer slow9/files\r\n")).expect("written");
        while begun.load(Ordering::SeqCst) < 6 {
            thread::sleep(Duration::from_millis(1));
        }
        drop(gone);
        gate.store(true, Ordering::SeqCst);
        for (n, thread) in waiting.into_iter().enumerate() {
            let answer = thread.join().expect("no panic");
            assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains(&format!("slow{n}")), "{answer}");
        }
        let Ok(served) = Arc::try_unwrap(served).map_err(drop) else { panic!("no other owner is left") };
        served.stop();
    });
}
