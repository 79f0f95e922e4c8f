//! Suite: handles, by which any thread publishes changes, reaches the engine or ends a server that waits.
//!
//! `crate::adapter` names the adapter under test.

#![allow(elided_lifetimes_in_paths, reason = "the context has a lifetime in some adapters only")]
#![allow(unused_mut, reason = "only some adapters take a handle of `&mut self`")]

use core::time::Duration;
use std::io::{BufRead, BufReader, ErrorKind, Write as _};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use mcp_proto::model::CallToolResult;
use mcp_proto::server::{Config, Engine};
use mcp_proto::{Capabilities, Capability, Change, Limit, RpcError, UseError};
use mcp_std::io::{Duplex, Interest};

use crate::adapter::{
    Answered, Call, Cx, Error, Handle, handler, handler_fn, make_stdio_server, run_on_reactor,
    serve_with_handle, server_handle, wait,
};
use crate::support::{DEADLINE, INITIALIZE, call_line, with_timeout};

/// Pause after which a server waits for its client.
const PAUSE: Duration = Duration::from_millis(50);

handler_fn! {
    /// Answers after a pause.
    fn answer(cx: &mut Cx, _: &Call) -> Result<Answered, RpcError> {
        wait!(cx.sleep(PAUSE))?;
        cx.complete(&CallToolResult::text("answered"))
    }
}

fn config() -> Config {
    let capabilities = Capabilities::new().with(Capability::Tools).with(Capability::ToolsListChanged);
    Config::new("test", "1").capabilities(capabilities)
}

/// The client end of a stream, whose server runs on a thread.
struct ServedStream {
    stream: Box<dyn Duplex>,
    read: Vec<u8>,
    handle: Handle,
    serving: JoinHandle<Result<(), Error>>,
}

impl ServedStream {
    /// Opens a legacy session, and waits until the server waits for more.
    fn open() -> Self {
        let make = || handler!(|cx: &mut Cx, call: &Call| wait!(answer(cx, call)));
        let (stream, handle, serving) = serve_with_handle(config(), make);
        let mut served = Self { stream, read: Vec::new(), handle, serving };
        served.write(INITIALIZE);
        assert!(served.expect_line().contains("\"result\""), "a session");
        thread::sleep(PAUSE);
        served
    }

    fn write(&mut self, text: &str) {
        assert_eq!(self.stream.write(text.as_bytes()).unwrap(), text.len(), "room for a frame");
    }

