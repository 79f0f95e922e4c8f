//! A server that the system tells to end
#![cfg(unix)]

use core::time::Duration;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Stdio};
use std::thread;

use mcp_proto::http::server::Config as Http;
use mcp_proto::model::CallToolResult;
use mcp_proto::server::Config;
use mcp_proto::{Capabilities, Capability};
use mcp_threads::{Call, Cx, HttpServer, on_terminate};
use rustix::process::{Pid, Signal, kill_process};

const DEADLINE: Duration = Duration::from_secs(60);

/// Not a test: the server that the tests start
#[test]
#[ignore = "it is started by the others"]
fn helper() {
    let config = Config::new("test", "1").capabilities(Capabilities::new().with(Capability::Tools));
    let answer = |cx: &mut Cx<'_>, _: &Call| {
        eprintln!("begun");
        cx.sleep(Duration::from_millis(300))?;
        cx.complete(&CallToolResult::text("answered"))
    };
    let mut server = HttpServer::bind("127.0.0.1:0", config, Http::new(), answer).unwrap().shards(2);
    let handle = server.handle().unwrap();
    on_terminate(move || handle.shutdown(DEADLINE)).unwrap();
    eprintln!("at {}", server.address().unwrap());
    server.run().unwrap();
    eprintln!("over");
}

fn start() -> (Child, BufReader<std::process::ChildStderr>, TcpStream) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["helper", "--exact", "--ignored", "--nocapture"])
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let address = line(&mut said, "at ");
    let mut stream = TcpStream::connect(address.strip_prefix("at ").unwrap()).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let meta = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"n","arguments":{{}},"_meta":{meta}}}}}"#
    );
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n\
         Mcp-Method: tools/call\r\nMcp-Name: n\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).unwrap();
    line(&mut said, "begun");
    (child, said, stream)
}

/// The next line that begins so
fn line(said: &mut impl std::io::BufRead, begins: &str) -> String {
    said.lines().map(Result::unwrap).find(|line| line.starts_with(begins)).expect("a line")
}

fn terminate(child: &Child) {
    let pid = Pid::from_raw(child.id().try_into().unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
}

#[test]
fn a_server_that_is_told_to_end_answers_what_it_has_and_ends() {
    let (mut child, mut said, mut stream) = start();
    terminate(&child);
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("answered"), "{answer}");
    line(&mut said, "over");
    assert!(child.wait().unwrap().success());
}

#[test]
fn who_is_told_twice_ends_at_once() {
    let (mut child, _said, _stream) = start();
    // Signals of one kind that wait are one: told until it is gone.
    let status = loop {
        terminate(&child);
        thread::sleep(Duration::from_millis(10));
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
    };
    assert_eq!(status.signal(), Some(15));
}
