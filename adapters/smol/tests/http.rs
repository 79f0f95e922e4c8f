//! Servers over HTTP on real sockets, in both eras

#![cfg(unix)]

extern crate alloc;

mod support;

use core::cell::{Cell, RefCell};
use core::future::poll_fn;
use core::net::SocketAddr;
use core::task::{Poll, Waker};
use core::time::Duration;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use mcp_blocking::{Client, ClientHandler};
use mcp_proto::http::HeadRecord;
use mcp_proto::http::client::{Challenge, Credential};
use mcp_proto::http::server::{Config as Http, Denial, Protected, Token};
use mcp_proto::model::{CallToolResult, ElicitParams, ElicitResult, ElicitSchema};
use mcp_proto::{
    CallError, CallOptions, Capabilities, Capability, Change, Era, RawJson, RpcError, VersionSet, client,
};
use mcp_smol::{Answered, Call, Cx, Error, Handle, Handler, HttpServer};
use serde_json::json;
use support::{DEADLINE, ERAS, Notes, Tools, in_time, only, server, speaks, text};

type Options = mcp_blocking::Options;

/// A server in a thread
struct Served {
    address: SocketAddr,
    handle: Handle,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

impl Served {
    fn new<H: Handler>(handler: impl FnOnce() -> H + Send + 'static) -> Self {
        Self::with(Http::new(), handler, |server| server)
    }

