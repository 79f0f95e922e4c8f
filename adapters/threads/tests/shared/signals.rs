//! Servers that the system tells to end, of any adapter: `crate::adapter` says which

use core::time::Duration;
use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::thread;

use mcp_proto::server::Config;
use mcp_proto::{Capabilities, Capability};
use rustix::process::{Pid, Signal, kill_process};

use crate::adapter;

/// Generous, as test machines are slow and shared; nothing waits this long unless it hangs
const DEADLINE: Duration = Duration::from_secs(60);

fn config() -> Config {
    Config::new("test", "1").capabilities(Capabilities::new().with(Capability::Tools))
}

/// Not a test: the server over HTTP that the tests start
#[test]
#[ignore = "it is started by the others"]
fn http() {
    adapter::serve_http(config(), DEADLINE);
    eprintln!("over");
}

/// Not a test: the server on stdin and stdout that the tests start
#[test]
#[ignore = "it is started by the others"]
fn stdio() {
    adapter::serve_stdio(config(), DEADLINE);
    eprintln!("over");
}

/// Not a test: the same, which has little time to end
#[test]
#[ignore = "it is started by the others"]
fn hasty() {
    adapter::serve_stdio(config(), Duration::from_millis(100));
    eprintln!("over");
}

type Said = BufReader<ChildStderr>;

fn start(helper: &str) -> (Child, Said) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([&format!("shared::{helper}"), "--exact", "--ignored", "--nocapture"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let said = BufReader::new(child.stderr.take().unwrap());
    (child, said)
}

/// A call that is in work
fn call_over_http(said: &mut Said) -> TcpStream {
    let address = line(said, "at ");
    let mut stream = TcpStream::connect(address.strip_prefix("at ").unwrap()).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let body = call("slow");
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n\
         Mcp-Method: tools/call\r\nMcp-Name: slow\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).unwrap();
    line(said, "begun");
    stream
}

/// Likewise
fn call_on_stdio(child: &mut Child, said: &mut Said, tool: &str) {
    // What it is started with stays open: nothing but the signal ends it.
    let stdin = child.stdin.as_mut().unwrap();
    stdin.write_all((call(tool) + "\n").as_bytes()).unwrap();
    line(said, "begun");
}

fn call(tool: &str) -> String {
    let meta = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
    format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}","arguments":{{}},"_meta":{meta}}}}}"#
    )
}

/// The next line that begins so
fn line(said: &mut impl BufRead, begins: &str) -> String {
    said.lines().map(Result::unwrap).find(|line| line.starts_with(begins)).expect("a line")
}

fn tell(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(child.id().try_into().unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

#[test]
fn over_http_what_is_in_work_is_answered_and_the_process_ends() {
    for signal in [Signal::TERM, Signal::INT] {
        let (mut child, mut said) = start("http");
        let mut stream = call_over_http(&mut said);
        tell(&child, signal);
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.contains("answered"), "{answer}");
        line(&mut said, "over");
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }
}

#[test]
fn on_stdio_what_is_in_work_is_answered_and_the_process_ends() {
    for signal in [Signal::TERM, Signal::INT] {
        let (mut child, mut said) = start("stdio");
        call_on_stdio(&mut child, &mut said, "slow");
        tell(&child, signal);
        let mut answer = String::new();
        child.stdout.take().unwrap().read_to_string(&mut answer).unwrap();
        assert!(answer.contains("answered"), "{answer}");
        line(&mut said, "over");
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }
}

#[test]
fn what_takes_longer_than_it_may_is_given_up() {
    let (mut child, mut said) = start("hasty");
    call_on_stdio(&mut child, &mut said, "endless");
    tell(&child, Signal::TERM);
    let mut answer = String::new();
    child.stdout.take().unwrap().read_to_string(&mut answer).unwrap();
    assert!(answer.contains("the server is shutting down"), "{answer}");
    line(&mut said, "over");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn who_is_told_twice_ends_at_once() {
    let (mut child, mut said) = start("http");
    let _stream = call_over_http(&mut said);
    // Signals of one kind that wait are one: told until it is gone.
    let status = loop {
        tell(&child, Signal::TERM);
        thread::sleep(Duration::from_millis(10));
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
    };
    assert_eq!(status.signal(), Some(15));
}