    /// Reads the next line; `None` at the end of the stream.
    fn read_line(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line = self.read.drain(..=end).collect();
                return Some(String::from_utf8(line).unwrap());
            }
            let mut buffer = [0; 4096];
            match self.stream.read(&mut buffer) {
                Ok(0) => return None,
                Ok(n) => self.read.extend_from_slice(&buffer[..n]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.stream.wait(Interest::READ, Some(DEADLINE)).unwrap();
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn expect_line(&mut self) -> String {
        self.read_line().expect("a line")
    }

    /// Waits until a call runs, or has been answered.
    fn await_call(&mut self) {
        let mut live_calls = 0;
        while live_calls == 0 && !self.stream.wait(Interest::READ, Some(Duration::ZERO)).unwrap().readable {
            let (tell, told) = mpsc::channel();
            self.handle.with_engine(move |engine, _| tell.send(engine.live_calls()).unwrap()).unwrap();
            live_calls = told.recv_timeout(DEADLINE).unwrap();
        }
    }

    /// Expects the end of the stream and of the server, after which commands are refused.
    fn expect_end(mut self) {
        assert_eq!(self.read_line(), None, "the end");
        self.serving.join().unwrap().unwrap();
        assert!(self.handle.is_over());
        assert_eq!(self.handle.publish(&Change::Tools), Err(UseError::Closed));
        assert_eq!(self.handle.with_engine(|_, _| ()), Err(UseError::Closed));
        self.handle.shutdown(DEADLINE);
    }
}

#[test]
fn handle_is_shared_by_threads() {
    fn assert_shared<T: Clone + Send + Sync + 'static>() {}
    assert_shared::<Handle>();
}

// covers: TOOL-019
#[test]
fn change_from_other_thread_reaches_client_of_waiting_server() {
    with_timeout(|| {
        let mut served = ServedStream::open();
        for _ in 0..3 {
            let handle = served.handle.clone();
            thread::spawn(move || handle.publish(&Change::Tools)).join().unwrap().unwrap();
            assert!(served.expect_line().contains("notifications/tools/list_changed"));
            thread::sleep(PAUSE);
        }
        served.handle.shutdown(DEADLINE);
        served.expect_end();
    });
}

#[test]
fn commands_of_one_thread_run_in_order_on_waiting_server() {
    with_timeout(|| {
        let served = ServedStream::open();
        let (results, received) = mpsc::channel();
        for number in 0..100 {
            let results = results.clone();
            served
                .handle
                .with_engine(move |engine, _| results.send((number, engine.live_calls())).unwrap())
                .unwrap();
        }
        drop(results);
        assert!(received.iter().eq((0..100).map(|number| (number, 0))), "in order");
        served.handle.shutdown(Duration::ZERO);
        served.expect_end();
    });
}

#[test]
fn waiting_commands_are_bounded_and_changes_are_not() {
    with_timeout(|| {
        let mut served = ServedStream::open();
        let (release, released) = mpsc::channel::<()>();
        // The loop does nothing else until the test has sent its commands.
        served.handle.with_engine(move |_, _| _ = released.recv()).unwrap();
        let refusal = (0..2_000).find_map(|_| served.handle.with_engine(|_, _| ()).err());
        assert_eq!(refusal, Some(UseError::Full(Limit::LoopCommands)));
        served.handle.publish(&Change::Tools).unwrap();
        served.handle.shutdown(DEADLINE);
        drop(release);
        assert!(served.expect_line().contains("notifications/tools/list_changed"));
        served.expect_end();
    });
}

#[test]
fn shutdown_from_other_thread_ends_waiting_server() {
    with_timeout(|| {
        let served = ServedStream::open();
        let handle = served.handle.clone();
        assert!(!handle.is_over());
        thread::spawn(move || handle.shutdown(DEADLINE)).join().unwrap();
        served.expect_end();
    });
}

#[test]
fn shutdown_lets_running_call_finish() {
    with_timeout(|| {
        let mut served = ServedStream::open();
        served.write(&call_line(1, "slow"));
        served.await_call();
        served.handle.shutdown(DEADLINE);
        assert!(served.expect_line().contains("answered"));
        served.expect_end();
    });
}

/// The server on stdin and stdout that a test starts as a process: it publishes a change, and later ends itself.
#[test]
#[ignore = "another test starts it as a process"]
fn stdio_server() {
    let handler = handler!(|cx: &mut Cx, call: &Call| wait!(answer(cx, call)));
    let mut server = make_stdio_server(config(), handler);
    let handle = server_handle!(server);
    thread::spawn(move || {
        // A change before the session is open has no receiver.
        while count_subscribers(&handle) == 0 {
            thread::sleep(PAUSE);
        }
        handle.publish(&Change::Tools).unwrap();
        handle.shutdown(DEADLINE);
    });
    run_on_reactor!(server.run()).unwrap();
    std::process::exit(7);
}

/// Publishes a change by a command of the engine, and returns the number of its subscribers.
fn count_subscribers(handle: &Handle) -> usize {
    let (sender, receiver) = mpsc::channel();
    let publish = move |engine: &mut Engine, now| sender.send(engine.publish(now, &Change::Tools)).unwrap();
    handle.with_engine(publish).unwrap();
    receiver.recv().unwrap()
}

fn spawn_stdio_server() -> (Child, BufReader<ChildStdout>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["suites::handles::stdio_server", "--exact", "--ignored", "--nocapture"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    (child, stdout)
}

#[test]
fn thread_of_stdio_server_publishes_and_ends_it() {
    with_timeout(|| {
        let (mut child, stdout) = spawn_stdio_server();
        // Stdin stays open, so only the handle can wake or end the server.
        child.stdin.as_mut().unwrap().write_all(INITIALIZE.as_bytes()).unwrap();
        let lines: Vec<String> = stdout.lines().map(Result::unwrap).collect();
        let changes = lines.iter().filter(|line| line.contains("notifications/tools/list_changed")).count();
        assert!(changes > 0, "{lines:?}");
        assert_eq!(child.wait().unwrap().code(), Some(7));
    });
}
