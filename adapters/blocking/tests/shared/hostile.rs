//! A server of any adapter as a process in bad surroundings: `crate::adapter` says which
//!
//! The program starts itself as the server, so it has a main of its own.

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

use mcp_proto::server::Config;
use mcp_proto::{Capabilities, Capability, Limits};
use serde_json::{Value, json};

use crate::adapter;

/// Generous, as test machines are slow and shared; nothing waits this long unless it hangs
const DEADLINE: Duration = Duration::from_secs(120);

/// What a handler is to do
pub(crate) enum Step {
    /// To answer so
    Answer(String),
    /// To sleep by the means of its adapter until it is told to stop
    Wait,
    /// Not to return, whatever it is told
    Never,
}

/// What a handler does for the tool of a name, whatever the adapter
pub(crate) fn step(name: &str) -> Step {
    match name {
        "large" => Step::Answer("x".repeat(20_000)),
        "prints" => {
            println!("stray");
            print!("without its newline");
            let status = Command::new("echo").arg("stray, of a child").status().unwrap();
            Step::Answer(status.to_string())
        }
        "reads" => {
            let mut input = String::new();
            std::io::stdin().read_to_string(&mut input).unwrap();
            Step::Answer(format!("{} bytes", input.len()))
        }
        "panics" => panic!("on purpose"),
        "locks" => {
            // As somebody does who prints more than anybody reads.
            core::mem::forget(std::io::stdout().lock());
            eprintln!("locks");
            Step::Never
        }
        "waits" => {
            eprintln!("waits");
            Step::Wait
        }
        "never" => {
            eprintln!("never");
            Step::Never
        }
        name => Step::Answer(name.to_owned()),
    }
}

pub(crate) fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let config = || {
        let mut limits = Limits::default();
        limits.eof_grace = Duration::from_millis(300);
        Config::new("test", "1").capabilities(Capabilities::new().with(Capability::Tools)).limits(limits)
    };
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["as-server"] => {
            if let Err(error) = adapter::serve_stdio(config()) {
                eprintln!("failed: {error}");
                std::process::exit(1);
            }
            // Whoever prints now, prints on the real one.
            eprintln!("over");
        }
        ["as-server", address] => {
            let ready = |address: SocketAddr| println!("at {address}");
            if let Err(error) = adapter::serve_http(address.parse().unwrap(), config(), ready) {
                eprintln!("failed: {error}");
                std::process::exit(1);
            }
        }
        // What test runners pass on is not for us, but for `--list` there is nothing to list.
        ["--list", ..] => {}
        _ => all(),
    }
}

fn all() {
    let tests: [(&str, fn()); 12] = [
        ("prints_go_to_stderr_and_reads_find_nothing", prints_go_to_stderr_and_reads_find_nothing),
        ("a_panic_ends_its_call_alone", a_panic_ends_its_call_alone),
        ("a_reader_that_leaves_within_an_answer", a_reader_that_leaves_within_an_answer),
        ("handles_that_are_closed", handles_that_are_closed),
        ("handles_that_cannot_be_used", handles_that_cannot_be_used),
        ("a_client_that_does_not_read_for_a_while", a_client_that_does_not_read_for_a_while),
        ("a_thousand_cancellations", a_thousand_cancellations),
        ("a_handler_that_never_returns", a_handler_that_never_returns),
        ("a_handler_that_never_returns_over_http", a_handler_that_never_returns_over_http),
        ("calls_without_end", calls_without_end),
        ("a_port_that_is_taken", a_port_that_is_taken),
        ("no_descriptor_left", no_descriptor_left),
    ];
    let wanted = std::env::args().nth(1).filter(|name| !name.starts_with('-')).unwrap_or_default();
    for (name, test) in tests.into_iter().filter(|(name, _)| name.contains(&wanted)) {
        let begun = Instant::now();
        in_time(name, test);
        println!("{name} ... ok ({:?})", begun.elapsed());
    }
}

fn in_time(name: &'static str, test: fn()) {
    let (tell, told) = mpsc::channel();
    let thread = thread::spawn(move || {
        test();
        let _ = tell.send(());
    });
    if told.recv_timeout(DEADLINE) == Err(mpsc::RecvTimeoutError::Timeout) {
        eprintln!("{name}: hangs");
        std::process::exit(1);
    }
    if thread.join().is_err() {
        eprintln!("{name}: failed");
        std::process::exit(1);
    }
}

