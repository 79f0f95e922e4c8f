//! Servers and clients over HTTP on real sockets, in both eras
#![cfg(unix)]

extern crate alloc;

mod support;

use alloc::sync::Arc;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use mcp_blocking::{Answered, Call, Client, ClientHandler, Cx, Error, Handler, HttpServer, Options};
use mcp_proto::http::HeadRecord;
use mcp_proto::http::client::{Challenge, Credential};
use mcp_proto::http::server::{Config as Http, Denial, Protected, Token};
use mcp_proto::model::{CallToolResult, ElicitParams, ElicitResult, ElicitSchema};
use mcp_proto::{
    CallError, CallOptions, Capabilities, Capability, Change, Era, RawJson, RpcError, VersionSet, client,
};
use serde_json::{Value, json};
use support::{DEADLINE, ERAS, Notes, Tools, in_time, only, server, speaks, text};

/// A server in a thread
struct Served {
    address: SocketAddr,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

impl Served {
    fn new(handler: impl Handler + Send + 'static) -> Self {
        Self::with(Http::new(), handler, |server| server)
    }

    fn with<H: Handler + Send + 'static>(
        http: Http,
        handler: H,
        more: impl FnOnce(HttpServer<H>) -> HttpServer<H> + Send + 'static,
    ) -> Self {
        let (told, address) = mpsc::channel();
        let ends = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&ends);
        let thread = thread::spawn(move || {
            let mut server = more(HttpServer::bind("127.0.0.1:0", server(), http, handler)?);
            told.send(server.address()?).unwrap();
            while !seen.load(Ordering::SeqCst) {
                assert!(server.poll(Duration::from_millis(20))?, "nobody told it to end");
            }
            server.shutdown(Duration::from_secs(5));
            while server.poll(DEADLINE)? {}
            assert_eq!(server.connections(), 0);
            Ok(())
        });
        let address = address.recv_timeout(DEADLINE).expect("it listens");
        Self { address, ends, thread: Some(thread) }
    }

    fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    fn client(&self, era: Era) -> Client {
        let client = Options::new(speaks(only(era))).connect_url(&self.url()).expect("a connection");
        assert_eq!(client.peer().era(), era);
        client
    }

    fn raw(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("a connection");
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream
    }

    fn stop(mut self) {
        self.ends.store(true, Ordering::SeqCst);
        self.thread.take().unwrap().join().expect("no panic").expect("no error");
    }
}

/// `GET /nowhere`, and the first bytes of what comes back
fn is_served(stream: &mut TcpStream) -> bool {
    stream.write_all(b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n").is_ok() && {
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).is_ok() && answer == *b"HTTP/1.1 404" && {
            // The rest of it.
            let mut rest = [0; 4096];
            stream.read(&mut rest).is_ok()
        }
    }
}

fn call_head(name: &str, length: usize, more: &str) -> String {
    format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n\
         Mcp-Method: tools/call\r\nMcp-Name: {name}\r\n{more}Content-Length: {length}\r\n\r\n"
    )
}

fn call(name: &str, arguments: &str, more: &str) -> Vec<u8> {
    let meta = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{name}","arguments":{arguments},"_meta":{meta}}}}}"#
    );
    [call_head(name, body.len(), more), body].concat().into_bytes()
}

