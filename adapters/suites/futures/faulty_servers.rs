//! Suite: HTTP servers that disconnect, stall or answer wrongly within a response.
//!
//! Each call ends once, and the next one succeeds.
//!
//! `crate::adapter` names the adapter under test.

use core::net::SocketAddr;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use mcp_proto::http::server::Config as Http;
use mcp_proto::model::CallToolResult;
use mcp_proto::{CallOptions, Era, Limits, RpcError, client};
use serde_json::json;

use crate::adapter::package::{Answered, Call, Client, Cx, Error};
use crate::adapter::{block_on_reactor as block_on, package};
use crate::support::{DEADLINE, ERAS, client_config, server_config, text, version_set, with_timeout};

/// Starts a correct server that echoes the names of tools.
fn spawn_good_server() -> (SocketAddr, package::Handle, thread::JoinHandle<Result<(), Error>>) {
    let (sender, receiver) = mpsc::channel();
    let running = thread::spawn(move || {
        let handler = async |cx: &mut Cx, call: &Call| -> Result<Answered, RpcError> {
            cx.complete(&CallToolResult::text(call.tool_call()?.name))
        };
        let server = package::HttpServer::bind("127.0.0.1:0", server_config(), Http::new(), handler).unwrap();
        sender.send((server.address().unwrap(), server.handle())).unwrap();
        block_on(server.max_connections(500).run())
    });
    let (address, handle) = receiver.recv().unwrap();
    (address, handle, running)
}

/// Tools whose calls the proxy answers with the fault of that name.
const FAULTS: &[&str] = &[
    "no-answer-at-all",
    "dies-in-the-head",
    "dies-in-the-body",
    "dies-in-a-chunk",
    "dies-in-an-event",
    "ends-without-the-answer",
    "head-without-end",
    "head-byte-by-byte",
    "comments-for-ever",
    "no-http",
    "two-lengths",
    "redirects-to-itself",
    "redirects-elsewhere",
    "not-found",
    "no-json",
    "of-another-call",
];

/// Returns the faults of an era.
///
/// In a legacy session 404 ends the session. A session that is lost right after its renewal closes the client.
fn faults(era: Era) -> impl Iterator<Item = &'static str> {
    FAULTS.iter().copied().filter(move |name| era == Era::Modern || *name != "not-found")
}

/// Starts a proxy that forwards requests, except calls of faulty tools.
fn spawn_proxy(server: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let client = stream.unwrap();
            thread::spawn(move || drop(proxy_connection(&client, server)));
        }
    });
    address
}