    /// What the handler is need not be sent between threads
    fn with<H: Handler>(
        http: Http,
        handler: impl FnOnce() -> H + Send + 'static,
        more: impl FnOnce(HttpServer<H>) -> HttpServer<H> + Send + 'static,
    ) -> Self {
        let (told, address) = mpsc::channel();
        let thread = thread::spawn(move || {
            let server = more(HttpServer::bind("127.0.0.1:0", server(), http, handler())?);
            told.send((server.address()?, server.handle())).unwrap();
            async_io::block_on(server.run())
        });
        let (address, handle) = address.recv_timeout(DEADLINE).expect("it listens");
        Self { address, handle, thread: Some(thread) }
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
        self.handle.shutdown(Duration::from_secs(5));
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
        let served = Served::new(|| Tools::new().0);
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
            let served = Served::new(|| tools);
            let mut client = served.client(era);
            let call = client.start_tool("endless", &json!({}), &CallOptions::new()).unwrap();
            while told.try_recv().is_err() {
                client.poll(Duration::from_millis(5)).unwrap();
            }
            client.cancel(call, Some("enough")).unwrap();
            while client.poll(Duration::from_millis(5)).is_ok() {
                if let Ok(end) = told.try_recv() {
                    assert_eq!(end, "dropped");
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
        let served = Served::new(|| tools);
        let mut stream = served.raw();
        stream.write_all(&call("endless", "{}", "")).unwrap();
        assert_eq!(told.recv_timeout(DEADLINE).unwrap(), "begun");
        drop(stream);
        assert_eq!(told.recv_timeout(DEADLINE).unwrap(), "dropped");
        served.stop();
    });
}

#[test]
fn a_handler_that_sleeps_lets_everything_else_move() {
    in_time(|| {
        let (tools, told) = Tools::new();
        let served = Served::new(|| tools);
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
        let served = Served::new(|| Tools::new().0);
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
        let served = Served::with(Http::new(), || Tools::new().0, |server| server.max_connections(2));
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
    async fn call(&self, cx: &mut Cx<'_>, call: &Call) -> Result<Answered, RpcError> {
        assert_eq!(&*call.tool()?.name, "greet");
        let form = ElicitSchema::new([("name", mcp_proto::model::StringSchema::new().into())]);
        let answer = cx.elicit("name", "Who are you?", form)?;
        let principal = cx.principal().unwrap_or_else(|| "nobody".to_owned());
        let name = answer.content.and_then(|all| RawJson::encode(&all).ok());
        let name = name.map(|name| name.as_str().to_owned()).unwrap_or_default();
        cx.complete(&CallToolResult::text(format!("{name} for {principal}")))
    }

    fn token(&self, token: &Token) -> Result<String, Denial> {
        assert!(!format!("{token:?}").contains(token.reveal()));
        match token.reveal() {
            "good" => Ok("somebody".into()),
            "weak" => Err(Denial::InsufficientScope("greetings".into())),
            "panic" => panic!("on purpose"),
            _ => Err(Denial::InvalidToken),
        }
    }

    fn head(&self, record: &HeadRecord) {
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
        let seen = heads.clone();
        let http = Http::new().protected(Protected::new("http://localhost/.well-known/x"));
        let served = Served::with(http, || Guarded(seen), HttpServer::tap_heads);
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
    struct Region(Cell<bool>);
    impl Handler for Region {
        async fn call(&self, cx: &mut Cx<'_>, call: &Call) -> Result<Answered, RpcError> {
            if call.tool()?.name == "forget" {
                self.0.set(false);
                cx.publish(&Change::Tools);
                assert!(!cx.poll_later(None), "there is no such thing in this revision");
            }
            cx.complete(&CallToolResult::text("here"))
        }
        fn tools(&self, tell: &mut dyn FnMut(&str, &RawJson)) {
            let schema = r#"{"type":"object","properties":{"r":{"type":"string","x-mcp-header":"Region"}}}"#;
            if self.0.get() {
                tell("where", &RawJson::new(schema).unwrap());
            }
        }
    }
    in_time(|| {
        let served = Served::new(|| Region(Cell::new(true)));
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
            async fn call(&self, _: &mut Cx<'_>, call: &Call) -> Result<Answered, RpcError> {
                Err(RpcError::method_not_found(call.method()))
            }
            fn tools(&self, tell: &mut dyn FnMut(&str, &RawJson)) {
                let schema = r#"{"type":"object","properties":{"r":{"type":"object","x-mcp-header":"R"}}}"#;
                tell("bad", &RawJson::new(schema).unwrap());
            }
        }
        let error = HttpServer::bind("127.0.0.1:0", server(), Http::new(), Bad).expect_err("refused");
        assert!(error.to_string().contains("`bad`"), "{error}");
    });
}

#[test]
fn a_server_that_goes_is_noticed_and_calls_in_work_are_answered() {
    struct Slow;
    impl Handler for Slow {
        async fn call(&self, cx: &mut Cx<'_>, call: &Call) -> Result<Answered, RpcError> {
            let _ = call.tool()?;
            cx.sleep(Duration::from_millis(300)).await?;
            cx.complete(&CallToolResult::text("in time"))
        }
    }
    in_time(|| {
        for era in ERAS {
            let served = Served::new(|| Slow);
            let mut client = served.client(era);
            let call = client.start_tool("slow", &json!({}), &CallOptions::new()).unwrap();
            client.poll(Duration::from_millis(50)).unwrap();
            served.handle.shutdown(DEADLINE);
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
        let served = Served::new(|| Tools::new().0);
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

/// What one call waits for is another one's matter: they come by different connections
#[test]
fn calls_of_all_connections_run_at_the_same_time() {
    in_time(|| {
        let served = Served::new(|| {
            let waiting: RefCell<Vec<Waker>> = RefCell::default();
            async move |cx: &mut Cx<'_>, _: &Call| {
                let mut first = true;
                poll_fn(|cx| {
                    let mut waiting = waiting.borrow_mut();
                    if core::mem::take(&mut first) {
                        waiting.push(cx.waker().clone());
                        waiting.iter().for_each(Waker::wake_by_ref);
                    }
                    if waiting.len() == 20 { Poll::Ready(()) } else { Poll::Pending }
                })
                .await;
                cx.complete(&CallToolResult::text("together"))
            }
        });
        let mut streams: Vec<_> = (0..20).map(|_| served.raw()).collect();
        streams.iter_mut().for_each(|stream| stream.write_all(&call("any", "{}", "")).unwrap());
        for stream in &mut streams {
            let mut answer = [0; 12];
            stream.read_exact(&mut answer).unwrap();
            assert_eq!(&answer, b"HTTP/1.1 200");
        }
        drop(streams);
        served.stop();
    });
}

#[test]
fn a_server_is_commanded_from_other_threads() {
    in_time(|| {
        let served = Served::new(|| Tools::new().0);
        let (tx, rx) = mpsc::channel();
        served.handle.publish(&Change::Tools).unwrap();
        served.handle.with_engine(move |_, now| _ = tx.send(now)).unwrap();
        rx.recv_timeout(DEADLINE).expect("it was woken");
        // What never ends is dropped when its time is over.
        let mut stream = served.raw();
        stream.write_all(&call("endless", "{}", "")).unwrap();
        while !served.handle.is_over() {
            served.handle.shutdown(Duration::from_millis(20));
            thread::sleep(Duration::from_millis(1));
        }
        served.stop();
    });
}

/// Whatever is said of the server after somebody has its handle
#[test]
fn a_handle_that_was_taken_early_commands_the_server_that_runs() {
    in_time(|| {
        let bound = HttpServer::bind("127.0.0.1:0", server(), Http::new(), Tools::new().0).unwrap();
        let handle = bound.handle();
        let bound = bound.max_running(1).max_connections(2).shards(2);
        handle.shutdown(Duration::ZERO);
        async_io::block_on(bound.run()).unwrap();
        assert!(handle.is_over());
        let (near, _far) = async_io::Async::<std::os::unix::net::UnixStream>::pair().unwrap();
        let bound = mcp_smol::Server::new(server(), near, Tools::new().0);
        let handle = bound.handle();
        handle.shutdown(Duration::ZERO);
        async_io::block_on(bound.max_running(1).run()).unwrap();
        assert!(handle.is_over());
    });
}

#[test]
fn a_port_that_is_taken_is_said() {
    in_time(|| {
        let served = Served::new(|| Tools::new().0);
        let error =
            HttpServer::bind(served.address, server(), Http::new(), Tools::new().0).err().expect("taken");
        assert!(matches!(&error, Error::Io(error) if error.kind() == ErrorKind::AddrInUse), "{error:?}");
        assert!(error.to_string().contains("in use"), "{error}");
        served.stop();
    });
}