// covers: HTTP-009, HTTP-022
#[test]
fn the_whole_client_works_on_it() {
    in_time(|| {
        let served = Served::new(Tools::new().0);
        for era in ERAS {
            let mut client = served.client(era);
            assert_eq!(client.list_tools().unwrap().len(), 1);
            for text_of in ["hi \u{1f44b}\n", &"x".repeat(3 << 20)] {
                let answer = client.call_tool("echo", &json!({"text": text_of})).unwrap();
                assert_eq!(text(&answer), text_of);
            }
            assert!(client.ping().unwrap() < DEADLINE);
            let calls: Vec<_> = (0..20)
                .map(|n| {
                    let arguments = json!({"text": n.to_string()});
                    client.start_tool("echo", &arguments, &CallOptions::new()).unwrap()
                })
                .collect();
            for (n, call) in calls.into_iter().enumerate().rev() {
                assert!(client.wait(call).unwrap().as_str().contains(&format!("\"{n}\"")));
            }
            let mut seen = 0;
            let count = json!({"steps": 5});
            let counted = client.call_tool_with("count", &count, &CallOptions::new(), &mut |_| seen += 1);
            assert_eq!(text(&counted.unwrap()), "counted");
            assert!(seen > 0);
            assert!(client.call_tool("nonsense", &json!({})).is_err());
            assert!(client.close().unwrap().is_none());
        }
        // By a name with addresses of both families, of which one is not served.
        let url = format!("http://localhost:{}/mcp", served.address.port());
        Client::connect_url(&url).unwrap().close().unwrap();
        served.stop();
    });
}

// covers: HTTP-042, CANC-001
#[test]
fn a_client_that_is_gone_or_changes_its_mind_ends_its_call() {
    in_time(|| {
        for era in ERAS {
            let (tools, told) = Tools::new();
            let served = Served::new(tools);
            let mut client = served.client(era);
            let call = client.start_tool("endless", &json!({}), &CallOptions::new()).unwrap();
            while told.try_recv().is_err() {
                client.poll(Duration::from_millis(5)).unwrap();
            }
            client.cancel(call, Some("enough")).unwrap();
            while client.poll(Duration::from_millis(5)).is_ok() {
                if let Ok(end) = told.try_recv() {
                    assert!(end.starts_with("true true"), "{end}");
                    break;
                }
            }
            // The loop is free again.
            assert_eq!(text(&client.call_tool("echo", &json!({"text": "on"})).unwrap()), "on");
            client.close().unwrap();
            served.stop();
        }
        // Modern: whoever closes the connection has changed his mind.
        let (tools, told) = Tools::new();
        let served = Served::new(tools);
        let mut stream = served.raw();
        stream.write_all(&call("endless", "{}", "")).unwrap();
        assert_eq!(told.recv_timeout(DEADLINE).unwrap(), "begun");
        drop(stream);
        assert_eq!(told.recv_timeout(DEADLINE).unwrap(), "true true false");
        served.stop();
    });
}

#[test]
fn a_handler_that_sleeps_lets_everything_else_move() {
    in_time(|| {
        let (tools, told) = Tools::new();
        let served = Served::new(tools);
        let mut sleeper = served.raw();
        sleeper.write_all(&call("endless", "{}", "")).unwrap();
        assert_eq!(told.recv_timeout(DEADLINE).unwrap(), "begun");
        // New connections, refusals: everything but handlers.
        for _ in 0..3 {
            assert!(is_served(&mut served.raw()));
        }
        drop(sleeper);
        served.stop();
    });
}

#[test]
fn who_does_not_read_stops_nobody_else() {
    in_time(|| {
        let served = Served::new(Tools::new().0);
        let mut lazy = served.raw();
        let big = json!({"text": "x".repeat(8 << 20)}).to_string();
        lazy.write_all(&call("raw", &big, "")).unwrap();
        let mut client = served.client(Era::Modern);
        for _ in 0..20 {
            assert_eq!(text(&client.call_tool("echo", &json!({"text": "on"})).unwrap()), "on");
        }
        // It is all there for when the reader wakes up.
        let (mut all, mut buffer) = (0, vec![0; 64 << 10]);
        while all < 8 << 20 {
            let n = lazy.read(&mut buffer).unwrap();
            assert!(n > 0, "cut off after {all}");
            all += n;
        }
        client.close().unwrap();
        served.stop();
    });
}

