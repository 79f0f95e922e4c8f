//! Suite: an HTTP server and the blocking client on real sockets, in both eras.
//!
//! `crate::adapter` names the adapter under test.

#![allow(elided_lifetimes_in_paths, reason = "the context has a lifetime in some adapters only")]
#![allow(unused_mut, unreachable_pub, dead_code, reason = "each adapter uses a part of it")]

use core::cell::RefCell;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use mcp_blocking::{Client, ClientHandler, Options};
use mcp_proto::http::HeadRecord;
use mcp_proto::http::client::{Challenge, Credential};
use mcp_proto::http::server::{Config as Http, Denial, Protected, TokenRequest};
use mcp_proto::model::{CallToolResult, ElicitParams, ElicitResult, ElicitSchema};
use mcp_proto::server::{Config, Identity};
use mcp_proto::{
    CallError, CallOptions, Capabilities, Capability, Change, Era, RawJson, RpcError, VersionSet, client,
};
use serde_json::json;

use crate::adapter::{
    Answered, CANCELLED_BY_CLIENT, CANCELLED_BY_CLOSE, Call, Cx, Error, Handle, Handler, HttpServer, Router,
    impl_handler, run_http, server_handle, wait,
};
use crate::support::{
    DEADLINE, ERAS, NoteLog, Tools, client_config, server_config, text, version_set, with_timeout,
};

/// A server on a thread.
pub struct HttpTestServer {
    pub address: SocketAddr,
    pub handle: Handle,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

impl HttpTestServer {
    pub fn new<H: Handler>(handler: impl FnOnce() -> H + Send + 'static) -> Self {
        Self::with_options(Http::new(), handler, |server| server)
    }

    /// Makes the handler on the thread of the server, so that it need not be `Send`.
    pub fn with_options<H: Handler>(
        http: Http,
        handler: impl FnOnce() -> H + Send + 'static,
        configure: impl FnOnce(HttpServer<H>) -> HttpServer<H> + Send + 'static,
    ) -> Self {
        Self::with_config(server_config(), http, handler, configure)
    }

    pub fn with_config<H: Handler>(
        config: Config,
        http: Http,
        handler: impl FnOnce() -> H + Send + 'static,
        configure: impl FnOnce(HttpServer<H>) -> HttpServer<H> + Send + 'static,
    ) -> Self {
        let (started, starts) = mpsc::channel();
        let thread = thread::spawn(move || {
            let mut server = configure(HttpServer::bind("127.0.0.1:0", config, http, handler())?);
            started.send((server.address()?, server_handle!(server))).unwrap();
            run_http(server)
        });
        let (address, handle) = starts.recv_timeout(DEADLINE).expect("the server listens");
        Self { address, handle, thread: Some(thread) }
    }

    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    pub fn client(&self, era: Era) -> Client {
        let client =
            Options::new(client_config(version_set(era))).connect_url(&self.url()).expect("a connection");
        assert_eq!(client.peer().era(), era);
        client
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("a connection");
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream
    }