/// This program as a server on stdin and stdout
fn server() -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg("as-server").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // What it says there is read at its end: that has to fit into a pipe.
    command.env("RUST_BACKTRACE", "0");
    command
}

/// The same, started by a shell that does `setting` before
fn by_shell(setting: &str, args: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{setting}; exec \"$0\" as-server \"$@\"")]);
    command.arg(std::env::current_exe().unwrap()).args(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.env("RUST_BACKTRACE", "0");
    command
}

fn call(id: usize, tool: &str) -> String {
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}});
    let params = json!({"name": tool, "_meta": meta});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string() + "\n"
}

fn cancel(id: usize) -> String {
    let params = json!({"requestId": id});
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}).to_string() + "\n"
}

/// A server that runs, and its handles; it ends with this
struct Running {
    child: Child,
    input: Option<ChildStdin>,
    output: Option<BufReader<ChildStdout>>,
}

impl Running {
    fn new(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take(), child.stdout.take().map(BufReader::new));
        Self { child, input, output }
    }

    /// Writes, unless the server is gone
    fn write(&mut self, text: &str) {
        let _ = self.input.as_mut().unwrap().write_all(text.as_bytes());
    }

    /// The next line, which must be a message
    fn line(&mut self) -> Value {
        let mut line = String::new();
        self.output.as_mut().unwrap().read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("no message: {line:?}"))
    }

    fn text(&mut self) -> String {
        let answer = self.line();
        answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    /// Waits for its end: how it ended, and what it said on stdout and stderr since
    fn end(mut self) -> (ExitStatus, String, String) {
        self.input = None;
        let (mut out, mut said) = (String::new(), String::new());
        if let Some(mut output) = self.output.take() {
            output.read_to_string(&mut out).unwrap();
        }
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (self.child.wait().unwrap(), out, said)
    }

    /// Waits until it says so on stderr
    fn says(&mut self, what: &str) {
        let mut said = Vec::new();
        let stderr = self.child.stderr.as_mut().unwrap();
        while !said.ends_with(format!("{what}\n").as_bytes()) {
            let mut byte = [0];
            assert_eq!(stderr.read(&mut byte).unwrap(), 1, "{}", String::from_utf8_lossy(&said));
            said.extend(byte);
        }
    }

    /// What it has in memory, in bytes
    fn resident(&self) -> usize {
        let statm = std::fs::read_to_string(format!("/proc/{}/statm", self.child.id())).unwrap();
        statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
    }

    /// Descriptors that it has open
    fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }

    /// The time for which it has worked, in hundredths of a second
    fn worked(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let fields = stat.rsplit_once(')').unwrap().1.split(' ');
        fields.skip(12).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn prints_go_to_stderr_and_reads_find_nothing() {
    let mut server = Running::new(server());
    server.write(&(call(1, "prints") + &call(2, "reads")));
    let mut texts = [server.text(), server.text()];
    texts.sort();
    assert_eq!(texts, ["0 bytes", "exit status: 0"]);
    let (status, out, said) = server.end();
    assert!(status.success() && out.is_empty(), "{status}: {out:?}");
    for stray in ["stray\n", "without its newline", "stray, of a child\n"] {
        assert!(said.contains(stray), "{said:?}");
    }
}

fn a_panic_ends_its_call_alone() {
    let mut server = Running::new(server());
    for id in 0..20 {
        server.write(&call(id, "panics"));
        assert_eq!(server.line()["error"]["code"], -32603);
    }
    server.write(&call(20, "echo"));
    assert_eq!(server.text(), "echo");
    let (status, out, _) = server.end();
    assert!(status.success() && out.is_empty(), "{status}: {out:?}");
}

fn a_reader_that_leaves_within_an_answer() {
    let mut server = Running::new(server());
    let calls: String = (0..50).map(|id| call(id, "large")).collect();
    server.write(&calls);
    // More than a pipe holds is to be written when it breaks. No signal ends it, and nobody is told. Its input is open.
    server.output.as_mut().unwrap().read_exact(&mut [0; 10_000]).unwrap();
    server.output = None;
    let input = server.input.take();
    let (status, _, said) = server.end();
    assert_eq!((status.success(), &*said), (true, "over\n"));
    drop(input);
}

fn handles_that_are_closed() {
    // Nothing to read: it is over at once.
    let (status, out, said) = Running::new(by_shell("exec <&-", &[])).end();
    assert_eq!((status.success(), &*out, &*said), (true, "", "over\n"));
    // Nobody hears what it writes.
    let mut deaf = Running::new(by_shell("exec >&-", &[]));
    deaf.write(&(call(1, "echo") + &call(2, "prints") + &call(3, "panics")));
    let (status, out, said) = deaf.end();
    assert_eq!((status.success(), &*out), (true, ""));
    assert!(said.contains("on purpose") && said.contains("over\n"), "{said}");
    // What is printed goes nowhere, and not into the stream.
    let mut mute = Running::new(by_shell("exec 2>&-", &[]));
    mute.write(&call(1, "prints"));
    assert_eq!(mute.text(), "exit status: 0");
    mute.write(&call(2, "panics"));
    assert_eq!(mute.line()["error"]["code"], -32603);
    let (status, out, _) = mute.end();
    assert!(status.success() && out.is_empty(), "{status}: {out:?}");
    // None at all.
    let (status, ..) = Running::new(by_shell("exec <&- >&- 2>&-", &[])).end();
    assert!(status.success(), "{status}");
}

fn handles_that_cannot_be_used() {
    for (handle, why) in [
        ("exec </", "directory"),
        ("exec 0>/dev/null", "Bad file descriptor"),
        ("exec 1</dev/null", "Bad file descriptor"),
        ("exec >/dev/full", "No space left"),
    ] {
        let mut server = Running::new(by_shell(handle, &[]));
        server.write(&call(1, "echo"));
        let (status, out, said) = server.end();
        assert_eq!((status.code(), &*out), (Some(1), ""), "{handle}: {said}");
        assert!(said.starts_with("failed: ") && said.contains(why), "{handle}: {said}");
    }
    // One that ends with the terminal behind it: nobody is there any more.
    let mut server = Running::new(by_shell("exec <>/dev/null >&0", &[]));
    server.write(&call(1, "echo"));
    assert!(server.end().0.success());
}

fn a_client_that_does_not_read_for_a_while() {
    let calls = 5_000;
    let mut server = Running::new(server());
    server.write(&call(calls, "echo"));
    assert_eq!(server.text(), "echo");
    let sent = Arc::new(AtomicUsize::new(0));
    let (mut input, count) = (server.input.take().unwrap(), sent.clone());
    let writing = thread::spawn(move || {
        for id in 0..calls {
            input.write_all(call(id, "large").as_bytes()).unwrap();
            count.fetch_add(1, Ordering::SeqCst);
        }
    });
    // Until nothing goes any more: it does not read on for ever. Then it neither works nor grows.
    let mut last = usize::MAX;
    while last != sent.load(Ordering::SeqCst) {
        last = sent.load(Ordering::SeqCst);
        thread::sleep(Duration::from_millis(500));
    }
    assert!(last < calls, "all are read");
    let (worked, resident) = (server.worked(), server.resident());
    assert!(resident < 64 << 20, "{resident} bytes");
    thread::sleep(Duration::from_millis(500));
    assert!(server.worked() <= worked + 10, "it works on nothing");
    let mut seen = vec![false; calls];
    for _ in 0..calls {
        let answer = server.line();
        let id = usize::try_from(answer["id"].as_u64().unwrap()).unwrap();
        assert_eq!(answer["result"]["content"][0]["text"].as_str().map(str::len), Some(20_000));
        assert!(!core::mem::replace(&mut seen[id], true), "answered twice");
    }
    writing.join().unwrap();
    let (status, out, said) = server.end();
    assert_eq!((status.success(), &*out, &*said), (true, "", "over\n"));
}

fn a_thousand_cancellations() {
    let mut server = Running::new(server());
    // No more at a time than may wait, where handlers run one after the other.
    for begin in (0..1_000).step_by(100) {
        let calls: String = (begin..begin + 100).map(|id| call(id, "waits")).collect();
        let cancels: String = (begin..begin + 100).rev().map(cancel).collect();
        server.write(&(calls + &cancels));
    }
    server.write(&call(1_000, "echo"));
    assert_eq!(server.line()["id"], 1_000, "and nothing else");
    let (status, out, _) = server.end();
    assert!(status.success() && out.is_empty(), "{status}: {out:?}");
}

fn a_handler_that_never_returns() {
    if adapter::ALONE {
        return;
    }
    let mut server = Running::new(server());
    server.write(&call(0, "never"));
    server.says("never");
    for id in 1..50 {
        server.write(&call(id, "echo"));
        assert_eq!(server.line()["id"], id);
    }
    // Its call is cancelled a moment after the end of input, and the process ends without it.
    let begun = Instant::now();
    let (status, out, said) = server.end();
    assert_eq!((status.success(), &*out, &*said), (true, "", "over\n"));
    assert!(begun.elapsed() > Duration::from_millis(200), "the grace time");

    // Nor does what it holds keep the process.
    let mut server = Running::new(self::server());
    server.write(&call(0, "locks"));
    server.says("locks");
    let (status, out, said) = server.end();
    assert_eq!((status.success(), &*out, &*said), (true, "", "over\n"));
}

/// So many calls that the end of input cannot be read: who made them is gone all the same
fn calls_without_end() {
    for tool in ["waits", "never"].into_iter().take(if adapter::ALONE { 1 } else { 2 }) {
        // Through a socket, which can be written to without waiting.
        let (mut near, far) = UnixStream::pair().unwrap();
        let mut command = server();
        command.stdin(OwnedFd::from(far)).stderr(Stdio::null());
        let mut server = Running::new(command);
        near.set_nonblocking(true).unwrap();
        let calls: String = (0..5_000).map(|id| call(id, tool)).collect();
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

/// The start of a request over HTTP
fn post(tool: &str) -> String {
    let body = call(1, tool);
    format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n\
         Mcp-Method: tools/call\r\nMcp-Name: {tool}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Where a server over HTTP listens
fn address(server: &mut Running) -> SocketAddr {
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

fn a_handler_that_never_returns_over_http() {
    if adapter::ALONE {
        return;
    }
    let mut server = Running::new(by_shell(":", &["127.0.0.1:0"]));
    let address = address(&mut server);
    let mut stuck = connect(address);
    stuck.write_all(post("never").as_bytes()).unwrap();
    server.says("never");
    for _ in 0..50 {
        let mut stream = connect(address);
        stream.write_all(post("echo").as_bytes()).unwrap();
        assert!(is_answered(&stream, "echo"));
    }
}

fn a_port_that_is_taken() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (status, out, said) = Running::new(by_shell(":", &[&address])).end();
    assert_eq!((status.code(), &*out), (Some(1), ""));
    assert!(said.contains(&address) && said.contains("in use"), "{said}");
}

fn no_descriptor_left() {
    let mut server = Running::new(by_shell("ulimit -n 40", &["127.0.0.1:0"]));
    let address = address(&mut server);
    // What it has with one connection: some of it is only there once it runs.
    let mut first = connect(address);
    first.write_all(post("echo").as_bytes()).unwrap();
    assert!(is_answered(&first, "echo"));
    let before = server.descriptors() - 1;
    drop(first);
    let mut streams: Vec<_> = (0..60).map(|_| connect(address)).collect();
    for stream in &mut streams {
        stream.write_all(post("echo").as_bytes()).unwrap();
    }
    let later = streams.split_off(20);
    assert!(streams.iter().all(|stream| is_answered(stream, "echo")));
    // Nobody is let in, and nothing is done about it but to look now and then.
    let unlucky = &later[39];
    unlucky.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    assert!(!is_answered(unlucky, "echo"), "there are descriptors left");
    let worked = server.worked();
    thread::sleep(Duration::from_secs(1));
    assert!(server.worked() <= worked + 20, "it works on nothing");
    // Who keeps a connection that he does not use gives way, long before it would be closed for that.
    for stream in &later {
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        assert!(is_answered(stream, "echo"));
    }
    drop((streams, later));
    // All of them are given back.
    while server.descriptors() > before + 1 {
        thread::sleep(Duration::from_millis(10));
    }
}