#[test]
fn who_comes_when_it_is_full_gets_the_place_of_who_is_idle() {
    in_time(|| {
        let served = Served::with(Http::new(), Tools::new().0, |server| server.max_connections(2));
        let mut first = served.raw();
        assert!(is_served(&mut first));
        let mut second = served.raw();
        assert!(is_served(&mut second));
        assert!(is_served(&mut first), "it was used after the second one");
        let begun = Instant::now();
        let mut third = served.raw();
        assert!(is_served(&mut third));
        assert!(begun.elapsed() >= Duration::from_millis(500), "idle connections are spared for a moment");
        // The one that was used first had to go.
        let mut end = [0; 1];
        assert_eq!(second.read(&mut end).unwrap_or(0), 0);
        served.stop();
    });
}

/// Greets who tells his name, on behalf of who has a good token
struct Guarded(Notes);

impl Handler for Guarded {
    fn call(&mut self, cx: &mut Cx<'_>, call: &Call) -> Result<Answered, RpcError> {
        assert_eq!(&*call.tool()?.name, "greet");
        let form = ElicitSchema::new([("name", mcp_proto::model::StringSchema::new().into())]);
        let answer = cx.elicit("name", "Who are you?", form)?;
        let principal = cx.principal().unwrap_or_else(|| "nobody".to_owned());
        let name = answer.content.and_then(|all| RawJson::encode(&all).ok());
        let name = name.map(|name| name.as_str().to_owned()).unwrap_or_default();
        cx.complete(&CallToolResult::text(format!("{name} for {principal}")))
    }

    fn token(&mut self, token: &Token) -> Result<String, Denial> {
        assert!(!format!("{token:?}").contains(token.reveal()));
        match token.reveal() {
            "good" => Ok("somebody".into()),
            "weak" => Err(Denial::InsufficientScope("greetings".into())),
            "panic" => panic!("on purpose"),
            _ => Err(Denial::InvalidToken),
        }
    }

    fn head(&mut self, record: &HeadRecord) {
        self.0.note(record.text.clone());
    }
}

