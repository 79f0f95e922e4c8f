//! Suite: servers that end on a signal.
//!
//! `crate::adapter` names the adapter under test.

#![allow(elided_lifetimes_in_paths, reason = "the context has a lifetime in some adapters only")]
#![allow(unused_mut, reason = "only some adapters take a handle of `&mut self`")]

use core::time::Duration;
use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::thread;

use mcp_proto::RpcError;
use mcp_proto::http::server::Config as Http;
use mcp_proto::model::CallToolResult;
use rustix::process::{Pid, Signal, kill_process};

use crate::adapter::{
    Answered, Call, Cx, HttpServer, handler, handler_fn, make_stdio_server, on_terminate, run,
    run_on_reactor, server_handle, sleep_until_cancelled, wait, with_two_shards,
};
use crate::support::server_config;

/// Deadline of each wait, and grace period of the servers. Only a test that hangs reaches it.
const DEADLINE: Duration = Duration::from_secs(60);

handler_fn! {
    /// Answers after 300 ms. The tool `endless` never answers.
    fn answer(cx: &mut Cx, call: &Call) -> Result<Answered, RpcError> {
        eprintln!("begun");
        if call.tool_call()?.name == "endless" {
            wait!(sleep_until_cancelled(cx))?;
        }
        wait!(cx.sleep(Duration::from_millis(300)))?;
        cx.complete(&CallToolResult::text("answered"))
    }
}

fn serve_over_http(grace: Duration) {
    let handler = handler!(|cx: &mut Cx, call: &Call| wait!(answer(cx, call)));
    let server = HttpServer::bind("127.0.0.1:0", server_config(), Http::new(), handler).unwrap();
    let mut server = with_two_shards(server);
    let handle = server_handle!(server);
    on_terminate(move || handle.shutdown(grace)).unwrap();
    eprintln!("at {}", server.address().unwrap());
    run!(server.run()).unwrap();
}

fn serve_over_stdio(grace: Duration) {
    let handler = handler!(|cx: &mut Cx, call: &Call| wait!(answer(cx, call)));
    let mut server = make_stdio_server(server_config(), handler);
    let handle = server_handle!(server);
    on_terminate(move || handle.shutdown(grace)).unwrap();
    run_on_reactor!(server.run()).unwrap();
}

/// The HTTP server that tests start as a process.
#[test]
#[ignore = "other tests start it as a process"]
fn http_server() {
    serve_over_http(DEADLINE);
    eprintln!("over");
}

/// The server on stdin and stdout that tests start as a process.
#[test]
#[ignore = "other tests start it as a process"]
fn stdio_server() {
    serve_over_stdio(DEADLINE);
    eprintln!("over");
}

/// The same server with a short grace period.
#[test]
#[ignore = "other tests start it as a process"]
fn hasty_stdio_server() {
    serve_over_stdio(Duration::from_millis(100));
    eprintln!("over");
}

type ChildOutput = BufReader<ChildStderr>;

fn spawn_helper(helper: &str) -> (Child, ChildOutput) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([&format!("suites::signals::{helper}"), "--exact", "--ignored", "--nocapture"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let stderr = BufReader::new(child.stderr.take().unwrap());
    (child, stderr)
}

/// Starts a call over HTTP and waits until its handler runs.
fn call_over_http(stderr: &mut ChildOutput) -> TcpStream {
    let address = wait_for_line(stderr, "at ");
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
    wait_for_line(stderr, "begun");
    stream
}

/// Starts a call over stdin and waits until its handler runs.
fn call_on_stdio(child: &mut Child, stderr: &mut ChildOutput, tool: &str) {
    // Stdin stays open, so only the signal can end the server.
    let stdin = child.stdin.as_mut().unwrap();
    stdin.write_all((call(tool) + "\n").as_bytes()).unwrap();
    wait_for_line(stderr, "begun");
}

fn call(tool: &str) -> String {
    let meta = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
    format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{tool}","arguments":{{}},"_meta":{meta}}}}}"#
    )
}

/// Reads up to the next line that starts with `prefix`, and returns that line.
fn wait_for_line(stderr: &mut impl BufRead, prefix: &str) -> String {
    stderr.lines().map(Result::unwrap).find(|line| line.starts_with(prefix)).expect("a line")
}

fn send_signal(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(child.id().try_into().unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

#[test]
fn signal_lets_http_server_answer_running_call_and_end() {
    for signal in [Signal::TERM, Signal::INT] {
        let (mut child, mut stderr) = spawn_helper("http_server");
        let mut stream = call_over_http(&mut stderr);
        send_signal(&child, signal);
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.contains("answered"), "{answer}");
        wait_for_line(&mut stderr, "over");
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }
}

#[test]
fn signal_lets_stdio_server_answer_running_call_and_end() {
    for signal in [Signal::TERM, Signal::INT] {
        let (mut child, mut stderr) = spawn_helper("stdio_server");
        call_on_stdio(&mut child, &mut stderr, "slow");
        send_signal(&child, signal);
        let mut answer = String::new();
        child.stdout.take().unwrap().read_to_string(&mut answer).unwrap();
        assert!(answer.contains("answered"), "{answer}");
        wait_for_line(&mut stderr, "over");
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }
}

#[test]
fn call_beyond_grace_period_is_abandoned() {
    let (mut child, mut stderr) = spawn_helper("hasty_stdio_server");
    call_on_stdio(&mut child, &mut stderr, "endless");
    send_signal(&child, Signal::TERM);
    let mut answer = String::new();
    child.stdout.take().unwrap().read_to_string(&mut answer).unwrap();
    assert!(answer.contains("the server is shutting down"), "{answer}");
    wait_for_line(&mut stderr, "over");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn second_signal_ends_process_at_once() {
    let (mut child, mut stderr) = spawn_helper("http_server");
    let _stream = call_over_http(&mut stderr);
    // Pending signals of one kind are merged, so the test sends them until the process has ended.
    let status = loop {
        send_signal(&child, Signal::TERM);
        thread::sleep(Duration::from_millis(10));
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
    };
    assert_eq!(status.signal(), Some(15));
}
