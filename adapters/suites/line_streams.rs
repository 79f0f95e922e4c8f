//! Suite: servers and clients at the addresses of byte streams.
//!
//! `crate::line_streams::serve` serves a stream by the adapter under test, and `crate::line_streams::talk` calls `echo` by its client.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::PathBuf;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use mcp_proto::{CallError, Fault, Limits, VersionSet, client};
use mcp_runtime::Error;
use mcp_runtime::server::{StreamServer, StreamServerHandle};
use mcp_std::io::{Duplex, Interest, SerialConfig, SerialPort, StreamAddress};
use rustix::pty::OpenptFlags;

use crate::line_streams::{serve, talk};
use crate::support::{
    DEADLINE, ERAS, INITIALIZE, call_line, client_config, server_config, version_set, with_timeout,
};

/// A server at an address, shut down at the end of its test.
struct Running {
    address: StreamAddress,
    handle: StreamServerHandle,
    thread: JoinHandle<io::Result<()>>,
}

impl Running {
    fn start(address: &StreamAddress, max_connections: usize) -> Self {
        Self::with(address, |server| server.max_connections(max_connections))
    }

    fn with(address: &StreamAddress, configure: impl FnOnce(StreamServer) -> StreamServer) -> Self {
        let server = configure(StreamServer::bind(address).expect("a free address"));
        let (address, handle) = (server.address().unwrap(), server.handle());
        let thread = thread::spawn(move || {
            server.run(|socket, connection| {
                serve(server_config(), Box::new(socket), |handle| connection.shut_down(handle))
            })
        });
        Self { address, handle, thread }
    }

    /// Waits until this number of connections is open.
    fn await_connections(&self, count: usize) {
        let begun = Instant::now();
        while self.handle.connections() != count {
            assert!(begun.elapsed() < DEADLINE, "{} connections are open", self.handle.connections());
            thread::sleep(Duration::from_millis(2));
        }
    }

    fn stop(self) {
        self.handle.shutdown(Duration::from_secs(1));
        self.thread.join().unwrap().expect("a listener");
        assert_eq!(self.handle.connections(), 0);
        assert!(self.address.connect(DEADLINE).is_err(), "nobody listens");
    }
}

fn tcp() -> StreamAddress {
    "tcp://127.0.0.1:0".parse().unwrap()
}

/// Returns a Unix address in an empty folder of this test.
fn unix(test: &str) -> StreamAddress {
    let name = format!("{}-{}-{test}", env!("CARGO_PKG_NAME"), std::process::id());
    let folder: PathBuf = std::env::temp_dir().join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir(&folder).unwrap();
    StreamAddress::Unix(folder.join("s"))
}

fn remove_folder(address: &StreamAddress) {
    let StreamAddress::Unix(path) = address else { return };
    assert!(!path.exists(), "the server removes its socket");
    fs::remove_dir(path.parent().unwrap()).unwrap();
}

/// Opens a legacy session on a raw stream. Returns it after the answer to `initialize`.
fn open_raw(address: &StreamAddress) -> Box<dyn Duplex + Send> {
    let mut stream = address.connect(DEADLINE).expect("a server");
    stream.write(INITIALIZE.as_bytes()).unwrap();
    assert!(read_some(&mut *stream).contains("protocolVersion"));
    stream
}

