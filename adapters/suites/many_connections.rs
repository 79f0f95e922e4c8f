//! Suite: thousands of connections to one HTTP server in another process.
//!
//! `crate::adapter` names the adapter under test.

use core::net::SocketAddr;
use core::time::Duration;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::process::parent_id;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;

use mcp_proto::http::server::Config as Http;
use mcp_proto::{Capabilities, Capability};

use crate::adapter::{HttpServer, run_on_reactor};
use crate::support::{DEADLINE, Tools, server_config, with_timeout};

/// The server that the tests start as a process.
#[test]
fn helper() {
    if std::env::var_os("MCP_MANY").is_some() {
        // Event streams are limited like connections.
        let http = Http::new().max_exchanges(20_000).max_sessions(20_000, 20_000);
        let capabilities = Capabilities::new().with(Capability::Tools).with(Capability::ToolsListChanged);
        let config = server_config().capabilities(capabilities);
        let server = HttpServer::bind("127.0.0.1:0", config, http, Tools::new().0).unwrap();
        let server = server.max_connections(20_000);
        println!("at {}", server.address().unwrap());
        // The server ends when the process that started it does.
        let parent = parent_id();
        thread::spawn(move || {
            while parent_id() == parent {
                thread::sleep(Duration::from_secs(1));
            }
            std::process::exit(0);
        });
        run_on_reactor!(server.run()).unwrap();
        panic!("the server ended by itself");
    }
}

struct ServerProcess {
    process: Child,
    address: SocketAddr,
}

impl ServerProcess {
    /// Starts the server with a limit of `descriptors`, or with `all` that this process may have.
    fn start(descriptors: &str) -> Self {
        let program = std::env::current_exe().unwrap();
        let mut process = Command::new("sh")
            .args(["-c", "test $1 = all || ulimit -n $1; exec \"$0\" suite::helper --exact --nocapture"])
            .arg(program)
            .arg(descriptors)
            .env("MCP_MANY", "1")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        // The test harness prints before it.
        let address = lines.map_while(Result::ok).find_map(|line| {
            let (_, address) = line.split_once("at 127")?;
            format!("127{address}").parse().ok()
        });
        Self { process, address: address.unwrap() }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream
    }

    /// Returns the resident memory in bytes.
    fn resident_bytes(&self) -> usize {
        let statm = std::fs::read_to_string(format!("/proc/{}/statm", self.process.id())).unwrap();
        statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn send_request(mut stream: &TcpStream) {
    stream.write_all(b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
}

fn is_answered(mut stream: &TcpStream) -> bool {
    let mut buffer = [0; 1024];
    stream.read(&mut buffer).is_ok_and(|n| buffer[..n].starts_with(b"HTTP/1.1 404 "))
}

/// Fewer connections say nothing about the memory of one.
const FEWEST: usize = 400;

/// Calls `test` with the number of connections that it may open, at most 1 000, or 10 000 with `MCP_TEST_FULL`.
///
/// That is half of what this process can open, for other tests need some. Only one test at a time takes as many.
fn with_connections(test: impl FnOnce(usize) + Send + 'static) {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let open = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let limit = open.split_ascii_whitespace().nth(3).unwrap().parse().unwrap_or(usize::MAX);
    let count = (limit / 2).min(if std::env::var_os("MCP_TEST_FULL").is_some() { 10_000 } else { 1_000 });
    if count < FEWEST {
        let name = thread::current().name().unwrap_or("a test").to_owned();
        let line = format!("NOT CHECKED: {name}: {limit} descriptors are too few; ulimit -n {}", 2 * FEWEST);
        assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "{line}");
        // Not `eprintln!`: the test harness would capture the line and drop it.
        let _ = writeln!(std::io::stderr(), "{line}");
        return;
    }
    with_timeout(move || test(count));
}

#[test]
fn idle_connections_use_little_memory() {
    with_connections(|count| {
        let server = ServerProcess::start("all");
        let mut streams = Vec::new();
        // No more at a time than the backlog holds: a dropped SYN is sent again only after a second.
        let open = |streams: &mut Vec<TcpStream>, count: usize| {
            let until = streams.len() + count;
            while streams.len() < until {
                let new: Vec<_> = (0..100.min(until - streams.len())).map(|_| server.connect()).collect();
                new.iter().for_each(send_request);
                assert!(new.iter().all(is_answered));
                streams.extend(new);
            }
        };
        open(&mut streams, 200);
        let (before, more) = (server.resident_bytes(), count - 200);
        open(&mut streams, more);
        let each = server.resident_bytes().saturating_sub(before) / more;
        println!("{each} bytes for each of {more} connections");
        assert!(each <= 2048, "{each} bytes for each of {more} connections");
        // Each connection again, in another order.
        for at in 0..streams.len() {
            send_request(&streams[at * 7919 % streams.len()]);
        }
        assert!(streams.iter().all(is_answered));
    });
}

/// Reads the head of a response.
fn read_head(mut stream: &TcpStream) -> String {
    let (mut head, mut buffer) = (Vec::new(), [0; 4096]);
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut buffer).unwrap() {
            0 => break,
            n => head.extend_from_slice(&buffer[..n]),
        }
    }
    String::from_utf8(head).unwrap()
}

#[test]
fn open_event_streams_use_little_memory() {
    with_connections(|count| {
        let server = ServerProcess::start("all");
        let initialize = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}"#;
        let request = format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n\r\n{initialize}",
            initialize.len()
        );
        let open = || {
            let mut stream = server.connect();
            stream.write_all(request.as_bytes()).unwrap();
            let answer = read_head(&stream);
            let named = |line: &&str| line.to_lowercase().starts_with("mcp-session-id: ");
            let session = &answer.lines().find(named).unwrap()["mcp-session-id: ".len()..];
            // Opens a new connection: the response body on the first one is not read.
            stream = server.connect();
            let get = format!(
                "GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\
                 MCP-Protocol-Version: 2025-11-25\r\nMcp-Session-Id: {session}\r\n\r\n"
            );
            stream.write_all(get.as_bytes()).unwrap();
            let answer = read_head(&stream);
            assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
            stream
        };
        let mut streams: Vec<TcpStream> = (0..200).map(|_| open()).collect();
        let (before, more) = (server.resident_bytes(), count - 200);
        streams.extend((0..more).map(|_| open()));
        let each = server.resident_bytes().saturating_sub(before) / more;
        println!("{each} bytes for each of {more} streams");
        // Includes the session and the exchange in the engine.
        assert!(each <= 4096, "{each} bytes for each of {more} streams");
        let plain = server.connect();
        send_request(&plain);
        assert!(is_answered(&plain));
    });
}

#[test]
fn connection_without_descriptor_waits_for_one() {
    with_timeout(|| {
        let server = ServerProcess::start("40");
        let mut first: Vec<TcpStream> = (0..60).map(|_| server.connect()).collect();
        first.iter().for_each(send_request);
        let last = first.split_off(20);
        assert!(first.iter().all(is_answered));
        let unlucky = &last[39];
        // Connections that were answered just now are spared for a moment.
        unlucky.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        assert!(!is_answered(unlucky), "there are descriptors left");
        unlucky.set_read_timeout(Some(DEADLINE)).unwrap();
        // Connected clients are still served.
        send_request(&first[0]);
        assert!(is_answered(&first[0]));
        drop(first);
        // The earlier of these have responses waiting. Each one that closes makes room for another.
        for stream in last {
            assert!(is_answered(&stream));
        }
    });
}
