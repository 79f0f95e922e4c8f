//! What the tests share: deadlines, servers in a thread, scripted streams, and the example programs

#![allow(dead_code, unused_imports, unreachable_pub, reason = "each test program uses a part of it")]

mod tools;

pub use tools::{Tools, raw_text, text};

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::time::Duration;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, Once, mpsc};
use std::thread::{self, JoinHandle};

use mcp_blocking::{Client, Error, Handler, Options, serve};
use mcp_proto::{Capabilities, Capability, Era, Limits, VersionSet, client, server};
use mcp_std::child::{Patience, Program, Stderr};
use mcp_std::{Duplex, Interest, Ready};

/// Generous, as test machines are slow and shared; nothing waits this long unless it hangs
pub const DEADLINE: Duration = Duration::from_secs(120);

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
            .args(["build", "-p", "mcp-blocking", "--examples"])
            .env("CARGO_TARGET_DIR", profile.parent().expect("target"));
        if profile.ends_with("release") {
            build.arg("--release");
        }
        assert!(build.status().expect("cargo").success(), "the examples cannot be built");
    });
    path
}

/// A server that misbehaves in the way that `mode` says
pub fn odd(mode: &str) -> Program {
    Program::new(example("odd_server")).arg(mode).stderr(Stderr::Capture)
}

/// A client that does not wait long for anything that may not come
pub fn hasty() -> Options {
    Client::options(speaks(VersionSet::ALL)).patience(Patience::each(Duration::from_millis(200)))
}

pub fn speaks(versions: VersionSet) -> client::Config {
    client::Config::new("test", "1").versions(versions)
}

/// With time-outs of the handshake that no test waits long for
pub fn short_client() -> client::Config {
    let mut limits = Limits::default();
    limits.probe_timeout = Duration::from_millis(100);
    limits.init_timeout = Duration::from_millis(300);
    speaks(VersionSet::ALL).limits(limits)
}

pub fn server() -> server::Config {
    server::Config::new("test", "1").capabilities(Capabilities::new().with(Capability::Tools))
}

pub const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

pub fn only(era: Era) -> VersionSet {
    VersionSet::ALL.era(era)
}

/// A client and a server of one era in two threads, on a stream that holds `capacity` bytes each way
pub fn pair(
    era: Era,
    capacity: usize,
    handler: impl Handler + Send + 'static,
) -> (Client, JoinHandle<Result<(), Error>>) {
    let (near, far) = mcp_std::memory_pair(capacity);
    let server = thread::spawn(move || serve(server(), near, handler));
    let client = Client::connect(speaks(only(era)), far).expect("a connection");
    assert_eq!(client.peer().era(), era);
    (client, server)
}

/// A stream that reads what a script says and notes each write
///
/// Time passes in it as it does outside: a wait for more than the script has takes until its timeout.
#[derive(Clone, Default)]
pub struct Script {
    shared: Arc<Mutex<Shared>>,
}

#[derive(Default)]
struct Shared {
    input: VecDeque<Vec<u8>>,
    writes: Vec<Vec<u8>>,
    /// Bytes that may still be written before the peer is gone
    room: Option<usize>,
    waits: usize,
}

impl Script {
    /// One piece for each read
    pub fn new<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let script = Self::default();
        script.shared.lock().unwrap().input = pieces.into_iter().map(<[u8]>::to_vec).collect();
        script
    }

    /// The peer is gone after so many bytes
    pub fn takes(self, bytes: usize) -> Self {
        self.shared.lock().unwrap().room = Some(bytes);
        self
    }

    pub fn writes(&self) -> Vec<Vec<u8>> {
        self.shared.lock().unwrap().writes.clone()
    }

    pub fn written(&self) -> String {
        String::from_utf8(self.writes().concat()).unwrap()
    }

    pub fn waits(&self) -> usize {
        self.shared.lock().unwrap().waits
    }
}

impl Duplex for Script {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let Some(piece) = self.shared.lock().unwrap().input.pop_front() else { return Ok(0) };
        assert!(piece.len() <= buf.len(), "a piece longer than a read");
        buf[..piece.len()].copy_from_slice(&piece);
        Ok(piece.len())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut shared = self.shared.lock().unwrap();
        let n = shared.room.unwrap_or(bytes.len()).min(bytes.len());
        if n == 0 {
            return Err(ErrorKind::BrokenPipe.into());
        }
        shared.room = shared.room.map(|room| room - n);
        shared.writes.push(bytes[..n].to_vec());
        Ok(n)
    }

    fn wait(&mut self, interest: Interest, timeout: Option<Duration>) -> io::Result<Ready> {
        let mut shared = self.shared.lock().unwrap();
        shared.waits += 1;
        assert!(interest.read || interest.write || timeout.is_some(), "a wait for nothing");
        if !interest.read && !interest.write {
            thread::sleep(timeout.unwrap_or_default());
        }
        Ok(Ready { readable: interest.read, writable: interest.write })
    }

    fn shutdown_write(&mut self) -> io::Result<()> {
        Ok(())
    }
}
