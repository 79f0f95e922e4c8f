//! What is told to end: servers answer what is in work, and nobody leaves behind what he has started

use core::time::Duration;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::http::Serving;
use crate::support::{PROBE, probe};

const RUNTIMES: [&str; 3] = ["blocking", "threads", "smol"];

/// A server that goes on after the end of its input, and says which process it is
const STAYS: [&str; 7] = [
    "--stderr",
    "inherit",
    "--",
    "sh",
    "-c",
    r#"echo "$$" >&2; "$0" serve --everything; exec sleep 1000"#,
    PROBE,
];

fn told(id: u32, signal: Signal) {
    kill_process(Pid::from_raw(id.try_into().unwrap()).unwrap(), signal).unwrap();
}

/// It has ended, or does so soon
fn is_gone(id: &str) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(20) {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        if stat.rsplit(')').next().is_none_or(|rest| rest.is_empty() || rest.starts_with(" Z")) {
            return true;
        }
        thread::sleep(Duration::from_millis(10));
    }
    false
}

struct Running {
    child: Child,
    output: BufReader<ChildStdout>,
    said: BufReader<ChildStderr>,
}

impl Running {
    fn new(args: &[&str]) -> Self {
        let mut child = Command::new(PROBE)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program under test starts");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let said = BufReader::new(child.stderr.take().expect("piped"));
        Self { child, output, said }
    }

    fn tell(&self, signal: Signal) {
        told(self.child.id(), signal);
    }

    /// Begins a call that counts so far, in steps of a twentieth of a second
    fn count(&mut self, id: u32, to: u32) {
        let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28", "progressToken": id,
            "io.modelcontextprotocol/clientCapabilities": {}});
        let arguments = json!({"to": to, "delay_ms": 50});
        let params = json!({"name": "count", "arguments": arguments, "_meta": meta});
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        writeln!(self.child.stdin.as_mut().expect("piped"), "{call}").expect("it reads");
        assert_eq!(self.message()["method"], "notifications/progress");
    }

    fn message(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("UTF-8");
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("no message: {line:?}"))
    }

    /// The next that is no progress
    fn answer(&mut self) -> Value {
        loop {
            let message = self.message();
            if message["id"].is_u64() {
                return message;
            }
        }
    }

    /// The next line on stderr
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.said.read_line(&mut line).expect("UTF-8");
        line.trim().to_owned()
    }

    /// It answers what it can, and says so of the rest
    fn drains(mut self, signal: Signal) {
        self.count(1, 6);
        self.count(2, 1_000_000);
        self.tell(signal);
        let done = self.answer();
        assert_eq!((&done["id"], &done["result"]["content"][0]["text"]), (&1.into(), &"counted to 6".into()));
        let lost = self.answer();
        assert_eq!(lost["id"], 2);
        assert!(lost["error"]["message"].as_str().is_some_and(|why| why.contains("shutting down")), "{lost}");
        assert!(self.child.wait().expect("it ends").success());
        let mut rest = String::new();
        self.said.read_to_string(&mut rest).expect("UTF-8");
        assert_eq!(rest, "");
    }
}

#[test]
fn clients_end_the_servers_that_they_have_started() {
    let count = ["call", "count", "--args", r#"{"to": 1000000}"#];
    for runtime in RUNTIMES {
        for (command, signal) in [(&["listen"][..], Signal::INT), (&count, Signal::TERM)] {
            let mut client = Running::new(&[command, &["--runtime", runtime], &STAYS].concat());
            let server = client.line();
            if command == count {
                assert!(client.line().contains("progress"));
            } else {
                client.output.read_line(&mut String::new()).expect("UTF-8");
            }
            client.tell(signal);
            let status = client.child.wait().expect("it ends");
            assert_eq!(status.signal(), Some(signal.as_raw()), "{runtime} {command:?}: {status}");
            assert!(is_gone(&server), "{runtime} {command:?}");
            // What comes of the end is not told as if it was a failure.
            let mut rest = String::new();
            client.said.read_to_string(&mut rest).expect("UTF-8");
            assert!(!rest.contains("error"), "{rest}");
        }
    }
}

#[test]
fn a_server_that_never_becomes_ready_is_ended_too() {
    let never = ["--stderr", "inherit", "--", "sh", "-c", r#"echo "$$" >&2; exec sleep 1000"#];
    for command in [&["inspect"][..], &["bridge", "--http", "127.0.0.1:0"]] {
        let mut client = Running::new(&[command, &never].concat());
        let server = client.line();
        client.tell(Signal::INT);
        assert_eq!(client.child.wait().expect("it ends").signal(), Some(Signal::INT.as_raw()));
        assert!(is_gone(&server), "{command:?}");
    }
}

#[test]
fn servers_answer_what_is_in_work() {
    for runtime in RUNTIMES {
        Running::new(&["serve", "--runtime", runtime]).drains(Signal::TERM);
        Running::new(&["serve", "--everything", "--runtime", runtime]).drains(Signal::INT);
        let mut serving = Serving::new(&["--runtime", runtime]);
        answers_over_http(&mut serving);
    }
}

fn answers_over_http(serving: &mut Serving) {
    let id = serving.id();
    let call = ["call", "count", "--args", r#"{"to": 10, "delay_ms": 60}"#, &serving.url];
    thread::scope(|scope| {
        let mut watched = Running::new(&call);
        assert!(watched.line().contains("progress"));
        scope.spawn(move || told(id, Signal::TERM));
        assert!(watched.child.wait().expect("it ends").success());
    });
    assert_eq!(serving.code(), Some(0));
    probe(&["ping", &serving.url]).code(3);
}

#[test]
fn a_bridge_answers_what_is_in_work_and_ends_its_server() {
    for signal in [Signal::TERM, Signal::INT] {
        Running::new(&["bridge", "--", PROBE, "serve", "--runtime", "threads"]).drains(signal);
        let mut bridge = Running::new(&[&["bridge"][..], &STAYS].concat());
        bridge.count(1, 1_000_000);
        let server = bridge.line();
        bridge.tell(signal);
        assert!(bridge.child.wait().expect("it ends").success());
        assert!(is_gone(&server));
    }
    answers_over_http(&mut Serving::bridge(&["--", PROBE, "serve"]));
}

#[test]
fn a_bridge_whose_client_has_left_does_not_wait_for_its_server_when_it_is_told_to_end() {
    let mut bridge = Running::new(&[&["bridge"][..], &STAYS].concat());
    bridge.count(1, 1);
    let server = bridge.line();
    drop(bridge.child.stdin.take());
    // Nothing more comes: from now on it waits for the server.
    bridge.output.read_to_string(&mut String::new()).expect("UTF-8");
    bridge.tell(Signal::TERM);
    bridge.child.wait().expect("it ends");
    assert!(is_gone(&server));
}