    pub fn stop(mut self) {
        self.handle.shutdown(Duration::from_secs(5));
        self.thread.take().unwrap().join().expect("no panic").expect("no error");
    }
}

/// Sends `GET /nowhere` and returns whether the server answers 404.
fn is_served(stream: &mut TcpStream) -> bool {
    stream.write_all(b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n").is_ok() && {
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).is_ok() && answer == *b"HTTP/1.1 404" && {
            // Reads the rest of the response.
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

pub fn call(name: &str, arguments: &str, more: &str) -> Vec<u8> {
    let meta = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{name}","arguments":{arguments},"_meta":{meta}}}}}"#
    );
    [call_head(name, body.len(), more), body].concat().into_bytes()
}

// covers: HTTP-009, HTTP-022
#[test]
fn client_operations_work_over_http() {
    with_timeout(|| {
        let served = HttpTestServer::new(|| Tools::new().0);
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
        // The name has addresses of two families. The server listens on one.
        let url = format!("http://localhost:{}/mcp", served.address.port());
        Client::connect_url(&url).unwrap().close().unwrap();
        served.stop();
    });
}

// covers: HTTP-042, CANC-001
#[test]
fn cancel_or_disconnect_ends_call() {
    with_timeout(|| {
        for era in ERAS {
            let (tools, events) = Tools::new();
            let served = HttpTestServer::new(|| tools);
            let mut client = served.client(era);
            let call = client.start_tool("endless", &json!({}), &CallOptions::new()).unwrap();
            while events.try_recv().is_err() {
                client.poll(Duration::from_millis(5)).unwrap();
            }
            client.cancel(call, Some("enough")).unwrap();
            while client.poll(Duration::from_millis(5)).is_ok() {
                if let Ok(end) = events.try_recv() {
                    // The modern client cancels by closing the exchange.
                    assert!([CANCELLED_BY_CLIENT, CANCELLED_BY_CLOSE].contains(&&*end), "{end}");
                    break;
                }
            }
            // The loop is free again.
            assert_eq!(text(&client.call_tool("echo", &json!({"text": "on"})).unwrap()), "on");
            client.close().unwrap();
            served.stop();
        }
        // In the modern era, closing the connection cancels the call.
        let (tools, events) = Tools::new();
        let served = HttpTestServer::new(|| tools);
        let mut stream = served.connect();
        stream.write_all(&call("endless", "{}", "")).unwrap();
        assert_eq!(events.recv_timeout(DEADLINE).unwrap(), "begun");
        drop(stream);
        assert_eq!(events.recv_timeout(DEADLINE).unwrap(), CANCELLED_BY_CLOSE);
        served.stop();
    });
}

#[test]
fn sleeping_handler_does_not_block_connections() {
    with_timeout(|| {
        let (tools, events) = Tools::new();
        let served = HttpTestServer::new(|| tools);
        let mut sleeper = served.connect();
        sleeper.write_all(&call("endless", "{}", "")).unwrap();
        assert_eq!(events.recv_timeout(DEADLINE).unwrap(), "begun");
        // The server still accepts and refuses.
        for _ in 0..3 {
            assert!(is_served(&mut served.connect()));
        }
        drop(sleeper);
        served.stop();
    });
}

#[test]
fn client_that_does_not_read_does_not_block_others() {
    with_timeout(|| {
        let served = HttpTestServer::new(|| Tools::new().0);
        let mut lazy = served.connect();
        let big = json!({"text": "x".repeat(8 << 20)}).to_string();
        lazy.write_all(&call("raw", &big, "")).unwrap();
        let mut client = served.client(Era::Modern);
        for _ in 0..20 {
            assert_eq!(text(&client.call_tool("echo", &json!({"text": "on"})).unwrap()), "on");
        }
        // The response is complete when the client reads at last.
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
fn connection_at_limit_evicts_longest_idle() {
    with_timeout(|| {
        let served =
            HttpTestServer::with_options(Http::new(), || Tools::new().0, |server| server.max_connections(2));
        let mut first = served.connect();
        assert!(is_served(&mut first));
        let mut second = served.connect();
        let begun = Instant::now();
        assert!(is_served(&mut second));
        assert!(is_served(&mut first), "it was used after the second one");
        let mut third = served.connect();
        assert!(is_served(&mut third));
        assert!(begun.elapsed() >= Duration::from_millis(150), "idle connections are spared for a moment");
        // The connection that was idle longest was evicted.
        let mut end = [0; 1];
        assert_eq!(second.read(&mut end).unwrap_or(0), 0);
        served.stop();
    });
}

#[test]
fn router_receives_heads_of_requests_and_responses() {
    with_timeout(|| {
        let heads = NoteLog::default();
        let recorder = heads.clone();
        let make = move || {
            let mut router = Router::new("files", "1.0");
            let recorder = recorder.clone();
            router.on_head(move |record| recorder.record(record.text.clone()));
            router
        };
        let served = HttpTestServer::with_options(Http::new(), make, |server| server.tap_heads());
        let mut client = Client::connect_url(&served.url()).expect("a server");
        client.close().expect("a clean end");
        served.stop();
        let noted = heads.take();
        assert!(noted.iter().any(|head| head.starts_with("POST /mcp")), "{noted:?}");
        assert!(noted.iter().any(|head| head.contains("200")), "{noted:?}");
    });
}

/// Elicits a name and greets it, with the principal of the bearer token.
struct AuthenticatingHandler(NoteLog);

impl_handler! {
    AuthenticatingHandler {
        fn call(&self, cx: &mut Cx, call: &Call) -> Result<Answered, RpcError> {
            assert_eq!(&*call.tool_call()?.name, "greet");
            let form = ElicitSchema::new([("name", mcp_proto::model::StringSchema::new().into())]);
            let answer = cx.elicit("name", "Who are you?", form)?;
            let principal = cx.principal().unwrap_or_else(|| "nobody".to_owned());
            let name = answer.content.and_then(|all| RawJson::encode(&all).ok());
            let name = name.map(|name| name.as_str().to_owned()).unwrap_or_default();
            cx.complete(&CallToolResult::text(format!("{name} for {principal}")))
        }
        fn head(&self, record: &HeadRecord) {
            self.0.record(record.text.clone());
        }
    }
}

/// A server whose requests need the scope `greetings`.
fn protected() -> Protected {
    let protected = Protected::new("http://localhost/mcp", "http://localhost:9/as").expect("valid");
    protected.scope("greetings").expect("a scope")
}

/// Accepts one token.
fn validate(request: &TokenRequest) -> Result<Identity, Denial> {
    assert!(!format!("{request:?}").contains(request.token.reveal()));
    match request.token.reveal() {
        "good" => Ok(Identity::new("alice").scopes("greetings")),
        "weak" => Ok(Identity::new("alice")),
        "panic" => panic!("on purpose"),
        _ => Err(Denial::invalid_token()),
    }
}

struct CredentialHandler(RefCell<Vec<&'static str>>, NoteLog);

impl ClientHandler for CredentialHandler {
    fn elicit(&self, _: &ElicitParams) -> Result<ElicitResult, RpcError> {
        let content = RawJson::new(r#"{"name":"Ada"}"#).unwrap();
        Ok(ElicitResult::accept(
            content.parse::<mcp_proto::model::Map<mcp_proto::model::ElicitValue>>().expect("a map"),
        ))
    }

    fn challenge(&self, challenge: &Challenge) -> Option<Credential> {
        self.1.record(format!("{:?} {}", challenge.cause, challenge.credentials_tried));
        self.0.borrow_mut().pop().map(|token| Credential::bearer(token).unwrap())
    }

    fn head(&self, record: &HeadRecord) {
        // The text of a refusal is that of the server.
        if !record.is_body {
            self.1.record(record.text.clone());
        }
    }
}

// covers: HTTP-007, HTTP-079, SEC-019
#[test]
fn client_retries_challenges_until_handler_accepts_token() {
    with_timeout(|| {
        let heads = NoteLog::default();
        let http = Http::new().protected(protected());
        let recorder = heads.clone();
        let served = HttpTestServer::with_options(
            http,
            || AuthenticatingHandler(recorder),
            |server| server.tap_heads().validate_tokens(validate),
        );
        for era in ERAS {
            let notes = NoteLog::default();
            let http = mcp_proto::http::client::Config::new(&served.url()).unwrap().handle_challenges(true);
            let config = client_config(version_set(era))
                .capabilities(Capabilities::new().with(Capability::ElicitationForm));
            let options = Options::new(config).tap_heads();
            let options = options
                .handler(CredentialHandler(RefCell::new(vec!["good", "weak", "panic"]), notes.clone()));
            let mut client = options.connect_http(http).expect("the third token is good");
            let greeting = client.call_tool("greet", &json!({})).unwrap();
            assert_eq!(text(&greeting), r#"{"name":"Ada"} for alice"#);
            client.close().unwrap();
            let seen = notes.take();
            let challenges: Vec<_> = seen
                .iter()
                .filter(|note| note.starts_with("Unauthorized") || note.starts_with("Insufficient"))
                .collect();
            assert_eq!(challenges, ["Unauthorized 0", "Unauthorized 1", "InsufficientScope 2"], "{seen:?}");
            for secret in ["good", "weak", "panic"] {
                assert!(!seen.concat().contains(secret), "{seen:?}");
                assert!(!heads.take().concat().contains(secret));
            }
        }
        // Without a challenge handler the client fails.
        let error = Client::connect_url(&served.url()).expect_err("a token is needed");
        assert!(error.to_string().contains("401"), "{error}");
        served.stop();
    });
}

// covers: XHDR-001, XHDR-024
#[test]
fn server_checks_parameter_header_of_tool() {
    /// Has a tool with a header until its tool `forget` is called.
    struct HeaderToolHandler(AtomicBool);
    impl_handler! {
        HeaderToolHandler {
            fn call(&self, cx: &mut Cx, call: &Call) -> Result<Answered, RpcError> {
                if call.tool_call()?.name == "forget" {
                    self.0.store(false, Ordering::SeqCst);
                    cx.publish(&Change::Tools);
                    assert!(!cx.poll_later(None), "this revision does not have it");
                }
                cx.complete(&CallToolResult::text("here"))
            }
            fn for_each_tool(&self, visit: &mut dyn FnMut(&str, &RawJson)) {
                let schema =
                    r#"{"type":"object","properties":{"r":{"type":"string","x-mcp-header":"Region"}}}"#;
                if self.0.load(Ordering::SeqCst) {
                    visit("where", &RawJson::new(schema).unwrap());
                }
            }
        }
    }
    with_timeout(|| {
        let served = HttpTestServer::new(|| HeaderToolHandler(AtomicBool::new(true)));
        let all =
            [("where", "eu", "200"), ("where", "us", "400"), ("forget", "", "200"), ("where", "us", "200")];
        for (tool, region, status) in all {
            let mut stream = served.connect();
            let field = format!("Mcp-Param-Region: {region}\r\nConnection: close\r\n");
            stream.write_all(&call(tool, r#"{"r":"eu"}"#, &field)).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{tool} {region}: {answer}");
        }
        served.stop();
        // A schema that cannot be served is reported by `bind`.
        #[derive(Debug)]
        struct InvalidSchemaHandler;
        impl_handler! {
            InvalidSchemaHandler {
                fn call(&self, _: &mut Cx, call: &Call) -> Result<Answered, RpcError> {
                    Err(RpcError::method_not_found(call.method()))
                }
                fn for_each_tool(&self, visit: &mut dyn FnMut(&str, &RawJson)) {
                    let schema =
                        r#"{"type":"object","properties":{"r":{"type":"object","x-mcp-header":"R"}}}"#;
                    visit("bad", &RawJson::new(schema).unwrap());
                }
            }
        }
        let bound = HttpServer::bind("127.0.0.1:0", server_config(), Http::new(), InvalidSchemaHandler);
        let Err(error) = bound else { panic!("the schema was accepted") };
        assert!(error.to_string().contains("`bad`"), "{error}");
    });
}

#[test]
fn shutdown_answers_running_calls_and_client_notices_end() {
    struct SleepingHandler;
    impl_handler! {
        SleepingHandler {
            fn call(&self, cx: &mut Cx, call: &Call) -> Result<Answered, RpcError> {
                let _ = call.tool_call()?;
                wait!(cx.sleep(Duration::from_millis(300)))?;
                cx.complete(&CallToolResult::text("in time"))
            }
        }
    }
    with_timeout(|| {
        for era in ERAS {
            let served = HttpTestServer::new(|| SleepingHandler);
            let mut client = served.client(era);
            let call = client.start_tool("slow", &json!({}), &CallOptions::new()).unwrap();
            client.poll(Duration::from_millis(50)).unwrap();
            served.handle.shutdown(DEADLINE);
            assert!(client.wait(call).unwrap().as_str().contains("in time"));
            served.stop();
            let error = client.call_tool("slow", &json!({})).expect_err("the server has ended");
            let expected = matches!(&error, Error::Call(CallError::Http(_)) | Error::Closed(_));
            assert!(expected, "{error:?}");
            drop(client);
        }
    });
}

#[test]
fn known_era_spares_probe() {
    with_timeout(|| {
        let served = HttpTestServer::new(|| Tools::new().0);
        let client = Options::new(client_config(VersionSet::ALL)).connect_url(&served.url()).unwrap();
        let known_era = client.known_era();
        assert!(known_era.is_some());
        client.close().unwrap();
        let config = client::Config::new("test", "1").known_era(known_era);
        let mut client = Options::new(config).connect_url(&served.url()).unwrap();
        assert_eq!(text(&client.call_tool("echo", &json!({"text": "on"})).unwrap()), "on");
        client.close().unwrap();
        served.stop();
    });
}
