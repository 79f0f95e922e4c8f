//! Servers and clients on sockets and serial lines that carry one message per line.

use core::time::Duration;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::bridge::assert_all_features;
use crate::http::ServingProcess;
use crate::support::{ClosedAddress, PROBE, probe};

const RUNTIMES: [&str; 4] = ["blocking", "threads", "smol", "tokio"];
const ANY_PORT: &str = "tcp://127.0.0.1:0";

/// Returns `unix:PATH` in an empty folder of this test.
fn unix(test: &str) -> (String, PathBuf) {
    let folder = std::env::temp_dir().join(format!("mcp-probe-{}-{test}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir(&folder).expect("a folder");
    (format!("unix:{}", folder.join("s").display()), folder)
}

fn serving(address: &str, args: &[&str]) -> ServingProcess {
    ServingProcess::listening(&["serve", "--listen", address], args)
}

#[test]
fn commands_reach_a_server_on_a_socket() {
    let (unix, folder) = unix("commands");
    for address in [ANY_PORT, &unix] {
        let server = serving(address, &["--everything"]);
        for era in ["legacy", "modern"] {
            assert_all_features(&|args| probe(&[args, &[&server.url]].concat()), era);
        }
        probe(&["ping", "-n", "2", "--interval", "0", &server.url]).assert_ok();
        probe(&["check", &server.url]).assert_ok();
        probe(&["prompt", "travel_plan", "country=norway", "days=5", &server.url]).assert_ok();
        probe(&["skills", "verify", &server.url]).assert_ok();
        drop(server);
    }
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn every_runtime_serves_and_calls_on_sockets() {
    for (server, client) in RUNTIMES.into_iter().zip(RUNTIMES.into_iter().rev()) {
        let server = serving(ANY_PORT, &["--runtime", server]);
        let echo = ["call", "echo", "text=hello", "--runtime", client, &server.url];
        probe(&echo).assert_ok().assert_stdout(&["hello"]);
        probe(&echo).assert_ok().assert_stdout(&["hello"]);
    }
}

#[test]
fn bridge_leads_from_and_to_sockets() {
    let (unix, folder) = unix("bridge");
    let server = serving(ANY_PORT, &["--everything", "--era", "legacy"]);
    // stdio to a socket.
    for client in ["legacy", "modern"] {
        assert_all_features(&|args| probe(&[args, &["--", PROBE, "bridge", &server.url]].concat()), client);
    }
    // A socket to a socket, several clients one after the other, and two at a time.
    let bridge = ServingProcess::listening(&["bridge", "--listen", &unix], &[&server.url]);
    assert_all_features(&|args| probe(&[args, &[&bridge.url]].concat()), "modern");
    let follow = bridge.url.clone();
    let following =
        thread::spawn(move || probe(&["listen", "clock://running", "--count", "2", &follow]).assert_ok());
    probe(&["call", "echo", "text=beside", &bridge.url]).assert_ok().assert_stdout(&["beside"]);
    following.join().expect("changes arrive");
    // A socket to a process: each client has its own.
    let processes = ServingProcess::listening(&["bridge", "--listen", ANY_PORT], &["--", PROBE, "serve"]);
    for text in ["one", "two"] {
        probe(&["call", "echo", &format!("text={text}"), &processes.url]).assert_ok().assert_stdout(&[text]);
    }
    // HTTP to a socket.
    let http = ServingProcess::bridge(&[&server.url]);
    probe(&["call", "echo", "text=http", &http.url]).assert_ok().assert_stdout(&["http"]);
    drop((bridge, processes, http));
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn connection_beyond_the_limit_is_closed() {
    let server = serving(ANY_PORT, &["--max-connections", "1"]);
    let address = server.url.strip_prefix("tcp://").expect("the address");
    let mut first = TcpStream::connect(address).unwrap();
    // One that has sent nothing would lose its place.
    first.write_all(b"\n").unwrap();
    let mut second = TcpStream::connect(address).unwrap();
    second.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    assert_eq!(second.read(&mut [0; 8]).unwrap(), 0);
    probe(&["ping", &server.url]).assert_code(3).assert_stderr(&[&server.url]);
}

#[test]
fn wrong_addresses_are_failures_that_name_them() {
    let free = ClosedAddress::new();
    let nobody = format!("tcp://{free}");
    for command in [&["inspect"][..], &["call", "echo"], &["check"], &["ping"]] {
        probe(&[command, &[&nobody]].concat()).assert_code(3).assert_stderr(&[&nobody, "host and port"]);
    }
    probe(&["inspect", "tcp://127.0.0.1"]).assert_code(2).assert_stderr(&["port is missing"]);
    probe(&["inspect", "--bearer", "x", &nobody])
        .assert_code(2)
        .assert_stderr(&["--bearer needs a server over HTTP"]);
    probe(&["inspect", "--env", "X", &nobody]).assert_code(2).assert_stderr(&["--env"]);
    probe(&["inspect", "--serial", "/dev/null"]).assert_code(3).assert_stderr(&["serial:/dev/null:115200"]);
    probe(&["inspect", "--serial", "/dev/x", &nobody]).assert_code(2);
    probe(&["check", "--serial", "/dev/x"]).assert_code(2).assert_stderr(&["serial line"]);
    probe(&["serve", "--listen", "http://127.0.0.1:1"]).assert_code(2).assert_stderr(&["tcp://"]);
    probe(&["serve", "--listen", ANY_PORT, "--http", "127.0.0.1:0"]).assert_code(2);
    probe(&["serve", "--listen", "serial:/dev/x"]).assert_code(3).assert_stderr(&["no connections"]);
    let taken = serving(ANY_PORT, &[]);
    probe(&["serve", "--listen", &taken.url]).assert_code(3).assert_stderr(&["in use"]);
}

#[test]
fn address_that_other_machines_reach_is_noted() {
    let server = serving("tcp://0.0.0.0:0", &[]);
    let port = server.url.rsplit(':').next().expect("a port").to_owned();
    probe(&["ping", "-n", "1", &format!("tcp://127.0.0.1:{port}")]).assert_ok();
    let noted = server.stop();
    assert!(noted.contains("other machines can reach this address"), "{noted}");
    let local = serving(ANY_PORT, &[]);
    assert!(!local.stop().contains("other machines"));
}

#[test]
fn server_removes_its_socket_on_a_signal() {
    let (unix, folder) = unix("signal");
    let mut server = Command::new(PROBE)
        .args(["serve", "--listen", &unix])
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program under test starts");
    let mut line = String::new();
    BufReader::new(server.stderr.take().expect("piped")).read_line(&mut line).unwrap();
    assert_eq!(line.trim(), format!("listening at {unix}"));
    let pid = rustix::process::Pid::from_child(&server);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(server.wait().unwrap().success());
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0, "no socket is left");
    // A socket that a killed server left is replaced.
    let killed = serving(&unix, &[]);
    killed.stop();
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    probe(&["ping", "-n", "1", &serving(&unix, &[]).url]).assert_ok();
    fs::remove_dir_all(folder).unwrap();
}

/// A board on a serial line: a server on stdio behind a pseudo-terminal, whose boot loader is chatty.
struct Board {
    server: Child,
    line: String,
}

impl Board {
    fn new(serve: &[&str]) -> Self {
        let end = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&end).unwrap();
        unlockpt(&end).unwrap();
        let line = ptsname(&end, Vec::new()).unwrap().into_string().unwrap();
        let (mut from_line, mut to_line) = (File::from(end.try_clone().unwrap()), File::from(end));
        let mut server = Command::new(PROBE)
            .arg("serve")
            .args(serve)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program under test starts");
        let (mut stdin, stdout) = (server.stdin.take().unwrap(), server.stdout.take().unwrap());
        thread::spawn(move || {
            for line in BufReader::new(stdout).split(b'\n') {
                let Ok(mut line) = line else { return };
                line.push(b'\n');
                if to_line.write_all(&line).is_err() {
                    return;
                }
            }
        });
        let mut noise = from_line.try_clone().unwrap();
        thread::spawn(move || {
            let (mut chunk, mut has_booted) = ([0; 4096], false);
            loop {
                match from_line.read(&mut chunk) {
                    Ok(count @ 1..) => {
                        if !core::mem::replace(&mut has_booted, true) {
                            noise.write_all(b"\xff\x00 rst:0x1 (POWERON)\r\nboot ok\r\n").unwrap();
                        }
                        if stdin.write_all(&chunk[..count]).is_err() {
                            return;
                        }
                    }
                    // While nobody has the line open, reading fails.
                    _ => thread::sleep(Duration::from_millis(2)),
                }
            }
        });
        Self { server, line }
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

#[test]
fn commands_reach_a_board_on_a_serial_line_despite_its_boot_messages() {
    for runtime in RUNTIMES {
        let board = Board::new(&[]);
        let serial = format!("{}:9600", board.line);
        probe(&["inspect", "--serial", &serial, "--runtime", runtime])
            .assert_ok()
            .assert_stdout(&["echo"])
            .assert_stderr(&["a line of the server is not a message", "POWERON", "boot ok"]);
        // The line is free again, and the board still runs.
        probe(&["call", "echo", "text=hello", "--serial", &serial, "--runtime", runtime])
            .assert_ok()
            .assert_stdout(&["hello"]);
        probe(&["ping", "-n", "1", "--serial", &serial]).assert_ok();
    }
    let board = Board::new(&[]);
    for client in ["legacy", "modern"] {
        let bridged =
            ["call", "echo", "text=hello", "--era", client, "--", PROBE, "bridge", "--serial", &board.line];
        probe(&bridged).assert_ok().assert_stdout(&["hello"]);
    }
}

#[test]
fn server_serves_a_serial_line() {
    for runtime in RUNTIMES {
        let end = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&end).unwrap();
        unlockpt(&end).unwrap();
        let line = ptsname(&end, Vec::new()).unwrap().into_string().unwrap();
        let mut server = Command::new(PROBE)
            .args(["serve", "--runtime", runtime, "--serial", &line])
            .stderr(Stdio::null())
            .spawn()
            .expect("the program under test starts");
        let mut far = File::from(end);
        let mut answers = BufReader::new(far.try_clone().unwrap());
        let begun = Instant::now();
        let echoes = |far: &File| {
            let settings = rustix::termios::tcgetattr(far).unwrap();
            settings.local_modes.contains(rustix::termios::LocalModes::ECHO)
        };
        while echoes(&far) {
            assert!(begun.elapsed() < Duration::from_secs(60), "the line is not opened");
            thread::sleep(Duration::from_millis(10));
        }
        // What the server receives before it has opened the line completely is discarded, so this is said again.
        let (answered, is_answered) = mpsc::channel::<()>();
        let saying = thread::spawn(move || {
            loop {
                let ping = b"\x00boot\n\n{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}\n";
                far.write_all(ping).unwrap();
                if is_answered.recv_timeout(Duration::from_secs(1)) != Err(mpsc::RecvTimeoutError::Timeout) {
                    return far;
                }
            }
        });
        let mut answer = String::new();
        while !answer.contains("\"id\":7") {
            answer.clear();
            assert_ne!(answers.read_line(&mut answer).unwrap(), 0, "the server has ended");
        }
        assert!(!answer.contains("method"), "an echo: {answer}");
        drop(answered);
        let far = saying.join().unwrap();
        // Unplugged, which is the end of the server.
        drop((far, answers));
        assert!(server.wait().unwrap().success());
    }
}
