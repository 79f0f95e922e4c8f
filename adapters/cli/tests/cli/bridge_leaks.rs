//! Clients of a bridge that vanish in every way leave nothing behind: no process, descriptor or thread, and no memory.
//!
//! `MCP_LEAK_CLIENTS` sets the number of clients (500), `MCP_LEAK_MINUTES` a time to repeat that for.

use core::fmt;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::sync::Mutex;
use std::time::Instant;
use std::{env, fs, thread};

use crate::http::ServingProcess;
use crate::support::{PROBE, probe_command};

/// The ways in which a client vanishes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    /// Closes after the answer.
    Close,
    /// Closes during a call.
    CloseInCall,
    /// Closes with an answer unread, which resets the connection.
    Reset,
    /// Ends its output during a call, and keeps the connection open.
    HalfOpen,
    /// Keeps the connection open without a word.
    Silence,
    /// Sends a part of a message, and nothing more.
    Fragment,
    /// Connects, and sends nothing at all.
    Mute,
}

const WAYS: [Way; 6] = [Way::Close, Way::CloseInCall, Way::Reset, Way::HalfOpen, Way::Silence, Way::Fragment];

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
const CALL: &str =
    r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"text":"x"}}}"#;
/// Takes half a second.
const LONG_CALL: &str = r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"count","arguments":{"to":10,"delay_ms":50},"_meta":{"progressToken":7}}}"#;
const MODERN_CALL: &str = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"text":"x"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"}}}}"#;

/// What a process and its descendants take.
#[derive(Clone, Copy, PartialEq)]
struct Footprint {
    /// Servers that run, of any bridge of this test.
    servers: usize,
    descriptors: usize,
    threads: usize,
    kilobytes: usize,
}

impl Footprint {
    fn of(process: u32, marker: &str) -> Self {
        let count = |what: &str| fs::read_dir(format!("/proc/{process}/{what}")).expect("it runs").count();
        let status = fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line of it");
        let kilobytes = resident.trim().trim_end_matches(" kB").parse().expect("a number");
        Self { servers: servers(marker), descriptors: count("fd"), threads: count("task"), kilobytes }
    }

    /// Returns the same without the memory.
    const fn counted(self) -> [usize; 3] {
        [self.servers, self.descriptors, self.threads]
    }
}

impl fmt::Display for Footprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { servers, descriptors, threads, kilobytes } = self;
        write!(f, "{servers} servers, {descriptors} descriptors, {threads} threads, {kilobytes} kB")
    }
}

/// Returns the number of running `mcp-probe serve` with this argument.
fn servers(marker: &str) -> usize {
    commands(marker).iter().filter(|command| !command.contains("\0bridge\0")).count()
}

/// Returns the command lines of processes that have this argument.
fn commands(marker: &str) -> Vec<String> {
    let processes = fs::read_dir("/proc").expect("processes").flatten();
    let lines = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).into_owned());
    lines.filter(|line| line.split('\0').any(|argument| argument == marker)).collect()
}

