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

use mcp_proto::http::server::Config as Http;
use mcp_smol::HttpServer;
use support::{DEADLINE, Tools, in_time, server};

/// The server: this test alone, in a process of its own
#[test]
fn helper() {
    if std::env::var_os("MCP_MANY").is_some() {
        let server = HttpServer::bind("127.0.0.1:0", server(), Http::new(), Tools::new().0).unwrap();
        let server = server.max_connections(20_000);
        println!("at {}", server.address().unwrap());
        // As long as who started it.
        let parent = parent_id();
        let orphaned = async {
            while parent_id() == parent {
                async_io::Timer::after(Duration::from_secs(1)).await;
            }
            Ok(())
        };
        async_io::block_on(futures_lite::future::or(server.run(), orphaned)).unwrap();
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
