//! Streams at addresses: Unix domain sockets, and serial lines over pseudo-terminals.

use core::time::Duration;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::Instant;

use mcp_std::io::{Duplex, Interest, SerialConfig, SerialPort, StreamAddress, StreamListener};
use rustix::pty::OpenptFlags;
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};

const DEADLINE: Duration = Duration::from_secs(20);

/// Returns the path of a socket in an empty folder of this test.
fn socket_path(test: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("mcp-std-{}-{test}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir(&folder).expect("a folder");
    folder.join("s")
}

fn accept(listener: &StreamListener) -> impl Duplex + use<> {
    let begun = Instant::now();
    loop {
        match listener.accept().expect("a listener") {
            Some(socket) => return socket,
            None => assert!(begun.elapsed() < DEADLINE, "no connection"),
        }
    }
}

fn read_line(stream: &mut impl Duplex) -> String {
    let (mut line, mut byte) = (Vec::new(), [0]);
    loop {
        let ready = stream.wait(Interest::READ, Some(DEADLINE)).expect("a stream");
        assert!(!ready.is_empty(), "nothing arrives after {:?}", String::from_utf8_lossy(&line));
        match stream.read(&mut byte) {
            Ok(0) => return String::from_utf8(line).expect("UTF-8"),
            Ok(_) if byte[0] == b'\n' => return String::from_utf8(line).expect("UTF-8"),
            Ok(_) => line.push(byte[0]),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
    }
}

#[test]
fn unix_socket_connects_and_its_file_is_private_and_removed() {
    let path = socket_path("roundtrip");
    let address = StreamAddress::Unix(path.clone());
    let listener = StreamListener::bind(&address).expect("a free path");
    assert_eq!(listener.address().unwrap(), address);
    assert!(!listener.is_reachable_from_outside().unwrap());
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let mut near = address.connect(DEADLINE).expect("a listener");
    let mut far = accept(&listener);
    near.write(b"to the server\n").unwrap();
    assert_eq!(read_line(&mut far), "to the server");
    far.write(b"to the client\n").unwrap();
    assert_eq!(read_line(&mut near), "to the client");
    drop(far);
    assert_eq!(read_line(&mut near), "", "the end");
    drop(listener);
    assert!(!path.exists());
    let error = address.connect(DEADLINE).err().expect("nobody listens");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains(&format!("unix:{}", path.display())), "{error}");
    fs::remove_dir_all(path.parent().unwrap()).unwrap();
}

#[test]
fn stale_socket_is_replaced_and_nothing_else() {
    let path = socket_path("stale");
    let address = StreamAddress::Unix(path.clone());
    // As a process that was killed leaves it.
    drop(UnixListener::bind(&path).unwrap());
    let error = address.connect(DEADLINE).err().expect("nobody listens");
    assert!(error.to_string().contains("nobody listens"), "{error}");
    let listener = StreamListener::bind(&address).expect("a stale socket is replaced");
    let _client = UnixStream::connect(&path).unwrap();
    let second = StreamListener::bind(&address).expect_err("somebody listens");
    assert_eq!(second.kind(), ErrorKind::AddrInUse);
    assert!(second.to_string().contains("another process listens"), "{second}");
    UnixStream::connect(&path).expect("the first listener goes on");
    // A listener removes its own file only.
    fs::remove_file(&path).unwrap();
    fs::write(&path, "data").unwrap();
    drop(listener);
    let error = StreamListener::bind(&address).expect_err("a file");
    assert_eq!(error.kind(), ErrorKind::AddrInUse);
    assert!(error.to_string().contains("no socket"), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "data");
    fs::remove_dir_all(path.parent().unwrap()).unwrap();
}

#[test]
fn address_in_use_and_serial_line_are_refused_by_name() {
    let first = StreamListener::bind(&"tcp://127.0.0.1:0".parse().unwrap()).unwrap();
    let address = first.address().unwrap();
    let second = StreamListener::bind(&address).expect_err("in use");
    assert_eq!(second.kind(), ErrorKind::AddrInUse);
    let StreamAddress::Tcp(authority) = &address else { panic!("{address}") };
    assert!(second.to_string().contains(authority), "{second}");
    assert!(!first.is_reachable_from_outside().unwrap());
    let wide = StreamListener::bind(&"tcp://0.0.0.0:0".parse().unwrap()).unwrap();
    assert!(wide.is_reachable_from_outside().unwrap());
    let serial = StreamListener::bind(&"serial:/dev/null".parse().unwrap()).expect_err("no connections");
    assert_eq!(serial.kind(), ErrorKind::InvalidInput);
}

/// A pseudo-terminal: the end of the board, and the path of the line.
struct Board {
    end: fs::File,
    line: PathBuf,
}

impl Board {
    fn new() -> Self {
        let end: OwnedFd = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pty");
        rustix::pty::grantpt(&end).unwrap();
        rustix::pty::unlockpt(&end).unwrap();
        // A new pseudo-terminal sends back what arrives before it is opened. No serial line does.
        let mut settings = tcgetattr(&end).unwrap();
        settings.local_modes.remove(LocalModes::ECHO);
        tcsetattr(&end, OptionalActions::Now, &settings).unwrap();
        let name = rustix::pty::ptsname(&end, Vec::new()).unwrap();
        Self { end: end.into(), line: std::ffi::OsString::from_vec(name.into_bytes()).into() }
    }

    fn config(&self) -> SerialConfig {
        SerialConfig { device: self.line.clone(), baud: 9_600 }
    }
}

#[test]
fn serial_line_is_raw_and_carries_every_byte() {
    let mut board = Board::new();
    let mut port = SerialPort::open(&board.config()).expect("a terminal device");
    // All that a terminal would change: interrupts, end of input, flow control, line ends, the eighth bit.
    let bytes: Vec<u8> = (0..=255).chain([b'\r', 3, 4, 17, 19, 26, 28]).collect();
    board.end.write_all(&bytes).unwrap();
    let mut read = Vec::new();
    while read.len() < bytes.len() {
        assert!(port.wait(Interest::READ, Some(DEADLINE)).unwrap().readable, "{read:?}");
        let mut chunk = [0; 512];
        let count = port.read(&mut chunk).unwrap();
        read.extend_from_slice(&chunk[..count]);
    }
    assert_eq!(read, bytes);
    assert_eq!(port.read(&mut [0; 8]).expect_err("no input").kind(), ErrorKind::WouldBlock, "no end");
    assert_eq!(port.write(&bytes).unwrap(), bytes.len());
    // Nothing was echoed, so the first bytes are these.
    let mut seen = vec![0; bytes.len()];
    board.end.read_exact(&mut seen).unwrap();
    assert_eq!(seen, bytes);
    let settings = tcgetattr(&board.end).unwrap();
    assert_eq!((settings.input_speed(), settings.output_speed()), (9_600, 9_600));
}

#[test]
fn closed_serial_line_has_its_settings_back() {
    let board = Board::new();
    let settings = || {
        let found = tcgetattr(&board.end).unwrap();
        let modes = (found.input_modes, found.output_modes, found.control_modes, found.local_modes);
        (modes, found.input_speed(), found.output_speed())
    };
    let before = settings();
    let mut port = SerialPort::open(&board.config()).expect("a terminal device");
    assert_ne!(settings(), before);
    port.write(b"last\n").unwrap();
    drop(port);
    assert_eq!(settings(), before);
    let mut sent = [0; 5];
    (&board.end).read_exact(&mut sent).unwrap();
    assert_eq!(&sent, b"last\n");
}

#[test]
fn serial_line_ends_when_it_is_unplugged() {
    let board = Board::new();
    let mut port = SerialPort::open(&board.config()).expect("a terminal device");
    drop(board);
    assert!(port.wait(Interest::READ, Some(DEADLINE)).unwrap().readable);
    assert_eq!(port.read(&mut [0; 8]).unwrap(), 0);
    assert_eq!(port.write(b"x").expect_err("unplugged").kind(), ErrorKind::BrokenPipe);
}

#[test]
fn serial_line_in_use_and_other_files_are_refused() {
    let board = Board::new();
    let port = SerialPort::open(&board.config()).expect("a terminal device");
    let error = SerialPort::open(&board.config()).expect_err("in use");
    assert_eq!(error.kind(), ErrorKind::ResourceBusy);
    drop(port);
    SerialPort::open(&board.config()).expect("free again");
    let error = SerialPort::open(&SerialConfig::new("/dev/null")).expect_err("no terminal");
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    let error = StreamAddress::Serial(SerialConfig::new("/dev/mcp-no-such-line")).connect(DEADLINE).err();
    let error = error.expect("no device");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("serial:/dev/mcp-no-such-line:115200"), "{error}");
}

#[test]
fn connecting_client_ends_a_line_of_noise_at_the_board() {
    let mut board = Board::new();
    // Left over from before: discarded here, and ended there by an empty line.
    board.end.write_all(b"boot: ok").unwrap();
    let mut port = StreamAddress::Serial(board.config()).connect(DEADLINE).expect("a terminal device");
    port.write(b"{}\n").unwrap();
    let mut seen = [0; 4];
    board.end.read_exact(&mut seen).unwrap();
    assert_eq!(&seen, b"\n{}\n");
    board.end.write_all(b"ready\n").unwrap();
    assert_eq!(read_line(&mut port), "ready");
    port.shutdown_write().unwrap();
    assert_eq!(port.write(b"x").expect_err("ended").kind(), ErrorKind::BrokenPipe);
}