/// Waits until something holds, as long as a busy machine may need.
fn wait_until(what: &str, mut holds: impl FnMut() -> Result<(), String>) {
    let begun = Instant::now();
    loop {
        match holds() {
            Ok(()) => return,
            Err(found) if begun.elapsed() > Duration::from_secs(60) => panic!("{what}: {found}"),
            Err(_) => thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// A bridge whose clients vanish.
struct Subject {
    name: &'static str,
    process: ServingProcess,
    marker: String,
    /// Connects a client and lets it vanish. Returns a connection that it keeps.
    vanish: fn(&str, usize) -> Option<Kept>,
    /// Number of clients so far, which chooses their ways.
    clients: usize,
}

/// A connection that a client keeps without using it.
enum Kept {
    Tcp(#[expect(dead_code, reason = "it is only open")] TcpStream),
    Unix(#[expect(dead_code, reason = "it is only open")] UnixStream),
}

impl Subject {
    fn footprint(&self) -> Footprint {
        Footprint::of(self.process.id(), &self.marker)
    }

    /// Waits until no server is left, and takes its time to end connections.
    fn rest(&self) -> Footprint {
        let mut last = None;
        wait_until(self.name, || {
            thread::sleep(Duration::from_millis(300));
            let found = self.footprint();
            let rests = found.servers == 0 && last == Some(found.counted());
            last = Some(found.counted());
            if rests { Ok(()) } else { Err(found.to_string()) }
        });
        self.footprint()
    }

    /// Runs clients, some at a time, until all have vanished. Those that keep their connections do so until the end.
    fn run(&mut self, clients: usize) {
        let (next, kept) = (AtomicUsize::new(self.clients), Mutex::new(Vec::new()));
        self.clients += clients;
        let (end, address, vanish) = (self.clients, &self.process.url, self.vanish);
        thread::scope(|scope| {
            for _ in 0..CONCURRENCY {
                scope.spawn(|| {
                    loop {
                        let client = next.fetch_add(1, Ordering::Relaxed);
                        if client >= end {
                            return;
                        }
                        let connection = vanish(address, client);
                        kept.lock().expect("no panic").extend(connection);
                    }
                });
            }
        });
        // The bridge does not need the help of clients to end their servers.
        wait_until(self.name, || match servers(&self.marker) {
            0 => Ok(()),
            left => Err(format!("{left} servers of clients that are silent or gone")),
        });
    }
}

/// The both directions of a client on a byte stream, TCP or Unix.
trait Stream: Read + Write {
    fn end_output(&self);
}

impl Stream for TcpStream {
    fn end_output(&self) {
        self.shutdown(Shutdown::Write).expect("it is open");
    }
}

impl Stream for UnixStream {
    fn end_output(&self) {
        self.shutdown(Shutdown::Write).expect("it is open");
    }
}

/// Reads bytes until they contain one of `ends`.
fn read_until(stream: &mut impl Read, ends: &[&str]) -> String {
    let (mut text, mut piece) = (String::new(), [0; 4096]);
    while !ends.iter().any(|end| text.contains(end)) {
        let n = stream.read(&mut piece).unwrap_or_else(|error| panic!("no {ends:?} after {text:?}: {error}"));
        assert_ne!(n, 0, "the bridge closed the connection after {text:?}");
        text.push_str(core::str::from_utf8(&piece[..n]).expect("ASCII"));
    }
    text
}

/// Uses a byte stream and vanishes. Returns whether the connection is kept.
fn vanish_from_stream(stream: &mut impl Stream, way: Way) -> bool {
    if way == Way::Mute {
        return true;
    }
    let mut send = |lines: &[&str]| stream.write_all(lines.concat().as_bytes()).expect("it reads");
    send(&[INITIALIZE, "\n", INITIALIZED, "\n"]);
    match way {
        Way::Close | Way::Silence => send(&[CALL, "\n"]),
        Way::CloseInCall | Way::HalfOpen => send(&[LONG_CALL, "\n"]),
        Way::Reset => send(&[CALL, "\n", LONG_CALL, "\n"]),
        Way::Fragment => send(&[CALL.split_at(20).0]),
        Way::Mute => {}
    }
    let awaited = match way {
        Way::Close | Way::Silence => "\"id\":2",
        Way::CloseInCall | Way::HalfOpen => "notifications/progress",
        Way::Reset | Way::Fragment | Way::Mute => "\"id\":1",
    };
    read_until(stream, &[awaited]);
    if way == Way::HalfOpen {
        stream.end_output();
    }
    matches!(way, Way::HalfOpen | Way::Silence | Way::Fragment)
}

fn vanish_from_unix(address: &str, client: usize) -> Option<Kept> {
    let mut stream = UnixStream::connect(address.trim_start_matches("unix:")).expect("it listens");
    vanish_from_stream(&mut stream, WAYS[client % WAYS.len()]).then_some(Kept::Unix(stream))
}

fn vanish_from_tcp(address: &str, client: usize) -> Option<Kept> {
    let mut stream = TcpStream::connect(address.trim_start_matches("tcp://")).expect("it listens");
    vanish_from_stream(&mut stream, WAYS[client % WAYS.len()]).then_some(Kept::Tcp(stream))
}

/// Uses a bridge over HTTP and vanishes: each way with a session, with a session that it ends, and without one.
fn vanish_from_http(address: &str, client: usize) -> Option<Kept> {
    let address = address.trim_start_matches("http://").trim_end_matches("/mcp");
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a socket");
    let way = WAYS[client % WAYS.len()];
    let request = |method: &str, headers: &str, body: &str| {
        format!(
            "{method} /mcp HTTP/1.1\r\nHost: {address}\r\nAccept: application/json, text/event-stream\r\nContent-Type: \
             application/json\r\n{headers}Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    let modern = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: echo\r\n";
    if way == Way::Mute {
        return Some(Kept::Tcp(stream));
    }
    if client / WAYS.len() % 3 == 0 && way != Way::HalfOpen && way != Way::CloseInCall {
        stream.write_all(request("POST", modern, MODERN_CALL).as_bytes()).expect("it reads");
        read_until(&mut stream, &["\"id\":2"]);
    } else {
        stream.write_all(request("POST", "", INITIALIZE).as_bytes()).expect("it reads");
        let head = read_until(&mut stream, &["\"id\":1"]);
        let session = head.lines().find_map(|line| line.strip_prefix("Mcp-Session-Id: ")).expect("a session");
        let session = format!("Mcp-Session-Id: {session}\r\nMCP-Protocol-Version: 2025-11-25\r\n");
        stream.write_all(request("POST", &session, INITIALIZED).as_bytes()).expect("it reads");
        if has_lost_session(&mut stream) {
            return None;
        }
        let request = match way {
            Way::Close | Way::Fragment | Way::Mute => request("DELETE", &session, ""),
            Way::Silence => request("GET", &session, ""),
            Way::Reset => request("POST", &session, CALL),
            Way::CloseInCall | Way::HalfOpen => request("POST", &session, LONG_CALL),
        };
        stream.write_all(request.as_bytes()).expect("it reads");
        if way != Way::Reset && has_lost_session(&mut stream) {
            return None;
        }
    }
    match way {
        Way::HalfOpen => stream.end_output(),
        Way::Fragment => stream.write_all(b"POST /mcp HTT").expect("it reads"),
        _ => {}
    }
    matches!(way, Way::HalfOpen | Way::Silence | Way::Fragment).then_some(Kept::Tcp(stream))
}

/// Reads the status of a response, and returns whether the client came back too late: on a busy machine its session may have been
/// idle for too long.
fn has_lost_session(stream: &mut TcpStream) -> bool {
    let is_late = read_until(stream, &["HTTP/1.1 2", "HTTP/1.1 404"]).contains("HTTP/1.1 404");
    LATE.fetch_add(usize::from(is_late), Ordering::Relaxed);
    is_late
}

/// Clients over HTTP whose sessions had ended when they came back.
static LATE: AtomicUsize = AtomicUsize::new(0);

/// Starts a bridge that listens at an address.
fn subject(name: &'static str, listen: &[&str], vanish: fn(&str, usize) -> Option<Kept>) -> Subject {
    static SUBJECTS: AtomicUsize = AtomicUsize::new(0);
    // An argument that no other process has.
    let marker = format!(
        "{}",
        17_000_000 + std::process::id() as usize * 10 + SUBJECTS.fetch_add(1, Ordering::Relaxed)
    );
    // Its calls run beside each other.
    let server = ["--", PROBE, "serve", "--runtime", "threads", "--max-frame", &marker];
    let options = ["--max-connections", "600", "--idle-timeout", "2s", "--era", "legacy"];
    let mut command = probe_command();
    // Memory that is free goes back to the system at once, so that what is left is in use.
    command.envs([("MALLOC_ARENA_MAX", "1"), ("MALLOC_TRIM_THRESHOLD_", "65536")]);
    command.arg("bridge").args(listen).args(options).args(server);
    let process = ServingProcess::spawn(&mut command, &[]);
    Subject { name, process, marker, vanish, clients: 0 }
}

/// Lets clients vanish from a bridge, round after round, and compares what it takes. Returns the number of clients.
///
/// A burst that a busy machine makes higher than those before may leave memory in pieces, once. A leak is there each time.
fn check(mut subject: Subject, clients: usize, time: Duration) -> usize {
    let round = ROUND.min(clients / 2);
    // What is allocated once.
    subject.run(round);
    let mut before = subject.rest();
    let mut growth = Vec::new();
    while growth.len() < 4 {
        let (begun, end) = (Instant::now(), subject.clients + clients - round);
        while subject.clients < end || begun.elapsed() < time {
            subject.run(round);
        }
        let after = subject.rest();
        println!("{}: {} clients: before {before}, after {after}", subject.name, subject.clients);
        assert_eq!(after.counted(), before.counted(), "{}: servers, descriptors, threads", subject.name);
        if after.kilobytes <= before.kilobytes + before.kilobytes / 20 {
            return subject.clients;
        }
        growth.push(after.kilobytes - before.kilobytes);
        before = after;
    }
    panic!("{}: it grew by {growth:?} kB, each time with as many clients", subject.name);
}

fn setting(name: &str) -> Option<usize> {
    env::var(name).ok().map(|value| value.parse().unwrap_or_else(|error| panic!("{name}: {error}")))
}

#[test]
fn vanished_clients_leave_nothing_behind_in_a_bridge() {
    let clients = setting("MCP_LEAK_CLIENTS").unwrap_or(500) / 5;
    let time =
        Duration::from_secs(60) * u32::try_from(setting("MCP_LEAK_MINUTES").unwrap_or(0)).expect("small");
    let path = env::temp_dir().join(format!("mcp-leaks-{}.sock", std::process::id()));
    let unix = format!("unix:{}", path.display());
    thread::scope(|scope| {
        scope.spawn(|| {
            check(subject("Unix sockets", &["--listen", &unix], vanish_from_unix), clients, time);
        });
        scope.spawn(|| {
            check(subject("TCP", &["--listen", "tcp://127.0.0.1:0"], vanish_from_tcp), clients, time);
        });
        scope.spawn(|| {
            let share = ["--listen", "tcp://127.0.0.1:0", "--share"];
            check(subject("TCP, shared", &share, vanish_from_tcp), clients, time);
        });
        scope.spawn(|| {
            let clients = check(subject("HTTP", &["--http", "127.0.0.1:0"], vanish_from_http), clients, time);
            let late = LATE.load(Ordering::Relaxed);
            println!("HTTP: {late} clients came back too late");
            assert!(late <= clients / 10, "{late} of {clients} clients had lost their sessions");
        });
        for nth in 0..STDIO_AT_ONCE {
            scope.spawn(move || check_stdio(nth, clients / STDIO_AT_ONCE, time));
        }
    });
}

/// Starts bridges on stdio, and ends them or their clients in every way. No process is left.
fn check_stdio(nth: usize, clients: usize, time: Duration) {
    let marker = format!("{}", 16_900_000 - std::process::id() as usize * STDIO_AT_ONCE - nth);
    let (begun, mut count) = (Instant::now(), 0);
    while count < clients || begun.elapsed() < time {
        let mut bridge = probe_command()
            .args(["bridge", "--era", "legacy", "--", PROBE, "serve", "--max-frame", &marker])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program under test starts");
        let mut input = bridge.stdin.take().expect("piped");
        let mut output = BufReader::new(bridge.stdout.take().expect("piped"));
        writeln!(input, "{INITIALIZE}\n{INITIALIZED}").expect("it reads");
        let mut line = String::new();
        output.read_line(&mut line).expect("UTF-8");
        assert!(line.contains("\"id\":1"), "{line}");
        let mut end = |bridge: &mut Child, signal: &str| {
            writeln!(input, "{LONG_CALL}").expect("it reads");
            let sent = std::process::Command::new("kill").args([signal, &bridge.id().to_string()]).status();
            assert!(sent.expect("kill").success());
        };
        match count % 4 {
            0 => {}
            1 => end(&mut bridge, "-KILL"),
            2 => end(&mut bridge, "-TERM"),
            // Nobody reads the answers any more.
            _ => {
                writeln!(input, "{LONG_CALL}").expect("it reads");
                drop(output);
            }
        }
        drop(input);
        bridge.wait().expect("it ends");
        count += 1;
    }
    wait_until("stdio", || match &*commands(&marker) {
        [] => Ok(()),
        left => Err(format!("{left:?}")),
    });
    println!("stdio: {count} bridges, no process left");
}

/// Clients at a time.
const CONCURRENCY: usize = 12;
/// Bridges on stdio at a time.
const STDIO_AT_ONCE: usize = 4;
/// Clients of one round, after which those that keep their connections go too.
const ROUND: usize = 100;
