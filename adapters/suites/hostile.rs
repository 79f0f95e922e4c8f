//! Suite: a server as a process in a hostile environment.
//!
//! `crate::adapter` names the adapter under test. The test program starts itself as the server, so it has its own
//! `main`.

#![allow(elided_lifetimes_in_paths, reason = "the context has a lifetime in some adapters only")]

use alloc::sync::Arc;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use mcp_proto::http::server::Config as Http;
use mcp_proto::model::CallToolResult;
use mcp_proto::server::Config;
use mcp_proto::{Capabilities, Capability, Limits, RpcError};
use serde_json::{Value, json};

use crate::adapter::{
    Answered, Call, Cx, Error, HttpServer, IS_SINGLE_THREADED, handler, handler_fn, hang, run, serve_stdio,
    wait,
};
use crate::support::DEADLINE;

/// Behavior of a handler.
enum ToolBehavior {
    /// Answers with a text.
    Answer(String),
    /// Sleeps by the means of its adapter until it is cancelled.
    Sleep,
    /// Never returns, and ignores cancellations.
    Hang,
}

/// Returns what the tool does.
fn tool_behavior(name: &str) -> ToolBehavior {
    match name {
        "large" => ToolBehavior::Answer("x".repeat(20_000)),
        "prints" => {
            println!("stray");
            print!("without its newline");
            let status = Command::new("echo").arg("stray, of a child").status().unwrap();
            ToolBehavior::Answer(status.to_string())
        }
        "reads" => {
            let mut input = String::new();
            std::io::stdin().read_to_string(&mut input).unwrap();
            ToolBehavior::Answer(format!("{} bytes", input.len()))
        }
        "panics" => panic!("on purpose"),
        "locks" => {
            // A thread that holds the lock of stdout, as one that prints to a full pipe does.
            core::mem::forget(std::io::stdout().lock());
            eprintln!("locks");
            ToolBehavior::Hang
        }
        "waits" => {
            eprintln!("waits");
            ToolBehavior::Sleep
        }
        "never" => {
            eprintln!("never");
            ToolBehavior::Hang
        }
        name => ToolBehavior::Answer(name.to_owned()),
    }
}

handler_fn! {
    /// Answers as [`tool_behavior`] defines for the tool.
    fn answer(cx: &mut Cx, call: &Call) -> Result<Answered, RpcError> {
        match tool_behavior(&call.tool_call()?.name) {
            ToolBehavior::Answer(text) => cx.complete(&CallToolResult::text(text)),
            ToolBehavior::Sleep => loop {
                wait!(cx.sleep(Duration::from_secs(3_600)))?;
            },
            ToolBehavior::Hang => wait!(hang()),
        }
    }
}

fn serve_over_stdio(config: Config) -> Result<(), Error> {
    serve_stdio(config, handler!(|cx: &mut Cx, call: &Call| wait!(answer(cx, call))))
}

fn serve_over_http(address: SocketAddr, config: Config, ready: impl FnOnce(SocketAddr)) -> Result<(), Error> {
    let handler = handler!(|cx: &mut Cx, call: &Call| wait!(answer(cx, call)));
    // More than one of the tests has descriptors for.
    let server = HttpServer::bind(address, config, Http::new(), handler)?.max_connections(64);
    ready(server.address()?);
    run!(server.run())
}

pub(crate) fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let config = || {
        let mut limits = Limits::default();
        limits.eof_grace_period = Duration::from_millis(300);
        Config::new("test", "1").capabilities(Capabilities::new().with(Capability::Tools)).limits(limits)
    };
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["as-server"] => {
            if let Err(error) = serve_over_stdio(config()) {
                eprintln!("failed: {error}");
                std::process::exit(1);
            }
            // The server has restored the real handles.
            eprintln!("over");
        }
        ["as-server", address] => {
            let ready = |address: SocketAddr| println!("at {address}");
            if let Err(error) = serve_over_http(address.parse().unwrap(), config(), ready) {
                eprintln!("failed: {error}");
                std::process::exit(1);
            }
        }
        // Arguments of test runners are ignored, except that `--list` lists nothing.
        ["--list", ..] => {}
        _ => run_tests(),
    }
}

