//! Signals: servers answer running calls, and no server process is left behind.

use core::time::Duration;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ChildStderr, ChildStdout, Stdio};
use std::thread;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::http::ServingProcess;
use crate::support::{PROBE, probe, probe_command};

const RUNTIMES: [&str; 3] = ["blocking", "threads", "smol"];

/// Command of a server that prints its process id and continues after the end of its input.
const STAYING_SERVER: [&str; 7] = [
    "--stderr",
    "inherit",
    "--",
    "sh",
    "-c",
    r#"echo "$$" >&2; "$0" serve --everything; exec sleep 1000"#,
    PROBE,
];

fn send_signal(id: u32, signal: Signal) {
    kill_process(Pid::from_raw(id.try_into().unwrap()).unwrap(), signal).unwrap();
}

/// Returns whether a process has ended or ends soon.
pub(crate) fn has_exited(id: &str) -> bool {
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

struct ProbeProcess {
    child: Child,
    output: BufReader<ChildStdout>,
    stderr: BufReader<ChildStderr>,
}

impl ProbeProcess {
    fn new(args: &[&str]) -> Self {
        let mut child = probe_command()
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program under test starts");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let stderr = BufReader::new(child.stderr.take().expect("piped"));
        Self { child, output, stderr }
    }

    fn signal(&self, signal: Signal) {
        send_signal(self.child.id(), signal);
    }

    /// Starts a call of `count` up to `to`, with steps of 50 ms, and waits for its first progress report.
    fn start_count(&mut self, id: u32, to: u32) {
        let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28", "progressToken": id,
            "io.modelcontextprotocol/clientCapabilities": {}});
        let arguments = json!({"to": to, "delay_ms": 50});
        let params = json!({"name": "count", "arguments": arguments, "_meta": meta});
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        writeln!(self.child.stdin.as_mut().expect("piped"), "{call}").expect("it reads");
        assert_eq!(self.read_message()["method"], "notifications/progress");
    }

    fn read_message(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("UTF-8");
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("no message: {line:?}"))
    }

    /// Reads the next message with an id.
    fn read_answer(&mut self) -> Value {
        loop {
            let message = self.read_message();
            if message["id"].is_u64() {
                return message;
            }
        }
    }

    /// Reads the next line of stderr.
    fn read_stderr_line(&mut self) -> String {
        let mut line = String::new();
        self.stderr.read_line(&mut line).expect("UTF-8");
        line.trim().to_owned()
    }

    /// Checks that after a signal short calls are answered and long ones fail.
    fn assert_drains(mut self, signal: Signal) {
        self.start_count(1, 6);
        self.start_count(2, 1_000_000);
        self.signal(signal);
        let done = self.read_answer();
        assert_eq!((&done["id"], &done["result"]["content"][0]["text"]), (&1.into(), &"counted to 6".into()));
        let lost = self.read_answer();
        assert_eq!(lost["id"], 2);
        assert!(lost["error"]["message"].as_str().is_some_and(|why| why.contains("shutting down")), "{lost}");
        assert!(self.child.wait().expect("it ends").success());
        let mut rest = String::new();
        self.stderr.read_to_string(&mut rest).expect("UTF-8");
        assert_eq!(rest, "");
    }
}

#[test]
fn signalled_client_ends_its_server() {
    let count = ["call", "count", "--args", r#"{"to": 1000000}"#];
    for runtime in RUNTIMES {
        for (command, signal) in [(&["listen"][..], Signal::INT), (&count, Signal::TERM)] {
            let mut client = ProbeProcess::new(&[command, &["--runtime", runtime], &STAYING_SERVER].concat());
            let server = client.read_stderr_line();
            if command == count {
                assert!(client.read_stderr_line().contains("progress"));
            } else {
                client.output.read_line(&mut String::new()).expect("UTF-8");
            }
            client.signal(signal);
            let status = client.child.wait().expect("it ends");
            assert_eq!(status.signal(), Some(signal.as_raw()), "{runtime} {command:?}: {status}");
            assert!(has_exited(&server), "{runtime} {command:?}");
            // Effects of the termination are not reported as failures.
            let mut rest = String::new();
            client.stderr.read_to_string(&mut rest).expect("UTF-8");
            assert!(!rest.contains("error"), "{rest}");
        }
    }
}

#[test]
fn signalled_client_ends_server_during_handshake() {
    let never = ["--stderr", "inherit", "--", "sh", "-c", r#"echo "$$" >&2; exec sleep 1000"#];
    for command in [&["inspect"][..], &["bridge", "--http", "127.0.0.1:0"]] {
        let mut client = ProbeProcess::new(&[command, &never].concat());
        let server = client.read_stderr_line();
        client.signal(Signal::INT);
        assert_eq!(client.child.wait().expect("it ends").signal(), Some(Signal::INT.as_raw()));
        assert!(has_exited(&server), "{command:?}");
    }
}

#[test]
fn signalled_server_answers_running_calls() {
    for runtime in RUNTIMES {
        ProbeProcess::new(&["serve", "--runtime", runtime]).assert_drains(Signal::TERM);
        ProbeProcess::new(&["serve", "--everything", "--runtime", runtime]).assert_drains(Signal::INT);
        let mut serving = ServingProcess::new(&["--runtime", runtime]);
        answers_over_http(&mut serving);
    }
}

fn answers_over_http(serving: &mut ServingProcess) {
    let id = serving.id();
    let call = ["call", "count", "--args", r#"{"to": 10, "delay_ms": 60}"#, &serving.url];
    thread::scope(|scope| {
        let mut watched = ProbeProcess::new(&call);
        assert!(watched.read_stderr_line().contains("progress"));
        scope.spawn(move || send_signal(id, Signal::TERM));
        assert!(watched.child.wait().expect("it ends").success());
    });
    assert_eq!(serving.wait_exit_code(), Some(0));
    probe(&["ping", &serving.url]).assert_code(3);
}

#[test]
fn signalled_bridge_answers_running_calls_and_ends_its_server() {
    for signal in [Signal::TERM, Signal::INT] {
        ProbeProcess::new(&["bridge", "--", PROBE, "serve", "--runtime", "threads"]).assert_drains(signal);
        let mut bridge = ProbeProcess::new(&[&["bridge"][..], &STAYING_SERVER].concat());
        bridge.start_count(1, 1_000_000);
        let server = bridge.read_stderr_line();
        bridge.signal(signal);
        assert!(bridge.child.wait().expect("it ends").success());
        assert!(has_exited(&server));
    }
    answers_over_http(&mut ServingProcess::bridge(&["--", PROBE, "serve"]));
}

#[test]
fn signalled_bridge_without_client_ends_its_server_at_once() {
    let mut bridge = ProbeProcess::new(&[&["bridge"][..], &STAYING_SERVER].concat());
    bridge.start_count(1, 1);
    let server = bridge.read_stderr_line();
    drop(bridge.child.stdin.take());
    // The output has ended: from now on the bridge waits for its server.
    bridge.output.read_to_string(&mut String::new()).expect("UTF-8");
    bridge.signal(Signal::TERM);
    bridge.child.wait().expect("it ends");
    assert!(has_exited(&server));
}
