//! What the tests share: deadlines, messages, scripted streams, and clients in a thread

#![allow(dead_code, unreachable_pub, reason = "each test program uses a part of it")]

mod tools;

#[allow(unused_imports, reason = "not every program uses them")]
pub use tools::{Tools, raw_text, text};

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use std::io::{self, BufRead as _, BufReader, ErrorKind, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, Once, mpsc};
use std::thread::{self, JoinHandle};

use async_io::Async;
use futures_lite::{AsyncRead, AsyncWrite};
use mcp_proto::{Capabilities, Capability, Era, VersionSet, client, server};
use mcp_smol::{Error, Handle, Handler, Server};

/// Generous, as test machines are slow and shared; nothing waits this long unless it hangs
pub const DEADLINE: Duration = Duration::from_secs(120);

pub const OPENING: &str = "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-11-25\",\
                           \"capabilities\":{},\"clientInfo\":{\"name\":\"x\",\"version\":\"1\"}}}\n\
                           {\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n";

pub fn call(id: u32, tool: &str) -> String {
    format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":{{\"name\":\"{tool}\",\"_meta\":{{\"progressToken\":{id}}}}}}}\n"
    )
}

pub fn cancel(id: u32) -> String {
    format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{{\"requestId\":{id}}}}}\n"
    )
}

/// The ids of the answers, in order
pub fn ids(written: &str) -> Vec<i64> {
    let ids =
        written.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["id"].as_i64());
    ids.flatten().collect()
}

pub fn server() -> server::Config {
    server::Config::new("test", "1").capabilities(Capabilities::new().with(Capability::Tools))
}

pub fn speaks(versions: VersionSet) -> client::Config {
    client::Config::new("test", "1").versions(versions)
}

pub const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

pub fn only(era: Era) -> VersionSet {
    VersionSet::ALL.era(era)
}

/// What a handler of a test was told, in words; clones share it
#[derive(Clone, Default)]
pub struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    pub fn note(&self, line: impl Into<String>) {
        self.0.lock().unwrap().push(line.into());
    }

    pub fn take(&self) -> Vec<String> {
        core::mem::take(&mut self.0.lock().unwrap())
    }
}

/// Runs `f` on a thread and fails when it does not return in time
pub fn in_time<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> T {
    let (tx, rx) = mpsc::channel();
    let thread = thread::spawn(move || drop(tx.send(f())));
    match rx.recv_timeout(DEADLINE) {
        Ok(value) => value,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("hangs"),
        Err(mpsc::RecvTimeoutError::Disconnected) => match thread.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => unreachable!(),
        },
    }
}

/// One of the example programs of this package
///
/// Built along with the tests, unless only some tests are: then here.
pub fn example(name: &str) -> PathBuf {
    static BUILD: Once = Once::new();
    let me = std::env::current_exe().expect("a path");
    let profile = me.parent().and_then(|deps| deps.parent()).expect("target/profile/deps");
    let path = profile.join("examples").join(name).with_extension(std::env::consts::EXE_EXTENSION);
    BUILD.call_once(|| {
        if path.exists() {
            return;
        }
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut build = Command::new(cargo);
        build
            .args(["build", "-p", "mcp-smol", "-p", "mcp-blocking", "--examples"])
            .env("CARGO_TARGET_DIR", profile.parent().expect("target"));
        if profile.ends_with("release") {
            build.arg("--release");
        }
        assert!(build.status().expect("cargo").success(), "the examples cannot be built");
    });
    path
}

/// A stream that reads what a script says and notes each write
#[derive(Clone, Default)]
pub struct Script(Arc<Mutex<Shared>>);

#[derive(Default)]
struct Shared {
    input: VecDeque<Vec<u8>>,
    writes: Vec<Vec<u8>>,
    /// Bytes that may still be written before the peer is gone
    room: Option<usize>,
    /// The next read finds nothing, once
    pause: bool,
}

impl Script {
    /// One piece for each read
    pub fn new<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let script = Self::default();
        script.0.lock().unwrap().input = pieces.into_iter().map(<[u8]>::to_vec).collect();
        script
    }

    /// The peer is gone after so many bytes
    pub fn takes(self, bytes: usize) -> Self {
        self.0.lock().unwrap().room = Some(bytes);
        self
    }

    pub fn writes(&self) -> Vec<Vec<u8>> {
        self.0.lock().unwrap().writes.clone()
    }

    pub fn written(&self) -> String {
        String::from_utf8(self.writes().concat()).unwrap()
    }
}

impl AsyncRead for Script {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut shared = self.0.lock().unwrap();
        shared.pause = !shared.pause;
        if shared.pause {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let Some(piece) = shared.input.pop_front() else { return Poll::Ready(Ok(0)) };
        assert!(piece.len() <= buf.len(), "a piece longer than a read");
        buf[..piece.len()].copy_from_slice(&piece);
        Poll::Ready(Ok(piece.len()))
    }
}

impl AsyncWrite for Script {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut shared = self.0.lock().unwrap();
        let n = shared.room.unwrap_or(bytes.len()).min(bytes.len());
        if n == 0 {
            return Poll::Ready(Err(ErrorKind::BrokenPipe.into()));
        }
        shared.room = shared.room.map(|room| room - n);
        shared.writes.push(bytes[..n].to_vec());
        Poll::Ready(Ok(n))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// A server in a thread, and the other end of its stream, with time-outs that fail the test
pub struct Served {
    pub stream: UnixStream,
    pub handle: Handle,
    pub thread: JoinHandle<Result<(), Error>>,
    reader: BufReader<UnixStream>,
}

impl Served {
    pub fn new(config: server::Config, handler: impl Handler + Send + 'static) -> Self {
        Self::with(config, handler, |server| server)
    }

    pub fn with<H: Handler + Send + 'static>(
        config: server::Config,
        handler: H,
        more: impl FnOnce(Server<Async<UnixStream>, H>) -> Server<Async<UnixStream>, H>,
    ) -> Self {
        let (near, stream) = UnixStream::pair().unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.set_write_timeout(Some(DEADLINE)).unwrap();
        let server = more(Server::new(config, Async::new(near).unwrap(), handler));
        let handle = server.handle();
        let thread = thread::spawn(move || async_io::block_on(server.run()));
        let reader = BufReader::new(stream.try_clone().unwrap());
        let mut served = Self { stream, handle, thread, reader };
        served.send(OPENING);
        assert_eq!(served.line()["id"], 0);
        served
    }

    pub fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).unwrap();
    }

    /// The next line that it writes
    pub fn line(&mut self) -> serde_json::Value {
        let mut line = String::new();
        assert!(self.reader.read_line(&mut line).unwrap() > 0, "the stream has ended");
        serde_json::from_str(&line).unwrap()
    }

    /// Waits until the server has ended, which it does after what is to be read
    pub fn end(self) -> Result<(), Error> {
        self.stream.shutdown(std::net::Shutdown::Write).unwrap();
        let outcome = self.thread.join().unwrap();
        drop(self.stream);
        outcome
    }
}