fn run_tests() {
    let tests: [(&str, fn()); 12] = [
        ("handler_prints_to_stderr_and_reads_empty_stdin", handler_prints_to_stderr_and_reads_empty_stdin),
        ("panic_fails_only_its_call", panic_fails_only_its_call),
        ("client_closes_stdout_within_a_response", client_closes_stdout_within_a_response),
        ("server_starts_with_closed_handles", server_starts_with_closed_handles),
        ("server_reports_unusable_handles", server_reports_unusable_handles),
        ("server_waits_for_client_that_does_not_read", server_waits_for_client_that_does_not_read),
        ("thousand_calls_are_cancelled", thousand_calls_are_cancelled),
        ("hanging_handler_delays_nothing_else", hanging_handler_delays_nothing_else),
        ("hanging_handler_delays_nothing_else_over_http", hanging_handler_delays_nothing_else_over_http),
        ("congested_server_notices_disconnect", congested_server_notices_disconnect),
        ("server_reports_address_in_use", server_reports_address_in_use),
        ("server_recovers_from_lack_of_descriptors", server_recovers_from_lack_of_descriptors),
    ];
    let filter = std::env::args().nth(1).filter(|name| !name.starts_with('-')).unwrap_or_default();
    thread::scope(|scope| {
        for (name, test) in tests.into_iter().filter(|(name, _)| name.contains(&filter)) {
            scope.spawn(move || {
                let begun = Instant::now();
                run_with_timeout(name, test);
                println!("{name} ... ok ({:?})", begun.elapsed());
            });
        }
    });
}

fn run_with_timeout(name: &'static str, test: fn()) {
    let (sender, receiver) = mpsc::channel();
    let thread = thread::spawn(move || {
        test();
        let _ = sender.send(());
    });
    if receiver.recv_timeout(DEADLINE) == Err(mpsc::RecvTimeoutError::Timeout) {
        eprintln!("{name}: exceeds its deadline");
        std::process::exit(1);
    }
    if thread.join().is_err() {
        eprintln!("{name}: failed");
        std::process::exit(1);
    }
}

/// Returns the command that starts this program as a server on stdin and stdout.
fn server_command() -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg("as-server").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // Stderr is read only at the end, so it must fit into a pipe.
    command.env("RUST_BACKTRACE", "0");
    command
}

/// Returns the same command, run by a shell after `setting`.
fn shell_command(setting: &str, args: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{setting}; exec \"$0\" as-server \"$@\"")]);
    command.arg(std::env::current_exe().unwrap()).args(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.env("RUST_BACKTRACE", "0");
    command
}

fn call_line(id: usize, tool: &str) -> String {
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}});
    let params = json!({"name": tool, "_meta": meta});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string() + "\n"
}

fn cancel_line(id: usize) -> String {
    let params = json!({"requestId": id});
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}).to_string() + "\n"
}

/// A running server and its handles. It is killed on drop.
struct ServerProcess {
    child: Child,
    input: Option<ChildStdin>,
    output: Option<BufReader<ChildStdout>>,
}

