//! Very many connections to one server over HTTP, in another process
#![cfg(target_os = "linux")]

extern crate alloc;

mod support;

use core::net::SocketAddr;
use core::time::Duration;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::process::parent_id;
use std::process::{Child, Command, Stdio};

use mcp_blocking::HttpServer;
use mcp_proto::http::server::Config as Http;
use mcp_proto::{Capabilities, Capability};
use support::{DEADLINE, Tools, in_time, server};

/// The server: this test alone, in a process of its own
#[test]
fn helper() {
    if std::env::var_os("MCP_MANY").is_some() {
        // As many streams as connections.
        let http = Http::new().max_exchanges(20_000).max_sessions(20_000, 20_000);
        let capabilities = Capabilities::new().with(Capability::Tools).with(Capability::ToolsListChanged);
        let config = server().capabilities(capabilities);
        let server = HttpServer::bind("127.0.0.1:0", config, http, Tools::new().0).unwrap();
        let mut server = server.max_connections(20_000);
        println!("at {}", server.address().unwrap());
        // As long as who started it.
        let parent = parent_id();
        while parent_id() == parent {
            assert!(server.poll(Duration::from_secs(1)).unwrap());
        }
    }
}

struct Helper {
    process: Child,
    address: SocketAddr,
}

impl Helper {
    /// With so many descriptors, or `all` that this process may have
    fn start(descriptors: &str) -> Self {
        let program = std::env::current_exe().unwrap();
        let mut process = Command::new("sh")
            .args(["-c", "test $1 = all || ulimit -n $1; exec \"$0\" helper --exact --nocapture"])
            .arg(program)
            .arg(descriptors)
            .env("MCP_MANY", "1")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        // The harness writes in front of it.
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

    /// What it has in memory, in bytes
    fn resident(&self) -> usize {
        let statm = std::fs::read_to_string(format!("/proc/{}/statm", self.process.id())).unwrap();
        statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn ask(mut stream: &TcpStream) {
    stream.write_all(b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
}

fn is_answered(mut stream: &TcpStream) -> bool {
    let mut buffer = [0; 1024];
    stream.read(&mut buffer).is_ok_and(|n| buffer[..n].starts_with(b"HTTP/1.1 404 "))
}

/// As many as this process may have descriptors, and 10 000 at most
fn many() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let open = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let limit = open.split_ascii_whitespace().nth(3).unwrap().parse().unwrap_or(usize::MAX);
    (limit - 100).min(10_000)
}

#[test]
fn idle_connections_cost_little_and_all_are_answered() {
    in_time(|| {
        let helper = Helper::start("all");
        let mut streams = Vec::new();
        // As many at a time as may wait to be accepted: who finds no room there tries again after a second.
        let open = |streams: &mut Vec<TcpStream>, count: usize| {
            let until = streams.len() + count;
            while streams.len() < until {
                let new: Vec<_> = (0..100.min(until - streams.len())).map(|_| helper.connect()).collect();
                new.iter().for_each(ask);
                assert!(new.iter().all(is_answered));
                streams.extend(new);
            }
        };
        open(&mut streams, 200);
        let (before, more) = (helper.resident(), many() - 200);
        open(&mut streams, more);
        let each = helper.resident().saturating_sub(before) / more;
        println!("{each} bytes for each of {more} connections");
        assert!(each <= 2048, "{each} bytes for each of {more} connections");
        // Everybody again, and in no order.
        for at in 0..streams.len() {
            ask(&streams[at * 7919 % streams.len()]);
        }
        assert!(streams.iter().all(is_answered));
    });
}

/// The head of what is answered
fn head(mut stream: &TcpStream) -> String {
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
fn open_streams_cost_little_and_hold_up_nobody() {
    in_time(|| {
        let helper = Helper::start("all");
        let initialize = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}"#;
        let request = format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n\r\n{initialize}",
            initialize.len()
        );
        let open = || {
            let mut stream = helper.connect();
            stream.write_all(request.as_bytes()).unwrap();
            let answer = head(&stream);
            let named = |line: &&str| line.to_lowercase().starts_with("mcp-session-id: ");
            let session = &answer.lines().find(named).unwrap()["mcp-session-id: ".len()..];
            // A connection of its own: what follows the head of the answer is not looked at.
            stream = helper.connect();
            let get = format!(
                "GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\
                 MCP-Protocol-Version: 2025-11-25\r\nMcp-Session-Id: {session}\r\n\r\n"
            );
            stream.write_all(get.as_bytes()).unwrap();
            let answer = head(&stream);
            assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
            stream
        };
        let mut streams: Vec<TcpStream> = (0..200).map(|_| open()).collect();
        let (before, more) = (helper.resident(), many() - 200);
        streams.extend((0..more).map(|_| open()));
        let each = helper.resident().saturating_sub(before) / more;
        println!("{each} bytes for each of {more} streams");
        // With the session and the exchange, which are the engine's.
        assert!(each <= 4096, "{each} bytes for each of {more} streams");
        let plain = helper.connect();
        ask(&plain);
        assert!(is_answered(&plain));
    });
}

#[test]
fn who_finds_no_descriptor_left_waits_for_one() {
    in_time(|| {
        let helper = Helper::start("40");
        let mut first: Vec<TcpStream> = (0..60).map(|_| helper.connect()).collect();
        first.iter().for_each(ask);
        let last = first.split_off(20);
        assert!(first.iter().all(is_answered));
        let unlucky = &last[39];
        unlucky.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        assert!(!is_answered(unlucky), "there are descriptors left");
        unlucky.set_read_timeout(Some(DEADLINE)).unwrap();
        // Who is connected is served all the same.
        ask(&first[0]);
        assert!(is_answered(&first[0]));
        drop(first);
        // Those who came earlier have answers waiting for them; closed in turn, they make room for the rest.
        for stream in last {
            assert!(is_answered(&stream));
        }
    });
}
