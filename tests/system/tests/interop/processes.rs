//! Three processes of one server behind nginx without affinity, with a Redis, while they end and start again.
//!
//! `MCP_PROCESS_ENDS` sets how often one ends; 6 by default, and 200 in `.ci/full`.

use alloc::collections::BTreeMap;
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
use crate::peers::{
    is_node_ready, is_python_ready, node, package, probe, python, python_program, report_readiness,
};
use crate::run::{DEADLINE, bypass_proxies, command, print_line, run};

/// A Redis that runs until it is dropped.
pub(super) struct Redis {
    child: Child,
    pub(super) folder: PathBuf,
    pub(super) url: String,
}

pub(super) fn is_redis_ready() -> bool {
    static READY: OnceLock<Result<(), String>> = OnceLock::new();
    let found = READY.get_or_init(|| {
        let found = run(command(["redis-server", "--version"]), DEADLINE);
        found.map(drop).map_err(|error| format!("redis-server does not run: {error}"))
    });
    report_readiness(found, "sessions in Redis")
}

/// Returns a port that nobody uses. It is none that the system gives to connections: one of these could take it while a process
/// starts again.
pub(super) fn free_port() -> u16 {
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
    /// Starts a Redis with these arguments, in a folder of its own.
    pub(super) fn start(args: &[&str]) -> Self {
        let port = free_port();
        let folder = env::temp_dir().join(format!("mcp-processes-{}-{port}", std::process::id()));
        fs::create_dir_all(&folder).expect("room for a folder");
        let mut server = Command::new("redis-server");
        server.args(args).args(["--bind", "127.0.0.1", "--port", &port.to_string()]);
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

/// Returns the folder with the certificate and the key of a server on this machine, and with their authority.
pub(super) fn certificates() -> PathBuf {
    package().join("../../adapters/std/tests/certificates")
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
        let redis = Redis::start(&["--save", "", "--appendonly", "no"]);
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

/// The library of a client.
#[derive(Clone, Copy, Debug)]
pub(super) enum Library {
    TypeScript,
    Python,
    Own,
}

/// A client that works until it is told to end.
pub(super) struct SessionClient {
    child: Child,
    name: String,
}

impl SessionClient {
    /// Starts a client. The one in Python does not open its GET stream again after two that broke, unless it is told to.
    pub(super) fn start(library: Library, url: &str, revision: &str, are_streams_broken: bool) -> Self {
        let mut client = match library {
            Library::TypeScript => Command::new("node"),
            Library::Python => Command::new(python_program()),
            Library::Own => Command::new(env!("CARGO_BIN_EXE_session-client")),
        };
        match library {
            Library::TypeScript => drop(client.arg(node().join("session-client.mjs"))),
            Library::Python => drop(client.arg(python().join("session_client.py"))),
            Library::Own => {}
        }
        client.args([url, revision]);
        if are_streams_broken && matches!(library, Library::Python) {
            client.arg("1000");
        }
        client.env("NODE_EXTRA_CA_CERTS", certificates().join("root.pem"));
        bypass_proxies(&mut client);
        let child = client.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        Self { child: child.expect("it was there before"), name: format!("{library:?}, {revision}") }
    }

    /// Ends the work, and returns the name of the client and what was done.
    pub(super) fn finish(mut self) -> (String, Value) {
        drop(self.child.stdin.take());
        let output = self.child.wait_with_output().expect("an end");
        let text = String::from_utf8(output.stdout).expect("text");
        let done = serde_json::from_str(&text);
        let done = done.unwrap_or_else(|error| panic!("{}: {error}: {text}: {}", self.name, output.status));
        (self.name, done)
    }
}

/// Prints what a client did: numbers, and how often it got which error.
pub(super) fn print_done(what: &str, client: &str, done: &Value) {
    let mut errors: BTreeMap<String, usize> = BTreeMap::new();
    for error in done["errors"].as_array().into_iter().flatten() {
        let text = error.as_str().unwrap_or_default().chars().take(100).collect();
        *errors.entry(text).or_default() += 1;
    }
    let [calls, asked, updates] = ["calls", "asked", "updates"].map(|name| &done[name]);
    print_line(&format!(
        "{what}, {client}: {calls} calls, {asked} asked, {updates} updates, errors {errors:?}"
    ));
}

/// Checks that a client had one session, heard of a change at its end, and made calls: how many depends on the machine.
pub(super) fn assert_kept_session(name: &str, done: &Value) {
    assert_eq!(done["sessions"].as_array().map(Vec::len), Some(1), "{name}: {done}");
    assert_eq!(done["heardAfter"], true, "{name}: {done}");
    assert!(done["calls"].as_u64() > Some(0), "{name}: {done}");
}

fn ends() -> usize {
    env::var("MCP_PROCESS_ENDS").map_or(6, |text| text.parse().expect("a number"))
}

fn is_ready() -> bool {
    is_nginx_ready() && is_node_ready() && is_python_ready() && is_redis_ready()
}

/// Lets clients work while processes end, and returns what each did.
fn work_through(is_killed: bool) -> Vec<(String, Value)> {
    let mut processes = Processes::start();
    let urls = processes.urls();
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    let proxy = NginxProxy::start(&urls);
    let revisions = ["2025-11-25", "2025-06-18"];
    let libraries = [Library::TypeScript, Library::Python, Library::Own];
    let start =
        |library| revisions.map(|revision| SessionClient::start(library, &proxy.url, revision, is_killed));
    let clients: Vec<_> = libraries.into_iter().flat_map(start).collect();
    // They have connected by then, also on a slow machine.
    thread::sleep(Duration::from_secs(4));
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
    let all = work_through(false);
    for (client, done) in &all {
        print_done("processes, terminated", client, done);
    }
    for (client, done) in &all {
        assert_eq!(done["errors"], serde_json::json!([]), "{client}");
        assert_kept_session(client, done);
        assert!(done["asked"].as_u64() > Some(0), "{client}: {done}");
    }
}

// covers: HTTP-064, SSE-021
#[test]
fn sessions_outlive_processes_that_are_killed_and_each_call_ends() {
    if !is_ready() {
        return;
    }
    let all = work_through(true);
    for (client, done) in &all {
        print_done("processes, killed", client, done);
    }
    for (client, done) in &all {
        // A call of a process that is killed fails, by its connection or by an error that says so; none is left waiting.
        let errors = done["errors"].as_array().expect("a list");
        let is_told = |error: &&Value| {
            let error = error.as_str().unwrap_or_default();
            // The last one is how the SDK of Python says that the status is one of `statuses`.
            let told = [
                "fetch failed",
                "502",
                "the call was lost",
                "terminated",
                "Server returned an error response",
            ];
            // The answer to the question of this call was refused (502). The official SDKs do not send it again, ours does.
            let is_dropped = error.contains("has dropped its answer") && !client.starts_with("Own");
            // The SDK of TypeScript does not resume a stream a second time that has broken before an event with an id, and only
            // from 2025-11-25 on each begins with one.
            let is_forgotten = client == "TypeScript, 2025-06-18" && error.contains("Request timed out");
            is_dropped || is_forgotten || told.iter().any(|part| error.contains(part))
        };
        let mut statuses = done["statuses"].as_array().into_iter().flatten();
        assert!(statuses.all(|status| *status == 502), "{client}: {done}");
        assert!(errors.iter().all(|error| is_told(&error)), "{client}: {errors:?}");
        // `count` may run again. Its stream begins at once, with progress, so its client can resume it. It is lost if its process is
        // killed between the answer and its way to the client, which is longer on a busy machine.
        let is_lost = |error: &&Value| {
            let error = error.as_str().unwrap_or_default();
            error.contains("count") && error.contains("the call was lost")
        };
        assert!(errors.iter().filter(is_lost).count() <= ends() / 3, "{client}: {errors:?}");
        assert_kept_session(client, done);
    }
}
