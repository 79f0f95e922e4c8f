//! Three processes of one server behind nginx without affinity, with a Redis, while they end and start again.
//!
//! `MCP_PROCESS_ENDS` sets how often one ends; 6 by default, and 200 in `.ci/full`.

use core::sync::atomic::{AtomicU16, Ordering};
use core::time::Duration;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Instant;
use std::{env, fs, thread};

use serde_json::Value;

use crate::hosted_server::HostedServer;
use crate::interop::proxy::{NginxProxy, is_nginx_ready};
use crate::peers::{is_node_ready, node, probe, report_readiness};
use crate::run::{DEADLINE, bypass_proxies, command, print_line, run};

/// A Redis that runs until it is dropped.
struct Redis {
    child: Child,
    folder: PathBuf,
    url: String,
}

fn is_redis_ready() -> bool {
    static READY: OnceLock<Result<(), String>> = OnceLock::new();
    let found = READY.get_or_init(|| {
        let found = run(command(["redis-server", "--version"]), DEADLINE);
        found.map(drop).map_err(|error| format!("redis-server does not run: {error}"))
    });
    report_readiness(found, "sessions in Redis")
}

/// Returns a port that nobody uses. It is none that the system gives to connections: one of these could take it while a process
/// starts again.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = 12_000 + (std::process::id() % 8_000) as u16;
    loop {
        let port = first + NEXT.fetch_add(1, Ordering::Relaxed);
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

fn wait_for(port: u16) {
    let start = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(start.elapsed() < DEADLINE, "nobody listens at {port}");
        thread::sleep(Duration::from_millis(10));
    }
}

impl Redis {
    fn start() -> Self {
        let port = free_port();
        let folder = env::temp_dir().join(format!("mcp-processes-{}-{port}", std::process::id()));
        fs::create_dir_all(&folder).expect("room for a folder");
        let mut server = Command::new("redis-server");
        server.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--port", &port.to_string()]);
        let child = server.current_dir(&folder).stdout(Stdio::null()).spawn().expect("it was there before");
        wait_for(port);
        Self { child, folder, url: format!("redis://127.0.0.1:{port}") }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The processes of one server, at fixed ports.
struct Processes {
    redis: Redis,
    key: PathBuf,
    all: Vec<(u16, HostedServer)>,
}

const RUNTIMES: [&str; 3] = ["threads", "smol", "tokio"];

impl Processes {
    fn start() -> Self {
        let redis = Redis::start();
        let key = redis.folder.join("key");
        fs::write(&key, "0123456789abcdef".repeat(4)).expect("room for a file");
        let mut all = Self { redis, key, all: Vec::new() };
        for at in 0..RUNTIMES.len() {
            let port = free_port();
            let process = all.process(at, port);
            all.all.push((port, process));
        }
        all
    }

    fn process(&self, at: usize, port: u16) -> HostedServer {
        let mut serve = Command::new(probe());
        serve.args(["serve", "--everything", "--runtime", RUNTIMES[at], "--http"]);
        serve.arg(format!("127.0.0.1:{port}")).arg("--session-store").arg(&self.redis.url);
        serve.arg("--session-key").arg(&self.key);
        HostedServer::start_at(serve, port, "/mcp")
    }

    fn urls(&self) -> Vec<String> {
        self.all.iter().map(|(port, _)| format!("http://127.0.0.1:{port}/mcp")).collect()
    }

    /// Ends one process and starts it again.
    fn replace(&mut self, at: usize, is_killed: bool) {
        let (port, process) = self.all.remove(at);
        if is_killed {
            drop(process);
        } else {
            process.stop();
        }
        let process = self.process(at, port);
        self.all.insert(at, (port, process));
    }
}

/// A client that works until it is told to end.
struct SessionClient {
    child: Child,
    revision: &'static str,
}

impl SessionClient {
    fn start(url: &str, revision: &'static str) -> Self {
        let mut client = Command::new("node");
        client.arg(node().join("session-client.mjs")).args([url, revision]);
        bypass_proxies(&mut client);
        let child = client.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("node");
        Self { child, revision }
    }

    /// Ends the work, and returns what was done.
    fn finish(mut self) -> (&'static str, Value) {
        drop(self.child.stdin.take());
        let output = self.child.wait_with_output().expect("an end");
        let text = String::from_utf8(output.stdout).expect("text");
        (self.revision, serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}")))
    }
}

fn ends() -> usize {
    env::var("MCP_PROCESS_ENDS").map_or(6, |text| text.parse().expect("a number"))
}

fn is_ready() -> bool {
    is_nginx_ready() && is_node_ready() && is_redis_ready()
}

/// Lets clients work while processes end, and returns what each did.
fn work_through(is_killed: bool) -> Vec<(&'static str, Value)> {
    let mut processes = Processes::start();
    let urls = processes.urls();
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    let proxy = NginxProxy::start(&urls);
    let revisions = ["2025-11-25", "2025-06-18"];
    let clients: Vec<_> =
        revisions.into_iter().map(|revision| SessionClient::start(&proxy.url, revision)).collect();
    for n in 0..ends() {
        thread::sleep(Duration::from_secs(2));
        processes.replace(n % RUNTIMES.len(), is_killed);
    }
    thread::sleep(Duration::from_secs(2));
    clients.into_iter().map(SessionClient::finish).collect()
}

// covers: HTTP-064, HTTP-070, SSE-021
#[test]
fn sessions_outlive_processes_that_are_terminated() {
    if !is_ready() {
        return;
    }
    for (revision, done) in work_through(false) {
        print_line(&format!("processes, terminated, {revision}: {done}"));
        assert_eq!(done["errors"], serde_json::json!([]), "{revision}");
        assert_eq!(done["sessions"].as_array().map(Vec::len), Some(1), "{revision}");
        assert_eq!(done["heardAfter"], true, "{revision}");
        assert!(done["calls"].as_u64() > Some(50) && done["asked"].as_u64() > Some(5), "{revision}: {done}");
    }
}

// covers: HTTP-064, SSE-021
#[test]
fn sessions_outlive_processes_that_are_killed_and_each_call_ends() {
    if !is_ready() {
        return;
    }
    for (revision, done) in work_through(true) {
        print_line(&format!("processes, killed, {revision}: {done}"));
        // A call of a process that is killed fails, by its connection or by an error that says so; none is left waiting.
        let errors = done["errors"].as_array().expect("a list");
        let is_told = |error: &&Value| {
            let error = error.as_str().unwrap_or_default();
            ["fetch failed", "502", "the call was lost", "terminated"].iter().any(|part| error.contains(part))
        };
        assert!(errors.iter().all(|error| is_told(&error)), "{revision}: {errors:?}");
        assert_eq!(done["sessions"].as_array().map(Vec::len), Some(1), "{revision}");
        assert_eq!(done["heardAfter"], true, "{revision}");
        assert!(done["calls"].as_u64() > Some(50), "{revision}: {done}");
    }
}