fn proxy_connection(client: &TcpStream, server: SocketAddr) -> std::io::Result<()> {
    let mut back = TcpStream::connect(server)?;
    let (mut answers, mut to_client) = (back.try_clone()?, client.try_clone()?);
    thread::spawn(move || {
        let _ = std::io::copy(&mut answers, &mut to_client);
        let _ = to_client.shutdown(Shutdown::Both);
    });
    let mut requests = BufReader::new(client.try_clone()?);
    loop {
        let (mut request, mut length) = (Vec::new(), 0);
        loop {
            let begun = request.len();
            if requests.read_until(b'\n', &mut request)? == 0 {
                return back.shutdown(Shutdown::Write);
            }
            let line = String::from_utf8_lossy(&request[begun..]).to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let begun = request.len();
        request.resize(begun + length, 0);
        requests.read_exact(&mut request[begun..])?;
        let body = String::from_utf8_lossy(&request[begun..]).into_owned();
        let lost = body.contains("\"name\":\"lost-once\"") && !RESPONSE_DROPPED.swap(true, Ordering::SeqCst);
        let found = if lost { Some(&"not-found") } else { None };
        match found.or_else(|| FAULTS.iter().find(|name| body.contains(&format!("\"name\":\"{name}\"")))) {
            None => back.write_all(&request)?,
            Some(name) => {
                let outcome = answer_with_fault(name, client, &body);
                let _ = client.shutdown(Shutdown::Both);
                return outcome;
            }
        }
    }
}

static RESPONSE_DROPPED: AtomicBool = AtomicBool::new(false);

fn answer_with_fault(name: &str, mut client: &TcpStream, body: &str) -> std::io::Result<()> {
    const STREAM: &str =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    const JSON: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
    let chunk = |text: &str| format!("{:x}\r\n{text}\r\n", text.len());
    let slowly = |mut piece: Box<dyn FnMut(usize) -> String>| -> std::io::Result<()> {
        for n in 0.. {
            // A client that gives up closes the connection, which ends the loop.
            (&*client).write_all(piece(n).as_bytes())?;
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    };
    match name {
        "no-answer-at-all" => Ok(()),
        "dies-in-the-head" => client.write_all(b"HTTP/1.1 200 OK\r\ncontent-ty"),
        "dies-in-the-body" => client.write_all(format!("{JSON}content-length: 100\r\n\r\n{{\"jsonrpc\"").as_bytes()),
        "dies-in-a-chunk" => client.write_all(format!("{STREAM}ff\r\ndata: {{").as_bytes()),
        "dies-in-an-event" => client.write_all(format!("{STREAM}{}", chunk("data: {\"jsonrpc\":")).as_bytes()),
        "ends-without-the-answer" => client.write_all(format!("{STREAM}{}0\r\n\r\n", chunk(": hm\n\n")).as_bytes()),
        "head-without-end" => {
            client.write_all(b"HTTP/1.1 200 OK\r\n")?;
            let line = format!("x-more: {}\r\n", "y".repeat(1_000));
            (0..10_000).try_for_each(|_| client.write_all(line.as_bytes()))
        }
        "head-byte-by-byte" => {
            client.write_all(b"HTTP/1.1 200 OK\r\nx-slow: ")?;
            slowly(Box::new(|_| "z".into()))
        }
        "comments-for-ever" => {
            client.write_all(STREAM.as_bytes())?;
            slowly(Box::new(move |_| chunk(": still here\n\n")))
        }
        "no-http" => client.write_all(b"SSH-2.0-OpenSSH_9.9\r\n"),
        "two-lengths" => {
            client.write_all(format!("{JSON}content-length: 2\r\ncontent-length: 3\r\n\r\n{{}}").as_bytes())
        }
        "redirects-to-itself" => {
            client.write_all(b"HTTP/1.1 307 Temporary Redirect\r\nlocation: /mcp\r\ncontent-length: 0\r\n\r\n")
        }
        "redirects-elsewhere" => client.write_all(
            b"HTTP/1.1 307 Temporary Redirect\r\nlocation: http://127.0.0.2:9/mcp\r\ncontent-length: 0\r\n\r\n",
        ),
        "not-found" => client.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"),
        "no-json" => client.write_all(format!("{JSON}content-length: 4\r\n\r\noops").as_bytes()),
        "of-another-call" => {
            let id: serde_json::Value = serde_json::from_str(body).unwrap();
            let other = id["id"].as_u64().unwrap_or_default() + 1_000_000;
            let answer = json!({"jsonrpc": "2.0", "id": other, "result": {"content": []}}).to_string();
            client.write_all(format!("{JSON}content-length: {}\r\n\r\n{answer}", answer.len()).as_bytes())
        }
        _ => unreachable!("{name}"),
    }
}

fn config(era: Era) -> client::Config {
    let mut limits = Limits::default();
    limits.call_timeout = Duration::from_millis(400);
    client_config(version_set(era)).limits(limits)
}

/// Returns the options of a call: a good one is waited for longer than the timeout of the faulty ones.
fn options(name: &str) -> CallOptions {
    if faults(Era::Legacy).any(|fault| fault == name) {
        CallOptions::new()
    } else {
        CallOptions::new().timeout(DEADLINE / 4)
    }
}

/// Calls each faulty tool, each time followed by a good one.
fn check(era: Era, adapter: &str, mut call: impl FnMut(&str) -> Result<String, Error>) {
    for name in faults(era) {
        let begun = Instant::now();
        let outcome = call(name);
        let took = begun.elapsed();
        assert!(matches!(outcome, Err(Error::Call(_))), "{adapter}, {era:?}, {name}: {outcome:?}");
        assert!(took < DEADLINE / 4, "{adapter}, {era:?}, {name} took {took:?}");
        let good = (0..3).find_map(|_| call("good").ok());
        assert_eq!(good.as_deref(), Some("good"), "{adapter}, {era:?}, after {name}");
    }
}

// covers: ERR-015, TIME-001
#[test]
fn faulty_response_fails_only_its_call() {
    with_timeout(|| {
        let (address, handle, running) = spawn_good_server();
        let url = format!("http://{}/mcp", spawn_proxy(address));
        for era in ERAS {
            let client = block_on(Client::options(config(era)).connect_url(&url)).unwrap();
            check(era, "asynchronous", |name| {
                let call = client.start_tool(name, &json!({}), &options(name)).unwrap();
                block_on(call).map(|result| text(&result.parse().unwrap()))
            });
            // All calls run at once, with good ones in between.
            let calls: Vec<_> = faults(era).flat_map(|name| [name, "good"]).collect();
            let start = |name| client.start_tool(name, &json!({}), &options(name)).unwrap();
            let started = calls.iter().map(|name| (*name, start(name)));
            for (name, call) in started.collect::<Vec<_>>() {
                let outcome = block_on(call);
                assert_eq!(outcome.is_ok(), name == "good", "{era:?}, {name}: {outcome:?}");
            }
            if era == Era::Legacy {
                // The client opens a new session and repeats the call, but only once.
                assert_eq!(text(&block_on(client.call_tool("lost-once", &json!({}))).unwrap()), "lost-once");
                let lost = block_on(client.call_tool("not-found", &json!({})));
                assert!(lost.is_err() && block_on(client.ping()).unwrap_err().is_closed(), "{lost:?}");
            }
            let _ = block_on(client.close());
            let client = mcp_blocking::Options::new(config(era)).connect_url(&url).unwrap();
            check(era, "blocking", |name| client.call_tool(name, &json!({})).map(|result| text(&result)));
            client.close().unwrap();
        }
        handle.shutdown(Duration::ZERO);
        running.join().unwrap().unwrap();
    });
}