/// Reads what arrives next; nothing is the end of the stream.
fn read_some(stream: &mut dyn Duplex) -> String {
    let mut chunk = [0; 4096];
    loop {
        let ready = stream.wait(Interest::READ, Some(DEADLINE)).unwrap();
        assert!(ready.readable, "nothing arrives");
        match stream.read(&mut chunk) {
            Ok(count) => return String::from_utf8_lossy(&chunk[..count]).into_owned(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if mcp_std::io::is_peer_gone(&error) => return String::new(),
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn tcp_and_unix_streams_carry_both_eras() {
    with_timeout(|| {
        for address in [tcp(), unix("eras")] {
            let server = Running::start(&address, 8);
            for era in ERAS {
                let texts = ["one", "two", &"large ".repeat(50_000)];
                let config = client_config(version_set(era));
                let (spoken, answers) = talk(config, server.address.clone(), &texts).expect("a connection");
                assert_eq!(spoken, era);
                assert_eq!(answers.into_iter().map(Result::unwrap).collect::<Vec<_>>(), texts);
            }
            server.await_connections(0);
            server.stop();
            remove_folder(&address);
        }
    });
}

#[test]
fn error_names_the_address_that_nobody_listens_at() {
    with_timeout(|| {
        let address = unix("nobody");
        let error = talk(client_config(VersionSet::ALL), address.clone(), &[]).expect_err("no server");
        assert!(matches!(error, Error::Io(_)), "{error:?}");
        assert!(error.to_string().contains(&address.to_string()), "{error}");
        remove_folder(&address);
    });
}

#[test]
fn error_names_the_address_of_a_peer_that_closes() {
    with_timeout(|| {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = StreamAddress::Tcp(listener.local_addr().unwrap().to_string());
        let closing = thread::spawn(move || drop(listener.accept().unwrap()));
        let error = talk(client_config(VersionSet::LEGACY), address.clone(), &[]).expect_err("no server");
        closing.join().unwrap();
        assert!(error.to_string().contains(&address.to_string()), "{error}");
        assert!(!error.to_string().contains("stdin"), "{error}");
    });
}

#[test]
fn dropped_connection_ends_its_call_and_no_other_connection() {
    with_timeout(|| {
        let address = unix("dropped");
        let server = Running::start(&address, 8);
        let mut other = open_raw(&server.address);
        let mut leaving = open_raw(&server.address);
        leaving.write(call_line(1, "endless").as_bytes()).unwrap();
        server.await_connections(2);
        drop(leaving);
        server.await_connections(1);
        // The other one has a session of its own, with ids of its own.
        other.write(call_line(1, "echo").as_bytes()).unwrap();
        assert!(read_some(&mut *other).contains("\"id\":1"));
        drop(other);
        server.await_connections(0);
        server.stop();
        remove_folder(&address);
    });
}

#[test]
fn connection_beyond_the_limit_is_closed_at_once() {
    with_timeout(|| {
        for address in [tcp(), unix("limit")] {
            let server = Running::start(&address, 1);
            let first = open_raw(&server.address);
            let mut second = server.address.connect(DEADLINE).expect("it is accepted");
            assert_eq!(read_some(&mut *second), "", "the end of the stream");
            let error = talk(client_config(VersionSet::LEGACY), server.address.clone(), &[]);
            assert!(error.is_err(), "{error:?}");
            drop(first);
            server.await_connections(0);
            drop(open_raw(&server.address));
            server.await_connections(0);
            server.stop();
            remove_folder(&address);
        }
    });
}

/// Calls `echo` as a client that knows nothing of the others.
fn assert_served(server: &Running) {
    let config = client_config(VersionSet::LEGACY);
    let (_, answers) =
        talk(config, server.address.clone(), &["hello"]).expect("a place for an honest client");
    assert!(matches!(&answers[..], [Ok(text)] if text == "hello"), "{answers:?}");
}

/// Time in which a busy machine writes the first line of a client that is not silent.
const FIRST_LINE_TIMEOUT: Duration = Duration::from_secs(2);

// covers: SEC-018
#[test]
fn silent_client_is_closed_in_time() {
    with_timeout(|| {
        for address in [tcp(), unix("silent")] {
            let server = Running::with(&address, |server| {
                server.max_connections(2).first_line_timeout(FIRST_LINE_TIMEOUT)
            });
            let mut first = open_raw(&server.address);
            let begun = Instant::now();
            let mut silent = server.address.connect(DEADLINE).expect("there is room");
            // A part of a line is no line.
            silent.write(b"{\"jsonrpc\":").unwrap();
            assert_eq!(read_some(&mut *silent), "", "the end of the stream");
            assert!(begun.elapsed() >= FIRST_LINE_TIMEOUT);
            server.await_connections(1);
            assert_served(&server);
            // A client that has sent a line stays.
            first.write(call_line(1, "echo").as_bytes()).unwrap();
            assert!(read_some(&mut *first).contains("\"id\":1"));
            server.stop();
            remove_folder(&address);
        }
    });
}

// covers: SEC-018
#[test]
fn silent_clients_make_room_for_an_honest_one() {
    with_timeout(|| {
        let address = unix("crowd");
        let server = Running::start(&address, 3);
        let mut session = open_raw(&server.address);
        let mut silent: Vec<_> = (0..2)
            .map(|opened| {
                let stream = server.address.connect(DEADLINE).expect("there is room");
                server.await_connections(2 + opened);
                stream
            })
            .collect();
        thread::sleep(Duration::from_millis(1_100));
        assert_served(&server);
        // The one that was silent for longest has lost its place, and no other one.
        assert_eq!(read_some(&mut *silent[0]), "", "the end of the stream");
        silent[1].write(INITIALIZE.as_bytes()).unwrap();
        assert!(read_some(&mut *silent[1]).contains("protocolVersion"));
        session.write(call_line(1, "echo").as_bytes()).unwrap();
        assert!(read_some(&mut *session).contains("\"id\":1"));
        server.stop();
        remove_folder(&address);
    });
}

// covers: SEC-018
#[test]
fn longest_idle_session_makes_room_when_all_places_are_taken() {
    with_timeout(|| {
        let address = unix("idle");
        let server = Running::with(&address, |server| {
            server.max_connections(2).max_idle_time(Duration::from_millis(500))
        });
        let (mut idle, mut used) = (open_raw(&server.address), open_raw(&server.address));
        server.await_connections(2);
        thread::sleep(Duration::from_millis(600));
        used.write(call_line(1, "echo").as_bytes()).unwrap();
        assert!(read_some(&mut *used).contains("\"id\":1"));
        assert_served(&server);
        assert_eq!(read_some(&mut *idle), "", "the end of the stream");
        server.await_connections(1);
        // With room, an idle session stays.
        thread::sleep(Duration::from_millis(600));
        assert_served(&server);
        used.write(call_line(2, "echo").as_bytes()).unwrap();
        assert!(read_some(&mut *used).contains("\"id\":2"));
        server.stop();
        remove_folder(&address);
    });
}

// covers: SEC-018
#[test]
fn burst_of_silent_newcomers_takes_the_place_of_one_idle_session() {
    with_timeout(|| {
        let address = unix("burst");
        let server =
            Running::with(&address, |server| server.max_connections(3).max_idle_time(Duration::from_secs(1)));
        let mut sessions = [(); 3].map(|()| open_raw(&server.address));
        server.await_connections(3);
        thread::sleep(Duration::from_millis(1_100));
        let mut newcomers =
            [(); 3].map(|()| server.address.connect(DEADLINE).expect("the system accepts it"));
        for refused in &mut newcomers[1..] {
            assert_eq!(read_some(&mut **refused), "", "the end of the stream");
        }
        let is_open = |session: &mut Box<dyn Duplex + Send>| {
            // Fails if the connection has ended.
            let _ = session.write(call_line(1, "echo").as_bytes());
            read_some(&mut **session).contains("\"id\":1")
        };
        assert_eq!(sessions.iter_mut().map(is_open).filter(|is_open| *is_open).count(), 2);
        server.stop();
        remove_folder(&address);
    });
}

#[test]
fn shutdown_ends_open_connections() {
    with_timeout(|| {
        let address = unix("shutdown");
        let server = Running::start(&address, 8);
        let (mut idle, mut busy) = (open_raw(&server.address), open_raw(&server.address));
        busy.write(call_line(1, "endless").as_bytes()).unwrap();
        server.await_connections(2);
        server.handle.shutdown(Duration::from_millis(100));
        assert_eq!(read_some(&mut *idle), "");
        while !read_some(&mut *busy).is_empty() {}
        server.stop();
        remove_folder(&address);
    });
}

/// A serial line: two pseudo-terminals, and a thread for each direction between them.
struct SerialLine {
    near: SerialConfig,
    far: SerialConfig,
    /// Number of lines that lost a byte.
    damaged: Arc<AtomicUsize>,
}

impl SerialLine {
    fn new() -> Self {
        let ((near_end, near), (far_end, far)) = (open_terminal(), open_terminal());
        let damaged = Arc::<AtomicUsize>::default();
        let (to_near, to_far) = (near_end.try_clone().unwrap(), far_end.try_clone().unwrap());
        let (count, mut boot) = (Arc::clone(&damaged), to_near.try_clone().unwrap());
        thread::spawn(move || {
            relay(near_end, to_far, |line| {
                // The board starts when it is spoken to, and its boot loader is chatty.
                if count.load(Ordering::SeqCst) == 0 && line.len() <= 1 {
                    let noise =
                        b"\xff\xfe\x00 rst:0x1 (POWERON)\r\n[boot] ok\r\n\r\nmcp> \r\n42\n".repeat(20);
                    boot.write_all(&noise).unwrap();
                }
                let text = String::from_utf8_lossy(line).into_owned();
                if let Some(at) = text.find("\"damage me\"") {
                    line.remove(at);
                    count.fetch_add(1, Ordering::SeqCst);
                }
                if text.contains("\"lose me\"") {
                    line.clear();
                }
            });
        });
        thread::spawn(move || relay(far_end, to_near, |_| {}));
        Self { near, far, damaged }
    }
}

fn open_terminal() -> (File, SerialConfig) {
    let end = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    rustix::pty::grantpt(&end).unwrap();
    rustix::pty::unlockpt(&end).unwrap();
    let name = rustix::pty::ptsname(&end, Vec::new()).unwrap().into_string().unwrap();
    (end.into(), SerialConfig::new(name))
}

/// Copies lines, changed by `change`, while both ends exist. An end that nobody has open is read as an error.
fn relay(mut from: File, mut to: File, mut change: impl FnMut(&mut Vec<u8>)) {
    let (mut line, mut byte) = (Vec::new(), [0]);
    loop {
        match from.read(&mut byte) {
            Ok(1..) => line.push(byte[0]),
            _ => thread::sleep(Duration::from_millis(2)),
        }
        if line.ends_with(b"\n") {
            change(&mut line);
            if to.write_all(&line).is_err() {
                return;
            }
            line.clear();
        }
    }
}

#[test]
fn serial_line_carries_both_eras_past_noise_and_lost_bytes() {
    with_timeout(|| {
        for era in ERAS {
            let line = SerialLine::new();
            let port = SerialPort::open(&line.far).expect("a terminal");
            let (sender, handle) = std::sync::mpsc::channel();
            let server = thread::spawn(move || {
                serve(server_config(), Box::new(port), |handle| sender.send(handle).unwrap())
            });
            let handle = handle.recv().unwrap();
            let mut limits = Limits::default();
            limits.call_timeout = Duration::from_secs(3);
            let config = client::Config::new("test", "1").versions(version_set(era)).limits(limits);
            let address = StreamAddress::Serial(line.near.clone());
            let texts = ["one", "damage me", "lose me", "four"];
            let (spoken, answers) = talk(config, address, &texts).expect("a connection despite of the noise");
            assert_eq!(spoken, era);
            assert_eq!(line.damaged.load(Ordering::SeqCst), 1);
            assert!(matches!(&answers[0], Ok(text) if text == "one"), "{answers:?}");
            // The id of a damaged request can be recovered, that of a lost one cannot.
            assert!(
                matches!(&answers[1], Err(Error::Call(CallError::Rpc(error))) if error.code == -32700),
                "{answers:?}"
            );
            assert!(matches!(&answers[2], Err(Error::Call(CallError::TimedOut))), "{answers:?}");
            assert!(matches!(&answers[3], Ok(text) if text == "four"), "{answers:?}");
            handle.shutdown(Duration::ZERO);
            server.join().unwrap().expect("an orderly end");
        }
    });
}

#[test]
fn unplugged_serial_line_ends_the_connection() {
    with_timeout(|| {
        let (board, config) = open_terminal();
        let address = StreamAddress::Serial(config);
        let unplugging = thread::spawn(move || {
            let (mut board, mut byte) = (board, [0]);
            // The client has opened the line when its first byte arrives.
            while !matches!(board.read(&mut byte), Ok(1)) {
                thread::sleep(Duration::from_millis(2));
            }
        });
        let error = talk(client_config(VersionSet::LEGACY), address.clone(), &[]).expect_err("no board");
        unplugging.join().unwrap();
        let Error::Closed(closed) = &error else { panic!("{error:?}") };
        assert_eq!(closed.fault, Fault::Eof);
        assert!(error.to_string().contains(&address.to_string()), "{error}");
    });
}