impl ServerProcess {
    fn new(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take(), child.stdout.take().map(BufReader::new));
        Self { child, input, output }
    }

    /// Writes `text`, and ignores a server that has ended.
    fn write(&mut self, text: &str) {
        let _ = self.input.as_mut().unwrap().write_all(text.as_bytes());
    }

    /// Reads the next line.
    ///
    /// # Panics
    ///
    /// Panics if the line is not a message.
    fn read_line(&mut self) -> Value {
        let mut line = String::new();
        self.output.as_mut().unwrap().read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("no message: {line:?}"))
    }

    fn read_text(&mut self) -> String {
        let answer = self.read_line();
        answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    /// Closes stdin and waits for the end. Returns the status and the rest of stdout and stderr.
    fn finish(mut self) -> (ExitStatus, String, String) {
        self.input = None;
        let (mut out, mut stderr) = (String::new(), String::new());
        if let Some(mut output) = self.output.take() {
            output.read_to_string(&mut out).unwrap();
        }
        self.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        (self.child.wait().unwrap(), out, stderr)
    }

    /// Reads stderr up to the line `line`.
    fn expect_stderr(&mut self, line: &str) {
        let mut read = Vec::new();
        let stderr = self.child.stderr.as_mut().unwrap();
        while !read.ends_with(format!("{line}\n").as_bytes()) {
            let mut byte = [0];
            assert_eq!(stderr.read(&mut byte).unwrap(), 1, "{}", String::from_utf8_lossy(&read));
            read.extend(byte);
        }
    }

    /// Returns the resident memory in bytes.
    fn resident_bytes(&self) -> usize {
        let statm = std::fs::read_to_string(format!("/proc/{}/statm", self.child.id())).unwrap();
        statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
    }

    /// Returns the number of open descriptors.
    fn descriptor_count(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }

    /// Returns the consumed CPU time in hundredths of a second.
    fn cpu_ticks(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let fields = stat.rsplit_once(')').unwrap().1.split(' ');
        fields.skip(12).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum()
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn handler_prints_to_stderr_and_reads_empty_stdin() {
    let mut server = ServerProcess::new(server_command());
    server.write(&(call_line(1, "prints") + &call_line(2, "reads")));
    let mut texts = [server.read_text(), server.read_text()];
    texts.sort();
    assert_eq!(texts, ["0 bytes", "exit status: 0"]);
    let (status, out, stderr) = server.finish();
    assert!(status.success() && out.is_empty(), "{status}: {out:?}");
    for stray in ["stray\n", "without its newline", "stray, of a child\n"] {
        assert!(stderr.contains(stray), "{stderr:?}");
    }
}

fn panic_fails_only_its_call() {
    let mut server = ServerProcess::new(server_command());
    for id in 0..20 {
        server.write(&call_line(id, "panics"));
        assert_eq!(server.read_line()["error"]["code"], -32603);
    }
    server.write(&call_line(20, "echo"));
    assert_eq!(server.read_text(), "echo");
    let (status, out, _) = server.finish();
    assert!(status.success() && out.is_empty(), "{status}: {out:?}");
}

fn client_closes_stdout_within_a_response() {
    let mut server = ServerProcess::new(server_command());
    let calls: String = (0..50).map(|id| call_line(id, "large")).collect();
    server.write(&calls);
    // When the pipe breaks, the server holds more output than a pipe does. No signal ends it, and it reports nothing.
    // Its stdin is still open.
    server.output.as_mut().unwrap().read_exact(&mut [0; 10_000]).unwrap();
    server.output = None;
    let input = server.input.take();
    let (status, _, stderr) = server.finish();
    assert_eq!((status.success(), &*stderr), (true, "over\n"));
    drop(input);
}

fn server_starts_with_closed_handles() {
    // Stdin is closed: the server ends immediately.
    let (status, out, stderr) = ServerProcess::new(shell_command("exec <&-", &[])).finish();
    assert_eq!((status.success(), &*out, &*stderr), (true, "", "over\n"));
    // Stdout is closed: responses are discarded.
    let mut without_stdout = ServerProcess::new(shell_command("exec >&-", &[]));
    without_stdout.write(&(call_line(1, "echo") + &call_line(2, "prints") + &call_line(3, "panics")));
    let (status, out, stderr) = without_stdout.finish();
    assert_eq!((status.success(), &*out), (true, ""));
    assert!(stderr.contains("on purpose") && stderr.contains("over\n"), "{stderr}");
    // Stderr is closed: prints are discarded, and do not reach the stream.
    let mut without_stderr = ServerProcess::new(shell_command("exec 2>&-", &[]));
    without_stderr.write(&call_line(1, "prints"));
    assert_eq!(without_stderr.read_text(), "exit status: 0");
    without_stderr.write(&call_line(2, "panics"));
    assert_eq!(without_stderr.read_line()["error"]["code"], -32603);
    let (status, out, _) = without_stderr.finish();
    assert!(status.success() && out.is_empty(), "{status}: {out:?}");
    // All are closed.
    let (status, ..) = ServerProcess::new(shell_command("exec <&- >&- 2>&-", &[])).finish();
    assert!(status.success(), "{status}");
}

fn server_reports_unusable_handles() {
    for (handle, why) in [
        ("exec </", "directory"),
        ("exec 0>/dev/null", "Bad file descriptor"),
        ("exec 1</dev/null", "Bad file descriptor"),
        ("exec >/dev/full", "No space left"),
    ] {
        let mut server = ServerProcess::new(shell_command(handle, &[]));
        server.write(&call_line(1, "echo"));
        let (status, out, stderr) = server.finish();
        assert_eq!((status.code(), &*out), (Some(1), ""), "{handle}: {stderr}");
        assert!(stderr.starts_with("failed: ") && stderr.contains(why), "{handle}: {stderr}");
    }
    // Stdin and stdout end at the same time, as after a lost terminal. That is no error.
    let mut server = ServerProcess::new(shell_command("exec <>/dev/null >&0", &[]));
    server.write(&call_line(1, "echo"));
    assert!(server.finish().0.success());
}

fn server_waits_for_client_that_does_not_read() {
    let calls = 5_000;
    let mut server = ServerProcess::new(server_command());
    server.write(&call_line(calls, "echo"));
    assert_eq!(server.read_text(), "echo");
    let sent = Arc::new(AtomicUsize::new(0));
    let (mut input, count) = (server.input.take().unwrap(), sent.clone());
    let writing = thread::spawn(move || {
        for id in 0..calls {
            input.write_all(call_line(id, "large").as_bytes()).unwrap();
            count.fetch_add(1, Ordering::SeqCst);
        }
    });
    // Waits until the server reads no more, as its limits demand, and uses no CPU any more. On a busy machine both may pause.
    let mut quiet_periods = 0;
    while quiet_periods < 2 {
        let last = (sent.load(Ordering::SeqCst), server.cpu_ticks());
        thread::sleep(Duration::from_millis(500));
        let is_quiet = sent.load(Ordering::SeqCst) == last.0 && server.cpu_ticks() <= last.1 + 10;
        quiet_periods = if is_quiet { quiet_periods + 1 } else { 0 };
    }
    assert!(sent.load(Ordering::SeqCst) < calls, "all are read");
    let resident = server.resident_bytes();
    assert!(resident < 64 << 20, "{resident} bytes");
    let mut seen = vec![false; calls];
    for _ in 0..calls {
        let answer = server.read_line();
        let id = usize::try_from(answer["id"].as_u64().unwrap()).unwrap();
        assert_eq!(answer["result"]["content"][0]["text"].as_str().map(str::len), Some(20_000));
        assert!(!core::mem::replace(&mut seen[id], true), "answered twice");
    }
    writing.join().unwrap();
    let (status, out, stderr) = server.finish();
    assert_eq!((status.success(), &*out, &*stderr), (true, "", "over\n"));
}

fn thousand_calls_are_cancelled() {
    let mut server = ServerProcess::new(server_command());
    // At most as many calls at a time as may wait for a single-threaded server.
    for begin in (0..1_000).step_by(100) {
        let calls: String = (begin..begin + 100).map(|id| call_line(id, "waits")).collect();
        let cancels: String = (begin..begin + 100).rev().map(cancel_line).collect();
        server.write(&(calls + &cancels));
    }
    server.write(&call_line(1_000, "echo"));
    assert_eq!(server.read_line()["id"], 1_000, "and nothing else");
    let (status, out, _) = server.finish();
    assert!(status.success() && out.is_empty(), "{status}: {out:?}");
}

fn hanging_handler_delays_nothing_else() {
    if IS_SINGLE_THREADED {
        return;
    }
    let mut server = ServerProcess::new(server_command());
    server.write(&call_line(0, "never"));
    server.expect_stderr("never");
    for id in 1..50 {
        server.write(&call_line(id, "echo"));
        assert_eq!(server.read_line()["id"], id);
    }
    // The call is cancelled after the grace period of the input end, and the process ends without its handler.
    let begun = Instant::now();
    let (status, out, stderr) = server.finish();
    assert_eq!((status.success(), &*out, &*stderr), (true, "", "over\n"));
    assert!(begun.elapsed() > Duration::from_millis(200), "the grace period");

    // A handler that holds the lock of stdout does not delay the end either.
    let mut server = ServerProcess::new(server_command());
    server.write(&call_line(0, "locks"));
    server.expect_stderr("locks");
    let (status, out, stderr) = server.finish();
    assert_eq!((status.success(), &*out, &*stderr), (true, "", "over\n"));
}

/// Sends so many calls that the server stops reading. It must still notice that the client has disconnected.
fn congested_server_notices_disconnect() {
    for tool in ["waits", "never"].into_iter().take(if IS_SINGLE_THREADED { 1 } else { 2 }) {
        // A socket can be written without blocking.
        let (mut near, far) = UnixStream::pair().unwrap();
        let mut command = server_command();
        command.stdin(OwnedFd::from(far)).stderr(Stdio::null());
        let mut server = ServerProcess::new(command);
        near.set_nonblocking(true).unwrap();
        let calls: String = (0..5_000).map(|id| call_line(id, tool)).collect();
        let (mut left, mut tries) = (calls.as_bytes(), 0);
        while tries < 20 {
            if let Ok(n) = near.write(left) {
                (left, tries) = (&left[n..], 0);
            } else {
                tries += 1;
                thread::sleep(Duration::from_millis(10));
            }
        }
        assert!(!left.is_empty(), "it reads on");
        near.shutdown(Shutdown::Write).unwrap();
        assert!(server.child.wait().unwrap().success());
    }
}

/// Returns an HTTP request that calls a tool.
fn post(tool: &str) -> String {
    let body = call_line(1, tool);
    format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n\
         Mcp-Method: tools/call\r\nMcp-Name: {tool}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Reads the address on which an HTTP server listens.
fn read_address(server: &mut ServerProcess) -> SocketAddr {
    let mut line = String::new();
    server.output.as_mut().unwrap().read_line(&mut line).unwrap();
    line.trim_end().strip_prefix("at ").unwrap().parse().unwrap()
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream
}

fn is_answered(mut stream: &TcpStream, tool: &str) -> bool {
    let mut read = Vec::new();
    let mut buffer = [0; 4096];
    while !String::from_utf8_lossy(&read).contains(&format!("\"text\":\"{tool}\"")) {
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return false,
            Ok(n) => read.extend_from_slice(&buffer[..n]),
        }
    }
    true
}

fn hanging_handler_delays_nothing_else_over_http() {
    if IS_SINGLE_THREADED {
        return;
    }
    let mut server = ServerProcess::new(shell_command(":", &["127.0.0.1:0"]));
    let address = read_address(&mut server);
    let mut stuck = connect(address);
    stuck.write_all(post("never").as_bytes()).unwrap();
    server.expect_stderr("never");
    for _ in 0..50 {
        let mut stream = connect(address);
        stream.write_all(post("echo").as_bytes()).unwrap();
        assert!(is_answered(&stream, "echo"));
    }
}

fn server_reports_address_in_use() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (status, out, stderr) = ServerProcess::new(shell_command(":", &[&address])).finish();
    assert_eq!((status.code(), &*out), (Some(1), ""));
    assert!(stderr.contains(&address) && stderr.contains("in use"), "{stderr}");
}

fn server_recovers_from_lack_of_descriptors() {
    let mut server = ServerProcess::new(shell_command("ulimit -n 40", &["127.0.0.1:0"]));
    let address = read_address(&mut server);
    // The number of descriptors after one connection: some are opened at the first one.
    let mut first = connect(address);
    first.write_all(post("echo").as_bytes()).unwrap();
    assert!(is_answered(&first, "echo"));
    let before = server.descriptor_count() - 1;
    drop(first);
    let mut streams: Vec<_> = (0..60).map(|_| connect(address)).collect();
    for stream in &mut streams {
        stream.write_all(post("echo").as_bytes()).unwrap();
    }
    let later = streams.split_off(20);
    assert!(streams.iter().all(|stream| is_answered(stream, "echo")));
    // No connection is accepted now, and the server retries without using CPU.
    let unlucky = &later[39];
    unlucky.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    assert!(!is_answered(unlucky, "echo"), "descriptors are left");
    let worked = server.cpu_ticks();
    thread::sleep(Duration::from_secs(1));
    assert!(server.cpu_ticks() <= worked + 20, "it uses CPU without work");
    // Idle connections are evicted well before their idle timeout.
    for stream in &later {
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        assert!(is_answered(stream, "echo"));
    }
    drop((streams, later));
    // All descriptors are closed.
    while server.descriptor_count() > before + 1 {
        thread::sleep(Duration::from_millis(10));
    }
}