struct Guest(Vec<&'static str>, Notes);

impl ClientHandler for Guest {
    fn elicit(&mut self, _: &ElicitParams) -> Result<ElicitResult, RpcError> {
        let content = RawJson::new(r#"{"name":"Ada"}"#).unwrap();
        Ok(ElicitResult::accept(
            content.parse::<mcp_proto::model::Map<mcp_proto::model::ElicitValue>>().expect("a map"),
        ))
    }

    fn challenge(&mut self, challenge: &Challenge) -> Option<Credential> {
        self.1.note(format!("{} {}", challenge.status, challenge.tried));
        self.0.pop().map(|token| Credential::bearer(token).unwrap())
    }

    fn head(&mut self, record: &HeadRecord) {
        self.1.note(record.text.clone());
    }
}

// covers: HTTP-007, HTTP-079, SEC-019
#[test]
fn tokens_are_judged_by_the_handler_and_found_by_the_client() {
    in_time(|| {
        let heads = Notes::default();
        let http = Http::new().protected(Protected::new("http://localhost/.well-known/x"));
        let served = Served::with(http, Guarded(heads.clone()), HttpServer::tap_heads);
        for era in ERAS {
            let notes = Notes::default();
            let http =
                mcp_proto::http::client::Config::new(&served.url()).unwrap().asks_for_credentials(true);
            let config =
                speaks(only(era)).capabilities(Capabilities::new().with(Capability::ElicitationForm));
            let options = Options::new(config).tap_heads();
            let options = options.handler(Guest(vec!["good", "weak", "panic"], notes.clone()));
            let mut client = options.connect_http(http).expect("the third token is good");
            let greeting = client.call_tool("greet", &json!({})).unwrap();
            assert_eq!(text(&greeting), r#"{"name":"Ada"} for somebody"#);
            client.close().unwrap();
            let seen = notes.take();
            let asked: Vec<_> = seen.iter().filter(|note| note.starts_with("40") && note.len() < 8).collect();
            assert_eq!(asked, ["401 0", "401 1", "403 2"], "{seen:?}");
            for secret in ["good", "weak", "panic"] {
                assert!(!seen.concat().contains(secret), "{seen:?}");
                assert!(!heads.take().concat().contains(secret));
            }
        }
        // Without anybody to ask, and without a good token.
        let error = Client::connect_url(&served.url()).expect_err("a token is needed");
        assert!(error.to_string().contains("401"), "{error}");
        served.stop();
    });
}

// covers: XHDR-001, XHDR-024
#[test]
fn what_a_tool_wants_repeated_is_held_against_the_fields() {
    /// Wants nothing repeated once it was told so
    struct Region(bool);
    impl Handler for Region {
        fn call(&mut self, cx: &mut Cx<'_>, call: &Call) -> Result<Answered, RpcError> {
            if call.tool()?.name == "forget" {
                self.0 = false;
                cx.publish(&Change::Tools);
                assert!(!cx.poll_later(None), "there is no such thing in this revision");
            }
            cx.complete(&CallToolResult::text("here"))
        }
        fn tools(&mut self, tell: &mut dyn FnMut(&str, &RawJson)) {
            let schema = r#"{"type":"object","properties":{"r":{"type":"string","x-mcp-header":"Region"}}}"#;
            if self.0 {
                tell("where", &RawJson::new(schema).unwrap());
            }
        }
    }
    in_time(|| {
        let served = Served::new(Region(true));
        let all =
            [("where", "eu", "200"), ("where", "us", "400"), ("forget", "", "200"), ("where", "us", "200")];
        for (tool, region, status) in all {
            let mut stream = served.raw();
            let field = format!("Mcp-Param-Region: {region}\r\nConnection: close\r\n");
            stream.write_all(&call(tool, r#"{"r":"eu"}"#, &field)).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{tool} {region}: {answer}");
        }
        served.stop();
        // A schema that cannot be served is said at once.
        #[derive(Debug)]
        struct Bad;
        impl Handler for Bad {
            fn call(&mut self, _: &mut Cx<'_>, call: &Call) -> Result<Answered, RpcError> {
                Err(RpcError::method_not_found(call.method()))
            }
            fn tools(&mut self, tell: &mut dyn FnMut(&str, &RawJson)) {
                let schema = r#"{"type":"object","properties":{"r":{"type":"object","x-mcp-header":"R"}}}"#;
                tell("bad", &RawJson::new(schema).unwrap());
            }
        }
        let error = HttpServer::bind("127.0.0.1:0", server(), Http::new(), Bad).expect_err("refused");
        assert!(error.to_string().contains("`bad`"), "{error}");
    });
}

#[test]
fn what_cannot_be_connected_to_says_why() {
    in_time(|| {
        let without_tls = if cfg!(feature = "tls") { None } else { Some("https://h/?key=s3cret") };
        if without_tls.is_some() {
            let error = Client::connect_url("https://localhost/mcp").expect_err("no TLS");
            let told = error.to_string().contains("feature `tls`");
            assert!(matches!(error, Error::Url { .. }) && told, "{error}");
        }
        for url in ["localhost:80", "ftp://localhost/", "http://", ""] {
            assert!(matches!(Client::connect_url(url), Err(Error::Url { .. })), "{url}");
        }
        // What is said of a URL holds none of the secrets in it.
        for url in ["http://me:s3cret@h/", "http://h:x/?key=s3cret"].into_iter().chain(without_tls) {
            let error = Client::connect_url(url).expect_err("refused");
            assert!(matches!(error, Error::Url { .. }));
            assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
        }
        // Nobody listens where somebody has just done so.
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let url = format!("http://{free}/mcp");
        let error = Client::connect_url(&url).expect_err("nobody there");
        assert!(matches!(&error, Error::Closed(closed) if closed.url.as_deref() == Some(&*url)), "{error:?}");
        assert!(error.to_string().contains(&format!("{free}: ")), "{error}");
        assert!(error.to_string().contains("refused"), "{error}");
        // Nor is a name waited for that nobody has.
        let error = Client::connect_url("http://a..b/mcp").expect_err("no such name");
        assert!(error.is_closed() && error.to_string().contains("no address of a..b: "), "{error}");
        // Somebody who does not speak HTTP at all.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let stranger = thread::spawn(move || {
            for stream in listener.incoming().take(2) {
                let mut stream = stream.unwrap();
                let _ = stream.read(&mut [0; 4096]);
                let _ = stream.write_all(b"220 mail.example.com ESMTP\r\n");
            }
        });
        let error = Client::connect_url(&url).expect_err("no HTTP");
        assert!(error.is_closed(), "{error}");
        drop(TcpStream::connect(url.trim_start_matches("http://").trim_end_matches("/mcp")));
        stranger.join().unwrap();
    });
}

/// Reads a request; its head and body
fn asked(stream: &mut TcpStream) -> (String, Value) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("a head");
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    stream.read_exact(&mut body).expect("a body");
    (head, serde_json::from_slice(&body).unwrap())
}

/// Answers a request of the modern era
fn answers(stream: &mut TcpStream, asked: &Value) {
    let result = match asked["method"].as_str() {
        Some("server/discover") => json!({"resultType": "complete", "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "private"}),
        _ => json!({"resultType": "complete", "content": []}),
    };
    let body = json!({"jsonrpc": "2.0", "id": asked["id"], "result": result}).to_string();
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ";
    stream.write_all(format!("{head}{}\r\n\r\n{body}", body.len()).as_bytes()).unwrap();
}

#[test]
fn a_connection_that_was_closed_between_two_calls_is_not_used_again() {
    in_time(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let (left, has_left) = mpsc::channel();
        let server = thread::spawn(move || {
            let mut calls = 0;
            for stream in listener.incoming().take(4) {
                let mut stream = stream.unwrap();
                let (_, body) = asked(&mut stream);
                calls += usize::from(body["method"] == "tools/call");
                answers(&mut stream, &body);
                // Without a word, as after a time-out of its own.
                drop(stream);
                left.send(()).unwrap();
            }
            calls
        });
        let mut client = Options::new(speaks(only(Era::Modern))).connect_url(&url).expect("a server");
        for _ in 0..3 {
            has_left.recv_timeout(DEADLINE).unwrap();
            client.call_tool("wave", &json!({})).expect("made once, on a connection of its own");
        }
        client.close().unwrap();
        assert_eq!(server.join().unwrap(), 3);
    });
}

#[test]
fn a_server_that_goes_is_noticed_and_calls_in_work_are_answered() {
    struct Slow;
    impl Handler for Slow {
        fn call(&mut self, cx: &mut Cx<'_>, call: &Call) -> Result<Answered, RpcError> {
            let _ = call.tool()?;
            cx.sleep(Duration::from_millis(300))?;
            cx.complete(&CallToolResult::text("in time"))
        }
    }
    in_time(|| {
        for era in ERAS {
            let served = Served::new(Slow);
            let mut client = served.client(era);
            let call = client.start_tool("slow", &json!({}), &CallOptions::new()).unwrap();
            client.poll(Duration::from_millis(50)).unwrap();
            let ends = Arc::clone(&served.ends);
            ends.store(true, Ordering::SeqCst);
            assert!(client.wait(call).unwrap().as_str().contains("in time"));
            served.stop();
            let error = client.call_tool("slow", &json!({})).expect_err("nobody there");
            let expected = matches!(&error, Error::Call(CallError::Http(_)) | Error::Closed(_));
            assert!(expected, "{error:?}");
            drop(client);
        }
    });
}

#[test]
fn a_remembered_verdict_spares_the_question() {
    in_time(|| {
        let served = Served::new(Tools::new().0);
        let client = Options::new(speaks(VersionSet::ALL)).connect_url(&served.url()).unwrap();
        let verdict = client.verdict();
        assert!(verdict.is_some());
        client.close().unwrap();
        let config = client::Config::new("test", "1").verdict(verdict);
        let mut client = Options::new(config).connect_url(&served.url()).unwrap();
        assert_eq!(text(&client.call_tool("echo", &json!({"text": "on"})).unwrap()), "on");
        client.close().unwrap();
        served.stop();
    });
}
